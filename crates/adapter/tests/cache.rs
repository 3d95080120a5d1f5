//! Questions from the LAN and answers from the line, byte by byte.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic too")]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use adapter::cache::{CacheConfig, CacheCounters, CacheKind, FromLan, FromLine, ReplyCache};
use engine::{Span, Time};
use proptest::prelude::*;
use wire::arp::Arp;
use wire::frame::{self, Ethernet, IpHeader, Ipv6};
use wire::ndp::{Advertisement, Message, solicited_node};
use wire::{Echo, Ecn, Headers, Udp};

const NEAR: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
const FAR: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);
const ROUTER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2);
const NEAR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const FAR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
const OTHER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 3];

fn second(n: u64) -> Time {
    Time::ZERO + Span::from_secs(n)
}

/// A cache and what it gave to the LAN.
struct Bench {
    cache: ReplyCache,
    answers: Vec<Vec<u8>>,
}

impl Bench {
    /// Everything is answered, for 40 s.
    fn new() -> Self {
        let hold = Some(Span::from_secs(40));
        let config = CacheConfig {
            neighbours: hold,
            arp: hold,
            routers: hold,
            echoes: hold,
            hellos: hold,
            tables: hold,
            entries: 16,
        };
        Self { cache: ReplyCache::new(config), answers: Vec::new() }
    }

    fn ask(&mut self, at: u64, frame: &[u8]) -> FromLan {
        let answers = &mut self.answers;
        self.cache.from_lan(second(at), frame, &Headers::parse(frame), |answer| answers.push(answer.to_vec()))
    }

    fn hear(&mut self, at: u64, frame: &[u8]) -> FromLine {
        self.cache.from_line(second(at), frame, &Headers::parse(frame))
    }

    /// The one answer since this was last called.
    fn answer(&mut self) -> Vec<u8> {
        assert_eq!(self.answers.len(), 1);
        self.answers.remove(0)
    }

    fn counters(&self, kind: CacheKind) -> CacheCounters {
        self.cache.counters(kind)
    }
}

/// An `ICMPv6` message of neighbour discovery, its checksum put right.
fn icmp6(macs: [[u8; 6]; 2], source: Ipv6Addr, destination: Ipv6Addr, hop_limit: u8, message: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    Ethernet { destination: macs[1], source: macs[0] }.write(&mut bytes, 0x86dd);
    let ip = Ipv6 { source, destination, dscp: 0, ecn: Ecn::NotCapable, flow_label: 0, hop_limit };
    bytes.extend(ip.to_bytes(58, message.len()).unwrap());
    bytes.extend(message);
    assert!(frame::reseal(&mut bytes));
    bytes
}

fn neighbour_message(kind: u8, flags: u8, target: Ipv6Addr, option: Option<(u8, [u8; 6])>) -> Vec<u8> {
    let mut message = vec![kind, 0, 0, 0, flags, 0, 0, 0];
    message.extend(target.octets());
    if let Some((kind, mac)) = option {
        message.extend([kind, 1]);
        message.extend(mac);
    }
    message
}

fn solicitation(source: Ipv6Addr, target: Ipv6Addr) -> Vec<u8> {
    let option = (!source.is_unspecified()).then_some((1, NEAR_MAC));
    let [.., a, b, c, d] = solicited_node(target).octets();
    let message = neighbour_message(135, 0, target, option);
    icmp6([NEAR_MAC, [0x33, 0x33, a, b, c, d]], source, solicited_node(target), 255, &message)
}

const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;

fn advertisement(flags: u8, mac: [u8; 6]) -> Vec<u8> {
    let destination = if flags & SOLICITED == 0 { Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1) } else { NEAR };
    icmp6([mac, NEAR_MAC], FAR, destination, 255, &neighbour_message(136, flags, FAR, Some((2, mac))))
}

#[test]
fn a_solicitation_is_answered_as_a_proxy_does() {
    let mut bench = Bench::new();
    let asks = solicitation(NEAR, FAR);
    assert_eq!(bench.ask(0, &asks), FromLan::Pass);
    assert_eq!(bench.hear(1, &advertisement(0x80 | SOLICITED | OVERRIDE, FAR_MAC)), FromLine::Deliver);
    assert_eq!(bench.ask(2, &asks), FromLan::Answered);
    let answer = bench.answer();
    assert_eq!((&answer[..6], &answer[6..12]), (&NEAR_MAC[..], &FAR_MAC[..]));
    let headers = Headers::parse(&answer);
    let ip = headers.ip.unwrap();
    assert_eq!((ip.source, ip.destination), (IpAddr::V6(FAR), IpAddr::V6(NEAR)));
    let expected = Advertisement { target: FAR, router: true, solicited: true, overrides: false, link: Some(FAR_MAC) };
    // Only a valid one is read: hop limit 255, checksum.
    assert_eq!(Message::parse(&answer, &headers), Some(Message::Advertisement(expected)));
    let counters = bench.counters(CacheKind::Neighbours);
    assert_eq!((counters.answered, counters.passed), (1, 1));
}

#[test]
fn who_went_away_is_not_answered_for_past_the_time() {
    let mut bench = Bench::new();
    let asks = solicitation(NEAR, FAR);
    bench.hear(0, &advertisement(SOLICITED | OVERRIDE, FAR_MAC));
    assert_eq!(bench.ask(29, &asks), FromLan::Answered);
    // From the last quarter on questions go on to renew the answer, but not all of them.
    let verdicts: Vec<_> = (30..=41).map(|at| bench.ask(at, &asks)).collect();
    let renewals = verdicts.iter().filter(|verdict| **verdict == FromLan::Renew).count();
    assert_eq!((verdicts[0], verdicts[1], renewals), (FromLan::Renew, FromLan::Answered, 4));
    // Nothing came: at 40 s the answer is gone, and the question asks the far side again.
    assert_eq!(verdicts[9..], [FromLan::Renew, FromLan::Pass, FromLan::Pass]);
    assert_eq!(bench.answers.len(), 11);
    let counters = bench.counters(CacheKind::Neighbours);
    assert_eq!((counters.answered, counters.passed, counters.expired), (11, 6, 1));
}

#[test]
fn a_renewal_in_time_keeps_the_answer() {
    let mut bench = Bench::new();
    let asks = solicitation(NEAR, FAR);
    bench.hear(0, &advertisement(SOLICITED | OVERRIDE, FAR_MAC));
    // The first renewal is lost.
    assert_eq!(bench.ask(31, &asks), FromLan::Renew);
    assert_eq!(bench.ask(35, &asks), FromLan::Renew);
    bench.hear(36, &advertisement(SOLICITED | OVERRIDE, FAR_MAC));
    assert_eq!(bench.ask(65, &asks), FromLan::Answered);
    assert_eq!(bench.counters(CacheKind::Neighbours).expired, 0);
}

#[test]
fn a_probe_for_duplicates_is_never_answered_and_makes_doubtful_what_is_known() {
    let mut bench = Bench::new();
    bench.hear(0, &advertisement(SOLICITED | OVERRIDE, FAR_MAC));
    assert_eq!(bench.ask(1, &solicitation(Ipv6Addr::UNSPECIFIED, FAR)), FromLan::Pass);
    assert_eq!(bench.ask(1, &solicitation(NEAR, FAR)), FromLan::Pass);
    bench.hear(2, &advertisement(SOLICITED | OVERRIDE, FAR_MAC));
    assert_eq!(bench.ask(3, &solicitation(NEAR, FAR)), FromLan::Answered);
    bench.hear(4, &solicitation(Ipv6Addr::UNSPECIFIED, FAR));
    assert_eq!(bench.ask(5, &solicitation(NEAR, FAR)), FromLan::Pass);
    assert_eq!(bench.counters(CacheKind::Neighbours).withdrawn, 2);
}

#[test]
fn advertisements_that_are_not_solicited_update_as_rfc_4861_says() {
    let mut bench = Bench::new();
    let asks = solicitation(NEAR, FAR);
    // Nobody asked: nothing is kept.
    bench.hear(0, &advertisement(OVERRIDE, FAR_MAC));
    assert_eq!(bench.ask(1, &asks), FromLan::Pass);
    // With Override the address is another one, and its time goes on as it was.
    bench.hear(2, &advertisement(SOLICITED | OVERRIDE, FAR_MAC));
    bench.hear(30, &advertisement(OVERRIDE, OTHER_MAC));
    assert_eq!(bench.ask(31, &asks), FromLan::Answered);
    assert_eq!(bench.answer()[6..12], OTHER_MAC);
    assert_eq!(bench.ask(42, &asks), FromLan::Pass);
    // Without it the two contradict each other: the far side is asked.
    bench.hear(50, &advertisement(SOLICITED | OVERRIDE, FAR_MAC));
    bench.hear(51, &advertisement(0, OTHER_MAC));
    assert_eq!(bench.ask(52, &asks), FromLan::Pass);
    // One from this side says that the host is here now.
    bench.hear(60, &advertisement(SOLICITED | OVERRIDE, FAR_MAC));
    assert_eq!(bench.ask(61, &advertisement(OVERRIDE, OTHER_MAC)), FromLan::Pass);
    assert_eq!(bench.ask(62, &asks), FromLan::Pass);
}

#[test]
fn what_a_receiver_must_discard_is_neither_kept_nor_answered() {
    let good = advertisement(SOLICITED | OVERRIDE, FAR_MAC);
    let message = neighbour_message(136, SOLICITED | OVERRIDE, FAR, Some((2, FAR_MAC)));
    let macs = [FAR_MAC, NEAR_MAC];
    let with = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut message = message.clone();
        change(&mut message);
        icmp6(macs, FAR, NEAR, 255, &message)
    };
    let mut wrong_sum = good.clone();
    *wrong_sum.last_mut().unwrap() ^= 1;
    let bad = [
        icmp6(macs, FAR, NEAR, 254, &message),
        wrong_sum,
        with(&|message| message[1] = 1),
        with(&|message| message.truncate(23)),
        with(&|message| message[25] = 0),
        with(&|message| message[25] = 2),
        with(&|message| message[8] = 0xff),
        icmp6(macs, FAR, Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1), 255, &message),
        good[..good.len() - 9].to_vec(),
    ];
    for (number, bad) in bad.iter().enumerate() {
        let mut bench = Bench::new();
        bench.hear(0, bad);
        assert!(bench.cache.is_empty(), "number {number}");
    }
    let mut bench = Bench::new();
    bench.hear(0, &good);
    let mut far_away = solicitation(NEAR, FAR);
    far_away[21] = 254;
    assert_eq!(bench.ask(1, &far_away), FromLan::Pass);
    assert_eq!(bench.ask(1, &solicitation(NEAR, FAR)), FromLan::Answered);
}

#[test]
fn arp_is_answered_but_not_its_probes() {
    let (near, far) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
    let mut bench = Bench::new();
    let arp = |reply, sender, target| {
        let mut frame = Vec::new();
        let ethernet = Ethernet { destination: [0xff; 6], source: NEAR_MAC };
        Arp { reply, sender, target }.write(&mut frame, &ethernet);
        frame
    };
    let asks = arp(false, (NEAR_MAC, near), ([0; 6], far));
    // RFC 826, byte by byte.
    assert_eq!(asks[12..22], [0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, 1]);
    assert_eq!(bench.ask(0, &asks), FromLan::Pass);
    bench.hear(1, &arp(true, (FAR_MAC, far), (NEAR_MAC, near)));
    assert_eq!(bench.ask(2, &asks), FromLan::Answered);
    let answer = bench.answer();
    let read = Arp::parse(&answer, &Headers::parse(&answer)).unwrap();
    assert_eq!(read, Arp { reply: true, sender: (FAR_MAC, far), target: ([0; 6], near) });
    assert_eq!((&answer[..6], &answer[6..12]), (&NEAR_MAC[..], &FAR_MAC[..]));
    // Probe and announcement (RFC 5227).
    assert_eq!(bench.ask(3, &arp(false, (NEAR_MAC, Ipv4Addr::UNSPECIFIED), ([0; 6], far))), FromLan::Pass);
    assert_eq!(bench.ask(3, &arp(false, (NEAR_MAC, near), ([0; 6], near))), FromLan::Pass);
    // The probe was for that address: who has it is to be asked again.
    assert_eq!(bench.ask(4, &asks), FromLan::Pass);
    bench.hear(5, &arp(true, (FAR_MAC, far), (NEAR_MAC, near)));
    // An announcement from the far side updates, and takes its time from what it updates.
    bench.hear(30, &arp(false, (OTHER_MAC, far), ([0; 6], far)));
    assert_eq!(bench.ask(30, &asks), FromLan::Answered);
    assert_eq!(bench.answer()[6..12], OTHER_MAC);
    assert_eq!(bench.ask(45, &asks), FromLan::Pass);
}

fn echo(v6: bool, to_far: bool, reply: bool, sequence: u16) -> Vec<u8> {
    let (near, far) = match v6 {
        true => (IpAddr::V6(NEAR), IpAddr::V6(FAR)),
        false => (IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2))),
    };
    let (macs, addresses) =
        if to_far { ([FAR_MAC, NEAR_MAC], (near, far)) } else { ([NEAR_MAC, FAR_MAC], (far, near)) };
    let ethernet = Ethernet { destination: macs[0], source: macs[1] };
    let mut bytes = Vec::new();
    let ip = IpHeader::between(addresses.0, addresses.1, 46).unwrap();
    frame::echo(&mut bytes, &ethernet, &ip, Echo { reply, identifier: 7, sequence }, b"0123456789").unwrap();
    bytes
}

#[test]
fn an_echo_comes_back_with_its_own_data() {
    for v6 in [false, true] {
        let mut bench = Bench::new();
        assert_eq!(bench.ask(0, &echo(v6, true, false, 1)), FromLan::Pass);
        assert_eq!(bench.hear(1, &echo(v6, false, true, 1)), FromLine::Deliver);
        assert_eq!(bench.ask(2, &echo(v6, true, false, 2)), FromLan::Answered);
        // The reply the far host would have given.
        assert_eq!(bench.answer(), echo(v6, false, true, 2));
        // One goes on to renew; its reply is not given twice, another's is.
        assert_eq!(bench.ask(35, &echo(v6, true, false, 3)), FromLan::Renew);
        assert_eq!(bench.hear(36, &echo(v6, false, true, 9)), FromLine::Deliver);
        assert_eq!(bench.ask(70, &echo(v6, true, false, 4)), FromLan::Renew);
        assert_eq!(bench.hear(71, &echo(v6, false, true, 4)), FromLine::Keep);
        assert_eq!(bench.ask(90, &echo(v6, true, false, 5)), FromLan::Answered);
    }
}

fn router_advertisement(lifetime: u16) -> Vec<u8> {
    let mut message = vec![134, 0, 0, 0, 64, 0];
    message.extend(lifetime.to_be_bytes());
    message.extend([0; 8]);
    message.extend([1, 1]);
    message.extend(FAR_MAC);
    // RFC 4861 4.6.2: a prefix, valid for 100 s, preferred for ever.
    message.extend([3, 4, 64, 0xc0, 0, 0, 0, 100, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
    message.extend(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0).octets());
    icmp6([FAR_MAC, [0x33, 0x33, 0, 0, 0, 1]], ROUTER, Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1), 255, &message)
}

#[test]
fn a_router_is_advertised_as_old_as_it_is_and_no_longer_than_it_is_one() {
    let mut bench = Bench::new();
    let all_routers = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
    let macs = [NEAR_MAC, [0x33, 0x33, 0, 0, 0, 2]];
    let mut message = vec![133, 0, 0, 0, 0, 0, 0, 0, 1, 1];
    message.extend(NEAR_MAC);
    let asks = icmp6(macs, NEAR, all_routers, 255, &message);
    let anonymous = icmp6(macs, Ipv6Addr::UNSPECIFIED, all_routers, 255, &message[..8]);
    assert_eq!(bench.ask(0, &asks), FromLan::Pass);
    bench.hear(0, &router_advertisement(20));
    assert_eq!(bench.ask(5, &asks), FromLan::Answered);
    let answer = bench.answer();
    let headers = Headers::parse(&answer);
    assert_eq!(answer[..6], NEAR_MAC);
    assert_eq!(headers.ip.unwrap().destination, IpAddr::V6(NEAR));
    assert_eq!(Message::parse(&answer, &headers), Some(Message::RouterAdvertisement { source: ROUTER, lifetime: 15 }));
    let prefix = &answer[headers.ip.unwrap().transport + 24..];
    assert_eq!((&prefix[4..8], &prefix[8..12]), (&[0, 0, 0, 95][..], &[0xff; 4][..]));
    // Who has no address yet is answered by the group of all nodes.
    assert_eq!(bench.ask(6, &anonymous), FromLan::Answered);
    assert_eq!(bench.answer()[..6], [0x33, 0x33, 0, 0, 0, 1]);
    assert_eq!(bench.ask(20, &asks), FromLan::Pass);
    // It says that it is a router no more.
    bench.hear(21, &router_advertisement(1800));
    bench.hear(22, &router_advertisement(0));
    assert_eq!(bench.ask(23, &asks), FromLan::Pass);
}

/// An OSPFv3 hello (RFC 5340 A.3.2); `neighbour` is what it says of others.
fn hello(mac: [u8; 6], source: Ipv6Addr, neighbour: u8) -> Vec<u8> {
    let packet = [3, 1, 0, 40, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0x13, 0, 10, 0, 40]
        .into_iter()
        .chain([0; 8])
        .chain([neighbour; 4]);
    let packet: Vec<u8> = packet.collect();
    let destination = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 5);
    let ip = Ipv6 { source, destination, dscp: 48, ecn: Ecn::NotCapable, flow_label: 0, hop_limit: 1 };
    let mut bytes = Vec::new();
    Ethernet { destination: [0x33, 0x33, 0, 0, 0, 5], source: mac }.write(&mut bytes, 0x86dd);
    bytes.extend(ip.to_bytes(89, packet.len()).unwrap());
    bytes.extend(packet);
    bytes
}

#[test]
fn hellos_are_exchanged_on_the_near_side_while_they_say_nothing_new() {
    let mut bench = Bench::new();
    let near_router = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
    let (near, far) = (hello(NEAR_MAC, near_router, 2), hello(FAR_MAC, ROUTER, 1));
    assert_eq!(bench.ask(0, &near), FromLan::Pass);
    assert_eq!(bench.hear(1, &far), FromLine::Deliver);
    assert_eq!(bench.ask(10, &near), FromLan::Pass);
    // Of every half of the 40 s two go over the line.
    let verdicts: Vec<_> = (11..40).map(|at| bench.ask(at, &near)).collect();
    let passed: Vec<_> = (11..40).zip(&verdicts).filter(|(_, verdict)| **verdict == FromLan::Pass).collect();
    assert_eq!(passed.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [20, 21]);
    assert!(bench.answers.iter().all(|answer| *answer == far));
    // Another neighbour list is news.
    assert_eq!(bench.ask(39, &hello(NEAR_MAC, near_router, 9)), FromLan::Pass);
    // When the far router is silent, hellos are not answered past the time.
    assert_eq!(bench.ask(40, &hello(NEAR_MAC, near_router, 9)), FromLan::Pass);
    bench.answers.clear();
    for at in 41..60 {
        assert_eq!(bench.ask(at, &hello(NEAR_MAC, near_router, 9)), FromLan::Pass);
    }
    assert!(bench.answers.is_empty());
}

fn ripng(source: (Ipv6Addr, [u8; 6], u16), destination: (Ipv6Addr, [u8; 6], u16), message: &[u8]) -> Vec<u8> {
    let ip = IpHeader::between(source.0.into(), destination.0.into(), 48).unwrap();
    let ethernet = Ethernet { destination: destination.1, source: source.1 };
    let mut bytes = Vec::new();
    frame::udp(&mut bytes, &ethernet, &ip, Udp { source: source.2, destination: destination.2 }, message).unwrap();
    bytes
}

#[test]
fn a_whole_table_is_told_again_until_an_update_differs() {
    let mut bench = Bench::new();
    let all = (Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 9), [0x33, 0x33, 0, 0, 0, 9], 521);
    let (near, far) = ((NEAR, NEAR_MAC, 40_000), (ROUTER, FAR_MAC, 521));
    let mut request = vec![1, 1, 0, 0];
    request.extend([0; 19]);
    request.push(16);
    let asks = ripng(near, all, &request);
    let mut table = vec![2, 1, 0, 0];
    table.extend(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0).octets());
    table.extend([0, 0, 32, 1]);
    // An update alone may be a part.
    bench.hear(0, &ripng(far, all, &table));
    assert_eq!(bench.ask(1, &asks), FromLan::Pass);
    bench.hear(2, &ripng(far, near, &table));
    let again = (NEAR, OTHER_MAC, 50_000);
    assert_eq!(bench.ask(3, &ripng(again, all, &request)), FromLan::Answered);
    assert_eq!(bench.answer(), ripng(far, again, &table));
    // The same update renews it, another one ends it.
    bench.hear(30, &ripng(far, all, &table));
    assert_eq!(bench.ask(50, &asks), FromLan::Answered);
    let mut changed = table.clone();
    changed[23] = 16;
    bench.hear(51, &ripng(far, all, &changed));
    assert_eq!(bench.ask(52, &asks), FromLan::Pass);
}

#[test]
fn the_cache_is_bounded_and_the_oldest_gives_way() {
    let mut bench = Bench::new();
    for n in 0..100u16 {
        let far = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 1, n);
        let message = neighbour_message(136, SOLICITED | OVERRIDE, far, Some((2, FAR_MAC)));
        bench.hear(u64::from(n) / 10, &icmp6([FAR_MAC, NEAR_MAC], far, NEAR, 255, &message));
    }
    assert_eq!((bench.cache.len(), bench.counters(CacheKind::Neighbours).displaced), (16, 84));
    let asks = |n| solicitation(NEAR, Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 1, n));
    assert_eq!(bench.ask(10, &asks(83)), FromLan::Pass);
    assert_eq!(bench.ask(10, &asks(84)), FromLan::Answered);
    bench.cache.clear();
    assert_eq!(bench.ask(10, &asks(84)), FromLan::Pass);
}

#[test]
fn what_is_off_is_neither_kept_nor_answered() {
    let mut bench = Bench { cache: ReplyCache::new(CacheConfig::off()), answers: Vec::new() };
    bench.hear(0, &advertisement(SOLICITED | OVERRIDE, FAR_MAC));
    bench.hear(0, &router_advertisement(1800));
    bench.hear(0, &echo(true, false, true, 1));
    bench.hear(0, &hello(FAR_MAC, ROUTER, 1));
    assert!(bench.cache.is_empty());
    assert_eq!(bench.ask(1, &solicitation(NEAR, FAR)), FromLan::Pass);
    assert_eq!(CacheKind::ALL.map(|kind| bench.counters(kind)), [CacheCounters::default(); 6]);
}

/// Frames of every kind the cache knows.
fn known() -> Vec<Vec<u8>> {
    let mut arp = Vec::new();
    let station = |mac, last| (mac, Ipv4Addr::new(10, 0, 0, last));
    let ethernet = Ethernet { destination: NEAR_MAC, source: FAR_MAC };
    Arp { reply: true, sender: station(FAR_MAC, 2), target: station(NEAR_MAC, 1) }.write(&mut arp, &ethernet);
    let far = (ROUTER, FAR_MAC, 521);
    vec![
        solicitation(NEAR, FAR),
        advertisement(SOLICITED | OVERRIDE, FAR_MAC),
        router_advertisement(1800),
        echo(false, true, false, 1),
        echo(true, false, true, 1),
        hello(FAR_MAC, ROUTER, 1),
        ripng(far, (NEAR, NEAR_MAC, 40_000), &[2, 1, 0, 0]),
        arp,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever comes from both sides: no panic, no growth, and answers that are whole packets with
    /// right checksums.
    #[test]
    fn any_frames_leave_it_sound(
        steps in prop::collection::vec(
            (0usize..8, any::<bool>(), prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3), any::<prop::sample::Index>(), any::<bool>(), 0u64..9),
            1..30,
        ),
    ) {
        let mut bench = Bench::new();
        let mut now = 0;
        for (which, from_lan, damage, cut, sealed, passed) in steps {
            let mut frame = known().swap_remove(which);
            for (at, value) in damage {
                let at = at.index(frame.len());
                frame[at] = value;
            }
            if cut.index(4) == 0 {
                frame.truncate(cut.index(frame.len()));
            }
            if sealed {
                frame::reseal(&mut frame);
            }
            now += passed;
            if from_lan {
                bench.ask(now, &frame);
            } else {
                bench.hear(now, &frame);
            }
            prop_assert!(bench.cache.len() <= 16);
            for answer in bench.answers.drain(..) {
                let mut again = answer.clone();
                let headers = Headers::parse(&answer);
                prop_assert!(headers.ip.is_some() || Arp::parse(&answer, &headers).is_some());
                frame::reseal(&mut again);
                prop_assert_eq!(again, answer);
            }
        }
    }
}

/// Seconds at which a host gets an answer through two caches in a row, when the far host gave one at 1 s and
/// is gone since.
fn answered_in_a_chain(asks: &[u8], answer: &[u8]) -> Vec<u64> {
    let (mut near, mut far) = (Bench::new(), Bench::new());
    assert_eq!((near.ask(0, asks), far.ask(0, asks)), (FromLan::Pass, FromLan::Pass));
    far.hear(1, answer);
    near.hear(1, answer);
    let mut answered = Vec::new();
    for at in 2..300 {
        let first = near.ask(at, asks);
        let mut any = first != FromLan::Pass;
        if first != FromLan::Answered && far.ask(at, asks) != FromLan::Pass {
            near.hear(at, &far.answers.pop().unwrap());
            any = true;
        }
        if any {
            answered.push(at);
        }
    }
    answered
}

#[test]
fn through_a_chain_nobody_is_answered_for_past_the_time() {
    let station = |mac, last| (mac, Ipv4Addr::new(10, 0, 0, last));
    let arp = |reply, sender, target| {
        let mut frame = Vec::new();
        Arp { reply, sender, target }.write(&mut frame, &Ethernet { destination: NEAR_MAC, source: FAR_MAC });
        frame
    };
    let mut routers = vec![133, 0, 0, 0, 0, 0, 0, 0, 1, 1];
    routers.extend(NEAR_MAC);
    let all_routers = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
    let cases = [
        (solicitation(NEAR, FAR), advertisement(SOLICITED | OVERRIDE, FAR_MAC)),
        (arp(false, station(NEAR_MAC, 1), station([0; 6], 2)), arp(true, station(FAR_MAC, 2), station(NEAR_MAC, 1))),
        (icmp6([NEAR_MAC, [0x33, 0x33, 0, 0, 0, 2]], NEAR, all_routers, 255, &routers), router_advertisement(1800)),
    ];
    for (asks, answer) in cases {
        // The answer of 1 s holds for 40 s.
        assert_eq!(answered_in_a_chain(&asks, &answer), (2..41).collect::<Vec<_>>());
    }
}

#[test]
fn an_address_that_moved_to_this_side_is_not_answered_for() {
    let asks = solicitation(NEAR, FAR);
    for moved in [solicitation(Ipv6Addr::UNSPECIFIED, FAR), solicitation(FAR, ROUTER)] {
        let mut bench = Bench::new();
        bench.hear(1, &advertisement(SOLICITED | OVERRIDE, FAR_MAC));
        assert_eq!(bench.ask(2, &asks), FromLan::Answered);
        assert_eq!(bench.ask(3, &moved), FromLan::Pass);
        assert_eq!(bench.ask(4, &asks), FromLan::Pass);
        assert_eq!(bench.counters(CacheKind::Neighbours).withdrawn, 1);
    }
}
