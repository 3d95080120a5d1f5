//! Packets to compress, written octet by octet.

#![allow(dead_code, reason = "not every test needs everything")]

use std::net::IpAddr;

use wire::checksum::{Sum, checksum};

/// An IP header to put before something.
#[derive(Clone, Debug)]
pub(crate) struct Ip {
    pub(crate) v6: bool,
    pub(crate) host: u8,
    pub(crate) tos: u8,
    pub(crate) ttl: u8,
    pub(crate) id: u16,
    pub(crate) df: bool,
    pub(crate) flow_label: u32,
}

impl Ip {
    pub(crate) fn v4() -> Self {
        Self { v6: false, host: 1, tos: 0, ttl: 64, id: 100, df: false, flow_label: 0 }
    }

    pub(crate) fn v6() -> Self {
        Self { v6: true, ..Self::v4() }
    }

    fn addresses(&self) -> (IpAddr, IpAddr) {
        if self.v6 {
            ([0x2001, 0xdb8, 0, 0, 0, 0, 0, u16::from(self.host)].into(), [0x2001, 0xdb8, 1, 0, 0, 0, 0, 2].into())
        } else {
            ([10, 0, 0, self.host].into(), [192, 0, 2, 7].into())
        }
    }

    /// `payload` behind this header.
    pub(crate) fn wrap(&self, protocol: u8, payload: &[u8]) -> Vec<u8> {
        let (source, destination) = self.addresses();
        let mut packet = Vec::new();
        if self.v6 {
            let first = 6 << 28 | u32::from(self.tos) << 20 | self.flow_label & 0xf_ffff;
            packet.extend_from_slice(&first.to_be_bytes());
            packet.extend_from_slice(&(payload.len() as u16).to_be_bytes());
            packet.extend_from_slice(&[protocol, self.ttl]);
        } else {
            packet.extend_from_slice(&[0x45, self.tos]);
            packet.extend_from_slice(&(payload.len() as u16 + 20).to_be_bytes());
            packet.extend_from_slice(&self.id.to_be_bytes());
            packet.extend_from_slice(&[u8::from(self.df) << 6, 0, self.ttl, protocol, 0, 0]);
        }
        for address in [source, destination] {
            match address {
                IpAddr::V4(address) => packet.extend_from_slice(&address.octets()),
                IpAddr::V6(address) => packet.extend_from_slice(&address.octets()),
            }
        }
        if !self.v6 {
            let sum = checksum(&packet);
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        packet.extend_from_slice(payload);
        packet
    }

    /// A UDP packet; without a checksum if `has_checksum` is false.
    pub(crate) fn udp(&self, ports: (u16, u16), has_checksum: bool, payload: &[u8]) -> Vec<u8> {
        let mut udp = Vec::new();
        udp.extend_from_slice(&ports.0.to_be_bytes());
        udp.extend_from_slice(&ports.1.to_be_bytes());
        udp.extend_from_slice(&(payload.len() as u16 + 8).to_be_bytes());
        udp.extend_from_slice(&[0, 0]);
        udp.extend_from_slice(payload);
        if has_checksum {
            let (source, destination) = self.addresses();
            let sum = Sum::pseudo_header(source, destination, 17, udp.len() as u32) + Sum::of(&udp);
            udp[6..8].copy_from_slice(&sum.checksum_or_ones().to_be_bytes());
        }
        self.wrap(17, &udp)
    }

    /// An ESP packet.
    pub(crate) fn esp(&self, spi: u32, sn: u32, payload: &[u8]) -> Vec<u8> {
        let mut esp = Vec::new();
        esp.extend_from_slice(&spi.to_be_bytes());
        esp.extend_from_slice(&sn.to_be_bytes());
        esp.extend_from_slice(payload);
        self.wrap(50, &esp)
    }
}

/// An RTP header and payload.
#[derive(Clone, Debug)]
pub(crate) struct Rtp {
    pub(crate) padding: bool,
    pub(crate) extension: bool,
    pub(crate) marker: bool,
    pub(crate) payload_type: u8,
    pub(crate) sn: u16,
    pub(crate) timestamp: u32,
    pub(crate) ssrc: u32,
}

impl Rtp {
    pub(crate) fn new() -> Self {
        Self {
            padding: false,
            extension: false,
            marker: false,
            payload_type: 0,
            sn: 1_000,
            timestamp: 160_000,
            ssrc: 0x1234_5678,
        }
    }

    pub(crate) fn wrap(&self, payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![
            0x80 | u8::from(self.padding) << 5 | u8::from(self.extension) << 4,
            u8::from(self.marker) << 7 | self.payload_type,
        ];
        packet.extend_from_slice(&self.sn.to_be_bytes());
        packet.extend_from_slice(&self.timestamp.to_be_bytes());
        packet.extend_from_slice(&self.ssrc.to_be_bytes());
        packet.extend_from_slice(payload);
        packet
    }

    /// Over UDP to the port of RTP.
    pub(crate) fn packet(&self, ip: &Ip, payload: &[u8]) -> Vec<u8> {
        ip.udp((40_000, 5_004), true, &self.wrap(payload))
    }
}
