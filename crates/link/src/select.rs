//! Which packets a branch takes.

use core::net::IpAddr;

use engine::Random;
use wire::Headers;

use crate::config::{Network, Selector};

impl Selector {
    /// Whether the branch takes the packet. The die is cast only if all else holds.
    pub(crate) fn takes(&self, headers: &Headers, random: &mut Random) -> bool {
        if self.reads_headers() {
            let Some(ip) = headers.ip else { return false };
            let holds = self.source.is_none_or(|network| network.contains(ip.source))
                && self.destination.is_none_or(|network| network.contains(ip.destination))
                && self.protocol.is_none_or(|protocol| protocol == ip.protocol)
                && self.port.is_none_or(|port| ip.ports.is_some_and(|(from, to)| from == port || to == port))
                && self.dscp.is_none_or(|dscp| dscp == ip.dscp);
            if !holds {
                return false;
            }
        }
        self.probability.is_none_or(|probability| random.chance(probability))
    }

    /// Whether it looks at a packet's headers; otherwise at chance alone.
    #[must_use]
    pub fn reads_headers(&self) -> bool {
        self.source.is_some()
            || self.destination.is_some()
            || self.protocol.is_some()
            || self.port.is_some()
            || self.dscp.is_some()
    }
}

impl Network {
    /// Whether the address is in the network; never if it is of the other IP version.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let prefix = u32::from(self.prefix);
        match (self.address, address) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                (network.to_bits() ^ address.to_bits()).leading_zeros() >= prefix
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                (network.to_bits() ^ address.to_bits()).leading_zeros() >= prefix
            }
            _ => false,
        }
    }
}
