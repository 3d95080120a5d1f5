//! Which packets something is meant for: a link's branch, an adapter's rule.

use core::net::IpAddr;

use serde::{Deserialize, Serialize};
use wire::{Headers, protocol};

/// Conditions on a packet's headers: all that are given must hold. Addresses, ports, DSCP and the
/// rest are those of the outermost IP header; a packet without the field does not match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Selector {
    /// Source network.
    pub source: Option<Network>,
    /// Destination network.
    pub destination: Option<Network>,
    /// IP protocol number.
    pub protocol: Option<u8>,
    /// Source or destination port (TCP, UDP, UDP-Lite, DCCP, SCTP).
    pub port: Option<u16>,
    /// Differentiated services code point (RFC 2474), 0 to 63.
    pub dscp: Option<u8>,
    /// IPv6's flow label (RFC 6437), 1 to 1,048,575.
    pub flow_label: Option<u32>,
    /// Security parameters index of ESP (RFC 4303 2.1).
    pub spi: Option<u32>,
}

/// An address prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    /// Any address in the network.
    pub address: IpAddr,
    /// Length of the prefix in bits: 0 to 32 or 128.
    pub prefix: u8,
}

/// A condition that no packet could meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// A prefix is longer than its address.
    #[error("`{field}` is {address}/{prefix}; it must be a prefix of 0 to {longest} bits")]
    Prefix {
        /// Which condition.
        field: &'static str,
        /// The address.
        address: IpAddr,
        /// Bits that are given.
        prefix: u8,
        /// Bits that the address has.
        longest: u8,
    },
    /// Two conditions that no packet meets together.
    #[error("`{one}` and `{other}` never hold together: {why}")]
    Apart {
        /// One.
        one: &'static str,
        /// The other.
        other: &'static str,
        /// Why.
        why: &'static str,
    },
    /// A number does not fit its field.
    #[error("`{field}` is {value}; it must be {least} to {most}")]
    OutOfRange {
        /// Which condition.
        field: &'static str,
        /// What it is.
        value: u32,
        /// The least it may be.
        least: u32,
        /// The most it may be.
        most: u32,
    },
}

impl Selector {
    /// Whether a packet with these headers meets all conditions.
    #[must_use]
    pub fn matches(&self, headers: &Headers) -> bool {
        if *self == Self::default() {
            return true;
        }
        let Some(ip) = headers.ip else { return false };
        self.source.is_none_or(|network| network.contains(ip.source))
            && self.destination.is_none_or(|network| network.contains(ip.destination))
            && self.protocol.is_none_or(|protocol| protocol == ip.protocol)
            && self.port.is_none_or(|port| ip.ports.is_some_and(|(from, to)| from == port || to == port))
            && self.dscp.is_none_or(|dscp| dscp == ip.dscp)
            && self.flow_label.is_none_or(|label| label == ip.flow_label)
            && self.spi.is_none_or(|spi| ip.spi == Some(spi))
    }

    /// Whether the conditions can be met.
    ///
    /// # Errors
    ///
    /// Names the condition and its range.
    pub fn validate(&self) -> Result<(), SelectorError> {
        for (field, network) in [("source", self.source), ("destination", self.destination)] {
            if let Some(Network { address, prefix }) = network {
                let longest = if address.is_ipv4() { 32 } else { 128 };
                if prefix > longest {
                    return Err(SelectorError::Prefix { field, address, prefix, longest });
                }
            }
        }
        let number = |field, value: Option<u32>, least, most| match value {
            Some(value) if !(least..=most).contains(&value) => {
                Err(SelectorError::OutOfRange { field, value, least, most })
            }
            _ => Ok(()),
        };
        number("dscp", self.dscp.map(u32::from), 0, 63)?;
        number("port", self.port.map(u32::from), 1, 65_535)?;
        number("flow-label", self.flow_label, 1, 0xf_ffff)?;
        let apart = |one, other, why| Err(SelectorError::Apart { one, other, why });
        let is_v4 = |network: Option<Network>| network.map(|network| network.address.is_ipv4());
        match (is_v4(self.source), is_v4(self.destination)) {
            (Some(from), Some(to)) if from != to => {
                return apart("source", "destination", "they are of different versions of IP");
            }
            (Some(true), _) | (_, Some(true)) if self.flow_label.is_some() => {
                return apart("flow-label", "source or destination", "IPv4 has no flow label");
            }
            _ => {}
        }
        match self.protocol {
            Some(protocol) if self.spi.is_some() && protocol != protocol::ESP => {
                apart("protocol", "spi", "only ESP (50) has an SPI")
            }
            _ if self.spi.is_some() && self.port.is_some() => apart("port", "spi", "ESP has no ports"),
            _ => Ok(()),
        }
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
