//! Reading recordings: mahimahi's delivery traces, delay tables, delay timelines, loss traces.
//!
//! All are texts with one entry a line (loss traces: one a digit). Empty lines and what follows a
//! `#` count for nothing. No text makes more than [`MAX_ENTRIES`] entries.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use engine::Span;

use crate::config::{Empirical, LossTrace, Opportunities, Timeline};

/// Most entries of a recording.
pub const MAX_ENTRIES: usize = 10_000_000;

/// A recording that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{origin}{}: {problem}", Line(*.line))]
pub struct TraceError {
    /// Where it came from, as the caller named it.
    pub origin: String,
    /// Number of the line, from 1; 0 if it is about the whole.
    pub line: usize,
    /// What is wrong.
    pub problem: TraceProblem,
}

/// What is wrong with a recording.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceProblem {
    /// There are too few entries.
    #[error("there are {found} entries; give at least {least}")]
    TooFew {
        /// How many there are.
        found: usize,
        /// How many there must be.
        least: usize,
    },
    /// There are more than [`MAX_ENTRIES`].
    #[error("there are more than {MAX_ENTRIES} entries; cut the recording")]
    TooMany,
    /// Not a whole number of milliseconds.
    #[error("`{0}` is not a whole number of milliseconds")]
    NotMilliseconds(String),
    /// A time before that of the line above.
    #[error("the time goes back; sort the lines by time")]
    GoesBack,
    /// The time of the line above again.
    #[error("the time is that of the line above; keep one of them")]
    TimeTwice,
    /// All opportunities are at time zero.
    #[error("the trace ends at 0 ms, and so would give an infinite rate; end it later")]
    NoLength,
    /// The first step is not at time zero.
    #[error("the timeline begins at {0}; begin it at 0")]
    LateStart(Span),
    /// Neither a number nor a quantity.
    #[error("`{0}` is not a time; write for example `12.5` in milliseconds, or with its unit as `12.5ms`")]
    NotATime(String),
    /// A number without a unit where the header names none.
    #[error("`{0}` has no unit; give it one, or begin with a header as `time_s,delay_ms`")]
    NoUnit(String),
    /// Longer than an hour.
    #[error("a delay of {0} is over an hour")]
    TooLong(Span),
    /// Not two columns.
    #[error("`{0}` is not a time and a delay with a comma between them")]
    NotTwoColumns(String),
    /// Something else than 0 and 1.
    #[error("`{0}` is neither 0 (received) nor 1 (lost)")]
    NotZeroOrOne(char),
}

impl Opportunities {
    /// Reads a packet delivery trace as mahimahi's `mm-link` does: a line with the time in whole
    /// milliseconds for each opportunity. `origin` is what errors and reports call it.
    ///
    /// # Errors
    ///
    /// Names the line and what is wrong with it.
    pub fn parse(origin: &str, text: &str) -> Result<Self, TraceError> {
        let mut at_ms: Vec<u64> = Vec::new();
        for line in lines(text) {
            let error = |problem| line.error(origin, problem);
            let at = line.text.parse().ok().filter(|at| *at <= MAX_MILLISECONDS);
            let at = at.ok_or_else(|| error(TraceProblem::NotMilliseconds(line.text.to_string())))?;
            if at_ms.last().is_some_and(|last| at < *last) {
                return Err(error(TraceProblem::GoesBack));
            }
            push(&mut at_ms, at).map_err(error)?;
        }
        enough(origin, at_ms.len(), 1)?;
        if at_ms.last() == Some(&0) {
            return Err(whole(origin, TraceProblem::NoLength));
        }
        Ok(Self { source: origin.to_string(), at_ms })
    }

    /// The mean rate of the trace in bit/s, by opportunities of [`Opportunities::BYTES`].
    #[must_use]
    pub fn mean_bits_per_second(&self) -> f64 {
        let bits = self.at_ms.len() as f64 * f64::from(Self::BYTES) * 8.0;
        bits * 1_000.0 / self.at_ms.last().copied().unwrap_or_default() as f64
    }
}

impl Empirical {
    /// Reads a delay table: one delay a line, in milliseconds (`12.5`) or with its unit
    /// (`12500us`), in any order. Digits beyond the nanosecond are cut off.
    ///
    /// # Errors
    ///
    /// Names the line and what is wrong with it.
    pub fn parse(origin: &str, text: &str) -> Result<Self, TraceError> {
        let mut delays = Vec::new();
        for line in lines(text) {
            let error = |problem| line.error(origin, problem);
            let delay = time(line.text, Some(1_000_000)).and_then(delay).map_err(error)?;
            push(&mut delays, delay).map_err(error)?;
        }
        enough(origin, delays.len(), 2)?;
        delays.sort_unstable();
        Ok(Self { source: origin.to_string(), delays })
    }
}

impl Timeline {
    /// Reads a CSV of two columns, time since the start of the run and delay. Either the first line
    /// is a header whose column names end in their units (`_s`, `_ms`, `_us`, `_ns`, as in
    /// `time_s,delay_ms`), or each entry has its own (`10s,315ms`). Digits beyond the nanosecond are
    /// cut off.
    ///
    /// # Errors
    ///
    /// Names the line and what is wrong with it.
    pub fn parse(origin: &str, text: &str, interpolate: bool) -> Result<Self, TraceError> {
        let mut steps: Vec<(Span, Span)> = Vec::new();
        let mut units = [None, None];
        for (index, line) in lines(text).enumerate() {
            let error = |problem| line.error(origin, problem);
            let mut cells = line.text.split(',').map(str::trim);
            let (Some(first), Some(second), None) = (cells.next(), cells.next(), cells.next()) else {
                return Err(error(TraceProblem::NotTwoColumns(line.text.to_string())));
            };
            if index == 0 && first.starts_with(|c: char| c.is_ascii_alphabetic()) {
                units = [first, second].map(unit_of);
                continue;
            }
            let at = time(first, units[0]).map_err(error)?;
            let delay = time(second, units[1]).and_then(delay).map_err(error)?;
            match steps.last() {
                None if at != Span::ZERO => return Err(error(TraceProblem::LateStart(at))),
                Some((last, _)) if at < *last => return Err(error(TraceProblem::GoesBack)),
                Some((last, _)) if at == *last => return Err(error(TraceProblem::TimeTwice)),
                _ => push(&mut steps, (at, delay)).map_err(error)?,
            }
        }
        enough(origin, steps.len(), 1)?;
        Ok(Self { source: origin.to_string(), steps, interpolate })
    }
}

impl LossTrace {
    /// Reads a loss trace: a digit for each packet, 0 received and 1 lost. Spaces, commas and line
    /// ends between them count for nothing.
    ///
    /// # Errors
    ///
    /// Names the line and what is wrong with it.
    pub fn parse(origin: &str, text: &str) -> Result<Self, TraceError> {
        let mut lost = Vec::new();
        for line in lines(text) {
            for digit in line.text.chars() {
                let entry = match digit {
                    '0' => false,
                    '1' => true,
                    ',' => continue,
                    space if space.is_whitespace() => continue,
                    other => return Err(line.error(origin, TraceProblem::NotZeroOrOne(other))),
                };
                push(&mut lost, entry).map_err(|problem| line.error(origin, problem))?;
            }
        }
        enough(origin, lost.len(), 1)?;
        Ok(Self { source: origin.to_string(), lost })
    }
}

/// A year: times beyond it are slips, and would overflow sums.
const MAX_MILLISECONDS: u64 = 365 * 86_400_000;

/// A line that is not empty.
struct Entry<'a> {
    number: usize,
    text: &'a str,
}

impl Entry<'_> {
    fn error(&self, origin: &str, problem: TraceProblem) -> TraceError {
        TraceError { origin: origin.to_string(), line: self.number, problem }
    }
}

fn lines(text: &str) -> impl Iterator<Item = Entry<'_>> {
    text.trim_start_matches('\u{feff}')
        .lines()
        .zip(1..)
        .map(|(line, number)| Entry { number, text: line.split('#').next().unwrap_or_default().trim() })
        .filter(|entry| !entry.text.is_empty())
}

fn push<T>(entries: &mut Vec<T>, entry: T) -> Result<(), TraceProblem> {
    if entries.len() == MAX_ENTRIES {
        return Err(TraceProblem::TooMany);
    }
    entries.push(entry);
    Ok(())
}

fn enough(origin: &str, found: usize, least: usize) -> Result<(), TraceError> {
    if found < least { Err(whole(origin, TraceProblem::TooFew { found, least })) } else { Ok(()) }
}

fn whole(origin: &str, problem: TraceProblem) -> TraceError {
    TraceError { origin: origin.to_string(), line: 0, problem }
}

/// Nanoseconds of the unit that a column's name ends in.
fn unit_of(column: &str) -> Option<u64> {
    let (_, unit) = column.rsplit_once('_')?;
    nanoseconds_of(unit)
}

fn nanoseconds_of(unit: &str) -> Option<u64> {
    match unit {
        "ns" => Some(1),
        "us" | "µs" => Some(1_000),
        "ms" => Some(1_000_000),
        "s" => Some(1_000_000_000),
        "min" => Some(60_000_000_000),
        "h" => Some(3_600_000_000_000),
        _ => None,
    }
}

/// A decimal number with a unit, or without one where `unit` (in nanoseconds) is given.
fn time(text: &str, unit: Option<u64>) -> Result<Span, TraceProblem> {
    let wrong = || TraceProblem::NotATime(text.to_string());
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let unit = match suffix.trim() {
        "" => unit.ok_or_else(|| TraceProblem::NoUnit(text.to_string()))?,
        suffix => nanoseconds_of(suffix).ok_or_else(wrong)?,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return Err(wrong());
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| wrong())? };
    // Nanoseconds need no more than 13 digits of an hour.
    let digits = fraction.get(..fraction.len().min(13)).unwrap_or_default();
    let part: u64 = if digits.is_empty() { 0 } else { digits.parse().map_err(|_| wrong())? };
    let scale = 10u128.pow(digits.len() as u32);
    let nanos = u128::from(whole) * u128::from(unit) + u128::from(part) * u128::from(unit) / scale;
    u64::try_from(nanos)
        .ok()
        .filter(|nanos| nanos / 1_000_000 <= MAX_MILLISECONDS)
        .map(Span::from_nanos)
        .ok_or_else(wrong)
}

fn delay(span: Span) -> Result<Span, TraceProblem> {
    if span > crate::DelayModel::LONGEST { Err(TraceProblem::TooLong(span)) } else { Ok(span) }
}

/// The line in front of a message.
struct Line(usize);

impl core::fmt::Display for Line {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        if self.0 == 0 { Ok(()) } else { write!(f, ":{}", self.0) }
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::vec;

    use proptest::prelude::*;

    use super::*;

    fn ms(millis: u64) -> Span {
        Span::from_millis(millis)
    }

    #[test]
    fn delivery_traces() {
        let trace = Opportunities::parse("verizon", "0\r\n0\n\n# a comment\n2 # two\n5\n").unwrap();
        assert_eq!(trace.at_ms, [0, 0, 2, 5]);
        assert_eq!(trace.mean_bits_per_second(), 4.0 * 1_504.0 * 8.0 / 0.005);
        let wrong = |text| Opportunities::parse("f", text).unwrap_err();
        assert_eq!(wrong("1\n-2").line, 2);
        assert_eq!(wrong("1\n2.5").to_string(), "f:2: `2.5` is not a whole number of milliseconds");
        assert_eq!(wrong("3\n\n2").to_string(), "f:3: the time goes back; sort the lines by time");
        assert_eq!(wrong("0\n0").problem, TraceProblem::NoLength);
        assert_eq!(wrong(" # nothing").to_string(), "f: there are 0 entries; give at least 1");
        assert_eq!(wrong(&u64::MAX.to_string()).line, 1);
    }

    #[test]
    fn delay_tables() {
        let table = Empirical::parse("table", "20\n12.5\n12600us\n0.0000019\n.5s").unwrap();
        let delays = [1, 12_500_000, 12_600_000, 20_000_000, 500_000_000].map(Span::from_nanos);
        assert_eq!(table.delays, delays);
        let wrong = |text| Empirical::parse("f", text).unwrap_err();
        assert_eq!(wrong("1").problem, TraceProblem::TooFew { found: 1, least: 2 });
        assert_eq!(wrong("1\nfast").problem, TraceProblem::NotATime("fast".into()));
        assert_eq!(wrong("1\n1.2.3").line, 2);
        assert_eq!(wrong("1\n2h").problem, TraceProblem::TooLong(Span::from_secs(7_200)));
        assert_eq!(wrong("1\n.").line, 2);
    }

    #[test]
    fn timelines() {
        let steps = vec![(Span::ZERO, ms(6)), (ms(1_500), ms(315))];
        for text in ["time_s,delay_ms\n0,6\n1.5,315", "0,6ms\n1500ms, 0.315s", "\u{feff}t_ms,d_us\n0,6000\n1500,315000"]
        {
            // A bare zero has no unit of its own either.
            let text = text.replace("0,6ms", "0s,6ms");
            assert_eq!(Timeline::parse("t", &text, false).unwrap().steps, steps, "{text}");
        }
        let wrong = |text| Timeline::parse("f", text, false).unwrap_err().problem;
        assert_eq!(wrong("0,6"), TraceProblem::NoUnit("0".into()));
        assert_eq!(wrong("time_s,delay\n0,6"), TraceProblem::NoUnit("6".into()));
        assert_eq!(wrong("1s,6ms"), TraceProblem::LateStart(ms(1_000)));
        assert_eq!(wrong("0s,6ms\n2s,1ms\n1s,1ms"), TraceProblem::GoesBack);
        assert_eq!(wrong("0s,6ms\n0s,7ms"), TraceProblem::TimeTwice);
        assert_eq!(wrong("0s"), TraceProblem::NotTwoColumns("0s".into()));
        assert_eq!(wrong("time_s,delay_ms"), TraceProblem::TooFew { found: 0, least: 1 });
    }

    #[test]
    fn loss_traces() {
        assert_eq!(LossTrace::parse("l", "0 1,1\n0").unwrap().lost, [false, true, true, false]);
        let error = LossTrace::parse("l", "0\n02").unwrap_err();
        assert_eq!(error.to_string(), "l:2: `2` is neither 0 (received) nor 1 (lost)");
        let long = "1".repeat(MAX_ENTRIES + 1);
        assert_eq!(LossTrace::parse("l", &long).unwrap_err().problem, TraceProblem::TooMany);
    }

    proptest! {
        #[test]
        fn no_text_makes_a_reader_panic(text in "([0-9.,smuµn_#\n -]|\\PC){0,60}") {
            let _ = Opportunities::parse("f", &text);
            let _ = Empirical::parse("f", &text);
            let _ = Timeline::parse("f", &text, true);
            let _ = LossTrace::parse("f", &text);
        }

        #[test]
        fn times_are_read_to_the_nanosecond(nanos in 0u64..3_600_000_000_000) {
            let text = format!("0s,{}.{:06}ms", nanos / 1_000_000, nanos % 1_000_000);
            let timeline = Timeline::parse("f", &text, false).unwrap();
            prop_assert_eq!(timeline.steps[0].1, Span::from_nanos(nanos));
        }
    }
}
