//! Sending by AF_XDP (Documentation/networking/af_xdp.rst), copy mode.

use std::fmt;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::{Sent, Slot};
use crate::error::SetupError;
use crate::memory::Mapping;
use crate::port::{WIRE_FULL, reason};
use crate::site::index_of;
use crate::sys::{self, check};

/// How many frames the shared memory has room for: a power of two. Few, so that they stay in the
/// processor's cache and within the 8 MiB that an ordinary user may lock.
const FRAMES: u32 = 512;
/// Calls a flush makes at most before it leaves the rest to the next one.
const CALLS: u32 = 64;

/// The socket with its shared memory and rings.
#[derive(Debug)]
pub(super) struct Socket {
    // Dropped in this order: the kernel lets go of the memory first.
    transmit: Queue<libc::xdp_desc>,
    completed: Queue<u64>,
    socket: OwnedFd,
    memory: Mapping,
    slot: usize,
    queue: u32,
    /// Slots that neither we nor the kernel hold, the one used last on top: it is in the cache still.
    free: Vec<u32>,
    tags: Box<[u64]>,
    /// Bytes of the frames that are queued, for the counters.
    lengths: Box<[u32]>,
}

impl Socket {
    pub(super) fn open(interface: &str, queue: u32, longest: usize) -> Result<Self, SetupError> {
        let failed = |doing: &str| {
            let doing = format!("{doing} AF_XDP on {interface}");
            move |source| SetupError::new(doing, source)
        };
        let index = index_of(interface)?;
        let slot = longest.next_power_of_two().max(2048);
        if slot > page_size() {
            let text = format!("frames of {longest} bytes are longer than a page");
            return Err(failed("use")(io::Error::new(io::ErrorKind::Unsupported, text)));
        }
        // SAFETY: no pointers; the result is checked.
        let fd = check(unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) })
            .map_err(failed("open a socket of"))?;
        // SAFETY: the descriptor is new and ours alone.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        let memory = Mapping::anonymous(FRAMES as usize * slot).map_err(failed("make the memory of"))?;
        let register = libc::xdp_umem_reg {
            addr: memory.start().as_ptr().addr() as u64,
            len: memory.len() as u64,
            chunk_size: slot as u32,
            headroom: 0,
            flags: 0,
            tx_metadata_len: 0,
        };
        set(&socket, libc::XDP_UMEM_REG, &register).map_err(|source| {
            let source = match source.raw_os_error() {
                Some(libc::ENOBUFS) => io::Error::other("no more memory may be locked (raise the limit, `ulimit -l`)"),
                _ => source,
            };
            failed("share memory with")(source)
        })?;
        // The fill ring is for receiving, and demanded all the same.
        for ring in [libc::XDP_UMEM_FILL_RING, libc::XDP_UMEM_COMPLETION_RING, libc::XDP_TX_RING] {
            set(&socket, ring, &FRAMES).map_err(failed("make the rings of"))?;
        }
        let offsets = offsets(&socket).map_err(failed("find the rings of"))?;
        let transmit = Queue::to_fill(&socket, libc::XDP_PGOFF_TX_RING as u64, &offsets.tx);
        let completed = Queue::to_empty(&socket, libc::XDP_UMEM_PGOFF_COMPLETION_RING, &offsets.cr);
        let (transmit, completed) =
            transmit.and_then(|transmit| Ok((transmit, completed?))).map_err(failed("map the rings of"))?;
        // How many frames the kernel takes in one call; before Linux 6.17 always 32.
        let _ = set(&socket, XDP_MAX_TX_SKB_BUDGET, &FRAMES);
        let _ = sys::set_socket(&socket, libc::SO_SNDBUF, 1 << 24);
        bind(&socket, index, queue).map_err(failed("bind"))?;
        Ok(Self {
            transmit,
            completed,
            socket,
            memory,
            slot,
            queue,
            free: (0..FRAMES).rev().collect(),
            tags: vec![0; FRAMES as usize].into(),
            lengths: vec![0; FRAMES as usize].into(),
        })
    }

    #[inline]
    pub(super) fn slot(&mut self) -> Option<Slot<'_>> {
        if self.free.is_empty() {
            self.reclaim();
        }
        let number = *self.free.last()? as usize;
        // SAFETY: the slot lies in the mapping; as it is free, neither the kernel nor anybody else uses it, and the
        // borrow of `self` keeps it so.
        let frame = unsafe { std::slice::from_raw_parts_mut(self.memory.at(number * self.slot), self.slot) };
        Some(Slot { frame, tag: &mut self.tags[number] })
    }

    #[inline]
    pub(super) fn commit(&mut self, range: Range<usize>) {
        assert!(range.start <= range.end && range.end <= self.slot, "a frame outside of its slot");
        let number = self.free.pop().expect("a slot was given");
        let length = (range.end - range.start) as u32;
        let addr = (number as usize * self.slot + range.start) as u64;
        self.lengths[(self.transmit.next & (FRAMES - 1)) as usize] = length;
        // There is room: the ring has as many entries as there are slots.
        self.transmit.push(libc::xdp_desc { addr, len: length, options: 0 });
    }

    pub(super) fn flush(&mut self, sent: &mut Sent) -> usize {
        let begin = self.transmit.other();
        self.transmit.publish();
        let mut refused = 0;
        sent.stuck = None;
        for _ in 0..CALLS {
            if self.transmit.other() == self.transmit.next {
                break;
            }
            // SAFETY: no data and no address.
            let result = unsafe {
                libc::sendto(self.socket.as_raw_fd(), std::ptr::null(), 0, libc::MSG_DONTWAIT, std::ptr::null(), 0)
            };
            if result >= 0 {
                continue;
            }
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                // The kernel has done as many as it does in a call, or has no memory for a packet just now.
                Some(libc::EAGAIN | libc::ENOBUFS | libc::EINTR) => {}
                // The driver refused one and it is gone; the others are still there.
                Some(libc::EBUSY) => {
                    sent.refuse(WIRE_FULL, 1);
                    refused += 1;
                }
                _ => {
                    sent.stuck = Some(reason(&error));
                    break;
                }
            }
        }
        self.reclaim();
        let end = self.transmit.other();
        let mut at = begin;
        while at != end {
            sent.bytes += u64::from(self.lengths[(at & (FRAMES - 1)) as usize]);
            at = at.wrapping_add(1);
        }
        let taken = end.wrapping_sub(begin).saturating_sub(refused);
        sent.frames += u64::from(taken);
        taken as usize
    }

    pub(super) fn queued(&self) -> usize {
        self.transmit.next.wrapping_sub(self.transmit.other()) as usize
    }

    /// Takes back what the kernel is done with.
    fn reclaim(&mut self) {
        while let Some(addr) = self.completed.pop() {
            self.free.push((addr as usize / self.slot) as u32);
        }
        self.completed.publish();
    }
}

impl fmt::Display for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AF_XDP in copy mode on queue {}", self.queue)
    }
}

/// Binds, and tries for a second while the queue is taken: the kernel frees what was bound before in the
/// background.
fn bind(socket: &OwnedFd, index: u32, queue: u32) -> io::Result<()> {
    const TRIES: u32 = 100;
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: libc::XDP_COPY,
        sxdp_ifindex: index,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: 0,
    };
    let mut left = TRIES;
    loop {
        // SAFETY: the kernel reads one sockaddr_xdp, ours.
        let bound = check(unsafe {
            libc::bind(socket.as_raw_fd(), (&raw const address).cast(), size_of_val(&address) as libc::socklen_t)
        });
        match bound {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) && left > 0 => {
                left -= 1;
                std::thread::sleep(Duration::from_millis(10));
            }
            other => return other.map(drop),
        }
    }
}

/// linux/if_xdp.h since Linux 6.17.
const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;

fn set<T>(socket: &OwnedFd, option: libc::c_int, value: &T) -> io::Result<()> {
    // SAFETY: the kernel reads `T`'s size of bytes from `value`.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_XDP,
            option,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    })
    .map(drop)
}

fn offsets(socket: &OwnedFd) -> io::Result<libc::xdp_mmap_offsets> {
    // SAFETY: plain numbers, valid when zeroed.
    let mut offsets: libc::xdp_mmap_offsets = unsafe { std::mem::zeroed() };
    let mut length = size_of_val(&offsets) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `offsets`.
    check(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_XDP,
            libc::XDP_MMAP_OFFSETS,
            (&raw mut offsets).cast(),
            &raw mut length,
        )
    })?;
    // Linux before 5.4 writes a shorter structure, in which the fields stand elsewhere.
    if length as usize == size_of_val(&offsets) { Ok(offsets) } else { Err(io::ErrorKind::Unsupported.into()) }
}

fn page_size() -> usize {
    // SAFETY: no pointers.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// One of the rings shared with the kernel: entries, and a position each of us moves.
#[derive(Debug)]
struct Queue<T> {
    memory: Mapping,
    /// What we move: the producer's of a ring we fill, the consumer's of one we empty.
    ours: usize,
    theirs: usize,
    entries: usize,
    /// Where we are; the kernel learns it by [`Self::publish`].
    next: u32,
    entry: std::marker::PhantomData<T>,
}

impl<T: Copy> Queue<T> {
    fn at(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: the kernel gave the offset of an aligned 32-bit number in the mapping, which both
        // sides only read and write whole.
        unsafe { AtomicU32::from_ptr(self.memory.at(offset).cast()) }
    }

    /// Where the kernel is.
    #[inline]
    fn other(&self) -> u32 {
        self.at(self.theirs).load(Ordering::Acquire)
    }

    /// Tells the kernel where we are.
    #[inline]
    fn publish(&self) {
        // Release: what we wrote or read of entries is done.
        self.at(self.ours).store(self.next, Ordering::Release);
    }

    fn entry(&self, position: u32) -> *mut T {
        self.memory.at(self.entries + (position & (FRAMES - 1)) as usize * size_of::<T>()).cast()
    }

    fn map(socket: &OwnedFd, page: u64, at: &libc::xdp_ring_offset, ours: u64, theirs: u64) -> io::Result<Self> {
        let length = at.desc as usize + FRAMES as usize * size_of::<T>();
        let memory = Mapping::of(socket, page, length)?;
        let (ours, theirs) = (ours as usize, theirs as usize);
        let mut queue =
            Self { memory, ours, theirs, entries: at.desc as usize, next: 0, entry: std::marker::PhantomData };
        queue.next = queue.at(queue.ours).load(Ordering::Relaxed);
        Ok(queue)
    }
}

impl Queue<libc::xdp_desc> {
    /// The ring we fill.
    fn to_fill(socket: &OwnedFd, page: u64, at: &libc::xdp_ring_offset) -> io::Result<Self> {
        Self::map(socket, page, at, at.producer, at.consumer)
    }

    /// There must be room.
    #[inline]
    fn push(&mut self, entry: libc::xdp_desc) {
        // SAFETY: the entry lies in the mapping, is aligned, and the kernel does not read it before
        // `publish`.
        unsafe { self.entry(self.next).write(entry) };
        self.next = self.next.wrapping_add(1);
    }
}

impl Queue<u64> {
    /// The ring we empty.
    fn to_empty(socket: &OwnedFd, page: u64, at: &libc::xdp_ring_offset) -> io::Result<Self> {
        Self::map(socket, page, at, at.consumer, at.producer)
    }

    #[inline]
    fn pop(&mut self) -> Option<u64> {
        if self.other() == self.next {
            return None;
        }
        // SAFETY: the entry lies in the mapping, is aligned, and was written by the kernel before it
        // moved its position.
        let entry = unsafe { self.entry(self.next).read() };
        self.next = self.next.wrapping_add(1);
        Some(entry)
    }
}
