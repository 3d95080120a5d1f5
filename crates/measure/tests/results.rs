//! A results directory through what happens to it: written, read, killed, cut, resumed, filled up.

#![expect(clippy::unwrap_used, reason = "a test says what it skips, and may unwrap in its helpers")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use engine::Span;
use hdrhistogram::Histogram;
use measure::event::{Ended, Note, Session};
use measure::{
    AdapterRecord, Axis, CallsRecord, CellRecord, Discarded, Event, FlowRecord, Health, Interval, LoadRecord, Metric,
    PacketCounts, PacketPoint, PairsRecord, PipeRecord, Quantiles, RecordError, Recorder, Recording, SCHEMA, Scalar,
    Study, VoiceRecord,
};
use serde_json::json;

/// A directory that goes away with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("narrows-measure-{name}-{}", std::process::id()));
        fs::remove_dir_all(&dir).ok();
        Self(dir)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

fn scalar(label: &str) -> Scalar {
    Scalar { label: label.into(), number: label.parse().ok() }
}

fn plan() -> String {
    let axes = vec![
        Axis { key: "radio.loss".into(), values: vec![scalar("0"), scalar("0.10")] },
        Axis { key: "path".into(), values: vec![scalar("host"), scalar("over, lay \"x\"")] },
    ];
    let cells: Vec<_> = (0..4)
        .map(|id| {
            json!({"id": id, "repeat": 0, "flows": [{"name": "lidar"}], "anything": {"else": 1},
                "coordinates": [["radio.loss", axes[0].values[id / 2]], ["path", axes[1].values[id % 2]]]})
        })
        .collect();
    let study = Study { axes: axes.clone(), ..Study::default() };
    json!({"schema": SCHEMA, "version": "0.1.0", "name": "test", "seed": u64::MAX, "study": study, "cells": cells})
        .to_string()
}

fn cell(id: u32) -> CellRecord {
    let quantiles = Quantiles { count: 3, min: 0.001, p50: 0.1, p90: 0.2, p99: 1.0 / 3.0, max: 1e-9 };
    let mut lateness = Histogram::new(3).unwrap();
    lateness.record_n(12_345, u64::from(id) + 1).unwrap();
    let loss = scalar(if id / 2 == 0 { "0" } else { "0.10" });
    let path = scalar(if id.is_multiple_of(2) { "host" } else { "over, lay \"x\"" });
    let packets = PacketCounts { sent: 10, received: 9, duplicated: 1, reordered: 0 };
    CellRecord {
        cell: id,
        repeat: 0,
        attempt: 0,
        coordinates: vec![("radio.loss".into(), loss), ("path".into(), path)],
        seed: u64::MAX - 1,
        flows: vec![
            FlowRecord {
                flow: "lidar".into(),
                from: "ship".into(),
                to: "shore".into(),
                protocol: "tcp".into(),
                engine: "own".into(),
                offered_bit_s: Some(2e6),
                connect: Some(Span::from_nanos(250_000_001)),
                measured: Span::from_secs(60),
                sent_bytes: 15_000_000,
                received_bytes: 14_999_999,
                rtt: Some(quantiles),
                retransmits: Some(0),
                intervals: vec![Interval {
                    end: Span::from_secs(20),
                    received_bytes: 5,
                    cwnd_bytes: Some(14_480),
                    ..Interval::default()
                }],
                ..FlowRecord::default()
            },
            FlowRecord {
                flow: "voice".into(),
                adapter: Some("radio.ship".into()),
                protocol: "udp".into(),
                packets: Some(packets),
                delay: Some(quantiles),
                jitter_s: Some(0.25),
                voice: Some(VoiceRecord { rating: Some(80.5), burst_ratio: 1.25, ..VoiceRecord::default() }),
                pairs: Some(PairsRecord { count: 22, rate_bit_s: 7287.0, ..PairsRecord::default() }),
                calls: Some(CallsRecord { tried: 2, setup_p50_s: Some(0.5), ..CallsRecord::default() }),
                transfer_s: Some(12.5),
                load: Some(LoadRecord {
                    packets_s: 100.5,
                    sample_delay_s: Some(0.001),
                    peak_sent: 12,
                    peak_received: 11,
                }),
                series: vec![PacketPoint { number: 3, back: true, delay_s: Some(0.5), ..PacketPoint::default() }],
                intervals: vec![Interval { packets: Some(packets), delay_s: Some(0.3), ..Interval::default() }; 2],
                error: Some("refused,\nthen \"gone\"".into()),
                ..FlowRecord::default()
            },
        ],
        pipes: vec![PipeRecord {
            link: "radio".into(),
            direction: "up".into(),
            pipe: "main".into(),
            offered_packets: 100,
            drops: vec![("loss".into(), 3), ("queue full".into(), 4)],
            ..PipeRecord::default()
        }],
        captures: Vec::new(),
        adapters: vec![AdapterRecord {
            adapter: "radio.ship".into(),
            link: "radio".into(),
            site: "ship".into(),
            measured: Span::from_secs(60),
            line_bit_s: 7_680.0,
            line_bytes: 9_200,
            real_time_line_bytes: 1_200,
            data_line_bytes: 7_200,
            framing_line_bytes: 800,
            data_packets: 6,
            bad_frames: 3,
            lost_packets: 2,
            header_mean_bytes: Some(3.125),
            real_time_delay: Some(quantiles),
            gap: Some(quantiles),
            ..AdapterRecord::default()
        }],
        discarded: vec![Discarded { place: "radio at ship".into(), reason: "wire full".into(), packets: 5 }],
        health: Health {
            packets: 7,
            late_limit: Span::from_micros(200),
            lateness: quantiles,
            cpu_s: vec![("emulator".into(), 0.5), ("kernel".into(), 1.25)],
            machine_busy: 0.75,
            ..Health::default()
        },
        histograms: vec![("lateness".into(), lateness)],
    }
}

/// Asserts that a cell came back as it was, but for line breaks in text.
fn assert_same(written: &CellRecord, read: &CellRecord) {
    assert!(written.histograms == read.histograms, "histograms of cell {}", written.cell);
    let fields = |cell: &CellRecord| {
        let cell = CellRecord { histograms: Vec::new(), ..cell.clone() };
        format!("{cell:#?}").replace("\\n", " ")
    };
    assert_eq!(fields(written), fields(read));
}

#[test]
fn what_is_written_is_read() {
    let scratch = Scratch::new("round");
    let mut recorder = Recorder::create(&scratch.0, &plan()).unwrap();
    recorder.event(&Event::Session(Session { executor: "real".into(), ..Session::default() })).unwrap();
    let cells: Vec<CellRecord> = (0..4).map(cell).collect();
    // Cells finish in any order.
    for id in [2, 0, 3, 1] {
        recorder.cell(&cells[id]).unwrap();
    }
    recorder.event(&Event::Ended(Ended { elapsed_s: Some(2.5), interrupted: false })).unwrap();
    let recording = Recording::load(&scratch.0).unwrap();
    assert_eq!((recording.outline.seed, Recording::seed_of(&scratch.0).unwrap()), (u64::MAX, u64::MAX));
    assert_eq!(recording.sessions().count(), 1);
    assert_eq!(recording.elapsed_s(), Some(2.5));
    assert_eq!(recording.cells.len(), 4);
    for (written, read) in cells.iter().zip(&recording.cells) {
        assert_same(written, read);
    }
}

#[test]
fn every_metric_has_its_column() {
    let scratch = Scratch::new("columns");
    Recorder::create(&scratch.0, &plan()).unwrap();
    let header = fs::read_to_string(scratch.0.join("cells.csv")).unwrap();
    let adapters = fs::read_to_string(scratch.0.join("adapters.csv")).unwrap();
    let packets = fs::read_to_string(scratch.0.join("packets.csv")).unwrap();
    for metric in Metric::ALL {
        assert!(
            [&header, &adapters, &packets].iter().any(|h| h.trim_end().split(',').any(|c| c == metric.column())),
            "{}",
            metric.column()
        );
    }
    let columns: Vec<&str> = header.trim_end().split(',').collect();
    for axis in ["radio.loss", "path"] {
        assert!(columns.contains(&axis), "{axis}");
    }
}

#[test]
fn the_guide_describes_every_column() {
    let scratch = Scratch::new("guide");
    Recorder::create(&scratch.0, &plan()).unwrap();
    let guide =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/src/results.md")).unwrap();
    for table in ["cells", "samples", "links", "drops", "cpu", "packets", "adapters"] {
        let header = fs::read_to_string(scratch.0.join(format!("{table}.csv"))).unwrap();
        for column in header.trim_end().split(',').filter(|c| !["radio.loss", "path"].contains(c)) {
            assert!(guide.contains(&format!("`{column}`")), "{table}.csv: {column}");
        }
    }
}

#[test]
fn a_torn_tail_is_cut_and_the_run_goes_on() {
    let scratch = Scratch::new("torn");
    let mut recorder = Recorder::create(&scratch.0, &plan()).unwrap();
    recorder.cell(&cell(0)).unwrap();
    recorder.cell(&cell(1)).unwrap();
    drop(recorder);
    let whole: Vec<(PathBuf, Vec<u8>)> = [
        "samples.csv",
        "links.csv",
        "drops.csv",
        "cpu.csv",
        "packets.csv",
        "adapters.csv",
        "cells.csv",
        "events.jsonl",
    ]
    .iter()
    .map(|name| (scratch.0.join(name), fs::read(scratch.0.join(name)).unwrap()))
    .collect();
    // Cell 2 as a whole, to be cut at every point a kill can leave it at.
    let mut recorder = Recorder::resume(&scratch.0, &plan(), "real").unwrap().0;
    recorder.cell(&cell(2)).unwrap();
    drop(recorder);
    let full: Vec<Vec<u8>> = whole.iter().map(|(path, _)| fs::read(path).unwrap()).collect();
    for torn in 0..whole.len() {
        for cut in whole[torn].1.len()..full[torn].len() {
            // Files are written in this order: those before are complete, those after untouched.
            for (i, (path, before)) in whole.iter().enumerate() {
                let bytes = match i.cmp(&torn) {
                    std::cmp::Ordering::Less => &full[i],
                    std::cmp::Ordering::Equal => &full[i][..cut].to_vec(),
                    std::cmp::Ordering::Greater => before,
                };
                fs::write(path, bytes).unwrap();
            }
            assert_eq!(Recording::load(&scratch.0).unwrap().cells.len(), 2, "file {torn} cut at {cut}");
            let (recorder, finished) = Recorder::resume(&scratch.0, &plan(), "real").unwrap();
            assert_eq!(finished.iter().map(|f| f.cell).collect::<Vec<_>>(), [0, 1]);
            drop(recorder);
            for (path, before) in &whole {
                assert_eq!(&fs::read(path).unwrap(), before, "{} after file {torn} was cut at {cut}", path.display());
            }
        }
    }
}

#[test]
fn lost_rows_make_a_cell_unfinished() {
    // After a power failure one file may be shorter than another.
    let scratch = Scratch::new("power");
    let mut recorder = Recorder::create(&scratch.0, &plan()).unwrap();
    recorder.cell(&cell(0)).unwrap();
    let length = fs::metadata(scratch.0.join("links.csv")).unwrap().len();
    recorder.cell(&cell(1)).unwrap();
    drop(recorder);
    fs::OpenOptions::new().write(true).open(scratch.0.join("links.csv")).unwrap().set_len(length).unwrap();
    assert_eq!(Recording::load(&scratch.0).unwrap().cells.len(), 1);
    let (mut recorder, finished) = Recorder::resume(&scratch.0, &plan(), "real").unwrap();
    assert_eq!(finished.len(), 1);
    recorder.cell(&cell(1)).unwrap();
    let recording = Recording::load(&scratch.0).unwrap();
    assert_eq!(recording.cells.len(), 2);
    assert_same(&cell(1), &recording.cells[1]);
}

#[test]
fn results_from_before_there_were_adapters_are_read_and_gone_on_with() {
    let scratch = Scratch::new("before");
    let mut recorder = Recorder::create(&scratch.0, &plan()).unwrap();
    let without = CellRecord { adapters: Vec::new(), ..cell(0) };
    recorder.cell(&without).unwrap();
    drop(recorder);
    fs::remove_file(scratch.0.join("adapters.csv")).unwrap();
    assert_same(&without, &Recording::load(&scratch.0).unwrap().cells[0]);
    let (mut recorder, finished) = Recorder::resume(&scratch.0, &plan(), "real").unwrap();
    assert_eq!(finished.len(), 1);
    recorder.cell(&cell(1)).unwrap();
    assert_same(&cell(1), &Recording::load(&scratch.0).unwrap().cells[1]);
}

#[test]
fn a_spoiled_attempt_gives_way_to_a_good_one() {
    let scratch = Scratch::new("spoiled");
    let mut recorder = Recorder::create(&scratch.0, &plan()).unwrap();
    let attempt = |attempt, spoiled: Option<&str>| {
        let mut record = cell(0);
        record.attempt = attempt;
        record.health.spoiled = spoiled.map(str::to_string);
        record
    };
    recorder.cell(&attempt(0, Some("stalled for 80 ms"))).unwrap();
    let read = || Recording::load(&scratch.0).unwrap().cells;
    assert_eq!(read()[0].health.spoiled.as_deref(), Some("stalled for 80 ms"));
    recorder.cell(&attempt(1, None)).unwrap();
    recorder.cell(&attempt(2, Some("busy"))).unwrap();
    let cells = read();
    assert_eq!((cells.len(), cells[0].attempt, cells[0].health.spoiled.as_deref()), (1, 1, None));
}

#[test]
fn a_directory_is_refused_for_a_stated_reason() {
    let scratch = Scratch::new("refused");
    assert!(matches!(Recording::load(&scratch.0), Err(RecordError::NotResults { .. })));
    assert!(matches!(Recorder::create(&scratch.0, "{}"), Err(RecordError::Malformed { .. })));
    let recorder = Recorder::create(&scratch.0, &plan()).unwrap();
    assert!(matches!(Recorder::create(&scratch.0, &plan()), Err(RecordError::Busy { .. })));
    assert!(matches!(Recorder::resume(&scratch.0, &plan(), "real"), Err(RecordError::Busy { .. })));
    drop(recorder);
    assert!(matches!(Recorder::create(&scratch.0, &plan()), Err(RecordError::Taken { .. })));
    let other = plan().replace("\"radio.loss\"", "\"radio.delay\"");
    match Recorder::resume(&scratch.0, &other, "real") {
        Err(RecordError::OtherPlan { differs, .. }) => assert_eq!(differs, "cells.0.coordinates.0.0"),
        other => panic!("{other:?}"),
    }
    fs::write(scratch.0.join("plan.json"), plan().replace("\"schema\":1", "\"schema\":99")).unwrap();
    assert!(matches!(Recording::load(&scratch.0), Err(RecordError::Schema { found: 99, .. })));
}

#[test]
fn damage_is_named_with_its_line() {
    let scratch = Scratch::new("damage");
    let mut recorder = Recorder::create(&scratch.0, &plan()).unwrap();
    recorder.cell(&cell(0)).unwrap();
    let path = scratch.0.join("cells.csv");
    let good = fs::read_to_string(&path).unwrap();
    for (bad, expected) in [
        (good.replace("14999999", "many"), "received_bytes"),
        (good.replace(",tcp,", ","), "fields"),
        (good.replacen("sent_bytes", "sent", 1), "no column `sent_bytes`"),
    ] {
        fs::write(&path, bad).unwrap();
        match Recording::load(&scratch.0) {
            Err(e @ RecordError::Malformed { line: 2, .. }) => assert!(e.to_string().contains(expected), "{e}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn unknown_events_and_columns_are_passed_over() {
    let scratch = Scratch::new("newer");
    let mut recorder = Recorder::create(&scratch.0, &plan()).unwrap();
    recorder.event(&Event::Note(Note { what: "first".into(), ..Note::default() })).unwrap();
    recorder.cell(&cell(0)).unwrap();
    let events = scratch.0.join("events.jsonl");
    let text = fs::read_to_string(&events).unwrap();
    fs::write(&events, format!("{{\"event\":\"handover\",\"to\":3}}\n{text}")).unwrap();
    let links = scratch.0.join("links.csv");
    let text = fs::read_to_string(&links).unwrap();
    fs::write(&links, text.lines().map(|l| format!("{l},0\n")).collect::<String>().replacen(",0\n", ",new\n", 1))
        .unwrap();
    let recording = Recording::load(&scratch.0).unwrap();
    assert_eq!(recording.events[0], Event::Unknown);
    assert_eq!(recording.cells.len(), 1);
}

#[test]
fn a_run_does_not_go_on_in_the_other_kind_of_time() {
    let scratch = Scratch::new("executor");
    let mut recorder = Recorder::create(&scratch.0, &plan()).unwrap();
    recorder.event(&Event::Session(Session { executor: "virtual".into(), ..Session::default() })).unwrap();
    drop(recorder);
    match Recorder::resume(&scratch.0, &plan(), "real") {
        Err(error @ RecordError::OtherExecutor { .. }) => assert!(error.to_string().contains("with --virtual")),
        other => panic!("{other:?}"),
    }
    Recorder::resume(&scratch.0, &plan(), "virtual").unwrap();
}

#[test]
fn what_a_power_failure_left_at_the_end_of_the_events_is_cut_off() {
    let scratch = Scratch::new("power");
    let mut recorder = Recorder::create(&scratch.0, &plan()).unwrap();
    recorder.cell(&cell(0)).unwrap();
    drop(recorder);
    let path = scratch.0.join("events.jsonl");
    let whole = fs::read(&path).unwrap();
    let torn = [&whole[..], b"{\"event\":\"fin\0\0\0\n\xff\0\n\0\0"].concat();
    fs::write(&path, &torn).unwrap();
    assert_eq!(Recording::load(&scratch.0).unwrap().cells.len(), 1);
    drop(Recorder::resume(&scratch.0, &plan(), "real").unwrap());
    assert_eq!(fs::read(&path).unwrap(), whole);
    // Where something good follows, nobody's power failed.
    fs::write(&path, [&torn[..], b"\n", &whole[..]].concat()).unwrap();
    assert!(matches!(Recording::load(&scratch.0), Err(RecordError::Malformed { line: 2, .. })));
}

/// On a file system of 96 KiB, in a mount namespace of the test's own.
#[test]
fn a_full_disk_keeps_finished_cells() {
    const INSIDE: &str = "NARROWS_TEST_FULL_DISK";
    if let Ok(dir) = std::env::var(INSIDE) {
        return fill(Path::new(&dir));
    }
    let scratch = Scratch::new("full");
    fs::create_dir_all(&scratch.0).unwrap();
    let script =
        "mount -t tmpfs -o size=96k tmpfs \"$0\" || exit 77; exec \"$1\" --exact a_full_disk_keeps_finished_cells";
    let outcome = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", script])
        .arg(&scratch.0)
        .arg(std::env::current_exe().unwrap())
        .env(INSIDE, &scratch.0)
        .output();
    match outcome {
        Err(e) => eprintln!("skipped: cannot run unshare ({e})"),
        Ok(out) if out.status.code() == Some(77) || !out.stderr.is_empty() && out.stdout.is_empty() => {
            eprintln!("skipped: no user namespace with a tmpfs: {}", String::from_utf8_lossy(&out.stderr));
        }
        Ok(out) => assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stdout)),
    }
}

fn fill(disk: &Path) {
    let dir = disk.join("run");
    let mut recorder = Recorder::create(&dir, &plan()).unwrap();
    let mut record = cell(0);
    let mut written = 0;
    let error = loop {
        record.attempt = written;
        match recorder.cell(&record) {
            Ok(_) => written += 1,
            Err(error) => break error,
        }
        assert!(written < 10_000, "the disk never filled up");
    };
    assert!(written > 0);
    assert!(error.to_string().contains("make room, then go on with --resume"), "{error}");
    drop(recorder);
    // Room is made by what is there beside the run; here, an old histogram.
    fs::remove_file(dir.join("hist/00000-0.hlog")).unwrap();
    let (mut recorder, finished) = Recorder::resume(&dir, &plan(), "real").unwrap();
    assert_eq!(finished.len() as u32, written);
    record.cell = 1;
    record.attempt = 0;
    record.flows.truncate(1);
    record.flows[0].intervals.clear();
    recorder.cell(&record).unwrap();
    assert_eq!(Recording::load(&dir).unwrap().cells.len(), 2);
}
