//! How fast packets are put on the link.

use alloc::vec::Vec;

use engine::{DropReason, Packet, Rate, Time};
use queue::Queue;

use crate::config::{Opportunities, RateModel};
use crate::counters::OVERSIZED;

/// Takes packets from a queue one by one and says when each has been sent.
#[derive(Debug)]
pub(crate) struct Transmitter {
    server: Server,
    /// The packet that is being sent. With all servers but [`Server::Opportunities`] there is one
    /// whenever the queue is not empty.
    current: Option<Sending>,
}

#[derive(Debug)]
struct Sending {
    packet: Packet,
    /// Bytes that are to be sent yet, of those that count on the link.
    left: u32,
    /// When the last of them is sent; not known with [`Server::Opportunities`].
    ends: Time,
}

#[derive(Debug)]
enum Server {
    Unlimited,
    Constant { rate: Rate, carry: u64 },
    Bucket(Bucket),
    Opportunities(Trace),
}

/// A token bucket. Tokens are counted in bits times 10^9, so that they fill by whole numbers every
/// nanosecond.
#[derive(Debug)]
struct Bucket {
    rate: Rate,
    depth: u128,
    level: u128,
    /// When the level was right.
    filled: Time,
}

/// Delivery opportunities and which of them comes next.
#[derive(Debug)]
struct Trace {
    at_ms: Vec<u64>,
    /// When the trace began last.
    start_ms: u64,
    next: usize,
    /// When the last opportunity was, and how many of its bytes are left.
    opened: Time,
    unused: u32,
}

impl Transmitter {
    pub(crate) fn new(model: Option<&RateModel>, now: Time) -> Self {
        Self { server: Server::new(model, now), current: None }
    }

    /// A packet arrives: it is sent at once if nothing is before it, else it waits in the queue.
    /// What is due by `now` must have been asked for by [`next`](Self::next).
    pub(crate) fn accept(
        &mut self,
        now: Time,
        packet: Packet,
        cost: u32,
        queue: &mut Queue,
        mut sink: impl FnMut(DropReason, Packet),
    ) {
        let idle = self.current.is_none() && queue.is_empty();
        if idle {
            self.server.idle_until(now);
        }
        if self.server.never_takes(cost) {
            sink(OVERSIZED, packet);
        } else if idle && !matches!(self.server, Server::Opportunities(_)) {
            self.begin(now, packet, cost);
        } else {
            queue.enqueue(now, packet, cost, sink);
        }
    }

    /// The next packet that has been sent by `now`, and when. Packets that the queue drops as it
    /// hands them out go to `sink`.
    pub(crate) fn next(
        &mut self,
        now: Time,
        queue: &mut Queue,
        sink: impl FnMut(DropReason, Packet),
    ) -> Option<(Time, Packet)> {
        if let Server::Opportunities(trace) = &mut self.server {
            return trace.next(now, &mut self.current, queue, sink);
        }
        if self.current.as_ref().is_none_or(|sending| sending.ends > now) {
            return None;
        }
        let Sending { packet, left, ends } = self.current.take()?;
        self.server.sent(left, ends);
        self.begin_next(ends, None, queue, sink);
        Some((ends, packet))
    }

    /// When something is sent next.
    pub(crate) fn deadline(&self, queue: &Queue) -> Option<Time> {
        match &self.server {
            Server::Opportunities(trace) if self.current.is_some() || !queue.is_empty() => Some(trace.time()),
            Server::Opportunities(_) => None,
            _ => self.current.as_ref().map(|sending| sending.ends),
        }
    }

    /// Whether packets pass without being held.
    pub(crate) fn is_unlimited(&self) -> bool {
        matches!(self.server, Server::Unlimited) && self.current.is_none()
    }

    /// Goes over to another rate. What is left of the packet that is being sent is sent at the new
    /// one. What is due by `now` must have been asked for by [`next`](Self::next).
    pub(crate) fn set(
        &mut self,
        now: Time,
        model: Option<&RateModel>,
        queue: &mut Queue,
        sink: impl FnMut(DropReason, Packet),
    ) {
        let mut current = self.current.take();
        if let (Server::Constant { rate, .. }, Some(sending)) = (&self.server, &mut current) {
            let bits = u128::from(sending.ends.since(now).as_nanos()) * u128::from(rate.bits_per_second());
            let left = u32::try_from(bits.div_ceil(8_000_000_000)).unwrap_or(u32::MAX);
            sending.left = sending.left.min(left);
        }
        self.server = Server::new(model, now);
        self.begin_next(now, current.map(|sending| (sending.packet, sending.left)), queue, sink);
    }

    /// Begins to send `first`, or else what the queue gives.
    fn begin_next(
        &mut self,
        now: Time,
        first: Option<(Packet, u32)>,
        queue: &mut Queue,
        mut sink: impl FnMut(DropReason, Packet),
    ) {
        let mut next = first;
        while let Some((packet, cost)) = next.or_else(|| queue.dequeue(now, &mut sink)) {
            if !self.server.never_takes(cost) {
                return self.begin(now, packet, cost);
            }
            sink(OVERSIZED, packet);
            next = None;
        }
    }

    fn begin(&mut self, now: Time, packet: Packet, left: u32) {
        self.current = Some(Sending { packet, left, ends: self.server.end_of(left, now) });
    }
}

impl Server {
    fn new(model: Option<&RateModel>, now: Time) -> Self {
        match model {
            None => Self::Unlimited,
            Some(RateModel::Constant(rate)) => Self::Constant { rate: *rate, carry: 0 },
            Some(RateModel::TokenBucket { rate, burst }) => {
                let depth = tokens(burst.bytes());
                Self::Bucket(Bucket { rate: *rate, depth, level: depth, filled: now })
            }
            Some(RateModel::Opportunities(trace)) => {
                let at_ms = trace.at_ms.clone();
                let mut trace = Trace { at_ms, start_ms: 0, next: 0, opened: now, unused: 0 };
                trace.skip_to(now);
                Self::Opportunities(trace)
            }
        }
    }

    /// Whether a packet of this cost would wait for ever.
    fn never_takes(&self, cost: u32) -> bool {
        matches!(self, Self::Bucket(bucket) if tokens(u64::from(cost)) > bucket.depth)
    }

    /// Nothing was sent until `now`.
    fn idle_until(&mut self, now: Time) {
        match self {
            Self::Constant { carry, .. } => *carry = 0,
            Self::Bucket(bucket) => bucket.fill(now),
            Self::Opportunities(trace) => trace.skip_to(now),
            Self::Unlimited => {}
        }
    }

    /// When `left` bytes that begin at `now` have been sent.
    fn end_of(&mut self, left: u32, now: Time) -> Time {
        match self {
            Self::Unlimited | Self::Opportunities(_) => now,
            Self::Constant { rate, carry } => now + rate.time_for(u64::from(left), carry),
            Self::Bucket(bucket) => bucket.ready(left),
        }
    }

    /// A packet of `cost` bytes has been sent at `at`.
    fn sent(&mut self, cost: u32, at: Time) {
        if let Self::Bucket(bucket) = self {
            bucket.fill(at);
            bucket.level = bucket.level.saturating_sub(tokens(u64::from(cost)));
        }
    }
}

impl Bucket {
    fn fill(&mut self, now: Time) {
        let filled = u128::from(self.rate.bits_per_second()) * u128::from(now.since(self.filled).as_nanos());
        self.level = self.depth.min(self.level + filled);
        self.filled = self.filled.max(now);
    }

    /// When there are tokens for `cost` bytes.
    fn ready(&self, cost: u32) -> Time {
        let missing = tokens(u64::from(cost)).saturating_sub(self.level);
        let nanos = missing.div_ceil(u128::from(self.rate.bits_per_second()));
        self.filled + engine::Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

fn tokens(bytes: u64) -> u128 {
    u128::from(bytes) * 8_000_000_000
}

impl Trace {
    /// When the next opportunity comes.
    fn time(&self) -> Time {
        let at = self.at_ms.get(self.next).copied().unwrap_or_default();
        Time::from_nanos(self.start_ms.saturating_add(at).saturating_mul(1_000_000))
    }

    /// Goes on to the first opportunity after `now`.
    fn skip_to(&mut self, now: Time) {
        if self.time() > now {
            return;
        }
        let length = self.at_ms.last().copied().unwrap_or_default().max(1);
        let now = now.as_nanos() / 1_000_000;
        let passed = now % length;
        self.start_ms = now - passed;
        self.next = self.at_ms.partition_point(|at| *at <= passed);
    }

    /// Uses the opportunities up to `now`, until a packet is through. The rest of that opportunity
    /// is for the next call, and lost if there is nothing to send then.
    fn next(
        &mut self,
        now: Time,
        current: &mut Option<Sending>,
        queue: &mut Queue,
        mut sink: impl FnMut(DropReason, Packet),
    ) -> Option<(Time, Packet)> {
        loop {
            while self.unused > 0 {
                let ends = self.opened;
                let next = current
                    .take()
                    .or_else(|| queue.dequeue(ends, &mut sink).map(|(packet, left)| Sending { packet, left, ends }));
                let Some(mut sending) = next else {
                    self.unused = 0;
                    break;
                };
                let used = self.unused.min(sending.left);
                self.unused -= used;
                sending.left -= used;
                if sending.left == 0 {
                    return Some((ends, sending.packet));
                }
                *current = Some(sending);
            }
            if self.time() > now || (current.is_none() && queue.is_empty()) {
                return None;
            }
            self.opened = self.time();
            self.unused = Opportunities::BYTES;
            self.next += 1;
            if self.next == self.at_ms.len() {
                self.start_ms += self.at_ms.last().copied().unwrap_or_default();
                self.next = 0;
            }
        }
    }
}

impl Opportunities {
    /// Bytes of an opportunity, as mahimahi has them.
    pub const BYTES: u32 = 1_504;
}
