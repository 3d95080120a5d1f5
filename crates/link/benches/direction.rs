//! Packets a second through one direction of a link, in logical time on one core:
//! `cargo bench -p narrows-link`.
//!
//! A packet of 64 bytes arrives every 200 ns; its buffer is used again once it has come out.

#![allow(missing_docs, reason = "criterion makes functions without")]

use std::hint::black_box;
use std::net::Ipv4Addr;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use engine::{Element, Output, Packet, Rate, Size, Span, Time};
use link::{Branch, DelayModel, Direction, DirectionConfig, GilbertElliott, LossModel, PipeConfig, RateModel};
use queue::{Codel, Discipline, FqCodel, Pie, QueueConfig};
use wire::frame::{Ethernet, IpHeader, Ipv4, udp};
use wire::{Ecn, Udp};

const PACKETS: u64 = 100_000;

/// A direction and the buffers that go round through it.
struct Bench {
    direction: Direction,
    buffers: Vec<Packet>,
    now: Time,
}

impl Bench {
    fn new(config: &DirectionConfig) -> Self {
        let direction = Direction::new(config, 1, "bench").expect("a valid configuration");
        let mut bench = Self { direction, buffers: Vec::new(), now: Time::ZERO };
        bench.run();
        bench
    }

    fn run(&mut self) {
        for number in 0..PACKETS {
            let packet = self.buffers.pop().unwrap_or_else(|| packet((number % 16) as u16));
            self.direction.handle(self.now, 0, packet);
            self.now += Span::from_nanos(200);
            loop {
                while let Some(output) = self.direction.poll() {
                    if let Output::Transmit { packet, .. } | Output::Drop { packet, .. } = output {
                        self.buffers.push(packet);
                    }
                }
                match self.direction.deadline() {
                    Some(at) if at <= self.now => self.direction.tick(at),
                    _ => break,
                }
            }
        }
    }
}

fn packet(flow: u16) -> Packet {
    let ethernet = Ethernet { destination: [2; 6], source: [4; 6] };
    let ip = IpHeader::V4(Ipv4 {
        source: Ipv4Addr::new(10, 0, 0, 1),
        destination: Ipv4Addr::new(10, 0, 0, 2),
        dscp: 46,
        ecn: Ecn::NotCapable,
        identification: 0,
        dont_fragment: true,
        ttl: 64,
    });
    let mut bytes = Vec::new();
    let ports = Udp { source: flow, destination: 443 };
    udp(&mut bytes, &ethernet, &ip, ports, &[0; 22]).expect("short enough");
    Packet::new(bytes)
}

fn directions(c: &mut Criterion) {
    let delay = DelayModel::Constant(Span::from_millis(20));
    let plain = PipeConfig { delay: delay.clone(), ..PipeConfig::default() };
    // A rate just over and one at half of what is offered: 50 bytes every 200 ns are 2 Gbit/s.
    let rated = |rate: &str, discipline| PipeConfig {
        rate: Some(RateModel::Constant(rate.parse::<Rate>().expect("a rate"))),
        queue: QueueConfig { packets: Some(1_000), bytes: None, discipline },
        ..plain.clone()
    };
    let bursty = GilbertElliott { p: 0.01, r: 0.3, loss_bad: 1.0, loss_good: 0.0 };
    let jitter = DelayModel::Normal { mean: Span::from_millis(20), deviation: Span::from_millis(2) };
    let bucket =
        RateModel::TokenBucket { rate: "2500Mbit/s".parse().expect("a rate"), burst: Size::from_bytes(100_000) };
    let cases = [
        ("constant delay, loss 0", plain.clone()),
        ("constant delay, Gilbert-Elliott", PipeConfig { loss: LossModel::GilbertElliott(bursty), ..plain.clone() }),
        ("normal delay, reordering", PipeConfig { delay: jitter, reorder: true, ..plain.clone() }),
        ("rate above the load", rated("2500Mbit/s", Discipline::DropTail)),
        ("token bucket above the load", PipeConfig { rate: Some(bucket), ..rated("2500Mbit/s", Discipline::DropTail) }),
        ("rate below the load, drop-tail", rated("1Gbit/s", Discipline::DropTail)),
        ("rate below the load, CoDel", rated("1Gbit/s", Discipline::Codel(Codel::default()))),
        ("rate below the load, PIE", rated("1Gbit/s", Discipline::Pie(Pie::default()))),
        ("rate below the load, FQ-CoDel", rated("1Gbit/s", Discipline::FqCodel(FqCodel::default()))),
    ];
    let mut group = c.benchmark_group("direction");
    group.throughput(Throughput::Elements(PACKETS)).sample_size(20);
    let mut case = |name: &str, config: DirectionConfig| {
        let mut bench = Bench::new(&config);
        group
            .bench_function(name, |b| b.iter_batched(|| (), |()| black_box(&mut bench).run(), BatchSize::PerIteration));
    };
    for (name, pipe) in cases {
        case(name, DirectionConfig { branches: Vec::new(), pipe });
    }
    let branch = |name: &str, selector| Branch { name: name.into(), selector, pipe: plain.clone() };
    let branches = vec![
        branch("port", queue::Selector { port: Some(5060), ..queue::Selector::default() }.into()),
        branch("class", queue::Selector { dscp: Some(46), ..queue::Selector::default() }.into()),
    ];
    case("two branches", DirectionConfig { branches, pipe: plain.clone() });
    group.finish();
}

criterion_group!(benches, directions);
criterion_main!(benches);
