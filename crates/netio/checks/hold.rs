//! A link that holds every packet for the same time.

use std::collections::VecDeque;

use engine::{Element, Output, Packet, Port, Span, Time};
use netio::SetupError;
use netio::executor::CellSpec;
use netio::port::{Choice, Kind, Wire};

use crate::common::{Site, cell_between, two_sites};

/// Holds every packet for the same time.
pub(crate) struct Hold {
    delay: Span,
    held: VecDeque<Packet>,
    due: usize,
}

impl Hold {
    pub(crate) fn new(delay: Span) -> Self {
        Self { delay, held: VecDeque::new(), due: 0 }
    }

    /// Changes the delay of packets to come.
    pub(crate) fn set_delay(&mut self, delay: Span) {
        self.delay = delay;
    }
}

impl Element for Hold {
    fn handle(&mut self, now: Time, _: Port, mut packet: Packet) {
        packet.launch = now + self.delay;
        self.held.push_back(packet);
    }

    fn tick(&mut self, now: Time) {
        self.due = self.held.iter().take_while(|packet| packet.launch <= now).count();
    }

    fn deadline(&self) -> Option<Time> {
        self.held.front().map(|packet| packet.launch)
    }

    fn poll(&mut self) -> Option<Output> {
        self.due = self.due.checked_sub(1)?;
        self.held.pop_front().map(|packet| Output::Transmit { port: 0, packet })
    }
}

/// Two sites with such a link between them.
pub(crate) fn held_sites(kind: Kind, delay: Span, mtu: u32) -> Result<([Site; 2], CellSpec, Choice), SetupError> {
    let (sites, wires, choice) = two_sites(kind, mtu)?;
    Ok((sites, held(wires, delay), choice))
}

/// The link between two wires.
pub(crate) fn held(wires: [Wire; 2], delay: Span) -> CellSpec {
    cell_between(wires, [Hold::new(delay), Hold::new(delay)])
}
