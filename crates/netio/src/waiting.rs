//! Descriptors to wait on: epoll with nanosecond timeouts, and a descriptor to wake a waiter.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use engine::Span;

use crate::sys::{check, timespec};

/// An epoll instance.
#[derive(Debug)]
pub(crate) struct Epoll(OwnedFd);

/// How many events one wait returns at most; the rest comes with the next.
const EVENTS: usize = 64;

impl Epoll {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: no pointers; the result is checked and owned by nobody else.
        let fd = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: as above.
        let epoll = Self(unsafe { OwnedFd::from_raw_fd(fd) });
        // Where there is no epoll_pwait2 (Linux before 5.11, or a container that forbids it), waits
        // would return at once for ever: say so now.
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        if pwait(&epoll.0, std::slice::from_mut(&mut event), Some(Span::ZERO)) < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(epoll)
    }

    /// Reports `token` as long as `fd` is readable. Closing the descriptor ends it.
    pub(crate) fn add_readable(&self, fd: &impl AsFd, token: u64) -> io::Result<()> {
        self.add(fd.as_fd(), token, libc::EPOLLIN)
    }

    /// Reports `token` each time `fd` becomes readable, writable or broken.
    pub(crate) fn add_edges(&self, fd: &impl AsFd, token: u64) -> io::Result<()> {
        self.add(fd.as_fd(), token, libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLET)
    }

    fn add(&self, fd: BorrowedFd<'_>, token: u64, events: libc::c_int) -> io::Result<()> {
        let mut event = libc::epoll_event { events: events.cast_unsigned(), u64: token };
        // SAFETY: `event` outlives the call, which copies it; both descriptors are open.
        check(unsafe { libc::epoll_ctl(self.0.as_raw_fd(), libc::EPOLL_CTL_ADD, fd.as_raw_fd(), &raw mut event) })?;
        Ok(())
    }

    /// Stops reporting `fd`.
    pub(crate) fn remove(&self, fd: &impl AsFd) {
        // SAFETY: no event is read for this operation. That it fails means nothing was reported.
        unsafe {
            libc::epoll_ctl(self.0.as_raw_fd(), libc::EPOLL_CTL_DEL, fd.as_fd().as_raw_fd(), std::ptr::null_mut());
        }
    }

    /// Waits for events, for at most `timeout` (for ever if absent). An interrupted wait returns
    /// nothing.
    pub(crate) fn wait(&self, timeout: Option<Span>) -> impl ExactSizeIterator<Item = Ready> + use<> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS];
        let count = pwait(&self.0, &mut events, timeout);
        events.into_iter().take(usize::try_from(count).unwrap_or(0)).map(|event| Ready {
            token: event.u64,
            trouble: event.events & (libc::EPOLLERR | libc::EPOLLHUP).cast_unsigned() != 0,
        })
    }
}

/// Waits until one of a few descriptors is readable, or broken, for at most `timeout`. A signal ends it too.
pub fn wait_readable<const N: usize>(descriptors: [BorrowedFd<'_>; N], timeout: Span) {
    let mut polls = descriptors.map(|fd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 });
    let timeout = timespec(timeout);
    // SAFETY: `N` pollfds are read and written, the timeout is read; no signal mask is given.
    unsafe { libc::ppoll(polls.as_mut_ptr(), N as libc::nfds_t, &raw const timeout, std::ptr::null()) };
}

/// `epoll_pwait2`, by its number, since not every C library has a name for it.
fn pwait(epoll: &OwnedFd, events: &mut [libc::epoll_event], timeout: Option<Span>) -> libc::c_long {
    let timeout = timeout.map(timespec);
    let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let room = libc::c_int::try_from(events.len()).unwrap_or(libc::c_int::MAX);
    // SAFETY: the kernel writes at most `room` events, which there is room for, and reads the
    // timeout; no signal mask is given.
    unsafe {
        libc::syscall(
            libc::SYS_epoll_pwait2,
            epoll.as_raw_fd(),
            events.as_mut_ptr(),
            room,
            timeout,
            std::ptr::null::<libc::sigset_t>(),
            0usize,
        )
    }
}

/// A descriptor that has something to say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ready {
    /// What it was added with.
    pub(crate) token: u64,
    /// It reports an error or a hang-up.
    pub(crate) trouble: bool,
}

impl AsFd for Epoll {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A descriptor that is readable once a time has passed.
#[derive(Debug)]
pub(crate) struct Timer(OwnedFd);

impl Timer {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: no pointers; the result is checked and owned by nobody else.
        let fd = check(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC | libc::TFD_NONBLOCK) })?;
        // SAFETY: as above.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Readable `after` from now (not zero), once; what was set before is forgotten.
    pub(crate) fn set(&self, after: Span) -> io::Result<()> {
        let value = libc::itimerspec { it_interval: timespec(Span::ZERO), it_value: timespec(after) };
        // SAFETY: the kernel reads one itimerspec, ours, and is asked to write none.
        check(unsafe { libc::timerfd_settime(self.0.as_raw_fd(), 0, &raw const value, std::ptr::null_mut()) })?;
        Ok(())
    }

    pub(crate) fn clear(&self) {
        let mut count = 0u64;
        // SAFETY: reads eight bytes to `count`. It fails only if the time has not come.
        unsafe { libc::read(self.0.as_raw_fd(), (&raw mut count).cast(), size_of_val(&count)) };
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A descriptor that is readable once somebody notified it.
#[derive(Debug)]
pub(crate) struct EventFd(OwnedFd);

impl EventFd {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: no pointers; the result is checked and owned by nobody else.
        let fd = check(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
        // SAFETY: as above.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    pub(crate) fn notify(&self) {
        // SAFETY: writes no memory of ours. It fails only if the count is full, which wakes too.
        unsafe { libc::eventfd_write(self.0.as_raw_fd(), 1) };
    }

    pub(crate) fn clear(&self) {
        let mut count = 0;
        // SAFETY: `count` outlives the call. It fails only if nobody notified, which is fine.
        unsafe { libc::eventfd_read(self.0.as_raw_fd(), &raw mut count) };
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
