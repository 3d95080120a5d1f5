//! What a load generator writes into each of its packets, and what the receiver makes of it.
//!
//! The stamp stands at the start of the payload (of UDP or TCP). As much of it is written as fits:
//!
//! | octets | field | from |
//! |---|---|---|
//! | 0 to 7 | time sent, ns since the run's start | a payload of 8 octets |
//! | 8 to 11 | flow | a payload of 16 octets |
//! | 12 to 15 | sequence number in the flow, modulo 2^32 | " |
//! | 16 to 19 | mark of the run | a payload of 24 octets |
//! | 20 to 23 | packet of the trace, 0 for a model's | " |
//!
//! All numbers are big-endian. The first 64 bits are the thesis's (section 3.4); the rest is ours, so that
//! loss, copies and reordering are told apart.

use alloc::vec;
use alloc::vec::Vec;

use engine::Time;

/// Octets of a whole stamp.
pub const STAMP_LEN: usize = 24;
/// Octets of a stamp without mark and packet.
const NUMBERED_LEN: usize = 16;
/// Octets of a stamp that is nothing but the time.
const TIMED_LEN: usize = 8;

/// What a packet is stamped with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// When it was handed to the wire.
    pub sent: Time,
    /// The flow it belongs to.
    pub flow: u32,
    /// 0 for the flow's first packet, then one more each, modulo 2^32.
    pub sequence: u32,
    /// Tells this run's packets from another's.
    pub mark: u32,
    /// Number of the packet in its trace.
    pub packet: u32,
}

/// A stamp as it was found, as far as it fitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// When it was handed to the wire.
    pub sent: Time,
    /// Flow and sequence number.
    pub number: Option<(u32, u32)>,
    /// Number of the packet in its trace.
    pub packet: Option<u32>,
}

impl Stamp {
    /// Writes as much of the stamp as fits to the start of `payload`; the octets written: 0, 8, 16 or 24.
    pub fn write(&self, payload: &mut [u8]) -> usize {
        let length = fitting(payload.len());
        payload[..length].copy_from_slice(&self.bytes()[..length]);
        length
    }

    /// The whole stamp.
    #[must_use]
    pub fn bytes(&self) -> [u8; STAMP_LEN] {
        let mut out = [0; STAMP_LEN];
        out[..8].copy_from_slice(&self.sent.as_nanos().to_be_bytes());
        out[8..12].copy_from_slice(&self.flow.to_be_bytes());
        out[12..16].copy_from_slice(&self.sequence.to_be_bytes());
        out[16..20].copy_from_slice(&self.mark.to_be_bytes());
        out[20..].copy_from_slice(&self.packet.to_be_bytes());
        out
    }

    /// The stamp at the start of `payload`. A whole one must have this `mark`; a payload that is
    /// shorter cannot say whose it is.
    #[must_use]
    pub fn read(payload: &[u8], mark: u32) -> Option<Found> {
        let word = |at: usize| payload.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes);
        let sent = payload.first_chunk::<8>().map(|bytes| Time::from_nanos(u64::from_be_bytes(*bytes)))?;
        let length = fitting(payload.len());
        let number = if length >= NUMBERED_LEN { word(8).zip(word(12)) } else { None };
        if length < STAMP_LEN {
            return Some(Found { sent, number, packet: None });
        }
        (word(16)? == mark).then(|| Found { sent, number, packet: word(20) })
    }
}

/// How many octets of a stamp fit into a payload of `room` octets.
#[must_use]
pub const fn fitting(room: usize) -> usize {
    match room {
        STAMP_LEN.. => STAMP_LEN,
        NUMBERED_LEN.. => NUMBERED_LEN,
        TIMED_LEN.. => TIMED_LEN,
        _ => 0,
    }
}

/// What a packet's number says about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The first copy, in order.
    First,
    /// The first copy, after a later number.
    Late,
    /// This number was here before.
    Copy,
    /// So much older than the newest that first copies and further ones cannot be told apart.
    Stale,
    /// A flow that does not exist.
    Unknown,
}

/// What all flows together received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Numbers that arrived at least once.
    pub received: u64,
    /// First copies that arrived after a later number of their flow.
    pub reordered: u64,
    /// Copies beyond the first.
    pub duplicated: u64,
    /// Too old to be told apart; none of the above.
    pub stale: u64,
    /// Of flows that do not exist.
    pub unknown: u64,
}

/// Follows the numbers of many flows. All memory is taken at the start: 16 octets a flow and one
/// bit for each number in its window.
#[derive(Clone, Debug)]
pub struct Tracker {
    flows: Vec<Flow>,
    /// Windows of all flows, one behind the other.
    seen: Vec<u64>,
    /// 64-bit words of one window; a power of two.
    words: usize,
    tally: Tally,
}

#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    /// The highest number so far plus one, counted on beyond 32 bits.
    next: u64,
    received: u64,
}

/// Bits that all windows together may take: 32 MiB.
const WINDOW_BITS: usize = 1 << 28;
const LARGEST_WINDOW: usize = 1 << 16;
const SMALLEST_WINDOW: usize = 1 << 8;

impl Tracker {
    /// A tracker of `flows` flows, numbered from 0. The more they are, the shorter their windows: from
    /// 65,536 numbers down to 256.
    #[must_use]
    pub fn new(flows: usize) -> Self {
        let share = (WINDOW_BITS / flows.max(1)).clamp(SMALLEST_WINDOW, LARGEST_WINDOW);
        // The largest power of two that is not over the share.
        let words = ((share + 1).next_power_of_two() / 2) / 64;
        Self { flows: vec![Flow::default(); flows], seen: vec![0; words * flows], words, tally: Tally::default() }
    }

    /// Numbers by which a packet may come late and still be told from a copy.
    #[must_use]
    pub fn window(&self) -> u64 {
        self.words as u64 * 64
    }

    /// The packet `sequence` of `flow` arrived.
    pub fn receive(&mut self, flow: u32, sequence: u32) -> Arrival {
        let arrival = self.place(flow as usize, sequence);
        let tally = &mut self.tally;
        match arrival {
            Arrival::First => tally.received += 1,
            Arrival::Late => {
                tally.received += 1;
                tally.reordered += 1;
            }
            Arrival::Copy => tally.duplicated += 1,
            Arrival::Stale => tally.stale += 1,
            Arrival::Unknown => tally.unknown += 1,
        }
        arrival
    }

    /// What was counted so far.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// First copies that `flow` received.
    #[must_use]
    pub fn received(&self, flow: u32) -> u64 {
        self.flows.get(flow as usize).map_or(0, |flow| flow.received)
    }

    fn place(&mut self, index: usize, sequence: u32) -> Arrival {
        let window = self.window();
        let Some(flow) = self.flows.get_mut(index) else { return Arrival::Unknown };
        let seen = &mut self.seen[index * self.words..][..self.words];
        // Numbers wrap at 2^32: the nearest continuation is meant (as in RFC 1982 3.2).
        let ahead = sequence.wrapping_sub(flow.next as u32).cast_signed();
        let Some(number) = flow.next.checked_add_signed(i64::from(ahead)) else { return Arrival::Stale };
        let (word, bit) = ((number % window / 64) as usize, 1 << (number % 64));
        if number >= flow.next {
            forget(seen, flow.next, number, window);
            flow.next = number + 1;
            seen[word] |= bit;
            flow.received += 1;
            return Arrival::First;
        }
        if flow.next - number > window {
            return Arrival::Stale;
        }
        if seen[word] & bit != 0 {
            return Arrival::Copy;
        }
        seen[word] |= bit;
        flow.received += 1;
        Arrival::Late
    }
}

/// Clears the bits of the numbers `from..=to`, which take the places of those that leave the window.
fn forget(seen: &mut [u64], from: u64, to: u64, window: u64) {
    if to - from >= window {
        seen.fill(0);
        return;
    }
    for number in from..=to {
        seen[(number % window / 64) as usize] &= !(1 << (number % 64));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn stamp() -> Stamp {
        Stamp { sent: Time::from_nanos(1 << 40), flow: 7, sequence: u32::MAX, mark: 0xfeed_beef, packet: 12 }
    }

    #[test]
    fn as_much_is_written_as_fits_and_read_back() {
        let all = Found { sent: stamp().sent, number: Some((7, u32::MAX)), packet: Some(12) };
        for (room, octets, found) in [
            (0, 0, None),
            (7, 0, None),
            (8, 8, Some(Found { number: None, packet: None, ..all })),
            (23, 16, Some(Found { packet: None, ..all })),
            (24, 24, Some(all)),
            (1400, 24, Some(all)),
        ] {
            let mut payload = vec![0x55; room];
            assert_eq!(stamp().write(&mut payload), octets);
            assert!(payload[octets..].iter().all(|byte| *byte == 0x55));
            assert_eq!(Stamp::read(&payload, stamp().mark), found);
        }
    }

    #[test]
    fn another_run_s_packets_are_not_ours() {
        assert_eq!(Stamp::read(&stamp().bytes(), 1), None);
    }

    #[test]
    fn windows_shrink_with_the_number_of_flows() {
        assert_eq!(Tracker::new(1).window(), 65_536);
        assert_eq!(Tracker::new(10_000).window(), 16_384);
        assert_eq!(Tracker::new(2_000_000).window(), 256);
    }

    #[test]
    fn a_wrapped_number_goes_on() {
        let mut tracker = Tracker::new(1);
        let mut sequence = 0;
        // Steps under half of the number space, as on any real path.
        for step in [1 << 30; 4] {
            assert_eq!(tracker.receive(0, sequence), Arrival::First);
            sequence = sequence.wrapping_add(step);
        }
        assert_eq!(sequence, 0);
        assert_eq!(tracker.receive(0, 0), Arrival::First);
        assert_eq!(tracker.receive(0, u32::MAX), Arrival::Late);
        assert_eq!(tracker.receive(0, 0), Arrival::Copy);
        assert_eq!(tracker.receive(1, 0), Arrival::Unknown);
    }

    proptest! {
        /// Against a set that forgets nothing, as long as nothing is older than the window.
        #[test]
        fn arrivals_are_what_a_set_says(steps in prop::collection::vec((0u32..4, 0u32..300), 1..400)) {
            let mut tracker = Tracker::new(1);
            let (mut seen, mut next) = (HashSet::new(), 0u32);
            let mut expected = Tally::default();
            for (kind, by) in steps {
                let sequence = if kind == 0 { next.saturating_sub(by) } else { next + kind - 1 };
                let fresh = seen.insert(sequence);
                let late = sequence < next;
                next = next.max(sequence + 1);
                let arrival = tracker.receive(0, sequence);
                let is = match (fresh, late) {
                    (true, false) => Arrival::First,
                    (true, true) => Arrival::Late,
                    (false, _) => Arrival::Copy,
                };
                prop_assert_eq!(arrival, is);
                expected.received += u64::from(fresh);
                expected.reordered += u64::from(fresh && late);
                expected.duplicated += u64::from(!fresh);
            }
            prop_assert_eq!(tracker.tally(), expected);
            prop_assert_eq!(tracker.received(0), expected.received);
        }
    }
}
