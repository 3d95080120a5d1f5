//! Two pseudo-terminals joined by an emulated line: a radio for those who have none.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use engine::{ExitId, Graph, NodeId, Size, Span};
use link::characters::{BitErrors, LineCounters, Pace, Uart};
use link::{CharacterLine, ConfigError, LineChange, LineConfig};
use measure::format;
use netio::SetupError;
use netio::clock::Epoch;
use netio::control::Listener;
use netio::executor::{AddError, CellHandle, CellSpec, CellWire, Dataplane, Options, Removed, Stopped};
use netio::port::Wire;
use netio::port::line::{Line, Pty};

/// A line between two pseudo-terminals.
#[derive(Debug)]
pub struct PacedLine {
    /// The line's two directions: from the first terminal and from the second.
    pub directions: [LineConfig; 2],
    /// Where the terminals are to be found.
    pub terminals: [PathBuf; 2],
    /// Seed of what is drawn at random.
    pub seed: u64,
    /// Where it takes changes from.
    pub control: Option<Listener>,
}

/// Why a line could not be run.
#[derive(Debug, thiserror::Error)]
pub enum PacedLineError {
    /// It cannot be like that.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A terminal.
    #[error(transparent)]
    Network(#[from] SetupError),
    /// The data plane.
    #[error(transparent)]
    Add(#[from] AddError),
    /// The data plane ended.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// What a line counted, by direction.
#[derive(Clone, Debug)]
pub struct PacedLineAccount {
    /// From the first terminal and from the second.
    pub directions: [LineCounters; 2],
    /// In words, a line each.
    pub lines: Vec<String>,
}

const NAMES: [&str; 2] = ["up", "down"];

impl PacedLine {
    /// Emulates until the process is told to end ([`netio::sandbox::interrupted`]); `ready` is called
    /// once the terminals are there.
    ///
    /// # Errors
    ///
    /// See [`PacedLineError`].
    pub fn run(self, ready: impl FnOnce()) -> Result<PacedLineAccount, PacedLineError> {
        let mut graph = Graph::new();
        let mut nodes = Vec::new();
        for (config, name) in self.directions.iter().zip(NAMES) {
            nodes.push(graph.add(name, CharacterLine::new(config, self.seed, &format!("line.{name}"))?));
        }
        let [up, down] = nodes[..] else { unreachable!("there are two directions") };
        let mut wires = Vec::new();
        for (side, path) in self.terminals.iter().enumerate() {
            let line = Line::pty(Pty::create(path)?)?;
            let exit = ExitId(side);
            graph.connect_exit(([down, up][side], 0), exit);
            let name = path.display().to_string();
            wires.push(CellWire { name, wire: Wire::Line(line), entry: ([up, down][side], 0), exit });
        }
        let dataplane = Dataplane::start(Options { spin: false, ..Options::default() })?;
        let late = self.directions[0].pace.time_for(1);
        let handle = Arc::new(dataplane.add(CellSpec { epoch: Epoch::now(), graph, wires, late })?);
        if let Some(control) = self.control {
            let handle = Arc::downgrade(&handle);
            // It waits for requests as long as the process lives.
            thread::spawn(move || {
                control.serve(|lines| {
                    let handle = handle.upgrade().ok_or("the line is ending")?;
                    change(&handle, [up, down], lines)
                });
            });
        }
        ready();
        while !netio::sandbox::interrupted() {
            thread::sleep(Duration::from_millis(50));
        }
        let of = move |graph: &Graph| [up, down].map(|node| counters(graph, node));
        let (report, directions) = match Arc::try_unwrap(handle) {
            Ok(handle) => {
                let Removed { report, graph } = handle.remove()?;
                (report, of(&graph))
            }
            // A request is being answered at this moment.
            Err(handle) => (handle.report()?, handle.ask(move |graph| of(graph))?),
        };
        let words = directions.iter().zip(NAMES).map(|(counters, name)| words(name, counters));
        let elsewhere = report.drops.iter().filter(|dropped| !NAMES.contains(&dropped.place.as_str())).map(|dropped| {
            format!("{}: {} runs dropped: {}", dropped.place, format::count(dropped.packets), dropped.reason)
        });
        Ok(PacedLineAccount { directions, lines: words.chain(elsewhere).collect() })
    }
}

fn counters(graph: &Graph, node: NodeId) -> LineCounters {
    graph.element::<CharacterLine>(node).map(CharacterLine::counters).unwrap_or_default()
}

fn words(name: &str, counters: &LineCounters) -> String {
    let lost: Vec<String> = counters
        .dropped()
        .filter(|(_, count)| *count > 0)
        .map(|(reason, count)| format!("{} {reason}", format::count(count)))
        .collect();
    let lost = if lost.is_empty() { "none lost".into() } else { format!("lost: {}", lost.join(", ")) };
    format!(
        "{name}: {} characters in, {} out, {} hit by bit errors, {lost}",
        format::count(counters.offered),
        format::count(counters.delivered),
        format::count(counters.errored)
    )
}

/// Changes a running line as the lines say, in order; nothing is changed if one of them makes no sense.
fn change(handle: &CellHandle, nodes: [NodeId; 2], lines: &[String]) -> Result<String, String> {
    let done = handle.ask({
        let lines = lines.to_vec();
        move |graph| {
            let now = graph.now();
            let mut changes = Vec::new();
            for line in &lines {
                let (chosen, rest) = match line.split_once('.') {
                    Some(("up", rest)) => ([true, false], rest),
                    Some(("down", rest)) => ([false, true], rest),
                    _ => ([true, true], line.as_str()),
                };
                for (node, _) in nodes.into_iter().zip(chosen).filter(|(_, chosen)| *chosen) {
                    let Some(element) = graph.element::<CharacterLine>(node) else { continue };
                    changes.push((node, line_change(rest, element.config().pace).map_err(|error| error.to_string())?));
                }
            }
            for (node, change) in &changes {
                let Some(element) = graph.element_mut::<CharacterLine>(*node) else { continue };
                element.set(now, change).map_err(|error| error.to_string())?;
            }
            Ok(format!("{} changes made", lines.len()))
        }
    });
    done.map_err(|error| error.to_string())?
}

/// Text that is no change of a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no change of a line; write `cut=true`, `cut=false`, `errors=1e-4` (0 to 1), `delay=20ms`, `buffer=4KiB` or `baud=2400`, with `up.` or `down.` in front for one direction"
)]
pub struct LineChangeError(String);

/// Whether a change of a running line can be meant, such as `up.errors=1e-4`.
///
/// # Errors
///
/// What may be written.
pub fn check_line_change(text: &str) -> Result<(), LineChangeError> {
    let rest = text.strip_prefix("up.").or_else(|| text.strip_prefix("down.")).unwrap_or(text);
    line_change(rest, LineConfig::default().pace).map(drop)
}

fn line_change(text: &str, pace: Pace) -> Result<LineChange, LineChangeError> {
    let refused = || LineChangeError(text.to_owned());
    let (key, value) = text.split_once('=').ok_or_else(refused)?;
    match key.trim() {
        "cut" => value.trim().parse().ok().map(LineChange::Cut),
        "errors" => {
            let rate = value.trim().parse::<f64>().ok().filter(|rate| (0.0..=1.0).contains(rate));
            rate.map(|rate| LineChange::Errors(BitErrors::Independent(rate)))
        }
        "delay" => value.parse::<Span>().ok().map(LineChange::Delay),
        "buffer" => value.parse::<Size>().ok().map(LineChange::Buffer),
        "baud" => {
            let uart = match pace {
                Pace::Asynchronous(uart) => Some(uart),
                Pace::Synchronous(_) => None,
            };
            let baud = value.trim().parse().ok();
            uart.zip(baud).map(|(uart, baud)| LineChange::Pace(Pace::Asynchronous(Uart { baud, ..uart })))
        }
        _ => None,
    }
    .ok_or_else(refused)
}
