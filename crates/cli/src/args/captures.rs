//! The arguments of `narrows trace info`, `scale` and `verify`: what is done with captures.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::num::{NonZeroU16, NonZeroU32};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use engine::{Size, Span};
use traffic::replay::{Filter, Over, Prefix, Spacing};

use super::over_zero;

/// Say what is in a capture: counts, rates, peaks, sizes, and who is a UE and who in the data network.
#[derive(Debug, Args)]
pub(crate) struct Info {
    /// The capture, pcap or pcapng.
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// Addresses to list at most.
    #[arg(long, default_value = "20", value_name = "COUNT")]
    pub(crate) addresses: usize,
    /// Print JSON on standard output instead of text.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Write a capture with more of the same: repetitions after each other, instances beside each other.
///
/// Instances get addresses of their own, as in a replay; checksums are right, and what was not captured of a packet
/// is zeros.
#[derive(Debug, Args)]
pub(crate) struct Scale {
    /// The capture, pcap or pcapng.
    pub(crate) file: PathBuf,
    /// The capture to write (pcapng, times in nanoseconds).
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) selection: Selection,
    #[command(flatten)]
    pub(crate) scaling: Scaling,
    /// Bytes that are kept of a frame; all by default.
    #[arg(long, value_name = "BYTES")]
    pub(crate) snap_length: Option<u32>,
    /// The first UE's IPv4 address.
    #[arg(long, default_value = "10.45.0.1", value_name = "ADDRESS")]
    pub(crate) ue_start: Ipv4Addr,
    /// The first UE's IPv6 address.
    #[arg(long, default_value = "2001:db8:45::1", value_name = "ADDRESS")]
    pub(crate) ue_start6: Ipv6Addr,
    /// The data network's first IPv4 address.
    #[arg(long, default_value = "198.18.0.0", value_name = "ADDRESS")]
    pub(crate) pdn_start: Ipv4Addr,
    /// The data network's first IPv6 address.
    #[arg(long, default_value = "2001:db8:18::", value_name = "ADDRESS")]
    pub(crate) pdn_start6: Ipv6Addr,
    /// Print JSON on standard output instead of text.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Compare a capture of what was sent with the trace it was to be: order, count, sizes and times.
///
/// Addresses may differ, as long as each stands for one of the trace's throughout. Uplink packets may be in GTP-U
/// tunnels; what came back from the user plane is told apart. Exit status 3 if anything but times differs, or
/// times by more than --p99.
#[derive(Debug, Args)]
pub(crate) struct Verify {
    /// The capture that was replayed.
    pub(crate) original: PathBuf,
    /// The capture of what was sent.
    pub(crate) sent: PathBuf,
    #[command(flatten)]
    pub(crate) selection: Selection,
    #[command(flatten)]
    pub(crate) scaling: Scaling,
    /// Most that the timing error of 99 of 100 packets may be.
    #[arg(long, value_name = "TIME", value_parser = over_zero)]
    pub(crate) p99: Option<Span>,
    /// Print JSON on standard output instead of text.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Which packets of a capture are taken, and what they are taken for.
#[derive(Debug, Args)]
pub(crate) struct Selection {
    /// Only packets that match, in tcpdump's language, such as `tcp port 443 and not host 10.0.0.1`.
    #[arg(long, value_name = "EXPRESSION", value_parser = filter)]
    pub(crate) filter: Option<Filter>,
    /// Make no gap between packets longer than this.
    #[arg(long, value_name = "TIME")]
    pub(crate) max_gap: Option<Span>,
    /// Cut TCP segments longer than this, from the IP header on, as the hardware cuts what a host hands to it.
    #[arg(long, default_value = "1500", value_name = "BYTES", value_parser = clap::value_parser!(u32).range(576..))]
    pub(crate) longest: u32,
    /// UEs are the addresses within this network; may be repeated. By default first sight decides.
    #[arg(long, value_name = "NETWORK")]
    pub(crate) ue: Vec<Prefix>,
    /// Most memory for packets.
    #[arg(long, default_value = "1GiB", value_name = "SIZE")]
    pub(crate) memory: Size,
}

/// Repetitions and instances.
#[derive(Debug, Args)]
pub(crate) struct Scaling {
    /// Parallel instances.
    #[arg(long, default_value = "1", value_name = "COUNT")]
    pub(crate) instances: NonZeroU32,
    /// What instances have of their own.
    #[arg(long, value_enum, default_value_t = Sides::Pdn)]
    pub(crate) over: Sides,
    /// How often the trace is played, one after the other.
    #[arg(long, default_value = "1", value_name = "COUNT")]
    pub(crate) repetitions: NonZeroU32,
    /// How instances lie in time: at the same instants (copy), begun at drawn offsets (jitter), or with gaps in an
    /// order of their own (shuffle).
    #[arg(long, default_value = "copy")]
    pub(crate) spacing: Spacing,
    /// Jitter: offsets are drawn below this; by default the trace's length.
    #[arg(long, value_name = "TIME")]
    pub(crate) within: Option<Span>,
    /// Shuffle: gaps in a block; by default 16.
    #[arg(long, value_name = "GAPS")]
    pub(crate) block: Option<NonZeroU16>,
    /// Seed of what is drawn at random.
    #[arg(long, default_value = "1")]
    pub(crate) seed: u64,
}

/// What parallel instances have of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sides {
    /// Addresses in the data network.
    Pdn,
    /// UEs.
    Ue,
}

impl Scaling {
    /// The spacing with what is said about it.
    pub(crate) fn spacing(&self) -> Result<Spacing, String> {
        match (self.spacing, self.within, self.block) {
            (Spacing::Jitter { within }, given, None) => Ok(Spacing::Jitter { within: given.or(within) }),
            (Spacing::Shuffle { block }, None, given) => Ok(Spacing::Shuffle { block: given.unwrap_or(block) }),
            (spacing, None, None) => Ok(spacing),
            (_, Some(_), _) => Err("--within belongs to --spacing jitter".into()),
            (_, _, Some(_)) => Err("--block belongs to --spacing shuffle".into()),
        }
    }
}

impl From<Sides> for Over {
    fn from(sides: Sides) -> Self {
        match sides {
            Sides::Pdn => Self::Pdn,
            Sides::Ue => Self::Ue,
        }
    }
}

pub(super) fn filter(text: &str) -> Result<Filter, String> {
    Filter::parse(text).map_err(|error| error.to_string())
}
