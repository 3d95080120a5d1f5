//! Flows of packets, for tests and benchmarks: each packet is a function of its number.

#![allow(dead_code, reason = "not every user needs every flow")]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rohc::Profile;
use wire::checksum::{Sum, checksum};

const V4: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];
const V6: [Ipv6Addr; 2] =
    [Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, 1), Ipv6Addr::new(0x2001, 0xdb8, 0, 2, 0, 0, 0, 2)];

/// A flow of packets.
pub(crate) struct Flow {
    pub(crate) name: &'static str,
    /// The profile it is to be compressed by.
    pub(crate) profile: Profile,
    /// Octets of its headers, up to what the profile compresses.
    pub(crate) header: usize,
    /// Does a transport checksum cover all that changes from packet to packet? Then nothing wrong may
    /// be delivered, whatever happens on the way.
    pub(crate) protected: bool,
    pub(crate) packet: Box<dyn Fn(u32) -> Vec<u8>>,
}

impl Flow {
    fn new(name: &'static str, profile: Profile, header: usize, packet: impl Fn(u32) -> Vec<u8> + 'static) -> Self {
        Self { name, profile, header, protected: false, packet: Box::new(packet) }
    }

    fn protected(self) -> Self {
        Self { protected: true, ..self }
    }
}

/// How an IPv4 sender numbers its packets.
#[derive(Clone, Copy)]
pub(crate) enum Identification {
    Sequential,
    Swapped,
    Random,
    Constant,
}

impl Identification {
    fn of(self, number: u32) -> u16 {
        match self {
            Self::Sequential => (0xfff0 + number) as u16,
            Self::Swapped => ((0xfff0 + number) as u16).swap_bytes(),
            Self::Random => random(number, 4) as u16,
            Self::Constant => 0,
        }
    }
}

/// The flows that the mean header is promised for.
pub(crate) fn measured() -> Vec<Flow> {
    vec![
        Flow::new("IPv6/UDP", Profile::Udp, 48, |n| ipv6(17, &udp(true, (40_000, 5060), &payload(n, 41)))).protected(),
        Flow::new("IPv6/UDP/RTP", Profile::Rtp, 60, |n| ipv6(17, &voice(n, n, 160 * n, false))).protected(),
        Flow::new("IPv6/UDP/RTP, talk spurts", Profile::Rtp, 60, |n| {
            let (spurt, in_spurt) = (n / 50, n % 50);
            ipv6(17, &voice(n, n, 160 * (n + 75 * spurt + spurt % 3), in_spurt == 0))
        })
        .protected(),
        Flow::new("IPv6/TCP, timestamps", Profile::Tcp, 72, |n| {
            let options = Timestamps { value: 1_000_000 + 7 * n, echo: 900_000 + 7 * n };
            ipv6(6, &tcp(n * 1_000, 77, 0x18, Some(options), &payload(n, 1_000)))
        })
        .protected(),
        Flow::new("IPv6/ESP", Profile::Esp, 48, |n| ipv6(50, &esp(n + 1, &payload(n, 64)))),
    ]
}

/// All kinds of flows that some profile compresses.
pub(crate) fn all() -> Vec<Flow> {
    use Identification::{Constant, Random, Sequential, Swapped};
    let mut flows = measured();
    for (name, kind) in [
        ("IPv4/UDP/RTP, IP-ID sequential", Sequential),
        ("IPv4/UDP/RTP, IP-ID swapped", Swapped),
        ("IPv4/UDP/RTP, IP-ID random", Random),
        ("IPv4/UDP/RTP, IP-ID constant", Constant),
    ] {
        flows.push(Flow::new(name, Profile::Rtp, 40, move |n| ipv4(kind.of(n), 17, &voice4(n, n, 160 * n, n == 0))));
    }
    for (name, kind) in [
        ("IPv4/UDP, IP-ID sequential", Sequential),
        ("IPv4/UDP, IP-ID swapped", Swapped),
        ("IPv4/UDP, IP-ID random", Random),
        ("IPv4/UDP, IP-ID constant", Constant),
    ] {
        flows.push(Flow::new(name, Profile::Udp, 28, move |n| {
            ipv4(kind.of(n), 17, &udp4(true, (40_000, 53), &payload(n, 30)))
        }));
    }
    for (name, kind) in [
        ("IPv4 of another protocol, IP-ID sequential", Sequential),
        ("IPv4 of another protocol, IP-ID constant", Constant),
        ("IPv4 of another protocol, IP-ID random", Random),
    ] {
        flows.push(Flow::new(name, Profile::Ip, 20, move |n| ipv4(kind.of(n), 132, &payload(n, 30))));
    }
    flows.extend([
        Flow::new("IPv4/UDP/RTP without checksum", Profile::Rtp, 40, |n| {
            let rtp = rtp(n, 160 * n, false, 0, &[], &payload(n, 20));
            ipv4(Sequential.of(n), 17, &udp4(false, (5004, 5004), &rtp))
        }),
        Flow::new("IPv4/UDP without checksum", Profile::Udp, 28, |n| {
            ipv4(Sequential.of(n), 17, &udp4(false, (40_000, 53), &payload(n, 30)))
        }),
        Flow::new("IPv4/ESP", Profile::Esp, 28, |n| {
            ipv4(Sequential.of(n), 50, &esp(n.wrapping_add(0xffff_ff00), &payload(n, 64)))
        }),
        Flow::new("IPv4/ESP, IP-ID random", Profile::Esp, 28, |n| ipv4(Random.of(n), 50, &esp(n + 1, &payload(n, 64)))),
        Flow::new("IPv6 of another protocol", Profile::Ip, 40, |n| ipv6(132, &payload(n, 30))),
        Flow::new("IPv6/UDP/RTP, sequence wraps", Profile::Rtp, 60, |n| {
            ipv6(17, &voice(n, n + 65_000, (u32::MAX - 100_000).wrapping_add(160 * n), n % 100 == 0))
        })
        .protected(),
        Flow::new("IPv6/UDP/RTP, video frames of several packets", Profile::Rtp, 60, |n| {
            ipv6(17, &voice(n, n, 3_000 * (n / 5), n % 5 == 4))
        })
        .protected(),
        Flow::new("IPv6/UDP/RTP, lost before the compressor", Profile::Rtp, 60, |n| {
            let sn = n + n / 37 + 8 * (n / 211);
            ipv6(17, &voice(n, sn, 160 * sn, false))
        })
        .protected(),
        Flow::new("IPv6/UDP/RTP, hop limit and class change", Profile::Rtp, 60, |n| {
            let mut packet = ipv6(17, &voice(n, n, 160 * n, false));
            packet[7] = 60 + (n / 70 % 4) as u8;
            packet[1] = (n / 90 % 2 * 0x80) as u8;
            packet
        })
        .protected(),
        Flow::new("IPv6/UDP/RTP, payload type changes", Profile::Rtp, 60, |n| {
            ipv6(17, &udp(true, (5004, 5004), &rtp(n, 160 * n, n % 61 == 0, (n / 61 % 3) as u8, &[], &payload(n, 20))))
        })
        .protected(),
        Flow::new("IPv6/UDP/RTP, contributing sources", Profile::Rtp, 60, |n| {
            let sources: Vec<u32> = (0..(n / 30 % 6)).map(|at| 0xabc0 + (at * 7 + n / 60) % 9).collect();
            ipv6(17, &udp(true, (5004, 5004), &rtp(n, 160 * n, false, 0, &sources, &payload(n, 20))))
        })
        .protected(),
        Flow::new("IPv4 in IPv6/UDP", Profile::Udp, 68, |n| {
            ipv6(4, &ipv4(Sequential.of(n), 17, &udp4(true, (40_000, 53), &payload(n, 30))))
        }),
        Flow::new("IPv4 in IPv4/UDP/RTP", Profile::Rtp, 60, |n| {
            ipv4(Random.of(n), 4, &ipv4(Sequential.of(2 * n), 17, &voice4(n, n, 160 * n, false)))
        }),
        Flow::new("IPv4 in IPv4/UDP", Profile::Udp, 48, |n| {
            ipv4(Sequential.of(3 * n), 4, &ipv4(Sequential.of(n), 17, &udp4(true, (40_000, 53), &payload(n, 30))))
        }),
        Flow::new("IPv6 in IPv4/UDP", Profile::Udp, 68, |n| {
            ipv4(Sequential.of(n), 41, &ipv6(17, &udp(true, (40_000, 53), &payload(n, 30))))
        }),
        Flow::new("IPv6/hop-by-hop/destination options/UDP", Profile::Udp, 64, |n| {
            ipv6(0, &[&options(60, 1)[..], &options(17, 2), &udp(true, (40_000, 53), &payload(n, 30))].concat())
        }),
        Flow::new("IPv6/options that come and go/UDP/RTP", Profile::Rtp, 60, |n| {
            let rtp = voice(n, n, 160 * n, false);
            match n / 40 % 4 {
                0 => ipv6(17, &rtp),
                1 => ipv6(60, &[&options(17, 2)[..], &rtp].concat()),
                2 => ipv6(0, &[&options(60, 1)[..], &options(17, 2), &rtp].concat()),
                _ => ipv6(0, &[&options(43, 1)[..], &routing(17), &rtp].concat()),
            }
        }),
        Flow::new("IPv6/AH/UDP", Profile::Udp, 72, |n| {
            ipv6(51, &[&ah(17, 1_000 + n + n / 50, n)[..], &udp(true, (40_000, 53), &payload(n, 30))].concat())
        }),
        Flow::new("IPv4/GRE/IPv6/UDP/RTP", Profile::Rtp, 96, |n| {
            ipv4(Sequential.of(n), 47, &[&gre(5 + n, n as u16)[..], &ipv6(17, &voice(n, n, 160 * n, false))].concat())
        }),
        Flow::new("IPv4/TCP", Profile::Tcp, 40, |n| {
            ipv4(Sequential.of(n), 6, &tcp4(n * 500, 77 + n / 3, 0x10, &payload(n, 500)))
        }),
    ]);
    flows
}

fn voice(n: u32, sn: u32, timestamp: u32, marker: bool) -> Vec<u8> {
    udp(true, (5004, 5004), &rtp(sn, timestamp, marker, 0, &[], &payload(n, 20)))
}

fn voice4(n: u32, sn: u32, timestamp: u32, marker: bool) -> Vec<u8> {
    udp4(true, (5004, 5004), &rtp(sn, timestamp, marker, 0, &[], &payload(n, 20)))
}

pub(crate) fn ipv4(identification: u16, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, protocol, 0, 0];
    packet.extend_from_slice(&V4[0].octets());
    packet.extend_from_slice(&V4[1].octets());
    packet[2..4].copy_from_slice(&((20 + payload.len()) as u16).to_be_bytes());
    packet[4..6].copy_from_slice(&identification.to_be_bytes());
    let sum = checksum(&packet);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend_from_slice(payload);
    packet
}

pub(crate) fn ipv6(next: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0x12, 0x34, 0, 0, next, 64];
    packet[4..6].copy_from_slice(&(payload.len() as u16).to_be_bytes());
    packet.extend_from_slice(&V6[0].octets());
    packet.extend_from_slice(&V6[1].octets());
    packet.extend_from_slice(payload);
    packet
}

pub(crate) fn options(next: u8, of: u8) -> Vec<u8> {
    vec![next, 0, 1, 4, of, of, of, of]
}

/// A routing header whose segments are all used up, so that the destination stays what it is.
pub(crate) fn routing(next: u8) -> Vec<u8> {
    let mut header = vec![next, 2, 2, 0, 0, 0, 0, 0];
    header.extend_from_slice(&[9; 16]);
    header
}

pub(crate) fn ah(next: u8, sequence: u32, n: u32) -> Vec<u8> {
    let mut header = vec![next, 4, 0, 0, 0, 0, 0, 7];
    header.extend_from_slice(&sequence.to_be_bytes());
    header.extend_from_slice(&payload(n, 12));
    header
}

pub(crate) fn gre(sequence: u32, check: u16) -> Vec<u8> {
    let [a, b] = check.to_be_bytes();
    let mut header = vec![0xb0, 0, 0x86, 0xdd, a, b, 0, 0, 1, 2, 3, 4];
    header.extend_from_slice(&sequence.to_be_bytes());
    header
}

pub(crate) fn udp(with_checksum: bool, ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
    udp_between(V6.map(IpAddr::V6), with_checksum, ports, payload)
}

pub(crate) fn udp4(with_checksum: bool, ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
    udp_between(V4.map(IpAddr::V4), with_checksum, ports, payload)
}

fn udp_between(between: [IpAddr; 2], with_checksum: bool, ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
    let mut datagram = Vec::new();
    for field in [ports.0, ports.1, (8 + payload.len()) as u16, 0] {
        datagram.extend_from_slice(&field.to_be_bytes());
    }
    datagram.extend_from_slice(payload);
    if with_checksum {
        let sum = transport_checksum(between, 17, &datagram);
        let sum = if sum == 0 { 0xffff } else { sum };
        datagram[6..8].copy_from_slice(&sum.to_be_bytes());
    }
    datagram
}

pub(crate) fn rtp(sn: u32, timestamp: u32, marker: bool, kind: u8, sources: &[u32], payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x80 | sources.len() as u8, u8::from(marker) << 7 | kind];
    packet.extend_from_slice(&(sn as u16).to_be_bytes());
    packet.extend_from_slice(&timestamp.to_be_bytes());
    packet.extend_from_slice(&0xdead_beef_u32.to_be_bytes());
    for source in sources {
        packet.extend_from_slice(&source.to_be_bytes());
    }
    packet.extend_from_slice(payload);
    packet
}

pub(crate) fn esp(sequence: u32, data: &[u8]) -> Vec<u8> {
    let mut packet = vec![0, 0, 0x12, 0x34];
    packet.extend_from_slice(&sequence.to_be_bytes());
    packet.extend_from_slice(data);
    packet
}

pub(crate) struct Timestamps {
    pub(crate) value: u32,
    pub(crate) echo: u32,
}

pub(crate) fn tcp(
    sequence: u32,
    acknowledged: u32,
    flags: u8,
    timestamps: Option<Timestamps>,
    payload: &[u8],
) -> Vec<u8> {
    tcp_between(V6.map(IpAddr::V6), sequence, acknowledged, flags, timestamps, payload)
}

pub(crate) fn tcp4(sequence: u32, acknowledged: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
    tcp_between(V4.map(IpAddr::V4), sequence, acknowledged, flags, None, payload)
}

fn tcp_between(
    between: [IpAddr; 2],
    sequence: u32,
    acknowledged: u32,
    flags: u8,
    timestamps: Option<Timestamps>,
    payload: &[u8],
) -> Vec<u8> {
    let mut segment = Vec::new();
    segment.extend_from_slice(&40_001u16.to_be_bytes());
    segment.extend_from_slice(&80u16.to_be_bytes());
    segment.extend_from_slice(&sequence.to_be_bytes());
    segment.extend_from_slice(&acknowledged.to_be_bytes());
    segment.extend_from_slice(&[if timestamps.is_some() { 0x80 } else { 0x50 }, flags, 0x10, 0, 0, 0, 0, 0]);
    if let Some(timestamps) = timestamps {
        segment.extend_from_slice(&[1, 1, 8, 10]);
        segment.extend_from_slice(&timestamps.value.to_be_bytes());
        segment.extend_from_slice(&timestamps.echo.to_be_bytes());
    }
    segment.extend_from_slice(payload);
    let sum = transport_checksum(between, 6, &segment);
    segment[16..18].copy_from_slice(&sum.to_be_bytes());
    segment
}

fn transport_checksum([from, to]: [IpAddr; 2], protocol: u8, segment: &[u8]) -> u16 {
    (Sum::pseudo_header(from, to, protocol, segment.len() as u32) + Sum::of(segment)).checksum()
}

/// Octets that no compression is needed for, and that differ from packet to packet.
pub(crate) fn payload(number: u32, length: usize) -> Vec<u8> {
    (0..length as u32).map(|at| random(number, at) as u8).collect()
}

/// A hash of two numbers: the same ones give the same result.
pub(crate) fn random(a: u32, b: u32) -> u32 {
    let mut x = u64::from(a) << 32 | u64::from(b);
    for _ in 0..2 {
        x = (x ^ x >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        x = (x ^ x >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    }
    (x >> 32) as u32
}
