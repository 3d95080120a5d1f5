//! No allocation per packet once the path is warm. A control frame, and each frame but the last of a packet
//! that is cut, takes a buffer that ends up at the other adapter: those do allocate.

mod common;

use std::collections::VecDeque;

use adapter::{Adapter, AdapterConfig, LAN, LINE};
use common::{VOICE, datagram};
use engine::{Element, Output, Packet, Port, Span, Time};

/// Two adapters whose line takes no time; what leaves for a LAN is kept to be used again.
struct Bench {
    adapters: [Adapter; 2],
    now: Time,
    queue: VecDeque<(usize, Port, Packet)>,
    spare: Vec<Vec<u8>>,
    delivered: u64,
}

impl Bench {
    fn give(&mut self, frame: &[u8]) {
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(frame);
        self.queue.push_back((0, LAN, Packet::new(bytes)));
        self.settle();
    }

    fn settle(&mut self) {
        loop {
            for side in [0, 1] {
                while let Some(output) = self.adapters[side].poll() {
                    match output {
                        Output::Transmit { port: LINE, packet } => self.queue.push_back((1 - side, LINE, packet)),
                        Output::Transmit { packet, .. } => {
                            self.delivered += 1;
                            self.spare.push(packet.bytes);
                        }
                        // An executor's pool does not keep what holds no memory, either.
                        Output::Consume { packet } | Output::Drop { packet, .. } if packet.bytes.capacity() > 0 => {
                            self.spare.push(packet.bytes);
                        }
                        Output::Consume { .. } | Output::Drop { .. } => {}
                        Output::Event(_) => {}
                    }
                }
            }
            let Some((side, port, packet)) = self.queue.pop_front() else { break };
            self.adapters[side].handle(self.now, port, packet);
        }
    }

    fn pass(&mut self, until: Time) {
        while let Some(next) = self.adapters.iter().filter_map(Element::deadline).min().filter(|next| *next <= until) {
            self.now = next.max(self.now);
            for side in [0, 1] {
                if self.adapters[side].deadline().is_some_and(|at| at <= self.now) {
                    self.adapters[side].tick(self.now);
                }
            }
            self.settle();
        }
        self.now = until;
    }
}

#[test]
fn packets_of_one_frame_allocate_nothing_once_warm() {
    let config = AdapterConfig { payload: None, ..AdapterConfig::default() };
    let mut bench = Bench {
        adapters: [1, 2].map(|seed| Adapter::new(&config, seed, "bench").expect("a good configuration")),
        now: Time::ZERO,
        queue: VecDeque::with_capacity(1_000),
        spare: (0..400).map(|_| Vec::with_capacity(1_500)).collect(),
        delivered: 0,
    };
    let frames: Vec<[Vec<u8>; 2]> =
        (0..1_200).map(|number| [datagram(0, 6000, number, 33), datagram(0, 9, number, 60)]).collect();
    let run = |bench: &mut Bench, range: std::ops::Range<usize>| {
        for number in range {
            bench.pass(Time::from_nanos(2_000_000_000 + number as u64 * VOICE));
            bench.give(&frames[number][0]);
            bench.now += Span::from_millis(1);
            bench.give(&frames[number][1]);
        }
    };
    let control = |bench: &Bench| {
        let of = |side: usize| {
            let counters = bench.adapters[side].counters();
            // Every data packet of this test is one frame.
            counters.line.frames - counters.classes.iter().map(|class| class.sent.packets).sum::<u64>()
        };
        of(0) + of(1)
    };
    run(&mut bench, 0..200);
    let before = control(&bench);
    let used = allocation_counter::measure(|| run(&mut bench, 200..1_200));
    let frames = control(&bench) - before;
    assert!(used.count_total <= frames && frames < 500, "{used:?}, {frames} control frames");
    assert!(bench.delivered >= 2 * 1_195, "{}", bench.delivered);
}
