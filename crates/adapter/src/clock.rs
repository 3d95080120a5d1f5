//! The adapter's own clock of the line: when the last character that was handed over is sent.
//!
//! Nothing is asked of a driver. Its queues are long (4 KiB are 4.3 s at 9600 baud), and what they
//! say of themselves is not to be trusted: a pseudo-terminal reports none at all.

use engine::{Rate, Span, Time};

/// Knows how long characters take, and until when the line is busy.
#[derive(Debug)]
pub(crate) struct Clock {
    rate: u64,
    bits: u64,
    free_at: Time,
    /// Fraction of a nanosecond that [`Self::free_at`] was rounded down by, times the rate.
    carry: u64,
}

const SECOND: u128 = 1_000_000_000;

impl Clock {
    pub(crate) fn new(rate: Rate, bits_per_character: u8) -> Self {
        Self { rate: rate.bits_per_second(), bits: u64::from(bits_per_character), free_at: Time::ZERO, carry: 0 }
    }

    /// When the line is free.
    pub(crate) fn free_at(&self) -> Time {
        self.free_at
    }

    /// Hands over so many characters: when the first starts and the last ends. A busy line's n-th
    /// character ends at n over the rate exactly, rounded down to the nanosecond.
    pub(crate) fn send(&mut self, now: Time, characters: usize) -> (Time, Time) {
        if now > self.free_at {
            (self.free_at, self.carry) = (now, 0);
        }
        let start = self.free_at;
        let total = characters as u128 * u128::from(self.bits) * SECOND + u128::from(self.carry);
        self.carry = (total % u128::from(self.rate)) as u64;
        self.free_at = start + Span::from_nanos((total / u128::from(self.rate)) as u64);
        (start, self.free_at)
    }

    /// How long so many characters take, rounded up to the nanosecond.
    pub(crate) fn time_for(&self, characters: u64) -> Span {
        let total = u128::from(characters) * u128::from(self.bits) * SECOND;
        Span::from_nanos(total.div_ceil(u128::from(self.rate)) as u64)
    }

    /// How many whole characters fit into a span. One that is short by a nanosecond, by which times
    /// are rounded, fits.
    pub(crate) fn characters_in(&self, span: Span) -> u64 {
        let bits = (u128::from(span.as_nanos()) + 1) * u128::from(self.rate);
        (bits / (u128::from(self.bits) * SECOND)) as u64
    }

    /// Characters a second, times 1,000.
    pub(crate) fn capacity(&self) -> u64 {
        self.rate * 1_000 / self.bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_line_loses_nothing_to_rounding() {
        let mut clock = Clock::new(Rate::from_bits_per_second(9600).unwrap(), 10);
        let (mut last, mut characters) = (Time::ZERO, 0);
        while characters < 960 * 7 {
            let (start, end) = clock.send(Time::ZERO, 7);
            assert_eq!(start, last);
            (last, characters) = (end, characters + 7);
        }
        assert_eq!(last, Time::from_nanos(7_000_000_000));
        assert_eq!(clock.characters_in(clock.time_for(41)), 41);
        assert_eq!(clock.characters_in(Span::from_nanos(1_041_665)), 0);
        assert_eq!(clock.characters_in(Span::from_nanos(1_041_666)), 1);
    }
}
