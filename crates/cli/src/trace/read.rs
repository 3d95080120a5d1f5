//! Captures as the options of `narrows trace` want them.

#![expect(clippy::print_stderr, reason = "the command line speaks here")]

use std::path::Path;

use scenario::capture::{Capture, CaptureError, CaptureOptions};
use traffic::replay::{AddressRule, AddressTable, ReplayError};

use crate::args::Selection;
use crate::exit;

/// Why a capture could not be dealt with, and the exit status that goes with it.
pub(super) struct Failure {
    pub(super) status: u8,
    pub(super) what: String,
}

impl Failure {
    pub(super) fn input(what: impl Into<String>) -> Self {
        Self { status: exit::BAD_INPUT, what: what.into() }
    }

    /// Says it, and gives the exit status.
    pub(super) fn told(self) -> u8 {
        eprintln!("narrows: {}", self.what);
        self.status
    }
}

impl From<ReplayError> for Failure {
    fn from(error: ReplayError) -> Self {
        Self::input(error.to_string())
    }
}

impl From<CaptureError> for Failure {
    fn from(error: CaptureError) -> Self {
        let status = if matches!(error, CaptureError::Io { .. }) { exit::FAILED } else { exit::BAD_INPUT };
        Self { status, what: error.to_string() }
    }
}

/// Reads a capture and its address table. What is strange about it is said.
pub(super) fn read(path: &Path, selection: &Selection) -> Result<(Capture, AddressTable), Failure> {
    let options = CaptureOptions {
        filter: selection.filter.clone(),
        max_gap: selection.max_gap,
        longest: selection.longest,
        memory: usize::try_from(selection.memory.bytes()).unwrap_or(usize::MAX),
    };
    let capture = Capture::read(path, &options)?;
    let rule = match selection.ue.as_slice() {
        [] => AddressRule::FirstSight,
        networks => AddressRule::UeIn(networks.to_vec()),
    };
    let table = AddressTable::new(&capture.trace, &rule);
    for note in capture.notes() {
        eprintln!("narrows: {}: {note}", path.display());
    }
    Ok((capture, table))
}
