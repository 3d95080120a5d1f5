//! Character lines: pace, buffers, receivers, errors, fades, cuts, changes.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic too")]

use std::num::NonZeroU32;

use engine::{DropReason, Element, Output, Packet, Size, Span, Time};
use link::characters::{
    BitErrors, Bursts, CUT, FADED, FLUSHED, FULL, FadeEffect, FadeTimes, Fades, Interval, Pace, ReceiveFifo, Uart,
};
use link::{CharacterLine, LineChange, LineConfig};

/// 9600 baud 8N1: a character takes 1,041,666 ns and two thirds.
fn uart() -> Uart {
    Uart::new(NonZeroU32::new(9_600).unwrap())
}

fn line(config: &LineConfig) -> CharacterLine {
    CharacterLine::new(config, 7, "line").unwrap()
}

/// A line that hands runs on whole.
fn whole() -> LineConfig {
    LineConfig { granularity: Span::MAX, buffer: Size::from_bytes(1 << 20), ..LineConfig::default() }
}

fn characters(number: u64) -> Time {
    Time::from_nanos(number * 10 * 1_000_000_000 / 9_600)
}

fn run(bytes: &[u8]) -> Packet {
    Packet::new(bytes.to_vec())
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 + at / 256) as u8).collect()
}

#[derive(Debug, PartialEq, Eq)]
enum Fate {
    Arrived(Time, Vec<u8>),
    Dropped(DropReason),
    Consumed,
}

fn poll(line: &mut CharacterLine, now: Time, fates: &mut Vec<Fate>) {
    while let Some(output) = line.poll() {
        fates.push(match output {
            Output::Transmit { port: 0, packet } => {
                assert!(packet.launch <= now, "handed on before its time");
                Fate::Arrived(packet.launch, packet.bytes)
            }
            Output::Drop { reason, .. } => Fate::Dropped(reason),
            Output::Consume { .. } => Fate::Consumed,
            other => panic!("{other:?}"),
        });
    }
}

fn advance(line: &mut CharacterLine, until: Time, fates: &mut Vec<Fate>) {
    while let Some(deadline) = line.deadline().filter(|deadline| *deadline <= until) {
        line.tick(deadline);
        poll(line, deadline, fates);
        assert!(line.deadline().is_none_or(|next| next > deadline), "a deadline came twice");
    }
}

/// Hands in runs at their times and waits until all is through.
fn drive(line: &mut CharacterLine, runs: impl IntoIterator<Item = (Time, Vec<u8>)>) -> Vec<Fate> {
    let mut fates = Vec::new();
    for (at, bytes) in runs {
        advance(line, at - Span::from_nanos(1), &mut fates);
        line.handle(at, 0, Packet::new(bytes));
        poll(line, at, &mut fates);
    }
    advance(line, Time::MAX, &mut fates);
    let counters = line.counters();
    assert_eq!(counters.offered, counters.sent + counters.full + counters.flushed + counters.waiting);
    fates
}

fn arrived(fates: &[Fate]) -> Vec<u8> {
    let runs = fates.iter().filter_map(|fate| if let Fate::Arrived(_, bytes) = fate { Some(bytes) } else { None });
    runs.flatten().copied().collect()
}

#[test]
fn nine_hundred_sixty_characters_a_second_and_not_one_more() {
    let mut line = line(&LineConfig { buffer: Size::from_bytes(1 << 20), ..LineConfig::default() });
    let sent = pattern(60 * 960);
    let fates = drive(&mut line, [(Time::ZERO, sent.clone())]);
    assert_eq!(arrived(&fates), sent);
    // A character a piece, each at its time.
    assert_eq!(fates.len(), sent.len());
    for (fate, number) in fates.iter().zip(1..) {
        assert!(matches!(fate, Fate::Arrived(at, _) if *at == characters(number)), "{number}: {fate:?}");
    }
    assert_eq!(line.counters().busy, Span::from_secs(60));
}

#[test]
fn the_end_of_a_run_is_never_late() {
    let mut line = line(&LineConfig { delay: Span::from_millis(20), ..whole() });
    let runs = [(Time::ZERO, pattern(100)), (Time::ZERO, pattern(7)), (characters(50), pattern(1))];
    let fates = drive(&mut line, runs);
    let at = |number| characters(number) + Span::from_millis(20);
    assert_eq!(
        fates,
        [Fate::Arrived(at(100), pattern(100)), Fate::Arrived(at(107), pattern(7)), Fate::Arrived(at(108), pattern(1))]
    );
}

#[test]
fn a_fast_line_costs_no_event_for_each_character() {
    let fast = Uart::new(NonZeroU32::new(1_000_000).unwrap());
    let config = LineConfig { pace: Pace::Asynchronous(fast), granularity: Span::from_millis(1), ..whole() };
    let fates = drive(&mut line(&config), [(Time::ZERO, pattern(100_000))]);
    assert_eq!(arrived(&fates), pattern(100_000));
    assert_eq!(fates.len(), 1_000);
}

#[test]
fn a_synchronous_line_has_eight_bits_a_character() {
    let config = LineConfig { pace: Pace::Synchronous("9600bit/s".parse().unwrap()), ..whole() };
    let fates = drive(&mut line(&config), [(Time::ZERO, pattern(1_200))]);
    assert_eq!(fates, [Fate::Arrived(Time::from_nanos(1_000_000_000), pattern(1_200))]);
}

#[test]
fn a_run_without_room_is_dropped_whole() {
    let config = LineConfig { buffer: Size::from_bytes(100), ..whole() };
    let mut line = line(&config);
    // 116 with the FIFO; one has left by the second try.
    let runs = [(Time::ZERO, 116), (Time::ZERO, 1), (characters(1), 1), (characters(1), 1)];
    let fates = drive(&mut line, runs.map(|(at, length)| (at, pattern(length))));
    let full = fates.iter().filter(|fate| **fate == Fate::Dropped(FULL)).count();
    assert_eq!((full, line.counters().full, line.counters().sent), (2, 2, 117));
    assert_eq!(line.counters().waiting_most, 116);
}

#[test]
fn a_receive_fifo_hands_over_by_level_and_by_time() {
    let receive = Some(ReceiveFifo { trigger: 8, timeout: 4 });
    let config = LineConfig { pace: Pace::Asynchronous(Uart { receive, ..uart() }), ..whole() };
    let mut line = line(&config);
    let fates = drive(&mut line, [(Time::ZERO, pattern(20)), (characters(30), vec![1]), (characters(33), vec![2])]);
    let timeout = characters(4).since(Time::ZERO);
    let all = pattern(20);
    let expected = [
        Fate::Arrived(characters(8), all[..8].to_vec()),
        Fate::Arrived(characters(16), all[8..16].to_vec()),
        Fate::Arrived(characters(20) + timeout, all[16..].to_vec()),
        // The second came before the time was up, and is carried by the first one's packet.
        Fate::Consumed,
        Fate::Arrived(characters(34) + timeout, vec![1, 2]),
    ];
    assert_eq!(fates, expected);
}

#[test]
fn bits_are_wrong_as_often_as_was_said() {
    for pace in [Pace::Asynchronous(uart()), Pace::Synchronous("9600bit/s".parse().unwrap())] {
        for errors in [
            BitErrors::Independent(1e-3),
            BitErrors::Bursts(Bursts { begin: 1e-3, end: 0.05, inside: 0.2, outside: 1e-5 }),
        ] {
            let mut line = line(&LineConfig { pace, errors, ..whole() });
            drive(&mut line, (0..200u64).map(|n| (Time::from_nanos(n * 2_000_000_000), pattern(1_000))));
            let counters = line.counters();
            let bits = counters.sent * u64::from(pace.bits_per_character());
            let share = counters.bits_hit as f64 / bits as f64;
            // Some 2,000 to 8,000 hits; in bursts they are not independent.
            assert!((share / errors.mean() - 1.0).abs() < 0.15, "{pace:?} {errors:?}: {share} of {}", errors.mean());
        }
    }
}

#[test]
fn a_wrong_bit_on_a_synchronous_line_garbles_and_nothing_else() {
    let pace = Pace::Synchronous("9600bit/s".parse().unwrap());
    let mut line = line(&LineConfig { pace, errors: BitErrors::Independent(0.01), ..whole() });
    let fates = drive(&mut line, [(Time::ZERO, pattern(10_000))]);
    let received = arrived(&fates);
    assert_eq!(received.len(), 10_000);
    let wrong: u32 = received.iter().zip(pattern(10_000)).map(|(a, b)| (a ^ b).count_ones()).sum();
    assert_eq!(u64::from(wrong), line.counters().bits_hit);
}

#[test]
fn an_asynchronous_line_that_errs_loses_and_garbles_and_gets_into_step_again() {
    let mut line = line(&LineConfig { errors: BitErrors::Independent(1e-3), ..whole() });
    let bytes = pattern(100);
    let fates = drive(&mut line, (0..500u64).map(|n| (Time::from_nanos(n * 1_000_000_000), bytes.clone())));
    let counters = line.counters();
    assert!(counters.framing > 50, "{counters:?}");
    // After a pause the receiver is in step: of a hundred characters with a thousand bits more than
    // a third of the runs are free of errors and arrive as they were.
    let whole = fates.iter().filter(|fate| matches!(fate, Fate::Arrived(_, run) if *run == bytes)).count();
    assert!((150..230).contains(&whole), "{whole}");
    assert_eq!(fates.len(), 500);
}

#[test]
fn fades_take_what_is_sent_in_them() {
    let listed = FadeTimes::Listed(vec![Interval { from: Span::from_millis(100), length: Span::from_millis(50) }]);
    let config = LineConfig { fades: Some(Fades { when: listed, effect: FadeEffect::Lost }), ..whole() };
    let mut quiet = line(&config);
    let fates = drive(&mut quiet, [(Time::ZERO, pattern(960))]);
    // Characters 96 (which began before it) to 143 (which ended in it; the 144th ends with it).
    let all = pattern(960);
    assert_eq!(arrived(&fates), [&all[..96], &all[144..]].concat());
    assert_eq!(quiet.counters().lost_in_fades, 48);
    let mut faded = line(&config);
    assert_eq!(drive(&mut faded, [(characters(100), pattern(20))]), [Fate::Dropped(FADED)]);

    let drawn = FadeTimes::Drawn { interval: Span::from_secs(3), length: Span::from_secs(1) };
    let config = LineConfig { fades: Some(Fades { when: drawn, effect: FadeEffect::Errors(0.5) }), ..whole() };
    let mut noisy = line(&config);
    drive(&mut noisy, (0..2_000u64).map(|n| (Time::from_nanos(n * 1_000_000_000), pattern(900))));
    let counters = noisy.counters();
    let share = counters.faded as f64 / counters.sent as f64;
    assert!((share - 0.25).abs() < 0.03, "{share}");
    // Of the 10 bits of a character in noise hardly ever none is wrong.
    assert!(counters.errored as f64 > counters.faded as f64 * 0.99);
}

#[test]
fn a_cut_line_carries_nothing_and_carries_on() {
    let cuts = vec![Interval { from: Span::from_secs(1), length: Span::from_secs(1) }];
    let mut line = line(&LineConfig { cuts, ..whole() });
    let at = |millis: u64| Time::from_nanos(millis * 1_000_000);
    let fates = drive(&mut line, [500, 1_500, 2_500].map(|millis| (at(millis), vec![1, 2, 3])));
    assert!(matches!(&fates[..], [Fate::Arrived(..), Fate::Dropped(reason), Fate::Arrived(..)] if *reason == CUT));

    let mut fates = Vec::new();
    for (cut, second) in [(true, 10), (false, 11)] {
        line.set(at(second * 1_000), &LineChange::Cut(cut)).unwrap();
        line.handle(at(second * 1_000), 0, run(&[9]));
        advance(&mut line, at(second * 1_000 + 999), &mut fates);
    }
    assert!(matches!(&fates[..], [Fate::Dropped(reason), Fate::Arrived(..)] if *reason == CUT));
}

#[test]
fn a_new_pace_counts_from_the_next_character_on() {
    let mut line = line(&whole());
    let mut fates = Vec::new();
    line.handle(Time::ZERO, 0, run(&pattern(10)));
    // In the middle of the fourth.
    let now = characters(3) + Span::from_micros(500);
    let twice = Uart::new(NonZeroU32::new(19_200).unwrap());
    advance(&mut line, now, &mut fates);
    line.set(now, &LineChange::Pace(Pace::Asynchronous(twice))).unwrap();
    poll(&mut line, now, &mut fates);
    advance(&mut line, Time::MAX, &mut fates);
    assert_eq!(arrived(&fates), pattern(10));
    let ends = characters(4) + Span::from_nanos(6 * 10 * 1_000_000_000 / 19_200);
    assert!(matches!(fates.last(), Some(Fate::Arrived(at, _)) if *at == ends), "{fates:?} {ends}");
}

#[test]
fn what_is_in_the_fifo_cannot_be_recalled() {
    let mut line = line(&whole());
    let mut fates = Vec::new();
    line.handle(Time::ZERO, 0, run(&pattern(10)));
    line.handle(Time::ZERO, 0, run(&pattern(10)));
    line.handle(Time::ZERO, 0, run(&pattern(10)));
    line.set(characters(2), &LineChange::Flush).unwrap();
    poll(&mut line, characters(2), &mut fates);
    advance(&mut line, Time::MAX, &mut fates);
    // Two are sent, one is being sent, sixteen are in the FIFO.
    assert_eq!(arrived(&fates).len(), 2 + 1 + 16);
    assert_eq!(line.counters().flushed, 11);
    assert!(fates.contains(&Fate::Dropped(FLUSHED)));
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let errors = BitErrors::Bursts(Bursts { begin: 1e-3, end: 0.05, inside: 0.3, outside: 1e-4 });
    let once = |label| {
        let mut line = CharacterLine::new(&LineConfig { errors, ..whole() }, 3, label).unwrap();
        drive(&mut line, (0..50u64).map(|n| (Time::from_nanos(n * 700_000_000), pattern(300))))
    };
    assert_eq!(once("up"), once("up"));
    assert_ne!(once("up"), once("down"));
}

#[test]
fn lines_that_cannot_be_are_refused() {
    let refused = |config: LineConfig| CharacterLine::new(&config, 1, "x").unwrap_err().to_string();
    let config = LineConfig { errors: BitErrors::Independent(1.5), ..LineConfig::default() };
    assert_eq!(refused(config), "`errors` is 1.5; it must be 0 to 1");
    let interval = |from| Interval { from: Span::from_secs(from), length: Span::from_secs(2) };
    let config = LineConfig { cuts: vec![interval(1), interval(2)], ..LineConfig::default() };
    assert_eq!(refused(config), "`cuts` is 1s for 2s before 2s; it must be in order, without overlap");
    let receive = Some(ReceiveFifo { trigger: 0, timeout: 4 });
    let config = LineConfig { pace: Pace::Asynchronous(Uart { receive, ..uart() }), ..LineConfig::default() };
    assert_eq!(refused(config), "`pace.receive.trigger` is 0; it must be 1 to 65536");
    assert!("9N1".parse::<link::characters::Framing>().is_err());
}
