//! What both executors share of a cell: its links, and the shape of its record.

use engine::{Graph, NodeId, Span};
use link::{Direction, DirectionConfig};
use measure::{CellRecord, FlowRecord, Health, Observation, PipeRecord};

use crate::plan::{Cell, Flow, TcpEngine, Traffic};

/// How long a cell waits for its connections. Linux tries again after 1, 2, 3, 4, 5 and 7 s, so that at
/// 10 % loss both ways one connection in 50,000 is missed.
pub const CONNECT_LIMIT: Span = Span::from_secs(20);

/// How long the last datagrams of a cell may take to arrive.
pub const DRAIN: Span = Span::from_secs(5);

/// One direction of a link, with the random stream of its name.
pub fn direction(cell: &Cell, name: &str, config: &DirectionConfig) -> Direction {
    Direction::new(config, cell.seed, name)
}

/// The record of a cell, of which pipes, health and lateness are still to be filled in.
pub fn record(cell: &Cell, observations: Vec<Observation>, own_tcp: &'static str) -> CellRecord {
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
pub fn pipes(cell: &Cell, graph: &Graph, directions: &[[NodeId; 2]]) -> Vec<PipeRecord> {
    let mut records = Vec::new();
    for (link, nodes) in cell.links.iter().zip(directions) {
        for (node, name) in nodes.iter().zip(["up", "down"]) {
            let Some(direction) = graph.element::<Direction>(*node) else { continue };
            records.extend(direction.pipes().map(|(pipe, counters)| PipeRecord {
                link: link.name.clone(),
                direction: name.into(),
                pipe: pipe.into(),
                offered_packets: counters.offered.packets,
                offered_bytes: counters.offered.bytes,
                delivered_packets: counters.delivered.packets,
                delivered_bytes: counters.delivered.bytes,
                drops: counters.drops().map(|(reason, count)| (reason.0.into(), count)).collect(),
                marked: counters.marked,
                duplicated: counters.duplicated,
                corrupted: counters.corrupted,
                queue_peak_packets: counters.queue_peak_packets,
                queue_peak_bytes: counters.queue_peak_bytes,
            }));
        }
    }
    records
}
