//! Where a load's packets go: interfaces towards another UPF, or namespaces with the own one in them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use engine::{Span, Time};
use netio::SetupError;
use netio::clock::Epoch;
use netio::packet_io::{Choice, Options, PacketIo, Receive, Transmit};
use netio::site::{Mac, Namespace};
use userplane::load::{AddressRange, Population};
use userplane::neighbours::Neighbours;
use userplane::upf::Predefined;
use wire::Headers;
use wire::pfcp::PFCP_PORT;

use crate::load::{LoadPlan, Upf};
use crate::run::load::{Lines, LoadError};
use crate::run::upf::{LiveUpf, UpfAccount, UpfSettings, UpfSide};

/// MTU of the own UPF's N3 and N6: users' packets of 1,800 bytes fit in their tunnel.
const MTU: u32 = 1_900;
/// Addresses of the own network: those set aside for documentation, where no UE is.
const GNB: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const UPF_N3: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const SMF: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);
const UPF_N4: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 2);
const ROUTER: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);
const UPF_N6: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);
const ROUTER_6: Ipv6Addr = Ipv6Addr::new(0xfd6e, 0x6172, 0x726f, 6, 0, 0, 0, 1);
const UPF_N6_6: Ipv6Addr = Ipv6Addr::new(0xfd6e, 0x6172, 0x726f, 6, 0, 0, 0, 2);
/// How long neighbours are looked for.
const PATIENCE: Span = Span::from_secs(6);

/// What stands between the generator and the own UPF.
pub(crate) struct Between<'a> {
    /// Whether it stands on N3 and on N6.
    pub(crate) lines: [bool; 2],
    /// Joins `n3-load` with `n3-upf`, and `n6-load` with `n6-upf`, in the namespace it is given.
    pub(crate) open: &'a mut (dyn FnMut(&Namespace) -> Result<(), LoadError> + Send),
}

/// The way to a UPF, open.
pub(super) struct Network {
    pub(super) n3: Port,
    pub(super) n6: Port,
    pub(super) n4: UdpSocket,
    /// Where PFCP is sent.
    pub(super) peer: SocketAddr,
    /// Our address on N4.
    pub(super) smf: IpAddr,
    /// Our address on N3.
    pub(super) gnb: IpAddr,
    /// The own UPF, if it is that.
    pub(super) own: Option<OwnUpf>,
    /// The namespace between us and the own UPF, if something stands there.
    pub(super) _between: Option<Namespace>,
}

/// One side of the UPF.
pub(super) struct Port {
    pub(super) name: String,
    /// Away while packets are sent.
    pub(super) halves: Option<Halves>,
    /// The UPF, or the router before it.
    pub(super) gateway: IpAddr,
    /// A further address of it that is asked for, so that it knows us by ours of that version.
    pub(super) also: Option<IpAddr>,
    pub(super) choice: String,
    pub(super) mtu: u32,
    pub(super) mac: Mac,
}

/// What threads use of a port.
pub(super) struct Halves {
    pub(super) transmit: Transmit,
    pub(super) receive: Receive,
    /// What the receiver answers by.
    pub(super) answers: Transmit,
    pub(super) neighbours: Neighbours,
}

/// The own UPF, on a thread of its own.
pub(super) struct OwnUpf {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<UpfAccount>,
}

impl OwnUpf {
    /// Ends it; what it counted.
    pub(super) fn end(self) -> Option<UpfAccount> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().ok()
    }
}

impl Network {
    /// Opens it.
    pub(super) fn open(plan: &LoadPlan, choice: Choice, between: Option<&mut Between<'_>>) -> Result<Self, LoadError> {
        match &plan.upf {
            Upf::Own => own(plan, choice, between),
            Upf::Other(there) => {
                let pdns = data_networks(&plan.population);
                let n3 = Port::open(None, &there.n3.interface, vec![there.n3.address], &[], there.n3.gateway, choice)?;
                let n6 =
                    Port::open(None, &there.n6.interface, vec![there.n6.address], &pdns, there.n6.gateway, choice)?;
                let local = there.n4_address.unwrap_or(match there.n4_upf {
                    IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
                    IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
                });
                let peer = SocketAddr::new(there.n4_upf, PFCP_PORT);
                let n4 = control_socket(local)?;
                let smf = if local.is_unspecified() { own_address(peer)? } else { local };
                Ok(Self { n3, n6, n4, peer, smf, gnb: there.n3.address, own: None, _between: None })
            }
        }
    }

    /// Finds the Ethernet addresses of the next hops on N3 and N6.
    pub(super) fn find_next_hops(&mut self, lines: Lines) -> Result<[Mac; 2], LoadError> {
        let n3 = self.n3.find_gateway(lines.n3)?;
        let n6 = self.n6.find_gateway(lines.n6)?;
        Ok([n3, n6])
    }
}

impl Port {
    fn open(
        namespace: Option<&Namespace>,
        interface: &str,
        addresses: Vec<IpAddr>,
        others: &[AddressRange],
        gateway: IpAddr,
        choice: Choice,
    ) -> Result<Self, LoadError> {
        let open = |options: &Options| {
            let opened = match namespace {
                Some(namespace) => PacketIo::open_in(namespace, interface, options),
                None => PacketIo::open(interface, options),
            };
            opened.map_err(|error| LoadError::of_interface(interface, error))
        };
        let io = open(&Options { choice, ..Options::default() })?;
        let (mac, mtu, chosen) = (io.mac(), io.mtu(), io.choice().to_owned());
        let (transmit, receive) = io.split();
        let (answers, _) = open(&Options { choice: Choice::AfPacket, ring: 1, ..Options::default() })?.split();
        let own = addresses.into_iter().filter_map(|address| AddressRange::new(address, 1).ok());
        let neighbours = Neighbours::new(mac, own.chain(others.iter().copied()).collect());
        let name = interface.to_owned();
        let halves = Some(Halves { transmit, receive, answers, neighbours });
        Ok(Self { name, halves, gateway, also: None, choice: chosen, mtu, mac })
    }

    /// Asks for the next hop until it answers, or was asked in vain.
    fn find_gateway(&mut self, line: &'static str) -> Result<Mac, LoadError> {
        let epoch = Epoch::now();
        let Self { halves: Some(halves), gateway, also, .. } = self else { return Err(LoadError::Interrupted) };
        let Halves { transmit, receive, neighbours, .. } = halves;
        for address in [*gateway].into_iter().chain(*also) {
            neighbours.want(Time::ZERO, address);
        }
        loop {
            if let Some(mac) =
                neighbours.find(*gateway).filter(|_| also.is_none_or(|also| neighbours.find(also).is_some()))
            {
                return Ok(mac);
            }
            let now = epoch.time();
            if netio::sandbox::interrupted() {
                return Err(LoadError::Interrupted);
            }
            if now.since(Time::ZERO) > PATIENCE || neighbours.absent().next().is_some() {
                let (interface, address) = (self.name.clone(), *gateway);
                return Err(LoadError::NoNeighbour { line, interface, address });
            }
            neighbours.tick(now, |frame| _ = transmit.send(&[frame]));
            receive.wait(Span::from_millis(50));
            receive.receive(256, |frame, _| {
                let headers = Headers::parse(frame);
                neighbours.handle(frame, &headers, |answer| _ = transmit.send(&[answer]));
            });
        }
    }
}

/// The addresses that stand for data networks: whoever asks for one of them on N6 is answered.
fn data_networks(population: &Population) -> Vec<AddressRange> {
    population.groups().iter().map(|group| group.pdns).collect()
}

/// The own UPF in a namespace, and ours beside it, joined by three veth pairs.
fn own(plan: &LoadPlan, choice: Choice, between: Option<&mut Between<'_>>) -> Result<Network, LoadError> {
    let (ours, theirs) = (Namespace::new()?, Namespace::new()?);
    let middle = between.as_ref().map(|_| Namespace::new()).transpose()?;
    let emulated = between.as_ref().map_or([false; 2], |between| between.lines);
    // N4 is not emulated.
    let lines = [("n3", emulated[0]), ("n4", false), ("n6", emulated[1])];
    ours.configure(|net| {
        lines.iter().try_for_each(|(name, emulated)| match middle.as_ref().filter(|_| *emulated) {
            Some(middle) => net.veth(name, middle, &format!("{name}-load")),
            None => net.veth(name, &theirs, name),
        })
    })?;
    if let Some(middle) = &middle {
        middle.configure(|net| {
            for (name, _) in lines.iter().filter(|(_, emulated)| *emulated) {
                net.veth(&format!("{name}-upf"), &theirs, name)?;
                for end in ["load", "upf"] {
                    let interface = format!("{name}-{end}");
                    net.mtu(&interface, MTU)?;
                    net.ipv6(&interface, false)?;
                    net.up(&interface)?;
                }
            }
            Ok(())
        })?;
    }
    for (namespace, address) in [(&ours, SMF), (&theirs, UPF_N4)] {
        namespace.configure(|net| {
            net.up("lo")?;
            for name in ["n3", "n6"] {
                net.mtu(name, MTU)?;
                net.ipv6(name, false)?;
                net.up(name)?;
            }
            net.address("n4", address.into(), 24)?;
            net.up("n4")
        })?;
    }
    if let Some((between, middle)) = between.zip(middle.as_ref()) {
        (between.open)(middle)?;
    }
    let side = |interface: &str, addresses: Vec<(IpAddr, u8)>, gateways| UpfSide {
        interface: interface.into(),
        addresses,
        gateways,
    };
    let names = plan.groups.iter().filter_map(|group| group.predefined.clone());
    let settings = UpfSettings {
        n3: side("n3", vec![(UPF_N3.into(), 24)], vec![]),
        n4: SocketAddr::new(UPF_N4.into(), 0),
        n6: side("n6", vec![(UPF_N6.into(), 24), (UPF_N6_6.into(), 64)], vec![ROUTER.into(), ROUTER_6.into()]),
        node: None,
        // The rules that the groups name let all packets pass.
        predefined: names.map(|name| Predefined { name, filters: vec![] }).collect(),
        burst: Span::from_millis(100),
        heartbeat: None,
        choice,
        seed: plan.seed,
    };
    let upf = LiveUpf::open(&settings, Some(&theirs)).map_err(|error| LoadError::OwnUpf(error.to_string()))?;
    let stop = Arc::new(AtomicBool::new(false));
    let thread = {
        let stop = stop.clone();
        let run = move || upf.run(|| stop.load(Ordering::Relaxed), None, |_| {});
        thread::Builder::new().name("upf".into()).spawn(run).map_err(LoadError::Thread)?
    };
    let n4 = ours.run(|| control_socket(SMF.into()))??;
    let pdns = data_networks(&plan.population);
    let n3 = Port::open(Some(&ours), "n3", vec![GNB.into()], &[], UPF_N3.into(), choice)?;
    let mut n6 = Port::open(Some(&ours), "n6", vec![ROUTER.into(), ROUTER_6.into()], &pdns, UPF_N6.into(), choice)?;
    n6.also = Some(UPF_N6_6.into());
    let peer = SocketAddr::new(UPF_N4.into(), PFCP_PORT);
    Ok(Network {
        n3,
        n6,
        n4,
        peer,
        smf: SMF.into(),
        gnb: GNB.into(),
        own: Some(OwnUpf { stop, thread }),
        _between: middle,
    })
}

fn control_socket(address: IpAddr) -> Result<UdpSocket, LoadError> {
    let address = SocketAddr::new(address, PFCP_PORT);
    UdpSocket::bind(address).map_err(|source| LoadError::Listen { address, source })
}

/// The address that the machine would send from.
fn own_address(peer: SocketAddr) -> Result<IpAddr, LoadError> {
    let any: IpAddr = if peer.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let find = || {
        let socket = UdpSocket::bind(SocketAddr::new(any, 0))?;
        socket.connect(peer)?;
        Ok(socket.local_addr()?.ip())
    };
    find().map_err(|source| LoadError::NoRoute { peer: peer.ip(), source })
}

impl From<SetupError> for LoadError {
    fn from(error: SetupError) -> Self {
        Self::Network(error)
    }
}
