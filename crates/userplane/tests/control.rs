//! What a control plane does when all goes well.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic too")]

mod common;

use std::sync::Arc;

use common::{N4, bytes, config, spec, usage_report};
use engine::Span;
use userplane::control::{Change, Event, Failure, Generation, Peer, Procedure, Profile, Qos, SessionId, Tunnel, Usage};
use wire::gtpu::Qfi;
use wire::pfcp::message::{
    AssociationUpdateRequest, Body, HeartbeatRequest, NodeReportRequest, SessionEstablishmentRequest,
    SessionReportRequest,
};
use wire::pfcp::rules::{DownlinkDataReport, ErrorIndicationReport, PathFailureReport};
use wire::pfcp::value::{
    Addresses, ApplyAction, AssociationRelease, BitRates, FTeid, Gate, GateStatus, Interface, InterfaceType, Name,
    NodeId, NodeReportType, NtpTime, OuterHeaderCreation, PdrId, RemotePeer, ReportType, ReportingTriggers, SdfFilter,
    Timer, UeIp, Volumes,
};
use wire::pfcp::{Cause, MAX_SEQUENCE, Message};

fn only_establishment(messages: &[Message]) -> &SessionEstablishmentRequest {
    match messages {
        [Message { body: Body::SessionEstablishmentRequest(request), .. }] => request,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_session_lives_from_association_to_release() {
    let mut n4 = N4::new(config());
    // Wanted before there is an association.
    let session = n4.control.establish(n4.now, spec(1));
    assert_eq!(n4.control.waiting(), 1);
    n4.control.associate(n4.now);
    n4.run_for(Span::from_millis(100));
    let events = n4.take_events();
    let [Event::Associated { .. }, Event::Established { session: there, uplink, took, restored: false, .. }] =
        &events[..]
    else {
        panic!("{events:?}");
    };
    assert_eq!((*there, *took), (session, Span::from_millis(10)));
    assert_eq!(*uplink, Tunnel { teid: 0x1001, addresses: Addresses::V4([10, 0, 0, 2].into()) });

    let to = Peer { teid: 0x77, address: [10, 0, 0, 4].into() };
    n4.control.modify(n4.now, session, Change::Handover { to, end_marker: true });
    n4.control.release(n4.now);
    n4.run_for(Span::from_millis(100));
    let events = n4.take_events();
    assert!(
        matches!(
            events[..],
            [Event::Modified { .. }, Event::Usage { .. }, Event::Deleted { .. }, Event::Released { agreed: true }]
        ),
        "{events:?}"
    );
    let kinds: Vec<_> = n4.sent().iter().map(|message| (message.body.message_type(), message.seid)).collect();
    assert_eq!(kinds, [(5, None), (50, Some(0)), (52, Some(0x5001)), (54, Some(0x5001)), (9, None)]);
    assert_eq!((n4.control.sessions(), n4.control.deadline()), (0, None));
}

#[test]
fn sequence_numbers_begin_anywhere_and_follow_each_other() {
    let mut n4 = N4::associated(config());
    for ue in 0..3 {
        n4.control.establish(n4.now, spec(ue));
    }
    n4.run_for(Span::from_millis(100));
    let numbers: Vec<_> = n4.sent().iter().map(|message| message.sequence).collect();
    assert_ne!(numbers[0], 0);
    assert!(numbers.windows(2).all(|two| two[1] == (two[0] + 1) & MAX_SEQUENCE), "{numbers:?}");
}

#[test]
fn rules_of_5g_name_flow_tunnel_interfaces_and_networks() {
    let mut n4 = N4::associated(config());
    n4.sent();
    let [access, core] = ["access.lab", "internet"].map(|name| Some(Name::new(name).unwrap()));
    let filter = SdfFilter { description: Some("permit out ip from any to assigned".into()), ..SdfFilter::default() };
    let profile = Profile {
        qfi: Qfi::new(5),
        access_instance: access.clone(),
        core_instance: core.clone(),
        dnn: core.clone(),
        filters: vec![filter.clone()],
        qos: Some(Qos { mbr: Some(BitRates { uplink: 1_000, downlink: 2_000 }), ..Qos::default() }),
        usage: Some(Usage {
            volume_threshold: Some(Volumes { total: Some(1 << 20), ..Volumes::default() }),
            period: Some(10),
            ..Usage::default()
        }),
        predefined: vec!["gold".into()],
        inactivity: Some(60),
        choose_ue: false,
    };
    let mut spec = spec(7);
    spec.profile = Arc::new(profile);
    n4.control.establish(n4.now, spec);
    n4.run_for(Span::from_millis(100));
    let sent = n4.sent();
    let request = only_establishment(&sent);
    let [up, down] = &request.create_pdr[..] else { panic!("{request:?}") };
    assert_eq!((up.pdi.source, down.pdi.source), (Interface::Access, Interface::Core));
    assert_eq!((up.pdi.interface_type, down.pdi.interface_type), (Some(InterfaceType::N3), Some(InterfaceType::N6)));
    assert_eq!((&up.pdi.network_instance, &down.pdi.network_instance), (&access, &core));
    assert_eq!((&up.pdi.qfi[..], &down.pdi.qfi[..]), (&[Qfi::new(5).unwrap()][..], &[][..]));
    assert_eq!((up.pdi.teid.is_some(), down.pdi.teid), (true, None));
    assert_eq!((up.pdi.ue_ip[0].destination, down.pdi.ue_ip[0].destination), (false, true));
    assert!(up.removal.is_some() && down.removal.is_none());
    for pdr in [up, down] {
        assert_eq!(pdr.pdi.sdf, std::slice::from_ref(&filter));
        assert_eq!((pdr.qer.len(), pdr.urr.len(), &pdr.activate[..]), (1, 1, &["gold".into()][..]));
    }
    let [to_core, to_access] = &request.create_far[..] else { panic!("{request:?}") };
    assert_eq!((to_core.action, to_access.action), (ApplyAction::FORW, ApplyAction::FORW));
    let forwarding = to_access.forwarding.as_ref().unwrap();
    let header = OuterHeaderCreation::GtpU { teid: 7, addresses: Addresses::V4([10, 0, 0, 3].into()) };
    assert_eq!((forwarding.creation, forwarding.destination), (Some(header), Interface::Access));
    let qer = &request.create_qer[0];
    assert_eq!((qer.qfi, qer.mbr), (Qfi::new(5), Some(BitRates { uplink: 1_000, downlink: 2_000 })));
    assert_eq!(request.create_urr[0].triggers, ReportingTriggers::VOLTH | ReportingTriggers::PERIO);
    assert_eq!((request.inactivity, &request.dnn), (Some(60), &core));
}

#[test]
fn in_4g_there_is_no_flow_and_the_interfaces_have_other_names() {
    let mut n4 = N4::associated(userplane::control::Config { generation: Generation::FourG, ..config() });
    n4.sent();
    n4.control.establish(n4.now, spec(1));
    n4.run_for(Span::from_millis(100));
    let sent = n4.sent();
    let request = only_establishment(&sent);
    let types: Vec<_> = request.create_pdr.iter().map(|pdr| pdr.pdi.interface_type).collect();
    assert_eq!(types, [Some(InterfaceType::S1_U), Some(InterfaceType::SGI)]);
    assert!(request.create_qer.is_empty() && request.create_pdr.iter().all(|pdr| pdr.pdi.qfi.is_empty()));
}

#[test]
fn addresses_of_ues_can_be_the_choice_of_the_user_plane() {
    let mut n4 = N4::associated(config());
    let mut given = Some(Addresses::V4([10, 45, 0, 77].into()));
    for _ in 0..2 {
        n4.sent();
        let mut spec = spec(1);
        Arc::make_mut(&mut spec.profile).choose_ue = true;
        let session = n4.control.establish(n4.now, spec);
        n4.run_with(Span::from_millis(100), |peer, request| {
            let Body::SessionEstablishmentRequest(wanted) = &request.body else {
                return peer.grant(request).map(|answer| vec![answer]);
            };
            let mut answer = peer.establishment(wanted);
            answer.created_pdr[0].ue_ip.extend(given.map(|addresses| UeIp::new(addresses, false)));
            Some(vec![bytes(Some(wanted.cp_fseid.seid), request.sequence, answer)])
        });
        let events = n4.take_events();
        if let Some(address) = given.take() {
            assert!(matches!(events[..], [Event::Established { ue, .. }] if ue == address), "{events:?}");
            let sent = n4.sent();
            for pdr in &only_establishment(&sent).create_pdr {
                let UeIp { addresses, choose_v4, choose_v6, .. } = pdr.pdi.ue_ip[0];
                assert_eq!((addresses, choose_v4, choose_v6), (None, true, false));
            }
        } else {
            let failure = Failure::NoAddress;
            assert_eq!(events[0], Event::Failed { session, procedure: Procedure::Establishment, failure });
            assert_eq!(events.last(), Some(&Event::Deleted { session }));
        }
    }
}

#[test]
fn changes_of_a_session_go_out_one_after_the_other() {
    let mut n4 = N4::associated(config());
    let session = n4.establish();
    n4.sent();
    let closed = Qos { gate: GateStatus { uplink: Gate::Closed, downlink: Gate::Open }, ..Qos::default() };
    for change in [Change::Buffer, Change::Resume, Change::Drop, Change::Qos(closed), Change::QueryUsage] {
        n4.control.modify(n4.now, session, change);
    }
    n4.run_for(Span::from_millis(100));
    assert_eq!(n4.take_events(), vec![Event::Modified { session }; 5]);
    let actions: Vec<_> = n4
        .sent()
        .into_iter()
        .map(|message| match message.body {
            Body::SessionModificationRequest(request) => (
                request.update_far.first().and_then(|far| far.action),
                request.update_qer.first().and_then(|qer| qer.gate),
            ),
            other => panic!("{other:?}"),
        })
        .collect();
    let far = |action| (Some(action), None);
    assert_eq!(
        actions[..3],
        [far(ApplyAction::BUFF | ApplyAction::NOCP), far(ApplyAction::FORW), far(ApplyAction::DROP)]
    );
    assert_eq!(actions[3..], [(None, Some(closed.gate)), (None, None)]);
}

#[test]
fn a_rate_for_a_session_without_one_makes_the_rule_and_then_changes_it() {
    let mut n4 = N4::associated(config());
    let mut plain = spec(1);
    plain.profile = Arc::default();
    let session = n4.control.establish(n4.now, plain);
    n4.run_for(Span::from_millis(100));
    n4.sent();
    n4.control.modify(n4.now, session, Change::Qos(Qos::default()));
    n4.control.modify(n4.now, session, Change::Qos(Qos::default()));
    n4.run_for(Span::from_millis(100));
    let counts: Vec<_> = n4
        .sent()
        .into_iter()
        .map(|message| match message.body {
            Body::SessionModificationRequest(r) => (r.create_qer.len(), r.update_pdr.len(), r.update_qer.len()),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(counts, [(1, 2, 0), (0, 0, 1)]);
}

#[test]
fn heartbeats_go_both_ways_with_the_same_time_stamp_for_the_whole_run() {
    let mut n4 = N4::associated(config());
    n4.sent();
    n4.run_for(Span::from_secs(60));
    for number in [5, 6] {
        n4.say(&bytes(None, number, HeartbeatRequest { recovery: n4.peer.recovery }));
    }
    let sent = n4.sent();
    let requests = sent.iter().filter(|message| matches!(message.body, Body::HeartbeatRequest(_)));
    assert_eq!(requests.count(), 6);
    let answers: Vec<_> = sent
        .iter()
        .filter_map(|message| match &message.body {
            Body::HeartbeatResponse(answer) => Some((message.sequence, answer.recovery)),
            _ => None,
        })
        .collect();
    assert_eq!(answers, [(5, common::STARTED), (6, common::STARTED)]);
    assert_eq!(n4.take_events(), []);
}

#[test]
fn what_the_user_plane_reports_is_told_and_answered() {
    let mut n4 = N4::associated(config());
    let session = n4.establish();
    n4.sent();
    let node_id = NodeId::V4(common::USER_PLANE.into());
    let remote = vec![FTeid::Fixed { teid: 1, addresses: Addresses::V4([10, 0, 0, 3].into()) }];
    let report = SessionReportRequest {
        report_type: ReportType::DLDR | ReportType::USAR | ReportType::ERIR | ReportType::UPIR,
        downlink_data: Some(DownlinkDataReport { pdr: vec![PdrId(2)] }),
        usage: vec![usage_report()],
        error_indication: Some(ErrorIndicationReport { remote: remote.clone() }),
    };
    let report = bytes(Some(session.0), 1, report);
    n4.say(&report);
    let told = [
        Event::DownlinkData { session },
        Event::Usage { session, report: usage_report() },
        Event::ErrorIndication { session, remote },
        Event::Inactive { session },
    ];
    assert_eq!(n4.take_events(), told);
    // Again, as if our answer were lost: answered again, and nothing happens twice.
    n4.say(&report);
    assert_eq!(n4.take_events(), []);
    assert_eq!(n4.control.counters().repeated, 1);
    let [first, second] = &n4.sent()[..] else { panic!("two answers") };
    assert_eq!(first, second);
    let Body::SessionReportResponse(answer) = &first.body else { panic!("{first:?}") };
    assert_eq!((first.seid, first.sequence, answer.cause), (Some(0x5001), 1, Cause::Accepted));

    let peers = vec![RemotePeer(Addresses::V4([10, 0, 0, 3].into()))];
    let path_failure = Some(PathFailureReport { peers });
    n4.say(&bytes(
        None,
        2,
        NodeReportRequest { node_id: node_id.clone(), report_type: NodeReportType::UPFR, path_failure },
    ));
    n4.say(&bytes(
        None,
        3,
        AssociationUpdateRequest {
            node_id,
            up_features: None,
            cp_features: None,
            release: Some(AssociationRelease::SARR),
            graceful_period: Some(Timer::from_seconds(90)),
        },
    ));
    let told = [Event::PathFailed { peers: vec![[10, 0, 0, 3].into()] }, Event::ReleaseWanted { grace: Some(120) }];
    assert_eq!(n4.take_events(), told);
    assert_eq!(n4.sent().iter().map(|message| message.body.message_type()).collect::<Vec<_>>(), [13, 8]);
    // A session that is not here.
    let unknown = SessionReportRequest {
        report_type: ReportType::DLDR,
        downlink_data: None,
        usage: vec![],
        error_indication: None,
    };
    n4.say(&bytes(Some(0xdead), 4, unknown));
    let [Message { seid: Some(0), body: Body::SessionReportResponse(answer), .. }] = &n4.sent()[..] else { panic!() };
    assert_eq!(answer.cause, Cause::SessionNotFound);
}

#[test]
fn an_association_is_updated_or_set_up_by_the_user_plane() {
    let mut n4 = N4::new(config());
    let node_id = NodeId::V4(common::USER_PLANE.into());
    let session = n4.control.establish(n4.now, spec(1));
    let setup = wire::pfcp::message::AssociationSetupRequest {
        node_id,
        recovery: n4.peer.recovery,
        up_features: None,
        cp_features: None,
    };
    n4.say(&bytes(None, 1, setup.clone()));
    n4.control.update(n4.now);
    n4.run_for(Span::from_millis(100));
    let events = n4.take_events();
    assert!(
        matches!(
            events[..],
            [Event::Associated { .. }, Event::Established { .. }, Event::Updated { features: Some(_) }]
        ),
        "{events:?}"
    );
    // Set up anew: the session is made again.
    n4.say(&bytes(None, 2, setup));
    n4.run_for(Span::from_millis(100));
    let events = n4.take_events();
    assert!(
        matches!(
            events[..],
            [Event::PeerRestarted { lost: 1 }, Event::Associated { .. }, Event::Established { session: again, restored: true, .. }]
            if again == session
        ),
        "{events:?}"
    );
}

#[test]
fn ten_thousand_sessions_go_through_a_window_and_away_again() {
    let mut n4 = N4::associated(userplane::control::Config { window: 32, ..config() });
    n4.peer.received.clear();
    let sessions: Vec<SessionId> = (0..10_000).map(|ue| n4.control.establish(n4.now, spec(ue))).collect();
    let mut most = 0;
    while !n4.control.is_idle() {
        n4.run_for(Span::from_millis(1));
        most = most.max(n4.back.len());
        assert!(n4.now < engine::Time::ZERO + Span::from_secs(60));
    }
    assert_eq!(most, 32);
    let established: Vec<_> = n4
        .take_events()
        .into_iter()
        .map(|event| match event {
            Event::Established { session, .. } => session,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(established, sessions);
    n4.control.release(n4.now);
    n4.run_for(Span::from_secs(10));
    let events = n4.take_events();
    assert_eq!(events.iter().filter(|event| matches!(event, Event::Deleted { .. })).count(), 10_000);
    assert_eq!(events.last(), Some(&Event::Released { agreed: true }));
    assert_eq!(n4.control.counters().retransmitted, 0);
}

#[test]
fn the_recovery_time_is_the_one_of_1900() {
    // 2026-11-21 00:00:00 UTC.
    let time = NtpTime::from_unix(1_795_219_200);
    assert_eq!((time.0, time.to_unix()), (4_004_208_000, 1_795_219_200));
    // The era that begins in 2036.
    assert_eq!(NtpTime(0).to_unix(), 2_085_978_496);
}
