//! Segmentation (RFC 3095 5.2.5): a ROHC packet in pieces, for a link with small frames.
//!
//! A segment has no number and no context: all segments of a packet must follow each other on the
//! channel, and a CRC over the whole says whether none was lost.

use alloc::vec::Vec;

use crate::error::SegmentError;

/// The type octet of a segment; its last bit says that it is the final one (RFC 3095 5.2.5.2).
const SEGMENT: u8 = 0b1111_1110;
const FINAL: u8 = 1;

/// Octets of the reconstructed unit's CRC.
const FCS: usize = 4;

/// Is this the type octet of a segment?
pub(crate) const fn is_segment(octet: u8) -> bool {
    octet & SEGMENT == SEGMENT
}

/// The segments of one ROHC packet, from [`Compressor::segments`](crate::Compressor::segments).
///
/// ```
/// use rohc::{Compressor, CompressorConfig};
///
/// let compressor = Compressor::new(CompressorConfig { mrru: 1_500, ..CompressorConfig::default() });
/// let packet = [0x12; 100];
/// let mut segments = compressor.segments(&packet, 40)?;
/// let mut lengths = Vec::new();
/// let mut line = Vec::new();
/// while segments.next(&mut line) {
///     lengths.push(line.len());
///     line.clear();
/// }
/// // 104 octets with the CRC, 39 in each segment.
/// assert_eq!(lengths, [40, 40, 27]);
/// # Ok::<(), rohc::SegmentError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Segments<'a> {
    packet: &'a [u8],
    fcs: [u8; FCS],
    /// Octets of the unit in each segment.
    room: usize,
    /// Octets of the unit that have been sent.
    at: usize,
}

impl<'a> Segments<'a> {
    /// See [`Compressor::segments`](crate::Compressor::segments).
    pub(crate) fn new(packet: &'a [u8], longest: usize, mrru: u16) -> Result<Self, SegmentError> {
        if mrru == 0 {
            return Err(SegmentError::Off);
        }
        let unit = packet.len() + FCS;
        if unit > usize::from(mrru) {
            return Err(SegmentError::TooLong { unit, mrru });
        }
        if longest < 2 || packet.is_empty() {
            return Err(SegmentError::TooShort);
        }
        Ok(Self { packet, fcs: fcs32(packet).to_le_bytes(), room: longest - 1, at: 0 })
    }

    /// Appends the next segment to `out`, a packet of its own. False if there is none left.
    pub fn next(&mut self, out: &mut Vec<u8>) -> bool {
        let unit = self.packet.len() + FCS;
        if self.at == unit {
            return false;
        }
        let end = unit.min(self.at + self.room);
        out.push(SEGMENT | if end == unit { FINAL } else { 0 });
        let boundary = self.packet.len();
        out.extend_from_slice(&self.packet[self.at.min(boundary)..end.min(boundary)]);
        out.extend_from_slice(&self.fcs[self.at.max(boundary) - boundary..end.max(boundary) - boundary]);
        self.at = end;
        true
    }
}

/// Puts segments together (RFC 3095 5.2.5.2).
#[derive(Clone, Debug)]
pub(crate) struct Reassembler {
    mrru: usize,
    unit: Vec<u8>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No segment is waiting.
    Empty,
    /// Segments are waiting for the rest.
    Open,
    /// The unit was too long: all up to the final segment is discarded.
    Discarding,
}

impl Reassembler {
    /// `mrru` of 0: no segments are taken.
    pub(crate) const fn new(mrru: u16) -> Self {
        Self { mrru: mrru as usize, unit: Vec::new(), state: State::Empty }
    }

    /// Takes a segment, type octet and all. True if it was the final one and the unit is right.
    pub(crate) fn push(&mut self, segment: &[u8]) -> Result<bool, SegmentError> {
        if self.mrru == 0 {
            return Err(SegmentError::Off);
        }
        let (is_final, octets) = match segment {
            [first, rest @ ..] => (first & FINAL != 0, rest),
            [] => return Err(SegmentError::TooShort),
        };
        if self.state == State::Empty {
            self.unit.clear();
        }
        let unit = self.unit.len() + octets.len();
        let is_too_long = self.state == State::Discarding || unit > self.mrru;
        self.state = match (is_final, is_too_long) {
            (true, _) => State::Empty,
            (false, true) => State::Discarding,
            (false, false) => State::Open,
        };
        if is_too_long {
            self.unit.clear();
            return Err(SegmentError::TooLong { unit, mrru: self.mrru as u16 });
        }
        self.unit.extend_from_slice(octets);
        if !is_final {
            return Ok(false);
        }
        match self.unit.split_last_chunk::<FCS>() {
            // RFC 3095 5.2.5.2: four octets or less are discarded.
            None | Some(([], _)) => Err(SegmentError::TooShort),
            Some((packet, fcs)) if fcs32(packet).to_le_bytes() == *fcs => {
                self.unit.truncate(self.unit.len() - FCS);
                Ok(true)
            }
            Some(_) => Err(SegmentError::Crc),
        }
    }

    /// The packet, after [`push`](Self::push) said that it is there. The buffer is to be given back.
    pub(crate) fn take_unit(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.unit)
    }

    /// Gives back what [`take_unit`](Self::take_unit) gave.
    pub(crate) fn return_unit(&mut self, unit: Vec<u8>) {
        self.unit = unit;
    }

    /// Something that is no segment came: what waits is discarded (RFC 3095 5.2.5.2). Was there anything?
    pub(crate) fn abort(&mut self) -> bool {
        core::mem::replace(&mut self.state, State::Empty) != State::Empty
    }
}

/// The FCS-32 of RFC 1662 C.3, which goes out least significant octet first.
fn fcs32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |fcs, octet| fcs >> 8 ^ FCS_TABLE[usize::from(fcs as u8 ^ octet)])
}

/// x^32 + x^26 + x^23 + x^22 + x^16 + x^12 + x^11 + x^10 + x^8 + x^7 + x^5 + x^4 + x^2 + x + 1, reversed.
const FCS_TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut octet = 0;
    while octet < 256 {
        let mut register = octet as u32;
        let mut bit = 0;
        while bit < 8 {
            register = if register & 1 == 1 { register >> 1 ^ 0xedb8_8320 } else { register >> 1 };
            bit += 1;
        }
        table[octet] = register;
        octet += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_fcs_is_that_of_hdlc() {
        // The check value of CRC-32 (ISO-HDLC), and RFC 1662's good final value over data and FCS.
        assert_eq!(fcs32(b"123456789"), 0xcbf4_3926);
        let whole = [&b"123456789"[..], &0xcbf4_3926u32.to_le_bytes()].concat();
        assert_eq!(!fcs32(&whole), 0xdebb_20e3);
    }

    fn cut(packet: &[u8], longest: usize) -> Vec<Vec<u8>> {
        let mut segments = Segments::new(packet, longest, u16::MAX).unwrap();
        let mut all = Vec::new();
        loop {
            let mut segment = Vec::new();
            if !segments.next(&mut segment) {
                return all;
            }
            assert!(segment.len() <= longest);
            all.push(segment);
        }
    }

    #[test]
    fn the_final_bit_ends_a_unit() {
        let segments = cut(&[1, 2, 3], 5);
        assert_eq!(segments[0][..4], [0xfe, 1, 2, 3]);
        assert_eq!((segments[1][0], segments[1].len(), segments.len()), (0xff, 4, 2));
    }

    #[test]
    fn what_is_not_allowed_is_refused() {
        assert_eq!(Segments::new(&[1], 10, 0).unwrap_err(), SegmentError::Off);
        assert_eq!(Segments::new(&[1; 7], 10, 10).unwrap_err(), SegmentError::TooLong { unit: 11, mrru: 10 });
        assert_eq!(Segments::new(&[1; 7], 1, 100).unwrap_err(), SegmentError::TooShort);
        assert_eq!(Reassembler::new(0).push(&[0xff, 1]).unwrap_err(), SegmentError::Off);
        let mut reassembler = Reassembler::new(10);
        // Four octets are a CRC and no packet, even a right one.
        assert_eq!(reassembler.push(&[0xff, 0, 0, 0, 0]).unwrap_err(), SegmentError::TooShort);
        // Too long: everything up to the final segment goes, and the next unit is taken.
        assert!(matches!(reassembler.push(&[0xfe; 12]), Err(SegmentError::TooLong { .. })));
        assert!(matches!(reassembler.push(&[0xff, 1]), Err(SegmentError::TooLong { .. })));
        let good = cut(&[7; 6], 100);
        assert_eq!(reassembler.push(&good[0]), Ok(true));
        assert_eq!(reassembler.take_unit(), [7; 6]);
    }

    proptest! {
        #[test]
        fn cut_and_put_together(packet in prop::collection::vec(any::<u8>(), 1..300), longest in 2usize..100, lost: prop::sample::Index) {
            let segments = cut(&packet, longest);
            let mut reassembler = Reassembler::new(u16::MAX);
            // A unit that lacks a segment is never delivered. Without its final one it runs into the next.
            let lost = lost.index(segments.len());
            for (at, segment) in segments.iter().enumerate() {
                if at != lost {
                    prop_assert_ne!(reassembler.push(segment), Ok(true));
                }
            }
            prop_assert_eq!(reassembler.abort(), lost + 1 == segments.len() && segments.len() > 1);
            let (last, others) = segments.split_last().unwrap();
            for segment in others {
                prop_assert_eq!(reassembler.push(segment), Ok(false));
            }
            prop_assert_eq!(reassembler.push(last), Ok(true));
            prop_assert_eq!(reassembler.take_unit(), packet);
        }
    }
}
