//! Reading scenario files: from text to a checked plan.
//!
//! A file becomes a tree that keeps every value's place (`yaml`). `sweep`, `quick` and `--set` are
//! assignments to that tree (`assign`, `sweep`); each cell is then decoded from a tree of its own
//! (`decode` and its parts), against one table of keys (`keys`), and what is wrong is told with its
//! place (`problem`).

mod adapter;
mod assign;
mod decode;
mod embedded;
mod fields;
mod file;
mod flows;
mod keys;
mod line;
mod load;
mod path;
mod pipe;
mod problem;
mod queues;
mod single;
mod study;
mod sweep;
mod traces;
mod typed;
mod voice;
mod yaml;

pub use adapter::{adapter_config, parse_adapter_config};
pub(crate) use embedded::samples_per_second;
pub use file::{FileError, Options, ReadFile, load, parse};
pub use keys::{load_reference, reference};
pub use load::{load_file, parse_load};
pub(crate) use pipe::mean_delay;
pub use problem::ScenarioError;
pub use single::{LinkChange, link, link_changes};
