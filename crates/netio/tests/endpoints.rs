//! Flows between two namespaces joined by a veth pair. Needs root or user namespaces.

#![allow(clippy::print_stderr, clippy::unwrap_used, reason = "says what is skipped; helpers of tests may panic too")]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use engine::Span;
use netio::endpoint::{End, EndpointError, Endpoints, FlowKind, FlowSpec, Timing};
use netio::site::Namespace;
use traffic::VoiceConfig;
use traffic::application::passages;
use traffic::pairs::{PairsConfig, PairsSink, PairsSource, separations};
use traffic::sip::{CallConfig, Callee, Caller};

/// Addresses of two ends, of either family.
type Addresses = [IpAddr; 2];

const V4: Addresses = [IpAddr::V4(Ipv4Addr::new(10, 9, 0, 1)), IpAddr::V4(Ipv4Addr::new(10, 9, 0, 2))];
const V6: Addresses =
    [IpAddr::V6(Ipv6Addr::new(0xfd09, 0, 0, 0, 0, 0, 0, 1)), IpAddr::V6(Ipv6Addr::new(0xfd09, 0, 0, 0, 0, 0, 0, 2))];

const MACS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];

/// Two namespaces with a veth pair between them that carries nothing by itself, or why there are
/// none here.
fn ends(addresses: Addresses) -> Result<(End, End), netio::SetupError> {
    let (a, b) = (Namespace::new()?, Namespace::new()?);
    a.configure(|net| net.veth("v0", &b, "v0"))?;
    for (namespace, own) in [(&a, 0), (&b, 1)] {
        namespace.configure(|net| {
            net.up("lo")?;
            net.mac("v0", MACS[own])?;
            if addresses[own].is_ipv6() {
                net.quiet_ipv6("v0")?;
            } else {
                net.ipv6("v0", false)?;
            }
            net.address("v0", addresses[own], if addresses[own].is_ipv6() { 64 } else { 24 })?;
            net.up("v0")?;
            net.neighbour("v0", addresses[1 - own], MACS[1 - own])
        })?;
    }
    Ok((End { namespace: a, address: addresses[0] }, End { namespace: b, address: addresses[1] }))
}

fn flow(from: &End, to: &End, kind: FlowKind) -> FlowSpec {
    FlowSpec { from: from.clone(), to: to.clone(), start: Span::ZERO, stop: None, dscp: 0, kind }
}

const TIMING: Timing = Timing {
    // Interfaces that have just come up may lose the first packet; TCP sends it again after 1 s.
    connect: Span::from_secs(5),
    warmup: Span::from_millis(50),
    duration: Span::from_millis(600),
    interval: Span::from_millis(200),
    drain: Span::from_secs(2),
};

#[test]
fn every_kind_of_flow_is_carried_and_counted() {
    [V4, V6].into_iter().for_each(carried);
}

fn carried(addresses: Addresses) {
    let (a, b) = match ends(addresses) {
        Ok(ends) => ends,
        Err(error) => return eprintln!("skipped: {error}"),
    };
    let endpoints = Endpoints::start().unwrap();
    let rate = "800kbit/s".parse().ok();
    let size = "200B".parse().unwrap();
    let flows = vec![
        flow(&a, &b, FlowKind::Tcp { rate, write: "1kB".parse().unwrap(), transfer: None, congestion: "cubic".into() }),
        flow(&a, &b, FlowKind::Udp { rate: "160kbit/s".parse().unwrap(), size }),
        flow(&b, &a, FlowKind::Ping { interval: Span::from_millis(50), size: "56B".parse().unwrap() }),
        FlowSpec {
            start: Span::from_millis(250),
            ..flow(
                &b,
                &a,
                FlowKind::Tcp {
                    rate: None,
                    write: "128KiB".parse().unwrap(),
                    transfer: "2MiB".parse().ok(),
                    congestion: "reno".into(),
                },
            )
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
    // All of the transfer, and nothing beyond it; the link is a veth pair.
    assert!(seen[3].transfer.is_some() && received(3).0 == 2 << 20, "{:?}", received(3));
}

#[test]
fn nothing_is_sent_but_the_flow() {
    for addresses in [V4, V6] {
        let (a, b) = match ends(addresses) {
            Ok(ends) => ends,
            Err(error) => return eprintln!("skipped: {error}"),
        };
        // A router joins groups that a host does not (RFC 4291 2.8).
        a.namespace.configure(netio::site::Net::forwarding).unwrap();
        let endpoints = Endpoints::start().unwrap();
        let run = |kind| endpoints.run(vec![flow(&a, &b, kind)], TIMING).unwrap().wait().unwrap().observations;
        let counters = |end: &End| end.namespace.configure(|net| net.counters("v0")).unwrap();
        // A connection stands only over interfaces that are up, and says nothing more when it is reset.
        let write = "1kB".parse().unwrap();
        run(FlowKind::Tcp { rate: "8kbit/s".parse().ok(), write, congestion: "cubic".into(), transfer: None });
        let before = (counters(&a), counters(&b));
        let size = "56B".parse().unwrap();
        let seen = run(FlowKind::Ping { interval: Span::from_millis(50), size });
        let echoes = seen[0].packets.unwrap();
        // In the warm-up there is one more, which is not counted with the measured.
        let all = 1 + TIMING.duration.as_nanos() / 50_000_000;
        assert!(echoes.received == echoes.sent && echoes.sent > 0 && echoes.sent < all + 1, "{echoes:?}");
        let (near, far) = (counters(&a), counters(&b));
        let (sent, answered) = (near.tx_packets - before.0.tx_packets, near.rx_packets - before.0.rx_packets);
        assert_eq!((sent, answered), (far.rx_packets - before.1.rx_packets, far.tx_packets - before.1.tx_packets));
        assert_eq!(sent, answered, "an echo is answered by one packet");
        assert!(sent >= echoes.sent && sent <= all + 1, "{near:?}, {echoes:?}");
        // Nor was anything sent before: not by the router, not by its neighbour.
        assert!(before.0.tx_packets < 20 && before.1.tx_packets < 20, "{before:?}");
    }
}

#[test]
fn a_cell_without_a_way_through_ends_and_says_so() {
    let (a, b) = match ends(V4) {
        Ok(ends) => ends,
        Err(error) => return eprintln!("skipped: {error}"),
    };
    b.namespace.configure(|net| net.down("v0")).unwrap();
    let endpoints = Endpoints::start().unwrap();
    let write = "1kB".parse().unwrap();
    let tcp = FlowKind::Tcp { rate: None, write, transfer: None, congestion: "cubic".into() };
    let timing = Timing { connect: Span::from_millis(300), drain: Span::from_millis(100), ..TIMING };
    let seen = endpoints.run(vec![flow(&a, &b, tcp)], timing).unwrap().wait().unwrap().observations;
    assert_eq!(seen[0].error.as_deref(), Some("the connection was never established"));
    assert_eq!(seen[0].snapshots.last().unwrap().received_bytes, 0);
}

#[test]
fn an_unknown_congestion_control_is_named_with_those_there_are() {
    let (a, b) = match ends(V4) {
        Ok(ends) => ends,
        Err(error) => return eprintln!("skipped: {error}"),
    };
    let write = "1kB".parse().unwrap();
    let tcp = FlowKind::Tcp { rate: None, write, transfer: None, congestion: "cubik".into() };
    let error = Endpoints::start().unwrap().run(vec![flow(&a, &b, tcp)], TIMING).unwrap_err();
    assert!(
        matches!(&error, EndpointError::Congestion { name, available } if name == "cubik" && available.contains("reno")),
        "{error}"
    );
}

/// A call and packet pairs: the same ends as in virtual time, on kernel sockets.
#[test]
fn applications_talk_through_real_sockets() {
    [V4, V6].into_iter().for_each(talked);
}

fn talked(addresses: Addresses) {
    let (a, b) = match ends(addresses) {
        Ok(ends) => ends,
        Err(error) => return eprintln!("skipped: {error}"),
    };
    let every = Span::from_millis(20);
    let voice = VoiceConfig { payload: 33, every, rtp: Some(96), talk: None, frames: None, seed: 1 };
    let call = CallConfig {
        back: Some(VoiceConfig { seed: 2, ..voice.clone() }),
        voice,
        addresses,
        ports: [5_060, 16_384],
        hold: Span::from_millis(200),
        pause: Span::from_secs(60),
        ring: Span::ZERO,
        t1: Span::from_secs(2),
        compact: true,
        seed: 3,
    };
    let (sizes, every) = (vec![60, 200], Span::from_millis(50));
    let pairs = PairsConfig { sizes, rounds: 2, every, header: 48, zeros: false, session: 4, seed: 4 };
    let endpoints = Endpoints::start().unwrap();
    let datagrams = |ends, ports| FlowKind::Datagrams { ends, ports };
    let flows = vec![
        flow(
            &a,
            &b,
            datagrams([Box::new(Caller::new(call.clone())), Box::new(Callee::new(call))], vec![5_060, 16_384]),
        ),
        flow(
            &b,
            &a,
            datagrams([Box::new(PairsSource::new(pairs.clone())), Box::new(PairsSink::new(pairs))], vec![9_000]),
        ),
    ];
    let ran = endpoints.run(flows, TIMING).unwrap().wait().unwrap();
    assert!(ran.observations.iter().all(|seen| seen.error.is_none() && seen.snapshots.len() == 4));
    let ends: Vec<_> = ran.ends.into_iter().flatten().collect();
    let [caller, callee] = &ends[0];
    let called = caller.calls()[0];
    assert!(called.answered.is_some() && called.released, "{called:?}");
    for (from, to) in [(caller, callee), (callee, caller)] {
        let seen = passages(from.sent(), to.received());
        // What is sent as the other end hangs up nobody hears any more; all before it arrived.
        let heard = seen.iter().rposition(|passage| passage.arrived.is_some()).map_or(0, |last| last + 1);
        assert!(
            heard > 1 && seen[..heard].iter().all(|passage| passage.intact && passage.arrived.is_some()),
            "{seen:?}"
        );
    }
    let [source, sink] = &ends[1];
    assert_eq!(separations(&passages(source.sent(), sink.received()), 48).len(), 4);
}
