//! What must hold for any file that is read as a recording: it ends, nothing lies outside of it, and
//! what is good is written again as it was.

use wire::recording::{Kind, Problem, append, begin, read};

/// `data` as a recording.
pub(crate) fn recording(data: &[u8]) {
    let Ok((about, records)) = read(data) else { return };
    let mut again = Vec::new();
    begin(&mut again, &about);
    // Two bytes of the header are not looked at.
    assert_eq!(again[..10], data[..10]);
    let mut good = again.len();
    let (mut before, mut over) = (0, false);
    for record in records {
        assert!(!over, "something comes after the end");
        match record {
            Ok(record) => {
                assert!(record.at >= before);
                before = record.at;
                over = record.kind == Kind::End;
                append(&mut again, &record);
                assert_eq!(again[good..], data[good..again.len()]);
                good = again.len();
            }
            Err(Problem::Cut(at) | Problem::Record { at, .. }) => {
                assert!(at >= good.saturating_sub(20) && at <= data.len());
                over = true;
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert!(over);
}
