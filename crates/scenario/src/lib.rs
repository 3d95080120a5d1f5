//! From a scenario file to a plan, from the plan to a run, from the run to a recording.

#![forbid(unsafe_code)]

pub mod plan;
