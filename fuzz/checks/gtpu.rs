//! What must hold for any datagram that comes to the GTP-U port.

use wire::gtpu::{ErrorIndication, Gtpu, Message, TunnelHeader};

/// `data` as a GTP-U message: what is read lies within it, and a header made of it says the same.
pub(crate) fn gtpu(data: &[u8]) {
    let Ok(read) = Gtpu::parse(data) else { return };
    let Gtpu { message, teid, sequence, pdu_session, payload, .. } = read;
    assert!(data.len() >= 8 + payload.len());
    assert!(payload.is_empty() || data.as_ptr_range().contains(&payload.as_ptr()));
    let _ = ErrorIndication::parse(payload);
    if message == Message::GPdu {
        let header = TunnelHeader { teid, sequence, pdu_session };
        let mut again = Vec::new();
        if header.append(&mut again, payload.len()).is_ok() {
            assert_eq!(again.len(), header.len());
            again.extend_from_slice(payload);
            assert_eq!(Gtpu::parse(&again), Ok(Gtpu { n_pdu: None, ..read }));
        }
    }
}
