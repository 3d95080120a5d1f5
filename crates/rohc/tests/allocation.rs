//! The path of a packet allocates nothing once its context is warm, lists and feedback included.

mod traffic;

use std::time::Duration;

use rohc::{Compressor, CompressorConfig, Decompressor, DecompressorConfig};

#[test]
fn a_warm_context_allocates_nothing() {
    for flow in traffic::all() {
        let mut compressor = Compressor::new(CompressorConfig::default());
        let mut decompressor = Decompressor::new(DecompressorConfig::default());
        let packets: Vec<Vec<u8>> = (0..2_000).map(&flow.packet).collect();
        let mut sent = Vec::with_capacity(2_000);
        let mut received = Vec::with_capacity(2_000);
        let mut feedback = Vec::with_capacity(2_000);
        let mut round = |numbers: std::ops::Range<usize>| {
            for number in numbers {
                let now = Duration::from_millis(20) * number as u32;
                compressor.feedback(now, &feedback).expect("the feedback is right");
                sent.clear();
                compressor.compress(now, &packets[number], &mut sent).expect("an IP packet");
                received.clear();
                decompressor.decompress(now, &sent, &mut received).expect("nothing is lost");
                assert!(received == packets[number]);
                feedback.clear();
                decompressor.take_feedback(&mut feedback);
            }
        };
        round(0..1_000);
        let seen = allocation_counter::measure(|| round(1_000..2_000));
        assert_eq!(seen.count_total, 0, "{}", flow.name);
    }
}
