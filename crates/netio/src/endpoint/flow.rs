//! One flow's sockets and counters.

use std::fs;
use std::io::{self, ErrorKind};
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::LazyLock;

use engine::{Rate, Size, Span, Time};
use hdrhistogram::Histogram;
use measure::{Observation, PacketCounts, PacketPoint, Snapshot, delay_histogram};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use traffic::{Arrival, EchoPassage, Echoes, PROBE_LEN, Probe, ProbeReceiver, Throttle};
use wire::checksum::checksum;
use wire::{ECHO_LEN, Echo};

use super::datagrams;
use super::session::Left;
use super::{End, EndpointError, FlowKind, FlowSpec, overflow};
use crate::arrival::receive_stamped;
use crate::clock::Epoch;
use crate::waiting::Epoll;

/// Ports are the flow's number above this one; every cell has namespaces of its own.
const FIRST_PORT: u16 = 5001;
/// System calls a flow makes in a row before others have their turn.
const TURN: usize = 32;
/// What is written; its length bounds one system call.
static BLOCK: LazyLock<Vec<u8>> = LazyLock::new(|| filled(128 << 10));
/// How often TCP's round-trip estimate is sampled.
const SAMPLE: Span = Span::from_millis(100);

/// A flow with its sockets.
pub(super) struct Flow {
    spec: FlowSpec,
    number: u16,
    sockets: Sockets,
    opened: Time,
    /// When the first byte of a stream was written.
    began: Option<Time>,
    /// When it may send; empty until it begins.
    sending: Range<Time>,
    measured: Range<Time>,
    throttle: Option<Throttle>,
    next_sample: Option<Time>,
    sent_bytes: u64,
    received_bytes: u64,
    sent_packets: u64,
    sent_in_window: u64,
    receiver: Option<ProbeReceiver>,
    interval_delays: Histogram<u64>,
    observation: Observation,
}

enum Sockets {
    Tcp {
        listener: Socket,
        source: Socket,
        sink: Option<Socket>,
        state: TcpState,
    },
    Udp {
        source: Socket,
        sink: Socket,
    },
    Ping {
        socket: Socket,
        echoes: Echoes,
    },
    /// Of the first end, then of the other.
    Datagrams {
        sockets: [Vec<Socket>; 2],
    },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum TcpState {
    New,
    Connecting,
    Connected { block: u64 },
    Broken,
}

impl Flow {
    /// Makes the sockets, each in its namespace.
    pub(super) fn new(spec: FlowSpec, number: u16) -> Result<Self, EndpointError> {
        let port = FIRST_PORT + number;
        let sockets = match &spec.kind {
            FlowKind::Tcp { congestion, .. } => Sockets::Tcp {
                listener: tcp_listener(&spec.to, port, congestion)?,
                source: tcp_source(&spec.from, congestion, spec.dscp)?,
                sink: None,
                state: TcpState::New,
            },
            FlowKind::Udp { .. } => {
                let to = SocketAddr::new(spec.to.address, port);
                Sockets::Udp {
                    sink: make("bind a UDP socket", &spec.to, || udp_sink(to))?,
                    source: make("connect a UDP socket", &spec.from, || {
                        udp_source(SocketAddr::new(spec.from.address, port), to, spec.dscp)
                    })?,
                }
            }
            FlowKind::Datagrams { ports, .. } => Sockets::Datagrams {
                sockets: [
                    datagrams::sockets(&spec.from, &spec.to, ports, spec.dscp)?,
                    datagrams::sockets(&spec.to, &spec.from, ports, spec.dscp)?,
                ],
            },
            FlowKind::Ping { .. } => Sockets::Ping {
                echoes: Echoes::new(Time::ZERO..Time::ZERO),
                socket: make("open an ICMP socket", &spec.from, || {
                    icmp(spec.from.address, spec.to.address, spec.dscp)
                })?,
            },
        };
        Ok(Self {
            spec,
            number,
            sockets,
            opened: Time::ZERO,
            began: None,
            sending: Time::MAX..Time::MAX,
            measured: Time::MAX..Time::MAX,
            throttle: None,
            next_sample: None,
            sent_bytes: 0,
            received_bytes: 0,
            sent_packets: 0,
            sent_in_window: 0,
            receiver: None,
            interval_delays: delay_histogram(),
            observation: Observation::new(),
        })
    }

    /// Watches the sockets, and connects if the flow starts with the cell.
    pub(super) fn open(&mut self, now: Time, epoll: &Epoll, token: u64) {
        let watched = match &self.sockets {
            Sockets::Tcp { listener, source, .. } => {
                epoll.add_edges(&listener.as_fd(), token).and_then(|()| epoll.add_edges(&source.as_fd(), token))
            }
            Sockets::Udp { source, sink } => {
                epoll.add_edges(&sink.as_fd(), token).and_then(|()| epoll.add_edges(&source.as_fd(), token))
            }
            Sockets::Ping { socket, .. } => epoll.add_edges(&socket.as_fd(), token),
            Sockets::Datagrams { sockets } => {
                sockets.iter().flatten().try_for_each(|socket| epoll.add_edges(&socket.as_fd(), token))
            }
        };
        if let Err(error) = watched {
            self.fail(format!("cannot watch a socket: {error}"));
        } else if self.spec.start == Span::ZERO {
            self.connect(now);
        }
    }

    /// Whether the cell need not wait for this flow's connection.
    pub(super) fn is_ready(&self) -> bool {
        match self.sockets {
            Sockets::Tcp { state, .. } => {
                matches!(state, TcpState::Connected { .. } | TcpState::Broken) || self.spec.start != Span::ZERO
            }
            Sockets::Udp { .. } | Sockets::Ping { .. } | Sockets::Datagrams { .. } => true,
        }
    }

    /// The cell's connections stand: the flow may send from its start on.
    pub(super) fn begin(&mut self, now: Time, measured: (Time, Time)) {
        let (start, end) = measured;
        let stop = self.spec.stop.map_or(end, |stop| (now + stop).min(end));
        self.sending = now + self.spec.start..stop;
        self.measured = start..end;
        match &mut self.spec.kind {
            FlowKind::Tcp { .. } => self.next_sample = Some(start),
            FlowKind::Udp { rate, .. } => {
                self.throttle = Some(Throttle::new(Some(*rate), self.sending.start));
                self.receiver = Some(ProbeReceiver::new(self.measured.clone()));
            }
            FlowKind::Ping { .. } => {
                self.receiver = Some(ProbeReceiver::new(self.measured.clone()));
                if let Sockets::Ping { echoes, .. } = &mut self.sockets {
                    *echoes = Echoes::new(self.measured.clone());
                }
            }
            FlowKind::Datagrams { ends, .. } => {
                for end in ends {
                    end.begin(self.sending.clone());
                }
            }
        }
    }

    /// Takes what arrived. True if there may be more.
    pub(super) fn receive(&mut self, clock: &Epoch, epoll: &Epoll, token: u64) -> bool {
        match &mut self.sockets {
            Sockets::Tcp { .. } => self.receive_stream(clock.time(), epoll, token),
            Sockets::Udp { .. } | Sockets::Ping { .. } => self.receive_probes(clock),
            Sockets::Datagrams { sockets } => match &mut self.spec.kind {
                FlowKind::Datagrams { ends, .. } => datagrams::receive(sockets, ends, clock, TURN),
                _ => false,
            },
        }
    }

    /// Sends what is due. True if there may be more.
    pub(super) fn send(&mut self, clock: &Epoch) -> bool {
        match &mut self.spec.kind {
            FlowKind::Tcp { rate, write, transfer, .. } => {
                let (rate, write, transfer) = (*rate, write.bytes(), transfer.map(Size::bytes));
                self.send_stream(clock.time(), rate, write, transfer)
            }
            FlowKind::Udp { size, .. } => {
                let size = size.bytes();
                self.send_datagrams(clock, size)
            }
            FlowKind::Ping { interval, size } => {
                let (interval, size) = (*interval, size.bytes());
                self.send_echoes(clock, interval, size)
            }
            FlowKind::Datagrams { ends, .. } => match &self.sockets {
                Sockets::Datagrams { sockets } => match datagrams::send(sockets, ends, clock, TURN) {
                    Ok(more) => more,
                    Err(error) => {
                        self.observation.error.get_or_insert_with(|| format!("cannot send: {error}"));
                        false
                    }
                },
                _ => false,
            },
        }
    }

    /// When there is something to do that no socket will tell of.
    pub(super) fn deadline(&self) -> Option<Time> {
        let send = match (&self.sockets, &self.spec.kind) {
            (Sockets::Tcp { state: TcpState::New, .. }, _) => Some(self.sending.start),
            // A block that is under way waits for the socket, not for the clock.
            (Sockets::Tcp { state: TcpState::Connected { block: 1.. }, .. }, _) => None,
            // A transfer that is written has nothing left to do.
            (_, FlowKind::Tcp { transfer: Some(transfer), .. })
                if self.throttle.as_ref().is_some_and(|throttle| throttle.written() >= transfer.bytes()) =>
            {
                None
            }
            (_, FlowKind::Datagrams { ends, .. }) => ends.iter().filter_map(|end| end.deadline()).min(),
            (_, FlowKind::Ping { interval, .. }) => {
                Some(self.sending.start + interval.times(self.sent_packets)).filter(|at| *at < self.sending.end)
            }
            _ => self.throttle.as_ref().map(Throttle::ready_at).filter(|at| *at < self.sending.end),
        };
        let send = send.filter(|at| *at != Time::MAX);
        [send, self.next_sample].into_iter().flatten().min()
    }

    /// Reads all counters, at the start of the measured time and at the end of each interval.
    pub(super) fn snapshot(&mut self, now: Time) {
        let info = self.tcp_info();
        let delay =
            (!self.interval_delays.is_empty()).then(|| Span::from_nanos(self.interval_delays.value_at_quantile(0.5)));
        self.interval_delays.reset();
        // What returns took a round trip, what arrives at the other end a delay one way.
        let is_ping = matches!(self.sockets, Sockets::Ping { .. });
        self.observation.snapshots.push(Snapshot {
            at: now,
            sent_bytes: self.sent_bytes,
            received_bytes: self.received_bytes,
            packets: self.packets(),
            retransmits: info.map(|info| u64::from(info.tcpi_total_retrans)),
            rtt: info.map(|info| Span::from_micros(u64::from(info.tcpi_rtt))).or(delay.filter(|_| is_ping)),
            cwnd_bytes: info.map(|info| u64::from(info.tcpi_snd_cwnd) * u64::from(info.tcpi_snd_mss)),
            jitter: self.receiver.as_ref().map(ProbeReceiver::jitter),
            delay: delay.filter(|_| !is_ping),
        });
        if now >= self.measured.end {
            self.next_sample = None;
        }
    }

    /// Whether nothing that was sent in the measured time is still expected.
    pub(super) fn is_complete(&self) -> bool {
        if let FlowKind::Datagrams { ends, .. } = &self.spec.kind {
            return datagrams::is_complete(ends);
        }
        self.packets().is_none_or(|packets| packets.received >= packets.sent)
    }

    /// Replies that found no room in the socket; `None` if the kernel does not say.
    pub(super) fn refused(&self) -> Option<u64> {
        match &self.sockets {
            Sockets::Ping { socket, .. } => overflow::refused(socket).ok(),
            Sockets::Tcp { .. } | Sockets::Udp { .. } | Sockets::Datagrams { .. } => Some(0),
        }
    }

    pub(super) fn into_left(mut self) -> Left {
        self.observation.packets = self.packets();
        if self.observation.error.is_none()
            && let Sockets::Tcp { state: TcpState::New | TcpState::Connecting, .. } = self.sockets
        {
            self.observation.error = Some("the connection was never established".into());
        }
        if let (Sockets::Ping { echoes, .. }, FlowKind::Ping { size, .. }) = (&self.sockets, &self.spec.kind) {
            let measured = self.observation.snapshots.first().map_or(Time::ZERO, |first| first.at);
            let point =
                |echo: &EchoPassage| PacketPoint::trip(echo.number, size.bytes(), echo.sent.since(measured), echo.trip);
            self.observation.series = echoes.single().iter().map(point).collect();
        }
        let ends = match self.spec.kind {
            FlowKind::Datagrams { ends, .. } => Some(ends),
            _ => None,
        };
        (self.observation, ends)
    }

    fn packets(&self) -> Option<PacketCounts> {
        let counts = self.receiver.as_ref()?.counts();
        Some(PacketCounts {
            sent: self.sent_in_window,
            received: counts.received,
            duplicated: counts.duplicated,
            reordered: counts.reordered,
        })
    }

    fn fail(&mut self, error: String) {
        self.observation.error.get_or_insert(error);
        if let Sockets::Tcp { state, .. } = &mut self.sockets {
            *state = TcpState::Broken;
        }
        self.next_sample = None;
    }

    fn count_sent(&mut self, now: Time, bytes: u64) {
        self.sent_bytes += bytes;
        self.sent_packets += 1;
        self.sent_in_window += u64::from(self.measured.contains(&now));
    }
}

/// TCP.
impl Flow {
    fn connect(&mut self, now: Time) {
        self.opened = now;
        let Sockets::Tcp { source, state, .. } = &mut self.sockets else { return };
        *state = TcpState::Connecting;
        let to = SockAddr::from(SocketAddr::new(self.spec.to.address, FIRST_PORT + self.number));
        if let Err(error) = source.connect(&to)
            && error.raw_os_error() != Some(libc::EINPROGRESS)
        {
            self.fail(format!("cannot connect: {error}"));
        }
    }

    fn receive_stream(&mut self, now: Time, epoll: &Epoll, token: u64) -> bool {
        let Sockets::Tcp { listener, source, sink, state } = &mut self.sockets else { return false };
        if *state == TcpState::Connecting {
            if let Ok(Some(error)) = source.take_error() {
                self.fail(format!("cannot connect: {error}"));
                return false;
            }
            if source.peer_addr().is_ok() {
                *state = TcpState::Connected { block: 0 };
                self.observation.connect = Some(now.since(self.opened));
            }
        }
        if sink.is_none()
            && let Ok((socket, _)) = listener.accept()
        {
            if let Err(error) = socket.set_nonblocking(true).and_then(|()| epoll.add_edges(&socket.as_fd(), token)) {
                self.fail(format!("cannot watch a socket: {error}"));
                return false;
            }
            *sink = Some(socket);
        }
        let Some(sink) = sink else { return false };
        for _ in 0..TURN {
            match discard(sink) {
                Ok(0) => return false,
                Ok(length) => {
                    self.received_bytes += length as u64;
                    if let FlowKind::Tcp { transfer: Some(transfer), .. } = &self.spec.kind
                        && self.received_bytes >= transfer.bytes()
                        && self.observation.transfer.is_none()
                    {
                        self.observation.transfer = self.began.map(|began| now.since(began));
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
                Err(error) => {
                    self.fail(format!("cannot receive: {error}"));
                    return false;
                }
            }
        }
        true
    }

    fn send_stream(&mut self, now: Time, rate: Option<Rate>, write: u64, transfer: Option<u64>) -> bool {
        self.sample(now);
        let Sockets::Tcp { source, state, .. } = &mut self.sockets else { return false };
        if *state == TcpState::New && self.sending.start <= now {
            self.connect(now);
            return false;
        }
        let TcpState::Connected { block } = state else { return false };
        if !self.sending.contains(&now) {
            return false;
        }
        let throttle = self.throttle.get_or_insert_with(|| Throttle::new(rate, now));
        self.began.get_or_insert(now);
        for _ in 0..TURN {
            if *block == 0 {
                if throttle.ready_at() > now {
                    return false;
                }
                let rest = transfer.map_or(u64::MAX, |transfer| transfer - throttle.written());
                *block = write.min(rest);
                if rest == 0 {
                    return false;
                }
            }
            let length = usize::try_from(*block).unwrap_or(usize::MAX).min(BLOCK.len());
            match source.send(&BLOCK[..length]) {
                Ok(taken) => {
                    *block -= taken as u64;
                    throttle.wrote(taken as u64);
                    self.sent_bytes += taken as u64;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
                Err(error) => {
                    self.fail(format!("cannot send: {error}"));
                    return false;
                }
            }
        }
        true
    }

    /// Samples the round-trip estimate at its times, within the measured time.
    fn sample(&mut self, now: Time) {
        if let Some(due) = self.next_sample
            && due <= now
        {
            if let Some(info) = self.tcp_info()
                && info.tcpi_rtt > 0
            {
                self.observation.rtts.saturating_record(u64::from(info.tcpi_rtt) * 1_000);
            }
            self.next_sample = Some(now + SAMPLE);
        }
    }

    fn tcp_info(&self) -> Option<libc::tcp_info> {
        match &self.sockets {
            Sockets::Tcp { source, state: TcpState::Connected { .. }, .. } => tcp_info(source).ok(),
            _ => None,
        }
    }
}

/// Datagrams and echo requests.
impl Flow {
    fn receive_probes(&mut self, clock: &Epoch) -> bool {
        let Some(receiver) = &mut self.receiver else { return false };
        let mut buffer = [0; 65_536];
        for _ in 0..TURN {
            let socket = match &self.sockets {
                Sockets::Udp { sink, .. } => sink,
                Sockets::Ping { socket, .. } => socket,
                Sockets::Tcp { .. } | Sockets::Datagrams { .. } => return false,
            };
            let (length, arrived) = match receive_stamped(socket, &mut buffer) {
                Ok(received) => received,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
                // Such as an ICMP error for what was sent before the other end was there.
                Err(_) => continue,
            };
            let is_ping = matches!(self.sockets, Sockets::Ping { .. });
            let v6 = self.spec.from.address.is_ipv6();
            let at = clock.time_at(arrived);
            let found = match &mut self.sockets {
                Sockets::Ping { echoes, .. } => echo_reply(&buffer[..length], v6, self.number)
                    .and_then(|(sequence, payload)| Some((echoes.reply(at, sequence)?, payload.len()))),
                _ => Probe::read(&buffer[..length])
                    .filter(|probe| probe.flow == u32::from(self.number))
                    .map(|probe| (probe, length)),
            };
            let Some((probe, length)) = found else { continue };
            self.received_bytes += length as u64;
            if let Arrival::First { delay, .. } = receiver.receive(at, &probe)
                && self.measured.contains(&probe.sent)
            {
                let all = if is_ping { &mut self.observation.rtts } else { &mut self.observation.delays };
                all.saturating_record(delay.as_nanos());
                self.interval_delays.saturating_record(delay.as_nanos());
            }
        }
        true
    }

    fn send_datagrams(&mut self, clock: &Epoch, size: u64) -> bool {
        let mut payload = filled(usize::try_from(size).unwrap_or(PROBE_LEN).max(PROBE_LEN));
        for _ in 0..TURN {
            let Some(throttle) = &mut self.throttle else { return false };
            let at = throttle.ready_at();
            if at > clock.time() || at >= self.sending.end {
                return false;
            }
            throttle.wrote(size);
            self.send_probe(clock, &mut payload);
        }
        true
    }

    fn send_echoes(&mut self, clock: &Epoch, interval: Span, size: u64) -> bool {
        let at = self.sending.start + interval.times(self.sent_packets);
        if at > clock.time() || at >= self.sending.end {
            return false;
        }
        let Sockets::Ping { socket, echoes } = &mut self.sockets else { return false };
        let mut message = filled(ECHO_LEN + usize::try_from(size).unwrap_or(0));
        let sent = clock.time();
        let echo = Echo { reply: false, identifier: self.number, sequence: echoes.send(sent) };
        message[..ECHO_LEN].copy_from_slice(&echo.to_bytes(self.spec.to.address.is_ipv6()));
        // The kernel fills ICMPv6's in, which has a pseudo-header (RFC 3542 3.1).
        let sum = checksum(&message);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        let result = socket.send(&message);
        self.note_sent(sent, size, result);
        true
    }

    /// Puts the next probe at the start of the payload and sends it.
    fn send_probe(&mut self, clock: &Epoch, payload: &mut [u8]) {
        let Sockets::Udp { source, .. } = &self.sockets else { return };
        // Read for each: the kernel takes its time over those before.
        let sent = clock.time();
        let probe = Probe { flow: u32::from(self.number), number: self.sent_packets, sent };
        payload[..PROBE_LEN].copy_from_slice(&probe.bytes());
        let result = source.send(payload);
        self.note_sent(sent, payload.len() as u64, result);
    }

    /// Counts what was sent. What the kernel refuses for want of room counts too: it is lost like what a
    /// queue drops.
    fn note_sent(&mut self, sent: Time, payload: u64, result: io::Result<usize>) {
        self.count_sent(sent, payload);
        if let Err(error) = result
            && !matches!(error.raw_os_error(), Some(libc::ENOBUFS | libc::EAGAIN | libc::ECONNREFUSED))
        {
            self.observation.error.get_or_insert_with(|| format!("cannot send: {error}"));
        }
    }
}

/// Sequence number and data of an echo reply to this identifier, as a raw socket gives it: behind the IPv4 header
/// (raw(7)), without the IPv6 header (RFC 3542 3).
fn echo_reply(packet: &[u8], v6: bool, identifier: u16) -> Option<(u16, &[u8])> {
    let header = if v6 { 0 } else { usize::from(packet.first()? & 0x0f) * 4 };
    let (echo, data) = Echo::parse(packet.get(header..)?, v6)?;
    (echo.reply && echo.identifier == identifier).then_some((echo.sequence, data))
}

/// Takes what a stream has, without copying it out of the kernel.
fn discard(socket: &Socket) -> io::Result<usize> {
    // With MSG_TRUNC (tcp(7)) the kernel discards up to the stated length and writes nothing.
    let length = 1 << 20;
    // SAFETY: nothing is written to the buffer, which therefore need not exist.
    let result =
        unsafe { libc::recv(socket.as_raw_fd(), std::ptr::null_mut(), length, libc::MSG_TRUNC | libc::MSG_DONTWAIT) };
    crate::sys::check_len(result)
}

fn tcp_info(socket: &Socket) -> io::Result<libc::tcp_info> {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the buffer has the stated length, and both outlive the call.
    crate::sys::check(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    })?;
    // SAFETY: all zero is valid, and the kernel wrote over the rest.
    Ok(unsafe { info.assume_init() })
}

/// Makes a socket in the namespace of `end`.
pub(super) fn make(
    doing: &str,
    end: &End,
    build: impl FnOnce() -> io::Result<Socket> + Send,
) -> Result<Socket, EndpointError> {
    end.namespace
        .run(build)?
        .map_err(|source| EndpointError::Socket { doing: format!("{doing} ({})", end.address), source })
}

/// A socket of the address's family, whose packets have the code point.
fn socket(address: IpAddr, kind: Type, protocol: Protocol, dscp: u8) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address((address, 0).into()), kind.nonblocking(), Some(protocol))?;
    let class = u32::from(dscp) << 2;
    match address {
        IpAddr::V4(_) => socket.set_tos_v4(class)?,
        IpAddr::V6(_) => socket.set_tclass_v6(class)?,
    }
    Ok(socket)
}

fn tcp_source(from: &End, congestion: &str, dscp: u8) -> Result<Socket, EndpointError> {
    let socket = make("make a TCP socket", from, || {
        let socket = socket(from.address, Type::STREAM, Protocol::TCP, dscp)?;
        socket.bind(&SocketAddr::from((from.address, 0)).into())?;
        // When the cell ends nobody waits for what is in flight.
        socket.set_linger(Some(std::time::Duration::ZERO))?;
        Ok(socket)
    })?;
    set_congestion(&socket, congestion)?;
    Ok(socket)
}

fn tcp_listener(to: &End, port: u16, congestion: &str) -> Result<Socket, EndpointError> {
    let socket = make("listen on a TCP socket", to, || {
        let socket = socket(to.address, Type::STREAM, Protocol::TCP, 0)?;
        socket.bind(&SocketAddr::from((to.address, port)).into())?;
        socket.set_linger(Some(std::time::Duration::ZERO))?;
        socket.listen(1)?;
        Ok(socket)
    })?;
    set_congestion(&socket, congestion)?;
    Ok(socket)
}

fn set_congestion(socket: &Socket, name: &str) -> Result<(), EndpointError> {
    socket.set_tcp_congestion(name.as_bytes()).map_err(|source| match source.raw_os_error() {
        Some(libc::ENOENT | libc::EPERM) => EndpointError::Congestion {
            name: name.into(),
            available: fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control")
                .map_or_else(|_| "unknown".into(), |list| list.trim().replace(' ', ", ")),
        },
        _ => EndpointError::Socket { doing: format!("set the congestion control to {name}"), source },
    })
}

fn udp_sink(to: SocketAddr) -> io::Result<Socket> {
    let socket = socket(to.ip(), Type::DGRAM, Protocol::UDP, 0)?;
    socket.set_recv_buffer_size(4 << 20)?;
    socket.bind(&to.into())?;
    crate::arrival::stamp_arrivals(&socket.as_fd())?;
    Ok(socket)
}

pub(super) fn udp_source(from: SocketAddr, to: SocketAddr, dscp: u8) -> io::Result<Socket> {
    let socket = socket(from.ip(), Type::DGRAM, Protocol::UDP, dscp)?;
    socket.bind(&from.into())?;
    socket.connect(&to.into())?;
    Ok(socket)
}

fn icmp(from: IpAddr, to: IpAddr, dscp: u8) -> io::Result<Socket> {
    let protocol = if from.is_ipv6() { Protocol::ICMPV6 } else { Protocol::ICMPV4 };
    let socket = socket(from, Type::RAW, protocol, dscp)?;
    socket.bind(&SocketAddr::from((from, 0)).into())?;
    socket.connect(&SocketAddr::from((to, 0)).into())?;
    crate::arrival::stamp_arrivals(&socket.as_fd())?;
    Ok(socket)
}

fn filled(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    traffic::fill(&mut bytes);
    bytes
}
