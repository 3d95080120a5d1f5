//! Numbered and timed datagrams, and what their receiver makes of them.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use engine::{Span, Time};

/// Bytes a probe takes at the start of a payload.
pub const PROBE_LEN: usize = 24;

/// "NARR" in ASCII: tells a probe from anything else.
const MAGIC: u32 = 0x4e41_5252;

/// What a probe carries: big-endian magic (u32), flow (u32), number (u64), time sent (u64 ns).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Tells flows of one run apart.
    pub flow: u32,
    /// 0 for the first datagram, then one more each.
    pub number: u64,
    /// When it was handed to the socket.
    pub sent: Time,
}

impl Probe {
    /// The probe at the start of `payload`, if there is one.
    #[must_use]
    pub fn read(payload: &[u8]) -> Option<Self> {
        let (magic, rest) = payload.split_first_chunk::<4>()?;
        let (flow, rest) = rest.split_first_chunk::<4>()?;
        let (number, rest) = rest.split_first_chunk::<8>()?;
        let sent = rest.first_chunk::<8>()?;
        (u32::from_be_bytes(*magic) == MAGIC).then(|| Self {
            flow: u32::from_be_bytes(*flow),
            number: u64::from_be_bytes(*number),
            sent: Time::from_nanos(u64::from_be_bytes(*sent)),
        })
    }

    /// The probe as it stands in a payload.
    #[must_use]
    pub fn bytes(&self) -> [u8; PROBE_LEN] {
        let mut out = [0; PROBE_LEN];
        out[0..4].copy_from_slice(&MAGIC.to_be_bytes());
        out[4..8].copy_from_slice(&self.flow.to_be_bytes());
        out[8..16].copy_from_slice(&self.number.to_be_bytes());
        out[16..24].copy_from_slice(&self.sent.as_nanos().to_be_bytes());
        out
    }
}

/// Tells copies and latecomers among the last this many numbers; an older number is taken for a
/// copy, since nothing can say otherwise.
const WINDOW: u64 = 1 << 16;

/// The receiving end of a flow of probes: first arrivals, copies, order and jitter.
#[derive(Clone, Debug)]
pub struct ProbeReceiver {
    /// One bit for each number in the window, by number modulo its size.
    seen: Vec<u64>,
    /// The highest number so far, plus one.
    next: u64,
    /// Only probes sent in this time are counted.
    window: Range<Time>,
    counts: Counts,
    last_transit: Option<i128>,
    /// RFC 3550 A.8 keeps the estimate scaled by 16, so that the division loses nothing.
    jitter_x16: u128,
}

/// What an arriving probe is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The first copy of this number.
    First {
        /// Time from sending to receiving.
        delay: Span,
        /// A later number came before it.
        reordered: bool,
    },
    /// This number was here before.
    Copy,
}

/// What a receiver counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Numbers that arrived at least once.
    pub received: u64,
    /// Copies beyond the first.
    pub duplicated: u64,
    /// First copies that arrived after a later number.
    pub reordered: u64,
}

impl ProbeReceiver {
    /// A receiver that counts the probes sent within `window`.
    #[must_use]
    pub fn new(window: Range<Time>) -> Self {
        Self {
            seen: vec![0; (WINDOW / 64) as usize],
            next: 0,
            window,
            counts: Counts::default(),
            last_transit: None,
            jitter_x16: 0,
        }
    }

    /// A probe arrived at `now`.
    pub fn receive(&mut self, now: Time, probe: &Probe) -> Arrival {
        let arrival = self.place(now, probe);
        if self.window.contains(&probe.sent) {
            match arrival {
                Arrival::First { reordered, .. } => {
                    self.counts.received += 1;
                    self.counts.reordered += u64::from(reordered);
                }
                Arrival::Copy => self.counts.duplicated += 1,
            }
        }
        arrival
    }

    /// What was counted so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    fn place(&mut self, now: Time, probe: &Probe) -> Arrival {
        let reordered = probe.number < self.next;
        if reordered {
            if self.next - probe.number > WINDOW || self.is_seen(probe.number) {
                return Arrival::Copy;
            }
        } else {
            // Forget the numbers that leave the window.
            for number in (self.next..=probe.number).rev().take(WINDOW as usize) {
                self.seen[(number % WINDOW / 64) as usize] &= !(1 << (number % 64));
            }
            self.next = probe.number + 1;
        }
        self.seen[(probe.number % WINDOW / 64) as usize] |= 1 << (probe.number % 64);
        self.update_jitter(now, probe.sent);
        Arrival::First { delay: now.since(probe.sent), reordered }
    }

    /// Interarrival jitter (RFC 3550 6.4.1), updated in order of arrival.
    #[must_use]
    pub fn jitter(&self) -> Span {
        Span::from_nanos(u64::try_from(self.jitter_x16 / 16).unwrap_or(u64::MAX))
    }

    fn is_seen(&self, number: u64) -> bool {
        self.seen[(number % WINDOW / 64) as usize] >> (number % 64) & 1 == 1
    }

    fn update_jitter(&mut self, now: Time, sent: Time) {
        let transit = i128::from(now.as_nanos()) - i128::from(sent.as_nanos());
        if let Some(last) = self.last_transit {
            let difference = (transit - last).unsigned_abs();
            self.jitter_x16 = self.jitter_x16 + difference - (self.jitter_x16 + 8) / 16;
        }
        self.last_transit = Some(transit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(number: u64, sent: u64) -> Probe {
        Probe { flow: 7, number, sent: Time::from_nanos(sent) }
    }

    #[test]
    fn what_is_written_is_read() {
        let probe = probe(1 << 40, 12_345);
        assert_eq!(Probe::read(&probe.bytes()), Some(probe));
        assert_eq!(Probe::read(&probe.bytes()[..PROBE_LEN - 1]), None);
        assert_eq!(Probe::read(&[0; 64]), None);
    }

    #[test]
    fn first_copies_latecomers_and_duplicates_are_told_apart() {
        let mut receiver = ProbeReceiver::new(Time::ZERO..Time::MAX);
        let mut arrive = |number| match receiver.receive(Time::from_nanos(9), &probe(number, 4)) {
            Arrival::First { reordered: false, .. } => "first",
            Arrival::First { reordered: true, .. } => "late",
            Arrival::Copy => "copy",
        };
        assert_eq!(
            [0, 2, 1, 1, 2, 200_000, 199_999, 1].map(&mut arrive),
            ["first", "first", "late", "copy", "copy", "first", "late", "copy"]
        );
        assert_eq!(receiver.counts(), Counts { received: 5, duplicated: 3, reordered: 2 });
    }

    /// RFC 3550 6.4.1: J = J + (|D| - J) / 16.
    #[test]
    fn jitter_follows_the_formula() {
        let mut receiver = ProbeReceiver::new(Time::ZERO..Time::MAX);
        let mut expected = 0.0f64;
        let mut last = None;
        for number in 0..1_000u64 {
            let (sent, delay) = (number * 20_000_000, 5_000_000 + number * 7_919 % 3_000_000);
            receiver.receive(Time::from_nanos(sent + delay), &probe(number, sent));
            if let Some(last) = last {
                expected += ((delay as f64 - last as f64).abs() - expected) / 16.0;
            }
            last = Some(delay);
        }
        assert!((receiver.jitter().as_nanos() as f64 - expected).abs() < 20.0);
    }
}
