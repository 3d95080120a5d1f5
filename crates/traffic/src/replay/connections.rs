//! Which TCP segments of a trace answer which: sequence and acknowledgement numbers followed per connection.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use wire::{Headers, Tcp, TcpFlags, ethertype, protocol};

use super::{AddressTable, Direction, Route, Trace};

/// Kind of the window scale option (RFC 7323 2.2).
const WINDOW_SCALE: u8 = 3;

/// The packets of a trace in lanes: each TCP connection has one for either direction, and all that is not TCP shares
/// the first.
#[derive(Clone, Debug)]
pub(super) struct Lanes {
    pub(super) lanes: Vec<Lane>,
    /// All lanes' packets, lane by lane.
    pub(super) entries: Vec<Entry>,
    /// The lanes of connections by what their packets say.
    pub(super) by_name: BTreeMap<Name, Vec<u32>>,
    /// Lane and place in it of each packet of the trace that is replayed.
    pub(super) places: Vec<(u32, u32)>,
}

/// One direction of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lane {
    /// Where its entries begin, and how many there are.
    pub(super) begin: u32,
    pub(super) len: u32,
    /// The other direction.
    pub(super) reverse: Option<u32>,
    /// The UE's number in the trace.
    pub(super) ue: u32,
}

/// A packet in its lane.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// Which packet of the trace.
    pub(super) index: u32,
    /// When it was captured since the first that is replayed, in nanoseconds.
    pub(super) time: u64,
    /// How many packets of the other direction must have arrived before it.
    pub(super) needs: u32,
    /// If it is the first to acknowledge the last of these: how long after its arrival it was sent, as far as that
    /// was more than the path's round trip.
    pub(super) think: Option<u64>,
}

/// What tells the lanes of connections apart, but for the UE: direction, IP version, number of the data network's
/// address, port of the UE, port of the data network.
pub(super) type Name = (Direction, bool, u32, u16, u16);

/// A segment's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Numbers {
    pub(super) sequence: u32,
    /// The sequence number after it, SYN and FIN counted (RFC 9293 3.4).
    end: u32,
    acknowledgement: u32,
    flags: TcpFlags,
    window: u16,
    /// What a SYN says of it.
    scale: Scale,
}

/// What a SYN says of window scaling (RFC 7323 2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scale {
    /// Its options were not captured.
    Unknown,
    Absent,
    Shift(u8),
}

/// One direction of a connection while the trace is read.
#[derive(Debug, Default)]
struct Side {
    entries: Vec<Entry>,
    /// Segments that take up sequence numbers: where they end, their place and time.
    segments: Vec<(u32, u32, u64)>,
    /// How far the other side has acknowledged these.
    acknowledged: usize,
    /// Each packet that opens the window further: up to which number, and its place.
    edges: Vec<(u32, u32)>,
    /// How far the other side has used these.
    used: usize,
    /// Sequence number of the SYN, and what it announces.
    syn: Option<(u32, Scale)>,
    closed: bool,
    /// The shortest time from a segment to its answer on this side.
    quickest: Option<u64>,
}

#[derive(Debug)]
struct Connection {
    name: (u32, bool, u32, u16, u16),
    /// Uplink and downlink.
    sides: [Side; 2],
}

impl Lanes {
    /// Reads the packets `indices` of `trace`, which all have routes, at their `times`.
    pub(super) fn new(trace: &Trace, table: &AddressTable, indices: &[u32], times: &[u64]) -> Self {
        let mut open = Vec::new();
        let mut connections: Vec<Connection> = Vec::new();
        let mut current = BTreeMap::new();
        for (&index, &time) in indices.iter().zip(times) {
            let entry = Entry { index, time, needs: 0, think: None };
            let packet = trace.packet(index as usize);
            let route = table.route(index as usize);
            let segment = route.and_then(|route| Some((route, numbers(packet.bytes, packet.length)?)));
            let Some((route, (ports, numbers))) = segment else {
                open.push(entry);
                continue;
            };
            let name = named(&route, ports);
            let is_up = route.direction == Direction::Uplink;
            let known = current.get(&name).copied().filter(|&at: &usize| !connections[at].is_over(is_up, &numbers));
            let at = known.unwrap_or_else(|| {
                connections.push(Connection { name, sides: Default::default() });
                current.insert(name, connections.len() - 1);
                connections.len() - 1
            });
            connections[at].add(is_up, entry, &numbers);
        }
        Self::lay_out(&open, connections, trace.len())
    }

    fn lay_out(open: &[Entry], connections: Vec<Connection>, packets: usize) -> Self {
        let mut all = Self {
            lanes: Vec::new(),
            entries: Vec::new(),
            by_name: BTreeMap::new(),
            places: alloc::vec![(u32::MAX, 0); packets],
        };
        all.push(open, None, 0);
        for Connection { name: (ue, v6, pdn, ue_port, pdn_port), sides } in connections {
            let up = all.lanes.len() as u32;
            for (side, direction) in sides.iter().zip([Direction::Uplink, Direction::Downlink]) {
                let lane = all.lanes.len() as u32;
                // The quickest answer had nothing to think about: its time is the path's round trip.
                let path = side.quickest.unwrap_or(0);
                let thought = |entry: &Entry| Entry { think: entry.think.map(|after| after - path), ..*entry };
                let entries: Vec<_> = side.entries.iter().map(thought).collect();
                all.push(&entries, Some(2 * up + 1 - lane), ue);
                all.by_name.entry((direction, v6, pdn, ue_port, pdn_port)).or_default().push(lane);
            }
        }
        all
    }

    fn push(&mut self, entries: &[Entry], reverse: Option<u32>, ue: u32) {
        let lane = self.lanes.len() as u32;
        for (place, entry) in (0..).zip(entries) {
            self.places[entry.index as usize] = (lane, place);
        }
        self.lanes.push(Lane { begin: self.entries.len() as u32, len: entries.len() as u32, reverse, ue });
        self.entries.extend_from_slice(entries);
    }
}

impl Connection {
    /// Whether a segment begins another connection between the same ports.
    fn is_over(&self, is_up: bool, segment: &Numbers) -> bool {
        let side = &self.sides[usize::from(!is_up)];
        let is_new =
            segment.flags.contains(TcpFlags::SYN) && side.syn.is_none_or(|(first, _)| first != segment.sequence);
        is_new && (side.syn.is_some() || side.closed)
    }

    fn add(&mut self, is_up: bool, mut entry: Entry, segment: &Numbers) {
        let [up, down] = &mut self.sides;
        let (own, other) = if is_up { (up, down) } else { (down, up) };
        let place = own.entries.len() as u32;
        if segment.flags.contains(TcpFlags::SYN) {
            own.syn = Some((segment.sequence, segment.scale));
        }
        own.closed |= segment.flags.contains(TcpFlags::FIN) || segment.flags.contains(TcpFlags::RST);
        if segment.flags.contains(TcpFlags::ACK) {
            let before = other.acknowledged;
            while other
                .segments
                .get(other.acknowledged)
                .is_some_and(|(end, ..)| !is_after(*end, segment.acknowledgement))
            {
                other.acknowledged += 1;
            }
            if let Some(&(_, answered, at)) =
                other.acknowledged.checked_sub(1).and_then(|last| other.segments.get(last))
            {
                entry.needs = answered + 1;
                if other.acknowledged > before {
                    let after = entry.time - at;
                    entry.think = Some(after);
                    own.quickest = Some(own.quickest.map_or(after, |quickest| quickest.min(after)));
                }
            }
        }
        // What may be sent is what the other side has room for (RFC 9293 3.8.6); a scale is in force only if both
        // announce one, and only known if both SYNs are there.
        if segment.end != segment.sequence {
            while other.edges.get(other.used).is_some_and(|(edge, _)| is_after(segment.end, *edge)) {
                other.used += 1;
            }
            if let Some(&(_, opener)) = other.edges.get(other.used) {
                entry.needs = entry.needs.max(opener + 1);
            }
        }
        let shift = match (own.syn, other.syn) {
            (None | Some((_, Scale::Unknown)), _) | (_, None | Some((_, Scale::Unknown))) => None,
            // A SYN's own window is never scaled (RFC 7323 2.2).
            (Some((_, Scale::Shift(shift))), Some((_, Scale::Shift(_)))) if !segment.flags.contains(TcpFlags::SYN) => {
                Some(shift)
            }
            _ => Some(0),
        };
        if let Some(shift) = shift.filter(|_| segment.flags.contains(TcpFlags::ACK)) {
            let window = u32::from(segment.window) << shift;
            let edge = segment.acknowledgement.wrapping_add(window);
            if own.edges.last().is_none_or(|(last, _)| is_after(edge, *last)) {
                own.edges.push((edge, place));
            }
        }
        if segment.end != segment.sequence {
            own.segments.push((segment.end, place, entry.time));
        }
        let least = own.entries.last().map_or(0, |last| last.needs);
        entry.needs = entry.needs.max(least);
        own.entries.push(entry);
    }
}

/// The numbers and ports (source, destination) of a packet that is a whole TCP segment, perhaps cut by the capture.
pub(super) fn numbers(packet: &[u8], length: u32) -> Option<((u16, u16), Numbers)> {
    let ethertype = if packet.first()? >> 4 == 4 { ethertype::IPV4 } else { ethertype::IPV6 };
    let ip = Headers::of_network(ethertype, packet).ip?;
    if ip.protocol != protocol::TCP || ip.fragment != wire::Fragment::Whole {
        return None;
    }
    let segment = packet.get(ip.transport..)?;
    let header = segment.get(..20)?;
    let header_len = usize::from(header[12] >> 4) * 4;
    let word = |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let flags = TcpFlags(header[13]);
    let payload = (length as usize).checked_sub(ip.transport + header_len)?;
    let virtual_octets = u32::from(flags.contains(TcpFlags::SYN)) + u32::from(flags.contains(TcpFlags::FIN));
    let numbers = Numbers {
        sequence: word(4),
        end: word(4).wrapping_add(payload as u32).wrapping_add(virtual_octets),
        acknowledgement: word(8),
        flags,
        window: u16::from_be_bytes([header[14], header[15]]),
        scale: Tcp::parse(segment).map_or(Scale::Unknown, |(tcp, _)| window_scale(tcp.options)),
    };
    Some((ip.ports?, numbers))
}

/// The shift of a window scale option is at most 14 (RFC 7323 2.3).
fn window_scale(mut options: &[u8]) -> Scale {
    loop {
        match options {
            [WINDOW_SCALE, 3, shift, ..] => return Scale::Shift((*shift).min(14)),
            [1, rest @ ..] => options = rest,
            [0, ..] | [_] | [] => return Scale::Absent,
            [_, len, ..] => options = options.get(usize::from(*len).max(2)..).unwrap_or(&[]),
        }
    }
}

fn named(route: &Route, (source, destination): (u16, u16)) -> (u32, bool, u32, u16, u16) {
    let (ue_port, pdn_port) = match route.direction {
        Direction::Uplink => (source, destination),
        Direction::Downlink => (destination, source),
    };
    (route.ue, route.v6, route.pdn, ue_port, pdn_port)
}

/// Whether sequence number `a` comes after `b` (RFC 9293 3.4).
const fn is_after(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() > 0
}
