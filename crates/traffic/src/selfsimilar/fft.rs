//! The discrete Fourier transform: radix 2 (Cooley and Tukey 1965), and any length by Bluestein's
//! chirp (1970).

use alloc::vec;
use alloc::vec::Vec;

/// A complex number.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Complex {
    pub(crate) re: f64,
    pub(crate) im: f64,
}

impl Complex {
    pub(crate) const fn new(re: f64, im: f64) -> Self {
        Self { re, im }
    }

    /// e^(i angle).
    fn turn(angle: f64) -> Self {
        let (im, re) = libm::sincos(angle);
        Self { re, im }
    }

    fn times(self, other: Self) -> Self {
        Self::new(self.re * other.re - self.im * other.im, self.re * other.im + self.im * other.re)
    }

    fn conjugate(self) -> Self {
        Self::new(self.re, -self.im)
    }

    /// The square of the magnitude.
    pub(crate) fn norm(self) -> f64 {
        self.re * self.re + self.im * self.im
    }
}

/// Transforms of one length, a power of two.
#[derive(Clone, Debug)]
pub(crate) struct Fft {
    /// e^(-2πik/n) for k below n/2.
    turns: Vec<Complex>,
    n: usize,
}

impl Fft {
    /// Transforms of length `n`, rounded up to a power of two.
    pub(crate) fn new(n: usize) -> Self {
        let n = n.next_power_of_two();
        let turn = |k| Complex::turn(-core::f64::consts::TAU * k as f64 / n as f64);
        Self { turns: (0..n / 2).map(turn).collect(), n }
    }

    /// The length.
    pub(crate) fn len(&self) -> usize {
        self.n
    }

    /// X_k = Σ x_j e^(-2πijk/n), in place. `data` has the length of this transform.
    pub(crate) fn forward(&self, data: &mut [Complex]) {
        debug_assert_eq!(data.len(), self.n);
        if self.n < 2 {
            return;
        }
        let shift = usize::BITS - self.n.trailing_zeros();
        for i in 0..self.n {
            let j = i.reverse_bits() >> shift;
            if i < j {
                data.swap(i, j);
            }
        }
        let mut half = 1;
        while half < self.n {
            let stride = self.n / (2 * half);
            for block in data.chunks_exact_mut(2 * half) {
                let (low, high) = block.split_at_mut(half);
                for ((a, b), turn) in low.iter_mut().zip(high).zip(self.turns.iter().step_by(stride)) {
                    let turned = b.times(*turn);
                    *b = Complex::new(a.re - turned.re, a.im - turned.im);
                    *a = Complex::new(a.re + turned.re, a.im + turned.im);
                }
            }
            half *= 2;
        }
    }

    /// The inverse of [`Fft::forward`], times n.
    pub(crate) fn backward(&self, data: &mut [Complex]) {
        data.iter_mut().for_each(|value| *value = value.conjugate());
        self.forward(data);
        data.iter_mut().for_each(|value| *value = value.conjugate());
    }
}

/// The transform of real values of any number.
pub(crate) fn transform(values: &[f64]) -> Vec<Complex> {
    let n = values.len();
    let mut data: Vec<Complex> = values.iter().map(|value| Complex::new(*value, 0.0)).collect();
    if n.is_power_of_two() {
        Fft::new(n).forward(&mut data);
        return data;
    }
    // jk = (j² + k² - (k-j)²)/2 makes the sum a convolution. j² is taken modulo 2n, beyond which the
    // chirp repeats, so that its angle stays exact.
    let chirp = |j: usize| {
        let square = (j as u128 * j as u128) % (2 * n as u128);
        Complex::turn(-core::f64::consts::PI * square as f64 / n as f64)
    };
    let fft = Fft::new(2 * n - 1);
    let mut filter = vec![Complex::default(); fft.len()];
    for (j, value) in data.iter_mut().enumerate() {
        let turn = chirp(j);
        *value = value.times(turn);
        filter[j] = turn.conjugate();
        if j > 0 {
            filter[fft.len() - j] = turn.conjugate();
        }
    }
    data.resize(fft.len(), Complex::default());
    fft.forward(&mut data);
    fft.forward(&mut filter);
    data.iter_mut().zip(&filter).for_each(|(value, factor)| *value = value.times(*factor));
    fft.backward(&mut data);
    data.truncate(n);
    for (k, value) in data.iter_mut().enumerate() {
        let turned = value.times(chirp(k));
        *value = Complex::new(turned.re / fft.len() as f64, turned.im / fft.len() as f64);
    }
    data
}

/// Σ x_i x_{i+k} for k from 0 to `lags` - 1 (terms beyond the end left out).
pub(crate) fn correlation(values: &[f64], lags: usize) -> Vec<f64> {
    let fft = Fft::new(values.len() + lags);
    let mut data: Vec<Complex> = values.iter().map(|value| Complex::new(*value, 0.0)).collect();
    data.resize(fft.len(), Complex::default());
    fft.forward(&mut data);
    data.iter_mut().for_each(|value| *value = Complex::new(value.norm(), 0.0));
    fft.forward(&mut data);
    let n = fft.len() as f64;
    data.iter().take(lags).map(|value| value.re / n).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::Random;

    fn slow(values: &[f64]) -> Vec<Complex> {
        let n = values.len();
        let term = |j: usize, k: usize| Complex::turn(-core::f64::consts::TAU * (j * k % n) as f64 / n as f64);
        let sum = |k| {
            values.iter().enumerate().fold(Complex::default(), |sum, (j, x)| {
                Complex::new(sum.re + x * term(j, k).re, sum.im + x * term(j, k).im)
            })
        };
        (0..n).map(sum).collect()
    }

    #[test]
    fn transforms_of_any_length_are_the_sums_they_stand_for() {
        let mut random = Random::stream(1, "fft");
        for n in [1, 2, 3, 4, 7, 16, 30, 97, 128] {
            let values: Vec<f64> = (0..n).map(|_| random.normal()).collect();
            for (fast, slow) in transform(&values).iter().zip(slow(&values)) {
                assert!((fast.re - slow.re).abs() < 1e-10 && (fast.im - slow.im).abs() < 1e-10, "n = {n}");
            }
        }
    }

    #[test]
    fn backward_undoes_forward() {
        let fft = Fft::new(5);
        assert_eq!(fft.len(), 8);
        let before: Vec<Complex> = (0..8).map(|i| Complex::new(f64::from(i), f64::from(i * i))).collect();
        let mut data = before.clone();
        fft.forward(&mut data);
        fft.backward(&mut data);
        for (now, then) in data.iter().zip(before) {
            assert!((now.re / 8.0 - then.re).abs() < 1e-12 && (now.im / 8.0 - then.im).abs() < 1e-12);
        }
    }

    #[test]
    fn correlations_are_the_sums_they_stand_for() {
        let values = [1.0, -2.0, 4.0, 0.5, 3.0];
        let sum = |k: usize| (0..5 - k).map(|i| values[i] * values[i + k]).sum::<f64>();
        for (k, fast) in correlation(&values, 5).into_iter().enumerate() {
            assert!((fast - sum(k)).abs() < 1e-12);
        }
    }
}
