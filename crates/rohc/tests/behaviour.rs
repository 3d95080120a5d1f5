//! States, modes, feedback and repair, one behaviour a test.

mod common;

use core::time::Duration;

use common::{Ip, Rtp};
use rohc::{
    CompressInfo, Compressor, CompressorConfig, DecompressError, Decompressor, DecompressorConfig, FeedbackError,
    PacketType, Profile,
};

/// A FEEDBACK-2 element for CID 0 with a CRC option (RFC 3095 5.7.6.3), as the peer of a compressor sends it.
fn feedback(ack_type: u8, mode: u8, sn: u16, more: &[u8]) -> Vec<u8> {
    let mut data = vec![ack_type << 6 | mode << 4 | (sn >> 8) as u8 & 0xf, sn as u8];
    data.extend_from_slice(more);
    data.extend_from_slice(&[0x11, 0]);
    let mut crc = 0xffu8;
    for byte in &data {
        crc ^= byte;
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xe0 } else { crc >> 1 };
        }
    }
    *data.last_mut().expect("not empty") = crc;
    let mut element = vec![0xf0 | data.len() as u8];
    element.extend_from_slice(&data);
    element
}

/// A compressor and one RTP flow.
struct Sender {
    compressor: Compressor,
    rtp: Rtp,
    now: Duration,
    line: Vec<u8>,
}

impl Sender {
    fn new(config: CompressorConfig) -> Self {
        Self { compressor: Compressor::new(config), rtp: Rtp::new(), now: Duration::ZERO, line: Vec::new() }
    }

    fn packet(&self) -> Vec<u8> {
        self.rtp.packet(&Ip::v6(), b"voice")
    }

    fn send(&mut self) -> CompressInfo {
        self.now += Duration::from_millis(20);
        self.rtp.sn = self.rtp.sn.wrapping_add(1);
        self.rtp.timestamp = self.rtp.timestamp.wrapping_add(160);
        self.line.clear();
        self.compressor.compress(self.now, &self.packet(), &mut self.line).expect("an IP packet")
    }

    fn settle(&mut self) {
        for _ in 0..10 {
            self.send();
        }
        assert_eq!(self.send().packet, PacketType::Uo0);
    }

    fn tell(&mut self, ack_type: u8, mode: u8, more: &[u8]) {
        let element = feedback(ack_type, mode, self.rtp.sn, more);
        self.compressor.feedback(self.now, &element).expect("feedback for a context");
    }
}

const ACK: u8 = 0;
const NACK: u8 = 1;
const STATIC_NACK: u8 = 2;
const U: u8 = 1;
const O: u8 = 2;

fn refreshing() -> CompressorConfig {
    CompressorConfig { ir_refresh_packets: 40, fo_refresh_packets: 15, ..CompressorConfig::default() }
}

#[test]
fn mode_u_refreshes_and_mode_o_does_not() {
    for (tell, refreshes) in [(None, true), (Some(true), false), (Some(false), true)] {
        let mut sender = Sender::new(refreshing());
        sender.settle();
        match tell {
            Some(true) => sender.tell(ACK, O, &[]),
            // Without a CRC nothing is said about the mode (RFC 4815 3.2).
            Some(false) => sender.compressor.feedback(sender.now, &[0xf2, 0x20, sender.rtp.sn as u8]).unwrap(),
            None => {}
        }
        let before = *sender.compressor.counters();
        for _ in 0..100 {
            sender.send();
        }
        let after = *sender.compressor.counters();
        assert_eq!((after.ir > before.ir, after.ir_dyn > before.ir_dyn), (refreshes, refreshes), "{tell:?}");
    }
}

#[test]
fn contexts_are_refreshed_by_time_too() {
    let mut sender = Sender::new(CompressorConfig::default());
    sender.settle();
    sender.now += Duration::from_secs(20);
    assert_eq!(sender.send().packet, PacketType::IrDyn);
    sender.now += Duration::from_secs(50);
    assert_eq!(sender.send().packet, PacketType::Ir);
    assert_eq!(sender.send().packet, PacketType::Uo0);
}

#[test]
fn acknowledgements_end_the_repeats() {
    let mut sender = Sender::new(CompressorConfig::default());
    assert_eq!(sender.send().packet, PacketType::Ir);
    assert_eq!(sender.send().packet, PacketType::Ir);
    sender.tell(ACK, O, &[]);
    assert_eq!(sender.send().packet, PacketType::Uo0);
    // A change is repeated until its first packet is acknowledged; an older one says nothing.
    let before = sender.rtp.sn;
    sender.rtp.payload_type = 9;
    assert_eq!(sender.send().packet, PacketType::Uor2);
    sender.compressor.feedback(sender.now, &feedback(ACK, O, before, &[])).unwrap();
    assert_eq!(sender.send().packet, PacketType::Uor2);
    sender.tell(ACK, O, &[]);
    assert_eq!(sender.send().packet, PacketType::Uo0);
}

#[test]
fn negative_acknowledgements_bring_the_context_again() {
    let mut sender = Sender::new(CompressorConfig::default());
    sender.settle();
    sender.tell(NACK, O, &[]);
    assert_eq!([sender.send(), sender.send(), sender.send(), sender.send()].map(|info| info.packet), {
        [PacketType::IrDyn, PacketType::IrDyn, PacketType::IrDyn, PacketType::Uo0]
    });
    sender.tell(STATIC_NACK, O, &[0x30]);
    assert_eq!([sender.send(), sender.send(), sender.send(), sender.send()].map(|info| info.packet), {
        [PacketType::Ir, PacketType::Ir, PacketType::Ir, PacketType::Uo0]
    });
}

#[test]
fn the_return_to_mode_u_is_a_handshake() {
    let mut sender = Sender::new(CompressorConfig::default());
    sender.settle();
    sender.tell(ACK, O, &[]);
    sender.send();
    sender.tell(ACK, U, &[]);
    // RFC 3095 5.6.1: only formats common to all modes, with the mode in them.
    for _ in 0..5 {
        let info = sender.send();
        assert_eq!(info.packet, PacketType::Uor2);
        // Extension 3 has the RTP octet with mode U.
        assert_eq!((sender.line[3] & 0xc1, sender.line[4] >> 6), (0xc1, U));
    }
    sender.tell(ACK, U, &[]);
    assert_eq!(sender.send().packet, PacketType::Uo0);
}

#[test]
fn a_rejected_flow_goes_uncompressed_for_a_while() {
    let mut sender = Sender::new(CompressorConfig::default());
    sender.settle();
    sender.tell(NACK, O, &[0x20]);
    assert_eq!(sender.send().profile, Profile::Uncompressed);
    sender.now += Duration::from_secs(59);
    assert_eq!(sender.send().profile, Profile::Uncompressed);
    sender.now += Duration::from_secs(2);
    assert_eq!(sender.send().profile, Profile::Rtp);
}

#[test]
fn wrong_feedback_changes_nothing() {
    let mut sender = Sender::new(CompressorConfig::default());
    sender.settle();
    let mut element = feedback(STATIC_NACK, O, sender.rtp.sn, &[]);
    element[2] ^= 1;
    assert_eq!(sender.compressor.feedback(sender.now, &element), Err(FeedbackError::Crc { cid: 0 }));
    let unknown = sender.compressor.feedback(sender.now, &[0xf3, 0xe7, 0x80, 0]);
    assert_eq!(unknown, Err(FeedbackError::NoContext { cid: 7 }));
    assert_eq!(sender.send().packet, PacketType::Uo0);
    // What follows a faulty element is taken all the same.
    element.extend(feedback(NACK, O, sender.rtp.sn, &[]));
    assert!(sender.compressor.feedback(sender.now, &element).is_err());
    assert_eq!(sender.send().packet, PacketType::IrDyn);
    assert_eq!(sender.compressor.counters().feedback_errors, 3);
}

/// A UDP flow over IPv4 without checksum, whose identification follows the sequence number: nothing but the
/// header's CRC protects it.
struct Bare {
    compressor: Compressor,
    decompressor: Decompressor,
    ip: Ip,
    now: Duration,
}

impl Bare {
    fn new() -> Self {
        let mut bare = Self {
            compressor: Compressor::new(CompressorConfig::default()),
            decompressor: Decompressor::new(DecompressorConfig::default()),
            ip: Ip::v4(),
            now: Duration::ZERO,
        };
        for _ in 0..20 {
            let (packet, line) = bare.send();
            assert_eq!(bare.receive(&line), Ok(packet));
        }
        bare
    }

    fn send(&mut self) -> (Vec<u8>, Vec<u8>) {
        self.now += Duration::from_millis(20);
        self.ip.id = self.ip.id.wrapping_add(1);
        let packet = self.ip.udp((1, 2), false, b"data");
        let mut line = Vec::new();
        self.compressor.compress(self.now, &packet, &mut line).expect("an IP packet");
        (packet, line)
    }

    fn receive(&mut self, line: &[u8]) -> Result<Vec<u8>, DecompressError> {
        let mut out = Vec::new();
        self.decompressor.decompress(self.now, line, &mut out).map(|_| out)
    }
}

#[test]
fn a_wraparound_is_found_by_the_time_and_confirmed() {
    // With others of these numbers the CRC-3 happens to pass at the wrong one, which nothing can tell here.
    for lost in [17, 25, 30] {
        let mut bare = Bare::new();
        for _ in 0..lost {
            bare.send();
        }
        let mut held_back = 0;
        for n in 0..10 {
            let (packet, line) = bare.send();
            match bare.receive(&line) {
                Ok(out) => assert_eq!(out, packet),
                Err(DecompressError::Unconfirmed { cid: 0 }) => held_back += 1,
                // A CRC-3 may pass at the wrong number; that is found by the next.
                Err(DecompressError::Crc { .. }) => {}
                Err(error) => panic!("{error}"),
            }
            assert!(n < 6 || held_back >= 2);
        }
        assert!(bare.decompressor.counters().repairs >= 1, "{lost}");
    }
}

#[test]
fn a_wrong_reference_is_found_by_the_one_before() {
    let mut bare = Bare::new();
    // A damaged UO-0 packet: the number is 5 ahead, and the CRC happens to be right for that.
    let (_, line) = bare.send();
    let forged = (0..8).find_map(|crc| {
        let mut forged = line.clone();
        forged[0] = (line[0] & 0xf8).wrapping_add(5 << 3) & 0x78 | crc;
        let mut copy = Bare::new();
        copy.send();
        copy.receive(&forged).ok().map(|_| forged)
    });
    let forged = forged.expect("one of eight CRCs is right");
    assert!(bare.receive(&forged).is_ok());
    // Two packets are held back, the third confirms.
    let mut results = Vec::new();
    for _ in 0..4 {
        let (packet, line) = bare.send();
        results.push(bare.receive(&line).map(|out| out == packet));
    }
    let held = Err(DecompressError::Unconfirmed { cid: 0 });
    assert_eq!(results, [held, held, Ok(true), Ok(true)]);
    assert_eq!(bare.decompressor.counters().repairs, 1);
}

#[test]
fn feedback_is_limited() {
    let mut decompressor = Decompressor::new(DecompressorConfig::default());
    let mut out = Vec::new();
    for n in 0..1_000u64 {
        // A UO-0 packet for a context that is not there, each millisecond.
        let _ = decompressor.decompress(Duration::from_millis(n), &[0x08, 1, 2, 3], &mut out);
    }
    assert_eq!(decompressor.counters().static_nacks, 10);
    assert_eq!(decompressor.counters().no_context, 1_000);
    let mut feedback = Vec::new();
    decompressor.take_feedback(&mut feedback);
    assert!(!feedback.is_empty() && feedback.len() < 100);
}

#[test]
fn a_caller_without_a_clock_recovers_from_lost_feedback() {
    let mut sender = Sender::new(CompressorConfig::default());
    let mut decompressor = Decompressor::new(DecompressorConfig::default());
    let give = |sender: &mut Sender, decompressor: &mut Decompressor, is_heard: bool| {
        sender.send();
        let result = decompressor.decompress(Duration::ZERO, &sender.line, &mut Vec::new());
        let mut feedback = Vec::new();
        decompressor.take_feedback(&mut feedback);
        if is_heard {
            sender.compressor.feedback(Duration::ZERO, &feedback).expect("feedback for a context");
        }
        result.is_ok()
    };
    assert!((0..20).all(|_| give(&mut sender, &mut decompressor, true)));
    decompressor = Decompressor::new(DecompressorConfig::default());
    // The first request for the context is lost.
    assert!(!give(&mut sender, &mut decompressor, false));
    assert!((0..20).filter(|_| !give(&mut sender, &mut decompressor, true)).count() < 10);
}

#[test]
fn a_checksum_that_fails_eight_times_brings_a_nack() {
    let mut sender = Sender::new(CompressorConfig::default());
    let mut decompressor = Decompressor::new(DecompressorConfig::default());
    let mut out = Vec::new();
    for _ in 0..10 {
        sender.send();
        decompressor.decompress(sender.now, &sender.line, &mut out).unwrap();
    }
    // As a rule it is the payload that is damaged.
    for _ in 0..8 {
        sender.send();
        *sender.line.last_mut().unwrap() ^= 1;
        let result = decompressor.decompress(sender.now, &sender.line, &mut out);
        assert_eq!(result, Err(DecompressError::Checksum { cid: 0 }));
    }
    assert_eq!((decompressor.counters().checksum_failures, decompressor.counters().nacks), (8, 1));
    // The NACK brings an IR-DYN packet, which repairs the context.
    let mut feedback = Vec::new();
    decompressor.take_feedback(&mut feedback);
    sender.compressor.feedback(sender.now, &feedback).unwrap();
    assert_eq!(sender.send().packet, PacketType::IrDyn);
    out.clear();
    decompressor.decompress(sender.now, &sender.line, &mut out).unwrap();
    assert_eq!(out, sender.packet());
}

#[test]
fn a_cid_that_is_used_again_keeps_its_mode() {
    let config = CompressorConfig { max_cid: 0, ..refreshing() };
    let mut sender = Sender::new(config);
    sender.settle();
    sender.tell(ACK, O, &[]);
    // Another flow of the same profile (RFC 4815 7.2.1) takes the only context.
    sender.rtp.ssrc = 99;
    assert_eq!(sender.send().packet, PacketType::Ir);
    sender.settle();
    let before = *sender.compressor.counters();
    for _ in 0..100 {
        sender.send();
    }
    assert_eq!((sender.compressor.counters().ir, sender.compressor.counters().contexts_reused), (before.ir, 1));
}

#[test]
fn rtp_is_known_by_port_or_by_its_looks() {
    let packets = |config: CompressorConfig, ports| {
        let mut compressor = Compressor::new(config);
        let packet = Ip::v6().udp(ports, true, &Rtp::new().wrap(b"voice"));
        compressor.compress(Duration::ZERO, &packet, &mut Vec::new()).unwrap().profile
    };
    let named = || CompressorConfig { rtp_ports: [7_000, 5_004].into_iter().collect(), ..Default::default() };
    let guessing = || CompressorConfig { rtp_heuristic: true, ..Default::default() };
    assert_eq!(packets(named(), (9, 7_000)), Profile::Rtp);
    assert_eq!(packets(named(), (7_000, 9)), Profile::Rtp);
    assert_eq!(packets(named(), (6_000, 6_000)), Profile::Udp);
    assert_eq!(packets(guessing(), (6_000, 6_000)), Profile::Rtp);
    assert_eq!(packets(guessing(), (6_001, 6_000)), Profile::Udp);
}

/// A lost burst would look the same where no checksum tells: the compressor says it with seven bits.
#[test]
fn a_pause_costs_a_longer_crc_and_no_packet() {
    let mut compressor = Compressor::new(CompressorConfig::default());
    let mut decompressor = Decompressor::new(DecompressorConfig::default());
    let mut now = Duration::ZERO;
    for n in 0..3_000u32 {
        let is_after_pause = n % 30 == 29;
        now += Duration::from_millis(if is_after_pause { 20 * u64::from(n % 60) } else { 20 });
        let packet = Ip::v6().esp(5, n, &[n as u8; 30]);
        let (mut line, mut out) = (Vec::new(), Vec::new());
        let info = compressor.compress(now, &packet, &mut line).unwrap();
        assert_eq!(info.packet == PacketType::Uo0, !is_after_pause && n > 0, "{n}: {info:?}");
        decompressor.decompress(now, &line, &mut out).unwrap();
        assert_eq!(out, packet);
        let mut feedback = Vec::new();
        decompressor.take_feedback(&mut feedback);
        compressor.feedback(now, &feedback).unwrap();
    }
}
