//! From a scenario file to a plan, from the plan to a run, from the run to a recording.

#![forbid(unsafe_code)]

mod assign;
mod cell;
mod decode;
mod fields;
mod file;
mod flows;
mod keys;
mod pipe;
pub mod plan;
mod problem;
mod profiles;
mod queues;
mod real;
mod run;
mod schedule;
mod simulate;
mod single;
mod study;
mod sweep;
mod topology;
mod traces;
mod yaml;

pub use file::{FileError, Options, ReadFile, load, parse};
pub use keys::reference;
pub use problem::ScenarioError;
pub use profiles::{DefaultQueue, PROFILES, Profile, ProfileDirection, profile};
pub use real::CellError;
pub use real::live::{Account, Live, LiveError};
pub use run::{Executor, Options as RunOptions, Outcome, Progress, RunError, run};
pub use schedule::{Governor, Jobs, RETRIES};
pub use simulate::SimulationError;
pub use single::{LinkChange, link, link_changes};
pub use traffic::{SERVICES, Service};
