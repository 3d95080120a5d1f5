//! Histograms of a cell as one `HdrHistogram` log (version 1.3, V2 compressed), which the
//! histogram project's own tools read.

use std::fs;
use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, IntervalLogWriterBuilder, LogEntry, Tag};
use hdrhistogram::serialization::{Deserializer, V2DeflateSerializer};

use crate::RecordError;

/// The log as bytes. Each histogram is tagged with its name, in which the characters that a tag
/// cannot hold (space, comma, line ends) became `_`.
///
/// # Errors
///
/// Only what a histogram cannot be written for, which none of ours is.
pub fn encode(histograms: &[(String, Histogram<u64>)]) -> Result<Vec<u8>, std::io::Error> {
    let mut bytes = Vec::new();
    let mut serializer = V2DeflateSerializer::new();
    let mut writer = IntervalLogWriterBuilder::new()
        .add_comment("[Histogram log format version 1.3]")
        .add_comment("[values are nanoseconds]")
        .begin_log_with(&mut bytes, &mut serializer)?;
    for (name, histogram) in histograms {
        let name = name.replace([' ', ',', '\r', '\n'], "_");
        writer
            .write_histogram(histogram, Duration::ZERO, Duration::ZERO, Tag::new(&name))
            .map_err(|e| std::io::Error::other(e.to_string()))?;
    }
    Ok(bytes)
}

/// Reads a log back.
pub(crate) fn read(path: &Path) -> Result<Vec<(String, Histogram<u64>)>, RecordError> {
    let bytes = fs::read(path).map_err(RecordError::io("read", path))?;
    let malformed = |what: String| RecordError::Malformed { path: path.to_path_buf(), line: 1, what };
    let mut found = Vec::new();
    for entry in IntervalLogIterator::new(&bytes) {
        let entry = entry.map_err(|e| malformed(format!("not a histogram log ({e:?})")))?;
        if let LogEntry::Interval(interval) = entry {
            let raw =
                STANDARD.decode(interval.encoded_histogram()).map_err(|e| malformed(format!("not base64 ({e})")))?;
            let histogram = Deserializer::new()
                .deserialize(&mut raw.as_slice())
                .map_err(|e| malformed(format!("not a histogram ({e:?})")))?;
            found.push((interval.tag().map_or(String::new(), |tag| tag.as_str().to_string()), histogram));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histograms_come_back() {
        let mut lateness = Histogram::new(3).unwrap();
        for value in [1_u64, 50_000, 52_000_000] {
            lateness.record(value).unwrap();
        }
        let bytes = encode(&[("delay my flow".into(), lateness.clone())]).unwrap();
        assert!(bytes.starts_with(b"#[Histogram log format version 1.3]\n"));
        let path = std::env::temp_dir().join(format!("narrows-hist-{}.hlog", std::process::id()));
        fs::write(&path, bytes).unwrap();
        assert_eq!(read(&path).unwrap(), [("delay_my_flow".to_string(), lateness)]);
        fs::write(&path, b"Tag=a,0,0,0,AAAA\n").unwrap();
        assert!(matches!(read(&path), Err(RecordError::Malformed { .. })));
        fs::remove_file(path).unwrap();
    }
}
