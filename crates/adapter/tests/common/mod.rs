//! Two adapters back to back on a plain line in virtual time.

#![allow(dead_code, clippy::unwrap_used, reason = "each test uses its part, and may fail")]

use std::collections::VecDeque;
use std::net::Ipv6Addr;

use adapter::{Adapter, AdapterConfig, Counters, LAN, LINE};
use engine::{DropReason, Element, Event, ExitId, Graph, NodeId, Outlet, Output, Packet, Port, Random, Span, Time};
use wire::frame::{Ethernet, IpHeader, Ipv6};
use wire::{Ecn, Udp};

/// One direction of a line: characters at 960 a second, in order, with bit errors.
pub(crate) struct Line {
    character: Span,
    now: Time,
    free_at: Time,
    pub(crate) flying: VecDeque<Packet>,
    random: Random,
    pub(crate) bit_errors: f64,
    pub(crate) cut: bool,
    /// Put in front of the next run.
    pub(crate) garbage: Vec<u8>,
    /// All that was handed to it.
    pub(crate) sent: Vec<(Time, Vec<u8>)>,
}

impl Line {
    pub(crate) fn new(character: Span, seed: u64) -> Self {
        Self {
            character,
            now: Time::ZERO,
            free_at: Time::ZERO,
            flying: VecDeque::new(),
            random: Random::stream(seed, "line"),
            bit_errors: 0.0,
            cut: false,
            garbage: Vec::new(),
            sent: Vec::new(),
        }
    }
}

impl Element for Line {
    fn handle(&mut self, now: Time, _: Port, mut packet: Packet) {
        self.now = now;
        self.sent.push((now, packet.bytes.clone()));
        let start = self.free_at.max(now);
        self.free_at = start + self.character.times(packet.len() as u64);
        packet.launch = self.free_at;
        if self.bit_errors > 0.0 {
            for byte in &mut packet.bytes {
                for bit in 0..8 {
                    *byte ^= u8::from(self.random.chance(self.bit_errors)) << bit;
                }
            }
        }
        packet.bytes.splice(..0, self.garbage.drain(..));
        self.flying.push_back(packet);
    }

    fn tick(&mut self, now: Time) {
        self.now = now;
    }

    fn deadline(&self) -> Option<Time> {
        self.flying.front().map(|packet| packet.launch)
    }

    fn poll(&mut self) -> Option<Output> {
        self.flying.front().filter(|packet| packet.launch <= self.now)?;
        let packet = self.flying.pop_front()?;
        Some(if self.cut { Output::Consume { packet } } else { Output::Transmit { port: 0, packet } })
    }
}

/// What came out.
#[derive(Default)]
pub(crate) struct Heard {
    pub(crate) frames: Vec<(Time, usize, Vec<u8>)>,
    pub(crate) drops: Vec<(Time, DropReason, Packet)>,
    pub(crate) events: Vec<(Time, Event)>,
    pub(crate) handed_back: u64,
}

impl Outlet for Heard {
    fn transmit(&mut self, ExitId(exit): ExitId, packet: Packet) {
        self.frames.push((packet.launch, exit, packet.bytes));
    }

    fn consume(&mut self, _: Packet) {
        self.handed_back += 1;
    }

    fn discard(&mut self, at: Time, _: NodeId, reason: DropReason, packet: Packet) {
        self.handed_back += 1;
        self.drops.push((at, reason, packet));
    }

    fn event(&mut self, at: Time, _: NodeId, event: Event) {
        self.events.push((at, event));
    }
}

/// West (exit 0) and east (exit 1) of one line.
pub(crate) struct Pair {
    pub(crate) graph: Graph,
    pub(crate) heard: Heard,
    pub(crate) adapters: [NodeId; 2],
    /// From west to east, and back.
    pub(crate) lines: [NodeId; 2],
}

impl Pair {
    pub(crate) fn new(config: &AdapterConfig) -> Self {
        Self::of(config, config)
    }

    pub(crate) fn of(west: &AdapterConfig, east: &AdapterConfig) -> Self {
        let mut graph = Graph::new();
        let a = graph.add("west", Adapter::new(west, 1, "west").unwrap());
        let b = graph.add("east", Adapter::new(east, 1, "east").unwrap());
        let bits = Span::from_secs(u64::from(west.bits_per_character)).as_nanos();
        let character = Span::from_nanos(bits / west.rate.bits_per_second());
        let there = graph.add("there", Line::new(character, 1));
        let back = graph.add("back", Line::new(character, 2));
        graph.connect((a, LINE), (there, 0));
        graph.connect((there, 0), (b, LINE));
        graph.connect((b, LINE), (back, 0));
        graph.connect((back, 0), (a, LINE));
        graph.connect_exit((a, LAN), ExitId(0));
        graph.connect_exit((b, LAN), ExitId(1));
        Self { graph, heard: Heard::default(), adapters: [a, b], lines: [there, back] }
    }

    /// Lets time pass until `at`.
    pub(crate) fn run(&mut self, at: Time) {
        self.graph.advance(at, &mut self.heard);
    }

    /// A frame comes from the LAN of a side.
    pub(crate) fn send(&mut self, at: Time, side: usize, frame: Vec<u8>) {
        self.give(at, side, Packet::new(frame));
    }

    pub(crate) fn give(&mut self, at: Time, side: usize, packet: Packet) {
        self.graph.inject(at, (self.adapters[side], LAN), packet, &mut self.heard);
    }

    pub(crate) fn counters(&self, side: usize) -> Counters {
        self.graph.element::<Adapter>(self.adapters[side]).unwrap().counters()
    }

    pub(crate) fn line(&mut self, direction: usize) -> &mut Line {
        self.graph.element_mut::<Line>(self.lines[direction]).unwrap()
    }

    /// A side is restarted.
    pub(crate) fn restart(&mut self, side: usize, config: &AdapterConfig, seed: u64) {
        *self.graph.element_mut::<Adapter>(self.adapters[side]).unwrap() = Adapter::new(config, seed, "new").unwrap();
    }

    /// Frames that a side put onto its LAN.
    pub(crate) fn frames(&self, side: usize) -> impl Iterator<Item = (Time, &[u8])> {
        self.heard.frames.iter().filter(move |(_, exit, _)| *exit == side).map(|(at, _, frame)| (*at, &frame[..]))
    }

    pub(crate) fn happened(&self, what: &str) -> usize {
        self.heard.events.iter().filter(|(_, event)| event.what == what).count()
    }
}

pub(crate) fn millis(millis: u64) -> Time {
    Time::from_nanos(millis * 1_000_000)
}

/// The voice of the paper: MELP at 1.2 kbit/s, three frames of 67.5 ms in 33 B.
pub(crate) const VOICE: u64 = 202_500_000;

pub(crate) fn address(side: usize) -> Ipv6Addr {
    Ipv6Addr::new(0xfd00, 0, 0, side as u16, 0, 0, 0, 1)
}

/// A UDP datagram from a side to the other, with pseudo-random payload that starts with `number`.
pub(crate) fn datagram(side: usize, port: u16, number: u32, payload: usize) -> Vec<u8> {
    let ethernet = Ethernet { destination: [2, 0, 0, 0, 0, 1 - side as u8], source: [2, 0, 0, 0, 0, side as u8] };
    let ip = IpHeader::V6(Ipv6 {
        source: address(side),
        destination: address(1 - side),
        dscp: 0,
        ecn: Ecn::NotCapable,
        flow_label: 0,
        hop_limit: 64,
    });
    let mut random = Random::stream(u64::from(number), "payload");
    let mut bytes: Vec<u8> = number.to_be_bytes().to_vec();
    bytes.resize_with(payload.max(4), || random.bits() as u8);
    let mut frame = Vec::new();
    wire::frame::udp(&mut frame, &ethernet, &ip, Udp { source: port, destination: port }, &bytes).unwrap();
    frame
}
