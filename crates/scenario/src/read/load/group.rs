//! Session groups.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use engine::{Rate, Size};
use userplane::filter::Filter;
use userplane::load::{AddressRange, Group};
use wire::gtpu::Qfi;
use wire::pfcp::value::Name;

use crate::load::{GroupPlan, Load};
use crate::read::fields::{self, Fields};
use crate::read::keys;
use crate::read::load::{address, seconds, traffic};
use crate::read::problem::{At, Noted, Notes, Problem};
use crate::read::yaml::Node;

/// Where data networks begin if nothing is said: what RFC 2544 and RFC 5180 set aside for benchmarks.
const PDN_V4: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
const PDN_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 1);
/// QoS flow identifier if nothing is said: the value of 5QI 9, the default bearer (TS 23.501 5.7.4).
const QFI: u8 = 9;

/// A group as it was read, and where.
pub(super) struct Decoded<'a> {
    pub(super) node: &'a Node,
    pub(super) members: Group,
    pub(super) plan: GroupPlan,
    pub(super) node_id: Option<(Name, At)>,
}

/// All groups. TEIDs that are not given follow those before.
pub(super) fn groups<'a>(notes: &Notes, nodes: &'a [Node], folder: &Path) -> Result<Vec<Decoded<'a>>, Noted> {
    let mut groups: Vec<Decoded<'a>> = Vec::new();
    let mut noted = None;
    for node in nodes {
        let after = groups.iter().map(|group| group.members.start_teid.saturating_add(group.members.sessions()));
        match group(notes, node, after.max().unwrap_or(1), folder) {
            Ok(group) => {
                if groups.iter().any(|other| other.members.name == group.members.name) {
                    let what = format!("two groups are called `{}`", group.members.name);
                    let at = node.entry("name").map_or(node.at, |entry| entry.node.at);
                    noted = Some(notes.note(Problem::new(at, what).label("second one").remedy("rename one of them")));
                }
                groups.push(group);
            }
            Err(error) => noted = Some(error),
        }
    }
    noted.map_or(Ok(groups), Err)
}

fn group<'a>(notes: &Notes, node: &'a Node, free_teid: u32, folder: &Path) -> Result<Decoded<'a>, Noted> {
    let fields = Fields::read(notes, node, &keys::SESSION_GROUP)?;
    let called = fields.need("name").and_then(|node| {
        fields::name(notes, node.at, fields::text(notes, node)?, "a session group").map(str::to_owned)
    });
    let sessions = fields.with("nr_sessions", |notes, node| fields::integer(notes, node, 1..=2_000_000));
    let sessions = sessions.map(|sessions| sessions.unwrap_or(1));
    let ues = fields.need("start_ue_address").and_then(|node| {
        let first = address(notes, node)?;
        AddressRange::of_ues(first, sessions?).map_err(|error| fields::refuse(notes, node.at, &error))
    });
    let start_teid = fields.with("start_teid", |notes, node| fields::integer(notes, node, 1..=u64::from(u32::MAX)));
    let flows_per_ue = fields.with("flows_per_ue", |notes, node| fields::integer(notes, node, 1..=65_536));
    let qfi = fields.with("qfi", |notes, node| fields::integer(notes, node, 0..=63).map(|qfi| Qfi::new(qfi as u8)));
    let instance = |key| fields.with(key, name);
    let (core_instance, access_instance) = (instance("core_network_instance"), instance("access_network_instance"));
    let predefined = fields.with("predefined_type", |notes, node| word(notes, node, "a rule's name", 255));
    let sdf_filter = fields.with("sdf_filter", |notes, node| {
        let text = fields::text(notes, node)?;
        text.parse::<Filter>().map_err(|error| fields::refuse(notes, node.at, &error))?;
        Ok(text.to_owned())
    });
    let node_id = fields.with("node_id_fqdn", |notes, node| Ok((self::name(notes, node)?, node.at)));
    let maximum_rates = fields.with("mbr", maximum_rates);
    let report = fields.with("report", |notes, node| {
        let fields = Fields::read(notes, node, &keys::REPORT)?;
        let volume = fields.with("volume", |notes, node| fields::size(notes, node, 1..=1 << 60));
        let period = fields.with("period", seconds);
        Ok((volume?.map(Size::bytes), period?))
    });
    let ues = ues?;
    let load = fields.with("load", |notes, node| traffic::load(notes, node, ues.first().is_ipv6(), folder));
    let load = load?.unwrap_or(Load::Nothing);
    let flows_per_ue = flows_per_ue?.unwrap_or(1);
    let first = fields.with("pdn_start_address", |notes, node| Ok((address(notes, node)?, node.at)))?;
    let default: IpAddr = if ues.first().is_ipv4() { PDN_V4.into() } else { PDN_V6.into() };
    let (first, at) = first.unwrap_or((default, node.at));
    let pdns = AddressRange::new(first, flows_per_ue).map_err(|error| fields::refuse(notes, at, &error));
    let flows = match &load {
        Load::Trace(trace) => trace.instances.count,
        _ => u32::try_from(ues.count() * flows_per_ue).unwrap_or(u32::MAX),
    };
    let (report_volume, report_period) = report?.unwrap_or_default();
    let members = Group {
        name: called?,
        ues,
        pdns: pdns?,
        start_teid: start_teid?.map_or(free_teid, |teid| teid as u32),
        flows_per_ue: flows_per_ue as u32,
        flows,
    };
    let plan = GroupPlan {
        predefined: predefined?,
        core_instance: core_instance?,
        access_instance: access_instance?,
        qfi: qfi?.flatten().or(Qfi::new(QFI)).unwrap_or_default(),
        sdf_filter: sdf_filter?,
        maximum_rates: maximum_rates?,
        report_volume,
        report_period,
        load,
    };
    Ok(Decoded { node, members, plan, node_id: node_id? })
}

fn maximum_rates(notes: &Notes, node: &Node) -> Result<[u64; 2], Noted> {
    let fields = Fields::read(notes, node, &keys::MBR)?;
    let rate = |key| fields.need(key).and_then(|node| fields::rate(notes, node)).map(Rate::bits_per_second);
    let (uplink, downlink) = (rate("uplink"), rate("downlink"));
    Ok([uplink?, downlink?])
}

/// Text of printable ASCII characters.
fn word(notes: &Notes, node: &Node, what: &str, longest: usize) -> Result<String, Noted> {
    let text = fields::text(notes, node)?;
    if (1..=longest).contains(&text.len()) && text.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
        return Ok(text.to_owned());
    }
    let problem = Problem::new(node.at, format!("this cannot be {what}"));
    Err(notes.note(problem.remedy(format!("write 1 to {longest} printable ASCII characters"))))
}

/// A name of labels: a network instance, a node's FQDN (RFC 1035 2.3.4, TS 23.003 9.1).
pub(super) fn name(notes: &Notes, node: &Node) -> Result<Name, Noted> {
    let text = fields::text(notes, node)?;
    let error = match Name::new(text) {
        // As long as a domain name may be.
        Ok(name) if text.len() <= 253 => return Ok(name),
        Ok(_) => "it is longer than 253 characters".to_owned(),
        Err(error) => error.to_string(),
    };
    let problem = Problem::new(node.at, format!("`{text}` is not a name: {error}"));
    Err(notes.note(problem.remedy("write labels of 1 to 63 characters with dots between, as `pgwc.com`")))
}
