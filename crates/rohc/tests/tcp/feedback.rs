//! Feedback to the compressor, made by hand (RFC 6846 8.3).

use std::time::Duration;

use rohc::{Compressor, CompressorConfig, Decompressor, DecompressorConfig, FeedbackError, Mode, PacketType};

use crate::segments::Segment;

/// What the CRC covers.
#[derive(Clone, Copy, PartialEq)]
enum Coverage {
    FromCid,
    Element,
}

/// CRC-8 of RFC 3095 5.9.1.
fn crc8(octets: &[u8]) -> u8 {
    octets.iter().fold(0xff, |crc, octet| {
        (0..8).fold(crc ^ octet, |crc: u8, _| if crc & 1 == 1 { crc >> 1 ^ 0xe0 } else { crc >> 1 })
    })
}

/// A FEEDBACK-2 element for CID 0: type and the upper bits of a number, and options.
fn element(kind: u8, number: u16, options: &[u8], coverage: Coverage) -> Vec<u8> {
    let [high, low] = number.to_be_bytes();
    let mut element = vec![0xf0, kind << 6 | high & 0x3f, low, 0];
    element.extend(options);
    element[0] |= element.len() as u8 - 1;
    element[3] = crc8(&element[if coverage == Coverage::FromCid { 1 } else { 0 }..]);
    element
}

/// A compressor that has sent `count` packets, and the MSN of the last.
fn after(count: u16) -> (Compressor, Segment, u16) {
    let mut compressor = Compressor::new(CompressorConfig::default());
    let mut segment = Segment { options: vec![8, 10, 1, 2, 3, 4, 5, 6, 7, 8, 1, 1], ..Segment::v6() };
    let mut first = None;
    for _ in 0..count {
        let (rohc, _) = send(&mut compressor, &mut segment);
        // Behind type, profile, CRC, the static chain of IPv6 and TCP, traffic class, hop limit and flags.
        first.get_or_insert_with(|| u16::from_be_bytes([rohc[47], rohc[48]]));
    }
    let last = first.expect("a packet").wrapping_add(count - 1);
    (compressor, segment, last)
}

fn send(compressor: &mut Compressor, segment: &mut Segment) -> (Vec<u8>, PacketType) {
    segment.ack = segment.ack.wrapping_add(1);
    let mut rohc = Vec::new();
    let info = compressor.compress(Duration::ZERO, &segment.packet(), &mut rohc).expect("an IP packet");
    (rohc, info.packet)
}

#[test]
fn the_crc_covers_the_entire_element() {
    let mut compressor = Compressor::new(CompressorConfig::default());
    let mut decompressor = Decompressor::new(DecompressorConfig { mode: Mode::Optimistic, ..Default::default() });
    let (rohc, _) = send(&mut compressor, &mut Segment::v6());
    decompressor.decompress(Duration::ZERO, &rohc, &mut Vec::new()).unwrap();
    let mut ack = Vec::new();
    decompressor.take_feedback(&mut ack);
    assert_eq!(ack.len(), 4);
    let crc = core::mem::take(&mut ack[3]);
    assert_eq!(crc, crc8(&ack));
}

#[test]
fn acknowledgments_with_either_coverage_are_taken() {
    for coverage in [Coverage::FromCid, Coverage::Element] {
        let (mut compressor, mut segment, msn) = after(1);
        assert_eq!(compressor.feedback(Duration::ZERO, &element(0, msn, &[], coverage)), Ok(()));
        assert_ne!(send(&mut compressor, &mut segment).1, PacketType::Ir);
        // STATIC-NACK, MSN-NOT-VALID.
        assert_eq!(compressor.feedback(Duration::ZERO, &element(2, 0, &[0x30], coverage)), Ok(()));
        assert_eq!(send(&mut compressor, &mut segment).1, PacketType::Ir);
        let mut wrong = element(0, msn, &[], coverage);
        wrong[3] ^= 0x11;
        assert_eq!(compressor.feedback(Duration::ZERO, &wrong), Err(FeedbackError::Crc { cid: 0 }));
    }
}

#[test]
fn an_acknowledgment_of_what_was_never_sent_is_refused() {
    let refused = Err(FeedbackError::NotSent { cid: 0 });
    for count in [1, 2] {
        let (mut compressor, mut segment, msn) = after(count);
        for number in [msn.wrapping_add(1), msn.wrapping_add(3_000), msn.wrapping_sub(count)] {
            let ack = element(0, number, &[], Coverage::Element);
            assert_eq!(compressor.feedback(Duration::ZERO, &ack), refused);
            let low = [number as u8 & 3];
            let ack = element(0, number >> 2, &[0x41, low[0] << 6], Coverage::Element);
            assert_eq!(compressor.feedback(Duration::ZERO, &ack), refused);
            assert_eq!(compressor.feedback(Duration::ZERO, &[0xf1, number as u8]), refused);
        }
        assert_eq!(send(&mut compressor, &mut segment).1, PacketType::Ir);
    }
    // After more packets than half of the numbers there are, what is ahead is refused, and the last is taken.
    let (mut compressor, mut segment, msn) = after(40_000);
    assert_eq!(compressor.feedback(Duration::ZERO, &element(0, msn.wrapping_add(9), &[], Coverage::Element)), refused);
    assert_eq!(compressor.feedback(Duration::ZERO, &element(0, msn, &[], Coverage::Element)), Ok(()));
    // A NACK with such a number says nothing but that the context is lost.
    let nack = element(1, msn.wrapping_add(9), &[], Coverage::Element);
    assert_eq!(compressor.feedback(Duration::ZERO, &nack), Ok(()));
    assert_eq!(send(&mut compressor, &mut segment).1, PacketType::Ir);
}

#[test]
fn two_more_bits_or_eight() {
    for is_eight in [false, true] {
        let (mut compressor, mut segment, msn) = after(2);
        let (number, more) = if is_eight { (msn >> 8, msn as u8) } else { (msn >> 2, (msn as u8) << 6) };
        let ack = element(0, number, &[0x41, more], Coverage::Element);
        assert_eq!(compressor.feedback(Duration::ZERO, &ack), Ok(()));
        assert_ne!(send(&mut compressor, &mut segment).1, PacketType::Ir);
    }
}
