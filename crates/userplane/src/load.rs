//! A load for a UPF: a population of UEs with their sessions, what they send and receive, and what comes
//! of it.
//!
//! After the thesis's Ericload. A [`Population`] says which addresses, TEIDs and flows there are;
//! the generator writes their packets, whole Ethernet frames, and the receiver accounts for what the
//! UPF hands on. What goes out uplink (on N3) comes back on N6, where downlink goes out; and the other way round.

mod addresses;
mod frames;
mod generator;
mod population;
mod receiver;

pub use addresses::{AddressRange, RangeError};
pub use frames::{Access, Core, DownlinkFrames, UplinkFrames, User};
pub use generator::{Came, CameWhat, Due, Generator, Network, SHORT, Source, Traffic, Tunnel, Volume};
pub use population::{Group, Overlap, Population, PopulationError, Taken};
pub use receiver::{Heard, Inward, Others, Receiver, UserPacket, answer};

pub use traffic::replay::Direction;

/// Both directions, in the order of [`index`].
pub const DIRECTIONS: [Direction; 2] = [Direction::Uplink, Direction::Downlink];

/// 0 for uplink, 1 for downlink: a place in an array.
#[must_use]
pub const fn index(direction: Direction) -> usize {
    direction as usize
}
