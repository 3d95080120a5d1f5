//! The link emulator: one direction of a narrow link as an [`Element`](engine::Element).
//!
//! # The path of a packet
//!
//! ```text
//!            ┌ branch ─ pipe ┐
//! input ─────┼ branch ─ pipe ┼───── output        the first branch whose selector matches, else main
//!            └── main ─ pipe ┘
//!
//! pipe:  loss ─► queue ─► rate ─► loss ─► corruption ─► duplication ─► delay
//!     (at entry)                (in the air)
//! ```
//!
//! * **Loss** asks its model once for each packet, before the queue (as dummynet and netem do) or after
//!   the transmission (as a radio does: the lost packet took its time on the link).
//! * **Queue**: [`queue::Queue`]. Its limits hold to the packet and byte. The packet in transmission is
//!   not in it. What is due at an instant happens before what arrives at it: a packet that comes as
//!   another leaves finds the room.
//! * **Rate**: a packet departs when its last bit is sent (store and forward), and not before. It costs
//!   its network-layer length (without Ethernet's header and padding) and
//!   [`overhead`](PipeConfig::overhead), the framing of the link that is emulated. Fractions of a
//!   nanosecond are carried over, so that a busy line's n-th bit leaves at n over the rate exactly,
//!   rounded down to the nanosecond.
//! * **Corruption** flips one bit after the Ethernet header, each as likely. A checksum that an offload
//!   left open is completed first, so that the receiver sees the damage.
//! * **Duplication** puts a copy right behind. It takes no time on the link.
//! * **Delay** starts when the packet departs, and so adds to queueing and transmission. Unless
//!   [`reorder`](PipeConfig::reorder) is set, a packet waits for the one before it; with delays that
//!   vary this lengthens the mean. No order is kept between pipes.
//!
//! # What may be relied on
//!
//! * **Time** is logical and handed in. A packet is never early, and a late caller makes nothing add
//!   up: each departure and arrival is computed from the one before, not from when it was noticed.
//! * **The same seed and inputs give the same bytes at the same times.** Every effect of every pipe has a
//!   random stream of its own: a change of delay leaves the losses as they were, and more Bernoulli loss
//!   takes the same packets and some more.
//! * **Every packet comes out once**, sent or dropped for a reason that has a name and a count
//!   ([`Counters`]): [`LOSS`], [`queue::FULL_PACKETS`], [`queue::FULL_BYTES`], [`queue::CODEL`],
//!   [`queue::PIE`], [`DELAY_LINE_FULL`], [`OVERSIZED`], [`SUPER_FRAME`]. Super-frames (GSO) are cut before
//!   they come here; one that was not is dropped by name, never taken for a packet.
//! * **Memory is bounded** by the queue's limits and the delay line's ([`PipeConfig::memory_bound`]), and
//!   nothing is allocated for a packet once the buffers have grown, but for copies by duplication.
//! * **Everything can change while packets run** ([`Direction::set`], [`Change`]). Packets in flight keep
//!   their times; the rest of the packet in transmission goes at the new rate.
//!
//! # Models and their sources
//!
//! | model | source | formula, and what to know |
//! |---|---|---|
//! | [`RateModel::Constant`] | | departs at `max(arrival, line free) + cost * 8 / rate` |
//! | [`RateModel::TokenBucket`] | RFC 2697's committed bucket | starts full; a packet leaves at once when its tokens are there, the whole burst back to back. The packet at the head waits outside the queue, as a kernel qdisc's peeked packet does. Unlike tbf: no peak rate, no Ethernet header in the cost (give it as overhead), exact to the nanosecond; a packet larger than the bucket is dropped, as tbf does |
//! | [`RateModel::Opportunities`] | mahimahi (Netravali et al. 2015) | 1,504 bytes each; what nothing waits for is lost; a packet may span several and share one. The trace begins with the run and repeats; its last time is its length. mahimahi counts 4 bytes of TUN header, so an overhead of 4 gives its results; it refuses packets over 1,504 bytes, here they span |
//! | [`DelayModel::Normal`] | | cut off at zero; unlike netem's table, not cut at four deviations |
//! | [`DelayModel::Pareto`] | Pareto | `P(delay > x) = (scale / x)^shape`, cut off at [`DelayModel::LONGEST`]; netem's `pareto` is a table with a mean and a deviation given beside it |
//! | [`DelayModel::Empirical`] | | inverse of the empirical distribution, linear between quantiles |
//! | [`DelayModel::Timeline`] | | by the logical time at which a packet departs |
//! | [`LossModel::Bernoulli`] | | mean `p`, mean burst `1 / (1 - p)` |
//! | [`LossModel::GilbertElliott`] | Gilbert 1960, Elliott 1963 | [`mean_loss`](LossModel::mean_loss), [`mean_burst`](LossModel::mean_burst). netem's `gemodel` with the same `p`, `r`, `1-h`, `1-k` |
//! | [`LossModel::Markov4`] | Salsano et al. 2009 | netem's `loss state p13 p31 p32 p23 p14` |
//! | [`LossModel::Trace`] | | from its first entry on, and again |
//! | [`queue`] disciplines | RFC 8289, 8033, 8290 | see that crate |
//!
//! All chains start in a state drawn from their stationary distribution; netem's start in the good state,
//! which loses too little in short runs.
//!
//! # Beside netem and dummynet
//!
//! | | here | netem | dummynet |
//! |---|---|---|---|
//! | queue limit counts | waiting packets | waiting packets and those in flight | waiting packets |
//! | default limit | stated by the user; 50 packets | 1,000 packets | 50 packets |
//! | rate counts | network layer and stated overhead | frame with Ethernet header, and stated overhead | IP packet (frame at layer 2) |
//! | delay and rate | add up, whatever the jitter | jitter is absorbed while packets queue | add up |
//! | timing | logical nanoseconds | kernel timer | kernel tick (1 ms at 1,000 Hz) |
//! | jitter reorders | if asked for | unless a queue behind it is told not to | (constant delay) |
//! | loss of a super-frame | each packet by itself | all its packets at once | (sees packets) |
//! | loss models | Bernoulli, Gilbert-Elliott, four states, trace; at entry or in the air | the same but the trace; at entry | Bernoulli; at entry |
//! | corruption | any bit after the Ethernet header | any bit of the frame's head | none |
//! | duplicate | right behind, with the same delay | goes through the qdisc again | none |
//! | random numbers | by seed, a stream for each effect | by seed since Linux 6.6, one stream | not repeatable |
//! | active queue management | CoDel, PIE, FQ-CoDel | by a second qdisc behind | RED, and CoDel, PIE, FQ-CoDel since FreeBSD 11 |
//!
//! ```
//! use engine::{Element, Output, Packet, Span, Time};
//! use link::{DelayModel, Direction, DirectionConfig, LossModel, PipeConfig, RateModel};
//!
//! // Satellite #1's uplink: 5 Mbit/s, 125 ms, and 1 % loss.
//! let pipe = PipeConfig {
//!     rate: Some(RateModel::Constant("5Mbit/s".parse()?)),
//!     delay: DelayModel::Constant(Span::from_millis(125)),
//!     loss: LossModel::Bernoulli(0.01),
//!     ..PipeConfig::default()
//! };
//! let mut up = Direction::new(&DirectionConfig { branches: vec![], pipe }, 7, "radio.up")?;
//! up.handle(Time::ZERO, 0, Packet::new(vec![0; 14 + 1_250]));
//! // Sent after 2 ms, there after 127.
//! while let Some(deadline) = up.deadline() {
//!     up.tick(deadline);
//!     while let Some(Output::Transmit { packet, .. }) = up.poll() {
//!         assert_eq!(packet.launch, Time::ZERO + Span::from_millis(127));
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod config;
mod counters;
mod delay;
mod direction;
mod line;
mod loss;
mod pipe;
mod rate;
mod select;
pub mod trace;
mod validate;

pub use config::{
    Branch, DelayModel, DirectionConfig, Empirical, GilbertElliott, LossAt, LossModel, LossTrace, Markov4,
    Opportunities, PipeConfig, RateModel, Selector, Timeline,
};
pub use counters::{Count, Counters, DELAY_LINE_FULL, LOSS, OVERSIZED, SUPER_FRAME};
pub use direction::{Change, Direction};
pub use validate::ConfigError;
