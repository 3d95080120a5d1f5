//! The tunnel end of a modelled site: what a VXLAN interface under a bridge does.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::IpAddr;

use engine::{DropReason, Element, Output, Packet, Port, Time};
use wire::frame::{Ethernet, IpHeader};
use wire::{ETHERNET_LEN, Headers, vxlan};

/// The other end of a tunnel, and how frames to it leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Ethernet address of the host behind the other end.
    pub host: [u8; 6],
    /// IP address of the other end, of the same version as this end's.
    pub end: IpAddr,
    /// Ethernet address of the next hop to it.
    pub next_hop: [u8; 6],
}

/// A VXLAN tunnel end (RFC 7348) over IPv4 or IPv6 with one host behind it and static remotes.
///
/// It adds 50 bytes to each packet over IPv4 (14 inner Ethernet, 8 VXLAN, 8 UDP, 20 IPv4), 70 over
/// IPv6, and takes no time. It copies the DSCP of the packet inside to the outer header (RFC 2983 3.1,
/// uniform model; the kernel does it with `tos inherit`), so that a link sees the classes of what is in
/// the tunnel, and sets Don't Fragment nowhere. Unlike the kernel it sets no flow label.
///
/// Port 0: the host. Port 1: the link.
#[derive(Debug)]
pub struct Tunnel {
    end: IpAddr,
    mac: [u8; 6],
    vni: u32,
    remotes: Vec<Remote>,
    out: VecDeque<Output>,
}

/// No remote end for the frame's destination address.
const NO_REMOTE: DropReason = DropReason("no tunnel to the destination");
/// The frame and its outer headers would be longer than an IP packet can be.
const TOO_LONG: DropReason = DropReason("too long for the tunnel");
/// What arrived from the link is not of this tunnel.
const NOT_VXLAN: DropReason = DropReason("not of this tunnel");

impl Tunnel {
    /// The tunnel end with address `end` and Ethernet address `mac`, of network `vni`.
    #[must_use]
    pub fn new(end: IpAddr, mac: [u8; 6], vni: u32, remotes: Vec<Remote>) -> Self {
        Self { end, mac, vni, remotes, out: VecDeque::new() }
    }

    fn encapsulate(&self, packet: &mut Packet) -> Result<(), DropReason> {
        let remote = self.remotes.iter().find(|remote| packet.bytes.starts_with(&remote.host)).ok_or(NO_REMOTE)?;
        let ethernet = Ethernet { destination: remote.next_hop, source: self.mac };
        let dscp = Headers::parse(&packet.bytes).ip.map_or(0, |ip| ip.dscp);
        let ip = IpHeader::between(self.end, remote.end, dscp).ok_or(NO_REMOTE)?;
        let mut outer = Vec::new();
        vxlan::encapsulate(&mut outer, &ethernet, &ip, source_port(&packet.bytes), self.vni, &packet.bytes)
            .map_err(|_| TOO_LONG)?;
        packet.bytes = outer;
        Ok(())
    }

    fn decapsulate(&self, packet: &mut Packet) -> Result<(), DropReason> {
        let headers = Headers::parse(&packet.bytes);
        let ip = headers.ip.ok_or(NOT_VXLAN)?;
        if ip.ports.is_none_or(|(_, destination)| destination != vxlan::PORT) {
            return Err(NOT_VXLAN);
        }
        let payload = ip.transport + wire::UDP_LEN..headers.network + headers.network_len;
        let payload = packet.bytes.get(payload.clone()).ok_or(NOT_VXLAN)?;
        let (vni, inner) = vxlan::parse(payload).ok_or(NOT_VXLAN)?;
        if vni != self.vni {
            return Err(NOT_VXLAN);
        }
        packet.bytes = inner.to_vec();
        Ok(())
    }
}

/// Entropy for load sharing, from the inner addresses and ports, in the dynamic range (RFC 7348 5).
fn source_port(inner: &[u8]) -> u16 {
    // Where addresses begin, and how long they and the ports are: RFC 791 3.1, RFC 8200 3.
    let (at, length) = if inner.get(ETHERNET_LEN).is_some_and(|first| first >> 4 == 6) { (8, 36) } else { (12, 12) };
    let hash = inner
        .iter()
        .skip(ETHERNET_LEN + at)
        .take(length)
        .fold(0x811c_9dc5_u32, |hash, &byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    49_152 + (hash % 16_384) as u16
}

impl Element for Tunnel {
    fn handle(&mut self, _: Time, port: Port, mut packet: Packet) {
        let (result, out) = match port {
            0 => (self.encapsulate(&mut packet), 1),
            _ => (self.decapsulate(&mut packet), 0),
        };
        self.out.push_back(match result {
            Ok(()) => Output::Transmit { port: out, packet },
            Err(reason) => Output::Drop { reason, packet },
        });
    }

    fn tick(&mut self, _: Time) {}

    fn deadline(&self) -> Option<Time> {
        None
    }

    fn poll(&mut self) -> Option<Output> {
        self.out.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::{Ipv4Addr, Ipv6Addr};

    #[test]
    fn what_goes_in_at_one_end_comes_out_at_the_other() {
        let v4 = |last| IpAddr::V4(Ipv4Addr::new(10, 0, 0, last));
        let v6 = |last| IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last));
        for (ends, inside, added) in [([v4(1), v4(2)], [v4(7), v4(8)], 50), ([v6(1), v6(2)], [v6(7), v6(8)], 70)] {
            passes(ends, inside, added);
        }
    }

    fn passes(ends: [IpAddr; 2], inside: [IpAddr; 2], added: usize) {
        let (a, b) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
        let remote = |host, end| Remote { host, end, next_hop: [9; 6] };
        let mut near = Tunnel::new(ends[0], [8; 6], 42, Vec::from([remote(b, ends[1])]));
        let mut far = Tunnel::new(ends[1], [9; 6], 42, Vec::from([remote(a, ends[0])]));
        let mut frame = Vec::new();
        let ip = IpHeader::between(inside[0], inside[1], 46).unwrap();
        let (ethernet, udp) = (Ethernet { destination: b, source: a }, wire::Udp { source: 1, destination: 2 });
        wire::frame::udp(&mut frame, &ethernet, &ip, udp, &[0x55; 72]).unwrap();

        near.handle(Time::ZERO, 0, Packet::new(frame.clone()));
        let Some(Output::Transmit { port: 1, packet }) = near.poll() else { panic!("not sent") };
        assert_eq!(packet.len(), frame.len() + added);
        assert_eq!(Headers::parse(&packet.bytes).ip.unwrap().dscp, 46);
        far.handle(Time::ZERO, 1, packet.clone());
        let Some(Output::Transmit { port: 0, packet: inner }) = far.poll() else { panic!("not received") };
        assert_eq!(inner.bytes, frame);

        let mut other = Tunnel::new(ends[1], [9; 6], 43, Vec::new());
        other.handle(Time::ZERO, 1, packet);
        assert!(matches!(other.poll(), Some(Output::Drop { reason: NOT_VXLAN, .. })));
        near.handle(Time::ZERO, 0, Packet::new([7; 60].to_vec()));
        assert!(matches!(near.poll(), Some(Output::Drop { reason: NO_REMOTE, .. })));
    }
}
