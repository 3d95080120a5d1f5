//! A playout buffer, and what a listener would make of a voice flow.

use alloc::vec::Vec;

use engine::Span;

use crate::application::Passage;
use crate::rating::{Connection, Impairment, burst_ratio, rating};

/// What a voice flow is at the listener's ear.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Heard {
    /// Packets that arrived whole but too late to be played.
    pub late: u64,
    /// Share of packets that were not played: lost, damaged or late.
    pub missing: f64,
    /// BurstR of those (G.107).
    pub burst_ratio: f64,
    /// Mean time from sending to playing.
    pub playout: Span,
    /// The E-model's R.
    pub rating: f64,
}

/// Who talks without a pause is heard in stretches of this length, each with a playout time of its own.
const STRETCH: Span = Span::from_secs(10);

/// Plays a flow's packets through a buffer of a fixed depth, and rates the result.
///
/// The first packet of a talk spurt to arrive is played `depth` after that, every other as long
/// after it was sent as that one; what comes later is not played. A spurt of over 10 s has no pause in which
/// to adapt, and its first packet may have been a slow one: every 10 s the time is set anew, `depth` above the least
/// delay of the 10 s before. Mouth to ear is the speech in a
/// packet (`packet`), the way and the buffer; the coder's look-ahead and processing are not counted.
/// `None` if no packet was played.
#[must_use]
pub fn listen(passages: &[Passage], depth: Span, packet: Span, codec: Impairment) -> Option<Heard> {
    let (mut late, mut played, mut waited) = (0_u64, 0_u64, 0_u128);
    let mut missing: Vec<bool> = Vec::with_capacity(passages.len());
    let starts = |index: usize| index == 0 || passages[index].sent.first;
    let mut begin = 0;
    while begin < passages.len() {
        let end = (begin + 1..passages.len()).find(|&index| starts(index)).unwrap_or(passages.len());
        let spurt = &passages[begin..end];
        let heard = |p: &&Passage| p.intact && p.arrived.is_some();
        let first = spurt.iter().filter(heard).min_by_key(|p| p.arrived);
        let mut limit = first.and_then(Passage::delay).map(|delay| delay + depth);
        let (mut since, mut least) = (spurt[0].sent.at, None::<Span>);
        for passage in spurt {
            if passage.sent.at.since(since) >= STRETCH {
                limit = least.map(|least| least + depth).or(limit);
                (since, least) = (passage.sent.at, None);
            }
            if let Some(delay) = Some(passage).filter(heard).and_then(Passage::delay) {
                least = Some(least.map_or(delay, |least| least.min(delay)));
            }
            let in_time = passage.delay().filter(|_| passage.intact).zip(limit).map(|(delay, limit)| delay <= limit);
            late += u64::from(in_time == Some(false));
            if let (Some(true), Some(limit)) = (in_time, limit) {
                played += 1;
                waited += u128::from(limit.as_nanos());
            }
            missing.push(in_time != Some(true));
        }
        begin = end;
    }
    if played == 0 {
        return None;
    }
    let playout = Span::from_nanos(u64::try_from(waited / u128::from(played)).unwrap_or(u64::MAX));
    let loss = missing.iter().filter(|missing| **missing).count() as f64 / missing.len() as f64;
    let burst_ratio = burst_ratio(missing.iter().copied());
    let delay_ms = (playout + packet).as_secs_f64() * 1e3;
    let rating = rating(&Connection { delay_ms, loss, burst_ratio }, codec);
    Some(Heard { late, missing: loss, burst_ratio, playout, rating })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::application::Sent;
    use engine::Time;

    const G711: Impairment = Impairment { ie: 0.0, bpl: 4.3 };

    /// Packets every 20 ms with these delays in ms; `None` is lost.
    fn flow(delays: &[Option<u64>], firsts: &[usize]) -> Vec<Passage> {
        let passage = |(number, delay): (usize, &Option<u64>)| {
            let at = Time::ZERO + Span::from_millis(number as u64 * 20);
            Passage {
                number: number as u64,
                sent: Sent { at, bytes: 33, first: firsts.contains(&number) },
                arrived: delay.map(|delay| at + Span::from_millis(delay)),
                copies: 0,
                reordered: false,
                intact: true,
            }
        };
        delays.iter().enumerate().map(passage).collect()
    }

    #[test]
    fn what_comes_after_its_turn_is_not_played() {
        let passages = flow(&[Some(30), Some(90), Some(91), None, Some(10)], &[0]);
        let heard = listen(&passages, Span::from_millis(60), Span::from_millis(20), G711).unwrap();
        assert_eq!((heard.late, heard.playout), (1, Span::from_millis(90)));
        assert!((heard.missing - 0.4).abs() < 1e-12);
        // Two in a row, where chance gives 1 / 0.6.
        assert!((heard.burst_ratio - 1.2).abs() < 1e-12);
    }

    #[test]
    fn each_spurt_sets_its_own_time() {
        let delays = [Some(30), Some(30), Some(200), Some(210)];
        assert_eq!(listen(&flow(&delays, &[0, 2]), Span::from_millis(60), Span::ZERO, G711).unwrap().late, 0);
        assert_eq!(listen(&flow(&delays, &[0]), Span::from_millis(60), Span::ZERO, G711).unwrap().late, 2);
        assert_eq!(listen(&flow(&[None, None], &[0]), Span::ZERO, Span::ZERO, G711), None);
    }

    #[test]
    fn a_long_spurt_does_not_hang_on_its_first_packet() {
        // 60 s, of which the first packet was slow, or fast; 20 ms a packet.
        let delays = |first| [Some(first)].into_iter().chain((1..3_000).map(|n| Some(50 + n % 5))).collect::<Vec<_>>();
        let heard = |first| listen(&flow(&delays(first), &[0]), Span::from_millis(60), Span::ZERO, G711).unwrap();
        let (slow, fast) = (heard(400), heard(1));
        // The slow one itself; after the fast one 61 ms are enough for ten seconds, then both are alike.
        assert_eq!((slow.late, fast.late), (1, 0));
        assert!((slow.rating - fast.rating).abs() < 3.0, "{slow:?} {fast:?}");
        // A first packet that is too fast spoils the ten seconds it is in and those after, not all.
        let early = listen(&flow(&delays(1), &[0]), Span::from_millis(20), Span::ZERO, G711).unwrap();
        assert_eq!(early.late, 999);
    }
}
