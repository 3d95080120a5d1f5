//! The queue itself: limits in front, a discipline behind.

use alloc::boxed::Box;

use engine::{DropReason, Packet, Random, Size, Time};
use wire::Headers;

use crate::classify::Classifier;
use crate::codel::Control;
use crate::config::{Codel, Discipline, FqCodel, Pie, QueueConfig};
use crate::fq::Flows;
use crate::pie::{Controller, Verdict};
use crate::store::{Chain, Full, Store, Waiting};

/// The queue holds as many packets as it may.
pub const FULL_PACKETS: DropReason = DropReason("queue full (packets)");
/// The queue holds so many bytes that the packet does not fit.
pub const FULL_BYTES: DropReason = DropReason("queue full (bytes)");
/// CoDel dropped it because packets waited too long.
pub const CODEL: DropReason = DropReason("codel");
/// PIE dropped it because packets waited too long.
pub const PIE: DropReason = DropReason("pie");

/// Packets that wait for the link.
///
/// A packet comes with its cost: the bytes it takes on the link, which is what byte limits and
/// quanta count. What is dropped goes to the `sink` of the call that dropped it, which may be
/// another packet than the one that came. No call allocates once the queue was as full as it gets.
///
/// ```
/// use engine::{Packet, Random, Time};
/// use queue::{Discipline, Queue, QueueConfig};
///
/// let config = QueueConfig { packets: Some(1), bytes: None, discipline: Discipline::DropTail };
/// let mut queue = Queue::new(&config, Random::stream(1, "queue"));
/// let mut dropped = Vec::new();
/// for _ in 0..2 {
///     queue.enqueue(Time::ZERO, Packet::new(vec![0; 60]), 60, |reason, _| dropped.push(reason));
/// }
/// assert_eq!(dropped, [queue::FULL_PACKETS]);
/// let (packet, cost) = queue.dequeue(Time::ZERO, |_, _| {}).expect("one waits");
/// assert_eq!((packet.len(), cost, queue.len_packets()), (60, 60, 0));
/// ```
#[derive(Debug)]
pub struct Queue {
    store: Store,
    kind: Kind,
    counters: Counters,
}

/// What a queue did, since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets dropped as [`FULL_PACKETS`].
    pub full_packets: u64,
    /// Packets dropped as [`FULL_BYTES`].
    pub full_bytes: u64,
    /// Packets dropped by the discipline ([`CODEL`] or [`PIE`]).
    pub managed: u64,
    /// Packets that carry a congestion mark instead of being dropped.
    pub marked: u64,
    /// Most packets that waited at once.
    pub most_packets: u32,
    /// Most bytes that waited at once.
    pub most_bytes: u64,
}

#[derive(Debug)]
enum Kind {
    DropTail(Chain),
    Codel(Codel, Chain, Control),
    Pie(Pie, Chain, Box<Controller>),
    FqCodel(FqCodel, Box<Flows>),
}

impl Queue {
    /// An empty queue. `random` serves PIE's drops and the key of FQ-CoDel's hash.
    #[must_use]
    pub fn new(config: &QueueConfig, mut random: Random) -> Self {
        let kind = match &config.discipline {
            Discipline::DropTail => Kind::DropTail(Chain::EMPTY),
            Discipline::Codel(codel) => Kind::Codel(codel.clone(), Chain::EMPTY, Control::default()),
            Discipline::Pie(pie) => Kind::Pie(pie.clone(), Chain::EMPTY, Box::new(Controller::new(pie, random))),
            Discipline::FqCodel(fq) => {
                Kind::FqCodel(fq.clone(), Box::new(Flows::new(fq, Classifier::new(&mut random))))
            }
        };
        Self { store: Store::new(config.packets, config.bytes), kind, counters: Counters::default() }
    }

    /// A packet of `cost` bytes arrives. It, or with FQ-CoDel packets of the flow that has most
    /// waiting, goes to `sink` if there is no room.
    pub fn enqueue(&mut self, now: Time, packet: Packet, cost: u32, mut sink: impl FnMut(DropReason, Packet)) {
        let Self { store, kind, counters } = self;
        let mut waiting = Waiting { packet, cost, since: now };
        if let Kind::FqCodel(config, flows) = kind {
            flows.enqueue(config, store, waiting);
            while let Some(full) = store.over_limit(0, 0) {
                let Some(packet) = flows.drop_fattest(store) else { break };
                counters.full(full, packet, &mut sink);
            }
        } else if let Some(full) = store.over_limit(1, cost) {
            counters.full(full, waiting.packet, sink);
        } else if let Kind::Pie(pie, _, controller) = kind
            && controller.arrive(now, pie, store.bytes(), &mut waiting.packet, counters) == Verdict::Drop
        {
            sink(PIE, waiting.packet);
        } else if let Kind::DropTail(chain) | Kind::Codel(_, chain, _) | Kind::Pie(_, chain, _) = kind {
            store.push(chain, waiting);
        }
        counters.most_packets = counters.most_packets.max(store.packets());
        counters.most_bytes = counters.most_bytes.max(store.bytes());
    }

    /// The next packet for the link, with its cost. Those that CoDel drops on the way go to `sink`.
    pub fn dequeue(&mut self, now: Time, mut sink: impl FnMut(DropReason, Packet)) -> Option<(Packet, u32)> {
        let Self { store, kind, counters } = self;
        let waiting = match kind {
            Kind::DropTail(chain) => store.pop(chain),
            Kind::Codel(codel, chain, control) => control.dequeue(now, codel, store, chain, counters, &mut sink),
            Kind::Pie(pie, chain, controller) => {
                let waiting = store.pop(chain);
                if let Some(waiting) = &waiting {
                    controller.depart(now, pie, now.since(waiting.since), store.bytes());
                }
                waiting
            }
            Kind::FqCodel(config, flows) => flows.dequeue(now, config, store, counters, &mut sink),
        };
        waiting.map(|waiting| (waiting.packet, waiting.cost))
    }

    /// Changes the limits (`None`: none of that kind). Packets that wait already stay; with
    /// FQ-CoDel the next packet to arrive brings them down to the limit.
    pub fn set_limits(&mut self, packets: Option<u32>, bytes: Option<Size>) {
        self.store.set_limits(packets, bytes);
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.store.packets() == 0
    }

    /// How many packets wait.
    #[must_use]
    pub fn len_packets(&self) -> u32 {
        self.store.packets()
    }

    /// How many bytes wait, by their cost on the link.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.store.bytes()
    }

    /// What the queue did so far.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }
}

impl Counters {
    fn full(&mut self, full: Full, packet: Packet, mut sink: impl FnMut(DropReason, Packet)) {
        match full {
            Full::Packets => {
                self.full_packets += 1;
                sink(FULL_PACKETS, packet);
            }
            Full::Bytes => {
                self.full_bytes += 1;
                sink(FULL_BYTES, packet);
            }
        }
    }
}

/// Marks congestion on a packet (RFC 3168 5); false if its transport cannot react to marks.
pub(crate) fn mark(packet: &mut Packet) -> bool {
    let headers = Headers::parse(&packet.bytes);
    wire::mark_congestion(&mut packet.bytes, &headers)
}
