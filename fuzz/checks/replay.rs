//! What must hold for any recording whose header is good: it is replayed or refused, twice the same.

use std::path::Path;

use scenario::replay_recording;
use wire::recording::{Kind, Record, append, begin};

/// A recording of the records that `data` is taken for: a byte for the kind, one for the time since the
/// last, one for the length, and so many bytes.
pub(crate) fn replay(data: &[u8]) {
    let mut file = Vec::new();
    begin(&mut file, r#"{"config": {}, "seed": 1, "version": "x"}"#);
    let (mut rest, mut at) = (data, 0u64);
    while let [kind, gap, length, tail @ ..] = rest {
        let (bytes, behind) = tail.split_at(tail.len().min(usize::from(*length)));
        at += u64::from(*gap) * 5_000_000;
        let partial = (kind & 4 != 0).then_some((u16::from(*gap), u16::from(*length)));
        let kind = match kind % 3 {
            0 => Kind::FromLan(partial),
            1 => Kind::FromLine,
            _ => Kind::ToLine,
        };
        append(&mut file, &Record { at, kind, bytes });
        rest = behind;
    }
    append(&mut file, &Record { at, kind: Kind::End, bytes: &[] });
    let replay = || replay_recording(Path::new("r"), &file).map_err(|error| error.to_string());
    assert_eq!(replay(), replay());
}
