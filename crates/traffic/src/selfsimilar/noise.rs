//! Exact fractional Gaussian noise.

use alloc::vec;
use alloc::vec::Vec;

use engine::Random;

use super::fft::{Complex, Fft};
use crate::models::Hurst;

/// Makes fractional Gaussian noise: normal values of mean 0 and variance 1, whose autocovariance at lag k
/// is exactly ½(|k+1|^2H - 2|k|^2H + |k-1|^2H).
///
/// The covariance is embedded in a circulant one of more than twice the length, whose eigenvalues a Fourier
/// transform gives (Davies and Harte 1987; Dieker 2004, 2.1.3). For this noise none is negative, for any H
/// (Craigmile 2003; Perrin et al. 2002). Complex noise gives two independent series at once (Dietrich and Newsam
/// 1997): the second is kept for the next call.
#[derive(Clone, Debug)]
pub struct FractionalNoise {
    fft: Fft,
    /// Square roots of the eigenvalues over their number; the second half mirrors the first.
    roots: Vec<f64>,
    length: usize,
    spare: Option<Vec<f64>>,
}

impl FractionalNoise {
    /// Noise of exponent `hurst` in series of `length` values. Takes O(n log n) time and some 100 B a value
    /// while it draws.
    #[must_use]
    pub fn new(hurst: Hurst, length: usize) -> Self {
        let fft = Fft::new(2 * length.max(1));
        let half = fft.len() / 2;
        let mut data = vec![Complex::default(); fft.len()];
        for k in 0..=half {
            let covariance = Complex::new(autocovariance(hurst.value(), k as f64), 0.0);
            data[k] = covariance;
            data[(fft.len() - k) % fft.len()] = covariance;
        }
        fft.forward(&mut data);
        let n = fft.len() as f64;
        // Rounding may leave an eigenvalue of zero a little below it.
        let roots = data[..=half].iter().map(|value| libm::sqrt(value.re.max(0.0) / n)).collect();
        Self { fft, roots, length, spare: None }
    }

    /// Draws the next series into `values`, in place of what is in it. Series are independent of each other.
    pub fn draw(&mut self, random: &mut Random, values: &mut Vec<f64>) {
        if let Some(spare) = self.spare.take() {
            *values = spare;
            return;
        }
        let n = self.fft.len();
        let mut data: Vec<Complex> = (0..n)
            .map(|k| {
                let root = self.roots[k.min(n - k)];
                Complex::new(root * random.normal(), root * random.normal())
            })
            .collect();
        self.fft.forward(&mut data);
        values.clear();
        values.extend(data[..self.length].iter().map(|value| value.re));
        self.spare = Some(data[..self.length].iter().map(|value| value.im).collect());
    }
}

/// Autocovariance of fractional Gaussian noise at lag `k`.
pub(crate) fn autocovariance(hurst: f64, k: f64) -> f64 {
    let power = 2.0 * hurst;
    if k < 32.0 {
        let at = |x: f64| libm::pow(libm::fabs(x), power);
        return 0.5 * (at(k + 1.0) - 2.0 * at(k) + at(k - 1.0));
    }
    // The difference loses its digits at long lags; the first terms of its series in 1/k² do not:
    // Σ binomial(2H, 2i) k^(2H - 2i). The fifth is below 10^-12 of the first from lag 32 on.
    let mut sum = 0.0;
    let mut binomial = 1.0;
    let square = 1.0 / (k * k);
    let mut scale = libm::pow(k, power);
    for i in 1..=4 {
        let even = f64::from(2 * i);
        binomial *= (power - even + 2.0) * (power - even + 1.0) / (even * (even - 1.0));
        scale *= square;
        sum += binomial * scale;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_covariance_is_continuous_where_its_formula_changes() {
        for hurst in [0.1, 0.5, 0.6, 0.9, 0.99] {
            let at = |x: f64| libm::pow(x, 2.0 * hurst);
            let direct = 0.5 * (at(33.0) - 2.0 * at(32.0) + at(31.0));
            assert!((autocovariance(hurst, 32.0) - direct).abs() < 1e-11, "H = {hurst}");
        }
        assert_eq!(autocovariance(0.8, 0.0), 1.0);
    }

    #[test]
    fn sample_covariances_are_those_of_the_noise() {
        for hurst in [0.2, 0.5, 0.7, 0.9] {
            let mut noise = FractionalNoise::new(Hurst::new(hurst).unwrap(), 64);
            let mut random = Random::stream(7, "noise");
            let (mut values, mut sums) = (Vec::new(), [0.0; 33]);
            const SERIES: usize = 20_000;
            for _ in 0..SERIES {
                noise.draw(&mut random, &mut values);
                assert_eq!(values.len(), 64);
                for (k, sum) in sums.iter_mut().enumerate() {
                    *sum += values[20] * values[20 + k];
                }
            }
            for (k, sum) in sums.iter().enumerate() {
                // Four standard errors of a product of unit normals.
                let error = (sum / SERIES as f64 - autocovariance(hurst, k as f64)).abs();
                assert!(error < 4.0 * libm::sqrt(2.0 / SERIES as f64), "H = {hurst}, lag {k}: {error}");
            }
        }
    }
}
