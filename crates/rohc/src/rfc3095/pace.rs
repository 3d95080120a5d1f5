//! How far apart the packets of a flow come, and so how many sequence numbers a silence may stand for (RFC 3095
//! 5.3.2.2.4). Both ends keep it, so that the compressor knows after which silence the decompressor will be in doubt.

use core::time::Duration;

/// How much of the estimate a new sample makes, as a shift.
const SMOOTHING: u32 = 3;

/// The pace of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    /// When the last packet came.
    at: Duration,
    /// The time from one sequence number to the next, in nanoseconds; 0 while unknown.
    spacing: u64,
}

impl Pace {
    /// A packet at `now` begins the context anew.
    pub(super) fn restart(&mut self, now: Duration) {
        *self = Self { at: now, spacing: 0 };
    }

    /// A packet came at `now` whose sequence number is `steps` ahead of the last one; 0 for one that is not ahead.
    pub(super) fn note(&mut self, now: Duration, steps: u32) {
        let interval = self.since(now);
        self.at = now;
        let sample = match steps {
            0 => return,
            1 => interval,
            steps => interval / u64::from(steps),
        };
        // A pause of the source says little about the spacing of what comes after it.
        self.spacing = match self.spacing {
            0 => sample,
            spacing => spacing - (spacing >> SMOOTHING) + (sample.min(spacing.saturating_mul(4)) >> SMOOTHING),
        };
    }

    /// Is `now` more than `steps` packets (and a half) behind the last one?
    pub(super) fn is_silent_for(&self, steps: u64, now: Duration) -> bool {
        self.spacing > 0 && self.since(now).saturating_add(self.spacing / 2) / (steps + 1) >= self.spacing
    }

    /// Sequence numbers that have gone by since the last packet; none while the spacing is unknown.
    pub(super) fn passed(&self, now: Duration) -> Option<u64> {
        self.since(now).saturating_add(self.spacing / 2).checked_div(self.spacing)
    }

    fn since(&self, now: Duration) -> u64 {
        u64::try_from(now.saturating_sub(self.at).as_nanos()).unwrap_or(u64::MAX)
    }
}
