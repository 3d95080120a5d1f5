//! The ground all of Narrows stands on: logical time, packets, the one contract every mechanism
//! keeps ([`Element`]), seeded randomness, and the [`Graph`] that both executors drive.
//!
//! Nothing here (nor in any crate built on it alone) reads a clock, owns a socket, starts a thread
//! or draws an unseeded random number. The crate is `no_std`, which is how the build proves it.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod element;
mod graph;
mod packet;
mod random;
mod time;
pub mod units;

pub use element::{DropReason, Element, Event, Output, Port};
pub use graph::{ExitId, Graph, NodeId, Outlet};
pub use packet::{Checksum, Class, Gso, GsoKind, Packet, Pool};
pub use random::Random;
pub use time::{Span, Time};
pub use units::{Rate, Size};
