//! Sets of flags. Bits count from the first octet of the value, so that octet 6 bit 1 is 0x100.

use crate::pfcp::codec::{Value, Wrong};
use crate::pfcp::{ApplyActionForm, Encoding, Vec};

macro_rules! flags {
    ($(#[$meta:meta])* $name:ident($bits:ty, least $least:expr) {
        $($(#[$flag_meta:meta])* $flag:ident = $value:literal,)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub struct $name(pub $bits);

        impl $name {
            $($(#[$flag_meta])* pub const $flag: Self = Self($value);)*

            /// Whether all flags of `other` are set.
            #[must_use]
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }
        }

        impl core::ops::BitOr for $name {
            type Output = Self;
            fn bitor(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }
        }

        impl core::ops::BitOrAssign for $name {
            fn bitor_assign(&mut self, other: Self) {
                self.0 |= other.0;
            }
        }

        impl Value for $name {
            fn read(bytes: &[u8]) -> Result<Self, Wrong> {
                const OCTETS: usize = size_of::<$bits>();
                let mut octets = [0; OCTETS];
                let there = bytes.len().min(OCTETS);
                octets[..there].copy_from_slice(&bytes[..there]);
                if bytes.is_empty() { Err(Wrong::Length) } else { Ok(Self(<$bits>::from_le_bytes(octets))) }
            }

            fn write(&self, out: &mut Vec<u8>, encoding: Encoding) {
                let octets = self.0.to_le_bytes();
                let least: fn(Encoding) -> usize = $least;
                let used = octets.iter().rposition(|&octet| octet != 0).map_or(0, |last| last + 1);
                out.extend_from_slice(&octets[..used.max(least(encoding))]);
            }
        }
    };
}

flags! {
    /// What becomes of packets (TS 29.244 8.2.26).
    ApplyAction(u16, least |encoding| match encoding.apply_action {
        ApplyActionForm::One => 1,
        ApplyActionForm::Two => 2,
    }) {
        /// Drop.
        DROP = 0x01,
        /// Forward.
        FORW = 0x02,
        /// Buffer.
        BUFF = 0x04,
        /// Tell the control plane of the first buffered packet.
        NOCP = 0x08,
        /// Duplicate.
        DUPL = 0x10,
    }
}

flags! {
    /// What a rule measures (TS 29.244 8.2.40).
    MeasurementMethod(u8, least |_| 1) {
        /// Time of use.
        DURAT = 0x01,
        /// Bytes.
        VOLUM = 0x02,
        /// Events.
        EVENT = 0x04,
    }
}

flags! {
    /// When a rule reports (TS 29.244 8.2.19).
    ReportingTriggers(u32, least |_| 3) {
        /// Periodically.
        PERIO = 0x01,
        /// At a volume threshold.
        VOLTH = 0x02,
        /// At a time threshold.
        TIMTH = 0x04,
        /// When the quota was not used for so long.
        QUHTI = 0x08,
        /// At the start of traffic.
        START = 0x10,
        /// At its stop.
        STOPT = 0x20,
        /// When too much was dropped.
        DROTH = 0x40,
        /// When a linked rule reports.
        LIUSA = 0x80,
        /// At a volume quota.
        VOLQU = 0x100,
        /// At a time quota.
        TIMQU = 0x200,
    }
}

flags! {
    /// Why a rule reports (TS 29.244 8.2.41).
    UsageTrigger(u32, least |_| 3) {
        /// The period is over.
        PERIO = 0x01,
        /// The volume threshold is reached.
        VOLTH = 0x02,
        /// The time threshold is reached.
        TIMTH = 0x04,
        /// The quota was not used for so long.
        QUHTI = 0x08,
        /// Traffic started.
        START = 0x10,
        /// Traffic stopped.
        STOPT = 0x20,
        /// Too much was dropped.
        DROTH = 0x40,
        /// The control plane asked.
        IMMER = 0x80,
        /// The volume quota is used up.
        VOLQU = 0x100,
        /// The time quota is used up.
        TIMQU = 0x200,
        /// A linked rule reported.
        LIUSA = 0x400,
        /// The rule or the session ended.
        TERMR = 0x800,
    }
}

flags! {
    /// What a session report is about (TS 29.244 8.2.21).
    ReportType(u8, least |_| 1) {
        /// Downlink data for a UE whose packets are buffered.
        DLDR = 0x01,
        /// Usage.
        USAR = 0x02,
        /// An error indication from a peer.
        ERIR = 0x04,
        /// Silence.
        UPIR = 0x08,
        /// The user plane wants something of the session.
        UISR = 0x40,
    }
}

flags! {
    /// What a node report is about (TS 29.244 8.2.69).
    NodeReportType(u8, least |_| 1) {
        /// Paths that failed.
        UPFR = 0x01,
        /// Paths that work again.
        UPRR = 0x02,
    }
}

flags! {
    /// What a user plane can do (TS 29.244 8.2.25).
    UpFeatures(u64, least |_| 2) {
        /// Buffer downlink packets for the control plane.
        BUCP = 0x01,
        /// Wait before it tells of downlink data.
        DDND = 0x02,
        /// Buffer for a time.
        DLBD = 0x04,
        /// Give tunnel endpoints.
        FTUP = 0x10,
        /// Send end markers.
        EMPU = 0x100,
        /// Give UE addresses.
        UEIP = 0x4_0000,
        /// Take messages in bundles.
        BUNDL = 0x40_0000,
    }
}

flags! {
    /// What a control plane can do (TS 29.244 8.2.58).
    CpFeatures(u16, least |_| 1) {
        /// Load control.
        LOAD = 0x01,
        /// Overload control.
        OVRL = 0x02,
        /// Take messages in bundles.
        BUNDL = 0x10,
    }
}

flags! {
    /// What to do besides what the rules say (TS 29.244 8.2.47).
    ModificationFlags(u8, least |_| 1) {
        /// Drop what is buffered.
        DROBU = 0x01,
        /// Send an end marker along the old path.
        SNDEM = 0x02,
        /// Report all that was measured.
        QAURR = 0x04,
    }
}

flags! {
    /// What to do after a report (TS 29.244 8.2.48).
    ReportResponseFlags(u8, least |_| 1) {
        /// Drop what is buffered.
        DROBU = 0x01,
    }
}

flags! {
    /// How a user plane asks to be released (TS 29.244 8.2.77).
    AssociationRelease(u8, least |_| 1) {
        /// Release the association.
        SARR = 0x01,
        /// It will report all usage before.
        URSS = 0x02,
    }
}
