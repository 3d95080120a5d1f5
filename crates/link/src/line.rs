//! The delay line: packets in flight, each with the time it arrives (its `launch`).

use alloc::collections::{BinaryHeap, VecDeque};
use alloc::vec::Vec;
use core::cmp::Reverse;

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
    Overtaking(Sorted),
}

/// Packets by their arrival. The heap holds places only, since it moves its entries about.
#[derive(Debug, Default)]
struct Sorted {
    /// Arrival, number in order of sending, place.
    arrivals: BinaryHeap<Reverse<(Time, u64, u32)>>,
    places: Vec<Packet>,
    free: Vec<u32>,
    sent: u64,
}

impl Line {
    pub(crate) fn new(limit: u64) -> Self {
        Self { flights: Flights::InOrder(VecDeque::new()), bytes: 0, most_bytes: 0, limit }
    }

    /// From now on packets may overtake.
    pub(crate) fn let_overtake(&mut self) {
        if let Flights::InOrder(queue) = &mut self.flights {
            let mut sorted = Sorted::default();
            core::mem::take(queue).into_iter().for_each(|packet| sorted.push(packet));
            self.flights = Flights::Overtaking(sorted);
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
            Flights::Overtaking(sorted) => sorted.push(packet),
        }
        Ok(())
    }

    /// When the next packet arrives.
    pub(crate) fn next_arrival(&self) -> Option<Time> {
        match &self.flights {
            Flights::InOrder(queue) => queue.front().map(|packet| packet.launch),
            Flights::Overtaking(sorted) => sorted.arrivals.peek().map(|Reverse((at, ..))| *at),
        }
    }

    /// The next packet, if it has arrived by `now`.
    pub(crate) fn pop(&mut self, now: Time) -> Option<Packet> {
        let packet = match &mut self.flights {
            Flights::InOrder(queue) => {
                queue.front().filter(|packet| packet.launch <= now)?;
                queue.pop_front()?
            }
            Flights::Overtaking(sorted) => sorted.pop(now)?,
        };
        self.bytes -= packet.len() as u64;
        Some(packet)
    }
}

impl Sorted {
    fn push(&mut self, packet: Packet) {
        let at = packet.launch;
        let place = if let Some(place) = self.free.pop() {
            self.places[place as usize] = packet;
            place
        } else {
            self.places.push(packet);
            (self.places.len() - 1) as u32
        };
        self.arrivals.push(Reverse((at, self.sent, place)));
        self.sent += 1;
    }

    fn pop(&mut self, now: Time) -> Option<Packet> {
        self.arrivals.peek().filter(|Reverse((at, ..))| *at <= now)?;
        let Reverse((_, _, place)) = self.arrivals.pop()?;
        self.free.push(place);
        Some(core::mem::take(&mut self.places[place as usize]))
    }
}
