//! What a group sends: models and traces.

use std::path::Path;

use engine::Span;
use traffic::models::{Hurst, Model, Noise, OnOff, PacketRate, PacketSizes, Step};
use traffic::replay::{AddressRule, Filter, Instances, Over, Prefix, Spacing};
use userplane::load::User;

use crate::load::{Load, Sizes, TraceLoad};
use crate::read::fields::{self, Fields};
use crate::read::keys;
use crate::read::load::seconds;
use crate::read::problem::{Noted, Notes, Problem};
use crate::read::yaml::{Node, Value};

/// Longest users' packet: with the tunnel over IPv6 it fills a frame of 1,900 bytes, which a slot holds.
const LONGEST_PACKET: u64 = 1_800;
/// Packets of a model if nothing is said, as in the thesis (4.3.1).
const PACKET: u32 = 1_400;
/// Most packets a second of one source, far beyond what can be sent.
const FASTEST: u64 = 100_000_000;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Type {
    Steady,
    Step,
    Poisson,
    Pareto,
    Noise,
    Trace,
}

/// Names of loads, the thesis's too.
const TYPES: [(&str, Type); 8] = [
    ("steady", Type::Steady),
    ("steady-rate", Type::Steady),
    ("step", Type::Step),
    ("step-wise", Type::Step),
    ("poisson", Type::Poisson),
    ("pareto", Type::Pareto),
    ("fgn", Type::Noise),
    ("trace", Type::Trace),
];

/// Keys that only some types have.
const ONLY: [(&str, &[Type]); 18] = [
    ("step", &[Type::Step]),
    ("sources", &[Type::Pareto]),
    ("shape", &[Type::Pareto]),
    ("on", &[Type::Pareto]),
    ("off", &[Type::Pareto]),
    ("hurst", &[Type::Noise]),
    ("deviation", &[Type::Noise]),
    ("slot", &[Type::Noise]),
    ("trace", &[Type::Trace]),
    ("filter", &[Type::Trace]),
    ("repetitions", &[Type::Trace]),
    ("instances", &[Type::Trace]),
    ("spacing", &[Type::Trace]),
    ("ue", &[Type::Trace]),
    ("max_gap", &[Type::Trace]),
    ("stateful", &[Type::Trace]),
    ("timeout", &[Type::Trace]),
    ("packet_size", &[Type::Steady, Type::Step, Type::Poisson, Type::Pareto, Type::Noise]),
];

/// The load that `node` says, of UEs of this version of IP.
pub(super) fn load(notes: &Notes, node: &Node, v6: bool, folder: &Path) -> Result<Load, Noted> {
    let fields = Fields::read(notes, node, &keys::GROUP_LOAD)?;
    let kind = fields.need("type").and_then(|node| fields::choice(notes, node, "load type", &TYPES))?;
    let elsewhere = ONLY.iter().filter(|(_, types)| !types.contains(&kind)).map(|(key, _)| *key);
    let rates = ["uplink", "downlink", "interval"].into_iter().filter(|_| kind == Type::Trace);
    for entry in elsewhere.chain(rates).filter_map(|key| fields.entry(key)) {
        let name = TYPES.iter().find(|(_, known)| *known == kind).map_or("", |(name, _)| name);
        let problem = Problem::new(entry.key_at, format!("`{}` means nothing for a load of type `{name}`", entry.key));
        notes.note(problem.remedy("leave it away, or choose another type"));
    }
    if kind == Type::Trace {
        return trace(notes, &fields, folder).map(Load::Trace);
    }
    let (uplink, downlink) = (model(notes, &fields, kind, "uplink"), model(notes, &fields, kind, "downlink"));
    let sizes = fields.with("packet_size", |notes, node| sizes(notes, node, v6, folder));
    let models = [uplink?, downlink?];
    if models.iter().all(Option::is_none) {
        let problem = Problem::new(node.at, "this load sends nothing");
        return Err(notes.note(problem.remedy("give `uplink`, `downlink` or both, in packets a second")));
    }
    Ok(Load::Model { models, sizes: sizes?.unwrap_or(Sizes::Drawn(PacketSizes::fixed(PACKET))) })
}

fn model(notes: &Notes, fields: &Fields<'_>, kind: Type, key: &str) -> Result<Option<Model>, Noted> {
    let Some(node) = fields.get(key) else { return Ok(None) };
    let interval = fields.with("interval", seconds)?.unwrap_or(Span::from_secs(1));
    if kind == Type::Step {
        return steps(notes, fields, node, interval).map(Some);
    }
    let rate = rate(notes, node, interval)?;
    let refuse = |error: traffic::models::ModelError| fields::refuse(notes, fields.at, &error);
    Ok(Some(match kind {
        Type::Steady | Type::Step | Type::Trace => Model::Steady { rate },
        Type::Poisson => Model::Poisson { rate },
        Type::Pareto => {
            let most = OnOff::MOST_SOURCES as u64;
            let sources = fields.with("sources", |notes, node| fields::integer(notes, node, 1..=most))?;
            let shape = fields.with("shape", fields::number)?.unwrap_or(1.4);
            let on = fields.with("on", seconds)?.unwrap_or(Span::from_millis(100));
            let off = fields.with("off", seconds)?.unwrap_or(Span::from_millis(900));
            let sources = sources.unwrap_or(100) as usize;
            Model::ParetoOnOff(OnOff::new(rate, sources, on, off, shape).map_err(refuse)?)
        }
        Type::Noise => {
            let hurst = Hurst::new(fields.with("hurst", fields::number)?.unwrap_or(0.8)).map_err(refuse)?;
            let slot = fields.with("slot", seconds)?.unwrap_or(Span::from_millis(10));
            let share = fields.with("deviation", fields::number)?.unwrap_or(0.3);
            let noise = Noise::new(rate, share * rate.expected(slot), hurst, slot).map_err(refuse)?;
            Model::FractionalGaussianNoise(noise)
        }
    }))
}

/// Steps: a list of rates, or a first rate and `step`. Each lasts `interval`.
fn steps(notes: &Notes, fields: &Fields<'_>, node: &Node, interval: Span) -> Result<Model, Noted> {
    let second = Span::from_secs(1);
    if let Value::List(_) = &node.value {
        let steps = fields::items(notes, node, "the steps")?.iter();
        let steps = steps.map(|node| Ok(Step { rate: rate(notes, node, second)?, lasts: interval }));
        return Ok(Model::Steps { steps: steps.collect::<Result<_, _>>()? });
    }
    let first = fields::integer(notes, node, 0..=FASTEST)?;
    let step = fields.need("step")?;
    let by = fields::text(notes, step)?.parse::<i64>().ok().filter(|by| by.unsigned_abs() <= FASTEST);
    let by = by.ok_or_else(|| {
        let problem = Problem::new(step.at, "a step is a whole number of packets a second");
        notes.note(problem.remedy(format!("choose from -{FASTEST} to {FASTEST}")))
    })?;
    // As many as a day has, at least one: the last one goes on.
    let count = (86_400_000_000_000 / interval.as_nanos()).clamp(1, 10_000);
    Ok(Model::ladder(first, by, interval, count))
}

/// Packets in each `interval`, or a rate with its unit.
fn rate(notes: &Notes, node: &Node, interval: Span) -> Result<PacketRate, Noted> {
    let text = fields::text(notes, node)?;
    let rate = if text.contains('/') {
        text.parse().map_err(|error| fields::refuse(notes, node.at, &error))?
    } else {
        let packets = fields::integer(notes, node, 0..=FASTEST * 3_600)?;
        PacketRate::new(packets, interval).map_err(|error| fields::refuse(notes, node.at, &error))?
    };
    if rate.a_second() <= FASTEST as f64 {
        return Ok(rate);
    }
    let problem = Problem::new(node.at, format!("{rate} is more than any machine sends"));
    Err(notes.note(problem.remedy(format!("choose at most {FASTEST}/s"))))
}

fn sizes(notes: &Notes, node: &Node, v6: bool, folder: &Path) -> Result<Sizes, Noted> {
    let refuse = |error: traffic::models::ModelError| fields::refuse(notes, node.at, &error);
    let Value::Map(entries) = &node.value else {
        return Ok(Sizes::Drawn(PacketSizes::fixed(length(notes, node, v6)?)));
    };
    let is_table = !entries.is_empty() && entries.iter().all(|entry| entry.key.bytes().all(|b| b.is_ascii_digit()));
    if is_table {
        let weighted = entries.iter().map(|entry| {
            let size = Node { at: entry.key_at, value: Value::Scalar(entry.key.clone()) };
            Ok((length(notes, &size, v6)?, fields::integer(notes, &entry.node, 0..=1 << 40)?))
        });
        let weighted: Vec<_> = weighted.collect::<Result<_, _>>()?;
        return PacketSizes::weighted(weighted).map(Sizes::Drawn).map_err(refuse);
    }
    let fields = Fields::read(notes, node, &keys::PACKET_SIZES)?;
    if let Some(node) = fields.get("trace") {
        return Ok(Sizes::Capture(folder.join(fields::text(notes, node)?)));
    }
    let from = fields.need("from").and_then(|node| length(notes, node, v6));
    let to = fields.need("to").and_then(|node| length(notes, node, v6))?;
    PacketSizes::uniform(from?, to).map(Sizes::Drawn).map_err(refuse)
}

/// Length of a user's IP packet in bytes, with a unit or without.
fn length(notes: &Notes, node: &Node, v6: bool) -> Result<u32, Noted> {
    let range = User::least_numbered(v6) as u64..=LONGEST_PACKET;
    let text = fields::text(notes, node)?;
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return fields::integer(notes, node, range).map(|length| length as u32);
    }
    fields::size(notes, node, range).map(|size| size.bytes() as u32)
}

fn trace(notes: &Notes, fields: &Fields<'_>, folder: &Path) -> Result<TraceLoad, Noted> {
    let path = fields.need("trace").and_then(|node| Ok(folder.join(fields::text(notes, node)?)));
    let filter = fields.with("filter", |notes, node| {
        Filter::parse(fields::text(notes, node)?).map_err(|error| fields::refuse(notes, node.at, &error))
    });
    let repetitions = fields.with("repetitions", |notes, node| fields::integer(notes, node, 1..=1_000_000));
    let instances = fields.with("instances", instances);
    let spacing = fields.with("spacing", |notes, node| {
        fields::text(notes, node)?.parse::<Spacing>().map_err(|error| fields::refuse(notes, node.at, &error))
    });
    let rule = fields.with("ue", |notes, node| match &node.value {
        Value::Scalar(text) if text == "first-sight" => Ok(AddressRule::FirstSight),
        _ => {
            let nodes = fields::one_or_more(notes, node, "the networks of UEs")?.iter();
            let prefix = |node: &Node| {
                fields::text(notes, node)?.parse::<Prefix>().map_err(|error| fields::refuse(notes, node.at, &error))
            };
            Ok(AddressRule::UeIn(nodes.map(prefix).collect::<Result<_, _>>()?))
        }
    });
    let max_gap = fields.with("max_gap", seconds);
    let stateful = fields.with("stateful", fields::boolean);
    let timeout = fields.with("timeout", seconds);
    Ok(TraceLoad {
        path: path?,
        filter: filter?,
        repetitions: repetitions?.map_or(1, |times| times as u32),
        instances: instances?.unwrap_or(Instances { over: Over::Pdn, count: 1 }),
        spacing: spacing?.unwrap_or_default(),
        rule: rule?.unwrap_or_default(),
        max_gap: max_gap?,
        stateful: stateful?.unwrap_or(false),
        timeout: timeout?.unwrap_or(Span::from_secs(1)),
    })
}

fn instances(notes: &Notes, node: &Node) -> Result<Instances, Noted> {
    let count = |node| fields::integer(notes, node, 1..=100_000).map(|count| count as u32);
    if let Value::Scalar(_) = &node.value {
        return Ok(Instances { over: Over::Pdn, count: count(node)? });
    }
    let fields = Fields::read(notes, node, &keys::INSTANCES)?;
    let kinds = [("pdn", Over::Pdn), ("ue", Over::Ue)];
    let over = fields.with("over", |notes, node| fields::choice(notes, node, "kind of addresses", &kinds));
    let count = fields.need("count").and_then(count);
    Ok(Instances { over: over?.unwrap_or_default(), count: count? })
}
