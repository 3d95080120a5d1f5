//! The own UPF for real: between two interfaces and a socket, in one thread.

mod account;

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

use engine::{Random, Span, Time};
use netio::clock::Epoch;
use netio::packet_io::{Choice, Options, PacketIo, Receive, Transmit};
use netio::site::Namespace;
use netio::{SetupError, wait_readable};
use userplane::upf::{Config, HEADROOM, Interface, News, Output, Predefined, Side, Upf, Verdict};
use wire::pfcp::PFCP_PORT;
use wire::pfcp::value::{NodeId, NtpTime};

pub use account::{UpfAccount, UpfPort};

/// What a UPF is to be.
#[derive(Clone, Debug)]
pub struct UpfSettings {
    /// Towards the gNB.
    pub n3: UpfSide,
    /// Where it listens for PFCP. That port 0 stands for the usual one makes an address alone enough.
    pub n4: SocketAddr,
    /// Towards the data network.
    pub n6: UpfSide,
    /// What it is called on N4; by its address there, if nothing is said.
    pub node: Option<NodeId>,
    /// Rules that the control plane activates by name.
    pub predefined: Vec<Predefined>,
    /// How far traffic may run ahead of a maximum bit rate.
    pub burst: Span,
    /// From one heartbeat of its own to the next; none if there is none.
    pub heartbeat: Option<Span>,
    /// How frames are sent.
    pub choice: Choice,
    /// Seed of its first TEID and sequence number.
    pub seed: u64,
}

/// One of its interfaces.
#[derive(Clone, Debug)]
pub struct UpfSide {
    /// The interface's name. It should have no addresses of its own: the machine's stack would answer too.
    pub interface: String,
    /// The UPF's addresses, each with the length of its network's prefix.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Where packets for other networks go.
    pub gateways: Vec<IpAddr>,
}

/// A UPF whose interfaces are open.
#[derive(Debug)]
pub struct LiveUpf {
    upf: Upf,
    epoch: Epoch,
    n4: SocketAddr,
    socket: UdpSocket,
    ports: [PortIo; 2],
}

/// What a UPF tells while it runs.
#[derive(Debug)]
pub enum UpfNews<'a> {
    /// Something happened.
    Event(&'a News),
    /// What was counted so far.
    Account(&'a UpfAccount),
}

/// Why a UPF could not be started.
#[derive(Debug, thiserror::Error)]
pub enum UpfError {
    /// An interface.
    #[error(transparent)]
    Network(#[from] SetupError),
    /// The interface may not be used.
    #[error(
        "packet sockets on {0} are not allowed; run narrows as root, or give it CAP_NET_RAW (a unit's AmbientCapabilities, or `setcap cap_net_raw+ep`)"
    )]
    NotAllowed(String),
    /// The address for PFCP cannot be had.
    #[error(
        "cannot listen for PFCP at {address}: {source}; give an address of this machine that nobody else listens at"
    )]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
}

/// An open interface and what it could not do.
#[derive(Debug)]
struct PortIo {
    name: String,
    choice: String,
    transmit: Transmit,
    receive: Receive,
    malformed: u64,
    /// Frames for which there was no room on the way out.
    full: u64,
    /// The same buffer for what does not go straight out by the other side.
    scratch: Vec<u8>,
}

/// Frames taken from one interface before the other one's turn.
const BATCH: usize = 64;
/// PFCP messages taken in one turn.
const MESSAGES: usize = 64;
/// How often deadlines are looked for while frames keep coming.
const LOOK: Span = Span::from_millis(1);
/// The longest wait, so that a wish to end is heard.
const PATIENCE: Span = Span::from_millis(50);
/// No UDP datagram is longer.
const DATAGRAM_MAX: usize = 65_535;

impl LiveUpf {
    /// Opens its interfaces and its socket in the calling thread's network namespace, or in another one. Needs
    /// `CAP_NET_RAW` there.
    ///
    /// # Errors
    ///
    /// See [`UpfError`]. Nothing stays open then.
    pub fn open(settings: &UpfSettings, namespace: Option<&Namespace>) -> Result<Self, UpfError> {
        match namespace {
            Some(namespace) => namespace.run(|| Self::open_here(settings))?,
            None => Self::open_here(settings),
        }
    }

    fn open_here(settings: &UpfSettings) -> Result<Self, UpfError> {
        let (n3_port, n3) = open_side(&settings.n3, settings.choice)?;
        let (n6_port, n6) = open_side(&settings.n6, settings.choice)?;
        let port = if settings.n4.port() == 0 { PFCP_PORT } else { settings.n4.port() };
        let address = SocketAddr::new(settings.n4.ip(), port);
        let failed = |source| UpfError::Listen { address, source };
        let socket = UdpSocket::bind(address).map_err(failed)?;
        socket.set_nonblocking(true).map_err(failed)?;
        let epoch = Epoch::now();
        // The kernel has the socket's Ethernet address and neighbours.
        let n4 = Interface::new([0; 6], (address.ip(), if address.is_ipv4() { 32 } else { 128 }));
        let config = Config {
            started: NtpTime::from_unix(epoch.unix_nanos() / 1_000_000_000),
            predefined: settings.predefined.clone(),
            burst: settings.burst,
            heartbeat: settings.heartbeat,
            ..Config::new(n3, n4, n6)
        };
        let config = Config { node: settings.node.clone().unwrap_or(config.node), ..config };
        let upf = Upf::new(config, Random::stream(settings.seed, "upf"));
        Ok(Self { upf, epoch, n4: address, socket, ports: [n3_port, n6_port] })
    }

    /// Where it listens for PFCP.
    #[must_use]
    pub fn n4(&self) -> SocketAddr {
        self.n4
    }

    /// How frames are sent on N3 and N6: lines for the user.
    pub fn choices(&self) -> impl Iterator<Item = String> + '_ {
        self.ports.iter().map(|port| format!("{}: {}", port.name, port.choice))
    }

    /// Runs until `stop` says so; `tell` is given what happens, and what was counted every while, if that is wanted.
    /// The sessions end with it, without a word to the control plane.
    pub fn run(
        mut self,
        stop: impl Fn() -> bool,
        every: Option<Duration>,
        mut tell: impl FnMut(UpfNews<'_>),
    ) -> UpfAccount {
        let mut datagram = vec![0; DATAGRAM_MAX];
        let every = every.map(|every| Span::from_nanos(u64::try_from(every.as_nanos()).unwrap_or(u64::MAX)));
        let mut next_account = every.map(|every| self.epoch.time() + every);
        let mut look = Time::ZERO;
        while !stop() {
            let now = self.epoch.time();
            let [n3, n6] = &mut self.ports;
            let mut taken = pump(&mut self.upf, now, Side::N3, n3, n6);
            taken += pump(&mut self.upf, now, Side::N6, n6, n3);
            taken += self.take_messages(now, &mut datagram);
            if taken == 0 || now >= look {
                look = now + LOOK;
                if self.upf.deadline().is_some_and(|deadline| deadline <= now) {
                    self.upf.tick(now);
                }
            }
            self.send(&mut tell);
            for port in &mut self.ports {
                port.transmit.flush();
            }
            if let (Some(at), Some(every)) = (next_account, every)
                && now >= at
            {
                next_account = Some(at + every);
                tell(UpfNews::Account(&self.account()));
            }
            if taken == 0 {
                let until = self.upf.deadline().map_or(PATIENCE, |deadline| deadline.since(now)).min(PATIENCE);
                let [n3, n6] = &self.ports;
                wait_readable([n3.receive.as_fd(), n6.receive.as_fd(), self.socket.as_fd()], until);
            }
        }
        self.account()
    }

    fn take_messages(&mut self, now: Time, datagram: &mut [u8]) -> usize {
        for taken in 0..MESSAGES {
            match self.socket.recv_from(datagram) {
                Ok((length, from)) => self.upf.message(now, from, &datagram[..length]),
                // Nothing is there, or the peer of an earlier message is gone (ECONNREFUSED): it will ask again.
                Err(_) => return taken,
            }
        }
        MESSAGES
    }

    /// Sends what the UPF sends by itself.
    fn send(&mut self, tell: &mut impl FnMut(UpfNews<'_>)) {
        while let Some(output) = self.upf.poll() {
            match output {
                Output::Frame { side, bytes } => {
                    let port = &mut self.ports[usize::from(side == Side::N6)];
                    port.full += u64::from(port.transmit.send(&[&bytes]) == 0);
                }
                // A message that cannot be sent is as good as lost on the way: whoever misses it asks again.
                Output::Message { to, bytes } => drop(self.socket.send_to(&bytes, to)),
                // It is counted by its reason.
                Output::Drop { .. } => {}
                Output::News(news) => tell(UpfNews::Event(&news)),
            }
        }
    }

    fn account(&mut self) -> UpfAccount {
        let elapsed = self.epoch.time().since(Time::ZERO);
        let ports = self.ports.each_mut().map(UpfPort::of);
        UpfAccount { elapsed, sessions: self.upf.sessions(), counters: self.upf.counters().clone(), ports }
    }
}

fn open_side(side: &UpfSide, choice: Choice) -> Result<(PortIo, Interface), UpfError> {
    let options = Options { choice, ..Options::default() };
    let io = PacketIo::open(&side.interface, &options).map_err(|error| match error.source.kind() {
        io::ErrorKind::PermissionDenied => UpfError::NotAllowed(side.interface.clone()),
        _ => UpfError::Network(error),
    })?;
    let interface = Interface {
        mac: io.mac(),
        addresses: side.addresses.clone(),
        gateways: side.gateways.clone(),
        mtu: io.mtu() as usize,
    };
    let choice = io.choice().to_owned();
    let (transmit, receive) = io.split();
    let name = side.interface.clone();
    Ok((PortIo { name, choice, transmit, receive, malformed: 0, full: 0, scratch: Vec::new() }, interface))
}

/// Takes frames from `port` through the UPF. Most leave by `other`: they are copied straight into its memory for sending
/// and changed there. Gives how many there were.
fn pump(upf: &mut Upf, now: Time, side: Side, port: &mut PortIo, other: &mut PortIo) -> usize {
    let PortIo { transmit, receive, malformed, full, scratch, .. } = port;
    let received = receive.receive(BATCH, |frame, _| {
        let at = HEADROOM..HEADROOM + frame.len();
        if other.transmit.slot().is_none() {
            other.transmit.flush();
        }
        let back = match other.transmit.slot() {
            Some(slot) if slot.frame.len() >= at.end => {
                let room = slot.frame;
                room[at.clone()].copy_from_slice(frame);
                match upf.handle(now, side, room, at) {
                    Verdict::Send { side: to, frame } if to == side => Some(transmit.send(&[&room[frame]])),
                    Verdict::Send { frame, .. } => {
                        other.transmit.commit(frame);
                        None
                    }
                    Verdict::Taken | Verdict::Drop(_) => None,
                }
            }
            // Without room there, or with too little of it, the UPF shall still see the frame: it may be for itself.
            _ => {
                scratch.resize(scratch.len().max(at.end), 0);
                scratch[at.clone()].copy_from_slice(frame);
                match upf.handle(now, side, scratch, at) {
                    Verdict::Send { side: to, frame } if to == side => Some(transmit.send(&[&scratch[frame]])),
                    Verdict::Send { frame, .. } => {
                        other.full += u64::from(other.transmit.send(&[&scratch[frame]]) == 0);
                        None
                    }
                    Verdict::Taken | Verdict::Drop(_) => None,
                }
            }
        };
        *full += u64::from(back == Some(0));
    });
    *malformed += received.malformed as u64;
    other.transmit.flush();
    received.frames
}
