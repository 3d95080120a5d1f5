//! Cutting and coalescing, against `etherparse` and against each other.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic too")]

#[path = "../../../fuzz/checks/offload.rs"]
mod check;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use engine::{Checksum, Gso, GsoKind, Packet, Pool};
use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use netio::offload::{self, FRAME_MAX, OffloadError, VNET_HEADER_LEN, VnetHeader};
use proptest::collection::vec;
use proptest::prelude::*;
use wire::checksum::Sum;

/// A super-frame as the kernel makes it.
#[derive(Clone, Debug)]
struct Super {
    v6: bool,
    udp: bool,
    tagged: bool,
    options: usize,
    flags: u8,
    id: u16,
    sequence: u32,
    payload: Vec<u8>,
    size: u16,
}

const FIN_PSH: u8 = 0x09;
const CWR: u8 = 0x80;

impl Super {
    fn network(&self) -> usize {
        if self.tagged { 18 } else { 14 }
    }

    fn transport(&self) -> usize {
        self.network() + if self.v6 { 40 } else { 20 }
    }

    fn headers(&self) -> usize {
        self.transport() + if self.udp { 8 } else { 20 + self.options * 4 }
    }

    fn checksum_offset(&self) -> u16 {
        if self.udp { 6 } else { 16 }
    }

    fn addresses(&self) -> (IpAddr, IpAddr) {
        if self.v6 {
            (Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1).into(), Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2).into())
        } else {
            (Ipv4Addr::new(10, 0, 0, 1).into(), Ipv4Addr::new(10, 0, 0, 2).into())
        }
    }

    fn frame(&self) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
        if self.tagged {
            frame.extend([0x81, 0x00, 0x20, 0x07]);
        }
        let transport_len = self.headers() - self.transport() + self.payload.len();
        let protocol = if self.udp { 17 } else { 6 };
        if self.v6 {
            frame.extend([0x86, 0xdd, 0x60, 0x12, 0x34, 0x56]);
            frame.extend((transport_len as u16).to_be_bytes());
            frame.extend([protocol, 64]);
        } else {
            frame.extend([0x08, 0x00, 0x45, 0x02]);
            frame.extend((20 + transport_len as u16).to_be_bytes());
            frame.extend(self.id.to_be_bytes());
            frame.extend([0x40, 0x00, 64, protocol, 0, 0]);
        }
        for address in [self.addresses().0, self.addresses().1] {
            match address {
                IpAddr::V4(v4) => frame.extend(v4.octets()),
                IpAddr::V6(v6) => frame.extend(v6.octets()),
            }
        }
        if !self.v6 {
            let check = wire::checksum::checksum(&frame[self.network()..]);
            let at = self.network() + 10;
            frame[at..at + 2].copy_from_slice(&check.to_be_bytes());
        }
        let (source, destination) = self.addresses();
        let pseudo = Sum::pseudo_header(source, destination, protocol, transport_len as u32).uncomplemented();
        frame.extend([0x13, 0x89, 0x9c, 0x40]);
        if self.udp {
            frame.extend((transport_len as u16).to_be_bytes());
            frame.extend(pseudo.to_be_bytes());
        } else {
            frame.extend(self.sequence.to_be_bytes());
            frame.extend(0xdead_beef_u32.to_be_bytes());
            frame.extend([((5 + self.options) as u8) << 4, self.flags, 0x01, 0xf6]);
            frame.extend(pseudo.to_be_bytes());
            frame.extend([0, 0]);
            frame.extend((0..self.options * 4).map(|byte| byte as u8));
        }
        frame.extend(&self.payload);
        frame
    }

    fn header(&self) -> VnetHeader {
        let kind = match (self.udp, self.v6) {
            (true, _) => GsoKind::Udp,
            (_, true) => GsoKind::Tcp6,
            _ => GsoKind::Tcp4,
        };
        VnetHeader {
            checksum: Checksum::Partial { start: self.transport() as u16, offset: self.checksum_offset() },
            gso: Some(Gso { kind, size: self.size }),
            ecn: !self.udp && self.flags & CWR != 0,
            header_len: self.headers() as u16,
        }
    }

    fn cut(&self) -> Vec<Packet> {
        let (mut pool, mut packets) = (Pool::new(0), Vec::new());
        offload::cut(&self.header(), &self.frame(), &mut pool, &mut packets).unwrap();
        packets
    }
}

/// Super-frames of two to some hundred segments.
fn supers(udp: bool) -> impl Strategy<Value = Super> {
    (any::<(bool, bool, u16, u32)>(), 0usize..=10, 0u8..8, 1u16..=1448, 1usize..60_000).prop_flat_map(
        move |((v6, tagged, id, sequence), options, flags, size, length)| {
            // ACK always; FIN, PSH and CWR as drawn.
            let flags = 0x10 | (flags & 1) | ((flags & 2) << 2) | ((flags & 4) << 5);
            let length = length.clamp(usize::from(size) + 1, usize::from(size) * 200).min(60_000);
            vec(any::<u8>(), length).prop_map(move |payload| Super {
                v6,
                udp,
                tagged,
                options,
                flags,
                id,
                sequence,
                payload,
                size,
            })
        },
    )
}

/// What `etherparse` says of a packet: its payload, and that all checksums and lengths are right.
fn checked_payload(packet: &Packet) -> Vec<u8> {
    let sliced = SlicedPacket::from_ethernet(&packet.bytes).unwrap();
    let ip = sliced.net.as_ref().unwrap();
    if let NetSlice::Ipv4(ip) = ip {
        let header = ip.header().to_header();
        assert_eq!(header.header_checksum, header.calc_header_checksum());
    }
    let (payload, found, right) = match (sliced.transport.unwrap(), ip) {
        (TransportSlice::Tcp(tcp), NetSlice::Ipv4(ip)) => (
            tcp.payload().to_vec(),
            tcp.checksum(),
            tcp.calc_checksum_ipv4(ip.header().source(), ip.header().destination()).unwrap(),
        ),
        (TransportSlice::Tcp(tcp), NetSlice::Ipv6(ip)) => (
            tcp.payload().to_vec(),
            tcp.checksum(),
            tcp.calc_checksum_ipv6(ip.header().source(), ip.header().destination()).unwrap(),
        ),
        (TransportSlice::Udp(udp), NetSlice::Ipv4(ip)) => (
            udp.payload().to_vec(),
            udp.checksum(),
            udp.to_header()
                .calc_checksum_ipv4_raw(ip.header().source(), ip.header().destination(), udp.payload())
                .unwrap(),
        ),
        (TransportSlice::Udp(udp), NetSlice::Ipv6(ip)) => (
            udp.payload().to_vec(),
            udp.checksum(),
            udp.to_header()
                .calc_checksum_ipv6_raw(ip.header().source(), ip.header().destination(), udp.payload())
                .unwrap(),
        ),
        other => panic!("{other:?}"),
    };
    // The two zeros of one's complement are the same sum.
    assert!(found == right || (found | right) == 0xffff && (found & right) == 0, "{found:x} {right:x}");
    payload
}

fn joined(run: &offload::Run, packets: &[Packet]) -> Vec<u8> {
    run.pieces(packets).flatten().copied().collect()
}

proptest! {
    /// Datagrams with their checksums in place are joined and come out of the cut as they were.
    #[test]
    fn datagrams_are_joined_and_cut_again(whole in supers(true), tail in 1usize..5) {
        let mut packets = whole.cut();
        packets.iter_mut().for_each(offload::complete);
        // Others behind it, each of a flow of its own.
        for port in 1..=tail {
            let mut other = packets[0].clone();
            other.bytes[whole.transport()] ^= port as u8;
            packets.push(other);
        }
        let mut rest = &packets[..];
        let mut joined = 0;
        while !rest.is_empty() {
            let Some(run) = offload::datagram_run(rest.len(), |number| &rest[number].bytes) else {
                rest = &rest[1..];
                continue;
            };
            let (these, others) = rest.split_at(run.packets);
            let mut frame = run.headers().to_vec();
            these.iter().for_each(|packet| frame.extend(&packet.bytes[run.headers().len()..]));
            let (mut pool, mut again) = (Pool::new(0), Vec::new());
            offload::cut(&run.vnet, &frame, &mut pool, &mut again).unwrap();
            again.iter_mut().for_each(offload::complete);
            prop_assert_eq!(&again[..], these);
            joined += these.len();
            rest = others;
        }
        prop_assert!(joined <= packets.len() - tail);
        // Frames with a VLAN tag are left alone.
        prop_assert!(whole.tagged == (joined == 0), "{} joined", joined);
    }

    #[test]
    fn segments_are_right_packets(whole in prop_oneof![supers(false), supers(true)]) {
        let mut payload = Vec::new();
        let packets = whole.cut();
        prop_assert_eq!(packets.len(), whole.payload.len().div_ceil(usize::from(whole.size)));
        for (index, mut packet) in packets.clone().into_iter().enumerate() {
            prop_assert_eq!(packet.checksum, whole.header().checksum);
            prop_assert_eq!(packet.gso, None);
            offload::complete(&mut packet);
            prop_assert_eq!(packet.checksum, Checksum::Complete);
            if !whole.udp {
                let tcp = &packet.bytes[whole.transport()..];
                let (first, last) = (index == 0, index + 1 == packets.len());
                let sequence = u32::from_be_bytes(tcp[4..8].try_into().unwrap());
                prop_assert_eq!(sequence, whole.sequence.wrapping_add(payload.len() as u32));
                let expected = whole.flags & if last { 0xff } else { !FIN_PSH } & if first { 0xff } else { !CWR };
                prop_assert_eq!(tcp[13], expected);
            }
            if !whole.v6 {
                let id = u16::from_be_bytes(packet.bytes[whole.network() + 4..][..2].try_into().unwrap());
                prop_assert_eq!(id, whole.id.wrapping_add(index as u16));
            }
            payload.extend(checked_payload(&packet));
        }
        prop_assert_eq!(payload, whole.payload);
    }

    #[test]
    fn a_super_frame_with_complete_checksum_gives_complete_ones(whole in supers(false)) {
        let header = VnetHeader { checksum: Checksum::Complete, ..whole.header() };
        let (mut pool, mut packets) = (Pool::new(0), Vec::new());
        offload::cut(&header, &whole.frame(), &mut pool, &mut packets).unwrap();
        let payload: Vec<u8> = packets.iter().flat_map(checked_payload).collect();
        prop_assert_eq!(payload, whole.payload);
        prop_assert_eq!(offload::run(&packets).packets, 1);
    }

    #[test]
    fn cut_and_coalesced_is_the_same(whole in supers(false)) {
        let mut packets = whole.cut();
        packets.truncate(offload::RUN_MAX);
        let run = offload::run(&packets);
        if packets.len() < offload::RUN_MAX {
            prop_assert_eq!(run.packets, packets.len());
            prop_assert_eq!(run.vnet, whole.header());
            prop_assert_eq!(joined(&run, &packets), whole.frame());
        } else {
            prop_assert_eq!(run.packets, offload::RUN_MAX);
        }
    }

    #[test]
    fn datagrams_stay_apart(whole in supers(true)) {
        let packets = whole.cut();
        let run = offload::run(&packets);
        prop_assert_eq!(run.packets, 1);
        prop_assert_eq!(joined(&run, &packets), &packets[0].bytes[..]);
    }

    /// However headers differ, what is joined is what the kernel will cut again.
    #[test]
    fn coalescing_loses_nothing(
        whole in supers(false),
        altered in vec((any::<prop::sample::Index>(), 0usize..120, 0u8..8), 1..4),
        swapped in any::<Option<(prop::sample::Index, prop::sample::Index)>>(),
    ) {
        let mut packets = whole.cut();
        packets.truncate(40);
        for (index, byte, bit) in altered {
            let packet = index.get(&packets).clone();
            let at = packets.iter().position(|other| *other == packet).unwrap();
            // The checksums are the kernel's to fill in; one that is wrong while the state says it
            // is unfinished is nobody's packet.
            let (ip, tcp) = (whole.network() + 10, whole.transport() + 16);
            let checks = [(!whole.v6).then_some(ip), (!whole.v6).then_some(ip + 1), Some(tcp), Some(tcp + 1)];
            if byte < packet.len() && !checks.contains(&Some(byte)) {
                packets[at].bytes[byte] ^= 1 << bit;
            }
            if !whole.v6 && byte >= whole.network() && byte < whole.transport() {
                // Its checksum is right for what it is now.
                let ip = &mut packets[at].bytes[whole.network()..whole.transport()];
                ip[10..12].fill(0);
                let check = wire::checksum::checksum(ip);
                ip[10..12].copy_from_slice(&check.to_be_bytes());
            }
        }
        if let Some((a, b)) = swapped {
            let (a, b) = (a.index(packets.len()), b.index(packets.len()));
            packets.swap(a, b);
        }
        let mut rest = &packets[..];
        while !rest.is_empty() {
            let run = offload::run(rest);
            let (joint, behind) = rest.split_at(run.packets);
            let (mut pool, mut again) = (Pool::new(0), Vec::new());
            offload::cut(&run.vnet, &joined(&run, joint), &mut pool, &mut again).unwrap();
            prop_assert_eq!(again.len(), joint.len());
            for (again, joint) in again.iter().zip(joint) {
                prop_assert_eq!(again, joint);
            }
            rest = behind;
        }
    }

    #[test]
    fn nothing_panics(header: [u8; VNET_HEADER_LEN], frame in vec(any::<u8>(), 0..2000)) {
        let (mut pool, mut packets) = (Pool::new(0), Vec::new());
        if let Ok(header) = VnetHeader::parse(&header) {
            let cut = offload::cut(&header, &frame, &mut pool, &mut packets);
            prop_assert_eq!(cut.is_ok(), !packets.is_empty() || frame.is_empty());
        }
        for kind in [GsoKind::Tcp4, GsoKind::Tcp6, GsoKind::Udp] {
            let header = VnetHeader { gso: Some(Gso { kind, size: u16::from(header[0]) }), ..VnetHeader::default() };
            let _ = offload::cut(&header, &frame, &mut pool, &mut packets);
        }
        for packet in &mut packets {
            packet.checksum = Checksum::Partial { start: u16::from(header[1]), offset: u16::from(header[2]) };
        }
        if !packets.is_empty() {
            let _ = offload::run(&packets);
            offload::complete(&mut packets[0]);
        }
    }

    #[test]
    fn any_header_and_frame_hold(data in vec(any::<u8>(), 0..400), whole in supers(false), cut_at in 0usize..10) {
        check::offload(&data);
        let mut whole = [whole.header().emit().to_vec(), whole.frame()].concat();
        whole.splice(..cut_at, data.iter().copied().take(cut_at));
        check::offload(&whole);
    }

    #[test]
    fn damaged_super_frames_do_not_panic(
        whole in prop_oneof![supers(false), supers(true)],
        damage in vec((0usize..120, any::<u8>()), 1..6),
        length in any::<prop::sample::Index>(),
    ) {
        let mut frame = whole.frame();
        for (at, byte) in damage {
            if let Some(target) = frame.get_mut(at) {
                *target = byte;
            }
        }
        frame.truncate(length.index(frame.len()));
        let (mut pool, mut packets) = (Pool::new(0), Vec::new());
        let cut = offload::cut(&whole.header(), &frame, &mut pool, &mut packets);
        prop_assert_eq!(cut.is_err(), packets.is_empty());
    }

    #[test]
    fn headers_are_read_as_written(whole in prop_oneof![supers(false), supers(true)]) {
        prop_assert_eq!(VnetHeader::parse(&whole.header().emit()), Ok(whole.header()));
    }
}

#[test]
fn the_corpus_holds() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/offload");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        check::offload(&std::fs::read(entry.unwrap().path()).unwrap());
        count += 1;
    }
    assert!(count >= 8, "{count} inputs");
}

#[test]
fn kinds_nobody_asked_for_are_refused() {
    // VIRTIO_NET_HDR_GSO_UDP, the fragmentation offload that Linux gave up.
    let mut header = [0; VNET_HEADER_LEN];
    header[1] = 3;
    assert_eq!(VnetHeader::parse(&header), Err(OffloadError::Kind(3)));
}

#[test]
fn a_tunnelled_super_frame_is_refused() {
    // A TCP super-frame inside VXLAN: the header says TCP, the frame says UDP.
    let whole = Super {
        v6: false,
        udp: true,
        tagged: false,
        options: 0,
        flags: 0,
        id: 1,
        sequence: 1,
        payload: vec![0; 4000],
        size: 1000,
    };
    let header = VnetHeader { gso: Some(Gso { kind: GsoKind::Tcp4, size: 1000 }), ..whole.header() };
    let (mut pool, mut packets) = (Pool::new(0), Vec::new());
    assert!(offload::cut(&header, &whole.frame(), &mut pool, &mut packets).is_err());
    assert!(packets.is_empty());
}

#[test]
fn the_longest_frame_is_cut_and_joined_again() {
    let whole = Super {
        v6: false,
        udp: false,
        tagged: true,
        options: 3,
        flags: 0x18,
        id: 0xfffe,
        sequence: u32::MAX - 5,
        payload: vec![7; 65_535 - 52],
        size: 1448,
    };
    assert_eq!(whole.frame().len(), FRAME_MAX - 4);
    let packets = whole.cut();
    let run = offload::run(&packets);
    assert_eq!((run.packets, joined(&run, &packets)), (46, whole.frame()));
}
