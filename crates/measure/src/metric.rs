//! The metrics a flow is judged by: one home for their names, units and columns.

use serde::{Deserialize, Serialize};

use crate::{AdapterRecord, CellRecord, FlowRecord, Interval, PacketPoint};

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
    /// Segments TCP, or messages a call, sent again.
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
    /// Rate from packet pairs over what e and voice leave of the line: 1 if both tell the same.
    PairAgreement,
    /// Differences between consecutive arrivals less those between departures, 99th percentile (voice).
    JitterP99,
    /// The E-model's rating R (voice).
    Rating,
    /// Rate of the line from the slope of packet pairs.
    PairRate,
    /// Time to set up a call, median.
    SetupTime,
    /// Calls that were set up, as a share of those tried.
    CallSuccess,
    /// Time from the start of a transfer to its last byte (TCP).
    TransferTime,
    /// Packets the receiver got in a second (loads).
    PacketRate,
    /// Median of the intervals' mean delays (loads).
    SampleDelay,
    /// Most packets sent in an interval (loads).
    PeakSent,
    /// Most packets received in an interval (loads).
    PeakReceived,
    /// Difference of the arrivals of a pair's packets (packet pairs; each by itself).
    Separation,
    /// Rate that a pair by itself would tell: its size over its separation.
    SizeRate,
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
    /// A count, or a figure without a unit.
    Count,
}

impl Metric {
    /// Every metric, in the order of documentation.
    pub const ALL: [Self; 31] = [
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
        Self::PairAgreement,
        Self::JitterP99,
        Self::Rating,
        Self::PairRate,
        Self::SetupTime,
        Self::CallSuccess,
        Self::TransferTime,
        Self::PacketRate,
        Self::SampleDelay,
        Self::PeakSent,
        Self::PeakReceived,
        Self::Separation,
        Self::SizeRate,
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
            Self::PairAgreement => "pair-agreement",
            Self::Separation => "separation",
            Self::SizeRate => "size-rate",
            Self::JitterP99 => "jitter-p99",
            Self::Rating => "rating",
            Self::PairRate => "pair-rate",
            Self::SetupTime => "setup-time",
            Self::CallSuccess => "call-success",
            Self::TransferTime => "transfer-time",
            Self::PacketRate => "packet-rate",
            Self::SampleDelay => "sample-delay",
            Self::PeakSent => "peak-sent",
            Self::PeakReceived => "peak-received",
        }
    }

    /// The column in `cells.csv`, with its unit; in `adapters.csv` for what is an adapter's, in
    /// `packets.csv` for what is a packet's.
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
            Self::PairAgreement => "pair_agreement_ratio",
            Self::Separation => "separation_s",
            Self::SizeRate => "size_rate_bit_s",
            Self::JitterP99 => "jitter_p99_s",
            Self::Rating => "rating",
            Self::PairRate => "pair_rate_bit_s",
            Self::SetupTime => "setup_p50_s",
            Self::CallSuccess => "call_success_ratio",
            Self::TransferTime => "transfer_s",
            Self::PacketRate => "packets_s",
            Self::SampleDelay => "sample_delay_s",
            Self::PeakSent => "peak_sent_packets",
            Self::PeakReceived => "peak_received_packets",
        }
    }

    /// The unit it is kept in.
    #[must_use]
    pub const fn unit(self) -> Unit {
        match self {
            Self::Goodput | Self::PairRate | Self::SizeRate => Unit::BitPerSecond,
            Self::Share
            | Self::Loss
            | Self::CallSuccess
            | Self::LineUse
            | Self::Efficiency
            | Self::DataShare
            | Self::PairAgreement => Unit::Ratio,
            Self::DelayP50
            | Self::DelayP99
            | Self::Jitter
            | Self::RttP50
            | Self::RttP99
            | Self::JitterP99
            | Self::SetupTime
            | Self::TransferTime
            | Self::SampleDelay
            | Self::RealTimeDelayP99
            | Self::QueueDelayP50
            | Self::GapP50
            | Self::Separation => Unit::Second,
            Self::Retransmits
            | Self::Rating
            | Self::Overdue
            | Self::Refused
            | Self::Header
            | Self::PacketRate
            | Self::PeakSent
            | Self::PeakReceived => Unit::Count,
        }
    }

    /// The metric's value for a flow of a cell, if the flow has it.
    #[must_use]
    pub fn of(self, cell: &CellRecord, flow: &FlowRecord) -> Option<f64> {
        let adapter = || cell.adapters.iter().find(|adapter| flow.adapter.as_ref() == Some(&adapter.adapter));
        match self {
            Self::Goodput => flow.goodput_bit_s(),
            Self::Share => flow.goodput_bit_s().zip(flow.offered_bit_s).map(|(goodput, offered)| goodput / offered),
            Self::Loss => flow.packets.as_ref().filter(|counts| counts.sent > 0).map(crate::PacketCounts::loss_ratio),
            Self::DelayP50 => flow.delay.as_ref().map(|q| q.p50),
            Self::DelayP99 => flow.delay.as_ref().map(|q| q.p99),
            Self::Jitter => flow.jitter_s,
            Self::RttP50 => flow.rtt.as_ref().map(|q| q.p50),
            Self::RttP99 => flow.rtt.as_ref().map(|q| q.p99),
            Self::Retransmits => flow.retransmits.map(|n| n as f64),
            Self::JitterP99 => flow.voice.as_ref()?.jitter_p99_s,
            Self::Rating => flow.voice.as_ref()?.rating,
            Self::PairRate => flow.pairs.as_ref().map(|pairs| pairs.rate_bit_s),
            Self::SetupTime => flow.calls.as_ref()?.setup_p50_s,
            Self::CallSuccess => {
                flow.calls.as_ref().filter(|calls| calls.tried > 0).map(|c| c.established as f64 / c.tried as f64)
            }
            Self::TransferTime => flow.transfer_s,
            Self::PacketRate => flow.load.as_ref().map(|load| load.packets_s),
            Self::SampleDelay => flow.load.as_ref()?.sample_delay_s,
            Self::PeakSent => flow.load.as_ref().map(|load| load.peak_sent as f64),
            Self::PeakReceived => flow.load.as_ref().map(|load| load.peak_received as f64),
            Self::LineUse => adapter()?.line_use(),
            Self::Efficiency => adapter()?.efficiency(),
            Self::DataShare => adapter()?.data_share(),
            Self::Overdue => adapter().map(|adapter| adapter.overdue as f64),
            Self::Refused => adapter().map(|adapter| adapter.refused as f64),
            Self::RealTimeDelayP99 => adapter()?.real_time_delay.map(|q| q.p99),
            Self::QueueDelayP50 => adapter()?.queue_delay.map(|q| q.p50),
            Self::GapP50 => adapter()?.gap.map(|q| q.p50),
            Self::Header => adapter().and_then(|adapter: &AdapterRecord| adapter.header_mean_bytes),
            Self::PairAgreement => {
                let adapter = adapter()?;
                Some(flow.pairs.as_ref()?.rate_bit_s / (adapter.efficiency()? * adapter.left_bit_s()?))
            }
            // Its packets have one each.
            Self::Separation | Self::SizeRate => None,
        }
    }

    /// The metrics that have a value for each interval of a flow.
    pub const OVER_TIME: [Self; 6] =
        [Self::Goodput, Self::Loss, Self::DelayP50, Self::Jitter, Self::RttP50, Self::Retransmits];

    /// The metrics that a packet has of its own.
    pub const BY_PACKET: [Self; 2] = [Self::Separation, Self::SizeRate];

    /// The metric's value for a packet, if it is one of [`BY_PACKET`](Self::BY_PACKET).
    #[must_use]
    pub fn of_packet(self, packet: &PacketPoint) -> Option<f64> {
        match self {
            Self::Separation => packet.separation_s,
            Self::SizeRate => packet.separation_s.map(|apart| packet.bytes as f64 * 8.0 / apart),
            _ => None,
        }
    }

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PacketCounts;

    #[test]
    fn what_sent_nothing_has_no_loss() {
        let interval = |sent, received| Interval {
            packets: Some(PacketCounts { sent, received, ..PacketCounts::default() }),
            ..Interval::default()
        };
        let flow = |sent, received| FlowRecord { packets: interval(sent, received).packets, ..FlowRecord::default() };
        let cell = CellRecord {
            cell: 0,
            repeat: 0,
            attempt: 0,
            coordinates: Vec::new(),
            seed: 0,
            flows: Vec::new(),
            pipes: Vec::new(),
            adapters: Vec::new(),
            captures: Vec::new(),
            discarded: Vec::new(),
            health: crate::Health::default(),
            histograms: Vec::new(),
        };
        assert_eq!(Metric::Loss.of(&cell, &flow(0, 0)), None);
        assert_eq!(Metric::Loss.of(&cell, &flow(4, 3)), Some(0.25));
        assert_eq!(Metric::Loss.of_interval(&interval(0, 0)), None);
    }
}
