//! `narrows trace`: what is made of traces, and found out about them.

mod info;
mod lrd;
mod make;
mod read;
mod scale;
mod verify;

use crate::args::{Trace, TraceAction};

/// `narrows trace`
pub(crate) fn trace(options: &Trace) -> u8 {
    match &options.action {
        TraceAction::Lrd(options) => lrd::lrd(options),
        TraceAction::Info(options) => info::info(options),
        TraceAction::Make(options) => make::make(options),
        TraceAction::Scale(options) => scale::scale(options),
        TraceAction::Verify(options) => verify::verify(options),
    }
}
