//! A control plane against a user plane that is a script: what it is asked it answers as a test wants, in virtual time.

#![allow(dead_code, reason = "not every test file uses all of it")]
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic too")]

use std::sync::Arc;

use engine::{Random, Span, Time};
use userplane::control::{Config, ControlPlane, Event, Output, Peer, Profile, SessionId, SessionSpec};
use wire::gtpu::Qfi;
use wire::pfcp::message::{
    AssociationReleaseResponse, AssociationSetupResponse, AssociationUpdateResponse, Body, HeartbeatResponse,
    SessionDeletionResponse, SessionEstablishmentRequest, SessionEstablishmentResponse, SessionModificationResponse,
};
use wire::pfcp::rules::{CreatedPdr, UsageReport};
use wire::pfcp::value::{Addresses, FSeid, FTeid, NodeId, NtpTime, UpFeatures, UrrId, UsageTrigger};
use wire::pfcp::{Cause, Encoding, Message};

pub(crate) const CONTROL: [u8; 4] = [10, 0, 0, 1];
pub(crate) const USER_PLANE: [u8; 4] = [10, 0, 0, 2];
/// When the control plane started.
pub(crate) const STARTED: NtpTime = NtpTime(0xe900_0000);

/// What comes back for a request: nothing, or datagrams.
pub(crate) type Answer = Box<dyn FnMut(&mut UserPlane, &Message) -> Option<Vec<Vec<u8>>>>;

/// A user plane that grants everything.
pub(crate) struct UserPlane {
    pub(crate) recovery: NtpTime,
    pub(crate) next_teid: u32,
    pub(crate) next_seid: u64,
    /// All it was sent.
    pub(crate) received: Vec<Vec<u8>>,
}

impl UserPlane {
    pub(crate) fn new() -> Self {
        Self { recovery: NtpTime(0xe900_0100), next_teid: 0x1000, next_seid: 0x5000, received: vec![] }
    }

    /// The answer to a request as the standard wants it, if it is one.
    pub(crate) fn grant(&mut self, request: &Message) -> Option<Vec<u8>> {
        let node_id = Some(NodeId::V4(USER_PLANE.into()));
        let cause = Cause::Accepted;
        let (seid, body): (Option<u64>, Body) = match &request.body {
            Body::HeartbeatRequest(_) => (None, HeartbeatResponse { recovery: self.recovery }.into()),
            Body::AssociationSetupRequest(_) => {
                let answer = AssociationSetupResponse {
                    node_id,
                    cause,
                    recovery: Some(self.recovery),
                    up_features: Some(UpFeatures::FTUP),
                    cp_features: None,
                    offending: None,
                };
                (None, answer.into())
            }
            Body::AssociationUpdateRequest(_) => {
                let up_features = Some(UpFeatures::FTUP | UpFeatures::EMPU);
                (None, AssociationUpdateResponse { node_id, cause, up_features, cp_features: None }.into())
            }
            Body::AssociationReleaseRequest(_) => (None, AssociationReleaseResponse { node_id, cause }.into()),
            Body::SessionEstablishmentRequest(request) => {
                (Some(request.cp_fseid.seid), self.establishment(request).into())
            }
            Body::SessionModificationRequest(_) => {
                let (created_pdr, usage) = (vec![], vec![]);
                let answer =
                    SessionModificationResponse { cause, offending: None, created_pdr, usage, failed_rule: None };
                (Some(0), answer.into())
            }
            Body::SessionDeletionRequest(_) => {
                let usage = vec![usage_report()];
                (Some(0), SessionDeletionResponse { cause, offending: None, usage }.into())
            }
            _ => return None,
        };
        Some(bytes(seid, request.sequence, body))
    }

    pub(crate) fn establishment(&mut self, request: &SessionEstablishmentRequest) -> SessionEstablishmentResponse {
        self.next_seid += 1;
        let chosen = |teid| FTeid::Fixed { teid, addresses: Addresses::V4(USER_PLANE.into()) };
        let mut created_pdr = vec![];
        for pdr in &request.create_pdr {
            if let Some(FTeid::Choose { .. }) = pdr.pdi.teid {
                self.next_teid += 1;
                created_pdr.push(CreatedPdr { id: pdr.id, teid: Some(chosen(self.next_teid)), ue_ip: vec![] });
            }
        }
        SessionEstablishmentResponse {
            node_id: Some(NodeId::V4(USER_PLANE.into())),
            cause: Cause::Accepted,
            offending: None,
            up_fseid: Some(FSeid { seid: self.next_seid, addresses: Addresses::V4(USER_PLANE.into()) }),
            created_pdr,
            failed_rule: None,
        }
    }
}

/// Control plane and user plane with a path of 5 ms each way between them.
pub(crate) struct N4 {
    pub(crate) now: Time,
    pub(crate) control: ControlPlane,
    pub(crate) peer: UserPlane,
    pub(crate) events: Vec<(Time, Event)>,
    /// What is to reach the control plane when.
    pub(crate) back: Vec<(Time, Vec<u8>)>,
}

impl N4 {
    pub(crate) const WAY: Span = Span::from_millis(5);

    pub(crate) fn new(config: Config) -> Self {
        let control = ControlPlane::new(config, Random::stream(1, "n4"));
        Self { now: Time::ZERO, control, peer: UserPlane::new(), events: vec![], back: vec![] }
    }

    /// With a user plane that grants everything, associated.
    pub(crate) fn associated(config: Config) -> Self {
        let mut n4 = Self::new(config);
        n4.control.associate(n4.now);
        n4.run_for(Span::from_millis(100));
        assert!(matches!(n4.take_events()[..], [Event::Associated { .. }]));
        n4
    }

    pub(crate) fn take_events(&mut self) -> Vec<Event> {
        self.events.drain(..).map(|(_, event)| event).collect()
    }

    pub(crate) fn run_for(&mut self, span: Span) {
        self.run_with(span, |peer, request| peer.grant(request).map(|answer| vec![answer]));
    }

    /// Goes on for that long; `answer` says what comes back for each request.
    pub(crate) fn run_with(
        &mut self,
        span: Span,
        mut answer: impl FnMut(&mut UserPlane, &Message) -> Option<Vec<Vec<u8>>>,
    ) {
        let end = self.now + span;
        for _ in 0..10_000_000 {
            while let Some(output) = self.control.poll() {
                match output {
                    Output::Event(event) => self.events.push((self.now, event)),
                    Output::Send(datagram) => {
                        let message = Message::parse(&datagram).expect("what it sends can be read");
                        self.peer.received.push(datagram);
                        if wire::pfcp::message::is_request(message.body.message_type()) {
                            let answers = answer(&mut self.peer, &message).unwrap_or_default();
                            let at = self.now + Self::WAY + Self::WAY;
                            self.back.extend(answers.into_iter().map(|datagram| (at, datagram)));
                        }
                    }
                }
            }
            let back = self.back.iter().map(|(at, _)| *at).min();
            let next = [back, self.control.deadline()].into_iter().flatten().min();
            let Some(next) = next.filter(|at| *at <= end) else {
                self.now = end;
                break;
            };
            self.now = self.now.max(next);
            if let Some(first) = self.back.iter().position(|(at, _)| *at <= self.now) {
                let (_, datagram) = self.back.remove(first);
                self.control.handle(self.now, &datagram);
            } else {
                self.control.tick(self.now);
            }
        }
        assert_eq!(self.now, end, "it goes on without time passing");
    }

    /// The user plane says something by itself.
    pub(crate) fn say(&mut self, datagram: &[u8]) {
        self.control.handle(self.now, datagram);
        self.run_with(Span::ZERO, |peer, request| peer.grant(request).map(|answer| vec![answer]));
    }

    /// Messages the user plane was sent, and forgets them.
    pub(crate) fn sent(&mut self) -> Vec<Message> {
        self.peer.received.drain(..).map(|datagram| Message::parse(&datagram).unwrap()).collect()
    }

    pub(crate) fn establish(&mut self) -> SessionId {
        let session = self.control.establish(self.now, spec(1));
        self.run_for(Span::from_millis(100));
        assert!(matches!(self.take_events()[..], [Event::Established { .. }]));
        session
    }
}

pub(crate) fn config() -> Config {
    Config::new(CONTROL.into(), STARTED)
}

/// A session of the UE with this number, whose TEID the user plane chooses.
pub(crate) fn spec(ue: u32) -> SessionSpec {
    SessionSpec {
        ue: Addresses::V4((0x1000_0000 + ue).into()),
        uplink: FTeid::Choose { v4: true, v6: false, id: None },
        downlink: Some(Peer { teid: ue, address: [10, 0, 0, 3].into() }),
        profile: Arc::new(Profile { qfi: Qfi::new(9), ..Profile::default() }),
    }
}

pub(crate) fn usage_report() -> UsageReport {
    UsageReport { id: UrrId(1), trigger: UsageTrigger::TERMR, ..UsageReport::default() }
}

pub(crate) fn bytes(seid: Option<u64>, sequence: u32, body: impl Into<Body>) -> Vec<u8> {
    let mut out = vec![];
    Message { seid, sequence, body: body.into() }.write(&mut out, Encoding::default()).unwrap();
    out
}
