//! What an executor saw of a flow, before it becomes a record.

use engine::{Span, Time};
use hdrhistogram::Histogram;

use crate::{
    CallsRecord, FlowRecord, Interval, LoadRecord, PacketCounts, PacketPoint, PairsRecord, Quantiles, VoiceRecord,
};

/// A flow as an executor saw it: counters at the bounds of its intervals, and every delay.
#[derive(Clone, Debug)]
pub struct Observation {
    /// How long the connection took to be established (TCP).
    pub connect: Option<Span>,
    /// Counters at the start of the measured time, and at the end of each interval.
    pub snapshots: Vec<Snapshot>,
    /// What became of the packets sent in the measured time, once the last had time to arrive.
    pub packets: Option<PacketCounts>,
    /// One-way delays in ns.
    pub delays: Histogram<u64>,
    /// Round-trip times in ns.
    pub rtts: Histogram<u64>,
    /// What a listener would make of it (voice).
    pub voice: Option<VoiceRecord>,
    /// What its packet pairs say of the line.
    pub pairs: Option<PairsRecord>,
    /// What became of its calls.
    pub calls: Option<CallsRecord>,
    /// What is told of a load on a UPF alone.
    pub load: Option<LoadRecord>,
    /// How long its transfer took, if it came to its end.
    pub transfer: Option<Span>,
    /// Single packets.
    pub series: Vec<PacketPoint>,
    /// What went wrong.
    pub error: Option<String>,
}

/// Counters of a flow, all since it began.
#[derive(Clone, Copy, Debug, Default)]
pub struct Snapshot {
    /// When they were read.
    pub at: Time,
    /// Bytes the application gave to the transport.
    pub sent_bytes: u64,
    /// Bytes the receiving application got.
    pub received_bytes: u64,
    /// Packets, for flows that number them.
    pub packets: Option<PacketCounts>,
    /// Segments TCP, or messages a call, sent again.
    pub retransmits: Option<u64>,
    /// Round-trip time now.
    pub rtt: Option<Span>,
    /// Congestion window now, in bytes.
    pub cwnd_bytes: Option<u64>,
    /// Jitter now (RFC 3550 6.4.1).
    pub jitter: Option<Span>,
    /// Median one-way delay since the snapshot before.
    pub delay: Option<Span>,
}

/// Delays from 1 ns to some 36 minutes with three significant digits.
#[must_use]
#[expect(clippy::missing_panics_doc, reason = "the arguments are constants that hdrhistogram accepts")]
pub fn delay_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 1 << 41, 3).expect("bounds are valid")
}

impl Observation {
    /// Nothing seen yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            connect: None,
            snapshots: Vec::new(),
            packets: None,
            delays: delay_histogram(),
            rtts: delay_histogram(),
            voice: None,
            pairs: None,
            calls: None,
            load: None,
            transfer: None,
            series: Vec::new(),
            error: None,
        }
    }

    /// The record of a flow with this name, ends, protocol, engine and offered rate.
    #[must_use]
    pub fn into_record(self, named: FlowRecord) -> FlowRecord {
        let bounds = self.snapshots.first().zip(self.snapshots.last());
        let Some((first, last)) = bounds else {
            return FlowRecord { error: self.error.or(Some("nothing was measured".into())), ..named };
        };
        FlowRecord {
            connect: self.connect,
            measured: last.at.since(first.at),
            sent_bytes: last.sent_bytes - first.sent_bytes,
            received_bytes: last.received_bytes - first.received_bytes,
            packets: self.packets,
            delay: Quantiles::of_nanos(&self.delays),
            rtt: Quantiles::of_nanos(&self.rtts),
            jitter_s: last.jitter.map(Span::as_secs_f64),
            retransmits: difference(first.retransmits, last.retransmits),
            voice: self.voice,
            pairs: self.pairs,
            calls: self.calls,
            load: self.load,
            transfer_s: self.transfer.map(Span::as_secs_f64),
            series: self.series,
            intervals: self.snapshots.windows(2).map(|pair| pair[0].interval_to(&pair[1], first.at)).collect(),
            error: self.error,
            ..named
        }
    }
}

impl Default for Observation {
    fn default() -> Self {
        Self::new()
    }
}

impl Snapshot {
    fn interval_to(&self, end: &Self, start: Time) -> Interval {
        Interval {
            start: self.at.since(start),
            end: end.at.since(start),
            received_bytes: end.received_bytes - self.received_bytes,
            retransmits: difference(self.retransmits, end.retransmits),
            rtt_s: end.rtt.map(Span::as_secs_f64),
            cwnd_bytes: end.cwnd_bytes,
            packets: self.packets.zip(end.packets).map(|(before, after)| PacketCounts {
                sent: after.sent - before.sent,
                received: after.received - before.received,
                duplicated: after.duplicated - before.duplicated,
                reordered: after.reordered - before.reordered,
            }),
            delay_s: end.delay.map(Span::as_secs_f64),
            jitter_s: end.jitter.map(Span::as_secs_f64),
        }
    }
}

/// A connection that did not exist at the start counted nothing then.
fn difference(before: Option<u64>, after: Option<u64>) -> Option<u64> {
    after.map(|after| after.saturating_sub(before.unwrap_or(0)))
}
