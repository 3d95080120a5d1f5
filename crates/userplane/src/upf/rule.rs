//! Rules as the fast path reads them: what a session's PDRs, FARs, QERs and URRs come to.

use alloc::boxed::Box;
use core::net::IpAddr;

use wire::checksum::Sum;
use wire::frame::IpHeader;
use wire::gtpu::{GTPU_PORT, MAX_LEN, Qfi, TunnelHeader};
use wire::pfcp::value::SdfFilter;
use wire::{Headers, Ip, UDP_LEN, Udp, ethertype, protocol};

use super::Side;
use crate::filter::{Filter, Flow, contains};

/// Which way packets go, as PFCP counts and meters them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// From the UE.
    Uplink,
    /// To the UE.
    Downlink,
}

/// What a packet came by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// A tunnel of ours with this TEID.
    Tunnel(u32),
    /// Its destination address.
    Host,
}

/// A PDR with all it refers to.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    /// The PDR's number, for reports.
    pub(super) pdr: u16,
    pub(super) entry: Entry,
    pub(super) direction: Direction,
    /// The UE's addresses, if the PDR names any: source of uplink packets, destination of others.
    pub(super) hosts: [Option<(IpAddr, u8)>; 2],
    /// Bit n: packets of QoS flow n. None is set if the PDR names none.
    pub(super) flows: u64,
    /// Any of these, or all packets if there are none.
    pub(super) filters: Box<[FlowFilter]>,
    pub(super) action: Action,
    /// Bit n: the session's n-th QER or URR.
    pub(super) qers: u32,
    pub(super) urrs: u32,
}

/// An SDF filter (TS 29.244 8.2.5): all that is there has to fit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FlowFilter {
    rule: Option<Filter>,
    /// Type of service or traffic class, and which of its bits count.
    class: Option<(u8, u8)>,
    spi: Option<u32>,
    flow_label: Option<u32>,
}

/// What becomes of a packet (TS 29.244 8.2.26).
#[derive(Clone, Debug)]
pub(super) enum Action {
    Drop,
    /// Kept until the rule says otherwise; whether the control plane is told of the first one.
    Hold {
        notify: bool,
    },
    Forward {
        to: Side,
        tunnel: Option<Tunnel>,
    },
}

/// A user packet as it was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct UserPacket {
    pub(super) headers: Headers,
    pub(super) ip: Ip,
}

impl UserPacket {
    /// `None` if it is not a whole IP packet. What follows it, as padding, is left out.
    pub(super) fn read(packet: &[u8]) -> Option<Self> {
        let (ethertype, len) = match *packet.first_chunk::<6>()? {
            [first, _, high, low, _, _] if first >> 4 == 4 => {
                (ethertype::IPV4, usize::from(u16::from_be_bytes([high, low])))
            }
            [first, _, _, _, high, low] if first >> 4 == 6 => {
                (ethertype::IPV6, 40 + usize::from(u16::from_be_bytes([high, low])))
            }
            _ => return None,
        };
        let headers = Headers::of_network(ethertype, packet.get(..len)?);
        Some(Self { headers, ip: headers.ip? })
    }

    pub(super) fn len(&self) -> usize {
        self.headers.network_len
    }
}

impl Rule {
    /// Whether a packet is one of the rule's. `flow` is the QoS flow in its PDU session container.
    pub(super) fn fits(&self, entry: Entry, flow: Option<Qfi>, ip: &Ip) -> bool {
        let (local, remote) = match self.direction {
            Direction::Uplink => (ip.source, ip.destination),
            Direction::Downlink => (ip.destination, ip.source),
        };
        let ours = |host: &(IpAddr, u8)| contains(*host, local);
        self.entry == entry
            && (self.hosts[0].is_none() || self.hosts.iter().flatten().any(ours))
            && (self.flows == 0 || flow.is_some_and(|flow| self.flows & (1 << flow.get()) != 0))
            && (self.filters.is_empty() || self.passes_filter(remote, local, ip))
    }

    fn passes_filter(&self, remote: IpAddr, local: IpAddr, ip: &Ip) -> bool {
        let ports = ip.ports.map(|(source, destination)| match self.direction {
            Direction::Uplink => (destination, source),
            Direction::Downlink => (source, destination),
        });
        let flow = Flow { remote, local, protocol: ip.protocol, ports };
        self.filters.iter().any(|filter| filter.matches(&flow, ip))
    }
}

impl FlowFilter {
    /// `None` if its description is no filter, or it says nothing at all.
    pub(super) fn read(sdf: &SdfFilter) -> Option<Self> {
        let rule = sdf.description.as_ref().map(|text| text.0.parse().ok());
        let class = sdf.tos.map(|tos| {
            let [class, mask] = tos.to_be_bytes();
            (class, mask)
        });
        let read = Self { rule: rule.flatten(), class, spi: sdf.spi, flow_label: sdf.flow_label };
        (read.rule.is_some() == sdf.description.is_some() && read != Self::default()).then_some(read)
    }

    fn matches(&self, flow: &Flow, ip: &Ip) -> bool {
        let class = ip.dscp << 2 | ip.ecn.bits();
        self.rule.as_ref().is_none_or(|rule| rule.matches(flow))
            && self.class.is_none_or(|(wanted, mask)| (class ^ wanted) & mask == 0)
            && self.spi.is_none_or(|spi| ip.spi == Some(spi))
            && self.flow_label.is_none_or(|label| ip.flow_label == label)
    }
}

impl From<Filter> for FlowFilter {
    fn from(rule: Filter) -> Self {
        Self { rule: Some(rule), ..Self::default() }
    }
}

/// Longest outer headers: IPv6, UDP, GTP-U.
const OUTER_MAX: usize = 40 + UDP_LEN + MAX_LEN;

/// A tunnel to a peer, with its headers ready but for lengths, identification and checksums.
#[derive(Clone, Debug)]
pub(super) struct Tunnel {
    pub(super) peer: IpAddr,
    pub(super) header: TunnelHeader,
    source: IpAddr,
    bytes: [u8; OUTER_MAX],
    len: u8,
}

impl Tunnel {
    /// `None` if the addresses are not of one version.
    pub(super) fn new(source: IpAddr, peer: IpAddr, header: TunnelHeader, traffic_class: u8) -> Option<Self> {
        let between = IpHeader::between(source, peer, traffic_class >> 2)?;
        let mut bytes = [0; OUTER_MAX];
        // What has no length yet is none too long: there is no error in the following three.
        let ip_len = match between {
            IpHeader::V4(ip) => {
                bytes[..20].copy_from_slice(&ip.to_bytes(protocol::UDP, 0).ok()?);
                // Total length and checksum are filled in for each packet.
                bytes[2..4].fill(0);
                bytes[10..12].fill(0);
                20
            }
            IpHeader::V6(ip) => {
                bytes[..40].copy_from_slice(&ip.to_bytes(protocol::UDP, 0).ok()?);
                40
            }
        };
        let udp = Udp { source: GTPU_PORT, destination: GTPU_PORT }.to_bytes(0);
        bytes[ip_len..ip_len + UDP_LEN].copy_from_slice(&udp);
        let gtp = ip_len + UDP_LEN;
        bytes[gtp..gtp + header.len()].copy_from_slice(&header.g_pdu(0).ok()?[..header.len()]);
        Some(Self { peer, header, source, bytes, len: (gtp + header.len()) as u8 })
    }

    /// Length of all it puts before a packet.
    pub(super) fn len(&self) -> usize {
        self.len.into()
    }

    pub(super) fn ethertype(&self) -> u16 {
        if self.peer.is_ipv4() { ethertype::IPV4 } else { ethertype::IPV6 }
    }

    /// Puts the headers into the first [`Self::len`] bytes of `packet`, behind which the user packet stands already.
    /// The whole is shorter than 64 KiB. `identification` tells fragments of one packet from another's (RFC 791 3.1).
    pub(super) fn put(&self, packet: &mut [u8], identification: u16) {
        let outer = self.len();
        packet[..outer].copy_from_slice(&self.bytes[..outer]);
        let total = packet.len();
        let ip_len = if self.peer.is_ipv4() { 20 } else { 40 };
        let length = |length: usize| (length as u16).to_be_bytes();
        let udp = length(total - ip_len);
        packet[ip_len + 4..ip_len + 6].copy_from_slice(&udp);
        // TS 29.281 5.1: all that follows the mandatory part. A type of it in the template has the same length.
        let gtp = ip_len + UDP_LEN;
        packet[gtp + 2..gtp + 4].copy_from_slice(&length(total - gtp - 8));
        if ip_len == 20 {
            packet[2..4].copy_from_slice(&length(total));
            packet[4..6].copy_from_slice(&identification.to_be_bytes());
            let checksum = Sum::of(&packet[..20]).checksum();
            packet[10..12].copy_from_slice(&checksum.to_be_bytes());
            // A UDP checksum of 0 is none (RFC 768), as TS 29.281 4.4.2 lets the sender do over IPv4.
        } else {
            packet[4..6].copy_from_slice(&udp);
            let pseudo = Sum::pseudo_header(self.source, self.peer, protocol::UDP, (total - ip_len) as u32);
            let checksum = (Sum::of(&packet[ip_len..]) + pseudo).checksum_or_ones();
            packet[ip_len + 6..ip_len + 8].copy_from_slice(&checksum.to_be_bytes());
        }
    }
}
