//! Virtual time: the same seed, the same bytes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{Place, can_isolate, narrows, recording, run, succeed, tshark, turn};

const SEA: &str = "\
name: sea
sites: [ship, buoy, shore]
links:
  near: {ends: [ship, buoy], rate: 8Mbit/s, delay: {normal: {mean: 20ms, deviation: 4ms}}, loss: 0.02}
  far: {ends: [buoy, shore], profile: 5g-1, loss: {gilbert-elliott: {p: 0.01, r: 0.3}}, duplicate: 0.01}
paths: {host: {mtu: 1440}, overlay: {vxlan: {mtu: 1440}}}
traffic:
  lidar: {from: ship, to: shore, service: lidar}
  data: {from: shore, to: ship, udp: {rate: 1Mbit/s}}
  probe: {from: ship, to: shore, ping: {interval: 50ms}}
sweep: {path: [host, overlay], near.loss: [0.02, 0.05]}
measure: {duration: 2s, interval: 500ms}
";

/// Every file under a directory with its contents.
fn contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    let mut left = vec![dir.to_path_buf()];
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            all.insert(path.strip_prefix(dir).unwrap().to_path_buf(), fs::read(&path).unwrap());
        }
    }
    all
}

fn simulate(place: &Place, seed: u64, out: &str) -> BTreeMap<PathBuf, Vec<u8>> {
    place.scenario(&format!("{SEA}seed: {seed}\n"));
    succeed(&mut narrows(place, ["run", "scenario.yaml", "--virtual", "--out", out]));
    contents(&place.join(out))
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_does_not() {
    let place = Place::new();
    let (one, two, other) = (simulate(&place, 7, "one"), simulate(&place, 7, "two"), simulate(&place, 8, "other"));
    assert!(one.len() >= 8 + 4, "{:?}", one.keys());
    assert_eq!(one.keys().collect::<Vec<_>>(), two.keys().collect::<Vec<_>>());
    for (path, bytes) in &one {
        assert!(two[path] == *bytes, "{} differs", path.display());
    }
    for table in ["cells.csv", "samples.csv", "links.csv", "drops.csv"] {
        assert!(one[Path::new(table)] != other[Path::new(table)], "{table} does not depend on the seed");
    }
}

#[test]
fn a_seed_that_was_drawn_is_told_and_kept() {
    let place = Place::new();
    place.scenario(SEA);
    let drawn = succeed(&mut narrows(&place, ["run", "scenario.yaml", "--virtual", "--out", "drawn"]));
    let seed = recording(&place.join("drawn")).outline.seed;
    assert!(drawn.out.contains(&format!("seed {seed}")), "{}", drawn.out);
    let again = simulate(&place, seed, "again");
    for table in ["cells.csv", "samples.csv", "links.csv"] {
        assert!(contents(&place.join("drawn"))[Path::new(table)] == again[Path::new(table)], "{table}");
    }
}

#[test]
fn every_cell_and_flow_is_there_and_json_tells_what_is_recorded() {
    let place = Place::new();
    place.scenario(&format!("{SEA}seed: 7\n"));
    let said = succeed(&mut narrows(&place, ["run", "scenario.yaml", "--virtual", "--out", "r", "--json"]));
    let recording = recording(&place.join("r"));
    assert_eq!(recording.cells.len(), 4);
    assert!(recording.cells.iter().all(|cell| cell.flows.len() == 3 && cell.flows.iter().all(|f| f.error.is_none())));
    let lines: Vec<serde_json::Value> = said.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kept = fs::read_to_string(place.join("r/events.jsonl")).unwrap();
    let told = said.out.lines().take(lines.len() - 1);
    assert_eq!(told.collect::<Vec<_>>(), kept.lines().collect::<Vec<_>>());
    assert_eq!((lines[0]["event"].as_str(), lines[5]["event"].as_str()), (Some("session"), Some("ended")));
    let last = lines.last().unwrap();
    assert_eq!((last["event"].as_str(), last["exit"].as_u64()), (Some("report"), Some(0)));
    assert!(place.join(last["page"].as_str().unwrap()).exists());
}

#[test]
fn a_results_directory_is_not_overwritten() {
    let place = Place::new();
    place.scenario(SEA);
    let out = ["run", "scenario.yaml", "--virtual", "--out", "r"];
    succeed(&mut narrows(&place, out));
    let before = contents(&place.join("r"));
    let said = run(&mut narrows(&place, out));
    assert_eq!(said.code(), Some(2), "{said:?}");
    assert!(said.err.contains("--resume") && said.err.contains("--out"), "{said:?}");
    assert!(contents(&place.join("r")) == before);
    // Nor resumed with another plan.
    let other = ["run", "scenario.yaml", "--virtual", "--out", "r", "--resume", "--set", "near.delay=1ms"];
    let said = run(&mut narrows(&place, other));
    assert_eq!(said.code(), Some(2), "{said:?}");
    assert!(said.err.contains("another plan"), "{said:?}");
    // Nor in the other kind of time.
    if can_isolate() {
        let said = run(&mut narrows(&place, ["run", "scenario.yaml", "--out", "r", "--resume"]));
        assert_eq!(said.code(), Some(2), "{said:?}");
        assert!(said.err.contains("virtual time") && said.err.contains("--virtual"), "{said:?}");
    }
    assert!(contents(&place.join("r")) == before);
}

#[test]
fn what_does_not_hold_is_told_by_the_exit_status() {
    let place = Place::new();
    place.scenario(&format!("{SEA}expect: [{{that: loss, where: {{flow: data}}, holds: \"<= 0\"}}]\n"));
    let said = run(&mut narrows(&place, ["run", "scenario.yaml", "--virtual", "--out", "r"]));
    assert_eq!(said.code(), Some(3), "{said:?}");
}

/// A branch sees the class of what is in a tunnel, and of pings and their replies, in both executors.
#[test]
fn branches_see_code_points_on_every_path() {
    let (place, _turn) = (Place::new(), turn());
    place.scenario(
        "name: classes\nsites: [ship, shore]\nseed: 3\n\
         links: {radio: {ends: [ship, shore], rate: 8Mbit/s, delay: 5ms, branches: {voice: {match: {dscp: 46}}}}}\n\
         paths: {host: {mtu: 1440}, overlay: {vxlan: {mtu: 1440}}, esp: {esp: true}}\n\
         traffic: {probe: {from: ship, to: shore, dscp: 46, ping: {interval: 50ms}}}\n\
         sweep: {ip: [4, 6], path: [host, overlay, esp]}\nmeasure: {duration: 1s}\n",
    );
    let executors: &[&str] = if can_isolate() { &["--virtual", "--jobs=2"] } else { &["--virtual"] };
    for executor in executors {
        let out = executor.trim_start_matches('-');
        run(&mut narrows(&place, ["run", "scenario.yaml", "--out", out, executor]));
        let recording = recording(&place.join(out));
        assert_eq!(recording.cells.len(), 6, "{executor}");
        for cell in &recording.cells {
            let pipes = |voice: bool| cell.pipes.iter().filter(move |pipe| (pipe.pipe == "voice") == voice);
            assert!(
                pipes(true).count() == 2 && pipes(true).all(|pipe| pipe.offered_packets > 10),
                "{executor} {cell:?}"
            );
            assert!(pipes(false).all(|pipe| pipe.offered_packets == 0), "{executor} {cell:?}");
        }
    }
}

/// Voice, a call, packet pairs and a file over one line; what they should give follows from its rate.
#[test]
fn voice_calls_and_packet_pairs_in_virtual_time() {
    let place = Place::new();
    place.scenario(
        "name: talk\nseed: 3\nip: 6\nsites: [near, far]\nlinks: {line: {ends: [near, far], rate: 7680bit/s}}\n\
         traffic:\n  melp: {from: near, to: far, voice: melp-1200}\n  \
         call: {from: near, to: far, call: {voice: melp-1200, hold: 20s, pause: 10s, compact: true, both-ways: true}}\n  \
         pairs: {from: near, to: far, pairs: {every: 5500ms}}\n  file: {from: near, to: far, tcp: {transfer: 10KiB}}\n\
         sweep: {traffic: [melp, call, pairs, file, [pairs, melp]]}\nmeasure: {duration: 132s, interval: 12s}\n",
    );
    succeed(&mut narrows(&place, ["run", "scenario.yaml", "--virtual", "--out", "out"]));
    let recording = recording(&place.join("out"));
    let flow = |cell: usize, name: &str| recording.cells[cell].flows.iter().find(|flow| flow.flow == name).unwrap();

    // 33 B behind IPv6's and UDP's 48 take 84.375 ms at 960 B/s, and nothing is in their way.
    let melp = flow(0, "melp");
    let voice = melp.voice.unwrap();
    assert_eq!(melp.packets.map(|p| (p.sent, p.received)), Some((652, 652)));
    assert!((melp.delay.unwrap().p50 - 0.084_375).abs() < 1e-4, "{melp:?}");
    assert!(voice.jitter_p99_s.unwrap() < 1e-6 && voice.late_packets == 0 && voice.missing_ratio == 0.0, "{voice:?}");
    assert!((voice.playout_s - 0.144_375).abs() < 1e-4 && voice.rating.unwrap() > 60.0, "{voice:?}");
    assert_eq!(melp.series.len(), 652);

    // One every 30 s; an invitation and its answer are some 900 bytes with their headers.
    let call = flow(1, "call");
    let calls = call.calls.unwrap();
    assert_eq!((calls.tried, calls.established, call.retransmits), (5, 5, Some(0)));
    assert!(calls.released >= 4 && (0.7..1.3).contains(&calls.setup_p50_s.unwrap()), "{calls:?}");
    assert!(call.series.iter().any(|point| point.back) && call.series.iter().any(|point| !point.back));

    // Back to back in one queue, pairs tell the line's rate, whatever goes before them.
    for cell in [2, 4] {
        let pairs = flow(cell, "pairs").pairs.unwrap();
        assert!(pairs.count >= 18 && (pairs.rate_bit_s / 7_680.0 - 1.0).abs() < 0.02, "{pairs:?}");
        assert_eq!(flow(cell, "pairs").series.iter().map(|point| point.bytes).max(), Some(1_400));
    }
    // 10 KiB take 10.7 s, headers and what TCP sends again for nothing some more: a segment is on the line
    // for longer than the stack's first timeout.
    let time = flow(3, "file").transfer_s.unwrap();
    assert!((10.7..25.0).contains(&time), "{time}");
}

#[test]
fn video_over_quic_is_captured() {
    let place = Place::new();
    place.scenario(
        "name: video\nsites: [user, server]\nseed: 5\nlinks:\n  \
         wifi: {ends: [user, server], rate: 50Mbit/s, delay: 5ms, loss: 0.005, capture: true}\ntraffic:\n  \
         video: {from: server, to: user, quic: {rate: 4Mbit/s, segment: 1s, datagram: 1208B, acknowledge: 8}}\n\
         measure: {duration: 5s, interval: 1s}\n",
    );
    succeed(&mut narrows(&place, ["run", "scenario.yaml", "--virtual", "--out", "out"]));
    let recording = recording(&place.join("out"));
    let cell = &recording.cells[0];
    let segments = cell.flows[0].packets.unwrap();
    // Five at the start, then one a second; the last may still be on its way.
    assert!(segments.sent == 9 && segments.received >= 8, "{segments:?}");
    let pipe = |direction| cell.pipes.iter().find(|pipe| pipe.direction == direction).unwrap();
    let (up, down) = (pipe("up"), pipe("down"));
    assert!(down.delivered_packets < down.offered_packets, "nothing was lost");
    let capture = place.join("out/captures/00000-0.wifi.pcapng");
    assert!(capture.metadata().unwrap().len() > down.delivered_bytes);
    let Some(lines) = tshark(&capture, &["-T", "fields", "-e", "frame.len", "-e", "frame.time_epoch"]) else { return };
    let sizes: Vec<u64> = lines.lines().map(|line| line.split('\t').next().unwrap().parse().unwrap()).collect();
    assert_eq!(sizes.len() as u64, up.offered_packets + down.delivered_packets);
    let full = sizes.iter().filter(|size| **size == 1_250).count();
    assert!(full * 100 > sizes.len() * 80, "{full} of {}", sizes.len());
}
