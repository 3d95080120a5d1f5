//! The metrics a flow is judged by: one home for their names, units and columns.

use serde::{Deserialize, Serialize};

use crate::{AdapterRecord, CellRecord, FlowRecord, Interval};

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
    /// Share of the time in which the line is in use, of the adapter that sends the flow (as all
    /// that follow).
    LineUse,
    /// e: data's own characters over these, their framing, and the time the line was held for voice.
    Efficiency,
    /// Data's bytes of IP over what voice leaves of the line.
    DataShare,
    /// Real-time datagrams that waited longer than the adapter promises.
    Overdue,
    /// Real-time flows the adapter refused for want of room.
    Refused,
    /// Real-time datagram delay in the adapter, 99th percentile.
    RealTimeDelayP99,
    /// Forwarding queue delay in the adapter, median.
    QueueDelayP50,
    /// Predicted gap length, median.
    GapP50,
    /// Mean length of a compressed header in bytes.
    Header,
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
    pub const ALL: [Self; 18] = [
        Self::Goodput,
        Self::Share,
        Self::Loss,
        Self::DelayP50,
        Self::DelayP99,
        Self::Jitter,
        Self::RttP50,
        Self::RttP99,
        Self::Retransmits,
        Self::LineUse,
        Self::Efficiency,
        Self::DataShare,
        Self::Overdue,
        Self::Refused,
        Self::RealTimeDelayP99,
        Self::QueueDelayP50,
        Self::GapP50,
        Self::Header,
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
            Self::LineUse => "line-use",
            Self::Efficiency => "efficiency",
            Self::DataShare => "data-share",
            Self::Overdue => "overdue",
            Self::Refused => "refused",
            Self::RealTimeDelayP99 => "real-time-delay-p99",
            Self::QueueDelayP50 => "queue-delay-p50",
            Self::GapP50 => "gap-p50",
            Self::Header => "header",
        }
    }

    /// The column in `cells.csv`, with its unit; in `adapters.csv` for what is an adapter's.
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
            Self::LineUse => "line_use_ratio",
            Self::Efficiency => "efficiency_ratio",
            Self::DataShare => "data_share_ratio",
            Self::Overdue => "overdue",
            Self::Refused => "refused",
            Self::RealTimeDelayP99 => "real_time_delay_p99_s",
            Self::QueueDelayP50 => "queue_delay_p50_s",
            Self::GapP50 => "gap_p50_s",
            Self::Header => "header_mean_bytes",
        }
    }

    /// The unit it is kept in.
    #[must_use]
    pub const fn unit(self) -> Unit {
        match self {
            Self::Goodput => Unit::BitPerSecond,
            Self::Share | Self::Loss | Self::LineUse | Self::Efficiency | Self::DataShare => Unit::Ratio,
            Self::DelayP50 | Self::DelayP99 | Self::Jitter | Self::RttP50 | Self::RttP99 => Unit::Second,
            Self::RealTimeDelayP99 | Self::QueueDelayP50 | Self::GapP50 => Unit::Second,
            Self::Retransmits | Self::Overdue | Self::Refused | Self::Header => Unit::Count,
        }
    }

    /// The metric's value for a flow of a cell, if the flow has it.
    #[must_use]
    pub fn of(self, cell: &CellRecord, flow: &FlowRecord) -> Option<f64> {
        let adapter = || cell.adapters.iter().find(|adapter| flow.adapter.as_ref() == Some(&adapter.adapter));
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
            Self::LineUse => adapter()?.line_use(),
            Self::Efficiency => adapter()?.efficiency(),
            Self::DataShare => adapter()?.data_share(),
            Self::Overdue => adapter().map(|adapter| adapter.overdue as f64),
            Self::Refused => adapter().map(|adapter| adapter.refused as f64),
            Self::RealTimeDelayP99 => adapter()?.real_time_delay.map(|q| q.p99),
            Self::QueueDelayP50 => adapter()?.queue_delay.map(|q| q.p50),
            Self::GapP50 => adapter()?.gap.map(|q| q.p50),
            Self::Header => adapter().and_then(|adapter: &AdapterRecord| adapter.header_mean_bytes),
        }
    }

    /// The metrics that have a value for each interval of a flow.
    pub const OVER_TIME: [Self; 6] =
        [Self::Goodput, Self::Loss, Self::DelayP50, Self::Jitter, Self::RttP50, Self::Retransmits];

    /// The metric's value in an interval, if it is one of [`OVER_TIME`](Self::OVER_TIME) and was
    /// measured.
    #[must_use]
    pub fn of_interval(self, interval: &Interval) -> Option<f64> {
        match self {
            Self::Goodput => interval.goodput_bit_s(),
            Self::Loss => {
                interval.packets.as_ref().filter(|counts| counts.sent > 0).map(crate::PacketCounts::loss_ratio)
            }
            Self::DelayP50 => interval.delay_s,
            Self::Jitter => interval.jitter_s,
            Self::RttP50 => interval.rtt_s,
            Self::Retransmits => interval.retransmits.map(|n| n as f64),
            _ => None,
        }
    }
}
