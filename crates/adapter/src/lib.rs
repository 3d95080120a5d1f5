//! The narrowband adapter: two of them join Ethernet segments over one slow line and let voice and
//! data share it.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod adapter;
pub mod cache;
mod class;
mod clock;
mod codec;
mod config;
mod control;
mod counters;
mod flows;
mod fragment;
pub mod frame;
mod histogram;
mod pairs;
pub mod payload;
mod predict;
mod receive;
mod refuse;
mod session;
mod stations;
mod transmit;

pub use adapter::{Adapter, LAN, LINE};
pub use class::{Class, Priority};
pub use config::{
    AdapterConfig, Admission, Behaviour, ConfigError, Fragments, LARGEST_REAL_TIME, Queues, Refused, Rohc, RohcMode,
    RohcProfile, Rule, RuleClass, Schedule, SessionConfig,
};
pub use counters::{
    COMPRESSION, ClassCounters, Count, Counters, ETHERTYPE, FlowCounters, LINE_DOWN, LineCounters, MALFORMED, REFUSED,
    ReceiveCounters, RohcCounters, SUPER_FRAME, SessionCounters, TOO_LARGE, VLAN,
};
pub use flows::{ADMITTED, FLOW_REFUSED};
pub use histogram::Histogram;
pub use session::{INCOMPATIBLE, LOST, OTHER_LINE, RESTARTED, SESSION};
