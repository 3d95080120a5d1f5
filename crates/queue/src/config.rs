//! What a queue is told to be.

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
