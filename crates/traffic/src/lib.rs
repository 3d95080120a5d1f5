//! What runs over a link: services, rate-limited sources, numbered probes, and the modelled hosts
//! of virtual time.
//!
//! [`Throttle`] and [`ProbeReceiver`] decide and count for both executors: the real endpoints drive
//! kernel sockets by them, the modelled [`Host`] drives smoltcp's.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod host;
mod probe;
mod router;
mod service;
mod throttle;
mod tunnel;

pub use host::{Congestion, Host, HostConfig, HostFlow, TcpSource};
pub use probe::{Arrival, Counts, PROBE_LEN, Probe, ProbeReceiver};
pub use router::{NextHop, Router};
pub use service::{SERVICES, Service};
pub use throttle::Throttle;
pub use tunnel::{Remote, Tunnel};
