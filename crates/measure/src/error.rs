//! What can go wrong with a results directory.

use std::io;
use std::path::{Path, PathBuf};

/// Why a results directory could not be written or read: what, where, what to do.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The operating system refused.
    #[error("cannot {action} {}: {source}{}", path.display(), remedy(source))]
    Io {
        /// What was tried, as a verb.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A new run would overwrite another one.
    #[error("{} already holds a run; go on with it by --resume, or choose another directory by --out", path.display())]
    Taken {
        /// The directory.
        path: PathBuf,
    },
    /// Another process records there.
    #[error("another run is writing to {}; wait for it, or choose another directory by --out", path.display())]
    Busy {
        /// The directory.
        path: PathBuf,
    },
    /// The directory does not hold what a run leaves behind.
    #[error("{} is not a results directory: it has no plan.json; give the directory that `narrows run` printed", path.display())]
    NotResults {
        /// The directory.
        path: PathBuf,
    },
    /// It was written by a Narrows that this one is too old for, or too new.
    #[error("{} has results of schema {found}, and this narrows reads schema {expected}; use the narrows that wrote them (plan.json names its version)", path.display())]
    Schema {
        /// The directory.
        path: PathBuf,
        /// Its schema.
        found: u32,
        /// The one that is understood.
        expected: u32,
    },
    /// A run cannot go on with another plan.
    #[error(
        "{} was made from another plan ({} differs); resume with the same scenario and options, or choose another directory by --out",
        path.display(), differs
    )]
    OtherPlan {
        /// The directory.
        path: PathBuf,
        /// The first place that differs.
        differs: String,
    },
    /// A run cannot go on in the other kind of time.
    #[error(
        "{} was begun in {found} time, and cannot go on in {wanted} time; resume it {}, or choose another directory by --out",
        path.display(), if found == "virtual" { "with --virtual" } else { "without --virtual" }
    )]
    OtherExecutor {
        /// The directory.
        path: PathBuf,
        /// What it was begun with: `real` or `virtual`.
        found: String,
        /// What was to go on.
        wanted: String,
    },
    /// A file does not say what it should.
    #[error("{}:{line}: {what}; restore the file, or remove the directory and run again", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: u64,
        /// What is wrong with it.
        what: String,
    },
}

impl RecordError {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io { action, path, source }
    }
}

fn remedy(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            "; finished cells are kept: make room, then go on with --resume"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "; choose a directory you may write to by --out"
        }
        io::ErrorKind::NotFound => "; check that the directory is the one `narrows run` printed",
        _ => "",
    }
}
