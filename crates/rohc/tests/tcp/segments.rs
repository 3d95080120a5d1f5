//! TCP packets to compress, of hosts that behave as real ones do.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::checksum::Sum;

/// One TCP packet, to be written with right lengths and checksums.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    pub(crate) tos: u8,
    pub(crate) ttl: u8,
    pub(crate) id: u16,
    pub(crate) df: bool,
    pub(crate) flow_label: u32,
    /// Extension headers of IPv6 and the like between IP and TCP, whose last one names TCP; and the
    /// protocol of the first one.
    pub(crate) extensions: Vec<u8>,
    pub(crate) protocol: u8,
    pub(crate) ports: (u16, u16),
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) reserved: u8,
    pub(crate) flags: u8,
    pub(crate) window: u16,
    pub(crate) urg_ptr: u16,
    pub(crate) options: Vec<u8>,
    pub(crate) payload: usize,
}

pub(crate) const FIN: u8 = 1;
pub(crate) const SYN: u8 = 2;
pub(crate) const RST: u8 = 4;
pub(crate) const PSH: u8 = 8;
pub(crate) const ACK: u8 = 16;
pub(crate) const URG: u8 = 32;
pub(crate) const ECE: u8 = 64;
pub(crate) const CWR: u8 = 128;

impl Segment {
    pub(crate) fn v6() -> Self {
        Self {
            source: Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, 1).into(),
            destination: Ipv6Addr::new(0x2001, 0xdb8, 0, 2, 0, 0, 0, 2).into(),
            tos: 0,
            ttl: 64,
            id: 0,
            df: false,
            flow_label: 0x12345,
            extensions: Vec::new(),
            protocol: 6,
            ports: (40_000, 80),
            seq: 0x8000_0000,
            ack: 0x1000_0000,
            reserved: 0,
            flags: ACK,
            window: 502,
            urg_ptr: 0,
            options: Vec::new(),
            payload: 0,
        }
    }

    pub(crate) fn v4() -> Self {
        Self {
            source: Ipv4Addr::new(192, 0, 2, 1).into(),
            destination: Ipv4Addr::new(198, 51, 100, 2).into(),
            df: true,
            id: 1_000,
            flow_label: 0,
            ..Self::v6()
        }
    }

    /// The same, sent back.
    pub(crate) fn reversed(&self) -> Self {
        Self {
            source: self.destination,
            destination: self.source,
            ports: (self.ports.1, self.ports.0),
            seq: self.ack,
            ack: self.seq,
            ..self.clone()
        }
    }

    /// The packet's octets.
    pub(crate) fn packet(&self) -> Vec<u8> {
        let mut tcp = Vec::new();
        tcp.extend(self.ports.0.to_be_bytes());
        tcp.extend(self.ports.1.to_be_bytes());
        tcp.extend(self.seq.to_be_bytes());
        tcp.extend(self.ack.to_be_bytes());
        assert_eq!(self.options.len() % 4, 0);
        tcp.push(((5 + self.options.len() / 4) as u8) << 4 | self.reserved);
        tcp.push(self.flags);
        tcp.extend(self.window.to_be_bytes());
        tcp.extend([0, 0]);
        tcp.extend(self.urg_ptr.to_be_bytes());
        tcp.extend(&self.options);
        tcp.extend((0..self.payload).map(|at| (at as u8).wrapping_mul(31) ^ self.seq as u8));
        let sum = Sum::pseudo_header(self.source, self.destination, 6, tcp.len() as u32) + Sum::of(&tcp);
        tcp[16..18].copy_from_slice(&sum.checksum().to_be_bytes());
        let mut payload = self.extensions.clone();
        payload.extend(tcp);
        self.in_ip(&payload)
    }

    /// `payload` behind this segment's IP header.
    pub(crate) fn in_ip(&self, payload: &[u8]) -> Vec<u8> {
        let mut packet = Vec::new();
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                packet.extend([0x45, self.tos]);
                packet.extend((20 + payload.len() as u16).to_be_bytes());
                packet.extend(self.id.to_be_bytes());
                packet.extend([u8::from(self.df) << 6, 0, self.ttl, self.protocol, 0, 0]);
                packet.extend(source.octets());
                packet.extend(destination.octets());
                let checksum = Sum::of(&packet).checksum();
                packet[10..12].copy_from_slice(&checksum.to_be_bytes());
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let word = 0x6000_0000 | u32::from(self.tos) << 20 | self.flow_label;
                packet.extend(word.to_be_bytes());
                packet.extend((payload.len() as u16).to_be_bytes());
                packet.extend([self.protocol, self.ttl]);
                packet.extend(source.octets());
                packet.extend(destination.octets());
            }
            _ => panic!("addresses of two families"),
        }
        packet.extend(payload);
        packet
    }
}

/// A timestamp option behind two NOPs, as hosts send it.
pub(crate) fn timestamp(value: u32, echo: u32) -> Vec<u8> {
    let mut option = vec![1, 1, 8, 10];
    option.extend(value.to_be_bytes());
    option.extend(echo.to_be_bytes());
    option
}

/// A SACK option behind two NOPs.
pub(crate) fn sack(blocks: &[(u32, u32)]) -> Vec<u8> {
    let mut option = vec![1, 1, 5, 2 + 8 * blocks.len() as u8];
    for (start, end) in blocks {
        option.extend(start.to_be_bytes());
        option.extend(end.to_be_bytes());
    }
    option
}

/// The options of a SYN: MSS, SACK permitted, timestamp, NOP, window scale.
pub(crate) fn syn_options(value: u32, echo: u32) -> Vec<u8> {
    let mut options = vec![2, 4, 0x05, 0xa0, 4, 2, 8, 10];
    options.extend(value.to_be_bytes());
    options.extend(echo.to_be_bytes());
    options.extend([1, 3, 3, 7]);
    options
}
