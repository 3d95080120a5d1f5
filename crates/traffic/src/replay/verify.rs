//! Proof that what was sent is the trace: a capture of it against the trace's own schedule.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::net::IpAddr;

use engine::{Span, Time};
use wire::gtpu::{GTPU_PORT, Gtpu, Message};
use wire::{Fragment, Headers, Udp, ethertype, protocol};

use super::addresses::ends;
use super::trace::Layout;
use super::{Direction, Item, Replay, Trace};

/// Nothing was sent for so long though something was due: the sender stood still.
const STALL: u64 = 1_000_000;

/// A sender has caught up once it is no later than this.
const CAUGHT_UP: u64 = 100_000;

/// A packet of the capture of what was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observed {
    unix_nanos: u64,
    is_tunnelled: bool,
    print: Fingerprint,
}

/// What a packet keeps on its way: not its addresses, checksums, hops left, and what a stamp may cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fingerprint {
    /// Of the fixed transport header.
    header: u64,
    /// Of all that was captured, without the room of a stamp.
    all: u64,
    length: u32,
    is_cut: bool,
    ends: (IpAddr, IpAddr),
}

/// What a comparison found. Nothing but counts and times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Packets that were to be sent.
    pub expected: u64,
    /// Those of them that were.
    pub sent: u64,
    /// Those that were not.
    pub missing: u64,
    /// Packets like one of the trace, but sent once too often.
    pub surplus: u64,
    /// Packets that are the trace's on their way back: uplink packets outside of a tunnel, downlink ones in it.
    pub returned: u64,
    /// Packets that are not of the trace at all.
    pub foreign: u64,
    /// Packets sent after one that was to follow them.
    pub out_of_order: u64,
    /// Packets of another size.
    pub sizes_differ: u64,
    /// Packets whose address does not stand for the same one as before.
    pub addresses_differ: u64,
    /// Whether payloads were compared too, or only headers, as one of the captures is cut.
    pub payloads_compared: bool,
    /// How much later than the earliest each left, against its time in the schedule; sorted. The packet that left
    /// soonest after its time counts as on time.
    pub lateness: Vec<Span>,
    /// The same without packets in stalls.
    pub lateness_outside: Vec<Span>,
    /// Stretches of over 1 ms in which nothing was sent though something was due.
    pub stalls: u64,
    /// How long they took together.
    pub stalled: Span,
}

/// Why a comparison cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// The schedule depends on what arrives.
    #[error("a stateful replay has no schedule of its own to compare with")]
    Stateful,
}

impl Observed {
    /// A packet captured at `unix_nanos` since 1970 that begins with its IP header and had `length` bytes on the
    /// wire. What comes in a GTP-U tunnel is taken out of it. `None` if its headers are not there.
    #[must_use]
    pub fn new(unix_nanos: u64, packet: &[u8], length: u32) -> Option<Self> {
        let inner = tunnelled(packet);
        let (inside, inner_length) = match inner {
            Some(inside) => (inside, length.saturating_sub((packet.len() - inside.len()) as u32)),
            None => (packet, length),
        };
        let print = Fingerprint::of(inside, inner_length)?;
        Some(Self { unix_nanos, is_tunnelled: inner.is_some(), print })
    }
}

impl Comparison {
    /// Compares what was sent, in the order of the capture, with all that `replay` has left to send.
    ///
    /// If anything came in a tunnel, uplink packets must have and downlink ones must not, so that a capture of both
    /// sides of a user plane can be compared: what comes out of it is told apart.
    ///
    /// # Errors
    ///
    /// The replay is stateful.
    pub fn new(mut replay: Replay, sent: &[Observed]) -> Result<Self, VerifyError> {
        if replay.is_stateful() {
            return Err(VerifyError::Stateful);
        }
        let with_tunnel = sent.iter().any(|packet| packet.is_tunnelled);
        let payloads = replay.trace().cut() == 0 && sent.iter().all(|packet| !packet.print.is_cut);
        let key = |print: &Fingerprint, in_tunnel| {
            (if payloads { print.all } else { print.header }, with_tunnel && in_tunnel)
        };
        let mut waiting: BTreeMap<_, VecDeque<u32>> = BTreeMap::new();
        for (position, packet) in (0..).zip(sent) {
            waiting.entry(key(&packet.print, packet.is_tunnelled)).or_default().push_back(position);
        }
        let mut found = Self { payloads_compared: payloads, ..Self::default() };
        let mut wanted = BTreeSet::new();
        let mut parties = Parties::default();
        // When each was due, by its position in the capture.
        let mut due_at = alloc::vec![None; sent.len()];
        let mut latest = None;
        while let Some(item) = replay.next(Time::MAX) {
            found.expected += 1;
            let Some(print) = fingerprint(replay.trace(), item.index as usize) else { continue };
            let is_up = item.direction == Direction::Uplink;
            let expected = key(&print, is_up);
            wanted.insert(expected);
            let Some(position) = waiting.get_mut(&expected).and_then(VecDeque::pop_front) else {
                found.missing += 1;
                continue;
            };
            let packet = &sent[position as usize].print;
            found.sent += 1;
            found.sizes_differ += u64::from(packet.length != print.length);
            found.out_of_order += u64::from(latest > Some(position));
            latest = latest.max(Some(position));
            found.addresses_differ += u64::from(!parties.agree(&item, packet.ends));
            due_at[position as usize] = Some(item.due.as_nanos());
        }
        for (key @ (print, in_tunnel), left) in &waiting {
            *match (wanted.contains(key), wanted.contains(&(*print, !in_tunnel))) {
                (true, _) => &mut found.surplus,
                (false, true) => &mut found.returned,
                (false, false) => &mut found.foreign,
            } += left.len() as u64;
        }
        found.time(sent, &due_at);
        Ok(found)
    }

    /// Whether exactly the trace was sent: every packet once, in order, of its size, with addresses that stand for
    /// its own.
    #[must_use]
    pub const fn is_same(&self) -> bool {
        self.missing == 0
            && self.surplus == 0
            && self.out_of_order == 0
            && self.sizes_differ == 0
            && self.addresses_differ == 0
    }

    /// How late packets were, by the moments they were due at.
    fn time(&mut self, sent: &[Observed], due_at: &[Option<u64>]) {
        let passed: Vec<_> = sent
            .iter()
            .zip(due_at)
            .filter_map(|(packet, due)| due.map(|due| (i128::from(packet.unix_nanos), i128::from(due))))
            .collect();
        let Some(soonest) = passed.iter().map(|(at, due)| at - due).min() else { return };
        let (mut is_stalled, mut before) = (false, i128::MIN);
        for &(at, due) in &passed {
            let due = due + soonest;
            let span = |nanos: i128| Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
            let (late, idle) = (span(at - due), at - due.max(before));
            if idle > i128::from(STALL) {
                self.stalls += 1;
                self.stalled += span(idle);
                is_stalled = true;
            }
            is_stalled &= late.as_nanos() > CAUGHT_UP;
            self.lateness.push(late);
            if !is_stalled {
                self.lateness_outside.push(late);
            }
            before = at;
        }
        self.lateness.sort_unstable();
        self.lateness_outside.sort_unstable();
    }
}

impl Fingerprint {
    fn of(packet: &[u8], length: u32) -> Option<Self> {
        let layout = Layout::of(packet, length).ok()?;
        let captured = &packet[..packet.len().min(layout.length as usize)];
        let is_v4 = captured[0] >> 4 == 4;
        let ip = Headers::of_network(if is_v4 { ethertype::IPV4 } else { ethertype::IPV6 }, captured).ip?;
        let transport = &captured[ip.transport..];
        // Neither checksums nor lengths: sizes are compared by themselves.
        let (fixed, parts): (usize, &[(usize, usize)]) = match (ip.fragment, ip.protocol) {
            (Fragment::Later, _) => (0, &[]),
            (_, protocol::TCP) => (20, &[(0, 16), (18, 20)]),
            (_, protocol::UDP) => (8, &[(0, 4)]),
            (_, protocol::ICMP | protocol::ICMPV6) => (8, &[(0, 2), (4, 8)]),
            _ => (0, &[]),
        };
        let mut hash = Hash::new();
        hash.add(&[captured[0] >> 4, ip.protocol]);
        if is_v4 {
            // Identification, flags and fragment offset.
            hash.add(&captured[4..8]);
        }
        for &(from, to) in parts {
            hash.add(transport.get(from..to).unwrap_or(&[]));
        }
        let header = hash.0;
        let payload = usize::from(layout.payload);
        let stamp = if payload == 0 { payload..payload } else { payload..payload + layout.stamp_room() };
        let from = ip.transport + fixed.min(transport.len());
        hash.add(captured.get(from..stamp.start).unwrap_or(&[]));
        hash.add(captured.get(stamp.end.max(from)..).unwrap_or(&[]));
        let is_cut = captured.len() < layout.length as usize;
        Some(Self { header, all: hash.0, length: layout.length, is_cut, ends: ends(captured)? })
    }
}

/// FNV-1a in 64 bits: what differs by chance in 10^7 packets has the same with a probability below 10^-5.
struct Hash(u64);

impl Hash {
    const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

/// Which address stands for which party.
#[derive(Default)]
struct Parties {
    ues: BTreeMap<(u32, bool), IpAddr>,
    pdns: BTreeMap<IpAddr, IpAddr>,
    /// No two addresses of the data network may become one; UEs may fold.
    taken: BTreeMap<IpAddr, IpAddr>,
}

impl Parties {
    /// Whether a packet's source and destination are those its parties had before, if they had any.
    fn agree(&mut self, item: &Item, (source, destination): (IpAddr, IpAddr)) -> bool {
        let (ue, pdn) = if item.direction == Direction::Uplink { (source, destination) } else { (destination, source) };
        let known_ue = *self.ues.entry((item.ue, item.pdn.is_ipv6())).or_insert(ue);
        let known_pdn = *self.pdns.entry(item.pdn).or_insert(pdn);
        let holder = *self.taken.entry(pdn).or_insert(item.pdn);
        (known_ue, known_pdn, holder) == (ue, pdn, item.pdn)
    }
}

fn fingerprint(trace: &Trace, index: usize) -> Option<Fingerprint> {
    let packet = trace.packet(index);
    Fingerprint::of(packet.bytes, packet.length)
}

/// The packet in a GTP-U tunnel.
fn tunnelled(packet: &[u8]) -> Option<&[u8]> {
    let ethertype = match packet.first()? >> 4 {
        4 => ethertype::IPV4,
        6 => ethertype::IPV6,
        _ => return None,
    };
    let ip = Headers::of_network(ethertype, packet).ip?;
    if ip.protocol != protocol::UDP || ip.ports?.1 != GTPU_PORT || ip.fragment != Fragment::Whole {
        return None;
    }
    let (_, datagram) = Udp::parse(&packet[ip.transport..])?;
    let tunnel = Gtpu::parse(datagram).ok()?;
    (tunnel.message == Message::GPdu).then_some(tunnel.payload)
}
