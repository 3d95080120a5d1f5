//! The thread: waiting, and giving each cell its turn.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use engine::{Pool, Span};

use super::cell::{Cell, Tools};
use super::{AddError, CellId, CellSpec, Command, Options, Totals};
use crate::clock::{self, Instant};
use crate::cpu;
use crate::error::SetupError;
use crate::port::Scratch;
use crate::waiting::{Epoll, EventFd, Ready};

/// How long before a deadline a spinning thread stops sleeping. Sleeps end some 20 to 40 µs late;
/// the rest is for the times they end later than that.
const SPIN: Span = Span::from_micros(200);

/// Buffers kept for use again: some 25 MB of full-size packets.
const POOL: usize = 16_384;

/// Wires of a cell, at most: one bit each.
const WIRES_MAX: usize = 64;

/// The bell's mark among the events; no cell has this slot.
const BELL: u64 = u64::MAX;

pub(super) struct Loop {
    options: Options,
    commands: Receiver<Command>,
    bell: Arc<EventFd>,
    epoll: Epoll,
    cells: Vec<Option<Box<Cell>>>,
    serial: u64,
    /// Deadlines, earliest first. An entry that is not its cell's `armed` any more is stale.
    deadlines: BinaryHeap<Reverse<(Instant, usize)>>,
    /// Slots with something to do in this round.
    turn: Vec<usize>,
    tools: Tools,
    /// Processor time of the thread when it was last divided among cells.
    divided: Span,
    /// What cells that were taken out had sent.
    retired: Totals,
    rung: bool,
    stopped: bool,
}

impl Loop {
    pub(super) fn new(options: Options, commands: Receiver<Command>, bell: Arc<EventFd>) -> Result<Self, SetupError> {
        cpu::prepare_thread(options.cpu)?;
        let epoll = Epoll::new()
            .and_then(|epoll| epoll.add_readable(&*bell, BELL).map(|()| epoll))
            .map_err(|source| SetupError::new("create an epoll instance", source))?;
        Ok(Self {
            options,
            commands,
            bell,
            epoll,
            cells: Vec::new(),
            serial: 0,
            deadlines: BinaryHeap::new(),
            turn: Vec::new(),
            tools: Tools {
                scratch: Scratch::new(),
                pool: Pool::new(POOL),
                batch: Vec::new(),
                looked: Instant::now(),
                gap: Span::ZERO,
            },
            divided: clock::thread_time(),
            retired: Totals::default(),
            rung: false,
            stopped: false,
        })
    }

    pub(super) fn run(&mut self) {
        while !self.stopped {
            let deadline = self.next_deadline();
            let begin = Instant::now();
            self.wait(deadline);
            if let Some(deadline) = deadline {
                // Lateness that was there before is the thread's own doing, not a stall.
                self.note_stall(self.tools.looked.since(deadline.max(begin)), None);
            }
            self.collect_due();
            self.tools.gap = Span::ZERO;
            if std::mem::take(&mut self.rung) {
                self.obey();
            }
            let mut turn = std::mem::take(&mut self.turn);
            for slot in turn.drain(..) {
                let Some(cell) = self.cells.get_mut(slot).and_then(Option::as_mut) else { continue };
                cell.serve(&mut self.tools);
                // Between two looks at the clock there is one system call's work, or some packets'.
                let gap = std::mem::take(&mut self.tools.gap);
                self.note_stall(gap, Some(slot));
                self.unwatch_dead(slot);
                self.arm(slot);
            }
            self.turn = turn;
        }
    }

    /// The earliest deadline of all cells.
    fn next_deadline(&mut self) -> Option<Instant> {
        while let Some(&Reverse((at, slot))) = self.deadlines.peek() {
            if self.cells.get(slot).and_then(Option::as_ref).is_some_and(|cell| cell.armed == Some(at)) {
                return Some(at);
            }
            self.deadlines.pop();
        }
        None
    }

    /// Waits for a wire, the bell or the deadline, and gives cells with something to read their turn.
    fn wait(&mut self, deadline: Option<Instant>) {
        let alone = self.cells.iter().flatten().count() == 1;
        let margin = if self.options.spin && alone { SPIN } else { Span::ZERO };
        loop {
            let timeout = deadline.map(|deadline| deadline.since(Instant::now()).saturating_sub(margin));
            let ready = self.epoll.wait(timeout);
            self.tools.looked = Instant::now();
            let any = ready.len() > 0;
            for Ready { token, trouble } in ready {
                if token == BELL {
                    self.rung = true;
                    continue;
                }
                let (slot, wire) = ((token / WIRES_MAX as u64) as usize, token % WIRES_MAX as u64);
                if let Some(cell) = self.cells.get_mut(slot).and_then(Option::as_mut) {
                    if cell.ready | cell.troubled == 0 {
                        self.turn.push(slot);
                    }
                    cell.ready |= 1 << wire;
                    cell.troubled |= u64::from(trouble) << wire;
                }
            }
            if any || deadline.is_none_or(|deadline| self.tools.looked >= deadline) {
                return;
            }
        }
    }

    /// Gives cells whose deadline has come their turn.
    fn collect_due(&mut self) {
        let now = self.tools.looked;
        while let Some(&Reverse((at, slot))) = self.deadlines.peek() {
            if at > now {
                break;
            }
            self.deadlines.pop();
            if let Some(cell) = self.cells.get_mut(slot).and_then(Option::as_mut)
                && cell.armed == Some(at)
            {
                cell.armed = None;
                if cell.ready | cell.troubled == 0 {
                    self.turn.push(slot);
                }
            }
        }
    }

    fn obey(&mut self) {
        self.bell.clear();
        // Between commands the cells are the same.
        self.divide();
        while let Ok(command) = self.commands.try_recv() {
            match command {
                Command::Add(spec, reply) => {
                    let _ = reply.send(self.add(spec));
                }
                Command::Do(id, work) => {
                    if let Some(cell) = self.cells.get_mut(id.slot).and_then(Option::as_mut)
                        && cell.serial == id.serial
                    {
                        cell.run(work, &mut self.tools);
                        self.arm(id.slot);
                    }
                }
                Command::Remove(id, reply) => {
                    if let Some(cell) = self.remove(id) {
                        let _ = reply.send(cell);
                    }
                }
                Command::Totals(reply) => {
                    let _ = reply.send(self.totals());
                }
                Command::Stop => self.stopped = true,
            }
        }
    }

    fn add(&mut self, spec: CellSpec) -> Result<CellId, AddError> {
        let slot = self.cells.iter().position(Option::is_none).unwrap_or(self.cells.len());
        for (index, wire) in spec.wires.iter().enumerate() {
            let watched = match index < WIRES_MAX {
                true => self.epoll.add_readable(&wire.wire, (slot * WIRES_MAX + index) as u64),
                false => Err(io::ErrorKind::ArgumentListTooLong.into()),
            };
            // On an error the wires are dropped, and with that not watched any more.
            watched.map_err(|source| AddError::Watch { name: wire.name.clone(), source })?;
        }
        self.serial += 1;
        let id = CellId { slot, serial: self.serial };
        let cell = Box::new(Cell::new(spec, id.serial, &self.options));
        match self.cells.get_mut(slot) {
            Some(free) => *free = Some(cell),
            None => self.cells.push(Some(cell)),
        }
        self.arm(slot);
        Ok(id)
    }

    fn remove(&mut self, id: CellId) -> Option<Box<Cell>> {
        let cell = self.cells.get_mut(id.slot)?.take_if(|cell| cell.serial == id.serial)?;
        for wire in &cell.wires {
            self.epoll.remove(&wire.wire);
        }
        let sent = cell.sent();
        self.retired.packets += sent.packets;
        self.retired.late += sent.late;
        Some(cell)
    }

    /// Divides the processor time that was spent since the last time among the cells.
    fn divide(&mut self) {
        let now = clock::thread_time();
        let all = self.cells.iter().flatten().fold(Span::ZERO, |all, cell| all + cell.busy());
        let spent = now.saturating_sub(self.divided);
        self.divided = now;
        for cell in self.cells.iter_mut().flatten() {
            cell.charge(spent, all);
        }
    }

    fn totals(&self) -> Totals {
        self.cells
            .iter()
            .flatten()
            .map(|cell| cell.sent())
            .fold(self.retired, |all, cell| Totals { packets: all.packets + cell.packets, late: all.late + cell.late })
    }

    /// A dead wire would report itself for ever.
    fn unwatch_dead(&mut self, slot: usize) {
        let Some(cell) = self.cells.get_mut(slot).and_then(Option::as_mut) else { return };
        let dead = std::mem::take(&mut cell.dead);
        for (index, wire) in cell.wires.iter().enumerate() {
            if dead & (1 << index) != 0 {
                self.epoll.remove(&wire.wire);
            }
        }
    }

    /// Puts the cell's next deadline on the heap, unless it is there.
    fn arm(&mut self, slot: usize) {
        let Some(cell) = self.cells.get_mut(slot).and_then(Option::as_mut) else { return };
        let deadline = cell.deadline();
        if deadline != cell.armed {
            cell.armed = deadline;
            if let Some(at) = deadline {
                self.deadlines.push(Reverse((at, slot)));
            }
        }
    }

    /// Counts a stall for the cell that was being served and for all that had something to do by
    /// now.
    fn note_stall(&mut self, length: Span, served: Option<usize>) {
        if length <= self.options.stall {
            return;
        }
        let now = self.tools.looked;
        for (slot, cell) in self.cells.iter_mut().enumerate() {
            if let Some(cell) = cell
                && (served == Some(slot) || cell.armed.is_some_and(|at| at <= now))
            {
                cell.stalled(length);
            }
        }
    }
}
