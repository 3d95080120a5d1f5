//! Linux: namespaces, netlink, TAP, AF_PACKET, clocks and the real executor.
//!
//! The only crate with `unsafe` code, and the only one that knows the operating system. It makes no
//! decision about protocols.

mod arrival;
pub mod endpoint;
mod error;
pub mod machine;
pub mod sandbox;
pub mod site;
mod sys;

pub use error::SetupError;
