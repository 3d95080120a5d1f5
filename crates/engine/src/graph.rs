//! Elements joined to each other: what both executors drive.

use alloc::boxed::Box;
use alloc::collections::{BinaryHeap, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use core::any::Any;
use core::cmp::Reverse;

use crate::{DropReason, Element, Event, Output, Packet, Port, Time};

/// An element of a [`Graph`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(usize);

/// A place where packets leave a [`Graph`]: one wire of the executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExitId(pub usize);

/// Takes what leaves a [`Graph`].
pub trait Outlet {
    /// A packet leaves by `exit`; it was to be on the wire at `packet.launch`.
    fn transmit(&mut self, exit: ExitId, packet: Packet);

    /// A packet reached its destination inside the graph; its buffer is free.
    fn consume(&mut self, packet: Packet) {
        drop(packet);
    }

    /// A packet was dropped at `node`.
    fn discard(&mut self, at: Time, node: NodeId, reason: DropReason, packet: Packet);

    /// Something happened at `node`.
    fn event(&mut self, at: Time, node: NodeId, event: Event);
}

/// Elements and the wires between them, with a clock that only moves as it is told.
///
/// The graph runs in logical time: an element's deadline is served at exactly that time, however
/// late the executor comes. The real executor calls [`advance`](Self::advance) with the time it
/// woke up at, and so a late wake-up delays what leaves the graph then but never adds up; in
/// virtual time the executor calls it with the end of the run and waits for nothing. Both give the
/// same outputs for the same inputs.
///
/// Several things at one instant happen in this order: packets handed in, in order; deadlines, in
/// the order the elements were added; what these send on, breadth first.
#[derive(Default)]
pub struct Graph {
    nodes: Vec<Node>,
    /// Deadlines, earliest first. An entry that is not its node's `armed` any more is stale.
    deadlines: BinaryHeap<Reverse<(Time, NodeId)>>,
    arrivals: VecDeque<(NodeId, Port, Packet)>,
    touched: Vec<NodeId>,
    now: Time,
    packets: u64,
}

struct Node {
    name: String,
    element: Box<dyn Element>,
    wiring: Vec<Option<Target>>,
    armed: Option<Time>,
    touched: bool,
}

#[derive(Clone, Copy)]
enum Target {
    Node(NodeId, Port),
    Exit(ExitId),
}

/// A packet came out of an output that leads nowhere.
const UNCONNECTED: DropReason = DropReason("unconnected output");

impl Graph {
    /// A graph without elements, at the epoch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an element; `name` is what records call it.
    pub fn add(&mut self, name: impl Into<String>, element: impl Element) -> NodeId {
        let id = NodeId(self.nodes.len());
        self.nodes.push(Node {
            name: name.into(),
            element: Box::new(element),
            wiring: Vec::new(),
            armed: None,
            touched: false,
        });
        // Its first deadline is read when the clock first moves.
        self.touch(id);
        id
    }

    /// Leads an element's output to another's input.
    pub fn connect(&mut self, (from, output): (NodeId, Port), (to, input): (NodeId, Port)) {
        self.wire(from, output, Target::Node(to, input));
    }

    /// Leads an element's output out of the graph.
    pub fn connect_exit(&mut self, (from, output): (NodeId, Port), exit: ExitId) {
        self.wire(from, output, Target::Exit(exit));
    }

    fn wire(&mut self, from: NodeId, output: Port, target: Target) {
        let wiring = &mut self.nodes[from.0].wiring;
        if wiring.len() <= output {
            wiring.resize_with(output + 1, || None);
        }
        wiring[output] = Some(target);
    }

    /// The name an element was added with.
    #[must_use]
    pub fn name(&self, node: NodeId) -> &str {
        &self.nodes[node.0].name
    }

    /// All elements, in the order they were added.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.nodes.len()).map(NodeId)
    }

    /// An element, if it is of type `T`: to read its counters.
    #[must_use]
    pub fn element<T: Element>(&self, node: NodeId) -> Option<&T> {
        let element: &dyn Any = &*self.nodes[node.0].element;
        element.downcast_ref()
    }

    /// An element, if it is of type `T`, to change it at the graph's present time. Its deadline is
    /// read again, and what it gives out is sent on, when the clock next moves.
    pub fn element_mut<T: Element>(&mut self, node: NodeId) -> Option<&mut T> {
        self.touch(node);
        let element: &mut dyn Any = &mut *self.nodes[node.0].element;
        element.downcast_mut()
    }

    /// The graph's present time.
    #[must_use]
    pub fn now(&self) -> Time {
        self.now
    }

    /// When something is to happen next: the executor sleeps until then.
    pub fn deadline(&mut self) -> Option<Time> {
        if !self.touched.is_empty() {
            return Some(self.now);
        }
        while let Some(&Reverse((at, id))) = self.deadlines.peek() {
            if self.nodes[id.0].armed == Some(at) {
                return Some(at);
            }
            self.deadlines.pop();
        }
        None
    }

    /// Hands a packet to an input at time `at` (or now, if that has passed). Its effects happen at
    /// the next [`advance`](Self::advance); inputs of one instant are handled as one batch.
    pub fn inject(&mut self, at: Time, (node, port): (NodeId, Port), mut packet: Packet, outlet: &mut impl Outlet) {
        if at > self.now {
            self.advance_to(at, false, outlet);
        }
        packet.id = self.packets;
        self.packets += 1;
        packet.arrived = self.now;
        packet.launch = self.now;
        self.touch(node);
        self.nodes[node.0].element.handle(self.now, port, packet);
    }

    /// Moves the clock to `until` and does all that is due up to and including it.
    pub fn advance(&mut self, until: Time, outlet: &mut impl Outlet) {
        self.advance_to(until, true, outlet);
    }

    /// With `inclusive` false, deadlines at `until` itself are left for inputs of that instant to
    /// come first.
    fn advance_to(&mut self, until: Time, inclusive: bool, outlet: &mut impl Outlet) {
        self.settle(outlet);
        while let Some(at) = self.deadline() {
            if at > until || (at == until && !inclusive) {
                break;
            }
            self.now = at.max(self.now);
            while let Some(&Reverse((deadline, id))) = self.deadlines.peek() {
                if deadline > at {
                    break;
                }
                self.deadlines.pop();
                let node = &mut self.nodes[id.0];
                if node.armed == Some(deadline) {
                    node.armed = None;
                    node.element.tick(self.now);
                    self.touch(id);
                }
            }
            self.settle(outlet);
        }
        self.now = until.max(self.now);
    }

    fn touch(&mut self, id: NodeId) {
        let node = &mut self.nodes[id.0];
        if !node.touched {
            node.touched = true;
            self.touched.push(id);
        }
    }

    /// Polls every element that was touched, and hands on what comes out, until nothing does.
    fn settle(&mut self, outlet: &mut impl Outlet) {
        while !self.touched.is_empty() {
            let mut touched = core::mem::take(&mut self.touched);
            touched.sort_unstable();
            for &id in &touched {
                self.poll_dry(id, outlet);
            }
            touched.clear();
            // Nothing was touched meanwhile: `poll_dry` only queues arrivals.
            self.touched = touched;
            while let Some((id, port, packet)) = self.arrivals.pop_front() {
                self.touch(id);
                self.nodes[id.0].element.handle(self.now, port, packet);
            }
        }
    }

    fn poll_dry(&mut self, id: NodeId, outlet: &mut impl Outlet) {
        let node = &mut self.nodes[id.0];
        node.touched = false;
        while let Some(output) = node.element.poll() {
            match output {
                Output::Transmit { port, mut packet } => {
                    packet.launch = packet.launch.max(self.now);
                    match node.wiring.get(port).copied().flatten() {
                        Some(Target::Node(to, input)) => self.arrivals.push_back((to, input, packet)),
                        Some(Target::Exit(exit)) => outlet.transmit(exit, packet),
                        None => outlet.discard(self.now, id, UNCONNECTED, packet),
                    }
                }
                Output::Consume { packet } => outlet.consume(packet),
                Output::Drop { reason, packet } => outlet.discard(self.now, id, reason, packet),
                Output::Event(event) => outlet.event(self.now, id, event),
            }
        }
        let deadline = node.element.deadline();
        if deadline != node.armed {
            node.armed = deadline;
            if let Some(at) = deadline {
                self.deadlines.push(Reverse((at, id)));
            }
        }
    }
}
