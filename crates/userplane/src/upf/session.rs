//! A PFCP session: its rules as they were given, and what they come to.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use engine::{Span, Time};
use wire::gtpu::{PduSession, Qfi, TunnelHeader};
use wire::pfcp::rules::{CreateBar, CreateFar, CreatePdr, CreateQer};
use wire::pfcp::value::{
    ApplyAction, FTeid, FailedRule, Gate as GateState, Interface as PfcpInterface, OuterHeaderCreation, SdfFilter, UeIp,
};
use wire::pfcp::{Cause, elements as element};

use super::meter::Gate;
use super::rule::{Action, Direction, Entry, FlowFilter, Rule, Tunnel};
use super::usage::Usage;
use super::{Config, Interface, Predefined, Side};

/// QERs, and URRs, of a session, at most: one bit each.
pub(super) const RULES_MAX: usize = 32;

/// A session.
///
/// What packets touch stands by itself, one line of a cache: with many sessions memory is what takes time.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Session {
    /// Those of tunnels, then those of addresses, each in order of precedence.
    pub(super) rules: Box<[Rule]>,
    /// Of the QERs, in their order: uplink and downlink.
    pub(super) gates: Box<[[Gate; 2]]>,
    pub(super) usages: Box<[Usage]>,
    /// How many of the rules are of tunnels.
    pub(super) tunnel_rules: u32,
    pub(super) state: Box<State>,
}

/// The rest of a session.
#[derive(Debug)]
pub(super) struct State {
    /// Our identifier.
    pub(super) seid: u64,
    /// The control plane's, and where it wants to hear of the session.
    pub(super) peer: (u64, SocketAddr),
    /// Number of the association it belongs to.
    pub(super) association: usize,
    pub(super) given: Given,
    /// Buffered user packets, and by which of the PDRs.
    pub(super) held: VecDeque<(u16, Vec<u8>)>,
    /// The control plane was told that there are any.
    pub(super) told: bool,
    /// A usage report is due, and the session in the list of those.
    pub(super) due: bool,
    /// When time alone will bring a usage report about.
    pub(super) deadline: Option<Time>,
}

/// Rules as the control plane gave them. TEIDs that it left to us are chosen.
#[derive(Clone, Debug, Default)]
pub(super) struct Given {
    pub(super) pdrs: Vec<CreatePdr>,
    pub(super) fars: Vec<CreateFar>,
    pub(super) qers: Vec<CreateQer>,
    pub(super) urrs: Vec<wire::pfcp::value::UrrId>,
    pub(super) bar: Option<CreateBar>,
}

/// Why a request is not done, as the answer says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) cause: Cause,
    /// Type of the information element it is about.
    pub(super) offending: Option<u16>,
    pub(super) rule: Option<FailedRule>,
}

/// What packets are found by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Tunnel(u32),
    V4(u32),
    /// The upper half of an address: a /64.
    V6Network(u64),
    V6(u128),
}

impl Refused {
    pub(super) fn new(cause: Cause, offending: u16) -> Self {
        Self { cause, offending: Some(offending), rule: None }
    }

    fn by(self, rule: FailedRule) -> Self {
        Self { rule: Some(rule), ..self }
    }
}

impl Given {
    /// What the rules come to, in the order of [`Session::rules`].
    ///
    /// # Errors
    ///
    /// The first that cannot be followed.
    pub(super) fn compile(&self, config: &Config) -> Result<Box<[Rule]>, Refused> {
        for (count, element) in [(self.qers.len(), element::CREATE_QER), (self.urrs.len(), element::CREATE_URR)] {
            if count > RULES_MAX {
                return Err(Refused::new(Cause::NoResources, element));
            }
        }
        let mut ordered: Vec<&CreatePdr> = self.pdrs.iter().collect();
        // TS 29.244 5.2.1A.2A: the least value goes first.
        ordered.sort_by_key(|pdr| (pdr.pdi.teid.is_none(), pdr.precedence, pdr.id));
        let rules = ordered.into_iter().map(|pdr| {
            self.rule(pdr, config).map_err(|refused| {
                // What is about another rule says so already.
                if refused.rule.is_some() { refused } else { refused.by(FailedRule::Pdr(pdr.id)) }
            })
        });
        rules.collect()
    }

    fn rule(&self, pdr: &CreatePdr, config: &Config) -> Result<Rule, Refused> {
        let pdi = &pdr.pdi;
        let direction = match pdi.source {
            PfcpInterface::Access => Direction::Uplink,
            PfcpInterface::Core | PfcpInterface::SgiLan => Direction::Downlink,
            _ => return Err(Refused::new(Cause::NotSupported, element::SOURCE_INTERFACE)),
        };
        if pdi.application.is_some() {
            return Err(Refused::new(Cause::UnknownApplication, element::APPLICATION_ID));
        }
        if pdi.traffic_endpoint.is_some() {
            return Err(Refused::new(Cause::NotSupported, element::TRAFFIC_ENDPOINT_ID));
        }
        let entry = match pdi.teid {
            Some(FTeid::Fixed { teid, .. }) => Entry::Tunnel(teid),
            // All are chosen before.
            Some(FTeid::Choose { .. }) => return Err(Refused::new(Cause::InvalidTeidAllocation, element::F_TEID)),
            None if direction == Direction::Downlink && !pdi.ue_ip.is_empty() => Entry::Host,
            None if direction == Direction::Downlink => {
                return Err(Refused::new(Cause::ConditionalMissing, element::UE_IP_ADDRESS));
            }
            None => return Err(Refused::new(Cause::ConditionalMissing, element::F_TEID)),
        };
        let mut hosts = [None; 2];
        let all = pdi.ue_ip.iter().map(hosts_of).collect::<Result<Vec<_>, _>>()?;
        for host in all.into_iter().flatten().flatten() {
            let place = hosts.iter_mut().find(|place| place.is_none());
            *place.ok_or(Refused::new(Cause::NoResources, element::UE_IP_ADDRESS))? = Some(host);
        }
        let mut filters = pdi.sdf.iter().map(|sdf| self.filter(sdf)).collect::<Result<Vec<_>, _>>()?;
        let mut all_pass = filters.is_empty() && pdr.activate.is_empty();
        for name in &pdr.activate {
            let predefined = config.predefined.iter().find(|rule| *rule.name == *name.0);
            let Predefined { filters: known, .. } =
                predefined.ok_or(Refused::new(Cause::UnknownPredefinedRule, element::ACTIVATE_PREDEFINED_RULES))?;
            all_pass |= known.is_empty();
            filters.extend(known.iter().cloned().map(FlowFilter::from));
        }
        if all_pass {
            filters.clear();
        }
        let (qers, urrs) = (self.qers_of(pdr)?, self.urrs_of(pdr)?);
        let rule = Rule {
            pdr: pdr.id.0,
            entry,
            direction,
            hosts,
            flows: pdi.qfi.iter().fold(0, |flows, qfi| flows | 1 << qfi.get()),
            filters: filters.into(),
            action: self.action(pdr, direction, qers, config)?,
            qers,
            urrs,
        };
        Ok(rule)
    }

    /// A filter, or the one of another rule that it refers to by its number (TS 29.244 8.2.5).
    fn filter(&self, sdf: &SdfFilter) -> Result<FlowFilter, Refused> {
        let wrong = Refused::new(Cause::MandatoryIncorrect, element::SDF_FILTER);
        let empty = |sdf: &SdfFilter| {
            sdf.description.is_none() && sdf.tos.is_none() && sdf.spi.is_none() && sdf.flow_label.is_none()
        };
        let mut others = self.pdrs.iter().flat_map(|pdr| &pdr.pdi.sdf);
        let found = match sdf.id {
            Some(_) if empty(sdf) => others.find(|other| other.id == sdf.id && !empty(other)).ok_or(wrong)?,
            _ => sdf,
        };
        FlowFilter::read(found).ok_or(wrong)
    }

    fn qers_of(&self, pdr: &CreatePdr) -> Result<u32, Refused> {
        pdr.qer.iter().try_fold(0, |set, id| {
            let at = self.qers.iter().position(|qer| qer.id == *id);
            let missing = Refused::new(Cause::RuleFailure, element::QER_ID).by(FailedRule::Qer(*id));
            at.map(|at| set | 1 << at).ok_or(missing)
        })
    }

    fn urrs_of(&self, pdr: &CreatePdr) -> Result<u32, Refused> {
        pdr.urr.iter().try_fold(0, |set, id| {
            let at = self.urrs.iter().position(|urr| urr == id);
            let missing = Refused::new(Cause::RuleFailure, element::URR_ID).by(FailedRule::Urr(*id));
            at.map(|at| set | 1 << at).ok_or(missing)
        })
    }

    fn action(&self, pdr: &CreatePdr, direction: Direction, qers: u32, config: &Config) -> Result<Action, Refused> {
        let Some(id) = pdr.far else {
            // TS 29.244 7.5.2.2: a predefined rule says itself what becomes of packets. Ours send them on to the network.
            return match (pdr.activate.is_empty(), direction) {
                (false, Direction::Uplink) => Ok(Action::Forward { to: Side::N6, tunnel: None }),
                _ => Err(Refused::new(Cause::ConditionalMissing, element::FAR_ID)),
            };
        };
        let far = self.fars.iter().find(|far| far.id == id);
        let far = far.ok_or(Refused::new(Cause::RuleFailure, element::FAR_ID).by(FailedRule::Far(id)))?;
        let action = far.action;
        if action.contains(ApplyAction::DROP) {
            Ok(Action::Drop)
        } else if action.contains(ApplyAction::FORW) {
            self.forward(far, direction, qers, config).map_err(|refused| refused.by(FailedRule::Far(id)))
        } else if action.contains(ApplyAction::BUFF) {
            Ok(Action::Hold { notify: action.contains(ApplyAction::NOCP) })
        } else {
            Err(Refused::new(Cause::MandatoryIncorrect, element::APPLY_ACTION).by(FailedRule::Far(id)))
        }
    }

    fn forward(&self, far: &CreateFar, direction: Direction, qers: u32, config: &Config) -> Result<Action, Refused> {
        let parameters = far.forwarding.as_ref();
        let parameters = parameters.ok_or(Refused::new(Cause::ConditionalMissing, element::FORWARDING_PARAMETERS))?;
        let (to, interface) = match parameters.destination {
            PfcpInterface::Access => (Side::N3, &config.n3),
            PfcpInterface::Core | PfcpInterface::SgiLan => (Side::N6, &config.n6),
            _ => return Err(Refused::new(Cause::NotSupported, element::DESTINATION_INTERFACE)),
        };
        let unreachable = Refused::new(Cause::InvalidForwardingPolicy, element::OUTER_HEADER_CREATION);
        let tunnel = match parameters.creation {
            None if to == Side::N3 => {
                return Err(Refused::new(Cause::ConditionalMissing, element::OUTER_HEADER_CREATION));
            }
            None => None,
            Some(OuterHeaderCreation::Other(_)) => {
                return Err(Refused::new(Cause::NotSupported, element::OUTER_HEADER_CREATION));
            }
            Some(OuterHeaderCreation::GtpU { teid, addresses }) => {
                let peers = [addresses.v4().map(IpAddr::V4), addresses.v6().map(IpAddr::V6)];
                let ends = peers.into_iter().flatten().find_map(|peer| Some((interface.address_like(peer)?, peer)));
                let (source, peer) = ends.ok_or(unreachable)?;
                let pdu_session = self.container(direction, qers);
                let header = TunnelHeader { teid, sequence: None, pdu_session };
                let marking = parameters.marking.map_or(0, |marking| {
                    let [tos, mask] = marking.0.to_be_bytes();
                    tos & mask
                });
                Some(Tunnel::new(source, peer, header, marking).ok_or(unreachable)?)
            }
        };
        Ok(Action::Forward { to, tunnel })
    }

    /// In 5G a QER names the QoS flow; packets in tunnels are marked with it (TS 38.415 5.5.2).
    fn container(&self, direction: Direction, qers: u32) -> Option<PduSession> {
        let marks = self.qers.iter().enumerate().filter(|(at, _)| qers & 1 << at != 0);
        let (qfi, reflective): (Qfi, bool) =
            marks.filter_map(|(_, qer)| Some((qer.qfi?, qer.rqi.is_some_and(|rqi| rqi & 1 != 0)))).next()?;
        Some(match direction {
            Direction::Downlink => PduSession::Downlink { qfi, reflective, paging: None },
            Direction::Uplink => PduSession::Uplink { qfi },
        })
    }

    /// What packets of these rules are found by, and by which of them.
    ///
    /// # Errors
    ///
    /// An IPv6 prefix that cannot be looked up.
    pub(super) fn keys(&self) -> Result<Vec<(Key, &CreatePdr)>, Refused> {
        let mut keys = Vec::new();
        for pdr in &self.pdrs {
            if let Some(FTeid::Fixed { teid, .. }) = pdr.pdi.teid {
                keys.push((Key::Tunnel(teid), pdr));
                continue;
            }
            for ue in &pdr.pdi.ue_ip {
                for (address, prefix) in hosts_of(ue)?.into_iter().flatten() {
                    let key = match (address, prefix) {
                        (IpAddr::V4(address), _) => Key::V4(address.to_bits()),
                        (IpAddr::V6(address), 128) => Key::V6(address.to_bits()),
                        (IpAddr::V6(address), _) => Key::V6Network((address.to_bits() >> 64) as u64),
                    };
                    keys.push((key, pdr));
                }
            }
        }
        Ok(keys)
    }
}

/// The addresses of a UE with the lengths of their prefixes: 32, 64 or 128 (TS 29.244 8.2.62).
fn hosts_of(ue: &UeIp) -> Result<[Option<(IpAddr, u8)>; 2], Refused> {
    let prefix = ue.prefix_length.unwrap_or(64u8.saturating_sub(ue.delegated_bits.unwrap_or(0)));
    let Some(addresses) = ue.addresses else {
        // The user plane is to choose one, which its features do not offer.
        return Err(Refused::new(Cause::NotSupported, element::UE_IP_ADDRESS));
    };
    if addresses.v6().is_some() && !matches!(prefix, 64 | 128) {
        return Err(Refused::new(Cause::NotSupported, element::UE_IP_ADDRESS));
    }
    Ok([addresses.v4().map(|v4| (IpAddr::V4(v4), 32)), addresses.v6().map(|v6| (IpAddr::V6(v6), prefix))])
}

impl Session {
    /// Takes new rules.
    pub(super) fn set_rules(&mut self, rules: Box<[Rule]>) {
        self.tunnel_rules = rules.iter().filter(|rule| rule.entry != Entry::Host).count() as u32;
        self.rules = rules;
    }

    /// Sets the gates as the QERs say. Those of a rule that was there before go on.
    pub(super) fn set_gates(&mut self, before: &[CreateQer], burst: Span) {
        let old = core::mem::take(&mut self.gates);
        let mut new = Vec::with_capacity(self.state.given.qers.len());
        for qer in &self.state.given.qers {
            let kept = before.iter().position(|other| other.id == qer.id).and_then(|at| old.get(at).copied());
            let mut gates = kept.unwrap_or([Gate::Open; 2]);
            let rates = qer.mbr.map(|mbr| [mbr.uplink, mbr.downlink]);
            for (at, state) in [qer.gate.uplink, qer.gate.downlink].into_iter().enumerate() {
                // TS 29.244 8.2.8: kilobits of 1000 bits.
                let rate = rates.map(|rates| rates[at].saturating_mul(1_000));
                gates[at].set(state == GateState::Open, rate, burst);
            }
            new.push(gates);
        }
        self.gates = new.into();
    }

    /// When a usage report is due by time alone.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.usages.iter().filter_map(Usage::deadline).min()
    }
}

impl Interface {
    /// Its addresses as a tunnel endpoint's or session endpoint's.
    pub(super) fn both(&self) -> Option<wire::pfcp::value::Addresses> {
        let v4 = self.addresses.iter().find_map(|(address, _)| match address {
            IpAddr::V4(v4) => Some(*v4),
            IpAddr::V6(_) => None,
        });
        let v6 = self.addresses.iter().find_map(|(address, _)| match address {
            IpAddr::V6(v6) => Some(*v6),
            IpAddr::V4(_) => None,
        });
        wire::pfcp::value::Addresses::from_parts(v4, v6)
    }
}
