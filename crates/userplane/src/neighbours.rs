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
    pub fn handle(&mut self, frame: &[u8], headers: &Headers, send: impl FnMut(&[u8])) -> bool {
        if let Some(arp) = Arp::parse(frame, headers) {
            self.arp(&arp, send);
            return true;
        }
        match Message::parse(frame, headers) {
            Some(message) => self.discovery(&message, send),
            None => return false,
        }
        true
    }

    fn arp(&mut self, arp: &Arp, mut send: impl FnMut(&[u8])) {
        let (mac, address) = arp.sender;
        // RFC 826: the sender's pair is learnt from requests too. 0.0.0.0 is a probe (RFC 5227 1.1).
        self.learn(address.into(), mac);
        if !arp.reply && self.has(arp.target.1.into()) {
            let answer = Arp { reply: true, sender: (self.mac, arp.target.1), target: arp.sender };
            let mut frame = Vec::new();
            answer.write(&mut frame, &Ethernet { destination: mac, source: self.mac });
            send(&frame);
        }
    }

    fn discovery(&mut self, message: &Message, mut send: impl FnMut(&[u8])) {
        match *message {
            Message::Advertisement(advertisement) => {
                if let Some(mac) = advertisement.link {
                    self.learn(advertisement.target.into(), mac);
                }
            }
            Message::Solicitation { source, target, link } => {
                if let Some(mac) = link {
                    self.learn(source.into(), mac);
                }
                if !self.has(target.into()) {
                    return;
                }
                // RFC 4861 7.2.4: who has no address yet is answered through all nodes.
                let probe = source.is_unspecified();
                let destination = if probe { ALL_NODES } else { source };
                let mac = link.filter(|_| !probe).unwrap_or_else(|| ndp::multicast_mac(destination));
                let link = Some(self.mac);
                let answer = Advertisement { target, router: true, solicited: !probe, overrides: true, link };
                let mut frame = Vec::new();
                answer.write(&mut frame, &Ethernet { destination: mac, source: self.mac }, destination);
                send(&frame);
            }
            Message::RouterSolicitation { .. } | Message::RouterAdvertisement { .. } => {}
        }
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

fn request(frame: &mut Vec<u8>, mac: [u8; 6], source: IpAddr, target: IpAddr) {
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
