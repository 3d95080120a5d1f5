//! Voice and data over narrow lines: the shipped scenarios hold in virtual time, and a real run over
//! pseudo-terminals tells what its twin in virtual time tells.

use std::path::Path;

use measure::{CellRecord, Metric};

use crate::common::{Place, can_isolate, narrows, recording, run, succeed, turn};

#[test]
fn the_shipped_scenarios_hold_in_virtual_time() {
    let place = Place::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    for name in ["packet-pair", "load", "errors", "voice", "extended", "satellite", "calls"] {
        let file = folder.join(format!("narrowband-{name}.yaml"));
        // An expectation that does not hold ends with status 3.
        succeed(&mut narrows(
            &place,
            ["run", file.to_str().unwrap(), "--quick", "--virtual", "--set", "seed=7", "--out", name],
        ));
    }
}

const TWIN: &str = "\
name: twin
seed: 5
ip: 6
sites: [west, east]
links:
  radio: {ends: [west, east], line: {baud: 9600, pty: true}}
paths:
  adapter: {adapter: {}}
traffic:
  voice: {from: west, to: east, voice: {codec: melp-1200}}
  ping: {from: west, to: east, ping: {interval: 2s, size: 200B}, start: 1s}
measure: {duration: 16s, interval: 4s, warmup: 3s}
";

/// Tolerances: none for what is counted but the packets at the edges of the measured time; 10 ms or 10 %
/// for medians of delays, which have the scheduler's and two terminals' latency on them.
#[test]
fn a_real_run_over_terminals_agrees_with_its_twin() {
    if !can_isolate() {
        return;
    }
    let (place, _turn) = (Place::new(), turn());
    place.scenario(TWIN);
    for (out, executor) in [("twin", "--virtual"), ("real", "--jobs=1")] {
        run(&mut narrows(&place, ["run", "scenario.yaml", "--out", out, executor]));
    }
    let [twin, real] = ["twin", "real"].map(|out| recording(&place.join(out)).cells.remove(0));
    if let Some(why) = &real.health.spoiled {
        println!("skipped: the real run is spoiled: {why}");
        return;
    }
    let flow = |cell: &CellRecord, flow: usize, metric: Metric| metric.of(cell, &cell.flows[flow]).unwrap();
    assert_eq!((flow(&twin, 0, Metric::Loss), flow(&real, 0, Metric::Loss)), (0.0, 0.0));
    assert_eq!(flow(&real, 1, Metric::Loss), 0.0);
    for (number, metric) in [(0, Metric::DelayP50), (1, Metric::RttP50)] {
        let (twin, real) = (flow(&twin, number, metric), flow(&real, number, metric));
        assert!((real - twin).abs() <= f64::max(0.010, 0.1 * twin), "{}: {twin} {real}", metric.name());
    }
    for (twin, real) in twin.adapters.iter().zip(&real.adapters) {
        assert_eq!(twin.adapter, real.adapter);
        // A datagram more or less at each edge.
        let edge = 2.0 * f64::from(300);
        assert!((twin.line_bytes as f64 - real.line_bytes as f64).abs() <= edge, "{twin:?}\n{real:?}");
        assert!(twin.data_packets.abs_diff(real.data_packets) <= 1, "{twin:?}\n{real:?}");
    }
}
