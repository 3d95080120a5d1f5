//! A UPF with a gNB, a server and a control plane around it, all in a test's hands.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use engine::{Random, Span, Time};
use userplane::upf::{Config, HEADROOM, Interface, News, Output, Reason, Side, Upf, Verdict};
use wire::arp::Arp;
use wire::frame::{self, Ethernet, IpHeader};
use wire::gtpu::{Gtpu, PduSession, Qfi, TunnelHeader};
use wire::pfcp::message::{
    AssociationSetupRequest, Body, SessionDeletionRequest, SessionDeletionResponse, SessionEstablishmentRequest,
    SessionEstablishmentResponse, SessionModificationRequest, SessionModificationResponse, SessionReportRequest,
};
use wire::pfcp::rules::{CreateFar, CreatePdr, ForwardingParameters, Pdi};
use wire::pfcp::value::{
    Addresses, ApplyAction, FSeid, FTeid, FarId, Interface as PfcpInterface, NtpTime, OuterHeaderCreation,
    OuterHeaderRemoval, PdrId, UeIp,
};
use wire::pfcp::{Cause, Encoding, Message};
use wire::{Headers, UDP_LEN, Udp, is_intact, protocol};

pub(crate) const CP: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 4, 9)), 8805);
pub(crate) const CP_SEID: u64 = 0x77;
pub(crate) const UE: Ipv4Addr = Ipv4Addr::new(10, 45, 0, 2);
pub(crate) const UE6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 45, 2, 0, 0, 0, 1);
pub(crate) const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 6, 9);
pub(crate) const SERVER6: Ipv6Addr = Ipv6Addr::new(0xfd06, 0, 0, 0, 0, 0, 0, 9);
pub(crate) const GNB: Ipv4Addr = Ipv4Addr::new(10, 0, 3, 9);
pub(crate) const GNB6: Ipv6Addr = Ipv6Addr::new(0xfd03, 0, 0, 0, 0, 0, 0, 9);
pub(crate) const UPF_N3: Ipv4Addr = Ipv4Addr::new(10, 0, 3, 1);
pub(crate) const UPF_N3_V6: Ipv6Addr = Ipv6Addr::new(0xfd03, 0, 0, 0, 0, 0, 0, 1);
pub(crate) const TEID: u32 = 0x1001;
pub(crate) const GNB_TEID: u32 = 0x2002;

/// The Ethernet address of the station 9 on a side, and of the UPF there.
pub(crate) fn station(side: Side) -> [u8; 6] {
    [2, 0, 0, 0, 9, side.port() as u8]
}

pub(crate) fn own(side: Side) -> [u8; 6] {
    [2, 0, 0, 0, 1, side.port() as u8]
}

pub(crate) fn config() -> Config {
    let side = |side: Side, number: u8| {
        let v6 = Ipv6Addr::new(0xfd00 + u16::from(number), 0, 0, 0, 0, 0, 0, 1);
        Interface {
            mac: own(side),
            addresses: vec![(IpAddr::from([10, 0, number, 1]), 24), (IpAddr::V6(v6), 64)],
            gateways: vec![],
            mtu: 1500,
        }
    };
    Config { started: NtpTime(1_000), ..Config::new(side(Side::N3, 3), side(Side::N4, 4), side(Side::N6, 6)) }
}

pub(crate) struct Lab {
    pub(crate) upf: Upf,
    pub(crate) now: Time,
    sequence: u32,
    /// What came out and was not yet looked at.
    pub(crate) frames: Vec<(Side, Vec<u8>)>,
    pub(crate) messages: Vec<(SocketAddr, Message)>,
    pub(crate) drops: Vec<Reason>,
    pub(crate) news: Vec<News>,
}

/// A UPF whose neighbours are known, with an association.
pub(crate) fn lab() -> Lab {
    lab_with(config())
}

pub(crate) fn lab_with(config: Config) -> Lab {
    let mut lab = Lab::bare(config);
    lab.introduce();
    let setup = AssociationSetupRequest {
        node_id: CP.ip().into(),
        recovery: NtpTime(500),
        up_features: None,
        cp_features: None,
    };
    let Body::AssociationSetupResponse(response) = lab.request(None, setup) else { panic!("another answer") };
    assert_eq!((response.cause, response.recovery), (Cause::Accepted, Some(NtpTime(1_000))));
    lab.news.clear();
    lab
}

impl Lab {
    pub(crate) fn bare(config: Config) -> Self {
        Self {
            upf: Upf::new(config, Random::stream(1, "upf")),
            now: Time::ZERO,
            sequence: 100,
            frames: vec![],
            messages: vec![],
            drops: vec![],
            news: vec![],
        }
    }

    /// Lets the stations say who they are.
    pub(crate) fn introduce(&mut self) {
        for (side, number) in [(Side::N3, 3), (Side::N6, 6)] {
            let (ours, theirs) = (Ipv4Addr::new(10, 0, number, 1), Ipv4Addr::new(10, 0, number, 9));
            let ethernet = Ethernet { destination: [0xff; 6], source: station(side) };
            let mut frame = vec![];
            Arp { reply: false, sender: (station(side), theirs), target: ([0; 6], ours) }.write(&mut frame, &ethernet);
            assert_eq!(self.send(side, &frame), None);
            let answer = self.take_frame(side);
            let heard = Arp::parse(&answer, &Headers::parse(&answer)).unwrap();
            assert_eq!((heard.reply, heard.sender), (true, (own(side), ours)));
            let v6 = |host| Ipv6Addr::new(0xfd00 + u16::from(number), 0, 0, 0, 0, 0, 0, host);
            wire::ndp::solicit(&mut frame, station(side), v6(9), v6(1));
            assert_eq!(self.send(side, &frame), None);
            let answer = self.take_frame(side);
            let heard = wire::ndp::Message::parse(&answer, &Headers::parse(&answer));
            assert!(matches!(heard, Some(wire::ndp::Message::Advertisement(a)) if a.link == Some(own(side))));
        }
    }

    pub(crate) fn wait(&mut self, span: Span) {
        let until = self.now + span;
        while let Some(deadline) = self.upf.deadline().filter(|deadline| *deadline <= until) {
            self.now = self.now.max(deadline);
            self.upf.tick(self.now);
            self.collect();
            assert!(self.upf.deadline().is_none_or(|next| next > self.now), "a deadline stays after its tick");
        }
        self.now = until;
    }

    /// Hands a frame in; what leaves at once.
    pub(crate) fn send(&mut self, side: Side, frame: &[u8]) -> Option<(Side, Vec<u8>)> {
        let mut buffer = vec![0xa5; HEADROOM + frame.len()];
        buffer[HEADROOM..].copy_from_slice(frame);
        let verdict = self.upf.handle(self.now, side, &mut buffer, HEADROOM..HEADROOM + frame.len());
        self.collect();
        match verdict {
            Verdict::Send { side, frame } => Some((side, buffer[frame].to_vec())),
            Verdict::Taken => None,
            Verdict::Drop(reason) => {
                self.drops.push(reason);
                None
            }
        }
    }

    pub(crate) fn collect(&mut self) {
        while let Some(output) = self.upf.poll() {
            match output {
                Output::Frame { side, bytes } => self.frames.push((side, bytes)),
                Output::Message { to, bytes } => self.messages.push((to, Message::parse(&bytes).unwrap())),
                Output::Drop { reason, .. } => self.drops.push(reason),
                Output::News(news) => self.news.push(news),
            }
        }
    }

    /// The only frame that waits, which has to be for this side.
    pub(crate) fn take_frame(&mut self, side: Side) -> Vec<u8> {
        assert_eq!(self.frames.len(), 1, "{:?}", self.frames);
        let (to, frame) = self.frames.remove(0);
        assert_eq!(to, side);
        frame
    }

    /// Asks, and takes the answer.
    pub(crate) fn request(&mut self, seid: Option<u64>, body: impl Into<Body>) -> Body {
        self.sequence += 1;
        let message = Message { seid, sequence: self.sequence, body: body.into() };
        let mut bytes = vec![];
        message.write(&mut bytes, Encoding::default()).unwrap();
        self.upf.message(self.now, CP, &bytes);
        self.collect();
        let answer = |(_, answer): &(SocketAddr, Message)| answer.sequence == message.sequence;
        let at = self.messages.iter().position(answer).expect("an answer");
        let (to, answer) = self.messages.remove(at);
        assert_eq!(to, CP);
        assert_eq!(answer.body.message_type(), message.body.message_type() + 1);
        answer.body
    }

    pub(crate) fn establish(&mut self, request: SessionEstablishmentRequest) -> SessionEstablishmentResponse {
        let Body::SessionEstablishmentResponse(response) = self.request(Some(0), request) else { unreachable!() };
        response
    }

    /// Makes a session that has to be accepted; gives its identifier at the UPF.
    pub(crate) fn session(&mut self, request: SessionEstablishmentRequest) -> u64 {
        let response = self.establish(request);
        assert_eq!(response.cause, Cause::Accepted, "{response:?}");
        response.up_fseid.unwrap().seid
    }

    pub(crate) fn modify(&mut self, seid: u64, request: SessionModificationRequest) -> SessionModificationResponse {
        let Body::SessionModificationResponse(response) = self.request(Some(seid), request) else { unreachable!() };
        response
    }

    pub(crate) fn delete(&mut self, seid: u64) -> SessionDeletionResponse {
        let Body::SessionDeletionResponse(response) = self.request(Some(seid), SessionDeletionRequest {}) else {
            unreachable!()
        };
        response
    }

    /// The only report that waits.
    pub(crate) fn take_report(&mut self) -> (u32, SessionReportRequest) {
        assert_eq!(self.messages.len(), 1, "{:?}", self.messages);
        let (to, message) = self.messages.remove(0);
        assert_eq!((to, message.seid), (CP, Some(CP_SEID)));
        let Body::SessionReportRequest(report) = message.body else { panic!("another message") };
        (message.sequence, report)
    }

    pub(crate) fn answer(&mut self, sequence: u32, seid: Option<u64>, body: impl Into<Body>) {
        let mut bytes = vec![];
        Message { seid, sequence, body: body.into() }.write(&mut bytes, Encoding::default()).unwrap();
        self.upf.message(self.now, CP, &bytes);
        self.collect();
    }
}

/// A session of the UE with IPv4 and IPv6: PDR 1 and FAR 1 up, PDR 2 and FAR 2 down.
pub(crate) fn establishment() -> SessionEstablishmentRequest {
    let both = Addresses::Both(UE, UE6);
    let uplink = CreatePdr {
        id: PdrId(1),
        precedence: 100,
        pdi: Pdi {
            source: PfcpInterface::Access,
            teid: Some(FTeid::Fixed { teid: TEID, addresses: Addresses::V4(UPF_N3) }),
            ue_ip: vec![UeIp::new(both, false)],
            ..Pdi::default()
        },
        removal: Some(OuterHeaderRemoval::GTPU_V4),
        far: Some(FarId(1)),
        ..CreatePdr::default()
    };
    let downlink = CreatePdr {
        id: PdrId(2),
        precedence: 100,
        pdi: Pdi { source: PfcpInterface::Core, ue_ip: vec![UeIp::new(both, true)], ..Pdi::default() },
        far: Some(FarId(2)),
        ..CreatePdr::default()
    };
    let to_network = ForwardingParameters { destination: PfcpInterface::Core, ..ForwardingParameters::default() };
    SessionEstablishmentRequest {
        node_id: CP.ip().into(),
        cp_fseid: FSeid { seid: CP_SEID, addresses: CP.ip().into() },
        create_pdr: vec![uplink, downlink],
        create_far: vec![
            CreateFar { id: FarId(1), action: ApplyAction::FORW, forwarding: Some(to_network), bar: None },
            CreateFar { id: FarId(2), action: ApplyAction::FORW, forwarding: Some(to_gnb(GNB.into())), bar: None },
        ],
        create_urr: vec![],
        create_qer: vec![],
        create_bar: None,
        pdn_type: None,
        inactivity: None,
        dnn: None,
    }
}

pub(crate) fn to_gnb(gnb: IpAddr) -> ForwardingParameters {
    ForwardingParameters {
        destination: PfcpInterface::Access,
        creation: Some(OuterHeaderCreation::GtpU { teid: GNB_TEID, addresses: gnb.into() }),
        ..ForwardingParameters::default()
    }
}

/// An IP packet with a UDP datagram from port 1000 to port 2000.
pub(crate) fn packet(source: impl Into<IpAddr>, destination: impl Into<IpAddr>, payload: &[u8]) -> Vec<u8> {
    let ip = IpHeader::between(source.into(), destination.into(), 0).unwrap();
    let ethernet = Ethernet { destination: [0; 6], source: [0; 6] };
    let mut frame = vec![];
    frame::udp(&mut frame, &ethernet, &ip, Udp { source: 1_000, destination: 2_000 }, payload).unwrap();
    frame.split_off(14)
}

/// A frame from the server.
pub(crate) fn from_server(packet: &[u8]) -> Vec<u8> {
    let mut frame = [own(Side::N6), station(Side::N6)].concat();
    frame.extend(if packet[0] >> 4 == 4 { [0x08, 0x00] } else { [0x86, 0xdd] });
    frame.extend(packet);
    frame
}

/// A frame from the gNB with a GTP-U message.
pub(crate) fn from_gnb(message: &[u8]) -> Vec<u8> {
    outer(GNB.into(), UPF_N3.into(), message)
}

pub(crate) fn outer(source: IpAddr, destination: IpAddr, message: &[u8]) -> Vec<u8> {
    let ip = IpHeader::between(source, destination, 0).unwrap();
    let ethernet = Ethernet { destination: own(Side::N3), source: station(Side::N3) };
    let mut frame = vec![];
    frame::udp(&mut frame, &ethernet, &ip, Udp { source: 2152, destination: 2152 }, message).unwrap();
    frame
}

/// A user packet in the session's uplink tunnel.
pub(crate) fn tunnelled(teid: u32, flow: Option<u8>, packet: &[u8]) -> Vec<u8> {
    let pdu_session = flow.map(|flow| PduSession::Uplink { qfi: Qfi::new(flow).unwrap() });
    let mut message = vec![];
    TunnelHeader { teid, sequence: None, pdu_session }.append(&mut message, packet.len()).unwrap();
    message.extend(packet);
    message
}

/// The GTP-U message in a frame to the gNB, whose headers have to be right, as has all inside it.
pub(crate) fn unwrap(frame: &[u8]) -> &[u8] {
    let headers = Headers::parse(frame);
    let ip = headers.ip.unwrap();
    assert_eq!(frame[..12], [station(Side::N3), own(Side::N3)].concat()[..]);
    assert_eq!(headers.network + headers.network_len, frame.len());
    assert_eq!(ip.protocol, protocol::UDP);
    if ip.source.is_ipv4() {
        assert_eq!(wire::checksum::checksum(&frame[headers.network..ip.transport]), 0);
    }
    let datagram = &frame[ip.transport..];
    let (udp, payload) = Udp::parse(datagram).unwrap();
    assert_eq!((udp.destination, payload.len() + UDP_LEN), (2152, datagram.len()));
    if datagram[6..8] != [0, 0] || ip.source.is_ipv6() {
        let length = datagram.len() as u32;
        let pseudo = wire::checksum::Sum::pseudo_header(ip.source, ip.destination, protocol::UDP, length);
        assert!(is_intact(datagram, pseudo));
    }
    payload
}

/// The user packet in a frame to the gNB, and the header before it.
pub(crate) fn user_packet(frame: &[u8]) -> (Gtpu<'_>, &[u8]) {
    let message = Gtpu::parse(unwrap(frame)).unwrap();
    (message, message.payload)
}

/// A packet with one hop less, as a router leaves it.
pub(crate) fn hop(packet: &[u8]) -> Vec<u8> {
    let ethertype = if packet[0] >> 4 == 4 { 0x0800 } else { 0x86dd };
    let mut packet = packet.to_vec();
    let headers = Headers::of_network(ethertype, &packet);
    assert!(wire::take_hop(&mut packet, &headers));
    packet
}
