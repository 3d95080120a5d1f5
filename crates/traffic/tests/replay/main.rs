//! Replay: what leaves is the trace, when it should, with the addresses it should have.

#![allow(clippy::unwrap_used, clippy::cast_possible_wrap, reason = "tests")]

mod dependence;
mod filter;
mod packets;
mod schedule;
mod spacing;
mod stateful;
mod summary;
mod thesis;
mod trace;
mod verify;
