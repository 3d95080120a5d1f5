//! Packets and traces to replay.

use std::net::IpAddr;
use std::sync::Arc;

use engine::{Random, Time};
use traffic::replay::{
    AddressRule, AddressTable, Instances, Item, Network, Over, Replay, ReplayConfig, ReplayError, Spacing, Trace,
};
use wire::frame::{Ethernet, IpHeader, tcp, udp};
use wire::{Tcp, TcpFlags, Udp};

const NOBODY: Ethernet = Ethernet { destination: [2; 6], source: [4; 6] };

fn header(source: &str, destination: &str) -> IpHeader {
    let address = |text: &str| text.parse::<IpAddr>().unwrap();
    IpHeader::between(address(source), address(destination), 0).unwrap()
}

/// A UDP datagram from its IP header on.
pub(crate) fn datagram(source: (&str, u16), destination: (&str, u16), payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    let ports = Udp { source: source.1, destination: destination.1 };
    udp(&mut frame, &NOBODY, &header(source.0, destination.0), ports, payload).unwrap();
    frame.split_off(14)
}

/// A TCP segment from its IP header on.
pub(crate) fn segment(
    source: (&str, u16),
    destination: (&str, u16),
    (sequence, acknowledgement, flags): (u32, u32, TcpFlags),
    options: &[u8],
    payload: &[u8],
) -> Vec<u8> {
    let mut frame = Vec::new();
    let header_of = Tcp {
        source: source.1,
        destination: destination.1,
        sequence,
        acknowledgement,
        flags,
        window: 65_535,
        urgent: 0,
        options,
    };
    tcp(&mut frame, &NOBODY, &header(source.0, destination.0), &header_of, payload).unwrap();
    frame.split_off(14)
}

/// A trace of packets at times in nanoseconds.
pub(crate) fn trace_of(packets: &[(u64, Vec<u8>)]) -> Trace {
    let mut trace = Trace::new(1 << 24);
    for (time, packet) in packets {
        assert_eq!(trace.push(1_000_000_000_000 + time, packet, packet.len() as u32), Ok(None));
    }
    trace
}

/// Packets of one UDP flow at these times.
pub(crate) fn ticks(times: &[u64]) -> Trace {
    let packet = |&time: &u64| (time, datagram(("10.0.0.1", 1), ("10.0.0.2", 2), &[0; 30]));
    trace_of(&times.iter().map(packet).collect::<Vec<_>>())
}

pub(crate) fn config() -> ReplayConfig {
    ReplayConfig {
        start: Time::from_nanos(5_000),
        repetitions: 1,
        instances: Instances { over: Over::Pdn, count: 1 },
        spacing: Spacing::Copy,
        stateful: None,
        network: Network { ues: 1, pdn_v4: Some([192, 0, 0, 0].into()), pdn_v6: Some("2001:db8:1::".parse().unwrap()) },
    }
}

pub(crate) fn start(trace: Trace, config: &ReplayConfig) -> Result<Replay, ReplayError> {
    let table = AddressTable::new(&trace, &AddressRule::FirstSight);
    Replay::new(Arc::new(trace), Arc::new(table), config, Random::stream(1, "replay"))
}

/// All that is replayed, each when it is due. It must be handed out in the order of time, and never early.
pub(crate) fn play(mut replay: Replay) -> Vec<Item> {
    let mut items = Vec::new();
    while let Some(due) = replay.next_due() {
        assert_eq!(replay.next(Time::from_nanos(due.as_nanos() - 1)), None);
        let item = replay.next(due).unwrap();
        assert_eq!(item.due, due);
        items.push(item);
    }
    assert!(items.is_sorted_by_key(|item| item.due));
    assert_eq!(items.len() as u64, replay.total());
    items
}
