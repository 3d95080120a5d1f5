//! What must hold for any frame: reading it never fails, and what is found lies within it.

use wire::checksum::checksum;
use wire::{Echo, Headers, Tcp, Udp, mark_congestion, network_len, vxlan};

/// `data` as an Ethernet frame.
pub(crate) fn frame(data: &[u8]) {
    let headers = Headers::parse(data);
    assert_eq!(headers.network_len, network_len(data));
    assert!(headers.network + headers.network_len <= data.len());
    if let Some(ip) = headers.ip {
        let transport = &data[ip.transport..ip.transport + headers.transport_len()];
        if let Some((_, payload)) = Udp::parse(transport) {
            let _ = vxlan::parse(payload);
        }
        let _ = Tcp::parse(transport);
        let _ = (Echo::parse(transport, false), Echo::parse(transport, true));
    }

    let _ = (wire::ndp::Message::parse(data, &headers), wire::arp::Arp::parse(data, &headers));
    wire::frame::reseal(&mut data.to_vec());

    let mut marked = data.to_vec();
    let sum = |frame: &[u8]| checksum(&frame[headers.network..(headers.network + 20).min(frame.len())]);
    if mark_congestion(&mut marked, &headers) {
        assert!(Headers::parse(&marked).ip.is_some_and(|ip| ip.ecn == wire::Ecn::Experienced));
        if headers.ip.is_some_and(|ip| ip.source.is_ipv4()) && sum(data) == 0 {
            assert_eq!(sum(&marked), 0, "a mark spoils the header's checksum");
        }
    } else {
        assert_eq!(marked, data);
    }
}
