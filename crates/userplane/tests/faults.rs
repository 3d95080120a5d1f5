//! A control plane and a user plane that is not there, refuses, restarts, falls silent or talks nonsense.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic too")]

mod common;

use common::{N4, bytes, config, spec};
use engine::{Span, Time};
use proptest::prelude::*;
use userplane::control::{Change, Config, Event, Failure, Peer, Procedure, Refusal};
use wire::pfcp::message::{
    AssociationReleaseRequest, AssociationSetupResponse, Body, HeartbeatRequest, HeartbeatResponse,
    SessionDeletionResponse, SessionEstablishmentResponse, SessionModificationResponse, VersionNotSupportedResponse,
};
use wire::pfcp::value::{FailedRule, FarId, NodeId, NtpTime, OffendingIe};
use wire::pfcp::{Cause, Fault, Message, PfcpError};

/// A user plane that refuses what `refused` picks with this answer, and grants the rest.
fn refuse(n4: &mut N4, span: Span, refused: u8, body: impl Fn() -> Body) {
    n4.run_with(span, |peer, request| {
        if request.body.message_type() == refused {
            return Some(vec![bytes(request.seid.map(|_| 0), request.sequence, body())]);
        }
        peer.grant(request).map(|answer| vec![answer])
    });
}

#[test]
fn an_absent_user_plane_is_told_after_n1_retransmissions_and_can_be_asked_again() {
    let mut n4 = N4::new(config());
    n4.control.associate(n4.now);
    let session = n4.control.establish(n4.now, spec(1));
    n4.run_with(Span::from_secs(60), |_, _| None);
    let failed = Event::AssociationFailed(Failure::Unanswered { requests: 5 });
    assert_eq!(n4.events, [(Time::ZERO + Span::from_secs(5), failed)]);
    assert_eq!(n4.peer.received.len(), 5);
    assert!(n4.peer.received.windows(2).all(|two| two[0] == two[1]), "the same to the byte");
    assert_eq!((n4.control.deadline(), n4.control.sessions()), (None, 1));
    // It comes up: what waited is done.
    n4.take_events();
    n4.control.associate(n4.now);
    n4.run_for(Span::from_secs(1));
    let events = n4.take_events();
    assert!(matches!(events[..], [Event::Associated { .. }, Event::Established { session: s, .. }] if s == session));
}

#[test]
fn giving_up_an_absent_user_plane_ends_at_once() {
    let mut n4 = N4::new(config());
    n4.control.associate(n4.now);
    n4.control.establish(n4.now, spec(1));
    n4.control.release(n4.now);
    n4.run_with(Span::from_secs(1), |_, _| None);
    assert_eq!(n4.take_events(), [Event::Released { agreed: false }]);
    assert_eq!((n4.control.deadline(), n4.control.sessions()), (None, 0));
}

#[test]
fn a_refused_association_is_told_with_its_cause() {
    let mut n4 = N4::new(config());
    n4.control.associate(n4.now);
    let answer = || {
        let offending = Some(OffendingIe(60));
        let (node_id, recovery, up_features, cp_features) = (None, None, None, None);
        let cause = Cause::MandatoryIncorrect;
        AssociationSetupResponse { node_id, cause, recovery, up_features, cp_features, offending }.into()
    };
    refuse(&mut n4, Span::from_secs(1), 5, answer);
    let events = n4.take_events();
    let refusal = Refusal { cause: Cause::MandatoryIncorrect, offending: Some(60), rule: None };
    assert_eq!(events, [Event::AssociationFailed(Failure::Refused(refusal))]);
    assert_eq!(events[0].to_string(), "no association: refused: Mandatory IE incorrect (69), element Node ID (60)");
    // One that knows another version only.
    n4.control.associate(n4.now);
    refuse(&mut n4, Span::from_secs(1), 5, || VersionNotSupportedResponse {}.into());
    assert_eq!(n4.take_events(), [Event::AssociationFailed(Failure::Version)]);
}

#[test]
fn each_refusal_names_its_session_and_cause_and_the_others_go_on() {
    let mut n4 = N4::associated(config());
    let sessions: Vec<_> = (0..6).map(|ue| n4.control.establish(n4.now, spec(ue))).collect();
    let causes = [Cause::NoResources, Cause::UnknownPredefinedRule, Cause::Other(200), Cause::RuleFailure];
    let mut next = causes.into_iter();
    n4.run_with(Span::from_secs(1), |peer, request| {
        let Some(cause) = next.next() else { return peer.grant(request).map(|answer| vec![answer]) };
        let failed_rule = (cause == Cause::RuleFailure).then_some(FailedRule::Far(FarId(2)));
        let (node_id, offending, up_fseid) = (None, None, None);
        let answer =
            SessionEstablishmentResponse { node_id, cause, offending, up_fseid, created_pdr: vec![], failed_rule };
        Some(vec![bytes(Some(0), request.sequence, answer)])
    });
    let events = n4.take_events();
    for (index, cause) in causes.into_iter().enumerate() {
        let rule = (cause == Cause::RuleFailure).then_some(FailedRule::Far(FarId(2)));
        let failure = Failure::Refused(Refusal { cause, offending: None, rule });
        let failed = Event::Failed { session: sessions[index], procedure: Procedure::Establishment, failure };
        assert_eq!(events[index], failed);
    }
    assert_eq!(
        events[3].to_string(),
        "session 0x4: establishment failed: refused: Rule creation or modification failure (73), FAR 2"
    );
    assert!(matches!(events[4..], [Event::Established { .. }, Event::Established { .. }]), "{events:?}");
    assert_eq!(n4.control.sessions(), 2);
}

#[test]
fn a_refused_change_leaves_the_session_and_a_refused_deletion_does_not() {
    let mut n4 = N4::associated(config());
    let session = n4.establish();
    n4.control.modify(n4.now, session, Change::Buffer);
    let cause = Cause::NotSupported;
    refuse(&mut n4, Span::from_millis(100), 52, || {
        let (offending, created_pdr, usage, failed_rule) = (None, vec![], vec![], None);
        SessionModificationResponse { cause, offending, created_pdr, usage, failed_rule }.into()
    });
    let failure = Failure::Refused(Refusal { cause, offending: None, rule: None });
    assert_eq!(n4.take_events(), [Event::Failed { session, procedure: Procedure::Modification, failure }]);
    assert_eq!(n4.control.sessions(), 1);
    n4.control.delete(n4.now, session);
    let cause = Cause::SessionNotFound;
    refuse(&mut n4, Span::from_millis(100), 54, || {
        SessionDeletionResponse { cause, offending: None, usage: vec![] }.into()
    });
    let failure = Failure::Refused(Refusal { cause, offending: None, rule: None });
    assert_eq!(n4.take_events(), [Event::Failed { session, procedure: Procedure::Deletion, failure }]);
    assert_eq!(n4.control.sessions(), 0);
    n4.control.delete(n4.now, session);
    n4.run_for(Span::ZERO);
    let failed = Event::Failed { session, procedure: Procedure::Deletion, failure: Failure::NoSession };
    assert_eq!(n4.take_events(), [failed]);
}

#[test]
fn an_acceptance_without_what_it_needs_is_a_failure_and_leaves_nothing_behind() {
    let mut n4 = N4::associated(config());
    let session = n4.control.establish(n4.now, spec(1));
    n4.run_with(Span::from_millis(100), |peer, request| {
        let Body::SessionEstablishmentRequest(wanted) = &request.body else {
            return peer.grant(request).map(|answer| vec![answer]);
        };
        let mut answer = peer.establishment(wanted);
        answer.created_pdr.clear();
        Some(vec![bytes(Some(wanted.cp_fseid.seid), request.sequence, answer)])
    });
    let failed = |failure| Event::Failed { session, procedure: Procedure::Establishment, failure };
    let events = n4.take_events();
    assert_eq!(events[0], failed(Failure::NoTunnel));
    assert_eq!(events.last(), Some(&Event::Deleted { session }));
    assert_eq!(n4.control.sessions(), 0);

    let session = n4.control.establish(n4.now, spec(1));
    n4.run_with(Span::from_millis(100), |peer, request| {
        let Body::SessionEstablishmentRequest(wanted) = &request.body else { return None };
        let mut answer = peer.establishment(wanted);
        answer.up_fseid = None;
        Some(vec![bytes(Some(wanted.cp_fseid.seid), request.sequence, answer)])
    });
    let failure = Failure::NoEndpoint;
    assert_eq!(n4.take_events(), [Event::Failed { session, procedure: Procedure::Establishment, failure }]);
}

#[test]
fn a_restart_is_seen_in_a_heartbeat_and_sessions_are_made_again() {
    let mut n4 = N4::associated(config());
    let sessions: Vec<_> = (0..100).map(|ue| n4.control.establish(n4.now, spec(ue))).collect();
    n4.run_for(Span::from_secs(1));
    n4.take_events();
    // A change is on its way and one session is being deleted when the user plane goes down.
    let to = Peer { teid: 0x77, address: [10, 0, 0, 4].into() };
    n4.run_with(Span::ZERO, |_, _| None);
    n4.control.modify(n4.now, sessions[0], Change::Handover { to, end_marker: false });
    n4.control.delete(n4.now, sessions[1]);
    n4.peer.recovery = NtpTime(n4.peer.recovery.0 + 7);
    n4.sent();
    n4.run_with(Span::from_secs(30), |peer, request| match request.body {
        Body::SessionModificationRequest(_) | Body::SessionDeletionRequest(_) => None,
        _ => peer.grant(request).map(|answer| vec![answer]),
    });
    // A heartbeat goes with the first retransmission, and its answer tells.
    let events = n4.take_events();
    assert_eq!(events[..2], [Event::PeerRestarted { lost: 100 }, Event::Deleted { session: sessions[1] }]);
    let again = events.iter().filter(|event| matches!(event, Event::Established { restored: true, .. })).count();
    assert_eq!((again, events.len()), (99, 2 + 1 + 99));
    assert_eq!(n4.control.sessions(), 99);

    // And by a heartbeat of its own, with requests on their way.
    n4.control.modify(n4.now, sessions[0], Change::Handover { to, end_marker: false });
    n4.control.delete(n4.now, sessions[2]);
    n4.run_with(Span::ZERO, |_, _| None);
    n4.peer.recovery = NtpTime(n4.peer.recovery.0 + 7);
    n4.sent();
    n4.say(&bytes(None, 1, HeartbeatRequest { recovery: n4.peer.recovery }));
    n4.run_for(Span::from_secs(1));
    let events = n4.take_events();
    assert_eq!(events[..2], [Event::PeerRestarted { lost: 99 }, Event::Deleted { session: sessions[2] }]);
    assert!(matches!(events[2], Event::Associated { .. }));
    assert_eq!(events.len(), 3 + 98);
    // The change is in what is made again.
    let handed_over = n4.sent().into_iter().any(|message| match message.body {
        Body::SessionEstablishmentRequest(request) => {
            let forwarding = request.create_far[1].forwarding.as_ref().unwrap();
            let creation = forwarding.creation;
            creation.is_some_and(|it| matches!(it, wire::pfcp::value::OuterHeaderCreation::GtpU { teid: 0x77, .. }))
        }
        _ => false,
    });
    assert!(handed_over);
}

#[test]
fn a_restart_can_be_the_end_of_all_sessions() {
    let mut n4 = N4::associated(Config { restore: false, ..config() });
    let session = n4.establish();
    n4.peer.recovery = NtpTime(1);
    n4.run_for(Span::from_secs(30));
    assert_eq!(n4.take_events(), [Event::PeerRestarted { lost: 1 }, Event::Deleted { session }]);
    assert_eq!((n4.control.sessions(), n4.control.deadline()), (0, None));
}

#[test]
fn a_user_plane_that_forgot_the_association_is_taken_as_restarted_once() {
    let mut n4 = N4::associated(config());
    let first = n4.establish();
    let second = n4.control.establish(n4.now, spec(2));
    let refusing = |n4: &mut N4| {
        refuse(n4, Span::from_secs(1), 50, || {
            let (node_id, offending, up_fseid, created_pdr, failed_rule) = (None, None, None, vec![], None);
            let cause = Cause::NoAssociation;
            SessionEstablishmentResponse { node_id, cause, offending, up_fseid, created_pdr, failed_rule }.into()
        });
    };
    refusing(&mut n4);
    let refusal = Refusal { cause: Cause::NoAssociation, offending: None, rule: None };
    let failure = Failure::Refused(refusal);
    let failed = |session| Event::Failed { session, procedure: Procedure::Establishment, failure };
    let events = n4.take_events();
    // Asked anew, it refuses still: no third time.
    assert_eq!(events[0], Event::PeerRestarted { lost: 1 });
    assert!(matches!(events[1], Event::Associated { .. }));
    assert_eq!(events[2..], [failed(first), failed(second)]);
}

#[test]
fn a_user_plane_that_falls_silent_is_dead_and_comes_back() {
    let mut n4 = N4::associated(config());
    let session = n4.establish();
    let silent_from = n4.now;
    n4.run_with(Span::from_secs(40), |_, _| None);
    let [(at, Event::PeerDead { unanswered: 1 })] = n4.events[..] else { panic!("{:?}", n4.events) };
    // A heartbeat at most 10 s after the last word, and five requests of 1 s.
    assert!(at.since(silent_from) <= Span::from_secs(15), "{at}");
    n4.take_events();
    // What is wanted meanwhile waits.
    n4.control.modify(n4.now, session, Change::Buffer);
    n4.control.establish(n4.now, spec(2));
    n4.run_for(Span::from_secs(11));
    let events = n4.take_events();
    assert!(matches!(events[..], [Event::PeerBack, Event::Modified { .. }, Event::Established { .. }]), "{events:?}");
}

#[test]
fn silence_in_the_middle_of_ten_thousand_sessions_ends_the_wait_for_all() {
    let mut n4 = N4::associated(config());
    for ue in 0..10_000 {
        n4.control.establish(n4.now, spec(ue));
    }
    let mut left = 1_000;
    let start = n4.now;
    n4.run_with(Span::from_secs(20), |peer, request| {
        left -= 1;
        (left >= 0).then(|| peer.grant(request).map(|answer| vec![answer])).flatten()
    });
    let dead = n4.events.iter().find(|(_, event)| matches!(event, Event::PeerDead { .. })).unwrap();
    assert!(dead.0.since(start) < Span::from_secs(7), "{dead:?}");
    let count = |wanted: fn(&Event) -> bool| n4.events.iter().filter(|(_, event)| wanted(event)).count();
    assert_eq!(count(|event| matches!(event, Event::Established { .. })), 1_000);
    assert_eq!(count(|event| matches!(event, Event::Failed { failure: Failure::Unanswered { requests: 5 }, .. })), 64);
    assert_eq!((n4.control.waiting(), n4.control.is_idle()), (10_000 - 1_064, true));
    n4.control.release(n4.now);
    n4.run_with(Span::ZERO, |_, _| None);
    assert_eq!(n4.events.last().unwrap().1, Event::Released { agreed: false });
    assert_eq!(n4.control.deadline(), None);
}

#[test]
fn one_request_without_an_answer_is_not_the_death_of_the_user_plane() {
    let mut n4 = N4::associated(Config { heartbeat: Some(Span::from_secs(1)), ..config() });
    let session = n4.establish();
    n4.control.modify(n4.now, session, Change::Buffer);
    n4.run_with(Span::from_secs(10), |peer, request| match request.body {
        Body::SessionModificationRequest(_) => None,
        _ => peer.grant(request).map(|answer| vec![answer]),
    });
    let failure = Failure::Unanswered { requests: 5 };
    assert_eq!(n4.take_events(), [Event::Failed { session, procedure: Procedure::Modification, failure }]);
}

#[test]
fn an_answer_that_comes_late_or_twice_counts_once() {
    let mut n4 = N4::associated(config());
    let session = n4.control.establish(n4.now, spec(1));
    // The first three requests are lost, and then each gets an answer, the last one twice.
    let mut lost = 3;
    let mut kept = vec![];
    n4.run_with(Span::from_secs(10), |peer, request| {
        if !matches!(request.body, Body::SessionEstablishmentRequest(_)) {
            return peer.grant(request).map(|answer| vec![answer]);
        }
        kept.extend(peer.grant(request));
        lost -= 1;
        (lost < 0).then(|| vec![kept[0].clone(); 2])
    });
    let events = n4.take_events();
    assert!(matches!(events[..], [Event::Established { session: s, .. }] if s == session), "{events:?}");
    let counters = n4.control.counters();
    assert_eq!((counters.retransmitted, counters.unmatched), (3, 1));
}

#[test]
fn answers_that_nobody_asked_for_are_counted_and_left() {
    let mut n4 = N4::associated(config());
    let session = n4.control.establish(n4.now, spec(1));
    n4.run_with(Span::ZERO, |_, _| None);
    let sequence = n4.sent().last().unwrap().sequence;
    let answers = [
        bytes(None, 0x123, HeartbeatResponse { recovery: NtpTime(1) }),
        bytes(None, sequence, HeartbeatResponse { recovery: NtpTime(1) }),
        bytes(Some(1), sequence, SessionDeletionResponse { cause: Cause::Accepted, offending: None, usage: vec![] }),
    ];
    for answer in answers {
        n4.say(&answer);
    }
    assert_eq!((n4.take_events(), n4.control.counters().unmatched), (vec![], 3));
    n4.run_for(Span::from_secs(2));
    assert!(matches!(n4.take_events()[..], [Event::Established { session: s, .. }] if s == session));
}

#[test]
fn requests_that_lack_something_are_answered_with_what() {
    let mut n4 = N4::associated(config());
    let session = n4.establish();
    n4.sent();
    // A session report without its mandatory report type.
    let mut report = vec![0x21, 56, 0, 12, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 9, 0];
    assert_eq!(session.0, 1);
    n4.say(&report);
    let sent = n4.sent();
    let [Message { seid: Some(0x5001), sequence: 9, body: Body::SessionReportResponse(answer) }] = &sent[..] else {
        panic!("{sent:?}");
    };
    assert_eq!((answer.cause, answer.offending), (Cause::MandatoryMissing, Some(OffendingIe(39))));
    let fault = Fault { cause: Cause::MandatoryMissing, offending: 39 };
    let error = PfcpError::Body { message_type: 56, seid: Some(1), sequence: 9, fault };
    assert_eq!(n4.take_events(), [Event::Malformed(error)]);
    assert_eq!(error.to_string(), "in Session Report Request: Mandatory IE missing (66): Report Type (element 39)");
    // The same in version 2 of PFCP.
    report[0] = 0x41;
    n4.say(&report);
    let sent = n4.sent();
    assert!(matches!(sent[..], [Message { sequence: 9, body: Body::VersionNotSupportedResponse(_), .. }]), "{sent:?}");
    // And an answer of version 2 is not answered.
    report[1] = 57;
    n4.say(&report);
    assert_eq!(n4.sent(), []);
}

#[test]
fn the_user_plane_ends_the_association() {
    let mut n4 = N4::associated(config());
    n4.establish();
    n4.sent();
    n4.say(&bytes(None, 5, AssociationReleaseRequest { node_id: NodeId::V4(common::USER_PLANE.into()) }));
    assert_eq!(n4.take_events(), [Event::ReleasedByPeer { lost: 1 }]);
    assert!(matches!(n4.sent()[..], [Message { body: Body::AssociationReleaseResponse(_), .. }]));
    assert_eq!((n4.control.sessions(), n4.control.deadline()), (0, None));
}

proptest! {
    /// Noise between real answers: no panic, everything still comes about, and all noise is counted.
    #[test]
    fn garbage_changes_nothing(noise in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..64), 1..20)) {
        let mut n4 = N4::associated(config());
        let session = n4.control.establish(n4.now, spec(1));
        for datagram in &noise {
            n4.control.handle(n4.now, datagram);
        }
        n4.run_for(Span::from_secs(1));
        let established = |event: &Event| matches!(event, Event::Established { session: s, .. } if *s == session);
        prop_assert!(n4.take_events().iter().any(established));
    }

    /// Whatever is lost, doubled or delayed, a session that is made and deleted is in the end there or told as failed, and nothing hangs.
    #[test]
    fn every_wish_comes_to_an_end(fates in proptest::collection::vec(0u8..6, 40..80)) {
        let mut n4 = N4::associated(config());
        let mut fates = fates.into_iter().cycle();
        for ue in 0..5 {
            let session = n4.control.establish(n4.now, spec(ue));
            n4.control.modify(n4.now, session, Change::Buffer);
            n4.control.delete(n4.now, session);
        }
        n4.run_with(Span::from_secs(120), |peer, request| {
            let answer = peer.grant(request)?;
            match fates.next()? {
                0 | 1 => None,
                2 => Some(vec![answer.clone(), answer]),
                3 => Some(vec![b"noise".to_vec(), answer]),
                _ => Some(vec![answer]),
            }
        });
        prop_assert_eq!(n4.control.sessions(), 0);
        n4.control.release(n4.now);
        n4.run_with(Span::from_secs(60), |_, _| None);
        let released = |event: &Event| matches!(event, Event::Released { .. });
        prop_assert!(n4.take_events().iter().any(released));
        prop_assert_eq!(n4.control.deadline(), None);
    }
}
