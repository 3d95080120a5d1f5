//! FQ-CoDel: flow queueing with CoDel on each flow (RFC 8290).

use alloc::vec;
use alloc::vec::Vec;

use engine::{DropReason, Packet, Time};

use crate::classify::Classifier;
use crate::codel::Control;
use crate::config::FqCodel;
use crate::queue::Counters;
use crate::store::{Chain, Store, Waiting};

/// The flows and their turns.
#[derive(Debug)]
pub(crate) struct Flows {
    classifier: Classifier,
    flows: Vec<Flow>,
    /// Bytes that wait in each flow, apart from the rest so that finding the fattest is quick.
    backlogs: Vec<u64>,
    new: Turns,
    old: Turns,
}

#[derive(Clone, Debug)]
struct Flow {
    chain: Chain,
    control: Control,
    /// Bytes it may still send in this turn; below zero what it sent too much.
    deficit: i64,
    next: u32,
    listed: bool,
}

/// A list of flows.
#[derive(Clone, Copy, Debug)]
struct Turns {
    first: u32,
    last: u32,
}

const NONE: u32 = u32::MAX;

impl Flows {
    pub(crate) fn new(config: &FqCodel, classifier: Classifier) -> Self {
        let flow = Flow { chain: Chain::EMPTY, control: Control::default(), deficit: 0, next: NONE, listed: false };
        let flows = config.flows.max(1) as usize;
        Self { classifier, flows: vec![flow; flows], backlogs: vec![0; flows], new: Turns::EMPTY, old: Turns::EMPTY }
    }

    /// RFC 8290 4.1. Any packet is taken; limits are kept by [`drop_fattest`](Self::drop_fattest).
    pub(crate) fn enqueue(&mut self, config: &FqCodel, store: &mut Store, waiting: Waiting) {
        let id = self.classifier.bucket(&waiting.packet.bytes, self.flows.len() as u32);
        let flow = &mut self.flows[id as usize];
        store.push(&mut flow.chain, waiting);
        self.backlogs[id as usize] = flow.chain.bytes();
        if !flow.listed {
            flow.listed = true;
            flow.deficit = i64::from(config.quantum);
            self.new.push(&mut self.flows, id);
        }
    }

    /// Takes the first packet of the flow with most bytes waiting (RFC 8290 4.1.3).
    pub(crate) fn drop_fattest(&mut self, store: &mut Store) -> Option<Packet> {
        let most = *self.backlogs.iter().max()?;
        let id = self.backlogs.iter().position(|&bytes| bytes == most)?;
        let flow = &mut self.flows[id];
        let waiting = store.pop(&mut flow.chain)?;
        self.backlogs[id] = flow.chain.bytes();
        Some(waiting.packet)
    }

    /// RFC 8290 4.2.
    pub(crate) fn dequeue(
        &mut self,
        now: Time,
        config: &FqCodel,
        store: &mut Store,
        counters: &mut Counters,
        sink: &mut impl FnMut(DropReason, Packet),
    ) -> Option<Waiting> {
        loop {
            let (id, is_new) = match (self.new.first, self.old.first) {
                (NONE, NONE) => return None,
                (NONE, id) => (id, false),
                (id, _) => (id, true),
            };
            let turns = if is_new { &mut self.new } else { &mut self.old };
            let flow = &mut self.flows[id as usize];
            if flow.deficit <= 0 {
                flow.deficit += i64::from(config.quantum);
                turns.pop(&mut self.flows);
                self.old.push(&mut self.flows, id);
                continue;
            }
            let waiting = flow.control.dequeue(now, &config.codel, store, &mut flow.chain, counters, sink);
            self.backlogs[id as usize] = flow.chain.bytes();
            if let Some(waiting) = waiting {
                flow.deficit -= i64::from(waiting.cost);
                return Some(waiting);
            }
            // An empty new flow goes through the old ones first, lest it be new again at once and
            // starve them.
            flow.listed = is_new;
            turns.pop(&mut self.flows);
            if is_new {
                self.old.push(&mut self.flows, id);
            }
        }
    }
}

impl Turns {
    const EMPTY: Self = Self { first: NONE, last: NONE };

    fn push(&mut self, flows: &mut [Flow], id: u32) {
        flows[id as usize].next = NONE;
        match flows.get_mut(self.last as usize) {
            Some(last) => last.next = id,
            None => self.first = id,
        }
        self.last = id;
    }

    /// Takes the first flow off the list.
    fn pop(&mut self, flows: &mut [Flow]) {
        if let Some(first) = flows.get_mut(self.first as usize) {
            self.first = core::mem::replace(&mut first.next, NONE);
            if self.first == NONE {
                self.last = NONE;
            }
        }
    }
}
