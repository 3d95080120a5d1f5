//! The delay line: packets in flight, each with the time it arrives (its `launch`).

use alloc::collections::{BinaryHeap, VecDeque};
use core::cmp::Ordering;

use engine::{Packet, Time};

/// Packets in flight.
#[derive(Debug)]
pub(crate) struct Line {
    flights: Flights,
    bytes: u64,
    most_bytes: u64,
    pub(crate) limit: u64,
}

#[derive(Debug)]
enum Flights {
    /// First in, first out.
    InOrder(VecDeque<Packet>),
    /// A packet with a shorter delay overtakes; of those that arrive together the first sent is
    /// first.
    Overtaking { heap: BinaryHeap<Flight>, sent: u64 },
}

#[derive(Debug)]
struct Flight {
    packet: Packet,
    number: u64,
}

impl Line {
    pub(crate) fn new(limit: u64) -> Self {
        Self { flights: Flights::InOrder(VecDeque::new()), bytes: 0, most_bytes: 0, limit }
    }

    /// From now on packets may overtake.
    pub(crate) fn let_overtake(&mut self) {
        if let Flights::InOrder(queue) = &mut self.flights {
            let sent = queue.len() as u64;
            let numbered = core::mem::take(queue).into_iter().zip(0..);
            let heap = numbered.map(|(packet, number)| Flight { packet, number }).collect();
            self.flights = Flights::Overtaking { heap, sent };
        }
    }

    pub(crate) fn most_bytes(&self) -> u64 {
        self.most_bytes
    }

    /// A packet sets out and is to arrive at `due`, or after the one before it where none
    /// overtakes. It comes back if the line is full.
    pub(crate) fn push(&mut self, due: Time, mut packet: Packet) -> Result<(), Packet> {
        let bytes = self.bytes + packet.len() as u64;
        if bytes > self.limit {
            return Err(packet);
        }
        self.bytes = bytes;
        self.most_bytes = self.most_bytes.max(bytes);
        packet.launch = due;
        match &mut self.flights {
            Flights::InOrder(queue) => {
                if let Some(last) = queue.back() {
                    packet.launch = due.max(last.launch);
                }
                queue.push_back(packet);
            }
            Flights::Overtaking { heap, sent } => {
                heap.push(Flight { packet, number: *sent });
                *sent += 1;
            }
        }
        Ok(())
    }

    /// When the next packet arrives.
    pub(crate) fn next_arrival(&self) -> Option<Time> {
        match &self.flights {
            Flights::InOrder(queue) => queue.front().map(|packet| packet.launch),
            Flights::Overtaking { heap, .. } => heap.peek().map(|flight| flight.packet.launch),
        }
    }

    /// The next packet, if it has arrived by `now`.
    pub(crate) fn pop(&mut self, now: Time) -> Option<Packet> {
        let packet = match &mut self.flights {
            Flights::InOrder(queue) => {
                queue.front().filter(|packet| packet.launch <= now)?;
                queue.pop_front()?
            }
            Flights::Overtaking { heap, .. } => {
                heap.peek().filter(|flight| flight.packet.launch <= now)?;
                heap.pop()?.packet
            }
        };
        self.bytes -= packet.len() as u64;
        Some(packet)
    }
}

impl PartialEq for Flight {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Flight {}

impl PartialOrd for Flight {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Flight {
    /// The earliest is the greatest, since the heap gives the greatest first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.packet.launch, other.number).cmp(&(self.packet.launch, self.number))
    }
}
