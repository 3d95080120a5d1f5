//! A TAP with `virtio_net_hdr`.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use engine::{Packet as Frame, Pool};

use super::{Received, Scratch, Sent, reason};
use crate::error::SetupError;
use crate::offload::{self, RUN_MAX, VNET_HEADER_LEN, VnetHeader};
use crate::site::{self, Namespace};
use crate::sys::{check, check_len, interface_request};

/// A TAP: an Ethernet interface of a site whose cable is this file. The interface goes away with it.
#[derive(Debug)]
pub struct Tap {
    file: File,
    name: String,
    site: Namespace,
    uso: bool,
}

/// Linux's `TUN_F_TSO_ECN`, which the libc crate has under another width.
const TSO_ECN: libc::c_uint = 0x08;

impl Tap {
    /// Creates the interface in the calling thread's namespace.
    pub(super) fn create(name: &str) -> Result<Self, SetupError> {
        let path = "/dev/net/tun";
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(path)
            .map_err(|source| SetupError::new(format!("open {path}"), source))?;
        let failed = |doing: &str| {
            let doing = format!("{doing} {name}");
            move |source| SetupError::new(doing, source)
        };
        let mut request = interface_request(name).map_err(failed("create the TAP"))?;
        request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as libc::c_short;
        // SAFETY: the ioctl reads and writes one ifreq, ours.
        check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) })
            .map_err(failed("create the TAP"))?;
        let base = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | TSO_ECN;
        let offload = |flags: libc::c_uint| {
            // SAFETY: the ioctl takes its argument by value.
            check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD, libc::c_ulong::from(flags)) })
        };
        // USO came with Linux 6.2.
        let uso = offload(base | libc::TUN_F_USO4 | libc::TUN_F_USO6).is_ok();
        if !uso {
            offload(base).map_err(failed("set the offloads of"))?;
        }
        Ok(Self { file, name: name.into(), site: Namespace::current()?, uso })
    }

    pub(super) fn receive(
        &mut self,
        scratch: &mut Scratch,
        pool: &mut Pool,
        out: &mut Vec<Frame>,
        limit: usize,
    ) -> io::Result<Received> {
        let mut received = Received { more: true, ..Received::default() };
        let limit = out.len() + limit;
        while out.len() < limit {
            let length = match self.file.read(&mut scratch.frame) {
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    received.more = false;
                    break;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            received.frames += 1;
            let usable = scratch.frame[..length]
                .split_first_chunk::<VNET_HEADER_LEN>()
                .and_then(|(header, frame)| VnetHeader::parse(header).ok().map(|header| (header, frame)))
                .is_some_and(|(header, frame)| offload::cut(&header, frame, pool, out).is_ok());
            received.malformed += usize::from(!usable);
        }
        Ok(received)
    }

    pub(super) fn send(&mut self, scratch: &mut Scratch, packets: &[Frame]) -> Sent {
        let run = offload::run(packets);
        let header = run.vnet.emit();
        let pieces = &mut scratch.pieces.0;
        let mut count = 0;
        for piece in std::iter::once(&header[..]).chain(run.pieces(packets)) {
            pieces[count] = libc::iovec { iov_base: piece.as_ptr().cast_mut().cast(), iov_len: piece.len() };
            count += 1;
        }
        // SAFETY: the first `count` pieces point into `header`, `run` and `packets`, which outlive
        // the call; writev(2) only reads them.
        let written = check_len(unsafe {
            libc::writev(self.file.as_raw_fd(), pieces.as_ptr(), libc::c_int::try_from(count).unwrap_or(0))
        });
        Sent { packets: run.packets, refused: written.err().map(|error| reason(&error)) }
    }

    /// An error is only reported for an interface that was deleted under us.
    pub(super) fn recover(&self) -> io::Result<()> {
        Err(io::Error::new(io::ErrorKind::NotFound, format!("the interface {} was deleted", self.name)))
    }

    pub(super) fn drops(&self) -> Result<u64, SetupError> {
        let counters = self.site.run(|| site::counters(&self.name))??;
        Ok(counters.tx_dropped)
    }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl fmt::Display for Tap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TAP with virtio_net_hdr, TSO{}", if self.uso { " and USO" } else { " (no USO in this kernel)" })
    }
}

/// Room for a run's pieces: header, joint headers, payloads.
#[derive(Debug)]
pub(super) struct Pieces([libc::iovec; RUN_MAX + 2]);

impl Default for Pieces {
    fn default() -> Self {
        Self([libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; RUN_MAX + 2])
    }
}
