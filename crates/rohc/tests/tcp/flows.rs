//! Flows over a line that delivers everything, or loses some.

use std::time::Duration;

use rohc::{
    Compressor, CompressorConfig, DecompressError, Decompressor, DecompressorConfig, Mode, PacketType, Profile,
};

use crate::segments::{ACK, PSH, SYN, Segment, syn_options, timestamp};

/// Both ends of a channel.
pub(crate) struct Line {
    pub(crate) compressor: Compressor,
    pub(crate) decompressor: Decompressor,
    pub(crate) now: Duration,
    pub(crate) bidirectional: bool,
    rohc: Vec<u8>,
    out: Vec<u8>,
    feedback: Vec<u8>,
    pub(crate) before: usize,
    pub(crate) after: usize,
    pub(crate) packets: usize,
    pub(crate) formats: std::collections::BTreeMap<String, usize>,
}

impl Line {
    pub(crate) fn new(max_cid: u16, mode: Mode) -> Self {
        Self {
            compressor: Compressor::new(CompressorConfig { max_cid, ..Default::default() }),
            decompressor: Decompressor::new(DecompressorConfig { max_cid, mode, ..Default::default() }),
            now: Duration::ZERO,
            bidirectional: mode == Mode::Optimistic,
            rohc: Vec::new(),
            out: Vec::new(),
            feedback: Vec::new(),
            before: 0,
            after: 0,
            packets: 0,
            formats: Default::default(),
        }
    }

    /// Sends one packet; gives its format and what came of it at the other end.
    pub(crate) fn send(&mut self, packet: &[u8], is_lost: bool) -> (PacketType, Option<Result<(), DecompressError>>) {
        self.now += Duration::from_millis(20);
        self.rohc.clear();
        let info = self.compressor.compress(self.now, packet, &mut self.rohc).expect("an IP packet");
        assert_eq!(info.profile, Profile::Tcp, "{packet:02x?}");
        assert_eq!(self.rohc.len() - info.header_after, packet.len() - info.header_before);
        self.before += info.header_before;
        self.after += info.header_after;
        self.packets += 1;
        *self.formats.entry(info.packet.to_string()).or_default() += 1;
        if is_lost {
            return (info.packet, None);
        }
        self.out.clear();
        let result = self.decompressor.decompress(self.now, &self.rohc, &mut self.out);
        let result = result.map(|received| {
            assert_eq!(self.out, packet, "{}", info.packet);
            assert_eq!((received.packet, received.cid), (info.packet, info.cid));
            assert_eq!((received.header_before, received.header_after), (info.header_after, info.header_before));
        });
        if self.bidirectional {
            self.feedback.clear();
            self.decompressor.take_feedback(&mut self.feedback);
            self.compressor.feedback(self.now, &self.feedback).expect("feedback");
        }
        (info.packet, Some(result))
    }

    /// Sends a packet that must arrive.
    pub(crate) fn deliver(&mut self, segment: &Segment) -> PacketType {
        let (packet, result) = self.send(&segment.packet(), false);
        result.expect("a packet that is not lost").unwrap_or_else(|error| panic!("{packet}: {error}"));
        packet
    }

    pub(crate) fn mean(&self) -> f64 {
        self.after as f64 / self.packets as f64
    }
}

/// A download with timestamps: data from `a` to `b`, and acknowledgments the other way, with a clock of 1 ms.
pub(crate) struct Download {
    pub(crate) data: Segment,
    pub(crate) acks: Segment,
    clock: u32,
    since_ack: u32,
}

impl Download {
    pub(crate) fn new(data: Segment) -> Self {
        let acks = Segment { flow_label: data.flow_label ^ 0xabc, window: 4_000, ..data.reversed() };
        Self { data, acks, clock: 7_000_000, since_ack: 0 }
    }

    /// The next data segment of 1,448 octets `millis` after the last one, and the acknowledgment if it is time
    /// for one. The receiver's window breathes now and then.
    pub(crate) fn step(&mut self, millis: u32) -> (Segment, Option<Segment>) {
        self.clock += millis;
        self.data.payload = 1_448;
        self.data.options = timestamp(self.clock, self.clock - 40);
        self.data.flags = ACK | if self.since_ack % 8 == 7 { PSH } else { 0 };
        let data = self.data.clone();
        self.data.seq = self.data.seq.wrapping_add(1_448);
        self.data.id = self.data.id.wrapping_add(1);
        self.since_ack += 1;
        if self.since_ack % 2 == 1 {
            return (data, None);
        }
        self.acks.ack = self.data.seq;
        self.acks.options = timestamp(self.clock - 20 + 900_000, self.clock);
        self.acks.id = self.acks.id.wrapping_add(1);
        if self.since_ack.is_multiple_of(64) {
            self.acks.window ^= 0x40;
        }
        (data, Some(self.acks.clone()))
    }
}

/// Syn, handshake and 2,000 packets of a download each way; gives the mean header of both directions.
fn means(first: Segment, mode: Mode, millis: impl Fn(u32) -> u32) -> (Line, Line) {
    let (mut down, mut up) = (Line::new(15, mode), Line::new(15, mode));
    let mut download = Download::new(first);
    let syn = Segment { flags: SYN, ack: 0, options: syn_options(6_999_900, 0), ..download.acks.clone() };
    up.deliver(&syn);
    let syn_ack = Segment { flags: SYN | ACK, options: syn_options(6_999_920, 6_999_900), ..download.data.clone() };
    down.deliver(&syn_ack);
    let mut step = 0;
    while down.packets < 2_000 || up.packets < 2_000 {
        step += 1;
        let (data, ack) = download.step(millis(step));
        if down.packets < 2_000 {
            down.deliver(&data);
        }
        if let Some(ack) = ack
            && up.packets < 2_000
        {
            up.deliver(&ack);
        }
    }
    (down, up)
}

#[test]
fn mean_header_of_a_download_with_timestamps() {
    for mode in [Mode::Unidirectional, Mode::Optimistic] {
        // A narrow line (12 ms a packet) and a fast one, where several packets have one timestamp.
        // The target is 10.5 octets; what is reached is held.
        for (name, millis, limit) in [("narrow", 12, 7.5), ("fast", 0, 10.5)] {
            for first in [Segment::v6(), Segment::v4()] {
                let (down, up) = means(first.clone(), mode, |step| millis + u32::from(step % 5 == 0));
                let said = format!("{name} {mode:?} {}: {:?} {:?}", first.source, down.formats, up.formats);
                assert!(down.mean() <= limit && up.mean() <= limit, "{} {} {said}", down.mean(), up.mean());
            }
        }
    }
}
