//! The fuzz corpus replayed on a stable compiler, and frames drawn at random.

#[path = "../../../fuzz/checks/frame.rs"]
mod check;

use proptest::prelude::*;

#[test]
fn the_corpus_holds() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/frame");
    let files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() >= 5);
    for path in files {
        check::frame(&std::fs::read(&path).unwrap());
    }
}

proptest! {
    /// Frames that begin like IP, so that they get past the Ethernet header.
    #[test]
    fn any_frame_is_read_within_its_bounds(ethertype in prop_oneof![Just(0x0800u16), Just(0x86dd), Just(0x8100)], rest in proptest::collection::vec(any::<u8>(), 0..120)) {
        let mut frame = vec![0; 12];
        frame.extend(ethertype.to_be_bytes());
        frame.extend(rest);
        check::frame(&frame);
    }
}
