//! What a trace is like.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use engine::Span;
use wire::{Headers, ethertype};

use super::{AddressTable, Direction, Trace};

/// The slots in which peaks are looked for, as in the thesis (table 5.2).
pub const PEAK_SLOT: Span = Span::from_millis(100);

/// Slots at most that are counted one by one: a trace of 11 days.
const MOST_SLOTS: u64 = 10_000_000;

/// Counts of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Packets and bytes, from the IP header on.
    pub all: Amount,
    /// What goes up and what goes down.
    pub uplink: Amount,
    /// The other way.
    pub downlink: Amount,
    /// By IP version (4 or 6) and protocol number.
    pub protocols: BTreeMap<(u8, u8), Amount>,
    /// How many packets have each length, from the IP header on (figure 4.3 shows them with an Ethernet header).
    pub lengths: BTreeMap<u32, u64>,
    /// The slot of [`PEAK_SLOT`] with the most packets: when it begins, and what is in it.
    pub peak: (Span, Amount),
}

/// Packets and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// How many packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Summary {
    /// Counts a trace with its address table.
    #[must_use]
    pub fn new(trace: &Trace, table: &AddressTable) -> Self {
        let mut summary = Self::default();
        let slots = (trace.span().as_nanos() / PEAK_SLOT.as_nanos()).min(MOST_SLOTS) + 1;
        let mut per_slot: Vec<Amount> = vec![Amount::default(); slots as usize];
        for (index, packet) in trace.packets().enumerate() {
            summary.all.add(packet.length);
            match table.route(index).map(|route| route.direction) {
                Some(Direction::Uplink) => summary.uplink.add(packet.length),
                Some(Direction::Downlink) => summary.downlink.add(packet.length),
                None => {}
            }
            let version = packet.bytes[0] >> 4;
            let ethertype = if version == 4 { ethertype::IPV4 } else { ethertype::IPV6 };
            let protocol = Headers::of_network(ethertype, packet.bytes).ip.map_or(0, |ip| ip.protocol);
            summary.protocols.entry((version, protocol)).or_default().add(packet.length);
            *summary.lengths.entry(packet.length).or_default() += 1;
            let slot = (packet.time.as_nanos() / PEAK_SLOT.as_nanos()).min(slots - 1);
            per_slot[slot as usize].add(packet.length);
        }
        for (slot, amount) in (0..).zip(per_slot) {
            if amount.packets > summary.peak.1.packets {
                summary.peak = (PEAK_SLOT.times(slot), amount);
            }
        }
        summary
    }
}

impl Amount {
    fn add(&mut self, length: u32) {
        self.packets += 1;
        self.bytes += u64::from(length);
    }
}
