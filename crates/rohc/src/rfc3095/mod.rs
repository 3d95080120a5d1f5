//! The profiles of RFC 3095 and RFC 3843: RTP (0x0001), UDP (0x0002), ESP (0x0003), IP (0x0004).
//!
//! They are one profile with small differences ([`Kind`]): a chain of IP headers, at most one
//! transport header behind it, and a sequence number that everything else follows.
//!
//! | part | where |
//! |---|---|
//! | what the headers say, and the CRC over them (5.9.2) | [`header`] |
//! | static and dynamic chains of IR and IR-DYN (5.7.7) | [`chain`] |
//! | UO-0, UO-1, UOR-2, extensions (5.7.1 to 5.7.5, 5.11.3): reading | [`fields`] |
//! | the same: writing | [`format`] |
//! | what changes from packet to packet, and how often it was said | [`observe`] |
//! | states and modes of the compressor (5.3.1, 5.4.1, 5.6) | [`compress`] |
//! | IR and IR-DYN packets: reading | [`initial`] |
//! | fields and references put together (4.5) | [`decode`] |
//! | states and modes of the decompressor, repair (5.3.2, 5.4.2) | [`decompress`] |
//! | the time between packets, at both ends (5.3.2.2.4) | [`pace`] |
//! | FEEDBACK-1 and FEEDBACK-2 (5.7.6) | [`feedback`] |
//! | extension headers and CSRC lists (5.8) | [`crate::list`] |
//!
//! Left out, and where the RFC leaves a choice:
//! * R mode: a decompressor here never asks for it, and a compressor that is asked stays in O mode, or
//!   declines where it can (RFC 3843 3.4).
//! * Timer-based timestamps (4.5.4): the decompressor never sends the CLOCK option without which a
//!   compressor must not use them, and the compressor never sends TIME_STRIDE.
//! * Reverse decompression (6.1), which is optional.
//! * ESP with the NULL algorithm as an item of a list (5.8.4.3): it looks like any other ESP, which profile
//!   0x0003 compresses up to its sequence number. A list with such an item is refused.
//! * Two headers of a kind that has sequence numbers (AH, GRE) behind one IP header: extension 3 has room for one.
//!   Such packets go uncompressed.
//! * A compressed header with a UDP checksum of zero in a context with checksums is refused: nothing would show that
//!   it was misread. This compressor sends IR-DYN when a flow gives up its checksum.
//! * A repaired context delivers its first packet at once if the transport checksum covers the sequence
//!   number: 16 more bits say more than the two further packets that 5.3.2.2.4 e would wait for.
//! * SID in IPv4's dynamic part (RFC 3843 3.3) is understood in all four profiles: others send it there, and
//!   RFC 3095 gives the bit no other meaning. It is sent in 0x0004 only.
//! * An IR packet without payload is delivered if the UDP checksum in it is that of an empty payload.
//!   RFC 3095 5.7.7 has no way to tell it from one that only refreshes the context, and delivers none.

pub(crate) mod chain;
pub(crate) mod compress;
mod decode;
pub(crate) mod decompress;
pub(crate) mod feedback;
pub(crate) mod fields;
pub(crate) mod format;
pub(crate) mod header;
mod initial;
pub(crate) mod observe;
mod pace;

use crate::profile::Profile;

/// Which of the four profiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Rtp,
    Udp,
    Esp,
    Ip,
}

impl Kind {
    pub(crate) const fn profile(self) -> Profile {
        match self {
            Self::Rtp => Profile::Rtp,
            Self::Udp => Profile::Udp,
            Self::Esp => Profile::Esp,
            Self::Ip => Profile::Ip,
        }
    }

    pub(crate) const fn of(profile: Profile) -> Option<Self> {
        match profile {
            Profile::Rtp => Some(Self::Rtp),
            Profile::Udp => Some(Self::Udp),
            Profile::Esp => Some(Self::Esp),
            Profile::Ip => Some(Self::Ip),
            Profile::Uncompressed | Profile::Tcp => None,
        }
    }

    /// Bits of the sequence number: ESP's has 32 (RFC 3095 5.7.7.7), RTP's and the generated one 16.
    pub(crate) const fn sn_field(self) -> u32 {
        if matches!(self, Self::Esp) { 32 } else { 16 }
    }

    /// What the sequence number is cut to.
    pub(crate) const fn sn_mask(self) -> u32 {
        if matches!(self, Self::Esp) { u32::MAX } else { 0xffff }
    }

    /// p of the sequence number's interpretation interval for `width` bits (RFC 3095 5.7, 5.11, 5.12;
    /// RFC 3843 3).
    pub(crate) const fn sn_p(self, width: u32) -> i32 {
        match self {
            // Generated numbers neither repeat nor go back.
            Self::Udp | Self::Ip => -1,
            Self::Rtp | Self::Esp if width <= 4 => 1,
            Self::Rtp | Self::Esp => {
                if width >= 36 {
                    i32::MAX
                } else {
                    ((1u64 << (width - 5)) - 1) as i32
                }
            }
        }
    }

    /// Do the headers of this profile have a UDP header among them?
    pub(crate) const fn has_udp(self) -> bool {
        matches!(self, Self::Rtp | Self::Udp)
    }
}

/// p of the timestamp's interpretation interval for `width` bits (RFC 3095 5.7, RFC 4815 4.3).
pub(crate) const fn ts_p(width: u32) -> i32 {
    match width {
        0..=2 => 0,
        3..=32 => ((1u64 << (width - 2)) - 1) as i32,
        _ => i32::MAX,
    }
}

/// Offset IP-ID encoding's p (RFC 3095 5.7).
pub(crate) const ID_P: i32 = 0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interpretation_intervals() {
        // RFC 3095 5.7: p = 1 up to 4 bits, 2^(k-5) - 1 above.
        assert_eq!([4, 5, 6, 9, 14].map(|width| Kind::Rtp.sn_p(width)), [1, 0, 1, 15, 511]);
        assert_eq!(Kind::Udp.sn_p(4), -1);
        // 2^(k-2) - 1.
        assert_eq!([5, 6, 9, 32].map(ts_p), [7, 15, 127, 0x3fff_ffff]);
    }
}
