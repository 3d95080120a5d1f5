//! The receiving half of a UART, bit by bit.

use super::config::{Framing, Parity};

/// Finds characters in a stream of bits: one sample a bit, in its middle.
///
/// It waits for a start bit (0), takes data, parity and the first stop bit, and looks at the stop
/// bit: a 0 there is a framing error, and is taken for the next start bit, as a 16550A does. So a hit
/// start bit makes it begin at a later zero, and it may misread the characters that follow until the
/// line is idle or chance puts it right.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Receiver {
    framing: Framing,
    /// Bits after the start bit that were taken, and what they were; none between characters.
    taken: Option<(u32, u32)>,
}

/// What the receiver found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// A character.
    Character(u8),
    /// A character with a wrong parity bit.
    BadParity,
    /// No stop bit where one was due.
    NoStop,
}

impl Receiver {
    pub(crate) fn new(framing: Framing) -> Self {
        Self { framing, taken: None }
    }

    /// Whether it waits for a start bit.
    pub(crate) fn is_between(&self) -> bool {
        self.taken.is_none()
    }

    /// A character is sent, of which the bits in `hits` (the lowest is the start bit) arrive wrong.
    pub(crate) fn character(&mut self, byte: u8, hits: u32, mut found: impl FnMut(Found)) {
        let frame = frame(self.framing, byte) ^ hits;
        for at in 0..self.framing.bits() {
            self.bit(frame >> at & 1, &mut found);
        }
    }

    /// The line is idle, that is at 1, for so many bits.
    pub(crate) fn idle(&mut self, bits: u64, mut found: impl FnMut(Found)) {
        for _ in 0..bits.min(u64::from(self.framing.bits())) {
            self.bit(1, &mut found);
        }
    }

    fn bit(&mut self, bit: u32, found: &mut impl FnMut(Found)) {
        let Some((count, bits)) = self.taken else {
            self.taken = (bit == 0).then_some((0, 0));
            return;
        };
        let data = u32::from(self.framing.data_bits());
        let parity = u32::from(self.framing.parity() != Parity::None);
        if count < data + parity {
            self.taken = Some((count + 1, bits | bit << count));
        } else if bit == 0 {
            self.taken = Some((0, 0));
            found(Found::NoStop);
        } else {
            self.taken = None;
            let character = (bits & ((1 << data) - 1)) as u8;
            let right = parity == 0 || bits >> data & 1 == parity_bit(self.framing, character);
            found(if right { Found::Character(character) } else { Found::BadParity });
        }
    }
}

/// The bits of a character as they are sent, the first the lowest.
fn frame(framing: Framing, byte: u8) -> u32 {
    let data = u32::from(framing.data_bits());
    let byte = byte & data_mask(framing);
    let parity = u32::from(framing.parity() != Parity::None);
    let stop = (1 << framing.stop_bits()) - 1;
    u32::from(byte) << 1 | (parity * parity_bit(framing, byte)) << (1 + data) | stop << (1 + data + parity)
}

/// The bits of a byte that a line with this framing carries.
pub(crate) fn data_mask(framing: Framing) -> u8 {
    u8::MAX >> (8 - framing.data_bits())
}

fn parity_bit(framing: Framing, byte: u8) -> u32 {
    let odd = byte.count_ones() & 1;
    if framing.parity() == Parity::Odd { 1 - odd } else { odd }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    fn received(framing: &str, sent: &[(u8, u32)]) -> Vec<Found> {
        let mut receiver = Receiver::new(framing.parse().unwrap());
        let mut found = Vec::new();
        for &(byte, hits) in sent {
            receiver.character(byte, hits, |one| found.push(one));
        }
        receiver.idle(20, |one| found.push(one));
        assert!(receiver.is_between());
        found
    }

    #[test]
    fn what_is_not_hit_arrives() {
        for framing in ["8N1", "7E1", "8N2", "8O1", "5N1"] {
            let mask = data_mask(framing.parse().unwrap());
            let sent: Vec<_> = (0..=255).map(|byte| (byte, 0)).collect();
            let expected: Vec<_> = (0..=255u8).map(|byte| Found::Character(byte & mask)).collect();
            assert_eq!(received(framing, &sent), expected, "{framing}");
        }
    }

    #[test]
    fn hits_do_what_they_do_to_a_uart() {
        // A data bit: the character is another; with parity that is noticed.
        assert_eq!(received("8N1", &[(0x55, 1 << 1)]), [Found::Character(0x54)]);
        assert_eq!(received("8E1", &[(0x55, 1 << 1)]), [Found::BadParity]);
        // The stop bit: a framing error, and the bit is taken for a start bit; the ones of the idle
        // line after it are read as a character.
        assert_eq!(received("8N1", &[(0x55, 1 << 9)]), [Found::NoStop, Found::Character(0xff)]);
        // The start bit: the reading begins at the next zero, here bit 1 of 0x55.
        assert_eq!(received("8N1", &[(0x55, 1)]), [Found::Character(0b1101_0101)]);
        // Of 0xff nothing is left to begin at.
        assert_eq!(received("8N1", &[(0xff, 1)]), []);
        // A stream of characters is misread for a while, and no longer than it lasts.
        let stream = [(0x41, 1), (0x42, 0), (0x43, 0), (0x44, 0)];
        let found = received("8N1", &stream);
        assert!(found.len() <= 5 && found != [0x42, 0x43, 0x44].map(Found::Character), "{found:?}");
    }
}
