//! Which packets are what: by rule, by behaviour, and what follows from it.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic too")]

mod common;

use adapter::{
    Adapter, AdapterConfig, Admission, Behaviour, Class, LAN, LINE, LOOPED, Priority, REFUSED, Refused, Rule, RuleClass,
};
use common::{Heard, Line, Pair, VOICE, address, datagram, millis};
use engine::{ExitId, Graph, Packet, Random, Rate, Span, Time};
use queue::Selector;
use wire::frame::{Ethernet, Ipv6};
use wire::{Ecn, Headers};

fn rule(selector: Selector, class: RuleClass) -> Rule {
    Rule { selector, class, priority: Priority::default(), bandwidth: None }
}

fn port(port: u16) -> Selector {
    Selector { port: Some(port), ..Selector::default() }
}

fn with(rules: Vec<Rule>) -> AdapterConfig {
    AdapterConfig { rules, ..AdapterConfig::default() }
}

/// An ESP packet with so many bytes behind its header.
fn esp(number: u32, payload: usize, dscp: u8, flow_label: u32) -> Vec<u8> {
    let mut frame = Vec::new();
    Ethernet { destination: [2, 0, 0, 0, 0, 1], source: [2, 0, 0, 0, 0, 0] }.write(&mut frame, 0x86dd);
    let (source, destination, ecn) = (address(0), address(1), Ecn::NotCapable);
    let ip = Ipv6 { source, destination, dscp, ecn, flow_label, hop_limit: 64 };
    frame.extend_from_slice(&ip.to_bytes(50, 8 + payload).unwrap());
    frame.extend_from_slice(&0x0000_1001_u32.to_be_bytes());
    frame.extend_from_slice(&number.to_be_bytes());
    let mut random = Random::stream(u64::from(number), "esp");
    frame.resize_with(frame.len() + payload, || random.bits() as u8);
    frame
}

#[test]
fn rules_come_first_and_the_first_that_matches_holds() {
    let label = Selector { flow_label: Some(0x777), ..Selector::default() };
    let spi = Selector { spi: Some(0x1001), ..Selector::default() };
    let dscp = Selector { dscp: Some(46), ..Selector::default() };
    let mut urgent = rule(port(5060), RuleClass::Data);
    urgent.priority = Priority::HIGHEST;
    let rules =
        vec![rule(dscp, RuleClass::RealTime), rule(label, RuleClass::RealTime), urgent, rule(spi, RuleClass::Data)];
    let mut pair = Pair::new(&with(rules));
    pair.run(millis(1_000));
    pair.send(millis(1_000), 0, esp(1, 60, 46, 0));
    pair.send(millis(1_000), 0, esp(2, 60, 0, 0x777));
    pair.send(millis(1_000), 0, esp(3, 60, 0, 0));
    pair.send(millis(1_000), 0, datagram(0, 5060, 4, 60));
    pair.send(millis(1_000), 0, datagram(0, 5061, 5, 60));
    // Too long to be sent whole.
    pair.send(millis(1_000), 0, esp(6, 300, 46, 0));
    pair.run(millis(5_000));
    let taken = pair.counters(0).classes.map(|class| class.taken.packets);
    assert_eq!(taken, [2, 2, 0, 0, 2]);
    assert_eq!(pair.frames(1).count(), 6);
    assert_eq!(pair.counters(0).class(Class::RealTime).sent.packets, 2);
}

#[test]
fn a_higher_priority_does_not_wait_for_a_packet_of_a_lower() {
    let mut urgent = rule(port(5060), RuleClass::Data);
    urgent.priority = Priority::HIGHEST;
    let mut pair = Pair::new(&with(vec![urgent]));
    pair.run(millis(1_000));
    pair.send(millis(1_000), 0, datagram(0, 9, 1, 1_200));
    pair.send(millis(1_300), 0, datagram(0, 5060, 2, 150));
    pair.run(millis(5_000));
    let order: Vec<usize> = pair.frames(1).map(|(_, frame)| frame.len()).collect();
    assert_eq!(order, [62 + 150, 62 + 1_200]);
}

#[test]
fn a_bandwidth_that_is_stated_is_reserved() {
    let mut voice = rule(Selector { protocol: Some(17), ..Selector::default() }, RuleClass::RealTime);
    voice.bandwidth = Rate::from_bits_per_second(3_000);
    let mut pair = Pair::new(&with(vec![voice]));
    pair.run(millis(1_000));
    // 375 characters a second each: two fit into 960, three do not.
    for number in 0..3 {
        pair.send(millis(1_000), 0, datagram(0, 6000 + number as u16, number, 33));
    }
    pair.run(millis(3_000));
    let counters = pair.counters(0);
    assert_eq!((counters.flows.active, counters.flows.characters_per_second), (2, 750));
    assert_eq!(counters.dropped_for(REFUSED).packets, 1);
}

#[test]
fn refused_flows_may_go_as_data() {
    let mut voice = rule(Selector { protocol: Some(17), ..Selector::default() }, RuleClass::RealTime);
    voice.bandwidth = Rate::from_bits_per_second(7_000);
    let admission = Admission { refused: Refused::Data, ..Admission::default() };
    let mut pair = Pair::new(&AdapterConfig { admission, ..with(vec![voice]) });
    pair.run(millis(1_000));
    pair.send(millis(1_000), 0, datagram(0, 6000, 1, 33));
    pair.send(millis(1_000), 0, datagram(0, 6001, 2, 33));
    pair.run(millis(3_000));
    assert_eq!(pair.counters(0).classes.map(|class| class.sent.packets), [1, 0, 0, 0, 1]);
    assert_eq!(pair.frames(1).count(), 2);
}

#[test]
fn encrypted_voice_is_found_by_its_pace_and_bulk_is_not() {
    let mut pair = Pair::new(&AdapterConfig::default());
    for number in 0..60 {
        let at = millis(1_000) + Span::from_nanos(u64::from(number) * VOICE);
        // The tunnel copies the inner DSCP: voice and bulk of one SA are told apart.
        pair.send(at, 0, esp(2 * number, 81, 46, 0));
        if number % 5 == 0 {
            pair.send(at + Span::from_millis(3), 0, esp(2 * number + 1, 600, 0, 0));
        }
    }
    pair.run(millis(20_000));
    let counters = pair.counters(0);
    assert_eq!(counters.classes.map(|class| class.taken.packets), [56, 0, 0, 0, 4 + 12]);
    assert_eq!((counters.flows.admitted, counters.flows.overdue), (1, 0));
    assert_eq!(pair.frames(1).count(), 72);
}

#[test]
fn without_behaviour_only_rules_make_real_time() {
    let mut pair = Pair::new(&AdapterConfig { behaviour: None, ..AdapterConfig::default() });
    for number in 0..20 {
        pair.send(millis(1_000) + Span::from_nanos(u64::from(number) * VOICE), 0, datagram(0, 6000, number, 33));
    }
    pair.run(millis(10_000));
    assert_eq!(pair.counters(0).classes[0].taken.packets, 0);
}

#[test]
fn talk_spurts_wait_for_one_fragment_at_their_start_and_not_after() {
    let mut pair = Pair::new(&AdapterConfig::default());
    let mut at = millis(3_000);
    let mut number = 0;
    for spurt in 0..20u64 {
        for packet in 0..12 {
            pair.run(at);
            let data = pair.counters(0).classes[4];
            for _ in data.taken.packets - data.sent.packets - data.dropped.packets..3 {
                number += 1;
                pair.send(at, 0, datagram(0, 9, number, 1_000));
            }
            pair.send(at, 0, datagram(0, 6000, 100_000 + number, 33));
            at += Span::from_nanos(VOICE);
            if packet == 11 {
                at += Span::from_millis(900 + spurt * 83);
            }
        }
    }
    pair.run(at);
    let counters = pair.counters(0);
    assert_eq!((counters.flows.active, counters.flows.overdue, counters.flows.ended), (1, 0, 0));
    let own = Span::from_nanos(41 * 1_041_667);
    // One in twelve begins a spurt.
    assert!(counters.real_time_delay.quantile(0.9).unwrap() < own + Span::from_millis(4));
    assert!(counters.real_time_delay.most().unwrap() < own + Span::from_millis(105 + 60));
}

#[test]
fn a_lead_hands_frames_over_early_and_the_line_never_waits() {
    let lead = Span::from_millis(20);
    let mut pair = Pair::new(&AdapterConfig { lead, ..AdapterConfig::default() });
    pair.run(millis(1_000));
    for number in 0..5 {
        pair.send(millis(1_000), 0, datagram(0, 9, number, 1_000));
    }
    pair.run(millis(5_000));
    let sent: Vec<(Time, usize)> =
        pair.line(0).sent.iter().filter(|(at, _)| *at >= millis(1_000)).map(|(at, run)| (*at, run.len())).collect();
    assert!(sent.len() > 30);
    let mut free_at = millis(1_000);
    for (at, characters) in sent {
        assert!(at <= free_at && free_at.since(at) <= lead, "{at} {free_at}");
        free_at += Span::from_nanos(characters as u64 * 1_041_666);
    }
}

#[test]
fn chained_adapters_keep_a_voice_steady() {
    let config = AdapterConfig::default();
    let mut graph = Graph::new();
    let character = Span::from_nanos(1_041_666);
    let mut heard = Heard::default();
    let nodes: Vec<_> = (0..4).map(|at| graph.add("adapter", Adapter::new(&config, at, "chained").unwrap())).collect();
    for [west, east] in [[0, 1], [2, 3]] {
        for (from, to) in [(west, east), (east, west)] {
            let line = graph.add("line", Line::new(character, 1));
            graph.connect((nodes[from], LINE), (line, 0));
            graph.connect((line, 0), (nodes[to], LINE));
        }
    }
    graph.connect((nodes[1], LAN), (nodes[2], LAN));
    graph.connect((nodes[2], LAN), (nodes[1], LAN));
    graph.connect_exit((nodes[3], LAN), ExitId(1));
    graph.connect_exit((nodes[0], LAN), ExitId(0));
    let first = (nodes[0], LAN);
    let mut number = 0;
    for step in 0..300u64 {
        let at = millis(2_000) + Span::from_nanos(step * VOICE);
        graph.inject(at, first, Packet::new(datagram(0, 6000, 100_000 + step as u32, 33)), &mut heard);
        if step % 8 == 0 {
            number += 1;
            graph.inject(at, first, Packet::new(datagram(0, 9, number, 1_000)), &mut heard);
        }
    }
    graph.advance(millis(80_000), &mut heard);
    let voice = |frame: &[u8]| Headers::parse(frame).ip.unwrap().ports == Some((6000, 6000));
    let times: Vec<Time> =
        heard.frames.iter().filter(|(_, exit, frame)| *exit == 1 && voice(frame)).map(|(at, ..)| *at).collect();
    assert_eq!(times.len(), 300);
    let mut jitter: Vec<u64> =
        times[20..].windows(2).map(|pair| pair[1].since(pair[0]).as_nanos().abs_diff(VOICE)).collect();
    jitter.sort_unstable();
    assert!(jitter[jitter.len() * 99 / 100] <= 2_000_000, "{:?}", &jitter[jitter.len() - 9..]);
    assert_eq!(heard.frames.iter().filter(|(_, exit, _)| *exit == 1).count(), 300 + number as usize);
}

#[test]
fn a_line_that_is_looped_back_is_told() {
    let mut graph = Graph::new();
    let mut heard = Heard::default();
    let west = graph.add("west", Adapter::new(&AdapterConfig::default(), 1, "west").unwrap());
    let line = graph.add("line", Line::new(Span::from_millis(1), 1));
    graph.connect((west, LINE), (line, 0));
    graph.connect((line, 0), (west, LINE));
    graph.advance(millis(10_000), &mut heard);
    assert_eq!(heard.events.iter().map(|(_, event)| event.what).collect::<Vec<_>>(), [LOOPED]);
    let session = graph.element::<Adapter>(west).unwrap().counters().session;
    assert!(!session.up && session.looped >= 9);
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let refusal = |config: AdapterConfig| config.validate().unwrap_err().to_string();
    let far = Selector { dscp: Some(64), ..Selector::default() };
    assert_eq!(refusal(with(vec![rule(far, RuleClass::Data)])), "rule 1: `dscp` is 64; it must be 0 to 63");
    let behaviour = Some(Behaviour { packets: 2, ..Behaviour::default() });
    let config = AdapterConfig { behaviour, ..AdapterConfig::default() };
    assert_eq!(refusal(config), "the adapter's `behaviour.packets` is 2; it must be 4 to 16");
    let mut config = AdapterConfig::default();
    config.session.dead_after = Span::from_millis(1_500);
    let valid = "at least twice `session.keep-alive`, at most 10min";
    assert_eq!(refusal(config), format!("the adapter's `session.dead-after` is 1500ms; it must be {valid}"));
}
