//! Flows that do not keep to what they seemed to be: late, growing, silent for a while.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic too")]

mod common;

use adapter::{AdapterConfig, Class, Counters, Priority, Rule, RuleClass, Schedule};
use common::{Pair, VOICE, datagram, millis};
use engine::{Rate, Span};
use queue::Selector;
use wire::Headers;

/// A voice of 41 characters a datagram that `late` delays, by number, beside data without end: the
/// adapter's counters after `seconds`.
fn uneven(schedule: Schedule, late: impl Fn(u64) -> Span, seconds: u64) -> Counters {
    let mut pair = Pair::new(&AdapterConfig { schedule, ..AdapterConfig::default() });
    let start = millis(2_000);
    let mut number = 0;
    for voice in 0..seconds * 1_000_000_000 / VOICE {
        let at = start + Span::from_nanos(voice * VOICE) + late(voice);
        pair.run(at);
        let data = pair.counters(0).classes[4];
        for _ in data.taken.packets - data.sent.packets - data.dropped.packets..3 {
            number += 1;
            pair.send(at, 0, datagram(0, 9, number, 1_232));
        }
        number += 1;
        pair.send(at, 0, datagram(0, 6_000, number, 33));
    }
    pair.run(start + Span::from_secs(seconds + 5));
    pair.counters(0)
}

#[test]
fn a_datagram_that_is_late_waits_less_than_without_prediction() {
    let late = |number: u64| if number % 30 == 29 { Span::from_millis(20) } else { Span::ZERO };
    let [gaps, priority] = [Schedule::Gaps, Schedule::Priority].map(|schedule| uneven(schedule, late, 180));
    let p99 = |counters: &Counters| counters.real_time_delay.quantile(0.99).unwrap();
    assert!(p99(&gaps) <= p99(&priority), "{:?} {:?}", p99(&gaps), p99(&priority));
    // Its own 43 ms, and a quarter of the longest fragment.
    assert!(p99(&gaps) <= Span::from_millis(43 + 27), "{:?}", p99(&gaps));
}

#[test]
fn a_flow_that_grows_takes_nothing_from_the_voices() {
    for bandwidth in [Rate::from_bits_per_second(1_640), None] {
        let selector = Selector { port: Some(7_000), ..Selector::default() };
        let rule = Rule { selector, class: RuleClass::RealTime, priority: Priority::default(), bandwidth };
        let mut pair = Pair::new(&AdapterConfig { rules: vec![rule], ..AdapterConfig::default() });
        let mut number = 0;
        let mut send = |pair: &mut Pair, at, port, payload| {
            number += 1;
            pair.send(at, 0, datagram(0, port, number, payload));
        };
        for step in 0..400 {
            let at = millis(2_000) + Span::from_nanos(step * VOICE);
            for voice in 0..3 {
                send(&mut pair, at + Span::from_millis(u64::from(voice) * 50), 6_000 + voice, 33);
            }
            send(&mut pair, at + Span::from_millis(160), 7_000, 33);
            for _ in 0..if step > 100 { 20 } else { 0 } {
                send(&mut pair, at + Span::from_millis(161), 7_000, 150);
            }
        }
        pair.run(millis(90_000));
        let counters = pair.counters(0);
        assert!(counters.flows.excess > 1_000, "{:?}", counters.flows);
        let heard = |port| {
            pair.frames(1)
                .filter(|(_, frame)| {
                    Headers::parse(frame).ip.and_then(|ip| ip.ports).is_some_and(|ports| ports.0 == port)
                })
                .count()
        };
        assert_eq!([6_000, 6_001, 6_002].map(heard), [400; 3]);
        assert!(counters.real_time_delay.quantile(0.99).unwrap() < Span::from_millis(300));
    }
}

#[test]
fn who_presses_to_talk_again_is_real_time_from_the_first_packet() {
    let mut pair = Pair::new(&AdapterConfig::default());
    let mut number = 0;
    for spurt in 0..10 {
        for packet in 0..12 {
            number += 1;
            let at = millis(2_000) + Span::from_nanos(packet * VOICE) + Span::from_secs(spurt * 14);
            pair.send(at, 0, datagram(0, 6_000, number, 33));
        }
    }
    pair.run(millis(150_000));
    let counters = pair.counters(0);
    assert_eq!((counters.flows.admitted, counters.flows.ended), (10, 10));
    let [voice, data] =
        [Class::RealTime, Class::Data(Priority::default())].map(|class| counters.classes[class.index()].sent.packets);
    // Until the flow is known to be steady its packets are data.
    assert_eq!((voice, data), (116, 4));
}

#[test]
fn bursts_at_one_instant_of_a_flow_with_a_rule_take_nothing_from_the_voices() {
    let selector = Selector { port: Some(7_000), ..Selector::default() };
    let rule = Rule { selector, class: RuleClass::RealTime, priority: Priority::default(), bandwidth: None };
    let mut pair = Pair::new(&AdapterConfig { rules: vec![rule], ..AdapterConfig::default() });
    let mut number = 0;
    for step in 0..100 {
        let at = millis(2_000) + Span::from_nanos(step * VOICE);
        for (port, count, payload) in [(6_000, 1, 33), (7_000, if step % 20 == 15 { 60 } else { 0 }, 150)] {
            for _ in 0..count {
                number += 1;
                pair.send(at, 0, datagram(0, port, number, payload));
            }
        }
    }
    pair.run(millis(120_000));
    let counters = pair.counters(0);
    // No spacing is ever known, so nothing says what it needs: a few datagrams of each burst go ahead.
    assert!(counters.flows.excess >= 5 * 50, "{:?}", counters.flows);
    assert!(counters.class(Class::RealTime).sent.packets <= 100 + 5 * 8, "{:?}", counters.classes);
    assert!(counters.real_time_delay.quantile(0.6).unwrap() < Span::from_millis(300));
}
