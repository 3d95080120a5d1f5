//! Which UEs, tunnels and flows a load has, and that none of them is there twice.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;
use core::ops::Range;

use crate::load::addresses::AddressRange;

/// A session group: UEs that are alike. One session each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Addresses of its UEs, one for each session.
    pub ues: AddressRange,
    /// Addresses of the data network that its UEs talk to: one for each flow of a UE; all UEs of the group
    /// talk to the same.
    pub pdns: AddressRange,
    /// TEID of the first session's downlink tunnel (at the gNB), counted on for the others. With fixed
    /// TEIDs also that of its uplink tunnel (at the UPF).
    pub start_teid: u32,
    /// Flows of each UE.
    pub flows_per_ue: u32,
    /// Flows of the whole group: those of its UEs, or the instances of its trace.
    pub flows: u32,
}

/// All groups of a load, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Population {
    groups: Vec<Group>,
    /// First flow of each group among all; one more at the end.
    flow_starts: Vec<u32>,
    session_starts: Vec<u32>,
}

/// Most sessions of a load.
const MOST_SESSIONS: u64 = 2_000_000;
/// Most flows of a load, by the memory that following each of them takes.
const MOST_FLOWS: u64 = 4_000_000;

/// Why groups are no population.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PopulationError {
    /// Two ranges share something.
    #[error("{0}; begin one of them elsewhere")]
    Overlap(Overlap),
    /// TEIDs end beyond 32 bits, or begin with 0, which is for messages about the path (TS 29.281 5.1).
    #[error("{sessions} TEIDs from {first} on are not all from 1 to 4294967295; begin lower, but not at 0")]
    Teid {
        /// Number of the group.
        group: usize,
        /// The first TEID.
        first: u32,
        /// Sessions of the group.
        sessions: u64,
    },
    /// More than memory is meant for.
    #[error("{count} {what} are too many; at most {limit} in all groups together")]
    TooMany {
        /// `sessions` or `flows`.
        what: &'static str,
        /// How many there were to be.
        count: u64,
        /// How many there may be.
        limit: u64,
    },
    /// UE and data network speak different versions of IP.
    #[error("UEs from {ue} on cannot talk to {pdn}: one is IPv4, the other IPv6; give both the same version")]
    Versions {
        /// Number of the group.
        group: usize,
        /// First UE.
        ue: IpAddr,
        /// First address of the data network.
        pdn: IpAddr,
    },
}

/// Two ranges that share something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlap {
    /// The later of the two, by the number of its group.
    pub group: usize,
    /// What is taken.
    pub what: Taken,
    /// The two ranges as text.
    pub ranges: [String; 2],
    /// The names of their groups.
    pub names: [String; 2],
}

/// What two groups must not share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// Addresses of UEs.
    Ue,
    /// Tunnel endpoint identifiers.
    Teid,
    /// An address is a UE's and the data network's.
    UeAndPdn,
}

impl fmt::Display for Overlap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([a, b], [one, two]) = (&self.ranges, &self.names);
        match self.what {
            Taken::Ue => write!(f, "UE addresses {a} of `{one}` overlap with {b} of `{two}`"),
            Taken::Teid => write!(f, "TEIDs {a} of `{one}` overlap with {b} of `{two}`"),
            Taken::UeAndPdn => write!(f, "UE addresses {a} of `{one}` overlap with PDN addresses {b} of `{two}`"),
        }
    }
}

impl Group {
    /// Its sessions.
    #[must_use]
    pub fn sessions(&self) -> u32 {
        u32::try_from(self.ues.count()).unwrap_or(u32::MAX)
    }

    /// TEIDs of its downlink tunnels.
    fn teids(&self) -> Range<u64> {
        let first = u64::from(self.start_teid);
        first..first + self.ues.count()
    }
}

impl Population {
    /// The groups, if no address and no TEID is there twice. Groups may talk to the same data network.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong.
    pub fn new(groups: Vec<Group>) -> Result<Self, PopulationError> {
        for (number, group) in groups.iter().enumerate() {
            let teids = group.teids();
            if teids.start == 0 || teids.end > 1 << 32 {
                let (first, sessions) = (group.start_teid, group.ues.count());
                return Err(PopulationError::Teid { group: number, first, sessions });
            }
            let (ue, pdn) = (group.ues.first(), group.pdns.first());
            if ue.is_ipv4() != pdn.is_ipv4() {
                return Err(PopulationError::Versions { group: number, ue, pdn });
            }
            for (earlier, other) in groups[..=number].iter().enumerate() {
                clash(&groups, number, other, earlier)
                    .map_or(Ok(()), |overlap| Err(PopulationError::Overlap(overlap)))?;
            }
        }
        let flow_starts = starts(&groups, "flows", MOST_FLOWS, |group| group.flows.into())?;
        let session_starts = starts(&groups, "sessions", MOST_SESSIONS, |group| group.ues.count())?;
        Ok(Self { groups, flow_starts, session_starts })
    }

    /// The groups.
    #[must_use]
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// Flows of all groups; they are numbered from 0 on, group by group.
    #[must_use]
    pub fn flows(&self) -> u32 {
        self.flow_starts.last().copied().unwrap_or(0)
    }

    /// Sessions of all groups; they are numbered from 0 on, group by group.
    #[must_use]
    pub fn sessions(&self) -> u32 {
        self.session_starts.last().copied().unwrap_or(0)
    }

    /// The numbers of a group's flows.
    #[must_use]
    pub fn flows_of(&self, group: usize) -> Range<u32> {
        self.flow_starts[group]..self.flow_starts[group + 1]
    }

    /// The numbers of a group's sessions.
    #[must_use]
    pub fn sessions_of(&self, group: usize) -> Range<u32> {
        self.session_starts[group]..self.session_starts[group + 1]
    }

    /// The group that a flow belongs to.
    #[must_use]
    pub fn group_of_flow(&self, flow: u32) -> Option<usize> {
        // Groups are few, and most loads have one: faster than a search by halves.
        (0..self.groups.len()).find(|group| self.flows_of(*group).contains(&flow))
    }

    /// Group and number within it of the session that has a UE's address.
    #[must_use]
    pub fn session_of(&self, ue: IpAddr) -> Option<(usize, u32)> {
        let found = self.groups.iter().enumerate().find_map(|(i, group)| Some((i, group.ues.find(ue)?)));
        found.map(|(group, number)| (group, number as u32))
    }
}

/// What `groups[later]` shares with an earlier group, or with itself.
fn clash(groups: &[Group], later: usize, other: &Group, earlier: usize) -> Option<Overlap> {
    let group = &groups[later];
    let named = |what, a: String, b: String, names: [&Group; 2]| {
        Some(Overlap { group: later, what, ranges: [a, b], names: names.map(|group| group.name.clone()) })
    };
    let text = |range: &AddressRange| alloc::format!("{range}");
    let teids = |range: Range<u64>| alloc::format!("{} to {}", range.start, range.end - 1);
    if earlier != later {
        if group.ues.overlaps(&other.ues) {
            return named(Taken::Ue, text(&group.ues), text(&other.ues), [group, other]);
        }
        let (a, b) = (group.teids(), other.teids());
        if a.start < b.end && b.start < a.end {
            return named(Taken::Teid, teids(a), teids(b), [group, other]);
        }
        if other.ues.overlaps(&group.pdns) {
            return named(Taken::UeAndPdn, text(&other.ues), text(&group.pdns), [other, group]);
        }
    }
    if group.ues.overlaps(&other.pdns) {
        return named(Taken::UeAndPdn, text(&group.ues), text(&other.pdns), [group, other]);
    }
    None
}

fn starts(
    groups: &[Group],
    what: &'static str,
    limit: u64,
    count: impl Fn(&Group) -> u64,
) -> Result<Vec<u32>, PopulationError> {
    let mut sum = 0u64;
    let mut starts = Vec::with_capacity(groups.len() + 1);
    starts.push(0);
    for group in groups {
        sum = sum.saturating_add(count(group));
        if sum > limit {
            return Err(PopulationError::TooMany { what, count: sum, limit });
        }
        starts.push(sum as u32);
    }
    Ok(starts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;
    use std::{format, vec};

    fn group(name: &str, ue: &str, sessions: u64, teid: u32, pdn: &str) -> Group {
        let range = |first: &str, count| AddressRange::new(first.parse().unwrap(), count).unwrap();
        Group {
            name: name.into(),
            ues: range(ue, sessions),
            pdns: range(pdn, 2),
            start_teid: teid,
            flows_per_ue: 2,
            flows: sessions as u32 * 2,
        }
    }

    #[test]
    fn flows_and_sessions_are_numbered_through() {
        let groups = vec![group("a", "10.0.0.1", 3, 1, "20.0.0.1"), group("b", "10.1.0.1", 2, 4, "20.0.0.1")];
        let population = Population::new(groups).unwrap();
        assert_eq!((population.flows(), population.sessions()), (10, 5));
        assert_eq!(population.flows_of(1), 6..10);
        assert_eq!(population.sessions_of(1), 3..5);
        assert_eq!([0, 5, 6, 10].map(|flow| population.group_of_flow(flow)), [Some(0), Some(0), Some(1), None]);
        assert_eq!(population.session_of("10.1.0.2".parse().unwrap()), Some((1, 1)));
        assert_eq!(population.session_of("20.0.0.1".parse().unwrap()), None);
    }

    #[test]
    fn what_is_there_twice_is_named() {
        let first = || group("a", "10.0.0.1", 10, 100, "20.0.0.1");
        let says = |second: Group| match Population::new(vec![first(), second]) {
            Err(error) => error.to_string(),
            Ok(_) => "nothing".to_string(),
        };
        assert_eq!(
            says(group("b", "10.0.0.10", 1, 1, "20.0.0.1")),
            "UE addresses 10.0.0.10 of `b` overlap with 10.0.0.1 to 10.0.0.10 of `a`; begin one of them elsewhere"
        );
        assert_eq!(
            says(group("b", "10.1.0.1", 20, 90, "20.0.0.1")),
            "TEIDs 90 to 109 of `b` overlap with 100 to 109 of `a`; begin one of them elsewhere"
        );
        assert_eq!(
            says(group("b", "10.1.0.1", 1, 1, "10.0.0.2")),
            "UE addresses 10.0.0.1 to 10.0.0.10 of `a` overlap with PDN addresses 10.0.0.2 to 10.0.0.3 of `b`; \
             begin one of them elsewhere"
        );
        assert!(
            says(group("b", "20.0.0.2", 1, 1, "30.0.0.1")).starts_with("UE addresses 20.0.0.2 of `b` overlap with PDN")
        );
        assert_eq!(says(group("b", "10.1.0.1", 10, 90, "20.0.0.1")), "nothing");
    }

    #[test]
    fn numbers_that_do_not_fit_are_refused() {
        let alone = |group| Population::new(vec![group]).unwrap_err();
        assert!(matches!(alone(group("a", "10.0.0.1", 2, 0, "20.0.0.1")), PopulationError::Teid { .. }));
        assert!(matches!(alone(group("a", "10.0.0.1", 2, u32::MAX, "20.0.0.1")), PopulationError::Teid { .. }));
        assert!(Population::new(vec![group("a", "10.0.0.1", 1, u32::MAX, "20.0.0.1")]).is_ok());
        assert!(matches!(alone(group("a", "10.0.0.1", 1, 1, "2001:db8::1")), PopulationError::Versions { .. }));
        let many = alone(group("a", "10.0.0.1", 3_000_000, 1, "20.0.0.1"));
        assert!(format!("{many}").contains("too many"));
    }
}
