//! Branches: who takes which packets.

mod common;

use common::{Z_99, at, branch, drive, every, network, packet_of};
use engine::{Packet, Span};
use link::{Direction, DirectionConfig, LossModel, PipeConfig, Selector};

#[test]
fn branches_take_what_their_selectors_say() {
    let any = queue::Selector::default();
    let branches = vec![
        branch("net", queue::Selector { source: network("10.9.0.0", 16), ..any.clone() }.into(), 1),
        branch("voice", queue::Selector { dscp: Some(46), protocol: Some(17), ..any.clone() }.into(), 2),
        branch(
            "web",
            queue::Selector { port: Some(80), destination: network("10.0.0.2", 32), ..any.clone() }.into(),
            3,
        ),
        branch("v6", queue::Selector { source: network("fd00::", 8), ..any.clone() }.into(), 4),
        branch("not tcp here", queue::Selector { protocol: Some(6), ..any }.into(), 5),
    ];
    let config = DirectionConfig { branches, pipe: PipeConfig::default() };
    let mut direction = Direction::new(&config, 1, "x").unwrap();
    let packets = [
        packet_of(0, 60, [10, 9, 3, 4], 80, 46),
        packet_of(1, 60, [10, 8, 3, 4], 80, 46),
        packet_of(2, 60, [10, 8, 3, 4], 80, 0),
        packet_of(3, 60, [10, 8, 3, 4], 81, 0),
        Packet { id: 4, ..Packet::new(vec![0; 60]) },
    ];
    let mut fates = drive(&mut direction, packets.map(|packet| (at(0), packet)));
    fates.sort_by_key(|fate| fate.packet.id);
    assert_eq!(fates.iter().map(|fate| fate.at.as_nanos() / 1_000_000).collect::<Vec<_>>(), [1, 2, 3, 0, 0]);
    let counts: Vec<(String, u64)> =
        direction.counters().map(|(name, counters)| (name.to_string(), counters.delivered.packets)).collect();
    let expected = [("main", 2), ("net", 1), ("voice", 1), ("web", 1), ("v6", 0), ("not tcp here", 0)];
    assert_eq!(counts, expected.map(|(name, count)| (name.to_string(), count)));
}

#[test]
fn networks_contain_their_prefix() {
    let contains = |net: &str, prefix, address: &str| network(net, prefix).unwrap().contains(address.parse().unwrap());
    assert!(contains("10.1.2.3", 0, "255.255.255.255"));
    assert!(contains("10.1.2.3", 9, "10.127.0.0") && !contains("10.1.2.3", 9, "10.128.0.0"));
    assert!(contains("10.1.2.3", 32, "10.1.2.3") && !contains("10.1.2.3", 32, "10.1.2.2"));
    assert!(contains("2001:db8::", 33, "2001:db8:7fff::") && !contains("2001:db8::", 33, "2001:db8:8000::"));
    assert!(contains("::", 128, "::") && !contains("::", 0, "1.2.3.4"));
}

#[test]
fn a_branch_by_chance_takes_its_share_and_leaves_the_others_luck_alone() {
    let lossy = PipeConfig { loss: LossModel::Bernoulli(0.1), ..PipeConfig::default() };
    let fates = |branches| {
        let config = DirectionConfig { branches, pipe: lossy.clone() };
        let mut direction = Direction::new(&config, 1, "x").unwrap();
        let fates = drive(&mut direction, every(Span::from_micros(1), 60, 20_000));
        let taken = direction.counters().nth(1).map_or(0, |(_, counters)| counters.offered.packets);
        (fates, taken)
    };
    let (_, taken) = fates(vec![branch("half", Selector { probability: Some(0.3), ..Selector::default() }, 0)]);
    assert!((taken as f64 - 6_000.0).abs() < Z_99 * (20_000.0f64 * 0.3 * 0.7).sqrt(), "{taken}");
    // A branch that takes nothing changes nothing.
    let (with, _) = fates(vec![branch("none", Selector { probability: Some(0.0), ..Selector::default() }, 0)]);
    assert_eq!(with, fates(vec![]).0);
}
