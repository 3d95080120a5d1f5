//! Queues: limits, drop-tail, CoDel, PIE, FQ-CoDel and the classifiers in front of them.
//!
//! | discipline | source | how it differs |
//! |---|---|---|
//! | [`Discipline::DropTail`] | | like `pfifo` and `bfifo`; both limits may be given, and hold to the packet and byte |
//! | [`Discipline::Codel`] | RFC 8289 | with `ecn`, a mark stands for a drop and the packet goes on, as in Linux; `maxpacket` is the largest cost seen, not the MTU |
//! | [`Discipline::Pie`] | RFC 8033 4, 5.1, 5.4, 5.5 | delay is measured by the time stamp of the packet that left last (RFC 8033 4.3's first way; Linux's default), never estimated from the rate; no byte mode, and it is always active (5.3 left out); Linux also caps the step at delays over 250 ms, this does not |
//! | [`Discipline::FqCodel`] | RFC 8290 | over a limit one packet at a time is dropped from the head of the fattest flow (Linux drops up to 64 at once); CoDel looks at the bytes of all flows together before it spares the last packet, as Linux does |
//!
//! The packet in transmission is not in the queue: a line that sends one packet and has a queue of
//! 50 holds 51, as dummynet's and netem's do.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod classify;
mod codel;
mod config;
mod fq;
mod pie;
mod queue;
mod select;
mod store;

pub use classify::Classifier;
pub use config::{Codel, ConfigError, Discipline, FqCodel, Pie, QueueConfig};
pub use queue::{CODEL, Counters, FULL_BYTES, FULL_PACKETS, PIE, Queue};
pub use select::{Network, Selector, SelectorError};
