//! The lines of `events.jsonl`, which are also what `--json` prints.

use serde::{Deserialize, Serialize};

/// One line: a JSON object whose `event` names its kind. Readers pass over kinds they do not know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// The run began, or went on after a stop.
    Session(Session),
    /// A cell ended and all its rows are written. Rows without such a line do not count.
    Finished(Finished),
    /// Something worth knowing.
    Note(Note),
    /// The run came to its end, or was told to stop.
    Ended(Ended),
    /// A kind that this version does not know.
    #[serde(other)]
    Unknown,
}

/// How and where a run was made. In virtual time neither date nor machine is given, so that the
/// same seed gives the same bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// Version of Narrows.
    pub version: String,
    /// `real` or `virtual`.
    pub executor: String,
    /// When it began, RFC 3339 in UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<String>,
    /// What carried the packets, such as `tap` or `veth`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wire: Option<String>,
    /// `--jobs` as given, such as `auto` or `8`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs: Option<String>,
    /// The machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<Machine>,
    /// What the reader of the figures must know of how they were made, such as how TCP in virtual
    /// time differs from Linux.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

/// A machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Kernel name and release, such as `Linux 6.18.5`.
    pub kernel: String,
    /// Model of the processor.
    pub cpu: String,
    /// Processors that were usable.
    pub cpus: u32,
    /// Memory in bytes.
    pub memory_bytes: u64,
}

/// A cell that ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Finished {
    /// Number of the cell in the plan.
    pub cell: u32,
    /// Which repeat, from 0.
    pub repeat: u32,
    /// How often it had been run before.
    pub attempt: u32,
    /// Why its figures cannot be trusted, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spoiled: Option<String>,
    /// Rows that belong to it, by file.
    pub rows: Rows,
}

/// How many rows of each table belong to a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rows {
    /// In `cells.csv`.
    pub cells: usize,
    /// In `samples.csv`.
    pub samples: usize,
    /// In `links.csv`.
    pub links: usize,
    /// In `drops.csv`.
    pub drops: usize,
    /// In `cpu.csv`.
    pub cpu: usize,
    /// In `adapters.csv`.
    #[serde(default)]
    pub adapters: usize,
    /// In `packets.csv`.
    #[serde(default)]
    pub packets: usize,
}

/// Something worth knowing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Note {
    /// When, in seconds from the start of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_s: Option<f64>,
    /// In which cell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cell: Option<u32>,
    /// What happened, in words.
    pub what: String,
    /// A number that goes with it; its unit is part of `what`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<u64>,
}

/// The end of a session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    /// Length of the session in seconds; absent in virtual time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elapsed_s: Option<f64>,
    /// Whether it was told to stop before the last cell.
    pub interrupted: bool,
}
