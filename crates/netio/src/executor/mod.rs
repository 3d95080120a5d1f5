//! The real executor: one thread that drives the elements of many cells on real wires.
//!
//! A cell is a [`Graph`] and the [`Wire`]s its packets come from and go to. Cells share the thread
//! and nothing else. The thread sleeps in epoll until a wire has something or the earliest deadline
//! of all cells comes; while it drives one cell alone it may spin for the last part, which makes it
//! punctual to a microsecond instead of some fifty.
//!
//! # Time
//!
//! Packets enter the graph with the time after they were read, so that none is believed to have
//! been sent earlier than it was. A packet leaves at the first moment the thread runs at or after
//! its launch time, never before. How much after is its lateness, which is recorded; that the
//! whole machine stood still (a stall) is told apart and counted by itself.
//!
//! # Losses
//!
//! Every packet that does not leave is counted under the place and the reason: dropped by an
//! element, refused by a wire, left in no room here. What the kernel lost before we could read it is
//! counted by the kernel ([`CellReport::kernel_drops`]).

mod cell;
mod thread;

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;

use engine::{DropReason, Event, ExitId, Graph, NodeId, Port, Span, Time};
use hdrhistogram::Histogram;

use crate::clock::{Epoch, Stalls};
use crate::error::SetupError;
use crate::port::Wire;
use crate::waiting::EventFd;

use cell::Cell;

/// A frame came in that was truncated, or a super-frame of a kind nobody asked for.
pub const MALFORMED: DropReason = DropReason("malformed frame");
/// A packet left the graph by an exit that has no wire.
pub const NO_WIRE: DropReason = DropReason("exit without a wire");
/// Too many packets were handed over ahead of their launch time ([`Options::held`]).
pub const HELD_FULL: DropReason = DropReason("too many packets ahead of their time");

/// Events of a cell's elements that are kept until [`CellHandle::events`] takes them.
pub const EVENTS_MAX: usize = 256;

/// How the thread runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The processor it is bound to, if any.
    pub cpu: Option<usize>,
    /// Spin before a deadline while there is one cell and no other.
    pub spin: bool,
    /// A delay of the whole thread of more than this is a stall.
    pub stall: Span,
    /// Most packets per cell that wait here for a launch time their element left to us.
    pub held: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { cpu: None, spin: false, stall: Stalls::LIMIT, held: 65_536 }
    }
}

/// A cell to be driven.
pub struct CellSpec {
    /// The moment that is time zero in its graph.
    pub epoch: Epoch,
    /// Its elements.
    pub graph: Graph,
    /// Where its packets come from and go to.
    pub wires: Vec<CellWire>,
    /// A packet that leaves later than this after its launch time is counted as late.
    pub late: Span,
}

/// A wire of a cell.
pub struct CellWire {
    /// What records call it.
    pub name: String,
    /// The wire.
    pub wire: Wire,
    /// Where what it brings enters the graph.
    pub entry: (NodeId, Port),
    /// What leaves the graph here goes out by it.
    pub exit: ExitId,
}

/// The thread has ended: it was stopped, or something in it panicked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the data plane has stopped; if nobody stopped it, this is a bug in narrows")]
pub struct Stopped;

/// Why a cell cannot be added.
#[derive(Debug, thiserror::Error)]
pub enum AddError {
    /// There is no thread to add it to.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// The kernel will not watch its wires.
    #[error("cannot watch the wire {name}: {source}")]
    Watch {
        /// The wire.
        name: String,
        /// What the kernel said.
        source: io::Error,
    },
}

/// A thread that drives cells. It stops, and with it what it drives, when this is dropped.
#[derive(Debug)]
pub struct Dataplane {
    mailbox: Mailbox,
    thread: Option<JoinHandle<()>>,
}

impl Dataplane {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// If the kernel gives no thread, no epoll instance, or not the processor asked for.
    pub fn start(options: Options) -> Result<Self, SetupError> {
        let (sender, commands) = mpsc::channel();
        let bell =
            EventFd::new().map(Arc::new).map_err(|source| SetupError::new("create an event descriptor", source))?;
        let (ready, started) = mpsc::channel();
        let mailbox = Mailbox { sender, bell: Arc::clone(&bell) };
        let thread = std::thread::Builder::new()
            .name("dataplane".into())
            .spawn(move || match thread::Loop::new(options, commands, bell) {
                Ok(mut work) => {
                    let _ = ready.send(Ok(()));
                    work.run();
                }
                Err(error) => {
                    let _ = ready.send(Err(error));
                }
            })
            .map_err(|source| SetupError::new("start the data plane's thread", source))?;
        started.recv().unwrap_or(Ok(()))?;
        Ok(Self { mailbox, thread: Some(thread) })
    }

    /// Hands a cell to the thread, which drives it from now on.
    ///
    /// # Errors
    ///
    /// If the thread has ended, or the kernel will not watch the wires.
    pub fn add(&self, cell: CellSpec) -> Result<CellHandle, AddError> {
        let (reply, answer) = mpsc::channel();
        self.mailbox.send(Command::Add(cell, reply))?;
        let id = answer.recv().map_err(|_| Stopped)??;
        Ok(CellHandle { mailbox: self.mailbox.clone(), id, there: true })
    }

    /// What all cells together have sent since the thread started, those taken out included.
    ///
    /// # Errors
    ///
    /// If the thread has ended.
    pub fn totals(&self) -> Result<Totals, Stopped> {
        let (reply, answer) = mpsc::channel();
        self.mailbox.send(Command::Totals(reply))?;
        answer.recv().map_err(|_| Stopped)
    }
}

/// How punctual the thread was, over all cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Packets that went out.
    pub packets: u64,
    /// Of those, packets later than their cells' [`CellSpec::late`].
    pub late: u64,
}

impl Drop for Dataplane {
    fn drop(&mut self) {
        let _ = self.mailbox.send(Command::Stop);
        if let Some(thread) = self.thread.take() {
            // A panic in there was somebody's `Stopped` already.
            let _ = thread.join();
        }
    }
}

/// A cell in the hands of a [`Dataplane`]. It is taken out when this is dropped.
#[derive(Debug)]
pub struct CellHandle {
    mailbox: Mailbox,
    id: CellId,
    there: bool,
}

impl CellHandle {
    /// Has `work` done to the graph by the thread, soon. The graph stands at the time of then, and
    /// goes on from what `work` left.
    ///
    /// # Errors
    ///
    /// If the thread has ended.
    pub fn command(&self, work: impl FnOnce(&mut Graph) + Send + 'static) -> Result<(), Stopped> {
        self.mailbox.send(Command::Do(self.id, Box::new(|cell| work(&mut cell.graph))))
    }

    /// Has `work` done to the graph by the thread and waits for what it returns.
    ///
    /// # Errors
    ///
    /// If the thread has ended.
    pub fn ask<R: Send + 'static>(&self, work: impl FnOnce(&mut Graph) -> R + Send + 'static) -> Result<R, Stopped> {
        self.ask_cell(|cell| work(&mut cell.graph))
    }

    /// What was measured so far; the kernel's drops are only in the final report.
    ///
    /// # Errors
    ///
    /// If the thread has ended.
    pub fn report(&self) -> Result<CellReport, Stopped> {
        self.ask_cell(|cell| cell.report())
    }

    /// What the elements told since this was asked last, or since the cell was added, and how many
    /// events were lost as more than [`EVENTS_MAX`] came between.
    ///
    /// # Errors
    ///
    /// If the thread has ended.
    pub fn events(&self) -> Result<(Vec<Happened>, u64), Stopped> {
        self.ask_cell(Cell::events)
    }

    fn ask_cell<R: Send + 'static>(&self, work: impl FnOnce(&mut Cell) -> R + Send + 'static) -> Result<R, Stopped> {
        let (reply, answer) = mpsc::channel();
        self.mailbox.send(Command::Do(
            self.id,
            Box::new(move |cell| {
                let _ = reply.send(work(cell));
            }),
        ))?;
        answer.recv().map_err(|_| Stopped)
    }

    /// Takes the cell out: packets still in it are lost, its wires go away, and with the last handle
    /// their namespaces. Done by the calling thread, since the kernel takes its time over it.
    ///
    /// # Errors
    ///
    /// If the thread has ended.
    pub fn remove(mut self) -> Result<Removed, Stopped> {
        let mut cell = self.take()?;
        let mut report = cell.report();
        report.kernel_drops = cell.kernel_drops();
        Ok(Removed { report, graph: cell.into_graph() })
    }

    fn take(&mut self) -> Result<Box<Cell>, Stopped> {
        self.there = false;
        let (reply, answer) = mpsc::channel();
        self.mailbox.send(Command::Remove(self.id, reply))?;
        answer.recv().map_err(|_| Stopped)
    }
}

impl Drop for CellHandle {
    fn drop(&mut self) {
        if self.there {
            let _ = self.take();
        }
    }
}

/// What an element told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Happened {
    /// When, in the graph's time.
    pub at: Time,
    /// The element's name.
    pub place: String,
    /// What happened.
    pub event: Event,
}

/// A cell that was taken out.
pub struct Removed {
    /// What was measured.
    pub report: CellReport,
    /// Its elements, with their counters.
    pub graph: Graph,
}

/// What was measured in a cell.
#[derive(Clone)]
pub struct CellReport {
    /// Packets that came in (segments, not super-frames).
    pub packets_in: u64,
    /// Their bytes.
    pub bytes_in: u64,
    /// Packets that went out.
    pub packets_out: u64,
    /// Their bytes.
    pub bytes_out: u64,
    /// How long after its launch time each packet went out, in nanoseconds, to three digits, up to a
    /// minute.
    pub lateness: Histogram<u64>,
    /// Packets later than [`CellSpec::late`].
    pub late: u64,
    /// That limit.
    pub late_limit: Span,
    /// Stalls of the thread while the cell had something to do.
    pub stalls: Stalls,
    /// Processor time of the thread that was spent on the cell. Between cells it is divided by the
    /// time each took by the clock; waking up and spinning is in it.
    pub cpu: Span,
    /// Packets that ended here, by place and reason.
    pub drops: Vec<Dropped>,
    /// Frames the kernel lost for want of room before we read them, over all wires, if the kernel
    /// still knew.
    pub kernel_drops: Option<u64>,
    /// What broke a wire, if one broke: wire and reason.
    pub broken: Vec<(String, String)>,
}

impl fmt::Debug for CellReport {
    /// The histogram by its quantiles.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |quantile| Span::from_nanos(self.lateness.value_at_quantile(quantile)).to_string();
        f.debug_struct("CellReport")
            .field("packets_in", &self.packets_in)
            .field("packets_out", &self.packets_out)
            .field("lateness", &format_args!("p50 {}, p99 {}, max {}", at(0.5), at(0.99), at(1.0)))
            .field("late", &self.late)
            .field("stalls", &self.stalls)
            .field("cpu", &self.cpu)
            .field("drops", &self.drops)
            .field("kernel_drops", &self.kernel_drops)
            .field("broken", &self.broken)
            .finish_non_exhaustive()
    }
}

/// Packets that ended in one place for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// The element's or the wire's name.
    pub place: String,
    /// Why.
    pub reason: DropReason,
    /// How many.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// A cell's place in the thread's table, and a number that is never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CellId {
    slot: usize,
    serial: u64,
}

enum Command {
    Add(CellSpec, Sender<Result<CellId, AddError>>),
    Do(CellId, Box<dyn FnOnce(&mut Cell) + Send>),
    Remove(CellId, Sender<Box<Cell>>),
    Totals(Sender<Totals>),
    Stop,
}

/// The way to the thread: a queue, and a bell that wakes it.
#[derive(Clone, Debug)]
struct Mailbox {
    sender: Sender<Command>,
    bell: Arc<EventFd>,
}

impl Mailbox {
    fn send(&self, command: Command) -> Result<(), Stopped> {
        self.sender.send(command).map_err(|_| Stopped)?;
        self.bell.notify();
        Ok(())
    }
}
