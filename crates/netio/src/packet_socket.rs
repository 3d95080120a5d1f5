//! Packet sockets: opening, binding, what the kernel counted, and the receive ring.

mod ring;

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::sys::check;

pub(crate) use ring::Ring;

/// A new packet socket of the calling thread's namespace. It receives nothing until it is bound.
pub(crate) fn open() -> io::Result<OwnedFd> {
    // SAFETY: no pointers; the result is checked.
    let fd =
        check(unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: the descriptor is new and ours alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets an option of the level `SOL_PACKET`.
pub(crate) fn set<T>(socket: &OwnedFd, option: libc::c_int, value: &T) -> io::Result<()> {
    // SAFETY: the kernel reads `T`'s size of bytes from `value`.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            option,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    })
    .map(drop)
}

/// Lets the interface take in frames for any hardware address, as long as the socket is open.
pub(crate) fn make_promiscuous(socket: &OwnedFd, index: u32) -> io::Result<()> {
    let membership = libc::packet_mreq {
        mr_ifindex: index.cast_signed(),
        mr_type: libc::PACKET_MR_PROMISC as libc::c_ushort,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set(socket, libc::PACKET_ADD_MEMBERSHIP, &membership)
}

/// What a bound socket is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// All frames of the interface come in.
    Both,
    /// Nothing comes in.
    Sending,
}

/// Binds a socket to an interface.
pub(crate) fn bind(socket: &OwnedFd, index: u32, what: Use) -> io::Result<()> {
    // SAFETY: plain data, valid when zeroed.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as libc::c_ushort;
    if what == Use::Both {
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    }
    address.sll_ifindex = index.cast_signed();
    // SAFETY: the kernel reads one sockaddr_ll, ours.
    check(unsafe {
        libc::bind(socket.as_raw_fd(), (&raw const address).cast(), size_of_val(&address) as libc::socklen_t)
    })
    .map(drop)
}

/// Frames the kernel dropped for want of room since this was asked last.
pub(crate) fn drops(socket: &OwnedFd) -> io::Result<u32> {
    // SAFETY: plain counters, valid when zeroed.
    let mut counts: libc::tpacket_stats = unsafe { std::mem::zeroed() };
    let mut length = size_of_val(&counts) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `counts`.
    check(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            (&raw mut counts).cast(),
            &raw mut length,
        )
    })?;
    Ok(counts.tp_drops)
}
