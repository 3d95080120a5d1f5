//! A cell's links as elements of a graph: directions or lines, with adapters at their ends.

use adapter::{Adapter, LAN, LINE};
use engine::{Graph, NodeId, Port, Span, Time};
use link::{CharacterLine, Direction};
use measure::{AdapterRecord, CaptureRecord, Discarded, PipeRecord, Quantiles};
use traffic::{EspGateway, SecurityAssociation};

use crate::plan::{Cell, Flow, Medium};
use crate::run::capture::{self, Capture};
use crate::run::carrier::{self, Carrier};
use crate::topology::{self, Topology};

/// A gateway's port towards its site, and towards the link.
const PLAIN: Port = 0;
const PROTECTED: Port = 1;
/// RFC 4303 2.1: SPIs to 255 are reserved.
const FIRST_SPI: u32 = 256;

/// A link in a graph.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkNodes {
    /// What carries packets or characters: up, down.
    pub(crate) ways: [NodeId; 2],
    /// The adapters at its first and second end.
    pub(crate) adapters: Option<[NodeId; 2]>,
    /// The IPsec gateways there, between the sites and all else.
    pub(crate) gateways: Option<[NodeId; 2]>,
    /// What captures at the first end, next to the site.
    pub(crate) capture: Option<NodeId>,
}

/// Why a link cannot be.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// A direction or line.
    #[error(transparent)]
    Link(#[from] link::ConfigError),
    /// An adapter.
    #[error(transparent)]
    Adapter(#[from] adapter::ConfigError),
}

impl LinkNodes {
    /// Where what the site at an end (0 or 1) sends goes in.
    pub(crate) fn entry(&self, side: usize) -> (NodeId, Port) {
        if let Some(capture) = self.capture.filter(|_| side == 0) {
            return (capture, capture::FROM_SITE);
        }
        let gateway = self.gateways.map(|gateways| (gateways[side], PLAIN));
        let adapter = self.adapters.map(|adapters| (adapters[side], LAN));
        gateway.or(adapter).unwrap_or((self.ways[side], 0))
    }

    /// Where what is for the site at an end comes out.
    pub(crate) fn exit(&self, side: usize) -> (NodeId, Port) {
        if let Some(capture) = self.capture.filter(|_| side == 0) {
            return (capture, capture::TO_SITE);
        }
        let gateway = self.gateways.map(|gateways| (gateways[side], PLAIN));
        let adapter = self.adapters.map(|adapters| (adapters[side], LAN));
        gateway.or(adapter).unwrap_or((self.ways[1 - side], 0))
    }

    /// Puts gateways between the link and the sites.
    fn protect(&mut self, cell: &Cell, number: usize, graph: &mut Graph) {
        let names = gateway_names(cell, number);
        let addresses = topology::gateways(cell.path.ip, number);
        let associations = [0, 1].map(|side| {
            let spi = FIRST_SPI + 2 * number as u32 + side as u32;
            SecurityAssociation::derived(cell.seed, &names[side], spi)
        });
        self.gateways = Some([0, 1].map(|side| {
            let other = 1 - side;
            let (own, peer) = (addresses[side], addresses[other]);
            let gateway = EspGateway::new(own, peer, &associations[side], &associations[other]);
            let gateway = graph.add(names[side].as_str(), gateway);
            graph.connect((gateway, PROTECTED), self.entry(side));
            graph.connect(self.exit(side), (gateway, PROTECTED));
            gateway
        }));
    }
}

/// Adds a cell's links to a graph, with random streams by their names.
///
/// # Errors
///
/// A link or an adapter that cannot be.
pub(crate) fn add(cell: &Cell, graph: &mut Graph) -> Result<Vec<LinkNodes>, LinkError> {
    let link = |number| {
        let mut link = add_link(cell, number, graph)?;
        if cell.path.esp {
            link.protect(cell, number, graph);
        }
        if cell.links[number].capture {
            let capture = graph.add(format!("{}.capture", cell.links[number].name), Capture::default());
            graph.connect((capture, capture::FROM_SITE), link.entry(0));
            graph.connect(link.exit(0), (capture, capture::TO_SITE));
            link.capture = Some(capture);
        }
        Ok(link)
    };
    (0..cell.links.len()).map(link).collect()
}

fn add_link(cell: &Cell, number: usize, graph: &mut Graph) -> Result<LinkNodes, LinkError> {
    let link = &cell.links[number];
    let names = way_names(&link.name);
    let [up_name, down_name] = &names;
    let ways = match &link.medium {
        Medium::Packets { up, down } => {
            let up = Direction::new(up, cell.seed, up_name)?;
            let down = Direction::new(down, cell.seed, down_name)?;
            [graph.add(up_name, up), graph.add(down_name, down)]
        }
        Medium::Characters { line } => {
            let up = CharacterLine::new(&line.up, cell.seed, up_name)?;
            let down = CharacterLine::new(&line.down, cell.seed, down_name)?;
            [graph.add(up_name, up), graph.add(down_name, down)]
        }
    };
    let Some(configs) = &link.adapters else {
        return Ok(LinkNodes { ways, adapters: None, gateways: None, capture: None });
    };
    let [first, second] = adapter_names(cell, number);
    let (near, far) = (Adapter::new(&configs[0], cell.seed, &first)?, Adapter::new(&configs[1], cell.seed, &second)?);
    let adapters = [graph.add(first, near), graph.add(second, far)];
    let over_packets = link.packets().is_some();
    for (side, way) in ways.into_iter().enumerate() {
        let (from, to) = (adapters[side], adapters[1 - side]);
        if over_packets {
            // A direction carries frames: runs of characters travel in them.
            let carrier = graph.add(format!("{}.carrier", names[side]), Carrier::default());
            graph.connect((from, LINE), (carrier, carrier::RUNS));
            graph.connect((carrier, carrier::FRAMES), (way, 0));
            graph.connect((way, 0), (carrier, carrier::FRAMES));
            graph.connect((carrier, carrier::RUNS), (to, LINE));
        } else {
            graph.connect((from, LINE), (way, 0));
            graph.connect((way, 0), (to, LINE));
        }
    }
    Ok(LinkNodes { ways, adapters: Some(adapters), gateways: None, capture: None })
}

/// What a link's directions are called in the graph, and their random streams.
pub(crate) fn way_names(link: &str) -> [String; 2] {
    ["up", "down"].map(|direction| format!("{link}.{direction}"))
}

/// What the adapters at a link's ends are called.
fn adapter_names(cell: &Cell, link: usize) -> [String; 2] {
    let link = &cell.links[link];
    [link.ends.0, link.ends.1].map(|site| format!("{}.{}", link.name, cell.sites[site]))
}

/// What the gateways at a link's ends are called; their keys are drawn by these names.
fn gateway_names(cell: &Cell, link: usize) -> [String; 2] {
    adapter_names(cell, link).map(|name| format!("{name}.esp"))
}

/// Whether what is dropped at a place is dropped by the path's design, as a link drops: at an adapter
/// or a gateway.
pub(crate) fn drops_by_design(cell: &Cell, place: &str) -> bool {
    let names =
        (0..cell.links.len()).flat_map(|link| adapter_names(cell, link).into_iter().chain(gateway_names(cell, link)));
    names.into_iter().any(|name| name == place)
}

/// The name of the adapter that puts a flow on the first line of its way, if there is one.
pub(crate) fn adapter_of(cell: &Cell, topology: &Topology, flow: &Flow) -> Option<String> {
    let mut at = flow.from;
    while at != flow.to {
        let route = topology.sites[at].routes.iter().find(|route| route.to == flow.to)?;
        if cell.links[route.link].adapters.is_some() {
            let [first, second] = adapter_names(cell, route.link);
            return Some(if route.side == 0 { first } else { second });
        }
        let ends = cell.links[route.link].ends;
        at = if route.side == 0 { ends.1 } else { ends.0 };
    }
    None
}

/// What was captured; `unix` is time zero in nanoseconds from 1970.
pub(crate) fn captures(cell: &Cell, graph: &Graph, links: &[LinkNodes], unix: u64) -> Vec<CaptureRecord> {
    let captures = cell.links.iter().zip(links).filter_map(|(link, nodes)| {
        let capture = graph.element::<Capture>(nodes.capture?)?;
        Some(capture.record(&link.name, &cell.sites[link.ends.0], unix))
    });
    captures.collect()
}

/// What the links of a cell counted.
pub(crate) fn pipes(cell: &Cell, graph: &Graph, links: &[LinkNodes]) -> Vec<PipeRecord> {
    let mut records = Vec::new();
    for (link, nodes) in cell.links.iter().zip(links) {
        for (node, name) in nodes.ways.iter().zip(["up", "down"]) {
            let named = PipeRecord { link: link.name.clone(), direction: name.into(), ..PipeRecord::default() };
            if let Some(line) = graph.element::<CharacterLine>(*node) {
                let counters = line.counters();
                records.push(PipeRecord {
                    pipe: "line".into(),
                    offered_packets: counters.offered_runs,
                    offered_bytes: counters.offered,
                    delivered_packets: counters.delivered_runs,
                    delivered_bytes: counters.delivered,
                    drops: counters.dropped().map(|(reason, characters)| (reason.0.into(), characters)).collect(),
                    corrupted: counters.errored,
                    queue_peak_bytes: counters.waiting_most,
                    ..named
                });
            } else if let Some(direction) = graph.element::<Direction>(*node) {
                records.extend(direction.counters().map(|(pipe, counters)| PipeRecord {
                    pipe: pipe.to_owned(),
                    offered_packets: counters.offered.packets,
                    offered_bytes: counters.offered.bytes,
                    delivered_packets: counters.delivered.packets,
                    delivered_bytes: counters.delivered.bytes,
                    drops: counters.dropped().map(|(reason, count)| (reason.0.into(), count.packets)).collect(),
                    marked: counters.marked,
                    duplicated: counters.duplicated.packets,
                    corrupted: counters.corrupted,
                    queue_peak_packets: u64::from(counters.queue_most_packets),
                    queue_peak_bytes: counters.queue_most_bytes,
                    ..named.clone()
                }));
            }
        }
    }
    records
}

/// What the adapters of a cell lost of what came to them over their lines, by reason.
pub(crate) fn losses(cell: &Cell, graph: &Graph, links: &[LinkNodes]) -> Vec<Discarded> {
    let mut losses = Vec::new();
    for (link, nodes) in links.iter().enumerate() {
        for (node, place) in nodes.adapters.into_iter().flatten().zip(adapter_names(cell, link)) {
            let Some(adapter) = graph.element::<Adapter>(node) else { continue };
            let lost = adapter.counters().receive.lost().into_iter().filter(|(_, count)| *count > 0);
            losses.extend(lost.map(|(reason, packets)| Discarded {
                place: place.clone(),
                reason: reason.0.into(),
                packets,
            }));
        }
    }
    losses
}

/// The adapters' counters at a moment: what is measured is the difference of two.
#[derive(Clone, Debug)]
pub(crate) struct AdapterCounts {
    at: Time,
    /// For each link with adapters: the link, and the counters at its ends.
    ends: Vec<(usize, [adapter::Counters; 2])>,
}

impl AdapterCounts {
    /// Reads the counters now; nothing if the cell has no adapters.
    pub(crate) fn read(graph: &Graph, links: &[LinkNodes]) -> Self {
        let counters = |node: NodeId| graph.element::<Adapter>(node).map(Adapter::counters);
        let ends = links.iter().enumerate().filter_map(|(number, nodes)| {
            let [first, second] = nodes.adapters?;
            Some((number, [counters(first)?, counters(second)?]))
        });
        Self { at: graph.now(), ends: ends.collect() }
    }

    /// What the adapters did from these counters on up to `end`.
    pub(crate) fn until(&self, end: &Self, cell: &Cell) -> Vec<AdapterRecord> {
        let measured = end.at.since(self.at);
        let pairs = self.ends.iter().zip(&end.ends);
        let rows = pairs.flat_map(|((link, before), (_, after))| {
            let names = adapter_names(cell, *link);
            let ends = cell.links[*link].ends;
            let sides = names.into_iter().zip([ends.0, ends.1]).zip(before.iter().zip(after)).enumerate();
            sides.map(move |(side, ((name, site), (before, after)))| {
                let config = cell.links[*link].adapters.as_ref().map(|adapters| &adapters[side]);
                let characters = config
                    .map_or(0.0, |config| config.rate.bits_per_second() as f64 / f64::from(config.bits_per_character));
                AdapterRecord {
                    adapter: name,
                    link: cell.links[*link].name.clone(),
                    site: cell.sites[site].clone(),
                    measured,
                    line_bit_s: characters * 8.0,
                    ..difference(before, after)
                }
            })
        });
        rows.collect()
    }
}

/// What was counted between two readings.
fn difference(before: &adapter::Counters, after: &adapter::Counters) -> AdapterRecord {
    let line = |of: fn(&adapter::LineCounters) -> u64| of(&after.line) - of(&before.line);
    let flows = |of: fn(&adapter::FlowCounters) -> u64| of(&after.flows) - of(&before.flows);
    let rohc = |of: fn(&adapter::RohcCounters) -> u64| of(&after.rohc) - of(&before.rohc);
    let sent = |of: fn(&adapter::Count) -> u64, real_time: bool| {
        let classes = adapter::Class::ALL.into_iter().filter(|class| (*class == adapter::Class::RealTime) == real_time);
        classes.map(|class| of(&after.class(class).sent) - of(&before.class(class).sent)).sum()
    };
    let (real_time, data) = (line(|l| l.real_time), line(|l| l.data));
    let (framing, once, control) = (line(|l| l.framing), line(|l| l.encapsulation), line(|l| l.control));
    let answered = |counters: &adapter::Counters| counters.cache.iter().map(|kind| kind.answered).sum::<u64>();
    let compressed = rohc(|r| r.packets);
    AdapterRecord {
        line_bytes: real_time + data + framing + once + control,
        real_time_line_bytes: real_time,
        data_line_bytes: data,
        framing_line_bytes: framing,
        encapsulation_line_bytes: once,
        control_line_bytes: control,
        held_line_bytes: line(|l| l.held),
        frames: line(|l| l.frames),
        real_time_packets: sent(|c| c.packets, true),
        real_time_ip_bytes: sent(|c| c.bytes, true),
        data_packets: sent(|c| c.packets, false),
        data_ip_bytes: sent(|c| c.bytes, false),
        predictions_held: flows(|f| f.held),
        predictions_missed: flows(|f| f.missed),
        overdue: flows(|f| f.overdue),
        // Flows may be refused before the measured time, and stay so.
        refused: after.flows.refused,
        replies_cached: answered(after) - answered(before),
        bad_frames: after.receive.bad_frames() - before.receive.bad_frames(),
        lost_packets: after.receive.lost_packets() - before.receive.lost_packets(),
        header_mean_bytes: (compressed > 0).then(|| rohc(|r| r.header_after) as f64 / compressed as f64),
        real_time_delay: spans(&before.real_time_delay, &after.real_time_delay),
        queue_delay: spans(&before.forwarding_delay, &after.forwarding_delay),
        gap: spans(&before.predicted_gap, &after.predicted_gap),
        ..AdapterRecord::default()
    }
}

/// Quantiles of the spans that were counted between two readings, to the resolution of the buckets.
fn spans(before: &adapter::Histogram, after: &adapter::Histogram) -> Option<Quantiles> {
    let mut earlier = before.buckets().peekable();
    let mut buckets: Vec<(Span, u64)> = Vec::new();
    for (upper, count) in after.buckets() {
        // A bucket's longest span is cut to the longest of all, so compare by order, not by equality.
        let known = earlier.next_if(|(other, _)| *other <= upper).map_or(0, |(_, count)| count);
        if count > known {
            buckets.push((upper, count - known));
        }
    }
    let count: u64 = buckets.iter().map(|(_, count)| count).sum();
    let at = |share: f64| {
        let rank = ((share * count as f64).ceil() as u64).max(1);
        let mut seen = 0;
        let found = buckets.iter().find(|(_, count)| {
            seen += count;
            seen >= rank
        });
        found.map(|(upper, _)| upper.as_secs_f64())
    };
    Some(Quantiles { count, min: at(0.0)?, p50: at(0.5)?, p90: at(0.9)?, p99: at(0.99)?, max: at(1.0)? })
}
