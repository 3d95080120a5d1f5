//! Mapped memory.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;

/// A mapping of our own, given back when dropped. Its pages are there from the start, so that no packet waits
/// for one.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: a mapping is not tied to a thread. What is written and read through `at` is its user's to arrange.
unsafe impl Send for Mapping {}
// SAFETY: as above; the mapping itself never changes.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Zeros.
    pub(crate) fn anonymous(length: usize) -> io::Result<Self> {
        Self::new(length, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE, -1, 0)
    }

    /// Zeros in large pages where the kernel has them: for memory that is gone through from end to end, of which
    /// each page would otherwise cost a look at the page tables.
    pub(crate) fn anonymous_large(length: usize) -> io::Result<Self> {
        let mapping = Self::new(length, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)?;
        let start = mapping.start.as_ptr();
        // SAFETY: our own mapping. The first call is a wish; the second writes zeros into every page, as reading it
        // would, page by page because kernels before 5.14 cannot be asked to.
        unsafe {
            libc::madvise(start.cast(), length, libc::MADV_HUGEPAGE);
            for offset in (0..length).step_by(4096) {
                start.add(offset).write_volatile(0);
            }
        }
        Ok(mapping)
    }

    /// What a socket shares at an offset.
    pub(crate) fn of(socket: &OwnedFd, offset: u64, length: usize) -> io::Result<Self> {
        let offset = libc::off_t::try_from(offset).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        Self::new(length, libc::MAP_SHARED | libc::MAP_POPULATE, socket.as_raw_fd(), offset)
    }

    fn new(length: usize, flags: libc::c_int, fd: libc::c_int, offset: libc::off_t) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, fd, offset) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        NonNull::new(start.cast()).map(|start| Self { start, length }).ok_or(io::ErrorKind::OutOfMemory.into())
    }

    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// # Panics
    ///
    /// If `offset` is not in the mapping.
    #[inline]
    pub(crate) fn at(&self, offset: usize) -> *mut u8 {
        assert!(offset < self.length, "outside of the mapping");
        // SAFETY: just checked.
        unsafe { self.start.as_ptr().add(offset) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: our own mapping, and its owner, through which alone it is reached, is going away.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}
