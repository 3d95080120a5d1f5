//! Replay in which a segment waits for the one it answers.

use alloc::vec::Vec;

use engine::Span;

use super::agenda::Agenda;
use super::connections::{Entry, Lanes, Name, numbers};
use super::spacing::Turn;
use super::{Direction, Trace};

/// The most lanes of all instances together, so that memory is bounded (some 80 bytes each).
pub(super) const MOST_LANES: usize = 4_000_000;

/// How far a segment that arrives is looked for among those on their way.
const LOOK_AHEAD: u32 = 1_024;

/// What waiting did to a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// Packets that waited for one they answer beyond the time they would have left.
    pub waited: u64,
    /// Packets sent without it, as it did not arrive in time.
    pub timed_out: u64,
}

/// All instances' lanes.
///
/// A lane's next packet is due some time after the one before it, or it waits: for a packet of the other lane that is
/// still to be sent, or is on its way; then the time is when waiting ends.
#[derive(Clone, Debug)]
pub(super) struct Stateful {
    lanes: Lanes,
    timeout: u64,
    repetitions: u32,
    period: u64,
    states: Vec<State>,
    /// How many packets of the running repetition each instance has left, which repetition it is, and when the
    /// instance began.
    instances: Vec<Instance>,
    agenda: Agenda,
    waits: Waits,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// Packets sent, and how many of them have arrived or are given up.
    sent: u32,
    arrived: u32,
    /// When the last one was due, and when one last arrived.
    last_due: u64,
    last_arrival: u64,
    is_waiting: bool,
}

#[derive(Clone, Copy, Debug)]
struct Instance {
    left: u32,
    repetition: u32,
    offset: u64,
    /// When the running repetition began.
    began: u64,
}

impl Stateful {
    pub(super) fn new(lanes: Lanes, timeout: Span, repetitions: u32, period: u64, offsets: &[u64]) -> Self {
        let instance = |&offset| Instance { left: 0, repetition: 0, offset, began: offset };
        let places = lanes.lanes.len() * offsets.len();
        let mut stateful = Self {
            lanes,
            timeout: timeout.as_nanos(),
            repetitions,
            period,
            states: alloc::vec![State::default(); places],
            instances: offsets.iter().map(instance).collect(),
            agenda: Agenda::new(places),
            waits: Waits::default(),
        };
        for instance in 0..offsets.len() {
            stateful.begin(instance);
        }
        stateful
    }

    pub(super) const fn waits(&self) -> Waits {
        self.waits
    }

    /// The next packet to send or the next wait to end.
    pub(super) fn next_due(&self) -> Option<u64> {
        self.agenda.first().map(|(due, _)| due)
    }

    /// The next packet whose time has come, as the turn of a packet of the trace.
    pub(super) fn take(&mut self, now: u64) -> Option<Turn> {
        loop {
            let (due, place) = self.agenda.first().filter(|(due, _)| *due <= now)?;
            let (instance, _) = self.of(place);
            if self.states[place as usize].is_waiting {
                self.give_up(place, due);
                continue;
            }
            let entry = self.head(place)?;
            let state = &mut self.states[place as usize];
            state.sent += 1;
            state.last_due = due;
            let running = &mut self.instances[instance];
            let turn = Turn { due, repetition: running.repetition, step: entry.index, instance: instance as u32 };
            running.left -= 1;
            if running.left == 0 {
                running.repetition += 1;
                if running.repetition < self.repetitions {
                    let nominal = running.offset + u64::from(running.repetition).saturating_mul(self.period);
                    running.began = nominal.max(due);
                    self.begin(instance);
                } else {
                    self.agenda.set(place, None, 0);
                }
            } else {
                self.plan(place, false);
                // The other side may have waited for this one to be on its way.
                if let Some(reverse) = self.reverse(place) {
                    self.wait(reverse);
                }
            }
            return Some(turn);
        }
    }

    /// Packet `index` of `instance` arrived at `now`.
    pub(super) fn received(&mut self, now: u64, instance: u32, index: u32) {
        let Some(&(lane, place_in_lane)) = self.lanes.places.get(index as usize) else { return };
        let Some(info) = self.lanes.lanes.get(lane as usize).filter(|_| (instance as usize) < self.instances.len())
        else {
            return;
        };
        let reverse = info.reverse;
        let place = self.place(instance as usize, lane);
        let state = &mut self.states[place as usize];
        // One that was not sent is of an earlier repetition.
        if place_in_lane < state.arrived || place_in_lane >= state.sent {
            return;
        }
        state.arrived = place_in_lane + 1;
        state.last_arrival = now;
        if let Some(reverse) = reverse {
            let reverse = self.place(instance as usize, reverse);
            if self.states[reverse as usize].is_waiting {
                self.plan(reverse, true);
            }
        }
    }

    /// Which packet of the trace, of which instance, an arriving segment is: the first of those on their way in its
    /// connection with its numbers.
    pub(super) fn recognise(
        &self,
        trace: &Trace,
        direction: Direction,
        pdn: u32,
        instance: u32,
        is_ue: impl Fn(u32) -> bool,
        segment: &[u8],
    ) -> Option<u32> {
        let ((source, destination), found) = numbers(segment, u32::try_from(segment.len()).ok()?)?;
        let (ue_port, pdn_port) = match direction {
            Direction::Uplink => (source, destination),
            Direction::Downlink => (destination, source),
        };
        let name: Name = (direction, segment[0] >> 4 == 6, pdn, ue_port, pdn_port);
        let lanes = self.lanes.by_name.get(&name)?;
        lanes.iter().filter(|&&lane| is_ue(self.lanes.lanes[lane as usize].ue)).find_map(|&lane| {
            let state = self.states.get(self.place(instance as usize, lane) as usize)?;
            let begin = self.lanes.lanes[lane as usize].begin;
            let way = state.arrived..state.sent.min(state.arrived.saturating_add(LOOK_AHEAD));
            let mut indices = way.map(|at| self.lanes.entries[(begin + at) as usize].index);
            indices.find(|&index| {
                let packet = trace.packet(index as usize);
                numbers(packet.bytes, packet.length).is_some_and(|(_, numbers)| numbers == found)
            })
        })
    }

    /// Begins a repetition of an instance: nothing of it is sent yet.
    fn begin(&mut self, instance: usize) {
        let running = &mut self.instances[instance];
        running.left = self.lanes.entries.len() as u32;
        let began = running.began;
        let first = self.place(instance, 0);
        for place in first..first + self.lanes.lanes.len() as u32 {
            self.states[place as usize] = State { last_due: began, last_arrival: began, ..State::default() };
        }
        for place in first..first + self.lanes.lanes.len() as u32 {
            self.plan(place, false);
        }
    }

    /// Says when the next packet of a lane is due, or has it wait. `released`: it waited until now.
    fn plan(&mut self, place: u32, released: bool) {
        let Some(entry) = self.head(place) else {
            self.agenda.set(place, None, 0);
            return;
        };
        let state = self.states[place as usize];
        let (instance, lane) = self.of(place);
        let began = self.instances[instance].began;
        let begin = self.lanes.lanes[lane].begin;
        let before = state.sent.checked_sub(1).map(|before| self.lanes.entries[(begin + before) as usize]);
        // How long after the one before it; the first at its time in the trace.
        let in_turn = match before {
            Some(before) => state.last_due.saturating_add(entry.time - before.time),
            None => began.saturating_add(entry.time),
        };
        let arrived = self.reverse(place).map(|reverse| self.states[reverse as usize]).unwrap_or_default();
        if entry.needs > arrived.arrived {
            self.wait(place);
            return;
        }
        let due = match entry.think {
            // What it answers has just arrived: the path's round trip replaces the captured one.
            Some(think) if arrived.arrived == entry.needs => {
                arrived.last_arrival.saturating_add(think).max(state.last_due)
            }
            // It arrived before the last that did, at a time not known any more.
            Some(think) => state.last_due.saturating_add(think.min(in_turn - state.last_due)),
            None if released => in_turn.max(arrived.last_arrival),
            None => in_turn,
        };
        if released && due > in_turn {
            self.waits.waited += 1;
        }
        self.states[place as usize].is_waiting = false;
        self.agenda.set(place, Some(due), entry.index);
    }

    /// Has a lane's next packet wait. Its patience begins when what it needs is on its way.
    fn wait(&mut self, place: u32) {
        let (Some(entry), Some(reverse)) = (self.head(place), self.reverse(place)) else { return };
        let other = self.states[reverse as usize];
        if entry.needs <= other.arrived {
            return;
        }
        let state = &mut self.states[place as usize];
        let had = state.is_waiting && self.agenda.has(place);
        state.is_waiting = true;
        if !had {
            let patience = other.last_due.max(state.last_due).saturating_add(self.timeout);
            self.agenda.set(place, (entry.needs <= other.sent).then_some(patience), entry.index);
        }
    }

    /// Goes on at `now` as if what a lane waits for had arrived.
    fn give_up(&mut self, place: u32, now: u64) {
        let (Some(entry), Some(reverse)) = (self.head(place), self.reverse(place)) else { return };
        self.waits.timed_out += 1;
        let other = &mut self.states[reverse as usize];
        other.arrived = entry.needs;
        other.last_arrival = now;
        self.plan(place, true);
    }

    fn head(&self, place: u32) -> Option<Entry> {
        let (_, lane) = self.of(place);
        let lane = self.lanes.lanes[lane];
        let sent = self.states[place as usize].sent;
        (sent < lane.len).then(|| self.lanes.entries[(lane.begin + sent) as usize])
    }

    fn of(&self, place: u32) -> (usize, usize) {
        let lanes = self.lanes.lanes.len();
        (place as usize / lanes, place as usize % lanes)
    }

    fn place(&self, instance: usize, lane: u32) -> u32 {
        (instance * self.lanes.lanes.len()) as u32 + lane
    }

    fn reverse(&self, place: u32) -> Option<u32> {
        let (instance, lane) = self.of(place);
        self.lanes.lanes[lane].reverse.map(|reverse| self.place(instance, reverse))
    }
}
