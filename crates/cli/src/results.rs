//! What is drawn from results: report, summary, comparison.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the command line speaks here")]

use std::path::{Path, PathBuf};

use measure::{Analysis, RecordError, Recording, Verdict};

use crate::args::{Compare, Report};
use crate::exit;

/// `narrows report`
pub(crate) fn report(options: &Report) -> u8 {
    let out = options.out.clone().unwrap_or_else(|| page_of(&options.dir));
    match draw(&options.dir, &out) {
        Ok(drawn) => {
            print!("{}", drawn.summary);
            println!("report: {}", out.display());
            drawn.exit
        }
        Err(error) => failed(&error),
    }
}

/// `narrows compare`
pub(crate) fn compare(options: &Compare) -> u8 {
    let both = Recording::load(&options.left).and_then(|left| Ok((left, Recording::load(&options.right)?)));
    let (left, right) = match both {
        Ok(both) => both,
        Err(error) => return failed(&error),
    };
    print!("{}", report::comparison_text(&left, &right, width()));
    if let Some(out) = &options.out {
        if let Err(error) = measure::write_whole(out, report::comparison(&left, &right).as_bytes()) {
            return failed(&error);
        }
        println!("comparison: {}", out.display());
    }
    exit::DONE
}

/// A report that was written.
pub(crate) struct Drawn {
    /// The summary in text.
    pub(crate) summary: String,
    /// What the run's exit status is by its expectations.
    pub(crate) exit: u8,
}

/// Writes the report of the results in `dir` to `out`.
pub(crate) fn draw(dir: &Path, out: &Path) -> Result<Drawn, RecordError> {
    let recording = Recording::load(dir)?;
    let analysis = Analysis::of(&recording);
    measure::write_whole(out, report::page(&recording, &analysis).as_bytes())?;
    let exit = match analysis.verdict() {
        Verdict::Holds => exit::DONE,
        Verdict::Fails | Verdict::NotJudged => exit::NOT_AS_EXPECTED,
    };
    Ok(Drawn { summary: measure::summary::text(&recording, &analysis, width()), exit })
}

/// Where a run's report is.
pub(crate) fn page_of(dir: &Path) -> PathBuf {
    dir.join("report.html")
}

/// Columns of the terminal, or 100.
pub(crate) fn width() -> usize {
    console::Term::stdout().size_checked().map_or(100, |(_, columns)| usize::from(columns))
}

/// Says why results could not be read or written.
pub(crate) fn failed(error: &RecordError) -> u8 {
    eprintln!("narrows: {error}");
    match error {
        RecordError::Io { .. } => exit::FAILED,
        RecordError::Taken { .. }
        | RecordError::Busy { .. }
        | RecordError::NotResults { .. }
        | RecordError::Schema { .. }
        | RecordError::OtherPlan { .. }
        | RecordError::OtherExecutor { .. }
        | RecordError::Malformed { .. } => exit::BAD_INPUT,
    }
}
