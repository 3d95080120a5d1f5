//! What must hold for two adapters whatever comes from their LANs and their line: every packet handed
//! in comes back once, time goes on, what leaves for a LAN is a frame, and no buffer grows.

use adapter::{Adapter, AdapterConfig, LAN, LINE, frame};
use engine::{Element, Output, Packet, Port, Span, Time};

/// `data` as commands: what (6 kinds by side), length, bytes.
pub(crate) fn adapter(data: &[u8]) {
    let config = AdapterConfig { rate: "115200bit/s".parse().expect("a rate"), ..AdapterConfig::default() };
    let mut bench = Bench {
        adapters: [1, 2].map(|seed| Adapter::new(&config, seed, "fuzz").expect("a good configuration")),
        now: Time::ZERO,
        held: 0,
        given: 0,
        line: Default::default(),
    };
    bench.pass(Span::from_millis(200));
    let mut rest = data;
    while let Some((&[what, length], after)) = rest.split_first_chunk::<2>() {
        let (bytes, after) = after.split_at(usize::from(length).min(after.len()));
        rest = after;
        let side = usize::from(what & 1);
        match what >> 1 & 7 {
            0 => bench.give(side, LAN, bytes.to_vec()),
            1 => bench.give(side, LINE, bytes.to_vec()),
            2 => {
                let mut line = Vec::new();
                if let Some((header, body)) = bytes.split_first() {
                    frame::encode(*header, &[body], &mut line);
                }
                bench.give(side, LINE, line);
            }
            3 => {
                // A UDP datagram of some size, from one of few ports.
                let [port, size] = [bytes.first(), bytes.last()].map(|byte| byte.copied().unwrap_or(0));
                bench.give(side, LAN, datagram(port & 7, usize::from(size)));
            }
            4 => bench.pass(Span::from_millis(u64::from(length) * 8)),
            // The next frame to this side is damaged.
            _ => bench.damage(side, bytes),
        }
    }
    bench.pass(Span::from_secs(5));
}

struct Bench {
    adapters: [Adapter; 2],
    now: Time,
    /// Packets handed in less packets handed back.
    held: i64,
    given: u64,
    /// Runs of characters on their way to each side.
    line: [Vec<Vec<u8>>; 2],
}

impl Bench {
    fn give(&mut self, side: usize, port: Port, bytes: Vec<u8>) {
        self.given += 1;
        self.held += 1;
        self.adapters[side].handle(self.now, port, Packet { id: self.given, ..Packet::new(bytes) });
        self.poll(side);
    }

    /// Takes out what is there. What was handed in has a number.
    fn poll(&mut self, side: usize) {
        while let Some(output) = self.adapters[side].poll() {
            if let Output::Transmit { packet, .. } | Output::Consume { packet } | Output::Drop { packet, .. } = &output
            {
                self.held -= i64::from(packet.id != 0);
            }
            match output {
                Output::Transmit { port: LAN, packet } => {
                    assert!(packet.len() >= 14, "a frame has a header");
                    assert!(packet.len() <= 14 + 65_575, "no packet is longer than may be");
                }
                Output::Transmit { packet, .. } => {
                    assert!(packet.len() <= 257 && packet.bytes.ends_with(&[0]), "one whole frame");
                    self.line[1 - side].push(packet.bytes);
                }
                Output::Consume { .. } | Output::Drop { .. } | Output::Event(_) => {}
            }
        }
    }

    fn damage(&mut self, side: usize, bytes: &[u8]) {
        if let Some(run) = self.line[side].last_mut() {
            run.iter_mut().zip(bytes).for_each(|(character, byte)| *character ^= byte);
        }
    }

    fn pass(&mut self, span: Span) {
        let until = self.now + span;
        for _ in 0..10_000 {
            for side in [0, 1] {
                for run in std::mem::take(&mut self.line[side]) {
                    self.give(side, LINE, run);
                }
            }
            let waits = [0, 1].map(|side| self.adapters[side].deadline());
            let Some(next) = waits.into_iter().flatten().min() else { break };
            if next > until && self.line.iter().all(Vec::is_empty) {
                break;
            }
            if next > until {
                continue;
            }
            self.now = self.now.max(next);
            for side in [0, 1] {
                if self.adapters[side].deadline().is_some_and(|deadline| deadline <= self.now) {
                    self.adapters[side].tick(self.now);
                    self.poll(side);
                    assert!(self.adapters[side].deadline().is_none_or(|deadline| deadline > self.now), "time goes on");
                }
            }
        }
        self.now = self.now.max(until);
        // At most what the queues of both sides hold: 32 real-time and 5 times 64 data packets, and those
        // on their way.
        assert!(self.held <= 2 * (32 + 5 * 65), "{} packets are held", self.held);
    }
}

fn datagram(port: u8, size: usize) -> Vec<u8> {
    use wire::frame::{Ethernet, IpHeader, Ipv6};
    let address = |last| [0xfd00, 0, 0, 0, 0, 0, 0, last].into();
    let (dscp, ecn) = (0, wire::Ecn::NotCapable);
    let ip = Ipv6 { source: address(1), destination: address(2), dscp, ecn, flow_label: 0, hop_limit: 9 };
    let ethernet = Ethernet { destination: [2, 0, 0, 0, 0, 2], source: [2, 0, 0, 0, 0, 1] };
    let udp = wire::Udp { source: 6000 + u16::from(port), destination: 6000 };
    let mut frame = Vec::new();
    wire::frame::udp(&mut frame, &ethernet, &IpHeader::V6(ip), udp, &vec![port; size]).expect("short enough");
    frame
}
