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

use engine::{Span, Time};

use crate::application::{Application, Log, Passage, Received, Sent, filler};

/// Bytes of the header in a pair's datagrams: with IPv6's and UDP's 48 it fits into 60.
pub const PAIR_LEN: usize = 10;

/// "NP" in ASCII.
const MAGIC: u16 = 0x4e50;
/// Tells a pair's datagram from the messages of `narrows probe`, which begin alike.
const KIND: u8 = 1;

/// What stands at the start of each datagram of a pair: big-endian magic (u16), kind (u8), position in
/// the pair (u8), session (u32), number of the pair (u16).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairHeader {
    /// Tells one measurement from another.
    pub session: u32,
    /// Number of the pair, from 0.
    pub pair: u16,
    /// Whether it is the second of the two.
    pub second: bool,
}

impl PairHeader {
    /// The header at the start of `payload`, if there is one.
    #[must_use]
    pub fn read(payload: &[u8]) -> Option<Self> {
        let [m0, m1, kind, position, s0, s1, s2, s3, p0, p1] = *payload.first_chunk::<PAIR_LEN>()?;
        (u16::from_be_bytes([m0, m1]) == MAGIC && kind == KIND && position <= 1).then(|| Self {
            session: u32::from_be_bytes([s0, s1, s2, s3]),
            pair: u16::from_be_bytes([p0, p1]),
            second: position == 1,
        })
    }

    /// The header as it stands in a datagram.
    #[must_use]
    pub fn bytes(&self) -> [u8; PAIR_LEN] {
        let mut out = [0; PAIR_LEN];
        out[0..2].copy_from_slice(&MAGIC.to_be_bytes());
        out[2] = KIND;
        out[3] = u8::from(self.second);
        out[4..8].copy_from_slice(&self.session.to_be_bytes());
        out[8..10].copy_from_slice(&self.pair.to_be_bytes());
        out
    }

    /// Writes a datagram of `length` bytes: the header, then bytes that no compressor makes shorter, or
    /// zeros.
    pub fn write(&self, length: usize, zeros: bool, out: &mut Vec<u8>) {
        out.extend(self.bytes());
        let rest = length.saturating_sub(PAIR_LEN);
        if zeros {
            out.resize(PAIR_LEN + rest, 0);
        } else {
            let number = u64::from(self.pair) << 1 | u64::from(self.second);
            out.extend(filler(self.session.into(), number, rest));
        }
    }
}

/// A flow of packet pairs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairsConfig {
    /// IP datagrams' sizes in bytes, each sent in its turn.
    pub sizes: Vec<u16>,
    /// How often all sizes are gone through.
    pub rounds: u16,
    /// From one pair to the next: long enough for the line to be idle again.
    pub every: Span,
    /// Bytes of the IP and UDP headers.
    pub header: u16,
    /// Zeros behind the header instead of bytes that do not compress.
    pub zeros: bool,
    /// Tells this flow's datagrams from others'.
    pub session: u32,
}

impl PairsConfig {
    /// Pairs in all.
    #[must_use]
    pub fn pairs(&self) -> u64 {
        self.sizes.len() as u64 * u64::from(self.rounds)
    }

    /// UDP payload of a pair's datagrams.
    fn payload(&self, pair: u64) -> usize {
        let size = self.sizes[(pair % self.sizes.len() as u64) as usize];
        usize::from(size.saturating_sub(self.header)).max(PAIR_LEN)
    }
}

/// The sending end of packet pairs.
#[derive(Debug)]
pub struct PairsSource {
    config: PairsConfig,
    sending: Range<Time>,
    log: Log,
}

impl PairsSource {
    /// A source that sends once it is told to begin.
    #[must_use]
    pub fn new(config: PairsConfig) -> Self {
        Self { config, sending: Time::MAX..Time::MAX, log: Log::default() }
    }

    /// When the next datagram is due; the second of a pair follows the first at once.
    fn due(&self) -> Option<Time> {
        let pair = self.log.next() / 2;
        let due = self.sending.start + self.config.every.times(pair);
        (pair < self.config.pairs() && due < self.sending.end).then_some(due)
    }
}

impl Application for PairsSource {
    fn begin(&mut self, sending: Range<Time>) {
        self.sending = sending;
    }

    fn receive(&mut self, _: Time, _: usize, _: &[u8]) {}

    fn send(&mut self, now: Time, payload: &mut Vec<u8>) -> Option<usize> {
        self.due().filter(|due| *due <= now)?;
        let (pair, second) = (self.log.next() / 2, self.log.next() % 2 == 1);
        let header = PairHeader { session: self.config.session, pair: pair as u16, second };
        header.write(self.config.payload(pair), self.config.zeros, payload);
        self.log.sent(Sent { at: now, bytes: payload.len() as u32, first: !second });
        Some(0)
    }

    fn deadline(&self) -> Option<Time> {
        self.due()
    }

    fn log(&self) -> &Log {
        &self.log
    }
}

/// The receiving end of packet pairs.
#[derive(Debug)]
pub struct PairsSink {
    config: PairsConfig,
    log: Log,
}

impl PairsSink {
    /// The other end of a [`PairsSource`] of the same configuration.
    #[must_use]
    pub fn new(config: PairsConfig) -> Self {
        Self { config, log: Log::default() }
    }
}

impl Application for PairsSink {
    fn begin(&mut self, _: Range<Time>) {}

    fn receive(&mut self, now: Time, _: usize, datagram: &[u8]) {
        let Some(header) = PairHeader::read(datagram).filter(|header| header.session == self.config.session) else {
            return;
        };
        let pair = u64::from(header.pair);
        let mut expected = Vec::new();
        header.write(self.config.payload(pair), self.config.zeros, &mut expected);
        let (number, bytes) = (pair * 2 + u64::from(header.second), datagram.len() as u32);
        self.log.received(Received { number, at: now, bytes, intact: datagram == expected });
    }

    fn send(&mut self, _: Time, _: &mut Vec<u8>) -> Option<usize> {
        None
    }

    fn deadline(&self) -> Option<Time> {
        None
    }

    fn log(&self) -> &Log {
        &self.log
    }
}

/// A pair of which both packets arrived, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Separation {
    /// IP datagram size in bytes.
    pub size: u32,
    /// Time from the first packet's arrival to the second's.
    pub apart: Span,
}

/// The separations among a flow's passages; `header` is the length of the IP and UDP headers.
#[must_use]
pub fn separations(passages: &[Passage], header: u32) -> Vec<Separation> {
    let whole = passages.windows(2).filter(|two| two[0].sent.first && two[1].number == two[0].number + 1);
    whole
        .filter_map(|two| {
            let (first, second) = (two[0].arrived?, two[1].arrived?);
            let in_order = two.iter().all(|p| p.intact && p.copies == 0) && first < second;
            in_order.then(|| Separation { size: two[1].sent.bytes + header, apart: second.since(first) })
        })
        .collect()
}

/// What separations say of the line.
#[derive(Clone, Debug, PartialEq)]
pub struct Slope {
    /// Pairs it stands on.
    pub pairs: usize,
    /// Time for one more byte, in seconds.
    pub seconds_per_byte: f64,
    /// Half the width of its 95 % interval (Student's t).
    pub margin: f64,
    /// Separation of packets without any bytes, in seconds: what each packet costs beyond its bytes, or
    /// spares by compression if it is negative.
    pub intercept: f64,
    /// Each size by itself, smallest first.
    pub sizes: Vec<SizeEstimate>,
}

/// What one size says by itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SizeEstimate {
    /// IP datagram size in bytes.
    pub size: u32,
    /// Pairs of this size.
    pub pairs: usize,
    /// Their mean separation in seconds.
    pub apart: f64,
    /// The rate this size alone would tell, in bit/s.
    pub rate: f64,
    /// It differs from the slope's rate by more than [`DISAGREEMENT`] and lies outside its interval.
    pub disagrees: bool,
}

/// A size disagrees with the slope if its own rate is off by more than this share.
pub const DISAGREEMENT: f64 = 0.05;

impl Slope {
    /// The least-squares line through the separations. `None` if there are fewer than three pairs or
    /// two sizes, or larger packets did not take longer.
    #[must_use]
    pub fn fit(separations: &[Separation]) -> Option<Self> {
        let n = separations.len() as f64;
        let points: Vec<(f64, f64)> = separations.iter().map(|s| (f64::from(s.size), s.apart.as_secs_f64())).collect();
        let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n;
        let (mean_x, mean_y) = (mean(|p| p.0), mean(|p| p.1));
        let sxx: f64 = points.iter().map(|(x, _)| (x - mean_x) * (x - mean_x)).sum();
        let sxy: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
        if points.len() < 3 || sxx <= 0.0 || sxy <= 0.0 {
            return None;
        }
        let slope = sxy / sxx;
        let intercept = mean_y - slope * mean_x;
        let residual = |(x, y): &(f64, f64)| (y - intercept - slope * x) * (y - intercept - slope * x);
        let variance = points.iter().map(residual).sum::<f64>() / (n - 2.0);
        let margin = student(points.len() - 2) * libm::sqrt(variance / sxx);
        let mut fitted = Self { pairs: points.len(), seconds_per_byte: slope, margin, intercept, sizes: Vec::new() };
        fitted.sizes = fitted.by_size(separations);
        Some(fitted)
    }

    /// Rate of the line in bit/s.
    #[must_use]
    pub fn rate(&self) -> f64 {
        8.0 / self.seconds_per_byte
    }

    /// Lower bound of the rate's 95 % interval.
    #[must_use]
    pub fn low(&self) -> f64 {
        8.0 / (self.seconds_per_byte + self.margin)
    }

    /// Upper bound; `None` if the slope's interval reaches zero.
    #[must_use]
    pub fn high(&self) -> Option<f64> {
        (self.seconds_per_byte > self.margin).then(|| 8.0 / (self.seconds_per_byte - self.margin))
    }

    fn by_size(&self, separations: &[Separation]) -> Vec<SizeEstimate> {
        let mut sizes: Vec<u32> = separations.iter().map(|s| s.size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let estimate = |size| {
            let own = separations.iter().filter(|s| s.size == size);
            let (pairs, sum) = own.fold((0, 0.0), |(n, sum), s| (n + 1, sum + s.apart.as_secs_f64()));
            let apart = sum / pairs as f64;
            let rate = 8.0 * f64::from(size) / apart;
            let off = (rate / self.rate() - 1.0).abs() > DISAGREEMENT;
            let outside = rate < self.low() || self.high().is_some_and(|high| rate > high);
            SizeEstimate { size, pairs, apart, rate, disagrees: off && outside }
        };
        sizes.into_iter().map(estimate).collect()
    }
}

/// The 97.5 % quantile of Student's t with so many degrees of freedom: exact where the series of
/// Abramowitz and Stegun 26.7.5 is not, which has an error below 0.001 from 4 on.
fn student(freedom: usize) -> f64 {
    const EXACT: [f64; 3] = [12.706_205, 4.302_653, 3.182_446];
    if let Some(exact) = EXACT.get(freedom.saturating_sub(1)) {
        return *exact;
    }
    let x: f64 = 1.959_964;
    let (x2, n) = (x * x, freedom as f64);
    let g1 = x * (x2 + 1.0) / 4.0;
    let g2 = x * ((5.0 * x2 + 16.0) * x2 + 3.0) / 96.0;
    let g3 = x * (((3.0 * x2 + 19.0) * x2 + 17.0) * x2 - 15.0) / 384.0;
    let g4 = x * ((((79.0 * x2 + 776.0) * x2 + 1_482.0) * x2 - 1_920.0) * x2 - 945.0) / 92_160.0;
    x + g1 / n + g2 / (n * n) + g3 / (n * n * n) + g4 / (n * n * n * n)
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
        PairsConfig { sizes: vec![60, 400, 1_400], rounds, every, header: 48, zeros: false, session: 9 }
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
        assert_eq!(sent.len(), 12);
        assert_eq!(sent[..4], [(at(1_000), 12), (at(1_000), 12), (at(6_000), 352), (at(6_000), 352)]);
        assert!(sink.log().received.iter().zip(0..).all(|(got, number)| got.number == number && got.intact));
        sink.receive(at(0), 0, &PairHeader { session: 8, pair: 0, second: false }.bytes());
        assert_eq!(sink.log().received.len(), 12);
    }

    #[test]
    fn a_pair_that_is_not_whole_says_nothing() {
        let sent: Vec<Sent> = (0..8).map(|n| Sent { at: at(n), bytes: 100, first: n % 2 == 0 }).collect();
        let arrive = |number, ms| Received { number, at: at(ms), bytes: 100, intact: true };
        // The second pair lost its second, the third came turned round, of the fourth there is a copy.
        let got = [(0, 10), (1, 30), (2, 40), (5, 50), (4, 60), (6, 70), (7, 80), (7, 81)].map(|(n, ms)| arrive(n, ms));
        let seen = separations(&passages(&sent, &got), 28);
        assert_eq!(seen, [Separation { size: 128, apart: Span::from_millis(20) }]);
    }

    /// 8N1 at 9600 baud: 960 B/s. Headers that shrink by 40 bytes make small packets lie.
    #[test]
    fn the_slope_is_the_line_where_single_sizes_lie() {
        let pair = |size: u32, spared: u32| {
            let nanos = u64::from(size - spared) * 1_000_000_000 / 960;
            Separation { size, apart: Span::from_nanos(nanos) }
        };
        let sizes = [60, 80, 100, 150, 200, 400, 600, 800, 1_000, 1_200, 1_400];
        let honest = Slope::fit(&sizes.map(|size| pair(size, 0))).unwrap();
        assert!((honest.rate() - 7_680.0).abs() < 0.1 && honest.sizes.iter().all(|size| !size.disagrees));
        let compressed = Slope::fit(&sizes.map(|size| pair(size, 40))).unwrap();
        assert!((compressed.rate() - 7_680.0).abs() < 0.1);
        assert!((compressed.intercept + 40.0 / 960.0).abs() < 1e-6);
        let liars: Vec<u32> = compressed.sizes.iter().filter(|size| size.disagrees).map(|size| size.size).collect();
        assert_eq!(liars, [60, 80, 100, 150, 200, 400, 600, 800]);
        assert_eq!(Slope::fit(&[pair(60, 0), pair(60, 0), pair(60, 0)]), None);
    }

    /// The interval covers the truth as often as it says.
    #[test]
    fn intervals_cover_the_slope_in_19_of_20_cases() {
        let mut random = engine::Random::stream(1, "pairs");
        let mut covered = 0;
        for _ in 0..2_000 {
            let noisy = |size: u32| {
                let seconds = f64::from(size) / 960.0 + 0.05 + 0.01 * random.normal();
                Separation { size, apart: Span::from_nanos((seconds * 1e9) as u64) }
            };
            let slope = Slope::fit(&[60, 400, 800, 1_400, 60, 800].map(noisy)).unwrap();
            covered += usize::from((slope.low()..=slope.high().unwrap()).contains(&7_680.0));
        }
        assert!((1_870..=1_930).contains(&covered), "{covered}");
        // Tables of Student's t.
        for (freedom, t) in [(1, 12.706), (3, 3.182), (4, 2.776), (10, 2.228), (30, 2.042)] {
            assert!((student(freedom) - t).abs() < 0.002, "{freedom}: {}", student(freedom));
        }
    }

    #[test]
    fn whatever_arrives_is_read_or_refused() {
        let header = PairHeader { session: 7, pair: 65_535, second: true };
        let mut datagram = Vec::new();
        header.write(12, true, &mut datagram);
        assert_eq!((PairHeader::read(&datagram), datagram.len()), (Some(header), 12));
        for length in 0..PAIR_LEN {
            assert_eq!(PairHeader::read(&datagram[..length]), None);
        }
        for byte in 0..4 {
            let mut other = datagram.clone();
            other[byte] ^= 2;
            assert_eq!(PairHeader::read(&other), None);
        }
    }
}
