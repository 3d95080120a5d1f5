//! `narrows upf`

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use clap::Args;
use engine::Span;
use userplane::filter::FilterError;
use userplane::upf::Predefined;
use wire::pfcp::value::{Name, NodeId};

/// Be a small UPF: tunnels on N3, plain IP on N6, rules by PFCP on N4.
///
/// It is made to be loaded and measured against: it does what sessions' rules say (forward, drop, buffer, gates, rates,
/// usage reports), counts everything it drops by its reason, and has no limits set by a licence. Needs the right to open packet sockets on
/// both interfaces (root, or `CAP_NET_RAW`), which should have no addresses of their own: the UPF answers for
/// those given here. Runs until it is interrupted, and then gives its account.
#[derive(Debug, Args)]
pub(crate) struct Upf {
    /// The interface to the gNB (in 4G S1-U, to the eNodeB).
    #[arg(long, value_name = "INTERFACE")]
    pub(crate) n3: String,
    /// The UPF's address there, where tunnels end, such as `10.0.3.1/24`; given twice for IPv4 and IPv6.
    #[arg(long, required = true, value_name = "ADDRESS/PREFIX")]
    pub(crate) n3_address: Vec<Network>,
    /// Where packets for gNBs in other networks go; without it all are asked for on the link.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) n3_gateway: Vec<IpAddr>,
    /// The interface to the data network (in 4G SGi).
    #[arg(long, value_name = "INTERFACE")]
    pub(crate) n6: String,
    /// The UPF's address there; given twice for IPv4 and IPv6.
    #[arg(long, required = true, value_name = "ADDRESS/PREFIX")]
    pub(crate) n6_address: Vec<Network>,
    /// Where packets for other networks go; without it all are asked for on the link.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) n6_gateway: Vec<IpAddr>,
    /// Where it listens for PFCP: an address of this machine, with its port or without (8805).
    #[arg(long, value_name = "ADDRESS[:PORT]")]
    pub(crate) n4: N4Address,
    /// What it is called on N4: an address or a domain name [default: its address there].
    #[arg(long, value_name = "NAME")]
    pub(crate) node: Option<NodeName>,
    /// A rule that the control plane activates by its name, for all packets or for those of a filter, such as
    /// `web=permit out 6 from any 80,443 to assigned`; given once for each.
    #[arg(long, value_name = "NAME[=FILTER]", value_parser = predefined)]
    pub(crate) predefined: Vec<Predefined>,
    /// How far traffic may run ahead of a maximum bit rate.
    #[arg(long, default_value = "100ms", value_name = "TIME")]
    pub(crate) burst: Span,
    /// Send heartbeats to control planes this often [default: never; theirs are always answered].
    #[arg(long, value_name = "TIME", value_parser = super::over_zero)]
    pub(crate) heartbeat: Option<Span>,
    /// How frames are sent.
    #[arg(long, default_value = "auto")]
    pub(crate) io: PacketWay,
    /// Say what is forwarded and dropped this often, such as `10s`.
    #[arg(long, value_name = "TIME", value_parser = super::over_zero)]
    pub(crate) stats: Option<Span>,
    /// Print JSON Lines on standard output: what happens, an account each --stats, and one at the end.
    #[arg(long)]
    pub(crate) json: bool,
    /// Seed of its first TEID and sequence number; printed if not given.
    #[arg(long)]
    pub(crate) seed: Option<u64>,
}

/// How frames are sent.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum PacketWay {
    /// By AF_XDP, and where that is not to be had by a packet socket.
    Auto,
    /// By AF_XDP.
    AfXdp,
    /// By a packet socket.
    AfPacket,
}

/// An address with the length of its network's prefix.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Network {
    pub(crate) address: IpAddr,
    pub(crate) prefix: u8,
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (address, prefix) = text.split_once('/').ok_or("write it with its prefix, such as 10.0.3.1/24")?;
        let address: IpAddr = address.parse().map_err(|_| "this is no IP address")?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        match prefix.parse() {
            Ok(prefix) if prefix <= longest => Ok(Self { address, prefix }),
            _ => Err(format!("the prefix is a number from 0 to {longest}")),
        }
    }
}

/// An address of PFCP; port 0 is the usual one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct N4Address(pub(crate) SocketAddr);

impl FromStr for N4Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let alone = |address: IpAddr| SocketAddr::new(address, 0);
        let parsed = text.parse().or_else(|_| text.parse().map(alone));
        parsed.map(Self).map_err(|_| "write an IP address, with a port or without; IPv6 with one in brackets".into())
    }
}

/// What a node is called on N4.
#[derive(Clone, Debug)]
pub(crate) struct NodeName(pub(crate) NodeId);

impl FromStr for NodeName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse::<IpAddr>() {
            Ok(address) => Ok(Self(address.into())),
            Err(_) => Name::new(text).map(|name| Self(NodeId::Fqdn(name))).map_err(|error| error.to_string()),
        }
    }
}

fn predefined(text: &str) -> Result<Predefined, String> {
    let (name, filter) = text.split_once('=').map_or((text, None), |(name, filter)| (name, Some(filter)));
    let filters = filter.map(str::parse).transpose().map_err(|error: FilterError| error.to_string())?;
    Ok(Predefined { name: name.into(), filters: filters.into_iter().collect() })
}
