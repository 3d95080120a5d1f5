//! What the UPF answers on N4.

use std::net::IpAddr;

use engine::{Random, Span, Time};
use userplane::control::{self, ControlPlane, Event, Peer, Profile, SessionSpec};
use userplane::upf::{Config, News, Side};
use wire::gtpu::{self, ErrorIndication};
use wire::pfcp::message::{
    AssociationReleaseRequest, AssociationSetupRequest, Body, HeartbeatRequest, HeartbeatResponse,
    SessionDeletionRequest, SessionModificationRequest, SessionReportResponse,
};
use wire::pfcp::rules::{CreateFar, RemovePdr, UpdateFar};
use wire::pfcp::value::{
    Addresses, ApplyAction, FTeid, FailedRule, FarId, NtpTime, OffendingIe, PdrId, QerId, ReportType, UrrId,
};
use wire::pfcp::{Cause, Encoding, Message, elements};

use crate::lab::*;

#[test]
fn without_an_association_there_is_no_session() {
    let mut lab = Lab::bare(config());
    let response = lab.establish(establishment());
    assert_eq!((response.cause, response.up_fseid), (Cause::NoAssociation, None));
    assert!(matches!(lab.news[..], [News::Refused { cause: Cause::NoAssociation, .. }]), "{:?}", lab.news);
}

#[test]
fn teids_are_chosen_where_that_is_asked_for() {
    let mut lab = lab();
    let mut request = establishment();
    let choose = FTeid::Choose { v4: true, v6: true, id: Some(3) };
    request.create_pdr[0].pdi.teid = Some(choose);
    let mut other = request.create_pdr[0].clone();
    (other.id, other.precedence) = (PdrId(3), 200);
    request.create_pdr.push(other);
    let response = lab.establish(request.clone());
    assert_eq!(response.created_pdr.iter().map(|pdr| pdr.id).collect::<Vec<_>>(), [PdrId(1), PdrId(3)]);
    assert_eq!(response.created_pdr[0].teid, response.created_pdr[1].teid);
    let Some(FTeid::Fixed { teid, addresses }) = response.created_pdr[0].teid else { panic!("none was chosen") };
    assert_eq!(addresses, Addresses::Both(UPF_N3, UPF_N3_V6));
    let up = packet(UE, SERVER, b"x");
    assert!(lab.send(Side::N3, &from_gnb(&tunnelled(teid, None, &up))).is_some());
    let seid = response.up_fseid.unwrap().seid;
    assert_eq!(lab.delete(seid).cause, Cause::Accepted);
    assert!(lab.send(Side::N3, &from_gnb(&tunnelled(teid, None, &up))).is_none());
    assert_eq!(lab.delete(seid).cause, Cause::SessionNotFound);
}

#[test]
fn what_cannot_be_followed_is_refused_with_cause_element_and_rule() {
    let mut lab = lab();
    lab.session(establishment());
    let fresh = || {
        let mut request = establishment();
        request.cp_fseid.seid += 1;
        request.create_pdr[0].pdi.teid = Some(FTeid::Fixed { teid: 9, addresses: Addresses::V4(UPF_N3) });
        let ue = Addresses::V4([10, 45, 0, 3].into());
        request.create_pdr.iter_mut().for_each(|pdr| pdr.pdi.ue_ip[0].addresses = Some(ue));
        request
    };
    let refused = |change: &dyn Fn(&mut wire::pfcp::message::SessionEstablishmentRequest)| {
        let mut request = fresh();
        change(&mut request);
        request
    };
    let first = Some(FailedRule::Pdr(PdrId(1)));
    let element = |element| Some(OffendingIe(element));
    let cases = [
        (refused(&|r| r.create_pdr.clear()), Cause::MandatoryMissing, element(elements::CREATE_PDR), None),
        (
            refused(&|r| r.create_pdr[0].pdi.teid = establishment().create_pdr[0].pdi.teid),
            Cause::RuleFailure,
            element(elements::F_TEID),
            first,
        ),
        (
            refused(&|r| r.create_pdr[1].pdi.ue_ip = establishment().create_pdr[1].pdi.ue_ip.clone()),
            Cause::RuleFailure,
            element(elements::UE_IP_ADDRESS),
            Some(FailedRule::Pdr(PdrId(2))),
        ),
        (
            refused(&|r| {
                r.create_pdr[0].pdi.teid = Some(FTeid::Fixed { teid: 9, addresses: Addresses::V4(GNB) });
            }),
            Cause::RuleFailure,
            element(elements::F_TEID),
            first,
        ),
        (refused(&|r| r.create_pdr[0].pdi.teid = None), Cause::ConditionalMissing, element(elements::F_TEID), first),
        (
            refused(&|r| r.create_pdr[0].far = Some(FarId(8))),
            Cause::RuleFailure,
            element(elements::FAR_ID),
            Some(FailedRule::Far(FarId(8))),
        ),
        (
            refused(&|r| r.create_pdr[0].qer = vec![QerId(8)]),
            Cause::RuleFailure,
            element(elements::QER_ID),
            Some(FailedRule::Qer(QerId(8))),
        ),
        (
            refused(&|r| r.create_pdr[0].urr = vec![UrrId(8)]),
            Cause::RuleFailure,
            element(elements::URR_ID),
            Some(FailedRule::Urr(UrrId(8))),
        ),
        (
            refused(&|r| r.create_far[1].forwarding = None),
            Cause::ConditionalMissing,
            element(elements::FORWARDING_PARAMETERS),
            Some(FailedRule::Far(FarId(2))),
        ),
        (
            refused(&|r| r.create_pdr[0].pdi.application = Some("video".into())),
            Cause::UnknownApplication,
            element(elements::APPLICATION_ID),
            first,
        ),
        (refused(&|r| r.create_pdr.push(r.create_pdr[0].clone())), Cause::RuleFailure, None, first),
    ];
    for (request, cause, offending, failed) in cases {
        let response = lab.establish(request);
        assert_eq!((response.cause, response.offending, response.failed_rule), (cause, offending, failed));
    }
    assert_eq!(lab.upf.sessions(), 1);
    lab.session(fresh());
}

#[test]
fn a_refused_change_changes_nothing() {
    let mut lab = lab();
    let seid = lab.session(establishment());
    let change = SessionModificationRequest {
        remove_pdr: vec![RemovePdr { id: PdrId(1) }],
        update_far: vec![UpdateFar { id: FarId(8), ..UpdateFar::default() }],
        ..SessionModificationRequest::default()
    };
    let response = lab.modify(seid, change);
    assert_eq!((response.cause, response.failed_rule), (Cause::RuleFailure, Some(FailedRule::Far(FarId(8)))));
    let up = from_gnb(&tunnelled(TEID, None, &packet(UE, SERVER, b"x")));
    assert!(lab.send(Side::N3, &up).is_some());
    let remove = vec![RemovePdr { id: PdrId(1) }];
    let change = SessionModificationRequest { remove_pdr: remove, ..SessionModificationRequest::default() };
    assert_eq!(lab.modify(seid, change).cause, Cause::Accepted);
    assert!(lab.send(Side::N3, &up).is_none());
    assert_eq!(lab.modify(seid + 1, SessionModificationRequest::default()).cause, Cause::SessionNotFound);
}

#[test]
fn a_session_that_is_made_again_replaces_the_old_one() {
    let mut lab = lab();
    let first = lab.session(establishment());
    let second = lab.session(establishment());
    assert_eq!((lab.upf.sessions(), first == second), (1, false));
    assert_eq!(lab.delete(first).cause, Cause::SessionNotFound);
    assert_eq!(lab.delete(second).cause, Cause::Accepted);
}

#[test]
fn associations_end_with_their_sessions() {
    let mut lab = lab();
    lab.session(establishment());
    let node_id = CP.ip().into();
    let setup = AssociationSetupRequest { node_id, recovery: NtpTime(501), up_features: None, cp_features: None };
    lab.request(None, setup);
    assert_eq!(lab.news, [News::Associated { node: CP.ip().into(), ended: 1 }]);
    assert_eq!(lab.upf.sessions(), 0);
    lab.session(establishment());
    lab.news.clear();
    lab.request(None, AssociationReleaseRequest { node_id: CP.ip().into() });
    assert_eq!(lab.news, [News::Released { node: CP.ip().into(), ended: 1 }]);
    assert_eq!((lab.upf.sessions(), lab.establish(establishment()).cause), (0, Cause::NoAssociation));
}

#[test]
fn requests_that_come_again_are_answered_as_before() {
    let mut lab = lab();
    let mut bytes = vec![];
    let message = Message { seid: Some(0), sequence: 7, body: establishment().into() };
    message.write(&mut bytes, Encoding::default()).unwrap();
    for _ in 0..2 {
        lab.upf.message(lab.now, CP, &bytes);
        lab.collect();
    }
    assert_eq!((lab.messages.len(), lab.upf.sessions()), (2, 1));
    assert_eq!(lab.messages[0], lab.messages[1]);
    assert_eq!(lab.upf.counters().repeated, 1);
}

#[test]
fn garbage_is_counted_and_other_versions_answered() {
    let mut lab = lab();
    let heartbeat = HeartbeatRequest { recovery: NtpTime(1) };
    let mut bytes = vec![];
    Message { seid: None, sequence: 9, body: heartbeat.into() }.write(&mut bytes, Encoding::default()).unwrap();
    bytes[0] = 0x40;
    lab.upf.message(lab.now, CP, &bytes);
    lab.collect();
    assert!(matches!(lab.messages.pop().unwrap().1.body, Body::VersionNotSupportedResponse(_)));
    for datagram in [&[][..], &[0x20], &[0x20, 99, 0, 4, 0, 0, 1, 0], &[0x20, 6, 0, 4, 0, 0, 1, 0]] {
        lab.upf.message(lab.now, CP, datagram);
    }
    lab.collect();
    assert_eq!((lab.messages.len(), lab.upf.counters().garbage), (0, 5));
    // A request without what it needs.
    lab.upf.message(lab.now, CP, &[0x21, 50, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0]);
    lab.collect();
    let Body::SessionEstablishmentResponse(response) = lab.messages.pop().unwrap().1.body else { unreachable!() };
    assert_eq!((response.cause, response.offending), (Cause::MandatoryMissing, Some(OffendingIe(elements::NODE_ID))));
}

#[test]
fn a_gnb_that_forgot_its_tunnel_is_reported() {
    let mut lab = lab();
    let seid = lab.session(establishment());
    let mut indication = vec![];
    let about = ErrorIndication { teid: GNB_TEID, peer: GNB.into() };
    gtpu::error_indication(&mut indication, about, 0);
    lab.send(Side::N3, &from_gnb(&indication));
    let (sequence, report) = lab.take_report();
    let remote = FTeid::Fixed { teid: GNB_TEID, addresses: Addresses::V4(GNB) };
    assert_eq!((report.report_type, report.error_indication.unwrap().remote), (ReportType::ERIR, vec![remote]));
    // Whoever does not know the session has no use for it.
    let gone = SessionReportResponse { cause: Cause::SessionNotFound, offending: None, flags: None };
    lab.answer(sequence, Some(seid), gone);
    assert_eq!(lab.upf.sessions(), 0);
}

#[test]
fn reports_are_repeated_and_given_up() {
    let mut lab = lab();
    let mut request = establishment();
    request.create_far[1] =
        CreateFar { id: FarId(2), action: ApplyAction::BUFF | ApplyAction::NOCP, forwarding: None, bar: None };
    lab.session(request);
    lab.send(Side::N6, &from_server(&packet(SERVER, UE, b"x")));
    lab.wait(Span::from_secs(10));
    assert_eq!(lab.messages.len(), 3);
    assert!(lab.messages.iter().all(|message| *message == lab.messages[0]));
    assert_eq!((lab.upf.counters().reports_unanswered, lab.upf.deadline()), (1, None));
}

#[test]
fn a_control_plane_that_restarted_or_is_silent_is_noticed() {
    let mut lab = lab_with(Config { heartbeat: Some(Span::from_secs(10)), ..config() });
    lab.session(establishment());
    let answer = |lab: &mut Lab, recovery| {
        lab.wait(Span::from_secs(10));
        let (_, heartbeat) = lab.messages.remove(0);
        assert_eq!(heartbeat.body, HeartbeatRequest { recovery: NtpTime(1_000) }.into());
        lab.answer(heartbeat.sequence, None, HeartbeatResponse { recovery: NtpTime(recovery) });
    };
    answer(&mut lab, 500);
    assert_eq!((lab.upf.sessions(), lab.news.len()), (1, 0));
    lab.wait(Span::from_secs(13));
    assert_eq!((lab.upf.sessions(), &lab.news[..]), (1, &[News::Silent { node: CP.ip().into() }][..]));
    lab.messages.clear();
    lab.wait(Span::from_secs(7));
    lab.messages.truncate(1);
    let (_, heartbeat) = lab.messages.remove(0);
    lab.answer(heartbeat.sequence, None, HeartbeatResponse { recovery: NtpTime(501) });
    assert_eq!((lab.upf.sessions(), &lab.news[1..]), (0, &[News::Restarted { node: CP.ip().into(), ended: 1 }][..]));
    // Its heartbeats are for nobody now.
    lab.wait(Span::from_secs(60));
    assert_eq!((lab.messages.len(), lab.upf.deadline()), (0, None));
}

#[test]
fn the_control_plane_of_this_crate_and_the_upf_understand_each_other() {
    const SESSIONS: u32 = 10_000;
    let mut upf = Lab::bare(config()).upf;
    let mut control = ControlPlane::new(control::Config::new(CP.ip(), NtpTime(500)), Random::stream(1, "n4"));
    let now = Time::ZERO;
    control.associate(now);
    for n in 0..SESSIONS {
        let ue = Addresses::V4((u32::from(UE) + n).into());
        let spec = SessionSpec {
            ue,
            uplink: FTeid::Choose { v4: true, v6: false, id: None },
            downlink: Some(Peer { teid: n + 1, address: GNB.into() }),
            profile: Profile { qfi: gtpu::Qfi::new(9), ..Profile::default() }.into(),
        };
        control.establish(now, spec);
    }
    let mut established = 0;
    let mut turn = |upf: &mut userplane::upf::Upf, control: &mut ControlPlane| {
        let mut said = false;
        while let Some(output) = control.poll() {
            said = true;
            match output {
                control::Output::Send(bytes) => upf.message(now, CP, &bytes),
                control::Output::Event(Event::Established { .. }) => established += 1,
                control::Output::Event(Event::Failed { .. }) => panic!("{output:?}"),
                control::Output::Event(_) => {}
            }
        }
        while let Some(output) = upf.poll() {
            if let userplane::upf::Output::Message { to, bytes } = output {
                assert_eq!(to, CP);
                control.handle(now, &bytes);
            }
        }
        said
    };
    while turn(&mut upf, &mut control) {}
    assert_eq!(upf.sessions(), SESSIONS as usize);
    control.release(now);
    while turn(&mut upf, &mut control) {}
    assert_eq!((established, upf.sessions(), upf.counters().refused), (SESSIONS, 0, 0));
    assert!(control.sessions() == 0 && IpAddr::from(UPF_N3).is_ipv4());
}

#[test]
fn a_deletion_needs_no_elements() {
    let mut lab = lab();
    let seid = lab.session(establishment());
    let Body::SessionDeletionResponse(response) = lab.request(Some(seid), SessionDeletionRequest {}) else {
        unreachable!()
    };
    assert_eq!((response.cause, lab.upf.sessions()), (Cause::Accepted, 0));
}
