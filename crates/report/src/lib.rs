//! From a recording to one HTML file that works offline, and two recordings side by side.

#![forbid(unsafe_code)]

mod adapters;
mod compare;
mod cost;
mod figures;
mod html;
mod page;

pub use compare::{comparison, comparison_text};
pub use page::page;

/// The version that stands in a page's footer.
const VERSION: &str = env!("CARGO_PKG_VERSION");
