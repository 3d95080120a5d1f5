//! Why a request was accepted or refused.

use core::fmt;

use super::codec::{Value, Wrong};
use super::{Encoding, Vec};

macro_rules! causes {
    ($($(#[$meta:meta])* $name:ident = $number:literal $text:literal,)*) => {
        /// A cause (TS 29.244 8.2.1).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Cause {
            $(#[doc = concat!($text, ".")] $(#[$meta])* $name,)*
            /// A number that has no name here.
            Other(u8),
        }

        impl Cause {
            /// The number on the wire.
            #[must_use]
            pub const fn number(self) -> u8 {
                match self {
                    $(Self::$name => $number,)*
                    Self::Other(number) => number,
                }
            }

            /// The cause with this number.
            #[must_use]
            pub const fn from_number(number: u8) -> Self {
                match number {
                    $($number => Self::$name,)*
                    other => Self::Other(other),
                }
            }

            const fn text(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                    Self::Other(_) => "cause not known",
                }
            }
        }
    };
}

causes! {
    Accepted = 1 "Request accepted",
    MoreUsageReports = 2 "More usage reports to send",
    PartiallyAccepted = 3 "Request partially accepted",
    Rejected = 64 "Request rejected, reason not specified",
    SessionNotFound = 65 "Session context not found",
    MandatoryMissing = 66 "Mandatory IE missing",
    ConditionalMissing = 67 "Conditional IE missing",
    InvalidLength = 68 "Invalid length",
    MandatoryIncorrect = 69 "Mandatory IE incorrect",
    InvalidForwardingPolicy = 70 "Invalid forwarding policy",
    InvalidTeidAllocation = 71 "Invalid F-TEID allocation option",
    NoAssociation = 72 "No established PFCP association",
    RuleFailure = 73 "Rule creation or modification failure",
    Congestion = 74 "PFCP entity in congestion",
    NoResources = 75 "No resources available",
    NotSupported = 76 "Service not supported",
    SystemFailure = 77 "System failure",
    Redirection = 78 "Redirection requested",
    AddressesOccupied = 79 "All dynamic addresses are occupied",
    UnknownPredefinedRule = 80 "Unknown predefined rule",
    UnknownApplication = 81 "Unknown application ID",
    L2tpTunnelFailure = 82 "L2TP tunnel establishment failure",
    L2tpSessionFailure = 83 "L2TP session establishment failure",
    L2tpTunnelRelease = 84 "L2TP tunnel release",
    L2tpSessionRelease = 85 "L2TP session release",
    RestorationFailure = 86 "PFCP session restoration failure",
}

impl Cause {
    /// Whether it says that the request was done, wholly or in part: numbers 1 to 63.
    #[must_use]
    pub const fn is_success(self) -> bool {
        matches!(self.number(), 1..64)
    }
}

impl fmt::Display for Cause {
    /// The text and the number: `No resources available (75)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.text(), self.number())
    }
}

impl Value for Cause {
    fn read(bytes: &[u8]) -> Result<Self, Wrong> {
        bytes.first().map(|&number| Self::from_number(number)).ok_or(Wrong::Length)
    }

    fn write(&self, out: &mut Vec<u8>, _: Encoding) {
        out.push(self.number());
    }
}
