//! Building whole frames, for modelled hosts, generators and tests.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::checksum::{Sum, checksum};
use crate::headers::{ETHERNET_LEN, Ecn, Fragment, Headers, ethertype, protocol};
use crate::transport::{ECHO_LEN, Echo, TCP_MIN_LEN, Tcp, UDP_LEN, Udp};

/// The addresses of an Ethernet header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ethernet {
    /// Where it goes.
    pub destination: [u8; 6],
    /// Where it comes from.
    pub source: [u8; 6],
}

/// An IP header but for what follows from its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpHeader {
    /// IPv4.
    V4(Ipv4),
    /// IPv6.
    V6(Ipv6),
}

/// An IPv4 header without options (RFC 791 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4 {
    /// Where it comes from.
    pub source: Ipv4Addr,
    /// Where it goes.
    pub destination: Ipv4Addr,
    /// Differentiated services code point, 0 to 63.
    pub dscp: u8,
    /// Congestion notification.
    pub ecn: Ecn,
    /// Tells the fragments of one packet from another's.
    pub identification: u16,
    /// Routers must not cut it.
    pub dont_fragment: bool,
    /// Hops left.
    pub ttl: u8,
}

/// An IPv6 header (RFC 8200 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6 {
    /// Where it comes from.
    pub source: Ipv6Addr,
    /// Where it goes.
    pub destination: Ipv6Addr,
    /// Differentiated services code point, 0 to 63.
    pub dscp: u8,
    /// Congestion notification.
    pub ecn: Ecn,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Hops left.
    pub hop_limit: u8,
}

/// What was to be built does not fit its length field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} of {length} bytes is longer than its length field can say ({limit}); send less at once")]
pub struct TooLong {
    /// The part that is too long.
    pub what: &'static str,
    /// Its length in bytes.
    pub length: usize,
    /// The longest possible.
    pub limit: usize,
}

impl Ipv4 {
    /// The header of an IPv4 packet with `payload` bytes after it.
    ///
    /// # Errors
    ///
    /// The packet would be longer than 65,535 bytes.
    pub fn to_bytes(&self, protocol: u8, payload: usize) -> Result<[u8; 20], TooLong> {
        let total = length("an IPv4 packet", 20 + payload)?.to_be_bytes();
        let [id_high, id_low] = self.identification.to_be_bytes();
        let mut header = [0; 20];
        header[..10].copy_from_slice(&[
            0x45,
            (self.dscp << 2) | self.ecn.bits(),
            total[0],
            total[1],
            id_high,
            id_low,
            u8::from(self.dont_fragment) << 6,
            0,
            self.ttl,
            protocol,
        ]);
        header[12..16].copy_from_slice(&self.source.octets());
        header[16..].copy_from_slice(&self.destination.octets());
        let sum = checksum(&header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        Ok(header)
    }
}

impl Ipv6 {
    /// The header of an IPv6 packet with `payload` bytes after it.
    ///
    /// # Errors
    ///
    /// The payload is longer than 65,535 bytes.
    pub fn to_bytes(&self, next_header: u8, payload: usize) -> Result<[u8; 40], TooLong> {
        let payload = length("an IPv6 payload", payload)?;
        let class = (self.dscp << 2) | self.ecn.bits();
        let first = (6 << 28) | (u32::from(class) << 20) | (self.flow_label & 0xf_ffff);
        let mut header = [0; 40];
        header[..4].copy_from_slice(&first.to_be_bytes());
        header[4..6].copy_from_slice(&payload.to_be_bytes());
        header[6] = next_header;
        header[7] = self.hop_limit;
        header[8..24].copy_from_slice(&self.source.octets());
        header[24..].copy_from_slice(&self.destination.octets());
        Ok(header)
    }
}

impl IpHeader {
    /// A header as a host sends it: 64 hops, not ECN-capable, no flow label, and fragmentation
    /// allowed. `None` if the addresses are not of one family.
    #[must_use]
    pub fn between(source: IpAddr, destination: IpAddr, dscp: u8) -> Option<Self> {
        let ecn = Ecn::NotCapable;
        match (source, destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => Some(Self::V4(Ipv4 {
                source,
                destination,
                dscp,
                ecn,
                identification: 0,
                dont_fragment: false,
                ttl: 64,
            })),
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                Some(Self::V6(Ipv6 { source, destination, dscp, ecn, flow_label: 0, hop_limit: 64 }))
            }
            _ => None,
        }
    }

    /// Sum of the pseudo-header of a transport header and payload of `length` bytes.
    #[must_use]
    pub fn pseudo_header(&self, protocol: u8, length: u32) -> Sum {
        let (source, destination) = match self {
            Self::V4(ip) => (IpAddr::V4(ip.source), IpAddr::V4(ip.destination)),
            Self::V6(ip) => (IpAddr::V6(ip.source), IpAddr::V6(ip.destination)),
        };
        Sum::pseudo_header(source, destination, protocol, length)
    }
}

impl Ethernet {
    /// Appends the header.
    pub fn write(&self, frame: &mut Vec<u8>, ethertype: u16) {
        frame.extend_from_slice(&self.destination);
        frame.extend_from_slice(&self.source);
        frame.extend_from_slice(&ethertype.to_be_bytes());
    }
}

/// Replaces the content of `frame` with a UDP datagram over IP, its checksum in place.
///
/// # Errors
///
/// The packet would be too long for IP; `frame` is then empty.
pub fn udp(frame: &mut Vec<u8>, ethernet: &Ethernet, ip: &IpHeader, udp: Udp, payload: &[u8]) -> Result<(), TooLong> {
    let start = udp_without_checksum(frame, ethernet, ip, udp, &[payload])?;
    seal(frame, start, ip, protocol::UDP, 6);
    Ok(())
}

/// Replaces the content of `frame` with a TCP segment over IP, its checksum in place.
///
/// # Errors
///
/// The packet would be too long for IP, or the options are longer than 40 bytes or not padded to
/// four; `frame` is then empty.
pub fn tcp(
    frame: &mut Vec<u8>,
    ethernet: &Ethernet,
    ip: &IpHeader,
    tcp: &Tcp<'_>,
    payload: &[u8],
) -> Result<(), TooLong> {
    frame.clear();
    if tcp.options.len() > 40 || !tcp.options.len().is_multiple_of(4) {
        return Err(TooLong { what: "TCP options (in steps of 4)", length: tcp.options.len(), limit: 40 });
    }
    let header = TCP_MIN_LEN + tcp.options.len();
    let start = network(frame, ethernet, ip, protocol::TCP, header + payload.len())?;
    frame.extend_from_slice(&tcp.to_bytes());
    frame.extend_from_slice(tcp.options);
    frame.extend_from_slice(payload);
    seal(frame, start, ip, protocol::TCP, 16);
    Ok(())
}

/// Replaces the content of `frame` with an ICMP echo message over IP, its checksum in place.
///
/// # Errors
///
/// The packet would be too long for IP; `frame` is then empty.
pub fn echo(
    frame: &mut Vec<u8>,
    ethernet: &Ethernet,
    ip: &IpHeader,
    echo: Echo,
    payload: &[u8],
) -> Result<(), TooLong> {
    let length = ECHO_LEN + payload.len();
    let (v6, number) = match ip {
        IpHeader::V4(_) => (false, protocol::ICMP),
        IpHeader::V6(_) => (true, protocol::ICMPV6),
    };
    let start = network(frame, ethernet, ip, number, length)?;
    frame.extend_from_slice(&echo.to_bytes(v6));
    frame.extend_from_slice(payload);
    seal_icmp(frame, start, ip);
    Ok(())
}

/// Makes the checksums of a whole IP packet right after its addresses or content were changed: IPv4's
/// header and those of ICMP, TCP and UDP. False if it is no such packet, or a fragment; then nothing of
/// its transport layer is changed.
pub fn reseal(frame: &mut [u8]) -> bool {
    let headers = Headers::parse(frame);
    let Some(ip) = headers.ip else { return false };
    if ip.source.is_ipv4() {
        let header = &mut frame[headers.network..];
        let length = usize::from(header[0] & 0x0f) * 4;
        header[10..12].fill(0);
        let sum = checksum(&header[..length]).to_be_bytes();
        header[10..12].copy_from_slice(&sum);
    }
    let offset = match ip.protocol {
        protocol::ICMP | protocol::ICMPV6 => 2,
        protocol::TCP => 16,
        protocol::UDP => 6,
        _ => return false,
    };
    let Some(transport) = frame.get_mut(ip.transport..headers.network + headers.network_len) else { return false };
    if ip.fragment != Fragment::Whole || transport.len() < offset + 2 {
        return false;
    }
    transport[offset..offset + 2].fill(0);
    let length = transport.len() as u32;
    let pseudo = match ip.protocol {
        protocol::ICMP => Sum::default(),
        number => Sum::pseudo_header(ip.source, ip.destination, number, length),
    };
    let sum = Sum::of(transport) + pseudo;
    let sum = if ip.protocol == protocol::UDP { sum.checksum_or_ones() } else { sum.checksum() };
    transport[offset..offset + 2].copy_from_slice(&sum.to_be_bytes());
    true
}

/// Everything of a UDP frame but the checksum, which is zero. The payload comes in parts. Gives
/// where the UDP header starts.
pub(crate) fn udp_without_checksum(
    frame: &mut Vec<u8>,
    ethernet: &Ethernet,
    ip: &IpHeader,
    udp: Udp,
    payload: &[&[u8]],
) -> Result<usize, TooLong> {
    let length = UDP_LEN + payload.iter().map(|part| part.len()).sum::<usize>();
    let start = network(frame, ethernet, ip, protocol::UDP, length)?;
    // It fits: the network layer's own length is no shorter.
    frame.extend_from_slice(&udp.to_bytes(length as u16));
    for part in payload {
        frame.extend_from_slice(part);
    }
    Ok(start)
}

/// Stores the checksum of the transport layer at `start`, `offset` into it.
pub(crate) fn seal(frame: &mut [u8], start: usize, ip: &IpHeader, protocol: u8, offset: usize) {
    let transport = &frame[start..];
    let sum = (Sum::of(transport) + ip.pseudo_header(protocol, transport.len() as u32)).checksum_or_ones();
    frame[start + offset..start + offset + 2].copy_from_slice(&sum.to_be_bytes());
}

/// Stores the checksum of the ICMP message at `start`, which over IPv6 has a pseudo-header
/// (RFC 4443 2.3).
pub(crate) fn seal_icmp(frame: &mut [u8], start: usize, ip: &IpHeader) {
    let message = &frame[start..];
    let pseudo = match ip {
        IpHeader::V4(_) => Sum::default(),
        IpHeader::V6(_) => ip.pseudo_header(protocol::ICMPV6, message.len() as u32),
    };
    let sum = (Sum::of(message) + pseudo).checksum();
    frame[start + 2..start + 4].copy_from_slice(&sum.to_be_bytes());
}

/// Replaces the content of `frame` with Ethernet and IP headers; gives where the payload starts.
pub(crate) fn network(
    frame: &mut Vec<u8>,
    ethernet: &Ethernet,
    ip: &IpHeader,
    protocol: u8,
    payload: usize,
) -> Result<usize, TooLong> {
    frame.clear();
    match ip {
        IpHeader::V4(ip) => {
            let header = ip.to_bytes(protocol, payload)?;
            frame.reserve(ETHERNET_LEN + header.len() + payload);
            ethernet.write(frame, ethertype::IPV4);
            frame.extend_from_slice(&header);
        }
        IpHeader::V6(ip) => {
            let header = ip.to_bytes(protocol, payload)?;
            frame.reserve(ETHERNET_LEN + header.len() + payload);
            ethernet.write(frame, ethertype::IPV6);
            frame.extend_from_slice(&header);
        }
    }
    Ok(frame.len())
}

fn length(what: &'static str, length: usize) -> Result<u16, TooLong> {
    u16::try_from(length).map_err(|_| TooLong { what, length, limit: usize::from(u16::MAX) })
}
