//! Frames on the line: consistent overhead byte stuffing (Cheshire and Baker 1999) with a check
//! sequence, closed by a zero.
//!
//! ```text
//! block: header (1) | body (0 to 251) | check sequence (2, low byte first)
//! line:  COBS(block) | 00
//! ```
//!
//! A block has at most 254 bytes, so that COBS adds one byte whatever is in it, and a frame costs
//! its body and [`OVERHEAD`] characters. The check sequence is RFC 1662's FCS-16. A receiver that
//! lost its place has it again at the next zero.

use alloc::boxed::Box;
use alloc::vec::Vec;

/// Most bytes of a frame's body.
pub const MAX_BODY: usize = 251;
/// Characters of a frame beyond its body: header, check sequence, COBS and the closing zero.
pub const OVERHEAD: usize = 5;

const MAX_BLOCK: usize = 1 + MAX_BODY + 2;
/// What ends a frame, and is nowhere else in it.
const DELIMITER: u8 = 0;

/// Appends one frame. `parts` are the body, [`MAX_BODY`] bytes at most together; more is cut off.
pub fn encode(header: u8, parts: &[&[u8]], line: &mut Vec<u8>) {
    let mut block = [0; MAX_BLOCK];
    block[0] = header;
    let mut end = 1;
    for part in parts {
        let part = &part[..part.len().min(1 + MAX_BODY - end)];
        block[end..end + part.len()].copy_from_slice(part);
        end += part.len();
    }
    let check = fcs16(&block[..end]).to_le_bytes();
    block[end..end + 2].copy_from_slice(&check);
    end += 2;
    // Each zero is replaced by the distance to the next, the first of which stands in front.
    let mut code_at = line.len();
    line.push(0);
    for &byte in &block[..end] {
        if byte == DELIMITER {
            line[code_at] = (line.len() - code_at) as u8;
            code_at = line.len();
            line.push(0);
        } else {
            line.push(byte);
        }
    }
    line[code_at] = (line.len() - code_at) as u8;
    line.push(DELIMITER);
}

/// Finds frames among received characters.
#[derive(Debug)]
pub struct Deframer {
    /// The block decoded so far; the last place is for the zero that a run of COBS may end with.
    block: Box<[u8; MAX_BLOCK + 1]>,
    length: usize,
    /// Characters until the next COBS code; 0 at the start of a frame.
    left: u8,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing since the last delimiter.
    Between,
    Inside,
    /// Longer than any frame: nothing more is kept until the next delimiter.
    TooLong,
}

/// Why characters between two delimiters are not a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadFrame {
    /// Longer than a block may be.
    #[error("longer than {MAX_BLOCK} bytes")]
    TooLong,
    /// Shorter than a header and a check sequence, or cut off inside a run of COBS.
    #[error("cut short")]
    Short,
    /// The check sequence is wrong.
    #[error("wrong check sequence")]
    Check,
}

impl Default for Deframer {
    fn default() -> Self {
        Self { block: Box::new([0; MAX_BLOCK + 1]), length: 0, left: 0, state: State::Between }
    }
}

impl Deframer {
    /// Takes one character. Gives a frame's header and body, or why there is none, when the
    /// character ends one; delimiters that follow each other are nothing.
    pub fn push(&mut self, character: u8) -> Option<Result<(u8, &[u8]), BadFrame>> {
        if character == DELIMITER {
            return self.end();
        }
        if self.state == State::Between {
            (self.length, self.state, self.left) = (0, State::Inside, character);
            return None;
        }
        self.left -= 1;
        let byte = if self.left == 0 {
            // The code of the next run. The run before stood for its bytes and a zero.
            self.left = character;
            DELIMITER
        } else {
            character
        };
        match self.block.get_mut(self.length) {
            Some(place) => *place = byte,
            None => self.state = State::TooLong,
        }
        self.length = (self.length + 1).min(self.block.len());
        None
    }

    fn end(&mut self) -> Option<Result<(u8, &[u8]), BadFrame>> {
        match core::mem::replace(&mut self.state, State::Between) {
            State::Between => return None,
            State::TooLong => return Some(Err(BadFrame::TooLong)),
            State::Inside => {}
        }
        let block = &self.block[..self.length];
        let split = block.split_last_chunk::<2>().and_then(|(rest, check)| Some((rest.split_first()?, rest, check)));
        Some(match split {
            _ if block.len() > MAX_BLOCK => Err(BadFrame::TooLong),
            // The last run must end where the frame does.
            None => Err(BadFrame::Short),
            Some(_) if self.left != 1 => Err(BadFrame::Short),
            Some((_, rest, check)) if fcs16(rest) != u16::from_le_bytes(*check) => Err(BadFrame::Check),
            Some(((header, body), ..)) => Ok((*header, body)),
        })
    }
}

/// RFC 1662 C.2's FCS-16 (CRC-16/X-25): x^16 + x^12 + x^5 + 1, least significant bit first, starts
/// with all ones and is complemented at the end.
#[must_use]
pub fn fcs16(bytes: &[u8]) -> u16 {
    const TABLE: [u16; 256] = {
        let mut table = [0; 256];
        let mut byte = 0;
        while byte < 256 {
            let (mut register, mut bit) = (byte as u16, 0);
            while bit < 8 {
                register = if register & 1 == 1 { register >> 1 ^ 0x8408 } else { register >> 1 };
                bit += 1;
            }
            table[byte] = register;
            byte += 1;
        }
        table
    };
    !bytes.iter().fold(0xffff, |register, byte| register >> 8 ^ TABLE[usize::from(register as u8 ^ byte)])
}

/// IEEE 802.3's CRC-32 (CRC-32/ISO-HDLC), which closes a packet that was cut.
#[must_use]
pub fn crc32(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut byte = 0;
        while byte < 256 {
            let (mut register, mut bit) = (byte as u32, 0);
            while bit < 8 {
                register = if register & 1 == 1 { register >> 1 ^ 0xedb8_8320 } else { register >> 1 };
                bit += 1;
            }
            table[byte] = register;
            byte += 1;
        }
        table
    };
    !bytes.iter().fold(u32::MAX, |register, byte| register >> 8 ^ TABLE[usize::from(register as u8 ^ byte)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    fn decode(deframer: &mut Deframer, line: &[u8]) -> Vec<Result<(u8, Vec<u8>), BadFrame>> {
        let ends = line.iter().filter_map(|character| {
            deframer.push(*character).map(|frame| frame.map(|(header, body)| (header, body.to_vec())))
        });
        ends.collect()
    }

    #[test]
    fn check_values() {
        assert_eq!(fcs16(b"123456789"), 0x906e);
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn what_is_no_frame_is_told_apart() {
        let mut deframer = Deframer::default();
        assert_eq!(decode(&mut deframer, &[0, 0, 0]), []);
        assert_eq!(decode(&mut deframer, &[1, 2, 0]), [Err(BadFrame::Short)]);
        assert_eq!(decode(&mut deframer, &[9, 1, 2, 3, 4, 0]), [Err(BadFrame::Short)]);
        assert_eq!(decode(&mut deframer, &[5, 1, 2, 3, 4, 0]), [Err(BadFrame::Check)]);
        let mut long = vec![7; 300];
        long.push(0);
        assert_eq!(decode(&mut deframer, &long), [Err(BadFrame::TooLong)]);
        let mut line = Vec::new();
        encode(3, &[&[0, 1], &[0]], &mut line);
        assert_eq!(decode(&mut deframer, &line), [Ok((3, vec![0, 1, 0]))]);
    }

    proptest! {
        #[test]
        fn frames_cost_what_they_say_and_come_back(
            header: u8, body in prop::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 0..=MAX_BODY), garbage in prop::collection::vec(any::<u8>(), 0..600),
        ) {
            let mut line = Vec::new();
            encode(header, &[&body], &mut line);
            prop_assert_eq!(line.len(), body.len() + OVERHEAD);
            prop_assert_eq!(line.iter().position(|character| *character == DELIMITER), Some(line.len() - 1));
            let mut deframer = Deframer::default();
            decode(&mut deframer, &garbage);
            deframer.push(DELIMITER);
            prop_assert_eq!(decode(&mut deframer, &line), [Ok((header, body))]);
        }

        #[test]
        fn a_burst_of_up_to_sixteen_bits_is_found(
            body in prop::collection::vec(any::<u8>(), 1..=MAX_BODY), at: prop::sample::Index, burst in 1u16..,
        ) {
            let mut line = Vec::new();
            encode(1, &[&body], &mut line);
            let at = at.index(line.len() - 1);
            line[at] ^= burst as u8;
            line[at + 1] ^= (burst >> 8) as u8;
            let frames = decode(&mut Deframer::default(), &line);
            prop_assert!(!frames.contains(&Ok((1, body))));
        }
    }
}
