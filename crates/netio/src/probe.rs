//! Packet pairs between two hosts, by real sockets: the receiver stamps arrivals in its kernel and
//! reports each pair's separation, so that neither host needs to know the other's clock.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;

use engine::{Random, Span};
use socket2::{Domain, Protocol, Socket, Type};
use traffic::pairs::{Message, PAIR_LEN, PairHeader, Separation};

use crate::arrival::{receive_stamped, receive_stamped_from, stamp_arrivals};
use crate::clock::Instant;
use crate::waiting::Epoll;

/// UDP port of the listening end where nothing is said.
pub const PORT: u16 = 20_050;
/// How long an answer to a greeting is waited for, each time longer.
const GREETINGS: [Span; 4] = [Span::from_secs(1), Span::from_secs(2), Span::from_secs(4), Span::from_secs(8)];
/// After so many pairs in a row of which nothing is heard the other end is taken for gone.
const MOST_SILENT: u32 = 5;
/// Most pairs of a measurement: their numbers have 16 bits.
pub const MOST_PAIRS: usize = u16::MAX as usize;
/// First datagrams the listener remembers, for pairs under way.
const REMEMBERED: usize = 256;
/// How long is waited after a refusal before the socket is looked at again.
const REFUSED_PAUSE: Span = Span::from_millis(20);
/// Pairs begin this much or up to twice as much after the last was reported: where they fall between
/// the packets of a periodic flow is left to chance.
const PAUSE: Span = Span::from_millis(200);

/// What is measured.
#[derive(Clone, Debug)]
pub struct Measurement {
    /// Where the listening end is.
    pub target: SocketAddr,
    /// Sizes of the IP datagrams in bytes.
    pub sizes: Vec<u16>,
    /// How often all sizes are gone through.
    pub rounds: u16,
    /// How long a pair's report is waited for.
    pub timeout: Span,
    /// Zeros as payload, instead of bytes that do not compress.
    pub zeros: bool,
    /// Seed of the pauses between pairs; also tells this measurement from others.
    pub seed: u64,
}

/// What a measurement gave.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// The pairs that arrived in order.
    pub separations: Vec<Separation>,
    /// Pairs that were sent.
    pub sent: usize,
    /// Pairs of which nothing was heard in time.
    pub lost: usize,
    /// Pairs that came out of order.
    pub disordered: usize,
}

/// Why there is no measurement.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// A socket could not be made or used.
    #[error("cannot {doing}: {source}")]
    Socket {
        /// What was being done.
        doing: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// Nobody answers.
    #[error("{0} does not answer; start `narrows probe packet-pair --listen` there, and let UDP through")]
    NoAnswer(SocketAddr),
    /// The other end stopped answering.
    #[error("{0} answered, but of {1} packet pairs in a row nothing came back; give a longer --timeout on a slow line")]
    Silent(SocketAddr, u32),
    /// A size that leaves no room for the header.
    #[error("packet pairs to {target} have at least {least} B with their IP header, and {size} B is less")]
    TooSmall {
        /// Where they go.
        target: SocketAddr,
        /// What was asked for.
        size: u16,
        /// The least.
        least: u16,
    },
}

/// Bytes of IP's and UDP's headers towards an address.
#[must_use]
pub fn header(address: &IpAddr) -> u16 {
    // An IPv4 address in IPv6 notation is reached by IPv4.
    8 + if matches!(address.to_canonical(), IpAddr::V4(_)) { 20 } else { 40 }
}

/// Sends pairs to the listening end and gathers what it reports. `progress` is told after each pair
/// how many of how many are done; if it says no, the measurement ends early.
///
/// # Errors
///
/// If nobody answers at the start, or no more later, or the kernel refuses.
pub fn measure(of: &Measurement, mut progress: impl FnMut(usize, usize) -> bool) -> Result<Measured, ProbeError> {
    let ip_and_udp = header(&of.target.ip());
    let least = ip_and_udp + PAIR_LEN as u16;
    if let Some(&size) = of.sizes.iter().find(|size| **size < least) {
        return Err(ProbeError::TooSmall { target: of.target, size, least });
    }
    let prober = Prober::new(of)?;
    prober.greet()?;
    let mut random = Random::stream(of.seed, "probe.pause");
    let mut measured = Measured::default();
    let sizes: Vec<u16> = (0..of.rounds).flat_map(|_| of.sizes.iter().copied()).take(MOST_PAIRS).collect();
    let (total, mut silent) = (sizes.len(), 0);
    for (pair, size) in sizes.into_iter().enumerate() {
        measured.sent += 1;
        let header = PairHeader { session: prober.session, pair: pair as u16, second: false };
        let heard = prober.pair(header, usize::from(size - ip_and_udp), of)?;
        silent = if heard.is_some() { 0 } else { silent + 1 };
        match heard {
            Some(Span::ZERO) => measured.disordered += 1,
            Some(apart) => measured.separations.push(Separation { size: size.into(), apart }),
            None => measured.lost += 1,
        }
        if silent == MOST_SILENT {
            return Err(ProbeError::Silent(of.target, silent));
        }
        if !progress(pair + 1, total) {
            break;
        }
        prober.listen(PAUSE + Span::from_nanos(random.below(PAUSE.as_nanos())), |_| None::<()>)?;
    }
    Ok(measured)
}

/// The asking end.
struct Prober {
    socket: Socket,
    epoll: Epoll,
    session: u32,
    target: SocketAddr,
}

impl Prober {
    fn new(of: &Measurement) -> Result<Self, ProbeError> {
        let open = || {
            let socket = Socket::new(Domain::for_address(of.target), Type::DGRAM.nonblocking(), Some(Protocol::UDP))?;
            socket.connect(&of.target.into())?;
            let epoll = Epoll::new()?;
            epoll.add_readable(&socket, 0)?;
            Ok((socket, epoll))
        };
        let (socket, epoll) =
            open().map_err(|source| ProbeError::Socket { doing: format!("send to {}", of.target), source })?;
        Ok(Self { socket, epoll, session: of.seed as u32, target: of.target })
    }

    /// Asks whether anybody is there.
    fn greet(&self) -> Result<(), ProbeError> {
        for wait in GREETINGS {
            let mut greeting = Vec::new();
            Message::Hello { session: self.session }.write(&mut greeting);
            self.send(&greeting)?;
            let welcome = |message| (message == Message::Welcome { session: self.session }).then_some(());
            if self.listen(wait, welcome)?.is_some() {
                return Ok(());
            }
        }
        Err(ProbeError::NoAnswer(self.target))
    }

    /// Sends a pair and waits for its report: the time between its arrivals, zero if they were out of
    /// order, `None` if nothing was heard of it.
    fn pair(&self, first: PairHeader, payload: usize, of: &Measurement) -> Result<Option<Span>, ProbeError> {
        let datagram = |header: PairHeader| {
            let mut out = Vec::with_capacity(payload);
            header.write(payload, of.zeros, &mut out);
            out
        };
        // Both are ready before the first is sent: nothing stands between them.
        let pair = [datagram(first), datagram(PairHeader { second: true, ..first })];
        for datagram in &pair {
            self.send(datagram)?;
        }
        self.listen(of.timeout, |message| match message {
            Message::Report { session, pair, apart } if session == first.session && pair == first.pair => Some(apart),
            _ => None,
        })
    }

    /// Waits up to `limit` for a message that `wanted` takes; others are passed over.
    fn listen<T>(&self, limit: Span, wanted: impl Fn(Message) -> Option<T>) -> Result<Option<T>, ProbeError> {
        let begin = Instant::now();
        let mut buffer = [0; 64];
        loop {
            match receive_stamped(&self.socket, &mut buffer) {
                Ok((length, _)) => {
                    if let Some(found) = Message::read(&buffer[..length]).and_then(&wanted) {
                        return Ok(Some(found));
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let left = limit.saturating_sub(Instant::now().since(begin));
                    if left == Span::ZERO {
                        return Ok(None);
                    }
                    drop(self.epoll.wait(Some(left)));
                }
                // Nobody listens there now; somebody may soon. The wait goes on, without spinning.
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                    std::thread::sleep(REFUSED_PAUSE.into());
                }
                Err(source) => {
                    return Err(ProbeError::Socket { doing: format!("receive from {}", self.target), source });
                }
            }
        }
    }

    fn send(&self, datagram: &[u8]) -> Result<(), ProbeError> {
        match self.socket.send(datagram) {
            // Want of room is a loss like any other; a refusal is of what was sent before.
            Err(source)
                if !matches!(source.raw_os_error(), Some(libc::ENOBUFS | libc::EAGAIN | libc::ECONNREFUSED)) =>
            {
                Err(ProbeError::Socket { doing: format!("send {} B to {}", datagram.len(), self.target), source })
            }
            _ => Ok(()),
        }
    }
}

/// The listening end, which answers whoever asks.
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
    epoll: Epoll,
    /// First datagrams of pairs whose second has not come, oldest first: at most [`REMEMBERED`].
    firsts: VecDeque<(SocketAddr, PairHeader, Instant)>,
}

impl Listener {
    /// Listens at an address, or at all of them, IPv6's and IPv4's.
    ///
    /// # Errors
    ///
    /// If the port is taken, or the address is not this machine's.
    pub fn bind(address: Option<IpAddr>, port: u16) -> Result<Self, ProbeError> {
        let open = |address: IpAddr| {
            let socket = Socket::new(
                Domain::for_address(SocketAddr::new(address, port)),
                Type::DGRAM.nonblocking(),
                Some(Protocol::UDP),
            )?;
            if address.is_ipv6() {
                socket.set_only_v6(!address.is_unspecified())?;
            }
            socket.bind(&SocketAddr::new(address, port).into())?;
            stamp_arrivals(&socket.as_fd())?;
            let epoll = Epoll::new()?;
            epoll.add_readable(&socket, 0)?;
            Ok(Self { socket, epoll, firsts: VecDeque::with_capacity(REMEMBERED) })
        };
        let opened = match address {
            Some(address) => open(address),
            // A kernel without IPv6 has IPv4 alone.
            None => open(Ipv6Addr::UNSPECIFIED.into()).or_else(|_| open(Ipv4Addr::UNSPECIFIED.into())),
        };
        opened.map_err(|source| ProbeError::Socket { doing: format!("listen on UDP port {port}"), source })
    }

    /// Where it listens.
    ///
    /// # Errors
    ///
    /// If the kernel does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()?.as_socket().ok_or_else(|| io::Error::from(ErrorKind::Unsupported))
    }

    /// Answers what comes within `limit` (for ever if absent); `greeted` is told who begins a
    /// measurement.
    ///
    /// # Errors
    ///
    /// If the socket fails for good.
    pub fn serve(&mut self, limit: Option<Span>, mut greeted: impl FnMut(SocketAddr)) -> Result<(), ProbeError> {
        let begin = Instant::now();
        let mut buffer = [0; 65_536];
        loop {
            match receive_stamped_from(&self.socket, &mut buffer) {
                Ok((length, arrived, Some(from))) => {
                    let Some(message) = Message::read(&buffer[..length]) else { continue };
                    if let Message::Hello { .. } = message {
                        greeted(from);
                    }
                    if let Some(answer) = self.answer(message, from, arrived) {
                        let mut datagram = Vec::new();
                        answer.write(&mut datagram);
                        // An answer that cannot be sent is lost like one on its way.
                        let _ = self.socket.send_to(&datagram, &from.into());
                    }
                }
                Ok((_, _, None)) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let left = limit.map(|limit| limit.saturating_sub(Instant::now().since(begin)));
                    if left == Some(Span::ZERO) {
                        return Ok(());
                    }
                    drop(self.epoll.wait(left));
                }
                Err(error) if matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::Interrupted) => {}
                Err(source) => return Err(ProbeError::Socket { doing: "receive".into(), source }),
            }
        }
    }

    /// What a message is answered with, if at all.
    fn answer(&mut self, message: Message, from: SocketAddr, arrived: Instant) -> Option<Message> {
        match message {
            Message::Hello { session } => Some(Message::Welcome { session }),
            Message::Pair(first @ PairHeader { second: false, .. }) => {
                if self.firsts.len() == REMEMBERED {
                    self.firsts.pop_front();
                }
                self.firsts.push_back((from, first, arrived));
                None
            }
            Message::Pair(PairHeader { session, pair, .. }) => {
                let first = PairHeader { session, pair, second: false };
                let known = self.firsts.iter().position(|(other, header, _)| *other == from && *header == first);
                let before = known.and_then(|at| self.firsts.remove(at)).map(|(_, _, before)| before);
                Some(Message::Report {
                    session,
                    pair,
                    apart: before.map_or(Span::ZERO, |before| arrived.since(before)),
                })
            }
            Message::Welcome { .. } | Message::Report { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::thread;

    fn measurement(target: SocketAddr) -> Measurement {
        let timeout = Span::from_secs(10);
        Measurement { target, sizes: vec![60, 1_400], rounds: 2, timeout, zeros: false, seed: 7 }
    }

    fn listener() -> (Listener, SocketAddr) {
        let listener = Listener::bind(Some(Ipv4Addr::LOCALHOST.into()), 0).unwrap();
        let address = listener.address().unwrap();
        (listener, address)
    }

    #[test]
    fn a_pair_that_arrives_is_reported_and_counted() {
        let (mut listener, address) = listener();
        let served = thread::spawn(move || listener.serve(Some(Span::from_secs(5)), |_| {}));
        let mut seen = Vec::new();
        let measured = measure(&measurement(address), |done, of| {
            seen.push((done, of));
            done < 3
        });
        let measured = measured.unwrap();
        assert_eq!(seen, [(1, 4), (2, 4), (3, 4)]);
        assert_eq!((measured.sent, measured.lost, measured.disordered), (3, 0, 0));
        let sizes: Vec<u32> = measured.separations.iter().map(|pair| pair.size).collect();
        assert_eq!(sizes, [60, 1_400, 60]);
        served.join().unwrap().unwrap();
    }

    #[test]
    fn a_second_without_its_first_is_out_of_order_and_old_firsts_are_forgotten() {
        let (mut listener, address) = listener();
        let pair = |pair, second| Message::Pair(PairHeader { session: 1, pair, second });
        let now = Instant::now();
        let report = |pair, apart| Some(Message::Report { session: 1, pair, apart });
        assert_eq!(listener.answer(pair(0, true), address, now), report(0, Span::ZERO));
        for number in 0..=REMEMBERED as u16 {
            assert_eq!(listener.answer(pair(number, false), address, now), None);
        }
        assert_eq!(listener.firsts.len(), REMEMBERED);
        assert_eq!(listener.answer(pair(0, true), address, now), report(0, Span::ZERO));
        let later = Instant::now();
        assert_eq!(listener.answer(pair(1, true), address, later), report(1, later.since(now)));
        // A report is never answered: two listeners cannot keep each other busy.
        assert_eq!(listener.answer(Message::Report { session: 1, pair: 1, apart: Span::ZERO }, address, now), None);
    }

    #[test]
    fn sizes_below_the_headers_are_refused_before_anything_is_sent() {
        let nobody = UdpSocket::bind("127.0.0.1:0").unwrap();
        let small = Measurement { sizes: vec![30], ..measurement(nobody.local_addr().unwrap()) };
        assert!(matches!(measure(&small, |_, _| true), Err(ProbeError::TooSmall { least: 38, .. })));
        assert_eq!(header(&"::ffff:10.0.0.1".parse().unwrap()), 28);
        assert_eq!(header(&"fd00::1".parse().unwrap()), 48);
    }
}
