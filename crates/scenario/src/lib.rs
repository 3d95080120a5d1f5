//! From a scenario file to a plan, from the plan to a run, from the run to a recording.

#![forbid(unsafe_code)]

pub mod capture;
pub mod load;
pub mod plan;
mod profiles;
mod read;
mod run;
mod theory;
mod topology;

pub use profiles::{DefaultQueue, PROFILES, Profile, ProfileDirection, profile};
pub use read::{
    FileError, LinkChange, Options, ReadFile, ScenarioError, adapter_config, link, link_changes, load, load_file,
    parse, parse_adapter_config, parse_load, reference,
};
pub use run::{
    Account, AdapterAccount, AdapterError, AdapterEvent, AdapterNews, CellError, Difference, Executor, Governor, Jobs,
    LineChangeError, LinkError, Live, LiveAdapter, LiveError, LiveUpf, Options as RunOptions, Outcome, PacedLine,
    PacedLineAccount, PacedLineError, Progress, RETRIES, ReplayError, Replayed, RunError, SimulationError, UpfAccount,
    UpfError, UpfNews, UpfPort, UpfSettings, UpfSide, check_line_change, replay, replay_recording, run,
};
pub use traffic::{SERVICES, Service, VOCODERS, Vocoder};
