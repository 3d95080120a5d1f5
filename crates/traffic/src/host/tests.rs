use super::*;
use core::net::{Ipv4Addr, Ipv6Addr};
use engine::{DropReason, Event, ExitId, Graph, NodeId, Outlet};
use wire::checksum;

/// Addresses of two hosts, of either family.
type Addresses = [IpAddr; 2];

const V4: Addresses = [IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2))];
const V6: Addresses =
    [IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1)), IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2))];

/// Nothing may leave the graph, and nothing may be lost in it.
struct Closed;

impl Outlet for Closed {
    fn transmit(&mut self, _: ExitId, _: Packet) {
        unreachable!("no exit is connected");
    }
    fn discard(&mut self, at: Time, _: NodeId, reason: DropReason, _: Packet) {
        panic!("{reason} at {at}");
    }
    fn event(&mut self, _: Time, _: NodeId, _: Event) {}
}

fn pair(graph: &mut Graph, [a, b]: Addresses) -> [NodeId; 2] {
    let macs = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];
    let neighbours = vec![(a, macs[0]), (b, macs[1])];
    let hosts = [(a, macs[0]), (b, macs[1])].map(|(address, mac)| {
        let neighbours = neighbours.clone();
        graph.add("host", Host::new(&HostConfig { address, mac, mtu: 1440, neighbours, seed: 1 }))
    });
    graph.connect((hosts[0], 0), (hosts[1], 0));
    graph.connect((hosts[1], 0), (hosts[0], 0));
    hosts
}

fn second(n: u64) -> Time {
    Time::ZERO + Span::from_secs(n)
}

#[test]
fn a_throttled_connection_carries_its_rate() {
    [V4, V6].into_iter().for_each(throttled);
}

fn throttled(addresses: Addresses) {
    let mut graph = Graph::new();
    let [a, b] = pair(&mut graph, addresses);
    let remote = (addresses[1], 5001);
    let host = |graph: &mut Graph, node, act: &mut dyn FnMut(&mut Host) -> usize| {
        act(graph.element_mut::<Host>(node).unwrap())
    };
    let sink = host(&mut graph, b, &mut |host| host.tcp_sink(5001, None));
    let source = host(&mut graph, a, &mut |host| {
        let rate = "1Mbit/s".parse().ok();
        let congestion = Congestion::Reno;
        host.tcp_source(TcpSource { port: 40_000, remote, rate, write: 1250, transfer: None, congestion, dscp: 34 })
    });
    graph.advance(second(1), &mut Closed);
    assert!(graph.element::<Host>(a).unwrap().flow(source).unwrap().established.is_some());
    let measured = second(1)..second(3);
    for (node, flow) in [(a, source), (b, sink)] {
        graph.element_mut::<Host>(node).unwrap().begin(flow, measured.clone(), measured.clone());
    }
    graph.advance(second(3), &mut Closed);
    let received = graph.element::<Host>(b).unwrap().flow(sink).unwrap().received_bytes;
    assert!((248_750..=250_000).contains(&received), "{received}");
}

#[test]
fn datagrams_and_echoes_are_counted_once_each() {
    [V4, V6].into_iter().for_each(counted);
}

fn counted(addresses: Addresses) {
    let mut graph = Graph::new();
    let [a, b] = pair(&mut graph, addresses);
    let to = addresses[1];
    let sink = graph.element_mut::<Host>(b).unwrap().udp_sink(9);
    let host = graph.element_mut::<Host>(a).unwrap();
    let source = host.udp_source(4000, (to, 9), "80kbit/s".parse().unwrap(), 100, 0);
    let ping = host.ping(7, to, Span::from_millis(250), 56, 0);
    host.begin(source, Time::ZERO..second(2), Time::ZERO..second(1));
    host.begin(ping, Time::ZERO..second(2), Time::ZERO..second(1));
    graph.element_mut::<Host>(b).unwrap().begin(sink, Time::ZERO..Time::MAX, Time::ZERO..second(1));
    graph.advance(second(3), &mut Closed);
    let counts = |node, flow| {
        let flow = graph.element::<Host>(node).unwrap().flow(flow).unwrap();
        (flow.sent_packets, flow.receiver.as_ref().map(|receiver| receiver.counts().received))
    };
    assert_eq!(counts(a, source).0, 100);
    assert_eq!(counts(b, sink).1, Some(100));
    assert_eq!(counts(a, ping), (4, Some(4)));
    assert_eq!(graph.element_mut::<Host>(a).unwrap().take_delays(ping).len(), 4);
}

/// Two hosts that no graph joins.
fn lone(addresses: Addresses) -> [Host; 2] {
    let neighbours = vec![(addresses[0], [2, 0, 0, 0, 0, 1]), (addresses[1], [2, 0, 0, 0, 0, 2])];
    addresses.map(|address| {
        let neighbours = neighbours.clone();
        Host::new(&HostConfig { address, mac: [2; 6], mtu: 1440, neighbours, seed: 1 })
    })
}

fn sent(host: &mut Host) -> Vec<Packet> {
    core::iter::from_fn(|| host.poll())
        .filter_map(|output| match output {
            Output::Transmit { packet, .. } => Some(packet),
            _ => None,
        })
        .collect()
}

#[test]
fn echo_requests_have_their_code_point_and_replies_have_it_too() {
    for (addresses, icmp) in [(V4, protocol::ICMP), (V6, protocol::ICMPV6)] {
        let [mut a, mut b] = lone(addresses);
        // A datagram's port is no echo identifier, and the type of an echo request is no port.
        let to = addresses[1];
        let udp = a.udp_source(0x0800, (to, 9), "80kbit/s".parse().unwrap(), 100, 10);
        let ping = a.ping(7, to, Span::from_millis(250), 56, 46);
        for flow in [udp, ping] {
            a.begin(flow, Time::ZERO..second(1), Time::ZERO..second(1));
        }
        a.tick(Time::ZERO);
        let requests = sent(&mut a);
        assert_eq!(code_points(&requests), [(protocol::UDP, 10), (icmp, 46)]);
        b.handle(Time::ZERO, 0, requests[1].clone());
        let replies = sent(&mut b);
        assert_eq!(code_points(&replies), [(icmp, 46)]);
        assert!(replies.iter().chain(&requests).all(is_intact));
        a.handle(Time::ZERO, 0, replies[0].clone());
        assert_eq!(a.take_delays(ping).len(), 1);
    }
}

fn code_points(packets: &[Packet]) -> Vec<(u8, u8)> {
    packets.iter().filter_map(|packet| Headers::parse(&packet.bytes).ip).map(|ip| (ip.protocol, ip.dscp)).collect()
}

/// Whether the checksums of the IP and the transport header are right.
fn is_intact(packet: &Packet) -> bool {
    let headers = Headers::parse(&packet.bytes);
    let Some(ip) = headers.ip else { return false };
    let pseudo = match ip.protocol {
        protocol::ICMP => checksum::Sum::default(),
        number => checksum::Sum::pseudo_header(ip.source, ip.destination, number, headers.transport_len() as u32),
    };
    let header = ip.source.is_ipv6() || checksum::checksum(&packet.bytes[headers.network..ip.transport]) == 0;
    header && wire::is_intact(&packet.bytes[ip.transport..headers.network + headers.network_len], pseudo)
}

#[test]
fn a_host_left_alone_sends_nothing() {
    for addresses in [V4, V6] {
        for mut host in lone(addresses) {
            host.tick(Time::ZERO);
            while let Some(at) = host.deadline().filter(|at| *at < second(600)) {
                host.tick(at);
            }
            assert!(sent(&mut host).is_empty());
        }
    }
}

#[test]
fn a_throttle_owes_nothing_for_the_time_before_its_connection_stands() {
    let [mut a, mut b] = lone(V4);
    let sink = b.tcp_sink(5001, None);
    let rate = "80kbit/s".parse().unwrap();
    let config = TcpSource {
        port: 40_000,
        remote: (V4[1], 5001),
        rate: Some(rate),
        write: 500,
        transfer: None,
        congestion: Congestion::Reno,
        dscp: 0,
    };
    let source = a.tcp_source(config);
    for (host, flow) in [(&mut a, source), (&mut b, sink)] {
        host.begin(flow, Time::ZERO..second(60), Time::ZERO..second(60));
    }
    // Nothing arrives in the first five seconds.
    let mut now = Time::ZERO;
    while now < second(20) {
        a.tick(now);
        b.tick(now);
        loop {
            let (up, down) = (sent(&mut a), sent(&mut b));
            if up.is_empty() && down.is_empty() || now < second(5) {
                break;
            }
            up.into_iter().for_each(|packet| b.handle(now, 0, packet));
            down.into_iter().for_each(|packet| a.handle(now, 0, packet));
        }
        now = earliest(a.deadline(), b.deadline()).unwrap_or(second(20)).max(now + Span::from_micros(1));
    }
    let established = a.flow(source).unwrap().established.unwrap();
    assert!(established > second(5));
    let allowed = rate.bytes_in(now.since(established)) + 500;
    let received = b.flow(sink).unwrap().received_bytes;
    assert!(received > 0 && received <= allowed, "{received} of {allowed}");
}
