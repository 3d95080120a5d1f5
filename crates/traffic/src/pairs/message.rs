//! What the two ends of `narrows probe packet-pair` say to each other; a pair's datagrams are the same
//! in a scenario.
//!
//! Every message begins with a magic number (u16), its kind (u8) and one further octet, and the
//! session (u32); numbers are big-endian. An answer is never longer than what it answers.

use alloc::vec::Vec;

use engine::Span;

use crate::application::filler;

/// Bytes of the header in a pair's datagrams: with IPv6's and UDP's 48 it fits into 60.
pub const PAIR_LEN: usize = 10;
/// Bytes of a report.
const REPORT_LEN: usize = 18;
/// Bytes of everything else.
const SHORT_LEN: usize = 8;

/// "NP" in ASCII.
const MAGIC: u16 = 0x4e50;

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// Kind 1: a datagram of a pair. The further octet is its position, 0 or 1; behind the session
    /// stands the number of the pair (u16), and then what fills the datagram.
    Pair(PairHeader),
    /// Kind 2: is anybody there?
    Hello {
        /// Chosen by who asks.
        session: u32,
    },
    /// Kind 3: the answer to that.
    Welcome {
        /// As asked.
        session: u32,
    },
    /// Kind 4: a pair arrived. Behind the session stand its number (u16) and the time between its
    /// arrivals in nanoseconds (u64).
    Report {
        /// The pair's session.
        session: u32,
        /// Its number.
        pair: u16,
        /// Time from the first datagram's arrival to the second's; zero if they came out of order.
        apart: Span,
    },
}

/// What stands at the start of each datagram of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairHeader {
    /// Tells one measurement from another.
    pub session: u32,
    /// Number of the pair, from 0.
    pub pair: u16,
    /// Whether it is the second of the two.
    pub second: bool,
}

impl Message {
    /// The message in a datagram; `None` if it is none. Whatever follows a pair's header is not looked
    /// at; nothing may follow the others.
    #[must_use]
    pub fn read(datagram: &[u8]) -> Option<Self> {
        let (head, rest) = datagram.split_first_chunk::<SHORT_LEN>()?;
        let [m0, m1, kind, further, s0, s1, s2, s3] = *head;
        let session = u32::from_be_bytes([s0, s1, s2, s3]);
        if u16::from_be_bytes([m0, m1]) != MAGIC {
            return None;
        }
        let number = || Some(u16::from_be_bytes(*rest.first_chunk()?));
        match (kind, further, rest.len()) {
            (1, 0 | 1, _) => Some(Self::Pair(PairHeader { session, pair: number()?, second: further == 1 })),
            (2, 0, 0) => Some(Self::Hello { session }),
            (3, 0, 0) => Some(Self::Welcome { session }),
            (4, 0, 10) => {
                let apart = Span::from_nanos(u64::from_be_bytes(*rest.last_chunk()?));
                Some(Self::Report { session, pair: number()?, apart })
            }
            _ => None,
        }
    }

    /// Appends the message to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        let (kind, further, session) = match *self {
            Self::Pair(PairHeader { session, second, .. }) => (1, u8::from(second), session),
            Self::Hello { session } => (2, 0, session),
            Self::Welcome { session } => (3, 0, session),
            Self::Report { session, .. } => (4, 0, session),
        };
        out.reserve(REPORT_LEN);
        out.extend(MAGIC.to_be_bytes());
        out.extend([kind, further]);
        out.extend(session.to_be_bytes());
        match *self {
            Self::Pair(PairHeader { pair, .. }) => out.extend(pair.to_be_bytes()),
            Self::Report { pair, apart, .. } => {
                out.extend(pair.to_be_bytes());
                out.extend(apart.as_nanos().to_be_bytes());
            }
            Self::Hello { .. } | Self::Welcome { .. } => {}
        }
    }
}

impl PairHeader {
    /// Writes a datagram of `length` bytes: the header, then bytes that no compressor makes shorter, or
    /// zeros.
    pub fn write(&self, length: usize, zeros: bool, out: &mut Vec<u8>) {
        Message::Pair(*self).write(out);
        let rest = length.saturating_sub(PAIR_LEN);
        if zeros {
            out.resize(out.len() + rest, 0);
        } else {
            let number = u64::from(self.pair) << 1 | u64::from(self.second);
            out.extend(filler(self.session.into(), number, rest));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_what_is_cut_or_changed_is_not() {
        let apart = Span::from_millis(1_458);
        let all = [
            Message::Pair(PairHeader { session: 7, pair: 65_535, second: true }),
            Message::Hello { session: u32::MAX },
            Message::Welcome { session: 1 },
            Message::Report { session: 9, pair: 3, apart },
        ];
        for message in all {
            let mut datagram = Vec::new();
            message.write(&mut datagram);
            assert_eq!(Message::read(&datagram), Some(message));
            for length in 0..datagram.len() {
                assert_eq!(Message::read(&datagram[..length]), None, "{message:?} cut to {length}");
            }
            for byte in 0..2 {
                let mut other = datagram.clone();
                other[byte] ^= 0x20;
                assert_eq!(Message::read(&other), None);
            }
            datagram.push(0);
            assert_eq!(Message::read(&datagram).is_some(), matches!(message, Message::Pair(_)));
        }
    }

    #[test]
    fn a_pairs_datagram_has_its_length() {
        for zeros in [false, true] {
            let mut datagram = Vec::new();
            PairHeader { session: 1, pair: 2, second: false }.write(12, zeros, &mut datagram);
            assert_eq!(datagram.len(), 12);
        }
    }
}
