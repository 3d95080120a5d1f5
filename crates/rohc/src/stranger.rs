//! What to say about a packet for a context that is not there.
//!
//! A decompressor that was started again knows no context, and a compressor that had feedback before does
//! not refresh by itself. So the decompressor has to say that it lost everything, without knowing the profile
//! whose feedback format it is to use. There is a form that all profiles read alike: STATIC-NACK with a
//! sequence number that is not valid.
//!
//! - RFC 3095 5.7.6.2: type, mode, number; then options. The third octet is an option of no known type,
//!   without data, which is skipped (RFC 3095 5.7.6.9); the last SN-NOT-VALID (5.7.6.4).
//! - RFC 6846 8.3.1: type, number; the third octet is the CRC over the element, the last MSN-NOT-VALID (8.3.2.2).
//!
//! As the number is not valid, it can have the value that gives the CRC the value it needs.

use crate::feedback::{Coverage, FeedbackQueue};

/// The CRC of RFC 6846.
const CRC: (Coverage, usize) = (Coverage::Element, 2);

/// Queues a STATIC-NACK for `cid` that every profile understands.
pub(crate) fn static_nack(queue: &mut FeedbackQueue, cid: u16) {
    // STATIC-NACK in mode O, number, CRC, not valid. Each number gives another CRC, so that one fits.
    for number in 0..=u8::MAX {
        let body = [0b1010_0000, number, 0, 0x30];
        if queue.push_if(cid, &body, CRC, |crc| matches!(crc, 0x80 | 0xa0 | 0xb0 | 0xc0 | 0xd0 | 0xe0 | 0xf0)) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::bits::Reader;
    use crate::cid::CidSpace;
    use crate::feedback::{Feedback, read_element};

    #[test]
    fn both_formats_read_it() {
        for (max_cid, cid) in (0..16).map(|cid| (15, cid)).chain((0..16_384).step_by(7).map(|cid| (16_383, cid))) {
            let space = CidSpace::new(max_cid);
            let mut queue = FeedbackQueue::new(space);
            static_nack(&mut queue, cid);
            let mut out = Vec::new();
            queue.take(&mut out);
            let element = read_element(&mut Reader::new(&out)).unwrap();
            let feedback = Feedback::parse(element, space).unwrap();
            assert!(feedback.crc_is_right(CRC.0, &[CRC.1]));
            let [0xa0, _, crc, 0x30] = feedback.body() else { panic!("{:02x?}", feedback.body()) };
            assert!(feedback.cid == cid && crc & 0x0f == 0 && crc >> 4 >= 8 && crc >> 4 != 9);
        }
    }
}
