//! One pipe: the stages a packet passes, in their order.

use alloc::collections::VecDeque;
use alloc::format;

use engine::{Checksum, DropReason, Output, Packet, Random, Time};
use queue::Queue;
use wire::{ETHERNET_LEN, Headers, checksum};

use crate::config::{LossAt, PipeConfig};
use crate::counters::{Counters, DELAY_LINE_FULL, LOSS, SUPER_FRAME};
use crate::delay::Delay;
use crate::direction::Change;
use crate::line::Line;
use crate::loss::Loss;
use crate::rate::Transmitter;

/// A pipe at work.
///
/// Every effect draws from a random stream of its own: changing one leaves the others' draws as
/// they were.
#[derive(Debug)]
pub(crate) struct Pipe {
    config: PipeConfig,
    overhead: u32,
    loss: Loss,
    queue: Queue,
    transmitter: Transmitter,
    corrupt: Random,
    duplicate: Random,
    delay: Delay,
    line: Line,
    counters: Counters,
}

impl Pipe {
    /// `config` must be valid.
    pub(crate) fn new(config: &PipeConfig, seed: u64, label: &str) -> Self {
        let stream = |effect| Random::stream(seed, &format!("{label}.{effect}"));
        let mut pipe = Self {
            config: config.clone(),
            overhead: u32::try_from(config.overhead.bytes()).unwrap_or(u32::MAX),
            loss: Loss::new(&config.loss, stream("loss")),
            queue: Queue::new(&config.queue, stream("queue")),
            transmitter: Transmitter::new(config.rate.as_ref(), Time::ZERO),
            corrupt: stream("corrupt"),
            duplicate: stream("duplicate"),
            delay: Delay::new(config.delay.clone(), stream("delay")),
            line: Line::new(config.in_flight_limit()),
            counters: Counters::new(),
        };
        if config.reorder && !config.delay.is_constant() {
            pipe.line.let_overtake();
        }
        pipe
    }

    /// A packet arrives. What is due before it is sent first, so that it finds the room that this
    /// gives.
    pub(crate) fn arrive(&mut self, now: Time, packet: Packet, outputs: &mut VecDeque<Output>) {
        self.run(now, outputs);
        self.counters.offered.add(&packet);
        self.counters.waiting.add(&packet);
        if packet.gso.is_some() {
            discard(&mut self.counters, outputs, SUPER_FRAME, packet);
        } else if self.config.loss_at == LossAt::Entry && self.loss.next() {
            discard(&mut self.counters, outputs, LOSS, packet);
        } else if self.transmitter.is_unlimited() {
            self.travel(now, packet, outputs);
        } else {
            let network = u32::try_from(wire::network_len(&packet.bytes)).unwrap_or(u32::MAX);
            let cost = network.saturating_add(self.overhead);
            let counters = &mut self.counters;
            let sink = |reason, packet| discard(counters, outputs, reason, packet);
            self.transmitter.accept(now, packet, cost, &mut self.queue, sink);
        }
        self.run(now, outputs);
    }

    /// Does all that is due by `now`.
    pub(crate) fn run(&mut self, now: Time, outputs: &mut VecDeque<Output>) {
        loop {
            let counters = &mut self.counters;
            let sink = |reason, packet| discard(counters, outputs, reason, packet);
            let Some((at, packet)) = self.transmitter.next(now, &mut self.queue, sink) else { break };
            self.travel(at, packet, outputs);
        }
        while let Some(packet) = self.line.pop(now) {
            self.counters.waiting.remove(&packet);
            self.counters.delivered.add(&packet);
            outputs.push_back(Output::Transmit { port: 0, packet });
        }
    }

    /// When something is due next.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let sent = self.transmitter.deadline(&self.queue);
        match (sent, self.line.next_arrival()) {
            (Some(sent), Some(arrival)) => Some(sent.min(arrival)),
            (sent, arrival) => sent.or(arrival),
        }
    }

    /// Changes what [`PipeConfig`] it follows; `config` must be valid and be the present one but
    /// for `change`.
    pub(crate) fn set(&mut self, now: Time, config: PipeConfig, change: &Change, outputs: &mut VecDeque<Output>) {
        self.run(now, outputs);
        self.config = config;
        // Packets in flight keep their room.
        self.line.limit = self.line.limit.max(self.config.in_flight_limit());
        match change {
            Change::Rate(rate) => {
                let counters = &mut self.counters;
                let sink = |reason, packet| discard(counters, outputs, reason, packet);
                self.transmitter.set(now, rate.as_ref(), &mut self.queue, sink);
            }
            Change::Delay(delay) => {
                self.delay.set(delay.clone());
                if self.config.reorder {
                    self.line.let_overtake();
                }
            }
            Change::Loss(loss) => self.loss.set(loss),
            Change::QueueLimits { packets, bytes } => self.queue.set_limits(*packets, *bytes),
            Change::Duplicate(_) | Change::Corrupt(_) => {}
        }
        self.run(now, outputs);
    }

    pub(crate) fn config(&self) -> &PipeConfig {
        &self.config
    }

    pub(crate) fn counters(&self) -> Counters {
        let queue = self.queue.counters();
        Counters {
            marked: queue.marked,
            queue_most_packets: queue.most_packets,
            queue_most_bytes: queue.most_bytes,
            in_flight_most_bytes: self.line.most_bytes(),
            ..self.counters
        }
    }

    /// The packet's last bit was put on the link at `at`.
    fn travel(&mut self, at: Time, mut packet: Packet, outputs: &mut VecDeque<Output>) {
        if self.config.loss_at == LossAt::Air && self.loss.next() {
            return discard(&mut self.counters, outputs, LOSS, packet);
        }
        if self.config.corrupt > 0.0
            && self.corrupt.chance(self.config.corrupt)
            && flip_bit(&mut packet, &mut self.corrupt)
        {
            self.counters.corrupted += 1;
        }
        let copy = self.config.duplicate > 0.0 && self.duplicate.chance(self.config.duplicate);
        let copy = copy.then(|| packet.clone());
        let due = at + self.delay.next(at);
        if let Err(packet) = self.line.push(due, packet) {
            discard(&mut self.counters, outputs, DELAY_LINE_FULL, packet);
        }
        if let Some(packet) = copy {
            self.counters.duplicated.add(&packet);
            self.counters.waiting.add(&packet);
            if let Err(packet) = self.line.push(due, packet) {
                discard(&mut self.counters, outputs, DELAY_LINE_FULL, packet);
            }
        }
    }
}

fn discard(counters: &mut Counters, outputs: &mut VecDeque<Output>, reason: DropReason, packet: Packet) {
    counters.drop(reason, &packet);
    outputs.push_back(Output::Drop { reason, packet });
}

/// Flips one bit after the Ethernet header, each with the same chance; false if there is none.
fn flip_bit(packet: &mut Packet, random: &mut Random) -> bool {
    // A checksum that is made later would cover the flip up.
    if let Checksum::Partial { start, offset } = packet.checksum {
        let headers = Headers::parse(&packet.bytes);
        let end = headers.network + headers.network_len;
        checksum::complete(&mut packet.bytes[..end], usize::from(start), usize::from(offset));
        packet.checksum = Checksum::Complete;
    }
    let Some(body) = packet.bytes.get_mut(ETHERNET_LEN..) else { return false };
    let bit = random.below(body.len() as u64 * 8) as usize;
    body.get_mut(bit / 8).map(|byte| *byte ^= 1 << (bit % 8)).is_some()
}
