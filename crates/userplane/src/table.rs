//! The tables of the fast path: what a packet names to the session it belongs to.

use alloc::vec;
use alloc::vec::Vec;

/// A key: TEID, address, or upper half of an address.
pub(crate) trait Key: Copy + Eq {
    /// The key as one word, as different for different keys as may be.
    fn word(self) -> u64;
}

impl Key for u32 {
    fn word(self) -> u64 {
        self.into()
    }
}

impl Key for u64 {
    fn word(self) -> u64 {
        self
    }
}

impl Key for u128 {
    fn word(self) -> u64 {
        (self >> 64) as u64 ^ (self as u64).rotate_left(32)
    }
}

/// A map from keys to numbers of sessions by open addressing with linear probing (Knuth 6.4, algorithm L, with
/// deletion by algorithm R): one access to memory for most look-ups, however many sessions.
///
/// The order of slots is never seen, so that nothing depends on it. It is at most half full. Keys are not adversarial:
/// they come from the control plane.
#[derive(Clone, Debug)]
pub(crate) struct Table<K> {
    slots: Vec<Option<(K, u32)>>,
    len: usize,
}

impl<K> Default for Table<K> {
    fn default() -> Self {
        Self { slots: Vec::new(), len: 0 }
    }
}

impl<K: Key> Table<K> {
    pub(crate) fn get(&self, key: K) -> Option<u32> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut at = home(key, mask);
        while let Some((found, value)) = self.slots[at] {
            if found == key {
                return Some(value);
            }
            at = (at + 1) & mask;
        }
        None
    }

    /// Enters a key, or gives it another value.
    pub(crate) fn insert(&mut self, key: K, value: u32) {
        if 2 * (self.len + 1) > self.slots.len() {
            self.grow();
        }
        let mask = self.slots.len() - 1;
        let mut at = home(key, mask);
        while let Some((found, old)) = &mut self.slots[at] {
            if *found == key {
                *old = value;
                return;
            }
            at = (at + 1) & mask;
        }
        self.slots[at] = Some((key, value));
        self.len += 1;
    }

    pub(crate) fn remove(&mut self, key: K) {
        let Some(mask) = self.slots.len().checked_sub(1) else { return };
        let mut hole = home(key, mask);
        loop {
            match self.slots[hole] {
                Some((found, _)) if found == key => break,
                Some(_) => hole = (hole + 1) & mask,
                None => return,
            }
        }
        self.len -= 1;
        self.slots[hole] = None;
        // Whatever stands behind the hole, and whose home is not between them, moves into it.
        let mut at = (hole + 1) & mask;
        while let Some((key, _)) = self.slots[at] {
            let distance = |from: usize| at.wrapping_sub(from) & mask;
            if distance(home(key, mask)) >= distance(hole) {
                self.slots[hole] = self.slots[at].take();
                hole = at;
            }
            at = (at + 1) & mask;
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn grow(&mut self) {
        let room = (2 * self.slots.len()).max(16);
        let old = core::mem::replace(&mut self.slots, vec![None; room]);
        self.len = 0;
        for (key, value) in old.into_iter().flatten() {
            self.insert(key, value);
        }
    }
}

/// Where a key belongs: the high bits of a product with the golden ratio (Knuth 6.4). `mask` is a power of two, less one.
fn home<K: Key>(key: K, mask: usize) -> usize {
    (key.word().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & mask
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn it_is_a_map(steps in prop::collection::vec((0u32..40, any::<u32>(), any::<bool>()), 0..400)) {
            let key = |n: u32| u64::from(n) * 7;
            let (mut table, mut map) = (Table::default(), BTreeMap::new());
            for (n, value, insert) in steps {
                if insert {
                    table.insert(key(n), value);
                    map.insert(key(n), value);
                } else {
                    table.remove(key(n));
                    map.remove(&key(n));
                }
                prop_assert_eq!(table.is_empty(), map.is_empty());
                for n in 0..40 {
                    prop_assert_eq!(table.get(key(n)), map.get(&key(n)).copied());
                }
            }
        }
    }

    #[test]
    fn many_keys_of_each_kind_are_found() {
        let mut tunnels = Table::default();
        let mut hosts = Table::default();
        for n in 0..100_000u32 {
            tunnels.insert(n, n);
            hosts.insert(u128::from(n) << 64 | 1, n);
        }
        assert!((0..100_000).all(|n| tunnels.get(n) == Some(n) && hosts.get(u128::from(n) << 64 | 1) == Some(n)));
        assert_eq!(tunnels.get(100_000), None);
    }
}
