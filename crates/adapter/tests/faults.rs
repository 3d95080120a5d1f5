//! What goes wrong with lines, peers and packets: every loss has its reason, no packet is wrong, and it
//! goes on by itself.

mod common;

use std::collections::BTreeSet;

use adapter::{
    AdapterConfig, Counters, ETHERTYPE, INCOMPATIBLE, LINE_DOWN, LOST, MALFORMED, OTHER_LINE, RESTARTED, SESSION,
    SUPER_FRAME, TOO_LARGE, VLAN, frame,
};
use common::{Pair, VOICE, address, datagram, millis};
use engine::{Checksum, Gso, GsoKind, Packet, Random, Size, Span, Time};
use wire::frame::{Ethernet, Ipv6};

/// Small datagrams of one voice and some of data from west, until `end`; gives all that was sent.
fn mixed(pair: &mut Pair, from: u64, end: u64) -> BTreeSet<Vec<u8>> {
    let mut sent = BTreeSet::new();
    for step in 0..(end - from) * 1_000_000 / VOICE {
        let at = millis(from) + Span::from_nanos(step * VOICE);
        let number = from as u32 * 1_000 + step as u32 * 2;
        let mut frames = vec![datagram(0, 6000, number, 33)];
        if step % 4 == 0 {
            frames.push(datagram(0, 9, number + 1, 300));
        }
        for frame in frames {
            pair.send(at, 0, frame.clone());
            sent.insert(frame);
        }
    }
    pair.run(millis(end));
    sent
}

fn delivered_of(pair: &Pair, sent: &BTreeSet<Vec<u8>>) -> usize {
    pair.frames(1).filter(|(_, frame)| sent.contains(*frame)).count()
}

/// Everything that came out at the east was sent at the west.
fn nothing_wrong(pair: &Pair, sent: &BTreeSet<Vec<u8>>) {
    for (at, frame) in pair.frames(1) {
        assert!(sent.contains(frame), "at {at} a wrong packet: {frame:02x?}");
    }
}

fn lost_on_the_line(counters: &Counters) -> u64 {
    let receive = counters.receive;
    receive.incomplete + receive.expired + receive.crc + receive.unknown_pair + receive.decompression
}

#[test]
fn a_quiet_start_needs_less_than_a_second() {
    let mut pair = Pair::new(&AdapterConfig::default());
    pair.run(millis(1_000));
    assert!(pair.counters(0).session.up && pair.counters(1).session.up);
    assert_eq!(pair.happened(SESSION), 2);
    // Nothing but keep-alives from then on.
    let before = pair.counters(0).line;
    pair.run(millis(11_000));
    let after = pair.counters(0).line;
    assert_eq!(after.frames - before.frames, 10);
    assert_eq!(after.control - before.control, 10 * 5);
}

#[test]
fn every_packet_is_handed_back_once() {
    let mut pair = Pair::new(&AdapterConfig::default());
    let sent = mixed(&mut pair, 2_000, 12_000);
    pair.run(millis(20_000));
    let frames = pair.line(0).sent.len() as u64 + pair.line(1).sent.len() as u64;
    let flying = pair.line(0).flying.len() as u64 + pair.line(1).flying.len() as u64;
    // Those from the LAN become frames; those from the line are consumed.
    assert_eq!(pair.heard.handed_back, frames - flying);
    assert_eq!(pair.frames(1).count(), sent.len());
    nothing_wrong(&pair, &sent);
}

#[test]
fn bit_errors_cost_packets_and_never_make_a_wrong_one() {
    let mut pair = Pair::new(&AdapterConfig::default());
    pair.line(0).bit_errors = 1e-4;
    pair.line(1).bit_errors = 1e-4;
    let sent = mixed(&mut pair, 2_000, 302_000);
    pair.run(millis(310_000));
    nothing_wrong(&pair, &sent);
    let share = delivered_of(&pair, &sent) as f64 / sent.len() as f64;
    // A frame of 41 characters is hit once in 31; a packet of 300 B once in 5.
    assert!(share > 0.85 && share < 0.99, "{share}");
    let counters = pair.counters(1);
    assert!(counters.receive.check + counters.receive.short > 50, "{:?}", counters.receive);
    assert!(lost_on_the_line(&counters) > 0);
}

#[test]
fn garbage_at_the_start_is_passed_over() {
    let mut pair = Pair::new(&AdapterConfig::default());
    pair.line(0).garbage = (0..3_000u32).map(|at| (at * 37 % 255 + 1) as u8).collect();
    pair.line(1).garbage = vec![0x55; 700];
    pair.run(millis(2_000));
    assert!(pair.counters(0).session.up && pair.counters(1).session.up);
    assert_eq!(pair.counters(1).receive.too_long, 1);
}

#[test]
fn a_line_that_is_cut_and_comes_back() {
    let mut pair = Pair::new(&AdapterConfig::default());
    let mut sent = mixed(&mut pair, 2_000, 20_000);
    pair.line(0).cut = true;
    pair.line(1).cut = true;
    sent.extend(mixed(&mut pair, 20_000, 40_000));
    assert!(!pair.counters(0).session.up && !pair.counters(1).session.up);
    assert_eq!(pair.happened(LOST), 2);
    assert!(pair.counters(0).dropped_for(LINE_DOWN).packets > 50);
    pair.line(0).cut = false;
    pair.line(1).cut = false;
    pair.run(millis(42_500));
    assert!(pair.counters(0).session.up && pair.counters(1).session.up);
    assert_eq!(pair.counters(0).session.restarted, 0);
    let late = mixed(&mut pair, 43_000, 60_000);
    pair.run(millis(70_000));
    assert_eq!(delivered_of(&pair, &late), late.len());
    sent.extend(late);
    nothing_wrong(&pair, &sent);
}

#[test]
fn one_direction_cut_is_noticed_by_both() {
    let mut pair = Pair::new(&AdapterConfig::default());
    pair.run(millis(2_000));
    pair.line(0).cut = true;
    pair.run(millis(8_000));
    assert!(!pair.counters(1).session.up);
    pair.line(0).cut = false;
    pair.run(millis(10_500));
    assert!(pair.counters(0).session.up && pair.counters(1).session.up);
}

#[test]
fn a_restarted_adapter_is_met_anew() {
    let config = AdapterConfig::default();
    for side in [0, 1] {
        let mut pair = Pair::new(&config);
        let mut sent = mixed(&mut pair, 2_000, 20_000);
        pair.restart(side, &config, 77);
        pair.run(millis(22_000));
        assert!(pair.counters(0).session.up && pair.counters(1).session.up);
        assert_eq!((pair.counters(1 - side).session.restarted, pair.happened(RESTARTED)), (1, 1));
        let late = mixed(&mut pair, 23_000, 40_000);
        pair.run(millis(50_000));
        assert_eq!(delivered_of(&pair, &late), late.len());
        sent.extend(late);
        nothing_wrong(&pair, &sent);
    }
}

#[test]
fn another_configuration_is_agreed_on_or_told() {
    let west = AdapterConfig::default();
    let plain = AdapterConfig { rate: "4800bit/s".parse().unwrap(), ..AdapterConfig::plain() };
    let east = AdapterConfig { largest_packet: Size::from_bytes(1280), ..plain };
    let mut pair = Pair::of(&west, &east);
    pair.run(millis(3_000));
    assert_eq!((pair.happened(OTHER_LINE), pair.counters(0).session.other_line), (2, 1));
    pair.send(millis(3_000), 0, datagram(0, 9, 1, 1400));
    pair.send(millis(3_000), 0, datagram(0, 9, 2, 1232));
    pair.run(millis(10_000));
    assert_eq!(pair.counters(0).dropped_for(TOO_LARGE).packets, 1);
    // The other side has no header compression, so this one uses none either.
    assert_eq!(pair.counters(0).rohc.packets, 0);
    assert_eq!(pair.frames(1).map(|(_, frame)| frame.to_vec()).collect::<Vec<_>>(), [datagram(0, 9, 2, 1232)]);
}

#[test]
fn a_peer_of_another_version_gets_no_traffic() {
    let mut pair = Pair::new(&AdapterConfig::default());
    pair.line(1).cut = true;
    // Hellos of versions 7 to 9: after these nothing is as in this version.
    let hello = b"NW\x07\x09\xff\x00\x63";
    for second in 1..5 {
        pair.send(millis(second * 1_000), 0, datagram(0, 9, second as u32, 100));
        let mut line = Vec::new();
        frame::encode(0xc0, &[hello], &mut line);
        let to_west = (pair.adapters[0], adapter::LINE);
        pair.graph.inject(millis(second * 1_000), to_west, Packet::new(line), &mut pair.heard);
    }
    pair.run(millis(6_000));
    assert_eq!((pair.happened(INCOMPATIBLE), pair.counters(0).session.incompatible), (1, 4));
    assert_eq!(pair.counters(0).receive.malformed, 0);
    assert!(!pair.counters(0).session.up);
    // Hellos go on, data does not.
    let line = pair.counters(0).line;
    assert!(line.control > 4 * 50 && line.data == 0);
}

#[test]
fn what_is_not_carried_is_dropped_by_name() {
    let mut pair = Pair::new(&AdapterConfig::default());
    pair.run(millis(1_000));
    let plain = datagram(0, 9, 1, 100);
    let with_type = |kind: [u8; 2]| {
        let mut frame = plain.clone();
        frame[12..14].copy_from_slice(&kind);
        frame
    };
    let mut tagged = plain.clone();
    tagged.splice(12..12, [0x81, 0, 0, 5]);
    let cases = [
        (with_type([0x88, 0xcc]), ETHERTYPE),
        (with_type([0x00, 0x26]), ETHERTYPE),
        (tagged, VLAN),
        (with_type([0x08, 0x00]), MALFORMED),
        (plain[..10].to_vec(), MALFORMED),
        (plain[..40].to_vec(), MALFORMED),
    ];
    for (number, (frame, reason)) in cases.into_iter().enumerate() {
        pair.send(millis(1_000), 0, frame);
        assert_eq!(pair.heard.drops.len(), number);
        pair.run(millis(1_000));
        assert_eq!(pair.heard.drops[number].1, reason);
    }
    let gso = Some(Gso { kind: GsoKind::Udp, size: 100 });
    pair.give(millis(1_000), 0, Packet { gso, ..Packet::new(plain) });
    pair.run(millis(3_000));
    assert_eq!(pair.heard.drops[6].1, SUPER_FRAME);
    assert_eq!(pair.frames(1).count(), 0);
    let counters = pair.counters(0);
    assert_eq!(counters.dropped.iter().map(|(_, count)| count.packets).sum::<u64>(), 7);
}

#[test]
fn checksums_are_completed_and_padding_stays_at_home() {
    let mut pair = Pair::new(&AdapterConfig::default());
    pair.run(millis(1_000));
    let whole = datagram(0, 9, 1, 100);
    let mut partial = whole.clone();
    let pseudo = wire::checksum::Sum::pseudo_header(address(0).into(), address(1).into(), 17, 108);
    partial[60..62].copy_from_slice(&pseudo.uncomplemented().to_be_bytes());
    partial.extend_from_slice(&[0xee; 9]);
    let checksum = Checksum::Partial { start: 54, offset: 6 };
    pair.give(millis(1_000), 0, Packet { checksum, ..Packet::new(partial) });
    pair.run(millis(3_000));
    assert_eq!(pair.frames(1).map(|(_, frame)| frame.to_vec()).collect::<Vec<_>>(), [whole]);
}

#[test]
fn neighbours_stay_on_their_side_and_arp_crosses() {
    let mut pair = Pair::new(&AdapterConfig::default());
    pair.run(millis(1_000));
    let mut arp = vec![0xff; 6];
    arp.extend_from_slice(&[2, 0, 0, 0, 0, 0, 8, 6]);
    arp.extend_from_slice(&[0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 0, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2]);
    pair.send(millis(1_000), 0, arp.clone());
    // From another station of the west to the one that asked.
    let mut local = datagram(0, 9, 1, 50);
    local[..6].copy_from_slice(&[2, 0, 0, 0, 0, 0]);
    local[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
    pair.send(millis(1_000), 0, local);
    pair.run(millis(3_000));
    assert_eq!(pair.frames(1).map(|(_, frame)| frame.to_vec()).collect::<Vec<_>>(), [arp]);
    assert_eq!(pair.counters(0).local.packets, 1);
}

#[test]
fn packets_of_all_sizes_come_whole() {
    let mut pair = Pair::new(&AdapterConfig { rate: "115200bit/s".parse().unwrap(), ..AdapterConfig::default() });
    pair.run(millis(1_000));
    let mut sent = Vec::new();
    let mut at = millis(1_000);
    for (number, payload) in [4, 172, 203, 204, 400, 1232, 1452, 9_000, 65_527].into_iter().enumerate() {
        let frame = datagram(0, 9, number as u32, payload);
        pair.send(at, 0, frame.clone());
        at += Span::from_secs(1);
        sent.push(frame);
    }
    pair.run(millis(30_000));
    assert_eq!(pair.frames(1).map(|(_, frame)| frame.to_vec()).collect::<Vec<_>>(), sent);
}

#[test]
fn a_full_queue_drops_by_name() {
    let mut pair = Pair::new(&AdapterConfig::plain());
    pair.run(millis(1_000));
    for number in 0..200 {
        pair.send(millis(1_000), 0, datagram(0, 9, number, 1200));
    }
    pair.run(millis(1_001));
    let counters = pair.counters(0);
    let full = counters.dropped_for(queue::FULL_PACKETS).packets;
    assert_eq!(full, 200 - 1 - 64);
    pair.run(millis(120_000));
    assert_eq!(pair.frames(1).count(), 65);
    let data = pair.counters(0).classes[4];
    assert_eq!((data.taken.packets, data.sent.packets, data.dropped.packets), (200, 65, 135));
    let counters = pair.counters(0);
    for (place, (_, count)) in counters.dropped.iter().enumerate() {
        assert_eq!(counters.dropped_by_class[4][place], *count);
    }
}

/// As a host sends 64 KiB over Ethernet. The line needs 67 s for it, so its queue may end some of them;
/// then the datagram is lost, and each fragment says why.
#[test]
fn fragments_of_a_large_datagram_arrive_or_are_counted() {
    let mut pair = Pair::new(&AdapterConfig::default());
    pair.run(millis(1_000));
    for number in 0..45_u16 {
        let mut frame = Vec::new();
        Ethernet { destination: [2, 0, 0, 0, 0, 1], source: [2, 0, 0, 0, 0, 0] }.write(&mut frame, 0x86dd);
        let (source, destination, ecn) = (address(0), address(1), wire::Ecn::NotCapable);
        let ip = Ipv6 { source, destination, dscp: 0, ecn, flow_label: 0, hop_limit: 64 };
        frame.extend_from_slice(&ip.to_bytes(44, 8 + 1_432).unwrap());
        let place = (number * 1_432) | u16::from(number < 44);
        frame.extend_from_slice(&[17, 0, (place >> 8) as u8, place as u8, 0, 0, 0, 9]);
        let mut random = Random::stream(u64::from(number), "content");
        frame.resize_with(frame.len() + 1_432, || random.bits() as u8);
        pair.send(millis(1_000), 0, frame);
    }
    pair.run(millis(120_000));
    let delivered = pair.frames(1).count();
    let dropped: u64 = pair.counters(0).dropped.iter().map(|(_, count)| count.packets).sum();
    assert!((30..45).contains(&delivered), "{delivered}");
    assert_eq!((delivered as u64 + dropped, dropped), (45, pair.heard.drops.len() as u64));
}

#[test]
fn a_thousand_flows_do_not_hurt_a_voice() {
    let mut pair = Pair::new(&AdapterConfig::default());
    let mut voices = 0;
    for step in 0..400u64 {
        let at = millis(2_000) + Span::from_nanos(step * VOICE);
        pair.send(at, 0, datagram(0, 6000, step as u32, 33));
        voices += 1;
        for other in 0..20 {
            let port = 10_000 + (step * 20 + other) % 1_000;
            let at = at + Span::from_millis(other * 9 + step % 7);
            pair.send(at, 0, datagram(0, port as u16, 5_000 + other as u32, 60));
        }
    }
    pair.run(millis(90_000));
    let counters = pair.counters(0);
    assert_eq!((counters.flows.active, counters.flows.overdue), (1, 0));
    assert!(counters.flows.forgotten > 1_000);
    assert!(counters.classes[0].sent.packets >= voices - 8);
    assert!(counters.real_time_delay.quantile(0.99).unwrap() < Span::from_millis(60));
}

#[test]
fn the_same_inputs_give_the_same_characters() {
    let run = || {
        let mut pair = Pair::new(&AdapterConfig::default());
        pair.line(0).bit_errors = 1e-4;
        mixed(&mut pair, 2_000, 30_000);
        core::mem::take(&mut pair.line(0).sent)
    };
    assert_eq!(run(), run());
}

#[test]
fn the_line_is_accounted_for_to_the_character() {
    for config in [AdapterConfig::default(), AdapterConfig::plain()] {
        let mut pair = Pair::new(&config);
        mixed(&mut pair, 2_000, 61_000);
        pair.run(Time::from_nanos(70_000_000_001));
        let line = pair.counters(0).line;
        let sent = line.real_time + line.data + line.framing + line.encapsulation + line.control;
        let all = sent + line.held + line.idle;
        // Time is accounted for up to the last keep-alive.
        assert!((960 * 69..=960 * 70 + 5).contains(&all), "{all}: {line:?}");
        let characters: u64 = pair.line(0).sent.iter().map(|(_, run)| run.len() as u64).sum();
        assert_eq!(sent, characters);
    }
}

/// The longest packets that a peer takes arrive, whatever header compression adds to the first of a context.
#[test]
fn packets_as_long_as_the_peer_takes_arrive() {
    for length in [1_258, 1_265, 1_268, 1_279, 1_280] {
        let config = AdapterConfig { largest_packet: engine::Size::from_bytes(1_280), ..AdapterConfig::default() };
        let mut pair = Pair::new(&config);
        for number in 0..3 {
            pair.send(millis(1_000 + 3_000 * number), 0, datagram(0, 9, number as u32, length - 48));
        }
        pair.run(millis(12_000));
        assert_eq!((pair.frames(1).count(), pair.counters(1).receive.oversized), (3, 0), "{length}");
    }
}

#[test]
fn every_datagram_that_the_line_damages_is_counted_at_the_receiver() {
    let mut pair = Pair::new(&AdapterConfig::default());
    for number in 0..400_u32 {
        // Until the voice is known and its headers are compressed the line is good.
        pair.line(0).bit_errors = if number < 20 { 0.0 } else { 1e-4 };
        pair.send(millis(2_000 + 203 * u64::from(number)), 0, datagram(0, 6000, number, 33));
    }
    pair.line(0).bit_errors = 0.0;
    pair.run(millis(90_000));
    let sent: u64 = pair.counters(0).classes.iter().map(|class| class.sent.packets).sum();
    let receive = pair.counters(1).receive;
    assert_eq!(sent, 400);
    assert!(receive.bad_frames() > 5, "{receive:?}");
    // Each is one frame, and nothing else is on the line.
    assert_eq!(sent, receive.delivered.packets + receive.bad_frames() + receive.lost_packets(), "{receive:?}");
    let by_reason: u64 = receive.lost().iter().map(|(_, count)| count).sum();
    assert_eq!(by_reason, receive.bad_frames() + receive.lost_packets());
}
