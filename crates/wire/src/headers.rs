//! What an emulator needs to know of a frame: where its layers are, who sent it to whom, its
//! traffic class and its congestion mark.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::checksum;

/// Length of an Ethernet header without tags.
pub const ETHERNET_LEN: usize = 14;

/// `EtherType`s.
pub mod ethertype {
    /// IPv4.
    pub const IPV4: u16 = 0x0800;
    /// ARP.
    pub const ARP: u16 = 0x0806;
    /// A customer VLAN tag (802.1Q 9.6).
    pub const VLAN: u16 = 0x8100;
    /// IPv6.
    pub const IPV6: u16 = 0x86dd;
    /// A service VLAN tag (802.1Q 9.6, once 802.1ad).
    pub const SERVICE_VLAN: u16 = 0x88a8;
    /// A service VLAN tag as equipment older than 802.1ad writes it.
    pub const OLD_SERVICE_VLAN: u16 = 0x9100;
}

/// IP protocol numbers (IANA).
pub mod protocol {
    /// ICMP for IPv4.
    pub const ICMP: u8 = 1;
    /// IPsec's encapsulating security payload.
    pub const ESP: u8 = 50;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
    /// DCCP.
    pub const DCCP: u8 = 33;
    /// ICMP for IPv6.
    pub const ICMPV6: u8 = 58;
    /// SCTP.
    pub const SCTP: u8 = 132;
    /// UDP-Lite.
    pub const UDP_LITE: u8 = 136;
}

/// The layers of a frame.
///
/// Reading never fails: what cannot be understood is left out ([`Headers::ip`] is `None` then).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    /// `EtherType` after at most two VLAN tags; 0 if the frame is too short to have one.
    pub ethertype: u16,
    /// Where the network layer starts. At most the frame's length.
    pub network: usize,
    /// Length of the network layer: what the IP header says if it is there and no more than the
    /// frame holds (so without Ethernet padding), else all that follows.
    pub network_len: usize,
    /// The IP header, if the network layer is IPv4 or IPv6 and its header is whole.
    pub ip: Option<Ip>,
}

/// The outermost IP header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ip {
    /// Where it comes from.
    pub source: IpAddr,
    /// Where it goes.
    pub destination: IpAddr,
    /// Differentiated services code point (RFC 2474), 0 to 63.
    pub dscp: u8,
    /// Congestion notification (RFC 3168).
    pub ecn: Ecn,
    /// Whether it is a fragment.
    pub fragment: Fragment,
    /// The transport protocol, or the first extension header that is not walked over (such as ESP).
    pub protocol: u8,
    /// Where the transport layer starts, from the start of the frame. At most `network + network_len`.
    pub transport: usize,
    /// Source and destination port, where there are any: TCP, UDP, UDP-Lite, DCCP, SCTP, and not a
    /// later fragment.
    pub ports: Option<(u16, u16)>,
    /// IPv6's flow label (RFC 6437), 20 bits; 0, which means none, for IPv4.
    pub flow_label: u32,
    /// Security parameters index of ESP (RFC 4303 2.1), if that is the protocol and this is not a
    /// later fragment.
    pub spi: Option<u32>,
}

/// Explicit congestion notification field (RFC 3168 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ecn {
    /// The transport cannot react to marks: drop instead.
    #[default]
    NotCapable,
    /// ECT(1): capable, and asks for the low-latency service (RFC 9331).
    Capable1,
    /// ECT(0): capable.
    Capable0,
    /// CE: congestion experienced.
    Experienced,
}

/// Whether a packet is a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fragment {
    /// A whole packet.
    Whole,
    /// The first fragment, which has the transport header.
    First,
    /// A later one, which has none.
    Later,
}

impl Ecn {
    /// From the two low bits of `bits`.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::NotCapable,
            1 => Self::Capable1,
            2 => Self::Capable0,
            _ => Self::Experienced,
        }
    }

    /// The two bits on the wire.
    #[must_use]
    pub const fn bits(self) -> u8 {
        match self {
            Self::NotCapable => 0,
            Self::Capable1 => 1,
            Self::Capable0 => 2,
            Self::Experienced => 3,
        }
    }

    /// Whether the transport reacts to marks: one is put on it, or there is one already.
    #[must_use]
    pub const fn is_capable(self) -> bool {
        !matches!(self, Self::NotCapable)
    }
}

impl Headers {
    /// Reads the headers of an Ethernet frame.
    #[must_use]
    pub fn parse(frame: &[u8]) -> Self {
        let (ethertype, network) = ethernet(frame);
        Self::at(frame, ethertype, network)
    }

    /// Reads the headers of a packet of which the Ethernet header was taken away: positions count from
    /// the start of the network layer.
    #[must_use]
    pub fn of_network(ethertype: u16, packet: &[u8]) -> Self {
        Self::at(packet, ethertype, 0)
    }

    fn at(frame: &[u8], ethertype: u16, network: usize) -> Self {
        let packet = &frame[network..];
        let (ip, network_len) = match ethertype {
            ethertype::IPV4 => ipv4(packet, network),
            ethertype::IPV6 => ipv6(packet, network),
            _ => None,
        }
        .map_or((None, packet.len()), |(ip, len)| (Some(ip), len));
        Self { ethertype, network, network_len, ip }
    }

    /// Length of the transport header and payload in bytes; 0 without an IP header.
    #[must_use]
    pub fn transport_len(&self) -> usize {
        self.ip.map_or(0, |ip| self.network + self.network_len - ip.transport)
    }
}

/// Length of the network layer of a frame in bytes: [`Headers::network_len`] without reading the
/// rest.
#[must_use]
pub fn network_len(frame: &[u8]) -> usize {
    let (ethertype, network) = ethernet(frame);
    let packet = &frame[network..];
    match ethertype {
        ethertype::IPV4 => ipv4_lengths(packet).map(|(_, total)| total),
        ethertype::IPV6 => ipv6_len(packet),
        _ => None,
    }
    .unwrap_or(packet.len())
}

/// Marks congestion experienced on an ECN-capable packet (RFC 3168 5), and puts IPv4's header
/// checksum right (RFC 1624). `headers` must be this frame's. False, and nothing is changed, if the
/// packet is not IP or not ECN-capable; true also if it was marked before.
pub fn mark_congestion(frame: &mut [u8], headers: &Headers) -> bool {
    let Some(ip) = headers.ip.filter(|ip| ip.ecn.is_capable()) else { return false };
    let at = headers.network;
    match (ip.source, frame.get_mut(at..)) {
        (IpAddr::V4(_), Some(ip @ [_, _, _, _, _, _, _, _, _, _, _, _, ..])) => {
            change_word(ip, 0, |[version, class]| [version, class | Ecn::Experienced.bits()]);
            true
        }
        // RFC 8200 3: the traffic class straddles the first two bytes.
        (IpAddr::V6(_), Some([_, class, ..])) => {
            *class |= Ecn::Experienced.bits() << 4;
            true
        }
        _ => false,
    }
}

/// Sets a packet's code point (RFC 2474 3), 0 to 63, and puts IPv4's header checksum right (RFC 1624).
/// `headers` must be this frame's. False, and nothing is changed, if the packet is not IP.
pub fn set_dscp(frame: &mut [u8], headers: &Headers, dscp: u8) -> bool {
    match (headers.ip.map(|ip| ip.source), frame.get_mut(headers.network..)) {
        (Some(IpAddr::V4(_)), Some(ip @ [_, _, _, _, _, _, _, _, _, _, _, _, ..])) => {
            change_word(ip, 0, |[version, class]| [version, (dscp << 2) | (class & 3)]);
            true
        }
        (Some(IpAddr::V6(_)), Some([version, class, ..])) => {
            *version = 0x60 | ((dscp >> 2) & 0x0f);
            *class = (dscp << 6) | (*class & 0x3f);
            true
        }
        _ => false,
    }
}

/// Takes one from the time to live or hop limit, as a router does (RFC 1812 5.3.1, RFC 8200 3).
/// `headers` must be this frame's. False, and nothing is changed, if the packet is not IP or may go
/// no further.
pub fn take_hop(frame: &mut [u8], headers: &Headers) -> bool {
    match (headers.ip.map(|ip| ip.source), frame.get_mut(headers.network..)) {
        (Some(IpAddr::V4(_)), Some(ip @ [_, _, _, _, _, _, _, _, 2..=255, _, _, _, ..])) => {
            change_word(ip, 8, |[ttl, protocol]| [ttl - 1, protocol]);
            true
        }
        (Some(IpAddr::V6(_)), Some([_, _, _, _, _, _, _, hop_limit @ 2..=255, ..])) => {
            *hop_limit -= 1;
            true
        }
        _ => false,
    }
}

/// Changes the word at `at` of an IPv4 header, which has 12 bytes at least, and its checksum
/// with it (RFC 1624).
fn change_word(ip: &mut [u8], at: usize, change: impl Fn([u8; 2]) -> [u8; 2]) {
    let old = [ip[at], ip[at + 1]];
    let new = change(old);
    let sum = u16::from_be_bytes([ip[10], ip[11]]);
    let sum = checksum::updated(sum, u16::from_be_bytes(old), u16::from_be_bytes(new));
    ip[at..at + 2].copy_from_slice(&new);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// The `EtherType` and where the network layer starts.
fn ethernet(frame: &[u8]) -> (u16, usize) {
    let mut at = ETHERNET_LEN;
    for _ in 0..3 {
        match be16(frame, at - 2) {
            Some(ethertype::VLAN | ethertype::SERVICE_VLAN | ethertype::OLD_SERVICE_VLAN) if at < ETHERNET_LEN + 8 => {
                at += 4;
            }
            Some(ethertype) => return (ethertype, at),
            None => break,
        }
    }
    (0, at.min(frame.len()))
}

/// Length of the header and of the whole packet.
fn ipv4_lengths(packet: &[u8]) -> Option<(usize, usize)> {
    let &[first, _, high, low, ..] = packet else { return None };
    let header = usize::from(first & 0x0f) * 4;
    let total = match usize::from(u16::from_be_bytes([high, low])) {
        // Super-frames over 64 KiB have no length (Linux's BIG TCP).
        0 => packet.len(),
        total => total.min(packet.len()),
    };
    (first >> 4 == 4 && header >= 20 && total >= header).then_some((header, total))
}

fn ipv4(packet: &[u8], network: usize) -> Option<(Ip, usize)> {
    let (header, total) = ipv4_lengths(packet)?;
    let (fixed, _) = packet.split_first_chunk::<20>()?;
    let flags = u16::from_be_bytes([fixed[6], fixed[7]]);
    let fragment = match (flags & 0x1fff, flags & 0x2000 != 0) {
        (0, false) => Fragment::Whole,
        (0, true) => Fragment::First,
        _ => Fragment::Later,
    };
    let protocol = fixed[9];
    let address = |at: usize| IpAddr::V4(Ipv4Addr::new(fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]));
    let ip = Ip {
        source: address(12),
        destination: address(16),
        dscp: fixed[1] >> 2,
        ecn: Ecn::from_bits(fixed[1]),
        fragment,
        protocol,
        transport: network + header,
        ports: ports(&packet[header..total], protocol, fragment),
        flow_label: 0,
        spi: spi(&packet[header..total], protocol, fragment),
    };
    Some((ip, total))
}

/// Length of the whole packet.
fn ipv6_len(packet: &[u8]) -> Option<usize> {
    let (fixed, _) = packet.split_first_chunk::<40>()?;
    let payload = match usize::from(u16::from_be_bytes([fixed[4], fixed[5]])) {
        // A jumbogram (RFC 2675) or one of Linux's super-frames over 64 KiB, unless there is no next
        // header (RFC 8200 4.7).
        0 if fixed[6] != 59 => packet.len(),
        payload => payload,
    };
    (fixed[0] >> 4 == 6).then_some((40 + payload).min(packet.len()))
}

fn ipv6(packet: &[u8], network: usize) -> Option<(Ip, usize)> {
    let total = ipv6_len(packet)?;
    let (fixed, _) = packet.split_first_chunk::<40>()?;
    let class = (fixed[0] << 4) | (fixed[1] >> 4);
    let (protocol, transport, fragment) = extensions(&packet[..total], fixed[6]);
    let address = |at: usize| fixed[at..].first_chunk::<16>().map(|octets| IpAddr::V6(Ipv6Addr::from(*octets)));
    let ip = Ip {
        source: address(8)?,
        destination: address(24)?,
        dscp: class >> 2,
        ecn: Ecn::from_bits(class),
        fragment,
        protocol,
        transport: network + transport,
        ports: ports(&packet[transport..total], protocol, fragment),
        // RFC 8200 3: the low 20 bits of the first word.
        flow_label: u32::from_be_bytes([0, fixed[1] & 0x0f, fixed[2], fixed[3]]),
        spi: spi(&packet[transport..total], protocol, fragment),
    };
    Some((ip, total))
}

/// Walks over extension headers (RFC 8200 4), at most eight of them: the protocol that follows,
/// where it starts, and whether the packet is a fragment.
fn extensions(packet: &[u8], first: u8) -> (u8, usize, Fragment) {
    const HOP_BY_HOP: u8 = 0;
    const ROUTING: u8 = 43;
    const FRAGMENT: u8 = 44;
    const AUTHENTICATION: u8 = 51;
    const DESTINATION: u8 = 60;
    const MOBILITY: u8 = 135;
    let (mut next, mut at, mut fragment) = (first, 40, Fragment::Whole);
    for _ in 0..8 {
        let Some(&[following, len, high, low]) = packet.get(at..).and_then(|rest| rest.first_chunk()) else { break };
        let len = match next {
            HOP_BY_HOP | ROUTING | DESTINATION | MOBILITY => (usize::from(len) + 1) * 8,
            // RFC 4302 2.2: in 4-byte units, less two.
            AUTHENTICATION => (usize::from(len) + 2) * 4,
            FRAGMENT => {
                // RFC 8200 4.5: 13 bits of offset, two reserved, more fragments.
                fragment = match u16::from_be_bytes([high, low]) {
                    0..=7 if low & 1 == 0 => fragment,
                    0..=7 => Fragment::First,
                    _ => Fragment::Later,
                };
                8
            }
            _ => break,
        };
        if at + len > packet.len() {
            break;
        }
        (next, at) = (following, at + len);
        if fragment == Fragment::Later {
            // What follows is the middle of a payload.
            break;
        }
    }
    (next, at, fragment)
}

fn ports(transport: &[u8], protocol: u8, fragment: Fragment) -> Option<(u16, u16)> {
    use protocol::{DCCP, SCTP, TCP, UDP, UDP_LITE};
    if !matches!(protocol, TCP | UDP | UDP_LITE | DCCP | SCTP) || fragment == Fragment::Later {
        return None;
    }
    Some((be16(transport, 0)?, be16(transport, 2)?))
}

fn spi(transport: &[u8], protocol: u8, fragment: Fragment) -> Option<u32> {
    (protocol == protocol::ESP && fragment != Fragment::Later).then_some(())?;
    transport.first_chunk().map(|word| u32::from_be_bytes(*word))
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|pair| u16::from_be_bytes(*pair))
}
