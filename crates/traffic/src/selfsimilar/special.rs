//! Special functions.

/// ψ(x), the derivative of log Γ, for x > 0: recurrence up to 10, then the asymptotic series
/// (Abramowitz and Stegun 6.3.5, 6.3.18).
pub(crate) fn digamma(mut x: f64) -> f64 {
    let mut sum = 0.0;
    while x < 10.0 {
        sum -= 1.0 / x;
        x += 1.0;
    }
    let y = 1.0 / (x * x);
    sum + libm::log(x) - 0.5 / x - y * (1.0 / 12.0 - y * (1.0 / 120.0 - y * (1.0 / 252.0 - y / 240.0)))
}

/// ψ'(x) = ζ(2, x) for x > 0 (Abramowitz and Stegun 6.4.6, 6.4.12).
pub(crate) fn trigamma(mut x: f64) -> f64 {
    let mut sum = 0.0;
    while x < 10.0 {
        sum += 1.0 / (x * x);
        x += 1.0;
    }
    let y = 1.0 / (x * x);
    sum + 1.0 / x + y / 2.0 + y / x * (1.0 / 6.0 - y * (1.0 / 30.0 - y * (1.0 / 42.0 - y / 30.0)))
}

/// Chance that a chi-squared value with this many degrees of freedom is over `x` (Abramowitz and Stegun
/// 26.4.4 and 26.4.5: finite sums).
pub(crate) fn chi_squared_tail(x: f64, freedom: usize) -> f64 {
    let half = x / 2.0;
    // The term of the sum for one degree more is the last one times x over the degrees.
    let (mut tail, mut term, mut degrees) = if freedom.is_multiple_of(2) {
        (0.0, libm::exp(-half), 2)
    } else {
        (libm::erfc(libm::sqrt(half)), libm::sqrt(2.0 * x / core::f64::consts::PI) * libm::exp(-half), 3)
    };
    while degrees <= freedom {
        tail += term;
        term *= x / degrees as f64;
        degrees += 2;
    }
    tail
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_have_their_known_values() {
        const EULER: f64 = 0.577_215_664_901_532_9;
        let pi = core::f64::consts::PI;
        assert!((digamma(1.0) + EULER).abs() < 1e-10);
        assert!((digamma(0.5) + EULER + 2.0 * core::f64::consts::LN_2).abs() < 1e-10);
        assert!((trigamma(1.0) - pi * pi / 6.0).abs() < 1e-10);
        assert!((trigamma(0.5) - pi * pi / 2.0).abs() < 1e-10);
        // The usual table: 5 % points.
        for (freedom, point) in [(1, 3.841_459), (2, 5.991_465), (3, 7.814_728), (7, 14.067_140), (10, 18.307_038)] {
            assert!((chi_squared_tail(point, freedom) - 0.05).abs() < 1e-6, "{freedom}");
        }
    }
}
