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

/// Length of the header in front of every frame, in bytes.
pub const VNET_HEADER_LEN: usize = 10;

/// The longest frame the kernel hands over: 65,535 bytes of IP, an Ethernet header and two VLAN
/// tags.
pub const FRAME_MAX: usize = 65_535 + ETHERNET + 8;

/// Most packets [`run`] puts into one frame.
pub const RUN_MAX: usize = 128;

const ETHERNET: usize = 14;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const TCP: u8 = 6;
const UDP: u8 = 17;
const TCP_CHECKSUM: u16 = 16;
const UDP_CHECKSUM: u16 = 6;
const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;
/// SYN, RST, URG: such a segment stands alone.
const ALONE: u8 = 0x02 | 0x04 | 0x20;

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
    let layout = Layout::read(frame)?;
    let (protocol, check_at) = match gso.kind {
        GsoKind::Tcp4 | GsoKind::Tcp6 => (TCP, TCP_CHECKSUM),
        GsoKind::Udp => (UDP, UDP_CHECKSUM),
    };
    if layout.protocol != protocol
        || (gso.kind == GsoKind::Tcp4 && layout.v6)
        || (gso.kind == GsoKind::Tcp6 && !layout.v6)
    {
        return Err(OffloadError::Malformed("not of the protocol it is to be cut by"));
    }
    let partial = Checksum::Partial { start: layout.transport as u16, offset: check_at };
    if header.checksum != Checksum::Complete && header.checksum != partial {
        return Err(OffloadError::Malformed("checksum not where its protocol has it"));
    }
    if gso.size == 0 {
        return Err(OffloadError::Malformed("segments without payload"));
    }
    let (headers, payload) = frame.split_at(layout.payload);
    let mut segments = payload.chunks(usize::from(gso.size)).enumerate().peekable();
    let addresses = layout.address_sum(frame);
    while let Some((index, segment)) = segments.next() {
        let last = segments.peek().is_none();
        let mut bytes = pool.take();
        bytes.reserve(headers.len() + segment.len());
        bytes.extend_from_slice(headers);
        bytes.extend_from_slice(segment);
        layout.set_length(&mut bytes, index as u16);
        let transport = &mut bytes[layout.transport..];
        if protocol == TCP {
            let sequence = u32_at(transport, 4).wrapping_add((index * usize::from(gso.size)) as u32);
            transport[4..8].copy_from_slice(&sequence.to_be_bytes());
            if !last {
                transport[13] &= !(FIN | PSH);
            }
            if index > 0 {
                transport[13] &= !CWR;
            }
        } else {
            let length = transport.len() as u16;
            transport[4..6].copy_from_slice(&length.to_be_bytes());
        }
        let pseudo = fold(addresses + u64::from(protocol) + transport.len() as u64);
        put(transport, usize::from(check_at), pseudo);
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
        let Some(summed) = packet.bytes.get_mut(usize::from(start)..) else { return };
        if usize::from(offset) + 2 > summed.len() {
            return;
        }
        // RFC 768: a computed zero is sent as all ones; for TCP the two are equal.
        let check = match !fold(sum(summed)) {
            0 => 0xffff,
            check => check,
        };
        put(summed, usize::from(offset), check);
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
const HEADERS_MAX: usize = ETHERNET + 8 + 60 + 60;

impl Run {
    /// The frame in pieces: first the joint headers (empty for a single packet), then the rest of
    /// each packet. `packets` is the slice given to [`run`].
    pub fn pieces<'a>(&'a self, packets: &'a [Packet]) -> impl Iterator<Item = &'a [u8]> {
        let headers = (self.skip > 0).then(|| &self.headers[..self.skip]);
        headers.into_iter().chain(packets[..self.packets].iter().map(|packet| &packet.bytes[self.skip..]))
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
    let size = head.payload_len;
    let mut total = first.len() - head.network;
    let mut count = 1;
    let mut tail = head;
    for packet in &packets[1..packets.len().min(RUN_MAX)] {
        // A short, FIN or PSH segment ends the run, as the next cut would put it at the end.
        if tail.payload_len != size || tail.flags & (FIN | PSH) != 0 {
            break;
        }
        let Some(next) = Segment::read(packet) else { break };
        if next.payload_len > size
            || total + next.payload_len > 65_535
            || next.flags & CWR != 0
            || !next.follows(&tail, packet, &packets[count - 1])
        {
            break;
        }
        total += next.payload_len;
        tail = next;
        count += 1;
    }
    if count == 1 || head.payload > HEADERS_MAX {
        return alone;
    }
    let mut run = alone;
    run.packets = count;
    run.skip = head.payload;
    run.vnet.gso = Some(Gso { kind: if head.v6 { GsoKind::Tcp6 } else { GsoKind::Tcp4 }, size: size as u16 });
    run.vnet.ecn = head.flags & CWR != 0;
    run.vnet.header_len = head.payload as u16;
    let headers = &mut run.headers[..head.payload];
    headers.copy_from_slice(&first.bytes[..head.payload]);
    headers[head.transport + 13] |= tail.flags & (FIN | PSH);
    let layout =
        Layout { network: head.network, transport: head.transport, payload: head.payload, v6: head.v6, protocol: TCP };
    layout.set_length_to(headers, total, 0);
    let transport_len = total - (head.transport - head.network);
    let pseudo = fold(layout.address_sum(headers) + u64::from(TCP) + transport_len as u64);
    put(headers, head.transport + usize::from(TCP_CHECKSUM), pseudo);
    run
}

/// A TCP segment that may be joined with others.
#[derive(Clone, Copy)]
struct Segment {
    network: usize,
    transport: usize,
    payload: usize,
    payload_len: usize,
    flags: u8,
    v6: bool,
}

impl Segment {
    fn read(packet: &Packet) -> Option<Self> {
        let Checksum::Partial { start, offset: TCP_CHECKSUM } = packet.checksum else { return None };
        let bytes = &packet.bytes[..];
        let transport = usize::from(start);
        let (network, v6) = match ether_type(bytes)? {
            (IPV4, network) => (network, false),
            (IPV6, network) => (network, true),
            _ => return None,
        };
        let tcp = bytes.get(transport..)?;
        if tcp.len() < 20 {
            return None;
        }
        let payload = transport + usize::from(tcp[12] >> 4) * 4;
        let payload_len = bytes.len().checked_sub(payload).filter(|&len| len > 0)?;
        let ip = &bytes[network..];
        let whole = if v6 {
            // No extension headers: what they mean for the joint packet is not for us to say.
            transport == network + 40 && ip[6] == TCP && usize::from(u16_at(ip, 4)) == ip.len() - 40
        } else {
            let fragment = u16_at(ip, 6) & 0x3fff;
            transport == network + usize::from(ip[0] & 0xf) * 4
                && transport >= network + 20
                && ip[9] == TCP
                && fragment == 0
                && usize::from(u16_at(ip, 2)) == ip.len()
        };
        let flags = tcp[13];
        (whole && flags & ALONE == 0 && payload >= transport + 20).then_some(Self {
            network,
            transport,
            payload,
            payload_len,
            flags,
            v6,
        })
    }

    /// Whether `packet`, read as `self`, goes on where `before`, read as `tail`, ends, and differs
    /// from it only in what cutting changes.
    fn follows(&self, tail: &Self, packet: &Packet, before: &Packet) -> bool {
        if self.network != tail.network || self.transport != tail.transport || self.payload != tail.payload {
            return false;
        }
        let (a, b) = (&before.bytes[..self.payload], &packet.bytes[..self.payload]);
        let same = |from: usize, to: usize| a[from..to] == b[from..to];
        let (ip, tcp) = (self.network, self.transport);
        let same_ip = if self.v6 {
            same(0, ip + 4) && same(ip + 6, tcp)
        } else {
            same(0, ip + 2)
                && u16_at(b, ip + 4) == u16_at(a, ip + 4).wrapping_add(1)
                && same(ip + 6, ip + 10)
                && same(ip + 12, tcp)
        };
        let varying = FIN | PSH | CWR;
        same_ip
            && same(tcp, tcp + 4)
            && u32_at(b, tcp + 4) == u32_at(a, tcp + 4).wrapping_add(tail.payload_len as u32)
            && same(tcp + 8, tcp + 13)
            && self.flags & !varying == tail.flags & !varying
            && same(tcp + 14, tcp + 16)
            && same(tcp + 18, self.payload)
    }
}

/// Where a frame's headers are.
struct Layout {
    network: usize,
    transport: usize,
    payload: usize,
    v6: bool,
    protocol: u8,
}

impl Layout {
    fn read(frame: &[u8]) -> Result<Self, OffloadError> {
        let short = OffloadError::Malformed("headers cut off");
        let (ether_type, network) = ether_type(frame).ok_or(short)?;
        let ip = &frame[network..];
        let (transport, protocol, v6) = match ether_type {
            IPV4 if ip.len() >= 20 => (network + usize::from(ip[0] & 0xf) * 4, ip[9], false),
            IPV6 if ip.len() >= 40 => {
                let (length, protocol) = skip_extensions(ip).ok_or(short)?;
                (network + length, protocol, true)
            }
            IPV4 | IPV6 => return Err(short),
            _ => return Err(OffloadError::Malformed("not IP")),
        };
        if !v6 && transport < network + 20 {
            return Err(short);
        }
        let header = frame.get(transport..).ok_or(short)?;
        let length = match protocol {
            TCP if header.len() >= 20 => usize::from(header[12] >> 4) * 4,
            UDP => 8,
            _ => return Err(OffloadError::Malformed("neither TCP nor UDP, or cut off")),
        };
        if (protocol == TCP && length < 20) || header.len() <= length {
            return Err(short);
        }
        Ok(Self { network, transport, payload: transport + length, v6, protocol })
    }

    /// Writes the lengths and identification of segment `index` into a frame's network header.
    fn set_length(&self, frame: &mut [u8], index: u16) {
        let length = frame.len() - self.network;
        self.set_length_to(frame, length, index);
    }

    fn set_length_to(&self, headers: &mut [u8], length: usize, index: u16) {
        let ip = &mut headers[self.network..self.transport];
        if self.v6 {
            put(ip, 4, (length - 40) as u16);
        } else {
            put(ip, 2, length as u16);
            let id = u16_at(ip, 4).wrapping_add(index);
            put(ip, 4, id);
            put(ip, 10, 0);
            let check = !fold(sum(ip));
            put(ip, 10, check);
        }
    }

    /// The addresses' part of the pseudo-header sum (RFC 9293 3.1, RFC 8200 8.1). With a routing
    /// header this is the next hop's address, as in the kernel.
    fn address_sum(&self, frame: &[u8]) -> u64 {
        let ip = &frame[self.network..];
        sum(if self.v6 { &ip[8..40] } else { &ip[12..20] })
    }
}

/// The frame's type behind up to two VLAN tags (802.1Q, 802.1ad), and where its payload starts.
fn ether_type(frame: &[u8]) -> Option<(u16, usize)> {
    let mut at = ETHERNET - 2;
    for _ in 0..2 {
        match u16_from(frame, at)? {
            0x8100 | 0x88a8 => at += 4,
            _ => break,
        }
    }
    let found = u16_from(frame, at)?;
    let header = if found == IPV4 { 20 } else { 40 };
    (matches!(found, IPV4 | IPV6) && frame.len() >= at + 2 + header).then_some((found, at + 2))
}

/// Length of an IPv6 header with its extensions (RFC 8200 4.1), and the protocol behind them.
fn skip_extensions(ip: &[u8]) -> Option<(usize, u8)> {
    let (mut at, mut next) = (40, ip[6]);
    // Hop-by-hop options, routing, destination options. A fragment is never a super-frame.
    while matches!(next, 0 | 43 | 60) {
        next = *ip.get(at)?;
        at += 8 + usize::from(*ip.get(at + 1)?) * 8;
    }
    Some((at, next))
}

fn u16_from(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
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

/// The sum of 16-bit words (RFC 1071), not folded.
fn sum(bytes: &[u8]) -> u64 {
    let mut chunks = bytes.chunks_exact(4);
    let mut total = 0u64;
    for chunk in &mut chunks {
        total += u64::from(u32_at(chunk, 0));
    }
    // RFC 1071 4.1: an odd byte counts as the high one of its word.
    let rest = chunks.remainder();
    let mut word = [0; 4];
    word[..rest.len()].copy_from_slice(rest);
    total + u64::from(u32::from_be_bytes(word))
}

/// Folds a sum to 16 bits.
fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}
