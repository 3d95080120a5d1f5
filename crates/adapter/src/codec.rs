//! What happens to a packet's network layer between the LAN and the frames: header compression.

use alloc::vec::Vec;

use engine::Time;
use rohc::{
    CompressError, Compressor, CompressorConfig, DecompressError, Decompressor, DecompressorConfig, Mode, Profile,
    ProfileSet,
};
use wire::ethertype;

use crate::config::{Rohc, RohcMode};
use crate::control::RohcOffer;
use crate::counters::RohcCounters;

/// Both directions of a session's header compression; nothing at all if none is agreed.
#[derive(Debug, Default)]
pub(crate) struct Codec {
    rohc: Option<(Compressor, Decompressor)>,
    pub(crate) counters: RohcCounters,
}

impl Codec {
    /// Begins anew with what was agreed. `nack_interval` is about a round trip of the line.
    pub(crate) fn start(&mut self, agreed: Option<&RohcOffer>, config: Option<&Rohc>, nack_interval: engine::Span) {
        self.rohc = agreed.zip(config).map(|(agreed, config)| {
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

    /// Appends a packet as it goes onto the line.
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

    /// Appends the packet that came from the line.
    pub(crate) fn decode(
        &mut self,
        now: Time,
        ethertype: u16,
        data: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), DecompressError> {
        match &mut self.rohc {
            Some((compressor, decompressor)) if is_ip(ethertype) => {
                let result = decompressor.decompress(since_epoch(now), data, out);
                let piggybacked = decompressor.piggybacked();
                if !piggybacked.is_empty() && compressor.feedback(since_epoch(now), piggybacked).is_err() {
                    self.counters.feedback_lost += 1;
                }
                result.map(|_| ())
            }
            _ => {
                out.extend_from_slice(data);
                Ok(())
            }
        }
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
