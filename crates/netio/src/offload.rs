//! What network cards do for the kernel, done by us: cutting super-frames, completing checksums,
//! and putting packets together again.
//!
//! Linux hands TAPs and packet sockets frames of up to 64 KiB whose transport checksum is not
//! filled in, described by a `struct virtio_net_hdr` (virtio 1.2, 5.1.6). The functions here are
//! pure: bytes in, bytes out. They never fail on what the kernel sends and never panic on anything.
//!
//! Cutting follows the kernel's software segmentation (`tcp_gso_segment`, `__udp_gso_segment`): the
//! IPv4 identification counts up, FIN and PSH stay with the last segment, CWR with the first
//! (RFC 3168 6.1.2). Coalescing is narrower than the kernel's GRO: it joins only what leaves
//! together, only TCP, and only packets whose checksum is still [`Checksum::Partial`]. A packet
//! that was altered on the way has a complete checksum, and so reaches its receiver as it is.

use engine::{Checksum, Gso, GsoKind, Packet, Pool};
use wire::checksum::Sum;
use wire::{ETHERNET_LEN, Fragment, Headers, Ip, TCP_MIN_LEN, TcpFlags, UDP_LEN, checksum, protocol};

/// Length of the header in front of every frame, in bytes.
pub const VNET_HEADER_LEN: usize = 10;

/// The longest frame the kernel hands over: 65,535 bytes of IP, an Ethernet header and two VLAN
/// tags.
pub const FRAME_MAX: usize = 65_535 + ETHERNET_LEN + 8;

/// Most packets [`run`] puts into one frame.
pub const RUN_MAX: usize = 128;

/// Where a checksum is in its header: RFC 9293 3.1 and RFC 768.
const TCP_CHECKSUM: u16 = 16;
const UDP_CHECKSUM: u16 = 6;

const FIN_PSH: u8 = TcpFlags::FIN.0 | TcpFlags::PSH.0;
const CWR: u8 = TcpFlags::CWR.0;
/// A segment with one of these stands alone.
const ALONE: u8 = TcpFlags::SYN.0 | TcpFlags::RST.0 | TcpFlags::URG.0;

/// Why a frame cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OffloadError {
    /// A kind of super-frame we never asked the kernel for.
    #[error("super-frame of unknown type {0}")]
    Kind(u8),
    /// The header and the frame contradict each other.
    #[error("malformed super-frame: {0}")]
    Malformed(&'static str),
}

/// A `struct virtio_net_hdr`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VnetHeader {
    /// State of the transport checksum.
    pub checksum: Checksum,
    /// Set for a super-frame.
    pub gso: Option<Gso>,
    /// The super-frame's first segment carries CWR.
    pub ecn: bool,
    /// Length of all headers of a super-frame.
    pub header_len: u16,
}

const NEEDS_CSUM: u8 = 1;
const GSO_TCP4: u8 = 1;
const GSO_TCP6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
const GSO_ECN: u8 = 0x80;

impl VnetHeader {
    /// Reads a header in the machine's byte order.
    ///
    /// # Errors
    ///
    /// For a kind of super-frame that is none of [`GsoKind`].
    pub fn parse(bytes: &[u8; VNET_HEADER_LEN]) -> Result<Self, OffloadError> {
        let u16_at = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        let kind = match bytes[1] & !GSO_ECN {
            0 => None,
            GSO_TCP4 => Some(GsoKind::Tcp4),
            GSO_TCP6 => Some(GsoKind::Tcp6),
            GSO_UDP_L4 => Some(GsoKind::Udp),
            other => return Err(OffloadError::Kind(other)),
        };
        let checksum = match bytes[0] & NEEDS_CSUM {
            0 => Checksum::Complete,
            _ => Checksum::Partial { start: u16_at(6), offset: u16_at(8) },
        };
        Ok(Self {
            checksum,
            gso: kind.map(|kind| Gso { kind, size: u16_at(4) }),
            ecn: bytes[1] & GSO_ECN != 0,
            header_len: u16_at(2),
        })
    }

    /// Writes the header in the machine's byte order.
    #[must_use]
    pub fn emit(&self) -> [u8; VNET_HEADER_LEN] {
        let mut bytes = [0; VNET_HEADER_LEN];
        if let Some(gso) = self.gso {
            bytes[1] = match gso.kind {
                GsoKind::Tcp4 => GSO_TCP4,
                GsoKind::Tcp6 => GSO_TCP6,
                GsoKind::Udp => GSO_UDP_L4,
            } | if self.ecn { GSO_ECN } else { 0 };
            bytes[2..4].copy_from_slice(&self.header_len.to_ne_bytes());
            bytes[4..6].copy_from_slice(&gso.size.to_ne_bytes());
        }
        if let Checksum::Partial { start, offset } = self.checksum {
            bytes[0] = NEEDS_CSUM;
            bytes[6..8].copy_from_slice(&start.to_ne_bytes());
            bytes[8..10].copy_from_slice(&offset.to_ne_bytes());
        }
        bytes
    }
}

/// Makes packets of a frame: one, or for a super-frame one for each segment, with right headers and
/// the checksum state it had. They are appended to `out`; their buffers come from `pool`.
///
/// # Errors
///
/// If the header does not fit the frame, in which case nothing is appended.
pub fn cut(header: &VnetHeader, frame: &[u8], pool: &mut Pool, out: &mut Vec<Packet>) -> Result<(), OffloadError> {
    if let Checksum::Partial { start, offset } = header.checksum
        && usize::from(start) + usize::from(offset) + 2 > frame.len()
    {
        return Err(OffloadError::Malformed("checksum outside of the frame"));
    }
    let Some(gso) = header.gso else {
        let mut bytes = pool.take();
        bytes.extend_from_slice(frame);
        out.push(Packet { bytes, checksum: header.checksum, ..Packet::default() });
        return Ok(());
    };
    if gso.size == 0 {
        return Err(OffloadError::Malformed("segments without payload"));
    }
    let layout = Layout::of_super_frame(frame, gso.kind)?;
    let partial = Checksum::Partial { start: layout.ip.transport as u16, offset: layout.checksum };
    if header.checksum != Checksum::Complete && header.checksum != partial {
        return Err(OffloadError::Malformed("checksum not where its protocol has it"));
    }
    let (headers, payload) = frame[..layout.end].split_at(layout.payload);
    let mut segments = payload.chunks(usize::from(gso.size)).enumerate().peekable();
    while let Some((index, segment)) = segments.next() {
        let last = segments.peek().is_none();
        let mut bytes = pool.take();
        bytes.reserve(headers.len() + segment.len());
        bytes.extend_from_slice(headers);
        bytes.extend_from_slice(segment);
        let length = bytes.len();
        layout.set_length(&mut bytes, length, index as u16);
        let transport = &mut bytes[layout.ip.transport..];
        if gso.kind == GsoKind::Udp {
            put(transport, 4, (length - layout.ip.transport) as u16);
        } else {
            let sequence = u32_at(transport, 4).wrapping_add((index * usize::from(gso.size)) as u32);
            transport[4..8].copy_from_slice(&sequence.to_be_bytes());
            if !last {
                transport[13] &= !FIN_PSH;
            }
            if index > 0 {
                transport[13] &= !CWR;
            }
        }
        let mut packet = Packet { bytes, checksum: partial, ..Packet::default() };
        if header.checksum == Checksum::Complete {
            complete(&mut packet);
        }
        out.push(packet);
    }
    Ok(())
}

/// Fills in the transport checksum of a packet that has it [`Checksum::Partial`]: needed before its
/// bytes are altered, or written where nobody else does it.
pub fn complete(packet: &mut Packet) {
    if let Checksum::Partial { start, offset } = packet.checksum {
        packet.checksum = Checksum::Complete;
        // Nothing happens if the field is outside the frame, which never comes out of `cut`.
        checksum::complete(&mut packet.bytes, usize::from(start), usize::from(offset));
    }
}

/// A frame to write: some packets, one behind the other, under one header.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// How many packets from the front of the slice.
    pub packets: usize,
    /// Goes before the frame.
    pub vnet: VnetHeader,
    headers: [u8; HEADERS_MAX],
    /// Bytes of headers of each packet; 0 for a packet that goes out as it is.
    skip: usize,
}

/// Ethernet, two VLAN tags, 60 bytes of IP and 60 of TCP; longer headers are not coalesced.
const HEADERS_MAX: usize = ETHERNET_LEN + 8 + 60 + 60;

impl Run {
    /// The frame in pieces: first the joint headers (empty for a single packet), then the rest of
    /// each packet. `packets` is the slice given to [`run`].
    pub fn pieces<'a>(&'a self, packets: &'a [Packet]) -> impl Iterator<Item = &'a [u8]> {
        let headers = (self.skip > 0).then(|| self.headers());
        headers.into_iter().chain(packets[..self.packets].iter().map(|packet| &packet.bytes[self.skip..]))
    }

    /// The joint headers, which take the place of as many bytes of each packet.
    #[must_use]
    pub fn headers(&self) -> &[u8] {
        &self.headers[..self.skip]
    }
}

/// The longest run from the front of `packets` that can go out as one frame: at least one packet.
///
/// `packets` must not be empty and be due by now, all of them.
///
/// # Panics
///
/// If `packets` is empty.
#[must_use]
pub fn run(packets: &[Packet]) -> Run {
    let first = &packets[0];
    let alone = Run {
        packets: 1,
        vnet: VnetHeader { checksum: first.checksum, ..VnetHeader::default() },
        headers: [0; HEADERS_MAX],
        skip: 0,
    };
    if packets.len() < 2 {
        return alone;
    }
    let Some(head) = Segment::read(first) else { return alone };
    let Layout { network, ip, payload, .. } = head.layout;
    let size = head.payload_len;
    let mut total = first.len();
    let mut count = 1;
    let mut tail = head;
    for packet in &packets[1..packets.len().min(RUN_MAX)] {
        // A short, FIN or PSH segment is the last one, as the next cut would put it there.
        if tail.payload_len != size || tail.flags & FIN_PSH != 0 {
            break;
        }
        let Some(next) = Segment::read(packet) else { break };
        if next.payload_len > size
            || total + next.payload_len - network > 65_535
            || next.flags & CWR != 0
            || !next.follows(&tail, packet, &packets[count - 1])
        {
            break;
        }
        total += next.payload_len;
        tail = next;
        count += 1;
    }
    if count == 1 || payload > HEADERS_MAX {
        return alone;
    }
    let mut run = alone;
    run.packets = count;
    run.skip = payload;
    let kind = if ip.source.is_ipv4() { GsoKind::Tcp4 } else { GsoKind::Tcp6 };
    run.vnet.gso = Some(Gso { kind, size: size as u16 });
    run.vnet.ecn = head.flags & CWR != 0;
    run.vnet.header_len = payload as u16;
    let headers = &mut run.headers[..payload];
    headers.copy_from_slice(&first.bytes[..payload]);
    headers[ip.transport + 13] |= tail.flags & FIN_PSH;
    head.layout.set_length(headers, total, 0);
    run
}

/// Most datagrams [`datagram_run`] puts into one frame: the kernel's limit (`UDP_MAX_SEGMENTS`) up to Linux 6.8.
pub const DATAGRAMS_MAX: usize = 64;

/// The longest run of datagrams from the first of `count` frames that can go out as one frame
/// (`VIRTIO_NET_HDR_GSO_UDP_L4`), at least two: of one flow, and of one length but for the last, which may be
/// shorter. `frame` gives the `n`th frame.
///
/// Whoever cuts it gives each datagram a checksum and, with IPv4, counts the identification up from the first
/// one's; all else comes out as it went in.
#[must_use]
pub fn datagram_run<'a>(count: usize, frame: impl Fn(usize) -> &'a [u8]) -> Option<Run> {
    let first = frame(0);
    if count < 2 || frame(1).len() > first.len() {
        return None;
    }
    let layout = Layout::read(first, protocol::UDP)?;
    let Layout { network, ip, payload, end, .. } = layout;
    let v4 = ip.source.is_ipv4();
    let plain = network == ETHERNET_LEN && end == first.len() && payload < end && (v4 || ip.transport == network + 40);
    if !plain || payload > HEADERS_MAX {
        return None;
    }
    let mut packets = 1;
    let mut total = first.len();
    while packets < count.min(DATAGRAMS_MAX) {
        let next = frame(packets);
        let full = next.len() == first.len();
        let fits = (full || next.len() < first.len() && next.len() > payload)
            && total + next.len() - payload - network <= 65_535
            && is_same_flow(&layout, first, next);
        if !fits {
            break;
        }
        total += next.len() - payload;
        packets += 1;
        if !full {
            break;
        }
    }
    if packets < 2 {
        return None;
    }
    let mut headers = [0; HEADERS_MAX];
    headers[..payload].copy_from_slice(&first[..payload]);
    put(&mut headers, ip.transport + 4, (total - ip.transport) as u16);
    layout.set_length(&mut headers[..payload], total, 0);
    let vnet = VnetHeader {
        checksum: Checksum::Partial { start: ip.transport as u16, offset: UDP_CHECKSUM },
        gso: Some(Gso { kind: GsoKind::Udp, size: (first.len() - payload) as u16 }),
        ecn: false,
        header_len: payload as u16,
    };
    Some(Run { packets, vnet, headers, skip: payload })
}

/// Whether two datagrams, the second not the longer one, differ in their headers only in what cutting sets.
fn is_same_flow(layout: &Layout, a: &[u8], b: &[u8]) -> bool {
    let Layout { network, ip, payload, .. } = *layout;
    let same = |from: usize, to: usize| a[from..to] == b[from..to];
    let same_ip = if ip.source.is_ipv4() {
        same(0, network + 2)
            && usize::from(u16_at(b, network + 2)) == b.len() - network
            && same(network + 6, network + 10)
            && same(network + 12, ip.transport)
    } else {
        same(0, network + 4)
            && usize::from(u16_at(b, network + 4)) == b.len() - network - 40
            && same(network + 6, ip.transport)
    };
    same_ip
        && same(ip.transport, ip.transport + 4)
        && usize::from(u16_at(b, ip.transport + 4)) == b.len() - ip.transport
        && b.len() > payload
}

/// A TCP segment that may be joined with others.
#[derive(Clone, Copy)]
struct Segment {
    layout: Layout,
    payload_len: usize,
    flags: u8,
}

impl Segment {
    fn read(packet: &Packet) -> Option<Self> {
        let Checksum::Partial { start, offset: TCP_CHECKSUM } = packet.checksum else { return None };
        let layout = Layout::read(&packet.bytes, protocol::TCP)?;
        let flags = packet.bytes[layout.ip.transport + 13];
        let payload_len = layout.end - layout.payload;
        // As long as its header says, and without extension headers, whose meaning for the joint
        // packet is not for us to say.
        let ip = &packet.bytes[layout.network..];
        let plain = usize::from(start) == layout.ip.transport
            && if layout.ip.source.is_ipv4() {
                usize::from(u16_at(ip, 2)) == ip.len()
            } else {
                usize::from(u16_at(ip, 4)) + 40 == ip.len() && layout.ip.transport == layout.network + 40
            };
        (plain && payload_len > 0 && flags & ALONE == 0).then_some(Self { layout, payload_len, flags })
    }

    /// Whether `packet`, read as `self`, goes on where `before`, read as `tail`, ends, and differs
    /// from it only in what cutting changes.
    fn follows(&self, tail: &Self, packet: &Packet, before: &Packet) -> bool {
        let Layout { network, ip, payload, .. } = self.layout;
        let there = tail.layout;
        if (network, ip.transport, payload) != (there.network, there.ip.transport, there.payload) {
            return false;
        }
        let (a, b) = (&before.bytes[..payload], &packet.bytes[..payload]);
        let same = |from: usize, to: usize| a[from..to] == b[from..to];
        let tcp = ip.transport;
        let same_ip = if ip.source.is_ipv4() {
            same(0, network + 2)
                && u16_at(b, network + 4) == u16_at(a, network + 4).wrapping_add(1)
                && same(network + 6, network + 10)
                && same(network + 12, tcp)
        } else {
            same(0, network + 4) && same(network + 6, tcp)
        };
        let varying = FIN_PSH | CWR;
        same_ip
            && same(tcp, tcp + 4)
            && u32_at(b, tcp + 4) == u32_at(a, tcp + 4).wrapping_add(tail.payload_len as u32)
            && same(tcp + 8, tcp + 13)
            && self.flags & !varying == tail.flags & !varying
            && same(tcp + 14, tcp + 16)
            && same(tcp + 18, payload)
    }
}

/// Where a TCP or UDP packet's parts are.
#[derive(Clone, Copy)]
struct Layout {
    network: usize,
    ip: Ip,
    /// Where the checksum is, from the transport header.
    checksum: u16,
    payload: usize,
    end: usize,
}

impl Layout {
    fn of_super_frame(frame: &[u8], kind: GsoKind) -> Result<Self, OffloadError> {
        let protocol = if kind == GsoKind::Udp { protocol::UDP } else { protocol::TCP };
        let layout = Self::read(frame, protocol)
            .filter(|layout| layout.payload < layout.end)
            .ok_or(OffloadError::Malformed("not a packet of the protocol it is to be cut by"))?;
        match (kind, layout.ip.source.is_ipv4()) {
            (GsoKind::Tcp4, false) | (GsoKind::Tcp6, true) => {
                Err(OffloadError::Malformed("not of the IP version it is to be cut by"))
            }
            _ => Ok(layout),
        }
    }

    /// `None` if it is not a whole packet of this protocol.
    fn read(frame: &[u8], protocol: u8) -> Option<Self> {
        let headers = Headers::parse(frame);
        let ip = headers.ip.filter(|ip| ip.protocol == protocol && ip.fragment == Fragment::Whole)?;
        let end = headers.network + headers.network_len;
        let transport = &frame[ip.transport..end];
        let (length, checksum) = if protocol == protocol::TCP {
            (usize::from(transport.get(12)? >> 4) * 4, TCP_CHECKSUM)
        } else {
            (UDP_LEN, UDP_CHECKSUM)
        };
        let least = if protocol == protocol::TCP { TCP_MIN_LEN } else { UDP_LEN };
        let whole = length >= least && transport.len() >= length;
        whole.then_some(Self { network: headers.network, ip, checksum, payload: ip.transport + length, end })
    }

    /// Makes `headers` those of a frame of `length` bytes, the `index`th of its kind: lengths,
    /// identification, IPv4's checksum, and the pseudo-header's sum as the transport checksum.
    fn set_length(&self, headers: &mut [u8], length: usize, index: u16) {
        let ip = &mut headers[self.network..];
        if self.ip.source.is_ipv4() {
            let ip = &mut ip[..self.ip.transport - self.network];
            put(ip, 2, (length - self.network) as u16);
            let id = u16_at(ip, 4).wrapping_add(index);
            put(ip, 4, id);
            put(ip, 10, 0);
            let check = checksum::checksum(ip);
            put(ip, 10, check);
        } else {
            put(ip, 4, (length - self.network - 40) as u16);
        }
        let transport = length - self.ip.transport;
        let pseudo = Sum::pseudo_header(self.ip.source, self.ip.destination, self.ip.protocol, transport as u32);
        put(headers, self.ip.transport + usize::from(self.checksum), pseudo.uncomplemented());
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn put(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}
