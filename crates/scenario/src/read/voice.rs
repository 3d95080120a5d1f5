//! Voice, packet pairs, calls and video: from keys to what is sent.

use engine::{Size, Span};
use traffic::pairs::{OPENING, PAIR_LEN};
use traffic::rating::Impairment;
use traffic::sip::LONGEST_RING;
use traffic::{Frames, LOG_LIMIT, P59, RTP_LEN, Talk, VOCODERS, Vocoder};

use crate::plan::{Call, Pairs, Path, Quic, Voice};
use crate::read::decode::Decoder;
use crate::read::fields::{self, Fields};
use crate::read::keys;
use crate::read::problem::{Noted, Problem};
use crate::read::yaml::{Node, Value};

/// Media ports are twice the flow's number above this one; RTP's are even (RFC 3550 11).
const FIRST_MEDIA_PORT: u16 = 16_384;
/// Most frames in a packet, and most bits and time in a frame.
const MOST_FRAMES: u64 = 100;
const MOST_FRAME_BITS: u64 = 65_536;
/// Depth of the playout buffer where nothing is said.
const BUFFER: Span = Span::from_millis(60);
/// Longest file of frames in bytes: every cell of the plan holds it.
const MOST_FRAME_BYTES: usize = 64 << 10;
/// Dynamic payload type of a vocoder that has no name.
const CUSTOM_PAYLOAD_TYPE: u8 = 96;

/// The sizes of the narrowband testbed's figures.
const PAIR_SIZES: [u16; 11] = [60, 80, 100, 150, 200, 400, 600, 800, 1_000, 1_200, 1_400];
/// Two packets of 1,400 bytes take 4.8 s at the lowest rate that testbed found (4,634 bit/s).
const PAIR_EVERY: Span = Span::from_secs(6);

/// SIP's port (RFC 3261 18.1.1); a flow's is its number above it.
const SIP_PORT: u16 = 5_060;
/// T1 where nothing is said: an INVITE of some 450 bytes and its answer take a second at 960 B/s.
const CALL_T1: Span = Span::from_secs(2);

/// RFC 9000 14.1: the smallest datagrams QUIC works with.
const LEAST_QUIC: u64 = 1_200;
/// Playing time of a segment where nothing is said.
const VIDEO_SEGMENT: Span = Span::from_secs(2);
/// Most bytes of a segment on average, so that its log and half as much again fit into 32 bits.
const MOST_SEGMENT: u64 = 1 << 30;

/// A vocoder, by name or by its figures.
struct Codec {
    name: String,
    frame_bits: u64,
    frame: Span,
    frames: u64,
    payload_type: u8,
    impairment: Impairment,
}

impl Decoder<'_> {
    /// A voice flow with this number in a cell that lasts `whole`: a vocoder's name, or a mapping.
    pub(crate) fn voice(&self, node: &Node, path: &Path, number: usize, whole: Span) -> Result<Voice, Noted> {
        self.speech(node, path, number, whole, false)
    }

    /// As [`voice`](Self::voice); over RTP, with `in_call`, whatever is said.
    fn speech(&self, node: &Node, path: &Path, number: usize, whole: Span, in_call: bool) -> Result<Voice, Noted> {
        let notes = self.notes;
        let fields = match &node.value {
            Value::Scalar(_) => None,
            _ => Some(Fields::read(notes, node, &keys::VOICE)?),
        };
        let get = |key| fields.as_ref().and_then(|fields| fields.get(key));
        let codec = match &fields {
            None => self.codec(node),
            Some(fields) => self.codec(fields.need("codec")?),
        };
        let frames = get("frames").map(|node| fields::integer(notes, node, 1..=MOST_FRAMES)).transpose();
        let every = get("every").map(|node| fields::positive_span(notes, node)).transpose();
        let rtp = get("rtp").map(|node| {
            let rtp = fields::boolean(notes, node)?;
            if in_call && !rtp {
                let problem = Problem::new(node.at, "voice in a call goes over RTP");
                return Err(notes.note(problem.remedy("leave `rtp` away, or use `voice` instead of `call`")));
            }
            Ok(rtp)
        });
        let rtp = rtp.transpose();
        let talk = get("talk").map(|node| self.talk(node)).transpose();
        let buffer = get("buffer").map(|node| fields::span(notes, node)).transpose();
        let ie = get("ie").map(|node| self.within(node, 0.0, 95.0)).transpose();
        let bpl = get("bpl").map(|node| self.within(node, 1.0, 100.0)).transpose();
        let port = get("port").map(|node| fields::integer(notes, node, 1_024..=65_535)).transpose();
        let (codec, rtp) = (codec?, rtp?.unwrap_or(false) || in_call);
        let count = frames?.unwrap_or(codec.frames);
        let payload = codec.frame_bits.div_ceil(8) * count;
        let packet = codec.frame.times(count);
        let every = every?.unwrap_or(packet);

        let header = if rtp { RTP_LEN as u64 } else { 0 };
        // RFC 768: 8 bytes of UDP.
        let most = u64::from(path.mtu - path.ip.header()) - 8;
        if !(2..=most.saturating_sub(header)).contains(&payload) {
            let problem = Problem::new(node.at, format!("{payload} B of voice do not make a packet here"));
            return Err(notes.note(problem.remedy(format!("a packet has 2 to {} B: set `frames`", most - header))));
        }
        self.fits_log(node, whole, every, 1)?;
        let frames = get("payload").map(|node| self.frames(node, payload)).transpose()?;
        let port = port?.map_or(FIRST_MEDIA_PORT + 2 * number as u16, |port| port as u16);
        Ok(Voice {
            codec: codec.name,
            payload: Size::from_bytes(payload),
            packet,
            every,
            rtp: rtp.then_some(codec.payload_type),
            port,
            talk: talk?.flatten(),
            buffer: buffer?.unwrap_or(BUFFER),
            ie: ie?.unwrap_or(codec.impairment.ie),
            bpl: bpl?.unwrap_or(codec.impairment.bpl),
            frames,
        })
    }

    fn codec(&self, node: &Node) -> Result<Codec, Noted> {
        let notes = self.notes;
        if let Value::Scalar(_) = node.value {
            let choices: Vec<_> = VOCODERS.iter().map(|vocoder| (vocoder.name, vocoder)).collect();
            let vocoder: &Vocoder = fields::choice(notes, node, "vocoder", &choices)?;
            return Ok(Codec {
                name: vocoder.name.to_owned(),
                frame_bits: vocoder.frame_bits.into(),
                frame: vocoder.frame,
                frames: vocoder.frames.into(),
                payload_type: vocoder.payload_type,
                impairment: vocoder.impairment,
            });
        }
        let fields = Fields::read(notes, node, &keys::CODEC)?;
        let bits = fields.need("bits").and_then(|node| fields::integer(notes, node, 1..=MOST_FRAME_BITS));
        let frame = fields.need("frame").and_then(|node| fields::positive_span(notes, node));
        // As for the vocoders that have a name but no standardised impairment.
        let impairment = VOCODERS[0].impairment;
        let payload_type = CUSTOM_PAYLOAD_TYPE;
        Ok(Codec { name: "custom".into(), frame_bits: bits?, frame: frame?, frames: 1, payload_type, impairment })
    }

    /// `p59`, `always`, or mean lengths.
    fn talk(&self, node: &Node) -> Result<Option<Talk>, Noted> {
        let notes = self.notes;
        if let Value::Scalar(_) = node.value {
            return fields::choice(notes, node, "way to talk", &[("always", None), ("p59", Some(P59))]);
        }
        let fields = Fields::read(notes, node, &keys::TALK)?;
        let spurt = fields.with("spurt", fields::positive_span);
        let pause = fields.with("pause", fields::positive_span);
        Ok(Some(Talk { spurt: spurt?.unwrap_or(P59.spurt), pause: pause?.unwrap_or(P59.pause) }))
    }

    /// Frames out of a file, for packets of `payload` bytes.
    fn frames(&self, node: &Node, payload: u64) -> Result<Frames, Noted> {
        let frames = self.traces.frames(self.notes, node)?;
        if (payload..=MOST_FRAME_BYTES as u64).contains(&(frames.bytes() as u64)) {
            return Ok(frames);
        }
        let problem = Problem::new(node.at, format!("this file has {} B of frames", frames.bytes()));
        Err(self.notes.note(problem.remedy(format!("give {payload} (one packet) to {MOST_FRAME_BYTES} B"))))
    }

    /// A flow of calls with this number in a cell that lasts `whole`.
    pub(crate) fn call(&self, node: &Node, path: &Path, number: usize, whole: Span) -> Result<Call, Noted> {
        let notes = self.notes;
        let fields = Fields::read(notes, node, &keys::CALL)?;
        let voice = fields.need("voice").and_then(|node| self.speech(node, path, number, whole, true));
        let both_ways = fields.with("both-ways", fields::boolean);
        let hold = fields.with("hold", fields::positive_span);
        let pause = fields.with("pause", fields::positive_span);
        let ring = fields.with("ring", |notes, node| match fields::span(notes, node)? {
            ring if ring <= LONGEST_RING => Ok(ring),
            ring => {
                let problem = Problem::new(node.at, format!("nobody lets it ring for {ring}"));
                Err(notes.note(problem.remedy(format!("choose at most {LONGEST_RING}"))))
            }
        });
        let t1 = fields.with("t1", fields::positive_span);
        let compact = fields.with("compact", fields::boolean);
        let port = fields.with("port", |notes, node| fields::integer(notes, node, 1_024..=65_535));
        Ok(Call {
            voice: voice?,
            both_ways: both_ways?.unwrap_or(false),
            hold: hold?.unwrap_or(Span::from_secs(30)),
            pause: pause?.unwrap_or(Span::from_secs(5)),
            ring: ring?.unwrap_or(Span::ZERO),
            t1: t1?.unwrap_or(CALL_T1),
            compact: compact?.unwrap_or(false),
            port: port?.map_or(SIP_PORT + number as u16, |port| port as u16),
        })
    }

    /// A flow of packet pairs with this number in a cell that lasts `whole`.
    pub(crate) fn pairs(&self, node: &Node, path: &Path, number: usize, whole: Span) -> Result<Pairs, Noted> {
        let notes = self.notes;
        let fields = Fields::read(notes, node, &keys::PAIRS)?;
        let header = path.ip.header() + 8;
        let sizes = fields.get("sizes").map(|node| self.sizes(node, path)).transpose();
        let rounds = fields.with("rounds", |notes, node| fields::integer(notes, node, 1..=1_000));
        let every = fields.with("every", fields::positive_span);
        let zeros = fields.with("zeros", fields::boolean);
        let port = fields.with("port", |notes, node| fields::integer(notes, node, 1_024..=65_535));
        let sizes = sizes?.unwrap_or(PAIR_SIZES.into_iter().filter(|size| *size <= path.mtu).collect());
        let (rounds, every) = (rounds?.unwrap_or(2) as u16, every?.unwrap_or(PAIR_EVERY));
        if let Some(node) = fields.get("sizes").filter(|_| sizes.iter().all(|size| *size == sizes[0])) {
            let problem = Problem::new(node.at, "one size tells nothing: the rate is a slope over sizes");
            return Err(notes.note(problem.remedy("name at least two different sizes, such as `[60B, 400B, 1400B]`")));
        }
        let pairs = OPENING + sizes.len() as u64 * u64::from(rounds);
        let last = every.times(pairs - 1);
        if last >= whole || pairs > u64::from(u16::MAX) {
            let problem = Problem::new(node.at, format!("{pairs} pairs take {last}, and the cell ends after {whole}"));
            return Err(notes.note(problem.remedy("name fewer `sizes`, or set a longer `measure.duration`")));
        }
        let port = port?.map_or(FIRST_MEDIA_PORT + 2 * number as u16, |port| port as u16);
        Ok(Pairs { sizes, rounds, every, header, zeros: zeros?.unwrap_or(false), port })
    }

    /// A flow of video over QUIC with this number in a cell that lasts `whole`.
    pub(crate) fn quic(&self, node: &Node, path: &Path, number: usize, whole: Span) -> Result<Quic, Noted> {
        let notes = self.notes;
        let fields = Fields::read(notes, node, &keys::QUIC)?;
        let most = u64::from(path.mtu - path.ip.header()) - 8;
        if most < LEAST_QUIC {
            let problem =
                Problem::new(node.at, format!("QUIC needs datagrams of {LEAST_QUIC} B, and here they have {most}"));
            return Err(notes.note(problem.remedy("set a larger `mtu` of the path")));
        }
        let rate = fields.need("rate").and_then(|node| fields::rate(notes, node));
        let segment = fields.with("segment", fields::positive_span);
        let ahead = fields.with("ahead", |notes, node| fields::integer(notes, node, 1..=100));
        let datagram = fields.with("datagram", |notes, node| fields::size(notes, node, LEAST_QUIC..=most));
        let acknowledge = fields.with("acknowledge", |notes, node| fields::integer(notes, node, 1..=100));
        let port = fields.with("port", |notes, node| fields::integer(notes, node, 1_024..=65_535));
        let (rate, segment) = (rate?, segment?.unwrap_or(VIDEO_SEGMENT));
        let ahead = ahead?.unwrap_or(5) as u32;
        self.fits_log(node, whole + segment.times(u64::from(ahead)), segment, 1)?;
        if rate.bytes_in(segment) > MOST_SEGMENT {
            let problem = Problem::new(node.at, format!("{segment} at {rate} are more than a segment may have"));
            return Err(notes.note(problem.remedy(format!("shorten `segment`: at most {MOST_SEGMENT} B on average"))));
        }
        Ok(Quic {
            rate,
            segment,
            ahead,
            datagram: datagram?.unwrap_or(Size::from_bytes(LEAST_QUIC)),
            acknowledge: acknowledge?.unwrap_or(2) as u32,
            port: port?.map_or(FIRST_MEDIA_PORT + 2 * number as u16, |port| port as u16),
        })
    }

    /// Sizes of IP datagrams: a list, or a range.
    fn sizes(&self, node: &Node, path: &Path) -> Result<Vec<u16>, Noted> {
        let notes = self.notes;
        let least = u64::from(path.ip.header()) + 8 + PAIR_LEN as u64;
        let size = |node: &Node| fields::size(notes, node, least..=path.mtu.into()).map(|size| size.bytes() as u16);
        if let Value::List(_) = node.value {
            let items = fields::items(notes, node, "`sizes`")?;
            return items.iter().map(size).collect();
        }
        let fields = Fields::read(notes, node, &keys::SIZES)?;
        let step = fields.need("step").and_then(|node| fields::size(notes, node, 1..=path.mtu.into()));
        let (from, to) = (fields.need("from").and_then(size), fields.need("to").and_then(size));
        let (from, to, step) = (from?, to?, step?.bytes() as usize);
        if from > to {
            let problem = Problem::new(node.at, format!("no size is from {from} B to {to} B"));
            return Err(notes.note(problem.remedy("the smallest size comes first")));
        }
        Ok((from..=to).step_by(step).collect())
    }

    /// A number from `least` to `most`.
    fn within(&self, node: &Node, least: f64, most: f64) -> Result<f64, Noted> {
        match fields::number(self.notes, node)? {
            number if (least..=most).contains(&number) => Ok(number),
            number => {
                let problem = Problem::new(node.at, format!("{number} is not possible here"));
                Err(self.notes.note(problem.remedy(format!("choose from {least} to {most}"))))
            }
        }
    }

    /// A flow whose packets are all kept must not have too many of them.
    fn fits_log(&self, node: &Node, whole: Span, every: Span, packets: u64) -> Result<(), Noted> {
        let sent = (whole.as_nanos() / every.as_nanos().max(1) + 1).saturating_mul(packets);
        if sent <= LOG_LIMIT as u64 {
            return Ok(());
        }
        let problem = Problem::new(node.at, format!("{sent} packets are more than are kept of one flow"));
        Err(self.notes.note(problem.remedy(format!("shorten the cell or lengthen `every`: at most {LOG_LIMIT}"))))
    }
}
