//! Estimates of the Hurst exponent, each with an interval.
//!
//! | estimator | looks at | interval |
//! |---|---|---|
//! | rescaled range | range over deviation of blocks (Hurst 1951; Mandelbrot and Wallis 1969) | simulated |
//! | aggregated variance | variance of block means (Taqqu, Teverovsky and Willinger 1995) | simulated |
//! | wavelet | energy per octave (Abry and Veitch 1998) | its formula |
//! | local Whittle | periodogram near zero (Robinson 1995) | its formula |
//! | Whittle | whole periodogram against fractional Gaussian noise (Fox and Taqqu 1986; Beran 1994) | its formula |
//!
//! *Simulated* means: the estimator's bias and spread are those it has on fractional Gaussian noise of the
//! same length and of the exponent that was found (a parametric bootstrap); the estimate is corrected by the
//! bias. The published forms of both estimators have no interval, and a bias that depends on the length.
//!
//! All intervals assume a stationary, roughly normal series. Whittle's is narrow because it takes the series
//! for fractional Gaussian noise at every scale; traffic is not at small ones, so where it disagrees with
//! the others, they are right.

mod blocks;
mod wavelet;
mod whittle;

use alloc::vec::Vec;
use core::fmt;

use engine::Random;

use super::FractionalNoise;
use crate::models::Hurst;

/// Values that an estimate needs at least.
pub const FEWEST: usize = 256;

/// Half the width of a 95 % interval of a normal value, in standard deviations.
const TWO_SIDED_95: f64 = 1.959_964;

/// A way to estimate the Hurst exponent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Estimator {
    /// Rescaled adjusted range, R/S.
    RescaledRange,
    /// Variance of aggregated series, also called variance-time plot.
    AggregatedVariance,
    /// Wavelets of Daubechies with three vanishing moments.
    Wavelet,
    /// Local Whittle.
    LocalWhittle,
    /// Whittle with fractional Gaussian noise.
    Whittle,
}

impl Estimator {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::RescaledRange, Self::AggregatedVariance, Self::Wavelet, Self::LocalWhittle, Self::Whittle];

    /// Its short name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::RescaledRange => "R/S",
            Self::AggregatedVariance => "aggregated variance",
            Self::Wavelet => "wavelet",
            Self::LocalWhittle => "local Whittle",
            Self::Whittle => "Whittle (fGn)",
        }
    }

    /// Estimates the exponent of `series`, for example packets per slot. `random` is for simulated intervals
    /// alone. Takes O(n log n) time; the series of R/S and aggregated variance is first added up in pairs until it
    /// has at most 32,768 values.
    ///
    /// # Errors
    ///
    /// [`Refusal`] of a series that is too short, does not vary, or has values that are not finite.
    pub fn estimate(self, series: &[f64], random: &mut Random) -> Result<Estimate, Refusal> {
        if series.len() < FEWEST {
            return Err(Refusal::Short { have: series.len() });
        }
        if series.iter().any(|value| !value.is_finite()) {
            return Err(Refusal::NotFinite);
        }
        let mean = series.iter().sum::<f64>() / series.len() as f64;
        let series: Vec<f64> = series.iter().map(|value| value - mean).collect();
        let most = series.iter().fold(0.0, |most: f64, value| most.max(libm::fabs(*value)));
        if most <= 1e-12 * libm::fabs(mean) {
            return Err(Refusal::Constant);
        }
        match self {
            Self::RescaledRange => simulated(&shortened(series), blocks::rescaled_range, random),
            Self::AggregatedVariance => simulated(&shortened(series), blocks::aggregated_variance, random),
            Self::Wavelet => wavelet::estimate(&series),
            Self::LocalWhittle => Ok(whittle::local(&series)),
            Self::Whittle => Ok(whittle::fractional_noise(&series)),
        }
    }
}

impl fmt::Display for Estimator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An estimated Hurst exponent.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// The exponent. Estimators may leave the range from 0 to 1 for series that are not stationary.
    pub hurst: f64,
    /// Lower end of the 95 % interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Shortest scale that was looked at, in values of the series.
    pub from: f64,
    /// Longest scale that was looked at.
    pub to: f64,
    /// Whether the series follows one power law over these scales: a chi-squared test at 1 %, of the
    /// estimators that have one.
    pub is_power_law: Option<bool>,
}

impl Estimate {
    fn normal(hurst: f64, deviation: f64, (from, to): (f64, f64)) -> Self {
        let half = TWO_SIDED_95 * deviation;
        Self { hurst, low: hurst - half, high: hurst + half, from, to, is_power_law: None }
    }

    /// Whether the interval holds `hurst`.
    #[must_use]
    pub fn holds(&self, hurst: f64) -> bool {
        (self.low..=self.high).contains(&hurst)
    }
}

/// Why there is no estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Too few values.
    #[error("{have} values are too few for an estimate ({FEWEST} at least); take a longer trace or a shorter slot")]
    Short {
        /// How many there are.
        have: usize,
    },
    /// All values are the same.
    #[error("all values are the same, which has no Hurst exponent")]
    Constant,
    /// Infinite values, or none.
    #[error("the series has values that are not finite")]
    NotFinite,
}

/// Values that estimators with simulated intervals look at, at most.
const MOST_SIMULATED: usize = 1 << 15;

/// Series that are simulated for each exponent.
const SIMULATIONS: usize = 40;

/// Exponents between which noise is simulated, and how far on each side of the first guess.
const SIMULATED: (f64, f64) = (0.05, 0.99);
const ASIDE: f64 = 0.1;

/// Adds neighbours until the series is short enough. Scaling laws stay what they are.
fn shortened(mut series: Vec<f64>) -> Vec<f64> {
    while series.len() > MOST_SIMULATED {
        series = series.chunks_exact(2).map(|pair| pair[0] + pair[1]).collect();
    }
    series
}

/// A raw estimate and the scales it looked at. None if the series does not vary within its blocks.
type Raw = fn(&[f64]) -> Option<(f64, (f64, f64))>;

/// An estimate whose bias and spread are found by simulation: mean and deviation of the raw estimate are found for
/// three exponents around it and taken to go in straight lines between and beyond them. The estimate is the
/// exponent whose mean is what was found; the interval ends where what was found is 1.96 deviations off.
fn simulated(series: &[f64], raw: Raw, random: &mut Random) -> Result<Estimate, Refusal> {
    let (found, (from, to)) = raw(series).ok_or(Refusal::Constant)?;
    let centre = found.clamp(SIMULATED.0 + ASIDE, SIMULATED.1 - ASIDE);
    let mut means = Vec::new();
    let mut deviations = Vec::new();
    for assumed in [centre - ASIDE, centre, centre + ASIDE] {
        let Ok(exponent) = Hurst::new(assumed) else { continue };
        let mut noise = FractionalNoise::new(exponent, series.len());
        // The same draws for each exponent, so that their difference is not a matter of chance.
        let mut random = random.clone();
        let mut values = Vec::new();
        let (mut sum, mut squares, mut count) = (0.0, 0.0, 0.0);
        for _ in 0..SIMULATIONS {
            noise.draw(&mut random, &mut values);
            if let Some((simulated, _)) = raw(&values) {
                (sum, squares, count) = (sum + simulated, squares + simulated * simulated, count + 1.0);
            }
        }
        let variance = (squares - sum * sum / count).max(0.0) / (count - 1.0);
        means.push((assumed, sum / count, 1.0));
        // The mean of the simulations is uncertain too.
        deviations.push((assumed, libm::sqrt(variance * (1.0 + 1.0 / count)), 1.0));
    }
    let (mean, deviation) = (slope(means), slope(deviations));
    // level + slope × H = found, for the mean and for the mean give or take what the interval allows.
    let solve = |off: f64| (found - mean.level - off * deviation.level) / (mean.slope + off * deviation.slope);
    let (low, high) = (solve(TWO_SIDED_95), solve(-TWO_SIDED_95));
    Ok(Estimate { hurst: solve(0.0), low, high, from, to, is_power_law: None })
}

/// Slope of the line of least squares through points that have weights.
fn slope(points: impl IntoIterator<Item = (f64, f64, f64)>) -> Line {
    let [mut s0, mut s1, mut s2, mut sy, mut sxy] = [0.0; 5];
    for (x, y, weight) in points {
        s0 += weight;
        s1 += weight * x;
        s2 += weight * x * x;
        sy += weight * y;
        sxy += weight * x * y;
    }
    let determinant = s0 * s2 - s1 * s1;
    let slope = (s0 * sxy - s1 * sy) / determinant;
    Line { slope, level: (sy - slope * s1) / s0, variance: s0 / determinant }
}

/// A line through points.
struct Line {
    slope: f64,
    /// Its value at zero.
    level: f64,
    /// The slope's variance, if weights are the inverse of variances.
    variance: f64,
}
