//! The messages: of nodes about each other, and about sessions (TS 29.244 7.3).
//!
//! Answers are read even where an element is missing that the standard demands beside a refusal, since some user planes
//! leave out all but the cause.

use super::codec::{Fault, Value, Wrong, group};
use super::rules::{
    CreateBar, CreateFar, CreatePdr, CreateQer, CreateUrr, CreatedPdr, DownlinkDataReport, ErrorIndicationReport,
    PathFailureReport, QueryUrr, RemoveBar, RemoveFar, RemovePdr, RemoveQer, RemoveUrr, UpdateBar, UpdateFar,
    UpdatePdr, UpdateQer, UpdateUrr, UsageReport,
};
use super::value::{
    AssociationRelease, CpFeatures, FSeid, FailedRule, ModificationFlags, Name, NodeId, NodeReportType, NtpTime,
    OffendingIe, PdnType, ReportResponseFlags, ReportType, Timer, UpFeatures,
};
use super::{Cause, Encoding, Vec};

group! {
    /// TS 29.244 7.4.2.1.
    HeartbeatRequest {
        /// When the sender started.
        RECOVERY_TIME_STAMP recovery: NtpTime,
    }

    /// TS 29.244 7.4.2.2.
    HeartbeatResponse {
        /// When the sender started.
        RECOVERY_TIME_STAMP recovery: NtpTime,
    }

    /// TS 29.244 7.4.4.1.
    AssociationSetupRequest {
        /// Who sends it.
        NODE_ID node_id: NodeId,
        /// When the sender started.
        RECOVERY_TIME_STAMP recovery: NtpTime,
        /// What the user plane can do, if that sends it.
        UP_FUNCTION_FEATURES up_features: Option<UpFeatures>,
        /// What the control plane can do, if that sends it.
        CP_FUNCTION_FEATURES cp_features: Option<CpFeatures>,
    }

    /// TS 29.244 7.4.4.2.
    AssociationSetupResponse {
        /// Who sends it.
        NODE_ID node_id: Option<NodeId>,
        /// What became of the request.
        CAUSE cause: Cause,
        /// When the sender started.
        RECOVERY_TIME_STAMP recovery: Option<NtpTime>,
        /// What the user plane can do, if that sends it.
        UP_FUNCTION_FEATURES up_features: Option<UpFeatures>,
        /// What the control plane can do, if that sends it.
        CP_FUNCTION_FEATURES cp_features: Option<CpFeatures>,
        /// The element the refusal is about.
        OFFENDING_IE offending: Option<OffendingIe>,
    }

    /// TS 29.244 7.4.4.3.
    AssociationUpdateRequest {
        /// Who sends it.
        NODE_ID node_id: NodeId,
        /// What the user plane can do now.
        UP_FUNCTION_FEATURES up_features: Option<UpFeatures>,
        /// What the control plane can do now.
        CP_FUNCTION_FEATURES cp_features: Option<CpFeatures>,
        /// The user plane asks to be released.
        ASSOCIATION_RELEASE release: Option<AssociationRelease>,
        /// How long it will still serve its sessions.
        GRACEFUL_RELEASE_PERIOD graceful_period: Option<Timer>,
    }

    /// TS 29.244 7.4.4.4.
    AssociationUpdateResponse {
        /// Who sends it.
        NODE_ID node_id: Option<NodeId>,
        /// What became of the request.
        CAUSE cause: Cause,
        /// What the user plane can do, if that sends it.
        UP_FUNCTION_FEATURES up_features: Option<UpFeatures>,
        /// What the control plane can do, if that sends it.
        CP_FUNCTION_FEATURES cp_features: Option<CpFeatures>,
    }

    /// TS 29.244 7.4.4.5.
    AssociationReleaseRequest {
        /// Who sends it.
        NODE_ID node_id: NodeId,
    }

    /// TS 29.244 7.4.4.6.
    AssociationReleaseResponse {
        /// Who sends it.
        NODE_ID node_id: Option<NodeId>,
        /// What became of the request.
        CAUSE cause: Cause,
    }

    /// TS 29.244 7.4.4.7: the answer to a request of another version.
    #[derive(Default)]
    VersionNotSupportedResponse {}

    /// TS 29.244 7.4.5.1.
    NodeReportRequest {
        /// Who sends it.
        NODE_ID node_id: NodeId,
        /// What it reports.
        NODE_REPORT_TYPE report_type: NodeReportType,
        /// Peers that no longer answer echo requests.
        USER_PLANE_PATH_FAILURE_REPORT path_failure: Option<PathFailureReport>,
    }

    /// TS 29.244 7.4.5.2.
    NodeReportResponse {
        /// Who sends it.
        NODE_ID node_id: Option<NodeId>,
        /// What became of the request.
        CAUSE cause: Cause,
        /// The element the refusal is about.
        OFFENDING_IE offending: Option<OffendingIe>,
    }

    /// TS 29.244 7.4.6.1, without the sets it names: to be refused.
    SessionSetDeletionRequest {
        /// Who sends it.
        NODE_ID node_id: NodeId,
    }

    /// TS 29.244 7.4.6.2.
    SessionSetDeletionResponse {
        /// Who sends it.
        NODE_ID node_id: Option<NodeId>,
        /// What became of the request.
        CAUSE cause: Cause,
        /// The element the refusal is about.
        OFFENDING_IE offending: Option<OffendingIe>,
    }

    /// TS 29.244 7.5.2.
    SessionEstablishmentRequest {
        /// Who sends it.
        NODE_ID node_id: NodeId,
        /// The sender's endpoint of the session: where it wants to be told of it.
        F_SEID cp_fseid: FSeid,
        /// Which packets are meant. The standard wants at least one.
        CREATE_PDR create_pdr: Vec<CreatePdr>,
        /// What becomes of them. The standard wants at least one.
        CREATE_FAR create_far: Vec<CreateFar>,
        /// How they are measured.
        CREATE_URR create_urr: Vec<CreateUrr>,
        /// How they are held to a rate.
        CREATE_QER create_qer: Vec<CreateQer>,
        /// How they are buffered.
        CREATE_BAR create_bar: Option<CreateBar>,
        /// Versions of IP in the session.
        PDN_TYPE pdn_type: Option<PdnType>,
        /// Seconds of silence that are to be reported.
        INACTIVITY_TIMER inactivity: Option<u32>,
        /// Data network or access point name.
        DNN dnn: Option<Name>,
    }

    /// TS 29.244 7.5.3.
    SessionEstablishmentResponse {
        /// Who sends it.
        NODE_ID node_id: Option<NodeId>,
        /// What became of the request.
        CAUSE cause: Cause,
        /// The element the refusal is about.
        OFFENDING_IE offending: Option<OffendingIe>,
        /// The user plane's endpoint of the session.
        F_SEID up_fseid: Option<FSeid>,
        /// What the user plane chose: TEIDs, addresses.
        CREATED_PDR created_pdr: Vec<CreatedPdr>,
        /// The rule the refusal is about.
        FAILED_RULE_ID failed_rule: Option<FailedRule>,
    }

    /// TS 29.244 7.5.4.
    #[derive(Default)]
    SessionModificationRequest {
        /// The sender's endpoint of the session, if it is another one now.
        F_SEID cp_fseid: Option<FSeid>,
        /// Rules to forget.
        REMOVE_PDR remove_pdr: Vec<RemovePdr>,
        /// Rules to forget.
        REMOVE_FAR remove_far: Vec<RemoveFar>,
        /// Rules to forget.
        REMOVE_URR remove_urr: Vec<RemoveUrr>,
        /// Rules to forget.
        REMOVE_QER remove_qer: Vec<RemoveQer>,
        /// The rule to forget.
        REMOVE_BAR remove_bar: Option<RemoveBar>,
        /// New rules.
        CREATE_PDR create_pdr: Vec<CreatePdr>,
        /// New rules.
        CREATE_FAR create_far: Vec<CreateFar>,
        /// New rules.
        CREATE_URR create_urr: Vec<CreateUrr>,
        /// New rules.
        CREATE_QER create_qer: Vec<CreateQer>,
        /// The new rule.
        CREATE_BAR create_bar: Option<CreateBar>,
        /// Changed rules.
        UPDATE_PDR update_pdr: Vec<UpdatePdr>,
        /// Changed rules.
        UPDATE_FAR update_far: Vec<UpdateFar>,
        /// Changed rules.
        UPDATE_URR update_urr: Vec<UpdateUrr>,
        /// Changed rules.
        UPDATE_QER update_qer: Vec<UpdateQer>,
        /// The changed rule.
        UPDATE_BAR update_bar: Option<UpdateBar>,
        /// What to do besides.
        SMREQ_FLAGS flags: Option<ModificationFlags>,
        /// Measurements to report at once.
        QUERY_URR query_urr: Vec<QueryUrr>,
        /// Seconds of silence that are to be reported.
        INACTIVITY_TIMER inactivity: Option<u32>,
    }

    /// TS 29.244 7.5.5.
    SessionModificationResponse {
        /// What became of the request.
        CAUSE cause: Cause,
        /// The element the refusal is about.
        OFFENDING_IE offending: Option<OffendingIe>,
        /// What the user plane chose: TEIDs, addresses.
        CREATED_PDR created_pdr: Vec<CreatedPdr>,
        /// What was measured by rules that are gone, or asked for.
        USAGE_REPORT_MODIFICATION usage: Vec<UsageReport>,
        /// The rule the refusal is about.
        FAILED_RULE_ID failed_rule: Option<FailedRule>,
    }

    /// TS 29.244 7.5.6.
    #[derive(Default)]
    SessionDeletionRequest {}

    /// TS 29.244 7.5.7.
    SessionDeletionResponse {
        /// What became of the request.
        CAUSE cause: Cause,
        /// The element the refusal is about.
        OFFENDING_IE offending: Option<OffendingIe>,
        /// What was measured.
        USAGE_REPORT_DELETION usage: Vec<UsageReport>,
    }

    /// TS 29.244 7.5.8.
    SessionReportRequest {
        /// What it reports.
        REPORT_TYPE report_type: ReportType,
        /// A packet came for a UE whose packets are buffered.
        DOWNLINK_DATA_REPORT downlink_data: Option<DownlinkDataReport>,
        /// What was measured.
        USAGE_REPORT_REQUEST usage: Vec<UsageReport>,
        /// A peer said that it does not know its TEID.
        ERROR_INDICATION_REPORT error_indication: Option<ErrorIndicationReport>,
    }

    /// TS 29.244 7.5.9.
    SessionReportResponse {
        /// What became of the request.
        CAUSE cause: Cause,
        /// The element the refusal is about.
        OFFENDING_IE offending: Option<OffendingIe>,
        /// What to do besides.
        SRRSP_FLAGS flags: Option<ReportResponseFlags>,
    }
}

macro_rules! bodies {
    ($($name:ident = $number:literal $text:literal,)*) => {
        /// What a message says.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Body {
            $(#[doc = concat!($text, ".")] $name($name),)*
        }

        impl Body {
            /// The message type on the wire (TS 29.244 table 7.3-1).
            #[must_use]
            pub const fn message_type(&self) -> u8 {
                match self {
                    $(Self::$name(_) => $number,)*
                }
            }

            /// `None` if the type is not known.
            pub(super) fn read(message_type: u8, elements: &[u8]) -> Option<Result<Self, Fault>> {
                Some(match message_type {
                    $($number => whole(elements).map(Self::$name),)*
                    _ => return None,
                })
            }

            pub(super) fn write(&self, out: &mut Vec<u8>, encoding: Encoding) {
                match self {
                    $(Self::$name(body) => body.write(out, encoding),)*
                }
            }
        }

        $(impl From<$name> for Body {
            fn from(body: $name) -> Self {
                Self::$name(body)
            }
        })*

        /// The name of a message type, for messages to people.
        #[must_use]
        pub const fn type_name(message_type: u8) -> &'static str {
            match message_type {
                $($number => $text,)*
                _ => "an unknown message",
            }
        }
    };
}

bodies! {
    HeartbeatRequest = 1 "Heartbeat Request",
    HeartbeatResponse = 2 "Heartbeat Response",
    AssociationSetupRequest = 5 "Association Setup Request",
    AssociationSetupResponse = 6 "Association Setup Response",
    AssociationUpdateRequest = 7 "Association Update Request",
    AssociationUpdateResponse = 8 "Association Update Response",
    AssociationReleaseRequest = 9 "Association Release Request",
    AssociationReleaseResponse = 10 "Association Release Response",
    VersionNotSupportedResponse = 11 "Version Not Supported Response",
    NodeReportRequest = 12 "Node Report Request",
    NodeReportResponse = 13 "Node Report Response",
    SessionSetDeletionRequest = 14 "Session Set Deletion Request",
    SessionSetDeletionResponse = 15 "Session Set Deletion Response",
    SessionEstablishmentRequest = 50 "Session Establishment Request",
    SessionEstablishmentResponse = 51 "Session Establishment Response",
    SessionModificationRequest = 52 "Session Modification Request",
    SessionModificationResponse = 53 "Session Modification Response",
    SessionDeletionRequest = 54 "Session Deletion Request",
    SessionDeletionResponse = 55 "Session Deletion Response",
    SessionReportRequest = 56 "Session Report Request",
    SessionReportResponse = 57 "Session Report Response",
}

/// Whether messages of this type are about a session and so have an SEID: 50 to 99 (TS 29.244 table 7.3-1).
#[must_use]
pub const fn is_about_session(message_type: u8) -> bool {
    matches!(message_type, 50..100)
}

/// Whether messages of this type want an answer (TS 29.244 table 7.3-1), known here or not.
#[must_use]
pub const fn is_request(message_type: u8) -> bool {
    matches!(message_type, 1 | 3 | 5 | 7 | 9 | 12 | 14 | 16 | 50 | 52 | 54 | 56)
}

fn whole<T: Value>(elements: &[u8]) -> Result<T, Fault> {
    T::read(elements).map_err(|wrong| match wrong {
        Wrong::Inside(fault) => fault,
        // What is left at the end is too short to have a type.
        Wrong::Length | Wrong::Content => Fault { cause: Cause::InvalidLength, offending: 0 },
    })
}
