//! Self-similarity and long-range dependence: traffic that has them, and how much of them traffic has.
//!
//! [`FractionalNoise`] makes fractional Gaussian noise of a known Hurst exponent H, exactly.

mod fft;
mod noise;

pub use noise::FractionalNoise;
