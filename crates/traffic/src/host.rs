//! A modelled host: smoltcp's stack with applications on top, as an element.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;
use core::net::Ipv4Addr;
use core::ops::Range;

use engine::{Element, Output, Packet, Port, Rate, Span, Time};
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::{icmp, tcp, udp};
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, Icmpv4Packet, Icmpv4Repr, IpAddress, IpCidr, IpEndpoint};
use wire::{ETHERNET_LEN, checksum, protocol};

use crate::{Arrival, PROBE_LEN, Probe, ProbeReceiver, Throttle};

/// A host of virtual time: one interface, IPv4, static neighbours, and the TCP, UDP and ICMP of
/// smoltcp.
///
/// Its TCP differs from Linux's: the sender does not use selective acknowledgements (it sends again
/// from the first loss), has neither RACK nor tail loss probes, a least retransmission timeout of
/// 1 s (Linux: 200 ms), an initial window of 2,048 bytes (Linux: 10 segments), fixed buffers of
/// 4 MiB, no pacing, and a receiver that keeps at most 4 gaps. It follows RFC 9438 for CUBIC and
/// RFC 5681 for Reno. Time inside the stack has a resolution of 1 µs.
///
/// Ports: input and output 0, to the link or what stands before it.
pub struct Host {
    interface: Interface,
    sockets: SocketSet<'static>,
    device: Frames,
    flows: Vec<HostFlow>,
    neighbours: BTreeMap<Ipv4Addr, [u8; 6]>,
    mac: [u8; 6],
    /// Code points of what is sent from a port or with an echo identifier, by protocol.
    dscp: BTreeMap<(u8, u16), u8>,
    deadline: Option<Time>,
}

/// What a host is.
#[derive(Clone, Debug)]
pub struct HostConfig {
    /// Its address.
    pub address: Ipv4Addr,
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// MTU of its interface in bytes.
    pub mtu: u16,
    /// Ethernet addresses of every host it sends to.
    pub neighbours: Vec<(Ipv4Addr, [u8; 6])>,
    /// Seed of initial sequence numbers and ports.
    pub seed: u64,
}

/// A rate-limited TCP sender.
#[derive(Clone, Copy, Debug)]
pub struct TcpSource {
    /// Port it sends from.
    pub port: u16,
    /// Where it connects to.
    pub remote: (Ipv4Addr, u16),
    /// Rate of the application; none: as fast as it goes.
    pub rate: Option<Rate>,
    /// Bytes in a write.
    pub write: u64,
    /// Congestion control.
    pub congestion: Congestion,
    /// Differentiated services code point.
    pub dscp: u8,
}

/// The congestion controls there are in virtual time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Congestion {
    /// CUBIC (RFC 9438).
    #[cfg(feature = "cubic")]
    Cubic,
    /// Reno (RFC 5681).
    Reno,
}

/// One end of a flow on a host, with its counters.
#[derive(Debug)]
pub struct HostFlow {
    /// When the connection was established (TCP).
    pub established: Option<Time>,
    /// Bytes the application wrote or the socket took.
    pub sent_bytes: u64,
    /// Datagrams or echo requests sent in the window.
    pub sent_packets: u64,
    /// Bytes the application received.
    pub received_bytes: u64,
    /// Datagrams or replies, for flows that number them.
    pub receiver: Option<ProbeReceiver>,
    /// One-way delays (UDP) or round trips (ping) since [`Host::take_delays`], in order of arrival.
    delays: Vec<Span>,
    sending: Range<Time>,
    window: Range<Time>,
    end: End,
}

#[derive(Debug)]
enum End {
    TcpSource { handle: SocketHandle, config: TcpSource, throttle: Option<Throttle>, left: u64 },
    TcpSink { handle: SocketHandle },
    UdpSource { handle: SocketHandle, remote: IpEndpoint, size: usize, rate: Rate, throttle: Option<Throttle> },
    UdpSink { handle: SocketHandle },
    Ping { handle: SocketHandle, remote: IpAddress, ident: u16, size: usize, interval: Span, next: Option<Time> },
}

/// Buffer of each direction of a TCP socket.
const TCP_BUFFER: usize = 4 << 20;
/// Buffer of a UDP or ICMP socket; the applications empty it at once.
const DATAGRAM_BUFFER: usize = 1 << 20;
const DATAGRAMS: usize = 1024;

impl Host {
    /// A host without applications.
    #[must_use]
    pub fn new(config: &HostConfig) -> Self {
        let mut device = Frames { arrived: VecDeque::new(), out: VecDeque::new(), mtu: usize::from(config.mtu) };
        let mut settings = Config::new(HardwareAddress::Ip);
        settings.random_seed = config.seed;
        let mut interface = Interface::new(settings, &mut device, Instant::ZERO);
        interface.update_ip_addrs(|addresses| {
            // A prefix of 0 makes every host a neighbour; how frames get there is `neighbours`.
            let added = addresses.push(IpCidr::new(config.address.into(), 0));
            debug_assert!(added.is_ok(), "the list of addresses was empty");
        });
        Self {
            interface,
            sockets: SocketSet::new(Vec::new()),
            device,
            flows: Vec::new(),
            neighbours: config.neighbours.iter().copied().collect(),
            mac: config.mac,
            dscp: BTreeMap::new(),
            deadline: None,
        }
    }

    /// Adds a TCP sender, which connects at once and sends from [`Host::begin`] on. Returns its
    /// position in [`Host::flow`].
    pub fn tcp_source(&mut self, config: TcpSource) -> usize {
        let mut socket = tcp_socket();
        socket.set_congestion_control(match config.congestion {
            #[cfg(feature = "cubic")]
            Congestion::Cubic => tcp::CongestionControl::Cubic,
            Congestion::Reno => tcp::CongestionControl::Reno,
        });
        // iperf3 leaves Nagle's algorithm on.
        let remote = IpEndpoint::new(config.remote.0.into(), config.remote.1);
        let connected = socket.connect(self.interface.context(), remote, config.port);
        debug_assert!(connected.is_ok(), "the socket is new and the remote address is given");
        let handle = self.sockets.add(socket);
        self.set_dscp(protocol::TCP, config.port, config.dscp);
        self.add(End::TcpSource { handle, config, throttle: None, left: 0 })
    }

    /// Adds a TCP receiver that takes one connection on `port`.
    pub fn tcp_sink(&mut self, port: u16) -> usize {
        let mut socket = tcp_socket();
        let listening = socket.listen(port);
        debug_assert!(listening.is_ok(), "the socket is new and the port is not 0");
        let handle = self.sockets.add(socket);
        self.add(End::TcpSink { handle })
    }

    /// Adds a sender of datagrams of `size` bytes at `rate`, both of UDP payload.
    pub fn udp_source(&mut self, port: u16, remote: (Ipv4Addr, u16), rate: Rate, size: usize, dscp: u8) -> usize {
        let handle = self.udp_socket(port);
        self.set_dscp(protocol::UDP, port, dscp);
        let remote = IpEndpoint::new(remote.0.into(), remote.1);
        self.add(End::UdpSource { handle, remote, size: size.max(PROBE_LEN), rate, throttle: None })
    }

    /// Adds a receiver of datagrams on `port`.
    pub fn udp_sink(&mut self, port: u16) -> usize {
        let handle = self.udp_socket(port);
        self.add(End::UdpSink { handle })
    }

    /// Adds a sender of echo requests with a payload of `size` bytes. Replies have the requests' code
    /// point, as Linux gives it to them.
    pub fn ping(&mut self, ident: u16, remote: Ipv4Addr, interval: Span, size: usize, dscp: u8) -> usize {
        let buffer = || icmp::PacketBuffer::new(vec![icmp::PacketMetadata::EMPTY; DATAGRAMS], vec![0; DATAGRAM_BUFFER]);
        let mut socket = icmp::Socket::new(buffer(), buffer());
        let bound = socket.bind(icmp::Endpoint::Ident(ident));
        debug_assert!(bound.is_ok(), "the socket is new");
        let handle = self.sockets.add(socket);
        self.set_dscp(protocol::ICMP, ident, dscp);
        let remote = remote.into();
        self.add(End::Ping { handle, remote, ident, size: size.max(PROBE_LEN), interval, next: None })
    }

    /// Lets a flow send from `sending.start` to `sending.end` and count what is sent within
    /// `window`. A sink counts only.
    pub fn begin(&mut self, flow: usize, sending: Range<Time>, window: Range<Time>) {
        let Some(flow) = self.flows.get_mut(flow) else { return };
        flow.window = window.clone();
        match &mut flow.end {
            // Its throttle starts with what it sends first: before that nothing is owed.
            End::TcpSource { .. } => {}
            End::UdpSource { rate, throttle, .. } => *throttle = Some(Throttle::new(Some(*rate), sending.start)),
            End::Ping { next, .. } => {
                *next = Some(sending.start);
                flow.receiver = Some(ProbeReceiver::new(window));
            }
            End::UdpSink { .. } => flow.receiver = Some(ProbeReceiver::new(window)),
            End::TcpSink { .. } => {}
        }
        flow.sending = sending;
        self.deadline = Some(Time::ZERO);
    }

    /// A flow's counters.
    #[must_use]
    pub fn flow(&self, flow: usize) -> Option<&HostFlow> {
        self.flows.get(flow)
    }

    /// The delays seen since this was last called.
    pub fn take_delays(&mut self, flow: usize) -> Vec<Span> {
        self.flows.get_mut(flow).map(|flow| core::mem::take(&mut flow.delays)).unwrap_or_default()
    }

    fn add(&mut self, end: End) -> usize {
        self.flows.push(HostFlow {
            established: None,
            sent_bytes: 0,
            sent_packets: 0,
            received_bytes: 0,
            receiver: None,
            delays: Vec::new(),
            sending: Time::MAX..Time::MAX,
            window: Time::MAX..Time::MAX,
            end,
        });
        self.deadline = Some(Time::ZERO);
        self.flows.len() - 1
    }

    fn udp_socket(&mut self, port: u16) -> SocketHandle {
        let buffer = || udp::PacketBuffer::new(vec![udp::PacketMetadata::EMPTY; DATAGRAMS], vec![0; DATAGRAM_BUFFER]);
        let mut socket = udp::Socket::new(buffer(), buffer());
        let bound = socket.bind(port);
        debug_assert!(bound.is_ok(), "the socket is new and the port is not 0");
        self.sockets.add(socket)
    }

    fn set_dscp(&mut self, protocol: u8, number: u16, dscp: u8) {
        if dscp != 0 {
            self.dscp.insert((protocol, number), dscp);
        }
    }

    /// Lets the stack take what arrived, the applications what the stack has, and the stack send.
    fn run(&mut self, now: Time) {
        let instant = Instant::from_micros(i64::try_from(now.as_nanos() / 1_000).unwrap_or(i64::MAX));
        self.interface.poll(instant, &mut self.device, &mut self.sockets);
        let mut next: Option<Time> = None;
        for flow in &mut self.flows {
            next = earliest(next, flow.run(now, &mut self.sockets));
        }
        self.interface.poll(instant, &mut self.device, &mut self.sockets);
        let stack = self.interface.poll_at(instant, &self.sockets);
        let stack = stack.map(|at| Time::from_nanos(u64::try_from(at.total_micros()).unwrap_or(0) * 1_000));
        // The stack's clock is coarser than ours: within one of its ticks there is nothing to do.
        self.deadline = earliest(next, stack).map(|at| at.max(now + Span::from_micros(1)));
    }

    /// Puts the Ethernet header in front of a packet of the stack.
    fn frame(&self, mut bytes: Vec<u8>) -> Vec<u8> {
        let ip = &mut bytes[ETHERNET_LEN..];
        let destination = Ipv4Addr::new(ip[16], ip[17], ip[18], ip[19]);
        if let Some(dscp) = origin(ip).and_then(|origin| self.dscp.get(&origin)) {
            set_dscp(ip, *dscp);
        }
        bytes[0..6].copy_from_slice(self.neighbours.get(&destination).unwrap_or(&[0xff; 6]));
        bytes[6..12].copy_from_slice(&self.mac);
        bytes[12..14].copy_from_slice(&wire::ethertype::IPV4.to_be_bytes());
        bytes
    }
}

impl Element for Host {
    fn handle(&mut self, now: Time, _: Port, packet: Packet) {
        self.device.arrived.push_back(packet);
        self.run(now);
    }

    fn tick(&mut self, now: Time) {
        self.run(now);
    }

    fn deadline(&self) -> Option<Time> {
        self.deadline
    }

    fn poll(&mut self) -> Option<Output> {
        Some(match self.device.out.pop_front()? {
            FromStack::Sent(bytes) => Output::Transmit { port: 0, packet: Packet::new(self.frame(bytes)) },
            FromStack::Taken(packet) => Output::Consume { packet },
        })
    }
}

impl HostFlow {
    /// Does what can be done now; says when there is more to do, if the stack will not say.
    fn run(&mut self, now: Time, sockets: &mut SocketSet<'static>) -> Option<Time> {
        let sending = self.sending.contains(&now);
        let counted = self.window.contains(&now);
        match &mut self.end {
            End::TcpSource { handle, config, throttle, left } => {
                let socket = sockets.get_mut::<tcp::Socket<'_>>(*handle);
                if self.established.is_none() && socket.may_send() {
                    self.established = Some(now);
                }
                if !sending {
                    let begun = self.sending.start < Time::MAX;
                    return (begun && now < self.sending.start).then_some(self.sending.start);
                }
                self.established?;
                let throttle = throttle.get_or_insert_with(|| Throttle::new(config.rate, now));
                loop {
                    if *left == 0 {
                        if throttle.ready_at() > now {
                            return Some(throttle.ready_at());
                        }
                        *left = config.write;
                    }
                    // A full buffer is emptied by acknowledgements, which run this again.
                    let block = [0; 4096];
                    let take = block.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                    let taken = socket.send_slice(&block[..take]).unwrap_or(0) as u64;
                    if taken == 0 {
                        return None;
                    }
                    *left -= taken;
                    throttle.wrote(taken);
                    self.sent_bytes += if counted { taken } else { 0 };
                }
            }
            End::TcpSink { handle } => {
                let socket = sockets.get_mut::<tcp::Socket<'_>>(*handle);
                while let Ok(taken @ 1..) = socket.recv(|bytes| (bytes.len(), bytes.len())) {
                    self.received_bytes += if counted { taken as u64 } else { 0 };
                }
                None
            }
            End::UdpSource { handle, remote, size, throttle, .. } => {
                let socket = sockets.get_mut::<udp::Socket<'_>>(*handle);
                let throttle = throttle.as_mut()?;
                if now >= self.sending.end {
                    return None;
                }
                while throttle.ready_at() <= now {
                    let number = throttle.written() / *size as u64;
                    throttle.wrote(*size as u64);
                    let probe = Probe { flow: 0, number, sent: now };
                    if let Ok(payload) = socket.send(*size, *remote) {
                        payload.fill(0);
                        payload[..PROBE_LEN].copy_from_slice(&probe.bytes());
                    }
                    self.sent_packets += u64::from(counted);
                    self.sent_bytes += if counted { *size as u64 } else { 0 };
                }
                Some(throttle.ready_at())
            }
            End::UdpSink { handle } => {
                let socket = sockets.get_mut::<udp::Socket<'_>>(*handle);
                while let Ok((payload, _)) = socket.recv() {
                    if counted {
                        self.received_bytes += payload.len() as u64;
                    }
                    if let (Some(probe), Some(receiver)) = (Probe::read(payload), &mut self.receiver)
                        && let Arrival::First { delay, .. } = receiver.receive(now, &probe)
                        && self.window.contains(&probe.sent)
                    {
                        self.delays.push(delay);
                    }
                }
                None
            }
            End::Ping { handle, remote, ident, size, interval, next } => {
                let socket = sockets.get_mut::<icmp::Socket<'_>>(*handle);
                while let Ok((reply, _)) = socket.recv() {
                    let probe = Icmpv4Packet::new_checked(reply).ok().and_then(|packet| Probe::read(packet.data()));
                    if let (Some(probe), Some(receiver)) = (probe, &mut self.receiver)
                        && let Arrival::First { delay, .. } = receiver.receive(now, &probe)
                        && self.window.contains(&probe.sent)
                    {
                        self.received_bytes += *size as u64;
                        self.delays.push(delay);
                    }
                }
                let next = next.as_mut()?;
                if *next >= self.sending.end {
                    return None;
                }
                while *next <= now {
                    let number = next.since(self.sending.start).as_nanos() / interval.as_nanos().max(1);
                    let mut payload = vec![0; *size];
                    payload[..PROBE_LEN].copy_from_slice(&Probe { flow: 0, number, sent: now }.bytes());
                    let request = Icmpv4Repr::EchoRequest { ident: *ident, seq_no: number as u16, data: &payload };
                    if let Ok(buffer) = socket.send(request.buffer_len(), *remote) {
                        let mut packet = Icmpv4Packet::new_unchecked(buffer);
                        request.emit(&mut packet, &smoltcp::phy::ChecksumCapabilities::default());
                    }
                    self.sent_packets += u64::from(counted);
                    *next += *interval;
                }
                Some(*next)
            }
        }
    }
}

/// What a packet's code point is chosen by: protocol, and source port or the identifier of an echo
/// request.
fn origin(ip: &[u8]) -> Option<(u8, u16)> {
    let payload = ip.get(usize::from(ip.first()? & 0x0f) * 4..)?;
    let at = match *ip.get(9)? {
        // RFC 792: an echo request has type 8; its identifier stands after the checksum.
        protocol::ICMP if payload.first() == Some(&8) => 4,
        protocol::ICMP => return None,
        _ => 0,
    };
    Some((ip[9], u16::from_be_bytes(payload.get(at..at + 2)?.try_into().ok()?)))
}

/// Whether an IPv4 packet is an echo reply (RFC 792: type 0).
fn is_echo_reply(ip: &[u8]) -> bool {
    ip.get(9) == Some(&protocol::ICMP) && ip.get(usize::from(ip[0] & 0x0f) * 4) == Some(&0)
}

/// Sets an IPv4 header's code point (RFC 2474 3) and keeps its checksum right (RFC 1624).
fn set_dscp(ip: &mut [u8], dscp: u8) {
    let old = u16::from_be_bytes([ip[0], ip[1]]);
    ip[1] = dscp << 2 | ip[1] & 3;
    let sum = checksum::updated(u16::from_be_bytes([ip[10], ip[11]]), old, u16::from_be_bytes([ip[0], ip[1]]));
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
}

fn tcp_socket() -> tcp::Socket<'static> {
    let buffer = || tcp::SocketBuffer::new(vec![0; TCP_BUFFER]);
    tcp::Socket::new(buffer(), buffer())
}

fn earliest(a: Option<Time>, b: Option<Time>) -> Option<Time> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// The stack's side of the interface: frames in, packets with room for their Ethernet header out.
#[derive(Debug)]
struct Frames {
    arrived: VecDeque<Packet>,
    out: VecDeque<FromStack>,
    mtu: usize,
}

/// What `poll` gives out: packets to send, and what is left of those the stack took (the stack's
/// tokens own the bytes, so the buffer is gone; virtual time has no hot path to spare it for).
#[derive(Debug)]
enum FromStack {
    Sent(Vec<u8>),
    Taken(Packet),
}

struct Received(Vec<u8>);

struct Sending<'a> {
    out: &'a mut VecDeque<FromStack>,
    /// Code point of the packet this may be the reply to.
    echo: Option<u8>,
}

impl Device for Frames {
    type RxToken<'a> = Received;
    type TxToken<'a> = Sending<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Received, Sending<'_>)> {
        let mut packet = self.arrived.pop_front()?;
        let bytes = core::mem::take(&mut packet.bytes);
        let echo = bytes.get(ETHERNET_LEN + 1).map(|tos| tos >> 2);
        self.out.push_back(FromStack::Taken(packet));
        Some((Received(bytes), Sending { out: &mut self.out, echo }))
    }

    fn transmit(&mut self, _: Instant) -> Option<Sending<'_>> {
        Some(Sending { out: &mut self.out, echo: None })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = self.mtu;
        capabilities
    }
}

impl RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, take: F) -> R {
        take(self.0.get(ETHERNET_LEN..).unwrap_or(&[]))
    }
}

impl TxToken for Sending<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, fill: F) -> R {
        let mut bytes = vec![0; ETHERNET_LEN + len];
        let ip = &mut bytes[ETHERNET_LEN..];
        let result = fill(ip);
        if let Some(dscp) = self.echo
            && is_echo_reply(ip)
        {
            set_dscp(ip, dscp);
        }
        self.out.push_back(FromStack::Sent(bytes));
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::{DropReason, Event, ExitId, Graph, NodeId, Outlet};

    const A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const B: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

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

    fn pair(graph: &mut Graph) -> [NodeId; 2] {
        let macs = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];
        let neighbours = vec![(A, macs[0]), (B, macs[1])];
        let hosts = [(A, macs[0]), (B, macs[1])].map(|(address, mac)| {
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
        let mut graph = Graph::new();
        let [a, b] = pair(&mut graph);
        let host = |graph: &mut Graph, node, act: &mut dyn FnMut(&mut Host) -> usize| {
            act(graph.element_mut::<Host>(node).unwrap())
        };
        let sink = host(&mut graph, b, &mut |host| host.tcp_sink(5001));
        let source = host(&mut graph, a, &mut |host| {
            let rate = "1Mbit/s".parse().ok();
            let congestion = Congestion::Reno;
            host.tcp_source(TcpSource { port: 40_000, remote: (B, 5001), rate, write: 1250, congestion, dscp: 34 })
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
        let mut graph = Graph::new();
        let [a, b] = pair(&mut graph);
        let sink = graph.element_mut::<Host>(b).unwrap().udp_sink(9);
        let host = graph.element_mut::<Host>(a).unwrap();
        let source = host.udp_source(4000, (B, 9), "80kbit/s".parse().unwrap(), 100, 0);
        let ping = host.ping(7, B, Span::from_millis(250), 56, 0);
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

    fn lone(address: Ipv4Addr) -> Host {
        let neighbours = vec![(A, [2, 0, 0, 0, 0, 1]), (B, [2, 0, 0, 0, 0, 2])];
        Host::new(&HostConfig { address, mac: [2; 6], mtu: 1440, neighbours, seed: 1 })
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
        let (mut a, mut b) = (lone(A), lone(B));
        // A datagram's port is no echo identifier, and the type of an echo request is no port.
        let udp = a.udp_source(0x0800, (B, 9), "80kbit/s".parse().unwrap(), 100, 10);
        let ping = a.ping(7, B, Span::from_millis(250), 56, 46);
        for flow in [udp, ping] {
            a.begin(flow, Time::ZERO..second(1), Time::ZERO..second(1));
        }
        a.tick(Time::ZERO);
        let code_points = |packets: &[Packet]| -> Vec<(u8, u8)> {
            packets.iter().map(|packet| (packet.bytes[ETHERNET_LEN + 9], packet.bytes[ETHERNET_LEN + 1] >> 2)).collect()
        };
        let requests = sent(&mut a);
        assert_eq!(code_points(&requests), [(protocol::UDP, 10), (protocol::ICMP, 46)]);
        b.handle(Time::ZERO, 0, requests[1].clone());
        let replies = sent(&mut b);
        assert_eq!(code_points(&replies), [(protocol::ICMP, 46)]);
        assert_eq!(checksum::checksum(&replies[0].bytes[ETHERNET_LEN..ETHERNET_LEN + 20]), 0);
        a.handle(Time::ZERO, 0, replies[0].clone());
        assert_eq!(a.take_delays(ping).len(), 1);
    }

    #[test]
    fn a_throttle_owes_nothing_for_the_time_before_its_connection_stands() {
        let (mut a, mut b) = (lone(A), lone(B));
        let sink = b.tcp_sink(5001);
        let rate = "80kbit/s".parse().unwrap();
        let config = TcpSource {
            port: 40_000,
            remote: (B, 5001),
            rate: Some(rate),
            write: 500,
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
}
