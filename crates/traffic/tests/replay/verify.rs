//! A capture of what was sent against the trace.

use std::net::{IpAddr, Ipv4Addr};

use engine::{Span, Time};
use traffic::replay::{Comparison, Direction, Instances, Observed, Over, ReplayConfig, Spacing, Trace, VerifyError};
use wire::TcpFlags;
use wire::gtpu::TunnelHeader;

use crate::packets::{config, datagram, segment, start, trace_of};

fn trace() -> Trace {
    let (ue, server) = (("10.0.0.1", 5), ("10.0.9.1", 80));
    trace_of(
        &(0..40u32)
            .map(|n| {
                let payload = vec![n as u8; 10 + n as usize];
                let packet = match n % 4 {
                    0 => segment(ue, server, (n, 0, TcpFlags::ACK), &[], &payload),
                    1 => segment(server, ue, (n, 0, TcpFlags::ACK), &[], &payload),
                    2 => datagram(ue, ("10.0.9.2", 53), &payload),
                    _ => datagram(("2001:db8::9", 53), ("2001:db8::1", 5), &payload),
                };
                (u64::from(n) * 10_000, packet)
            })
            .collect::<Vec<_>>(),
    )
}

/// What a perfect sender puts on the wire: time, packet, whether it goes up.
fn sent(config: &ReplayConfig) -> Vec<(u64, Vec<u8>, bool)> {
    let mut replay = start(trace(), config).unwrap();
    let (mut out, mut sent) = ([0; 1_500], Vec::new());
    while let Some(item) = replay.next(Time::MAX) {
        let ue = if item.pdn.is_ipv4() { IpAddr::from([16, 0, 0, item.ue as u8]) } else { "fd00::1".parse().unwrap() };
        let is_up = item.direction == Direction::Uplink;
        let (source, destination) = if is_up { (ue, item.pdn) } else { (item.pdn, ue) };
        let stamp = Some(&[sent.len() as u8; 24]);
        let len = replay.trace().write(item.index as usize, source, destination, stamp, &mut out).unwrap();
        sent.push((77_000_000 + item.due.as_nanos(), out[..len].to_vec(), is_up));
    }
    sent
}

fn in_tunnel(packet: &[u8]) -> Vec<u8> {
    let mut payload = Vec::new();
    TunnelHeader { teid: 7, sequence: None, pdu_session: None }.append(&mut payload, packet.len()).unwrap();
    payload.extend_from_slice(packet);
    datagram(("172.16.0.1", 2_152), ("172.16.0.2", 2_152), &payload)
}

fn compare(config: &ReplayConfig, packets: &[(u64, Vec<u8>)]) -> Comparison {
    let observed: Vec<_> =
        packets.iter().filter_map(|(at, packet)| Observed::new(*at, packet, packet.len() as u32)).collect();
    assert_eq!(observed.len(), packets.len());
    Comparison::new(start(trace(), config).unwrap(), &observed).unwrap()
}

fn plain(sent: &[(u64, Vec<u8>, bool)]) -> Vec<(u64, Vec<u8>)> {
    sent.iter().map(|(at, packet, _)| (*at, packet.clone())).collect()
}

fn scaled() -> ReplayConfig {
    let instances = Instances { over: Over::Pdn, count: 3 };
    ReplayConfig { repetitions: 2, instances, spacing: Spacing::JITTER, ..config() }
}

#[test]
fn a_perfect_sender() {
    for config in [config(), scaled()] {
        let found = compare(&config, &plain(&sent(&config)));
        assert!(found.is_same(), "{found:?}");
        assert_eq!((found.expected, found.foreign, found.stalls), (found.sent, 0, 0));
        assert!(found.payloads_compared && found.lateness.iter().all(|late| *late == Span::ZERO));
    }
}

/// Both sides of a user plane in one capture: what goes up is in a tunnel before it, what goes down after it.
#[test]
fn what_comes_back_is_told_apart() {
    let mut packets = Vec::new();
    for (at, packet, is_up) in sent(&scaled()) {
        let tunnelled = in_tunnel(&packet);
        let (before, after) = if is_up { (tunnelled, packet) } else { (packet, tunnelled) };
        packets.push((at, before));
        packets.push((at + 300_000, after));
    }
    packets.push((0, datagram(("172.16.0.1", 8_805), ("172.16.0.2", 8_805), b"not of the trace")));
    packets.sort_by_key(|(at, _)| *at);
    let found = compare(&scaled(), &packets);
    assert!(found.is_same(), "{found:?}");
    assert_eq!((found.sent, found.returned, found.foreign), (240, 240, 1));
}

#[test]
fn what_is_wrong_is_found() {
    let good = plain(&sent(&config()));
    let found = |change: fn(&mut Vec<(u64, Vec<u8>)>)| {
        let mut packets = good.clone();
        change(&mut packets);
        let found = compare(&config(), &packets);
        assert!(!found.is_same());
        found
    };
    assert_eq!(found(|packets| drop(packets.remove(7))).missing, 1);
    assert_eq!(found(|packets| packets.push(packets[7].clone())).surplus, 1);
    assert_eq!(found(|packets| packets.swap(7, 8)).out_of_order, 1);
    let other = |packets: &mut Vec<(u64, Vec<u8>)>| {
        let last = packets[36].1.len() - 1;
        packets[36].1[last] ^= 1;
    };
    assert_eq!((found(other).missing, found(other).foreign), (1, 1));
    // A datagram that lost its last bytes is another one; of another size is one whose stamp alone is longer.
    let address = |packets: &mut Vec<(u64, Vec<u8>)>| {
        packets[8].1[12..16].copy_from_slice(&Ipv4Addr::new(9, 9, 9, 9).octets());
    };
    assert_eq!(found(address).addresses_differ, 1);
}

/// Sizes are compared also where payloads cannot be.
#[test]
fn cut_captures_are_compared_by_headers() {
    let mut cut = sent(&config());
    let observed: Vec<_> = cut
        .iter_mut()
        .enumerate()
        .map(|(n, (at, packet, _))| {
            if n == 30 {
                // A datagram with a shorter payload, honestly.
                packet.truncate(packet.len() - 3);
                let len = packet.len() as u16;
                packet[2..4].copy_from_slice(&len.to_be_bytes());
            }
            Observed::new(*at, &packet[..packet.len().min(60)], packet.len() as u32).unwrap()
        })
        .collect();
    let found = Comparison::new(start(trace(), &config()).unwrap(), &observed).unwrap();
    assert!(!found.payloads_compared);
    assert_eq!((found.sent, found.sizes_differ, found.missing), (40, 1, 0));
}

#[test]
fn lateness_and_stalls() {
    let mut late = plain(&sent(&config()));
    for (n, packet) in late.iter_mut().enumerate() {
        packet.0 += match n {
            // Stood still for 2 ms before packet 10; it and what came due meanwhile leave at once.
            10.. if packet.0 < 77_005_000 + 100_000 + 2_000_000 => 77_005_000 + 2_100_000 - packet.0,
            n => [500, 900, 700][n % 3],
        };
    }
    let found = compare(&config(), &late);
    assert!(found.is_same());
    assert_eq!((found.stalls, found.lateness.len(), found.lateness_outside.len()), (1, 40, 10));
    assert_eq!(found.lateness_outside.last(), Some(&Span::from_nanos(400)));
    assert_eq!(found.lateness.last(), Some(&Span::from_nanos(1_999_500)));
}

#[test]
fn stateful_replays_have_no_schedule() {
    let config = ReplayConfig { stateful: Some(Span::from_secs(1)), ..config() };
    assert_eq!(Comparison::new(start(trace(), &config).unwrap(), &[]), Err(VerifyError::Stateful));
}
