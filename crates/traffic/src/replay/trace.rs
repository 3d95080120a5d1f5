//! The packets of a capture, in memory.

use alloc::vec::Vec;
use core::net::IpAddr;

use engine::Span;
use wire::checksum::{Sum, checksum};
use wire::{Fragment, Headers, TcpFlags, ethertype, protocol};

use crate::stamp::{STAMP_LEN, fitting};

/// The longest step back between two packets that passes for packets in the wrong order. A longer one is taken
/// for a clock that was set.
const DISORDER: i128 = 1_000_000_000;

/// The packets of a capture from their IP header on, each with its time and its length on the wire.
///
/// Read once and never changed; shared by all that replay it. Times are made to run forward: a packet that is
/// up to 1 s before the one that precedes it gets that one's time, and after a longer step back (somebody set
/// the clock) time goes on from there. Both are counted.
#[derive(Clone, Debug)]
pub struct Trace {
    bytes: Vec<u8>,
    packets: Vec<Record>,
    limit: usize,
    /// TCP segments longer than this are cut.
    longest: u32,
    /// Nanoseconds since 1970 of the first packet, as captured.
    start: u64,
    /// What is to be taken from the time of a packet as captured.
    epoch: i128,
    left: Left,
    cut: u64,
    resealed: u64,
    cut_apart: u64,
    too_long: u64,
    out_of_order: u64,
    clock_set: u64,
}

/// One packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracePacket<'a> {
    /// When it was captured, since the first packet.
    pub time: Span,
    /// Length on the wire in bytes, from the IP header on.
    pub length: u32,
    /// What was captured of it, from the IP header on: `length` bytes or fewer.
    pub bytes: &'a [u8],
}

/// A packet that a trace cannot hold, so that it is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOut {
    /// It is not IP: ARP, for example.
    NotIp,
    /// The capture ends within its IP, TCP or UDP header.
    CutInHeaders,
    /// It says another length than it has.
    BadLength,
}

/// How many packets were left out, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// [`LeftOut::NotIp`].
    pub not_ip: u64,
    /// [`LeftOut::CutInHeaders`].
    pub cut_in_headers: u64,
    /// [`LeftOut::BadLength`].
    pub bad_length: u64,
}

/// What keeps a trace from being made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// More than the memory set aside.
    #[error(
        "the packets need more than {limit} bytes of memory; replay fewer with a filter, capture fewer bytes of each, or raise the limit"
    )]
    TooLarge {
        /// The memory set aside, in bytes.
        limit: usize,
    },
}

/// Gaps that were made shorter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LongGap {
    /// How many.
    pub count: u64,
    /// By how much together.
    pub removed: Span,
}

/// Why a packet could not be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// The buffer is too short.
    #[error("a packet of {length} bytes does not fit a buffer of {room}")]
    NoRoom {
        /// Length of the packet in bytes.
        length: usize,
        /// Length of the buffer in bytes.
        room: usize,
    },
    /// An address is not of the packet's IP version.
    #[error("a packet cannot get an address of the other IP version")]
    OtherVersion,
}

/// Where the parts of a packet are. All positions count from the IP header.
#[derive(Clone, Copy, Debug)]
struct Record {
    /// Where it starts in the trace's memory.
    at: usize,
    captured: u32,
    length: u32,
    time: u64,
    checksum: Covered,
    /// Where a payload starts that may be written over, or 0.
    payload: u16,
}

impl Trace {
    /// A trace that may take `limit` bytes of memory for packets.
    #[must_use]
    pub const fn new(limit: usize) -> Self {
        Self {
            bytes: Vec::new(),
            packets: Vec::new(),
            limit,
            longest: u32::MAX,
            start: 0,
            epoch: 0,
            left: Left { not_ip: 0, cut_in_headers: 0, bad_length: 0 },
            cut: 0,
            resealed: 0,
            cut_apart: 0,
            too_long: 0,
            out_of_order: 0,
            clock_set: 0,
        }
    }

    /// Has TCP segments of more than `longest` bytes with their IP header cut into as many as it takes, as hardware
    /// does with what hosts hand to it: captures on such hosts show what goes in.
    #[must_use]
    pub fn cutting(mut self, longest: u32) -> Self {
        self.longest = longest;
        self
    }

    /// Appends a packet that was captured at `unix_nanos` since 1970. `captured` begins with the IP header;
    /// `length` is what the whole packet had on the wire from there on, and may count Ethernet padding.
    ///
    /// What was not captured is zeros when it is replayed, and checksums are put right for that, as for those
    /// that hardware was to fill in. The answer says whether the packet was left out.
    ///
    /// # Errors
    ///
    /// It does not fit the memory.
    pub fn push(&mut self, unix_nanos: u64, captured: &[u8], length: u32) -> Result<Option<LeftOut>, TraceError> {
        let packet = match Layout::of(captured, length) {
            Ok(packet) => packet,
            Err(reason) => {
                *match reason {
                    LeftOut::NotIp => &mut self.left.not_ip,
                    LeftOut::CutInHeaders => &mut self.left.cut_in_headers,
                    LeftOut::BadLength => &mut self.left.bad_length,
                } += 1;
                return Ok(Some(reason));
            }
        };
        if packet.length > self.longest
            && let Some(pieces) = packet.pieces(captured, self.longest)
        {
            self.cut_apart += 1;
            for (piece, length) in pieces {
                if let Ok(layout) = Layout::of(&piece, length) {
                    self.hold(unix_nanos, &piece, &layout)?;
                }
            }
        } else {
            self.cut += u64::from(captured.len() < packet.length as usize);
            self.too_long += u64::from(packet.length > self.longest);
            self.resealed += u64::from(self.hold(unix_nanos, captured, &packet)?);
        }
        Ok(None)
    }

    /// Appends a packet that is understood. True if a checksum was not right.
    fn hold(&mut self, unix_nanos: u64, captured: &[u8], packet: &Layout) -> Result<bool, TraceError> {
        let kept = &captured[..captured.len().min(packet.length as usize)];
        if self.memory() + kept.len() + size_of::<Record>() > self.limit {
            return Err(TraceError::TooLarge { limit: self.limit });
        }
        let time = self.time_of(unix_nanos);
        let at = self.bytes.len();
        self.bytes.extend_from_slice(kept);
        let was_wrong = packet.seal(&mut self.bytes[at..]);
        self.packets.push(Record {
            at,
            captured: kept.len() as u32,
            length: packet.length,
            time,
            checksum: packet.checksum,
            payload: packet.payload,
        });
        Ok(was_wrong)
    }

    /// Makes no gap between packets longer than `longest`.
    pub fn cap_gaps(&mut self, longest: Span) -> LongGap {
        let mut gaps = LongGap::default();
        let (mut before, mut removed) = (0, 0);
        for packet in &mut self.packets {
            let gap = packet.time - before;
            before = packet.time;
            if gap > longest.as_nanos() {
                removed += gap - longest.as_nanos();
                gaps.count += 1;
            }
            packet.time -= removed;
        }
        gaps.removed = Span::from_nanos(removed);
        gaps
    }

    /// How many packets there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// The packet at `index`.
    ///
    /// # Panics
    ///
    /// If there is none.
    #[must_use]
    pub fn packet(&self, index: usize) -> TracePacket<'_> {
        let record = &self.packets[index];
        TracePacket { time: Span::from_nanos(record.time), length: record.length, bytes: self.captured(record) }
    }

    /// All packets in the order of the capture.
    pub fn packets(&self) -> impl ExactSizeIterator<Item = TracePacket<'_>> {
        (0..self.len()).map(|index| self.packet(index))
    }

    /// From the first packet to the last.
    #[must_use]
    pub fn span(&self) -> Span {
        Span::from_nanos(self.packets.last().map_or(0, |last| last.time))
    }

    /// When the first packet was captured, in nanoseconds since 1970.
    #[must_use]
    pub const fn start_unix_nanos(&self) -> u64 {
        self.start
    }

    /// The longest gap between two packets, and the index of the second.
    #[must_use]
    pub fn longest_gap(&self) -> (Span, usize) {
        let gaps = self.packets.windows(2).enumerate().map(|(i, pair)| (pair[1].time - pair[0].time, i + 1));
        gaps.max_by_key(|&(gap, i)| (gap, core::cmp::Reverse(i)))
            .map_or((Span::ZERO, 0), |(gap, i)| (Span::from_nanos(gap), i))
    }

    /// Bytes of memory in use for packets.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.bytes.len() + self.packets.len() * size_of::<Record>()
    }

    /// Packets that were left out.
    #[must_use]
    pub const fn left(&self) -> Left {
        self.left
    }

    /// Packets that were not captured whole.
    #[must_use]
    pub const fn cut(&self) -> u64 {
        self.cut
    }

    /// Packets whose checksum was not right, mostly as hardware was to fill it in or as they were cut.
    #[must_use]
    pub const fn resealed(&self) -> u64 {
        self.resealed
    }

    /// Segments that were cut because of [`Trace::cutting`].
    #[must_use]
    pub const fn cut_apart(&self) -> u64 {
        self.cut_apart
    }

    /// Packets that are longer than [`Trace::cutting`] allows and could not be cut.
    #[must_use]
    pub const fn too_long(&self) -> u64 {
        self.too_long
    }

    /// Packets captured before the one that precedes them, by up to 1 s.
    #[must_use]
    pub const fn out_of_order(&self) -> u64 {
        self.out_of_order
    }

    /// How often time stepped back by more than 1 s.
    #[must_use]
    pub const fn clock_set(&self) -> u64 {
        self.clock_set
    }

    /// How many octets of a stamp the packet at `index` takes: 0, 8, 16 or 24. Only TCP, UDP and ICMP echo have
    /// a payload that may be written over.
    #[must_use]
    pub fn stamp_room(&self, index: usize) -> usize {
        let record = &self.packets[index];
        stamp_room(record.payload, record.length)
    }

    /// Writes the packet at `index` into `out` from its IP header on, with these addresses and, if one is given,
    /// as much of the stamp as fits. The answer is its length.
    ///
    /// # Errors
    ///
    /// `out` is too short, or the addresses are not of the packet's IP version.
    pub fn write(
        &self,
        index: usize,
        source: IpAddr,
        destination: IpAddr,
        stamp: Option<&[u8; STAMP_LEN]>,
        out: &mut [u8],
    ) -> Result<usize, WriteError> {
        let record = &self.packets[index];
        let length = record.length as usize;
        let room = out.len();
        let packet = out.get_mut(..length).ok_or(WriteError::NoRoom { length, room })?;
        let captured = self.captured(record);
        packet[..captured.len()].copy_from_slice(captured);
        packet[captured.len()..].fill(0);
        let addresses = match (source, destination, packet[0] >> 4) {
            (IpAddr::V4(source), IpAddr::V4(destination), 4) => {
                let change = replace(&mut packet[12..16], &source.octets())
                    + replace(&mut packet[16..20], &destination.octets());
                let sum = Sum::from(!u16::from_be_bytes([packet[10], packet[11]])) + change;
                packet[10..12].copy_from_slice(&sum.checksum().to_be_bytes());
                change
            }
            (IpAddr::V6(source), IpAddr::V6(destination), 6) => {
                replace(&mut packet[8..24], &source.octets()) + replace(&mut packet[24..40], &destination.octets())
            }
            _ => return Err(WriteError::OtherVersion),
        };
        let payload = stamp.map_or(Sum::default(), |stamp| {
            let (at, fits) = (usize::from(record.payload), self.stamp_room(index));
            replace(&mut packet[at..at + fits], &stamp[..fits])
        });
        match record.checksum {
            Covered::Nothing => {}
            Covered::Payload(at) => apply(packet, at, payload),
            Covered::All(at) => apply(packet, at, addresses + payload),
        }
        Ok(length)
    }

    /// The time of a packet since the first, made to run forward.
    fn time_of(&mut self, unix_nanos: u64) -> u64 {
        let Some(before) = self.packets.last().map(|last| last.time) else {
            (self.start, self.epoch) = (unix_nanos, i128::from(unix_nanos));
            return 0;
        };
        let time = i128::from(unix_nanos) - self.epoch;
        let back = i128::from(before) - time;
        if back > DISORDER {
            self.clock_set += 1;
            self.epoch -= back;
        } else if back > 0 {
            self.out_of_order += 1;
        }
        u64::try_from(time).map_or(before, |time| time.max(before))
    }

    fn captured(&self, record: &Record) -> &[u8] {
        &self.bytes[record.at..record.at + record.captured as usize]
    }
}

/// What a transport checksum covers besides the transport header, and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Covered {
    /// There is none, or none that is known here.
    Nothing,
    /// The payload (ICMP for IPv4, RFC 792).
    Payload(u16),
    /// Payload and addresses.
    All(u16),
}

/// Where the parts of a packet are that is to be held.
pub(super) struct Layout {
    pub(super) length: u32,
    checksum: Covered,
    /// Where a payload starts that may be written over, or 0.
    pub(super) payload: u16,
    /// Where the transport starts and the pseudo-header's sum, if its checksum can be made anew: that of a
    /// fragment covers what is not here.
    seal: Option<(usize, Sum)>,
    /// Where a whole TCP segment's header starts.
    tcp: Option<usize>,
}

impl Layout {
    pub(super) fn of(captured: &[u8], length: u32) -> Result<Self, LeftOut> {
        let length = total_length(captured, length)?;
        let captured = &captured[..captured.len().min(length as usize)];
        let ethertype = if captured[0] >> 4 == 4 { ethertype::IPV4 } else { ethertype::IPV6 };
        let ip = Headers::of_network(ethertype, captured).ip.ok_or(LeftOut::CutInHeaders)?;
        let mut layout = Self { length, checksum: Covered::Nothing, payload: 0, seal: None, tcp: None };
        let is_v4 = ip.source.is_ipv4();
        let (header, field) = match ip.protocol {
            protocol::UDP => (8, 6),
            protocol::TCP => (20, 16),
            protocol::ICMP if is_v4 => (8, 2),
            protocol::ICMPV6 if !is_v4 => (8, 2),
            _ => return Ok(layout),
        };
        let transport_len = length as usize - ip.transport;
        // A later fragment has no such header, and what is too short for one is sent as it is.
        if ip.fragment == Fragment::Later || transport_len < header {
            return Ok(layout);
        }
        let fixed = captured.get(ip.transport..ip.transport + header).ok_or(LeftOut::CutInHeaders)?;
        let field = (ip.transport + field) as u16;
        // RFC 768: zero says that the sender made none; over IPv6 there must be one (RFC 8200 8.1).
        if !(ip.protocol == protocol::UDP && is_v4 && fixed[6..8] == [0, 0]) {
            let covers_addresses = ip.protocol != protocol::ICMP;
            layout.checksum = if covers_addresses { Covered::All(field) } else { Covered::Payload(field) };
            if ip.fragment == Fragment::Whole {
                let pseudo = || Sum::pseudo_header(ip.source, ip.destination, ip.protocol, transport_len as u32);
                layout.seal = Some((ip.transport, if covers_addresses { pseudo() } else { Sum::default() }));
            }
        }
        layout.tcp = (ip.protocol == protocol::TCP && ip.fragment == Fragment::Whole).then_some(ip.transport);
        let start = match ip.protocol {
            protocol::TCP => usize::from(fixed[12] >> 4) * 4,
            protocol::UDP => header,
            // Only an echo's payload means nothing to anybody but who sent it (RFC 792, RFC 4443 4).
            _ if matches!((is_v4, fixed[0]), (true, 0 | 8) | (false, 128 | 129)) => header,
            _ => 0,
        };
        if (header..=transport_len).contains(&start) {
            layout.payload = u16::try_from(ip.transport + start).unwrap_or(0);
        }
        Ok(layout)
    }

    /// How many octets of a stamp it takes.
    pub(super) fn stamp_room(&self) -> usize {
        stamp_room(self.payload, self.length)
    }

    /// The segments of at most `longest` bytes that hardware makes of this one: what is captured of each, and its
    /// length. `None` if it is not TCP, or its header is not there.
    fn pieces(&self, captured: &[u8], longest: u32) -> Option<impl Iterator<Item = (Vec<u8>, u32)>> {
        let (tcp, start) = (self.tcp?, usize::from(self.payload));
        let header = captured.get(..start).filter(|header| !header.is_empty())?;
        let step = (longest as usize).checked_sub(start).filter(|step| *step > 0)?;
        let data = &captured[start..captured.len().min(self.length as usize)];
        let total = self.length as usize - start;
        Some((0..total).step_by(step).map(move |from| {
            let to = (from + step).min(total);
            let mut piece = header.to_vec();
            piece.extend_from_slice(&data[from.min(data.len())..to.min(data.len())]);
            let length = start + to - from;
            match piece[0] >> 4 {
                4 => {
                    let identification = u16::from_be_bytes([piece[4], piece[5]]).wrapping_add((from / step) as u16);
                    piece[2..4].copy_from_slice(&(length as u16).to_be_bytes());
                    piece[4..6].copy_from_slice(&identification.to_be_bytes());
                }
                _ => piece[4..6].copy_from_slice(&((length - 40) as u16).to_be_bytes()),
            }
            let sequence = u32::from_be_bytes([piece[tcp + 4], piece[tcp + 5], piece[tcp + 6], piece[tcp + 7]]);
            piece[tcp + 4..tcp + 8].copy_from_slice(&sequence.wrapping_add(from as u32).to_be_bytes());
            // The end is the last one's, and that congestion was answered is the first one's (RFC 3168 6.1.2).
            if to < total {
                piece[tcp + 13] &= !(TcpFlags::FIN | TcpFlags::PSH).0;
            }
            if from > 0 {
                piece[tcp + 13] &= !TcpFlags::CWR.0;
            }
            (piece, length as u32)
        }))
    }

    /// Puts length and checksums right for a packet that is as it was captured and zeros beyond. True if a
    /// checksum was not.
    fn seal(&self, packet: &mut [u8]) -> bool {
        let before = self.checksums(packet);
        if packet[0] >> 4 == 4 {
            packet[2..4].copy_from_slice(&(self.length as u16).to_be_bytes());
            let header = usize::from(packet[0] & 0x0f) * 4;
            packet[10..12].fill(0);
            let sum = checksum(&packet[..header]);
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
        } else {
            packet[4..6].copy_from_slice(&(self.length as u16 - 40).to_be_bytes());
        }
        if let (Some((transport, pseudo_header)), Covered::All(field) | Covered::Payload(field)) =
            (self.seal, self.checksum)
        {
            let field = usize::from(field);
            let was = [packet[field], packet[field + 1]];
            packet[field..field + 2].fill(0);
            // Zeros that follow change no sum.
            let sum = pseudo_header + Sum::of(&packet[transport..]);
            packet[field..field + 2].copy_from_slice(&sum.checksum_or_ones().to_be_bytes());
            // The two zeros of one's complement are the same.
            if was == [0, 0] && sum.checksum() == 0 {
                return before[0] != self.checksums(packet)[0];
            }
        }
        before != self.checksums(packet)
    }

    /// The checksums of the IPv4 header and the transport as they stand.
    fn checksums(&self, packet: &[u8]) -> [u16; 2] {
        let word = |at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
        let header = if packet[0] >> 4 == 4 { word(10) } else { 0 };
        match self.checksum {
            Covered::All(at) | Covered::Payload(at) => [header, word(usize::from(at))],
            Covered::Nothing => [header, 0],
        }
    }
}

/// How many octets of a stamp fit after `payload` (0 if there is none) of a packet of `length` bytes.
const fn stamp_room(payload: u16, length: u32) -> usize {
    match payload {
        0 => 0,
        start => fitting(length as usize - start as usize),
    }
}

/// The length of an IP packet of which a capture says that it had `length` bytes, padding included.
fn total_length(captured: &[u8], length: u32) -> Result<u32, LeftOut> {
    let (stated, header, longest) = match captured {
        [0x40..=0x4f, _, high, low, rest @ ..] if rest.len() >= 16 => {
            (u32::from(u16::from_be_bytes([*high, *low])), u32::from(captured[0] & 0x0f) * 4, 65_535)
        }
        [0x60..=0x6f, _, _, _, high, low, rest @ ..] if rest.len() >= 34 => (
            match u16::from_be_bytes([*high, *low]) {
                0 if captured[6] != 59 => 0,
                payload => 40 + u32::from(payload),
            },
            40,
            65_575,
        ),
        [0x40..=0x4f | 0x60..=0x6f, ..] => return Err(LeftOut::CutInHeaders),
        _ => return Err(LeftOut::NotIp),
    };
    // Zero is said where the packet was captured before its length was filled in, and of super-frames over 64 KiB.
    let total = if stated == 0 { length } else { stated };
    if header < 20 || total < header || total > length || total > longest {
        return Err(LeftOut::BadLength);
    }
    Ok(total)
}

/// Replaces a field, and says by how much a checksum's sum changes with it (RFC 1624 3).
fn replace(field: &mut [u8], new: &[u8]) -> Sum {
    let before = Sum::of(field).checksum();
    field.copy_from_slice(new);
    Sum::from(before) + Sum::of(new)
}

/// Changes the transport checksum at `at`. Zero is stored as all ones, as UDP needs it; others read the same.
fn apply(packet: &mut [u8], at: u16, change: Sum) {
    let at = usize::from(at);
    let sum = Sum::from(!u16::from_be_bytes([packet[at], packet[at + 1]])) + change;
    packet[at..at + 2].copy_from_slice(&sum.checksum_or_ones().to_be_bytes());
}
