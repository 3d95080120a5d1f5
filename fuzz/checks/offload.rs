//! What must hold for any frame with a `virtio_net_hdr`: cutting never fails in a bad way, and what
//! is cut and coalesced is cut the same again.

use engine::Pool;
use netio::offload::{VNET_HEADER_LEN, VnetHeader, complete, cut, datagram_run, run};

/// `data` as a header with its frame behind it.
pub(crate) fn offload(data: &[u8]) {
    let Some((header, frame)) = data.split_first_chunk::<VNET_HEADER_LEN>() else { return };
    let Ok(header) = VnetHeader::parse(header) else { return };
    let (mut pool, mut packets) = (Pool::new(0), Vec::new());
    if cut(&header, frame, &mut pool, &mut packets).is_err() {
        assert!(packets.is_empty());
        return;
    }
    let mut rest = &packets[..];
    // A packet that came as one may say anything; what was cut is consistent.
    while header.gso.is_some() && !rest.is_empty() {
        let joint = run(rest);
        let whole: Vec<u8> = joint.pieces(rest).flatten().copied().collect();
        let mut again = Vec::new();
        cut(&joint.vnet, &whole, &mut pool, &mut again).expect("what was joined can be cut");
        assert_eq!(again, rest[..joint.packets]);
        rest = &rest[joint.packets..];
    }
    for packet in &mut packets {
        complete(packet);
        assert_eq!(run(std::slice::from_ref(packet)).packets, 1);
    }
    let mut rest = &packets[..];
    while !rest.is_empty() {
        let Some(joint) = datagram_run(rest.len(), |number| &rest[number].bytes) else {
            rest = &rest[1..];
            continue;
        };
        let (these, others) = rest.split_at(joint.packets);
        let mut whole = joint.headers().to_vec();
        these.iter().for_each(|packet| whole.extend(&packet.bytes[joint.headers().len()..]));
        let mut again = Vec::new();
        cut(&joint.vnet, &whole, &mut pool, &mut again).expect("what was joined can be cut");
        assert!(again.iter().map(|packet| packet.bytes.len()).eq(these.iter().map(|packet| packet.bytes.len())));
        rest = others;
    }
}
