//! A packet on its way through the elements.

use alloc::vec::Vec;

use crate::Time;

/// An Ethernet frame with what an element needs to know of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    /// The frame, from the destination address on, without the frame check sequence.
    pub bytes: Vec<u8>,
    /// When it entered the graph, in logical time.
    pub arrived: Time,
    /// When it is to be on the wire, in logical time. Set by the element that held it last; an
    /// executor sends it then or (counted) later, never before.
    pub launch: Time,
    /// Traffic class, set by a classifier.
    pub class: Class,
    /// Set if this is a super-frame: many segments under one header.
    pub gso: Option<Gso>,
    /// Whether the transport checksum is in place yet.
    pub checksum: Checksum,
    /// Unique within a run, in order of entry.
    pub id: u64,
}

/// Traffic class of a packet; 0 until a classifier says otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Class(pub u8);

/// How a super-frame is to be cut (`struct virtio_net_hdr`: `gso_type`, `gso_size`, `hdr_len`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gso {
    /// What is cut.
    pub kind: GsoKind,
    /// Payload bytes of each segment but the last.
    pub size: u16,
}

/// The protocol a super-frame is cut by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GsoKind {
    /// TCP over IPv4.
    Tcp4,
    /// TCP over IPv6.
    Tcp6,
    /// UDP over either (`VIRTIO_NET_HDR_GSO_UDP_L4`).
    Udp,
}

/// State of the transport checksum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checksum {
    /// In place.
    #[default]
    Complete,
    /// Linux's `CHECKSUM_PARTIAL`: the field holds the pseudo-header sum, and whoever puts the
    /// packet on a real wire adds the sum from `start` and stores it at `start + offset`.
    Partial {
        /// Where summing starts, from the start of the frame.
        start: u16,
        /// Where the checksum field is, from `start`.
        offset: u16,
    },
}

impl Packet {
    /// A packet of `bytes` with nothing else known.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, ..Self::default() }
    }

    /// Length of the frame in bytes.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a packet is never empty")]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }
}

/// Buffers that were used and will be used again, so that the path of a packet allocates nothing
/// once it is warm. Owned by an executor: elements hand every packet back, sent or dropped.
#[derive(Debug)]
pub struct Pool {
    free: Vec<Vec<u8>>,
    limit: usize,
}

impl Pool {
    /// A pool that keeps at most `limit` buffers.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { free: Vec::with_capacity(limit), limit }
    }

    /// An empty buffer, used before if there is one.
    #[must_use]
    pub fn take(&mut self) -> Vec<u8> {
        self.free.pop().unwrap_or_default()
    }

    /// Gives a buffer back. One that holds no memory (an element kept what it held) is not worth keeping.
    pub fn put(&mut self, mut buffer: Vec<u8>) {
        if self.free.len() < self.limit && buffer.capacity() > 0 {
            buffer.clear();
            self.free.push(buffer);
        }
    }
}
