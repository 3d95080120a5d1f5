//! Load files: from keys to a checked plan of a load. The thesis's spellings are taken as they are.

mod group;
mod traffic;

use std::net::IpAddr;
use std::path::Path;

use engine::Span;
use userplane::load::{Population, PopulationError, Taken};

use crate::load::{Generation, Interfaces, LoadPlan, PfcpOptions, Side, TeidChoice, Upf};
use crate::read::fields::{self, Fields};
use crate::read::file::{self, FileError};
use crate::read::keys;
use crate::read::problem::{At, Noted, Notes, Problem, ScenarioError};
use crate::read::yaml::{self, Node, Value};

/// Longest run: a day.
const LONGEST: Span = Span::from_secs(86_400);

/// Reads a load file. Captures it names are looked for beside it; they are not opened here.
/// `seed` holds if the file gives none.
///
/// # Errors
///
/// Everything that is wrong, each with its place and what to do.
pub fn load_file(path: &Path, seed: u64) -> Result<LoadPlan, ScenarioError> {
    let shown = path.display().to_string();
    match file::read_text(path, file::LONGEST_SCENARIO) {
        Ok(text) => {
            let stem = path.file_stem().map_or("load".into(), |stem| stem.to_string_lossy().into_owned());
            parse_load(&shown, &stem, &text, path.parent().unwrap_or(Path::new("")), seed)
        }
        Err(error) => {
            let remedy = match &error {
                FileError::Read(_) => "give the path of a load file",
                FileError::TooLong(_) | FileError::NotText => "a load is a short YAML text: is this the right file?",
            };
            let notes = Notes::default();
            notes.note(Problem::new(None, format!("cannot read `{shown}`: {error}")).remedy(remedy));
            Err(notes.into_error())
        }
    }
}

/// As [`load_file`], of a text that is already read: `shown` stands for it in messages, `stem` is its name if
/// it gives none, captures are beside `folder`.
///
/// # Errors
///
/// As [`load_file`].
pub fn parse_load(shown: &str, stem: &str, text: &str, folder: &Path, seed: u64) -> Result<LoadPlan, ScenarioError> {
    let notes = Notes::default();
    let source = notes.source(shown, text);
    let plan = yaml::parse(&notes, source, text).and_then(|root| decode(&notes, &root, stem, text, folder, seed));
    match plan {
        Ok(plan) if notes.is_empty() => Ok(plan),
        _ => Err(notes.into_error()),
    }
}

fn decode(notes: &Notes, root: &Node, stem: &str, text: &str, folder: &Path, seed: u64) -> Result<LoadPlan, Noted> {
    let top = Fields::read(notes, root, &keys::LOAD)?;
    let name = top.with("name", |notes, node| {
        fields::name(notes, node.at, fields::text(notes, node)?, "a load").map(str::to_owned)
    });
    let duration = duration(notes, &top);
    let samples = top.with("samples_per_second", |notes, node| fields::integer(notes, node, 1..=1_000));
    let seed =
        top.with("seed", |notes, node| fields::integer(notes, node, 0..=u64::MAX)).map(|own| own.unwrap_or(seed));
    let generation = top.with("generation", |notes, node| {
        fields::choice(notes, node, "generation", &[("5g", Generation::Five), ("4g", Generation::Four)])
    });
    let upf = upf(notes, &top);
    let capture = top.with("capture", fields::boolean);
    let gtpu_sequence = top.with("gtpu_sequence", fields::boolean);
    let pfcp = pfcp(notes, &top);
    let nodes = match top.need("session_group")? {
        Node { value: Value::List(_), .. } => fields::items(notes, top.need("session_group")?, "the session groups")?,
        one => std::slice::from_ref(one),
    };
    let groups = group::groups(notes, nodes, folder);
    let (groups, mut pfcp) = (groups?, pfcp?);
    for group in &groups {
        let Some((name, at)) = &group.node_id else { continue };
        if pfcp.node_id.as_ref().is_some_and(|other| other != name) {
            let problem = Problem::new(*at, format!("the node ID is `{name}` here and another one before"));
            return Err(notes.note(problem.remedy("one run is one node: give the same name everywhere, or once")));
        }
        pfcp.node_id = Some(name.clone());
    }
    let members = groups.iter().map(|group| group.members.clone()).collect();
    let population = Population::new(members).map_err(|error| {
        let at = place(&groups, &error).unwrap_or(root.at);
        fields::refuse(notes, at, &error)
    });
    Ok(LoadPlan {
        name: name?.unwrap_or_else(|| stem.to_owned()),
        source: text.to_owned(),
        seed: seed?,
        duration: duration?,
        samples_per_second: samples?.unwrap_or(10) as u32,
        generation: generation?.unwrap_or_default(),
        upf: upf?,
        pfcp,
        gtpu_sequence: gtpu_sequence?.unwrap_or(false),
        capture: capture?.unwrap_or(false),
        population: population?,
        groups: groups.into_iter().map(|group| group.plan).collect(),
    })
}

/// Where the value stands that two groups quarrel about, or that does not fit.
fn place(groups: &[group::Decoded], error: &PopulationError) -> Option<At> {
    let (group, key) = match error {
        PopulationError::Overlap(overlap) => {
            let key = match overlap.what {
                Taken::Ue => "start_ue_address",
                Taken::Teid => "start_teid",
                Taken::UeAndPdn => "pdn_start_address",
            };
            (overlap.group, key)
        }
        PopulationError::Teid { group, .. } => (*group, "start_teid"),
        PopulationError::Versions { group, .. } => (*group, "pdn_start_address"),
        PopulationError::TooMany { .. } => return None,
    };
    let group = groups.get(group)?;
    Some(group.node.entry(key).or_else(|| group.node.entry("start_ue_address")).map_or(group.node.at, |e| e.node.at))
}

fn duration(notes: &Notes, top: &Fields<'_>) -> Result<Span, Noted> {
    let entry = match (top.entry("duration"), top.entry("run_time")) {
        (Some(_), Some(second)) => {
            let problem = Problem::new(second.key_at, "`duration` and `run_time` say the same");
            return Err(notes.note(problem.remedy("keep one of the two")));
        }
        (first, second) => first.or(second),
    };
    let Some(entry) = entry else { return Ok(Span::from_secs(10)) };
    let span = seconds(notes, &entry.node)?;
    if span > LONGEST {
        let problem = Problem::new(entry.node.at, format!("{span} is longer than a run may be"));
        return Err(notes.note(problem.remedy(format!("choose at most {LONGEST}"))));
    }
    Ok(span)
}

/// A length of time over zero; a number alone counts seconds, as in the thesis's files.
pub(super) fn seconds(notes: &Notes, node: &Node) -> Result<Span, Noted> {
    match &node.value {
        Value::Scalar(text) if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) => {
            Ok(Span::from_secs(fields::integer(notes, node, 1..=u64::from(u32::MAX))?))
        }
        _ => fields::positive_span(notes, node),
    }
}

fn upf(notes: &Notes, top: &Fields<'_>) -> Result<Upf, Noted> {
    let given = ["n3", "n4", "n6"].into_iter().find_map(|key| top.entry(key));
    let own = top.with("upf", |notes, node| fields::choice(notes, node, "UPF", &[("own", true), ("other", false)]))?;
    if own.unwrap_or(given.is_none()) {
        if let Some(entry) = given {
            let problem = Problem::new(entry.key_at, format!("`{}` leads to another UPF than the own one", entry.key));
            return Err(notes.note(problem.remedy("leave away `n3`, `n4` and `n6`, or write `upf: other`")));
        }
        return Ok(Upf::Own);
    }
    let n3 = top.need("n3").and_then(|node| side(notes, node));
    let n6 = top.need("n6").and_then(|node| side(notes, node));
    let n4 = top.need("n4").and_then(|node| {
        let fields = Fields::read(notes, node, &keys::CONTROL)?;
        let own = fields.with("address", address);
        Ok((fields.need("upf").and_then(|node| address(notes, node))?, own?))
    });
    let ((n4_upf, n4_address), n3, n6) = (n4?, n3?, n6?);
    Ok(Upf::Other(Box::new(Interfaces { n3, n6, n4_address, n4_upf })))
}

fn side(notes: &Notes, node: &Node) -> Result<Side, Noted> {
    let fields = Fields::read(notes, node, &keys::INTERFACE)?;
    let interface = fields.need("interface").and_then(|node| {
        let name = fields::text(notes, node)?;
        // IFNAMSIZ, with its end.
        if (1..16).contains(&name.len()) && !name.contains(['/', ' ']) {
            return Ok(name.to_owned());
        }
        let problem = Problem::new(node.at, format!("`{name}` cannot be an interface's name"));
        Err(notes.note(problem.remedy("give one that `ip link` lists")))
    });
    let own = fields.need("address").and_then(|node| Ok((address(notes, node)?, node.at)));
    let gateway = fields.with("gateway", address);
    let upf = fields.with("upf", address);
    let (interface, (own, at), gateway, upf) = (interface?, own?, gateway?, upf?);
    let Some((upf, gateway)) = upf.or(gateway).zip(gateway.or(upf)) else {
        return Err(fields.need("upf").err().unwrap_or_else(|| notes.note(Problem::new(at, "no next hop"))));
    };
    if own == gateway || own.is_ipv4() != gateway.is_ipv4() {
        let problem = Problem::new(at, format!("{own} cannot reach {gateway}"));
        return Err(notes.note(problem.remedy("give two addresses of the same version")));
    }
    Ok(Side { interface, address: own, upf, gateway })
}

pub(super) fn address(notes: &Notes, node: &Node) -> Result<IpAddr, Noted> {
    let text = fields::text(notes, node)?;
    text.parse().map_err(|_| {
        let problem = Problem::new(node.at, format!("`{text}` is not an IP address"));
        notes.note(problem.remedy("write for example `22.64.0.1` or `2001:db8::1`"))
    })
}

fn pfcp(notes: &Notes, top: &Fields<'_>) -> Result<PfcpOptions, Noted> {
    let default = PfcpOptions::default();
    let Some(node) = top.get("pfcp") else { return Ok(default) };
    let fields = Fields::read(notes, node, &keys::PFCP)?;
    let node_id = fields.with("node_id", group::name);
    let teids = [("choose", TeidChoice::Upf), ("fixed", TeidChoice::Fixed)];
    let teid = fields.with("teid", |notes, node| fields::choice(notes, node, "way", &teids));
    let apply_action = fields.with("apply_action", |notes, node| fields::integer(notes, node, 1..=2));
    let forms = [("labels", true), ("text", false)];
    let labels = fields.with("network_instance", |notes, node| fields::choice(notes, node, "form", &forms));
    let interface_type = fields.with("interface_type", fields::boolean);
    let window = fields.with("window", |notes, node| fields::integer(notes, node, 1..=1_024));
    let n1 = fields.with("n1", |notes, node| fields::integer(notes, node, 1..=20));
    let (t1, heartbeat) = (fields.with("t1", seconds), fields.with("heartbeat", seconds));
    Ok(PfcpOptions {
        node_id: node_id?,
        teid: teid?.unwrap_or(default.teid),
        apply_action: apply_action?.map_or(default.apply_action, |octets| octets as u8),
        network_instance_labels: labels?.unwrap_or(default.network_instance_labels),
        interface_type: interface_type?.unwrap_or(default.interface_type),
        window: window?.map_or(default.window, |window| window as u16),
        t1: t1?.unwrap_or(default.t1),
        n1: n1?.map_or(default.n1, |n1| n1 as u8),
        heartbeat: heartbeat?.unwrap_or(default.heartbeat),
    })
}
