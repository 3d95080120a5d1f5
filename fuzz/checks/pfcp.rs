//! What must hold for any datagram that comes to the PFCP port.

use wire::pfcp::{ApplyActionForm, Encoding, Message, PfcpError};

/// `data` as a PFCP message: what was read is written so that it is read as the same.
pub(crate) fn pfcp(data: &[u8]) {
    match Message::parse(data) {
        Ok(message) => {
            for apply_action in [ApplyActionForm::One, ApplyActionForm::Two] {
                let encoding = Encoding { apply_action, ..Encoding::default() };
                let mut written = Vec::new();
                // Sets of flags may have become longer, and with them a message too long.
                if message.write(&mut written, encoding).is_ok() {
                    assert_eq!(Message::parse(&written).as_ref(), Ok(&message));
                }
            }
        }
        Err(error @ PfcpError::Body { .. }) => assert!(!error.to_string().is_empty()),
        Err(_) => {}
    }
}
