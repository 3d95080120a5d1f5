//! The way of packets: tunnels, addresses, neighbours, pings.

use std::net::{IpAddr, Ipv4Addr};

use engine::{Span, Time};
use userplane::upf::{Config, Direction, HEADROOM, Interface, Reason, Side, Verdict};
use wire::arp::Arp;
use wire::frame::{self, Ethernet, IpHeader};
use wire::gtpu::{self, ErrorIndication, Gtpu, Message, PduSession, Qfi};
use wire::pfcp::rules::CreateQer;
use wire::pfcp::value::QerId;
use wire::{Echo, Headers};

use crate::lab::*;

#[test]
fn packets_cross_both_ways_with_one_hop_less() {
    let mut lab = lab();
    lab.session(establishment());
    for (ue, server) in [(IpAddr::from(UE), IpAddr::from(SERVER)), (UE6.into(), SERVER6.into())] {
        let up = packet(ue, server, b"up");
        let (side, frame) = lab.send(Side::N3, &from_gnb(&tunnelled(TEID, Some(9), &up))).unwrap();
        assert_eq!(side, Side::N6);
        assert_eq!(frame[..12], [station(Side::N6), own(Side::N6)].concat()[..]);
        assert_eq!(frame[14..], hop(&up));
        let down = packet(server, ue, b"down");
        let (side, frame) = lab.send(Side::N6, &from_server(&down)).unwrap();
        let (message, inner) = user_packet(&frame);
        assert_eq!((side, message.teid, message.pdu_session), (Side::N3, GNB_TEID, None));
        assert_eq!(inner, hop(&down));
    }
    let counters = lab.upf.counters();
    assert_eq!(counters.forwarded(Direction::Uplink).packets, 2);
    assert_eq!(counters.forwarded(Direction::Downlink).packets, 2);
    assert_eq!((lab.drops.len(), counters.drops()), (0, vec![]));
}

#[test]
fn tunnels_over_ipv6_have_checksums() {
    let mut lab = lab();
    let mut request = establishment();
    request.create_far[1].forwarding = Some(to_gnb(GNB6.into()));
    request.create_pdr[0].pdi.teid =
        Some(wire::pfcp::value::FTeid::Fixed { teid: TEID, addresses: IpAddr::from(UPF_N3_V6).into() });
    lab.session(request);
    let up = packet(UE, SERVER, b"up");
    let frame = outer(GNB6.into(), UPF_N3_V6.into(), &tunnelled(TEID, None, &up));
    assert_eq!(lab.send(Side::N3, &frame).unwrap().1[14..], hop(&up));
    let down = packet(SERVER6, UE6, b"odd");
    let (_, frame) = lab.send(Side::N6, &from_server(&down)).unwrap();
    assert_eq!(user_packet(&frame).1, hop(&down));
    // One bit wrong, and it is not taken.
    let mut frame = outer(GNB6.into(), UPF_N3_V6.into(), &tunnelled(TEID, None, &up));
    *frame.last_mut().unwrap() ^= 1;
    assert_eq!(lab.send(Side::N3, &frame), None);
    assert_eq!(lab.drops, [Reason::Checksum]);
}

#[test]
fn in_5g_the_flow_is_in_the_container() {
    let mut lab = lab();
    let mut request = establishment();
    let qfi = Qfi::new(5).unwrap();
    request.create_qer = vec![CreateQer { id: QerId(1), qfi: Some(qfi), rqi: Some(1), ..CreateQer::default() }];
    request.create_pdr[1].qer = vec![QerId(1)];
    request.create_pdr[0].pdi.qfi = vec![qfi];
    lab.session(request);
    let (_, frame) = lab.send(Side::N6, &from_server(&packet(SERVER, UE, b"x"))).unwrap();
    let container = PduSession::Downlink { qfi, reflective: true, paging: None };
    assert_eq!(user_packet(&frame).0.pdu_session, Some(container));
    // Of another flow, or of none, is no packet of this rule.
    let up = packet(UE, SERVER, b"x");
    assert!(lab.send(Side::N3, &from_gnb(&tunnelled(TEID, Some(5), &up))).is_some());
    assert!(lab.send(Side::N3, &from_gnb(&tunnelled(TEID, Some(6), &up))).is_none());
    assert!(lab.send(Side::N3, &from_gnb(&tunnelled(TEID, None, &up))).is_none());
    assert_eq!(lab.drops, [Reason::NoRule, Reason::NoRule]);
}

#[test]
fn who_uses_an_unknown_tunnel_is_told() {
    let mut lab = lab();
    lab.session(establishment());
    assert_eq!(lab.send(Side::N3, &from_gnb(&tunnelled(0xdead, None, &packet(UE, SERVER, b"x")))), None);
    assert_eq!(lab.drops, [Reason::UnknownTunnel]);
    let frame = lab.take_frame(Side::N3);
    let message = Gtpu::parse(unwrap(&frame)).unwrap();
    assert_eq!((message.message, message.teid), (Message::ErrorIndication, 0));
    let about = ErrorIndication { teid: 0xdead, peer: UPF_N3.into() };
    assert_eq!(ErrorIndication::parse(message.payload), Some(about));
    // A flood is not answered by a flood: at most 100 at once, then one each millisecond.
    for _ in 0..1_000 {
        lab.send(Side::N3, &from_gnb(&tunnelled(0xdead, None, &packet(UE, SERVER, b"x"))));
    }
    assert!((90..=110).contains(&lab.frames.len()), "{}", lab.frames.len());
    assert_eq!(lab.upf.counters().dropped(Reason::UnknownTunnel), 1_001);
}

#[test]
fn the_path_is_looked_after() {
    let mut lab = lab();
    let mut request = vec![];
    gtpu::echo_request(&mut request, 0x1234);
    assert_eq!(lab.send(Side::N3, &from_gnb(&request)), None);
    let frame = lab.take_frame(Side::N3);
    let answer = Gtpu::parse(unwrap(&frame)).unwrap();
    assert_eq!((answer.message, answer.sequence), (Message::EchoResponse, Some(0x1234)));
    // An extension header that has to be understood (0xc1 is none).
    let mut unknown = vec![0x34, 255, 0, 8, 0, 0, 0, 1, 0, 0, 0, 0xc1, 1, 0, 0, 0];
    assert_eq!(lab.send(Side::N3, &from_gnb(&unknown)), None);
    let frame = lab.take_frame(Side::N3);
    assert_eq!(Gtpu::parse(unwrap(&frame)).unwrap().message, Message::SupportedExtensionHeaders);
    unknown[1] = 254;
    unknown[11] = 0x41;
    assert_eq!(lab.send(Side::N3, &from_gnb(&unknown)), None);
    assert_eq!(lab.upf.counters().end_markers_received, 1);
    assert_eq!(lab.drops, [Reason::Malformed]);
}

#[test]
fn a_ping_of_its_own_address_is_answered() {
    let mut lab = lab();
    for (source, destination) in [
        (IpAddr::from(SERVER), IpAddr::from([10, 0, 6, 1])),
        (SERVER6.into(), { IpAddr::V6("fd06::1".parse().unwrap()) }),
    ] {
        let ip = IpHeader::between(source, destination, 0).unwrap();
        let ethernet = Ethernet { destination: own(Side::N6), source: station(Side::N6) };
        let mut frame = vec![];
        let echo = Echo { reply: false, identifier: 7, sequence: 8 };
        frame::echo(&mut frame, &ethernet, &ip, echo, b"payload!").unwrap();
        let (side, answer) = lab.send(Side::N6, &frame).unwrap();
        let back = IpHeader::between(destination, source, 0).unwrap();
        let ethernet = Ethernet { destination: station(Side::N6), source: own(Side::N6) };
        frame::echo(&mut frame, &ethernet, &back, Echo { reply: true, ..echo }, b"payload!").unwrap();
        assert_eq!((side, answer), (Side::N6, frame));
    }
}

#[test]
fn packets_wait_for_a_neighbour_and_go_in_order() {
    let mut lab = lab();
    lab.session(establishment());
    let other = Ipv4Addr::new(10, 0, 6, 77);
    let up = |n: u8| packet(UE, other, &[n]);
    for n in 0..70 {
        assert_eq!(lab.send(Side::N3, &from_gnb(&tunnelled(TEID, None, &up(n)))), None);
    }
    // 64 wait.
    assert_eq!(lab.drops, [Reason::Waiting; 6]);
    let question = lab.take_frame(Side::N6);
    let asked = Arp::parse(&question, &Headers::parse(&question)).unwrap();
    assert_eq!((asked.reply, asked.target.1, &question[..6]), (false, other, &[0xff; 6][..]));
    let mut answer = vec![];
    let mac = [2, 0, 0, 0, 7, 7];
    Arp { reply: true, sender: (mac, other), target: asked.sender }
        .write(&mut answer, &Ethernet { destination: own(Side::N6), source: mac });
    assert_eq!(lab.send(Side::N6, &answer), None);
    let frames = std::mem::take(&mut lab.frames);
    assert_eq!(frames.len(), 64);
    for (n, (side, frame)) in (0..).zip(&frames) {
        assert_eq!((*side, &frame[..6], &frame[14..]), (Side::N6, &mac[..], &hop(&up(n))[..]));
    }
    assert!(lab.send(Side::N3, &from_gnb(&tunnelled(TEID, None, &up(1)))).is_some());
}

#[test]
fn a_neighbour_that_is_not_there_costs_its_packets_and_no_more() {
    let mut lab = lab();
    lab.session(establishment());
    let nobody = Ipv4Addr::new(10, 0, 6, 99);
    lab.send(Side::N3, &from_gnb(&tunnelled(TEID, None, &packet(UE, nobody, b"x"))));
    lab.wait(Span::from_secs(10));
    assert_eq!((lab.frames.len(), &lab.drops[..]), (3, &[Reason::Unreachable][..]));
    assert_eq!(lab.upf.deadline(), None);
    // The next packet asks again.
    lab.send(Side::N3, &from_gnb(&tunnelled(TEID, None, &packet(UE, nobody, b"x"))));
    assert_eq!(lab.frames.len(), 4);
}

#[test]
fn a_neighbour_is_asked_again_after_a_minute_while_packets_go_on() {
    let mut lab = lab();
    lab.session(establishment());
    lab.now += Span::from_secs(61);
    let up = from_gnb(&tunnelled(TEID, None, &packet(UE, SERVER, b"x")));
    for _ in 0..4 {
        assert!(lab.send(Side::N3, &up).is_some());
        lab.now += Span::from_secs(1);
    }
    assert_eq!(lab.frames.len(), 3);
    // Nobody answered: it is forgotten, and packets wait.
    assert_eq!(lab.send(Side::N3, &up), None);
}

#[test]
fn other_networks_are_behind_the_gateway() {
    let config = config();
    let gateways = vec![IpAddr::from(SERVER)];
    let mut lab = lab_with(Config { n6: Interface { gateways, ..config.n6.clone() }, ..config });
    lab.session(establishment());
    let up = packet(UE, Ipv4Addr::new(198, 51, 100, 1), b"far");
    let (side, frame) = lab.send(Side::N3, &from_gnb(&tunnelled(TEID, None, &up))).unwrap();
    assert_eq!((side, &frame[..6]), (Side::N6, &station(Side::N6)[..]));
}

#[test]
fn what_cannot_go_on_is_named() {
    let mut lab = lab();
    lab.session(establishment());
    let up = |packet: &[u8]| from_gnb(&tunnelled(TEID, None, packet));
    let good = packet(UE, SERVER, b"payload");
    let mut last_hop = good.clone();
    last_hop[8] = 1;
    let mut fragment = from_gnb(&tunnelled(TEID, None, &good));
    fragment[14 + 6] = 0x20;
    let mut bad_checksum = up(&good);
    bad_checksum[14 + 20 + 6] ^= 1;
    let mut other_station = up(&good);
    other_station[5] ^= 1;
    let mut tagged = up(&good);
    tagged.splice(12..12, [0x81, 0, 0, 5]);
    let elsewhere = outer(GNB.into(), IpAddr::from([10, 0, 3, 2]), &tunnelled(TEID, None, &good));
    let mut port = up(&good);
    port[14 + 20 + 2..14 + 20 + 4].copy_from_slice(&9u16.to_be_bytes());
    port[14 + 20 + 6..14 + 20 + 8].fill(0);
    for (side, frame, reason) in [
        (Side::N3, up(&last_hop), Reason::HopLimit),
        (Side::N3, up(&good[..good.len() - 1]), Reason::MalformedUser),
        (Side::N3, up(&[]), Reason::MalformedUser),
        (Side::N3, up(&packet(SERVER, UE, b"not mine")), Reason::NoRule),
        (Side::N3, fragment, Reason::Fragment),
        (Side::N3, bad_checksum, Reason::Checksum),
        (Side::N3, other_station, Reason::OtherStation),
        (Side::N3, tagged, Reason::NotIp),
        (Side::N3, elsewhere, Reason::OtherAddress),
        (Side::N3, port, Reason::NoListener),
        (Side::N3, from_gnb(&[0x30, 255]), Reason::Malformed),
        (Side::N3, vec![0; 3], Reason::NotIp),
        (Side::N6, from_server(&packet(SERVER, [10, 45, 0, 3], b"x")), Reason::UnknownHost),
        (Side::N6, from_server(&packet(SERVER, UE, &[0; 1_440])), Reason::TooLong),
    ] {
        lab.drops.clear();
        assert_eq!(lab.send(side, &frame), None);
        assert_eq!(lab.drops, [reason]);
        lab.frames.clear();
    }
    // A buffer without room before the frame.
    let mut frame = from_server(&packet(SERVER, UE, b"x"));
    let whole = 0..frame.len();
    assert_eq!(lab.upf.handle(Time::ZERO, Side::N6, &mut frame, whole), Verdict::Drop(Reason::NoRoom));
    assert_eq!(HEADROOM, 64);
}

#[test]
fn a_packet_costs_no_memory() {
    let mut lab = lab();
    lab.session(establishment());
    let up = from_gnb(&tunnelled(TEID, None, &packet(UE, SERVER, &[0; 1_300])));
    let down = from_server(&packet(SERVER, UE, &[0; 1_300]));
    let mut buffer = vec![0; 2_048];
    let mut once = |side, frame: &[u8]| {
        let at = HEADROOM..HEADROOM + frame.len();
        buffer[at.clone()].copy_from_slice(frame);
        let verdict = lab.upf.handle(lab.now, side, &mut buffer, at);
        assert!(matches!(verdict, Verdict::Send { .. }));
        assert!(lab.upf.poll().is_none());
    };
    let cost = allocation_counter::measure(|| {
        for _ in 0..100 {
            once(Side::N3, &up);
            once(Side::N6, &down);
        }
    });
    assert_eq!(cost.count_total, 0);
}
