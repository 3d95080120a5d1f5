//! Who is behind an address on an Ethernet segment: asking by ARP and neighbour discovery, and answering for
//! addresses of one's own.

use alloc::vec::Vec;
use core::net::IpAddr;

use engine::{Span, Time};
use wire::Headers;
use wire::arp::Arp;
use wire::frame::Ethernet;
use wire::ndp::{self, Advertisement, Message};

use crate::load::AddressRange;

/// From one request to the next (RFC 4861 10, RetransTimer).
const AGAIN: Span = Span::from_millis(1_000);
/// How often an address is asked for before it counts as absent.
const TRIES: u32 = 5;

/// One station on a segment.
#[derive(Clone, Debug)]
pub struct Neighbours {
    mac: [u8; 6],
    /// What it answers for.
    own: Vec<AddressRange>,
    /// What it asks from: one of each family, if there is one.
    sources: Vec<IpAddr>,
    wanted: Vec<Wanted>,
}

#[derive(Clone, Copy, Debug)]
struct Wanted {
    address: IpAddr,
    mac: Option<[u8; 6]>,
    asked: u32,
    again: Time,
}

impl Neighbours {
    /// A station with an Ethernet address, which answers for `own` and asks from the first address in it
    /// of the family that it asks for.
    #[must_use]
    pub fn new(mac: [u8; 6], own: Vec<AddressRange>) -> Self {
        let mut sources: Vec<IpAddr> = Vec::new();
        for range in &own {
            if !sources.iter().any(|source| source.is_ipv4() == range.first().is_ipv4()) {
                sources.push(range.first());
            }
        }
        Self { mac, own, sources, wanted: Vec::new() }
    }

    /// Its Ethernet address.
    #[must_use]
    pub fn mac(&self) -> [u8; 6] {
        self.mac
    }

    /// Wants to know who has `address`, from `now` on. An address of a family that the station has none
    /// of is never found.
    pub fn want(&mut self, now: Time, address: IpAddr) {
        if !self.wanted.iter().any(|wanted| wanted.address == address) {
            self.wanted.push(Wanted { address, mac: None, asked: 0, again: now });
        }
    }

    /// The Ethernet address behind `address`, once it is known.
    #[must_use]
    pub fn find(&self, address: IpAddr) -> Option<[u8; 6]> {
        self.wanted.iter().find(|wanted| wanted.address == address)?.mac
    }

    /// When the next request is to be sent.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        self.wanted.iter().filter(|wanted| wanted.open()).map(|wanted| wanted.again).min()
    }

    /// Addresses that were asked for in vain.
    pub fn absent(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.wanted.iter().filter(|wanted| wanted.mac.is_none() && !wanted.open()).map(|wanted| wanted.address)
    }

    /// Hands requests that are due to `send`, as whole frames.
    pub fn tick(&mut self, now: Time, mut send: impl FnMut(&[u8])) {
        let mut frame = Vec::new();
        for wanted in &mut self.wanted {
            if !wanted.open() || wanted.again > now {
                continue;
            }
            wanted.asked += 1;
            wanted.again = now + AGAIN;
            let source = self.sources.iter().find(|source| source.is_ipv4() == wanted.address.is_ipv4());
            if let Some(source) = source {
                request(&mut frame, self.mac, *source, wanted.address);
                send(&frame);
            }
        }
    }

    /// Takes a frame. True if it was about neighbours: an answer, if there is one, is handed to `send`.
    pub fn handle(&mut self, frame: &[u8], headers: &Headers, mut send: impl FnMut(&[u8])) -> bool {
        let Some(heard) = hear(frame, headers) else { return false };
        if let Some((address, mac)) = heard.told {
            self.learn(address, mac);
        }
        if let Some(question) = heard.question.filter(|question| self.has(question.target)) {
            let mut frame = Vec::new();
            question.answer(&mut frame, self.mac);
            send(&frame);
        }
        true
    }

    fn learn(&mut self, address: IpAddr, mac: [u8; 6]) {
        if let Some(wanted) = self.wanted.iter_mut().find(|wanted| wanted.address == address) {
            wanted.mac = Some(mac);
        }
    }

    fn has(&self, address: IpAddr) -> bool {
        self.own.iter().any(|range| range.find(address).is_some())
    }
}

impl Wanted {
    /// Whether it is still asked for.
    fn open(&self) -> bool {
        self.mac.is_none() && self.asked < TRIES
    }
}

/// All nodes of the link (RFC 4291 2.7.1).
const ALL_NODES: core::net::Ipv6Addr = core::net::Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// What a frame about neighbours says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard {
    /// An address, and who has it.
    pub(crate) told: Option<(IpAddr, [u8; 6])>,
    /// What is asked, if it is a request.
    pub(crate) question: Option<Question>,
}

/// Who has an address?
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question {
    /// The address.
    pub(crate) target: IpAddr,
    /// Who asks; an unspecified address if it has none yet.
    asker: (IpAddr, Option<[u8; 6]>),
}

/// Reads a frame about neighbours. `None` if it is about something else.
pub(crate) fn hear(frame: &[u8], headers: &Headers) -> Option<Heard> {
    if let Some(arp) = Arp::parse(frame, headers) {
        // RFC 826: the sender's pair is learnt from requests too. 0.0.0.0 is a probe (RFC 5227 1.1).
        let (mac, address) = arp.sender;
        let told = (!address.is_unspecified()).then_some((address.into(), mac));
        let question = Question { target: arp.target.1.into(), asker: (address.into(), Some(mac)) };
        return Some(Heard { told, question: (!arp.reply).then_some(question) });
    }
    Some(match Message::parse(frame, headers)? {
        Message::Advertisement(advertisement) => {
            Heard { told: advertisement.link.map(|mac| (advertisement.target.into(), mac)), question: None }
        }
        Message::Solicitation { source, target, link } => Heard {
            told: link.map(|mac| (source.into(), mac)),
            question: Some(Question { target: target.into(), asker: (source.into(), link) }),
        },
        Message::RouterSolicitation { .. } | Message::RouterAdvertisement { .. } => {
            Heard { told: None, question: None }
        }
    })
}

impl Question {
    /// Replaces the content of `frame` with the answer: `own` has it.
    pub(crate) fn answer(&self, frame: &mut Vec<u8>, own: [u8; 6]) {
        match (self.target, self.asker) {
            (IpAddr::V4(target), (IpAddr::V4(asker), mac)) => {
                let mac = mac.unwrap_or([0xff; 6]);
                let answer = Arp { reply: true, sender: (own, target), target: (mac, asker) };
                answer.write(frame, &Ethernet { destination: mac, source: own });
            }
            (IpAddr::V6(target), (IpAddr::V6(asker), mac)) => {
                // RFC 4861 7.2.4: who has no address yet is answered through all nodes.
                let probe = asker.is_unspecified();
                let destination = if probe { ALL_NODES } else { asker };
                let mac = mac.filter(|_| !probe).unwrap_or_else(|| ndp::multicast_mac(destination));
                let link = Some(own);
                let answer = Advertisement { target, router: true, solicited: !probe, overrides: true, link };
                answer.write(frame, &Ethernet { destination: mac, source: own }, destination);
            }
            _ => frame.clear(),
        }
    }
}

/// Replaces the content of `frame` with a request of the station `source`, whose Ethernet address is `mac`, to all: who has
/// `target`? Empty if the addresses are not of one version.
pub(crate) fn request(frame: &mut Vec<u8>, mac: [u8; 6], source: IpAddr, target: IpAddr) {
    match (source, target) {
        (IpAddr::V4(source), IpAddr::V4(target)) => {
            let arp = Arp { reply: false, sender: (mac, source), target: ([0; 6], target) };
            arp.write(frame, &Ethernet { destination: [0xff; 6], source: mac });
        }
        (IpAddr::V6(source), IpAddr::V6(target)) => ndp::solicit(frame, mac, source, target),
        _ => frame.clear(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    const A: [u8; 6] = [2, 0, 0, 0, 0, 1];
    const B: [u8; 6] = [2, 0, 0, 0, 0, 2];

    fn station(mac: [u8; 6], addresses: &[(&str, u64)]) -> Neighbours {
        let range = |(first, count): &(&str, u64)| AddressRange::new(first.parse().unwrap(), *count).unwrap();
        Neighbours::new(mac, addresses.iter().map(range).collect())
    }

    /// Two stations on one wire, until nobody has anything to say.
    fn settle(now: Time, one: &mut Neighbours, two: &mut Neighbours) {
        let mut frames = vec![];
        one.tick(now, |frame| frames.push((true, frame.to_vec())));
        two.tick(now, |frame| frames.push((false, frame.to_vec())));
        while let Some((from_one, frame)) = frames.pop() {
            let station = if from_one { &mut *two } else { &mut *one };
            assert!(
                station.handle(&frame, &Headers::parse(&frame), |answer| frames.push((!from_one, answer.to_vec())))
            );
        }
    }

    #[test]
    fn stations_find_each_other_by_both_versions() {
        let mut one = station(A, &[("10.0.0.1", 1), ("2001:db8::1", 1)]);
        let mut two = station(B, &[("10.0.0.2", 100), ("2001:db8::2", 100)]);
        for address in ["10.0.0.50", "2001:db8::50"] {
            let address = address.parse().unwrap();
            one.want(Time::ZERO, address);
            assert_eq!(one.find(address), None);
            settle(Time::ZERO, &mut one, &mut two);
            assert_eq!(one.find(address), Some(B));
        }
        assert_eq!(one.deadline(), None);
    }

    #[test]
    fn who_is_absent_is_told_after_some_tries() {
        let mut one = station(A, &[("10.0.0.1", 1)]);
        let mut two = station(B, &[("10.0.0.2", 1)]);
        let nobody = "10.0.0.9".parse().unwrap();
        one.want(Time::ZERO, nobody);
        let mut asked = 0;
        while let Some(now) = one.deadline() {
            assert_eq!(one.absent().count(), 0);
            settle(now, &mut one, &mut two);
            asked += 1;
        }
        assert_eq!((asked, one.absent().collect::<Vec<_>>()), (TRIES, vec![nobody]));
        assert_eq!(one.find(nobody), None);
    }

    #[test]
    fn others_frames_are_left_alone() {
        let mut one = station(A, &[("10.0.0.1", 1)]);
        let frame = [0; 60];
        assert!(!one.handle(&frame, &Headers::parse(&frame), |_| unreachable!()));
    }
}
