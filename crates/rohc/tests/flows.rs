//! Whole flows through compressor, link and decompressor.

mod common;

use core::time::Duration;

use common::{Ip, Rtp};
use rohc::{
    CompressInfo, Compressor, CompressorConfig, DecompressError, Decompressor, DecompressorConfig, Mode, PacketType,
    Profile,
};

const SPACING: Duration = Duration::from_millis(20);

/// Both ends and the time.
struct Pair {
    compressor: Compressor,
    decompressor: Decompressor,
    now: Duration,
}

impl Pair {
    fn new(mode: Mode) -> Self {
        Self::with(CompressorConfig::default(), mode)
    }

    fn with(config: CompressorConfig, mode: Mode) -> Self {
        let decompressor = DecompressorConfig { max_cid: config.max_cid, mode, ..DecompressorConfig::default() };
        Self {
            compressor: Compressor::new(config),
            decompressor: Decompressor::new(decompressor),
            now: Duration::from_secs(1),
        }
    }

    fn send(&mut self, packet: &[u8]) -> (CompressInfo, Vec<u8>) {
        self.now += SPACING;
        let mut line = Vec::new();
        let info = self.compressor.compress(self.now, packet, &mut line).expect("an IP packet");
        assert_eq!(line.len() - info.header_after, packet.len() - info.header_before, "{info:?}");
        (info, line)
    }

    /// The packet must come out as it went in.
    fn pass(&mut self, packet: &[u8]) -> CompressInfo {
        let (info, line) = self.send(packet);
        let mut out = vec![0xaa];
        let received = self.decompressor.decompress(self.now, &line, &mut out);
        let received = received.unwrap_or_else(|error| panic!("{error}: {info:?} {line:02x?}"));
        assert_eq!(out[1..], *packet, "{info:?} {line:02x?}");
        assert_eq!((received.profile, received.cid, received.packet), (info.profile, info.cid, info.packet));
        assert_eq!((received.header_before, received.header_after), (info.header_after, info.header_before));
        self.feedback();
        info
    }

    fn feedback(&mut self) {
        let mut feedback = Vec::new();
        self.decompressor.take_feedback(&mut feedback);
        self.compressor.feedback(self.now, &feedback).expect("feedback for a context");
    }
}

fn mean_header(mode: Mode, packets: impl Iterator<Item = Vec<u8>>) -> f64 {
    let mut pair = Pair::new(mode);
    let mut count = 0;
    let mut octets = 0;
    for packet in packets {
        octets += pair.pass(&packet).header_after;
        count += 1;
    }
    assert_eq!(count, 2_000);
    octets as f64 / f64::from(count)
}

#[test]
fn mean_headers_keep_what_is_promised() {
    for mode in [Mode::Unidirectional, Mode::Optimistic] {
        let payload = |n: u32| n.to_be_bytes().repeat(5);
        let udp = mean_header(mode, (0..2_000).map(|n| Ip::v6().udp((9, 10), true, &payload(n))));
        assert!(udp <= 3.1, "{mode:?}: UDP {udp}");
        let rtp = |n: u32| Rtp { sn: n as u16, timestamp: 160 * n, ..Rtp::new() };
        let steady = mean_header(mode, (0..2_000).map(|n| rtp(n).packet(&Ip::v6(), &payload(n))));
        assert!(steady <= 3.2, "{mode:?}: RTP {steady}");
        let esp = mean_header(mode, (0..2_000).map(|n| Ip::v6().esp(7, n, &payload(n))));
        assert!(esp <= 1.3, "{mode:?}: ESP {esp}");
        // Spurts of 60 packets (1.2 s) with a marker, and gaps of 1.6 s on the mean, all different.
        let spurts = mean_header(
            mode,
            (0..2_000).map(|n| {
                let spurt = n / 60;
                let gap = spurt * 80 + spurt % 5 * 17;
                let rtp = Rtp { timestamp: 160 * (n + gap), marker: n % 60 == 0, ..rtp(n) };
                rtp.packet(&Ip::v6(), &payload(n))
            }),
        );
        assert!(spurts <= 3.5, "{mode:?}: RTP with talk spurts {spurts}");
    }
}

#[test]
fn every_profile_takes_its_packets() {
    let mut pair = Pair::new(Mode::Optimistic);
    for n in 0..50u16 {
        let (v4, v6) = (Ip { id: 100 + n, ..Ip::v4() }, Ip::v6());
        let rtp = Rtp { sn: n, timestamp: 160 * u32::from(n), ..Rtp::new() };
        assert_eq!(pair.pass(&rtp.packet(&v4, b"rtp")).profile, Profile::Rtp);
        assert_eq!(pair.pass(&rtp.packet(&v6, b"rtp")).profile, Profile::Rtp);
        assert_eq!(pair.pass(&v4.udp((1, 2), true, b"udp")).profile, Profile::Udp);
        assert_eq!(pair.pass(&v4.udp((1, 3), false, b"udp")).profile, Profile::Udp);
        assert_eq!(pair.pass(&v6.esp(1, n.into(), b"esp")).profile, Profile::Esp);
        assert_eq!(pair.pass(&v6.wrap(132, b"sctp")).profile, Profile::Ip);
        assert_eq!(pair.pass(&v4.wrap(132, b"sctp")).profile, Profile::Ip);
        let fragment = [0x45, 0, 0, 24, 0, 0, 0x20, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 1, 2, 3, 4];
        assert_eq!(pair.pass(&fragment).profile, Profile::Uncompressed);
    }
    assert_eq!(pair.compressor.contexts(), 8);
}

#[test]
fn headers_shrink_to_the_least() {
    let mut pair = Pair::new(Mode::Optimistic);
    let mut last = Vec::new();
    for n in 0..20u16 {
        let inner = Ip { id: 500 + n, ..Ip::v4() };
        let outer = Ip { id: 9_000 + 3 * n, ..Ip::v4() };
        let swapped = Ip { id: (77 + n).swap_bytes(), ..Ip::v4() };
        let random = Ip { id: n.wrapping_mul(0x9e37), ..Ip::v4() };
        let constant = Ip { id: 0, df: true, ..Ip::v4() };
        last = vec![
            pair.pass(&Ip::v4().udp((1, 1), false, b"x")),
            pair.pass(&inner.udp((1, 2), false, b"x")),
            pair.pass(&swapped.udp((1, 3), false, b"x")),
            pair.pass(&random.udp((1, 4), false, b"x")),
            pair.pass(&constant.wrap(132, b"x")),
            pair.pass(&Ip::v6().wrap(4, &inner.udp((1, 5), false, b"x"))),
            pair.pass(&Ip::v4().wrap(41, &Ip::v6().udp((1, 6), true, b"x"))),
            pair.pass(&outer.wrap(4, &inner.wrap(50, b"12345678x"))),
            pair.pass(&Ip::v6().wrap(41, &Ip::v6().wrap(41, &Ip::v6().wrap(132, b"x")))),
        ];
    }
    let lengths: Vec<_> =
        last.iter().map(|info| (info.packet, info.header_after - usize::from(info.cid != 0))).collect();
    let uo0 = |length| (PacketType::Uo0, length);
    assert_eq!(
        lengths,
        [
            // A constant identification is sent as it is: SID is for profile 0x0004.
            uo0(3),
            uo0(1),
            uo0(1),
            uo0(3),
            uo0(1),
            uo0(1),
            // UDP's checksum, and the outer header's constant identification.
            uo0(5),
            // The outer identification runs ahead by two each time: 11 bits of it in extension 2.
            (PacketType::Uor2, 5),
            // Two octets and an empty list of the third header.
            uo0(4),
        ]
    );
}

#[test]
fn a_burst_of_losses_is_whole_again_within_ten_packets() {
    for delay in [0, 1, 3, 6] {
        for lost in 1..40 {
            let mut pair = Pair::new(Mode::Optimistic);
            // Feedback takes `delay` packets to come back.
            let mut on_the_way: Vec<(usize, Vec<u8>)> = Vec::new();
            let (mut wrong, mut missing) = (0, 0);
            for n in 0..400usize {
                let rtp = Rtp { sn: 65_400u16.wrapping_add(n as u16), timestamp: 160 * n as u32, ..Rtp::new() };
                let packet = rtp.packet(&Ip { id: 7 * n as u16, ..Ip::v4() }, &[n as u8; 20]);
                let (_, line) = pair.send(&packet);
                let is_lost = (100..100 + lost).contains(&n);
                if !is_lost {
                    let mut out = Vec::new();
                    match pair.decompressor.decompress(pair.now, &line, &mut out) {
                        Ok(_) => wrong += usize::from(out != packet),
                        Err(_) => {
                            missing += 1;
                            assert!(n < 100 + lost + 10, "lost {lost}, delay {delay}: packet {n} is missing");
                        }
                    }
                }
                let mut feedback = Vec::new();
                pair.decompressor.take_feedback(&mut feedback);
                if !feedback.is_empty() {
                    on_the_way.push((n + delay, feedback));
                }
                on_the_way.retain(|(at, feedback)| {
                    if *at <= n {
                        pair.compressor.feedback(pair.now, feedback).unwrap();
                    }
                    *at > n
                });
            }
            assert_eq!(wrong, 0);
            if lost <= 14 {
                assert_eq!(missing, 0, "lost {lost}");
            }
        }
    }
}

#[test]
fn without_feedback_mode_u_recovers_by_itself() {
    let config = CompressorConfig { fo_refresh_packets: 50, ir_refresh_packets: 170, ..CompressorConfig::default() };
    let mut pair = Pair::with(config, Mode::Unidirectional);
    let mut delivered = 0;
    for n in 0..1_000u32 {
        let packet = Ip::v6().udp((1, 2), true, &n.to_be_bytes());
        let (_, mut line) = pair.send(&packet);
        // The first seconds are lost, and later a decompressor forgets everything.
        if n < 60 {
            continue;
        }
        if n == 500 {
            pair.decompressor =
                Decompressor::new(DecompressorConfig { mode: Mode::Unidirectional, ..DecompressorConfig::default() });
        }
        if n % 100 == 77 {
            line[0] ^= 0x10;
        }
        let mut out = Vec::new();
        if pair.decompressor.decompress(pair.now, &line, &mut out).is_ok() {
            assert_eq!(out, packet);
            delivered += 1;
        }
        let mut feedback = Vec::new();
        pair.decompressor.take_feedback(&mut feedback);
        assert!(feedback.is_empty());
    }
    assert!(delivered > 600, "{delivered}");
}

#[test]
fn an_empty_payload_goes_uncompressed_until_the_context_is_there() {
    let mut pair = Pair::new(Mode::Optimistic);
    assert_eq!(pair.pass(&Ip::v6().udp((1, 2), true, b"")).profile, Profile::Uncompressed);
    for _ in 0..5 {
        pair.pass(&Ip::v6().udp((1, 2), true, b"x"));
    }
    let info = pair.pass(&Ip::v6().udp((1, 2), true, b""));
    assert_eq!((info.profile, info.packet), (Profile::Udp, PacketType::Uo0));
}

#[test]
fn wrong_checksums_go_uncompressed() {
    let mut pair = Pair::new(Mode::Optimistic);
    for _ in 0..5 {
        let mut packet = Ip::v6().udp((1, 2), true, b"abcd");
        *packet.last_mut().unwrap() ^= 1;
        assert_eq!(pair.pass(&packet).profile, Profile::Uncompressed);
    }
}

#[test]
fn a_lost_context_is_asked_for() {
    let mut pair = Pair::new(Mode::Optimistic);
    let packet = |n: u8| Ip::v6().udp((1, 2), true, &[n; 4]);
    for n in 0..10 {
        pair.pass(&packet(n));
    }
    pair.decompressor = Decompressor::new(DecompressorConfig::default());
    let (info, line) = pair.send(&packet(10));
    assert_eq!(info.packet, PacketType::Uo0);
    let error = pair.decompressor.decompress(pair.now, &line, &mut Vec::new());
    assert_eq!(error, Err(DecompressError::NoContext { cid: 0 }));
    pair.feedback();
    assert_eq!(pair.pass(&packet(11)).packet, PacketType::Ir);
}
