//! The times at which a model's packets leave.

use alloc::vec::Vec;

use engine::{Random, Span, Time};

use super::noise::NoiseSlots;
use super::on_off::Sources;
use super::{LONGEST, Model, PacketRate, Step};

/// The times at which the packets of a [`Model`] leave, in order. Ends only where no packet will ever
/// come again, as with a rate of zero.
///
/// Taking a time allocates nothing, except for fractional Gaussian noise beyond the time for which it was
/// made.
#[derive(Clone, Debug)]
pub struct Arrivals(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Steps(Stairs),
    Poisson(Poisson),
    Sources(Sources),
    Noise(NoiseSlots),
}

impl Arrivals {
    /// The times of `model` from `start` on. `lasts` is for how long they are wanted: fractional Gaussian
    /// noise is drawn for so long at once, and so depends on its past over that length. Times go on beyond
    /// it; a new stretch of noise then knows nothing of the one before.
    #[must_use]
    pub fn new(model: &Model, start: Time, lasts: Span, random: Random) -> Self {
        Self(match model {
            Model::Steady { rate } => Kind::Steps(Stairs::new([Step { rate: *rate, lasts }].into(), start)),
            Model::Steps { steps } => Kind::Steps(Stairs::new(steps.clone(), start)),
            Model::Poisson { rate } => Kind::Poisson(Poisson::new(*rate, start, random)),
            Model::ParetoOnOff(sources) => Kind::Sources(Sources::new(sources, start, random)),
            Model::FractionalGaussianNoise(noise) => Kind::Noise(NoiseSlots::new(noise, start, lasts, random)),
        })
    }
}

impl Iterator for Arrivals {
    type Item = Time;

    fn next(&mut self) -> Option<Time> {
        match &mut self.0 {
            Kind::Steps(stairs) => stairs.next(),
            Kind::Poisson(poisson) => poisson.next(),
            Kind::Sources(sources) => sources.next(),
            Kind::Noise(noise) => noise.next(),
        }
    }
}

/// Evenly spaced packets: time from one to the next, with the remainder carried.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    rate: PacketRate,
    whole: u64,
    part: u64,
    carry: u64,
}

impl Pace {
    /// None for a rate of zero.
    pub(super) fn new(rate: PacketRate) -> Option<Self> {
        let whole = rate.per().as_nanos().checked_div(rate.packets())?;
        Some(Self { rate, whole, part: rate.per().as_nanos() % rate.packets(), carry: 0 })
    }

    /// From one packet to the next, which on average is exactly the inverse of the rate.
    pub(super) fn step(&mut self) -> Span {
        let missing = self.rate.packets() - self.part;
        if self.carry < missing {
            self.carry += self.part;
            return Span::from_nanos(self.whole);
        }
        self.carry -= missing;
        Span::from_nanos(self.whole + 1)
    }

    /// How long `share` of a packet takes, rounded up.
    fn time_for(self, share: Share) -> Span {
        // The product of a share and a time under 2^62 ns fits.
        let nanos = (u128::from(share.0) * u128::from(self.rate.per().as_nanos())).div_ceil(1 << 64);
        let nanos = nanos.div_ceil(u128::from(self.rate.packets()));
        Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// The part of a packet that is due after `span`; a whole packet counts as almost one.
    fn share_of(self, span: Span) -> Share {
        let (packets, per) = (u128::from(self.rate.packets()), u128::from(self.rate.per().as_nanos()));
        let due = u128::from(span.as_nanos()) * packets;
        if due >= per {
            return Share(u64::MAX);
        }
        // In two steps of 32 bits, for `due` may have 61.
        let high = (due << 32) / per;
        let low = (((due << 32) % per) << 32) / per;
        Share(u64::try_from((high << 32) + low).unwrap_or(u64::MAX))
    }
}

/// A part of a packet, in units of 2^-64.
#[derive(Clone, Copy, Debug)]
struct Share(u64);

/// Steps of steady rates. What a step leaves of a packet the next one finishes.
#[derive(Clone, Debug)]
struct Stairs {
    steps: Vec<Step>,
    /// The step that holds, and where it ends.
    step: usize,
    ends: Time,
    pace: Option<Pace>,
    next: Time,
}

impl Stairs {
    fn new(steps: Vec<Step>, start: Time) -> Self {
        let mut stairs = Self { steps, step: 0, ends: start, pace: None, next: Time::MAX };
        stairs.enter(0, start, Share(0));
        stairs
    }

    /// Begins a step at `start`, with `owed` of a packet still to wait for.
    fn enter(&mut self, step: usize, start: Time, owed: Share) {
        self.step = step;
        let Some(here) = self.steps.get(step) else {
            (self.ends, self.pace, self.next) = (Time::MAX, None, Time::MAX);
            return;
        };
        let is_last = step + 1 == self.steps.len();
        self.ends = if is_last { Time::MAX } else { start + here.lasts };
        self.pace = Pace::new(here.rate);
        self.next = self.pace.map_or(Time::MAX, |pace| start + pace.time_for(owed));
    }

    /// What of the next packet is still owed when the step ends.
    fn owed(&self, before: Share) -> Share {
        match self.pace {
            Some(pace) => pace.share_of(self.next.since(self.ends)),
            None => before,
        }
    }
}

impl Iterator for Stairs {
    type Item = Time;

    fn next(&mut self) -> Option<Time> {
        let mut owed = Share(0);
        while self.next >= self.ends && self.ends < Time::MAX {
            owed = self.owed(owed);
            self.enter(self.step + 1, self.ends, owed);
        }
        let time = self.next;
        let pace = self.pace.as_mut()?;
        self.next = time + pace.step();
        (time < Time::MAX).then_some(time)
    }
}

/// Exponential gaps. The fraction of a nanosecond is carried.
#[derive(Clone, Debug)]
struct Poisson {
    mean: f64,
    part: f64,
    next: Time,
    random: Random,
}

impl Poisson {
    fn new(rate: PacketRate, start: Time, random: Random) -> Self {
        // Infinite for a rate of zero: then no packet ever comes.
        let mean = rate.per().as_nanos() as f64 / rate.packets() as f64;
        let mut poisson = Self { mean, part: 0.0, next: start, random };
        poisson.advance();
        poisson
    }

    fn advance(&mut self) {
        let gap = -libm::log(1.0 - self.random.uniform()) * self.mean + self.part;
        if gap.is_nan() || gap >= LONGEST.as_nanos() as f64 {
            self.next = Time::MAX;
            return;
        }
        let whole = libm::floor(gap);
        self.part = gap - whole;
        self.next += Span::from_nanos(whole as u64);
    }
}

impl Iterator for Poisson {
    type Item = Time;

    fn next(&mut self) -> Option<Time> {
        let time = self.next;
        if time == Time::MAX {
            return None;
        }
        self.advance();
        Some(time)
    }
}
