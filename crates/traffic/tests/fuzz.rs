//! The fuzz corpora replayed on a stable compiler, and datagrams and times drawn at random.

#[path = "../../../fuzz/checks/message.rs"]
mod check;
#[path = "../../../fuzz/checks/times.rs"]
mod times;

use proptest::prelude::*;

#[test]
fn the_corpora_hold() {
    type Check = fn(&[u8]);
    for (name, check) in [("message", check::message as Check), ("times", times::times)] {
        let folder = format!("{}/../../fuzz/corpus/{name}", env!("CARGO_MANIFEST_DIR"));
        let files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(files.len() >= 5, "{name}");
        for path in files {
            check(&std::fs::read(&path).unwrap());
        }
    }
}

proptest! {
    /// Lines that are almost times.
    #[test]
    fn any_list_of_times_is_read_or_refused(text in "([a-z#\"]?[0-9.]{0,6}[,; \t]?[0-9a-z]{0,3}\r?\n){0,8}") {
        times::times(text.as_bytes());
    }
    /// Datagrams that begin like a message or like RTP.
    #[test]
    fn any_datagram_is_read_or_refused(
        begin in prop_oneof![Just(vec![0x4e, 0x50]), Just(vec![0x80]), Just(vec![])],
        kind in 0..6u8,
        rest in proptest::collection::vec(any::<u8>(), 0..24),
    ) {
        check::message(&[begin, vec![kind], rest].concat());
    }
    /// Messages whose parts are drawn, so that they get past the first line.
    #[test]
    fn any_text_is_read_or_refused(
        start in "(INVITE|ACK|BYE|DANCE) sip:[a-z]{0,4} SIP/2.0|SIP/2.0 [0-9]{2,4} [A-Z]*",
        fields in "((v|f|t|i|m|l|CSeq|Via): ?[ -~]{0,12}\r\n( [ -~]{0,4}\r\n)?){0,9}",
        number in 0..3_u32,
        body in "[ -~\r\n]{0,20}",
    ) {
        let known = format!("v: a;branch=b\r\nf: c\r\nt: d\r\ni: e\r\nCSeq: {number} BYE\r\n");
        for fields in [&fields, &format!("{known}{fields}")] {
            check::message(format!("{start}\r\n{fields}\r\n{body}").as_bytes());
        }
    }
}
