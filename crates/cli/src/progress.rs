//! A run as it goes on, on the terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use scenario::Progress;

/// Shows progress with an estimate on standard error, if that is a terminal; otherwise a line when
/// the run begins and for each thing worth knowing.
pub(crate) struct Shown {
    bar: ProgressBar,
    spoiled: u64,
}

impl Shown {
    pub(crate) fn new() -> Self {
        Self { bar: ProgressBar::hidden(), spoiled: 0 }
    }

    /// Takes a step of the run.
    pub(crate) fn take(&mut self, step: &Progress<'_>) {
        match step {
            Progress::Begun { cells, finished, cell_s, session } => {
                let wire = session.wire.as_deref().unwrap_or("none");
                let resumed =
                    if *finished > 0 { format!(", {finished} of them finished before") } else { String::new() };
                self.say(&format!(
                    "{cells} {} of {cell_s:.0} s{resumed}; {} time, wire: {wire}",
                    if *cells == 1 { "cell" } else { "cells" },
                    session.executor
                ));
                self.bar = ProgressBar::new(*cells as u64).with_position(*finished as u64);
                let style =
                    ProgressStyle::with_template("{bar:30} {pos}/{len} cells, {msg}{elapsed} gone, {eta} to go");
                self.bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
                self.bar.reset_eta();
                self.bar.enable_steady_tick(Duration::from_secs(1));
            }
            Progress::Running(cells) => {
                let spoiled = if self.spoiled > 0 { format!("{} run again, ", self.spoiled) } else { String::new() };
                self.bar.set_message(format!("{cells} running, {spoiled}"));
            }
            Progress::Cell { again: true, .. } => self.spoiled += 1,
            Progress::Cell { again: false, .. } => self.bar.inc(1),
            Progress::Note(note) => self.say(&note.what),
            Progress::Ended(_) => {}
        }
    }

    /// Takes the bar away.
    pub(crate) fn end(&self) {
        self.bar.finish_and_clear();
    }

    #[expect(clippy::print_stderr, reason = "the command line speaks here")]
    fn say(&self, line: &str) {
        self.bar.suspend(|| eprintln!("{line}"));
    }
}
