//! Packets a second into and out of a queue on one core: `cargo bench -p narrows-queue`.
//!
//! Packets of 16 flows in logical time, five come for every four that go.

#![allow(missing_docs, reason = "criterion makes functions without")]

use std::net::Ipv4Addr;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use engine::{Packet, Random, Span, Time};
use queue::{Codel, Discipline, FqCodel, Pie, Queue, QueueConfig};
use wire::frame::{Ethernet, IpHeader, Ipv4, udp};
use wire::{Ecn, Udp};

const PACKETS: u64 = 100_000;

fn packet(flow: u16) -> Packet {
    let ethernet = Ethernet { destination: [2; 6], source: [4; 6] };
    let ip = IpHeader::V4(Ipv4 {
        source: Ipv4Addr::new(10, 0, 0, 1),
        destination: Ipv4Addr::new(10, 0, 0, 2),
        dscp: 0,
        ecn: Ecn::NotCapable,
        identification: 0,
        dont_fragment: true,
        ttl: 64,
    });
    let mut bytes = Vec::new();
    udp(&mut bytes, &ethernet, &ip, Udp { source: flow, destination: 443 }, &[0; 22]).expect("short enough");
    Packet::new(bytes)
}

fn disciplines(c: &mut Criterion) {
    let mut group = c.benchmark_group("queue");
    group.throughput(Throughput::Elements(PACKETS)).sample_size(20);
    for (name, discipline) in [
        ("drop-tail", Discipline::DropTail),
        ("CoDel", Discipline::Codel(Codel::default())),
        ("PIE", Discipline::Pie(Pie::default())),
        ("FQ-CoDel", Discipline::FqCodel(FqCodel::default())),
    ] {
        let config = QueueConfig { packets: Some(1_000), bytes: None, discipline };
        let mut queue = Queue::new(&config, Random::stream(1, "bench"));
        let mut spare: Vec<Packet> = (0..2_000).map(|n| packet(n % 16)).collect();
        let mut now = Time::ZERO;
        group.bench_function(name, |b| {
            b.iter(|| {
                for number in 0..PACKETS {
                    let packet = spare.pop().expect("more than fit in the queue");
                    queue.enqueue(now, packet, 50, |_, packet| spare.push(packet));
                    now += Span::from_micros(1);
                    if number % 5 != 0
                        && let Some((packet, _)) = queue.dequeue(now, |_, packet| spare.push(packet))
                    {
                        spare.push(packet);
                    }
                }
            });
        });
    }
    group.finish();
}

criterion_group!(benches, disciplines);
criterion_main!(benches);
