//! What `narrows load` does: a checked plan, read from a load file ([`crate::load_file`]).

mod embedded;

use std::net::IpAddr;
use std::path::PathBuf;

use engine::Span;
use traffic::models::{Model, PacketSizes};
use traffic::replay::{AddressRule, Filter, Instances, Spacing};
use userplane::load::Population;
use wire::gtpu::Qfi;
use wire::pfcp::value::Name;

pub use embedded::{Change, ChangeError, Embedded, Ways};

/// A load on a UPF.
#[derive(Clone, Debug)]
pub struct LoadPlan {
    /// Its name; the file's if it gives none.
    pub name: String,
    /// The file as it was.
    pub source: String,
    /// Seed of every random stream.
    pub seed: u64,
    /// How long packets are sent.
    pub duration: Span,
    /// Rows of the table of samples each second.
    pub samples_per_second: u32,
    /// 5G or 4G.
    pub generation: Generation,
    /// The UPF that is loaded.
    pub upf: Upf,
    /// How PFCP is spoken.
    pub pfcp: PfcpOptions,
    /// Sequence numbers in GTP-U headers.
    pub gtpu_sequence: bool,
    /// Whether what is sent and received is written to `capture.pcapng`.
    pub capture: bool,
    /// Groups with their addresses, checked against each other.
    pub population: Population,
    /// What each of the groups is beside its addresses, in the same order.
    pub groups: Vec<GroupPlan>,
}

/// Which generation's names and headers are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Generation {
    /// N3, N4, N6 and a UPF: PDU session containers in GTP-U.
    #[default]
    Five,
    /// S1-U, Sx, SGi, and an SGW-U or PGW-U: no containers (TS 23.214).
    Four,
}

/// The UPF that is loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Upf {
    /// The own one, in namespaces made for it.
    Own,
    /// Another.
    Other(Box<Interfaces>),
}

/// Where another UPF is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interfaces {
    /// N3 (S1-U).
    pub n3: Side,
    /// N6 (SGi).
    pub n6: Side,
    /// Our address on N4 (Sx); as the machine routes if absent.
    pub n4_address: Option<IpAddr>,
    /// The UPF's on N4.
    pub n4_upf: IpAddr,
}

/// One side of another UPF.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Side {
    /// The interface packets go through, without an address of its own.
    pub interface: String,
    /// Our address there: the gNB's on N3, the router's that stands for the data network on N6.
    pub address: IpAddr,
    /// The UPF's address there, or the router's if only that is said.
    pub upf: IpAddr,
    /// The next hop: the UPF itself, or a router before it.
    pub gateway: IpAddr,
}

/// How PFCP is spoken. The defaults suit the UPFs that are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PfcpOptions {
    /// Node ID as an FQDN; the address on N4 if absent.
    pub node_id: Option<Name>,
    /// Who chooses uplink TEIDs.
    pub teid: TeidChoice,
    /// Octets of an Apply Action: 1, or 2 (TS 29.244 8.2.26, since release 16).
    pub apply_action: u8,
    /// Network Instance as DNS labels (TS 23.003 9.1) instead of plain text.
    pub network_instance_labels: bool,
    /// Whether the 3GPP Interface Type IE (TS 29.244 8.2.118) is sent.
    pub interface_type: bool,
    /// Requests that may be open at once.
    pub window: u16,
    /// T1: how long an answer is waited for before the request is sent again.
    pub t1: Span,
    /// N1: how often a request is sent in all.
    pub n1: u8,
    /// From one heartbeat to the next.
    pub heartbeat: Span,
}

impl Default for PfcpOptions {
    fn default() -> Self {
        Self {
            node_id: None,
            teid: TeidChoice::Upf,
            apply_action: 2,
            network_instance_labels: true,
            interface_type: true,
            window: 64,
            t1: Span::from_secs(1),
            n1: 4,
            heartbeat: Span::from_secs(10),
        }
    }
}

/// Who chooses uplink TEIDs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TeidChoice {
    /// The UPF (CHOOSE, TS 29.244 8.2.3).
    #[default]
    Upf,
    /// We: the same numbers as for downlink.
    Fixed,
}

/// What a group is beside its addresses.
#[derive(Clone, Debug)]
pub struct GroupPlan {
    /// Predefined rules that are activated by name, instead of rules that are sent.
    pub predefined: Option<String>,
    /// Network instance of the data network.
    pub core_instance: Option<Name>,
    /// Network instance of the access network.
    pub access_instance: Option<Name>,
    /// Flow identifier of its packets.
    pub qfi: Qfi,
    /// SDF filter of its rules (TS 29.212 5.4.2).
    pub sdf_filter: Option<String>,
    /// Maximum bit rates, uplink and downlink, in bit/s.
    pub maximum_rates: Option<[u64; 2]>,
    /// Usage is reported each time so many bytes have passed.
    pub report_volume: Option<u64>,
    /// Usage is reported each time so long has passed.
    pub report_period: Option<Span>,
    /// What it sends and receives.
    pub load: Load,
}

/// What a group sends and receives.
#[derive(Clone, Debug)]
pub enum Load {
    /// Nothing: sessions alone.
    Nothing,
    /// Models, uplink and downlink.
    Model {
        /// Uplink and downlink.
        models: [Option<Model>; 2],
        /// Lengths of users' IP packets.
        sizes: Sizes,
    },
    /// A trace.
    Trace(TraceLoad),
}

/// Lengths of users' IP packets in bytes.
#[derive(Clone, Debug)]
pub enum Sizes {
    /// As drawn.
    Drawn(PacketSizes),
    /// As in a capture.
    Capture(PathBuf),
}

/// How a trace is replayed.
#[derive(Clone, Debug)]
pub struct TraceLoad {
    /// The capture.
    pub path: PathBuf,
    /// Which of its packets.
    pub filter: Option<Filter>,
    /// How often it is played, one after the other.
    pub repetitions: u32,
    /// How often at once.
    pub instances: Instances,
    /// How instances lie in time to each other.
    pub spacing: Spacing,
    /// Who is UE.
    pub rule: AddressRule,
    /// Gaps are made no longer than this.
    pub max_gap: Option<Span>,
    /// A segment waits for the one it answers.
    pub stateful: bool,
    /// How long a segment waits at most.
    pub timeout: Span,
}

impl Load {
    /// Whether there is anything to send.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        match self {
            Self::Nothing => true,
            Self::Model { models, .. } => models.iter().all(Option::is_none),
            Self::Trace(_) => false,
        }
    }
}
