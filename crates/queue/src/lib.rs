//! Queues: limits, drop-tail, CoDel, PIE, FQ-CoDel and the classifiers in front of them.

#![no_std]
#![forbid(unsafe_code)]

mod config;

pub use config::{Codel, Discipline, FqCodel, Pie, QueueConfig};
