//! Reading a mapping by its known keys, and scalars by their kinds. Whatever is wrong is noted with
//! its place and a remedy.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use engine::{Rate, Size, Span};

use crate::read::keys::Table;
use crate::read::problem::{At, Noted, Notes, Problem};
use crate::read::yaml::{Entry, Node, Value};

/// A mapping whose keys are all known.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'a> {
    notes: &'a Notes,
    table: &'static Table,
    entries: &'a [Entry],
    /// Where the mapping stands.
    pub(crate) at: At,
}

impl<'a> Fields<'a> {
    /// The mapping `node`, after its keys are compared with the table's. Unknown keys are noted and
    /// do not keep the others from being read.
    pub(crate) fn read(notes: &'a Notes, node: &'a Node, table: &'static Table) -> Result<Self, Noted> {
        let entries = map(notes, node, table.what)?;
        for entry in entries {
            if !table.has(&entry.key) {
                unknown(notes, entry.key_at, "key", &entry.key, table.names(), &format!(" in {}", table.what));
            }
        }
        Ok(Self { notes, table, entries, at: node.at })
    }

    /// The entry called `key`, if it is there and something is written after it.
    pub(crate) fn entry(&self, key: &str) -> Option<&'a Entry> {
        debug_assert!(self.table.has(key), "`{key}` is missing from the table");
        self.entries.iter().find(|entry| entry.key == key && !matches!(entry.node.value, Value::Null))
    }

    /// The value of `key`.
    pub(crate) fn get(&self, key: &str) -> Option<&'a Node> {
        self.entry(key).map(|entry| &entry.node)
    }

    /// The value of a key that must be there.
    pub(crate) fn need(&self, key: &str) -> Result<&'a Node, Noted> {
        self.get(key).ok_or_else(|| {
            let about = self.table.keys.iter().find(|known| known.name == key);
            let example = about.map_or(String::new(), |known| format!(": {}", known.value));
            let problem = Problem::new(self.at, format!("`{key}` is missing in {}", self.table.what));
            self.notes.note(problem.remedy(format!("write `{key}{example}`")))
        })
    }

    /// Reads the value of `key` with `read`, if it is there.
    pub(crate) fn with<T>(
        &self,
        key: &str,
        read: impl FnOnce(&'a Notes, &'a Node) -> Result<T, Noted>,
    ) -> Result<Option<T>, Noted> {
        self.get(key).map(|node| read(self.notes, node)).transpose()
    }
}

/// The entries of a mapping.
pub(crate) fn map<'a>(notes: &Notes, node: &'a Node, what: &str) -> Result<&'a [Entry], Noted> {
    match &node.value {
        Value::Map(entries) => Ok(entries),
        _ => {
            let problem =
                Problem::new(node.at, format!("{what} must be a mapping of keys to values, not {}", node.kind()));
            Err(notes.note(problem.remedy("write `key: value` lines, or `{key: value, …}`")))
        }
    }
}

/// The only entry of a mapping that says which of several kinds is meant, as `{kind: value}`.
pub(crate) fn variant<'a>(notes: &Notes, node: &'a Node, table: &'static Table) -> Result<&'a Entry, Noted> {
    let entries = map(notes, node, table.what)?;
    let [entry] = entries else {
        let problem = Problem::new(node.at, format!("{} has exactly one key, which says its kind", table.what));
        return Err(notes.note(problem.remedy(format!("choose one of {}", list(table.names())))));
    };
    if table.has(&entry.key) {
        return Ok(entry);
    }
    Err(unknown(notes, entry.key_at, "key", &entry.key, table.names(), &format!(" in {}", table.what)))
}

/// The items of a list, which must not be empty.
pub(crate) fn items<'a>(notes: &Notes, node: &'a Node, what: &str) -> Result<&'a [Node], Noted> {
    match &node.value {
        Value::List(items) if !items.is_empty() => Ok(items),
        Value::List(_) => {
            Err(notes.note(Problem::new(node.at, format!("{what} must not be empty")).remedy("name at least one")))
        }
        _ => {
            let problem = Problem::new(node.at, format!("{what} must be a list, not {}", node.kind()));
            Err(notes.note(problem.remedy("write `[one, two]`")))
        }
    }
}

/// One text or a list of texts.
pub(crate) fn one_or_more<'a>(notes: &Notes, node: &'a Node, what: &str) -> Result<&'a [Node], Noted> {
    match &node.value {
        Value::Scalar(_) => Ok(std::slice::from_ref(node)),
        _ => items(notes, node, what),
    }
}

/// A single value as text.
pub(crate) fn text<'a>(notes: &Notes, node: &'a Node) -> Result<&'a str, Noted> {
    match &node.value {
        Value::Scalar(text) => Ok(text),
        _ => {
            let problem = Problem::new(node.at, format!("a single value is wanted here, not {}", node.kind()));
            Err(notes.note(problem.remedy("write one value; only what is swept has several")))
        }
    }
}

/// A name: letters, digits, `-` and `_`, so that it can stand in a key, a column and a file name.
pub(crate) fn name<'a>(notes: &Notes, at: At, name: &'a str, what: &str) -> Result<&'a str, Noted> {
    let ok = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.len() <= 64 && name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(ok) {
        return Ok(name);
    }
    let problem = Problem::new(at, format!("`{name}` cannot be the name of {what}"));
    Err(notes.note(problem.remedy("use up to 64 letters, digits, `-` and `_`, beginning with a letter or digit")))
}

/// A rate with its unit.
pub(crate) fn rate(notes: &Notes, node: &Node) -> Result<Rate, Noted> {
    quantity(notes, node)
}

/// A length of time with its unit.
pub(crate) fn span(notes: &Notes, node: &Node) -> Result<Span, Noted> {
    quantity(notes, node)
}

/// A length of time over zero.
pub(crate) fn positive_span(notes: &Notes, node: &Node) -> Result<Span, Noted> {
    match span(notes, node)? {
        Span::ZERO => {
            let problem = Problem::new(node.at, "this time must be more than zero");
            Err(notes.note(problem.remedy("write for example `1s`")))
        }
        span => Ok(span),
    }
}

/// A number of bytes with its unit, within `range`.
pub(crate) fn size(notes: &Notes, node: &Node, range: RangeInclusive<u64>) -> Result<Size, Noted> {
    let size: Size = quantity(notes, node)?;
    if range.contains(&size.bytes()) {
        return Ok(size);
    }
    let problem = Problem::new(node.at, format!("{size} is not possible here"));
    let (least, most) = (Size::from_bytes(*range.start()), Size::from_bytes(*range.end()));
    Err(notes.note(problem.remedy(format!("choose from {least} to {most}"))))
}

fn quantity<T: FromStr<Err: Display>>(notes: &Notes, node: &Node) -> Result<T, Noted> {
    let text = text(notes, node)?;
    text.parse().map_err(|error| refuse(notes, node.at, &error))
}

/// Notes what a library refuses; its messages say what is wrong, and after a semicolon what to do.
pub(crate) fn refuse(notes: &Notes, at: At, error: &impl Display) -> Noted {
    let error = error.to_string();
    let (what, remedy) = error.split_once("; ").unwrap_or((&error, ""));
    notes.note(Problem::new(at, what).remedy(remedy))
}

/// A whole number within `range`.
pub(crate) fn integer(notes: &Notes, node: &Node, range: RangeInclusive<u64>) -> Result<u64, Noted> {
    let text = text(notes, node)?;
    let number = text.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| {
        let problem = Problem::new(node.at, format!("`{text}` is not a whole number that is possible here"));
        notes.note(problem.remedy(format!("choose from {} to {}", range.start(), range.end())))
    })
}

/// A probability: `0.03` or `3%`.
pub(crate) fn probability(notes: &Notes, node: &Node) -> Result<f64, Noted> {
    let text = text(notes, node)?;
    let number = match text.strip_suffix('%') {
        Some(percent) => decimal(percent.trim_end()).map(|number| number / 100.0),
        None => decimal(text),
    };
    match number {
        Some(number) if (0.0..=1.0).contains(&number) => Ok(number),
        Some(_) => {
            let problem = Problem::new(node.at, format!("`{text}` is not a probability"));
            Err(notes.note(problem.remedy("choose from 0 to 1, or from 0% to 100%")))
        }
        None => {
            let problem = Problem::new(node.at, format!("`{text}` is not a number"));
            Err(notes.note(problem.remedy("write a probability as `0.03` or `3%`")))
        }
    }
}

/// A finite number.
pub(crate) fn number(notes: &Notes, node: &Node) -> Result<f64, Noted> {
    let text = text(notes, node)?;
    decimal(text).ok_or_else(|| {
        let problem = Problem::new(node.at, format!("`{text}` is not a number"));
        notes.note(problem.remedy("write for example `2.5`"))
    })
}

/// A number that must be over `least`.
pub(crate) fn number_over(notes: &Notes, node: &Node, least: f64) -> Result<f64, Noted> {
    match number(notes, node)? {
        number if number > least => Ok(number),
        number => {
            let problem = Problem::new(node.at, format!("{number} is not possible here"));
            Err(notes.note(problem.remedy(format!("choose a number over {least}"))))
        }
    }
}

/// A finite number in decimal notation.
pub(crate) fn decimal(text: &str) -> Option<f64> {
    // `f64` would also take `inf`, `nan` and `infinity`.
    let plain = text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'-' | b'+' | b'e' | b'E'));
    text.parse().ok().filter(|number: &f64| plain && number.is_finite())
}

/// `true` or `false`.
pub(crate) fn boolean(notes: &Notes, node: &Node) -> Result<bool, Noted> {
    choice(notes, node, "value", &[("true", true), ("false", false)])
}

/// One of several words.
pub(crate) fn choice<T: Copy>(notes: &Notes, node: &Node, what: &str, choices: &[(&str, T)]) -> Result<T, Noted> {
    let text = text(notes, node)?;
    let chosen = choices.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
    chosen.ok_or_else(|| unknown(notes, node.at, what, text, choices.iter().map(|(name, _)| *name), ""))
}

/// Notes that `text` is none of the valid names, and which of them it may have been meant to be.
pub(crate) fn unknown<'a>(
    notes: &Notes,
    at: At,
    what: &str,
    text: &str,
    valid: impl IntoIterator<Item = &'a str>,
    place: &str,
) -> Noted {
    let mut valid: Vec<&str> = valid.into_iter().collect();
    let mut seen = BTreeSet::new();
    valid.retain(|name| seen.insert(*name));
    let problem = Problem::new(at, format!("unknown {what} `{text}`{place}"));
    let problem = match nearest(text, &valid) {
        Some(near) => problem.label(format!("did you mean `{near}`?")),
        None => problem,
    };
    let remedy = if valid.is_empty() { "there is none to choose from".to_owned() } else { choose(&valid) };
    notes.note(problem.remedy(remedy))
}

fn choose(valid: &[&str]) -> String {
    match valid {
        [only] => format!("the only choice is `{only}`"),
        _ => format!("choose one of {}", list(valid.iter().copied())),
    }
}

/// The valid name that `text` most likely stands for, if one is near.
fn nearest<'a>(text: &str, valid: &[&'a str]) -> Option<&'a str> {
    // A number is not a slip for another one.
    if text.len() > 64 || decimal(text).is_some() {
        return None;
    }
    let lower = text.to_lowercase();
    let score = |name: &str| strsim::jaro_winkler(&lower, &name.to_lowercase());
    let best = valid.iter().copied().max_by(|a, b| score(a).total_cmp(&score(b)))?;
    (score(best) >= 0.8).then_some(best)
}

/// Names for a message, each in backquotes; a long list is cut.
pub(crate) fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    const MOST: usize = 40;
    let names: Vec<_> = names.into_iter().collect();
    let mut out = names.iter().take(MOST).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    if names.len() > MOST {
        out.push_str(&format!(" and {} more", names.len() - MOST));
    }
    out
}
