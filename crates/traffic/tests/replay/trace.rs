//! Packets in memory, and written again.

use std::net::IpAddr;

use engine::Span;
use proptest::prelude::*;
use traffic::replay::{LeftOut, LongGap, Trace, TraceError, WriteError};
use wire::checksum::{Sum, checksum};
use wire::{Headers, TcpFlags, ethertype, is_intact};

use crate::packets::{datagram, segment, ticks, trace_of};

/// Whether all checksums of an IP packet are right.
fn is_right(packet: &[u8]) -> bool {
    let ethertype = if packet[0] >> 4 == 4 { ethertype::IPV4 } else { ethertype::IPV6 };
    let headers = Headers::of_network(ethertype, packet);
    let ip = headers.ip.unwrap();
    let pseudo = match ip.protocol {
        1 => Sum::default(),
        protocol => Sum::pseudo_header(ip.source, ip.destination, protocol, headers.transport_len() as u32),
    };
    (packet[0] >> 4 == 6 || checksum(&packet[..20]) == 0) && is_intact(&packet[ip.transport..], pseudo)
}

fn packet(kind: u8, payload: &[u8]) -> (Vec<u8>, usize, [IpAddr; 2]) {
    let (v4, v6) = (["10.0.0.1", "203.0.113.5"], ["2001:db8::1", "2001:db8:ffff::7"]);
    let new = |a: &str, b: &str| [a.parse().unwrap(), b.parse().unwrap()];
    let (new_v4, new_v6) = (new("16.0.0.1", "194.255.3.9"), new("fd00::77", "fd00:1::5"));
    let numbers = (1, 2, TcpFlags::ACK);
    match kind {
        0 => (datagram((v4[0], 5), (v4[1], 53), payload), 28, new_v4),
        1 => (datagram((v6[0], 5), (v6[1], 53), payload), 48, new_v6),
        2 => (segment((v4[0], 5), (v4[1], 80), numbers, &[1; 12], payload), 52, new_v4),
        _ => (segment((v6[0], 5), (v6[1], 80), numbers, &[], payload), 60, new_v6),
    }
}

proptest! {
    /// Addresses and stamp are where they should be, everything else is as it was, and checksums are right.
    #[test]
    fn written_packets_are_right(kind in 0u8..4, payload in prop::collection::vec(any::<u8>(), 0..100), stamp: [u8; 24], stamped: bool) {
        let (original, start, [source, destination]) = packet(kind, &payload);
        let trace = trace_of(&[(0, original.clone())]);
        let mut out = [0xaa; 300];
        let len = trace.write(0, source, destination, stamped.then_some(&stamp), &mut out).unwrap();
        prop_assert_eq!(len, original.len());
        prop_assert!(out[len..].iter().all(|&byte| byte == 0xaa));
        let room = match payload.len() { 24.. => 24, 16.. => 16, 8.. => 8, _ => 0 };
        prop_assert_eq!(trace.stamp_room(0), room);
        let stamped = if stamped { room } else { 0 };
        prop_assert_eq!(&out[start..start + stamped], &stamp[..stamped]);
        prop_assert_eq!(&out[start + stamped..len], &payload[stamped..]);
        prop_assert!(is_right(&out[..len]));
        let ip = Headers::of_network(if kind % 2 == 0 { ethertype::IPV4 } else { ethertype::IPV6 }, &out[..len]).ip.unwrap();
        prop_assert_eq!((ip.source, ip.destination), (source, destination));
        // Back again: the packet as it was.
        let (sender, receiver) = if source.is_ipv4() { ("10.0.0.1", "203.0.113.5") } else { ("2001:db8::1", "2001:db8:ffff::7") };
        let again = trace_of(&[(0, out[..len].to_vec())]);
        if stamped == 0 {
            again.write(0, sender.parse().unwrap(), receiver.parse().unwrap(), None, &mut out).unwrap();
            prop_assert_eq!(&out[..len], &original[..]);
        }
    }

    /// A packet of which only the beginning was captured is whole again, with zeros and right checksums.
    #[test]
    fn cut_packets_are_filled(kind in 0u8..4, payload in prop::collection::vec(any::<u8>(), 1..100), kept in 0usize..100) {
        let (original, start, [source, destination]) = packet(kind, &payload);
        let kept = (start + kept).min(original.len() - 1);
        let mut trace = Trace::new(1 << 20);
        prop_assert_eq!(trace.push(0, &original[..kept], original.len() as u32), Ok(None));
        prop_assert_eq!((trace.cut(), trace.packet(0).bytes.len(), trace.packet(0).length as usize), (1, kept, original.len()));
        let mut out = [0xaa; 300];
        let len = trace.write(0, source, destination, Some(&[9; 24]), &mut out).unwrap();
        prop_assert_eq!(len, original.len());
        prop_assert!(is_right(&out[..len]));
        prop_assert!(out[kept.max(start + trace.stamp_room(0))..len].iter().all(|&byte| byte == 0));
    }

    /// Whatever is captured can be pushed and, if it was taken, written.
    #[test]
    fn anything_can_be_pushed(
        version in prop_oneof![Just(0x45u8), Just(0x46), Just(0x60), any::<u8>()],
        rest in prop::collection::vec(any::<u8>(), 0..120),
        protocol in prop_oneof![Just(6u8), Just(17), Just(1), Just(58), Just(44), any::<u8>()],
        lie in 0u32..2_000,
        honest: bool,
    ) {
        let mut packet = vec![version];
        packet.extend(rest);
        let v6 = version >> 4 == 6;
        if let Some(field) = packet.get_mut(if v6 { 6 } else { 9 }) { *field = protocol; }
        if honest && packet.len() > 6 {
            let (at, len) = if v6 { (4, packet.len().saturating_sub(40)) } else { (2, packet.len()) };
            packet[at..at + 2].copy_from_slice(&(len as u16).to_be_bytes());
        }
        let length = if honest { packet.len() as u32 } else { lie };
        let mut trace = Trace::new(1 << 20);
        if trace.push(0, &packet, length) == Ok(None) {
            let ends: [IpAddr; 2] = if v6 { ["::1".parse().unwrap(); 2] } else { [[1, 2, 3, 4].into(); 2] };
            let mut out = vec![0; 70_000];
            let len = trace.write(0, ends[0], ends[1], Some(&[1; 24]), &mut out).unwrap();
            prop_assert_eq!(len as u32, trace.packet(0).length);
            prop_assert!(v6 || checksum(&out[..usize::from(out[0] & 15) * 4]) == 0);
        }
    }
}

/// Checksums that hardware was to fill in hold the pseudo-header's sum only.
#[test]
fn unfinished_checksums_are_finished() {
    let mut packet = segment(("10.0.0.1", 5), ("10.0.0.2", 80), (1, 2, TcpFlags::ACK), &[], b"data");
    packet[36..38].copy_from_slice(&[0x12, 0x34]);
    let trace = trace_of(&[(0, packet)]);
    assert_eq!(trace.resealed(), 1);
    assert!(is_right(trace.packet(0).bytes));
}

/// UDP without a checksum over IPv4 stays without.
#[test]
fn no_checksum_stays_none() {
    let mut packet = datagram(("10.0.0.1", 5), ("10.0.0.2", 80), b"eight...");
    packet[26..28].fill(0);
    let trace = trace_of(&[(0, packet)]);
    let mut out = [0; 100];
    trace.write(0, [1, 1, 1, 1].into(), [2, 2, 2, 2].into(), Some(&[5; 24]), &mut out).unwrap();
    assert_eq!((&out[26..28], trace.resealed()), (&[0, 0][..], 0));
}

/// A fragment's checksum covers what is not there: it moves with the addresses, and nothing else changes.
#[test]
fn fragments_keep_their_payload() {
    let whole = datagram(("10.0.0.1", 5), ("10.0.0.2", 80), &[3; 64]);
    let mut first = whole[..60].to_vec();
    (first[2], first[3], first[6]) = (0, 60, 0x20);
    let mut later = whole[..20].to_vec();
    later.extend(&whole[60..]);
    (later[2], later[3], later[7]) = (0, later.len() as u8, 5);
    let trace = trace_of(&[(0, first), (1, later)]);
    let mut out = [[0; 100]; 2];
    let len = [0, 1].map(|n| trace.write(n, [1, 1, 1, 1].into(), [2, 2, 2, 2].into(), None, &mut out[n]).unwrap());
    // Put together again they are a datagram with a right checksum.
    let mut together = out[0][..len[0]].to_vec();
    together.extend(&out[1][20..len[1]]);
    let sum = Sum::pseudo_header([1, 1, 1, 1].into(), [2, 2, 2, 2].into(), 17, 72);
    assert!(is_intact(&together[20..], sum));
}

#[test]
fn what_is_left_out_is_counted() {
    let whole = segment(("10.0.0.1", 5), ("10.0.0.2", 80), (1, 2, TcpFlags::ACK), &[], b"data");
    let mut trace = Trace::new(1 << 20);
    let mut push = |bytes: &[u8], length| trace.push(0, bytes, length).unwrap();
    assert_eq!(push(&[], 0), Some(LeftOut::NotIp));
    assert_eq!(push(&[0x08, 0x06, 0, 1], 28), Some(LeftOut::NotIp));
    assert_eq!(push(&whole[..39], 44), Some(LeftOut::CutInHeaders));
    assert_eq!(push(&whole[..10], 44), Some(LeftOut::CutInHeaders));
    assert_eq!(push(&whole, 43), Some(LeftOut::BadLength));
    assert_eq!(push(&whole[..40], 44), None);
    let left = trace.left();
    assert_eq!((left.not_ip, left.cut_in_headers, left.bad_length, trace.len()), (2, 2, 1, 1));
}

/// Ethernet pads short frames; the IP packet has its own length.
#[test]
fn padding_is_not_replayed() {
    let mut packet = datagram(("10.0.0.1", 5), ("10.0.0.2", 80), b"");
    packet.extend([0; 18]);
    let trace = trace_of(&[(0, packet)]);
    assert_eq!((trace.packet(0).length, trace.packet(0).bytes.len()), (28, 28));
}

#[test]
fn times_run_forward() {
    let second = 1_000_000_000;
    let trace = ticks(&[2 * second, 3 * second, 3 * second - 5, 3 * second + 7, 0, second]);
    let times: Vec<_> = trace.packets().map(|packet| packet.time.as_nanos()).collect();
    // Five nanoseconds back are packets in the wrong order; three seconds are a clock that was set.
    assert_eq!(times, [0, second, second, second + 7, second + 7, 2 * second + 7]);
    assert_eq!((trace.out_of_order(), trace.clock_set()), (1, 1));
    assert_eq!(trace.longest_gap(), (Span::from_secs(1), 1));
}

#[test]
fn gaps_are_capped_on_request() {
    let day = 86_400_000_000_000;
    let mut trace = ticks(&[0, 10, 500 * day, 500 * day + 20, 1_000 * day]);
    let gaps = trace.cap_gaps(Span::from_secs(1));
    assert_eq!(gaps.count, 2);
    assert_eq!(gaps.removed, Span::from_nanos(1_000 * day - 30 - 2_000_000_000));
    assert_eq!(trace.span(), Span::from_nanos(2_000_000_030));
    assert_eq!(trace.cap_gaps(Span::from_secs(1)), LongGap::default());
}

#[test]
fn memory_is_bounded() {
    let packet = datagram(("10.0.0.1", 5), ("10.0.0.2", 80), &[0; 1_000]);
    let mut trace = Trace::new(10_000);
    let error = (0..).find_map(|n| trace.push(n, &packet, packet.len() as u32).err());
    assert_eq!(error, Some(TraceError::TooLarge { limit: 10_000 }));
    assert!(trace.len() == 9 && trace.memory() <= 10_000);
}

#[test]
fn a_buffer_must_have_room() {
    let trace = ticks(&[0]);
    let to = |out: &mut [u8], source: &str| trace.write(0, source.parse().unwrap(), [1, 1, 1, 1].into(), None, out);
    assert_eq!(to(&mut [0; 57], "10.0.0.1"), Err(WriteError::NoRoom { length: 58, room: 57 }));
    assert_eq!(to(&mut [0; 58], "::1"), Err(WriteError::OtherVersion));
}

proptest! {
    /// A segment that was captured before hardware cut it, whole or not: the stream of bytes is the same.
    #[test]
    fn long_segments_are_cut(v6: bool, payload in 1usize..9_000, kept in 0usize..9_000, longest in 200u32..3_000) {
        let data: Vec<_> = (0..payload).map(|n| n as u8).collect();
        let flags = TcpFlags::ACK | TcpFlags::PSH | TcpFlags::FIN | TcpFlags::CWR;
        let (a, b, header) = if v6 { ("::1", "::2", 72) } else { ("10.0.0.1", "10.0.0.2", 52) };
        let whole = segment((a, 1), (b, 2), (u32::MAX - 100, 7, flags), &[1; 12], &data);
        let mut trace = Trace::new(1 << 20).cutting(longest);
        let captured = &whole[..whole.len().min(header + kept)];
        prop_assert_eq!(trace.push(0, captured, whole.len() as u32), Ok(None));
        let pieces = (payload as u32).div_ceil(longest - header as u32);
        prop_assert_eq!(trace.len() as u32, if whole.len() as u32 > longest { pieces } else { 1 });
        prop_assert_eq!(trace.cut_apart(), u64::from(whole.len() as u32 > longest));
        let ends: [IpAddr; 2] = [a, b].map(|end| end.parse().unwrap());
        let (mut out, mut at) = (vec![0; 9_100], 0);
        for index in 0..trace.len() {
            let len = trace.write(index, ends[0], ends[1], None, &mut out).unwrap();
            prop_assert!(len as u32 <= longest && is_right(&out[..len]));
            let (tcp, found) = wire::Tcp::parse(&out[header - 32..len]).unwrap();
            prop_assert_eq!(tcp.sequence, (u32::MAX - 100).wrapping_add(at as u32));
            let is_last = index + 1 == trace.len();
            prop_assert_eq!(tcp.flags.contains(TcpFlags::FIN | TcpFlags::PSH), is_last);
            prop_assert_eq!(tcp.flags.contains(TcpFlags::CWR), index == 0);
            for (n, byte) in found.iter().enumerate() {
                prop_assert_eq!(*byte, if at + n < kept { data[at + n] } else { 0 });
            }
            at += found.len();
        }
        prop_assert_eq!(at, payload);
    }
}

#[test]
fn what_is_not_tcp_is_not_cut() {
    let packet = datagram(("10.0.0.1", 5), ("10.0.0.2", 80), &[0; 3_000]);
    let mut trace = Trace::new(1 << 20).cutting(1_500);
    assert_eq!(trace.push(0, &packet, packet.len() as u32), Ok(None));
    assert_eq!((trace.len(), trace.cut_apart(), trace.too_long()), (1, 0, 1));
}
