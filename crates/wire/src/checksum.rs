//! The Internet checksum (RFC 1071), its incremental update (RFC 1624) and pseudo-headers.

use core::net::IpAddr;
use core::ops::Add;

/// A one's complement sum of 16-bit big-endian words, not yet complemented (RFC 1071).
///
/// Sums of parts add up to the sum of the whole if every part but the last is of even length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum(u16);

impl Sum {
    /// The sum of `bytes`; an odd last byte counts as if a zero followed it.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        // RFC 1071 2 (B): the sum may be made in any byte order if the result is swapped back, and
        // (C) of wider words if their carries are folded in. Independent lanes let the compiler
        // use vector registers; 64 bits hold the carries of 2^32 words.
        let mut lanes = [0u64; 8];
        let (blocks, rest) = bytes.as_chunks::<32>();
        for block in blocks {
            for (lane, word) in lanes.iter_mut().zip(block.as_chunks::<4>().0) {
                *lane += u64::from(u32::from_ne_bytes(*word));
            }
        }
        let (words, tail) = rest.as_chunks::<4>();
        for word in words {
            lanes[0] += u64::from(u32::from_ne_bytes(*word));
        }
        let mut last = [0; 4];
        last[..tail.len()].copy_from_slice(tail);
        lanes[0] += u64::from(u32::from_ne_bytes(last));
        // Halves first: the lanes' own sum could overflow.
        let total = lanes.iter().map(|lane| (lane >> 32) + (lane & 0xffff_ffff)).sum();
        Self(u16::from_be(fold(total)))
    }

    /// The sum of the pseudo-header of TCP and UDP (RFC 9293 3.1, RFC 768, RFC 8200 8.1) for a
    /// transport header and payload of `length` bytes. Addresses of different families have no
    /// pseudo-header; each counts with its own length then.
    #[must_use]
    pub fn pseudo_header(source: IpAddr, destination: IpAddr, protocol: u8, length: u32) -> Self {
        let address = |address| match address {
            IpAddr::V4(v4) => Self::of(&v4.octets()),
            IpAddr::V6(v6) => Self::of(&v6.octets()),
        };
        address(source) + address(destination) + Self(u16::from(protocol)) + Self::of(&length.to_be_bytes())
    }

    /// The sum itself, as the checksum field of a `CHECKSUM_PARTIAL` packet holds it.
    #[must_use]
    pub const fn uncomplemented(self) -> u16 {
        self.0
    }

    /// The checksum: the complement of the sum.
    #[must_use]
    pub const fn checksum(self) -> u16 {
        !self.0
    }

    /// The checksum for fields in which zero means "none" (UDP): zero becomes all ones (RFC 768).
    #[must_use]
    pub const fn checksum_or_ones(self) -> u16 {
        match self.checksum() {
            0 => 0xffff,
            checksum => checksum,
        }
    }
}

impl Add for Sum {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(fold(u64::from(self.0) + u64::from(other.0)))
    }
}

impl From<u16> for Sum {
    /// One word, for example a checksum field's content.
    fn from(word: u16) -> Self {
        Self(word)
    }
}

/// The checksum of `bytes`, as in an IPv4 or ICMP header whose checksum field is zero. Over bytes
/// with a correct checksum in place it is zero.
#[must_use]
pub fn checksum(bytes: &[u8]) -> u16 {
    Sum::of(bytes).checksum()
}

/// The checksum after one 16-bit word changed from `old` to `new` (RFC 1624 3, equation 3).
#[must_use]
pub fn updated(checksum: u16, old: u16, new: u16) -> u16 {
    (Sum(!checksum) + Sum(!old) + Sum(new)).checksum()
}

/// Completes a `CHECKSUM_PARTIAL` frame: sums from `start` to the end, where the field at
/// `start + offset` holds the pseudo-header's sum, and stores the checksum there. Like the kernel's
/// `skb_checksum_help`, zero is stored as all ones, which TCP reads as the same.
///
/// Ethernet padding must not be counted, so `frame` must end where the IP packet ends. False, and
/// nothing changed, if the field is outside the frame.
pub fn complete(frame: &mut [u8], start: usize, offset: usize) -> bool {
    let Some(field) = start.checked_add(offset) else { return false };
    let Some(end) = field.checked_add(2) else { return false };
    if end > frame.len() {
        return false;
    }
    let checksum = Sum::of(&frame[start..]).checksum_or_ones();
    frame[field..end].copy_from_slice(&checksum.to_be_bytes());
    true
}

/// Adds the carries back in until 16 bits are left.
fn fold(sum: u64) -> u16 {
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    ((sum >> 16) + (sum & 0xffff)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_answers() {
        // RFC 1071 3: the sum of this example is ddf2.
        assert_eq!(Sum::of(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]).uncomplemented(), 0xddf2);
        // RFC 1624 4: a checksum of dd2f, and a field that goes from 5555 to 3285.
        assert_eq!(updated(0xdd2f, 0x5555, 0x3285), 0x0000);
        assert_eq!(checksum(&[]), 0xffff);
        assert_eq!(Sum::of(&[0xff; 2]).checksum_or_ones(), 0xffff);
    }

    #[test]
    fn carries_survive_the_longest_frame() {
        let bytes = std::vec![0xff; 1 << 20];
        assert_eq!(Sum::of(&bytes).uncomplemented(), 0xffff);
    }

    #[test]
    fn completing_needs_the_field_in_the_frame() {
        let mut frame = [0; 20];
        assert!(!complete(&mut frame, 14, 5));
        assert!(!complete(&mut frame, usize::MAX, 1));
        assert!(complete(&mut frame, 14, 4));
        assert_eq!(frame[18..], [0xff, 0xff]);
    }

    proptest! {
        #[test]
        fn same_as_word_by_word(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut sum = 0u32;
            for word in bytes.chunks(2) {
                sum += u32::from(u16::from_be_bytes([word[0], *word.get(1).unwrap_or(&0)]));
                sum = (sum & 0xffff) + (sum >> 16);
            }
            prop_assert_eq!(u32::from(Sum::of(&bytes).uncomplemented()), sum);
        }

        #[test]
        fn updating_is_as_good_as_starting_again(mut bytes in prop::collection::vec(any::<u8>(), 20), at in 0usize..10, new: u16) {
            let before = checksum(&bytes);
            let old = u16::from_be_bytes([bytes[2 * at], bytes[2 * at + 1]]);
            bytes[2 * at..2 * at + 2].copy_from_slice(&new.to_be_bytes());
            let (after, again) = (updated(before, old, new), checksum(&bytes));
            // The two zeros of one's complement are the same sum.
            prop_assert!(after == again || (after | again) == 0xffff && (after & again) == 0, "{after:x} {again:x}");
        }
    }
}
