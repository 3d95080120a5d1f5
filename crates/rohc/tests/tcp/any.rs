//! Whatever a connection does, and whatever the line does to it.

use proptest::prelude::*;
use rohc::{Compressor, CompressorConfig, Decompressor, DecompressorConfig, Mode};
use std::time::Duration;

use crate::flows::Line;
use crate::segments::{ACK, Segment, sack, timestamp};

/// Something a sender does to its next packet.
type Deed = (u8, u32);

fn act(segment: &mut Segment, (deed, value): Deed) {
    let small = value % 3_000;
    match deed % 24 {
        0..=4 => {
            segment.payload = [1_448, 1_448, 100, 0, (value % 1_400) as usize][usize::from(deed % 5)];
            segment.seq = segment.seq.wrapping_add(segment.payload as u32);
        }
        5..=7 => segment.ack = segment.ack.wrapping_add(small),
        // A retransmission, and a jump.
        8 => segment.seq = segment.seq.wrapping_sub(value % 20_000),
        9 => segment.seq = value,
        10 => segment.ack = value,
        11 => segment.window = value as u16,
        12 => segment.flags = ACK | value as u8 & 0xcf,
        13 => segment.flags = value as u8,
        14 => segment.urg_ptr = value as u16,
        15 => segment.tos = value as u8,
        16 => segment.ttl = value as u8,
        17 => segment.id = value as u16,
        18 => segment.df = value % 2 == 0,
        19 => segment.options = timestamp(value, value / 2),
        20 => segment.options = [timestamp(small, small), sack(&[(value, value + small)])].concat(),
        21 => segment.options.clear(),
        22 => segment.options = vec![253, 8, value as u8 % 3, 1, 2, 3, (value >> 8) as u8, 5, 1, 3, 3, value as u8],
        _ => segment.reserved = value as u8 & 0x0f,
    }
    segment.id = segment.id.wrapping_add(1);
    if segment.options.len() >= 12 && segment.options[2] == 8 {
        let echo = u32::from_be_bytes([0, 0, 0, segment.options[11]]);
        let value =
            u32::from_be_bytes([segment.options[4], segment.options[5], segment.options[6], segment.options[7]]);
        let rest = segment.options.split_off(12);
        segment.options = [timestamp(value.wrapping_add(small / 100), echo.wrapping_add(1)), rest].concat();
    }
}

fn first(is_v6: bool) -> Segment {
    if is_v6 { Segment::v6() } else { Segment::v4() }
}

/// Sends packets of which those with fate 0 are lost, but no more than two in a row and not the first; all
/// others must arrive.
fn deliver_around_losses(is_v6: bool, mode: Mode, deeds: impl IntoIterator<Item = (Deed, u8)>) {
    let mut line = Line::new(15, mode);
    let mut segment = first(is_v6);
    let mut lost = 0;
    for (at, (deed, fate)) in deeds.into_iter().enumerate() {
        act(&mut segment, deed);
        let is_lost = fate == 0 && lost < 2 && at > 0;
        lost = if is_lost { lost + 1 } else { 0 };
        let (packet, result) = line.send(&segment.packet(), is_lost);
        assert!(!matches!(result, Some(Err(_))), "{packet} at {at}: {result:?}");
    }
}

#[test]
fn losses_that_were_too_much_once() {
    let cases: [&[(Deed, u8)]; 3] = [
        &[((14, 0), 0), ((224, 135_488_292), 0), ((14, 1), 0), ((38, 0), 0)],
        &[((0, 0), 0), ((163, 0), 0), ((0, 0), 0), ((213, 0), 0), ((163, 0), 0), ((22, 0), 1)],
        &[((92, 108_238_533), 0), ((0, 0), 0), ((212, 0), 0), ((213, 0), 0), ((164, 0), 0), ((0, 0), 0), ((23, 0), 0)],
    ];
    for mode in [Mode::Unidirectional, Mode::Optimistic] {
        for deeds in cases {
            deliver_around_losses(false, mode, deeds.iter().copied());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn what_goes_in_comes_out(
        is_v6: bool, is_large: bool, optimistic: bool, deeds in prop::collection::vec(any::<Deed>(), 1..120),
    ) {
        let mode = if optimistic { Mode::Optimistic } else { Mode::Unidirectional };
        let mut line = Line::new(if is_large { 200 } else { 15 }, mode);
        let mut segment = first(is_v6);
        for deed in deeds {
            act(&mut segment, deed);
            line.deliver(&segment);
        }
    }

    #[test]
    fn losses_of_up_to_two_in_a_row_are_no_loss_to_others(
        is_v6: bool, optimistic: bool, deeds in prop::collection::vec((any::<Deed>(), 0u8..5), 1..120),
    ) {
        deliver_around_losses(is_v6, if optimistic { Mode::Optimistic } else { Mode::Unidirectional }, deeds);
    }

    #[test]
    fn a_damaged_line_delivers_only_what_its_checksum_proves(
        is_v6: bool, is_large: bool,
        deeds in prop::collection::vec((any::<Deed>(), 0u8..8, any::<u16>(), 1u8..=255), 1..120),
    ) {
        let max_cid = if is_large { 200 } else { 15 };
        let mut compressor = Compressor::new(CompressorConfig { max_cid, ..Default::default() });
        let mut decompressor = Decompressor::new(DecompressorConfig { max_cid, ..Default::default() });
        let mut segment = first(is_v6);
        let mut held = Vec::new();
        for (deed, fate, at, flip) in deeds {
            act(&mut segment, deed);
            let mut rohc = Vec::new();
            compressor.compress(Duration::ZERO, &segment.packet(), &mut rohc).unwrap();
            match fate {
                0 => continue,
                1 => { let at = usize::from(at) % rohc.len(); rohc[at] ^= flip; }
                2 => { held = rohc; continue }
                3 => rohc.truncate(usize::from(at) % rohc.len()),
                4 => core::mem::swap(&mut held, &mut rohc),
                _ => {}
            }
            let mut out = Vec::new();
            let result = decompressor.decompress(Duration::ZERO, &rohc, &mut out);
            if result.is_ok_and(|info| info.profile == rohc::Profile::Tcp) {
                prop_assert!(is_right(&out), "{out:02x?}");
            } else if result.is_err() {
                prop_assert!(out.is_empty());
            }
        }
    }

    #[test]
    fn any_octets_give_an_error_or_a_packet(
        first in any::<[bool; 2]>(), packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 1..30),
        head in prop::sample::select(vec![0xfdu8, 0xfc, 0xf8, 0xfa, 0xfb, 0xb0, 0xc0, 0x00]),
    ) {
        let [is_large, is_v6] = first;
        let max_cid = if is_large { 200 } else { 15 };
        let mut compressor = Compressor::new(CompressorConfig { max_cid, ..Default::default() });
        let mut decompressor = Decompressor::new(DecompressorConfig { max_cid, ..Default::default() });
        let mut rohc = Vec::new();
        compressor.compress(Duration::ZERO, &super::any::first(is_v6).packet(), &mut rohc).unwrap();
        let mut out = Vec::new();
        decompressor.decompress(Duration::ZERO, &rohc, &mut out).unwrap();
        for mut packet in packets {
            if let Some(octet) = packet.first_mut() {
                *octet = head ^ *octet & 7;
            }
            let mut out = Vec::new();
            let _ = decompressor.decompress(Duration::ZERO, &packet, &mut out);
            let mut feedback = Vec::new();
            decompressor.take_feedback(&mut feedback);
            let _ = compressor.feedback(Duration::ZERO, &feedback);
            let _ = compressor.feedback(Duration::ZERO, &packet);
        }
    }
}

/// Is this a plain IP packet whose TCP checksum is right?
fn is_right(packet: &[u8]) -> bool {
    use std::net::IpAddr;
    use wire::checksum::Sum;
    let (source, destination, tcp): (IpAddr, IpAddr, _) = if packet[0] >> 4 == 4 {
        let address = |at: usize| <[u8; 4]>::try_from(&packet[at..at + 4]).expect("four octets");
        (address(12).into(), address(16).into(), &packet[20..])
    } else {
        let address = |at: usize| <[u8; 16]>::try_from(&packet[at..at + 16]).expect("sixteen octets");
        (address(8).into(), address(24).into(), &packet[40..])
    };
    (Sum::pseudo_header(source, destination, 6, tcp.len() as u32) + Sum::of(tcp)).checksum() == 0
}
