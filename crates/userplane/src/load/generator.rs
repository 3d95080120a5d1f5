//! What is sent, and when: models and traces of all groups in one order of time.

use alloc::collections::BinaryHeap;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use engine::{Random, Time};
use traffic::models::{Arrivals, PacketSizes};
use traffic::replay::{Item, Replay, Waits};
use traffic::stamp::Stamp;
use wire::ETHERNET_LEN;

use crate::load::frames::{DownlinkFrames, UplinkFrames, User};
use crate::load::population::Population;
use crate::load::{Direction, index};

/// Port of the data network: discard (RFC 863), whose payload means nothing to anybody.
const PDN_PORT: u16 = 9;
/// Port of a UE's first flow, the first dynamic one (RFC 6335 6); further flows count on.
const UE_PORT: u16 = 49_152;

/// What one group sends in one direction by a model, or all it sends by a trace.
#[derive(Debug)]
pub struct Source {
    /// Number of the group.
    pub group: usize,
    /// What says when and what.
    pub traffic: Traffic,
}

/// What says when packets leave and what they are.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there are a few of them, made once")]
pub enum Traffic {
    /// A model in one direction.
    Model {
        /// Which way.
        direction: Direction,
        /// When.
        arrivals: Arrivals,
        /// Lengths of the users' IP packets in bytes.
        sizes: PacketSizes,
        /// Draws sizes, and flows if they are not taken in turn.
        random: Random,
        /// Flows take turns. Otherwise each packet is of a flow drawn at random: by that a Poisson process is
        /// one in every flow too.
        in_turn: bool,
        /// How many of the group's flows are used, from the first on.
        flows: u32,
    },
    /// A trace, both ways. Every instance is a flow.
    Trace(Replay),
}

/// The uplink tunnel of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tunnel {
    /// TEID at the UPF.
    pub teid: u32,
    /// Which of the UPF's addresses, by number of the [`UplinkFrames`].
    pub endpoint: u16,
}

/// The next packet, as it will be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// When it was to leave.
    pub at: Time,
    /// Which way it goes.
    pub direction: Direction,
    /// Its group.
    pub group: usize,
    /// Length of the whole frame in bytes.
    pub length: usize,
}

/// A packet of a trace that came out of the UPF.
#[derive(Clone, Copy, Debug)]
pub struct Came {
    /// Its group.
    pub group: u16,
    /// Which way it went.
    pub direction: Direction,
    /// Number of its UE in the group.
    pub ue: u32,
    /// Which it is.
    pub what: CameWhat,
}

/// How it is known.
#[derive(Clone, Copy, Debug)]
pub enum CameWhat {
    /// By its stamp.
    Stamped {
        /// Instance of the trace.
        instance: u32,
        /// Number in the trace.
        packet: u32,
    },
    /// It is too short for a whole stamp: the packet itself from its IP header on.
    Short {
        /// Its length.
        length: u8,
        /// It, and nothing behind.
        bytes: [u8; SHORT],
    },
}

/// The longest packet that has no room for a whole stamp: IPv6 and TCP with all options, and 23 octets.
pub const SHORT: usize = 40 + 60 + 23;

/// What was written: packets, and bytes of Ethernet frames without the check sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Volume {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Volume {
    /// Counts a frame.
    pub fn add(&mut self, length: usize) {
        self.packets += 1;
        self.bytes += length as u64;
    }
}

/// Writes the packets of a load in order of their times, into buffers it is handed.
///
/// Nothing is ever left out: what could not be written at its time is written as soon as it is asked for,
/// so that the set rate holds after a stall too. How late that was is for the caller to see from [`Due::at`].
#[derive(Debug)]
pub struct Generator {
    population: Arc<Population>,
    sources: Vec<Source>,
    order: BinaryHeap<Reverse<(Time, u32)>>,
    /// When each source is next; entries of the order that say otherwise are old.
    scheduled: Vec<Option<Time>>,
    pending: Option<Pending>,
    turns: Vec<u32>,
    tunnels: Vec<Tunnel>,
    uplink: Vec<UplinkFrames>,
    downlink: DownlinkFrames,
    /// Next number of each flow, uplink and downlink.
    sequences: [Vec<u32>; 2],
    until: Time,
    mark: u32,
    unwritable: u64,
}

#[derive(Clone, Copy, Debug)]
struct Pending {
    due: Due,
    source: u32,
    flow: u32,
    /// Session among all of them.
    session: u32,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    User(User),
    Item(Item),
}

/// What a [`Generator`] needs beside its sources.
#[derive(Debug)]
pub struct Network {
    /// The groups.
    pub population: Arc<Population>,
    /// Uplink tunnels, one for each session.
    pub tunnels: Vec<Tunnel>,
    /// What writes uplink frames, for each address of the UPF.
    pub uplink: Vec<UplinkFrames>,
    /// What writes downlink frames.
    pub downlink: DownlinkFrames,
    /// Mark of this run.
    pub mark: u32,
}

impl Generator {
    /// A generator of what `sources` send before `until`. Network and sources must fit each other: a tunnel for
    /// each session, an endpoint for each tunnel.
    #[must_use]
    pub fn new(network: Network, sources: Vec<Source>, until: Time) -> Self {
        let flows = network.population.flows() as usize;
        let turns = vec![0; sources.len()];
        let mut generator = Self {
            population: network.population,
            // A stateful replay is scheduled anew by what arrives, and its old entries stay for a while.
            order: BinaryHeap::with_capacity(16 * sources.len()),
            scheduled: vec![None; sources.len()],
            sources,
            pending: None,
            turns,
            tunnels: network.tunnels,
            uplink: network.uplink,
            downlink: network.downlink,
            sequences: [vec![0; flows], vec![0; flows]],
            until,
            mark: network.mark,
            unwritable: 0,
        };
        for source in 0..generator.sources.len() {
            generator.schedule(source as u32);
        }
        generator
    }

    /// When the next packet is to leave; `None` after the last.
    #[must_use]
    pub fn next_due(&self) -> Option<Time> {
        self.pending.map(|pending| pending.due.at).or_else(|| self.order.peek().map(|Reverse((at, _))| *at))
    }

    /// The next packet whose time has come at `now`; the same until it is [written](Self::write).
    #[inline]
    pub fn due(&mut self, now: Time) -> Option<Due> {
        if self.pending.is_none() {
            self.pending = self.prepare(now);
        }
        self.pending.map(|pending| pending.due)
    }

    /// Writes the packet that [`due`](Self::due) told into `slot`, stamped with `now`; its length, or 0 if
    /// there is none, or `slot` is too short: then it is left out and counted.
    pub fn write(&mut self, now: Time, slot: &mut [u8]) -> usize {
        let Some(Pending { due, source, flow, session, what }) = self.pending.take() else { return 0 };
        let tunnel = self.tunnels[session as usize];
        let sequence = &mut self.sequences[index(due.direction)][flow as usize];
        let packet = if let What::Item(item) = what { item.index } else { 0 };
        let stamp = Stamp { sent: now, flow, sequence: *sequence, mark: self.mark, packet };
        if slot.len() < due.length {
            self.unwritable += 1;
            return 0;
        }
        let length = match (due.direction, what) {
            (Direction::Uplink, What::User(user)) => {
                self.uplink[usize::from(tunnel.endpoint)].write(slot, tunnel.teid, &user, &stamp)
            }
            (Direction::Downlink, What::User(user)) => self.downlink.write(slot, &user, &stamp),
            (direction, What::Item(item)) => {
                let Some(length) = self.write_item(source, direction, &item, tunnel, &stamp, slot) else {
                    self.unwritable += 1;
                    return 0;
                };
                length
            }
        };
        let sequence = &mut self.sequences[index(due.direction)][flow as usize];
        *sequence = sequence.wrapping_add(1);
        length
    }

    /// Groups whose traces wait for what arrives.
    #[must_use]
    pub fn waiting_groups(&self) -> Vec<usize> {
        let waits = |source: &&Source| matches!(&source.traffic, Traffic::Trace(replay) if replay.is_stateful());
        self.sources.iter().filter(waits).map(|source| source.group).collect()
    }

    /// Says that a packet of a trace came out of the UPF, for which others may wait.
    pub fn arrived(&mut self, now: Time, came: &Came) {
        for number in 0..self.sources.len() {
            let Source { group, traffic: Traffic::Trace(replay) } = &mut self.sources[number] else { continue };
            if *group != usize::from(came.group) {
                continue;
            }
            let found = match &came.what {
                CameWhat::Stamped { instance, packet } => Some((*instance, *packet)),
                CameWhat::Short { length, bytes } => {
                    replay.recognise(came.direction, came.ue, bytes.get(..usize::from(*length)).unwrap_or_default())
                }
            };
            if let Some((instance, packet)) = found {
                replay.received(now, instance, packet);
                self.schedule(number as u32);
            }
        }
    }

    /// What waiting did: packets that waited, and those sent without what they waited for.
    #[must_use]
    pub fn waits(&self) -> Waits {
        let mut sum = Waits::default();
        for source in &self.sources {
            if let Traffic::Trace(replay) = &source.traffic {
                let waits = replay.waits();
                sum.waited += waits.waited;
                sum.timed_out += waits.timed_out;
            }
        }
        sum
    }

    /// How many groups there are.
    #[must_use]
    pub fn groups(&self) -> usize {
        self.population.groups().len()
    }

    /// From now on a session's uplink goes through another tunnel, as after a restart of the UPF.
    pub fn retunnel(&mut self, session: u32, tunnel: Tunnel) {
        if let Some(slot) = self.tunnels.get_mut(session as usize) {
            *slot = tunnel;
        }
    }

    /// Packets that could not be written since they were too long.
    #[must_use]
    pub fn unwritable(&self) -> u64 {
        self.unwritable
    }

    /// Counts what is still to be sent, all of it, by group and direction. Nothing is left then.
    pub fn drain(&mut self) -> Vec<[u64; 2]> {
        let mut left = vec![[0; 2]; self.population.groups().len()];
        while let Some(due) = self.due(Time::MAX) {
            left[due.group][index(due.direction)] += u64::from(due.at < self.until);
            self.pending = None;
        }
        left
    }

    fn write_item(
        &mut self,
        source: u32,
        direction: Direction,
        item: &Item,
        tunnel: Tunnel,
        stamp: &Stamp,
        slot: &mut [u8],
    ) -> Option<usize> {
        let Source { group, traffic: Traffic::Trace(replay) } = &self.sources[source as usize] else { return None };
        let ue = self.population.groups()[*group].ues.at(item.ue.into());
        let stamp = stamp.bytes();
        let trace = replay.trace();
        Some(match direction {
            Direction::Uplink => {
                let frames = &mut self.uplink[usize::from(tunnel.endpoint)];
                let room = &mut slot[frames.overhead()..];
                let length = trace.write(item.index as usize, ue, item.pdn, Some(&stamp), room).ok()?;
                frames.wrap(slot, tunnel.teid, length)
            }
            Direction::Downlink => {
                let room = &mut slot[ETHERNET_LEN..];
                let length = trace.write(item.index as usize, item.pdn, ue, Some(&stamp), room).ok()?;
                self.downlink.wrap(slot, ue.is_ipv6(), length)
            }
        })
    }

    /// Takes the next packet of the earliest source.
    fn prepare(&mut self, now: Time) -> Option<Pending> {
        loop {
            let Reverse((at, source)) = *self.order.peek()?;
            if at > now {
                return None;
            }
            self.order.pop();
            self.scheduled[source as usize] = None;
            let pending = self.take(now, at, source);
            self.schedule(source);
            // A stateful replay may have nothing at its time, as it goes on waiting.
            if pending.is_some() || self.scheduled[source as usize] == Some(at) {
                return pending;
            }
        }
    }

    fn take(&mut self, now: Time, at: Time, number: u32) -> Option<Pending> {
        let Source { group, traffic } = &mut self.sources[number as usize];
        let group = *group;
        let members = &self.population.groups()[group];
        let mut at = at;
        let (flow, session, direction, what, length) = match traffic {
            Traffic::Model { direction, sizes, random, in_turn, flows, .. } => {
                let turn = &mut self.turns[number as usize];
                let flow = if *in_turn { *turn } else { random.below(u64::from(*flows)) as u32 };
                *turn = if flow + 1 >= *flows { 0 } else { flow + 1 };
                let (session, nth) = (flow / members.flows_per_ue, flow % members.flows_per_ue);
                let ue = (members.ues.at(session.into()), UE_PORT + (nth % 0x3fff) as u16);
                let pdn = (members.pdns.at(nth.into()), PDN_PORT);
                let (source, destination) = if *direction == Direction::Uplink { (ue, pdn) } else { (pdn, ue) };
                let length = sizes.draw(random) as usize;
                (flow, session, *direction, What::User(User { source, destination, length }), length)
            }
            Traffic::Trace(replay) => {
                let item = replay.next(now)?;
                at = item.due;
                let length = replay.trace().packet(item.index as usize).length as usize;
                (item.instance, item.ue, item.direction, What::Item(item), length)
            }
        };
        let session = self.population.sessions_of(group).start + session;
        let overhead = match direction {
            Direction::Uplink => self.uplink[usize::from(self.tunnels[session as usize].endpoint)].overhead(),
            Direction::Downlink => self.downlink.overhead(),
        };
        let due = Due { at, direction, group, length: overhead + length };
        Some(Pending { due, source: number, flow: self.population.flows_of(group).start + flow, session, what })
    }

    /// Enters when a source's next packet is.
    fn schedule(&mut self, source: u32) {
        // What a stateful replay waits for may come before the end, also where waiting would end after it.
        let (next, waits) = match &mut self.sources[source as usize].traffic {
            Traffic::Model { arrivals, .. } => (arrivals.next(), false),
            Traffic::Trace(replay) => (replay.next_due(), replay.is_stateful()),
        };
        let next = next.filter(|at| waits || *at < self.until);
        if next != self.scheduled[source as usize] {
            self.scheduled[source as usize] = next;
            self.order.extend(next.map(|at| Reverse((at, source))));
        }
        // The first entry always holds.
        while let Some(Reverse((at, source))) = self.order.peek()
            && self.scheduled[*source as usize] != Some(*at)
        {
            self.order.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::frames::{Access, Core};
    use crate::load::receiver::{Heard, Receiver};
    use crate::load::{AddressRange, DIRECTIONS, Group};
    use engine::Span;
    use std::collections::BTreeMap;
    use traffic::models::{Model, PacketRate};
    use wire::Headers;
    use wire::gtpu::{Gtpu, Qfi};

    const MARK: u32 = 7;
    const UPF: [u8; 6] = [2, 0, 0, 0, 0, 9];
    const END: Time = Time::from_nanos(1_000_000_000);

    fn population() -> Arc<Population> {
        let range = |first: &str, count| AddressRange::new(first.parse().unwrap(), count).unwrap();
        let group = |name: &str, ue: &str, pdn, start_teid| Group {
            name: name.into(),
            ues: AddressRange::of_ues(ue.parse().unwrap(), 3).unwrap(),
            pdns: range(pdn, 2),
            start_teid,
            flows_per_ue: 2,
            flows: 6,
        };
        let groups =
            vec![group("four", "10.0.0.1", "20.0.0.1", 100), group("six", "2001:db8::1", "2001:db8:1::1", 200)];
        Arc::new(Population::new(groups).unwrap())
    }

    fn generator(rates: &[(usize, Direction, u64)]) -> Generator {
        let population = population();
        let sources = rates.iter().map(|&(group, direction, rate)| {
            let model = Model::Steady { rate: PacketRate::per_second(rate) };
            let arrivals = Arrivals::new(&model, Time::ZERO, Span::from_secs(1), Random::stream(1, "arrivals"));
            let (sizes, random) = (PacketSizes::fixed(200), Random::stream(1, "sizes"));
            let traffic = Traffic::Model { direction, arrivals, sizes, random, in_turn: true, flows: 6 };
            Source { group, traffic }
        });
        let access = |upf: &str| Access {
            mac: [2, 0, 0, 0, 0, 1],
            next_hop: UPF,
            gnb: "192.168.0.1".parse().unwrap(),
            upf: upf.parse().unwrap(),
            qfi: Qfi::new(9),
            sequence: false,
        };
        let network = Network {
            tunnels: (0..6).map(|i| Tunnel { teid: 1_000 + i, endpoint: (i % 2) as u16 }).collect(),
            uplink: ["192.168.0.2", "192.168.0.3"].map(|upf| UplinkFrames::new(&access(upf))).into(),
            downlink: DownlinkFrames::new(Core { mac: [2, 0, 0, 0, 0, 2], next_hop: UPF }),
            population,
            mark: MARK,
        };
        Generator::new(network, sources.collect(), END)
    }

    /// What a UPF makes of a frame, in the least words: into the tunnel of the UE, or out of it.
    fn forward(direction: Direction, frame: &[u8], teids: &BTreeMap<std::net::IpAddr, u32>) -> Vec<u8> {
        let headers = Headers::parse(frame);
        let mut out = vec![0; 2_048];
        let length = match direction {
            Direction::Uplink => {
                let message = Gtpu::parse(&frame[ETHERNET_LEN + 28..]).unwrap();
                out[ETHERNET_LEN..][..message.payload.len()].copy_from_slice(message.payload);
                let frames = DownlinkFrames::new(Core { mac: UPF, next_hop: [2, 0, 0, 0, 0, 2] });
                frames.wrap(&mut out, message.payload[0] >> 4 == 6, message.payload.len())
            }
            Direction::Downlink => {
                let teid = teids[&headers.ip.unwrap().destination];
                let (gnb, upf) = ("192.168.0.2".parse().unwrap(), "192.168.0.1".parse().unwrap());
                let access = Access { mac: UPF, next_hop: [2, 0, 0, 0, 0, 1], gnb, upf, qfi: None, sequence: true };
                let mut frames = UplinkFrames::new(&access);
                let packet = &frame[ETHERNET_LEN..];
                out[frames.overhead()..][..packet.len()].copy_from_slice(packet);
                frames.wrap(&mut out, teid, packet.len())
            }
        };
        out.truncate(length);
        out
    }

    #[test]
    fn what_is_sent_comes_back_counted() {
        let (up, down) = (Direction::Uplink, Direction::Downlink);
        let mut generator = generator(&[(0, up, 600), (0, down, 60), (1, up, 6), (1, down, 12)]);
        let population = population();
        let teids = population
            .groups()
            .iter()
            .flat_map(|group| (0..3).map(|i| (group.ues.at(i.into()), group.start_teid + i)).collect::<Vec<_>>());
        let teids = teids.collect();
        let mut receivers = DIRECTIONS.map(|way| Receiver::new(population.clone(), way, MARK));
        let mut sent = [[Volume::default(); 2]; 2];
        let mut slot = vec![0; 2_048];
        let travel = Span::from_micros(70);
        while let Some(now) = generator.next_due() {
            let due = generator.due(now).unwrap();
            assert_eq!(due.at, now);
            assert_eq!(generator.write(now, &mut slot), due.length);
            sent[due.group][index(due.direction)].add(due.length);
            let frame = forward(due.direction, &slot[..due.length], &teids);
            let heard = receivers[index(due.direction)].receive(now + travel, &frame);
            let Heard::User(user) = heard else { panic!("not ours") };
            assert_eq!((user.group, user.latency), (due.group, Some(travel)));
        }
        let packets = |group: usize| DIRECTIONS.map(|way| sent[group][index(way)].packets);
        assert_eq!((packets(0), packets(1)), ([600, 60], [6, 12]));
        for way in DIRECTIONS {
            assert_eq!(receivers[index(way)].others(), Default::default());
            for (group, counts) in receivers[index(way)].groups().iter().enumerate() {
                assert_eq!(counts.received, sent[group][index(way)].packets);
                assert_eq!((counts.duplicated, counts.reordered, counts.timed), (0, 0, counts.received));
                // 20 + 8 + 8 octets of IPv4, UDP and GTP-U, 8 more with a container, 4 with a number.
                let apart = sent[group][index(way)].bytes.abs_diff(counts.volume.bytes) / counts.received;
                assert_eq!(apart, if way == up { 44 } else { 40 });
            }
        }
        // Flows take turns: each of the six has its share.
        assert!((0..6).all(|flow| receivers[0].received(flow) == 100));
        assert!((6..12).all(|flow| receivers[1].received(flow) == 2));
    }

    #[test]
    fn after_a_stall_all_that_is_due_is_there() {
        let mut generator = generator(&[(0, Direction::Uplink, 1_000)]);
        let mut slot = vec![0; 2_048];
        let mut write = |generator: &mut Generator, now| {
            let mut count = 0;
            while generator.due(now).is_some() {
                assert!(generator.write(now, &mut slot) > 0);
                count += 1;
            }
            count
        };
        assert_eq!(write(&mut generator, Time::ZERO), 1);
        assert_eq!(write(&mut generator, Time::from_nanos(500_000_000)), 500);
        assert_eq!(write(&mut generator, Time::from_nanos(500_000_000)), 0);
        assert_eq!(generator.drain(), [[499, 0], [0, 0]]);
        assert_eq!(generator.next_due(), None);
    }

    #[test]
    fn a_slot_that_is_too_short_costs_the_packet_and_is_counted() {
        let mut generator = generator(&[(0, Direction::Downlink, 10)]);
        assert!(generator.due(Time::ZERO).is_some());
        assert_eq!(generator.write(Time::ZERO, &mut [0; 100]), 0);
        assert_eq!(generator.unwritable(), 1);
        assert_eq!(generator.due(Time::ZERO), None);
    }

    #[test]
    fn another_s_tunnel_is_noticed() {
        let mut generator = generator(&[(0, Direction::Downlink, 10)]);
        let mut slot = vec![0; 2_048];
        let length = generator.due(Time::ZERO).map(|due| due.length).unwrap();
        generator.write(Time::ZERO, &mut slot);
        let mut receiver = Receiver::new(population(), Direction::Downlink, MARK);
        for (teid, misrouted) in [(100, 0), (101, 1)] {
            let teids = (0..3).map(|i| (population().groups()[0].ues.at(i), teid)).collect();
            receiver.receive(Time::ZERO, &forward(Direction::Downlink, &slot[..length], &teids));
            assert_eq!(receiver.others().misrouted, misrouted);
        }
        assert_eq!(receiver.tally().duplicated, 1);
    }
}
