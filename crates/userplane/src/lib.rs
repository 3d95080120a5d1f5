//! The user plane of mobile networks: who controls it ([`control`]).
//!
//! Everything here is told the time and handed datagrams, and hands back what is to be sent and what happened. Nothing reads
//! a clock or owns a socket.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod control;
