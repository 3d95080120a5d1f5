//! Queues: from keys to limits and disciplines.

use engine::{Rate, Size, Span};
use queue::{Codel, ConfigError, Discipline, FqCodel, Pie, QueueConfig};

use crate::profiles::DefaultQueue;
use crate::read::fields::{self, Fields};
use crate::read::keys;
use crate::read::problem::{At, Noted, Notes, Problem};
use crate::read::yaml::{Node, Value};

/// What the length of a queue follows from where it is not said.
#[derive(Clone, Copy)]
pub(crate) struct Room {
    /// Mean delay of both directions together.
    pub(crate) round_trip: Span,
    /// Largest packet of the path at the network layer, in bytes.
    pub(crate) packet: u64,
    /// What the profile says.
    pub(crate) default: DefaultQueue,
}

/// Shortest default: dummynet's queue of 50 slots.
const FIFTY: u32 = 50;
/// Longest queue: what a plan asks for must fit into memory.
const MOST_PACKETS: u32 = 1_000_000;
const MOST_BYTES: u64 = 4 << 30;

const DISCIPLINES: &[(&str, Kind)] =
    &[("drop-tail", Kind::DropTail), ("codel", Kind::Codel), ("pie", Kind::Pie), ("fq-codel", Kind::FqCodel)];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    DropTail,
    Codel,
    Pie,
    FqCodel,
}

/// The queue that `node` says, in front of `rate`.
pub(crate) fn queue(
    notes: &Notes,
    node: Option<&Node>,
    rate: Option<Rate>,
    overhead: Size,
    room: Room,
) -> Result<QueueConfig, Noted> {
    let bdp = |at: At| bandwidth_delay(rate, overhead, room).ok_or_else(|| too_long(notes, at));
    let default = |at: At| match room.default {
        DefaultQueue::Packets(packets) => Ok(packets),
        DefaultQueue::BandwidthDelay => bdp(at),
    };
    let drop_tail = |packets, bytes| QueueConfig { packets, bytes, discipline: Discipline::DropTail };
    let Some(node) = node else {
        // Nothing is written that could be pointed to: the longest queue will do.
        let packets = match room.default {
            DefaultQueue::Packets(packets) => packets,
            DefaultQueue::BandwidthDelay => bandwidth_delay(rate, overhead, room).unwrap_or(MOST_PACKETS),
        };
        return Ok(drop_tail(Some(packets), None));
    };
    let Value::Map(_) = node.value else {
        let text = fields::text(notes, node)?;
        if text == "bdp" {
            return Ok(drop_tail(Some(bdp(node.at)?), None));
        }
        if let Some((_, kind)) = DISCIPLINES.iter().find(|(name, _)| *name == text) {
            return Ok(QueueConfig { discipline: kind.default(), ..drop_tail(Some(default(node.at)?), None) });
        }
        if text.bytes().all(|b| b.is_ascii_digit()) {
            return Ok(drop_tail(Some(packets(notes, node)?), None));
        }
        if text.starts_with(|c: char| c.is_ascii_digit()) {
            return Ok(drop_tail(None, Some(bytes(notes, node)?)));
        }
        let valid = ["bdp"].into_iter().chain(DISCIPLINES.iter().map(|(name, _)| *name));
        let noted = fields::unknown(notes, node.at, "queue", text, valid, "; a limit is written `50` or `64KiB`");
        return Err(noted);
    };
    let fields = Fields::read(notes, node, &keys::QUEUE_FIELDS)?;
    let limit = fields.with("packets", |notes, node| match &node.value {
        Value::Scalar(text) if text == "bdp" => bdp(node.at),
        _ => packets(notes, node),
    });
    let bytes = fields.with("bytes", bytes);
    let kind = fields.with("discipline", |notes, node| fields::choice(notes, node, "discipline", DISCIPLINES));
    let (mut limit, bytes) = (limit?, bytes?);
    if limit.is_none() && bytes.is_none() {
        limit = Some(default(node.at)?);
    }
    let discipline = discipline(notes, &fields, kind?.unwrap_or(Kind::DropTail))?;
    let config = QueueConfig { packets: limit, bytes, discipline };
    config.validate().map_err(|error| {
        let field = match &error {
            ConfigError::OutOfRange { field, .. } | ConfigError::SpanOutOfRange { field, .. } => fields.get(field),
            ConfigError::NoLimit => None,
        };
        fields::refuse(notes, field.unwrap_or(node).at, &error)
    })?;
    Ok(config)
}

fn packets(notes: &Notes, node: &Node) -> Result<u32, Noted> {
    fields::integer(notes, node, 1..=u64::from(MOST_PACKETS)).map(|packets| packets as u32)
}

fn whole(notes: &Notes, node: &Node) -> Result<u32, Noted> {
    fields::integer(notes, node, 0..=u64::from(u32::MAX)).map(|number| number as u32)
}

fn bytes(notes: &Notes, node: &Node) -> Result<Size, Noted> {
    fields::size(notes, node, 1..=MOST_BYTES)
}

/// The larger of 50 packets and one bandwidth-delay product in packets of the path's size, or
/// `None` if it is longer than a queue may be.
fn bandwidth_delay(rate: Option<Rate>, overhead: Size, room: Room) -> Option<u32> {
    let Some(rate) = rate else { return Some(FIFTY) };
    let packet = (room.packet + overhead.bytes()).max(1);
    let packets = rate.bytes_in(room.round_trip).div_ceil(packet);
    u32::try_from(packets).ok().map(|packets| packets.max(FIFTY)).filter(|packets| *packets <= MOST_PACKETS)
}

fn too_long(notes: &Notes, at: At) -> Noted {
    let what = format!("one bandwidth-delay product of this link is more than {MOST_PACKETS} packets");
    notes.note(Problem::new(at, what).remedy("give the queue's limit in packets or bytes"))
}

fn discipline(notes: &Notes, fields: &Fields<'_>, kind: Kind) -> Result<Discipline, Noted> {
    let owners: [(&str, &[Kind], &str); 7] = [
        ("target", &[Kind::Codel, Kind::Pie, Kind::FqCodel], "codel, pie and fq-codel"),
        ("interval", &[Kind::Codel, Kind::FqCodel], "codel and fq-codel"),
        ("update", &[Kind::Pie], "pie"),
        ("burst", &[Kind::Pie], "pie"),
        ("ecn", &[Kind::Codel, Kind::Pie, Kind::FqCodel], "codel, pie and fq-codel"),
        ("flows", &[Kind::FqCodel], "fq-codel"),
        ("quantum", &[Kind::FqCodel], "fq-codel"),
    ];
    for (key, kinds, of) in owners {
        if let Some(entry) = fields.entry(key).filter(|_| !kinds.contains(&kind)) {
            let problem = Problem::new(entry.key_at, format!("`{key}` means nothing to this discipline"));
            return Err(notes.note(problem.remedy(format!("it belongs to {of}: set `discipline`, or leave it away"))));
        }
    }
    let target = fields.with("target", fields::span);
    let interval = fields.with("interval", fields::span);
    let ecn = fields.with("ecn", fields::boolean);
    let (target, interval, ecn) = (target?, interval?, ecn?);
    let codel = |base: Codel| Codel {
        target: target.unwrap_or(base.target),
        interval: interval.unwrap_or(base.interval),
        ecn: ecn.unwrap_or(base.ecn),
    };
    Ok(match kind {
        Kind::DropTail => Discipline::DropTail,
        Kind::Codel => Discipline::Codel(codel(Codel::default())),
        Kind::Pie => {
            let base = Pie::default();
            let update = fields.with("update", fields::span)?.unwrap_or(base.update);
            let burst = fields.with("burst", fields::span)?.unwrap_or(base.burst);
            let (target, ecn) = (target.unwrap_or(base.target), ecn.unwrap_or(base.ecn));
            Discipline::Pie(Pie { target, update, burst, ecn })
        }
        Kind::FqCodel => {
            let base = FqCodel::default();
            let flows = fields.with("flows", whole)?;
            let quantum = fields.with("quantum", whole)?;
            let (flows, quantum) = (flows.unwrap_or(base.flows), quantum.unwrap_or(base.quantum));
            Discipline::FqCodel(FqCodel { flows, quantum, codel: codel(base.codel) })
        }
    })
}

impl Kind {
    fn default(self) -> Discipline {
        match self {
            Kind::DropTail => Discipline::DropTail,
            Kind::Codel => Discipline::Codel(Codel::default()),
            Kind::Pie => Discipline::Pie(Pie::default()),
            Kind::FqCodel => Discipline::FqCodel(FqCodel::default()),
        }
    }
}
