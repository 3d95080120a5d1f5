//! What is kept of a cell: the rows of `cells.csv`, `samples.csv` and `links.csv`.

use std::borrow::Cow;

use engine::Span;
use hdrhistogram::Histogram;

use crate::{AdapterRecord, Scalar};

/// A name out of a small set: a constant where it is made, owned where it is read from a file.
pub type Name = Cow<'static, str>;

/// Name of the histogram of lateness among a cell's; those of a flow are `FLOW.delay` and `FLOW.rtt`.
pub const LATENESS: &str = "lateness";

/// One cell that ran to its end.
#[derive(Clone, Debug)]
pub struct CellRecord {
    /// Number of the cell in the plan.
    pub cell: u32,
    /// Which repeat, from 0.
    pub repeat: u32,
    /// How often it had been run before, because it was spoiled.
    pub attempt: u32,
    /// Key and value of each swept axis.
    pub coordinates: Vec<(String, Scalar)>,
    /// Seed of the cell's random streams.
    pub seed: u64,
    /// What ran.
    pub flows: Vec<FlowRecord>,
    /// What the links did.
    pub pipes: Vec<PipeRecord>,
    /// What the narrowband adapters did.
    pub adapters: Vec<AdapterRecord>,
    /// What was captured.
    pub captures: Vec<CaptureRecord>,
    /// Packets that ended outside the links.
    pub discarded: Vec<Discarded>,
    /// What the machine did.
    pub health: Health,
    /// Lateness of sent packets ([`LATENESS`]), one-way delays and round-trip times in ns, by name.
    pub histograms: Vec<(String, Histogram<u64>)>,
}

/// What crossed the first end of a link.
#[derive(Clone, Debug, Default)]
pub struct CaptureRecord {
    /// The link's name.
    pub link: String,
    /// Packets in it.
    pub packets: u64,
    /// Packets for which there was no room.
    pub left_out: u64,
    /// As pcapng.
    pub bytes: Vec<u8>,
}

/// One flow of a cell.
#[derive(Clone, Debug, Default)]
pub struct FlowRecord {
    /// Its name in the scenario.
    pub flow: String,
    /// Site it is sent from.
    pub from: String,
    /// Site it is sent to.
    pub to: String,
    /// `tcp`, `udp`, `ping`, `voice`, `pairs`, `call`, `quic` or `gtp-u`.
    pub protocol: Name,
    /// What sent it: `own`, `iperf3`, `smoltcp`, `quinn`.
    pub engine: Name,
    /// The narrowband adapter that puts it on its first narrow line, by name.
    pub adapter: Option<String>,
    /// Rate the application offers, if it is limited.
    pub offered_bit_s: Option<f64>,
    /// How long the connection took to be established (TCP); absent if it never was.
    pub connect: Option<Span>,
    /// Length of the measured time, after the warm-up.
    pub measured: Span,
    /// Bytes the application gave to the transport in that time.
    pub sent_bytes: u64,
    /// Bytes the receiving application got in that time.
    pub received_bytes: u64,
    /// Packets, for protocols that count them.
    pub packets: Option<PacketCounts>,
    /// One-way delay in seconds.
    pub delay: Option<Quantiles>,
    /// Round-trip time in seconds.
    pub rtt: Option<Quantiles>,
    /// Interarrival jitter in seconds (RFC 3550 6.4.1).
    pub jitter_s: Option<f64>,
    /// Segments, or messages of a call, sent again.
    pub retransmits: Option<u64>,
    /// What a listener would make of it (voice).
    pub voice: Option<VoiceRecord>,
    /// What its packet pairs say of the line.
    pub pairs: Option<PairsRecord>,
    /// What became of its calls.
    pub calls: Option<CallsRecord>,
    /// Seconds from the start of a transfer to its last byte at the receiver, if it came to its end.
    pub transfer_s: Option<f64>,
    /// What is told of a load on a UPF alone.
    pub load: Option<LoadRecord>,
    /// The measured time in intervals.
    pub intervals: Vec<Interval>,
    /// Single packets in order of number: the first [`SERIES_LIMIT`] of the measured time, of flows
    /// that keep them.
    pub series: Vec<PacketPoint>,
    /// Why there is no more than this, if something went wrong.
    pub error: Option<String>,
}

/// Most packets of a flow that are kept one by one.
pub const SERIES_LIMIT: usize = 2_000;

/// A voice flow at its listener.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct VoiceRecord {
    /// 99th percentile of the differences between consecutive arrivals less those between their
    /// departures, in seconds.
    pub jitter_p99_s: Option<f64>,
    /// Packets that came too late to be played.
    pub late_packets: u64,
    /// Share of packets that were not played: lost, damaged or late.
    pub missing_ratio: f64,
    /// Mean length of bursts of those over that of random losses (ITU-T G.107 BurstR).
    pub burst_ratio: f64,
    /// Mean time from sending to playing in seconds.
    pub playout_s: f64,
    /// The E-model's rating R; absent if nothing could be played.
    pub rating: Option<f64>,
}

/// What packet pairs say.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PairsRecord {
    /// Pairs of which both packets arrived in order.
    pub count: u64,
    /// Rate from the slope of separation over size, in bit/s.
    pub rate_bit_s: f64,
    /// Lower bound of its 95 % interval.
    pub rate_low_bit_s: f64,
    /// Upper bound; absent where the slope's interval reaches zero.
    pub rate_high_bit_s: Option<f64>,
    /// Sizes whose own estimate disagrees with the slope.
    pub disagreeing_sizes: u64,
}

/// What became of calls.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CallsRecord {
    /// Calls that were tried.
    pub tried: u64,
    /// Of those, how many stood.
    pub established: u64,
    /// Of those, how many were released in order.
    pub released: u64,
    /// Median time from the invitation to its acceptance at the caller, in seconds.
    pub setup_p50_s: Option<f64>,
    /// Longest.
    pub setup_max_s: Option<f64>,
}

/// A load on a UPF.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LoadRecord {
    /// Packets that came back in a second.
    pub packets_s: f64,
    /// Median of the intervals' mean delays, in seconds.
    pub sample_delay_s: Option<f64>,
    /// Most packets sent in an interval.
    pub peak_sent: u64,
    /// Most packets that came back in an interval.
    pub peak_received: u64,
}

/// A packet of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PacketPoint {
    /// Its number at its sender, from 0.
    pub number: u64,
    /// Whether it went from the flow's second site back to its first (calls).
    pub back: bool,
    /// Its size: UDP payload of voice, IP datagram of packet pairs, ICMP payload of pings.
    pub bytes: u64,
    /// When it was sent, in seconds from the start of the measured time.
    pub sent_s: f64,
    /// One-way delay (of a ping the round trip) in seconds; absent if it was lost.
    pub delay_s: Option<f64>,
    /// Difference of its arrival from the one before, less that of their departures (voice), in seconds.
    pub jitter_s: Option<f64>,
    /// Difference of its arrival from that of the first of its pair, in seconds.
    pub separation_s: Option<f64>,
}

impl PacketPoint {
    /// An echo request: its number, payload in bytes, time since the start of the measured time, and
    /// round trip, if a reply came.
    #[must_use]
    pub fn trip(number: u64, bytes: u64, sent: Span, trip: Option<Span>) -> Self {
        let (sent_s, delay_s) = (sent.as_secs_f64(), trip.map(Span::as_secs_f64));
        Self { number, bytes, sent_s, delay_s, ..Self::default() }
    }
}

/// Packets of a flow that numbers them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketCounts {
    /// Sent in the measured time.
    pub sent: u64,
    /// Of those, how many arrived at least once.
    pub received: u64,
    /// Copies beyond the first.
    pub duplicated: u64,
    /// Arrived after one that was sent later.
    pub reordered: u64,
}

/// One interval of a flow.
#[derive(Clone, Debug, Default)]
pub struct Interval {
    /// Start, from the start of the measured time.
    pub start: Span,
    /// End.
    pub end: Span,
    /// Bytes the receiving application got.
    pub received_bytes: u64,
    /// Segments sent again.
    pub retransmits: Option<u64>,
    /// Smoothed round-trip time at the end of the interval (TCP) or median (ping), in seconds.
    pub rtt_s: Option<f64>,
    /// Congestion window at the end, in bytes.
    pub cwnd_bytes: Option<u64>,
    /// Packets sent and received in the interval.
    pub packets: Option<PacketCounts>,
    /// Median one-way delay in seconds.
    pub delay_s: Option<f64>,
    /// Jitter at the end, in seconds.
    pub jitter_s: Option<f64>,
}

/// Quantiles of a sample, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Quantiles {
    /// How many values.
    pub count: u64,
    /// Smallest.
    pub min: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Largest.
    pub max: f64,
}

/// One pipe of one direction of a link.
#[derive(Clone, Debug, Default)]
pub struct PipeRecord {
    /// The link's name.
    pub link: String,
    /// `up` or `down`.
    pub direction: Name,
    /// The pipe's name; `main` for packets no branch took.
    pub pipe: String,
    /// Packets that came.
    pub offered_packets: u64,
    /// Their bytes on the link.
    pub offered_bytes: u64,
    /// Packets that left.
    pub delivered_packets: u64,
    /// Their bytes on the link.
    pub delivered_bytes: u64,
    /// Packets that did not leave, by reason.
    pub drops: Vec<(Name, u64)>,
    /// Packets marked with ECN CE.
    pub marked: u64,
    /// Extra copies made.
    pub duplicated: u64,
    /// Packets in which a bit was flipped.
    pub corrupted: u64,
    /// Most packets that waited.
    pub queue_peak_packets: u64,
    /// Most bytes that waited.
    pub queue_peak_bytes: u64,
}

/// Packets that ended in one place outside the links, for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Discarded {
    /// A wire, an element or the executor.
    pub place: String,
    /// Why.
    pub reason: Name,
    /// How many.
    pub packets: u64,
}

/// How well the machine kept up while the cell ran.
#[derive(Clone, Debug, Default)]
pub struct Health {
    /// Packets the executor sent.
    pub packets: u64,
    /// Of those, sent later than `late_limit` after their time.
    pub late_packets: u64,
    /// What counts as late.
    pub late_limit: Span,
    /// Lateness in seconds.
    pub lateness: Quantiles,
    /// Times the executor was kept from the CPU for longer than the stated limit.
    pub stalls: u64,
    /// Their total length.
    pub stalled: Span,
    /// Packets the kernel lost between a site and the executor.
    pub kernel_drops: u64,
    /// CPU time in seconds by part (`emulator`, `endpoints`, `kernel`).
    pub cpu_s: Vec<(Name, f64)>,
    /// Share of the machine's CPU time in use while the cell ran, 0 to 1.
    pub machine_busy: f64,
    /// Share taken by the hypervisor, 0 to 1.
    pub machine_steal: f64,
    /// Most cells that ran at the same time.
    pub cells_beside: u32,
    /// Why the cell's figures cannot be trusted, if so.
    pub spoiled: Option<String>,
}

impl Interval {
    /// Goodput in the interval in bit/s; none if it has no length.
    #[must_use]
    pub fn goodput_bit_s(&self) -> Option<f64> {
        let length = self.end.saturating_sub(self.start).as_secs_f64();
        (length > 0.0).then(|| self.received_bytes as f64 * 8.0 / length)
    }
}

impl FlowRecord {
    /// Goodput over the measured time in bit/s; none if no time was measured.
    #[must_use]
    pub fn goodput_bit_s(&self) -> Option<f64> {
        self.is_measured().then(|| self.received_bytes as f64 * 8.0 / self.measured.as_secs_f64())
    }

    /// Whether anything was measured. A connection that was never established was measured, and
    /// carried nothing; one of which nobody reported was not.
    #[must_use]
    pub fn is_measured(&self) -> bool {
        self.measured > Span::ZERO
    }
}

impl PacketCounts {
    /// Share of packets that did not arrive; 0 if none was sent.
    #[must_use]
    pub fn loss_ratio(&self) -> f64 {
        if self.sent == 0 {
            return 0.0;
        }
        (self.sent - self.received.min(self.sent)) as f64 / self.sent as f64
    }
}

impl PipeRecord {
    /// Whether it is a line of characters: its drops are counted in these.
    #[must_use]
    pub fn is_line(&self) -> bool {
        self.pipe == "line"
    }

    /// Packets that did not leave, for whatever reason.
    #[must_use]
    pub fn dropped_packets(&self) -> u64 {
        self.drops.iter().map(|(_, n)| n).sum()
    }
}

impl Quantiles {
    /// The quantiles of a histogram of nanoseconds, or `None` if it is empty.
    #[must_use]
    pub fn of_nanos(histogram: &Histogram<u64>) -> Option<Self> {
        if histogram.is_empty() {
            return None;
        }
        let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e9;
        Some(Self {
            count: histogram.len(),
            min: histogram.min() as f64 / 1e9,
            p50: at(0.50),
            p90: at(0.90),
            p99: at(0.99),
            max: histogram.max() as f64 / 1e9,
        })
    }
}
