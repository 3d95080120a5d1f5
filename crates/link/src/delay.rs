//! How long a packet travels.

use engine::{Random, Span, Time};

use crate::config::{DelayModel, Empirical, Timeline};

/// A delay model at work.
#[derive(Debug)]
pub(crate) struct Delay {
    model: DelayModel,
    random: Random,
    /// The timeline's step that held last.
    step: usize,
}

impl Delay {
    pub(crate) fn new(model: DelayModel, random: Random) -> Self {
        Self { model, random, step: 0 }
    }

    /// Goes over to another model; the random stream goes on.
    pub(crate) fn set(&mut self, model: DelayModel) {
        self.model = model;
        self.step = 0;
    }

    /// The delay of the packet that sets out at `at`. No longer than [`DelayModel::LONGEST`].
    pub(crate) fn next(&mut self, at: Time) -> Span {
        let random = &mut self.random;
        match &self.model {
            DelayModel::Constant(delay) => *delay,
            DelayModel::Uniform { min, max } => {
                *min + Span::from_nanos(random.below(max.saturating_sub(*min).as_nanos().saturating_add(1)))
            }
            DelayModel::Normal { mean, deviation } => {
                // A negative number becomes zero by the conversion.
                let nanos = mean.as_nanos() as f64 + deviation.as_nanos() as f64 * random.normal();
                Span::from_nanos(nanos as u64).min(DelayModel::LONGEST)
            }
            DelayModel::Pareto { scale, shape } => {
                let nanos = scale.as_nanos() as f64 * libm::pow(1.0 - random.uniform(), -1.0 / shape);
                Span::from_nanos(nanos as u64).min(DelayModel::LONGEST)
            }
            DelayModel::Empirical(Empirical { delays, .. }) => {
                let intervals = delays.len().saturating_sub(1) as u64;
                let at = random.below(intervals) as usize;
                match delays.get(at..) {
                    Some([low, high, ..]) => between(*low, *high, random.bits(), 1 << 64),
                    _ => Span::ZERO,
                }
            }
            DelayModel::Timeline(timeline) => {
                let at = at.since(Time::ZERO);
                while timeline.steps.get(self.step + 1).is_some_and(|(from, _)| *from <= at) {
                    self.step += 1;
                }
                timeline.delay(self.step, at)
            }
        }
    }
}

impl DelayModel {
    /// The longest delay there is: models with a tail are cut off here.
    pub const LONGEST: Span = Span::from_secs(3_600);

    /// The longest delay this model gives, if it is less than [`LONGEST`](Self::LONGEST).
    #[must_use]
    pub fn longest(&self) -> Option<Span> {
        match self {
            Self::Constant(delay) => Some(*delay),
            Self::Uniform { max, .. } => Some(*max),
            Self::Normal { .. } | Self::Pareto { .. } => None,
            Self::Empirical(empirical) => empirical.delays.last().copied(),
            Self::Timeline(timeline) => timeline.steps.iter().map(|(_, delay)| *delay).max(),
        }
    }
}

impl Timeline {
    /// The delay at `at`, which is in the step of this number.
    fn delay(&self, step: usize, at: Span) -> Span {
        match self.steps.get(step..) {
            Some([(from, low), (until, high), ..]) if self.interpolate => {
                let (passed, length) = (at.saturating_sub(*from), until.saturating_sub(*from));
                between(*low, *high, passed.as_nanos().min(length.as_nanos()), u128::from(length.as_nanos()))
            }
            Some([(_, delay), ..]) => *delay,
            _ => Span::ZERO,
        }
    }
}

/// The point `part / whole` of the way from `low` to `high`, which may be the lesser.
fn between(low: Span, high: Span, part: u64, whole: u128) -> Span {
    let way = |length: Span| {
        let nanos = u128::from(length.as_nanos()) * u128::from(part) / whole.max(1);
        Span::from_nanos(nanos as u64)
    };
    if high >= low { low + way(high.saturating_sub(low)) } else { low.saturating_sub(way(low.saturating_sub(high))) }
}
