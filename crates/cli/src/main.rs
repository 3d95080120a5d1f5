//! The `narrows` command.

#![forbid(unsafe_code)]

mod adapter;
mod args;
#[cfg(test)]
mod docs;
mod line;
mod link;
mod load;
mod probe;
mod progress;
mod results;
mod rohc;
mod run;
mod show;
mod trace;
mod upf;

use std::process::ExitCode;

use args::{Command, Narrows};
use clap::Parser;

/// Exit statuses, as the command's help states them.
pub(crate) mod exit {
    /// Done, and what was expected holds.
    pub(crate) const DONE: u8 = 0;
    /// Something failed.
    pub(crate) const FAILED: u8 = 1;
    /// The input is wrong; nothing was built.
    pub(crate) const BAD_INPUT: u8 = 2;
    /// Done, but an expectation does not hold or could not be judged.
    pub(crate) const NOT_AS_EXPECTED: u8 = 3;
    /// `narrows link -- CMD` itself failed; every other status is the command's.
    pub(crate) const LINK_FAILED: u8 = 125;
}

fn main() -> ExitCode {
    // No thread may be started before the sandbox is made.
    let code = match Narrows::parse().command {
        Command::Run(options) => run::run(&options),
        Command::Check(options) => show::check(&options),
        Command::Report(options) => results::report(&options),
        Command::Compare(options) => results::compare(&options),
        Command::Profiles(options) => show::profiles(&options),
        Command::Link(options) => link::link(&options),
        Command::Load(options) => load::load(&options),
        Command::Adapter(options) => adapter::adapter(&options),
        Command::Line(options) => line::line(&options),
        Command::Probe(options) => probe::probe(&options),
        Command::Rohc(options) => rohc::rohc(&options),
        Command::Trace(options) => trace::trace(&options),
        Command::Upf(options) => upf::upf(&options),
        Command::Completions { shell } => show::completions(shell),
        Command::Man { dir } => show::man(&dir),
    };
    ExitCode::from(code)
}
