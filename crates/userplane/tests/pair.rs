//! The control plane and the UPF of this crate, one against the other, in virtual time.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic too")]

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use engine::{Random, Span, Time};
use userplane::control::{
    Change, Config, ControlPlane, Event, Failure, Generation, Output, Peer, Procedure, Profile, Qos, Refusal,
    SessionSpec, Usage,
};
use userplane::upf::{self, Interface, Upf};
use wire::gtpu::Qfi;
use wire::pfcp::value::{Addresses, BitRates, FTeid, Gate, GateStatus, Name, NtpTime, SdfFilter, Volumes};
use wire::pfcp::{ApplyActionForm, Cause, Encoding, NetworkInstanceForm, PFCP_PORT};

const SMF: [u8; 4] = [10, 4, 0, 1];

/// Both, with a path without delay between them.
struct Pair {
    now: Time,
    control: ControlPlane,
    upf: Upf,
    events: Vec<Event>,
}

fn upf(started: u32) -> Upf {
    let interface = |number: u8| Interface::new([2, 0, 0, 0, 0, number], (IpAddr::from([10, number, 0, 2]), 24));
    let mut config = upf::Config::new(interface(3), interface(4), interface(6));
    config.started = NtpTime(started);
    config.heartbeat = Some(Span::from_secs(7));
    Upf::new(config, Random::stream(u64::from(started), "upf"))
}

impl Pair {
    fn new(config: Config) -> Self {
        let control = ControlPlane::new(config, Random::stream(1, "n4"));
        let mut pair = Self { now: Time::ZERO, control, upf: upf(1), events: vec![] };
        pair.control.associate(pair.now);
        let events = pair.run(Span::ZERO);
        assert!(matches!(events[..], [Event::Associated { .. }]), "{events:?}");
        pair
    }

    /// Goes on for that long, and what happened.
    fn run(&mut self, span: Span) -> Vec<Event> {
        let end = self.now + span;
        let from = SocketAddr::from((SMF, PFCP_PORT));
        loop {
            let mut spoke = false;
            while let Some(output) = self.control.poll() {
                spoke = true;
                match output {
                    Output::Send(datagram) => self.upf.message(self.now, from, &datagram),
                    Output::Event(event) => self.events.push(event),
                }
            }
            while let Some(output) = self.upf.poll() {
                spoke = true;
                if let upf::Output::Message { to, bytes } = output {
                    assert_eq!(to, from);
                    self.control.handle(self.now, &bytes);
                }
            }
            if spoke {
                continue;
            }
            let next = [self.control.deadline(), self.upf.deadline()].into_iter().flatten().min();
            let Some(next) = next.filter(|next| *next <= end) else { break };
            self.now = self.now.max(next);
            self.control.tick(self.now);
            self.upf.tick(self.now);
        }
        self.now = end;
        self.events.drain(..).collect()
    }

    /// Asks for this session and says how it was refused, if it was.
    fn establish(&mut self, spec: SessionSpec) -> Option<Refusal> {
        self.control.establish(self.now, spec);
        match &self.run(Span::ZERO)[..] {
            [Event::Established { .. }] => None,
            [Event::Failed { procedure: Procedure::Establishment, failure: Failure::Refused(refusal), .. }] => {
                Some(*refusal)
            }
            other => panic!("{other:?}"),
        }
    }
}

fn config() -> Config {
    Config::new(SMF.into(), NtpTime(5))
}

fn spec(ue: u32) -> SessionSpec {
    SessionSpec {
        ue: Addresses::V4((0x0a2d_0001 + ue).into()),
        uplink: FTeid::Choose { v4: true, v6: false, id: None },
        downlink: Some(Peer { teid: ue, address: [10, 3, 0, 1].into() }),
        profile: Arc::new(Profile { qfi: Qfi::new(9), ..Profile::default() }),
    }
}

fn full() -> Profile {
    let name = |text: &str| Some(Name::new(text).unwrap());
    Profile {
        qfi: Qfi::new(9),
        access_instance: name("access"),
        core_instance: name("internet"),
        dnn: name("internet"),
        filters: vec![SdfFilter {
            description: Some("permit out ip from 198.18.0.0/15 to assigned".into()),
            ..SdfFilter::default()
        }],
        qos: Some(Qos { mbr: Some(BitRates { uplink: 10_000, downlink: 20_000 }), ..Qos::default() }),
        usage: Some(Usage {
            volume_threshold: Some(Volumes { total: Some(1_000_000), ..Volumes::default() }),
            period: Some(2),
            ..Usage::default()
        }),
        predefined: vec![],
        inactivity: None,
        choose_ue: false,
    }
}

#[test]
fn every_kind_of_session_and_change_is_taken() {
    let text = Encoding { apply_action: ApplyActionForm::One, network_instance: NetworkInstanceForm::Text };
    let configs = [
        config(),
        Config { generation: Generation::FourG, ..config() },
        Config { encoding: text, interface_types: false, ..config() },
    ];
    for config in configs {
        let mut pair = Pair::new(config);
        let v6: std::net::Ipv6Addr = "2001:db8:1::1".parse().unwrap();
        let plain = spec(1);
        let rich = SessionSpec { profile: Arc::new(full()), ..spec(2) };
        let sleeping = SessionSpec { downlink: None, ..spec(3) };
        let both = SessionSpec { ue: Addresses::Both([10, 45, 9, 9].into(), v6), ..spec(4) };
        let fixed = FTeid::Fixed { teid: 0x1234, addresses: Addresses::V4([10, 3, 0, 2].into()) };
        let fixed = SessionSpec { uplink: fixed, ..spec(5) };
        for spec in [plain, rich, sleeping, both, fixed] {
            assert_eq!(pair.establish(spec), None);
        }
        assert_eq!(pair.upf.sessions(), 5);
        let session = userplane::control::SessionId(2);
        let closed = Qos { gate: GateStatus { uplink: Gate::Closed, downlink: Gate::Open }, ..Qos::default() };
        let to = Peer { teid: 9, address: [10, 3, 0, 7].into() };
        let handover = Change::Handover { to, end_marker: true };
        for change in [Change::Buffer, Change::Resume, Change::Drop, Change::Qos(closed), handover] {
            pair.control.modify(pair.now, session, change);
            assert_eq!(pair.run(Span::ZERO), [Event::Modified { session }], "{change:?}");
        }
        pair.control.modify(pair.now, session, Change::QueryUsage);
        let events = pair.run(Span::ZERO);
        assert!(matches!(events[..], [Event::Usage { .. }, Event::Modified { .. }]), "{events:?}");
        // Periodic reports, heartbeats from both sides.
        let events = pair.run(Span::from_secs(21));
        assert_eq!(events.iter().filter(|event| matches!(event, Event::Usage { .. })).count(), 10, "{events:?}");
        assert_eq!(events.len(), 10);
        pair.control.release(pair.now);
        let events = pair.run(Span::from_secs(30));
        assert_eq!(events.last(), Some(&Event::Released { agreed: true }));
        assert_eq!((pair.upf.sessions(), pair.control.counters().malformed), (0, 0));
    }
}

#[test]
fn refusals_arrive_with_their_cause() {
    let mut pair = Pair::new(config());
    let unknown = Profile { predefined: vec!["platinum".into()], ..Profile::default() };
    let refusal = pair.establish(SessionSpec { profile: Arc::new(unknown), ..spec(1) }).unwrap();
    assert_eq!(refusal.cause, Cause::UnknownPredefinedRule);
    let filter = SdfFilter { description: Some("let everything through".into()), ..SdfFilter::default() };
    let wrong = Profile { filters: vec![filter], ..Profile::default() };
    assert!(pair.establish(SessionSpec { profile: Arc::new(wrong), ..spec(1) }).is_some());
    // It has no addresses to give.
    let choosing = Profile { choose_ue: true, ..Profile::default() };
    assert!(pair.establish(SessionSpec { profile: Arc::new(choosing), ..spec(1) }).is_some());
    assert_eq!((pair.upf.sessions(), pair.control.sessions()), (0, 0));
}

#[test]
fn a_upf_that_restarts_gets_its_sessions_again() {
    let mut pair = Pair::new(config());
    for ue in 0..200 {
        pair.control.establish(pair.now, spec(ue));
    }
    assert_eq!(pair.run(Span::from_secs(1)).len(), 200);
    pair.upf = upf(2);
    let events = pair.run(Span::from_secs(11));
    assert!(matches!(events[..2], [Event::PeerRestarted { lost: 200 }, Event::Associated { .. }]), "{events:?}");
    assert_eq!((events.len(), pair.upf.sessions()), (202, 200));
}

#[test]
fn twenty_thousand_sessions_come_and_go() {
    let mut pair = Pair::new(config());
    let begin = Instant::now();
    let profile = Arc::new(Profile { qfi: Qfi::new(9), ..Profile::default() });
    for ue in 0..20_000 {
        pair.control.establish(pair.now, SessionSpec { profile: Arc::clone(&profile), ..spec(ue) });
    }
    let events = pair.run(Span::ZERO);
    println!("20,000 sessions established in {:?} of computing", begin.elapsed());
    assert_eq!((events.len(), pair.upf.sessions()), (20_000, 20_000));
    assert!(events.iter().all(|event| matches!(event, Event::Established { .. })));
    pair.control.release(pair.now);
    let events = pair.run(Span::ZERO);
    assert_eq!((events.last(), pair.upf.sessions()), (Some(&Event::Released { agreed: true }), 0));
}
