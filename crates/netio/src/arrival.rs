//! Receiving with the time the kernel got the packet.

use std::io;
use std::mem;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};

use socket2::{SockAddr, SockAddrStorage};

use crate::clock::Instant;
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

/// Receives a datagram, without waiting: its length in `buffer`, and when the kernel got it.
///
/// The kernel stamps with `CLOCK_REALTIME`. The stamp is compared with the same clock right after,
/// so that a clock that was set does no harm but to the datagrams that lay in the socket just then:
/// if a stamp cannot be, the datagram counts as arrived now.
pub(crate) fn receive_stamped(socket: &impl AsFd, buffer: &mut [u8]) -> io::Result<(usize, Instant)> {
    receive(socket, buffer, None)
}

/// As [`receive_stamped`], and who sent it.
pub(crate) fn receive_stamped_from(
    socket: &impl AsFd,
    buffer: &mut [u8],
) -> io::Result<(usize, Instant, Option<SocketAddr>)> {
    let mut name = SockAddrStorage::zeroed();
    let mut length = name.size_of();
    let (received, arrived) = receive(socket, buffer, Some((&mut name, &mut length)))?;
    // SAFETY: the kernel wrote an address of that length.
    let from = unsafe { SockAddr::new(name, length) };
    Ok((received, arrived, from.as_socket()))
}

fn receive(
    socket: &impl AsFd,
    buffer: &mut [u8],
    mut name: Option<(&mut SockAddrStorage, &mut libc::socklen_t)>,
) -> io::Result<(usize, Instant)> {
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // Aligned as a control message header has to be, and large enough for one stamp.
    let mut control = [0_u64; 8];
    // SAFETY: all zero is a valid msghdr.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = mem::size_of_val(&control) as _;
    if let Some((name, length)) = &mut name {
        message.msg_name = std::ptr::from_mut(*name).cast();
        message.msg_namelen = **length;
    }
    // SAFETY: `message` points to `part`, `control` and, if given, `name`, which point to memory of the
    // stated sizes; all outlive the call.
    let received =
        check_len(unsafe { libc::recvmsg(socket.as_fd().as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) })?;
    if let Some((_, length)) = name {
        *length = message.msg_namelen;
    }
    // SAFETY: the kernel filled `control` and set its length; the macros stay within it.
    let stamp = unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        if header.is_null() || (*header).cmsg_type != libc::SCM_TIMESTAMPNS {
            None
        } else {
            Some(libc::CMSG_DATA(header).cast::<libc::timespec>().read_unaligned())
        }
    };
    let arrived = stamp.and_then(|stamp| {
        let (seconds, nanos) = (u64::try_from(stamp.tv_sec).ok()?, u64::try_from(stamp.tv_nsec).ok()?);
        Instant::of_stamp(seconds * 1_000_000_000 + nanos)
    });
    Ok((received, arrived.unwrap_or_else(Instant::now)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::Span;
    use std::net::UdpSocket;
    use std::time::Duration;

    /// The wait is no race: however late the datagram is read, it arrived before the wait.
    #[test]
    fn a_datagram_arrives_when_the_kernel_gets_it_not_when_it_is_read() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        stamp_arrivals(&socket).unwrap();
        let address = socket.local_addr().unwrap();
        // The kernel begins to stamp arrivals some time after it was asked; until then it stamps
        // what is read.
        loop {
            socket.send_to(b"ab", address).unwrap();
            let sent = Instant::now();
            if receive_stamped(&socket, &mut [0; 16]).unwrap().1 <= sent {
                break;
            }
        }
        let before = Instant::now();
        socket.send_to(b"abc", address).unwrap();
        let after = Instant::now();
        std::thread::sleep(Duration::from_millis(30));
        let (length, arrived) = receive_stamped(&socket, &mut [0; 16]).unwrap();
        assert_eq!(length, 3);
        let slack = Span::from_millis(10);
        assert!(before.since(arrived) < slack && arrived.since(after) < slack, "{before:?} {arrived:?} {after:?}");
    }
}
