//! Runs of characters over a link that carries packets.

use std::collections::VecDeque;

use engine::{DropReason, Element, Output, Packet, Port, Time};

/// Runs of characters.
pub(crate) const RUNS: Port = 0;
/// Ethernet frames with a run in each.
pub(crate) const FRAMES: Port = 1;

/// EtherType for local experiments (IEEE 802 9.2.4).
const ETHERTYPE: [u8; 2] = [0x88, 0xb5];
const HEADER: usize = 14;

/// A frame that holds no run: it was corrupted on the way, where headers are hit too.
const NO_RUN: DropReason = DropReason("not a run of characters");

/// Puts each run of characters into an Ethernet frame and takes it out again: a direction of a link
/// counts what follows an Ethernet header. It takes no time and keeps no state.
#[derive(Debug, Default)]
pub(crate) struct Carrier {
    out: VecDeque<Output>,
}

impl Element for Carrier {
    fn handle(&mut self, _: Time, port: Port, mut packet: Packet) {
        self.out.push_back(match port {
            RUNS => {
                packet.bytes.splice(..0, [0; HEADER - 2].into_iter().chain(ETHERTYPE));
                Output::Transmit { port: FRAMES, packet }
            }
            _ if packet.bytes.get(HEADER - 2..HEADER) == Some(&ETHERTYPE[..]) => {
                packet.bytes.drain(..HEADER);
                Output::Transmit { port: RUNS, packet }
            }
            _ => Output::Drop { reason: NO_RUN, packet },
        });
    }

    fn tick(&mut self, _: Time) {}

    fn deadline(&self) -> Option<Time> {
        None
    }

    fn poll(&mut self) -> Option<Output> {
        self.out.pop_front()
    }
}
