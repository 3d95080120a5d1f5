//! The command line.

mod captures;
mod load;
mod trace;
mod upf;

use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use engine::{Rate, Size, Span};
use link::characters::Framing;
use netio::port::line::Address;
use scenario::Jobs;

pub(crate) use captures::{Info, Scale, Scaling, Selection, Verify};
pub(crate) use load::{Io, Load, Ways};
pub(crate) use trace::{Lrd, Make, MakeModel, Trace, TraceAction};
pub(crate) use upf::{Network, PacketWay, Upf};

/// Makes the narrow links between edge clouds behave, and proves it.
///
/// Exit status: 0 done, 1 failed, 2 bad input, 3 done but an expectation does not hold or could not
/// be judged.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
pub(crate) struct Narrows {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(Run),
    Check(Check),
    Report(Report),
    Compare(Compare),
    Profiles(Profiles),
    Link(Link),
    Load(Load),
    Adapter(Adapter),
    Line(Line),
    Probe(Probe),
    Rohc(Rohc),
    Trace(Trace),
    Upf(Upf),
    /// Print a completion script for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Write the manual pages to a directory.
    Man {
        /// The directory; it must exist.
        dir: PathBuf,
    },
}

/// What a scenario file is read with.
#[derive(Debug, Args)]
pub(crate) struct Scenario {
    /// The scenario file.
    pub(crate) file: PathBuf,
    /// Apply the file's `quick` block: the same questions in a minute or two.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Change a key, such as `radio.loss=0.05` or `measure.duration=10s`.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
}

/// Run a scenario: every cell of its sweep, then the summary and the report.
#[derive(Debug, Args)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) scenario: Scenario,
    /// Cells side by side: a number, or `auto` for as many as lateness and CPU allow.
    #[arg(long, default_value = "auto", value_parser = jobs)]
    pub(crate) jobs: Jobs,
    /// Go on with the run in --out: finished cells are kept.
    #[arg(long, requires = "out")]
    pub(crate) resume: bool,
    /// Run in virtual time: modelled hosts, the same links, nobody waits.
    #[arg(long = "virtual")]
    pub(crate) simulated: bool,
    /// Directory for the results [default: results/NAME-DATE].
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Print JSON Lines on standard output instead of text.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Check a scenario file and say what it would run.
#[derive(Debug, Args)]
pub(crate) struct Check {
    #[command(flatten)]
    pub(crate) scenario: Scenario,
    /// Print the resolved plan as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Draw the report of a results directory again, and print its summary.
#[derive(Debug, Args)]
pub(crate) struct Report {
    /// The results directory.
    pub(crate) dir: PathBuf,
    /// Where the report goes [default: DIR/report.html].
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

/// Lay two runs side by side.
#[derive(Debug, Args)]
pub(crate) struct Compare {
    /// The first results directory.
    pub(crate) left: PathBuf,
    /// The second.
    pub(crate) right: PathBuf,
    /// Also write the comparison as a page.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

/// List the link profiles with their sources.
#[derive(Debug, Args)]
pub(crate) struct Profiles {
    /// Print JSON Lines.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Put a program behind an emulated link, or a link between two interfaces.
///
/// With a command: it runs in a site of its own (the ship), whose one link leads to another site (the
/// shore), whose address is in `NARROWS_PEER`. Needs no root. The exit status is the command's, or
/// 125 if narrows itself fails, bad input included.
///
/// With --between: packets between two interfaces pass the link, as in a bridge that emulates.
/// Needs root; runs until interrupted. Here and with `set` bad input is 2, as everywhere else.
///
/// `narrows link set NAME key=value …` changes a link while it runs.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Link {
    #[command(subcommand)]
    pub(crate) action: Option<LinkAction>,
    /// The link's profile; see `narrows profiles`.
    // An option, since `set` goes without.
    #[arg(long, required = true, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// Change the link, such as `loss=0.05` or `up.rate=2Mbit/s`.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Name by which `narrows link set` finds the link.
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Seed of what is drawn at random; printed if not given.
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Run this shell command in the shore's site for as long as the command runs.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) peer: Option<String>,
    /// Emulate between these two interfaces: `up` is from the first to the second.
    #[arg(long, num_args = 2, value_names = ["IF1", "IF2"], conflicts_with_all = ["peer", "command"])]
    pub(crate) between: Vec<String>,
    /// The command and its arguments.
    #[arg(last = true, required_unless_present = "between")]
    pub(crate) command: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LinkAction {
    /// Change a running link, such as `narrows link set sea loss=0.05 up.rate=2Mbit/s`.
    Set {
        /// The link's name.
        name: String,
        /// What to change: rate, delay, loss, duplicate, corrupt, queue; with `up.` or `down.` in
        /// front for one direction.
        #[arg(required = true, value_name = "KEY=VALUE")]
        changes: Vec<String>,
    },
}

/// Join a LAN to a slow line, beside another adapter at the line's other end.
///
/// Voice passes at its time, other packets in the gaps, headers compressed. Needs the right to open
/// packet sockets on the interface (root, or `CAP_NET_RAW`) and to open the line. Runs until it is
/// interrupted, and then gives its account.
///
/// With --replay: gives an adapter what a recorded one was given, in virtual time, and compares what
/// they put on the line. Exit status 3 if that differs.
#[derive(Debug, Args)]
pub(crate) struct Adapter {
    /// The interface to the LAN; it should have no addresses.
    #[arg(long, value_name = "INTERFACE", required_unless_present = "replay", requires = "line")]
    pub(crate) lan: Option<String>,
    /// The line: a device such as /dev/ttyUSB0, `tcp:HOST:PORT`, or `tcp-listen:PORT` (every address
    /// of this machine) or `tcp-listen:HOST:PORT` to be connected to.
    #[arg(long, value_name = "LINE", required_unless_present = "replay", requires = "lan")]
    pub(crate) line: Option<Address>,
    /// Speed of the line in bit/s, start and stop bits included [default: 9600, or as --config says].
    #[arg(long)]
    pub(crate) baud: Option<u32>,
    /// Data bits, parity and stop bits [default: 8N1].
    #[arg(long)]
    pub(crate) framing: Option<Framing>,
    /// What the line behind the device carries, without start and stop bits, such as `2400bit/s`: for
    /// synchronous lines, and radios that are slower than their serial port.
    #[arg(long)]
    pub(crate) rate: Option<Rate>,
    /// The adapter's configuration (YAML); options here go before it.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// What is sent next when the line is free.
    #[arg(long)]
    pub(crate) schedule: Option<Schedule>,
    /// Say what happens on standard error this often, such as `10s`.
    #[arg(long, value_name = "TIME", value_parser = over_zero)]
    pub(crate) stats: Option<Span>,
    /// Print JSON Lines on standard output: an account each --stats, and one at the end.
    #[arg(long)]
    pub(crate) json: bool,
    /// Seed of what is drawn at random; printed if not given. Give each start another one.
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Record all that the adapter is given and puts on its line.
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// Do a recording again in virtual time and compare.
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "lan", "line", "baud", "framing", "rate", "config", "schedule", "stats", "seed", "record",
    ])]
    pub(crate) replay: Option<PathBuf>,
}

/// What is sent next when the line is free.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum Schedule {
    /// Voice first; the rest cut to fit the predicted gaps.
    Gaps,
    /// Voice first; the rest in pieces of one size.
    Priority,
    /// Everything in order of arrival.
    Fifo,
}

/// Join two pseudo-terminals by an emulated serial line: a radio for those who have none.
///
/// What is written to one terminal comes out of the other at the line's pace, with its delay and its
/// errors. Needs no root. Runs until it is interrupted.
///
/// `narrows line set NAME key=value …` changes a line while it runs.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Line {
    #[command(subcommand)]
    pub(crate) action: Option<LineAction>,
    /// Where a terminal is to be found; given twice. Links to them are made, and removed at the end.
    #[arg(long, required = true, value_name = "PATH", num_args = 1, action = clap::ArgAction::Append)]
    pub(crate) pty: Vec<PathBuf>,
    /// Speed in bit/s, start and stop bits included.
    #[arg(long, default_value = "9600")]
    pub(crate) baud: NonZeroU32,
    /// Data bits, parity and stop bits.
    #[arg(long, default_value = "8N1")]
    pub(crate) framing: Framing,
    /// A synchronous line of this rate instead, eight bits a character, such as `9600bit/s`.
    #[arg(long, conflicts_with_all = ["baud", "framing"])]
    pub(crate) rate: Option<Rate>,
    /// How long characters travel.
    #[arg(long, default_value = "0ms")]
    pub(crate) delay: Span,
    /// Characters that may wait for the line, each way; what comes beyond them is dropped.
    #[arg(long, default_value = "64KiB")]
    pub(crate) buffer: Size,
    /// Chance that a bit is received wrong.
    #[arg(long, default_value = "0", value_name = "P")]
    pub(crate) errors: f64,
    /// Bursts of errors: for each bit the chance that one begins and that it ends, and of a wrong bit in
    /// it (outside: --errors).
    #[arg(long, num_args = 3, value_names = ["BEGIN", "END", "INSIDE"])]
    pub(crate) bursts: Vec<f64>,
    /// Fades, in which nothing arrives: mean time between them and mean length.
    #[arg(long, num_args = 2, value_names = ["INTERVAL", "LENGTH"])]
    pub(crate) fades: Vec<Span>,
    /// Seed of what is drawn at random; printed if not given.
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Name by which `narrows line set` finds the line.
    #[arg(long)]
    pub(crate) name: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LineAction {
    /// Change a running line, such as `narrows line set radio cut=true up.errors=1e-4`.
    Set {
        /// The line's name.
        name: String,
        /// What to change: cut, errors, delay, buffer, baud; with `up.` (from the first terminal) or
        /// `down.` in front for one direction.
        #[arg(required = true, value_name = "KEY=VALUE")]
        changes: Vec<String>,
    },
}

fn over_zero(text: &str) -> Result<Span, String> {
    let span: Span = text.parse().map_err(|error: engine::units::UnitError| error.to_string())?;
    if span == Span::ZERO { Err("this time must be more than zero".into()) } else { Ok(span) }
}

/// Measure a path between two hosts.
#[derive(Debug, Args)]
pub(crate) struct Probe {
    #[command(subcommand)]
    pub(crate) action: ProbeAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ProbeAction {
    PacketPair(PacketPair),
}

/// The rate of a narrow path by packet pairs over several sizes, through whatever stands on it.
///
/// Start it with --listen on one host, then with that host's name on the other. Two datagrams are sent
/// back to back; the other host reports how far apart they arrived. The rate is the slope of this
/// separation over the size: what each packet costs beyond its bytes (framing), or is spared (compressed
/// headers), falsifies single sizes, but not the slope.
#[derive(Debug, Args)]
pub(crate) struct PacketPair {
    /// The listening host, with its port or without (an IPv6 address that has one in brackets); with
    /// --listen the address to listen at, every address if there is none.
    #[arg(value_name = "HOST[:PORT]", required_unless_present = "listen")]
    pub(crate) host: Option<String>,
    /// Listen, and answer whoever asks, until interrupted.
    #[arg(long, conflicts_with_all = ["sizes", "pairs", "zeros", "seed", "json"])]
    pub(crate) listen: bool,
    /// Sizes of the IP datagrams in bytes: FROM..TO:STEP, or a list.
    #[arg(long, default_value = "60,80,100,150,200,400,600,800,1000,1200,1400", value_parser = sizes)]
    pub(crate) sizes: Sizes,
    /// Pairs of each size.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub(crate) pairs: u16,
    /// How long a pair's report is waited for, such as `30s`; with --listen: how long to listen.
    #[arg(long, value_name = "TIME", value_parser = over_zero)]
    pub(crate) timeout: Option<Span>,
    /// Send zeros, which compress, instead of bytes that do not.
    #[arg(long)]
    pub(crate) zeros: bool,
    /// Seed of the pauses between pairs and of what is sent; drawn if not given.
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Print JSON Lines on standard output instead of text.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Sizes of IP datagrams in bytes, at least one.
#[derive(Clone, Debug)]
pub(crate) struct Sizes(pub(crate) Vec<u16>);

/// Most sizes of a measurement.
const MOST_SIZES: usize = 1_000;

fn sizes(text: &str) -> Result<Sizes, String> {
    let number = |text: &str| text.trim().parse::<u16>().map_err(|_| format!("`{text}` is not a size from 0 to 65535"));
    let sizes: Vec<u16> = match text.split_once("..") {
        Some((from, rest)) => {
            let (to, step) = rest.split_once(':').unwrap_or((rest, "1"));
            let step = usize::from(number(step)?);
            if step == 0 {
                return Err("the step must be more than 0".into());
            }
            (number(from)?..=number(to)?).step_by(step).collect()
        }
        None => text.split(',').map(number).collect::<Result<_, _>>()?,
    };
    match sizes.len() {
        0 => Err("there is no size in it; write FROM..TO:STEP with FROM below TO".into()),
        1..=MOST_SIZES => Ok(Sizes(sizes)),
        many => Err(format!("{many} sizes are too many; at most {MOST_SIZES}, choose a larger step")),
    }
}

/// Compress or decompress headers (ROHC), packet by packet.
///
/// Reads records from standard input and writes records to standard output, so that any other
/// implementation can be put at the other end of the channel. A record is a length (two octets, big
/// endian, of what comes after the type), a type (one octet) and its octets.
///
/// In: `P` a packet; `F` feedback from the peer; `T` the time in nanoseconds (eight octets). Before
/// the first `T`, packets are taken to come 20 ms apart. `F` and `T` get no answer. Out, for every `P`: one `P`
/// (the result) or `E` (why there is none), then perhaps `R` (feedback found in front of the packet, for the
/// local compressor) and `F` (feedback to carry back), then `.`.
#[derive(Debug, Args)]
pub(crate) struct Rohc {
    #[command(subcommand)]
    pub(crate) end: RohcEnd,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RohcEnd {
    /// Packets in, ROHC packets out.
    Comp(RohcOptions),
    /// ROHC packets in, packets out.
    Decomp(RohcOptions),
}

/// The channel's parameters. Give both ends the same.
#[derive(Debug, Args)]
pub(crate) struct RohcOptions {
    /// Profiles that may be used, such as 0x0001,0x0006; 0x0000 always is. Default: all there are.
    #[arg(short, long, value_name = "PROFILE,…", value_delimiter = ',', value_parser = profile)]
    pub(crate) profiles: Vec<rohc::Profile>,
    /// The greatest context identifier; over 15 the channel has large ones.
    #[arg(short = 'c', long, default_value_t = 15, value_parser = clap::value_parser!(u16).range(..=16_383))]
    pub(crate) max_cid: u16,
    /// The mode that the decompressor brings contexts into; the compressor follows.
    #[arg(short, long, value_enum, default_value_t = RohcMode::O)]
    pub(crate) mode: RohcMode,
    /// UDP ports that the compressor takes for RTP.
    #[arg(short, long, value_name = "PORT,…", value_delimiter = ',', default_value = "5004")]
    pub(crate) rtp: Vec<u16>,
    /// The channel's MRRU: the longest unit, in octets, that the decompressor puts together from segments; 0 for none.
    #[arg(short = 's', long, default_value_t = 0)]
    pub(crate) mrru: u16,
}

/// A mode of operation (RFC 3095 4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RohcMode {
    /// Unidirectional: no feedback.
    U,
    /// Bidirectional optimistic: feedback asks for repair.
    O,
}

fn profile(text: &str) -> Result<rohc::Profile, String> {
    let id = match text.strip_prefix("0x") {
        Some(digits) => u16::from_str_radix(digits, 16),
        None => text.parse(),
    };
    id.ok().and_then(rohc::Profile::from_id).ok_or_else(|| {
        let known: Vec<String> = rohc::Profile::ALL.iter().map(|profile| format!("0x{:04x}", profile.id())).collect();
        format!("write one of {}", known.join(", "))
    })
}

fn jobs(text: &str) -> Result<Jobs, String> {
    if text == "auto" {
        return Ok(Jobs::Auto);
    }
    let jobs = text.parse::<NonZeroUsize>().map_err(|_| "write `auto` or a number from 1".to_owned())?;
    Ok(Jobs::Fixed(jobs))
}
