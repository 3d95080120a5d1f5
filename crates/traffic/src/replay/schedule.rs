//! When each packet of a trace leaves, for all repetitions and instances.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use engine::{Random, Span, Time};

use super::addresses::ends;
use super::connections::Lanes;
use super::spacing::{Turns, offsets};
use super::stateful::{MOST_LANES, Stateful, Waits};
use super::{AddressTable, Direction, Spacing, Trace};

/// A gap this long in a trace is more likely a mistake than meant.
const LONGEST_GAP: Span = Span::from_secs(86_400);

/// How a trace is replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayConfig {
    /// When the first packet leaves.
    pub start: Time,
    /// How often the trace is played, one after the other; the first packet of each repetition leaves when the
    /// last of the one before does (thesis 3.4).
    pub repetitions: u32,
    /// How often at once.
    pub instances: Instances,
    /// How instances lie in time to each other.
    pub spacing: Spacing,
    /// TCP segments wait for those they answer, up to this long after these were sent, so that the replay adapts to
    /// the path's round trip. `None`: everything leaves at its time, whatever happened before (thesis 3.4).
    pub stateful: Option<Span>,
    /// The addresses there are for it.
    pub network: Network,
}

/// Parallel instances of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instances {
    /// What tells them apart.
    pub over: Over,
    /// How many, at least 1.
    pub count: u32,
}

/// What each parallel instance has of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Over {
    /// Addresses in the data network: the same UEs talk to more servers (thesis, equation 3.3).
    #[default]
    Pdn,
    /// UEs: more of them talk to the same servers.
    Ue,
}

/// The addresses a replay may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// How many UEs there are. A trace with more of them folds onto these.
    pub ues: u32,
    /// The first IPv4 address of the data network (the thesis's `PDN_start`).
    pub pdn_v4: Option<Ipv4Addr>,
    /// The first IPv6 address.
    pub pdn_v6: Option<Ipv6Addr>,
}

/// A packet that is to leave now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// Which packet of the trace.
    pub index: u32,
    /// Which of the parallel instances.
    pub instance: u32,
    /// Which repetition.
    pub repetition: u32,
    /// When it was to leave.
    pub due: Time,
    /// Which way it goes.
    pub direction: Direction,
    /// Number of the UE, below [`Network::ues`].
    pub ue: u32,
    /// The address in the data network.
    pub pdn: IpAddr,
}

/// Why a trace cannot be replayed like that.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// No packet goes between a UE and the data network.
    #[error(
        "the trace has no packet between a UE and the data network; look at its addresses with `narrows trace info`"
    )]
    Empty,
    /// No repetition, no instance, or no UE.
    #[error("`{0}` must be at least 1")]
    Zero(&'static str),
    /// No address for packets of a version.
    #[error(
        "the trace has {version} packets, but no {version} address of the data network is given; give one, or leave them out with the filter `{filter}`"
    )]
    NoAddress {
        /// `IPv4` or `IPv6`.
        version: &'static str,
        /// What leaves them out.
        filter: &'static str,
    },
    /// Not as many addresses as that.
    #[error(
        "{needed} addresses of the data network from {first} on are more than there are; begin lower or scale less"
    )]
    TooManyAddresses {
        /// The first.
        first: IpAddr,
        /// How many are needed.
        needed: u64,
    },
    /// Instances over UEs need UEs of their own.
    #[error("{instances} instances over UEs need {needed} of them, and there are {available}")]
    TooFewUes {
        /// Instances asked for.
        instances: u32,
        /// UEs they need.
        needed: u64,
        /// UEs there are.
        available: u32,
    },
    /// Stateful replay keeps the order of packets, and their gaps where it can.
    #[error(
        "gaps cannot be shuffled where segments wait for each other; use `spacing: jitter`, or leave `stateful` out"
    )]
    ShuffledStateful,
    /// More connections than there is memory for.
    #[error(
        "{lanes} directions of connections in all instances together are too many to follow (at most {MOST_LANES}); scale less, or use a filter"
    )]
    TooManyConnections {
        /// Directions of connections, in all instances.
        lanes: u64,
    },
    /// A gap of more than a day.
    #[error(
        "nothing happens for {} s before packet {packet} of the trace; cap its gaps, for example with `max_gap: 1s`",
        .gap.as_secs_f64()
    )]
    LongGap {
        /// How long.
        gap: Span,
        /// The packet after it, counted from 1.
        packet: usize,
    },
}

/// The schedule of a replay: gives its packets in the order of their times.
///
/// ```
/// # use std::sync::Arc;
/// # use engine::{Random, Time};
/// # use traffic::replay::*;
/// # let mut trace = Trace::new(1 << 20);
/// # trace.push(5, &[0x45, 0, 0, 20, 0, 0, 0, 0, 64, 99, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2], 20).unwrap();
/// let table = AddressTable::new(&trace, &AddressRule::FirstSight);
/// let config = ReplayConfig {
///     start: Time::ZERO,
///     repetitions: 1,
///     instances: Instances { over: Over::Pdn, count: 2 },
///     spacing: Spacing::Copy,
///     stateful: None,
///     network: Network { ues: 1, pdn_v4: Some([194, 0, 0, 0].into()), pdn_v6: None },
/// };
/// let (trace, table) = (Arc::new(trace), Arc::new(table));
/// let mut replay = Replay::new(trace.clone(), table, &config, Random::stream(1, "replay")).unwrap();
/// let mut packet = [0; 1500];
/// let mut sent = vec![];
/// while let Some(due) = replay.next_due() {
///     // … wait until then, and send all whose time has come:
///     while let Some(item) = replay.next(due) {
///         let ue = [16, 0, 0, 1 + item.ue as u8].into();
///         let len = trace.write(item.index as usize, ue, item.pdn, None, &mut packet).unwrap();
///         sent.push(packet[12..len].to_vec());
///     }
/// }
/// assert_eq!(sent, [[16, 0, 0, 1, 194, 0, 0, 0], [16, 0, 0, 1, 194, 0, 0, 1]]);
/// ```
#[derive(Clone, Debug)]
pub struct Replay {
    trace: Arc<Trace>,
    table: Arc<AddressTable>,
    config: ReplayConfig,
    /// The packets that have a route, and their times since the first of them.
    packets: Vec<u32>,
    times: Vec<u64>,
    course: Course,
}

#[derive(Clone, Debug)]
enum Course {
    Open(Turns),
    Stateful(Box<Stateful>),
}

impl Replay {
    /// The replay of `trace`, whose address table is `table`.
    ///
    /// # Errors
    ///
    /// It has nothing to replay, or there are not enough addresses.
    pub fn new(
        trace: Arc<Trace>,
        table: Arc<AddressTable>,
        config: &ReplayConfig,
        mut random: Random,
    ) -> Result<Self, ReplayError> {
        let counts =
            [(config.repetitions, "repetitions"), (config.instances.count, "instances"), (config.network.ues, "ues")];
        if let Some((_, what)) = counts.into_iter().find(|(count, _)| *count == 0) {
            return Err(ReplayError::Zero(what));
        }
        let packets: Vec<_> =
            (0..trace.len()).filter(|&index| table.route(index).is_some()).map(|index| index as u32).collect();
        let first = trace.packet(*packets.first().ok_or(ReplayError::Empty)? as usize).time;
        let times: Vec<_> =
            packets.iter().map(|&index| trace.packet(index as usize).time.saturating_sub(first).as_nanos()).collect();
        if let Some(at) = times.windows(2).position(|pair| pair[1] - pair[0] > LONGEST_GAP.as_nanos()) {
            let gap = Span::from_nanos(times[at + 1] - times[at]);
            return Err(ReplayError::LongGap { gap, packet: packets[at + 1] as usize + 1 });
        }
        check_addresses(&table, config)?;
        let course = match config.stateful {
            None => Course::Open(Turns::new(config.spacing, config.instances.count, &times, random)),
            Some(timeout) => {
                let lanes = Lanes::new(&trace, &table, &packets, &times);
                let places = lanes.lanes.len() as u64 * u64::from(config.instances.count);
                if places > MOST_LANES as u64 {
                    return Err(ReplayError::TooManyConnections { lanes: places });
                }
                let period = times[times.len() - 1];
                let offsets = match config.spacing {
                    Spacing::Copy => alloc::vec![0; config.instances.count as usize],
                    Spacing::Jitter { within } => {
                        offsets(config.instances.count, within.map_or(period, Span::as_nanos), &mut random)
                    }
                    Spacing::Shuffle { .. } => return Err(ReplayError::ShuffledStateful),
                };
                Course::Stateful(Box::new(Stateful::new(lanes, timeout, config.repetitions, period, &offsets)))
            }
        };
        Ok(Self { trace, table, config: *config, packets, times, course })
    }

    /// When the next packet is to leave; `None` once all have. In a stateful replay it may also be when waiting for
    /// one ends, and the next packet may have to be asked for again.
    #[must_use]
    pub fn next_due(&self) -> Option<Time> {
        let due = match &self.course {
            Course::Open(turns) => turns.peek().map(|turn| turn.due),
            Course::Stateful(stateful) => stateful.next_due(),
        };
        due.map(|due| self.config.start + Span::from_nanos(due))
    }

    /// The next packet whose time has come at `now`.
    pub fn next(&mut self, now: Time) -> Option<Item> {
        let passed = self.passed(now)?;
        let (turn, index) = match &mut self.course {
            Course::Open(turns) => {
                turns.peek().filter(|turn| turn.due <= passed)?;
                let turn = turns.take(&self.times, self.config.repetitions)?;
                (turn, self.packets[turn.step as usize])
            }
            Course::Stateful(stateful) => stateful.take(passed).map(|turn| (turn, turn.step))?,
        };
        let due = self.config.start + Span::from_nanos(turn.due);
        self.item(index, turn.instance, turn.repetition, due)
    }

    /// Says that packet `index` of `instance` arrived at the other side, which a stateful replay waits for.
    pub fn received(&mut self, now: Time, instance: u32, index: u32) {
        if let (Some(passed), Course::Stateful(stateful)) = (self.passed(now), &mut self.course) {
            stateful.received(passed, instance, index);
        }
    }

    /// Which packet this is, that arrived in `direction` at or from the UE of this number: its instance and index.
    /// `packet` begins with its IP header. For TCP segments of a stateful replay, of which not all have room for a
    /// stamp; what is not one of them on its way is `None`.
    #[must_use]
    pub fn recognise(&self, direction: Direction, ue: u32, packet: &[u8]) -> Option<(u32, u32)> {
        let Course::Stateful(stateful) = &self.course else { return None };
        let (source, destination) = ends(packet)?;
        let pdn = if direction == Direction::Uplink { destination } else { source };
        let number = match (pdn, self.config.network.pdn_v4, self.config.network.pdn_v6) {
            (IpAddr::V4(pdn), Some(first), _) => pdn.to_bits().checked_sub(first.to_bits())?,
            (IpAddr::V6(pdn), _, Some(first)) => u32::try_from(pdn.to_bits().checked_sub(first.to_bits())?).ok()?,
            _ => return None,
        };
        let (instance, pdn_number) = match self.config.instances.over {
            Over::Pdn => {
                let each = self.table.pdns(pdn.is_ipv6());
                (number.checked_div(each)?, number.checked_rem(each)?)
            }
            Over::Ue => (ue.checked_div(self.table.ues())?, number),
        };
        (instance < self.config.instances.count).then_some(())?;
        let ues = self.config.network.ues;
        let is_ue = |own: u32| match self.config.instances.over {
            Over::Pdn => own % ues == ue,
            Over::Ue => own == ue % self.table.ues(),
        };
        let index = stateful.recognise(&self.trace, direction, pdn_number, instance, is_ue, packet)?;
        Some((instance, index))
    }

    /// Whether segments wait for each other.
    #[must_use]
    pub const fn is_stateful(&self) -> bool {
        matches!(self.course, Course::Stateful(_))
    }

    /// What waiting did to a stateful replay.
    #[must_use]
    pub fn waits(&self) -> Waits {
        match &self.course {
            Course::Open(_) => Waits::default(),
            Course::Stateful(stateful) => stateful.waits(),
        }
    }

    /// How many packets the whole replay has.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.packets.len() as u64 * u64::from(self.config.repetitions) * u64::from(self.config.instances.count)
    }

    /// From the first packet of a repetition to its last.
    #[must_use]
    pub fn period(&self) -> Span {
        Span::from_nanos(self.times.last().copied().unwrap_or(0))
    }

    /// The trace that is replayed.
    #[must_use]
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// Nanoseconds since the replay began; `None` before.
    fn passed(&self, now: Time) -> Option<u64> {
        (now >= self.config.start).then(|| now.since(self.config.start).as_nanos())
    }

    fn item(&self, index: u32, instance: u32, repetition: u32, due: Time) -> Option<Item> {
        let route = self.table.route(index as usize)?;
        let (ue, pdn) = match self.config.instances.over {
            Over::Pdn => (route.ue % self.config.network.ues, instance * self.table.pdns(route.v6) + route.pdn),
            Over::Ue => (instance * self.table.ues() + route.ue, route.pdn),
        };
        let pdn = if route.v6 {
            IpAddr::V6(Ipv6Addr::from_bits(self.config.network.pdn_v6?.to_bits() + u128::from(pdn)))
        } else {
            IpAddr::V4(Ipv4Addr::from_bits(self.config.network.pdn_v4?.to_bits() + pdn))
        };
        Some(Item { index, instance, repetition, due, direction: route.direction, ue, pdn })
    }
}

/// Whether there are addresses enough, so that none has to be checked later.
fn check_addresses(table: &AddressTable, config: &ReplayConfig) -> Result<(), ReplayError> {
    let count = config.instances.count;
    let apart = u64::from(if config.instances.over == Over::Pdn { count } else { 1 });
    let needed = [false, true].map(|v6| u64::from(table.pdns(v6)) * apart);
    if needed[0] > 0 {
        let first = config.network.pdn_v4.ok_or(ReplayError::NoAddress { version: "IPv4", filter: "ip6" })?;
        if needed[0] - 1 > u64::from(u32::MAX - first.to_bits()) {
            return Err(ReplayError::TooManyAddresses { first: first.into(), needed: needed[0] });
        }
    }
    if needed[1] > 0 {
        let first = config.network.pdn_v6.ok_or(ReplayError::NoAddress { version: "IPv6", filter: "ip" })?;
        if u128::from(needed[1] - 1) > u128::MAX - first.to_bits() || needed[1] > u64::from(u32::MAX) {
            return Err(ReplayError::TooManyAddresses { first: first.into(), needed: needed[1] });
        }
    }
    let ues = u64::from(table.ues()) * u64::from(count);
    if config.instances.over == Over::Ue && ues > u64::from(config.network.ues) {
        return Err(ReplayError::TooFewUes { instances: count, needed: ues, available: config.network.ues });
    }
    Ok(())
}
