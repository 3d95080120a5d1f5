//! The narrowband adapter: two of them join Ethernet segments over one slow line and let voice and
//! data share it.
//!
//! ```text
//!          ┌─────────────────────────── Adapter ───────────────────────────┐
//!  LAN ───►│ stations ─ reply cache ─ flows ─┬─ real-time ──────────┐      │
//! (port 0) │                (rules, steady   ├─ data 3 ┐            ├ line ├──► line
//!          │                 spacing,        ├─ data 2 ├ fragments ─┤      │  (port 1)
//!          │                 admission)      ├─ data 1 │   ▲        │      │
//!          │                      │          └─ data 0 ┘   │        │      │
//!          │                      └── next real-time ──────┘        │      │
//!          │                          packet predicted     control ─┘      │
//!     ◄────┤ reply cache ─ header decompression ─ reassembly ─ frames ◄────┤◄──
//!          └───────────────────────────────────────────────────────────────┘
//! ```
//!
//! Source: the Network Adapter of Amanowicz, Sevenich, Jarmakiewicz and Pilz (RTO-MP-IST-054, 2006), which
//! says what it does and not how. This one differs: it takes IPv4 and ARP too, finds real-time flows by
//! their behaviour as well as by rules, refuses those that do not fit, and writes its line protocol down
//! (`docs/guide/src/line-protocol.md`).
//!
//! # What is sent next
//!
//! The adapter keeps the line's time itself: a frame is handed over when the one before it is sent, so
//! that the queue stands here and not in a driver. With the schedule [`Schedule::Gaps`] that frame is, in
//! this order:
//!
//! 1. a real-time datagram, if one waits, in order of arrival;
//! 2. a control frame, if it ends before the next predicted real-time datagram, or has waited for a second;
//! 3. a fragment of the data packet whose priority is highest, as long as ends before the next predicted
//!    datagram; or nothing, and the line is held back, if less than [`Fragments::least`] would go.
//!
//! While nothing is predicted a fragment takes no longer than [`Fragments::time`]. [`Schedule::Priority`] has no
//! prediction and fragments of that size always, [`Schedule::Fifo`] one queue: the same framing without the
//! mechanism, to compare with.
//!
//! A prediction is a straight line through a flow's last 16 arrivals with a guard of one and a half
//! times their largest residual. It *held* if the datagram came within the guard and one character. A
//! real-time datagram is *overdue* if it waited for longer than the rest of the frame that was in
//! transmission when it came, the real-time datagrams before it, and one character: that never happens.
//!
//! # What is dropped, and what is lost
//!
//! Every packet from the LAN that does not leave has a reason ([`Counters::dropped`]). What is lost on the line
//! is counted by the receiver ([`ReceiveCounters`]). Queues are bounded by [`Queues`], reassembly by
//! [`AdapterConfig::largest_packet`] and 60 s for each of four priorities, tables by their constants.
//!
//! ```
//! use adapter::{Adapter, AdapterConfig, LAN, LINE};
//! use engine::{Element, Output, Packet, Time};
//!
//! let mut adapter = Adapter::new(&AdapterConfig::default(), 1, "west")?;
//! // It says hello as soon as there is time.
//! let now = adapter.deadline().expect("an adapter always has something to do");
//! adapter.tick(now);
//! let Some(Output::Transmit { port: LINE, packet }) = adapter.poll() else { unreachable!("a hello") };
//! assert_eq!(packet.bytes.last(), Some(&0));
//! # Ok::<(), adapter::ConfigError>(())
//! ```

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
pub use session::{INCOMPATIBLE, LOOPED, LOST, OTHER_LINE, RESTARTED, SESSION};
