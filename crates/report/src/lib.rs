//! From a recording to one HTML file that works offline, and two recordings side by side.

#![forbid(unsafe_code)]

mod adapters;
mod compare;
mod cost;
mod figures;
mod html;
mod load;
mod page;
mod self_similarity;

pub use compare::{comparison, comparison_text};
pub use load::{LoadFigure, load_page};
pub use page::page;
pub use self_similarity::self_similarity;

/// The version that stands in a page's footer.
const VERSION: &str = env!("CARGO_PKG_VERSION");
