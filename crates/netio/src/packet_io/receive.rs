//! Receiving by a packet socket with a ring.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use engine::{Checksum, Packet, Pool, Span};

use crate::clock::{Epoch, Instant};
use crate::error::SetupError;
use crate::offload::{self, FRAME_MAX, VNET_HEADER_LEN, VnetHeader};
use crate::packet_socket::{self, Ring, Use};
use crate::site::index_of;
use crate::sys::{self, check_len};
use crate::waiting::wait_readable;

/// The receiving half. The interface is made promiscuous; what we send ourselves does not come in.
///
/// Slots of the ring are for frames up to the interface's MTU. Super-frames, of up to 64 KiB, take the long way
/// through the socket's own buffer, which holds at most `net.core.rmem_max` bytes of them.
#[derive(Debug)]
pub struct Receive {
    socket: OwnedFd,
    ring: Ring,
    /// For a super-frame, or a frame with its VLAN tag back in.
    space: Box<[u8]>,
    pool: Pool,
    cut: Vec<Packet>,
    dropped: u64,
}

/// What one call of [`Receive::receive`] brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Frames handed over.
    pub frames: usize,
    /// Frames (super-frames counting as one) that could not be used.
    pub malformed: usize,
    /// There may be more: the limit was reached.
    pub more: bool,
}

impl Receive {
    pub(super) fn open(interface: &str, longest: usize, blocks: usize) -> Result<Self, SetupError> {
        let failed = |source| SetupError::new(format!("open a packet socket to receive on {interface}"), source);
        let index = index_of(interface)?;
        let socket = packet_socket::open().map_err(failed)?;
        for option in [libc::PACKET_IGNORE_OUTGOING, PACKET_COPY_THRESH] {
            packet_socket::set(&socket, option, &1_i32).map_err(failed)?;
        }
        sys::set_socket(&socket, libc::SO_RCVBUF, 1 << 24).map_err(failed)?;
        let ring = Ring::map(&socket, blocks, longest).map_err(failed)?;
        packet_socket::make_promiscuous(&socket, index).map_err(failed)?;
        packet_socket::bind(&socket, index, Use::Both).map_err(failed)?;
        Ok(Self {
            socket,
            ring,
            space: vec![0; VNET_HEADER_LEN + FRAME_MAX].into(),
            pool: Pool::new(offload::RUN_MAX),
            cut: Vec::with_capacity(offload::RUN_MAX),
            dropped: 0,
        })
    }

    /// Hands frames that are there to `take`, at most `limit` from the ring, each with the time at which the
    /// kernel got it. Checksums are in place; a super-frame comes as its segments, all with its
    /// time. What `take` writes into a frame goes nowhere. Never waits.
    pub fn receive(&mut self, limit: usize, mut take: impl FnMut(&mut [u8], Instant)) -> Received {
        let mut received = Received { more: true, ..Received::default() };
        let Self { socket, ring, space, pool, cut, dropped: lost } = self;
        // Read once a call: the clocks' readings would cost as much as the frames.
        let mut epoch = None;
        for _ in 0..limit {
            let Some(mut slot) = ring.next() else {
                received.more = false;
                break;
            };
            let at = Instant::stamped(slot.stamp(), epoch.get_or_insert_with(Epoch::now));
            let is_cut_off = slot.is_cut_off();
            let frame = if slot.is_queued() { take_queued(socket, space) } else { slot.frame(space) };
            match frame {
                None if is_cut_off => *lost += 1,
                None => received.malformed += 1,
                Some((VnetHeader { gso: None, checksum, .. }, frame)) => {
                    if let Checksum::Partial { start, offset } = checksum {
                        wire::checksum::complete(frame, usize::from(start), usize::from(offset));
                    }
                    take(frame, at);
                    received.frames += 1;
                }
                Some((header, frame)) => {
                    if offload::cut(&header, frame, pool, cut).is_err() {
                        received.malformed += 1;
                    }
                    for mut packet in cut.drain(..) {
                        offload::complete(&mut packet);
                        take(&mut packet.bytes, at);
                        received.frames += 1;
                        pool.put(packet.bytes);
                    }
                }
            }
        }
        received
    }

    /// Waits until a frame is there, for at most `timeout`. A signal ends it too.
    pub fn wait(&self, timeout: Span) {
        wait_readable([self.socket.as_fd()], timeout);
    }

    /// Frames the kernel dropped since the interface was opened because the ring was full, and super-frames
    /// (each counts as one) because the socket's buffer was.
    ///
    /// # Errors
    ///
    /// If the interface is gone.
    pub fn kernel_drops(&mut self) -> Result<u64, SetupError> {
        let drops = packet_socket::drops(&self.socket)
            .map_err(|source| SetupError::new("read the counters of a packet socket", source))?;
        // Reading them sets them to zero.
        self.dropped += u64::from(drops);
        Ok(self.dropped)
    }

    /// How many frames the ring holds.
    #[must_use]
    pub fn room(&self) -> usize {
        self.ring.slots()
    }
}

impl AsFd for Receive {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A frame that did not fit its slot, from the socket's own queue; slots and queue are in the same
/// order.
fn take_queued<'a>(socket: &OwnedFd, space: &'a mut [u8]) -> Option<(VnetHeader, &'a mut [u8])> {
    // SAFETY: the kernel writes at most the given length to `space`.
    let length = check_len(unsafe {
        libc::recv(socket.as_raw_fd(), space.as_mut_ptr().cast(), space.len(), libc::MSG_DONTWAIT | libc::MSG_TRUNC)
    })
    .ok()?;
    let (header, frame) = space.get_mut(..length)?.split_first_chunk_mut::<VNET_HEADER_LEN>()?;
    Some((VnetHeader::parse(header).ok()?, frame))
}

/// linux/if_packet.h: frames of more than a ring's slot are queued at the socket.
const PACKET_COPY_THRESH: libc::c_int = 7;
