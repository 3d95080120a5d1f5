//! The one contract.

use core::any::Any;
use core::fmt;

use crate::{Packet, Time};

/// Number of an element's input or output, from 0, as the element's own documentation names them.
pub type Port = usize;

/// A mechanism a packet passes: link, shaper, adapter, transport, user-plane peer, modelled host.
///
/// An element is a state machine without input or output of its own. Time, packets and randomness
/// (a seeded [`Random`](crate::Random) given at construction) are handed in. The same seed and the
/// same calls give byte-identical outputs.
///
/// # Order of calls
///
/// 1. `now` never decreases from one call to the next.
/// 2. At one `now`: any number of [`handle`](Self::handle) and at most one [`tick`](Self::tick), then
///    [`poll`](Self::poll) until it returns `None`, then [`deadline`](Self::deadline).
/// 3. If the deadline comes before the next packet, `tick` is called with `now` equal to it. Inputs
///    of the same instant are handled before the tick.
/// 4. After a tick at `now` has been polled dry, the deadline is later than `now` or `None`.
/// 5. Every packet handed in comes back exactly once: transmitted, consumed, or dropped with its
///    reason (an element that duplicates makes a new packet).
///
/// ```
/// use engine::{Element, Output, Packet, Port, Span, Time};
///
/// /// Holds each packet for one millisecond.
/// struct Wait(std::collections::VecDeque<Packet>, Vec<Packet>);
///
/// impl Element for Wait {
///     fn handle(&mut self, now: Time, _: Port, mut packet: Packet) {
///         packet.launch = now + Span::from_millis(1);
///         self.0.push_back(packet);
///     }
///     fn tick(&mut self, now: Time) {
///         while self.0.front().is_some_and(|p| p.launch <= now) {
///             self.1.extend(self.0.pop_front());
///         }
///     }
///     fn deadline(&self) -> Option<Time> {
///         self.0.front().map(|p| p.launch)
///     }
///     fn poll(&mut self) -> Option<Output> {
///         self.1.pop().map(|packet| Output::Transmit { port: 0, packet })
///     }
/// }
///
/// let mut element = Wait(Default::default(), Vec::new());
/// let mut now = Time::ZERO;
/// element.handle(now, 0, Packet::new(vec![0; 60]));
/// let mut sent = Vec::new();
/// loop {
///     while let Some(output) = element.poll() {
///         if let Output::Transmit { packet, .. } = output {
///             sent.push((now, packet));
///         }
///     }
///     let Some(deadline) = element.deadline() else { break };
///     now = deadline; // an executor waits here; in virtual time nobody does
///     element.tick(now);
/// }
/// assert_eq!(sent[0].0, Time::from_nanos(1_000_000));
/// ```
pub trait Element: Any + Send {
    /// A packet arrived on an input.
    fn handle(&mut self, now: Time, port: Port, packet: Packet);

    /// A deadline has come.
    fn tick(&mut self, now: Time);

    /// When `tick` is wanted next, if at all.
    fn deadline(&self) -> Option<Time>;

    /// The next output, until there is none.
    fn poll(&mut self) -> Option<Output>;
}

/// What an element gives back.
#[derive(Debug)]
pub enum Output {
    /// A packet leaves by an output.
    Transmit {
        /// The output.
        port: Port,
        /// The packet.
        packet: Packet,
    },
    /// A packet arrived where it was meant to: a modelled host took its contents.
    Consume {
        /// The packet, so that its buffer is used again.
        packet: Packet,
    },
    /// A packet ends here against its sender's wish.
    Drop {
        /// Why.
        reason: DropReason,
        /// The packet, so that its buffer is used again.
        packet: Packet,
    },
    /// Something worth a line in the record.
    Event(Event),
}

/// The name of a reason for a drop, as it stands in every count and report.
///
/// Each crate defines its own as constants; no packet ends without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DropReason(pub &'static str);

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// Something that happened inside an element, for the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// What happened, in a few words of the element's documentation.
    pub what: &'static str,
    /// A number that goes with it; its unit is part of `what`'s documentation.
    pub value: u64,
}
