//! Whatever the input, the decoder refuses it with a message or gives a sound plan: the fuzz corpus
//! replayed on a stable compiler, and texts drawn at random.

#[path = "../../../fuzz/checks/scenario.rs"]
mod check;

use std::path::{Path, PathBuf};

use proptest::prelude::*;

fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder);
    let files: Vec<_> =
        std::fs::read_dir(folder).expect("the folder").map(|entry| entry.expect("a file").path()).collect();
    files.into_iter().filter(|path| path.is_file()).collect()
}

#[test]
fn the_corpus_holds() {
    let corpus = |name: &str| files(&format!("fuzz/corpus/{name}"));
    assert!(corpus("scenario").len() >= 10 && corpus("trace").len() >= 4);
    for path in corpus("scenario") {
        check::scenario(&std::fs::read(&path).unwrap());
    }
    assert!(corpus("load").len() >= 4);
    for path in corpus("load") {
        check::load(&std::fs::read(&path).unwrap());
    }
    for path in corpus("trace") {
        check::trace(&std::fs::read(&path).unwrap());
    }
}

/// Pieces that scenarios are made of, so that random texts get past the first line.
const PIECES: &[&str] = &[
    "name: t\n",
    "sites: [a, b]\n",
    "links:\n",
    "  l: {ends: [a, b], ",
    "profile: 5g-1",
    "loss: 0.1",
    "rate: 1Mbit/s",
    "delay: 10ms",
    "queue: bdp",
    "up: {",
    "}\n",
    "}",
    "{",
    "[",
    "]",
    ", ",
    ": ",
    "- ",
    "\n",
    "  ",
    "traffic:\n",
    "  x: {from: a, to: b, ",
    "service: ais",
    "tcp: {",
    "udp: {rate: 1kbit/s}",
    "ping: {}",
    "sweep:\n",
    "  l.loss: [0, 1]\n",
    "  traffic: [x]\n",
    "  path: [host]\n",
    "quick: {l.loss: 0}\n",
    "measure: {duration: 1s}\n",
    "expect:\n",
    "  - {that: goodput, holds: '> 1'}\n",
    "figures:\n",
    "  - {x: l.loss, y: loss, series: traffic}\n",
    "&a ",
    "*a",
    "!x ",
    "'",
    "\"",
    "#",
    "|",
    ">",
    "?",
    "---\n",
    "\t",
    "\r",
    "é",
    "\u{202e}",
    "0",
    "-1",
    "1e9",
    "~",
    "%",
    "*",
    ".",
    "1s",
    "200%",
];

proptest! {
    #[test]
    fn any_text_is_refused_or_sound(text in "\\PC{0,200}") {
        check::scenario(text.as_bytes());
    }

    #[test]
    fn any_pieces_are_refused_or_sound(pieces in proptest::collection::vec(0..PIECES.len(), 0..60)) {
        let text: String = pieces.iter().map(|piece| PIECES[*piece]).collect();
        check::scenario(text.as_bytes());
    }

    /// A good file with one stretch cut out and another put in.
    #[test]
    fn any_slip_is_refused_or_sound(from in 0.0..1.0, length in 0usize..20, piece in 0..PIECES.len()) {
        for path in files("fuzz/corpus/scenario").iter().filter(|path| path.ends_with("first") || path.ends_with("everything")) {
            let text = std::fs::read_to_string(path).expect("a text");
            let start = text.floor_char_boundary((from * text.len() as f64) as usize);
            let end = text.floor_char_boundary((start + length).min(text.len()));
            let slip = format!("{}{}{}", &text[..start], PIECES[piece], &text[end..]);
            check::scenario(slip.as_bytes());
        }
    }

    #[test]
    fn any_trace_is_refused_or_sound(kind in 0u8..4, text in "([0-9]{1,3}(ms|s|,)?[0-9]{0,2}\\n){0,12}") {
        let mut data = vec![kind];
        data.extend(text.bytes());
        check::trace(&data);
    }
}
