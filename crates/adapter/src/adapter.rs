//! The element.

use alloc::collections::VecDeque;

use engine::{Element, Output, Packet, Port, Time};

use crate::config::{AdapterConfig, ConfigError};
use crate::counters::{Counters, LINE_DOWN};

/// The LAN: Ethernet frames.
pub const LAN: Port = 0;
/// The line: runs of characters.
pub const LINE: Port = 1;

/// One of two adapters at the ends of a line. See the [crate's documentation](crate).
#[derive(Debug)]
pub struct Adapter {
    counters: Counters,
    outputs: VecDeque<Output>,
}

impl Adapter {
    /// An adapter that has not met its peer yet. `name` names its random streams.
    ///
    /// # Errors
    ///
    /// The configuration cannot be: see [`AdapterConfig::validate`].
    pub fn new(config: &AdapterConfig, _seed: u64, _name: &str) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self { counters: Counters::new(), outputs: VecDeque::new() })
    }

    /// What happened so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters.clone()
    }
}

impl Element for Adapter {
    fn handle(&mut self, _: Time, port: Port, packet: Packet) {
        self.outputs.push_back(match port {
            LAN => Output::Drop { reason: LINE_DOWN, packet },
            _ => Output::Consume { packet },
        });
    }

    fn tick(&mut self, _: Time) {}

    fn deadline(&self) -> Option<Time> {
        None
    }

    fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }
}
