//! Recordings, statistics and verdicts: what a run leaves behind, and what may be said of it.

#![forbid(unsafe_code)]

mod adapter;
pub mod analysis;
mod error;
pub mod event;
pub mod format;
mod histlog;
mod metric;
mod observation;
mod outline;
mod record;
mod recorder;
mod recording;
pub mod statistics;
mod study;
pub mod summary;
mod table;

pub use adapter::AdapterRecord;
pub use analysis::{Analysis, Verdict};
pub use error::RecordError;
pub use event::Event;
pub use histlog::encode as histogram_log;
pub use metric::{Metric, Unit};
pub use observation::{Observation, Snapshot, delay_histogram};
pub use outline::{Difference, Outline, OutlineCell, OutlineFlow, SCHEMA, plan_differences};
pub use record::{
    CallsRecord, CaptureRecord, CellRecord, Discarded, FlowRecord, Health, Interval, LATENESS, LoadRecord, Name,
    PacketCounts, PacketPoint, PairsRecord, PipeRecord, Quantiles, SERIES_LIMIT, VoiceRecord,
};
pub use recorder::{Recorder, write_whole};
pub use recording::Recording;
pub use study::{Axis, Clock, Curve, Expectation, Figure, Finding, Panel, Relation, Rule, Scalar, Selection, Study};
