//! GTP-U: user packets in tunnels over UDP (TS 29.281), with the PDU session container of 5G (TS 38.415).

use alloc::vec::Vec;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::frame::TooLong;

/// The UDP port of GTP-U (TS 29.281 4.4.2.3).
pub const GTPU_PORT: u16 = 2152;
/// Length of the header without its optional part in bytes.
pub const MIN_LEN: usize = 8;
/// The longest header written here: optional fields and a PDU session container with a paging policy.
pub const MAX_LEN: usize = 20;

/// A GTP-U message as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gtpu<'a> {
    /// What it is.
    pub message: Message,
    /// Tunnel endpoint identifier at the receiver; 0 for messages about the path.
    pub teid: u32,
    /// Sequence number, if the S flag says that it counts.
    pub sequence: Option<u16>,
    /// N-PDU number, if the PN flag says that it counts.
    pub n_pdu: Option<u8>,
    /// The PDU session container, if there is one.
    pub pdu_session: Option<PduSession>,
    /// What follows the headers: a user packet, or the information elements of another message.
    pub payload: &'a [u8],
}

/// Message types (TS 29.281 6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// Is the peer alive?
    EchoRequest,
    /// It is.
    EchoResponse,
    /// No tunnel has that TEID here.
    ErrorIndication,
    /// The extension headers the sender understands.
    SupportedExtensionHeaders,
    /// The last packet of a tunnel's old path.
    EndMarker,
    /// A user packet.
    GPdu,
    /// A type not known here.
    Other(u8),
}

/// A quality of service flow identifier: 0 to 63 (TS 38.415 5.5.3.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Qfi(u8);

/// A PDU session container (TS 38.415 5.5.2). Time stamps and sequence numbers of QoS monitoring are read over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PduSession {
    /// PDU type 0, from the UPF to the gNB.
    Downlink {
        /// The flow.
        qfi: Qfi,
        /// Reflective QoS: the UE is to send what answers this on the same flow.
        reflective: bool,
        /// Paging policy, 0 to 7.
        paging: Option<u8>,
    },
    /// PDU type 1, from the gNB to the UPF.
    Uplink {
        /// The flow.
        qfi: Qfi,
    },
}

/// What goes before a user packet, or is an end marker's all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TunnelHeader {
    /// Tunnel endpoint identifier the receiver gave.
    pub teid: u32,
    /// Sequence number, where packets are to be numbered.
    pub sequence: Option<u16>,
    /// PDU session container, in 5G.
    pub pdu_session: Option<PduSession>,
}

/// What an error indication is about (TS 29.281 7.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorIndication {
    /// The TEID that nobody has.
    pub teid: u32,
    /// Destination address of the packet that had it.
    pub peer: IpAddr,
}

/// Why a datagram is not a GTP-U message that can be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GtpuError {
    /// It ends before its headers do, or before the length in them says.
    #[error("the GTP-U message is cut off")]
    Truncated,
    /// The version is not 1.
    #[error("GTP version {0} is not the version 1 of GTP-U")]
    Version(u8),
    /// The protocol type is GTP' (TS 32.295).
    #[error("this is GTP', which carries charging data, not GTP-U")]
    Prime,
    /// An extension header whose type says that it has to be understood is not. The answer is a
    /// supported extension headers notification (TS 29.281 5.2.1).
    #[error("extension header {0:#04x} is not known and has to be")]
    Extension(u8),
    /// An extension header has the length 0, or ends within its fields.
    #[error("the length of extension header {0:#04x} is wrong")]
    ExtensionLength(u8),
    /// The PDU session container is of another type than 0 and 1.
    #[error("PDU session container of type {0} is not known")]
    PduType(u8),
}

/// Flags of the first octet (TS 29.281 5.1): an extension header, sequence number, N-PDU number follows.
const E: u8 = 0x04;
const S: u8 = 0x02;
const PN: u8 = 0x01;
/// Version 1 and protocol type GTP.
const VERSION_1: u8 = 0x30;

/// Extension header types (TS 29.281 5.2.1).
const PDU_SESSION_CONTAINER: u8 = 0x85;
/// Bits 8 and 7: the endpoint has to understand it (TS 29.281 figure 5.2.1-2; an endpoint is what all here are).
const MUST_UNDERSTAND: u8 = 0x80;

/// Information element types (TS 29.281 8.1).
const RECOVERY: u8 = 14;
const TEID_DATA_I: u8 = 16;
const PEER_ADDRESS: u8 = 133;
const EXTENSION_HEADER_TYPES: u8 = 141;

impl<'a> Gtpu<'a> {
    /// Reads a UDP payload. What follows the length in the header is left out.
    ///
    /// Unknown extension headers that need not be understood are read over (TS 29.281 5.2.1).
    ///
    /// # Errors
    ///
    /// It is not a GTP-U message, is not whole, or has an extension header that had to be understood.
    pub fn parse(datagram: &'a [u8]) -> Result<Self, GtpuError> {
        let (&[flags, kind, high, low, ref teid @ ..], rest) =
            datagram.split_first_chunk::<MIN_LEN>().ok_or(GtpuError::Truncated)?;
        if flags >> 5 != 1 {
            return Err(GtpuError::Version(flags >> 5));
        }
        if flags & 0x10 == 0 {
            return Err(GtpuError::Prime);
        }
        let length = usize::from(u16::from_be_bytes([high, low]));
        let mut payload = rest.get(..length).ok_or(GtpuError::Truncated)?;
        let (mut sequence, mut n_pdu, mut pdu_session) = (None, None, None);
        if flags & (E | S | PN) != 0 {
            let (&[high, low, number, first], mut rest) =
                payload.split_first_chunk::<4>().ok_or(GtpuError::Truncated)?;
            sequence = (flags & S != 0).then_some(u16::from_be_bytes([high, low]));
            n_pdu = (flags & PN != 0).then_some(number);
            let mut next = if flags & E != 0 { first } else { 0 };
            while next != 0 {
                let kind = next;
                let length = usize::from(*rest.first().ok_or(GtpuError::Truncated)?) * 4;
                let (extension, after) = rest.split_at_checked(length).ok_or(GtpuError::Truncated)?;
                let [_, content @ .., following] = extension else { return Err(GtpuError::ExtensionLength(kind)) };
                if kind == PDU_SESSION_CONTAINER {
                    pdu_session = Some(PduSession::parse(content)?);
                } else if kind & MUST_UNDERSTAND != 0 {
                    return Err(GtpuError::Extension(kind));
                }
                (next, rest) = (*following, after);
            }
            payload = rest;
        }
        let message = Message::from_number(kind);
        Ok(Self { message, teid: u32::from_be_bytes(*teid), sequence, n_pdu, pdu_session, payload })
    }
}

impl Message {
    /// The number on the wire.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::EchoRequest => 1,
            Self::EchoResponse => 2,
            Self::ErrorIndication => 26,
            Self::SupportedExtensionHeaders => 31,
            Self::EndMarker => 254,
            Self::GPdu => 255,
            Self::Other(number) => number,
        }
    }

    const fn from_number(number: u8) -> Self {
        match number {
            1 => Self::EchoRequest,
            2 => Self::EchoResponse,
            26 => Self::ErrorIndication,
            31 => Self::SupportedExtensionHeaders,
            254 => Self::EndMarker,
            255 => Self::GPdu,
            other => Self::Other(other),
        }
    }
}

impl Qfi {
    /// The flow with this number, if it is one: 0 to 63.
    #[must_use]
    pub const fn new(number: u8) -> Option<Self> {
        if number < 64 { Some(Self(number)) } else { None }
    }

    /// Its number.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }
}

impl fmt::Display for Qfi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl PduSession {
    /// The flow.
    #[must_use]
    pub const fn qfi(self) -> Qfi {
        match self {
            Self::Downlink { qfi, .. } | Self::Uplink { qfi } => qfi,
        }
    }

    /// Reads the content between the length and the next type.
    fn parse(content: &[u8]) -> Result<Self, GtpuError> {
        let short = GtpuError::ExtensionLength(PDU_SESSION_CONTAINER);
        let &[first, second, ref rest @ ..] = content else { return Err(short) };
        let qfi = Qfi(second & 0x3f);
        match first >> 4 {
            // TS 38.415 5.5.2.1: PPP, RQI, QFI; with PPP an octet with the policy in its high bits.
            0 => {
                let paging = match (second & 0x80 != 0, rest) {
                    (false, _) => None,
                    (true, [policy, ..]) => Some(policy >> 5),
                    (true, []) => return Err(short),
                };
                Ok(Self::Downlink { qfi, reflective: second & 0x40 != 0, paging })
            }
            // TS 38.415 5.5.2.2.
            1 => Ok(Self::Uplink { qfi }),
            other => Err(GtpuError::PduType(other)),
        }
    }

    /// Length of the extension header: with a paging policy the padding makes it one unit longer.
    const fn extension_len(self) -> usize {
        match self {
            Self::Downlink { paging: Some(_), .. } => 8,
            _ => 4,
        }
    }

    /// Writes the extension header, which is the last one.
    fn write(self, out: &mut [u8]) {
        out.fill(0);
        out[0] = (out.len() / 4) as u8;
        match self {
            Self::Downlink { qfi, reflective, paging } => {
                out[2] = qfi.0 | u8::from(reflective) << 6;
                if let Some(policy) = paging {
                    out[2] |= 0x80;
                    out[3] = policy << 5;
                }
            }
            Self::Uplink { qfi } => (out[1], out[2]) = (0x10, qfi.0),
        }
    }
}

impl TunnelHeader {
    /// Length in bytes: 8 to [`MAX_LEN`].
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a header is never empty")]
    pub const fn len(&self) -> usize {
        match (self.sequence, self.pdu_session) {
            (None, None) => MIN_LEN,
            (_, None) => MIN_LEN + 4,
            (_, Some(session)) => MIN_LEN + 4 + session.extension_len(),
        }
    }

    /// The header of a user packet of `payload` bytes: the first [`TunnelHeader::len`] bytes of what comes back.
    ///
    /// # Errors
    ///
    /// The packet is too long for the length field.
    pub fn g_pdu(&self, payload: usize) -> Result<[u8; MAX_LEN], TooLong> {
        self.to_bytes(Message::GPdu, payload)
    }

    /// Appends the header of a user packet of `payload` bytes.
    ///
    /// # Errors
    ///
    /// The packet is too long for the length field; nothing is appended.
    pub fn append(&self, out: &mut Vec<u8>, payload: usize) -> Result<(), TooLong> {
        out.extend_from_slice(&self.g_pdu(payload)?[..self.len()]);
        Ok(())
    }

    /// Appends an end marker (TS 29.281 7.3.2).
    pub fn append_end_marker(&self, out: &mut Vec<u8>) {
        // Nothing follows, so that nothing is too long.
        if let Ok(header) = self.to_bytes(Message::EndMarker, 0) {
            out.extend_from_slice(&header[..self.len()]);
        }
    }

    fn to_bytes(self, message: Message, payload: usize) -> Result<[u8; MAX_LEN], TooLong> {
        let (len, total) = (self.len(), self.len() - MIN_LEN + payload);
        let limit = usize::from(u16::MAX);
        let length = u16::try_from(total).map_err(|_| TooLong { what: "a GTP-U message", length: total, limit })?;
        let mut out = [0; MAX_LEN];
        out[0] =
            VERSION_1 | if self.pdu_session.is_some() { E } else { 0 } | if self.sequence.is_some() { S } else { 0 };
        out[1] = message.number();
        out[2..4].copy_from_slice(&length.to_be_bytes());
        out[4..8].copy_from_slice(&self.teid.to_be_bytes());
        out[8..10].copy_from_slice(&self.sequence.unwrap_or(0).to_be_bytes());
        if let Some(session) = self.pdu_session {
            out[11] = PDU_SESSION_CONTAINER;
            session.write(&mut out[12..len]);
        }
        Ok(out)
    }
}

/// Appends a G-PDU's header, as [`TunnelHeader::append`].
///
/// # Errors
///
/// The packet is too long for the length field; nothing is appended.
pub fn gpdu_header(
    out: &mut Vec<u8>,
    teid: u32,
    sequence: Option<u16>,
    pdu_session: Option<PduSession>,
    payload: usize,
) -> Result<(), TooLong> {
    TunnelHeader { teid, sequence, pdu_session }.append(out, payload)
}

/// Appends an echo request (TS 29.281 7.2.1).
pub fn echo_request(out: &mut Vec<u8>, sequence: u16) {
    signalling(out, Message::EchoRequest, sequence, &[]);
}

/// Appends the answer to the echo request with this number (TS 29.281 7.2.2). The restart counter is 0,
/// as that chapter wants it.
pub fn echo_response(out: &mut Vec<u8>, sequence: u16) {
    signalling(out, Message::EchoResponse, sequence, &[RECOVERY, 0]);
}

/// Appends a notification of the extension headers understood here (TS 29.281 7.2.3).
pub fn supported_extension_headers(out: &mut Vec<u8>, sequence: u16) {
    signalling(out, Message::SupportedExtensionHeaders, sequence, &[EXTENSION_HEADER_TYPES, 1, PDU_SESSION_CONTAINER]);
}

/// Appends an error indication (TS 29.281 7.3.1).
pub fn error_indication(out: &mut Vec<u8>, about: ErrorIndication, sequence: u16) {
    let mut elements = [0; 24];
    elements[0] = TEID_DATA_I;
    elements[1..5].copy_from_slice(&about.teid.to_be_bytes());
    elements[5] = PEER_ADDRESS;
    let end = match about.peer {
        IpAddr::V4(address) => {
            elements[6..8].copy_from_slice(&[0, 4]);
            elements[8..12].copy_from_slice(&address.octets());
            12
        }
        IpAddr::V6(address) => {
            elements[6..8].copy_from_slice(&[0, 16]);
            elements[8..24].copy_from_slice(&address.octets());
            24
        }
    };
    signalling(out, Message::ErrorIndication, sequence, &elements[..end]);
}

impl ErrorIndication {
    /// Reads the payload of an error indication. `None` if one of its two mandatory elements is not there or not whole.
    #[must_use]
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let (mut teid, mut peer, mut rest) = (None, None, payload);
        while let [kind, after @ ..] = rest {
            // TS 29.281 8.1: types below 128 have a fixed length, which has to be known; the others say theirs.
            let value;
            (value, rest) = match *kind {
                RECOVERY => after.split_at_checked(1)?,
                TEID_DATA_I => after.split_at_checked(4)?,
                EXTENSION_HEADER_TYPES => {
                    let (&length, after) = after.split_first()?;
                    after.split_at_checked(usize::from(length))?
                }
                128.. => {
                    let (length, after) = after.split_first_chunk()?;
                    after.split_at_checked(usize::from(u16::from_be_bytes(*length)))?
                }
                _ => break,
            };
            match (*kind, value.len()) {
                (TEID_DATA_I, _) => teid = value.first_chunk().map(|four| u32::from_be_bytes(*four)),
                (PEER_ADDRESS, 4) => peer = value.first_chunk::<4>().map(|four| IpAddr::V4(Ipv4Addr::from(*four))),
                (PEER_ADDRESS, 16) => peer = value.first_chunk::<16>().map(|all| IpAddr::V6(Ipv6Addr::from(*all))),
                _ => {}
            }
        }
        Some(Self { teid: teid?, peer: peer? })
    }
}

/// A message about a path: TEID 0, and with a sequence number (TS 29.281 5.1).
fn signalling(out: &mut Vec<u8>, message: Message, sequence: u16, elements: &[u8]) {
    let [high, low] = sequence.to_be_bytes();
    let length = (4 + elements.len()) as u8;
    out.extend_from_slice(&[VERSION_1 | S, message.number(), 0, length, 0, 0, 0, 0, high, low, 0, 0]);
    out.extend_from_slice(elements);
}

#[cfg(test)]
mod tests {
    use std::vec;

    use super::*;

    #[test]
    fn a_user_packet_of_5g_is_as_the_standard_draws_it() {
        let uplink = TunnelHeader {
            teid: 0x0102_0304,
            sequence: None,
            pdu_session: Some(PduSession::Uplink { qfi: Qfi::new(9).unwrap() }),
        };
        let mut bytes = vec![];
        uplink.append(&mut bytes, 3).unwrap();
        bytes.extend([7, 8, 9]);
        assert_eq!(bytes, [0x34, 255, 0, 11, 1, 2, 3, 4, 0, 0, 0, 0x85, 1, 0x10, 9, 0, 7, 8, 9]);
        let read = Gtpu::parse(&bytes).unwrap();
        assert_eq!((read.message, read.teid, read.sequence, read.n_pdu), (Message::GPdu, 0x0102_0304, None, None));
        assert_eq!((read.pdu_session, read.payload), (uplink.pdu_session, &[7, 8, 9][..]));
    }

    #[test]
    fn headers_come_back_as_they_were_written() {
        let qfi = Qfi::new(63).unwrap();
        let sessions = [
            None,
            Some(PduSession::Uplink { qfi }),
            Some(PduSession::Downlink { qfi, reflective: true, paging: None }),
            Some(PduSession::Downlink { qfi, reflective: false, paging: Some(5) }),
        ];
        for pdu_session in sessions {
            for sequence in [None, Some(0xfffe)] {
                let header = TunnelHeader { teid: 77, sequence, pdu_session };
                let mut bytes = vec![];
                header.append(&mut bytes, 2).unwrap();
                assert_eq!(bytes.len(), header.len());
                bytes.extend([1, 2, 0xaa]);
                let read = Gtpu::parse(&bytes).unwrap();
                assert_eq!((read.sequence, read.pdu_session, read.payload), (sequence, pdu_session, &[1, 2][..]));
                let mut marker = vec![];
                header.append_end_marker(&mut marker);
                let read = Gtpu::parse(&marker).unwrap();
                assert_eq!((read.message, read.teid, read.payload), (Message::EndMarker, 77, &[][..]));
            }
        }
        let header = TunnelHeader { teid: 1, sequence: Some(1), pdu_session: None };
        assert!(header.g_pdu(65_531).is_ok());
        assert_eq!(header.g_pdu(65_532).unwrap_err().length, 65_536);
    }

    #[test]
    fn unknown_extensions_are_read_over_or_refused_as_their_type_says() {
        let with = |kind: u8, extension: &[u8]| {
            let mut bytes = vec![0x34, 255, 0, 4 + extension.len() as u8 + 1, 0, 0, 0, 1, 0, 0, 0, kind];
            bytes.extend(extension);
            bytes.push(0x45);
            bytes
        };
        // 0x40 is the UDP port, 0x20 the service class indicator: bit 8 is clear.
        for kind in [0x20, 0x40, 0x03] {
            assert_eq!(Gtpu::parse(&with(kind, &[1, 0xab, 0xcd, 0])).unwrap().payload, [0x45]);
        }
        for kind in [0x81, 0xc0] {
            assert_eq!(Gtpu::parse(&with(kind, &[1, 0xab, 0xcd, 0])), Err(GtpuError::Extension(kind)));
        }
        // A second one behind the first.
        let two = with(0x40, &[1, 0, 0, 0x85, 2, 0x01, 0x3f, 0, 0, 0, 0, 0]);
        let downlink = Some(PduSession::Downlink { qfi: Qfi(63), reflective: false, paging: None });
        assert_eq!(Gtpu::parse(&two).unwrap().pdu_session, downlink);
        assert_eq!(Gtpu::parse(&with(0x85, &[0, 0, 0, 0])), Err(GtpuError::ExtensionLength(0x85)));
        assert_eq!(Gtpu::parse(&with(0x85, &[1, 0x20, 0, 0])), Err(GtpuError::PduType(2)));
        assert_eq!(Gtpu::parse(&with(0x40, &[9, 0, 0, 0])), Err(GtpuError::Truncated));
    }

    #[test]
    fn messages_about_the_path_are_answered_and_read() {
        let mut bytes = vec![];
        echo_request(&mut bytes, 0x1234);
        assert_eq!(bytes, [0x32, 1, 0, 4, 0, 0, 0, 0, 0x12, 0x34, 0, 0]);
        bytes.clear();
        echo_response(&mut bytes, 0x1234);
        assert_eq!(bytes, [0x32, 2, 0, 6, 0, 0, 0, 0, 0x12, 0x34, 0, 0, 14, 0]);
        bytes.clear();
        supported_extension_headers(&mut bytes, 1);
        assert_eq!(Gtpu::parse(&bytes).unwrap().payload, [141, 1, 0x85]);
        for peer in [IpAddr::from([10, 0, 0, 1]), IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, 1])] {
            bytes.clear();
            let about = ErrorIndication { teid: 0xdead_beef, peer };
            error_indication(&mut bytes, about, 2);
            let read = Gtpu::parse(&bytes).unwrap();
            assert_eq!((read.message, read.teid), (Message::ErrorIndication, 0));
            assert_eq!(ErrorIndication::parse(read.payload), Some(about));
            for end in 0..read.payload.len() {
                assert_eq!(ErrorIndication::parse(&read.payload[..end]), None);
            }
        }
    }

    #[test]
    fn what_is_not_gtpu_is_refused_by_name() {
        assert_eq!(Gtpu::parse(&[0x30, 255, 0]), Err(GtpuError::Truncated));
        assert_eq!(Gtpu::parse(&[0x30, 255, 0, 1, 0, 0, 0, 0]), Err(GtpuError::Truncated));
        assert_eq!(Gtpu::parse(&[0x48, 32, 0, 0, 0, 0, 0, 0]), Err(GtpuError::Version(2)));
        assert_eq!(Gtpu::parse(&[0x20, 1, 0, 0, 0, 0, 0, 0]), Err(GtpuError::Prime));
        assert_eq!(Gtpu::parse(&[0x32, 1, 0, 3, 0, 0, 0, 0, 0, 0, 0]), Err(GtpuError::Truncated));
    }
}
