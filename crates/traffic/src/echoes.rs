//! Echo requests that were sent: what a reply's sequence number tells.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::Range;

use engine::{Span, Time};

use crate::Probe;

/// Requests whose replies are still known: half of what a sequence number of 16 bits tells apart.
const KEPT: usize = 1 << 15;
/// Requests that are kept one by one.
const SINGLE: usize = 2_000;

/// The requests of a ping, so that a reply needs to bring back nothing but its sequence number: pings
/// may be as small as there are.
#[derive(Clone, Debug)]
pub struct Echoes {
    /// When the last requests were sent, oldest first.
    sent: VecDeque<Time>,
    /// Number of the next request.
    next: u64,
    /// Requests sent then are kept one by one.
    window: Range<Time>,
    single: Vec<EchoPassage>,
}

/// A request and what became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EchoPassage {
    /// Its number, from 0.
    pub number: u64,
    /// When it was sent.
    pub sent: Time,
    /// Time to its first reply.
    pub trip: Option<Span>,
}

impl Echoes {
    /// No request yet. Of those sent within `window` the first 2,000 are kept one by one.
    #[must_use]
    pub fn new(window: Range<Time>) -> Self {
        Self { sent: VecDeque::new(), next: 0, window, single: Vec::new() }
    }

    /// A request goes out: the sequence number it has.
    pub fn send(&mut self, now: Time) -> u16 {
        if self.sent.len() == KEPT {
            self.sent.pop_front();
        }
        self.sent.push_back(now);
        if self.window.contains(&now) && self.single.len() < SINGLE {
            self.single.push(EchoPassage { number: self.next, sent: now, trip: None });
        }
        self.next += 1;
        (self.next - 1) as u16
    }

    /// A reply came at `now`: to which request, if that is known any more.
    pub fn reply(&mut self, now: Time, sequence: u16) -> Option<Probe> {
        let last = self.next.checked_sub(1)?;
        let back = usize::from((last as u16).wrapping_sub(sequence));
        let sent = *self.sent.get(self.sent.len().checked_sub(back + 1)?)?;
        let number = last - back as u64;
        let first = self.single.first().map_or(u64::MAX, |first| first.number);
        let index = number.checked_sub(first).and_then(|index| usize::try_from(index).ok());
        if let Some(single) = index.and_then(|index| self.single.get_mut(index)) {
            single.trip.get_or_insert(now.since(sent));
        }
        Some(Probe { flow: 0, number, sent })
    }

    /// The requests that were kept one by one.
    #[must_use]
    pub fn single(&self) -> &[EchoPassage] {
        &self.single
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_millis(ms)
    }

    #[test]
    fn a_reply_finds_its_request_however_many_there_were() {
        let mut echoes = Echoes::new(at(5)..at(1_000_000));
        assert_eq!(echoes.reply(at(0), 0), None);
        for number in 0..100_000 {
            assert_eq!(echoes.send(at(number)), number as u16);
        }
        let probe = |number| Some(Probe { flow: 0, number, sent: at(number) });
        assert_eq!(echoes.reply(at(100_000), 99_999_u64 as u16), probe(99_999));
        assert_eq!(echoes.reply(at(100_000), 70_000_u64 as u16), probe(70_000));
        // That of one too old may be anything: it is nothing.
        assert_eq!(echoes.reply(at(100_000), 60_000), None);
        assert!(echoes.single().iter().map(|echo| echo.number).eq(5..5 + SINGLE as u64));
    }

    #[test]
    fn the_first_reply_counts() {
        let mut echoes = Echoes::new(at(0)..at(10));
        let sequence = echoes.send(at(1));
        echoes.send(at(2));
        echoes.reply(at(31), sequence);
        echoes.reply(at(40), sequence);
        let trips: Vec<_> = echoes.single().iter().map(|echo| echo.trip).collect();
        assert_eq!(trips, [Some(Span::from_millis(30)), None]);
    }
}
