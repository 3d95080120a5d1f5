//! Profiles: which headers are compressed, and how (RFC 3095 5.1.2).

use core::fmt;

/// A ROHC profile that this crate implements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Profile {
    /// 0x0000, RFC 3095 5.10: the packet as it is, behind a context identifier.
    Uncompressed,
    /// 0x0001, RFC 3095 5.7: IP/UDP/RTP.
    Rtp,
    /// 0x0002, RFC 3095 5.11: IP/UDP.
    Udp,
    /// 0x0003, RFC 3095 5.12: IP/ESP.
    Esp,
    /// 0x0004, RFC 3843: IP only.
    Ip,
    /// 0x0006, RFC 6846: IP/TCP.
    Tcp,
}

impl Profile {
    /// All profiles, in the order of their identifiers.
    pub const ALL: [Self; 6] = [Self::Uncompressed, Self::Rtp, Self::Udp, Self::Esp, Self::Ip, Self::Tcp];

    /// The identifier that IANA assigned.
    #[must_use]
    pub const fn id(self) -> u16 {
        match self {
            Self::Uncompressed => 0x0000,
            Self::Rtp => 0x0001,
            Self::Udp => 0x0002,
            Self::Esp => 0x0003,
            Self::Ip => 0x0004,
            Self::Tcp => 0x0006,
        }
    }

    /// The profile of an identifier, if it is implemented.
    #[must_use]
    pub const fn from_id(id: u16) -> Option<Self> {
        match id {
            0x0000 => Some(Self::Uncompressed),
            0x0001 => Some(Self::Rtp),
            0x0002 => Some(Self::Udp),
            0x0003 => Some(Self::Esp),
            0x0004 => Some(Self::Ip),
            0x0006 => Some(Self::Tcp),
            _ => None,
        }
    }

    /// The profile octet of IR and IR-DYN packets: the identifier's low octet (RFC 3095 5.2.3).
    pub(crate) const fn octet(self) -> u8 {
        self.id() as u8
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Uncompressed => "Uncompressed",
            Self::Rtp => "RTP",
            Self::Udp => "UDP",
            Self::Esp => "ESP",
            Self::Ip => "IP",
            Self::Tcp => "TCP",
        };
        write!(f, "{name} (0x{:04x})", self.id())
    }
}

/// The channel's parameter PROFILES (RFC 3095 5.1.1): what both ends may use. Always contains
/// [`Profile::Uncompressed`], which any packet can fall back to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ProfileSet(u8);

impl ProfileSet {
    /// All that this crate implements.
    pub const ALL: Self = Self(0b11_1111);

    /// [`Profile::Uncompressed`] alone.
    pub const UNCOMPRESSED: Self = Self(0b1);

    /// This set, and `profile`.
    #[must_use]
    pub const fn with(self, profile: Profile) -> Self {
        Self(self.0 | 1 << profile as u8)
    }

    /// Is `profile` in the set?
    #[must_use]
    pub const fn contains(self, profile: Profile) -> bool {
        self.0 & 1 << profile as u8 != 0
    }

    /// The profiles, in the order of their identifiers.
    pub fn iter(self) -> impl Iterator<Item = Profile> {
        Profile::ALL.into_iter().filter(move |profile| self.contains(*profile))
    }
}

impl Default for ProfileSet {
    fn default() -> Self {
        Self::ALL
    }
}

impl FromIterator<Profile> for ProfileSet {
    fn from_iter<T: IntoIterator<Item = Profile>>(profiles: T) -> Self {
        profiles.into_iter().fold(Self::UNCOMPRESSED, Self::with)
    }
}

impl fmt::Debug for ProfileSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_and_back() {
        for profile in Profile::ALL {
            assert_eq!(Profile::from_id(profile.id()), Some(profile));
            assert!(ProfileSet::ALL.contains(profile));
        }
        assert_eq!(Profile::from_id(0x0005), None);
        let set: ProfileSet = [Profile::Udp].into_iter().collect();
        assert!(set.contains(Profile::Uncompressed) && set.contains(Profile::Udp) && !set.contains(Profile::Rtp));
    }
}
