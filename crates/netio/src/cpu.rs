//! The machine's processors: how busy they were, and a thread's place on them.

use std::fs;

use crate::error::SetupError;
use crate::sys::check;

/// The machine's processors since it started, from `/proc/stat`, in clock ticks; take the difference
/// of two to see a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    busy: u64,
    steal: u64,
    total: u64,
}

/// How the machine's processors spent a window, each from 0 to 1 of all processors together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shares {
    /// Neither idle nor waiting for a disk nor stolen.
    pub busy: f64,
    /// Taken by the hypervisor.
    pub steal: f64,
}

impl Machine {
    /// The counts of now; `None` where `/proc/stat` cannot be read.
    #[must_use]
    pub fn now() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/stat").ok()?)
    }

    fn parse(stat: &str) -> Option<Self> {
        // proc(5): cpu user nice system idle iowait irq softirq steal guest guest_nice; the guest
        // times are contained in user and nice.
        let counts: Vec<u64> = stat
            .lines()
            .next()?
            .strip_prefix("cpu ")?
            .split_ascii_whitespace()
            .map_while(|count| count.parse().ok())
            .take(8)
            .collect();
        let &[user, nice, system, idle, iowait, irq, softirq, steal] = counts.as_slice() else { return None };
        let busy = user + nice + system + irq + softirq;
        Some(Self { busy, steal, total: busy + idle + iowait + steal })
    }

    /// How the time since `earlier` was spent; `None` if no tick has passed.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Option<Shares> {
        let total = self.total.checked_sub(earlier.total).filter(|&ticks| ticks > 0)? as f64;
        let share = |now: u64, then: u64| now.saturating_sub(then) as f64 / total;
        Some(Shares { busy: share(self.busy, earlier.busy), steal: share(self.steal, earlier.steal) })
    }
}

/// Readies the calling thread for the data plane: its processor, timers to the nanosecond, and a
/// short time slice, so that the scheduler lets it run soon after it wakes.
pub(crate) fn prepare_thread(cpu: Option<usize>) -> Result<(), SetupError> {
    // SAFETY: no pointers.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
    if let Some(cpu) = cpu {
        // SAFETY: plain data, valid when zeroed; CPU_SET checks nothing, hence the check here.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        let doing = format!("run on processor {cpu}");
        if cpu >= libc::CPU_SETSIZE as usize {
            return Err(SetupError::new(doing, std::io::ErrorKind::InvalidInput.into()));
        }
        // SAFETY: `cpu` is in the set's range; the kernel reads the set.
        check(unsafe {
            libc::CPU_SET(cpu, &mut set);
            libc::sched_setaffinity(0, size_of_val(&set), &raw const set)
        })
        .map_err(|source| SetupError::new(doing, source))?;
    }
    shorten_slice();
    Ok(())
}

/// Since Linux 6.12 a thread may ask for its time slice. A shorter one is not more time, but has its
/// turn come sooner after it wakes. Older kernels ignore it, and nothing depends on it.
fn shorten_slice() {
    // SAFETY: plain data, valid when zeroed: the ordinary policy, no flags.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    attributes.size = size_of_val(&attributes) as u32;
    attributes.sched_policy = libc::SCHED_OTHER as u32;
    // SAFETY: no pointers. Niceness is set with the rest, hence set to what it is.
    attributes.sched_nice = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
    attributes.sched_runtime = 100_000;
    // SAFETY: the kernel reads one structure of the size it states.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
}

/// Lets the calling thread run before all ordinary ones; false if that is not allowed.
///
/// `SCHED_DEADLINE` with 950 µs of each millisecond. Under `SCHED_FIFO` a thread that hardly sleeps is stopped for
/// 50 ms a second as soon as others want its processor (the kernel's fair server, a deadline of a second); the same
/// twentieth in pieces of 50 µs does less harm.
pub(crate) fn prefer_thread() -> bool {
    // SAFETY: plain data, valid when zeroed.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    attributes.size = size_of_val(&attributes) as u32;
    attributes.sched_policy = libc::SCHED_DEADLINE as u32;
    // Threads and programs started from here do not inherit it, without which they could not be started.
    attributes.sched_flags = libc::SCHED_FLAG_RESET_ON_FORK as u64;
    attributes.sched_runtime = 950_000;
    attributes.sched_deadline = 1_000_000;
    attributes.sched_period = 1_000_000;
    // SAFETY: the kernel reads one structure of the size it states.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_the_window() {
        let then = Machine::parse("cpu  100 0 50 800 10 0 20 20 5 0\ncpu0 1 2 3\n").unwrap();
        let now = Machine::parse("cpu  150 0 60 810 10 0 30 40 5 0\ncpu0 1 2 3\n").unwrap();
        let shares = now.since(&then).unwrap();
        assert_eq!(shares, Shares { busy: 0.7, steal: 0.2 });
        assert_eq!(now.since(&now), None);
    }
}
