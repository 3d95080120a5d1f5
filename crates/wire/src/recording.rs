//! Recordings of what an adapter was given and what it put on its line, so that a run can be repeated
//! and compared byte by byte.
//!
//! # The format, version 1
//!
//! All numbers are little-endian. A file is a header and records, one after the other, to its end:
//!
//! | bytes | header |
//! |---|---|
//! | 8 | `NrwRec` and CR LF, which a transfer as text would spoil |
//! | 2 | version, 1 |
//! | 2 | zero |
//! | 4 | length of what follows |
//! | n | what was recorded, in UTF-8: JSON of the program that wrote it |
//!
//! | bytes | record |
//! |---|---|
//! | 1 | kind: 0 from the LAN, 1 from the line, 2 to the line, 3 end |
//! | 1 | 1 if the transport checksum is unfinished, else 0; only from the LAN |
//! | 2 | where it is summed from, in bytes from the start of the frame; else 0 |
//! | 2 | where it is put, from there; else 0 |
//! | 2 | zero |
//! | 4 | length of what follows, at most [`LONGEST`] |
//! | 8 | logical time in nanoseconds; never decreases |
//! | n | the frame, or the run of characters; nothing at the end |
//!
//! The end is the last record. A file without it was not finished, and is good up to where it is cut.
//! What another version changes is not known to a reader of this one, which refuses it.

use alloc::string::String;
use alloc::vec::Vec;

/// The longest frame or run of characters.
pub const LONGEST: usize = 1 << 20;

const MAGIC: [u8; 8] = *b"NrwRec\r\n";
const VERSION: u16 = 1;
const HEADER_LEN: usize = 16;
const RECORD_LEN: usize = 20;

/// Something that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// When, in nanoseconds of logical time.
    pub at: u64,
    /// What.
    pub kind: Kind,
    /// The frame or characters.
    pub bytes: &'a [u8],
}

/// What a record is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A frame that came from the LAN. The transport checksum, if it is unfinished: where it is summed
    /// from, and where it is put from there.
    FromLan(Option<(u16, u16)>),
    /// Characters that came from the line.
    FromLine,
    /// Characters that were given to the line.
    ToLine,
    /// The adapter was stopped.
    End,
}

/// A file that is no recording, or no good one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// It begins otherwise.
    #[error("this is no recording of an adapter; make one by `narrows adapter --record FILE`")]
    Foreign,
    /// It is of another version of the format.
    #[error(
        "this recording has format {0}, and only format {VERSION} is known here; read it with the narrows that made it"
    )]
    Version(u16),
    /// It ends in the middle of its header.
    #[error("this recording ends in its header")]
    NoHeader,
    /// What is recorded is not text.
    #[error("this recording does not say in UTF-8 what was recorded")]
    NotText,
    /// A record makes no sense.
    #[error("the record at byte {at}: {what}")]
    Record {
        /// Where it begins in the file.
        at: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// It is cut in a record.
    #[error("this recording is cut at byte {0}: whoever wrote it did not end properly")]
    Cut(usize),
}

/// Begins a recording; `about` says what is recorded.
pub fn begin(out: &mut Vec<u8>, about: &str) {
    out.extend(MAGIC);
    out.extend(VERSION.to_le_bytes());
    out.extend([0; 2]);
    out.extend((about.len() as u32).to_le_bytes());
    out.extend(about.as_bytes());
}

/// Appends a record. Bytes beyond [`LONGEST`], which no frame has, are left away.
pub fn append(out: &mut Vec<u8>, record: &Record<'_>) {
    let bytes = &record.bytes[..record.bytes.len().min(LONGEST)];
    let (kind, partial) = match record.kind {
        Kind::FromLan(partial) => (0, partial),
        Kind::FromLine => (1, None),
        Kind::ToLine => (2, None),
        Kind::End => (3, None),
    };
    let (start, offset) = partial.unwrap_or_default();
    out.extend([kind, u8::from(partial.is_some())]);
    out.extend(start.to_le_bytes());
    out.extend(offset.to_le_bytes());
    out.extend([0; 2]);
    out.extend((bytes.len() as u32).to_le_bytes());
    out.extend(record.at.to_le_bytes());
    out.extend(bytes);
}

/// What was recorded, and the records.
///
/// # Errors
///
/// The file is no recording of this version.
pub fn read(file: &[u8]) -> Result<(String, Records<'_>), Problem> {
    if !file.starts_with(&MAGIC) {
        return Err(Problem::Foreign);
    }
    let version = number(file, 8, 2).ok_or(Problem::NoHeader)? as u16;
    if version != VERSION {
        return Err(Problem::Version(version));
    }
    let length = number(file, 12, 4).ok_or(Problem::NoHeader)? as usize;
    let about = file.get(HEADER_LEN..HEADER_LEN.saturating_add(length)).ok_or(Problem::NoHeader)?;
    let about = core::str::from_utf8(about).map_err(|_| Problem::NotText)?;
    Ok((about.into(), Records { file, next: HEADER_LEN + length, before: 0, over: false }))
}

/// The records of a file, in order. After the first error there are no more.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    file: &'a [u8],
    next: usize,
    /// The time of the last record.
    before: u64,
    over: bool,
}

impl<'a> Records<'a> {
    fn record(&mut self) -> Result<Record<'a>, Problem> {
        let at = self.next;
        let wrong = |what| Problem::Record { at, what };
        let head = self.file.get(at..at.saturating_add(RECORD_LEN)).ok_or(Problem::Cut(at))?;
        let field = |from, length| number(head, from, length).unwrap_or_default();
        let partial = match head[1] {
            0 if field(2, 4) == 0 => None,
            1 if head[0] == 0 => Some((field(2, 2) as u16, field(4, 2) as u16)),
            _ => return Err(wrong("it says that of a checksum which cannot be")),
        };
        let kind = match head[0] {
            0 => Kind::FromLan(partial),
            1 => Kind::FromLine,
            2 => Kind::ToLine,
            3 => Kind::End,
            _ => return Err(wrong("it is of an unknown kind")),
        };
        let length = field(8, 4) as usize;
        if length > LONGEST || (kind == Kind::End && length > 0) {
            return Err(wrong("it is too long"));
        }
        if field(6, 2) != 0 {
            return Err(wrong("what should be zero is not"));
        }
        let time = field(12, 8);
        if time < self.before {
            return Err(wrong("it is earlier than the one before it"));
        }
        let begin = at + RECORD_LEN;
        let bytes = self.file.get(begin..begin + length).ok_or(Problem::Cut(at))?;
        self.next = begin + length;
        self.before = time;
        if kind == Kind::End && self.next < self.file.len() {
            return Err(Problem::Record { at: self.next, what: "there is something behind the end" });
        }
        Ok(Record { at: time, kind, bytes })
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, Problem>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let record = self.record();
        self.over = !matches!(&record, Ok(record) if record.kind != Kind::End);
        Some(record)
    }
}

/// The number in `length` bytes from `at` on.
fn number(bytes: &[u8], at: usize, length: usize) -> Option<u64> {
    let bytes = bytes.get(at..at + length)?;
    Some(bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}
