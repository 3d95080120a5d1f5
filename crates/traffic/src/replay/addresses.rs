//! Who of a trace is UE, and who is in the data network.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::IpAddr;
use core::str::FromStr;

use super::Trace;

/// How the addresses of a trace are told apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AddressRule {
    /// As in the thesis (3.3): a packet between two addresses not seen before goes up, from UE to data network;
    /// an address seen for the first time together with a known one is on the other side of it.
    #[default]
    FirstSight,
    /// UEs are the addresses within these networks.
    UeIn(Vec<Prefix>),
}

/// A network: an address and how many of its bits count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    address: IpAddr,
    length: u8,
}

/// Why a network could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a network; write an address and how many of its bits count, for example `10.0.0.0/8`")]
pub struct PrefixError(String);

/// Which way a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// From a UE to the data network.
    Uplink,
    /// From the data network to a UE.
    Downlink,
}

/// Between whom a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Which way.
    pub direction: Direction,
    /// Whether it is IPv6.
    pub v6: bool,
    /// The UE: 0 is the first that was seen. IPv4 and IPv6 addresses are numbered apart, so that the first of
    /// each belong to UE 0.
    pub ue: u32,
    /// The address in the data network, numbered like that.
    pub pdn: u32,
}

/// Who the addresses of a trace belong to, and what that makes of its packets.
#[derive(Clone, Debug)]
pub struct AddressTable {
    roles: BTreeMap<IpAddr, Role>,
    /// In the order of first sight.
    order: Vec<IpAddr>,
    routes: Vec<Option<Route>>,
    totals: Totals,
    unrouted: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Ue(u32),
    Pdn(u32),
}

/// Addresses so far, by version: IPv4, IPv6.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    ue: [u32; 2],
    pdn: [u32; 2],
}

impl AddressTable {
    /// Reads all packets of `trace` once.
    #[must_use]
    pub fn new(trace: &Trace, rule: &AddressRule) -> Self {
        let mut table = Self {
            roles: BTreeMap::new(),
            order: Vec::new(),
            routes: Vec::with_capacity(trace.len()),
            totals: Totals::default(),
            unrouted: 0,
        };
        for packet in trace.packets() {
            let route = ends(packet.bytes).and_then(|(source, destination)| table.route_of(rule, source, destination));
            table.unrouted += u64::from(route.is_none());
            table.routes.push(route);
        }
        table
    }

    /// Between whom the packet at `index` goes. `None` if both ends are UEs or both in the data network: such a
    /// packet passes no user plane and is not replayed.
    ///
    /// # Panics
    ///
    /// If the trace has no such packet.
    #[must_use]
    pub fn route(&self, index: usize) -> Option<Route> {
        self.routes[index]
    }

    /// How many packets have no route.
    #[must_use]
    pub const fn unrouted(&self) -> u64 {
        self.unrouted
    }

    /// How many UEs there are.
    #[must_use]
    pub fn ues(&self) -> u32 {
        self.totals.ue[0].max(self.totals.ue[1])
    }

    /// How many addresses of the data network there are of a version (the thesis's `PDN_total`).
    #[must_use]
    pub const fn pdns(&self, v6: bool) -> u32 {
        self.totals.pdn[v6 as usize]
    }

    /// The addresses in the order of first sight, each with its number and whether it is a UE's.
    pub fn addresses(&self) -> impl Iterator<Item = (IpAddr, bool, u32)> {
        self.order.iter().filter_map(|address| {
            self.roles.get(address).map(|role| match *role {
                Role::Ue(number) => (*address, true, number),
                Role::Pdn(number) => (*address, false, number),
            })
        })
    }

    fn route_of(&mut self, rule: &AddressRule, source: IpAddr, destination: IpAddr) -> Option<Route> {
        let known = [source, destination].map(|address| self.roles.get(&address).copied());
        let is_ue = match rule {
            AddressRule::UeIn(networks) => {
                [source, destination].map(|address| networks.iter().any(|network| network.contains(address)))
            }
            AddressRule::FirstSight => match known.map(|role| role.map(|role| matches!(role, Role::Ue(_)))) {
                [None, None] => [true, false],
                [Some(source), None] => [source, !source],
                [None, Some(destination)] => [!destination, destination],
                [Some(source), Some(destination)] => [source, destination],
            },
        };
        let source = known[0].unwrap_or_else(|| self.enter(source, is_ue[0]));
        // To oneself: the second look finds what the first entered.
        let entered = self.roles.get(&destination).copied();
        let to = entered.unwrap_or_else(|| self.enter(destination, is_ue[1]));
        let v6 = destination.is_ipv6();
        match (source, to) {
            (Role::Ue(ue), Role::Pdn(pdn)) => Some(Route { direction: Direction::Uplink, v6, ue, pdn }),
            (Role::Pdn(pdn), Role::Ue(ue)) => Some(Route { direction: Direction::Downlink, v6, ue, pdn }),
            _ => None,
        }
    }

    fn enter(&mut self, address: IpAddr, is_ue: bool) -> Role {
        let totals = if is_ue { &mut self.totals.ue } else { &mut self.totals.pdn };
        let next = &mut totals[usize::from(address.is_ipv6())];
        let role = if is_ue { Role::Ue(*next) } else { Role::Pdn(*next) };
        *next += 1;
        self.roles.insert(address, role);
        self.order.push(address);
        role
    }
}

impl Prefix {
    /// The network of `length` bits that `address` is in, or `None` if an address has fewer bits.
    #[must_use]
    pub fn new(address: IpAddr, length: u8) -> Option<Self> {
        let bits = if address.is_ipv4() { 32 } else { 128 };
        (length <= bits).then_some(Self { address, length })
    }

    /// Whether `address` is in the network.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let differ = match (self.address, address) {
            (IpAddr::V4(a), IpAddr::V4(b)) => u128::from(a.to_bits() ^ b.to_bits()) << 96,
            (IpAddr::V6(a), IpAddr::V6(b)) => a.to_bits() ^ b.to_bits(),
            _ => return false,
        };
        differ.leading_zeros() >= u32::from(self.length)
    }
}

impl FromStr for Prefix {
    type Err = PrefixError;

    /// An address alone is a network of one.
    fn from_str(text: &str) -> Result<Self, PrefixError> {
        let wrong = || PrefixError(text.to_string());
        let (address, length) = text.split_once('/').map_or((text, None), |(address, length)| (address, Some(length)));
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let all = if address.is_ipv4() { 32 } else { 128 };
        let length = length.map_or(Ok(all), str::parse).map_err(|_| wrong())?;
        Self::new(address, length).ok_or_else(wrong)
    }
}

/// Source and destination of an IP packet whose fixed header is there.
pub(super) fn ends(packet: &[u8]) -> Option<(IpAddr, IpAddr)> {
    let v4 = |at: usize| packet.get(at..)?.first_chunk::<4>().map(|octets| IpAddr::from(*octets));
    let v6 = |at: usize| packet.get(at..)?.first_chunk::<16>().map(|octets| IpAddr::from(*octets));
    match packet.first()? >> 4 {
        4 => Some((v4(12)?, v4(16)?)),
        6 => Some((v6(8)?, v6(24)?)),
        _ => None,
    }
}
