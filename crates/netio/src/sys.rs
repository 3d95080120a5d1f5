//! What several modules need to talk to the kernel.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

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

/// The hardware address of an interface of the calling thread's namespace.
pub(crate) fn hardware_address(name: &str) -> io::Result<[u8; 6]> {
    let request = interface_ioctl(name, libc::SIOCGIFHWADDR)?;
    // SAFETY: the kernel wrote a sockaddr with the address at the start of its data.
    let data = unsafe { request.ifr_ifru.ifru_hwaddr.sa_data };
    Ok(std::array::from_fn(|at| data[at].to_ne_bytes()[0]))
}

/// The MTU in bytes of an interface of the calling thread's namespace.
pub(crate) fn mtu(name: &str) -> io::Result<u32> {
    let request = interface_ioctl(name, libc::SIOCGIFMTU)?;
    // SAFETY: the kernel wrote an integer.
    u32::try_from(unsafe { request.ifr_ifru.ifru_mtu }).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// What an ioctl that takes an interface's name answers.
fn interface_ioctl(name: &str, number: libc::Ioctl) -> io::Result<libc::ifreq> {
    let mut request = interface_request(name)?;
    // SAFETY: no pointers; the result is checked.
    let fd = check(unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: the descriptor is new and ours alone.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: both ioctls read and write one ifreq, ours.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), number, &raw mut request) })?;
    Ok(request)
}

/// Changes an option of the level `SOL_SOCKET` that is an integer.
pub(crate) fn set_socket(socket: &OwnedFd, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    // SAFETY: the kernel reads one integer, ours.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw const value).cast(),
            size_of_val(&value) as libc::socklen_t,
        )
    })
    .map(drop)
}
