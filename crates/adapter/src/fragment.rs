//! Cutting data packets into fragments, and putting them together again.
//!
//! Fragments of a packet are numbered 0, 1 … 15, 1 … 15 …: only its first has 0. So the loss of any
//! fragment costs that packet alone, the last included. A packet that was cut ends with a CRC-32 over
//! all of it, since the frames' own check lets one damaged frame in 65,536 pass.

use alloc::vec::Vec;
use core::ops::Range;

use engine::{Packet, Span, Time};
use wire::ETHERNET_LEN;

use crate::codec::HEADROOM;
use crate::frame::crc32;
use crate::pairs::Header;

/// A data packet on its way onto the line.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    /// As it came from the LAN, so that it can be begun again after a new session.
    packet: Option<Packet>,
    /// What goes onto the line: prefix (index, explicit Ethernet header), packet, CRC-32 if cut.
    encoded: Vec<u8>,
    /// Where in that the (compressed) packet is; empty while it is to be encoded.
    content: Range<usize>,
    at: usize,
    number: u8,
}

/// One fragment.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    /// Where it is in [`Outgoing::encoded`].
    pub(crate) range: Range<usize>,
    pub(crate) number: u8,
    pub(crate) last: bool,
    /// How many of its bytes are the packet's.
    pub(crate) content: usize,
}

impl Outgoing {
    pub(crate) fn is_empty(&self) -> bool {
        self.packet.is_none()
    }

    /// Whether the packet is to be encoded (again) before it is cut.
    pub(crate) fn is_raw(&self) -> bool {
        self.content.is_empty()
    }

    /// The next packet.
    pub(crate) fn put(&mut self, packet: Packet) {
        self.packet = Some(packet);
        self.restart();
    }

    /// The packet begins anew, if there is one.
    pub(crate) fn restart(&mut self) {
        self.encoded.clear();
        (self.content, self.at, self.number) = (0..0, 0, 0);
    }

    /// Encodes the packet: `encode` is given it, writes prefix and content, and says how long the prefix is.
    pub(crate) fn encode<E>(
        &mut self,
        encode: impl FnOnce(&Packet, &mut Vec<u8>) -> Result<usize, E>,
    ) -> Result<(), E> {
        self.restart();
        if let Some(packet) = &self.packet {
            let prefix = encode(packet, &mut self.encoded)?;
            self.content = prefix..self.encoded.len();
        }
        Ok(())
    }

    /// The next fragment of at most `most` bytes, or what is left; none if fewer than `least` bytes of a
    /// longer packet would go.
    pub(crate) fn cut(&mut self, most: usize, least: usize) -> Option<Cut> {
        let prefix = self.content.start;
        if self.at == 0 && self.encoded.len() > most {
            if most < least {
                return None;
            }
            let crc = crc32(&self.encoded);
            self.encoded.extend_from_slice(&crc.to_be_bytes());
        }
        let left = self.encoded.len() - self.at;
        if left > most && most < least {
            return None;
        }
        let range = self.at..self.at + left.min(most);
        let content = range.end.min(self.content.end).saturating_sub(range.start.max(prefix));
        let (number, last) = (self.number, range.end == self.encoded.len());
        self.at = range.end;
        self.number = after(number);
        Some(Cut { range, number, last, content })
    }

    pub(crate) fn encoded(&self) -> &[u8] {
        &self.encoded
    }

    /// How much of the packet is cut already.
    pub(crate) fn is_begun(&self) -> bool {
        self.at > 0
    }

    /// Time of arrival and length of the packet's network layer.
    pub(crate) fn packet(&self) -> Option<&Packet> {
        self.packet.as_ref()
    }

    /// Takes the packet out.
    pub(crate) fn take(&mut self) -> Option<Packet> {
        self.restart();
        self.packet.take()
    }
}

const fn after(number: u8) -> u8 {
    number % 15 + 1
}

/// A packet that is being put together.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    bytes: Vec<u8>,
    state: State,
    /// When the last fragment came.
    at: Time,
    prefix: Prefix,
}

/// What the index of a first fragment stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Prefix {
    /// A known header. It is looked up when the first fragment comes, since the index may stand for
    /// something else when the last does.
    Known(Header),
    /// The header follows the index.
    #[default]
    Explicit,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// The next is a first fragment.
    #[default]
    Idle,
    /// The fragment with this number is next.
    Next(u8),
    /// A fragment was lost: nothing but a first one is of use.
    Lost,
}

/// What a fragment made of a packet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Taken<'a> {
    /// There is more to come.
    More,
    /// It belongs to a packet of which an earlier fragment was lost. `first` if that is only known now.
    Orphan {
        /// It is the first sign of the loss.
        first: bool,
    },
    /// The packet is longer than it may be.
    Oversized,
    /// The packet was cut, and its CRC-32 is wrong.
    Crc,
    /// The packet is shorter than an Ethernet header that it should hold.
    Malformed,
    /// The packet is whole: its Ethernet header, and its content.
    Whole(Header, &'a [u8]),
}

/// A packet whose next fragment does not come for so long is given up.
pub(crate) const PATIENCE: Span = Span::from_secs(60);

impl Assembly {
    /// The first fragment of a packet, whose body begins with the index that `prefix` stands for; none if
    /// that is not known, so that the packet is lost. The flag says whether another packet was left
    /// incomplete.
    pub(crate) fn first(&mut self, now: Time, prefix: Option<Prefix>, body: &[u8], last: bool) -> (bool, Taken<'_>) {
        let incomplete = self.is_active();
        self.bytes.clear();
        self.at = now;
        let Some(prefix) = prefix else {
            self.state = if last { State::Idle } else { State::Lost };
            return (incomplete, Taken::More);
        };
        self.bytes.extend_from_slice(body);
        self.prefix = prefix;
        if last {
            self.state = State::Idle;
            return (incomplete, self.whole(self.bytes.len()));
        }
        self.state = State::Next(1);
        (incomplete, Taken::More)
    }

    /// A later fragment of a packet that has no more than `limit` bytes before header compression.
    pub(crate) fn later(&mut self, now: Time, number: u8, body: &[u8], last: bool, limit: usize) -> Taken<'_> {
        let state = core::mem::replace(&mut self.state, if last { State::Idle } else { State::Lost });
        if state != State::Next(number) {
            return Taken::Orphan { first: state != State::Lost };
        }
        if self.bytes.len() + body.len() > 1 + ETHERNET_LEN + limit + HEADROOM + 4 {
            return Taken::Oversized;
        }
        self.bytes.extend_from_slice(body);
        self.at = now;
        if !last {
            self.state = State::Next(after(number));
            return Taken::More;
        }
        match self.bytes.split_last_chunk::<4>() {
            Some((packet, crc)) if crc32(packet) == u32::from_be_bytes(*crc) => self.whole(packet.len()),
            _ => Taken::Crc,
        }
    }

    /// The packet that is in the first `length` bytes.
    fn whole(&self, length: usize) -> Taken<'_> {
        let packet = self.bytes.get(1..length).unwrap_or_default();
        match (self.prefix, packet.split_first_chunk()) {
            (Prefix::Known(header), _) => Taken::Whole(header, packet),
            (Prefix::Explicit, Some((header, content))) => Taken::Whole(*header, content),
            (Prefix::Explicit, None) => Taken::Malformed,
        }
    }

    /// Whether a packet is begun and not whole.
    fn is_active(&self) -> bool {
        matches!(self.state, State::Next(_))
    }

    /// When the packet is given up, if there is one.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.is_active().then(|| self.at + PATIENCE)
    }

    /// Gives the packet up if its time has come.
    pub(crate) fn expire(&mut self, now: Time) -> bool {
        let expired = self.deadline().is_some_and(|at| at <= now);
        if expired {
            self.clear();
        }
        expired
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.state = State::Idle;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    const LIMIT: usize = 2_000;
    const KNOWN: Option<Prefix> = Some(Prefix::Known([1; 14]));

    fn outgoing(content: &[u8]) -> Outgoing {
        let mut outgoing = Outgoing::default();
        outgoing.put(Packet::new(content.to_vec()));
        let encode = |packet: &Packet, out: &mut Vec<u8>| {
            out.push(7);
            out.extend_from_slice(&packet.bytes);
            Ok::<_, ()>(1)
        };
        outgoing.encode(encode).unwrap();
        outgoing
    }

    /// The fragments of a packet: number, last, body.
    fn fragments(content: &[u8], mut sizes: impl Iterator<Item = usize>) -> Vec<(u8, bool, Vec<u8>)> {
        let mut outgoing = outgoing(content);
        let mut fragments = Vec::new();
        loop {
            let cut = outgoing.cut(sizes.next().unwrap(), 4).unwrap();
            fragments.push((cut.number, cut.last, outgoing.encoded()[cut.range].to_vec()));
            if cut.last {
                return fragments;
            }
        }
    }

    fn take<'a>(assembly: &'a mut Assembly, (number, last, body): &(u8, bool, Vec<u8>)) -> Taken<'a> {
        match number {
            0 => assembly.first(Time::ZERO, KNOWN, body, *last).1,
            _ => assembly.later(Time::ZERO, *number, body, *last, LIMIT),
        }
    }

    #[test]
    fn what_does_not_fit_is_not_cut_and_content_is_counted() {
        let mut outgoing = outgoing(&[5; 30]);
        assert_eq!(outgoing.cut(15, 16), None);
        assert_eq!(outgoing.cut(16, 16), Some(Cut { range: 0..16, number: 0, last: false, content: 15 }));
        // 31 bytes and the CRC-32: 19 are left.
        assert_eq!(outgoing.cut(15, 16), None);
        assert_eq!(outgoing.cut(17, 16), Some(Cut { range: 16..33, number: 1, last: false, content: 15 }));
        assert_eq!(outgoing.cut(2, 16), Some(Cut { range: 33..35, number: 2, last: true, content: 0 }));
    }

    #[test]
    fn packets_are_bounded_and_given_up() {
        let mut assembly = Assembly::default();
        assembly.first(Time::ZERO, KNOWN, &[0; 250], false);
        for number in 1..8 {
            assert_eq!(assembly.later(Time::ZERO, number, &[0; 250], false, LIMIT), Taken::More);
        }
        assert_eq!(assembly.later(Time::ZERO, 8, &[0; 250], false, LIMIT), Taken::Oversized);
        assert_eq!(assembly.later(Time::ZERO, 9, &[0; 250], true, LIMIT), Taken::Orphan { first: false });
        assembly.first(Time::ZERO, KNOWN, &[0; 250], false);
        assert!(!assembly.expire(Time::ZERO) && assembly.expire(Time::ZERO + PATIENCE));
        assert_eq!(assembly.later(Time::ZERO, 1, &[0; 250], true, LIMIT), Taken::Orphan { first: true });
    }

    #[test]
    fn a_header_may_be_cut_too() {
        let mut assembly = Assembly::default();
        let packet: Vec<u8> = (0..20).collect();
        let crc = crc32(&packet).to_be_bytes();
        assert_eq!(assembly.first(Time::ZERO, Some(Prefix::Explicit), &packet[..3], false).1, Taken::More);
        let rest = [&packet[3..], &crc].concat();
        let header = core::array::from_fn(|at| at as u8 + 1);
        assert_eq!(assembly.later(Time::ZERO, 1, &rest, true, LIMIT), Taken::Whole(header, &packet[15..]));
        assert_eq!(assembly.first(Time::ZERO, Some(Prefix::Explicit), &packet[..9], true).1, Taken::Malformed);
    }

    proptest! {
        #[test]
        fn whatever_is_lost_every_other_packet_comes_whole(
            packets in prop::collection::vec((20usize..800, prop::collection::vec(4usize..252, 1..5)), 1..12),
            lost in prop::collection::vec(prop::bool::weighted(0.15), 400),
        ) {
            let mut lost = lost.into_iter().cycle();
            let mut assembly = Assembly::default();
            let mut expected = VecDeque::new();
            let mut delivered = Vec::new();
            for (tag, (length, sizes)) in packets.iter().enumerate() {
                let content: Vec<u8> = (0..*length).map(|at| (at * 7 + tag * 31) as u8).collect();
                let mut whole = true;
                for fragment in fragments(&content, sizes.iter().copied().cycle()) {
                    if lost.next() == Some(true) {
                        whole = false;
                    } else if let Taken::Whole(_, packet) = take(&mut assembly, &fragment) {
                        delivered.push(packet.to_vec());
                    }
                }
                if whole {
                    expected.push_back(content);
                }
            }
            prop_assert_eq!(delivered, Vec::from(expected));
        }

        #[test]
        fn damaged_fragments_make_no_packet(
            length in 300usize..1_000, at: prop::sample::Index, flip in 1u8.., which: prop::sample::Index,
        ) {
            let content = vec![3; length];
            let mut fragments = fragments(&content, core::iter::repeat(100));
            let which = which.index(fragments.len());
            let body = &mut fragments[which].2;
            let at = at.index(body.len());
            body[at] ^= flip;
            let mut assembly = Assembly::default();
            let whole = fragments.iter().any(|fragment| matches!(take(&mut assembly, fragment), Taken::Whole(..)));
            prop_assert!(!whole);
        }
    }
}
