//! Traffic whose packets per slot follow fractional Gaussian noise.
//!
//! What has come by a time is Norros's fractional Brownian traffic (Norros 1995): mean rate plus
//! deviation times fractional Brownian motion. That process can fall, packets cannot be taken back: what has
//! left by the end of a slot is its highest value so far, rounded down. A slot below zero is thus a debt that
//! the next ones pay, and the mean rate holds whatever the deviation; cutting each slot at zero would raise
//! it. The packets of a slot are spread evenly over it.

use alloc::vec::Vec;

use engine::{Random, Span, Time};

use super::{Hurst, LONGEST, ModelError, PacketRate, time};
use crate::selfsimilar::FractionalNoise;

/// Fractional Gaussian noise of packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Noise {
    mean: PacketRate,
    deviation: f64,
    hurst: Hurst,
    slot: Span,
}

impl Noise {
    /// `mean` packets in a time, with a standard deviation of `deviation` packets in a slot of length `slot`.
    /// With a deviation over a third of a slot's mean many slots have no packet, and how packets vary from slot to
    /// slot differs from the noise; over longer times it does not.
    ///
    /// # Errors
    ///
    /// [`ModelError::Deviation`] unless `deviation` is zero or more and below 10^12; [`ModelError::Time`] if the
    /// slot is zero or over 73 years.
    pub fn new(mean: PacketRate, deviation: f64, hurst: Hurst, slot: Span) -> Result<Self, ModelError> {
        if !(0.0..1e12).contains(&deviation) {
            return Err(ModelError::Deviation(deviation));
        }
        Ok(Self { mean, deviation, hurst, slot: time("the slot", slot)? })
    }

    /// Mean rate.
    #[must_use]
    pub const fn mean(&self) -> PacketRate {
        self.mean
    }

    /// The slot of time.
    #[must_use]
    pub const fn slot(&self) -> Span {
        self.slot
    }

    pub(super) fn deviation(&self, over: Span) -> f64 {
        let slots = over.as_nanos() as f64 / self.slot.as_nanos() as f64;
        self.deviation * libm::pow(slots, self.hurst.value())
    }
}

/// Slots that are drawn at once at most; the noise then takes 32 MiB, and 128 MiB while it is drawn.
const MOST_SLOTS: usize = 1 << 22;

/// The noise, slot by slot.
#[derive(Clone, Debug)]
pub(super) struct NoiseSlots {
    model: Noise,
    generator: FractionalNoise,
    values: Vec<f64>,
    /// The next value of `values`.
    value: usize,
    /// Fractional Brownian motion at the end of the slot, in packets.
    motion: f64,
    /// Slots begun.
    slots: u64,
    start: Time,
    /// When the slot began, packets in it, and how many of them have left.
    begun: Time,
    packets: u64,
    left: u64,
    /// Packets of all slots begun.
    total: u64,
    random: Random,
}

impl NoiseSlots {
    pub(super) fn new(model: &Noise, start: Time, lasts: Span, mut random: Random) -> Self {
        let slots = lasts.as_nanos().div_ceil(model.slot.as_nanos());
        let slots = usize::try_from(slots).unwrap_or(MOST_SLOTS).clamp(1_024, MOST_SLOTS);
        let mut generator = FractionalNoise::new(model.hurst, slots);
        let mut values = Vec::new();
        generator.draw(&mut random, &mut values);
        Self {
            model: *model,
            generator,
            values,
            value: 0,
            motion: 0.0,
            slots: 0,
            start,
            begun: start,
            packets: 0,
            left: 0,
            total: 0,
            random,
        }
    }

    /// Begins the next slot; false at the end of time.
    fn enter(&mut self) -> bool {
        if self.value == self.values.len() {
            self.generator.draw(&mut self.random, &mut self.values);
            self.value = 0;
        }
        self.motion += self.model.deviation * self.values[self.value];
        self.value += 1;
        let slot = self.model.slot.as_nanos();
        let Some(begun) = self.slots.checked_mul(slot).filter(|begun| *begun < LONGEST.as_nanos()) else {
            return false;
        };
        self.begun = self.start + Span::from_nanos(begun);
        self.slots += 1;
        // The mean in whole packets first, exact however long it lasts; the rest and the motion in floats.
        let (packets, per) = (u128::from(self.model.mean.packets()), u128::from(self.model.mean.per().as_nanos()));
        let due = (u128::from(self.slots) * u128::from(slot)).saturating_mul(packets);
        let whole = u64::try_from(due / per).unwrap_or(u64::MAX);
        let level = libm::floor((due % per) as f64 / per as f64 + self.motion);
        let level = if level < 0.0 { whole.saturating_sub(-level as u64) } else { whole.saturating_add(level as u64) };
        self.packets = level.saturating_sub(self.total);
        self.total += self.packets;
        self.left = 0;
        true
    }
}

impl Iterator for NoiseSlots {
    type Item = Time;

    fn next(&mut self) -> Option<Time> {
        if self.model.mean.packets() == 0 {
            return None;
        }
        while self.left == self.packets {
            if !self.enter() {
                return None;
            }
        }
        // In the middle of its share of the slot.
        let twice = u128::from(self.left) * 2 + 1;
        let offset = u128::from(self.model.slot.as_nanos()) * twice / (u128::from(self.packets) * 2);
        self.left += 1;
        Some(self.begun + Span::from_nanos(u64::try_from(offset).unwrap_or(u64::MAX)))
    }
}
