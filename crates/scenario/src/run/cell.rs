//! What both executors share of a cell: its links, and the shape of its record.

use engine::{Graph, NodeId, Span};
use link::{ConfigError, Direction};
use measure::{CellRecord, FlowRecord, Health, Observation, PipeRecord};

use crate::plan::{Cell, Flow, TcpEngine, Traffic};

/// How long a cell waits for its connections. Linux tries again after 1, 2, 3, 4, 5 and 7 s, so that at
/// 10 % loss both ways one connection in 50,000 is missed.
pub(crate) const CONNECT_LIMIT: Span = Span::from_secs(20);

/// How long the last datagrams of a cell may take to arrive.
pub(crate) const DRAIN: Span = Span::from_secs(5);

/// Adds a cell's links to a graph, both directions of each, with random streams by their names.
///
/// # Errors
///
/// A link that cannot be.
pub(crate) fn directions(cell: &Cell, graph: &mut Graph) -> Result<Vec<[NodeId; 2]>, ConfigError> {
    let mut nodes = Vec::new();
    for link in &cell.links {
        let [up_name, down_name] = direction_names(&link.name);
        let [up, down] = [(up_name, &link.up), (down_name, &link.down)]
            .map(|(name, config)| Direction::new(config, cell.seed, &name).map(|direction| graph.add(name, direction)));
        nodes.push([up?, down?]);
    }
    Ok(nodes)
}

/// What a link's directions are called in the graph, and their random streams.
pub(crate) fn direction_names(link: &str) -> [String; 2] {
    ["up", "down"].map(|direction| format!("{link}.{direction}"))
}

/// The record of a cell, of which pipes, health and lateness are still to be filled in.
pub(crate) fn record(cell: &Cell, observations: Vec<Observation>, own_tcp: &'static str) -> CellRecord {
    let mut histograms = Vec::new();
    let mut flows = Vec::new();
    for (flow, observation) in cell.flows.iter().zip(observations) {
        for (kind, histogram) in [("delay", &observation.delays), ("rtt", &observation.rtts)] {
            if !histogram.is_empty() {
                histograms.push((format!("{}.{kind}", flow.name), histogram.clone()));
            }
        }
        flows.push(observation.into_record(named(cell, flow, own_tcp)));
    }
    CellRecord {
        cell: cell.id,
        repeat: cell.repeat,
        attempt: 0,
        coordinates: cell.coordinates.clone(),
        seed: cell.seed,
        flows,
        pipes: Vec::new(),
        discarded: Vec::new(),
        health: Health::default(),
        histograms,
    }
}

fn named(cell: &Cell, flow: &Flow, own_tcp: &'static str) -> FlowRecord {
    let (protocol, engine, offered) = match &flow.traffic {
        Traffic::Tcp(tcp) => {
            let engine = if tcp.engine == TcpEngine::Iperf3 { "iperf3" } else { own_tcp };
            ("tcp", engine, tcp.rate)
        }
        Traffic::Udp(udp) => ("udp", own_tcp, Some(udp.rate)),
        Traffic::Ping(_) => ("ping", own_tcp, None),
    };
    FlowRecord {
        flow: flow.name.clone(),
        from: cell.sites[flow.from].clone(),
        to: cell.sites[flow.to].clone(),
        protocol: protocol.into(),
        engine: engine.into(),
        offered_bit_s: offered.map(|rate| rate.bits_per_second() as f64),
        ..FlowRecord::default()
    }
}

/// What the links of a cell counted.
pub(crate) fn pipes(cell: &Cell, graph: &Graph, directions: &[[NodeId; 2]]) -> Vec<PipeRecord> {
    let mut records = Vec::new();
    for (link, nodes) in cell.links.iter().zip(directions) {
        for (node, name) in nodes.iter().zip(["up", "down"]) {
            let Some(direction) = graph.element::<Direction>(*node) else { continue };
            records.extend(direction.counters().map(|(pipe, counters)| PipeRecord {
                link: link.name.clone(),
                direction: name.into(),
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
            }));
        }
    }
    records
}
