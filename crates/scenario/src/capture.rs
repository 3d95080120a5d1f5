//! Captures on disk: read packet by packet, or whole into a trace.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use engine::Span;
use traffic::replay::{Filter, LongGap, Trace, TraceError};
use wire::capture::{Captured, Problem, Reader, Step};

/// How much is read from disk at once.
const CHUNK: usize = 256 << 10;

/// A gap that is worth a note.
const LONG_GAP: Span = Span::from_secs(3_600);

/// What of a capture is wanted.
#[derive(Clone, Debug)]
pub struct CaptureOptions {
    /// Only packets that match.
    pub filter: Option<Filter>,
    /// Gaps between packets are made no longer than this.
    pub max_gap: Option<Span>,
    /// TCP segments longer than this, from their IP header on, are cut as hardware cuts them.
    pub longest: u32,
    /// The most memory for packets, in bytes.
    pub memory: usize,
}

/// A capture that was read into memory.
#[derive(Clone, Debug)]
pub struct Capture {
    /// Its packets.
    pub trace: Trace,
    /// Packets in the file.
    pub packets: u64,
    /// Packets that do not match the filter.
    pub filtered: u64,
    /// Packets without a time.
    pub untimed: u64,
    /// Gaps that were made shorter.
    pub gaps: LongGap,
    /// Where the file ends in the middle of a packet, if it does: what is before is there.
    pub cut_off: Option<u64>,
}

/// Why a capture cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The file cannot be read.
    #[error("{}: cannot be read: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is no capture, or not all of it.
    #[error("{}: at byte {at}: {problem}", .path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// Where the block begins.
        at: u64,
        /// What is wrong.
        problem: Problem,
    },
    /// It ends before the first packet could.
    #[error("{}: ends after {len} bytes, before its header does; capture it again", .path.display())]
    TooShort {
        /// The file.
        path: PathBuf,
        /// Its length in bytes.
        len: u64,
    },
    /// There is nothing to replay.
    #[error("{}: {}", .path.display(), why_empty(*.packets, *.filtered))]
    Empty {
        /// The file.
        path: PathBuf,
        /// Packets in the file.
        packets: u64,
        /// Packets that do not match the filter.
        filtered: u64,
    },
    /// It does not fit the memory.
    #[error("{}: {source}", .path.display())]
    Trace {
        /// The file.
        path: PathBuf,
        /// Why.
        source: TraceError,
    },
}

impl Default for CaptureOptions {
    /// Everything, as it was captured, but no TCP segment over 1,500 bytes; in at most 1 GiB.
    fn default() -> Self {
        Self { filter: None, max_gap: None, longest: 1_500, memory: 1 << 30 }
    }
}

impl Capture {
    /// Reads the capture at `path`. A capture that ends in the middle of a packet is read up to there.
    ///
    /// # Errors
    ///
    /// It is no capture, it is damaged, nothing in it can be replayed, or it is too large.
    pub fn read(path: &Path, options: &CaptureOptions) -> Result<Self, CaptureError> {
        let mut packets = Packets::open(path)?;
        let mut capture = Self {
            trace: Trace::new(options.memory).cutting(options.longest),
            packets: 0,
            filtered: 0,
            untimed: 0,
            gaps: LongGap::default(),
            cut_off: None,
        };
        while let Some(packet) = packets.next()? {
            capture.take(&packet, options).map_err(|source| CaptureError::Trace { path: path.to_owned(), source })?;
        }
        capture.cut_off = packets.cut_off();
        if capture.trace.is_empty() {
            let (packets, filtered) = (capture.packets, capture.filtered);
            return Err(CaptureError::Empty { path: path.to_owned(), packets, filtered });
        }
        capture.gaps = options.max_gap.map(|longest| capture.trace.cap_gaps(longest)).unwrap_or_default();
        Ok(capture)
    }

    /// What somebody who replays it should know: packets left out or changed, and strange times.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let (trace, left) = (&self.trace, self.trace.left());
        let packets = |count: u64| if count == 1 { "1 packet".to_owned() } else { format!("{count} packets") };
        let mut notes = Vec::new();
        if let Some(at) = self.cut_off {
            notes.push(format!("ends in the middle of a packet, at byte {at}; what is before is used"));
        }
        for (count, why) in [
            (left.not_ip, "left out: not IP"),
            (left.cut_in_headers, "left out: captured within its headers only; capture more of each (`-s`)"),
            (left.bad_length, "left out: its length is not what it says"),
            (self.untimed, "left out: without a time"),
            (trace.cut(), "not captured whole: replayed with zeros for the rest"),
            (trace.resealed(), "with a wrong checksum, as hardware was to make it or the capture was cut: made anew"),
            (trace.cut_apart(), "captured before hardware cut them: cut into segments as it does"),
            (trace.too_long(), "longer than 1,500 bytes or what was asked for, and not TCP: not cut"),
            (trace.out_of_order(), "with a time before that of the one that precedes it: replayed right after it"),
        ] {
            if count > 0 {
                notes.push(format!("{} {why}", packets(count)));
            }
        }
        if trace.clock_set() > 0 {
            notes.push(format!("its clock was set back {} times: time goes on from there", trace.clock_set()));
        }
        if self.gaps.count > 0 {
            notes.push(format!(
                "{} gaps made shorter, by {} s together",
                self.gaps.count,
                self.gaps.removed.as_secs_f64()
            ));
        }
        let (gap, after) = trace.longest_gap();
        if gap > LONG_GAP {
            notes.push(format!(
                "nothing happens for {} s before packet {}; cap gaps with `max_gap` to leave that out",
                gap.as_secs_f64(),
                after + 1
            ));
        }
        notes
    }

    fn take(&mut self, packet: &Captured<'_>, options: &CaptureOptions) -> Result<(), TraceError> {
        self.packets += 1;
        let Some(unix_nanos) = packet.unix_nanos else {
            self.untimed += 1;
            return Ok(());
        };
        let network = packet.network().unwrap_or(packet.bytes.len());
        let bytes = &packet.bytes[network..];
        if options.filter.as_ref().is_some_and(|filter| !filter.matches(bytes, packet.length)) {
            self.filtered += 1;
            return Ok(());
        }
        self.trace.push(unix_nanos, bytes, packet.length.saturating_sub(network as u32)).map(drop)
    }
}

/// The packets of a capture one after the other; holds one block at a time.
#[derive(Debug)]
pub struct Packets {
    path: PathBuf,
    file: File,
    reader: Reader,
    buffer: Vec<u8>,
    /// What of the buffer is used, and where in the file that is.
    used: usize,
    at: u64,
    cut_off: Option<u64>,
}

impl Packets {
    /// Opens the capture at `path`.
    ///
    /// # Errors
    ///
    /// It cannot be read, or begins like no capture.
    pub fn open(path: &Path) -> Result<Self, CaptureError> {
        let io = |source| CaptureError::Io { path: path.to_owned(), source };
        let file = File::open(path).map_err(io)?;
        let mut packets = Self {
            path: path.to_owned(),
            file,
            reader: Reader::new(),
            buffer: Vec::new(),
            used: 0,
            at: 0,
            cut_off: None,
        };
        // The header, so that what is no capture is told at once.
        match packets.step()? {
            Found::Other(len) => packets.skip(len),
            Found::End => {
                let len = packets.buffer.len() as u64;
                return Err(CaptureError::TooShort { path: path.to_owned(), len });
            }
            Found::Packet => {}
        }
        Ok(packets)
    }

    /// The next packet, or `None` at the end.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or is damaged here.
    #[expect(clippy::should_implement_trait, reason = "the packet is borrowed from the buffer")]
    pub fn next(&mut self) -> Result<Option<Captured<'_>>, CaptureError> {
        loop {
            match self.step()? {
                Found::Other(len) => self.skip(len),
                Found::End => return Ok(None),
                Found::Packet => break,
            }
        }
        // Read again: a packet of the step before would keep the buffer borrowed through the loop.
        let start = self.used;
        match self.reader.read(&self.buffer[start..]) {
            Ok(Step::Packet(packet, len)) => {
                self.used += len;
                self.at += len as u64;
                Ok(Some(packet))
            }
            _ => Ok(None),
        }
    }

    /// Name of the interface of a packet, as the capture has it now.
    #[must_use]
    pub fn interface_name(&self, interface: u32) -> &str {
        self.reader.interface_name(interface)
    }

    /// Where the file ends in the middle of a block, if it does; known once [`Packets::next`] gives `None`.
    #[must_use]
    pub const fn cut_off(&self) -> Option<u64> {
        self.cut_off
    }

    /// Looks at the next block, and reads from the file until it is there.
    fn step(&mut self) -> Result<Found, CaptureError> {
        loop {
            let rest = &self.buffer[self.used..];
            let step = self.reader.read(rest).map_err(|problem| CaptureError::Format {
                path: self.path.clone(),
                at: self.at,
                problem,
            })?;
            let needs = match step {
                Step::Packet(..) => return Ok(Found::Packet),
                Step::Other(len) => return Ok(Found::Other(len)),
                Step::Needs(len) => len,
            };
            if !self.refill(needs)? {
                let is_whole = self.buffer.len() == self.used;
                self.cut_off = (!is_whole).then_some(self.at);
                return Ok(Found::End);
            }
        }
    }

    fn skip(&mut self, len: usize) {
        self.used += len;
        self.at += len as u64;
    }

    /// Reads on until `needs` bytes are there; false if the file ends before.
    fn refill(&mut self, needs: usize) -> Result<bool, CaptureError> {
        self.buffer.drain(..self.used);
        self.used = 0;
        // Memory grows with what the file has, not with what it says.
        let wanted = needs.saturating_sub(self.buffer.len()).max(CHUNK);
        let read = (&mut self.file).take(wanted as u64).read_to_end(&mut self.buffer);
        read.map_err(|source| CaptureError::Io { path: self.path.clone(), source })?;
        Ok(self.buffer.len() >= needs)
    }
}

/// What stands at the start of the buffer.
enum Found {
    Packet,
    Other(usize),
    End,
}

fn why_empty(packets: u64, filtered: u64) -> String {
    match (packets, filtered) {
        (0, _) => "the capture has no packets".to_owned(),
        (packets, filtered) if packets == filtered => {
            format!("none of the {packets} packets matches the filter")
        }
        (packets, 0) => format!("none of the {packets} packets is IP with whole headers"),
        (packets, filtered) => {
            format!("of {packets} packets {filtered} do not match the filter, and no other is IP with whole headers")
        }
    }
}
