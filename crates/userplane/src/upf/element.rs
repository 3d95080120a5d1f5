//! The UPF in a graph.

use alloc::collections::VecDeque;

use engine::{Checksum, Element, Event, Output as ElementOutput, Packet, Port, Time};
use wire::checksum::complete;

use super::{HEADROOM, News, Output, Side, Upf, Verdict};

/// A UPF as an element, with ports N3 = 0, N4 = 1 and N6 = 2.
///
/// A user packet that waits inside (for a next hop, or buffered by a rule) counts as consumed, and comes out as a new packet.
/// Its own messages are new packets too. Events: `associated` and `association ended` with the number of sessions that ended, `request
/// refused` with the cause's number (TS 29.244 8.2.1), `control plane silent`.
#[derive(Debug)]
pub struct UpfElement {
    upf: Upf,
    now: Time,
    ready: VecDeque<ElementOutput>,
}

impl UpfElement {
    /// This UPF.
    #[must_use]
    pub fn new(upf: Upf) -> Self {
        Self { upf, now: Time::ZERO, ready: VecDeque::new() }
    }

    /// The UPF, to read its counters.
    #[must_use]
    pub fn upf(&self) -> &Upf {
        &self.upf
    }
}

impl Element for UpfElement {
    fn handle(&mut self, now: Time, port: Port, mut packet: Packet) {
        self.now = now;
        if let Checksum::Partial { start, offset } = core::mem::take(&mut packet.checksum) {
            complete(&mut packet.bytes, start.into(), offset.into());
        }
        let side = Side::ALL[port.min(Side::ALL.len() - 1)];
        let bytes = &mut packet.bytes;
        let len = bytes.len();
        bytes.resize(HEADROOM + len, 0);
        bytes.copy_within(..len, HEADROOM);
        let verdict = self.upf.handle(now, side, bytes, HEADROOM..HEADROOM + len);
        self.ready.push_back(match verdict {
            Verdict::Send { side, frame } => {
                let len = frame.len();
                bytes.copy_within(frame, 0);
                bytes.truncate(len);
                packet.launch = now;
                ElementOutput::Transmit { port: side.port(), packet }
            }
            Verdict::Taken => ElementOutput::Consume { packet },
            Verdict::Drop(reason) => {
                bytes.drain(..HEADROOM);
                ElementOutput::Drop { reason: reason.into(), packet }
            }
        });
    }

    fn tick(&mut self, now: Time) {
        self.now = now;
        self.upf.tick(now);
    }

    fn deadline(&self) -> Option<Time> {
        self.upf.deadline()
    }

    fn poll(&mut self) -> Option<ElementOutput> {
        if let Some(ready) = self.ready.pop_front() {
            return Some(ready);
        }
        loop {
            let packet = |bytes| Packet { arrived: self.now, launch: self.now, ..Packet::new(bytes) };
            return Some(match self.upf.poll()? {
                Output::Frame { side, bytes } => ElementOutput::Transmit { port: side.port(), packet: packet(bytes) },
                Output::Drop { reason, bytes } => ElementOutput::Drop { reason: reason.into(), packet: packet(bytes) },
                Output::News(news) => ElementOutput::Event(event(&news)),
                Output::Message { to, bytes } => {
                    // It comes back as a frame.
                    if let Some(own) = self.upf.config().n4.address_like(to.ip()) {
                        self.upf.datagram(self.now, Side::N4, own, to, &bytes);
                    }
                    continue;
                }
            });
        }
    }
}

fn event(news: &News) -> Event {
    let (what, value) = match news {
        News::Associated { ended, .. } => ("associated", *ended as u64),
        News::Released { ended, .. } | News::Restarted { ended, .. } => ("association ended", *ended as u64),
        News::Silent { .. } => ("control plane silent", 0),
        News::Refused { cause, .. } => ("request refused", cause.number().into()),
    };
    Event { what, value }
}
