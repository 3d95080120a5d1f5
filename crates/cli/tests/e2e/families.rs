//! IPv4 and IPv6 under the same scenario, in real and in virtual time.

use std::process::Command;

use measure::{CellRecord, Recording};

use crate::common::{Place, can_isolate, judged, narrows, needs, recording, succeed, turn};

/// Three sites, so that one forwards; the flows are all there is on the links.
const SCENARIO: &str = "\
name: families
sites: [ship, buoy, shore]
seed: 3
links:
  near: {ends: [ship, buoy], rate: 10Mbit/s, delay: 10ms}
  far: {ends: [buoy, shore], rate: 20Mbit/s, delay: 20ms}
paths: {host: {mtu: 1440}, overlay: {vxlan: {mtu: 1400}}}
traffic:
  data: {from: ship, to: shore, udp: {rate: 400kbit/s, size: 500B}, dscp: 10}
  probe: {from: shore, to: ship, ping: {interval: 50ms, size: 100B}, dscp: 46}
sweep: {ip: [4, 6], path: [host, overlay]}
measure: {duration: 1s, interval: 500ms}
";

/// Connections through super-frames, checksums the kernel leaves to us, and a program that is not ours.
const STREAMS: &str = "\
name: streams
sites: [ship, shore]
ip: 6
links: {radio: {ends: [ship, shore], rate: 50Mbit/s, delay: 5ms}}
paths: {host: {mtu: 1440}, overlay: {vxlan: {mtu: 1400}}}
traffic:
  own: {from: ship, to: shore, tcp: {rate: 4Mbit/s, write: 64KiB}}
  bulk: {from: shore, to: ship, tcp: {rate: unlimited}}
  other: {from: ship, to: shore, tcp: {rate: 4Mbit/s, engine: iperf3}}
sweep: {path: [host, overlay]}
measure: {duration: 2s, interval: 1s}
";

fn run(scenario: &str, options: &[&str]) -> Recording {
    let place = Place::new();
    place.scenario(scenario);
    succeed(&mut narrows(&place, [&["run", "scenario.yaml", "--out", "out"], options].concat()));
    recording(&place.join("out"))
}

/// Packets and bytes the flows put on a link: what each end sent, as long as the headers make it.
fn expected(cell: &CellRecord) -> [(u64, u64); 2] {
    let coordinate = |key: &str| {
        let found = cell.coordinates.iter().find(|(name, _)| name == key);
        found.map(|(_, value)| value.label.clone()).unwrap()
    };
    let header = if coordinate("ip") == "6" { 40 } else { 20 };
    // A link counts whole frames.
    let ethernet = 14;
    // RFC 7348 5: inner Ethernet 14, VXLAN 8, UDP 8, and the outer IP header.
    let tunnel = if coordinate("path") == "overlay" { 30 + header } else { 0 };
    let sent = |name: &str| cell.flows.iter().find(|flow| flow.flow == name).and_then(|flow| flow.packets).unwrap();
    let (data, probe) = (sent("data"), sent("probe"));
    assert!(data.sent > 0 && probe.sent > 0);
    assert_eq!((data.received, probe.received), (data.sent, probe.sent));
    let (datagram, echo) = (ethernet + header + 8 + 500 + tunnel, ethernet + header + 8 + 100 + tunnel);
    [(data.sent + probe.sent, data.sent * datagram + probe.sent * echo), (probe.sent, probe.sent * echo)]
}

/// Nothing but the flows' packets crosses a link, each as long as it must be.
fn nothing_else_crosses(cell: &CellRecord) {
    let [up, down] = expected(cell);
    for link in ["near", "far"] {
        for (direction, expected) in [("up", up), ("down", down)] {
            let pipe = cell.pipes.iter().find(|pipe| pipe.link == link && pipe.direction == direction).unwrap();
            assert_eq!(
                (pipe.offered_packets, pipe.offered_bytes),
                expected,
                "{link}.{direction} of {:?}: {:?}",
                cell.coordinates,
                cell.flows
            );
        }
    }
    assert!(cell.discarded.is_empty(), "{:?}", cell.discarded);
}

#[test]
fn nothing_but_the_flows_crosses_a_link_in_virtual_time() {
    let recording = run(SCENARIO, &["--virtual"]);
    assert_eq!(recording.cells.len(), 4);
    recording.cells.iter().for_each(nothing_else_crosses);
}

#[test]
fn nothing_but_the_flows_crosses_a_link_of_kernels() {
    if !can_isolate() {
        return;
    }
    let _turn = turn();
    let recording = run(SCENARIO, &[]);
    assert_eq!(recording.cells.len(), 4);
    let trusted: Vec<_> = recording.cells.iter().filter(|cell| judged(cell)).collect();
    trusted.into_iter().for_each(nothing_else_crosses);
}

#[test]
fn connections_carry_their_rates_over_ipv6() {
    if !can_isolate() || !needs("iperf3", Command::new("iperf3").arg("--version")) {
        return;
    }
    let _turn = turn();
    let recording = run(STREAMS, &[]);
    assert_eq!(recording.cells.len(), 2);
    for cell in recording.cells.iter().filter(|cell| judged(cell)) {
        for (name, least) in [("own", 3.6e6), ("bulk", 20e6), ("other", 3.6e6)] {
            let flow = cell.flows.iter().find(|flow| flow.flow == name).unwrap();
            assert_eq!(flow.error, None, "{name}");
            let goodput = flow.received_bytes as f64 * 8.0 / flow.measured.as_secs_f64();
            assert!(goodput >= least, "{name} at {goodput} bit/s in {:?}", cell.coordinates);
        }
    }
}
