//! Compressed lists where they stand in whole packets: every octet but the CRC, from the figures of RFC 3095.

mod traffic;

use std::time::Duration;

use rohc::{Compressor, CompressorConfig, Decompressor, DecompressorConfig, PacketType};
use traffic::{ah, gre, ipv4, ipv6, options, payload, rtp, udp};

struct Ends {
    compressor: Compressor,
    decompressor: Decompressor,
}

impl Ends {
    fn new() -> Self {
        // What changes is said once: the line loses nothing.
        let config = CompressorConfig { repeats: 1, ..CompressorConfig::default() };
        let decompressor = Decompressor::new(DecompressorConfig::default());
        Self { compressor: Compressor::new(config), decompressor }
    }

    /// Sends a packet and gives its format and its ROHC header.
    fn send(&mut self, packet: &[u8]) -> (PacketType, Vec<u8>) {
        let mut sent = Vec::new();
        let info = self.compressor.compress(Duration::ZERO, packet, &mut sent).expect("an IP packet");
        let mut received = Vec::new();
        self.decompressor.decompress(Duration::ZERO, &sent, &mut received).expect("nothing is lost");
        assert_eq!(received, packet);
        sent.truncate(info.header_after);
        (info.packet, sent)
    }
}

/// A voice packet from `sources`.
fn voice(n: u32, sources: &[u32]) -> Vec<u8> {
    ipv6(17, &udp(false, (5004, 5004), &rtp(n, 160 * n, false, 0, sources, &payload(n, 20))))
}

#[test]
fn sources_in_a_dynamic_chain_and_in_extension_3() {
    let mut ends = Ends::new();
    let (packet, ir) = ends.send(&voice(0, &[0xa1, 0xa2]));
    assert_eq!(packet, PacketType::Ir);
    // 5.7.7.6, behind the static chain of 44 octets (and type, profile, CRC), IPv6's 3 and UDP's 2.
    let dynamic = &ir[3 + 44 + 3 + 2..];
    assert_eq!(dynamic[0], 0b1001_0010, "V, P, RX, CC");
    // 5.8.6.1: type 0, gen_id, 4-bit XI; gen_id; X and index of both; both.
    assert_eq!(dynamic[8..18], [0x22, 1, 0x89, 0, 0, 0, 0xa1, 0, 0, 0]);
    assert_eq!(dynamic[18], 0xa2);
    for n in 1..4 {
        ends.send(&voice(n, &[0xa1, 0xa2]));
    }
    // A source comes: UOR-2, extension 3 with RTP's flags, of them CSRC.
    let (packet, uor2) = ends.send(&voice(4, &[0xa1, 0xa2, 0xa3]));
    assert_eq!(packet, PacketType::Uor2);
    assert_eq!(uor2[2] & 0x80, 0x80, "X");
    let flags = uor2[3];
    assert_eq!(flags & 0b1100_0001, 0b1100_0001, "extension 3, rtp");
    let list = [0x23, 2, 0x01, 0xa0, 0, 0, 0, 0xa3];
    assert!(uor2.ends_with(&list), "{uor2:02x?}");
    let rtp_flags = uor2[uor2.len() - list.len() - 1];
    assert_eq!(rtp_flags & 0b0011_1111, 0b0000_0100, "CSRC alone");
    // And goes: nothing but an octet for each pair of indices.
    let (_, uor2) = ends.send(&voice(5, &[0xa1, 0xa3]));
    assert!(uor2.ends_with(&[0x22, 3, 0x02]), "{uor2:02x?}");
    // Then it is constant, and costs nothing.
    assert_eq!(ends.send(&voice(6, &[0xa1, 0xa3])).1.len(), 1);
}

#[test]
fn extension_headers_in_a_dynamic_chain_and_in_extension_3() {
    let mut ends = Ends::new();
    let datagram = |n| udp(false, (40_000, 40_002), &payload(n, 20));
    let (packet, ir) = ends.send(&ipv6(0, &[&options(17, 7)[..], &datagram(0)].concat()));
    assert_eq!(packet, PacketType::Ir);
    // 5.7.7.3: the static chain's Next Header is that of the following header in the chain, UDP.
    assert_eq!(ir[3 + 3], 17);
    // Traffic class, hop limit, then the list; the item says its own type in its first octet (5.8.4.1).
    let dynamic = &ir[3 + 40..];
    assert_eq!(dynamic[..13], [0, 64, 0x21, 1, 0x80, 0, 0, 1, 4, 7, 7, 7, 7]);
    assert_eq!(ends.send(&ipv6(0, &[&options(17, 7)[..], &datagram(1)].concat())).1.len(), 1);
    // Another header comes in between: extension 3 with inner IP flags, of them IPX; CL; the list.
    let both = [&options(60, 7)[..], &options(17, 8)].concat();
    let (packet, uor2) = ends.send(&ipv6(0, &[&both[..], &datagram(2)].concat()));
    assert_eq!(packet, PacketType::Uor2);
    assert_eq!(uor2[2] & 0b1110_0111, 0b1100_0010, "extension 3 with ip, and no SN");
    assert_eq!(uor2[3], 0b0000_1100, "IPX, and NBO as it is by itself");
    assert_eq!(uor2[4..], [0x80, 0x22, 2, 0x09, 60, 0, 1, 4, 8, 8, 8, 8]);
    // All go: a list of none.
    let (_, uor2) = ends.send(&ipv6(17, &datagram(3)));
    assert_eq!(uor2[4..], [0x80, 0x20, 3]);
    // Nothing more; with the longer CRC for a while, since the shorter one does not see this change (5.9.2).
    let (format, uor2) = ends.send(&ipv6(17, &datagram(4)));
    assert_eq!((format, uor2.len()), (PacketType::Uor2, 2));
}

#[test]
fn what_follows_the_header_stands_in_the_order_of_the_headers() {
    // 5.7: identification of the outer header, AH data, GRE checksum; then the UDP checksum.
    let mut ends = Ends::new();
    let packet = |n: u32| {
        let inner = ipv6(17, &udp(true, (40_000, 40_002), &payload(n, 20)));
        let tunnelled = [&ah(47, 100 + n, n)[..], &gre(7 + n, 0x1100 + n as u16), &inner].concat();
        ipv4(traffic::random(n, 9) as u16, 51, &tunnelled)
    };
    for n in 0..12 {
        ends.send(&packet(n));
    }
    let sent = packet(12);
    let (format, header) = ends.send(&sent);
    assert_eq!((format, header.len()), (PacketType::Uo0, 1 + 2 + 12 + 2 + 2));
    assert_eq!(header[1..3], sent[4..6], "identification");
    assert_eq!(header[3..15], sent[20 + 12..20 + 24], "authentication data");
    assert_eq!(header[15..17], [0x11, 12], "GRE checksum");
    let udp_at = 20 + 24 + 16 + 40;
    assert_eq!(header[17..19], sent[udp_at + 6..udp_at + 8], "UDP checksum");
}

#[test]
fn a_sequence_number_out_of_step_goes_in_extension_3() {
    let mut ends = Ends::new();
    let packet = |n: u32, sequence| {
        ipv6(51, &[&ah(17, sequence, n)[..], &udp(false, (40_000, 40_002), &payload(n, 20))].concat())
    };
    for n in 0..20 {
        ends.send(&packet(n, 1_000_000 + n));
    }
    let (format, header) = ends.send(&packet(20, 1_000_123));
    assert_eq!(format, PacketType::Uor2);
    // IPX (and NBO); ASeq, 31 bits, since bits above the lowest seven changed not long ago; then the data.
    assert_eq!(header[3..9], [0b0000_1100, 0x40, 0x80, 0x0f, 0x42, 0xbb]);
    assert_eq!(header.len(), 9 + 12);
    assert_eq!(ends.send(&packet(21, 1_000_124)).1.len(), 1 + 12);
}
