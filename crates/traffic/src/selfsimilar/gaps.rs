//! The list of times between packets, as the thesis looks at it: its histogram, and the sum of its
//! autocorrelations, for a trace as it is, copied and repeated (Ericload thesis, section 4.4 and figure 5.7).
//!
//! A list of 60,000 gaps copied and repeated 100 times each has 600 million; it is never written out. Its sample
//! autocorrelations follow exactly from those of the list itself, for a copy is a gap of zero and a
//! repetition the same list again.

use alloc::vec::Vec;

use engine::{Random, Span, Time};

use super::fft::correlation;

/// Gaps that are looked at, at most; of longer traces the first ones.
pub const MOST_GAPS: usize = 1 << 20;

/// How often a trace is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Multiple {
    /// Copies of each packet that leave at the same time, itself included. At least 1.
    pub copies: u64,
    /// Times the whole trace is played, one after the other. At least 1.
    pub repetitions: u64,
}

impl Multiple {
    /// As it is.
    pub const ONCE: Self = Self { copies: 1, repetitions: 1 };
}

/// The times between the packets of a trace.
#[derive(Clone, Debug)]
pub struct Gaps {
    /// In nanoseconds.
    gaps: Vec<f64>,
    /// Σ x_i x_{i+k} of them.
    products: Vec<f64>,
    /// The sum of all before each of them, and of all.
    sums: Vec<f64>,
}

impl Gaps {
    /// The gaps between packets at `times`, which must not decrease; a step back counts as no gap.
    #[must_use]
    pub fn between(times: &[Time]) -> Self {
        let gaps = times.windows(2).take(MOST_GAPS).map(|pair| pair[1].since(pair[0]).as_nanos() as f64);
        Self::of(gaps.collect())
    }

    fn of(gaps: Vec<f64>) -> Self {
        let products = correlation(&gaps, gaps.len());
        let mut sums = Vec::with_capacity(gaps.len() + 1);
        let mut sum = 0.0;
        sums.push(sum);
        for gap in &gaps {
            sum += gap;
            sums.push(sum);
        }
        Self { gaps, products, sums }
    }

    /// The same gaps in an order that is drawn: what is left then is chance.
    #[must_use]
    pub fn shuffled(&self, random: &mut Random) -> Self {
        let mut gaps = self.gaps.clone();
        for i in (1..gaps.len()).rev() {
            gaps.swap(i, random.below(i as u64 + 1) as usize);
        }
        Self::of(gaps)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.gaps.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.gaps.is_empty()
    }

    /// The mean gap in nanoseconds; 0 of none.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.sums.last().copied().unwrap_or(0.0) / self.gaps.len().max(1) as f64
    }

    /// How many gaps of the multiplied trace are in each bin of `width`, for `bins` bins from zero; then how many are
    /// longer. Gaps of zero, as copies have them, are in the first.
    #[must_use]
    pub fn histogram(&self, multiple: Multiple, width: Span, bins: usize) -> Vec<u64> {
        let mut counts = alloc::vec![0u64; bins + 1];
        let width = width.as_nanos().max(1) as f64;
        for gap in &self.gaps {
            counts[((gap / width) as usize).min(bins)] += multiple.repetitions;
        }
        let zeros = (self.gaps.len() as u64).saturating_mul(multiple.copies.saturating_sub(1));
        counts[0] = counts[0].saturating_add(zeros.saturating_mul(multiple.repetitions));
        counts
    }

    /// Σ |ρ(k)| over the lags k from 1 to each lag that is given: equation 2.2 of the thesis as far as a sample
    /// goes, with ρ the usual sample autocorrelation. `lags` must rise; those beyond the list are left out. None if
    /// the gaps are all the same, which have no correlation.
    ///
    /// The sum of |ρ| over a finite sample grows without end for any series, independent ones too, for
    /// each |ρ| is about √(2/(πn)) by chance alone: compare with [`Gaps::shuffled`].
    #[must_use]
    pub fn autocorrelation_sum(&self, multiple: Multiple, lags: &[u64]) -> Option<Vec<(u64, f64)>> {
        if self.is_empty() {
            return None;
        }
        let list = Multiplied::new(self, multiple);
        let variance = list.covariance(0);
        // Rounding leaves this much of equal gaps.
        if variance.is_nan() || variance <= 1e-9 * list.product(0) {
            return None;
        }
        let mut sum = 0.0;
        let mut lag = 0;
        let within = lags.iter().take_while(|lag| u128::from(**lag) < list.len);
        let points = within.map(|until| {
            while lag < *until {
                lag += 1;
                sum += libm::fabs(list.covariance(u128::from(lag))) / variance;
            }
            (*until, sum)
        });
        Some(points.collect())
    }
}

/// A list of gaps with copies and repetitions, not written out: after each gap `copies - 1` zeros, and all of
/// it `repetitions` times.
struct Multiplied<'a> {
    gaps: &'a Gaps,
    copies: u128,
    repetitions: u128,
    len: u128,
    mean: f64,
}

impl<'a> Multiplied<'a> {
    fn new(gaps: &'a Gaps, multiple: Multiple) -> Self {
        let (copies, repetitions) = (u128::from(multiple.copies.max(1)), u128::from(multiple.repetitions.max(1)));
        let len = gaps.gaps.len() as u128 * copies * repetitions;
        Self { gaps, copies, repetitions, len, mean: gaps.mean() / copies as f64 }
    }

    /// Σ y_i y_{i+k}.
    fn product(&self, lag: u128) -> f64 {
        if !lag.is_multiple_of(self.copies) {
            return 0.0;
        }
        let n = self.gaps.gaps.len();
        let (turns, within) = (lag / self.copies / n as u128, (lag / self.copies % n as u128) as usize);
        let Some(whole) = self.repetitions.checked_sub(turns) else { return 0.0 };
        // Pairs within one repetition, and pairs of which one is in the next.
        let inside = whole as f64 * self.gaps.products[within];
        let across = if within == 0 { 0.0 } else { self.gaps.products[n - within] };
        inside + whole.saturating_sub(1) as f64 * across
    }

    /// Σ y_i over the first `count`.
    fn sum(&self, count: u128) -> f64 {
        let n = self.gaps.gaps.len() as u128;
        let (turns, within) = (count / (n * self.copies), count % (n * self.copies));
        let total = self.gaps.sums[n as usize];
        turns as f64 * total + self.gaps.sums[within.div_ceil(self.copies) as usize]
    }

    /// Σ (y_i - mean)(y_{i+k} - mean), without dividing by the length.
    fn covariance(&self, lag: u128) -> f64 {
        let rest = self.len - lag;
        let ends = self.sum(rest) + self.sum(self.len) - self.sum(lag);
        self.product(lag) - self.mean * ends + rest as f64 * self.mean * self.mean
    }
}

/// About `points` lags from 1 to `last`, evenly spread over their logs.
#[must_use]
pub fn lags(last: u64, points: u32) -> Vec<u64> {
    let mut lags: Vec<u64> = Vec::new();
    for i in 0..=points {
        let lag = libm::round(libm::pow(last as f64, f64::from(i) / f64::from(points.max(1)))) as u64;
        if lag >= 1 && lags.last().is_none_or(|before| *before < lag) {
            lags.push(lag);
        }
    }
    lags
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sum of the list written out.
    fn written_out(gaps: &[f64], multiple: Multiple) -> Vec<f64> {
        let mut list = Vec::new();
        for _ in 0..multiple.repetitions {
            for gap in gaps {
                list.push(*gap);
                list.extend((1..multiple.copies).map(|_| 0.0));
            }
        }
        let n = list.len();
        let mean = list.iter().sum::<f64>() / n as f64;
        let covariance = |k: usize| (0..n - k).map(|i| (list[i] - mean) * (list[i + k] - mean)).sum::<f64>();
        let mut sum = 0.0;
        (1..n)
            .map(|k| {
                sum += libm::fabs(covariance(k) / covariance(0));
                sum
            })
            .collect()
    }

    #[test]
    fn multiplied_lists_have_the_correlations_of_the_list_written_out() {
        let mut random = Random::stream(5, "gaps");
        let gaps: Vec<f64> = (0..37).map(|_| (1e6 * random.uniform()) as u64 as f64).collect();
        let times: Vec<Time> = (0..=37).map(|i| Time::from_nanos(gaps[..i].iter().sum::<f64>() as u64 + 9)).collect();
        let between = Gaps::between(&times);
        assert_eq!(between.gaps, gaps);
        for (copies, repetitions) in [(1, 1), (4, 1), (1, 3), (3, 2)] {
            let multiple = Multiple { copies, repetitions };
            let slow = written_out(&gaps, multiple);
            let all: Vec<u64> = (1..slow.len() as u64 + 10).collect();
            let fast = between.autocorrelation_sum(multiple, &all).unwrap();
            assert_eq!(fast.len(), slow.len());
            for ((lag, fast), slow) in fast.into_iter().zip(slow) {
                assert!((fast - slow).abs() < 1e-6 * slow.max(1.0), "{multiple:?}, lag {lag}: {fast}, not {slow}");
            }
        }
    }

    #[test]
    fn copies_are_gaps_of_zero() {
        let times = [0, 10, 25, 25, 1_000].map(Time::from_nanos);
        let gaps = Gaps::between(&times);
        let histogram = |copies, repetitions| gaps.histogram(Multiple { copies, repetitions }, Span::from_nanos(10), 3);
        assert_eq!(histogram(1, 1), [1, 2, 0, 1]);
        assert_eq!(histogram(3, 1), [1 + 8, 2, 0, 1]);
        assert_eq!(histogram(3, 10), [90, 20, 0, 10]);
    }

    #[test]
    fn lists_without_a_correlation_have_none() {
        let even: Vec<Time> = (0..100).map(|i| Time::from_nanos(i * 1_000)).collect();
        assert_eq!(Gaps::between(&even).autocorrelation_sum(Multiple::ONCE, &[1, 2]), None);
        assert_eq!(Gaps::between(&[]).autocorrelation_sum(Multiple::ONCE, &[1]), None);
        assert!(Gaps::between(&even[..1]).is_empty());
    }

    #[test]
    fn independent_gaps_sum_to_what_chance_gives() {
        let mut random = Random::stream(6, "gaps");
        let mut time = 0;
        let times: Vec<Time> = (0..20_001)
            .map(|_| {
                time += (-1e6 * libm::log(1.0 - random.uniform())) as u64;
                Time::from_nanos(time)
            })
            .collect();
        let gaps = Gaps::between(&times);
        let sum = |gaps: &Gaps| gaps.autocorrelation_sum(Multiple::ONCE, &[1_000]).unwrap()[0].1;
        let chance = 1_000.0 * libm::sqrt(2.0 / (core::f64::consts::PI * 20_000.0));
        assert!((sum(&gaps) / chance - 1.0).abs() < 0.1, "{} of {chance}", sum(&gaps));
        assert!((sum(&gaps.shuffled(&mut random)) / chance - 1.0).abs() < 0.1);
    }

    #[test]
    fn lags_rise_to_the_last() {
        assert_eq!(lags(1, 10), [1]);
        assert_eq!(lags(100, 4), [1, 3, 10, 32, 100]);
        assert_eq!(lags(0, 4), [1]);
    }
}
