//! Usage reports: by volume, time, period and quota, at the end and on request.

use engine::{Span, Time};
use userplane::upf::{Reason, Side};
use wire::pfcp::Cause;
use wire::pfcp::message::{SessionEstablishmentRequest, SessionModificationRequest, SessionReportResponse};
use wire::pfcp::rules::{CreateUrr, QueryUrr, RemoveUrr, UpdateUrr, UsageReport};
use wire::pfcp::value::{MeasurementMethod, NtpTime, ReportType, ReportingTriggers, UrrId, UsageTrigger, Volumes};

use crate::lab::*;

fn measured(urr: &CreateUrr) -> SessionEstablishmentRequest {
    let mut request = establishment();
    let method = MeasurementMethod::VOLUM | MeasurementMethod::DURAT;
    request.create_urr = vec![CreateUrr { id: UrrId(1), method, ..urr.clone() }];
    request.create_pdr.iter_mut().for_each(|pdr| pdr.urr = vec![UrrId(1)]);
    request
}

/// An uplink packet of 100 bytes.
fn up(lab: &mut Lab) -> bool {
    lab.send(Side::N3, &from_gnb(&tunnelled(TEID, None, &packet(UE, SERVER, &[0; 72])))).is_some()
}

/// A downlink packet of 200 bytes.
fn down(lab: &mut Lab) -> bool {
    lab.send(Side::N6, &from_server(&packet(SERVER, UE, &[0; 172]))).is_some()
}

fn report(lab: &mut Lab) -> UsageReport {
    let (sequence, mut report) = lab.take_report();
    assert_eq!((report.report_type, report.usage.len()), (ReportType::USAR, 1));
    lab.answer(sequence, Some(0), SessionReportResponse { cause: Cause::Accepted, offending: None, flags: None });
    report.usage.remove(0)
}

fn volume(report: &UsageReport) -> [u64; 3] {
    let bytes = report.volume.unwrap().bytes;
    [bytes.total, bytes.uplink, bytes.downlink].map(Option::unwrap)
}

#[test]
fn a_volume_threshold_reports_and_begins_anew() {
    let mut lab = lab();
    let volume_threshold = Some(Volumes { total: Some(500), ..Volumes::default() });
    let triggers = ReportingTriggers::VOLTH;
    let seid = lab.session(measured(&CreateUrr { triggers, volume_threshold, ..CreateUrr::default() }));
    lab.now = Time::from_nanos(7_500_000_000);
    assert!(up(&mut lab) && down(&mut lab));
    assert_eq!(lab.messages, []);
    lab.now = Time::from_nanos(9_500_000_000);
    assert!(down(&mut lab));
    let first = report(&mut lab);
    assert_eq!((first.sequence, first.trigger, volume(&first)), (0, UsageTrigger::VOLTH, [500, 100, 400]));
    assert_eq!((first.start, first.end), (Some(NtpTime(1_000)), Some(NtpTime(1_009))));
    assert_eq!((first.first_packet, first.last_packet), (Some(NtpTime(1_007)), Some(NtpTime(1_009))));
    assert_eq!(first.duration, Some(2));
    for _ in 0..5 {
        up(&mut lab);
    }
    let second = report(&mut lab);
    assert_eq!((second.sequence, volume(&second)), (1, [500, 500, 0]));
    up(&mut lab);
    let last = lab.delete(seid);
    assert_eq!(last.usage.len(), 1);
    assert_eq!(
        (last.usage[0].sequence, last.usage[0].trigger, volume(&last.usage[0])),
        (2, UsageTrigger::TERMR, [100, 100, 0])
    );
}

#[test]
fn a_time_threshold_counts_use_and_not_silence() {
    let mut lab = lab();
    let triggers = ReportingTriggers::TIMTH;
    lab.session(measured(&CreateUrr {
        triggers,
        time_threshold: Some(10),
        inactivity: Some(3),
        ..CreateUrr::default()
    }));
    lab.wait(Span::from_secs(60));
    // Two seconds of use and three of patience, then silence.
    up(&mut lab);
    lab.wait(Span::from_secs(2));
    up(&mut lab);
    lab.wait(Span::from_secs(100));
    assert_eq!(lab.messages, []);
    for _ in 0..4 {
        up(&mut lab);
        lab.wait(Span::from_secs(1));
    }
    assert_eq!(lab.messages, []);
    up(&mut lab);
    lab.wait(Span::from_secs(1));
    let report = report(&mut lab);
    assert_eq!((report.trigger, report.duration), (UsageTrigger::TIMTH, Some(10)));
    assert_eq!(report.end, Some(NtpTime(1_000 + 60 + 2 + 100 + 5)));
}

#[test]
fn periodic_reports_come_without_packets() {
    let mut lab = lab();
    let triggers = ReportingTriggers::PERIO;
    let seid = lab.session(measured(&CreateUrr { triggers, period: Some(5), ..CreateUrr::default() }));
    for sequence in 0..3 {
        lab.wait(Span::from_secs(5));
        let report = report(&mut lab);
        assert_eq!((report.sequence, report.trigger, volume(&report)), (sequence, UsageTrigger::PERIO, [0; 3]));
    }
    lab.delete(seid);
    lab.wait(Span::from_secs(20));
    assert_eq!((lab.messages.len(), lab.upf.deadline()), (0, None));
}

#[test]
fn a_quota_ends_traffic_until_there_is_another() {
    let mut lab = lab();
    let volume_quota = Some(Volumes { uplink: Some(200), ..Volumes::default() });
    let seid = lab.session(measured(&CreateUrr { volume_quota, ..CreateUrr::default() }));
    assert!(up(&mut lab) && up(&mut lab) && !up(&mut lab) && !down(&mut lab));
    assert_eq!(lab.drops, [Reason::Quota; 2]);
    let first = report(&mut lab);
    assert_eq!((first.trigger, volume(&first)), (UsageTrigger::VOLQU, [200, 200, 0]));
    let update = UpdateUrr { id: UrrId(1), volume_quota, ..UpdateUrr::default() };
    let change = SessionModificationRequest { update_urr: vec![update], ..SessionModificationRequest::default() };
    assert_eq!(lab.modify(seid, change).cause, Cause::Accepted);
    assert!(up(&mut lab) && up(&mut lab) && !up(&mut lab));
    assert_eq!(report(&mut lab).trigger, UsageTrigger::VOLQU);
}

#[test]
fn a_time_quota_ends_traffic_at_its_end() {
    let mut lab = lab();
    lab.session(measured(&CreateUrr { time_quota: Some(4), ..CreateUrr::default() }));
    up(&mut lab);
    lab.wait(Span::from_secs(3));
    assert!(up(&mut lab));
    lab.wait(Span::from_secs(1));
    assert_eq!(report(&mut lab).trigger, UsageTrigger::TIMQU);
    assert!(!up(&mut lab));
}

#[test]
fn the_start_of_traffic_is_reported_once() {
    let mut lab = lab();
    lab.session(measured(&CreateUrr { triggers: ReportingTriggers::START, ..CreateUrr::default() }));
    up(&mut lab);
    assert_eq!(report(&mut lab).trigger, UsageTrigger::START);
    up(&mut lab);
    assert_eq!(lab.messages, []);
}

#[test]
fn usage_is_reported_when_asked_for_and_when_its_rule_goes() {
    let mut lab = lab();
    let seid = lab.session(measured(&CreateUrr::default()));
    up(&mut lab);
    let query = SessionModificationRequest { query_urr: vec![QueryUrr { id: UrrId(1) }], ..Default::default() };
    let response = lab.modify(seid, query);
    assert_eq!((response.usage[0].trigger, volume(&response.usage[0])), (UsageTrigger::IMMER, [100, 100, 0]));
    down(&mut lab);
    let remove = SessionModificationRequest { remove_urr: vec![RemoveUrr { id: UrrId(1) }], ..Default::default() };
    let response = lab.modify(seid, remove);
    assert_eq!((response.usage[0].trigger, volume(&response.usage[0])), (UsageTrigger::TERMR, [200, 0, 200]));
    assert!(up(&mut lab));
    assert_eq!(lab.delete(seid).usage, []);
}
