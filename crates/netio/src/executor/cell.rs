//! One cell: its graph, its wires, and what is measured of it.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap};
use std::io;

use engine::{DropReason, Event, ExitId, Graph, NodeId, Outlet, Packet, Pool, Span, Time};
use hdrhistogram::Histogram;

use super::{
    CellReport, CellSpec, CellWire, Dropped, EVENTS_MAX, HELD_FULL, Happened, MALFORMED, NO_WIRE, Options, Totals,
};
use crate::clock::{Epoch, Instant, Stalls};
use crate::port::Scratch;

/// Packets a wire brings before the clock is read again.
const BATCH: usize = 32;

pub(super) struct Cell {
    pub(super) graph: Graph,
    pub(super) wires: Vec<CellWire>,
    pub(super) serial: u64,
    /// The deadline the thread's heap holds for the cell.
    pub(super) armed: Option<Instant>,
    /// Bit n: wire n has something.
    pub(super) ready: u64,
    /// Bit n: wire n is in trouble.
    pub(super) troubled: u64,
    /// Bit n: wire n is of no use any more, and to be watched no longer.
    pub(super) dead: u64,
    epoch: Epoch,
    exits: Exits,
    measured: Measured,
    late: Span,
}

/// What is counted along the way.
struct Measured {
    packets_in: u64,
    bytes_in: u64,
    packets_out: u64,
    bytes_out: u64,
    lateness: Histogram<u64>,
    late: u64,
    stalls: Stalls,
    /// Time spent on the cell by the clock, since processor time was last divided.
    busy: Span,
    cpu: Span,
    broken: Vec<(String, String)>,
}

/// What all cells of a thread use in turn.
pub(super) struct Tools {
    pub(super) scratch: Scratch,
    pub(super) pool: Pool,
    pub(super) batch: Vec<Packet>,
    /// When the thread last looked at the clock: a long gap to the next look is a stall.
    pub(super) looked: Instant,
    /// The longest such gap since the thread last asked.
    pub(super) gap: Span,
}

impl Tools {
    /// Reads the clock.
    pub(super) fn look(&mut self) -> Instant {
        let now = Instant::now();
        self.gap = self.gap.max(now.since(self.looked));
        self.looked = now;
        now
    }
}

impl Cell {
    pub(super) fn new(spec: CellSpec, serial: u64, options: &Options) -> Self {
        let lateness = Histogram::new_with_bounds(1, 60_000_000_000, 3);
        Self {
            serial,
            armed: None,
            ready: 0,
            troubled: 0,
            dead: 0,
            epoch: spec.epoch,
            exits: Exits::new(&spec.wires, options.held),
            graph: spec.graph,
            wires: spec.wires,
            late: spec.late,
            measured: Measured {
                packets_in: 0,
                bytes_in: 0,
                packets_out: 0,
                bytes_out: 0,
                lateness: lateness.expect("these bounds are valid"),
                late: 0,
                stalls: Stalls::new(options.stall),
                busy: Span::ZERO,
                cpu: Span::ZERO,
                broken: Vec::new(),
            },
        }
    }

    /// Reads what wires have, serves what is due, writes what comes out.
    pub(super) fn serve(&mut self, tools: &mut Tools) {
        let begin = tools.look();
        while self.troubled != 0 {
            let index = self.troubled.trailing_zeros() as usize;
            self.troubled &= self.troubled - 1;
            if let Err(error) = self.wires[index].wire.recover() {
                self.broken(index, &error);
            }
        }
        while self.ready != 0 {
            let index = self.ready.trailing_zeros() as usize;
            self.ready &= self.ready - 1;
            self.read(index, tools);
        }
        let now = tools.look();
        self.advance(now, tools);
        self.write(tools);
        self.measured.busy += tools.looked.since(begin);
    }

    /// Brings the graph to the present, and has `work` done to the cell there.
    pub(super) fn run(&mut self, work: impl FnOnce(&mut Self), tools: &mut Tools) {
        let now = tools.look();
        self.advance(now, tools);
        work(self);
        self.advance(now, tools);
        self.write(tools);
    }

    /// When something is due next.
    pub(super) fn deadline(&mut self) -> Option<Instant> {
        let held = self.exits.held.peek().map(|held| held.packet.launch);
        let next = match (self.graph.deadline(), held) {
            (Some(a), Some(b)) => a.min(b),
            (a, b) => a.or(b)?,
        };
        // `Time::MAX` is an element's way to say never.
        (next < Time::MAX).then(|| self.epoch.instant(next))
    }

    pub(super) fn sent(&self) -> Totals {
        Totals { packets: self.measured.packets_out, late: self.measured.late }
    }

    /// Time spent on the cell by the clock since it was last charged.
    pub(super) fn busy(&self) -> Span {
        self.measured.busy
    }

    /// Charges the cell with its share of `spent` processor time, of which cells were busy for `all`
    /// by the clock.
    pub(super) fn charge(&mut self, spent: Span, all: Span) {
        let own = std::mem::take(&mut self.measured.busy);
        let share = u128::from(spent.as_nanos()) * u128::from(own.as_nanos()) / u128::from(all.as_nanos()).max(1);
        self.measured.cpu += Span::from_nanos(u64::try_from(share).unwrap_or(u64::MAX));
    }

    pub(super) fn stalled(&mut self, length: Span) {
        self.measured.stalls.note(length);
    }

    pub(super) fn report(&self) -> CellReport {
        let measured = &self.measured;
        let drops = self.exits.drops.iter().map(|(&(place, reason), &(packets, bytes))| Dropped {
            place: match place {
                Place::Node(node) => self.graph.name(node).into(),
                Place::Wire(index) => self.wires[index].name.clone(),
                Place::Executor => "executor".into(),
            },
            reason,
            packets,
            bytes,
        });
        CellReport {
            packets_in: measured.packets_in,
            bytes_in: measured.bytes_in,
            packets_out: measured.packets_out,
            bytes_out: measured.bytes_out,
            lateness: measured.lateness.clone(),
            late: measured.late,
            late_limit: self.late,
            stalls: measured.stalls,
            cpu: measured.cpu,
            drops: drops.collect(),
            kernel_drops: None,
            broken: measured.broken.clone(),
        }
    }

    /// What elements told since this was asked last, and how much of it there was no room for.
    pub(super) fn events(&mut self) -> (Vec<Happened>, u64) {
        let node = |(at, node, event)| Happened { at, place: self.graph.name(node).into(), event };
        let told = self.exits.events.drain(..).map(node).collect();
        (told, std::mem::take(&mut self.exits.unheard))
    }

    pub(super) fn kernel_drops(&mut self) -> Option<u64> {
        self.wires.iter_mut().map(|wire| wire.wire.kernel_drops().ok()).sum()
    }

    pub(super) fn into_graph(self) -> Graph {
        self.graph
    }

    fn read(&mut self, index: usize, tools: &mut Tools) {
        let CellWire { wire, entry, .. } = &mut self.wires[index];
        let entry = *entry;
        debug_assert!(tools.batch.is_empty());
        match wire.receive(&mut tools.scratch, &mut tools.pool, &mut tools.batch, BATCH) {
            Ok(received) if received.malformed > 0 => {
                self.exits.count(Place::Wire(index), MALFORMED, received.malformed as u64, 0);
            }
            Ok(_) => {}
            Err(error) => self.broken(index, &error),
        }
        // After the reading: nothing is believed to have been sent earlier than it was.
        let now = self.epoch.time_at(tools.look());
        let mut outlet = self.exits.at(now, &mut tools.pool);
        for packet in tools.batch.drain(..) {
            self.measured.packets_in += 1;
            self.measured.bytes_in += packet.len() as u64;
            self.graph.inject(now, entry, packet, &mut outlet);
        }
    }

    fn broken(&mut self, index: usize, error: &io::Error) {
        self.dead |= 1 << index;
        self.ready &= !(1 << index);
        self.measured.broken.push((self.wires[index].name.clone(), error.to_string()));
    }

    fn advance(&mut self, now: Instant, tools: &mut Tools) {
        let now = self.epoch.time_at(now);
        let mut outlet = self.exits.at(now, &mut tools.pool);
        outlet.release();
        self.graph.advance(now, &mut outlet);
    }

    fn write(&mut self, tools: &mut Tools) {
        for (index, wire) in self.wires.iter_mut().enumerate() {
            let mut rest = &self.exits.due[index][..];
            while !rest.is_empty() {
                let now = tools.look();
                let sent = wire.wire.send(&mut tools.scratch, rest);
                let (done, behind) = rest.split_at(sent.packets);
                rest = behind;
                let bytes: u64 = done.iter().map(|packet| packet.len() as u64).sum();
                if let Some(reason) = sent.refused {
                    let count = self.exits.drops.entry((Place::Wire(index), reason)).or_default();
                    count.0 += done.len() as u64;
                    count.1 += bytes;
                    continue;
                }
                self.measured.packets_out += done.len() as u64;
                self.measured.bytes_out += bytes;
                for packet in done {
                    let late = now.since(self.epoch.instant(packet.launch));
                    self.measured.lateness.saturating_record(late.as_nanos());
                    self.measured.late += u64::from(late > self.late);
                }
            }
            for packet in self.exits.due[index].drain(..) {
                tools.pool.put(packet.bytes);
            }
        }
    }
}

/// Where packets end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Node(NodeId),
    Wire(usize),
    Executor,
}

/// What leaves the graph.
struct Exits {
    /// Exit number to wire.
    wires: Vec<Option<usize>>,
    /// Packets to be written now, by wire.
    due: Vec<Vec<Packet>>,
    /// Packets ahead of their launch time.
    held: BinaryHeap<Held>,
    held_limit: usize,
    sequence: u64,
    drops: BTreeMap<(Place, DropReason), (u64, u64)>,
    /// What elements told, until somebody asks for it: [`EVENTS_MAX`] at most.
    events: Vec<(Time, NodeId, Event)>,
    /// Events beyond those.
    unheard: u64,
}

impl Exits {
    fn new(wires: &[CellWire], held_limit: usize) -> Self {
        let mut table = Vec::new();
        for (index, wire) in wires.iter().enumerate() {
            let ExitId(exit) = wire.exit;
            if table.len() <= exit {
                table.resize(exit + 1, None);
            }
            table[exit] = Some(index);
        }
        Self {
            wires: table,
            due: wires.iter().map(|_| Vec::new()).collect(),
            held: BinaryHeap::new(),
            held_limit,
            sequence: 0,
            drops: BTreeMap::new(),
            events: Vec::with_capacity(EVENTS_MAX),
            unheard: 0,
        }
    }

    fn count(&mut self, place: Place, reason: DropReason, packets: u64, bytes: u64) {
        let count = self.drops.entry((place, reason)).or_default();
        count.0 += packets;
        count.1 += bytes;
    }

    fn at<'a>(&'a mut self, now: Time, pool: &'a mut Pool) -> Gate<'a> {
        Gate { exits: self, now, pool }
    }
}

/// A packet ahead of its launch time, first come first served among equals. The order is reversed,
/// as a heap gives its greatest.
struct Held {
    packet: Packet,
    wire: usize,
    sequence: u64,
}

impl Ord for Held {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.packet.launch, other.sequence).cmp(&(self.packet.launch, self.sequence))
    }
}

impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Held {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Held {}

/// The outlet of a graph that is brought to `now`.
struct Gate<'a> {
    exits: &'a mut Exits,
    now: Time,
    pool: &'a mut Pool,
}

impl Gate<'_> {
    /// Lets go what was held until now.
    fn release(&mut self) {
        while self.exits.held.peek().is_some_and(|held| held.packet.launch <= self.now) {
            if let Some(held) = self.exits.held.pop() {
                self.exits.due[held.wire].push(held.packet);
            }
        }
    }

    fn end(&mut self, place: Place, reason: DropReason, packet: Packet) {
        self.exits.count(place, reason, 1, packet.len() as u64);
        self.pool.put(packet.bytes);
    }
}

impl Outlet for Gate<'_> {
    fn transmit(&mut self, ExitId(exit): ExitId, packet: Packet) {
        let Some(wire) = self.exits.wires.get(exit).copied().flatten() else {
            return self.end(Place::Executor, NO_WIRE, packet);
        };
        if packet.launch <= self.now {
            self.exits.due[wire].push(packet);
        } else if self.exits.held.len() < self.exits.held_limit {
            self.exits.sequence += 1;
            self.exits.held.push(Held { packet, wire, sequence: self.exits.sequence });
        } else {
            self.end(Place::Executor, HELD_FULL, packet);
        }
    }

    fn discard(&mut self, _: Time, node: NodeId, reason: DropReason, packet: Packet) {
        self.end(Place::Node(node), reason, packet);
    }

    fn event(&mut self, at: Time, node: NodeId, event: Event) {
        if self.exits.events.len() < EVENTS_MAX {
            self.exits.events.push((at, node, event));
        } else {
            self.exits.unheard += 1;
        }
    }
}
