//! Which stations are on this side of the line, so that what they say to each other stays there
//! (802.1D 7.8: the learning process).

use alloc::vec::Vec;

use engine::{Span, Time};

/// Ethernet addresses heard on the LAN: at most [`LIMIT`]; the one unheard for longest gives way.
#[derive(Debug, Default)]
pub(crate) struct Stations {
    heard: Vec<([u8; 6], Time)>,
}

const LIMIT: usize = 256;
/// 802.1D table 7-5: the recommended ageing time.
const AGEING: Span = Span::from_secs(300);

impl Stations {
    /// A frame from this station came from the LAN.
    pub(crate) fn heard(&mut self, now: Time, station: [u8; 6]) {
        if is_group(station) {
            return;
        }
        if let Some((_, at)) = self.heard.iter_mut().find(|(known, _)| *known == station) {
            *at = now;
        } else if self.heard.len() < LIMIT {
            self.heard.push((station, now));
        } else if let Some(oldest) = self.heard.iter_mut().min_by_key(|(_, at)| *at) {
            *oldest = (station, now);
        }
    }

    /// A frame from this station came from the line: it is not, or no longer, on the LAN.
    pub(crate) fn is_remote(&mut self, station: [u8; 6]) {
        self.heard.retain(|(known, _)| *known != station);
    }

    /// Whether a frame to this station has no business on the line.
    pub(crate) fn is_local(&self, now: Time, station: [u8; 6]) -> bool {
        self.heard.iter().any(|(known, at)| *known == station && now.since(*at) < AGEING)
    }
}

/// A multicast or broadcast address.
fn is_group(station: [u8; 6]) -> bool {
    station[0] & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stations_are_learnt_forgotten_and_bounded() {
        let mut stations = Stations::default();
        let (now, host) = (Time::from_nanos(5), [2, 0, 0, 0, 0, 1]);
        assert!(!stations.is_local(now, host));
        stations.heard(now, host);
        stations.heard(now, [0xff; 6]);
        assert!(stations.is_local(now, host) && !stations.is_local(now, [0xff; 6]));
        assert!(!stations.is_local(now + AGEING, host));
        stations.is_remote(host);
        assert!(!stations.is_local(now, host));
        for number in 0..=LIMIT as u64 {
            let [.., a, b] = number.to_be_bytes();
            stations.heard(Time::from_nanos(number), [2, 1, 1, 1, a, b]);
        }
        let now = Time::from_nanos(1000);
        assert!(!stations.is_local(now, [2, 1, 1, 1, 0, 0]) && stations.is_local(now, [2, 1, 1, 1, 0, 1]));
    }
}
