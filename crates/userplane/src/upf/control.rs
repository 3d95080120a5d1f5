//! The PFCP server: associations, and which request is done how (TS 29.244 6.2, 6.3).

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use engine::{Span, Time};
use wire::pfcp::message::{
    AssociationReleaseResponse, AssociationSetupRequest, AssociationSetupResponse, AssociationUpdateResponse, Body,
    HeartbeatRequest, HeartbeatResponse, NodeReportResponse, SessionDeletionResponse, SessionEstablishmentResponse,
    SessionModificationResponse, SessionReportResponse, SessionSetDeletionResponse, VersionNotSupportedResponse,
    type_name,
};
use wire::pfcp::value::{NodeId, NtpTime, OffendingIe, ReportResponseFlags, UpFeatures};
use wire::pfcp::{Cause, Fault, MAX_SEQUENCE, Message, PFCP_PORT, PfcpError, elements};

use super::session::Refused;
use super::{News, Output, Reason, Upf};

/// Answers that are kept for requests that come again, at most, and for how long: longer than a peer repeats one with the
/// usual T1 and N1.
const ANSWERS: usize = 65_536;
const ANSWER_AGE: Span = Span::from_secs(20);

/// State of the server.
#[derive(Debug)]
pub(super) struct Control {
    associations: Vec<Option<Association>>,
    answers: BTreeMap<RequestId, Vec<u8>>,
    /// When they were given, in order.
    answered: VecDeque<(Time, RequestId)>,
    /// Requests of our own that wait for an answer.
    pending: BTreeMap<u32, Pending>,
    sequence: u32,
}

/// By what a request that comes again is known: where from, its number and its type.
type RequestId = (SocketAddr, u32, u8);

#[derive(Debug)]
struct Association {
    node: NodeId,
    recovery: NtpTime,
    /// Where its heartbeats go.
    address: SocketAddr,
    heartbeat: Option<Time>,
}

#[derive(Debug)]
struct Pending {
    to: SocketAddr,
    bytes: Vec<u8>,
    sent: u32,
    again: Time,
    about: About,
}

/// What a request of our own is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum About {
    /// A session, by its identifier here.
    Session(u64),
    /// An association, by its number.
    Heartbeat(usize),
}

impl Control {
    pub(super) fn new(sequence: u32) -> Self {
        Self {
            associations: Vec::new(),
            answers: BTreeMap::new(),
            answered: VecDeque::new(),
            pending: BTreeMap::new(),
            sequence: sequence & MAX_SEQUENCE,
        }
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        // Few requests are out at once; associations are fewer.
        let pending = self.pending.values().map(|pending| pending.again);
        let heartbeats = self.associations.iter().flatten().filter_map(|association| association.heartbeat);
        pending.chain(heartbeats).min()
    }

    /// The association of a node, if there is one.
    pub(super) fn find(&self, node: &NodeId) -> Option<usize> {
        self.associations.iter().position(|other| other.as_ref().is_some_and(|other| other.node == *node))
    }

    fn keep_answer(&mut self, now: Time, id: RequestId, bytes: Vec<u8>) {
        while let Some((at, old)) = self.answered.front()
            && (self.answered.len() >= ANSWERS || *at + ANSWER_AGE <= now)
        {
            self.answers.remove(old);
            self.answered.pop_front();
        }
        if self.answers.insert(id, bytes).is_none() {
            self.answered.push_back((now, id));
        }
    }
}

impl Upf {
    /// Takes a PFCP message: the payload of a UDP datagram that came in on N4. What it answers comes from
    /// [`Upf::poll`].
    pub fn message(&mut self, now: Time, from: SocketAddr, datagram: &[u8]) {
        self.now = now;
        match Message::parse(datagram) {
            Ok(message) if is_request(message.body.message_type()) => {
                let id = (from, message.sequence, message.body.message_type());
                if !self.answer_again(id) {
                    let sequence = message.sequence;
                    let (seid, body) = self.request(now, from, message);
                    self.answer(now, id, &Message { seid, sequence, body });
                }
            }
            Ok(message) => self.response(now, from, &message),
            Err(PfcpError::Version { sequence, .. }) => {
                self.counters.garbage += 1;
                // TS 29.244 7.6.2.
                let body = VersionNotSupportedResponse {}.into();
                self.send(from, &Message { seid: None, sequence, body });
            }
            Err(PfcpError::Body { message_type, seid, sequence, fault }) if is_request(message_type) => {
                let id = (from, sequence, message_type);
                if !self.answer_again(id) {
                    let Fault { cause, offending } = fault;
                    let refused = Refused { cause, offending: Some(offending), rule: None };
                    self.note_refused(from, message_type, refused);
                    let body = self.refusal(message_type, refused);
                    let seid = seid.map(|seid| self.peer_seid(seid));
                    self.answer(now, id, &Message { seid, sequence, body });
                }
            }
            Err(_) => self.counters.garbage += 1,
        }
    }

    /// Gives a request that comes again the answer it was given before.
    fn answer_again(&mut self, id: RequestId) -> bool {
        self.counters.requests += 1;
        let Some(bytes) = self.control.answers.get(&id) else { return false };
        self.counters.repeated += 1;
        self.outputs.push_back(Output::Message { to: id.0, bytes: bytes.clone() });
        true
    }

    fn answer(&mut self, now: Time, id: RequestId, message: &Message) {
        let mut bytes = Vec::new();
        // An answer is far shorter than a message may be: it names rules of one request.
        if message.write(&mut bytes, self.config.encoding).is_ok() {
            self.control.keep_answer(now, id, bytes.clone());
            self.outputs.push_back(Output::Message { to: id.0, bytes });
        }
    }

    fn send(&mut self, to: SocketAddr, message: &Message) {
        let mut bytes = Vec::new();
        if message.write(&mut bytes, self.config.encoding).is_ok() {
            self.outputs.push_back(Output::Message { to, bytes });
        }
    }

    /// Sends a request of our own, and again until it is answered.
    pub(super) fn ask(&mut self, now: Time, to: SocketAddr, seid: Option<u64>, body: Body, about: About) {
        let control = &mut self.control;
        control.sequence = (control.sequence + 1) & MAX_SEQUENCE;
        let sequence = control.sequence;
        let mut bytes = Vec::new();
        if (Message { seid, sequence, body }).write(&mut bytes, self.config.encoding).is_err() {
            return;
        }
        let again = now + self.config.retransmission.0;
        control.pending.insert(sequence, Pending { to, bytes: bytes.clone(), sent: 1, again, about });
        self.outputs.push_back(Output::Message { to, bytes });
    }

    /// Whether one more report may wait for its answer.
    pub(super) fn may_report(&self) -> bool {
        self.control.pending.len() < self.config.limits.reports
    }

    /// Does what a request asks; gives the answer and the receiver's SEID for it.
    fn request(&mut self, now: Time, from: SocketAddr, message: Message) -> (Option<u64>, Body) {
        let message_type = message.body.message_type();
        // Read before: a deletion takes the session away.
        let mut seid = message.seid.map(|seid| self.peer_seid(seid));
        let outcome = match message.body {
            Body::HeartbeatRequest(_) => Ok(HeartbeatResponse { recovery: self.config.started }.into()),
            Body::AssociationSetupRequest(request) => Ok(self.associate(now, from, &request).into()),
            Body::AssociationUpdateRequest(request) => self.associated(&request.node_id).map(|_| {
                let (node_id, up_features) = (Some(self.config.node.clone()), Some(FEATURES));
                AssociationUpdateResponse { node_id, cause: Cause::Accepted, up_features, cp_features: None }.into()
            }),
            Body::AssociationReleaseRequest(request) => self.associated(&request.node_id).map(|association| {
                let ended = self.end_association(association);
                self.outputs.push_back(Output::News(News::Released { node: request.node_id, ended }));
                let node_id = Some(self.config.node.clone());
                AssociationReleaseResponse { node_id, cause: Cause::Accepted }.into()
            }),
            Body::SessionEstablishmentRequest(request) => {
                // The request has none yet, but says which it wants.
                seid = Some(request.cp_fseid.seid);
                self.establish(now, request).map(Body::from)
            }
            Body::SessionModificationRequest(request) => self.modify(now, message.seid, &request).map(Body::from),
            Body::SessionDeletionRequest(_) => self.delete(now, message.seid).map(Body::from),
            // What a control plane does not ask of a user plane.
            _ => Err(Refused { cause: Cause::NotSupported, offending: None, rule: None }),
        };
        let body = outcome.unwrap_or_else(|refused| {
            self.note_refused(from, message_type, refused);
            self.refusal(message_type, refused)
        });
        (seid, body)
    }

    fn note_refused(&mut self, from: SocketAddr, message_type: u8, refused: Refused) {
        self.counters.refused += 1;
        let Refused { cause, offending, .. } = refused;
        self.outputs.push_back(Output::News(News::Refused {
            from,
            request: type_name(message_type),
            cause,
            offending,
        }));
    }

    /// The control plane's identifier of a session of ours; 0 if there is none (TS 29.244 7.2.2.4.2).
    fn peer_seid(&mut self, seid: u64) -> u64 {
        let slot = self.sessions.by_seid(seid);
        slot.and_then(|slot| self.sessions.get(slot)).map_or(0, |session| session.state.peer.0)
    }

    /// The answer that says why a request of this type is not done.
    fn refusal(&self, message_type: u8, refused: Refused) -> Body {
        let Refused { cause, offending, rule: failed_rule } = refused;
        let offending = offending.filter(|offending| *offending != 0).map(OffendingIe);
        let node_id = Some(self.config.node.clone());
        match message_type {
            5 => AssociationSetupResponse {
                node_id,
                cause,
                recovery: Some(self.config.started),
                up_features: None,
                cp_features: None,
                offending,
            }
            .into(),
            7 => AssociationUpdateResponse { node_id, cause, up_features: None, cp_features: None }.into(),
            9 => AssociationReleaseResponse { node_id, cause }.into(),
            12 => NodeReportResponse { node_id, cause, offending }.into(),
            14 => SessionSetDeletionResponse { node_id, cause, offending }.into(),
            50 => SessionEstablishmentResponse {
                node_id,
                cause,
                offending,
                up_fseid: None,
                created_pdr: Vec::new(),
                failed_rule,
            }
            .into(),
            52 => SessionModificationResponse {
                cause,
                offending,
                created_pdr: Vec::new(),
                usage: Vec::new(),
                failed_rule,
            }
            .into(),
            54 => SessionDeletionResponse { cause, offending, usage: Vec::new() }.into(),
            56 => SessionReportResponse { cause, offending, flags: None }.into(),
            // A heartbeat is answered however it reads.
            _ => HeartbeatResponse { recovery: self.config.started }.into(),
        }
    }

    /// The association of a node.
    pub(super) fn associated(&self, node: &NodeId) -> Result<usize, Refused> {
        self.control.find(node).ok_or(Refused::new(Cause::NoAssociation, elements::NODE_ID))
    }

    /// TS 29.244 6.2.6.2: one that is there already is set up anew, and its sessions end.
    fn associate(
        &mut self,
        now: Time,
        from: SocketAddr,
        request: &AssociationSetupRequest,
    ) -> AssociationSetupResponse {
        let node = request.node_id.clone();
        let ended = self.control.find(&node).map_or(0, |old| self.end_association(old));
        let heartbeat = self.config.heartbeat.map(|period| now + period);
        // TS 29.244 6.4: requests go to the well-known port, whichever port the peer's came from.
        let address = SocketAddr::new(from.ip(), PFCP_PORT);
        let association = Association { node: node.clone(), recovery: request.recovery, address, heartbeat };
        let associations = &mut self.control.associations;
        match associations.iter_mut().find(|place| place.is_none()) {
            Some(place) => *place = Some(association),
            None => associations.push(Some(association)),
        }
        self.outputs.push_back(Output::News(News::Associated { node, ended }));
        AssociationSetupResponse {
            node_id: Some(self.config.node.clone()),
            cause: Cause::Accepted,
            recovery: Some(self.config.started),
            up_features: Some(FEATURES),
            cp_features: None,
            offending: None,
        }
    }

    /// Ends an association and its sessions; gives how many those were.
    fn end_association(&mut self, number: usize) -> usize {
        let sessions = self.sessions.of_association(number);
        for slot in &sessions {
            self.end_session(*slot);
        }
        self.control.associations[number] = None;
        self.control.pending.retain(|_, pending| pending.about != About::Heartbeat(number));
        sessions.len()
    }

    /// Takes a session out, with what is buffered for it.
    pub(super) fn end_session(&mut self, slot: u32) {
        let Some(session) = self.sessions.remove(slot) else { return };
        self.control.pending.retain(|_, pending| pending.about != About::Session(session.state.seid));
        for (_, buffer) in session.state.held {
            self.discard(Reason::Discarded, buffer);
        }
    }

    fn response(&mut self, now: Time, from: SocketAddr, message: &Message) {
        let pending = self.control.pending.get(&message.sequence).filter(|pending| pending.to.ip() == from.ip());
        let Some(about) = pending.map(|pending| pending.about) else {
            self.counters.garbage += 1;
            return;
        };
        match (&message.body, about) {
            (Body::HeartbeatResponse(response), About::Heartbeat(number)) => {
                self.control.pending.remove(&message.sequence);
                let association = self.control.associations.get_mut(number).and_then(Option::as_mut);
                let Some(association) = association else { return };
                if association.recovery != response.recovery {
                    // It forgot all when it was restarted, this association too.
                    let node = association.node.clone();
                    let ended = self.end_association(number);
                    self.outputs.push_back(Output::News(News::Restarted { node, ended }));
                }
            }
            (Body::SessionReportResponse(response), About::Session(seid)) => {
                self.control.pending.remove(&message.sequence);
                let Some(slot) = self.sessions.by_seid(seid) else { return };
                if response.cause == Cause::SessionNotFound {
                    // TS 29.244 7.6.8: who does not know the session has no use for it.
                    self.end_session(slot);
                } else if response.flags.is_some_and(|flags| flags.contains(ReportResponseFlags::DROBU)) {
                    self.discard_held(now, slot);
                }
            }
            _ => self.counters.garbage += 1,
        }
    }

    /// Repeats requests that nobody answered, and sends heartbeats.
    pub(super) fn tick_control(&mut self, now: Time) {
        let (t1, n1) = self.config.retransmission;
        let mut lost = Vec::new();
        for (sequence, pending) in &mut self.control.pending {
            if pending.again > now {
                continue;
            }
            if pending.sent < n1 {
                pending.sent += 1;
                pending.again = now + t1;
                self.outputs.push_back(Output::Message { to: pending.to, bytes: pending.bytes.clone() });
            } else {
                lost.push((*sequence, pending.about));
            }
        }
        for (sequence, about) in lost {
            self.control.pending.remove(&sequence);
            match about {
                About::Session(_) => self.counters.reports_unanswered += 1,
                About::Heartbeat(number) => {
                    if let Some(association) = &self.control.associations[number] {
                        self.outputs.push_back(Output::News(News::Silent { node: association.node.clone() }));
                    }
                }
            }
        }
        let Some(period) = self.config.heartbeat else { return };
        let mut due = Vec::new();
        for (number, association) in self.control.associations.iter_mut().enumerate() {
            if let Some(association) = association
                && association.heartbeat.is_some_and(|at| at <= now)
            {
                association.heartbeat = Some(now + period);
                due.push((number, association.address));
            }
        }
        for (number, to) in due {
            let waits = self.control.pending.values().any(|pending| pending.about == About::Heartbeat(number));
            if !waits {
                let body = HeartbeatRequest { recovery: self.config.started }.into();
                self.ask(now, to, None, body, About::Heartbeat(number));
            }
        }
    }
}

/// What is offered (TS 29.244 8.2.25): to choose TEIDs, and to send end markers.
const FEATURES: UpFeatures = UpFeatures(UpFeatures::FTUP.0 | UpFeatures::EMPU.0);

/// Types of requests (TS 29.244 table 7.3-1).
const fn is_request(message_type: u8) -> bool {
    matches!(message_type, 1 | 5 | 7 | 9 | 12 | 14 | 50 | 52 | 54 | 56)
}

/// Where a control plane hears of a session: by its F-SEID, at the well-known port.
pub(super) fn peer_of(addresses: wire::pfcp::value::Addresses, own: &super::Interface) -> Option<SocketAddr> {
    let both = [addresses.v4().map(IpAddr::V4), addresses.v6().map(IpAddr::V6)];
    let address = both.into_iter().flatten().find(|address| own.address_like(*address).is_some())?;
    Some(SocketAddr::new(address, PFCP_PORT))
}
