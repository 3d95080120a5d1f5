//! Writing captures: pcapng (draft-ietf-opsawg-pcapng) into a byte buffer, with times in nanoseconds.
//!
//! Everything is appended to a `Vec<u8>` that the caller writes out and clears when it likes.

use alloc::vec::Vec;

/// Link type of Ethernet (`LINKTYPE_ETHERNET`).
const ETHERNET: u16 = 1;

/// A capture that is being written: one section with its interfaces.
#[derive(Debug)]
pub struct Writer {
    interfaces: u32,
}

/// An interface of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interface(u32);

impl Writer {
    /// Begins a section (section header block, 4.1). `application` is the program that writes it
    /// (`shb_userappl`), `comment` is for the reader; both may be empty. Texts over 65,535 bytes are
    /// cut.
    #[must_use]
    pub fn start(out: &mut Vec<u8>, application: &str, comment: &str) -> Self {
        let block = Block::begin(out, 0x0a0d_0d0a);
        // Byte-order magic, version 1.0, length of the section not given.
        out.extend_from_slice(&0x1a2b_3c4d_u32.to_le_bytes());
        out.extend_from_slice(&[1, 0, 0, 0]);
        out.extend_from_slice(&u64::MAX.to_le_bytes());
        text(out, Code::SHB_USERAPPL, application);
        text(out, Code::COMMENT, comment);
        block.end(out);
        Self { interfaces: 0 }
    }

    /// Adds an Ethernet interface (interface description block, 4.2). All interfaces may be added
    /// before or between packets. `snap_len` is the most bytes kept of a packet, 0 for all.
    pub fn interface(&mut self, out: &mut Vec<u8>, name: &str, snap_len: u32) -> Interface {
        let block = Block::begin(out, 1);
        out.extend_from_slice(&ETHERNET.to_le_bytes());
        out.extend_from_slice(&[0, 0]);
        out.extend_from_slice(&snap_len.to_le_bytes());
        text(out, Code::IF_NAME, name);
        option(out, Code::IF_TSRESOL, &[9]);
        block.end(out);
        self.interfaces += 1;
        Interface(self.interfaces - 1)
    }

    /// Adds a packet (enhanced packet block, 4.3) that was seen `unix_nanos` nanoseconds after
    /// 1970 and was `original_len` bytes long, of which `bytes` are kept. `comment` may be empty.
    pub fn packet(
        &self,
        out: &mut Vec<u8>,
        interface: Interface,
        unix_nanos: u64,
        original_len: u32,
        bytes: &[u8],
        comment: &str,
    ) {
        let block = enhanced_packet(out, interface, unix_nanos, original_len, bytes);
        text(out, Code::COMMENT, comment);
        block.end(out);
    }

    /// As [`Self::packet`], and which way it went (`epb_flags`, 4.3.1), without a comment.
    pub fn packet_with_direction(
        &self,
        out: &mut Vec<u8>,
        interface: Interface,
        unix_nanos: u64,
        original_len: u32,
        bytes: &[u8],
        direction: Direction,
    ) {
        let block = enhanced_packet(out, interface, unix_nanos, original_len, bytes);
        option(out, Code::EPB_FLAGS, &(direction as u32).to_le_bytes());
        block.end(out);
    }
}

/// Which way a packet went, seen from the interface's owner (`epb_flags`, 4.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// It came in.
    Inbound = 1,
    /// It went out.
    Outbound = 2,
}

/// Begins an enhanced packet block (4.3); options may follow.
fn enhanced_packet(out: &mut Vec<u8>, interface: Interface, unix_nanos: u64, original_len: u32, bytes: &[u8]) -> Block {
    let block = Block::begin(out, 6);
    out.extend_from_slice(&interface.0.to_le_bytes());
    out.extend_from_slice(&((unix_nanos >> 32) as u32).to_le_bytes());
    out.extend_from_slice(&(unix_nanos as u32).to_le_bytes());
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(&original_len.to_le_bytes());
    padded(out, bytes);
    block
}

/// A block whose length is not known yet.
struct Block {
    at: usize,
}

impl Block {
    fn begin(out: &mut Vec<u8>, kind: u32) -> Self {
        let at = out.len();
        out.extend_from_slice(&kind.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        Self { at }
    }

    /// The length stands at both ends of a block (3.1).
    fn end(self, out: &mut Vec<u8>) {
        let len = ((out.len() + 4 - self.at) as u32).to_le_bytes();
        out.extend_from_slice(&len);
        out[self.at + 4..self.at + 8].copy_from_slice(&len);
    }
}

/// Option codes (3.5, 4.1 to 4.3).
struct Code;

impl Code {
    const COMMENT: u16 = 1;
    const EPB_FLAGS: u16 = 2;
    const IF_NAME: u16 = 2;
    const SHB_USERAPPL: u16 = 4;
    const IF_TSRESOL: u16 = 9;
}

/// Appends a text option, unless it is empty. What does not fit the length field is cut.
fn text(out: &mut Vec<u8>, code: u16, value: &str) {
    if !value.is_empty() {
        option(out, code, &value.as_bytes()[..value.floor_char_boundary(usize::from(u16::MAX))]);
    }
}

/// Appends an option. The list needs no end marker where the block ends (3.5).
fn option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    out.extend_from_slice(&code.to_le_bytes());
    out.extend_from_slice(&(value.len() as u16).to_le_bytes());
    padded(out, value);
}

/// Appends bytes and zeros up to a multiple of four.
fn padded(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(bytes);
    out.resize(out.len() + bytes.len().wrapping_neg() % 4, 0);
}
