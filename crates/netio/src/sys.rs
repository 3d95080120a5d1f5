//! What several modules need to talk to the kernel.

use std::io;

use engine::Span;

/// Turns what a system call returned into a result.
pub(crate) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// The same for calls that return a length.
pub(crate) fn check_len(result: libc::ssize_t) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// An ifreq for an interface's name.
pub(crate) fn interface_request(name: &str) -> io::Result<libc::ifreq> {
    // The last byte stays zero and ends the name.
    if name.len() >= libc::IFNAMSIZ {
        return Err(io::ErrorKind::InvalidFilename.into());
    }
    // SAFETY: an ifreq is plain data and valid when zeroed.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = libc::c_char::from_ne_bytes([from]);
    }
    Ok(request)
}

/// A span as the kernel takes it; longer than 292 years is that.
pub(crate) fn timespec(span: Span) -> libc::timespec {
    let nanos = i64::try_from(span.as_nanos()).unwrap_or(i64::MAX);
    libc::timespec { tv_sec: nanos / 1_000_000_000, tv_nsec: nanos % 1_000_000_000 }
}
