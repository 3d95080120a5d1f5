//! Where waiting packets are kept: one slab with chains through it, so that many flows share one
//! limit and nothing is allocated once the slab has grown to its highest level.

use alloc::vec::Vec;

use engine::{Packet, Size, Time};

/// A packet that waits.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) packet: Packet,
    /// Bytes it costs on the link.
    pub(crate) cost: u32,
    /// When it came.
    pub(crate) since: Time,
}

/// All waiting packets of a queue, and how many there are.
#[derive(Debug)]
pub(crate) struct Store {
    slots: Vec<Slot>,
    free: u32,
    packets: u32,
    bytes: u64,
    /// The largest cost seen: RFC 8289 5.5 calls it `maxpacket_`.
    largest: u32,
    limit_packets: u32,
    limit_bytes: u64,
}

/// A chain of waiting packets, first in, first out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chain {
    first: u32,
    last: u32,
    bytes: u64,
}

/// Which limit is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    Packets,
    Bytes,
}

#[derive(Debug)]
struct Slot {
    waiting: Waiting,
    next: u32,
}

const NONE: u32 = u32::MAX;

impl Chain {
    pub(crate) const EMPTY: Self = Self { first: NONE, last: NONE, bytes: 0 };

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Store {
    pub(crate) fn new(packets: Option<u32>, bytes: Option<Size>) -> Self {
        let mut store =
            Self { slots: Vec::new(), free: NONE, packets: 0, bytes: 0, largest: 0, limit_packets: 0, limit_bytes: 0 };
        store.set_limits(packets, bytes);
        store
    }

    pub(crate) fn set_limits(&mut self, packets: Option<u32>, bytes: Option<Size>) {
        self.limit_packets = packets.unwrap_or(u32::MAX);
        self.limit_bytes = bytes.map_or(u64::MAX, Size::bytes);
    }

    pub(crate) fn packets(&self) -> u32 {
        self.packets
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn largest(&self) -> u32 {
        self.largest
    }

    /// Which limit is gone over by what waits and `packets` of `cost` bytes in all besides.
    pub(crate) fn over_limit(&self, packets: u32, cost: u32) -> Option<Full> {
        if self.packets.saturating_add(packets) > self.limit_packets {
            Some(Full::Packets)
        } else if self.bytes.saturating_add(u64::from(cost)) > self.limit_bytes {
            Some(Full::Bytes)
        } else {
            None
        }
    }

    /// Appends to a chain, whatever the limits say.
    pub(crate) fn push(&mut self, chain: &mut Chain, waiting: Waiting) {
        let cost = waiting.cost;
        self.packets += 1;
        self.bytes += u64::from(cost);
        self.largest = self.largest.max(cost);
        let slot = Slot { waiting, next: NONE };
        let at = self.free;
        let at = if let Some(free) = self.slots.get_mut(at as usize) {
            self.free = free.next;
            *free = slot;
            at
        } else {
            self.slots.push(slot);
            (self.slots.len() - 1) as u32
        };
        match self.slots.get_mut(chain.last as usize) {
            Some(last) => last.next = at,
            None => chain.first = at,
        }
        chain.last = at;
        chain.bytes += u64::from(cost);
    }

    /// Takes the first of a chain.
    pub(crate) fn pop(&mut self, chain: &mut Chain) -> Option<Waiting> {
        let at = chain.first;
        let slot = self.slots.get_mut(at as usize)?;
        chain.first = core::mem::replace(&mut slot.next, self.free);
        if chain.first == NONE {
            chain.last = NONE;
        }
        self.free = at;
        let (cost, since) = (slot.waiting.cost, slot.waiting.since);
        chain.bytes -= u64::from(cost);
        self.packets -= 1;
        self.bytes -= u64::from(cost);
        Some(Waiting { packet: core::mem::take(&mut slot.waiting.packet), cost, since })
    }
}
