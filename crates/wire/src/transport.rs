//! TCP, UDP and ICMP echo headers.

use crate::checksum::Sum;

/// A UDP header (RFC 768), but for its length and checksum, which follow from where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Udp {
    /// Source port.
    pub source: u16,
    /// Destination port.
    pub destination: u16,
}

/// A TCP header (RFC 9293 3.1), but for its data offset and checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tcp<'a> {
    /// Source port.
    pub source: u16,
    /// Destination port.
    pub destination: u16,
    /// Sequence number of the first payload byte (or of the SYN).
    pub sequence: u32,
    /// Next sequence number expected; means something with [`TcpFlags::ACK`] only.
    pub acknowledgement: u32,
    /// Control bits.
    pub flags: TcpFlags,
    /// Receive window, unscaled.
    pub window: u16,
    /// Urgent pointer; means something with [`TcpFlags::URG`] only.
    pub urgent: u16,
    /// The options with their padding: a multiple of 4, at most 40 bytes.
    pub options: &'a [u8],
}

/// TCP's control bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpFlags(pub u8);

/// An ICMP echo request or reply, of either IP version (RFC 792, RFC 4443 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo {
    /// A reply, not a request.
    pub reply: bool,
    /// Tells one pinging process from another.
    pub identifier: u16,
    /// Number of the ping.
    pub sequence: u16,
}

/// Length of a UDP header in bytes.
pub const UDP_LEN: usize = 8;
/// Length of an ICMP echo header in bytes.
pub const ECHO_LEN: usize = 8;
/// Length of a TCP header without options in bytes.
pub const TCP_MIN_LEN: usize = 20;

impl TcpFlags {
    /// No more data from the sender.
    pub const FIN: Self = Self(0x01);
    /// Synchronise sequence numbers.
    pub const SYN: Self = Self(0x02);
    /// Reset the connection.
    pub const RST: Self = Self(0x04);
    /// Push.
    pub const PSH: Self = Self(0x08);
    /// The acknowledgement number is valid.
    pub const ACK: Self = Self(0x10);
    /// The urgent pointer is valid.
    pub const URG: Self = Self(0x20);
    /// ECN echo (RFC 3168 6.1).
    pub const ECE: Self = Self(0x40);
    /// Congestion window reduced (RFC 3168 6.1).
    pub const CWR: Self = Self(0x80);

    /// Whether all bits of `other` are set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl core::ops::BitOr for TcpFlags {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl Udp {
    /// Reads a datagram: the header and the payload. `None` if it is not whole.
    #[must_use]
    pub fn parse(datagram: &[u8]) -> Option<(Self, &[u8])> {
        let (header, rest) = datagram.split_first_chunk::<UDP_LEN>()?;
        let payload = usize::from(be16(header, 4)).checked_sub(UDP_LEN)?;
        Some((Self { source: be16(header, 0), destination: be16(header, 2) }, rest.get(..payload)?))
    }

    /// The header of a datagram of `length` bytes (header and payload), with a checksum of zero:
    /// "none" over IPv4.
    #[must_use]
    pub fn to_bytes(self, length: u16) -> [u8; UDP_LEN] {
        let mut header = [0; UDP_LEN];
        header[..2].copy_from_slice(&self.source.to_be_bytes());
        header[2..4].copy_from_slice(&self.destination.to_be_bytes());
        header[4..6].copy_from_slice(&length.to_be_bytes());
        header
    }
}

impl<'a> Tcp<'a> {
    /// Reads a segment: the header and the payload. `None` if the header is not whole.
    #[must_use]
    pub fn parse(segment: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (header, rest) = segment.split_first_chunk::<TCP_MIN_LEN>()?;
        let options = (usize::from(header[12] >> 4) * 4).checked_sub(TCP_MIN_LEN)?;
        let (options, payload) = rest.split_at_checked(options)?;
        let tcp = Self {
            source: be16(header, 0),
            destination: be16(header, 2),
            sequence: be32(header, 4),
            acknowledgement: be32(header, 8),
            flags: TcpFlags(header[13]),
            window: be16(header, 14),
            urgent: be16(header, 18),
            options,
        };
        Some((tcp, payload))
    }

    /// The header without its options, with a checksum of zero.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; TCP_MIN_LEN] {
        let mut header = [0; TCP_MIN_LEN];
        header[..2].copy_from_slice(&self.source.to_be_bytes());
        header[2..4].copy_from_slice(&self.destination.to_be_bytes());
        header[4..8].copy_from_slice(&self.sequence.to_be_bytes());
        header[8..12].copy_from_slice(&self.acknowledgement.to_be_bytes());
        header[12] = (((TCP_MIN_LEN + self.options.len()) / 4) as u8) << 4;
        header[13] = self.flags.0;
        header[14..16].copy_from_slice(&self.window.to_be_bytes());
        header[18..].copy_from_slice(&self.urgent.to_be_bytes());
        header
    }
}

impl Echo {
    /// ICMP's types of echo reply and request.
    const V4: [u8; 2] = [0, 8];
    /// `ICMPv6`'s.
    const V6: [u8; 2] = [129, 128];

    /// Reads an ICMP message of either version: the header and the payload. `None` if it is not an
    /// echo.
    #[must_use]
    pub fn parse(message: &[u8], v6: bool) -> Option<(Self, &[u8])> {
        let (header, payload) = message.split_first_chunk::<ECHO_LEN>()?;
        let [reply, request] = if v6 { Self::V6 } else { Self::V4 };
        let reply = match header[0] {
            kind if kind == reply => true,
            kind if kind == request => false,
            _ => return None,
        };
        (header[1] == 0).then_some(())?;
        Some((Self { reply, identifier: be16(header, 4), sequence: be16(header, 6) }, payload))
    }

    /// The header with a checksum of zero.
    #[must_use]
    pub fn to_bytes(self, v6: bool) -> [u8; ECHO_LEN] {
        let [reply, request] = if v6 { Self::V6 } else { Self::V4 };
        let mut header = [0; ECHO_LEN];
        header[0] = if self.reply { reply } else { request };
        header[4..6].copy_from_slice(&self.identifier.to_be_bytes());
        header[6..].copy_from_slice(&self.sequence.to_be_bytes());
        header
    }
}

/// Whether the checksum in a transport header and payload is right, given its pseudo-header's sum
/// (zero for ICMP over IPv4).
#[must_use]
pub fn is_intact(transport: &[u8], pseudo_header: Sum) -> bool {
    (pseudo_header + Sum::of(transport)).checksum() == 0
}

fn be16(header: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([header[at], header[at + 1]])
}

fn be32(header: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
}
