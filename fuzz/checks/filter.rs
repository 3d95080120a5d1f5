//! What must hold for any filter: it is read or refused with a place in it, and packets match it or not.

use traffic::replay::Filter;

/// `data` as a filter and, after a zero, a packet.
pub(crate) fn filter(data: &[u8]) {
    let (text, packet) = data.split_at(data.iter().position(|&byte| byte == 0).unwrap_or(data.len()));
    let text = String::from_utf8_lossy(text);
    match Filter::parse(&text) {
        Ok(filter) => {
            let packet = packet.get(1..).unwrap_or(&[]);
            let is_match = filter.matches(packet, packet.len() as u32);
            let ip = packet.first().is_some_and(|first| matches!(first >> 4, 4 | 6));
            assert!(ip || !is_match);
        }
        Err(error) => assert!((1..=text.chars().count() + 1).contains(&error.column), "{error}"),
    }
}
