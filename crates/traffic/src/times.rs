//! Times of packets as text: one packet a line, its time in seconds, and perhaps its size in bytes
//! after a comma, a semicolon or white space.

use alloc::string::String;
use alloc::vec::Vec;

use engine::Time;

/// Packets that are read, at most: 256 MiB.
const MOST: usize = 1 << 24;

/// A packet of a list of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedPacket {
    /// When it was seen, from the first packet on.
    pub time: Time,
    /// Its size in bytes; 0 if it is not told.
    pub bytes: u32,
}

/// Reads a list of times. Empty lines and lines that begin with `#` are passed over, and a first line that begins
/// with a letter, as a heading. Times have up to nine decimals (more are cut), and count from the first.
///
/// # Errors
///
/// [`TimesError`], with the line, for what is not a time, a time before the one ahead of it, and too many lines.
pub fn read(text: &[u8]) -> Result<Vec<TimedPacket>, TimesError> {
    let mut packets: Vec<TimedPacket> = Vec::new();
    let mut first = 0;
    let mut before = 0;
    let mut is_first = true;
    for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let at = number + 1;
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let is_heading = is_first && (line[0].is_ascii_alphabetic() || line[0] == b'"');
        is_first = false;
        if is_heading {
            continue;
        }
        let mut fields = line.split(|byte| b",; \t".contains(byte)).filter(|field| !field.is_empty());
        let wrong = |what: &[u8]| TimesError::NotATime {
            line: at,
            what: String::from_utf8_lossy(&what[..what.len().min(40)]).into_owned(),
        };
        let nanos = fields.next().and_then(nanoseconds).ok_or_else(|| wrong(line))?;
        let bytes = match fields.next() {
            Some(field) => core::str::from_utf8(field).ok().and_then(|f| f.parse().ok()).ok_or_else(|| wrong(field))?,
            None => 0,
        };
        if packets.is_empty() {
            first = nanos;
        } else if nanos < before {
            return Err(TimesError::Backwards { line: at });
        }
        if packets.len() == MOST {
            return Err(TimesError::TooMany);
        }
        before = nanos;
        packets.push(TimedPacket { time: Time::from_nanos(nanos - first), bytes });
    }
    Ok(packets)
}

/// Seconds with decimals as nanoseconds.
fn nanoseconds(field: &[u8]) -> Option<u64> {
    let text = core::str::from_utf8(field).ok()?;
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    if whole.is_empty() || !whole.bytes().chain(part.bytes()).all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let part = &part[..part.len().min(9)];
    let scale = 10u64.pow(9 - part.len() as u32);
    let fraction = if part.is_empty() { 0 } else { part.parse::<u64>().ok()? * scale };
    whole.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(fraction)
}

/// Why a list of times cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimesError {
    /// Not a time in seconds, or not a size behind it.
    #[error("line {line}: `{what}` is not a time in seconds (with a size in bytes behind a comma, if there is one)")]
    NotATime {
        /// The line, from 1.
        line: usize,
        /// What stands there.
        what: String,
    },
    /// Times go back.
    #[error("line {line}: this time is before the one ahead of it; sort the times first")]
    Backwards {
        /// The line, from 1.
        line: usize,
    },
    /// Too many packets.
    #[error("there are more than {MOST} packets; take a part of them")]
    TooMany,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(text: &str) -> Vec<(u64, u32)> {
        read(text.as_bytes()).unwrap().iter().map(|packet| (packet.time.as_nanos(), packet.bytes)).collect()
    }

    #[test]
    fn times_are_read_exactly_and_count_from_the_first() {
        assert_eq!(
            times(
                "time_s,bytes\n# a remark\n1700000000.000000001,60\r\n1700000000.5;1500\n\n1700000001\t40\n1700000001.0000000019"
            ),
            [(0, 60), (499_999_999, 1_500), (999_999_999, 40), (1_000_000_000, 0)]
        );
        assert_eq!(times(""), []);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let error = |text: &str| read(text.as_bytes()).unwrap_err();
        assert_eq!(error("1\n0.9"), TimesError::Backwards { line: 2 });
        for wrong in ["1\nx", "1\n-1", "1\n1e3", "1\n.5", "1\n1.2.3", "1\n99999999999999999999", "1\n2,x", "t\nu"] {
            assert!(matches!(error(wrong), TimesError::NotATime { line: 2, .. }), "{wrong}");
        }
    }
}
