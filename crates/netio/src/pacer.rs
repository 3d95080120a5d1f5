//! Meeting times: sleep until shortly before, spin for the rest, and keep account of how late it was.
//!
//! For a thread that sends packets at times of its own. It differs from the executor's waiting in that it
//! is asked for one time after the other, many thousand a second, and must not spin for ever: a
//! thread that never sleeps is what the scheduler takes the processor away from, for milliseconds, as soon as anybody
//! else wants it.

use engine::{Span, Time};
use hdrhistogram::Histogram;

use crate::clock::{Epoch, Instant, Stalls};
use crate::cpu;
use crate::error::SetupError;
use crate::sys::timespec;

/// How a [`Pacer`] waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How long before a time sleeping ends and spinning begins. Sleeps end some 20 to 50 µs late.
    pub spin: Span,
    /// How long it spins without a rest, at most, if the times allow for one.
    pub endurance: Span,
    /// Lateness of more than this is a stall of the machine.
    pub stall: Span,
    /// Ask to run before ordinary threads, 950 µs of each millisecond (`SCHED_DEADLINE`). It needs real root, and is
    /// refused to a thread that is given one processor.
    pub real_time: bool,
}

impl Default for Options {
    /// Spins for the last 200 µs, for 4 ms at a stretch; stalls are what takes over a millisecond; ordinary
    /// priority.
    fn default() -> Self {
        let (spin, endurance, stall) = (Span::from_micros(200), Span::from_millis(4), Span::from_millis(1));
        Self { spin, endurance, stall, real_time: false }
    }
}

/// Waits for times, for one thread.
#[derive(Debug)]
pub struct Pacer {
    epoch: Epoch,
    options: Options,
    rested: Instant,
    real_time: bool,
    account: Account,
}

/// How well times were met.
#[derive(Clone, Debug)]
pub struct Account {
    /// By how many nanoseconds waits ended after their time, but for stalls. Times that were over when they
    /// were asked for are not among them: they are late because of what was done before.
    pub lateness: Histogram<u64>,
    /// Times that the machine took the processor away, while waiting or working.
    pub stalls: Stalls,
    /// Waits for a time that was over already.
    pub behind: u64,
}

impl Account {
    fn new(stall: Span) -> Self {
        let lateness = Histogram::new_with_bounds(1, 60_000_000_000, 3);
        Self { lateness: lateness.expect("these bounds are valid"), stalls: Stalls::new(stall), behind: 0 }
    }
}

impl Pacer {
    /// A pacer for the calling thread, which is given to one processor if one is named, and timers to the
    /// nanosecond.
    ///
    /// # Errors
    ///
    /// If there is no such processor for us.
    pub fn new(epoch: Epoch, processor: Option<usize>, options: Options) -> Result<Self, SetupError> {
        cpu::prepare_thread(processor)?;
        let real_time = options.real_time && cpu::prefer_thread();
        let account = Account::new(options.stall);
        Ok(Self { epoch, options, rested: Instant::now(), real_time, account })
    }

    /// Whether the thread runs before ordinary ones: it was asked for, and allowed.
    #[must_use]
    pub fn is_real_time(&self) -> bool {
        self.real_time
    }

    /// Logical time now.
    #[must_use]
    pub fn now(&self) -> Time {
        self.epoch.time()
    }

    /// Returns at or after `due`, never before, with the time it is then. Signals do not end it: who has to heed
    /// one waits in steps.
    pub fn wait(&mut self, due: Time) -> Time {
        self.wait_with(due, |_| {})
    }

    /// As [`Self::wait`]. While it spins it calls `meanwhile`, with the time it is, again and again: it
    /// should return within a microsecond or so.
    pub fn wait_with(&mut self, due: Time, mut meanwhile: impl FnMut(Time)) -> Time {
        let due_at = self.epoch.instant(due);
        let mut now = Instant::now();
        if now >= due_at {
            self.account.behind += 1;
            return self.epoch.time_at(now);
        }
        loop {
            let left = due_at.since(now);
            let tired = now.since(self.rested) > self.options.endurance && left > REST.times(2);
            let length = match left.saturating_sub(self.options.spin) {
                Span::ZERO if tired => REST,
                Span::ZERO => break,
                length => length,
            };
            // Ends early if a signal comes.
            sleep(length);
            let woken = Instant::now();
            self.note_gap(woken.since(now).saturating_sub(length));
            (now, self.rested) = (woken, woken);
        }
        while now < due_at {
            meanwhile(self.epoch.time_at(now));
            std::hint::spin_loop();
            let next = Instant::now();
            self.note_gap(next.since(now));
            now = next;
        }
        let late = now.since(due_at);
        if late <= self.options.stall {
            self.account.lateness.saturating_record(late.as_nanos());
        }
        self.epoch.time_at(now)
    }

    /// To be called after work that is known to be short, with when it began: time that it cannot have taken
    /// was taken by the machine.
    pub fn worked_since(&mut self, begin: Time) {
        self.note_gap(self.epoch.time().since(begin));
    }

    fn note_gap(&mut self, gap: Span) {
        self.account.stalls.note(gap);
    }

    /// How well times were met so far.
    #[must_use]
    pub fn account(&self) -> &Account {
        &self.account
    }
}

/// The shortest sleep that lets others run.
const REST: Span = Span::from_micros(30);

fn sleep(length: Span) {
    let length = timespec(length);
    // SAFETY: the kernel reads one timespec, ours, and is asked to write none.
    unsafe { libc::clock_nanosleep(libc::CLOCK_MONOTONIC, 0, &raw const length, std::ptr::null_mut()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_wait_ends_early() {
        let epoch = Epoch::now();
        let mut pacer = Pacer::new(epoch, None, Options::default()).unwrap();
        let mut due = pacer.now();
        let mut polls = 0u64;
        for step in 0..200 {
            due += Span::from_micros([5, 50, 300, 900][step % 4]);
            let now = pacer.wait_with(due, |now| {
                assert!(now < due);
                polls += 1;
            });
            assert!(now >= due, "{now} is before {due}");
        }
        let account = pacer.account();
        // Each wait ended on time, in a stall, or was over before it began.
        assert!(account.lateness.len() + account.behind <= 200);
        assert!(account.lateness.len() + account.behind + account.stalls.count >= 200);
        assert!(polls > 0 || account.stalls.count > 0 || account.behind == 200);
    }

    /// On a thread of its own, whose priority ends with it.
    #[test]
    fn priority_is_had_where_it_is_allowed_and_refused_without_harm() {
        std::thread::spawn(|| {
            let options = Options { real_time: true, ..Options::default() };
            let mut pacer = Pacer::new(Epoch::now(), None, options).unwrap();
            // SAFETY: no pointers.
            let policy = unsafe { libc::sched_getscheduler(0) } & !libc::SCHED_RESET_ON_FORK;
            assert_eq!(pacer.is_real_time(), policy == libc::SCHED_DEADLINE);
            let due = pacer.now() + Span::from_micros(500);
            assert!(pacer.wait(due) >= due);
            // Threads can be started from it.
            std::thread::spawn(|| ()).join().unwrap();
        })
        .join()
        .unwrap();
    }

    #[test]
    fn what_is_over_is_not_waited_for() {
        let epoch = Epoch::now();
        let mut pacer = Pacer::new(epoch, None, Options::default()).unwrap();
        let begin = pacer.now();
        let now = pacer.wait(Time::ZERO);
        assert!(now >= begin);
        assert_eq!((pacer.account().behind, pacer.account().lateness.len()), (1, 0));
    }

    #[test]
    fn a_processor_that_is_not_there_is_refused() {
        assert!(Pacer::new(Epoch::now(), Some(100_000), Options::default()).is_err());
    }
}
