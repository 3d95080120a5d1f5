//! How parallel instances of a trace lie in time to each other.

use alloc::boxed::Box;
use alloc::collections::BinaryHeap;
use alloc::collections::binary_heap::PeekMut;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::num::NonZeroU16;
use core::str::FromStr;

use engine::{Random, Span};

/// How parallel instances of a trace lie in time to each other. Instance 0 always is the trace as it was captured.
///
/// Counted in intervals, the sum of instances has the long-range dependence of the trace in all three. They differ
/// in the times between packets, and in how high the peaks are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spacing {
    /// All instances of a packet at the same instant, as in the thesis (3.4): bursts grow with the instances, and
    /// all but one in so many of the times between packets are zero.
    #[default]
    Copy,
    /// Every instance begins at an offset of its own, drawn from zero up to this span, or to the trace's if none
    /// is given. Instances are then users that know nothing of each other; peaks even out.
    Jitter {
        /// The offsets lie below this.
        within: Option<Span>,
    },
    /// Every instance has the trace's gaps between packets, but in each block of so many in an order of its own.
    /// Blocks stay where they are, so that what holds over longer times still holds: the *internal* shuffle of
    /// Erramilli, Narayan and Willinger 1996 (the external one, of whole blocks, would undo it). Packets keep
    /// their order. Bursts grow with the instances but copies do not coincide: where blocks end differs, and each
    /// instance is later than the trace by a part of its mean gap that is drawn too.
    Shuffle {
        /// Gaps in a block.
        block: NonZeroU16,
    },
}

/// A word that is no spacing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a spacing; use one of copy, jitter, shuffle")]
pub struct SpacingError(String);

impl Spacing {
    /// Offsets over the whole trace.
    pub const JITTER: Self = Self::Jitter { within: None };
    /// Blocks of 16 gaps.
    pub const SHUFFLE: Self = Self::Shuffle { block: NonZeroU16::new(16).expect("not zero") };
}

impl FromStr for Spacing {
    type Err = SpacingError;

    fn from_str(text: &str) -> Result<Self, SpacingError> {
        match text {
            "copy" => Ok(Self::Copy),
            "jitter" => Ok(Self::JITTER),
            "shuffle" => Ok(Self::SHUFFLE),
            _ => Err(SpacingError(text.to_string())),
        }
    }
}

/// A packet that is to leave: everything in the order in which equal times are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Turn {
    /// Nanoseconds since the replay began.
    pub(super) due: u64,
    pub(super) repetition: u32,
    /// Number of the packet among those that are replayed.
    pub(super) step: u32,
    pub(super) instance: u32,
}

/// The turns of all instances of a trace in the order of their times.
#[derive(Clone, Debug)]
pub(super) enum Turns {
    /// The instances take turns at each packet (thesis 3.4).
    Copied { next: Option<Turn>, instances: u32 },
    /// Each instance goes its own way.
    Apart(Box<Apart>),
}

/// Instances that go their own ways.
#[derive(Clone, Debug)]
pub(super) struct Apart {
    /// Each instance's next turn.
    heap: BinaryHeap<Reverse<Turn>>,
    /// When each begins.
    offsets: Vec<u64>,
    /// Empty if gaps are not shuffled.
    shuffles: Vec<Shuffle>,
    block: u32,
    random: Random,
}

/// Where an instance is in its own order of gaps.
#[derive(Clone, Debug, Default)]
pub(super) struct Shuffle {
    /// First gap of the block, and the order of the block's gaps from there.
    begin: u32,
    order: Vec<u16>,
}

impl Turns {
    /// `times` are the packets' since the first, in order.
    pub(super) fn new(spacing: Spacing, instances: u32, times: &[u64], mut random: Random) -> Self {
        let first = |instance, due| Turn { due, repetition: 0, step: 0, instance };
        if instances == 0 || times.is_empty() {
            return Self::Copied { next: None, instances };
        }
        let within = match spacing {
            Spacing::Copy => return Self::Copied { next: Some(first(0, 0)), instances },
            Spacing::Jitter { within } => within.map_or(times[times.len() - 1], Span::as_nanos),
            Spacing::Shuffle { .. } => times[times.len() - 1] / times.len() as u64,
        };
        let block = if let Spacing::Shuffle { block } = spacing { u32::from(block.get()) } else { 0 };
        let offsets = offsets(instances, within, &mut random);
        let heap = (0..).zip(&offsets).map(|(instance, &offset)| Reverse(first(instance, offset))).collect();
        let shuffles = if block == 0 {
            Vec::new()
        } else {
            let room = || Shuffle { begin: 0, order: Vec::with_capacity(block as usize) };
            (0..instances).map(|_| room()).collect()
        };
        Self::Apart(Box::new(Apart { heap, offsets, shuffles, block, random }))
    }

    pub(super) fn peek(&self) -> Option<Turn> {
        match self {
            Self::Copied { next, .. } => *next,
            Self::Apart(apart) => apart.heap.peek().map(|Reverse(turn)| *turn),
        }
    }

    /// Takes the turn that [`Turns::peek`] shows.
    pub(super) fn take(&mut self, times: &[u64], repetitions: u32) -> Option<Turn> {
        let period = times.last().copied().unwrap_or(0);
        let after = |turn: Turn| {
            let step = turn.step + 1;
            match (step as usize) < times.len() {
                true => Some(Turn { step, ..turn }),
                false => {
                    let repetition = turn.repetition + 1;
                    (repetition < repetitions).then_some(Turn { step: 0, repetition, ..turn })
                }
            }
        };
        let begin = |turn: &Turn| u64::from(turn.repetition).saturating_mul(period);
        match self {
            Self::Copied { next, instances } => {
                let turn = (*next)?;
                *next = if turn.instance + 1 < *instances {
                    Some(Turn { instance: turn.instance + 1, ..turn })
                } else {
                    after(Turn { instance: 0, ..turn })
                        .map(|turn| Turn { due: begin(&turn).saturating_add(times[turn.step as usize]), ..turn })
                };
                Some(turn)
            }
            Self::Apart(apart) => {
                let mut top = apart.heap.peek_mut()?;
                let turn = top.0;
                let Some(mut next) = after(turn) else {
                    PeekMut::pop(top);
                    return Some(turn);
                };
                let own = apart.shuffles.get_mut(next.instance as usize).filter(|_| next.instance != 0);
                next.due = match own {
                    Some(own) if next.step > 0 => {
                        let gap = own.gap(next.step - 1, times.len() as u32 - 1, apart.block, &mut apart.random);
                        turn.due.saturating_add(times[gap as usize + 1] - times[gap as usize])
                    }
                    _ => {
                        let offset = apart.offsets[next.instance as usize];
                        begin(&next).saturating_add(offset).saturating_add(times[next.step as usize])
                    }
                };
                top.0 = next;
                Some(turn)
            }
        }
    }
}

/// When each instance begins: the first at once, others at times drawn below `within`.
pub(super) fn offsets(instances: u32, within: u64, random: &mut Random) -> Vec<u64> {
    (0..instances).map(|instance| if instance == 0 { 0 } else { random.below(within) }).collect()
}

impl Shuffle {
    /// Which of the trace's `gaps` stands at place `at` in this instance. Asked for 0, 1, 2, … in every repetition.
    fn gap(&mut self, at: u32, gaps: u32, block: u32, random: &mut Random) -> u32 {
        if at == 0 || at - self.begin >= self.order.len() as u32 {
            // The first block is cut at a place of this instance's own, so that the ends of blocks, where all
            // instances are as far as the trace, do not coincide.
            let len = if at == 0 { 1 + random.below(u64::from(block)) as u32 } else { block };
            self.begin = at;
            self.order.clear();
            self.order.extend(0..len.min(gaps - at) as u16);
            for i in (1..self.order.len()).rev() {
                self.order.swap(i, random.below(i as u64 + 1) as usize);
            }
        }
        self.begin + u32::from(self.order[(at - self.begin) as usize])
    }
}
