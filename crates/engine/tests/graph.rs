//! The graph keeps its promises: the order of things at one instant, and the same outputs however
//! late the executor comes.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic too")]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use engine::{DropReason, Element, Event, ExitId, Graph, NodeId, Outlet, Output, Packet, Port, Random, Span, Time};
use proptest::prelude::*;

/// What left a graph, in order.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen(Vec<Left>);

#[derive(Debug, PartialEq, Eq)]
enum Left {
    Sent { exit: usize, id: u64, arrived: Time, launch: Time },
    Consumed(u64),
    Dropped { at: Time, node: NodeId, reason: DropReason, id: u64 },
    Told { at: Time, node: NodeId, event: Event },
}

impl Outlet for Seen {
    fn transmit(&mut self, ExitId(exit): ExitId, packet: Packet) {
        self.0.push(Left::Sent { exit, id: packet.id, arrived: packet.arrived, launch: packet.launch });
    }
    fn consume(&mut self, packet: Packet) {
        self.0.push(Left::Consumed(packet.id));
    }
    fn discard(&mut self, at: Time, node: NodeId, reason: DropReason, packet: Packet) {
        self.0.push(Left::Dropped { at, node, reason, id: packet.id });
    }
    fn event(&mut self, at: Time, node: NodeId, event: Event) {
        self.0.push(Left::Told { at, node, event });
    }
}

impl Seen {
    fn launches(&self) -> Vec<u64> {
        let launch = |left: &Left| if let Left::Sent { launch, .. } = left { Some(launch.as_nanos()) } else { None };
        self.0.iter().filter_map(launch).collect()
    }
}

fn at(nanos: u64) -> Time {
    Time::from_nanos(nanos)
}

fn packet() -> Packet {
    Packet::new(vec![0; 60])
}

type Calls = Arc<Mutex<Vec<String>>>;

/// Sends each packet on as it comes, ticks when it was told to, and writes down every call.
struct Witness {
    name: &'static str,
    calls: Calls,
    ticks: VecDeque<Time>,
    out: VecDeque<Output>,
}

impl Witness {
    fn new(name: &'static str, calls: &Calls, ticks: &[u64]) -> Self {
        let ticks = ticks.iter().map(|&tick| at(tick)).collect();
        Self { name, calls: Arc::clone(calls), ticks, out: VecDeque::new() }
    }

    fn note(&self, what: &str, now: Time) {
        self.calls.lock().unwrap().push(format!("{} {what} {}", self.name, now.as_nanos()));
    }
}

impl Element for Witness {
    fn handle(&mut self, now: Time, port: Port, packet: Packet) {
        self.note(&format!("takes by {port}"), now);
        self.out.push_back(Output::Transmit { port: 0, packet });
    }
    fn tick(&mut self, now: Time) {
        assert_eq!(self.ticks.pop_front(), Some(now), "ticked at another time than asked for");
        self.note("ticks", now);
        self.out.push_back(Output::Transmit { port: 0, packet: packet() });
    }
    fn deadline(&self) -> Option<Time> {
        self.ticks.front().copied()
    }
    fn poll(&mut self) -> Option<Output> {
        self.out.pop_front()
    }
}

#[test]
fn at_one_instant_inputs_come_first_then_deadlines_as_added_then_what_these_send() {
    let calls = Calls::default();
    let mut graph = Graph::new();
    // Added in another order than that of their names or wires.
    let sink = graph.add("sink", Witness::new("sink", &calls, &[]));
    let late = graph.add("second", Witness::new("second", &calls, &[50]));
    let first = graph.add("first", Witness::new("first", &calls, &[50]));
    let chain = graph.add("chain", Witness::new("chain", &calls, &[]));
    graph.connect((late, 0), (sink, 2));
    graph.connect((first, 0), (chain, 0));
    graph.connect((chain, 0), (sink, 3));
    graph.connect_exit((sink, 0), ExitId(7));
    let mut seen = Seen::default();
    graph.inject(at(50), (sink, 0), packet(), &mut seen);
    graph.inject(at(50), (first, 1), packet(), &mut seen);
    graph.advance(at(50), &mut seen);
    assert_eq!(
        *calls.lock().unwrap(),
        [
            "sink takes by 0 50",
            "first takes by 1 50",
            // What the inputs lead to at once.
            "chain takes by 0 50",
            "sink takes by 3 50",
            // Deadlines of the instant, in the order of `add`.
            "second ticks 50",
            "first ticks 50",
            // Breadth first: `second`'s packet and `first`'s, then what `chain` makes of the latter.
            "sink takes by 2 50",
            "chain takes by 0 50",
            "sink takes by 3 50",
        ]
    );
    assert_eq!(seen.launches(), [50; 4]);
    assert_eq!(graph.deadline(), None);
    assert_eq!(graph.now(), at(50));
}

/// Holds each packet for a time drawn from its stream, and loses some.
struct Jitter {
    random: Random,
    most: u64,
    loss: f64,
    held: Vec<Packet>,
    out: VecDeque<Output>,
}

const LOST: DropReason = DropReason("lost");

impl Jitter {
    fn new(label: &str, most: u64, loss: f64) -> Self {
        Self { random: Random::stream(1, label), most, loss, held: Vec::new(), out: VecDeque::new() }
    }
}

impl Element for Jitter {
    fn handle(&mut self, now: Time, _: Port, mut packet: Packet) {
        if self.random.chance(self.loss) {
            self.out.push_back(Output::Event(Event { what: "loss", value: packet.id }));
            self.out.push_back(Output::Drop { reason: LOST, packet });
            return;
        }
        packet.launch = now + Span::from_nanos(1 + self.random.below(self.most));
        self.held.push(packet);
        self.held.sort_by_key(|held| (held.launch, held.id));
    }
    fn tick(&mut self, now: Time) {
        let due = self.held.partition_point(|held| held.launch <= now);
        self.out.extend(self.held.drain(..due).map(|packet| Output::Transmit { port: 0, packet }));
    }
    fn deadline(&self) -> Option<Time> {
        self.held.first().map(|held| held.launch)
    }
    fn poll(&mut self) -> Option<Output> {
        self.out.pop_front()
    }
}

/// Two ways in that meet, a way out, and elements that draw lots.
fn meeting() -> (Graph, [NodeId; 2]) {
    let mut graph = Graph::new();
    let ways = ["left", "right"].map(|name| graph.add(name, Jitter::new(name, 40, 0.1)));
    let last = graph.add("last", Jitter::new("last", 25, 0.1));
    for (port, way) in ways.into_iter().enumerate() {
        graph.connect((way, 0), (last, port));
    }
    graph.connect_exit((last, 0), ExitId(0));
    (graph, ways)
}

/// An executor that is there for every deadline.
fn punctual(inputs: &[(u64, usize)], end: u64) -> Seen {
    let (mut graph, ways) = meeting();
    let mut seen = Seen::default();
    for &(when, way) in inputs {
        while let Some(deadline) = graph.deadline().filter(|&deadline| deadline < at(when)) {
            graph.advance(deadline, &mut seen);
            assert_eq!(graph.now(), deadline);
        }
        graph.inject(at(when), (ways[way], 0), packet(), &mut seen);
    }
    while let Some(deadline) = graph.deadline().filter(|&deadline| deadline <= at(end)) {
        graph.advance(deadline, &mut seen);
    }
    seen
}

#[test]
fn a_late_wake_up_changes_no_output() {
    let inputs: Vec<(u64, usize)> = (0..200).map(|n| (n * 7, n as usize % 2)).collect();
    let (mut graph, ways) = meeting();
    let mut late = Seen::default();
    for &(when, way) in &inputs {
        graph.inject(at(when), (ways[way], 0), packet(), &mut late);
    }
    graph.advance(at(1_000_000), &mut late);
    assert_eq!(late, punctual(&inputs, 1_000_000));
    assert!(late.launches().iter().all(|&launch| launch < 200 * 7 + 65), "{:?}", late.launches().last());
    assert_eq!(graph.now(), at(1_000_000));
}

proptest! {
    #[test]
    fn punctual_and_late_executors_give_the_same(
        gaps in prop::collection::vec((0_u64..30, 0_usize..2), 1..120),
        wakes in prop::collection::vec(0_u64..2_000, 0..40),
    ) {
        let mut now = 0;
        let inputs: Vec<(u64, usize)> = gaps.into_iter().map(|(gap, way)| { now += gap; (now, way) }).collect();
        let end = now + 200;
        let (mut graph, ways) = meeting();
        let mut late = Seen::default();
        for &(when, way) in &inputs {
            // Wakes between two inputs, at any time that is no deadline's in particular. The inputs
            // of an instant come before its deadlines, hence none at the instant itself.
            let before = graph.now().as_nanos();
            for &wake in wakes.iter().filter(|&&wake| wake > before && wake < when) {
                graph.advance(at(wake), &mut late);
            }
            graph.inject(at(when), (ways[way], 0), packet(), &mut late);
        }
        graph.advance(at(end), &mut late);
        prop_assert_eq!(late.0, punctual(&inputs, end).0);
    }
}

#[test]
fn what_is_handed_in_for_the_past_happens_now() {
    let (mut graph, ways) = meeting();
    let mut seen = Seen::default();
    graph.advance(at(1_000), &mut seen);
    for _ in 0..20 {
        graph.inject(at(10), (ways[0], 0), packet(), &mut seen);
    }
    assert_eq!(graph.now(), at(1_000));
    graph.advance(at(2_000), &mut seen);
    let sent = seen.0.iter().filter_map(|left| match left {
        Left::Sent { arrived, launch, .. } => Some((*arrived, *launch)),
        _ => None,
    });
    let sent: Vec<_> = sent.collect();
    assert!(sent.len() > 10);
    assert!(sent.iter().all(|&(arrived, launch)| arrived == at(1_000) && launch > at(1_000)), "{sent:?}");
}

#[test]
fn a_clock_told_an_earlier_time_stands_still() {
    let (mut graph, _) = meeting();
    let mut seen = Seen::default();
    graph.advance(at(100), &mut seen);
    graph.advance(at(40), &mut seen);
    assert_eq!(graph.now(), at(100));
}

#[test]
fn an_output_that_leads_nowhere_drops_with_its_reason() {
    let calls = Calls::default();
    let mut graph = Graph::new();
    let node = graph.add("alone", Witness::new("alone", &calls, &[]));
    let mut seen = Seen::default();
    graph.inject(at(5), (node, 0), packet(), &mut seen);
    graph.advance(at(5), &mut seen);
    let reason = DropReason("unconnected output");
    assert_eq!(seen.0, [Left::Dropped { at: at(5), node, reason, id: 0 }]);
}

#[test]
fn drops_and_events_carry_their_time_and_place_and_no_packet_is_lost_count_of() {
    let (mut graph, ways) = meeting();
    let mut seen = Seen::default();
    for n in 0..1_000 {
        graph.inject(at(n * 10), (ways[0], 0), packet(), &mut seen);
    }
    graph.advance(at(20_000), &mut seen);
    let sent = seen.launches().len();
    let dropped = seen.0.iter().filter(|left| matches!(left, Left::Dropped { reason: LOST, .. })).count();
    assert_eq!(sent + dropped, 1_000);
    assert!(dropped > 100, "{dropped} of 1000 lost at 10 % twice");
    for pair in seen.0.windows(2) {
        // Each loss is told just before it.
        if let [Left::Told { at, node, event }, next] = pair {
            let reason = LOST;
            assert_eq!(*next, Left::Dropped { at: *at, node: *node, reason, id: event.value });
        }
    }
}

/// Ticks once, at a time that can be changed from outside.
struct Alarm(Option<Time>, Option<Packet>);

impl Element for Alarm {
    fn handle(&mut self, _: Time, _: Port, _: Packet) {}
    fn tick(&mut self, now: Time) {
        assert_eq!(self.0.take(), Some(now));
        self.1 = Some(packet());
    }
    fn deadline(&self) -> Option<Time> {
        self.0
    }
    fn poll(&mut self) -> Option<Output> {
        self.1.take().map(|packet| Output::Transmit { port: 0, packet })
    }
}

#[test]
fn a_changed_element_is_asked_for_its_deadline_again() {
    let mut graph = Graph::new();
    let node = graph.add("alarm", Alarm(Some(at(100)), None));
    graph.connect_exit((node, 0), ExitId(0));
    let mut seen = Seen::default();
    graph.advance(at(10), &mut seen);
    assert_eq!(graph.deadline(), Some(at(100)));

    // Later: the old deadline is stale.
    graph.element_mut::<Alarm>(node).unwrap().0 = Some(at(300));
    assert_eq!(graph.deadline(), Some(at(10)), "what a changed element gives out is due at once");
    graph.advance(at(200), &mut seen);
    assert_eq!(seen.launches(), []);
    assert_eq!(graph.deadline(), Some(at(300)));

    // Earlier.
    graph.element_mut::<Alarm>(node).unwrap().0 = Some(at(250));
    graph.advance(at(400), &mut seen);
    assert_eq!(seen.launches(), [250]);
    assert_eq!(graph.deadline(), None);

    // Without a deadline, and then with one again.
    graph.element_mut::<Alarm>(node).unwrap().0 = Some(at(500));
    graph.advance(at(410), &mut seen);
    graph.element_mut::<Alarm>(node).unwrap().0 = None;
    graph.advance(at(600), &mut seen);
    assert_eq!(seen.launches(), [250]);
    graph.element_mut::<Alarm>(node).unwrap().0 = Some(at(600));
    graph.advance(at(600), &mut seen);
    assert_eq!(seen.launches(), [250, 600]);
}

#[test]
fn elements_are_found_by_their_type_and_called_by_their_name() {
    let (graph, ways) = meeting();
    assert_eq!(graph.nodes().map(|node| graph.name(node)).collect::<Vec<_>>(), ["left", "right", "last"]);
    assert!(graph.element::<Jitter>(ways[0]).is_some());
    assert!(graph.element::<Alarm>(ways[0]).is_none());
}
