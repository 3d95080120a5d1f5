//! What a line counts.

use engine::{DropReason, Span};

/// No room in the line's buffer for a run.
pub const FULL: DropReason = DropReason("line buffer full");
/// All characters of a run were sent while the line was cut.
pub const CUT: DropReason = DropReason("line cut");
/// The last lost character of a run, of which none arrived, was lost in a fade.
pub const FADED: DropReason = DropReason("faded");
/// The last lost character of a run, of which none arrived, was lost by a bit that was hit.
pub const FRAMING: DropReason = DropReason("framing or parity error");
/// What waited was recalled.
pub const FLUSHED: DropReason = DropReason("flushed");

/// What happened on a line since it was made. All but those called runs are characters.
///
/// At any time `offered = sent + full + flushed + waiting`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineCounters {
    /// Runs handed in.
    pub offered_runs: u64,
    /// Handed in.
    pub offered: u64,
    /// Put on the line.
    pub sent: u64,
    /// Handed on.
    pub delivered: u64,
    /// Runs handed on: the pieces of those that came in.
    pub delivered_runs: u64,
    /// Not sent yet.
    pub waiting: u64,
    /// Most that were not sent yet at once.
    pub waiting_most: u64,
    /// Sent with at least one wrong bit, cuts and silent fades not counted.
    pub errored: u64,
    /// Wrong bits in these.
    pub bits_hit: u64,
    /// Lost by their parity bit.
    pub parity: u64,
    /// Lost by a stop bit that was not there.
    pub framing: u64,
    /// Sent in a fade.
    pub faded: u64,
    /// Of these, not received at all.
    pub lost_in_fades: u64,
    /// Sent while the line was cut.
    pub cut: u64,
    /// Dropped for want of room in the buffer.
    pub full: u64,
    /// Runs dropped for that.
    pub full_runs: u64,
    /// Recalled before they were sent.
    pub flushed: u64,
    /// Dropped on their way, as more were in flight than there may be.
    pub flight_full: u64,
    /// How long characters were being sent.
    pub busy: Span,
}

impl LineCounters {
    /// Characters that ended for a reason of the line's, by reason: always in the same order, zeros
    /// too.
    pub fn dropped(&self) -> impl Iterator<Item = (DropReason, u64)> + use<> {
        [
            (FULL, self.full),
            (CUT, self.cut),
            (FADED, self.lost_in_fades),
            (FRAMING, self.framing + self.parity),
            (FLUSHED, self.flushed),
            (crate::DELAY_LINE_FULL, self.flight_full),
        ]
        .into_iter()
    }
}
