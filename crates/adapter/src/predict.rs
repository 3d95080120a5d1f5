//! When the next packet of a flow comes.
//!
//! A flow is steady once a few packets in a row came at about the same spacing. From then on its
//! packets are numbered by the period, and a straight line through the last arrivals (least
//! squares) gives period and phase; one and a half times the largest residual is the guard on both
//! sides. A silence leaves the period as it is: the first packet after it sets the phase anew.

use engine::{Span, Time};

use crate::config::Behaviour;

/// Arrivals that the line is drawn through.
const WINDOW: usize = 16;
/// Predictions in a row that come to nothing before there are no more.
const SILENT: u32 = 3;
/// Twice the arrivals off the line, less those on it, that make a flow unsteady.
const UNSTEADY: u8 = 4;
/// After so many packets without a prediction that held the period is not trusted any more: it came from
/// a burst, or has changed.
const TRUSTED: u8 = 6;
/// The shortest spacing of a steady flow: packets that come faster are a burst.
const SHORTEST: u64 = 2_000_000;
/// Guards are no wider than this part of the period.
const WIDEST_GUARD: f64 = 0.125;

/// Follows one flow's arrivals.
#[derive(Debug, Default)]
pub(crate) struct Tracker {
    /// The last arrivals, oldest first: number of the period, and time.
    arrivals: [(u64, Time); WINDOW],
    len: usize,
    steady: Option<Steady>,
}

#[derive(Clone, Copy, Debug)]
struct Steady {
    /// Nanoseconds between packets.
    period: f64,
    /// The next packet: its number, and when it comes.
    number: u64,
    due: Time,
    guard: Span,
    /// Predictions in a row that came to nothing.
    missed: u32,
    strikes: u8,
    /// Packets since a prediction last held.
    unconfirmed: u8,
}

/// When a packet is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) earliest: Time,
    pub(crate) latest: Time,
}

/// What a packet was to the prediction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// None was made.
    Unpredicted,
    /// It came inside the window.
    Held,
    /// It came outside.
    Missed,
}

impl Tracker {
    /// A packet came. `slack` is what a prediction may be off beyond its guard.
    pub(crate) fn arrive(&mut self, now: Time, behaviour: &Behaviour, slack: Span) -> Outcome {
        match self.steady {
            None => {
                self.watch(now, behaviour);
                Outcome::Unpredicted
            }
            Some(steady) if steady.unconfirmed >= TRUSTED => {
                self.reset();
                self.watch(now, behaviour);
                Outcome::Missed
            }
            Some(steady) if steady.missed >= SILENT => {
                // A talk spurt begins: the period is kept, the phase is new.
                self.len = 0;
                self.push(steady.number, now);
                self.steady = Some(Steady { missed: 0, unconfirmed: steady.unconfirmed + 1, ..steady });
                self.predict();
                Outcome::Unpredicted
            }
            Some(steady) => self.follow(now, steady, behaviour, slack),
        }
    }

    pub(crate) fn is_steady(&self) -> bool {
        self.steady.is_some()
    }

    /// Mean time between packets, as far as it is known.
    pub(crate) fn period(&self) -> Option<Span> {
        if let Some(steady) = self.steady {
            return Some(Span::from_nanos(steady.period as u64));
        }
        let (_, first) = *self.arrivals[..self.len].first()?;
        let (_, last) = self.arrivals[self.len - 1];
        let spacings = self.len as u64 - 1;
        let period = last.since(first).as_nanos().checked_div(spacings)?;
        (spacings >= 3 && period > 0).then_some(Span::from_nanos(period))
    }

    /// When the next packet is expected, if one is.
    pub(crate) fn window(&self) -> Option<Window> {
        let Steady { due, guard, .. } = self.steady.filter(|steady| steady.missed < SILENT)?;
        let earliest = Time::from_nanos(due.as_nanos().saturating_sub(guard.as_nanos()));
        Some(Window { earliest, latest: due + guard })
    }

    /// Whether the last prediction came to nothing, and the next packet is not given up yet.
    pub(crate) fn is_late(&self) -> bool {
        self.steady.is_some_and(|steady| (1..SILENT).contains(&steady.missed))
    }

    /// Gives up predictions that came to nothing by now: how many.
    pub(crate) fn roll(&mut self, now: Time, slack: Span) -> u32 {
        let mut given_up = 0;
        while self.window().is_some_and(|window| window.latest + slack <= now) {
            if let Some(steady) = &mut self.steady {
                steady.missed += 1;
                steady.number += 1;
                steady.due += Span::from_nanos(steady.period as u64);
            }
            given_up += 1;
        }
        given_up
    }

    /// Forgets all.
    pub(crate) fn reset(&mut self) {
        (self.len, self.steady) = (0, None);
    }

    /// Looks for a steady spacing among the last packets.
    fn watch(&mut self, now: Time, behaviour: &Behaviour) {
        let last = self.arrivals[..self.len].last().copied();
        if last.is_some_and(|(_, at)| now.since(at) > behaviour.spacing.times(2)) {
            self.len = 0;
        }
        self.push(last.map_or(0, |(number, _)| number + 1), now);
        let wanted = usize::from(behaviour.packets);
        let Some(from) = self.len.checked_sub(wanted) else { return };
        let recent = &self.arrivals[from..self.len];
        let mean = now.since(recent[0].1).as_nanos() / (wanted as u64 - 1);
        if !(SHORTEST..=behaviour.spacing.as_nanos()).contains(&mean) {
            return;
        }
        let off = mean * u64::from(behaviour.tolerance_percent) / 100;
        let steady = recent.windows(2).all(|pair| pair[1].1.since(pair[0].1).as_nanos().abs_diff(mean) <= off);
        if steady {
            self.arrivals.copy_within(from..self.len, 0);
            self.len = wanted;
            let number = self.arrivals[self.len - 1].0;
            self.steady = Some(Steady {
                period: mean as f64,
                number,
                due: now,
                guard: Span::ZERO,
                missed: 0,
                strikes: 0,
                unconfirmed: 0,
            });
            self.predict();
        }
    }

    fn follow(&mut self, now: Time, steady: Steady, behaviour: &Behaviour, slack: Span) -> Outcome {
        let window = self.window();
        let held = window.is_some_and(|window| now + slack >= window.earliest && now <= window.latest + slack);
        let off = now.as_nanos().wrapping_sub(steady.due.as_nanos()).cast_signed();
        let periods = libm::round(off as f64 / steady.period);
        let number = steady.number.saturating_add_signed(periods as i64);
        let residual = libm::fabs(off as f64 - periods * steady.period);
        let far = residual > steady.period * f64::from(behaviour.tolerance_percent) / 100.0;
        let again = self.arrivals[..self.len].last().is_some_and(|(last, _)| number <= *last);
        let strikes = if far || again { steady.strikes + 2 } else { steady.strikes.saturating_sub(1) };
        if strikes >= UNSTEADY {
            self.reset();
            self.push(0, now);
        } else {
            let unconfirmed = if held { 0 } else { steady.unconfirmed + 1 };
            self.steady =
                Some(Steady { strikes, unconfirmed, missed: if again { steady.missed } else { 0 }, ..steady });
            if !again {
                self.push(number, now);
                self.predict();
            }
        }
        if held { Outcome::Held } else { Outcome::Missed }
    }

    fn push(&mut self, number: u64, now: Time) {
        if self.len == WINDOW {
            self.arrivals.copy_within(1.., 0);
            self.len -= 1;
        }
        self.arrivals[self.len] = (number, now);
        self.len += 1;
    }

    /// Draws the line, and reads off the packet after the last.
    fn predict(&mut self) {
        let Some(steady) = &mut self.steady else { return };
        let arrivals = &self.arrivals[..self.len];
        let Some(&(last, at)) = arrivals.last() else { return };
        // Relative to the last arrival, so that nothing is lost to rounding.
        let points =
            || arrivals.iter().map(|(number, time)| (-((last - number) as f64), -(at.since(*time).as_nanos() as f64)));
        let count = arrivals.len() as f64;
        let (sum_x, sum_y) = points().fold((0.0, 0.0), |(x, y), point| (x + point.0, y + point.1));
        let (mean_x, mean_y) = (sum_x / count, sum_y / count);
        let enough = arrivals.len() >= 4;
        if enough {
            let (xy, xx) = points().fold((0.0, 0.0), |(xy, xx), (x, y)| {
                (xy + (x - mean_x) * (y - mean_y), xx + (x - mean_x) * (x - mean_x))
            });
            steady.period = (xy / xx).max(SHORTEST as f64);
        }
        let period = steady.period;
        let phase = mean_y - mean_x * period;
        let residual = points().fold(0.0_f64, |most, (x, y)| most.max(libm::fabs(y - phase - x * period)));
        let guard = (1.5 * residual).min(WIDEST_GUARD * period);
        // After a silence few arrivals say little of the jitter: what was seen before still holds.
        steady.guard = if enough { span(guard) } else { steady.guard.max(span(guard)) };
        steady.number = last + 1;
        let ahead = libm::round(phase + period).max(0.0);
        steady.due = at + Span::from_nanos(ahead as u64);
    }
}

fn span(nanos: f64) -> Span {
    Span::from_nanos(libm::round(nanos) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::Random;

    const SLACK: Span = Span::from_micros(1_042);
    const PERIOD: u64 = 202_500_000;

    fn at(nanos: u64) -> Time {
        Time::from_nanos(nanos)
    }

    fn steady(from: u64) -> Tracker {
        let mut tracker = Tracker::default();
        for number in 0..5 {
            assert!(!tracker.is_steady());
            assert_eq!(tracker.arrive(at(from + number * PERIOD), &Behaviour::default(), SLACK), Outcome::Unpredicted);
        }
        tracker
    }

    #[test]
    fn an_exact_flow_is_predicted_to_the_nanosecond() {
        let mut tracker = steady(7);
        for number in 5..500 {
            let due = at(7 + number * PERIOD);
            assert_eq!(tracker.window(), Some(Window { earliest: due, latest: due }));
            assert_eq!(tracker.roll(due, SLACK), 0);
            assert_eq!(tracker.arrive(due, &Behaviour::default(), SLACK), Outcome::Held);
        }
    }

    #[test]
    fn jitter_widens_the_window_and_drift_is_followed() {
        let mut random = Random::stream(1, "jitter");
        let (mut tracker, mut held) = (steady(0), 0);
        for number in 5..1_005 {
            // 50 ppm fast, and up to 4 ms late.
            let now = at(number * (PERIOD - 10_000) + random.below(4_000_000));
            tracker.roll(now, SLACK);
            held += u32::from(tracker.arrive(now, &Behaviour::default(), SLACK) == Outcome::Held);
            let window = tracker.window().unwrap();
            assert!(window.latest.since(window.earliest) <= Span::from_millis(12));
        }
        assert!(held > 950, "{held}");
    }

    #[test]
    fn a_silence_ends_predictions_and_a_talk_spurt_sets_the_phase() {
        let mut tracker = steady(0);
        assert_eq!(tracker.roll(at(60 * PERIOD), SLACK), 3);
        assert_eq!(tracker.window(), None);
        let start = 60 * PERIOD + 77_000_000;
        assert_eq!(tracker.arrive(at(start), &Behaviour::default(), SLACK), Outcome::Unpredicted);
        assert_eq!(tracker.window().unwrap().earliest, at(start + PERIOD));
    }

    #[test]
    fn a_period_learnt_from_a_burst_is_given_up() {
        let mut tracker = Tracker::default();
        for number in 0..5 {
            tracker.arrive(at(number * 43_000_000), &Behaviour::default(), SLACK);
        }
        assert!(tracker.is_steady());
        let mut held = 0;
        for number in 2..22 {
            tracker.roll(at(number * PERIOD), SLACK);
            held += u32::from(tracker.arrive(at(number * PERIOD), &Behaviour::default(), SLACK) == Outcome::Held);
        }
        assert!(held >= 7, "{held}");
        assert_eq!(tracker.period(), Some(Span::from_nanos(PERIOD)));
    }

    #[test]
    fn what_is_not_steady_is_not_predicted() {
        let mut random = Random::stream(2, "poisson");
        let (mut tracker, mut now, mut predicted) = (Tracker::default(), 0, 0);
        for _ in 0..2_000 {
            now += (-libm::log(1.0 - random.uniform()) * 100e6) as u64;
            tracker.arrive(at(now), &Behaviour::default(), SLACK);
            predicted += u32::from(tracker.is_steady());
        }
        assert!(predicted < 200, "{predicted}");
        // Pairs back to back with a long time between are not steady, either.
        let mut tracker = Tracker::default();
        for pair in 0..50 {
            tracker.arrive(at(pair * 300_000_000), &Behaviour::default(), SLACK);
            tracker.arrive(at(pair * 300_000_000 + 50_000), &Behaviour::default(), SLACK);
            assert!(!tracker.is_steady());
        }
    }
}
