//! Linux: namespaces, netlink, TAP, packet sockets, clocks and the real executor.
//!
//! The only crate with `unsafe` code, and the only one that knows the operating system. It makes no
//! decision about protocols.

pub mod clock;
pub mod cpu;
mod error;
mod ethtool;
pub mod executor;
pub mod offload;
pub mod port;
pub mod sandbox;
pub mod site;
mod sys;

pub use error::SetupError;
