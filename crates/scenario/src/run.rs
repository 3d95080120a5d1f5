//! From a plan to a recording: the whole path of a run.

pub(crate) mod adapter;
mod capture;
mod carrier;
mod cell;
mod links;
pub(crate) mod load;
mod paced;
mod real;
mod schedule;
mod simulate;
mod talk;
mod upf;

use std::path::{Path, PathBuf};
use std::time::Instant;

use measure::event::{Ended, Finished, Note, Session};
use measure::{CellRecord, Event, RecordError, Recorder};

use crate::plan::Plan;
use schedule::{Queue, Waiting};

pub use adapter::{
    AdapterAccount, AdapterError, AdapterEvent, AdapterNews, Difference, LiveAdapter, ReplayError, Replayed, replay,
    replay_recording,
};
pub use links::LinkError;
pub use load::{
    Best, LOAD_SAMPLES, LoadError, LoadNews, LoadOptions, LoadOutcome, LoadSummary, Machine, Sample, Search,
    SearchTrial, SessionAccount, Way, find_max, run_load,
};
pub use paced::{LineChangeError, PacedLine, PacedLineAccount, PacedLineError, check_line_change};
pub use real::CellError;
pub use real::live::{Account, Live, LiveError};
pub use schedule::{Governor, Jobs, RETRIES};
pub use simulate::SimulationError;
pub use upf::{LiveUpf, UpfAccount, UpfError, UpfNews, UpfPort, UpfSettings, UpfSide};

/// How a plan is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the results go.
    pub out: PathBuf,
    /// Go on with the run that is there.
    pub resume: bool,
    /// What drives the elements.
    pub executor: Executor,
    /// How many cells run side by side in a real run.
    pub jobs: Jobs,
}

/// What drives the elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Executor {
    /// Kernel stacks and clocks.
    Real,
    /// Modelled hosts; nobody waits.
    Virtual,
}

impl Executor {
    /// What sessions call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Real => "real",
            Self::Virtual => "virtual",
        }
    }
}

/// What happens during a run, for whoever watches.
#[derive(Debug)]
pub enum Progress<'a> {
    /// The run begins: how many cells it has, how many of them an earlier session finished, and
    /// how many seconds a cell takes at least.
    Begun {
        /// All cells.
        cells: usize,
        /// Finished before.
        finished: usize,
        /// Length of a cell in seconds; 0 in virtual time.
        cell_s: f64,
        /// How it is made.
        session: &'a Session,
    },
    /// How many cells run side by side now.
    Running(usize),
    /// A cell ended and is recorded.
    Cell {
        /// What is written of it.
        finished: &'a Finished,
        /// Whether it is spoiled and will be run again.
        again: bool,
    },
    /// Something worth knowing.
    Note(&'a Note),
    /// The run is over, by itself or because it was told to stop.
    Ended(&'a Ended),
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every cell was run.
    Complete,
    /// It was told to stop; finished cells are kept.
    Interrupted,
}

/// Why a run could not go on. Finished cells are kept.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The results could not be written.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The plan cannot be run in virtual time.
    #[error(transparent)]
    Simulation(#[from] SimulationError),
    /// Namespaces, devices or sockets could not be made.
    #[error(transparent)]
    Cell(#[from] CellError),
    /// Not enough room for the results.
    #[error("the results need about {needed_mb} MB, but {} has {free_mb} MB free; make room, or choose another directory by --out", path.display())]
    NoRoom {
        /// Where they were to go.
        path: PathBuf,
        /// About how much they need.
        needed_mb: u64,
        /// How much there is.
        free_mb: u64,
    },
}

/// Runs every cell of a plan that `options.out` does not hold yet, and keeps what they give.
///
/// A real run must be called inside [`netio::sandbox::run`].
///
/// # Errors
///
/// See [`RunError`]. What was finished before is kept, and a run with `resume` goes on from there.
pub fn run(plan: &Plan, options: &Options, progress: &mut dyn FnMut(Progress<'_>)) -> Result<Outcome, RunError> {
    match options.executor {
        Executor::Virtual => simulate::check(&plan.cells)?,
        Executor::Real => real::check(&plan.cells)?,
    }
    let mut results = Results::open(plan, options, progress)?;
    let todo = Queue::new(results.todo(plan), plan.seed);
    let outcome = match options.executor {
        Executor::Virtual => {
            let mut todo = todo;
            results.begin(simulate::session(), 0.0)?;
            while let Some(next) = todo.take(|_| true) {
                if netio::sandbox::interrupted() {
                    break;
                }
                results.keep(&simulate::run(&plan.cells[next.cell])?, false)?;
            }
            if todo.is_empty() { Outcome::Complete } else { Outcome::Interrupted }
        }
        Executor::Real => real::run(plan, todo, options.jobs, &mut results)?,
    };
    results.end(options.executor, outcome)?;
    Ok(outcome)
}

/// The results directory of a run under way, and whoever watches.
pub(crate) struct Results<'a> {
    recorder: Recorder,
    /// Cells that are finished for good, by position.
    finished: Vec<bool>,
    /// How often the others were run already.
    attempts: Vec<u32>,
    progress: &'a mut dyn FnMut(Progress<'_>),
    started: Instant,
}

impl From<netio::SetupError> for RunError {
    fn from(error: netio::SetupError) -> Self {
        Self::Cell(error.into())
    }
}

impl RunError {
    /// Whether the input is to blame, so that nothing was built.
    #[must_use]
    pub fn is_bad_input(&self) -> bool {
        match self {
            Self::Record(error) => !matches!(error, RecordError::Io { .. }),
            Self::Simulation(_) => true,
            Self::Cell(
                CellError::Iperf3(real::Iperf3Error::Missing)
                | CellError::NoCapture { .. }
                | CellError::Embedded { .. }
                | CellError::LinkedElsewhere,
            ) => true,
            Self::Cell(CellError::Load(error)) => error.is_bad_input(),
            Self::Cell(_) | Self::NoRoom { .. } => false,
        }
    }
}

impl<'a> Results<'a> {
    fn open(plan: &Plan, options: &Options, progress: &'a mut dyn FnMut(Progress<'_>)) -> Result<Self, RunError> {
        require_room(plan, &options.out)?;
        let json = plan.to_json();
        let mut finished = vec![false; plan.cells.len()];
        let mut attempts = vec![0; plan.cells.len()];
        let recorder = if options.resume {
            let (recorder, cells) = Recorder::resume(&options.out, &json, options.executor.name())?;
            for cell in cells {
                let Some(done) = finished.get_mut(cell.cell as usize) else { continue };
                let attempt = cell.attempt + 1;
                *done |= cell.spoiled.is_none() || attempt > crate::run::schedule::RETRIES;
                attempts[cell.cell as usize] = attempts[cell.cell as usize].max(attempt);
            }
            recorder
        } else {
            Recorder::create(&options.out, &json)?
        };
        Ok(Self { recorder, finished, attempts, progress, started: Instant::now() })
    }

    fn todo(&self, plan: &Plan) -> Vec<Waiting> {
        (0..plan.cells.len())
            .filter(|&cell| !self.finished[cell])
            .map(|cell| Waiting { cell, attempt: self.attempts[cell] })
            .collect()
    }

    /// Writes down how this session is made.
    pub(crate) fn begin(&mut self, session: Session, cell_s: f64) -> Result<(), RecordError> {
        let finished = self.finished.iter().filter(|done| **done).count();
        (self.progress)(Progress::Begun { cells: self.finished.len(), finished, cell_s, session: &session });
        self.recorder.event(&Event::Session(session))
    }

    /// Keeps a cell that ended.
    pub(crate) fn keep(&mut self, record: &CellRecord, again: bool) -> Result<(), RecordError> {
        let finished = self.recorder.cell(record)?;
        (self.progress)(Progress::Cell { finished: &finished, again });
        Ok(())
    }

    /// Tells whoever watches.
    pub(crate) fn running(&mut self, cells: usize) {
        (self.progress)(Progress::Running(cells));
    }

    /// Writes down something worth knowing.
    pub(crate) fn note(&mut self, what: String) -> Result<(), RecordError> {
        let at_s = Some(self.started.elapsed().as_secs_f64());
        let note = Note { at_s, what, ..Note::default() };
        (self.progress)(Progress::Note(&note));
        self.recorder.event(&Event::Note(note))
    }

    fn end(&mut self, executor: Executor, outcome: Outcome) -> Result<(), RecordError> {
        let elapsed_s = (executor == Executor::Real).then(|| self.started.elapsed().as_secs_f64());
        let ended = Ended { elapsed_s, interrupted: outcome == Outcome::Interrupted };
        (self.progress)(Progress::Ended(&ended));
        self.recorder.event(&Event::Ended(ended))
    }
}

/// Bytes of rows and histograms that a cell with one flow leaves behind, at most; further flows and
/// intervals add to it.
const CELL_BYTES: u64 = 16 << 10;
const ROW_BYTES: u64 = 512;

fn require_room(plan: &Plan, out: &Path) -> Result<(), RunError> {
    let needed: u64 = plan
        .cells
        .iter()
        .map(|cell| {
            let intervals = cell.duration.as_nanos() / cell.interval.as_nanos().max(1) + 1;
            let rows = cell.flows.len() as u64 * (CELL_BYTES + intervals * ROW_BYTES);
            let captures = cell.links.iter().filter(|link| link.capture).count() as u64;
            let seconds = (cell.warmup + cell.duration).as_nanos().div_ceil(1_000_000_000);
            let crossing = (schedule::rate(cell) / 8).saturating_mul(seconds).min(capture::LIMIT);
            CELL_BYTES + rows + captures * crossing
        })
        .sum();
    match netio::machine::free_bytes(out) {
        Some(free) if free < needed => {
            let mb = |bytes: u64| bytes.div_ceil(1_000_000);
            Err(RunError::NoRoom { path: out.into(), needed_mb: mb(needed), free_mb: mb(free) })
        }
        _ => Ok(()),
    }
}
