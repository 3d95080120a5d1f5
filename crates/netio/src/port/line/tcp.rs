//! Lines over TCP, as terminal servers (ser2net) have them.

use std::fs::File;
use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use engine::Span;
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};

use super::file;
use crate::error::SetupError;

/// How long a connection may take to be made.
pub(super) const PATIENCE: Span = Span::from_secs(10);
/// After so long without a sign of life from the other end a connection is given up: the line may
/// have nothing to send for a while, and the other end may have lost its power.
const DEAD_AFTER: Duration = Duration::from_secs(15);

/// Makes connections, one after the other.
#[derive(Debug)]
pub(super) struct Connector {
    addresses: Vec<SocketAddr>,
    next: usize,
    pending: Option<File>,
}

impl Connector {
    pub(super) fn new(target: &str) -> Result<Self, SetupError> {
        let failed = |source| SetupError::new(format!("look up {target}"), source);
        let addresses: Vec<_> = target.to_socket_addrs().map_err(failed)?.collect();
        if addresses.is_empty() {
            return Err(failed(io::ErrorKind::NotFound.into()));
        }
        Ok(Self { addresses, next: 0, pending: None })
    }

    /// Begins a connection to the next address.
    pub(super) fn begin(&mut self) -> io::Result<()> {
        let address = self.addresses[self.next % self.addresses.len()];
        self.next += 1;
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        set_up(&SockRef::from(&socket))?;
        match socket.connect(&address.into()) {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {}
            Err(error) => return Err(error),
        }
        self.pending = Some(file(socket));
        Ok(())
    }

    pub(super) fn pending(&self) -> Option<&File> {
        self.pending.as_ref()
    }

    /// Gives up the connection that is being made.
    pub(super) fn give_up(&mut self) -> Option<File> {
        self.pending.take()
    }

    /// The connection that was being made, and whether it was.
    pub(super) fn outcome(&mut self) -> Option<(File, io::Result<()>)> {
        let socket = self.pending.take()?;
        let outcome = match SockRef::from(&socket).take_error() {
            Ok(None) => Ok(()),
            Ok(Some(error)) | Err(error) => Err(error),
        };
        Some((socket, outcome))
    }
}

/// Takes connections.
#[derive(Debug)]
pub(super) struct Listener(TcpListener);

impl Listener {
    pub(super) fn bind(target: &str) -> Result<Self, SetupError> {
        let failed = |source| SetupError::new(format!("listen on {target}"), source);
        let listener = TcpListener::bind(target).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        Ok(Self(listener))
    }

    pub(super) fn accept(&self) -> io::Result<File> {
        let (socket, _) = self.0.accept()?;
        set_up(&SockRef::from(&socket))?;
        Ok(file(socket))
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn set_up(socket: &SockRef<'_>) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    // Characters leave as they are written.
    socket.set_tcp_nodelay(true)?;
    let alive = TcpKeepalive::new().with_time(DEAD_AFTER / 3).with_interval(DEAD_AFTER / 3).with_retries(2);
    socket.set_tcp_keepalive(&alive)?;
    socket.set_tcp_user_timeout(Some(DEAD_AFTER))
}
