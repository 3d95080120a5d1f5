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
    load_reference, parse, parse_adapter_config, parse_load, reference,
};
pub use run::{
    Account, AdapterAccount, AdapterError, AdapterEvent, AdapterNews, Best, CellError, Difference, Executor, Governor,
    Jobs, LOAD_SAMPLES, LineChangeError, LinkError, Live, LiveAdapter, LiveError, LiveUpf, LoadError, LoadNews,
    LoadOptions, LoadOutcome, LoadSummary, Machine, Options as RunOptions, Outcome, PacedLine, PacedLineAccount,
    PacedLineError, Progress, RETRIES, ReplayError, Replayed, RunError, Sample, Search, SearchTrial, SessionAccount,
    SimulationError, UpfAccount, UpfError, UpfNews, UpfPort, UpfSettings, UpfSide, Way, check_line_change, find_max,
    replay, replay_recording, run, run_load,
};
pub use traffic::{SERVICES, Service, VOCODERS, Vocoder};
pub use userplane::load::Volume;
