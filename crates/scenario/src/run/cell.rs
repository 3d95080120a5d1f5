//! What both executors share of a cell: how long it takes, and the shape of its record.

use engine::{Size, Span};
use link::{DirectionConfig, PipeConfig, RateModel};
use measure::{CellRecord, FlowRecord, Health, Observation};

use crate::plan::{Cell, Flow, TcpEngine, Traffic};
use crate::run::links;
use crate::topology::Topology;

/// How long a cell waits for its connections. Linux tries again after 1, 2, 3, 4, 5 and 7 s, so that at
/// 10 % loss both ways one connection in 50,000 is missed.
pub(crate) const CONNECT_LIMIT: Span = Span::from_secs(20);

/// Longest time the last datagrams of a cell are waited for.
const DRAIN_LIMIT: Span = Span::from_secs(5);
/// What the kernels and threads on the way may take of it.
const DRAIN_MARGIN: Span = Span::from_millis(500);

/// How long the last datagrams of a cell may take to arrive: there and back over every link, each
/// with a full queue, where that is known.
pub(crate) fn drain(cell: &Cell) -> Span {
    let longest_packet = u64::from(cell.path.largest_packet());
    let slowest = |direction: &DirectionConfig| {
        let pipes = direction.branches.iter().map(|branch| &branch.pipe).chain([&direction.pipe]);
        pipes.map(|pipe| passage(pipe, longest_packet)).try_fold(Span::ZERO, |longest, span| Some(longest.max(span?)))
    };
    // What waits in an adapter or before a line is a matter of minutes.
    let mut all = cell.links.iter().flat_map(|link| match (link.packets(), &link.adapters) {
        (Some(ways), None) => ways.map(slowest),
        _ => [None; 2],
    });
    let all = all.try_fold(DRAIN_MARGIN, |sum, span| Some(sum + span?));
    all.unwrap_or(DRAIN_LIMIT).min(DRAIN_LIMIT)
}

/// The longest a packet can be in a pipe, if its configuration says; packets have at most so many
/// bytes.
fn passage(pipe: &PipeConfig, longest_packet: u64) -> Option<Span> {
    let packet = longest_packet + pipe.overhead.bytes();
    let waiting = match &pipe.rate {
        None => Span::ZERO,
        Some(RateModel::Constant(rate) | RateModel::TokenBucket { rate, .. }) => {
            let packets = pipe.queue.packets.map(|packets| u64::from(packets) * packet);
            let bytes = [packets, pipe.queue.bytes.map(Size::bytes)].into_iter().flatten().min()?;
            rate.time_for(bytes + packet, &mut 0)
        }
        Some(RateModel::Opportunities(_)) => return None,
    };
    Some(waiting + pipe.delay.longest()?)
}

/// The record of a cell, of which pipes, health and lateness are still to be filled in.
pub(crate) fn record(
    cell: &Cell,
    topology: &Topology,
    observations: Vec<Observation>,
    own_tcp: &'static str,
) -> CellRecord {
    let mut histograms = Vec::new();
    let mut flows = Vec::new();
    for (flow, observation) in cell.flows.iter().zip(observations) {
        for (kind, histogram) in [("delay", &observation.delays), ("rtt", &observation.rtts)] {
            if !histogram.is_empty() {
                histograms.push((format!("{}.{kind}", flow.name), histogram.clone()));
            }
        }
        flows.push(observation.into_record(named(cell, topology, flow, own_tcp)));
    }
    CellRecord {
        cell: cell.id,
        repeat: cell.repeat,
        attempt: 0,
        coordinates: cell.coordinates.clone(),
        seed: cell.seed,
        flows,
        pipes: Vec::new(),
        adapters: Vec::new(),
        captures: Vec::new(),
        discarded: Vec::new(),
        health: Health::default(),
        histograms,
    }
}

fn named(cell: &Cell, topology: &Topology, flow: &Flow, own_tcp: &'static str) -> FlowRecord {
    let (protocol, engine, offered) = match &flow.traffic {
        Traffic::Tcp(tcp) => {
            let engine = if tcp.engine == TcpEngine::Iperf3 { "iperf3" } else { own_tcp };
            ("tcp", engine, tcp.rate)
        }
        Traffic::Udp(udp) => ("udp", own_tcp, Some(udp.rate)),
        Traffic::Ping(_) => ("ping", own_tcp, None),
        Traffic::Voice(voice) => ("voice", own_tcp, voice.rate()),
        Traffic::Pairs(_) => ("pairs", own_tcp, None),
        Traffic::Call(call) => ("call", own_tcp, call.voice.rate()),
        Traffic::Quic(quic) => ("quic", "quinn", Some(quic.rate)),
        Traffic::Load(_) => ("gtp-u", own_tcp, None),
    };
    FlowRecord {
        flow: flow.name.clone(),
        from: cell.sites[flow.from].clone(),
        to: cell.sites[flow.to].clone(),
        protocol: protocol.into(),
        engine: engine.into(),
        adapter: links::adapter_of(cell, topology, flow),
        offered_bit_s: offered.map(|rate| rate.bits_per_second() as f64),
        ..FlowRecord::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, parse};

    fn drained(link: &str) -> Span {
        let text = format!(
            "name: t\nsites: [a, b]\nlinks:\n  l: {{ends: [a, b], {link}}}\n\
             traffic: {{p: {{from: a, to: b, ping: {{interval: 1s}}}}}}\nmeasure: {{duration: 1s, interval: 1s}}\n"
        );
        let plan = parse("t", &text, &|_| unreachable!("it names no file"), &Options::default()).unwrap();
        drain(&plan.cells[0])
    }

    #[test]
    fn the_last_packets_have_the_time_they_can_take() {
        let margin = DRAIN_MARGIN;
        assert_eq!(drained("profile: perfect"), margin);
        assert_eq!(drained("delay: 100ms"), margin + Span::from_millis(200));
        // Two queues of 8 packets, and one in transmission, each of 1,500 bytes in 12 ms.
        let waiting = Span::from_millis(12).times(2 * 9);
        assert_eq!(drained("rate: 1Mbit/s, queue: 8"), margin + waiting);
        assert_eq!(drained("delay: 60s"), DRAIN_LIMIT);
        assert_eq!(drained("delay: {normal: {mean: 1ms, deviation: 1ms}}"), DRAIN_LIMIT);
    }
}
