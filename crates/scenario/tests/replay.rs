//! Recordings that nobody recorded: replayed or refused, and never anything else.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic too")]

#[path = "../../../fuzz/checks/replay.rs"]
mod check;

use std::path::Path;

use engine::Time;
use proptest::prelude::*;
use scenario::{ReplayError, replay_recording};
use wire::recording::{Kind, Record, append, begin};

const ABOUT: &str = r#"{"config": {}, "seed": 1, "version": "x"}"#;

fn recording(about: &str, records: &[Record<'_>]) -> Vec<u8> {
    let mut file = Vec::new();
    begin(&mut file, about);
    records.iter().for_each(|record| append(&mut file, record));
    file
}

fn end(at: u64) -> Record<'static> {
    Record { at, kind: Kind::End, bytes: &[] }
}

#[test]
fn what_only_one_of_both_has_is_a_difference() {
    // An adapter by itself sends hellos, which nobody recorded here.
    let replayed = replay_recording(Path::new("r"), &recording(ABOUT, &[end(10_000_000_000)])).unwrap();
    let difference = replayed.difference.unwrap();
    assert!(difference.recorded.is_none() && difference.replayed.is_some());
    assert!(difference.to_string().starts_with("after 0 characters only the replay has a run of "), "{difference}");
    // Cut before that, the recording may have ended sooner.
    let replayed = replay_recording(Path::new("r"), &recording(ABOUT, &[])).unwrap();
    assert!(replayed.cut && replayed.difference.is_none());

    let early = Record { at: 0, kind: Kind::ToLine, bytes: b"x" };
    let replayed = replay_recording(Path::new("r"), &recording(ABOUT, &[early, end(1)])).unwrap();
    let difference = replayed.difference.unwrap();
    assert_eq!((difference.character, difference.recorded), (0, Some((Time::ZERO, b"x".to_vec()))));
}

#[test]
fn what_cannot_be_replayed_is_refused() {
    let refused = |file: &[u8]| replay_recording(Path::new("r"), file).unwrap_err();
    assert!(matches!(refused(&recording("{}", &[])), ReplayError::About { .. }));
    let config = r#"{"config": {"rate": "1bit/s"}, "seed": 1, "version": "x"}"#;
    let error = refused(&recording(config, &[])).to_string();
    assert!(error.contains("`rate` is 1bit/s"), "{error}");
    assert!(matches!(refused(&recording(ABOUT, &[end(u64::MAX)])), ReplayError::TooLong { .. }));
    assert!(matches!(refused(b"x"), ReplayError::Bad { .. }));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_recording_is_replayed_or_refused(data in proptest::collection::vec(any::<u8>(), 0..2_000)) {
        check::replay(&data);
    }

    /// Frames that begin like IP, with checksums left open.
    #[test]
    fn any_frames_are_replayed(frames in proptest::collection::vec((any::<bool>(), 0u8..40, proptest::collection::vec(any::<u8>(), 20..120)), 1..20)) {
        let mut data = Vec::new();
        for (six, gap, rest) in frames {
            let (ethertype, version) = if six { ([0x86, 0xdd], 0x60) } else { ([0x08, 0x00], 0x45) };
            data.extend([4 + 8, gap, 14 + 1 + rest.len() as u8]);
            data.extend([0x33, 0x33, 0, 0, 0, 1, 2, 2, 2, 2, 2, 2]);
            data.extend(ethertype);
            data.push(version);
            data.extend(rest);
        }
        check::replay(&data);
    }
}
