//! Addresses and routes of a cell: the same for both executors.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::plan::{Cell, ETHERNET_MTU, IpVersion};

/// The VXLAN network identifier of the overlay.
pub(crate) const VNI: u32 = 42;
/// Length in bits of the prefix of one address.
pub(crate) const fn host_prefix(address: IpAddr) -> u8 {
    if address.is_ipv6() { 128 } else { 32 }
}

/// An Ethernet address.
pub(crate) type Mac = [u8; 6];

/// Where everything is.
#[derive(Clone, Debug)]
pub(crate) struct Topology {
    /// The sites, as in [`Cell::sites`].
    pub sites: Vec<Site>,
    /// The links, as in [`Cell::links`]: the Ethernet address at each end. They are unnumbered: a
    /// site has the same IP address on all of them.
    pub links: Vec<[Mac; 2]>,
    /// MTU of the links' interfaces in the sites.
    pub link_mtu: u16,
}

/// A site.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    /// Its address, reachable over every link.
    pub address: IpAddr,
    /// The pod its applications stand in, if there is an overlay.
    pub pod: Option<Pod>,
    /// How to reach other sites: only those that can be reached.
    pub routes: Vec<Route>,
    /// The link ends that are here: link, and which end of it, 0 or 1.
    pub ends: Vec<(usize, usize)>,
}

/// The interface of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pod {
    /// Its Ethernet address.
    pub mac: Mac,
    /// Its IP address.
    pub address: IpAddr,
}

/// The way to another site, by the fewest links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    /// The other site.
    pub to: usize,
    /// The link it begins with.
    pub link: usize,
    /// Which end of that link is here, 0 or 1.
    pub side: usize,
}

impl Topology {
    /// The topology of a cell.
    #[must_use]
    pub(crate) fn of(cell: &Cell) -> Self {
        let links = (0..cell.links.len()).map(|link| [mac(1, link, 0), mac(1, link, 1)]).collect();
        let ends: Vec<_> = cell.links.iter().map(|link| link.ends).collect();
        let sites = (0..cell.sites.len())
            .map(|site| Site {
                address: address(cell.path.ip, Net::Sites, site),
                pod: cell
                    .path
                    .vxlan
                    .then(|| Pod { mac: mac(2, site, 0), address: address(cell.path.ip, Net::Pods, site) }),
                routes: routes(site, &ends),
                ends: link_ends(site, &ends),
            })
            .collect();
        // Below an overlay Ethernet's, if that is enough for it.
        let least = if cell.path.vxlan { ETHERNET_MTU } else { 0 };
        // Gateways stand outside the sites: what these send grows no more before it leaves them.
        let link_mtu = cell.path.largest_sent().max(least);
        Self { sites, links, link_mtu }
    }

    /// Address of a site's applications.
    #[must_use]
    pub(crate) fn application(&self, site: usize) -> IpAddr {
        let site = &self.sites[site];
        site.pod.map_or(site.address, |pod| pod.address)
    }

    /// The Ethernet address of the link end a route leaves by, and of the one it leads to.
    #[must_use]
    pub(crate) fn hop(&self, route: &Route) -> (Mac, Mac) {
        let ends = &self.links[route.link];
        (ends[route.side], ends[1 - route.side])
    }
}

/// The addresses of the IPsec gateways at a link's first and second end.
pub(crate) fn gateways(ip: IpVersion, link: usize) -> [IpAddr; 2] {
    [0, 1].map(|side| address(ip, Net::Gateways, 2 * link + side))
}

/// Breadth first, links in their order: the fewest links, and the same way each time.
fn routes(from: usize, ends: &[(usize, usize)]) -> Vec<Route> {
    let mut routes: Vec<Route> = Vec::new();
    let mut queue = VecDeque::from([(from, None)]);
    while let Some((site, first)) = queue.pop_front() {
        for (link, &(a, b)) in ends.iter().enumerate() {
            let (to, side) = match site {
                _ if site == a => (b, 0),
                _ if site == b => (a, 1),
                _ => continue,
            };
            if to == from || routes.iter().any(|route| route.to == to) {
                continue;
            }
            let first = first.unwrap_or((link, side));
            routes.push(Route { to, link: first.0, side: first.1 });
            queue.push_back((to, Some(first)));
        }
    }
    routes
}

/// The link ends at a site, in the order of the links.
fn link_ends(site: usize, ends: &[(usize, usize)]) -> Vec<(usize, usize)> {
    let all = ends.iter().enumerate().flat_map(|(link, ends)| [(link, 0, ends.0), (link, 1, ends.1)]);
    all.filter(|(_, _, at)| *at == site).map(|(link, side, _)| (link, side)).collect()
}

/// The networks there are.
#[derive(Clone, Copy)]
enum Net {
    Sites,
    Pods,
    Gateways,
}

/// The `n`th address of a network, from 1: of 10.255.0.0/16, 10.128.0.0/16 and 10.64.0.0/16, or of
/// fd4e:6172:726f:1::/64, :2::/64 and :3::/64 (unique local, RFC 4193, with a global ID that spells
/// `Narro`: it is never routed anywhere, and the same plan has the same addresses).
fn address(ip: IpVersion, net: Net, n: usize) -> IpAddr {
    let n = n as u16 + 1;
    let [high, low] = n.to_be_bytes();
    match (ip, net) {
        (IpVersion::V4, Net::Sites) => Ipv4Addr::new(10, 255, high, low).into(),
        (IpVersion::V4, Net::Pods) => Ipv4Addr::new(10, 128, high, low).into(),
        (IpVersion::V4, Net::Gateways) => Ipv4Addr::new(10, 64, high, low).into(),
        (IpVersion::V6, Net::Sites) => Ipv6Addr::new(0xfd4e, 0x6172, 0x726f, 1, 0, 0, 0, n).into(),
        (IpVersion::V6, Net::Pods) => Ipv6Addr::new(0xfd4e, 0x6172, 0x726f, 2, 0, 0, 0, n).into(),
        (IpVersion::V6, Net::Gateways) => Ipv6Addr::new(0xfd4e, 0x6172, 0x726f, 3, 0, 0, 0, n).into(),
    }
}

/// Locally administered (IEEE 802 8.2), and telling to whoever reads a capture.
fn mac(kind: u8, number: usize, side: usize) -> Mac {
    let [high, low] = (number as u16).to_be_bytes();
    [0x02, 0x4e, kind, high, low, side as u8 + 1]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_shortest_way_is_taken_and_the_first_of_equals() {
        // 0 - 1 - 2 - 3 and 0 - 3; 4 is alone.
        let ends = [(0, 1), (1, 2), (2, 3), (3, 0)];
        let found = routes(0, &ends);
        let way = |to| found.iter().find(|route| route.to == to).map(|route| (route.link, route.side));
        assert_eq!([1, 2, 3, 4].map(way), [Some((0, 0)), Some((0, 0)), Some((3, 1)), None]);
    }

    #[test]
    fn addresses_differ() {
        let kinds = [IpVersion::V4, IpVersion::V6]
            .into_iter()
            .flat_map(|ip| [Net::Sites, Net::Pods, Net::Gateways].map(|net| (ip, net)));
        let all = kinds.flat_map(|(ip, net)| (0..300).map(move |n| address(ip, net, n)));
        assert_eq!(all.collect::<BTreeSet<_>>().len(), 6 * 300);
        let macs = (0..300).flat_map(|n| [mac(1, n, 0), mac(1, n, 1)]);
        assert_eq!(macs.collect::<BTreeSet<_>>().len(), 600);
    }
}
