//! Self-similarity and long-range dependence: traffic that has them, and how much of them traffic has.
//!
//! [`FractionalNoise`] makes fractional Gaussian noise of a known Hurst exponent H, exactly;
//! [`Estimator`] finds the exponent of a series, such as packets per slot ([`Slots`]); [`Gaps`] looks at
//! the times between packets. [`examine`] does all of it to a trace, as it is and as replays multiply it.

mod examine;
mod fft;
mod gaps;
mod hurst;
mod noise;
mod slots;
mod special;

pub use examine::{Case, Examination, Examine, ExamineError, Way, examine};
pub use gaps::{Gaps, MOST_GAPS, Multiple, lags};
pub use hurst::{Estimate, Estimator, FEWEST, Refusal};
pub use noise::FractionalNoise;
pub use slots::{MOST_SLOTS, Slots, fitting as fitting_slot};
