//! What one direction of a link is told to be.

use alloc::string::String;
use alloc::vec::Vec;

use engine::{Rate, Size, Span};
use queue::QueueConfig;
use serde::{Deserialize, Serialize};

/// One direction of a link: one or more pipes, and how packets choose among them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DirectionConfig {
    /// Asked in order; the first that matches takes the packet.
    pub branches: Vec<Branch>,
    /// The pipe of every packet that no branch takes.
    pub pipe: PipeConfig,
}

/// A pipe for some of the packets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Branch {
    /// Name in counters and reports.
    pub name: String,
    /// Which packets it takes.
    pub selector: Selector,
    /// What happens to them.
    pub pipe: PipeConfig,
}

/// Which packets a branch takes: all conditions that are given must hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Selector {
    /// Conditions on the packet's headers.
    #[serde(flatten)]
    pub headers: queue::Selector,
    /// Chance that a packet which meets all other conditions is taken, 0 to 1.
    pub probability: Option<f64>,
}

impl From<queue::Selector> for Selector {
    /// All packets that meet the conditions.
    fn from(headers: queue::Selector) -> Self {
        Self { headers, probability: None }
    }
}

/// One pipe. A packet passes, in this order: loss (if at entry), queue, rate, loss (if in the
/// air), corruption, duplication, delay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PipeConfig {
    /// How fast bits are put on the link; unlimited if absent.
    pub rate: Option<RateModel>,
    /// Bytes a packet costs on the link beyond its network-layer length.
    pub overhead: Size,
    /// Where packets wait for the rate.
    pub queue: QueueConfig,
    /// How long a packet travels.
    pub delay: DelayModel,
    /// Let a packet with a shorter delay overtake; otherwise it waits for the one before it.
    pub reorder: bool,
    /// Which packets are lost.
    pub loss: LossModel,
    /// Where they are lost.
    pub loss_at: LossAt,
    /// Chance that a packet arrives twice, 0 to 1.
    pub duplicate: f64,
    /// Chance that one bit of a packet is flipped, 0 to 1.
    pub corrupt: f64,
}

/// Where packets are lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LossAt {
    /// Before the queue, as dummynet and netem do: a lost packet takes no time on the link.
    #[default]
    Entry,
    /// After the transmission, as a radio does: a lost packet took its time on the link.
    Air,
}

/// How fast bits are put on the link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RateModel {
    /// Always the same.
    Constant(Rate),
    /// A bucket of `burst` bytes filled at `rate`; a packet leaves as soon as its bytes are there.
    TokenBucket {
        /// Fill rate.
        rate: Rate,
        /// Depth of the bucket.
        burst: Size,
    },
    /// Delivery opportunities of 1,504 bytes each (mahimahi's packet delivery trace).
    Opportunities(Opportunities),
}

/// A packet delivery trace as mahimahi reads it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opportunities {
    /// Where it was read from.
    pub source: String,
    /// Milliseconds from the start of the trace, never decreasing; the last one is the length of
    /// the trace, which then starts again.
    pub at_ms: Vec<u64>,
}

/// How long a packet travels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DelayModel {
    /// Always the same.
    Constant(Span),
    /// Uniform between two bounds.
    Uniform {
        /// Shortest.
        min: Span,
        /// Longest.
        max: Span,
    },
    /// Normal, cut off at zero.
    Normal {
        /// Mean.
        mean: Span,
        /// Standard deviation.
        deviation: Span,
    },
    /// Pareto: the chance of more than x is (scale / x)^shape.
    Pareto {
        /// Shortest delay.
        scale: Span,
        /// Tail index, over 1 so that the mean exists.
        shape: f64,
    },
    /// Drawn from an empirical distribution, with linear interpolation between its quantiles.
    Empirical(Empirical),
    /// As a recording says, in time.
    Timeline(Timeline),
}

/// An empirical distribution of delays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Empirical {
    /// Where it was read from.
    pub source: String,
    /// Delays in increasing order, equally likely; at least two.
    pub delays: Vec<Span>,
}

/// Delays over time; the last one holds until the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeline {
    /// Where it was read from.
    pub source: String,
    /// From when (since the epoch of the run) which delay holds; times strictly increase, from 0.
    pub steps: Vec<(Span, Span)>,
    /// Change linearly from one step to the next rather than at once.
    pub interpolate: bool,
}

/// Which packets are lost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LossModel {
    /// Each on its own with the same chance, 0 to 1.
    Bernoulli(f64),
    /// Two states (Gilbert 1960, Elliott 1963).
    GilbertElliott(GilbertElliott),
    /// Four states (Salsano et al. 2009, netem's `loss state`).
    Markov4(Markov4),
    /// As recorded: true is lost; starts again at its end.
    Trace(LossTrace),
}

/// Gilbert and Elliott's model. All are chances per packet, 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct GilbertElliott {
    /// From the good state to the bad.
    pub p: f64,
    /// From the bad state to the good.
    pub r: f64,
    /// Chance of loss in the bad state (1 - h).
    pub loss_bad: f64,
    /// Chance of loss in the good state (1 - k).
    pub loss_good: f64,
}

/// The four-state model: 1 good reception, 2 good reception in a burst, 3 burst loss, 4 isolated
/// loss. All are chances per packet, 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Markov4 {
    /// From state 1 to 3: a burst of losses begins.
    pub p13: f64,
    /// From state 3 to 1: it ends.
    pub p31: f64,
    /// From state 3 to 2: reception within the burst.
    pub p32: f64,
    /// From state 2 to 3: the burst's losses go on.
    pub p23: f64,
    /// From state 1 to 4: an isolated loss.
    pub p14: f64,
}

/// A recorded sequence of losses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LossTrace {
    /// Where it was read from.
    pub source: String,
    /// One entry a packet: true is lost.
    pub lost: Vec<bool>,
}
