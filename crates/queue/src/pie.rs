//! PIE: proportional integral controller enhanced (RFC 8033).

use engine::{Packet, Random, Span, Time};

use crate::config::Pie;
use crate::queue::{Counters, mark};

/// PIE's state, named as in RFC 8033 4.
#[derive(Debug)]
pub(crate) struct Controller {
    random: Random,
    drop_prob: f64,
    accu_prob: f64,
    burst_allowance: Span,
    qdelay_old: Span,
    /// Latest sample of the queueing delay.
    qdelay: Span,
    next_update: Option<Time>,
}

/// What becomes of a packet that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Enqueue,
    Drop,
}

/// RFC 8033 4.2, in 1/s.
const ALPHA: f64 = 0.125;
const BETA: f64 = 1.25;
/// RFC 8033 4.1: with this few bytes waiting nothing is dropped (twice the mean packet size, taken
/// to be 1,500 bytes as Linux takes its MTU).
const FEW_BYTES: u64 = 3_000;
/// RFC 8033 5.1.
const MARK_ECNTH: f64 = 0.1;

impl Controller {
    pub(crate) fn new(pie: &Pie, random: Random) -> Self {
        Self {
            random,
            drop_prob: 0.0,
            accu_prob: 0.0,
            burst_allowance: pie.burst,
            qdelay_old: Span::ZERO,
            qdelay: Span::ZERO,
            next_update: None,
        }
    }

    /// A packet arrives while `waiting` bytes wait; it is marked if that is enough.
    pub(crate) fn arrive(
        &mut self,
        now: Time,
        pie: &Pie,
        waiting: u64,
        packet: &mut Packet,
        counters: &mut Counters,
    ) -> Verdict {
        self.update(now, pie);
        if self.burst_allowance > Span::ZERO || !self.drop_early(pie, waiting) {
            return Verdict::Enqueue;
        }
        if pie.ecn && self.drop_prob < MARK_ECNTH && mark(packet) {
            counters.marked += 1;
            return Verdict::Enqueue;
        }
        counters.managed += 1;
        Verdict::Drop
    }

    /// A packet leaves after `waited`, and `waiting` bytes are left.
    pub(crate) fn depart(&mut self, now: Time, pie: &Pie, waited: Span, waiting: u64) {
        self.update(now, pie);
        self.qdelay = if waiting == 0 { Span::ZERO } else { waited };
    }

    /// RFC 8033 4.1, with the drops spread more evenly than chance (5.4).
    fn drop_early(&mut self, pie: &Pie, waiting: u64) -> bool {
        let calm = self.qdelay_old < half(pie.target) && self.drop_prob < 0.2;
        if calm || waiting <= FEW_BYTES {
            return false;
        }
        if self.drop_prob == 0.0 {
            self.accu_prob = 0.0;
        }
        self.accu_prob += self.drop_prob;
        if self.accu_prob < 0.85 {
            return false;
        }
        let drop = self.accu_prob >= 8.5 || self.random.chance(self.drop_prob);
        if drop {
            self.accu_prob = 0.0;
        }
        drop
    }

    /// Does the updates that were due by `now`: between packets nothing changes that they read, so
    /// that doing them late is doing them in time.
    fn update(&mut self, now: Time, pie: &Pie) {
        let mut next = self.next_update.unwrap_or(now + pie.update);
        while next <= now {
            let before = (self.drop_prob, self.burst_allowance, self.qdelay_old);
            self.calculate_drop_prob(pie);
            let at_rest = before == (self.drop_prob, self.burst_allowance, self.qdelay_old);
            let due = if at_rest { 1 + now.since(next).as_nanos() / pie.update.as_nanos().max(1) } else { 1 };
            next += pie.update.times(due);
        }
        self.next_update = Some(next);
    }

    /// RFC 8033 4.2 and 4.4.
    fn calculate_drop_prob(&mut self, pie: &Pie) {
        let (delay, old, target) = (self.qdelay.as_secs_f64(), self.qdelay_old.as_secs_f64(), pie.target.as_secs_f64());
        let step = ALPHA * (delay - target) + BETA * (delay - old);
        // 4.2: small probabilities change in small steps.
        let step = match self.drop_prob {
            p if p < 0.000_001 => step / 2_048.0,
            p if p < 0.000_01 => step / 512.0,
            p if p < 0.000_1 => step / 128.0,
            p if p < 0.001 => step / 32.0,
            p if p < 0.01 => step / 8.0,
            p if p < 0.1 => step / 2.0,
            // 5.5: and large ones by no more than 2 % at once.
            _ => step.min(0.02),
        };
        self.drop_prob += step;
        if self.qdelay == Span::ZERO && self.qdelay_old == Span::ZERO {
            // 4.2: an idle queue forgets.
            self.drop_prob *= 0.98;
        }
        self.drop_prob = self.drop_prob.clamp(0.0, 1.0);
        let calm = self.qdelay < half(pie.target) && self.qdelay_old < half(pie.target);
        self.burst_allowance =
            if self.drop_prob == 0.0 && calm { pie.burst } else { self.burst_allowance.saturating_sub(pie.update) };
        self.qdelay_old = self.qdelay;
    }
}

fn half(span: Span) -> Span {
    Span::from_nanos(span.as_nanos() / 2)
}
