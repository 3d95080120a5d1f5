//! Limits hold to the packet and byte, and every packet comes out once.

mod common;

use common::{packet, queue};
use engine::{Size, Span, Time};
use proptest::prelude::*;
use queue::{Codel, ConfigError, Discipline, FULL_BYTES, FULL_PACKETS, FqCodel, Pie, QueueConfig};
use wire::Ecn;

fn disciplines() -> Vec<Discipline> {
    let quick = Codel { target: Span::from_micros(10), interval: Span::from_micros(100), ecn: true };
    vec![
        Discipline::DropTail,
        Discipline::Codel(quick.clone()),
        Discipline::Pie(Pie { burst: Span::ZERO, ..Pie::default() }),
        Discipline::FqCodel(FqCodel { flows: 4, quantum: 300, codel: quick }),
    ]
}

#[test]
fn limits_are_exact() {
    for discipline in disciplines() {
        let config = QueueConfig { packets: Some(7), bytes: None, discipline: discipline.clone() };
        let mut by_packets = queue(&config, 1);
        let mut dropped = Vec::new();
        for id in 0..20 {
            by_packets.enqueue(Time::ZERO, packet(id, 1, 100, Ecn::NotCapable), 100, |reason, _| dropped.push(reason));
        }
        assert_eq!((by_packets.len_packets(), by_packets.len_bytes()), (7, 700), "{discipline:?}");
        assert_eq!(dropped, [FULL_PACKETS; 13], "{discipline:?}");
        let counters = by_packets.counters();
        assert_eq!((counters.full_packets, counters.most_packets, counters.most_bytes), (13, 7, 700));

        let config = QueueConfig { packets: None, bytes: Some(Size::from_bytes(1_000)), discipline };
        let mut by_bytes = queue(&config, 1);
        dropped.clear();
        // 9 * 111 = 999: one byte is left, and that is taken, but not two.
        for (id, length) in [111; 9].into_iter().chain([30]).enumerate() {
            let packet = packet(id as u64, 1, length, Ecn::NotCapable);
            by_bytes.enqueue(Time::ZERO, packet, length as u32, |reason, _| dropped.push(reason));
        }
        if matches!(config.discipline, Discipline::FqCodel(_)) {
            // The first of the fattest flow goes, not the one that came.
            assert_eq!((by_bytes.len_packets(), by_bytes.len_bytes()), (9, 8 * 111 + 30));
        } else {
            assert_eq!((by_bytes.len_packets(), by_bytes.len_bytes()), (9, 999));
            by_bytes.enqueue(Time::ZERO, packet(10, 1, 28, Ecn::NotCapable), 1, |_, _| unreachable!("it fits"));
            assert_eq!(by_bytes.len_bytes(), 1_000);
        }
        assert_eq!(dropped, [FULL_BYTES]);
    }
}

#[test]
fn a_lower_limit_lets_what_waits_stay() {
    let config = QueueConfig { packets: Some(10), bytes: None, discipline: Discipline::DropTail };
    let mut queue = queue(&config, 1);
    let offer = |queue: &mut queue::Queue| {
        let mut dropped = 0;
        queue.enqueue(Time::ZERO, packet(0, 1, 100, Ecn::NotCapable), 100, |_, _| dropped += 1);
        dropped
    };
    assert_eq!((0..10).map(|_| offer(&mut queue)).sum::<u32>(), 0);
    queue.set_limits(Some(3), None);
    assert_eq!((queue.len_packets(), offer(&mut queue)), (10, 1));
    for _ in 0..8 {
        queue.dequeue(Time::ZERO, |_, _| {});
    }
    assert_eq!((offer(&mut queue), offer(&mut queue), queue.len_packets()), (0, 1, 3));
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let config = |discipline| QueueConfig { packets: Some(10), bytes: None, discipline };
    for discipline in disciplines() {
        assert_eq!(config(discipline).validate(), Ok(()));
    }
    let none = QueueConfig { packets: None, bytes: None, discipline: Discipline::DropTail };
    assert_eq!(none.validate(), Err(ConfigError::NoLimit));
    let field = |discipline| match config(discipline).validate() {
        Err(ConfigError::OutOfRange { field, .. } | ConfigError::SpanOutOfRange { field, .. }) => field,
        other => panic!("{other:?}"),
    };
    let codel = |target, interval| Codel { target, interval, ecn: false };
    assert_eq!(field(Discipline::Codel(codel(Span::ZERO, Span::from_millis(1)))), "target");
    assert_eq!(field(Discipline::Codel(codel(Span::from_millis(2), Span::from_millis(1)))), "interval");
    assert_eq!(field(Discipline::Pie(Pie { update: Span::ZERO, ..Pie::default() })), "update");
    assert_eq!(field(Discipline::FqCodel(FqCodel { flows: 0, ..FqCodel::default() })), "flows");
    assert_eq!(field(Discipline::FqCodel(FqCodel { quantum: 0, ..FqCodel::default() })), "quantum");
    let error = config(Discipline::FqCodel(FqCodel { flows: 70_000, ..FqCodel::default() })).validate().unwrap_err();
    assert_eq!(error.to_string(), "the queue's `flows` is 70000; it must be 1 to 65536");
}

#[test]
fn memory_is_bounded_by_the_tighter_limit() {
    let config = |packets, bytes: Option<u64>| QueueConfig {
        packets,
        bytes: bytes.map(Size::from_bytes),
        discipline: Discipline::DropTail,
    };
    assert_eq!(config(Some(2), None).memory_bound(), 2 * QueueConfig::LONGEST_FRAME);
    assert_eq!(config(Some(2), Some(1_000)).memory_bound(), 3_000);
}

#[derive(Clone, Debug)]
enum Step {
    Enqueue { flow: u16, length: usize, ecn: u8 },
    Dequeue,
    Wait(u64),
    Limits(u32, u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0u16..6, 28usize..1_500, 0u8..4).prop_map(|(flow, length, ecn)| Step::Enqueue { flow, length, ecn }),
        3 => Just(Step::Dequeue),
        2 => (0u64..400_000_000).prop_map(Step::Wait),
        1 => (1u32..20, 100u64..9_000).prop_map(|(packets, bytes)| Step::Limits(packets, bytes)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_packet_comes_out_once_and_levels_are_true(
        steps in prop::collection::vec(step(), 0..400),
        which in 0usize..4,
    ) {
        let discipline = disciplines().swap_remove(which);
        let fair = matches!(discipline, Discipline::FqCodel(_));
        let config = QueueConfig { packets: Some(12), bytes: Some(Size::from_bytes(8_000)), discipline };
        let mut queue = queue(&config, 3);
        let (mut now, mut next) = (Time::ZERO, 0);
        let (mut limit_packets, mut limit_bytes) = (12, 8_000);
        // Where each packet is: still inside, or how often it came out.
        let mut inside = std::collections::BTreeMap::new();
        let mut drops = 0;
        for step in steps {
            match step {
                Step::Enqueue { flow, length, ecn } => {
                    inside.insert(next, length as u64);
                    let packet = packet(next, flow, length, Ecn::from_bits(ecn));
                    let mut out = Vec::new();
                    queue.enqueue(now, packet, length as u32, |_, packet| out.push(packet.id));
                    for id in &out {
                        prop_assert!(inside.remove(id).is_some(), "{id} came out twice");
                        prop_assert!(fair || *id == next, "another packet than the one that came");
                    }
                    drops += out.len() as u64;
                    next += 1;
                    if out.is_empty() || fair {
                        prop_assert!(queue.len_packets() <= limit_packets && queue.len_bytes() <= limit_bytes);
                    }
                }
                Step::Dequeue => {
                    let mut out = Vec::new();
                    let sent = queue.dequeue(now, |_, packet| out.push(packet.id));
                    drops += out.len() as u64;
                    let empty = inside.is_empty();
                    for id in out.into_iter().chain(sent.iter().map(|(packet, _)| packet.id)) {
                        prop_assert!(inside.remove(&id).is_some(), "{id} came out twice");
                    }
                    prop_assert_eq!(sent.is_none(), empty, "the line stood still while packets waited");
                }
                Step::Wait(nanos) => now += Span::from_nanos(nanos),
                Step::Limits(packets, bytes) => {
                    (limit_packets, limit_bytes) = (packets, bytes);
                    queue.set_limits(Some(packets), Some(Size::from_bytes(bytes)));
                }
            }
            prop_assert_eq!(queue.len_packets() as usize, inside.len());
            prop_assert_eq!(queue.len_bytes(), inside.values().sum::<u64>());
        }
        let counters = queue.counters();
        prop_assert_eq!(counters.full_packets + counters.full_bytes + counters.managed, drops);
    }
}
