//! Any octets, alone and between right packets: an error or a packet, and no growth.

mod traffic;

use std::time::Duration;

use proptest::prelude::*;
use rohc::{Compressor, CompressorConfig, Decompressor, DecompressorConfig, Mode};
use traffic::random;

const MAX_CIDS: [u16; 3] = [0, 15, 300];

fn ends(max_cid: u16, mode: Mode) -> (Compressor, Decompressor) {
    let compressor = Compressor::new(CompressorConfig { max_cid, mrru: 2_000, ..CompressorConfig::default() });
    let decompressor =
        Decompressor::new(DecompressorConfig { max_cid, mode, mrru: 2_000, ..DecompressorConfig::default() });
    (compressor, decompressor)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_octets_to_the_decompressor(
        packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..120), 0..60),
        large in any::<bool>(),
    ) {
        let (_, mut decompressor) = ends(if large { 300 } else { 15 }, Mode::Optimistic);
        for (number, octets) in packets.iter().enumerate() {
            let mut out = vec![0x77];
            let result = decompressor.decompress(Duration::from_millis(number as u64), octets, &mut out);
            prop_assert!(result.is_ok() || out == [0x77], "an error leaves the output alone");
            prop_assert!(out.len() <= 1 + 65_575);
        }
    }

    #[test]
    fn any_octets_to_the_compressor(
        packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..120), 0..60),
        feedback in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..60),
    ) {
        let (mut compressor, mut decompressor) = ends(15, Mode::Optimistic);
        let mut feedback = feedback.into_iter();
        for (number, octets) in packets.iter().enumerate() {
            let now = Duration::from_millis(number as u64);
            // Make it an IP packet, or else all but few are refused at the first octet.
            let mut packet = octets.clone();
            if let Some(first) = packet.first_mut() {
                *first = if *first & 1 == 0 { 0x45 } else { 0x60 | *first >> 4 };
            }
            let mut sent = Vec::new();
            if compressor.compress(now, &packet, &mut sent).is_ok() {
                let mut out = Vec::new();
                decompressor.decompress(now, &sent, &mut out).expect("nothing was lost");
                prop_assert_eq!(out, packet);
            }
            if let Some(octets) = feedback.next() {
                let _ = compressor.feedback(now, &octets);
            }
        }
    }
}

/// Right packets of all flows at once, with damaged ones between them: no packet that is not one of those
/// that were sent comes out of what was not damaged, and everybody recovers.
#[test]
fn damaged_copies_between_right_packets() {
    let flows: Vec<_> = traffic::all().into_iter().filter(|flow| flow.protected).collect();
    for max_cid in MAX_CIDS {
        let (mut compressor, mut decompressor) = ends(max_cid, Mode::Optimistic);
        let mut delivered = 0;
        let mut sent_packets = 0;
        for number in 0..400_u32 {
            for (which, flow) in flows.iter().enumerate() {
                let now = Duration::from_millis(u64::from(number) * 20);
                let packet = (flow.packet)(number);
                let mut sent = Vec::new();
                compressor.compress(now, &packet, &mut sent).expect("an IP packet");
                let draw = |of: u32| random(number * 64 + which as u32, of);
                if draw(0) % 5 == 0 {
                    let mut damaged = sent.clone();
                    for hit in 0..=draw(1) % 4 {
                        // At the front, where the header is.
                        let at = draw(10 + hit) as usize % damaged.len().min(12);
                        damaged[at] ^= 1 << (draw(20 + hit) % 8);
                    }
                    if draw(2) % 2 == 0 {
                        damaged.truncate(draw(3) as usize % damaged.len());
                    }
                    if damaged != sent {
                        let mut out = Vec::new();
                        // Delivered by chance, one that is not damaged is as good as a repetition.
                        if decompressor.decompress(now, &damaged, &mut out).is_ok() {
                            assert!(is_whole(&out), "{}: delivered with a wrong checksum", flow.name);
                        }
                    }
                }
                sent_packets += 1;
                let mut out = Vec::new();
                if decompressor.decompress(now, &sent, &mut out).is_ok() {
                    delivered += 1;
                    assert_eq!(out, packet, "{}", flow.name);
                }
                let mut feedback = Vec::new();
                decompressor.take_feedback(&mut feedback);
                let _ = compressor.feedback(now, &feedback);
            }
        }
        assert!(delivered * 100 >= sent_packets * 80, "{delivered} of {sent_packets} with MAX_CID {max_cid}");
    }
}

/// Are the lengths and the transport checksum of this IPv6 packet right?
fn is_whole(packet: &[u8]) -> bool {
    use wire::checksum::Sum;
    let [0x60..=0x6f, ..] = packet else { return true };
    let pseudo = Sum::of(&packet[8..40]);
    match packet.get(6) {
        Some(protocol @ (6 | 17)) => {
            let length = (packet.len() - 40) as u16;
            let sum = pseudo + Sum::of(&length.to_be_bytes()) + Sum::of(&[0, *protocol]) + Sum::of(&packet[40..]);
            sum.uncomplemented() == 0xffff
        }
        _ => true,
    }
}

#[test]
fn feedback_from_nowhere_is_counted_and_harmless() {
    let flows = traffic::measured();
    let (mut compressor, mut decompressor) = ends(15, Mode::Optimistic);
    for number in 0..500_u32 {
        let flow = &flows[number as usize % flows.len()];
        let now = Duration::from_millis(u64::from(number) * 20);
        let packet = (flow.packet)(number / flows.len() as u32);
        let mut sent = Vec::new();
        compressor.compress(now, &packet, &mut sent).expect("an IP packet");
        let mut out = Vec::new();
        decompressor.decompress(now, &sent, &mut out).expect("nothing was lost");
        assert_eq!(out, packet);
        // Sometimes well formed, for contexts in use, with acknowledgements of all kinds.
        let length = 1 + random(number, 1) as usize % 6;
        let mut octets = vec![0xf0 | length as u8];
        octets.extend(traffic::payload(number, length));
        let _ = compressor.feedback(now, &octets);
    }
    let counters = compressor.counters();
    assert_eq!(counters.feedback + counters.feedback_errors, 500);
}
