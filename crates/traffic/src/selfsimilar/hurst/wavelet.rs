//! The wavelet estimator.

use alloc::vec::Vec;

use super::{Estimate, Refusal, slope};
use crate::selfsimilar::special::{chi_squared_tail, digamma, trigamma};

/// Scaling filter of Daubechies with three vanishing moments: polynomial trends up to the second degree
/// leave no trace in the coefficients.
const FILTER: [f64; 6] = [
    0.332_670_552_950_082_5,
    0.806_891_509_311_092_4,
    0.459_877_502_118_491_4,
    -0.135_011_020_010_254_6,
    -0.085_441_273_882_026_7,
    0.035_226_291_885_709_5,
];

/// Coefficients that an octave needs to be used, and octaves that the line needs.
const FEWEST_COEFFICIENTS: usize = 8;
const FEWEST_OCTAVES: usize = 3;

/// Chance below which a line is refused.
const REFUSED: f64 = 0.01;

/// Energy per octave on a line: log2 of the mean square of the wavelet coefficients rises by 2H - 1 an octave.
///
/// Mean logs are corrected for the log of a mean, octaves weighted by the inverse of their variance, and the
/// interval is that of the weighted line (Abry and Veitch 1998, III; Veitch and Abry 1999). The line begins at the first
/// octave from which a chi-squared test does not refuse it at 1 % (Veitch, Abry and Taqqu 2003, in short), so that
/// what is not scaling at small scales is left out. Coefficients that would reach over an end are left out.
pub(super) fn estimate(series: &[f64]) -> Result<Estimate, Refusal> {
    let octaves = octaves(series);
    let points: Vec<Point> = octaves
        .iter()
        .enumerate()
        .map(|(number, octave)| Point::new(number + 1, octave))
        .filter(|point| point.octave >= first_octave(series.len()))
        .collect();
    if points.iter().any(|point| !point.log.is_finite()) {
        return Err(Refusal::Constant);
    }
    if points.len() < FEWEST_OCTAVES {
        return Err(Refusal::Short { have: series.len() });
    }
    let fits = (0..=points.len() - FEWEST_OCTAVES).map(|first| Fit::new(&points[first..]));
    let mut best: Option<Fit> = None;
    for fit in fits {
        if fit.quality >= REFUSED {
            best = Some(fit);
            break;
        }
        if best.as_ref().is_none_or(|best| fit.quality > best.quality) {
            best = Some(fit);
        }
    }
    let fit = best.ok_or(Refusal::Short { have: series.len() })?;
    Ok(Estimate { is_power_law: Some(fit.quality >= REFUSED), ..fit.estimate })
}

/// The first octave that may be used for this many values. In low octaves a series of sums over slots is not yet
/// what the theory has (Veitch, Taqqu and Abry 2000): its energies are up to a tenth of an octave too low, by a
/// quarter of that one octave up. What is left of this must be small against the interval, which narrows with the
/// length.
fn first_octave(values: usize) -> usize {
    match values {
        ..0x8000 => 3,
        0x8000..0x8_0000 => 4,
        _ => 5,
    }
}

/// An octave: energy as a corrected log, and its variance.
struct Point {
    octave: usize,
    log: f64,
    variance: f64,
}

impl Point {
    fn new(octave: usize, energy: &Energy) -> Self {
        let n = energy.coefficients as f64;
        let ln2 = core::f64::consts::LN_2;
        // g(n) = ψ(n/2)/ln 2 - log2(n/2), and ζ(2, n/2) = ψ'(n/2).
        let bias = digamma(n / 2.0) / ln2 - libm::log2(n / 2.0);
        Self { octave, log: libm::log2(energy.mean_square) - bias, variance: trigamma(n / 2.0) / (ln2 * ln2) }
    }
}

/// A line through octaves.
struct Fit {
    estimate: Estimate,
    /// Chance of points that are at least as far off, if the line holds.
    quality: f64,
}

impl Fit {
    fn new(points: &[Point]) -> Self {
        let weighted = points.iter().map(|point| (point.octave as f64, point.log, 1.0 / point.variance));
        let line = slope(weighted);
        let off = |point: &Point| point.log - line.level - line.slope * point.octave as f64;
        let chi_squared = points.iter().map(|point| off(point) * off(point) / point.variance).sum();
        let scale = |point: Option<&Point>| libm::exp2(point.map_or(0.0, |point| point.octave as f64));
        let scales = (scale(points.first()), scale(points.last()));
        Self {
            estimate: Estimate::normal((line.slope + 1.0) / 2.0, libm::sqrt(line.variance) / 2.0, scales),
            quality: chi_squared_tail(chi_squared, points.len() - 2),
        }
    }
}

struct Energy {
    mean_square: f64,
    coefficients: usize,
}

/// The energy of each octave that has enough coefficients, from the first.
fn octaves(series: &[f64]) -> Vec<Energy> {
    let mut octaves = Vec::new();
    let mut approximation = series.to_vec();
    while approximation.len() >= FILTER.len() + 2 * (FEWEST_COEFFICIENTS - 1) {
        let windows = || approximation.windows(FILTER.len()).step_by(2);
        let square = |window: &[f64]| {
            // The wavelet filter is the scaling filter backwards with every second sign changed.
            let pairs = window.iter().zip(FILTER.iter().rev()).enumerate();
            let detail: f64 = pairs.map(|(i, (x, h))| if i % 2 == 0 { x * h } else { -x * h }).sum();
            detail * detail
        };
        let coefficients = windows().count();
        octaves.push(Energy { mean_square: windows().map(square).sum::<f64>() / coefficients as f64, coefficients });
        approximation = windows().map(|window| window.iter().zip(FILTER).map(|(x, h)| x * h).sum()).collect();
    }
    octaves
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::selfsimilar::noise::autocovariance;

    /// Expected log2 energies of fractional Gaussian noise in the first octaves, exactly.
    fn expected(hurst: f64, octaves: usize) -> Vec<f64> {
        let filtered = |values: &[f64], filter: &[f64], spread: usize| {
            let mut out = alloc::vec![0.0; values.len() + (filter.len() - 1) * spread];
            for (i, x) in values.iter().enumerate() {
                for (j, h) in filter.iter().enumerate() {
                    out[i + j * spread] += x * h;
                }
            }
            out
        };
        let scaling: Vec<f64> = FILTER.iter().rev().copied().collect();
        let wavelet: Vec<f64> = FILTER.iter().enumerate().map(|(i, h)| if i % 2 == 0 { *h } else { -h }).collect();
        let mut approximation = alloc::vec![1.0];
        let mut logs = Vec::new();
        for octave in 0..octaves {
            let detail = filtered(&approximation, &wavelet, 1 << octave);
            approximation = filtered(&approximation, &scaling, 1 << octave);
            let product = |k: usize| detail.iter().zip(&detail[k..]).map(|(a, b)| a * b).sum::<f64>();
            let term = |k: usize| if k == 0 { 1.0 } else { 2.0 } * product(k) * autocovariance(hurst, k as f64);
            logs.push(libm::log2((0..detail.len()).map(term).sum()));
        }
        logs
    }

    #[test]
    fn low_octaves_are_left_out_before_they_matter() {
        for hurst in [0.6, 0.9] {
            let exact = expected(hurst, 8);
            for values in [1usize << 10, (1 << 15) - 1, 1 << 15, (1 << 19) - 1, 1 << 19, 1 << 20] {
                let octaves = values.ilog2() as usize - 4;
                // From the eighth on the law holds to a ten-thousandth.
                let log = |octave: usize| match exact.get(octave - 1) {
                    Some(log) => *log,
                    None => exact[7] + (2.0 * hurst - 1.0) * (octave - 8) as f64,
                };
                let variance = |octave: usize| trigamma((values >> octave) as f64 / 2.0);
                let used = first_octave(values)..=octaves;
                let line = slope(used.map(|octave| (octave as f64, log(octave), 1.0 / variance(octave))));
                let bias = (line.slope + 1.0) / 2.0 - hurst;
                let deviation = libm::sqrt(line.variance) / core::f64::consts::LN_2 / 2.0;
                assert!(bias.abs() < 0.7 * deviation, "H = {hurst}, {values}: {bias} of {deviation}");
            }
        }
    }

    #[test]
    fn the_filter_is_orthonormal_and_has_three_vanishing_moments() {
        assert!((FILTER.iter().sum::<f64>() - core::f64::consts::SQRT_2).abs() < 1e-12);
        for shift in [0, 2, 4] {
            let product: f64 = FILTER.iter().skip(shift).zip(FILTER).map(|(a, b)| a * b).sum();
            assert!((product - f64::from(shift == 0)).abs() < 1e-12, "shift {shift}");
        }
        let parabola: Vec<f64> = (0..512).map(|i| 3.0 - 0.5 * f64::from(i) + 0.01 * f64::from(i * i)).collect();
        for octave in octaves(&parabola) {
            assert!(octave.mean_square < 1e-15, "{}", octave.mean_square);
        }
    }
}
