//! The fixed part of a TCP header, and the control fields that go with it (RFC 6846 6.1).

use alloc::vec::Vec;

use super::chain::MAX_LAYERS;

/// Octets of a TCP header without options.
pub(super) const FIXED: usize = 20;

/// RST, SYN and FIN as three bits.
pub(super) const RST: u8 = 4;
pub(super) const SYN: u8 = 2;
pub(super) const FIN: u8 = 1;

/// The fields, but for the data offset, which is inferred (RFC 6846 6.4.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tcp {
    pub(super) source: u16,
    pub(super) destination: u16,
    pub(super) seq: u32,
    pub(super) ack: u32,
    /// Four reserved bits.
    pub(super) reserved: u8,
    /// CWR and ECE.
    pub(super) ecn: u8,
    pub(super) urg_flag: bool,
    pub(super) ack_flag: bool,
    pub(super) psh_flag: bool,
    /// [`RST`], [`SYN`], [`FIN`].
    pub(super) rsf: u8,
    pub(super) window: u16,
    pub(super) checksum: u16,
    pub(super) urg_ptr: u16,
}

impl Tcp {
    /// The fields and the length of the header; none if it is cut or its offset impossible.
    pub(super) fn parse(segment: &[u8]) -> Option<(Self, usize)> {
        let fixed = segment.first_chunk::<FIXED>()?;
        let len = usize::from(fixed[12] >> 4) * 4;
        if len < FIXED || len > segment.len() {
            return None;
        }
        let half = |at: usize| u16::from_be_bytes([fixed[at], fixed[at + 1]]);
        let word = |at: usize| u32::from(half(at)) << 16 | u32::from(half(at + 2));
        let flags = fixed[13];
        let tcp = Self {
            source: half(0),
            destination: half(2),
            seq: word(4),
            ack: word(8),
            reserved: fixed[12] & 0x0f,
            ecn: flags >> 6,
            urg_flag: flags & 0x20 != 0,
            ack_flag: flags & 0x10 != 0,
            psh_flag: flags & 0x08 != 0,
            rsf: flags & 0x07,
            window: half(14),
            checksum: half(16),
            urg_ptr: half(18),
        };
        Some((tcp, len))
    }

    /// Appends the fixed part for a header of `options` octets of options.
    pub(super) fn write(&self, out: &mut Vec<u8>, options: usize) {
        out.extend_from_slice(&self.source.to_be_bytes());
        out.extend_from_slice(&self.destination.to_be_bytes());
        out.extend_from_slice(&self.seq.to_be_bytes());
        out.extend_from_slice(&self.ack.to_be_bytes());
        out.push((((FIXED + options) / 4) as u8) << 4 | self.reserved);
        out.push(
            self.ecn << 6
                | u8::from(self.urg_flag) << 5
                | u8::from(self.ack_flag) << 4
                | u8::from(self.psh_flag) << 3
                | self.rsf,
        );
        out.extend_from_slice(&self.window.to_be_bytes());
        out.extend_from_slice(&self.checksum.to_be_bytes());
        out.extend_from_slice(&self.urg_ptr.to_be_bytes());
    }
}

/// How an IPv4 identification behaves (RFC 6846 6.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IpId {
    /// Goes up with the packets, in network byte order.
    Sequential = 0,
    /// Goes up with the packets, its two octets swapped.
    Swapped = 1,
    Random = 2,
    Zero = 3,
}

impl IpId {
    pub(super) const fn from_bits(bits: u32) -> Self {
        match bits & 3 {
            0 => Self::Sequential,
            1 => Self::Swapped,
            2 => Self::Random,
            _ => Self::Zero,
        }
    }

    /// Which of the two sets of base headers is used (RFC 6846 8.1).
    pub(super) const fn is_sequential(self) -> bool {
        matches!(self, Self::Sequential | Self::Swapped)
    }

    /// The offset between the identification on the wire and the master sequence number.
    pub(super) const fn offset(self, id: u16, msn: u16) -> u16 {
        match self {
            Self::Swapped => id.swap_bytes().wrapping_sub(msn),
            _ => id.wrapping_sub(msn),
        }
    }

    /// The identification on the wire for an offset.
    pub(super) const fn id(self, offset: u16, msn: u16) -> u16 {
        match self {
            Self::Swapped => offset.wrapping_add(msn).swap_bytes(),
            _ => offset.wrapping_add(msn),
        }
    }
}

/// A number sent as a multiple of a factor and a rest (RFC 6846 6.4.8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Scaled {
    pub(super) value: u32,
    pub(super) residue: u32,
}

impl Scaled {
    /// None if there is no factor to scale by.
    pub(super) fn of(number: u32, factor: u32) -> Option<Self> {
        Some(Self { value: number.checked_div(factor)?, residue: number.checked_rem(factor)? })
    }
}

/// What the decompressor knows from header to header beside the chain's octets and the options.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields {
    pub(super) tcp: Tcp,
    pub(super) msn: u16,
    /// Of each header of the chain; meaningless for what is no IPv4 header.
    pub(super) ip_id: [IpId; MAX_LAYERS],
    /// Innermost identification less MSN.
    pub(super) ip_id_offset: u16,
    pub(super) ecn_used: bool,
    pub(super) ack_stride: u16,
    pub(super) scaled_seq: Scaled,
    pub(super) scaled_ack: Scaled,
}

impl Fields {
    pub(super) fn new() -> Self {
        Self {
            tcp: Tcp::default(),
            msn: 0,
            ip_id: [IpId::Random; MAX_LAYERS],
            ip_id_offset: 0,
            ecn_used: false,
            ack_stride: 0,
            scaled_seq: Scaled::default(),
            scaled_ack: Scaled::default(),
        }
    }
}
