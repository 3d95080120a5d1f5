//! Estimators that fit a spectral density to the periodogram.

use alloc::vec::Vec;
use core::f64::consts::{PI, TAU};

use super::Estimate;
use crate::selfsimilar::fft::transform;

/// Exponents among which the best is sought.
const LOWEST: f64 = 0.001;
const HIGHEST: f64 = 0.999;

/// The local Whittle estimator (Robinson 1995): near frequency zero the density goes as λ^(1 - 2H), whatever it
/// does elsewhere. Over the lowest m = n^0.65 Fourier frequencies; the deviation tends to 1/(2√m) for any H.
pub(super) fn local(series: &[f64]) -> Estimate {
    let n = series.len();
    let m = (libm::pow(n as f64, 0.65) as usize).clamp(2, n / 2);
    let bins: Vec<Bin> = periodogram(series).take(m).collect();
    let mean_log = bins.iter().map(|bin| libm::log(bin.frequency)).sum::<f64>() / m as f64;
    let hurst = lowest(|hurst| {
        let scaled = |bin: &Bin| libm::pow(bin.frequency, 2.0 * hurst - 1.0) * bin.power;
        let mean = bins.iter().map(scaled).sum::<f64>() / m as f64;
        libm::log(mean) - (2.0 * hurst - 1.0) * mean_log
    });
    // Robinson's m, of the sum that it is the limit of, which is smaller (Hurvich and Chen 2000).
    let information: f64 = bins.iter().map(|bin| libm::pow(libm::log(bin.frequency) - mean_log, 2.0)).sum();
    Estimate::normal(hurst, 0.5 / libm::sqrt(information), (n as f64 / m as f64, n as f64))
}

/// Whittle's approximate likelihood of fractional Gaussian noise, its scale free (Fox and Taqqu 1986; Beran 1994, 5.5
/// and 6.1). The deviation is the asymptotic one, √(2 / (n v)), where v is the mean over all frequencies of the square of
/// ∂ log f/∂H less its mean.
pub(super) fn fractional_noise(series: &[f64]) -> Estimate {
    let n = series.len() as f64;
    let bins = pooled(periodogram(series));
    let frequencies: f64 = bins.iter().map(|bin| bin.weight).sum();
    let mean = |value: &dyn Fn(&Bin) -> f64| bins.iter().map(|b| b.weight * value(b)).sum::<f64>() / frequencies;
    let hurst = lowest(|hurst| {
        let level = mean(&|bin| bin.power / density(bin.frequency, hurst));
        libm::log(level) + mean(&|bin| libm::log(density(bin.frequency, hurst)))
    });
    let step = 1e-4;
    let derivative = |bin: &Bin| {
        let log = |hurst| libm::log(density(bin.frequency, hurst));
        (log(hurst + step) - log(hurst - step)) / (2.0 * step)
    };
    let average = mean(&derivative);
    let information = mean(&|bin| libm::pow(derivative(bin) - average, 2.0));
    Estimate::normal(hurst, libm::sqrt(2.0 / (n * information)), (2.0, n))
}

/// The periodogram over one or more neighbouring Fourier frequencies.
struct Bin {
    /// In radians per value, over 0 and at most π.
    frequency: f64,
    power: f64,
    /// How many frequencies it stands for.
    weight: f64,
}

/// The periodogram at the Fourier frequencies below π, up to a factor.
fn periodogram(series: &[f64]) -> impl Iterator<Item = Bin> {
    let n = series.len();
    let spectrum = transform(series);
    (1..n.div_ceil(2)).map(move |k| Bin {
        frequency: TAU * k as f64 / n as f64,
        power: spectrum[k].norm() / n as f64,
        weight: 1.0,
    })
}

/// Puts neighbours together where the density hardly changes between them: a bin is no wider than 1/64 of
/// its frequency. Of a million frequencies some thousand bins are left.
fn pooled(periodogram: impl Iterator<Item = Bin>) -> Vec<Bin> {
    let mut bins: Vec<Bin> = Vec::new();
    let mut first = 0.0;
    for bin in periodogram {
        match bins.last_mut() {
            Some(last) if bin.frequency - first <= first / 64.0 => {
                let weight = last.weight + 1.0;
                last.power += (bin.power - last.power) / weight;
                last.frequency += (bin.frequency - last.frequency) / weight;
                last.weight = weight;
            }
            _ => {
                first = bin.frequency;
                bins.push(bin);
            }
        }
    }
    bins
}

/// Spectral density of fractional Gaussian noise, up to a factor that does not depend on the frequency:
/// (1 - cos λ) Σ |λ + 2πj|^(-2H-1) over all whole j. The sum beyond three terms is an integral, as with
/// Paxson (1997), but by the midpoint rule, which is nearer than his trapezoids.
fn density(frequency: f64, hurst: f64) -> f64 {
    let power = -2.0 * hurst - 1.0;
    let at =
        |turns: f64, power: f64| libm::pow(TAU * turns + frequency, power) + libm::pow(TAU * turns - frequency, power);
    let near = at(1.0, power) + at(2.0, power) + at(3.0, power);
    let far = at(3.5, power + 1.0) / (4.0 * PI * hurst);
    (1.0 - libm::cos(frequency)) * (libm::pow(frequency, power) + near + far)
}

/// Where a function with one valley is lowest, by golden section.
fn lowest(f: impl Fn(f64) -> f64) -> f64 {
    let golden = (libm::sqrt(5.0) - 1.0) / 2.0;
    let (mut low, mut high) = (LOWEST, HIGHEST);
    let (mut a, mut b) = (high - golden * (high - low), low + golden * (high - low));
    let (mut at_a, mut at_b) = (f(a), f(b));
    while high - low > 1e-5 {
        if at_a < at_b {
            (high, b, at_b) = (b, a, at_a);
            a = high - golden * (high - low);
            at_a = f(a);
        } else {
            (low, a, at_a) = (a, b, at_b);
            b = low + golden * (high - low);
            at_b = f(b);
        }
    }
    (low + high) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::selfsimilar::noise::autocovariance;

    #[test]
    fn the_density_is_that_of_the_covariance() {
        // The sum over lags, up to the factor 2 sin(πH) Γ(2H + 1).
        for hurst in [0.2, 0.4, 0.5] {
            let factor = 2.0 * libm::sin(PI * hurst) * libm::tgamma(2.0 * hurst + 1.0);
            for frequency in [0.5, 1.0, 2.0, 3.0] {
                let lags = (1..200_000).map(f64::from);
                let sum: f64 = lags.map(|k| 2.0 * autocovariance(hurst, k) * libm::cos(k * frequency)).sum();
                let ratio = factor * density(frequency, hurst) / (1.0 + sum);
                assert!((ratio - 1.0).abs() < 1e-3, "H = {hurst}, λ = {frequency}: {ratio}");
            }
        }
    }

    #[test]
    fn the_lowest_point_is_found() {
        assert!((lowest(|x| (x - 0.7) * (x - 0.7)) - 0.7).abs() < 1e-5);
        assert!((lowest(|x| -x) - HIGHEST).abs() < 1e-4);
    }
}
