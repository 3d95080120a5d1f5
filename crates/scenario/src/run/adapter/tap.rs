//! What records an adapter: an element that everything passes which the adapter is given, and what it
//! puts on its line.

use std::collections::VecDeque;

use adapter::AdapterConfig;
use engine::{Checksum, Element, Output, Packet, Port, Time};
use serde::{Deserialize, Serialize};
use wire::recording::{self, Kind, Record};

/// What a recording says of itself: all that is needed to make the same adapter again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct About {
    pub(super) config: AdapterConfig,
    pub(super) seed: u64,
    /// Version of narrows.
    pub(super) version: String,
}

/// Notes what passes, which leaves at once by the output of the same number.
///
/// What was noted waits here until it is taken, some fifty times a second: of that there is a second's
/// worth of a Gbit/s at most.
#[derive(Debug, Default)]
pub(super) struct Tap {
    noted: Vec<u8>,
    outputs: VecDeque<Output>,
}

impl Tap {
    /// From the LAN to the adapter.
    pub(super) const FROM_LAN: Port = 0;
    /// From the line to the adapter.
    pub(super) const FROM_LINE: Port = 1;
    /// From the adapter to the line.
    pub(super) const TO_LINE: Port = 2;

    /// Records since the last time.
    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.noted)
    }
}

impl Element for Tap {
    fn handle(&mut self, now: Time, port: Port, packet: Packet) {
        let kind = match port {
            Self::FROM_LAN => Kind::FromLan(match packet.checksum {
                Checksum::Complete => None,
                Checksum::Partial { start, offset } => Some((start, offset)),
            }),
            Self::FROM_LINE => Kind::FromLine,
            _ => Kind::ToLine,
        };
        recording::append(&mut self.noted, &Record { at: now.as_nanos(), kind, bytes: &packet.bytes });
        self.outputs.push_back(Output::Transmit { port, packet });
    }

    fn tick(&mut self, _: Time) {}

    fn deadline(&self) -> Option<Time> {
        None
    }

    fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }
}

/// How a recording begins.
pub(super) fn begin(about: &About) -> Vec<u8> {
    let mut out = Vec::new();
    // A configuration is made of nothing that JSON cannot say.
    recording::begin(&mut out, &serde_json::to_string(about).unwrap_or_default());
    out
}

/// How it ends.
pub(super) fn end(out: &mut Vec<u8>, now: Time) {
    recording::append(out, &Record { at: now.as_nanos(), kind: Kind::End, bytes: &[] });
}
