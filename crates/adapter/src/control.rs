//! Control messages: one a frame, told by the frame's header.

use alloc::vec::Vec;

use crate::config::RohcMode;

/// Headers of frames. See the written line protocol for the layout of their bodies.
pub(crate) mod header {
    /// `0qqssssl`: a fragment of a data packet: priority, number in the packet, last.
    pub(crate) const fn fragment(priority: usize, number: u8, last: bool) -> u8 {
        ((priority as u8 & 3) << 5) | ((number & 15) << 1) | last as u8
    }

    /// `10pppppp`: a whole real-time datagram, with the index of its Ethernet header.
    pub(crate) const fn whole(pair: u8) -> u8 {
        0x80 | pair & 0x3f
    }

    pub(crate) const HELLO: u8 = 0xc0;
    pub(crate) const KEEP_ALIVE: u8 = 0xc1;
    pub(crate) const FEEDBACK: u8 = 0xc2;
    pub(crate) const PAIR_OPEN: u8 = 0xc3;
    pub(crate) const PAIR_ACK: u8 = 0xc4;
    pub(crate) const PAIR_UNKNOWN: u8 = 0xc5;
}

/// The versions of the line protocol that this adapter speaks.
pub(crate) const VERSIONS: core::ops::RangeInclusive<u8> = 1..=1;

const MAGIC: [u8; 2] = *b"NW";
/// In the set of payload compressions: raw DEFLATE, packet by packet.
const DEFLATE: u8 = 1;

/// Who an adapter is, whom it heard, and what it offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) oldest: u8,
    pub(crate) newest: u8,
    /// The sender has a session.
    pub(crate) up: bool,
    /// Drawn anew at each start, never 0.
    pub(crate) instance: u32,
    /// The instance that the sender heard; 0 for none.
    pub(crate) heard: u32,
    pub(crate) offer: Offer,
}

/// What the body of a hello says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Greeting {
    Hello(Hello),
    /// There is no common version.
    Foreign {
        /// The newest that the sender speaks.
        newest: u8,
    },
}

/// What an adapter can take and what its line is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    /// Bit/s of its line, and bits of a character.
    pub(crate) line: (u32, u8),
    /// Longest packet it takes.
    pub(crate) largest_packet: u32,
    pub(crate) rohc: Option<RohcOffer>,
    /// It inflates data packets.
    pub(crate) inflates: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RohcOffer {
    pub(crate) max_cid: u16,
    pub(crate) mode: RohcMode,
    /// A set of RFC 3095 5.1.1's PROFILES: bit n for profile n, up to 15.
    pub(crate) profiles: u16,
}

/// Types of options.
mod option {
    pub(super) const LINE: u8 = 1;
    pub(super) const LARGEST_PACKET: u8 = 2;
    pub(super) const ROHC: u8 = 3;
    pub(super) const PAYLOAD: u8 = 4;
}

impl Hello {
    pub(crate) fn write(&self, body: &mut Vec<u8>) {
        body.extend_from_slice(&MAGIC);
        body.extend_from_slice(&[self.oldest, self.newest, u8::from(self.up)]);
        body.extend_from_slice(&self.instance.to_be_bytes());
        body.extend_from_slice(&self.heard.to_be_bytes());
        let (rate, bits) = self.offer.line;
        body.extend_from_slice(&[option::LINE, 5]);
        body.extend_from_slice(&rate.to_be_bytes());
        body.push(bits);
        body.extend_from_slice(&[option::LARGEST_PACKET, 4]);
        body.extend_from_slice(&self.offer.largest_packet.to_be_bytes());
        if let Some(rohc) = &self.offer.rohc {
            let profiles = (0..16u16).filter(|id| rohc.profiles >> id & 1 == 1);
            body.extend_from_slice(&[option::ROHC, 5 + 2 * rohc.profiles.count_ones() as u8]);
            body.extend_from_slice(&rohc.max_cid.to_be_bytes());
            // MRRU 0: fragments make ROHC's own segmentation superfluous.
            body.extend_from_slice(&[0, 0, u8::from(rohc.mode == RohcMode::Optimistic)]);
            profiles.for_each(|id| body.extend_from_slice(&id.to_be_bytes()));
        }
        if self.offer.inflates {
            body.extend_from_slice(&[option::PAYLOAD, 1, DEFLATE]);
        }
    }

    /// Bytes of the body of a hello with this offer.
    pub(crate) fn size(offer: &Offer) -> usize {
        let rohc = offer.rohc.as_ref().map_or(0, |rohc| 7 + 2 * rohc.profiles.count_ones() as usize);
        13 + 7 + 6 + rohc + if offer.inflates { 3 } else { 0 }
    }

    /// Reads the body of a hello. Options that are not known are passed over; after the versions
    /// another protocol may say anything, so that of an adapter without a common one only these are read.
    pub(crate) fn read(body: &[u8]) -> Option<Greeting> {
        let (&[m, a, oldest, newest], _) = body.split_first_chunk()?;
        if [m, a] != MAGIC || oldest > newest {
            return None;
        }
        if oldest > *VERSIONS.end() || newest < *VERSIONS.start() {
            return Some(Greeting::Foreign { newest });
        }
        Self::read_whole(body).map(Greeting::Hello)
    }

    fn read_whole(body: &[u8]) -> Option<Self> {
        let (fixed, mut options) = body.split_first_chunk::<13>()?;
        let [_, _, oldest, newest, flags, instance @ ..] = *fixed;
        let (instance, heard) = instance.split_first_chunk::<4>()?;
        let instance = u32::from_be_bytes(*instance);
        let heard = u32::from_be_bytes(*heard.first_chunk()?);
        let mut offer = Offer { line: (0, 0), largest_packet: 1280, rohc: None, inflates: false };
        while let Some((&[kind, length], rest)) = options.split_first_chunk::<2>() {
            let (value, rest) = rest.split_at_checked(usize::from(length))?;
            options = rest;
            match kind {
                option::LINE => {
                    let (rate, rest) = value.split_first_chunk()?;
                    offer.line = (u32::from_be_bytes(*rate), *rest.first()?);
                }
                option::LARGEST_PACKET => offer.largest_packet = u32::from_be_bytes(*value.first_chunk()?),
                option::ROHC => {
                    let (&[high, low, _, _, mode], ids) = value.split_first_chunk::<5>()?;
                    let ids = ids.as_chunks::<2>().0.iter().map(|id| u16::from_be_bytes(*id)).filter(|id| *id < 16);
                    offer.rohc = Some(RohcOffer {
                        max_cid: u16::from_be_bytes([high, low]),
                        mode: if mode & 1 == 1 { RohcMode::Optimistic } else { RohcMode::Unidirectional },
                        profiles: ids.fold(0, |set, id| set | 1 << id),
                    });
                }
                option::PAYLOAD => offer.inflates = value.first()? & DEFLATE != 0,
                _ => {}
            }
        }
        (instance != 0).then_some(Self { oldest, newest, up: flags & 1 == 1, instance, heard, offer })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hello() -> Hello {
        let rohc = RohcOffer { max_cid: 15, mode: RohcMode::Optimistic, profiles: 0b101_1111 };
        let offer = Offer { line: (9600, 10), largest_packet: 65_575, rohc: Some(rohc), inflates: true };
        Hello { oldest: 1, newest: 1, up: false, instance: 0x0102_0304, heard: 0, offer }
    }

    #[test]
    fn a_hello_in_bytes() {
        let mut body = Vec::new();
        hello().write(&mut body);
        assert_eq!(
            body,
            [
                b'N', b'W', 1, 1, 0, 1, 2, 3, 4, 0, 0, 0, 0, // who
                1, 5, 0, 0, 0x25, 0x80, 10, // line
                2, 4, 0, 1, 0, 0x27, // largest packet
                3, 17, 0, 15, 0, 0, 1, 0, 0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 6, // ROHC
                4, 1, 1, // payload compression
            ]
        );
        assert_eq!((Hello::read(&body), body.len()), (Some(Greeting::Hello(hello())), Hello::size(&hello().offer)));
        // An option of a later version is passed over; one that is cut off makes the whole no hello.
        body.extend_from_slice(&[77, 2, 1, 2]);
        assert_eq!(Hello::read(&body), Some(Greeting::Hello(hello())));
        body.pop();
        assert_eq!(Hello::read(&body), None);
    }

    proptest! {
        #[test]
        fn any_body_is_a_hello_or_none(body in prop::collection::vec(any::<u8>(), 0..80)) {
            let body: Vec<u8> = b"NW\x01\x01".iter().copied().chain(body).collect();
            if let Some(Greeting::Hello(hello)) = Hello::read(&body) {
                let mut again = Vec::new();
                hello.write(&mut again);
                prop_assert_eq!(Hello::read(&again), Some(Greeting::Hello(hello)));
            }
        }
    }
}
