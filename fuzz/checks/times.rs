//! What must hold of every text that is read as times of packets.

/// Times count from the first and never go back; what cannot be read is refused with a line of the text.
pub(crate) fn times(text: &[u8]) {
    use traffic::times::{TimesError, read};

    let lines = text.split(|byte| *byte == b'\n').count();
    match read(text) {
        Ok(packets) => {
            assert!(packets.len() <= lines);
            assert!(packets.first().is_none_or(|first| first.time.as_nanos() == 0));
            assert!(packets.windows(2).all(|pair| pair[0].time <= pair[1].time));
        }
        Err(TimesError::NotATime { line, .. } | TimesError::Backwards { line }) => assert!((1..=lines).contains(&line)),
        Err(TimesError::TooMany) => assert!(lines > 1 << 24),
    }
}
