//! Service data flow filters as PFCP carries them: IPFilterRule (RFC 6733 4.3.1) with the limits of TS 29.212 5.4.2.
//!
//! ```
//! use core::net::IpAddr;
//! use userplane::filter::{Filter, Flow};
//!
//! let web: Filter = "permit out 6 from 198.51.100.0/24 80,443 to assigned".parse().unwrap();
//! let remote = IpAddr::from([198, 51, 100, 7]);
//! let flow = Flow { remote, local: IpAddr::from([10, 45, 0, 2]), protocol: 6, ports: Some((443, 51_000)) };
//! assert!(web.matches(&flow));
//! assert!(!web.matches(&Flow { ports: Some((22, 51_000)), ..flow }));
//! ```

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::IpAddr;
use core::ops::RangeInclusive;
use core::str::FromStr;

/// A filter of packets between a UE and somebody else, the same for both directions.
///
/// The rule's direction says which of its ends is the UE: `out` goes to it, `in` comes from it (RFC 6733 4.3.1). In
/// uplink rules the ends are swapped (TS 29.244 5.2.1A.2A), which is the caller's part: [`Flow`] names the ends by what
/// they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    protocol: Option<u8>,
    remote: End,
    local: End,
}

/// What a filter looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The end that is not the UE.
    pub remote: IpAddr,
    /// The UE.
    pub local: IpAddr,
    /// Protocol above IP.
    pub protocol: u8,
    /// Ports of the remote end and of the UE. None in later fragments and in protocols without ports: a filter that
    /// names ports lets those pass by.
    pub ports: Option<(u16, u16)>,
}

/// One end of a filter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct End {
    /// Any address if there is none, which is also what `assigned` says: which UE it is, the session says.
    network: Option<(IpAddr, u8)>,
    /// Any port if there is none.
    ports: Vec<RangeInclusive<u16>>,
}

/// Why a text is not a filter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "SDF filter `{rule}`, column {column}: {problem}; a filter reads `permit out PROTOCOL from ADDRESS [PORTS] to ADDRESS [PORTS]`, such as `permit out 17 from 198.51.100.0/24 to assigned 5000-5010`"
)]
pub struct FilterError {
    /// The whole text.
    pub rule: String,
    /// Where it stops to make sense, in characters from 1.
    pub column: usize,
    /// What is wrong there.
    pub problem: &'static str,
}

impl Filter {
    /// Whether a packet of `flow` passes. Addresses of another family than the filter's do not.
    #[must_use]
    pub fn matches(&self, flow: &Flow) -> bool {
        let (remote, local) = match flow.ports {
            Some((remote, local)) => (Some(remote), Some(local)),
            None => (None, None),
        };
        self.protocol.is_none_or(|protocol| protocol == flow.protocol)
            && self.remote.matches(flow.remote, remote)
            && self.local.matches(flow.local, local)
    }
}

impl End {
    fn matches(&self, address: IpAddr, port: Option<u16>) -> bool {
        self.network.is_none_or(|network| contains(network, address))
            && (self.ports.is_empty() || port.is_some_and(|port| self.ports.iter().any(|range| range.contains(&port))))
    }
}

/// Whether `address` lies in the network; a longer prefix than the address has bits counts as all of them.
#[must_use]
pub fn contains((network, prefix): (IpAddr, u8), address: IpAddr) -> bool {
    let prefix = u32::from(prefix);
    match (network, address) {
        (IpAddr::V4(network), IpAddr::V4(address)) => {
            let differing = network.to_bits() ^ address.to_bits();
            differing.checked_shr(32 - prefix.min(32)).unwrap_or(0) == 0
        }
        (IpAddr::V6(network), IpAddr::V6(address)) => {
            let differing = network.to_bits() ^ address.to_bits();
            differing.checked_shr(128 - prefix.min(128)).unwrap_or(0) == 0
        }
        _ => false,
    }
}

impl FromStr for Filter {
    type Err = FilterError;

    fn from_str(rule: &str) -> Result<Self, FilterError> {
        let mut words = Words::of(rule);
        match words.next() {
            Some("permit") => {}
            // TS 29.212 5.4.2: only the action permit is used.
            Some(_) => return Err(words.error("the action must be `permit` (TS 29.212 5.4.2)")),
            None => return Err(words.error("the filter is empty")),
        }
        let towards_ue = match words.next() {
            Some("out") => true,
            Some("in") => false,
            _ => return Err(words.error("expected the direction, `out` or `in`")),
        };
        let protocol = match words.next() {
            Some("ip") => None,
            Some(number) => Some(number.parse().map_err(|_| words.error("expected a protocol: `ip` or 0 to 255"))?),
            None => return Err(words.error("expected a protocol: `ip` or 0 to 255")),
        };
        let Some("from") = words.next() else { return Err(words.error("expected `from`")) };
        let (source, after) = words.end()?;
        let Some("to") = after else { return Err(words.error("expected `to`, or ports such as `80,443,5000-5010`")) };
        let (destination, after) = words.end()?;
        if after.is_some() {
            // TS 29.212 5.4.2: no options.
            return Err(words.error("nothing may follow the destination but ports (TS 29.212 5.4.2 has no options)"));
        }
        let (remote, local) = if towards_ue { (source, destination) } else { (destination, source) };
        Ok(Self { protocol, remote, local })
    }
}

/// The words of a rule with where they begin, read one by one.
struct Words<'a> {
    rule: &'a str,
    words: Vec<(usize, &'a str)>,
    read: usize,
}

impl<'a> Words<'a> {
    fn of(rule: &'a str) -> Self {
        // Words are parts of the rule, so that their place in it is the difference of two places in memory.
        let start = |word: &str| word.as_ptr().addr() - rule.as_ptr().addr();
        let words = rule.split_ascii_whitespace().map(|word| (start(word), word)).collect();
        Self { rule, words, read: 0 }
    }

    fn next(&mut self) -> Option<&'a str> {
        let word = self.words.get(self.read).map(|(_, word)| *word);
        self.read += 1;
        word
    }

    /// An error at the word read last.
    fn error(&self, problem: &'static str) -> FilterError {
        let last = self.read.checked_sub(1).and_then(|last| self.words.get(last));
        let at = last.map_or(self.rule.len(), |(at, _)| *at);
        FilterError { rule: self.rule.to_string(), column: self.rule[..at].chars().count() + 1, problem }
    }

    /// An end, and the word after it.
    fn end(&mut self) -> Result<(End, Option<&'a str>), FilterError> {
        let network = match self.next() {
            Some("any" | "assigned") => None,
            Some(word) if word.starts_with('!') => {
                return Err(self.error("`!` is not used (TS 29.212 5.4.2)"));
            }
            Some(word) => Some(network(word).ok_or_else(|| {
                self.error("expected `any`, `assigned` or an address such as 198.51.100.0/24 or 2001:db8::/32")
            })?),
            None => return Err(self.error("expected an address")),
        };
        let word = self.next();
        match word {
            Some(list) if list.starts_with(|c: char| c.is_ascii_digit()) => {
                let ports = ports(list).ok_or_else(|| self.error("expected ports such as `80,443,5000-5010`"))?;
                Ok((End { network, ports }, self.next()))
            }
            _ => Ok((End { network, ports: Vec::new() }, word)),
        }
    }
}

fn network(word: &str) -> Option<(IpAddr, u8)> {
    let (address, prefix) = word.split_once('/').map_or((word, None), |(address, prefix)| (address, Some(prefix)));
    let address: IpAddr = address.parse().ok()?;
    let longest = if address.is_ipv4() { 32 } else { 128 };
    let prefix = prefix.map_or(Some(longest), |prefix| prefix.parse().ok())?;
    (prefix <= longest).then_some((address, prefix))
}

fn ports(list: &str) -> Option<Vec<RangeInclusive<u16>>> {
    let range = |text: &str| {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let (first, last) = (first.parse().ok()?, last.parse().ok()?);
        (first <= last).then_some(first..=last)
    };
    list.split(',').map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(remote: &str, local: &str, protocol: u8, ports: Option<(u16, u16)>) -> Flow {
        Flow { remote: remote.parse().unwrap(), local: local.parse().unwrap(), protocol, ports }
    }

    #[test]
    fn a_filter_takes_its_packets_and_no_others() {
        let filter: Filter = "permit out 17 from 198.51.100.0/24 5000-5010,53 to 10.0.0.0/8 7".parse().unwrap();
        let taken = flow("198.51.100.9", "10.1.2.3", 17, Some((53, 7)));
        assert!(filter.matches(&taken));
        for other in [
            Flow { remote: [198, 51, 101, 9].into(), ..taken },
            Flow { local: [11, 0, 0, 1].into(), ..taken },
            Flow { protocol: 6, ..taken },
            Flow { ports: Some((5011, 7)), ..taken },
            Flow { ports: Some((53, 8)), ..taken },
            Flow { ports: None, ..taken },
        ] {
            assert!(!filter.matches(&other), "{other:?}");
        }
        let all: Filter = "permit out ip from any to assigned".parse().unwrap();
        assert!(all.matches(&flow("2001:db8::1", "fd00::1", 58, None)));
        let six: Filter = "permit out ip from 2001:db8::/32 to assigned".parse().unwrap();
        assert!(six.matches(&flow("2001:db8:ffff::1", "fd00::1", 58, None)));
        assert!(!six.matches(&taken));
    }

    #[test]
    fn a_rule_for_what_comes_in_has_the_ue_first() {
        let out: Filter = "permit out 6 from 192.0.2.1 80 to assigned".parse().unwrap();
        let inwards: Filter = "permit in 6 from assigned to 192.0.2.1 80".parse().unwrap();
        assert_eq!(out, inwards);
    }

    #[test]
    fn errors_point_to_the_word() {
        for (rule, column) in [
            ("", 1),
            ("deny out ip from any to any", 1),
            ("permit up ip from any to any", 8),
            ("permit out tcp from any to any", 12),
            ("permit out 256 from any to any", 12),
            ("permit out ip any to any", 15),
            ("permit out ip from !10.0.0.1 to any", 20),
            ("permit out ip from 10.0.0.0/33 to any", 20),
            ("permit out ip from any 99999 to any", 24),
            ("permit out ip from any 20-10 to any", 24),
            ("permit out ip from any", 23),
            ("permit out ip from any to any frag", 31),
            ("permit  out  ip  from  any  to", 31),
        ] {
            let error = rule.parse::<Filter>().unwrap_err();
            assert_eq!(error.column, column, "{error}");
        }
    }

    #[test]
    fn networks_hold_their_addresses() {
        let of = |text: &str| network(text).unwrap();
        assert!(contains(of("0.0.0.0/0"), [1, 2, 3, 4].into()));
        assert!(contains(of("::/0"), IpAddr::from([1u16; 8])));
        assert!(contains(of("10.0.0.1"), [10, 0, 0, 1].into()));
        assert!(!contains(of("10.0.0.1"), [10, 0, 0, 2].into()));
        assert!(!contains(of("0.0.0.0/0"), IpAddr::from([0u16; 8])));
    }
}
