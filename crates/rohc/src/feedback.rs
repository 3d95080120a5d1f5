//! Feedback elements (RFC 3095 5.2.2), whatever the profile puts in them.

use alloc::vec::Vec;
use core::time::Duration;

use crate::bits::Reader;
use crate::cid::{CidSpace, add_cid};
use crate::crc::CRC8;
use crate::error::Malformed;

/// The bits that a feedback type octet begins with (RFC 3095 5.2.6).
const TYPE: u8 = 0b1111_0000;

/// Is this the type octet of a feedback element?
pub(crate) const fn is_type_octet(octet: u8) -> bool {
    octet & 0b1111_1000 == TYPE
}

/// A feedback element as it came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Element<'a> {
    whole: &'a [u8],
    /// Behind type octet and size.
    data_at: usize,
}

/// The feedback element that `reader` stands before.
pub(crate) fn read_element<'a>(reader: &mut Reader<'a>) -> Result<Element<'a>, Malformed> {
    let (whole, start) = (reader.rest(), reader.position());
    let first = reader.u8()?;
    if !is_type_octet(first) {
        return Err(Malformed::Misplaced);
    }
    let size = match first & 0b111 {
        0 => reader.u8()?,
        code => code,
    };
    let data_at = reader.position() - start;
    reader.take(usize::from(size))?;
    Ok(Element { whole: &whole[..reader.position() - start], data_at })
}

/// A feedback element, its CID read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Feedback<'a> {
    pub(crate) cid: u16,
    element: Element<'a>,
    body_at: usize,
}

impl<'a> Feedback<'a> {
    /// Reads the CID (RFC 3095 5.2.2, the compressor's logic, steps 1 to 4).
    pub(crate) fn parse(element: Element<'a>, space: CidSpace) -> Result<Self, Malformed> {
        let data = &element.whole[element.data_at..];
        let mut reader = Reader::new(data);
        let cid = if space.is_large() {
            CidSpace::read_large(&mut reader)?
        } else {
            match data {
                // 11 in front of more than one octet: no acknowledgement has this type.
                [first, _, ..] if first >> 6 == 0b11 => {
                    reader.u8()?;
                    add_cid(*first).ok_or(Malformed::Reserved("feedback's Add-CID octet"))?
                }
                _ => 0,
            }
        };
        if reader.rest().is_empty() {
            return Err(Malformed::TooShort);
        }
        Ok(Self { cid, element, body_at: element.data_at + reader.position() })
    }

    /// Behind the CID: one octet is FEEDBACK-1, more are FEEDBACK-2.
    pub(crate) fn body(&self) -> &'a [u8] {
        &self.element.whole[self.body_at..]
    }

    /// Are the CRC-8s at the positions `at` (ascending) of [`body`](Self::body) right, with themselves as zero?
    pub(crate) fn crc_is_right(&self, coverage: Coverage, at: &[usize]) -> bool {
        let Element { whole, data_at } = self.element;
        let mut register = CRC8.start();
        let mut from = coverage.start(data_at);
        for at in at {
            register = CRC8.update(register, &whole[from..self.body_at + at]);
            register = CRC8.update(register, &[0]);
            from = self.body_at + at + 1;
        }
        register = CRC8.update(register, &whole[from..]);
        at.iter().all(|at| whole[self.body_at + at] == register)
    }
}

/// Where what the CRC-8 of feedback covers begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coverage {
    /// At the CID, behind type octet and size (RFC 3095 5.7.6.3, RFC 4815 2.3).
    FromCid,
    /// At the type octet: the entire feedback element (RFC 6846 8.3.1, RFC 5795 5.2.4.1).
    Element,
}

impl Coverage {
    const fn start(self, data_at: usize) -> usize {
        match self {
            Self::FromCid => data_at,
            Self::Element => 0,
        }
    }
}

/// Appends a feedback element for `cid` in the form of RFC 3095 5.2.2. If `crc` is given, the octet there in
/// `body` (zero as given) becomes the CRC. `body` is cut at 253 octets, so that a size octet can name it with its
/// CID.
fn write_element(out: &mut Vec<u8>, space: CidSpace, cid: u16, body: &[u8], crc: Option<(Coverage, usize)>) {
    let body = &body[..body.len().min(253)];
    let start = out.len();
    out.extend_from_slice(&[TYPE, 0]);
    space.open_feedback(out, cid);
    out.extend_from_slice(body);
    let size = out.len() - start - 2;
    if size < 8 {
        out[start] = TYPE | size as u8;
        out.remove(start + 1);
    } else {
        out[start + 1] = size as u8;
    }
    if let Some((coverage, at)) = crc {
        let crc = CRC8.of(&out[start + coverage.start(out.len() - start - size)..]);
        let body_at = out.len() - body.len();
        out[body_at + at] = crc;
    }
}

/// Lets one kind of feedback through now and then (RFC 3095 5.7.6): after an interval, or while the caller's
/// clock stands still one of [`EACH`] packets that ask for it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Limiter {
    last: Option<Duration>,
    refused: u8,
}

/// Packets that ask for feedback, of which one gets it where no time passes: a caller without a clock should not
/// lose what a lost acknowledgement would have brought.
const EACH: u8 = 8;

impl Limiter {
    pub(crate) fn allows(&mut self, now: Duration, interval: Duration) -> bool {
        let is_due = self
            .last
            .is_none_or(|last| now.saturating_sub(last) >= interval || last == now && self.refused + 1 >= EACH);
        if is_due {
            (self.last, self.refused) = (Some(now), 0);
        } else if self.last == Some(now) {
            self.refused += 1;
        }
        is_due
    }
}

/// Feedback waiting to be carried to the peer's compressor; bounded.
#[derive(Clone, Debug)]
pub(crate) struct FeedbackQueue {
    space: CidSpace,
    waiting: Vec<u8>,
    /// Elements that found no room.
    pub(crate) dropped: u64,
}

impl FeedbackQueue {
    /// Octets that wait at most. An element has some 10; a hundred of them are more than a link with
    /// any use for header compression carries back in a round trip.
    const LIMIT: usize = 1_024;

    pub(crate) fn new(space: CidSpace) -> Self {
        Self { space, waiting: Vec::with_capacity(Self::LIMIT), dropped: 0 }
    }

    /// Takes one element in: see [`write_element`].
    pub(crate) fn push(&mut self, cid: u16, body: &[u8], crc: Option<(Coverage, usize)>) {
        // Type, size and CID take at most four octets.
        if self.waiting.len() + body.len() + 4 > Self::LIMIT {
            self.dropped += 1;
        } else {
            write_element(&mut self.waiting, self.space, cid, body, crc);
        }
    }

    /// Takes one element in, unless the CRC is none that `fits` takes. False if so.
    pub(crate) fn push_if(&mut self, cid: u16, body: &[u8], crc: (Coverage, usize), fits: impl Fn(u8) -> bool) -> bool {
        let start = self.waiting.len();
        self.push(cid, body, Some(crc));
        let crc = self.waiting.len().checked_sub(body.len() - crc.1).map(|at| self.waiting[at]);
        let is_in = self.waiting.len() == start || crc.is_some_and(fits);
        if !is_in {
            self.waiting.truncate(start);
        }
        is_in
    }

    /// Moves everything that waits to the end of `out`.
    pub(crate) fn take(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.waiting);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_and_back() {
        let (small, large) = (CidSpace::new(15), CidSpace::new(300));
        for (space, cid, body, bytes) in [
            (small, 0, &[7][..], &[0xf1, 7][..]),
            (small, 3, &[7], &[0xf2, 0xe3, 7]),
            (small, 0, &[0x20, 7], &[0xf2, 0x20, 7]),
            (small, 3, &[0x20, 7], &[0xf3, 0xe3, 0x20, 7]),
            (large, 0, &[7], &[0xf2, 0, 7]),
            (large, 300, &[0x20, 7], &[0xf4, 0x81, 0x2c, 0x20, 7]),
            (small, 0, &[1, 2, 3, 4, 5, 6, 7, 8], &[0xf0, 8, 1, 2, 3, 4, 5, 6, 7, 8]),
        ] {
            let mut out = Vec::new();
            write_element(&mut out, space, cid, body, None);
            assert_eq!(out, bytes);
            let mut reader = Reader::new(&out);
            let feedback = Feedback::parse(read_element(&mut reader).unwrap(), space).unwrap();
            assert!(reader.rest().is_empty());
            assert_eq!((feedback.cid, feedback.body()), (cid, body));
        }
        let parse =
            |element: &[u8]| Feedback::parse(read_element(&mut Reader::new(element)).unwrap(), small).map(|f| f.cid);
        // FEEDBACK-1 whose octet looks like an Add-CID: one octet has no CID.
        assert_eq!(parse(&[0xf1, 0xe3]), Ok(0));
        assert!(parse(&[0xf0, 0]).is_err());
        assert!(parse(&[0xf3, 0xc3, 1, 2]).is_err());
    }

    #[test]
    fn the_crc_covers_everything_but_itself() {
        for (max_cid, cid, coverage, len) in [
            (15, 3, Coverage::FromCid, 4),
            (15, 3, Coverage::Element, 4),
            (300, 300, Coverage::FromCid, 9),
            (300, 300, Coverage::Element, 9),
        ] {
            let space = CidSpace::new(max_cid);
            let mut out = Vec::new();
            write_element(
                &mut out,
                space,
                cid,
                &[0x20, 7, 0x11, 0, 0x80, 0x80, 0x80, 0x80, 0x80][..len],
                Some((coverage, 3)),
            );
            let is_right = |element: &[u8], coverage| {
                let element = read_element(&mut Reader::new(element)).unwrap();
                Feedback::parse(element, space).is_ok_and(|feedback| feedback.crc_is_right(coverage, &[3]))
            };
            assert!(is_right(&out, coverage));
            let other = if coverage == Coverage::Element { Coverage::FromCid } else { Coverage::Element };
            assert!(!is_right(&out, other));
            let data_at = if len > 4 { 2 } else { 1 };
            for at in data_at..out.len() {
                let mut damaged = out.clone();
                damaged[at] ^= 1;
                assert!(!is_right(&damaged, coverage));
            }
        }
    }

    #[test]
    fn feedback_is_limited_by_time_and_without_a_clock_by_count() {
        let interval = Duration::from_millis(100);
        let mut limiter = Limiter::default();
        let allowed = (0..1_000).filter(|ms| limiter.allows(Duration::from_millis(*ms), interval)).count();
        assert_eq!(allowed, 10);
        let mut limiter = Limiter::default();
        let allowed = (0..80).filter(|_| limiter.allows(Duration::ZERO, interval)).count();
        assert_eq!(allowed, 10);
    }

    #[test]
    fn the_queue_is_bounded() {
        let mut queue = FeedbackQueue::new(CidSpace::new(15));
        for _ in 0..1_000 {
            queue.push(1, &[0x20, 7], None);
        }
        let mut out = Vec::new();
        queue.take(&mut out);
        assert!(out.len() <= FeedbackQueue::LIMIT);
        assert_eq!(queue.dropped as usize + out.len() / 4, 1_000);
    }
}
