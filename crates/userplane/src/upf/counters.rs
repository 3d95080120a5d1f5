//! What the UPF counts.

use alloc::vec::Vec;

use engine::DropReason;

use super::{Direction, Side};

macro_rules! reasons {
    ($($(#[$meta:meta])* $name:ident $text:literal,)*) => {
        /// Why packets end in the UPF.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason {
            $($(#[$meta])* $name,)*
        }

        impl Reason {
            const ALL: &[Self] = &[$(Self::$name,)*];

            /// Its name in counts and reports.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

reasons! {
    /// Neither IP, ARP nor neighbour discovery, or cut off.
    NotIp "not a whole IP packet",
    /// The frame is for another station.
    OtherStation "frame for another station",
    /// IP packet for an address that is not the UPF's, on a side from which it forwards nothing.
    OtherAddress "packet for another address",
    /// Nothing of the UPF listens for this protocol or port.
    NoListener "protocol or port not served",
    /// The UPF does not put fragments of tunnel packets together.
    Fragment "fragment of a tunnel packet",
    /// The outer UDP checksum is wrong.
    Checksum "wrong UDP checksum",
    /// Not a GTP-U message that can be taken.
    Malformed "malformed GTP-U message",
    /// In the tunnel is no whole IP packet.
    MalformedUser "malformed user packet",
    /// No session has this TEID: the sender is told.
    UnknownTunnel "no session has that TEID",
    /// No session has this UE address.
    UnknownHost "no session has that UE address",
    /// The session has no PDR for the packet.
    NoRule "no PDR fits",
    /// The FAR says so.
    Rule "FAR says drop",
    /// The gate is closed.
    Gate "QER gate closed",
    /// Above the maximum bit rate.
    Rate "over QER maximum bit rate",
    /// A URR's quota is used up.
    Quota "URR quota used up",
    /// More packets of the session are buffered than are kept.
    Buffer "session's buffer is full",
    /// More packets of all sessions are buffered than are kept.
    Buffers "buffer of all sessions is full",
    /// They were buffered, and the session or the buffering ended.
    Discarded "discarded from the buffer",
    /// No hop is left.
    HopLimit "hop limit reached",
    /// The packet with its outer headers is longer than the link carries.
    TooLong "longer than the MTU on the way out",
    /// The buffer the frame stands in has no room for the headers.
    NoRoom "no room for headers before the frame",
    /// Nobody answers for the next hop.
    Unreachable "next hop does not answer",
    /// More packets wait for the next hop than are kept.
    Waiting "too many packets wait for a next hop",
    /// More neighbours than are kept.
    Neighbours "neighbour table is full",
    /// There is no address of the packet's IP version on that side.
    NoAddress "no address of that IP version on the way out",
}

impl From<Reason> for DropReason {
    fn from(reason: Reason) -> Self {
        Self(reason.name())
    }
}

/// Packets and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Traffic {
    pub(super) fn add(&mut self, bytes: usize) {
        self.packets += 1;
        self.bytes += bytes as u64;
    }
}

/// What was counted since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames that came in, by side, with their bytes from the Ethernet header on.
    pub received: [Traffic; 3],
    /// User packets that were sent on, by direction, and their bytes, from their IP header on.
    pub forwarded: [Traffic; 2],
    /// User packets that were buffered.
    pub buffered: u64,
    /// Echo requests answered.
    pub echoes: u64,
    /// Error indications sent.
    pub error_indications: u64,
    /// Error indications received.
    pub error_indications_received: u64,
    /// End markers sent.
    pub end_markers: u64,
    /// End markers received.
    pub end_markers_received: u64,
    /// PFCP requests received, first ones and repetitions.
    pub requests: u64,
    /// PFCP requests that were refused.
    pub refused: u64,
    /// PFCP requests that came again and were answered as before.
    pub repeated: u64,
    /// PFCP datagrams that could not be read or do not belong to anything.
    pub garbage: u64,
    /// Session reports that were sent.
    pub reports: u64,
    /// Session reports that nobody answered.
    pub reports_unanswered: u64,
    drops: [u64; Reason::ALL.len()],
}

impl Counters {
    /// Frames that came in on a side.
    #[must_use]
    pub fn received(&self, side: Side) -> Traffic {
        self.received[side.port()]
    }

    /// User packets that were sent on.
    #[must_use]
    pub fn forwarded(&self, direction: Direction) -> Traffic {
        self.forwarded[direction as usize]
    }

    /// Packets that ended here for this reason.
    #[must_use]
    pub fn dropped(&self, reason: Reason) -> u64 {
        self.drops[reason as usize]
    }

    /// All reasons for which packets ended here, and how many.
    #[must_use]
    pub fn drops(&self) -> Vec<(Reason, u64)> {
        Reason::ALL.iter().map(|reason| (*reason, self.dropped(*reason))).filter(|(_, count)| *count > 0).collect()
    }

    pub(super) fn drop(&mut self, reason: Reason) {
        self.drops[reason as usize] += 1;
    }
}
