//! Who is due when: a heap in which each has one place, which can be moved.

use alloc::vec::Vec;

/// Times of a fixed number of places, of which the earliest is at hand. Nothing is allocated after it is made.
#[derive(Clone, Debug)]
pub(super) struct Agenda {
    /// The time of each place and what decides between equal ones.
    keys: Vec<(u64, u32)>,
    /// Places in heap order, and where in it each is (or `ABSENT`).
    heap: Vec<u32>,
    at: Vec<u32>,
}

const ABSENT: u32 = u32::MAX;

impl Agenda {
    /// An agenda for the places 0 to `places - 1`, none of which has a time yet.
    pub(super) fn new(places: usize) -> Self {
        Self { keys: alloc::vec![(0, 0); places], heap: Vec::with_capacity(places), at: alloc::vec![ABSENT; places] }
    }

    /// The earliest time and its place.
    pub(super) fn first(&self) -> Option<(u64, u32)> {
        self.heap.first().map(|&place| (self.keys[place as usize].0, place))
    }

    /// Whether a place has a time.
    pub(super) fn has(&self, place: u32) -> bool {
        self.at[place as usize] != ABSENT
    }

    /// Gives a place a time, or takes it away. Of equal times the smaller `rank` is first, then the smaller place.
    pub(super) fn set(&mut self, place: u32, time: Option<u64>, rank: u32) {
        let at = self.at[place as usize];
        match (time, at) {
            (None, ABSENT) => {}
            (None, at) => {
                self.at[place as usize] = ABSENT;
                let last = self.heap.pop();
                if let Some(last) = last.filter(|&last| last != place) {
                    self.put(at as usize, last);
                    self.settle(at as usize);
                }
            }
            (Some(time), ABSENT) => {
                self.keys[place as usize] = (time, rank);
                self.heap.push(place);
                let at = self.heap.len() - 1;
                self.put(at, place);
                self.settle(at);
            }
            (Some(time), at) => {
                self.keys[place as usize] = (time, rank);
                self.settle(at as usize);
            }
        }
    }

    fn put(&mut self, at: usize, place: u32) {
        self.heap[at] = place;
        self.at[place as usize] = at as u32;
    }

    fn is_before(&self, a: u32, b: u32) -> bool {
        (self.keys[a as usize], a) < (self.keys[b as usize], b)
    }

    /// Moves what is at `at` up or down to where it belongs.
    fn settle(&mut self, mut at: usize) {
        let place = self.heap[at];
        while at > 0 && self.is_before(place, self.heap[(at - 1) / 2]) {
            self.put(at, self.heap[(at - 1) / 2]);
            at = (at - 1) / 2;
        }
        loop {
            let children = [2 * at + 1, 2 * at + 2].into_iter().filter(|&child| child < self.heap.len());
            let Some(child) = children.min_by_key(|&child| (self.keys[self.heap[child] as usize], self.heap[child]))
            else {
                break;
            };
            if !self.is_before(self.heap[child], place) {
                break;
            }
            self.put(at, self.heap[child]);
            at = child;
        }
        self.put(at, place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn first_is_the_earliest(changes in prop::collection::vec((0..8u32, prop::option::of(0..20u64), 0..3u32), 0..200)) {
            let mut agenda = Agenda::new(8);
            let mut model = [None; 8];
            for (place, time, rank) in changes {
                agenda.set(place, time, rank);
                model[place as usize] = time.map(|time| (time, rank));
                let expected = (0..).zip(model).filter_map(|(place, key)| key.map(|key| (key, place))).min();
                prop_assert_eq!(agenda.has(place), time.is_some());
                prop_assert_eq!(agenda.first(), expected.map(|((time, _), place)| (time, place)));
            }
        }
    }
}
