//! Payload compression: raw DEFLATE (RFC 1951) of data packets, each by itself.
//!
//! A packet is deflated together with its compressed header, after header compression, and needs
//! nothing of the packets before it: the loss of one costs that one alone. On the line a deflated
//! packet begins with [`MARK`], which begins no other: neither an IP header nor ARP does, and no
//! ROHC packet (RFC 3095 5.2, RFC 6846 7: the packet type 11111001 is not used). What is sent as it is
//! costs nothing more.
//!
//! Tried is what may pay. Never tried: what is encrypted or looks like it (ESP, AH, ports of encrypted
//! protocols, TLS and DTLS records, RTP and so SRTP, bytes as even as random ones), since it would not
//! shrink, and what is shorter than a stated length. A flow whose packet did not pay rests for eight
//! packets, then for twice as many each time, up to 1,024.

mod choice;

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use engine::Size;
use miniz_oxide::deflate::core::{
    CompressorOxide, TDEFLFlush, TDEFLStatus, compress, create_comp_flags_from_zip_params,
};
use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::{DecompressorOxide, decompress, inflate_flags};
use serde::{Deserialize, Serialize};
use wire::Headers;

use choice::Resting;

/// What a deflated packet begins with on the line.
pub const MARK: u8 = 0xf9;

/// Payload compression of what goes to the line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct PayloadConfig {
    /// Shorter packets are not tried, after header compression; 32B to 1500B. Default 64B.
    pub least: Size,
    /// A packet is sent deflated if that makes it so much shorter; 1B to 256B. Default 4B.
    pub margin: Size,
    /// How hard is tried, 1 to 9. Default 6.
    pub level: u8,
}

impl Default for PayloadConfig {
    fn default() -> Self {
        Self { least: Size::from_bytes(64), margin: Size::from_bytes(4), level: 6 }
    }
}

/// What payload compression did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PayloadCounters {
    /// Packets sent deflated.
    pub deflated: u64,
    /// Their bytes before, compressed headers included.
    pub bytes_before: u64,
    /// Their bytes after, the mark included.
    pub bytes_after: u64,
    /// Packets tried in vain.
    pub vain: u64,
    /// Packets of flows at rest.
    pub rested: u64,
    /// Packets that are encrypted or coded, by what they are or look like.
    pub encrypted: u64,
    /// Packets shorter than is tried.
    pub short: u64,
}

/// Deflates what pays.
pub struct Deflater {
    config: PayloadConfig,
    state: Box<CompressorOxide>,
    resting: Resting,
    scratch: Vec<u8>,
    counters: PayloadCounters,
}

impl core::fmt::Debug for Deflater {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Deflater")
            .field("config", &self.config)
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}

impl Deflater {
    /// A deflater that has seen nothing.
    #[must_use]
    pub fn new(config: PayloadConfig) -> Self {
        // Window bits of zero and below mean raw DEFLATE; strategy 0 is the default one.
        let flags = create_comp_flags_from_zip_params(i32::from(config.level), -15, 0);
        Self {
            config,
            state: Box::new(CompressorOxide::new(flags)),
            resting: Resting::new(),
            scratch: Vec::new(),
            counters: PayloadCounters::default(),
        }
    }

    /// `line` holds a data packet as header compression left it, `packet` the network layer it was
    /// made from. Replaces `line` by its deflated form and says true, if that pays.
    pub fn deflate(&mut self, ethertype: u16, packet: &[u8], line: &mut Vec<u8>) -> bool {
        if line.len() < self.config.least.bytes() as usize {
            self.counters.short += 1;
            return false;
        }
        let headers = Headers::of_network(ethertype, packet);
        if choice::is_opaque(packet, &headers) {
            self.counters.encrypted += 1;
            return false;
        }
        let rest = self.resting.of(packet, &headers);
        if rest.skip() {
            self.counters.rested += 1;
            return false;
        }
        // No longer than what would pay: the rest need not be made.
        let most = line.len().saturating_sub(self.config.margin.bytes() as usize);
        self.scratch.clear();
        self.scratch.resize(most, 0);
        let Some((mark, room)) = self.scratch.split_first_mut() else { return false };
        *mark = MARK;
        self.state.reset();
        let (status, taken, written) = compress(&mut self.state, line, room, TDEFLFlush::Finish);
        let pays = status == TDEFLStatus::Done && taken == line.len();
        rest.tried(pays);
        if !pays {
            self.counters.vain += 1;
            return false;
        }
        self.scratch.truncate(1 + written);
        self.counters.deflated += 1;
        self.counters.bytes_before += line.len() as u64;
        self.counters.bytes_after += self.scratch.len() as u64;
        core::mem::swap(line, &mut self.scratch);
        true
    }

    /// What was done so far.
    #[must_use]
    pub fn counters(&self) -> PayloadCounters {
        self.counters
    }
}

/// Why a deflated packet could not be inflated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InflateError {
    /// It would be longer than any packet may be: a bomb, or another adapter's limit.
    #[error("a deflated packet becomes longer than {limit} bytes; both adapters need the same `largest-packet`")]
    TooLong {
        /// The most bytes that are taken.
        limit: usize,
    },
    /// It is no DEFLATE stream, or not whole.
    #[error("a deflated packet is damaged; it is dropped")]
    Damaged,
    /// Something follows the end of the stream.
    #[error("{bytes} bytes follow a deflated packet; it is dropped")]
    Trailing {
        /// How many.
        bytes: usize,
    },
}

/// Inflates what came deflated.
pub struct Inflater {
    state: Box<DecompressorOxide>,
    scratch: Vec<u8>,
    limit: usize,
}

impl core::fmt::Debug for Inflater {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Inflater").field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl Inflater {
    /// An inflater of packets of at most `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { state: Box::default(), scratch: vec![0; limit], limit }
    }

    /// A packet as it came from the line: inflated if it was deflated, else as it is.
    ///
    /// # Errors
    ///
    /// See [`InflateError`]: the packet is lost then, and no other.
    pub fn inflate<'a>(&'a mut self, line: &'a [u8]) -> Result<&'a [u8], InflateError> {
        let Some((&MARK, stream)) = line.split_first() else { return Ok(line) };
        self.state.init();
        let flags = inflate_flags::TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
        let (status, taken, written) = decompress(&mut self.state, stream, &mut self.scratch, 0, flags);
        match status {
            TINFLStatus::Done if taken == stream.len() => Ok(&self.scratch[..written]),
            TINFLStatus::Done => Err(InflateError::Trailing { bytes: stream.len() - taken }),
            TINFLStatus::HasMoreOutput => Err(InflateError::TooLong { limit: self.limit }),
            _ => Err(InflateError::Damaged),
        }
    }
}
