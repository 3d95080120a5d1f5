//! All sessions, and how packets and messages find theirs.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use engine::Time;

use super::rule::Action;
use super::session::{Key, Session};
use crate::table::Table;

/// The sessions, by slots that are used again.
#[derive(Debug)]
pub(super) struct Sessions {
    slots: Vec<Option<Session>>,
    free: Vec<u32>,
    tunnels: Table<u32>,
    hosts4: Table<u32>,
    networks6: Table<u64>,
    hosts6: Table<u128>,
    /// By the control plane's identifiers.
    peers: BTreeMap<(SocketAddr, u64), u32>,
    /// By the gNB's tunnels, for its error indications. The last one that was given it has it.
    remotes: BTreeMap<(IpAddr, u32), u32>,
    deadlines: BTreeSet<(Time, u32)>,
    next_teid: u32,
    /// Upper half of the next session's identifier, so that one that is gone is not taken for one in its slot.
    serial: u32,
    /// Packets buffered in all of them.
    pub(super) held: usize,
    /// Sessions with usage reports due.
    pub(super) due: Vec<u32>,
}

impl Sessions {
    pub(super) fn new(first_teid: u32) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            tunnels: Table::default(),
            hosts4: Table::default(),
            networks6: Table::default(),
            hosts6: Table::default(),
            peers: BTreeMap::new(),
            remotes: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            next_teid: first_teid,
            serial: 0,
            held: 0,
            due: Vec::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(super) fn get(&mut self, slot: u32) -> Option<&mut Session> {
        self.slots.get_mut(slot as usize)?.as_mut()
    }

    pub(super) fn by_tunnel(&self, teid: u32) -> Option<u32> {
        self.tunnels.get(teid)
    }

    pub(super) fn by_host(&self, address: IpAddr) -> Option<u32> {
        match address {
            IpAddr::V4(address) => self.hosts4.get(address.to_bits()),
            IpAddr::V6(address) => {
                let whole = if self.hosts6.is_empty() { None } else { self.hosts6.get(address.to_bits()) };
                whole.or_else(|| self.networks6.get((address.to_bits() >> 64) as u64))
            }
        }
    }

    pub(super) fn by_seid(&self, seid: u64) -> Option<u32> {
        let slot = (seid as u32).checked_sub(1)?;
        let session = self.slots.get(slot as usize)?.as_ref()?;
        (session.state.seid == seid).then_some(slot)
    }

    pub(super) fn by_peer(&self, peer: SocketAddr, seid: u64) -> Option<u32> {
        self.peers.get(&(peer, seid)).copied()
    }

    pub(super) fn by_remote(&self, peer: IpAddr, teid: u32) -> Option<u32> {
        self.remotes.get(&(peer, teid)).copied()
    }

    /// Slots of the sessions of an association.
    pub(super) fn of_association(&self, association: usize) -> Vec<u32> {
        let sessions = self.slots.iter().zip(0..);
        let of = |(session, slot): (&Option<Session>, u32)| {
            session.as_ref().is_some_and(|session| session.state.association == association).then_some(slot)
        };
        sessions.filter_map(of).collect()
    }

    /// A TEID that nobody has; 0 is never one (TS 29.281 5.1).
    pub(super) fn choose_teid(&mut self) -> u32 {
        loop {
            self.next_teid = self.next_teid.wrapping_add(1);
            if self.next_teid != 0 && self.tunnels.get(self.next_teid).is_none() {
                return self.next_teid;
            }
        }
    }

    /// Who has a key already.
    pub(super) fn owner(&self, key: Key) -> Option<u32> {
        match key {
            Key::Tunnel(teid) => self.tunnels.get(teid),
            Key::V4(address) => self.hosts4.get(address),
            Key::V6Network(network) => self.networks6.get(network),
            Key::V6(address) => self.hosts6.get(address),
        }
    }

    /// Takes a session in; gives its slot. `make` is told its identifier.
    pub(super) fn add(&mut self, make: impl FnOnce(u64) -> Session) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            (self.slots.len() - 1) as u32
        });
        self.serial = self.serial.wrapping_add(1);
        let session = make(u64::from(self.serial) << 32 | u64::from(slot + 1));
        self.peers.insert((session.state.peer.1, session.state.peer.0), slot);
        self.slots[slot as usize] = Some(session);
        slot
    }

    /// Gives a session another identifier at its control plane.
    pub(super) fn set_peer(&mut self, slot: u32, peer: (u64, SocketAddr)) {
        let Some(session) = self.get(slot) else { return };
        let old = core::mem::replace(&mut session.state.peer, peer);
        self.peers.remove(&(old.1, old.0));
        self.peers.insert((peer.1, peer.0), slot);
    }

    /// Has packets find a session by what its rules say; before they are changed, [`Sessions::conceal`] it.
    pub(super) fn reveal(&mut self, slot: u32) {
        let Some(Some(session)) = self.slots.get(slot as usize) else { return };
        for (key, _) in session.state.given.keys().unwrap_or_default() {
            match key {
                Key::Tunnel(teid) => self.tunnels.insert(teid, slot),
                Key::V4(address) => self.hosts4.insert(address, slot),
                Key::V6Network(network) => self.networks6.insert(network, slot),
                Key::V6(address) => self.hosts6.insert(address, slot),
            }
        }
        for rule in session.rules.iter() {
            if let Action::Forward { tunnel: Some(tunnel), .. } = &rule.action {
                self.remotes.insert((tunnel.peer, tunnel.header.teid), slot);
            }
        }
    }

    pub(super) fn conceal(&mut self, slot: u32) {
        let Some(Some(session)) = self.slots.get(slot as usize) else { return };
        for (key, _) in session.state.given.keys().unwrap_or_default() {
            match key {
                Key::Tunnel(teid) => self.tunnels.remove(teid),
                Key::V4(address) => self.hosts4.remove(address),
                Key::V6Network(network) => self.networks6.remove(network),
                Key::V6(address) => self.hosts6.remove(address),
            }
        }
        for rule in session.rules.iter() {
            if let Action::Forward { tunnel: Some(tunnel), .. } = &rule.action {
                let remote = (tunnel.peer, tunnel.header.teid);
                if self.remotes.get(&remote) == Some(&slot) {
                    self.remotes.remove(&remote);
                }
            }
        }
    }

    /// Takes a session out.
    pub(super) fn remove(&mut self, slot: u32) -> Option<Session> {
        self.conceal(slot);
        let session = self.slots.get_mut(slot as usize)?.take()?;
        self.free.push(slot);
        self.peers.remove(&(session.state.peer.1, session.state.peer.0));
        self.held -= session.state.held.len();
        if let Some(at) = session.state.deadline {
            self.deadlines.remove(&(at, slot));
        }
        if session.state.due {
            self.due.retain(|other| *other != slot);
        }
        Some(session)
    }

    /// Sets when time alone brings a usage report about.
    pub(super) fn schedule(&mut self, slot: u32) {
        let Some(Some(session)) = self.slots.get_mut(slot as usize) else { return };
        let next = session.next_deadline();
        let old = core::mem::replace(&mut session.state.deadline, next);
        if old == next {
            return;
        }
        if let Some(at) = old {
            self.deadlines.remove(&(at, slot));
        }
        if let Some(at) = next {
            self.deadlines.insert((at, slot));
        }
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// A session whose deadline has come.
    pub(super) fn take_expired(&mut self, now: Time) -> Option<u32> {
        let (at, slot) = *self.deadlines.first()?;
        if at > now {
            return None;
        }
        self.deadlines.pop_first();
        self.get(slot)?.state.deadline = None;
        Some(slot)
    }

    /// Notes that a session has a usage report due.
    pub(super) fn mark_due(&mut self, slot: u32) {
        if let Some(Some(session)) = self.slots.get_mut(slot as usize)
            && !core::mem::replace(&mut session.state.due, true)
        {
            self.due.push(slot);
        }
    }
}
