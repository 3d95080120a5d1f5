//! Chains at the decompressor: static, dynamic, replicate and irregular items back to headers
//! (RFC 6846 6.2, 8.2).

use alloc::vec::Vec;

use super::chain::{Kind, Layer, Layout, MAX_LAYERS, TCP, following, gre_len, mine_len, next_header};
use super::header::{Fields, IpId, Scaled};
use super::receive_options::Items;
use crate::bits::Reader;
use crate::error::Malformed;
use crate::wlsb::decode;

/// Reads the static chain: the headers' octets go to `chain`, dynamic ones as zeros.
pub(super) fn read_static(
    reader: &mut Reader<'_>,
    layout: &mut Layout,
    chain: &mut Vec<u8>,
    fields: &mut Fields,
) -> Result<(), Malformed> {
    *layout = Layout::EMPTY;
    chain.clear();
    // The outermost header says itself what it is: version_flag.
    let mut kind = if reader.rest().first().ok_or(Malformed::TooShort)? & 0x80 == 0 { Kind::V4 } else { Kind::V6 };
    let mut inside = kind;
    loop {
        let start = chain.len();
        read_static_item(reader, kind, chain)?;
        let header = &chain[start..];
        if kind.is_ip() {
            inside = kind;
        }
        let next = following(kind, header, inside);
        let is_last = kind != Kind::Gre && next_header(kind, header) == TCP;
        if !layout.push(kind, header.len()) {
            return Err(Malformed::TooMany("headers in front of TCP"));
        }
        match next {
            _ if is_last => break,
            Some(next) => kind = next,
            None => return Err(Malformed::Reserved("next header")),
        }
    }
    fields.tcp.source = reader.u16()?;
    fields.tcp.destination = reader.u16()?;
    Ok(())
}

fn read_static_item(reader: &mut Reader<'_>, kind: Kind, chain: &mut Vec<u8>) -> Result<(), Malformed> {
    let start = chain.len();
    match kind {
        Kind::V4 => {
            // version_flag and reserved.
            if reader.u8()? != 0 {
                return Err(Malformed::Reserved("static item of IPv4"));
            }
            chain.resize(start + 20, 0);
            chain[start] = 0x45;
            chain[start + 9] = reader.u8()?;
            chain[start + 12..start + 20].copy_from_slice(reader.take(8)?);
        }
        Kind::V6 => {
            let first = reader.u8()?;
            if first & 0xe0 != 0x80 {
                return Err(Malformed::Reserved("static item of IPv6"));
            }
            chain.resize(start + 40, 0);
            chain[start] = 0x60;
            read_flow_label(reader, first, &mut chain[start..])?;
            chain[start + 6] = reader.u8()?;
            chain[start + 8..start + 40].copy_from_slice(reader.take(32)?);
        }
        Kind::HopByHop | Kind::Destination => {
            let fixed = reader.array::<2>()?;
            chain.extend_from_slice(&fixed);
            chain.resize(start + extension_len(fixed[1]), 0);
        }
        Kind::Routing => {
            let fixed = reader.array::<2>()?;
            chain.extend_from_slice(&fixed);
            chain.extend_from_slice(reader.take(extension_len(fixed[1]) - 2)?);
        }
        Kind::Gre => {
            let flags = reader.u8()?;
            if flags & 0x0f != 0 {
                return Err(Malformed::Reserved("static item of GRE"));
            }
            // protocol, C, K, S become C, R, K, S.
            let (has_checksum, has_key, has_sequence) = (flags & 0x40 != 0, flags & 0x20 != 0, flags & 0x10 != 0);
            chain.push(gre_flags(has_checksum, has_key, has_sequence));
            chain.push(0);
            chain.extend_from_slice(if flags & 0x80 == 0 { &[0x08, 0x00] } else { &[0x86, 0xdd] });
            chain.resize(start + gre_len(chain[start]), 0);
            if has_key {
                let at = start + gre_key(chain[start]);
                chain[at..at + 4].copy_from_slice(reader.take(4)?);
            }
        }
        Kind::Mine => {
            let fixed = reader.array::<2>()?;
            chain.extend_from_slice(&fixed);
            chain.extend_from_slice(&[0, 0]);
            chain.extend_from_slice(reader.take(mine_len(fixed[1]) - 4)?);
        }
        Kind::Ah => {
            let fixed = reader.array::<2>()?;
            chain.extend_from_slice(&fixed);
            chain.extend_from_slice(&[0, 0]);
            chain.extend_from_slice(reader.take(4)?);
            chain.resize(start + ah_len(fixed[1])?, 0);
        }
    }
    Ok(())
}

/// `fl_enc`: its five bits stand at the end of `first`.
fn read_flow_label(reader: &mut Reader<'_>, first: u8, header: &mut [u8]) -> Result<(), Malformed> {
    if first & 0x10 != 0 {
        header[1] = header[1] & 0xf0 | first & 0x0f;
        header[2..4].copy_from_slice(reader.take(2)?);
    } else if first & 0x0f != 0 {
        return Err(Malformed::Reserved("flow label"));
    } else {
        header[1] &= 0xf0;
        header[2..4].fill(0);
    }
    Ok(())
}

/// Octets of an extension header whose length field is `length`.
const fn extension_len(length: u8) -> usize {
    length as usize * 8 + 8
}

fn ah_len(length: u8) -> Result<usize, Malformed> {
    if length == 0 { Err(Malformed::Reserved("length of AH")) } else { Ok(usize::from(length) * 4 + 8) }
}

fn gre_flags(has_checksum: bool, has_key: bool, has_sequence: bool) -> u8 {
    u8::from(has_checksum) << 7 | u8::from(has_key) << 5 | u8::from(has_sequence) << 4
}

/// Where the key stands in a GRE header.
const fn gre_key(flags: u8) -> usize {
    if flags & 0x80 == 0 { 4 } else { 8 }
}

/// Sets DSCP and ECN of an IP header.
pub(super) fn set_tos(kind: Kind, header: &mut [u8], tos: u8) {
    if kind == Kind::V4 {
        header[1] = tos;
    } else {
        header[0] = header[0] & 0xf0 | tos >> 4;
        header[1] = header[1] & 0x0f | tos << 4;
    }
}

pub(super) fn tos(kind: Kind, header: &[u8]) -> u8 {
    if kind == Kind::V4 { header[1] } else { header[0] << 4 | header[1] >> 4 }
}

/// Where the TTL or hop limit stands.
pub(super) const fn ttl_at(kind: Kind) -> usize {
    if matches!(kind, Kind::V4) { 8 } else { 7 }
}

/// Reads the dynamic chain into headers whose static part is there.
pub(super) fn read_dynamic(
    reader: &mut Reader<'_>,
    layout: &Layout,
    chain: &mut [u8],
    fields: &mut Fields,
    items: &mut Items,
) -> Result<(), Malformed> {
    for (at, layer) in layout.layers().iter().enumerate() {
        let header = &mut chain[layer.range()];
        match layer.kind {
            Kind::V4 => {
                let first = reader.u8()?;
                if first & 0xf8 != 0 {
                    return Err(Malformed::Reserved("dynamic item of IPv4"));
                }
                let behavior = behavior(layout, at, u32::from(first))?;
                header[6] = (first & 4) << 4;
                header[1] = reader.u8()?;
                header[8] = reader.u8()?;
                read_identification(reader, behavior, header)?;
                fields.ip_id[at] = behavior;
            }
            Kind::V6 => {
                set_tos(Kind::V6, header, reader.u8()?);
                header[7] = reader.u8()?;
                // RFC 6846 8.2: IPv6 has the formats of a random identification. The context may have been
                // another flow's.
                fields.ip_id[at] = IpId::Random;
            }
            Kind::HopByHop | Kind::Destination => {
                let value = header.len() - 2;
                header[2..].copy_from_slice(reader.take(value)?);
            }
            Kind::Gre => read_gre_numbers(reader, header)?,
            Kind::Ah => {
                header[2..4].copy_from_slice(reader.take(2)?);
                let numbers = header.len() - 8;
                header[8..].copy_from_slice(reader.take(numbers)?);
            }
            Kind::Routing | Kind::Mine => {}
        }
    }
    read_tcp_dynamic(reader, fields, items)?;
    set_offset(layout, chain, fields);
    Ok(())
}

/// Checksum and sequence number of a GRE header.
fn read_gre_numbers(reader: &mut Reader<'_>, header: &mut [u8]) -> Result<(), Malformed> {
    if header[0] & 0x80 != 0 {
        header[4..6].copy_from_slice(reader.take(2)?);
    }
    if header[0] & 0x10 != 0 {
        let at = header.len() - 4;
        header[at..].copy_from_slice(reader.take(4)?);
    }
    Ok(())
}

/// The behavior that `bits` say for header `at`: only the innermost goes with the MSN (RFC 6846 6.1.2).
fn behavior(layout: &Layout, at: usize, bits: u32) -> Result<IpId, Malformed> {
    let behavior = IpId::from_bits(bits);
    if behavior.is_sequential() && at != layout.innermost() {
        return Err(Malformed::Reserved("identification of an outer header"));
    }
    Ok(behavior)
}

fn read_identification(reader: &mut Reader<'_>, behavior: IpId, header: &mut [u8]) -> Result<(), Malformed> {
    match behavior {
        IpId::Zero => header[4..6].fill(0),
        _ => header[4..6].copy_from_slice(reader.take(2)?),
    }
    Ok(())
}

/// The innermost identification's offset, once MSN and identification are known.
fn set_offset(layout: &Layout, chain: &[u8], fields: &mut Fields) {
    let inner = layout.inner();
    if inner.kind == Kind::V4 {
        let header = &chain[inner.range()];
        let behavior = fields.ip_id[layout.innermost()];
        fields.ip_id_offset = behavior.offset(u16::from_be_bytes([header[4], header[5]]), fields.msn);
    }
}

fn read_tcp_dynamic(reader: &mut Reader<'_>, fields: &mut Fields, items: &mut Items) -> Result<(), Malformed> {
    let first = reader.u8()?;
    let flags = reader.u8()?;
    let tcp = &mut fields.tcp;
    fields.ecn_used = first & 0x80 != 0;
    tcp.reserved = first & 0x0f;
    tcp.ecn = flags >> 6;
    tcp.urg_flag = flags & 0x20 != 0;
    tcp.ack_flag = flags & 0x10 != 0;
    tcp.psh_flag = flags & 0x08 != 0;
    tcp.rsf = flags & 0x07;
    fields.msn = reader.u16()?;
    tcp.seq = reader.u32()?;
    // ack_zero and urp_zero: one means that the field is zero and not there.
    tcp.ack = if first & 0x20 != 0 { 0 } else { reader.u32()? };
    tcp.window = reader.u16()?;
    tcp.checksum = reader.u16()?;
    tcp.urg_ptr = if first & 0x10 != 0 { 0 } else { reader.u16()? };
    if first & 0x40 != 0 {
        fields.ack_stride = reader.u16()?;
    }
    items.read_list(reader, fields.tcp.ack, true)?;
    set_scaled_ack(fields);
    Ok(())
}

/// `field_scaling` of the acknowledgment number.
pub(super) fn set_scaled_ack(fields: &mut Fields) {
    let unscaled = Scaled { value: 0, residue: fields.tcp.ack };
    fields.scaled_ack = Scaled::of(fields.tcp.ack, u32::from(fields.ack_stride)).unwrap_or(unscaled);
}

/// Reads the replicate chain: `layout`, `chain` and `fields` begin as the base context's.
pub(super) fn read_replicate(
    reader: &mut Reader<'_>,
    layout: &mut Layout,
    base: &[u8],
    chain: &mut Vec<u8>,
    fields: &mut Fields,
    items: &mut Items,
) -> Result<(), Malformed> {
    let old = *layout;
    *layout = Layout::EMPTY;
    chain.clear();
    for (at, layer) in old.layers().iter().enumerate() {
        let start = chain.len();
        chain.extend_from_slice(&base[layer.range()]);
        read_replicate_item(reader, &old, at, *layer, start, chain, &mut fields.ip_id)?;
        if !layout.push(layer.kind, chain.len() - start) {
            return Err(Malformed::TooMany("headers in front of TCP"));
        }
    }
    read_tcp_replicate(reader, fields, items)?;
    set_offset(layout, chain, fields);
    Ok(())
}

/// The header stands in `chain` from `start` to the end, as the base context has it.
fn read_replicate_item(
    reader: &mut Reader<'_>,
    layout: &Layout,
    at: usize,
    layer: Layer,
    start: usize,
    chain: &mut Vec<u8>,
    behaviors: &mut [IpId; MAX_LAYERS],
) -> Result<(), Malformed> {
    let header = &mut chain[start..];
    match layer.kind {
        Kind::V4 => {
            let first = reader.u8()?;
            if first & 0xf0 != 0 {
                return Err(Malformed::Reserved("replicate item of IPv4"));
            }
            let behavior = behavior(layout, at, u32::from(first >> 2))?;
            header[6] = (first & 1) << 6;
            header[1] = reader.u8()?;
            read_identification(reader, behavior, header)?;
            if first & 2 != 0 {
                header[8] = reader.u8()?;
            }
            behaviors[at] = behavior;
            return Ok(());
        }
        Kind::V6 => {
            set_tos(Kind::V6, header, reader.u8()?);
            let first = reader.u8()?;
            if first & 0xe0 != 0 {
                return Err(Malformed::Reserved("replicate item of IPv6"));
            }
            return read_flow_label(reader, first, header);
        }
        _ => {}
    }
    let first = reader.u8()?;
    if first & 0x7f != 0 && !(layer.kind == Kind::Gre && first & 0xf8 == 0x80) {
        return Err(Malformed::Reserved("replicate item"));
    }
    let is_changed = first & 0x80 != 0;
    match layer.kind {
        Kind::HopByHop | Kind::Destination | Kind::Routing if is_changed => {
            header[1] = reader.u8()?;
            let len = extension_len(header[1]);
            chain.truncate(start + 2);
            chain.extend_from_slice(reader.take(len - 2)?);
        }
        Kind::Gre => {
            let mut flags = header[0];
            if is_changed {
                flags = gre_flags(first & 4 != 0, first & 2 != 0, first & 1 != 0);
                header[0] = flags;
                chain.truncate(start + 4);
                chain.resize(start + gre_len(flags), 0);
            }
            let header = &mut chain[start..];
            if flags & 0x80 != 0 {
                header[4..6].copy_from_slice(reader.take(2)?);
            }
            if is_changed && flags & 0x20 != 0 {
                let at = gre_key(flags);
                header[at..at + 4].copy_from_slice(reader.take(4)?);
            }
            if flags & 0x10 != 0 {
                let at = header.len() - 4;
                header[at..].copy_from_slice(reader.take(4)?);
            }
        }
        Kind::Mine if is_changed => {
            let flags = reader.u8()?;
            header[1] = flags;
            chain.truncate(start + 4);
            chain.extend_from_slice(reader.take(mine_len(flags) - 4)?);
        }
        Kind::Ah => {
            if is_changed {
                header[1] = reader.u8()?;
                header[2..8].copy_from_slice(reader.take(6)?);
            }
            let len = ah_len(header[1])?;
            chain.truncate(start + 8);
            chain.extend_from_slice(reader.take(len - 8)?);
        }
        _ => {}
    }
    Ok(())
}

fn read_tcp_replicate(reader: &mut Reader<'_>, fields: &mut Fields, items: &mut Items) -> Result<(), Malformed> {
    let first = reader.u8()?;
    let second = reader.u8()?;
    if first & 0x80 != 0 {
        return Err(Malformed::Reserved("replicate item of TCP"));
    }
    fields.msn = reader.u16()?;
    let tcp = &mut fields.tcp;
    tcp.seq = reader.u32()?;
    tcp.source = read_port(reader, first >> 3 & 3, tcp.source)?;
    tcp.destination = read_port(reader, first >> 1 & 3, tcp.destination)?;
    if first & 0x40 != 0 {
        tcp.window = reader.u16()?;
    }
    // urg_point comes in front of ack_number, though their flags come the other way round.
    if second & 0x40 != 0 {
        tcp.urg_ptr = reader.u16()?;
    }
    if second & 0x80 != 0 {
        tcp.ack = reader.u32()?;
    }
    tcp.urg_flag = second & 0x20 != 0;
    tcp.ack_flag = second & 0x10 != 0;
    tcp.psh_flag = second & 0x08 != 0;
    tcp.rsf = [0, super::header::RST, super::header::SYN, super::header::FIN][usize::from(second >> 1 & 3)];
    fields.ecn_used = second & 1 != 0;
    if fields.ecn_used {
        let octet = reader.u8()?;
        if octet & 0xc0 != 0 {
            return Err(Malformed::Reserved("replicate item of TCP"));
        }
        tcp.reserved = octet >> 2 & 0x0f;
        tcp.ecn = octet & 3;
    }
    tcp.checksum = reader.u16()?;
    if first & 1 != 0 {
        fields.ack_stride = reader.u16()?;
    }
    if first & 0x20 != 0 {
        items.read_list(reader, fields.tcp.ack, false)?;
    }
    set_scaled_ack(fields);
    Ok(())
}

/// `port_replicate`.
fn read_port(reader: &mut Reader<'_>, presence: u8, base: u16) -> Result<u16, Malformed> {
    match presence {
        0 => Ok(base),
        1 => Ok(decode(u32::from(base), u32::from(reader.u8()?), 8, 64) as u16),
        2 => reader.u16(),
        _ => Err(Malformed::Reserved("port")),
    }
}

/// Reads the irregular items of the headers in front of TCP. `has_outer_ttl` is the base header's flag.
pub(super) fn read_irregular(
    reader: &mut Reader<'_>,
    layout: &Layout,
    chain: &mut [u8],
    fields: &Fields,
    has_outer_ttl: bool,
) -> Result<(), Malformed> {
    for (at, layer) in layout.layers().iter().enumerate() {
        let header = &mut chain[layer.range()];
        match layer.kind {
            Kind::V4 | Kind::V6 => {
                if layer.kind == Kind::V4 {
                    match fields.ip_id[at] {
                        IpId::Random => header[4..6].copy_from_slice(reader.take(2)?),
                        IpId::Zero => header[4..6].fill(0),
                        IpId::Sequential | IpId::Swapped => {}
                    }
                }
                if at != layout.innermost() {
                    if fields.ecn_used {
                        set_tos(layer.kind, header, reader.u8()?);
                    }
                    if has_outer_ttl {
                        header[ttl_at(layer.kind)] = reader.u8()?;
                    }
                }
            }
            Kind::Gre => {
                if header[0] & 0x80 != 0 {
                    header[4..6].copy_from_slice(reader.take(2)?);
                }
                if header[0] & 0x10 != 0 {
                    let at = header.len() - 4;
                    read_sequence(reader, &mut header[at..])?;
                }
            }
            Kind::Ah => {
                read_sequence(reader, &mut header[8..12])?;
                let icv = header.len() - 12;
                header[12..].copy_from_slice(reader.take(icv)?);
            }
            Kind::HopByHop | Kind::Routing | Kind::Destination | Kind::Mine => {}
        }
    }
    Ok(())
}

/// `lsb_7_or_31`, against the number that is in `field`.
fn read_sequence(reader: &mut Reader<'_>, field: &mut [u8]) -> Result<(), Malformed> {
    let reference = field.iter().fold(0, |word, octet| word << 8 | u32::from(*octet));
    let first = reader.u8()?;
    let number = if first & 0x80 == 0 {
        decode(reference, u32::from(first), 7, 8)
    } else {
        let rest = reader.take(3)?.iter().fold(u32::from(first & 0x7f), |word, octet| word << 8 | u32::from(*octet));
        decode(reference, rest, 31, 256)
    };
    field.copy_from_slice(&number.to_be_bytes());
    Ok(())
}

/// Reads TCP's irregular item, without those of its options. Gives the innermost ECN bits, if they are there.
pub(super) fn read_tcp_irregular(reader: &mut Reader<'_>, fields: &mut Fields) -> Result<Option<u8>, Malformed> {
    let ecn = if fields.ecn_used {
        let octet = reader.u8()?;
        fields.tcp.reserved = octet >> 2 & 0x0f;
        fields.tcp.ecn = octet & 3;
        Some(octet >> 6)
    } else {
        None
    };
    fields.tcp.checksum = reader.u16()?;
    Ok(ecn)
}
