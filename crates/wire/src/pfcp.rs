//! PFCP: how a control plane tells a user plane what to do with packets (TS 29.244).
//!
//! A [`Message`] is a header and one of the bodies of [`message`]; those hold rules ([`rules`]), and rules hold
//! values ([`value`]). Reading is strict about what is needed and lenient about the rest: information elements
//! that are not known here, of vendors, or repeated where the standard has one, are read over; those of which it has
//! several are all kept. What cannot be read says which cause and offending element the answer has to name.
//!
//! ```
//! use wire::pfcp::message::{Body, HeartbeatRequest};
//! use wire::pfcp::value::NtpTime;
//! use wire::pfcp::{Encoding, Message};
//!
//! let request = HeartbeatRequest { recovery: NtpTime(0xe8e9_0000) };
//! let message = Message { seid: None, sequence: 7, body: Body::HeartbeatRequest(request) };
//! let mut bytes = Vec::new();
//! message.write(&mut bytes, Encoding::default())?;
//! assert_eq!(bytes, [0x20, 1, 0, 12, 0, 0, 7, 0, 0, 96, 0, 4, 0xe8, 0xe9, 0, 0]);
//! assert_eq!(Message::parse(&bytes)?, message);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use alloc::vec::Vec;

mod cause;
mod codec;
pub mod elements;
pub mod message;
pub mod rules;
pub mod value;

use crate::frame::TooLong;

pub use cause::Cause;
pub use codec::Fault;
pub use elements::element_name;
use message::Body;

/// The UDP port of PFCP (TS 29.244 4.2).
pub const PFCP_PORT: u16 = 8805;

/// The largest sequence number: it has 24 bits (TS 29.244 7.2.2.1).
pub const MAX_SEQUENCE: u32 = 0xff_ffff;

/// One PFCP message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The receiver's session endpoint identifier: there in messages about sessions, and only there.
    pub seid: Option<u64>,
    /// Tells which request an answer belongs to; its low 24 bits count.
    pub sequence: u32,
    /// What it says.
    pub body: Body,
}

/// How to write what user planes read in different ways. All forms are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Encoding {
    /// Octets of the Apply Action element.
    pub apply_action: ApplyActionForm,
    /// How names of network instances are written.
    pub network_instance: NetworkInstanceForm,
}

/// Length of the Apply Action element (TS 29.244 8.2.26).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ApplyActionForm {
    /// One octet, as release 15 has it.
    One,
    /// Two octets, since release 16; user planes of that age refuse one.
    #[default]
    Two,
}

/// Form of the Network Instance element (TS 29.244 8.2.4), which is a domain name, an APN, or whatever both sides agreed upon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NetworkInstanceForm {
    /// Labels with their lengths, as in the DNS (TS 23.003 9.1).
    #[default]
    Labels,
    /// The characters as they are.
    Text,
}

/// Why a datagram is not a message that can be acted upon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PfcpError {
    /// It ends before its header does, or before the length in it says. To be dropped in silence (TS 29.244 7.6).
    #[error("the PFCP message is cut off")]
    Truncated,
    /// Another version than 1. A request is answered by Version Not Supported (TS 29.244 7.6).
    #[error("PFCP version {version} is not version 1")]
    Version {
        /// The version.
        version: u8,
        /// The message type, if it stands where version 1 has it.
        message_type: u8,
        /// The sequence number, if it stands where version 1 has it.
        sequence: u32,
    },
    /// A message type that is not known here. To be dropped in silence (TS 29.244 7.6).
    #[error("PFCP message type {0} is not known")]
    MessageType(u8),
    /// A message about a session without an SEID, or one about the node with one.
    #[error("the SEID flag does not fit PFCP message type {0}")]
    SeidFlag(u8),
    /// An information element is missing or wrong. A request is answered with the cause (TS 29.244 7.6).
    #[error("in {}: {fault}", message::type_name(*message_type))]
    Body {
        /// The message's type.
        message_type: u8,
        /// The receiver's SEID.
        seid: Option<u64>,
        /// The sequence number.
        sequence: u32,
        /// What is wrong with which element.
        fault: Fault,
    },
}

/// Header flag (TS 29.244 7.2.2.1): an SEID is there.
const S: u8 = 0x01;
/// Version 1 in the upper three bits.
const VERSION_1: u8 = 0x20;

impl Message {
    /// Reads a UDP payload. What follows the length in the header is left out; a priority is read over.
    ///
    /// # Errors
    ///
    /// It is not a PFCP message, is not known, or lacks something it needs.
    pub fn parse(datagram: &[u8]) -> Result<Self, PfcpError> {
        let (&[flags, message_type, high, low], rest) = datagram.split_first_chunk().ok_or(PfcpError::Truncated)?;
        let (seid, after_seid) = match rest.split_first_chunk() {
            Some((seid, after)) if flags & S != 0 => (Some(u64::from_be_bytes(*seid)), Some(after)),
            _ => (None, (flags & S == 0).then_some(rest)),
        };
        let number = after_seid.and_then(|bytes| bytes.first_chunk::<4>());
        let sequence = number.map(|&[high, middle, low, _]| u32::from_be_bytes([0, high, middle, low]));
        if flags >> 5 != 1 {
            let (version, sequence) = (flags >> 5, sequence.unwrap_or(0));
            return Err(PfcpError::Version { version, message_type, sequence });
        }
        let sequence = sequence.ok_or(PfcpError::Truncated)?;
        let length = usize::from(u16::from_be_bytes([high, low]));
        let header = if seid.is_some() { 12 } else { 4 };
        let elements = rest.get(header..length).ok_or(PfcpError::Truncated)?;
        if message::is_about_session(message_type) != seid.is_some() {
            return Err(PfcpError::SeidFlag(message_type));
        }
        match Body::read(message_type, elements) {
            Some(Ok(body)) => Ok(Self { seid, sequence, body }),
            Some(Err(fault)) => Err(PfcpError::Body { message_type, seid, sequence, fault }),
            None => Err(PfcpError::MessageType(message_type)),
        }
    }

    /// Appends the message. A message about a session that has no SEID is written with 0, which is right where the
    /// receiver has given none yet (TS 29.244 7.2.2.4.2).
    ///
    /// # Errors
    ///
    /// It is longer than the length field can say; nothing is appended.
    pub fn write(&self, out: &mut Vec<u8>, encoding: Encoding) -> Result<(), TooLong> {
        let start = out.len();
        let kind = self.body.message_type();
        let session = message::is_about_session(kind);
        out.extend_from_slice(&[VERSION_1 | if session { S } else { 0 }, kind, 0, 0]);
        if session {
            out.extend_from_slice(&self.seid.unwrap_or(0).to_be_bytes());
        }
        let [_, high, middle, low] = self.sequence.to_be_bytes();
        out.extend_from_slice(&[high, middle, low, 0]);
        self.body.write(out, encoding);
        let length = out.len() - start - 4;
        let Ok(field) = u16::try_from(length) else {
            out.truncate(start);
            return Err(TooLong { what: "a PFCP message", length, limit: usize::from(u16::MAX) });
        };
        out[start + 2..start + 4].copy_from_slice(&field.to_be_bytes());
        Ok(())
    }
}
