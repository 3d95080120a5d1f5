//! The ESP tunnel from end to end, byte by byte, and as another implementation reads it.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "says what is skipped; helpers of tests may panic too")]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::Command;

use engine::{Checksum, DropReason, Element, Output, Packet, Time};
use proptest::prelude::*;
use traffic::{ESP_LINK_DROPS, EspGateway, SecurityAssociation, esp_length, esp_room};
use wire::frame::{self, Ethernet, IpHeader};
use wire::{Ecn, Headers, Udp, pcapng, protocol};

const V4: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::new(10, 64, 0, 1)), IpAddr::V4(Ipv4Addr::new(10, 64, 0, 2))];
const V6: [IpAddr; 2] =
    [IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 3, 0, 0, 0, 1)), IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 3, 0, 0, 0, 2))];
const SITES4: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::new(10, 255, 0, 1)), IpAddr::V4(Ipv4Addr::new(10, 255, 0, 2))];
const SITES6: [IpAddr; 2] =
    [IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 1, 0, 0, 0, 1)), IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 1, 0, 0, 0, 2))];
const ETHERNET: Ethernet = Ethernet { destination: [2, 0, 0, 0, 0, 2], source: [2, 0, 0, 0, 0, 1] };
const SEED: u64 = 7;

fn association(direction: &str, spi: u32) -> SecurityAssociation {
    SecurityAssociation::derived(SEED, direction, spi)
}

fn pair(ends: [IpAddr; 2]) -> [EspGateway; 2] {
    let (up, down) = (association("up", 0x1001), association("down", 0x1002));
    [EspGateway::new(ends[0], ends[1], &up, &down), EspGateway::new(ends[1], ends[0], &down, &up)]
}

fn datagram(sites: [IpAddr; 2], dscp: u8, length: usize) -> Packet {
    let ip = IpHeader::between(sites[0], sites[1], dscp).unwrap();
    let mut bytes = Vec::new();
    let payload: Vec<u8> = (0..length).map(|n| n as u8).collect();
    frame::udp(&mut bytes, &ETHERNET, &ip, Udp { source: 4000, destination: 5004 }, &payload).unwrap();
    Packet::new(bytes)
}

/// What a gateway gives for one packet: on which port, or why not.
fn pass(gateway: &mut EspGateway, port: usize, packet: &Packet) -> Result<(usize, Packet), DropReason> {
    gateway.handle(Time::ZERO, port, packet.clone());
    match gateway.poll().unwrap() {
        Output::Transmit { port, packet } => Ok((port, packet)),
        Output::Drop { reason, .. } => Err(reason),
        other => panic!("{other:?}"),
    }
}

fn reason(text: &str) -> DropReason {
    *ESP_LINK_DROPS.iter().find(|reason| reason.0 == text).unwrap()
}

#[test]
fn what_goes_in_at_one_end_comes_out_at_the_other() {
    for (ends, outer) in [(V4, 20), (V6, 40)] {
        for sites in [SITES4, SITES6] {
            let [mut near, mut far] = pair(ends);
            for length in 0..40 {
                let packet = datagram(sites, 46, length);
                let (port, sealed) = pass(&mut near, 0, &packet).unwrap();
                assert_eq!(port, 1);
                let headers = Headers::parse(&sealed.bytes);
                let ip = headers.ip.unwrap();
                assert_eq!((ip.source, ip.destination, ip.dscp), (ends[0], ends[1], 46));
                assert_eq!(ip.protocol, protocol::ESP);
                assert_eq!(headers.network_len, esp_length(outer, packet.len() - 14));
                assert_eq!(sealed.len(), 14 + headers.network_len);
                // RFC 4303 2.1, 2.2: SPI, and sequence numbers from 1.
                let esp = &sealed.bytes[ip.transport..];
                assert_eq!(esp[..8], [0, 0, 0x10, 1, 0, 0, 0, length as u8 + 1]);
                assert_eq!((headers.transport_len() - 16 - 16) % 4, 0);
                assert_eq!(pass(&mut far, 1, &sealed).unwrap(), (0, packet));
            }
            // And back.
            let back = datagram([sites[1], sites[0]], 0, 9);
            let (_, sealed) = pass(&mut far, 0, &back).unwrap();
            assert_eq!(pass(&mut near, 1, &sealed).unwrap(), (0, back));
        }
    }
}

#[test]
fn a_replay_is_refused_and_so_is_what_was_altered() {
    let [mut near, mut far] = pair(V6);
    let sealed: Vec<_> = (0..200).map(|_| pass(&mut near, 0, &datagram(SITES6, 0, 60)).unwrap().1).collect();
    // Out of order within the window.
    for number in [1, 0, 130, 3, 129] {
        assert!(pass(&mut far, 1, &sealed[number]).is_ok(), "{number}");
    }
    let replayed = Err(reason("ESP sequence number seen or too old"));
    for number in [0, 1, 2, 3, 130] {
        assert_eq!(pass(&mut far, 1, &sealed[number]), replayed, "{number}");
    }
    // Every byte of the ESP packet is protected, and a forgery does not move the window.
    let good = &sealed[150];
    for at in 54..good.len() {
        let mut altered = good.clone();
        altered.bytes[at] ^= 1;
        let refused = pass(&mut far, 1, &altered).unwrap_err();
        let expected = if at < 58 { "no security association" } else { "ESP integrity check failed" };
        assert!(refused == reason(expected) || (58..62).contains(&at), "{refused} at {at}");
    }
    assert!(pass(&mut far, 1, good).is_ok());
    assert_eq!(pass(&mut far, 1, good), replayed);
    // Another one's key, and no ESP at all.
    let other = association("other", 0x1001);
    let mut stranger = EspGateway::new(V6[0], V6[1], &other, &other);
    let forged = pass(&mut stranger, 0, &datagram(SITES6, 0, 60)).unwrap().1;
    let mut late = forged.clone();
    late.bytes[58..62].copy_from_slice(&999u32.to_be_bytes());
    assert_eq!(pass(&mut far, 1, &late), Err(reason("ESP integrity check failed")));
    assert_eq!(pass(&mut far, 1, &datagram(SITES6, 0, 60)), Err(reason("not protected by ESP")));
}

#[test]
fn congestion_marks_pass_both_headers() {
    for (ends, sites) in [(V4, SITES4), (V6, SITES6), (V4, SITES6)] {
        let [mut near, mut far] = pair(ends);
        let with = |ecn: Ecn| {
            let mut packet = datagram(sites, 0, 20);
            let headers = Headers::parse(&packet.bytes);
            let class = if sites[0].is_ipv6() { ecn.bits() << 4 } else { ecn.bits() };
            packet.bytes[headers.network + 1] |= class;
            frame::reseal(&mut packet.bytes);
            packet
        };
        // RFC 6040 4.1: the outer header has the inner one's mark.
        let (_, mut sealed) = pass(&mut near, 0, &with(Ecn::Capable0)).unwrap();
        let headers = Headers::parse(&sealed.bytes);
        assert_eq!(headers.ip.unwrap().ecn, Ecn::Capable0);
        // RFC 6040 4.2: what was marked on the way is marked inside.
        assert!(wire::mark_congestion(&mut sealed.bytes, &headers));
        assert_eq!(pass(&mut far, 1, &sealed), Ok((0, with(Ecn::Experienced))));
        let (_, mut sealed) = pass(&mut near, 0, &with(Ecn::NotCapable)).unwrap();
        let at = headers.network + 1;
        sealed.bytes[at] |= if ends[0].is_ipv6() { 0x30 } else { 0x03 };
        frame::reseal(&mut sealed.bytes);
        assert_eq!(pass(&mut far, 1, &sealed), Err(reason("congestion marked in ESP")));
    }
}

#[test]
fn neighbours_find_each_other_and_padding_and_partial_checksums_are_left_behind() {
    let [mut near, mut far] = pair(V6);
    let arp = Packet::new([&[0xff; 6][..], &[2; 6], &[8, 6], &[0; 46]].concat());
    assert_eq!(pass(&mut near, 0, &arp), Ok((1, arp.clone())));
    assert_eq!(pass(&mut far, 1, &arp), Ok((0, arp)));
    let whole = datagram(SITES4, 0, 10);
    let mut padded = whole.clone();
    padded.bytes.resize(60, 0xee);
    let headers = Headers::parse(&whole.bytes);
    let at = headers.ip.unwrap().transport;
    let sum = wire::checksum::Sum::pseudo_header(SITES4[0], SITES4[1], protocol::UDP, headers.transport_len() as u32);
    padded.bytes[at + 6..at + 8].copy_from_slice(&sum.uncomplemented().to_be_bytes());
    padded.checksum = Checksum::Partial { start: at as u16, offset: 6 };
    let (_, sealed) = pass(&mut near, 0, &padded).unwrap();
    assert_eq!((sealed.len(), sealed.checksum), (14 + esp_length(40, whole.len() - 14), Checksum::Complete));
    assert_eq!(pass(&mut far, 1, &sealed).unwrap().1.bytes, whole.bytes);
}

#[test]
fn there_is_room_for_what_becomes_as_long_as_may_be() {
    assert_eq!((esp_room(20, 1_500), esp_room(40, 1_500)), (1_446, 1_426));
    for whole in 1_280..1_600 {
        let room = esp_room(40, whole);
        assert!(esp_length(40, room) <= whole && esp_length(40, room + 1) > whole, "{whole}");
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let sealed = || pass(&mut pair(V6)[0], 0, &datagram(SITES6, 0, 60)).unwrap().1.bytes;
    assert_eq!(sealed(), sealed());
    assert_ne!(association("up", 300).key, association("down", 300).key);
    assert!(!format!("{:?}{:?}", association("up", 300), pair(V6)[0]).contains("key"));
}

#[test]
fn nothing_is_allocated_once_warm() {
    let [mut near, mut far] = pair(V6);
    let mut packet = datagram(SITES6, 0, 1_000);
    let original = packet.clone();
    let mut turn = || {
        for (gateway, port) in [(&mut near, 0), (&mut far, 1)] {
            gateway.handle(Time::ZERO, port, core::mem::take(&mut packet));
            let Some(Output::Transmit { packet: passed, .. }) = gateway.poll() else { panic!("not passed on") };
            packet = passed;
        }
    };
    (0..4).for_each(|_| turn());
    let used = allocation_counter::measure(|| (0..100).for_each(|_| turn()));
    assert_eq!(used.count_total, 0);
    assert_eq!(packet.bytes, original.bytes);
}

/// Another implementation decrypts it: Wireshark's, if it is here.
#[test]
fn wireshark_reads_what_is_sealed() {
    if !Command::new("tshark").arg("--version").output().is_ok_and(|output| output.status.success()) {
        println!("skipped: needs tshark");
        return;
    }
    for (ends, sites, family) in [(V4, SITES4, "IPv4"), (V6, SITES6, "IPv6")] {
        let (_, sealed) = pass(&mut pair(ends)[0], 0, &datagram(sites, 46, 33)).unwrap();
        let mut capture = Vec::new();
        let mut writer = pcapng::Writer::start(&mut capture, "test", "");
        let interface = writer.interface(&mut capture, "link", 0);
        writer.packet(&mut capture, interface, 0, sealed.len() as u32, &sealed.bytes, "");
        let path = std::env::temp_dir().join(format!("narrows-esp-{}-{family}.pcapng", std::process::id()));
        std::fs::write(&path, capture).unwrap();
        let sa = association("up", 0x1001);
        let key: String = sa.key.iter().chain(&sa.salt).map(|byte| format!("{byte:02x}")).collect();
        let uat = format!(
            "uat:esp_sa:\"{family}\",\"*\",\"*\",\"0x00001001\",\"AES-GCM with 16 octet ICV [RFC4106]\",\"0x{key}\",\"NULL\",\"\""
        );
        let output = Command::new("tshark")
            .args(["-o", "esp.enable_encryption_decode:TRUE", "-o", "esp.enable_authentication_check:TRUE", "-o", &uat])
            .args(["-T", "fields", "-e", "udp.dstport", "-e", "udp.length", "-e", "esp.sequence", "-r"])
            .arg(&path)
            .output()
            .unwrap();
        std::fs::remove_file(&path).unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(text.trim(), "5004\t41\t1", "{family}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_from_either_side_are_borne(
        port in 0usize..2, v6: bool, length in 0usize..80,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4), cut in any::<prop::sample::Index>(),
    ) {
        let (ends, sites) = if v6 { (V6, SITES6) } else { (V4, SITES4) };
        let [mut near, mut far] = pair(ends);
        let mut packet = datagram(sites, 0, length);
        if port == 1 {
            packet = pass(&mut far, 0, &packet).unwrap().1;
        }
        for (at, value) in damage {
            let at = at.index(packet.len());
            packet.bytes[at] = value;
        }
        packet.bytes.truncate(1 + cut.index(packet.len()));
        near.handle(Time::ZERO, port, packet);
        prop_assert!(near.poll().is_some());
        prop_assert!(near.poll().is_none());
    }
}
