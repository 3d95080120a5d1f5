//! What a pipe counts.

use engine::{DropReason, Packet};

/// Lost by the loss model.
pub const LOSS: DropReason = DropReason("loss");
/// A super-frame came that was to be cut into packets before.
pub const SUPER_FRAME: DropReason = DropReason("super-frame not cut");
/// The packet costs more than the token bucket holds, and so would wait for ever.
pub const OVERSIZED: DropReason = DropReason("larger than the token bucket");
/// The delay line holds as many bytes as it may ([`PipeConfig::in_flight_limit`](crate::PipeConfig::in_flight_limit)).
pub const DELAY_LINE_FULL: DropReason = DropReason("delay line full");

/// A number of packets and the bytes of their frames (Ethernet header on, without check sequence).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

/// What happened in a pipe since it was made.
///
/// At any time `offered + duplicated = delivered + dropped + waiting`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counters {
    /// Handed in.
    pub offered: Count,
    /// Sent on, copies included.
    pub delivered: Count,
    /// In the queue, in transmission or in flight now.
    pub waiting: Count,
    /// Copies made.
    pub duplicated: Count,
    /// Packets of which a bit was flipped.
    pub corrupted: u64,
    /// Packets that were given a congestion mark by the queue.
    pub marked: u64,
    /// Most packets that waited in the queue at once.
    pub queue_most_packets: u32,
    /// Most bytes that waited in the queue at once, by their cost on the link.
    pub queue_most_bytes: u64,
    /// Most bytes that were in flight at once.
    pub in_flight_most_bytes: u64,
    pub(crate) dropped: [(DropReason, Count); 8],
}

impl Count {
    pub(crate) fn add(&mut self, packet: &Packet) {
        self.packets += 1;
        self.bytes += packet.len() as u64;
    }

    pub(crate) fn remove(&mut self, packet: &Packet) {
        self.packets -= 1;
        self.bytes -= packet.len() as u64;
    }
}

impl Counters {
    pub(crate) const fn new() -> Self {
        const ZERO: Count = Count { packets: 0, bytes: 0 };
        Self {
            offered: ZERO,
            delivered: ZERO,
            waiting: ZERO,
            duplicated: ZERO,
            corrupted: 0,
            marked: 0,
            queue_most_packets: 0,
            queue_most_bytes: 0,
            in_flight_most_bytes: 0,
            dropped: [
                (LOSS, ZERO),
                (queue::FULL_PACKETS, ZERO),
                (queue::FULL_BYTES, ZERO),
                (queue::CODEL, ZERO),
                (queue::PIE, ZERO),
                (DELAY_LINE_FULL, ZERO),
                (OVERSIZED, ZERO),
                (SUPER_FRAME, ZERO),
            ],
        }
    }

    /// Every reason for which a pipe drops, and how much it dropped for it; always in the same
    /// order, zeros too.
    pub fn dropped(&self) -> impl Iterator<Item = (DropReason, Count)> {
        self.dropped.iter().copied()
    }

    /// How much was dropped for one reason.
    #[must_use]
    pub fn dropped_for(&self, reason: DropReason) -> Count {
        self.dropped.iter().find(|(other, _)| *other == reason).map(|(_, count)| *count).unwrap_or_default()
    }

    /// How much was dropped in all.
    #[must_use]
    pub fn dropped_in_all(&self) -> Count {
        self.dropped.iter().fold(Count::default(), |sum, (_, count)| Count {
            packets: sum.packets + count.packets,
            bytes: sum.bytes + count.bytes,
        })
    }

    pub(crate) fn drop(&mut self, reason: DropReason, packet: &Packet) {
        self.waiting.remove(packet);
        if let Some((_, count)) = self.dropped.iter_mut().find(|(other, _)| *other == reason) {
            count.add(packet);
        }
    }
}
