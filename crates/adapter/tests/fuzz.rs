//! The fuzz corpus replayed on a stable compiler, and commands drawn at random.

#[path = "../../../fuzz/checks/adapter.rs"]
mod check;

use proptest::prelude::*;

#[test]
fn the_corpus_holds() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/adapter");
    let files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() >= 8);
    for path in files {
        check::adapter(&std::fs::read(&path).unwrap());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_commands_hold(
        commands in prop::collection::vec((0u8..12, prop::collection::vec(any::<u8>(), 0..60)), 0..60),
    ) {
        let data: Vec<u8> = commands.iter().flat_map(|(what, bytes)| {
            [&[*what, bytes.len() as u8][..], bytes].concat()
        }).collect();
        check::adapter(&data);
    }
}
