//! What comes back: whose it is, how long it took, and whether all of it came.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use engine::{Span, Time};
use traffic::stamp::{Arrival, Stamp, Tally, Tracker};
use wire::gtpu::{GTPU_PORT, Gtpu, Message};
use wire::{ECHO_LEN, ETHERNET_LEN, Fragment, Headers, Tcp, UDP_LEN, ethertype, protocol};

use crate::load::Direction;
use crate::load::generator::Volume;
use crate::load::population::Population;

/// Accounts for what the UPF hands on at one of its sides: uplink packets on N6, or downlink packets on N3.
#[derive(Debug)]
pub struct Receiver {
    population: Arc<Population>,
    direction: Direction,
    mark: u32,
    tracker: Tracker,
    groups: Vec<Inward>,
    others: Others,
}

/// What came in of one group's traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inward {
    /// All of it, copies too.
    pub volume: Volume,
    /// First copies, of packets with a number. All packets of models have one.
    pub received: u64,
    /// First copies that came after a later packet of their flow.
    pub reordered: u64,
    /// Copies beyond the first.
    pub duplicated: u64,
    /// Too old to be told from copies.
    pub stale: u64,
    /// Packets whose payload holds a time.
    pub timed: u64,
    /// Sum of the latencies of these in nanoseconds.
    pub latency_ns: u64,
}

/// What else came in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Others {
    /// Users' packets that came by another's tunnel.
    pub misrouted: u64,
    /// Users' packets that bear no stamp of this run though they have room for one.
    pub unstamped: u64,
    /// GTP-U echo requests.
    pub echoes: u64,
    /// GTP-U error indications: the UPF does not know a TEID.
    pub error_indications: u64,
    /// End markers.
    pub end_markers: u64,
    /// GTP-U that cannot be read.
    pub malformed: u64,
    /// All else.
    pub foreign: u64,
}

/// What a frame was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// A user's packet.
    User(UserPacket),
    /// Something about tunnels, which may want an answer ([`crate::load::answer`]).
    Tunnel(Message),
    /// Something about neighbours, perhaps.
    Other,
}

/// A user's packet that came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserPacket {
    /// Its group.
    pub group: usize,
    /// Number of its UE in the group.
    pub ue: u32,
    /// Where the user's IP packet begins and ends in the frame.
    pub at: (usize, usize),
    /// How long it was on its way, if it says when it was sent.
    pub latency: Option<Span>,
    /// Its flow and what its number says, if it has one.
    pub arrival: Option<(u32, Arrival)>,
    /// Which packet of its trace it is.
    pub packet: Option<u32>,
}

impl Receiver {
    /// A receiver of packets that go this way and bear this mark.
    #[must_use]
    pub fn new(population: Arc<Population>, direction: Direction, mark: u32) -> Self {
        let (flows, groups) = (population.flows() as usize, vec![Inward::default(); population.groups().len()]);
        Self { population, direction, mark, tracker: Tracker::new(flows), groups, others: Others::default() }
    }

    /// Takes a frame that came in at `now`.
    pub fn receive(&mut self, now: Time, frame: &[u8]) -> Heard {
        let headers = Headers::parse(frame);
        match self.direction {
            Direction::Uplink => {
                let packet = frame.get(headers.network..).unwrap_or_default();
                let user = self.user(now, frame, packet, headers.ethertype, None);
                user.map_or_else(|| self.foreign(&headers), Heard::User)
            }
            Direction::Downlink => self.tunnel(now, frame, &headers),
        }
    }

    /// What came in of each group.
    #[must_use]
    pub fn groups(&self) -> &[Inward] {
        &self.groups
    }

    /// The first flow of a group.
    #[must_use]
    pub fn first_flow(&self, group: usize) -> u32 {
        self.population.flows_of(group).start
    }

    /// What else came in.
    #[must_use]
    pub fn others(&self) -> Others {
        self.others
    }

    /// What the numbers of all flows say.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.tracker.tally()
    }

    /// First copies received of a flow.
    #[must_use]
    pub fn received(&self, flow: u32) -> u64 {
        self.tracker.received(flow)
    }

    fn tunnel(&mut self, now: Time, frame: &[u8], headers: &Headers) -> Heard {
        let Some(datagram) = gtpu(frame, headers) else { return self.foreign(headers) };
        let Ok(message) = Gtpu::parse(datagram) else {
            self.others.malformed += 1;
            return Heard::Other;
        };
        match message.message {
            Message::GPdu => {
                let kind = if message.payload.first().is_some_and(|first| first >> 4 == 6) {
                    ethertype::IPV6
                } else {
                    ethertype::IPV4
                };
                let teid = Some(message.teid);
                match self.user(now, frame, message.payload, kind, teid) {
                    Some(user) => Heard::User(user),
                    None => {
                        self.others.foreign += 1;
                        Heard::Other
                    }
                }
            }
            other => {
                match other {
                    Message::EchoRequest => self.others.echoes += 1,
                    Message::ErrorIndication => self.others.error_indications += 1,
                    Message::EndMarker => self.others.end_markers += 1,
                    _ => {}
                }
                Heard::Tunnel(other)
            }
        }
    }

    fn foreign(&mut self, headers: &Headers) -> Heard {
        // Neighbours are no strangers.
        let icmp6 = headers.ip.is_some_and(|ip| ip.protocol == protocol::ICMPV6);
        if headers.ethertype != ethertype::ARP && !icmp6 {
            self.others.foreign += 1;
        }
        Heard::Other
    }

    /// Counts a user's packet; `None` if it is of no UE of the load.
    fn user(&mut self, now: Time, frame: &[u8], packet: &[u8], kind: u16, teid: Option<u32>) -> Option<UserPacket> {
        let headers = Headers::of_network(kind, packet);
        let ip = headers.ip?;
        let ue = if self.direction == Direction::Uplink { ip.source } else { ip.destination };
        let (group, session) = self.population.session_of(ue)?;
        if teid.is_some_and(|teid| teid != self.population.groups()[group].start_teid + session) {
            self.others.misrouted += 1;
        }
        // The packet is a part of the frame.
        let begin = packet.as_ptr().addr() - frame.as_ptr().addr();
        let at = (begin, begin + headers.network_len);
        let counts = &mut self.groups[group];
        counts.volume.add(frame.len());
        let room = payload(packet, &headers).unwrap_or_default();
        let found = Stamp::read(room, self.mark);
        let Some(found) = found else {
            self.others.unstamped += u64::from(room.len() >= 8);
            return Some(UserPacket { group, ue: session, at, latency: None, arrival: None, packet: None });
        };
        // A time that lies ahead was never ours.
        let latency = (found.sent <= now).then(|| now.since(found.sent));
        if let Some(latency) = latency {
            counts.timed += 1;
            counts.latency_ns = counts.latency_ns.saturating_add(latency.as_nanos());
        }
        let arrival = found.number.map(|(flow, sequence)| (flow, self.tracker.receive(flow, sequence)));
        match arrival {
            Some((_, Arrival::First)) => counts.received += 1,
            Some((_, Arrival::Late)) => {
                counts.received += 1;
                counts.reordered += 1;
            }
            Some((_, Arrival::Copy)) => counts.duplicated += 1,
            Some((_, Arrival::Stale)) => counts.stale += 1,
            Some((_, Arrival::Unknown)) | None => {}
        }
        Some(UserPacket { group, ue: session, at, latency, arrival, packet: found.packet })
    }
}

/// The GTP-U message in a frame, if there is one.
fn gtpu<'a>(frame: &'a [u8], headers: &Headers) -> Option<&'a [u8]> {
    let ip = headers.ip?;
    let (_, to) = ip.ports.filter(|_| ip.protocol == protocol::UDP)?;
    let from = ip.ports.is_some_and(|(from, _)| from == GTPU_PORT);
    // Requests go to the port, answers come from it (TS 29.281 4.4.2).
    (to == GTPU_PORT || from).then_some(())?;
    frame.get(ip.transport + UDP_LEN..headers.network + headers.network_len)
}

/// The part of a packet that may be stamped: the payload of UDP, TCP and ICMP echo.
fn payload<'a>(packet: &'a [u8], headers: &Headers) -> Option<&'a [u8]> {
    let ip = headers.ip?;
    if ip.fragment != Fragment::Whole {
        return None;
    }
    let transport = packet.get(ip.transport..headers.network + headers.network_len)?;
    match ip.protocol {
        protocol::UDP => transport.get(UDP_LEN..),
        protocol::TCP => Tcp::parse(transport).map(|(_, payload)| payload),
        protocol::ICMP | protocol::ICMPV6 => transport.get(ECHO_LEN..),
        _ => None,
    }
}

/// The answer to a frame about tunnels that wants one, at the gNB: an echo response (TS 29.281 7.2.2), as a
/// whole frame.
#[must_use]
pub fn answer(frame: &[u8]) -> Option<Vec<u8>> {
    let headers = Headers::parse(frame);
    let ip = headers.ip?;
    let (from, _) = ip.ports?;
    let message = Gtpu::parse(gtpu(frame, &headers)?).ok()?;
    let Message::EchoRequest = message.message else { return None };
    let mut response = Vec::new();
    wire::gtpu::echo_response(&mut response, message.sequence.unwrap_or(0));
    let mac = |at: usize| frame[at..at + 6].first_chunk::<6>().copied().unwrap_or_default();
    debug_assert!(frame.len() >= ETHERNET_LEN);
    let ethernet = wire::frame::Ethernet { destination: mac(6), source: mac(0) };
    let header = wire::frame::IpHeader::between(ip.destination, ip.source, 0)?;
    let mut out = Vec::new();
    // TS 29.281 4.4.2.2: back to the port it came from.
    let udp = wire::Udp { source: GTPU_PORT, destination: from };
    wire::frame::udp(&mut out, &ethernet, &header, udp, &response).ok()?;
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::frame::{Ethernet, IpHeader, udp};

    #[test]
    fn echo_requests_are_answered() {
        let (a, b) = ("192.168.0.1".parse().unwrap(), "192.168.0.2".parse().unwrap());
        let mut request = Vec::new();
        wire::gtpu::echo_request(&mut request, 77);
        let mut frame = Vec::new();
        let ethernet = Ethernet { destination: [1; 6], source: [2; 6] };
        let ports = wire::Udp { source: 4_000, destination: GTPU_PORT };
        udp(&mut frame, &ethernet, &IpHeader::between(a, b, 0).unwrap(), ports, &request).unwrap();
        let answer = answer(&frame).unwrap();
        let headers = Headers::parse(&answer);
        let ip = headers.ip.unwrap();
        assert_eq!((ip.source, ip.destination, ip.ports), (b, a, Some((GTPU_PORT, 4_000))));
        let message = Gtpu::parse(gtpu(&answer, &headers).unwrap()).unwrap();
        assert_eq!((message.message, message.sequence), (Message::EchoResponse, Some(77)));
        // What is no request wants no answer.
        assert_eq!(super::answer(&answer), None);
    }
}
