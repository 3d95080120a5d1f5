//! What a configuration must hold to, and how much memory it can take.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use engine::{Size, Span};
use queue::{Discipline, QueueConfig};

use crate::config::{
    DelayModel, DirectionConfig, GilbertElliott, LossAt, LossModel, Markov4, PipeConfig, RateModel, Selector,
};
use crate::direction::Direction;

/// A direction or a pipe that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A value out of its range.
    #[error("{}`{field}` is {value}; it must be {valid}", Of(.branch))]
    Invalid {
        /// The branch it is in; none for the main pipe.
        branch: Option<String>,
        /// The field, by its path from the pipe or branch on, as `loss.p13`.
        field: &'static str,
        /// What it is.
        value: String,
        /// What it may be.
        valid: String,
    },
    /// The queue cannot be.
    #[error("{}{error}", Of(.branch))]
    Queue {
        /// The branch it is in; none for the main pipe.
        branch: Option<String>,
        /// Why.
        error: queue::ConfigError,
    },
    /// A branch's conditions cannot be met.
    #[error("{}{error}", Of(.branch))]
    Selector {
        /// The branch.
        branch: Option<String>,
        /// Why.
        error: queue::SelectorError,
    },
    /// Two branches have one name, or one is called [`Direction::MAIN`].
    #[error("the branch name `{name}` is taken; give each branch a name of its own, and none `main`")]
    NameTaken {
        /// The name.
        name: String,
    },
    /// A change was meant for a pipe that is not there.
    #[error("there is no pipe `{name}`; there are `main` and {}", List(.pipes))]
    NoSuchPipe {
        /// The name.
        name: String,
        /// The names of the branches.
        pipes: Vec<String>,
    },
}

impl DirectionConfig {
    /// Whether such a direction can be.
    ///
    /// # Errors
    ///
    /// Names the branch, the field and its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.pipe.validate()?;
        for (index, branch) in self.branches.iter().enumerate() {
            let taken = self.branches[..index].iter().any(|other| other.name == branch.name);
            if taken || branch.name == Direction::MAIN {
                return Err(ConfigError::NameTaken { name: branch.name.clone() });
            }
            let inside = |error: ConfigError| error.in_branch(&branch.name);
            branch.selector.validate().map_err(inside)?;
            branch.pipe.validate().map_err(inside)?;
        }
        Ok(())
    }

    /// Most bytes of frames that all pipes hold at once; see [`PipeConfig::memory_bound`].
    #[must_use]
    pub fn memory_bound(&self) -> u64 {
        let branches = self.branches.iter().map(|branch| branch.pipe.memory_bound());
        branches.fold(self.pipe.memory_bound(), u64::saturating_add)
    }
}

impl PipeConfig {
    /// The least bound of a delay line, in bytes of frames: 256 MiB.
    pub const IN_FLIGHT_LIMIT: u64 = 256 << 20;

    /// The longest packet that any link must be able to carry, in bytes of its network layer.
    const LONGEST_PACKET: u64 = 1_500;

    /// Whether such a pipe can be.
    ///
    /// # Errors
    ///
    /// Names the field and its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check(self.overhead.bytes() <= 65_535, "overhead", self.overhead, "at most 65535B")?;
        match &self.rate {
            None => {}
            Some(RateModel::Constant(_)) => self.validate_queue()?,
            Some(RateModel::TokenBucket { burst, .. }) => {
                self.validate_queue()?;
                let least = Self::LONGEST_PACKET + self.overhead.bytes();
                let valid = (least..=1 << 32).contains(&burst.bytes());
                let range = format!("{} (a full packet with its overhead) to 4GiB", Size::from_bytes(least));
                check(valid, "rate.burst", burst, range)?;
            }
            Some(RateModel::Opportunities(trace)) => {
                self.validate_queue()?;
                let some = self.queue.packets != Some(0);
                check(some, "queue.packets", 0, "at least 1, since every packet waits for an opportunity")?;
                let last = trace.at_ms.last().copied().unwrap_or_default();
                let valid = trace.at_ms.is_sorted() && (1..=u64::MAX / 1_000_000_000).contains(&last);
                let value = format!("a trace of {} opportunities that ends at {last} ms", trace.at_ms.len());
                check(valid, "rate.at_ms", value, "times in order that end after 0 ms")?;
            }
        }
        self.delay.validate()?;
        self.loss.validate()?;
        chance("duplicate", self.duplicate)?;
        chance("corrupt", self.corrupt)
    }

    /// Most bytes of frames in flight: what arrives beyond them is dropped as
    /// [`DELAY_LINE_FULL`](crate::DELAY_LINE_FULL). It is [`IN_FLIGHT_LIMIT`](Self::IN_FLIGHT_LIMIT), or
    /// more where rate and longest delay need more.
    #[must_use]
    pub fn in_flight_limit(&self) -> u64 {
        self.in_flight_by_rate().map_or(Self::IN_FLIGHT_LIMIT, |bytes| bytes.max(Self::IN_FLIGHT_LIMIT))
    }

    /// Most bytes of frames that the pipe holds at once: in the queue, in transmission, in flight.
    /// Bookkeeping comes on top, some 150 bytes for each packet.
    #[must_use]
    pub fn memory_bound(&self) -> u64 {
        let queue = if self.rate.is_some() { self.queue.memory_bound() } else { 0 };
        let in_flight = self.in_flight_by_rate().unwrap_or(u64::MAX).min(self.in_flight_limit());
        queue.saturating_add(QueueConfig::LONGEST_FRAME).saturating_add(in_flight)
    }

    /// Most bytes of frames that a limited rate can bring into flight, where both rate and delay
    /// have an upper bound.
    fn in_flight_by_rate(&self) -> Option<u64> {
        let (rate, burst) = match self.rate.as_ref()? {
            RateModel::Constant(rate) => (rate, Size::default()),
            RateModel::TokenBucket { rate, burst } => (rate, *burst),
            RateModel::Opportunities(_) => return None,
        };
        let costs = rate.bytes_in(self.delay.longest()?).saturating_add(burst.bytes());
        let copies = if self.duplicate > 0.0 { 2 } else { 1 };
        Some(costs.saturating_mul(QueueConfig::FRAME_PER_COST * copies).saturating_add(QueueConfig::LONGEST_FRAME))
    }

    fn validate_queue(&self) -> Result<(), ConfigError> {
        self.queue.validate().map_err(|error| ConfigError::Queue { branch: None, error })
    }
}

impl Default for PipeConfig {
    /// A pipe that changes nothing: no rate, no delay, no loss; and a drop-tail queue of 50 packets
    /// (dummynet's default) for when it is given a rate.
    fn default() -> Self {
        Self {
            rate: None,
            overhead: Size::default(),
            queue: QueueConfig { packets: Some(50), bytes: None, discipline: Discipline::DropTail },
            delay: DelayModel::Constant(Span::ZERO),
            reorder: false,
            loss: LossModel::Bernoulli(0.0),
            loss_at: LossAt::Entry,
            duplicate: 0.0,
            corrupt: 0.0,
        }
    }
}

impl Selector {
    fn validate(&self) -> Result<(), ConfigError> {
        self.headers.validate().map_err(|error| ConfigError::Selector { branch: None, error })?;
        self.probability.map_or(Ok(()), |probability| chance("probability", probability))
    }
}

impl DelayModel {
    fn validate(&self) -> Result<(), ConfigError> {
        let bounded = |field, delay: Span| check(delay <= Self::LONGEST, field, delay, "at most 1h");
        match self {
            Self::Constant(delay) => bounded("delay", *delay),
            Self::Uniform { min, max } => {
                bounded("delay.max", *max)?;
                check(min <= max, "delay.min", min, format!("at most `max` ({max})"))
            }
            Self::Normal { mean, deviation } => {
                bounded("delay.mean", *mean)?;
                bounded("delay.deviation", *deviation)
            }
            Self::Pareto { scale, shape } => {
                bounded("delay.scale", *scale)?;
                check(*scale > Span::ZERO, "delay.scale", scale, "over 0")?;
                check(*shape > 1.0 && shape.is_finite(), "delay.shape", shape, "over 1, so that there is a mean")
            }
            Self::Empirical(table) => {
                let number = table.delays.len();
                check(number >= 2, "delay.delays", format!("{number} delays"), "at least two")?;
                check(table.delays.is_sorted(), "delay.delays", "out of order", "in increasing order")?;
                table.delays.last().map_or(Ok(()), |last| bounded("delay.delays", *last))
            }
            Self::Timeline(timeline) => {
                let starts = timeline.steps.first().map(|(from, _)| *from);
                let value = starts.map_or_else(|| "empty".to_string(), |from| format!("a timeline from {from} on"));
                check(starts == Some(Span::ZERO), "delay.steps", value, "steps from time 0 on")?;
                let rising = timeline.steps.is_sorted_by(|(a, _), (b, _)| a < b);
                check(rising, "delay.steps", "out of order", "at times that strictly increase")?;
                timeline.steps.iter().try_for_each(|(_, delay)| bounded("delay.steps", *delay))
            }
        }
    }

    pub(crate) fn is_constant(&self) -> bool {
        matches!(self, Self::Constant(_))
    }
}

impl LossModel {
    fn validate(&self) -> Result<(), ConfigError> {
        match self {
            Self::Bernoulli(p) => chance("loss", *p),
            Self::GilbertElliott(GilbertElliott { p, r, loss_bad, loss_good }) => {
                chance("loss.p", *p)?;
                chance("loss.r", *r)?;
                chance("loss.loss_bad", *loss_bad)?;
                chance("loss.loss_good", *loss_good)
            }
            Self::Markov4(Markov4 { p13, p31, p32, p23, p14 }) => {
                chance("loss.p13", *p13)?;
                chance("loss.p31", *p31)?;
                chance("loss.p32", *p32)?;
                chance("loss.p23", *p23)?;
                chance("loss.p14", *p14)?;
                let within = |a: f64, b: f64, field, other: &str| {
                    check(a + b <= 1.0 + 1e-9, field, a, format!("no more than 1 together with `{other}` ({b})"))
                };
                within(*p13, *p14, "loss.p13", "p14")?;
                within(*p31, *p32, "loss.p31", "p32")
            }
            Self::Trace(trace) => check(!trace.lost.is_empty(), "loss.lost", "empty", "at least one entry"),
        }
    }
}

impl ConfigError {
    pub(crate) fn in_branch(mut self, name: &str) -> Self {
        if let Self::Invalid { branch, .. } | Self::Queue { branch, .. } | Self::Selector { branch, .. } = &mut self {
            *branch = Some(name.to_string());
        }
        self
    }
}

fn chance(field: &'static str, value: f64) -> Result<(), ConfigError> {
    check((0.0..=1.0).contains(&value), field, value, "0 to 1")
}

fn check(
    holds: bool,
    field: &'static str,
    value: impl fmt::Display,
    valid: impl Into<String>,
) -> Result<(), ConfigError> {
    if holds {
        return Ok(());
    }
    Err(ConfigError::Invalid { branch: None, field, value: value.to_string(), valid: valid.into() })
}

/// Where something is, in front of a message.
struct Of<'a>(&'a Option<String>);

impl fmt::Display for Of<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |branch| write!(f, "branch `{branch}`: "))
    }
}

/// Names with commas between them.
struct List<'a>(&'a [String]);

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("no branch");
        }
        for (index, name) in self.0.iter().enumerate() {
            write!(f, "{}`{name}`", if index == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}
