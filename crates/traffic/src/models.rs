//! Models of traffic: when packets leave and how large they are.
//!
//! [`Model`] says what is wanted, [`Arrivals`] gives the times, [`PacketSizes`] the sizes. Times are
//! cumulative and exact: what rounding takes from one packet is given to the next, so that a steady
//! rate holds over any length of time. The same model and seed give the same times.

mod arrivals;
mod noise;
mod on_off;
mod sizes;

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use engine::Span;

pub use arrivals::Arrivals;
pub use noise::Noise;
pub use on_off::OnOff;
pub use sizes::PacketSizes;

/// Longest time that may be part of a model: 73 years. Sums of such times cannot overflow.
pub(crate) const LONGEST: Span = Span::from_nanos(1 << 61);

/// When packets leave.
#[derive(Clone, Debug, PartialEq)]
pub enum Model {
    /// Evenly spaced packets. The first leaves at the start.
    Steady {
        /// Packets in a time.
        rate: PacketRate,
    },
    /// Evenly spaced packets whose rate changes. The last step goes on.
    Steps {
        /// The steps, in order.
        steps: Vec<Step>,
    },
    /// Independent, exponentially distributed times between packets.
    Poisson {
        /// Mean rate.
        rate: PacketRate,
    },
    /// Sources that send and pause for heavy-tailed times; together they are self-similar.
    ParetoOnOff(OnOff),
    /// Packets in a slot of time follow fractional Gaussian noise.
    FractionalGaussianNoise(Noise),
}

impl Model {
    /// Steps from `first` packets a second in steps of `by` (packets a second, may be negative), each
    /// `every` long, `count` of them: how a load is raised until something gives way. A rate never goes
    /// below zero.
    #[must_use]
    pub fn ladder(first: u64, by: i64, every: Span, count: u64) -> Self {
        let rate = |step: u64| {
            let change = i64::try_from(step).unwrap_or(i64::MAX).saturating_mul(by);
            PacketRate::per_second(first.saturating_add_signed(change))
        };
        Self::Steps { steps: (0..count).map(|step| Step { rate: rate(step), lasts: every }).collect() }
    }

    /// Standard deviation of the number of packets that leave in a time of length `over`: by how much
    /// a run may miss the mean by the model's own chance.
    ///
    /// Exact for steady rates (zero), Poisson and, before rounding to packets, fractional Gaussian noise.
    /// For sources of Pareto times the limit for long times of Taqqu, Willinger and Sherman (1997), theorem
    /// 1, but no more than if no source changed its state.
    #[must_use]
    pub fn deviation(&self, over: Span) -> f64 {
        match self {
            Self::Steady { .. } | Self::Steps { .. } => 0.0,
            Self::Poisson { rate } => libm::sqrt(rate.expected(over)),
            Self::ParetoOnOff(sources) => sources.deviation(over),
            Self::FractionalGaussianNoise(noise) => noise.deviation(over),
        }
    }

    /// Mean number of packets in the first `over` of time.
    #[must_use]
    pub fn expected(&self, over: Span) -> f64 {
        match self {
            Self::Steady { rate } | Self::Poisson { rate } => rate.expected(over),
            Self::Steps { steps } => {
                let mut left = over;
                let mut packets = 0.0;
                for (number, step) in steps.iter().enumerate() {
                    let here = if number + 1 == steps.len() { left } else { step.lasts.min(left) };
                    packets += step.rate.expected(here);
                    left = left.saturating_sub(here);
                }
                packets
            }
            Self::ParetoOnOff(sources) => sources.rate().expected(over),
            Self::FractionalGaussianNoise(noise) => noise.mean().expected(over),
        }
    }
}

/// A part of [`Model::Steps`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Packets in a time, evenly spaced; zero for a pause.
    pub rate: PacketRate,
    /// For how long.
    pub lasts: Span,
}

/// A rate of packets, exact: some packets in some time. It may be zero.
///
/// Written as `25000/s`, `0.5/s` or `90/min`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketRate {
    packets: u64,
    per: Span,
}

impl PacketRate {
    /// No packets.
    pub const ZERO: Self = Self::per_second(0);

    /// `packets` packets in a time of length `per`, which is at least 1 ns and at most 73 years.
    ///
    /// # Errors
    ///
    /// [`ModelError::Time`] if `per` is not in that range.
    pub fn new(packets: u64, per: Span) -> Result<Self, ModelError> {
        Ok(Self { packets, per: time("the time of a rate", per)? })
    }

    /// `packets` packets a second.
    #[must_use]
    pub const fn per_second(packets: u64) -> Self {
        Self { packets, per: Span::from_secs(1) }
    }

    /// Packets in [`PacketRate::per`].
    #[must_use]
    pub const fn packets(self) -> u64 {
        self.packets
    }

    /// The time in which [`PacketRate::packets`] leave.
    #[must_use]
    pub const fn per(self) -> Span {
        self.per
    }

    /// Packets a second, for display and statistics.
    #[must_use]
    pub fn a_second(self) -> f64 {
        self.packets as f64 * 1e9 / self.per.as_nanos() as f64
    }

    /// Packets in a time of length `over`, for display and statistics.
    #[must_use]
    pub fn expected(self, over: Span) -> f64 {
        self.packets as f64 * (over.as_nanos() as f64 / self.per.as_nanos() as f64)
    }
}

impl FromStr for PacketRate {
    type Err = ModelError;

    fn from_str(text: &str) -> Result<Self, ModelError> {
        let wrong = || ModelError::Rate(text.to_string());
        let (number, unit) = text.trim().split_once('/').ok_or_else(wrong)?;
        let nanos: u64 = match unit.trim() {
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "min" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return Err(wrong()),
        };
        let number = number.trim();
        let (whole, part) = number.split_once('.').unwrap_or((number, ""));
        let digits: String = [whole, part].concat();
        if whole.is_empty() || part.len() > 6 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(wrong());
        }
        let scale = 10u64.pow(u32::try_from(part.len()).map_err(|_| wrong())?);
        Self::new(digits.parse().map_err(|_| wrong())?, Span::from_nanos(nanos.checked_mul(scale).ok_or_else(wrong)?))
    }
}

impl fmt::Display for PacketRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/s", self.a_second())
    }
}

/// A Hurst exponent: over 0, under 1. Over one half there is long-range dependence.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Hurst(f64);

impl Hurst {
    /// The exponent `value`.
    ///
    /// # Errors
    ///
    /// [`ModelError::Hurst`] unless 0 < `value` < 1.
    pub fn new(value: f64) -> Result<Self, ModelError> {
        if value > 0.0 && value < 1.0 { Ok(Self(value)) } else { Err(ModelError::Hurst(value)) }
    }

    /// The exponent as a number.
    #[must_use]
    pub const fn value(self) -> f64 {
        self.0
    }
}

impl FromStr for Hurst {
    type Err = ModelError;

    fn from_str(text: &str) -> Result<Self, ModelError> {
        Self::new(text.trim().parse().unwrap_or(f64::NAN))
    }
}

impl fmt::Display for Hurst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A model that cannot be.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ModelError {
    /// A rate that cannot be read.
    #[error("`{0}` is not a rate of packets; write for example `25000/s`, `0.5/s` or `90/min`")]
    Rate(String),
    /// A Hurst exponent outside its range.
    #[error("a Hurst exponent of {0} cannot be; choose one over 0 and under 1, for example 0.8")]
    Hurst(f64),
    /// A Pareto shape outside its range.
    #[error("a Pareto shape of {0} gives no self-similar traffic; choose one over 1 and under 2, for example 1.4")]
    Shape(f64),
    /// A time outside its range.
    #[error("{what} is {is}; it must be more than zero and at most 73 years")]
    Time {
        /// Which time.
        what: &'static str,
        /// Its value.
        is: Span,
    },
    /// A number of sources outside its range.
    #[error("{0} sources cannot be; choose 1 to {most}", most = OnOff::MOST_SOURCES)]
    Sources(usize),
    /// A standard deviation outside its range.
    #[error("a standard deviation of {0} packets cannot be; choose zero or more")]
    Deviation(f64),
    /// A distribution of sizes that has none.
    #[error("a distribution of packet sizes needs at least one size whose weight is over zero")]
    NoSizes,
    /// Smallest and largest size the wrong way round.
    #[error("packet sizes from {from} to {to}: the first must not be larger than the second")]
    Sizes {
        /// Smallest size.
        from: u32,
        /// Largest size.
        to: u32,
    },
}

/// Checks a time that is part of a model.
pub(crate) fn time(what: &'static str, is: Span) -> Result<Span, ModelError> {
    if is == Span::ZERO || is > LONGEST { Err(ModelError::Time { what, is }) } else { Ok(is) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_exactly_or_refused() {
        let rate = |text: &str| text.parse::<PacketRate>();
        assert_eq!(rate("25000/s"), Ok(PacketRate::per_second(25_000)));
        assert_eq!(rate("0.5/s"), PacketRate::new(5, Span::from_secs(10)));
        assert_eq!(rate("90/min"), PacketRate::new(90, Span::from_secs(60)));
        assert_eq!(rate("0/s"), Ok(PacketRate::ZERO));
        for wrong in ["", "25000", "/s", "-1/s", "1e3/s", ".5/s", "1/d", "1.2345678/s", "99999999999999999999/s"] {
            assert_eq!(rate(wrong), Err(ModelError::Rate(wrong.to_string())), "{wrong}");
        }
        assert!(matches!(PacketRate::new(1, Span::ZERO), Err(ModelError::Time { .. })));
    }

    #[test]
    fn exponents_stay_between_0_and_1() {
        assert_eq!("0.8".parse::<Hurst>().map(Hurst::value), Ok(0.8));
        for wrong in ["0", "1", "NaN", "-0.2", "x"] {
            assert!(wrong.parse::<Hurst>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_last_step_goes_on() {
        let model = Model::ladder(100, -60, Span::from_secs(1), 3);
        assert_eq!(model.expected(Span::from_millis(1_500)), 120.0);
        assert_eq!(model.expected(Span::from_secs(10)), 140.0);
        let up = Model::ladder(100, 50, Span::from_secs(1), 2);
        assert_eq!(up.expected(Span::from_secs(4)), 100.0 + 3.0 * 150.0);
    }
}
