//! The decompressor: padding, feedback, context identifiers, and which profile a packet is for.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use crate::bits::Reader;
use crate::cid::{CidSpace, Incoming, PADDING};
use crate::error::{DecompressError, Malformed};
use crate::feedback::{self, FeedbackQueue, Limiter};
use crate::packet_type::PacketType;
use crate::profile::{Profile, ProfileSet};
use crate::rfc3095::{self, Kind};
use crate::segment::{self, Reassembler};
use crate::stranger;
use crate::tcp;
use crate::uncompressed;

/// What a decompressor is told about its channel.
#[derive(Clone, Debug)]
pub struct DecompressorConfig {
    /// The channel's MAX_CID, the compressor's: 0 to 16,383.
    pub max_cid: u16,
    /// The profiles that are accepted.
    pub profiles: ProfileSet,
    /// The mode that contexts are brought into.
    pub mode: Mode,
    /// The channel's MRRU, the longest reconstructed unit in octets; 0 means no segmentation.
    pub mrru: u16,
    /// The shortest time between two negative acknowledgements for one context. RFC 3095 5.7.6 asks for a
    /// limit; a round trip of the link is a good value, since nothing can have changed before.
    pub nack_interval: Duration,
    /// The shortest time between two positive acknowledgements of one context that are not required.
    pub ack_interval: Duration,
}

impl Default for DecompressorConfig {
    fn default() -> Self {
        Self {
            max_cid: 15,
            profiles: ProfileSet::ALL,
            mode: Mode::Optimistic,
            mrru: 0,
            nack_interval: Duration::from_millis(100),
            ack_interval: Duration::from_millis(100),
        }
    }
}

/// The mode of operation (RFC 3095 4.4). The Reliable mode is not implemented: a decompressor never
/// asks for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// U: there is no way back. The compressor refreshes contexts by itself.
    Unidirectional,
    /// O: feedback asks for repair, and acknowledges.
    #[default]
    Optimistic,
}

/// What became of one ROHC packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecompressInfo {
    /// The profile of its context.
    pub profile: Profile,
    /// Its context.
    pub cid: u16,
    /// Its format.
    pub packet: PacketType,
    /// Octets of the ROHC header, without padding and feedback.
    pub header_before: usize,
    /// Octets of the headers that it stood for.
    pub header_after: usize,
}

/// Counts since the decompressor was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DecompressorCounters {
    /// Packets delivered.
    pub packets: u64,
    /// ROHC packets without a packet in them: padding, feedback, segments, IR without payload.
    pub without_packet: u64,
    /// Packets for contexts that were not there.
    pub no_context: u64,
    /// Packets for contexts known to be damaged, or repaired and not yet confirmed.
    pub damaged: u64,
    /// Packets with a wrong format or a profile that is not enabled.
    pub malformed: u64,
    /// Wrong CRCs of headers.
    pub crc_failures: u64,
    /// Headers that passed their CRC and not the transport checksum.
    pub checksum_failures: u64,
    /// Segments of no use, and units that were broken off.
    pub segment_errors: u64,
    /// Contexts repaired without the compressor's help (RFC 3095 5.3.2.2.4 and 5.3.2.2.5).
    pub repairs: u64,
    /// Positive acknowledgements made.
    pub acks: u64,
    /// Negative ones.
    pub nacks: u64,
    /// Negative ones for a static context.
    pub static_nacks: u64,
    /// Feedback that found no room in the queue.
    pub feedback_dropped: u64,
}

/// What a context made of a packet; the packet itself is at the end of `out`.
pub(crate) struct Arrival {
    pub(crate) packet: PacketType,
    pub(crate) header_before: usize,
    pub(crate) header_after: usize,
}

/// What a context may use while it takes a packet.
pub(crate) struct Surroundings<'a> {
    pub(crate) now: Duration,
    pub(crate) config: &'a DecompressorConfig,
    pub(crate) feedback: &'a mut FeedbackQueue,
    pub(crate) counters: &'a mut DecompressorCounters,
}

/// A context, by its profile. A new profile adds its variant here and the calls below.
#[derive(Debug)]
enum Context {
    Uncompressed,
    Rfc3095(Box<rfc3095::decompress::Decompressor>),
    Tcp(Box<tcp::Decompressor>),
}

impl Context {
    fn profile(&self) -> Profile {
        match self {
            Self::Uncompressed => Profile::Uncompressed,
            Self::Rfc3095(context) => context.kind().profile(),
            Self::Tcp(_) => Profile::Tcp,
        }
    }
}

/// A CID: its context, if there is one, and how often it is asked for.
#[derive(Debug, Default)]
struct Slot {
    context: Option<Context>,
    asks: Limiter,
}

/// Decompresses the packets of one channel.
#[derive(Debug)]
pub struct Decompressor {
    config: DecompressorConfig,
    space: CidSpace,
    /// By CID; grows up to MAX_CID and one.
    slots: Vec<Slot>,
    feedback: FeedbackQueue,
    piggybacked: Vec<u8>,
    segments: Reassembler,
    counters: DecompressorCounters,
}

impl Decompressor {
    /// A decompressor without contexts.
    #[must_use]
    pub fn new(config: DecompressorConfig) -> Self {
        let space = CidSpace::new(config.max_cid);
        Self {
            segments: Reassembler::new(config.mrru),
            config,
            space,
            slots: Vec::new(),
            feedback: FeedbackQueue::new(space),
            piggybacked: Vec::new(),
            counters: DecompressorCounters::default(),
        }
    }

    /// Takes a ROHC packet and appends the IP packet to `out`. `now` is the time of its arrival from any
    /// epoch; it must not go back.
    ///
    /// # Errors
    /// [`DecompressError`] if there is no packet; `out` is left alone then. The piggybacked feedback and
    /// feedback to send back may be there nevertheless.
    pub fn decompress(
        &mut self,
        now: Duration,
        data: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<DecompressInfo, DecompressError> {
        let start = out.len();
        let result = self.unwrap(data).and_then(|rest| self.dispatch(now, rest, out));
        if result.is_err() {
            out.truncate(start);
        }
        self.count(&result);
        result
    }

    /// The feedback elements that stood in front of the last packet, for the local compressor's
    /// [`feedback`](crate::Compressor::feedback).
    #[must_use]
    pub fn piggybacked(&self) -> &[u8] {
        &self.piggybacked
    }

    /// Appends the feedback that waits to `out`: elements in the form of RFC 3095 5.2.2, to be sent alone or in
    /// front of a ROHC packet of the other direction.
    pub fn take_feedback(&mut self, out: &mut Vec<u8>) {
        self.feedback.take(out);
    }

    /// Counts since the decompressor was made.
    #[must_use]
    pub fn counters(&self) -> DecompressorCounters {
        DecompressorCounters { feedback_dropped: self.feedback.dropped, ..self.counters }
    }

    /// Takes padding and feedback off (RFC 3095 5.2.6, steps 1 to 4). Padding may also stand between them:
    /// the RFC reads it as an Add-CID octet there, which feedback must not follow.
    fn unwrap<'a>(&mut self, data: &'a [u8]) -> Result<&'a [u8], DecompressError> {
        self.piggybacked.clear();
        let mut reader = Reader::new(data);
        loop {
            match reader.rest() {
                [] => {
                    self.abort_segments();
                    return Err(DecompressError::NoPacket);
                }
                [PADDING, ..] => {
                    reader.take(1).map_err(DecompressError::Framing)?;
                }
                [first, ..] if feedback::is_type_octet(*first) => {
                    let from = reader.position();
                    feedback::read_element(&mut reader).map_err(DecompressError::Framing)?;
                    self.piggybacked.extend_from_slice(&data[from..reader.position()]);
                }
                rest => return Ok(rest),
            }
        }
    }

    /// A packet behind padding and feedback: a segment or forward information (RFC 3095 5.2.6, steps 5 to 8).
    fn dispatch(&mut self, now: Duration, rest: &[u8], out: &mut Vec<u8>) -> Result<DecompressInfo, DecompressError> {
        if !segment::is_segment(rest[0]) {
            self.abort_segments();
            return self.forward(now, rest, out);
        }
        if !self.segments.push(rest).map_err(DecompressError::Segment)? {
            return Err(DecompressError::SegmentTaken);
        }
        let unit = self.segments.take_unit();
        // Padding, feedback and segments are not allowed in a unit; `forward` refuses the latter two.
        let result = match unit.first() {
            Some(&PADDING) => Err(DecompressError::Framing(Malformed::Misplaced)),
            _ => self.forward(now, &unit, out),
        };
        self.segments.return_unit(unit);
        result
    }

    /// A packet that is no segment: what waits for more is lost (RFC 3095 5.2.5.2).
    fn abort_segments(&mut self) {
        self.counters.segment_errors += u64::from(self.segments.abort());
    }

    /// Forward information: to its context.
    fn forward(&mut self, now: Duration, rest: &[u8], out: &mut Vec<u8>) -> Result<DecompressInfo, DecompressError> {
        let incoming = Incoming::parse(rest, self.space).map_err(DecompressError::Framing)?;
        let cid = incoming.cid;
        if cid > self.space.max() {
            return Err(DecompressError::CidAboveMax { cid });
        }
        let at = usize::from(cid);
        if self.slots.len() <= at {
            self.slots.resize_with(at + 1, Slot::default);
        }
        let arrival = match incoming.first() {
            // 1110 is a second Add-CID octet. 11110 cannot follow one, nor 1111111 (RFC 3095 5.2.6, steps 3
            // and 5); 11111001 means nothing, and 1111101 something to profile 0x0006 only.
            0b1110_0000..=0b1111_0111 | 0b1111_1001 | 0b1111_1110..=0b1111_1111 => {
                return Err(DecompressError::Framing(Malformed::Misplaced));
            }
            0b1111_1010..=0b1111_1011
                if matches!(self.slots[at].context, Some(Context::Uncompressed | Context::Rfc3095(_))) =>
            {
                return Err(DecompressError::Framing(Malformed::Misplaced));
            }
            0b1111_1100..=0b1111_1101 => self.initialise(now, at, &incoming, out),
            0b1111_1000 => self.refresh(now, at, &incoming, out),
            _ => {
                let slot = &mut self.slots[at];
                let mut around = Surroundings {
                    now,
                    config: &self.config,
                    feedback: &mut self.feedback,
                    counters: &mut self.counters,
                };
                match &mut slot.context {
                    Some(Context::Uncompressed) => Ok(uncompressed::decompress_normal(&incoming, out)),
                    Some(Context::Rfc3095(context)) => context.compressed(&incoming, &mut around, out),
                    Some(Context::Tcp(context)) => context.decompress(&incoming, &mut around, out),
                    None => Err(self.ask(now, at)),
                }
            }
        }?;
        let profile = self.slots[at].context.as_ref().map_or(Profile::Uncompressed, Context::profile);
        Ok(DecompressInfo {
            profile,
            cid,
            packet: arrival.packet,
            header_before: arrival.header_before,
            header_after: arrival.header_after,
        })
    }

    /// An IR packet, which may give the context a profile.
    fn initialise(
        &mut self,
        now: Duration,
        at: usize,
        incoming: &Incoming<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Arrival, DecompressError> {
        let profile = self.profile_of(incoming)?;
        if profile == Profile::Tcp {
            return self.initialise_tcp(now, at, incoming, out);
        }
        let slot = &mut self.slots[at];
        let Some(kind) = Kind::of(profile) else {
            let arrival = uncompressed::decompress_ir(incoming, out)?;
            slot.context = Some(Context::Uncompressed);
            return Ok(arrival);
        };
        let mut around =
            Surroundings { now, config: &self.config, feedback: &mut self.feedback, counters: &mut self.counters };
        if let Some(Context::Rfc3095(context)) = &mut slot.context {
            return context.ir(kind, incoming, &mut around, out);
        }
        let mut context = Box::new(rfc3095::decompress::Decompressor::new(kind));
        let result = context.ir(kind, incoming, &mut around, out);
        // Another profile's context stays as long as nothing right takes its place.
        if slot.context.is_none() || matches!(result, Ok(_) | Err(DecompressError::NoPacket)) {
            slot.context = Some(Context::Rfc3095(context));
        }
        result
    }

    /// An IR or IR-CR packet of profile 0x0006 (RFC 6846 7.1, 7.2).
    fn initialise_tcp(
        &mut self,
        now: Duration,
        at: usize,
        incoming: &Incoming<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Arrival, DecompressError> {
        let malformed = |what| DecompressError::Malformed { cid: incoming.cid, what };
        let replicate = match incoming.first() {
            0b1111_1100 => Some(tcp::base_cid(incoming, self.space).map_err(malformed)?),
            _ => None,
        };
        let base = replicate.and_then(|(base, _)| match &self.slots.get(usize::from(base))?.context {
            Some(Context::Tcp(context)) => context.base(),
            _ => None,
        });
        let mut around =
            Surroundings { now, config: &self.config, feedback: &mut self.feedback, counters: &mut self.counters };
        let mut take = |context: &mut tcp::Decompressor| match replicate {
            Some((_, chain_at)) => context.replicate(incoming, base.as_ref(), chain_at, &mut around, out),
            None => context.decompress(incoming, &mut around, out),
        };
        let slot = &mut self.slots[at];
        if let Some(Context::Tcp(context)) = &mut slot.context {
            return take(context);
        }
        let mut context = Box::new(tcp::Decompressor::new());
        let result = take(&mut context);
        // Another profile's context stays as long as nothing right takes its place.
        if slot.context.is_none() || context.is_known() {
            slot.context = Some(Context::Tcp(context));
        }
        result
    }

    /// An IR-DYN packet, which never initialises a context (RFC 3095 5.2.4).
    fn refresh(
        &mut self,
        now: Duration,
        at: usize,
        incoming: &Incoming<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Arrival, DecompressError> {
        let profile = self.profile_of(incoming)?;
        let mut around =
            Surroundings { now, config: &self.config, feedback: &mut self.feedback, counters: &mut self.counters };
        match (&mut self.slots[at].context, Kind::of(profile)) {
            (Some(Context::Rfc3095(context)), Some(kind)) => context.ir_dyn(kind, incoming, &mut around, out),
            (Some(Context::Tcp(context)), None) if profile == Profile::Tcp => {
                context.decompress(incoming, &mut around, out)
            }
            _ => Err(self.ask(now, at)),
        }
    }

    /// There is no context: asks for one, not too often (RFC 3095 5.4.2.2, NC; 5.7.6).
    fn ask(&mut self, now: Duration, at: usize) -> DecompressError {
        let cid = at as u16;
        let slot = &mut self.slots[at];
        if self.config.mode == Mode::Optimistic && slot.asks.allows(now, self.config.nack_interval) {
            self.counters.static_nacks += 1;
            stranger::static_nack(&mut self.feedback, cid);
        }
        DecompressError::NoContext { cid }
    }

    /// The profile that an IR or IR-DYN packet names (RFC 3095 5.2.3).
    fn profile_of(&self, incoming: &Incoming<'_>) -> Result<Profile, DecompressError> {
        let cid = incoming.cid;
        let octet = *incoming.body().first().ok_or(DecompressError::Malformed { cid, what: Malformed::TooShort })?;
        Profile::from_id(u16::from(octet))
            .filter(|profile| self.config.profiles.contains(*profile))
            .ok_or(DecompressError::UnknownProfile { cid, octet })
    }

    fn count(&mut self, result: &Result<DecompressInfo, DecompressError>) {
        let counters = &mut self.counters;
        let counter = match result {
            Ok(_) => &mut counters.packets,
            Err(DecompressError::NoPacket | DecompressError::SegmentTaken) => &mut counters.without_packet,
            Err(DecompressError::NoContext { .. }) => &mut counters.no_context,
            Err(DecompressError::Damaged { .. } | DecompressError::Unconfirmed { .. }) => &mut counters.damaged,
            Err(DecompressError::Crc { .. }) => &mut counters.crc_failures,
            Err(DecompressError::Checksum { .. }) => &mut counters.checksum_failures,
            Err(DecompressError::Segment(_)) => &mut counters.segment_errors,
            Err(
                DecompressError::Framing(_)
                | DecompressError::CidAboveMax { .. }
                | DecompressError::UnknownProfile { .. }
                | DecompressError::Malformed { .. },
            ) => &mut counters.malformed,
        };
        *counter += 1;
    }
}
