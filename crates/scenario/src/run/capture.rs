//! What crosses a link's first end, as a capture: an element between the site there and all else.

use std::collections::VecDeque;

use engine::{Checksum, Element, Output, Packet, Port, Time};
use measure::CaptureRecord;
use wire::checksum;
use wire::pcapng::Writer;

/// Packets from the site, to the link.
pub(crate) const FROM_SITE: Port = 0;
/// Packets from the link, to the site.
pub(crate) const TO_SITE: Port = 1;
/// A capture holds so many bytes of packets; those beyond are counted and left out.
pub(crate) const LIMIT: u64 = 256 << 20;

/// Notes what passes, which leaves at once by the output of the same number.
#[derive(Debug, Default)]
pub(crate) struct Capture {
    packets: Vec<(Time, usize)>,
    bytes: Vec<u8>,
    left_out: u64,
    outputs: VecDeque<Output>,
}

impl Capture {
    /// As pcapng; `unix` is time zero in nanoseconds from 1970.
    pub(crate) fn record(&self, link: &str, site: &str, unix: u64) -> CaptureRecord {
        let mut bytes = Vec::with_capacity(self.bytes.len() + self.packets.len() * 40 + 256);
        let application = concat!("narrows ", env!("CARGO_PKG_VERSION"));
        let mut writer = Writer::start(&mut bytes, application, "");
        let interface = writer.interface(&mut bytes, &format!("{link} at {site}"), 0);
        let mut rest = &self.bytes[..];
        for (at, length) in &self.packets {
            let (packet, after) = rest.split_at(*length);
            writer.packet(&mut bytes, interface, unix + at.as_nanos(), *length as u32, packet, "");
            rest = after;
        }
        let packets = self.packets.len() as u64;
        CaptureRecord { link: link.to_owned(), packets, left_out: self.left_out, bytes }
    }
}

impl Element for Capture {
    fn handle(&mut self, now: Time, port: Port, packet: Packet) {
        if (self.bytes.len() + packet.len()) as u64 > LIMIT {
            self.left_out += 1;
        } else {
            let begin = self.bytes.len();
            self.bytes.extend_from_slice(&packet.bytes);
            self.packets.push((now, packet.len()));
            if let Checksum::Partial { start, offset } = packet.checksum {
                // One that cannot be completed is kept as it is: it is malformed.
                checksum::complete(&mut self.bytes[begin..], start.into(), offset.into());
            }
        }
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
