//! Rates: exact in the long run, true over any second, and each model's own rules.

mod common;

use common::{Fate, advance, at, direction, drive, every, ms, packet, rate, rated};
use engine::{Element, Packet, Size, Span, Time};
use link::{DelayModel, LOSS, LossAt, LossModel, OVERSIZED, Opportunities, PipeConfig, RateModel};
use proptest::prelude::*;
use queue::{Discipline, FULL_BYTES, FULL_PACKETS, QueueConfig};

fn sent(fates: &[Fate]) -> Vec<&Fate> {
    fates.iter().filter(|fate| fate.dropped.is_none()).collect()
}

/// A queue that takes all.
fn patient() -> QueueConfig {
    QueueConfig { packets: Some(10_000_000), bytes: None, discipline: Discipline::DropTail }
}

fn lengths(n: u64) -> impl Iterator<Item = usize> {
    (0..n).map(|i| [1_500, 40, 576, 1_440, 333][(i % 5) as usize])
}

#[test]
fn a_packet_leaves_when_its_last_bit_is_sent_and_then_travels() {
    // 1,500 bytes at 12 Mbit/s are 1 ms.
    let pipe = PipeConfig { delay: DelayModel::Constant(ms(20)), ..rated("12Mbit/s") };
    let fates = drive(&mut direction(pipe, 1), [(at(0), packet(0, 1_500)), (at(0), packet(1, 1_500))]);
    assert_eq!(fates.iter().map(|fate| fate.at).collect::<Vec<_>>(), [Time::ZERO + ms(21), Time::ZERO + ms(22)]);
}

#[test]
fn framing_counts_and_ethernet_does_not() {
    // A frame of 60 bytes with 46 of network layer, 14 of them padding, and 18 of overhead.
    let mut padded = packet(0, 32);
    padded.bytes.resize(60, 0);
    let pipe = PipeConfig { overhead: Size::from_bytes(18), ..rated("8kbit/s") };
    let fates = drive(&mut direction(pipe, 1), [(at(0), padded)]);
    assert_eq!(fates[0].at, Time::ZERO + ms(50));
}

#[test]
fn the_long_run_is_exact_to_the_nanosecond() {
    let bits_per_second = 7_654_321;
    let pipe = PipeConfig { queue: patient(), ..rated("7654321bit/s") };
    let packets = lengths(100_000).zip(0..).map(|(length, id)| (Time::ZERO, packet(id, length)));
    let fates = drive(&mut direction(pipe, 1), packets);
    let mut bits = 0u128;
    for (fate, length) in fates.iter().zip(lengths(100_000)) {
        bits += 8 * length as u128;
        assert_eq!(u128::from(fate.at.as_nanos()), bits * 1_000_000_000 / bits_per_second);
    }
}

#[test]
fn over_any_second_the_rate_is_true() {
    for text in ["300kbit/s", "5Mbit/s", "88Mbit/s"] {
        let bits_per_second = rate(text).bits_per_second() as f64;
        let pipe = PipeConfig { queue: patient(), ..rated(text) };
        let number = (3.2 * bits_per_second / 8.0 / 777.8) as u64;
        let packets = lengths(number).zip(0..).map(|(length, id)| (Time::ZERO, packet(id, length)));
        let fates = drive(&mut direction(pipe, 1), packets);
        let end = fates.last().unwrap().at;
        // The bits sent by a time; a packet in transmission counts by its part.
        let mut sums = vec![(0u64, 0.0)];
        for fate in &fates {
            let bits = 8.0 * (fate.packet.len() - 14) as f64;
            sums.push((fate.at.as_nanos(), sums.last().unwrap().1 + bits));
        }
        let by = |nanos: u64| {
            let after = sums.partition_point(|(at, _)| *at <= nanos);
            let ((t0, b0), (t1, b1)) = (sums[after - 1], sums[after.min(sums.len() - 1)]);
            if t1 == t0 { b0 } else { b0 + (b1 - b0) * (nanos - t0) as f64 / (t1 - t0) as f64 }
        };
        let mut from = 0;
        while from + 1_000_000_000 <= end.as_nanos() {
            let share = (by(from + 1_000_000_000) - by(from)) / bits_per_second;
            assert!((share - 1.0).abs() < 0.005, "{text} from {from}: {share}");
            from += 7_777_777;
        }
    }
}

#[test]
fn the_queue_holds_its_limit_and_one_is_in_transmission() {
    let with = |packets, bytes: Option<u64>| PipeConfig {
        queue: QueueConfig { packets, bytes: bytes.map(Size::from_bytes), discipline: Discipline::DropTail },
        overhead: Size::from_bytes(10),
        ..rated("1Mbit/s")
    };
    let run = |pipe| {
        let mut direction = direction(pipe, 1);
        let fates = drive(&mut direction, (0..100).map(|id| (at(0), packet(id, 90))));
        let (_, counters) = direction.counters().next().unwrap();
        (sent(&fates).len(), counters)
    };
    let (sent, counters) = run(with(Some(50), None));
    assert_eq!((sent, counters.dropped_for(FULL_PACKETS).packets, counters.queue_most_packets), (51, 49, 50));
    // 100 bytes each on the link: ten fit in 1,099.
    let (sent, counters) = run(with(None, Some(1_099)));
    assert_eq!((sent, counters.dropped_for(FULL_BYTES).packets, counters.queue_most_bytes), (11, 89, 1_000));
    // No queue at all.
    let (sent, counters) = run(with(Some(0), None));
    assert_eq!((sent, counters.dropped_for(FULL_PACKETS).packets), (1, 99));
}

#[test]
fn a_packet_that_comes_as_another_leaves_finds_its_room() {
    // 125 bytes at 1 Mbit/s are 1 ms; the queue takes one.
    let queue = QueueConfig { packets: Some(1), bytes: None, discipline: Discipline::DropTail };
    let pipe = PipeConfig { queue, ..rated("1Mbit/s") };
    let packets = [(0, 0), (0, 1), (1_000_000, 2), (1_000_000, 3)];
    let fates = drive(&mut direction(pipe, 1), packets.map(|(nanos, id)| (at(nanos), packet(id, 125))));
    let dropped: Vec<u64> = fates.iter().filter(|fate| fate.dropped.is_some()).map(|fate| fate.packet.id).collect();
    assert_eq!(dropped, [3]);
}

#[test]
fn loss_in_the_air_takes_time_on_the_link_and_loss_at_entry_does_not() {
    let last = |loss_at| {
        let pipe = PipeConfig { loss: LossModel::Bernoulli(0.5), loss_at, queue: patient(), ..rated("1Mbit/s") };
        let fates = drive(&mut direction(pipe, 1), every(Span::ZERO, 125, 1_000));
        let lost = fates.iter().filter(|fate| fate.dropped == Some(LOSS)).count() as u64;
        assert!((400..600).contains(&lost));
        (fates.last().unwrap().at, lost)
    };
    let (air, _) = last(LossAt::Air);
    let (entry, lost) = last(LossAt::Entry);
    assert_eq!((air, entry), (Time::ZERO + ms(1_000), Time::ZERO + ms(1_000 - lost)));
}

fn bucket(text: &str, burst: u64) -> PipeConfig {
    let model = RateModel::TokenBucket { rate: rate(text), burst: Size::from_bytes(burst) };
    PipeConfig { rate: Some(model), queue: patient(), ..PipeConfig::default() }
}

#[test]
fn a_token_bucket_lets_its_burst_pass_at_once() {
    // 8 Mbit/s are a byte each microsecond.
    let fates = drive(&mut direction(bucket("8Mbit/s", 3_000), 1), every(Span::ZERO, 1_000, 5));
    assert_eq!(fates.iter().map(|fate| fate.at.as_nanos()).collect::<Vec<_>>(), [0, 0, 0, 1_000_000, 2_000_000]);
    // Half the burst comes back in 1.5 ms; no more than the whole ever does.
    let late = [(0, 3), (1_500_000, 2), (100_000_000, 4)];
    let packets = late.into_iter().flat_map(|(nanos, n)| (0..n).map(move |id| (at(nanos), packet(id, 1_000))));
    let fates = drive(&mut direction(bucket("8Mbit/s", 3_000), 1), packets);
    let times: Vec<u64> = fates.iter().map(|fate| fate.at.as_nanos() / 1_000).collect();
    assert_eq!(times, [0, 0, 0, 1_500, 2_000, 100_000, 100_000, 100_000, 101_000]);
}

#[test]
fn what_a_bucket_cannot_hold_is_dropped_by_name() {
    let fates =
        drive(&mut direction(bucket("8Mbit/s", 1_500), 1), [(at(0), packet(0, 1_501)), (at(0), packet(1, 1_500))]);
    assert_eq!(fates.iter().map(|fate| fate.dropped).collect::<Vec<_>>(), [Some(OVERSIZED), None]);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_token_bucket_conforms_and_does_not_dawdle(
        bits_per_second in 1_000u64..50_000_000,
        burst in 1_500u64..20_000,
        arrivals in prop::collection::vec((0u64..20_000_000, 28usize..1_500), 1..80),
    ) {
        let model = bucket(&format!("{bits_per_second}bit/s"), burst);
        let mut now = 0;
        let packets: Vec<(Time, Packet)> = arrivals.iter().zip(0..).map(|((gap, length), id)| {
            now += gap;
            (at(now), packet(id, *length))
        }).collect();
        let fates = drive(&mut direction(model, 1), packets.clone());
        prop_assert_eq!(fates.len(), packets.len());
        // Over any window: no more than the burst and what the rate fills (in bits times 10^9).
        let cost = |fate: &Fate| (fate.packet.len() as u128 - 14) * 8_000_000_000;
        for first in 0..fates.len() {
            let mut bits = 0;
            for fate in &fates[first..] {
                bits += cost(fate);
                let window = u128::from(fate.at.since(fates[first].at).as_nanos());
                prop_assert!(bits <= u128::from(burst) * 8_000_000_000 + window * u128::from(bits_per_second));
            }
        }
        // And each as soon as it may: a nanosecond earlier its tokens were not all there.
        let (mut level, mut filled, full) = (u128::from(burst) * 8_000_000_000, 0u64, u128::from(burst) * 8_000_000_000);
        for (fate, (arrived, _)) in fates.iter().zip(&packets) {
            let (left, came) = (fate.at.as_nanos(), arrived.as_nanos());
            let at_level = |time: u64| full.min(level + u128::from(time - filled) * u128::from(bits_per_second));
            if left > came && left > filled {
                prop_assert!(at_level(left - 1) < cost(fate));
            }
            prop_assert!(at_level(left) >= cost(fate));
            level = at_level(left) - cost(fate);
            filled = left;
        }
    }

    #[test]
    fn a_constant_rate_never_sends_early_nor_idles(
        bits_per_second in 1_000u64..1_000_000_000,
        arrivals in prop::collection::vec((0u64..5_000_000, 28usize..1_500), 1..80),
    ) {
        let pipe = PipeConfig { queue: patient(), ..rated(&format!("{bits_per_second}bit/s")) };
        let mut now = 0;
        let packets: Vec<(Time, Packet)> = arrivals.iter().zip(0..).map(|((gap, length), id)| {
            now += gap;
            (at(now), packet(id, *length))
        }).collect();
        let fates = drive(&mut direction(pipe, 1), packets.clone());
        // The end of transmission in nanoseconds times the rate, which is whole.
        let mut free = 0u128;
        for (fate, (arrived, packet)) in fates.iter().zip(&packets) {
            let rate = u128::from(bits_per_second);
            let begin = free.max(u128::from(arrived.as_nanos()) * rate);
            // An idle line begins at the packet's arrival, to the nanosecond.
            let begin = if free / rate <= u128::from(arrived.as_nanos()) { u128::from(arrived.as_nanos()) * rate } else { begin };
            free = begin + (packet.len() as u128 - 14) * 8_000_000_000;
            prop_assert_eq!(u128::from(fate.at.as_nanos()), free / rate);
        }
    }
}

fn opportunities(at_ms: &[u64]) -> PipeConfig {
    let trace = Opportunities { source: "test".into(), at_ms: at_ms.to_vec() };
    PipeConfig { rate: Some(RateModel::Opportunities(trace)), queue: patient(), ..PipeConfig::default() }
}

fn times_ms(fates: &[Fate]) -> Vec<(u64, u64)> {
    sent(fates).iter().map(|fate| (fate.packet.id, fate.at.as_nanos() / 1_000_000)).collect()
}

#[test]
fn opportunities_are_used_as_mahimahi_uses_them() {
    // Worked out by hand from mahimahi's link_queue.cc for packets of 1,504, 752, 752 and 1,000 bytes.
    let packets = [1_504, 752, 752, 1_000].into_iter().zip(0..).map(|(length, id)| (at(0), packet(id, length)));
    let fates = drive(&mut direction(opportunities(&[1, 3, 7]), 1), packets);
    assert_eq!(times_ms(&fates), [(0, 1), (1, 3), (2, 3), (3, 7)]);

    // A packet spans opportunities, and what it leaves of the last goes to the next packet.
    let packets = [3_000, 8, 100].into_iter().zip(0..).map(|(length, id)| (at(0), packet(id, length.max(28))));
    let fates = drive(&mut direction(opportunities(&[1, 3, 7]), 1), packets);
    // 3,000 = 1,504 + 1,496, and 8 are left: a packet of 28 has 20 to go, and one of 100 follows.
    assert_eq!(times_ms(&fates), [(0, 3), (1, 7), (2, 7)]);

    // The trace repeats: its last time is its length. Two at one time send two packets.
    let packets = (0..6).map(|id| (at(0), packet(id, 1_504)));
    let fates = drive(&mut direction(opportunities(&[2, 2, 5]), 1), packets);
    assert_eq!(times_ms(&fates), [(0, 2), (1, 2), (2, 5), (3, 7), (4, 7), (5, 10)]);

    // A time of zero comes with the end of the round before, not at the start of the run, which has passed.
    let packets = (0..3).map(|id| (at(0), packet(id, 1_504)));
    let fates = drive(&mut direction(opportunities(&[0, 4]), 1), packets);
    assert_eq!(times_ms(&fates), [(0, 4), (1, 4), (2, 8)]);
}

#[test]
fn opportunities_are_lost_when_nothing_waits() {
    // One comes at 2.5 ms: those at 1 and 2 are gone. One comes at the very instant of the next, as
    // in mahimahi too late for it; after long silence the trace is where it would have been.
    let packets = [(2_500_000, 0), (3_000_000, 1), (1_000_000_000, 2), (3_600_000_500_000, 3)];
    let packets = packets.map(|(nanos, id)| (at(nanos), packet(id, 752)));
    let fates = drive(&mut direction(opportunities(&[1, 2, 3, 10]), 1), packets);
    assert_eq!(times_ms(&fates), [(0, 3), (1, 10), (2, 1_001), (3, 3_600_001)]);
    // Half of an opportunity is lost with nothing to fill it.
    let packets = [(0, 0), (1_200_000, 1)].map(|(nanos, id)| (at(nanos), packet(id, 752)));
    let fates = drive(&mut direction(opportunities(&[1, 2]), 1), packets);
    assert_eq!(times_ms(&fates), [(0, 1), (1, 2)]);
}

#[test]
fn while_there_are_no_opportunities_the_queue_holds_its_limit() {
    let queue = QueueConfig { packets: Some(5), bytes: None, discipline: Discipline::DropTail };
    let pipe = PipeConfig { queue, ..opportunities(&[1_000]) };
    let fates = drive(&mut direction(pipe, 1), every(ms(1), 1_504, 20));
    assert_eq!(sent(&fates).len(), 5);
    assert_eq!(times_ms(&fates).iter().map(|(_, at)| *at).collect::<Vec<_>>(), [1_000, 2_000, 3_000, 4_000, 5_000]);
}

#[test]
fn a_trace_delivers_its_mean_rate() {
    let trace = Opportunities { source: "test".into(), at_ms: vec![1, 1, 4, 9, 10] };
    let mean = trace.mean_bits_per_second();
    let pipe = PipeConfig { rate: Some(RateModel::Opportunities(trace)), queue: patient(), ..PipeConfig::default() };
    let mut direction = direction(pipe, 1);
    for id in 0..20_000 {
        direction.handle(Time::ZERO, 0, packet(id, 400));
    }
    let mut fates = Vec::new();
    advance(&mut direction, Time::ZERO + ms(5_000), &mut fates);
    let bits = fates.len() as f64 * 3_200.0;
    assert!((bits / 5.0 / mean - 1.0).abs() < 0.001, "{bits} {mean}");
}
