//! Neighbour discovery for IPv6 over Ethernet (RFC 4861, RFC 2464).
//!
//! Reading makes all the checks that RFC 4861 6.1 and 7.1 ask of a receiver: hop limit, checksum, code,
//! lengths, addresses, options.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv6Addr};

use crate::checksum::Sum;
use crate::frame::{Ethernet, IpHeader, Ipv6, network, seal_icmp};
use crate::headers::{Ecn, Fragment, Headers, protocol};
use crate::transport::is_intact;

/// A valid message of neighbour discovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// RFC 4861 4.1.
    RouterSolicitation {
        /// Who asks; unspecified if it has no address yet.
        source: Ipv6Addr,
        /// Its Ethernet address, if it says so.
        link: Option<[u8; 6]>,
    },
    /// RFC 4861 4.2.
    RouterAdvertisement {
        /// The router's link-local address.
        source: Ipv6Addr,
        /// Seconds it is a default router for; 0: it is none.
        lifetime: u16,
    },
    /// RFC 4861 4.3.
    Solicitation {
        /// Who asks; unspecified in duplicate address detection (RFC 4862 5.4.2).
        source: Ipv6Addr,
        /// Whose Ethernet address is asked for.
        target: Ipv6Addr,
        /// That of who asks, if it says so.
        link: Option<[u8; 6]>,
    },
    /// RFC 4861 4.4.
    Advertisement(Advertisement),
}

/// A neighbour advertisement (RFC 4861 4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advertisement {
    /// Whose Ethernet address is advertised.
    pub target: Ipv6Addr,
    /// The target is a router.
    pub router: bool,
    /// It answers a solicitation.
    pub solicited: bool,
    /// It goes before what is cached.
    pub overrides: bool,
    /// The Ethernet address, if it is there.
    pub link: Option<[u8; 6]>,
}

/// Types of ICMPv6.
const ROUTER_SOLICITATION: u8 = 133;
const ROUTER_ADVERTISEMENT: u8 = 134;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
/// Types of options (RFC 4861 4.6.1).
const SOURCE_LINK: u8 = 1;
const TARGET_LINK: u8 = 2;
/// Packets come from the link itself: no router has taken a hop.
const HOP_LIMIT: u8 = 255;

/// Length of a neighbour solicitation or advertisement without options.
const NEIGHBOUR_LEN: usize = 24;
/// Of a router solicitation.
const ROUTER_SOLICITATION_LEN: usize = 8;
/// Of a router advertisement: where its options begin.
pub const ROUTER_ADVERTISEMENT_LEN: usize = 16;

/// The solicited-node group of an address (RFC 4291 2.7.1).
#[must_use]
pub fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = address.octets();
    Ipv6Addr::from([0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a, b, c])
}

/// The options of a message (RFC 4861 4.6): type and whole option each. `None` follows an option of
/// length zero or one that is cut short, and nothing after it.
pub fn options(mut bytes: &[u8]) -> impl Iterator<Item = Option<(u8, &[u8])>> {
    core::iter::from_fn(move || {
        let &[kind, units, ..] = bytes else {
            let rest = core::mem::take(&mut bytes);
            return (!rest.is_empty()).then_some(None);
        };
        match bytes.split_at_checked(usize::from(units) * 8) {
            Some((option, rest)) if units > 0 => {
                bytes = rest;
                Some(Some((kind, option)))
            }
            _ => {
                bytes = &[];
                Some(None)
            }
        }
    })
}

impl Message {
    /// Reads a message of neighbour discovery. `headers` must be this frame's. `None` if it is another
    /// packet, or one that a receiver must discard.
    #[must_use]
    pub fn parse(frame: &[u8], headers: &Headers) -> Option<Self> {
        let ip = headers.ip?;
        let (IpAddr::V6(source), IpAddr::V6(destination)) = (ip.source, ip.destination) else { return None };
        // RFC 6980 5: never in fragments; and nothing else stands before it either.
        let at_once = ip.transport == headers.network + 40 && ip.fragment == Fragment::Whole;
        let message = frame.get(ip.transport..headers.network + headers.network_len)?;
        let hop_limit = *frame.get(headers.network + 7)?;
        let pseudo = Sum::pseudo_header(ip.source, ip.destination, protocol::ICMPV6, message.len() as u32);
        let &[kind, 0, _, _, flags, _, ref rest @ ..] = message else { return None };
        if ip.protocol != protocol::ICMPV6 || !at_once || hop_limit != HOP_LIMIT || !is_intact(message, pseudo) {
            return None;
        }
        match kind {
            ROUTER_SOLICITATION => {
                let link = link_address(message.get(ROUTER_SOLICITATION_LEN..)?, SOURCE_LINK)?;
                let valid = !source.is_unspecified() || link.is_none();
                valid.then_some(Self::RouterSolicitation { source, link })
            }
            ROUTER_ADVERTISEMENT => {
                link_address(message.get(ROUTER_ADVERTISEMENT_LEN..)?, SOURCE_LINK)?;
                let lifetime = u16::from_be_bytes(*rest.first_chunk()?);
                source.is_unicast_link_local().then_some(Self::RouterAdvertisement { source, lifetime })
            }
            SOLICITATION => {
                let target = target(message)?;
                let link = link_address(&message[NEIGHBOUR_LEN..], SOURCE_LINK)?;
                let probe = source.is_unspecified();
                let valid = !probe || (link.is_none() && destination == solicited_node(target));
                valid.then_some(Self::Solicitation { source, target, link })
            }
            ADVERTISEMENT => {
                let link = link_address(message.get(NEIGHBOUR_LEN..)?, TARGET_LINK)?;
                let [router, solicited, overrides] = [0x80, 0x40, 0x20].map(|bit| flags & bit != 0);
                let valid = !(destination.is_multicast() && solicited);
                let target = target(message)?;
                valid.then_some(Self::Advertisement(Advertisement { target, router, solicited, overrides, link }))
            }
            _ => None,
        }
    }
}

impl Advertisement {
    /// Replaces the content of `frame` with the advertisement from its target to `destination`.
    pub fn write(&self, frame: &mut Vec<u8>, ethernet: &Ethernet, destination: Ipv6Addr) {
        let link = self.link.map(|[a, b, c, d, e, f]| [TARGET_LINK, 1, a, b, c, d, e, f]);
        let link = link.as_ref().map_or(&[][..], |option| option);
        let flags = u8::from(self.router) << 7 | u8::from(self.solicited) << 6 | u8::from(self.overrides) << 5;
        write(frame, ethernet, [self.target, destination], [ADVERTISEMENT, flags], self.target, link);
    }
}

/// Replaces the content of `frame` with a solicitation: `source`, whose Ethernet address is `mac`, asks
/// who has `target` (RFC 4861 4.3), by its solicited-node group.
pub fn solicit(frame: &mut Vec<u8>, mac: [u8; 6], source: Ipv6Addr, target: Ipv6Addr) {
    let group = solicited_node(target);
    let ethernet = Ethernet { destination: multicast_mac(group), source: mac };
    let [a, b, c, d, e, f] = mac;
    write(frame, &ethernet, [source, group], [SOLICITATION, 0], target, &[SOURCE_LINK, 1, a, b, c, d, e, f]);
}

/// The Ethernet address of a group (RFC 2464 7).
#[must_use]
pub fn multicast_mac(group: Ipv6Addr) -> [u8; 6] {
    let [.., a, b, c, d] = group.octets();
    [0x33, 0x33, a, b, c, d]
}

/// Replaces the content of `frame` with a message about `target`, whose option is `link`.
fn write(
    frame: &mut Vec<u8>,
    ethernet: &Ethernet,
    [source, destination]: [Ipv6Addr; 2],
    [kind, flags]: [u8; 2],
    target: Ipv6Addr,
    link: &[u8],
) {
    let (ecn, hop_limit) = (Ecn::NotCapable, HOP_LIMIT);
    let ip = IpHeader::V6(Ipv6 { source, destination, dscp: 0, ecn, flow_label: 0, hop_limit });
    // It is short: there is no error.
    let Ok(start) = network(frame, ethernet, &ip, protocol::ICMPV6, NEIGHBOUR_LEN + link.len()) else { return };
    frame.extend_from_slice(&[kind, 0, 0, 0, flags, 0, 0, 0]);
    frame.extend_from_slice(&target.octets());
    frame.extend_from_slice(link);
    seal_icmp(frame, start, &ip);
}

/// The target of a solicitation or advertisement, which is no group.
fn target(message: &[u8]) -> Option<Ipv6Addr> {
    let target = Ipv6Addr::from(*message.get(8..)?.first_chunk::<16>()?);
    (!target.is_multicast()).then_some(target)
}

/// The Ethernet address in an option, if it is there; `None` if an option is not valid.
fn link_address(bytes: &[u8], wanted: u8) -> Option<Option<[u8; 6]>> {
    let mut found = None;
    for option in options(bytes) {
        let (kind, option) = option?;
        if kind == wanted {
            found = Some(*option[2..].first_chunk()?);
        }
    }
    Some(found)
}
