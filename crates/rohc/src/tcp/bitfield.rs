//! Fields narrower than an octet, most significant bit first, as the formal notation lists them
//! (RFC 4997 4.12.1.2).

use alloc::vec::Vec;

use crate::error::Malformed;

/// Packs fields in the order they are written.
pub(super) struct BitWriter<'a> {
    out: &'a mut Vec<u8>,
    held: u64,
    width: u32,
}

impl<'a> BitWriter<'a> {
    pub(super) fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out, held: 0, width: 0 }
    }

    /// The low `width` bits (up to 32) of `value`.
    pub(super) fn put(mut self, width: u32, value: u32) -> Self {
        let mask = (1u64 << width) - 1;
        self.held = self.held << width | u64::from(value) & mask;
        self.width += width;
        while self.width >= 8 {
            self.width -= 8;
            self.out.push((self.held >> self.width) as u8);
        }
        self
    }

    pub(super) fn flag(self, value: bool) -> Self {
        self.put(1, u32::from(value))
    }

    /// [`put`](Self::put), if there is a value.
    pub(super) fn maybe(self, width: u32, value: Option<u32>) -> Self {
        match value {
            Some(value) => self.put(width, value),
            None => self,
        }
    }
}

/// Takes fields apart.
#[derive(Clone, Debug)]
pub(super) struct BitReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> BitReader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// The next `width` bits, up to 32.
    pub(super) fn get(&mut self, width: u32) -> Result<u32, Malformed> {
        let end = self.at + width as usize;
        let octets = self.bytes.get(self.at / 8..end.div_ceil(8)).ok_or(Malformed::TooShort)?;
        let held = octets.iter().fold(0u64, |held, octet| held << 8 | u64::from(*octet));
        let below = octets.len() * 8 - (self.at % 8) - width as usize;
        self.at = end;
        Ok((held >> below & ((1u64 << width) - 1)) as u32)
    }

    pub(super) fn flag(&mut self) -> Result<bool, Malformed> {
        self.get(1).map(|bit| bit == 1)
    }

    /// Whole octets read so far.
    pub(super) const fn octets(&self) -> usize {
        self.at.div_ceil(8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_across_octets() {
        let mut out = Vec::new();
        let _ = BitWriter::new(&mut out).put(6, 0b101110).put(18, 0x2_4689).put(4, 9).flag(true).put(3, 5);
        assert_eq!(out, [0b1011_1010, 0x46, 0x89, 0b1001_1101]);
        let mut reader = BitReader::new(&out);
        let fields = [6, 18, 4, 1, 3].map(|width| reader.get(width).unwrap());
        assert_eq!(fields, [0b101110, 0x2_4689, 9, 1, 5]);
        assert_eq!(reader.octets(), 4);
        assert_eq!(reader.get(1), Err(Malformed::TooShort));
    }
}
