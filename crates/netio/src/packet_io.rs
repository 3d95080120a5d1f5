//! Sending and receiving whole frames at an interface, as fast as the kernel goes.
//!
//! For programs that make and count packets themselves, such as load generators and user planes. The
//! emulator's own wires, which carry what stacks send, are in [`crate::port`].
//!
//! **Sending** goes through AF_XDP in copy mode: frames are written into memory shared with the kernel,
//! which makes a packet of each and hands it to the driver, past the queueing discipline. It works on
//! every interface, leaves the interface's own traffic alone, and needs no BPF program. (Zero-copy mode
//! would take a hardware queue away from the stack; veth has none.) Where AF_XDP is not to be had, a packet socket
//! with `sendmmsg` does the same at about two thirds of the rate; the choice is told by
//! [`PacketIo::choice`].
//!
//! **Receiving** goes through a packet socket with a ring always: over veth it is twice as fast as
//! AF_XDP, which also needs a BPF program and so real root. Each frame comes with the time at which
//! the kernel got it. Super-frames are cut and unfinished checksums completed.
//!
//! An interface should have no addresses of its own when this is used: the machine's stack sees what
//! comes in too, and would answer.
//!
//! ```no_run
//! use engine::Span;
//! use netio::packet_io::{Options, PacketIo};
//!
//! let io = PacketIo::open("n3", &Options::default())?;
//! println!("{}: {}", "n3", io.choice());
//! let (mut transmit, mut receive) = io.split();
//! for number in 0..32u8 {
//!     let Some(slot) = transmit.slot() else { break };
//!     slot.frame[..60].fill(number);
//!     transmit.commit(0..60);
//! }
//! transmit.flush();
//! receive.wait(Span::from_millis(10));
//! receive.receive(64, |frame, at| println!("{} bytes at {}", frame.len(), at.as_nanos()));
//! # Ok::<(), netio::SetupError>(())
//! ```

mod batch;
mod receive;
mod xdp;

use std::ops::Range;

use engine::DropReason;

use crate::error::SetupError;
use crate::site::{Mac, Namespace};
use crate::sys;

pub use receive::{Receive, Received};

/// How frames are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// By AF_XDP, and where that is not to be had by a packet socket.
    #[default]
    Auto,
    /// By AF_XDP or an error.
    AfXdp,
    /// By a packet socket.
    AfPacket,
    /// By a packet socket, with UDP segmentation offload: datagrams of one flow and length that are flushed
    /// together travel as one super-frame, many times cheaper than packets. All GTP-U between two addresses is one
    /// flow, whatever is inside. A network card cuts it into the packets it stands for (but each
    /// gets a checksum, and IPv4 identifications count up); over veth the receiver sees the super-frame, which
    /// kernels' stacks and this module understand and an XDP program may not. That is why it is never chosen by
    /// itself.
    AfPacketSegmented,
}

/// How an interface is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// How frames are sent.
    pub choice: Choice,
    /// The interface's queue that AF_XDP sends by.
    pub queue: u32,
    /// MiB of the receive ring: at an MTU of 1500, one holds 622 frames.
    pub ring: usize,
}

impl Default for Options {
    /// The first queue, and 32 MiB to receive into (19,904 frames at an MTU of 1500).
    fn default() -> Self {
        Self { choice: Choice::Auto, queue: 0, ring: 32 }
    }
}

/// An interface that is open for sending and receiving.
#[derive(Debug)]
pub struct PacketIo {
    transmit: Transmit,
    receive: Receive,
    choice: String,
    mac: Mac,
    mtu: u32,
}

impl PacketIo {
    /// Opens an interface of the calling thread's namespace. Needs `CAP_NET_RAW` there, which root has
    /// and everybody in a sandbox.
    ///
    /// # Errors
    ///
    /// If there is no such interface, the privilege is missing, or the kernel lacks what was asked for.
    pub fn open(interface: &str, options: &Options) -> Result<Self, SetupError> {
        let failed = |source| SetupError::new(format!("read the address and MTU of {interface}"), source);
        let (mac, mtu) = (sys::hardware_address(interface).map_err(failed)?, sys::mtu(interface).map_err(failed)?);
        // Two VLAN tags may stand before the type.
        let longest = mtu as usize + wire::ETHERNET_LEN + 8;
        let (transmit, choice) = Transmit::open(interface, longest, options)?;
        let receive = Receive::open(interface, longest, options.ring)?;
        Ok(Self { transmit, receive, choice, mac, mtu })
    }

    /// As [`Self::open`], in another namespace.
    ///
    /// # Errors
    ///
    /// As [`Self::open`], or if the namespace cannot be entered.
    pub fn open_in(namespace: &Namespace, interface: &str, options: &Options) -> Result<Self, SetupError> {
        namespace.run(|| Self::open(interface, options))?
    }

    /// Which way was chosen, and why: a line for the user.
    #[must_use]
    pub fn choice(&self) -> &str {
        &self.choice
    }

    /// The interface's hardware address.
    #[must_use]
    pub fn mac(&self) -> Mac {
        self.mac
    }

    /// The interface's MTU in bytes.
    #[must_use]
    pub fn mtu(&self) -> u32 {
        self.mtu
    }

    /// The two halves, which may be used by different threads.
    #[must_use]
    pub fn split(self) -> (Transmit, Receive) {
        (self.transmit, self.receive)
    }
}

/// The sending half.
///
/// A frame is written into a [`Slot`] and committed; [`Self::flush`] hands all that were committed to
/// the kernel. Nothing is allocated on the way.
#[derive(Debug)]
pub struct Transmit {
    way: Way,
    sent: Sent,
}

#[derive(Debug)]
enum Way {
    Xdp(xdp::Socket),
    Batch(batch::Socket),
}

/// Room for a frame.
#[derive(Debug)]
pub struct Slot<'a> {
    /// The whole room: what was left there by an earlier frame, or zeros. At least the longest frame of the
    /// interface, 2,048 bytes mostly, so that a frame may also be put behind a headroom.
    pub frame: &'a mut [u8],
    /// Whatever was written here when the slot was used before, 0 at first. A generator that sends the same
    /// but for a few fields may keep here what it is that the slot holds, and save copying it again.
    pub tag: &'a mut u64,
}

/// What was sent since the interface was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Frames the kernel took.
    pub frames: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Frames it did not take, by reason.
    pub refused: Vec<(DropReason, u64)>,
    /// Why frames that are queued stay there, if they do: the interface is down or gone.
    pub stuck: Option<DropReason>,
}

impl Sent {
    fn refuse(&mut self, reason: DropReason, frames: u64) {
        match self.refused.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, count)) => *count += frames,
            None => self.refused.push((reason, frames)),
        }
    }
}

impl Transmit {
    fn open(interface: &str, longest: usize, options: &Options) -> Result<(Self, String), SetupError> {
        let by_xdp = |socket: xdp::Socket| {
            let text = socket.to_string();
            (Self::by(Way::Xdp(socket)), text)
        };
        let by_batch = |segmented| {
            let socket = batch::Socket::open(interface, longest, segmented)?;
            let text = socket.to_string();
            Ok((Self::by(Way::Batch(socket)), text))
        };
        match options.choice {
            Choice::AfXdp => xdp::Socket::open(interface, options.queue, longest).map(by_xdp),
            Choice::AfPacket => by_batch(false),
            Choice::AfPacketSegmented => by_batch(true),
            Choice::Auto => match xdp::Socket::open(interface, options.queue, longest) {
                Ok(socket) => Ok(by_xdp(socket)),
                Err(reason) => by_batch(false)
                    .map(|(transmit, text)| (transmit, format!("{text}, since AF_XDP is not to be had ({reason})"))),
            },
        }
    }

    fn by(way: Way) -> Self {
        Self { way, sent: Sent::default() }
    }

    /// Room for the next frame, until [`Self::commit`] always the same. `None` if all is in use: then
    /// [`Self::flush`].
    #[inline]
    pub fn slot(&mut self) -> Option<Slot<'_>> {
        match &mut self.way {
            Way::Xdp(socket) => socket.slot(),
            Way::Batch(socket) => socket.slot(),
        }
    }

    /// Queues the frame that stands at `range` of the slot's room.
    ///
    /// # Panics
    ///
    /// If `range` is not inside the room, or there was no room.
    #[inline]
    pub fn commit(&mut self, range: Range<usize>) {
        match &mut self.way {
            Way::Xdp(socket) => socket.commit(range),
            Way::Batch(socket) => socket.commit(range),
        }
    }

    /// Hands what is queued to the kernel and returns how many frames it took. Frames it refuses are
    /// counted by their reason; frames it has no room for yet stay queued for the next call.
    #[inline]
    pub fn flush(&mut self) -> usize {
        match &mut self.way {
            Way::Xdp(socket) => socket.flush(&mut self.sent),
            Way::Batch(socket) => socket.flush(&mut self.sent),
        }
    }

    /// Queues a copy of each frame and flushes, in turns if there are more than there is room for. Returns
    /// how many were queued: less than all only if the kernel takes no more just now.
    pub fn send(&mut self, frames: &[&[u8]]) -> usize {
        for (index, frame) in frames.iter().enumerate() {
            if self.slot().is_none() {
                self.flush();
            }
            let Some(slot) = self.slot() else { return index };
            let Some(room) = slot.frame.get_mut(..frame.len()) else {
                self.sent.refuse(crate::port::WIRE_TOO_LONG, 1);
                continue;
            };
            room.copy_from_slice(frame);
            *slot.tag = 0;
            self.commit(0..frame.len());
        }
        self.flush();
        frames.len()
    }

    /// Frames that are queued and not with the kernel yet.
    #[must_use]
    pub fn queued(&self) -> usize {
        match &self.way {
            Way::Xdp(socket) => socket.queued(),
            Way::Batch(socket) => socket.queued(),
        }
    }

    /// What was sent so far.
    #[must_use]
    pub fn sent(&self) -> &Sent {
        &self.sent
    }
}
