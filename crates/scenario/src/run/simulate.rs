//! A cell in virtual time: modelled hosts, the same links, and nobody waits.

use std::collections::BTreeMap;
use std::ops::Range;

use engine::{DropReason, Event, ExitId, Graph, NodeId, Outlet, Packet, Size, Span, Time};
use hdrhistogram::Histogram;
use measure::event::Session;
use measure::{
    AdapterRecord, CellRecord, Discarded, Health, Observation, PacketCounts, PacketPoint, Quantiles, Snapshot,
    delay_histogram,
};
use traffic::{
    Congestion, EchoPassage, Host, HostConfig, HostFlow, NextHop, ProbeReceiver, Remote, Router, TcpSource, Tunnel,
};

use crate::plan::{Cell, FIRST_PORT, Flow, Tcp, TcpEngine, Traffic};
use crate::run::Executor;
use crate::run::cell::{self, CONNECT_LIMIT};
use crate::run::links::{self, AdapterCounts, LinkError, LinkNodes};
use crate::run::talk;
use crate::topology::{Topology, VNI};

/// Why a cell cannot be run in virtual time.
#[derive(Debug, thiserror::Error)]
pub enum SimulationError {
    /// smoltcp has no such congestion control.
    #[error(
        "flow `{flow}`: congestion control `{name}` does not exist in virtual time; use cubic or reno, or run without --virtual"
    )]
    Congestion {
        /// The flow.
        flow: String,
        /// What it asks for.
        name: String,
    },
    /// A real program cannot run in virtual time.
    #[error("flow `{flow}`: iperf3 cannot run in virtual time; use `engine: own`, or run without --virtual")]
    Iperf3 {
        /// The flow.
        flow: String,
    },
    /// A load on a UPF is a matter of real packets.
    #[error("flow `{flow}`: a load on a UPF cannot run in virtual time; run without --virtual")]
    Load {
        /// The flow.
        flow: String,
    },
    /// A link that cannot be.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// QUIC.
    #[error(transparent)]
    Keys(#[from] traffic::KeyError),
}

/// How virtual time differs from a real run, for the record.
const REMARKS: [&str; 2] = [
    "TCP endpoints are smoltcp's, not Linux's: no selective acknowledgements at the sender, no RACK, no tail loss \
     probe, a least retransmission timeout of 1 s (Linux: 200 ms), an initial window of 2 KiB (Linux: 10 segments), \
     buffers of 4 MiB, no pacing. After losses it recovers more slowly.",
    "Hosts, bridges and tunnels take no time; no packet is late and no CPU time is used.",
];

/// How a run in virtual time is made, for the record: neither date nor machine, so that the same
/// seed gives the same bytes.
pub(crate) fn session() -> Session {
    Session {
        version: env!("CARGO_PKG_VERSION").into(),
        executor: Executor::Virtual.name().into(),
        remarks: REMARKS.map(str::to_owned).into(),
        ..Session::default()
    }
}

/// Whether every cell can be run in virtual time.
///
/// # Errors
///
/// The first flow that cannot.
pub(crate) fn check(cells: &[Cell]) -> Result<(), SimulationError> {
    cells.iter().flat_map(|cell| &cell.flows).try_for_each(|flow| match &flow.traffic {
        Traffic::Tcp(Tcp { engine: TcpEngine::Iperf3, .. }) => Err(SimulationError::Iperf3 { flow: flow.name.clone() }),
        Traffic::Tcp(tcp) => congestion(flow, tcp).map(drop),
        Traffic::Load(_) => Err(SimulationError::Load { flow: flow.name.clone() }),
        Traffic::Udp(_)
        | Traffic::Ping(_)
        | Traffic::Voice(_)
        | Traffic::Pairs(_)
        | Traffic::Call(_)
        | Traffic::Quic(_) => Ok(()),
    })
}

/// Runs a cell.
///
/// # Errors
///
/// As [`check`].
pub(crate) fn run(cell: &Cell) -> Result<CellRecord, SimulationError> {
    let mut world = World::build(cell)?;
    let (start, measured) = world.connect(cell)?;
    world.measure(cell, start, measured)?;
    Ok(world.record(cell))
}

fn congestion(flow: &Flow, tcp: &Tcp) -> Result<Congestion, SimulationError> {
    match tcp.congestion.as_str() {
        "cubic" => Ok(Congestion::Cubic),
        "reno" => Ok(Congestion::Reno),
        name => Err(SimulationError::Congestion { flow: flow.name.clone(), name: name.into() }),
    }
}

/// A cell's graph and what is seen of it.
struct World {
    graph: Graph,
    topology: Topology,
    hosts: Vec<NodeId>,
    links: Vec<LinkNodes>,
    /// What the adapters did in the measured time, once it is over.
    adapters: Vec<AdapterRecord>,
    flows: Vec<Ends>,
    outlet: Discards,
}

/// A flow's ends, by position in their hosts.
#[derive(Default)]
struct Ends {
    source: Option<usize>,
    sink: Option<usize>,
    observation: Observation,
    interval: Option<Histogram<u64>>,
}

/// Packets that were dropped outside a link, by place and reason.
#[derive(Default)]
struct Discards(BTreeMap<(NodeId, DropReason), u64>);

impl Outlet for Discards {
    fn transmit(&mut self, _: ExitId, packet: Packet) {
        debug_assert!(false, "a virtual cell has no exits, but {packet:?} left by one");
    }

    fn discard(&mut self, _: Time, node: NodeId, reason: DropReason, _: Packet) {
        *self.0.entry((node, reason)).or_default() += 1;
    }

    fn event(&mut self, _: Time, _: NodeId, _: Event) {}
}

impl World {
    fn build(cell: &Cell) -> Result<Self, SimulationError> {
        let topology = Topology::of(cell);
        let mut graph = Graph::new();
        let links = links::add(cell, &mut graph)?;
        let hosts = (0..cell.sites.len()).map(|site| add_site(&mut graph, cell, &topology, &links, site)).collect();
        let flows = cell.flows.iter().map(|_| Ends::default()).collect();
        Ok(Self { graph, topology, hosts, links, flows, adapters: Vec::new(), outlet: Discards::default() })
    }

    /// Lets the connections of all flows that start with the cell be made. Returns when they stood,
    /// and the measured time.
    fn connect(&mut self, cell: &Cell) -> Result<(Time, Range<Time>), SimulationError> {
        for number in 0..cell.flows.len() {
            if cell.flows[number].start == Span::ZERO {
                self.open(cell, number)?;
            }
        }
        let limit = Time::ZERO + CONNECT_LIMIT;
        while self.graph.now() < limit && !self.connected(cell) {
            let next = self.graph.deadline().unwrap_or(limit);
            self.graph.advance(next.min(limit), &mut self.outlet);
        }
        let start = self.graph.now();
        let first = start + cell.warmup;
        let measured = first..first + cell.duration;
        for number in 0..cell.flows.len() {
            if cell.flows[number].start == Span::ZERO {
                self.begin(cell, number, start, &measured);
            }
        }
        Ok((start, measured))
    }

    /// Reads the counters at each interval's end, starts what starts later, and lets the last
    /// packets arrive.
    fn measure(&mut self, cell: &Cell, start: Time, measured: Range<Time>) -> Result<(), SimulationError> {
        let mut later: Vec<usize> = (0..cell.flows.len()).filter(|&n| cell.flows[n].start > Span::ZERO).collect();
        later.sort_by_key(|&n| cell.flows[n].start);
        let mut later = later.into_iter().peekable();
        let mut snapshot = measured.start;
        let mut begun = None;
        loop {
            while let Some(number) = later.next_if(|&n| start + cell.flows[n].start <= snapshot) {
                self.graph.advance(start + cell.flows[number].start, &mut self.outlet);
                self.open(cell, number)?;
                self.begin(cell, number, start, &measured);
            }
            self.graph.advance(snapshot, &mut self.outlet);
            begun.get_or_insert_with(|| AdapterCounts::read(&self.graph, &self.links));
            for number in 0..cell.flows.len() {
                self.snapshot(cell, number);
            }
            if snapshot >= measured.end {
                break;
            }
            snapshot = (snapshot + cell.interval).min(measured.end);
        }
        let ended = AdapterCounts::read(&self.graph, &self.links);
        self.adapters = begun.map(|begun| begun.until(&ended, cell)).unwrap_or_default();
        self.graph.advance(measured.end + cell::drain(cell), &mut self.outlet);
        for (number, flow) in cell.flows.iter().enumerate() {
            self.read_logs(cell, number);
            self.collect(cell, number);
            let packets = self.packets(cell, number);
            let established = self.source(cell, number).map(|source| source.established);
            let began = self.source(cell, number).and_then(|source| source.began);
            let echoes = self.source(cell, number).map_or(&[][..], HostFlow::echoes).to_vec();
            let completed = self.receiving(cell, number).and_then(|sink| sink.completed);
            let observation = &mut self.flows[number].observation;
            observation.packets = packets.or(observation.packets);
            observation.transfer = completed.zip(began).map(|(completed, began)| completed.since(began));
            if let Traffic::Ping(ping) = &flow.traffic {
                let point = |echo: &EchoPassage| {
                    PacketPoint::trip(echo.number, ping.size.bytes(), echo.sent.since(measured.start), echo.trip)
                };
                observation.series = echoes.iter().map(point).collect();
            }
            if matches!(flow.traffic, Traffic::Tcp(_)) {
                match established.flatten() {
                    Some(at) => observation.connect = Some(at.since(opened(flow, start))),
                    None => observation.error = Some("the connection was never established".into()),
                }
            }
        }
        Ok(())
    }

    fn record(mut self, cell: &Cell) -> CellRecord {
        let flows: Vec<Observation> = self.flows.drain(..).map(|ends| ends.observation).collect();
        let mut record = cell::record(cell, &self.topology, flows, "smoltcp");
        record.pipes = links::pipes(cell, &self.graph, &self.links);
        record.adapters = std::mem::take(&mut self.adapters);
        record.captures = links::captures(cell, &self.graph, &self.links, 0);
        let links: Vec<NodeId> = self.links.iter().flat_map(|link| link.ways).collect();
        // The links' directions count their own, pipe by pipe.
        let others = self.outlet.0.iter().filter(|((node, _), _)| !links.contains(node));
        record.discarded = others
            .map(|(&(node, reason), &packets)| Discarded {
                place: self.graph.name(node).into(),
                reason: reason.0.into(),
                packets,
            })
            .collect();
        record.discarded.extend(links::losses(cell, &self.graph, &self.links));
        // In virtual time every packet leaves when it should.
        let packets = record.pipes.iter().map(|pipe| pipe.delivered_packets).sum();
        record.health = Health {
            packets,
            lateness: Quantiles { count: packets, ..Quantiles::default() },
            cells_beside: 1,
            ..Health::default()
        };
        record
    }

    /// Makes a flow's ends; a TCP source connects at once.
    fn open(&mut self, cell: &Cell, number: usize) -> Result<(), SimulationError> {
        let flow = &cell.flows[number];
        let port = FIRST_PORT + number as u16;
        let to = self.topology.application(flow.to);
        let (source, sink) = match &flow.traffic {
            Traffic::Tcp(tcp) => {
                let congestion = congestion(flow, tcp)?;
                let remote = (to, port);
                let (rate, write, dscp) = (tcp.rate, tcp.write.bytes(), flow.dscp);
                let transfer = tcp.transfer.map(Size::bytes);
                let sink = self.host(flow.to).map(|host| host.tcp_sink(port, transfer));
                let config = TcpSource { port: port + 30_000, remote, rate, write, transfer, congestion, dscp };
                (self.host(flow.from).map(|host| host.tcp_source(config)), sink)
            }
            Traffic::Udp(udp) => {
                let sink = self.host(flow.to).map(|host| host.udp_sink(port));
                let host = self.host(flow.from);
                let source = host.map(|host| host.udp_source(port, (to, port), udp.rate, length(udp.size), flow.dscp));
                (source, sink)
            }
            Traffic::Ping(ping) => {
                let ident = number as u16;
                let (interval, size) = (ping.interval, length(ping.size));
                (self.host(flow.from).map(|host| host.ping(ident, to, interval, size, flow.dscp)), None)
            }
            Traffic::Voice(voice) => self.talk(cell, number, talk::voice(cell, flow, voice)),
            Traffic::Pairs(pairs) => self.talk(cell, number, talk::pairs(cell, flow, pairs)),
            Traffic::Quic(quic) => self.talk(cell, number, talk::quic(cell, flow, quic)?),
            Traffic::Load(_) => return Err(SimulationError::Load { flow: flow.name.clone() }),
            Traffic::Call(call) => {
                let addresses = [self.topology.application(flow.from), to];
                self.talk(cell, number, talk::call(cell, flow, call, addresses))
            }
        };
        self.flows[number].source = source;
        self.flows[number].sink = sink;
        Ok(())
    }

    /// Puts applications at the ends of a flow.
    fn talk(&mut self, cell: &Cell, number: usize, [first, second]: talk::Ends) -> (Option<usize>, Option<usize>) {
        let flow = &cell.flows[number];
        let [from, to] = [flow.from, flow.to].map(|site| self.topology.application(site));
        let ports: Vec<_> = flow.udp_ports(number).into_iter().map(|port| (port, port)).collect();
        let sink = self.host(flow.to).map(|host| host.application(second, &ports, from, flow.dscp));
        (self.host(flow.from).map(|host| host.application(first, &ports, to, flow.dscp)), sink)
    }

    fn begin(&mut self, cell: &Cell, number: usize, start: Time, measured: &Range<Time>) {
        let flow = &cell.flows[number];
        let stop = flow.stop.map_or(measured.end, |stop| (start + stop).min(measured.end));
        let sending = start + flow.start..stop;
        let Ends { source, sink, .. } = self.flows[number];
        for (site, end) in [(flow.from, source), (flow.to, sink)] {
            if let (Some(host), Some(end)) = (self.host(site), end) {
                host.begin(end, sending.clone(), measured.clone());
            }
        }
    }

    fn connected(&self, cell: &Cell) -> bool {
        cell.flows.iter().enumerate().all(|(number, flow)| {
            !matches!(flow.traffic, Traffic::Tcp(_))
                || flow.start > Span::ZERO
                || self.source(cell, number).is_some_and(|source| source.established.is_some())
        })
    }

    fn snapshot(&mut self, cell: &Cell, number: usize) {
        self.collect(cell, number);
        let at = self.graph.now();
        let packets = self.packets(cell, number);
        let receiver = self.receiving(cell, number);
        let received_bytes = receiver.map_or(0, |end| end.received_bytes);
        let jitter = receiver.and_then(|end| end.receiver.as_ref()).map(ProbeReceiver::jitter);
        let sent_bytes = self.source(cell, number).map_or(0, |end| end.sent_bytes);
        let ends = &mut self.flows[number];
        let delay = ends.interval.take().map(|delays| Span::from_nanos(delays.value_at_quantile(0.5)));
        let rtt = delay.filter(|_| matches!(cell.flows[number].traffic, Traffic::Ping(_)));
        let delay = delay.filter(|_| rtt.is_none());
        ends.observation.snapshots.push(Snapshot {
            at,
            sent_bytes,
            received_bytes,
            packets,
            rtt,
            jitter,
            delay,
            ..Snapshot::default()
        });
    }

    /// Takes the delays seen since the last time.
    fn collect(&mut self, cell: &Cell, number: usize) {
        let flow = &cell.flows[number];
        let (site, end) = receiving_end(flow, &self.flows[number]);
        let delays = end.zip(self.host(site)).map(|(end, host)| host.take_delays(end)).unwrap_or_default();
        let ends = &mut self.flows[number];
        for delay in delays {
            let all = match flow.traffic {
                Traffic::Ping(_) => &mut ends.observation.rtts,
                _ => &mut ends.observation.delays,
            };
            all.saturating_record(delay.as_nanos());
            ends.interval.get_or_insert_with(delay_histogram).saturating_record(delay.as_nanos());
        }
    }

    /// Works out what the logs of a flow's ends say, if they keep any.
    fn read_logs(&mut self, cell: &Cell, number: usize) {
        let mut observation = std::mem::take(&mut self.flows[number].observation);
        let flow = &cell.flows[number];
        let ends = [(flow.from, self.flows[number].source), (flow.to, self.flows[number].sink)];
        if let [Some(first), Some(second)] = ends.map(|(site, end)| self.end(site, end)?.application()) {
            talk::observe(&flow.traffic, &mut observation, [first, second]);
        }
        self.flows[number].observation = observation;
    }

    fn packets(&self, cell: &Cell, number: usize) -> Option<PacketCounts> {
        let counts = self.receiving(cell, number)?.receiver.as_ref()?.counts();
        Some(PacketCounts {
            sent: self.source(cell, number)?.sent_packets,
            received: counts.received,
            duplicated: counts.duplicated,
            reordered: counts.reordered,
        })
    }

    fn source(&self, cell: &Cell, number: usize) -> Option<&HostFlow> {
        self.end(cell.flows[number].from, self.flows[number].source)
    }

    fn receiving(&self, cell: &Cell, number: usize) -> Option<&HostFlow> {
        let (site, end) = receiving_end(&cell.flows[number], &self.flows[number]);
        self.end(site, end)
    }

    fn end(&self, site: usize, end: Option<usize>) -> Option<&HostFlow> {
        self.graph.element::<Host>(self.hosts[site])?.flow(end?)
    }

    fn host(&mut self, site: usize) -> Option<&mut Host> {
        self.graph.element_mut::<Host>(self.hosts[site])
    }
}

/// Where a flow's packets are counted: at its sink, or where replies come back to.
fn receiving_end(flow: &Flow, ends: &Ends) -> (usize, Option<usize>) {
    match flow.traffic {
        Traffic::Ping(_) => (flow.from, ends.source),
        _ => (flow.to, ends.sink),
    }
}

/// When a flow began to connect.
fn opened(flow: &Flow, start: Time) -> Time {
    if flow.start == Span::ZERO { Time::ZERO } else { start + flow.start }
}

fn length(size: Size) -> usize {
    usize::try_from(size.bytes()).unwrap_or(usize::MAX)
}

/// A site: its host, before it a tunnel if there is an overlay, and a router if there is more than
/// one link. Returns the host.
fn add_site(graph: &mut Graph, cell: &Cell, topology: &Topology, links: &[LinkNodes], number: usize) -> NodeId {
    let site = &topology.sites[number];
    // With one link what faces it has the link end's Ethernet address; otherwise the router does.
    let ends = &site.ends;
    let routed = ends.len() != 1;
    let inner_mac = |site: usize| [0x02, 0x4e, 3, (site >> 8) as u8, site as u8, 1];
    let router_mac = [0x02, 0x4e, 4, (number >> 8) as u8, number as u8, 1];
    let facing_mac = if routed { inner_mac(number) } else { topology.links[ends[0].0][ends[0].1] };
    let next_hop = |to: usize| {
        if routed {
            return router_mac;
        }
        let route = site.routes.iter().find(|route| route.to == to);
        route.map_or([0; 6], |route| topology.hop(route).1)
    };

    let others = || site.routes.iter().map(|route| route.to);
    let (host, tunnel) = match site.pod {
        None => {
            let neighbours = others().map(|to| (topology.sites[to].address, next_hop(to))).collect();
            let config =
                HostConfig { address: site.address, mac: facing_mac, mtu: cell.path.mtu, neighbours, seed: cell.seed };
            (graph.add(cell.sites[number].clone(), Host::new(&config)), None)
        }
        Some(pod) => {
            let pod_of = |to: usize| topology.sites[to].pod.unwrap_or(pod);
            let neighbours = others().map(|to| (pod_of(to).address, pod_of(to).mac)).collect();
            let config =
                HostConfig { address: pod.address, mac: pod.mac, mtu: cell.path.mtu, neighbours, seed: cell.seed };
            let host = graph.add(cell.sites[number].clone(), Host::new(&config));
            let remotes = others()
                .map(|to| Remote { host: pod_of(to).mac, end: topology.sites[to].address, next_hop: next_hop(to) })
                .collect();
            let tunnel = Tunnel::new(site.address, facing_mac, VNI, remotes);
            let tunnel = graph.add(format!("{}.tunnel", cell.sites[number]), tunnel);
            graph.connect((host, 0), (tunnel, 0));
            graph.connect((tunnel, 0), (host, 0));
            (host, Some(tunnel))
        }
    };
    let outer = tunnel.map_or((host, 0), |tunnel| (tunnel, 1));
    if let ([(link, side)], false) = (ends.as_slice(), routed) {
        graph.connect(outer, links[*link].entry(*side));
        graph.connect(links[*link].exit(*side), outer);
        return host;
    }
    let own = NextHop { to: site.address, port: 0, source: router_mac, destination: facing_mac };
    let hops = site.routes.iter().map(|route| {
        let (from, to) = topology.hop(route);
        let port = 1 + ends.iter().position(|end| *end == (route.link, route.side)).unwrap_or(0);
        NextHop { to: topology.sites[route.to].address, port, source: from, destination: to }
    });
    let router = Router::new([own].into_iter().chain(hops).collect());
    let router = graph.add(format!("{}.router", cell.sites[number]), router);
    graph.connect(outer, (router, 0));
    graph.connect((router, 0), outer);
    for (port, &(link, side)) in (1..).zip(ends) {
        graph.connect((router, port), links[link].entry(side));
        graph.connect(links[link].exit(side), (router, port));
    }
    host
}
