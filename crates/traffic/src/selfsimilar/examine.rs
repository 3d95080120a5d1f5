//! A trace looked at from all sides: as it is, and as replays multiply it (figure 5.7 of the thesis, and what it
//! left open).

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::{Ipv4Addr, Ipv6Addr};

use engine::{Random, Span, Time};

use super::gaps::{Gaps, MOST_GAPS, Multiple, lags};
use super::hurst::{Estimate, Estimator, Refusal};
use super::slots::{Slots, fitting};
use crate::replay::{
    AddressRule, AddressTable, Instances, Network, Over, Replay, ReplayConfig, ReplayError, Spacing, Trace, TraceError,
};
use crate::times::TimedPacket;

/// Packets of a trace, at most: with what is needed beside them 1.5 GB.
const MOST_OF_TRACE: usize = 1 << 23;

/// Packets of a multiplied trace that are gone through, at most; it is multiplied less where it would have more.
const MOST_PACKETS: u64 = 30_000_000;

/// Bins of a histogram, and points of a curve.
const BINS: usize = 60;
const POINTS: u32 = 160;

/// Lags that are summed up, at most.
const MOST_LAGS: u64 = 100_000;

/// What is to be examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Examine {
    /// Slot of the series; one that fits the trace if there is none.
    pub slot: Option<Span>,
    /// Bytes per slot instead of packets.
    pub bytes: bool,
    /// Parallel instances in the cases that have more than one; at least 1.
    pub instances: u32,
    /// Repetitions in the cases that have more than one; at least 1.
    pub repetitions: u32,
}

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Examination {
    /// Packets of the trace.
    pub packets: u64,
    /// Their bytes; 0 if sizes are not known.
    pub bytes: u64,
    /// From the first packet to the last.
    pub span: Span,
    /// Slot of the series.
    pub slot: Span,
    /// Whether the series is of bytes.
    pub of_bytes: bool,
    /// Width of the bins of all histograms.
    pub bin: Span,
    /// The trace as it is, and multiplied.
    pub cases: Vec<Case>,
}

/// How a trace is multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Not at all.
    Original,
    /// Copies of each packet at the same instant (the thesis's scaling).
    Copied,
    /// One after the other.
    Repeated,
    /// Both.
    CopiedAndRepeated,
    /// Instances at offsets that are drawn over the trace's length, each going round in it.
    Jittered,
    /// Instances whose gaps are shuffled in blocks.
    Shuffled,
}

impl Way {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Original => "original",
            Self::Copied => "scaled (copy)",
            Self::Repeated => "repeated",
            Self::CopiedAndRepeated => "scaled, repeated",
            Self::Jittered => "scaled (jitter)",
            Self::Shuffled => "scaled (shuffle)",
        }
    }
}

/// One way to multiply the trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// Which.
    pub way: Way,
    /// Instances and repetitions, as far as they were gone through.
    pub instances: u32,
    /// See `instances`.
    pub repetitions: u32,
    /// Slots of the series.
    pub slots: usize,
    /// Index of dispersion of the series: variance over mean.
    pub dispersion: f64,
    /// Hurst exponents of the series.
    pub hurst: Vec<(Estimator, Result<Estimate, Refusal>)>,
    /// Times between packets in bins of [`Examination::bin`]; the last bin holds all longer ones.
    pub histogram: Vec<u64>,
    /// Σ |ρ(k)| up to some lags; none if the gaps do not vary.
    pub sum: Option<Vec<(u64, f64)>>,
    /// The same of the same gaps in an order that was drawn: what chance alone gives.
    pub chance: Option<Vec<(u64, f64)>>,
}

/// Why a trace cannot be examined.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExamineError {
    /// Too few packets.
    #[error("{0} packets are too few to tell anything; take a trace of some thousands")]
    Few(usize),
    /// Too many packets.
    #[error("{0} packets are too many (at most {MOST_OF_TRACE}); take a part of them, with a filter for example")]
    Many(usize),
    /// All packets at once.
    #[error("all packets have the same time, so there is nothing to tell; capture with time stamps")]
    NoTime,
    /// It does not fit the memory.
    #[error(transparent)]
    Memory(#[from] TraceError),
    /// It cannot be multiplied.
    #[error(transparent)]
    Replay(#[from] ReplayError),
}

/// Examines the trace of `packets`, whose times must not decrease.
///
/// Exponents are those of packets (or bytes) per slot. A copy multiplies each slot by the number of instances,
/// which no estimator notices: these cases have the exponents of the others, and another dispersion.
///
/// # Errors
///
/// [`ExamineError`] of a trace with fewer than 16 packets, more than 8,388,608, or without time, and what [`Replay::new`] refuses.
pub fn examine(packets: &[TimedPacket], what: &Examine, random: &Random) -> Result<Examination, ExamineError> {
    let (Some(first), Some(last)) = (packets.first(), packets.last()) else { return Err(ExamineError::Few(0)) };
    if packets.len() < 16 {
        return Err(ExamineError::Few(packets.len()));
    }
    if packets.len() > MOST_OF_TRACE {
        return Err(ExamineError::Many(packets.len()));
    }
    let span = last.time.since(first.time);
    if span == Span::ZERO {
        return Err(ExamineError::NoTime);
    }
    let most = |wanted: u32, times: u64| {
        let fits = MOST_PACKETS / (packets.len() as u64 * times).max(1);
        wanted.clamp(1, u32::try_from(fits).unwrap_or(u32::MAX).max(1))
    };
    let slot = what.slot.unwrap_or_else(|| fitting(packets.len() as u64, span));
    let player = Player::new(packets, slot, what.bytes)?;
    let gaps = Gaps::between(&packets.iter().map(|packet| packet.time).collect::<Vec<_>>());
    let bin = bin_of(packets);
    let examiner = Examiner { player, bin, random };

    let (instances, repetitions) = (most(what.instances, 2), most(what.repetitions, 1));
    let once = examiner.played(Way::Original, 1, 1, Spacing::Copy)?;
    let repeated = examiner.played(Way::Repeated, 1, repetitions, Spacing::Copy)?;
    let copies =
        |way, of: &Case| Case { way, instances, dispersion: of.dispersion * f64::from(instances), ..of.clone() };
    let mut cases = alloc::vec![
        examiner.with_gaps(once.clone(), &gaps),
        examiner.with_gaps(copies(Way::Copied, &once), &gaps),
        examiner.with_gaps(repeated.clone(), &gaps),
        examiner.with_gaps(copies(Way::CopiedAndRepeated, &repeated), &gaps),
    ];
    for (way, spacing) in [(Way::Jittered, Spacing::JITTER), (Way::Shuffled, Spacing::SHUFFLE)] {
        cases.push(examiner.played(way, instances, 1, spacing)?);
    }
    Ok(Examination {
        packets: packets.len() as u64,
        bytes: packets.iter().map(|packet| u64::from(packet.bytes)).sum(),
        span,
        slot,
        of_bytes: what.bytes,
        bin,
        cases,
    })
}

/// Width of bins of which [`BINS`] hold all but the longest hundredth of the gaps.
fn bin_of(packets: &[TimedPacket]) -> Span {
    let mut gaps: Vec<Span> = packets.windows(2).map(|pair| pair[1].time.since(pair[0].time)).collect();
    let place = gaps.len() * 99 / 100;
    let (_, longest, _) = gaps.select_nth_unstable(place);
    Span::from_nanos(longest.as_nanos().div_ceil(BINS as u64).max(1))
}

struct Examiner<'a> {
    player: Player,
    bin: Span,
    random: &'a Random,
}

impl Examiner<'_> {
    /// A case that is played as a replay plays it. What it says of gaps is that of the first [`MOST_GAPS`] ones.
    fn played(&self, way: Way, instances: u32, repetitions: u32, spacing: Spacing) -> Result<Case, ExamineError> {
        let (slots, times) = self.player.play(instances, repetitions, spacing, self.random.clone())?;
        let estimate = |estimator: Estimator| (estimator, estimator.estimate(slots.counts(), &mut self.random.clone()));
        let case = Case {
            way,
            instances,
            repetitions,
            slots: slots.counts().len(),
            dispersion: slots.dispersion(),
            hurst: Estimator::ALL.map(estimate).into(),
            histogram: Vec::new(),
            sum: None,
            chance: None,
        };
        if matches!(way, Way::Jittered | Way::Shuffled) {
            return Ok(self.gaps_of(case, &Gaps::between(&times), Multiple::ONCE));
        }
        Ok(case)
    }

    /// Fills in what a case says of gaps, from the gaps of the trace as it is.
    fn with_gaps(&self, case: Case, gaps: &Gaps) -> Case {
        let multiple = Multiple { copies: u64::from(case.instances), repetitions: u64::from(case.repetitions) };
        self.gaps_of(case, gaps, multiple)
    }

    fn gaps_of(&self, case: Case, gaps: &Gaps, multiple: Multiple) -> Case {
        let lags = lags((gaps.len() as u64).saturating_sub(1).clamp(1, MOST_LAGS), POINTS);
        let shuffled = gaps.shuffled(&mut self.random.clone());
        Case {
            histogram: gaps.histogram(multiple, self.bin, BINS),
            sum: gaps.autocorrelation_sum(multiple, &lags),
            chance: shuffled.autocorrelation_sum(multiple, &lags),
            ..case
        }
    }
}

/// Plays the trace as the load generator does.
struct Player {
    trace: Arc<Trace>,
    table: Arc<AddressTable>,
    /// Bytes of each packet, if they are what is counted.
    bytes: Option<Vec<u32>>,
    span: Span,
    slot: Span,
}

/// An IPv4 header between two addresses. It stands for any packet: when one leaves does not depend on what it is.
const STAND_IN: [u8; 20] = [0x45, 0, 0, 20, 0, 0, 0, 0, 64, 253, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];

impl Player {
    fn new(packets: &[TimedPacket], slot: Span, bytes: bool) -> Result<Self, ExamineError> {
        let mut trace = Trace::new(usize::MAX);
        for packet in packets {
            trace.push(packet.time.as_nanos(), &STAND_IN, STAND_IN.len() as u32)?;
        }
        let table = AddressTable::new(&trace, &AddressRule::FirstSight);
        let span = trace.span();
        let bytes = bytes.then(|| packets.iter().map(|packet| packet.bytes).collect());
        Ok(Self { trace: Arc::new(trace), table: Arc::new(table), bytes, span, slot })
    }

    /// The series of a replay, and the times of its first packets.
    ///
    /// Instances at offsets are counted from when the last has begun until the first ends: so long all of them go
    /// round in the trace.
    fn play(
        &self,
        instances: u32,
        repetitions: u32,
        spacing: Spacing,
        random: Random,
    ) -> Result<(Slots, Vec<Time>), ExamineError> {
        let goes_round = matches!(spacing, Spacing::Jitter { .. });
        let (begins, lasts) = match goes_round {
            true => (Time::ZERO + self.span, self.span),
            false => (Time::ZERO, self.span.times(u64::from(repetitions))),
        };
        let config = ReplayConfig {
            start: Time::ZERO,
            repetitions: if goes_round { 2 } else { repetitions },
            instances: Instances { over: Over::Pdn, count: instances },
            spacing,
            stateful: None,
            network: Network { ues: 1, pdn_v4: Some(Ipv4Addr::UNSPECIFIED), pdn_v6: Some(Ipv6Addr::UNSPECIFIED) },
        };
        let mut replay = Replay::new(self.trace.clone(), self.table.clone(), &config, random)?;
        let mut slots = Slots::new(begins, lasts, self.slot);
        let mut times = Vec::new();
        while let Some(due) = replay.next_due() {
            while let Some(item) = replay.next(due) {
                let weight = self.bytes.as_ref().map_or(1, |bytes| bytes[item.index as usize]);
                slots.add(item.due, f64::from(weight));
                if times.len() <= MOST_GAPS && item.due >= begins {
                    times.push(item.due);
                }
            }
        }
        Ok((slots, times))
    }
}
