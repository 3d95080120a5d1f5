//! A session as it is wanted, and the rules that make it.

use alloc::sync::Arc;
use alloc::vec;
use core::net::IpAddr;

use wire::gtpu::Qfi;
use wire::pfcp::message::{SessionEstablishmentRequest, SessionModificationRequest};
use wire::pfcp::rules::{
    CreateFar, CreatePdr, CreateQer, CreateUrr, CreatedPdr, ForwardingParameters, Pdi, QueryUrr, UpdateFar,
    UpdateForwardingParameters, UpdatePdr, UpdateQer,
};
use wire::pfcp::value::{
    Addresses, ApplyAction, BitRates, FSeid, FTeid, FarId, GateStatus, Interface, InterfaceType, MeasurementMethod,
    ModificationFlags, Name, NodeId, OuterHeaderCreation, OuterHeaderRemoval, PdnType, PdrId, QerId, ReportingTriggers,
    SdfFilter, Text, UeIp, UrrId, Volumes,
};

use super::{Config, Failure, Generation, Tunnel, Vec};

/// Rules of a session: one packet detection rule and one forwarding rule for each direction, and one each to enforce and to measure.
const UPLINK: (PdrId, FarId) = (PdrId(1), FarId(1));
const DOWNLINK: (PdrId, FarId) = (PdrId(2), FarId(2));
const QOS: QerId = QerId(1);
const USAGE: UrrId = UrrId(1);
/// All rules of a session come after what the user plane may have of its own.
const PRECEDENCE: u32 = 255;

/// A session as it is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionSpec {
    /// Addresses of the UE. An IPv6 address stands for its /64 (TS 29.244 8.2.62).
    pub ue: Addresses,
    /// The user plane's end of the uplink tunnel: fixed, or for it to choose.
    pub uplink: FTeid,
    /// The gNB's or eNodeB's end of the downlink tunnel; without one, downlink packets are buffered until a
    /// [`Change::Handover`] names it.
    pub downlink: Option<Peer>,
    /// What it shares with others.
    pub profile: Arc<Profile>,
}

/// A tunnel's end at a gNB or eNodeB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its identifier there.
    pub teid: u32,
    /// Where that is.
    pub address: IpAddr,
}

/// What sessions of a group have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// The flow its packets are marked with, in 5G.
    pub qfi: Option<Qfi>,
    /// The network of N3 or S1-U, by the user plane's name for it.
    pub access_instance: Option<Name>,
    /// The network of N6 or SGi, by the user plane's name for it.
    pub core_instance: Option<Name>,
    /// Data network or access point name.
    pub dnn: Option<Name>,
    /// Which flows are let through; all of them without a filter.
    pub filters: Vec<SdfFilter>,
    /// Gates and rates.
    pub qos: Option<Qos>,
    /// What is measured.
    pub usage: Option<Usage>,
    /// Rules that the user plane has by these names, activated for both directions.
    pub predefined: Vec<Text>,
    /// Seconds without packets that the user plane is to report.
    pub inactivity: Option<u32>,
    /// The user plane chooses the UE's addresses (its feature UEIP); those of the session say of which versions.
    pub choose_ue: bool,
}

/// How a session is held to a rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Qos {
    /// Whether packets pass.
    pub gate: GateStatus,
    /// The most they may take.
    pub mbr: Option<BitRates>,
    /// The least they are to get.
    pub gbr: Option<BitRates>,
}

/// What of a session is measured and reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes after which to report.
    pub volume_threshold: Option<Volumes>,
    /// Bytes after which packets no longer pass.
    pub volume_quota: Option<Volumes>,
    /// Seconds after which to report.
    pub time_threshold: Option<u32>,
    /// Seconds between reports.
    pub period: Option<u32>,
}

/// What can be changed in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Downlink packets go to another gNB from now on, and the old one is told which packet was the last by an end marker.
    Handover {
        /// The new one.
        to: Peer,
        /// Whether an end marker goes to the old one.
        end_marker: bool,
    },
    /// Downlink packets are buffered, and the first is reported, as for a UE that sleeps.
    Buffer,
    /// Downlink packets go to the gNB again.
    Resume,
    /// Downlink packets are dropped.
    Drop,
    /// Gates and rates.
    Qos(Qos),
    /// Nothing is changed; what was measured is reported.
    QueryUsage,
}

/// The names of the sides, by generation.
struct Sides {
    access: InterfaceType,
    core: InterfaceType,
}

impl Config {
    fn sides(&self) -> Sides {
        match self.generation {
            Generation::FiveG => Sides { access: InterfaceType::N3, core: InterfaceType::N6 },
            Generation::FourG => Sides { access: InterfaceType::S1_U, core: InterfaceType::SGI },
        }
    }

    fn named(&self, side: InterfaceType) -> Option<InterfaceType> {
        self.interface_types.then_some(side)
    }
}

impl SessionSpec {
    /// The request that makes this session.
    pub(super) fn establishment(
        &self,
        config: &Config,
        node_id: NodeId,
        cp_fseid: FSeid,
    ) -> SessionEstablishmentRequest {
        let profile = &*self.profile;
        let pdn_type = match self.ue {
            Addresses::V4(_) => PdnType::Ipv4,
            Addresses::V6(_) => PdnType::Ipv6,
            Addresses::Both(..) => PdnType::Ipv4v6,
        };
        SessionEstablishmentRequest {
            node_id,
            cp_fseid,
            create_pdr: vec![self.uplink_pdr(config), self.downlink_pdr(config)],
            create_far: vec![self.uplink_far(config), self.downlink_far(config)],
            create_urr: profile.usage.map(Usage::rule).into_iter().collect(),
            create_qer: self.qer(config).into_iter().collect(),
            create_bar: None,
            pdn_type: Some(pdn_type),
            inactivity: profile.inactivity,
            dnn: profile.dnn.clone(),
        }
    }

    fn uplink_pdr(&self, config: &Config) -> CreatePdr {
        let (v4, v6) = match self.uplink {
            FTeid::Fixed { addresses, .. } => (addresses.v4().is_some(), addresses.v6().is_some()),
            FTeid::Choose { v4, v6, .. } => (v4, v6),
        };
        let removal = match (v4, v6) {
            (true, true) => OuterHeaderRemoval::GTPU,
            (false, true) => OuterHeaderRemoval::GTPU_V6,
            _ => OuterHeaderRemoval::GTPU_V4,
        };
        let pdi = Pdi {
            source: Interface::Access,
            teid: Some(self.uplink),
            network_instance: self.profile.access_instance.clone(),
            ue_ip: vec![self.ue_ip(false)],
            sdf: self.profile.filters.clone(),
            qfi: self.qfi(config).into_iter().collect(),
            interface_type: config.named(config.sides().access),
            ..Pdi::default()
        };
        CreatePdr { id: UPLINK.0, pdi, removal: Some(removal), far: Some(UPLINK.1), ..self.pdr(config) }
    }

    fn downlink_pdr(&self, config: &Config) -> CreatePdr {
        let pdi = Pdi {
            source: Interface::Core,
            network_instance: self.profile.core_instance.clone(),
            ue_ip: vec![self.ue_ip(true)],
            sdf: self.profile.filters.clone(),
            interface_type: config.named(config.sides().core),
            ..Pdi::default()
        };
        CreatePdr { id: DOWNLINK.0, pdi, far: Some(DOWNLINK.1), ..self.pdr(config) }
    }

    fn ue_ip(&self, destination: bool) -> UeIp {
        let ue_ip = UeIp::new(self.ue, destination);
        if !self.profile.choose_ue {
            return ue_ip;
        }
        // TS 29.244 5.21: the same flags in both rules get the same address.
        let (choose_v4, choose_v6) = (self.ue.v4().is_some(), self.ue.v6().is_some());
        UeIp { addresses: None, choose_v4, choose_v6, ..ue_ip }
    }

    /// What both directions' rules have in common.
    fn pdr(&self, config: &Config) -> CreatePdr {
        CreatePdr {
            precedence: PRECEDENCE,
            urr: self.profile.usage.map(|_| USAGE).into_iter().collect(),
            qer: self.qer(config).map(|_| QOS).into_iter().collect(),
            activate: self.profile.predefined.clone(),
            ..CreatePdr::default()
        }
    }

    fn uplink_far(&self, config: &Config) -> CreateFar {
        let forwarding = ForwardingParameters {
            destination: Interface::Core,
            network_instance: self.profile.core_instance.clone(),
            interface_type: config.named(config.sides().core),
            ..ForwardingParameters::default()
        };
        CreateFar { id: UPLINK.1, action: ApplyAction::FORW, forwarding: Some(forwarding), bar: None }
    }

    fn downlink_far(&self, config: &Config) -> CreateFar {
        let forwarding = self.downlink.map(|peer| ForwardingParameters {
            destination: Interface::Access,
            network_instance: self.profile.access_instance.clone(),
            creation: Some(peer.header()),
            marking: None,
            interface_type: config.named(config.sides().access),
        });
        let action = if forwarding.is_some() { ApplyAction::FORW } else { ApplyAction::BUFF | ApplyAction::NOCP };
        CreateFar { id: DOWNLINK.1, action, forwarding, bar: None }
    }

    /// In 5G downlink packets are marked with the flow that the rule names (TS 29.244 5.4.2).
    fn qer(&self, config: &Config) -> Option<CreateQer> {
        let (qos, qfi) = (self.profile.qos, self.qfi(config));
        (qos.is_some() || qfi.is_some()).then(|| {
            let Qos { gate, mbr, gbr } = qos.unwrap_or_default();
            CreateQer { id: QOS, gate, mbr, gbr, qfi, rqi: None }
        })
    }

    fn qfi(&self, config: &Config) -> Option<Qfi> {
        self.profile.qfi.filter(|_| config.generation == Generation::FiveG)
    }

    /// The session as it is after a change.
    pub(super) fn apply(&mut self, change: Change) {
        match change {
            Change::Handover { to, .. } => self.downlink = Some(to),
            Change::Qos(qos) => Arc::make_mut(&mut self.profile).qos = Some(qos),
            // These last as long as the session does at the user plane: one that is made again forwards.
            Change::Buffer | Change::Resume | Change::Drop | Change::QueryUsage => {}
        }
    }

    /// The request that makes a change.
    pub(super) fn modification(&self, config: &Config, change: &Change) -> SessionModificationRequest {
        let far = |action, forwarding| {
            let far = UpdateFar { id: DOWNLINK.1, action: Some(action), forwarding, bar: None };
            SessionModificationRequest { update_far: vec![far], ..SessionModificationRequest::default() }
        };
        match change {
            Change::Handover { to, end_marker } => {
                let parameters = UpdateForwardingParameters {
                    destination: Some(Interface::Access),
                    network_instance: self.profile.access_instance.clone(),
                    creation: Some(to.header()),
                    marking: None,
                    flags: end_marker.then_some(ModificationFlags::SNDEM),
                    interface_type: config.named(config.sides().access),
                };
                far(ApplyAction::FORW, Some(parameters))
            }
            Change::Buffer => far(ApplyAction::BUFF | ApplyAction::NOCP, None),
            Change::Resume => far(ApplyAction::FORW, None),
            Change::Drop => far(ApplyAction::DROP, None),
            Change::Qos(qos) => self.requality(config, *qos),
            Change::QueryUsage => {
                let query_urr = self.profile.usage.map(|_| QueryUrr { id: USAGE }).into_iter().collect();
                SessionModificationRequest { query_urr, ..SessionModificationRequest::default() }
            }
        }
    }

    /// Gates and rates of a session that has such a rule, or one for a session that has none.
    fn requality(&self, config: &Config, qos: Qos) -> SessionModificationRequest {
        let Qos { gate, mbr, gbr } = qos;
        if self.qer(config).is_some() {
            let update = UpdateQer { id: QOS, gate: Some(gate), mbr, gbr, qfi: None, rqi: None };
            return SessionModificationRequest { update_qer: vec![update], ..SessionModificationRequest::default() };
        }
        let update = |id| UpdatePdr { id, qer: vec![QOS], ..UpdatePdr::default() };
        SessionModificationRequest {
            create_qer: vec![CreateQer { id: QOS, gate, mbr, gbr, qfi: None, rqi: None }],
            update_pdr: vec![update(UPLINK.0), update(DOWNLINK.0)],
            ..SessionModificationRequest::default()
        }
    }
}

/// What the user plane chose, by its answer: the uplink tunnel and the UE's addresses.
pub(super) fn chosen(spec: &SessionSpec, created: &[CreatedPdr]) -> Result<(Tunnel, Addresses), Failure> {
    let teid = created.iter().find(|created| created.id == UPLINK.0).and_then(|created| created.teid);
    let FTeid::Fixed { teid, addresses } = teid.unwrap_or(spec.uplink) else { return Err(Failure::NoTunnel) };
    let ue = if spec.profile.choose_ue {
        created.iter().flat_map(|created| &created.ue_ip).find_map(|ue_ip| ue_ip.addresses).ok_or(Failure::NoAddress)?
    } else {
        spec.ue
    };
    Ok((Tunnel { teid, addresses }, ue))
}

impl Peer {
    fn header(self) -> OuterHeaderCreation {
        OuterHeaderCreation::GtpU { teid: self.teid, addresses: self.address.into() }
    }
}

impl Usage {
    fn rule(self) -> CreateUrr {
        let triggers = [
            (self.volume_threshold.is_some(), ReportingTriggers::VOLTH),
            (self.volume_quota.is_some(), ReportingTriggers::VOLQU),
            (self.time_threshold.is_some(), ReportingTriggers::TIMTH),
            (self.period.is_some(), ReportingTriggers::PERIO),
        ];
        let triggers = triggers.iter().filter(|(set, _)| *set);
        CreateUrr {
            id: USAGE,
            method: MeasurementMethod::VOLUM | MeasurementMethod::DURAT,
            triggers: triggers.fold(ReportingTriggers::default(), |all, (_, one)| all | *one),
            period: self.period,
            volume_threshold: self.volume_threshold,
            volume_quota: self.volume_quota,
            time_threshold: self.time_threshold,
            ..CreateUrr::default()
        }
    }
}
