//! Real endpoints: TCP, UDP and ping between two namespaces, by the kernel's own stack.
//!
//! One thread drives the sockets of every cell by epoll. What is counted at either end stays in
//! this process, so nothing but the traffic itself crosses the link under test, and a cell whose
//! link delivers nothing ends like any other.

mod datagrams;
mod flow;
mod overflow;
mod session;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::net::IpAddr;
use std::sync::mpsc::{self, Receiver, Sender, SyncSender, TryRecvError};
use std::thread::JoinHandle;
use std::time::Instant;

use engine::{Rate, Size, Span, Time};
use measure::Observation;
use traffic::Application;

use crate::clock::{self, Epoch, Stalls};
use crate::site::Namespace;
use crate::waiting::{Epoll, EventFd, Ready};
use overflow::Overflow;
use session::Session;

/// A flow to run: its ends and what is sent.
#[derive(Debug)]
pub struct FlowSpec {
    /// Where it is sent from.
    pub from: End,
    /// Where it is sent to.
    pub to: End,
    /// When it begins, from the time all connections stand.
    pub start: Span,
    /// When it stops sending; at the end of the measured time if absent.
    pub stop: Option<Span>,
    /// Differentiated services code point.
    pub dscp: u8,
    /// What is sent.
    pub kind: FlowKind,
}

/// One end of a flow.
#[derive(Clone, Debug)]
pub struct End {
    /// Where its sockets are made.
    pub namespace: Namespace,
    /// Address they are bound to; both ends' are of one version.
    pub address: IpAddr,
}

/// What a flow sends.
#[derive(Debug)]
pub enum FlowKind {
    /// A TCP connection; the receiver discards what it gets inside the kernel (`MSG_TRUNC`).
    Tcp {
        /// Rate of the application, kept as `iperf3 -b` keeps it; as fast as it goes if absent.
        rate: Option<Rate>,
        /// Bytes in a write.
        write: Size,
        /// Bytes in all, if it is a transfer.
        transfer: Option<Size>,
        /// Congestion control (`TCP_CONGESTION`), at both ends.
        congestion: String,
    },
    /// Numbered datagrams at a constant rate.
    Udp {
        /// Rate of the UDP payload.
        rate: Rate,
        /// UDP payload of a datagram.
        size: Size,
    },
    /// ICMP echo requests; the kernel at the other end answers.
    Ping {
        /// From one request to the next.
        interval: Span,
        /// ICMP payload.
        size: Size,
    },
    /// Datagrams that two applications exchange.
    Datagrams {
        /// The one at the flow's first end, then the other.
        ends: [Box<dyn Application>; 2],
        /// UDP ports, the same at both ends: a socket each.
        ports: Vec<u16>,
    },
}

/// The times of a cell.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// How long connections may take to be established before the cell goes on without them.
    pub connect: Span,
    /// How long flows run before measuring begins.
    pub warmup: Span,
    /// Length of the measured time.
    pub duration: Span,
    /// Length of an interval.
    pub interval: Span,
    /// How long the last datagrams may take to arrive after that.
    pub drain: Span,
}

/// The thread that drives all endpoints.
///
/// Dropping it ends the thread; cells still running give no result.
#[derive(Debug)]
pub struct Endpoints {
    requests: Sender<Request>,
    wake: EventFd,
    thread: Option<JoinHandle<()>>,
}

/// A cell whose flows are running.
#[derive(Debug)]
pub struct Running {
    result: Receiver<Ran>,
    overflow: Overflow,
    begun: Receiver<Instant>,
}

/// What a cell's flows gave.
#[derive(Debug)]
pub struct Ran {
    /// One observation a flow, in order.
    pub observations: Vec<Observation>,
    /// The applications of flows that have them, in the same order, with their logs.
    pub ends: Vec<Option<[Box<dyn Application>; 2]>>,
    /// Processor time the thread spent on them, waking up included.
    pub cpu: Span,
    /// Delays of the thread of more than [`Stalls::LIMIT`] while they had something to do.
    pub stalls: Stalls,
    /// Datagrams and replies that found no room in the receiving sockets, if the kernel says.
    pub overflowed: Option<u64>,
}

impl Endpoints {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// If the kernel has no descriptors or threads left.
    pub fn start() -> io::Result<Self> {
        let (requests, inbox) = mpsc::channel();
        let epoll = Epoll::new()?;
        let wake = EventFd::new()?;
        epoll.add_readable(&wake, WAKE)?;
        let alarm = wake.try_clone()?;
        let thread = std::thread::Builder::new().name("endpoints".into()).spawn(move || {
            Driver { epoll, alarm, inbox, sessions: Vec::new(), timers: BinaryHeap::new(), charged: Span::ZERO }.run();
        })?;
        Ok(Self { requests, wake, thread: Some(thread) })
    }

    /// Makes the sockets of a cell's flows and starts them. The flows whose start is zero begin
    /// together, once every TCP connection among them stands or `timing.connect` has passed.
    ///
    /// # Errors
    ///
    /// If a socket cannot be made as asked, such as with a congestion control the kernel lacks.
    pub fn run(&self, flows: Vec<FlowSpec>, timing: Timing) -> Result<Running, EndpointError> {
        let (reply, result) = mpsc::sync_channel(1);
        let sinks = flows.iter().flat_map(|flow| match flow.kind {
            FlowKind::Udp { .. } => vec![flow.to.namespace.clone()],
            FlowKind::Datagrams { .. } => vec![flow.from.namespace.clone(), flow.to.namespace.clone()],
            FlowKind::Tcp { .. } | FlowKind::Ping { .. } => Vec::new(),
        });
        let overflow = Overflow::watch(sinks);
        let (begins, begun) = mpsc::sync_channel(1);
        let session = Box::new(Session::new(flows, timing, begins)?);
        // The thread lives as long as `self`; if it panicked, the result says so.
        let _ = self.requests.send(Request { session, reply });
        self.wake.notify();
        Ok(Running { result, overflow, begun })
    }
}

impl Running {
    /// Waits for all connections to be made: when that was, and the warm-up began. `None` if the
    /// thread is gone.
    #[must_use]
    pub fn begun(&self) -> Option<Instant> {
        self.begun.recv().ok()
    }

    /// Waits for the cell to end.
    ///
    /// # Errors
    ///
    /// If the thread that drives the endpoints is gone.
    pub fn wait(self) -> Result<Ran, EndpointError> {
        let mut ran = self.result.recv().map_err(|_| EndpointError::Gone)?;
        ran.overflowed = ran.overflowed.zip(self.overflow.datagrams()).map(|(replies, datagrams)| replies + datagrams);
        Ok(ran)
    }
}

impl Drop for Endpoints {
    fn drop(&mut self) {
        // Closing the channel is the request to end.
        self.requests = mpsc::channel().0;
        self.wake.notify();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Why a flow could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// The kernel has no such congestion control.
    #[error("this kernel has no congestion control `{name}`; it has: {available}")]
    Congestion {
        /// What was asked for.
        name: String,
        /// What there is.
        available: String,
    },
    /// A socket could not be made.
    #[error("cannot {doing}: {source}")]
    Socket {
        /// What was being done.
        doing: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// The namespace could not be entered.
    #[error(transparent)]
    Namespace(#[from] crate::SetupError),
    /// The driving thread has ended.
    #[error("the thread that drives the endpoints has ended (a bug in narrows)")]
    Gone,
}

/// A session, and who waits for what it gives.
struct Request {
    session: Box<Session>,
    reply: SyncSender<Ran>,
}

/// Epoll token of the wake-up descriptor; sessions' tokens are below.
const WAKE: u64 = u64::MAX;

/// The state of the thread.
struct Driver {
    epoll: Epoll,
    alarm: EventFd,
    inbox: Receiver<Request>,
    sessions: Vec<Option<Slot>>,
    timers: BinaryHeap<Reverse<(Time, usize)>>,
    /// Processor time of the thread that sessions have been charged with.
    charged: Span,
}

struct Slot {
    request: Request,
    armed: Option<Time>,
    cpu: Span,
    stalls: Stalls,
}

impl Driver {
    fn run(mut self) {
        let clock = Epoch::now();
        let mut due = Vec::new();
        loop {
            let (begin, timer) = (clock.time(), self.next_timer());
            let wait = if due.is_empty() { timer.map(|at| at.since(begin)) } else { Some(Span::ZERO) };
            let ready = self.epoll.wait(wait);
            if let Some(at) = timer {
                // What was late before it waited is the thread's own doing, not a stall.
                let now = clock.time();
                self.note_stall(now, now.since(at.max(begin)), None);
            }
            for Ready { token, .. } in ready {
                if token == WAKE {
                    self.alarm.clear();
                } else {
                    due.push((token >> 32) as usize);
                }
            }
            loop {
                match self.inbox.try_recv() {
                    Ok(request) => due.push(self.adopt(request)),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return,
                }
            }
            let time = clock.time();
            while let Some(&Reverse((at, id))) = self.timers.peek() {
                if at > time {
                    break;
                }
                self.timers.pop();
                if let Some(slot) = &mut self.sessions[id]
                    && slot.armed == Some(at)
                {
                    slot.armed = None;
                    due.push(id);
                }
            }
            due.sort_unstable();
            due.dedup();
            let mut again = Vec::new();
            for id in due.drain(..) {
                self.serve(id, &clock, &mut again);
            }
            due = again;
        }
    }

    fn adopt(&mut self, request: Request) -> usize {
        let slot = Some(Slot { request, armed: None, cpu: Span::ZERO, stalls: Stalls::new(Stalls::LIMIT) });
        match self.sessions.iter().position(Option::is_none) {
            Some(free) => {
                self.sessions[free] = slot;
                free
            }
            None => {
                self.sessions.push(slot);
                self.sessions.len() - 1
            }
        }
    }

    /// Lets a session do what it can; it is served again at once if it had to be interrupted.
    fn serve(&mut self, id: usize, clock: &Epoch, again: &mut Vec<usize>) {
        let Some(slot) = &mut self.sessions[id] else { return };
        let begin = clock.time();
        let next = slot.request.session.run(clock, &self.epoll, (id as u64) << 32);
        let (end, used) = (clock.time(), clock::thread_time());
        let spent = used.saturating_sub(self.charged);
        self.charged = used;
        slot.cpu += spent;
        match next {
            session::Next::Ended(flows, overflowed) => {
                let (observations, ends) = flows.into_iter().unzip();
                let ran = Ran { observations, ends, cpu: slot.cpu, stalls: slot.stalls, overflowed };
                // Whoever asked may have gone away.
                let _ = slot.request.reply.send(ran);
                self.sessions[id] = None;
            }
            session::Next::Again => again.push(id),
            session::Next::At(at) => {
                if slot.armed != Some(at) {
                    slot.armed = Some(at);
                    self.timers.push(Reverse((at, id)));
                }
            }
        }
        // Sending and receiving may take long; that the processor was elsewhere is a stall.
        self.note_stall(end, end.since(begin).saturating_sub(spent), Some(id));
    }

    /// Counts a stall, if it is one, for the session that was served and all that had something to
    /// do by `now`.
    fn note_stall(&mut self, now: Time, length: Span, served: Option<usize>) {
        if length <= Stalls::LIMIT {
            return;
        }
        for (id, slot) in self.sessions.iter_mut().enumerate() {
            if let Some(slot) = slot
                && (served == Some(id) || slot.armed.is_some_and(|at| at <= now))
            {
                slot.stalls.note(length);
            }
        }
    }

    fn next_timer(&mut self) -> Option<Time> {
        while let Some(&Reverse((at, id))) = self.timers.peek() {
            if self.sessions[id].as_ref().is_some_and(|slot| slot.armed == Some(at)) {
                return Some(at);
            }
            self.timers.pop();
        }
        None
    }
}
