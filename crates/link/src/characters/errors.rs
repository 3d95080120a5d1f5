//! Which bits are hit.

use alloc::format;

use engine::Random;

use super::config::BitErrors;

/// Bit errors at work: not a draw for every bit, but one for every hit and every change of state.
#[derive(Debug)]
pub(crate) struct Hits {
    model: BitErrors,
    random: Random,
    in_burst: bool,
    /// Bits until the state changes.
    stay: u64,
    /// Good bits before the next hit, if the state lasts that long.
    clean: u64,
}

impl Hits {
    pub(crate) fn new(model: BitErrors, seed: u64, label: &str) -> Self {
        let random = Random::stream(seed, &format!("{label}.errors"));
        let mut hits = Self { model, random, in_burst: false, stay: u64::MAX, clean: u64::MAX };
        hits.set(model);
        hits
    }

    /// Goes over to another model, in a state drawn from its stationary distribution.
    pub(crate) fn set(&mut self, model: BitErrors) {
        self.model = model;
        let in_burst = match model {
            BitErrors::Independent(_) => false,
            BitErrors::Bursts(bursts) => self.random.chance(bursts.share()),
        };
        self.enter(in_burst);
    }

    /// The next `bits` bits (at most 32) are sent: bit n of the result is set if the n-th is hit.
    pub(crate) fn next(&mut self, bits: u32) -> u32 {
        let bits = u64::from(bits);
        let (mut at, mut mask) = (0, 0);
        while at < bits {
            let span = self.stay.min(bits - at);
            if self.clean < span {
                at += self.clean;
                mask |= 1 << at;
                at += 1;
                self.stay -= self.clean + 1;
                let rate = self.rate();
                self.clean = geometric(&mut self.random, rate);
            } else {
                at += span;
                self.stay -= span;
                self.clean -= span;
            }
            if self.stay == 0 {
                self.enter(!self.in_burst);
            }
        }
        mask
    }

    /// Hits with another chance than the model's.
    pub(crate) fn draw(&mut self, bits: u32, rate: f64) -> u32 {
        (0..bits).fold(0, |mask, at| mask | u32::from(self.random.chance(rate)) << at)
    }

    /// The line is idle for so many bits. Bursts come and go meanwhile; the state after them is
    /// drawn from the chain's distribution n steps on.
    pub(crate) fn idle(&mut self, bits: u64) {
        if let BitErrors::Bursts(bursts) = self.model
            && bits > 0
        {
            let share = bursts.share();
            let memory = libm::pow(1.0 - bursts.begin - bursts.end, bits as f64);
            let before = if self.in_burst { 1.0 } else { 0.0 };
            let in_burst = self.random.chance(share + (before - share) * memory);
            self.enter(in_burst);
        }
    }

    /// The chance that a bit is wrong in the present state.
    fn rate(&self) -> f64 {
        match self.model {
            BitErrors::Independent(rate) => rate,
            BitErrors::Bursts(bursts) if self.in_burst => bursts.inside,
            BitErrors::Bursts(bursts) => bursts.outside,
        }
    }

    fn enter(&mut self, in_burst: bool) {
        self.in_burst = in_burst;
        self.stay = match self.model {
            BitErrors::Independent(_) => u64::MAX,
            BitErrors::Bursts(bursts) => {
                let leave = if in_burst { bursts.end } else { bursts.begin };
                geometric(&mut self.random, leave).saturating_add(1)
            }
        };
        let rate = self.rate();
        self.clean = geometric(&mut self.random, rate);
    }
}

/// How many failures come before the first success, each try having the chance `p`.
fn geometric(random: &mut Random, p: f64) -> u64 {
    if p <= 0.0 {
        return u64::MAX;
    }
    if p >= 1.0 {
        return 0;
    }
    // Beyond 2^64 the conversion saturates, which is as good as never.
    libm::floor(libm::log(1.0 - random.uniform()) / libm::log1p(-p)) as u64
}
