//! ARP for IPv4 over Ethernet (RFC 826, RFC 5227).

use alloc::vec::Vec;
use core::net::Ipv4Addr;

use crate::frame::Ethernet;
use crate::headers::{ETHERNET_LEN, Headers, ethertype};

/// An ARP packet for IPv4 over Ethernet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arp {
    /// A reply, not a request.
    pub reply: bool,
    /// Hardware and protocol address of who sends it; 0.0.0.0 in a probe (RFC 5227 1.1).
    pub sender: ([u8; 6], Ipv4Addr),
    /// Of whom it asks for, or whom it answers.
    pub target: ([u8; 6], Ipv4Addr),
}

/// Length of the packet in bytes.
const LEN: usize = 28;
/// Ethernet, IPv4, and the lengths of their addresses.
const KIND: [u8; 6] = [0, 1, 0x08, 0x00, 6, 4];

impl Arp {
    /// Reads an ARP packet. `headers` must be this frame's. `None` if it is another frame, or is
    /// about other addresses.
    #[must_use]
    pub fn parse(frame: &[u8], headers: &Headers) -> Option<Self> {
        let packet = frame.get(headers.network..)?.first_chunk::<LEN>()?;
        if headers.ethertype != ethertype::ARP || packet[..6] != KIND {
            return None;
        }
        let reply = match u16::from_be_bytes([packet[6], packet[7]]) {
            1 => false,
            2 => true,
            _ => return None,
        };
        let station = |at: usize| {
            let mac = [packet[at], packet[at + 1], packet[at + 2], packet[at + 3], packet[at + 4], packet[at + 5]];
            (mac, Ipv4Addr::new(packet[at + 6], packet[at + 7], packet[at + 8], packet[at + 9]))
        };
        Some(Self { reply, sender: station(8), target: station(18) })
    }

    /// Replaces the content of `frame` with the packet.
    pub fn write(&self, frame: &mut Vec<u8>, ethernet: &Ethernet) {
        frame.clear();
        frame.reserve(ETHERNET_LEN + LEN);
        ethernet.write(frame, ethertype::ARP);
        frame.extend_from_slice(&KIND);
        frame.extend_from_slice(&[0, 1 + u8::from(self.reply)]);
        for (mac, address) in [self.sender, self.target] {
            frame.extend_from_slice(&mac);
            frame.extend_from_slice(&address.octets());
        }
    }
}
