//! Payload compression: what is tried, what pays, and what comes back.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic too")]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use adapter::payload::{Deflater, InflateError, Inflater, MARK, PayloadConfig, PayloadCounters};
use engine::Random;
use proptest::prelude::*;
use wire::frame::{self, Ethernet, IpHeader};
use wire::{Tcp, TcpFlags, Udp, ethertype};

const TEXT: &[u8] = b"REPORT 07 POSITION 54 21 N 010 08 E COURSE 270 SPEED 12 KN WIND 240 18 KN SEA 3\n";

#[derive(Clone, Copy)]
enum Kind {
    Udp(u16),
    Tcp(u16),
}

/// The network layer of a packet.
fn packet(v6: bool, kind: Kind, payload: &[u8]) -> (u16, Vec<u8>) {
    let (ends, ethertype): ([IpAddr; 2], u16) = match v6 {
        true => ([1, 2].map(|n| Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, n).into()), ethertype::IPV6),
        false => ([1, 2].map(|n| Ipv4Addr::new(10, 0, 0, n).into()), ethertype::IPV4),
    };
    let ip = IpHeader::between(ends[0], ends[1], 0).unwrap();
    let ethernet = Ethernet { destination: [2; 6], source: [4; 6] };
    let mut bytes = Vec::new();
    match kind {
        Kind::Udp(destination) => {
            frame::udp(&mut bytes, &ethernet, &ip, Udp { source: 40_000, destination }, payload).unwrap();
        }
        Kind::Tcp(destination) => {
            let tcp = Tcp {
                source: 40_000,
                destination,
                sequence: 1,
                acknowledgement: 1,
                flags: TcpFlags::ACK,
                window: 1_000,
                urgent: 0,
                options: &[],
            };
            frame::tcp(&mut bytes, &ethernet, &ip, &tcp, payload).unwrap();
        }
    }
    (ethertype, bytes.split_off(14))
}

/// Six lines of a report.
fn report() -> Vec<u8> {
    TEXT.repeat(6)
}

fn noise(length: usize) -> Vec<u8> {
    let mut random = Random::stream(1, "noise");
    (0..length).map(|_| random.bits() as u8).collect()
}

fn send(deflater: &mut Deflater, (ethertype, packet): &(u16, Vec<u8>)) -> Vec<u8> {
    let mut line = packet.clone();
    deflater.deflate(*ethertype, packet, &mut line);
    line
}

#[test]
fn what_pays_is_deflated_and_comes_back() {
    let (mut deflater, mut inflater) = (Deflater::new(PayloadConfig::default()), Inflater::new(65_575));
    for v6 in [false, true] {
        for kind in [Kind::Udp(9), Kind::Tcp(25)] {
            let sent = packet(v6, kind, &report());
            let line = send(&mut deflater, &sent);
            assert!(line.len() < sent.1.len() / 3 && line[0] == MARK, "{} of {}", line.len(), sent.1.len());
            assert_eq!(inflater.inflate(&line).unwrap(), sent.1);
        }
    }
    let counters = deflater.counters();
    assert_eq!((counters.deflated, counters.vain, counters.encrypted), (4, 0, 0));
    assert!(counters.bytes_after < counters.bytes_before / 3);
    // What is not deflated costs nothing more.
    let short = packet(true, Kind::Udp(9), b"");
    assert_eq!(send(&mut deflater, &short), short.1);
    assert_eq!(inflater.inflate(&short.1).unwrap(), short.1);
}

#[test]
fn what_is_encrypted_or_looks_it_is_never_tried() {
    let mut tls = vec![23, 3, 3, 1, 200];
    tls.extend(report());
    let mut dtls = vec![22, 0xfe, 0xfd, 0, 0];
    dtls.extend(report());
    let mut srtp = vec![0x80, 0x60, 0, 1];
    srtp.extend(report());
    let mut packets = vec![
        packet(true, Kind::Tcp(443), &report()),
        packet(false, Kind::Udp(4_500), &report()),
        packet(true, Kind::Tcp(9_999), &tls),
        packet(false, Kind::Udp(9_999), &dtls),
        packet(true, Kind::Udp(5_004), &srtp),
        packet(true, Kind::Tcp(9_999), &noise(600)),
        packet(false, Kind::Udp(9_999), &noise(1_400)),
    ];
    for v6 in [false, true] {
        // ESP and AH in place of UDP.
        for number in [50, 51] {
            let mut other = packet(v6, Kind::Udp(9), &report());
            other.1[if v6 { 6 } else { 9 }] = number;
            packets.push(other);
        }
    }
    // AH behind destination options.
    let mut behind = packet(true, Kind::Udp(9), &report());
    behind.1[6] = 60;
    behind.1[40..48].copy_from_slice(&[51, 0, 1, 4, 0, 0, 0, 0]);
    packets.push(behind);
    let mut deflater = Deflater::new(PayloadConfig::default());
    for sent in &packets {
        assert_eq!(send(&mut deflater, sent), sent.1);
    }
    let expected = PayloadCounters { encrypted: packets.len() as u64, ..PayloadCounters::default() };
    assert_eq!(deflater.counters(), expected);
}

#[test]
fn a_flow_that_does_not_pay_rests_longer_each_time() {
    let mut deflater = Deflater::new(PayloadConfig::default());
    // Not even, but of too many different bytes without repetition.
    let coded: Vec<u8> = (0..80u8).map(|n| n.wrapping_mul(37)).chain([0; 8]).collect();
    let (vain, paying) = (packet(true, Kind::Udp(9), &coded), packet(true, Kind::Udp(9), &report()));
    let mut tried = Vec::new();
    for number in 0..200 {
        let before = deflater.counters().vain;
        send(&mut deflater, &vain);
        if deflater.counters().vain > before {
            tried.push(number);
        }
    }
    assert_eq!(tried, [0, 9, 26, 59, 124]);
    // Another flow is tried at once.
    let other = packet(true, Kind::Udp(10), &report());
    assert_eq!(send(&mut deflater, &other)[0], MARK);
    // Once it pays it does not rest any more.
    let line: Vec<_> = (0..300).map(|_| send(&mut deflater, &paying)[0]).collect();
    assert!(line[299] == MARK && line.iter().filter(|first| **first == MARK).count() > 200);
}

#[test]
fn a_bomb_is_refused_by_name_and_what_is_damaged_too() {
    let mut inflater = Inflater::new(1_500);
    let mut bomb = vec![MARK];
    bomb.extend(miniz_oxide::deflate::compress_to_vec(&vec![0; 1 << 20], 9));
    assert!(bomb.len() < 1_500);
    assert_eq!(inflater.inflate(&bomb), Err(InflateError::TooLong { limit: 1_500 }));
    // As long as may be is not too long.
    let most = [&[MARK][..], &miniz_oxide::deflate::compress_to_vec(&[7; 1_500], 9)].concat();
    assert_eq!(inflater.inflate(&most).unwrap(), [7; 1_500]);
    assert_eq!(inflater.inflate(&most[..most.len() - 1]), Err(InflateError::Damaged));
    assert_eq!(inflater.inflate(&[&most[..], &[0, 0]].concat()), Err(InflateError::Trailing { bytes: 2 }));
    assert_eq!(inflater.inflate(&[MARK]), Err(InflateError::Damaged));
    assert_eq!(inflater.inflate(&[MARK, 0xff, 0xff]), Err(InflateError::Damaged));
    assert_eq!(inflater.inflate(&[]), Ok(&[][..]));
    assert_eq!(inflater.inflate(&[0x60, 1, 2]), Ok(&[0x60, 1, 2][..]));
}

#[test]
fn nothing_is_allocated_once_warm() {
    let (mut deflater, mut inflater) = (Deflater::new(PayloadConfig::default()), Inflater::new(1_500));
    let sent = packet(true, Kind::Tcp(25), &report());
    let mut line = Vec::with_capacity(1_500);
    let mut turn = |deflater: &mut Deflater, inflater: &mut Inflater| {
        line.clear();
        line.extend_from_slice(&sent.1);
        assert!(deflater.deflate(sent.0, &sent.1, &mut line));
        assert_eq!(inflater.inflate(&line), Ok(&sent.1[..]));
    };
    for _ in 0..4 {
        turn(&mut deflater, &mut inflater);
    }
    let used = allocation_counter::measure(|| (0..100).for_each(|_| turn(&mut deflater, &mut inflater)));
    assert_eq!(used.count_total, 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_payload_comes_back(
        v6: bool, tcp: bool, port: u16, words in prop::collection::vec(0usize..40, 0..200), tail in prop::collection::vec(any::<u8>(), 0..40), margin in 1u64..257,
    ) {
        let payload: Vec<u8> = words.iter().map(|at| TEXT[*at]).chain(tail).collect();
        let kind = if tcp { Kind::Tcp(port) } else { Kind::Udp(port) };
        let sent = packet(v6, kind, &payload);
        let config = PayloadConfig { margin: engine::Size::from_bytes(margin), ..PayloadConfig::default() };
        let line = send(&mut Deflater::new(config), &sent);
        prop_assert!(line == sent.1 || line.len() + margin as usize <= sent.1.len());
        let mut inflater = Inflater::new(1_500);
        prop_assert_eq!(inflater.inflate(&line), Ok(&sent.1[..]));
    }

    #[test]
    fn any_bytes_are_inflated_within_bounds(mut line in prop::collection::vec(any::<u8>(), 1..200), limit in 0usize..2_000) {
        line[0] = MARK;
        if let Ok(packet) = Inflater::new(limit).inflate(&line) {
            prop_assert!(packet.len() <= limit);
        }
    }

    #[test]
    fn any_bytes_may_be_deflated(ethertype in prop_oneof![Just(0x0800u16), Just(0x86dd), any::<u16>()], packet in prop::collection::vec(any::<u8>(), 0..200), first in prop_oneof![Just(0x45u8), Just(0x60)]) {
        let mut packet = packet;
        if let Some(byte) = packet.first_mut() {
            // Nothing that comes to a line begins like a deflated packet.
            *byte = first;
        }
        let mut line = packet.clone();
        Deflater::new(PayloadConfig::default()).deflate(ethertype, &packet, &mut line);
        let mut inflater = Inflater::new(200);
        prop_assert_eq!(inflater.inflate(&line), Ok(&packet[..]));
    }
}
