//! The fuzz corpora replayed on a stable compiler, and datagrams and times drawn at random.

#[path = "../../../fuzz/checks/message.rs"]
mod check;
#[path = "../../../fuzz/checks/capture.rs"]
mod check_capture;
#[path = "../../../fuzz/checks/filter.rs"]
mod check_filter;
#[path = "../../../fuzz/checks/times.rs"]
mod times;

use proptest::prelude::*;

#[test]
fn the_corpora_hold() {
    let checks = [
        ("message", check::message as fn(&[u8])),
        ("times", times::times),
        ("capture", check_capture::capture),
        ("filter", check_filter::filter),
    ];
    for (name, check) in checks {
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

    /// Captures in which something is changed.
    #[test]
    fn any_capture_is_read_or_refused(
        name in prop::sample::select(vec!["short-ns", "cooked2", "two-interfaces", "every-block-big", "every-block-little", "patched-loopback"]),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        len: prop::sample::Index,
    ) {
        let mut data = std::fs::read(format!("{}/../../fuzz/corpus/capture/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap();
        for (at, byte) in changes {
            let at = at.index(data.len());
            data[at] = byte;
        }
        check_capture::capture(&data[..len.index(data.len() + 1)]);
    }

    /// Filters made of words that mean something.
    #[test]
    fn any_filter_is_read_or_refused(
        text in "((not |\\(|! ?)?(src |dst |src or dst )?(host |net |port |proto |udp |ip6 |less )?(10\\.0\\.0\\.1|7|53-9|::1|tcp)?(\\)| and | or |&&|\\|\\|| )){0,9}",
    ) {
        let packet = b"\0\x45\0\0\x1c\0\0\0\0\x40\x11\0\0\x0a\0\0\x01\x0a\0\0\x02\0\x07\0\x35\0\x08\0\0";
        check_filter::filter(&[text.as_bytes(), packet].concat());
    }
}
