//! What an adapter counts.

use engine::DropReason;

use crate::cache::{CacheCounters, CacheKind};
use crate::class::Class;
use crate::histogram::Histogram;
use crate::payload::PayloadCounters;

/// There is no session with the adapter at the other end, and the packet waited too long for one.
pub const LINE_DOWN: DropReason = DropReason("line down");
/// The real-time flow that it belongs to does not fit onto the line.
pub const REFUSED: DropReason = DropReason("real-time flow refused: line full");
/// Neither IPv4, IPv6 nor ARP.
pub const ETHERTYPE: DropReason = DropReason("ethertype not carried");
/// Frames with a VLAN tag are not carried.
pub const VLAN: DropReason = DropReason("VLAN tag");
/// The frame is cut short, or its IP header is none.
pub const MALFORMED: DropReason = DropReason("malformed frame");
/// Longer than the adapter at the other end takes.
pub const TOO_LARGE: DropReason = DropReason("larger than the peer takes");
/// A super-frame came that was to be cut into packets before.
pub const SUPER_FRAME: DropReason = DropReason("super-frame not cut");
/// Header compression failed.
pub const COMPRESSION: DropReason = DropReason("header compression failed");

/// A number of packets and their bytes: the network layer's, without Ethernet header and padding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Count {
    /// One more packet.
    pub fn add(&mut self, bytes: usize) {
        self.packets += 1;
        self.bytes += bytes as u64;
    }
}

/// What happened since the adapter was made.
#[derive(Clone, Debug, PartialEq)]
pub struct Counters {
    /// From the LAN to the line by class, in the order of [`Class::ALL`].
    pub classes: [ClassCounters; 5],
    /// Every reason for which packets from the LAN are dropped, and how many were; always in the same
    /// order, zeros too.
    pub dropped: [(DropReason, Count); 12],
    /// The same for each class, in the order of [`Class::ALL`] and of [`Self::dropped`]. A packet whose class
    /// was not found yet is in none.
    pub dropped_by_class: [[Count; 12]; 5],
    /// Frames between stations of the LAN, which are none of the line's business.
    pub local: Count,
    /// Real-time datagrams: from the LAN until the last character is on the line.
    pub real_time_delay: Histogram,
    /// Data packets: from the LAN until the first character is on the line.
    pub forwarding_delay: Histogram,
    /// Time to the next predicted real-time packet, each time the line was free for data while at
    /// least one was predicted.
    pub predicted_gap: Histogram,
    /// What the line was used for.
    pub line: LineCounters,
    /// What came from the line.
    pub receive: ReceiveCounters,
    /// Real-time flows.
    pub flows: FlowCounters,
    /// Header compression, in the direction to the line.
    pub rohc: RohcCounters,
    /// Payload compression, in the direction to the line.
    pub payload: PayloadCounters,
    /// What was answered on the near side, in the order of [`CacheKind::ALL`](crate::cache::CacheKind::ALL).
    pub cache: [CacheCounters; CacheKind::ALL.len()],
    /// The session with the adapter at the other end.
    pub session: SessionCounters,
}

/// Packets of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassCounters {
    /// Taken from the LAN.
    pub taken: Count,
    /// Put on the line whole.
    pub sent: Count,
    /// Dropped, for whatever reason.
    pub dropped: Count,
}

/// Characters on the line and time without any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineCounters {
    /// Frames handed to the line.
    pub frames: u64,
    /// Characters of real-time frames, their framing included.
    pub real_time: u64,
    /// Characters of data packets: the (compressed) packets themselves.
    pub data: u64,
    /// Characters of data fragments' framing: five a fragment, but for each packet's last.
    pub framing: u64,
    /// Characters that a data packet costs once, however long it is: the framing of its last fragment,
    /// index, explicit Ethernet header, CRC-32.
    pub encapsulation: u64,
    /// Characters of control frames.
    pub control: u64,
    /// Time in which data waited and the line was held back for a predicted packet, in characters.
    pub held: u64,
    /// Time in which there was nothing to send, in characters.
    pub idle: u64,
    /// Control frames that would not wait any longer for a gap they fit into.
    pub control_forced: u64,
}

/// What came from the line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiveCounters {
    /// Characters.
    pub characters: u64,
    /// Good frames.
    pub frames: u64,
    /// Longer than a frame may be.
    pub too_long: u64,
    /// Cut short, or no COBS.
    pub short: u64,
    /// With a wrong check sequence.
    pub check: u64,
    /// Of an unknown kind, or with a body that makes no sense.
    pub malformed: u64,
    /// Good frames of packets, but there is no session.
    pub no_session: u64,
    /// Fragments of packets whose other fragments were lost.
    pub orphans: u64,
    /// Packets given up because a fragment was lost.
    pub incomplete: u64,
    /// Packets given up because the next fragment did not come in time.
    pub expired: u64,
    /// Packets given up because they were longer than may be.
    pub oversized: u64,
    /// Packets whose CRC-32 was wrong.
    pub crc: u64,
    /// Packets that named an Ethernet header this adapter does not know.
    pub unknown_pair: u64,
    /// Packets whose payload could not be inflated.
    pub inflation: u64,
    /// Packets whose header could not be decompressed.
    pub decompression: u64,
    /// Packets from the line that only renew what was answered on the near side already.
    pub kept: Count,
    /// Packets given to the LAN whole.
    pub delivered: Count,
}

impl ReceiveCounters {
    /// What came from the line and was lost, by reason: frames, fragments or packets, as the reason says.
    /// Always in the same order, zeros too.
    #[must_use]
    pub fn lost(&self) -> [(DropReason, u64); 13] {
        [
            (DropReason("frames too long"), self.too_long),
            (DropReason("frames cut short"), self.short),
            (DropReason("frames with a wrong check sequence"), self.check),
            (DropReason("frames that make no sense"), self.malformed),
            (DropReason("frames without a session"), self.no_session),
            (DropReason("fragments whose packet's others are lost"), self.orphans),
            (DropReason("packets with a lost fragment"), self.incomplete),
            (DropReason("packets whose next fragment did not come in time"), self.expired),
            (DropReason("packets too long"), self.oversized),
            (DropReason("packets with a wrong CRC-32"), self.crc),
            (DropReason("packets of an unknown Ethernet header"), self.unknown_pair),
            (DropReason("packets whose payload cannot be inflated"), self.inflation),
            (DropReason("packets whose header cannot be decompressed"), self.decompression),
        ]
    }

    /// Frames that were damaged, or garbage.
    #[must_use]
    pub fn bad_frames(&self) -> u64 {
        self.too_long + self.short + self.check + self.malformed
    }

    /// Packets of which at least a fragment came whole, and that were given up. A packet whose only frame
    /// is damaged is not known to have been one: it is among [`Self::bad_frames`].
    #[must_use]
    pub fn lost_packets(&self) -> u64 {
        let whole = self.oversized + self.crc + self.unknown_pair + self.inflation + self.decompression;
        self.incomplete + self.expired + whole
    }
}

/// Real-time flows and predictions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowCounters {
    /// Flows let onto the line.
    pub admitted: u64,
    /// Flows refused.
    pub refused: u64,
    /// Real-time flows that fell silent or irregular.
    pub ended: u64,
    /// Flows that gave way to others while they were watched.
    pub forgotten: u64,
    /// Packets of flows that sent more than they were let in with: they went as data.
    pub excess: u64,
    /// Flows on the line now.
    pub active: u32,
    /// What they take of the line now, in characters per second.
    pub characters_per_second: u64,
    /// Packets that came when they were predicted.
    pub held: u64,
    /// Predictions that came to nothing, and packets that came outside.
    pub missed: u64,
    /// Real-time datagrams that waited longer than for the frame in transmission, other real-time
    /// datagrams and one character.
    pub overdue: u64,
    /// Senders that were told that their flow is refused.
    pub told: u64,
}

/// Header compression.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RohcCounters {
    /// Contexts in use now, of all classes.
    pub contexts: u32,
    /// Packets compressed.
    pub packets: u64,
    /// Bytes of their headers before.
    pub header_before: u64,
    /// Bytes of their headers after.
    pub header_after: u64,
    /// Bytes of feedback sent to the peer.
    pub feedback_sent: u64,
    /// Bytes of feedback taken from the peer.
    pub feedback_taken: u64,
    /// Feedback that made no sense, or for which there was no room.
    pub feedback_lost: u64,
}

/// The session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionCounters {
    /// Whether there is one.
    pub up: bool,
    /// How often one began.
    pub begun: u64,
    /// How often the line was lost.
    pub lost: u64,
    /// How often the other adapter was found restarted.
    pub restarted: u64,
    /// Hellos of adapters that speak no version of ours.
    pub incompatible: u64,
    /// Hellos of adapters whose line has another rate or other characters.
    pub other_line: u64,
    /// Hellos of its own that it heard: the line is looped back.
    pub looped: u64,
    /// Hellos sent.
    pub hellos_sent: u64,
    /// Hellos taken.
    pub hellos_taken: u64,
}

impl Counters {
    pub(crate) fn new() -> Self {
        let reasons = [
            LINE_DOWN,
            REFUSED,
            ETHERTYPE,
            VLAN,
            MALFORMED,
            TOO_LARGE,
            SUPER_FRAME,
            COMPRESSION,
            queue::FULL_PACKETS,
            queue::FULL_BYTES,
            queue::CODEL,
            queue::PIE,
        ];
        Self {
            classes: Default::default(),
            dropped: reasons.map(|reason| (reason, Count::default())),
            dropped_by_class: Default::default(),
            local: Count::default(),
            real_time_delay: Histogram::default(),
            forwarding_delay: Histogram::default(),
            predicted_gap: Histogram::default(),
            line: LineCounters::default(),
            receive: ReceiveCounters::default(),
            flows: FlowCounters::default(),
            rohc: RohcCounters::default(),
            payload: PayloadCounters::default(),
            cache: Default::default(),
            session: SessionCounters::default(),
        }
    }

    /// The counters of a class.
    #[must_use]
    pub fn class(&self, class: Class) -> &ClassCounters {
        &self.classes[class.index()]
    }

    /// How much was dropped for one reason.
    #[must_use]
    pub fn dropped_for(&self, reason: DropReason) -> Count {
        self.dropped.iter().find(|(other, _)| *other == reason).map(|(_, count)| *count).unwrap_or_default()
    }

    /// A packet of `bytes` is dropped.
    pub(crate) fn drop(&mut self, reason: DropReason, class: Option<Class>, bytes: usize) {
        let Some(place) = self.dropped.iter().position(|(known, _)| *known == reason) else { return };
        self.dropped[place].1.add(bytes);
        if let Some(class) = class {
            self.classes[class.index()].dropped.add(bytes);
            self.dropped_by_class[class.index()][place].add(bytes);
        }
    }

    /// How well the line's time for data was used: data as a share of data, framing and time held back. 1
    /// if there was no data. What a packet costs once is not in it, so that it is what one byte more of
    /// a packet costs: the slope that packet pairs measure.
    #[must_use]
    pub fn efficiency(&self) -> f64 {
        let used = self.line.data + self.line.framing + self.line.held;
        if used == 0 { 1.0 } else { self.line.data as f64 / used as f64 }
    }
}
