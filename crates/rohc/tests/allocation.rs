//! The path of a packet allocates nothing once its context is warm, lists and feedback included.

mod common;
mod traffic;
#[path = "common/warm.rs"]
mod warm;

use std::time::Duration;

use common::{Ip, Rtp};
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

/// Several flows with changes of many kinds, losses and damage. A flow that takes a context over may allocate for its
/// lists of extension headers; its packets may not.
#[test]
fn changes_losses_and_damage_allocate_nothing() {
    let packets: Vec<Vec<u8>> = (0..2_000u16)
        .map(|n| {
            let ip = Ip { id: n, ttl: 60 + (n / 100) as u8, ..Ip::v4() };
            let rtp = Rtp { sn: n, timestamp: u32::from(n) * 160 + u32::from(n / 77) * 1_000, ..Rtp::new() };
            match n % 5 {
                0 => rtp.packet(&ip, &[1; 20]),
                1 => Ip::v6().udp((1, 2), true, &[2; 20]),
                2 => ip.esp(5, n.into(), &[3; 20]),
                3 => Ip::v6().wrap(4, &ip.wrap(132, &[4; 20])),
                _ => ip.wrap(1, &[0xff; 20]),
            }
        })
        .collect();
    warm::allocates_nothing(7, &packets);
}
