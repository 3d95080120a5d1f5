//! The UPF by its three interfaces: what it is told on N4, and what becomes of packets.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod control;
mod graph;
mod lab;
mod packets;
mod rules;
mod usage;
