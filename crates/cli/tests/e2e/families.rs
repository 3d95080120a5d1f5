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
paths: {host: {mtu: 1440}, overlay: {vxlan: {mtu: 1400}}, esp: {esp: true}}
traffic:
  data: {from: ship, to: shore, udp: {rate: 400kbit/s, size: 500B}, dscp: 10}
  probe: {from: shore, to: ship, ping: {interval: 50ms, size: 100B}, dscp: 46}
sweep: {ip: [4, 6], path: [host, overlay, esp]}
measure: {duration: 1s, interval: 500ms}
";

/// Connections through super-frames, checksums the kernel leaves to us, and a program that is not ours.
const STREAMS: &str = "\
name: streams
sites: [ship, shore]
ip: 6
links: {radio: {ends: [ship, shore], rate: 50Mbit/s, delay: 5ms}}
paths: {host: {mtu: 1440}, overlay: {vxlan: {mtu: 1400}}, esp: {esp: true}}
traffic:
  own: {from: ship, to: shore, tcp: {rate: 4Mbit/s, write: 64KiB}}
  bulk: {from: shore, to: ship, tcp: {rate: unlimited}}
  other: {from: ship, to: shore, tcp: {rate: 4Mbit/s, engine: iperf3}}
sweep: {path: [host, overlay, esp]}
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
    // RFC 4303 2, RFC 4106: SPI, number and vector, trailer to 4 bytes, check value, outer IP header.
    let protected = |packet: u64| header + 16 + (packet + 2).next_multiple_of(4) + 16;
    let on_link = |packet: u64| if coordinate("path") == "esp" { protected(packet) } else { packet + tunnel };
    let (datagram, echo) = (ethernet + on_link(header + 8 + 500), ethernet + on_link(header + 8 + 100));
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
    assert_eq!(recording.cells.len(), 6);
    recording.cells.iter().for_each(nothing_else_crosses);
}

#[test]
fn nothing_but_the_flows_crosses_a_link_of_kernels() {
    if !can_isolate() {
        return;
    }
    let _turn = turn();
    let recording = run(SCENARIO, &[]);
    assert_eq!(recording.cells.len(), 6);
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
    assert_eq!(recording.cells.len(), 3);
    for cell in recording.cells.iter().filter(|cell| judged(cell)) {
        for (name, least) in [("own", 3.6e6), ("bulk", 20e6), ("other", 3.6e6)] {
            let flow = cell.flows.iter().find(|flow| flow.flow == name).unwrap();
            assert_eq!(flow.error, None, "{name}");
            let goodput = flow.received_bytes as f64 * 8.0 / flow.measured.as_secs_f64();
            assert!(goodput >= least, "{name} at {goodput} bit/s in {:?}", cell.coordinates);
        }
    }
}

/// Voice through a gateway pair outside the adapters: the line carries ESP, and nothing is lost.
#[test]
fn gateways_stand_outside_the_adapters() {
    let scenario = "\
name: secured
sites: [ship, shore]
ip: 6
seed: 5
links: {line: {ends: [ship, shore], line: {baud: 9600}}}
paths: {plain: {adapter: {}}, secured: {esp: true, adapter: {}}}
traffic: {voice: {from: ship, to: shore, udp: {rate: 1640bit/s, size: 41B}}}
sweep: {path: [plain, secured]}
measure: {duration: 20s, warmup: 2s}
";
    let recording = run(scenario, &["--virtual"]);
    let [plain, secured] = &recording.cells[..] else { panic!("{} cells", recording.cells.len()) };
    let voice = |cell: &CellRecord| cell.flows[0].packets.unwrap();
    for cell in [plain, secured] {
        let packets = voice(cell);
        assert!(packets.sent >= 99 && packets.received == packets.sent, "{packets:?}");
        assert!(cell.discarded.is_empty(), "{:?}", cell.discarded);
    }
    // What is encrypted is compressed by its outer headers alone.
    let bytes = |cell: &CellRecord| cell.pipes.iter().find(|pipe| pipe.direction == "up").unwrap().offered_bytes;
    assert!(bytes(secured) > bytes(plain) * 3 / 2, "{} and {}", bytes(secured), bytes(plain));
}
