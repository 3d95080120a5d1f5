//! Bytes to types and back: Ethernet, IP, UDP, TCP, VXLAN, pcapng.
//!
//! Reading takes a slice and never panics, whatever is in it. Nothing here keeps state.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod checksum;
mod headers;

pub use headers::{ETHERNET_LEN, Ecn, Fragment, Headers, Ip, ethertype, mark_congestion, network_len, protocol};
