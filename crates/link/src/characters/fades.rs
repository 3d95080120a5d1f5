//! When the signal fades, and when the line is cut.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

use engine::{Random, Span, Time};

use super::config::{FadeTimes, Interval};

/// Intervals, asked for in the order of time.
#[derive(Debug)]
pub(crate) struct Intervals {
    source: Source,
    /// The one that is, or comes next.
    from: Time,
    until: Time,
}

#[derive(Debug)]
enum Source {
    Listed(Vec<Interval>, usize),
    Drawn { interval: Span, length: Span, random: Box<Random> },
}

impl Intervals {
    pub(crate) fn listed(list: &[Interval]) -> Self {
        Self::new(Source::Listed(list.to_vec(), 0))
    }

    /// From `now` on the next one is awaited.
    pub(crate) fn drawn(times: &FadeTimes, seed: u64, label: &str, now: Time) -> Self {
        match times {
            FadeTimes::Listed(list) => Self::listed(list),
            FadeTimes::Drawn { interval, length } => {
                let random = Box::new(Random::stream(seed, &format!("{label}.fades")));
                let mut intervals = Self {
                    source: Source::Drawn { interval: *interval, length: *length, random },
                    from: now,
                    until: now,
                };
                intervals.advance();
                intervals
            }
        }
    }

    fn new(source: Source) -> Self {
        let mut intervals = Self { source, from: Time::ZERO, until: Time::ZERO };
        intervals.advance();
        intervals
    }

    /// Whether one covers any of what lies between two times.
    pub(crate) fn touch(&mut self, begin: Time, end: Time) -> bool {
        while self.until <= begin && self.from < Time::MAX {
            self.advance();
        }
        self.from < end
    }

    fn advance(&mut self) {
        match &mut self.source {
            Source::Listed(list, next) => {
                let interval = list.get(*next).copied();
                *next += 1;
                self.from = interval.map_or(Time::MAX, |interval| Time::ZERO + interval.from);
                self.until = interval.map_or(Time::MAX, |interval| self.from + interval.length);
            }
            Source::Drawn { interval, length, random } => {
                self.from = self.until + exponential(random, *interval);
                self.until = self.from + exponential(random, *length);
            }
        }
    }
}

/// Exponential with this mean; at least a nanosecond, so that time goes on.
fn exponential(random: &mut Random, mean: Span) -> Span {
    let nanos = -libm::log(1.0 - random.uniform()) * mean.as_nanos() as f64;
    Span::from_nanos((nanos as u64).max(1))
}
