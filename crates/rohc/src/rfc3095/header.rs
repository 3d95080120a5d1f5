//! What the headers of a packet say, apart from what follows from the packet's length.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::checksum::{Sum, checksum};

use super::Kind;
use crate::crc::Crc;
use crate::error::Malformed;
use crate::headers::{ESP, Headers, IpAt, MAX_IP, UDP, transport_is_intact};
use crate::list::{DecompressorLists, ExtensionHeaders};

pub(crate) const UDP_LEN: usize = 8;
pub(crate) const RTP_LEN: usize = 12;
pub(crate) const ESP_LEN: usize = 8;

/// The addresses of an IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Addresses {
    V4 { source: [u8; 4], destination: [u8; 4] },
    V6 { flow_label: u32, source: [u8; 16], destination: [u8; 16] },
}

/// One IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ip {
    pub(crate) addresses: Addresses,
    /// Type of service or traffic class.
    pub(crate) tos: u8,
    /// Time to live or hop limit.
    pub(crate) ttl: u8,
    /// The protocol behind the header and its extension headers: what stands in the static chain.
    pub(crate) protocol: u8,
    /// Octets of its extension headers, which are in the [`Lists`](crate::list).
    pub(crate) extensions: usize,
    /// IPv4's identification; 0 in IPv6.
    pub(crate) id: u16,
    /// IPv4's don't fragment; false in IPv6.
    pub(crate) df: bool,
}

impl Ip {
    pub(crate) const NONE: Self = Self {
        addresses: Addresses::V4 { source: [0; 4], destination: [0; 4] },
        tos: 0,
        ttl: 0,
        protocol: 0,
        extensions: 0,
        id: 0,
        df: false,
    };

    pub(crate) const fn is_v6(&self) -> bool {
        matches!(self.addresses, Addresses::V6 { .. })
    }

    /// Octets of the header without extension headers.
    const fn fixed_len(&self) -> usize {
        if self.is_v6() { 40 } else { 20 }
    }

    /// Octets of the header and its extension headers.
    pub(crate) const fn len(&self) -> usize {
        self.fixed_len() + self.extensions
    }

    /// Its extension headers in `packet`, which begins with the header.
    fn extension_headers(&self, packet: &[u8]) -> ExtensionHeaders {
        if self.extensions == 0 {
            return ExtensionHeaders::none(self.protocol);
        }
        let (version, first) = if self.is_v6() { (6, packet[6]) } else { (4, packet[9]) };
        ExtensionHeaders::read(version, first, &packet[self.fixed_len()..self.len()])
            .unwrap_or(ExtensionHeaders::none(self.protocol))
    }

    /// Reads a header that [`Headers`] has checked.
    fn read(packet: &[u8], at: IpAt) -> Self {
        let header = &packet[at.at..];
        let (protocol, extensions) = (at.protocol, at.extensions);
        if at.is_v6 {
            let h: &[u8; 40] = header.first_chunk().expect("checked by Headers");
            let first = u32::from_be_bytes([h[0], h[1], h[2], h[3]]);
            Self {
                addresses: Addresses::V6 {
                    flow_label: first & 0xf_ffff,
                    source: *h[8..].first_chunk().expect("of 40 octets"),
                    destination: *h[24..].first_chunk().expect("of 40 octets"),
                },
                tos: (first >> 20) as u8,
                ttl: h[7],
                protocol,
                extensions,
                id: 0,
                df: false,
            }
        } else {
            let h: &[u8; 20] = header.first_chunk().expect("checked by Headers");
            Self {
                addresses: Addresses::V4 {
                    source: [h[12], h[13], h[14], h[15]],
                    destination: [h[16], h[17], h[18], h[19]],
                },
                tos: h[1],
                ttl: h[8],
                protocol,
                extensions,
                id: u16::from_be_bytes([h[4], h[5]]),
                df: h[6] & 0x40 != 0,
            }
        }
    }

    /// Appends the header, without extension headers, of a packet with `behind` octets behind it, which are
    /// a header of `protocol`.
    fn write(&self, protocol: u8, behind: usize, out: &mut Vec<u8>) -> Result<(), Malformed> {
        match &self.addresses {
            Addresses::V4 { source, destination } => {
                let length = u16::try_from(behind + 20).map_err(|_| Malformed::TooLong)?.to_be_bytes();
                let [id_high, id_low] = self.id.to_be_bytes();
                let mut header = [0; 20];
                header[..10].copy_from_slice(&[
                    0x45,
                    self.tos,
                    length[0],
                    length[1],
                    id_high,
                    id_low,
                    u8::from(self.df) << 6,
                    0,
                    self.ttl,
                    protocol,
                ]);
                header[12..16].copy_from_slice(source);
                header[16..].copy_from_slice(destination);
                let sum = checksum(&header);
                header[10..12].copy_from_slice(&sum.to_be_bytes());
                out.extend_from_slice(&header);
            }
            Addresses::V6 { flow_label, source, destination } => {
                let length = u16::try_from(behind).map_err(|_| Malformed::TooLong)?;
                let first = 6 << 28 | u32::from(self.tos) << 20 | flow_label;
                out.extend_from_slice(&first.to_be_bytes());
                out.extend_from_slice(&length.to_be_bytes());
                out.extend_from_slice(&[protocol, self.ttl]);
                out.extend_from_slice(source);
                out.extend_from_slice(destination);
            }
        }
        Ok(())
    }

    fn pair(&self) -> (IpAddr, IpAddr) {
        match self.addresses {
            Addresses::V4 { source, destination } => {
                (Ipv4Addr::from(source).into(), Ipv4Addr::from(destination).into())
            }
            Addresses::V6 { source, destination, .. } => {
                (Ipv6Addr::from(source).into(), Ipv6Addr::from(destination).into())
            }
        }
    }
}

/// The header behind the IP headers. Which fields mean something depends on the [`Kind`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Transport {
    pub(crate) source_port: u16,
    pub(crate) destination_port: u16,
    pub(crate) udp_checksum: u16,
    pub(crate) rtp: Rtp,
    pub(crate) spi: u32,
}

/// RTP's header, but for its sequence number and the items of its CSRC list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rtp {
    pub(crate) padding: bool,
    pub(crate) extension: bool,
    pub(crate) marker: bool,
    /// How many items the CSRC list has.
    pub(crate) sources: u8,
    pub(crate) payload_type: u8,
    pub(crate) timestamp: u32,
    pub(crate) ssrc: u32,
}

/// All headers of a packet that a profile compresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    ips: [Ip; MAX_IP],
    count: usize,
    /// RTP's or ESP's sequence number, or the one that the compressor generates (RFC 3095 5.11).
    pub(crate) sn: u32,
    pub(crate) transport: Transport,
}

impl Header {
    pub(crate) const EMPTY: Self = Self {
        ips: [Ip::NONE; MAX_IP],
        count: 0,
        sn: 0,
        transport: Transport {
            source_port: 0,
            destination_port: 0,
            udp_checksum: 0,
            rtp: Rtp {
                padding: false,
                extension: false,
                marker: false,
                sources: 0,
                payload_type: 0,
                timestamp: 0,
                ssrc: 0,
            },
            spi: 0,
        },
    };

    /// From the outermost inwards.
    pub(crate) fn ips(&self) -> &[Ip] {
        &self.ips[..self.count]
    }

    pub(crate) fn ips_mut(&mut self) -> &mut [Ip] {
        &mut self.ips[..self.count]
    }

    /// Adds an IP header inside the others.
    pub(crate) fn push(&mut self, ip: Ip) -> Result<(), Malformed> {
        *self.ips.get_mut(self.count).ok_or(Malformed::TooMany("IP headers"))? = ip;
        self.count += 1;
        Ok(())
    }

    /// Keeps the outer `count` headers.
    pub(crate) fn truncate(&mut self, count: usize) {
        self.count = self.count.min(count);
    }

    /// Reads the headers of a packet that [`fits`] this kind. The sequence number is 0 where the
    /// compressor has to generate it.
    pub(crate) fn read(kind: Kind, packet: &[u8], headers: &Headers) -> Self {
        let mut header = Self::EMPTY;
        for ip in headers.ip() {
            header.ips[header.count] = Ip::read(packet, *ip);
            header.count += 1;
        }
        let transport = headers.transport().map_or(&[][..], |(_, at)| &packet[at..]);
        let be16 = |at: usize| u16::from_be_bytes([transport[at], transport[at + 1]]);
        let be32 = |at: usize| u32::from(be16(at)) << 16 | u32::from(be16(at + 2));
        if kind.has_udp() {
            header.transport.source_port = be16(0);
            header.transport.destination_port = be16(2);
            header.transport.udp_checksum = be16(6);
        }
        match kind {
            Kind::Rtp => {
                header.sn = u32::from(be16(10));
                header.transport.rtp = Rtp {
                    padding: transport[8] & 0x20 != 0,
                    extension: transport[8] & 0x10 != 0,
                    marker: transport[9] & 0x80 != 0,
                    sources: transport[8] & 0x0f,
                    payload_type: transport[9] & 0x7f,
                    timestamp: be32(12),
                    ssrc: be32(16),
                };
            }
            Kind::Esp => {
                header.transport.spi = be32(0);
                header.sn = be32(4);
            }
            Kind::Udp | Kind::Ip => {}
        }
        header
    }

    /// Takes the lengths of what stands in `lists`.
    pub(crate) fn measure(&mut self, lists: &DecompressorLists) {
        for (ip, chain) in self.ips_mut().iter_mut().zip(&lists.chains) {
            ip.extensions = chain.len();
        }
        self.transport.rtp.sources = lists.sources.len();
    }

    /// The CSRC list in `packet`, which begins with these headers.
    pub(crate) fn sources<'a>(&self, kind: Kind, packet: &'a [u8]) -> &'a [u8] {
        let end = self.len(kind);
        &packet[end - 4 * usize::from(self.transport.rtp.sources)..end]
    }

    /// Octets of all headers.
    pub(crate) fn len(&self, kind: Kind) -> usize {
        self.transport_at() + transport_len(kind) + 4 * usize::from(self.transport.rtp.sources)
    }

    /// Octets of the IP headers.
    fn transport_at(&self) -> usize {
        self.ips().iter().map(Ip::len).sum()
    }

    /// Appends the headers of a packet with `payload` octets behind them.
    pub(crate) fn write(
        &self,
        kind: Kind,
        lists: &DecompressorLists,
        payload: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), Malformed> {
        let mut behind = self.len(kind) + payload;
        for (ip, chain) in self.ips().iter().zip(&lists.chains) {
            ip.write(chain.first(ip.protocol), behind - ip.fixed_len(), out)?;
            chain.write(ip.protocol, self.sn, out)?;
            behind -= ip.len();
        }
        let transport = &self.transport;
        if kind.has_udp() {
            let length = u16::try_from(behind).map_err(|_| Malformed::TooLong)?;
            out.extend_from_slice(&transport.source_port.to_be_bytes());
            out.extend_from_slice(&transport.destination_port.to_be_bytes());
            out.extend_from_slice(&length.to_be_bytes());
            out.extend_from_slice(&transport.udp_checksum.to_be_bytes());
        }
        match kind {
            Kind::Rtp => {
                let rtp = &transport.rtp;
                out.push(0x80 | u8::from(rtp.padding) << 5 | u8::from(rtp.extension) << 4 | rtp.sources);
                out.push(u8::from(rtp.marker) << 7 | rtp.payload_type);
                out.extend_from_slice(&(self.sn as u16).to_be_bytes());
                out.extend_from_slice(&rtp.timestamp.to_be_bytes());
                out.extend_from_slice(&rtp.ssrc.to_be_bytes());
                for (source, _) in lists.sources.items() {
                    out.extend_from_slice(source);
                }
            }
            Kind::Esp => {
                out.extend_from_slice(&transport.spi.to_be_bytes());
                out.extend_from_slice(&self.sn.to_be_bytes());
            }
            Kind::Udp | Kind::Ip => {}
        }
        Ok(())
    }

    /// Is the transport checksum of `packet`, which has these headers, right? `None` if it has none.
    pub(crate) fn checksum_is_right(&self, kind: Kind, packet: &[u8]) -> Option<bool> {
        let (source, destination) = self.ips().last()?.pair();
        let transport = &packet[self.transport_at()..];
        match kind {
            Kind::Rtp | Kind::Udp if self.transport.udp_checksum == 0 => None,
            Kind::Rtp | Kind::Udp => {
                let pseudo = Sum::pseudo_header(source, destination, UDP, transport.len() as u32);
                Some((pseudo + Sum::of(transport)).uncomplemented() == 0xffff)
            }
            Kind::Ip => transport_is_intact(source, destination, self.ips().last()?.protocol, transport),
            Kind::Esp => None,
        }
    }
}

const fn transport_len(kind: Kind) -> usize {
    match kind {
        Kind::Rtp => UDP_LEN + RTP_LEN,
        Kind::Udp => UDP_LEN,
        Kind::Esp => ESP_LEN,
        Kind::Ip => 0,
    }
}

/// Can `kind` carry this packet so that it comes out as it went in? What is left out must follow from
/// the rest, and the checksum must be right, since the decompressor will judge by it.
pub(crate) fn fits(kind: Kind, packet: &[u8], headers: &Headers) -> bool {
    let Some((protocol, at)) = headers.transport() else { return false };
    let transport = &packet[at..];
    // The chain of the other profiles names at most two IP headers in compressed headers (RFC 3843 3.2).
    if !matches!(kind, Kind::Ip) && headers.ip().len() > 2 {
        return false;
    }
    match kind {
        Kind::Ip => true,
        Kind::Esp => protocol == ESP && transport.len() >= ESP_LEN,
        Kind::Udp | Kind::Rtp => {
            let udp = protocol == UDP
                && transport.len() >= UDP_LEN
                && usize::from(u16::from_be_bytes([transport[4], transport[5]])) == transport.len();
            udp && (matches!(kind, Kind::Udp)
                // RFC 3550 5.1: version 2.
                || transport.len() >= UDP_LEN + RTP_LEN
                    && transport[8] & 0xc0 == 0x80
                    && transport.len() >= UDP_LEN + RTP_LEN + 4 * usize::from(transport[8] & 0x0f))
        }
    }
}

/// Is the transport checksum right, or not there? Where it is wrong the decompressor could not tell whether
/// the packet came like this, so such packets are not compressed.
pub(crate) fn is_intact(packet: &[u8], headers: &Headers) -> bool {
    let (Some(ip), Some((protocol, at))) = (headers.ip().last(), headers.transport()) else { return false };
    let (source, destination) = Ip::read(packet, *ip).pair();
    transport_is_intact(source, destination, protocol, &packet[at..]) != Some(false)
}

/// RTP on ports that nobody named: even ports from 1024 on, a payload type that is not RTCP's, and something
/// behind the header.
pub(crate) fn looks_like_rtp(packet: &[u8], headers: &Headers) -> bool {
    let Some((_, at)) = headers.transport() else { return false };
    let transport = &packet[at..];
    let port = |at: usize| u16::from_be_bytes([transport[at], transport[at + 1]]);
    let is_media = |port: u16| port >= 1024 && port.is_multiple_of(2);
    let payload_type = transport[9] & 0x7f;
    // RFC 3551 6: 72 to 76 would be mistaken for RTCP.
    is_media(port(0)) && is_media(port(2)) && !(72..=76).contains(&payload_type) && transport.len() > UDP_LEN + RTP_LEN
}

/// The CRC over the original headers (RFC 3095 5.9.2). `header` begins with them and may be longer.
pub(crate) fn crc(crc: &Crc, kind: Kind, ips: &[Ip], header: &[u8]) -> u8 {
    crc_dynamic(crc, crc_static(crc, kind, ips, header), kind, ips, header)
}

/// The CRC over the octets that are CRC-STATIC in RFC 3095 5.7.7, which come first and change rarely.
pub(crate) fn crc_static(crc: &Crc, kind: Kind, ips: &[Ip], header: &[u8]) -> u8 {
    let mut register = crc.start();
    let mut add = |bytes: &[u8]| register = crc.update(register, bytes);
    let mut rest = header;
    for ip in ips {
        if ip.is_v6() {
            add(&rest[..4]);
            add(&rest[6..40]);
        } else {
            add(&rest[..2]);
            add(&rest[6..10]);
            add(&rest[12..20]);
        }
        if ip.extensions > 0 {
            let octets = &rest[ip.fixed_len()..ip.len()];
            ip.extension_headers(rest).crc_parts(octets, |part, is_dynamic| {
                if !is_dynamic {
                    add(part);
                }
            });
        }
        rest = &rest[ip.len()..];
    }
    match kind {
        Kind::Rtp => {
            add(&rest[..4]);
            add(&rest[8..9]);
            add(&rest[16..20 + 4 * usize::from(rest[8] & 0x0f)]);
        }
        Kind::Udp | Kind::Esp => add(&rest[..4]),
        Kind::Ip => {}
    }
    register
}

/// Goes on from [`crc_static`] with the CRC-DYNAMIC octets.
pub(crate) fn crc_dynamic(crc: &Crc, mut register: u8, kind: Kind, ips: &[Ip], header: &[u8]) -> u8 {
    let mut add = |bytes: &[u8]| register = crc.update(register, bytes);
    let mut rest = header;
    for ip in ips {
        if ip.is_v6() {
            add(&rest[4..6]);
        } else {
            add(&rest[2..6]);
            add(&rest[10..12]);
        }
        if ip.extensions > 0 {
            let octets = &rest[ip.fixed_len()..ip.len()];
            ip.extension_headers(rest).crc_parts(octets, |part, is_dynamic| {
                if is_dynamic {
                    add(part);
                }
            });
        }
        rest = &rest[ip.len()..];
    }
    match kind {
        Kind::Rtp => {
            add(&rest[4..8]);
            add(&rest[9..16]);
        }
        Kind::Udp | Kind::Esp => add(&rest[4..8]),
        Kind::Ip => {}
    }
    register
}

/// Do two headers of a flow agree in all CRC-STATIC octets?
pub(crate) fn same_static(a: &Header, b: &Header) -> bool {
    let rtp = |header: &Header| (header.transport.rtp.padding, header.transport.rtp.extension);
    let ip = |ip: &Ip| (ip.tos, ip.ttl, ip.df);
    rtp(a) == rtp(b) && a.ips().iter().map(ip).eq(b.ips().iter().map(ip))
}
