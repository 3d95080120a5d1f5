//! `narrows run` from file to report.

use std::fs;
use std::process::Command;

use crate::common::{Place, can_isolate, judged, narrows, needs_root, recording, run, shipped, turn};

/// Runs the first scenario and looks at all it leaves.
fn first(command: &mut Command, place: &Place) {
    let said = run(command);
    // A machine that is too busy for its figures to be true says so by status 3.
    let recording = recording(&place.join("first"));
    assert_eq!(recording.cells.len(), 2);
    // The expectation is of the cell without loss.
    let busy = !judged(&recording.cells[0]);
    assert_eq!(said.code(), Some(if busy { 3 } else { 0 }), "{said:?}");

    assert!(said.out.starts_with("first (quick): 2 of 2 cells, real time"), "{}", said.out);
    assert!(said.out.contains("report: first/report.html"), "{}", said.out);
    assert!(said.err.contains("real time, wire: "), "{}", said.err);
    for name in ["plan.json", "cells.csv", "samples.csv", "links.csv", "drops.csv", "cpu.csv", "events.jsonl"] {
        assert!(fs::metadata(place.join("first").join(name)).unwrap().len() > 0, "{name} is empty");
    }
    let page = fs::read_to_string(place.join("first/report.html")).unwrap();
    assert!(page.contains("first") && page.contains("satellite-1"));
    assert!(!page.contains("src=\"http") && !page.contains("href=\"http"), "the report needs the net");
    // 2 Mbit/s over 5 Mbit/s, 125 ms each way: TCP gets on, and never before its time.
    for cell in &recording.cells {
        let flow = &cell.flows[0];
        assert_eq!((flow.protocol.as_ref(), flow.engine.as_ref(), flow.error.as_deref()), ("tcp", "own", None));
        assert!(flow.connect.unwrap().as_secs_f64() >= 0.25, "connected after {:?}", flow.connect);
        assert!(flow.rtt.unwrap().min >= 0.25, "{:?}", flow.rtt);
        assert!(flow.received_bytes > 0 && flow.intervals.len() == 5, "{flow:?}");
        let up = cell.pipes.iter().find(|pipe| pipe.direction == "up").unwrap();
        // What was still in the link at the end is no more than its queue and its delay hold.
        let accounted = up.delivered_packets + up.dropped_packets();
        assert!((accounted..accounted + 50 + 120).contains(&up.offered_packets), "{up:?}");
        assert!(!cell.histograms.is_empty());
        // A twentieth of 125 ms.
        assert_eq!(cell.health.late_limit.as_secs_f64(), 0.00625);
    }
}

fn arguments(file: &str) -> [&str; 5] {
    ["run", file, "--quick", "--out", "first"]
}

#[test]
fn the_first_scenario_runs_for_whoever_this_is() {
    if !can_isolate() {
        return;
    }
    let (place, _turn) = (Place::new(), turn());
    first(&mut narrows(&place, arguments(shipped("first.yaml").to_str().unwrap())), &place);
}

#[test]
fn the_first_scenario_runs_for_an_ordinary_user() {
    if !needs_root() || !can_isolate() {
        return;
    }
    let (place, _turn) = (Place::new(), turn());
    // Where root keeps its files nobody else may look.
    for (from, name) in [(env!("CARGO_BIN_EXE_narrows").into(), "narrows"), (shipped("first.yaml"), "first.yaml")] {
        fs::copy(from, place.join(name)).unwrap();
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "./narrows"]);
    first(command.args(arguments("first.yaml")).current_dir(place.path()), &place);
}

#[test]
fn the_first_scenario_holds_in_virtual_time_too() {
    let place = Place::new();
    let file = shipped("first.yaml");
    let options = ["run", file.to_str().unwrap(), "--quick", "--virtual", "--out", "first"];
    let said = run(&mut narrows(&place, options));
    assert_eq!(said.code(), Some(0), "{said:?}");
}

#[test]
fn without_iperf3_an_iperf3_flow_is_refused_before_anything_is_made() {
    if !can_isolate() {
        return;
    }
    let place = Place::new();
    let text = "name: t\nsites: [a, b]\nlinks: {l: {ends: [a, b], profile: perfect}}\n\
                traffic: {x: {from: a, to: b, tcp: {rate: 1Mbit/s, engine: iperf3}}}\n";
    place.scenario(text);
    let said = run(narrows(&place, ["run", "scenario.yaml", "--out", "r"]).env("PATH", "/nowhere"));
    assert_eq!(said.code(), Some(2), "{said:?}");
    assert!(said.err.contains("needs iperf3, which is not installed") && said.err.contains("engine: own"), "{said:?}");
    assert_eq!(place.names(), ["scenario.yaml"]);
}

#[test]
fn a_cell_at_total_loss_ends_and_says_what_it_saw() {
    if !can_isolate() {
        return;
    }
    let place = Place::new();
    let text = "name: dead\nsites: [ship, shore]\nlinks: {radio: {ends: [ship, shore], profile: 5g-1, loss: 1}}\n\
                traffic:\n\
                \x20 lidar: {from: ship, to: shore, service: lidar}\n\
                \x20 data: {from: shore, to: ship, udp: {rate: 100kbit/s}}\n\
                \x20 probe: {from: ship, to: shore, ping: {interval: 100ms}}\n\
                measure: {duration: 1s}\n";
    place.scenario(text);
    for (out, executor) in [("real", None), ("virtual", Some("--virtual"))] {
        let options = ["run", "scenario.yaml", "--out", out].into_iter().chain(executor);
        // The bound of every command here is the test of "in time".
        let said = run(&mut narrows(&place, options));
        assert_eq!(said.code(), Some(0), "{said:?}");
        let recording = recording(&place.join(out));
        let [lidar, data, probe] = &recording.cells[0].flows[..] else { panic!("{recording:?}") };
        assert_eq!(lidar.goodput_bit_s(), Some(0.0));
        assert_eq!(lidar.connect, None);
        let why = lidar.error.as_deref().unwrap();
        assert!(why.contains("connect"), "{why}");
        for flow in [data, probe] {
            let packets = flow.packets.unwrap();
            assert!(packets.sent >= 10 && packets.received == 0, "{out}: {packets:?}");
            assert_eq!(packets.loss_ratio(), 1.0);
            assert_eq!(flow.goodput_bit_s(), Some(0.0));
        }
        let up = &recording.cells[0].pipes[0];
        assert_eq!(up.offered_packets, up.dropped_packets(), "{up:?}");
    }
}
