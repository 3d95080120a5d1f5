//! Echo requests of ICMP (RFC 792) and `ICMPv6` (RFC 4443 4).

use alloc::vec::Vec;
use core::net::IpAddr;

use engine::Time;
use wire::frame::reseal;
use wire::{Echo, Fragment, Headers, checksum, protocol};

use super::{Answer, CacheKind, FromLan, FromLine, Key, ReplyCache};

/// A whole echo message to one host, with a right checksum.
pub(super) fn parse(frame: &[u8], headers: &Headers) -> Option<Echo> {
    let ip = headers.ip?;
    let message = frame.get(ip.transport..headers.network + headers.network_len)?;
    let pseudo = match ip.protocol {
        protocol::ICMP => checksum::Sum::default(),
        number => checksum::Sum::pseudo_header(ip.source, ip.destination, number, message.len() as u32),
    };
    let v6 = ip.source.is_ipv6();
    let own = ip.protocol == if v6 { protocol::ICMPV6 } else { protocol::ICMP };
    let whole = ip.fragment == Fragment::Whole && own && !ip.destination.is_multicast();
    let valid = whole && !ip.source.is_unspecified() && wire::is_intact(message, pseudo);
    Some(Echo::parse(message, v6).filter(|_| valid)?.0)
}

impl ReplyCache {
    pub(super) fn echo_asked(
        &mut self,
        now: Time,
        frame: &[u8],
        headers: &Headers,
        echo: Echo,
        scratch: &mut Vec<u8>,
        answer: &mut dyn FnMut(&[u8]),
    ) -> (Option<CacheKind>, FromLan) {
        let Some(ip) = headers.ip.filter(|_| !echo.reply) else { return (None, FromLan::Pass) };
        let kind = self.config.echoes.map(|_| CacheKind::Echoes);
        let key = Key::Echo { from: ip.source, to: ip.destination };
        let Some(entry) = self.entries.get_mut(&key) else { return (kind, FromLan::Pass) };
        let due = entry.is_due(now);
        let Answer::Echo { hops, renewal } = &mut entry.answer else { return (kind, FromLan::Pass) };
        scratch.clear();
        scratch.extend_from_slice(&frame[..headers.network + headers.network_len]);
        reply(scratch, headers, *hops);
        answer(scratch);
        if due {
            *renewal = Some((echo.identifier, echo.sequence));
        }
        (kind, if due { FromLan::Renew } else { FromLan::Answered })
    }

    pub(super) fn echo_heard(&mut self, now: Time, frame: &[u8], headers: &Headers, echo: Echo) -> FromLine {
        let (Some(hold), Some(ip), true) = (self.config.echoes, headers.ip, echo.reply) else {
            return FromLine::Deliver;
        };
        let key = Key::Echo { from: ip.destination, to: ip.source };
        let asked = Some((echo.identifier, echo.sequence));
        // Who asked has the answer already; a second one would count as a duplicate.
        let renewed = matches!(self.entries.get(&key), Some(entry) if matches!(entry.answer, Answer::Echo { renewal, .. } if renewal == asked));
        let hops = frame[hops_at(headers, ip.source)];
        self.keep(now, key, hold, Answer::Echo { hops, renewal: None });
        if renewed { FromLine::Keep } else { FromLine::Deliver }
    }
}

/// Where the time to live or hop limit stands.
fn hops_at(headers: &Headers, address: IpAddr) -> usize {
    headers.network + if address.is_ipv6() { 7 } else { 8 }
}

/// Makes an echo request the reply to it.
fn reply(frame: &mut [u8], headers: &Headers, hops: u8) {
    let Some(ip) = headers.ip else { return };
    let v6 = ip.source.is_ipv6();
    let (addresses, length) = if v6 { (headers.network + 8, 16) } else { (headers.network + 12, 4) };
    swap(&mut frame[..12], 6);
    swap(&mut frame[addresses..addresses + 2 * length], length);
    frame[hops_at(headers, ip.source)] = hops;
    // RFC 792: type 0; RFC 4443 4.2: type 129.
    frame[ip.transport] = if v6 { 129 } else { 0 };
    reseal(frame);
}

fn swap(pair: &mut [u8], length: usize) {
    let (first, second) = pair.split_at_mut(length);
    first.swap_with_slice(second);
}
