//! A histogram of spans of time without the standard library.

use alloc::boxed::Box;
use alloc::vec;

use engine::Span;

/// How often spans of which length occurred.
///
/// Buckets are 1/32 of an octave wide (a value read back is at most 3.2 % above what was put in),
/// from 1 µs on; shorter spans fall into steps of 31.25 ns. Spans over 4,294 s count as that.
/// 8 KiB, allocated once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    counts: Box<[u64]>,
    count: u64,
    sum: u128,
    least: Span,
    most: Span,
}

/// Nanoseconds of the finest step: 1000/32, in 1/4 ns so that it is whole.
const UNIT_QUARTERS: u64 = 125;
const SUB: u64 = 32;
const OCTAVES: u64 = 32;

impl Default for Histogram {
    fn default() -> Self {
        let counts = vec![0; (SUB * (OCTAVES + 1)) as usize].into_boxed_slice();
        Self { counts, count: 0, sum: 0, least: Span::MAX, most: Span::ZERO }
    }
}

impl Histogram {
    /// Counts a span.
    pub fn record(&mut self, span: Span) {
        if let Some(bucket) = self.counts.get_mut(Self::bucket(span)) {
            *bucket += 1;
        }
        self.count += 1;
        self.sum += u128::from(span.as_nanos());
        self.least = self.least.min(span);
        self.most = self.most.max(span);
    }

    /// How many spans were counted.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The shortest, if there is one.
    #[must_use]
    pub fn least(&self) -> Option<Span> {
        (self.count > 0).then_some(self.least)
    }

    /// The longest, if there is one.
    #[must_use]
    pub fn most(&self) -> Option<Span> {
        (self.count > 0).then_some(self.most)
    }

    /// The mean, if there is one; exact but for the nanosecond.
    #[must_use]
    pub fn mean(&self) -> Option<Span> {
        let mean = self.sum.checked_div(u128::from(self.count))?;
        Some(Span::from_nanos(mean as u64))
    }

    /// The least value that at least `quantile` (0 to 1) of the spans do not exceed, to the
    /// resolution of a bucket and never over the longest; `None` if nothing was counted.
    #[must_use]
    pub fn quantile(&self, quantile: f64) -> Option<Span> {
        let rank = (libm::ceil(quantile.clamp(0.0, 1.0) * self.count as f64) as u64).max(1);
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Some(Self::upper(bucket as u64).min(self.most));
            }
        }
        None
    }

    /// The buckets that are not empty: the longest span of each, and how many there were.
    pub fn buckets(&self) -> impl Iterator<Item = (Span, u64)> {
        let filled = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        filled.map(|(bucket, count)| (Self::upper(bucket as u64), *count))
    }

    fn bucket(span: Span) -> usize {
        let units = span.as_nanos().saturating_mul(4) / UNIT_QUARTERS;
        // 0 to 31 are steps of one unit; from there each octave has 32 steps.
        let octave = u64::from(units.max(SUB).ilog2() - SUB.ilog2());
        let bucket = octave * SUB + (units >> octave);
        bucket.min(SUB * (OCTAVES + 1) - 1) as usize
    }

    /// The longest span of a bucket.
    fn upper(bucket: u64) -> Span {
        let octave = (bucket / SUB).saturating_sub(1);
        let units = (bucket - octave * SUB + 1) << octave;
        Span::from_nanos((units * UNIT_QUARTERS - 1) / 4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantiles_of_known_spans() {
        let mut histogram = Histogram::default();
        assert_eq!((histogram.quantile(0.5), histogram.mean()), (None, None));
        for millis in 1..=100 {
            histogram.record(Span::from_millis(millis));
        }
        let near = |quantile, millis: u64| {
            let read = histogram.quantile(quantile).unwrap().as_nanos() as f64 / 1e6;
            (millis as f64..=millis as f64 * 1.032).contains(&read)
        };
        assert!(near(0.5, 50) && near(0.99, 99) && near(0.0, 1));
        assert_eq!(histogram.quantile(1.0), Some(Span::from_millis(100)));
        assert_eq!(histogram.mean(), Some(Span::from_micros(50_500)));
    }

    proptest! {
        #[test]
        fn a_bucket_holds_what_falls_into_it(nanos in 0u64..4_000_000_000_000) {
            let bucket = Histogram::bucket(Span::from_nanos(nanos)) as u64;
            let upper = Histogram::upper(bucket).as_nanos();
            prop_assert!(upper >= nanos && upper as f64 <= nanos as f64 * 1.032 + 32.0, "{} {}", nanos, upper);
            if bucket > 0 {
                prop_assert!(Histogram::upper(bucket - 1).as_nanos() < nanos);
            }
        }
    }
}
