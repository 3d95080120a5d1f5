//! Two sites joined by a link that holds every packet for the same time.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};

use engine::{Element, ExitId, Graph, Output, Packet, Port, Span, Time};
use netio::SetupError;
use netio::clock::Epoch;
use netio::executor::{CellSpec, CellWire};
use netio::port::{Choice, Kind, Options, Wire};
use netio::site::{Mac, Namespace};

/// Holds every packet for the same time.
pub(crate) struct Hold {
    delay: Span,
    held: VecDeque<Packet>,
    due: usize,
}

impl Hold {
    pub(crate) fn new(delay: Span) -> Self {
        Self { delay, held: VecDeque::new(), due: 0 }
    }

    /// Changes the delay of packets to come.
    pub(crate) fn set_delay(&mut self, delay: Span) {
        self.delay = delay;
    }
}

impl Element for Hold {
    fn handle(&mut self, now: Time, _: Port, mut packet: Packet) {
        packet.launch = now + self.delay;
        self.held.push_back(packet);
    }

    fn tick(&mut self, now: Time) {
        self.due = self.held.iter().take_while(|packet| packet.launch <= now).count();
    }

    fn deadline(&self) -> Option<Time> {
        self.held.front().map(|packet| packet.launch)
    }

    fn poll(&mut self) -> Option<Output> {
        self.due = self.due.checked_sub(1)?;
        self.held.pop_front().map(|packet| Output::Transmit { port: 0, packet })
    }
}

/// A site with one interface, `eth0`.
pub(crate) struct Site {
    pub(crate) namespace: Namespace,
    pub(crate) address: IpAddr,
    pub(crate) mac: Mac,
}

/// Two sites, 10.0.0.1 and 10.0.0.2, that know each other, and the cell between them.
pub(crate) fn two_sites(kind: Kind, delay: Span, mtu: u32) -> Result<([Site; 2], CellSpec, Choice), SetupError> {
    let side = |n: u8| -> Result<(Site, Wire, Choice), SetupError> {
        let namespace = Namespace::new()?;
        let (address, mac) = (IpAddr::V4(Ipv4Addr::new(10, 0, 0, n)), [2, 0, 0, 0, 0, n]);
        let (wire, choice) = namespace.configure(|net| {
            net.up("lo")?;
            let (wire, choice) = net.wire(&Options { mac: Some(mac), mtu, kind, ..Options::new("eth0") })?;
            net.ipv6("eth0", false)?;
            net.address("eth0", address, 24)?;
            net.up("eth0")?;
            let peer = 3 - n;
            net.neighbour("eth0", IpAddr::V4(Ipv4Addr::new(10, 0, 0, peer)), [2, 0, 0, 0, 0, peer])?;
            net.sysctl("ipv4/tcp_rmem", "4096 131072 67108864")?;
            net.sysctl("ipv4/tcp_wmem", "4096 131072 67108864")?;
            Ok((wire, choice))
        })?;
        Ok((Site { namespace, address, mac }, wire, choice))
    };
    let (left, left_wire, choice) = side(1)?;
    let (right, right_wire, _) = side(2)?;
    Ok(([left, right], cell_between(left_wire, right_wire, delay), choice))
}

/// A cell that holds what passes between two wires.
pub(crate) fn cell_between(left: Wire, right: Wire, delay: Span) -> CellSpec {
    let mut graph = Graph::new();
    let there = graph.add("there", Hold::new(delay));
    let back = graph.add("back", Hold::new(delay));
    graph.connect_exit((there, 0), ExitId(1));
    graph.connect_exit((back, 0), ExitId(0));
    let wires = vec![
        CellWire { name: "left".into(), wire: left, entry: (there, 0), exit: ExitId(0) },
        CellWire { name: "right".into(), wire: right, entry: (back, 0), exit: ExitId(1) },
    ];
    CellSpec { epoch: Epoch::now(), graph, wires, late: Span::from_millis(1) }
}
