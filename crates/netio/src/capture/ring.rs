//! A ring of bytes from one thread to another, without a lock: records of different length, each whole.

use std::io;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::memory::Mapping;

/// Records begin at multiples of this, which the length in front of each takes.
const ALIGN: usize = 8;
/// Stands for a length where the rest of the ring is left out.
const WRAP: u64 = u64::MAX;

/// Makes a ring of `size` bytes.
pub(super) fn ring(size: usize) -> io::Result<(Producer, Consumer)> {
    let size = size.next_power_of_two().max(1 << 16);
    let memory = Mapping::anonymous_large(size)?;
    let shared = Arc::new(Shared { memory, size, written: Apart(AtomicU64::new(0)), read: Apart(AtomicU64::new(0)) });
    Ok((Producer { shared: Arc::clone(&shared), written: 0, read: 0 }, Consumer { shared, read: 0 }))
}

/// A counter in cache lines of its own, so that the two threads do not slow each other down.
#[repr(align(128))]
struct Apart(AtomicU64);

impl Deref for Apart {
    type Target = AtomicU64;
    fn deref(&self) -> &AtomicU64 {
        &self.0
    }
}

struct Shared {
    memory: Mapping,
    size: usize,
    /// Bytes ever written and read; between the two lie records that the consumer may read, all else is
    /// the producer's.
    written: Apart,
    read: Apart,
}

impl Shared {
    fn offset(&self, position: u64) -> usize {
        (position & (self.size as u64 - 1)) as usize
    }

    /// Where the length of a record stands.
    fn length_at(&self, position: u64) -> *mut u64 {
        self.memory.at(self.offset(position)).cast()
    }

    /// Bytes from a position to the end of the ring.
    fn rest(&self, position: u64) -> usize {
        self.size - self.offset(position)
    }
}

/// The writing end.
pub(super) struct Producer {
    shared: Arc<Shared>,
    written: u64,
    /// How far the consumer was when last looked at.
    read: u64,
}

impl Producer {
    /// Adds a record made of two parts; false if there is no room.
    pub(super) fn push(&mut self, head: &[u8], body: &[u8]) -> bool {
        let length = head.len() + body.len();
        let need = (ALIGN + length).next_multiple_of(ALIGN);
        let rest = self.shared.rest(self.written);
        let total = if need > rest { rest + need } else { need };
        if !self.has_room(total) {
            return false;
        }
        if need > rest {
            // SAFETY: positions are multiples of 8 and so aligned, eight bytes are left at least, and they are the
            // producer's.
            unsafe { self.shared.length_at(self.written).write(WRAP) };
            self.written += rest as u64;
        }
        // SAFETY: as there was room for `total`, the record lies inside the ring whole, in the producer's
        // part; the parts come from elsewhere.
        unsafe {
            let start = self.shared.length_at(self.written);
            start.write(length as u64);
            let to = start.add(1).cast::<u8>();
            to.copy_from_nonoverlapping(head.as_ptr(), head.len());
            to.add(head.len()).copy_from_nonoverlapping(body.as_ptr(), body.len());
        }
        self.written += need as u64;
        // Release: the record is written.
        self.shared.written.store(self.written, Ordering::Release);
        true
    }

    fn has_room(&mut self, bytes: usize) -> bool {
        let size = self.shared.size as u64;
        let fits = |read: u64| self.written + bytes as u64 - read <= size;
        if fits(self.read) {
            return true;
        }
        // Acquire: the consumer's reading is over.
        self.read = self.shared.read.load(Ordering::Acquire);
        fits(self.read)
    }
}

/// The reading end.
pub(super) struct Consumer {
    shared: Arc<Shared>,
    read: u64,
}

impl Consumer {
    /// The oldest record; it stays until [`Self::pop`].
    pub(super) fn peek(&mut self) -> Option<&[u8]> {
        // Acquire: what was written before is there.
        let written = self.shared.written.load(Ordering::Acquire);
        if self.read == written {
            return None;
        }
        // SAFETY: between `read` and `written` stand whole records, aligned, that the producer keeps away
        // from until `read` moves on.
        let mut length = unsafe { self.shared.length_at(self.read).read() };
        if length == WRAP {
            // A record follows, since one was added with the mark.
            self.move_on(self.shared.rest(self.read));
            // SAFETY: as above.
            length = unsafe { self.shared.length_at(self.read).read() };
        }
        // SAFETY: as above; the borrow of `self` keeps `read` where it is.
        Some(unsafe {
            let bytes = self.shared.length_at(self.read).add(1).cast::<u8>();
            std::slice::from_raw_parts(bytes, length as usize)
        })
    }

    /// Gives the oldest record's room back.
    pub(super) fn pop(&mut self) {
        if let Some(length) = self.peek().map(<[u8]>::len) {
            self.move_on((ALIGN + length).next_multiple_of(ALIGN));
        }
    }

    /// Whether more than half of the room is used.
    pub(super) fn is_filling(&self) -> bool {
        self.shared.written.load(Ordering::Relaxed) - self.read > self.shared.size as u64 / 2
    }

    fn move_on(&mut self, bytes: usize) {
        self.read += bytes as u64;
        // Release: our reading is over.
        self.shared.read.store(self.read, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(number: u64) -> Vec<u8> {
        (0..number * 7919 % 3000).map(|at| (at + number) as u8).collect()
    }

    #[test]
    fn every_record_comes_out_whole_and_in_order() {
        const RECORDS: u64 = 50_000;
        let (mut producer, mut consumer) = ring(1 << 16).unwrap();
        let writer = std::thread::spawn(move || {
            for number in 0..RECORDS {
                let record = record(number);
                let (head, body) = record.split_at(record.len().min(16));
                while !producer.push(head, body) {
                    std::thread::yield_now();
                }
            }
        });
        for number in 0..RECORDS {
            loop {
                match consumer.peek() {
                    Some(found) => break assert!(found == record(number), "record {number}"),
                    None => std::thread::yield_now(),
                }
            }
            consumer.pop();
        }
        writer.join().unwrap();
        assert_eq!(consumer.peek(), None);
    }

    #[test]
    fn a_full_ring_takes_nothing_and_loses_nothing() {
        let (mut producer, mut consumer) = ring(1 << 16).unwrap();
        let mut pushed = 0;
        while producer.push(&[1; 8], &[2; 1000]) {
            pushed += 1;
        }
        // 1,016 bytes each.
        assert_eq!(pushed, (1 << 16) / 1016);
        assert!(consumer.is_filling());
        consumer.pop();
        consumer.pop();
        assert!(producer.push(&[3; 8], &[4; 1000]));
        let mut found = 0;
        while let Some(record) = consumer.peek() {
            assert_eq!(record.len(), 1008);
            consumer.pop();
            found += 1;
        }
        assert_eq!(found, pushed - 1);
    }
}
