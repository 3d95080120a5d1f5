//! Recordings, histograms, statistics and verdicts.

#![forbid(unsafe_code)]

mod metric;
mod record;
mod study;

pub use metric::{Metric, Unit};
pub use record::{CellRecord, FlowRecord, Health, Interval, PacketCounts, PipeRecord, Quantiles};
pub use study::{Axis, Expectation, Figure, Finding, Panel, Relation, Rule, Scalar, Selection, Study};
