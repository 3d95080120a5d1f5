//! What routers ask: hellos of OSPFv2 (RFC 2328 9.5) and `OSPFv3` (RFC 5340 4.2.1), tables of RIP
//! (RFC 2453) and `RIPng` (RFC 2080).

use alloc::vec::Vec;
use core::net::IpAddr;

use engine::Time;
use wire::frame::reseal;
use wire::{Fragment, Headers, Udp, checksum, protocol};

use super::{Answer, CacheKind, FromLan, Key, LONGEST_FRAME, ReplyCache};

/// OSPF's protocol number.
pub(super) const OSPF: u8 = 89;
/// Of every half of an answer's time so many of a router's hellos go over the line.
const HELLOS_PASSED: u8 = 2;
/// Ports of RIP and `RIPng`.
const RIP: u16 = 520;
const RIPNG: u16 = 521;
const REQUEST: u8 = 1;
const RESPONSE: u8 = 2;
const HEADER: usize = 4;
const ROUTE: usize = 20;

/// A hello to all routers of the link.
#[derive(Clone, Copy)]
pub(super) struct Hello<'a> {
    source: IpAddr,
    packet: &'a [u8],
}

/// A message of RIP or `RIPng`.
#[derive(Clone, Copy)]
pub(super) struct Routes<'a> {
    source: IpAddr,
    port: u16,
    message: &'a [u8],
    /// To one router, not to all.
    unicast: bool,
}

/// What a near router's last hello said.
#[derive(Clone, Debug)]
pub(super) struct Said {
    packet: Vec<u8>,
    /// Since when the present half counts, and how many went over the line in it.
    since: Time,
    passed: u8,
}

impl<'a> Hello<'a> {
    pub(super) fn parse(frame: &'a [u8], headers: &Headers) -> Option<Self> {
        let ip = headers.ip?;
        let packet = frame.get(ip.transport..headers.network + headers.network_len)?;
        let version = if ip.source.is_ipv6() { 3 } else { 2 };
        // RFC 2328 A.3.1, RFC 5340 A.3.1: version, and type 1.
        let hello = packet.starts_with(&[version, 1]) && ip.destination.is_multicast();
        (hello && ip.fragment == Fragment::Whole && frame.len() <= LONGEST_FRAME)
            .then_some(Self { source: ip.source, packet })
    }
}

impl<'a> Routes<'a> {
    pub(super) fn parse(frame: &'a [u8], headers: &Headers) -> Option<Self> {
        let ip = headers.ip?;
        let well_known = if ip.source.is_ipv6() { RIPNG } else { RIP };
        let (port, _) = ip.ports.filter(|(source, destination)| *source == well_known || *destination == well_known)?;
        let datagram = frame.get(ip.transport..headers.network + headers.network_len)?;
        let pseudo = checksum::Sum::pseudo_header(ip.source, ip.destination, protocol::UDP, datagram.len() as u32);
        let (_, message) = Udp::parse(datagram)?;
        let intact = wire::is_intact(datagram, pseudo) || (ip.source.is_ipv4() && datagram[6..8] == [0, 0]);
        let whole = ip.fragment == Fragment::Whole && intact && frame.len() <= LONGEST_FRAME;
        let unicast = frame.first().is_some_and(|first| first & 1 == 0);
        whole.then_some(Self { source: ip.source, port, message, unicast })
    }

    /// A request for all there is: one entry of no network with a metric of infinity (RFC 2453 3.9.1,
    /// RFC 2080 2.4.1).
    fn asks_for_all(&self) -> bool {
        let Some((&[command, ..], [entry @ .., metric])) = self
            .message
            .split_first_chunk::<HEADER>()
            .and_then(|(header, entry)| (entry.len() == ROUTE).then_some((header, entry)))
        else {
            return false;
        };
        command == REQUEST && *metric == 16 && entry.iter().all(|byte| *byte == 0)
    }

    /// Whether a response can be the whole table: it has room for one more route than it has.
    /// RFC 2453 4: at most 25 routes; `RIPng`'s are limited by the MTU, of which 1280 B are sure.
    fn is_all(&self) -> bool {
        let most = if self.source.is_ipv6() { (1_280 - 48 - HEADER) / ROUTE } else { 25 };
        let routes = self.message.len().saturating_sub(HEADER) / ROUTE;
        self.message.first() == Some(&RESPONSE) && routes < most
    }
}

impl ReplyCache {
    pub(super) fn hello_asked(
        &mut self,
        now: Time,
        hello: Hello<'_>,
        answer: &mut dyn FnMut(&[u8]),
    ) -> (Option<CacheKind>, FromLan) {
        let Some(hold) = self.config.hellos else { return (None, FromLan::Pass) };
        let kind = Some(CacheKind::Hellos);
        let v6 = hello.source.is_ipv6();
        let half_over = |said: &Said| now.since(said.since).as_nanos() >= hold.as_nanos() / 2;
        let passes = match self.said.get_mut(&hello.source) {
            Some(said) if said.packet == hello.packet && !half_over(said) => {
                let passes = said.passed < HELLOS_PASSED;
                said.passed += u8::from(passes);
                passes
            }
            _ => {
                self.said.retain(|_, said| now.since(said.since) < hold);
                if self.said.len() < self.config.entries as usize {
                    let packet = hello.packet.to_vec();
                    self.said.insert(hello.source, Said { packet, since: now, passed: 1 });
                }
                true
            }
        };
        if passes {
            return (kind, FromLan::Pass);
        }
        let mut verdict = FromLan::Pass;
        for (key, entry) in &self.entries {
            if let (Key::Hello(source), Answer::Frame(frame)) = (key, &entry.answer)
                && source.is_ipv6() == v6
            {
                answer(frame);
                verdict = FromLan::Answered;
            }
        }
        (kind, verdict)
    }

    pub(super) fn hello_heard(&mut self, now: Time, frame: &[u8], hello: Hello<'_>) {
        if let Some(hold) = self.config.hellos {
            self.keep(now, Key::Hello(hello.source), hold, Answer::Frame(frame.to_vec()));
        }
    }

    pub(super) fn table_asked(
        &mut self,
        now: Time,
        frame: &[u8],
        routes: Routes<'_>,
        scratch: &mut Vec<u8>,
        answer: &mut dyn FnMut(&[u8]),
    ) -> (Option<CacheKind>, FromLan) {
        if self.config.tables.is_none() || !routes.asks_for_all() {
            return (None, FromLan::Pass);
        }
        let mut verdict = FromLan::Pass;
        for (key, entry) in &mut self.entries {
            let (Key::Table(source), Answer::Frame(table)) = (key, &entry.answer) else { continue };
            if source.is_ipv6() != routes.source.is_ipv6() {
                continue;
            }
            scratch.clear();
            scratch.extend_from_slice(table);
            send_to(scratch, frame, routes.source, routes.port);
            answer(scratch);
            if entry.is_due(now) {
                verdict = FromLan::Renew;
            } else if verdict == FromLan::Pass {
                verdict = FromLan::Answered;
            }
        }
        (Some(CacheKind::Tables), verdict)
    }

    pub(super) fn table_heard(&mut self, now: Time, frame: &[u8], routes: Routes<'_>) {
        let Some(hold) = self.config.tables else { return };
        let key = Key::Table(routes.source);
        if routes.message.first() != Some(&RESPONSE) {
            return;
        }
        if routes.unicast && routes.is_all() {
            self.keep(now, key, hold, Answer::Frame(frame.to_vec()));
            return;
        }
        // An update to all: the same table again, or a change of which only a part may be told.
        let known = match self.entries.get(&key).map(|entry| &entry.answer) {
            Some(Answer::Frame(known)) => known.clone(),
            _ => return,
        };
        let headers = Headers::parse(&known);
        match Routes::parse(&known, &headers) {
            Some(before) if before.message == routes.message => self.keep(now, key, hold, Answer::Frame(known)),
            _ => self.withdraw(key),
        }
    }
}

/// Addresses a datagram to who sent `request`.
fn send_to(frame: &mut [u8], request: &[u8], address: IpAddr, port: u16) {
    let headers = Headers::parse(frame);
    let Some(ip) = headers.ip else { return };
    frame[..6].copy_from_slice(&request[6..12]);
    match address {
        IpAddr::V4(v4) => frame[headers.network + 16..headers.network + 20].copy_from_slice(&v4.octets()),
        IpAddr::V6(v6) => frame[headers.network + 24..headers.network + 40].copy_from_slice(&v6.octets()),
    }
    frame[ip.transport + 2..ip.transport + 4].copy_from_slice(&port.to_be_bytes());
    reseal(frame);
}
