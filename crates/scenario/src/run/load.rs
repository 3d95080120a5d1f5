//! A load on a UPF: sessions, then traffic, then what came of it.
//!
//! ```text
//!  main thread    N4: association, sessions, heartbeats; samples and the live line
//!  sender         packets at their times, to N3 (uplink) and N6 (downlink)
//!  two receivers  what the UPF hands on, at N6 and N3, with the kernel's time stamps
//! ```

mod cell;
mod network;
mod results;
mod search;
mod sessions;
mod sources;
mod summary;
mod table;
mod threads;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use engine::{DropReason, Random, Span, Time};
use netio::SetupError;
use netio::capture::{Capture, Written};
use netio::clock::Epoch;
use netio::packet_io::Choice;
use netio::site::{Mac, Namespace};
use userplane::load::{
    Access, Core, Direction, DownlinkFrames, Generator, Network as Wires, Population, PopulationError, Receiver,
    Source, Tunnel, UplinkFrames,
};
use wire::gtpu::Qfi;

use crate::capture::CaptureError;
use crate::load::{Generation, LoadPlan, Upf};
use crate::run::upf::UpfAccount;
use network::{Halves, Network, Port};
use results::{CAPTURE, Folder};
use sessions::Sessions;
use sources::{Material, Part};
use threads::{Ears, Grid, Heard, Listener, Sender, Sent};

pub(crate) use cell::{Measured, captures, run_cell};
pub(crate) use network::Between;
pub use search::{Best, Search, Trial as SearchTrial};
pub use sessions::SessionAccount;
pub use summary::{LoadSummary, Machine, Way};
pub use table::{SAMPLES as LOAD_SAMPLES, Sample};

/// How a load is run.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// Where the results go; nothing may be there yet.
    pub out: PathBuf,
    /// How frames are sent.
    pub choice: Choice,
}

/// What a load tells while it runs.
#[derive(Debug)]
pub enum LoadNews<'a> {
    /// Something worth knowing, in a line.
    Note(&'a str),
    /// All sessions are there.
    Sessions(SessionAccount),
    /// Each second: everything so far.
    Live {
        /// How long packets have been sent.
        elapsed: Span,
        /// Sent and received so far.
        total: Sample,
    },
    /// A trial of a search ended.
    Trial(&'a SearchTrial),
}

/// What came of a load.
#[derive(Clone, Debug)]
pub struct LoadOutcome {
    /// Figures.
    pub summary: LoadSummary,
    /// All groups' samples together, with the sender's own lateness in each.
    pub samples: Vec<(Sample, Span)>,
    /// It was told to stop before its end.
    pub interrupted: bool,
}

/// Why a load could not be run.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// Namespaces or interfaces.
    #[error(transparent)]
    Network(SetupError),
    /// An interface may not be used.
    #[error(
        "packet sockets on {0} are not allowed; run narrows as root, or give it CAP_NET_RAW (`setcap cap_net_raw,cap_net_admin+ep`)"
    )]
    NotAllowed(String),
    /// A link between us and the own UPF.
    #[error("cannot put a link on the way to the UPF: {0}")]
    Link(String),
    /// The own UPF did not start.
    #[error("the own UPF did not start: {0}")]
    OwnUpf(String),
    /// No thread.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// The port of PFCP is taken, or the address is not ours.
    #[error(
        "cannot listen for PFCP at {address}: {source}; give `n4` an address of this machine whose port nobody uses"
    )]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// No way to the UPF.
    #[error("no route to the UPF at {peer} on N4: {source}; look at `n4` and at `ip route get {peer}`")]
    NoRoute {
        /// The UPF.
        peer: IpAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The socket of N4.
    #[error("cannot use the socket of N4: {0}")]
    Control(io::Error),
    /// Nobody is there on N3 or N6.
    #[error(
        "nobody answers for {address} on {line} ({interface}); is the UPF up, is this its address there, and are both on one link (else give its router as `gateway`)?"
    )]
    NoNeighbour {
        /// `N3` or `N6`.
        line: &'static str,
        /// Our interface.
        interface: String,
        /// Who was asked for.
        address: IpAddr,
    },
    /// The UPF does not answer.
    #[error(
        "the UPF at {peer} does not answer on N4 ({requests} association requests to port 8805); is it running, and does a firewall let PFCP pass?"
    )]
    NoAnswer {
        /// The UPF.
        peer: IpAddr,
        /// Requests sent.
        requests: u32,
    },
    /// The UPF refuses to associate.
    #[error("the UPF at {peer} refuses to associate: {why}")]
    NoAssociation {
        /// The UPF.
        peer: IpAddr,
        /// What it said.
        why: String,
    },
    /// It refuses every session.
    #[error("the UPF refuses all sessions; the last one: {0}")]
    Refused(String),
    /// Some sessions are missing.
    #[error("{missing} of {wanted} sessions could not be established; the first reasons are told above")]
    NotEstablished {
        /// How many are missing.
        missing: usize,
        /// How many were wanted.
        wanted: usize,
    },
    /// A capture.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// A trace cannot be replayed like that.
    #[error("group `{0}`: {1}")]
    Trace(String, String),
    /// Addresses, now that the traces are known.
    #[error("with the addresses that its traces need: {0}")]
    Population(PopulationError),
    /// Packets are longer than an interface takes.
    #[error(
        "packets of {length} bytes with their tunnel are longer than the MTU of {interface}, {mtu}; raise it (`ip link set {interface} mtu {length}`) or send shorter ones"
    )]
    TooLong {
        /// Longest packet on that side.
        length: usize,
        /// The interface.
        interface: String,
        /// Its MTU.
        mtu: u32,
    },
    /// There is nothing to send for a search.
    #[error("{0}")]
    NothingToSearch(&'static str),
    /// Results are there already.
    #[error("there are results in {} already; choose another --out, or remove them", .0.display())]
    Taken(PathBuf),
    /// Results cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Told to stop before packets were sent.
    #[error("interrupted before any packet was sent; the sessions were deleted")]
    Interrupted,
}

/// How the interfaces are called, by generation (TS 23.501 4.2.6, TS 23.214 4.2).
#[derive(Clone, Copy, Debug)]
struct Lines {
    n3: &'static str,
    n6: &'static str,
}

/// Before the first packet, so that all threads are up.
const LEAD: Span = Span::from_millis(50);
/// After the last packet, for those that are on their way.
const LINGER: Span = Span::from_millis(1_000);
/// Packets of stateful traces that came and that the sender has not looked at yet, at most.
const CAME: usize = 16_384;
/// A live line this often.
const LIVE: Duration = Duration::from_secs(1);

/// Everything a load runs on, with its sessions up.
struct Rig<'a> {
    plan: &'a LoadPlan,
    material: &'a Material,
    sessions: Sessions,
    /// N3 and N6.
    ports: [Port; 2],
    tunnels: Vec<Tunnel>,
    /// The UPF's addresses, each with the flow identifier that packets to it bear.
    endpoints: Vec<(IpAddr, Qfi)>,
    next_hops: [Mac; 2],
    gnb: IpAddr,
    own: Option<network::OwnUpf>,
    _between: Option<Namespace>,
}

/// One time of sending.
struct Passage {
    sent: Sent,
    /// What came at N6 (uplink) and N3 (downlink).
    heard: [Heard; 2],
    /// What the kernel did not take, on N3 and N6.
    refused: [Vec<(DropReason, u64)>; 2],
    samples: Vec<(Sample, Span)>,
    captured: Option<Written>,
    elapsed: Span,
    interrupted: bool,
}

/// Runs a load until its end, or until the process is told to stop ([`netio::sandbox::interrupted`]): sessions are deleted
/// then too, and what was measured is kept. With the own UPF it must run in a sandbox.
///
/// # Errors
///
/// See [`LoadError`].
pub fn run_load(
    plan: &LoadPlan,
    options: &LoadOptions,
    tell: &mut dyn FnMut(LoadNews<'_>),
) -> Result<LoadOutcome, LoadError> {
    let material = Material::read(plan, &mut |note| tell(LoadNews::Note(note)))?;
    let folder = Folder::create(&options.out, plan)?;
    let mut events = folder.events()?;
    let mut tell = |news: LoadNews<'_>| {
        events.take(&news);
        tell(news);
    };
    let mut rig = Rig::build(plan, &material, options.choice, None, &mut tell)?;
    let part = Part { start: Time::ZERO + LEAD, lasts: plan.duration };
    let passage = material.sources(plan, part).and_then(|sources| rig.send(sources, part, Some(&folder), &mut tell));
    let deleted = rig.end(&mut tell);
    let (passage, (sessions, upf)) = (passage?, deleted);
    let summary = summary::of(plan, &material.population, &passage, sessions, upf);
    folder.finish(&passage, &summary, &material.population)?;
    events.finish(&summary)?;
    Ok(LoadOutcome { summary, samples: passage.samples, interrupted: passage.interrupted })
}

/// Looks for the highest rate at which no more than a share of the packets is lost.
///
/// # Errors
///
/// As [`run_load`].
pub fn find_max(
    plan: &LoadPlan,
    search: &Search,
    choice: Choice,
    tell: &mut dyn FnMut(LoadNews<'_>),
) -> Result<Vec<Best>, LoadError> {
    let material = Material::read(plan, &mut |note| tell(LoadNews::Note(note)))?;
    let mut rig = Rig::build(plan, &material, choice, None, tell)?;
    let found = search::run(&mut rig, search, tell);
    rig.end(tell);
    found
}

impl LoadError {
    fn of_interface(interface: &str, error: SetupError) -> Self {
        match error.source.kind() {
            io::ErrorKind::PermissionDenied => Self::NotAllowed(interface.to_owned()),
            _ => Self::Network(error),
        }
    }

    /// Whether the input is wrong rather than the world.
    #[must_use]
    pub fn is_bad_input(&self) -> bool {
        matches!(
            self,
            Self::Capture(_) | Self::Trace(..) | Self::Population(_) | Self::Taken(_) | Self::NothingToSearch(_)
        )
    }
}

impl Lines {
    const fn of(generation: Generation) -> Self {
        match generation {
            Generation::Five => Self { n3: "N3", n6: "N6" },
            Generation::Four => Self { n3: "S1-U", n6: "SGi" },
        }
    }
}

impl<'a> Rig<'a> {
    fn build(
        plan: &'a LoadPlan,
        material: &'a Material,
        choice: Choice,
        between: Option<&mut Between<'_>>,
        tell: &mut dyn FnMut(LoadNews<'_>),
    ) -> Result<Self, LoadError> {
        let mut network = Network::open(plan, choice, between)?;
        for port in [&network.n3, &network.n6] {
            tell(LoadNews::Note(&format!("{}: {}", port.name, port.choice)));
        }
        check_lengths(material, &network)?;
        let upf_n3 = match &plan.upf {
            Upf::Own => network.n3.gateway,
            Upf::Other(there) => there.n3.upf,
        };
        let ours = (network.smf, network.gnb);
        let population = material.population.clone();
        let Network { n4, peer, .. } = &network;
        let n4 = n4.try_clone().map_err(LoadError::Control)?;
        let mut sessions = Sessions::begin(plan, population, n4, *peer, ours, upf_n3)?;
        sessions.establish(tell)?;
        tell(LoadNews::Sessions(sessions.account()));
        let next_hops = match network.find_next_hops(Lines::of(plan.generation)) {
            Ok(macs) => macs,
            Err(error) => {
                sessions.end(tell);
                return Err(error);
            }
        };
        let mut endpoints: Vec<(IpAddr, Qfi)> = Vec::new();
        let tunnels = sessions.tunnels().map(|(session, teid, address)| {
            let wanted = (address, qfi(plan, &material.population, session));
            let known = endpoints.iter().position(|endpoint| *endpoint == wanted);
            let endpoint = known.unwrap_or_else(|| {
                endpoints.push(wanted);
                endpoints.len() - 1
            });
            Tunnel { teid, endpoint: endpoint as u16 }
        });
        let tunnels = tunnels.collect();
        let Network { n3, n6, gnb, own, _between, .. } = network;
        let ports = [n3, n6];
        Ok(Self { plan, material, sessions, ports, tunnels, endpoints, next_hops, gnb, own, _between })
    }

    /// Sends what `sources` give, and receives. The results of a run that is to be kept go to a folder.
    fn send(
        &mut self,
        sources: Vec<Source>,
        part: Part,
        folder: Option<&Folder>,
        tell: &mut dyn FnMut(LoadNews<'_>),
    ) -> Result<Passage, LoadError> {
        let plan = self.plan;
        let population = self.material.population.clone();
        let mark = Random::stream(plan.seed, "mark").bits() as u32 ^ Epoch::now().time().as_nanos() as u32;
        let names: Vec<String> = population.groups().iter().map(|group| group.name.clone()).collect();
        let groups = names.len();
        let end = part.start + part.lasts;
        let grid = Grid { start: part.start, per_second: plan.samples_per_second };
        let (capture, mut taps) = match folder.filter(|_| plan.capture) {
            Some(folder) => folder.capture(plan)?,
            None => (None, Vec::new()),
        };
        let mut table = match folder {
            Some(folder) => folder.table(names, plan.samples_per_second)?,
            None => table::Table::create(None, names, plan.samples_per_second)
                .map_err(|source| LoadError::Write { path: table::SAMPLES.into(), source })?,
        };
        let halves = self.ports.each_mut().map(|port| port.halves.take());
        let [Some(n3), Some(n6)] = halves else { return Err(LoadError::Interrupted) };
        let access = |endpoint: &(IpAddr, Qfi)| UplinkFrames::new(&self.access(*endpoint));
        let wires = Wires {
            population: population.clone(),
            tunnels: self.tunnels.clone(),
            uplink: self.endpoints.iter().map(access).collect(),
            downlink: DownlinkFrames::new(Core { mac: self.ports[1].mac, next_hop: self.next_hops[1] }),
            mark,
        };
        let (rows, inbox) = mpsc::channel();
        let (retunnel, tunnels) = mpsc::channel();
        let (stop_sending, stop_listening) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let generator = Generator::new(wires, sources, end);
        let [n6_receiver, n3_receiver] = [Direction::Uplink, Direction::Downlink]
            .map(|direction| (direction, Receiver::new(population.clone(), direction, mark)));
        let waiting = generator.waiting_groups();
        let (came, arrived) = mpsc::sync_channel(CAME);
        let (came, arrived) = if waiting.is_empty() { (None, None) } else { (Some((came, waiting)), Some(arrived)) };
        // Time begins when all that takes time is done.
        let epoch = Epoch::now();
        let sender = Sender {
            generator,
            ports: [n3.transmit, n6.transmit],
            epoch,
            grid,
            end,
            stop: stop_sending.clone(),
            rows: rows.clone(),
            tunnels,
            came: arrived,
            tap: taps.pop(),
        };
        // What went up comes out of N6, what went down of N3.
        let n6 = Ears { receive: n6.receive, answers: n6.answers, neighbours: n6.neighbours };
        let n3 = Ears { receive: n3.receive, answers: n3.answers, neighbours: n3.neighbours };
        let mut listeners = Vec::new();
        for ((direction, receiver), ears) in [(n6_receiver, n6), (n3_receiver, n3)] {
            let listener = Listener {
                receiver,
                direction,
                ears,
                groups,
                epoch,
                grid,
                stop: stop_listening.clone(),
                rows: rows.clone(),
                came: came.clone(),
                tap: taps.pop(),
            };
            let name = format!("{direction:?}").to_lowercase();
            let run = move || listener.run();
            listeners.push(thread::Builder::new().name(name).spawn(run).map_err(LoadError::Thread)?);
        }
        drop(rows);
        let sender =
            thread::Builder::new().name("send".into()).spawn(move || sender.run()).map_err(LoadError::Thread)?;
        let mut live = Instant::now() + LIVE;
        let (mut interrupted, mut until) = (false, None);
        let written = loop {
            // A UPF that is lost meanwhile is told of, and what can still be measured is.
            if let Err(error) = self.sessions.step(tell) {
                tell(LoadNews::Note(&error.to_string()));
            }
            let qfi = |session| qfi(plan, &population, session);
            for change in self.sessions.changes(&self.endpoints, qfi) {
                let _ = retunnel.send(change);
            }
            let written = inbox.try_iter().try_for_each(|row| table.take(row));
            if written.is_err() || (netio::sandbox::interrupted() && !interrupted) {
                interrupted = true;
                stop_sending.store(true, Ordering::Relaxed);
            }
            if Instant::now() >= live {
                live += LIVE;
                let _ = table.flush();
                tell(LoadNews::Live { elapsed: epoch.time().since(part.start), total: table.total() });
            }
            if sender.is_finished() && epoch.time() >= *until.get_or_insert(epoch.time() + LINGER) {
                break written;
            }
        };
        stop_listening.store(true, Ordering::Relaxed);
        let joined = sender.join().map_err(|_| LoadError::Thread(io::Error::other("the sender ended in a panic")));
        let heard: Vec<(Heard, Ears)> = listeners.into_iter().filter_map(|listener| listener.join().ok()).collect();
        let (sent, transmits) = joined??;
        let Ok([n6_heard, n3_heard]) = <[(Heard, Ears); 2]>::try_from(heard) else {
            return Err(LoadError::Thread(io::Error::other("a receiver ended in a panic")));
        };
        let captured = capture.map(Capture::finish).transpose();
        let captured = captured.map_err(|source| LoadError::Write { path: CAPTURE.into(), source })?;
        let rest = written.and_then(|()| inbox.try_iter().try_for_each(|row| table.take(row)));
        let samples = rest.and_then(|()| table.finish());
        let samples = samples.map_err(|source| LoadError::Write { path: table::SAMPLES.into(), source })?;
        // A model ends with its time, a trace when it is played.
        // A single packet has no length: no less than a sample is counted.
        let played =
            sent.last.since(part.start).max(Span::from_nanos(1_000_000_000 / u64::from(plan.samples_per_second)));
        let elapsed = if interrupted || !self.material.has_models() { played } else { part.lasts };
        let refused = transmits.each_ref().map(|transmit| transmit.sent().refused.clone());
        let [n3_transmit, n6_transmit] = transmits;
        let (n6_heard, n6_ears) = n6_heard;
        let (n3_heard, n3_ears) = n3_heard;
        for (port, transmit, ears) in [(0, n3_transmit, n3_ears), (1, n6_transmit, n6_ears)] {
            let Ears { receive, answers, neighbours } = ears;
            self.ports[port].halves = Some(Halves { transmit, receive, answers, neighbours });
        }
        Ok(Passage { sent, heard: [n6_heard, n3_heard], refused, samples, captured, elapsed, interrupted })
    }

    /// Deletes the sessions and ends the own UPF; what these counted.
    fn end(mut self, tell: &mut dyn FnMut(LoadNews<'_>)) -> (SessionAccount, Option<UpfAccount>) {
        let account = self.sessions.account();
        self.sessions.end(tell);
        let deleted = SessionAccount { messages: self.sessions.account().messages, ..account };
        (deleted, self.own.and_then(network::OwnUpf::end))
    }

    fn access(&self, (upf, qfi): (IpAddr, Qfi)) -> Access {
        let five = self.plan.generation == Generation::Five;
        Access {
            mac: self.ports[0].mac,
            next_hop: self.next_hops[0],
            gnb: self.gnb,
            upf,
            qfi: five.then_some(qfi),
            sequence: self.plan.gtpu_sequence,
        }
    }
}

/// The flow identifier of a session's packets: its group's.
fn qfi(plan: &LoadPlan, population: &Population, session: u32) -> Qfi {
    let group = (0..plan.groups.len()).find(|group| population.sessions_of(*group).contains(&session));
    group.map_or(Qfi::default(), |group| plan.groups[group].qfi)
}

/// Whether every packet fits its interface.
fn check_lengths(material: &Material, network: &Network) -> Result<(), LoadError> {
    // IP, UDP, GTP-U with a sequence number or a container.
    let tunnel = if network.gnb.is_ipv6() { 40 } else { 20 } + 8 + 16;
    for (port, extra) in [(&network.n3, tunnel), (&network.n6, 0)] {
        let length = material.longest() + extra;
        if length > port.mtu as usize {
            let (interface, mtu) = (port.name.clone(), port.mtu);
            return Err(LoadError::TooLong { length, interface, mtu });
        }
    }
    Ok(())
}
