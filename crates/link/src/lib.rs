//! The link emulator: rate, delay, loss, duplication, corruption, timelines and pipes.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod config;

pub use config::{
    Branch, DelayModel, DirectionConfig, Empirical, GilbertElliott, LossAt, LossModel, LossTrace, Markov4, Network,
    Opportunities, PipeConfig, RateModel, Selector, Timeline,
};
