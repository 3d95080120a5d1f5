//! Ranges of IP addresses.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Consecutive addresses of one family, at least one; or UEs, of which IPv6 gives each a /64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRange {
    first: IpAddr,
    count: u64,
    /// Addresses from one to the next, as a power of two.
    shift: u32,
}

/// Why addresses are no range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RangeError {
    /// It would end beyond the last address of the family, or among multicast addresses.
    #[error("{count} addresses from {first} on do not end below the multicast addresses; begin lower or take fewer")]
    TooLong {
        /// The first address.
        first: IpAddr,
        /// How many there were to be.
        count: u64,
    },
    /// The first address is not one of a host.
    #[error("{0} is not the address of a host; give a unicast address")]
    NotUnicast(IpAddr),
}

impl AddressRange {
    /// `count` addresses from `first` on; none is taken for one.
    ///
    /// # Errors
    ///
    /// [`RangeError`]: not unicast addresses all of them.
    pub fn new(first: IpAddr, count: u64) -> Result<Self, RangeError> {
        Self::apart(first, count, 0)
    }

    /// As [`new`](Self::new), for UEs: each IPv6 address is in a /64 of its own (TS 23.501 5.8.2.2.1,
    /// TS 29.244 8.2.62).
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn of_ues(first: IpAddr, count: u64) -> Result<Self, RangeError> {
        Self::apart(first, count, if first.is_ipv6() { 64 } else { 0 })
    }

    fn apart(first: IpAddr, count: u64, shift: u32) -> Result<Self, RangeError> {
        let count = count.max(1);
        let host = match first {
            IpAddr::V4(v4) => !v4.is_unspecified() && !v4.is_broadcast(),
            IpAddr::V6(v6) => !v6.is_unspecified(),
        };
        if !host || first.is_multicast() {
            return Err(RangeError::NotUnicast(first));
        }
        let end = match first {
            // 224.0.0.0 and ff00:: (RFC 5771, RFC 4291 2.7).
            IpAddr::V4(_) => u128::from(Ipv4Addr::new(224, 0, 0, 0).to_bits()),
            IpAddr::V6(_) => Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0).to_bits(),
        };
        // The largest count times the largest step fits.
        match (number(first) >> shift << shift).checked_add(u128::from(count) << shift) {
            Some(after) if after <= end => Ok(Self { first, count, shift }),
            _ => Err(RangeError::TooLong { first, count }),
        }
    }

    /// The first address.
    #[must_use]
    pub fn first(&self) -> IpAddr {
        self.first
    }

    /// The last address.
    #[must_use]
    pub fn last(&self) -> IpAddr {
        self.at(self.count - 1)
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The address number `index`; beyond the end it goes on from the first.
    #[must_use]
    pub fn at(&self, index: u64) -> IpAddr {
        let offset = index % self.count;
        match self.first {
            // The range's end was checked.
            IpAddr::V4(v4) => Ipv4Addr::from_bits(v4.to_bits().wrapping_add(offset as u32)).into(),
            IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits().wrapping_add(u128::from(offset) << self.shift)).into(),
        }
    }

    /// The number of `address` in the range, if it is in it, or in a UE's /64.
    #[must_use]
    pub fn find(&self, address: IpAddr) -> Option<u64> {
        if self.first.is_ipv4() != address.is_ipv4() {
            return None;
        }
        let offset = (number(address) >> self.shift).checked_sub(number(self.first) >> self.shift)?;
        u64::try_from(offset).ok().filter(|offset| *offset < self.count)
    }

    /// Whether some address is in both.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        let ends = |range: &Self| {
            let begin = number(range.first) >> range.shift << range.shift;
            (begin, begin + (u128::from(range.count) << range.shift))
        };
        let ((a, a_end), (b, b_end)) = (ends(self), ends(other));
        self.first.is_ipv4() == other.first.is_ipv4() && a < b_end && b < a_end
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.count {
            1 => write!(f, "{}", self.first),
            _ => write!(f, "{} to {}", self.first, self.last()),
        }
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_bits().into(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    fn range(first: &str, count: u64) -> Result<AddressRange, RangeError> {
        AddressRange::new(first.parse().unwrap(), count)
    }

    #[test]
    fn addresses_are_numbered() {
        let ues = range("22.64.0.254", 4).unwrap();
        assert_eq!(ues.to_string(), "22.64.0.254 to 22.64.1.1");
        assert_eq!(ues.at(2).to_string(), "22.64.1.0");
        assert_eq!(ues.find(ues.at(3)), Some(3));
        assert_eq!(ues.find("22.64.1.2".parse().unwrap()), None);
        assert_eq!(ues.find("::1".parse().unwrap()), None);
        let six = range("2001:db8::ffff", 2).unwrap();
        assert_eq!(six.last().to_string(), "2001:db8::1:0");
        assert_eq!(six.find(six.last()), Some(1));
    }

    #[test]
    fn ues_have_a_64_each() {
        let ues = AddressRange::of_ues("2001:db8::1".parse().unwrap(), 3).unwrap();
        assert_eq!(ues.to_string(), "2001:db8::1 to 2001:db8:0:2::1");
        assert_eq!(ues.find("2001:db8:0:1:dead::".parse().unwrap()), Some(1));
        assert_eq!(ues.find("2001:db8:0:3::1".parse().unwrap()), None);
        assert!(ues.overlaps(&range("2001:db8:0:2::ffff", 1).unwrap()));
        assert!(!ues.overlaps(&range("2001:db8:0:3::", 1).unwrap()));
        assert!(!ues.overlaps(&range("10.0.0.1", 1).unwrap()));
    }

    #[test]
    fn what_overlaps_is_found_from_both_sides() {
        let (one, two) = (range("10.0.0.0", 256).unwrap(), range("10.0.0.255", 2).unwrap());
        assert!(one.overlaps(&two) && two.overlaps(&one));
        assert!(!one.overlaps(&range("10.0.1.0", 1).unwrap()));
    }

    #[test]
    fn a_range_ends_below_multicast() {
        assert!(range("223.255.255.254", 2).is_ok());
        assert!(matches!(range("223.255.255.254", 3), Err(RangeError::TooLong { .. })));
        assert!(matches!(range("224.0.0.1", 1), Err(RangeError::NotUnicast(_))));
        assert!(matches!(range("0.0.0.0", 1), Err(RangeError::NotUnicast(_))));
        assert!(range("fe00::", u64::MAX).is_ok());
    }
}
