//! Fields of a compressed header and the values of the one before, put together (RFC 3095 4.5, 5.7).

use super::chain::IdCoding;
use super::fields::{Fields, IpFields, Positions};
use super::header::{Header, Ip};
use super::{ID_P, Kind, ts_p};
use crate::bits::Bits;
use crate::error::Malformed;
use crate::headers::MAX_IP;
use crate::list::DecompressorLists;
use crate::wlsb;

/// The values that a packet may change.
#[derive(Clone, Copy, Debug)]
pub(super) struct Values {
    pub(super) header: Header,
    pub(super) codings: [IdCoding; MAX_IP],
    pub(super) ts_stride: u32,
}

impl Values {
    /// The values of a packet that carries `fields` and has the sequence number `sn`, with these as references. `more`
    /// holds the IP headers beyond the second, which do not depend on references.
    pub(super) fn with(
        &self,
        kind: Kind,
        fields: &Fields,
        sn: u32,
        more: &[(Ip, IdCoding); MAX_IP],
        lists: &DecompressorLists,
    ) -> Result<Self, Malformed> {
        let mut values = *self;
        let reference = &self.header;
        let positions = Positions::of(reference.ips().len());
        let header = &mut values.header;
        header.sn = sn;
        let mut change = |at: usize, changes: &IpFields| {
            let ip = &mut header.ips_mut()[at];
            ip.tos = changes.tos.unwrap_or(ip.tos);
            ip.ttl = changes.ttl.unwrap_or(ip.ttl);
            ip.protocol = changes.protocol.unwrap_or(ip.protocol);
            if let Some(flags) = changes.flags
                && !ip.is_v6()
            {
                ip.df = flags.df;
                (values.codings[at].nbo, values.codings[at].rnd) = (flags.nbo, flags.rnd);
            }
        };
        change(positions.inner, &fields.inner);
        if let Some(outer) = positions.outer {
            change(outer, &fields.outer);
        }

        let innermost = positions.innermost_id(header.ips(), &values.codings);
        let slots = [positions.outer, Some(positions.inner)];
        for (at, random) in slots.into_iter().zip(fields.random_ids).filter_map(|(at, random)| Some((at?, random))) {
            let coding = values.codings[at];
            let ip = &mut header.ips_mut()[at];
            if ip.is_v6() {
                continue;
            }
            if coding.rnd {
                ip.id = random.unwrap_or(ip.id);
            } else if !coding.sid {
                // RFC 3095 4.5.5: the offset from the sequence number.
                let bits = match innermost {
                    Some(innermost) if innermost == at && fields.id.width > 0 => fields.id,
                    _ if positions.outer == Some(at) => fields.outer_id,
                    _ => Bits::default(),
                };
                let offset = coding.count(reference.ips()[at].id).wrapping_sub(reference.sn as u16);
                let offset = wlsb::decode(u32::from(offset), bits.value, bits.width, ID_P) as u16;
                ip.id = coding.count((sn as u16).wrapping_add(offset));
            }
        }

        if kind == Kind::Rtp {
            let stride = values.ts_stride;
            let rtp = &mut header.transport.rtp;
            let before = reference.transport.rtp.timestamp;
            let bits = fields.ts;
            rtp.timestamp = match (bits.width, fields.ts_is_scaled) {
                // RFC 4815 4.2: linear, by the signed difference of the sequence numbers.
                (0, true) => {
                    let steps = (sn as u16).wrapping_sub(reference.sn as u16).cast_signed();
                    before.wrapping_add(stride.wrapping_mul(i32::from(steps).cast_unsigned()))
                }
                (0, false) => return Err(Malformed::Reserved("unscaled timestamp without bits")),
                (width, true) => {
                    // RFC 4815 4.4.1: never scaled by zero.
                    let (Some(scaled), Some(offset)) = (before.checked_div(stride), before.checked_rem(stride)) else {
                        return Err(Malformed::Reserved("timestamp scaled by zero"));
                    };
                    let scaled = wlsb::decode(scaled, bits.value, width, ts_p(width));
                    scaled.wrapping_mul(stride).wrapping_add(offset)
                }
                (width, false) => wlsb::decode(before, bits.value, width, ts_p(width)),
            };
            rtp.marker = fields.marker;
            if let Some(changes) = &fields.rtp {
                rtp.extension = changes.extension;
                // RFC 4815 6.4.
                rtp.padding = changes.payload_type.is_some_and(|(padding, _)| padding);
                rtp.payload_type = changes.payload_type.map_or(rtp.payload_type, |(_, payload_type)| payload_type);
                // RFC 4815 4.6: with a scaled timestamp the new stride is ignored.
                if let Some(stride) = changes.ts_stride.filter(|_| !fields.ts_is_scaled) {
                    values.ts_stride = stride;
                }
            }
        }
        header.transport.udp_checksum = fields.udp_checksum.unwrap_or(0);

        let further = header.ips_mut().iter_mut().zip(&mut values.codings).zip(more).skip(2);
        for ((ip, coding), more) in further {
            (*ip, *coding) = *more;
        }
        header.measure(lists);
        Ok(values)
    }
}
