//! List compression (RFC 3095 5.8, RFC 4815 5): CSRC lists, and extension headers after an IP header.
//!
//! Both ends keep a table of items. A compressed list names its items by their index in it, and
//! carries those that the decompressor may not know yet. A list that is repeated is a *generation*
//! with an identifier; once it was sent often enough it is a reference, and later lists can be sent
//! as what was removed from it and inserted into it.
//!
//! Lists, here, are lists of indices: if an item gets another value, so do the lists in the window of
//! references that contain it. RFC 3095 5.8.2 leaves open whether they do; this compressor never
//! gives an index of a reference to another item, so its lists are the same in both readings.

mod chain;
mod compress;
mod context;
mod decompress;
mod headers;

pub(crate) use chain::{ChainCompressor, ChainDecompressor};
pub(crate) use compress::{Form, ListCompressor};
pub(crate) use context::{CompressorLists, DecompressorLists};
pub(crate) use decompress::ListDecompressor;
pub(crate) use headers::{ExtensionHeaders, is_extension};

use crate::bits::Reader;
use crate::error::Malformed;

/// How many items a list can have: the CC field of RFC 3095 5.8.6.1 has four bits.
pub(crate) const MAX_ITEMS: usize = 15;

/// What the items of a list are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// CSRC identifiers of 4 octets.
    Csrc,
    /// Extension headers in the form of RFC 3095 5.8.4: their own type stands in their first octet.
    Headers,
}

impl Kind {
    /// The length of the item that `bytes` begin with.
    fn item_len(self, bytes: &[u8]) -> Result<usize, Malformed> {
        match self {
            Self::Csrc => Ok(4),
            Self::Headers => headers::item_len(bytes),
        }
    }

    /// Are `a` and `b` one item, but for what is sent apart from the list (RFC 3095 5.8.4.2 to 5.8.4.4)?
    fn same(self, a: &[u8], b: &[u8]) -> bool {
        match self {
            Self::Csrc => a == b,
            Self::Headers => headers::same(a, b),
        }
    }
}

/// A list: indices into the table of items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct List {
    indices: [u8; MAX_ITEMS],
    length: u8,
}

impl List {
    fn as_slice(&self) -> &[u8] {
        &self.indices[..usize::from(self.length)]
    }

    const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Appends `index`, or says that the list is full.
    fn push(&mut self, index: u8) -> Result<(), Malformed> {
        let slot = self.indices.get_mut(usize::from(self.length)).ok_or(Malformed::TooMany("items in a list"))?;
        *slot = index;
        self.length += 1;
        Ok(())
    }
}

/// A bit mask of RFC 3095 5.8.6.2: 7 or 15 positions, the first in the most significant bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mask {
    /// The first position is bit 15; bit 0 is always 0.
    bits: u16,
    width: usize,
}

impl Mask {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let first = reader.u8()?;
        if first & 0x80 == 0 {
            return Ok(Self { bits: u16::from(first) << 9, width: 7 });
        }
        Ok(Self { bits: u16::from_be_bytes([first, reader.u8()?]) << 1, width: 15 })
    }

    fn write(self, out: &mut alloc::vec::Vec<u8>) {
        let [first, second] = (self.bits >> 1).to_be_bytes();
        if self.width == 7 {
            out.push(first);
        } else {
            out.extend_from_slice(&[0x80 | first, second]);
        }
    }

    /// How many octets it takes.
    const fn len(self) -> usize {
        if self.width == 7 { 1 } else { 2 }
    }

    fn get(self, position: usize) -> bool {
        position < self.width && self.bits & 0x8000 >> position != 0
    }

    fn set(&mut self, position: usize) {
        self.bits |= 0x8000 >> position;
    }

    const fn count(self) -> usize {
        self.bits.count_ones() as usize
    }
}

#[cfg(test)]
mod tests;
