//! Receiving with the time the kernel got the packet.

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd};

use engine::Span;

use crate::sys::{check, check_len};

/// Asks the kernel to stamp what arrives at a socket (`SO_TIMESTAMPNS`).
pub(crate) fn stamp_arrivals(socket: &impl AsFd) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: `on` outlives the call, and its size is given.
    check(unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPNS,
            (&raw const on).cast(),
            mem::size_of_val(&on) as libc::socklen_t,
        )
    })?;
    Ok(())
}

/// Receives a datagram, without waiting: its length in `buffer`, and how long ago the kernel got it.
///
/// The kernel stamps with `CLOCK_REALTIME`. The age is taken against the same clock right after, so
/// that a clock that was set does no harm but to the datagrams that lay in the socket just then: an
/// age that cannot be (negative, or over ten seconds) is taken for none.
pub(crate) fn receive_stamped(socket: &impl AsFd, buffer: &mut [u8]) -> io::Result<(usize, Span)> {
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // Aligned as a control message header has to be, and large enough for one stamp.
    let mut control = [0_u64; 8];
    // SAFETY: all zero is a valid msghdr.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = mem::size_of_val(&control) as _;
    // SAFETY: `message` points to `part` and `control`, which point to memory of the stated sizes;
    // all outlive the call.
    let length = check_len(unsafe { libc::recvmsg(socket.as_fd().as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) })?;
    // SAFETY: the kernel filled `control` and set its length; the macros stay within it.
    let stamp = unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        if header.is_null() || (*header).cmsg_type != libc::SCM_TIMESTAMPNS {
            None
        } else {
            Some(libc::CMSG_DATA(header).cast::<libc::timespec>().read_unaligned())
        }
    };
    let now = realtime();
    Ok((length, stamp.map_or(Span::ZERO, |stamp| age(nanos(now), nanos(stamp)))))
}

/// The time from `stamp` to `now`, in nanoseconds of a clock that may have been set in between.
fn age(now: i64, stamp: i64) -> Span {
    let age = now.checked_sub(stamp).and_then(|age| u64::try_from(age).ok()).map(Span::from_nanos);
    age.filter(|age| *age < Span::from_secs(10)).unwrap_or(Span::ZERO)
}

fn realtime() -> libc::timespec {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` outlives the call. The clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut now) };
    now
}

fn nanos(time: libc::timespec) -> i64 {
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_set_makes_no_age_that_cannot_be() {
        let (hour, stamp) = (3_600_000_000_000, 1_800_000_000_000_000_000);
        assert_eq!(age(stamp + 250_000, stamp), Span::from_micros(250));
        assert_eq!(age(stamp + 250_000 + hour, stamp), Span::ZERO);
        assert_eq!(age(stamp + 250_000 - hour, stamp), Span::ZERO);
        assert_eq!(age(i64::MAX, i64::MIN), Span::ZERO);
    }
}
