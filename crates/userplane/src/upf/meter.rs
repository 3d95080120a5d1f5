//! Enforcement of QoS rules (TS 29.244 5.4): gates, and maximum bit rates by a token bucket.

use engine::{Rate, Span, Time};

/// A token bucket in its other form, the virtual scheduling algorithm (ITU-T I.371 annex A.1): instead of tokens it keeps the
/// time until which what has passed would occupy a line of that rate. A packet conforms if that is no further ahead
/// than the burst. All is integers, so that over any time no more passes than rate and burst allow, to the bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Meter {
    rate: Rate,
    /// How far ahead of time traffic may run.
    burst: Span,
    occupied_until: Time,
    carry: u64,
}

impl Meter {
    pub(super) fn new(rate: Rate, burst: Span) -> Self {
        Self { rate, burst, occupied_until: Time::ZERO, carry: 0 }
    }

    /// Whether a packet may pass now, however long.
    pub(super) fn conforms(&self, now: Time) -> bool {
        self.occupied_until.since(now) <= self.burst
    }

    /// Counts a packet that passes.
    pub(super) fn count(&mut self, now: Time, bytes: u64) {
        if self.occupied_until <= now {
            (self.occupied_until, self.carry) = (now, 0);
        }
        self.occupied_until += self.rate.time_for(bytes, &mut self.carry);
    }

    /// Another rate from now on; what has passed keeps counting.
    pub(super) fn set(&mut self, rate: Rate, burst: Span) {
        (self.rate, self.burst) = (rate, burst);
    }
}

/// One direction of a QER.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gate {
    /// Nothing passes.
    Closed,
    /// All passes.
    Open,
    /// What conforms passes.
    Metered(Meter),
}

/// Why a packet does not pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    Gate,
    Rate,
}

impl Gate {
    /// What a QER says of a direction (TS 29.244 8.2.7, 8.2.8): its gate, and its maximum bit rate if there is one.
    /// A rate of 0 lets nothing pass. A meter that was there before goes on.
    pub(super) fn set(&mut self, open: bool, rate: Option<u64>, burst: Span) {
        let rate = rate.map(Rate::from_bits_per_second);
        *self = match (open, rate, *self) {
            (false, ..) | (_, Some(None), _) => Self::Closed,
            (true, None, _) => Self::Open,
            (true, Some(Some(rate)), Self::Metered(mut meter)) => {
                meter.set(rate, burst);
                Self::Metered(meter)
            }
            (true, Some(Some(rate)), _) => Self::Metered(Meter::new(rate, burst)),
        };
    }

    /// Why a packet may not pass now. Where several rules apply all are asked before any counts, so that none counts
    /// what another one refused.
    pub(super) fn refusal(&self, now: Time) -> Option<Refusal> {
        match self {
            Self::Closed => Some(Refusal::Gate),
            Self::Open => None,
            Self::Metered(meter) => (!meter.conforms(now)).then_some(Refusal::Rate),
        }
    }

    /// Counts a packet that passes.
    pub(super) fn count(&mut self, now: Time, bytes: u64) {
        if let Self::Metered(meter) = self {
            meter.count(now, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Meter {
        fn take(&mut self, now: Time, bytes: u64) -> bool {
            let conforms = self.conforms(now);
            if conforms {
                self.count(now, bytes);
            }
            conforms
        }
    }

    #[test]
    fn no_more_than_rate_and_burst_passes_and_no_less() {
        let rate = Rate::from_bits_per_second(7_000_003).unwrap();
        let burst = Span::from_millis(50);
        let mut meter = Meter::new(rate, burst);
        // Ten seconds of packets at three times the rate.
        let gap = 1400 * 8 * 1_000_000_000 / 21_000_000;
        let (mut passed, mut now) = (0, Time::ZERO);
        while now < Time::from_nanos(10_000_000_000) {
            passed += if meter.take(now, 1400) { 1400 } else { 0 };
            now += Span::from_nanos(gap);
        }
        let fair = rate.bytes_in(now.since(Time::ZERO));
        // The burst, and the last packet, which may begin at its end.
        let most = fair + rate.bytes_in(burst) + 1400;
        assert!((fair + rate.bytes_in(burst) - 1400..=most).contains(&passed), "{passed} of {most}");
    }

    #[test]
    fn a_packet_longer_than_the_burst_passes_an_idle_meter() {
        let mut meter = Meter::new(Rate::from_bits_per_second(8_000).unwrap(), Span::ZERO);
        assert!(meter.take(Time::ZERO, 1_000));
        assert!(!meter.take(Time::from_nanos(999_999_999), 1));
        assert!(meter.take(Time::from_nanos(1_000_000_000), 1));
    }

    #[test]
    fn gates_open_close_and_keep_their_meters() {
        let mut gate = Gate::Open;
        gate.set(true, Some(8_000), Span::ZERO);
        assert_eq!(gate.refusal(Time::ZERO), None);
        gate.count(Time::ZERO, 1_000);
        gate.set(true, Some(16_000), Span::ZERO);
        assert_eq!(gate.refusal(Time::from_nanos(1)), Some(Refusal::Rate));
        gate.set(false, Some(16_000), Span::ZERO);
        assert_eq!(gate.refusal(Time::MAX), Some(Refusal::Gate));
        gate.set(true, Some(0), Span::ZERO);
        assert_eq!(gate.refusal(Time::MAX), Some(Refusal::Gate));
        gate.set(true, None, Span::ZERO);
        assert_eq!(gate.refusal(Time::MAX), None);
    }
}
