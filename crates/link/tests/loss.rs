//! Loss: each model's mean within the 99 % interval that its own correlation gives, its bursts by
//! chi-square, and the formulas for both against a computation that knows nothing of them.

mod common;

use common::{Z_99, assert_distribution, direction, drive};
use engine::{Packet, Time};
use link::{GilbertElliott, LOSS, LossAt, LossModel, LossTrace, Markov4, PipeConfig};

/// A hidden Markov chain: transitions, and the chance of loss in each state.
struct Chain {
    transitions: Vec<Vec<f64>>,
    loss: Vec<f64>,
    stationary: Vec<f64>,
}

impl Chain {
    fn new(transitions: Vec<Vec<f64>>, loss: Vec<f64>) -> Self {
        // From the first state on, lest states that are never entered count.
        let mut stationary = vec![0.0; loss.len()];
        stationary[0] = 1.0;
        let mut chain = Self { transitions, loss, stationary };
        for _ in 0..20_000 {
            // Half a step, so that chains that alternate settle too.
            let next = chain.step(&chain.stationary);
            chain.stationary = chain.stationary.iter().zip(next).map(|(a, b)| f64::midpoint(*a, b)).collect();
        }
        chain
    }

    fn of(model: &LossModel) -> Self {
        match model {
            LossModel::Bernoulli(p) => Self::new(vec![vec![1.0]], vec![*p]),
            LossModel::GilbertElliott(m) => {
                Self::new(vec![vec![1.0 - m.p, m.p], vec![m.r, 1.0 - m.r]], vec![m.loss_good, m.loss_bad])
            }
            LossModel::Markov4(m) => Self::new(
                vec![
                    vec![1.0 - m.p13 - m.p14, 0.0, m.p13, m.p14],
                    vec![0.0, 1.0 - m.p23, m.p23, 0.0],
                    vec![m.p31, m.p32, 1.0 - m.p31 - m.p32, 0.0],
                    vec![1.0, 0.0, 0.0, 0.0],
                ],
                vec![0.0, 0.0, 1.0, 1.0],
            ),
            LossModel::Trace(_) => unreachable!("a trace is no chain"),
        }
    }

    /// Chances of each state one packet later.
    fn step(&self, states: &[f64]) -> Vec<f64> {
        (0..states.len())
            .map(|to| (0..states.len()).map(|from| states[from] * self.transitions[from][to]).sum())
            .collect()
    }

    fn weighted(states: &[f64], weights: impl Fn(usize) -> f64) -> Vec<f64> {
        states.iter().enumerate().map(|(state, chance)| chance * weights(state)).collect()
    }

    fn mean(&self) -> f64 {
        Self::weighted(&self.stationary, |s| self.loss[s]).iter().sum()
    }

    /// Variance of the number of losses among `n` packets, by the autocovariance.
    fn variance(&self, n: f64) -> f64 {
        let mean = self.mean();
        let mut states = Self::weighted(&self.stationary, |s| self.loss[s]);
        let mut sum = n * mean * (1.0 - mean);
        for lag in 1..2_000 {
            states = self.step(&states);
            let both: f64 = Self::weighted(&states, |s| self.loss[s]).iter().sum();
            sum += 2.0 * (n - f64::from(lag)) * (both - mean * mean);
        }
        sum
    }

    /// Chances that a burst is 1, 2, … packets long, and the mean length.
    fn bursts(&self) -> (Vec<f64>, f64) {
        let received = Self::weighted(&self.stationary, |s| 1.0 - self.loss[s]);
        let mut states = Self::weighted(&self.step(&received), |s| self.loss[s]);
        let begins: f64 = states.iter().sum();
        let mut lengths = Vec::new();
        for _ in 0..5_000 {
            let next = self.step(&states);
            lengths.push(Self::weighted(&next, |s| 1.0 - self.loss[s]).iter().sum::<f64>() / begins);
            states = Self::weighted(&next, |s| self.loss[s]);
        }
        let mean = lengths.iter().zip(1..).map(|(chance, length)| chance * f64::from(length)).sum();
        (lengths, mean)
    }
}

fn models() -> Vec<(&'static str, LossModel)> {
    let ge = |p, r, loss_bad, loss_good| LossModel::GilbertElliott(GilbertElliott { p, r, loss_bad, loss_good });
    vec![
        ("Bernoulli 1 %", LossModel::Bernoulli(0.01)),
        ("Bernoulli 10 %", LossModel::Bernoulli(0.1)),
        ("Bernoulli 60 %", LossModel::Bernoulli(0.6)),
        ("Gilbert", ge(0.02, 0.25, 1.0, 0.0)),
        ("Gilbert, long bursts", ge(0.002, 0.05, 1.0, 0.0)),
        ("Gilbert-Elliott", ge(0.03, 0.1, 0.7, 0.005)),
        ("Gilbert-Elliott, alternating", ge(0.9, 0.8, 0.5, 0.1)),
        ("four states", LossModel::Markov4(Markov4 { p13: 0.02, p31: 0.15, p32: 0.2, p23: 0.4, p14: 0.01 })),
        ("four states, no gaps", LossModel::Markov4(Markov4 { p13: 0.05, p31: 0.3, p32: 0.0, p23: 0.0, p14: 0.0 })),
        ("four states, isolated", LossModel::Markov4(Markov4 { p13: 0.0, p31: 0.0, p32: 0.0, p23: 0.0, p14: 0.05 })),
    ]
}

const PACKETS: u64 = 200_000;

/// Which of the packets are lost.
fn losses(loss: &LossModel, loss_at: LossAt, seed: u64, packets: u64) -> Vec<bool> {
    let pipe = PipeConfig { loss: loss.clone(), loss_at, ..PipeConfig::default() };
    let fates = drive(&mut direction(pipe, seed), (0..packets).map(|_| (Time::ZERO, Packet::new(vec![0; 60]))));
    assert_eq!(fates.len() as u64, packets);
    assert!(fates.iter().all(|fate| fate.dropped.is_none_or(|reason| reason == LOSS)));
    fates.iter().map(|fate| fate.dropped.is_some()).collect()
}

#[test]
fn means_are_within_their_intervals() {
    for (name, model) in models() {
        let lost = losses(&model, LossAt::Entry, 1, PACKETS).iter().filter(|lost| **lost).count() as f64;
        let chain = Chain::of(&model);
        let (n, mean) = (PACKETS as f64, chain.mean());
        let bound = Z_99 * chain.variance(n).sqrt();
        assert!((lost - n * mean).abs() < bound, "{name}: {lost} of {} ± {bound}", n * mean);
    }
}

#[test]
fn burst_lengths_are_as_the_model_says() {
    for (name, model) in models() {
        let losses = losses(&model, LossAt::Entry, 2, PACKETS);
        let mut seen = vec![0.0; 5_001];
        for run in losses.split(|lost| !lost).filter(|run| !run.is_empty()) {
            seen[run.len().min(5_000)] += 1.0;
        }
        let number: f64 = seen.iter().sum();
        let (chances, _) = Chain::of(&model).bursts();
        let bins: Vec<_> = chances.iter().zip(1..).map(|(chance, length)| (seen[length], chance * number)).collect();
        if chances[0] > 0.999_999 {
            // Isolated losses only.
            assert_eq!((seen[1], number), (number, seen[1]), "{name}");
        } else {
            assert_distribution(name, &bins);
        }
    }
}

#[test]
fn formulas_agree_with_the_chains() {
    for (name, model) in models() {
        let chain = Chain::of(&model);
        assert!((model.mean_loss() - chain.mean()).abs() < 1e-9, "{name}");
        let (_, mean) = chain.bursts();
        assert!((model.mean_burst().unwrap() - mean).abs() < 1e-6 * mean, "{name}: {:?} {mean}", model.mean_burst());
    }
    assert_eq!(LossModel::Bernoulli(0.0).mean_burst(), None);
    assert_eq!(LossModel::Bernoulli(1.0).mean_burst(), None);
    let stuck = GilbertElliott { p: 0.0, r: 0.0, loss_bad: 1.0, loss_good: 0.1 };
    assert!((LossModel::GilbertElliott(stuck).mean_loss() - 0.1).abs() < 1e-12);
}

#[test]
fn the_first_packet_is_like_any_other() {
    // Over many seeds the first packet is lost as often as the stationary state says.
    for (name, model) in models() {
        let seeds = 4_000;
        let lost = (0..seeds).filter(|seed| losses(&model, LossAt::Entry, *seed, 1)[0]).count() as f64;
        let mean = model.mean_loss();
        let bound = Z_99 * (seeds as f64 * mean * (1.0 - mean)).sqrt();
        assert!((lost - seeds as f64 * mean).abs() < bound, "{name}: {lost} of {}", seeds as f64 * mean);
    }
}

#[test]
fn none_and_all_are_exact() {
    for at in [LossAt::Entry, LossAt::Air] {
        assert!(losses(&LossModel::Bernoulli(0.0), at, 1, 10_000).iter().all(|lost| !lost));
        assert!(losses(&LossModel::Bernoulli(1.0), at, 1, 10_000).iter().all(|lost| *lost));
    }
}

#[test]
fn a_trace_is_followed_and_starts_again() {
    let lost = vec![false, true, true, false, false];
    let trace = LossModel::Trace(LossTrace { source: "t".into(), lost: lost.clone() });
    let expected: Vec<bool> = lost.iter().copied().cycle().take(23).collect();
    assert_eq!(losses(&trace, LossAt::Entry, 1, 23), expected);
    assert_eq!((trace.mean_loss(), trace.mean_burst()), (0.4, Some(2.0)));
    // Taken as a ring, the last and the first are neighbours.
    let ring = LossModel::Trace(LossTrace { source: "t".into(), lost: vec![true, false, false, true] });
    assert_eq!(ring.mean_burst(), Some(2.0));
}

#[test]
fn more_loss_takes_the_same_packets_and_more() {
    // One draw a packet: points of a sweep over p share their seed's luck.
    let few = losses(&LossModel::Bernoulli(0.05), LossAt::Entry, 5, 20_000);
    let many = losses(&LossModel::Bernoulli(0.06), LossAt::Entry, 5, 20_000);
    assert!(few.iter().zip(&many).all(|(few, many)| !few | many));
    assert_ne!(few, many);
}
