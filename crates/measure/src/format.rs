//! Quantities as people read them. For display only: tables keep plain numbers in base units.

use crate::Unit;

/// A value with its unit, to about three digits: `1.98 Mbit/s`, `312 ms`, `3.1 %`, `1,204`.
#[must_use]
pub fn quantity(value: f64, unit: Unit) -> String {
    if !value.is_finite() {
        return "none".to_string();
    }
    match unit {
        Unit::BitPerSecond => scaled(value, &[(1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s")]),
        Unit::Second => scaled(value, &[(1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")]),
        Unit::Ratio => format!("{} %", digits(value * 100.0)),
        Unit::Count => count(value.round().max(0.0) as u64),
    }
}

/// A length of time in seconds as `24 min 10 s`, `1 h 3 min`, `2.5 s`.
#[must_use]
pub fn duration(seconds: f64) -> String {
    if seconds < 60.0 {
        return quantity(seconds, Unit::Second);
    }
    let whole = seconds.round() as u64;
    let (hours, minutes, rest) = (whole / 3600, whole / 60 % 60, whole % 60);
    if hours > 0 { format!("{hours} h {minutes} min") } else { format!("{minutes} min {rest} s") }
}

/// A count with its thousands told apart: `1,204`.
#[must_use]
pub fn count(value: u64) -> String {
    let plain = value.to_string();
    let mut text = String::with_capacity(plain.len() + plain.len() / 3);
    for (i, digit) in plain.chars().enumerate() {
        if i > 0 && (plain.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The unit in which the largest value of a table is written, as a factor and a name.
#[must_use]
pub fn common_unit(most: f64, unit: Unit) -> (f64, &'static str) {
    let of = |units: &[(f64, &'static str)]| {
        units.iter().find(|(factor, _)| most >= *factor).or(units.last()).copied().unwrap_or((1.0, ""))
    };
    match unit {
        Unit::BitPerSecond => of(&[(1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s")]),
        Unit::Second => of(&[(1.0, "s"), (1e-3, "ms"), (1e-6, "µs")]),
        Unit::Ratio => (0.01, "%"),
        Unit::Count => (1.0, ""),
    }
}

/// About three digits, without an exponent.
#[must_use]
pub fn digits(value: f64) -> String {
    let size = value.abs();
    let decimals = match size {
        _ if size == 0.0 || size >= 99.95 => 0,
        _ if size >= 9.995 => 1,
        _ if size >= 0.099_5 => 2,
        _ if size >= 0.000_5 => 3,
        _ => return format!("{value:.6}").trim_end_matches('0').trim_end_matches('.').to_string(),
    };
    format!("{value:.decimals$}")
}

fn scaled(value: f64, units: &[(f64, &str)]) -> String {
    let fits = |factor: f64| value.abs() >= factor * 0.999_5;
    let unit = units.iter().find(|(factor, _)| fits(*factor)).or_else(|| {
        // Zero and what is smaller than the smallest unit.
        if value == 0.0 { units.first() } else { units.last() }
    });
    unit.map_or_else(|| digits(value), |(factor, name)| format!("{} {name}", digits(value / factor)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_read_well() {
        for (value, unit, text) in [
            (1_983_421.0, Unit::BitPerSecond, "1.98 Mbit/s"),
            (9_999.9, Unit::BitPerSecond, "10.0 kbit/s"),
            (535e6, Unit::BitPerSecond, "535 Mbit/s"),
            (0.0, Unit::BitPerSecond, "0 Gbit/s"),
            (0.315, Unit::Second, "315 ms"),
            (0.000_048_2, Unit::Second, "48.2 µs"),
            (0.031, Unit::Ratio, "3.10 %"),
            (0.000_01, Unit::Ratio, "0.001 %"),
            (1_204.0, Unit::Count, "1,204"),
            (f64::INFINITY, Unit::Second, "none"),
        ] {
            assert_eq!(quantity(value, unit), text);
        }
        assert_eq!(
            (duration(1450.4), duration(3780.0), duration(2.5)),
            ("24 min 10 s".into(), "1 h 3 min".into(), "2.50 s".into())
        );
        assert_eq!((count(0), count(999), count(1_000_000)), ("0".into(), "999".into(), "1,000,000".into()));
    }
}
