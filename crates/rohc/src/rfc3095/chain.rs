//! Static and dynamic chains of IR and IR-DYN packets (RFC 3095 5.7.7.3 to 5.7.7.7, RFC 3843 3.1 to 3.5).

use alloc::vec::Vec;

use super::Kind;
use super::header::{Addresses, Header, Ip};
use crate::bits::{Reader, push_sdvl, sdvl_len};
use crate::error::Malformed;
use crate::headers::{ESP, IP_IN_IP, IPV6, MAX_IP, UDP};
use crate::list::{ChainCompressor, ChainDecompressor, CompressorLists, DecompressorLists, Form};

/// The bit of a static part's version that ends the chain of profile 0x0004 (RFC 3843 3.1).
const LAST: u8 = 0x80;

/// How an IPv4 header's identification is sent (RFC 3095 5.7.5.2, RFC 3843 3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IdCoding {
    /// As it is, in every header.
    pub(crate) rnd: bool,
    /// In network byte order; its octets are swapped otherwise.
    pub(crate) nbo: bool,
    /// Not at all, since it never changes.
    pub(crate) sid: bool,
}

impl Default for IdCoding {
    /// RFC 3095 5.7.5.2.
    fn default() -> Self {
        Self { rnd: false, nbo: true, sid: false }
    }
}

impl IdCoding {
    /// The identification as a number that counts: swapped if its sender counts in the other byte order.
    pub(crate) const fn count(self, id: u16) -> u16 {
        if self.nbo { id } else { id.swap_bytes() }
    }

    /// Is it sent as an offset from the sequence number, or follows it?
    pub(crate) const fn is_offset(self) -> bool {
        !self.rnd && !self.sid
    }
}

/// What RTP's dynamic part carries beside RTP's header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RtpExtra {
    /// The mode parameter; 0 if there is none.
    pub(crate) mode: u8,
    pub(crate) ts_stride: Option<u32>,
    pub(crate) time_stride: Option<u32>,
}

/// Appends the static chain.
pub(crate) fn write_static(kind: Kind, header: &Header, out: &mut Vec<u8>) {
    let ips = header.ips();
    for (at, ip) in ips.iter().enumerate() {
        // Only where the protocol would have the chain go on: a chain that ends by itself reads the same.
        let ends_early = at + 1 == ips.len() && matches!(ip.protocol, IP_IN_IP | IPV6);
        let last = if ends_early { LAST } else { 0 };
        match &ip.addresses {
            Addresses::V4 { source, destination } => {
                out.extend_from_slice(&[last | 0x40, ip.protocol]);
                out.extend_from_slice(source);
                out.extend_from_slice(destination);
            }
            Addresses::V6 { flow_label, source, destination } => {
                let [_, high, middle, low] = flow_label.to_be_bytes();
                out.extend_from_slice(&[last | 0x60 | high, middle, low, ip.protocol]);
                out.extend_from_slice(source);
                out.extend_from_slice(destination);
            }
        }
    }
    let transport = &header.transport;
    if kind.has_udp() {
        out.extend_from_slice(&transport.source_port.to_be_bytes());
        out.extend_from_slice(&transport.destination_port.to_be_bytes());
    }
    match kind {
        Kind::Rtp => out.extend_from_slice(&transport.rtp.ssrc.to_be_bytes()),
        Kind::Esp => out.extend_from_slice(&transport.spi.to_be_bytes()),
        Kind::Udp | Kind::Ip => {}
    }
}

/// Reads a static chain, which ends after `limit` IP headers at the latest. What is dynamic is zero in the result.
pub(crate) fn read_static(kind: Kind, limit: usize, reader: &mut Reader<'_>) -> Result<Header, Malformed> {
    let mut header = Header::EMPTY;
    let mut expected = None;
    loop {
        let first = reader.u8()?;
        let is_last = first & LAST != 0;
        let version = first >> 4 & 0x7;
        if is_last && !matches!(kind, Kind::Ip) || expected.is_some_and(|expected| expected != version) {
            return Err(Malformed::Reserved("static chain's IP version"));
        }
        let (protocol, addresses) = match version {
            4 => {
                let protocol = reader.u8()?;
                (protocol, Addresses::V4 { source: reader.array()?, destination: reader.array()? })
            }
            6 => {
                let flow_label = u32::from(first & 0x0f) << 16 | u32::from(reader.u16()?);
                let protocol = reader.u8()?;
                (protocol, Addresses::V6 { flow_label, source: reader.array()?, destination: reader.array()? })
            }
            _ => return Err(Malformed::Reserved("static chain's IP version")),
        };
        header.push(Ip { addresses, tos: 0, ttl: 0, protocol, extensions: 0, id: 0, df: false })?;
        expected = match protocol {
            _ if is_last || header.ips().len() == limit && limit < MAX_IP => break,
            IP_IN_IP => Some(4),
            IPV6 => Some(6),
            UDP if kind.has_udp() => break,
            ESP if matches!(kind, Kind::Esp) => break,
            _ if matches!(kind, Kind::Ip) => break,
            _ => return Err(Malformed::Reserved("static chain's end: another header than the profile's")),
        };
    }
    let transport = &mut header.transport;
    if kind.has_udp() {
        transport.source_port = reader.u16()?;
        transport.destination_port = reader.u16()?;
    }
    match kind {
        Kind::Rtp => transport.rtp.ssrc = reader.u32()?,
        Kind::Esp => transport.spi = reader.u32()?,
        Kind::Udp | Kind::Ip => {}
    }
    Ok(header)
}

/// Appends the dynamic part of one IP header.
pub(crate) fn write_ip_dynamic(ip: &Ip, coding: IdCoding, list: &mut ChainCompressor, out: &mut Vec<u8>) {
    out.extend_from_slice(&[ip.tos, ip.ttl]);
    if !ip.is_v6() {
        out.extend_from_slice(&ip.id.to_be_bytes());
        out.push(
            u8::from(ip.df) << 7 | u8::from(coding.rnd) << 6 | u8::from(coding.nbo) << 5 | u8::from(coding.sid) << 4,
        );
    }
    list.write_dynamic(out);
}

/// Reads the dynamic part of one IP header.
pub(crate) fn read_ip_dynamic(
    ip: &mut Ip,
    coding: &mut IdCoding,
    list: &mut ChainDecompressor,
    reader: &mut Reader<'_>,
) -> Result<(), Malformed> {
    ip.tos = reader.u8()?;
    ip.ttl = reader.u8()?;
    if !ip.is_v6() {
        ip.id = reader.u16()?;
        let flags = reader.u8()?;
        ip.df = flags & 0x80 != 0;
        *coding = IdCoding { rnd: flags & 0x40 != 0, nbo: flags & 0x20 != 0, sid: flags & 0x10 != 0 };
    }
    list.read_dynamic(reader)
}

/// Appends the dynamic chain. `codings` and `lists` go with the IP headers.
pub(crate) fn write_dynamic(
    kind: Kind,
    header: &Header,
    codings: &[IdCoding],
    lists: &mut CompressorLists,
    extra: RtpExtra,
    out: &mut Vec<u8>,
) {
    for ((ip, coding), list) in header.ips().iter().zip(codings).zip(&mut lists.chains) {
        write_ip_dynamic(ip, *coding, list, out);
    }
    if kind.has_udp() {
        out.extend_from_slice(&header.transport.udp_checksum.to_be_bytes());
    }
    match kind {
        Kind::Rtp => {
            let rtp = &header.transport.rtp;
            // V = 2, P, RX = 1, CC.
            out.push(0x90 | u8::from(rtp.padding) << 5 | rtp.sources);
            out.push(u8::from(rtp.marker) << 7 | rtp.payload_type);
            out.extend_from_slice(&(header.sn as u16).to_be_bytes());
            out.extend_from_slice(&rtp.timestamp.to_be_bytes());
            lists.sources.write(Form::Full, out);
            let stride = extra.ts_stride.and_then(|stride| Some((stride, sdvl_len(stride)?)));
            out.push(u8::from(rtp.extension) << 4 | extra.mode << 2 | u8::from(stride.is_some()));
            if let Some((stride, octets)) = stride {
                push_sdvl(out, stride, octets);
            }
        }
        Kind::Esp => out.extend_from_slice(&header.sn.to_be_bytes()),
        // RFC 3095 5.11.1: behind the checksum; RFC 3843 3.5: at the end of the chain.
        Kind::Udp | Kind::Ip => out.extend_from_slice(&(header.sn as u16).to_be_bytes()),
    }
}

/// Reads the dynamic chain into `header`, whose static fields say what is in it.
pub(crate) fn read_dynamic(
    kind: Kind,
    header: &mut Header,
    codings: &mut [IdCoding],
    lists: &mut DecompressorLists,
    reader: &mut Reader<'_>,
) -> Result<RtpExtra, Malformed> {
    for ((ip, coding), list) in header.ips_mut().iter_mut().zip(codings).zip(&mut lists.chains) {
        read_ip_dynamic(ip, coding, list, reader)?;
    }
    if kind.has_udp() {
        header.transport.udp_checksum = reader.u16()?;
    }
    let mut extra = RtpExtra::default();
    match kind {
        Kind::Rtp => {
            let rtp = &mut header.transport.rtp;
            let first = reader.u8()?;
            if first >> 6 != 2 {
                return Err(Malformed::Reserved("RTP version"));
            }
            rtp.padding = first & 0x20 != 0;
            let second = reader.u8()?;
            rtp.marker = second & 0x80 != 0;
            rtp.payload_type = second & 0x7f;
            header.sn = u32::from(reader.u16()?);
            rtp.timestamp = reader.u32()?;
            // RFC 4815 5.2: the list's own CC counts, not the one in the first octet.
            lists.sources.read_dynamic(reader)?;
            // RX; RFC 4815 6.5: X is zero without it.
            rtp.extension = false;
            if first & 0x10 != 0 {
                let flags = reader.u8()?;
                rtp.extension = flags & 0x10 != 0;
                extra.mode = flags >> 2 & 0x3;
                if flags & 0x01 != 0 {
                    extra.ts_stride = Some(reader.sdvl()?.value);
                }
                if flags & 0x02 != 0 {
                    extra.time_stride = Some(reader.sdvl()?.value);
                }
            }
        }
        Kind::Esp => header.sn = reader.u32()?,
        Kind::Udp | Kind::Ip => header.sn = u32::from(reader.u16()?),
    }
    Ok(extra)
}
