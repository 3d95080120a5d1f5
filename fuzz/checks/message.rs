//! What must hold for any datagram that comes to `narrows probe` or to a voice flow's socket.

use traffic::Rtp;
use traffic::pairs::Message;

/// `data` as a datagram: what is read is written as it was.
pub(crate) fn message(data: &[u8]) {
    if let Some(message) = Message::read(data) {
        let mut written = Vec::new();
        message.write(&mut written);
        assert!(data.starts_with(&written), "{message:?}");
    }
    if let Some((rtp, payload)) = Rtp::read(data) {
        assert_eq!([&rtp.bytes()[..], payload].concat(), data);
    }
}
