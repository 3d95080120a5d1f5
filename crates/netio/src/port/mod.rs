//! Wires: where frames leave a site's kernel for the emulator and come back.
//!
//! Two ways, behind one face. A TAP hands every frame straight to us and takes frames straight into
//! the site's receive path. Where `/dev/net/tun` may not be opened, and for the machine's own
//! interfaces, a packet socket with a receive ring does the same. Both carry `virtio_net_hdr`, so
//! that super-frames and unfinished checksums pass ([`crate::offload`]).
//!
//! # Queues of their own
//!
//! A frame that the site sent waits in the TAP's ring ([`Options::queue`] frames; in the packet
//! socket's ring: [`Packet`]'s docs) until the executor reads it, which it does as soon as it runs:
//! the ring holds what arrives between two readings, and some milliseconds' worth after a stall.
//! It is no part of the emulated link. What does not fit is dropped by the kernel and counted
//! ([`Wire::kernel_drops`]). The interface's queueing discipline never holds anything, as a TAP
//! without room drops instead of pushing back (seen up to Linux 6.18), and a veth has none. On the
//! way in there is no queue: a write runs the site's receive path at once.

pub mod line;
mod packet;
mod tap;

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use engine::{DropReason, Packet as Frame, Pool};

use crate::error::SetupError;
use crate::offload;
use crate::site::{Mac, Net};

pub use line::Line;
pub use packet::Packet;
pub use tap::Tap;

/// No room in the kernel to write to a wire.
pub const WIRE_FULL: DropReason = DropReason("wire full");
/// The interface is down or gone.
pub const WIRE_DOWN: DropReason = DropReason("wire down");
/// The frame is longer than the interface's MTU allows.
pub const WIRE_TOO_LONG: DropReason = DropReason("longer than the wire takes");
/// The kernel refused the frame for another reason.
pub const WIRE_REFUSED: DropReason = DropReason("refused by the wire");

/// How the emulator is joined to a site or an interface.
#[derive(Debug)]
pub enum Wire {
    /// By a TAP in the site.
    Tap(Tap),
    /// By a packet socket on the far end of a veth pair, or on an interface of the machine.
    Packet(Packet),
    /// By a line that carries characters: no frames, but runs of them.
    Line(Line),
}

/// What kind of wire is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// A TAP, and where that is not to be had a veth pair.
    #[default]
    Auto,
    /// A TAP or an error.
    Tap,
    /// A veth pair with a packet socket.
    Veth,
}

/// A wire into a site.
#[derive(Clone, Debug)]
pub struct Options {
    /// Name of the site's interface, at most 15 bytes.
    pub name: String,
    /// Its hardware address; drawn by the kernel if absent.
    pub mac: Option<Mac>,
    /// Its MTU in bytes.
    pub mtu: u32,
    /// Length of the TAP's ring (`txqueuelen`) in frames, super-frames counting as one.
    pub queue: u32,
    /// What kind of wire.
    pub kind: Kind,
}

impl Options {
    /// An Ethernet interface with an MTU of 1500 and a ring of 1,000 frames.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), mac: None, mtu: 1500, queue: 1000, kind: Kind::Auto }
    }
}

/// Which wire was made, and why that one: a line for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice(String);

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What one call of [`Wire::receive`] brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Frames read.
    pub frames: usize,
    /// Of these, frames that could not be used: truncated, or super-frames of a kind nobody asked
    /// for.
    pub malformed: usize,
    /// There may be more: the limit was reached.
    pub more: bool,
}

/// What one call of [`Wire::send`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// How many packets from the front of the slice are dealt with.
    pub packets: usize,
    /// Why they did not go out, if they did not.
    pub refused: Option<DropReason>,
}

/// Work space for a thread's wires.
#[derive(Debug)]
pub struct Scratch {
    frame: Box<[u8]>,
    pieces: tap::Pieces,
    messages: packet::Messages,
}

impl Scratch {
    /// Work space for one thread.
    #[must_use]
    pub fn new() -> Self {
        Self {
            frame: vec![0; offload::VNET_HEADER_LEN + offload::FRAME_MAX].into_boxed_slice(),
            pieces: tap::Pieces::default(),
            messages: packet::Messages::default(),
        }
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

impl Wire {
    /// Takes frames that are there, cuts super-frames, and appends the packets to `out`, until it
    /// has brought `limit` packets or there are no more. Never waits.
    ///
    /// # Errors
    ///
    /// If the wire is broken; that it has nothing to give is none.
    pub fn receive(
        &mut self,
        scratch: &mut Scratch,
        pool: &mut Pool,
        out: &mut Vec<Frame>,
        limit: usize,
    ) -> io::Result<Received> {
        match self {
            Self::Tap(tap) => tap.receive(scratch, pool, out, limit),
            Self::Packet(socket) => Ok(socket.receive(scratch, pool, out, limit)),
            Self::Line(line) => Ok(line.receive(pool, out, limit)),
        }
    }

    /// Writes packets from the front of `packets` (not empty): as many as go in one system call,
    /// consecutive segments of a flow as one frame. Never waits.
    pub fn send(&mut self, scratch: &mut Scratch, packets: &[Frame]) -> Sent {
        match self {
            Self::Tap(tap) => tap.send(scratch, packets),
            Self::Packet(socket) => socket.send(scratch, packets),
            Self::Line(line) => line.send(packets),
        }
    }

    /// To be called when epoll reports an error: whether the wire is of use still. A packet socket
    /// survives that its interface was taken down.
    ///
    /// # Errors
    ///
    /// If the interface is gone for good.
    pub fn recover(&mut self) -> io::Result<()> {
        match self {
            Self::Tap(tap) => tap.recover(),
            Self::Packet(socket) => socket.recover(),
            // What goes away and comes back is watched inside.
            Self::Line(_) => Ok(()),
        }
    }

    /// Frames (of a line: characters) the kernel dropped for want of room, between the site and us, since the wire was
    /// made; see the module's docs.
    ///
    /// # Errors
    ///
    /// If the interface is gone.
    pub fn kernel_drops(&mut self) -> Result<u64, SetupError> {
        match self {
            Self::Tap(tap) => tap.drops(),
            Self::Packet(socket) => socket.drops(),
            Self::Line(line) => Ok(line.drops()),
        }
    }
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tap(tap) => tap.as_fd(),
            Self::Packet(socket) => socket.as_fd(),
            Self::Line(line) => line.as_fd(),
        }
    }
}

impl Net {
    /// Makes a wire into the site. Its interface is down; it is up to the caller to give it
    /// addresses and take it up.
    ///
    /// # Errors
    ///
    /// If the kernel has neither TAPs nor veth pairs for us, or not the one asked for.
    pub fn wire(&self, options: &Options) -> Result<(Wire, Choice), SetupError> {
        let (wire, choice) = match options.kind {
            Kind::Tap => {
                let tap = Tap::create(&options.name)?;
                let text = tap.to_string();
                (Wire::Tap(tap), text)
            }
            Kind::Veth => {
                let socket = Packet::veth(self, options)?;
                let text = format!("{socket}, as asked for");
                (Wire::Packet(socket), text)
            }
            Kind::Auto => match Tap::create(&options.name) {
                Ok(tap) => {
                    let text = tap.to_string();
                    (Wire::Tap(tap), text)
                }
                Err(reason) => {
                    let socket = Packet::veth(self, options)?;
                    let text = format!("{socket}, since a TAP is not to be had ({reason})");
                    (Wire::Packet(socket), text)
                }
            },
        };
        if let Some(mac) = options.mac {
            self.mac(&options.name, mac)?;
        }
        self.mtu(&options.name, options.mtu)?;
        if let Wire::Tap(_) = wire {
            self.queue_length(&options.name, options.queue)?;
        }
        Ok((wire, Choice(choice)))
    }
}

/// The reason for a drop, by what a write returned.
pub(crate) fn reason(error: &io::Error) -> DropReason {
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM) => WIRE_FULL,
        Some(libc::EIO | libc::ENETDOWN | libc::ENXIO | libc::ENODEV | libc::EBADFD) => WIRE_DOWN,
        Some(libc::EMSGSIZE) => WIRE_TOO_LONG,
        _ => WIRE_REFUSED,
    }
}
