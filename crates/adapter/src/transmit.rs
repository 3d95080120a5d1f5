//! What goes onto the line, and when.

use engine::{Output, Packet, Span, Time};
use wire::ETHERNET_LEN;

use crate::adapter::{Adapter, LINE, Waiting};
use crate::class::{Class, Priority, channel_of, class_of};
use crate::config::Schedule;
use crate::control::header;
use crate::counters::{COMPRESSION, LINE_DOWN};
use crate::frame::{self, MAX_BODY, OVERHEAD};
use crate::pairs::EXPLICIT;

/// What the line is doing.
#[derive(Debug, Default)]
pub(crate) struct Line {
    /// When to look again.
    wake: Option<Time>,
    /// Up to when it is known what the line was used for.
    accounted: Time,
    /// The time after that is held back for a prediction, not idle.
    holding: bool,
    pub(crate) held: Span,
    pub(crate) idle: Span,
    /// Time that real-time frames took.
    pub(crate) real_time: Span,
    pub(crate) overdue: u64,
    /// Since when a control frame waits for a gap.
    control_since: Option<Time>,
    /// A real-time packet that came before this met no session.
    pub(crate) up_since: Time,
    ticked: bool,
}

/// What a look at the line came to.
enum Step {
    Sent,
    /// What waits does not fit before a predicted packet.
    Hold {
        /// When that prediction has come to nothing, or control frames wait no longer.
        until: Time,
        /// Data wait, not control frames alone.
        data: bool,
    },
    Nothing,
}

/// What a frame is for.
#[derive(Clone, Copy)]
enum Use {
    RealTime,
    Data {
        /// Bytes of the packet itself.
        content: usize,
        /// The last fragment of its packet.
        last: bool,
    },
    Control,
}

/// While a predicted packet is late, fragments take no more than this part of their longest time.
const LATE_PART: u64 = 4;

/// A control frame waits no longer than this for a gap that it fits into.
const CONTROL_PATIENCE: Span = Span::from_secs(1);

impl Line {
    pub(crate) fn wake(&self) -> Option<Time> {
        self.wake
    }

    /// Whether the line was never looked at.
    pub(crate) fn is_new(&self) -> bool {
        !self.ticked
    }

    /// The line was not used until `until`.
    fn unused(&mut self, until: Time) {
        let span = until.since(self.accounted);
        if self.holding {
            self.held += span;
        } else {
            self.idle += span;
        }
        self.accounted = self.accounted.max(until);
    }
}

impl Adapter {
    /// Hands frames to the line while it takes them.
    pub(crate) fn pump(&mut self, now: Time) {
        self.line.ticked = true;
        self.flows.roll(now);
        self.line.wake = None;
        let mut held = false;
        while self.clock.free_at() <= now + self.config.lead {
            match self.step(now) {
                Step::Sent => {}
                Step::Hold { until, data } => {
                    self.line.wake = Some(until.max(now + Span::from_nanos(1)));
                    held = data;
                    break;
                }
                Step::Nothing => break,
            }
        }
        if self.clock.free_at() <= now {
            self.line.unused(now);
        }
        self.line.holding = held;
        if self.line.wake.is_none() && self.clock.free_at() > now + self.config.lead && self.is_waiting(now) {
            let lead = self.config.lead.as_nanos();
            self.line.wake = Some(Time::from_nanos(self.clock.free_at().as_nanos() - lead));
        }
    }

    fn is_waiting(&self, now: Time) -> bool {
        let data = || {
            let mut priorities = self.queues.iter().zip(&self.outgoing);
            !self.in_order.is_empty() || priorities.any(|(queue, outgoing)| !queue.is_empty() || !outgoing.is_empty())
        };
        self.control_size(now).is_some() || self.session.is_up() && data()
    }

    fn step(&mut self, now: Time) -> Step {
        let start = self.clock.free_at().max(now);
        let up = self.session.is_up();
        let gaps = self.config.schedule == Schedule::Gaps;
        if up
            && self.config.schedule != Schedule::Fifo
            && let Some(waiting) = self.pop_in_order()
        {
            self.send_whole(now, waiting);
            return Step::Sent;
        }
        let window = if gaps && up { self.flows.next() } else { None };
        let room = window.map(|window| self.clock.characters_in(window.earliest.since(start)));
        let mut until = window.map_or(Time::MAX, |window| window.latest + self.flows.slack());
        let control = self.control_size(now);
        if let Some(size) = control {
            let fits = room.is_none_or(|room| size as u64 <= room);
            let since = *self.line.control_since.get_or_insert(now);
            let forced = !fits && now.since(since) >= CONTROL_PATIENCE;
            if fits || forced {
                self.counters.line.control_forced += u64::from(forced);
                self.line.control_since = None;
                self.send_control(now);
                return Step::Sent;
            }
            // Data may use the gap meanwhile.
            until = until.min(since + CONTROL_PATIENCE);
        } else {
            self.line.control_since = None;
        }
        if !up {
            return Step::Nothing;
        }
        if self.config.schedule == Schedule::Fifo {
            return self.step_in_order(now);
        }
        let Some(priority) = self.next_data(now) else {
            return if control.is_some() { Step::Hold { until, data: false } } else { Step::Nothing };
        };
        if let (Some(window), true) = (window, !self.line.holding) {
            self.counters.predicted_gap.record(window.earliest.since(start));
        }
        let least = usize::from(self.config.fragments.least);
        let in_time = |time| (self.clock.characters_in(time) as usize).saturating_sub(OVERHEAD).max(least);
        let most = match room {
            // A packet that is late is not made later by a fragment for the gap to the one after it.
            Some(room) if self.flows.is_late() => {
                let short = Span::from_nanos(self.config.fragments.time.as_nanos() / LATE_PART);
                (room as usize).saturating_sub(OVERHEAD).min(in_time(short))
            }
            Some(room) => (room as usize).saturating_sub(OVERHEAD),
            None => in_time(self.config.fragments.time),
        };
        if self.send_fragment(now, priority, most.min(MAX_BODY)) {
            Step::Sent
        } else {
            Step::Hold { until, data: true }
        }
    }

    /// One step of the schedule `fifo`.
    fn step_in_order(&mut self, now: Time) -> Step {
        const ONLY: usize = 0;
        if self.outgoing[ONLY].is_empty() {
            match self.pop_in_order() {
                None => return Step::Nothing,
                Some(waiting) if waiting.class == Class::RealTime => {
                    self.send_whole(now, waiting);
                    return Step::Sent;
                }
                Some(waiting) if waiting.packet.launch < self.fresh_since => {
                    self.discard(LINE_DOWN, waiting.packet, Some(waiting.class));
                    return Step::Sent;
                }
                Some(waiting) => self.outgoing[ONLY].put(waiting.packet),
            }
        }
        if self.encode(now, ONLY) {
            self.send_fragment(now, ONLY, MAX_BODY);
        }
        Step::Sent
    }

    fn pop_in_order(&mut self) -> Option<Waiting> {
        let waiting = self.in_order.pop_front()?;
        self.in_order_bytes -= waiting.packet.len() as u64;
        Some(waiting)
    }

    /// The priority whose turn it is, with its packet encoded.
    fn next_data(&mut self, now: Time) -> Option<usize> {
        for priority in (0..Priority::COUNT).rev() {
            while !self.outgoing[priority].is_empty() || self.fetch(now, priority) {
                if self.encode(now, priority) {
                    return Some(priority);
                }
            }
        }
        None
    }

    /// Takes the next packet of a priority from its queue.
    fn fetch(&mut self, now: Time, priority: usize) -> bool {
        let class = class_of(priority);
        loop {
            let (counters, outputs) = (&mut self.counters, &mut self.outputs);
            let sink = |reason, packet| crate::adapter::discard(counters, outputs, reason, packet, Some(class));
            let Some((packet, _)) = self.queues[priority].dequeue(now, sink) else { return false };
            if packet.launch >= self.fresh_since {
                self.outgoing[priority].put(packet);
                return true;
            }
            self.discard(LINE_DOWN, packet, Some(class));
        }
    }

    /// Encodes the packet of a priority, unless it is. False if that fails: it is dropped then.
    fn encode(&mut self, now: Time, priority: usize) -> bool {
        if !self.outgoing[priority].is_raw() {
            return true;
        }
        let Self { outgoing, pairs, codec, .. } = self;
        let encoded: Result<(), ()> = outgoing[priority].encode(|packet, out| {
            let (header, content) = packet.bytes.split_first_chunk::<ETHERNET_LEN>().ok_or(())?;
            match pairs.index(now, header) {
                Some(index) => out.push(index),
                None => {
                    out.push(EXPLICIT);
                    out.extend_from_slice(header);
                }
            }
            let prefix = out.len();
            let ethertype = u16::from_be_bytes([header[12], header[13]]);
            codec.encode(now, class_of(priority), ethertype, content, out).map_err(|_| ())?;
            Ok(prefix)
        });
        if encoded.is_ok() {
            return true;
        }
        let class = class_of(priority);
        if let Some(packet) = self.outgoing[priority].take() {
            self.discard(COMPRESSION, packet, Some(class));
        }
        false
    }

    /// Sends a fragment of at most `most` bytes of body; false if that is too little.
    fn send_fragment(&mut self, now: Time, priority: usize, most: usize) -> bool {
        let start = self.clock.free_at().max(now);
        let begun = self.outgoing[priority].is_begun();
        let Some(cut) = self.outgoing[priority].cut(most, usize::from(self.config.fragments.least)) else {
            return false;
        };
        let mut buffer = self.buffer();
        let head = header::fragment(priority, cut.number, cut.last);
        frame::encode(head, &[&self.outgoing[priority].encoded()[cut.range]], &mut buffer);
        if let Some(packet) = self.outgoing[priority].packet().filter(|_| !begun) {
            self.counters.forwarding_delay.record(start.since(packet.launch));
        }
        let mut frame = Packet::new(buffer);
        if cut.last
            && let Some(mut packet) = self.outgoing[priority].take()
        {
            let class = class_of(priority);
            self.counters.classes[class.index()].sent.add(packet.len() - ETHERNET_LEN);
            // The packet goes on as its last frame.
            core::mem::swap(&mut packet.bytes, &mut frame.bytes);
            core::mem::swap(&mut packet, &mut frame);
            self.keep(packet.bytes);
        }
        self.transmit(now, frame, Use::Data { content: cut.content, last: cut.last });
        true
    }

    /// Sends a real-time datagram.
    fn send_whole(&mut self, now: Time, waiting: Waiting) {
        let Waiting { mut packet, class, key, busy, real_time } = waiting;
        let arrived = packet.launch;
        let length = packet.len() - ETHERNET_LEN;
        let mut content = self.buffer();
        let Some((header, datagram)) = packet.bytes.split_first_chunk::<ETHERNET_LEN>() else { return };
        let header = *header;
        let index = self.pairs.index(now, &header);
        let ethertype = u16::from_be_bytes([header[12], header[13]]);
        let encoded = self.codec.encode(now, class, ethertype, datagram, &mut content);
        let explicit: &[u8] = if index.is_some() { &[] } else { &header };
        if encoded.is_err() || explicit.len() + content.len() > MAX_BODY {
            self.keep(content);
            return self.discard(COMPRESSION, packet, Some(class));
        }
        let whole = header::whole(index.unwrap_or(EXPLICIT));
        packet.bytes.clear();
        frame::encode(whole, &[explicit, &content], &mut packet.bytes);
        self.keep(content);
        let before = self.line.real_time;
        // An explicit header is there at the start only: it says nothing of what the flow takes.
        if let Some(key) = key {
            self.flows.sent(key, packet.len() - explicit.len());
        }
        self.counters.classes[class.index()].sent.add(length);
        let (start, end) = self.transmit(now, packet, Use::RealTime);
        self.counters.real_time_delay.record(end.since(arrived));
        let excused = busy + before.saturating_sub(real_time) + self.flows.slack();
        if self.config.schedule != Schedule::Fifo && arrived >= self.line.up_since && start.since(arrived) > excused {
            self.line.overdue += 1;
        }
    }

    /// Size of the control frame that is to be sent next, if one is.
    fn control_size(&self, now: Time) -> Option<usize> {
        let up = self.session.is_up();
        let body = if self.session.hello_due(now) {
            self.session.hello_size()
        } else if !up {
            return None;
        } else if self.receiver.pairs.owes() {
            2
        } else if let Some((_, feedback)) = self.codec.feedback() {
            1 + feedback.len()
        } else if self.pairs.is_due(now) {
            2 + ETHERNET_LEN
        } else if self.session.keep_alive_due(now) {
            0
        } else {
            return None;
        };
        Some(body + OVERHEAD)
    }

    /// Sends the control frame whose size [`Self::control_size`] gave.
    fn send_control(&mut self, now: Time) {
        let mut frame = self.buffer();
        if self.session.hello_due(now) {
            let mut body = self.buffer();
            self.session.hello(now).write(&mut body);
            // What garbage may stand before the first frame ends with a delimiter.
            frame.push(0);
            frame::encode(header::HELLO, &[&body], &mut frame);
            self.keep(body);
        } else if let Some((index, generation)) = self.receiver.pairs.acknowledgement() {
            frame::encode(header::PAIR_ACK, &[&[index, generation]], &mut frame);
        } else if let Some(index) = self.receiver.pairs.report() {
            frame::encode(header::PAIR_UNKNOWN, &[&[index]], &mut frame);
        } else if let Some((class, feedback)) = self.codec.feedback() {
            frame::encode(header::FEEDBACK, &[&[channel_of(class)], feedback], &mut frame);
            self.codec.sent_feedback(class);
        } else if let Some(opening) = self.pairs.opening(now) {
            frame::encode(header::PAIR_OPEN, &[&[opening.index, opening.generation], &opening.header], &mut frame);
        } else if self.session.keep_alive_due(now) {
            frame::encode(header::KEEP_ALIVE, &[], &mut frame);
        } else {
            // Only an opening that nobody uses any more was due.
            self.keep(frame);
            return;
        }
        self.transmit(now, Packet::new(frame), Use::Control);
    }

    /// Hands a frame to the line: when its first character starts and its last ends.
    fn transmit(&mut self, now: Time, mut packet: Packet, purpose: Use) -> (Time, Time) {
        let length = packet.len();
        let (start, end) = self.clock.send(now, length);
        self.line.unused(start);
        (self.line.accounted, self.line.holding) = (end, false);
        self.session.sent(end);
        let line = &mut self.counters.line;
        line.frames += 1;
        match purpose {
            Use::RealTime => {
                line.real_time += length as u64;
                self.line.real_time += end.since(start);
            }
            Use::Data { content, last } => {
                line.data += content as u64;
                let framing = if last { 0 } else { OVERHEAD };
                line.framing += framing as u64;
                line.encapsulation += (length - content - framing) as u64;
            }
            Use::Control => line.control += length as u64,
        }
        packet.launch = now;
        self.outputs.push_back(Output::Transmit { port: LINE, packet });
        (start, end)
    }
}
