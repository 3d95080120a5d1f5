//! Order, count, times and addresses of a replay.

use std::net::IpAddr;
use std::sync::Arc;

use engine::{Random, Span, Time};
use proptest::prelude::*;
use traffic::replay::{
    AddressRule, AddressTable, Instances, Network, Over, Replay, ReplayConfig, ReplayError, Spacing, Trace,
};

use crate::packets::{config, datagram, play, start, ticks, trace_of};

/// Times that run forward, from gaps.
fn times(gaps: &[u64]) -> Vec<u64> {
    gaps.iter().scan(0, |time, gap| Some(std::mem::replace(time, *time + gap))).collect()
}

proptest! {
    /// One instance, one repetition: the trace, packet by packet, whatever the spacing.
    #[test]
    fn one_instance_is_the_trace(
        packets in prop::collection::vec((0u64..1_000_000_000, 0u8..6, 0u8..6, 0usize..200), 1..80),
        spacing in prop_oneof![Just(Spacing::Copy), Just(Spacing::JITTER), Just(Spacing::SHUFFLE)],
    ) {
        let mut time = 0;
        let packets: Vec<_> = packets.into_iter().map(|(gap, from, to, len)| {
            time += gap;
            (time, datagram((&format!("10.0.0.{from}"), 1), (&format!("10.0.1.{to}"), 2), &vec![7; len]))
        }).collect();
        let trace = trace_of(&packets);
        let items = play(start(trace.clone(), &ReplayConfig { spacing, ..config() }).unwrap());
        prop_assert_eq!(items.len(), packets.len());
        for ((item, (time, packet)), index) in items.iter().zip(&packets).zip(0..) {
            prop_assert_eq!(item.index, index);
            prop_assert_eq!(item.due, Time::from_nanos(5_000 + time - packets[0].0));
            prop_assert_eq!(trace.packet(index as usize).bytes, packet);
        }
    }

    /// The formulae of section 3.4.
    #[test]
    fn copies_are_the_thesis_s(gaps in prop::collection::vec(0u64..1_000_000, 1..40), repetitions in 1u32..5, count in 1u32..5) {
        let times = times(&gaps);
        let instances = Instances { over: Over::Pdn, count };
        let mut items = play(start(ticks(&times), &ReplayConfig { repetitions, instances, ..config() }).unwrap()).into_iter();
        for repetition in 0..repetitions {
            for (index, time) in (0..).zip(&times) {
                for instance in 0..count {
                    let item = items.next().unwrap();
                    prop_assert_eq!((item.repetition, item.index, item.instance), (repetition, index, instance));
                    let shift = u64::from(repetition) * times[times.len() - 1];
                    prop_assert_eq!(item.due.as_nanos(), 5_000 + shift + time);
                    prop_assert_eq!(item.pdn, IpAddr::from((0xc000_0000 + instance).to_be_bytes()));
                }
            }
        }
        prop_assert!(items.next().is_none());
    }
}

/// What instances have of their own: addresses in the data network, or UEs.
#[test]
fn instances_over_either_side() {
    let packets = [
        (0, datagram(("10.0.0.1", 1), ("10.0.1.1", 2), &[])),
        (1, datagram(("10.0.0.2", 1), ("10.0.1.2", 2), &[])),
        (2, datagram(("2001:db8::1", 1), ("2001:db8::2", 2), &[])),
    ];
    let table = |over| {
        let network = Network { ues: 6, ..config().network };
        let instances = Instances { over, count: 3 };
        let items = play(start(trace_of(&packets), &ReplayConfig { instances, network, ..config() }).unwrap());
        items.iter().map(|item| (item.ue, item.pdn.to_string())).collect::<Vec<_>>()
    };
    let own = |rows: &[(u32, &str)]| rows.iter().map(|(ue, pdn)| (*ue, (*pdn).to_owned())).collect::<Vec<_>>();
    assert_eq!(
        table(Over::Pdn),
        own(&[
            (0, "192.0.0.0"),
            (0, "192.0.0.2"),
            (0, "192.0.0.4"),
            (1, "192.0.0.1"),
            (1, "192.0.0.3"),
            (1, "192.0.0.5"),
            (0, "2001:db8:1::"),
            (0, "2001:db8:1::1"),
            (0, "2001:db8:1::2"),
        ])
    );
    assert_eq!(
        table(Over::Ue),
        own(&[
            (0, "192.0.0.0"),
            (2, "192.0.0.0"),
            (4, "192.0.0.0"),
            (1, "192.0.0.1"),
            (3, "192.0.0.1"),
            (5, "192.0.0.1"),
            (0, "2001:db8:1::"),
            (2, "2001:db8:1::"),
            (4, "2001:db8:1::"),
        ])
    );
}

#[test]
fn packets_between_ues_are_left_out() {
    let packets = [
        (0, datagram(("10.0.0.1", 1), ("10.0.1.1", 2), &[])),
        (5, datagram(("10.0.0.1", 1), ("10.0.0.2", 2), &[])),
        (9, datagram(("10.0.1.1", 2), ("10.0.0.2", 1), &[])),
    ];
    let trace = trace_of(&packets);
    let table = AddressTable::new(&trace, &AddressRule::UeIn(vec!["10.0.0.0/24".parse().unwrap()]));
    assert_eq!((table.unrouted(), table.ues(), table.route(1)), (1, 2, None));
    let config = ReplayConfig { network: Network { ues: 2, ..config().network }, ..config() };
    let replay = Replay::new(Arc::new(trace), Arc::new(table), &config, Random::stream(1, "")).unwrap();
    let items = play(replay);
    assert_eq!(items.iter().map(|item| (item.index, item.ue)).collect::<Vec<_>>(), [(0, 0), (2, 1)]);
}

/// More UEs in the trace than there are: they fold, as all do onto one in the thesis.
#[test]
fn ues_fold() {
    let packets: Vec<_> = (0..5).map(|n| (n, datagram((&format!("10.0.0.{n}"), 1), ("10.0.1.1", 2), &[]))).collect();
    // By first sight an address that talks to a known one of the data network is a UE.
    let network = Network { ues: 2, ..config().network };
    let items = play(start(trace_of(&packets), &ReplayConfig { network, ..config() }).unwrap());
    assert_eq!(items.iter().map(|item| item.ue).collect::<Vec<_>>(), [0, 1, 0, 1, 0]);
}

#[test]
fn what_cannot_be_is_refused() {
    let trace = || ticks(&[0, 10]);
    let refused = |trace, change: fn(&mut ReplayConfig)| {
        let mut config = config();
        change(&mut config);
        start(trace, &config).map(drop).unwrap_err()
    };
    assert_eq!(refused(Trace::new(0), |_| {}), ReplayError::Empty);
    assert_eq!(refused(trace(), |config| config.repetitions = 0), ReplayError::Zero("repetitions"));
    assert_eq!(refused(trace(), |config| config.instances.count = 0), ReplayError::Zero("instances"));
    assert_eq!(refused(trace(), |config| config.network.ues = 0), ReplayError::Zero("ues"));
    let error = refused(trace(), |config| config.network.pdn_v4 = None);
    assert_eq!(
        error.to_string(),
        "the trace has IPv4 packets, but no IPv4 address of the data network is given; give one, or leave them out \
         with the filter `ip6`"
    );
    let error = refused(trace(), |config| {
        config.network.pdn_v4 = Some([255, 255, 255, 250].into());
        config.instances.count = 7;
    });
    assert_eq!(error, ReplayError::TooManyAddresses { first: [255, 255, 255, 250].into(), needed: 7 });
    let error = refused(trace(), |config| config.instances = Instances { over: Over::Ue, count: 4 });
    assert_eq!(error, ReplayError::TooFewUes { instances: 4, needed: 4, available: 1 });
    let error = refused(ticks(&[0, 5, 90_000_000_000_000]), |_| {});
    assert!(matches!(error, ReplayError::LongGap { packet: 3, .. }), "{error}");
}

/// The last address there is may be used.
#[test]
fn the_last_address_is_good() {
    let mut config = config();
    config.network.pdn_v4 = Some([255, 255, 255, 250].into());
    config.instances.count = 6;
    let items = play(start(ticks(&[0]), &config).unwrap());
    assert_eq!(items[5].pdn, IpAddr::from([255; 4]));
}

/// Nothing is allocated once a replay runs.
#[test]
fn a_running_replay_allocates_nothing() {
    let times: Vec<_> = (0..1_000).map(|n| n * 100).collect();
    for (spacing, stateful) in [
        (Spacing::Copy, None),
        (Spacing::JITTER, None),
        (Spacing::SHUFFLE, None),
        (Spacing::Copy, Some(Span::from_millis(1))),
    ] {
        let instances = Instances { over: Over::Pdn, count: 20 };
        let trace = ticks(&times);
        let mut replay = start(trace.clone(), &ReplayConfig { spacing, stateful, instances, ..config() }).unwrap();
        let mut out = vec![0; 1_500];
        let mut sent = 0;
        let counted = allocation_counter::measure(|| {
            while let Some(item) = replay.next(Time::MAX) {
                trace.write(item.index as usize, [10, 0, 0, 9].into(), item.pdn, Some(&[1; 24]), &mut out).unwrap();
                sent += 1;
            }
        });
        assert_eq!((sent, counted.count_total), (20_000, 0), "{spacing:?}");
    }
}
