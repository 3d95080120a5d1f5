//! Packets put together by hand from the RFCs' figures, octet by octet, and what they must become. Each
//! stands behind the same IR packet; the CRCs are computed here, bit by bit.

#![allow(clippy::unusual_byte_groupings, reason = "digits are grouped as the fields are")]

mod common;

use core::time::Duration;

use common::{Ip, Rtp};
use rohc::{Compressor, CompressorConfig, DecompressError, Decompressor, DecompressorConfig, PacketType, Profile};

/// RFC 4815 appendix A's algorithm.
fn crc(degree: u32, reversed: u8, bytes: impl IntoIterator<Item = u8>) -> u8 {
    let mut register = ((1u16 << degree) - 1) as u8;
    for mut byte in bytes {
        for _ in 0..8 {
            let odd = (register ^ byte) & 1 == 1;
            register >>= 1;
            if odd {
                register ^= reversed;
            }
            byte >>= 1;
        }
    }
    register
}

fn crc3(bytes: Vec<u8>) -> u8 {
    crc(3, 0x6, bytes)
}

fn crc7(bytes: Vec<u8>) -> u8 {
    crc(7, 0x79, bytes)
}

fn crc8(bytes: &[u8]) -> u8 {
    crc(8, 0xe0, bytes.iter().copied())
}

/// Picks octets by the numbers that the RFC gives them, from 1.
fn pick(header: &[u8], ranges: &[(usize, usize)]) -> Vec<u8> {
    ranges.iter().flat_map(|(from, to)| header[from - 1..*to].to_vec()).collect()
}

/// CRC-STATIC octets, then CRC-DYNAMIC ones (RFC 3095 5.7.7.3 to 5.7.7.6).
fn covered(packet: &[u8]) -> Vec<u8> {
    let is_v6 = packet[0] >> 4 == 6;
    let (ip, rest) = packet.split_at(if is_v6 { 40 } else { 20 });
    let (udp, rtp) = rest.split_at(8);
    let (ip_static, ip_dynamic): (&[_], &[_]) = if is_v6 {
        (&[(1, 4), (7, 40)], &[(5, 6)])
    } else {
        (&[(1, 2), (7, 10), (13, 20)], &[(3, 4), (5, 6), (11, 12)])
    };
    [
        pick(ip, ip_static),
        pick(udp, &[(1, 4)]),
        pick(rtp, &[(1, 1), (9, 12)]),
        pick(ip, ip_dynamic),
        pick(udp, &[(5, 8)]),
        pick(rtp, &[(2, 8)]),
    ]
    .concat()
}

const PAYLOAD: &[u8] = b"voice";

/// The flow behind the IR packet: SN 0x1000, TS 1000 times 160, identification 0x1003 above the SN.
fn reference(v6: bool) -> (Ip, Rtp) {
    let ip = Ip { v6, id: 0x2003, ttl: 64, tos: 0, df: false, host: 1, flow_label: 0x12345 };
    (ip, Rtp { sn: 0x1000, timestamp: 160_000, ssrc: 0xdead_beef, payload_type: 8, ..Rtp::new() })
}

fn packet(ip: &Ip, rtp: &Rtp) -> Vec<u8> {
    ip.udp((0x9c40, 0x138c), false, &rtp.wrap(PAYLOAD))
}

/// The IR packet of [`reference`], of profile 0x0001 on CID 0 (RFC 3095 5.7.7).
fn ir(v6: bool) -> Vec<u8> {
    let mut line = vec![0xfd, 0x01, 0x00];
    if v6 {
        line.extend_from_slice(&[0x61, 0x23, 0x45, 17]);
        line.extend_from_slice(&[0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        line.extend_from_slice(&[0x20, 0x01, 0x0d, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    } else {
        line.extend_from_slice(&[0x40, 17, 10, 0, 0, 1, 192, 0, 2, 7]);
    }
    // Ports, SSRC.
    line.extend_from_slice(&[0x9c, 0x40, 0x13, 0x8c, 0xde, 0xad, 0xbe, 0xef]);
    // TOS, TTL; in IPv4 identification and NBO; an empty list.
    line.extend_from_slice(&[0, 64]);
    if !v6 {
        line.extend_from_slice(&[0x20, 0x03, 0x20]);
    }
    line.push(0);
    // No UDP checksum. V = 2 and RX; payload type 8; SN; TS 160,000; no CSRC; mode U and TSS; 160 in two octets.
    line.extend_from_slice(&[0, 0, 0x90, 8, 0x10, 0x00, 0x00, 0x02, 0x71, 0x00, 0, 0x05, 0x80, 0xa0]);
    line[2] = crc8(&line);
    line.extend_from_slice(PAYLOAD);
    line
}

struct Line {
    decompressor: Decompressor,
}

impl Line {
    fn new(v6: bool) -> Self {
        let mut line = Self { decompressor: Decompressor::new(DecompressorConfig::default()) };
        let (ip, rtp) = reference(v6);
        line.check(PacketType::Ir, &ir(v6), &packet(&ip, &rtp));
        line
    }

    fn check(&mut self, kind: PacketType, line: &[u8], expected: &[u8]) {
        let mut out = Vec::new();
        let info = self.decompressor.decompress(Duration::ZERO, line, &mut out);
        let info = info.unwrap_or_else(|error| panic!("{error}: {kind} {line:02x?}"));
        assert_eq!(info.packet, kind);
        assert_eq!(out, expected, "{kind} {line:02x?}");
    }
}

/// The header `line`, whose last base octet lacks its CRC at `at`, becomes the reference after `change`.
fn vector(v6: bool, kind: PacketType, line: &[u8], at: usize, change: impl Fn(&mut Ip, &mut Rtp)) {
    let (mut ip, mut rtp) = reference(v6);
    change(&mut ip, &mut rtp);
    let expected = packet(&ip, &rtp);
    let mut line = line.to_vec();
    let is_long = matches!(kind, PacketType::Uor2 | PacketType::Uor2Id | PacketType::Uor2Ts);
    line[at] |= if is_long { crc7(covered(&expected)) } else { crc3(covered(&expected)) };
    line.extend_from_slice(PAYLOAD);
    Line::new(v6).check(kind, &line, &expected);
}

/// By `n` packets: SN, identification, and TS by its stride.
fn step(ip: &mut Ip, rtp: &mut Rtp, n: u16) {
    rtp.sn += n;
    rtp.timestamp += 160 * u32::from(n);
    if !ip.v6 {
        ip.id += n;
    }
}

#[test]
fn the_ir_packet_is_what_the_compressor_writes() {
    for v6 in [false, true] {
        let (ip, rtp) = reference(v6);
        let mut compressor = Compressor::new(CompressorConfig::default());
        let mut line = Vec::new();
        let mut before = ip.clone();
        before.id -= 1;
        let earlier = Rtp { sn: rtp.sn - 1, timestamp: rtp.timestamp - 160, ..rtp.clone() };
        compressor.compress(Duration::ZERO, &packet(&before, &earlier), &mut line).unwrap();
        line.clear();
        compressor.compress(Duration::ZERO, &packet(&ip, &rtp), &mut line).unwrap();
        assert_eq!(line, ir(v6));
    }
}

#[test]
fn type_0() {
    // 0 | SN 4 | CRC 3.
    for v6 in [false, true] {
        vector(v6, PacketType::Uo0, &[0b0_0001_000], 0, |ip, rtp| step(ip, rtp, 1));
        vector(v6, PacketType::Uo0, &[0b0_1110_000], 0, |ip, rtp| step(ip, rtp, 14));
        // p = 1: one packet back.
        vector(v6, PacketType::Uo0, &[0b0_1111_000], 0, |ip, rtp| {
            rtp.sn -= 1;
            rtp.timestamp -= 160;
            ip.id -= u16::from(!ip.v6);
        });
    }
}

#[test]
fn type_1_without_t() {
    // 10 | TS 6 / M | SN 4 | CRC 3. 1000 is 15 * 64 + 40: 50 = 0b110010 means 1010.
    vector(true, PacketType::Uo1, &[0b10_110010, 0b1_0010_000], 1, |_, rtp| {
        (rtp.sn, rtp.timestamp, rtp.marker) = (0x1002, 1_010 * 160, true);
    });
    // p = 15: 985 is the least, with 0b011001.
    vector(true, PacketType::Uo1, &[0b10_011001, 0b0_0001_000], 1, |_, rtp| {
        (rtp.sn, rtp.timestamp) = (0x1001, 985 * 160);
    });
}

#[test]
fn type_1_with_t() {
    // 10 | T = 0 | IP-ID 5 / X | SN 4 | CRC 3. The offset goes from 0x1003 to 0x1022: low bits 00010.
    vector(false, PacketType::Uo1Id, &[0b10_0_00010, 0b0_0010_000], 1, |ip, rtp| {
        step(ip, rtp, 2);
        ip.id = 0x1002 + 0x1022;
    });
    // 10 | T = 1 | TS 5 / M | SN 4 | CRC 3. 1000 is 31 * 32 + 8: 0b11111 means 1023 less 32 or more: [993, 1024].
    vector(false, PacketType::Uo1Ts, &[0b10_1_11111, 0b1_0010_000], 1, |ip, rtp| {
        step(ip, rtp, 2);
        (rtp.timestamp, rtp.marker) = (1_023 * 160, true);
    });
}

#[test]
fn type_1_id_with_extensions() {
    // Extension 0: 00 | SN 3 | +T = IP-ID 3. SN 0010 011 = 0x13; offset 00010 111 = 0x17.
    vector(false, PacketType::Uo1Id, &[0b10_0_00010, 0b1_0010_000, 0b00_011_111], 1, |ip, rtp| {
        step(ip, rtp, 0x13);
        ip.id = 0x1013 + 0x1017;
    });
    // Extension 1: -T = TS 8. 1000 is 3 * 256 + 232; p = 63.
    vector(false, PacketType::Uo1Id, &[0b10_0_00010, 0b1_0010_000, 0b01_011_111, 240], 1, |ip, rtp| {
        step(ip, rtp, 0x13);
        ip.id = 0x1013 + 0x1017;
        rtp.timestamp = 1_008 * 160;
    });
    // Extension 2: +T 11 bits, so IP-ID has 16: 00100 000 00000101 = 0x2005.
    vector(false, PacketType::Uo1Id, &[0b10_0_00100, 0b1_0010_000, 0b10_011_000, 0x05, 240], 1, |ip, rtp| {
        step(ip, rtp, 0x13);
        ip.id = 0x1013 + 0x2005;
        rtp.timestamp = 1_008 * 160;
    });
    // Extension 3 with TTL, which is for this packet only: 11 | S | R-TS | Tsc | I | ip | rtp.
    let line = [0b10_0_00011, 0b0_0010_000 | 0x80, 0b11_0_0_1_0_1_0, 0b0100_0100, 33];
    let (mut ip, mut rtp) = reference(false);
    step(&mut ip, &mut rtp, 2);
    let mut first = ip.clone();
    first.ttl = 33;
    let expected = packet(&first, &rtp);
    let mut first_line = line.to_vec();
    first_line[1] |= crc3(covered(&expected));
    first_line.extend_from_slice(PAYLOAD);
    let mut line = Line::new(false);
    line.check(PacketType::Uo1Id, &first_line, &expected);
    step(&mut ip, &mut rtp, 1);
    let expected = packet(&ip, &rtp);
    let mut second_line = vec![0b0_0011_000 | crc3(covered(&expected))];
    second_line.extend_from_slice(PAYLOAD);
    line.check(PacketType::Uo0, &second_line, &expected);
}

#[test]
fn type_2_without_t() {
    // 110 | TS 5 / TS 1 | M | SN 6 / X | CRC 7. TS 110010 = 1010; SN 000010.
    vector(true, PacketType::Uor2, &[0b110_11001, 0b0_1_000010, 0b0_0000000], 2, |_, rtp| {
        (rtp.sn, rtp.timestamp, rtp.marker) = (0x1002, 1_010 * 160, true);
    });
    // Extension 0: SN 000010 100 = 0x14, TS 111110 101 = 501: of 9 bits with p = 127, that is 1013 (1024 - 11).
    vector(true, PacketType::Uor2, &[0b110_11111, 0b0_0_000010, 0x80, 0b00_100_101], 2, |_, rtp| {
        (rtp.sn, rtp.timestamp) = (0x1014, 1_013 * 160);
    });
    // Extension 1: TS 000000 100 00000001 = 1025.
    vector(true, PacketType::Uor2, &[0b110_00000, 0b0_0_000010, 0x80, 0b01_100_100, 0b00000001], 2, |_, rtp| {
        (rtp.sn, rtp.timestamp) = (0x1014, 1_025 * 160);
    });
    // Extension 2: TS 000000 001 00000000 00000001 = 65537.
    vector(true, PacketType::Uor2, &[0b110_00000, 0b0_0_000010, 0x80, 0b10_100_001, 0, 1], 2, |_, rtp| {
        (rtp.sn, rtp.timestamp) = (0x1014, 65_537 * 160);
    });
    // Extension 3 with all but lists: S, TS unscaled in 4 octets, TOS and TTL, payload type with padding, stride.
    let line = [
        0b110_00000,
        0b0_1_010010, // TS 000000 in front of 29 bits, M, SN 010010
        0x80,
        0b11_1_1_0_0_1_1, // S, R-TS, not scaled, no IP-ID, ip, rtp
        0b1100_0000,      // TOS, TTL
        0x05,             // SN: 010010 00000101 is 0x1205
        0xe1,
        0x23,
        0x45,
        0x67, // TS in 29 bits
        0xb8,
        63,
        0b01_1_1_1_0_1_0, // mode U, R-PT, M, R-X, no CSRC, TSS
        0x80 | 97,
        0x81,
        0x40, // 320
    ];
    vector(true, PacketType::Uor2, &line, 2, |ip, rtp| {
        (ip.tos, ip.ttl) = (0xb8, 63);
        (rtp.sn, rtp.timestamp, rtp.marker) = (0x1205, 0x0123_4567, true);
        (rtp.payload_type, rtp.padding, rtp.extension) = (97, true, true);
    });
}

#[test]
fn type_2_with_t() {
    // 110 | IP-ID 5 / T = 0 | M | SN 6 / X | CRC 7.
    vector(false, PacketType::Uor2Id, &[0b110_00101, 0b0_1_000010, 0], 2, |ip, rtp| {
        step(ip, rtp, 2);
        (ip.id, rtp.marker) = (0x1002 + 0x1005, true);
    });
    // 110 | TS 5 / T = 1 | M | SN 6 / X | CRC 7.
    vector(false, PacketType::Uor2Ts, &[0b110_11111, 0b1_0_000010, 0], 2, |ip, rtp| {
        step(ip, rtp, 2);
        rtp.timestamp = 1_023 * 160;
    });
    // UOR-2-ID with extension 2: IP-ID 00100 000 00000101, TS 240 of 8 bits.
    vector(false, PacketType::Uor2Id, &[0b110_00100, 0b0_0_000010, 0x80, 0b10_011_000, 5, 240], 2, |ip, rtp| {
        step(ip, rtp, 0x13);
        (ip.id, rtp.timestamp) = (0x1013 + 0x2005, 1_008 * 160);
    });
    // UOR-2-TS with extension 1: TS 11111 010 = 250 of 8 bits, IP-ID 0x44 of 8.
    vector(false, PacketType::Uor2Ts, &[0b110_11111, 0b1_0_000010, 0x80, 0b01_011_010, 0x44], 2, |ip, rtp| {
        step(ip, rtp, 0x13);
        (ip.id, rtp.timestamp) = (0x1013 + 0x1044, 1_018 * 160);
    });
    // UOR-2-TS with extension 2: TS 00000 100 00000001 = 1025, IP-ID 0x44.
    vector(false, PacketType::Uor2Ts, &[0b110_00000, 0b1_0_000010, 0x80, 0b10_011_100, 1, 0x44], 2, |ip, rtp| {
        step(ip, rtp, 0x13);
        (ip.id, rtp.timestamp) = (0x1013 + 0x1044, 1_025 * 160);
    });
    // Extension 3 with I and DF, and the identification's octets from now on swapped (NBO = 0).
    let line = [0b110_00000, 0b0_0_000010, 0x80, 0b11_0_0_1_1_1_0, 0b0010_0000, 0x30, 0x05];
    vector(false, PacketType::Uor2Id, &line, 2, |ip, rtp| {
        step(ip, rtp, 2);
        (ip.id, ip.df) = ((0x1002u16 + 0x3005).swap_bytes(), true);
    });
}

#[test]
fn an_extension_that_makes_the_identification_random_changes_the_base_header() {
    // RFC 4815 8.3: RND = 1 in extension 3, so there is no T bit. TS 110010 = 1010; the identification follows.
    let line = [0b110_11001, 0b0_0_000010, 0x80, 0b11_0_0_1_0_1_0, 0b0000_0110, 0xca, 0xfe];
    vector(false, PacketType::Uor2, &line, 2, |ip, rtp| {
        (rtp.sn, rtp.timestamp, ip.id) = (0x1002, 1_010 * 160, 0xcafe);
    });
}

#[test]
fn ir_dyn_and_reserved_types() {
    let (mut ip, mut rtp) = reference(false);
    (ip.ttl, ip.id, ip.df) = (9, 77, true);
    (rtp.sn, rtp.timestamp, rtp.payload_type) = (7, 99, 18);
    // TOS, TTL, identification, DF and NBO, list; checksum; RTP without RX.
    let mut bytes = vec![0xf8, 0x01, 0x00, 0, 9, 0, 77, 0xa0, 0, 0, 0, 0x80, 18, 0, 7, 0, 0, 0, 99, 0];
    bytes[2] = crc8(&bytes);
    bytes.extend_from_slice(PAYLOAD);
    let mut line = Line::new(false);
    line.check(PacketType::IrDyn, &bytes, &packet(&ip, &rtp));
    for first in [0xf9, 0xfa, 0xfb, 0xe5, 0xff] {
        assert!(line.decompressor.decompress(Duration::ZERO, &[first, 0, 0, 0, 0], &mut Vec::new()).is_err());
    }
    let mut out = Vec::new();
    let nothing = line.decompressor.decompress(Duration::ZERO, &[0xe0, 0xf1, 9, 0xe0, 0xf2, 0x20, 1], &mut out);
    assert_eq!(nothing, Err(DecompressError::NoPacket));
    assert_eq!(line.decompressor.piggybacked(), [0xf1, 9, 0xf2, 0x20, 1]);
}

/// The formats of the profiles without RTP, on a large CID.
#[test]
fn udp_esp_and_ip() {
    let ip = Ip { id: 0x2003, ..Ip::v4() };
    let statics = [0x40, 17, 10, 0, 0, 1, 192, 0, 2, 7];
    let dynamics = [0, 64, 0x20, 0x03, 0x20, 0];
    // CID 300 is 10 000001 00101100.
    let start = |profile: u8, protocol: u8, more_static: &[u8], more_dynamic: &[u8], first: u8| {
        let mut line = vec![first, 0x81, 0x2c, profile, 0];
        line.extend_from_slice(&statics);
        line[6] = protocol;
        line.extend_from_slice(more_static);
        line.extend_from_slice(&dynamics);
        line.extend_from_slice(more_dynamic);
        line[4] = crc8(&line);
        line.extend_from_slice(PAYLOAD);
        line
    };
    let esp = |ip: &Ip, sn: u32| ip.esp(0x0102_0304, sn, PAYLOAD);
    let udp = |ip: &Ip| ip.udp((0x9c40, 0x138c), false, PAYLOAD);
    let other = |ip: &Ip| ip.wrap(132, PAYLOAD);
    let config = || DecompressorConfig { max_cid: 400, ..DecompressorConfig::default() };

    // The bit D: others send a dynamic chain in UDP and IP without setting it.
    for first in [0xfc, 0xfd] {
        for (profile, line, packet) in [
            (Profile::Udp, start(2, 17, &[0x9c, 0x40, 0x13, 0x8c], &[0, 0, 0x10, 0], first), udp(&ip)),
            (Profile::Esp, start(3, 50, &[1, 2, 3, 4], &[0, 0, 0x10, 0], first), esp(&ip, 0x1000)),
            (Profile::Ip, start(4, 132, &[], &[0x10, 0], first), other(&ip)),
        ] {
            let mut decompressor = Decompressor::new(config());
            let mut out = Vec::new();
            let info = decompressor.decompress(Duration::ZERO, &line, &mut out).unwrap();
            assert_eq!((info.profile, info.cid, &out), (profile, 300, &packet));
            let covered = |packet: &[u8]| {
                let (ip, rest) = packet.split_at(20);
                let mut covered = pick(ip, &[(1, 2), (7, 10), (13, 20)]);
                let has_more = profile != Profile::Ip;
                if has_more {
                    covered.extend(pick(rest, &[(1, 4)]));
                }
                covered.extend(pick(ip, &[(3, 4), (5, 6), (11, 12)]));
                if has_more {
                    covered.extend(pick(rest, &[(5, 8)]));
                }
                covered
            };
            let packet = |sn: u16, offset: u16| {
                let ip = Ip { id: sn.wrapping_add(offset), ..ip.clone() };
                match profile {
                    Profile::Udp => udp(&ip),
                    Profile::Esp => esp(&ip, sn.into()),
                    _ => other(&ip),
                }
            };
            let mut check = |kind: PacketType, bytes: &[u8], at: usize, expected: &[u8]| {
                let mut line = vec![bytes[0], 0x81, 0x2c];
                line.extend_from_slice(&bytes[1..]);
                line[if at == 0 { 0 } else { at + 2 }] |= match kind {
                    PacketType::Uor2 => crc7(covered(expected)),
                    _ => crc3(covered(expected)),
                };
                line.extend_from_slice(PAYLOAD);
                let mut out = Vec::new();
                let info = decompressor.decompress(Duration::ZERO, &line, &mut out);
                let info = info.unwrap_or_else(|error| panic!("{profile}, {kind}: {error}"));
                assert_eq!((info.packet, out.as_slice()), (kind, expected), "{profile}");
            };
            // UO-0: 0 | SN 4 | CRC 3.
            check(PacketType::Uo0, &[0b0_0001_000], 0, &packet(0x1001, 0x1003));
            // UO-1: 10 | IP-ID 6 / SN 5 | CRC 3. Offset 0x1008.
            check(PacketType::Uo1, &[0b10_001000, 0b00010_000], 1, &packet(0x1002, 0x1008));
            // UOR-2: 110 | SN 5 / X | CRC 7.
            check(PacketType::Uor2, &[0b110_00011, 0], 1, &packet(0x1003, 0x1008));
            // Extension 0: SN 00011 001 = 0x19; IP-ID 001: the next offset that ends so is 0x1009.
            check(PacketType::Uor2, &[0b110_00011, 0x80, 0b00_001_001], 1, &packet(0x1019, 0x1009));
            // Extension 1: SN 00011 010 = 0x1a; IP-ID 11 bits: 010 00000001 = 0x201.
            check(PacketType::Uor2, &[0b110_00011, 0x80, 0b01_010_010, 1], 1, &packet(0x101a, 0x1201));
            // Extension 3: S, mode O, I: SN 00010 00000000 = 0x200 of 13 bits; IP-ID 16 bits.
            check(PacketType::Uor2, &[0b110_10010, 0x80, 0b11_1_10_1_0_0, 0, 0x33, 0x44], 1, &packet(0x1200, 0x3344));
        }
    }
}
