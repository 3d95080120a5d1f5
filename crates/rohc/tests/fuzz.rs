//! The fuzz corpus replayed on a stable compiler, and inputs drawn at random.

#[path = "../../../fuzz/checks/rohc.rs"]
mod check;

use proptest::prelude::*;

fn corpus() -> Vec<Vec<u8>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/rohc");
    let mut files: Vec<_> =
        std::fs::read_dir(folder).expect("the corpus").map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    files.iter().map(|path| std::fs::read(path).expect("a file of the corpus")).collect()
}

#[test]
fn the_corpus_holds() {
    let corpus = corpus();
    assert!(corpus.len() >= 10);
    corpus.iter().for_each(|data| check::rohc(data));
}

proptest! {
    /// The corpus with some octets changed: what is drawn wholly at random does not get far.
    #[test]
    fn near_the_corpus(which: prop::sample::Index, changes in prop::collection::vec(any::<(prop::sample::Index, u8)>(), 0..12)) {
        let corpus = corpus();
        let mut data = which.get(&corpus).clone();
        for (at, octet) in changes {
            let at = at.index(data.len());
            data[at] = octet;
        }
        check::rohc(&data);
    }
}
