//! `narrows upf` between a gNB made of sockets and the kernel's own stack as the data network.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use engine::{Random, Time};
use netio::site::Namespace;
use serde_json::Value;
use userplane::control::{self, ControlPlane, Event, Peer, Profile, SessionSpec};
use wire::frame::{self, Ethernet, IpHeader};
use wire::gtpu::{Gtpu, Message, PduSession, Qfi, TunnelHeader};
use wire::pfcp::value::{Addresses, FTeid, NtpTime};
use wire::{ETHERNET_LEN, Echo, Headers, Udp};

use crate::common::{Place, Started, can_isolate, narrows, needs_root, run, turn_beside};

const GNB: Ipv4Addr = Ipv4Addr::new(10, 0, 3, 9);
const SMF: Ipv4Addr = Ipv4Addr::new(10, 0, 4, 9);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 6, 9);
const UE: Ipv4Addr = Ipv4Addr::new(10, 45, 0, 2);

/// The UPF's namespace and three hosts around it.
struct Net {
    upf: Namespace,
    gnb: UdpSocket,
    smf: UdpSocket,
    server: Namespace,
}

/// A host with a veth pair into the UPF's namespace, whose end there is called `name`.
fn host(upf: &Namespace, name: &str, address: Ipv4Addr, at_upf: Option<Ipv4Addr>) -> Namespace {
    let host = Namespace::new().unwrap();
    host.configure(|net| {
        net.veth("eth0", upf, name)?;
        net.ipv6("eth0", false)?;
        net.address("eth0", address.into(), 24)?;
        net.up("eth0")
    })
    .unwrap();
    upf.configure(|net| {
        net.ipv6(name, false)?;
        if let Some(address) = at_upf {
            net.address(name, address.into(), 24)?;
        }
        net.up(name)
    })
    .unwrap();
    host
}

impl Net {
    fn new() -> Self {
        let upf = Namespace::new().unwrap();
        let gnb = host(&upf, "n3", GNB, None);
        let smf = host(&upf, "n4", SMF, Some(Ipv4Addr::new(10, 0, 4, 1)));
        let server = host(&upf, "n6", SERVER, None);
        server
            .configure(|net| net.route([10, 45, 0, 0].into(), 16, Some(IpAddr::from([10, 0, 6, 1])), "eth0"))
            .unwrap();
        let socket = |host: &Namespace, address: Ipv4Addr, port, peer: SocketAddr| {
            let socket = host.run(|| UdpSocket::bind((address, port)).unwrap()).unwrap();
            socket.connect(peer).unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            socket
        };
        let gnb = socket(&gnb, GNB, 2152, ([10, 0, 3, 1], 2152).into());
        let smf = socket(&smf, SMF, 8805, ([10, 0, 4, 1], 8805).into());
        Self { upf, gnb, smf, server }
    }

    fn start(&self, place: &Place, options: &[&str]) -> Started {
        let arguments = "upf --n3 n3 --n3-address 10.0.3.1/24 --n6 n6 --n6-address 10.0.6.1/24 --n4 10.0.4.1 --json";
        let mut command = narrows(place, arguments.split(' '));
        command.args(options);
        let mut upf = self.upf.run(|| Started::new(&mut command)).unwrap();
        upf.line(|line| line.contains("\"ready\""));
        upf
    }

    /// Sends what a control plane says, and hands it what comes back, until it has said `wanted`.
    fn drive<T>(&self, control: &mut ControlPlane, wanted: impl Fn(Event) -> Option<T>) -> T {
        let mut datagram = [0; 2_048];
        loop {
            while let Some(output) = control.poll() {
                match output {
                    control::Output::Send(bytes) => drop(self.smf.send(&bytes).unwrap()),
                    control::Output::Event(event) => {
                        if let Some(found) = wanted(event) {
                            return found;
                        }
                    }
                }
            }
            let length = self.smf.recv(&mut datagram).expect("an answer on N4");
            control.handle(Time::ZERO, &datagram[..length]);
        }
    }

    /// Sends a user packet through the tunnel.
    fn uplink(&self, teid: u32, packet: &[u8]) {
        let pdu_session = Some(PduSession::Uplink { qfi: Qfi::new(9).unwrap() });
        let mut message = vec![];
        TunnelHeader { teid, sequence: None, pdu_session }.append(&mut message, packet.len()).unwrap();
        message.extend(packet);
        self.gnb.send(&message).unwrap();
    }

    /// The next user packet that comes to the gNB.
    fn downlink(&self) -> Vec<u8> {
        let mut datagram = [0; 2_048];
        let length = self.gnb.recv(&mut datagram).expect("a packet on N3");
        let message = Gtpu::parse(&datagram[..length]).unwrap();
        let flow = message.pdu_session.map(PduSession::qfi);
        assert_eq!((message.message, message.teid, flow), (Message::GPdu, 0x55, Qfi::new(9)));
        message.payload.to_vec()
    }
}

fn control_plane() -> ControlPlane {
    ControlPlane::new(control::Config::new(SMF.into(), NtpTime(1)), Random::stream(1, "n4"))
}

fn session() -> SessionSpec {
    SessionSpec {
        ue: Addresses::V4(UE),
        uplink: FTeid::Choose { v4: true, v6: false, id: None },
        downlink: Some(Peer { teid: 0x55, address: GNB.into() }),
        profile: Profile { qfi: Qfi::new(9), ..Profile::default() }.into(),
    }
}

/// A session's uplink TEID.
fn establish(net: &Net, control: &mut ControlPlane) -> u32 {
    control.associate(Time::ZERO);
    control.establish(Time::ZERO, session());
    net.drive(control, |event| match event {
        Event::Established { uplink, .. } => Some(uplink.teid),
        Event::Failed { .. } | Event::AssociationFailed(_) => panic!("{event:?}"),
        _ => None,
    })
}

fn ready() -> bool {
    can_isolate() && needs_root()
}

#[test]
fn the_kernel_behind_n6_answers_through_the_tunnel() {
    if !ready() {
        return;
    }
    let _turn = turn_beside();
    let (place, net) = (Place::new(), Net::new());
    let upf = net.start(&place, &["--stats", "100ms"]);
    let mut control = control_plane();
    let teid = establish(&net, &mut control);
    let ip = IpHeader::between(UE.into(), SERVER.into(), 0).unwrap();
    let ethernet = Ethernet { destination: [0; 6], source: [0; 6] };
    // The first one waits for both neighbours.
    for sequence in 0..100 {
        let mut frame = vec![];
        let echo = Echo { reply: false, identifier: 7, sequence };
        frame::echo(&mut frame, &ethernet, &ip, echo, &[0x5a; 1_000]).unwrap();
        net.uplink(teid, &frame[ETHERNET_LEN..]);
        let answer = net.downlink();
        let headers = Headers::of_network(0x0800, &answer);
        let from = headers.ip.unwrap();
        assert_eq!((from.source, from.destination), (SERVER.into(), UE.into()));
        let (reply, payload) = Echo::parse(&answer[from.transport..], false).unwrap();
        assert_eq!((reply, payload), (Echo { reply: true, ..echo }, &[0x5a; 1_000][..]));
    }
    // Datagrams, whose checksums the kernel leaves to its devices.
    let server = net.server.run(|| UdpSocket::bind((SERVER, 2_000)).unwrap()).unwrap();
    let mut frame = vec![];
    frame::udp(&mut frame, &ethernet, &ip, Udp { source: 1_000, destination: 2_000 }, b"hello").unwrap();
    net.uplink(teid, &frame[ETHERNET_LEN..]);
    let mut datagram = [0; 100];
    server.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let (length, from) = server.recv_from(&mut datagram).unwrap();
    assert_eq!((&datagram[..length], from), (&b"hello"[..], SocketAddr::from((UE, 1_000))));
    server.send_to(b"world", from).unwrap();
    let mut answer = [&[0; 12][..], &[0x08, 0x00], &net.downlink()].concat();
    let sent = answer.clone();
    assert!(frame::reseal(&mut answer));
    assert_eq!(answer, sent, "a checksum is wrong");
    // A session that is deleted forwards nothing: an error indication comes instead.
    control.release(Time::ZERO);
    net.drive(&mut control, |event| matches!(event, Event::Released { .. }).then_some(()));
    net.uplink(teid, &frame[ETHERNET_LEN..]);
    let length = net.gnb.recv(&mut datagram).unwrap();
    assert_eq!(Gtpu::parse(&datagram[..length]).unwrap().message, Message::ErrorIndication);
    upf.signal("INT", false);
    let said = upf.end();
    assert_eq!(said.code(), Some(0), "{said:?}");
    let last: Value = serde_json::from_str(said.out.lines().last().unwrap()).unwrap();
    assert_eq!((&last["event"], &last["sessions"]), (&"account".into(), &0.into()));
    assert_eq!((&last["uplink"]["packets"], &last["downlink"]["packets"]), (&101.into(), &101.into()));
    assert_eq!(last["dropped"], serde_json::json!({"no session has that TEID": 1}));
    assert!(said.err.contains("released by 10.0.4.9"), "{said:?}");
}

#[test]
fn what_is_wrong_with_its_options_is_said() {
    let place = Place::new();
    let with = |n3: &str, address: &str, n4: &str| {
        let rest = ["--n6", "lo", "--n6-address", "10.0.6.1/24"];
        run(narrows(&place, ["upf", "--n3", n3, "--n3-address", address, "--n4", n4]).args(rest))
    };
    for (n3, address, n4, code, message) in [
        ("nosuch0", "10.0.3.1/24", "127.0.0.1", 1, "nosuch0"),
        ("lo", "10.0.3.1", "127.0.0.1", 2, "such as 10.0.3.1/24"),
        ("lo", "10.0.3.1/33", "127.0.0.1", 2, "a number from 0 to 32"),
        ("lo", "10.0.3.1/24", "somewhere", 2, "write an IP address"),
    ] {
        let said = with(n3, address, n4);
        assert_eq!(said.code(), Some(code), "{said:?}");
        assert!(said.err.contains(message), "{said:?}");
    }
    let mut filter = narrows(&place, ["upf", "--n3", "lo", "--n3-address", "10.0.3.1/24", "--n6", "lo"]);
    filter.args(["--n6-address", "10.0.6.1/24", "--n4", "127.0.0.1", "--predefined", "web=permit tcp"]);
    let said = run(&mut filter);
    assert!(said.code() == Some(2) && said.err.contains("column 8"), "{said:?}");
}
