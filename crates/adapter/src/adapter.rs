//! The element: what comes from the LAN, what time does, and where the parts are.

use alloc::collections::VecDeque;
use alloc::format;
use alloc::vec::Vec;

use engine::{Checksum, DropReason, Element, Event, Output, Packet, Port, Random, Span, Time};
use queue::Queue;
use wire::{ETHERNET_LEN, Headers, ethertype};

use crate::cache::{CacheKind, FromLan, ReplyCache};
use crate::class::{Class, Priority};
use crate::clock::Clock;
use crate::codec::Codec;
use crate::config::{AdapterConfig, ConfigError, Schedule};
use crate::counters::{Counters, ETHERTYPE, LINE_DOWN, MALFORMED, REFUSED, SUPER_FRAME, TOO_LARGE, VLAN};
use crate::flows::{FlowKey, Flows, Verdict};
use crate::fragment::Outgoing;
use crate::frame::OVERHEAD;
use crate::pairs::SendPairs;
use crate::receive::Receiver;
use crate::refuse;
use crate::session::{Agreed, Session};
use crate::stations::Stations;
use crate::transmit::Line;

/// The LAN: Ethernet frames.
pub const LAN: Port = 0;
/// The line: runs of characters.
pub const LINE: Port = 1;

/// One of two adapters at the ends of a line: Ethernet frames on port [`LAN`], runs of characters
/// on port [`LINE`]. See the [crate's documentation](crate).
///
/// A packet from the LAN comes back as the last frame that it is sent in. A packet on the line holds one
/// frame, and leaves when the adapter's own clock says that the line is free.
#[derive(Debug)]
pub struct Adapter {
    pub(crate) config: AdapterConfig,
    pub(crate) clock: Clock,
    pub(crate) session: Session,
    pub(crate) agreed: Option<Agreed>,
    pub(crate) codec: Codec,
    pub(crate) pairs: SendPairs,
    pub(crate) flows: Flows,
    pub(crate) stations: Stations,
    pub(crate) cache: ReplyCache,
    /// Real-time datagrams; with the schedule `fifo` all packets, in order.
    pub(crate) in_order: VecDeque<Waiting>,
    pub(crate) in_order_bytes: u64,
    /// Data, by priority.
    pub(crate) queues: [Queue; Priority::COUNT],
    pub(crate) outgoing: [Outgoing; Priority::COUNT],
    pub(crate) line: Line,
    pub(crate) receiver: Receiver,
    /// What arrived before this is stale.
    pub(crate) fresh_since: Time,
    pub(crate) counters: Counters,
    pub(crate) outputs: VecDeque<Output>,
    /// Buffers to be used again.
    pub(crate) spare: Vec<Vec<u8>>,
    pub(crate) now: Time,
}

/// A packet that waits in order of arrival.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) packet: Packet,
    pub(crate) class: Class,
    pub(crate) key: Option<FlowKey>,
    /// How long the line was busy when it came.
    pub(crate) busy: Span,
    /// Time that real-time frames had taken of the line by then.
    pub(crate) real_time: Span,
}

/// Buffers that are kept.
const SPARE: usize = 32;
/// Bytes a buffer is made with: an Ethernet frame does not let it grow.
const BUFFER: usize = 1_536;

impl Adapter {
    /// An adapter that has not met its peer yet. `name` names its random streams: the instance by which
    /// the peer knows a restart, and the keys of hashes.
    ///
    /// # Errors
    ///
    /// The configuration cannot be: see [`AdapterConfig::validate`].
    pub fn new(config: &AdapterConfig, seed: u64, name: &str) -> Result<Self, ConfigError> {
        config.validate()?;
        let random = |what| Random::stream(seed, &format!("{name}.{what}"));
        let clock = Clock::new(config.rate, config.bits_per_character);
        let data = config.data_queue();
        let retry = clock.time_for(128).max(Span::from_secs(1));
        Ok(Self {
            session: Session::new(config, &mut random("instance")),
            agreed: None,
            codec: Codec::new(config),
            cache: ReplyCache::new(config.cache.clone()),
            pairs: SendPairs::new(retry),
            flows: Flows::new(config, clock.capacity(), clock.time_for(1), &mut random("flows")),
            stations: Stations::default(),
            in_order: VecDeque::new(),
            in_order_bytes: 0,
            queues: ["queue.0", "queue.1", "queue.2", "queue.3"].map(|what| Queue::new(&data, random(what))),
            outgoing: Default::default(),
            line: Line::default(),
            receiver: Receiver::default(),
            fresh_since: Time::ZERO,
            counters: Counters::new(),
            outputs: VecDeque::new(),
            spare: Vec::with_capacity(SPARE),
            now: Time::ZERO,
            config: config.clone(),
            clock,
        })
    }

    /// What happened so far: time that the line was idle counts up to the last time that anything
    /// happened, which keep-alives make no longer ago than their interval.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let mut counters = self.counters.clone();
        counters.line.held = self.clock.characters_in(self.line.held);
        counters.line.idle = self.clock.characters_in(self.line.idle);
        counters.flows = crate::FlowCounters { overdue: self.line.overdue, ..self.flows.counters() };
        counters.rohc = self.codec.counters();
        counters.payload = self.codec.payload();
        counters.cache = CacheKind::ALL.map(|kind| self.cache.counters(kind));
        counters.session = crate::SessionCounters { up: self.session.is_up(), ..self.session.counters };
        counters
    }

    /// What the adapter is told to be.
    #[must_use]
    pub fn config(&self) -> &AdapterConfig {
        &self.config
    }

    fn take_lan(&mut self, now: Time, mut packet: Packet) {
        if packet.gso.is_some() {
            return self.discard(SUPER_FRAME, packet, None);
        }
        let headers = Headers::parse(&packet.bytes);
        let Some(kind) = packet.bytes.get(ETHERNET_LEN - 2..ETHERNET_LEN) else {
            return self.discard(MALFORMED, packet, None);
        };
        match u16::from_be_bytes([kind[0], kind[1]]) {
            ethertype::VLAN | ethertype::SERVICE_VLAN | ethertype::OLD_SERVICE_VLAN => {
                return self.discard(VLAN, packet, None);
            }
            ethertype::IPV4 | ethertype::IPV6 if headers.ip.is_none() => return self.discard(MALFORMED, packet, None),
            ethertype::IPV4 | ethertype::IPV6 | ethertype::ARP => {}
            _ => return self.discard(ETHERTYPE, packet, None),
        }
        let address = |at: usize| packet.bytes[at..].first_chunk::<6>().copied().unwrap_or_default();
        let (to, from) = (address(0), address(6));
        self.stations.heard(now, from);
        if self.stations.is_local(now, to) {
            self.counters.local.add(headers.network_len);
            return self.outputs.push_back(Output::Consume { packet });
        }
        // Padding is not carried, and must not be counted into the checksum.
        packet.bytes.truncate(headers.network + headers.network_len);
        if let Checksum::Partial { start, offset } = packet.checksum {
            if !wire::checksum::complete(&mut packet.bytes, usize::from(start), usize::from(offset)) {
                return self.discard(MALFORMED, packet, None);
            }
            packet.checksum = Checksum::Complete;
        }
        let Self { cache, outputs, spare, .. } = self;
        let answered = cache.from_lan(now, &packet.bytes, &headers, |answer| {
            let mut bytes = spare.pop().unwrap_or_else(|| Vec::with_capacity(BUFFER));
            bytes.extend_from_slice(answer);
            outputs.push_back(Output::Transmit { port: LAN, packet: Packet::new(bytes) });
        });
        if answered == FromLan::Answered {
            return self.consume(packet);
        }
        // The launch time serves as the time of arrival until the packet is sent.
        packet.launch = now;
        self.sort(now, packet, &headers);
    }

    /// Puts a packet where it waits.
    fn sort(&mut self, now: Time, packet: Packet, headers: &Headers) {
        let verdict = self.flows.classify(now, &packet.bytes, headers);
        if let Some(event) = self.flows.event.take() {
            self.outputs.push_back(Output::Event(event));
        }
        let class = Class::from(&verdict);
        self.counters.classes[class.index()].taken.add(headers.network_len);
        let largest = self.agreed.as_ref().map_or(usize::MAX, |agreed| agreed.largest_packet);
        if headers.network_len > largest {
            return self.discard(TOO_LARGE, packet, Some(class));
        }
        let key = match verdict {
            Verdict::Refused { tell } => {
                let buffer = self.buffer();
                if tell && let Some(answer) = refuse::prohibited(&packet.bytes, headers, buffer) {
                    self.outputs.push_back(Output::Transmit { port: LAN, packet: answer });
                }
                return self.discard(REFUSED, packet, Some(class));
            }
            Verdict::RealTime(_) if !self.session.is_up() => return self.discard(LINE_DOWN, packet, Some(class)),
            Verdict::RealTime(key) => Some(key),
            Verdict::Data(_) => None,
        };
        let fifo = self.config.schedule == Schedule::Fifo;
        match class {
            Class::Data(priority) if !fifo => {
                // Data cost what they take of the queue; the line's cost is known when they are sent.
                let cost = (headers.network_len + OVERHEAD) as u32;
                let (counters, outputs) = (&mut self.counters, &mut self.outputs);
                let sink = |reason, packet| discard(counters, outputs, reason, packet, Some(class));
                self.queues[priority.index()].enqueue(now, packet, cost, sink);
            }
            _ => self.wait_in_order(Waiting {
                packet,
                class,
                key,
                busy: self.clock.free_at().since(now),
                real_time: self.line.real_time,
            }),
        }
    }

    fn wait_in_order(&mut self, waiting: Waiting) {
        let bytes = self.in_order_bytes + waiting.packet.len() as u64;
        let (most_packets, most_bytes) = match self.config.schedule {
            Schedule::Fifo => (self.config.queues.data_packets, self.config.queues.data_bytes.bytes()),
            Schedule::Gaps | Schedule::Priority => (self.config.queues.real_time_packets, u64::MAX),
        };
        if self.in_order.len() >= most_packets as usize {
            return self.discard(queue::FULL_PACKETS, waiting.packet, Some(waiting.class));
        }
        if bytes > most_bytes {
            return self.discard(queue::FULL_BYTES, waiting.packet, Some(waiting.class));
        }
        self.in_order_bytes = bytes;
        self.in_order.push_back(waiting);
    }

    /// All that was built up with a peer is void: another came.
    pub(crate) fn meet(&mut self, agreed: Option<Agreed>) {
        // Until feedback can have had an effect: two frames each way and some.
        let round_trip = self.clock.time_for(512).max(Span::from_millis(100));
        self.codec.start(agreed.as_ref(), &self.config, round_trip);
        // The far side may be another one now.
        self.cache.clear();
        self.agreed = agreed;
        self.pairs.reset();
        self.receiver.reset();
        self.outgoing.iter_mut().for_each(Outgoing::restart);
    }

    /// There is no session any more: what is late is dropped, the rest waits.
    pub(crate) fn lose(&mut self, event: Event) {
        self.outputs.push_back(Output::Event(event));
        self.codec.forget_feedback();
        self.outgoing.iter_mut().for_each(Outgoing::restart);
        let mut at = 0;
        while let Some(waiting) = self.in_order.get(at) {
            if waiting.class == Class::RealTime {
                if let Some(waiting) = self.in_order.remove(at) {
                    self.in_order_bytes -= waiting.packet.len() as u64;
                    self.discard(LINE_DOWN, waiting.packet, Some(waiting.class));
                }
            } else {
                at += 1;
            }
        }
    }

    pub(crate) fn discard(&mut self, reason: DropReason, packet: Packet, class: Option<Class>) {
        discard(&mut self.counters, &mut self.outputs, reason, packet, class);
    }

    /// An empty buffer.
    pub(crate) fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_else(|| Vec::with_capacity(BUFFER))
    }

    /// Keeps a buffer to be used again, unless there are enough.
    pub(crate) fn keep(&mut self, mut buffer: Vec<u8>) {
        if self.spare.len() < SPARE {
            buffer.clear();
            self.spare.push(buffer);
        }
    }

    /// Hands a packet back whose content is used; its buffer is kept if few are.
    pub(crate) fn consume(&mut self, mut packet: Packet) {
        if self.spare.len() < SPARE {
            self.keep(core::mem::take(&mut packet.bytes));
        }
        self.outputs.push_back(Output::Consume { packet });
    }
}

/// Counts a packet that ends here, and gives it back.
pub(crate) fn discard(
    counters: &mut Counters,
    outputs: &mut VecDeque<Output>,
    reason: DropReason,
    packet: Packet,
    class: Option<Class>,
) {
    counters.drop(reason, class, packet.len().saturating_sub(ETHERNET_LEN));
    outputs.push_back(Output::Drop { reason, packet });
}

impl Element for Adapter {
    fn handle(&mut self, now: Time, port: Port, packet: Packet) {
        self.now = now;
        if port == LAN {
            self.take_lan(now, packet);
        } else {
            self.take_line(now, packet);
        }
        self.pump(now);
    }

    fn tick(&mut self, now: Time) {
        self.now = now;
        if let Some(event) = self.session.tick(now) {
            self.lose(event);
        }
        self.counters.receive.expired += self.receiver.expire(now);
        self.pump(now);
    }

    fn deadline(&self) -> Option<Time> {
        // What is due already waits for the line, which the pump wakes up for.
        let other = [Some(self.session.deadline()), self.pairs.deadline(), self.receiver.deadline()];
        let first = self.now == Time::ZERO && self.line.is_new();
        other.into_iter().flatten().filter(|at| *at > self.now || first).chain(self.line.wake()).min()
    }

    fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }
}
