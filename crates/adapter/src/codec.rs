//! What happens to a packet's network layer between the LAN and the frames: header compression, and
//! payload compression of data.

use alloc::vec::Vec;

use engine::Time;
use rohc::{CompressError, Compressor, CompressorConfig, Decompressor, DecompressorConfig, Mode, Profile, ProfileSet};
use wire::ethertype;

use crate::class::Class;
use crate::config::{AdapterConfig, RohcMode};
use crate::control::RohcOffer;
use crate::counters::RohcCounters;
use crate::frame::MAX_BODY;
use crate::payload::{Deflater, Inflater, PayloadCounters};
use crate::session::Agreed;

/// Both directions of a session's header and payload compression; nothing at all if none is agreed.
///
/// Each class has a ROHC channel of its own: the line keeps packets of one class in order, which a channel
/// asks for (RFC 3095 4.1), and lets those of another overtake.
#[derive(Debug)]
pub(crate) struct Codec {
    /// How channels are made, if header compression is agreed.
    rohc: Option<(CompressorConfig, DecompressorConfig)>,
    /// By class; made when there is a first packet or feedback.
    channels: [Option<Channel>; Class::ALL.len()],
    /// Made once, if the configuration has payload compression.
    payload: Option<(Deflater, Inflater)>,
    /// Both ends have payload compression.
    deflate: bool,
    scratch: Vec<u8>,
    counters: RohcCounters,
}

/// A ROHC channel each way.
#[derive(Debug)]
struct Channel {
    compressor: Compressor,
    decompressor: Decompressor,
    /// What the decompressor has to say to the peer.
    feedback: Vec<u8>,
}

/// A packet could not be restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DecodeError {
    /// It did not inflate.
    Payload,
    /// Its header did not decompress.
    Header,
}

/// Most bytes of feedback in a frame, besides the channel's number.
const MAX_FEEDBACK: usize = MAX_BODY - 1;
/// How much longer than the packet it stands for header compression may leave a packet: an IR header of
/// ROHC is longer than what it describes.
pub(crate) const HEADROOM: usize = 64;

impl Codec {
    pub(crate) fn new(config: &AdapterConfig) -> Self {
        let limit = config.largest_packet.bytes() as usize + HEADROOM;
        let payload = config.payload.clone().map(|payload| (Deflater::new(payload), Inflater::new(limit)));
        Self {
            rohc: None,
            channels: Default::default(),
            payload,
            deflate: false,
            scratch: Vec::new(),
            counters: RohcCounters::default(),
        }
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
            (compressor, decompressor)
        });
        self.channels = Default::default();
    }

    /// The channel of a class, if packets of the type have one.
    fn channel(&mut self, class: Class, ethertype: u16) -> Option<&mut Channel> {
        let (compressor, decompressor) = self.rohc.as_ref().filter(|_| is_ip(ethertype))?;
        Some(self.channels[class.index()].get_or_insert_with(|| Channel {
            compressor: Compressor::new(compressor.clone()),
            decompressor: Decompressor::new(decompressor.clone()),
            feedback: Vec::new(),
        }))
    }

    /// Appends a packet as it goes onto the line. The payload of a real-time datagram is not touched.
    pub(crate) fn encode(
        &mut self,
        now: Time,
        class: Class,
        ethertype: u16,
        packet: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), CompressError> {
        if !self.deflate || class == Class::RealTime {
            return self.compress(now, class, ethertype, packet, out);
        }
        let mut scratch = core::mem::take(&mut self.scratch);
        scratch.clear();
        let result = self.compress(now, class, ethertype, packet, &mut scratch);
        if result.is_ok()
            && let Some((deflater, _)) = &mut self.payload
        {
            deflater.deflate(ethertype, packet, &mut scratch);
            out.extend_from_slice(&scratch);
        }
        self.scratch = scratch;
        result
    }

    fn compress(
        &mut self,
        now: Time,
        class: Class,
        ethertype: u16,
        packet: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), CompressError> {
        match self.channel(class, ethertype) {
            Some(Channel { compressor, .. }) => {
                let info = compressor.compress(since_epoch(now), packet, out)?;
                self.counters.packets += 1;
                self.counters.header_before += info.header_before as u64;
                self.counters.header_after += info.header_after as u64;
            }
            None => out.extend_from_slice(packet),
        }
        Ok(())
    }

    /// Appends the packet that came from the line.
    pub(crate) fn decode(
        &mut self,
        now: Time,
        class: Class,
        ethertype: u16,
        data: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), DecodeError> {
        let deflated = self.deflate && class != Class::RealTime;
        let Some((deflater, mut inflater)) = self.payload.take_if(|_| deflated) else {
            return self.decompress(now, class, ethertype, data, out);
        };
        let result = match inflater.inflate(data) {
            Ok(data) => self.decompress(now, class, ethertype, data, out),
            Err(_) => Err(DecodeError::Payload),
        };
        self.payload = Some((deflater, inflater));
        result
    }

    fn decompress(
        &mut self,
        now: Time,
        class: Class,
        ethertype: u16,
        data: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), DecodeError> {
        let Some(Channel { compressor, decompressor, feedback }) = self.channel(class, ethertype) else {
            out.extend_from_slice(data);
            return Ok(());
        };
        let result = decompressor.decompress(since_epoch(now), data, out);
        let piggybacked = decompressor.piggybacked();
        let refused = !piggybacked.is_empty() && compressor.feedback(since_epoch(now), piggybacked).is_err();
        let before = feedback.len();
        decompressor.take_feedback(feedback);
        // Elements cannot be cut: what finds no room in a frame makes room.
        let full = feedback.len() > MAX_FEEDBACK;
        if full {
            feedback.drain(..before);
            if feedback.len() > MAX_FEEDBACK {
                feedback.clear();
            }
        }
        self.counters.feedback_lost += u64::from(refused) + u64::from(full);
        result.map(|_| ()).map_err(|_| DecodeError::Header)
    }

    /// What header compression did.
    pub(crate) fn counters(&self) -> RohcCounters {
        let contexts = self.channels.iter().flatten().map(|channel| channel.compressor.contexts() as u32).sum();
        RohcCounters { contexts, ..self.counters }
    }

    /// What payload compression did.
    pub(crate) fn payload(&self) -> PayloadCounters {
        self.payload.as_ref().map(|(deflater, _)| deflater.counters()).unwrap_or_default()
    }

    /// Feedback came from the peer for the channel of a class.
    pub(crate) fn take_feedback(&mut self, now: Time, class: Class, feedback: &[u8]) {
        self.counters.feedback_taken += feedback.len() as u64;
        let taken = match &mut self.channels[class.index()] {
            Some(Channel { compressor, .. }) => compressor.feedback(since_epoch(now), feedback).is_ok(),
            None => false,
        };
        self.counters.feedback_lost += u64::from(!taken);
    }

    /// The feedback that is to be sent next: for which class, and what.
    pub(crate) fn feedback(&self) -> Option<(Class, &[u8])> {
        let channels = Class::ALL.into_iter().zip(&self.channels);
        let waiting = channels.filter_map(|(class, channel)| Some((class, &channel.as_ref()?.feedback[..])));
        waiting.into_iter().find(|(_, feedback)| !feedback.is_empty())
    }

    /// The feedback of a class is sent.
    pub(crate) fn sent_feedback(&mut self, class: Class) {
        if let Some(channel) = &mut self.channels[class.index()] {
            self.counters.feedback_sent += channel.feedback.len() as u64;
            channel.feedback.clear();
        }
    }

    /// Nobody is there to be told.
    pub(crate) fn forget_feedback(&mut self) {
        self.channels.iter_mut().flatten().for_each(|channel| channel.feedback.clear());
    }
}

fn is_ip(ethertype: u16) -> bool {
    matches!(ethertype, ethertype::IPV4 | ethertype::IPV6)
}

fn since_epoch(now: Time) -> core::time::Duration {
    now.since(Time::ZERO).into()
}
