//! `narrows run`

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the command line speaks here")]

use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use measure::Event;
use scenario::plan::Plan;
use scenario::{Executor, Outcome, Progress};

use crate::args::Run;
use crate::progress::Shown;
use crate::{exit, results, show};

/// `narrows run`
pub(crate) fn run(options: &Run) -> u8 {
    let seed = match seed(options) {
        Ok(seed) => seed,
        Err(code) => return code,
    };
    let plan = match show::load(&options.scenario, seed) {
        Ok(plan) => plan,
        Err(error) => return show::bad_input(&error),
    };
    let executor = if options.simulated { Executor::Virtual } else { Executor::Real };
    let out = options.out.clone().unwrap_or_else(|| default_out(&plan.name));
    let how = scenario::RunOptions { out, resume: options.resume, executor, jobs: options.jobs };
    if executor == Executor::Virtual {
        netio::sandbox::heed_interrupts();
        return work(&plan, &how, options.json);
    }
    match netio::sandbox::run(|| i32::from(work(&plan, &how, options.json))) {
        Ok(exit) => u8::try_from(exit.code()).unwrap_or(exit::FAILED),
        Err(error) => {
            eprintln!("narrows: {error}");
            exit::FAILED
        }
    }
}

fn work(plan: &Plan, how: &scenario::RunOptions, json: bool) -> u8 {
    let mut shown = Shown::new();
    let outcome = scenario::run(plan, how, &mut |step| {
        if json {
            print_json(&step);
        }
        shown.take(&step);
    });
    shown.end();
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) => {
            eprintln!("narrows: {error}");
            return if error.is_bad_input() { exit::BAD_INPUT } else { exit::FAILED };
        }
    };
    let page = results::page_of(&how.out);
    let drawn = match results::draw(&how.out, &page) {
        Ok(drawn) => drawn,
        Err(error) => return results::failed(&error),
    };
    if json {
        println!("{}", serde_json::json!({"event": "report", "page": page, "exit": drawn.exit}));
    } else {
        print!("{}", drawn.summary);
        println!("report: {}", page.display());
    }
    match outcome {
        Outcome::Complete => drawn.exit,
        Outcome::Interrupted => {
            let out = how.out.display();
            eprintln!("narrows: interrupted; finished cells are kept: go on with --resume --out {out}");
            exit::FAILED
        }
    }
}

/// The seed for a scenario that names none: that of the run that is resumed, or a new one.
fn seed(options: &Run) -> Result<u64, u8> {
    match (&options.out, options.resume) {
        (Some(out), true) => measure::Recording::seed_of(out).map_err(|error| results::failed(&error)),
        _ => Ok(draw_seed()),
    }
}

/// A seed that nobody chose: the standard library's hash keys are drawn from the system. Short, so
/// that it can be typed.
pub(crate) fn draw_seed() -> u64 {
    RandomState::new().hash_one(SystemTime::now()) % 1_000_000_000
}

/// Where results go if nothing is said.
pub(crate) fn default_out(name: &str) -> PathBuf {
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let stamp = now.replace(':', "").replace('T', "-");
    Path::new("results").join(format!("{name}-{}", stamp.trim_end_matches('Z')))
}

/// The same lines as in `events.jsonl`.
fn print_json(step: &Progress<'_>) {
    let event = match step {
        Progress::Begun { session, .. } => Event::Session((*session).clone()),
        Progress::Cell { finished, .. } => Event::Finished((*finished).clone()),
        Progress::Note(note) => Event::Note((*note).clone()),
        Progress::Ended(ended) => Event::Ended((*ended).clone()),
        Progress::Running(_) => return,
    };
    if let Ok(line) = serde_json::to_string(&event) {
        println!("{line}");
    }
}
