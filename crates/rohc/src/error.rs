//! What can go wrong, as types: what happened, where, and what to do about it.

use thiserror::Error;

/// Why a packet was not compressed. Nothing was written and no context changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CompressError {
    /// Profile 0x0000 tells packets by their first octet (RFC 3095 5.10.2), so only IP can be sent.
    #[error("the packet is neither IPv4 nor IPv6: give IP packets without a link header")]
    NotIp,
    /// An IPv6 packet has at most 40 + 65,535 octets, an IPv4 packet at most 65,535.
    #[error("the packet has {0} octets, more than an IP packet can have")]
    TooLong(usize),
}

/// Why there is no packet. Contexts stay as they were, but for the bookkeeping of failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DecompressError {
    /// There was nothing but padding and feedback, or a context without a packet. This is no failure.
    #[error("only padding, feedback or a refreshed context, no packet")]
    NoPacket,
    /// A segment was taken in; the packet comes with the last one. This is no failure.
    #[error("a segment was taken in: the packet comes with the final one")]
    SegmentTaken,
    /// A segment, or a reconstructed unit that is not allowed (RFC 3095 5.2.5.2, MRRU).
    #[error("a segment that cannot be used: {0}")]
    Segment(SegmentError),
    /// The framework's octets do not make sense (RFC 3095 5.2.6).
    #[error("not a ROHC packet: {0}")]
    Framing(Malformed),
    /// The context identifier is above the channel's MAX_CID.
    #[error("context {cid} is above MAX_CID: give both ends the same MAX_CID")]
    CidAboveMax {
        /// The context that the packet names.
        cid: u16,
    },
    /// An IR or IR-DYN packet names a profile that is not in the channel's PROFILES.
    #[error("context {cid}: profile 0x{octet:02x} is not enabled here")]
    UnknownProfile {
        /// The context that the packet names.
        cid: u16,
        /// The profile's low octet.
        octet: u8,
    },
    /// Nothing is known of this context yet: an IR packet has to come first.
    #[error("context {cid} has not been initialised")]
    NoContext {
        /// The context that the packet names.
        cid: u16,
    },
    /// The context was found to be damaged and the packet cannot repair it (RFC 3095 5.3.2.2.1).
    #[error("context {cid} is damaged: a packet that repairs it has to come first")]
    Damaged {
        /// The context that the packet names.
        cid: u16,
    },
    /// The context was just repaired: its first packets are held back until others confirm it (RFC 3095
    /// 5.3.2.2.4 e, 5.3.2.2.5). Or the packet has two sequence numbers that its CRC takes, one of them after a
    /// loss or a pause.
    #[error("context {cid}: held back until the next packets confirm its sequence number")]
    Unconfirmed {
        /// The context that the packet names.
        cid: u16,
    },
    /// The header does not follow the format of its profile.
    #[error("context {cid}: {what}")]
    Malformed {
        /// The context that the packet names.
        cid: u16,
        /// What is wrong.
        what: Malformed,
    },
    /// The header's CRC is wrong: damaged on the way, or the context is.
    #[error("context {cid}: the header's CRC-{bits} is wrong")]
    Crc {
        /// The context that the packet names.
        cid: u16,
        /// 3, 7 or 8.
        bits: u8,
    },
    /// The header passed its CRC, but the transport checksum says that the packet is not the one that
    /// was sent. It counts as a failed CRC.
    #[error("context {cid}: the transport checksum of the decompressed packet is wrong")]
    Checksum {
        /// The context that the packet names.
        cid: u16,
    },
}

/// What is wrong with a header's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Malformed {
    /// It ends before its fields do.
    #[error("it ends before its fields do")]
    TooShort,
    /// A reserved or impossible value.
    #[error("a reserved value in {0}")]
    Reserved(&'static str),
    /// More than this implementation takes; the bound is documented where it is checked.
    #[error("too many {0}")]
    TooMany(&'static str),
    /// A compressed list builds on an item or a list that this end does not have: the context lacks something.
    #[error("it refers to list items that are not known here")]
    Unknown,
    /// Feedback or segments where they are not allowed.
    #[error("a packet type that is not allowed here")]
    Misplaced,
    /// The decompressed packet would not fit into its length fields.
    #[error("the decompressed packet would be too long")]
    TooLong,
}

/// Why a segment is of no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SegmentError {
    /// The channel's MRRU is 0: no segmentation.
    #[error("segmentation is off (MRRU 0)")]
    Off,
    /// The unit is longer than the channel's MRRU.
    #[error("a unit of {unit} octets, over the MRRU of {mrru}: give both ends a larger one")]
    TooLong {
        /// Its octets so far, with the CRC.
        unit: usize,
        /// The channel's MRRU.
        mrru: u16,
    },
    /// No packet, or segments too short to carry any of it.
    #[error("no packet, or no room for it in a segment")]
    TooShort,
    /// The CRC of the reconstructed unit is wrong: a segment was lost or damaged.
    #[error("the CRC of the reconstructed unit is wrong")]
    Crc,
}

/// Why feedback was not used. What came before the faulty element was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FeedbackError {
    /// The octets are not feedback elements (RFC 3095 5.2.2).
    #[error("not feedback: {0}")]
    Malformed(#[from] Malformed),
    /// Feedback for a context that is not in use.
    #[error("feedback for context {cid}, which is not in use")]
    NoContext {
        /// The context that the element names.
        cid: u16,
    },
    /// The feedback's CRC option is wrong (RFC 3095 5.7.6.3).
    #[error("context {cid}: the feedback's CRC is wrong")]
    Crc {
        /// The context that the element names.
        cid: u16,
    },
    /// It acknowledges a packet that was not sent in the context: one of a former flow, or of none.
    #[error("feedback for context {cid} acknowledges a packet that was not sent in it")]
    NotSent {
        /// The context that the element names.
        cid: u16,
    },
}
