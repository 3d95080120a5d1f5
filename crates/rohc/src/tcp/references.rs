//! What the decompressor may have as its references: the headers of the last packets.

use super::header::{IpId, Scaled, Tcp};

/// The longest memory: the greatest `repeats` of a configuration.
pub(super) const MAX_REFERENCES: usize = 15;

/// What one packet left in the decompressor's context, if it arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reference {
    pub(super) msn: u16,
    pub(super) tcp: Tcp,
    /// Of the innermost IP header.
    pub(super) tos: u8,
    pub(super) ttl: u8,
    pub(super) df: bool,
    pub(super) ip_id: IpId,
    pub(super) ip_id_offset: u16,
    pub(super) ecn_used: bool,
    pub(super) ack_stride: u16,
    pub(super) payload: u32,
    /// None without payload.
    pub(super) scaled_seq: Option<Scaled>,
    /// None without a stride.
    pub(super) scaled_ack: Option<Scaled>,
}

/// The references, newest last. As each packet updates the context (RFC 6846 5.3.1.2), a field that is equal
/// in all of them has been sent often enough to be left out, and bits that decode right from each of them
/// decode right.
#[derive(Clone, Debug)]
pub(super) struct References {
    kept: [Option<Reference>; MAX_REFERENCES],
    next: u8,
    limit: u8,
}

impl References {
    /// Keeps the last `limit` packets (1 to [`MAX_REFERENCES`]).
    pub(super) fn new(limit: u8) -> Self {
        Self { kept: [None; MAX_REFERENCES], next: 0, limit: limit.clamp(1, MAX_REFERENCES as u8) }
    }

    pub(super) fn push(&mut self, reference: Reference) {
        self.kept[usize::from(self.next)] = Some(reference);
        self.next = (self.next + 1) % self.limit;
    }

    /// The decompressor has the packet `msn`: older ones are references no more.
    pub(super) fn acknowledge(&mut self, msn: u16) {
        if self.iter().any(|reference| reference.msn == msn) {
            for kept in &mut self.kept {
                // Sent before `msn`: half of the numbers are before any number.
                if kept.is_some_and(|reference| reference.msn.wrapping_sub(msn) >= 0x8000) {
                    *kept = None;
                }
            }
        }
    }

    fn iter(&self) -> impl Iterator<Item = &Reference> {
        self.kept[..usize::from(self.limit)].iter().flatten()
    }

    /// Is there one, and does `holds` hold for each?
    pub(super) fn all(&self, holds: impl Fn(&Reference) -> bool) -> bool {
        let mut references = self.iter().peekable();
        references.peek().is_some() && references.all(holds)
    }

    /// Do `width` bits with offset `p` say `value`, a field of `field` bits, from each reference's `of`?
    pub(super) fn fits(&self, value: u32, width: u32, p: i32, field: u32, of: impl Fn(&Reference) -> u32) -> bool {
        let mask = u32::MAX >> (32 - field);
        self.all(|reference| value.wrapping_sub(of(reference)).wrapping_add(p as u32) & mask < 1 << width)
    }

    /// The newest.
    pub(super) fn newest(&self) -> Option<&Reference> {
        self.kept[usize::from((self.next + self.limit - 1) % self.limit)].as_ref()
    }
}
