//! Robust header compression (ROHC): IP, UDP, RTP and ESP headers of 28 to 100 octets become 1 to 4.
//!
//! A [`Compressor`] and a [`Decompressor`] stand at the two ends of a link that delivers packets in
//! order, loses some, and tells their lengths. Both are state machines without I/O: time is an
//! argument, packets come and go as octets.
//!
//! | module | holds |
//! |---|---|
//! | `compressor`, `decompressor` | the framework (RFC 3095 5.2, RFC 5795): contexts, feedback, which profile a packet is for |
//! | `rfc3095` | profiles 0x0001 to 0x0004 |
//! | `uncompressed` | profile 0x0000 |
//! | `tcp` | profile 0x0006 |
//! | `list` | list compression (RFC 3095 5.8) |
//! | `segment` | segmentation (RFC 3095 5.2.5) |
//! | `wlsb`, `crc`, `bits`, `cid`, `feedback`, `headers`, `table` | what profiles have in common |
//!
//! # Bounds
//!
//! A compressor has at most MAX_CID and one contexts of some 1 KiB each, a decompressor of some 0.4 KiB. Both are made
//! when first needed and used again; beyond that nothing grows. Feedback that waits to be taken is kept up to 1 KiB; what
//! finds no room is counted.
//!
//! # Example
//!
//! ```
//! use core::time::Duration;
//! use rohc::{Compressor, CompressorConfig, Decompressor, DecompressorConfig, Profile};
//!
//! let mut compressor = Compressor::new(CompressorConfig::default());
//! let mut decompressor = Decompressor::new(DecompressorConfig::default());
//!
//! // A fragment cannot be compressed: it goes as it is, behind a context identifier.
//! let packet = [0x45, 0, 0, 20, 0, 0, 0x20, 0, 64, 132, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
//! let (mut line, mut received) = (Vec::new(), Vec::new());
//! let info = compressor.compress(Duration::ZERO, &packet, &mut line)?;
//! assert_eq!(info.profile, Profile::Uncompressed);
//! decompressor.decompress(Duration::ZERO, &line, &mut received)?;
//! assert_eq!(received, packet);
//!
//! // What the decompressor has to say goes back to the compressor, if there is a way back.
//! let mut feedback = Vec::new();
//! decompressor.take_feedback(&mut feedback);
//! compressor.feedback(Duration::ZERO, &feedback)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The crate's README has one that shows headers shrink.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod bits;
mod cid;
mod compressor;
mod crc;
mod decompressor;
mod error;
mod feedback;
mod headers;
mod list;
mod packet_type;
mod profile;
mod rfc3095;
mod segment;
mod stranger;
mod table;
mod tcp;
mod uncompressed;
mod wlsb;

pub use compressor::{CompressInfo, Compressor, CompressorConfig, CompressorCounters, RtpPorts};
pub use decompressor::{DecompressInfo, Decompressor, DecompressorConfig, DecompressorCounters, Mode};
pub use error::{CompressError, DecompressError, FeedbackError, Malformed, SegmentError};
pub use packet_type::PacketType;
pub use profile::{Profile, ProfileSet};
pub use segment::Segments;

/// The README's example, which must run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
