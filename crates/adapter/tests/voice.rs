//! Voice and data on 9600 baud: what the adapter is for.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic too")]

mod common;

use adapter::{ADMITTED, AdapterConfig, Counters, FLOW_REFUSED, REFUSED, Schedule};
use common::{Pair, VOICE, address, datagram, millis};
use engine::{Span, Time};
use wire::{Headers, protocol};

/// Source and destination port of the data, and of the first voice.
const DATA: u16 = 9;
const VOICES: u16 = 6000;

/// Voices and data side by side.
struct Load {
    pair: Pair,
    /// When the next packet of each voice comes.
    voices: Vec<Time>,
    /// Size of the data's IP packets.
    data: Option<usize>,
    data_at: Time,
    number: u32,
}

impl Load {
    /// Voices that start one after the other from 2 s on, 47 ms apart.
    fn new(config: &AdapterConfig, voices: u64, data: Option<usize>) -> Self {
        let voices = (0..voices).map(|voice| millis(2_000 + 47 * voice)).collect();
        Self { pair: Pair::new(config), voices, data, data_at: millis(1_500), number: 0 }
    }

    fn run(&mut self, end: Time) {
        loop {
            let voice = self.voices.iter().copied().enumerate().min_by_key(|(_, at)| *at);
            let (voice, at) = voice.unwrap_or((0, Time::MAX));
            if self.data.is_some() && self.data_at < at.min(end) {
                self.pair.run(self.data_at);
                self.refill();
                self.data_at += Span::from_millis(50);
            } else if at < end {
                self.pair.send(at, 0, datagram(0, VOICES + voice as u16, self.number, 33));
                self.number += 1;
                self.voices[voice] += Span::from_nanos(VOICE);
            } else {
                break;
            }
        }
        self.pair.run(end);
    }

    /// Three packets of data are always there.
    fn refill(&mut self) {
        let counters = self.pair.counters(0);
        let data = counters.classes[4];
        let there = data.taken.packets - data.sent.packets - data.dropped.packets;
        for _ in there..3 {
            self.number += 1;
            let payload = self.data.unwrap_or_default() - 48;
            self.pair.send(self.data_at, 0, datagram(0, DATA, self.number, payload));
        }
    }

    /// Times at which the datagrams of a voice came out.
    fn heard(&self, voice: u16) -> Vec<Time> {
        let of =
            |frame: &[u8]| Headers::parse(frame).ip.and_then(|ip| ip.ports) == Some((VOICES + voice, VOICES + voice));
        self.pair.frames(1).filter(|(_, frame)| of(frame)).map(|(at, _)| at).collect()
    }
}

/// Differences between the spacing at the receiver and at the sender: what 99 of 100 do not exceed.
fn jitter_p99(heard: &[Time]) -> Span {
    let spacing = heard.windows(2).map(|pair| pair[1].since(pair[0]).as_nanos().abs_diff(VOICE));
    let mut jitter: Vec<u64> = spacing.collect();
    jitter.sort_unstable();
    Span::from_nanos(jitter[jitter.len() * 99 / 100])
}

/// Counts between two snapshots: characters of voice, data, framing, held, control.
fn used(before: &Counters, after: &Counters) -> [u64; 5] {
    let of = |counters: &Counters| {
        let line = counters.line;
        [line.real_time, line.data, line.framing, line.held, line.control]
    };
    let (before, after) = (of(before), of(after));
    core::array::from_fn(|at| after[at] - before[at])
}

#[test]
fn voice_does_not_wait_and_data_get_what_it_leaves() {
    let mut load = Load::new(&AdapterConfig::default(), 1, Some(1280));
    load.run(millis(10_000));
    let before = load.pair.counters(0);
    let early = load.heard(0).len();
    load.run(millis(70_000));
    let after = load.pair.counters(0);
    let heard = &load.heard(0)[early..];
    assert!(heard.len() >= 295);
    assert!(jitter_p99(heard) <= Span::from_millis(2), "{}", jitter_p99(heard));
    let [voice, data, framing, held, control] = used(&before, &after);
    let left = 60 * 960 - voice;
    assert!(data * 100 >= left * 93, "{data} of {left}; framing {framing}, held {held}, control {control}");
    assert!(after.efficiency() > 0.93 && after.efficiency() < 1.0);
    assert_eq!((after.flows.overdue, after.line.control_forced), (0, 0));
    assert_eq!(after.flows.missed, before.flows.missed);
    assert!(after.predicted_gap.quantile(0.5).unwrap() < Span::from_nanos(VOICE));
    assert_eq!(load.pair.happened(ADMITTED), 1);
}

#[test]
fn without_prediction_voice_waits_for_fragments_and_in_a_fifo_for_packets() {
    let waits = [Schedule::Gaps, Schedule::Priority, Schedule::Fifo].map(|schedule| {
        let mut load = Load::new(&AdapterConfig { schedule, ..AdapterConfig::default() }, 1, Some(1280));
        load.run(millis(40_000));
        let counters = load.pair.counters(0);
        assert!(counters.classes[0].sent.packets > 150);
        counters.real_time_delay.quantile(0.9).unwrap()
    });
    let [gaps, priority, fifo] = waits;
    assert!(gaps < Span::from_millis(55) && priority > Span::from_millis(80) && fifo > Span::from_millis(1_000));
}

#[test]
fn four_voices_fit_and_the_fifth_is_refused_by_name() {
    let mut load = Load::new(&AdapterConfig::default(), 5, None);
    load.run(millis(30_000));
    let counters = load.pair.counters(0);
    assert_eq!((counters.flows.active, counters.flows.admitted, counters.flows.refused), (4, 4, 1));
    assert_eq!((load.pair.happened(ADMITTED), load.pair.happened(FLOW_REFUSED)), (4, 1));
    assert!(counters.dropped_for(REFUSED).packets > 100);
    assert_eq!(counters.flows.overdue, 0);
    for voice in 0..4 {
        assert!(load.heard(voice).len() > 130, "voice {voice}: {}", load.heard(voice).len());
    }
    // Its sender is told, not more often than once a second.
    let told: Vec<_> = load.pair.frames(0).filter_map(|(_, frame)| Headers::parse(frame).ip).collect();
    assert!(told.iter().all(|ip| ip.protocol == protocol::ICMPV6 && ip.destination == address(0)));
    assert!((20..=30).contains(&told.len()), "{}", told.len());
    assert_eq!(counters.flows.told, told.len() as u64);
    // One voice falls silent: its place is free after a while.
    load.voices[1] = Time::MAX;
    load.run(millis(55_000));
    assert_eq!(load.pair.counters(0).flows.active, 4);
    assert!(load.heard(4).len() > 40);
    load.voices.fill(Time::MAX);
    load.run(millis(66_000));
    let flows = load.pair.counters(0).flows;
    assert_eq!((flows.active, flows.ended, flows.characters_per_second), (0, 5, 0));
}

#[test]
fn a_small_first_datagram_does_not_make_a_voice_cheap() {
    let mut load = Load::new(&AdapterConfig::default(), 5, None);
    // As a program that greets the other end does before it sends its voice.
    for voice in 0..5 {
        load.pair.send(millis(1_500 + 20 * u64::from(voice)), 0, datagram(0, VOICES + voice, 1, 4));
    }
    load.run(millis(30_000));
    let flows = load.pair.counters(0).flows;
    assert_eq!((flows.active, flows.admitted, flows.refused, flows.excess), (4, 4, 1, 0), "{flows:?}");
    // 41 characters every 202.5 ms, of each.
    let granted = load.pair.heard.events.iter().filter(|(_, event)| event.what == ADMITTED);
    for (_, event) in granted {
        assert!((195_000..=210_000).contains(&event.value), "{event:?}");
    }
    assert!(flows.characters_per_second >= 4 * 195, "{flows:?}");
}

#[test]
fn a_large_first_datagram_does_not_keep_a_voice_out() {
    let mut load = Load::new(&AdapterConfig::default(), 4, None);
    for voice in 0..4 {
        load.pair.send(millis(1_100 + 200 * u64::from(voice)), 0, datagram(0, VOICES + voice, 1, 140));
    }
    load.run(millis(30_000));
    let flows = load.pair.counters(0).flows;
    assert_eq!((flows.active, flows.admitted, flows.refused), (4, 4, 0), "{flows:?}");
}

#[test]
fn a_voice_datagram_costs_its_payload_and_eight_characters() {
    let mut load = Load::new(&AdapterConfig::default(), 1, None);
    load.run(millis(30_000));
    let frames = load.pair.line(0).sent.iter().filter(|(at, _)| *at > millis(10_000)).map(|(_, frame)| frame.len());
    let mut sizes: Vec<usize> = frames.filter(|length| *length > 33).collect();
    sizes.sort_unstable();
    assert_eq!(sizes[sizes.len() / 2], 33 + 3 + 5, "{sizes:?}");
}

#[test]
fn several_voices_with_different_periods_and_data() {
    let mut load = Load::new(&AdapterConfig::default(), 2, Some(600));
    // A third with another period, so that its packets meet the others' in all ways.
    let period = Span::from_millis(180);
    let mut third = millis(2_500);
    while third < millis(60_000) {
        load.run(third);
        load.pair.send(third, 0, datagram(0, 7000, load.number, 24));
        load.number += 1;
        third += period;
    }
    let counters = load.pair.counters(0);
    assert_eq!((counters.flows.active, counters.flows.overdue), (3, 0));
    assert!(counters.flows.held > 20 * counters.flows.missed, "{:?}", counters.flows);
    // No datagram waits longer than for the two others' and a character.
    let own = Span::from_micros(1_042).times(41);
    assert!(counters.real_time_delay.quantile(0.99).unwrap() < own.times(3) + Span::from_millis(5));
    assert!(counters.efficiency() > 0.75, "{}", counters.efficiency());
}

#[test]
fn data_find_the_least_gaps_between_four_voices() {
    let mut load = Load::new(&AdapterConfig::default(), 4, None);
    load.run(millis(8_000));
    // Its Ethernet header is longer than any gap.
    load.data = Some(600);
    load.data_at = millis(8_000);
    load.run(millis(40_000));
    let counters = load.pair.counters(0);
    assert_eq!((counters.flows.active, counters.flows.overdue), (4, 0));
    // The first four packets of each voice, before it was found; 12 B of data every 202.5 ms after that.
    assert!(counters.classes[4].sent.packets >= 4 * 4 + 3, "{:?}", counters.classes[4]);
}
