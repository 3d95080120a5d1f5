//! What must hold for any datagram that comes to `narrows probe` or to the sockets of voice and calls.

use traffic::Rtp;
use traffic::pairs::Message;
use traffic::sip::{Sdp, SipMessage};

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
    if let Some(message) = SipMessage::read(data) {
        let [long, compact] = [false, true].map(|compact| message.bytes(compact));
        let again = SipMessage::read(&long);
        // White space may change and what is not known here is left out, but what it means stays.
        assert_eq!(again, SipMessage::read(&compact));
        if let Some(again) = again {
            assert_eq!(
                (again.sequence, again.request(), again.status()),
                (message.sequence, message.request(), message.status())
            );
        }
        let _ = (message.branch(), message.response(486, "Busy Here", Some("tag")));
    }
    if let Some(sdp) = Sdp::read(data) {
        assert_eq!(Sdp::read(&sdp.bytes()), Some(sdp));
    }
}
