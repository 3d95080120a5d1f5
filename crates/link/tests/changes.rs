//! Changes while packets run.

mod common;

use common::{Fate, advance, at, branch, direction, ms, packet, poll, rate, rated};
use engine::{Element, Size, Time};
use link::{Change, Direction, DirectionConfig, LossModel, OVERSIZED, Opportunities, PipeConfig, RateModel, Selector};

fn ids(fates: &[Fate]) -> Vec<u64> {
    fates.iter().map(|fate| fate.packet.id).collect()
}

#[test]
fn a_new_rate_goes_for_the_rest_of_the_packet() {
    let mut direction = direction(rated("1Mbit/s"), 1);
    let mut fates = Vec::new();
    // 1,250 bytes take 10 ms; after 4 ms 750 are left, which take 0.6 ms at ten times the rate.
    direction.handle(at(0), 0, packet(0, 1_250));
    direction.handle(at(0), 0, packet(1, 1_250));
    direction
        .set(Time::ZERO + ms(4), Direction::MAIN, &Change::Rate(Some(RateModel::Constant(rate("10Mbit/s")))))
        .unwrap();
    advance(&mut direction, Time::ZERO + ms(1_000), &mut fates);
    assert_eq!(fates.iter().map(|fate| fate.at.as_nanos()).collect::<Vec<_>>(), [4_600_000, 5_600_000]);
}

#[test]
fn any_rate_can_follow_any_other_and_nothing_is_lost() {
    let bucket = RateModel::TokenBucket { rate: rate("1Mbit/s"), burst: Size::from_bytes(2_000) };
    let trace = RateModel::Opportunities(Opportunities { source: "t".into(), at_ms: vec![3, 10] });
    let models = [None, Some(RateModel::Constant(rate("2Mbit/s"))), Some(bucket), Some(trace)];
    for from in &models {
        for to in &models {
            let mut direction = direction(PipeConfig { rate: from.clone(), ..PipeConfig::default() }, 1);
            let mut fates = Vec::new();
            for id in 0..20 {
                direction.handle(Time::ZERO, 0, packet(id, 1_000));
            }
            poll(&mut direction, Time::ZERO, &mut fates);
            advance(&mut direction, Time::ZERO + ms(5), &mut fates);
            direction.set(Time::ZERO + ms(5), Direction::MAIN, &Change::Rate(to.clone())).unwrap();
            poll(&mut direction, Time::ZERO + ms(5), &mut fates);
            advance(&mut direction, Time::MAX, &mut fates);
            assert_eq!(ids(&fates), (0..20).collect::<Vec<_>>(), "{from:?} {to:?}");
            assert!(fates.iter().all(|fate| fate.dropped.is_none()));
            if to.is_none() {
                assert!(fates.last().unwrap().at <= Time::ZERO + ms(5));
            }
        }
    }
}

#[test]
fn a_bucket_made_smaller_drops_what_it_cannot_hold_any_more() {
    let bucket = |burst| RateModel::TokenBucket { rate: rate("1Mbit/s"), burst: Size::from_bytes(burst) };
    let mut direction = direction(PipeConfig { rate: Some(bucket(9_000)), ..PipeConfig::default() }, 1);
    let lengths = [9_000, 9_000, 1_000, 8_000, 1_000];
    for (length, id) in lengths.into_iter().zip(0..) {
        direction.handle(Time::ZERO, 0, packet(id, length));
    }
    direction.set(Time::ZERO, Direction::MAIN, &Change::Rate(Some(bucket(1_500)))).unwrap();
    let mut fates = Vec::new();
    poll(&mut direction, Time::ZERO, &mut fates);
    advance(&mut direction, Time::MAX, &mut fates);
    let mut dropped: Vec<u64> = fates.iter().filter(|f| f.dropped == Some(OVERSIZED)).map(|f| f.packet.id).collect();
    dropped.sort_unstable();
    assert_eq!((fates.len(), dropped), (5, vec![1, 3]));
}

#[test]
fn changes_take_hold_and_impossible_ones_do_not() {
    let mut direction = Direction::new(
        &DirectionConfig { branches: vec![branch("b", Selector::default(), 0)], pipe: PipeConfig::default() },
        1,
        "x",
    )
    .unwrap();
    for change in [Change::Loss(LossModel::Bernoulli(1.0)), Change::Duplicate(0.0), Change::Corrupt(1.0)] {
        direction.set(Time::ZERO, "b", &change).unwrap();
    }
    direction.handle(Time::ZERO, 0, packet(0, 60));
    let mut fates = Vec::new();
    poll(&mut direction, Time::ZERO, &mut fates);
    assert_eq!(fates[0].dropped, Some(link::LOSS));
    let limits = Change::QueueLimits { packets: None, bytes: Some(Size::from_bytes(5_000)) };
    direction.set(Time::ZERO, "b", &limits).unwrap();
    let (_, config) = direction.configs().nth(1).unwrap();
    assert_eq!((config.queue.packets, config.queue.bytes), (None, Some(Size::from_bytes(5_000))));

    let error = direction.set(Time::ZERO, "c", &limits).unwrap_err();
    assert_eq!(error.to_string(), "there is no pipe `c`; there are `main` and `b`");
    let error = direction.set(Time::ZERO, "b", &Change::Duplicate(1.5)).unwrap_err();
    assert_eq!(error.to_string(), "branch `b`: `duplicate` is 1.5; it must be 0 to 1");
    assert_eq!(direction.configs().nth(1).unwrap().1.duplicate, 0.0);
}
