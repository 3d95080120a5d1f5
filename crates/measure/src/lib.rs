//! Recordings, statistics and verdicts: what a run leaves behind, and what may be said of it.

#![forbid(unsafe_code)]

mod metric;
mod observation;
mod record;
pub mod statistics;
mod study;

pub use metric::{Metric, Unit};
pub use observation::{Observation, Snapshot, delay_histogram};
pub use record::{CellRecord, FlowRecord, Health, Interval, Name, PacketCounts, PipeRecord, Quantiles};
pub use study::{Axis, Expectation, Figure, Finding, Panel, Relation, Rule, Scalar, Selection, Study};
