//! The command line.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use scenario::Jobs;

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

fn jobs(text: &str) -> Result<Jobs, String> {
    if text == "auto" {
        return Ok(Jobs::Auto);
    }
    let jobs = text.parse::<NonZeroUsize>().map_err(|_| "write `auto` or a number from 1".to_owned())?;
    Ok(Jobs::Fixed(jobs))
}
