//! Packets cut into segments, through both ends (RFC 3095 5.2.5).

use std::time::Duration;

use rohc::{Compressor, CompressorConfig, DecompressError, Decompressor, DecompressorConfig, SegmentError};

const NOW: Duration = Duration::ZERO;

/// An IPv4 packet of a protocol that no profile knows.
fn packet() -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 120, 0, 0, 0x20, 0, 64, 132, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    packet.resize(120, 7);
    packet
}

struct Ends {
    compressor: Compressor,
    decompressor: Decompressor,
}

impl Ends {
    fn new() -> Self {
        Self {
            compressor: Compressor::new(CompressorConfig { mrru: 200, ..CompressorConfig::default() }),
            decompressor: Decompressor::new(DecompressorConfig { mrru: 200, ..DecompressorConfig::default() }),
        }
    }

    fn segments(&mut self) -> Vec<Vec<u8>> {
        let mut rohc = Vec::new();
        self.compressor.compress(NOW, &packet(), &mut rohc).expect("an IP packet");
        let mut segments = self.compressor.segments(&rohc, 50).expect("below the MRRU");
        let mut all = Vec::new();
        loop {
            let mut segment = Vec::new();
            if !segments.next(&mut segment) {
                return all;
            }
            all.push(segment);
        }
    }

    fn receive(&mut self, octets: &[u8]) -> Result<Vec<u8>, DecompressError> {
        let mut out = Vec::new();
        self.decompressor.decompress(NOW, octets, &mut out).map(|_| out)
    }
}

#[test]
fn a_packet_in_segments_comes_with_the_last() {
    let mut ends = Ends::new();
    let segments = ends.segments();
    assert_eq!(segments.len(), 3);
    // Padding and feedback may stand in front of a segment.
    let padded = [&[0xe0, 0xf1, 0x20][..], &segments[0]].concat();
    assert_eq!(ends.receive(&padded), Err(DecompressError::SegmentTaken));
    assert_eq!(ends.receive(&segments[1]), Err(DecompressError::SegmentTaken));
    assert_eq!(ends.receive(&segments[2]), Ok(packet()));
    assert_eq!(ends.decompressor.counters().segment_errors, 0);
}

#[test]
fn a_lost_segment_costs_its_packet_alone() {
    let mut ends = Ends::new();
    for lost in 0..3 {
        let segments = ends.segments();
        for (at, segment) in segments.iter().enumerate() {
            if at != lost {
                assert!(ends.receive(segment).is_err());
            }
        }
        let mut whole = Vec::new();
        ends.compressor.compress(NOW, &packet(), &mut whole).unwrap();
        // Whatever is no segment ends what waits.
        assert_eq!(ends.receive(&whole), Ok(packet()));
    }
    assert_eq!(ends.decompressor.counters().segment_errors, 3);
}

#[test]
fn feedback_alone_breaks_a_unit_off() {
    let mut ends = Ends::new();
    let segments = ends.segments();
    ends.receive(&segments[0]).unwrap_err();
    assert_eq!(ends.receive(&[0xf1, 0x20]), Err(DecompressError::NoPacket));
    assert_eq!(ends.decompressor.counters().segment_errors, 1);
    ends.receive(&segments[1]).unwrap_err();
    assert_eq!(ends.receive(&segments[2]), Err(DecompressError::Segment(SegmentError::Crc)));
}

#[test]
fn a_unit_begins_with_a_packet() {
    let mut ends = Ends::new();
    // Padding, feedback, a segment: RFC 3095 5.2.6, step 5.
    for inner in [&[0xe0, 0x45][..], &[0xf1, 0x20], &[0xff, 1, 2, 3, 4, 5]] {
        let mut segments = ends.compressor.segments(inner, 50).unwrap();
        let mut octets = Vec::new();
        assert!(segments.next(&mut octets));
        assert!(matches!(ends.receive(&octets), Err(DecompressError::Framing(_))));
    }
}
