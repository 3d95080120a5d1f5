//! The thesis's own examples: figures 4.1 and 4.2 replayed as figures 5.1 and 5.3 show.

use std::net::IpAddr;

use engine::Time;
use traffic::replay::{AddressRule, AddressTable, Direction, Instances, Over, ReplayConfig, Trace};
use wire::TcpFlags;

use crate::packets::{config, datagram, play, segment, start, trace_of};

/// Figure 4.1: ten datagrams of 134 bytes with their Ethernet header, microseconds since the one before.
fn figure_4_1() -> Trace {
    let gaps = [0, 1, 3, 1, 3, 1, 3, 1, 3, 1];
    let mut time = 0;
    let packets: Vec<_> = gaps
        .iter()
        .enumerate()
        .map(|(n, gap)| {
            time += gap * 1_000;
            let payload = [0; 134 - 14 - 28];
            let packet = match n % 2 {
                0 => datagram(("10.48.0.2", 55_001), ("60.0.0.1", 80), &payload),
                _ => datagram(("106.0.0.3", 80), ("10.48.0.2", 55_001), &payload),
            };
            (time, packet)
        })
        .collect();
    trace_of(&packets)
}

/// Figure 4.2: microseconds since the packet before, whether the host sent it, and its length with an Ethernet
/// header.
const FIGURE_4_2: [(u64, bool, usize); 20] = [
    (0, true, 74),
    (321_877, false, 66),
    (8_368, true, 56),
    (15, true, 134),
    (326_269, false, 54),
    (7_078, false, 140),
    (1_590, false, 1414),
    (6_786, true, 56),
    (2_563, true, 56),
    (316_771, false, 874),
    (28_587_107, true, 56),
    (141_542, true, 135),
    (315_115, false, 54),
    (6_169, false, 264),
    (5_298, true, 56),
    (91_501, true, 135),
    (356_405, false, 54),
    (4_934_943, true, 56),
    (322_772, false, 54),
    (5_157, true, 56),
];

fn figure_4_2() -> Trace {
    let mut time = 0;
    let packets = FIGURE_4_2.map(|(gap, is_host, length)| {
        time += gap * 1_000;
        let (host, server) = (("192.168.4.1", 62_497), ("119.235.235.110", 9_418));
        let (from, to) = if is_host { (host, server) } else { (server, host) };
        (time, segment(from, to, (1, 1, TcpFlags::ACK), &[], &vec![0; length - 14 - 40]))
    });
    trace_of(&packets)
}

/// Listing 3.
#[test]
fn the_table_is_listing_3() {
    let trace = figure_4_1();
    let table = AddressTable::new(&trace, &AddressRule::FirstSight);
    let address = |text: &str| text.parse::<IpAddr>().unwrap();
    let addresses: Vec<_> = table.addresses().collect();
    assert_eq!(
        addresses,
        [(address("10.48.0.2"), true, 0), (address("60.0.0.1"), false, 0), (address("106.0.0.3"), false, 1)]
    );
    assert_eq!((table.ues(), table.pdns(false), table.pdns(true), table.unrouted()), (1, 2, 0, 0));
}

/// Figure 5.1, without the delays of the program: repeated once, 20 packets that alternate.
#[test]
fn figure_5_1() {
    let trace = figure_4_1();
    let mut out = [0; 200];
    let replay = start(trace.clone(), &ReplayConfig { repetitions: 2, ..config() }).unwrap();
    let items = play(replay);
    assert_eq!(items.len(), 20);
    for (n, item) in items.iter().enumerate() {
        let length = trace.write(item.index as usize, [16, 0, 0, 1].into(), item.pdn, None, &mut out);
        // Written from the UE whatever the direction: here only who is who matters.
        assert_eq!(length, Ok(120));
        let (direction, pdn) = if n % 2 == 0 { (Direction::Uplink, 0) } else { (Direction::Downlink, 1) };
        assert_eq!((item.direction, item.pdn, item.ue), (direction, [192, 0, 0, pdn].into(), 0));
        assert_eq!((item.index, item.repetition, item.instance), (n as u32 % 10, n as u32 / 10, 0));
    }
    // Section 3.4: the difference of the last and the first time is added.
    assert_eq!(items[10].due, items[9].due);
    assert_eq!(items[19].due, Time::from_nanos(5_000 + 2 * 17_000));
}

/// Figure 5.3: scaled by two, 40 packets in pairs, the second to the next address.
#[test]
fn figure_5_3() {
    let trace = figure_4_2();
    let instances = Instances { over: Over::Pdn, count: 2 };
    let items = play(start(trace.clone(), &ReplayConfig { instances, ..config() }).unwrap());
    assert_eq!(items.len(), 40);
    let mut time = 5_000;
    for (pair, (gap, is_host, length)) in items.chunks(2).zip(FIGURE_4_2) {
        time += gap * 1_000;
        for (instance, item) in (0..).zip(pair) {
            assert_eq!(item.due, Time::from_nanos(time));
            assert_eq!(item.direction == Direction::Uplink, is_host);
            assert_eq!(item.pdn, IpAddr::from([192, 0, 0, instance]));
            assert_eq!(trace.packet(item.index as usize).length as usize + 14, length);
        }
    }
}
