//! Profile 0x0000: packets as they are (RFC 3095 5.10).

use alloc::vec::Vec;
use core::time::Duration;

use crate::cid::Incoming;
use crate::compressor::{Job, Sent};
use crate::crc::CRC8;
use crate::decompressor::Arrival;
use crate::error::{DecompressError, Malformed};
use crate::feedback::Feedback;
use crate::packet_type::PacketType;
use crate::profile::Profile;

/// The type octet of an IR packet whose bit x is zero (RFC 3095 5.10.1).
const IR: u8 = 0b1111_1100;

/// The compressor's side of a context.
#[derive(Clone, Debug, Default)]
pub(crate) struct Compressor {
    /// IR packets sent in a row.
    initialised: u8,
    /// Normal packets since the last IR packet.
    since_ir: u32,
    ir_at: Duration,
    /// Feedback has come: Bidirectional mode, in which nothing is refreshed (RFC 3095 5.10.3).
    bidirectional: bool,
}

impl Compressor {
    pub(crate) fn compress(&mut self, job: &Job<'_>, out: &mut Vec<u8>) -> Sent {
        let config = job.config;
        let due =
            self.since_ir >= config.ir_refresh_packets || job.now.saturating_sub(self.ir_at) >= config.ir_refresh_time;
        if self.initialised >= config.repeats && due && !self.bidirectional {
            // RFC 3095 5.10.3 a: only one when refreshing.
            self.initialised = config.repeats - 1;
        }
        let start = out.len();
        if self.initialised < config.repeats {
            self.initialised += 1;
            (self.since_ir, self.ir_at) = (0, job.now);
            job.space.open(out, job.cid, IR);
            out.push(Profile::Uncompressed.octet());
            // The CRC ends with the profile octet.
            out.push(CRC8.of(&out[start..]));
            let header = out.len() - start;
            out.extend_from_slice(job.packet);
            return Sent { packet: PacketType::Ir, header_before: 0, header_after: header };
        }
        self.since_ir += 1;
        job.space.open(out, job.cid, job.packet[0]);
        let header = out.len() - start - 1;
        out.extend_from_slice(&job.packet[1..]);
        Sent { packet: PacketType::Normal, header_before: 0, header_after: header }
    }

    /// The only feedback is an ACK (RFC 3095 5.10.3 c), but for what a decompressor says that does not know the
    /// context at all.
    pub(crate) fn feedback(&mut self, feedback: &Feedback<'_>) {
        self.bidirectional = true;
        let is_ack = !matches!(feedback.body(), [0x40..=0xff, _, ..]);
        self.initialised = if is_ack { u8::MAX } else { 0 };
    }
}

/// Takes an IR packet: the context is there when it is right. `out` gets the IP packet in it, if any.
pub(crate) fn decompress_ir(incoming: &Incoming<'_>, out: &mut Vec<u8>) -> Result<Arrival, DecompressError> {
    let cid = incoming.cid;
    let malformed = |what| DecompressError::Malformed { cid, what };
    let [_, crc, packet @ ..] = incoming.body() else {
        return Err(malformed(Malformed::TooShort));
    };
    if CRC8.of(&incoming.whole[..=incoming.body_at()]) != *crc {
        return Err(DecompressError::Crc { cid, bits: 8 });
    }
    out.extend_from_slice(packet);
    Ok(Arrival { packet: PacketType::Ir, header_before: incoming.body_at() + 2, header_after: 0 })
}

/// Takes a Normal packet: the CID is taken out and the rest is the packet.
pub(crate) fn decompress_normal(incoming: &Incoming<'_>, out: &mut Vec<u8>) -> Arrival {
    out.push(incoming.first());
    out.extend_from_slice(incoming.body());
    Arrival { packet: PacketType::Normal, header_before: incoming.body_at() - 1, header_after: 0 }
}
