//! The headers in front of TCP: which they are, where they stand, and what is inferred in them
//! (RFC 6846 6.2, 6.4.1 to 6.4.4).

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::checksum::Sum;

/// Most headers in front of TCP. More of them are left to another profile.
pub(super) const MAX_LAYERS: usize = 10;

/// TCP in a next-header field.
pub(super) const TCP: u8 = 6;

/// A header that RFC 6846 6.2 lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    V4,
    V6,
    HopByHop,
    Routing,
    Destination,
    Ah,
    Gre,
    Mine,
}

impl Kind {
    /// What a next-header value says, where `inside` is the IP header it belongs to; none for TCP
    /// itself and for headers that the profile does not know. Extension headers of IPv6 are not
    /// looked for behind IPv4.
    pub(super) const fn of(next_header: u8, inside: Self) -> Option<Self> {
        match (next_header, inside) {
            (4, _) => Some(Self::V4),
            (41, _) => Some(Self::V6),
            (47, _) => Some(Self::Gre),
            (51, _) => Some(Self::Ah),
            (55, _) => Some(Self::Mine),
            (0, Self::V6) => Some(Self::HopByHop),
            (43, Self::V6) => Some(Self::Routing),
            (60, Self::V6) => Some(Self::Destination),
            _ => None,
        }
    }

    pub(super) const fn is_ip(self) -> bool {
        matches!(self, Self::V4 | Self::V6)
    }
}

/// One header of the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layer {
    pub(super) kind: Kind,
    /// From the chain's first octet.
    pub(super) start: u16,
    pub(super) len: u16,
}

impl Layer {
    pub(super) fn range(self) -> core::ops::Range<usize> {
        usize::from(self.start)..usize::from(self.start) + usize::from(self.len)
    }
}

/// The chain of headers up to TCP: at least one, the first an IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    layers: [Layer; MAX_LAYERS],
    count: u8,
    innermost: u8,
}

impl Layout {
    pub(super) const EMPTY: Self =
        Self { layers: [Layer { kind: Kind::V6, start: 0, len: 0 }; MAX_LAYERS], count: 0, innermost: 0 };

    /// The chain of `packet`, if the profile can compress it: every field that is inferred has the
    /// value that will be inferred, and every field that the formal notation fixes has that value.
    pub(super) fn parse(packet: &[u8]) -> Option<Self> {
        let mut layout = Self::EMPTY;
        let mut kind = match packet.first()? >> 4 {
            4 => Kind::V4,
            6 => Kind::V6,
            _ => return None,
        };
        let mut inside = kind;
        loop {
            let rest = &packet[layout.len()..];
            let len = header_len(kind, rest)?;
            let header = rest.get(..len)?;
            if !is_regular(kind, header, rest.len()) || !layout.push(kind, len) {
                return None;
            }
            if kind.is_ip() {
                inside = kind;
            }
            kind = match (kind, next_header(kind, header)) {
                (Kind::Gre, _) => gre_payload(header)?,
                (_, TCP) => return Some(layout),
                (_, next) => Kind::of(next, inside)?,
            };
        }
    }

    /// Appends a header. False if there is no room for it.
    pub(super) fn push(&mut self, kind: Kind, len: usize) -> bool {
        let start = self.len();
        let Some(layer) = self.layers.get_mut(usize::from(self.count)) else { return false };
        let (Ok(start), Ok(len)) = (u16::try_from(start), u16::try_from(len)) else { return false };
        if start.checked_add(len).is_none() {
            return false;
        }
        *layer = Layer { kind, start, len };
        if kind.is_ip() {
            self.innermost = self.count;
        }
        self.count += 1;
        true
    }

    pub(super) fn layers(&self) -> &[Layer] {
        &self.layers[..usize::from(self.count)]
    }

    /// Octets in front of TCP.
    pub(super) fn len(&self) -> usize {
        self.layers().last().map_or(0, |layer| layer.range().end)
    }

    /// The number of the innermost IP header.
    pub(super) fn innermost(&self) -> usize {
        usize::from(self.innermost)
    }

    pub(super) fn inner(&self) -> Layer {
        self.layers[self.innermost()]
    }

    /// Fills in what is inferred (RFC 6846 6.4.1 to 6.4.4): lengths and checksums of IP, the
    /// checksum of minimal encapsulation. `packet` holds the whole packet but for the payload, of
    /// which `payload` octets follow. False if it does not fit into the length fields.
    pub(super) fn infer(&self, headers: &mut [u8], payload: usize) -> bool {
        let total = headers.len() + payload;
        for layer in self.layers() {
            let start = usize::from(layer.start);
            let header = &mut headers[layer.range()];
            match layer.kind {
                Kind::V4 => {
                    let Ok(length) = u16::try_from(total - start) else { return false };
                    header[2..4].copy_from_slice(&length.to_be_bytes());
                    set_checksum(header, 10);
                }
                Kind::V6 => {
                    let Ok(length) = u16::try_from(total - start - 40) else { return false };
                    header[4..6].copy_from_slice(&length.to_be_bytes());
                }
                Kind::Mine => set_checksum(header, 2),
                Kind::HopByHop | Kind::Routing | Kind::Destination | Kind::Ah | Kind::Gre => {}
            }
        }
        true
    }

    /// The sum over the pseudo-header for `length` octets of TCP (RFC 9293 3.1, RFC 8200 8.1): with
    /// the addresses of the packet's two ends, which a routing header or minimal encapsulation may hold.
    pub(super) fn pseudo_header(&self, chain: &[u8], length: usize) -> Sum {
        let inner = self.inner();
        let header = &chain[inner.range()];
        let (mut source, mut destination) = match inner.kind {
            Kind::V4 => (v4(&header[12..]), v4(&header[16..])),
            _ => (v6(&header[8..]), v6(&header[24..])),
        };
        for layer in &self.layers()[self.innermost() + 1..] {
            let header = &chain[layer.range()];
            match layer.kind {
                // RFC 8200 8.1: the last address, in the order of RFC 6275 and RFC 5095 for types 0
                // and 2, of RFC 8754 (the list reversed) for type 4.
                Kind::Routing if header[3] > 0 && header.len() >= 24 => match header[2] {
                    0 | 2 => destination = v6(&header[header.len() - 16..]),
                    4 => destination = v6(&header[8..]),
                    _ => {}
                },
                // RFC 2004 3.1: the addresses that were there before.
                Kind::Mine => {
                    destination = v4(&header[4..]);
                    if header.len() == 12 {
                        source = v4(&header[8..]);
                    }
                }
                _ => {}
            }
        }
        Sum::pseudo_header(source, destination, TCP, length as u32)
    }
}

/// The length of the header that `rest` begins with; none if it is cut or impossible.
fn header_len(kind: Kind, rest: &[u8]) -> Option<usize> {
    Some(match kind {
        Kind::V4 => 20,
        Kind::V6 => 40,
        Kind::HopByHop | Kind::Routing | Kind::Destination => usize::from(*rest.get(1)?) * 8 + 8,
        // RFC 4302 2.2: in words of 32 bits, less two; at least the fixed fields (12 octets).
        Kind::Ah => (usize::from(*rest.get(1)?) * 4 + 8).max(12),
        Kind::Gre => gre_len(*rest.first()?),
        Kind::Mine => mine_len(*rest.get(1)?),
    })
}

/// RFC 2784 2.1, RFC 2890 2: checksum, key and sequence number have four octets each.
pub(super) const fn gre_len(flags: u8) -> usize {
    4 + 4 * ((flags >> 7 & 1) + (flags >> 5 & 1) + (flags >> 4 & 1)) as usize
}

/// RFC 2004 3.1: 12 octets if the original source address is there.
pub(super) const fn mine_len(flags: u8) -> usize {
    if flags & 0x80 == 0 { 8 } else { 12 }
}

/// What GRE carries: IPv4 or IPv6, nothing else (RFC 6846 8.2 `gre_proto`).
fn gre_payload(header: &[u8]) -> Option<Kind> {
    match header[2..4] {
        [0x08, 0x00] => Some(Kind::V4),
        [0x86, 0xdd] => Some(Kind::V6),
        _ => None,
    }
}

/// The kind of the header behind this one; none if it is TCP or unknown.
pub(super) fn following(kind: Kind, header: &[u8], inside: Kind) -> Option<Kind> {
    match kind {
        Kind::Gre => gre_payload(header),
        _ => Kind::of(next_header(kind, header), inside),
    }
}

/// The field that names the header behind; GRE names it otherwise.
pub(super) fn next_header(kind: Kind, header: &[u8]) -> u8 {
    match kind {
        Kind::V4 => header[9],
        Kind::V6 => header[6],
        _ => header[0],
    }
}

/// Does `header`, behind which `rest` octets end with itself, have the values that decompression
/// will put there?
fn is_regular(kind: Kind, header: &[u8], rest: usize) -> bool {
    match kind {
        // No options, no fragments, no reserved flag.
        Kind::V4 => {
            header[0] == 0x45
                && usize::from(u16::from_be_bytes([header[2], header[3]])) == rest
                && header[6] & 0xbf == 0
                && header[7] == 0
                && Sum::of(header).checksum() == 0
                // A checksum of all ones is as right as zero is, but not what is computed.
                && header[10..12] != [0xff, 0xff]
        }
        Kind::V6 => header[0] >> 4 == 6 && usize::from(u16::from_be_bytes([header[4], header[5]])) + 40 == rest,
        Kind::HopByHop | Kind::Routing | Kind::Destination => true,
        Kind::Ah => header[1] >= 1,
        // The flags R, reserved0 and version are zero, and so is what stands beside the checksum.
        Kind::Gre => header[0] & 0x4f == 0 && header[1] == 0 && (header[0] & 0x80 == 0 || header[6..8] == [0, 0]),
        Kind::Mine => Sum::of(header).checksum() == 0 && header[2..4] != [0xff, 0xff],
    }
}

fn set_checksum(header: &mut [u8], at: usize) {
    header[at..at + 2].fill(0);
    let checksum = Sum::of(header).checksum();
    header[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
}

fn v4(bytes: &[u8]) -> IpAddr {
    Ipv4Addr::from(*bytes.first_chunk::<4>().unwrap_or(&[0; 4])).into()
}

fn v6(bytes: &[u8]) -> IpAddr {
    Ipv6Addr::from(*bytes.first_chunk::<16>().unwrap_or(&[0; 16])).into()
}
