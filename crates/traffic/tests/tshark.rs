//! What a call sends, read by another implementation: tshark finds every message and stream whole.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "says what is skipped; helpers of tests may panic too")]

use std::io::Write as _;
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};

use engine::{Span, Time};
use traffic::sip::{CallConfig, Callee, Caller};
use traffic::{Application, VoiceConfig};

const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];
const PORTS: [u16; 2] = [5_060, 16_384];

/// A datagram as an IPv4 packet (RFC 791, RFC 768; UDP without checksum).
fn packet(from: usize, socket: usize, payload: &[u8]) -> Vec<u8> {
    let length = |header: usize| ((header + payload.len()) as u16).to_be_bytes();
    let mut ip = vec![0x45, 0, length(28)[0], length(28)[1], 0, 0, 0, 0, 64, 17, 0, 0];
    ip.extend(ADDRESSES[from].octets());
    ip.extend(ADDRESSES[1 - from].octets());
    let sum = wire::checksum::checksum(&ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    for field in [PORTS[socket].to_be_bytes(), PORTS[socket].to_be_bytes(), length(8), [0, 0]] {
        ip.extend(field);
    }
    ip.extend(payload);
    ip
}

/// A capture of one call, in the classic format with raw IP packets.
fn capture(compact: bool) -> Vec<u8> {
    let voice =
        VoiceConfig { payload: 33, every: Span::from_millis(200), rtp: Some(96), talk: None, frames: None, seed: 3 };
    let config = CallConfig {
        back: Some(VoiceConfig { seed: 4, ..voice.clone() }),
        voice,
        addresses: ADDRESSES.map(Into::into),
        ports: PORTS,
        hold: Span::from_secs(4),
        pause: Span::from_secs(60),
        ring: Span::from_secs(1),
        t1: Span::from_secs(2),
        compact,
        seed: 5,
    };
    let mut ends: [Box<dyn Application>; 2] = [Box::new(Caller::new(config.clone())), Box::new(Callee::new(config))];
    for end in &mut ends {
        end.begin(Time::ZERO..Time::ZERO + Span::from_secs(20));
    }
    let mut file: Vec<u8> = [0xa1b2_c3d4_u32, 0x0002_0004, 0, 0, 65_535, 101].map(u32::to_le_bytes).concat();
    // Version 2.4 is two numbers of 16 bits.
    file[4..8].copy_from_slice(&[2, 0, 4, 0]);
    let mut now = Time::ZERO;
    loop {
        let mut spoke = false;
        for from in 0..2 {
            let mut payload = Vec::new();
            while let Some(socket) = ends[from].send(now, &mut payload) {
                let packet = packet(from, socket, &payload);
                let (seconds, micros) = (now.as_nanos() / 1_000_000_000, now.as_nanos() % 1_000_000_000 / 1_000);
                let length = packet.len() as u32;
                file.extend([seconds as u32, micros as u32, length, length].map(u32::to_le_bytes).concat());
                file.extend(packet);
                ends[1 - from].receive(now, socket, &payload);
                payload.clear();
                spoke = true;
            }
        }
        if !spoke {
            match ends.iter().filter_map(|end| end.deadline()).min() {
                Some(next) => now = next,
                None => return file,
            }
        }
    }
}

fn tshark(capture: &[u8], arguments: &[&str]) -> Option<String> {
    let mut command = Command::new("tshark");
    command.args(["-r", "-", "-n"]).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            println!("skipped: tshark: {error}");
            return None;
        }
    };
    child.stdin.take().unwrap().write_all(capture).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn tshark_reads_a_call_as_it_was_meant() {
    for compact in [false, true] {
        let capture = capture(compact);
        let fields = ["-Y", "sip", "-T", "fields", "-e", "sip.Method", "-e", "sip.Status-Code", "-e", "sdp.media.port"];
        let Some(told) = tshark(&capture, &fields) else { return };
        let told: Vec<String> = told.lines().map(|line| line.split('\t').collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(told, ["INVITE  16384", " 180 ", " 200 16384", "ACK  ", "BYE  ", " 200 "]);
        // The streams follow from the descriptions: 20 packets each way, in order.
        let numbers = ["-Y", "rtp.p_type == 96", "-T", "fields", "-e", "ip.src", "-e", "rtp.seq"];
        let streams = tshark(&capture, &numbers).unwrap();
        for address in ADDRESSES {
            let of = streams.lines().filter_map(|line| line.strip_prefix(&format!("{address}\t")));
            let sequence: Vec<u16> = of.map(|number| number.parse().unwrap()).collect();
            assert_eq!(sequence.len(), 20);
            assert!(sequence.windows(2).all(|two| two[1] == two[0].wrapping_add(1)));
        }
        let wrong = tshark(&capture, &["-Y", "_ws.malformed || _ws.expert.severity >= 0x00600000"]).unwrap();
        assert_eq!(wrong, "");
    }
}
