//! Contexts of Ethernet headers: source, destination and type together become one index.
//!
//! The sender opens an index with a control message and uses it once that is acknowledged; until
//! then the header goes with the packet. So stations and routers behind the adapters, and
//! adapters behind each other, need no configuration.

use alloc::boxed::Box;
use alloc::vec::Vec;

use engine::{Span, Time};
use wire::ETHERNET_LEN;

/// An Ethernet header without tags.
pub(crate) type Header = [u8; ETHERNET_LEN];

/// How many indices there are.
pub(crate) const PAIRS: u8 = 63;
/// In an index's place: the header follows.
pub(crate) const EXPLICIT: u8 = 63;

/// The sender's contexts.
#[derive(Debug)]
pub(crate) struct SendPairs {
    entries: Vec<Entry>,
    retry: Span,
}

#[derive(Debug)]
struct Entry {
    header: Header,
    /// Tells the answers to this opening of the index from those to earlier ones.
    generation: u8,
    state: State,
    used: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// One packet had it, which many do that come once.
    Seen,
    /// To be opened (again) at this time.
    Opening(Time),
    Open,
}

/// An opening to be sent.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) index: u8,
    pub(crate) generation: u8,
    pub(crate) header: Header,
}

/// An index that was in use a moment ago is not given to another header.
const RECENT: Span = Span::from_secs(1);
/// A header that had no packet for so long is not opened any more.
const UNUSED: Span = Span::from_secs(10);

impl SendPairs {
    /// `retry` is the time after which an opening without an answer is sent again.
    pub(crate) fn new(retry: Span) -> Self {
        Self { entries: Vec::with_capacity(usize::from(PAIRS)), retry }
    }

    /// Forgets all headers.
    pub(crate) fn reset(&mut self) {
        self.entries.clear();
    }

    /// The index for a header, if it may be used already.
    pub(crate) fn index(&mut self, now: Time, header: &Header) -> Option<u8> {
        if let Some(index) = self.entries.iter().position(|entry| entry.header == *header) {
            let entry = &mut self.entries[index];
            entry.used = now;
            match entry.state {
                State::Open => return Some(index as u8),
                State::Seen => entry.state = State::Opening(now),
                State::Opening(_) => {}
            }
            return None;
        }
        let entry = Entry { header: *header, generation: 0, state: State::Seen, used: now };
        if self.entries.len() < usize::from(PAIRS) {
            self.entries.push(entry);
        } else if let Some(oldest) = self.entries.iter_mut().min_by_key(|entry| entry.used)
            && now.since(oldest.used) >= RECENT
        {
            *oldest = Entry { generation: oldest.generation.wrapping_add(1), ..entry };
        }
        None
    }

    /// Whether an opening is to be sent.
    pub(crate) fn is_due(&self, now: Time) -> bool {
        self.deadline().is_some_and(|at| at <= now)
    }

    /// When the next opening is to be sent.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let openings = self.entries.iter().filter_map(|entry| match entry.state {
            State::Opening(at) => Some(at),
            State::Seen | State::Open => None,
        });
        openings.min()
    }

    /// The next opening that is due, which counts as sent.
    pub(crate) fn opening(&mut self, now: Time) -> Option<Opening> {
        for (index, entry) in self.entries.iter_mut().enumerate() {
            if !matches!(entry.state, State::Opening(at) if at <= now) {
                continue;
            }
            if now.since(entry.used) > UNUSED {
                entry.state = State::Seen;
                continue;
            }
            entry.state = State::Opening(now + self.retry);
            return Some(Opening { index: index as u8, generation: entry.generation, header: entry.header });
        }
        None
    }

    /// The peer knows the index now.
    pub(crate) fn acknowledged(&mut self, index: u8, generation: u8) {
        if let Some(entry) = self.entries.get_mut(usize::from(index))
            && entry.generation == generation
            && entry.state != State::Seen
        {
            entry.state = State::Open;
        }
    }

    /// The peer does not know the index.
    pub(crate) fn unknown(&mut self, now: Time, index: u8) {
        if let Some(entry) = self.entries.get_mut(usize::from(index))
            && entry.state == State::Open
        {
            entry.state = State::Opening(now);
        }
    }
}

/// The receiver's contexts, and the answers it owes.
#[derive(Debug)]
pub(crate) struct ReceivePairs {
    headers: Box<[Option<Header>; PAIRS as usize]>,
    /// Generations to acknowledge, by index.
    owed: Box<[Option<u8>; PAIRS as usize]>,
    /// Set of indices to report as unknown.
    unknown: u64,
}

impl Default for ReceivePairs {
    fn default() -> Self {
        Self { headers: Box::new([None; PAIRS as usize]), owed: Box::new([None; PAIRS as usize]), unknown: 0 }
    }
}

impl ReceivePairs {
    pub(crate) fn open(&mut self, index: u8, generation: u8, header: Header) {
        let at = usize::from(index);
        if let (Some(place), Some(owed)) = (self.headers.get_mut(at), self.owed.get_mut(at)) {
            (*place, *owed) = (Some(header), Some(generation));
        }
    }

    /// The header of an index. If there is none, the peer will be told.
    pub(crate) fn header(&mut self, index: u8) -> Option<Header> {
        let header = self.headers.get(usize::from(index)).copied().flatten();
        if header.is_none() && index < PAIRS {
            self.unknown |= 1 << index;
        }
        header
    }

    /// Whether answers are owed.
    pub(crate) fn owes(&self) -> bool {
        self.unknown != 0 || self.owed.iter().any(Option::is_some)
    }

    /// The next acknowledgement: index and generation.
    pub(crate) fn acknowledgement(&mut self) -> Option<(u8, u8)> {
        let index = self.owed.iter().position(Option::is_some)?;
        Some((index as u8, self.owed[index].take()?))
    }

    /// The next index to report as unknown.
    pub(crate) fn report(&mut self) -> Option<u8> {
        let index = self.unknown.trailing_zeros() as u8;
        self.unknown &= self.unknown.wrapping_sub(1);
        (index < PAIRS).then_some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(number: u8) -> Header {
        let mut header = [0; ETHERNET_LEN];
        header[5] = number;
        header
    }

    #[test]
    fn an_index_is_used_once_it_is_acknowledged() {
        let (mut sender, mut receiver) = (SendPairs::new(Span::from_secs(1)), ReceivePairs::default());
        let now = Time::ZERO;
        assert_eq!((sender.index(now, &header(1)), sender.is_due(now)), (None, false));
        assert_eq!((sender.index(now, &header(1)), sender.is_due(now)), (None, true));
        let opening = sender.opening(now).unwrap();
        assert!(!sender.is_due(now) && sender.is_due(now + Span::from_secs(1)));
        receiver.open(opening.index, opening.generation, opening.header);
        let (index, generation) = receiver.acknowledgement().unwrap();
        assert!(!receiver.owes());
        sender.acknowledged(index, generation.wrapping_add(1));
        assert_eq!(sender.index(now, &header(1)), None);
        sender.acknowledged(index, generation);
        assert_eq!(sender.index(now, &header(1)), Some(index));
        assert_eq!(receiver.header(index), Some(header(1)));
        assert_eq!((receiver.header(9), receiver.report(), receiver.report()), (None, Some(9), None));
        sender.unknown(now, index);
        assert_eq!((sender.index(now, &header(1)), sender.is_due(now)), (None, true));
    }

    #[test]
    fn the_table_is_bounded_and_old_answers_do_not_count() {
        let mut sender = SendPairs::new(Span::from_secs(1));
        for number in 0..100 {
            sender.index(Time::ZERO, &header(number));
            sender.index(Time::ZERO, &header(number));
        }
        assert_eq!(sender.entries.len(), usize::from(PAIRS));
        let now = Time::ZERO + RECENT;
        sender.index(now, &header(200));
        sender.index(now, &header(200));
        let opening =
            core::iter::from_fn(|| sender.opening(now)).find(|opening| opening.header == header(200)).unwrap();
        sender.acknowledged(opening.index, opening.generation.wrapping_sub(1));
        assert_eq!(sender.index(now, &header(200)), None);
        sender.acknowledged(opening.index, opening.generation);
        assert_eq!(sender.index(now, &header(200)), Some(opening.index));
    }
}
