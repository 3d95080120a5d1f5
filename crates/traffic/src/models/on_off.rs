//! Self-similar traffic of sources that send and pause.
//!
//! Many sources, each sending at its peak rate for a time and pausing for a time, both with a Pareto
//! distribution of infinite variance, add up to traffic that is long-range dependent with H = (3 - α)/2
//! (Willinger, Taqqu, Sherman and Wilson 1997; Taqqu, Willinger and Sherman 1997, theorem 1).

use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;

use engine::{Random, Span, Time};

use super::arrivals::Pace;
use super::{LONGEST, ModelError, PacketRate, time};

/// Sources of Pareto on and off times.
///
/// Sources begin in their stationary state (whether one sends, and for how long it still will, are drawn from
/// the distributions that hold at a random moment), so that there is no time of warming up. A source's packets
/// are evenly spaced while it sends; what is left of a packet's time when it pauses is kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OnOff {
    rate: PacketRate,
    sources: usize,
    on: Span,
    off: Span,
    shape: f64,
}

impl OnOff {
    /// The most sources there may be.
    pub const MOST_SOURCES: usize = 1_000_000;

    /// `sources` sources that give `rate` together in the mean, sending for times of mean `on` and pausing
    /// for times of mean `off`, both Pareto-distributed with `shape` (α). The smaller α, the longer the rare
    /// long times are; H = (3 - α)/2.
    ///
    /// # Errors
    ///
    /// [`ModelError::Sources`] unless there are 1 to [`OnOff::MOST_SOURCES`], [`ModelError::Time`] for means
    /// that are zero or over 73 years, [`ModelError::Shape`] unless 1 < `shape` < 2.
    pub fn new(rate: PacketRate, sources: usize, on: Span, off: Span, shape: f64) -> Result<Self, ModelError> {
        if !(1..=Self::MOST_SOURCES).contains(&sources) {
            return Err(ModelError::Sources(sources));
        }
        if !(shape > 1.0 && shape < 2.0) {
            return Err(ModelError::Shape(shape));
        }
        let (on, off) = (time("the mean time of sending", on)?, time("the mean time of a pause", off)?);
        Ok(Self { rate, sources, on, off, shape })
    }

    /// Mean rate of all sources together.
    #[must_use]
    pub const fn rate(&self) -> PacketRate {
        self.rate
    }

    /// The Hurst exponent of the sum.
    #[must_use]
    pub fn hurst(&self) -> f64 {
        (3.0 - self.shape) / 2.0
    }

    /// Packets a second of one source while it sends.
    #[must_use]
    pub fn peak(&self) -> f64 {
        self.rate.a_second() / self.sources as f64 / self.duty()
    }

    /// Share of time in which a source sends.
    fn duty(&self) -> f64 {
        let (on, off) = (self.on.as_nanos() as f64, self.off.as_nanos() as f64);
        on / (on + off)
    }

    pub(super) fn deviation(&self, over: Span) -> f64 {
        let (on, off, t) = (self.on.as_secs_f64(), self.off.as_secs_f64(), over.as_secs_f64());
        let shape = self.shape;
        // Theorem 1: tails l x^-α, a = l Γ(2-α)/(α-1), and as both have the same α,
        // σ² = 2 (off² a(on) + on² a(off)) / ((on + off)³ Γ(4-α)).
        let a = |mean: f64| libm::pow(smallest(mean, shape), shape) * libm::tgamma(2.0 - shape) / (shape - 1.0);
        let both = on + off;
        let limit = 2.0 * (off * off * a(on) + on * on * a(off)) / (both * both * both * libm::tgamma(4.0 - shape));
        let long = limit * libm::pow(t, 3.0 - shape);
        let frozen = self.duty() * (1.0 - self.duty()) * t * t;
        self.peak() * libm::sqrt(self.sources as f64 * long.min(frozen))
    }
}

/// Smallest value of a Pareto distribution of this mean.
fn smallest(mean: f64, shape: f64) -> f64 {
    mean * (shape - 1.0) / shape
}

/// The sources, by the time of what they do next.
#[derive(Clone, Debug)]
pub(super) struct Sources {
    /// Time from one packet of a sending source to the next; none if the rate is zero.
    pace: Option<Pace>,
    on: f64,
    off: f64,
    shape: f64,
    sources: Vec<Source>,
    due: BinaryHeap<Reverse<(Time, usize)>>,
    random: Random,
}

#[derive(Clone, Copy, Debug)]
struct Source {
    sends: bool,
    /// Start of the time that is counted off `left`, and the end of sending or of the pause.
    since: Time,
    ends: Time,
    /// Time of sending until the next packet, from `since`.
    left: Span,
}

impl Sources {
    pub(super) fn new(model: &OnOff, start: Time, random: Random) -> Self {
        let rate = model.rate;
        // The peak as a fraction: packets (on + off) in per × sources × on. Both sides are halved until they
        // fit, which leaves more than 60 bits.
        let both = u128::from(model.on.as_nanos()) + u128::from(model.off.as_nanos());
        let mut packets = u128::from(rate.packets()).saturating_mul(both);
        let per = u128::from(rate.per().as_nanos()) * model.sources as u128;
        let mut per = per.saturating_mul(u128::from(model.on.as_nanos()));
        while packets > u128::from(u64::MAX) || per > u128::from(LONGEST.as_nanos()) {
            (packets, per) = (packets >> 1, per >> 1);
        }
        let peak = PacketRate::new(packets as u64, Span::from_nanos((per as u64).max(1)));
        let mut sources = Self {
            pace: peak.ok().and_then(Pace::new),
            on: model.on.as_nanos() as f64,
            off: model.off.as_nanos() as f64,
            shape: model.shape,
            sources: Vec::with_capacity(model.sources),
            due: BinaryHeap::with_capacity(model.sources),
            random,
        };
        if sources.pace.is_some() {
            for number in 0..model.sources {
                sources.begin(number, start, model.duty());
            }
        }
        sources
    }

    /// A source at a random moment of its life.
    fn begin(&mut self, number: usize, start: Time, duty: f64) {
        let sends = self.random.chance(duty);
        let remaining = self.remaining(if sends { self.on } else { self.off });
        let gap = self.pace.as_mut().map_or(Span::ZERO, Pace::step);
        let left = Span::from_nanos(self.random.below(gap.as_nanos().saturating_add(1)));
        let source = Source { sends, since: start, ends: start + remaining, left };
        self.sources.push(source);
        self.due.push(Reverse((source.due(), number)));
    }

    /// A Pareto time of this mean: k U^(-1/α).
    fn length(&mut self, mean: f64) -> Span {
        let nanos = smallest(mean, self.shape) * libm::pow(1.0 - self.random.uniform(), -1.0 / self.shape);
        bounded(nanos)
    }

    /// What is left of a Pareto time at a random moment in it. Its density is the tail of the time's
    /// distribution over its mean: even up to k with (α-1)/α of the mass, and (k/x)^(α-1)/α beyond x.
    fn remaining(&mut self, mean: f64) -> Span {
        let k = smallest(mean, self.shape);
        let beyond = 1.0 - self.random.uniform();
        let nanos = if beyond * self.shape < 1.0 {
            k * libm::pow(beyond * self.shape, -1.0 / (self.shape - 1.0))
        } else {
            (1.0 - beyond) * mean
        };
        bounded(nanos)
    }
}

/// At least 1 ns, so that time goes on, and short enough to be added up.
fn bounded(nanos: f64) -> Span {
    Span::from_nanos((nanos as u64).clamp(1, LONGEST.as_nanos()))
}

impl Source {
    /// When it next sends, or changes between sending and pausing.
    fn due(&self) -> Time {
        if self.sends { self.ends.min(self.since + self.left) } else { self.ends }
    }
}

impl Iterator for Sources {
    type Item = Time;

    fn next(&mut self) -> Option<Time> {
        loop {
            let &Reverse((now, number)) = self.due.peek()?;
            if now == Time::MAX {
                return None;
            }
            let mut source = self.sources[number];
            let is_packet = source.sends && source.since + source.left < source.ends;
            if is_packet {
                source.since = now;
                source.left = self.pace.as_mut()?.step();
            } else {
                if source.sends {
                    source.left = source.left.saturating_sub(now.since(source.since));
                }
                let length = self.length(if source.sends { self.off } else { self.on });
                source = Source { sends: !source.sends, since: now, ends: now + length, left: source.left };
            }
            self.sources[number] = source;
            if let Some(mut first) = self.due.peek_mut() {
                *first = Reverse((source.due(), number));
            }
            if is_packet {
                return Some(now);
            }
        }
    }
}
