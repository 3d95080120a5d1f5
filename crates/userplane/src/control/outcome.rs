//! What becomes of requests: answers, refusals, silence.

use engine::{Span, Time};
use wire::pfcp::Cause;
use wire::pfcp::message::{
    AssociationSetupResponse, AssociationUpdateResponse, Body, SessionDeletionResponse, SessionEstablishmentResponse,
    SessionModificationResponse,
};
use wire::pfcp::rules::UsageReport;
use wire::pfcp::value::{FailedRule, NodeId, OffendingIe, UpFeatures};

use super::exchange::{Pending, Purpose, Task};
use super::{ControlPlane, Event, Failure, Procedure, Refusal, SessionId, State, Vec, session};

impl ControlPlane {
    /// An answer came. One that fits no request on its way is counted and left.
    pub(super) fn answered(&mut self, now: Time, sequence: u32, body: Body) {
        let fits = match (self.requests.find(sequence), &body) {
            (Some(Purpose::Heartbeat), Body::HeartbeatResponse(_))
            | (Some(Purpose::Associate), Body::AssociationSetupResponse(_))
            | (Some(Purpose::Update), Body::AssociationUpdateResponse(_))
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
            (_, Body::HeartbeatResponse(answer)) => self.peer_started(now, answer.recovery),
            (_, Body::AssociationSetupResponse(answer)) => self.associated(now, answer),
            (_, Body::AssociationUpdateResponse(answer)) => self.updated(&answer),
            (_, Body::AssociationReleaseResponse(answer)) => self.over(answer.cause.is_success()),
            (Purpose::Session(id, _), Body::SessionEstablishmentResponse(answer)) => {
                self.established(now, id, took, answer);
            }
            (Purpose::Session(id, task), Body::SessionModificationResponse(answer)) => {
                self.modified(now, id, task, answer);
            }
            (Purpose::Session(id, _), Body::SessionDeletionResponse(answer)) => self.deleted(now, id, answer),
            (purpose, _) => self.came_to_nothing(now, purpose, Failure::Version),
        }
    }

    /// A request was sent as often as it may be. If nothing at all came since it was sent for the second time the user plane is
    /// dead; if something did, it just does not answer this.
    pub(super) fn unanswered(&mut self, now: Time, pending: &Pending) {
        let &Pending { purpose, first_sent, requests, .. } = pending;
        let silent = self.heard.is_none_or(|heard| heard < first_sent + self.config.t1);
        let associated = !matches!(purpose, Purpose::Associate | Purpose::Release);
        if silent && associated && self.state != State::Dead {
            self.dead(now, purpose, requests);
        } else {
            self.came_to_nothing(now, purpose, Failure::Unanswered { requests });
        }
    }

    /// The association is there, however it came about.
    pub(super) fn begin_association(&mut self, now: Time, node_id: Option<NodeId>, features: Option<UpFeatures>) {
        self.state = State::Associated;
        self.proven = false;
        self.heartbeat_at = self.config.heartbeat.map(|every| now + every);
        self.event(Event::Associated { node_id, features: features.unwrap_or_default() });
    }

    /// The association is over; nothing is asked of the user plane any more.
    pub(super) fn over(&mut self, agreed: bool) {
        self.drop_association();
        self.event(Event::Released { agreed });
    }

    /// Forgets the association and all sessions.
    pub(super) fn drop_association(&mut self) {
        self.state = State::Idle;
        self.sessions.clear();
        self.queue.clear();
        self.requests.forget();
        self.answers.forget();
        self.heartbeat_at = None;
        self.peer_recovery = None;
    }

    pub(super) fn usage(&mut self, session: SessionId, reports: Vec<UsageReport>) {
        for report in reports {
            self.event(Event::Usage { session, report });
        }
    }

    /// A task of a session came to nothing.
    pub(super) fn failed(&mut self, now: Time, id: SessionId, task: Task, failure: Failure) {
        let forgotten = matches!(failure, Failure::Refused(Refusal { cause: Cause::NoAssociation, .. }));
        if forgotten && self.proven && self.state == State::Associated {
            // It restarted, and the heartbeat that would have told is not due yet.
            self.queue.push_front((id, task));
            return self.peer_restarted(now);
        }
        self.tell_failure(id, &task, failure);
        match task {
            Task::Modify(_) => self.session_is_free(id),
            Task::Establish | Task::Delete => {
                self.sessions.remove(&id);
            }
        }
    }

    pub(super) fn tell_failure(&mut self, session: SessionId, task: &Task, failure: Failure) {
        let procedure = match task {
            Task::Establish => Procedure::Establishment,
            Task::Modify(_) => Procedure::Modification,
            Task::Delete => Procedure::Deletion,
        };
        self.event(Event::Failed { session, procedure, failure });
    }

    fn came_to_nothing(&mut self, now: Time, purpose: Purpose, failure: Failure) {
        match purpose {
            Purpose::Heartbeat => self.counters.heartbeats_unanswered += 1,
            Purpose::Associate => {
                self.state = State::Idle;
                self.event(Event::AssociationFailed(failure));
            }
            Purpose::Update => self.event(Event::UpdateFailed(failure)),
            Purpose::Release => self.over(false),
            Purpose::Session(id, task) => self.failed(now, id, task, failure),
        }
    }

    /// The user plane answers nothing: what is on its way is given up, what waits goes on waiting.
    fn dead(&mut self, now: Time, first: Purpose, requests: u32) {
        let releasing = self.state == State::Releasing;
        self.state = State::Dead;
        let all: Vec<_> = core::iter::once(first).chain(self.requests.take_all()).collect();
        self.event(Event::PeerDead { unanswered: all.len() });
        for purpose in all {
            self.came_to_nothing(now, purpose, Failure::Unanswered { requests });
        }
        if releasing {
            self.over(false);
        }
    }

    fn associated(&mut self, now: Time, answer: AssociationSetupResponse) {
        let AssociationSetupResponse { node_id, cause, recovery, up_features, offending, .. } = answer;
        if !cause.is_success() {
            self.state = State::Idle;
            return self.event(Event::AssociationFailed(refusal(cause, offending, None)));
        }
        self.peer_recovery = recovery.or(self.peer_recovery);
        self.begin_association(now, node_id, up_features);
    }

    fn updated(&mut self, answer: &AssociationUpdateResponse) {
        self.event(if answer.cause.is_success() {
            Event::Updated { features: answer.up_features }
        } else {
            Event::UpdateFailed(refusal(answer.cause, None, None))
        });
    }

    fn established(&mut self, now: Time, id: SessionId, took: Span, answer: SessionEstablishmentResponse) {
        let SessionEstablishmentResponse { cause, offending, up_fseid, created_pdr, failed_rule, .. } = answer;
        if !cause.is_success() {
            return self.failed(now, id, Task::Establish, refusal(cause, offending, failed_rule));
        }
        let Some(endpoint) = up_fseid else {
            return self.failed(now, id, Task::Establish, Failure::NoEndpoint);
        };
        let Some(session) = self.sessions.get_mut(&id) else { return };
        session.peer = Some(endpoint.seid);
        self.proven = true;
        match session::chosen(&session.spec, &created_pdr) {
            Ok((uplink, ue)) => {
                let restored = session.restored;
                self.event(Event::Established { session: id, uplink, ue, took, restored });
            }
            Err(failure) => {
                // It is of no use, but it is there: it goes before anything else is done with it.
                session.next.clear();
                session.next.push_back(Task::Delete);
                self.tell_failure(id, &Task::Establish, failure);
            }
        }
        self.session_is_free(id);
    }

    fn modified(&mut self, now: Time, id: SessionId, task: Task, answer: SessionModificationResponse) {
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
            self.failed(now, id, Task::Delete, refusal(cause, offending, None));
        }
    }
}

fn refusal(cause: Cause, offending: Option<OffendingIe>, rule: Option<FailedRule>) -> Failure {
    Failure::Refused(Refusal { cause, offending: offending.map(|OffendingIe(element)| element), rule })
}
