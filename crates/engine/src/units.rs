//! Quantities as people write them: `3Mbit/s`, `315ms`, `64KiB`.
//!
//! Every quantity is an integer in its base unit (bit/s, ns, B). Writing one gives the largest unit
//! that divides it, so that reading it back gives the same number. Decimal fractions are accepted
//! where they are exact (`1.5Mbit/s`), and nothing is ever rounded.

use alloc::string::{String, ToString};
use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::Span;

/// A bit rate in bit/s, at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(core::num::NonZeroU64);

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Size(u64);

impl Rate {
    /// A rate of `bits` bit/s, or `None` for zero.
    #[must_use]
    pub const fn from_bits_per_second(bits: u64) -> Option<Self> {
        match core::num::NonZeroU64::new(bits) {
            Some(bits) => Some(Self(bits)),
            None => None,
        }
    }

    /// The rate in bit/s.
    #[must_use]
    pub const fn bits_per_second(self) -> u64 {
        self.0.get()
    }

    /// How long `bytes` take at this rate, rounded down to whole nanoseconds. The remainder is kept
    /// in `carry` and counted into the next call, so that a long run of packets takes exactly its
    /// bytes divided by the rate. Start with a carry of zero, and again after the line was idle.
    #[must_use]
    pub fn time_for(self, bytes: u64, carry: &mut u64) -> Span {
        let rate = u128::from(self.0.get());
        let total = u128::from(bytes) * 8 * 1_000_000_000 + u128::from(*carry);
        *carry = (total % rate) as u64;
        Span::from_nanos(u64::try_from(total / rate).unwrap_or(u64::MAX))
    }

    /// How many whole bytes pass in `span`.
    #[must_use]
    pub fn bytes_in(self, span: Span) -> u64 {
        let bits = u128::from(self.0.get()) * u128::from(span.as_nanos());
        u64::try_from(bits / 8_000_000_000).unwrap_or(u64::MAX)
    }
}

impl Size {
    /// `bytes` bytes.
    #[must_use]
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// The number of bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

/// Why a quantity could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// The text does not start with a number.
    #[error("`{0}` does not start with a number; write for example `{1}`")]
    NoNumber(String, &'static str),
    /// A number without a unit.
    #[error("`{0}` has no unit; write for example `{1}`")]
    NoUnit(String, &'static str),
    /// The unit is not one of this quantity's.
    #[error("`{unit}` is not a unit here; use one of {valid}, for example `{example}`")]
    UnknownUnit {
        /// What was written.
        unit: String,
        /// The units that are understood.
        valid: &'static str,
        /// A quantity written as it should be.
        example: &'static str,
    },
    /// The number is not a whole count of the base unit, or does not fit 64 bits.
    #[error("`{0}` is not a whole number of {1} below 2^64")]
    NotWhole(String, &'static str),
    /// A rate of zero.
    #[error("a rate must be at least 1bit/s; to stop all packets use `loss: 1`")]
    ZeroRate,
}

struct Units {
    /// Name and factor, largest factor first. The order decides how a quantity is written.
    table: &'static [(&'static str, u64)],
    valid: &'static str,
    base: &'static str,
    example: &'static str,
}

const RATE: Units = Units {
    table: &[
        ("Tbit/s", 1_000_000_000_000),
        ("Gbit/s", 1_000_000_000),
        ("Mbit/s", 1_000_000),
        ("kbit/s", 1_000),
        ("bit/s", 1),
    ],
    valid: "bit/s, kbit/s, Mbit/s, Gbit/s, Tbit/s",
    base: "bit/s",
    example: "3Mbit/s",
};

const SPAN: Units = Units {
    table: &[
        ("h", 3_600_000_000_000),
        ("min", 60_000_000_000),
        ("s", 1_000_000_000),
        ("ms", 1_000_000),
        ("us", 1_000),
        ("µs", 1_000),
        ("ns", 1),
    ],
    valid: "ns, us, ms, s, min, h",
    base: "nanoseconds",
    example: "315ms",
};

const SIZE: Units = Units {
    table: &[
        ("GiB", 1 << 30),
        ("MiB", 1 << 20),
        ("KiB", 1 << 10),
        ("GB", 1_000_000_000),
        ("MB", 1_000_000),
        ("kB", 1_000),
        ("B", 1),
    ],
    valid: "B, kB, MB, GB, KiB, MiB, GiB",
    base: "bytes",
    example: "64KiB",
};

impl Units {
    fn parse(&self, text: &str) -> Result<u64, UnitError> {
        let text = text.trim();
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = (&text[..end], text[end..].trim());
        if number.is_empty() {
            return Err(UnitError::NoNumber(text.to_string(), self.example));
        }
        let factor = if unit.is_empty() {
            // A bare zero means the same in every unit.
            if number.bytes().all(|b| b == b'0' || b == b'.') && number.contains('0') {
                return Ok(0);
            }
            return Err(UnitError::NoUnit(text.to_string(), self.example));
        } else {
            self.table.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor)
        };
        let factor = factor.ok_or_else(|| UnitError::UnknownUnit {
            unit: unit.to_string(),
            valid: self.valid,
            example: self.example,
        })?;
        exact(number, factor).ok_or_else(|| UnitError::NotWhole(text.to_string(), self.base))
    }

    fn write(&self, value: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, factor) = self
            .table
            .iter()
            .find(|(_, factor)| value.is_multiple_of(*factor) && value != 0)
            .or(self.table.last())
            .copied()
            .unwrap_or(("", 1));
        write!(f, "{}{name}", value / factor)
    }
}

/// `number * factor`, where `number` is decimal digits with at most one point, if it is whole.
fn exact(number: &str, factor: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.contains('.') || fraction.len() > 18 || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let part: u128 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
    let scale = 10u128.pow(u32::try_from(fraction.len()).ok()?);
    let part = part * u128::from(factor);
    if !part.is_multiple_of(scale) {
        return None;
    }
    u64::try_from(u128::from(whole) * u128::from(factor) + part / scale).ok()
}

impl FromStr for Rate {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        Self::from_bits_per_second(RATE.parse(text)?).ok_or(UnitError::ZeroRate)
    }
}

impl FromStr for Span {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        SPAN.parse(text).map(Self::from_nanos)
    }
}

impl FromStr for Size {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        SIZE.parse(text).map(Self)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        RATE.write(self.0.get(), f)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        SPAN.write(self.as_nanos(), f)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        SIZE.write(self.0, f)
    }
}

macro_rules! serde_as_written {
    ($($name:ident),*) => {$(
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
            }
        }
    )*};
}

serde_as_written!(Rate, Span, Size);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_exactly_or_refused() {
        assert_eq!("1.5Mbit/s".parse::<Rate>().unwrap().bits_per_second(), 1_500_000);
        assert_eq!("315ms".parse::<Span>().unwrap(), Span::from_millis(315));
        assert_eq!("64 KiB".parse::<Size>().unwrap().bytes(), 65_536);
        assert_eq!("0".parse::<Span>().unwrap(), Span::ZERO);
        assert_eq!("0bit/s".parse::<Rate>(), Err(UnitError::ZeroRate));
        assert!(matches!("3".parse::<Rate>(), Err(UnitError::NoUnit(..))));
        assert!(matches!("3MBit".parse::<Rate>(), Err(UnitError::UnknownUnit { .. })));
        assert!(matches!("0.3ns".parse::<Span>(), Err(UnitError::NotWhole(..))));
        assert!(matches!("fast".parse::<Rate>(), Err(UnitError::NoNumber(..))));
        assert!(matches!(".".parse::<Span>(), Err(UnitError::NoUnit(..))));
        assert!(matches!("99999999999h".parse::<Span>(), Err(UnitError::NotWhole(..))));
    }

    #[test]
    fn serialization_time_loses_nothing_over_many_packets() {
        let rate = Rate::from_bits_per_second(7_000_003).unwrap();
        let mut carry = 0;
        let total: u64 = (0..7_000_003).map(|_| rate.time_for(1, &mut carry).as_nanos()).sum();
        assert_eq!((total, carry), (8_000_000_000, 0));
    }
}
