//! A line with losses and damage, on which nothing is allocated once contexts are there.

use std::time::Duration;

use rohc::{Compressor, CompressorConfig, Decompressor, DecompressorConfig};

/// Sends `packets` twice; the second time nothing may be allocated.
pub(crate) fn allocates_nothing(max_cid: u16, packets: &[Vec<u8>]) {
    let config = CompressorConfig { max_cid, fo_refresh_packets: 50, ir_refresh_packets: 120, ..Default::default() };
    let mut compressor = Compressor::new(config);
    let mut decompressor = Decompressor::new(DecompressorConfig { max_cid, ..Default::default() });
    let (mut line, mut out, mut feedback) = (Vec::new(), Vec::new(), Vec::new());
    let mut now = Duration::ZERO;
    let mut run = || {
        for (n, packet) in packets.iter().enumerate() {
            now += Duration::from_millis(20);
            for buffer in [&mut line, &mut out, &mut feedback] {
                buffer.clear();
            }
            compressor.compress(now, packet, &mut line).expect("an IP packet");
            // Some are lost, some damaged.
            if n % 13 == 0 {
                continue;
            }
            if n % 17 == 0 {
                line[0] ^= 8;
            }
            let _ = decompressor.decompress(now, &line, &mut out);
            decompressor.take_feedback(&mut feedback);
            let _ = compressor.feedback(now, &feedback);
        }
    };
    run();
    let counted = allocation_counter::measure(run);
    assert_eq!(counted.count_total, 0, "{counted:?}");
}
