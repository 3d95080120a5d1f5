//! Contexts by flow: found by hash, given to new flows by least recent use.

use alloc::vec;
use alloc::vec::Vec;

/// No slot.
const NONE: u16 = u16::MAX;

/// Up to `limit` contexts, each found by a key of octets. Slots are made when a flow first needs one;
/// after that nothing is allocated but for longer keys.
#[derive(Debug)]
pub(crate) struct Table<S> {
    slots: Vec<Slot<S>>,
    limit: usize,
    /// The first slot of each chain; a power of two.
    buckets: Vec<u16>,
    newest: u16,
    oldest: u16,
}

#[derive(Debug)]
struct Slot<S> {
    key: Vec<u8>,
    hash: u32,
    /// The next slot with the same bucket.
    chain: u16,
    newer: u16,
    older: u16,
    state: S,
}

/// What [`Table::enter`] found.
pub(crate) enum Entry {
    /// The flow's context.
    Known(u16),
    /// A new or used slot that now is the flow's. Its state must be begun again.
    New(u16),
}

impl<S> Table<S> {
    /// A table of up to `limit` (at most 16,384) contexts.
    pub(crate) fn new(limit: usize) -> Self {
        let buckets = limit.next_power_of_two();
        Self { slots: Vec::new(), limit, buckets: vec![NONE; buckets], newest: NONE, oldest: NONE }
    }

    /// The slot of the flow `key`, which becomes the most recently used. A flow that is not known gets
    /// a free slot, or the least recently used one.
    pub(crate) fn enter(&mut self, key: &[u8], new: impl FnOnce() -> S) -> Entry {
        let hash = hash(key);
        if let Some(cid) = self.find(key, hash) {
            if self.newest != cid {
                self.unlink(cid);
                self.link_newest(cid);
            }
            return Entry::Known(cid);
        }
        let cid = if self.slots.len() < self.limit {
            let cid = self.slots.len() as u16;
            self.slots.push(Slot { key: Vec::new(), hash, chain: NONE, newer: NONE, older: NONE, state: new() });
            cid
        } else {
            let cid = self.oldest;
            self.unlink(cid);
            self.unchain(cid);
            cid
        };
        self.link_newest(cid);
        let bucket = self.bucket(hash);
        let slot = &mut self.slots[usize::from(cid)];
        slot.key.clear();
        slot.key.extend_from_slice(key);
        slot.hash = hash;
        slot.chain = self.buckets[bucket];
        self.buckets[bucket] = cid;
        Entry::New(cid)
    }

    /// The state of a slot that [`enter`](Self::enter) gave.
    pub(crate) fn state(&mut self, cid: u16) -> &mut S {
        &mut self.slots[usize::from(cid)].state
    }

    /// The state of a slot that a peer names.
    pub(crate) fn get_mut(&mut self, cid: u16) -> Option<&mut S> {
        self.slots.get_mut(usize::from(cid)).map(|slot| &mut slot.state)
    }

    /// How many slots have been made.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    fn find(&self, key: &[u8], hash: u32) -> Option<u16> {
        // Packets come in runs.
        let newest = self.slots.get(usize::from(self.newest))?;
        if newest.hash == hash && newest.key == key {
            return Some(self.newest);
        }
        let mut cid = self.buckets[self.bucket(hash)];
        while let Some(slot) = self.slots.get(usize::from(cid)) {
            if slot.hash == hash && slot.key == key {
                return Some(cid);
            }
            cid = slot.chain;
        }
        None
    }

    fn bucket(&self, hash: u32) -> usize {
        hash as usize & (self.buckets.len() - 1)
    }

    fn unchain(&mut self, cid: u16) {
        let bucket = self.bucket(self.slots[usize::from(cid)].hash);
        let after = self.slots[usize::from(cid)].chain;
        if self.buckets[bucket] == cid {
            self.buckets[bucket] = after;
            return;
        }
        let mut at = self.buckets[bucket];
        while let Some(slot) = self.slots.get_mut(usize::from(at)) {
            if slot.chain == cid {
                slot.chain = after;
                return;
            }
            at = slot.chain;
        }
    }

    fn link_newest(&mut self, cid: u16) {
        let before = self.newest;
        let slot = &mut self.slots[usize::from(cid)];
        (slot.newer, slot.older) = (NONE, before);
        match self.slots.get_mut(usize::from(before)) {
            Some(before) => before.newer = cid,
            None => self.oldest = cid,
        }
        self.newest = cid;
    }

    fn unlink(&mut self, cid: u16) {
        let (newer, older) = (self.slots[usize::from(cid)].newer, self.slots[usize::from(cid)].older);
        match self.slots.get_mut(usize::from(newer)) {
            Some(slot) => slot.older = older,
            None => self.newest = older,
        }
        match self.slots.get_mut(usize::from(older)) {
            Some(slot) => slot.newer = newer,
            None => self.oldest = newer,
        }
    }
}

/// Mixes eight octets at a time by multiplication; the length keeps padded keys apart.
fn hash(key: &[u8]) -> u32 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let (words, rest) = key.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let mix = |state: u64, word: u64| (state ^ word).wrapping_mul(ODD).rotate_left(29);
    let state = words.iter().fold(key.len() as u64, |state, word| mix(state, u64::from_le_bytes(*word)));
    (mix(state, u64::from_le_bytes(last)).wrapping_mul(ODD) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn like_a_list_in_order_of_use(limit in 1usize..9, keys in prop::collection::vec(0u8..20, 0..200)) {
            let mut table = Table::new(limit);
            let mut model: Vec<(u8, u16)> = Vec::new();
            for key in keys {
                let known = model.iter().position(|(known, _)| *known == key);
                match (table.enter(&[key; 9], || ()), known) {
                    (Entry::Known(cid), Some(at)) => {
                        prop_assert_eq!(cid, model[at].1);
                        let entry = model.remove(at);
                        model.push(entry);
                    }
                    (Entry::New(cid), None) => {
                        let expected = if model.len() < limit { model.len() as u16 } else { model.remove(0).1 };
                        prop_assert_eq!(cid, expected);
                        model.push((key, cid));
                    }
                    _ => prop_assert!(false, "known to one only"),
                }
            }
            prop_assert_eq!(table.len(), model.len());
        }
    }
}
