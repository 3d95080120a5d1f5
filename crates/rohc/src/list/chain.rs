//! The extension headers of one IP header: their list, their sequence numbers, and what of them is
//! sent with every packet (RFC 3095 5.7, 5.8.4, 5.8.5.1).

use alloc::vec::Vec;

use super::headers::{self, SequenceKind};
use super::{ExtensionHeaders, Form, Kind, ListCompressor, ListDecompressor};
use crate::bits::Reader;
use crate::error::Malformed;

/// Flags of the IP extension header(s) field (RFC 3095 5.8.5.1). Those of the sequence numbers follow
/// in the order of [`SequenceKind`].
const LIST: u8 = 0x80;
const SEQUENCE: u8 = 0x40;

/// A sequence number is sent as its low octet (less a bit) when the rest of it has not changed for
/// this many packets: the decompressor's reference may be that old.
const STABLE: u8 = 16;

/// The kinds of headers with sequence numbers.
const KINDS: usize = 3;

/// A step from one sequence number of the flow to another, as a signed number.
fn step(from: u32, to: u32, bits: u32) -> u32 {
    let unused = 32 - bits;
    ((to.wrapping_sub(from) << unused).cast_signed() >> unused).cast_unsigned()
}

/// Compresses the extension headers of one IP header.
#[derive(Clone, Debug)]
pub(crate) struct ChainCompressor {
    list: ListCompressor,
    repeats: u8,
    /// How many bits the flow's sequence number has: 16, or 32 for ESP.
    sn_bits: u32,
    counters: [Option<Counter>; KINDS],
    scratch: Vec<u8>,
}

/// What the compressor knows of a header's own sequence number.
#[derive(Clone, Copy, Debug)]
struct Counter {
    sn: u32,
    value: u32,
    /// How often it was sent since its offset from the flow's sequence number last changed.
    sent: u8,
    /// For how many packets all but the low 7 bits have been the same.
    high_stable: u8,
    /// For how many packets the highest bit has been the same.
    top_stable: u8,
}

impl ChainCompressor {
    pub(crate) const fn new(repeats: u8, sn_bits: u32) -> Self {
        Self {
            list: ListCompressor::new(Kind::Headers, repeats),
            repeats,
            sn_bits,
            counters: [None; KINDS],
            scratch: Vec::new(),
        }
    }

    /// Takes the extension headers of the packet with sequence number `sn`; `bytes` begin where they do.
    /// Says whether there is something new to be sent.
    pub(crate) fn observe(&mut self, headers: &ExtensionHeaders, bytes: &[u8], sn: u32) -> bool {
        self.scratch.clear();
        let mut ends = [0; super::MAX_ITEMS];
        for (header, end) in headers.as_slice().iter().zip(&mut ends) {
            headers::push_item(header.protocol, &bytes[header.at..header.at + header.length], &mut self.scratch);
            *end = self.scratch.len();
        }
        let scratch = &self.scratch;
        let items = (0..headers.as_slice().len()).map(|at| &scratch[if at == 0 { 0 } else { ends[at - 1] }..ends[at]]);
        let mut changed = self.list.observe(items.clone());
        let mut seen = [false; KINDS];
        for (position, item) in items.enumerate() {
            let Some((kind, range)) = headers::sequence(item) else { continue };
            let Ok(value) = item[range].try_into().map(u32::from_be_bytes) else { continue };
            seen[kind as usize] = true;
            let counter = &mut self.counters[kind as usize];
            changed |= match counter {
                Some(known) => known.observe(sn, value, self.sn_bits),
                None => {
                    *counter = Some(Counter { sn, value, sent: 0, high_stable: 0, top_stable: 0 });
                    true
                }
            };
            // 31 bits say nothing without a reference, or if its highest bit may be the other one.
            if counter.is_some_and(|counter| counter.sent == 0 && counter.top_stable < STABLE) {
                self.list.doubt_item(position);
            }
        }
        for (counter, seen) in self.counters.iter_mut().zip(seen) {
            *counter = counter.filter(|_| seen);
        }
        changed
    }

    /// Are there no extension headers, as far as is known, and nothing to say of them?
    pub(crate) fn is_empty(&self) -> bool {
        self.list.items().next().is_none() && !self.list.is_pending()
    }

    /// Has the list or a sequence number to be sent, in a dynamic chain or in extension 3?
    pub(crate) fn is_pending(&self) -> bool {
        self.list.is_pending() || self.counters.iter().flatten().any(|counter| counter.sent < self.repeats)
    }

    /// The decompressor has a packet since something last changed.
    pub(crate) fn acknowledge(&mut self) {
        self.list.acknowledge();
        for counter in self.counters.iter_mut().flatten() {
            counter.sent = self.repeats;
        }
    }

    /// The decompressor lost something: everything has to be sent again.
    pub(crate) fn doubt(&mut self) {
        self.list.doubt();
        for counter in self.counters.iter_mut().flatten() {
            (counter.sent, counter.high_stable, counter.top_stable) = (0, 0, 0);
        }
    }

    /// Appends the list of a dynamic chain.
    pub(crate) fn write_dynamic(&mut self, out: &mut Vec<u8>) {
        self.list.write(Form::Full, out);
        for counter in self.counters.iter_mut().flatten() {
            counter.count(self.repeats);
        }
    }

    /// Appends the IP extension header(s) field of extension 3 (RFC 3095 5.8.5.1).
    pub(crate) fn write_extension(&mut self, out: &mut Vec<u8>) {
        let flags = out.len();
        out.push(0);
        self.scratch.clear();
        if self.list.is_pending() {
            out[flags] |= LIST;
            self.list.write(Form::Update, &mut self.scratch);
        }
        for (kind, counter) in self.counters.iter_mut().enumerate() {
            let Some(counter) = counter.as_mut().filter(|counter| counter.sent < self.repeats) else { continue };
            let is_fresh = self
                .list
                .items()
                .any(|(item, fresh)| fresh && headers::sequence(item).is_some_and(|(of, _)| of as usize == kind));
            counter.count(self.repeats);
            if is_fresh {
                continue;
            }
            out[flags] |= SEQUENCE >> kind;
            if counter.high_stable >= STABLE {
                out.push(counter.value as u8 & 0x7f);
            } else {
                out.extend_from_slice(&(counter.value | 0x8000_0000).to_be_bytes());
            }
        }
        out.append(&mut self.scratch);
    }

    /// Appends what follows the compressed header as it is (RFC 3095 5.7): authentication data and
    /// checksums of the items that were not sent whole in this packet.
    pub(crate) fn write_irregular(&self, out: &mut Vec<u8>) {
        for (item, _) in self.list.items().filter(|(_, fresh)| !fresh) {
            out.extend_from_slice(&item[headers::irregular(item)]);
        }
    }
}

impl Counter {
    /// Takes the next number. Did its offset from the flow's change?
    fn observe(&mut self, sn: u32, value: u32, sn_bits: u32) -> bool {
        let changed = self.value.wrapping_add(step(self.sn, sn, sn_bits)) != value;
        if changed {
            self.sent = 0;
        }
        let stable = |count: u8, same| if same { count.saturating_add(1) } else { 0 };
        self.high_stable = stable(self.high_stable, self.value >> 7 == value >> 7);
        self.top_stable = stable(self.top_stable, self.value >> 31 == value >> 31);
        self.sn = sn;
        self.value = value;
        changed
    }

    fn count(&mut self, repeats: u8) {
        self.sent = self.sent.saturating_add(1).min(repeats);
    }
}

/// Decompresses the extension headers of one IP header.
///
/// What a packet brings is kept apart until [`commit`](Self::commit), when its CRC was right.
#[derive(Clone, Debug)]
pub(crate) struct ChainDecompressor {
    list: ListDecompressor,
    sn_bits: u32,
    /// Of each kind, the sequence numbers of the flow and of the header in the last packet.
    references: [Option<(u32, u32)>; KINDS],
    /// Low bits that this packet brought, and how many.
    brought: [Option<(u32, u32)>; KINDS],
    /// The irregular parts that this packet brought, one behind the other.
    irregular: Vec<u8>,
}

impl ChainDecompressor {
    pub(crate) const fn new(sn_bits: u32) -> Self {
        Self {
            list: ListDecompressor::new(Kind::Headers),
            sn_bits,
            references: [None; KINDS],
            brought: [None; KINDS],
            irregular: Vec::new(),
        }
    }

    /// Begins a packet: what the last one brought and was not committed is forgotten.
    pub(crate) fn begin(&mut self) {
        self.list.abandon();
        self.brought = [None; KINDS];
        self.irregular.clear();
    }

    /// Reads the list of a dynamic chain.
    pub(crate) fn read_dynamic(&mut self, reader: &mut Reader<'_>) -> Result<(), Malformed> {
        self.list.read_dynamic(reader)
    }

    /// Reads the IP extension header(s) field of extension 3.
    pub(crate) fn read_extension(&mut self, reader: &mut Reader<'_>) -> Result<(), Malformed> {
        let flags = reader.u8()?;
        for (kind, brought) in self.brought.iter_mut().enumerate() {
            if flags & SEQUENCE >> kind == 0 {
                continue;
            }
            let first = reader.u8()?;
            *brought = Some(if first & 0x80 == 0 {
                (u32::from(first), 7)
            } else {
                let [b, c, d] = reader.array()?;
                (u32::from_be_bytes([first & 0x7f, b, c, d]), 31)
            });
        }
        if flags & LIST == 0 { Ok(()) } else { self.list.read(reader) }
    }

    /// Reads what follows the compressed header as it is. Only after the list, if there is one.
    pub(crate) fn read_irregular(&mut self, reader: &mut Reader<'_>) -> Result<(), Malformed> {
        self.irregular.clear();
        for (item, _) in self.list.items().filter(|(_, fresh)| !fresh) {
            self.irregular.extend_from_slice(reader.take(headers::irregular(item).len())?);
        }
        Ok(())
    }

    /// The protocol number of the first extension header, or `next` if there is none: what stands in
    /// the IP header.
    pub(crate) fn first(&self, next: u8) -> u8 {
        self.list.items().next().map_or(next, |(item, _)| item[0])
    }

    /// Are there headers with sequence numbers of their own?
    pub(crate) fn has_sequences(&self) -> bool {
        self.list.items().any(|(item, _)| headers::sequence(item).is_some())
    }

    /// Octets of the extension headers.
    pub(crate) fn len(&self) -> usize {
        self.list.items().map(|(item, _)| headers::header_len(item)).sum()
    }

    /// Appends the extension headers of the packet with sequence number `sn`, before `next`.
    pub(crate) fn write(&self, next: u8, sn: u32, out: &mut Vec<u8>) -> Result<(), Malformed> {
        let mut irregular = &self.irregular[..];
        let items = self.list.items();
        let followers = items.clone().skip(1).map(|(item, _)| item[0]).chain(core::iter::once(next));
        for ((item, fresh), next) in items.zip(followers) {
            let start = out.len();
            headers::push_header(item, next, out)?;
            if fresh {
                continue;
            }
            let header = &mut out[start..];
            // Sequence numbers and AH's data stand as far from the header's end as from the item's.
            let from_end = item.len();
            if let Some((kind, range)) = headers::sequence(item) {
                let value = self.value(kind, sn).ok_or(Malformed::Unknown)?;
                let at = header.len() - (from_end - range.start);
                header[at..at + 4].copy_from_slice(&value.to_be_bytes());
            }
            let range = headers::irregular(item);
            let Some((own, rest)) = irregular.split_at_checked(range.len()) else {
                return Err(Malformed::TooShort);
            };
            irregular = rest;
            // GRE's checksum follows the two octets of flags and two of type; AH's item is its header.
            let at = if range.start == 2 { 4 } else { range.start };
            header[at..at + own.len()].copy_from_slice(own);
        }
        Ok(())
    }

    /// The sequence number of a header that did not come whole in this packet.
    fn value(&self, kind: SequenceKind, sn: u32) -> Option<u32> {
        let (reference_sn, reference) = self.references[kind as usize]?;
        Some(match self.brought[kind as usize] {
            // RFC 4815 8.9: the low bits of the field, not an LSB encoding.
            Some((low, bits)) => reference >> bits << bits | low,
            None => reference.wrapping_add(step(reference_sn, sn, self.sn_bits)),
        })
    }

    /// Takes over what was read: the packet with sequence number `sn` was right. `lists` says whether
    /// the packet may change more than sequence numbers and tables (RFC 4815 6.2).
    pub(crate) fn commit(&mut self, sn: u32, lists: bool) {
        let mut references = self.references;
        for (item, fresh) in self.list.items() {
            let Some((kind, range)) = headers::sequence(item) else { continue };
            let own = if fresh { item[range].try_into().ok().map(u32::from_be_bytes) } else { self.value(kind, sn) };
            references[kind as usize] = own.map(|value| (sn, value));
        }
        self.references = references;
        self.list.commit(lists);
        self.begin();
    }
}
