//! The user plane of a 4G or 5G core: who controls it, what loads it, and what stands in it.
//!
//! Sans-IO throughout: time, randomness, datagrams and frames are handed in, and what is to be sent is handed back.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod control;
pub mod filter;
pub mod load;
pub mod neighbours;
mod table;
pub mod upf;
