//! A packet socket with `virtio_net_hdr` and a receive ring.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use engine::{Packet as Frame, Pool};

use super::{Options, Received, Scratch, Sent, reason};
use crate::error::SetupError;
use crate::ethtool;
use crate::offload::{self, FRAME_MAX, RUN_MAX, Run, VNET_HEADER_LEN, VnetHeader};
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
            let Some(slot) = self.ring.next() else {
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
        // SAFETY: plain counters, valid when zeroed.
        let mut counts: libc::tpacket_stats = unsafe { std::mem::zeroed() };
        let mut length = size_of_val(&counts) as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` bytes to `counts`.
        check(unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut counts).cast(),
                &raw mut length,
            )
        })
        .map_err(|source| SetupError::new("read the counters of a packet socket", source))?;
        // Reading them sets them to zero.
        self.dropped += u64::from(counts.tp_drops);
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
    // SAFETY: the descriptor is new and ours alone.
    let socket =
        check(unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC, 0) })
            .map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
            .map_err(failed("open"))?;
    let version = libc::tpacket_versions::TPACKET_V2 as libc::c_int;
    for (option, value) in [
        (libc::PACKET_VERSION, version),
        (libc::PACKET_VNET_HDR, 1),
        (libc::PACKET_IGNORE_OUTGOING, 1),
        (libc::PACKET_QDISC_BYPASS, 1),
    ] {
        set(&socket, option, &value).map_err(failed("set up"))?;
    }
    let ring = Ring::map(&socket, blocks).map_err(failed("map the ring of"))?;
    let promiscuous = libc::packet_mreq {
        mr_ifindex: index.cast_signed(),
        mr_type: libc::PACKET_MR_PROMISC as libc::c_ushort,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set(&socket, libc::PACKET_ADD_MEMBERSHIP, &promiscuous).map_err(failed("make promiscuous"))?;
    // SAFETY: plain data, valid when zeroed.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as libc::c_ushort;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = index.cast_signed();
    // SAFETY: the kernel reads one sockaddr_ll, ours. Nothing is received before this call, so that
    // the ring only ever holds this interface's frames.
    check(unsafe {
        libc::bind(socket.as_raw_fd(), (&raw const address).cast(), size_of_val(&address) as libc::socklen_t)
    })
    .map_err(failed("bind"))?;
    Ok((socket, ring))
}

fn set<T>(socket: &OwnedFd, option: libc::c_int, value: &T) -> io::Result<()> {
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

/// The receive ring (`TPACKET_V2`), shared with the kernel: slots in blocks of 1 MiB.
///
/// Version 3 would hold more in less space, but hands over a block at a time, and that by a timer
/// of milliseconds.
#[derive(Debug)]
struct Ring {
    memory: NonNull<u8>,
    blocks: usize,
    next: usize,
}

// SAFETY: the mapping belongs to the ring alone and is not tied to a thread.
unsafe impl Send for Ring {}

const BLOCK: usize = 1 << 20;
/// A slot: the longest frame, the headers before it (below 128 bytes), rounded to
/// `TPACKET_ALIGNMENT`.
const SLOT: usize = (FRAME_MAX + 128).next_multiple_of(16);
const SLOTS: usize = BLOCK / SLOT;

impl Ring {
    fn map(socket: &OwnedFd, blocks: usize) -> io::Result<Self> {
        let request = libc::tpacket_req {
            tp_block_size: BLOCK as libc::c_uint,
            tp_block_nr: blocks as libc::c_uint,
            tp_frame_size: SLOT as libc::c_uint,
            tp_frame_nr: (blocks * SLOTS) as libc::c_uint,
        };
        set(socket, libc::PACKET_RX_RING, &request)?;
        // SAFETY: a fresh mapping of the ring just made, of its size.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                blocks * BLOCK,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                socket.as_raw_fd(),
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        NonNull::new(memory.cast())
            .map(|memory| Self { memory, blocks, next: 0 })
            .ok_or(io::ErrorKind::OutOfMemory.into())
    }

    /// The next slot, if the kernel has filled it. It goes back to the kernel when dropped.
    fn next(&mut self) -> Option<Slot<'_>> {
        let offset = self.next / SLOTS * BLOCK + self.next % SLOTS * SLOT;
        // SAFETY: `next` is below the number of slots, so that the slot lies in the mapping.
        let slot = unsafe { self.memory.add(offset) };
        // SAFETY: a slot begins with its status, aligned; the kernel changes it, hence the atomic.
        let status = unsafe { AtomicU32::from_ptr(slot.as_ptr().cast()) };
        // Acquire: what the kernel wrote before it set the status is there.
        if status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return None;
        }
        self.next = (self.next + 1) % (self.blocks * SLOTS);
        // SAFETY: the kernel keeps away from the slot until the status says so again; nobody else
        // has the mapping.
        let bytes = unsafe { std::slice::from_raw_parts(slot.as_ptr(), SLOT) };
        Some(Slot { status, bytes })
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: our own mapping, and no slot borrows it any more.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.blocks * BLOCK) };
    }
}

/// A filled slot.
struct Slot<'a> {
    status: &'a AtomicU32,
    bytes: &'a [u8],
}

impl<'a> Slot<'a> {
    /// The frame and what is known of it; `None` if it was truncated or makes no sense. A VLAN tag,
    /// which the kernel takes out, is put back in, for which the frame is copied to `space`.
    fn frame<'b>(&self, space: &'b mut [u8]) -> Option<(VnetHeader, &'b [u8])>
    where
        'a: 'b,
    {
        // SAFETY: the slot begins with this header, is aligned for it, and holds plain data.
        let header = unsafe { self.bytes.as_ptr().cast::<libc::tpacket2_hdr>().read() };
        let start = usize::from(header.tp_mac);
        let length = header.tp_len as usize;
        if header.tp_snaplen as usize != length {
            return None;
        }
        let frame = self.bytes.get(start..start.checked_add(length)?)?;
        let vnet = self.bytes.get(start.checked_sub(VNET_HEADER_LEN)?..start)?;
        let mut vnet = VnetHeader::parse(vnet.try_into().ok()?).ok()?;
        if header.tp_status & libc::TP_STATUS_VLAN_VALID == 0 {
            return Some((vnet, frame));
        }
        // 802.1Q 9.6: identifier and tag stand between the addresses and the type.
        let protocol =
            if header.tp_status & libc::TP_STATUS_VLAN_TPID_VALID == 0 { 0x8100 } else { header.tp_vlan_tpid };
        let (addresses, rest) = frame.split_at_checked(12)?;
        let space = space.get_mut(..length + 4)?;
        space[..12].copy_from_slice(addresses);
        space[12..14].copy_from_slice(&protocol.to_be_bytes());
        space[14..16].copy_from_slice(&header.tp_vlan_tci.to_be_bytes());
        space[16..].copy_from_slice(rest);
        if let engine::Checksum::Partial { start, .. } = &mut vnet.checksum {
            *start += 4;
        }
        Some((vnet, space))
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        // Release: our reading is over before the kernel may write.
        self.status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
    }
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
