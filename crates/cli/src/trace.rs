//! `narrows trace`: what is made of traces, and found out about them.

mod lrd;
mod make;

use crate::args::{Trace, TraceAction};

/// `narrows trace`
pub(crate) fn trace(options: &Trace) -> u8 {
    match &options.action {
        TraceAction::Lrd(options) => lrd::lrd(options),
        TraceAction::Make(options) => make::make(options),
    }
}
