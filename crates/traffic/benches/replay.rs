//! Packets a second that a replay schedules and writes on one core: `cargo bench -p narrows-traffic --bench replay`.

#![allow(missing_docs, reason = "criterion makes functions without")]

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use engine::{Random, Span, Time};
use traffic::replay::{
    AddressRule, AddressTable, Direction, Instances, Network, Over, Replay, ReplayConfig, Spacing, Trace,
};
use wire::TcpFlags;
use wire::frame::{Ethernet, IpHeader, tcp};

const PACKETS: u32 = 20_000;

/// Segments of `length` bytes from one server, of 20 connections that take turns.
fn trace(length: usize) -> Trace {
    let ethernet = Ethernet { destination: [2; 6], source: [4; 6] };
    let ip = IpHeader::between([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 0).expect("both are IPv4");
    let mut trace = Trace::new(1 << 30);
    let mut frame = Vec::new();
    for n in 0..PACKETS {
        let header = wire::Tcp {
            source: 1_000 + (n % 20) as u16,
            destination: 443,
            sequence: n,
            acknowledgement: 1,
            flags: TcpFlags::ACK,
            window: 65_535,
            urgent: 0,
            options: &[],
        };
        tcp(&mut frame, &ethernet, &ip, &header, &vec![0; length - 40]).expect("short enough");
        trace.push(u64::from(n) * 1_000, &frame[14..], length as u32).expect("room enough");
    }
    trace
}

fn replay(c: &mut Criterion) {
    let mut group = c.benchmark_group("replay");
    group.sample_size(20);
    for (name, length, count, spacing, stateful) in [
        ("146 B, 1 instance", 146, 1, Spacing::Copy, None),
        ("1400 B, 1 instance", 1_400, 1, Spacing::Copy, None),
        ("1400 B, 10 copies", 1_400, 10, Spacing::Copy, None),
        ("1400 B, 10 by jitter", 1_400, 10, Spacing::JITTER, None),
        ("1400 B, 10 shuffled", 1_400, 10, Spacing::SHUFFLE, None),
        ("1400 B, 10 stateful", 1_400, 10, Spacing::Copy, Some(Span::from_secs(1))),
    ] {
        let trace = Arc::new(trace(length));
        let table = Arc::new(AddressTable::new(&trace, &AddressRule::FirstSight));
        let network = Network { ues: 1, pdn_v4: Some([198, 18, 0, 0].into()), pdn_v6: None };
        let instances = Instances { over: Over::Pdn, count };
        let config = ReplayConfig { start: Time::ZERO, repetitions: 1, instances, spacing, stateful, network };
        let make =
            || Replay::new(trace.clone(), table.clone(), &config, Random::stream(1, "replay")).expect("it has packets");
        let mut out = vec![0; 2_048];
        group.throughput(Throughput::Elements(u64::from(PACKETS) * u64::from(count)));
        group.bench_function(name, |b| {
            b.iter_batched(
                make,
                |mut replay| {
                    while let Some(item) = replay.next(Time::MAX) {
                        let ue = [16, 0, 0, 1].into();
                        let (source, destination) =
                            if item.direction == Direction::Uplink { (ue, item.pdn) } else { (item.pdn, ue) };
                        let stamp = [item.index as u8; 24];
                        let length = trace.write(item.index as usize, source, destination, Some(&stamp), &mut out);
                        black_box(length.expect("room enough"));
                    }
                    replay
                },
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, replay);
criterion_main!(benches);
