//! The arguments of `narrows trace`.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use engine::Span;
use traffic::models::{Hurst, PacketRate};
use traffic::replay::Filter;

use super::captures::{Info, Scale, Verify, filter};
use super::over_zero;

/// Make and examine traces of traffic.
#[derive(Debug, Args)]
pub(crate) struct Trace {
    #[command(subcommand)]
    pub(crate) action: TraceAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TraceAction {
    Lrd(Lrd),
    Info(Info),
    Make(Make),
    Scale(Scale),
    Verify(Verify),
}

/// Find long-range dependence: Hurst exponents, times between packets, sums of autocorrelations.
///
/// Of the trace as it is, and as a replay multiplies it: copied at the same instant, repeated, both, at drawn
/// offsets, and with shuffled gaps. Reads a capture (pcap, pcapng), or text with a packet's time in seconds on each line,
/// and its size in bytes behind a comma if you like.
#[derive(Debug, Args)]
pub(crate) struct Lrd {
    /// The capture, or the list of times.
    pub(crate) file: PathBuf,
    /// Only packets that match, as tcpdump has it: `udp and port 443`.
    #[arg(long, value_name = "EXPRESSION", value_parser = filter)]
    pub(crate) filter: Option<Filter>,
    /// Make gaps no longer than this.
    #[arg(long, value_name = "TIME", value_parser = over_zero)]
    pub(crate) max_gap: Option<Span>,
    /// Time in which packets are counted together; exponents are those of the counts [default: some ten packets].
    #[arg(long, value_name = "TIME", value_parser = over_zero)]
    pub(crate) slot: Option<Span>,
    /// Count bytes instead of packets.
    #[arg(long)]
    pub(crate) bytes: bool,
    /// Parallel instances, where the trace is scaled.
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) instances: u32,
    /// Repetitions, where it is repeated.
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repetitions: u32,
    /// Write a page with the figures.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Seed of what is drawn at random. The same one gives the same answer.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Print JSON Lines on standard output instead of text.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Make a trace of UDP packets whose long-range dependence is known.
///
/// The Hurst exponent H is that of the packets per slot: exactly so for fractional Gaussian noise, over long
/// times for Pareto sources; Poisson and steady packets have none.
#[derive(Debug, Args)]
pub(crate) struct Make {
    /// The capture to write (pcapng, times in nanoseconds).
    pub(crate) out: PathBuf,
    /// What the packets follow.
    #[arg(long, value_enum, default_value_t = MakeModel::Fgn)]
    pub(crate) model: MakeModel,
    /// Hurst exponent, over 0 and under 1; for Pareto sources over 0.5.
    #[arg(long, default_value = "0.8", value_name = "H")]
    pub(crate) hurst: Hurst,
    /// Mean rate in packets, such as `1000/s`.
    #[arg(long, default_value = "1000/s")]
    pub(crate) rate: PacketRate,
    /// Length of the trace.
    #[arg(long, default_value = "60s", value_parser = over_zero)]
    pub(crate) duration: Span,
    /// Noise: length of a slot.
    #[arg(long, default_value = "10ms", value_parser = over_zero)]
    pub(crate) slot: Span,
    /// Noise: standard deviation of the packets in a slot, over their mean.
    #[arg(long, default_value = "0.3", value_name = "RATIO")]
    pub(crate) variation: f64,
    /// Pareto: number of sources.
    #[arg(long, default_value = "50")]
    pub(crate) sources: usize,
    /// Pareto: mean time for which a source sends.
    #[arg(long, default_value = "100ms", value_parser = over_zero)]
    pub(crate) on: Span,
    /// Pareto: mean time for which a source pauses.
    #[arg(long, default_value = "300ms", value_parser = over_zero)]
    pub(crate) off: Span,
    /// Sizes of the IP packets in bytes: one, or FROM..TO, each equally often.
    #[arg(long, default_value = "1000", value_name = "BYTES", value_parser = packet_sizes)]
    pub(crate) size: (u32, u32),
    /// Bytes that are kept of a frame; all by default.
    #[arg(long, value_name = "BYTES")]
    pub(crate) snap_length: Option<u32>,
    /// Where the packets come from.
    #[arg(long, default_value = "10.45.0.2", value_name = "ADDRESS")]
    pub(crate) source: IpAddr,
    /// Where they go; an address of the same version.
    #[arg(long, default_value = "198.18.0.1", value_name = "ADDRESS")]
    pub(crate) destination: IpAddr,
    /// Seed of what is drawn at random; printed if not given.
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Print JSON on standard output instead of text.
    #[arg(long)]
    pub(crate) json: bool,
}

/// What the packets of a trace that is made follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MakeModel {
    /// Packets per slot are fractional Gaussian noise.
    Fgn,
    /// Sources that send and pause for Pareto times.
    Pareto,
    /// Independent packets.
    Poisson,
    /// Evenly spaced packets.
    Steady,
}

/// One size, or FROM..TO. An IPv6 and a UDP header take 48 bytes.
fn packet_sizes(text: &str) -> Result<(u32, u32), String> {
    let number = |text: &str| match text.trim().parse::<u32>() {
        Ok(size @ 48..=65_535) => Ok(size),
        _ => Err(format!("`{text}` is not a size from 48 to 65535")),
    };
    match text.split_once("..") {
        Some((from, to)) => match (number(from)?, number(to)?) {
            (from, to) if from <= to => Ok((from, to)),
            _ => Err(format!("`{text}`: the first size must not be larger than the second")),
        },
        None => number(text).map(|size| (size, size)),
    }
}
