//! A packet socket with `virtio_net_hdr` and a receive ring.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use engine::{Packet as Frame, Pool};

use super::{Options, Received, Scratch, Sent, reason};
use crate::error::SetupError;
use crate::ethtool;
use crate::offload::{self, FRAME_MAX, RUN_MAX, Run, VNET_HEADER_LEN};
use crate::packet_socket::{self, Ring, Use};
use crate::site::{Namespace, Net, index_of};
use crate::sys::check;

/// A packet socket on the far end of a veth pair or on an interface of the machine.
///
/// Frames wait for us in a ring that is shared with the kernel: 240 frames for a veth pair, 960 for
/// an interface of the machine, 120 for an interface whose frames go to a slow line, each of up to 64 KiB
/// (16, 63 and 8 MiB). A ring, unlike a socket's
/// buffer, does not depend on `net.core.rmem_max`, which an ordinary user cannot raise.
///
/// On an interface of the machine the socket sees all that comes in (it makes it promiscuous) and
/// nothing that goes out. The machine's own stack sees the same frames: the interface should have no
/// addresses. What we write bypasses the interface's queueing discipline, which would be a second
/// queue behind the emulated one.
///
/// A tunnel's super-frames cannot be described to us. On a veth pair the kernel is told to cut them;
/// on an interface of the machine that is the sender's affair, and they count as malformed or among
/// the kernel's drops.
#[derive(Debug)]
pub struct Packet {
    socket: OwnedFd,
    ring: Ring,
    dropped: u64,
    /// The namespace of the near end, which keeps it alive.
    hub: Option<Namespace>,
}

/// Super-frames that a packet socket's `virtio_net_hdr` cannot describe: the kernel is to cut them
/// before they reach us.
const UNDESCRIBED: [&str; 10] = [
    "tx-gre-segmentation",
    "tx-gre-csum-segmentation",
    "tx-ipxip4-segmentation",
    "tx-ipxip6-segmentation",
    "tx-udp_tnl-segmentation",
    "tx-udp_tnl-csum-segmentation",
    "tx-tunnel-remcsum-segmentation",
    "tx-sctp-segmentation",
    "tx-esp-segmentation",
    "tx-gso-list",
];

impl Packet {
    /// Makes a veth pair between the calling thread's namespace and a new one, where the socket is.
    pub(super) fn veth(net: &Net, options: &Options) -> Result<Self, SetupError> {
        let hub = Namespace::new()?;
        net.veth(&options.name, &hub, "wire")?;
        ethtool::switch_off(&options.name, &UNDESCRIBED)?;
        let (socket, ring) = hub.configure(|net| {
            net.ipv6("wire", false)?;
            net.mtu("wire", options.mtu)?;
            let opened = open("wire", 16)?;
            net.up("wire")?;
            Ok(opened)
        })?;
        Ok(Self { socket, ring, dropped: 0, hub: Some(hub) })
    }

    /// Takes an interface of the machine; `host` is its namespace
    /// ([`crate::sandbox::host_network`]).
    ///
    /// # Errors
    ///
    /// If there is no such interface, or the privilege is missing.
    pub fn interface(host: &Namespace, name: &str) -> Result<Self, SetupError> {
        let (socket, ring) = host.run(|| open(name, 64))??;
        Ok(Self { socket, ring, dropped: 0, hub: None })
    }

    /// Takes an interface of the namespace the calling thread is in, with a small ring: for a slow line,
    /// which has its own queues. Needs `CAP_NET_RAW` there.
    ///
    /// # Errors
    ///
    /// If there is no such interface, or the privilege is missing.
    pub fn interface_for_line(name: &str) -> Result<Self, SetupError> {
        let (socket, ring) = open(name, SMALL)?;
        Ok(Self { socket, ring, dropped: 0, hub: None })
    }

    pub(super) fn receive(
        &mut self,
        scratch: &mut Scratch,
        pool: &mut Pool,
        out: &mut Vec<Frame>,
        limit: usize,
    ) -> Received {
        let mut received = Received { more: true, ..Received::default() };
        let limit = out.len() + limit;
        while out.len() < limit {
            let Some(mut slot) = self.ring.next() else {
                received.more = false;
                break;
            };
            received.frames += 1;
            let usable = slot
                .frame(&mut scratch.frame)
                .and_then(|(header, frame)| offload::cut(&header, frame, pool, out).ok())
                .is_some();
            received.malformed += usize::from(!usable);
        }
        received
    }

    pub(super) fn send(&mut self, scratch: &mut Scratch, packets: &[Frame]) -> Sent {
        scratch.messages.send(self.socket.as_raw_fd(), packets)
    }

    pub(super) fn recover(&self) -> io::Result<()> {
        let mut code: libc::c_int = 0;
        let mut length = size_of_val(&code) as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` bytes to `code`. Reading the error clears it.
        check(unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_ERROR,
                (&raw mut code).cast(),
                &raw mut length,
            )
        })?;
        match code {
            0 | libc::ENETDOWN => Ok(()),
            code => Err(io::Error::from_raw_os_error(code)),
        }
    }

    pub(super) fn drops(&mut self) -> Result<u64, SetupError> {
        let drops = packet_socket::drops(&self.socket)
            .map_err(|source| SetupError::new("read the counters of a packet socket", source))?;
        // Reading them sets them to zero.
        self.dropped += u64::from(drops);
        Ok(self.dropped)
    }
}

impl AsFd for Packet {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl fmt::Display for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.hub.is_some() { "veth pair" } else { "interface" };
        write!(f, "{what} with a packet socket, virtio_net_hdr and a receive ring")
    }
}

/// MiB of a ring for a slow line: what a burst on a LAN of 1 Gbit/s brings in 1 ms.
const SMALL: usize = 8;

/// Opens a socket on an interface of the calling thread's namespace; its ring has `blocks` MiB.
fn open(name: &str, blocks: usize) -> Result<(OwnedFd, Ring), SetupError> {
    let failed = |doing: &str| {
        let doing = format!("{doing} the packet socket on {name}");
        move |source| SetupError::new(doing, source)
    };
    let index = index_of(name)?;
    let socket = packet_socket::open().map_err(failed("open"))?;
    for option in [libc::PACKET_IGNORE_OUTGOING, libc::PACKET_QDISC_BYPASS] {
        packet_socket::set(&socket, option, &1_i32).map_err(failed("set up"))?;
    }
    let ring = Ring::map(&socket, blocks, FRAME_MAX).map_err(failed("map the ring of"))?;
    packet_socket::make_promiscuous(&socket, index).map_err(failed("make promiscuous"))?;
    packet_socket::bind(&socket, index, Use::Both).map_err(failed("bind"))?;
    Ok((socket, ring))
}

/// Room for what one `sendmmsg` takes.
#[derive(Default)]
pub(super) struct Messages {
    runs: Vec<(Run, [u8; VNET_HEADER_LEN])>,
    pieces: Vec<libc::iovec>,
    messages: Vec<libc::mmsghdr>,
}

impl Messages {
    /// Frames a call takes, at most.
    const FRAMES: usize = 32;

    fn send(&mut self, socket: libc::c_int, packets: &[Frame]) -> Sent {
        let (runs, pieces, messages) = (&mut self.runs, &mut self.pieces, &mut self.messages);
        runs.clear();
        pieces.clear();
        messages.clear();
        // All room there will be, so that no pointer taken below moves.
        runs.reserve(Self::FRAMES);
        pieces.reserve(Self::FRAMES * 2 + RUN_MAX * Self::FRAMES);
        let mut rest = packets;
        while !rest.is_empty() && runs.len() < Self::FRAMES {
            let run = offload::run(rest);
            rest = &rest[run.packets..];
            runs.push((run, run.vnet.emit()));
        }
        let mut rest = packets;
        for (run, header) in runs.iter() {
            let first = pieces.len();
            for piece in std::iter::once(&header[..]).chain(run.pieces(rest)) {
                pieces.push(libc::iovec { iov_base: piece.as_ptr().cast_mut().cast(), iov_len: piece.len() });
            }
            rest = &rest[run.packets..];
            // SAFETY: plain data, valid when zeroed: no address, no control data.
            let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
            message.msg_hdr.msg_iov = pieces[first..].as_mut_ptr();
            message.msg_hdr.msg_iovlen = pieces.len() - first;
            messages.push(message);
        }
        // SAFETY: each message points to pieces, which point into `runs` and `packets`; none of them
        // moves or ends before the call returns, and the kernel only reads the frames.
        let sent = unsafe {
            libc::sendmmsg(socket, messages.as_mut_ptr(), messages.len() as libc::c_uint, libc::MSG_DONTWAIT)
        };
        match usize::try_from(sent) {
            Ok(sent) => Sent { packets: runs[..sent].iter().map(|(run, _)| run.packets).sum(), refused: None },
            // The error is the first frame's; those behind it are tried in the next call.
            Err(_) => Sent { packets: runs[0].0.packets, refused: Some(reason(&io::Error::last_os_error())) },
        }
    }
}

// SAFETY: the pointers inside are dead between calls of `send`.
unsafe impl Send for Messages {}

impl fmt::Debug for Messages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Messages").finish_non_exhaustive()
    }
}
