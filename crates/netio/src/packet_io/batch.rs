//! Sending by a packet socket, many frames a system call, and many datagrams a frame if wanted.

use std::fmt;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};

use super::{Sent, Slot};
use crate::error::SetupError;
use crate::offload::{self, Run, VNET_HEADER_LEN, VnetHeader};
use crate::packet_socket::{self, Use};
use crate::port::reason;
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
    /// Where in `memory` the queued frames are.
    frames: Vec<Range<usize>>,
    messages: Messages,
    /// Each frame has a `virtio_net_hdr` in front.
    segmented: bool,
    /// The kernel takes super-frames of datagrams: Linux 6.2 and later.
    joins: bool,
}

impl Socket {
    /// With `segmented`, datagrams of one flow go out as one super-frame.
    pub(super) fn open(interface: &str, longest: usize, segmented: bool) -> Result<Self, SetupError> {
        let failed = |source| SetupError::new(format!("open a packet socket to send on {interface}"), source);
        let index = index_of(interface)?;
        let socket = packet_socket::open().map_err(failed)?;
        packet_socket::set(&socket, libc::PACKET_QDISC_BYPASS, &1_i32).map_err(failed)?;
        if segmented {
            packet_socket::set(&socket, libc::PACKET_VNET_HDR, &1_i32).map_err(failed)?;
        }
        packet_socket::bind(&socket, index, Use::Sending).map_err(failed)?;
        // More may be under way than the default allows; how much, the machine's limit says.
        sys::set_socket(&socket, libc::SO_SNDBUF, 1 << 24).map_err(failed)?;
        let slot = longest.next_power_of_two().max(2048);
        Ok(Self {
            socket,
            memory: vec![0; FRAMES * slot].into(),
            slot,
            tags: vec![0; FRAMES].into(),
            frames: Vec::with_capacity(FRAMES),
            messages: Messages::default(),
            segmented,
            joins: segmented,
        })
    }

    #[inline]
    pub(super) fn slot(&mut self) -> Option<Slot<'_>> {
        let number = self.frames.len();
        let tag = self.tags.get_mut(number)?;
        let start = number * self.slot;
        Some(Slot { frame: &mut self.memory[start..start + self.slot], tag })
    }

    #[inline]
    pub(super) fn commit(&mut self, range: Range<usize>) {
        assert!(range.start <= range.end && range.end <= self.slot, "a frame outside of its slot");
        assert!(self.frames.len() < FRAMES, "a slot was given");
        let start = self.frames.len() * self.slot;
        self.frames.push(start + range.start..start + range.end);
    }

    pub(super) fn flush(&mut self, sent: &mut Sent) -> usize {
        let (mut next, mut taken) = (0, 0);
        while next < self.frames.len() {
            let frames = &self.frames[next..];
            match self.messages.send(self.socket.as_raw_fd(), &self.memory, frames, self.segmented, self.joins) {
                Ok(count) => {
                    taken += count;
                    sent.bytes += frames[..count].iter().map(|frame| frame.len() as u64).sum::<u64>();
                    next += count;
                }
                Err((_, error)) if error.kind() == io::ErrorKind::Interrupted => {}
                // A super-frame that the kernel does not know: none from now on.
                Err((2.., error)) if error.raw_os_error() == Some(libc::EINVAL) && self.joins => self.joins = false,
                Err((count, error)) => {
                    // What has no room is lost here, since slots are used in their order.
                    sent.refuse(reason(&error), count as u64);
                    next += count;
                }
            }
        }
        sent.frames += taken as u64;
        self.frames.clear();
        taken
    }

    pub(super) fn queued(&self) -> usize {
        self.frames.len()
    }
}

/// Room for what one `sendmmsg` takes.
#[derive(Default)]
struct Messages {
    /// Joint headers, each behind its `virtio_net_hdr`, and how many frames are under them.
    runs: Vec<([u8; VNET_HEADER_LEN], Option<Run>)>,
    pieces: Vec<libc::iovec>,
    messages: Vec<libc::mmsghdr>,
}

// SAFETY: the pointers inside are dead between calls of `send`.
unsafe impl Send for Messages {}

impl Messages {
    /// Sends frames, ranges of `memory`: how many the kernel took from the front, at least one; or how many it
    /// refused together, and why.
    fn send(
        &mut self,
        socket: libc::c_int,
        memory: &[u8],
        frames: &[Range<usize>],
        segmented: bool,
        joins: bool,
    ) -> Result<usize, (usize, io::Error)> {
        let Self { runs, pieces, messages } = self;
        runs.clear();
        pieces.clear();
        messages.clear();
        // All room there will be, so that no pointer taken below moves.
        runs.reserve(FRAMES);
        pieces.reserve(3 * FRAMES);
        let mut rest = frames;
        while !rest.is_empty() {
            let run =
                joins.then(|| offload::datagram_run(rest.len(), |number| &memory[rest[number].clone()])).flatten();
            rest = &rest[run.as_ref().map_or(1, |run| run.packets)..];
            runs.push((run.as_ref().map_or_else(VnetHeader::default, |run| run.vnet).emit(), run));
        }
        let mut rest = frames;
        let mut push = |bytes: &[u8]| {
            pieces.push(libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() });
            pieces.len()
        };
        let mut first = 0;
        for (header, run) in runs.iter() {
            let joint = run.as_ref().map_or(&[][..], Run::headers);
            let mut last = first;
            if segmented {
                last = push(header);
            }
            if !joint.is_empty() {
                last = push(joint);
            }
            let (these, others) = rest.split_at(run.as_ref().map_or(1, |run| run.packets));
            for frame in these {
                last = push(&memory[frame.start + joint.len()..frame.end]);
            }
            rest = others;
            // SAFETY: plain data, valid when zeroed: no address, no control data.
            let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
            message.msg_hdr.msg_iovlen = last - first;
            messages.push(message);
            first = last;
        }
        let mut first = 0;
        for message in messages.iter_mut() {
            message.msg_hdr.msg_iov = pieces[first..].as_mut_ptr();
            first += message.msg_hdr.msg_iovlen;
        }
        // SAFETY: each message has its pieces, which point into `runs` and `memory`; none of them moves or ends
        // before the call returns, and the kernel only reads the frames.
        let result = unsafe {
            libc::sendmmsg(socket, messages.as_mut_ptr(), messages.len() as libc::c_uint, libc::MSG_DONTWAIT)
        };
        let count = |messages: usize| runs[..messages].iter().map(|(_, run)| run.as_ref().map_or(1, |run| run.packets));
        match usize::try_from(result) {
            Ok(0) => Err((count(1).sum(), io::Error::from_raw_os_error(libc::ENOBUFS))),
            Ok(taken) => Ok(count(taken).sum()),
            // The error is the first message's; those behind it are tried in the next call.
            Err(_) => Err((count(1).sum(), io::Error::last_os_error())),
        }
    }
}

impl fmt::Display for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let segmented = if self.segmented { " and UDP segmentation offload" } else { "" };
        write!(f, "AF_PACKET with sendmmsg{segmented}")
    }
}

impl fmt::Debug for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Socket").field("queued", &self.frames.len()).finish_non_exhaustive()
    }
}
