//! Clocks: the only place of this crate that reads them, and the mapping between them and [`Time`].

use engine::{Span, Time};

/// Nanoseconds of `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// Now.
    #[must_use]
    pub fn now() -> Self {
        Self(read(libc::CLOCK_MONOTONIC))
    }

    /// Nanoseconds since the clock's own origin.
    #[must_use]
    pub fn as_nanos(self) -> u64 {
        self.0
    }

    /// How long after `earlier` this is; zero if it is not after it.
    #[must_use]
    pub fn since(self, earlier: Self) -> Span {
        Span::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// When the kernel set a packet's time stamp (`CLOCK_REALTIME`, in nanoseconds since 1970).
    ///
    /// `None` if that cannot be: it lies ahead, or more than ten seconds back. Then somebody has set
    /// the clock since.
    pub(crate) fn of_stamp(stamp: u64) -> Option<Self> {
        Self::at_stamp(stamp, &Epoch::now())
    }

    /// The same for the stamps of many packets, with the clocks read once, before the first is looked at:
    /// stamps up to a second ahead of it are those of packets that came since. A stamp that cannot be is taken for
    /// the moment of the reading.
    pub(crate) fn stamped(stamp: u64, read: &Epoch) -> Self {
        match stamp.checked_sub(read.realtime) {
            Some(ahead @ ..1_000_000_000) => Self(read.monotonic + ahead),
            _ => Self::at_stamp(stamp, read).unwrap_or(Self(read.monotonic)),
        }
    }

    fn at_stamp(stamp: u64, now: &Epoch) -> Option<Self> {
        let age = now.realtime.checked_sub(stamp).filter(|age| *age < 10_000_000_000)?;
        Some(Self(now.monotonic.saturating_sub(age)))
    }
}

/// The moment that is [`Time::ZERO`].
///
/// Everything runs on `CLOCK_MONOTONIC`, which never jumps. `CLOCK_REALTIME` is read at the same
/// moment: kernel time stamps are in it, and somebody may set it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epoch {
    monotonic: u64,
    realtime: u64,
}

impl Epoch {
    /// An epoch that is now.
    #[must_use]
    pub fn now() -> Self {
        // The other clock is read between two readings of the first. If these lie far apart there
        // was a preemption in between, and another try may have more luck.
        const NEAR: u64 = 1_000;
        let attempt = || {
            let before = read(libc::CLOCK_MONOTONIC);
            let realtime = read(libc::CLOCK_REALTIME);
            let after = read(libc::CLOCK_MONOTONIC);
            (after - before, Self { monotonic: before + (after - before) / 2, realtime })
        };
        let mut best = attempt();
        for _ in 0..4 {
            if best.0 <= NEAR {
                break;
            }
            let next = attempt();
            if next.0 < best.0 {
                best = next;
            }
        }
        best.1
    }

    /// The epoch in nanoseconds from 1970, by `CLOCK_REALTIME` as it was then.
    #[must_use]
    pub fn unix_nanos(&self) -> u64 {
        self.realtime
    }

    /// Logical time now.
    #[must_use]
    pub fn time(&self) -> Time {
        self.time_at(Instant::now())
    }

    /// Logical time at an instant; zero before the epoch.
    #[must_use]
    pub fn time_at(&self, instant: Instant) -> Time {
        Time::from_nanos(instant.0.saturating_sub(self.monotonic))
    }

    /// The instant at which it is `time`.
    #[must_use]
    pub fn instant(&self, time: Time) -> Instant {
        Instant(self.monotonic.saturating_add(time.as_nanos()))
    }

    /// By how many nanoseconds `CLOCK_REALTIME` has moved against `CLOCK_MONOTONIC` since the
    /// epoch: small after slewing, large after somebody set the clock.
    #[must_use]
    pub fn realtime_shift(&self) -> i64 {
        self.shift_until(&Self::now())
    }

    fn shift_until(&self, later: &Self) -> i64 {
        let offset = |epoch: &Self| i128::from(epoch.realtime) - i128::from(epoch.monotonic);
        i64::try_from(offset(later) - offset(self)).unwrap_or(i64::MAX)
    }
}

/// Tells a stall (the machine was elsewhere) from ordinary lateness, and counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stalls {
    limit: Span,
    /// How many.
    pub count: u64,
    /// Their length together.
    pub total: Span,
    /// The longest.
    pub longest: Span,
}

impl Stalls {
    /// The limit that holds unless a plan says otherwise.
    pub const LIMIT: Span = Span::from_millis(5);

    /// Counts delays of more than `limit`.
    #[must_use]
    pub fn new(limit: Span) -> Self {
        Self { limit, count: 0, total: Span::ZERO, longest: Span::ZERO }
    }

    /// Notes how late a wake-up came; true if that is a stall.
    pub fn note(&mut self, late: Span) -> bool {
        if late <= self.limit {
            return false;
        }
        self.count += 1;
        self.total += late;
        self.longest = self.longest.max(late);
        true
    }
}

/// Processor time the calling thread has used.
pub(crate) fn thread_time() -> Span {
    Span::from_nanos(read(libc::CLOCK_THREAD_CPUTIME_ID))
}

fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is ours. The three clocks used here exist on every Linux, so that the call
    // cannot fail.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    // Both are never negative: these clocks start at or after 1970, boot, or the thread's start.
    (time.tv_sec as u64) * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_instants_map_to_each_other() {
        let epoch = Epoch::now();
        let time = Time::from_nanos(1_234_567_890);
        assert_eq!(epoch.time_at(epoch.instant(time)), time);
        // Before the epoch there is no time.
        assert_eq!(epoch.time_at(Instant(0)), Time::ZERO);
    }

    #[test]
    fn a_clock_that_was_set_shows() {
        let epoch = Epoch::now();
        let later = Epoch { monotonic: epoch.monotonic + 5_000, realtime: epoch.realtime + 3_000 };
        assert_eq!(epoch.shift_until(&later), -2_000);
        assert_eq!(epoch.shift_until(&epoch), 0);
    }

    #[test]
    fn a_stamp_is_put_where_it_was_set_or_nowhere() {
        let stamp = read(libc::CLOCK_REALTIME);
        let after = Instant::now();
        // However late it is asked, it was then; a microsecond or so for the reading of two clocks.
        let placed = Instant::of_stamp(stamp - 1_000_000_000).unwrap();
        assert!(placed < after && after.since(placed) > Span::from_millis(900));
        assert_eq!(Instant::of_stamp(stamp + 3_600_000_000_000), None);
        assert_eq!(Instant::of_stamp(0), None);
    }

    #[test]
    fn stalls_are_what_is_over_the_limit() {
        let mut stalls = Stalls::new(Span::from_millis(5));
        let notes = [4_000, 5_000, 5_001, 52_000].map(|micros| stalls.note(Span::from_micros(micros)));
        assert_eq!(notes, [false, false, true, true]);
        assert_eq!((stalls.count, stalls.total, stalls.longest), (2, Span::from_micros(57_001), Span::from_millis(52)));
    }
}
