//! Rules and reports: the grouped information elements (TS 29.244 7.5).

use super::Vec;
use super::codec::group;
use super::value::{
    ApplyAction, BarId, BitRates, FTeid, FarId, GateStatus, Interface, InterfaceType, MeasurementMethod,
    ModificationFlags, Name, NtpTime, OuterHeaderCreation, OuterHeaderRemoval, PdrId, QerId, RemotePeer,
    ReportingTriggers, SdfFilter, Text, TransportMarking, UeIp, UrrId, UsageTrigger, VolumeMeasurement, Volumes,
};
use crate::gtpu::Qfi;

group! {
    /// Which packets are meant, and which rules they come under (TS 29.244 7.5.2.2).
    #[derive(Default)]
    CreatePdr {
        /// The rule.
        PDR_ID id: PdrId,
        /// Of rules that fit, the one with the least is taken.
        PRECEDENCE precedence: u32,
        /// How to find the packets.
        PDI pdi: Pdi,
        /// Headers to take off.
        OUTER_HEADER_REMOVAL removal: Option<OuterHeaderRemoval>,
        /// What becomes of the packets.
        FAR_ID far: Option<FarId>,
        /// How they are measured.
        URR_ID urr: Vec<UrrId>,
        /// How they are held to a rate.
        QER_ID qer: Vec<QerId>,
        /// Rules that the user plane has by these names.
        ACTIVATE_PREDEFINED_RULES activate: Vec<Text>,
    }

    /// Packet detection information (TS 29.244 7.5.2.2).
    #[derive(Default)]
    Pdi {
        /// The side they come from.
        SOURCE_INTERFACE source: Interface,
        /// The tunnel they come out of.
        F_TEID teid: Option<FTeid>,
        /// The network they come from.
        NETWORK_INSTANCE network_instance: Option<Name>,
        /// The UE's addresses.
        UE_IP_ADDRESS ue_ip: Vec<UeIp>,
        /// Stands for tunnel and addresses, where the user plane has traffic endpoints.
        TRAFFIC_ENDPOINT_ID traffic_endpoint: Option<u8>,
        /// Flows: any of these.
        SDF_FILTER sdf: Vec<SdfFilter>,
        /// An application that the user plane knows how to find.
        APPLICATION_ID application: Option<Text>,
        /// Flows of 5G: any of these.
        QFI qfi: Vec<Qfi>,
        /// The interface of the source, by its name in the architecture.
        INTERFACE_TYPE interface_type: Option<InterfaceType>,
    }

    /// What becomes of packets (TS 29.244 7.5.2.3).
    #[derive(Default)]
    CreateFar {
        /// The rule.
        FAR_ID id: FarId,
        /// Drop, forward, buffer.
        APPLY_ACTION action: ApplyAction,
        /// Where to, if they are forwarded.
        FORWARDING_PARAMETERS forwarding: Option<ForwardingParameters>,
        /// How they are buffered.
        BAR_ID bar: Option<BarId>,
    }

    /// Where packets go (TS 29.244 7.5.2.3).
    #[derive(Default)]
    ForwardingParameters {
        /// The side they go to.
        DESTINATION_INTERFACE destination: Interface,
        /// The network they go to.
        NETWORK_INSTANCE network_instance: Option<Name>,
        /// Headers to put before them.
        OUTER_HEADER_CREATION creation: Option<OuterHeaderCreation>,
        /// Type of service of the outer header.
        TRANSPORT_LEVEL_MARKING marking: Option<TransportMarking>,
        /// The interface of the destination, by its name in the architecture.
        INTERFACE_TYPE interface_type: Option<InterfaceType>,
    }

    /// How packets are measured (TS 29.244 7.5.2.4).
    #[derive(Default)]
    CreateUrr {
        /// The rule.
        URR_ID id: UrrId,
        /// Bytes, time, events.
        MEASUREMENT_METHOD method: MeasurementMethod,
        /// When to report.
        REPORTING_TRIGGERS triggers: ReportingTriggers,
        /// Seconds between periodic reports.
        MEASUREMENT_PERIOD period: Option<u32>,
        /// Bytes after which to report.
        VOLUME_THRESHOLD volume_threshold: Option<Volumes>,
        /// Bytes after which to stop.
        VOLUME_QUOTA volume_quota: Option<Volumes>,
        /// Seconds after which to report.
        TIME_THRESHOLD time_threshold: Option<u32>,
        /// Seconds after which to stop.
        TIME_QUOTA time_quota: Option<u32>,
        /// Seconds of silence after which time is not measured.
        INACTIVITY_DETECTION_TIME inactivity: Option<u32>,
    }

    /// How packets are held to a rate and marked (TS 29.244 7.5.2.5).
    #[derive(Default)]
    CreateQer {
        /// The rule.
        QER_ID id: QerId,
        /// Whether packets pass at all.
        GATE_STATUS gate: GateStatus,
        /// Maximum bit rates.
        MBR mbr: Option<BitRates>,
        /// Guaranteed bit rates.
        GBR gbr: Option<BitRates>,
        /// The flow to mark packets with.
        QFI qfi: Option<Qfi>,
        /// Reflective QoS: 1 to mark.
        RQI rqi: Option<u8>,
    }

    /// How packets are buffered (TS 29.244 7.5.2.6).
    #[derive(Default)]
    CreateBar {
        /// The rule.
        BAR_ID id: BarId,
        /// Wait before the control plane is told, in units of 50 ms.
        NOTIFICATION_DELAY delay: Option<u8>,
        /// Packets to keep.
        SUGGESTED_PACKETS packets: Option<u8>,
    }

    /// What a user plane chose for a rule (TS 29.244 7.5.3.2).
    #[derive(Default)]
    CreatedPdr {
        /// The rule.
        PDR_ID id: PdrId,
        /// The tunnel endpoint it gave.
        F_TEID teid: Option<FTeid>,
        /// UE addresses it gave.
        UE_IP_ADDRESS ue_ip: Vec<UeIp>,
    }

    /// A changed rule: what is there replaces what was (TS 29.244 7.5.4.2).
    #[derive(Default)]
    UpdatePdr {
        /// The rule.
        PDR_ID id: PdrId,
        /// Headers to take off.
        OUTER_HEADER_REMOVAL removal: Option<OuterHeaderRemoval>,
        /// Of rules that fit, the one with the least is taken.
        PRECEDENCE precedence: Option<u32>,
        /// How to find the packets.
        PDI pdi: Option<Pdi>,
        /// What becomes of them.
        FAR_ID far: Option<FarId>,
        /// How they are measured.
        URR_ID urr: Vec<UrrId>,
        /// How they are held to a rate.
        QER_ID qer: Vec<QerId>,
        /// Rules that the user plane has by these names.
        ACTIVATE_PREDEFINED_RULES activate: Vec<Text>,
        /// Such rules that no longer count.
        DEACTIVATE_PREDEFINED_RULES deactivate: Vec<Text>,
    }

    /// A changed rule (TS 29.244 7.5.4.3).
    #[derive(Default)]
    UpdateFar {
        /// The rule.
        FAR_ID id: FarId,
        /// Drop, forward, buffer.
        APPLY_ACTION action: Option<ApplyAction>,
        /// Where to, if packets are forwarded.
        UPDATE_FORWARDING_PARAMETERS forwarding: Option<UpdateForwardingParameters>,
        /// How they are buffered.
        BAR_ID bar: Option<BarId>,
    }

    /// Where packets go from now on (TS 29.244 7.5.4.3).
    #[derive(Default)]
    UpdateForwardingParameters {
        /// The side they go to.
        DESTINATION_INTERFACE destination: Option<Interface>,
        /// The network they go to.
        NETWORK_INSTANCE network_instance: Option<Name>,
        /// Headers to put before them.
        OUTER_HEADER_CREATION creation: Option<OuterHeaderCreation>,
        /// Type of service of the outer header.
        TRANSPORT_LEVEL_MARKING marking: Option<TransportMarking>,
        /// Whether an end marker goes along the old path.
        SMREQ_FLAGS flags: Option<ModificationFlags>,
        /// The interface of the destination, by its name in the architecture.
        INTERFACE_TYPE interface_type: Option<InterfaceType>,
    }

    /// A changed rule (TS 29.244 7.5.4.4).
    #[derive(Default)]
    UpdateUrr {
        /// The rule.
        URR_ID id: UrrId,
        /// Bytes, time, events.
        MEASUREMENT_METHOD method: Option<MeasurementMethod>,
        /// When to report.
        REPORTING_TRIGGERS triggers: Option<ReportingTriggers>,
        /// Seconds between periodic reports.
        MEASUREMENT_PERIOD period: Option<u32>,
        /// Bytes after which to report.
        VOLUME_THRESHOLD volume_threshold: Option<Volumes>,
        /// Bytes after which to stop.
        VOLUME_QUOTA volume_quota: Option<Volumes>,
        /// Seconds after which to report.
        TIME_THRESHOLD time_threshold: Option<u32>,
        /// Seconds after which to stop.
        TIME_QUOTA time_quota: Option<u32>,
        /// Seconds of silence after which time is not measured.
        INACTIVITY_DETECTION_TIME inactivity: Option<u32>,
    }

    /// A changed rule (TS 29.244 7.5.4.5).
    #[derive(Default)]
    UpdateQer {
        /// The rule.
        QER_ID id: QerId,
        /// Whether packets pass at all.
        GATE_STATUS gate: Option<GateStatus>,
        /// Maximum bit rates.
        MBR mbr: Option<BitRates>,
        /// Guaranteed bit rates.
        GBR gbr: Option<BitRates>,
        /// The flow to mark packets with.
        QFI qfi: Option<Qfi>,
        /// Reflective QoS: 1 to mark.
        RQI rqi: Option<u8>,
    }

    /// A changed rule (TS 29.244 7.5.4.11).
    #[derive(Default)]
    UpdateBar {
        /// The rule.
        BAR_ID id: BarId,
        /// Wait before the control plane is told, in units of 50 ms.
        NOTIFICATION_DELAY delay: Option<u8>,
        /// Packets to keep.
        SUGGESTED_PACKETS packets: Option<u8>,
    }

    /// A rule to forget (TS 29.244 7.5.4.6).
    #[derive(Copy)]
    RemovePdr {
        /// The rule.
        PDR_ID id: PdrId,
    }

    /// A rule to forget (TS 29.244 7.5.4.7).
    #[derive(Copy)]
    RemoveFar {
        /// The rule.
        FAR_ID id: FarId,
    }

    /// A rule to forget (TS 29.244 7.5.4.8).
    #[derive(Copy)]
    RemoveUrr {
        /// The rule.
        URR_ID id: UrrId,
    }

    /// A rule to forget (TS 29.244 7.5.4.9).
    #[derive(Copy)]
    RemoveQer {
        /// The rule.
        QER_ID id: QerId,
    }

    /// A measurement to report at once (TS 29.244 7.5.4.10).
    #[derive(Copy)]
    QueryUrr {
        /// The rule.
        URR_ID id: UrrId,
    }

    /// The rule to forget (TS 29.244 7.5.4.12).
    #[derive(Copy)]
    RemoveBar {
        /// The rule.
        BAR_ID id: BarId,
    }

    /// What was measured (TS 29.244 7.5.5.2, 7.5.7.2, 7.5.8.3).
    #[derive(Default)]
    UsageReport {
        /// By which rule.
        URR_ID id: UrrId,
        /// Number of the rule's report, from 0.
        UR_SEQN sequence: u32,
        /// Why it is reported now.
        USAGE_REPORT_TRIGGER trigger: UsageTrigger,
        /// Since when.
        START_TIME start: Option<NtpTime>,
        /// Until when.
        END_TIME end: Option<NtpTime>,
        /// Bytes and packets.
        VOLUME_MEASUREMENT volume: Option<VolumeMeasurement>,
        /// Seconds of use.
        DURATION_MEASUREMENT duration: Option<u32>,
        /// When the first packet came.
        TIME_OF_FIRST_PACKET first_packet: Option<NtpTime>,
        /// When the last packet came.
        TIME_OF_LAST_PACKET last_packet: Option<NtpTime>,
    }

    /// Packets came for a UE whose packets are buffered (TS 29.244 7.5.8.2).
    #[derive(Default)]
    DownlinkDataReport {
        /// The rules they fit.
        PDR_ID pdr: Vec<PdrId>,
    }

    /// Tunnel endpoints that a peer does not know (TS 29.244 7.5.8.4).
    #[derive(Default)]
    ErrorIndicationReport {
        /// The peer's endpoints.
        F_TEID remote: Vec<FTeid>,
    }

    /// Peers that no longer answer echo requests (TS 29.244 7.4.5.1.2).
    #[derive(Default)]
    PathFailureReport {
        /// The peers.
        REMOTE_GTPU_PEER peers: Vec<RemotePeer>,
    }
}
