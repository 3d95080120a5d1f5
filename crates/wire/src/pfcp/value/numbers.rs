//! Numbers: of rules, of bytes and times, of sides and interfaces.

use core::fmt;

use crate::gtpu::Qfi;
use crate::pfcp::codec::{Parts, Value, Wrong};
use crate::pfcp::{Encoding, Vec};

macro_rules! numbers {
    ($($(#[$meta:meta])* $name:ident($kind:ty),)*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $kind);

        impl Value for $name {
            fn read(bytes: &[u8]) -> Result<Self, Wrong> {
                <$kind>::read(bytes).map(Self)
            }

            fn write(&self, out: &mut Vec<u8>, encoding: Encoding) {
                self.0.write(out, encoding);
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

macro_rules! integers {
    ($($kind:ty)*) => {$(
        impl Value for $kind {
            fn read(bytes: &[u8]) -> Result<Self, Wrong> {
                Parts(bytes).take().map(Self::from_be_bytes)
            }

            fn write(&self, out: &mut Vec<u8>, _: Encoding) {
                out.extend_from_slice(&self.to_be_bytes());
            }
        }
    )*};
}

integers! { u8 u16 u32 u64 }

numbers! {
    /// A packet detection rule, within its session (TS 29.244 8.2.36).
    PdrId(u16),
    /// A forwarding action rule, within its session (TS 29.244 8.2.74).
    FarId(u32),
    /// A QoS enforcement rule, within its session (TS 29.244 8.2.75).
    QerId(u32),
    /// A usage reporting rule, within its session (TS 29.244 8.2.54).
    UrrId(u32),
    /// A buffering action rule, within its session (TS 29.244 8.2.57).
    BarId(u8),
    /// Type of the information element a refusal is about (TS 29.244 8.2.22).
    OffendingIe(u16),
    /// Type of service in the upper octet, and which of its bits count in the lower (TS 29.244 8.2.12).
    TransportMarking(u16),
    /// Seconds since 1900, as in the first half of an NTP time stamp (RFC 5905 6).
    NtpTime(u32),
}

/// A time of up to 310 hours in a few steps, or for ever (TS 29.244 8.2.78, as TS 29.274 8.87).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timer(u8);

/// A side of the user plane (TS 29.244 8.2.2, 8.2.24).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Interface {
    /// Towards the UE.
    #[default]
    Access,
    /// Towards the data network, or the next user plane.
    Core,
    /// Services on the way to the data network.
    SgiLan,
    /// The control plane.
    CpFunction,
    /// Another one, of 16.
    Other(u8),
}

/// An interface by its name in the architecture (TS 29.244 8.2.118), of 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InterfaceType(pub u8);

/// Versions of IP in a session (TS 29.244 8.2.79).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PdnType {
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
    /// Both.
    Ipv4v6,
    /// Neither: bytes.
    NonIp,
    /// Ethernet frames.
    Ethernet,
}

/// Whether packets pass, for each direction (TS 29.244 8.2.7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct GateStatus {
    /// From the UE.
    pub uplink: Gate,
    /// To the UE.
    pub downlink: Gate,
}

/// Whether packets pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Gate {
    /// They do.
    #[default]
    Open,
    /// They do not.
    Closed,
}

/// Rates in kbit/s, 1000 bits each (TS 29.244 8.2.8, 8.2.9). Written with 40 bits, which is 1.1 Pbit/s; more is written as that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct BitRates {
    /// From the UE.
    pub uplink: u64,
    /// To the UE.
    pub downlink: u64,
}

/// Bytes (TS 29.244 8.2.13, 8.2.50) or packets, where they are said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Volumes {
    /// Both directions together.
    pub total: Option<u64>,
    /// From the UE.
    pub uplink: Option<u64>,
    /// To the UE.
    pub downlink: Option<u64>,
}

/// What was counted (TS 29.244 8.2.44).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct VolumeMeasurement {
    /// Bytes of user packets.
    pub bytes: Volumes,
    /// User packets.
    pub packets: Volumes,
}

/// The rule that could not be made or changed (TS 29.244 8.2.80).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailedRule {
    /// A packet detection rule.
    Pdr(PdrId),
    /// A forwarding action rule.
    Far(FarId),
    /// A QoS enforcement rule.
    Qer(QerId),
    /// A usage reporting rule.
    Urr(UrrId),
    /// A buffering action rule.
    Bar(BarId),
    /// One of another kind, of 32.
    Other(u8),
}

impl NtpTime {
    /// Seconds from 1900 to 1970.
    const UNIX: u64 = 2_208_988_800;

    /// The time so many seconds after 1970.
    #[must_use]
    pub const fn from_unix(seconds: u64) -> Self {
        Self(seconds.wrapping_add(Self::UNIX) as u32)
    }

    /// Seconds since 1970. Values without their highest bit are of the era that begins in 2036 (RFC 4330 3).
    #[must_use]
    pub const fn to_unix(self) -> u64 {
        let era = if self.0 >> 31 == 0 { 1 << 32 } else { 0 };
        era + self.0 as u64 - Self::UNIX
    }
}

impl Timer {
    /// For ever.
    pub const INFINITE: Self = Self(7 << 5);

    /// Units of a timer in seconds, by their number.
    const UNITS: [u64; 5] = [2, 60, 600, 3_600, 36_000];

    /// The shortest time that is not shorter than this; [`Timer::INFINITE`] for more than 310 hours.
    #[must_use]
    pub fn from_seconds(seconds: u64) -> Self {
        let fits = |(unit, length): (u8, &u64)| {
            let steps = u8::try_from(seconds.div_ceil(*length)).ok().filter(|&steps| steps < 32)?;
            Some(Self(unit << 5 | steps))
        };
        (0..).zip(&Self::UNITS).find_map(fits).unwrap_or(Self::INFINITE)
    }

    /// Seconds; `None` for ever.
    #[must_use]
    pub fn seconds(self) -> Option<u64> {
        let steps = u64::from(self.0 & 0x1f);
        match self.0 >> 5 {
            7 => None,
            // Others are minutes (TS 29.274 8.87).
            unit => Some(steps * Self::UNITS.get(usize::from(unit)).unwrap_or(&60)),
        }
    }
}

impl InterfaceType {
    /// From the eNodeB to the serving gateway.
    pub const S1_U: Self = Self(0);
    /// Between serving and packet gateway.
    pub const S5_S8_U: Self = Self(1);
    /// From the gNB to the UPF.
    pub const N3: Self = Self(11);
    /// Between UPFs.
    pub const N9: Self = Self(15);
    /// From the packet gateway to the data network.
    pub const SGI: Self = Self(16);
    /// From the UPF to the data network.
    pub const N6: Self = Self(17);
}

impl BitRates {
    const MAX: u64 = (1 << 40) - 1;
}

impl Value for Timer {
    fn read(bytes: &[u8]) -> Result<Self, Wrong> {
        u8::read(bytes).map(Self)
    }

    fn write(&self, out: &mut Vec<u8>, _: Encoding) {
        out.push(self.0);
    }
}

impl Value for Qfi {
    fn read(bytes: &[u8]) -> Result<Self, Wrong> {
        Self::new(u8::read(bytes)? & 0x3f).ok_or(Wrong::Content)
    }

    fn write(&self, out: &mut Vec<u8>, _: Encoding) {
        out.push(self.get());
    }
}

impl Value for Interface {
    fn read(bytes: &[u8]) -> Result<Self, Wrong> {
        Ok(match u8::read(bytes)? & 0x0f {
            0 => Self::Access,
            1 => Self::Core,
            2 => Self::SgiLan,
            3 => Self::CpFunction,
            other => Self::Other(other),
        })
    }

    fn write(&self, out: &mut Vec<u8>, _: Encoding) {
        out.push(match self {
            Self::Access => 0,
            Self::Core => 1,
            Self::SgiLan => 2,
            Self::CpFunction => 3,
            Self::Other(other) => other & 0x0f,
        });
    }
}

impl Value for InterfaceType {
    fn read(bytes: &[u8]) -> Result<Self, Wrong> {
        Ok(Self(u8::read(bytes)? & 0x3f))
    }

    fn write(&self, out: &mut Vec<u8>, _: Encoding) {
        out.push(self.0 & 0x3f);
    }
}

impl Value for PdnType {
    fn read(bytes: &[u8]) -> Result<Self, Wrong> {
        match u8::read(bytes)? & 0x07 {
            1 => Ok(Self::Ipv4),
            2 => Ok(Self::Ipv6),
            3 => Ok(Self::Ipv4v6),
            4 => Ok(Self::NonIp),
            5 => Ok(Self::Ethernet),
            _ => Err(Wrong::Content),
        }
    }

    fn write(&self, out: &mut Vec<u8>, _: Encoding) {
        out.push(match self {
            Self::Ipv4 => 1,
            Self::Ipv6 => 2,
            Self::Ipv4v6 => 3,
            Self::NonIp => 4,
            Self::Ethernet => 5,
        });
    }
}

impl Value for GateStatus {
    fn read(bytes: &[u8]) -> Result<Self, Wrong> {
        let octet = u8::read(bytes)?;
        let gate = |bits: u8| match bits & 0x03 {
            0 => Ok(Gate::Open),
            1 => Ok(Gate::Closed),
            _ => Err(Wrong::Content),
        };
        Ok(Self { uplink: gate(octet >> 2)?, downlink: gate(octet)? })
    }

    fn write(&self, out: &mut Vec<u8>, _: Encoding) {
        let bits = |gate| u8::from(gate == Gate::Closed);
        out.push(bits(self.uplink) << 2 | bits(self.downlink));
    }
}

impl Value for BitRates {
    fn read(bytes: &[u8]) -> Result<Self, Wrong> {
        let mut parts = Parts(bytes);
        let mut rate = || {
            let mut octets = [0; 8];
            octets[3..].copy_from_slice(&parts.take::<5>()?);
            Ok(u64::from_be_bytes(octets))
        };
        Ok(Self { uplink: rate()?, downlink: rate()? })
    }

    fn write(&self, out: &mut Vec<u8>, _: Encoding) {
        for rate in [self.uplink, self.downlink] {
            out.extend_from_slice(&rate.min(Self::MAX).to_be_bytes()[3..]);
        }
    }
}

impl Volumes {
    /// Which are there, in the order of their flags.
    fn flags(&self) -> u8 {
        [self.total, self.uplink, self.downlink].iter().rev().fold(0, |flags, v| flags << 1 | u8::from(v.is_some()))
    }

    fn read_those(flags: u8, parts: &mut Parts<'_>) -> Result<Self, Wrong> {
        let mut one = |flag| parts.when(flags & flag != 0, |parts| parts.take().map(u64::from_be_bytes));
        Ok(Self { total: one(1)?, uplink: one(2)?, downlink: one(4)? })
    }

    fn write_those(&self, out: &mut Vec<u8>) {
        for volume in [self.total, self.uplink, self.downlink].into_iter().flatten() {
            out.extend_from_slice(&volume.to_be_bytes());
        }
    }
}

impl Value for Volumes {
    fn read(bytes: &[u8]) -> Result<Self, Wrong> {
        let mut parts = Parts(bytes);
        let flags = parts.octet()?;
        Self::read_those(flags, &mut parts)
    }

    fn write(&self, out: &mut Vec<u8>, _: Encoding) {
        out.push(self.flags());
        self.write_those(out);
    }
}

impl Value for VolumeMeasurement {
    fn read(bytes: &[u8]) -> Result<Self, Wrong> {
        let mut parts = Parts(bytes);
        let flags = parts.octet()?;
        let bytes = Volumes::read_those(flags, &mut parts)?;
        Ok(Self { bytes, packets: Volumes::read_those(flags >> 3, &mut parts)? })
    }

    fn write(&self, out: &mut Vec<u8>, _: Encoding) {
        out.push(self.bytes.flags() | self.packets.flags() << 3);
        self.bytes.write_those(out);
        self.packets.write_those(out);
    }
}

impl Value for FailedRule {
    fn read(bytes: &[u8]) -> Result<Self, Wrong> {
        let mut parts = Parts(bytes);
        Ok(match parts.octet()? & 0x1f {
            0 => Self::Pdr(PdrId::read(parts.0)?),
            1 => Self::Far(FarId::read(parts.0)?),
            2 => Self::Qer(QerId::read(parts.0)?),
            3 => Self::Urr(UrrId::read(parts.0)?),
            4 => Self::Bar(BarId::read(parts.0)?),
            other => Self::Other(other),
        })
    }

    fn write(&self, out: &mut Vec<u8>, encoding: Encoding) {
        match self {
            Self::Pdr(id) => {
                out.push(0);
                id.write(out, encoding);
            }
            Self::Far(id) => {
                out.push(1);
                id.write(out, encoding);
            }
            Self::Qer(id) => {
                out.push(2);
                id.write(out, encoding);
            }
            Self::Urr(id) => {
                out.push(3);
                id.write(out, encoding);
            }
            Self::Bar(id) => {
                out.push(4);
                id.write(out, encoding);
            }
            Self::Other(kind) => out.push(kind & 0x1f),
        }
    }
}

impl fmt::Display for FailedRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pdr(id) => write!(f, "PDR {id}"),
            Self::Far(id) => write!(f, "FAR {id}"),
            Self::Qer(id) => write!(f, "QER {id}"),
            Self::Urr(id) => write!(f, "URR {id}"),
            Self::Bar(id) => write!(f, "BAR {id}"),
            Self::Other(kind) => write!(f, "a rule of kind {kind}"),
        }
    }
}
