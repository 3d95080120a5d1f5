//! `narrows load`

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use engine::Span;

/// Load a 5G or 4G user plane: sessions over PFCP, then traffic through them, every packet timed.
///
/// Without `n3`, `n4` and `n6` in the file it starts the UPF that comes with Narrows, in namespaces of its own:
/// needs no root and nothing installed. Otherwise it aims at that UPF, and needs the right to open packet
/// sockets (root, or `CAP_NET_RAW`). Sessions are deleted at the end, and on Ctrl-C, which keeps what was measured.
#[derive(Debug, Args)]
pub(crate) struct Load {
    /// The load file.
    pub(crate) file: PathBuf,
    /// Directory for the results [default: results/NAME-DATE].
    #[arg(long, value_name = "DIR", conflicts_with = "find_max")]
    pub(crate) out: Option<PathBuf>,
    /// Print JSON Lines on standard output instead of text.
    #[arg(long)]
    pub(crate) json: bool,
    /// How frames are sent.
    #[arg(long, value_enum, default_value_t = Io::Auto)]
    pub(crate) io: Io,
    /// Seed of what is drawn at random, if the file gives none; drawn and printed if not given.
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Instead of the file's traffic, look for the highest rate with at most this loss, such as `loss=2%`, by trials at
    /// steady rates (RFC 2544 26.1), with the packet sizes of the first group that has a model.
    #[arg(long, value_name = "loss=SHARE", value_parser = loss)]
    pub(crate) find_max: Option<f64>,
    /// Numbers of flows to search for, such as `1,10,100`.
    #[arg(long, value_delimiter = ',', default_value = "1", requires = "find_max")]
    pub(crate) flows: Vec<u32>,
    /// Directions to search for.
    #[arg(long, value_delimiter = ',', value_enum, default_value = "up", requires = "find_max")]
    pub(crate) directions: Vec<Ways>,
    /// How long a trial lasts.
    #[arg(long, value_name = "TIME", default_value = "10s", requires = "find_max", value_parser = super::over_zero)]
    pub(crate) trial: Span,
    /// Trials that a rate has to pass.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "find_max", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) repeats: u32,
    /// Packets a second of the first trial, each way.
    #[arg(long, value_name = "RATE", default_value_t = 50_000, requires = "find_max")]
    pub(crate) from: u64,
}

/// How frames are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Io {
    /// AF_XDP, and where that is not to be had AF_PACKET.
    Auto,
    /// AF_XDP or an error.
    AfXdp,
    /// AF_PACKET.
    AfPacket,
}

/// Which way packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Ways {
    /// From UEs to the data network.
    Up,
    /// From the data network to UEs.
    Down,
    /// Both at once.
    Both,
}

fn loss(text: &str) -> Result<f64, String> {
    let wrong = || "write `loss=2%` or `loss=0.02`, from 0 to under 1".to_owned();
    let share = text.strip_prefix("loss=").ok_or_else(wrong)?;
    let share = match share.strip_suffix('%') {
        Some(percent) => percent.parse::<f64>().map(|percent| percent / 100.0),
        None => share.parse(),
    };
    share.ok().filter(|share| (0.0..1.0).contains(share)).ok_or_else(wrong)
}
