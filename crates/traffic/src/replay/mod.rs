//! Replay of captures: packets in memory, who of them is UE and who data network, and when each leaves.
//!
//! A [`Trace`] holds the packets from their IP header on. An [`AddressTable`] says of each which way it goes and
//! between whom. A [`Replay`] is the schedule: it hands out [`Item`]s as their times come, for as many repetitions
//! and parallel instances as asked for. [`Trace::write`] puts one into a buffer with the addresses of this run.
//!
//! After chapter 3 of the thesis on Ericload ("real-time 5G simulator"). Beyond it: scaling over UE addresses,
//! spacings other than copies at the same instant, and replay in which a segment waits for what it answers.

mod addresses;
mod agenda;
mod connections;
mod filter;
mod schedule;
mod spacing;
mod stateful;
mod summary;
mod trace;
mod verify;

pub use addresses::{AddressRule, AddressTable, Direction, Prefix, PrefixError, Route};
pub use filter::{Filter, FilterError};
pub use schedule::{Instances, Item, Network, Over, Replay, ReplayConfig, ReplayError};
pub use spacing::{Spacing, SpacingError};
pub use stateful::Waits;
pub use summary::{Amount, PEAK_SLOT, Summary};
pub use trace::{Left, LeftOut, LongGap, Trace, TraceError, TracePacket, WriteError};
pub use verify::{Comparison, Observed, VerifyError};
