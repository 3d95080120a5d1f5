//! Options at the decompressor: the item table, lists and irregular items back to the header's octets.

use alloc::vec::Vec;

use super::options::{
    Content, EOL, GENERIC, ListHeader, MAX_OPTIONS, MSS, NOP, SACK, SACK_PERMITTED, TABLE, TIMESTAMP, WINDOW_SCALE,
    read_sack, read_timestamp,
};
use crate::bits::Reader;
use crate::error::Malformed;

/// An entry of the item table.
#[derive(Clone, Copy, Debug)]
struct Entry {
    content: Content,
    /// `option_static` of a generic option.
    is_static: bool,
    /// Has an item come for it yet?
    is_known: bool,
}

/// The item table and the list of the last header (RFC 6846 6.3).
#[derive(Clone, Copy, Debug)]
pub(super) struct Items {
    table: [Entry; TABLE],
    list: ListHeader,
}

impl Items {
    pub(super) fn new() -> Self {
        let entry = Entry { content: Content::EMPTY, is_static: false, is_known: false };
        Self { table: [entry; TABLE], list: ListHeader::default() }
    }

    /// Reads a list with its items. In dynamic chains each item must be there (RFC 6846 6.3.5).
    pub(super) fn read_list(&mut self, reader: &mut Reader<'_>, ack: u32, is_whole: bool) -> Result<(), Malformed> {
        let list = ListHeader::read(reader)?;
        if is_whole && list.explicit.count_ones() != u32::from(list.count) {
            return Err(Malformed::Reserved("list of a dynamic chain"));
        }
        for (at, index) in list.indexes().iter().enumerate() {
            if list.explicit >> at & 1 == 1 {
                self.table[usize::from(*index)] = Self::read_item(reader, *index, ack)?;
            }
        }
        self.list = list;
        Ok(())
    }

    /// The `_list_item` formats.
    fn read_item(reader: &mut Reader<'_>, index: u8, ack: u32) -> Result<Entry, Malformed> {
        let mut is_static = false;
        let mut option = [0; MAX_OPTIONS];
        let len = match index {
            NOP => {
                option[0] = 1;
                1
            }
            // What stands for the padding's length; see `end_of_options`.
            EOL => {
                option[0] = reader.u8()?;
                1
            }
            MSS => {
                option[..2].copy_from_slice(&[2, 4]);
                option[2..4].copy_from_slice(reader.take(2)?);
                4
            }
            WINDOW_SCALE => {
                option[..3].copy_from_slice(&[3, 3, reader.u8()?]);
                3
            }
            TIMESTAMP => {
                option[..2].copy_from_slice(&[8, 10]);
                option[2..10].copy_from_slice(reader.take(8)?);
                10
            }
            SACK_PERMITTED => {
                option[..2].copy_from_slice(&[4, 2]);
                2
            }
            SACK => {
                let content = read_sack(reader, ack)?.ok_or(Malformed::Reserved("number of SACK blocks"))?;
                return Ok(Entry { content, is_static, is_known: true });
            }
            _ => {
                let kind = reader.u8()?;
                let second = reader.u8()?;
                is_static = second & 0x80 != 0;
                let len = usize::from(second & 0x7f);
                if !(2..=MAX_OPTIONS).contains(&len) {
                    return Err(Malformed::Reserved("length of an option"));
                }
                option[..2].copy_from_slice(&[kind, len as u8]);
                option[2..len].copy_from_slice(reader.take(len - 2)?);
                len
            }
        };
        let content = Content::new(&option[..len]).ok_or(Malformed::Reserved("length of an option"))?;
        Ok(Entry { content, is_static, is_known: true })
    }

    /// Reads the irregular items of the options that are in the header but not in a list of this
    /// packet (RFC 6846 6.3.6). `has_list` says whether this packet has one.
    pub(super) fn read_irregular(
        &mut self,
        reader: &mut Reader<'_>,
        ack: u32,
        has_list: bool,
    ) -> Result<(), Malformed> {
        let list = self.list;
        for (at, index) in list.indexes().iter().enumerate() {
            if has_list && list.explicit >> at & 1 == 1 {
                continue;
            }
            let entry = &mut self.table[usize::from(*index)];
            // RFC 6846 6.3.2: an index without an item that the table does not have.
            if !entry.is_known {
                return Err(Malformed::Reserved("option: its item has not come"));
            }
            match *index {
                TIMESTAMP => {
                    let value = read_timestamp(reader, entry.content.word(2))?;
                    let echo = read_timestamp(reader, entry.content.word(6))?;
                    entry.content = Content::timestamp(value, echo);
                }
                SACK => {
                    if let Some(content) = read_sack(reader, ack)? {
                        entry.content = content;
                    }
                }
                GENERIC.. if !entry.is_static => match reader.u8()? {
                    0xff => {}
                    0x00 => {
                        let mut option = [0; MAX_OPTIONS];
                        let old = entry.content.as_bytes();
                        let len = old.len();
                        option[..2].copy_from_slice(&old[..2]);
                        option[2..len].copy_from_slice(reader.take(len - 2)?);
                        entry.content =
                            Content::new(&option[..len]).ok_or(Malformed::Reserved("length of an option"))?;
                    }
                    _ => return Err(Malformed::Reserved("irregular item of an option")),
                },
                _ => {}
            }
        }
        Ok(())
    }

    /// Appends the options to a TCP header; they fill whole words (RFC 6846 6.4.5).
    pub(super) fn write(&self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        let start = out.len();
        for index in self.list.indexes() {
            let entry = &self.table[usize::from(*index)];
            if !entry.is_known {
                return Err(Malformed::Reserved("option: its item has not come"));
            }
            if *index == EOL {
                let padding = end_of_options(entry.content.as_bytes()[0], out.len() - start);
                out.resize(out.len() + 1 + padding, 0);
            } else {
                out.extend_from_slice(entry.content.as_bytes());
            }
        }
        let len = out.len() - start;
        if len > MAX_OPTIONS {
            Err(Malformed::TooMany("options"))
        } else if !len.is_multiple_of(4) {
            Err(Malformed::Reserved("length of the options"))
        } else {
            Ok(())
        }
    }
}

/// Octets of padding behind an EOL in front of which `before` octets of options stand: `value` is
/// in bits (RFC 6846 8.2), unless only as octets does it end on a boundary of 32 bits.
fn end_of_options(value: u8, before: usize) -> usize {
    let value = usize::from(value);
    let fits = |padding: usize| (before + 1 + padding).is_multiple_of(4);
    if value.is_multiple_of(8) && (fits(value / 8) || !fits(value)) { value / 8 } else { value }
}
