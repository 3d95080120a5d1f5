//! VXLAN: Ethernet frames over UDP (RFC 7348).

use alloc::vec::Vec;

use crate::frame::{Ethernet, IpHeader, TooLong, seal, udp_without_checksum};
use crate::headers::protocol;
use crate::transport::Udp;

/// UDP destination port assigned by IANA (RFC 7348 5).
pub const PORT: u16 = 4789;
/// Length of the VXLAN header in bytes.
pub const LEN: usize = 8;
/// The largest network identifier: it has 24 bits.
pub const MAX_VNI: u32 = 0xff_ffff;

/// The VXLAN header for a network identifier, of which the low 24 bits count (RFC 7348 5).
#[must_use]
pub fn header(vni: u32) -> [u8; LEN] {
    let [_, high, middle, low] = vni.to_be_bytes();
    // The I flag alone: the identifier is valid.
    [0x08, 0, 0, 0, high, middle, low, 0]
}

/// Reads a UDP payload: the network identifier and the frame inside. `None` if it is too short or
/// has no valid identifier; reserved bits are ignored (RFC 7348 5).
#[must_use]
pub fn parse(payload: &[u8]) -> Option<(u32, &[u8])> {
    let ([flags, _, _, _, high, middle, low, _], inner) = payload.split_first_chunk::<LEN>()?;
    (flags & 0x08 != 0).then_some((u32::from_be_bytes([0, *high, *middle, *low]), inner))
}

/// Replaces the content of `frame` with `inner` in a tunnel between the ends that `ethernet` and
/// `ip` name. `source_port` tells flows apart for routers that spread load: make it from the inner
/// flow's hash. The UDP checksum is zero over IPv4 as RFC 7348 5 wants it, and present over IPv6, as
/// Linux does by default.
///
/// # Errors
///
/// The outer packet would be too long for IP; `frame` is then empty.
pub fn encapsulate(
    frame: &mut Vec<u8>,
    ethernet: &Ethernet,
    ip: &IpHeader,
    source_port: u16,
    vni: u32,
    inner: &[u8],
) -> Result<(), TooLong> {
    let udp = Udp { source: source_port, destination: PORT };
    let start = udp_without_checksum(frame, ethernet, ip, udp, &[&header(vni), inner])?;
    if matches!(ip, IpHeader::V6(_)) {
        seal(frame, start, ip, protocol::UDP, 6);
    }
    Ok(())
}
