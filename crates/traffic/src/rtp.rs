//! RTP (RFC 3550) as voice needs it: the fixed header.

/// Bytes of the fixed header.
pub const RTP_LEN: usize = 12;

/// The fixed header of RFC 3550 5.1, version 2 without padding, extension or contributing sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rtp {
    /// Set on the first packet after a silence (RFC 3551 4.1).
    pub marker: bool,
    /// Payload type, 7 bits.
    pub payload_type: u8,
    /// Sequence number.
    pub sequence: u16,
    /// Sampling instant of the first sample, in ticks of the clock.
    pub timestamp: u32,
    /// Synchronisation source.
    pub ssrc: u32,
}

impl Rtp {
    /// The header at the start of a datagram and the payload behind it. `None` if it is not version 2,
    /// is cut short, or has padding, an extension or contributing sources, which nothing here sends.
    #[must_use]
    pub fn read(datagram: &[u8]) -> Option<(Self, &[u8])> {
        let (header, payload) = datagram.split_first_chunk::<RTP_LEN>()?;
        let [first, second, s0, s1, t0, t1, t2, t3, c0, c1, c2, c3] = *header;
        (first == 2 << 6).then_some((
            Self {
                marker: second >> 7 == 1,
                payload_type: second & 0x7f,
                sequence: u16::from_be_bytes([s0, s1]),
                timestamp: u32::from_be_bytes([t0, t1, t2, t3]),
                ssrc: u32::from_be_bytes([c0, c1, c2, c3]),
            },
            payload,
        ))
    }

    /// The header as it stands in a datagram.
    #[must_use]
    pub fn bytes(&self) -> [u8; RTP_LEN] {
        let mut out = [0; RTP_LEN];
        out[0] = 2 << 6;
        out[1] = u8::from(self.marker) << 7 | self.payload_type & 0x7f;
        out[2..4].copy_from_slice(&self.sequence.to_be_bytes());
        out[4..8].copy_from_slice(&self.timestamp.to_be_bytes());
        out[8..12].copy_from_slice(&self.ssrc.to_be_bytes());
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        let rtp = Rtp { marker: true, payload_type: 97, sequence: 0xabcd, timestamp: 0x0102_0304, ssrc: 7 };
        let mut datagram = rtp.bytes().to_vec();
        datagram.extend([1, 2]);
        assert_eq!(Rtp::read(&datagram), Some((rtp, &[1, 2][..])));
        assert_eq!(Rtp::read(&datagram[..11]), None);
        datagram[0] |= 0x10;
        assert_eq!(Rtp::read(&datagram), None);
    }
}
