//! Writing compressed headers: the smallest format that says what must be said (RFC 3095 5.3.1.2).

use alloc::vec::Vec;

use super::fields::Positions;
use super::header::{Header, crc_dynamic};
use super::observe::{Due, Pattern};
use super::{ID_P, Kind, chain, ts_p};
use crate::bits::push_sdvl;
use crate::cid::CidSpace;
use crate::crc::{CRC3, CRC7};
use crate::list::{ChainCompressor, CompressorLists, Form};
use crate::packet_type::PacketType;
use crate::packet_type::PacketType::{Uo0, Uo1, Uo1Id, Uo1Ts, Uor2, Uor2Id, Uor2Ts};
use crate::wlsb::Window;

/// The values that the decompressor may have as references.
#[derive(Clone, Debug)]
pub(crate) struct Windows {
    pub(crate) sn: Window,
    pub(crate) ts_scaled: Window,
    pub(crate) ts: Window,
    /// Offsets of the identifications, by position.
    pub(crate) id: [Window; 2],
}

/// One packet to be written.
pub(crate) struct Request<'a> {
    pub(crate) kind: Kind,
    pub(crate) header: &'a Header,
    pub(crate) pattern: &'a Pattern,
    pub(crate) windows: &'a Windows,
    pub(crate) due: &'a Due,
    pub(crate) lists: &'a mut CompressorLists,
    pub(crate) udp_checksum: bool,
    /// The mode parameter to send where there is room.
    pub(crate) mode: u8,
    /// The CRCs over the octets that are CRC-STATIC.
    pub(crate) static_crcs: StaticCrcs,
    /// A CRC-3 would not tell a decompressor that missed the last change (RFC 3095 5.9.2).
    pub(crate) needs_crc7: bool,
    /// Only formats that all modes have, with the mode in them (RFC 3095 5.6.1, C_TRANS = P).
    pub(crate) is_in_transition: bool,
}

/// The state of the CRCs behind the CRC-STATIC octets, kept until one of those changes (RFC 3095 5.9.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StaticCrcs {
    pub(crate) crc3: u8,
    pub(crate) crc7: u8,
}

/// A format and how many bits it has for each field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    packet: PacketType,
    extension: Option<u8>,
    sn: u32,
    ts: u32,
    id: u32,
    outer_id: u32,
    marker: bool,
    /// For extension 3: octets of the timestamp, unscaled timestamp, 16-bit identifications.
    ts_octets: usize,
    ts_is_unscaled: bool,
    long_id: bool,
    long_outer_id: bool,
}

const fn shape(packet: PacketType, extension: Option<u8>, sn: u32, ts: u32, id: u32, outer_id: u32) -> Shape {
    Shape {
        packet,
        extension,
        sn,
        ts,
        id,
        outer_id,
        marker: !matches!(packet, Uo0 | Uo1Id),
        ts_octets: 0,
        ts_is_unscaled: false,
        long_id: false,
        long_outer_id: false,
    }
}

/// RTP without a T bit, by size (RFC 3095 5.7.1 to 5.7.5).
const RTP: [Shape; 6] = [
    shape(Uo0, None, 4, 0, 0, 0),
    shape(Uo1, None, 4, 6, 0, 0),
    shape(Uor2, None, 6, 6, 0, 0),
    shape(Uor2, Some(0), 9, 9, 0, 0),
    shape(Uor2, Some(1), 9, 17, 0, 0),
    shape(Uor2, Some(2), 9, 25, 0, 0),
];

/// RTP with a T bit. UO-1-ID with an extension is left out: UOR-2 is one octet longer and has a better CRC.
const RTP_T: [Shape; 11] = [
    shape(Uo0, None, 4, 0, 0, 0),
    shape(Uo1Id, None, 4, 0, 5, 0),
    shape(Uo1Ts, None, 4, 5, 0, 0),
    shape(Uor2Id, None, 6, 0, 5, 0),
    shape(Uor2Ts, None, 6, 5, 0, 0),
    shape(Uor2Id, Some(0), 9, 0, 8, 0),
    shape(Uor2Ts, Some(0), 9, 8, 0, 0),
    shape(Uor2Id, Some(1), 9, 8, 8, 0),
    shape(Uor2Ts, Some(1), 9, 8, 8, 0),
    shape(Uor2Id, Some(2), 9, 8, 16, 0),
    shape(Uor2Ts, Some(2), 9, 16, 8, 0),
];

/// UDP, ESP and IP (RFC 3095 5.11.3, 5.11.4).
const OTHERS: [Shape; 6] = [
    shape(Uo0, None, 4, 0, 0, 0),
    shape(Uo1, None, 5, 0, 6, 0),
    shape(Uor2, None, 5, 0, 0, 0),
    shape(Uor2, Some(0), 8, 0, 3, 0),
    shape(Uor2, Some(1), 8, 0, 11, 0),
    shape(Uor2, Some(2), 8, 0, 8, 11),
];

impl Request<'_> {
    /// The smallest format, if any can carry the header.
    pub(crate) fn choose(&self) -> Option<Shape> {
        if !self.is_in_transition && !self.due.needs_extension3() && !self.has_lists() {
            let shapes = match self.kind {
                Kind::Rtp if self.has_t() => &RTP_T[..],
                Kind::Rtp => &RTP,
                _ => &OTHERS,
            };
            let is_enough = |shape: &&Shape| shape.has_crc7() || !self.needs_crc7;
            if let Some(shape) = shapes.iter().filter(is_enough).find(|shape| self.accepts(shape)) {
                return Some(*shape);
            }
        }
        self.extension3()
    }

    /// Writes base header, extension and what stands behind them. `packet` begins with the original headers.
    pub(crate) fn write(&mut self, shape: &Shape, space: CidSpace, cid: u16, packet: &[u8], out: &mut Vec<u8>) {
        let header = self.header;
        let ips = header.ips();
        let marker = u8::from(header.transport.rtp.marker);
        let is_rtp = self.kind == Kind::Rtp;
        let crc3 = || crc_dynamic(&CRC3, self.static_crcs.crc3, self.kind, ips, packet);
        // The high bits of each field; the rest is in the extension.
        let in_extension = shape.extension_bits(is_rtp);
        let sn = (header.sn >> in_extension.sn) as u8;
        let ts = (u64::from(self.ts_value(shape)) >> in_extension.ts) as u8;
        let id = (u32::from(self.innermost_offset()) >> in_extension.id) as u8;
        match shape.packet {
            Uo0 => space.open(out, cid, (sn & 0x0f) << 3 | crc3()),
            Uo1 if is_rtp => {
                space.open(out, cid, 0x80 | ts & 0x3f);
                out.push(marker << 7 | (sn & 0x0f) << 3 | crc3());
            }
            Uo1 => {
                space.open(out, cid, 0x80 | id & 0x3f);
                out.push((sn & 0x1f) << 3 | crc3());
            }
            Uo1Id => {
                space.open(out, cid, 0x80 | id & 0x1f);
                out.push((sn & 0x0f) << 3 | crc3());
            }
            Uo1Ts => {
                space.open(out, cid, 0xa0 | ts & 0x1f);
                out.push(marker << 7 | (sn & 0x0f) << 3 | crc3());
            }
            _ => {
                let crc7 = crc_dynamic(&CRC7, self.static_crcs.crc7, self.kind, ips, packet);
                let last = u8::from(shape.extension.is_some()) << 7 | crc7;
                let (low, top) = match shape.packet {
                    Uor2 if is_rtp => (ts >> 1, ts & 1),
                    Uor2Ts => (ts, 1),
                    Uor2Id => (id, 0),
                    _ => (sn, 0),
                };
                space.open(out, cid, 0xc0 | low & 0x1f);
                if is_rtp {
                    out.push(top << 7 | marker << 6 | sn & 0x3f);
                }
                out.push(last);
            }
        }
        match shape.extension {
            None => {}
            Some(3) => self.write_extension3(shape, out),
            Some(number) => self.write_short_extension(number, shape, out),
        }
        let positions = Positions::of(ips.len());
        for at in [positions.outer, Some(positions.inner)].into_iter().flatten() {
            if !ips[at].is_v6() && self.pattern.codings[at].rnd {
                out.extend_from_slice(&ips[at].id.to_be_bytes());
            }
            self.lists.chains[at].write_irregular(out);
        }
        if self.udp_checksum && self.kind.has_udp() {
            out.extend_from_slice(&header.transport.udp_checksum.to_be_bytes());
        }
        for (at, ip) in ips.iter().enumerate().skip(2) {
            chain::write_ip_dynamic(ip, self.pattern.codings[at], &mut self.lists.chains[at], out);
        }
    }

    /// Is there a list that only extension 3 can carry? Those of headers beyond the second go with every packet.
    fn has_lists(&self) -> bool {
        self.lists.sources.is_pending() || self.lists.chains.iter().take(2).any(ChainCompressor::is_pending)
    }

    /// The offset that the identification at `at` is sent as; 0 if it is not sent so.
    pub(crate) fn offset(&self, at: usize) -> u16 {
        let (ip, coding) = (&self.header.ips()[at], self.pattern.codings[at]);
        if ip.is_v6() || !coding.is_offset() { 0 } else { coding.count(ip.id).wrapping_sub(self.header.sn as u16) }
    }

    /// Is there an IPv4 header whose identification is not random (RFC 3095 5.7.3)?
    fn has_t(&self) -> bool {
        self.innermost().is_some()
    }

    fn innermost(&self) -> Option<usize> {
        let ips = self.header.ips();
        Positions::of(ips.len()).innermost_id(ips, &self.pattern.codings)
    }

    fn innermost_offset(&self) -> u16 {
        self.innermost().map_or(0, |at| self.offset(at))
    }

    /// The outer header, if its identification is an offset that no other field carries.
    fn separate_outer(&self) -> Option<usize> {
        let outer = Positions::of(self.header.ips().len()).outer?;
        let is_offset = !self.header.ips()[outer].is_v6() && self.pattern.codings[outer].is_offset();
        (is_offset && self.innermost() != Some(outer)).then_some(outer)
    }

    fn ts_scaled(&self) -> u32 {
        self.header.transport.rtp.timestamp / self.pattern.ts_stride
    }

    fn ts_value(&self, shape: &Shape) -> u32 {
        if shape.ts_is_unscaled { self.header.transport.rtp.timestamp } else { self.ts_scaled() }
    }

    fn sn_fits(&self, width: u32) -> bool {
        self.windows.sn.fits(self.header.sn, width, self.kind.sn_p(width))
    }

    fn ts_scaled_fits(&self, width: u32) -> bool {
        self.windows.ts_scaled.fits(self.ts_scaled(), width, ts_p(width))
    }

    /// No bits do where the offset is not due; bits that are there must be right.
    fn id_fits(&self, at: Option<usize>, width: u32) -> bool {
        let Some(at) = at else { return true };
        if self.pattern.codings[at].sid {
            return true;
        }
        if width == 0 {
            self.due.id[at] == 0
        } else {
            self.windows.id[at].fits(u32::from(self.offset(at)), width, ID_P)
        }
    }

    fn accepts(&self, shape: &Shape) -> bool {
        let ts = self.kind != Kind::Rtp || if shape.ts == 0 { self.due.ts == 0 } else { self.ts_scaled_fits(shape.ts) };
        let marker = shape.marker || !self.header.transport.rtp.marker || self.kind != Kind::Rtp;
        let outer = self.separate_outer();
        let outer_fits =
            if shape.outer_id > 0 && outer.is_none() { false } else { self.id_fits(outer, shape.outer_id) };
        self.sn_fits(shape.sn) && ts && marker && self.id_fits(self.innermost(), shape.id) && outer_fits
    }

    /// UOR-2 with extension 3, unless the sequence number has gone too far.
    fn extension3(&self) -> Option<Shape> {
        let is_rtp = self.kind == Kind::Rtp;
        let needs_ts = self.due.ts | self.due.ts_unscaled | self.due.ts_stride != 0;
        let (packet, sn, base_ts, base_id) = match self.kind {
            Kind::Rtp if !self.has_t() => (Uor2, 6, 6, 0),
            Kind::Rtp if needs_ts => (Uor2Ts, 6, 5, 0),
            Kind::Rtp => (Uor2Id, 6, 0, 5),
            _ => (Uor2, 5, 0, 0),
        };
        let sn = [sn, sn + 8].into_iter().find(|width| self.sn_fits(*width))?;
        let mut shape = shape(packet, Some(3), sn, base_ts, base_id, 0);
        if is_rtp && (needs_ts || base_ts > 0) {
            let widths = [(0, 0), (7, 1), (14, 2), (21, 3), (29, 4)];
            let scaled = widths.into_iter().find(|(more, _)| base_ts + more > 0 && self.ts_scaled_fits(base_ts + more));
            // RFC 4815 4.6: a new stride goes with an unscaled timestamp.
            let must_be_unscaled = self.due.ts_unscaled | self.due.ts_stride != 0;
            let (more, octets) = match scaled.filter(|_| !must_be_unscaled) {
                Some(found) => found,
                None => {
                    shape.ts_is_unscaled = true;
                    let timestamp = self.header.transport.rtp.timestamp;
                    let fits = |width| self.windows.ts.fits(timestamp, width, ts_p(width));
                    widths.into_iter().skip(1).find(|(more, _)| fits(base_ts + more))?
                }
            };
            (shape.ts, shape.ts_octets) = (base_ts + more, octets);
        }
        let innermost = self.innermost();
        if !self.id_fits(innermost, base_id) {
            shape.long_id = true;
            shape.id = base_id + 16;
        }
        let outer = self.separate_outer();
        shape.long_outer_id = !self.id_fits(outer, 0);
        Some(shape)
    }

    fn write_short_extension(&self, number: u8, shape: &Shape, out: &mut Vec<u8>) {
        let (sn, ts, id) = (self.header.sn as u8 & 0x7, self.ts_scaled(), self.innermost_offset());
        let outer = self.separate_outer().map_or(0, |at| self.offset(at));
        let head = number << 6 | sn << 3;
        // +T and -T in RTP (RFC 3095 5.7.5), IP-ID and IP-ID2 elsewhere (5.11.4).
        let octets: [u32; 3] = match (self.kind, shape.packet, number) {
            (Kind::Rtp, Uor2, 0) => [ts, 0, 0],
            (Kind::Rtp, Uor2, 1) => [ts >> 8, ts, 0],
            (Kind::Rtp, Uor2, _) => [ts >> 16, ts >> 8, ts],
            (Kind::Rtp, Uor2Ts, 0) => [ts, 0, 0],
            (Kind::Rtp, Uor2Ts, 1) => [ts, id.into(), 0],
            (Kind::Rtp, Uor2Ts, _) => [ts >> 8, ts, id.into()],
            (_, _, 0) => [id.into(), 0, 0],
            (Kind::Rtp, _, 1) => [id.into(), ts, 0],
            (Kind::Rtp, _, _) => [u32::from(id) >> 8, id.into(), ts],
            (_, _, 1) => [u32::from(id) >> 8, id.into(), 0],
            (_, _, _) => [u32::from(outer) >> 8, outer.into(), id.into()],
        };
        out.push(head | octets[0] as u8 & 0x7);
        out.extend(octets[1..=usize::from(number)].iter().map(|octet| *octet as u8));
    }

    fn write_extension3(&mut self, shape: &Shape, out: &mut Vec<u8>) {
        let (header, due) = (self.header, self.due);
        let pending = [0, 1].map(|at| self.lists.chains.get(at).is_some_and(ChainCompressor::is_pending));
        let has_sources = self.lists.sources.is_pending();
        let is_rtp = self.kind == Kind::Rtp;
        let positions = Positions::of(header.ips().len());
        let changes = |at: usize| due.tos[at] | due.ttl[at] | due.flags[at] != 0 || pending[at];
        let outer = positions.outer.filter(|at| changes(*at) || shape.long_outer_id);
        let has_inner = changes(positions.inner) || is_rtp && outer.is_some();
        let has_sn = shape.sn > if is_rtp { 6 } else { 5 };
        let has_rtp = is_rtp && (due.rtp | due.ts_stride != 0 || self.is_in_transition || has_sources);
        let bit = |set: bool, at: u8| u8::from(set) << at;

        out.push(
            0xc0 | bit(has_sn, 5)
                | bit(shape.long_id, 2)
                | bit(has_inner, 1)
                | if is_rtp {
                    bit(shape.ts_octets > 0, 4) | bit(!shape.ts_is_unscaled, 3) | bit(has_rtp, 0)
                } else {
                    self.mode << 3 | bit(outer.is_some(), 0)
                },
        );
        let flags = |at: usize, last: bool| {
            let (ip, coding) = (&header.ips()[at], self.pattern.codings[at]);
            bit(due.tos[at] != 0, 7)
                | bit(due.ttl[at] != 0, 6)
                | bit(ip.df, 5)
                | bit(pending[at], 3)
                | bit(coding.nbo, 2)
                | bit(coding.rnd, 1)
                | bit(last, 0)
        };
        if has_inner {
            out.push(flags(positions.inner, is_rtp && outer.is_some()));
        }
        if let Some(outer) = outer {
            out.push(flags(outer, shape.long_outer_id));
        }
        if has_sn {
            out.push(header.sn as u8);
        }
        if shape.ts_octets > 0 {
            push_sdvl(out, self.ts_value(shape), shape.ts_octets);
        }
        if has_inner {
            self.write_ip_fields(positions.inner, pending[positions.inner], out);
        }
        if shape.long_id {
            out.extend_from_slice(&self.innermost_offset().to_be_bytes());
        }
        if let Some(at) = outer {
            self.write_ip_fields(at, pending[at], out);
            if shape.long_outer_id {
                out.extend_from_slice(&self.offset(at).to_be_bytes());
            }
        }
        if has_rtp {
            let rtp = &header.transport.rtp;
            // RFC 4815 6.4: without the payload type the padding bit would become zero.
            let has_payload_type = due.rtp != 0 || rtp.padding;
            let has_stride = due.ts_stride != 0;
            out.push(
                self.mode << 6
                    | bit(has_payload_type, 5)
                    | bit(rtp.marker, 4)
                    | bit(rtp.extension, 3)
                    | bit(has_sources, 2)
                    | bit(has_stride, 1),
            );
            if has_payload_type {
                out.push(bit(rtp.padding, 7) | rtp.payload_type);
            }
            if has_sources {
                self.lists.sources.write(Form::Update, out);
            }
            if has_stride {
                let octets = crate::bits::sdvl_len(self.pattern.ts_stride).unwrap_or(4);
                push_sdvl(out, self.pattern.ts_stride, octets);
            }
        }
    }

    fn write_ip_fields(&mut self, at: usize, has_list: bool, out: &mut Vec<u8>) {
        let ip = &self.header.ips()[at];
        if self.due.tos[at] != 0 {
            out.push(ip.tos);
        }
        if self.due.ttl[at] != 0 {
            out.push(ip.ttl);
        }
        if has_list {
            self.lists.chains[at].write_extension(out);
        }
    }
}

/// How many of each field's low bits are in the extension.
struct InExtension {
    sn: u32,
    ts: u32,
    id: u32,
}

impl Shape {
    pub(crate) const fn packet(&self) -> PacketType {
        self.packet
    }

    pub(crate) const fn has_crc7(&self) -> bool {
        matches!(self.packet, Uor2 | Uor2Id | Uor2Ts)
    }

    const fn extension_bits(&self, is_rtp: bool) -> InExtension {
        let base = match self.packet {
            Uo0 | Uo1Id | Uo1Ts => return InExtension { sn: 0, ts: 0, id: 0 },
            Uo1 => return InExtension { sn: 0, ts: 0, id: 0 },
            Uor2 if is_rtp => InExtension { sn: 6, ts: 6, id: 0 },
            Uor2Ts => InExtension { sn: 6, ts: 5, id: 0 },
            Uor2Id => InExtension { sn: 6, ts: 0, id: 5 },
            _ => InExtension { sn: 5, ts: 0, id: 0 },
        };
        const fn beyond(width: u32, base: u32) -> u32 {
            if base == 0 { 0 } else { width.saturating_sub(base) }
        }
        InExtension { sn: beyond(self.sn, base.sn), ts: beyond(self.ts, base.ts), id: beyond(self.id, base.id) }
    }
}
