//! Packet pairs: two datagrams back to back, again and again over several sizes, and what their
//! separation at the receiver says of the line between (Prasad, Dovrolis, Murray, Claffy: Bandwidth
//! Estimation, IEEE Network 17(6), 2003).
//!
//! A line of rate C holds the second of a pair for as long as it takes: it leaves 8 S / C after the
//! first. What a line or an adapter adds to each packet, or takes from it (framing, compressed
//! headers), moves every separation by the same time and so falsifies the estimate of any single
//! size, but not the slope of separation over size.

use alloc::vec::Vec;
use core::ops::Range;

use engine::{Random, Span, Time};

use crate::application::{Application, Passage, Received, Sent, keep};

mod message;
mod slope;

pub use message::{Message, PAIR_LEN, PairHeader};
pub use slope::{DISAGREEMENT, Separation, SizeEstimate, Slope};

/// A flow of packet pairs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairsConfig {
    /// IP datagrams' sizes in bytes, each sent in its turn.
    pub sizes: Vec<u16>,
    /// How often all sizes are gone through.
    pub rounds: u16,
    /// From one pair to the next, on average: long enough for the line to be idle again. Each leaves up to a
    /// sixteenth of it later: pairs in step with other traffic would all meet it at the same phase.
    pub every: Span,
    /// Bytes of the IP and UDP headers.
    pub header: u16,
    /// Zeros behind the header instead of bytes that do not compress.
    pub zeros: bool,
    /// Tells this flow's datagrams from others'.
    pub session: u32,
    /// Seed of the first pair's time.
    pub seed: u64,
}

/// The first pair opens what the path keeps of a flow (header compression contexts, neighbours), and is not
/// measured.
pub const OPENING: u64 = 1;
/// By this part of the time between pairs one may leave later.
const SPREAD: u64 = 16;

impl PairsConfig {
    /// Pairs in all, the opening one included.
    #[must_use]
    pub fn pairs(&self) -> u64 {
        OPENING + self.sizes.len() as u64 * u64::from(self.rounds)
    }

    /// UDP payload of a pair's datagrams.
    fn payload(&self, pair: u64) -> usize {
        let size = self.sizes[(pair.saturating_sub(OPENING) % self.sizes.len() as u64) as usize];
        usize::from(size.saturating_sub(self.header)).max(PAIR_LEN)
    }
}

/// The sending end of packet pairs.
#[derive(Debug)]
pub struct PairsSource {
    config: PairsConfig,
    /// By how much the next pair leaves later, as a share of 2^64.
    later: u64,
    sending: Range<Time>,
    /// When the next datagram is due; the second of a pair follows the first at once.
    due: Option<Time>,
    sent: Vec<Sent>,
}

impl PairsSource {
    /// A source that sends once it is told to begin.
    #[must_use]
    pub fn new(config: PairsConfig) -> Self {
        let later = Random::stream(config.seed, "pairs").bits();
        Self { config, later, sending: Time::MAX..Time::MAX, due: None, sent: Vec::new() }
    }

    /// When the next pair is due. Multiples of the golden ratio fill an interval more evenly than chance (Weyl's
    /// sequence): a few pairs meet other traffic at phases that lie well apart.
    fn draw(&mut self) -> Option<Time> {
        let pair = self.sent.len() as u64 / 2;
        let every = self.config.every;
        let later = (u128::from(every.as_nanos() / SPREAD) * u128::from(self.later)) >> 64;
        let later = Span::from_nanos(later as u64);
        self.later = self.later.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let due = self.sending.start + every.times(pair) + later;
        (pair < self.config.pairs() && due < self.sending.end).then_some(due)
    }
}

impl Application for PairsSource {
    fn begin(&mut self, sending: Range<Time>) {
        self.sending = sending;
        self.due = self.draw();
    }

    fn receive(&mut self, _: Time, _: usize, _: &[u8]) {}

    fn send(&mut self, now: Time, payload: &mut Vec<u8>) -> Option<usize> {
        self.due.filter(|due| *due <= now)?;
        let (pair, second) = (self.sent.len() as u64 / 2, self.sent.len() as u64 % 2 == 1);
        let header = PairHeader { session: self.config.session, pair: pair as u16, second };
        header.write(self.config.payload(pair), self.config.zeros, payload);
        self.sent.push(Sent { at: now, bytes: payload.len() as u32, first: !second });
        if second {
            self.due = self.draw();
        }
        Some(0)
    }

    fn deadline(&self) -> Option<Time> {
        self.due
    }

    fn sent(&self) -> &[Sent] {
        &self.sent
    }
}

/// The receiving end of packet pairs.
#[derive(Debug)]
pub struct PairsSink {
    config: PairsConfig,
    received: Vec<Received>,
}

impl PairsSink {
    /// The other end of a [`PairsSource`] of the same configuration.
    #[must_use]
    pub fn new(config: PairsConfig) -> Self {
        Self { config, received: Vec::new() }
    }
}

impl Application for PairsSink {
    fn begin(&mut self, _: Range<Time>) {}

    fn receive(&mut self, now: Time, _: usize, datagram: &[u8]) {
        let Some(Message::Pair(header)) = Message::read(datagram) else { return };
        if header.session != self.config.session {
            return;
        }
        let pair = u64::from(header.pair);
        let mut expected = Vec::new();
        header.write(self.config.payload(pair), self.config.zeros, &mut expected);
        let (number, bytes) = (pair * 2 + u64::from(header.second), datagram.len() as u32);
        keep(&mut self.received, Received { number, at: now, bytes, intact: datagram == expected });
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

/// The separations among a flow's passages, but for the opening pair; `header` is the length of the IP and
/// UDP headers.
#[must_use]
pub fn separations(passages: &[Passage], header: u32) -> Vec<Separation> {
    let measured = passages.iter().position(|passage| passage.number >= OPENING * 2).unwrap_or(passages.len());
    let pairs = passages[measured..].windows(2);
    let whole = pairs.filter(|two| two[0].sent.first && two[1].number == two[0].number + 1);
    whole
        .filter_map(|two| {
            let (first, second) = (two[0].arrived?, two[1].arrived?);
            let in_order = two.iter().all(|p| p.intact && p.copies == 0) && first < second;
            in_order.then(|| Separation { size: two[1].sent.bytes + header, apart: second.since(first) })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::application::passages;
    use alloc::vec;

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_millis(ms)
    }

    fn config() -> PairsConfig {
        let (rounds, every) = (2, Span::from_secs(5));
        PairsConfig { sizes: vec![60, 400, 1_400], rounds, every, header: 48, zeros: false, session: 9, seed: 1 }
    }

    #[test]
    fn pairs_go_back_to_back_and_are_known_again() {
        let (mut source, mut sink) = (PairsSource::new(config()), PairsSink::new(config()));
        source.begin(at(1_000)..at(60_000));
        let mut sent = Vec::new();
        while let Some(now) = source.deadline() {
            let mut payload = Vec::new();
            assert_eq!(source.send(now, &mut payload), Some(0));
            sink.receive(now, 0, &payload);
            sent.push((now, payload.len()));
        }
        // The opening pair, and two rounds of three sizes.
        assert_eq!(sent.len(), 14);
        let payloads: Vec<usize> = sent.iter().map(|(_, payload)| *payload).collect();
        assert_eq!(payloads[..8], [12, 12, 12, 12, 352, 352, 1_352, 1_352]);
        let later: Vec<Span> =
            sent.iter().step_by(2).zip(0..).map(|((t, _), n)| t.since(at(1_000 + n * 5_000))).collect();
        assert!(later.iter().all(|later| *later <= Span::from_micros(312_500)), "{later:?}");
        assert!(later.windows(2).all(|two| two[0] != two[1]), "pairs are in step: {later:?}");
        assert!(sent.chunks(2).all(|pair| pair[0].0 == pair[1].0));
        assert!(sink.received().iter().zip(0..).all(|(got, number)| got.number == number && got.intact));
        let mut other = Vec::new();
        Message::Pair(PairHeader { session: 8, pair: 0, second: false }).write(&mut other);
        sink.receive(at(0), 0, &other);
        assert_eq!(sink.received().len(), 14);
    }

    #[test]
    fn a_pair_that_is_not_whole_says_nothing() {
        let sent: Vec<Sent> = (0..10).map(|n| Sent { at: at(n), bytes: 100, first: n % 2 == 0 }).collect();
        let arrive = |number, ms| Received { number, at: at(ms), bytes: 100, intact: true };
        // The first one opens. The third pair lost its second, the fourth came turned round, of the fifth there
        // is a copy.
        let got = [(0, 1), (1, 9), (2, 10), (3, 30), (4, 40), (7, 50), (6, 60), (8, 70), (9, 80), (9, 81)];
        let got = got.map(|(n, ms)| arrive(n, ms));
        let seen = separations(&passages(&sent, &got), 28);
        assert_eq!(seen, [Separation { size: 128, apart: Span::from_millis(20) }]);
    }
}
