//! What needs no run: checks, profiles, completions, manual pages.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the command line speaks here")]

use std::io::{self, IsTerminal};
use std::path::Path;

use clap::CommandFactory;
use scenario::{PROFILES, ScenarioError};

use crate::args::{Check, Narrows, Profiles, Scenario};
use crate::exit;

/// `narrows check`
pub(crate) fn check(options: &Check) -> u8 {
    let plan = match load(&options.scenario, 0) {
        Ok(plan) => plan,
        Err(error) => return bad_input(&error),
    };
    if options.json {
        println!("{}", plan.to_json());
        return exit::DONE;
    }
    let axes = plan.study.axes.iter().map(|axis| format!("{} ({})", axis.key, axis.values.len()));
    let axes: Vec<String> = axes.collect();
    let swept = if axes.is_empty() { "nothing swept".into() } else { format!("over {}", axes.join(" x ")) };
    println!("{}: {} cells {swept}", plan.name, plan.cells.len());
    let total: f64 = plan.cells.iter().map(|cell| (cell.warmup + cell.duration).as_secs_f64()).sum();
    for warning in plan.warnings() {
        eprintln!("warning: {warning}");
    }
    println!("one after another they take {}", measure::format::duration(total));
    exit::DONE
}

/// `narrows profiles`
pub(crate) fn profiles(options: &Profiles) -> u8 {
    for profile in PROFILES {
        if options.json {
            println!("{}", profile.to_json());
        } else {
            println!("{profile}");
        }
    }
    exit::DONE
}

/// `narrows completions`
pub(crate) fn completions(shell: clap_complete::Shell) -> u8 {
    clap_complete::generate(shell, &mut Narrows::command(), "narrows", &mut io::stdout());
    exit::DONE
}

/// `narrows man`
pub(crate) fn man(dir: &Path) -> u8 {
    match clap_mangen::generate_to(Narrows::command(), dir) {
        Ok(()) => exit::DONE,
        Err(error) => {
            eprintln!("narrows: cannot write manual pages to {}: {error}", dir.display());
            exit::FAILED
        }
    }
}

/// Reads a scenario; `seed` is used if the file names none.
pub(crate) fn load(options: &Scenario, seed: u64) -> Result<scenario::plan::Plan, ScenarioError> {
    let read = scenario::Options { quick: options.quick, set: options.set.clone(), seed, ..Default::default() };
    scenario::load(&options.file, &read)
}

/// Says what is wrong with a scenario.
pub(crate) fn bad_input(error: &ScenarioError) -> u8 {
    if io::stderr().is_terminal() {
        eprintln!("{}", error.coloured());
    } else {
        eprintln!("{error}");
    }
    exit::BAD_INPUT
}
