//! What stands in single information elements (TS 29.244 8.2).

mod flags;
mod names;
mod numbers;
mod tunnels;

pub use flags::{
    ApplyAction, AssociationRelease, CpFeatures, MeasurementMethod, ModificationFlags, NodeReportType,
    ReportResponseFlags, ReportType, ReportingTriggers, UpFeatures, UsageTrigger,
};
pub use names::{Name, NameError, NodeId, Text};
pub use numbers::{
    BarId, BitRates, FailedRule, FarId, Gate, GateStatus, Interface, InterfaceType, NtpTime, OffendingIe, PdnType,
    PdrId, QerId, Timer, TransportMarking, UrrId, VolumeMeasurement, Volumes,
};
pub use tunnels::{Addresses, FSeid, FTeid, OuterHeaderCreation, OuterHeaderRemoval, RemotePeer, SdfFilter, UeIp};
