//! Who is behind an address on one of the UPF's networks: its neighbours, asked for by ARP (RFC 826) and neighbour
//! discovery (RFC 4861), and the packets that wait for an answer.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::net::IpAddr;

use engine::{Span, Time};
use wire::Headers;

use super::{Interface, Reason};
use crate::filter::contains;
use crate::neighbours::{hear, request};
use crate::table::Table;

/// Packets that wait for one neighbour, and for all of them, at most.
const HELD: usize = 64;
const HELD_ALL: usize = 4_096;
/// Neighbours of one side, at most.
const NEIGHBOURS_MAX: usize = 1 << 20;
/// From one request to the next (RFC 4861 10: RETRANS_TIMER), and how many there are (MAX_MULTICAST_SOLICIT).
const AGAIN: Span = Span::from_millis(1_000);
const TRIES: u8 = 3;
/// How long an answer counts before it is asked for again, while it goes on to be used (Linux's `gc_stale_time`).
const FRESH: Span = Span::from_secs(60);

/// One side's neighbours.
#[derive(Debug)]
pub(super) struct NextHops {
    interface: Interface,
    index: Table<u128>,
    entries: Vec<Entry>,
    /// Entries that wait for an answer, by when they ask again.
    asking: BTreeSet<(Time, u32)>,
    /// Packets that wait for any of them.
    held: usize,
    /// Frames to send, and frames whose neighbour did not answer.
    ready: VecDeque<Ready>,
}

#[derive(Debug)]
struct Entry {
    address: IpAddr,
    mac: Option<[u8; 6]>,
    /// When it asks (again).
    due: Time,
    tries: u8,
    held: Vec<Vec<u8>>,
}

/// What became of frames that waited, and requests.
#[derive(Debug)]
pub(super) enum Ready {
    Send(Vec<u8>),
    Drop(Reason, Vec<u8>),
}

impl NextHops {
    pub(super) fn new(interface: Interface) -> Self {
        Self {
            interface,
            index: Table::default(),
            entries: Vec::new(),
            asking: BTreeSet::new(),
            held: 0,
            ready: VecDeque::new(),
        }
    }

    pub(super) fn interface(&self) -> &Interface {
        &self.interface
    }

    /// The Ethernet address that leads to `destination`. Without one the frame has to be held.
    pub(super) fn resolve(&mut self, now: Time, destination: IpAddr) -> Option<[u8; 6]> {
        let number = self.index.get(bits(self.interface.next_hop(destination)))?;
        let entry = &mut self.entries[number as usize];
        let mac = entry.mac?;
        if now >= entry.due {
            self.refresh(now, number);
        }
        Some(mac)
    }

    /// Keeps a frame, whole but for its destination address, until the neighbour answers, and asks for it.
    ///
    /// # Errors
    ///
    /// Why it is not kept.
    pub(super) fn hold(&mut self, now: Time, destination: IpAddr, frame: &[u8]) -> Result<(), Reason> {
        let hop = self.interface.next_hop(destination);
        let number = match self.index.get(bits(hop)) {
            Some(number) => number,
            None => self.enter(now, hop)?,
        };
        let entry = &mut self.entries[number as usize];
        if entry.held.len() == HELD || self.held == HELD_ALL {
            return Err(Reason::Waiting);
        }
        entry.held.push(frame.to_vec());
        self.held += 1;
        if entry.held.len() == 1 && entry.tries == 0 {
            self.ask(now, number);
        }
        Ok(())
    }

    /// Takes a frame: false if it is not about neighbours.
    pub(super) fn handle(&mut self, now: Time, frame: &[u8], headers: &Headers) -> bool {
        let Some(heard) = hear(frame, headers) else { return false };
        let question = heard.question.filter(|question| self.interface.owns(question.target));
        if let Some((address, mac)) = heard.told {
            self.learn(now, address, mac, question.is_some());
        }
        if let Some(question) = question {
            let mut frame = Vec::new();
            question.answer(&mut frame, self.interface.mac);
            self.ready.push_back(Ready::Send(frame));
        }
        true
    }

    pub(super) fn tick(&mut self, now: Time) {
        while let Some(&(at, number)) = self.asking.first()
            && at <= now
        {
            self.asking.pop_first();
            let entry = &mut self.entries[number as usize];
            if entry.tries < TRIES {
                self.ask(now, number);
            } else {
                entry.tries = 0;
                self.held -= entry.held.len();
                let lost = entry.held.drain(..).map(|frame| Ready::Drop(Reason::Unreachable, frame));
                self.ready.extend(lost);
            }
        }
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        self.asking.first().map(|(at, _)| *at)
    }

    pub(super) fn poll(&mut self) -> Option<Ready> {
        self.ready.pop_front()
    }

    fn enter(&mut self, now: Time, address: IpAddr) -> Result<u32, Reason> {
        if self.interface.address_like(address).is_none() {
            return Err(Reason::NoAddress);
        }
        if self.entries.len() == NEIGHBOURS_MAX {
            return Err(Reason::Neighbours);
        }
        let number = self.entries.len() as u32;
        self.entries.push(Entry { address, mac: None, due: now, tries: 0, held: Vec::new() });
        self.index.insert(bits(address), number);
        Ok(number)
    }

    /// Asks everybody for an address, and waits for the answer.
    fn ask(&mut self, now: Time, number: u32) {
        let entry = &mut self.entries[number as usize];
        entry.tries += 1;
        entry.due = now + AGAIN;
        self.asking.insert((entry.due, number));
        let target = entry.address;
        self.request(target);
    }

    /// Asks whether a neighbour is still there; after some tries it is forgotten.
    fn refresh(&mut self, now: Time, number: u32) {
        let entry = &mut self.entries[number as usize];
        if entry.tries == TRIES {
            (entry.mac, entry.tries) = (None, 0);
            return;
        }
        entry.tries += 1;
        entry.due = now + AGAIN;
        let target = entry.address;
        self.request(target);
    }

    fn request(&mut self, target: IpAddr) {
        if let Some(source) = self.interface.address_like(target) {
            let mut frame = Vec::new();
            request(&mut frame, self.interface.mac, source, target);
            self.ready.push_back(Ready::Send(frame));
        }
    }

    /// An address and who has it. Who is not known is entered only if it wants something of us (RFC 826), so that
    /// what others talk about fills no table.
    fn learn(&mut self, now: Time, address: IpAddr, mac: [u8; 6], enter: bool) {
        // A group's address belongs to nobody.
        if address.is_unspecified() || address.is_multicast() || mac[0] & 1 != 0 {
            return;
        }
        let number = match self.index.get(bits(address)) {
            Some(number) => number,
            None if enter => match self.enter(now, address) {
                Ok(number) => number,
                Err(_) => return,
            },
            None => return,
        };
        let entry = &mut self.entries[number as usize];
        self.asking.remove(&(entry.due, number));
        (entry.mac, entry.due, entry.tries) = (Some(mac), now + FRESH, 0);
        self.held -= entry.held.len();
        for mut frame in entry.held.drain(..) {
            frame[..6].copy_from_slice(&mac);
            self.ready.push_back(Ready::Send(frame));
        }
    }
}

impl Interface {
    /// Whether an address is one of its own.
    #[must_use]
    pub fn owns(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|(own, _)| *own == address)
    }

    /// Its own address of the same IP version.
    #[must_use]
    pub fn address_like(&self, other: IpAddr) -> Option<IpAddr> {
        self.addresses.iter().map(|(own, _)| *own).find(|own| own.is_ipv4() == other.is_ipv4())
    }

    /// The neighbour that leads to `destination`.
    #[must_use]
    pub fn next_hop(&self, destination: IpAddr) -> IpAddr {
        if self.gateways.is_empty() || self.addresses.iter().any(|network| contains(*network, destination)) {
            return destination;
        }
        let mut gateways = self.gateways.iter().copied();
        gateways.find(|gateway| gateway.is_ipv4() == destination.is_ipv4()).unwrap_or(destination)
    }
}

/// An address of either version as one number (RFC 4291 2.5.5.2).
fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}
