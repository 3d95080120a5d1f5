//! One direction of a link: from keys to pipes.

use std::net::IpAddr;

use engine::{Rate, Span};
use link::{
    Branch, ConfigError, DelayModel, Direction, DirectionConfig, GilbertElliott, LossAt, LossModel, Markov4,
    PipeConfig, RateModel, Selector,
};
use queue::Network;

use crate::profiles::{DefaultQueue, Profile, ProfileDirection};
use crate::read::fields::{self, Fields};
use crate::read::keys;
use crate::read::problem::{At, Noted, Notes, Problem};
use crate::read::queues::{self, Room};
use crate::read::traces::Traces;
use crate::read::yaml::{Entry, Node, Value};

/// What the directions of a link are decoded with.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) notes: &'a Notes,
    pub(crate) traces: &'a Traces<'a>,
    /// Largest packet of the path, in bytes at the network layer.
    pub(crate) packet: u64,
}

/// Mappings in which a key is looked for, the one that goes before the others first.
#[derive(Clone, Copy)]
pub(crate) struct Layers<'a, 'b>(pub(crate) &'b [Fields<'a>]);

impl<'a> Layers<'a, '_> {
    pub(crate) fn entry(&self, key: &str) -> Option<&'a Entry> {
        self.0.iter().find_map(|fields| fields.entry(key))
    }

    /// Where a field of the pipe is written, by its path such as `loss.p13`.
    pub(crate) fn find(&self, field: &str) -> Option<At> {
        fn below(node: &Node, key: &str) -> Option<At> {
            let Value::Map(entries) = &node.value else { return None };
            let own = entries.iter().find(|entry| entry.key == key).map(|entry| entry.node.at);
            own.or_else(|| entries.iter().find_map(|entry| below(&entry.node, key)))
        }
        let field = field.replace('_', "-");
        let (key, rest) = field.split_once('.').unwrap_or((&field, ""));
        let node = &self.entry(key)?.node;
        Some(below(node, rest).unwrap_or(node.at))
    }

    pub(crate) fn with<T>(
        &self,
        key: &str,
        read: impl FnOnce(&'a Node) -> Result<T, Noted>,
    ) -> Result<Option<T>, Noted> {
        self.entry(key).map(|entry| read(&entry.node)).transpose()
    }
}

/// Both directions of the link `fields`, up first.
pub(crate) fn directions<'a>(
    cx: Context<'_>,
    fields: Fields<'a>,
    profile: Option<&Profile>,
) -> Result<(DirectionConfig, DirectionConfig), Noted> {
    const UNLIMITED: ProfileDirection = ProfileDirection { rate: None, delay: Span::ZERO };
    let queue = profile.map_or(DefaultQueue::BandwidthDelay, |profile| profile.queue);
    let side = |key| fields.with(key, |notes, node| Fields::read(notes, node, &keys::DIRECTION));
    let (up, down) = (side("up"), side("down"));
    let layers = |own: Option<Fields<'a>>| own.into_iter().chain([fields]).collect::<Vec<_>>();
    let (up, down) = (layers(up?), layers(down?));
    let (up_base, down_base) = profile.map_or((UNLIMITED, UNLIMITED), |profile| (profile.up, profile.down));

    let (up_delay, down_delay) = (delay(cx, Layers(&up), up_base), delay(cx, Layers(&down), down_base));
    let round_trip = mean_delay(&up_delay?) + mean_delay(&down_delay?);
    let room = Room { round_trip, packet: cx.packet, default: queue };
    let up = direction(cx, &up, up_base, room);
    let down = direction(cx, &down, down_base, room);
    Ok((up?, down?))
}

fn direction(
    cx: Context<'_>,
    layers: &[Fields<'_>],
    base: ProfileDirection,
    room: Room,
) -> Result<DirectionConfig, Noted> {
    let pipe = pipe(cx, Layers(layers), base, room);
    let mut branches = Vec::new();
    if let Some(entry) = Layers(layers).entry("branches") {
        let entries = fields::map(cx.notes, &entry.node, "`branches`")?;
        if entries.len() > MOST_BRANCHES {
            let problem = Problem::new(entry.key_at, format!("there are {} branches", entries.len()));
            return Err(cx.notes.note(problem.remedy(format!("a direction has at most {MOST_BRANCHES}"))));
        }
        for entry in entries {
            branches.push(branch(cx, entry, layers, base, room)?);
        }
    }
    Ok(DirectionConfig { branches, pipe: pipe? })
}

/// Branches are asked in turn for every packet.
const MOST_BRANCHES: usize = 64;

fn branch(
    cx: Context<'_>,
    entry: &Entry,
    layers: &[Fields<'_>],
    base: ProfileDirection,
    room: Room,
) -> Result<Branch, Noted> {
    let name = fields::name(cx.notes, entry.key_at, &entry.key, "a branch")?;
    if name == Direction::MAIN {
        let problem = Problem::new(entry.key_at, format!("`{name}` is the pipe of the packets that no branch takes"));
        return Err(cx.notes.note(problem.remedy("give the branch another name")));
    }
    let fields = Fields::read(cx.notes, &entry.node, &keys::BRANCH)?;
    let selector = selector(cx.notes, fields.need("match")?)?;
    let layers: Vec<Fields<'_>> = [fields].into_iter().chain(layers.iter().copied()).collect();
    Ok(Branch { name: name.to_owned(), selector, pipe: pipe(cx, Layers(&layers), base, room)? })
}

fn pipe(cx: Context<'_>, layers: Layers<'_, '_>, base: ProfileDirection, room: Room) -> Result<PipeConfig, Noted> {
    let notes = cx.notes;
    let rate =
        layers.with("rate", |node| rate(cx, node)).map(|said| said.unwrap_or(base.rate.map(RateModel::Constant)));
    let overhead = layers.with("overhead", |node| fields::size(notes, node, 0..=65_535));
    let delay = delay(cx, layers, base);
    let reorder = layers.with("reorder", |node| fields::boolean(notes, node));
    let loss = layers.with("loss", |node| loss(cx, node));
    let places = [("entry", LossAt::Entry), ("air", LossAt::Air)];
    let loss_at = layers.with("loss-at", |node| fields::choice(notes, node, "place", &places));
    let duplicate = layers.with("duplicate", |node| fields::probability(notes, node));
    let corrupt = layers.with("corrupt", |node| fields::probability(notes, node));
    let (rate, overhead) = (rate?, overhead?.unwrap_or_default());
    let said = layers.entry("queue").map(|entry| &entry.node);
    let queue = queues::queue(notes, said, rate.as_ref().map(mean_rate), overhead, room);
    let pipe = PipeConfig {
        rate,
        overhead,
        queue: queue?,
        delay: delay?,
        reorder: reorder?.unwrap_or(false),
        loss: loss?.unwrap_or(LossModel::Bernoulli(0.0)),
        loss_at: loss_at?.unwrap_or_default(),
        duplicate: duplicate?.unwrap_or(0.0),
        corrupt: corrupt?.unwrap_or(0.0),
    };
    pipe.validate().map_err(|error| {
        let at = match &error {
            ConfigError::Invalid { field, .. } => layers.find(field),
            _ => None,
        };
        fields::refuse(notes, at.unwrap_or(layers.0[0].at), &error)
    })?;
    Ok(pipe)
}

fn rate(cx: Context<'_>, node: &Node) -> Result<Option<RateModel>, Noted> {
    match &node.value {
        Value::Map(_) => {}
        Value::Scalar(text) if text == "unlimited" => return Ok(None),
        _ => return fields::rate(cx.notes, node).map(|rate| Some(RateModel::Constant(rate))),
    }
    let entry = fields::variant(cx.notes, node, &keys::RATE_MODEL)?;
    if entry.key == "mahimahi" {
        return cx.traces.opportunities(cx.notes, &entry.node).map(|trace| Some(RateModel::Opportunities(trace)));
    }
    let bucket = Fields::read(cx.notes, &entry.node, &keys::TOKEN_BUCKET)?;
    let rate = fields::rate(cx.notes, bucket.need("rate")?);
    // A bucket that cannot hold one packet would never let it pass.
    let burst = fields::size(cx.notes, bucket.need("burst")?, cx.packet..=4 << 30);
    Ok(Some(RateModel::TokenBucket { rate: rate?, burst: burst? }))
}

/// The rate of a model over a long time.
pub(crate) fn mean_rate(model: &RateModel) -> Rate {
    let bits_per_second = match model {
        RateModel::Constant(rate) | RateModel::TokenBucket { rate, .. } => return *rate,
        RateModel::Opportunities(trace) => {
            let length = u128::from(trace.at_ms.last().copied().unwrap_or(1).max(1));
            // Each opportunity carries 1,504 bytes (mahimahi's packet_delivery trace).
            trace.at_ms.len() as u128 * 1_504 * 8 * 1_000 / length
        }
    };
    let whole = u64::try_from(bits_per_second).unwrap_or(u64::MAX).max(1);
    Rate::from_bits_per_second(whole).unwrap_or_else(|| unreachable!("at least 1"))
}

fn delay(cx: Context<'_>, layers: Layers<'_, '_>, base: ProfileDirection) -> Result<DelayModel, Noted> {
    let said = layers.with("delay", |node| delay_model(cx, node))?;
    Ok(said.unwrap_or(DelayModel::Constant(base.delay)))
}

fn delay_model(cx: Context<'_>, node: &Node) -> Result<DelayModel, Noted> {
    let notes = cx.notes;
    if !matches!(node.value, Value::Map(_)) {
        return fields::span(notes, node).map(DelayModel::Constant);
    }
    if node.entry("timeline").is_some() {
        let fields = Fields::read(notes, node, &keys::TIMELINE_DELAY)?;
        let interpolate = fields.with("interpolate", fields::boolean)?.unwrap_or(false);
        return cx.traces.timeline(notes, fields.need("timeline")?, interpolate).map(DelayModel::Timeline);
    }
    let entry = fields::variant(notes, node, &keys::DELAY_MODEL)?;
    let node = &entry.node;
    match entry.key.as_str() {
        "uniform" => {
            let fields = Fields::read(notes, node, &keys::UNIFORM)?;
            let min = fields::span(notes, fields.need("min")?);
            let max = fields::span(notes, fields.need("max")?);
            Ok(DelayModel::Uniform { min: min?, max: max? })
        }
        "normal" => {
            let fields = Fields::read(notes, node, &keys::NORMAL)?;
            let mean = fields::span(notes, fields.need("mean")?);
            let deviation = fields::span(notes, fields.need("deviation")?);
            Ok(DelayModel::Normal { mean: mean?, deviation: deviation? })
        }
        "pareto" => {
            let fields = Fields::read(notes, node, &keys::PARETO)?;
            let scale = fields::span(notes, fields.need("scale")?);
            let shape = fields::number(notes, fields.need("shape")?);
            Ok(DelayModel::Pareto { scale: scale?, shape: shape? })
        }
        _ => cx.traces.empirical(notes, node).map(DelayModel::Empirical),
    }
}

/// The mean of a delay: of a timeline the mean of its steps.
pub(crate) fn mean_delay(model: &DelayModel) -> Span {
    let mean = |sum: u128, count: usize| u64::try_from(sum / count.max(1) as u128).unwrap_or(u64::MAX);
    match model {
        DelayModel::Constant(delay) | DelayModel::Normal { mean: delay, .. } => *delay,
        DelayModel::Uniform { min, max } => {
            Span::from_nanos(mean(u128::from(min.as_nanos()) + u128::from(max.as_nanos()), 2))
        }
        DelayModel::Pareto { scale, shape } => {
            Span::from_nanos((scale.as_nanos() as f64 * shape / (shape - 1.0)) as u64)
        }
        DelayModel::Empirical(table) => {
            let sum = table.delays.iter().map(|delay| u128::from(delay.as_nanos())).sum();
            Span::from_nanos(mean(sum, table.delays.len()))
        }
        DelayModel::Timeline(line) => {
            let sum = line.steps.iter().map(|(_, delay)| u128::from(delay.as_nanos())).sum();
            Span::from_nanos(mean(sum, line.steps.len()))
        }
    }
}

fn loss(cx: Context<'_>, node: &Node) -> Result<LossModel, Noted> {
    let notes = cx.notes;
    if !matches!(node.value, Value::Map(_)) {
        return fields::probability(notes, node).map(LossModel::Bernoulli);
    }
    let entry = fields::variant(notes, node, &keys::LOSS_MODEL)?;
    let node = &entry.node;
    match entry.key.as_str() {
        "gilbert-elliott" => {
            let fields = Fields::read(notes, node, &keys::GILBERT_ELLIOTT)?;
            let p = fields::probability(notes, fields.need("p")?);
            let r = fields::probability(notes, fields.need("r")?);
            let loss_bad = fields.with("loss-bad", fields::probability)?.unwrap_or(1.0);
            let loss_good = fields.with("loss-good", fields::probability)?.unwrap_or(0.0);
            Ok(LossModel::GilbertElliott(GilbertElliott { p: p?, r: r?, loss_bad, loss_good }))
        }
        "markov4" => {
            // Defaults as of tc-netem(8), `loss state`.
            let fields = Fields::read(notes, node, &keys::MARKOV4)?;
            let p13 = fields::probability(notes, fields.need("p13")?)?;
            let p31 = fields.with("p31", fields::probability)?.unwrap_or(1.0 - p13);
            let p32 = fields.with("p32", fields::probability)?.unwrap_or(0.0);
            let p23 = fields.with("p23", fields::probability)?.unwrap_or(1.0);
            let p14 = fields.with("p14", fields::probability)?.unwrap_or(0.0);
            Ok(LossModel::Markov4(Markov4 { p13, p31, p32, p23, p14 }))
        }
        _ => cx.traces.losses(notes, node).map(LossModel::Trace),
    }
}

/// Protocols that are called by their names.
pub(crate) const PROTOCOLS: &[(&str, u8)] =
    &[("icmp", 1), ("tcp", 6), ("udp", 17), ("gre", 47), ("esp", 50), ("icmpv6", 58), ("sctp", 132)];

fn selector(notes: &Notes, node: &Node) -> Result<Selector, Noted> {
    let fields = Fields::read(notes, node, &keys::MATCH)?;
    let protocol = |notes: &Notes, node: &Node| match fields::text(notes, node)?.parse() {
        Ok(number) => Ok(number),
        Err(_) => fields::choice(notes, node, "protocol", PROTOCOLS),
    };
    let source = fields.with("source", network);
    let destination = fields.with("destination", network);
    let protocol = fields.with("protocol", protocol);
    let port = fields.with("port", |notes, node| fields::integer(notes, node, 1..=65_535));
    let dscp = fields.with("dscp", |notes, node| fields::integer(notes, node, 0..=63));
    let probability = fields.with("probability", fields::probability);
    let flow_label = fields.with("flow-label", |notes, node| fields::integer(notes, node, 1..=0xf_ffff));
    let spi = fields.with("spi", |notes, node| fields::integer(notes, node, 1..=u64::from(u32::MAX)));
    let headers = queue::Selector {
        source: source?,
        destination: destination?,
        protocol: protocol?,
        port: port?.map(|port| port as u16),
        dscp: dscp?.map(|dscp| dscp as u8),
        flow_label: flow_label?.map(|label| label as u32),
        spi: spi?.map(|spi| spi as u32),
    };
    if let Err(error) = headers.validate() {
        let problem = Problem::new(node.at, format!("no packet matches this: {error}"));
        return Err(notes.note(problem.remedy("leave one of the two away")));
    }
    let selector = Selector { headers, probability: probability? };
    if selector == Selector::default() {
        let problem = Problem::new(node.at, "a match without a condition takes every packet");
        return Err(notes.note(problem.remedy(format!("give one of {}", fields::list(keys::MATCH.names())))));
    }
    Ok(selector)
}

fn network(notes: &Notes, node: &Node) -> Result<Network, Noted> {
    let text = fields::text(notes, node)?;
    let (address, prefix) = text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
    let network = address.parse::<IpAddr>().ok().and_then(|address| {
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.map_or(Some(longest), |prefix| prefix.parse().ok().filter(|bits| *bits <= longest))?;
        Some(Network { address, prefix })
    });
    network.ok_or_else(|| {
        let problem = Problem::new(node.at, format!("`{text}` is not a network"));
        notes.note(problem.remedy("write for example `10.0.0.0/8` or `fd00::/8`"))
    })
}
