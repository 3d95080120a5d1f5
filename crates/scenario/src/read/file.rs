//! From a scenario file to a checked plan.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::plan::Plan;
use crate::read::decode;
use crate::read::problem::{Notes, Problem, ScenarioError};

/// What the command line says beside the file.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Apply the file's `quick` block.
    pub quick: bool,
    /// Further changes as `key=value`, in order; they go before those of `quick`.
    pub set: Vec<String>,
    /// Seed of the run if neither the file nor `set` gives one.
    pub seed: u64,
    /// Where captures are looked for that a scenario's loads name: they are read when the run begins.
    pub folder: PathBuf,
}

/// Reads the files a scenario names (traces, tables, timelines), by the name it gives them.
pub type ReadFile<'a> = &'a dyn Fn(&str) -> Result<String, FileError>;

/// Why a file could not be read.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The system says so.
    #[error("{0}")]
    Read(#[from] io::Error),
    /// It is longer than is sensible; the limit in bytes.
    #[error("it is longer than {} MiB", .0 >> 20)]
    TooLong(u64),
    /// It is not UTF-8.
    #[error("it is not a text file (UTF-8)")]
    NotText,
}

/// Longest scenario file in bytes.
pub(crate) const LONGEST_SCENARIO: u64 = 1 << 20;
/// Longest trace or table in bytes.
const LONGEST_TRACE: u64 = 16 << 20;

/// Reads a scenario file and checks all of it: every cell, and what `--quick` would run, is decoded
/// before anything is built. Files it names are looked for beside it.
///
/// # Errors
///
/// Everything that is wrong, each with its place and what to do.
pub fn load(path: &Path, options: &Options) -> Result<Plan, ScenarioError> {
    let shown = path.display().to_string();
    let text = read_text(path, LONGEST_SCENARIO).map_err(|error| {
        let remedy = match &error {
            FileError::Read(_) => "give the path of a scenario file",
            FileError::TooLong(_) | FileError::NotText => "a scenario is a short YAML text: is this the right file?",
        };
        let notes = Notes::default();
        notes.note(Problem::new(None, format!("cannot read `{shown}`: {error}")).remedy(remedy));
        notes.into_error()
    })?;
    let beside = path.parent().unwrap_or(Path::new(""));
    let options = Options { folder: beside.to_owned(), ..options.clone() };
    parse(&shown, &text, &|name| read_beside(beside, name), &options)
}

/// As [`load`], of a text that is already read; `name` stands for it in messages.
///
/// # Errors
///
/// As [`load`].
pub fn parse(name: &str, text: &str, read: ReadFile<'_>, options: &Options) -> Result<Plan, ScenarioError> {
    let notes = Notes::default();
    let source = notes.source(name, text);
    match decode::plan(&notes, source, text, read, options) {
        Ok(plan) if notes.is_empty() => Ok(plan),
        _ => Err(notes.into_error()),
    }
}

/// Reads a file that is named by what lies in `folder`.
pub(crate) fn read_beside(folder: &Path, name: &str) -> Result<String, FileError> {
    read_text(&folder.join(name), LONGEST_TRACE)
}

pub(crate) fn read_text(path: &Path, longest: u64) -> Result<String, FileError> {
    let mut bytes = Vec::new();
    File::open(path)?.take(longest + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > longest {
        return Err(FileError::TooLong(longest));
    }
    String::from_utf8(bytes).map_err(|_| FileError::NotText)
}
