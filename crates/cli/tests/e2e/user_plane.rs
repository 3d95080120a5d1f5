//! Loads on a UPF that scenarios embed: they run, their links are on the way, and what is missing is told.

use std::fs;

use measure::{Metric, PacketCounts};

use crate::common::{Place, can_isolate, judged, narrows, recording, run, succeed, turn_beside};

const LOAD: &str = "
session_group:
  name: base
  start_ue_address: 22.64.0.1
  flows_per_ue: 2
  load: {type: steady, uplink: 100, downlink: 100, packet_size: 400}
";

/// 20 ms each way on N3, and every packet lost downlink on N6, where it leaves first.
const SCENARIO: &str = "
name: plane
seed: 1
sites: [access, upf, network]
links:
  backhaul: {ends: [access, upf], delay: 20ms}
  core: {ends: [upf, network], up: {delay: 5ms}, down: {loss: {trace: loss.txt}}}
traffic:
  plane: {from: access, to: network, load: {file: load.yaml, n3: backhaul, n6: core}}
sweep:
  traffic.plane.load.direction: [up, down]
measure: {duration: 2s, interval: 200ms}
expect:
  - {that: loss, where: {traffic.plane.load.direction: up}, holds: '== 0'}
";

#[test]
fn links_stand_on_n3_and_n6() {
    if !can_isolate() {
        return;
    }
    let (place, _turn) = (Place::new(), turn_beside());
    fs::write(place.join("load.yaml"), LOAD).unwrap();
    // Every other packet; what is sent to find neighbours counts too, and goes through at the second try.
    fs::write(place.join("loss.txt"), "0 1").unwrap();
    place.scenario(SCENARIO);
    run(&mut narrows(&place, ["run", "scenario.yaml", "--out", "r"]));
    let cells = recording(&place.join("r")).cells;
    assert_eq!(cells.len(), 2);
    for cell in cells.iter().filter(|cell| judged(cell)) {
        let (up, flow) = (cell.coordinates[0].1.label == "up", &cell.flows[0]);
        let of = |metric: Metric| metric.of(cell, flow).unwrap();
        let PacketCounts { sent, received, duplicated, .. } = flow.packets.unwrap();
        assert_eq!((sent, duplicated), (400, 0));
        // N4 is beside the links: what crossed them is the traffic and some frames to find neighbours.
        let offered = |link: &str, direction: &str| {
            let mut pipes = cell.pipes.iter().filter(|pipe| pipe.link == link && pipe.direction == direction);
            pipes.next().unwrap().offered_packets
        };
        let (first, last) =
            if up { (("backhaul", "up"), ("core", "up")) } else { (("core", "down"), ("backhaul", "down")) };
        assert!((400..420).contains(&offered(first.0, first.1)), "{}", offered(first.0, first.1));
        assert!((received..received + 20).contains(&offered(last.0, last.1)), "{}", offered(last.0, last.1));
        if up {
            assert_eq!((received, of(Metric::Loss)), (400, 0.0));
            assert!(of(Metric::DelayP50) >= 0.025 && of(Metric::SampleDelay) >= 0.025);
        } else {
            assert!((199..=201).contains(&received), "{received}");
            assert!(of(Metric::DelayP50) >= 0.020);
        }
        assert!((of(Metric::PacketRate) - received as f64 / 2.0).abs() < 1e-9);
        assert_eq!(flow.intervals.len(), 10);
        assert_eq!(flow.intervals.iter().map(|interval| interval.packets.unwrap().received).sum::<u64>(), received);
    }
}

#[test]
fn what_is_missing_is_told_before_anything_is_built() {
    let place = Place::new();
    let trace =
        LOAD.replace("type: steady, uplink: 100, downlink: 100, packet_size: 400", "type: trace, trace: no.pcapng");
    fs::write(place.join("load.yaml"), trace).unwrap();
    place.scenario(
        "name: t\nsites: [a, b]\ntraffic: {plane: {from: a, to: b, load: {file: load.yaml}}}\nmeasure: {duration: 1s}\n",
    );
    succeed(&mut narrows(&place, ["check", "scenario.yaml"]));
    if can_isolate() {
        let said = run(&mut narrows(&place, ["run", "scenario.yaml", "--out", "r"]));
        assert_eq!(said.code(), Some(2));
        assert!(said.err.contains("no.pcapng, which is not there; make it with a scenario"), "{}", said.err);
        assert!(!place.join("r").exists());
    }
    let said = run(&mut narrows(&place, ["run", "scenario.yaml", "--virtual", "--out", "r"]));
    assert_eq!(said.code(), Some(2));
    assert!(said.err.contains("cannot run in virtual time"), "{}", said.err);
}
