//! Recordings: what is written is read, and what is no recording is told.

#[path = "../../../fuzz/checks/recording.rs"]
mod check;

use proptest::prelude::*;
use wire::recording::{Kind, Problem, Record, append, begin, read};

fn written(records: &[Record<'_>]) -> Vec<u8> {
    let mut file = Vec::new();
    begin(&mut file, "about");
    records.iter().for_each(|record| append(&mut file, record));
    file
}

fn record(at: u64, kind: Kind, bytes: &[u8]) -> Record<'_> {
    Record { at, kind, bytes }
}

#[test]
fn what_is_written_is_read() {
    let records = [
        record(0, Kind::FromLan(None), b"frame"),
        record(0, Kind::FromLan(Some((34, 6))), b"unfinished"),
        record(7, Kind::FromLine, b""),
        record(u64::MAX, Kind::ToLine, b"out"),
        record(u64::MAX, Kind::End, b""),
    ];
    let file = written(&records);
    let (about, read) = read(&file).unwrap();
    assert_eq!(about, "about");
    assert_eq!(read.map(Result::unwrap).collect::<Vec<_>>(), records);
    check::recording(&file);
}

#[test]
fn the_format_is_as_it_is_written_down() {
    let file = written(&[record(0x0102, Kind::FromLan(Some((34, 6))), b"ab")]);
    let expected = [
        b"NrwRec\r\n".as_slice(),
        &[1, 0, 0, 0, 5, 0, 0, 0],
        b"about",
        &[0, 1, 34, 0, 6, 0, 0, 0, 2, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0],
        b"ab",
    ];
    assert_eq!(file, expected.concat());
}

#[test]
fn what_is_wrong_is_told() {
    assert_eq!(read(b"pcap").unwrap_err(), Problem::Foreign);
    let mut other = written(&[]);
    other[8] = 9;
    assert_eq!(read(&other).unwrap_err(), Problem::Version(9));
    assert_eq!(read(&written(&[])[..18]).unwrap_err(), Problem::NoHeader);
    let problem = |records: &[Record<'_>]| {
        let file = written(records);
        read(&file).unwrap().1.find_map(Result::err)
    };
    // A recorder that was killed.
    assert_eq!(problem(&[record(1, Kind::ToLine, b"x")]), Some(Problem::Cut(21 + 21)));
    let back = problem(&[record(2, Kind::ToLine, b""), record(1, Kind::ToLine, b"")]);
    assert!(back.unwrap().to_string().contains("earlier"));
    let behind = problem(&[record(2, Kind::End, b""), record(3, Kind::ToLine, b"")]);
    assert!(behind.unwrap().to_string().contains("behind the end"));
}

#[test]
fn the_corpus_holds() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/recording");
    let files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() >= 4);
    for path in files {
        check::recording(&std::fs::read(&path).unwrap());
    }
}

proptest! {
    /// Files that begin like a recording, so that they get past the header.
    #[test]
    fn any_file_is_read_within_its_bounds(kinds in proptest::collection::vec((0u8..5, 0u8..3, 0u8..40), 0..20), rest in proptest::collection::vec(any::<u8>(), 0..60)) {
        let mut file = written(&[]);
        for (kind, partial, length) in kinds {
            file.extend([kind, partial, 0, 0, 0, 0, 0, 0, length, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
            file.extend(std::iter::repeat_n(kind, usize::from(length)));
        }
        file.extend(rest);
        check::recording(&file);
    }
}
