//! The UPF as an element of a graph, in virtual time.

use engine::{DropReason, Event, ExitId, Graph, NodeId, Outlet, Packet, Random, Span, Time};
use userplane::load::AddressRange;
use userplane::neighbours::Neighbours;
use userplane::upf::{Direction, Side, Upf, UpfElement};
use wire::frame::{self, Ethernet, IpHeader};
use wire::pfcp::message::{AssociationSetupRequest, Body};
use wire::pfcp::value::NtpTime;
use wire::pfcp::{Cause, Encoding, Message, PFCP_PORT};
use wire::{Headers, Udp};

use crate::lab::*;

#[derive(Default)]
struct Outside {
    frames: Vec<(Side, Vec<u8>)>,
    consumed: usize,
    drops: Vec<DropReason>,
    events: Vec<&'static str>,
}

impl Outlet for Outside {
    fn transmit(&mut self, exit: ExitId, packet: Packet) {
        self.frames.push((Side::ALL[exit.0], packet.bytes));
    }
    fn consume(&mut self, _: Packet) {
        self.consumed += 1;
    }
    fn discard(&mut self, _: Time, _: NodeId, reason: DropReason, _: Packet) {
        self.drops.push(reason);
    }
    fn event(&mut self, _: Time, _: NodeId, event: Event) {
        self.events.push(event.what);
    }
}

/// A graph with a UPF, and one station on each side that has the addresses this test needs.
struct World {
    graph: Graph,
    upf: NodeId,
    outside: Outside,
    stations: [Neighbours; 3],
    now: Time,
}

impl World {
    fn new() -> Self {
        let mut graph = Graph::new();
        let upf = graph.add("upf", UpfElement::new(Upf::new(config(), Random::stream(1, "upf"))));
        for side in Side::ALL {
            graph.connect_exit((upf, side.port()), ExitId(side.port()));
        }
        let stations = [(Side::N3, 3), (Side::N4, 4), (Side::N6, 6)].map(|(side, number)| {
            let address = [10, 0, number, 9].into();
            Neighbours::new(station(side), vec![AddressRange::new(address, 1).unwrap()])
        });
        Self { graph, upf, outside: Outside::default(), stations, now: Time::ZERO }
    }

    /// Hands a frame in and lets a millisecond pass; what left but for what neighbours say to each other.
    fn send(&mut self, side: Side, frame: Vec<u8>) -> Vec<(Side, Vec<u8>)> {
        self.graph.inject(self.now, (self.upf, side.port()), Packet::new(frame), &mut self.outside);
        let mut out = vec![];
        self.now += Span::from_millis(1);
        loop {
            self.graph.advance(self.now, &mut self.outside);
            if self.outside.frames.is_empty() {
                return out;
            }
            for (side, frame) in std::mem::take(&mut self.outside.frames) {
                let mut answers = vec![];
                let station = &mut self.stations[side.port()];
                if !station.handle(&frame, &Headers::parse(&frame), |answer| answers.push(answer.to_vec())) {
                    out.push((side, frame));
                }
                for answer in answers {
                    let packet = Packet::new(answer);
                    self.graph.inject(self.now, (self.upf, side.port()), packet, &mut self.outside);
                }
            }
        }
    }

    fn ask(&mut self, sequence: u32, seid: Option<u64>, body: impl Into<Body>) -> Body {
        let (mut payload, mut frame) = (vec![], vec![]);
        Message { seid, sequence, body: body.into() }.write(&mut payload, Encoding::default()).unwrap();
        let ip = IpHeader::between(CP.ip(), [10, 0, 4, 1].into(), 0).unwrap();
        let ethernet = Ethernet { destination: own(Side::N4), source: station(Side::N4) };
        let ports = Udp { source: 8_806, destination: PFCP_PORT };
        frame::udp(&mut frame, &ethernet, &ip, ports, &payload).unwrap();
        let out = self.send(Side::N4, frame);
        let [(Side::N4, frame)] = &out[..] else { panic!("{out:?}") };
        let ip = Headers::parse(frame).ip.unwrap();
        let (udp, payload) = Udp::parse(&frame[ip.transport..]).unwrap();
        assert_eq!((ip.destination, udp), (CP.ip(), Udp { source: PFCP_PORT, destination: 8_806 }));
        Message::parse(payload).unwrap().body
    }
}

#[test]
fn a_graph_with_a_upf_carries_packets_in_virtual_time() {
    let mut world = World::new();
    let node_id = CP.ip().into();
    let setup = AssociationSetupRequest { node_id, recovery: NtpTime(1), up_features: None, cp_features: None };
    assert!(matches!(world.ask(1, None, setup), Body::AssociationSetupResponse(r) if r.cause == Cause::Accepted));
    let answer = world.ask(2, Some(0), establishment());
    assert!(matches!(answer, Body::SessionEstablishmentResponse(r) if r.cause == Cause::Accepted));
    assert_eq!(world.outside.events, ["associated"]);
    for _ in 0..2 {
        // The first packet each way waits for its neighbour.
        let up = packet(UE, SERVER, b"up");
        let out = world.send(Side::N3, from_gnb(&tunnelled(TEID, None, &up)));
        assert!(matches!(&out[..], [(Side::N6, frame)] if frame[14..] == hop(&up)), "{out:?}");
        let down = packet(SERVER, UE, b"down");
        let out = world.send(Side::N6, from_server(&down));
        assert!(matches!(&out[..], [(Side::N3, frame)] if user_packet(frame).1 == hop(&down)), "{out:?}");
    }
    world.send(Side::N6, from_server(&packet(SERVER, [10, 45, 9, 9], b"x")));
    assert_eq!(world.outside.drops, [DropReason("no session has that UE address")]);
    // Two messages, three ARP answers, and the two packets that waited.
    assert_eq!(world.outside.consumed, 7);
    let element = world.graph.element::<UpfElement>(world.upf).unwrap();
    assert_eq!(element.upf().counters().forwarded(Direction::Uplink).packets, 2);
}
