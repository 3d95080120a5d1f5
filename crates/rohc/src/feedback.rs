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

/// The data of the feedback element that `reader` stands before: type octet and size are taken off.
pub(crate) fn read_element<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], Malformed> {
    let first = reader.u8()?;
    if !is_type_octet(first) {
        return Err(Malformed::Misplaced);
    }
    let size = match first & 0b111 {
        0 => reader.u8()?,
        code => code,
    };
    reader.take(usize::from(size))
}

/// The data of one feedback element, its CID read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Feedback<'a> {
    pub(crate) cid: u16,
    /// With the CID: what a CRC over the feedback covers (RFC 3095 5.7.6.3).
    data: &'a [u8],
    body_at: usize,
}

impl<'a> Feedback<'a> {
    /// Reads the CID (RFC 3095 5.2.2, the compressor's logic, steps 1 to 4).
    pub(crate) fn parse(data: &'a [u8], space: CidSpace) -> Result<Self, Malformed> {
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
        Ok(Self { cid, data, body_at: reader.position() })
    }

    /// Behind the CID: one octet is FEEDBACK-1, more are FEEDBACK-2.
    pub(crate) fn body(&self) -> &'a [u8] {
        &self.data[self.body_at..]
    }

    /// Are the CRC-8s at the positions `at` (ascending) of [`body`](Self::body) right? They cover the data from
    /// the CID on, with themselves as zero (RFC 3095 5.7.6.3, RFC 4815 2.3, RFC 6846 8.3).
    pub(crate) fn crc_is_right(&self, at: &[usize]) -> bool {
        let mut register = CRC8.start();
        let mut from = 0;
        for at in at {
            register = CRC8.update(register, &self.data[from..self.body_at + at]);
            register = CRC8.update(register, &[0]);
            from = self.body_at + at + 1;
        }
        register = CRC8.update(register, &self.data[from..]);
        at.iter().all(|at| self.data[self.body_at + at] == register)
    }
}

/// Appends a feedback element for `cid` in the form of RFC 3095 5.2.2. If `crc_at` is given, the
/// octet there in `body` (zero as given) becomes the CRC. `body` is cut at 253 octets, so that a
/// size octet can name it with its CID.
pub(crate) fn write_element(out: &mut Vec<u8>, space: CidSpace, cid: u16, body: &[u8], crc_at: Option<usize>) {
    let start = out.len();
    out.extend_from_slice(&[TYPE, 0]);
    let data_at = out.len();
    space.open_feedback(out, cid);
    let body_at = out.len();
    out.extend_from_slice(&body[..body.len().min(253)]);
    if let Some(at) = crc_at {
        out[body_at + at] = CRC8.of(&out[data_at..]);
    }
    let size = out.len() - data_at;
    if size < 8 {
        out[start] = TYPE | size as u8;
        out.remove(start + 1);
    } else {
        out[start + 1] = size as u8;
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
    pub(crate) fn push(&mut self, cid: u16, body: &[u8], crc_at: Option<usize>) {
        // Type, size and CID take at most four octets.
        if self.waiting.len() + body.len() + 4 > Self::LIMIT {
            self.dropped += 1;
        } else {
            write_element(&mut self.waiting, self.space, cid, body, crc_at);
        }
    }

    /// Takes one element in, unless the CRC at `crc_at` is none that `fits` takes. False if so.
    pub(crate) fn push_if(&mut self, cid: u16, body: &[u8], crc_at: usize, fits: impl Fn(u8) -> bool) -> bool {
        let start = self.waiting.len();
        self.push(cid, body, Some(crc_at));
        let crc = self.waiting.len().checked_sub(body.len() - crc_at).map(|at| self.waiting[at]);
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
        // FEEDBACK-1 whose octet looks like an Add-CID: one octet has no CID.
        assert_eq!(Feedback::parse(&[0xe3], small).unwrap().cid, 0);
        assert!(Feedback::parse(&[], small).is_err());
        assert!(Feedback::parse(&[0xc3, 1, 2], small).is_err());
    }

    #[test]
    fn the_crc_covers_everything_but_itself() {
        let space = CidSpace::new(15);
        let mut out = Vec::new();
        write_element(&mut out, space, 3, &[0x20, 7, 0x11, 0], Some(3));
        let data = read_element(&mut Reader::new(&out)).unwrap().to_vec();
        assert!(Feedback::parse(&data, space).unwrap().crc_is_right(&[3]));
        for at in 0..data.len() {
            let mut damaged = data.clone();
            damaged[at] ^= 1;
            assert!(!Feedback::parse(&damaged, space).unwrap().crc_is_right(&[3]));
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
