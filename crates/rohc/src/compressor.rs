//! The compressor: which profile and context a packet belongs to.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use crate::bits::Reader;
use crate::cid::{CidSpace, MAX_CID};
use crate::error::{CompressError, FeedbackError, SegmentError};
use crate::feedback::{self, Element, Feedback};
use crate::headers::{Headers, IpAt};
use crate::packet_type::PacketType;
use crate::profile::{Profile, ProfileSet};
use crate::rfc3095::{self, Kind, header};
use crate::segment::Segments;
use crate::table::{Entry, Table};
use crate::tcp;
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
    /// In mode U, packets after which the whole context is sent again (IR). With 2,000 an IR of 50 to 80 octets
    /// costs some 1 % beside headers of 3 octets, and a decompressor that lost its static context in 20 ms
    /// voice waits for 40 s at most. [`u32::MAX`] for never.
    pub ir_refresh_packets: u32,
    /// In mode U, the time after which the whole context is sent again, if there is a packet to send. For slow
    /// flows, which would take long to reach the number of packets: 60 s by default. [`Duration::MAX`] for never.
    pub ir_refresh_time: Duration,
    /// In mode U, packets after which the dynamic part of the context is sent again (IR-DYN). It is lost more
    /// easily and costs 10 to 25 octets: 700 by default.
    pub fo_refresh_packets: u32,
    /// In mode U, the time after which the dynamic part of the context is sent again: 15 s by default.
    pub fo_refresh_time: Duration,
    /// Values that W-LSB encoding keeps as possible references (RFC 3095 4.5.2), 1 to 16: losses of fewer
    /// packets in a row never make a value ambiguous. While nothing jumps, the four bits of a UO-0 packet bear
    /// 13 losses whatever this is; with 6, they still do where two in three packets come before the compressor.
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
            ir_refresh_packets: 2_000,
            ir_refresh_time: Duration::from_secs(60),
            fo_refresh_packets: 700,
            fo_refresh_time: Duration::from_secs(15),
            wlsb_window: 6,
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
    /// If the packet is one for profile 0x0006.
    pub(crate) segment: Option<&'a tcp::Segment>,
    /// For the first packet of a TCP flow: what it can start from, if anything.
    pub(crate) replica: Option<tcp::Replica>,
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

/// A context, by its profile. A new profile adds its variant here, its test in [`Compressor::classify`],
/// its static fields in [`Compressor::make_key`], and the calls below.
#[derive(Debug)]
enum Context {
    Uncompressed(uncompressed::Compressor),
    Rfc3095(Box<rfc3095::compress::Compressor>),
    Tcp(Box<tcp::Compressor>),
}

impl Context {
    /// The state of a flow of `profile` that has sent nothing. `sn` is where generated sequence numbers begin.
    fn new(profile: Profile, sn: u16, config: &CompressorConfig) -> Self {
        match Kind::of(profile) {
            Some(kind) => Self::Rfc3095(Box::new(rfc3095::compress::Compressor::new(kind, sn, config))),
            None if profile == Profile::Tcp => Self::Tcp(Box::new(tcp::Compressor::new(config.repeats, sn))),
            None => Self::Uncompressed(uncompressed::Compressor::default()),
        }
    }

    /// Begins again for another flow, in the same memory if the profile is of the same family.
    fn reuse(&mut self, profile: Profile, sn: u16, config: &CompressorConfig) {
        match (self, Kind::of(profile)) {
            (Self::Rfc3095(context), Some(kind)) => context.reuse(kind, sn, config),
            (Self::Tcp(context), None) if profile == Profile::Tcp => context.reuse(config.repeats),
            (this, _) => *this = Self::new(profile, sn, config),
        }
    }

    /// Sends a packet. `None` if it cannot be sent in this context now, and profile 0x0000 has to take it.
    fn compress(&mut self, job: &Job<'_>, out: &mut Vec<u8>) -> Option<Sent> {
        match self {
            Self::Uncompressed(context) => Some(context.compress(job, out)),
            Self::Rfc3095(context) => context.compress(job, out),
            Self::Tcp(context) => job.segment.map(|segment| context.compress(job, segment, out)),
        }
    }

    /// Takes feedback. True if the decompressor wants the flow no more.
    fn feedback(&mut self, feedback: &Feedback<'_>, config: &CompressorConfig) -> Result<bool, FeedbackError> {
        match self {
            Self::Uncompressed(context) => {
                context.feedback(feedback);
                Ok(false)
            }
            Self::Rfc3095(context) => context.feedback(feedback, config),
            Self::Tcp(context) => context.feedback(feedback),
        }
    }
}

/// A CID's context.
#[derive(Debug)]
struct Slot {
    profile: Profile,
    context: Context,
    /// The decompressor rejected the flow: until when it goes uncompressed (RFC 3095 5.7.6.4).
    rejected_until: Option<Duration>,
}

/// How long a rejected flow goes uncompressed. The RFC says "for some time"; a decompressor that is short of
/// memory is not relieved within seconds.
const REJECTION: Duration = Duration::from_secs(60);

/// Compresses the packets of one channel.
#[derive(Debug)]
pub struct Compressor {
    config: CompressorConfig,
    space: CidSpace,
    contexts: Table<Slot>,
    /// The TCP context that had feedback last: new flows may start from it.
    tcp_base: Option<u16>,
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
            tcp_base: None,
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
        let has_tcp = self.config.profiles.contains(Profile::Tcp);
        let segment = if has_tcp { tcp::Segment::parse(packet) } else { None };
        let profile = if segment.is_some() { Profile::Tcp } else { self.classify(packet, &headers) };
        let (cid, sent) = match self.compress_as(profile, now, packet, &headers, segment.as_ref(), out) {
            (cid, Some(sent)) => (cid, sent),
            (_, None) => {
                let (cid, sent) = self.compress_as(Profile::Uncompressed, now, packet, &headers, None, out);
                // Profile 0x0000 takes everything.
                (cid, sent.ok_or(CompressError::NotIp)?)
            }
        };
        let profile = self.contexts.state(cid).profile;
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

    /// Compresses in the context of the packet's flow. Nothing was written if there is no [`Sent`].
    fn compress_as(
        &mut self,
        profile: Profile,
        now: Duration,
        packet: &[u8],
        headers: &Headers,
        segment: Option<&tcp::Segment>,
        out: &mut Vec<u8>,
    ) -> (u16, Option<Sent>) {
        match segment {
            Some(segment) => {
                self.key.clear();
                self.key.push(profile.octet());
                segment.write_key(packet, &mut self.key);
            }
            None => self.make_key(profile, packet, headers),
        }
        let config = &self.config;
        // Any number will do, but flows should not all begin with the same (RFC 3095 5.11.1).
        let sn = (self.counters.packets as u16).wrapping_mul(0x9e37);
        let new = || Slot { profile, context: Context::new(profile, sn, config), rejected_until: None };
        let made = self.contexts.len();
        let mut replica = None;
        let cid = match self.contexts.enter(&self.key, new) {
            Entry::Known(cid) => cid,
            Entry::New(cid) => {
                if let (Some(segment), Some(base)) = (segment, self.tcp_base.filter(|base| *base != cid))
                    && let Some(Slot { context: Context::Tcp(context), .. }) = self.contexts.get_mut(base)
                {
                    replica = context.replica(base, segment, packet);
                }
                if usize::from(cid) < made {
                    self.counters.contexts_reused += 1;
                    let slot = self.contexts.state(cid);
                    slot.context.reuse(profile, sn, config);
                    (slot.profile, slot.rejected_until) = (profile, None);
                }
                cid
            }
        };
        let job = Job { now, packet, headers, segment, replica, cid, space: self.space, config };
        let slot = self.contexts.state(cid);
        if slot.rejected_until.is_some_and(|until| now < until) {
            return (cid, None);
        }
        slot.rejected_until = None;
        (cid, slot.context.compress(&job, out))
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

    fn take_element(&mut self, now: Duration, element: Element<'_>) -> Result<(), FeedbackError> {
        let feedback = Feedback::parse(element, self.space)?;
        let cid = feedback.cid;
        let slot = self.contexts.get_mut(cid).ok_or(FeedbackError::NoContext { cid })?;
        if matches!(slot.context, Context::Tcp(_)) {
            self.tcp_base = Some(cid);
        }
        if slot.context.feedback(&feedback, &self.config)? {
            slot.rejected_until = Some(now.saturating_add(REJECTION));
        }
        Ok(())
    }

    /// The profile for a packet: the one that takes most of its headers.
    fn classify(&self, packet: &[u8], headers: &Headers) -> Profile {
        let fits = |profile: Profile| match Kind::of(profile) {
            Some(kind) => {
                self.config.profiles.contains(profile)
                    && header::fits(kind, packet, headers)
                    && (kind != Kind::Rtp || self.is_rtp(packet, headers))
            }
            None => false,
        };
        [Profile::Rtp, Profile::Udp, Profile::Esp, Profile::Ip]
            .into_iter()
            .find(|profile| fits(*profile))
            .filter(|_| header::is_intact(packet, headers))
            .unwrap_or(Profile::Uncompressed)
    }

    /// Is this UDP packet, which could be RTP, taken for it?
    fn is_rtp(&self, packet: &[u8], headers: &Headers) -> bool {
        let Some([a, b, c, d, ..]) = headers.transport().and_then(|(_, at)| packet.get(at..)) else { return false };
        let (source, destination) = (u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d]));
        let ports = &self.config.rtp_ports;
        ports.contains(source)
            || ports.contains(destination)
            || self.config.rtp_heuristic && header::looks_like_rtp(packet, headers)
    }

    /// Leaves the flow's key in `self.key`: the profile and every static field, so that packets with the same key
    /// have the same static context.
    fn make_key(&mut self, profile: Profile, packet: &[u8], headers: &Headers) {
        let key = &mut self.key;
        key.clear();
        key.push(profile.octet());
        if profile == Profile::Uncompressed {
            return;
        }
        for IpAt { at, is_v6, protocol, .. } in headers.ip() {
            let header = &packet[*at..];
            if *is_v6 {
                // Flow label, what follows the extension headers, addresses.
                key.extend_from_slice(&[0x60 | header[1] & 0x0f, header[2], header[3], *protocol]);
                key.extend_from_slice(&header[8..40]);
            } else {
                key.extend_from_slice(&[0x40, *protocol]);
                key.extend_from_slice(&header[12..20]);
            }
        }
        let transport = headers.transport().map_or(&[][..], |(_, at)| &packet[at..]);
        match profile {
            // Ports.
            Profile::Udp => key.extend_from_slice(&transport[..4]),
            Profile::Rtp => {
                key.extend_from_slice(&transport[..4]);
                // SSRC.
                key.extend_from_slice(&transport[16..20]);
            }
            // SPI.
            Profile::Esp => key.extend_from_slice(&transport[..4]),
            Profile::Uncompressed | Profile::Ip | Profile::Tcp => {}
        }
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
