//! CoDel against RFC 8289.

mod common;

use common::{Fate, is_marked, queue, run, stream};
use engine::{Span, Time};
use queue::{CODEL, Codel, Discipline, QueueConfig};
use wire::Ecn;

const MILLISECOND: Span = Span::from_millis(1);

fn codel(ecn: bool) -> QueueConfig {
    QueueConfig {
        packets: Some(100_000),
        bytes: None,
        discipline: Discipline::Codel(Codel { ecn, ..Codel::default() }),
    }
}

fn drops(fates: &[Fate]) -> Vec<Time> {
    let managed = fates.iter().filter(|fate| fate.dropped.is_some());
    managed.inspect(|fate| assert_eq!(fate.dropped, Some(CODEL))).map(|fate| fate.at).collect()
}

#[test]
fn a_queue_below_the_target_loses_nothing() {
    // As fast in as out, with four packets standing: 4 ms of delay.
    let burst = stream(1, Span::ZERO, Ecn::NotCapable).take(4);
    let steady = stream(1, MILLISECOND, Ecn::NotCapable);
    let mut queue = queue(&codel(false), 1);
    let fates = run(&mut queue, burst.chain(steady), MILLISECOND, Span::from_secs(10));
    assert_eq!(drops(&fates), []);
    assert_eq!(fates.last().map(|fate| fate.waited), Some(MILLISECOND.times(4)));
}

#[test]
fn a_short_burst_passes_and_one_longer_than_the_interval_does_not() {
    // 100 packets at once need 100 ms: the delay is over the target for less than the interval.
    let fates = |burst| {
        let packets = stream(1, Span::ZERO, Ecn::NotCapable).take(burst);
        run(&mut queue(&codel(false), 1), packets, MILLISECOND, Span::from_secs(1))
    };
    assert_eq!(drops(&fates(100)).len(), 0);
    assert!(!drops(&fates(120)).is_empty());
}

#[test]
fn drops_are_spaced_by_the_control_law() {
    // Twice as much comes as goes.
    let packets = stream(1, Span::from_micros(500), Ecn::NotCapable);
    let fates = run(&mut queue(&codel(false), 1), packets, MILLISECOND, Span::from_secs(3));
    let drops = drops(&fates);
    // The sojourn time is over 5 ms first at some 10 ms; 100 ms later the first packet goes.
    assert_eq!(drops[0].since(Time::ZERO).as_nanos() / 1_000_000, 110);
    // RFC 8289 5.4: the n-th gap is interval / sqrt(n). Departures come each millisecond, and a gap
    // is measured from the time the drop was due: errors do not add up.
    let mut due = drops[0];
    for (n, pair) in drops.windows(2).enumerate().take(100) {
        due += Span::from_nanos((100e6 / ((n + 1) as f64).sqrt()) as u64);
        let late = pair[1].since(due);
        assert!(pair[1] >= due && late < MILLISECOND, "drop {} was due {due} and came {}", n + 2, pair[1]);
    }
}

#[test]
fn a_drop_rate_is_taken_up_again_soon_after() {
    // Overload for 2 s, a pause that empties the queue, and overload again.
    let overload = |from: Span| {
        stream(1, Span::from_micros(500), Ecn::NotCapable)
            .take(4_000)
            .map(move |packet| engine::Packet { arrived: packet.arrived + from, ..packet })
    };
    let first_gap = |pause: Span| {
        let packets = overload(Span::ZERO).chain(overload(Span::from_secs(4) + pause));
        let fates = run(&mut queue(&codel(false), 1), packets, MILLISECOND, Span::from_secs(12));
        let again = Time::ZERO + Span::from_secs(4) + pause;
        let drops: Vec<Time> = drops(&fates).into_iter().filter(|at| *at > again).collect();
        drops[1].since(drops[0])
    };
    // RFC 8289 5.6: within 16 intervals of the last drop the count starts where it was of use.
    assert!(first_gap(Span::ZERO) < MILLISECOND.times(30));
    assert!(first_gap(Span::from_secs(4)) > MILLISECOND.times(99));
}

#[test]
fn the_standing_queue_of_a_source_that_backs_off_comes_down_to_the_target() {
    // A source that sends 5 % too much and skips 20 packets after each drop, as congestion control
    // would: the queue must not stand above the target for long.
    let mut queue = queue(&codel(false), 1);
    let (mut now, mut skip, mut credit, mut id) = (Time::ZERO, 0, 0, 0);
    let mut waits = Vec::new();
    for _ in 0..20_000 {
        credit += 105;
        while credit >= 100 {
            credit -= 100;
            if skip > 0 {
                skip -= 1;
                continue;
            }
            let packet = engine::Packet { arrived: now, ..common::packet(id, 1, 1_000, Ecn::NotCapable) };
            queue.enqueue(now, packet, 1_000, |_, _| {});
            id += 1;
        }
        if let Some((packet, _)) = queue.dequeue(now, |_, _| skip = 20) {
            waits.push(now.since(packet.arrived));
        }
        now += MILLISECOND;
    }
    waits.sort_unstable();
    assert!(waits[waits.len() / 2] < MILLISECOND.times(15), "{:?}", waits[waits.len() / 2]);
}

#[test]
fn capable_packets_are_marked_where_others_are_dropped() {
    let run = |ecn| {
        let packets = stream(1, Span::from_micros(500), ecn);
        let mut queue = queue(&codel(true), 1);
        let fates = run(&mut queue, packets, MILLISECOND, Span::from_secs(3));
        (drops(&fates), fates.iter().filter(|fate| is_marked(&fate.packet)).map(|fate| fate.at).collect::<Vec<_>>())
    };
    let (dropped, unmarked) = run(Ecn::NotCapable);
    let (undropped, marked) = run(Ecn::Capable0);
    assert_eq!((undropped, unmarked), (vec![], vec![]));
    assert!(dropped.len() > 30);
    // The same packets at the same times, as long as the queue is much the same.
    assert_eq!(dropped[..10], marked[..10]);
}
