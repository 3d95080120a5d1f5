//! The fuzz corpus replayed on a stable compiler, and datagrams drawn at random.

#[path = "../../../fuzz/checks/message.rs"]
mod check;

use proptest::prelude::*;

#[test]
fn the_corpus_holds() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/message");
    let files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() >= 5);
    for path in files {
        check::message(&std::fs::read(&path).unwrap());
    }
}

proptest! {
    /// Datagrams that begin like a message or like RTP.
    #[test]
    fn any_datagram_is_read_or_refused(
        begin in prop_oneof![Just(vec![0x4e, 0x50]), Just(vec![0x80]), Just(vec![])],
        kind in 0..6u8,
        rest in proptest::collection::vec(any::<u8>(), 0..24),
    ) {
        check::message(&[begin, vec![kind], rest].concat());
    }
}
