//! Endpoints of tunnels and sessions, addresses of UEs, filters.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::Text;
use crate::pfcp::codec::{Parts, Value, Wrong};
use crate::pfcp::{Encoding, Vec};

/// One address, or one of each version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Addresses {
    /// IPv4.
    V4(Ipv4Addr),
    /// IPv6.
    V6(Ipv6Addr),
    /// Both.
    Both(Ipv4Addr, Ipv6Addr),
}

/// A session's endpoint at a node (TS 29.244 8.2.37).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FSeid {
    /// Its identifier there.
    pub seid: u64,
    /// Where that is.
    pub addresses: Addresses,
}

/// A tunnel's endpoint at a node (TS 29.244 8.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FTeid {
    /// This one.
    Fixed {
        /// Its identifier there.
        teid: u32,
        /// Where that is.
        addresses: Addresses,
    },
    /// One that the user plane is to choose.
    Choose {
        /// With an IPv4 address.
        v4: bool,
        /// With an IPv6 address.
        v6: bool,
        /// Rules with the same number are to get the same endpoint.
        id: Option<u8>,
    },
}

/// Addresses of a UE (TS 29.244 8.2.62).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UeIp {
    /// The addresses, unless the user plane is to choose them. An IPv6 address stands for its /64, unless `prefix_length` is there.
    pub addresses: Option<Addresses>,
    /// Packets have it as their destination, not their source.
    pub destination: bool,
    /// How many bits shorter than 64 the prefix of the UE is.
    pub delegated_bits: Option<u8>,
    /// Length of the prefix of the UE.
    pub prefix_length: Option<u8>,
    /// The user plane is to choose an IPv4 address.
    pub choose_v4: bool,
    /// The user plane is to choose an IPv6 prefix.
    pub choose_v6: bool,
}

/// Headers to put before a packet (TS 29.244 8.2.56).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OuterHeaderCreation {
    /// GTP-U over UDP.
    GtpU {
        /// The tunnel at the receiver.
        teid: u32,
        /// The receiver.
        addresses: Addresses,
    },
    /// Another one, by its description in octets 5 and 6, without what follows.
    Other(u16),
}

/// Headers to take off a packet (TS 29.244 8.2.64), by its description: octet 5.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OuterHeaderRemoval(pub u8);

/// The other end of a path (TS 29.244 8.2.70).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RemotePeer(pub Addresses);

/// Which flows are meant: those that fit all that is there (TS 29.244 8.2.5).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SdfFilter {
    /// Addresses, protocol and ports as an `IPFilterRule` (TS 29.212 5.4.2).
    pub description: Option<Text>,
    /// Type of service in the upper octet, and which of its bits count in the lower.
    pub tos: Option<u16>,
    /// Security parameters index of ESP.
    pub spi: Option<u32>,
    /// IPv6's flow label, 20 bits.
    pub flow_label: Option<u32>,
    /// The same filter in a rule of the other direction.
    pub id: Option<u32>,
}

impl Addresses {
    /// The IPv4 address, if there is one.
    #[must_use]
    pub const fn v4(self) -> Option<Ipv4Addr> {
        match self {
            Self::V4(address) | Self::Both(address, _) => Some(address),
            Self::V6(_) => None,
        }
    }

    /// The IPv6 address, if there is one.
    #[must_use]
    pub const fn v6(self) -> Option<Ipv6Addr> {
        match self {
            Self::V6(address) | Self::Both(_, address) => Some(address),
            Self::V4(_) => None,
        }
    }

    /// These, if there are any.
    #[must_use]
    pub const fn from_parts(v4: Option<Ipv4Addr>, v6: Option<Ipv6Addr>) -> Option<Self> {
        match (v4, v6) {
            (Some(v4), Some(v6)) => Some(Self::Both(v4, v6)),
            (Some(v4), None) => Some(Self::V4(v4)),
            (None, Some(v6)) => Some(Self::V6(v6)),
            (None, None) => None,
        }
    }

    fn read_those(v4: bool, v6: bool, parts: &mut Parts<'_>) -> Result<Option<Self>, Wrong> {
        let v4 = parts.when(v4, |parts| parts.take::<4>().map(Ipv4Addr::from))?;
        let v6 = parts.when(v6, |parts| parts.take::<16>().map(Ipv6Addr::from))?;
        Ok(Self::from_parts(v4, v6))
    }

    fn write_those(self, out: &mut Vec<u8>) {
        if let Some(address) = self.v4() {
            out.extend_from_slice(&address.octets());
        }
        if let Some(address) = self.v6() {
            out.extend_from_slice(&address.octets());
        }
    }

    /// The flags for those that are there.
    fn flags(self, v4: u8, v6: u8) -> u8 {
        self.v4().map_or(0, |_| v4) | self.v6().map_or(0, |_| v6)
    }
}

impl From<IpAddr> for Addresses {
    fn from(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self::V4(address),
            IpAddr::V6(address) => Self::V6(address),
        }
    }
}

impl OuterHeaderRemoval {
    /// GTP-U, UDP and IPv4.
    pub const GTPU_V4: Self = Self(0);
    /// GTP-U, UDP and IPv6.
    pub const GTPU_V6: Self = Self(1);
    /// GTP-U, UDP and IP of either version.
    pub const GTPU: Self = Self(6);
}

impl Value for FSeid {
    fn read(bytes: &[u8]) -> Result<Self, Wrong> {
        let mut parts = Parts(bytes);
        let flags = parts.octet()?;
        let seid = u64::from_be_bytes(parts.take()?);
        let addresses = Addresses::read_those(flags & 0x02 != 0, flags & 0x01 != 0, &mut parts)?;
        Ok(Self { seid, addresses: addresses.ok_or(Wrong::Content)? })
    }

    fn write(&self, out: &mut Vec<u8>, _: Encoding) {
        out.push(self.addresses.flags(0x02, 0x01));
        out.extend_from_slice(&self.seid.to_be_bytes());
        self.addresses.write_those(out);
    }
}

impl Value for FTeid {
    fn read(bytes: &[u8]) -> Result<Self, Wrong> {
        let mut parts = Parts(bytes);
        let flags = parts.octet()?;
        let (v4, v6) = (flags & 0x01 != 0, flags & 0x02 != 0);
        if flags & 0x04 != 0 {
            return Ok(Self::Choose { v4, v6, id: parts.when(flags & 0x08 != 0, Parts::octet)? });
        }
        let teid = u32::from_be_bytes(parts.take()?);
        let addresses = Addresses::read_those(v4, v6, &mut parts)?;
        Ok(Self::Fixed { teid, addresses: addresses.ok_or(Wrong::Content)? })
    }

    fn write(&self, out: &mut Vec<u8>, _: Encoding) {
        match *self {
            Self::Fixed { teid, addresses } => {
                out.push(addresses.flags(0x01, 0x02));
                out.extend_from_slice(&teid.to_be_bytes());
                addresses.write_those(out);
            }
            Self::Choose { v4, v6, id } => {
                out.push(0x04 | u8::from(v4) | u8::from(v6) << 1 | u8::from(id.is_some()) << 3);
                out.extend(id);
            }
        }
    }
}

impl UeIp {
    /// These addresses, as the source or destination of packets.
    #[must_use]
    pub const fn new(addresses: Addresses, destination: bool) -> Self {
        Self {
            addresses: Some(addresses),
            destination,
            delegated_bits: None,
            prefix_length: None,
            choose_v4: false,
            choose_v6: false,
        }
    }
}

impl Value for UeIp {
    fn read(bytes: &[u8]) -> Result<Self, Wrong> {
        let mut parts = Parts(bytes);
        let flags = parts.octet()?;
        Ok(Self {
            addresses: Addresses::read_those(flags & 0x02 != 0, flags & 0x01 != 0, &mut parts)?,
            destination: flags & 0x04 != 0,
            delegated_bits: parts.when(flags & 0x08 != 0, Parts::octet)?,
            prefix_length: parts.when(flags & 0x40 != 0, Parts::octet)?,
            choose_v4: flags & 0x10 != 0,
            choose_v6: flags & 0x20 != 0,
        })
    }

    fn write(&self, out: &mut Vec<u8>, _: Encoding) {
        let bits = [
            (self.destination, 0x04),
            (self.delegated_bits.is_some(), 0x08),
            (self.choose_v4, 0x10),
            (self.choose_v6, 0x20),
            (self.prefix_length.is_some(), 0x40),
        ];
        let there = self.addresses.map_or(0, |addresses| addresses.flags(0x02, 0x01));
        out.push(bits.iter().filter(|(set, _)| *set).fold(there, |flags, (_, bit)| flags | bit));
        if let Some(addresses) = self.addresses {
            addresses.write_those(out);
        }
        out.extend(self.delegated_bits);
        out.extend(self.prefix_length);
    }
}

impl Value for OuterHeaderCreation {
    fn read(bytes: &[u8]) -> Result<Self, Wrong> {
        let mut parts = Parts(bytes);
        let description = parts.take()?;
        // Octet 5: bit 1 is GTP-U over IPv4, bit 2 over IPv6, and the others mean something else.
        let ([flags @ 1..4, _], mut parts) = (description, parts) else {
            return Ok(Self::Other(u16::from_be_bytes(description)));
        };
        let teid = u32::from_be_bytes(parts.take()?);
        let addresses = Addresses::read_those(flags & 0x01 != 0, flags & 0x02 != 0, &mut parts)?;
        Ok(Self::GtpU { teid, addresses: addresses.ok_or(Wrong::Content)? })
    }

    fn write(&self, out: &mut Vec<u8>, _: Encoding) {
        match *self {
            Self::GtpU { teid, addresses } => {
                out.extend_from_slice(&[addresses.flags(0x01, 0x02), 0]);
                out.extend_from_slice(&teid.to_be_bytes());
                addresses.write_those(out);
            }
            Self::Other(description) => out.extend_from_slice(&description.to_be_bytes()),
        }
    }
}

impl Value for OuterHeaderRemoval {
    fn read(bytes: &[u8]) -> Result<Self, Wrong> {
        u8::read(bytes).map(Self)
    }

    fn write(&self, out: &mut Vec<u8>, _: Encoding) {
        out.push(self.0);
    }
}

impl Value for RemotePeer {
    fn read(bytes: &[u8]) -> Result<Self, Wrong> {
        let mut parts = Parts(bytes);
        let flags = parts.octet()?;
        Addresses::read_those(flags & 0x02 != 0, flags & 0x01 != 0, &mut parts)?.map(Self).ok_or(Wrong::Content)
    }

    fn write(&self, out: &mut Vec<u8>, _: Encoding) {
        out.push(self.0.flags(0x02, 0x01));
        self.0.write_those(out);
    }
}

impl Value for SdfFilter {
    fn read(bytes: &[u8]) -> Result<Self, Wrong> {
        let mut parts = Parts(bytes);
        let [flags, _] = parts.take()?;
        let description = parts.when(flags & 0x01 != 0, |parts| {
            let length = u16::from_be_bytes(parts.take()?);
            let (text, rest) = parts.0.split_at_checked(usize::from(length)).ok_or(Wrong::Length)?;
            parts.0 = rest;
            Text::read(text)
        })?;
        Ok(Self {
            description,
            tos: parts.when(flags & 0x02 != 0, |parts| parts.take().map(u16::from_be_bytes))?,
            spi: parts.when(flags & 0x04 != 0, |parts| parts.take().map(u32::from_be_bytes))?,
            flow_label: parts.when(flags & 0x08 != 0, |parts| {
                let [high, middle, low] = parts.take()?;
                Ok(u32::from_be_bytes([0, high & 0x0f, middle, low]))
            })?,
            id: parts.when(flags & 0x10 != 0, |parts| parts.take().map(u32::from_be_bytes))?,
        })
    }

    fn write(&self, out: &mut Vec<u8>, _: Encoding) {
        let there = [
            self.description.is_some(),
            self.tos.is_some(),
            self.spi.is_some(),
            self.flow_label.is_some(),
            self.id.is_some(),
        ];
        out.push(there.iter().rev().fold(0, |flags, &there| flags << 1 | u8::from(there)));
        out.push(0);
        if let Some(text) = &self.description {
            out.extend_from_slice(&(text.0.len() as u16).to_be_bytes());
            out.extend_from_slice(text.0.as_bytes());
        }
        if let Some(tos) = self.tos {
            out.extend_from_slice(&tos.to_be_bytes());
        }
        if let Some(spi) = self.spi {
            out.extend_from_slice(&spi.to_be_bytes());
        }
        if let Some(label) = self.flow_label {
            out.extend_from_slice(&(label & 0xf_ffff).to_be_bytes()[1..]);
        }
        if let Some(id) = self.id {
            out.extend_from_slice(&id.to_be_bytes());
        }
    }
}
