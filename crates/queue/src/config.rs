//! What a queue is told to be.

use core::ops::RangeInclusive;

use engine::{Size, Span};
use serde::{Deserialize, Serialize};

/// A queue: its limits and what manages it. The packet in transmission is not in the queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueueConfig {
    /// Most packets that wait.
    pub packets: Option<u32>,
    /// Most bytes that wait, counted as the link counts them (with its framing overhead).
    pub bytes: Option<Size>,
    /// What decides which packet is dropped or marked.
    pub discipline: Discipline,
}

/// The queue management.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Discipline {
    /// First in, first out; a packet that does not fit is dropped.
    DropTail,
    /// Controlled delay (RFC 8289).
    Codel(Codel),
    /// Proportional integral controller enhanced (RFC 8033).
    Pie(Pie),
    /// Flow queueing with `CoDel` on each flow (RFC 8290).
    FqCodel(FqCodel),
}

/// A queue that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Neither limit is given, and so memory would be the limit.
    #[error("the queue has no limit; give it `packets`, `bytes` or both")]
    NoLimit,
    /// A number is out of its range.
    #[error("the queue's `{field}` is {value}; it must be {least} to {most}")]
    OutOfRange {
        /// Which number.
        field: &'static str,
        /// What it is.
        value: u64,
        /// The least it may be.
        least: u64,
        /// The most it may be.
        most: u64,
    },
    /// A span of time is out of its range.
    #[error("the queue's `{field}` is {value}; it must be {least} to {most}")]
    SpanOutOfRange {
        /// Which span.
        field: &'static str,
        /// What it is.
        value: Span,
        /// The shortest it may be.
        least: Span,
        /// The longest it may be.
        most: Span,
    },
}

/// Parameters of `CoDel`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Codel {
    /// Sojourn time aimed at.
    pub target: Span,
    /// Sliding window in which the sojourn time must fall below the target once.
    pub interval: Span,
    /// Mark ECN-capable packets (RFC 3168) where others are dropped.
    pub ecn: bool,
}

/// Parameters of PIE.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pie {
    /// Queueing delay aimed at (`QDELAY_REF`).
    pub target: Span,
    /// How often the drop probability is computed (`T_UPDATE`).
    pub update: Span,
    /// Burst that passes before the first drop (`MAX_BURST`).
    pub burst: Span,
    /// Mark ECN-capable packets while the probability is below 10 % (`mark_ecnth`).
    pub ecn: bool,
}

/// Parameters of FQ-CoDel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FqCodel {
    /// Number of flow queues.
    pub flows: u32,
    /// Bytes a flow may send in its turn.
    pub quantum: u32,
    /// The `CoDel` on each flow.
    pub codel: Codel,
}

impl QueueConfig {
    /// Largest packet that may wait, in bytes: one of IP's longest with an Ethernet header and two
    /// tags. A limit in packets alone bounds memory by so many of these.
    pub const LONGEST_FRAME: u64 = 65_535 + 22;

    /// Most bytes of a frame for each byte that counts on the link: Ethernet pads a packet of 20
    /// bytes to a frame of 60. A limit in bytes bounds memory by so much.
    pub const FRAME_PER_COST: u64 = 3;

    /// Whether such a queue can be.
    ///
    /// # Errors
    ///
    /// Names the field and its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.packets.is_none() && self.bytes.is_none() {
            return Err(ConfigError::NoLimit);
        }
        match &self.discipline {
            Discipline::DropTail => Ok(()),
            Discipline::Codel(codel) => codel.validate(),
            Discipline::Pie(pie) => {
                span("target", pie.target, MICROSECOND..=HOUR)?;
                // Updates that fell due while nothing happened are made up for one by one.
                span("update", pie.update, Span::from_millis(1)..=HOUR)?;
                span("burst", pie.burst, Span::ZERO..=HOUR)
            }
            Discipline::FqCodel(fq) => {
                number("flows", fq.flows, 1..=65_536)?;
                // A flow's turn comes once for every quantum in a packet.
                number("quantum", fq.quantum, 64..=1 << 20)?;
                fq.codel.validate()
            }
        }
    }

    /// Most bytes of frames that wait at once: that many for the limit in bytes, or the longest for
    /// each packet, whichever is less.
    #[must_use]
    pub fn memory_bound(&self) -> u64 {
        let packets = self.packets.map_or(u64::MAX, |packets| u64::from(packets) * Self::LONGEST_FRAME);
        packets.min(self.bytes.map_or(u64::MAX, |bytes| bytes.bytes().saturating_mul(Self::FRAME_PER_COST)))
    }
}

impl Codel {
    fn validate(&self) -> Result<(), ConfigError> {
        span("target", self.target, MICROSECOND..=HOUR)?;
        span("interval", self.interval, self.target.max(MICROSECOND)..=HOUR)
    }
}

const MICROSECOND: Span = Span::from_micros(1);
const HOUR: Span = Span::from_secs(3_600);

fn span(field: &'static str, value: Span, range: RangeInclusive<Span>) -> Result<(), ConfigError> {
    if range.contains(&value) {
        return Ok(());
    }
    Err(ConfigError::SpanOutOfRange { field, value, least: *range.start(), most: *range.end() })
}

fn number(field: &'static str, value: u32, range: RangeInclusive<u32>) -> Result<(), ConfigError> {
    if range.contains(&value) {
        return Ok(());
    }
    let [value, least, most] = [value, *range.start(), *range.end()].map(u64::from);
    Err(ConfigError::OutOfRange { field, value, least, most })
}

impl Default for Codel {
    /// RFC 8289 4.2 and 4.3: target 5 ms, interval 100 ms.
    fn default() -> Self {
        Self { target: Span::from_millis(5), interval: Span::from_millis(100), ecn: false }
    }
}

impl Default for Pie {
    /// RFC 8033 4.1 and 5.1: target 15 ms, update every 15 ms, burst 150 ms.
    fn default() -> Self {
        Self { target: Span::from_millis(15), update: Span::from_millis(15), burst: Span::from_millis(150), ecn: false }
    }
}

impl Default for FqCodel {
    /// RFC 8290 5.2: 1,024 flows, a quantum of 1,514 bytes, ECN on.
    fn default() -> Self {
        Self { flows: 1024, quantum: 1514, codel: Codel { ecn: true, ..Codel::default() } }
    }
}
