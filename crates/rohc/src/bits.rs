//! Cursors over a header's octets: nothing is read past the end, and the end is an error.

use crate::error::Malformed;

/// Reads octets and fields from the front of a slice.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Octets read so far.
    pub(crate) const fn position(&self) -> usize {
        self.at
    }

    /// What has not been read.
    pub(crate) fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    pub(crate) fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let taken = self.rest().get(..length).ok_or(Malformed::TooShort)?;
        self.at += length;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let taken = self.rest().first_chunk::<N>().ok_or(Malformed::TooShort)?;
        self.at += N;
        Ok(*taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        self.array::<1>().map(|[octet]| octet)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_be_bytes)
    }

    /// A self-describing variable-length value (RFC 3095 4.5.6): the value and how many bits it has.
    pub(crate) fn sdvl(&mut self) -> Result<Bits, Malformed> {
        let first = self.u8()?;
        let (mut value, more) = match first {
            0x00..=0x7f => (u32::from(first), 0),
            0x80..=0xbf => (u32::from(first & 0x3f), 1),
            0xc0..=0xdf => (u32::from(first & 0x1f), 2),
            0xe0..=0xff => (u32::from(first & 0x1f), 3),
        };
        for octet in self.take(more)? {
            value = value << 8 | u32::from(*octet);
        }
        Ok(Bits { value, width: [7, 14, 21, 29][more] })
    }
}

/// The low `width` bits of a field, as a header carries them. A width of 0 means none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bits {
    pub(crate) value: u32,
    pub(crate) width: u32,
}

impl Bits {
    pub(crate) const fn new(value: u32, width: u32) -> Self {
        Self { value, width }
    }

    /// These bits with less significant ones behind (RFC 3095 4.5.7). Bits over 32 fall off in front.
    pub(crate) const fn then(self, low: Self) -> Self {
        let high = if low.width >= 32 { 0 } else { self.value << low.width };
        let width = self.width + low.width;
        Self { value: high | low.value, width: if width > 32 { 32 } else { width } }
    }
}

/// How many octets `value` takes as a self-describing value; none if it has over 29 bits.
pub(crate) const fn sdvl_len(value: u32) -> Option<usize> {
    match value {
        0..=0x7f => Some(1),
        0x80..=0x3fff => Some(2),
        0x4000..=0x1f_ffff => Some(3),
        0x20_0000..=0x1fff_ffff => Some(4),
        _ => None,
    }
}

/// Appends a self-describing variable-length value (RFC 3095 4.5.6) in `octets` octets (1 to 4).
/// Of a larger value only the low bits that fit are written: what LSB encoding needs.
pub(crate) fn push_sdvl(out: &mut alloc::vec::Vec<u8>, value: u32, octets: usize) {
    let [a, b, c, d] = value.to_be_bytes();
    match octets {
        1 => out.push(d & 0x7f),
        2 => out.extend_from_slice(&[0x80 | c & 0x3f, d]),
        3 => out.extend_from_slice(&[0xc0 | b & 0x1f, c, d]),
        _ => out.extend_from_slice(&[0xe0 | a & 0x1f, b, c, d]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn self_describing_values() {
        // RFC 3095 4.5.6: first bits 0, 10, 110, 111 for 7, 14, 21, 29 bits.
        for (value, bytes) in [
            (0x7f, &[0x7f][..]),
            (0x80, &[0x80, 0x80]),
            (0x3fff, &[0xbf, 0xff]),
            (0x4000, &[0xc0, 0x40, 0x00]),
            (0x1f_ffff, &[0xdf, 0xff, 0xff]),
            (0x20_0000, &[0xe0, 0x20, 0x00, 0x00]),
            (0x1fff_ffff, &[0xff, 0xff, 0xff, 0xff]),
        ] {
            let mut out = alloc::vec::Vec::new();
            push_sdvl(&mut out, value, sdvl_len(value).unwrap());
            assert_eq!(out, bytes);
            let mut reader = Reader::new(bytes);
            assert_eq!(reader.sdvl().unwrap().value, value);
            assert_eq!(reader.position(), bytes.len());
            assert_eq!(Reader::new(&bytes[..bytes.len() - 1]).sdvl(), Err(Malformed::TooShort));
        }
        assert_eq!(sdvl_len(0x2000_0000), None);
    }

    #[test]
    fn bits_in_front_are_more_significant() {
        assert_eq!(Bits::new(0b101, 3).then(Bits::new(0b01, 2)), Bits::new(0b10101, 5));
        assert_eq!(Bits::new(1, 1).then(Bits::new(7, 32)), Bits::new(7, 32));
    }
}
