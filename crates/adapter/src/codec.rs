//! What happens to a packet's network layer between the LAN and the frames: header compression, and
//! payload compression of data.

use alloc::vec::Vec;

use engine::Time;
use rohc::{CompressError, Compressor, CompressorConfig, Decompressor, DecompressorConfig, Mode, Profile, ProfileSet};
use wire::ethertype;

use crate::config::{AdapterConfig, RohcMode};
use crate::control::RohcOffer;
use crate::counters::RohcCounters;
use crate::payload::{Deflater, Inflater, PayloadCounters};
use crate::session::Agreed;

/// Both directions of a session's header and payload compression; nothing at all if none is agreed.
#[derive(Debug)]
pub(crate) struct Codec {
    rohc: Option<(Compressor, Decompressor)>,
    /// Made once, if the configuration has payload compression.
    payload: Option<(Deflater, Inflater)>,
    /// Both ends have payload compression.
    deflate: bool,
    scratch: Vec<u8>,
    pub(crate) counters: RohcCounters,
}

/// A packet could not be restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DecodeError {
    /// It did not inflate.
    Payload,
    /// Its header did not decompress.
    Header,
}

/// How much longer than the packet it stands for header compression may leave a packet.
const HEADROOM: usize = 64;

impl Codec {
    pub(crate) fn new(config: &AdapterConfig) -> Self {
        let limit = config.largest_packet.bytes() as usize + HEADROOM;
        let payload = config.payload.clone().map(|payload| (Deflater::new(payload), Inflater::new(limit)));
        Self { rohc: None, payload, deflate: false, scratch: Vec::new(), counters: RohcCounters::default() }
    }

    /// Begins anew with what was agreed. `nack_interval` is about a round trip of the line.
    pub(crate) fn start(&mut self, agreed: Option<&Agreed>, config: &AdapterConfig, nack_interval: engine::Span) {
        self.deflate = agreed.is_some_and(|agreed| agreed.deflate);
        let rohc: Option<&RohcOffer> = agreed.and_then(|agreed| agreed.rohc.as_ref());
        self.rohc = rohc.zip(config.rohc.as_ref()).map(|(agreed, config)| {
            let profiles: ProfileSet =
                (0..16).filter(|id| agreed.profiles >> id & 1 == 1).filter_map(Profile::from_id).collect();
            let compressor = CompressorConfig {
                max_cid: agreed.max_cid,
                profiles,
                rtp_ports: config.rtp_ports.iter().copied().collect(),
                ..CompressorConfig::default()
            };
            let mode = match agreed.mode {
                RohcMode::Unidirectional => Mode::Unidirectional,
                RohcMode::Optimistic => Mode::Optimistic,
            };
            let decompressor = DecompressorConfig {
                max_cid: agreed.max_cid,
                profiles,
                mode,
                nack_interval: nack_interval.into(),
                ack_interval: nack_interval.into(),
                ..DecompressorConfig::default()
            };
            (Compressor::new(compressor), Decompressor::new(decompressor))
        });
    }

    /// Appends a data packet as it goes onto the line.
    pub(crate) fn encode_data(
        &mut self,
        now: Time,
        ethertype: u16,
        packet: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), CompressError> {
        if !self.deflate {
            return self.encode(now, ethertype, packet, out);
        }
        let mut scratch = core::mem::take(&mut self.scratch);
        scratch.clear();
        let result = self.encode(now, ethertype, packet, &mut scratch);
        if result.is_ok()
            && let Some((deflater, _)) = &mut self.payload
        {
            deflater.deflate(ethertype, packet, &mut scratch);
            out.extend_from_slice(&scratch);
        }
        self.scratch = scratch;
        result
    }

    /// Appends a real-time datagram as it goes onto the line: its payload is not touched.
    pub(crate) fn encode(
        &mut self,
        now: Time,
        ethertype: u16,
        packet: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), CompressError> {
        match &mut self.rohc {
            Some((compressor, _)) if is_ip(ethertype) => {
                let info = compressor.compress(since_epoch(now), packet, out)?;
                self.counters.packets += 1;
                self.counters.header_before += info.header_before as u64;
                self.counters.header_after += info.header_after as u64;
            }
            _ => out.extend_from_slice(packet),
        }
        Ok(())
    }

    /// Appends the data packet that came from the line.
    pub(crate) fn decode_data(
        &mut self,
        now: Time,
        ethertype: u16,
        data: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), DecodeError> {
        let Some((deflater, mut inflater)) = self.payload.take_if(|_| self.deflate) else {
            return self.decode(now, ethertype, data, out);
        };
        let result = match inflater.inflate(data) {
            Ok(data) => self.decode(now, ethertype, data, out),
            Err(_) => Err(DecodeError::Payload),
        };
        self.payload = Some((deflater, inflater));
        result
    }

    /// Appends the real-time datagram that came from the line.
    pub(crate) fn decode(
        &mut self,
        now: Time,
        ethertype: u16,
        data: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), DecodeError> {
        match &mut self.rohc {
            Some((compressor, decompressor)) if is_ip(ethertype) => {
                let result = decompressor.decompress(since_epoch(now), data, out);
                let piggybacked = decompressor.piggybacked();
                if !piggybacked.is_empty() && compressor.feedback(since_epoch(now), piggybacked).is_err() {
                    self.counters.feedback_lost += 1;
                }
                result.map(|_| ()).map_err(|_| DecodeError::Header)
            }
            _ => {
                out.extend_from_slice(data);
                Ok(())
            }
        }
    }

    /// What payload compression did.
    pub(crate) fn payload(&self) -> PayloadCounters {
        self.payload.as_ref().map(|(deflater, _)| deflater.counters()).unwrap_or_default()
    }

    /// Feedback came from the peer.
    pub(crate) fn feedback(&mut self, now: Time, feedback: &[u8]) {
        if let Some((compressor, _)) = &mut self.rohc {
            self.counters.feedback_taken += feedback.len() as u64;
            if compressor.feedback(since_epoch(now), feedback).is_err() {
                self.counters.feedback_lost += 1;
            }
        }
    }

    /// Moves feedback for the peer to `out`.
    pub(crate) fn take_feedback(&mut self, out: &mut Vec<u8>) {
        if let Some((_, decompressor)) = &mut self.rohc {
            decompressor.take_feedback(out);
        }
    }
}

fn is_ip(ethertype: u16) -> bool {
    matches!(ethertype, ethertype::IPV4 | ethertype::IPV6)
}

fn since_epoch(now: Time) -> core::time::Duration {
    now.since(Time::ZERO).into()
}
