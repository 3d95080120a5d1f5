//! Telling a sender that its real-time flow is refused.
//!
//! The adapter is a bridge without an address: like a bridging packet filter it answers in the name
//! of the destination.

use alloc::vec::Vec;
use core::net::IpAddr;

use engine::Packet;
use wire::checksum::Sum;
use wire::frame::{Ethernet, IpHeader, Ipv4, Ipv6};
use wire::{Ecn, Headers, ethertype, protocol};

/// Bytes of the refused packet that go into the answer: so that an IPv4 answer has no over 576 B
/// (RFC 1812 4.3.2.3), which also is little enough for RFC 4443 2.4 (c).
const QUOTED: usize = 548;

/// The answer to a refused frame: destination unreachable, communication administratively
/// prohibited (RFC 1812 5.2.7.1: code 13; RFC 4443 3.1: code 1). None if nothing may be answered:
/// to a multicast, or to nobody (RFC 1122 3.2.2, RFC 4443 2.4 (e)).
pub(crate) fn prohibited(frame: &[u8], headers: &Headers, mut buffer: Vec<u8>) -> Option<Packet> {
    let ip = headers.ip?;
    let (addresses, _) = frame.split_first_chunk::<12>()?;
    let (destination, source) = addresses.split_first_chunk::<6>()?;
    let group = destination[0] & 1 == 1 || ip.destination.is_multicast() || ip.source.is_multicast();
    if group || ip.source.is_unspecified() {
        return None;
    }
    let quoted = frame.get(headers.network..headers.network + headers.network_len.min(QUOTED))?;
    let length = 8 + quoted.len();
    buffer.clear();
    let ethernet = Ethernet { destination: *source.first_chunk()?, source: *destination };
    let (kind, pseudo_header) = match (ip.destination, ip.source) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let (dscp, ecn) = (48, Ecn::NotCapable);
            let header =
                Ipv4 { source: from, destination: to, dscp, ecn, identification: 0, dont_fragment: true, ttl: 64 };
            ethernet.write(&mut buffer, ethertype::IPV4);
            buffer.extend_from_slice(&header.to_bytes(protocol::ICMP, length).ok()?);
            ([3, 13], Sum::default())
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let (dscp, ecn) = (48, Ecn::NotCapable);
            let header = Ipv6 { source: from, destination: to, dscp, ecn, flow_label: 0, hop_limit: 64 };
            ethernet.write(&mut buffer, ethertype::IPV6);
            buffer.extend_from_slice(&header.to_bytes(protocol::ICMPV6, length).ok()?);
            ([1, 1], IpHeader::V6(header).pseudo_header(protocol::ICMPV6, length as u32))
        }
        _ => return None,
    };
    let start = buffer.len();
    buffer.extend_from_slice(&kind);
    buffer.extend_from_slice(&[0; 6]);
    buffer.extend_from_slice(quoted);
    let sum = (pseudo_header + Sum::of(&buffer[start..])).checksum();
    buffer[start + 2..start + 4].copy_from_slice(&sum.to_be_bytes());
    Some(Packet::new(buffer))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use wire::checksum::checksum;
    use wire::{ETHERNET_LEN, Udp, is_intact};

    #[test]
    fn the_answer_is_whole_in_both_families() {
        let ethernet = Ethernet { destination: [2; 6], source: [4; 6] };
        let v4 = IpHeader::V4(Ipv4 {
            source: [10, 0, 0, 1].into(),
            destination: [10, 0, 0, 2].into(),
            dscp: 0,
            ecn: Ecn::NotCapable,
            identification: 1,
            dont_fragment: false,
            ttl: 9,
        });
        let v6 = |destination: [u16; 8]| {
            let source = [0xfd00, 0, 0, 0, 0, 0, 0, 1].into();
            let (dscp, ecn) = (0, Ecn::NotCapable);
            IpHeader::V6(Ipv6 { source, destination: destination.into(), dscp, ecn, flow_label: 0, hop_limit: 9 })
        };
        for ip in [v4, v6([0xfd00, 0, 0, 0, 0, 0, 0, 2])] {
            let mut frame = Vec::new();
            wire::frame::udp(&mut frame, &ethernet, &ip, Udp { source: 5, destination: 6 }, &[1; 33]).unwrap();
            let headers = Headers::parse(&frame);
            let answer = prohibited(&frame, &headers, vec![9; 9]).unwrap();
            let read = Headers::parse(&answer.bytes);
            let (asked, told) = (headers.ip.unwrap(), read.ip.unwrap());
            assert_eq!((told.source, told.destination), (asked.destination, asked.source));
            assert_eq!(answer.bytes[..6], frame[6..12]);
            let message = &answer.bytes[told.transport..];
            let v6 = told.source.is_ipv6();
            let sum = Sum::pseudo_header(told.source, told.destination, told.protocol, message.len() as u32);
            assert!(is_intact(message, if v6 { sum } else { Sum::default() }));
            assert_eq!(message[..2], if v6 { [1, 1] } else { [3, 13] });
            assert_eq!(message[8..], frame[ETHERNET_LEN..]);
            if !v6 {
                assert_eq!(checksum(&answer.bytes[ETHERNET_LEN..told.transport]), 0);
            }
        }
        let mut frame = Vec::new();
        let group = v6([0xff02, 0, 0, 0, 0, 0, 0, 1]);
        wire::frame::udp(&mut frame, &ethernet, &group, Udp { source: 5, destination: 6 }, &[]).unwrap();
        assert!(prohibited(&frame, &Headers::parse(&frame), Vec::new()).is_none());
    }
}
