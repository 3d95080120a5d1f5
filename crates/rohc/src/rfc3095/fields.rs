//! Reading compressed headers: which bits of which fields a UO-0, UO-1 or UOR-2 packet carries
//! (RFC 3095 5.7.1 to 5.7.5, 5.11.3, 5.11.4).

use super::Kind;
use super::chain::IdCoding;
use super::header::Ip;
use crate::bits::{Bits, Reader};
use crate::error::Malformed;
use crate::list::DecompressorLists;
use crate::packet_type::PacketType;

/// An IP header's fields in extension 3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct IpFields {
    pub(crate) tos: Option<u8>,
    pub(crate) ttl: Option<u8>,
    pub(crate) protocol: Option<u8>,
    /// DF, NBO and RND, which come together.
    pub(crate) flags: Option<IpFlags>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IpFlags {
    pub(crate) df: bool,
    pub(crate) nbo: bool,
    pub(crate) rnd: bool,
}

/// The RTP header's fields in extension 3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RtpFields {
    /// Padding bit and payload type. Without them the padding bit is zero (RFC 4815 6.4).
    pub(crate) payload_type: Option<(bool, u8)>,
    pub(crate) marker: bool,
    pub(crate) extension: bool,
    pub(crate) ts_stride: Option<u32>,
    pub(crate) time_stride: Option<u32>,
}

/// Where the IP headers stand that extension 3 calls inner and outer: positions in the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Positions {
    pub(crate) inner: usize,
    pub(crate) outer: Option<usize>,
}

impl Positions {
    /// Of a chain of `count` headers: those beyond the second are in neither (RFC 3843 3.2).
    pub(crate) const fn of(count: usize) -> Self {
        if count < 2 { Self { inner: 0, outer: None } } else { Self { inner: 1, outer: Some(0) } }
    }

    /// The innermost IPv4 header whose identification is not random: what IP-ID bits are for (RFC 3095
    /// 5.7). SID counts as not random.
    pub(crate) fn innermost_id(self, ips: &[Ip], codings: &[IdCoding]) -> Option<usize> {
        [Some(self.inner), self.outer]
            .into_iter()
            .flatten()
            .find(|at| ips.get(*at).is_some_and(|ip| !ip.is_v6()) && !codings[*at].rnd)
    }
}

/// What a compressed header carries, before it is put together with the context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fields {
    pub(crate) packet: PacketType,
    pub(crate) crc: u8,
    pub(crate) sn: Bits,
    pub(crate) ts: Bits,
    pub(crate) ts_is_scaled: bool,
    pub(crate) marker: bool,
    /// Bits of the innermost identification that is not random.
    pub(crate) id: Bits,
    /// Bits of the outer header's identification.
    pub(crate) outer_id: Bits,
    pub(crate) inner: IpFields,
    pub(crate) outer: IpFields,
    pub(crate) rtp: Option<RtpFields>,
    /// The mode parameter; 0 if there is none.
    pub(crate) mode: u8,
    /// Random identifications, as they stand behind the extension.
    pub(crate) random_ids: [Option<u16>; 2],
    pub(crate) udp_checksum: Option<u16>,
}

/// What of the context says how a compressed header is to be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout<'a> {
    pub(crate) kind: Kind,
    pub(crate) ips: &'a [Ip],
    pub(crate) codings: &'a [IdCoding],
    pub(crate) udp_checksum: bool,
}

impl Layout<'_> {
    /// Is there a T bit: an IPv4 header whose identification is not random?
    fn has_t(&self, inner: &IpFields, outer: &IpFields) -> bool {
        let positions = Positions::of(self.ips.len());
        let counts = |at: usize, fields: &IpFields| {
            !self.ips[at].is_v6() && !fields.flags.map_or(self.codings[at].rnd, |flags| flags.rnd)
        };
        counts(positions.inner, inner) || positions.outer.is_some_and(|at| counts(at, outer))
    }

    /// Reads a compressed header whose first octet is `first`; `reader` stands behind it and the CID.
    /// What is left in `reader` is the list of further dynamic parts (RFC 3843 3.6) and the payload.
    /// Compressed lists go to `lists`, where they wait for the CRC.
    pub(crate) fn read(
        &self,
        first: u8,
        lists: &mut DecompressorLists,
        reader: &mut Reader<'_>,
    ) -> Result<Fields, Malformed> {
        let mut fields = if first & 0x80 == 0 {
            Fields { crc: first & 0x7, sn: Bits::new(u32::from(first >> 3 & 0xf), 4), ..Fields::new(PacketType::Uo0) }
        } else if first & 0xc0 == 0x80 {
            self.read_type1(first, lists, reader)?
        } else if first & 0xe0 == 0xc0 {
            self.read_type2(first, lists, reader)?
        } else {
            return Err(Malformed::Misplaced);
        };
        let positions = Positions::of(self.ips.len());
        let mut random = |at: Option<usize>, changes: &IpFields| {
            let Some(at) = at else { return Ok(None) };
            let rnd = !self.ips[at].is_v6() && changes.flags.map_or(self.codings[at].rnd, |flags| flags.rnd);
            let id = if rnd { Some(reader.u16()?) } else { None };
            // RFC 3095 5.7: AH data and GRE checksums stand behind the identification of the same header.
            lists.chains[at].read_irregular(reader)?;
            Ok(id)
        };
        fields.random_ids = [random(positions.outer, &fields.outer)?, random(Some(positions.inner), &fields.inner)?];
        if self.udp_checksum && self.kind.has_udp() {
            fields.udp_checksum = Some(reader.u16()?);
        }
        Ok(fields)
    }

    fn read_type1(
        &self,
        first: u8,
        lists: &mut DecompressorLists,
        reader: &mut Reader<'_>,
    ) -> Result<Fields, Malformed> {
        let second = reader.u8()?;
        let crc = second & 0x7;
        if !matches!(self.kind, Kind::Rtp) {
            // RFC 3095 5.11.3.
            let id = Bits::new(u32::from(first & 0x3f), 6);
            let sn = Bits::new(u32::from(second >> 3), 5);
            return Ok(Fields { crc, sn, id, ..Fields::new(PacketType::Uo1) });
        }
        let sn = Bits::new(u32::from(second >> 3 & 0xf), 4);
        let top = second & 0x80 != 0;
        if !self.has_t(&IpFields::default(), &IpFields::default()) {
            let ts = Bits::new(u32::from(first & 0x3f), 6);
            return Ok(Fields { crc, sn, ts, marker: top, ..Fields::new(PacketType::Uo1) });
        }
        let low = Bits::new(u32::from(first & 0x1f), 5);
        if first & 0x20 != 0 {
            return Ok(Fields { crc, sn, ts: low, marker: top, ..Fields::new(PacketType::Uo1Ts) });
        }
        let mut fields = Fields { crc, sn, id: low, ..Fields::new(PacketType::Uo1Id) };
        if top {
            self.read_extension(lists, reader, Some(false), &mut fields)?;
            fields.marker |= fields.rtp.is_some_and(|rtp| rtp.marker);
        }
        Ok(fields)
    }

    fn read_type2(
        &self,
        first: u8,
        lists: &mut DecompressorLists,
        reader: &mut Reader<'_>,
    ) -> Result<Fields, Malformed> {
        let low = u32::from(first & 0x1f);
        if !matches!(self.kind, Kind::Rtp) {
            // RFC 3095 5.11.3, RFC 4815 8.8.
            let second = reader.u8()?;
            let mut fields = Fields { crc: second & 0x7f, sn: Bits::new(low, 5), ..Fields::new(PacketType::Uor2) };
            if second & 0x80 != 0 {
                self.read_extension(lists, reader, None, &mut fields)?;
            }
            return Ok(fields);
        }
        let second = reader.u8()?;
        let third = reader.u8()?;
        let has_extension = third & 0x80 != 0;
        let mut fields = Fields {
            crc: third & 0x7f,
            sn: Bits::new(u32::from(second & 0x3f), 6),
            marker: second & 0x40 != 0,
            ..Fields::new(PacketType::Uor2)
        };
        // RFC 4815 8.3: whether there is a T bit may depend on the extension, which stands at the same
        // place either way.
        let ahead = if has_extension { Extension3::peek(self, reader.clone())? } else { None };
        let has_t = match &ahead {
            Some(ahead) => self.has_t(&ahead.inner, &ahead.outer),
            None => self.has_t(&IpFields::default(), &IpFields::default()),
        };
        let top = second & 0x80 != 0;
        let t = has_t.then_some(top);
        match t {
            None => fields.ts = Bits::new(low << 1 | u32::from(top), 6),
            Some(true) => (fields.packet, fields.ts) = (PacketType::Uor2Ts, Bits::new(low, 5)),
            Some(false) => (fields.packet, fields.id) = (PacketType::Uor2Id, Bits::new(low, 5)),
        }
        if has_extension {
            self.read_extension(lists, reader, t, &mut fields)?;
            // RFC 4815 8.4: two M bits must agree.
            if fields.rtp.is_some_and(|rtp| rtp.marker != fields.marker) {
                return Err(Malformed::Reserved("M bits that differ"));
            }
        }
        Ok(fields)
    }

    /// Reads the extension. `t` is the base header's T bit, if it has one.
    fn read_extension(
        &self,
        lists: &mut DecompressorLists,
        reader: &mut Reader<'_>,
        t: Option<bool>,
        fields: &mut Fields,
    ) -> Result<(), Malformed> {
        let first = reader.u8()?;
        if first >> 6 == 3 {
            return Extension3::read(self, first, lists, reader, fields);
        }
        let sn = Bits::new(u32::from(first >> 3 & 0x7), 3);
        let mut plus = Bits::new(u32::from(first & 0x7), 3);
        fields.sn = fields.sn.then(sn);
        let mut octet = || reader.u8().map(|octet| Bits::new(u32::from(octet), 8));
        let mut minus = Bits::default();
        if !matches!(self.kind, Kind::Rtp) {
            // RFC 3095 5.11.4.
            match first >> 6 {
                0 => fields.id = fields.id.then(plus),
                1 => fields.id = fields.id.then(plus).then(octet()?),
                _ => {
                    fields.outer_id = plus.then(octet()?);
                    fields.id = fields.id.then(octet()?);
                }
            }
            return Ok(());
        }
        match first >> 6 {
            0 => {}
            1 => minus = octet()?,
            _ => {
                plus = plus.then(octet()?);
                minus = octet()?;
            }
        }
        match t {
            // Both are TS.
            None => fields.ts = fields.ts.then(plus).then(minus),
            Some(true) => (fields.ts, fields.id) = (fields.ts.then(plus), fields.id.then(minus)),
            Some(false) => (fields.id, fields.ts) = (fields.id.then(plus), fields.ts.then(minus)),
        }
        Ok(())
    }
}

impl Fields {
    const fn new(packet: PacketType) -> Self {
        const NO_BITS: Bits = Bits::new(0, 0);
        const UNCHANGED: IpFields = IpFields { tos: None, ttl: None, protocol: None, flags: None };
        Self {
            packet,
            crc: 0,
            sn: NO_BITS,
            ts: NO_BITS,
            ts_is_scaled: true,
            marker: false,
            id: NO_BITS,
            outer_id: NO_BITS,
            inner: UNCHANGED,
            outer: UNCHANGED,
            rtp: None,
            mode: 0,
            random_ids: [None; 2],
            udp_checksum: None,
        }
    }
}

/// The flags of extension 3 (RFC 3095 5.7.5, 5.11.4): what is in it.
struct Extension3 {
    inner: IpFields,
    outer: IpFields,
    inner_flags: u8,
    outer_flags: u8,
}

impl Extension3 {
    /// Reads the flags if this is extension 3.
    fn peek(layout: &Layout<'_>, mut reader: Reader<'_>) -> Result<Option<Self>, Malformed> {
        let first = reader.u8()?;
        if first >> 6 == 3 { Self::flags(layout, first, &mut reader).map(Some) } else { Ok(None) }
    }

    fn flags(layout: &Layout<'_>, first: u8, reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let is_rtp = matches!(layout.kind, Kind::Rtp);
        let has_inner = first & 0x02 != 0;
        let inner_flags = if has_inner { reader.u8()? } else { 0 };
        let has_outer = if is_rtp { inner_flags & 0x01 != 0 } else { first & 0x01 != 0 };
        let outer_flags = if has_outer { reader.u8()? } else { 0 };
        if has_outer && layout.ips.len() < 2 {
            return Err(Malformed::Reserved("fields of an outer IP header where there is none"));
        }
        let fields = |present: bool, octet: u8| IpFields {
            flags: present.then_some(IpFlags { df: octet & 0x20 != 0, nbo: octet & 0x04 != 0, rnd: octet & 0x02 != 0 }),
            ..IpFields::default()
        };
        Ok(Self {
            inner: fields(has_inner, inner_flags),
            outer: fields(has_outer, outer_flags),
            inner_flags,
            outer_flags,
        })
    }

    /// Reads the rest of extension 3, whose first octet is `first`.
    fn read(
        layout: &Layout<'_>,
        first: u8,
        lists: &mut DecompressorLists,
        reader: &mut Reader<'_>,
        fields: &mut Fields,
    ) -> Result<(), Malformed> {
        let positions = Positions::of(layout.ips.len());
        let is_rtp = matches!(layout.kind, Kind::Rtp);
        let mut this = Self::flags(layout, first, reader)?;
        if first & 0x20 != 0 {
            fields.sn = fields.sn.then(Bits::new(u32::from(reader.u8()?), 8));
        }
        if is_rtp {
            fields.ts_is_scaled = first & 0x08 != 0;
            if first & 0x10 != 0 {
                fields.ts = fields.ts.then(reader.sdvl()?);
            }
        } else {
            fields.mode = first >> 3 & 0x3;
        }
        let mut ip_fields = |at: usize, changes: &mut IpFields, flags: u8, reader: &mut Reader<'_>| {
            if flags & 0x80 != 0 {
                changes.tos = Some(reader.u8()?);
            }
            if flags & 0x40 != 0 {
                changes.ttl = Some(reader.u8()?);
            }
            if flags & 0x10 != 0 {
                changes.protocol = Some(reader.u8()?);
            }
            if flags & 0x08 != 0 {
                lists.chains[at].read_extension(reader)?;
            }
            Ok(())
        };
        ip_fields(positions.inner, &mut this.inner, this.inner_flags, reader)?;
        if first & 0x04 != 0 {
            fields.id = fields.id.then(Bits::new(u32::from(reader.u16()?), 16));
        }
        if let Some(outer) = positions.outer {
            ip_fields(outer, &mut this.outer, this.outer_flags, reader)?;
        }
        if this.outer_flags & 0x01 != 0 {
            fields.outer_id = Bits::new(u32::from(reader.u16()?), 16);
        }
        (fields.inner, fields.outer) = (this.inner, this.outer);
        if is_rtp && first & 0x01 != 0 {
            let flags = reader.u8()?;
            fields.mode = flags >> 6;
            let mut rtp = RtpFields { marker: flags & 0x10 != 0, extension: flags & 0x08 != 0, ..RtpFields::default() };
            if flags & 0x20 != 0 {
                let octet = reader.u8()?;
                rtp.payload_type = Some((octet & 0x80 != 0, octet & 0x7f));
            }
            if flags & 0x04 != 0 {
                lists.sources.read(reader)?;
            }
            if flags & 0x02 != 0 {
                rtp.ts_stride = Some(reader.sdvl()?.value);
            }
            if flags & 0x01 != 0 {
                rtp.time_stride = Some(reader.sdvl()?.value);
            }
            fields.rtp = Some(rtp);
        }
        Ok(())
    }
}
