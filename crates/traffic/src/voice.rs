//! Voice: what a vocoder makes of speech, in packets, and its receiving end.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use engine::{Random, Span, Time};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::application::{Application, Received, Sent, Unwrap, filler, keep};
use crate::rating::Impairment;
use crate::rtp::Rtp;

/// A vocoder: how many bits it makes of how much speech.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Vocoder {
    /// Name in scenario files.
    pub name: &'static str,
    /// Bits of a frame; in a packet each frame fills whole octets.
    pub frame_bits: u32,
    /// Speech in a frame. MELP's at 1.2 kbit/s is a superframe of three.
    pub frame: Span,
    /// Frames in a packet where nothing is said.
    pub frames: u32,
    /// Payload type over RTP: the static one of RFC 3551 table 4, else a dynamic one.
    pub payload_type: u8,
    /// What it takes from the rating.
    pub impairment: Impairment,
    /// Where the figures come from.
    pub source: &'static str,
}

const STANAG: &str = "STANAG 4591; no Ie is standardised: R is relative";
const CODEC2: &str = "codec2 (c2enc); no Ie is standardised: R is relative";
const G113: &str = "ITU-T G.113 appendix I";

/// Every vocoder there is by name.
pub const VOCODERS: [Vocoder; 15] = [
    // 81 bits in 67.5 ms; three in a packet are 33 B every 202.5 ms.
    vocoder("melp-1200", 81, 67_500, 3, 96, UNKNOWN, STANAG),
    vocoder("melp-2400", 54, 22_500, 9, 96, UNKNOWN, STANAG),
    vocoder("codec2-3200", 64, 20_000, 2, 97, UNKNOWN, CODEC2),
    vocoder("codec2-2400", 48, 20_000, 2, 97, UNKNOWN, CODEC2),
    vocoder("codec2-1600", 64, 40_000, 2, 97, UNKNOWN, CODEC2),
    vocoder("codec2-1400", 56, 40_000, 2, 97, UNKNOWN, CODEC2),
    vocoder("codec2-1300", 52, 40_000, 2, 97, UNKNOWN, CODEC2),
    vocoder("codec2-1200", 48, 40_000, 2, 97, UNKNOWN, CODEC2),
    vocoder("codec2-700c", 28, 40_000, 4, 97, UNKNOWN, CODEC2),
    vocoder("codec2-450", 18, 40_000, 4, 97, UNKNOWN, CODEC2),
    vocoder("g711", 1_280, 20_000, 1, 8, Impairment { ie: 0.0, bpl: 4.3 }, "ITU-T G.113 appendix I, no concealment"),
    vocoder("g711-plc", 1_280, 20_000, 1, 8, Impairment { ie: 0.0, bpl: 25.1 }, G113),
    vocoder("g729a", 80, 10_000, 2, 18, Impairment { ie: 11.0, bpl: 19.0 }, G113),
    vocoder("g723.1-6.3k", 189, 30_000, 1, 4, Impairment { ie: 15.0, bpl: 16.1 }, G113),
    vocoder("gsm-efr", 244, 20_000, 1, 98, Impairment { ie: 5.0, bpl: 10.0 }, G113),
];

/// What stands in for an impairment nobody has standardised: none by itself, and losses hurt as they
/// hurt G.711 without concealment.
const UNKNOWN: Impairment = Impairment { ie: 0.0, bpl: 4.3 };

const fn vocoder(
    name: &'static str,
    frame_bits: u32,
    frame_us: u64,
    frames: u32,
    payload_type: u8,
    impairment: Impairment,
    source: &'static str,
) -> Vocoder {
    Vocoder { name, frame_bits, frame: Span::from_micros(frame_us), frames, payload_type, impairment, source }
}

impl Vocoder {
    /// The vocoder called `name`.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        VOCODERS.iter().find(|vocoder| vocoder.name == name)
    }
}

/// A voice flow.
#[derive(Clone, Debug, PartialEq)]
pub struct VoiceConfig {
    /// Bytes of vocoder frames in a packet; at least 2.
    pub payload: usize,
    /// From one packet to the next while somebody talks.
    pub every: Span,
    /// Payload type, if it goes over RTP. Without, a packet's first two bytes are its number.
    pub rtp: Option<u8>,
    /// When somebody talks; always if absent.
    pub talk: Option<Talk>,
    /// Real frames, which are sent in turn; pseudo-random bits if absent.
    pub frames: Option<Frames>,
    /// Seed of the talk spurts, of what RFC 3550 5.1 wants at random, and of the bits.
    pub seed: u64,
}

/// Talk spurts and pauses with exponential lengths, a two-state reading of ITU-T P.59.
///
/// P.59's own model is of a conversation of two (with double talk and mutual silence); the mean
/// lengths are its table 1's. State changes take effect with the next packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Talk {
    /// Mean length of a spurt.
    pub spurt: Span,
    /// Mean length of a pause.
    pub pause: Span,
}

/// ITU-T P.59 table 1: averages over English, Italian and Japanese.
pub const P59: Talk = Talk { spurt: Span::from_millis(1_004), pause: Span::from_millis(1_587) };

/// Frames of a real vocoder, each filling whole octets, one after the other. In JSON, hexadecimal.
#[derive(Clone, PartialEq, Eq)]
pub struct Frames(Arc<[u8]>);

impl Frames {
    /// Reads hexadecimal digits; white space between octets is passed over. `None` if there is
    /// anything else, or nothing.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits: Option<Vec<u8>> =
            text.chars().filter(|c| !c.is_whitespace()).map(|c| Some(c.to_digit(16)? as u8)).collect();
        let digits = digits.filter(|digits| !digits.is_empty() && digits.len() % 2 == 0)?;
        Some(Self(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()))
    }

    /// Length in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.len()
    }

    /// The `length` bytes of the packet with this number; begins anew when the frames are used up.
    fn packet(&self, number: u64, length: usize) -> impl Iterator<Item = u8> + '_ {
        // A last packet that is not full would not be this vocoder's: it is left out.
        let packets = (self.0.len() / length.max(1)).max(1);
        let start = usize::try_from(number % packets as u64).unwrap_or(0) * length;
        self.0.iter().copied().cycle().skip(start).take(length)
    }
}

impl fmt::Debug for Frames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Frames({} bytes)", self.0.len())
    }
}

impl Serialize for Frames {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        struct Hex<'a>(&'a [u8]);
        impl fmt::Display for Hex<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }
        serializer.collect_str(&Hex(&self.0))
    }
}

impl<'de> Deserialize<'de> for Frames {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| de::Error::custom("frames are hexadecimal digits in pairs"))
    }
}

/// The clock of all audio here (RFC 3551 4.5: 8 kHz).
const CLOCK: u64 = 8_000;

impl VoiceConfig {
    /// UDP payload of a packet in bytes.
    #[must_use]
    pub fn datagram(&self) -> usize {
        self.payload + if self.rtp.is_some() { crate::RTP_LEN } else { 0 }
    }

    /// What RFC 3550 5.1 wants at random: sequence number, time stamp, source identifier.
    fn origins(&self) -> (u16, u32, u32) {
        let mut random = Random::stream(self.seed, "voice.rtp");
        (random.bits() as u16, random.bits() as u32, random.bits() as u32)
    }

    /// The payload of the packet with this number.
    fn write(&self, number: u64, out: &mut Vec<u8>) {
        let begin = out.len();
        match &self.frames {
            Some(frames) => out.extend(frames.packet(number, self.payload)),
            None => out.extend(filler(self.seed, number, self.payload)),
        }
        if self.rtp.is_none() && self.payload >= 2 {
            out[begin..begin + 2].copy_from_slice(&(number as u16).to_be_bytes());
        }
    }
}

/// The sending end of a voice flow: a packet each `every` while somebody talks.
#[derive(Debug)]
pub struct VoiceSource {
    config: VoiceConfig,
    speech: Speech,
    sending: Range<Time>,
    /// When it was first told to begin: RTP's time stamps count from there.
    origin: Option<Time>,
    /// Packet times since the start.
    slot: u64,
    talking: bool,
    sent: Vec<Sent>,
}

impl VoiceSource {
    /// A source that sends once it is told to begin.
    #[must_use]
    pub fn new(config: VoiceConfig) -> Self {
        let speech = Speech::new(&config);
        Self { config, speech, sending: Time::MAX..Time::MAX, origin: None, slot: 0, talking: false, sent: Vec::new() }
    }

    /// Sends nothing more until it is told to begin again.
    pub(crate) fn stop(&mut self, now: Time) {
        self.sending.end = self.sending.end.min(now);
    }

    fn due(&self) -> Time {
        self.sending.start + self.config.every.times(self.slot)
    }
}

impl Application for VoiceSource {
    /// May be called again when the last time is over, as for the next call: numbers go on, and a talk
    /// spurt begins.
    fn begin(&mut self, sending: Range<Time>) {
        self.origin.get_or_insert(sending.start);
        (self.sending, self.slot, self.talking) = (sending, 0, false);
        self.speech.restart();
        self.skip_pauses();
    }

    fn receive(&mut self, _: Time, _: usize, _: &[u8]) {}

    fn send(&mut self, now: Time, payload: &mut Vec<u8>) -> Option<usize> {
        let due = self.due();
        if due > now || due >= self.sending.end {
            return None;
        }
        let number = self.sent.len() as u64;
        let first = !self.talking;
        if let Some(payload_type) = self.config.rtp {
            let (sequence, timestamp, ssrc) = self.config.origins();
            let elapsed =
                u128::from(due.since(self.origin.unwrap_or(due)).as_nanos()) * u128::from(CLOCK) / 1_000_000_000;
            let rtp = Rtp {
                // RFC 3551 4.1: after a silence; a flow without silences has none.
                marker: first && self.config.talk.is_some(),
                payload_type,
                sequence: sequence.wrapping_add(number as u16),
                timestamp: timestamp.wrapping_add(elapsed as u32),
                ssrc,
            };
            payload.extend(rtp.bytes());
        }
        self.config.write(number, payload);
        self.sent.push(Sent { at: now, bytes: payload.len() as u32, first });
        self.talking = true;
        self.slot += 1;
        self.skip_pauses();
        Some(0)
    }

    fn deadline(&self) -> Option<Time> {
        Some(self.due()).filter(|due| *due < self.sending.end)
    }

    fn sent(&self) -> &[Sent] {
        &self.sent
    }
}

impl VoiceSource {
    /// Goes on to the next packet time at which somebody talks.
    fn skip_pauses(&mut self) {
        while self.due() < self.sending.end && !self.speech.talks_at(self.config.every.times(self.slot)) {
            self.talking = false;
            self.slot += 1;
        }
    }
}

/// Who talks when.
#[derive(Debug)]
struct Speech {
    talk: Option<Talk>,
    random: Random,
    talking: bool,
    until: Span,
}

impl Speech {
    fn new(config: &VoiceConfig) -> Self {
        let random = Random::stream(config.seed, "voice.talk");
        Self { talk: config.talk, random, talking: true, until: Span::ZERO }
    }

    /// Begins with a spurt.
    fn restart(&mut self) {
        self.talking = true;
        if let Some(talk) = self.talk {
            self.until = self.exponential(talk.spurt);
        }
    }

    /// Asked for times that do not decrease.
    fn talks_at(&mut self, time: Span) -> bool {
        let Some(talk) = self.talk else { return true };
        while self.until <= time {
            self.talking = !self.talking;
            let length = self.exponential(if self.talking { talk.spurt } else { talk.pause });
            self.until += length;
        }
        self.talking
    }

    fn exponential(&mut self, mean: Span) -> Span {
        let nanos = -libm::log(1.0 - self.random.uniform()) * mean.as_nanos() as f64;
        Span::from_nanos((nanos as u64).max(1))
    }
}

/// The receiving end of a voice flow. It knows what was sent, and so whether it is whole.
#[derive(Debug)]
pub struct VoiceSink {
    config: VoiceConfig,
    numbers: Unwrap,
    received: Vec<Received>,
}

impl VoiceSink {
    /// The other end of a [`VoiceSource`] of the same configuration.
    #[must_use]
    pub fn new(config: VoiceConfig) -> Self {
        Self { config, numbers: Unwrap::default(), received: Vec::new() }
    }

    fn number(&mut self, datagram: &[u8]) -> Option<u64> {
        let low = match self.config.rtp {
            Some(payload_type) => {
                let (sequence, _, ssrc) = self.config.origins();
                let (rtp, _) = Rtp::read(datagram)?;
                // Another source at this port is none of ours.
                (rtp.ssrc == ssrc && rtp.payload_type == payload_type).then_some(rtp.sequence.wrapping_sub(sequence))?
            }
            None => u16::from_be_bytes(*datagram.first_chunk()?),
        };
        self.numbers.number(low)
    }
}

impl Application for VoiceSink {
    fn begin(&mut self, _: Range<Time>) {}

    fn receive(&mut self, now: Time, _: usize, datagram: &[u8]) {
        let Some(number) = self.number(datagram) else { return };
        let mut expected = Vec::with_capacity(self.config.payload);
        self.config.write(number, &mut expected);
        let header = self.config.datagram() - self.config.payload;
        let intact = datagram.get(header..) == Some(&expected[..]);
        keep(&mut self.received, Received { number, at: now, bytes: datagram.len() as u32, intact });
    }

    fn send(&mut self, _: Time, _: &mut Vec<u8>) -> Option<usize> {
        None
    }

    fn deadline(&self) -> Option<Time> {
        None
    }

    fn received(&self) -> &[Received] {
        &self.received
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn config(name: &str, rtp: Option<u8>) -> VoiceConfig {
        let vocoder = Vocoder::named(name).unwrap();
        let frames = vocoder.frames as usize;
        VoiceConfig {
            payload: vocoder.frame_bits.div_ceil(8) as usize * frames,
            every: vocoder.frame.times(frames as u64),
            rtp,
            talk: None,
            frames: None,
            seed: 7,
        }
    }

    fn second(n: u64) -> Time {
        Time::ZERO + Span::from_secs(n)
    }

    fn all(source: &mut VoiceSource) -> Vec<(Time, Vec<u8>)> {
        let mut sent = Vec::new();
        while let Some(at) = source.deadline() {
            let mut payload = Vec::new();
            assert_eq!(source.send(at, &mut payload), Some(0));
            sent.push((at, payload));
        }
        sent
    }

    #[test]
    fn melp_has_the_sizes_and_times_of_its_standard() {
        let melp = config("melp-1200", None);
        assert_eq!((melp.datagram(), melp.every), (33, Span::from_micros(202_500)));
        let mut source = VoiceSource::new(melp);
        source.begin(second(1)..second(11));
        let sent = all(&mut source);
        assert_eq!(sent.len(), 50);
        assert!(sent.iter().all(|(_, payload)| payload.len() == 33));
        assert_eq!(sent[1].0.since(sent[0].0), Span::from_micros(202_500));
        let melp = config("melp-2400", None);
        assert_eq!((melp.datagram(), melp.every), (63, Span::from_micros(202_500)));
    }

    #[test]
    fn a_receiver_knows_its_packets_and_whether_they_are_whole() {
        for rtp in [None, Some(96)] {
            let mut source = VoiceSource::new(config("melp-1200", rtp));
            let mut sink = VoiceSink::new(config("melp-1200", rtp));
            source.begin(second(0)..second(20_000));
            // More than 16 bits count.
            for (at, mut payload) in all(&mut source) {
                if at == second(0) + Span::from_micros(202_500).times(5) {
                    *payload.last_mut().unwrap() ^= 1;
                }
                sink.receive(at, 0, &payload);
            }
            sink.receive(second(20_001), 0, &[1]);
            let seen = sink.received();
            assert_eq!(seen.len(), source.sent().len());
            assert!(seen.iter().zip(0..).all(|(got, number)| got.number == number && got.intact == (number != 5)));
        }
    }

    #[test]
    fn talk_spurts_leave_gaps_and_mark_what_follows_them() {
        let mut talking = config("codec2-1200", Some(97));
        talking.talk = Some(P59);
        let mut source = VoiceSource::new(talking.clone());
        source.begin(second(0)..second(2_000));
        let sent = all(&mut source);
        let share = sent.len() as f64 * talking.every.as_secs_f64() / 2_000.0;
        // P.59: 38.5 % of the time.
        assert!((0.34..0.43).contains(&share), "{share}");
        let mut last: Option<(Time, Rtp)> = None;
        for (at, payload) in sent {
            let (rtp, _) = Rtp::read(&payload).unwrap();
            if let Some((before, last)) = last {
                let gap = at.since(before);
                assert_eq!(rtp.marker, gap > talking.every);
                assert_eq!(rtp.sequence, last.sequence.wrapping_add(1));
                assert_eq!(u64::from(rtp.timestamp.wrapping_sub(last.timestamp)), gap.as_nanos() * 8 / 1_000_000);
            }
            last = Some((at, rtp));
        }
    }

    #[test]
    fn real_frames_are_sent_in_turn() {
        let mut config = config("codec2-1200", Some(97));
        let octets: Vec<u8> = (0..30).collect();
        let text: String = octets.iter().map(|byte| alloc::format!("{byte:02x}\n")).collect();
        config.frames = Frames::parse(&text);
        let mut source = VoiceSource::new(config);
        source.begin(second(0)..second(1));
        let starts: Vec<u8> = all(&mut source).iter().map(|(_, payload)| payload[crate::RTP_LEN]).collect();
        // 12 bytes a packet: two whole ones in 30 bytes.
        assert_eq!(starts[..4], vec![0, 12, 0, 12]);
        assert_eq!(Frames::parse("0g"), None);
        assert_eq!(Frames::parse("123"), None);
        assert_eq!(Frames::parse(" \n"), None);
    }
}
