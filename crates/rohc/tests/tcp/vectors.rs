//! Packets put together field by field as RFC 6846 8.2 lists them, and what they must become. CRCs are
//! computed here, bit by bit.

use std::time::Duration;

use rohc::{Compressor, CompressorConfig, Decompressor, DecompressorConfig, Mode, PacketType};

use crate::segments::{ACK, PSH, RST, SYN, Segment, sack, timestamp};

/// RFC 5795 appendix A's algorithm over the whole header (RFC 6846 8.2: `THIS`).
fn crc(degree: u32, reversed: u8, bytes: &[u8]) -> u64 {
    let mut register = ((1u16 << degree) - 1) as u8;
    for byte in bytes {
        for bit in 0..8 {
            let odd = (register ^ byte >> bit) & 1 == 1;
            register >>= 1;
            if odd {
                register ^= reversed;
            }
        }
    }
    u64::from(register)
}

/// Fields of so many bits, most significant bit first.
fn pack(fields: &[(u32, u64)]) -> Vec<u8> {
    let bits: Vec<u8> =
        fields.iter().flat_map(|(width, value)| (0..*width).rev().map(move |bit| (value >> bit & 1) as u8)).collect();
    assert_eq!(bits.len() % 8, 0, "{fields:?}");
    bits.chunks(8).map(|octet| octet.iter().fold(0, |octet, bit| octet << 1 | bit)).collect()
}

/// A decompressor that knows a flow, and what the flow's last packet was.
struct Known {
    decompressor: Decompressor,
    segment: Segment,
    msn: u16,
}

impl Known {
    /// The context is made by an IR packet.
    fn new(segment: Segment) -> Self {
        let mut compressor = Compressor::new(CompressorConfig::default());
        let config = DecompressorConfig { mode: Mode::Unidirectional, ..Default::default() };
        let mut decompressor = Decompressor::new(config);
        let (mut line, mut out) = (Vec::new(), Vec::new());
        let packet = segment.packet();
        let info = compressor.compress(Duration::ZERO, &packet, &mut line).expect("an IP packet");
        assert_eq!(info.packet, PacketType::Ir);
        decompressor.decompress(Duration::ZERO, &line, &mut out).expect("an IR packet");
        assert_eq!(out, packet);
        // Type, profile, CRC; static chain (flow label, next header, addresses, or version, protocol,
        // addresses; ports); dynamic chain (DSCP, hop limit, or behavior, DSCP, TTL, identification); flags.
        let at = if segment.source.is_ipv6() { 3 + 36 + 4 + 2 + 2 } else { 3 + 10 + 4 + 5 + 2 };
        let msn = u16::from_be_bytes([line[at], line[at + 1]]);
        Self { decompressor, segment, msn }
    }

    fn seq(&self) -> u64 {
        self.segment.seq.into()
    }

    fn ack(&self) -> u64 {
        self.segment.ack.into()
    }

    fn id_offset(&self) -> u64 {
        self.segment.id.wrapping_sub(self.msn).into()
    }

    fn psh(&self) -> u64 {
        u64::from(self.segment.flags & PSH != 0)
    }

    fn checksum(&self) -> [u8; 2] {
        let packet = self.segment.packet();
        let at = packet.len() - self.segment.payload - self.segment.options.len() - 4;
        [packet[at], packet[at + 1]]
    }

    /// The segment has changed: this is the packet that says so. `fields` get MSN and CRC.
    fn expect(&mut self, packet: PacketType, fields: impl Fn(u64, u64) -> Vec<(u32, u64)>, rest: &[&[u8]]) {
        self.msn = self.msn.wrapping_add(1);
        let expected = self.segment.packet();
        let header = &expected[..expected.len() - self.segment.payload];
        let is_long = matches!(packet, PacketType::CoCommon | PacketType::Rnd8 | PacketType::Seq8);
        let crc = if is_long { crc(7, 0x79, header) } else { crc(3, 0x6, header) };
        let mut line = pack(&fields(u64::from(self.msn & 15), crc));
        rest.iter().for_each(|part| line.extend_from_slice(part));
        line.extend_from_slice(&expected[header.len()..]);
        let mut out = Vec::new();
        let info = self.decompressor.decompress(Duration::ZERO, &line, &mut out);
        let info = info.unwrap_or_else(|error| panic!("{packet}: {error}: {line:02x?}"));
        assert_eq!(info.packet, packet);
        assert_eq!(out, expected, "{packet}");
    }
}

#[test]
fn the_random_set() {
    let mut known = Known::new(Segment { payload: 4, flags: ACK | PSH, ..Segment::v6() });
    known.segment.seq += 70_000;
    let seq = known.seq() & 0x3_ffff;
    let (psh, sum) = (known.psh(), known.checksum());
    known.expect(PacketType::Rnd1, |msn, crc| vec![(6, 0b101110), (18, seq), (4, msn), (1, psh), (3, crc)], &[&sum]);

    known.segment.seq += 4;
    let (scaled, sum) = ((known.seq() / 4) & 15, known.checksum());
    known.expect(PacketType::Rnd2, |msn, crc| vec![(4, 0b1100), (4, scaled), (4, msn), (1, psh), (3, crc)], &[&sum]);

    known.segment.ack += 20_000;
    known.segment.flags = ACK;
    let (ack, sum) = (known.ack() & 0x7fff, known.checksum());
    known.expect(PacketType::Rnd3, |msn, crc| vec![(1, 0), (15, ack), (4, msn), (1, 0), (3, crc)], &[&sum]);

    known.segment.seq = known.segment.seq.wrapping_sub(5_000);
    known.segment.ack -= 8_000;
    let (seq, ack, sum) = (known.seq() & 0x3fff, known.ack() & 0x7fff, known.checksum());
    known.expect(
        PacketType::Rnd5,
        |msn, crc| vec![(3, 0b100), (1, 0), (4, msn), (3, crc), (14, seq), (15, ack)],
        &[&sum],
    );

    known.segment.seq += 28;
    known.segment.ack += 49_000;
    let (scaled, ack, sum) = ((known.seq() / 4) & 15, known.ack() & 0xffff, known.checksum());
    known.expect(
        PacketType::Rnd6,
        |msn, crc| vec![(4, 0b1010), (3, crc), (1, 0), (16, ack), (4, msn), (4, scaled)],
        &[&sum],
    );

    known.segment.ack += 190_000;
    known.segment.window = 0xbeef;
    let (ack, sum) = (known.ack() & 0x3_ffff, known.checksum());
    known.expect(
        PacketType::Rnd7,
        |msn, crc| vec![(6, 0b101111), (18, ack), (16, 0xbeef), (4, msn), (1, 0), (3, crc)],
        &[&sum],
    );

    // A list whose items have eight bits each, all of them known; ECN bits from now on.
    known.segment.seq -= 60_000;
    known.segment.flags = ACK | RST | 0x40;
    known.segment.ttl += 4;
    known.segment.tos = 2;
    let (seq, ack, sum) = (known.seq() & 0xffff, known.ack() & 0xffff, known.checksum());
    let hop = u64::from(known.segment.ttl) & 7;
    known.expect(
        PacketType::Rnd8,
        |msn, crc| {
            vec![(5, 0b10110), (2, 1), (1, 1), (7, crc), (4, msn), (1, 0), (3, hop), (1, 1), (16, seq), (16, ack)]
        },
        &[&[0x10], &[2 << 6 | 1], &sum],
    );

    // co_common gives the stride that rnd_4 uses.
    known.segment.flags = ACK;
    known.segment.tos = 0xb8;
    known.segment.ttl = 9;
    known.segment.window = 7;
    known.segment.urg_ptr = 0x1234;
    known.segment.seq = 0xdead_beef;
    known.segment.ack += 30;
    let (seq, ack, sum) = (known.seq(), known.ack() & 0xff, known.checksum());
    known.expect(
        PacketType::CoCommon,
        |msn, crc| {
            vec![
                (7, 0b1111101),
                (1, 0),
                (1, 1),
                (1, 0),
                (2, 0),
                (4, msn),
                (2, 3),
                (2, 1),
                (1, 1),
                (1, 1),
                (1, 0),
                (1, 1),
                (1, 0),
                (1, 1),
                (1, 1),
                (1, 1),
                (1, 0),
                (2, 2),
                (1, 0),
                (1, 0),
                (7, crc),
                (32, seq),
                (8, ack),
                (16, 1_000),
                (16, 7),
                (16, 0x1234),
                (6, 0xb8 >> 2),
                (2, 0),
                (8, 9),
            ]
        },
        &[&[0], &sum],
    );
    known.segment.ack += 3_000;
    let (scaled, sum) = ((known.ack() / 1_000) & 15, known.checksum());
    known.expect(
        PacketType::Rnd4,
        |msn, crc| vec![(4, 0b1101), (4, scaled), (4, msn), (1, 0), (3, crc)],
        &[&[0], &sum],
    );
}

#[test]
fn the_sequential_set() {
    let mut known = Known::new(Segment { payload: 4, ..Segment::v4() });
    // Another identification was taken in between.
    known.segment.id += 2;
    known.segment.seq += 30_000;
    known.msn += 1;
    let (id, seq, sum) = (known.id_offset() & 15, known.seq() & 0xffff, known.checksum());
    known.msn -= 1;
    known.expect(
        PacketType::Seq1,
        |msn, crc| vec![(4, 0b1010), (4, id), (16, seq), (4, msn), (1, 0), (3, crc)],
        &[&sum],
    );
    let next = |known: &mut Known| {
        known.segment.id += 1;
        known.id_offset().wrapping_sub(1)
    };

    let id = next(&mut known) & 0x7f;
    known.segment.seq += 12;
    let (scaled, sum) = ((known.seq() / 4) & 15, known.checksum());
    known.expect(
        PacketType::Seq2,
        |msn, crc| vec![(5, 0b11010), (7, id), (4, scaled), (4, msn), (1, 0), (3, crc)],
        &[&sum],
    );

    let id = next(&mut known) & 15;
    known.segment.ack += 40_000;
    let (ack, sum) = (known.ack() & 0xffff, known.checksum());
    known.expect(
        PacketType::Seq3,
        |msn, crc| vec![(4, 0b1001), (4, id), (16, ack), (4, msn), (1, 0), (3, crc)],
        &[&sum],
    );

    let id = next(&mut known) & 15;
    known.segment.ack -= 10_000;
    known.segment.seq -= 9;
    let (seq, ack, sum) = (known.seq() & 0xffff, known.ack() & 0xffff, known.checksum());
    known.expect(
        PacketType::Seq5,
        |msn, crc| vec![(4, 0b1000), (4, id), (16, ack), (16, seq), (4, msn), (1, 0), (3, crc)],
        &[&sum],
    );

    let id = next(&mut known) & 0x7f;
    known.segment.ack += 10;
    known.segment.seq += 32;
    let (scaled, ack, sum) = ((known.seq() / 4) & 15, known.ack() & 0xffff, known.checksum());
    known.expect(
        PacketType::Seq6,
        |msn, crc| vec![(5, 0b11011), (4, scaled), (7, id), (16, ack), (4, msn), (1, 0), (3, crc)],
        &[&sum],
    );

    let id = next(&mut known) & 31;
    known.segment.window += 16_000;
    let (window, ack, sum) = (u64::from(known.segment.window) & 0x7fff, known.ack() & 0xffff, known.checksum());
    known.expect(
        PacketType::Seq7,
        |msn, crc| vec![(4, 0b1100), (15, window), (5, id), (16, ack), (4, msn), (1, 0), (3, crc)],
        &[&sum],
    );

    // SYN, with a list whose items have four bits: MSS in the list, and an EOL with one octet of padding, in bits.
    let id = next(&mut known) & 15;
    known.segment.flags = ACK | SYN;
    known.segment.options = vec![2, 4, 5, 0xb4, 1, 1, 0, 0];
    known.segment.ttl -= 3;
    let (seq, ack, sum) = (known.seq() & 0x3fff, known.ack() & 0x7fff, known.checksum());
    let hop = u64::from(known.segment.ttl) & 7;
    known.expect(
        PacketType::Seq8,
        |msn, crc| {
            vec![
                (4, 0b1011),
                (4, id),
                (1, 1),
                (7, crc),
                (4, msn),
                (1, 0),
                (3, hop),
                (1, 0),
                (15, ack),
                (2, 2),
                (14, seq),
            ]
        },
        &[&[4, 0xa8, 0x89, 5, 0xb4, 8], &sum],
    );

    // The behavior becomes random, the identification is in the irregular chain; the list stays.
    known.segment.id = 0xabcd;
    known.segment.flags = PSH;
    known.segment.df = false;
    let sum = known.checksum();
    known.expect(
        PacketType::CoCommon,
        |msn, crc| {
            vec![
                (7, 0b1111101),
                (1, 0),
                (1, 0),
                (1, 1),
                (2, 0),
                (4, msn),
                (2, 0),
                (2, 0),
                (1, 0),
                (1, 0),
                (1, 0),
                (1, 0),
                (1, 0),
                (1, 0),
                (1, 0),
                (1, 0),
                (1, 0),
                (2, 2),
                (1, 0),
                (1, 0),
                (7, crc),
            ]
        },
        &[&[0xab, 0xcd], &sum],
    );
}

#[test]
fn padding_behind_eol_in_octets_is_understood_too() {
    let mut known = Known::new(Segment::v6());
    known.segment.options = vec![3, 3, 7, 0, 0, 0, 0, 0];
    known.segment.flags = ACK | RST;
    let (seq, ack, sum) = (known.seq() & 0xffff, known.ack() & 0xffff, known.checksum());
    known.expect(
        PacketType::Rnd8,
        |msn, crc| vec![(5, 0b10110), (2, 1), (1, 1), (7, crc), (4, msn), (1, 0), (3, 0), (1, 0), (16, seq), (16, ack)],
        &[&[2, 0xb9, 7, 4], &sum],
    );
}

#[test]
fn irregular_items_of_options() {
    let blocks = [(0x1000_2000u32, 0x1000_3000u32), (0x1000_5000, 0x1040_5000)];
    let options = |value: u32, echo: u32, blocks: &[(u32, u32)]| [timestamp(value, echo), sack(blocks)].concat();
    let mut known = Known::new(Segment { options: options(1_000, 77, &blocks[..1]), ..Segment::v6() });
    // Timestamp: 14 and 7 bits. SACK: unchanged.
    known.segment.options = options(9_000, 78, &blocks[..1]);
    let (ack, sum) = (known.ack() & 0x7fff, known.checksum());
    known.expect(
        PacketType::Rnd3,
        |msn, crc| vec![(1, 0), (15, ack), (4, msn), (1, 0), (3, crc)],
        &[&sum, &[0x80 | (9_000u16 >> 8) as u8 & 0x3f, 9_000u16 as u8, 78, 0]],
    );
    // 21 and 29 bits. SACK: two blocks now, the second from the end of the first; 15, 15, 15 and 29 bits.
    known.segment.options = options(9_000 - 5, 0x0100_0000, &blocks);
    let sum = known.checksum();
    known.expect(
        PacketType::Rnd3,
        |msn, crc| vec![(1, 0), (15, ack), (4, msn), (1, 0), (3, crc)],
        &[&sum, &[0xc0, 0x23, 0x23, 0xe1, 0, 0, 0], &[2, 0x20, 0x00, 0x10, 0x00, 0x20, 0x00, 0xc0, 0x40, 0, 0]],
    );
}

#[test]
fn the_ttl_of_an_outer_header_in_the_irregular_chain() {
    let inner = Segment { payload: 3, ..Segment::v6() };
    let outer = |ttl: u8| Segment { protocol: 41, ttl, ..Segment::v6() };
    let packet = |ttl: u8| outer(ttl).in_ip(&inner.packet());
    let mut compressor = Compressor::new(CompressorConfig::default());
    let mut decompressor = Decompressor::new(DecompressorConfig::default());
    let (mut line, mut out) = (Vec::new(), Vec::new());
    compressor.compress(Duration::ZERO, &packet(64), &mut line).expect("an IP packet");
    decompressor.decompress(Duration::ZERO, &line, &mut out).expect("an IR packet");
    // The static chain has two items of IPv6, the dynamic one too.
    let msn = u16::from_be_bytes([line[85], line[86]]).wrapping_add(1);
    let expected = packet(17);
    let header = &expected[..expected.len() - 3];
    let mut line = pack(&[
        (7, 0b1111101),
        (1, 1),
        (1, 1),
        (1, 0),
        (2, 0),
        (4, u64::from(msn & 15)),
        (2, 0),
        (2, 0),
        (1, 0),
        (1, 0),
        (1, 0),
        (1, 0),
        (1, 0),
        (1, 0),
        (1, 0),
        (1, 0),
        (1, 0),
        (2, 2),
        (1, 0),
        (1, 0),
        (7, crc(7, 0x79, header)),
    ]);
    line.push(17);
    line.extend_from_slice(&header[96..98]);
    line.extend_from_slice(&expected[header.len()..]);
    out.clear();
    decompressor.decompress(Duration::ZERO, &line, &mut out).expect("co_common");
    assert_eq!(out, expected);
}

#[test]
fn replication_with_all_that_its_item_can_leave_out() {
    let base = Segment { options: timestamp(5, 6), ..Segment::v4() };
    let known = Known::new(base.clone());
    let mut decompressor = known.decompressor;
    // Ports by eight bits and in full; window, urgent pointer and acknowledgment number as they were; the list
    // with known items but for the timestamp.
    let new = Segment { ports: (40_100, 443), seq: 77, id: 0x0a0b, options: timestamp(9, 8), ..base };
    let expected = new.packet();
    let mut line = vec![0xe3, 0xfc, 0x06, 0, crc(7, 0x79, &expected) as u8 | 0x80, 0x00];
    line.extend(pack(&[(4, 0), (2, 0), (1, 0), (1, 1), (6, 0), (2, 0), (16, 0x0a0b)]));
    line.extend(pack(&[
        (1, 0),
        (1, 0),
        (1, 1),
        (2, 1),
        (2, 2),
        (1, 0),
        (1, 0),
        (1, 0),
        (1, 0),
        (1, 1),
        (1, 0),
        (2, 0),
        (1, 0),
        (16, 0x4242),
        (32, 77),
        (8, 40_100 & 0xff),
        (16, 443),
    ]));
    line.extend_from_slice(&expected[36..38]);
    line.extend([3, 0x00, 0xc0, 0, 0, 0, 9, 0, 0, 0, 8]);
    line[3] = crc(8, 0xe0, &line) as u8;
    let mut out = Vec::new();
    let info = decompressor.decompress(Duration::ZERO, &line, &mut out);
    assert_eq!(info.map(|info| (info.packet, info.cid)), Ok((PacketType::IrCr, 3)));
    assert_eq!(out, expected);
}
