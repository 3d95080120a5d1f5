//! Headers read and written here, judged by `etherparse`.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic too")]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use etherparse::{
    IpFragOffset, IpNumber, Ipv4Header, Ipv6FlowLabel, Ipv6FragmentHeader, Ipv6Header, Ipv6RawExtHeader, LinkExtSlice,
    NetSlice, SlicedPacket, TransportSlice,
};
use proptest::collection::vec;
use proptest::prelude::*;
use wire::frame::{self, Ethernet, IpHeader, Ipv4, Ipv6};
use wire::{Echo, Ecn, Fragment, Headers, Tcp, TcpFlags, Udp, checksum, ethertype, protocol};

/// Every reader of whole frames and of parts of frames.
fn read_all(bytes: &mut [u8]) {
    let headers = Headers::parse(bytes);
    assert!(headers.network <= bytes.len() && headers.network + headers.network_len <= bytes.len());
    assert_eq!(wire::network_len(bytes), headers.network_len);
    assert!(headers.transport_len() <= headers.network_len);
    wire::mark_congestion(bytes, &headers);
    let _ = (wire::set_dscp(bytes, &headers, 46), wire::take_hop(bytes, &headers));
    let _ = (wire::ndp::Message::parse(bytes, &headers), wire::arp::Arp::parse(bytes, &headers), frame::reseal(bytes));
    let _ = (Tcp::parse(bytes), Udp::parse(bytes), Echo::parse(bytes, true), wire::vxlan::parse(bytes));
}

/// What `etherparse` and the emulator both say of a frame, or `None` where `etherparse` refuses it.
fn compare(bytes: &[u8]) -> Option<()> {
    let theirs = SlicedPacket::from_ethernet(bytes).ok()?;
    // It takes three tags, and MACsec; two tags are all that 802.1Q stacks.
    if theirs.link_exts.len() > 2 || theirs.link_exts.iter().any(|ext| !matches!(ext, LinkExtSlice::Vlan(_))) {
        return None;
    }
    let ours = Headers::parse(bytes);
    let offset = |part: &[u8]| part.as_ptr() as usize - bytes.as_ptr() as usize;
    let (source, destination, class, start, payload) = match theirs.net.as_ref()? {
        NetSlice::Ipv4(ip) => {
            let header = ip.header();
            let class = (header.dcp().value() << 2) | header.ecn().value();
            (
                IpAddr::V4(header.source_addr()),
                IpAddr::V4(header.destination_addr()),
                class,
                header.slice(),
                ip.payload(),
            )
        }
        NetSlice::Ipv6(ip) => {
            let header = ip.header();
            let (source, destination) = (IpAddr::V6(header.source_addr()), IpAddr::V6(header.destination_addr()));
            (source, destination, header.traffic_class(), header.slice(), ip.payload())
        }
        NetSlice::Arp(_) => {
            assert_eq!((ours.ethertype, ours.ip), (ethertype::ARP, None));
            return Some(());
        }
    };
    let ip = ours.ip.expect("they found an IP header");
    assert_eq!(ours.network, offset(start));
    assert_eq!((ip.source, ip.destination), (source, destination));
    assert_eq!((ip.dscp, ip.ecn), (class >> 2, Ecn::from_bits(class)));
    // They walk IPv4's authentication header too, but not a mobility header, and go on in later
    // fragments.
    const MOBILITY: u8 = 135;
    if ip.protocol == payload.ip_number.0 && ip.protocol != MOBILITY && ip.fragment != Fragment::Later {
        assert_eq!(ip.fragment != Fragment::Whole, payload.fragmented);
        assert_eq!(ip.transport, offset(payload.payload));
        if !(payload.payload.is_empty() && source.is_ipv6()) {
            assert_eq!(ours.transport_len(), payload.payload.len());
        }
    }
    match theirs.transport {
        Some(TransportSlice::Udp(udp)) => assert_eq!(ip.ports, Some((udp.source_port(), udp.destination_port()))),
        Some(TransportSlice::Tcp(tcp)) => assert_eq!(ip.ports, Some((tcp.source_port(), tcp.destination_port()))),
        _ => {}
    }
    Some(())
}

const ETHERNET: Ethernet = Ethernet { destination: [2, 0, 0, 0, 0, 2], source: [2, 0, 0, 0, 0, 1] };

fn ip_header() -> impl Strategy<Value = IpHeader> {
    let ecn = (0u8..4).prop_map(Ecn::from_bits);
    let v4 = (any::<u32>(), any::<u32>(), 0u8..64, ecn.clone(), any::<u16>(), any::<bool>(), any::<u8>()).prop_map(
        |(source, destination, dscp, ecn, identification, dont_fragment, ttl)| {
            let (source, destination) = (Ipv4Addr::from(source), Ipv4Addr::from(destination));
            IpHeader::V4(Ipv4 { source, destination, dscp, ecn, identification, dont_fragment, ttl })
        },
    );
    let v6 = (any::<u128>(), any::<u128>(), 0u8..64, ecn, 0u32..1 << 20, any::<u8>()).prop_map(
        |(source, destination, dscp, ecn, flow_label, hop_limit)| {
            let (source, destination) = (Ipv6Addr::from(source), Ipv6Addr::from(destination));
            IpHeader::V6(Ipv6 { source, destination, dscp, ecn, flow_label, hop_limit })
        },
    );
    prop_oneof![v4, v6]
}

/// Frames of every kind that is built here, with up to two VLAN tags put in afterwards.
fn built() -> impl Strategy<Value = Vec<u8>> {
    let tags = prop::sample::select(vec![vec![], vec![0x8100], vec![0x88a8, 0x8100]]);
    let payload = vec(any::<u8>(), 0..300);
    (ip_header(), 0u8..3, any::<[u16; 4]>(), any::<[u32; 2]>(), vec(any::<[u8; 4]>(), 0..=10), payload, tags).prop_map(
        |(ip, kind, words, numbers, options, payload, tags): (_, _, _, _, _, _, Vec<u16>)| {
            let mut bytes = Vec::new();
            match kind {
                0 => frame::udp(&mut bytes, &ETHERNET, &ip, Udp { source: words[0], destination: words[1] }, &payload),
                1 => {
                    let options = options.concat();
                    let tcp = Tcp {
                        source: words[0],
                        destination: words[1],
                        sequence: numbers[0],
                        acknowledgement: numbers[1],
                        flags: TcpFlags(words[2] as u8),
                        window: words[3],
                        urgent: words[2],
                        options: &options,
                    };
                    frame::tcp(&mut bytes, &ETHERNET, &ip, &tcp, &payload)
                }
                _ => {
                    let echo = Echo { reply: words[2] & 1 == 1, identifier: words[0], sequence: words[1] };
                    frame::echo(&mut bytes, &ETHERNET, &ip, echo, &payload)
                }
            }
            .unwrap();
            for tag in tags.iter().rev() {
                let [high, low] = tag.to_be_bytes();
                bytes.splice(12..12, [high, low, 0, 7]);
            }
            bytes
        },
    )
}

/// IPv6 with a chain of extension headers in front of UDP, written by `etherparse`.
fn extended() -> impl Strategy<Value = Vec<u8>> {
    let extension = (prop::sample::select(vec![60u8, 43, 135, 44]), 0u8..3, 0u16..3, any::<bool>());
    (vec(extension, 0..6), vec(any::<u8>(), 8..40)).prop_map(|(extensions, payload)| {
        let mut body = payload;
        let mut next = IpNumber::UDP;
        for (kind, units, offset, more) in extensions.into_iter().rev() {
            let header = if kind == 44 {
                let offset = IpFragOffset::try_new(offset).unwrap();
                Ipv6FragmentHeader::new(next, offset, more, 7).to_bytes().to_vec()
            } else {
                let content = vec![0; 6 + 8 * usize::from(units)];
                Ipv6RawExtHeader::new_raw(next, &content).unwrap().to_bytes().to_vec()
            };
            body.splice(0..0, header);
            next = IpNumber(kind);
        }
        let header = Ipv6Header {
            traffic_class: 0b1010_1001,
            flow_label: Ipv6FlowLabel::try_new(5).unwrap(),
            payload_length: body.len() as u16,
            next_header: next,
            hop_limit: 64,
            source: [1; 16],
            destination: [2; 16],
        };
        let mut bytes = vec![0; 12];
        bytes.extend(ethertype::IPV6.to_be_bytes());
        bytes.extend(header.to_bytes());
        bytes.extend(body);
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_make_a_reader_panic(mut bytes in vec(any::<u8>(), 0..120)) {
        read_all(&mut bytes);
        compare(&bytes);
    }

    #[test]
    fn built_frames_are_read_alike(bytes in built(), padding in 0usize..20) {
        let mut bytes = bytes;
        bytes.resize(bytes.len() + padding, 0);
        prop_assert!(compare(&bytes).is_some());
        read_all(&mut bytes);
    }

    #[test]
    fn damaged_frames_are_read_alike(
        bytes in prop_oneof![built(), extended()],
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = bytes;
        for (at, value) in damage {
            let at = at.index(bytes.len().min(80));
            bytes[at] = value;
        }
        compare(&bytes);
        bytes.truncate(cut.index(bytes.len()));
        compare(&bytes);
        read_all(&mut bytes);
    }

    #[test]
    fn extension_headers_are_walked_alike(bytes in extended()) {
        compare(&bytes);
    }

    #[test]
    fn checksums_are_right(bytes in built()) {
        let headers = Headers::parse(&bytes);
        let ip = headers.ip.unwrap();
        if ip.source.is_ipv4() {
            let (header, _) = Ipv4Header::from_slice(&bytes[headers.network..]).unwrap();
            prop_assert_eq!(header.calc_header_checksum(), header.header_checksum);
        }
        let transport = &bytes[ip.transport..];
        let pseudo = match ip.protocol {
            protocol::ICMP => checksum::Sum::default(),
            number => checksum::Sum::pseudo_header(ip.source, ip.destination, number, transport.len() as u32),
        };
        prop_assert!(wire::is_intact(transport, pseudo));
        match SlicedPacket::from_ethernet(&bytes).unwrap().transport.unwrap() {
            TransportSlice::Udp(udp) => {
                let header = udp.to_header();
                let sum = match (ip.source, ip.destination) {
                    (IpAddr::V4(a), IpAddr::V4(b)) => header.calc_checksum_ipv4_raw(a.octets(), b.octets(), udp.payload()),
                    (IpAddr::V6(a), IpAddr::V6(b)) => header.calc_checksum_ipv6_raw(a.octets(), b.octets(), udp.payload()),
                    _ => unreachable!(),
                };
                prop_assert_eq!(sum.unwrap(), header.checksum);
            }
            TransportSlice::Tcp(tcp) => {
                let header = tcp.to_header();
                let sum = match (ip.source, ip.destination) {
                    (IpAddr::V4(a), IpAddr::V4(b)) => header.calc_checksum_ipv4_raw(a.octets(), b.octets(), tcp.payload()),
                    (IpAddr::V6(a), IpAddr::V6(b)) => header.calc_checksum_ipv6_raw(a.octets(), b.octets(), tcp.payload()),
                    _ => unreachable!(),
                };
                // Zero and all ones are the same sum; TCP may hold either.
                prop_assert!(sum.unwrap() == header.checksum || header.checksum == 0xffff);
            }
            TransportSlice::Icmpv4(icmp) => {
                prop_assert_eq!(icmp.icmp_type().calc_checksum(icmp.payload()), icmp.checksum());
            }
            TransportSlice::Icmpv6(icmp) => {
                let (IpAddr::V6(a), IpAddr::V6(b)) = (ip.source, ip.destination) else { unreachable!() };
                let sum = icmp.icmp_type().calc_checksum(a.octets(), b.octets(), icmp.payload()).unwrap();
                prop_assert_eq!(sum, icmp.checksum());
            }
            TransportSlice::Igmp(_) => unreachable!(),
        }
    }

    #[test]
    fn what_was_written_is_read_back(bytes in built()) {
        let headers = Headers::parse(&bytes);
        let ip = headers.ip.unwrap();
        let transport = &bytes[ip.transport..];
        let v6 = ip.source.is_ipv6();
        match ip.protocol {
            protocol::UDP => {
                let (udp, payload) = Udp::parse(transport).unwrap();
                let mut again = udp.to_bytes(transport.len() as u16).to_vec();
                again.extend(payload);
                again[6..8].copy_from_slice(&transport[6..8]);
                prop_assert_eq!(again, transport);
            }
            protocol::TCP => {
                let (tcp, payload) = Tcp::parse(transport).unwrap();
                let mut again = tcp.to_bytes().to_vec();
                again.extend(tcp.options);
                again.extend(payload);
                again[16..18].copy_from_slice(&transport[16..18]);
                prop_assert_eq!(again, transport);
            }
            _ => {
                let (echo, payload) = Echo::parse(transport, v6).unwrap();
                let mut again = echo.to_bytes(v6).to_vec();
                again.extend(payload);
                again[2..4].copy_from_slice(&transport[2..4]);
                prop_assert_eq!(again, transport);
            }
        }
    }

    #[test]
    fn what_was_changed_is_sealed_again(bytes in built(), source: [u8; 4]) {
        let at = Headers::parse(&bytes).network + 12;
        let mut changed = bytes.clone();
        prop_assert!(frame::reseal(&mut changed));
        // Zero and all ones are the same sum.
        prop_assert!(changed == bytes || Headers::parse(&bytes).ip.unwrap().protocol == protocol::TCP);
        changed[at..at + 4].copy_from_slice(&source);
        prop_assert!(frame::reseal(&mut changed));
        let headers = Headers::parse(&changed);
        let ip = headers.ip.unwrap();
        if ip.source.is_ipv4() {
            prop_assert_eq!(checksum::checksum(&changed[headers.network..ip.transport]), 0);
        }
        let transport = &changed[ip.transport..headers.network + headers.network_len];
        let pseudo = match ip.protocol {
            protocol::ICMP => checksum::Sum::default(),
            number => checksum::Sum::pseudo_header(ip.source, ip.destination, number, transport.len() as u32),
        };
        prop_assert!(wire::is_intact(transport, pseudo));
    }

    #[test]
    fn a_mark_changes_the_mark_alone(bytes in built()) {
        let before = Headers::parse(&bytes);
        let mut marked = bytes.clone();
        let capable = before.ip.unwrap().ecn != Ecn::NotCapable;
        prop_assert_eq!(wire::mark_congestion(&mut marked, &before), capable);
        if !capable {
            prop_assert_eq!(marked, bytes);
            return Ok(());
        }
        let mut expected = before;
        expected.ip = expected.ip.map(|ip| wire::Ip { ecn: Ecn::Experienced, ..ip });
        prop_assert_eq!(Headers::parse(&marked), expected);
        if let Ok((header, _)) = Ipv4Header::from_slice(&marked[before.network..]) {
            prop_assert_eq!(header.calc_header_checksum(), header.header_checksum);
        }
    }

    #[test]
    fn a_code_point_and_a_hop_change_themselves_alone(bytes in built(), dscp in 0u8..64) {
        let before = Headers::parse(&bytes);
        let limit = before.network + if before.ip.unwrap().source.is_ipv4() { 8 } else { 7 };
        let mut changed = bytes.clone();
        prop_assert!(wire::set_dscp(&mut changed, &before, dscp));
        let forwarded = wire::take_hop(&mut changed, &before);
        prop_assert_eq!(forwarded, bytes[limit] > 1);
        prop_assert_eq!(changed[limit], bytes[limit] - u8::from(forwarded));
        let mut expected = before;
        expected.ip = expected.ip.map(|ip| wire::Ip { dscp, ..ip });
        prop_assert_eq!(Headers::parse(&changed), expected);
        if let Ok((header, _)) = Ipv4Header::from_slice(&changed[before.network..]) {
            prop_assert_eq!(header.calc_header_checksum(), header.header_checksum);
        } else {
            // The flow label stays as it was.
            let label = |frame: &[u8]| (frame[before.network + 1] & 0x0f, frame[before.network + 2]);
            prop_assert_eq!(label(&changed), label(&bytes));
        }
    }

    #[test]
    fn completing_a_partial_checksum_gives_the_checksum(bytes in built()) {
        let headers = Headers::parse(&bytes);
        let ip = headers.ip.unwrap();
        let offset = match ip.protocol {
            protocol::UDP => 6,
            protocol::TCP => 16,
            _ => return Ok(()),
        };
        let mut partial = bytes.clone();
        let sum = checksum::Sum::pseudo_header(ip.source, ip.destination, ip.protocol, headers.transport_len() as u32);
        let field = ip.transport + offset;
        partial[field..field + 2].copy_from_slice(&sum.uncomplemented().to_be_bytes());
        prop_assert!(checksum::complete(&mut partial, ip.transport, offset));
        prop_assert_eq!(partial, bytes);
    }

    #[test]
    fn a_tunnel_gives_back_what_went_in(inner in built(), ip in ip_header(), port: u16, vni in 0..=wire::vxlan::MAX_VNI) {
        let mut outer = Vec::new();
        wire::vxlan::encapsulate(&mut outer, &ETHERNET, &ip, port, vni, &inner).unwrap();
        prop_assert!(compare(&outer).is_some());
        let headers = Headers::parse(&outer).ip.unwrap();
        prop_assert_eq!(headers.ports, Some((port, wire::vxlan::PORT)));
        let (_, payload) = Udp::parse(&outer[headers.transport..]).unwrap();
        prop_assert_eq!(wire::vxlan::parse(payload), Some((vni, &inner[..])));
        let checksum = &outer[headers.transport + 6..][..2];
        prop_assert_eq!(checksum == [0, 0], headers.source.is_ipv4());
    }
}

#[test]
fn what_is_too_long_is_refused() {
    let ip = IpHeader::V4(Ipv4 {
        source: Ipv4Addr::LOCALHOST,
        destination: Ipv4Addr::LOCALHOST,
        dscp: 0,
        ecn: Ecn::NotCapable,
        identification: 0,
        dont_fragment: true,
        ttl: 64,
    });
    let mut bytes = Vec::new();
    let udp = Udp { source: 1, destination: 2 };
    frame::udp(&mut bytes, &ETHERNET, &ip, udp, &vec![0; 65_535 - 28]).unwrap();
    assert_eq!(bytes.len(), 14 + 65_535);
    let error = frame::udp(&mut bytes, &ETHERNET, &ip, udp, &vec![0; 65_535 - 27]).unwrap_err();
    assert_eq!((error.length, error.limit, bytes.len()), (65_536, 65_535, 0));
}
