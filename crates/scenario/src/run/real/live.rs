//! One link by itself: around a program, or between two interfaces.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use engine::{ExitId, Graph, NodeId, Span};
use link::Direction;
use measure::{Discarded, Quantiles, format};
use netio::clock::Epoch;
use netio::control::Listener;
use netio::executor::{CellHandle, CellReport, CellSpec, CellWire, Dataplane, Options, Removed};
use netio::port::{Packet, Wire};
use netio::process;

use super::{Built, CellError, late_limit};
use crate::plan::{self, Cell, IpVersion, Path};
use crate::read::link_changes;
use crate::run::links::{self, LinkNodes};

/// A link to run by itself.
#[derive(Debug)]
pub struct Live {
    /// The link.
    pub link: plan::Link,
    /// Seed of its random streams.
    pub seed: u64,
    /// Where it takes changes from.
    pub control: Option<Listener>,
}

/// Why a link could not be run.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// The link.
    #[error(transparent)]
    Cell(#[from] CellError),
    /// The program cannot be started.
    #[error("cannot run `{program}`: {source}")]
    Program {
        /// Its name.
        program: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// The machine's own interfaces can be had by root alone.
    #[error(
        "`--between` needs root: the machine's interfaces belong to it; as an ordinary user run a program behind the link: `narrows link --profile P -- COMMAND`"
    )]
    NeedsRoot,
}

/// What a link that was run has counted.
#[derive(Debug)]
pub struct Account {
    /// In words, a line each.
    pub lines: Vec<String>,
}

impl Live {
    /// Runs a program in the first site, with the other's address in `NARROWS_PEER`, and a shell
    /// command there meanwhile. Gives the program's exit status.
    ///
    /// To be called inside [`netio::sandbox::run`].
    ///
    /// # Errors
    ///
    /// See [`LiveError`].
    pub fn around(self, program: &[String], peer: Option<&str>) -> Result<(u8, Account), LiveError> {
        let cell = self.cell();
        let Built { spec, applications, links } = Built::new(&cell)?;
        let link = Running::start(spec, links[0], self.control)?;
        let [ship, shore] = [&applications[0], &applications[1]];
        let failed = |program: &str| {
            let program = program.to_owned();
            move |source| LiveError::Program { program, source }
        };
        let mut other = match peer {
            None => None,
            Some(text) => {
                let mut command = Command::new("sh");
                command.args(["-c", text]).stdin(Stdio::null());
                command.env("NARROWS_PEER", ship.address.to_string());
                // Ctrl-C is for the program alone.
                command.process_group(0);
                Some(process::spawn(&shore.namespace, command).map_err(failed(text))?)
            }
        };
        let (name, arguments) = program.split_first().ok_or_else(|| failed("")(io::ErrorKind::InvalidInput.into()))?;
        let mut command = Command::new(name);
        command.args(arguments).env("NARROWS_PEER", shore.address.to_string());
        let ended = process::spawn(&ship.namespace, command).and_then(|mut child| process::wait(&mut child));
        if let Some(other) = &mut other {
            // It may have ended by itself.
            let _ = other.kill();
            let _ = other.wait();
        }
        let status = ended.map_err(failed(name))?;
        Ok((process::status(status), link.end(&cell)?))
    }

    /// Emulates between two interfaces of the machine until interrupted.
    ///
    /// To be called inside [`netio::sandbox::run`].
    ///
    /// # Errors
    ///
    /// See [`LiveError`].
    pub fn between(self, interfaces: [&str; 2]) -> Result<Account, LiveError> {
        let host = netio::sandbox::host_network().ok_or(LiveError::NeedsRoot)?;
        let cell = self.cell();
        let mut graph = Graph::new();
        let link = links::add(&cell, &mut graph).map_err(CellError::from)?[0];
        let mut wires = Vec::new();
        for (side, name) in interfaces.into_iter().enumerate() {
            let exit = ExitId(side);
            graph.connect_exit(link.exit(side), exit);
            let wire = Wire::Packet(Packet::interface(host, name).map_err(CellError::from)?);
            wires.push(CellWire { name: name.into(), wire, entry: link.entry(side), exit });
        }
        let spec = CellSpec { epoch: Epoch::now(), graph, wires, late: late_limit(&cell) };
        let link = Running::start(spec, link, self.control)?;
        while !netio::sandbox::interrupted() {
            thread::sleep(Duration::from_millis(50));
        }
        Ok(link.end(&cell)?)
    }

    fn cell(&self) -> Cell {
        Cell {
            id: 0,
            repeat: 0,
            coordinates: Vec::new(),
            seed: self.seed,
            sites: vec!["ship".into(), "shore".into()],
            links: vec![self.link.clone()],
            path: Path::host(IpVersion::V4),
            flows: Vec::new(),
            duration: Span::ZERO,
            interval: Span::ZERO,
            warmup: Span::ZERO,
        }
    }
}

/// A link with its thread.
struct Running {
    handle: Arc<CellHandle>,
    link: LinkNodes,
    _dataplane: Dataplane,
}

impl Running {
    fn start(spec: CellSpec, link: LinkNodes, control: Option<Listener>) -> Result<Self, CellError> {
        let dataplane = Dataplane::start(Options { spin: true, ..Options::default() })?;
        let handle = Arc::new(dataplane.add(spec)?);
        if let Some(control) = control {
            let handle = Arc::downgrade(&handle);
            // It waits for requests as long as the process lives.
            thread::spawn(move || {
                control.serve(|lines| {
                    let handle = handle.upgrade().ok_or("the link is ending")?;
                    change(&handle, link.ways, lines)
                });
            });
        }
        Ok(Self { handle, link, _dataplane: dataplane })
    }

    fn end(self, cell: &Cell) -> Result<Account, CellError> {
        let links = [self.link];
        let (report, pipes) = match Arc::try_unwrap(self.handle) {
            Ok(handle) => {
                let Removed { report, graph } = handle.remove()?;
                (report, links::pipes(cell, &graph, &links))
            }
            // A request is being answered at this moment.
            Err(handle) => {
                let cell = cell.clone();
                (handle.report()?, handle.ask(move |graph| links::pipes(&cell, graph, &links))?)
            }
        };
        let pipes = pipes.iter().map(|pipe| {
            let lost: Vec<String> = pipe
                .drops
                .iter()
                .filter(|(_, count)| *count > 0)
                .map(|(reason, count)| format!("{} {reason}", format::count(*count)))
                .collect();
            let lost = if lost.is_empty() { "none dropped".into() } else { format!("dropped: {}", lost.join(", ")) };
            let name = if pipe.pipe == Direction::MAIN { String::new() } else { format!(".{}", pipe.pipe) };
            format!(
                "{}{name}: {} packets in, {} out, {lost}",
                pipe.direction,
                format::count(pipe.offered_packets),
                format::count(pipe.delivered_packets)
            )
        });
        let elsewhere = super::discarded(cell, &report).into_iter().map(|discarded| {
            let Discarded { place, reason, packets } = discarded;
            format!("{place}: {} packets dropped: {reason}", format::count(packets))
        });
        let broken = report.broken.iter().map(|(wire, why)| format!("{wire}: broken: {why}"));
        Ok(Account { lines: pipes.chain(elsewhere).chain(broken).chain([punctuality(&report)]).collect() })
    }
}

fn punctuality(report: &CellReport) -> String {
    let lateness = Quantiles::of_nanos(&report.lateness).unwrap_or_default();
    let quantity = |seconds| format::quantity(seconds, measure::Unit::Second);
    format!(
        "lateness p50 {}, p99 {}, most {}; {} packets over {} late, {} stalls ({} in all), {} lost by the kernel",
        quantity(lateness.p50),
        quantity(lateness.p99),
        quantity(lateness.max),
        format::count(report.late),
        report.late_limit,
        report.stalls.count,
        quantity(report.stalls.total.as_secs_f64()),
        report.kernel_drops.map_or_else(|| "an unknown number".into(), format::count),
    )
}

/// Changes a running link as the lines say: all of them, or none if one is wrong.
fn change(handle: &CellHandle, directions: [NodeId; 2], lines: &[String]) -> Result<String, String> {
    let changes = link_changes(lines).map_err(|error| error.to_string())?;
    let done = handle.ask(move |graph| {
        let now = graph.now();
        for change in &changes {
            let chosen = directions.into_iter().zip([change.up, change.down]).filter(|(_, chosen)| *chosen);
            for (node, _) in chosen {
                let Some(direction) = graph.element_mut::<Direction>(node) else { continue };
                direction.set(now, &change.pipe, &change.change).map_err(|error| error.to_string())?;
            }
        }
        Ok(format!("{} changes made", changes.len()))
    });
    done.map_err(|error| error.to_string())?
}
