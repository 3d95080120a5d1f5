//! Linux: namespaces, netlink, TAP, packet sockets, clocks, the real executor and real endpoints.
//!
//! The only crate with `unsafe` code, and the only one that knows the operating system. It makes no
//! decision about protocols.

mod arrival;
pub mod capture;
pub mod clock;
pub mod control;
pub mod cpu;
pub mod endpoint;
mod error;
mod ethtool;
pub mod executor;
pub mod machine;
mod memory;
pub mod offload;
pub mod pacer;
pub mod packet_io;
mod packet_socket;
pub mod port;
pub mod probe;
pub mod process;
pub mod sandbox;
pub mod site;
mod sys;
mod waiting;

pub use error::SetupError;
pub use waiting::wait_readable;
