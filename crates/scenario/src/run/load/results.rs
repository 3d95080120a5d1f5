//! The results directory of a load.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use netio::capture::{Capture, Options, Tap};
use serde_json::json;
use userplane::load::{DIRECTIONS, Population, index};

use crate::load::{Generation, LoadPlan, Upf};
use crate::run::load::summary::LoadSummary;
use crate::run::load::table::{SAMPLES, Table};
use crate::run::load::{LoadError, LoadNews, Passage};

/// Name of the capture.
pub(super) const CAPTURE: &str = "capture.pcapng";
const PLAN: &str = "plan.json";
const EVENTS: &str = "events.jsonl";
const SUMMARY: &str = "summary.json";
const HISTOGRAMS: &str = "hist";

/// The directory, which is this run's alone.
pub(super) struct Folder(PathBuf);

/// The file of what happened.
pub(super) struct Events {
    path: PathBuf,
    file: File,
}

impl Folder {
    pub(super) fn create(path: &Path, plan: &LoadPlan) -> Result<Self, LoadError> {
        let folder = Self(path.to_owned());
        let plan_file = path.join(PLAN);
        fs::create_dir_all(path.join(HISTOGRAMS)).map_err(failed(path))?;
        if plan_file.exists() {
            return Err(LoadError::Taken(path.to_owned()));
        }
        measure::write_whole(&plan_file, plan_json(plan).as_bytes()).map_err(|error| LoadError::Write {
            path: plan_file.clone(),
            source: io::Error::other(error.to_string()),
        })?;
        Ok(folder)
    }

    pub(super) fn events(&self) -> Result<Events, LoadError> {
        let path = self.0.join(EVENTS);
        let file = File::create(&path).map_err(failed(&path))?;
        Ok(Events { path, file })
    }

    pub(super) fn table(&self, names: Vec<String>, per_second: u32) -> Result<Table, LoadError> {
        let path = self.0.join(SAMPLES);
        Table::create(Some(&path), names, per_second).map_err(failed(&path))
    }

    /// A capture with taps for the sender and both receivers.
    pub(super) fn capture(&self, plan: &LoadPlan) -> Result<(Option<Capture>, Vec<Tap>), LoadError> {
        let path = self.0.join(CAPTURE);
        let file = File::create(&path).map_err(failed(&path))?;
        let names = match plan.generation {
            Generation::Five => ["N3", "N6"],
            Generation::Four => ["S1-U", "SGi"],
        };
        let application = concat!("narrows ", env!("CARGO_PKG_VERSION"));
        let (capture, taps) =
            Capture::start(file, application, &names, 3, &Options::default()).map_err(failed(&path))?;
        Ok((Some(capture), taps))
    }

    /// Writes what is known at the end.
    pub(super) fn finish(
        &self,
        passage: &Passage,
        summary: &LoadSummary,
        population: &Population,
    ) -> Result<(), LoadError> {
        let mut histograms = vec![("lateness".to_owned(), passage.sent.lateness.clone())];
        for (number, group) in population.groups().iter().enumerate() {
            for direction in DIRECTIONS {
                let name = format!("latency {direction:?} {}", group.name).to_lowercase();
                histograms.push((name, passage.heard[index(direction)].latencies[number].clone()));
            }
        }
        let path = self.0.join(HISTOGRAMS).join("load.hlog");
        let log = measure::histogram_log(&histograms).map_err(failed(&path))?;
        fs::write(&path, log).map_err(failed(&path))?;
        let path = self.0.join(SUMMARY);
        let text = serde_json::to_string_pretty(summary).unwrap_or_default();
        fs::write(&path, text + "\n").map_err(failed(&path))
    }
}

impl Events {
    /// Writes what happened. A full disk shows when the results are written.
    pub(super) fn take(&mut self, news: &LoadNews<'_>) {
        if let Some(line) = news.json() {
            let _ = writeln!(self.file, "{line}");
        }
    }

    pub(super) fn finish(mut self, summary: &LoadSummary) -> Result<(), LoadError> {
        writeln!(self.file, "{}", summary_json(summary)).map_err(failed(&self.path))
    }
}

impl LoadNews<'_> {
    /// As a line of `events.jsonl` and of `--json`.
    #[must_use]
    pub fn json(&self) -> Option<serde_json::Value> {
        Some(match self {
            Self::Note(what) => json!({"event": "note", "what": what}),
            Self::Sessions(account) => json!({"event": "sessions", "sessions": account}),
            Self::Live { elapsed, total } => json!({
                "event": "live", "elapsed_s": elapsed.as_secs_f64(),
                "sent_packets": total.out.map(|volume| volume.packets),
                "received_packets": total.back.map(|volume| volume.packets),
            }),
            Self::Trial(trial) => json!({"event": "trial", "trial": trial}),
        })
    }
}

/// The summary as the last line of `events.jsonl` and of `--json`.
fn summary_json(summary: &LoadSummary) -> serde_json::Value {
    json!({"event": "load", "summary": summary})
}

impl LoadSummary {
    /// As a line of `--json`.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        summary_json(self)
    }
}

fn plan_json(plan: &LoadPlan) -> String {
    let groups = plan.population.groups().iter().map(|group| {
        json!({
            "name": group.name, "ues": group.ues.to_string(), "pdns": group.pdns.to_string(),
            "sessions": group.sessions(), "start_teid": group.start_teid, "flows": group.flows,
        })
    });
    let plan = json!({
        "schema": measure::SCHEMA,
        "kind": "load",
        "version": env!("CARGO_PKG_VERSION"),
        "name": plan.name,
        "seed": plan.seed,
        "duration_s": plan.duration.as_secs_f64(),
        "samples_per_second": plan.samples_per_second,
        "generation": if plan.generation == Generation::Five { "5g" } else { "4g" },
        "upf": if plan.upf == Upf::Own { "own" } else { "other" },
        "groups": groups.collect::<Vec<_>>(),
        "source": plan.source,
    });
    serde_json::to_string_pretty(&plan).unwrap_or_default()
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> LoadError + '_ {
    move |source| LoadError::Write { path: path.to_owned(), source }
}
