//! Replay in which a segment waits for the one it answers, over a path of a given delay.

use std::collections::BTreeSet;

use engine::{Span, Time};
use traffic::replay::{Direction, Instances, Item, Over, Replay, ReplayConfig, Spacing, Trace, Waits};
use wire::TcpFlags;

use crate::packets::{config, datagram, segment, start, trace_of};

const UE: (&str, u16) = ("10.0.0.1", 40_000);
const SERVER: (&str, u16) = ("203.0.113.1", 80);
const MS: u64 = 1_000_000;

fn up(numbers: (u32, u32, TcpFlags), payload: usize) -> Vec<u8> {
    segment(UE, SERVER, numbers, &[], &vec![0; payload])
}

fn down(numbers: (u32, u32, TcpFlags), payload: usize) -> Vec<u8> {
    segment(SERVER, UE, numbers, &[], &vec![0; payload])
}

/// A request and its answer, captured next to the UE with a round trip of 40 ms; the server thinks 5 ms about the
/// request, the UE 100 ms about what it got.
fn exchange() -> Trace {
    let ack = TcpFlags::ACK;
    trace_of(&[
        (0, up((100, 0, TcpFlags::SYN), 0)),
        (40 * MS, down((500, 101, TcpFlags::SYN | ack), 0)),
        (40 * MS, up((101, 501, ack), 0)),
        (41 * MS, up((101, 501, ack), 50)),
        (86 * MS, down((501, 151, ack), 1000)),
        (87 * MS, down((1501, 151, ack), 1000)),
        (87 * MS, up((151, 2501, ack), 0)),
        (187 * MS, up((151, 2501, TcpFlags::FIN | ack), 0)),
        (227 * MS, down((2501, 152, TcpFlags::FIN | ack), 0)),
        (227 * MS, up((152, 2502, ack), 0)),
    ])
}

/// Sends what is due over a path of `delay` either way that loses the sent packets numbered `lost`.
fn drive(replay: &mut Replay, delay: u64, lost: &[usize]) -> Vec<(u64, Item)> {
    let mut sent = Vec::new();
    let mut on_the_way = BTreeSet::new();
    let mut now;
    loop {
        let arrival = on_the_way.first().map(|&(at, ..): &(u64, usize, u32, u32)| at);
        let due = replay.next_due().map(Time::as_nanos);
        now = match (arrival, due) {
            (Some(arrival), Some(due)) => arrival.min(due),
            (Some(at), None) | (None, Some(at)) => at,
            (None, None) => return sent,
        };
        while let Some(&first) = on_the_way.first().filter(|(at, ..)| *at <= now) {
            on_the_way.remove(&first);
            replay.received(Time::from_nanos(now), first.2, first.3);
        }
        while let Some(item) = replay.next(Time::from_nanos(now)) {
            if !lost.contains(&sent.len()) {
                on_the_way.insert((now + delay, sent.len(), item.instance, item.index));
            }
            sent.push((now - 5_000, item));
        }
    }
}

fn stateful(trace: Trace, change: impl Fn(&mut ReplayConfig)) -> Replay {
    let mut config = ReplayConfig { stateful: Some(Span::from_secs(1)), ..config() };
    change(&mut config);
    start(trace, &config).unwrap()
}

fn times(sent: &[(u64, Item)]) -> Vec<(u32, u64)> {
    sent.iter().map(|(at, item)| (item.index, *at)).collect()
}

/// The path's round trip takes the place of the captured one; think times stay.
#[test]
fn timing_adapts_to_the_round_trip() {
    for delay in [MS / 10, 20 * MS, 150 * MS] {
        let mut replay = stateful(exchange(), |_| {});
        let sent = times(&drive(&mut replay, delay, &[]));
        // Each leaves when what it answers has arrived, and after as long as its sender thought about it.
        let (request, rtt) = (2 * delay + MS, 2 * delay);
        let answer = request + delay + 5 * MS;
        let fin = answer + MS + delay + 100 * MS;
        assert_eq!(
            sent,
            [
                (0, 0),
                (1, delay),
                (2, rtt),
                (3, request),
                (4, answer),
                (5, answer + MS),
                (6, answer + MS + delay),
                (7, fin),
                (8, fin + delay),
                (9, fin + rtt),
            ]
        );
        assert_eq!(replay.waits().timed_out, 0);
    }
}

/// A packet that does not arrive is waited for, and then given up.
#[test]
fn loss_ends_in_a_timeout() {
    let mut replay = stateful(exchange(), |_| {});
    let sent = times(&drive(&mut replay, MS, &[0]));
    assert_eq!(sent[..2], [(0, 0), (1, 1_000 * MS)]);
    assert_eq!((sent.len(), replay.waits().timed_out), (10, 1));
    // Nothing arrives at all: everything is sent all the same.
    let all: Vec<_> = (0..10).collect();
    let mut replay = stateful(exchange(), |_| {});
    assert_eq!(drive(&mut replay, MS, &all).len(), 10);
    assert!(replay.waits().timed_out >= 4, "{:?}", replay.waits());
}

/// A later packet that arrives stands for those before it.
#[test]
fn what_comes_later_stands_for_what_was_lost() {
    let mut replay = stateful(exchange(), |_| {});
    // Packet 2, an acknowledgement, is lost; the request after it arrives.
    assert_eq!(drive(&mut replay, MS, &[2]).len(), 10);
    assert_eq!(replay.waits().timed_out, 0);
}

/// More than the window is not sent before it opens.
#[test]
fn windows_hold_data_back() {
    let ack = TcpFlags::ACK;
    let mut packets = vec![
        (0, up((100, 0, TcpFlags::SYN), 0)),
        (10 * MS, down((500, 101, TcpFlags::SYN | ack), 0)),
        (10 * MS, up((101, 501, ack), 0)),
    ];
    // 100 segments of 1,000 bytes, of which the window of 65,535 takes 65; the UE acknowledges them all at once.
    for n in 0..100 {
        let at = 20 + u64::from(n) + if n < 65 { 0 } else { 10 };
        packets.push((at * MS, down((501 + 1_000 * n, 101, ack), 1_000)));
        if n == 64 {
            packets.push((85 * MS, up((101, 65_501, ack), 0)));
        }
    }
    let mut replay = stateful(trace_of(&packets), |_| {});
    let sent = drive(&mut replay, 300 * MS, &[]);
    let ack_at = sent.iter().find(|(_, item)| item.index == 68).unwrap().0;
    let held = sent.iter().find(|(_, item)| item.index == 69).unwrap().0;
    assert_eq!(held, ack_at + 300 * MS);
    assert_eq!(replay.waits(), Waits { waited: 5, timed_out: 0 });
}

/// What is not TCP leaves at its time, and so does a connection's first packet.
#[test]
fn datagrams_wait_for_nothing() {
    let mut packets: Vec<_> =
        (0..20).map(|n| (n * 10 * MS, datagram(("10.0.0.1", 9), ("203.0.113.9", 9), &[0; 30]))).collect();
    packets.push((205 * MS, up((100, 0, TcpFlags::SYN), 0)));
    let mut replay = stateful(trace_of(&packets), |_| {});
    let sent = times(&drive(&mut replay, 400 * MS, &[]));
    assert_eq!(sent, (0..).zip(packets.iter().map(|(at, _)| *at)).collect::<Vec<_>>());
}

/// Instances do not wait for each other, and a repetition begins once the one before is over.
#[test]
fn instances_and_repetitions() {
    let mut replay = stateful(exchange(), |config| {
        config.instances = Instances { over: Over::Pdn, count: 3 };
        config.repetitions = 2;
        config.spacing = Spacing::JITTER;
    });
    let sent = drive(&mut replay, 150 * MS, &[]);
    assert_eq!(sent.len(), 60);
    for instance in 0..3 {
        let own: Vec<_> = sent.iter().filter(|(_, item)| item.instance == instance).collect();
        let order: Vec<_> = own.iter().map(|(_, item)| (item.repetition, item.index)).collect();
        assert_eq!(order, (0..2).flat_map(|r| (0..10).map(move |n| (r, n))).collect::<Vec<_>>());
        assert_eq!(own[10].0, own[9].0);
    }
    assert_eq!(replay.waits().timed_out, 0);
}

/// Segments without room for a stamp are known by their numbers.
#[test]
fn segments_are_recognised() {
    for over in [Over::Pdn, Over::Ue] {
        let mut replay = stateful(exchange(), |config| {
            config.instances = Instances { over, count: 2 };
            config.network.ues = 2;
        });
        let mut out = [0; 1_500];
        let mut known = 0;
        let mut now = Time::ZERO;
        while let Some(due) = replay.next_due() {
            now = due.max(now);
            while let Some(item) = replay.next(now) {
                let ue = [16, 0, 0, 1 + item.ue as u8].into();
                let is_up = item.direction == Direction::Uplink;
                let (source, destination) = if is_up { (ue, item.pdn) } else { (item.pdn, ue) };
                let len = replay.trace().write(item.index as usize, source, destination, None, &mut out).unwrap();
                let found = replay.recognise(item.direction, item.ue, &out[..len]);
                assert_eq!(found, Some((item.instance, item.index)));
                replay.received(now, item.instance, item.index);
                // It is not on its way any more.
                assert_eq!(replay.recognise(item.direction, item.ue, &out[..len]), None);
                known += 1;
            }
        }
        assert_eq!((known, replay.waits().timed_out), (20, 0));
    }
}

#[test]
fn gaps_cannot_be_shuffled() {
    let config = ReplayConfig { stateful: Some(Span::from_secs(1)), spacing: Spacing::SHUFFLE, ..config() };
    let error = start(exchange(), &config).map(drop).unwrap_err();
    assert!(error.to_string().contains("use `spacing: jitter`"));
}
