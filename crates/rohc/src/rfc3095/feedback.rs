//! FEEDBACK-1 and FEEDBACK-2 (RFC 3095 5.7.6).

use crate::bits::{Bits, Reader};
use crate::error::{FeedbackError, Malformed};
use crate::feedback::{Coverage, Feedback, FeedbackQueue};

/// The kinds of feedback (RFC 3095 5.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AckType {
    Ack,
    Nack,
    StaticNack,
}

/// The mode parameter (RFC 3095 5.7.6.1).
pub(crate) const MODE_U: u8 = 1;
pub(crate) const MODE_O: u8 = 2;

const OPTION_CRC: u8 = 1;
const OPTION_REJECT: u8 = 2;
const OPTION_SN_NOT_VALID: u8 = 3;
const OPTION_SN: u8 = 4;
const OPTION_LOSS: u8 = 7;
/// RFC 3843 3.7.
const OPTION_CONTEXT_MEMORY: u8 = 9;

/// What feedback says. CLOCK and JITTER, which are for timer-based timestamps, are read over like
/// options that are not known (RFC 3095 5.7.6.10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) ack: AckType,
    /// 0 if it says none (FEEDBACK-1).
    pub(crate) mode: u8,
    /// The low bits of a sequence number; none if it is not valid.
    pub(crate) sn: Option<Bits>,
    /// Protected by a CRC, as anything about modes must be (RFC 4815 3.2).
    pub(crate) is_protected: bool,
    /// The flow is not wanted: REJECT or CONTEXT_MEMORY.
    pub(crate) is_rejected: bool,
    /// The longest loss that the decompressor has seen, in packets.
    pub(crate) longest_loss: Option<u8>,
}

/// Reads feedback for a context of these profiles.
pub(crate) fn read(feedback: &Feedback<'_>) -> Result<Said, FeedbackError> {
    let body = feedback.body();
    let mut reader = Reader::new(body);
    let first = reader.u8()?;
    let mut said = Said {
        ack: AckType::Ack,
        mode: 0,
        sn: Some(Bits::new(u32::from(first), 8)),
        is_protected: false,
        is_rejected: false,
        longest_loss: None,
    };
    if body.len() == 1 {
        return Ok(said);
    }
    said.ack = match first >> 6 {
        0 => AckType::Ack,
        1 => AckType::Nack,
        2 => AckType::StaticNack,
        _ => return Err(Malformed::Reserved("Acktype").into()),
    };
    said.mode = first >> 4 & 0x3;
    let mut sn = Bits::new(u32::from(first & 0x0f), 4).then(Bits::new(u32::from(reader.u8()?), 8));
    let mut crcs = [0; 8];
    let mut crc_count = 0;
    let mut is_valid = true;
    while !reader.rest().is_empty() {
        let option = reader.u8()?;
        let at = reader.position();
        let data = reader.take(usize::from(option & 0x0f))?;
        match (option >> 4, data) {
            (OPTION_CRC, [_]) => {
                // RFC 4815 8.6 allows several, all the same.
                *crcs.get_mut(crc_count).ok_or(Malformed::TooMany("CRC options"))? = at;
                crc_count += 1;
            }
            (OPTION_REJECT | OPTION_CONTEXT_MEMORY, []) => said.is_rejected = true,
            (OPTION_SN_NOT_VALID, []) => is_valid = false,
            // RFC 4815 8.5: the options' bits follow those before.
            (OPTION_SN, [more]) => sn = sn.then(Bits::new(u32::from(*more), 8)),
            (OPTION_LOSS, [packets]) => said.longest_loss = Some(*packets),
            _ => {}
        }
    }
    said.sn = is_valid.then_some(sn);
    said.is_protected = crc_count > 0;
    if said.is_protected && !feedback.crc_is_right(Coverage::FromCid, &crcs[..crc_count]) {
        return Err(FeedbackError::Crc { cid: feedback.cid });
    }
    // RFC 3095 5.7.6.4: a REJECT must be protected.
    said.is_rejected &= said.is_protected;
    Ok(said)
}

/// Queues a FEEDBACK-2 that asks for mode O and is protected by a CRC, so that any of them can bring the
/// compressor into that mode (RFC 3095 5.6.2). Without `sn`, it says that there is none.
pub(crate) fn write_ack(ack: AckType, cid: u16, sn: Option<u32>, queue: &mut FeedbackQueue) {
    let number = sn.unwrap_or(0);
    let first = (ack as u8) << 6 | MODE_O << 4 | (number >> 8) as u8 & 0x0f;
    let body = [first, number as u8, OPTION_CRC << 4 | 1, 0, OPTION_SN_NOT_VALID << 4];
    let length = if sn.is_some() { 4 } else { 5 };
    queue.push(cid, &body[..length], Some((Coverage::FromCid, 3)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cid::CidSpace;
    use crate::feedback::read_element;

    /// Reads `data`, of up to 255 octets, of a channel with this MAX_CID; gives the CID too.
    fn said_on(max_cid: u16, data: &[u8]) -> Result<(u16, Said), FeedbackError> {
        let element = [&[0xf0, data.len() as u8], data].concat();
        let element = read_element(&mut Reader::new(&element)).unwrap();
        let feedback = Feedback::parse(element, CidSpace::new(max_cid)).unwrap();
        read(&feedback).map(|said| (feedback.cid, said))
    }

    fn said(data: &[u8]) -> Result<Said, FeedbackError> {
        said_on(15, data).map(|(_, said)| said)
    }

    #[test]
    fn the_example_of_the_standard() {
        // RFC 3095 5.7.6.11: CID 8, ACK for SN 17, mode R.
        let (cid, said) = said_on(15, &[0xe8, 0x30, 17]).unwrap();
        assert_eq!(cid, 8);
        assert_eq!((said.ack, said.mode, said.sn), (AckType::Ack, 3, Some(Bits::new(17, 12))));
        // FEEDBACK-1, large CID.
        let (cid, said) = said_on(16, &[8, 17]).unwrap();
        assert_eq!((cid, said.sn), (8, Some(Bits::new(17, 8))));
    }

    #[test]
    fn options_in_any_order() {
        let said = said(&[0x61, 0x23, 0x41, 0x45, 0x50, 0xf2, 1, 2, 0x71, 9]).unwrap();
        assert_eq!((said.ack, said.mode, said.sn), (AckType::Nack, 2, Some(Bits::new(0x12345, 20))));
        assert_eq!((said.longest_loss, said.is_protected), (Some(9), false));
    }

    #[test]
    fn rejection_needs_a_crc() {
        assert!(!said(&[0x20, 0, 0x20]).unwrap().is_rejected);
        let mut data = [0x20, 0, 0x20, 0x11, 0];
        data[4] = crate::crc::CRC8.of(&data);
        assert!(said(&data).unwrap().is_rejected);
        data[4] ^= 1;
        assert_eq!(said(&data), Err(FeedbackError::Crc { cid: 0 }));
    }

    #[test]
    fn wrong_formats_are_errors() {
        // Options that end too early. A reserved Acktype would read as an Add-CID octet.
        assert!(said(&[0x20, 0, 0x41]).is_err());
        assert!(said(&[0x20, 0, 0x20, 0x12]).is_err());
    }

    #[test]
    fn written_and_read() {
        for (ack, sn) in [(AckType::Ack, Some(0xabc)), (AckType::Nack, Some(1)), (AckType::StaticNack, None)] {
            let space = CidSpace::new(15);
            let mut queue = FeedbackQueue::new(space);
            write_ack(ack, 5, sn, &mut queue);
            let mut out = alloc::vec::Vec::new();
            queue.take(&mut out);
            let data = read_element(&mut Reader::new(&out)).unwrap();
            let said = read(&Feedback::parse(data, space).unwrap()).unwrap();
            assert_eq!((said.ack, said.mode, said.is_protected), (ack, MODE_O, true));
            assert_eq!(said.sn.map(|sn| sn.value), sn);
        }
    }
}
