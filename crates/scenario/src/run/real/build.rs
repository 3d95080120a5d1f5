//! Namespaces, devices and elements of a cell.
//!
//! A site is a namespace. Each of its link ends is an interface the emulator holds the other side
//! of. With an overlay the applications stand in a namespace of their own (the pod), joined by a
//! veth pair to a bridge in the site, and the bridge by VXLAN to the other sites' bridges. Neighbours are
//! entered for good and IPv6 is off or quiet, so that neither ARP nor anything of IPv6's crosses a link.

use std::net::IpAddr;

use adapter::LINE;
use engine::{ExitId, Graph, NodeId};
use link::characters::{Framing, Pace};
use netio::SetupError;
use netio::clock::Epoch;
use netio::endpoint::{End, FlowKind, FlowSpec};
use netio::executor::{CellSpec, CellWire};
use netio::port::line::{Address, Line, Pty, Settings};
use netio::port::{self, Wire};
use netio::site::{Namespace, Net, Vxlan};

use super::{CellError, late_limit};
use crate::plan::{Cell, Medium, Traffic};
use crate::run::links::{self, LinkNodes};
use crate::run::talk;
use crate::topology::{Topology, VNI, host_prefix};

/// A cell that is ready to be driven.
pub(super) struct Built {
    /// Its elements and wires.
    pub(super) spec: CellSpec,
    /// Where each site's applications stand.
    pub(super) applications: Vec<End>,
    /// The links' elements.
    pub(super) links: Vec<LinkNodes>,
}

impl Built {
    /// Builds a cell's sites and links. They go away with what is returned.
    ///
    /// # Errors
    ///
    /// What the kernel refuses, or a link that cannot be.
    pub(super) fn new(cell: &Cell) -> Result<Self, CellError> {
        let topology = Topology::of(cell);
        let mut graph = Graph::new();
        let links = links::add(cell, &mut graph)?;

        let mut wires = terminals(cell, &links, &mut graph)?;
        let mut applications = Vec::new();
        for site in 0..cell.sites.len() {
            let namespace = Namespace::new()?;
            let made = namespace.configure(|net| site_network(net, &topology, site))?;
            for (&(link, side), wire) in topology.sites[site].ends.iter().zip(made) {
                let exit = ExitId(link * 2 + side);
                graph.connect_exit(links[link].exit(side), exit);
                let name = format!("{} at {}", cell.links[link].name, cell.sites[site]);
                wires.push(CellWire { name, wire, entry: links[link].entry(side), exit });
            }
            let inside = if cell.path.vxlan { pod(&namespace, cell, &topology, site)? } else { namespace };
            applications.push(End { namespace: inside, address: topology.application(site) });
        }
        Ok(Self { applications, links, spec: CellSpec { epoch: Epoch::now(), graph, wires, late: late_limit(cell) } })
    }
}

/// The pseudo-terminals of lines that are to have them: the characters of an adapter leave by the
/// terminal at its end, the line paces what comes from the terminal's other side, and hands it to the
/// terminal at the other end.
fn terminals(cell: &Cell, links: &[LinkNodes], graph: &mut Graph) -> Result<Vec<CellWire>, SetupError> {
    let mut wires = Vec::new();
    for (number, link) in cell.links.iter().enumerate() {
        let Medium::Characters { line } = &link.medium else { continue };
        let Some(adapters) = links[number].adapters.filter(|_| line.pty) else { continue };
        for (side, way) in [&line.up, &line.down].into_iter().enumerate() {
            let (exits, site) = (terminal_exits(cell, number, side), [link.ends.0, link.ends.1][side]);
            let pty = Pty::unnamed()?;
            let framing = match way.pace {
                Pace::Asynchronous(uart) => uart.framing,
                Pace::Synchronous(_) => Framing::N81,
            };
            let baud = u32::try_from(way.pace.bits_per_second()).unwrap_or(u32::MAX);
            let device = Line::open(&Address::Device(pty.device().into()), Settings { baud, framing })?;
            let name = format!("{} at {}, terminal", link.name, cell.sites[site]);
            let mut wire = |name, wire, inner: NodeId, port, outer: NodeId, out, exit| {
                graph.connect_exit((outer, out), exit);
                wires.push(CellWire { name, wire: Wire::Line(wire), entry: (inner, port), exit });
            };
            let [own, other] = [adapters[side], links[number].ways[1 - side]];
            wire(name.clone(), device, own, LINE, own, LINE, exits[0]);
            wire(format!("{name}'s line"), Line::pty(pty)?, links[number].ways[side], 0, other, 0, exits[1]);
        }
    }
    Ok(wires)
}

/// The exits of the terminal at one end of a line: by the adapter, and by the line.
fn terminal_exits(cell: &Cell, link: usize, side: usize) -> [ExitId; 2] {
    // Those of the sites come first.
    let first = cell.links.len() * 2 + (link * 2 + side) * 2;
    [ExitId(first), ExitId(first + 1)]
}

/// Which wire this machine gives, for the record.
pub(super) fn wire_kind() -> Result<String, SetupError> {
    let choice = Namespace::new()?.configure(|net| Ok(net.wire(&port::Options::new("probe"))?.1))?;
    Ok(choice.to_string())
}

/// What the endpoints are told of the flow with this number in its cell.
///
/// # Errors
///
/// No keys for QUIC.
pub(super) fn flow_spec(cell: &Cell, number: usize, applications: &[End]) -> Result<FlowSpec, CellError> {
    let flow = &cell.flows[number];
    let datagrams = |ends| FlowKind::Datagrams { ends, ports: flow.udp_ports(number) };
    let kind = match &flow.traffic {
        Traffic::Tcp(tcp) => FlowKind::Tcp {
            rate: tcp.rate,
            write: tcp.write,
            transfer: tcp.transfer,
            congestion: tcp.congestion.clone(),
        },
        Traffic::Udp(udp) => FlowKind::Udp { rate: udp.rate, size: udp.size },
        Traffic::Ping(ping) => FlowKind::Ping { interval: ping.interval, size: ping.size },
        Traffic::Voice(voice) => datagrams(talk::voice(cell, flow, voice)),
        Traffic::Pairs(pairs) => datagrams(talk::pairs(cell, flow, pairs)),
        Traffic::Quic(quic) => datagrams(talk::quic(cell, flow, quic)?),
        // Such a cell is not built.
        Traffic::Load(_) => return Err(CellError::Embedded { flow: flow.name.clone(), why: "it runs alone".into() }),
        Traffic::Call(call) => {
            let addresses = [applications[flow.from].address, applications[flow.to].address];
            datagrams(talk::call(cell, flow, call, addresses))
        }
    };
    let (from, to) = (applications[flow.from].clone(), applications[flow.to].clone());
    Ok(FlowSpec { from, to, start: flow.start, stop: flow.stop, dscp: flow.dscp, kind })
}

fn site_network(net: &Net, topology: &Topology, site: usize) -> Result<Vec<Wire>, SetupError> {
    let address = topology.sites[site].address;
    net.up("lo")?;
    let mut wires = Vec::new();
    for &(link, side) in &topology.sites[site].ends {
        let name = interface(link);
        let options = port::Options {
            mac: Some(topology.links[link][side]),
            mtu: u32::from(topology.link_mtu),
            ..port::Options::new(&name)
        };
        wires.push(net.wire(&options)?.0);
        quieten(net, &name, address)?;
        net.address(&name, address, host_prefix(address))?;
        net.up(&name)?;
    }
    for route in &topology.sites[site].routes {
        let (name, to) = (interface(route.link), topology.sites[route.to].address);
        net.neighbour(&name, to, topology.hop(route).1)?;
        net.route(to, host_prefix(to), None, &name)?;
    }
    if topology.sites[site].ends.len() > 1 {
        net.forwarding()?;
    }
    Ok(wires)
}

/// The pod of a site, behind a bridge and a VXLAN.
fn pod(site: &Namespace, cell: &Cell, topology: &Topology, number: usize) -> Result<Namespace, SetupError> {
    let inside = Namespace::new()?;
    let mtu = u32::from(cell.path.mtu);
    let here = &topology.sites[number];
    let others = || here.routes.iter().filter_map(|route| Some((route.to, topology.sites[route.to].pod?)));
    site.configure(|net| {
        net.veth("pod", &inside, "eth0")?;
        net.bridge("overlay")?;
        net.vxlan("vxlan", &Vxlan { id: VNI, local: here.address, ttl: 64 })?;
        for name in ["pod", "vxlan"] {
            net.mtu(name, mtu)?;
            net.ipv6(name, false)?;
            net.enslave(name, "overlay")?;
            net.up(name)?;
        }
        net.ipv6("overlay", false)?;
        net.up("overlay")?;
        for (to, pod) in others() {
            net.tunnel("vxlan", pod.mac, topology.sites[to].address)?;
        }
        Ok(())
    })?;
    inside.configure(|net| {
        net.up("lo")?;
        net.mtu("eth0", mtu)?;
        if let Some(pod) = here.pod {
            net.mac("eth0", pod.mac)?;
            quieten(net, "eth0", pod.address)?;
            net.address("eth0", pod.address, host_prefix(pod.address))?;
        }
        net.up("eth0")?;
        for (_, pod) in others() {
            net.neighbour("eth0", pod.address, pod.mac)?;
            net.route(pod.address, host_prefix(pod.address), None, "eth0")?;
        }
        Ok(())
    })?;
    Ok(inside)
}

/// Keeps an interface that is down from sending anything of IPv6's by itself; it may have `address`
/// then.
fn quieten(net: &Net, name: &str, address: IpAddr) -> Result<(), SetupError> {
    if address.is_ipv6() { net.quiet_ipv6(name) } else { net.ipv6(name, false) }
}

/// Interfaces are numbered: a link's name may be too long for one.
fn interface(link: usize) -> String {
    format!("link{link}")
}
