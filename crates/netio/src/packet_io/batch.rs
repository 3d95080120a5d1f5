//! Sending by a packet socket, many frames a system call.

use std::fmt;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};

use super::{Sent, Slot};
use crate::error::SetupError;
use crate::packet_socket::{self, Use};
use crate::port::{WIRE_FULL, reason};
use crate::site::index_of;
use crate::sys;

/// Frames a call takes at most, and how many slots there are.
const FRAMES: usize = 64;

/// The socket and its slots.
pub(super) struct Socket {
    socket: OwnedFd,
    memory: Box<[u8]>,
    slot: usize,
    tags: Box<[u64]>,
    lengths: Box<[usize]>,
    /// `messages[n]` has the one piece `pieces[n]`, for good: both live on the heap.
    pieces: Box<[libc::iovec]>,
    messages: Box<[libc::mmsghdr]>,
    queued: usize,
}

// SAFETY: the pointers lead into the socket's own heap memory, which no thread is tied to.
unsafe impl Send for Socket {}

impl Socket {
    pub(super) fn open(interface: &str, longest: usize) -> Result<Self, SetupError> {
        let failed = |source| SetupError::new(format!("open a packet socket to send on {interface}"), source);
        let index = index_of(interface)?;
        let socket = packet_socket::open().map_err(failed)?;
        packet_socket::set(&socket, libc::PACKET_QDISC_BYPASS, &1_i32).map_err(failed)?;
        packet_socket::bind(&socket, index, Use::Sending).map_err(failed)?;
        // More may be under way than the default allows; how much, the machine's limit says.
        sys::set_socket(&socket, libc::SO_SNDBUF, 1 << 24).map_err(failed)?;
        let slot = longest.next_power_of_two().max(2048);
        let mut pieces: Box<[libc::iovec]> =
            vec![libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; FRAMES].into();
        // SAFETY: plain data, valid when zeroed: no address, no control data.
        let mut messages: Box<[libc::mmsghdr]> = vec![unsafe { std::mem::zeroed() }; FRAMES].into();
        for (message, piece) in messages.iter_mut().zip(&mut pieces) {
            message.msg_hdr.msg_iov = piece;
            message.msg_hdr.msg_iovlen = 1;
        }
        let memory = vec![0; FRAMES * slot].into();
        let (tags, lengths) = (vec![0; FRAMES].into(), vec![0; FRAMES].into());
        Ok(Self { socket, memory, slot, tags, lengths, pieces, messages, queued: 0 })
    }

    #[inline]
    pub(super) fn slot(&mut self) -> Option<Slot<'_>> {
        let tag = self.tags.get_mut(self.queued)?;
        let start = self.queued * self.slot;
        Some(Slot { frame: &mut self.memory[start..start + self.slot], tag })
    }

    #[inline]
    pub(super) fn commit(&mut self, range: Range<usize>) {
        let start = self.queued * self.slot;
        let frame = &mut self.memory[start..start + self.slot][range];
        self.lengths[self.queued] = frame.len();
        self.pieces[self.queued] = libc::iovec { iov_base: frame.as_mut_ptr().cast(), iov_len: frame.len() };
        self.queued += 1;
    }

    pub(super) fn flush(&mut self, sent: &mut Sent) -> usize {
        let (mut next, mut taken) = (0, 0);
        while next < self.queued {
            let messages = &mut self.messages[next..self.queued];
            // SAFETY: each message has its piece, which points into `memory`; none of them moves or ends
            // before the call returns, and the kernel only reads the frames.
            let result = unsafe {
                libc::sendmmsg(
                    self.socket.as_raw_fd(),
                    messages.as_mut_ptr(),
                    messages.len() as libc::c_uint,
                    libc::MSG_DONTWAIT,
                )
            };
            if let Ok(count) = usize::try_from(result)
                && count > 0
            {
                taken += count;
                sent.bytes += self.lengths[next..next + count].iter().map(|&length| length as u64).sum::<u64>();
                next += count;
                continue;
            }
            // The error is the first frame's; those behind it are tried in the next call.
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                // A frame without room is lost here, since slots are used in their order.
                sent.refuse(if result == 0 { WIRE_FULL } else { reason(&error) }, 1);
                next += 1;
            }
        }
        sent.frames += taken as u64;
        self.queued = 0;
        taken
    }

    pub(super) fn queued(&self) -> usize {
        self.queued
    }
}

impl fmt::Display for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AF_PACKET with sendmmsg")
    }
}

impl fmt::Debug for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Socket").field("queued", &self.queued).finish_non_exhaustive()
    }
}
