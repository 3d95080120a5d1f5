//! The receive ring of a packet socket (`TPACKET_V2`), shared with the kernel.
//!
//! Version 3 would hold more in less space, but hands over a block at a time, and that by a timer
//! of milliseconds.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};

use engine::Checksum;

use crate::memory::Mapping;
use crate::offload::{VNET_HEADER_LEN, VnetHeader};

const BLOCK: usize = 1 << 20;
/// What stands before a frame in its slot: headers of the kernel, below 128 bytes.
const HEADERS: usize = 128;
/// Where a slot's own bytes begin, behind the header that has the status.
const BODY: usize = size_of::<libc::tpacket2_hdr>();

/// Slots in blocks of 1 MiB.
#[derive(Debug)]
pub(crate) struct Ring {
    memory: Mapping,
    blocks: usize,
    slot: usize,
    slots_per_block: usize,
    next: usize,
}

impl Ring {
    /// Makes the socket's ring of `blocks` MiB; slots take frames of up to `frame` bytes, at most a block.
    /// The socket must not be bound yet, so that the ring only ever holds one interface's frames.
    pub(crate) fn map(socket: &OwnedFd, blocks: usize, frame: usize) -> io::Result<Self> {
        super::set(socket, libc::PACKET_VERSION, &(libc::tpacket_versions::TPACKET_V2 as libc::c_int))?;
        super::set(socket, libc::PACKET_VNET_HDR, &1_i32)?;
        let slot = (frame + HEADERS).next_multiple_of(libc::TPACKET_ALIGNMENT);
        let slots_per_block = BLOCK / slot;
        let request = libc::tpacket_req {
            tp_block_size: BLOCK as libc::c_uint,
            tp_block_nr: blocks as libc::c_uint,
            tp_frame_size: slot as libc::c_uint,
            tp_frame_nr: (blocks * slots_per_block) as libc::c_uint,
        };
        super::set(socket, libc::PACKET_RX_RING, &request)?;
        let memory = Mapping::of(socket, 0, blocks * BLOCK)?;
        Ok(Self { memory, blocks, slot, slots_per_block, next: 0 })
    }

    /// How many frames the ring holds.
    pub(crate) fn slots(&self) -> usize {
        self.blocks * self.slots_per_block
    }

    /// The next slot, if the kernel has filled it. It goes back to the kernel when dropped.
    pub(crate) fn next(&mut self) -> Option<Slot<'_>> {
        let offset = self.next / self.slots_per_block * BLOCK + self.next % self.slots_per_block * self.slot;
        let slot = self.memory.at(offset);
        // SAFETY: `next` is below the number of slots, so that the slot lies in the mapping whole; it begins
        // with its status, aligned, which the kernel changes, hence the atomic.
        let status = unsafe { AtomicU32::from_ptr(slot.cast()) };
        // Acquire: what the kernel wrote before it set the status is there.
        if status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return None;
        }
        self.next += 1;
        if self.next == self.slots() {
            self.next = 0;
        }
        // SAFETY: the slot begins with this header, is aligned for it, and holds plain data, which the
        // kernel keeps away from until the status says so again.
        let header = unsafe { slot.cast::<libc::tpacket2_hdr>().read() };
        // SAFETY: the same holds for the rest of the slot; the status is not in it, and nobody else has
        // the mapping.
        let body = unsafe { std::slice::from_raw_parts_mut(slot.add(BODY), self.slot - BODY) };
        Some(Slot { status, header, body })
    }
}

/// A filled slot.
pub(crate) struct Slot<'a> {
    status: &'a AtomicU32,
    header: libc::tpacket2_hdr,
    body: &'a mut [u8],
}

impl Slot<'_> {
    /// When the kernel got the frame: nanoseconds since 1970 (`CLOCK_REALTIME`).
    pub(crate) fn stamp(&self) -> u64 {
        u64::from(self.header.tp_sec) * 1_000_000_000 + u64::from(self.header.tp_nsec)
    }

    /// Whether the frame did not fit and waits whole in the socket's own queue
    /// (`PACKET_COPY_THRESH`).
    pub(crate) fn is_queued(&self) -> bool {
        self.header.tp_status & libc::TP_STATUS_COPY != 0
    }

    /// Whether the frame did not fit, so that its end is missing here.
    pub(crate) fn is_cut_off(&self) -> bool {
        self.header.tp_snaplen < self.header.tp_len
    }

    /// The frame and what is known of it; `None` if it was truncated or makes no sense. A VLAN tag,
    /// which the kernel takes out, is put back in, for which the frame is copied to `space`.
    pub(crate) fn frame<'b>(&'b mut self, space: &'b mut [u8]) -> Option<(VnetHeader, &'b mut [u8])> {
        let Self { header, body, .. } = self;
        let start = usize::from(header.tp_mac).checked_sub(BODY)?;
        let length = header.tp_len as usize;
        if header.tp_snaplen != header.tp_len {
            return None;
        }
        let vnet = body.get(start.checked_sub(VNET_HEADER_LEN)?..start)?;
        let mut vnet = VnetHeader::parse(vnet.try_into().ok()?).ok()?;
        let frame = body.get_mut(start..start.checked_add(length)?)?;
        if header.tp_status & libc::TP_STATUS_VLAN_VALID == 0 {
            return Some((vnet, frame));
        }
        // 802.1Q 9.6: identifier and tag stand between the addresses and the type.
        let protocol =
            if header.tp_status & libc::TP_STATUS_VLAN_TPID_VALID == 0 { 0x8100 } else { header.tp_vlan_tpid };
        let (addresses, rest) = frame.split_at_checked(12)?;
        let space = space.get_mut(..length + 4)?;
        space[..12].copy_from_slice(addresses);
        space[12..14].copy_from_slice(&protocol.to_be_bytes());
        space[14..16].copy_from_slice(&header.tp_vlan_tci.to_be_bytes());
        space[16..].copy_from_slice(rest);
        if let Checksum::Partial { start, .. } = &mut vnet.checksum {
            *start += 4;
        }
        Some((vnet, space))
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        // Release: our reading is over before the kernel may write.
        self.status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
    }
}
