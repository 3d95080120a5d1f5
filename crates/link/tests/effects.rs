//! Effects on packets: super-frames, corruption, duplication; and the bounds of what is held.

mod common;

use common::{Z_99, advance, assert_distribution, at, delayed, direction, drive, every, ms, packet, poll, rated};
use engine::{Checksum, Element, Gso, GsoKind, Packet, Size, Span, Time};
use link::{DELAY_LINE_FULL, DelayModel, PipeConfig, SUPER_FRAME};
use queue::{Discipline, QueueConfig};
use wire::checksum::Sum;

#[test]
fn super_frames_are_refused_by_name() {
    let gso = Some(Gso { kind: GsoKind::Tcp4, size: 1_400 });
    let fates = drive(&mut direction(PipeConfig::default(), 1), [(at(0), Packet { gso, ..packet(0, 20_000) })]);
    assert_eq!(fates[0].dropped, Some(SUPER_FRAME));
}

#[test]
fn a_corrupt_packet_differs_in_one_bit_and_any_bit_is_as_likely() {
    let pipe = PipeConfig { corrupt: 1.0, ..PipeConfig::default() };
    let number = 20_000;
    let mut direction = direction(pipe, 1);
    let fates = drive(&mut direction, every(Span::from_micros(1), 46, number));
    let mut bins = vec![(0.0, number as f64 / (46.0 * 8.0)); 46 * 8];
    for fate in &fates {
        let sent = packet(fate.packet.id, 46).bytes;
        let flips: Vec<usize> = (0..sent.len() * 8)
            .filter(|bit| (sent[bit / 8] ^ fate.packet.bytes[bit / 8]) >> (bit % 8) & 1 == 1)
            .collect();
        assert_eq!(flips.len(), 1);
        bins[flips[0] - 14 * 8].0 += 1.0;
    }
    assert_distribution("flipped bits", &bins);
    assert_eq!(direction.counters().next().unwrap().1.corrupted, number);
}

#[test]
fn corruption_is_as_frequent_as_asked_for() {
    let (number, chance) = (100_000u64, 0.03);
    let pipe = PipeConfig { corrupt: chance, ..PipeConfig::default() };
    let mut direction = direction(pipe, 1);
    drive(&mut direction, (0..number).map(|_| (Time::ZERO, Packet::new(vec![0; 60]))));
    let seen = direction.counters().next().unwrap().1.corrupted as f64;
    let mean = number as f64 * chance;
    assert!((seen - mean).abs() < Z_99 * (mean * (1.0 - chance)).sqrt(), "{seen}");
}

#[test]
fn a_flip_shows_in_a_checksum_that_was_to_be_made_later() {
    let pipe = PipeConfig { corrupt: 1.0, ..PipeConfig::default() };
    let number = 500;
    let packets = (0..number).map(|id| {
        let mut packet = packet(id, 200);
        // As the kernel hands it over: the pseudo-header's sum in the field, and Ethernet padding.
        let headers = wire::Headers::parse(&packet.bytes);
        let ip = headers.ip.unwrap();
        let sum = Sum::pseudo_header(ip.source, ip.destination, ip.protocol, 180);
        packet.bytes[40..42].copy_from_slice(&sum.uncomplemented().to_be_bytes());
        packet.bytes.extend([0x55; 3]);
        (at(id), Packet { checksum: Checksum::Partial { start: 34, offset: 6 }, ..packet })
    });
    let mut seen = 0;
    for fate in drive(&mut direction(pipe, 1), packets) {
        assert_eq!(fate.packet.checksum, Checksum::Complete);
        let original = packet(fate.packet.id, 200).bytes;
        let flipped = (0..217).find(|byte| original.get(*byte).unwrap_or(&0x55) != &fate.packet.bytes[*byte]);
        // A flip beyond the IP header and before the padding breaks the UDP checksum.
        if (34..214).contains(&flipped.unwrap()) {
            let pseudo = Sum::pseudo_header([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 17, 180);
            assert!(!wire::is_intact(&fate.packet.bytes[34..214], pseudo));
            seen += 1;
        }
    }
    assert!(seen > number / 2);
}

#[test]
fn a_runt_has_no_bit_to_flip() {
    let pipe = PipeConfig { corrupt: 1.0, ..PipeConfig::default() };
    let mut direction = direction(pipe, 1);
    let fates = drive(&mut direction, [14, 3, 0].map(|length| (at(0), Packet::new(vec![7; length]))));
    assert!(fates.iter().all(|fate| fate.dropped.is_none() && fate.packet.bytes.iter().all(|byte| *byte == 7)));
    assert_eq!(direction.counters().next().unwrap().1.corrupted, 0);
}

#[test]
fn a_copy_comes_right_behind() {
    let pipe = PipeConfig { duplicate: 0.25, reorder: true, ..delayed(DelayModel::Uniform { min: ms(1), max: ms(9) }) };
    let number = 10_000;
    let mut direction = direction(pipe, 1);
    let fates = drive(&mut direction, every(Span::from_micros(1), 60, number));
    let copies = fates.len() as u64 - number;
    let bound = Z_99 * (number as f64 * 0.25 * 0.75).sqrt();
    assert!((copies as f64 - 2_500.0).abs() < bound, "{copies}");
    let twins = fates.windows(2).filter(|pair| pair[0] == pair[1]).count() as u64;
    assert_eq!(twins, copies);
    assert_eq!(direction.counters().next().unwrap().1.duplicated.packets, copies);
}

#[test]
fn the_delay_line_is_bounded() {
    // 60,000 bytes each, and for an hour nothing comes out: 256 MiB are 4,473 of them.
    let mut direction = direction(delayed(DelayModel::Constant(DelayModel::LONGEST)), 1);
    let mut fates = Vec::new();
    for id in 0..4_500 {
        direction.handle(Time::ZERO, 0, Packet { id, ..Packet::new(vec![0; 60_000]) });
        poll(&mut direction, Time::ZERO, &mut fates);
    }
    let held = PipeConfig::IN_FLIGHT_LIMIT / 60_000;
    assert_eq!(fates.len() as u64, 4_500 - held);
    assert!(fates.iter().all(|fate| fate.dropped == Some(DELAY_LINE_FULL)));
    let (_, counters) = direction.counters().next().unwrap();
    assert_eq!((counters.waiting.packets, counters.in_flight_most_bytes), (held, held * 60_000));
}

#[test]
fn memory_is_bounded_by_what_the_configuration_says() {
    let queue = QueueConfig { packets: None, bytes: Some(Size::from_bytes(100_000)), discipline: Discipline::DropTail };
    let pipe = PipeConfig { queue, delay: DelayModel::Constant(ms(315)), ..rated("8Mbit/s") };
    // 315 ms at a byte each microsecond, thrice for padding, and a frame in transmission and one more.
    let bound = 3 * (100_000 + 315_000) + 2 * QueueConfig::LONGEST_FRAME;
    assert_eq!(pipe.memory_bound(), bound);
    assert_eq!(pipe.in_flight_limit(), PipeConfig::IN_FLIGHT_LIMIT);
    let mut direction = direction(pipe, 1);
    let mut most = 0;
    for id in 0..20_000 {
        let mut fates = Vec::new();
        advance(&mut direction, at(id * 20_000), &mut fates);
        // A packet of 28 bytes in a frame of 60.
        let mut packet = packet(id, 28);
        packet.bytes.resize(60, 0);
        direction.handle(at(id * 20_000), 0, packet);
        poll(&mut direction, at(id * 20_000), &mut fates);
        most = most.max(direction.counters().next().unwrap().1.waiting.bytes);
    }
    assert!(most > bound / 2 && most <= bound, "{most} of {bound}");
    // Where rate and delay need more than the least bound, they get it.
    let fast = PipeConfig { delay: DelayModel::Constant(ms(600)), ..rated("10Gbit/s") };
    assert_eq!(fast.in_flight_limit(), 3 * 750_000_000 + QueueConfig::LONGEST_FRAME);
}
