//! Options at the compressor: which item has which index, what the decompressor knows of it, and so
//! what has to be sent.

use alloc::vec::Vec;

use super::Timestamps;
use super::options::{
    Content, Cut, EOL, GENERIC, MAX_ITEMS, MSS, NOP, SACK, SACK_PERMITTED, TABLE, TIMESTAMP, WINDOW_SCALE,
    reserved_index, write_list_header, write_sack, write_timestamp,
};

/// An entry of the item table (RFC 6846 6.3.2).
#[derive(Clone, Copy, Debug)]
struct Entry {
    content: Content,
    /// Packets that carried the item in a list since it last had to be established.
    sent: u8,
    /// The packet that it last had to be established from, in the count of [`Items::packets`]. While it is being
    /// established, every packet from this one to `used` has it.
    since: u32,
    /// Packets in a row with this content, up to `repeats`: from there on all packets that use it have it.
    same: u8,
    /// `option_static` of a generic option.
    is_static: bool,
    /// The packet that used it last, in the count of [`Items::packets`].
    used: u32,
}

/// The item table, and what the last packets said about the list.
#[derive(Clone, Debug)]
pub(super) struct Items {
    /// Packets that carry something new before it is left out.
    repeats: u8,
    table: [Entry; TABLE],
    indexes: [u8; MAX_ITEMS],
    count: u8,
    /// Packets that carried the list since it last changed.
    list_sent: u8,
    packets: u32,
}

/// What one packet has to say about its options.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    indexes: [u8; MAX_ITEMS],
    contents: Cut,
    count: u8,
    /// Items that have to be in the list, if there is one.
    explicit: u16,
    /// Items whose content is what the last packets had.
    unchanged: u16,
    /// Must there be a list?
    pub(super) needs_list: bool,
    /// Does it say of other items, or of another order, than the last packet's?
    pub(super) is_list_new: bool,
}

impl Plan {
    fn items(&self) -> impl Iterator<Item = (usize, u8, core::ops::Range<usize>)> + '_ {
        self.contents.ranges().enumerate().map(|(at, range)| (at, self.indexes[at], range))
    }

    fn indexes(&self) -> &[u8] {
        &self.indexes[..usize::from(self.count)]
    }

    /// The timestamp option's two values, if there is one.
    pub(super) fn timestamp(&self, options: &[u8]) -> Option<(u32, u32)> {
        self.items().find(|item| item.1 == TIMESTAMP).map(|(_, _, range)| Timestamps::of(&options[range]))
    }
}

impl Items {
    pub(super) fn new(repeats: u8) -> Self {
        let entry = Entry { content: Content::EMPTY, sent: 0, since: 0, same: 0, is_static: true, used: 0 };
        Self { repeats, table: [entry; TABLE], indexes: [0; MAX_ITEMS], count: 0, list_sent: 0, packets: 0 }
    }

    /// The decompressor may know nothing of what was sent.
    pub(super) fn forget(&mut self) {
        self.list_sent = 0;
        for entry in &mut self.table {
            entry.sent = 0;
            entry.same = 0;
        }
    }

    /// The decompressor has the packet that went `age` packets before the last one: the items that were in it,
    /// and the list if it `has_list`, the present one.
    pub(super) fn confirm(&mut self, age: u16, has_list: bool) {
        let packet = self.packets.wrapping_sub(age.into());
        if has_list {
            self.list_sent = self.repeats;
        }
        for entry in &mut self.table {
            // An item that only packets before or after it carried may have been lost with them.
            if entry.sent > 0 && packet.wrapping_sub(entry.since) <= entry.used.wrapping_sub(entry.since) {
                entry.sent = self.repeats;
            }
        }
    }

    /// Takes the options of a packet into the table, and says what has to be sent about them.
    pub(super) fn plan(&mut self, options: &[u8], cut: Cut, timestamps: &Timestamps) -> Plan {
        self.packets = self.packets.wrapping_add(1);
        let mut plan = Plan {
            indexes: [0; MAX_ITEMS],
            contents: cut,
            count: 0,
            explicit: 0,
            unchanged: 0,
            needs_list: false,
            is_list_new: false,
        };
        for (at, range) in cut.ranges().enumerate() {
            let option = &options[range];
            let index = self.index(option, &plan, options);
            let entry = &mut self.table[usize::from(index)];
            let is_same = entry.used > 0 && entry.content.as_bytes() == option;
            let since_used = self.packets.wrapping_sub(entry.used);
            // Repeats outlast losses in a row only if they come in a row themselves: the packets between may be
            // all that arrived.
            let is_gap = since_used > 1;
            let mut must_list = false;
            match index {
                NOP | SACK_PERMITTED => {}
                // The window has the last packets with a timestamp, which after a gap may all be lost.
                TIMESTAMP => must_list = is_gap || !timestamps.fits(option),
                SACK => {}
                EOL | MSS | WINDOW_SCALE => must_list = !is_same,
                _ => {
                    let is_alike = is_same || {
                        let old = entry.content.as_bytes();
                        old.len() == option.len() && old.first() == option.first()
                    };
                    if !is_alike {
                        entry.is_static = true;
                        must_list = true;
                    } else if !is_same && entry.is_static {
                        // It changes after all: say so once, and then send contents alone.
                        entry.is_static = false;
                        must_list = true;
                    }
                }
            }
            if must_list || is_gap && entry.sent < self.repeats {
                entry.sent = 0;
            }
            if entry.sent == 0 {
                entry.since = self.packets;
            }
            entry.same = match entry.same {
                _ if !is_same => 0,
                same if same >= self.repeats => same,
                _ if is_gap => 0,
                // Twice in one packet is once.
                same => same + u8::from(since_used == 1),
            };
            if !is_same && let Some(content) = Content::new(option) {
                entry.content = content;
            }
            entry.used = self.packets;
            if entry.sent < self.repeats {
                plan.explicit |= 1 << at;
                plan.needs_list = true;
            }
            if entry.same >= self.repeats {
                plan.unchanged |= 1 << at;
            }
            plan.indexes[at] = index;
            plan.count += 1;
        }
        if plan.indexes() != &self.indexes[..usize::from(self.count)] {
            self.indexes = plan.indexes;
            self.count = plan.count;
            self.list_sent = 0;
            plan.is_list_new = true;
        }
        plan.needs_list |= self.list_sent < self.repeats;
        plan
    }

    /// The table index of an option (RFC 6846 6.3.4): the reserved one, unless the packet has two of
    /// the kind that differ; a generic one otherwise.
    fn index(&self, option: &[u8], plan: &Plan, options: &[u8]) -> u8 {
        let taken = |index: u8| plan.items().take(usize::from(plan.count)).find(move |item| item.1 == index);
        // Irregular items of two timestamps or SACKs would each move the reference of the next.
        let may_repeat = |index: u8| !matches!(index, TIMESTAMP | SACK);
        if let Some(index) = reserved_index(option)
            && taken(index).is_none_or(|(_, _, range)| may_repeat(index) && &options[range] == option)
        {
            return index;
        }
        let generic = GENERIC..TABLE as u8;
        let entry = |index: u8| &self.table[usize::from(index)];
        let is_of_kind = |index: &u8| {
            let content = entry(*index).content.as_bytes();
            content.first() == option.first() && content.len() == option.len() && taken(*index).is_none()
        };
        let is_the_same = |index: &u8| entry(*index).content.as_bytes() == option;
        // 40 octets hold at most 9 different options of 4 or more octets beside 15 items in all; of
        // shorter ones that have no index of their own more than nine could come: see `can_carry`.
        generic
            .clone()
            .find(is_the_same)
            .or_else(|| generic.clone().find(is_of_kind))
            .or_else(|| generic.clone().filter(|index| taken(*index).is_none()).min_by_key(|index| entry(*index).used))
            .unwrap_or(TABLE as u8 - 1)
    }

    /// Appends the list. In a dynamic chain all items are in it.
    pub(super) fn write_list(&mut self, out: &mut Vec<u8>, plan: &Plan, options: &[u8], ack: u32, is_whole: bool) {
        let explicit = if is_whole { (1u16 << plan.count) - 1 } else { plan.explicit };
        write_list_header(out, plan.indexes(), explicit);
        let mut counted = 0u16;
        for (at, index, range) in plan.items() {
            if explicit >> at & 1 == 0 {
                continue;
            }
            let option = &options[range];
            let entry = &mut self.table[usize::from(index)];
            if counted >> index & 1 == 0 {
                entry.sent = entry.sent.saturating_add(1);
                counted |= 1 << index;
            }
            match index {
                NOP | SACK_PERMITTED => {}
                EOL => out.push(((option.len() - 1) * 8) as u8),
                MSS | WINDOW_SCALE | TIMESTAMP => out.extend_from_slice(&option[2..]),
                SACK => write_sack(out, option, ack),
                _ => {
                    out.extend_from_slice(&[option[0], u8::from(entry.is_static) << 7 | option[1]]);
                    out.extend_from_slice(&option[2..]);
                }
            }
        }
        self.list_sent = self.list_sent.saturating_add(1);
    }

    /// Appends the irregular items of the options that no list of this packet has.
    pub(super) fn write_irregular(
        &self,
        out: &mut Vec<u8>,
        plan: &Plan,
        options: &[u8],
        ack: u32,
        has_list: bool,
        timestamps: &Timestamps,
    ) {
        for (at, index, range) in plan.items() {
            if has_list && plan.explicit >> at & 1 == 1 {
                continue;
            }
            let option = &options[range];
            let is_unchanged = plan.unchanged >> at & 1 == 1;
            match index {
                TIMESTAMP => timestamps.write(out, option),
                SACK if is_unchanged => out.push(0),
                SACK => write_sack(out, option, ack),
                GENERIC.. if !self.table[usize::from(index)].is_static => {
                    if is_unchanged {
                        out.push(0xff);
                    } else {
                        out.push(0x00);
                        out.extend_from_slice(&option[2..]);
                    }
                }
                _ => {}
            }
        }
    }
}

/// Can these options be carried: in at most 15 items, of which at most 9 need a generic index?
pub(super) fn can_carry(options: &[u8]) -> Option<Cut> {
    let cut = Cut::of(options)?;
    let mut generic = 0;
    let mut seen = 0u16;
    for range in cut.ranges() {
        match reserved_index(&options[range]) {
            Some(index) if index <= EOL || seen >> index & 1 == 0 => seen |= 1 << index,
            _ => generic += 1,
        }
    }
    (generic <= TABLE - usize::from(GENERIC)).then_some(cut)
}

/// The timestamps that the decompressor may have as its reference.
impl Timestamps {
    fn fits(&self, option: &[u8]) -> bool {
        let (value, echo) = Self::of(option);
        self.value.fits(value, 29, 0x0400_0000) && self.echo.fits(echo, 29, 0x0400_0000)
    }

    fn write(&self, out: &mut Vec<u8>, option: &[u8]) {
        let (value, echo) = Self::of(option);
        write_timestamp(out, value, |bits, p| self.value.fits(value, bits, p));
        write_timestamp(out, echo, |bits, p| self.echo.fits(echo, bits, p));
    }

    /// The two values of a timestamp option.
    fn of(option: &[u8]) -> (u32, u32) {
        let word = |at: usize| option[at..].first_chunk().map_or(0, |word| u32::from_be_bytes(*word));
        (word(2), word(6))
    }
}
