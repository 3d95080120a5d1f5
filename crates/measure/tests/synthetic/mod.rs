//! A recording of the ship-to-shore sweep with figures that look real, to judge and to draw: the
//! TCP model of Padhye et al. (1998) with noise. Used by the tests of `measure` and of `report`.

#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]
#![expect(clippy::unwrap_used, reason = "a test's helper may unwrap")]

use std::path::{Path, PathBuf};

use engine::{Random, Span};
use hdrhistogram::Histogram;
use measure::event::{Ended, Machine, Session};
use measure::{
    Axis, CellRecord, Event, Expectation, Figure, Finding, FlowRecord, Health, Interval, LATENESS, Metric, Panel,
    PipeRecord, Quantiles, Recorder, Relation, Rule, SCHEMA, Scalar, Selection, Study,
};
use serde_json::json;

pub const SERVICES: [(&str, f64); 6] =
    [("gmdss", 1e4), ("ais", 1e5), ("500k", 5e5), ("1000k", 1e6), ("infotainment", 1.5e6), ("lidar", 2e6)];
/// Name, rate up in bit/s, one-way delay in s.
pub const PROFILES: [(&str, f64, f64); 4] =
    [("satellite-1", 5e6, 0.125), ("satellite-2", 3e6, 0.315), ("5g-1", 88e6, 0.006), ("5g-2", 29e6, 0.013)];
pub const PATHS: [&str; 2] = ["host", "overlay"];

/// What the recording is to be like.
#[derive(Clone, Debug)]
pub struct Wish {
    pub name: String,
    pub seed: u64,
    pub repeats: u32,
    /// Loss in hundredths.
    pub losses: Vec<u32>,
    /// Goodput of the overlay as a share of the host's.
    pub overlay: f64,
    /// Cells to spoil.
    pub spoiled: Vec<u32>,
    /// Stop after this many cells.
    pub finished: usize,
    pub version: String,
}

impl Default for Wish {
    fn default() -> Self {
        Self {
            name: "ship-to-shore".into(),
            seed: 2022,
            repeats: 1,
            losses: (0..=10).collect(),
            overlay: 0.985,
            spoiled: Vec::new(),
            finished: usize::MAX,
            version: "0.1.0".into(),
        }
    }
}

/// A directory that goes away with the test.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("narrows-{name}-{}", std::process::id()));
        std::fs::remove_dir_all(&dir).ok();
        Self(dir)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

pub fn select(entries: &[(&str, &[&str])]) -> Selection {
    let owned = |labels: &[&str]| labels.iter().map(ToString::to_string).collect();
    Selection(entries.iter().map(|(key, labels)| (key.to_string(), owned(labels))).collect())
}

fn word(label: &str) -> Scalar {
    Scalar { label: label.into(), number: None }
}

fn loss(hundredths: u32) -> Scalar {
    let number = f64::from(hundredths) / 100.0;
    Scalar { label: number.to_string(), number: Some(number) }
}

pub fn study(wish: &Wish) -> Study {
    let axis = |key: &str, values: Vec<Scalar>| Axis { key: key.into(), values };
    let title = |number: u32, text: &str| format!("Figure {number} · {text}");
    let panels = [
        ("5g-1", "host", title(2, "Baseline measurement for 5G #1")),
        ("5g-1", "overlay", title(3, "Throughput decay on NSM 5G #1")),
        ("5g-2", "host", title(4, "Baseline measurement for 5G #2")),
        ("5g-2", "overlay", title(5, "Throughput decay on NSM 5G #2")),
        ("satellite-1", "host", title(6, "Baseline measurement for Satellite #1")),
        ("satellite-1", "overlay", title(7, "Throughput decay on NSM Satellite #1")),
        ("satellite-2", "host", title(8, "Baseline measurement for Satellite #2")),
        ("satellite-2", "overlay", title(9, "Throughput decay on NSM Satellite #2")),
    ];
    let panels = panels.into_iter().map(|(profile, path, title)| Panel {
        title,
        select: select(&[("radio.profile", &[profile]), ("path", &[path])]),
        omit: if profile.starts_with("5g") { vec!["gmdss", "ais", "500k"] } else { vec!["gmdss", "ais"] }
            .into_iter()
            .map(String::from)
            .collect(),
        curve: None,
    });
    let finding = |source: &str, paper: &str, rule, select, agrees| Finding {
        source: source.into(),
        paper: paper.into(),
        rule,
        select,
        agrees,
    };
    let decay = || Rule::Decay { metric: Metric::Goodput, over: "radio.loss".into(), share: 0.9 };
    let expect = |that, select, against, relation, bound, text: &str| Expectation {
        that,
        select,
        against,
        relation,
        bound,
        text: text.into(),
        only: None,
    };
    Study {
        axes: vec![
            axis("traffic", SERVICES.iter().map(|(name, _)| word(name)).collect()),
            axis("radio.profile", PROFILES.iter().map(|(name, ..)| word(name)).collect()),
            axis("radio.loss", wish.losses.iter().map(|l| loss(*l)).collect()),
            axis("path", PATHS.iter().map(|name| word(name)).collect()),
        ],
        expectations: vec![
            expect(Metric::Goodput, select(&[("traffic", &["gmdss"])]), None, Relation::AtLeast, 9e3, ">= 9kbit/s"),
            expect(
                Metric::Share,
                select(&[("radio.profile", &["5g-1"]), ("radio.loss", &["0"])]),
                None,
                Relation::AtLeast,
                0.95,
                ">= 95 %",
            ),
            expect(
                Metric::Goodput,
                select(&[("path", &["overlay"]), ("radio.loss", &["0"])]),
                Some(select(&[("path", &["host"])])),
                Relation::AtLeast,
                0.9,
                ">= 0.9",
            ),
        ],
        figures: vec![Figure {
            x: "radio.loss".into(),
            y: Metric::Goodput,
            series: "traffic".into(),
            panels: panels.collect(),
        }],
        findings: vec![
            finding(
                "IV-B",
                "negligible decays are observed regarding 10 Kbps, 100 Kbps and 500 Kbps data rates even at the highest packet loss value",
                Rule::LowestShare { metric: Metric::Goodput },
                select(&[("radio.profile", &["5g-1", "5g-2"]), ("traffic", &["gmdss", "ais", "500k"])]),
                (Some(0.9), None),
            ),
            finding(
                "IV-B",
                "As 5G #1 is lower latency link we notice fairly consistent throughput until around 0.07 PLR when the link quality starts to decay.",
                decay(),
                select(&[("radio.profile", &["5g-1"])]),
                (Some(0.06), Some(0.08)),
            ),
            finding(
                "IV-B",
                "The throughput decay already begins at PLR 0.03",
                decay(),
                select(&[("radio.profile", &["5g-2"])]),
                (Some(0.02), Some(0.04)),
            ),
            finding(
                "IV-C",
                "the links converge a lot earlier, around PLR 0.03/0.04",
                Rule::Converge {
                    metric: Metric::Goodput,
                    over: "radio.loss".into(),
                    series: "traffic".into(),
                    within: 1.5,
                },
                select(&[
                    ("radio.profile", &["satellite-1", "satellite-2"]),
                    ("traffic", &["500k", "1000k", "infotainment", "lidar"]),
                ]),
                (Some(0.02), Some(0.05)),
            ),
            finding(
                "IV-C",
                "no significant difference between the baseline host measurement and NSM on Kubernetes",
                Rule::Cost {
                    metric: Metric::Goodput,
                    key: "path".into(),
                    base: "host".into(),
                    variant: "overlay".into(),
                },
                select(&[]),
                (Some(0.95), Some(1.05)),
            ),
        ],
    }
}

/// Coordinates of every cell in canonical order: last axis fastest, repeats outermost.
fn grid(wish: &Wish) -> Vec<(u32, usize, usize, u32, usize)> {
    let mut cells = Vec::new();
    for repeat in 0..wish.repeats {
        for service in 0..SERVICES.len() {
            for profile in 0..PROFILES.len() {
                for loss in &wish.losses {
                    cells.extend((0..PATHS.len()).map(|path| (repeat, service, profile, *loss, path)));
                }
            }
        }
    }
    cells
}

pub fn plan(wish: &Wish) -> String {
    let cells: Vec<_> = grid(wish)
        .iter()
        .enumerate()
        .map(|(id, (repeat, service, profile, l, path))| {
            json!({
                "id": id, "repeat": repeat, "seed": wish.seed + id as u64, "duration": "60s",
                "flows": [{"name": SERVICES[*service].0}],
                "coordinates": [
                    ["traffic", word(SERVICES[*service].0)], ["radio.profile", word(PROFILES[*profile].0)],
                    ["radio.loss", loss(*l)], ["path", word(PATHS[*path])],
                ],
            })
        })
        .collect();
    let source = format!(
        "name: {}\nsites: [ship, shore]\nlinks:\n  radio: {{ends: [ship, shore], profile: satellite-2}}\n",
        wish.name
    );
    json!({
        "schema": SCHEMA, "version": wish.version, "name": wish.name, "quick": wish.losses.len() < 11, "set": [],
        "description": "Kolehmainen et al.: Benchmarking of Emulated Wireless Edge Cloud Connectivity for Maritime Environments",
        "source": source, "seed": wish.seed, "study": study(wish), "cells": cells,
    })
    .to_string()
}

/// Steady-state throughput of TCP in bit/s (Padhye et al. 1998, eq. 31), with delayed
/// acknowledgements and a minimal time-out of 200 ms.
fn padhye(loss: f64, rtt: f64) -> f64 {
    if loss == 0.0 {
        return f64::INFINITY;
    }
    let b = 2.0;
    let timeout = 0.2 + rtt;
    let fast = rtt * (2.0 * b * loss / 3.0).sqrt();
    let slow = timeout * (3.0 * (3.0 * b * loss / 8.0).sqrt()).min(1.0) * loss * (1.0 + 32.0 * loss * loss);
    1_388.0 * 8.0 / (fast + slow)
}

pub fn records(wish: &Wish) -> Vec<CellRecord> {
    let mut random = Random::stream(wish.seed, "synthetic");
    let mut records = Vec::new();
    for (id, (repeat, service, profile, l, path)) in grid(wish).into_iter().enumerate() {
        let id = id as u32;
        let (flow, offered) = SERVICES[service];
        let (name, rate, delay) = PROFILES[profile];
        let ratio = f64::from(l) / 100.0;
        let reachable = padhye(ratio, 2.0 * delay + 0.004) * (1.0 + 0.06 * random.normal()).max(0.2);
        let overlay = if path == 1 { wish.overlay * (1.0 + 0.004 * random.normal()) } else { 1.0 };
        let goodput = reachable.min(offered * 0.999).min(rate) * overlay;
        let segments = (goodput * 60.0 / 8.0 / 1_388.0) as u64;
        let mut lateness = Histogram::<u64>::new(3).unwrap();
        for _ in 0..200 {
            lateness.record((12_000.0 * (0.8 * random.normal()).exp()) as u64 + 1).unwrap();
        }
        let received = (goodput * 60.0 / 8.0) as u64;
        let rtt = Quantiles {
            count: 60,
            min: 2.0 * delay,
            p50: 2.0 * delay + 0.004,
            p90: 2.0 * delay + 0.01,
            p99: 2.0 * delay + 0.02,
            max: 2.0 * delay + 0.05,
        };
        let pipe = |direction: &'static str, packets: u64| PipeRecord {
            link: "radio".into(),
            direction: direction.into(),
            pipe: "main".into(),
            offered_packets: packets,
            offered_bytes: packets * 1_440,
            delivered_packets: packets - (packets as f64 * ratio) as u64,
            delivered_bytes: (packets - (packets as f64 * ratio) as u64) * 1_440,
            drops: vec![
                ("loss".into(), (packets as f64 * ratio) as u64),
                ("queue-packets".into(), u64::from(id.is_multiple_of(7))),
            ],
            queue_peak_packets: 9,
            queue_peak_bytes: 12_960,
            ..PipeRecord::default()
        };
        let spoiled = wish.spoiled.contains(&id);
        records.push(CellRecord {
            cell: id,
            repeat,
            attempt: 0,
            coordinates: vec![
                ("traffic".into(), word(flow)),
                ("radio.profile".into(), word(name)),
                ("radio.loss".into(), loss(l)),
                ("path".into(), word(PATHS[path])),
            ],
            seed: wish.seed + u64::from(id),
            flows: vec![FlowRecord {
                flow: flow.into(),
                from: "ship".into(),
                to: "shore".into(),
                protocol: "tcp".into(),
                engine: "own".into(),
                offered_bit_s: Some(offered),
                connect: Some(Span::from_nanos((2e9 * delay) as u64)),
                measured: Span::from_secs(60),
                sent_bytes: received + 14_480,
                received_bytes: received,
                rtt: Some(rtt),
                retransmits: Some((segments as f64 * ratio) as u64),
                intervals: (0..3)
                    .map(|i| Interval {
                        start: Span::from_secs(20 * i),
                        end: Span::from_secs(20 * (i + 1)),
                        received_bytes: received / 3,
                        retransmits: Some((segments as f64 * ratio / 3.0) as u64),
                        rtt_s: Some(rtt.p50),
                        cwnd_bytes: Some(14_480),
                        ..Interval::default()
                    })
                    .collect(),
                ..FlowRecord::default()
            }],
            pipes: vec![pipe("up", segments + 10), pipe("down", segments / 2 + 10)],
            adapters: Vec::new(),
            captures: Vec::new(),
            discarded: Vec::new(),
            health: Health {
                packets: segments * 3 / 2 + 20,
                late_packets: u64::from(id % 40 == 3),
                late_limit: Span::from_micros(200),
                lateness: Quantiles::of_nanos(&lateness).unwrap(),
                stalls: u64::from(id % 40 == 3),
                stalled: Span::from_millis(if id % 40 == 3 { 52 } else { 0 }),
                cpu_s: vec![("emulator".into(), 0.4), ("endpoints".into(), 0.2), ("kernel".into(), 0.6)],
                machine_busy: 0.35 + 0.2 * random.uniform(),
                machine_steal: 0.01 * random.uniform(),
                cells_beside: 32,
                spoiled: spoiled.then(|| "stalled for 180 ms of 60 s (limit 100 ms)".into()),
                ..Health::default()
            },
            histograms: vec![(LATENESS.into(), lateness)],
        });
    }
    records
}

/// Writes the recording to `dir`.
pub fn record(dir: &Path, wish: &Wish) {
    let mut recorder = Recorder::create(dir, &plan(wish)).unwrap();
    let session = Session {
        version: wish.version.clone(),
        executor: "real".into(),
        started: Some("2026-11-21T06:30:00Z".into()),
        wire: Some("tap".into()),
        jobs: Some("auto".into()),
        machine: Some(Machine {
            kernel: "Linux 6.18.5".into(),
            cpu: "AMD EPYC".into(),
            cpus: 2,
            memory_bytes: 8 << 30,
        }),
        remarks: Vec::new(),
    };
    recorder.event(&Event::Session(session)).unwrap();
    for cell in records(wish).iter().take(wish.finished) {
        recorder.cell(cell).unwrap();
    }
    recorder.event(&Event::Ended(Ended { elapsed_s: Some(1_312.0), interrupted: false })).unwrap();
}
