//! Reading IR and IR-DYN packets as far as they do not concern the context (RFC 3095 5.7.7.1, 5.7.7.2).

use super::Kind;
use super::chain::{self, IdCoding, RtpExtra};
use super::header::Header;
use crate::bits::Reader;
use crate::cid::Incoming;
use crate::crc::CRC8;
use crate::error::DecompressError;
use crate::headers::MAX_IP;
use crate::list::DecompressorLists;

/// Where the lists of an IR or IR-DYN packet go: to those of the context, if they fit `header`, and else to the
/// others. Says which it is.
pub(super) fn lists_for<'a>(
    kind: Kind,
    header: &Header,
    [lists, others]: [&'a mut DecompressorLists; 2],
) -> (&'a mut DecompressorLists, bool) {
    let (count, bits) = (header.ips().len(), kind.sn_field());
    if lists.fit(count, bits) {
        lists.begin();
        return (lists, false);
    }
    others.restart(count, bits);
    (others, true)
}

/// The chains of an IR packet.
pub(super) struct Chains<'a> {
    pub(super) header: Header,
    /// What `header` does not hold of the dynamic part, and whether its lists went to the other ones.
    pub(super) dynamic: Option<([IdCoding; MAX_IP], bool, RtpExtra)>,
    /// Stands before the payload.
    pub(super) rest: Reader<'a>,
}

impl<'a> Chains<'a> {
    /// Reads an IR packet and checks its CRC.
    ///
    /// Others read the RFCs differently in two places, and the CRC says who was right. In profiles 0x0002 to
    /// 0x0004 some take bit D for reserved and always send a dynamic chain. And in 0x0004 some end the chain
    /// after two IP headers without saying so.
    pub(super) fn read(
        kind: Kind,
        [lists, other_lists]: [&mut DecompressorLists; 2],
        incoming: &Incoming<'a>,
    ) -> Result<Self, DecompressError> {
        let says_dynamic = incoming.first() & 1 != 0;
        let readings = [
            (MAX_IP, true, says_dynamic || kind != Kind::Rtp),
            (MAX_IP, false, !says_dynamic),
            (2, true, kind == Kind::Ip),
        ];
        let mut result = Err(DecompressError::Crc { cid: incoming.cid, bits: 8 });
        for (limit, has_dynamic, _) in readings.into_iter().filter(|(_, _, is_possible)| *is_possible) {
            let read = Self::read_as(kind, limit, has_dynamic, [&mut *lists, &mut *other_lists], incoming);
            if read.is_ok() {
                return read;
            }
            // The first reading is the RFC's, unless only a static chain was announced.
            if result.is_err() && (has_dynamic == says_dynamic && limit == MAX_IP) {
                result = read;
            }
        }
        result
    }

    fn read_as(
        kind: Kind,
        limit: usize,
        has_dynamic: bool,
        all_lists: [&mut DecompressorLists; 2],
        incoming: &Incoming<'a>,
    ) -> Result<Self, DecompressError> {
        let malformed = |what| DecompressError::Malformed { cid: incoming.cid, what };
        let mut rest = Reader::new(incoming.body());
        // Profile and CRC.
        rest.take(2).map_err(malformed)?;
        let mut header = chain::read_static(kind, limit, &mut rest).map_err(malformed)?;
        let mut dynamic = None;
        if has_dynamic {
            let mut codings = [IdCoding::default(); MAX_IP];
            let (lists, has_other_lists) = lists_for(kind, &header, all_lists);
            let extra = chain::read_dynamic(kind, &mut header, &mut codings, lists, &mut rest).map_err(malformed)?;
            dynamic = Some((codings, has_other_lists, extra));
        }
        check_crc(incoming, &rest)?;
        Ok(Self { header, dynamic, rest })
    }
}

/// The CRC of an IR or IR-DYN packet: over everything before the payload, itself as zero (RFC 3095 5.9.1).
/// Padding, which looks like the Add-CID octet of CID 0, is not part of it (RFC 4815 2.2); the framework took it off.
pub(super) fn check_crc(incoming: &Incoming<'_>, reader: &Reader<'_>) -> Result<(), DecompressError> {
    let crc_at = incoming.body_at() + 1;
    let covered = &incoming.whole[..incoming.body_at() + reader.position()];
    let register = CRC8.update(CRC8.of(&covered[..crc_at]), &[0]);
    if CRC8.update(register, &covered[crc_at + 1..]) == covered[crc_at] {
        Ok(())
    } else {
        Err(DecompressError::Crc { cid: incoming.cid, bits: 8 })
    }
}
