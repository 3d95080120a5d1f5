//! Captures of what a generator sends and receives, as pcapng, written by a thread of their own.
//!
//! The threads that handle packets copy each into a ring and go on: no lock, no system call, no waiting. When the
//! writer cannot keep up and a ring is full, frames are left out of the capture and counted; the traffic itself
//! is not slowed down.

mod ring;

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use engine::Span;
use wire::pcapng::{Interface, Writer};

use crate::clock::{Epoch, Instant};
use ring::{Consumer, Producer};

pub use wire::pcapng::Direction;

/// How a capture is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Bytes kept of a frame, at most; 0 for all.
    pub snap_len: u32,
    /// Bytes of the ring of each [`Tap`].
    pub ring: usize,
    /// Bytes of the file, at most.
    pub limit: u64,
}

impl Default for Options {
    /// Whole frames, 32 MiB a ring, 8 GiB of file.
    fn default() -> Self {
        Self { snap_len: 0, ring: 32 << 20, limit: 8 << 30 }
    }
}

/// A capture that is being written. Dropping it ends it as [`Self::finish`] does, and nobody learns of errors.
#[derive(Debug)]
pub struct Capture {
    /// There until the end.
    thread: Option<JoinHandle<io::Result<Written>>>,
    shared: Arc<Shared>,
}

/// Where one thread puts the frames it handles.
pub struct Tap {
    ring: Producer,
    snap_len: usize,
    shared: Arc<Shared>,
}

/// What came of a capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Frames in the file.
    pub frames: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// Frames left out because a ring was full: the writer could not keep up.
    pub overflowed: u64,
    /// Frames left out because the file had grown to its limit.
    pub beyond_limit: u64,
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    overflowed: AtomicU64,
}

impl Capture {
    /// Starts a capture of the named interfaces into `out` (unbuffered), with a tap for each of `taps` threads.
    ///
    /// # Errors
    ///
    /// If the start of the file cannot be written, or there is no memory or thread for it.
    pub fn start(
        mut out: impl Write + Send + 'static,
        application: &str,
        interfaces: &[&str],
        taps: usize,
        options: &Options,
    ) -> io::Result<(Self, Vec<Tap>)> {
        let mut start = Vec::with_capacity(CHUNK);
        let mut writer = Writer::start(&mut start, application, "");
        let interfaces = interfaces.iter().map(|name| writer.interface(&mut start, name, options.snap_len)).collect();
        out.write_all(&start)?;
        let written = Written { bytes: start.len() as u64, ..Written::default() };
        start.clear();
        let shared = Arc::new(Shared::default());
        let snap_len = if options.snap_len == 0 { usize::MAX } else { options.snap_len as usize };
        let (mut producers, mut rings) = (Vec::new(), Vec::new());
        for _ in 0..taps {
            let (producer, consumer) = ring::ring(options.ring)?;
            producers.push(Tap { ring: producer, snap_len, shared: Arc::clone(&shared) });
            rings.push(consumer);
        }
        let work = Work { out, writer, interfaces, rings, chunk: start, written, limit: options.limit };
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("capture".into()).spawn(move || work.run(&theirs))?;
        Ok((Self { thread: Some(thread), shared }, producers))
    }

    /// Frames left out so far because the writer could not keep up.
    #[must_use]
    pub fn overflowed(&self) -> u64 {
        self.shared.overflowed.load(Ordering::Relaxed)
    }

    /// Whether it ended before its time, since the file could not be written; [`Self::finish`] tells why.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Writes what the taps have, and ends. Taps should not be used any more.
    ///
    /// # Errors
    ///
    /// If the file could not be written, now or before: the disk is full, for instance. What was written until
    /// then can be read.
    pub fn finish(mut self) -> io::Result<Written> {
        self.end()
    }

    fn end(&mut self) -> io::Result<Written> {
        self.shared.stop.store(true, Ordering::Release);
        let Some(thread) = self.thread.take() else { return Ok(Written::default()) };
        thread.thread().unpark();
        let mut written = thread.join().unwrap_or_else(|_| Err(io::Error::other("the writing thread panicked")))?;
        written.overflowed = self.overflowed();
        Ok(written)
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

impl Tap {
    /// Records a frame of the interface (an index into those given to [`Capture::start`]) at `at`. Never waits.
    #[inline]
    pub fn record(&mut self, interface: u16, direction: Direction, at: Instant, frame: &[u8]) {
        let kept = &frame[..frame.len().min(self.snap_len)];
        let head = Head { at: at.as_nanos(), original: frame.len() as u32, interface, direction };
        if !self.ring.push(&head.emit(), kept) {
            self.shared.overflowed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl std::fmt::Debug for Tap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tap").finish_non_exhaustive()
    }
}

/// What stands in front of a frame in a ring.
#[derive(Clone, Copy)]
struct Head {
    at: u64,
    original: u32,
    interface: u16,
    direction: Direction,
}

impl Head {
    const LEN: usize = 16;

    fn emit(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&self.at.to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.original.to_ne_bytes());
        bytes[12..14].copy_from_slice(&self.interface.to_ne_bytes());
        bytes[14] = u8::from(self.direction == Direction::Inbound);
        bytes
    }

    fn parse(bytes: &[u8; Self::LEN]) -> Self {
        let direction = if bytes[14] == 1 { Direction::Inbound } else { Direction::Outbound };
        Self {
            at: u64::from_ne_bytes(*bytes.first_chunk().expect("16 bytes have a first 8")),
            original: u32::from_ne_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]),
            interface: u16::from_ne_bytes([bytes[12], bytes[13]]),
            direction,
        }
    }
}

/// Bytes that are written at once.
const CHUNK: usize = 1 << 20;
/// Frames wait so long for older ones of other taps. A frame that is recorded later than that (its thread was
/// held up) stands behind younger ones in the file.
const PATIENCE: Span = Span::from_millis(5);
/// How often the writer looks.
const LOOK: Duration = Duration::from_millis(1);

/// The thread's work.
struct Work<W> {
    out: W,
    writer: Writer,
    interfaces: Vec<Interface>,
    rings: Vec<Consumer>,
    chunk: Vec<u8>,
    written: Written,
    limit: u64,
}

impl<W: Write> Work<W> {
    fn run(mut self, shared: &Shared) -> io::Result<Written> {
        // One reading of the clocks for all, so that times have no steps when somebody sets the clock.
        let epoch = Epoch::now();
        let unix = epoch.unix_nanos().wrapping_sub(epoch.instant(engine::Time::ZERO).as_nanos());
        loop {
            // Acquire, and before the rings are looked at: what was recorded before the end is written.
            let stop = shared.stop.load(Ordering::Acquire);
            let result = self.drain(unix, stop).and_then(|()| self.write());
            if stop || result.is_err() {
                return result.map(|()| self.written);
            }
            std::thread::park_timeout(LOOK);
        }
    }

    /// Takes from the rings, oldest frames first.
    fn drain(&mut self, unix: u64, all: bool) -> io::Result<()> {
        let mut until = 0;
        loop {
            let heads = self.rings.iter_mut().enumerate().filter_map(|(index, ring)| Some((at(ring.peek()?), index)));
            let Some((oldest, index)) = heads.min() else { return Ok(()) };
            if !all && oldest > until {
                until = Instant::now().as_nanos().saturating_sub(PATIENCE.as_nanos());
                if oldest > until && !self.rings.iter().any(Consumer::is_filling) {
                    return Ok(());
                }
            }
            self.take(index, unix);
            if self.chunk.len() >= CHUNK - (1 << 17) {
                self.write()?;
            }
        }
    }

    fn take(&mut self, ring: usize, unix: u64) {
        let ring = &mut self.rings[ring];
        if let Some((head, frame)) = ring.peek().and_then(<[u8]>::split_first_chunk) {
            let head = Head::parse(head);
            let before = self.chunk.len();
            if let Some(&interface) = self.interfaces.get(usize::from(head.interface)) {
                let at = head.at.wrapping_add(unix);
                self.writer.packet_with_direction(&mut self.chunk, interface, at, head.original, frame, head.direction);
            }
            if self.written.bytes + self.chunk.len() as u64 > self.limit {
                self.chunk.truncate(before);
                self.written.beyond_limit += 1;
            } else {
                self.written.frames += 1;
            }
        }
        ring.pop();
    }

    fn write(&mut self) -> io::Result<()> {
        self.out.write_all(&self.chunk)?;
        self.written.bytes += self.chunk.len() as u64;
        self.chunk.clear();
        Ok(())
    }
}

/// The time of a record.
fn at(record: &[u8]) -> u64 {
    record.first_chunk().map_or(0, |head| Head::parse(head).at)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use engine::Time;

    use super::*;

    #[derive(Clone, Default)]
    struct Shelf(Arc<Mutex<Vec<u8>>>);

    impl Write for Shelf {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Type and body of each block.
    fn blocks(mut bytes: &[u8]) -> Vec<(u32, &[u8])> {
        let mut found = Vec::new();
        while !bytes.is_empty() {
            let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
            let (kind, length) = (word(0), word(4) as usize);
            found.push((kind, &bytes[8..length - 4]));
            bytes = &bytes[length..];
        }
        found
    }

    #[test]
    fn frames_of_two_threads_are_written_in_the_order_of_their_times() {
        let shelf = Shelf::default();
        let options = Options { snap_len: 100, ..Options::default() };
        let (capture, mut taps) = Capture::start(shelf.clone(), "test", &["n3", "n6"], 2, &options).unwrap();
        let epoch = Epoch::now();
        for number in 0..1000u16 {
            let frame = [number.to_be_bytes()[1]; 200];
            let length = 60 + usize::from(number % 90);
            taps[usize::from(number % 3 == 0)].record(
                number % 2,
                if number % 2 == 0 { Direction::Outbound } else { Direction::Inbound },
                epoch.instant(Time::from_nanos(u64::from(number) * 1000)),
                &frame[..length],
            );
        }
        let written = capture.finish().unwrap();
        let bytes = shelf.0.lock().unwrap();
        assert_eq!(written, Written { frames: 1000, bytes: bytes.len() as u64, ..Written::default() });
        let blocks = blocks(&bytes);
        let kinds: Vec<u32> = blocks.iter().take(4).map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, [0x0a0d_0d0a, 1, 1, 6]);
        let mut first = None;
        for (number, (_, body)) in blocks[3..].iter().enumerate() {
            let word = |at: usize| u32::from_le_bytes(body[at..at + 4].try_into().unwrap());
            let time = u64::from(word(4)) << 32 | u64::from(word(8));
            assert_eq!(time - *first.get_or_insert(time), number as u64 * 1000);
            let length = 60 + number % 90;
            assert_eq!((word(0) as usize, word(12) as usize, word(16) as usize), (number % 2, length.min(100), length));
            assert_eq!(body[20], number as u8);
            // The direction's option is last.
            assert_eq!(body[body.len() - 4], [2, 1][number % 2]);
        }
        assert_eq!(blocks.len(), 1003);
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        let shelf = Shelf::default();
        let options = Options { limit: 10_000, ring: 1 << 16, ..Options::default() };
        let (capture, mut taps) = Capture::start(shelf.clone(), "test", &["n3"], 1, &options).unwrap();
        for _ in 0..500 {
            taps[0].record(0, Direction::Outbound, Instant::now(), &[0; 1000]);
        }
        let written = capture.finish().unwrap();
        assert!(written.frames > 0 && written.bytes <= 10_000, "{written:?}");
        assert_eq!(written.frames + written.beyond_limit + written.overflowed, 500, "{written:?}");
    }

    #[test]
    fn a_full_disk_is_told() {
        struct Full(usize);
        impl Write for Full {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
                Ok(bytes.len())
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let (capture, mut taps) = Capture::start(Full(1000), "test", &["n3"], 1, &Options::default()).unwrap();
        taps[0].record(0, Direction::Inbound, Instant::now(), &[0; 1400]);
        while !capture.is_broken() {
            std::thread::yield_now();
        }
        assert_eq!(capture.finish().unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
