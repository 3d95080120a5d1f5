//! The user plane of a 4G or 5G core: what loads it and what stands in it.
//!
//! Sans-IO throughout: time, randomness and frames are handed in.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod load;
pub mod neighbours;
