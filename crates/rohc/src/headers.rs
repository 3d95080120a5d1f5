//! What a packet begins with, as far as compression is concerned.

use core::net::IpAddr;

use wire::checksum::{self, Sum};

use crate::bits::Reader;
use crate::list::{ExtensionHeaders, is_extension};

/// IP headers that are looked at. Three levels of tunnels are more than is met; what lies deeper is
/// payload, and the chain says that it ends early (RFC 3843 3.1).
pub(crate) const MAX_IP: usize = 4;

pub(crate) const IP_IN_IP: u8 = 4;
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
pub(crate) const IPV6: u8 = 41;
pub(crate) const ESP: u8 = 50;

/// Where one IP header stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct IpAt {
    /// Of its first octet in the packet.
    pub(crate) at: usize,
    pub(crate) is_v6: bool,
    /// The protocol behind it and its extension headers.
    pub(crate) protocol: u8,
    /// Octets of its extension headers: those that list compression can carry (RFC 3095 5.8).
    pub(crate) extensions: usize,
}

impl IpAt {
    /// Octets of the header without extension headers.
    pub(crate) const fn fixed_len(self) -> usize {
        if self.is_v6 { 40 } else { 20 }
    }

    /// Octets of the header and its extension headers.
    pub(crate) const fn len(self) -> usize {
        self.fixed_len() + self.extensions
    }

    /// The header's own protocol field, and its extension headers, in the packet that it was found in.
    pub(crate) fn extension_headers(self, packet: &[u8]) -> (u8, &[u8]) {
        let first = packet[self.at + if self.is_v6 { 6 } else { 9 }];
        (first, &packet[self.at + self.fixed_len()..self.at + self.len()])
    }
}

/// The IP headers at the front of a packet that can be compressed: everything that a compressed
/// header leaves out is what the decompressor will infer. Lengths agree with the packet's, IPv4
/// headers have no options, a right checksum, and are no fragments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Headers {
    ip: [IpAt; MAX_IP],
    count: usize,
}

impl Headers {
    /// Reads as many IP headers as are compressible; none if the first is not.
    pub(crate) fn parse(packet: &[u8]) -> Self {
        let mut headers = Self::default();
        let mut at = 0;
        let mut version = packet.first().map_or(0, |first| first >> 4);
        while headers.count < MAX_IP
            && let Some(ip) = compressible(packet, at, version)
        {
            headers.ip[headers.count] = ip;
            headers.count += 1;
            at += ip.len();
            version = match ip.protocol {
                IP_IN_IP => 4,
                IPV6 => 6,
                _ => break,
            };
        }
        headers
    }

    /// From the outermost inwards.
    pub(crate) fn ip(&self) -> &[IpAt] {
        &self.ip[..self.count]
    }

    /// The protocol behind the innermost header, and where it begins.
    pub(crate) fn transport(&self) -> Option<(u8, usize)> {
        self.ip().last().map(|ip| (ip.protocol, ip.at + ip.len()))
    }
}

fn compressible(packet: &[u8], at: usize, version: u8) -> Option<IpAt> {
    let header = packet.get(at..)?;
    if header.first()? >> 4 != version {
        return None;
    }
    let (is_v6, first) = match version {
        4 => {
            let fixed = header.first_chunk::<20>()?;
            let plain = fixed[0] == 0x45
                && usize::from(u16::from_be_bytes([fixed[2], fixed[3]])) == header.len()
                // The reserved flag, MF and the offset are not in the chains (RFC 3095 5.7.7.4).
                && fixed[6] & 0xbf == 0
                && fixed[7] == 0
                && checksum::checksum(fixed) == 0;
            (false, plain.then_some(fixed[9])?)
        }
        6 => {
            let mut reader = Reader::new(header.first_chunk::<40>()?);
            reader.take(4).ok()?;
            let payload = reader.u16().ok()?;
            let protocol = reader.u8().ok()?;
            (true, (usize::from(payload) + 40 == header.len()).then_some(protocol)?)
        }
        _ => return None,
    };
    let ip = IpAt { at, is_v6, protocol: first, extensions: 0 };
    if !is_extension(first, version) {
        return Some(ip);
    }
    let extensions = ExtensionHeaders::read(version, first, &header[ip.fixed_len()..]).ok()?;
    Some(IpAt { protocol: extensions.next, extensions: extensions.length, ..ip })
}

/// Is the checksum of `transport`, everything behind an IP header with these addresses, right? `None` if
/// there is none to judge by: another protocol, or a UDP checksum of zero with a length that can be.
pub(crate) fn transport_is_intact(source: IpAddr, destination: IpAddr, protocol: u8, transport: &[u8]) -> Option<bool> {
    let covered = match protocol {
        UDP => {
            let Some(header) = transport.first_chunk::<8>() else { return Some(false) };
            // RFC 9868: what stands behind UDP's length is not covered.
            let covered = match transport.get(..usize::from(u16::from_be_bytes([header[4], header[5]]))) {
                Some(covered) if covered.len() >= 8 => covered,
                _ => return Some(false),
            };
            if header[6..] == [0, 0] {
                return None;
            }
            covered
        }
        TCP => transport,
        _ => return None,
    };
    let sum = Sum::pseudo_header(source, destination, protocol, covered.len() as u32) + Sum::of(covered);
    Some(sum.uncomplemented() == 0xffff)
}
