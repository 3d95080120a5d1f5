//! N4: the association and all sessions, while nothing and while everything else goes on.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use engine::{Random, Span, Time};
use netio::clock::Epoch;
use serde::Serialize;
use userplane::control::{
    Config, ControlPlane, Counters, Event, Failure, Generation as Core, Output, Peer, Procedure, Profile, Qos,
    SessionSpec, Usage,
};
use userplane::load::{Population, Tunnel};
use wire::gtpu::Qfi;
use wire::pfcp::value::{Addresses, BitRates, FTeid, GateStatus, NodeId, NtpTime, SdfFilter, Text, Volumes};
use wire::pfcp::{ApplyActionForm, Encoding, NetworkInstanceForm};

use crate::load::{Generation, GroupPlan, LoadPlan, TeidChoice};
use crate::run::load::{LoadError, LoadNews};

/// Longest wait for a message, so that other things have their turn.
const LOOK: Duration = Duration::from_millis(5);
/// The first session's SEID; the others count on.
const FIRST_SEID: u64 = 1;
/// Refusals and failures that are told one by one; further ones are counted.
const TOLD: u64 = 10;

/// The control plane's end of N4, with its socket and clock.
pub(super) struct Sessions {
    control: ControlPlane,
    socket: UdpSocket,
    peer: SocketAddr,
    epoch: Epoch,
    population: Arc<Population>,
    tunnels: Vec<Option<(u32, IpAddr)>>,
    /// Tunnels that changed since they were asked for.
    changed: Vec<u32>,
    state: State,
    /// What is told beyond [`TOLD`].
    failures: u64,
    usage_reports: u64,
    took: Span,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Working,
    Over,
}

/// What came of N4.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SessionAccount {
    /// Sessions that were wanted.
    pub wanted: u64,
    /// Sessions that are there.
    pub established: u64,
    /// Requests that came to nothing.
    pub failures: u64,
    /// From the first request to the last answer, in nanoseconds.
    pub took_ns: u64,
    /// Usage reports received.
    pub usage_reports: u64,
    /// PFCP messages sent and received, retransmitted, not to be read.
    pub messages: [u64; 4],
}

impl Sessions {
    /// Begins: the association and all sessions are wanted.
    pub(super) fn begin(
        plan: &LoadPlan,
        population: Arc<Population>,
        socket: UdpSocket,
        peer: SocketAddr,
        (smf, gnb): (IpAddr, IpAddr),
        upf_n3: IpAddr,
    ) -> Result<Self, LoadError> {
        socket.set_read_timeout(Some(LOOK)).map_err(LoadError::Control)?;
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let epoch = Epoch::now();
        let options = &plan.pfcp;
        let config = Config {
            generation: match plan.generation {
                Generation::Five => Core::FiveG,
                Generation::Four => Core::FourG,
            },
            node_id: options.node_id.clone().map_or_else(|| smf.into(), NodeId::Fqdn),
            encoding: Encoding {
                apply_action: if options.apply_action == 1 { ApplyActionForm::One } else { ApplyActionForm::Two },
                network_instance: if options.network_instance_labels {
                    NetworkInstanceForm::Labels
                } else {
                    NetworkInstanceForm::Text
                },
            },
            interface_types: options.interface_type,
            first_seid: FIRST_SEID,
            window: options.window.into(),
            t1: options.t1,
            // What the file counts is all requests, the control plane those that are sent again.
            n1: u32::from(options.n1.max(1) - 1),
            heartbeat: Some(options.heartbeat),
            ..Config::new(smf, NtpTime::from_unix(unix))
        };
        let mut control = ControlPlane::new(config, Random::stream(plan.seed, "n4"));
        let now = epoch.time();
        control.associate(now);
        for (number, group) in population.groups().iter().enumerate() {
            let profile = Arc::new(profile(plan.generation, &plan.groups[number]));
            for session in 0..group.sessions() {
                let teid = group.start_teid + session;
                let uplink = match plan.pfcp.teid {
                    TeidChoice::Fixed => FTeid::Fixed { teid, addresses: addresses(upf_n3) },
                    TeidChoice::Upf => FTeid::Choose { v4: gnb.is_ipv4(), v6: gnb.is_ipv6(), id: None },
                };
                let ue = addresses(group.ues.at(session.into()));
                let downlink = Some(Peer { teid, address: gnb });
                control.establish(now, SessionSpec { ue, uplink, downlink, profile: profile.clone() });
            }
        }
        let tunnels = vec![None; population.sessions() as usize];
        let state = State::Working;
        let (changed, failures, usage_reports, took) = (Vec::new(), 0, 0, Span::ZERO);
        Ok(Self { control, socket, peer, epoch, population, tunnels, changed, state, failures, usage_reports, took })
    }

    /// Waits until all sessions are there, or failed.
    pub(super) fn establish(&mut self, tell: &mut dyn FnMut(LoadNews<'_>)) -> Result<(), LoadError> {
        while !self.control.is_idle() {
            self.step(tell)?;
            if netio::sandbox::interrupted() {
                self.end(tell);
                return Err(LoadError::Interrupted);
            }
        }
        let missing = self.tunnels.iter().filter(|tunnel| tunnel.is_none()).count();
        self.took = self.epoch.time().since(Time::ZERO);
        if missing > 0 {
            self.end(tell);
            return Err(LoadError::NotEstablished { missing, wanted: self.tunnels.len() });
        }
        self.changed.clear();
        Ok(())
    }

    /// Sends what is to be sent, waits a little for messages, takes them, lets time pass.
    pub(super) fn step(&mut self, tell: &mut dyn FnMut(LoadNews<'_>)) -> Result<(), LoadError> {
        self.flush(tell)?;
        let mut datagram = [0; 65_535];
        // As many as are there, but other things want their turn.
        for round in 0..64 {
            if round == 1 {
                let _ = self.socket.set_nonblocking(true);
            }
            match self.socket.recv_from(&mut datagram) {
                Ok((length, from)) if from.ip() == self.peer.ip() => {
                    self.control.handle(self.epoch.time(), &datagram[..length]);
                    self.flush(tell)?;
                }
                // Somebody else's.
                Ok(_) => {}
                // Nothing came, or an earlier message came back (ECONNREFUSED): it is sent again anyway.
                Err(_) => break,
            }
        }
        let _ = self.socket.set_nonblocking(false);
        let now = self.epoch.time();
        if self.control.deadline().is_some_and(|deadline| deadline <= now) {
            self.control.tick(now);
        }
        self.flush(tell)
    }

    /// Deletes all sessions and releases the association; waits until that is done or given up.
    pub(super) fn end(&mut self, tell: &mut dyn FnMut(LoadNews<'_>)) -> bool {
        self.control.release(self.epoch.time());
        while self.state != State::Over {
            if self.step(tell).is_err() {
                return false;
            }
        }
        true
    }

    /// Where the uplink of each session goes: its number, TEID and address.
    pub(super) fn tunnels(&self) -> impl Iterator<Item = (u32, u32, IpAddr)> + '_ {
        (0u32..)
            .zip(&self.tunnels)
            .filter_map(|(session, tunnel)| tunnel.map(|(teid, address)| (session, teid, address)))
    }

    /// Sessions whose tunnel changed since this was asked last, with the new one.
    pub(super) fn changes(&mut self, endpoints: &[(IpAddr, Qfi)], qfi: impl Fn(u32) -> Qfi) -> Vec<(u32, Tunnel)> {
        let changed = std::mem::take(&mut self.changed);
        let tunnel = |session: u32| {
            let (teid, address) = self.tunnels[session as usize]?;
            let endpoint = endpoints.iter().position(|endpoint| *endpoint == (address, qfi(session)))?;
            Some((session, Tunnel { teid, endpoint: endpoint as u16 }))
        };
        changed.into_iter().filter_map(tunnel).collect()
    }

    /// What came of it.
    pub(super) fn account(&self) -> SessionAccount {
        let Counters { sent, received, retransmitted, malformed, .. } = self.control.counters();
        SessionAccount {
            wanted: self.tunnels.len() as u64,
            established: self.tunnels.iter().flatten().count() as u64,
            failures: self.failures,
            took_ns: self.took.as_nanos(),
            usage_reports: self.usage_reports,
            messages: [sent, received, retransmitted, malformed],
        }
    }

    fn flush(&mut self, tell: &mut dyn FnMut(LoadNews<'_>)) -> Result<(), LoadError> {
        while let Some(output) = self.control.poll() {
            match output {
                Output::Send(bytes) => {
                    // What cannot be sent counts as lost: it is sent again until that is given up.
                    let _ = self.socket.send_to(&bytes, self.peer);
                }
                Output::Event(event) => self.take(&event, tell)?,
            }
        }
        Ok(())
    }

    fn take(&mut self, event: &Event, tell: &mut dyn FnMut(LoadNews<'_>)) -> Result<(), LoadError> {
        match event {
            Event::Established { session, uplink, .. } => {
                let number = session.0.wrapping_sub(FIRST_SEID);
                let address = match uplink.addresses {
                    Addresses::V4(v4) | Addresses::Both(v4, _) => v4.into(),
                    Addresses::V6(v6) => v6.into(),
                };
                if let Some(slot) = self.tunnels.get_mut(number as usize) {
                    *slot = Some((uplink.teid, address));
                    self.changed.push(number as u32);
                }
            }
            Event::Usage { .. } => self.usage_reports += 1,
            Event::Deleted { .. } | Event::Modified { .. } => {}
            Event::AssociationFailed(failure) => {
                let peer = self.peer.ip();
                return Err(match failure {
                    Failure::Unanswered { requests } => LoadError::NoAnswer { peer, requests: *requests },
                    failure => LoadError::NoAssociation { peer, why: failure.to_string() },
                });
            }
            Event::Failed { session, procedure, failure } => {
                self.failures += 1;
                let what = format!("{}: {procedure} {failure}", self.name(session.0));
                if self.failures <= TOLD {
                    tell(LoadNews::Note(&what));
                }
                if let (Procedure::Establishment, Failure::Refused(_)) = (procedure, failure)
                    && self.tunnels.iter().all(Option::is_none)
                    && self.failures > TOLD
                {
                    return Err(LoadError::Refused(what));
                }
            }
            Event::Released { agreed } => {
                self.state = State::Over;
                if !agreed {
                    tell(LoadNews::Note("the UPF did not agree to the release; it may still have sessions"));
                }
            }
            Event::ReleasedByPeer { .. } => {
                tell(LoadNews::Note(&event.to_string()));
                self.state = State::Over;
            }
            other => tell(LoadNews::Note(&format!("N4: {other}"))),
        }
        Ok(())
    }

    /// A session by its group and UE.
    fn name(&self, seid: u64) -> String {
        let number = u32::try_from(seid.wrapping_sub(FIRST_SEID)).unwrap_or(u32::MAX);
        let groups = self.population.groups().iter().enumerate();
        let found =
            groups.map(|(i, group)| (self.population.sessions_of(i), group)).find(|(all, _)| all.contains(&number));
        match found {
            Some((all, group)) => {
                format!("session {seid:#x} of `{}` (UE {})", group.name, group.ues.at((number - all.start).into()))
            }
            None => format!("session {seid:#x}"),
        }
    }
}

fn addresses(address: IpAddr) -> Addresses {
    match address {
        IpAddr::V4(v4) => Addresses::V4(v4),
        IpAddr::V6(v6) => Addresses::V6(v6),
    }
}

fn profile(generation: Generation, group: &GroupPlan) -> Profile {
    let mbr =
        group.maximum_rates.map(|[uplink, downlink]| BitRates { uplink: uplink / 1_000, downlink: downlink / 1_000 });
    let usage = (group.report_volume.is_some() || group.report_period.is_some()).then(|| Usage {
        volume_threshold: group.report_volume.map(|bytes| Volumes { total: Some(bytes), ..Volumes::default() }),
        period: group.report_period.map(|period| (period.as_nanos() / 1_000_000_000).max(1) as u32),
        ..Usage::default()
    });
    let filter = |text: &String| SdfFilter { description: Some(Text::from(text.as_str())), ..SdfFilter::default() };
    Profile {
        qfi: (generation == Generation::Five).then_some(group.qfi),
        access_instance: group.access_instance.clone(),
        core_instance: group.core_instance.clone(),
        filters: group.sdf_filter.iter().map(filter).collect(),
        qos: mbr.map(|mbr| Qos { gate: GateStatus::default(), mbr: Some(mbr), gbr: None }),
        usage,
        predefined: group.predefined.iter().map(|name| Text::from(name.as_str())).collect(),
        ..Profile::default()
    }
}
