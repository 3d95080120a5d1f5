//! Once contexts are there, no packet allocates.

use rohc::{Compressor, CompressorConfig, Decompressor, DecompressorConfig};
use std::time::Duration;

use crate::flows::Download;
use crate::segments::{Segment, sack, timestamp};

#[test]
fn nothing_is_allocated_once_warm() {
    let config = CompressorConfig { max_cid: 2, fo_refresh_packets: 50, ir_refresh_packets: 120, ..Default::default() };
    let mut compressor = Compressor::new(config);
    let mut decompressor = Decompressor::new(DecompressorConfig { max_cid: 2, ..Default::default() });
    // Both directions of two transfers: four flows for three contexts.
    let mut downloads = [Download::new(Segment::v6()), Download::new(Segment { ports: (1, 2), ..Segment::v4() })];
    let packets: Vec<Vec<u8>> = (0..1_000u32)
        .flat_map(|step| {
            let (data, ack) = downloads[step as usize / 100 % 2].step(3);
            let mut ack = ack.unwrap_or_else(|| data.clone());
            if step % 90 > 80 {
                ack.options = [timestamp(step, step), sack(&[(step * 5, step * 7)])].concat();
            }
            [data.packet(), ack.packet()]
        })
        .collect();
    let (mut line, mut out, mut feedback) = (Vec::new(), Vec::new(), Vec::new());
    let mut run = |packets: &[Vec<u8>], from: u64| {
        for (n, packet) in packets.iter().enumerate() {
            let now = Duration::from_millis(20 * (from + n as u64));
            for buffer in [&mut line, &mut out, &mut feedback] {
                buffer.clear();
            }
            compressor.compress(now, packet, &mut line).expect("an IP packet");
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
    run(&packets, 0);
    let counted = allocation_counter::measure(|| run(&packets, 2_000));
    assert_eq!(counted.count_total, 0, "{counted:?}");
}
