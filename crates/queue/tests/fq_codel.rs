//! FQ-CoDel against RFC 8290.

mod common;

use common::{Fate, flow_of, packet, queue, run, stream};
use engine::{Packet, Random, Span, Time};
use queue::{Classifier, Codel, Discipline, FULL_PACKETS, FqCodel, QueueConfig};
use wire::Ecn;

const MILLISECOND: Span = Span::from_millis(1);

fn fq(packets: u32, quantum: u32) -> QueueConfig {
    // CoDel out of the way, but where a test wants it.
    let codel = Codel { target: Span::from_secs(60), interval: Span::from_secs(60), ecn: false };
    let discipline = Discipline::FqCodel(FqCodel { quantum, codel, ..FqCodel::default() });
    QueueConfig { packets: Some(packets), bytes: None, discipline }
}

fn sent(fates: &[Fate], flow: u16) -> impl Iterator<Item = &Fate> {
    fates.iter().filter(move |fate| fate.dropped.is_none() && flow_of(&fate.packet) == flow)
}

/// Streams in order of arrival.
fn merged(streams: impl IntoIterator<Item = Vec<Packet>>) -> Vec<Packet> {
    let mut packets: Vec<Packet> = streams.into_iter().flatten().collect();
    packets.sort_by_key(|packet| packet.arrived);
    packets
}

#[test]
fn a_sparse_flow_does_not_wait_behind_a_fat_one() {
    let fat = stream(1, Span::from_micros(250), Ecn::NotCapable).take(40_000).collect();
    let sparse = stream(2, Span::from_millis(20), Ecn::NotCapable).take(500).collect();
    let fates = run(&mut queue(&fq(1_000, 1_514), 1), merged([fat, sparse]), MILLISECOND, Span::from_secs(10));
    // RFC 8290 4.2: a new flow is served before the old ones; it waits for the packet in service.
    let waits: Vec<Span> = sent(&fates, 2).map(|fate| fate.waited).collect();
    assert_eq!(waits.len(), 500);
    assert!(waits.iter().all(|wait| *wait <= MILLISECOND.times(2)), "{:?}", waits.iter().max());
    // And no packet of it was dropped: the fat flow pays for the full queue.
    let dropped: Vec<&Fate> = fates.iter().filter(|fate| fate.dropped.is_some()).collect();
    assert!(dropped.iter().all(|fate| flow_of(&fate.packet) == 1 && fate.dropped == Some(FULL_PACKETS)));
    assert!(dropped.len() > 20_000);
}

#[test]
fn flows_share_by_bytes_whatever_their_packets() {
    // Both always have packets waiting; one sends 1,500 bytes at a time, the other 300.
    let mut queue = queue(&fq(10_000, 1_514), 1);
    let mut id = 0;
    let mut offer = |queue: &mut queue::Queue, flow, length| {
        queue.enqueue(Time::ZERO, packet(id, flow, length, Ecn::NotCapable), length as u32, |_, _| unreachable!());
        id += 1;
    };
    for _ in 0..500 {
        offer(&mut queue, 1, 1_500);
        (0..5).for_each(|_| offer(&mut queue, 2, 300));
    }
    let mut bytes = [0u64; 3];
    for turn in 0..1_000 {
        let (packet, cost) = queue.dequeue(Time::ZERO, |_, _| {}).expect("there are 3,000");
        bytes[flow_of(&packet) as usize] += u64::from(cost);
        // Deficit round robin: never apart by more than a quantum and a packet.
        assert!(bytes[1].abs_diff(bytes[2]) <= 1_514 + 1_500, "after {turn} packets: {bytes:?}");
    }
}

#[test]
fn order_within_a_flow_is_kept() {
    let streams = (1..20).map(|flow| stream(flow, Span::from_micros(u64::from(flow) * 700), Ecn::NotCapable).take(300));
    let packets = merged(streams.map(Iterator::collect));
    let fates = run(&mut queue(&fq(200, 300), 1), packets, Span::from_micros(300), Span::from_secs(5));
    for flow in 1..20 {
        let ids: Vec<u64> = sent(&fates, flow).map(|fate| fate.packet.id).collect();
        assert!(ids.is_sorted() && ids.len() > 20, "flow {flow}: {} sent", ids.len());
    }
}

#[test]
fn a_flow_that_comes_back_soon_is_not_new_again() {
    // RFC 8290 4.2: an emptied new flow goes to the end of the old ones first. One that sends a
    // packet whenever it has none waiting must not get more than its share.
    let mut queue = queue(&fq(10_000, 1_000), 1);
    for id in 0..1_000 {
        queue.enqueue(Time::ZERO, packet(id, 1, 1_000, Ecn::NotCapable), 1_000, |_, _| unreachable!());
    }
    let (mut eager, mut steady) = (0_i32, 0);
    queue.enqueue(Time::ZERO, packet(0, 2, 1_000, Ecn::NotCapable), 1_000, |_, _| unreachable!());
    for _ in 0..1_000 {
        let (sent, _) = queue.dequeue(Time::ZERO, |_, _| {}).expect("there are enough");
        if flow_of(&sent) == 2 {
            eager += 1;
            queue.enqueue(Time::ZERO, packet(0, 2, 1_000, Ecn::NotCapable), 1_000, |_, _| unreachable!());
        } else {
            steady += 1;
        }
    }
    assert!((eager - steady).abs() <= 2, "{eager} against {steady}");
}

#[test]
fn each_flow_has_a_codel_of_its_own() {
    let codel = Discipline::FqCodel(FqCodel { codel: Codel::default(), ..FqCodel::default() });
    let config = QueueConfig { packets: Some(10_000), bytes: None, discipline: codel };
    let fat = stream(1, Span::from_micros(500), Ecn::NotCapable).take(10_000).collect();
    let calm = stream(2, Span::from_millis(4), Ecn::NotCapable).take(1_250).collect();
    let mut queue = queue(&config, 1);
    let fates = run(&mut queue, merged([fat, calm]), MILLISECOND, Span::from_secs(5));
    let dropped: Vec<u16> = fates.iter().filter(|f| f.dropped.is_some()).map(|f| flow_of(&f.packet)).collect();
    assert!(dropped.len() > 50 && dropped.iter().all(|flow| *flow == 1), "{dropped:?}");
    assert_eq!(queue.counters().managed, dropped.len() as u64);
}

#[test]
fn with_one_bucket_for_all_it_is_codel() {
    let codel = Codel::default();
    let one = FqCodel { flows: 1, quantum: 1_514, codel: codel.clone() };
    let fates = |discipline| {
        let config = QueueConfig { packets: Some(10_000), bytes: None, discipline };
        let packets = (0..8).map(|flow| stream(flow, Span::from_millis(4), Ecn::NotCapable).take(750).collect());
        let fates = run(&mut queue(&config, 1), merged(packets), MILLISECOND, Span::from_secs(4));
        fates.into_iter().map(|fate| (fate.at, fate.packet.id, fate.dropped)).collect::<Vec<_>>()
    };
    assert_eq!(fates(Discipline::FqCodel(one)), fates(Discipline::Codel(codel)));
}

#[test]
fn a_classifier_is_seeded() {
    let hash = |seed| Classifier::new(&mut Random::stream(seed, "c")).flow(&packet(0, 1, 100, Ecn::NotCapable).bytes);
    assert_eq!(hash(1), hash(1));
    assert_ne!(hash(1), hash(2));
}
