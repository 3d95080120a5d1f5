//! The compressor's table of items, its generations, and the smallest encoding of a list.

use alloc::vec::Vec;

use super::{Kind, List, MAX_ITEMS, Mask};

/// Entries of the table: a full list and a full reference beside it. Lists of up to eight different
/// items need indices up to 7, which take four bits.
const TABLE: usize = 2 * MAX_ITEMS;

/// Indices up to 7 fit into a 4-bit XI field (RFC 3095 5.8.6.1).
const SHORT: usize = 8;

/// How a list is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Encoding type 0 with all items: for dynamic chains.
    Full,
    /// The smallest of the four types, with the items that may not be known yet.
    Update,
}

/// Compresses the lists of one place in the header (RFC 3095 5.8).
#[derive(Clone, Debug)]
pub(crate) struct ListCompressor {
    kind: Kind,
    /// L of RFC 3095 5.8.1.2: in how many packets in a row an item or a list is sent until it counts as known.
    repeats: u8,
    table: Vec<Entry>,
    clock: u32,
    current: List,
    generation: u8,
    /// How often the current list was sent.
    sent: u8,
    reference: Option<(u8, List)>,
    /// Of each item of the current list: did it go along in the last list written?
    fresh: u16,
}

#[derive(Clone, Debug, Default)]
struct Entry {
    item: Vec<u8>,
    /// The counter of RFC 3095 5.8.1.2: how often (index, item) was sent.
    sent: u8,
    /// When it was last in a list, counted in lists that changed.
    used: u32,
}

impl ListCompressor {
    /// A compressor at the start of a flow, when the list counts as empty and known.
    pub(crate) const fn new(kind: Kind, repeats: u8) -> Self {
        Self {
            kind,
            repeats,
            table: Vec::new(),
            clock: 0,
            current: List { indices: [0; MAX_ITEMS], length: 0 },
            generation: 0,
            sent: repeats,
            reference: None,
            fresh: 0,
        }
    }

    /// Takes the list of the packet to be sent, at most [`MAX_ITEMS`] items. Says whether it differs
    /// from the one before.
    pub(crate) fn observe<'a>(&mut self, items: impl Iterator<Item = &'a [u8]> + Clone) -> bool {
        self.fresh = 0;
        let count = items.clone().take(MAX_ITEMS).count();
        let unchanged = count == self.current.as_slice().len()
            && items.clone().zip(self.current.as_slice()).all(|(item, index)| {
                let entry = &mut self.table[usize::from(*index)];
                let same = self.kind.same(&entry.item, item);
                if same {
                    entry.item.copy_from_slice(item);
                }
                same
            });
        if unchanged {
            return false;
        }
        self.clock = self.clock.wrapping_add(1);
        let mut list = List::default();
        for item in items.take(MAX_ITEMS) {
            let index = self.enter(item, &list);
            list.indices[usize::from(list.length)] = index;
            list.length += 1;
        }
        if list == self.current {
            return false;
        }
        // Only packets in a row count: those between may be all that arrived.
        for (index, entry) in self.table.iter_mut().enumerate() {
            if entry.sent < self.repeats && !list.as_slice().contains(&(index as u8)) {
                entry.sent = 0;
            }
        }
        self.current = list;
        self.generation = self.generation.wrapping_add(1);
        self.sent = 0;
        true
    }

    /// The index of `item`, which is entered if it is new. Indices in `taken` keep their items.
    fn enter(&mut self, item: &[u8], taken: &List) -> u8 {
        let known = self.table.iter().position(|entry| self.kind.same(&entry.item, item));
        let index = known.unwrap_or_else(|| {
            let index = self.free(taken);
            let entry = &mut self.table[index];
            entry.item.clear();
            entry.sent = 0;
            index
        });
        let entry = &mut self.table[index];
        entry.used = self.clock;
        entry.item.clear();
        entry.item.extend_from_slice(item);
        index as u8
    }

    /// An index that no list needs: short ones first, then new ones, then the one unused for longest.
    fn free(&mut self, taken: &List) -> usize {
        let reference = self.reference.map(|(_, list)| list).unwrap_or_default();
        let needed =
            |index: usize| taken.as_slice().iter().chain(reference.as_slice()).any(|used| usize::from(*used) == index);
        let idle = |range: core::ops::Range<usize>, table: &[Entry]| {
            range.filter(|index| !needed(*index)).max_by_key(|index| self.clock.wrapping_sub(table[*index].used))
        };
        if self.table.len() < SHORT {
            self.table.push(Entry::default());
            return self.table.len() - 1;
        }
        if let Some(index) = idle(0..SHORT, &self.table) {
            return index;
        }
        if self.table.len() < TABLE {
            self.table.push(Entry::default());
            return self.table.len() - 1;
        }
        // Two full lists take at most TABLE indices, and `taken` is not full when this is called.
        idle(SHORT..TABLE, &self.table).unwrap_or(0)
    }

    /// Is there something that the decompressor may not know, so that a list has to be sent?
    pub(crate) fn is_pending(&self) -> bool {
        self.sent < self.repeats
    }

    /// The items of the current list, and of each whether it went along in the list that was written
    /// since the last [`observe`](Self::observe).
    pub(crate) fn items(&self) -> impl Iterator<Item = (&[u8], bool)> {
        let written =
            |(at, index): (usize, &u8)| (&self.table[usize::from(*index)].item[..], self.fresh & 1 << at != 0);
        self.current.as_slice().iter().enumerate().map(written)
    }

    /// The decompressor lost something: everything has to be sent again.
    pub(crate) fn doubt(&mut self) {
        if self.is_untouched() {
            return;
        }
        self.sent = 0;
        self.reference = None;
        for entry in &mut self.table {
            entry.sent = 0;
        }
    }

    /// The decompressor has a packet since the list last changed.
    pub(crate) fn acknowledge(&mut self) {
        for index in self.current.as_slice() {
            self.table[usize::from(*index)].sent = self.repeats;
        }
        self.sent = self.repeats;
        self.refer();
    }

    /// The current list's item at `position` has to go along again.
    pub(crate) fn doubt_item(&mut self, position: usize) {
        self.sent = 0;
        self.table[usize::from(self.current.indices[position])].sent = 0;
    }

    /// Appends the compressed list and counts it as sent.
    pub(crate) fn write(&mut self, form: Form, out: &mut Vec<u8>) {
        if self.is_untouched() && form == Form::Full {
            // RFC 4815 5.1: the field is one octet.
            out.push(0);
            return;
        }
        let difference = match (form, self.reference) {
            (Form::Update, Some((_, reference))) => Some(Difference::between(&reference, &self.current)),
            _ => None,
        };
        match (difference, self.reference) {
            (Some(difference), Some((id, _))) if self.is_smaller(&difference) => {
                self.write_difference(&difference, id, out);
            }
            _ => self.write_generic(form, out),
        }
        let indices = self.current.as_slice();
        for (at, index) in indices.iter().enumerate() {
            // An item that stands in the list twice went along twice, but in one packet.
            if self.fresh & 1 << at != 0 && !indices[..at].contains(index) {
                let entry = &mut self.table[usize::from(*index)];
                entry.sent = entry.sent.saturating_add(1).min(self.repeats);
            }
        }
        self.sent = self.sent.saturating_add(1).min(self.repeats);
        if self.sent == self.repeats {
            self.refer();
        }
    }

    /// The current list is known: later ones can refer to it. RFC 4815 5.7: not to an empty one.
    fn refer(&mut self) {
        self.reference = (!self.current.is_empty()).then_some((self.generation, self.current));
    }

    /// Has there never been an item?
    fn is_untouched(&self) -> bool {
        self.table.is_empty()
    }

    fn is_known(&self, index: u8) -> bool {
        self.table[usize::from(index)].sent >= self.repeats
    }

    /// Is `difference` possible, and shorter than encoding type 0 with the same items?
    fn is_smaller(&self, difference: &Difference) -> bool {
        let indices = self.current.as_slice();
        let kept_known =
            indices.iter().enumerate().all(|(at, index)| difference.inserted.get(at) || self.is_known(*index));
        let octets = |inserted: &dyn Fn(usize) -> bool, in_first: usize| {
            let chosen = || indices.iter().enumerate().filter(|(at, _)| inserted(*at)).map(|(_, index)| *index);
            let count = chosen().count();
            let xi = if is_long(chosen()) { count } else { count.saturating_sub(in_first).div_ceil(2) };
            let items = chosen().filter(|index| !self.is_known(*index));
            xi + items.map(|index| self.table[usize::from(index)].item.len()).sum::<usize>()
        };
        let masks = |mask: Option<Mask>| mask.map_or(0, Mask::len);
        let (removed, inserted) = difference.masks();
        let length = 1 + masks(removed) + masks(inserted) + octets(&|at| difference.inserted.get(at), 1);
        kept_known && length < octets(&|_| true, 0)
    }

    /// Encoding type 0 (RFC 3095 5.8.6.1).
    fn write_generic(&mut self, form: Form, out: &mut Vec<u8>) {
        let indices = self.current;
        let long = is_long(indices.as_slice().iter().copied());
        // ET = 0, GP = 1: every list is a generation of its own, so that it stays in the context.
        out.push(0x20 | u8::from(long) << 4 | indices.length);
        out.push(self.generation);
        self.write_items(form, long, None, |_| true, out);
    }

    /// Encoding types 1 to 3 (RFC 3095 5.8.6.2 to 5.8.6.4).
    fn write_difference(&mut self, difference: &Difference, id: u8, out: &mut Vec<u8>) {
        let (removed, inserted) = difference.masks();
        let chosen = self.current.as_slice().iter().enumerate().filter(|(at, _)| difference.inserted.get(*at));
        let long = is_long(chosen.map(|(_, index)| *index));
        let first = out.len();
        out.push(match (removed, inserted) {
            (_, None) => 0xa0 | difference.old as u8,
            (None, _) => 0x60 | u8::from(long) << 4,
            _ => 0xe0 | u8::from(long) << 4,
        });
        out.extend_from_slice(&[self.generation, id]);
        for mask in [removed, inserted].into_iter().flatten() {
            mask.write(out);
        }
        if inserted.is_some() {
            self.write_items(Form::Update, long, Some(first), |at| difference.inserted.get(at), out);
        }
    }

    /// XI fields and items of the positions that `chosen` names. The first 4-bit field stands in the
    /// octet at `first`, if that is given.
    fn write_items(
        &mut self,
        form: Form,
        long: bool,
        mut first: Option<usize>,
        chosen: impl Fn(usize) -> bool,
        out: &mut Vec<u8>,
    ) {
        self.fresh = 0;
        let mut half = None;
        for (at, index) in self.current.as_slice().iter().enumerate().filter(|(at, _)| chosen(*at)) {
            let fresh = form == Form::Full || !self.is_known(*index);
            self.fresh |= u16::from(fresh) << at;
            if long {
                out.push(u8::from(fresh) << 7 | index);
                continue;
            }
            let xi = u8::from(fresh) << 3 | index;
            if let Some(octet) = first.take().or(half.take()) {
                out[octet] |= xi;
            } else {
                half = Some(out.len());
                out.push(xi << 4);
            }
        }
        for (at, index) in self.current.as_slice().iter().enumerate() {
            if self.fresh & 1 << at != 0 {
                out.extend_from_slice(&self.table[usize::from(*index)].item);
            }
        }
    }
}

/// Do these indices need 8-bit XI fields?
fn is_long(mut indices: impl Iterator<Item = u8>) -> bool {
    indices.any(|index| usize::from(index) >= SHORT)
}

/// What turns a reference into the current list.
struct Difference {
    /// Of each item of the reference, whether it goes.
    removed: Mask,
    /// Of each item of the current list, whether it is new.
    inserted: Mask,
    /// How many items the reference has.
    old: usize,
}

impl Difference {
    /// Keeps the longest common subsequence.
    fn between(reference: &List, current: &List) -> Self {
        let (old, new) = (reference.as_slice(), current.as_slice());
        let mut common = [[0u8; MAX_ITEMS + 1]; MAX_ITEMS + 1];
        for i in (0..old.len()).rev() {
            for j in (0..new.len()).rev() {
                common[i][j] =
                    if old[i] == new[j] { common[i + 1][j + 1] + 1 } else { common[i + 1][j].max(common[i][j + 1]) };
            }
        }
        // Masks of seven positions only if both lists have no more, so that nothing depends on what a
        // peer does with items beyond a mask (RFC 4815 5.3).
        let width = if old.len().max(new.len()) <= 7 { 7 } else { 15 };
        let mut removed = Mask { bits: 0, width };
        let mut inserted = Mask { bits: 0, width };
        let (mut i, mut j) = (0, 0);
        while i < old.len() || j < new.len() {
            if i < old.len() && j < new.len() && old[i] == new[j] {
                (i, j) = (i + 1, j + 1);
            } else if j == new.len() || i < old.len() && common[i + 1][j] >= common[i][j + 1] {
                removed.set(i);
                i += 1;
            } else {
                inserted.set(j);
                j += 1;
            }
        }
        Self { removed, inserted, old: old.len() }
    }

    /// The masks to send: removal and insertion. Without any difference, an empty removal.
    fn masks(&self) -> (Option<Mask>, Option<Mask>) {
        let inserted = (self.inserted.count() > 0).then_some(self.inserted);
        let mut removed = self.removed;
        if removed.count() == 0 && inserted.is_some() {
            return (None, inserted);
        }
        // RFC 3095 5.8.3: the rest of a removal mask is ones.
        (self.old..removed.width).for_each(|at| removed.set(at));
        (Some(removed), inserted)
    }
}
