//! The fuzz corpus of the UPF replayed on a stable compiler, and steps drawn at random.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

#[path = "../../../fuzz/checks/upf.rs"]
mod check;

use proptest::prelude::*;

#[test]
fn the_corpus_holds() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/upf");
    let files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() >= 5);
    for path in files {
        check::upf(&std::fs::read(&path).unwrap());
    }
}

proptest! {
    /// What was there in the corpus, with bytes changed.
    #[test]
    fn a_corpus_with_changes_holds(which in any::<prop::sample::Index>(), changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8)) {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/upf");
        let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        let mut bytes = std::fs::read(which.get(&files)).unwrap();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        check::upf(&bytes);
    }

    #[test]
    fn any_steps_hold(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        check::upf(&bytes);
    }
}
