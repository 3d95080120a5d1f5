//! Reading captures: pcap (draft-ietf-opsawg-pcap) and pcapng (draft-ietf-opsawg-pcapng), in either byte order.
//!
//! A [`Reader`] is given the file's bytes as they come, holds none of them, and says how many it needs.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;

use crate::headers::{Headers, ethertype};

/// The longest block or record that is read. Packets are 256 KiB at most; blocks that hold something else may be
/// longer.
pub const LONGEST_BLOCK: usize = 16 << 20;

/// The most interfaces of a section that are remembered.
const MOST_INTERFACES: usize = 1 << 16;

/// Reads a capture block by block.
///
/// Call [`Reader::read`] with the bytes that follow what was used so far, until they end.
#[derive(Clone, Debug, Default)]
pub struct Reader {
    format: Option<Format>,
    interfaces: Vec<Interface>,
}

/// What [`Reader::read`] found at the start of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// Nothing yet: it takes so many bytes to go on. If there are no more, the capture was cut off, unless
    /// nothing is left.
    Needs(usize),
    /// Something that is no packet, of so many bytes.
    Other(usize),
    /// A packet, and how many bytes its block has.
    Packet(Captured<'a>, usize),
}

/// A captured packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Captured<'a> {
    /// Number of the interface in its section; 0 in pcap files.
    pub interface: u32,
    /// What the bytes begin with.
    pub link: LinkType,
    /// When, in nanoseconds since 1970; `None` where the file does not say (simple packet block).
    pub unix_nanos: Option<u64>,
    /// What was captured, from the link header on.
    pub bytes: &'a [u8],
    /// How long the packet was on the wire, from the link header on.
    pub length: u32,
    /// Whether it was received or sent by the interface, if the file says so.
    pub direction: Option<Passage>,
}

/// Which way a packet passed an interface (pcapng 4.3.1, `epb_flags`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage {
    /// Received.
    In,
    /// Sent.
    Out,
}

/// What a packet begins with (<https://www.tcpdump.org/linktypes.html>).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkType {
    /// Ethernet, with or without VLAN tags.
    Ethernet,
    /// Linux's cooked header of all interfaces (`LINKTYPE_LINUX_SLL`).
    Cooked,
    /// Its second version (`LINKTYPE_LINUX_SLL2`).
    Cooked2,
    /// The IP header.
    Raw,
    /// Four bytes of address family, in any byte order (`LINKTYPE_NULL`, `LINKTYPE_LOOP`).
    Loopback,
    /// Another one: its packets are left aside.
    Other(u32),
}

/// Why a capture cannot be read further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// It begins like no capture.
    #[error("this is no capture: it begins neither as pcap nor as pcapng")]
    NotACapture,
    /// It is compressed.
    #[error("this is compressed ({0}); unpack it first")]
    Compressed(&'static str),
    /// Lengths in a block contradict each other.
    #[error("a block of type {kind:#x} says {length} bytes, which cannot be")]
    BadLength {
        /// Its type; 0 for a record of a pcap file.
        kind: u32,
        /// What it says.
        length: u32,
    },
    /// A packet names an interface that was not described.
    #[error("a packet belongs to interface {0}, which the capture does not describe")]
    UnknownInterface(u32),
    /// The byte order is given by a number that is not the one.
    #[error("a section begins with {0:#010x} instead of the byte-order magic")]
    BadMagic(u32),
    /// An interface counts time in steps too small or too many.
    #[error("an interface counts time in units of {0:#04x}, which cannot be kept in 64 bits")]
    BadResolution(u8),
    /// More interfaces than anybody has.
    #[error("more than {MOST_INTERFACES} interfaces")]
    TooManyInterfaces,
}

#[derive(Clone, Copy, Debug)]
enum Format {
    Pcap { order: Order, link: LinkType, nanos_per_unit: u64, header: usize },
    Pcapng(Order),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Little,
    Big,
}

/// An interface of a section (pcapng 4.2).
#[derive(Clone, Debug)]
struct Interface {
    link: LinkType,
    units_per_second: u64,
    /// Seconds to add.
    offset: i64,
    name: String,
}

/// Block types of pcapng.
mod block {
    pub(super) const SECTION: u32 = 0x0a0d_0d0a;
    pub(super) const INTERFACE: u32 = 1;
    /// Obsolete (draft-ietf-opsawg-pcapng, appendix A).
    pub(super) const PACKET: u32 = 2;
    pub(super) const SIMPLE_PACKET: u32 = 3;
    pub(super) const ENHANCED_PACKET: u32 = 6;
}

const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;

impl Reader {
    /// A reader at the start of a capture.
    #[must_use]
    pub const fn new() -> Self {
        Self { format: None, interfaces: Vec::new() }
    }

    /// Looks at the next block. `bytes` begin where the last one ended and may hold any number of blocks.
    ///
    /// # Errors
    ///
    /// What makes no sense; nothing can be read after it.
    pub fn read<'a>(&mut self, bytes: &'a [u8]) -> Result<Step<'a>, Problem> {
        match self.format {
            None => self.begin(bytes),
            Some(Format::Pcap { order, link, nanos_per_unit, header }) => {
                record(bytes, order, link, nanos_per_unit, header)
            }
            Some(Format::Pcapng(order)) => self.block(bytes, order),
        }
    }

    /// Name of an interface of the current section; empty if it has none.
    #[must_use]
    pub fn interface_name(&self, interface: u32) -> &str {
        self.interfaces.get(interface as usize).map_or("", |interface| &interface.name)
    }

    fn begin<'a>(&mut self, bytes: &'a [u8]) -> Result<Step<'a>, Problem> {
        let Some(magic) = bytes.first_chunk::<4>() else { return Ok(Step::Needs(4)) };
        let (order, nanos_per_unit, header) = match u32::from_le_bytes(*magic) {
            block::SECTION => {
                self.format = Some(Format::Pcapng(Order::Little));
                return self.block(bytes, Order::Little);
            }
            0xa1b2_c3d4 => (Order::Little, 1_000, 16),
            0xd4c3_b2a1 => (Order::Big, 1_000, 16),
            0xa1b2_3c4d => (Order::Little, 1, 16),
            0x4d3c_b2a1 => (Order::Big, 1, 16),
            // A patched libpcap of old, with 8 more bytes in each record.
            0xa1b2_cd34 => (Order::Little, 1_000, 24),
            0x34cd_b2a1 => (Order::Big, 1_000, 24),
            _ if magic[..2] == [0x1f, 0x8b] => return Err(Problem::Compressed("gzip")),
            0xfd2f_b528 => return Err(Problem::Compressed("zstd")),
            0x184d_2204 => return Err(Problem::Compressed("lz4")),
            _ => return Err(Problem::NotACapture),
        };
        let Some(file) = bytes.first_chunk::<24>() else { return Ok(Step::Needs(24)) };
        // The upper half says whether there is a frame check sequence.
        let link = LinkType::from_number(order.u32(file, 20) & 0xffff);
        self.format = Some(Format::Pcap { order, link, nanos_per_unit, header });
        Ok(Step::Other(24))
    }

    fn block<'a>(&mut self, bytes: &'a [u8], mut order: Order) -> Result<Step<'a>, Problem> {
        let Some(head) = bytes.first_chunk::<12>() else { return Ok(Step::Needs(12)) };
        let kind = order.u32(head, 0);
        if kind == block::SECTION {
            order = match u32::from_le_bytes([head[8], head[9], head[10], head[11]]) {
                BYTE_ORDER_MAGIC => Order::Little,
                magic if magic.swap_bytes() == BYTE_ORDER_MAGIC => Order::Big,
                magic => return Err(Problem::BadMagic(magic)),
            };
        }
        let length = order.u32(head, 4);
        let bad = Problem::BadLength { kind, length };
        let size = length as usize;
        if !(12..=LONGEST_BLOCK).contains(&size) || !size.is_multiple_of(4) {
            return Err(bad);
        }
        let Some(whole) = bytes.get(..size) else { return Ok(Step::Needs(size)) };
        // The length stands at both ends (3.1).
        if order.u32(whole, size - 4) != length {
            return Err(bad);
        }
        let body = &whole[8..size - 4];
        match kind {
            block::SECTION => {
                self.interfaces.clear();
                self.format = Some(Format::Pcapng(order));
            }
            block::INTERFACE => self.describe(body, order).ok_or(bad)??,
            block::PACKET | block::ENHANCED_PACKET => {
                return Ok(Step::Packet(self.packet(kind, body, order).ok_or(bad)??, size));
            }
            block::SIMPLE_PACKET => return Ok(Step::Packet(self.simple(body, order).ok_or(bad)??, size)),
            _ => {}
        }
        Ok(Step::Other(size))
    }

    /// An interface description block (4.2). `None` if it is too short.
    fn describe(&mut self, body: &[u8], order: Order) -> Option<Result<(), Problem>> {
        let (fixed, rest) = body.split_first_chunk::<8>()?;
        let mut interface = Interface {
            link: LinkType::from_number(u32::from(order.u16(fixed, 0))),
            units_per_second: 1_000_000,
            offset: 0,
            name: String::new(),
        };
        for (code, value) in options(rest, order) {
            match (code, value) {
                (2, name) => interface.name = String::from_utf8_lossy(name).trim_end_matches('\0').to_owned(),
                (9, &[resolution, ..]) => {
                    let exponent = u32::from(resolution & 0x7f);
                    let units =
                        if resolution & 0x80 == 0 { 10u64.checked_pow(exponent) } else { 1u64.checked_shl(exponent) };
                    let Some(units) = units else { return Some(Err(Problem::BadResolution(resolution))) };
                    interface.units_per_second = units;
                }
                (14, value) if value.len() >= 8 => {
                    let (high, low) = (order.u32(value, 4), order.u32(value, 0));
                    let (high, low) = if order == Order::Little { (high, low) } else { (low, high) };
                    interface.offset = ((u64::from(high) << 32) | u64::from(low)).cast_signed();
                }
                _ => {}
            }
        }
        if self.interfaces.len() >= MOST_INTERFACES {
            return Some(Err(Problem::TooManyInterfaces));
        }
        self.interfaces.push(interface);
        Some(Ok(()))
    }

    /// An enhanced packet block (4.3) or the obsolete packet block, which differ in their first word.
    fn packet<'a>(&self, kind: u32, body: &'a [u8], order: Order) -> Option<Result<Captured<'a>, Problem>> {
        let (fixed, rest) = body.split_first_chunk::<20>()?;
        let number = if kind == block::PACKET { u32::from(order.u16(fixed, 0)) } else { order.u32(fixed, 0) };
        let Some(interface) = self.interfaces.get(number as usize) else {
            return Some(Err(Problem::UnknownInterface(number)));
        };
        let kept = order.u32(fixed, 12) as usize;
        let (bytes, rest) = rest.split_at_checked(kept)?;
        let flags =
            options(rest.get(kept.wrapping_neg() % 4..)?, order).find(|(code, value)| *code == 2 && value.len() == 4);
        let direction = flags.and_then(|(_, value)| match order.u32(value, 0) & 3 {
            1 => Some(Passage::In),
            2 => Some(Passage::Out),
            _ => None,
        });
        let units = (u64::from(order.u32(fixed, 4)) << 32) | u64::from(order.u32(fixed, 8));
        Some(Ok(Captured {
            interface: number,
            link: interface.link,
            unix_nanos: Some(interface.unix_nanos(units)),
            bytes,
            length: order.u32(fixed, 16).max(kept as u32),
            direction,
        }))
    }

    /// A simple packet block (4.4): of the first interface, without a time.
    fn simple<'a>(&self, body: &'a [u8], order: Order) -> Option<Result<Captured<'a>, Problem>> {
        let (length, rest) = body.split_first_chunk::<4>()?;
        let length = order.u32(length, 0);
        let Some(interface) = self.interfaces.first() else { return Some(Err(Problem::UnknownInterface(0))) };
        let bytes = &rest[..rest.len().min(length as usize)];
        Some(Ok(Captured { interface: 0, link: interface.link, unix_nanos: None, bytes, length, direction: None }))
    }
}

impl Captured<'_> {
    /// Where the IP header is within the bytes; `None` if it is another packet or too little was captured.
    #[must_use]
    pub fn network(&self) -> Option<usize> {
        let at = match self.link {
            LinkType::Ethernet => {
                let headers = Headers::parse(self.bytes);
                is_ip(headers.ethertype).then_some(headers.network)?
            }
            LinkType::Cooked => tagged(self.bytes, 14, 16)?,
            LinkType::Cooked2 => tagged(self.bytes, 0, 20)?,
            LinkType::Raw => 0,
            LinkType::Loopback => 4,
            LinkType::Other(_) => return None,
        };
        matches!(self.bytes.get(at)? >> 4, 4 | 6).then_some(at)
    }
}

impl LinkType {
    fn from_number(number: u32) -> Self {
        match number {
            1 => Self::Ethernet,
            113 => Self::Cooked,
            276 => Self::Cooked2,
            // Also what some systems' files say for it, and the types for one IP version alone.
            101 | 12 | 14 | 228 | 229 => Self::Raw,
            0 | 108 => Self::Loopback,
            number => Self::Other(number),
        }
    }
}

impl Interface {
    fn unix_nanos(&self, units: u64) -> u64 {
        let nanos = u128::from(units) * 1_000_000_000 / u128::from(self.units_per_second);
        let nanos = i128::try_from(nanos).unwrap_or(i128::MAX);
        let shifted = nanos.saturating_add(i128::from(self.offset) * 1_000_000_000);
        u64::try_from(shifted.max(0)).unwrap_or(u64::MAX)
    }
}

impl Order {
    fn u16(self, bytes: &[u8], at: usize) -> u16 {
        let word = [bytes[at], bytes[at + 1]];
        if self == Self::Little { u16::from_le_bytes(word) } else { u16::from_be_bytes(word) }
    }

    fn u32(self, bytes: &[u8], at: usize) -> u32 {
        let word = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        if self == Self::Little { u32::from_le_bytes(word) } else { u32::from_be_bytes(word) }
    }
}

/// A record of a pcap file.
fn record(bytes: &[u8], order: Order, link: LinkType, nanos_per_unit: u64, header: usize) -> Result<Step<'_>, Problem> {
    let Some(head) = bytes.get(..header) else { return Ok(Step::Needs(header)) };
    let kept = order.u32(head, 8);
    let size = header.saturating_add(kept as usize);
    if size > LONGEST_BLOCK {
        return Err(Problem::BadLength { kind: 0, length: kept });
    }
    let Some(bytes) = bytes.get(header..size) else { return Ok(Step::Needs(size)) };
    let (seconds, fraction) = (u64::from(order.u32(head, 0)), u64::from(order.u32(head, 4)));
    let captured = Captured {
        interface: 0,
        link,
        unix_nanos: Some(seconds * 1_000_000_000 + fraction * nanos_per_unit),
        bytes,
        length: order.u32(head, 12).max(kept),
        direction: None,
    };
    Ok(Step::Packet(captured, size))
}

/// The options at the end of a block (3.5), up to the first that is not whole.
fn options(mut rest: &[u8], order: Order) -> impl Iterator<Item = (u16, &[u8])> {
    core::iter::from_fn(move || {
        let (head, after) = rest.split_first_chunk::<4>()?;
        let (code, len) = (order.u16(head, 0), usize::from(order.u16(head, 2)));
        let (value, after) = after.split_at_checked(len)?;
        rest = after.get(len.wrapping_neg() % 4..).unwrap_or(&[]);
        (code != 0).then_some((code, value))
    })
}

/// Where IP starts behind a header of `len` bytes that has an `EtherType` at `at`, and perhaps VLAN tags after it.
fn tagged(bytes: &[u8], at: usize, len: usize) -> Option<usize> {
    let word = |at: usize| bytes.get(at..)?.first_chunk().map(|pair| u16::from_be_bytes(*pair));
    let (mut kind, mut at) = (word(at)?, len);
    for _ in 0..2 {
        if matches!(kind, ethertype::VLAN | ethertype::SERVICE_VLAN | ethertype::OLD_SERVICE_VLAN) {
            (kind, at) = (word(at + 2)?, at + 4);
        }
    }
    is_ip(kind).then_some(at)
}

const fn is_ip(kind: u16) -> bool {
    matches!(kind, ethertype::IPV4 | ethertype::IPV6)
}
