//! Neighbour discovery (RFC 4861) and ARP (RFC 826).

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use engine::{Span, Time};
use wire::Headers;
use wire::arp::Arp;
use wire::frame::{Ethernet, reseal};
use wire::ndp::{self, Advertisement, Message};

use super::{Answer, CacheKind, Entry, FromLan, Key, ReplyCache};

/// RFC 2464 7: the Ethernet address of the group of all nodes.
const ALL_NODES: [u8; 6] = [0x33, 0x33, 0, 0, 0, 1];
const NO_ADDRESS: [u8; 6] = [0; 6];

/// RFC 4389 4.1.3.3: among a router advertisement's flags, that it comes from a proxy.
const PROXIED: u8 = 0x04;

/// The kind of question, if it was one, and what becomes of the frame.
type Verdict = (Option<CacheKind>, FromLan);

impl ReplyCache {
    pub(super) fn discovery_asked(
        &mut self,
        now: Time,
        frame: &[u8],
        message: Message,
        scratch: &mut Vec<u8>,
        answer: &mut dyn FnMut(&[u8]),
    ) -> Verdict {
        match message {
            Message::Solicitation { source, target, link } => {
                let kind = self.config.neighbours.map(|_| CacheKind::Neighbours);
                // RFC 4862 5.4: only who has the address may say so. Who is about to take it is on this side,
                // as is who asks with it.
                if source.is_unspecified() {
                    self.withdraw(Key::Neighbour(target));
                    return (kind, FromLan::Pass);
                }
                self.withdraw(Key::Neighbour(source));
                let Some(entry) = self.entries.get_mut(&Key::Neighbour(target)) else { return (kind, FromLan::Pass) };
                let Answer::Station { mac, router } = entry.answer else { return (kind, FromLan::Pass) };
                // RFC 4861 7.2.4: a proxy leaves Override clear.
                let reply = Advertisement { target, router, solicited: true, overrides: false, link: Some(mac) };
                let ethernet = Ethernet { destination: link.unwrap_or(source_mac(frame)), source: mac };
                reply.write(scratch, &ethernet, source);
                answer(scratch);
                (kind, if entry.is_due(now) { FromLan::Renew } else { FromLan::Answered })
            }
            Message::RouterSolicitation { source, link } => {
                self.withdraw(Key::Neighbour(source));
                let to = match source {
                    // RFC 4861 6.2.6: who has no address is answered by the group of all nodes.
                    Ipv6Addr::UNSPECIFIED => (ALL_NODES, Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1)),
                    source => (link.unwrap_or(source_mac(frame)), source),
                };
                (self.config.routers.map(|_| CacheKind::Routers), self.routers_asked(now, to, scratch, answer))
            }
            // Who has this address is on this side.
            Message::Advertisement(advertisement) => {
                self.withdraw(Key::Neighbour(advertisement.target));
                (None, FromLan::Pass)
            }
            Message::RouterAdvertisement { source, .. } => {
                self.withdraw(Key::Router(source));
                (None, FromLan::Pass)
            }
        }
    }

    fn routers_asked(
        &mut self,
        now: Time,
        to: ([u8; 6], Ipv6Addr),
        scratch: &mut Vec<u8>,
        answer: &mut dyn FnMut(&[u8]),
    ) -> FromLan {
        let mut verdict = FromLan::Pass;
        for (key, entry) in &mut self.entries {
            let (Key::Router(_), Answer::Frame(frame)) = (key, &entry.answer) else { continue };
            scratch.clear();
            scratch.extend_from_slice(frame);
            advertise_again(scratch, to, now.since(entry.given));
            answer(scratch);
            if entry.is_due(now) {
                verdict = FromLan::Renew;
            } else if verdict == FromLan::Pass {
                verdict = FromLan::Answered;
            }
        }
        verdict
    }

    pub(super) fn discovery_heard(&mut self, now: Time, frame: &[u8], message: Message) {
        match message {
            Message::Advertisement(advertisement) => self.advertised(now, advertisement),
            Message::RouterAdvertisement { source, lifetime } => {
                let Some(hold) = self.config.routers else { return };
                if is_proxied(frame) {
                    return;
                }
                let hold = hold.min(Span::from_secs(u64::from(lifetime)));
                if hold == Span::ZERO || frame.len() > super::LONGEST_FRAME {
                    self.withdraw(Key::Router(source));
                } else {
                    self.keep(now, Key::Router(source), hold, Answer::Frame(frame.to_vec()));
                }
            }
            // Somebody wants to have this address: who has it now is to be asked again.
            Message::Solicitation { source: Ipv6Addr::UNSPECIFIED, target, .. } => {
                self.withdraw(Key::Neighbour(target));
            }
            Message::Solicitation { .. } | Message::RouterSolicitation { .. } => {}
        }
    }

    /// RFC 4861 7.2.5, where an entry here is one in the state REACHABLE.
    fn advertised(&mut self, now: Time, Advertisement { target, router, solicited, overrides, link }: Advertisement) {
        let Some(hold) = self.config.neighbours else { return };
        let key = Key::Neighbour(target);
        // RFC 4861 7.2.4: with an address and without Override a proxy speaks, such as the next adapter of a
        // chain. It does not know when the host was last there: nothing is kept or renewed by it.
        let solicited = solicited && (overrides || link.is_none());
        let Some(entry) = self.entries.get_mut(&key) else {
            // Nobody asked through us for what is not solicited.
            if let (true, Some(mac)) = (solicited, link) {
                self.keep(now, key, hold, Answer::Station { mac, router });
            }
            return;
        };
        let Answer::Station { mac: known, .. } = entry.answer else { return };
        let mac = link.unwrap_or(known);
        if mac != known && !overrides {
            // It may be either: the next question goes through.
            self.withdraw(key);
        } else if solicited {
            self.keep(now, key, hold, Answer::Station { mac, router });
        } else {
            // Not a sign that packets get there: the time goes on as it was.
            entry.answer = Answer::Station { mac, router };
        }
    }

    pub(super) fn arp_asked(
        &mut self,
        now: Time,
        frame: &[u8],
        arp: Arp,
        scratch: &mut Vec<u8>,
        answer: &mut dyn FnMut(&[u8]),
    ) -> Verdict {
        // Who has this address is on this side, or (RFC 5227 2.1.1: a probe) is about to take it.
        self.withdraw(Key::Arp(if arp.sender.1.is_unspecified() { arp.target.1 } else { arp.sender.1 }));
        let kind = (self.config.arp.is_some() && !arp.reply).then_some(CacheKind::Arp);
        let (asker, wanted) = (arp.sender, arp.target.1);
        // RFC 5227 1.1: a probe has no sender's address, an announcement asks for the sender's own.
        if arp.reply || asker.1.is_unspecified() || asker.1 == wanted {
            return (kind, FromLan::Pass);
        }
        let Some(entry) = self.entries.get_mut(&Key::Arp(wanted)) else { return (kind, FromLan::Pass) };
        let Answer::Station { mac, .. } = entry.answer else { return (kind, FromLan::Pass) };
        let ethernet = Ethernet { destination: source_mac(frame), source: mac };
        // No receiver reads the target's hardware address in a reply (RFC 826): none there marks our own.
        Arp { reply: true, sender: (mac, wanted), target: (NO_ADDRESS, asker.1) }.write(scratch, &ethernet);
        answer(scratch);
        (kind, if entry.is_due(now) { FromLan::Renew } else { FromLan::Answered })
    }

    pub(super) fn arp_heard(&mut self, now: Time, arp: Arp) {
        let Some(hold) = self.config.arp else { return };
        let (mac, address) = arp.sender;
        if address.is_unspecified() {
            // RFC 5227 2.1.1: somebody wants to have this address.
            self.withdraw(Key::Arp(arp.target.1));
        } else if arp.reply && address != arp.target.1 {
            if arp.target.0 == NO_ADDRESS {
                return self.arp_retold(address, mac);
            }
            self.keep(now, Key::Arp(address), hold, Answer::Station { mac, router: false });
        } else if let Some(entry) = self.entries.get_mut(&Key::Arp(address)) {
            // RFC 826: whatever is sent updates what is known.
            entry.answer = Answer::Station { mac, router: false };
        }
    }

    /// Another adapter told again what it knows of this address: that renews nothing.
    fn arp_retold(&mut self, address: Ipv4Addr, mac: [u8; 6]) {
        let key = Key::Arp(address);
        if let Some(Entry { answer: Answer::Station { mac: known, .. }, .. }) = self.entries.get(&key)
            && *known != mac
        {
            self.withdraw(key);
        }
    }
}

/// Whether a router's advertisement comes from a proxy.
fn is_proxied(frame: &[u8]) -> bool {
    let transport = Headers::parse(frame).ip.map(|ip| ip.transport);
    transport.and_then(|at| frame.get(at + 5)).is_some_and(|flags| flags & PROXIED != 0)
}

fn source_mac(frame: &[u8]) -> [u8; 6] {
    frame.get(6..).and_then(|rest| rest.first_chunk()).copied().unwrap_or_default()
}

/// Makes a router's advertisement one to `to` that is `age` old.
fn advertise_again(frame: &mut [u8], (mac, address): ([u8; 6], Ipv6Addr), age: Span) {
    let headers = Headers::parse(frame);
    let Some(wire::Ip { destination: IpAddr::V6(_), transport, .. }) = headers.ip else { return };
    let passed = (age.as_nanos() / 1_000_000_000) as u32;
    frame[..6].copy_from_slice(&mac);
    frame[headers.network + 24..headers.network + 40].copy_from_slice(&address.octets());
    let message = &mut frame[transport..headers.network + headers.network_len];
    message[5] |= PROXIED;
    // RFC 4861 4.2. It is not over: an answer is kept no longer than that.
    let lifetime = u16::from_be_bytes([message[6], message[7]]);
    let left = u32::from(lifetime).saturating_sub(passed) as u16;
    message[6..8].copy_from_slice(&left.to_be_bytes());
    // Where options have lifetimes of four bytes: prefix information (RFC 4861 4.6.2), route
    // information (RFC 4191 2.3), recursive DNS servers and DNS search list (RFC 8106 5).
    let mut at = ndp::ROUTER_ADVERTISEMENT_LEN;
    while let Some(&[kind, units, ..]) = message.get(at..) {
        let lifetimes: &[usize] = match kind {
            3 => &[4, 8],
            24 | 25 | 31 => &[4],
            _ => &[],
        };
        for lifetime in lifetimes {
            if let Some(field) = message.get_mut(at + lifetime..at + lifetime + 4) {
                let seconds = u32::from_be_bytes([field[0], field[1], field[2], field[3]]);
                // All ones are for ever.
                let left = if seconds == u32::MAX { seconds } else { seconds.saturating_sub(passed) };
                field.copy_from_slice(&left.to_be_bytes());
            }
        }
        at += usize::from(units.max(1)) * 8;
    }
    reseal(frame);
}
