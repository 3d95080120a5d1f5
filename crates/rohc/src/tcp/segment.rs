//! A packet that the profile takes.

use alloc::vec::Vec;
use core::ops::Range;

use wire::checksum::Sum;

use super::chain::Layout;
use super::header::{FIXED, Tcp};
use super::options::Cut;
use super::send_chains::write_key;
use super::send_options::can_carry;

/// Where everything stands in a TCP packet whose header can be compressed and be found right again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub(super) layout: Layout,
    pub(super) tcp: Tcp,
    pub(super) cut: Cut,
    /// Octets in front of the payload.
    header: usize,
}

impl Segment {
    /// None if `packet` is for another profile: no TCP behind headers that RFC 6846 6.2 lists, a field that
    /// is inferred has another value, options that are no list, or a wrong TCP checksum.
    pub(crate) fn parse(packet: &[u8]) -> Option<Self> {
        let layout = Layout::parse(packet)?;
        let segment = &packet[layout.len()..];
        let (tcp, len) = Tcp::parse(segment)?;
        let cut = can_carry(&segment[FIXED..len])?;
        let sum = layout.pseudo_header(packet, segment.len()) + Sum::of(segment);
        let header = layout.len() + len;
        (sum.checksum() == 0).then_some(Self { layout, tcp, cut, header })
    }

    /// Appends what packets of one flow have in common.
    pub(crate) fn write_key(&self, packet: &[u8], out: &mut Vec<u8>) {
        write_key(out, &self.layout, packet, &self.tcp);
    }

    /// Octets of all headers.
    pub(super) const fn header_len(&self) -> usize {
        self.header
    }

    /// Where the options stand in the packet.
    pub(super) fn options(&self) -> Range<usize> {
        self.layout.len() + FIXED..self.header
    }
}
