//! A line that carries characters: a serial device, a pseudo-terminal, a TCP connection.
//!
//! A wire without packets of its own: what one reading brings is one run of characters, and a packet
//! that leaves is written as it is. Nothing ever waits. What a device does not take at once is refused
//! by name ([`super::WIRE_FULL`]) with the rest of its run; a sender that keeps to the line's pace never
//! sees that.
//!
//! # A line that goes away
//!
//! A USB adapter is pulled out, a connection breaks: the line is down then, and what is sent is refused
//! ([`super::WIRE_DOWN`]). A device is opened and a connection made anew every [`RETRY`] until that
//! succeeds, and the same holds for a device that is not there at the start; a listener takes the next connection. How often is counted ([`Status`]).
//!
//! The executor watches one descriptor for as long as the wire lives: an epoll instance of the wire's
//! own, in which device, listener and timer come and go.

mod tcp;
mod tty;

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use engine::{Packet as Frame, Pool, Span};
use link::characters::Framing;

use super::{Received, Sent, WIRE_DOWN, WIRE_FULL};
use crate::error::SetupError;
use crate::waiting::{Epoll, Timer};

use tcp::{Connector, Listener};
use tty::Device;
pub use tty::Pty;

/// How long after it was lost, or a try to get it failed, a device or connection is tried again.
pub const RETRY: Span = Span::from_millis(500);

/// Characters one reading takes at most.
const READ: usize = 4096;

/// What a line is reached by, as it is written on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A serial device or the end of a pseudo-terminal, by its path.
    Device(PathBuf),
    /// `tcp:HOST:PORT`: a connection to a terminal server.
    Connect(String),
    /// `tcp-listen:PORT` or `tcp-listen:HOST:PORT`: the connection that somebody makes to us. A new one
    /// takes the place of the one before it.
    Listen(String),
}

/// How a serial device is set. Without flow control; modem lines are ignored. With a parity bit
/// characters in which it is wrong are discarded, as are those with framing errors and breaks
/// (`INPCK`, `IGNPAR`, `IGNBRK`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Bits a second; any that the device can do.
    pub baud: u32,
    /// What is around a character.
    pub framing: Framing,
}

/// What happened to a line, for whoever watches: it changes as the line is used.
#[derive(Debug, Default)]
pub struct Status {
    up: AtomicBool,
    begun: AtomicU64,
    lost: AtomicU64,
    read: AtomicU64,
    written: AtomicU64,
    refused: AtomicU64,
}

/// What [`Status`] says at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// There is a device or connection.
    pub up: bool,
    /// How often one was got.
    pub begun: u64,
    /// How often one was lost.
    pub lost: u64,
    /// Characters read.
    pub read: u64,
    /// Characters written.
    pub written: u64,
    /// Characters not written: the device was full, or there was none.
    pub refused: u64,
}

/// A line at work.
#[derive(Debug)]
pub struct Line {
    epoll: Epoll,
    timer: Timer,
    source: Source,
    /// What is read and written, when there is something.
    open: Option<File>,
    status: Arc<Status>,
    buffer: Box<[u8]>,
}

/// Where descriptors come from.
#[derive(Debug)]
enum Source {
    Device(Device),
    Connect(Connector),
    Listen(Listener),
    Pty(Pty),
}

/// Marks among the events of a line's own epoll.
const DATA: u64 = 0;
const TIMER: u64 = 1;
const LISTENER: u64 = 2;

impl Line {
    /// Opens a line. A device that is not there is waited for, as one that went away; [`Status`] tells.
    /// A connection is made in the background, to an address that is looked up here, once.
    ///
    /// # Errors
    ///
    /// The device is there and cannot be opened or set so, or somebody else uses it; the host is unknown;
    /// the port is taken.
    pub fn open(address: &Address, settings: Settings) -> Result<Self, SetupError> {
        match address {
            Address::Device(path) => {
                let device = Device { path: path.clone(), settings };
                let file = match device.open() {
                    Ok(file) => Some(file),
                    Err(error) if Device::may_come(&error) => None,
                    Err(source) => return Err(SetupError::new(format!("open the line {}", path.display()), source)),
                };
                Self::new(Source::Device(device), file)
            }
            Address::Connect(target) => Self::new(Source::Connect(Connector::new(target)?), None),
            Address::Listen(target) => Self::new(Source::Listen(Listener::bind(target)?), None),
        }
    }

    /// Our side of a pseudo-terminal, whose other side is for somebody else.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn pty(pty: Pty) -> Result<Self, SetupError> {
        let file = pty.ours().map_err(|source| SetupError::new("duplicate a pseudo-terminal", source))?;
        Self::new(Source::Pty(pty), Some(file))
    }

    fn new(source: Source, open: Option<File>) -> Result<Self, SetupError> {
        let failed = |source| SetupError::new("watch a line", source);
        let epoll = Epoll::new().map_err(failed)?;
        let timer = Timer::new().map_err(failed)?;
        epoll.add_readable(&timer, TIMER).map_err(failed)?;
        if let Source::Listen(listener) = &source {
            epoll.add_readable(listener, LISTENER).map_err(failed)?;
        }
        let buffer = vec![0; READ].into_boxed_slice();
        let mut line = Self { epoll, timer, source, open: None, status: Arc::default(), buffer };
        match open {
            Some(file) => line.begin(file).map_err(failed)?,
            None => line.retry(Span::from_nanos(1)),
        }
        Ok(line)
    }

    /// What happens to the line, to be looked at while the executor has it.
    #[must_use]
    pub fn status(&self) -> Arc<Status> {
        Arc::clone(&self.status)
    }

    pub(super) fn receive(&mut self, pool: &mut Pool, out: &mut Vec<Frame>, limit: usize) -> Received {
        let mut readable = false;
        for ready in self.epoll.wait(Some(Span::ZERO)) {
            match ready.token {
                TIMER => {
                    self.timer.clear();
                    self.try_again();
                }
                LISTENER => self.accept(),
                _ if self.open.is_some() => readable = true,
                _ => self.connected(),
            }
        }
        let mut received = Received::default();
        while readable && received.frames < limit {
            let Some(file) = &mut self.open else { break };
            match file.read(&mut self.buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return received,
                // The end of a connection; a terminal that was hung up.
                Ok(0) | Err(_) => {
                    self.lose();
                    return received;
                }
                Ok(length) => {
                    self.status.read.fetch_add(length as u64, Ordering::Relaxed);
                    let mut bytes = pool.take();
                    bytes.extend_from_slice(&self.buffer[..length]);
                    out.push(Frame::new(bytes));
                    received.frames += 1;
                }
            }
        }
        received.more = readable;
        received
    }

    pub(super) fn send(&mut self, packets: &[Frame]) -> Sent {
        let Some(packet) = packets.first() else { return Sent { packets: 0, refused: None } };
        let written = match &mut self.open {
            None => Err(WIRE_DOWN),
            Some(file) => match file.write(&packet.bytes) {
                Ok(written) => Ok(written),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
                Err(_) => {
                    self.lose();
                    Err(WIRE_DOWN)
                }
            },
        };
        let (written, refused) = match written {
            Ok(written) => (written, (written < packet.len()).then_some(WIRE_FULL)),
            Err(reason) => (0, Some(reason)),
        };
        self.status.written.fetch_add(written as u64, Ordering::Relaxed);
        self.status.refused.fetch_add((packet.len() - written) as u64, Ordering::Relaxed);
        Sent { packets: 1, refused }
    }

    /// Characters that the device lost for want of room, since it was opened last.
    pub(super) fn drops(&self) -> u64 {
        self.open.as_ref().map_or(0, tty::overruns)
    }

    fn begin(&mut self, file: File) -> io::Result<()> {
        self.epoll.add_readable(&file, DATA)?;
        self.open = Some(file);
        self.status.begun.fetch_add(1, Ordering::Relaxed);
        self.status.up.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// The device or connection is gone.
    fn lose(&mut self) {
        if let Some(file) = self.open.take() {
            self.epoll.remove(&file);
            self.status.up.store(false, Ordering::Relaxed);
            self.status.lost.fetch_add(1, Ordering::Relaxed);
        }
        self.retry(RETRY);
    }

    fn retry(&mut self, after: Span) {
        // That this fails is not known of any kernel; the line would stay down then.
        let _ = self.timer.set(after);
    }

    /// The timer went off: a device is opened, a connection begun or given up.
    fn try_again(&mut self) {
        if self.open.is_some() {
            return;
        }
        let opened = match &mut self.source {
            Source::Device(device) => device.open(),
            Source::Pty(pty) => pty.ours(),
            Source::Listen(_) => return,
            Source::Connect(connector) => {
                if let Some(late) = connector.give_up() {
                    self.epoll.remove(&late);
                    return self.retry(RETRY);
                }
                let begun = connector.begin().and_then(|()| match connector.pending() {
                    Some(socket) => self.epoll.add_edges(socket, DATA),
                    None => Ok(()),
                });
                return self.retry(if begun.is_ok() { tcp::PATIENCE } else { RETRY });
            }
        };
        if opened.and_then(|file| self.begin(file)).is_err() {
            self.retry(RETRY);
        }
    }

    /// Something happened to the connection that is being made.
    fn connected(&mut self) {
        let Source::Connect(connector) = &mut self.source else { return };
        match connector.outcome() {
            None => {}
            Some((socket, outcome)) => {
                self.epoll.remove(&socket);
                if outcome.is_err() || self.begin(socket).is_err() {
                    self.retry(RETRY);
                }
            }
        }
    }

    fn accept(&mut self) {
        let Source::Listen(listener) = &self.source else { return };
        let Ok(socket) = listener.accept() else { return };
        if self.open.is_some() {
            self.lose();
        }
        // A connection that cannot be watched is closed again.
        let _ = self.begin(socket);
    }
}

impl AsFd for Line {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl Status {
    /// What is counted by now.
    #[must_use]
    pub fn counted(&self) -> Counted {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counted {
            up: self.up.load(Ordering::Relaxed),
            begun: read(&self.begun),
            lost: read(&self.lost),
            read: read(&self.read),
            written: read(&self.written),
            refused: read(&self.refused),
        }
    }
}

/// Text that is no address of a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no line; write a device as `/dev/ttyUSB0`, a connection as `tcp:HOST:PORT`, or `tcp-listen:PORT` to be connected to"
)]
pub struct AddressError(String);

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let refused = || AddressError(text.into());
        let port = |port: &str| port.parse::<u16>().ok().filter(|port| *port > 0);
        if let Some(target) = text.strip_prefix("tcp:") {
            let (host, number) = target.rsplit_once(':').ok_or_else(refused)?;
            port(number).filter(|_| !host.is_empty()).ok_or_else(refused)?;
            return Ok(Self::Connect(target.into()));
        }
        if let Some(target) = text.strip_prefix("tcp-listen:") {
            let (host, number) = target.rsplit_once(':').unwrap_or(("[::]", target));
            port(number).filter(|_| !host.is_empty()).ok_or_else(refused)?;
            return Ok(Self::Listen(format!("{host}:{number}")));
        }
        if text.is_empty() || !text.contains('/') {
            return Err(refused());
        }
        Ok(Self::Device(text.into()))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(path) => path.display().fmt(f),
            Self::Connect(target) => write!(f, "tcp:{target}"),
            Self::Listen(target) => write!(f, "tcp-listen:{target}"),
        }
    }
}

/// A descriptor as a file, for reading and writing.
fn file(fd: impl Into<OwnedFd>) -> File {
    File::from(fd.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_are_written() {
        let read = |text: &str| text.parse::<Address>();
        assert_eq!(read("/dev/ttyUSB0"), Ok(Address::Device("/dev/ttyUSB0".into())));
        assert_eq!(read("./a"), Ok(Address::Device("./a".into())));
        assert_eq!(read("tcp:radio.local:4001"), Ok(Address::Connect("radio.local:4001".into())));
        assert_eq!(read("tcp:[fe80::1]:4001"), Ok(Address::Connect("[fe80::1]:4001".into())));
        assert_eq!(read("tcp-listen:4001"), Ok(Address::Listen("[::]:4001".into())));
        assert_eq!(read("tcp-listen:127.0.0.1:4001"), Ok(Address::Listen("127.0.0.1:4001".into())));
        for wrong in ["", "ttyUSB0", "tcp:4001", "tcp:host:0", "tcp:host:port", "tcp-listen:", "tcp-listen:99999"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        for text in ["/dev/ttyUSB0", "tcp:a:1", "tcp-listen:0.0.0.0:1"] {
            assert_eq!(read(text).map(|address| address.to_string()).as_deref(), Ok(text));
        }
    }
}
