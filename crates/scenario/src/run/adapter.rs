//! A narrowband adapter by itself: between an interface and a line for real, or over a recording of
//! what it was given, in virtual time.

mod account;
mod replay;
mod tap;
mod told;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use adapter::{Adapter, AdapterConfig, LAN, LINE};
use engine::{ExitId, Graph, NodeId, Span, Time};
use netio::SetupError;
use netio::clock::Epoch;
use netio::executor::{AddError, CellHandle, CellSpec, CellWire, Dataplane, Options, Removed, Stopped};
use netio::port::line::{Address, Line, Settings};
use netio::port::{Packet, Wire};

pub use account::AdapterAccount;
pub use replay::{Difference, ReplayError, Replayed, replay, replay_recording};
use tap::{About, Tap};
use told::Teller;
pub use told::{AdapterEvent, AdapterNews};

/// An adapter to run by itself.
#[derive(Debug)]
pub struct LiveAdapter {
    /// What it is told to be.
    pub config: AdapterConfig,
    /// Seed of its random streams. Another one for each start: by it the other adapter knows that
    /// this one was restarted.
    pub seed: u64,
    /// The interface to the LAN.
    pub lan: String,
    /// The line.
    pub line: Address,
    /// How a serial device is set.
    pub settings: Settings,
    /// Where everything is recorded that the adapter is given and puts on its line.
    pub record: Option<PathBuf>,
    /// How often an account is wanted while it runs.
    pub every: Option<Duration>,
}

/// Why an adapter could not be run.
#[derive(Debug, thiserror::Error)]
pub enum AdapterError {
    /// It cannot be like that.
    #[error(transparent)]
    Config(#[from] adapter::ConfigError),
    /// The interface or the line.
    #[error(transparent)]
    Network(#[from] SetupError),
    /// The interface may not be used.
    #[error(
        "packet sockets on {0} are not allowed; run narrows as root, or give it CAP_NET_RAW (a unit's AmbientCapabilities, or `setcap cap_net_raw+ep`)"
    )]
    NotAllowed(String),
    /// The data plane.
    #[error(transparent)]
    Add(#[from] AddError),
    /// The data plane ended.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// There is something where the recording was to go.
    #[error("{} is there already, and a recording overwrites nothing; give another --record, or remove it", .0.display())]
    RecordExists(PathBuf),
    /// The recording cannot be written.
    #[error("cannot write the recording {}: {source}; the adapter was stopped", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The interface is of no use any more.
    #[error("the interface {wire} is gone: {why}")]
    Broken {
        /// Its name.
        wire: String,
        /// What the kernel said.
        why: String,
    },
}

/// How often the recording is written and a wish to end is looked for.
const LOOK: Duration = Duration::from_millis(50);
/// A packet that leaves later than this is late: half of a character at 9600 baud is as much.
const LATE: Span = Span::from_micros(500);

/// Places in the graph.
#[derive(Clone, Copy, Debug)]
struct Nodes {
    adapter: NodeId,
    tap: Option<NodeId>,
}

/// Exits of the graph.
const TO_LAN: ExitId = ExitId(0);
const TO_LINE: ExitId = ExitId(1);

impl LiveAdapter {
    /// Runs until the process is told to end ([`netio::sandbox::interrupted`]); `tell` is given what
    /// happens, and what is counted every while, if that is wanted. Needs the right to open packet sockets
    /// (`CAP_NET_RAW`).
    ///
    /// # Errors
    ///
    /// See [`AdapterError`].
    pub fn run(self, mut tell: impl FnMut(AdapterNews<'_>)) -> Result<AdapterAccount, AdapterError> {
        let mut graph = Graph::new();
        let nodes = build(&mut graph, &self.config, self.seed, self.record.is_some())?;
        let line = Line::open(&self.line, self.settings)?;
        let lan = Packet::interface_for_line(&self.lan).map_err(|error| match error.source.kind() {
            io::ErrorKind::PermissionDenied => AdapterError::NotAllowed(self.lan.clone()),
            _ => AdapterError::Network(error),
        })?;
        // Last: nothing is left behind by what cannot be.
        let mut recorder = self.record.clone().map(|path| Recorder::create(path, &self)).transpose()?;
        let status = line.status();
        let mut teller = Teller::new(&self.config, &self.line);
        if let Some(event) = teller.start(status.counted()) {
            tell(AdapterNews::Event(&event));
        }
        let wires = vec![
            CellWire { name: self.lan.clone(), wire: Wire::Packet(lan), entry: nodes.entry(LAN), exit: TO_LAN },
            CellWire { name: self.line.to_string(), wire: Wire::Line(line), entry: nodes.entry(LINE), exit: TO_LINE },
        ];
        let dataplane = Dataplane::start(Options { spin: false, ..Options::default() })?;
        let epoch = Epoch::now();
        let handle = dataplane.add(CellSpec { epoch, graph, wires, late: LATE })?;
        let mut next = self.every.map(|every| Instant::now() + every);
        while !netio::sandbox::interrupted() {
            thread::sleep(LOOK);
            if let (Some(recorder), Some(tap)) = (&mut recorder, nodes.tap) {
                recorder.write(&take(&handle, tap)?)?;
            }
            let (told, unheard) = handle.events()?;
            let elapsed = since_start(epoch.time_at(netio::clock::Instant::now()));
            let mut events: Vec<_> = teller.device(elapsed, status.counted()).collect();
            events.extend(told.into_iter().filter_map(|told| teller.adapter(since_start(told.at), told.event)));
            events.extend(teller.unheard(elapsed, unheard));
            events.extend(teller.withheld(elapsed));
            events.iter().for_each(|event| tell(AdapterNews::Event(event)));
            let report = handle.report()?;
            if let Some((wire, why)) = report.broken.into_iter().next() {
                return Err(AdapterError::Broken { wire, why });
            }
            if let (Some(at), Some(every)) = (next, self.every)
                && Instant::now() >= at
            {
                next = Some(at + every);
                let report = handle.report()?;
                let counted = handle.ask(move |graph| nodes.counters(graph).map(|counters| (graph.now(), counters)))?;
                if let Some((now, counters)) = counted {
                    let account = AdapterAccount::new(now, &self.config, counters, status.counted(), report);
                    tell(AdapterNews::Account(&account));
                }
            }
        }
        let Removed { report, mut graph } = handle.remove()?;
        let now = graph.now();
        if let (Some(mut recorder), Some(tap)) = (recorder, nodes.tap) {
            let mut rest = graph.element_mut::<Tap>(tap).map(Tap::take).unwrap_or_default();
            tap::end(&mut rest, now);
            recorder.write(&rest)?;
            recorder.finish()?;
        }
        let counters = nodes.counters(&graph).unwrap_or_else(|| unreachable!("the adapter is in its graph"));
        Ok(AdapterAccount::new(now, &self.config, counters, status.counted(), report))
    }
}

impl Nodes {
    /// Where what comes from the LAN or the line goes in.
    fn entry(self, port: engine::Port) -> (NodeId, engine::Port) {
        // The tap's first inputs are numbered as the adapter's.
        (self.tap.unwrap_or(self.adapter), port)
    }

    fn counters(self, graph: &Graph) -> Option<adapter::Counters> {
        graph.element::<Adapter>(self.adapter).map(Adapter::counters)
    }
}

/// The adapter, and around it what records it. A replay builds the same, so that what happens at one
/// instant happens in the same order.
fn build(graph: &mut Graph, config: &AdapterConfig, seed: u64, tapped: bool) -> Result<Nodes, adapter::ConfigError> {
    let element = Adapter::new(config, seed, "adapter")?;
    let tap = tapped.then(|| graph.add("recorder", Tap::default()));
    let adapter = graph.add("adapter", element);
    graph.connect_exit((adapter, LAN), TO_LAN);
    match tap {
        None => graph.connect_exit((adapter, LINE), TO_LINE),
        Some(tap) => {
            graph.connect((tap, Tap::FROM_LAN), (adapter, LAN));
            graph.connect((tap, Tap::FROM_LINE), (adapter, LINE));
            graph.connect((adapter, LINE), (tap, Tap::TO_LINE));
            graph.connect_exit((tap, Tap::TO_LINE), TO_LINE);
        }
    }
    Ok(Nodes { adapter, tap })
}

fn take(handle: &CellHandle, tap: NodeId) -> Result<Vec<u8>, Stopped> {
    handle.ask(move |graph| graph.element_mut::<Tap>(tap).map(Tap::take).unwrap_or_default())
}

/// The file a recording is written to.
struct Recorder {
    path: PathBuf,
    file: BufWriter<File>,
}

impl Recorder {
    fn create(path: PathBuf, live: &LiveAdapter) -> Result<Self, AdapterError> {
        let about = About { config: live.config.clone(), seed: live.seed, version: env!("CARGO_PKG_VERSION").into() };
        // It holds all that passes, for its owner alone.
        match File::options().write(true).create_new(true).mode(0o600).open(&path) {
            Ok(file) => {
                let mut recorder = Self { path, file: BufWriter::new(file) };
                recorder.write(&tap::begin(&about))?;
                Ok(recorder)
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(AdapterError::RecordExists(path)),
            Err(source) => Err(AdapterError::Record { path, source }),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), AdapterError> {
        self.file.write_all(bytes).map_err(|source| AdapterError::Record { path: self.path.clone(), source })
    }

    fn finish(mut self) -> Result<(), AdapterError> {
        self.file.flush().map_err(|source| AdapterError::Record { path: self.path, source })
    }
}

/// Time as a span since the epoch.
fn since_start(now: Time) -> Span {
    now.since(Time::ZERO)
}
