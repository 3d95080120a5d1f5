//! TCP options as a list of items with table indexes (RFC 6846 6.3), and the encodings that both
//! directions share (RFC 6846 8.2).
//!
//! Padding behind EOL: RFC 6846 8.2 sends its length in bits (`nbits - 8`), where an implementation
//! in the field sends octets. This compressor sends each octet of padding as an EOL item of its own
//! with no padding, which both read alike, as long as the list has room. The decompressor takes
//! both: the options end on a boundary of 32 bits, which tells them apart.

use alloc::vec::Vec;

use crate::bits::Reader;
use crate::error::Malformed;
use crate::wlsb::decode;

/// Entries of the item table (RFC 6846 6.3.4).
pub(super) const TABLE: usize = 16;
/// Most items in a list: `m` has four bits (RFC 6846 6.3.3).
pub(super) const MAX_ITEMS: usize = 15;
/// A TCP header has at most 60 octets, 20 of them fixed (RFC 9293 3.1).
pub(super) const MAX_OPTIONS: usize = 40;

// RFC 6846 6.3.4, table.
pub(super) const NOP: u8 = 0;
pub(super) const EOL: u8 = 1;
pub(super) const MSS: u8 = 2;
pub(super) const WINDOW_SCALE: u8 = 3;
pub(super) const TIMESTAMP: u8 = 4;
pub(super) const SACK_PERMITTED: u8 = 5;
pub(super) const SACK: u8 = 6;
/// From here to 15.
pub(super) const GENERIC: u8 = 7;

/// An option as it stands in the header, with a place for the longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Content {
    bytes: [u8; MAX_OPTIONS],
    len: u8,
}

impl Content {
    pub(super) const EMPTY: Self = Self { bytes: [0; MAX_OPTIONS], len: 0 };

    /// None if it is longer than any option.
    pub(super) fn new(option: &[u8]) -> Option<Self> {
        let mut bytes = [0; MAX_OPTIONS];
        bytes.get_mut(..option.len())?.copy_from_slice(option);
        Some(Self { bytes, len: option.len() as u8 })
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// The 32 bits at `at`; zero where there are none.
    pub(super) fn word(&self, at: usize) -> u32 {
        self.bytes.get(at..at + 4).map_or(0, |word| u32::from_be_bytes([word[0], word[1], word[2], word[3]]))
    }

    pub(super) fn timestamp(value: u32, echo: u32) -> Self {
        let mut bytes = [0; MAX_OPTIONS];
        bytes[..2].copy_from_slice(&[8, 10]);
        bytes[2..6].copy_from_slice(&value.to_be_bytes());
        bytes[6..10].copy_from_slice(&echo.to_be_bytes());
        Self { bytes, len: 10 }
    }
}

/// The options of one header, cut into items.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    items: [(u8, u8); MAX_ITEMS],
    count: u8,
}

impl Cut {
    /// Cuts `options`; none if they cannot be carried as a list.
    pub(super) fn of(options: &[u8]) -> Option<Self> {
        let mut cut = Self { items: [(0, 0); MAX_ITEMS], count: 0 };
        let mut at = 0;
        while at < options.len() {
            let len = match options[at] {
                0 => {
                    let rest = options.len() - at;
                    if options[at..].iter().any(|octet| *octet != 0) {
                        return None;
                    }
                    // The length of padding behind EOL has eight bits.
                    if usize::from(cut.count) + rest <= MAX_ITEMS {
                        1
                    } else if rest <= 32 {
                        rest
                    } else {
                        return None;
                    }
                }
                1 => 1,
                _ => usize::from(*options.get(at + 1)?),
            };
            if len == 0 || options[at] > 1 && len < 2 || at + len > options.len() {
                return None;
            }
            *cut.items.get_mut(usize::from(cut.count))? = (at as u8, len as u8);
            cut.count += 1;
            at += len;
        }
        Some(cut)
    }

    pub(super) fn ranges(&self) -> impl Iterator<Item = core::ops::Range<usize>> + '_ {
        self.items[..usize::from(self.count)].iter().map(|(at, len)| usize::from(*at)..usize::from(at + len))
    }
}

/// The index reserved for an option, if its length is the standard's.
pub(super) const fn reserved_index(option: &[u8]) -> Option<u8> {
    match (option[0], option.len()) {
        (0, _) => Some(EOL),
        (1, _) => Some(NOP),
        (2, 4) => Some(MSS),
        (3, 3) => Some(WINDOW_SCALE),
        (4, 2) => Some(SACK_PERMITTED),
        (5, 10 | 18 | 26 | 34) => Some(SACK),
        (8, 10) => Some(TIMESTAMP),
        _ => None,
    }
}

/// The formats of `ts_lsb`: octets, discriminator, bits, offset.
const TIMESTAMPS: [(usize, u32, u32, i32); 4] =
    [(1, 0, 7, -1), (2, 0b10, 14, -1), (3, 0b110, 21, 0x0004_0000), (4, 0b111, 29, 0x0400_0000)];

/// Appends `value` in the shortest format in which `fits(bits, offset)`; false if there is none.
pub(super) fn write_timestamp(out: &mut Vec<u8>, value: u32, fits: impl Fn(u32, i32) -> bool) -> bool {
    let Some((octets, discriminator, bits, _)) = TIMESTAMPS.into_iter().find(|(_, _, bits, p)| fits(*bits, *p)) else {
        return false;
    };
    let word = discriminator << bits | value & ((1 << bits) - 1);
    out.extend_from_slice(&word.to_be_bytes()[4 - octets..]);
    true
}

pub(super) fn read_timestamp(reader: &mut Reader<'_>, reference: u32) -> Result<u32, Malformed> {
    let first = reader.u8()?;
    let (octets, _, bits, p) = TIMESTAMPS[match first {
        0x00..=0x7f => 0,
        0x80..=0xbf => 1,
        0xc0..=0xdf => 2,
        0xe0..=0xff => 3,
    }];
    let word = reader.take(octets - 1)?.iter().fold(u32::from(first), |word, octet| word << 8 | u32::from(*octet));
    Ok(decode(reference, word & ((1 << bits) - 1), bits, p))
}

/// Appends `sack_pure_lsb`: how far `value` is behind `base`.
fn write_offset(out: &mut Vec<u8>, base: u32, value: u32) {
    let offset = value.wrapping_sub(base);
    let [_, second, third, fourth] = offset.to_be_bytes();
    match offset {
        0..=0x7fff => out.extend_from_slice(&[third, fourth]),
        0x8000..=0x3f_ffff => out.extend_from_slice(&[0x80 | second, third, fourth]),
        0x40_0000..=0x1fff_ffff => out.extend_from_slice(&(0xc000_0000 | offset).to_be_bytes()),
        _ => {
            out.push(0xff);
            out.extend_from_slice(&offset.to_be_bytes());
        }
    }
}

fn read_offset(reader: &mut Reader<'_>, base: u32) -> Result<u32, Malformed> {
    let first = reader.u8()?;
    let (octets, start) = match first {
        0x00..=0x7f => (1, u32::from(first)),
        0x80..=0xbf => (2, u32::from(first & 0x3f)),
        0xc0..=0xdf => (3, u32::from(first & 0x1f)),
        0xff => (4, 0),
        _ => return Err(Malformed::Reserved("SACK block")),
    };
    let offset = reader.take(octets)?.iter().fold(start, |word, octet| word << 8 | u32::from(*octet));
    Ok(base.wrapping_add(offset))
}

/// Appends a SACK option: the number of blocks, the first block from the acknowledgment number on,
/// each other from the end of the one before. (RFC 6846's `sack3_irregular` and `sack4_irregular`
/// name the first block where the list items name the one before; that is taken as a slip.)
pub(super) fn write_sack(out: &mut Vec<u8>, option: &[u8], ack: u32) {
    out.push((option.len() / 8) as u8);
    let mut base = ack;
    for edge in option[2..].as_chunks::<4>().0 {
        let edge = u32::from_be_bytes(*edge);
        write_offset(out, base, edge);
        base = edge;
    }
}

/// Reads a SACK option; none if it is marked as unchanged.
pub(super) fn read_sack(reader: &mut Reader<'_>, ack: u32) -> Result<Option<Content>, Malformed> {
    let blocks = usize::from(reader.u8()?);
    if blocks > 4 {
        return Err(Malformed::Reserved("number of SACK blocks"));
    }
    let mut bytes = [0; MAX_OPTIONS];
    let len = 2 + blocks * 8;
    bytes[..2].copy_from_slice(&[5, len as u8]);
    let mut base = ack;
    for at in (2..len).step_by(4) {
        base = read_offset(reader, base)?;
        bytes[at..at + 4].copy_from_slice(&base.to_be_bytes());
    }
    Ok((blocks > 0).then_some(Content { bytes, len: len as u8 }))
}

/// Appends the list's header (RFC 6846 6.3.3): `indexes` with the presence bit of each in `explicit`.
pub(super) fn write_list_header(out: &mut Vec<u8>, indexes: &[u8], explicit: u16) {
    let is_explicit = |at: usize| (explicit >> at & 1) as u8;
    if indexes.iter().all(|index| *index < 8) {
        out.push(indexes.len() as u8);
        for (pair, chunk) in indexes.chunks(2).enumerate() {
            let xi = |half: usize| chunk.get(half).map_or(0, |index| is_explicit(pair * 2 + half) << 3 | index);
            out.push(xi(0) << 4 | xi(1));
        }
    } else {
        out.push(0x10 | indexes.len() as u8);
        out.extend(indexes.iter().enumerate().map(|(at, index)| is_explicit(at) << 7 | index));
    }
}

/// A list's header: which items, and which of them are in the list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ListHeader {
    pub(super) indexes: [u8; MAX_ITEMS],
    pub(super) count: u8,
    pub(super) explicit: u16,
}

impl ListHeader {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let first = reader.u8()?;
        if first & 0xe0 != 0 {
            return Err(Malformed::Reserved("list of options"));
        }
        let mut list = Self { count: first & 0x0f, ..Self::default() };
        let count = usize::from(list.count);
        if first & 0x10 != 0 {
            for at in 0..count {
                let xi = reader.u8()?;
                if xi & 0x70 != 0 {
                    return Err(Malformed::Reserved("item of options"));
                }
                list.set(at, xi & 0x0f, xi & 0x80 != 0);
            }
        } else {
            let octets = reader.take(count.div_ceil(2))?;
            for at in 0..count {
                let xi = if at % 2 == 0 { octets[at / 2] >> 4 } else { octets[at / 2] & 0x0f };
                list.set(at, xi & 7, xi & 8 != 0);
            }
            if count % 2 == 1 && octets[count / 2] & 0x0f != 0 {
                return Err(Malformed::Reserved("list's padding"));
            }
        }
        Ok(list)
    }

    fn set(&mut self, at: usize, index: u8, explicit: bool) {
        self.indexes[at] = index;
        self.explicit |= u16::from(explicit) << at;
    }

    pub(super) fn indexes(&self) -> &[u8] {
        &self.indexes[..usize::from(self.count)]
    }
}
