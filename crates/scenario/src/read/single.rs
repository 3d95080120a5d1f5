//! One link without a scenario, as `narrows link` wants it: from a profile and changes to it.

use std::path::Path as FilePath;

use link::{Change, DirectionConfig, PipeConfig};
use queue::Discipline;

use crate::plan::{IpVersion, Link, Path};
use crate::read::assign;
use crate::read::decode::Decoder;
use crate::read::fields;
use crate::read::file::read_beside;
use crate::read::problem::{At, Noted, Notes, Problem, ScenarioError};
use crate::read::traces::Traces;
use crate::read::yaml::{self, Entry, Node, Value};

/// A change of a running link.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkChange {
    /// Whether it is for the first direction.
    pub up: bool,
    /// Whether it is for the second.
    pub down: bool,
    /// The pipe: [`MAIN`](link::Direction::MAIN) or a branch's name.
    pub pipe: String,
    /// What changes.
    pub change: Change,
}

/// The link called `name` between the sites `ship` and `shore`, made from a profile and from changes
/// such as `loss=0.05` or `up.rate=2Mbit/s`. Queues are sized for an MTU of 1500; files are looked
/// for in the working directory.
///
/// # Errors
///
/// An unknown profile, and whatever a scenario's link may not be; the option is named.
pub fn link(name: &str, profile: &str, changes: &[String]) -> Result<Link, ScenarioError> {
    let notes = Notes::default();
    let made = make(&notes, name, Some(profile), changes);
    match made {
        Ok((link, _)) if notes.is_empty() => Ok(link),
        _ => Err(notes.into_error()),
    }
}

/// Changes of a running link, in order: `rate`, `delay`, `loss`, `duplicate`, `corrupt` or `queue`
/// (its limits), with `up.` or `down.` in front for one direction and then `branches.NAME.` for a
/// branch.
///
/// # Errors
///
/// A key that cannot change while packets pass, and whatever a scenario's link may not be.
pub fn link_changes(changes: &[String]) -> Result<Vec<LinkChange>, ScenarioError> {
    let notes = Notes::default();
    let made: Result<Vec<_>, Noted> = changes.iter().map(|change| change_of(&notes, change)).collect();
    match made {
        Ok(changes) if notes.is_empty() => Ok(changes),
        _ => Err(notes.into_error()),
    }
}

fn change_of(notes: &Notes, text: &str) -> Result<LinkChange, Noted> {
    const KEYS: [&str; 6] = ["rate", "delay", "loss", "duplicate", "corrupt", "queue"];
    let mut changes = vec![text.to_owned()];
    if let Some((branch, _)) = text.split_once('=').and_then(|(key, _)| key.trim().rsplit_once('.'))
        && branch.rsplit('.').nth(1) == Some("branches")
    {
        // Which packets the running branch takes is not known here, and stays.
        changes.insert(0, format!("{branch}.match={{probability: 1}}"));
    }
    let (made, mut paths) = make(notes, "link", None, &changes)?;
    let Some((at, path)) = paths.pop() else { return Err(missing_value(notes, text)) };
    let parts: Vec<&str> = path.iter().map(String::as_str).collect();
    let (direction, rest) = match parts.split_first() {
        Some((side @ (&"up" | &"down"), rest)) => (Some(*side), rest),
        _ => (None, &parts[..]),
    };
    let (pipe, key) = match rest {
        ["branches", name, key, ..] => (*name, *key),
        _ => (link::Direction::MAIN, rest.first().copied().unwrap_or_default()),
    };
    let Some([up, down]) = made.packets() else {
        let problem = Problem::new(at, "a line of characters cannot be changed like this");
        return Err(notes.note(problem.remedy("change a link that carries packets")));
    };
    let config = config(if direction == Some("down") { down } else { up }, pipe);
    let change = match key {
        "rate" => Change::Rate(config.rate.clone()),
        "delay" => Change::Delay(config.delay.clone()),
        "loss" => Change::Loss(config.loss.clone()),
        "duplicate" => Change::Duplicate(config.duplicate),
        "corrupt" => Change::Corrupt(config.corrupt),
        "queue" if config.queue.discipline != Discipline::DropTail || text.contains("bdp") => {
            let problem = Problem::new(at, "only the limits of a queue can change while a link runs");
            return Err(notes.note(problem.remedy("write `queue=50` or `queue=64KiB`")));
        }
        "queue" => Change::QueueLimits { packets: config.queue.packets, bytes: config.queue.bytes },
        _ => {
            let problem = Problem::new(at, format!("`{key}` cannot change while a link runs"));
            return Err(notes.note(problem.remedy(format!("change one of {}", fields::list(KEYS)))));
        }
    };
    let (up, down) = (direction != Some("down"), direction != Some("up"));
    Ok(LinkChange { up, down, pipe: pipe.to_owned(), change })
}

fn config<'a>(direction: &'a DirectionConfig, pipe: &str) -> &'a PipeConfig {
    direction.branches.iter().find(|branch| branch.name == pipe).map_or(&direction.pipe, |branch| &branch.pipe)
}

/// The link, and the place and path of each change.
type Made = (Link, Vec<(At, Vec<String>)>);

fn make(notes: &Notes, name: &str, profile: Option<&str>, changes: &[String]) -> Result<Made, Noted> {
    let sites = ["ship", "shore"].map(str::to_owned);
    let option = notes.source("--profile", profile.unwrap_or_default());
    let at = At::new(option, 0..profile.unwrap_or_default().chars().count());
    let text = |text: &str| Node { at, value: Value::Scalar(text.to_owned()) };
    let entry = |key: &str, value: Value| Entry { key: key.to_owned(), key_at: at, node: Node { at, value } };
    let mut entries = vec![entry("ends", Value::List(sites.iter().map(|site| text(site)).collect()))];
    entries.extend(profile.map(|profile| entry("profile", Value::Scalar(profile.to_owned()))));
    let mut node = Node { at, value: Value::Map(entries) };
    let mut paths = Vec::new();
    for change in changes {
        let (key, at, value) = key_and_value(notes, change)?;
        let path: Vec<String> = key.split('.').map(str::to_owned).collect();
        if path.iter().any(|part| part.is_empty() || part == "*") || path.len() > 16 {
            let problem = Problem::new(at, format!("`{key}` is not a key of a link"));
            return Err(notes.note(problem.remedy("write names joined by single dots, such as `up.rate`")));
        }
        assign::set(notes, &mut node, &path, at, &value)?;
        paths.push((at, path));
    }
    let read = |file: &str| read_beside(FilePath::new(""), file);
    let traces = Traces::new(&read, FilePath::new(""));
    let path = Path::host(IpVersion::V4);
    let link = Decoder { notes, traces: &traces }.link(name, &node, &sites, &path)?;
    Ok((link, paths))
}

/// The parts of an option `KEY=VALUE`, and where the key stands.
pub(crate) fn key_and_value<'a>(notes: &Notes, option: &'a str) -> Result<(&'a str, At, Node), Noted> {
    let Some((key, value)) = option.split_once('=').filter(|(_, value)| !value.trim().is_empty()) else {
        return Err(missing_value(notes, option));
    };
    let source = notes.source("--set", option);
    let at = At::new(source, 0..key.chars().count());
    // Blanks in place of the key keep the positions of the value.
    let blank: String = key.chars().chain(['=']).map(|_| ' ').collect();
    Ok((key.trim(), at, yaml::parse(notes, source, &format!("{blank}{value}"))?))
}

fn missing_value(notes: &Notes, option: &str) -> Noted {
    let source = notes.source("--set", option);
    let problem = Problem::new(At::new(source, 0..option.chars().count()), "a change needs a key and a value");
    notes.note(problem.remedy("write `KEY=VALUE`, such as `radio.loss=0.03`"))
}
