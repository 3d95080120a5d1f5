//! Two sites with a wire into each.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use engine::{Element, ExitId, Graph, Span};
use netio::SetupError;
use netio::clock::Epoch;
use netio::executor::{CellSpec, CellWire};
use netio::port::{Choice, Kind, Options, Wire};
use netio::site::Namespace;

/// A site with one interface, `eth0`.
pub(crate) struct Site {
    pub(crate) namespace: Namespace,
    pub(crate) address: IpAddr,
}

/// Two sites, 10.0.0.1 and 10.0.0.2, that know each other, and the wires into them.
pub(crate) fn two_sites(kind: Kind, mtu: u32) -> Result<([Site; 2], [Wire; 2], Choice), SetupError> {
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
        Ok((Site { namespace, address }, wire, choice))
    };
    let (left, left_wire, choice) = side(1)?;
    let (right, right_wire, _) = side(2)?;
    Ok(([left, right], [left_wire, right_wire], choice))
}

/// A cell with one element for each direction between two wires.
pub(crate) fn cell_between([left, right]: [Wire; 2], [there, back]: [impl Element; 2]) -> CellSpec {
    let mut graph = Graph::new();
    let there = graph.add("there", there);
    let back = graph.add("back", back);
    graph.connect_exit((there, 0), ExitId(1));
    graph.connect_exit((back, 0), ExitId(0));
    let wires = vec![
        CellWire { name: "left".into(), wire: left, entry: (there, 0), exit: ExitId(0) },
        CellWire { name: "right".into(), wire: right, entry: (back, 0), exit: ExitId(1) },
    ];
    CellSpec { epoch: Epoch::now(), graph, wires, late: Span::from_millis(1) }
}

/// Tries until something is there; gives up, and fails, after half a minute. The tries grow rarer,
/// since some of them make what the kernel then has to clear away.
pub(crate) fn wait_for<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let (begin, mut pause) = (Instant::now(), Duration::from_micros(100));
    loop {
        if let Some(found) = attempt() {
            return found;
        }
        assert!(begin.elapsed() < Duration::from_secs(30), "waited in vain for {what}");
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_secs(2));
    }
}
