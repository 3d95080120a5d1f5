//! What is swept: axes, their values, and the tree of every cell.

use std::cmp::Ordering;

use engine::{Rate, Size, Span};
use measure::{Axis, Scalar};

use crate::read::assign::{Scope, Target};
use crate::read::fields::{self, Fields};
use crate::read::keys;
use crate::read::problem::{At, Noted, Notes, Problem};
use crate::read::yaml::{Node, Value};

/// Most cells of a plan, repeats included.
pub(crate) const MOST_CELLS: u64 = 100_000;
/// Most values that all cells are decoded from together.
const MOST_VALUES: u64 = 50_000_000;

/// One swept key.
#[derive(Clone, Debug)]
pub(crate) struct SweptKey {
    /// As the file writes it.
    pub(crate) key: String,
    pub(crate) target: Target,
    pub(crate) values: Vec<SweptValue>,
}

#[derive(Clone, Debug)]
pub(crate) struct SweptValue {
    pub(crate) scalar: Scalar,
    node: Node,
}

/// A file with its changes applied: the tree that cells start from, and what is swept.
#[derive(Clone, Debug)]
pub(crate) struct Variant {
    pub(crate) root: Node,
    pub(crate) swept: Vec<SweptKey>,
    /// Paths that `quick` or `--set` assigned.
    pub(crate) changed: Vec<Vec<String>>,
    /// Where the sweep is written.
    pub(crate) at: Option<At>,
}

impl Variant {
    /// The file as it is.
    pub(crate) fn new(notes: &Notes, root: &Node) -> Result<Self, Noted> {
        let mut swept: Vec<SweptKey> = Vec::new();
        if let Some(sweep) = root.entry("sweep").filter(|entry| !matches!(entry.node.value, Value::Null)) {
            for entry in fields::map(notes, &sweep.node, "`sweep`")? {
                let target = Target::resolve(notes, root, &entry.key, entry.key_at, Scope::Sweep)?;
                if target.path == ["measure", "repeat"] {
                    let problem = Problem::new(entry.key_at, "the number of repeats cannot be swept");
                    return Err(notes.note(problem.remedy("set `measure: {repeat: N}` for all cells")));
                }
                if swept.iter().any(|other| other.target.path == target.path) {
                    let problem = Problem::new(entry.key_at, format!("`{}` is swept twice", entry.key));
                    return Err(notes.note(problem.remedy("keep one of the two")));
                }
                let values = values(notes, &entry.node, &target, false)?;
                swept.push(SweptKey { key: entry.key.clone(), target, values });
            }
        }
        let mut cell = root.clone();
        if let Value::Map(entries) = &mut cell.value {
            // Every cell starts from a copy: leave out what is none of its matter.
            entries.retain(|entry| !["sweep", "quick", "expect", "figures", "findings"].contains(&entry.key.as_str()));
        }
        Ok(Self { root: cell, swept, changed: Vec::new(), at: root.entry("sweep").map(|entry| entry.key_at) })
    }

    /// Applies one change: a swept key gets other values, anything else is assigned.
    pub(crate) fn change(&mut self, notes: &Notes, target: &Target, node: &Node) -> Result<(), Noted> {
        self.changed.push(target.path.clone());
        match self.swept.iter_mut().find(|swept| swept.target.path == target.path) {
            Some(swept) => {
                swept.values = values(notes, node, target, true)?;
                Ok(())
            }
            None => target.assign(notes, &mut self.root, node),
        }
    }

    /// Number of points of the sweep, if so many can be run `repeats` times.
    pub(crate) fn checked_points(&self, notes: &Notes, repeats: u64) -> Result<u64, Noted> {
        let points = self.swept.iter().fold(1, |points: u64, swept| points.saturating_mul(swept.values.len() as u64));
        let cells = points.saturating_mul(repeats);
        if cells > MOST_CELLS {
            let problem = Problem::new(self.at, format!("this plan has {cells} cells"));
            return Err(notes.note(problem.remedy(format!("a plan has at most {MOST_CELLS}: sweep over less"))));
        }
        if points.saturating_mul(self.root.count()) > MOST_VALUES {
            let problem = Problem::new(self.at, format!("{points} cells of a file this long are too many"));
            return Err(notes.note(problem.remedy("sweep over less, or take out what the sweep does not need")));
        }
        Ok(points)
    }

    /// The tree of a point and its coordinates; the last key changes fastest. The key `except` is
    /// left as the file has it.
    pub(crate) fn point(
        &self,
        notes: &Notes,
        point: u64,
        except: Option<&SweptKey>,
    ) -> Result<(Node, Vec<(String, Scalar)>), Noted> {
        let mut rest = point;
        let mut chosen: Vec<(&SweptKey, &SweptValue)> = Vec::with_capacity(self.swept.len());
        for swept in self.swept.iter().rev() {
            let count = swept.values.len() as u64;
            chosen.push((swept, &swept.values[(rest % count) as usize]));
            rest /= count;
        }
        chosen.reverse();
        let mut root = self.root.clone();
        // Entries are picked last, so that what is set in each of them finds it.
        for pick in [false, true] {
            let left = |swept: &SweptKey| except.is_some_and(|except| except.target.path == swept.target.path);
            let applied = |swept: &SweptKey| swept.target.is_selector() == pick && !left(swept);
            for (swept, value) in chosen.iter().filter(|(swept, _)| applied(swept)) {
                swept.target.assign(notes, &mut root, &value.node)?;
            }
        }
        let coordinates = chosen.iter().map(|(swept, value)| (swept.key.clone(), value.scalar.clone())).collect();
        Ok((root, coordinates))
    }

    /// Keys that are swept over but also written, so that what is written goes unused: it must make
    /// sense all the same.
    pub(crate) fn overwritten(&self) -> impl Iterator<Item = &SweptKey> {
        self.swept.iter().filter(|swept| {
            let mut path = swept.target.path.iter();
            path.try_fold(&self.root, |node, key| node.entry(key).map(|entry| &entry.node)).is_some()
        })
    }

    /// The axes, for the study.
    pub(crate) fn axes(&self) -> Vec<Axis> {
        let scalars = |swept: &SweptKey| swept.values.iter().map(|value| value.scalar.clone()).collect();
        self.swept.iter().map(|swept| Axis { key: swept.key.clone(), values: scalars(swept) }).collect()
    }
}

/// The values of a swept key: a list, a range, or (`single`) one value.
fn values(notes: &Notes, node: &Node, target: &Target, single: bool) -> Result<Vec<SweptValue>, Noted> {
    let nodes = match &node.value {
        Value::List(items) if !items.is_empty() => items.clone(),
        Value::List(_) => {
            let problem = Problem::new(node.at, "this sweeps over nothing");
            return Err(notes.note(problem.remedy("name at least one value, or leave the key away")));
        }
        Value::Map(_) if ["from", "to", "step"].iter().any(|key| node.entry(key).is_some()) => range(notes, node)?,
        Value::Scalar(_) | Value::Map(_) if single => vec![node.clone()],
        _ => {
            let problem = Problem::new(node.at, format!("a sweep goes over several values, this is {}", node.kind()));
            return Err(
                notes.note(problem.remedy("write a list `[0, 0.03]` or a range `{from: 0, to: 0.1, step: 0.01}`"))
            );
        }
    };
    let mut values: Vec<SweptValue> = Vec::with_capacity(nodes.len());
    let mut labels = std::collections::BTreeSet::new();
    for node in nodes {
        let scalar = scalar(&node, target.is_selector());
        if !labels.insert(scalar.label.clone()) {
            let problem = Problem::new(node.at, format!("the value `{}` stands here twice", scalar.label));
            return Err(notes.note(
                problem
                    .label("second time")
                    .remedy("each value is run once: keep one; for repeats set `measure.repeat`"),
            ));
        }
        values.push(SweptValue { scalar, node });
    }
    Ok(values)
}

/// How a value is called, and which number it is.
fn scalar(node: &Node, name: bool) -> Scalar {
    if let (Value::List(items), true) = (&node.value, name) {
        let label = items.iter().map(Node::flow).collect::<Vec<_>>().join("+");
        return Scalar { label, number: None };
    }
    let text = node.flow();
    Scalar { label: if name { text.clone() } else { label(&text) }, number: number(&text) }
}

/// The one way a value is written: `0.10` and `.1` are `0.1`.
pub(crate) fn label(text: &str) -> String {
    let text = text.trim();
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    match text.split_once('.') {
        Some((whole, fraction)) if digits(whole) && digits(fraction) && !(whole.is_empty() && fraction.is_empty()) => {
            let (whole, fraction) = (if whole.is_empty() { "0" } else { whole }, fraction.trim_end_matches('0'));
            if fraction.is_empty() { whole.to_owned() } else { format!("{whole}.{fraction}") }
        }
        _ => text.to_owned(),
    }
}

/// The value as a number in its base unit: 1, bit/s, s or B.
pub(crate) fn number(text: &str) -> Option<f64> {
    let plain = || fields::decimal(text);
    let percent = || text.strip_suffix('%').and_then(|text| fields::decimal(text.trim_end())).map(|n| n / 100.0);
    let rate = || text.parse::<Rate>().ok().map(|rate| rate.bits_per_second() as f64);
    let span = || text.parse::<Span>().ok().map(Span::as_secs_f64);
    let size = || text.parse::<Size>().ok().map(|size| size.bytes() as f64);
    plain().or_else(percent).or_else(rate).or_else(span).or_else(size)
}

/// The values of a range, stepped exactly.
fn range(notes: &Notes, node: &Node) -> Result<Vec<Node>, Noted> {
    let fields = Fields::read(notes, node, &keys::RANGE)?;
    let mut ends = Vec::with_capacity(3);
    for key in ["from", "to", "step"] {
        let node = fields.need(key)?;
        let text = fields::text(notes, node)?;
        let Some(decimal) = Decimal::parse(text) else {
            let problem = Problem::new(node.at, format!("`{text}` is not a number to step by"));
            return Err(
                notes.note(problem.remedy("write decimal numbers, with the same unit for all three if they have one"))
            );
        };
        ends.push((decimal, node.at));
    }
    let [(from, _), (to, to_at), (step, step_at)] = [ends[0].clone(), ends[1].clone(), ends[2].clone()];
    let unit = [&from, &to, &step].into_iter().map(|d| d.unit.as_str()).find(|unit| !unit.is_empty()).unwrap_or("");
    if let Some((_, at)) = ends.iter().find(|(d, _)| d.unit != unit && !(d.unit.is_empty() && d.digits == 0)) {
        let problem = Problem::new(*at, "the units of a range differ");
        return Err(notes.note(problem.remedy(format!("write all three in `{unit}`"))));
    }
    let scale = from.scale.max(to.scale).max(step.scale);
    let (first, last, stride) = (from.at_scale(scale), to.at_scale(scale), step.at_scale(scale));
    let wrong = match (stride.cmp(&0), last.cmp(&first)) {
        (Ordering::Equal, _) => Some("a step of zero never arrives".to_owned()),
        (Ordering::Greater, Ordering::Less) | (Ordering::Less, Ordering::Greater) => {
            Some("this step leads away from `to`".to_owned())
        }
        _ => None,
    };
    if let Some(what) = wrong {
        let remedy = "give the step the sign that leads from `from` to `to`";
        return Err(notes.note(Problem::new(step_at, what).remedy(remedy)));
    }
    let steps = ((last - first) / stride).unsigned_abs();
    if steps >= u128::from(MOST_CELLS) {
        let problem = Problem::new(to_at, format!("this range has {} values", steps + 1));
        return Err(notes.note(problem.remedy(format!("a plan has at most {MOST_CELLS} cells: take a larger step"))));
    }
    let value = |i: i128| Decimal { digits: first + i * stride, scale, unit: unit.to_owned() }.write();
    let count = i128::try_from(steps).unwrap_or(0);
    Ok((0..=count).map(|i| Node { at: node.at, value: Value::Scalar(value(i)) }).collect())
}

/// A decimal number, exactly, and the unit that follows it.
#[derive(Clone, Debug)]
struct Decimal {
    digits: i128,
    /// Number of digits after the point.
    scale: u32,
    unit: String,
}

impl Decimal {
    fn parse(text: &str) -> Option<Self> {
        let end = text.find(|c: char| !c.is_ascii_digit() && !matches!(c, '.' | '-' | '+')).unwrap_or(text.len());
        let (number, unit) = (&text[..end], text[end..].trim());
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.len() > 18 || fraction.len() > 9 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let digits = format!("{whole}{fraction}").parse().ok()?;
        Some(Self { digits, scale: u32::try_from(fraction.len()).ok()?, unit: unit.to_owned() })
    }

    fn at_scale(&self, scale: u32) -> i128 {
        // At most 18 + 9 digits and 9 more: well within an i128.
        self.digits * 10i128.pow(scale - self.scale)
    }

    fn write(&self) -> String {
        let sign = if self.digits < 0 { "-" } else { "" };
        let (one, digits) = (10u128.pow(self.scale), self.digits.unsigned_abs());
        let width = self.scale as usize;
        let number = label(&format!("{}.{:0width$}", digits / one, digits % one));
        format!("{sign}{number}{}", self.unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stepped(from: &str, to: &str, step: &str) -> Result<Vec<String>, String> {
        let notes = Notes::default();
        let text = format!("{{from: {from}, to: {to}, step: {step}}}");
        let source = notes.source("range", text.as_str());
        let node = crate::read::yaml::parse(&notes, source, &text).unwrap();
        match range(&notes, &node) {
            Ok(nodes) => Ok(nodes.iter().map(Node::flow).collect()),
            Err(_) => Err(notes.into_error().lines().collect::<Vec<_>>().join("\n")),
        }
    }

    #[test]
    fn ranges_are_stepped_in_exact_decimals() {
        let losses = stepped("0", "0.10", "0.01").unwrap();
        assert_eq!(losses.join(" "), "0 0.01 0.02 0.03 0.04 0.05 0.06 0.07 0.08 0.09 0.1");
        assert_eq!(stepped("10ms", "35ms", "10ms").unwrap(), ["10ms", "20ms", "30ms"]);
        assert_eq!(stepped("3", "1", "-1").unwrap(), ["3", "2", "1"]);
        assert_eq!(stepped("0", "1Mbit/s", "0.5Mbit/s").unwrap(), ["0Mbit/s", "0.5Mbit/s", "1Mbit/s"]);
        assert_eq!(stepped("-0.1", "0.1", "0.1").unwrap(), ["-0.1", "0", "0.1"]);
    }

    #[test]
    fn ranges_that_never_end_are_refused() {
        for (from, to, step) in [("0", "1", "0"), ("0", "1", "-0.1"), ("1", "0", "0.1"), ("0", "1", "0.000001")] {
            assert!(stepped(from, to, step).is_err(), "{from} {to} {step}");
        }
        assert!(stepped("0ms", "1s", "1ms").unwrap_err().contains("units"));
    }

    #[test]
    fn a_value_has_one_label() {
        for (text, expected) in
            [("0.10", "0.1"), (".5", "0.5"), ("0.0", "0"), ("5g-1", "5g-1"), ("1.5Mbit/s", "1.5Mbit/s"), (".", ".")]
        {
            assert_eq!(label(text), expected);
        }
    }
}
