//! The flows of one cell through the phases of its time.

use std::sync::mpsc::SyncSender;
use std::time::Instant;

use engine::Time;
use measure::Observation;
use traffic::Application;

use super::flow::Flow;
use super::{EndpointError, FlowSpec, Timing};
use crate::clock::Epoch;
use crate::waiting::Epoll;

/// One cell's flows.
pub(super) struct Session {
    flows: Vec<Flow>,
    timing: Timing,
    phase: Phase,
    /// Who is told when the flows begin.
    begins: SyncSender<Instant>,
}

/// What is to be done next with a session.
pub(super) enum Next {
    /// Serve it at that time, or when a socket is ready.
    At(Time),
    /// Serve it again at once: there was more to do than one turn allows.
    Again,
    /// It has ended: what each flow leaves, in order, and how many replies found no room.
    Ended(Vec<Left>, Option<u64>),
}

/// What a flow leaves: what was seen of it, and its applications if it has any.
pub(super) type Left = (Observation, Option<[Box<dyn Application>; 2]>);

#[derive(Clone, Copy)]
enum Phase {
    /// Not begun.
    New,
    /// Connections are being made; nothing is sent.
    Connecting { until: Time },
    /// Flows run; `snapshot` is when the counters are read next.
    Running { measured: (Time, Time), snapshot: Time },
    /// Nothing new is sent; the last datagrams arrive.
    Draining { until: Time },
}

impl Session {
    pub(super) fn new(
        flows: Vec<FlowSpec>,
        timing: Timing,
        begins: SyncSender<Instant>,
    ) -> Result<Self, EndpointError> {
        let flows =
            flows.into_iter().zip(0..).map(|(spec, number)| Flow::new(spec, number)).collect::<Result<_, _>>()?;
        Ok(Self { flows, timing, phase: Phase::New, begins })
    }

    /// Does all that is due. The clock is read as things happen, not once: a turn may take long.
    pub(super) fn run(&mut self, clock: &Epoch, epoll: &Epoll, token: u64) -> Next {
        let mut again = false;
        for flow in &mut self.flows {
            again |= flow.receive(clock, epoll, token);
        }
        let now = clock.time();
        self.proceed(now, epoll, token);
        for flow in &mut self.flows {
            again |= flow.send(clock);
        }
        if again {
            return Next::Again;
        }
        let phase = match self.phase {
            Phase::New => now,
            Phase::Connecting { until } => until,
            Phase::Running { snapshot, .. } => snapshot,
            Phase::Draining { .. } if self.flows.iter().all(Flow::is_complete) => return self.end(),
            Phase::Draining { until } if until <= now => return self.end(),
            Phase::Draining { until } => until,
        };
        let flows = self.flows.iter().filter_map(Flow::deadline).min();
        Next::At(flows.map_or(phase, |flows| flows.min(phase)))
    }

    /// Moves from phase to phase as far as `now` allows.
    fn proceed(&mut self, now: Time, epoll: &Epoll, token: u64) {
        loop {
            match self.phase {
                Phase::New => {
                    for flow in &mut self.flows {
                        flow.open(now, epoll, token);
                    }
                    self.phase = Phase::Connecting { until: now + self.timing.connect };
                }
                Phase::Connecting { until } if until <= now || self.flows.iter().all(Flow::is_ready) => {
                    // It is told once, and there is room; nobody may want to know.
                    let _ = self.begins.try_send(Instant::now());
                    let start = now + self.timing.warmup;
                    let measured = (start, start + self.timing.duration);
                    for flow in &mut self.flows {
                        flow.begin(now, measured);
                    }
                    self.phase = Phase::Running { measured, snapshot: start };
                }
                Phase::Running { measured: (start, end), snapshot } if snapshot <= now => {
                    for flow in &mut self.flows {
                        flow.snapshot(now);
                    }
                    // From the start in whole intervals, so that a late wake-up does not add up.
                    let passed = snapshot.since(start) + self.timing.interval;
                    self.phase = if snapshot >= end {
                        Phase::Draining { until: now + self.timing.drain }
                    } else {
                        Phase::Running { measured: (start, end), snapshot: (start + passed).min(end) }
                    };
                }
                _ => return,
            }
        }
    }

    fn end(&mut self) -> Next {
        let refused = self.flows.iter().map(Flow::refused).sum();
        Next::Ended(self.flows.drain(..).map(Flow::into_left).collect(), refused)
    }
}
