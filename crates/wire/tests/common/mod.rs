//! Every PFCP message with every element it can have.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic too")]

use wire::gtpu::Qfi;
use wire::pfcp::message::*;
use wire::pfcp::rules::*;
use wire::pfcp::value::*;
use wire::pfcp::{Cause, Message};

/// A message, and what tshark is to find in it: fields with their values in order.
pub(crate) type Sample = (Message, Vec<(&'static str, &'static str)>);

/// The beginning of 2026-11-21.
pub(crate) const RECOVERY: NtpTime = NtpTime(4_004_208_000);
const NEVER: &str = "";

fn both() -> Addresses {
    Addresses::Both([10, 0, 0, 1].into(), [0xfd00, 0, 0, 0, 0, 0, 0, 1].into())
}

fn v4(last: u8) -> Addresses {
    Addresses::V4([10, 0, 0, last].into())
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn node_id() -> NodeId {
    NodeId::V4([10, 0, 0, 9].into())
}

fn qfi(number: u8) -> Option<Qfi> {
    Qfi::new(number)
}

fn volumes(first: u64) -> Volumes {
    Volumes { total: Some(first), uplink: Some(first + 1), downlink: Some(first + 2) }
}

fn usage_report() -> UsageReport {
    UsageReport {
        id: UrrId(61),
        sequence: 4,
        trigger: UsageTrigger::VOLTH | UsageTrigger::TERMR,
        start: Some(RECOVERY),
        end: Some(NtpTime(RECOVERY.0 + 60)),
        volume: Some(VolumeMeasurement { bytes: volumes(5_000), packets: volumes(50) }),
        duration: Some(60),
        first_packet: Some(NtpTime(RECOVERY.0 + 1)),
        last_packet: Some(NtpTime(RECOVERY.0 + 59)),
    }
}

const USAGE_FIELDS: [(&str, &str); 9] = [
    ("pfcp.urr_id", "61"),
    ("pfcp.ur_seqn", "4"),
    ("pfcp.usage_report_trigger_flags.volth", "1"),
    ("pfcp.usage_report_trigger.term", "1"),
    ("pfcp.volume_measurement.tovol", "5000"),
    ("pfcp.volume_measurement.dlvol", "5002"),
    ("pfcp.volume_measurement.ulnop", "51"),
    ("pfcp.volume_measurement.dlnop", "52"),
    ("pfcp.duration_measurement", "60"),
];

fn create_pdr() -> CreatePdr {
    CreatePdr {
        id: PdrId(0x102),
        precedence: 255,
        pdi: Pdi {
            source: Interface::Core,
            teid: Some(FTeid::Fixed { teid: 0x0a0b_0c0d, addresses: both() }),
            network_instance: Some(name("internet.lab")),
            ue_ip: vec![UeIp { prefix_length: Some(56), ..UeIp::new(both(), true) }],
            traffic_endpoint: None,
            sdf: vec![SdfFilter {
                description: Some("permit out 17 from 10.0.0.0/8 to assigned 5000-6000".into()),
                tos: Some(0xb8fc),
                spi: Some(0xdead_0001),
                flow_label: Some(0x1_2345),
                id: Some(77),
            }],
            application: Some("video".into()),
            qfi: vec![qfi(9).unwrap(), qfi(10).unwrap()],
            interface_type: Some(InterfaceType::N6),
        },
        removal: Some(OuterHeaderRemoval::GTPU),
        far: Some(FarId(0x203)),
        urr: vec![UrrId(61), UrrId(62)],
        qer: vec![QerId(71)],
        activate: vec!["gold".into()],
    }
}

fn create_far() -> CreateFar {
    let forwarding = ForwardingParameters {
        destination: Interface::Access,
        network_instance: Some(name("access")),
        creation: Some(OuterHeaderCreation::GtpU { teid: 0x0102_0304, addresses: v4(3) }),
        marking: Some(TransportMarking(0xb8fc)),
        interface_type: Some(InterfaceType::N3),
    };
    let action = ApplyAction::FORW | ApplyAction::NOCP;
    CreateFar { id: FarId(0x203), action, forwarding: Some(forwarding), bar: Some(BarId(5)) }
}

fn create_urr() -> CreateUrr {
    CreateUrr {
        id: UrrId(61),
        method: MeasurementMethod::VOLUM | MeasurementMethod::DURAT,
        triggers: ReportingTriggers::PERIO | ReportingTriggers::VOLTH | ReportingTriggers::VOLQU,
        period: Some(10),
        volume_threshold: Some(volumes(1_000)),
        volume_quota: Some(volumes(2_000)),
        time_threshold: Some(30),
        time_quota: Some(40),
        inactivity: Some(50),
    }
}

fn create_qer() -> CreateQer {
    CreateQer {
        id: QerId(71),
        gate: GateStatus { uplink: Gate::Closed, downlink: Gate::Open },
        mbr: Some(BitRates { uplink: 1_000_000, downlink: (1 << 40) - 1 }),
        gbr: Some(BitRates { uplink: 10, downlink: 20 }),
        qfi: qfi(9),
        rqi: Some(1),
    }
}

fn create_bar() -> CreateBar {
    CreateBar { id: BarId(5), delay: Some(2), packets: Some(20) }
}

fn created_pdr() -> CreatedPdr {
    let teid = Some(FTeid::Fixed { teid: 0x8000_0001, addresses: v4(2) });
    CreatedPdr { id: PdrId(0x102), teid, ue_ip: vec![UeIp::new(v4(44), false)] }
}

fn modification() -> SessionModificationRequest {
    let create = create_pdr();
    let bar = create_bar();
    SessionModificationRequest {
        cp_fseid: Some(FSeid { seid: 0x1112_1314_1516_1718, addresses: v4(1) }),
        remove_pdr: vec![RemovePdr { id: PdrId(11) }],
        remove_far: vec![RemoveFar { id: FarId(12) }],
        remove_urr: vec![RemoveUrr { id: UrrId(13) }],
        remove_qer: vec![RemoveQer { id: QerId(14) }],
        remove_bar: Some(RemoveBar { id: BarId(15) }),
        create_pdr: vec![create.clone()],
        create_far: vec![create_far()],
        create_urr: vec![create_urr()],
        create_qer: vec![create_qer()],
        create_bar: Some(bar.clone()),
        update_pdr: vec![UpdatePdr {
            id: PdrId(21),
            removal: Some(OuterHeaderRemoval::GTPU_V6),
            precedence: Some(9),
            pdi: Some(create.pdi),
            far: Some(FarId(22)),
            urr: vec![UrrId(23)],
            qer: vec![QerId(24)],
            activate: vec!["gold".into()],
            deactivate: vec!["silver".into()],
        }],
        update_far: vec![UpdateFar {
            id: FarId(25),
            action: Some(ApplyAction::BUFF),
            forwarding: Some(UpdateForwardingParameters {
                destination: Some(Interface::Access),
                network_instance: Some(name("access")),
                creation: Some(OuterHeaderCreation::GtpU { teid: 0x55, addresses: both() }),
                marking: Some(TransportMarking(0xb8fc)),
                flags: Some(ModificationFlags::SNDEM),
                interface_type: Some(InterfaceType::N3),
            }),
            bar: Some(BarId(5)),
        }],
        update_urr: vec![UpdateUrr {
            id: UrrId(26),
            method: Some(MeasurementMethod::VOLUM),
            triggers: Some(ReportingTriggers::TIMTH),
            period: Some(1),
            volume_threshold: Some(volumes(1)),
            volume_quota: Some(volumes(1)),
            time_threshold: Some(2),
            time_quota: Some(3),
            inactivity: Some(4),
        }],
        update_qer: vec![UpdateQer {
            id: QerId(27),
            gate: Some(GateStatus { uplink: Gate::Open, downlink: Gate::Closed }),
            mbr: Some(BitRates { uplink: 1, downlink: 2 }),
            gbr: Some(BitRates { uplink: 3, downlink: 4 }),
            qfi: qfi(63),
            rqi: Some(0),
        }],
        update_bar: Some(UpdateBar { id: bar.id, delay: bar.delay, packets: bar.packets }),
        flags: Some(ModificationFlags::QAURR | ModificationFlags::DROBU),
        query_urr: vec![QueryUrr { id: UrrId(61) }],
        inactivity: Some(90),
    }
}

fn nodes() -> Vec<(Body, Vec<(&'static str, &'static str)>)> {
    let accepted = Cause::Accepted;
    let (some_id, offending) = (Some(node_id()), Some(OffendingIe(60)));
    let recovery = ("pfcp.recovery_time_stamp", "Nov 21, 2026 00:00:00.000000000 UTC");
    vec![
        (HeartbeatRequest { recovery: RECOVERY }.into(), vec![recovery]),
        (HeartbeatResponse { recovery: RECOVERY }.into(), vec![recovery]),
        (
            AssociationSetupRequest {
                node_id: NodeId::Fqdn(name("smf.lab.example")),
                recovery: RECOVERY,
                up_features: None,
                cp_features: Some(CpFeatures::LOAD | CpFeatures::BUNDL),
            }
            .into(),
            vec![
                ("pfcp.node_id_fqdn", "smf.lab.example"),
                recovery,
                ("pfcp.cp_function_features.load", "1"),
                ("pfcp.cp_function_features.ovrl", "0"),
                ("pfcp.cp_function_features.bundl", "1"),
            ],
        ),
        (
            AssociationSetupResponse {
                node_id: Some(NodeId::V6([0xfd00, 0, 0, 0, 0, 0, 0, 2].into())),
                cause: accepted,
                recovery: Some(RECOVERY),
                up_features: Some(UpFeatures::FTUP | UpFeatures::EMPU | UpFeatures::UEIP | UpFeatures::BUNDL),
                cp_features: None,
                offending: None,
            }
            .into(),
            vec![
                ("pfcp.node_id_ipv6", "fd00::2"),
                ("pfcp.cause", "1"),
                ("pfcp.up_function_features.ftup", "1"),
                ("pfcp.up_function_features.bucp", "0"),
                ("pfcp.up_function_features.empu", "1"),
                ("pfcp.up_function_features.ueip", "1"),
                ("pfcp.up_function_features.bundl", "1"),
            ],
        ),
        (
            AssociationUpdateRequest {
                node_id: node_id(),
                up_features: Some(UpFeatures::DDND | UpFeatures::DLBD),
                cp_features: None,
                release: Some(AssociationRelease::SARR),
                graceful_period: Some(Timer::from_seconds(90)),
            }
            .into(),
            vec![
                ("pfcp.node_id_ipv4", "10.0.0.9"),
                ("pfcp.up_function_features.ddnd", "1"),
                ("pfcp.timer_unit", "1"),
                ("pfcp.timer_value", "2"),
            ],
        ),
        (
            AssociationUpdateResponse {
                node_id: some_id.clone(),
                cause: accepted,
                up_features: Some(UpFeatures::BUCP),
                cp_features: Some(CpFeatures::OVRL),
            }
            .into(),
            vec![("pfcp.cause", "1"), ("pfcp.cp_function_features.ovrl", "1")],
        ),
        (AssociationReleaseRequest { node_id: node_id() }.into(), vec![("pfcp.node_id_ipv4", "10.0.0.9")]),
        (
            AssociationReleaseResponse { node_id: some_id.clone(), cause: Cause::NoAssociation }.into(),
            vec![("pfcp.cause", "72")],
        ),
        (VersionNotSupportedResponse {}.into(), vec![("pfcp.cause", NEVER)]),
        (
            NodeReportRequest {
                node_id: node_id(),
                report_type: NodeReportType::UPFR,
                path_failure: Some(PathFailureReport { peers: vec![RemotePeer(both())] }),
            }
            .into(),
            vec![
                ("pfcp.node_report_type.upfr", "1"),
                ("pfcp.node_id_ipv4", "10.0.0.9,10.0.0.1"),
                ("pfcp.node_id_ipv6", "fd00::1"),
            ],
        ),
        (
            NodeReportResponse { node_id: some_id.clone(), cause: Cause::InvalidLength, offending }.into(),
            vec![("pfcp.cause", "68"), ("pfcp.offending_ie", "60")],
        ),
        (SessionSetDeletionRequest { node_id: node_id() }.into(), vec![("pfcp.node_id_ipv4", "10.0.0.9")]),
        (
            SessionSetDeletionResponse { node_id: some_id, cause: Cause::NotSupported, offending: None }.into(),
            vec![("pfcp.cause", "76")],
        ),
    ]
}

fn sessions() -> Vec<(Body, Vec<(&'static str, &'static str)>)> {
    let offending = Some(OffendingIe(21));
    let with_usage = |more: &[(&'static str, &'static str)]| [more, &USAGE_FIELDS].concat();
    vec![
        (
            SessionEstablishmentRequest {
                node_id: node_id(),
                cp_fseid: FSeid { seid: 0x0102_0304_0506_0708, addresses: both() },
                create_pdr: vec![create_pdr()],
                create_far: vec![create_far()],
                create_urr: vec![create_urr()],
                create_qer: vec![create_qer()],
                create_bar: Some(create_bar()),
                pdn_type: Some(PdnType::Ipv4v6),
                inactivity: Some(90),
                dnn: Some(name("internet")),
            }
            .into(),
            vec![
                ("pfcp.f_seid.ipv4", "10.0.0.1"),
                ("pfcp.f_seid.ipv6", "fd00::1"),
                ("pfcp.pdr_id", "258"),
                ("pfcp.precedence", "255"),
                ("pfcp.source_interface", "1"),
                ("pfcp.f_teid.teid", "0x0a0b0c0d"),
                ("pfcp.f_teid.ipv4_addr", "10.0.0.1"),
                ("pfcp.f_teid.ipv6_addr", "fd00::1"),
                ("pfcp.network_instance", "internet.lab,access"),
                ("pfcp.ue_ip_address_flag.sd", "1"),
                ("pfcp.ue_ip_addr_ipv4", "10.0.0.1"),
                ("pfcp.ue_ip_addr_ipv6", "fd00::1"),
                ("pfcp.ue_ip_addr_ipv6_prefix_length", "56"),
                ("pfcp.flow_desc", "permit out 17 from 10.0.0.0/8 to assigned 5000-6000"),
                ("pfcp.spi", "0xdead0001"),
                ("pfcp.flow_label", "0x012345"),
                ("pfcp.sdf_filter_id", "77"),
                ("pfcp.application_id_str", "video"),
                ("pfcp.qfi_value", "0x09,0x0a,0x09"),
                ("pfcp.tgpp_interface_type", "17,11"),
                ("pfcp.out_hdr_desc", "6"),
                ("pfcp.far_id", "515,515"),
                ("pfcp.urr_id", "61,62,61"),
                ("pfcp.qer_id", "71,71"),
                ("pfcp.predef_rules_name", "676f6c64"),
                ("pfcp.apply_action.forw", "1"),
                ("pfcp.apply_action.buff", "0"),
                ("pfcp.apply_action.nocp", "1"),
                ("pfcp.dst_interface", "0"),
                ("pfcp.outer_hdr_creation.teid", "0x01020304"),
                ("pfcp.outer_hdr_creation.ipv4", "10.0.0.3"),
                ("pfcp.bar_id", "5,5"),
                ("pfcp.measurement_method_flags.durat", "1"),
                ("pfcp.measurement_method_flags.volume", "1"),
                ("pfcp.reporting_triggers_flags.perio", "1"),
                ("pfcp.reporting_triggers_flags.volqu", "1"),
                ("pfcp.reporting_triggers_flags.timqu", "0"),
                ("pfcp.measurement_period", "10"),
                ("pfcp.volume_threshold.tovol", "1000"),
                ("pfcp.volume_threshold.dlvol", "1002"),
                ("pfcp.volume_quota.ulvol", "2001"),
                ("pfcp.time_threshold", "30"),
                ("pfcp.time_quota", "40"),
                ("pfcp.inactivity_detection_time", "50"),
                ("pfcp.gate_status.ulgate", "1"),
                ("pfcp.gate_status.dlgate", "0"),
                ("pfcp.ul_mbr", "1000000"),
                ("pfcp.dl_mbr", "1099511627775"),
                ("pfcp.ul_gbr", "10"),
                ("pfcp.dl_gbr", "20"),
                ("pfcp.pdn_type", "3"),
                ("pfcp.user_plane_inactivity_time", "90"),
                ("pfcp.apn_dnn", "internet"),
            ],
        ),
        (
            SessionEstablishmentResponse {
                node_id: Some(node_id()),
                cause: Cause::Accepted,
                offending: None,
                up_fseid: Some(FSeid { seid: 9, addresses: v4(2) }),
                created_pdr: vec![created_pdr()],
                failed_rule: None,
            }
            .into(),
            vec![
                ("pfcp.f_teid.teid", "0x80000001"),
                ("pfcp.ue_ip_addr_ipv4", "10.0.0.44"),
                ("pfcp.ue_ip_address_flag.sd", "0"),
            ],
        ),
        (
            SessionEstablishmentResponse {
                node_id: Some(node_id()),
                cause: Cause::RuleFailure,
                offending,
                up_fseid: None,
                created_pdr: vec![],
                failed_rule: Some(FailedRule::Far(FarId(3))),
            }
            .into(),
            vec![
                ("pfcp.cause", "73"),
                ("pfcp.offending_ie", "21"),
                ("pfcp.failed_rule_id_type", "1"),
                ("pfcp.far_id", "3"),
            ],
        ),
        (
            modification().into(),
            vec![
                ("pfcp.pdr_id", "11,258,21"),
                ("pfcp.far_id", "12,515,515,22,25"),
                ("pfcp.qer_id", "14,71,71,24,27"),
                ("pfcp.urr_id", "13,61,62,61,23,26,61"),
                ("pfcp.bar_id", "15,5,5,5,5"),
                ("pfcp.outer_hdr_creation.teid", "0x01020304,0x00000055"),
                ("pfcp.outer_hdr_creation.ipv6", "fd00::1"),
                ("pfcp.smreq_flags.sndem", "1,0"),
                ("pfcp.smreq_flags.qaurr", "0,1"),
                ("pfcp.smreq_flags.drobu", "0,1"),
                ("pfcp.predef_rules_name", "676f6c64,676f6c64,73696c766572"),
                ("pfcp.gate_status.dlgate", "0,1"),
            ],
        ),
        (
            SessionModificationResponse {
                cause: Cause::Accepted,
                offending: None,
                created_pdr: vec![created_pdr()],
                usage: vec![usage_report()],
                failed_rule: None,
            }
            .into(),
            with_usage(&[("pfcp.f_teid.teid", "0x80000001")]),
        ),
        (SessionDeletionRequest {}.into(), vec![("pfcp.cause", NEVER)]),
        (
            SessionDeletionResponse { cause: Cause::Accepted, offending: None, usage: vec![usage_report()] }.into(),
            with_usage(&[("pfcp.cause", "1")]),
        ),
        (
            SessionReportRequest {
                report_type: ReportType::DLDR | ReportType::USAR | ReportType::ERIR,
                downlink_data: Some(DownlinkDataReport { pdr: vec![PdrId(2)] }),
                usage: vec![usage_report()],
                error_indication: Some(ErrorIndicationReport {
                    remote: vec![FTeid::Fixed { teid: 7, addresses: v4(3) }],
                }),
            }
            .into(),
            with_usage(&[
                ("pfcp.report_type.dldr", "1"),
                ("pfcp.report_type.upir", "0"),
                ("pfcp.pdr_id", "2"),
                ("pfcp.f_teid.teid", "0x00000007"),
            ]),
        ),
        (
            SessionReportResponse {
                cause: Cause::SessionNotFound,
                offending: None,
                flags: Some(ReportResponseFlags::DROBU),
            }
            .into(),
            vec![("pfcp.cause", "65"), ("pfcp.srrsp_flags.drobu", "1")],
        ),
    ]
}

/// A sample of each message, numbered from 1.
pub(crate) fn samples() -> Vec<Sample> {
    let of_sessions = sessions().into_iter().map(|(body, fields)| (Some(0x7172_7374_7576_7778), body, fields));
    let of_nodes = nodes().into_iter().map(|(body, fields)| (None, body, fields));
    let sample = |(sequence, (seid, body, fields))| (Message { seid, sequence, body }, fields);
    (1..).zip(of_nodes.chain(of_sessions)).map(sample).collect()
}
