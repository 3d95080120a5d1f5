//! Names: of networks, of nodes, of rules.

use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::pfcp::codec::{Parts, Value, Wrong};
use crate::pfcp::{Encoding, NetworkInstanceForm, Vec};

/// A domain name, APN, data network name or network instance: labels with dots between them. Copies share it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

/// Characters as they are: the name of a predefined rule, of an application. Copies share it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text(pub Arc<str>);

/// What a node is called (TS 29.244 8.2.38).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NodeId {
    /// By its address.
    V4(Ipv4Addr),
    /// By its address.
    V6(Ipv6Addr),
    /// By its fully qualified domain name.
    Fqdn(Name),
}

/// Why a text is not a name that can be written as labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// A label is empty: two dots in a row, one at an end, or nothing at all.
    #[error("a name has at least one character before, after and between its dots")]
    EmptyLabel,
    /// A label is longer than 63 bytes (RFC 1035 2.3.4).
    #[error("the part of a name between two dots has at most 63 bytes, and here {0}")]
    LongLabel(usize),
    /// All together is longer than 255 bytes (RFC 1035 2.3.4).
    #[error("a name has at most 254 bytes, and here {0}")]
    Long(usize),
    /// A control character.
    #[error("a name has no control characters")]
    Control,
}

impl Name {
    /// The name with this text.
    ///
    /// # Errors
    ///
    /// It cannot be written as labels.
    pub fn new(text: &str) -> Result<Self, NameError> {
        // With the length of the first label it is one byte longer than its text.
        if text.len() > 254 {
            return Err(NameError::Long(text.len()));
        }
        for label in text.split('.') {
            match label.len() {
                0 => return Err(NameError::EmptyLabel),
                64.. => return Err(NameError::LongLabel(label.len())),
                _ if label.chars().any(char::is_control) => return Err(NameError::Control),
                _ => {}
            }
        }
        Ok(Self(text.into()))
    }

    /// Its text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Labels with their lengths (RFC 1035 3.1), with or without the root's at the end; `None` if it is not that.
    fn from_labels(mut bytes: &[u8]) -> Option<Self> {
        let mut text = String::new();
        while let Some((&length, rest)) = bytes.split_first() {
            if length == 0 && rest.is_empty() && !text.is_empty() {
                break;
            }
            let (label, rest) = rest.split_at_checked(usize::from(length))?;
            let label = core::str::from_utf8(label).ok().filter(|label| !label.contains('.'))?;
            if !text.is_empty() {
                text.push('.');
            }
            text.push_str(label);
            bytes = rest;
        }
        Self::new(&text).ok()
    }

    /// In whichever form it was written. A text whose first character is the length of a label, with nothing over at the
    /// end, is read as labels; letters are too large for that.
    fn from_any(bytes: &[u8]) -> Result<Self, Wrong> {
        let text = || Self::new(core::str::from_utf8(bytes).ok()?).ok();
        Self::from_labels(bytes).or_else(text).ok_or(Wrong::Content)
    }

    fn write_labels(&self, out: &mut Vec<u8>) {
        for label in self.0.split('.') {
            out.push(label.len() as u8);
            out.extend_from_slice(label.as_bytes());
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Value for Name {
    fn read(bytes: &[u8]) -> Result<Self, Wrong> {
        Self::from_any(bytes)
    }

    fn write(&self, out: &mut Vec<u8>, encoding: Encoding) {
        match encoding.network_instance {
            NetworkInstanceForm::Labels => self.write_labels(out),
            NetworkInstanceForm::Text => out.extend_from_slice(self.0.as_bytes()),
        }
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Value for Text {
    fn read(bytes: &[u8]) -> Result<Self, Wrong> {
        core::str::from_utf8(bytes).map(Self::from).map_err(|_| Wrong::Content)
    }

    fn write(&self, out: &mut Vec<u8>, _: Encoding) {
        out.extend_from_slice(self.0.as_bytes());
    }
}

impl From<IpAddr> for NodeId {
    fn from(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self::V4(address),
            IpAddr::V6(address) => Self::V6(address),
        }
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::V4(address) => address.fmt(f),
            Self::V6(address) => address.fmt(f),
            Self::Fqdn(name) => name.fmt(f),
        }
    }
}

impl Value for NodeId {
    fn read(bytes: &[u8]) -> Result<Self, Wrong> {
        let mut parts = Parts(bytes);
        match parts.octet()? & 0x0f {
            0 => Ok(Self::V4(parts.take::<4>()?.into())),
            1 => Ok(Self::V6(parts.take::<16>()?.into())),
            2 => Name::from_any(parts.0).map(Self::Fqdn),
            _ => Err(Wrong::Content),
        }
    }

    fn write(&self, out: &mut Vec<u8>, _: Encoding) {
        match self {
            Self::V4(address) => {
                out.push(0);
                out.extend_from_slice(&address.octets());
            }
            Self::V6(address) => {
                out.push(1);
                out.extend_from_slice(&address.octets());
            }
            Self::Fqdn(name) => {
                out.push(2);
                name.write_labels(out);
            }
        }
    }
}
