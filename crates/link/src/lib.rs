//! The link emulator: rate, delay, loss, duplication, corruption, timelines and pipes.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod config;
mod counters;
mod delay;
mod direction;
mod line;
mod loss;
mod pipe;
mod rate;
mod select;
pub mod trace;
mod validate;

pub use config::{
    Branch, DelayModel, DirectionConfig, Empirical, GilbertElliott, LossAt, LossModel, LossTrace, Markov4, Network,
    Opportunities, PipeConfig, RateModel, Selector, Timeline,
};
pub use counters::{Count, Counters, DELAY_LINE_FULL, LOSS, OVERSIZED, SUPER_FRAME};
pub use direction::{Change, Direction};
pub use validate::ConfigError;
