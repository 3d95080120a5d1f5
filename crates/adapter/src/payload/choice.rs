//! Which packets are worth a try.

use alloc::boxed::Box;
use core::net::IpAddr;

use wire::{Fragment, Headers, Tcp, protocol};

/// IPsec's authentication header.
const AH: u8 = 51;
/// Ports of protocols that encrypt (IANA): SSH, HTTPS and QUIC, submissions, IKE, LDAPS, SSL VPN's
/// OpenVPN, DNS over TLS and QUIC, FTPS, IMAPS, POP3S, SIPS, NAT traversal of IPsec, HTTPS once more;
/// and `WireGuard`'s usual one.
const ENCRYPTED: [u16; 16] =
    [22, 443, 465, 500, 636, 853, 989, 990, 993, 995, 1_194, 4_500, 5_061, 5_349, 8_443, 51_820];

/// Bytes of a payload that are looked at.
const SAMPLE: usize = 512;
/// Fewer say nothing about how even they are.
const LEAST_SAMPLE: usize = 64;

/// Whether a packet is encrypted or coded, by what it is or looks like.
pub(super) fn is_opaque(packet: &[u8], headers: &Headers) -> bool {
    let Some(ip) = headers.ip else { return false };
    if ip.protocol == protocol::ESP || is_authenticated(packet, ip.source) {
        return true;
    }
    let Some(transport) = packet.get(ip.transport..headers.network_len) else { return false };
    if ip.ports.is_some_and(|(source, destination)| ENCRYPTED.contains(&source) || ENCRYPTED.contains(&destination)) {
        return true;
    }
    let payload = match ip.protocol {
        _ if ip.fragment == Fragment::Later => transport,
        protocol::UDP => {
            let payload = transport.get(wire::UDP_LEN..).unwrap_or_default();
            if is_rtp(payload) || is_record(payload, 0xfe) {
                return true;
            }
            payload
        }
        protocol::TCP => {
            let payload = Tcp::parse(transport).map_or(transport, |(_, payload)| payload);
            if is_record(payload, 3) {
                return true;
            }
            payload
        }
        _ => transport,
    };
    is_even(payload)
}

/// Whether an authentication header (RFC 4302) comes before the transport layer.
fn is_authenticated(packet: &[u8], address: IpAddr) -> bool {
    // RFC 8200 4: hop-by-hop options, routing, destination options.
    const EXTENSIONS: [u8; 3] = [0, 43, 60];
    if address.is_ipv4() {
        return packet.get(9) == Some(&AH);
    }
    let (mut next, mut at) = (packet.get(6).copied(), 40);
    while next.is_some_and(|kind| EXTENSIONS.contains(&kind)) {
        let Some(&[following, length]) = packet.get(at..).and_then(|rest| rest.first_chunk()) else { break };
        at += (usize::from(length) + 1) * 8;
        next = Some(following);
    }
    next == Some(AH)
}

/// RTP or RTCP of version 2 (RFC 3550 5.1), and so SRTP: speech and pictures are coded already.
fn is_rtp(payload: &[u8]) -> bool {
    payload.len() >= 12 && payload[0] >> 6 == 2
}

/// A record of TLS (RFC 8446 5.1; `major` 3) or DTLS (RFC 9147 4; `major` 254): change of cipher,
/// alert, handshake or data.
fn is_record(payload: &[u8], major: u8) -> bool {
    matches!(payload, [20..=23, version, ..] if *version == major)
}

/// Whether bytes are as evenly spread as random ones, nearly: the sum of the squares of their counts
/// is that expected of n random bytes, n + n (n - 1) / 256, or up to a tenth over it.
fn is_even(payload: &[u8]) -> bool {
    let sample = &payload[..payload.len().min(SAMPLE)];
    if sample.len() < LEAST_SAMPLE {
        return false;
    }
    let mut counts = [0u32; 256];
    for &byte in sample {
        counts[usize::from(byte)] += 1;
    }
    let squares: u64 = counts.iter().map(|count| u64::from(count * count)).sum();
    let n = sample.len() as u64;
    squares * 256 * 10 <= (n * 256 + n * (n - 1)) * 11
}

/// How many flows are told apart at once; two that meet in one place share their rest.
const PLACES: usize = 256;
const FIRST_REST: u16 = 8;
const LONGEST_REST: u16 = 1_024;

/// Flows whose packets did not pay of late.
#[derive(Debug)]
pub(super) struct Resting(Box<[Rest; PLACES]>);

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rest {
    /// Packets that are not tried yet.
    left: u16,
    /// How long it rested last.
    last: u16,
}

impl Resting {
    pub(super) fn new() -> Self {
        Self(Box::new([Rest::default(); PLACES]))
    }

    /// The rest of a packet's flow: by addresses, protocol and ports.
    pub(super) fn of(&mut self, packet: &[u8], headers: &Headers) -> &mut Rest {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        let mut mix = |bytes: &[u8]| {
            for byte in bytes {
                hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
            }
        };
        if let Some(ip) = headers.ip {
            let addresses = if ip.source.is_ipv6() { 8..40 } else { 12..20 };
            mix(packet.get(addresses).unwrap_or_default());
            mix(&[ip.protocol]);
            if let Some((source, destination)) = ip.ports {
                mix(&source.to_be_bytes());
                mix(&destination.to_be_bytes());
            }
        }
        // FNV's last bytes reach neither the lowest nor the highest bits alone.
        &mut self.0[((hash ^ (hash >> 40)) % PLACES as u64) as usize]
    }
}

impl Rest {
    /// Whether the flow rests; that counts as one packet of its rest.
    pub(super) fn skip(&mut self) -> bool {
        let rests = self.left > 0;
        self.left -= u16::from(rests);
        rests
    }

    pub(super) fn tried(&mut self, paid: bool) {
        self.last = if paid { 0 } else { (self.last * 2).clamp(FIRST_REST, LONGEST_REST) };
        self.left = self.last;
    }
}
