//! Addresses and routes of a cell: the same for both executors.

use std::collections::VecDeque;
use std::net::Ipv4Addr;

use crate::plan::Cell;

/// Bytes VXLAN adds to a packet: 14 inner Ethernet, 8 VXLAN, 8 UDP, 20 IPv4 (RFC 7348 5).
pub(crate) const VXLAN_OVERHEAD: u16 = 50;
/// The VXLAN network identifier of the overlay.
pub(crate) const VNI: u32 = 42;
/// MTU of the links below an overlay, if that is enough for it: Ethernet's.
const ETHERNET_MTU: u16 = 1500;

/// An Ethernet address.
pub(crate) type Mac = [u8; 6];

/// Where everything is.
#[derive(Clone, Debug)]
pub(crate) struct Topology {
    /// The sites, as in [`Cell::sites`].
    pub sites: Vec<Site>,
    /// The links, as in [`Cell::links`]: the Ethernet address at each end. They are unnumbered: a
    /// site has the same IPv4 address on all of them.
    pub links: Vec<[Mac; 2]>,
    /// MTU of the links' interfaces.
    pub link_mtu: u16,
}

/// A site.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    /// Its address, reachable over every link.
    pub address: Ipv4Addr,
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
    /// Its IPv4 address.
    pub address: Ipv4Addr,
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
                address: numbered([10, 255], site),
                pod: cell.path.vxlan.then(|| Pod { mac: mac(2, site, 0), address: numbered([10, 128], site) }),
                routes: routes(site, &ends),
                ends: link_ends(site, &ends),
            })
            .collect();
        let link_mtu = if cell.path.vxlan { ETHERNET_MTU.max(cell.path.mtu + VXLAN_OVERHEAD) } else { cell.path.mtu };
        Self { sites, links, link_mtu }
    }

    /// Address of a site's applications.
    #[must_use]
    pub(crate) fn application(&self, site: usize) -> Ipv4Addr {
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

/// The `n`th address of a /16, from 1.
fn numbered([a, b]: [u8; 2], n: usize) -> Ipv4Addr {
    let [high, low] = (n as u16 + 1).to_be_bytes();
    Ipv4Addr::new(a, b, high, low)
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
        let all = || (0..300usize).map(|n| (numbered([10, 255], n), [mac(1, n, 0), mac(1, n, 1)]));
        assert_eq!(all().map(|(address, _)| address).collect::<BTreeSet<_>>().len(), 300);
        assert_eq!(all().flat_map(|(_, macs)| macs).collect::<BTreeSet<_>>().len(), 600);
    }
}
