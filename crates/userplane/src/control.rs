//! The control plane's end of N4 (or of Sxa and Sxb in 4G): what an SMF, or the control parts of the serving and packet gateway,
//! say to a user plane (TS 29.244).
//!
//! It associates, makes, changes and deletes sessions, keeps the path alive by heartbeats, and answers what the user plane
//! asks. Sessions' requests go through a window: so many at a time are on their way, and the rest wait. A request that is not
//! answered within T1 is sent again, the same to the byte, up to N1 times (TS 29.244 6.4). A user plane that answers nothing at
//! all meanwhile is dead: everything then waits until it answers a heartbeat. One that restarted, which its recovery time stamp
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
    AssociationReleaseRequest, AssociationReleaseResponse, AssociationSetupRequest, AssociationSetupResponse,
    AssociationUpdateRequest, AssociationUpdateResponse, Body, HeartbeatRequest, HeartbeatResponse, NodeReportRequest,
    NodeReportResponse, SessionDeletionRequest, SessionDeletionResponse, SessionEstablishmentResponse,
    SessionModificationResponse, SessionReportRequest, SessionReportResponse, SessionSetDeletionResponse,
    VersionNotSupportedResponse,
};
use wire::pfcp::rules::UsageReport;
use wire::pfcp::value::{CpFeatures, FSeid, FTeid, FailedRule, NodeId, NtpTime, OffendingIe, ReportType, UpFeatures};
use wire::pfcp::{Cause, Encoding, Fault, Message, PfcpError};

mod event;
mod exchange;
mod session;

pub use event::{Event, Failure, Procedure, Refusal, SessionId, Tunnel};
use exchange::{Answers, Overdue, Pending, Purpose, Requests, Task};
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
    /// A datagram to the user plane, to port [`wire::pfcp::PFCP_PORT`].
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
    /// Heartbeats that were not answered although something else came.
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

    /// A datagram came from the user plane.
    pub fn handle(&mut self, now: Time, datagram: &[u8]) {
        self.counters.received += 1;
        match Message::parse(datagram) {
            Ok(message) => {
                self.alive(now);
                self.message(now, datagram, message);
            }
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
                }
                Overdue::GiveUp(pending) => self.unanswered(now, pending),
            }
        }
        if self.heartbeat_at.is_some_and(|at| at <= now) {
            self.heartbeat_at = self.config.heartbeat.map(|every| now + every);
            if !self.requests.any(|purpose| matches!(purpose, Purpose::Heartbeat)) {
                let request = HeartbeatRequest { recovery: self.config.recovery };
                self.request(now, None, request.into(), Purpose::Heartbeat);
            }
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

    /// Whether nothing is on its way and nothing waits.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.requests.sessions() == 0 && self.state != State::Associating
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
                Purpose::Session(id, task) => self.failed(now, id, &task, Failure::TooLong),
                Purpose::Heartbeat | Purpose::Associate | Purpose::Release => {}
            };
        }
        self.requests.sent(now, sequence, purpose, bytes.clone());
        self.send(bytes);
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
            (Task::Modify(_), None) => return self.failed(now, id, &task, Failure::NoSession),
        };
        self.request(now, Some(seid), body, Purpose::Session(id, task));
    }

    /// A session is gone, and what was wanted of it.
    fn forget(&mut self, id: SessionId) {
        if self.sessions.remove(&id).is_some() {
            self.event(Event::Deleted { session: id });
        }
    }

    fn tell_failure(&mut self, session: SessionId, task: &Task, failure: Failure) {
        let procedure = match task {
            Task::Establish => Procedure::Establishment,
            Task::Modify(_) => Procedure::Modification,
            Task::Delete => Procedure::Deletion,
        };
        self.event(Event::Failed { session, procedure, failure });
    }

    /// A task of a session came to nothing.
    fn failed(&mut self, now: Time, id: SessionId, task: &Task, failure: Failure) {
        self.tell_failure(id, task, failure);
        match task {
            Task::Modify(_) => self.session_is_free(id),
            Task::Establish | Task::Delete => {
                self.sessions.remove(&id);
            }
        }
        // The user plane forgot us without a heartbeat that would have told.
        let forgotten = matches!(failure, Failure::Refused(Refusal { cause: Cause::NoAssociation, .. }));
        if forgotten && self.proven && self.state == State::Associated {
            self.peer_restarted(now);
        }
    }

    /// A request was sent as often as it may be.
    fn unanswered(&mut self, now: Time, pending: Pending) {
        let Pending { purpose, first_sent, requests, .. } = pending;
        let silent = self.heard.is_none_or(|heard| heard < first_sent);
        match purpose {
            Purpose::Associate => {
                self.state = State::Idle;
                self.event(Event::AssociationFailed(Failure::Unanswered { requests }));
            }
            Purpose::Release => self.over(false),
            Purpose::Heartbeat if !silent => self.counters.heartbeats_unanswered += 1,
            Purpose::Session(id, task) if !silent => self.failed(now, id, &task, Failure::Unanswered { requests }),
            purpose => self.dead(now, purpose, requests),
        }
    }

    /// The user plane answers nothing: what is on its way is given up, what waits goes on waiting.
    fn dead(&mut self, now: Time, first: Purpose, requests: u32) {
        if self.state == State::Dead {
            return;
        }
        let releasing = self.state == State::Releasing;
        self.state = State::Dead;
        let others = self.requests.take_all().map(|pending| pending.purpose);
        let all: Vec<_> = core::iter::once(first).chain(others).collect();
        self.event(Event::PeerDead { unanswered: all.len() });
        for purpose in all {
            if let Purpose::Session(id, task) = purpose {
                self.failed(now, id, &task, Failure::Unanswered { requests });
            }
        }
        if releasing {
            self.over(false);
        }
    }

    /// The association is over; nothing is asked of the user plane any more.
    fn over(&mut self, agreed: bool) {
        self.state = State::Idle;
        self.sessions.clear();
        self.queue.clear();
        for _ in self.requests.take_all() {}
        self.heartbeat_at = None;
        self.peer_recovery = None;
        self.event(Event::Released { agreed });
    }

    /// Something came from the user plane.
    fn alive(&mut self, now: Time) {
        self.heard = Some(now);
    }

    fn malformed(&mut self, error: PfcpError) {
        self.counters.malformed += 1;
        match error {
            // Nothing is answered to an answer.
            PfcpError::Version { message_type, sequence, .. } if is_request(message_type) => {
                self.answer(None, sequence, VersionNotSupportedResponse {}.into());
            }
            PfcpError::Body { message_type, seid, sequence, fault } if is_request(message_type) => {
                self.refuse(message_type, seid, sequence, fault);
            }
            _ => {}
        }
        self.event(Event::Malformed(error));
    }

    /// Answers a request that lacks something.
    fn refuse(&mut self, message_type: u8, seid: Option<u64>, sequence: u32, fault: Fault) {
        let Fault { cause, offending } = fault;
        let (node_id, offending) = (Some(self.config.node_id.clone()), Some(OffendingIe(offending)));
        let body: Body = match message_type {
            5 => {
                let recovery = Some(self.config.recovery);
                let (up_features, cp_features) = (None, None);
                AssociationSetupResponse { node_id, cause, recovery, up_features, cp_features, offending }.into()
            }
            7 => AssociationUpdateResponse { node_id, cause, up_features: None, cp_features: None }.into(),
            9 => AssociationReleaseResponse { node_id, cause }.into(),
            12 => NodeReportResponse { node_id, cause, offending }.into(),
            14 => SessionSetDeletionResponse { node_id, cause, offending }.into(),
            56 => SessionReportResponse { cause, offending, flags: None }.into(),
            _ => return,
        };
        let session = seid.and_then(|seid| self.sessions.get(&SessionId(seid)));
        let peer = session.and_then(|session| session.peer).unwrap_or(0);
        self.answer(seid.map(|_| peer), sequence, body);
    }

    fn message(&mut self, now: Time, datagram: &[u8], message: Message) {
        let Message { seid, sequence, body } = message;
        if is_request(body.message_type()) {
            return self.asked(now, datagram, seid, sequence, body);
        }
        let fits = match (self.requests.find(sequence), &body) {
            (Some(Purpose::Heartbeat), Body::HeartbeatResponse(_))
            | (Some(Purpose::Associate), Body::AssociationSetupResponse(_))
            | (Some(Purpose::Release), Body::AssociationReleaseResponse(_))
            | (Some(Purpose::Session(_, Task::Establish)), Body::SessionEstablishmentResponse(_))
            | (Some(Purpose::Session(_, Task::Modify(_))), Body::SessionModificationResponse(_))
            | (Some(Purpose::Session(_, Task::Delete)), Body::SessionDeletionResponse(_))
            | (Some(_), Body::VersionNotSupportedResponse(_)) => true,
            (Some(_) | None, _) => false,
        };
        let Some(pending) = fits.then(|| self.requests.take(sequence)).flatten() else {
            self.counters.unmatched += 1;
            return;
        };
        let took = now.since(pending.first_sent);
        match (pending.purpose, body) {
            (_, Body::HeartbeatResponse(answer)) => self.recovery(now, answer.recovery),
            (_, Body::AssociationSetupResponse(answer)) => self.associated(now, answer),
            (_, Body::AssociationReleaseResponse(answer)) => self.over(answer.cause.is_success()),
            (Purpose::Session(id, _), Body::SessionEstablishmentResponse(answer)) => {
                self.established(now, id, took, answer);
            }
            (Purpose::Session(id, task), Body::SessionModificationResponse(answer)) => {
                self.modified(now, id, &task, answer);
            }
            (Purpose::Session(id, _), Body::SessionDeletionResponse(answer)) => self.deleted(now, id, answer),
            (Purpose::Session(id, task), _) => self.failed(now, id, &task, Failure::Version),
            (Purpose::Associate, _) => {
                self.state = State::Idle;
                self.event(Event::AssociationFailed(Failure::Version));
            }
            (Purpose::Release, _) => self.over(false),
            (Purpose::Heartbeat, _) => {}
        }
    }

    fn associated(&mut self, now: Time, answer: AssociationSetupResponse) {
        let AssociationSetupResponse { node_id, cause, recovery, up_features, offending, .. } = answer;
        if !cause.is_success() {
            self.state = State::Idle;
            let failure = refusal(cause, offending, None);
            return self.event(Event::AssociationFailed(failure));
        }
        self.begin_association(now, node_id, up_features);
        if let Some(recovery) = recovery {
            self.peer_recovery = Some(recovery);
        }
    }

    fn begin_association(&mut self, now: Time, node_id: Option<NodeId>, features: Option<UpFeatures>) {
        self.state = State::Associated;
        self.proven = false;
        self.heartbeat_at = self.config.heartbeat.map(|every| now + every);
        self.event(Event::Associated { node_id, features: features.unwrap_or_default() });
    }

    fn established(&mut self, now: Time, id: SessionId, took: Span, answer: SessionEstablishmentResponse) {
        let SessionEstablishmentResponse { cause, offending, up_fseid, created_pdr, failed_rule, .. } = answer;
        if !cause.is_success() {
            return self.failed(now, id, &Task::Establish, refusal(cause, offending, failed_rule));
        }
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let Some(endpoint) = up_fseid else {
            return self.failed(now, id, &Task::Establish, Failure::NoEndpoint);
        };
        session.peer = Some(endpoint.seid);
        let chosen = created_pdr.iter().find(|created| created.id == session::uplink_rule()).and_then(|it| it.teid);
        let tunnel = match chosen.unwrap_or(session.spec.uplink) {
            FTeid::Fixed { teid, addresses } => Tunnel { teid, addresses },
            FTeid::Choose { .. } => {
                self.tell_failure(id, &Task::Establish, Failure::NoTunnel);
                session_deletes_itself(&mut self.sessions, id);
                return self.session_is_free(id);
            }
        };
        let restored = session.restored;
        self.proven = true;
        self.event(Event::Established { session: id, uplink: tunnel, took, restored });
        self.session_is_free(id);
    }

    fn modified(&mut self, now: Time, id: SessionId, task: &Task, answer: SessionModificationResponse) {
        let SessionModificationResponse { cause, offending, usage, failed_rule, .. } = answer;
        self.usage(id, usage);
        if !cause.is_success() {
            return self.failed(now, id, task, refusal(cause, offending, failed_rule));
        }
        if let (Some(session), Task::Modify(change)) = (self.sessions.get_mut(&id), task) {
            session.spec.apply(change);
            self.event(Event::Modified { session: id });
        }
        self.session_is_free(id);
    }

    fn deleted(&mut self, now: Time, id: SessionId, answer: SessionDeletionResponse) {
        let SessionDeletionResponse { cause, offending, usage } = answer;
        self.usage(id, usage);
        if cause.is_success() {
            self.forget(id);
        } else {
            self.failed(now, id, &Task::Delete, refusal(cause, offending, None));
        }
    }

    fn usage(&mut self, session: SessionId, reports: Vec<UsageReport>) {
        for report in reports {
            self.event(Event::Usage { session, report });
        }
    }

    /// The user plane said when it started.
    fn recovery(&mut self, now: Time, recovery: NtpTime) {
        let known = self.peer_recovery.replace(recovery);
        if known.is_some_and(|known| known != recovery) {
            return self.peer_restarted(now);
        }
        if self.state == State::Dead {
            self.state = State::Associated;
            self.event(Event::PeerBack);
        }
    }

    /// All sessions are lost. They are made again after a new association, or forgotten.
    fn peer_restarted(&mut self, now: Time) {
        let releasing = self.state == State::Releasing;
        self.lose_sessions();
        let lost = self.sessions.len();
        self.event(Event::PeerRestarted { lost });
        if releasing {
            return self.over(true);
        }
        if !self.config.restore {
            self.sessions.clear();
        }
        self.queue = self.sessions.keys().map(|id| (*id, Task::Establish)).collect();
        self.state = State::Idle;
        self.heartbeat_at = None;
        if self.config.restore {
            self.associate(now);
        }
    }

    /// The user plane no longer knows any session: what was on its way or waited is done with. Changes that were wanted
    /// will be in what is made again, and what was to be deleted is.
    fn lose_sessions(&mut self) {
        self.answers.forget();
        let under_way = self.requests.take_all().filter_map(|pending| match pending.purpose {
            Purpose::Session(id, task) => Some((id, task)),
            Purpose::Heartbeat | Purpose::Associate | Purpose::Release => None,
        });
        let waiting = core::mem::take(&mut self.queue);
        let tasks: BTreeMap<_, _> = under_way.chain(waiting).collect();
        let ids: Vec<_> = self.sessions.keys().copied().collect();
        for id in ids {
            let Some(session) = self.sessions.get_mut(&id) else { continue };
            session.restored |= session.peer.take().is_some();
            session.busy = true;
            let next = core::mem::take(&mut session.next);
            let mut deleted = false;
            for task in tasks.get(&id).cloned().into_iter().chain(next) {
                match task {
                    Task::Establish => {}
                    Task::Modify(change) => session.spec.apply(&change),
                    Task::Delete => deleted = true,
                }
            }
            if deleted {
                self.forget(id);
            }
        }
    }

    /// The user plane asks.
    fn asked(&mut self, now: Time, datagram: &[u8], seid: Option<u64>, sequence: u32, body: Body) {
        if let Some(answer) = self.answers.again(datagram) {
            let answer = answer.into();
            self.counters.repeated += 1;
            return self.send(answer);
        }
        let node_id = Some(self.config.node_id.clone());
        let answer = match body {
            Body::HeartbeatRequest(asked) => {
                let answer = HeartbeatResponse { recovery: self.config.recovery };
                self.answer(None, sequence, answer.into());
                if matches!(self.state, State::Associated | State::Dead | State::Releasing) {
                    self.recovery(now, asked.recovery);
                }
                return;
            }
            Body::AssociationSetupRequest(asked) => {
                let answer = AssociationSetupResponse {
                    node_id,
                    cause: Cause::Accepted,
                    recovery: Some(self.config.recovery),
                    up_features: None,
                    cp_features: Some(CpFeatures::default()),
                    offending: None,
                };
                self.answer(None, sequence, answer.into());
                return self.associated_by_peer(now, asked);
            }
            Body::AssociationUpdateRequest(asked) => {
                self.updated(&asked);
                let cause = Cause::Accepted;
                let answer = AssociationUpdateResponse { node_id, cause, up_features: None, cp_features: None };
                self.answer(None, sequence, answer.into())
            }
            Body::AssociationReleaseRequest(_) => {
                let answer = AssociationReleaseResponse { node_id, cause: Cause::Accepted };
                self.answer(None, sequence, answer.into());
                return self.released_by_peer();
            }
            Body::NodeReportRequest(asked) => {
                self.node_report(asked);
                let answer = NodeReportResponse { node_id, cause: Cause::Accepted, offending: None };
                self.answer(None, sequence, answer.into())
            }
            Body::SessionReportRequest(asked) => {
                let id = SessionId(seid.unwrap_or(0));
                let peer = self.sessions.get(&id).and_then(|session| session.peer);
                let cause = if peer.is_some() { Cause::Accepted } else { Cause::SessionNotFound };
                let answer = SessionReportResponse { cause, offending: None, flags: None };
                let answer = self.answer(Some(peer.unwrap_or(0)), sequence, answer.into());
                if peer.is_some() {
                    self.report(id, asked);
                }
                answer
            }
            // What a control plane asks of a user plane is not for us: sets of sessions are not kept.
            Body::SessionSetDeletionRequest(_) => {
                let answer = SessionSetDeletionResponse { node_id, cause: Cause::NotSupported, offending: None };
                self.answer(None, sequence, answer.into())
            }
            _ => None,
        };
        if let Some(answer) = answer {
            self.answers.keep(datagram, &answer);
        }
    }

    /// The user plane wanted the association, or wants it again.
    fn associated_by_peer(&mut self, now: Time, asked: AssociationSetupRequest) {
        let known = self.peer_recovery.replace(asked.recovery);
        match self.state {
            State::Releasing => {}
            State::Idle | State::Associating => {
                // Our own request need not be answered any more.
                for _ in self.requests.take_all() {}
                self.begin_association(now, Some(asked.node_id), asked.up_features);
            }
            State::Associated | State::Dead => {
                // An association that is set up anew is one without sessions (TS 29.244 6.2.6.2).
                let lost = self.sessions.values().filter(|session| session.peer.is_some()).count();
                if lost > 0 || known.is_some_and(|known| known != asked.recovery) {
                    self.lose_sessions();
                    let lost = self.sessions.len();
                    self.event(Event::PeerRestarted { lost });
                    if !self.config.restore {
                        self.sessions.clear();
                    }
                    self.queue = self.sessions.keys().map(|id| (*id, Task::Establish)).collect();
                }
                self.begin_association(now, Some(asked.node_id), asked.up_features);
            }
        }
    }

    fn updated(&mut self, asked: &AssociationUpdateRequest) {
        if asked.release.is_some() {
            let grace = asked.graceful_period.and_then(wire::pfcp::value::Timer::seconds);
            self.event(Event::ReleaseWanted { grace });
        }
    }

    fn released_by_peer(&mut self) {
        let lost = self.sessions.values().filter(|session| session.peer.is_some()).count();
        if self.state == State::Releasing {
            return self.over(true);
        }
        self.state = State::Idle;
        self.sessions.clear();
        self.queue.clear();
        for _ in self.requests.take_all() {}
        self.heartbeat_at = None;
        self.peer_recovery = None;
        self.event(Event::ReleasedByPeer { lost });
    }

    fn node_report(&mut self, asked: NodeReportRequest) {
        let reported = asked.path_failure.map(|report| report.peers).unwrap_or_default();
        let both = |peer: wire::pfcp::value::RemotePeer| {
            [peer.0.v4().map(IpAddr::V4), peer.0.v6().map(IpAddr::V6)].into_iter().flatten()
        };
        let peers: Vec<_> = reported.into_iter().flat_map(both).collect();
        if !peers.is_empty() {
            self.event(Event::PathFailed { peers });
        }
    }

    fn report(&mut self, session: SessionId, asked: SessionReportRequest) {
        if asked.report_type.contains(ReportType::DLDR) {
            self.event(Event::DownlinkData { session });
        }
        self.usage(session, asked.usage);
        if let Some(report) = asked.error_indication {
            self.event(Event::ErrorIndication { session, remote: report.remote });
        }
        if asked.report_type.contains(ReportType::UPIR) {
            self.event(Event::Inactive { session });
        }
    }
}

/// A session that was made wrongly is deleted before anything else.
fn session_deletes_itself(sessions: &mut BTreeMap<SessionId, Session>, id: SessionId) {
    if let Some(session) = sessions.get_mut(&id) {
        session.next.clear();
        session.next.push_back(Task::Delete);
    }
}

fn refusal(cause: Cause, offending: Option<OffendingIe>, rule: Option<FailedRule>) -> Failure {
    Failure::Refused(Refusal { cause, offending: offending.map(|OffendingIe(element)| element), rule })
}

/// Whether messages of this type want an answer (TS 29.244 table 7.3-1): odd ones below 11, even ones above.
fn is_request(message_type: u8) -> bool {
    matches!(message_type, 1 | 3 | 5 | 7 | 9 | 12 | 14 | 16 | 50 | 52 | 54 | 56)
}
