//! Compressions and decompressions a second on one core, and the mean header:
//! `cargo bench -p narrows-rohc`.
//!
//! Each measured run sends a flow of 2,000 packets from its start, in mode O over a line without loss.
//! Packets are made before, buffers are used again.

#![allow(missing_docs, reason = "criterion makes functions without")]
#![allow(clippy::print_stdout, reason = "the mean headers belong to the result")]

use std::hint::black_box;
use std::time::Duration;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use rohc::{Compressor, CompressorConfig, Decompressor, DecompressorConfig};

#[path = "../tests/traffic/mod.rs"]
mod traffic;

const PACKETS: u32 = 2_000;

fn at(number: usize) -> Duration {
    Duration::from_millis(20) * number as u32
}

/// A flow compressed and decompressed once, feedback and all: the ROHC packets, and what the compressor heard
/// before each of its packets.
struct Exchange {
    packets: Vec<Vec<u8>>,
    sent: Vec<Vec<u8>>,
    heard: Vec<Vec<u8>>,
    mean_header: f64,
}

impl Exchange {
    fn of(flow: &traffic::Flow) -> Self {
        let mut compressor = Compressor::new(CompressorConfig::default());
        let mut decompressor = Decompressor::new(DecompressorConfig::default());
        let packets: Vec<Vec<u8>> = (0..PACKETS).map(&flow.packet).collect();
        let mut exchange = Self { sent: Vec::new(), heard: vec![Vec::new()], packets: Vec::new(), mean_header: 0.0 };
        for (number, packet) in packets.iter().enumerate() {
            compressor.feedback(at(number), &exchange.heard[number]).expect("the feedback is right");
            let mut sent = Vec::new();
            let info = compressor.compress(at(number), packet, &mut sent).expect("an IP packet");
            assert_eq!(info.profile, flow.profile, "{}", flow.name);
            let mut received = Vec::new();
            decompressor.decompress(at(number), &sent, &mut received).expect("nothing is lost");
            assert_eq!(&received, packet, "{}", flow.name);
            let mut heard = Vec::new();
            decompressor.take_feedback(&mut heard);
            exchange.heard.push(heard);
            exchange.sent.push(sent);
        }
        let counters = compressor.counters();
        exchange.mean_header = counters.header_octets_after as f64 / counters.packets as f64;
        exchange.packets = packets;
        exchange
    }
}

fn benches(c: &mut Criterion) {
    let mut group = c.benchmark_group("rohc");
    group.throughput(Throughput::Elements(u64::from(PACKETS))).sample_size(20);
    for flow in traffic::measured() {
        let exchange = Exchange::of(&flow);
        println!("{}: mean header {:.2} of {} octets", flow.name, exchange.mean_header, flow.header);
        let mut out = Vec::with_capacity(2_000);
        group.bench_function(format!("compress {}", flow.name), |b| {
            let fresh = || Compressor::new(CompressorConfig::default());
            b.iter_batched_ref(
                fresh,
                |compressor| {
                    for (number, packet) in exchange.packets.iter().enumerate() {
                        if !exchange.heard[number].is_empty() {
                            compressor.feedback(at(number), &exchange.heard[number]).expect("the feedback is right");
                        }
                        out.clear();
                        compressor.compress(at(number), black_box(packet), &mut out).expect("an IP packet");
                        black_box(&out);
                    }
                },
                BatchSize::PerIteration,
            );
        });
        let mut feedback = Vec::with_capacity(1_024);
        group.bench_function(format!("decompress {}", flow.name), |b| {
            let fresh = || Decompressor::new(DecompressorConfig::default());
            b.iter_batched_ref(
                fresh,
                |decompressor| {
                    for (number, sent) in exchange.sent.iter().enumerate() {
                        out.clear();
                        decompressor.decompress(at(number), black_box(sent), &mut out).expect("nothing is lost");
                        black_box(&out);
                        feedback.clear();
                        decompressor.take_feedback(&mut feedback);
                    }
                },
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

criterion_group!(rohc_benches, benches);
criterion_main!(rohc_benches);
