//! Seeded randomness: the only kind there is.

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

/// A deterministic random source (ChaCha with 8 rounds), the same on every machine.
#[derive(Clone, Debug)]
pub struct Random(ChaCha8Rng);

impl Random {
    /// The stream called `label` of the run with this `seed`. Streams are independent, so that one
    /// more element, or one more draw in another, changes nothing here.
    #[must_use]
    pub fn stream(seed: u64, label: &str) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        // FNV-1a in three lanes; the lanes differ in their start and make 192 bits of label.
        for (lane, out) in key[8..].chunks_exact_mut(8).enumerate() {
            let mut hash = 0xcbf2_9ce4_8422_2325_u64 ^ (lane as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            for byte in label.bytes() {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
            }
            out.copy_from_slice(&hash.to_le_bytes());
        }
        Self(ChaCha8Rng::from_seed(key))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in [0, 1), in steps of 2^-53.
    pub fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// True with probability `p`; never for `p <= 0`, always for `p >= 1`. Draws once in any case.
    pub fn chance(&mut self, p: f64) -> bool {
        self.uniform() < p
    }

    /// Uniform in 0 to `n - 1`, without bias (Lemire 2019); 0 if `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        let threshold = n.wrapping_neg().checked_rem(n).unwrap_or(0);
        loop {
            let wide = u128::from(self.bits()) * u128::from(n);
            if wide as u64 >= threshold {
                return (wide >> 64) as u64;
            }
        }
    }

    /// Normal with mean 0 and standard deviation 1 (Box and Muller 1958).
    pub fn normal(&mut self) -> f64 {
        let radius = libm::sqrt(-2.0 * libm::log(1.0 - self.uniform()));
        radius * libm::cos(core::f64::consts::TAU * self.uniform())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_repeat_and_differ() {
        let draw = |seed, label| Random::stream(seed, label).bits();
        assert_eq!(draw(1, "radio.up"), draw(1, "radio.up"));
        assert_ne!(draw(1, "radio.up"), draw(1, "radio.down"));
        assert_ne!(draw(1, "radio.up"), draw(2, "radio.up"));
    }

    #[test]
    fn below_covers_its_range() {
        let mut random = Random::stream(1, "below");
        let mut seen = [0u32; 5];
        for _ in 0..5_000 {
            seen[random.below(5) as usize] += 1;
        }
        assert!(seen.iter().all(|&n| (900..1_100).contains(&n)), "{seen:?}");
        assert_eq!(random.below(0), 0);
    }

    #[test]
    fn normal_has_mean_zero_and_deviation_one() {
        let mut random = Random::stream(1, "normal");
        let (mut sum, mut squares) = (0.0, 0.0);
        for _ in 0..100_000 {
            let x = random.normal();
            sum += x;
            squares += x * x;
        }
        assert!((sum / 1e5).abs() < 0.015, "{sum}");
        assert!((squares / 1e5 - 1.0).abs() < 0.02, "{squares}");
    }
}
