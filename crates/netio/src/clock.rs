//! Clocks: the only place that reads them, and the mapping between them and [`Time`].

use std::time::Duration;

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

    /// `span` later.
    #[must_use]
    pub fn plus(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.as_nanos()))
    }
}

/// The moment that is [`Time::ZERO`], on all of the kernel's clocks.
///
/// Everything runs on `CLOCK_MONOTONIC`, which never jumps. The other two are read at the same
/// moment, so that kernel time stamps (`CLOCK_REALTIME`) and transmit times (`CLOCK_TAI`) can be
/// put on the same axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epoch {
    monotonic: u64,
    realtime: u64,
    tai: u64,
}

impl Epoch {
    /// An epoch that is now.
    #[must_use]
    pub fn now() -> Self {
        // The other clocks are read between two readings of the first; of several tries the one
        // with the shortest distance counts. A preemption in between spoils one try, not all.
        let attempt = || {
            let before = read(libc::CLOCK_MONOTONIC);
            let realtime = read(libc::CLOCK_REALTIME);
            let tai = read(libc::CLOCK_TAI);
            let after = read(libc::CLOCK_MONOTONIC);
            (after - before, Self { monotonic: before + (after - before) / 2, realtime, tai })
        };
        let mut best = attempt();
        for _ in 0..4 {
            let next = attempt();
            if next.0 <= best.0 {
                best = next;
            }
        }
        best.1
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

    /// `CLOCK_REALTIME` at `time`, in nanoseconds since 1970, had it not been set since.
    #[must_use]
    pub fn realtime(&self, time: Time) -> u64 {
        self.realtime.saturating_add(time.as_nanos())
    }

    /// Logical time of a `CLOCK_REALTIME` stamp (a kernel packet time stamp).
    #[must_use]
    pub fn time_of_realtime(&self, nanos: u64) -> Time {
        Time::from_nanos(nanos.saturating_sub(self.realtime))
    }

    /// `CLOCK_TAI` at `time`.
    #[must_use]
    pub fn tai(&self, time: Time) -> u64 {
        self.tai.saturating_add(time.as_nanos())
    }

    /// By how many nanoseconds `CLOCK_REALTIME` has moved against `CLOCK_MONOTONIC` since the
    /// epoch: small after slewing, large after somebody set the clock. Nothing here runs on it, but
    /// kernel time stamps do.
    #[must_use]
    pub fn realtime_shift(&self) -> i64 {
        self.shift_until(&Self::now())
    }

    fn shift_until(&self, later: &Self) -> i64 {
        let offset = |epoch: &Self| i128::from(epoch.realtime) - i128::from(epoch.monotonic);
        i64::try_from(offset(later) - offset(self)).unwrap_or(i64::MAX)
    }
}

/// How long before a deadline sleeping ends and spinning begins: `CLOCK_MONOTONIC` sleeps end 15
/// to 40 µs late as a rule, and now and then some hundred.
pub const SPIN: Span = Span::from_micros(400);

/// Waits until `deadline` to a microsecond or so, by sleeping and then spinning. Returns how late
/// it became.
pub fn sleep_until(deadline: Instant) -> Span {
    loop {
        let now = Instant::now();
        let left = deadline.since(now);
        if left == Span::ZERO {
            return now.since(deadline);
        }
        if left > SPIN {
            std::thread::sleep(Duration::from(left.saturating_sub(SPIN)));
        } else {
            std::hint::spin_loop();
        }
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

fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is ours. The three clocks used here exist on every Linux, so that the call
    // cannot fail.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    // Both are never negative: these clocks start at or after 1970, or boot.
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
        assert_eq!(epoch.time_of_realtime(epoch.realtime(time)), time);
        assert_eq!(epoch.tai(time) - epoch.tai(Time::ZERO), time.as_nanos());
        // Before the epoch there is no time.
        assert_eq!(epoch.time_at(Instant(0)), Time::ZERO);
    }

    #[test]
    fn a_clock_that_was_set_shows() {
        let epoch = Epoch::now();
        let later = Epoch { monotonic: epoch.monotonic + 5_000, realtime: epoch.realtime + 3_000, ..epoch };
        assert_eq!(epoch.shift_until(&later), -2_000);
        assert_eq!(epoch.shift_until(&epoch), 0);
    }

    #[test]
    fn waiting_ends_at_the_deadline_or_later() {
        for micros in [0, 10, 300, 2_000] {
            let deadline = Instant::now().plus(Span::from_micros(micros));
            let late = sleep_until(deadline);
            assert!(Instant::now() >= deadline.plus(late));
        }
        // A deadline in the past is met at once, and late by what has passed.
        let past = Instant(Instant::now().0 - 1_000_000);
        assert!(sleep_until(past) >= Span::from_millis(1));
    }

    #[test]
    fn stalls_are_what_is_over_the_limit() {
        let mut stalls = Stalls::new(Span::from_millis(5));
        let notes = [4_000, 5_000, 5_001, 52_000].map(|micros| stalls.note(Span::from_micros(micros)));
        assert_eq!(notes, [false, false, true, true]);
        assert_eq!((stalls.count, stalls.total, stalls.longest), (2, Span::from_micros(57_001), Span::from_millis(52)));
    }
}
