//! Profile 0x0006: IP/TCP (RFC 6846, RFC 4164 for context replication).
//!
//! Where the profile leaves freedom, or an implementation in the field reads it otherwise:
//!
//! - Flags that a small header leaves out are ACK set and URG clear (RFC 6846 8.2, `DEFAULT`). Others
//!   take them from the context. The compressor sends `co_common` until both readings agree, and the
//!   decompressor tries the other one if the CRC refuses the first.
//! - The TTL of an outer header that changes is sent in IR-DYN, never in the irregular chain, where
//!   implementations differ in whether it becomes the reference.
//! - Padding behind EOL: see [`options`].
//! - A segment whose checksum is wrong is left to another profile: this decompressor verifies the
//!   checksum, and delivers nothing that fails.
//! - The CRC of FEEDBACK-2 is over the entire feedback element, type octet and size too (RFC 6846 8.3.1, RFC 5795
//!   5.2.4.1). Some have it from the CID on, as RFC 3095 5.7.6.3 does: the compressor takes either.
//! - The MSN option has two bits and six reserved ones (RFC 6846 8.3.2.3). Some send eight bits, as RFC 3095 5.7.6.6
//!   does: where the standard's reading names no packet that was sent, the other one is tried.

mod bitfield;
mod chain;
mod choose;
mod compress;
mod decompress;
mod formats;
mod header;
mod options;
mod receive_chains;
mod receive_options;
mod references;
mod segment;
mod send_chains;
mod send_options;
mod track;

pub(crate) use compress::{Compressor, Replica};
pub(crate) use decompress::{Decompressor, base_cid};
pub(crate) use segment::Segment;

use crate::profile::Profile;
use crate::wlsb::Window;

/// In IR, IR-DYN and IR-CR packets.
const PROFILE_OCTET: u8 = Profile::Tcp.octet();

/// The timestamps that the decompressor may have as its reference.
#[derive(Clone, Debug)]
struct Timestamps {
    value: Window,
    echo: Window,
}
