//! What a control plane has to tell.

use core::fmt;
use core::net::IpAddr;

use engine::Span;
use wire::pfcp::rules::UsageReport;
use wire::pfcp::value::{Addresses, FTeid, FailedRule, NodeId, UpFeatures};
use wire::pfcp::{Cause, PfcpError, element_name};

use super::Vec;

/// A session, by the SEID that the control plane gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

/// Where the user plane takes a session's uplink packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunnel {
    /// The identifier to send to.
    pub teid: u32,
    /// The addresses to send to.
    pub addresses: Addresses,
}

/// What was asked of the user plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Procedure {
    /// Association setup.
    Association,
    /// Session establishment.
    Establishment,
    /// Session modification.
    Modification,
    /// Session deletion.
    Deletion,
    /// Association release.
    Release,
}

/// Why a procedure came to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The user plane refused.
    #[error("{0}")]
    Refused(Refusal),
    /// It did not answer, however often it was asked.
    #[error("no answer to {requests} requests")]
    Unanswered {
        /// How often it was asked.
        requests: u32,
    },
    /// It accepted, but did not say where the session is to be addressed.
    #[error("accepted without the user plane's F-SEID")]
    NoEndpoint,
    /// It accepted, but did not say which TEID it chose. The session is deleted again.
    #[error("accepted without a TEID in Created PDR, although it was to choose one")]
    NoTunnel,
    /// It accepted, but did not say which address the UE got. The session is deleted again.
    #[error("accepted without a UE IP address in Created PDR, although it was to choose one")]
    NoAddress,
    /// It answered that it does not know version 1 of PFCP.
    #[error("the user plane does not support version 1 of PFCP")]
    Version,
    /// The request is longer than a PFCP message can be.
    #[error("the request would be longer than a PFCP message can be: give the session fewer or shorter rules")]
    TooLong,
    /// There is no such session, or it ended before its turn came.
    #[error("there is no such session any more")]
    NoSession,
}

/// What a user plane said when it refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Why.
    pub cause: Cause,
    /// Type of the information element it is about.
    pub offending: Option<u16>,
    /// The rule it is about.
    pub rule: Option<FailedRule>,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// There is an association; sessions are established from now on.
    Associated {
        /// What the user plane is called.
        node_id: Option<NodeId>,
        /// What it says it can do.
        features: UpFeatures,
    },
    /// There is none. Sessions wait; [`super::ControlPlane::associate`] tries again.
    AssociationFailed(Failure),
    /// A session is there.
    Established {
        /// Which.
        session: SessionId,
        /// Where its uplink goes.
        uplink: Tunnel,
        /// The UE's addresses.
        ue: Addresses,
        /// From the first request to the answer.
        took: Span,
        /// It was there before the user plane restarted.
        restored: bool,
    },
    /// A session is changed.
    Modified {
        /// Which.
        session: SessionId,
    },
    /// A session is gone: deleted, lost in a restart, or given up before it was made.
    Deleted {
        /// Which.
        session: SessionId,
    },
    /// A procedure of a session came to nothing. After a failed establishment or deletion the session is forgotten.
    Failed {
        /// Which session.
        session: SessionId,
        /// What was asked.
        procedure: Procedure,
        /// Why not.
        failure: Failure,
    },
    /// What the user plane measured.
    Usage {
        /// In which session.
        session: SessionId,
        /// By one of its rules.
        report: UsageReport,
    },
    /// Packets came for a UE whose packets are buffered.
    DownlinkData {
        /// In which session.
        session: SessionId,
    },
    /// A gNB told the user plane that it does not know a tunnel.
    ErrorIndication {
        /// In which session.
        session: SessionId,
        /// The tunnels.
        remote: Vec<FTeid>,
    },
    /// The user plane saw nothing of a session for the time that was set.
    Inactive {
        /// Which.
        session: SessionId,
    },
    /// The user plane does not reach these.
    PathFailed {
        /// The peers.
        peers: Vec<IpAddr>,
    },
    /// The user plane has a new recovery time stamp, or no longer knows of the association: its sessions are gone.
    PeerRestarted {
        /// How many there were.
        lost: usize,
    },
    /// The user plane does not answer. Requests wait until it does.
    PeerDead {
        /// Requests that it did not answer.
        unanswered: usize,
    },
    /// It answers again, and did not restart.
    PeerBack,
    /// The user plane wants to be released.
    ReleaseWanted {
        /// For how many seconds it will still serve; `None` if it does not say, or says for ever.
        grace: Option<u64>,
    },
    /// The user plane said what it can do, or took note of what we can.
    Updated {
        /// What it can do now, if it said so.
        features: Option<UpFeatures>,
    },
    /// It did not take note.
    UpdateFailed(Failure),
    /// The association is over.
    Released {
        /// The user plane was asked and agreed; if not, it may still have sessions.
        agreed: bool,
    },
    /// The user plane ended the association.
    ReleasedByPeer {
        /// Sessions that went with it.
        lost: usize,
    },
    /// What came is not a PFCP message that can be taken.
    Malformed(PfcpError),
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "session {:#x}", self.0)
    }
}

impl fmt::Display for Procedure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Association => "association setup",
            Self::Establishment => "establishment",
            Self::Modification => "modification",
            Self::Deletion => "deletion",
            Self::Release => "association release",
        })
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "refused: {}", self.cause)?;
        if let Some(element) = self.offending {
            write!(f, ", element {} ({element})", element_name(element))?;
        }
        if let Some(rule) = self.rule {
            write!(f, ", {rule}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Event {
    /// One line for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Associated { node_id: Some(name), .. } => write!(f, "associated with {name}"),
            Self::Associated { node_id: None, .. } => f.write_str("associated with a user plane without a name"),
            Self::AssociationFailed(failure) => write!(f, "no association: {failure}"),
            Self::Established { session, uplink, restored, .. } => {
                let how = if *restored { "established again" } else { "established" };
                write!(f, "{session} {how}, uplink to TEID {:#x}", uplink.teid)
            }
            Self::Modified { session } => write!(f, "{session} modified"),
            Self::Deleted { session } => write!(f, "{session} deleted"),
            Self::Failed { session, procedure, failure } => write!(f, "{session}: {procedure} failed: {failure}"),
            Self::Usage { session, report } => {
                write!(f, "{session}: usage report {} of URR {}", report.sequence, report.id)
            }
            Self::DownlinkData { session } => write!(f, "{session}: downlink packets are buffered"),
            Self::ErrorIndication { session, .. } => write!(f, "{session}: the gNB does not know its tunnel"),
            Self::Inactive { session } => write!(f, "{session}: no packets for the time that was set"),
            Self::PathFailed { peers } => write!(f, "the user plane does not reach {peers:?}"),
            Self::PeerRestarted { lost } => write!(f, "the user plane restarted and lost {lost} sessions"),
            Self::PeerDead { unanswered } => {
                write!(f, "the user plane does not answer ({unanswered} requests without an answer)")
            }
            Self::PeerBack => f.write_str("the user plane answers again"),
            Self::ReleaseWanted { grace: Some(seconds) } => {
                write!(f, "the user plane wants to be released within {seconds} s")
            }
            Self::ReleaseWanted { grace: None } => f.write_str("the user plane wants to be released"),
            Self::Updated { .. } => f.write_str("association updated"),
            Self::UpdateFailed(failure) => write!(f, "association not updated: {failure}"),
            Self::Released { agreed: true } => f.write_str("association released"),
            Self::Released { agreed: false } => {
                f.write_str("association given up; the user plane may still have sessions")
            }
            Self::ReleasedByPeer { lost } => write!(f, "the user plane ended the association and {lost} sessions"),
            Self::Malformed(error) => write!(f, "not understood: {error}"),
        }
    }
}
