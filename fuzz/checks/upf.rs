//! What must hold for whatever a UPF is handed on its three sides: it ends, what it sends lies in the buffer and is a
//! frame, a deadline is later than its tick, and every frame is accounted for.

use engine::{Random, Span, Time};
use userplane::upf::{Config, HEADROOM, Interface, Output, Side, Upf, Verdict};
use wire::frame::{self, Ethernet, IpHeader};
use wire::pfcp::message::{AssociationSetupRequest, Body};
use wire::pfcp::value::NtpTime;
use wire::pfcp::{Encoding, Message};
use wire::{Headers, Udp};

/// `data` as a series of steps: a byte that says what, two for the length, which is less than 1024, and so many bytes.
pub(crate) fn upf(mut data: &[u8]) {
    let interface = |n: u8| Interface::new([2, 0, 0, 0, 0, n], ([10, 0, n, 1].into(), 24));
    let mut upf = Upf::new(Config::new(interface(3), interface(4), interface(6)), Random::stream(1, "upf"));
    let mut now = Time::ZERO;
    let peer = ([10, 0, 4, 9], 8805).into();
    let node_id = std::net::IpAddr::from([10, 0, 4, 9]).into();
    let setup = AssociationSetupRequest { node_id, recovery: NtpTime(1), up_features: None, cp_features: None };
    let mut bytes = Vec::new();
    let message = Message { seid: None, sequence: 1, body: Body::AssociationSetupRequest(setup) };
    message.write(&mut bytes, Encoding::default()).unwrap();
    upf.message(now, peer, &bytes);
    let mut received = 0;
    while let [what, high, low, rest @ ..] = data {
        let length = usize::from(u16::from_be_bytes([*high, *low]) % 1_024);
        let (content, rest) = rest.split_at(rest.len().min(length));
        data = rest;
        let ethernet = Ethernet { destination: [2, 0, 0, 0, 0, 3], source: [2; 6] };
        let mut made = Vec::new();
        let (side, frame) = match what % 8 {
            0 => (Side::N3, content),
            1 => (Side::N4, content),
            2 => (Side::N6, content),
            3 => {
                upf.message(now, peer, content);
                look(&mut upf);
                continue;
            }
            4 => {
                now += Span::from_millis(length as u64 * 10);
                upf.tick(now);
                look(&mut upf);
                assert!(upf.deadline().is_none_or(|deadline| deadline > now));
                continue;
            }
            // A GTP-U message in right headers, and a packet in a right frame.
            5 | 6 => {
                let ip = IpHeader::between([10, 0, 3, 9].into(), [10, 0, 3, 1].into(), 0).unwrap();
                frame::udp(&mut made, &ethernet, &ip, Udp { source: 2152, destination: 2152 }, content).unwrap();
                (Side::N3, &made[..])
            }
            _ => {
                made.extend([2, 0, 0, 0, 0, 6, 2, 2, 2, 2, 2, 2]);
                made.extend(if content.first().is_some_and(|first| first >> 4 == 6) { [0x86, 0xdd] } else { [8, 0] });
                made.extend(content);
                (Side::N6, &made[..])
            }
        };
        received += 1;
        let mut buffer = vec![0; HEADROOM + frame.len()];
        buffer[HEADROOM..].copy_from_slice(frame);
        if let Verdict::Send { frame, .. } = upf.handle(now, side, &mut buffer, HEADROOM..HEADROOM + frame.len()) {
            assert!(Headers::parse(&buffer[frame]).ip.is_some());
        }
        look(&mut upf);
    }
    let counters = upf.counters();
    let taken: u64 = Side::ALL.iter().map(|side| counters.received(*side).packets).sum();
    assert_eq!(taken, received);
    let dropped: u64 = counters.drops().iter().map(|(_, count)| count).sum();
    // Frames of its own may be dropped too, such as answers to a neighbour that is not there.
    assert!(counters.forwarded.iter().map(|traffic| traffic.packets).sum::<u64>() <= received);
    assert!(dropped <= received * 2 + 3);
}

/// What comes out has to be whole.
fn look(upf: &mut Upf) {
    while let Some(output) = upf.poll() {
        match output {
            Output::Frame { bytes, .. } => assert!(bytes.len() >= wire::ETHERNET_LEN),
            Output::Message { bytes, .. } => assert!(Message::parse(&bytes).is_ok(), "{bytes:x?}"),
            Output::Drop { .. } | Output::News(_) => {}
        }
    }
}
