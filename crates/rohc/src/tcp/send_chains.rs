//! Chains at the compressor: static, dynamic, replicate and irregular items (RFC 6846 6.2, 8.2).

use alloc::vec::Vec;

use super::bitfield::BitWriter;
use super::chain::{Kind, Layout};
use super::formats::rsf_index;
use super::header::{IpId, Tcp};
use super::receive_chains::{tos, ttl_at};

/// Appends the static chain of the headers at the front of `packet`.
pub(super) fn write_static(out: &mut Vec<u8>, layout: &Layout, packet: &[u8], tcp: &Tcp) {
    for layer in layout.layers() {
        let header = &packet[layer.range()];
        match layer.kind {
            Kind::V4 => {
                out.extend_from_slice(&[0, header[9]]);
                out.extend_from_slice(&header[12..20]);
            }
            Kind::V6 => {
                write_flow_label(out, 0x80, header);
                out.push(header[6]);
                out.extend_from_slice(&header[8..40]);
            }
            Kind::HopByHop | Kind::Destination => out.extend_from_slice(&header[..2]),
            Kind::Routing => out.extend_from_slice(header),
            Kind::Gre => {
                let is_v6 = header[2] == 0x86;
                let flags = header[0];
                // C, R, K, S become protocol, C, K, S.
                out.push(u8::from(is_v6) << 7 | flags >> 1 & 0x40 | flags & 0x30);
                if flags & 0x20 != 0 {
                    let at = if flags & 0x80 == 0 { 4 } else { 8 };
                    out.extend_from_slice(&header[at..at + 4]);
                }
            }
            Kind::Mine => {
                out.extend_from_slice(&header[..2]);
                out.extend_from_slice(&header[4..]);
            }
            Kind::Ah => {
                out.extend_from_slice(&header[..2]);
                out.extend_from_slice(&header[4..8]);
            }
        }
    }
    out.extend_from_slice(&tcp.source.to_be_bytes());
    out.extend_from_slice(&tcp.destination.to_be_bytes());
}

/// `fl_enc` behind the three bits that `first` begins with.
fn write_flow_label(out: &mut Vec<u8>, first: u8, header: &[u8]) {
    if header[1] & 0x0f == 0 && header[2..4] == [0, 0] {
        out.push(first);
    } else {
        out.extend_from_slice(&[first | 0x10 | header[1] & 0x0f, header[2], header[3]]);
    }
}

/// Appends the dynamic chain up to TCP's own item.
pub(super) fn write_dynamic(out: &mut Vec<u8>, layout: &Layout, packet: &[u8], ip_id: &[IpId]) {
    for (layer, behavior) in layout.layers().iter().zip(ip_id) {
        let header = &packet[layer.range()];
        match layer.kind {
            Kind::V4 => {
                out.extend_from_slice(&[header[6] >> 4 & 4 | *behavior as u8, header[1], header[8]]);
                if *behavior != IpId::Zero {
                    out.extend_from_slice(&header[4..6]);
                }
            }
            Kind::V6 => out.extend_from_slice(&[tos(Kind::V6, header), header[7]]),
            Kind::HopByHop | Kind::Destination => out.extend_from_slice(&header[2..]),
            Kind::Gre => write_gre_numbers(out, header),
            Kind::Ah => {
                out.extend_from_slice(&header[2..4]);
                out.extend_from_slice(&header[8..]);
            }
            Kind::Routing | Kind::Mine => {}
        }
    }
}

fn write_gre_numbers(out: &mut Vec<u8>, header: &[u8]) {
    if header[0] & 0x80 != 0 {
        out.extend_from_slice(&header[4..6]);
    }
    if header[0] & 0x10 != 0 {
        out.extend_from_slice(&header[header.len() - 4..]);
    }
}

/// Appends TCP's dynamic item but for the list of options.
pub(super) fn write_tcp_dynamic(out: &mut Vec<u8>, tcp: &Tcp, msn: u16, ecn_used: bool, ack_stride: u16) {
    let w = BitWriter::new(out).flag(ecn_used).flag(ack_stride != 0).flag(tcp.ack == 0).flag(tcp.urg_ptr == 0);
    let w = w.put(4, tcp.reserved.into()).put(2, tcp.ecn.into()).flag(tcp.urg_flag).flag(tcp.ack_flag);
    let _ = w.flag(tcp.psh_flag).put(3, tcp.rsf.into()).put(16, msn.into());
    out.extend_from_slice(&tcp.seq.to_be_bytes());
    if tcp.ack != 0 {
        out.extend_from_slice(&tcp.ack.to_be_bytes());
    }
    out.extend_from_slice(&tcp.window.to_be_bytes());
    out.extend_from_slice(&tcp.checksum.to_be_bytes());
    if tcp.urg_ptr != 0 {
        out.extend_from_slice(&tcp.urg_ptr.to_be_bytes());
    }
    if ack_stride != 0 {
        out.extend_from_slice(&ack_stride.to_be_bytes());
    }
}

/// Appends the replicate chain up to TCP's own item. Everything that the base context's own packets may
/// change meanwhile is sent; what is not was found equal by [`can_replicate`].
pub(super) fn write_replicate(out: &mut Vec<u8>, layout: &Layout, packet: &[u8], ip_id: &[IpId]) {
    for (layer, behavior) in layout.layers().iter().zip(ip_id) {
        let header = &packet[layer.range()];
        match layer.kind {
            Kind::V4 => {
                out.extend_from_slice(&[(*behavior as u8) << 2 | 2 | header[6] >> 6 & 1, header[1]]);
                if *behavior != IpId::Zero {
                    out.extend_from_slice(&header[4..6]);
                }
                out.push(header[8]);
            }
            Kind::V6 => {
                out.push(tos(Kind::V6, header));
                write_flow_label(out, 0, header);
            }
            Kind::HopByHop | Kind::Destination | Kind::Routing | Kind::Mine => out.push(0),
            Kind::Gre => {
                out.push(0);
                write_gre_numbers(out, header);
            }
            Kind::Ah => {
                out.push(0);
                out.extend_from_slice(&header[8..]);
            }
        }
    }
}

/// Can the headers of `packet` be made from those of `base`, which have the same layout? What the
/// replicate items leave out must be equal.
pub(super) fn can_replicate(layout: &Layout, packet: &[u8], base: &[u8]) -> bool {
    layout.layers().iter().all(|layer| {
        let (new, old) = (&packet[layer.range()], &base[layer.range()]);
        let is_equal = |range: core::ops::Range<usize>| new[range.clone()] == old[range];
        match layer.kind {
            Kind::V4 => new[9] == old[9] && is_equal(12..20),
            Kind::V6 => is_equal(6..40),
            Kind::HopByHop | Kind::Destination | Kind::Routing | Kind::Mine => new == old,
            Kind::Gre => {
                let key = if new[0] & 0x80 == 0 { 4 } else { 8 };
                is_equal(0..4) && (new[0] & 0x20 == 0 || is_equal(key..key + 4))
            }
            Kind::Ah => is_equal(0..8),
        }
    })
}

/// Appends TCP's replicate item but for the list of options, which is announced. `ecn_used` must be set
/// unless reserved and ECN bits are the base context's.
pub(super) fn write_tcp_replicate(out: &mut Vec<u8>, tcp: &Tcp, base: &Tcp, msn: u16, ecn_used: bool) {
    let port = |new: u16, old: u16| if new == old { 0 } else { 2 };
    let (source, destination) = (port(tcp.source, base.source), port(tcp.destination, base.destination));
    // Window, list, stride, acknowledgment number and urgent pointer: always there.
    let w = BitWriter::new(out).flag(false).flag(true).flag(true).put(2, source).put(2, destination).flag(true);
    let w = w.flag(true).flag(true).flag(tcp.urg_flag).flag(tcp.ack_flag).flag(tcp.psh_flag);
    let w = w.put(2, rsf_index(tcp.rsf).unwrap_or(0)).flag(ecn_used).put(16, msn.into()).put(32, tcp.seq);
    let w = w.maybe(16, (source != 0).then_some(tcp.source.into()));
    let w = w.maybe(16, (destination != 0).then_some(tcp.destination.into()));
    let w = w.put(16, tcp.window.into()).put(16, tcp.urg_ptr.into()).put(32, tcp.ack);
    let ecn = u32::from(tcp.reserved) << 2 | u32::from(tcp.ecn);
    // A new flow has no stride yet.
    let _ = w.maybe(8, ecn_used.then_some(ecn)).put(16, tcp.checksum.into()).put(16, 0);
}

/// Appends the irregular items up to TCP's own. `is_close` says whether the numbers of AH and GRE are near
/// enough to any reference for seven bits.
pub(super) fn write_irregular(
    out: &mut Vec<u8>,
    layout: &Layout,
    packet: &[u8],
    ip_id: &[IpId],
    ecn_used: bool,
    is_close: bool,
) {
    for (at, layer) in layout.layers().iter().enumerate() {
        let header = &packet[layer.range()];
        match layer.kind {
            Kind::V4 | Kind::V6 => {
                if layer.kind == Kind::V4 && ip_id[at] == IpId::Random {
                    out.extend_from_slice(&header[4..6]);
                }
                if ecn_used && at != layout.innermost() {
                    out.push(tos(layer.kind, header));
                }
            }
            Kind::Gre => {
                if header[0] & 0x80 != 0 {
                    out.extend_from_slice(&header[4..6]);
                }
                if header[0] & 0x10 != 0 {
                    write_sequence(out, word(&header[header.len() - 4..]), is_close);
                }
            }
            Kind::Ah => {
                write_sequence(out, word(&header[8..12]), is_close);
                out.extend_from_slice(&header[12..]);
            }
            Kind::HopByHop | Kind::Routing | Kind::Destination | Kind::Mine => {}
        }
    }
}

/// `lsb_7_or_31`.
fn write_sequence(out: &mut Vec<u8>, number: u32, is_close: bool) {
    if is_close {
        out.push(number as u8 & 0x7f);
    } else {
        out.extend_from_slice(&(number | 0x8000_0000).to_be_bytes());
    }
}

fn word(octets: &[u8]) -> u32 {
    octets.iter().fold(0, |word, octet| word << 8 | u32::from(*octet))
}

/// Are the numbers of AH and GRE at most 7 ahead of what they were? So 15 packets in a row stay within what
/// seven bits say.
pub(super) fn is_close(layout: &Layout, packet: &[u8], before: &[u8]) -> bool {
    layout.layers().iter().all(|layer| {
        let number = |chain: &[u8]| {
            let header = &chain[layer.range()];
            match layer.kind {
                Kind::Ah => word(&header[8..12]),
                Kind::Gre if header[0] & 0x10 != 0 => word(&header[header.len() - 4..]),
                _ => 0,
            }
        };
        number(packet).wrapping_sub(number(before)) <= 7
    })
}

/// Did anything change that only a dynamic chain carries? The innermost IP header is not looked at.
pub(super) fn is_dynamic_changed(layout: &Layout, packet: &[u8], before: &[u8]) -> bool {
    layout.layers().iter().enumerate().any(|(at, layer)| {
        let (new, old) = (&packet[layer.range()], &before[layer.range()]);
        match layer.kind {
            Kind::V4 | Kind::V6 if at == layout.innermost() => false,
            Kind::V4 => new[6] != old[6] || new[8] != old[8],
            Kind::V6 => new[ttl_at(Kind::V6)] != old[ttl_at(Kind::V6)],
            Kind::HopByHop | Kind::Destination => new != old,
            Kind::Ah => new[2..4] != old[2..4],
            Kind::Routing | Kind::Gre | Kind::Mine => false,
        }
    })
}

/// Did DSCP or ECN of an outer header change?
pub(super) fn is_outer_tos_changed(layout: &Layout, packet: &[u8], before: &[u8]) -> bool {
    layout.layers().iter().enumerate().any(|(at, layer)| {
        at != layout.innermost()
            && layer.kind.is_ip()
            && tos(layer.kind, &packet[layer.range()]) != tos(layer.kind, &before[layer.range()])
    })
}

/// Appends what must be equal for two packets to be of one flow: all static items, and where headers stand.
pub(super) fn write_key(out: &mut Vec<u8>, layout: &Layout, packet: &[u8], tcp: &Tcp) {
    for layer in layout.layers() {
        out.push(layer.kind as u8);
        out.extend_from_slice(&layer.len.to_be_bytes());
    }
    write_static(out, layout, packet, tcp);
}
