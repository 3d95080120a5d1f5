//! Flows: which are real-time, which of them are let onto the line, when their next packets come.

use alloc::vec::Vec;

use engine::{Event, Random, Rate, Span, Time};
use queue::Classifier;
use wire::{Fragment, Headers, Ip, protocol};

use crate::class::{Class, Priority};
use crate::config::{AdapterConfig, Admission, Behaviour, LARGEST_REAL_TIME, Refused, Rule, RuleClass, Schedule};
use crate::counters::FlowCounters;
use crate::frame::OVERHEAD;
use crate::predict::{Outcome, Tracker, Window};

/// A real-time flow was let onto the line. The value is what it takes, in characters per 1,000 s.
pub const ADMITTED: &str = "real-time flow admitted";
/// A real-time flow does not fit onto the line. The value is what it would take, in characters per
/// 1,000 s.
pub const FLOW_REFUSED: &str = "real-time flow refused: line full";

/// Identity of a flow: a keyed hash of addresses, protocol and ports, and of SPI and DSCP for ESP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlowKey(u64);

/// What a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    RealTime(FlowKey),
    Data(Priority),
    Refused {
        /// Its sender is to be told.
        tell: bool,
    },
}

#[derive(Debug)]
pub(crate) struct Flows {
    rules: Vec<Rule>,
    behaviour: Option<Behaviour>,
    /// How spacing is judged for flows that a rule names.
    steadiness: Behaviour,
    admission: Admission,
    /// No flow is refused.
    open: bool,
    classifier: Classifier,
    /// What real-time flows may take together, in characters per 1,000 s.
    capacity: u64,
    /// What a prediction may be off beyond its guard: one character.
    slack: Span,
    /// Bytes that headers of a datagram shrink to, if they do.
    compressed: bool,
    /// Keys of the flows in the same place of [`Self::flows`], apart so that looking is quick.
    keys: Vec<u64>,
    flows: Vec<Flow>,
    /// Places of the flows that are on the line.
    active: Vec<usize>,
    told: Option<Time>,
    counters: FlowCounters,
    pub(crate) event: Option<Event>,
}

#[derive(Debug)]
struct Flow {
    seen: Time,
    state: State,
    /// Place of the rule that makes it real-time, if one does.
    rule: Option<usize>,
    tracker: Tracker,
    /// Characters that the frames of its last packets are likely to take, in no order.
    likely: [u32; RECENT],
    /// Packets it had, for the place of the next in [`Self::likely`].
    packets: usize,
    /// Characters of a frame, times 8: the largest of the last while it is watched, smoothed from what
    /// was sent while it is on the line.
    frame: u32,
    /// What it may take of the line, in characters per 1,000 s.
    granted: u64,
    /// When it will have used no more than that, by what it sent (ITU-T I.371, GCRA).
    paid_until: Time,
    told: Option<Time>,
}

impl Flow {
    /// Characters that the largest of its last packets is likely to take.
    fn largest(&self) -> u32 {
        self.likely.iter().copied().max().unwrap_or_default()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Watched,
    Active,
    Refused,
}

/// A flow may send this much more than it was granted, in percent: header contexts are refreshed, and
/// periods are measured.
const TOLERANCE_PERCENT: u64 = 25;
/// And so many datagrams ahead of it.
const BURST: u64 = 4;

/// What a flow needs is judged by so many packets: one that differs from those after it, as the first of
/// a program often does, is forgotten by the time they are found to be steady.
const RECENT: usize = 4;

/// A sender is told no more often than this; neither are all senders together than ten times that.
const TELL: Span = Span::from_secs(1);
const TELL_ALL: Span = Span::from_millis(100);

impl Flows {
    pub(crate) fn new(config: &AdapterConfig, capacity: u64, character: Span, random: &mut Random) -> Self {
        let behaviour = config.behaviour.clone();
        Self {
            rules: config.rules.clone(),
            steadiness: behaviour.clone().unwrap_or_default(),
            behaviour,
            open: config.schedule == Schedule::Fifo,
            classifier: Classifier::new(random),
            capacity: capacity / 100 * u64::from(config.admission.share_percent),
            admission: config.admission.clone(),
            slack: character,
            compressed: config.rohc.is_some(),
            keys: Vec::with_capacity(config.admission.flows as usize),
            flows: Vec::with_capacity(config.admission.flows as usize),
            active: Vec::with_capacity(config.admission.flows as usize),
            told: None,
            counters: FlowCounters::default(),
            event: None,
        }
    }

    /// What a packet from the LAN is. `headers` must be the frame's.
    pub(crate) fn classify(&mut self, now: Time, frame: &[u8], headers: &Headers) -> Verdict {
        let Some(ip) = headers.ip else { return Verdict::Data(Priority::default()) };
        let small = headers.network_len <= LARGEST_REAL_TIME;
        match self.rules.iter().position(|rule| rule.selector.matches(headers)) {
            Some(at) if self.rules[at].class == RuleClass::Data => Verdict::Data(self.rules[at].priority),
            Some(_) if !small => Verdict::Data(Priority::HIGHEST),
            Some(at) => self.track(now, frame, headers, &ip, Some(at)),
            None => self.by_behaviour(now, frame, headers, &ip),
        }
    }

    fn by_behaviour(&mut self, now: Time, frame: &[u8], headers: &Headers, ip: &Ip) -> Verdict {
        let data = Verdict::Data(Priority::default());
        let Some(behaviour) = &self.behaviour else { return data };
        let kind = matches!(ip.protocol, protocol::UDP | protocol::UDP_LITE | protocol::DCCP | protocol::ESP);
        if !kind || ip.fragment != Fragment::Whole {
            return data;
        }
        if headers.network_len as u64 > behaviour.largest.bytes() {
            let key = self.key(frame, ip);
            if let Some(at) = self.place(key) {
                self.flows[at].tracker.reset();
                self.leave(at);
            }
            return data;
        }
        self.track(now, frame, headers, ip, None)
    }

    fn track(&mut self, now: Time, frame: &[u8], headers: &Headers, ip: &Ip, rule: Option<usize>) -> Verdict {
        let key = self.key(frame, ip);
        let data = Verdict::Data(Priority::default());
        let Some(at) = self.place(key).or_else(|| self.insert(now, key)) else { return data };
        let likely = self.likely_frame(headers, ip);
        let flow = &mut self.flows[at];
        flow.rule = rule;
        flow.seen = now;
        flow.likely[flow.packets % RECENT] = likely;
        flow.packets = flow.packets.wrapping_add(1);
        if flow.state != State::Active {
            flow.frame = flow.largest() * 8;
        }
        match flow.tracker.arrive(now, &self.steadiness, self.slack) {
            Outcome::Held if flow.state == State::Active => self.counters.held += 1,
            Outcome::Missed if flow.state == State::Active => self.counters.missed += 1,
            _ => {}
        }
        let alone = self.demand(at);
        let fits_alone = self.open || alone.is_some_and(|alone| alone <= self.capacity);
        if rule.is_none() && !(self.flows[at].tracker.is_steady() && fits_alone) {
            self.leave(at);
            return data;
        }
        let state = self.flows[at].state;
        match state {
            State::Active if self.conforms(now, at, likely) => Verdict::RealTime(key),
            State::Active => {
                self.counters.excess += 1;
                data
            }
            State::Watched | State::Refused => self.admit(now, at, key, likely),
        }
    }

    /// Lets a real-time flow onto the line, if it fits. A flow of a rule whose needs are not known yet
    /// is let on until they are, held to what the others leave.
    fn admit(&mut self, now: Time, at: usize, key: FlowKey, likely: u32) -> Verdict {
        self.expire(now);
        let taken: u64 = self.active.iter().filter_map(|at| self.demand(*at)).sum();
        let wanted = self.demand(at);
        if self.open || taken + wanted.unwrap_or(1) <= self.capacity {
            if self.open || wanted.is_some() {
                let flow = &mut self.flows[at];
                (flow.state, flow.granted, flow.paid_until) = (State::Active, wanted.unwrap_or(0), now);
                self.active.push(at);
                self.counters.admitted += 1;
                self.event = Some(Event { what: ADMITTED, value: wanted.unwrap_or(0) });
            } else if !self.within(now, at, (self.capacity - taken) * 100, likely) {
                self.counters.excess += 1;
                return Verdict::Data(Priority::default());
            }
            return Verdict::RealTime(key);
        }
        let flow = &mut self.flows[at];
        if flow.state != State::Refused {
            flow.state = State::Refused;
            self.counters.refused += 1;
            self.event = Some(Event { what: FLOW_REFUSED, value: wanted.unwrap_or(0) });
        }
        if self.admission.refused == Refused::Data {
            return Verdict::Data(Priority::default());
        }
        let due = |told: Option<Time>, span| told.is_none_or(|told| now.since(told) >= span);
        let tell = due(flow.told, TELL) && due(self.told, TELL_ALL);
        if tell {
            (flow.told, self.told) = (Some(now), Some(now));
            self.counters.told += 1;
        }
        Verdict::Refused { tell }
    }

    /// Whether a flow that was let in keeps to what it needed then, or needs now if that fits as well:
    /// otherwise one that grows would take the line from the others. What is beyond goes as data.
    fn conforms(&mut self, now: Time, at: usize, likely: u32) -> bool {
        if self.open {
            return true;
        }
        let others: u64 =
            self.active.iter().filter(|place| **place != at).map(|place| self.flows[*place].granted).sum();
        let free = self.capacity.saturating_sub(others);
        let wanted = self.demand(at);
        let flow = &mut self.flows[at];
        flow.granted = wanted.filter(|wanted| *wanted <= free).unwrap_or(flow.granted.min(free)).max(1);
        let rate = (flow.granted * (100 + TOLERANCE_PERCENT)).min(free * 100);
        self.within(now, at, rate, likely)
    }

    /// Whether a flow's packet is within a rate, in characters per 100,000 s, but for a few packets at once.
    fn within(&mut self, now: Time, at: usize, rate: u64, likely: u32) -> bool {
        let rate = rate.max(1);
        let flow = &mut self.flows[at];
        let time_of = |characters: u64| Span::from_nanos(characters.saturating_mul(100_000_000_000_000) / rate);
        let usual = u64::from(flow.frame / 8).max(1);
        let paid_until = flow.paid_until.max(now);
        if paid_until > now + time_of(usual * BURST) {
            return false;
        }
        flow.paid_until = paid_until + time_of(u64::from(likely));
        true
    }

    /// The frame of a real-time datagram took so many characters. What is far over the usual was a
    /// header context's refresh.
    pub(crate) fn sent(&mut self, key: FlowKey, characters: usize) {
        if let Some(at) = self.place(key) {
            let flow = &mut self.flows[at];
            let measured = (characters as u32 * 8).min(flow.frame.max(flow.largest() * 8) * 5 / 4);
            flow.frame = (flow.frame * 7 + measured).div_ceil(8);
        }
    }

    /// Gives up predictions that came to nothing, and flows that fell silent.
    pub(crate) fn roll(&mut self, now: Time) {
        self.expire(now);
        for &at in &self.active {
            self.counters.missed += u64::from(self.flows[at].tracker.roll(now, self.slack));
        }
    }

    /// The next real-time packet that is predicted, of all flows on the line.
    pub(crate) fn next(&self) -> Option<Window> {
        let windows = self.active.iter().filter_map(|at| self.flows[*at].tracker.window());
        windows.min_by_key(|window| window.earliest)
    }

    /// Whether a packet that was predicted is late: it may come at any moment now.
    pub(crate) fn is_late(&self) -> bool {
        self.active.iter().any(|at| self.flows[*at].tracker.is_late())
    }

    /// What a prediction may be off beyond its guard.
    pub(crate) fn slack(&self) -> Span {
        self.slack
    }

    pub(crate) fn counters(&self) -> FlowCounters {
        let taken: u64 = self.active.iter().filter_map(|at| self.demand(*at)).sum();
        FlowCounters { active: self.active.len() as u32, characters_per_second: taken / 1_000, ..self.counters }
    }

    fn key(&self, frame: &[u8], ip: &Ip) -> FlowKey {
        let flow = self.classifier.flow(frame);
        let inner = ip.spi.map_or(0, |spi| u64::from(spi) << 8 | u64::from(ip.dscp));
        FlowKey(flow ^ inner.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn place(&self, FlowKey(key): FlowKey) -> Option<usize> {
        self.keys.iter().position(|known| *known == key)
    }

    fn insert(&mut self, now: Time, FlowKey(key): FlowKey) -> Option<usize> {
        let flow = Flow {
            seen: now,
            state: State::Watched,
            rule: None,
            tracker: Tracker::default(),
            likely: [0; RECENT],
            packets: 0,
            frame: 0,
            granted: 0,
            paid_until: now,
            told: None,
        };
        if self.flows.len() < self.admission.flows as usize {
            self.keys.push(key);
            self.flows.push(flow);
            return Some(self.flows.len() - 1);
        }
        self.expire(now);
        let watched = self.flows.iter().enumerate().filter(|(_, flow)| flow.state != State::Active);
        let (at, _) = watched.min_by_key(|(_, flow)| flow.seen)?;
        (self.keys[at], self.flows[at]) = (key, flow);
        self.counters.forgotten += 1;
        Some(at)
    }

    /// Frees what flows that fell silent took of the line. Their period stays known: who presses to talk
    /// again is real-time from the first packet on.
    fn expire(&mut self, now: Time) {
        for at in (0..self.active.len()).rev() {
            let place = self.active[at];
            if now.since(self.flows[place].seen) > self.admission.silence {
                self.leave(place);
            }
        }
    }

    /// The flow is real-time no more.
    fn leave(&mut self, at: usize) {
        if self.flows[at].state == State::Active {
            self.active.retain(|place| *place != at);
            self.counters.ended += 1;
        }
        self.flows[at].state = State::Watched;
    }

    /// What a flow takes of the line, in characters per 1,000 s; none if that is not known yet.
    fn demand(&self, at: usize) -> Option<u64> {
        let flow = &self.flows[at];
        let reserved = flow.rule.and_then(|rule| self.rules.get(rule)).and_then(|rule| rule.bandwidth);
        if let Some(bandwidth) = reserved {
            return Some(Rate::bits_per_second(bandwidth) * 1_000 / 8);
        }
        let period = flow.tracker.period()?.as_nanos().max(1);
        Some((u128::from(flow.frame) * 1_000_000_000_000 / 8 / u128::from(period)) as u64)
    }

    /// Characters of a datagram's frame once its header's context stands: UDP over either IP shrinks to
    /// 3 B, ESP to 2 B.
    fn likely_frame(&self, headers: &Headers, ip: &Ip) -> u32 {
        let payload = headers.transport_len().saturating_sub(wire::UDP_LEN);
        let body = match ip.protocol {
            protocol::UDP if self.compressed => payload + 3,
            protocol::ESP if self.compressed => payload + 2,
            _ => headers.network_len,
        };
        (body + OVERHEAD) as u32
    }
}

impl From<&Verdict> for Class {
    fn from(verdict: &Verdict) -> Self {
        match verdict {
            Verdict::RealTime(_) | Verdict::Refused { .. } => Self::RealTime,
            Verdict::Data(priority) => Self::Data(*priority),
        }
    }
}
