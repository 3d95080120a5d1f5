//! An IPsec gateway: what leaves a site is put into an ESP tunnel, what arrives is taken out.

mod window;

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::IpAddr;

use aes_gcm::aead::AeadInOut;
use aes_gcm::{Aes128Gcm, KeyInit, Nonce, Tag};
use engine::{Checksum, DropReason, Element, Output, Packet, Port, Random, Time};
use wire::frame::{IpHeader, Ipv4, Ipv6};
use wire::ndp::Message;
use wire::{Ecn, Fragment, Headers, ethertype, protocol};

use window::Window;

/// A security association (RFC 4301 4.1): one direction of a tunnel.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SecurityAssociation {
    /// Security parameters index; not 0 to 255 (RFC 4303 2.1).
    pub spi: u32,
    /// AES-128's key.
    pub key: [u8; 16],
    /// What a nonce begins with (RFC 4106 4).
    pub salt: [u8; 4],
}

/// An ESP tunnel (RFC 4303) with AES-GCM (RFC 4106) and keys that are given, between two gateways
/// that stand in the wire (RFC 4301 3.3) in front of their sites.
///
/// Packets are put whole into an outer IPv4 or IPv6 header between the gateways' addresses, with
/// sequence numbers of 32 bits, an initialisation vector of 8 bytes counted up, padding to 4 bytes, an
/// integrity check value of 16 bytes, and a window of 128 packets against replay. The outer header has
/// the inner one's code point and Don't Fragment, and its congestion mark both ways (RFC 6040, but for
/// ECT(1) made on the way, which is not carried in). What hosts on one segment ask each other, ARP and
/// neighbour discovery, passes by (RFC 4301 4.4.1: BYPASS).
///
/// Unlike a kernel's it takes no time, does not negotiate or change keys (after 2^32 - 1 packets it is
/// at its end), takes no hop from the inner packet, neither cuts packets nor puts them together and
/// sends no ICMP errors.
///
/// Port 0: the site. Port 1: the link.
pub struct EspGateway {
    ends: [IpAddr; 2],
    outbound: Outbound,
    inbound: Inbound,
    scratch: Vec<u8>,
    out: VecDeque<Output>,
}

struct Outbound {
    spi: u32,
    cipher: Cipher,
    /// The last sequence number that was used.
    sequence: u32,
}

struct Inbound {
    spi: u32,
    cipher: Cipher,
    window: Window,
}

struct Cipher {
    aead: Aes128Gcm,
    salt: [u8; 4],
}

/// SPI and sequence number (RFC 4303 2).
const HEADER: usize = 8;
/// Initialisation vector (RFC 4106 3.1).
const VECTOR: usize = 8;
/// Length of padding, and next header (RFC 4303 2.5, 2.6).
const TRAILER: usize = 2;
/// Integrity check value (RFC 4106 6, its longest).
const CHECK: usize = 16;
/// The trailer ends at a multiple of this (RFC 4303 2.4).
const ALIGNMENT: usize = 4;
/// Next header of dummy packets, which are dropped in silence (RFC 4303 2.6).
const NO_NEXT_HEADER: u8 = 59;
/// IPv4 and IPv6 as next headers.
const IN_IPV4: u8 = 4;
const IN_IPV6: u8 = 41;

/// A packet that is not protected came from the link (RFC 4301 5.2).
const UNPROTECTED: DropReason = DropReason("not protected by ESP");
/// No association has this SPI and these addresses.
const NO_ASSOCIATION: DropReason = DropReason("no security association");
/// A fragment of an ESP packet (RFC 4303 3.4.1).
const FRAGMENT: DropReason = DropReason("fragment of an ESP packet");
/// The sequence number was seen before, or is left of the window (RFC 4303 3.4.3).
const REPLAYED: DropReason = DropReason("ESP sequence number seen or too old");
/// The integrity check failed (RFC 4303 3.4.4.1).
const FORGED: DropReason = DropReason("ESP integrity check failed");
/// What was protected is no packet, or its padding is wrong.
const MALFORMED: DropReason = DropReason("malformed in ESP");
/// The outer header was marked, but the inner transport cannot react (RFC 6040 4.2).
const MARKED: DropReason = DropReason("congestion marked in ESP");
/// All sequence numbers were used (RFC 4303 3.3.3).
const USED_UP: DropReason = DropReason("ESP sequence numbers used up");
/// The packet and its outer headers would be longer than an IP packet can be.
const TOO_LONG: DropReason = DropReason("too long for ESP");
/// A super-frame came that was to be cut into packets before, or no IP packet.
const NO_PACKET: DropReason = DropReason("no whole packet for ESP");

/// Every reason for which a gateway drops packets that came as they may: lost, doubled or altered on
/// the way.
pub const ESP_LINK_DROPS: [DropReason; 6] = [FRAGMENT, REPLAYED, FORGED, MARKED, NO_ASSOCIATION, UNPROTECTED];

/// Length in bytes of what a gateway makes of a packet of `inner` bytes, with an outer IP header of
/// `outer` bytes.
#[must_use]
pub const fn esp_length(outer: usize, inner: usize) -> usize {
    outer + HEADER + VECTOR + (inner + TRAILER).next_multiple_of(ALIGNMENT) + CHECK
}

/// The longest packet in bytes of which a gateway makes no more than `whole` bytes.
#[must_use]
pub const fn esp_room(outer: usize, whole: usize) -> usize {
    let protected = whole - outer - HEADER - VECTOR - CHECK;
    protected - protected % ALIGNMENT - TRAILER
}

impl SecurityAssociation {
    /// The association of the run with this seed that is called `label`: its key is as secret as the
    /// seed.
    #[must_use]
    pub fn derived(seed: u64, label: &str, spi: u32) -> Self {
        let mut random = Random::stream(seed, label);
        let mut key = [0; 16];
        for part in key.as_chunks_mut::<8>().0 {
            *part = random.bits().to_be_bytes();
        }
        let [a, b, c, d, ..] = random.bits().to_be_bytes();
        Self { spi, key, salt: [a, b, c, d] }
    }

    fn cipher(&self) -> Cipher {
        Cipher { aead: Aes128Gcm::new(&self.key.into()), salt: self.salt }
    }
}

impl core::fmt::Debug for SecurityAssociation {
    /// Without the key.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("SecurityAssociation").field("spi", &self.spi).finish_non_exhaustive()
    }
}

impl core::fmt::Debug for EspGateway {
    /// Without the keys.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("EspGateway").field("ends", &self.ends).finish_non_exhaustive()
    }
}

impl EspGateway {
    /// The gateway with address `own`, and the other one's; both are of one version of IP.
    #[must_use]
    pub fn new(own: IpAddr, other: IpAddr, outbound: &SecurityAssociation, inbound: &SecurityAssociation) -> Self {
        Self {
            ends: [own, other],
            outbound: Outbound { spi: outbound.spi, cipher: outbound.cipher(), sequence: 0 },
            inbound: Inbound { spi: inbound.spi, cipher: inbound.cipher(), window: Window::default() },
            scratch: Vec::new(),
            out: VecDeque::new(),
        }
    }

    fn protect(&mut self, packet: &mut Packet) -> Result<(), DropReason> {
        let headers = Headers::parse(&packet.bytes);
        if passes_by(&packet.bytes, &headers) {
            return Ok(());
        }
        let end = headers.network + headers.network_len;
        let ip = headers.ip.filter(|_| packet.gso.is_none()).ok_or(NO_PACKET)?;
        packet.bytes.truncate(end);
        if let Checksum::Partial { start, offset } = packet.checksum {
            if !wire::checksum::complete(&mut packet.bytes, usize::from(start), usize::from(offset)) {
                return Err(NO_PACKET);
            }
            packet.checksum = Checksum::Complete;
        }
        let inner = packet.bytes.get(headers.network..).ok_or(NO_PACKET)?;
        let padding = (inner.len() + TRAILER).next_multiple_of(ALIGNMENT) - inner.len() - TRAILER;
        let payload = HEADER + VECTOR + inner.len() + padding + TRAILER + CHECK;
        let sequence = self.outbound.sequence.checked_add(1).ok_or(USED_UP)?;
        // RFC 4301 5.1.2.1.
        let dont_fragment = inner[0] >> 4 == 4 && inner[6] & 0x40 != 0;
        let outer = outer_header(self.ends, ip.dscp, ip.ecn, sequence as u16, dont_fragment).ok_or(NO_ASSOCIATION)?;
        let frame = &mut self.scratch;
        frame.clear();
        // Addresses and tags stay, and the type follows from the outer header.
        frame.extend_from_slice(&packet.bytes[..headers.network - 2]);
        match outer {
            IpHeader::V4(ip) => {
                frame.extend_from_slice(&ethertype::IPV4.to_be_bytes());
                frame.extend_from_slice(&ip.to_bytes(protocol::ESP, payload).map_err(|_| TOO_LONG)?);
            }
            IpHeader::V6(ip) => {
                frame.extend_from_slice(&ethertype::IPV6.to_be_bytes());
                frame.extend_from_slice(&ip.to_bytes(protocol::ESP, payload).map_err(|_| TOO_LONG)?);
            }
        }
        self.outbound.sequence = sequence;
        let header = frame.len();
        frame.extend_from_slice(&self.outbound.spi.to_be_bytes());
        frame.extend_from_slice(&sequence.to_be_bytes());
        // RFC 4106 3.1: never twice with one key. A counter does.
        frame.extend_from_slice(&u64::from(sequence).to_be_bytes());
        frame.extend_from_slice(inner);
        frame.extend((1..=padding).map(|byte| byte as u8));
        frame.extend_from_slice(&[padding as u8, if inner[0] >> 4 == 4 { IN_IPV4 } else { IN_IPV6 }]);
        let tag = self.outbound.cipher.seal(&mut frame[header..]).ok_or(TOO_LONG)?;
        frame.extend_from_slice(&tag);
        core::mem::swap(&mut packet.bytes, frame);
        Ok(())
    }

    /// True if something is left of the packet.
    fn open(&mut self, packet: &mut Packet) -> Result<bool, DropReason> {
        let headers = Headers::parse(&packet.bytes);
        if passes_by(&packet.bytes, &headers) {
            return Ok(true);
        }
        let ip = headers.ip.filter(|ip| ip.protocol == protocol::ESP).ok_or(UNPROTECTED)?;
        let [own, other] = self.ends;
        if ip.fragment != Fragment::Whole {
            return Err(FRAGMENT);
        }
        let end = headers.network + headers.network_len;
        self.scratch.clear();
        self.scratch.extend_from_slice(&packet.bytes[..headers.network - 2]);
        let sealed = packet.bytes.get_mut(ip.transport..end).ok_or(MALFORMED)?;
        let (header, _) = sealed.split_first_chunk::<HEADER>().ok_or(MALFORMED)?;
        let [a, b, c, d, e, f, g, h] = *header;
        let (spi, sequence) = (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]));
        if spi != self.inbound.spi || ip.source != other || ip.destination != own {
            return Err(NO_ASSOCIATION);
        }
        if !self.inbound.window.admits(sequence) {
            return Err(REPLAYED);
        }
        let inner = self.inbound.cipher.open(sealed).ok_or(FORGED)?;
        // RFC 4303 3.4.3: only what is authentic moves the window.
        self.inbound.window.note(sequence);
        let (inner, next) = unpadded(inner).ok_or(MALFORMED)?;
        let kind = match (next, inner.first().map(|first| first >> 4)) {
            (NO_NEXT_HEADER, _) => return Ok(false),
            (IN_IPV4, Some(4)) => ethertype::IPV4,
            (IN_IPV6, Some(6)) => ethertype::IPV6,
            _ => return Err(MALFORMED),
        };
        self.scratch.extend_from_slice(&kind.to_be_bytes());
        self.scratch.extend_from_slice(inner);
        let inside = Headers::parse(&self.scratch);
        let carried = inside.ip.ok_or(MALFORMED)?;
        // RFC 4303 2.7: what follows the packet hides how long it is.
        self.scratch.truncate(inside.network + inside.network_len);
        if ip.ecn == Ecn::Experienced
            && carried.ecn != Ecn::Experienced
            && !wire::mark_congestion(&mut self.scratch, &inside)
        {
            return Err(MARKED);
        }
        core::mem::swap(&mut packet.bytes, &mut self.scratch);
        Ok(true)
    }
}

impl Cipher {
    fn nonce(&self, sealed: &[u8]) -> [u8; 12] {
        let mut nonce = [0; 12];
        nonce[..4].copy_from_slice(&self.salt);
        nonce[4..].copy_from_slice(&sealed[HEADER..HEADER + VECTOR]);
        nonce
    }

    /// Encrypts what follows header and vector, and gives the check value. `None` if it is too long.
    fn seal(&self, packet: &mut [u8]) -> Option<[u8; CHECK]> {
        let nonce = self.nonce(packet);
        // RFC 4106 5: SPI and sequence number are authenticated too.
        let (header, rest) = packet.split_at_mut(HEADER);
        let tag = self.aead.encrypt_inout_detached(&Nonce::from(nonce), header, (&mut rest[VECTOR..]).into());
        tag.ok().map(Into::into)
    }

    /// Checks and decrypts; gives what was protected, with its trailer. `None` if it is not what was
    /// sealed with this key.
    fn open<'a>(&self, sealed: &'a mut [u8]) -> Option<&'a [u8]> {
        let length = sealed.len().checked_sub(CHECK).filter(|length| *length >= HEADER + VECTOR + TRAILER)?;
        if !(length - HEADER - VECTOR).is_multiple_of(ALIGNMENT) {
            return None;
        }
        let nonce = self.nonce(sealed);
        let (packet, tag) = sealed.split_at_mut(length);
        let tag = Tag::from(*tag.first_chunk::<CHECK>()?);
        let (header, rest) = packet.split_at_mut(HEADER);
        let inner = &mut rest[VECTOR..];
        self.aead.decrypt_inout_detached(&Nonce::from(nonce), header, (&mut *inner).into(), &tag).ok()?;
        Some(inner)
    }
}

/// What was protected without its trailer, and its next header. `None` if the padding is not as
/// RFC 4303 2.4 has it: 1, 2, 3, …
fn unpadded(protected: &[u8]) -> Option<(&[u8], u8)> {
    let (rest, &[padding, next]) = protected.split_last_chunk::<TRAILER>()?;
    let (inner, padded) = rest.split_at_checked(rest.len().checked_sub(usize::from(padding))?)?;
    padded.iter().zip(1..).all(|(byte, expected)| *byte == expected).then_some((inner, next))
}

/// Whether a frame is of its segment alone: ARP and the like, and neighbour discovery.
fn passes_by(frame: &[u8], headers: &Headers) -> bool {
    let is_ip = matches!(headers.ethertype, ethertype::IPV4 | ethertype::IPV6);
    !is_ip || Message::parse(frame, headers).is_some()
}

fn outer_header(
    [own, other]: [IpAddr; 2],
    dscp: u8,
    ecn: Ecn,
    identification: u16,
    dont_fragment: bool,
) -> Option<IpHeader> {
    match (own, other) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            Some(IpHeader::V4(Ipv4 { source, destination, dscp, ecn, identification, dont_fragment, ttl: 64 }))
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            Some(IpHeader::V6(Ipv6 { source, destination, dscp, ecn, flow_label: 0, hop_limit: 64 }))
        }
        _ => None,
    }
}

impl Element for EspGateway {
    fn handle(&mut self, _: Time, port: Port, mut packet: Packet) {
        let (result, out) = match port {
            0 => (self.protect(&mut packet).map(|()| true), 1),
            _ => (self.open(&mut packet), 0),
        };
        self.out.push_back(match result {
            Ok(true) => Output::Transmit { port: out, packet },
            Ok(false) => Output::Consume { packet },
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
