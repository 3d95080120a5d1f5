//! Controlled delay (RFC 8289).

use engine::{Packet, Span, Time};

use crate::config::Codel;
use crate::queue::{CODEL, Counters, mark};
use crate::store::{Chain, Store, Waiting};

/// CoDel's state for one chain of packets, named as in RFC 8289 5.3.
#[derive(Clone, Debug, Default)]
pub(crate) struct Control {
    first_above_time: Option<Time>,
    drop_next: Time,
    count: u32,
    last_count: u32,
    dropping: bool,
}

impl Control {
    /// The next packet that goes on, after those before it that must not (RFC 8289 5.6, `deque`).
    ///
    /// A marked packet stands for a dropped one and goes on itself, as in Linux; the RFC's
    /// pseudocode has no marks.
    pub(crate) fn dequeue(
        &mut self,
        now: Time,
        codel: &Codel,
        store: &mut Store,
        chain: &mut Chain,
        counters: &mut Counters,
        sink: &mut impl FnMut(engine::DropReason, Packet),
    ) -> Option<Waiting> {
        let mut next = self.pop(now, codel, store, chain);
        if self.dropping {
            while let Some((waiting, true)) = &mut next {
                if now < self.drop_next {
                    break;
                }
                self.count = self.count.saturating_add(1);
                let drop_next = control_law(self.drop_next, codel.interval, self.count);
                if codel.ecn && mark(&mut waiting.packet) {
                    counters.marked += 1;
                    self.drop_next = drop_next;
                    break;
                }
                let after = self.pop(now, codel, store, chain);
                if matches!(after, Some((_, true))) {
                    self.drop_next = drop_next;
                }
                if let Some((dropped, _)) = core::mem::replace(&mut next, after) {
                    counters.managed += 1;
                    sink(CODEL, dropped.packet);
                }
            }
            self.dropping = matches!(next, Some((_, true)));
        } else if let Some((mut waiting, true)) = next {
            next = if codel.ecn && mark(&mut waiting.packet) {
                counters.marked += 1;
                Some((waiting, true))
            } else {
                counters.managed += 1;
                sink(CODEL, waiting.packet);
                self.pop(now, codel, store, chain)
            };
            self.dropping = true;
            // If the last drop was not long ago, the rate that held the queue then is a good start.
            let delta = self.count.saturating_sub(self.last_count);
            let recent = now.since(self.drop_next) < codel.interval.times(16);
            self.count = if delta > 1 && recent { delta } else { 1 };
            self.last_count = self.count;
            self.drop_next = control_law(now, codel.interval, self.count);
        }
        next.map(|(waiting, _)| waiting)
    }

    /// The first packet and whether it may be dropped (RFC 8289 5.5, `dodequeue`).
    fn pop(&mut self, now: Time, codel: &Codel, store: &mut Store, chain: &mut Chain) -> Option<(Waiting, bool)> {
        let Some(waiting) = store.pop(chain) else {
            self.first_above_time = None;
            return None;
        };
        let below = now.since(waiting.since) < codel.target || store.bytes() <= u64::from(store.largest());
        let ok_to_drop = match self.first_above_time {
            _ if below => {
                self.first_above_time = None;
                false
            }
            None => {
                self.first_above_time = Some(now + codel.interval);
                false
            }
            Some(time) => now >= time,
        };
        Some((waiting, ok_to_drop))
    }
}

/// When the next drop comes (RFC 8289 5.4): sooner with the square root of their count.
fn control_law(after: Time, interval: Span, count: u32) -> Time {
    let nanos = interval.as_nanos() as f64 / libm::sqrt(f64::from(count));
    after + Span::from_nanos(nanos as u64)
}
