//! The control plane's end of N4 (or of Sxa and Sxb in 4G): what an SMF, or the control parts of the serving and packet gateway,
//! say to a user plane (TS 29.244).
//!
//! It associates, makes, changes and deletes sessions, keeps the path alive by heartbeats, and answers what the user plane
//! asks. Sessions' requests go through a window: so many at a time are on their way, and the rest wait. A request that is not
//! answered within T1 is sent again, the same to the byte, up to N1 times (TS 29.244 6.4), and a heartbeat with it. A user plane
//! that says nothing at all meanwhile is dead: everything then waits until it answers a heartbeat. One that restarted, which its recovery time stamp
//! tells, has lost its sessions: they are made again, if the configuration says so.
//!
//! It differs from an SMF in that it gives a session two packet detection rules, one for each direction, and no more, and in that it
//! takes the first answer to come for an answer, however late.
//!
//! # The order of calls
//!
//! Hand in what happens ([`ControlPlane::handle`] for a datagram, [`ControlPlane::tick`] when [`ControlPlane::deadline`] has come,
//! or what is wanted), then take what comes out by [`ControlPlane::poll`] until there is nothing. Sessions may be wanted before there is
//! an association; they wait for it. To end, call [`ControlPlane::release`] and go on until [`Event::Released`].
//!
//! ```
//! use engine::{Random, Time};
//! use userplane::control::{Config, ControlPlane, Output};
//! use wire::pfcp::value::NtpTime;
//!
//! let config = Config::new([10, 0, 0, 1].into(), NtpTime::from_unix(1_795_000_000));
//! let mut control = ControlPlane::new(config, Random::stream(1, "n4"));
//! control.associate(Time::ZERO);
//! let Some(Output::Send(datagram)) = control.poll() else { unreachable!("a request") };
//! assert_eq!(datagram[1], 5);
//! assert!(control.poll().is_none());
//! assert!(control.deadline().is_some(), "to send it again");
//! ```

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::net::IpAddr;

use engine::{Random, Span, Time};
use wire::pfcp::message::{
    AssociationReleaseRequest, AssociationSetupRequest, AssociationUpdateRequest, Body, HeartbeatRequest,
    SessionDeletionRequest, is_request,
};
use wire::pfcp::value::{CpFeatures, FSeid, NodeId, NtpTime};
use wire::pfcp::{Encoding, Message, PfcpError};

mod event;
mod exchange;
mod outcome;
mod peer;
mod session;

pub use event::{Event, Failure, Procedure, Refusal, SessionId, Tunnel};
use exchange::{Answers, Overdue, Purpose, Requests, Task};
pub use session::{Change, Peer, Profile, Qos, SessionSpec, Usage};

/// How a control plane behaves.
#[derive(Clone, Debug)]
pub struct Config {
    /// What it controls.
    pub generation: Generation,
    /// What it is called.
    pub node_id: NodeId,
    /// Where it is reached: the address in its F-SEIDs.
    pub address: IpAddr,
    /// When it started: the same for the whole run (TS 29.244 8.2.65).
    pub recovery: NtpTime,
    /// How messages are written for this user plane.
    pub encoding: Encoding,
    /// Whether rules name the interface by its name in the architecture (TS 29.244 8.2.118).
    pub interface_types: bool,
    /// SEID of the first session; the others follow.
    pub first_seid: u64,
    /// Requests about sessions that are on their way at a time.
    pub window: usize,
    /// T1: how long an answer is waited for.
    pub t1: Span,
    /// N1: how often a request is sent again.
    pub n1: u32,
    /// Time between heartbeats; without one the user plane is not asked whether it lives.
    pub heartbeat: Option<Span>,
    /// Whether sessions are made again when the user plane restarted.
    pub restore: bool,
}

/// What is controlled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// A UPF between N3 and N6; packets are marked with their QoS flow.
    FiveG,
    /// Serving and packet gateway in one, between S1-U and SGi; packets have no PDU session container.
    FourG,
}

/// What comes out of a control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// A datagram to the user plane, from port [`wire::pfcp::PFCP_PORT`], to which its own requests come, to the same.
    Send(Vec<u8>),
    /// Something happened.
    Event(Event),
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Datagrams sent, those sent again included.
    pub sent: u64,
    /// Requests sent again.
    pub retransmitted: u64,
    /// Datagrams handed in.
    pub received: u64,
    /// Of these, messages that cannot be taken.
    pub malformed: u64,
    /// Of these, answers to no request that is on its way: late, twice, or made up.
    pub unmatched: u64,
    /// Of these, requests that came again and were answered as before.
    pub repeated: u64,
    /// Heartbeats that were not answered.
    pub heartbeats_unanswered: u64,
}

/// The control plane's end of N4.
#[derive(Debug)]
pub struct ControlPlane {
    config: Config,
    state: State,
    sessions: BTreeMap<SessionId, Session>,
    next_seid: u64,
    /// Tasks of sessions that have no other one on its way or in here.
    queue: VecDeque<(SessionId, Task)>,
    requests: Requests,
    answers: Answers,
    /// When the user plane started, as it last said.
    peer_recovery: Option<NtpTime>,
    /// Whether a session was made since the association was: else "no association" is not taken for a restart.
    proven: bool,
    heard: Option<Time>,
    heartbeat_at: Option<Time>,
    outputs: VecDeque<Output>,
    counters: Counters,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Without an association.
    Idle,
    /// The request for one is on its way.
    Associating,
    /// With one.
    Associated,
    /// With one, but nothing comes from the user plane.
    Dead,
    /// Sessions are deleted, and then the association is released.
    Releasing,
}

#[derive(Debug)]
struct Session {
    spec: SessionSpec,
    /// The user plane's identifier, once it said it.
    peer: Option<u64>,
    /// Whether a task is in the queue or on its way.
    busy: bool,
    /// Whether it was there before the user plane restarted.
    restored: bool,
    /// What to do when the task is done.
    next: VecDeque<Task>,
}

impl Config {
    /// A 5G control plane at this address that started then, with defaults that most user planes take: T1 of 1 s,
    /// N1 of 4, a heartbeat every 10 s, a window of 64 requests.
    #[must_use]
    pub fn new(address: IpAddr, recovery: NtpTime) -> Self {
        Self {
            generation: Generation::FiveG,
            node_id: address.into(),
            address,
            recovery,
            encoding: Encoding::default(),
            interface_types: true,
            first_seid: 1,
            window: 64,
            t1: Span::from_secs(1),
            n1: 4,
            heartbeat: Some(Span::from_secs(10)),
            restore: true,
        }
    }
}

impl ControlPlane {
    /// One that has done nothing yet. The first sequence number is drawn.
    #[must_use]
    pub fn new(config: Config, mut random: Random) -> Self {
        Self {
            state: State::Idle,
            sessions: BTreeMap::new(),
            next_seid: config.first_seid,
            queue: VecDeque::new(),
            requests: Requests::new(random.bits() as u32, config.t1),
            answers: Answers::default(),
            peer_recovery: None,
            proven: false,
            heard: None,
            heartbeat_at: None,
            outputs: VecDeque::new(),
            counters: Counters::default(),
            config,
        }
    }

    /// Asks for an association. Nothing happens if there is one, or one is being made or released.
    pub fn associate(&mut self, now: Time) {
        if self.state != State::Idle {
            return;
        }
        self.state = State::Associating;
        let request = AssociationSetupRequest {
            node_id: self.config.node_id.clone(),
            recovery: self.config.recovery,
            up_features: None,
            cp_features: Some(CpFeatures::default()),
        };
        self.request(now, None, request.into(), Purpose::Associate);
    }

    /// Wants a session. It is made as soon as there is an association and room in the window.
    pub fn establish(&mut self, now: Time, spec: SessionSpec) -> SessionId {
        let session = SessionId(self.next_seid);
        self.next_seid += 1;
        let state = Session { spec, peer: None, busy: false, restored: false, next: VecDeque::new() };
        self.sessions.insert(session, state);
        self.want(now, session, Task::Establish);
        session
    }

    /// Wants a session changed, after all that was wanted of it before.
    pub fn modify(&mut self, now: Time, session: SessionId, change: Change) {
        self.want(now, session, Task::Modify(change));
    }

    /// Wants a session deleted, after all that was wanted of it before.
    pub fn delete(&mut self, now: Time, session: SessionId) {
        self.want(now, session, Task::Delete);
    }

    /// Ends: deletes all sessions and then releases the association. What was not begun is given up. With a user plane that is
    /// dead or not associated it is over at once.
    pub fn release(&mut self, now: Time) {
        match self.state {
            State::Releasing => return,
            State::Idle | State::Associating | State::Dead => return self.over(false),
            State::Associated => self.state = State::Releasing,
        }
        for (id, task) in core::mem::take(&mut self.queue) {
            match task {
                Task::Establish => self.forget(id),
                Task::Modify(_) | Task::Delete => self.session_is_free(id),
            }
        }
        let ids: Vec<_> = self.sessions.keys().copied().collect();
        for id in ids {
            let Some(session) = self.sessions.get_mut(&id) else { continue };
            session.next.clear();
            if session.busy {
                session.next.push_back(Task::Delete);
            } else {
                session.busy = true;
                self.queue.push_back((id, Task::Delete));
            }
        }
        self.pump(now);
    }

    /// Tells the user plane what we can do (TS 29.244 6.2.7), which also asks whether it still knows us. Nothing happens without an
    /// association.
    pub fn update(&mut self, now: Time) {
        if self.state == State::Associated {
            let request = AssociationUpdateRequest {
                node_id: self.config.node_id.clone(),
                up_features: None,
                cp_features: Some(CpFeatures::default()),
                release: None,
                graceful_period: None,
            };
            self.request(now, None, request.into(), Purpose::Update);
        }
    }

    /// A datagram came from the user plane.
    pub fn handle(&mut self, now: Time, datagram: &[u8]) {
        self.counters.received += 1;
        let read = Message::parse(datagram);
        // What is wrong inside is a sign of life all the same.
        if let Ok(_) | Err(PfcpError::Body { .. }) = read {
            self.heard = Some(now);
        }
        match read {
            Ok(message) if is_request(message.body.message_type()) => self.asked(now, datagram, message),
            Ok(Message { sequence, body, .. }) => self.answered(now, sequence, body),
            Err(error) => self.malformed(error),
        }
        self.pump(now);
    }

    /// Time passed.
    pub fn tick(&mut self, now: Time) {
        let n1 = self.config.n1;
        let dead = self.state == State::Dead;
        // A dead peer's heartbeats are not sent again: the next one comes anyway.
        let most = |purpose: &Purpose| if dead && matches!(purpose, Purpose::Heartbeat) { 1 } else { 1 + n1 };
        while let Some(overdue) = self.requests.overdue(now, most) {
            match overdue {
                Overdue::Again(bytes) => {
                    self.counters.retransmitted += 1;
                    self.send(bytes);
                    // Is it the request, or the user plane?
                    let associated = matches!(self.state, State::Associated | State::Releasing);
                    if associated && self.config.heartbeat.is_some() {
                        self.heartbeat(now);
                    }
                }
                Overdue::GiveUp(pending) => self.unanswered(now, &pending),
            }
        }
        if self.heartbeat_at.is_some_and(|at| at <= now) {
            self.heartbeat_at = self.config.heartbeat.map(|every| now + every);
            self.heartbeat(now);
        }
        self.pump(now);
    }

    /// When [`ControlPlane::tick`] is to be called next.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        [self.requests.deadline(), self.heartbeat_at].into_iter().flatten().min()
    }

    /// What comes out next.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// What was counted so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// How many sessions there are, those on their way included.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// How many sessions' tasks wait for the window or for the association.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Whether waiting is of no use: nothing is on its way, and what waits (if anything does) cannot go, since there is no
    /// association or the user plane is dead.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        match self.state {
            State::Associating => false,
            State::Idle | State::Dead => true,
            State::Associated | State::Releasing => self.queue.is_empty() && self.requests.sessions() == 0,
        }
    }

    fn event(&mut self, event: Event) {
        self.outputs.push_back(Output::Event(event));
    }

    fn send(&mut self, bytes: Vec<u8>) {
        self.counters.sent += 1;
        self.outputs.push_back(Output::Send(bytes));
    }

    /// Sends a request, or says that it cannot be written.
    fn request(&mut self, now: Time, seid: Option<u64>, body: Body, purpose: Purpose) {
        let sequence = self.requests.sequence();
        let mut bytes = Vec::new();
        if (Message { seid, sequence, body }).write(&mut bytes, self.config.encoding).is_err() {
            return match purpose {
                Purpose::Session(id, task) => self.failed(now, id, task, Failure::TooLong),
                // These are short.
                Purpose::Heartbeat | Purpose::Associate | Purpose::Update | Purpose::Release => {}
            };
        }
        self.requests.sent(now, sequence, purpose, bytes.clone());
        self.send(bytes);
    }

    /// Asks the user plane whether it lives, unless it is being asked.
    fn heartbeat(&mut self, now: Time) {
        if !self.requests.any(|purpose| matches!(purpose, Purpose::Heartbeat)) {
            let request = HeartbeatRequest { recovery: self.config.recovery };
            self.request(now, None, request.into(), Purpose::Heartbeat);
        }
    }

    /// Answers a request; `None` if the answer cannot be written, which an answer never is too long for.
    fn answer(&mut self, seid: Option<u64>, sequence: u32, body: Body) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        Message { seid, sequence, body }.write(&mut bytes, self.config.encoding).ok()?;
        self.send(bytes.clone());
        Some(bytes)
    }

    /// Puts a task of a session where its turn will come.
    fn want(&mut self, now: Time, id: SessionId, task: Task) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return self.tell_failure(id, &task, Failure::NoSession);
        };
        if session.busy {
            session.next.push_back(task);
        } else {
            session.busy = true;
            self.queue.push_back((id, task));
        }
        self.pump(now);
    }

    /// A session's task is done: the next one's turn.
    fn session_is_free(&mut self, id: SessionId) {
        if let Some(session) = self.sessions.get_mut(&id) {
            match session.next.pop_front() {
                Some(task) => self.queue.push_back((id, task)),
                None => session.busy = false,
            }
        }
    }

    /// Sends what the window lets through.
    fn pump(&mut self, now: Time) {
        while matches!(self.state, State::Associated | State::Releasing)
            && self.requests.sessions() < self.config.window.max(1)
            && let Some((id, task)) = self.queue.pop_front()
        {
            self.begin(now, id, task);
        }
        let releasing = |purpose: &Purpose| matches!(purpose, Purpose::Release);
        if self.state == State::Releasing && self.sessions.is_empty() && !self.requests.any(releasing) {
            self.heartbeat_at = None;
            let request = AssociationReleaseRequest { node_id: self.config.node_id.clone() };
            self.request(now, None, request.into(), Purpose::Release);
        }
    }

    fn begin(&mut self, now: Time, id: SessionId, task: Task) {
        let Some(session) = self.sessions.get(&id) else { return };
        let (seid, body) = match (&task, session.peer) {
            (Task::Establish, _) => {
                let fseid = FSeid { seid: id.0, addresses: self.config.address.into() };
                let request = session.spec.establishment(&self.config, self.config.node_id.clone(), fseid);
                (0, request.into())
            }
            (Task::Modify(change), Some(peer)) => (peer, session.spec.modification(&self.config, change).into()),
            (Task::Delete, Some(peer)) => (peer, SessionDeletionRequest {}.into()),
            (Task::Delete, None) => return self.forget(id),
            (Task::Modify(_), None) => return self.failed(now, id, task, Failure::NoSession),
        };
        self.request(now, Some(seid), body, Purpose::Session(id, task));
    }

    /// A session is gone, and what was wanted of it.
    fn forget(&mut self, id: SessionId) {
        if self.sessions.remove(&id).is_some() {
            self.event(Event::Deleted { session: id });
        }
    }
}
