//! Requests that wait for their answer, and answers that may have to be given again (TS 29.244 6.4).

use alloc::collections::{BTreeMap, VecDeque};

use engine::{Span, Time};
use wire::pfcp::MAX_SEQUENCE;

use super::SessionId;
use super::Vec;
use super::session::Change;

/// What a request was sent for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Purpose {
    Heartbeat,
    Associate,
    Update,
    Release,
    Session(SessionId, Task),
}

/// What is to be done with a session.
#[derive(Clone, Copy, Debug)]
pub(super) enum Task {
    Establish,
    Modify(Change),
    Delete,
}

/// A request on its way.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) purpose: Purpose,
    pub(super) first_sent: Time,
    /// How often it was sent.
    pub(super) requests: u32,
    bytes: Vec<u8>,
}

/// Requests on their way, by sequence number.
#[derive(Debug)]
pub(super) struct Requests {
    pending: BTreeMap<u32, Pending>,
    /// When to send again, in order of time, as all wait equally long. What was answered meanwhile is skipped.
    timers: VecDeque<(Time, u32)>,
    next: u32,
    t1: Span,
    sessions: usize,
}

/// What is to be done with a request whose time is over.
pub(super) enum Overdue {
    Again(Vec<u8>),
    GiveUp(Pending),
}

impl Requests {
    pub(super) fn new(first: u32, t1: Span) -> Self {
        let (pending, timers) = (BTreeMap::new(), VecDeque::new());
        Self { pending, timers, next: first & MAX_SEQUENCE, t1, sessions: 0 }
    }

    /// A sequence number that no request on its way has.
    pub(super) fn sequence(&mut self) -> u32 {
        loop {
            let sequence = self.next;
            self.next = (sequence + 1) & MAX_SEQUENCE;
            if !self.pending.contains_key(&sequence) {
                return sequence;
            }
        }
    }

    pub(super) fn sent(&mut self, now: Time, sequence: u32, purpose: Purpose, bytes: Vec<u8>) {
        self.sessions += usize::from(matches!(purpose, Purpose::Session(..)));
        self.pending.insert(sequence, Pending { purpose, first_sent: now, requests: 1, bytes });
        self.timers.push_back((now + self.t1, sequence));
    }

    /// How many are about sessions: these the window holds.
    pub(super) fn sessions(&self) -> usize {
        self.sessions
    }

    pub(super) fn find(&self, sequence: u32) -> Option<&Purpose> {
        self.pending.get(&sequence).map(|pending| &pending.purpose)
    }

    pub(super) fn any(&self, wanted: impl Fn(&Purpose) -> bool) -> bool {
        self.pending.values().any(|pending| wanted(&pending.purpose))
    }

    /// The answer came.
    pub(super) fn take(&mut self, sequence: u32) -> Option<Pending> {
        let pending = self.pending.remove(&sequence)?;
        self.sessions -= usize::from(matches!(pending.purpose, Purpose::Session(..)));
        self.skip_answered();
        Some(pending)
    }

    /// What all were sent for that are on their way, in order of their numbers; none is any more.
    pub(super) fn take_all(&mut self) -> Vec<Purpose> {
        let all = core::mem::take(&mut self.pending);
        self.forget();
        all.into_values().map(|pending| pending.purpose).collect()
    }

    /// None is on its way any more.
    pub(super) fn forget(&mut self) {
        self.pending.clear();
        self.timers.clear();
        self.sessions = 0;
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        self.timers.front().map(|(time, _)| *time)
    }

    /// The next request whose time is over. It is sent again until it was sent `most` times.
    pub(super) fn overdue(&mut self, now: Time, most: impl Fn(&Purpose) -> u32) -> Option<Overdue> {
        let &(_, sequence) = self.timers.front().filter(|(time, _)| *time <= now)?;
        self.timers.pop_front();
        let pending = self.pending.get_mut(&sequence)?;
        if pending.requests >= most(&pending.purpose) {
            return self.take(sequence).map(Overdue::GiveUp);
        }
        pending.requests += 1;
        let bytes = pending.bytes.clone();
        self.timers.push_back((now + self.t1, sequence));
        self.skip_answered();
        Some(Overdue::Again(bytes))
    }

    /// Keeps the earliest timer one that counts.
    fn skip_answered(&mut self) {
        while self.timers.front().is_some_and(|(_, sequence)| !self.pending.contains_key(sequence)) {
            self.timers.pop_front();
        }
    }
}

/// The last requests of the peer with our answers: one that comes again is answered as before, and does nothing.
#[derive(Debug, Default)]
pub(super) struct Answers(VecDeque<(Vec<u8>, Vec<u8>)>);

impl Answers {
    /// As many as a peer may have on its way at a time, with room.
    const KEPT: usize = 256;

    pub(super) fn again(&self, request: &[u8]) -> Option<&[u8]> {
        self.0.iter().find(|(known, _)| known == request).map(|(_, answer)| &answer[..])
    }

    pub(super) fn keep(&mut self, request: &[u8], answer: &[u8]) {
        if self.0.len() == Self::KEPT {
            self.0.pop_front();
        }
        self.0.push_back((request.into(), answer.into()));
    }

    pub(super) fn forget(&mut self) {
        self.0.clear();
    }
}
