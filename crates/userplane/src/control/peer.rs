//! What the user plane asks, and that it restarted.

use alloc::collections::BTreeMap;
use core::net::IpAddr;

use engine::Time;
use wire::pfcp::message::{
    AssociationReleaseResponse, AssociationSetupRequest, AssociationSetupResponse, AssociationUpdateRequest,
    AssociationUpdateResponse, Body, HeartbeatResponse, NodeReportRequest, NodeReportResponse, SessionReportRequest,
    SessionReportResponse, SessionSetDeletionResponse, VersionNotSupportedResponse, is_request,
};
use wire::pfcp::value::{CpFeatures, NtpTime, OffendingIe, RemotePeer, ReportType, Timer};
use wire::pfcp::{Cause, Fault, Message, PfcpError};

use super::exchange::{Purpose, Task};
use super::{ControlPlane, Event, SessionId, State, Vec};

impl ControlPlane {
    /// The user plane asks. What it asked before is answered as before.
    pub(super) fn asked(&mut self, now: Time, datagram: &[u8], message: Message) {
        if let Some(answer) = self.answers.again(datagram) {
            let answer = answer.into();
            self.counters.repeated += 1;
            return self.send(answer);
        }
        let Message { seid, sequence, body } = message;
        let (node_id, cause) = (Some(self.config.node_id.clone()), Cause::Accepted);
        let answer = match body {
            Body::HeartbeatRequest(asked) => {
                let answer = HeartbeatResponse { recovery: self.config.recovery };
                self.answer(None, sequence, answer.into());
                return self.peer_started(now, asked.recovery);
            }
            Body::AssociationSetupRequest(asked) => {
                self.answer(None, sequence, self.setup_response(cause, None).into());
                return self.associated_by_peer(now, asked);
            }
            Body::AssociationReleaseRequest(_) => {
                self.answer(None, sequence, AssociationReleaseResponse { node_id, cause }.into());
                return self.released_by_peer();
            }
            Body::AssociationUpdateRequest(asked) => {
                self.update_wanted(&asked);
                let answer = AssociationUpdateResponse { node_id, cause, up_features: None, cp_features: None };
                self.answer(None, sequence, answer.into())
            }
            Body::NodeReportRequest(asked) => {
                self.node_report(asked);
                self.answer(None, sequence, NodeReportResponse { node_id, cause, offending: None }.into())
            }
            Body::SessionReportRequest(asked) => {
                let id = SessionId(seid.unwrap_or(0));
                let peer = self.peer_seid(id);
                let cause = if peer.is_some() { cause } else { Cause::SessionNotFound };
                let answer = SessionReportResponse { cause, offending: None, flags: None };
                let answer = self.answer(Some(peer.unwrap_or(0)), sequence, answer.into());
                if peer.is_some() {
                    self.report(id, asked);
                }
                answer
            }
            // Sets of sessions are not kept (TS 29.244 7.4.6 is an option).
            Body::SessionSetDeletionRequest(_) => {
                let answer = SessionSetDeletionResponse { node_id, cause: Cause::NotSupported, offending: None };
                self.answer(None, sequence, answer.into())
            }
            // What a control plane asks of a user plane is not for us.
            _ => {
                self.counters.unmatched += 1;
                None
            }
        };
        if let Some(answer) = answer {
            self.answers.keep(datagram, &answer);
        }
    }

    /// What came cannot be taken. A request gets an answer that says so (TS 29.244 7.6).
    pub(super) fn malformed(&mut self, error: PfcpError) {
        self.counters.malformed += 1;
        match error {
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

    /// The user plane said when it started: another time than before means that it did so again.
    pub(super) fn peer_started(&mut self, now: Time, recovery: NtpTime) {
        if !matches!(self.state, State::Associated | State::Dead | State::Releasing) {
            return;
        }
        let known = self.peer_recovery.replace(recovery);
        if known.is_some_and(|known| known != recovery) {
            self.peer_restarted(now);
        } else if self.state == State::Dead {
            self.state = State::Associated;
            self.event(Event::PeerBack);
        }
    }

    /// All sessions are lost. They are made again after a new association, or forgotten.
    pub(super) fn peer_restarted(&mut self, now: Time) {
        let releasing = self.state == State::Releasing;
        self.lose_sessions();
        if releasing {
            // There is nothing left to release.
            return self.over(true);
        }
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
        let under_way = self.requests.take_all().into_iter().filter_map(|purpose| match purpose {
            Purpose::Session(id, task) => Some((id, task)),
            Purpose::Heartbeat | Purpose::Associate | Purpose::Update | Purpose::Release => None,
        });
        let mut tasks: BTreeMap<_, _> = under_way.chain(core::mem::take(&mut self.queue)).collect();
        let ids: Vec<_> = self.sessions.keys().copied().collect();
        let (mut lost, mut gone) = (0, Vec::new());
        for id in ids {
            let Some(session) = self.sessions.get_mut(&id) else { continue };
            let there = session.peer.take().is_some();
            lost += usize::from(there);
            session.restored |= there;
            session.busy = true;
            let mut deleted = there && !self.config.restore;
            for task in tasks.remove(&id).into_iter().chain(core::mem::take(&mut session.next)) {
                match task {
                    Task::Establish => {}
                    Task::Modify(change) => session.spec.apply(change),
                    Task::Delete => deleted = true,
                }
            }
            if deleted {
                gone.push(id);
            } else {
                self.queue.push_back((id, Task::Establish));
            }
        }
        self.event(Event::PeerRestarted { lost });
        for id in gone {
            self.forget(id);
        }
    }

    /// The user plane wanted the association, or wants it again.
    fn associated_by_peer(&mut self, now: Time, asked: AssociationSetupRequest) {
        let known = self.peer_recovery.replace(asked.recovery);
        match self.state {
            State::Releasing => return,
            // Our own request need not be answered any more.
            State::Idle | State::Associating => self.requests.forget(),
            State::Associated | State::Dead => {
                // One that is set up anew is one without sessions (TS 29.244 6.2.6.2).
                let any = self.sessions.values().any(|session| session.peer.is_some());
                if any || known.is_some_and(|known| known != asked.recovery) {
                    self.lose_sessions();
                }
            }
        }
        self.begin_association(now, Some(asked.node_id), asked.up_features);
    }

    fn released_by_peer(&mut self) {
        if self.state == State::Releasing {
            return self.over(true);
        }
        let lost = self.sessions.values().filter(|session| session.peer.is_some()).count();
        self.drop_association();
        self.event(Event::ReleasedByPeer { lost });
    }

    fn update_wanted(&mut self, asked: &AssociationUpdateRequest) {
        if let Some(features) = asked.up_features {
            self.event(Event::Updated { features: Some(features) });
        }
        if asked.release.is_some() {
            let grace = asked.graceful_period.and_then(Timer::seconds);
            self.event(Event::ReleaseWanted { grace });
        }
    }

    fn node_report(&mut self, asked: NodeReportRequest) {
        let reported = asked.path_failure.map(|report| report.peers).unwrap_or_default();
        let both = |RemotePeer(at): RemotePeer| [at.v4().map(IpAddr::V4), at.v6().map(IpAddr::V6)];
        let peers: Vec<_> = reported.into_iter().flat_map(both).flatten().collect();
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

    /// Answers a request that lacks something.
    fn refuse(&mut self, message_type: u8, seid: Option<u64>, sequence: u32, fault: Fault) {
        let Fault { cause, offending } = fault;
        let (node_id, offending) = (Some(self.config.node_id.clone()), Some(OffendingIe(offending)));
        let body: Body = match message_type {
            5 => self.setup_response(cause, offending).into(),
            7 => AssociationUpdateResponse { node_id, cause, up_features: None, cp_features: None }.into(),
            9 => AssociationReleaseResponse { node_id, cause }.into(),
            12 => NodeReportResponse { node_id, cause, offending }.into(),
            14 => SessionSetDeletionResponse { node_id, cause, offending }.into(),
            56 => SessionReportResponse { cause, offending, flags: None }.into(),
            _ => return,
        };
        let peer = seid.map(|seid| self.peer_seid(SessionId(seid)).unwrap_or(0));
        self.answer(peer, sequence, body);
    }

    fn setup_response(&self, cause: Cause, offending: Option<OffendingIe>) -> AssociationSetupResponse {
        AssociationSetupResponse {
            node_id: Some(self.config.node_id.clone()),
            cause,
            recovery: Some(self.config.recovery),
            up_features: None,
            cp_features: Some(CpFeatures::default()),
            offending,
        }
    }

    /// What the user plane calls a session.
    fn peer_seid(&self, id: SessionId) -> Option<u64> {
        self.sessions.get(&id)?.peer
    }
}
