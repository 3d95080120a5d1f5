//! The compressor: which profile and context a packet belongs to.

use alloc::vec::Vec;
use core::time::Duration;

use crate::bits::Reader;
use crate::cid::{CidSpace, MAX_CID};
use crate::error::{CompressError, FeedbackError, SegmentError};
use crate::feedback::{self, Feedback};
use crate::headers::Headers;
use crate::packet_type::PacketType;
use crate::profile::{Profile, ProfileSet};
use crate::segment::Segments;
use crate::table::{Entry, Table};
use crate::uncompressed;
use crate::wlsb::MAX_WINDOW;

/// The longest IPv6 packet without jumbo payload (RFC 8200 3).
const MAX_PACKET: usize = 40 + 65_535;

/// What a compressor is told about its channel, and how careful it is.
#[derive(Clone, Debug)]
pub struct CompressorConfig {
    /// The channel's MAX_CID (RFC 3095 5.1.1), 0 to 16,383: contexts less one. Over 15 the channel has
    /// large CIDs. The decompressor must be given the same.
    pub max_cid: u16,
    /// The profiles that the decompressor has.
    pub profiles: ProfileSet,
    /// UDP ports whose packets are taken for RTP.
    pub rtp_ports: RtpPorts,
    /// Take other UDP packets for RTP too if they look like it. Off by default: a wrong guess costs octets,
    /// though never a wrong packet.
    pub rtp_heuristic: bool,
    /// In mode U, packets after which the whole context is sent again (IR). 1,700 packets of 3 octets
    /// with one IR of 50 to 100 more cost one or two per cent, and a decompressor that lost a context waits for
    /// half a minute of 20 ms voice at most. [`u32::MAX`] for never.
    pub ir_refresh_packets: u32,
    /// In mode U, the time after which the whole context is sent again, if there is a packet to send. For slow
    /// flows, which would take long to reach the number of packets. [`Duration::MAX`] for never.
    pub ir_refresh_time: Duration,
    /// In mode U, packets after which the dynamic part of the context is sent again.
    pub fo_refresh_packets: u32,
    /// In mode U, the time after which the dynamic part of the context is sent again.
    pub fo_refresh_time: Duration,
    /// Values that W-LSB encoding keeps as possible references (RFC 3095 4.5.2), 1 to 32. With 13, one
    /// packet of 13 lost ones in a row at most is needed for the next to be understood, and the
    /// four bits of a UO-0 packet still suffice.
    pub wlsb_window: u8,
    /// The channel's MRRU, the longest reconstructed unit in octets; 0 means no segmentation.
    pub mrru: u16,
    /// Packets in which a change is sent before the compressor trusts that one arrived (RFC 3095
    /// 5.3.1.1.1), 1 to 15. Three in a row are lost only by a burst, which the CRC then finds.
    pub repeats: u8,
}

impl Default for CompressorConfig {
    fn default() -> Self {
        Self {
            max_cid: 15,
            profiles: ProfileSet::ALL,
            rtp_ports: RtpPorts::default(),
            rtp_heuristic: false,
            ir_refresh_packets: 1_700,
            ir_refresh_time: Duration::from_secs(30),
            fo_refresh_packets: 700,
            fo_refresh_time: Duration::from_secs(10),
            wlsb_window: 13,
            mrru: 0,
            repeats: 3,
        }
    }
}

/// UDP ports, source or destination, whose packets are RTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RtpPorts(Vec<u16>);

impl RtpPorts {
    /// Is the port one of them?
    #[must_use]
    pub fn contains(&self, port: u16) -> bool {
        self.0.binary_search(&port).is_ok()
    }
}

impl Default for RtpPorts {
    /// 5004, RTP's registered port (RFC 3551 8).
    fn default() -> Self {
        Self(alloc::vec![5004])
    }
}

impl FromIterator<u16> for RtpPorts {
    fn from_iter<T: IntoIterator<Item = u16>>(ports: T) -> Self {
        let mut ports: Vec<u16> = ports.into_iter().collect();
        ports.sort_unstable();
        ports.dedup();
        Self(ports)
    }
}

/// What became of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompressInfo {
    /// The profile that took it.
    pub profile: Profile,
    /// Its context.
    pub cid: u16,
    /// The format it was sent in.
    pub packet: PacketType,
    /// Octets of the headers that were compressed; the payload comes behind them.
    pub header_before: usize,
    /// Octets of the ROHC header that stands in their place.
    pub header_after: usize,
}

/// Counts since the compressor was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompressorCounters {
    /// Packets compressed, by any profile.
    pub packets: u64,
    /// Those of them that profile 0x0000 took.
    pub uncompressed: u64,
    /// Octets of headers before compression.
    pub header_octets_before: u64,
    /// Octets of headers after compression.
    pub header_octets_after: u64,
    /// IR packets sent.
    pub ir: u64,
    /// IR-DYN packets sent.
    pub ir_dyn: u64,
    /// Contexts taken from one flow for another, because all were in use.
    pub contexts_reused: u64,
    /// Feedback elements that were understood.
    pub feedback: u64,
    /// Feedback elements that were not, or were for no context.
    pub feedback_errors: u64,
}

/// One packet for a context of any profile.
pub(crate) struct Job<'a> {
    pub(crate) now: Duration,
    pub(crate) packet: &'a [u8],
    pub(crate) headers: &'a Headers,
    pub(crate) cid: u16,
    pub(crate) space: CidSpace,
    pub(crate) config: &'a CompressorConfig,
}

/// What a context made of its [`Job`].
pub(crate) struct Sent {
    pub(crate) packet: PacketType,
    pub(crate) header_before: usize,
    pub(crate) header_after: usize,
}

/// A context, by its profile. A new profile adds its variant here, its key in
/// [`Compressor::classify`], and the calls below.
#[derive(Debug)]
enum Context {
    Uncompressed(uncompressed::Compressor),
}

impl Context {
    /// The state of a flow of `profile` that has sent nothing.
    fn new(profile: Profile) -> Self {
        match profile {
            Profile::Uncompressed | Profile::Rtp | Profile::Udp | Profile::Esp | Profile::Ip | Profile::Tcp => {
                Self::Uncompressed(uncompressed::Compressor::default())
            }
        }
    }

    fn compress(&mut self, job: &Job<'_>, out: &mut Vec<u8>) -> Sent {
        match self {
            Self::Uncompressed(context) => context.compress(job, out),
        }
    }

    fn feedback(&mut self, _now: Duration, _feedback: &Feedback<'_>) -> Result<(), FeedbackError> {
        match self {
            Self::Uncompressed(context) => {
                context.feedback();
                Ok(())
            }
        }
    }
}

/// Compresses the packets of one channel.
#[derive(Debug)]
pub struct Compressor {
    config: CompressorConfig,
    space: CidSpace,
    contexts: Table<Context>,
    /// The flow key of the packet in hand.
    key: Vec<u8>,
    counters: CompressorCounters,
}

impl Compressor {
    /// A compressor without contexts. Values of `config` outside their ranges are brought into them.
    #[must_use]
    pub fn new(config: CompressorConfig) -> Self {
        let config = CompressorConfig {
            max_cid: config.max_cid.min(MAX_CID),
            wlsb_window: config.wlsb_window.clamp(1, MAX_WINDOW as u8),
            repeats: config.repeats.clamp(1, 15),
            ..config
        };
        let space = CidSpace::new(config.max_cid);
        Self {
            space,
            contexts: Table::new(usize::from(space.max()) + 1),
            key: Vec::new(),
            counters: CompressorCounters::default(),
            config,
        }
    }

    /// Compresses an IP packet and appends one ROHC packet to `out`. `now` is the time from any epoch; it
    /// must not go back.
    ///
    /// # Errors
    /// [`CompressError`], if `packet` is no IP packet; `out` is left alone then.
    pub fn compress(&mut self, now: Duration, packet: &[u8], out: &mut Vec<u8>) -> Result<CompressInfo, CompressError> {
        if packet.len() > MAX_PACKET {
            return Err(CompressError::TooLong(packet.len()));
        }
        if !matches!(packet.first(), Some(0x40..=0x4f | 0x60..=0x6f)) {
            return Err(CompressError::NotIp);
        }
        let headers = Headers::parse(packet);
        let profile = self.classify(packet, &headers);
        let cid = match self.contexts.enter(&self.key, || Context::new(profile)) {
            Entry::Known(cid) => cid,
            Entry::New(cid) => {
                *self.contexts.state(cid) = Context::new(profile);
                cid
            }
        };
        let job = Job { now, packet, headers: &headers, cid, space: self.space, config: &self.config };
        let sent = self.contexts.state(cid).compress(&job, out);
        let info = CompressInfo {
            profile,
            cid,
            packet: sent.packet,
            header_before: sent.header_before,
            header_after: sent.header_after,
        };
        self.count(&info);
        Ok(info)
    }

    /// Takes feedback from the peer's decompressor: one or more elements, each with its type octet
    /// `11110…` (RFC 3095 5.2.2), as [`Decompressor::take_feedback`](crate::Decompressor::take_feedback) and
    /// [`Decompressor::piggybacked`](crate::Decompressor::piggybacked) give them.
    ///
    /// # Errors
    /// [`FeedbackError`] for the first element that was of no use; those behind it are still taken if they can
    /// be told apart.
    pub fn feedback(&mut self, now: Duration, data: &[u8]) -> Result<(), FeedbackError> {
        let mut reader = Reader::new(data);
        let mut result = Ok(());
        while !reader.rest().is_empty() {
            let element = match feedback::read_element(&mut reader) {
                Ok(element) => element,
                Err(error) => {
                    self.counters.feedback_errors += 1;
                    return result.and(Err(error.into()));
                }
            };
            let taken = self.take_element(now, element);
            match taken {
                Ok(()) => self.counters.feedback += 1,
                Err(_) => self.counters.feedback_errors += 1,
            }
            result = result.and(taken);
        }
        result
    }

    /// Cuts `packet`, one that [`compress`](Self::compress) gave, into segments of up to `longest` octets for
    /// a link whose frames are too small for it. Nothing else may be sent between them.
    ///
    /// # Errors
    /// [`SegmentError`] if the channel's MRRU does not allow it, or segments of that length carry nothing.
    pub fn segments<'a>(&self, packet: &'a [u8], longest: usize) -> Result<Segments<'a>, SegmentError> {
        Segments::new(packet, longest, self.config.mrru)
    }

    /// Counts since the compressor was made.
    #[must_use]
    pub const fn counters(&self) -> &CompressorCounters {
        &self.counters
    }

    /// Contexts that have been made so far; never more than MAX_CID and one.
    #[must_use]
    pub fn contexts(&self) -> usize {
        self.contexts.len()
    }

    fn take_element(&mut self, now: Duration, element: &[u8]) -> Result<(), FeedbackError> {
        let feedback = Feedback::parse(element, self.space)?;
        let cid = feedback.cid;
        let context = self.contexts.get_mut(cid).ok_or(FeedbackError::NoContext { cid })?;
        context.feedback(now, &feedback)
    }

    /// The profile for a packet. Leaves the flow's key in `self.key`: the profile and every static field,
    /// so that packets with the same key have the same static context.
    fn classify(&mut self, _packet: &[u8], _headers: &Headers) -> Profile {
        self.key.clear();
        self.key.push(Profile::Uncompressed.octet());
        Profile::Uncompressed
    }

    fn count(&mut self, info: &CompressInfo) {
        let counters = &mut self.counters;
        counters.packets += 1;
        counters.uncompressed += u64::from(info.profile == Profile::Uncompressed);
        counters.header_octets_before += info.header_before as u64;
        counters.header_octets_after += info.header_after as u64;
        counters.ir += u64::from(info.packet == PacketType::Ir);
        counters.ir_dyn += u64::from(info.packet == PacketType::IrDyn);
    }
}
