//! What rules do: precedence, filters, gates, rates, buffering, end markers.

use engine::Span;
use userplane::upf::{Config, Predefined, Reason, Side};
use wire::gtpu::{Gtpu, Message};
use wire::pfcp::Cause;
use wire::pfcp::message::{SessionModificationRequest, SessionReportResponse};
use wire::pfcp::rules::{CreateBar, CreateFar, CreatePdr, CreateQer, UpdateFar, UpdateForwardingParameters, UpdateQer};
use wire::pfcp::value::{
    ApplyAction, BarId, BitRates, FarId, Gate, GateStatus, Interface as PfcpInterface, ModificationFlags,
    OuterHeaderCreation, PdrId, QerId, ReportResponseFlags, ReportType, SdfFilter,
};

use crate::lab::*;

fn sdf(text: &str) -> SdfFilter {
    SdfFilter { description: Some(text.into()), ..SdfFilter::default() }
}

#[test]
fn the_rule_with_the_least_precedence_value_that_fits_is_taken() {
    let mut lab = lab();
    let mut request = establishment();
    let drop = CreateFar { id: FarId(3), action: ApplyAction::DROP, forwarding: None, bar: None };
    request.create_far.push(drop);
    let base = request.create_pdr.clone();
    for (id, from) in [(3, 0), (4, 1)] {
        let mut pdr = CreatePdr { id: PdrId(id), precedence: 10, far: Some(FarId(3)), ..base[from].clone() };
        pdr.pdi.sdf = vec![sdf("permit out 17 from any 2000 to assigned 1000")];
        request.create_pdr.push(pdr);
    }
    lab.session(request);
    // Uplink the filter's ends change places: the packet goes to port 2000.
    assert_eq!(lab.send(Side::N3, &from_gnb(&tunnelled(TEID, None, &packet(UE, SERVER, b"x")))), None);
    assert_eq!(lab.drops, [Reason::Rule]);
    // Downlink it comes from port 1000, which is not the filter's.
    assert!(lab.send(Side::N6, &from_server(&packet(SERVER, UE, b"x"))).is_some());
}

#[test]
fn a_filter_may_name_type_of_service_and_refer_to_another_one() {
    let mut lab = lab();
    let mut request = establishment();
    request.create_pdr[0].pdi.sdf = vec![SdfFilter { tos: Some(0xb8fc), id: Some(7), ..SdfFilter::default() }];
    request.create_pdr[1].pdi.sdf = vec![SdfFilter { id: Some(7), ..SdfFilter::default() }];
    lab.session(request);
    let plain = packet(SERVER, UE, b"x");
    assert_eq!(lab.send(Side::N6, &from_server(&plain)), None);
    let mut marked = plain;
    let headers = wire::Headers::of_network(0x0800, &marked);
    wire::set_dscp(&mut marked, &headers, 46);
    assert!(lab.send(Side::N6, &from_server(&marked)).is_some());
    assert_eq!(lab.drops, [Reason::NoRule]);
}

#[test]
fn predefined_rules_are_activated_by_name() {
    let web =
        Predefined { name: "web".into(), filters: vec!["permit out 17 from any 2000 to assigned".parse().unwrap()] };
    let mut lab = lab_with(Config { predefined: vec![web], ..config() });
    let mut request = establishment();
    request.create_pdr[0].activate = vec!["web".into()];
    request.create_pdr[0].far = None;
    request.create_far.remove(0);
    let mut unknown = request.clone();
    unknown.create_pdr[0].activate = vec!["voice".into()];
    assert_eq!(lab.establish(unknown).cause, Cause::UnknownPredefinedRule);
    lab.session(request);
    assert!(lab.send(Side::N3, &from_gnb(&tunnelled(TEID, None, &packet(UE, SERVER, b"x")))).is_some());
}

#[test]
fn gates_close_and_rates_hold() {
    let mut lab = lab();
    let mut request = establishment();
    // 1 Mbit/s down with a burst of 100 ms: 12,500 bytes, and the packet that begins before their end.
    let mbr = Some(BitRates { uplink: 5_000, downlink: 1_000 });
    request.create_qer = vec![CreateQer { id: QerId(4), mbr, ..CreateQer::default() }];
    request.create_pdr.iter_mut().for_each(|pdr| pdr.qer = vec![QerId(4)]);
    let seid = lab.session(request);
    let down = from_server(&packet(SERVER, UE, &[0; 1_222]));
    let passed = |lab: &mut Lab| (0..100).filter(|_| lab.send(Side::N6, &down).is_some()).count();
    assert_eq!(passed(&mut lab), 11);
    assert_eq!(lab.drops, [Reason::Rate; 89]);
    lab.wait(Span::from_millis(50));
    assert_eq!(passed(&mut lab), 5);
    let gate = Some(GateStatus { uplink: Gate::Open, downlink: Gate::Closed });
    let update = UpdateQer { id: QerId(4), gate, mbr: None, gbr: None, qfi: None, rqi: None };
    let change = SessionModificationRequest { update_qer: vec![update], ..SessionModificationRequest::default() };
    assert_eq!(lab.modify(seid, change).cause, Cause::Accepted);
    lab.drops.clear();
    lab.wait(Span::from_secs(1));
    assert_eq!(passed(&mut lab), 0);
    assert_eq!(lab.drops, [Reason::Gate; 100]);
    assert!(lab.send(Side::N3, &from_gnb(&tunnelled(TEID, None, &packet(UE, SERVER, b"x")))).is_some());
}

fn downlink_far(action: ApplyAction, forwarding: Option<UpdateForwardingParameters>) -> SessionModificationRequest {
    let far = UpdateFar { id: FarId(2), action: Some(action), forwarding, bar: None };
    SessionModificationRequest { update_far: vec![far], ..SessionModificationRequest::default() }
}

#[test]
fn packets_are_buffered_told_of_once_and_sent_in_order() {
    let mut lab = lab();
    let seid = lab.session(establishment());
    let buffer = downlink_far(ApplyAction::BUFF | ApplyAction::NOCP, None);
    assert_eq!(lab.modify(seid, buffer).cause, Cause::Accepted);
    let down = |n: u8| packet(SERVER, UE, &[n]);
    for n in 0..70 {
        assert_eq!(lab.send(Side::N6, &from_server(&down(n))), None);
    }
    assert_eq!(lab.drops, [Reason::Buffer; 6]);
    let (sequence, report) = lab.take_report();
    assert_eq!((report.report_type, report.downlink_data.unwrap().pdr), (ReportType::DLDR, vec![PdrId(2)]));
    lab.answer(sequence, Some(seid), SessionReportResponse { cause: Cause::Accepted, offending: None, flags: None });
    let gnb = UpdateForwardingParameters {
        destination: Some(PfcpInterface::Access),
        creation: Some(OuterHeaderCreation::GtpU { teid: 9, addresses: std::net::IpAddr::from(GNB).into() }),
        ..UpdateForwardingParameters::default()
    };
    assert_eq!(lab.modify(seid, downlink_far(ApplyAction::FORW, Some(gnb))).cause, Cause::Accepted);
    let frames = std::mem::take(&mut lab.frames);
    assert_eq!(frames.len(), 64);
    for (n, (side, frame)) in (0..).zip(&frames) {
        let (message, inner) = user_packet(frame);
        assert_eq!((*side, message.teid, inner), (Side::N3, 9, &hop(&down(n))[..]));
    }
    assert_eq!(lab.upf.counters().buffered, 64);
    assert!(lab.send(Side::N6, &from_server(&down(0))).is_some());
}

#[test]
fn a_buffer_is_as_long_as_its_rule_says_and_is_emptied_when_told() {
    let limits = userplane::upf::Limits { packets: 3, ..Default::default() };
    let mut lab = lab_with(Config { limits, ..config() });
    let mut request = establishment();
    request.create_bar = Some(CreateBar { id: BarId(1), delay: None, packets: Some(2) });
    request.create_far[1] = CreateFar {
        id: FarId(2),
        action: ApplyAction::BUFF | ApplyAction::NOCP,
        forwarding: None,
        bar: Some(BarId(1)),
    };
    let seid = lab.session(request);
    let down = from_server(&packet(SERVER, UE, b"x"));
    (0..3).for_each(|_| assert_eq!(lab.send(Side::N6, &down), None));
    assert_eq!(lab.drops, [Reason::Buffer]);
    let (sequence, _) = lab.take_report();
    let flags = Some(ReportResponseFlags::DROBU);
    lab.answer(sequence, Some(seid), SessionReportResponse { cause: Cause::Accepted, offending: None, flags });
    assert_eq!(lab.drops, [Reason::Buffer, Reason::Discarded, Reason::Discarded]);
    // There is room again, and the control plane is told again.
    lab.send(Side::N6, &down);
    lab.take_report();
    let empty =
        SessionModificationRequest { flags: Some(ModificationFlags::DROBU), ..SessionModificationRequest::default() };
    lab.modify(seid, empty);
    assert_eq!(lab.drops.len(), 4);
    lab.send(Side::N6, &down);
    lab.modify(seid, downlink_far(ApplyAction::DROP, None));
    assert_eq!(lab.drops.len(), 5);
    assert_eq!(lab.upf.counters().dropped(Reason::Discarded), 4);
    // Over all sessions there is a limit too.
    lab.modify(seid, downlink_far(ApplyAction::BUFF, None));
    lab.send(Side::N6, &down);
    lab.delete(seid);
    assert_eq!(lab.upf.counters().dropped(Reason::Discarded), 5);
}

#[test]
fn the_old_path_ends_with_a_marker_where_that_is_asked_for() {
    let mut lab = lab();
    let seid = lab.session(establishment());
    let handover = |teid, flags| {
        let creation = Some(OuterHeaderCreation::GtpU { teid, addresses: std::net::IpAddr::from(GNB).into() });
        let forwarding = UpdateForwardingParameters { creation, flags, ..UpdateForwardingParameters::default() };
        downlink_far(ApplyAction::FORW, Some(forwarding))
    };
    lab.modify(seid, handover(5, None));
    assert_eq!(lab.frames, []);
    lab.modify(seid, handover(6, Some(ModificationFlags::SNDEM)));
    let marker = lab.take_frame(Side::N3);
    let message = Gtpu::parse(unwrap(&marker)).unwrap();
    assert_eq!((message.message, message.teid), (Message::EndMarker, 5));
    let (_, frame) = lab.send(Side::N6, &from_server(&packet(SERVER, UE, b"x"))).unwrap();
    assert_eq!(user_packet(&frame).0.teid, 6);
    assert_eq!(lab.upf.counters().end_markers, 1);
}
