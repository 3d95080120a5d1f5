//! What holds for every configuration, every change and every packet.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic too")]

mod common;

use std::collections::BTreeMap;

use common::{Fate, advance, drive, every, ms, packet_of, poll, rate};
use engine::{Element, Packet, Size, Span, Time};
use link::{
    Branch, Change, DelayModel, Direction, DirectionConfig, GilbertElliott, LossAt, LossModel, Markov4, Opportunities,
    PipeConfig, RateModel,
};
use proptest::prelude::*;
use queue::{Codel, Discipline, FqCodel, Pie, QueueConfig};

fn pipe_config() -> impl Strategy<Value = PipeConfig> {
    let rate_model = prop_oneof![
        Just(None),
        (10_000u64..50_000_000).prop_map(|bits| Some(RateModel::Constant(rate(&format!("{bits}bit/s"))))),
        (10_000u64..50_000_000, 1_600u64..9_000).prop_map(|(bits, burst)| {
            Some(RateModel::TokenBucket { rate: rate(&format!("{bits}bit/s")), burst: Size::from_bytes(burst) })
        }),
        prop::collection::vec(0u64..20, 1..8).prop_map(|mut at_ms| {
            at_ms.push(25);
            at_ms.sort_unstable();
            Some(RateModel::Opportunities(Opportunities { source: "t".into(), at_ms }))
        }),
    ];
    let quick = Codel { target: Span::from_millis(1), interval: Span::from_millis(5), ecn: true };
    let discipline = prop::sample::select(vec![
        Discipline::DropTail,
        Discipline::Codel(quick.clone()),
        Discipline::Pie(Pie { burst: Span::ZERO, ..Pie::default() }),
        Discipline::FqCodel(FqCodel { flows: 4, quantum: 300, codel: quick }),
    ]);
    let delay = prop::sample::select(vec![
        DelayModel::Constant(Span::ZERO),
        DelayModel::Constant(ms(20)),
        DelayModel::Uniform { min: ms(1), max: ms(9) },
        DelayModel::Normal { mean: ms(3), deviation: ms(2) },
        DelayModel::Pareto { scale: ms(1), shape: 1.2 },
    ]);
    let loss = prop::sample::select(vec![
        LossModel::Bernoulli(0.1),
        LossModel::GilbertElliott(GilbertElliott { p: 0.1, r: 0.3, loss_bad: 0.9, loss_good: 0.01 }),
        LossModel::Markov4(Markov4 { p13: 0.1, p31: 0.2, p32: 0.2, p23: 0.2, p14: 0.1 }),
    ]);
    let effects = (any::<bool>(), any::<bool>(), 0.0..0.3, 0.0..0.3);
    (rate_model, discipline, 0u32..20, delay, loss, effects).prop_map(
        |(rate, discipline, packets, delay, loss, effects)| {
            let (reorder, air, duplicate, corrupt) = effects;
            let queue = QueueConfig { packets: Some(packets + 1), bytes: Some(Size::from_bytes(12_000)), discipline };
            let loss_at = if air { LossAt::Air } else { LossAt::Entry };
            PipeConfig {
                rate,
                overhead: Size::from_bytes(14),
                queue,
                delay,
                reorder,
                loss,
                loss_at,
                duplicate,
                corrupt,
            }
        },
    )
}

fn change() -> impl Strategy<Value = Change> {
    pipe_config().prop_flat_map(|pipe| {
        prop::sample::select(vec![
            Change::Rate(pipe.rate),
            Change::Delay(pipe.delay),
            Change::Loss(pipe.loss),
            Change::QueueLimits { packets: pipe.queue.packets, bytes: pipe.queue.bytes },
            Change::Duplicate(pipe.duplicate),
            Change::Corrupt(pipe.corrupt),
        ])
    })
}

#[derive(Clone, Debug)]
enum Step {
    Packet { gap: u64, length: usize, port: u16 },
    Change(Change),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let packet =
        (0u64..3_000_000, 28usize..1_500, 0u16..6).prop_map(|(gap, length, port)| Step::Packet { gap, length, port });
    prop::collection::vec(prop_oneof![12 => packet, 1 => change().prop_map(Step::Change)], 0..150)
}

fn play(config: &DirectionConfig, seed: u64, steps: &[Step]) -> (Vec<Fate>, Direction, u64) {
    let mut direction = Direction::new(config, seed, "play").unwrap();
    let (mut now, mut id, mut fates) = (Time::ZERO, 0, Vec::new());
    for step in steps {
        match step {
            Step::Packet { gap, length, port } => {
                now += Span::from_nanos(*gap);
                advance(&mut direction, now, &mut fates);
                let packet = packet_of(id, *length, [10, 0, 0, 1], *port, 0);
                direction.handle(now, 0, Packet { arrived: now, ..packet });
                id += 1;
            }
            Step::Change(change) => {
                // One may ask for a queue of nothing with opportunities; that is refused.
                let _ = direction.set(now, Direction::MAIN, change);
            }
        }
        poll(&mut direction, now, &mut fates);
    }
    advance(&mut direction, Time::MAX, &mut fates);
    (fates, direction, id)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_packet_comes_out_once_and_is_counted_once(
        pipe in pipe_config(),
        other in pipe_config(),
        steps in steps(),
        seed: u64,
    ) {
        let selector = queue::Selector { port: Some(3), ..queue::Selector::default() }.into();
        let config = DirectionConfig { branches: vec![Branch { name: "b".into(), selector, pipe: other }], pipe };
        let (fates, direction, offered) = play(&config, seed, &steps);
        let mut seen: BTreeMap<u64, u64> = (0..offered).map(|id| (id, 0)).collect();
        for fate in &fates {
            *seen.get_mut(&fate.packet.id).unwrap() += 1;
        }
        let pipes: Vec<link::Counters> = direction.counters().map(|(_, counters)| counters).collect();
        let sum = |count: fn(&link::Counters) -> u64| pipes.iter().map(count).sum::<u64>();
        let copies = sum(|counters| counters.duplicated.packets);
        prop_assert!(seen.values().all(|times| (1..=2).contains(times)));
        prop_assert_eq!(seen.values().filter(|times| **times == 2).count() as u64, copies);
        prop_assert_eq!(sum(|counters| counters.offered.packets), offered);
        prop_assert_eq!(sum(|counters| counters.waiting.packets) + sum(|counters| counters.waiting.bytes), 0);
        let sent = fates.iter().filter(|fate| fate.dropped.is_none());
        prop_assert_eq!(sum(|counters| counters.delivered.packets), sent.clone().count() as u64);
        prop_assert_eq!(sum(|counters| counters.delivered.bytes), sent.map(|fate| fate.packet.len() as u64).sum::<u64>());
        for (reason, _) in pipes[0].dropped() {
            let dropped = fates.iter().filter(|fate| fate.dropped == Some(reason)).count() as u64;
            prop_assert_eq!(pipes.iter().map(|pipe| pipe.dropped_for(reason).packets).sum::<u64>(), dropped, "{}", reason);
        }
        for pipe in &pipes {
            let (out, dropped) = (pipe.delivered, pipe.dropped_in_all());
            prop_assert_eq!(pipe.offered.packets + pipe.duplicated.packets, out.packets + dropped.packets);
            prop_assert_eq!(pipe.offered.bytes + pipe.duplicated.bytes, out.bytes + dropped.bytes);
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_bytes_at_the_same_times(pipe in pipe_config(), steps in steps(), seed: u64) {
        let config = DirectionConfig { branches: vec![], pipe };
        let (first, ..) = play(&config, seed, &steps);
        let (again, ..) = play(&config, seed, &steps);
        prop_assert_eq!(first, again);
    }

    #[test]
    fn order_holds_wherever_it_is_not_given_up(pipe in pipe_config(), steps in steps(), seed: u64) {
        let fair = matches!(pipe.queue.discipline, Discipline::FqCodel(_));
        let config = DirectionConfig { branches: vec![], pipe: PipeConfig { reorder: false, ..pipe } };
        let (fates, ..) = play(&config, seed, &steps);
        let port = |fate: &Fate| wire::Headers::parse(&fate.packet.bytes).ip.and_then(|ip| ip.ports);
        let sent = fates.iter().filter(|fate| fate.dropped.is_none());
        if fair {
            // Flow queueing keeps the order of each flow; a flipped bit may change the port.
            let mut last: BTreeMap<_, u64> = BTreeMap::new();
            if config.pipe.corrupt == 0.0 {
                for fate in sent {
                    let before = last.insert(port(fate), fate.packet.id);
                    prop_assert!(before.is_none_or(|before| before <= fate.packet.id));
                }
            }
        } else {
            prop_assert!(sent.is_sorted_by_key(|fate| fate.packet.id));
        }
    }
}

#[test]
fn another_seed_or_label_gives_another_run() {
    let config = DirectionConfig {
        branches: vec![],
        pipe: PipeConfig { loss: LossModel::Bernoulli(0.5), ..PipeConfig::default() },
    };
    let run = |seed, label| {
        let mut direction = Direction::new(&config, seed, label).unwrap();
        let fates = drive(&mut direction, every(ms(1), 60, 100));
        fates.iter().map(|fate| fate.dropped.is_some()).collect::<Vec<_>>()
    };
    assert_eq!(run(1, "up"), run(1, "up"));
    assert_ne!(run(1, "up"), run(1, "down"));
    assert_ne!(run(1, "up"), run(2, "up"));
}
