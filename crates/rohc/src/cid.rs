//! Context identifiers and where they stand in a packet (RFC 3095 5.1.3, 5.2.1).

use alloc::vec::Vec;

use crate::bits::{Reader, push_sdvl, sdvl_len};
use crate::error::Malformed;

/// The channel's parameters MAX_CID and LARGE_CIDS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CidSpace {
    max: u16,
}

/// Small CIDs end here (RFC 3095 5.1.1).
const MAX_SMALL: u16 = 15;
/// What a large CID's two octets hold (RFC 3095 5.1.1).
pub(crate) const MAX_CID: u16 = 16_383;
/// The padding octet: an Add-CID octet for CID 0 (RFC 3095 5.2).
pub(crate) const PADDING: u8 = 0b1110_0000;

impl CidSpace {
    /// CIDs 0 to `max`, cut at [`MAX_CID`]; large ones if `max` is over 15.
    pub(crate) fn new(max: u16) -> Self {
        Self { max: max.min(MAX_CID) }
    }

    pub(crate) const fn max(self) -> u16 {
        self.max
    }

    pub(crate) const fn is_large(self) -> bool {
        self.max > MAX_SMALL
    }

    /// Begins a packet: Add-CID octet if one is needed, the packet's first octet, a large CID behind it.
    pub(crate) fn open(self, out: &mut Vec<u8>, cid: u16, first: u8) {
        if self.is_large() {
            out.push(first);
            push_sdvl(out, u32::from(cid), sdvl_len(u32::from(cid)).unwrap_or(2));
        } else {
            self.add_cid(out, cid);
            out.push(first);
        }
    }

    /// Begins the data of a feedback element: the CID stands in front (RFC 3095 5.2.2).
    pub(crate) fn open_feedback(self, out: &mut Vec<u8>, cid: u16) {
        if self.is_large() {
            push_sdvl(out, u32::from(cid), sdvl_len(u32::from(cid)).unwrap_or(2));
        } else {
            self.add_cid(out, cid);
        }
    }

    fn add_cid(self, out: &mut Vec<u8>, cid: u16) {
        if cid != 0 {
            out.push(PADDING | cid as u8 & 0x0f);
        }
    }

    /// A large CID: one octet if it begins with 0, two if with 10.
    pub(crate) fn read_large(reader: &mut Reader<'_>) -> Result<u16, Malformed> {
        let bits = reader.sdvl()?;
        if bits.width > 14 { Err(Malformed::Reserved("large CID")) } else { Ok(bits.value as u16) }
    }
}

/// The Add-CID octet's CID, if this is one (or padding, which reads as CID 0).
pub(crate) const fn add_cid(octet: u8) -> Option<u16> {
    if octet & 0xf0 == PADDING { Some((octet & 0x0f) as u16) } else { None }
}

/// A packet behind padding and feedback, taken apart as far as the framework goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Incoming<'a> {
    /// From the Add-CID octet on, where there is one: what the CRC of an IR packet begins with.
    pub(crate) whole: &'a [u8],
    pub(crate) cid: u16,
    /// Where the packet type octet stands in `whole`.
    type_at: usize,
    /// Where the octets behind the type and the CID begin.
    body_at: usize,
}

impl<'a> Incoming<'a> {
    /// Reads Add-CID octet, type octet and large CID (RFC 3095 5.2.6, steps 2, 7 and 8).
    pub(crate) fn parse(whole: &'a [u8], space: CidSpace) -> Result<Self, Malformed> {
        let first = *whole.first().ok_or(Malformed::TooShort)?;
        let add_cid = add_cid(first);
        let type_at = usize::from(add_cid.is_some());
        if whole.len() <= type_at {
            return Err(Malformed::TooShort);
        }
        if !space.is_large() {
            return Ok(Self { whole, cid: add_cid.unwrap_or(0), type_at, body_at: type_at + 1 });
        }
        if add_cid.is_some() {
            return Err(Malformed::Misplaced);
        }
        let mut reader = Reader::new(&whole[1..]);
        let cid = CidSpace::read_large(&mut reader)?;
        Ok(Self { whole, cid, type_at, body_at: 1 + reader.position() })
    }

    /// The packet type octet: the first of the base header.
    pub(crate) fn first(&self) -> u8 {
        self.whole[self.type_at]
    }

    /// What stands behind the type octet and the CID.
    pub(crate) fn body(&self) -> &'a [u8] {
        &self.whole[self.body_at..]
    }

    /// How many octets the Add-CID octet, the type octet and the CID take.
    pub(crate) fn body_at(&self) -> usize {
        self.body_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_and_large() {
        let (small, large) = (CidSpace::new(15), CidSpace::new(u16::MAX));
        assert_eq!(large.max(), 16_383);
        for (space, cid, bytes) in [
            (small, 0, &[0xfd, 7][..]),
            (small, 5, &[0xe5, 0xfd, 7]),
            (large, 0, &[0xfd, 0, 7]),
            (large, 127, &[0xfd, 127, 7]),
            (large, 128, &[0xfd, 0x80, 128, 7]),
            (large, 16_383, &[0xfd, 0xbf, 0xff, 7]),
        ] {
            let mut out = Vec::new();
            space.open(&mut out, cid, 0xfd);
            out.push(7);
            assert_eq!(out, bytes);
            let incoming = Incoming::parse(bytes, space).unwrap();
            assert_eq!((incoming.cid, incoming.first(), incoming.body()), (cid, 0xfd, &[7][..]));
        }
        assert!(Incoming::parse(&[], small).is_err());
        assert!(Incoming::parse(&[0xe3], small).is_err());
        assert!(Incoming::parse(&[0xe3, 0xfd, 0], large).is_err());
        assert!(Incoming::parse(&[0xfd, 0xc0, 0, 0], large).is_err());
    }
}
