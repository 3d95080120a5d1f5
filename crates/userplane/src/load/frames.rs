//! The frames of a load: users' datagrams with a stamp, in a tunnel towards N3 or plain towards N6.
//!
//! What stays the same from packet to packet is made once; a packet costs a copy of it, its addresses,
//! lengths and sums. Checksums are whole, so that nothing depends on offloads. The UDP checksum of
//! the tunnel is 0 over IPv4 (RFC 768, as UPFs send it) and computed over IPv6 (RFC 8200 8.1).

use alloc::vec::Vec;
use core::net::IpAddr;

use traffic::stamp::{STAMP_LEN, Stamp, fitting};
use wire::checksum::Sum;
use wire::gtpu::{GTPU_PORT, PduSession, Qfi, TunnelHeader};
use wire::{ETHERNET_LEN, UDP_LEN, ethertype, protocol};

const IPV4_LEN: usize = 20;
const IPV6_LEN: usize = 40;
/// TTL and hop limit of what is sent.
const HOPS: u8 = 64;

/// One datagram's ends and size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
    /// Address and port of the sender.
    pub source: (IpAddr, u16),
    /// Address and port of the receiver, of the same version.
    pub destination: (IpAddr, u16),
    /// Length of the IP packet in bytes, at least [`User::least`].
    pub length: usize,
}

/// The N3 (S1-U) side: between which addresses the tunnels are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Ethernet address of the gNB.
    pub mac: [u8; 6],
    /// That of the UPF, or of the router before it.
    pub next_hop: [u8; 6],
    /// Address of the gNB (eNB).
    pub gnb: IpAddr,
    /// Address of the UPF (SGW-U), of the same version.
    pub upf: IpAddr,
    /// Flow identifier in the PDU session container; without one (4G) there is no container.
    pub qfi: Option<Qfi>,
    /// Sequence numbers in GTP-U headers.
    pub sequence: bool,
}

/// The N6 (SGi) side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Core {
    /// Ethernet address of the data network.
    pub mac: [u8; 6],
    /// That of the UPF, or of the router before it.
    pub next_hop: [u8; 6],
}

/// Writes uplink frames: Ethernet, IP, UDP, GTP-U, and a user's packet.
#[derive(Clone, Debug)]
pub struct UplinkFrames {
    /// Everything before the user's packet, with lengths, sums and TEID open.
    headers: Vec<u8>,
    /// Where the GTP-U header begins.
    gtpu: usize,
    v6: bool,
    sequence: Option<u16>,
}

/// Writes downlink frames: Ethernet and a user's packet.
#[derive(Clone, Copy, Debug)]
pub struct DownlinkFrames(Core);

impl User {
    /// The shortest packet of the version that `source` has: one whose payload holds the time.
    #[must_use]
    pub const fn least(v6: bool) -> usize {
        UDP_LEN + 8 + if v6 { IPV6_LEN } else { IPV4_LEN }
    }

    /// The shortest packet that holds a whole stamp.
    #[must_use]
    pub const fn least_numbered(v6: bool) -> usize {
        UDP_LEN + STAMP_LEN + if v6 { IPV6_LEN } else { IPV4_LEN }
    }

    /// Writes the packet into the first [`length`](Self::length) bytes of `out`, which must hold them.
    /// The payload is the stamp and zeros.
    fn write(&self, out: &mut [u8], stamp: &Stamp) {
        let out = &mut out[..self.length];
        let (ip, pseudo) = match (self.source.0, self.destination.0) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let length = (self.length as u16).to_be_bytes();
                let mut header =
                    [0x45, 0, length[0], length[1], 0, 0, 0x40, 0, HOPS, protocol::UDP, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
                header[12..16].copy_from_slice(&source.octets());
                header[16..].copy_from_slice(&destination.octets());
                let addresses = u64::from(source.to_bits()) + u64::from(destination.to_bits());
                let words = 0x4500 + self.length as u64 + 0x4000 + (u64::from(HOPS) << 8 | u64::from(protocol::UDP));
                header[10..12].copy_from_slice(&(!fold(words + addresses)).to_be_bytes());
                out[..IPV4_LEN].copy_from_slice(&header);
                (IPV4_LEN, addresses)
            }
            (source, destination) => {
                let [source, destination] = [source, destination].map(octets6);
                let mut header = [0; IPV6_LEN];
                header[0] = 0x60;
                header[4..6].copy_from_slice(&((self.length - IPV6_LEN) as u16).to_be_bytes());
                header[6] = protocol::UDP;
                header[7] = HOPS;
                header[8..24].copy_from_slice(&source);
                header[24..].copy_from_slice(&destination);
                out[..IPV6_LEN].copy_from_slice(&header);
                (IPV6_LEN, words(&source) + words(&destination))
            }
        };
        let datagram = &mut out[ip..];
        let length = datagram.len() as u64;
        let fits = fitting(datagram.len() - UDP_LEN);
        let stamp = &stamp.bytes()[..fits];
        let ports = u64::from(self.source.1) << 16 | u64::from(self.destination.1);
        let sum = fold(pseudo + u64::from(protocol::UDP) + 2 * length + ports + words(stamp));
        datagram[..4].copy_from_slice(&(ports as u32).to_be_bytes());
        datagram[4..6].copy_from_slice(&(length as u16).to_be_bytes());
        // RFC 768: zero would mean that there is none.
        datagram[6..8].copy_from_slice(&(if sum == 0xffff { sum } else { !sum }).to_be_bytes());
        datagram[8..8 + fits].copy_from_slice(stamp);
        datagram[8 + fits..].fill(0);
    }
}

impl UplinkFrames {
    /// What writes frames into tunnels between these two.
    #[must_use]
    pub fn new(access: &Access) -> Self {
        let session = access.qfi.map(|qfi| PduSession::Uplink { qfi });
        let sequence = access.sequence.then_some(0);
        let v6 = access.gnb.is_ipv6();
        let mut headers = Vec::new();
        ethernet(&mut headers, access.next_hop, access.mac, v6);
        match (access.gnb, access.upf) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                headers.extend_from_slice(&[0x45, 0, 0, 0, 0, 0, 0x40, 0, HOPS, protocol::UDP, 0, 0]);
                headers.extend_from_slice(&source.octets());
                headers.extend_from_slice(&destination.octets());
            }
            (source, destination) => {
                headers.extend_from_slice(&[0x60, 0, 0, 0, 0, 0, protocol::UDP, HOPS]);
                headers.extend_from_slice(&octets6(source));
                headers.extend_from_slice(&octets6(destination));
            }
        }
        for port in [GTPU_PORT; 2] {
            headers.extend_from_slice(&port.to_be_bytes());
        }
        headers.extend_from_slice(&[0; 4]);
        let gtpu = headers.len();
        let tunnel = TunnelHeader { teid: 0, sequence, pdu_session: session };
        // A header without a payload is never too long.
        let _ = tunnel.append(&mut headers, 0);
        Self { headers, gtpu, v6, sequence }
    }

    /// Bytes before the user's packet.
    #[must_use]
    pub fn overhead(&self) -> usize {
        self.headers.len()
    }

    /// Writes a whole frame to the start of `slot`; its length. `slot` must hold it.
    pub fn write(&mut self, slot: &mut [u8], teid: u32, user: &User, stamp: &Stamp) -> usize {
        user.write(&mut slot[self.headers.len()..], stamp);
        self.wrap(slot, teid, user.length)
    }

    /// Puts the tunnel's headers before a user's packet of `length` bytes, which stands at
    /// [`overhead`](Self::overhead) in `slot`; the frame's length.
    pub fn wrap(&mut self, slot: &mut [u8], teid: u32, length: usize) -> usize {
        let (overhead, gtpu) = (self.headers.len(), self.gtpu);
        let total = overhead + length;
        slot[..overhead].copy_from_slice(&self.headers);
        let put =
            |slot: &mut [u8], at: usize, word: usize| slot[at..at + 2].copy_from_slice(&(word as u16).to_be_bytes());
        // TS 29.281 5.1: what follows the first 8 octets.
        put(slot, gtpu + 2, total - gtpu - 8);
        slot[gtpu + 4..gtpu + 8].copy_from_slice(&teid.to_be_bytes());
        if let Some(sequence) = &mut self.sequence {
            slot[gtpu + 8..gtpu + 10].copy_from_slice(&sequence.to_be_bytes());
            *sequence = sequence.wrapping_add(1);
        }
        let udp = gtpu - UDP_LEN;
        put(slot, udp + 4, total - udp);
        let ip = ETHERNET_LEN;
        if self.v6 {
            put(slot, ip + 4, total - udp);
            let sum = Sum::of(&slot[ip + 8..ip + 40]) + Sum::of(&slot[udp..total]);
            let sum = sum + Sum::from(u16::from(protocol::UDP)) + Sum::from((total - udp) as u16);
            put(slot, udp + 6, sum.checksum_or_ones().into());
        } else {
            put(slot, ip + 2, total - ip);
            let sum = words(&slot[ip..ip + IPV4_LEN]);
            put(slot, ip + 10, (!fold(sum)).into());
        }
        total
    }
}

impl DownlinkFrames {
    /// What writes frames towards the UPF.
    #[must_use]
    pub const fn new(core: Core) -> Self {
        Self(core)
    }

    /// Bytes before the user's packet.
    #[must_use]
    pub const fn overhead(&self) -> usize {
        ETHERNET_LEN
    }

    /// As [`UplinkFrames::write`].
    pub fn write(&self, slot: &mut [u8], user: &User, stamp: &Stamp) -> usize {
        user.write(&mut slot[ETHERNET_LEN..], stamp);
        self.wrap(slot, user.source.0.is_ipv6(), user.length)
    }

    /// As [`UplinkFrames::wrap`], for a user's packet of this version of IP.
    pub fn wrap(&self, slot: &mut [u8], v6: bool, length: usize) -> usize {
        let kind = if v6 { ethertype::IPV6 } else { ethertype::IPV4 };
        slot[..6].copy_from_slice(&self.0.next_hop);
        slot[6..12].copy_from_slice(&self.0.mac);
        slot[12..ETHERNET_LEN].copy_from_slice(&kind.to_be_bytes());
        ETHERNET_LEN + length
    }
}

fn ethernet(out: &mut Vec<u8>, destination: [u8; 6], source: [u8; 6], v6: bool) {
    out.extend_from_slice(&destination);
    out.extend_from_slice(&source);
    out.extend_from_slice(&(if v6 { ethertype::IPV6 } else { ethertype::IPV4 }).to_be_bytes());
}

fn octets6(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// The sum of the 32-bit words in `bytes`, whose length is a multiple of four: folded, it is the sum of
/// RFC 1071 (2 C). Short as these headers are, a loop over words beats the general sum.
fn words(bytes: &[u8]) -> u64 {
    bytes.as_chunks::<4>().0.iter().map(|word| u64::from(u32::from_be_bytes(*word))).sum()
}

fn fold(mut sum: u64) -> u16 {
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::Time;
    use etherparse::{NetSlice, SlicedPacket, TransportSlice};
    use proptest::prelude::*;
    use std::vec;
    use wire::gtpu::{Gtpu, Message};

    const MACS: ([u8; 6], [u8; 6]) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);

    fn stamp(bits: u64) -> Stamp {
        Stamp {
            sent: Time::from_nanos(bits),
            flow: bits as u32,
            sequence: (bits >> 7) as u32,
            mark: !(bits as u32),
            packet: 3,
        }
    }

    fn address(v6: bool, bits: u64) -> IpAddr {
        if v6 {
            core::net::Ipv6Addr::from_bits(u128::from(bits) * 0x1_0001_0001).into()
        } else {
            core::net::Ipv4Addr::from_bits(bits as u32).into()
        }
    }

    /// What another implementation makes of an IP packet with UDP: the payload, if all sums are right.
    fn intact(packet: &[u8]) -> Vec<u8> {
        let sliced = SlicedPacket::from_ip(packet).unwrap();
        let Some(TransportSlice::Udp(udp)) = sliced.transport else { panic!("no UDP") };
        let header = udp.to_header();
        let sum = match sliced.net.unwrap() {
            NetSlice::Ipv4(ip) => {
                assert_eq!(ip.header().to_header().calc_header_checksum(), ip.header().header_checksum());
                header.calc_checksum_ipv4(&ip.header().to_header(), udp.payload())
            }
            NetSlice::Ipv6(ip) => header.calc_checksum_ipv6(&ip.header().to_header(), udp.payload()),
            NetSlice::Arp(_) => unreachable!(),
        };
        if header.checksum != 0 {
            assert_eq!(sum.unwrap(), header.checksum);
        }
        assert_eq!(usize::from(header.length), udp.slice().len());
        udp.payload().to_vec()
    }

    proptest! {
        /// Lengths and sums of every frame hold by another implementation, inside and outside.
        #[test]
        fn frames_are_right(
            bits in any::<u64>(), v6 in any::<bool>(), outside6 in any::<bool>(), room in 8usize..1400,
            qfi in prop::option::of(0u8..64), sequence in any::<bool>(), teid in any::<u32>(),
        ) {
            let user = User {
                source: (address(v6, bits), bits as u16),
                destination: (address(v6, !bits), 9),
                length: User::least(v6) - 8 + room,
            };
            let access = Access {
                mac: MACS.0,
                next_hop: MACS.1,
                gnb: address(outside6, bits >> 9),
                upf: address(outside6, bits >> 3),
                qfi: qfi.and_then(Qfi::new),
                sequence,
            };
            let stamp = stamp(bits);
            let mut slot = vec![0xaa; 2048];
            let mut frames = UplinkFrames::new(&access);
            for number in 0..2 {
                let length = frames.write(&mut slot, teid, &user, &stamp);
                prop_assert_eq!(length, frames.overhead() + user.length);
                let datagram = intact(&slot[ETHERNET_LEN..length]);
                let message = Gtpu::parse(&datagram).unwrap();
                prop_assert_eq!(message.message, Message::GPdu);
                prop_assert_eq!((message.teid, message.sequence), (teid, sequence.then_some(number)));
                prop_assert_eq!(message.pdu_session.map(|session| session.qfi().get()), qfi);
                let payload = intact(message.payload);
                prop_assert_eq!(payload.len(), room);
                let found = Stamp::read(&payload, stamp.mark).unwrap();
                prop_assert_eq!(found.sent, stamp.sent);
                prop_assert_eq!(found.number, (room >= 16).then_some((stamp.flow, stamp.sequence)));
            }
            let frames = DownlinkFrames::new(Core { mac: MACS.0, next_hop: MACS.1 });
            let length = frames.write(&mut slot, &user, &stamp);
            prop_assert_eq!(intact(&slot[ETHERNET_LEN..length]).len(), room);
            prop_assert!(SlicedPacket::from_ethernet(&slot[..length]).is_ok());
        }
    }
}
