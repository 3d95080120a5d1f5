//! The decompressor's table of items and its window of reference lists.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;

use super::{Kind, List, MAX_ITEMS, Mask};
use crate::bits::Reader;
use crate::error::Malformed;

/// How many octets the items of a table may have together. A peer could otherwise fill 128 items of
/// 2 KiB each, for each list of each context.
const TABLE_OCTETS: usize = 8192;

/// How many lists are kept as possible references; of more, those go that were received or referred
/// to the longest time ago. RFC 3095 5.8.2.1 f) keeps every generation since the last reference, but a compressor
/// refers to what it sent several times in a row.
const WINDOW: usize = 16;

/// Decompresses the lists of one place in the header (RFC 3095 5.8).
///
/// What a packet brings is kept apart until [`commit`](Self::commit), when its CRC was right.
#[derive(Clone, Debug)]
pub(crate) struct ListDecompressor {
    kind: Kind,
    table: Vec<Option<Box<[u8]>>>,
    table_octets: usize,
    /// The most recent one last.
    window: Vec<(u8, List)>,
    current: List,
    pending: Option<Pending>,
    /// The items of the pending list, one behind the other.
    octets: Vec<u8>,
}

/// A list that was read and not yet committed.
#[derive(Clone, Debug)]
struct Pending {
    list: List,
    /// It came in a dynamic chain.
    is_dynamic: bool,
    generation: Option<u8>,
    reference: Option<u8>,
    /// Index and place in `octets` of each item that came along.
    fresh: [(u8, u16, u16); MAX_ITEMS],
    fresh_count: usize,
}

impl ListDecompressor {
    pub(crate) const fn new(kind: Kind) -> Self {
        Self {
            kind,
            table: Vec::new(),
            table_octets: 0,
            window: Vec::new(),
            current: List { indices: [0; MAX_ITEMS], length: 0 },
            pending: None,
            octets: Vec::new(),
        }
    }

    /// Forgets what was read and not committed.
    pub(crate) fn abandon(&mut self) {
        self.pending = None;
    }

    /// Reads the list of a dynamic chain. It is the list of this packet and of those to come, even if it is
    /// no generation.
    pub(crate) fn read_dynamic(&mut self, reader: &mut Reader<'_>) -> Result<(), Malformed> {
        self.read(reader)?;
        if let Some(pending) = &mut self.pending {
            pending.is_dynamic = true;
        }
        Ok(())
    }

    /// Reads a compressed list. It is the list of this packet from now on, and of those to come if it is a
    /// generation (RFC 3095 5.8.2.1 d).
    pub(crate) fn read(&mut self, reader: &mut Reader<'_>) -> Result<(), Malformed> {
        self.pending = None;
        self.octets.clear();
        let first = reader.u8()?;
        let generation = if first & 0x20 == 0 { None } else { Some(reader.u8()?) };
        let mut pending = Pending {
            list: List::default(),
            is_dynamic: false,
            generation,
            reference: None,
            fresh: [(0, 0, 0); MAX_ITEMS],
            fresh_count: 0,
        };
        let long = first & 0x10 != 0;
        let low = first & 0x0f;
        match first >> 6 {
            0 => {
                let mut indices = Indices::new(long, None);
                let mut fresh = [false; MAX_ITEMS];
                for slot in &mut fresh[..usize::from(low)] {
                    let (index, is_fresh) = indices.next(reader)?;
                    pending.list.push(index)?;
                    *slot = is_fresh;
                }
                let listed = pending.list;
                self.read_items(&mut pending, listed.as_slice().iter().copied().zip(fresh), reader)?;
            }
            encoding => {
                let id = reader.u8()?;
                let reference = self.window.iter().find(|(known, _)| *known == id).ok_or(Malformed::Unknown)?.1;
                pending.reference = Some(id);
                let removal = if encoding == 1 { None } else { Some(Mask::read(reader)?) };
                if encoding == 2 && usize::from(low) != reference.as_slice().len() {
                    return Err(Malformed::Unknown);
                }
                let kept = remove(&reference, removal)?;
                if encoding == 2 {
                    pending.list = kept;
                    self.check_known(&pending)?;
                    self.pending = Some(pending);
                    return Ok(());
                }
                let insertion = Mask::read(reader)?;
                let mut indices = Indices::new(long, Some(low));
                let mut inserted = [(0, false); MAX_ITEMS];
                for slot in &mut inserted[..insertion.count()] {
                    *slot = indices.next(reader)?;
                }
                let inserted = &inserted[..insertion.count()];
                pending.list = insert(&kept, insertion, inserted)?;
                self.read_items(&mut pending, inserted.iter().copied(), reader)?;
            }
        }
        self.check_known(&pending)?;
        self.check_room(&pending)?;
        self.pending = Some(pending);
        Ok(())
    }

    /// Reads an item for each index that is marked as bringing one.
    fn read_items(
        &mut self,
        pending: &mut Pending,
        indices: impl Iterator<Item = (u8, bool)>,
        reader: &mut Reader<'_>,
    ) -> Result<(), Malformed> {
        for (index, _) in indices.filter(|(_, fresh)| *fresh) {
            let length = self.kind.item_len(reader.rest())?;
            let start = self.octets.len();
            self.octets.extend_from_slice(reader.take(length)?);
            if self.octets.len() > TABLE_OCTETS {
                return Err(Malformed::TooMany("octets of list items"));
            }
            pending.fresh[pending.fresh_count] = (index, start as u16, self.octets.len() as u16);
            pending.fresh_count += 1;
        }
        Ok(())
    }

    /// Every item of the list must be in the table or have come along.
    fn check_known(&self, pending: &Pending) -> Result<(), Malformed> {
        let is_known = |index: &u8| {
            pending.fresh_of(*index).is_some() || self.table.get(usize::from(*index)).is_some_and(Option::is_some)
        };
        if pending.list.as_slice().iter().all(is_known) { Ok(()) } else { Err(Malformed::Unknown) }
    }

    /// The table must have room for what came along.
    fn check_room(&self, pending: &Pending) -> Result<(), Malformed> {
        let known =
            |index: u8| self.table.get(usize::from(index)).and_then(Option::as_ref).map_or(0, |item| item.len());
        let replaced: usize = pending.fresh().map(|(index, _)| known(index)).sum();
        // An index may come along twice: then what it replaces is counted twice, and never too little.
        let room = TABLE_OCTETS.saturating_sub(self.table_octets.saturating_sub(replaced));
        if self.octets.len() <= room { Ok(()) } else { Err(Malformed::TooMany("octets of list items")) }
    }

    /// How many items this packet's list has.
    pub(crate) fn len(&self) -> u8 {
        self.pending.as_ref().map_or(&self.current, |pending| &pending.list).length
    }

    /// The items of this packet's list: what was read, or else the list of the packets before. Of each,
    /// whether it came along.
    pub(crate) fn items(&self) -> impl DoubleEndedIterator<Item = (&[u8], bool)> + Clone {
        let list = self.pending.as_ref().map_or(&self.current, |pending| &pending.list);
        list.as_slice().iter().map(|index| {
            let fresh = self.pending.as_ref().and_then(|pending| pending.fresh_of(*index));
            match fresh {
                Some(range) => (&self.octets[range], true),
                // Known: `check_known` saw it, and entries are never taken out.
                None => (self.table[usize::from(*index)].as_deref().unwrap_or_default(), false),
            }
        })
    }

    /// Takes over what was read: the packet was right. Unless it may update `lists`, only items are kept
    /// (RFC 4815 6.2).
    pub(crate) fn commit(&mut self, lists: bool) {
        let Some(pending) = self.pending.take() else { return };
        for (index, range) in pending.fresh() {
            let item = &self.octets[range];
            let index = usize::from(index);
            if self.table.len() <= index {
                self.table.resize(index + 1, None);
            }
            let entry = &mut self.table[index];
            let old = entry.as_ref().map_or(0, |item| item.len());
            self.table_octets = self.table_octets - old + item.len();
            match entry {
                Some(known) if known.len() == item.len() => known.copy_from_slice(item),
                _ => *entry = Some(item.into()),
            }
        }
        if !lists || !pending.is_dynamic && pending.generation.is_none() {
            return;
        }
        self.current = pending.list;
        // Whoever is referred to is in use: it goes to the end, where nothing is forgotten.
        if let Some(at) = self.window.iter().position(|(known, _)| Some(*known) == pending.reference) {
            self.window[at..].rotate_left(1);
        }
        if let Some(generation) = pending.generation {
            // RFC 3095 5.8.2.1 g) keeps the first list of a generation. Here the last one stays, so that
            // a list from before the identifiers wrapped never stands in for its successor.
            self.window.retain(|(known, _)| *known != generation);
            if self.window.len() == WINDOW {
                self.window.remove(0);
            }
            if !pending.list.is_empty() {
                self.window.push((generation, pending.list));
            }
        }
    }
}

impl Pending {
    /// Each item that came along: its index and its place.
    fn fresh(&self) -> impl DoubleEndedIterator<Item = (u8, Range<usize>)> {
        self.fresh[..self.fresh_count]
            .iter()
            .map(|(index, start, end)| (*index, usize::from(*start)..usize::from(*end)))
    }

    fn fresh_of(&self, index: u8) -> Option<Range<usize>> {
        self.fresh().rev().find(|(fresh, _)| *fresh == index).map(|(_, range)| range)
    }
}

/// XI fields: index, and whether its item comes along (RFC 3095 5.8.6.1).
struct Indices {
    long: bool,
    /// A 4-bit field that was read with the one before.
    half: Option<u8>,
}

impl Indices {
    /// `first` is the 4-bit XI 1 field of types 1 and 3, which is nothing beside 8-bit fields.
    fn new(long: bool, first: Option<u8>) -> Self {
        Self { long, half: first.filter(|_| !long) }
    }

    fn next(&mut self, reader: &mut Reader<'_>) -> Result<(u8, bool), Malformed> {
        if self.long {
            let octet = reader.u8()?;
            return Ok((octet & 0x7f, octet & 0x80 != 0));
        }
        let xi = match self.half.take() {
            Some(xi) => xi,
            None => {
                let octet = reader.u8()?;
                self.half = Some(octet & 0x0f);
                octet >> 4
            }
        };
        Ok((xi & 0x07, xi & 0x08 != 0))
    }
}

/// The removal scheme (RFC 3095 5.8.3). Items beyond the mask stay (RFC 4815 5.3).
fn remove(reference: &List, mask: Option<Mask>) -> Result<List, Malformed> {
    let Some(mask) = mask else { return Ok(*reference) };
    let items = reference.as_slice();
    // A 0 where the reference is exhausted: this is not the list that the compressor refers to.
    if (items.len()..mask.width).any(|position| !mask.get(position)) {
        return Err(Malformed::Unknown);
    }
    let mut kept = List::default();
    for (position, index) in items.iter().enumerate() {
        if !mask.get(position) {
            kept.push(*index)?;
        }
    }
    Ok(kept)
}

/// The insertion scheme (RFC 3095 5.8.3). Items beyond the mask stay (RFC 4815 5.3).
fn insert(kept: &List, mask: Mask, inserted: &[(u8, bool)]) -> Result<List, Malformed> {
    let mut list = List::default();
    let mut old = kept.as_slice().iter();
    let mut new = inserted.iter();
    let mut exhausted = false;
    for position in 0..mask.width {
        if mask.get(position) {
            if exhausted {
                // An item behind a gap: this is not the list that the compressor refers to.
                return Err(Malformed::Unknown);
            }
            list.push(new.next().ok_or(Malformed::TooShort)?.0)?;
        } else if let Some(index) = old.next() {
            list.push(*index)?;
        } else {
            exhausted = true;
        }
    }
    for index in old {
        list.push(*index)?;
    }
    Ok(list)
}
