//! When an application that keeps to a rate may write next.

use engine::{Rate, Span, Time};

/// A limit on the average rate since the start, as `iperf3 -b` keeps it: a block is written
/// whenever what was written so far is no more than the rate allows by now, so a source that was
/// held up catches up as fast as the transport takes it.
///
/// iperf3 looks once a millisecond; this says when to look.
#[derive(Clone, Debug)]
pub struct Throttle {
    rate: Option<Rate>,
    start: Time,
    written: u64,
}

impl Throttle {
    /// A throttle at `rate` (none: no limit) that starts at `start`.
    #[must_use]
    pub fn new(rate: Option<Rate>, start: Time) -> Self {
        Self { rate, start, written: 0 }
    }

    /// The earliest time at which the next block may be written.
    #[must_use]
    pub fn ready_at(&self) -> Time {
        match self.rate {
            // Rounded up, so that the average is never above the rate when a block begins.
            Some(rate) => {
                let mut carry = 0;
                let due = self.start + rate.time_for(self.written, &mut carry);
                if carry == 0 { due } else { due + Span::from_nanos(1) }
            }
            None => self.start,
        }
    }

    /// Counts what the transport took.
    pub fn wrote(&mut self, bytes: u64) {
        self.written += bytes;
    }

    /// Bytes written since the start.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_average_never_exceeds_the_rate_when_a_block_begins() {
        let rate = "3kbit/s".parse::<Rate>().unwrap();
        let start = Time::from_nanos(17);
        let mut throttle = Throttle::new(Some(rate), start);
        for block in 0..1_000u64 {
            let at = throttle.ready_at();
            assert!(rate.bytes_in(at.since(start)) >= throttle.written());
            assert_eq!(throttle.written(), block * 7);
            throttle.wrote(7);
        }
    }

    #[test]
    fn a_source_that_was_held_up_catches_up() {
        let mut throttle = Throttle::new("8kbit/s".parse().ok(), Time::ZERO);
        throttle.wrote(1_000);
        assert_eq!(throttle.ready_at(), Time::from_nanos(1_000_000_000));
        // Held up until 10 s: nine more blocks of 1,000 bytes are due at once.
        let due = (0..).take_while(|_| {
            let ready = throttle.ready_at() < Time::from_nanos(10_000_000_000);
            throttle.wrote(1_000);
            ready
        });
        assert_eq!(due.count(), 9);
    }
}
