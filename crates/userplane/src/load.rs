//! A load for a UPF: a population of UEs with their sessions, what they send and receive, and what comes
//! of it.
//!
//! After the thesis's Ericload. A [`Population`] says which addresses, TEIDs and flows there are;
//! the generator writes their packets, whole Ethernet frames, and the receiver accounts for what the
//! UPF hands on. What goes out uplink (on N3) comes back on N6, where downlink goes out; and the other way round.

mod addresses;
mod frames;
mod population;

pub use addresses::{AddressRange, RangeError};
pub use frames::{Access, Core, DownlinkFrames, UplinkFrames, User};
pub use population::{Group, Overlap, Population, PopulationError, Taken};

/// Which way packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// From UEs to the data network: sent on N3 (S1-U), received on N6 (SGi).
    Uplink,
    /// From the data network to UEs: sent on N6, received on N3.
    Downlink,
}

impl Direction {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Uplink, Self::Downlink];

    /// Its name in files and columns.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Uplink => "uplink",
            Self::Downlink => "downlink",
        }
    }

    /// 0 for uplink, 1 for downlink: a place in an array.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}
