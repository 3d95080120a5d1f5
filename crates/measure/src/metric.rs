//! The metrics a flow is judged by: one home for their names, units and columns.

use serde::{Deserialize, Serialize};

use crate::FlowRecord;

/// A metric of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Bytes the receiver's application got, per measured time.
    Goodput,
    /// Goodput as a share of the offered rate.
    Share,
    /// Packets that did not arrive, as a share of those sent (UDP, ping).
    Loss,
    /// One-way delay, median (UDP).
    DelayP50,
    /// One-way delay, 99th percentile (UDP).
    DelayP99,
    /// Interarrival jitter (RFC 3550 6.4.1) at the end (UDP).
    Jitter,
    /// Round-trip time, median (TCP's smoothed estimate; ping).
    RttP50,
    /// Round-trip time, 99th percentile.
    RttP99,
    /// Segments TCP sent again.
    Retransmits,
}

/// The unit a metric is kept in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// bit/s
    BitPerSecond,
    /// s
    Second,
    /// A share of 1.
    Ratio,
    /// A count.
    Count,
}

impl Metric {
    /// Every metric, in the order of documentation.
    pub const ALL: [Self; 9] = [
        Self::Goodput,
        Self::Share,
        Self::Loss,
        Self::DelayP50,
        Self::DelayP99,
        Self::Jitter,
        Self::RttP50,
        Self::RttP99,
        Self::Retransmits,
    ];

    /// The name in scenario files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Goodput => "goodput",
            Self::Share => "share",
            Self::Loss => "loss",
            Self::DelayP50 => "delay-p50",
            Self::DelayP99 => "delay-p99",
            Self::Jitter => "jitter",
            Self::RttP50 => "rtt-p50",
            Self::RttP99 => "rtt-p99",
            Self::Retransmits => "retransmits",
        }
    }

    /// The column in `cells.csv`, with its unit.
    #[must_use]
    pub const fn column(self) -> &'static str {
        match self {
            Self::Goodput => "goodput_bit_s",
            Self::Share => "goodput_share",
            Self::Loss => "loss_ratio",
            Self::DelayP50 => "delay_p50_s",
            Self::DelayP99 => "delay_p99_s",
            Self::Jitter => "jitter_s",
            Self::RttP50 => "rtt_p50_s",
            Self::RttP99 => "rtt_p99_s",
            Self::Retransmits => "retransmits",
        }
    }

    /// The unit it is kept in.
    #[must_use]
    pub const fn unit(self) -> Unit {
        match self {
            Self::Goodput => Unit::BitPerSecond,
            Self::Share | Self::Loss => Unit::Ratio,
            Self::DelayP50 | Self::DelayP99 | Self::Jitter | Self::RttP50 | Self::RttP99 => Unit::Second,
            Self::Retransmits => Unit::Count,
        }
    }

    /// The metric's value for a flow, if the flow has it.
    #[must_use]
    pub fn of(self, flow: &FlowRecord) -> Option<f64> {
        match self {
            Self::Goodput => flow.goodput_bit_s(),
            Self::Share => flow.goodput_bit_s().zip(flow.offered_bit_s).map(|(goodput, offered)| goodput / offered),
            Self::Loss => flow.packets.as_ref().map(crate::PacketCounts::loss_ratio),
            Self::DelayP50 => flow.delay.as_ref().map(|q| q.p50),
            Self::DelayP99 => flow.delay.as_ref().map(|q| q.p99),
            Self::Jitter => flow.jitter_s,
            Self::RttP50 => flow.rtt.as_ref().map(|q| q.p50),
            Self::RttP99 => flow.rtt.as_ref().map(|q| q.p99),
            Self::Retransmits => flow.retransmits.map(|n| n as f64),
        }
    }
}
