//! Bytes to types and back: captures, Ethernet, ARP, IP, neighbour discovery, UDP, TCP, ICMP echo, VXLAN, GTP-U, PFCP,
//! pcapng, recordings.
//!
//! Reading takes a slice and never panics, whatever is in it. Writing goes into a `Vec<u8>` that
//! is used again. Nothing here keeps state.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod arp;
pub mod capture;
pub mod checksum;
pub mod frame;
pub mod gtpu;
mod headers;
pub mod ndp;
pub mod pcapng;
pub mod pfcp;
pub mod recording;
mod transport;
pub mod vxlan;

pub use headers::{
    ETHERNET_LEN, Ecn, Fragment, Headers, Ip, ethertype, mark_congestion, network_len, protocol, set_dscp, take_hop,
};
pub use transport::{ECHO_LEN, Echo, TCP_MIN_LEN, Tcp, TcpFlags, UDP_LEN, Udp, is_intact};
