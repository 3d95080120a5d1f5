//! A modelled host: smoltcp's stack with applications on top, as an element.

mod flow;
mod stack;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::ops::Range;

use engine::{Element, Output, Packet, Port, Rate, Span, Time};
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::socket::{icmp, tcp, udp};
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpCidr, IpEndpoint};
use wire::{Headers, protocol};

use crate::{Application, Echoes, PROBE_LEN, ProbeReceiver, Throttle};
use flow::End;
use stack::{Frames, FromStack};

pub use flow::HostFlow;

/// A host of virtual time: one interface, an IPv4 or IPv6 address, static neighbours, and the TCP,
/// UDP and ICMP of smoltcp. It sends nothing by itself: no neighbour discovery, router solicitation
/// or group membership.
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
    neighbours: BTreeMap<IpAddr, [u8; 6]>,
    mac: [u8; 6],
    /// Code points of what is sent from a port or with an echo identifier, by protocol.
    dscp: BTreeMap<(u8, u16), u8>,
    deadline: Option<Time>,
}

/// What a host is.
#[derive(Clone, Debug)]
pub struct HostConfig {
    /// Its address.
    pub address: IpAddr,
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// MTU of its interface in bytes.
    pub mtu: u16,
    /// Ethernet addresses of every host it sends to.
    pub neighbours: Vec<(IpAddr, [u8; 6])>,
    /// Seed of initial sequence numbers and ports.
    pub seed: u64,
}

/// A rate-limited TCP sender.
#[derive(Clone, Copy, Debug)]
pub struct TcpSource {
    /// Port it sends from.
    pub port: u16,
    /// Where it connects to.
    pub remote: (IpAddr, u16),
    /// Rate of the application; none: as fast as it goes.
    pub rate: Option<Rate>,
    /// Bytes in a write.
    pub write: u64,
    /// Bytes in all, if it is a transfer; for as long as it may send if not.
    pub transfer: Option<u64>,
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

    /// Adds a TCP receiver that takes one connection on `port`, and a transfer of so many bytes if it is
    /// one.
    pub fn tcp_sink(&mut self, port: u16, transfer: Option<u64>) -> usize {
        let mut socket = tcp_socket();
        let listening = socket.listen(port);
        debug_assert!(listening.is_ok(), "the socket is new and the port is not 0");
        let handle = self.sockets.add(socket);
        self.add(End::TcpSink { handle, left: transfer })
    }

    /// Adds a sender of datagrams of `size` bytes at `rate`, both of UDP payload.
    pub fn udp_source(&mut self, port: u16, remote: (IpAddr, u16), rate: Rate, size: usize, dscp: u8) -> usize {
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
    pub fn ping(&mut self, ident: u16, remote: IpAddr, interval: Span, size: usize, dscp: u8) -> usize {
        let buffer = || icmp::PacketBuffer::new(vec![icmp::PacketMetadata::EMPTY; DATAGRAMS], vec![0; DATAGRAM_BUFFER]);
        let mut socket = icmp::Socket::new(buffer(), buffer());
        let bound = socket.bind(icmp::Endpoint::Ident(ident));
        debug_assert!(bound.is_ok(), "the socket is new");
        let handle = self.sockets.add(socket);
        let icmp = if remote.is_ipv6() { protocol::ICMPV6 } else { protocol::ICMP };
        self.set_dscp(icmp, ident, dscp);
        let remote = remote.into();
        let echoes = Echoes::new(Time::ZERO..Time::ZERO);
        self.add(End::Ping { handle, remote, ident, size, interval, next: None, echoes })
    }

    /// Adds an end of a flow of datagrams. `ports` are those of its sockets, each here and there.
    pub fn application(
        &mut self,
        application: Box<dyn Application>,
        ports: &[(u16, u16)],
        remote: IpAddr,
        dscp: u8,
    ) -> usize {
        let socket = |&(here, there): &(u16, u16)| {
            self.set_dscp(protocol::UDP, here, dscp);
            (self.udp_socket(here), IpEndpoint::new(remote.into(), there))
        };
        let sockets = ports.iter().map(socket).collect();
        self.add(End::Application { sockets, application })
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
            End::Ping { next, echoes, .. } => {
                *next = Some(sending.start);
                *echoes = Echoes::new(window.clone());
                flow.receiver = Some(ProbeReceiver::new(window));
            }
            End::UdpSink { .. } => flow.receiver = Some(ProbeReceiver::new(window)),
            End::Application { application, .. } => application.begin(sending.clone()),
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
            began: None,
            completed: None,
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

    /// Fills in the Ethernet header of a packet of the stack, and its code point.
    fn frame(&self, mut bytes: Vec<u8>) -> Vec<u8> {
        let headers = Headers::parse(&bytes);
        if let Some(dscp) = stack::origin(&bytes, &headers).and_then(|origin| self.dscp.get(&origin)) {
            wire::set_dscp(&mut bytes, &headers, *dscp);
        }
        let neighbour = headers.ip.and_then(|ip| self.neighbours.get(&ip.destination));
        bytes[0..6].copy_from_slice(neighbour.unwrap_or(&[0xff; 6]));
        bytes[6..12].copy_from_slice(&self.mac);
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
