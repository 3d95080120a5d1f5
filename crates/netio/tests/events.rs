//! What elements tell while they run.

use std::time::{Duration, Instant};

use engine::{Element, Event, Graph, Output, Packet, Port, Span, Time};
use netio::clock::Epoch;
use netio::executor::{CellSpec, Dataplane, EVENTS_MAX, Happened, Options};

/// Tells a number once a millisecond, and in the last of them many more.
struct Counts {
    ticks: u64,
    told: Vec<u64>,
}

impl Element for Counts {
    fn handle(&mut self, _: Time, _: Port, _: Packet) {}

    fn tick(&mut self, now: Time) {
        while self.deadline().is_some_and(|at| at <= now) {
            let many = if self.ticks == 2 { EVENTS_MAX as u64 } else { 1 };
            self.told.extend(std::iter::repeat_n(self.ticks, many as usize));
            self.ticks += 1;
        }
    }

    fn deadline(&self) -> Option<Time> {
        (self.ticks < 3).then(|| Time::ZERO + Span::from_millis(self.ticks))
    }

    fn poll(&mut self) -> Option<Output> {
        let value = (!self.told.is_empty()).then(|| self.told.remove(0))?;
        Some(Output::Event(Event { what: "tick", value }))
    }
}

#[test]
fn events_wait_until_they_are_taken_and_those_beyond_the_limit_are_counted() {
    let mut graph = Graph::new();
    let node = graph.add("clock", Counts { ticks: 0, told: Vec::new() });
    let dataplane = Dataplane::start(Options::default()).unwrap();
    let spec = CellSpec { epoch: Epoch::now(), graph, wires: Vec::new(), late: Span::from_millis(1) };
    let cell = dataplane.add(spec).unwrap();
    let begin = Instant::now();
    while cell.ask(move |graph| graph.element::<Counts>(node).unwrap().ticks).unwrap() < 3 {
        assert!(begin.elapsed() < Duration::from_secs(30), "never: three ticks");
    }
    let (told, unheard) = cell.events().unwrap();
    assert_eq!((told.len(), unheard), (EVENTS_MAX, 2));
    let first = Happened { at: told[0].at, place: "clock".into(), event: Event { what: "tick", value: 0 } };
    assert_eq!(told[0], first);
    let values: Vec<u64> = told.iter().map(|happened| happened.event.value).collect();
    assert_eq!(values[1..3], [1, 2]);
    assert_eq!(cell.events().unwrap(), (Vec::new(), 0));
}
