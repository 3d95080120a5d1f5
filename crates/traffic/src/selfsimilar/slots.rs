//! Packets per slot of time: the series whose Hurst exponent is estimated.

use alloc::vec;
use alloc::vec::Vec;

use engine::{Span, Time};

/// Slots at most: 8 MiB, and what a Fourier transform of them takes.
pub const MOST_SLOTS: usize = 1 << 20;

/// Packets of a slot in the mean, if it can be chosen: fewer, and chance hides what they have in common.
const PACKETS_A_SLOT: u64 = 10;

/// Slots that a trace should have.
const WANTED_SLOTS: u64 = 2_048;

/// Counts packets, or their bytes, per slot.
#[derive(Clone, Debug)]
pub struct Slots {
    start: Time,
    slot: Span,
    counts: Vec<f64>,
}

impl Slots {
    /// As many whole slots of `slot` (at least 1 ns) as there are in `lasts` from `start` on, but at most
    /// [`MOST_SLOTS`].
    #[must_use]
    pub fn new(start: Time, lasts: Span, slot: Span) -> Self {
        let slot = slot.max(Span::from_nanos(1));
        let slots = usize::try_from(lasts.as_nanos() / slot.as_nanos()).unwrap_or(MOST_SLOTS);
        Self { start, slot, counts: vec![0.0; slots.min(MOST_SLOTS)] }
    }

    /// Adds `weight` (1 for a packet, or its bytes) at `time`, in any order; times outside are left out.
    pub fn add(&mut self, time: Time, weight: f64) {
        let slot = time.since(self.start).as_nanos() / self.slot.as_nanos();
        let count = usize::try_from(slot).ok().and_then(|slot| self.counts.get_mut(slot));
        if let Some(count) = count.filter(|_| time >= self.start) {
            *count += weight;
        }
    }

    /// What each slot has.
    #[must_use]
    pub fn counts(&self) -> &[f64] {
        &self.counts
    }

    /// Index of dispersion: variance over mean of the slots. 1 for independent packets, and n for n copies of them
    /// at the same time. 0 without packets.
    #[must_use]
    pub fn dispersion(&self) -> f64 {
        let n = self.counts.len().max(1) as f64;
        let mean = self.counts.iter().sum::<f64>() / n;
        let squares: f64 = self.counts.iter().map(|count| (count - mean) * (count - mean)).sum();
        if mean > 0.0 { squares / (n - 1.0).max(1.0) / mean } else { 0.0 }
    }
}

/// A slot for a trace of `packets` packets in `lasts`: some ten packets in the mean, less for short traces so
/// that there are more slots, more for long ones so that they are not too many; rounded up to 1, 2 or 5 and zeros.
#[must_use]
pub fn fitting(packets: u64, lasts: Span) -> Span {
    let slots = (packets / PACKETS_A_SLOT).max(WANTED_SLOTS.min(packets)).clamp(1, MOST_SLOTS as u64);
    let nanos = lasts.as_nanos().div_ceil(slots).max(1);
    let mut decade = 1u64;
    loop {
        for factor in [1, 2, 5] {
            let slot = decade.saturating_mul(factor);
            if slot >= nanos {
                return Span::from_nanos(slot);
            }
        }
        decade = decade.saturating_mul(10);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_counted_where_they_are() {
        let mut slots = Slots::new(Time::from_nanos(100), Span::from_nanos(35), Span::from_nanos(10));
        for time in [99, 100, 109, 110, 129, 130, 5_000] {
            slots.add(Time::from_nanos(time), 1.0);
        }
        assert_eq!(slots.counts(), [2.0, 1.0, 1.0]);
        assert_eq!(slots.dispersion(), (1.0 / 3.0) / (4.0 / 3.0));
        assert_eq!(Slots::new(Time::ZERO, Span::ZERO, Span::ZERO).dispersion(), 0.0);
    }

    #[test]
    fn slots_fit_the_trace() {
        assert_eq!(fitting(60_000, Span::from_secs(60)), Span::from_millis(10));
        assert_eq!(fitting(60_000, Span::from_secs(2)), Span::from_micros(500));
        assert_eq!(fitting(1_000, Span::from_secs(1)), Span::from_millis(1));
        assert_eq!(fitting(0, Span::ZERO), Span::from_nanos(1));
        assert_eq!(fitting(u64::MAX, Span::MAX), Span::from_secs(20_000));
    }
}
