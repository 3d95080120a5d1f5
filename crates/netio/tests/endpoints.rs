//! Flows between two namespaces joined by a veth pair. Needs root or user namespaces.

use std::net::{IpAddr, Ipv4Addr};

use engine::Span;
use netio::endpoint::{End, EndpointError, Endpoints, FlowKind, FlowSpec, Timing};
use netio::site::Namespace;

const A: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const B: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);

/// Two namespaces with a veth pair between them, or why there are none here.
fn ends() -> Result<(End, End), netio::SetupError> {
    let (a, b) = (Namespace::new()?, Namespace::new()?);
    a.configure(|net| net.veth("v0", &b, "v0"))?;
    for (namespace, address) in [(&a, A), (&b, B)] {
        namespace.configure(|net| {
            net.up("lo")?;
            net.up("v0")?;
            net.address("v0", IpAddr::V4(address), 24)
        })?;
    }
    Ok((End { namespace: a, address: A }, End { namespace: b, address: B }))
}

fn flow(from: &End, to: &End, kind: FlowKind) -> FlowSpec {
    FlowSpec { from: from.clone(), to: to.clone(), start: Span::ZERO, stop: None, dscp: 0, kind }
}

const TIMING: Timing = Timing {
    connect: Span::from_millis(300),
    warmup: Span::from_millis(50),
    duration: Span::from_millis(600),
    interval: Span::from_millis(200),
    drain: Span::from_secs(2),
};

#[test]
fn every_kind_of_flow_is_carried_and_counted() {
    let (a, b) = match ends() {
        Ok(ends) => ends,
        Err(error) => return eprintln!("skipped: {error}"),
    };
    let endpoints = Endpoints::start().unwrap();
    let rate = "800kbit/s".parse().ok();
    let size = "200B".parse().unwrap();
    let flows = vec![
        flow(&a, &b, FlowKind::Tcp { rate, write: "1kB".parse().unwrap(), congestion: "cubic".into() }),
        flow(&a, &b, FlowKind::Udp { rate: "160kbit/s".parse().unwrap(), size }),
        flow(&b, &a, FlowKind::Ping { interval: Span::from_millis(50), size: "56B".parse().unwrap() }),
        FlowSpec {
            start: Span::from_millis(250),
            ..flow(&b, &a, FlowKind::Tcp { rate: None, write: "128KiB".parse().unwrap(), congestion: "reno".into() })
        },
    ];
    let seen = endpoints.run(flows, TIMING).unwrap().wait().unwrap().observations;
    let errors: Vec<_> = seen.iter().filter_map(|flow| flow.error.as_deref()).collect();
    assert!(errors.is_empty(), "{errors:?}");
    let received = |n: usize| {
        let (first, last) = (seen[n].snapshots.first().unwrap(), seen[n].snapshots.last().unwrap());
        (last.received_bytes - first.received_bytes, last.at.since(first.at))
    };

    // The throttle allows at most its rate and one write, wherever the bounds of the time fall.
    let (bytes, time) = received(0);
    assert!(bytes > 0 && bytes <= rate.unwrap().bytes_in(time) + 1_000 + 65_536, "{bytes} in {time:?}");
    assert!(seen[0].connect.is_some() && !seen[0].rtts.is_empty());
    assert_eq!(seen[0].snapshots.len(), 4);
    // Nothing is lost on a veth pair, and the last datagram is waited for.
    let datagrams = seen[1].packets.unwrap();
    assert!(datagrams.sent > 0);
    assert_eq!((datagrams.received, datagrams.duplicated), (datagrams.sent, 0));
    assert_eq!(seen[1].delays.len(), datagrams.sent);
    let echoes = seen[2].packets.unwrap();
    assert!(echoes.sent > 0);
    assert_eq!(echoes.received, echoes.sent);
    // A delay is one way, a round trip is not.
    let last = |n: usize| seen[n].snapshots.last().unwrap();
    assert!(
        seen[1].snapshots.iter().any(|at| at.delay.is_some()) && seen[2].snapshots.iter().any(|at| at.rtt.is_some())
    );
    assert_eq!((last(1).rtt, last(2).delay, last(0).delay), (None, None, None));
    assert!(received(3).0 > 1_000_000, "{:?}", received(3));
}

#[test]
fn a_cell_without_a_way_through_ends_and_says_so() {
    let (a, mut b) = match ends() {
        Ok(ends) => ends,
        Err(error) => return eprintln!("skipped: {error}"),
    };
    b.namespace.configure(|net| net.down("v0")).unwrap();
    a.namespace.configure(|net| net.neighbour("v0", IpAddr::V4(B), [2, 0, 0, 0, 0, 9])).unwrap();
    b.address = B;
    let endpoints = Endpoints::start().unwrap();
    let write = "1kB".parse().unwrap();
    let tcp = FlowKind::Tcp { rate: None, write, congestion: "cubic".into() };
    let timing = Timing { drain: Span::from_millis(100), ..TIMING };
    let seen = endpoints.run(vec![flow(&a, &b, tcp)], timing).unwrap().wait().unwrap().observations;
    assert_eq!(seen[0].error.as_deref(), Some("the connection was never established"));
    assert_eq!(seen[0].snapshots.last().unwrap().received_bytes, 0);
}

#[test]
fn an_unknown_congestion_control_is_named_with_those_there_are() {
    let (a, b) = match ends() {
        Ok(ends) => ends,
        Err(error) => return eprintln!("skipped: {error}"),
    };
    let write = "1kB".parse().unwrap();
    let tcp = FlowKind::Tcp { rate: None, write, congestion: "cubik".into() };
    let error = Endpoints::start().unwrap().run(vec![flow(&a, &b, tcp)], TIMING).unwrap_err();
    assert!(
        matches!(&error, EndpointError::Congestion { name, available } if name == "cubik" && available.contains("reno")),
        "{error}"
    );
}
