//! The machine a run was made on.

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// What a machine is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Kernel name and release, such as `Linux 6.18.5`.
    pub kernel: String,
    /// Model of the processor.
    pub cpu: String,
    /// Processors this process may use.
    pub cpus: u32,
    /// Memory in bytes.
    pub memory_bytes: u64,
}

/// This machine; what cannot be read is left empty.
#[must_use]
pub fn describe() -> Machine {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, key: &str| {
        let line = text.lines().find(|line| line.starts_with(key))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let memory =
        field(&read("/proc/meminfo"), "MemTotal").and_then(|kb| kb.trim_end_matches(" kB").parse::<u64>().ok());
    Machine {
        kernel: format!("Linux {}", read("/proc/sys/kernel/osrelease").trim()),
        cpu: field(&read("/proc/cpuinfo"), "model name").unwrap_or_default(),
        cpus: std::thread::available_parallelism().map_or(0, |n| u32::try_from(n.get()).unwrap_or(u32::MAX)),
        memory_bytes: memory.unwrap_or(0) * 1024,
    }
}

/// Bytes an ordinary user may still write to the file system of `path`, or of its nearest parent
/// that exists.
#[must_use]
pub fn free_bytes(path: &Path) -> Option<u64> {
    let path = std::path::absolute(path).ok()?;
    let existing = path.ancestors().find(|path| path.exists())?;
    let text = CString::new(existing.as_os_str().as_bytes()).ok()?;
    // SAFETY: all zero is a valid statvfs.
    let mut stat: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to objects that outlive the call; the string is terminated.
    let result = unsafe { libc::statvfs(text.as_ptr(), &raw mut stat) };
    (result == 0).then(|| stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Raises the soft limit of open descriptors to the hard one: every cell takes a dozen. What is not
/// allowed is left as it is.
pub fn raise_descriptor_limit() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure outlives both calls.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_kernel_processors_and_room() {
        let machine = describe();
        assert!(machine.kernel.len() > "Linux ".len());
        assert!(machine.cpus > 0 && machine.memory_bytes > 0);
        assert!(free_bytes(Path::new("/proc/not/there")).is_some());
        assert!(free_bytes(Path::new("not/there/yet")).is_some_and(|free| free > 0));
    }
}
