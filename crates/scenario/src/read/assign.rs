//! Dotted assignment onto the tree: what `--set`, `quick` and `sweep` have in common.

use crate::read::fields;
use crate::read::keys;
use crate::read::problem::{At, Noted, Notes, Problem};
use crate::read::yaml::{Entry, Node, Value};

/// A key such as `radio.loss`, resolved against a file.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// From the root, such as `links`, `radio`, `loss`.
    pub(crate) path: Vec<String>,
    pub(crate) at: At,
}

/// Which keys may be assigned to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// What a cell is made of.
    Sweep,
    /// That, and what the run as a whole is told.
    Change,
}

/// Stands for every link or every traffic entry.
const ALL: &str = "*";

impl Target {
    /// Resolves `key`, written at `at`: `radio.loss` is short for `links.radio.loss`.
    pub(crate) fn resolve(notes: &Notes, root: &Node, key: &str, at: At, scope: Scope) -> Result<Self, Noted> {
        let mut path: Vec<String> = key.split('.').map(|part| part.trim().to_owned()).collect();
        if path.iter().any(String::is_empty) || path.len() > 16 {
            let problem = Problem::new(at, format!("`{key}` is not a key"));
            return Err(notes.note(problem.remedy("write names joined by single dots, such as `radio.loss`")));
        }
        if names(root, "links").any(|link| link == path[0]) {
            path.insert(0, "links".to_owned());
        }
        let target = Self { path, at };
        let parts: Vec<&str> = target.path.iter().map(String::as_str).collect();
        match parts[..] {
            ["path"] | ["ip"] | ["traffic"] | ["measure", _] => Ok(target),
            ["name" | "description" | "seed"] if scope == Scope::Change => Ok(target),
            [group @ ("links" | "traffic"), ALL, _, ..] => names(root, group)
                .next()
                .map(|_| target.clone())
                .ok_or_else(|| notes.note(Problem::new(at, format!("`{key}` meets nothing: there are no {group}")))),
            [group @ ("links" | "traffic" | "paths"), name, _, ..] if names(root, group).any(|known| known == name) => {
                Ok(target)
            }
            [group @ ("links" | "traffic" | "paths"), name, _, ..] => {
                Err(fields::unknown(notes, at, kind(group), name, names(root, group), ""))
            }
            ["measure"] => {
                let problem = Problem::new(at, "`measure` cannot be assigned to as a whole");
                Err(notes.note(problem.remedy("name a key of it, such as `measure.duration`")))
            }
            [group @ ("links" | "paths"), ..] => {
                let problem = Problem::new(at, format!("`{key}` cannot be assigned to as a whole"));
                Err(notes.note(problem.remedy(format!("name a key of a {}, such as `{group}.NAME.KEY`", kind(group)))))
            }
            ["traffic", _] => {
                let problem = Problem::new(at, format!("`{key}` cannot be assigned to as a whole"));
                Err(notes
                    .note(problem.remedy(format!("name a key of it, or pick entries with `traffic`: `{}`", parts[1]))))
            }
            ["measure", ..] => {
                let problem = Problem::new(at, format!("`{key}` is not a key of `measure`"));
                Err(notes.note(
                    problem.remedy(format!("write `measure.KEY` with one of {}", fields::list(keys::MEASURE.names()))),
                ))
            }
            _ => {
                let valid = names(root, "links").chain(["links", "traffic", "ip", "path", "paths", "measure"]);
                let whole = ["name", "description", "seed"].into_iter().filter(|_| scope == Scope::Change);
                Err(fields::unknown(notes, at, "key", parts[0], valid.chain(whole), " to assign to"))
            }
        }
    }

    /// Whether this picks traffic entries or the path by name, or the version of IP.
    pub(crate) fn is_selector(&self) -> bool {
        self.path.len() == 1
    }

    /// Puts `value` where this points to.
    pub(crate) fn assign(&self, notes: &Notes, root: &mut Node, value: &Node) -> Result<(), Noted> {
        if self.path == ["traffic"] {
            return select_traffic(notes, root, value);
        }
        let met = set(notes, root, &self.path, self.at, value)?;
        if met == 0 {
            let problem = Problem::new(self.at, format!("`{}` meets no entry", self.path.join(".")));
            return Err(notes.note(problem.remedy(format!("no entry of `{}` has `{}`", self.path[0], self.path[2]))));
        }
        Ok(())
    }
}

fn kind(group: &str) -> &'static str {
    match group {
        "links" => "link",
        "paths" => "path",
        _ => "traffic entry",
    }
}

/// The names in one of the root's mappings.
pub(crate) fn names<'a>(root: &'a Node, group: &str) -> impl Iterator<Item = &'a str> {
    let entries = match root.entry(group).map(|entry| &entry.node.value) {
        Some(Value::Map(entries)) => entries.as_slice(),
        _ => &[],
    };
    entries.iter().map(|entry| entry.key.as_str())
}

/// Assigns below `node`; gives back how many places were met.
pub(crate) fn set(notes: &Notes, node: &mut Node, path: &[String], at: At, value: &Node) -> Result<usize, Noted> {
    let Some((first, rest)) = path.split_first() else {
        node.clone_from(value);
        return Ok(1);
    };
    if matches!(node.value, Value::Null) {
        *node = Node { at, value: Value::Map(Vec::new()) };
    }
    let kind = node.kind();
    let Value::Map(entries) = &mut node.value else {
        let problem = Problem::new(at, format!("there is {kind} where `{first}` is to be set, not a mapping"));
        return Err(notes.note(problem.remedy("assign the whole value instead, such as `{key: value}`")));
    };
    // At the end it would mean every key of something: it stands as a key then, which none knows.
    if let (ALL, Some(key)) = (first.as_str(), rest.first()) {
        let mut met = 0;
        for entry in entries.iter_mut().filter(|entry| meets(&entry.node, key)) {
            met += set(notes, &mut entry.node, rest, at, value)?;
        }
        return Ok(met);
    }
    let found = entries.iter().position(|entry| entry.key == *first);
    let index = found.unwrap_or(entries.len());
    if found.is_none() {
        entries.push(Entry { key: first.clone(), key_at: at, node: Node { at, value: Value::Null } });
    }
    if rest.is_empty() {
        // What is wrong with the value, or with the key itself, was written in the assignment.
        entries[index].key_at = at;
    }
    set(notes, &mut entries[index].node, rest, at, value)
}

/// Whether `*` means this entry, when `key` is set in it: protocols are only set where they are.
fn meets(entry: &Node, key: &str) -> bool {
    match key {
        "tcp" => entry.entry("tcp").is_some() || entry.entry("service").is_some(),
        "udp" | "ping" => entry.entry(key).is_some(),
        _ => true,
    }
}

/// Keeps the traffic entries that `value` names.
fn select_traffic(notes: &Notes, root: &mut Node, value: &Node) -> Result<(), Noted> {
    let wanted = fields::one_or_more(notes, value, "the choice of traffic")?;
    let mut keep = Vec::new();
    for node in wanted {
        let name = fields::text(notes, node)?;
        if !names(root, "traffic").any(|known| known == name) {
            return Err(fields::unknown(notes, node.at, "traffic entry", name, names(root, "traffic"), ""));
        }
        keep.push(name);
    }
    if let Value::Map(entries) = &mut root.value
        && let Some(traffic) = entries.iter_mut().find(|entry| entry.key == "traffic")
        && let Value::Map(entries) = &mut traffic.node.value
    {
        entries.retain(|entry| keep.contains(&entry.key.as_str()));
    }
    Ok(())
}
