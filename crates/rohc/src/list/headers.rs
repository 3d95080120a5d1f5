//! Extension headers, as they stand in packets and as items of lists (RFC 3095 5.8.4).

use core::ops::Range;

use alloc::vec::Vec;

use super::MAX_ITEMS;
use crate::error::Malformed;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const GRE: u8 = 47;
const ESP: u8 = 50;
const AH: u8 = 51;
const MINIMAL: u8 = 55;
const DESTINATION: u8 = 60;

const IPV4: u8 = 4;
const IPV6: u8 = 41;

/// GRE's flags (RFC 2890 2): checksum, key, sequence number present; and its version.
const GRE_CHECKSUM: u8 = 0x80;
const GRE_KEY: u8 = 0x20;
const GRE_SEQUENCE: u8 = 0x10;
const GRE_VERSION: u8 = 0x07;

/// Why extension headers cannot be compressed as a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// They do not end within the packet.
    Truncated,
    /// There are over fifteen.
    TooMany,
    /// A field has a value that no list can carry.
    Value,
    /// Two of a kind whose sequence numbers are sent apart: extension 3 has room for one of each.
    Twice,
}

/// Does `protocol`, behind an IP header of `version`, name a header that belongs to a list (RFC 3095
/// 5.8, RFC 4815 5.4)? Encapsulating Security Payload is not among them: whether it encrypts cannot
/// be seen from `protocol`.
pub(crate) const fn is_extension(protocol: u8, version: u8) -> bool {
    match protocol {
        HOP_BY_HOP | ROUTING | DESTINATION => version == 6,
        GRE | AH | MINIMAL => true,
        _ => false,
    }
}

/// One extension header in a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ExtensionHeader {
    /// Its protocol number.
    pub(super) protocol: u8,
    /// Where it begins, counted from the end of the IP header.
    pub(super) at: usize,
    /// Its length in octets.
    pub(super) length: usize,
}

/// The extension headers that follow an IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExtensionHeaders {
    headers: [ExtensionHeader; MAX_ITEMS],
    count: usize,
    /// The protocol number of what follows them.
    pub(crate) next: u8,
    /// How many octets they take together.
    pub(crate) length: usize,
}

impl ExtensionHeaders {
    /// None, before `next`.
    pub(crate) fn none(next: u8) -> Self {
        Self { headers: [ExtensionHeader::default(); MAX_ITEMS], count: 0, next, length: 0 }
    }

    /// Reads the headers that follow an IP header of `version` whose protocol field is `first`.
    pub(crate) fn read(version: u8, first: u8, bytes: &[u8]) -> Result<Self, Unfit> {
        let mut found = Self::none(first);
        let mut sequenced = [false; 3];
        while is_extension(found.next, version) {
            let rest = &bytes[found.length..];
            let (length, next) = measure(found.next, rest).ok_or(Unfit::Truncated)??;
            let slot = found.headers.get_mut(found.count).ok_or(Unfit::TooMany)?;
            *slot = ExtensionHeader { protocol: found.next, at: found.length, length };
            found.count += 1;
            found.length += length;
            if let Some(kind) = SequenceKind::of(found.next)
                && core::mem::replace(&mut sequenced[kind as usize], true)
            {
                return Err(Unfit::Twice);
            }
            found.next = next;
        }
        Ok(found)
    }

    /// Takes `bytes`, the headers, apart for the CRC: each part, and whether it is CRC-DYNAMIC.
    pub(crate) fn crc_parts<'a>(&self, bytes: &'a [u8], mut part: impl FnMut(&'a [u8], bool)) {
        for header in self.as_slice() {
            let octets = &bytes[header.at..header.at + header.length];
            let [first, second] = crc_dynamic(header.protocol, octets);
            part(&octets[..first.start], false);
            part(&octets[first.clone()], true);
            part(&octets[first.end..second.start], false);
            part(&octets[second], true);
        }
    }

    pub(super) fn as_slice(&self) -> &[ExtensionHeader] {
        &self.headers[..self.count]
    }
}

/// Length of the header that `bytes` begin with, and the protocol behind it. None if it is cut off.
fn measure(protocol: u8, bytes: &[u8]) -> Option<Result<(usize, u8), Unfit>> {
    let first = *bytes.first()?;
    let second = *bytes.get(1)?;
    let (length, next) = match protocol {
        AH if second == 0 => return Some(Err(Unfit::Value)),
        AH => (usize::from(second) * 4 + 8, first),
        MINIMAL => (if second & 0x80 == 0 { 8 } else { 12 }, first),
        GRE => {
            // RFC 3095 5.8.4.4: Reserved0 and Reserved1 must be zero, and the type behind must be a protocol.
            if first & !(GRE_CHECKSUM | GRE_KEY | GRE_SEQUENCE) != 0 || second & !GRE_VERSION != 0 {
                return Some(Err(Unfit::Value));
            }
            let next = match bytes.get(2..4)? {
                [0x08, 0x00] => IPV4,
                [0x86, 0xdd] => IPV6,
                _ => return Some(Err(Unfit::Value)),
            };
            if first & GRE_CHECKSUM != 0 && bytes.get(6..8)? != [0, 0] {
                return Some(Err(Unfit::Value));
            }
            let optional = |flag| if first & flag == 0 { 0 } else { 4 };
            (4 + optional(GRE_CHECKSUM) + optional(GRE_KEY) + optional(GRE_SEQUENCE), next)
        }
        _ => (usize::from(second) * 8 + 8, first),
    };
    (length <= bytes.len()).then_some(Ok((length, next)))
}

/// The length of the item that `bytes` begin with.
pub(super) fn item_len(bytes: &[u8]) -> Result<usize, Malformed> {
    let [protocol, second, ..] = *bytes else { return Err(Malformed::TooShort) };
    match protocol {
        HOP_BY_HOP | ROUTING | DESTINATION => Ok(usize::from(second) * 8 + 8),
        AH if second > 0 => Ok(usize::from(second) * 4 + 8),
        MINIMAL => Ok(if second & 0x80 == 0 { 8 } else { 12 }),
        GRE => {
            let optional = |flag, octets| if second & flag == 0 { 0 } else { octets };
            Ok(2 + optional(GRE_CHECKSUM, 2) + optional(GRE_KEY, 4) + optional(GRE_SEQUENCE, 4))
        }
        _ => Err(Malformed::Reserved("an extension header")),
    }
}

/// Appends `header`, the octets of a header of `protocol` in a packet, as an item.
pub(super) fn push_item(protocol: u8, header: &[u8], out: &mut Vec<u8>) {
    out.push(protocol);
    match protocol {
        GRE => {
            out.push(header[0] | header[1]);
            let optional = &header[4..];
            if header[0] & GRE_CHECKSUM == 0 {
                out.extend_from_slice(optional);
            } else {
                out.extend_from_slice(&optional[..2]);
                out.extend_from_slice(&optional[4..]);
            }
        }
        ESP => out.extend_from_slice(&header[..8]),
        _ => out.extend_from_slice(&header[1..]),
    }
}

/// Appends the header of `item`, followed by `next`, as it stands in a packet.
pub(super) fn push_header(item: &[u8], next: u8, out: &mut Vec<u8>) -> Result<(), Malformed> {
    match item[0] {
        GRE => {
            let ether_type: u16 = match next {
                IPV4 => 0x0800,
                IPV6 => 0x86dd,
                _ => return Err(Malformed::Reserved("an extension header")),
            };
            // RFC 3095 5.8.4.4: the bits left blank in the item are ignored.
            out.push(item[1] & (GRE_CHECKSUM | GRE_KEY | GRE_SEQUENCE));
            out.push(item[1] & GRE_VERSION);
            out.extend_from_slice(&ether_type.to_be_bytes());
            let optional = &item[2..];
            if item[1] & GRE_CHECKSUM == 0 {
                out.extend_from_slice(optional);
            } else {
                out.extend_from_slice(&[optional[0], optional[1], 0, 0]);
                out.extend_from_slice(&optional[2..]);
            }
        }
        ESP => out.extend_from_slice(&item[1..]),
        _ => {
            out.push(next);
            out.extend_from_slice(&item[1..]);
        }
    }
    Ok(())
}

/// The length of the header of `item` in a packet.
pub(super) fn header_len(item: &[u8]) -> usize {
    match item[0] {
        // Two octets of type more; and two of Reserved1, if there is a checksum.
        GRE => item.len() + if item[1] & GRE_CHECKSUM == 0 { 2 } else { 4 },
        ESP => item.len() - 1,
        _ => item.len(),
    }
}

/// The headers whose sequence numbers are sent apart from the list (RFC 3095 5.8.5.1), in the order
/// in which extension 3 has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SequenceKind {
    Ah = 0,
    Esp = 1,
    Gre = 2,
}

impl SequenceKind {
    pub(super) const fn of(protocol: u8) -> Option<Self> {
        match protocol {
            AH => Some(Self::Ah),
            ESP => Some(Self::Esp),
            GRE => Some(Self::Gre),
            _ => None,
        }
    }
}

/// Where an item's sequence number stands, if it has one.
pub(super) fn sequence(item: &[u8]) -> Option<(SequenceKind, Range<usize>)> {
    let kind = SequenceKind::of(item[0])?;
    let at = match kind {
        SequenceKind::Ah => 8,
        SequenceKind::Esp => 5,
        SequenceKind::Gre if item[1] & GRE_SEQUENCE == 0 => return None,
        SequenceKind::Gre => item.len() - 4,
    };
    Some((kind, at..at + 4))
}

/// What of an item follows the compressed header as it is (RFC 3095 5.7) if the item is not in the
/// list: AH's authentication data, GRE's checksum.
pub(super) fn irregular(item: &[u8]) -> Range<usize> {
    match item[0] {
        AH => 12..item.len(),
        GRE if item[1] & GRE_CHECKSUM != 0 => 2..4,
        _ => 0..0,
    }
}

/// Are the items equal but for sequence numbers and irregular parts?
pub(super) fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() || a[..2] != b[..2] {
        return false;
    }
    match a[0] {
        AH => a[..8] == b[..8],
        ESP => a[..5] == b[..5],
        GRE => {
            let key = irregular(a).end.max(2)..sequence(a).map_or(a.len(), |(_, range)| range.start);
            a[key.clone()] == b[key]
        }
        _ => a == b,
    }
}

/// Which octets of `header`, as it stands in a packet, are CRC-DYNAMIC (RFC 3095 5.8.7).
pub(super) fn crc_dynamic(protocol: u8, header: &[u8]) -> [Range<usize>; 2] {
    let end = header.len();
    match protocol {
        AH | ESP => [0..end, end..end],
        GRE => {
            let checksum = if header[0] & GRE_CHECKSUM == 0 { 4..4 } else { 4..6 };
            let sequence = if header[0] & GRE_SEQUENCE == 0 { end..end } else { end - 4..end };
            [checksum, sequence]
        }
        _ => [end..end, end..end],
    }
}
