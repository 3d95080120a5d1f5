//! The threads that handle packets: one sends, one receives at each side of the UPF.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver as Inbox, Sender as Outbox, SyncSender};

use engine::{Span, Time};
use hdrhistogram::Histogram;
use netio::SetupError;
use netio::capture::{Direction as Flows, Tap};
use netio::clock::Epoch;
use netio::pacer::{Account, Options, Pacer};
use netio::packet_io::{Receive, Transmit};
use traffic::replay::Waits;
use userplane::load::{
    self, Came, CameWhat, Direction, Generator, Receiver, SHORT, Tunnel, UserPacket, Volume, answer, index,
};
use userplane::neighbours::Neighbours;
use wire::Headers;

/// Packets written on one look at the clock.
const BURST: usize = 32;
/// Frames taken from a ring at a time.
const BATCH: usize = 256;
/// How often what came out of the UPF is looked for, if traces wait for it.
const GLANCE: Span = Span::from_micros(20);
/// The longest a receiver sleeps, so that its samples are not late.
const NAP: Span = Span::from_millis(5);
/// How long after a sample's end frames of its time may still come to be read.
const SETTLE: Span = Span::from_millis(20);

/// What one thread counted up to the end of a sample, all since the start. Each thread tells of every sample, in
/// order.
#[derive(Clone, Debug)]
pub(super) enum Row {
    /// Of the sender.
    Out {
        /// Of each group, uplink and downlink.
        groups: Vec<[Volume; 2]>,
        /// The latest that a packet left after its time, in this sample.
        late: Span,
    },
    /// Of a receiver.
    In {
        /// What it receives.
        direction: Direction,
        /// Of each group.
        groups: Vec<Arrived>,
    },
}

/// What came in of a group.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Arrived {
    pub(super) volume: Volume,
    pub(super) timed: u64,
    pub(super) latency_ns: u64,
    /// In this sample.
    pub(super) max: Span,
}

/// Sample times.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grid {
    pub(super) start: Time,
    pub(super) per_second: u32,
}

impl Grid {
    /// When a sample ends.
    fn end(&self, sample: u64) -> Time {
        let nanos = u128::from(sample + 1) * 1_000_000_000 / u128::from(self.per_second);
        self.start + Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// The sending thread.
pub(super) struct Sender {
    pub(super) generator: Generator,
    /// N3 and N6: where uplink and downlink packets leave.
    pub(super) ports: [Transmit; 2],
    pub(super) epoch: Epoch,
    pub(super) grid: Grid,
    pub(super) end: Time,
    pub(super) stop: Arc<AtomicBool>,
    pub(super) rows: Outbox<Row>,
    pub(super) tunnels: Inbox<(u32, Tunnel)>,
    /// What came out of the UPF, if traces wait for that.
    pub(super) came: Option<Inbox<Came>>,
    pub(super) tap: Option<Tap>,
}

/// What the sender did.
pub(super) struct Sent {
    pub(super) groups: Vec<[Volume; 2]>,
    /// Packets whose time came and that were not sent before the end, by group and direction.
    pub(super) unsent: Vec<[u64; 2]>,
    pub(super) unwritable: u64,
    /// By how many nanoseconds packets left after their time.
    pub(super) lateness: Histogram<u64>,
    pub(super) pacing: Account,
    /// Times the ring was full.
    pub(super) full: u64,
    /// When the last packet left.
    pub(super) last: Time,
    /// What waiting did to stateful traces.
    pub(super) waits: Waits,
}

impl Sender {
    /// Sends all packets at their times, until the end or until it is told to stop.
    pub(super) fn run(mut self) -> Result<(Sent, [Transmit; 2]), SetupError> {
        let mut pacer = Pacer::new(self.epoch, None, Options::default())?;
        let mut lateness = measure::delay_histogram();
        let mut groups = vec![[Volume::default(); 2]; self.generator.groups()];
        let (mut sample, mut worst, mut full, mut last) = (0, Span::ZERO, 0u64, Time::ZERO);
        let mut sample_end = self.grid.end(0);
        while let Some(due) = self.generator.next_due() {
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
            // Samples end while nothing is sent too; and what waits is let go as soon as it may.
            let mut now = pacer.now();
            let until = due.min(sample_end);
            match &self.came {
                None => now = pacer.wait(until),
                Some(came) => {
                    if now < until {
                        now = pacer.wait(until.min(now + GLANCE));
                    }
                    for came in came.try_iter() {
                        self.generator.arrived(now, &came);
                    }
                }
            }
            while now >= sample_end {
                for (session, tunnel) in self.tunnels.try_iter() {
                    self.generator.retunnel(session, tunnel);
                }
                let row = Row::Out { groups: groups.clone(), late: std::mem::take(&mut worst) };
                let _ = self.rows.send(row);
                sample += 1;
                sample_end = self.grid.end(sample);
            }
            if now >= self.end {
                break;
            }
            let mut busy = [false; 2];
            for _ in 0..BURST {
                let Some(due) = self.generator.due(now) else { break };
                let way = index(due.direction);
                let port = &mut self.ports[way];
                if port.slot().is_none() {
                    port.flush();
                }
                let Some(slot) = port.slot() else {
                    full += 1;
                    break;
                };
                let length = self.generator.write(now, slot.frame);
                if length == 0 {
                    continue;
                }
                if let Some(tap) = &mut self.tap {
                    tap.record(way as u16, Flows::Outbound, self.epoch.instant(now), &slot.frame[..length]);
                }
                *slot.tag = 0;
                port.commit(0..length);
                busy[way] = true;
                groups[due.group][way].add(length);
                let late = now.since(due.at);
                worst = worst.max(late);
                lateness.saturating_record(late.as_nanos());
                last = now;
            }
            for (port, _) in self.ports.iter_mut().zip(busy).filter(|(_, busy)| *busy) {
                port.flush();
            }
        }
        for port in &mut self.ports {
            // What still waits for room, unless the interface takes nothing any more.
            for _ in 0..1_000 {
                if port.queued() == 0 {
                    break;
                }
                port.flush();
            }
        }
        let _ = self.rows.send(Row::Out { groups: groups.clone(), late: worst });
        let stopped = self.stop.load(Ordering::Relaxed);
        let unsent = if stopped { vec![[0; 2]; groups.len()] } else { self.generator.drain() };
        let (unwritable, pacing) = (self.generator.unwritable(), pacer.account().clone());
        let waits = self.generator.waits();
        Ok((Sent { groups, unsent, unwritable, lateness, pacing, full, last, waits }, self.ports))
    }
}

/// A receiving thread.
pub(super) struct Listener {
    pub(super) receiver: Receiver,
    pub(super) direction: Direction,
    pub(super) ears: Ears,
    pub(super) groups: usize,
    pub(super) epoch: Epoch,
    pub(super) grid: Grid,
    pub(super) stop: Arc<AtomicBool>,
    pub(super) rows: Outbox<Row>,
    /// Where to tell what came, and of which groups it is wanted.
    pub(super) came: Option<(SyncSender<Came>, Vec<usize>)>,
    pub(super) tap: Option<Tap>,
}

/// What a receiver listens and answers by.
pub(super) struct Ears {
    pub(super) receive: Receive,
    pub(super) answers: Transmit,
    pub(super) neighbours: Neighbours,
}

/// What a receiver heard.
pub(super) struct Heard {
    pub(super) receiver: Receiver,
    /// Latencies in nanoseconds, of each group.
    pub(super) latencies: Vec<Histogram<u64>>,
    /// Frames the kernel dropped since the ring was full.
    pub(super) dropped: Option<u64>,
    pub(super) malformed: u64,
    /// Packets of stateful traces that could not be told of, as the sender had too many to look at.
    pub(super) untold: u64,
}

impl Listener {
    /// Takes all that comes, until it is told to stop.
    pub(super) fn run(mut self) -> (Heard, Ears) {
        let mut latencies = vec![measure::delay_histogram(); self.groups];
        let mut sums = vec![Arrived::default(); self.groups];
        let (mut sample, mut malformed, mut untold) = (0, 0, 0);
        let mut sample_end = self.grid.end(0);
        // The other side of the UPF than where the packets went in.
        let side = 1 - index(self.direction) as u16;
        while !self.stop.load(Ordering::Relaxed) {
            let Self { receiver, ears, epoch, rows, tap, grid, direction, came, .. } = &mut self;
            let Ears { receive, answers, neighbours } = ears;
            let received = receive.receive(BATCH, |frame, at| {
                let now = epoch.time_at(at);
                while now >= sample_end {
                    let _ = rows.send(Row::In { direction: *direction, groups: close(&mut sums) });
                    sample += 1;
                    sample_end = grid.end(sample);
                }
                if let Some(tap) = tap {
                    tap.record(side, Flows::Inbound, at, frame);
                }
                match receiver.receive(now, frame) {
                    load::Heard::User(user) => {
                        if let Some((outbox, groups)) = came
                            && groups.contains(&user.group)
                        {
                            untold += u64::from(outbox.try_send(told(*direction, &user, receiver, frame)).is_err());
                        }
                        let sum = &mut sums[user.group];
                        sum.volume.add(frame.len());
                        if let Some(latency) = user.latency {
                            sum.timed += 1;
                            sum.latency_ns = sum.latency_ns.saturating_add(latency.as_nanos());
                            sum.max = sum.max.max(latency);
                            latencies[user.group].saturating_record(latency.as_nanos());
                        }
                    }
                    load::Heard::Tunnel(_) => {
                        if let Some(response) = answer(frame) {
                            answers.send(&[&response]);
                        }
                    }
                    load::Heard::Other => {
                        let headers = Headers::parse(frame);
                        neighbours.handle(frame, &headers, |answer| _ = answers.send(&[answer]));
                    }
                }
            });
            malformed += received.malformed as u64;
            if received.frames == 0 {
                let now = self.epoch.time();
                while now >= sample_end + SETTLE {
                    let _ = self.rows.send(Row::In { direction: self.direction, groups: close(&mut sums) });
                    sample += 1;
                    sample_end = self.grid.end(sample);
                }
                self.ears.receive.wait(NAP);
            }
        }
        let _ = self.rows.send(Row::In { direction: self.direction, groups: close(&mut sums) });
        let dropped = self.ears.receive.kernel_drops().ok();
        (Heard { receiver: self.receiver, latencies, dropped, malformed, untold }, self.ears)
    }
}

/// What the sender is told of a packet that came.
fn told(direction: Direction, user: &UserPacket, receiver: &Receiver, frame: &[u8]) -> Came {
    let what = match (user.packet, user.arrival) {
        (Some(packet), Some((flow, _))) => {
            CameWhat::Stamped { instance: flow.wrapping_sub(receiver.first_flow(user.group)), packet }
        }
        _ => {
            let mut bytes = [0; SHORT];
            let packet = frame.get(user.at.0..user.at.1).unwrap_or_default();
            let length = packet.len().min(SHORT);
            bytes[..length].copy_from_slice(&packet[..length]);
            CameWhat::Short { length: length as u8, bytes }
        }
    };
    Came { group: user.group as u16, direction, ue: user.ue, what }
}

/// The sums so far; the largest of the sample begins anew.
fn close(sums: &mut [Arrived]) -> Vec<Arrived> {
    let row = sums.to_vec();
    sums.iter_mut().for_each(|sum| sum.max = Span::ZERO);
    row
}
