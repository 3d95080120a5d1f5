//! The fuzz corpus replayed on a stable compiler, and user planes drawn at random.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic too")]

#[path = "../../../fuzz/checks/control.rs"]
mod check;

use proptest::collection::vec;
use proptest::prelude::*;

fn files(corpus: &str) -> Vec<Vec<u8>> {
    let folder = format!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/{}"), corpus);
    std::fs::read_dir(folder).unwrap().map(|entry| std::fs::read(entry.unwrap().path()).unwrap()).collect()
}

#[test]
fn the_corpus_holds() {
    let files = files("control");
    assert!(files.len() >= 9);
    files.iter().for_each(|file| check::control(file));
}

proptest! {
    /// Real messages in any order, damaged or not.
    #[test]
    fn any_user_plane_is_survived(steps in vec((any::<u8>(), any::<prop::sample::Index>(), prop::option::of((any::<prop::sample::Index>(), any::<u8>()))), 0..40)) {
        let messages = files("pfcp");
        let mut script = vec![];
        for (what, which, damage) in steps {
            let mut datagram = which.get(&messages).clone();
            datagram.truncate(255);
            if let Some((at, value)) = damage {
                let length = datagram.len();
                datagram[at.index(length)] = value;
            }
            script.extend([what, datagram.len() as u8]);
            script.extend(datagram);
        }
        check::control(&script);
    }
}
