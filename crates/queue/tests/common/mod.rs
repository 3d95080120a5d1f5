//! Packets, and a line that sends them from a queue.

#![allow(dead_code, reason = "not every test file needs all of it")]
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic too")]

use std::net::Ipv4Addr;

use engine::{DropReason, Packet, Random, Span, Time};
use queue::{Queue, QueueConfig};
use wire::frame::{Ethernet, IpHeader, Ipv4, udp};
use wire::{Ecn, Headers, Udp};

/// A UDP packet of `flow` with a network layer of `length` bytes.
pub(crate) fn packet(id: u64, flow: u16, length: usize, ecn: Ecn) -> Packet {
    let ethernet = Ethernet { destination: [2; 6], source: [4; 6] };
    let ip = IpHeader::V4(Ipv4 {
        source: Ipv4Addr::new(10, 0, 0, 1),
        destination: Ipv4Addr::new(10, 0, 0, 2),
        dscp: 0,
        ecn,
        identification: 0,
        dont_fragment: true,
        ttl: 64,
    });
    let mut bytes = Vec::new();
    udp(&mut bytes, &ethernet, &ip, Udp { source: flow, destination: 443 }, &vec![0; length - 28]).unwrap();
    Packet { id, ..Packet::new(bytes) }
}

pub(crate) fn flow_of(packet: &Packet) -> u16 {
    Headers::parse(&packet.bytes).ip.unwrap().ports.unwrap().0
}

pub(crate) fn is_marked(packet: &Packet) -> bool {
    Headers::parse(&packet.bytes).ip.unwrap().ecn == Ecn::Experienced
}

pub(crate) fn queue(config: &QueueConfig, seed: u64) -> Queue {
    Queue::new(config, Random::stream(seed, "queue"))
}

/// What happened to a packet, and when.
pub(crate) struct Fate {
    pub(crate) at: Time,
    pub(crate) packet: Packet,
    pub(crate) dropped: Option<DropReason>,
    /// How long it waited, if it was sent.
    pub(crate) waited: Span,
}

/// Sends from the queue, a packet each `service`, for `duration`, while `arrivals` (in order of
/// time) come in. `packet.arrived` must be the time of arrival.
pub(crate) fn run(
    queue: &mut Queue,
    arrivals: impl IntoIterator<Item = Packet>,
    service: Span,
    duration: Span,
) -> Vec<Fate> {
    let mut fates = Vec::new();
    let mut arrivals = arrivals.into_iter().peekable();
    let mut now = Time::ZERO;
    while now.since(Time::ZERO) < duration {
        while let Some(packet) = arrivals.next_if(|packet| packet.arrived <= now) {
            let (at, cost) = (packet.arrived, packet.len() as u32 - 14);
            queue.enqueue(at, packet, cost, |reason, packet| {
                fates.push(Fate { at, packet, dropped: Some(reason), waited: Span::ZERO });
            });
        }
        let sent = queue.dequeue(now, |reason, packet| {
            fates.push(Fate { at: now, packet, dropped: Some(reason), waited: Span::ZERO });
        });
        if let Some((packet, _)) = sent {
            let waited = now.since(packet.arrived);
            fates.push(Fate { at: now, packet, dropped: None, waited });
        }
        now += service;
    }
    fates
}

/// Packets of 1,000 bytes of one flow, one each `gap`, for ever.
pub(crate) fn stream(flow: u16, gap: Span, ecn: Ecn) -> impl Iterator<Item = Packet> {
    (0..).map(move |n| Packet { arrived: Time::ZERO + gap.times(n), ..packet(n, flow, 1_000, ecn) })
}
