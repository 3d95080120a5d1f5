//! Applications that talk by datagrams, without sockets: what both executors run at the ends of a
//! flow, and the log from which everything is worked out afterwards.

use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use engine::{Span, Time};

/// One end of a flow of datagrams.
///
/// The executor makes its sockets, in the order of the ports it was given, and joins each to the
/// socket of the same position at the other end. It then calls [`begin`](Self::begin) once,
/// [`receive`](Self::receive) for what arrives, and whenever something happened or the
/// [`deadline`](Self::deadline) has come, [`send`](Self::send) until that gives nothing more.
pub trait Application: fmt::Debug + Send {
    /// New things are begun from `sending.start` on and before `sending.end`.
    fn begin(&mut self, sending: Range<Time>);

    /// A datagram arrived at `now` at the socket of this position.
    fn receive(&mut self, now: Time, socket: usize, payload: &[u8]);

    /// Writes the next datagram that is due at `now` into `payload` (which is empty) and says by which
    /// socket it goes; `None` if nothing is due.
    fn send(&mut self, now: Time, payload: &mut Vec<u8>) -> Option<usize>;

    /// When `send` is wanted next.
    fn deadline(&self) -> Option<Time>;

    /// What this end sent: in order of number, from 0, none missing.
    fn sent(&self) -> &[Sent] {
        &[]
    }

    /// What arrived here, in order of arrival.
    fn received(&self) -> &[Received] {
        &[]
    }

    /// The calls this end made, in order.
    fn calls(&self) -> &[Call] {
        &[]
    }

    /// When this end sent a message of a call again.
    fn retransmissions(&self) -> &[Time] {
        &[]
    }
}

/// A call, as its caller saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// When the first invitation was sent.
    pub invited: Time,
    /// When its acceptance arrived.
    pub answered: Option<Time>,
    /// When all was over: released, refused or given up. Absent while it is under way.
    pub ended: Option<Time>,
    /// Whether the other end confirmed the release.
    pub released: bool,
}

/// Most datagrams that are kept of a flow each way. A plan does not let a flow send more; what arrives
/// beyond it (copies that a link made) is not kept.
pub const LOG_LIMIT: usize = 1 << 18;

/// A datagram that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// When it was handed to the socket.
    pub at: Time,
    /// UDP payload in bytes.
    pub bytes: u32,
    /// Whether it begins a talk spurt (voice) or a pair.
    pub first: bool,
}

/// A datagram that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Its number at the sender.
    pub number: u64,
    /// When it arrived.
    pub at: Time,
    /// UDP payload in bytes.
    pub bytes: u32,
    /// Whether every byte is as it was sent.
    pub intact: bool,
}

/// Keeps a datagram that arrived, up to [`LOG_LIMIT`].
pub(crate) fn keep(log: &mut Vec<Received>, received: Received) {
    if log.len() < LOG_LIMIT {
        log.push(received);
    }
}

/// A datagram's way from one end to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage {
    /// Its number.
    pub number: u64,
    /// How it was sent.
    pub sent: Sent,
    /// When its first copy arrived.
    pub arrived: Option<Time>,
    /// Copies beyond the first.
    pub copies: u32,
    /// Whether it arrived after a later number.
    pub reordered: bool,
    /// Whether its first copy was as it was sent.
    pub intact: bool,
}

impl Passage {
    /// Time from sending to arrival.
    #[must_use]
    pub fn delay(&self) -> Option<Span> {
        self.arrived.map(|arrived| arrived.since(self.sent.at))
    }
}

/// Joins what one end sent with what the other received, in order of number.
#[must_use]
pub fn passages(sent: &[Sent], received: &[Received]) -> Vec<Passage> {
    let new = |(number, sent): (usize, &Sent)| Passage {
        number: number as u64,
        sent: *sent,
        arrived: None,
        copies: 0,
        reordered: false,
        intact: true,
    };
    let mut passages: Vec<Passage> = sent.iter().enumerate().map(new).collect();
    let mut next = 0;
    for arrival in received {
        let Some(passage) = usize::try_from(arrival.number).ok().and_then(|at| passages.get_mut(at)) else { continue };
        if passage.arrived.is_some() {
            passage.copies += 1;
            continue;
        }
        passage.arrived = Some(arrival.at);
        passage.intact = arrival.intact;
        passage.reordered = arrival.number < next;
        next = next.max(arrival.number + 1);
    }
    passages
}

/// Recovers a whole number from its last 16 bits, as the one nearest to the highest so far
/// (RFC 3550 A.1 extends its sequence numbers likewise).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Unwrap {
    highest: u64,
}

impl Unwrap {
    /// The number whose last 16 bits are `low`; `None` if it would lie before the first.
    pub(crate) fn number(&mut self, low: u16) -> Option<u64> {
        let ahead = low.wrapping_sub(self.highest as u16).cast_signed();
        let number = self.highest.checked_add_signed(ahead.into())?;
        self.highest = self.highest.max(number);
        Some(number)
    }
}

/// Differences between consecutive arrivals, less those between their departures: RFC 3550 6.4.1's D,
/// in order of arrival, each with the number of the later one.
#[must_use]
pub fn variations(passages: &[Passage]) -> Vec<(u64, Span)> {
    let mut arrived: Vec<(Time, &Passage)> = passages.iter().filter_map(|p| Some((p.arrived?, p))).collect();
    arrived.sort_by_key(|(at, passage)| (*at, passage.number));
    let transit = |(at, passage): &(Time, &Passage)| i128::from(at.as_nanos()) - i128::from(passage.sent.at.as_nanos());
    let pairs = arrived.windows(2);
    pairs
        .map(|pair| {
            let difference = (transit(&pair[1]) - transit(&pair[0])).unsigned_abs();
            (pair[1].1.number, Span::from_nanos(u64::try_from(difference).unwrap_or(u64::MAX)))
        })
        .collect()
}

/// Interarrival jitter (RFC 3550 6.4.1: J = J + (|D| - J) / 16) after these variations.
///
/// Departures are the true ones, which RTP's time stamps only stand for.
#[must_use]
pub fn jitter(variations: impl Iterator<Item = Span>) -> Span {
    // RFC 3550 A.8 keeps the estimate scaled by 16, so that the division loses nothing.
    let scaled =
        variations.fold(0_u128, |jitter, variation| jitter + u128::from(variation.as_nanos()) - (jitter + 8) / 16);
    Span::from_nanos(u64::try_from(scaled / 16).unwrap_or(u64::MAX))
}

/// The `quantile` (0 to 1) of some spans by nearest rank; `None` if there are none.
#[must_use]
pub fn quantile(spans: impl Iterator<Item = Span>, quantile: f64) -> Option<Span> {
    let mut spans: Vec<Span> = spans.collect();
    spans.sort_unstable();
    let rank = libm::ceil(quantile * spans.len() as f64) as usize;
    spans.get(rank.saturating_sub(1)).copied()
}

/// Bytes that look random and follow from a seed and a number, so that the other end can tell
/// whether they are whole.
pub(crate) fn filler(seed: u64, number: u64, length: usize) -> Vec<u8> {
    let mut random = engine::Random::stream(seed ^ number.rotate_left(32), "payload");
    let mut bytes = vec![0; length];
    for chunk in bytes.chunks_mut(8) {
        chunk.copy_from_slice(&random.bits().to_be_bytes()[..chunk.len()]);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_millis(ms)
    }

    fn sent(ms: u64) -> Sent {
        Sent { at: at(ms), bytes: 33, first: false }
    }

    fn received(number: u64, ms: u64) -> Received {
        Received { number, at: at(ms), bytes: 33, intact: true }
    }

    #[test]
    fn losses_copies_and_latecomers_are_told_apart() {
        let sent: Vec<Sent> = (0..4).map(|n| sent(n * 200)).collect();
        let arrivals = [received(0, 30), received(2, 440), received(1, 450), received(2, 460), received(9, 500)];
        let seen = passages(&sent, &arrivals);
        let facts: Vec<_> =
            seen.iter().map(|p| (p.delay().map(|d| d.as_nanos() / 1_000_000), p.copies, p.reordered)).collect();
        assert_eq!(facts, [(Some(30), 0, false), (Some(250), 0, true), (Some(40), 1, false), (None, 0, false)]);
        let variations: Vec<_> = variations(&seen).iter().map(|(n, v)| (*n, v.as_nanos() / 1_000_000)).collect();
        assert_eq!(variations, [(2, 10), (1, 210)]);
    }

    #[test]
    fn jitter_is_rfc_3550s() {
        let spans = [16, 0, 32].map(Span::from_millis);
        let expected = [16.0, 0.0, 32.0].iter().fold(0.0, |j, d| j + (d - j) / 16.0);
        let got = jitter(spans.into_iter()).as_secs_f64() * 1e3;
        assert!((got - expected).abs() < 1e-3, "{got} {expected}");
    }

    #[test]
    fn numbers_go_on_past_sixteen_bits_and_back_a_little() {
        let mut unwrap = Unwrap::default();
        let all: Vec<u64> = (0..200_000).step_by(9_000).collect();
        for number in all {
            assert_eq!(unwrap.number(number as u16), Some(number));
        }
        assert_eq!(unwrap.number((198_000 - 500) as u16), Some(197_500));
        assert_eq!(Unwrap::default().number(0xfff0), None);
    }

    #[test]
    fn quantiles_by_nearest_rank() {
        let spans = || (1..=100).map(Span::from_millis);
        assert_eq!(quantile(spans(), 0.99), Some(Span::from_millis(99)));
        assert_eq!(quantile(spans(), 0.5), Some(Span::from_millis(50)));
        assert_eq!(quantile(core::iter::empty(), 0.5), None);
    }
}
