//! Which packets are lost.

use alloc::vec::Vec;

use engine::Random;

use crate::config::{GilbertElliott, LossModel, Markov4};

/// A loss model at work.
#[derive(Debug)]
pub(crate) struct Loss {
    model: Model,
    random: Random,
}

#[derive(Debug)]
enum Model {
    Bernoulli(f64),
    GilbertElliott(GilbertElliott, Phase),
    Markov4(Markov4, State),
    Trace(Vec<bool>, usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Good,
    Bad,
}

/// The states as Salsano et al. number them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Good = 1,
    GoodInBurst = 2,
    BurstLoss = 3,
    IsolatedLoss = 4,
}

impl Loss {
    /// Chains start in a state drawn from their stationary distribution, so that the stated mean
    /// holds from the first packet on.
    pub(crate) fn new(model: &LossModel, random: Random) -> Self {
        let mut loss = Self { model: Model::Bernoulli(0.0), random };
        loss.set(model);
        loss
    }

    /// Goes over to another model; the random stream goes on.
    pub(crate) fn set(&mut self, model: &LossModel) {
        self.model = match model {
            LossModel::Bernoulli(p) => Model::Bernoulli(*p),
            LossModel::GilbertElliott(model) => {
                let bad = self.random.chance(model.share_of_bad());
                Model::GilbertElliott(*model, if bad { Phase::Bad } else { Phase::Good })
            }
            LossModel::Markov4(model) => {
                let u = self.random.uniform();
                let [good, in_burst, burst, _] = model.shares();
                let state = match u {
                    u if u < good => State::Good,
                    u if u < good + in_burst => State::GoodInBurst,
                    u if u < good + in_burst + burst => State::BurstLoss,
                    _ => State::IsolatedLoss,
                };
                Model::Markov4(*model, state)
            }
            LossModel::Trace(trace) => Model::Trace(trace.lost.clone(), 0),
        };
    }

    /// Whether the next packet is lost. The state decides on the packet, and then moves.
    pub(crate) fn next(&mut self) -> bool {
        let random = &mut self.random;
        match &mut self.model {
            Model::Bernoulli(p) => random.chance(*p),
            Model::GilbertElliott(model, phase) => {
                let (loss, leave, other) = match phase {
                    Phase::Good => (model.loss_good, model.p, Phase::Bad),
                    Phase::Bad => (model.loss_bad, model.r, Phase::Good),
                };
                if random.chance(leave) {
                    *phase = other;
                }
                random.chance(loss)
            }
            Model::Markov4(model, state) => {
                let lost = matches!(state, State::BurstLoss | State::IsolatedLoss);
                let u = random.uniform();
                *state = match *state {
                    State::Good if u < model.p13 => State::BurstLoss,
                    State::Good if u < model.p13 + model.p14 => State::IsolatedLoss,
                    State::GoodInBurst if u < model.p23 => State::BurstLoss,
                    State::BurstLoss if u < model.p31 => State::Good,
                    State::BurstLoss if u < model.p31 + model.p32 => State::GoodInBurst,
                    State::IsolatedLoss => State::Good,
                    stay => stay,
                };
                lost
            }
            Model::Trace(lost, at) => {
                let now = lost.get(*at).copied().unwrap_or_default();
                *at = if *at + 1 < lost.len() { *at + 1 } else { 0 };
                now
            }
        }
    }
}

impl LossModel {
    /// Share of packets lost in the long run, 0 to 1.
    ///
    /// * Bernoulli: `p`
    /// * Gilbert-Elliott: `(r * loss_good + p * loss_bad) / (p + r)`
    /// * four states: the stationary shares of states 3 and 4 ([`Markov4::shares`])
    /// * trace: the share of losses in it
    #[must_use]
    pub fn mean_loss(&self) -> f64 {
        match self {
            Self::Bernoulli(p) => *p,
            Self::GilbertElliott(model) => {
                let bad = model.share_of_bad();
                (1.0 - bad) * model.loss_good + bad * model.loss_bad
            }
            Self::Markov4(model) => {
                let [_, _, burst, isolated] = model.shares();
                burst + isolated
            }
            Self::Trace(trace) => trace.lost.iter().filter(|lost| **lost).count() as f64 / trace.lost.len() as f64,
        }
    }

    /// Mean number of packets lost in a row, given that one is lost; `None` if none ever is, or all
    /// are.
    ///
    /// It is the share of packets lost over the share of packets that are lost after one that was
    /// not:
    ///
    /// * Bernoulli: `1 / (1 - p)`
    /// * Gilbert-Elliott with `loss_bad = 1` and `loss_good = 0` (Gilbert's simple model): `1 / r`
    /// * four states: `(share3 + share4) / (share1 * (p13 + p14) + share2 * p23)`
    /// * trace: of the losses as recorded, the trace taken as a ring
    #[must_use]
    pub fn mean_burst(&self) -> Option<f64> {
        let begins = match self {
            Self::Bernoulli(p) => p * (1.0 - p),
            Self::GilbertElliott(model) => {
                let bad = model.share_of_bad();
                let after_good = (1.0 - model.p) * model.loss_good + model.p * model.loss_bad;
                let after_bad = (1.0 - model.r) * model.loss_bad + model.r * model.loss_good;
                (1.0 - bad) * (1.0 - model.loss_good) * after_good + bad * (1.0 - model.loss_bad) * after_bad
            }
            Self::Markov4(model) => {
                let [good, in_burst, ..] = model.shares();
                good * (model.p13 + model.p14) + in_burst * model.p23
            }
            Self::Trace(trace) => {
                let before = trace.lost.iter().cycle().skip(trace.lost.len().saturating_sub(1));
                let begins = trace.lost.iter().zip(before).filter(|(lost, before)| **lost && !**before).count();
                begins as f64 / trace.lost.len() as f64
            }
        };
        (begins > 0.0).then(|| self.mean_loss() / begins)
    }
}

impl GilbertElliott {
    /// Share of time in the bad state in the long run: `p / (p + r)`; 0 if neither state is ever
    /// left.
    #[must_use]
    pub fn share_of_bad(&self) -> f64 {
        if self.p + self.r > 0.0 { self.p / (self.p + self.r) } else { 0.0 }
    }
}

impl Markov4 {
    /// Shares of time in states 1 to 4 in the long run. With `p41 = 1` the balance equations give
    /// `share1 : share2 : share3 : share4 = p31 * p23 : p13 * p32 : p13 * p23 : p14 * p31 * p23`.
    #[must_use]
    pub fn shares(&self) -> [f64; 4] {
        // Without a way into the burst, or into state 2, both sides of a balance are zero.
        let [good, in_burst, burst] = match self {
            _ if self.p13 == 0.0 => [1.0, 0.0, 0.0],
            _ if self.p32 == 0.0 => [self.p31, 0.0, self.p13],
            _ => [self.p31 * self.p23, self.p13 * self.p32, self.p13 * self.p23],
        };
        let isolated = self.p14 * good;
        let sum = good + in_burst + burst + isolated;
        [good / sum, in_burst / sum, burst / sum, isolated / sum]
    }
}
