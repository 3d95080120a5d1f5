//! What must hold, judged by the median over the repeats.

use serde::Serialize;

use crate::analysis::{Group, NotJudged, Verdict};
use crate::{Expectation, Metric, Relation, Selection};

/// An expectation, judged. It holds if it holds in every selected group; a group without a repeat
/// that can be trusted is not judged, and named.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Held {
    /// The expectation in words.
    pub text: String,
    /// Whether it holds.
    pub verdict: Verdict,
    /// How many groups were judged.
    pub judged: usize,
    /// The value nearest to the wrong side, or furthest on it.
    pub tightest: Option<Shown>,
    /// The groups in which it fails, worst first.
    pub failed: Vec<Shown>,
    /// The groups or repeats that were not judged.
    pub not_judged: Vec<NotJudged>,
    /// What was judged.
    #[serde(skip)]
    pub metric: Metric,
    /// Whether the values are ratios to other groups.
    pub relative: bool,
}

/// A value and where it was seen.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Shown {
    /// The group in words.
    pub label: String,
    /// The value in the metric's base unit, or the ratio.
    pub value: f64,
}

pub(crate) fn judge(expectation: &Expectation, groups: &[Group]) -> Held {
    let metric = expectation.that;
    let mut not_judged = Vec::new();
    let mut values = Vec::new();
    for group in groups.iter().filter(|g| g.is_in(&expectation.select)) {
        // A group with some good repeats is judged by them; the others are named all the same.
        not_judged.extend(group.not_judged.iter().cloned());
        let outcome = match &expectation.against {
            None => spread(group, metric),
            Some(against) => ratio(group, against, metric, groups),
        };
        match outcome {
            Ok(value) => values.push((Shown { label: group.label(), value: value.median }, value.spread)),
            Err(why) if group.not_judged.is_empty() || !group.repeats.is_empty() => {
                not_judged.push(NotJudged { cell: None, label: group.label(), why });
            }
            Err(_) => {}
        }
    }
    // By how much a value is on the right side; negative on the wrong one.
    let margin = |(shown, spread): &(Shown, f64)| match expectation.relation {
        Relation::Less | Relation::AtMost => expectation.bound - shown.value,
        Relation::Greater | Relation::AtLeast => shown.value - expectation.bound,
        Relation::Equal => -(shown.value - expectation.bound).abs(),
        Relation::About => spread - (shown.value - expectation.bound).abs(),
    };
    values.sort_by(|a, b| margin(a).total_cmp(&margin(b)));
    let judged = values.len();
    let tightest = values.first().map(|(shown, _)| shown.clone());
    let failed = values.into_iter().filter(|(shown, spread)| !holds(expectation, shown.value, *spread));
    let failed: Vec<Shown> = failed.map(|(shown, _)| shown).collect();
    if judged == 0 && not_judged.is_empty() {
        let label = words(&expectation.select);
        not_judged.push(NotJudged { cell: None, label, why: "no such cell in this run".to_string() });
    }
    let verdict = match () {
        () if !failed.is_empty() => Verdict::Fails,
        () if !not_judged.is_empty() => Verdict::NotJudged,
        () => Verdict::Holds,
    };
    let relative = expectation.against.is_some();
    Held { text: text(expectation), verdict, judged, tightest, failed, not_judged, metric, relative }
}

/// A median over repeats, or a ratio of two, and how far others may lie from it for the spread alone.
#[derive(Clone, Copy)]
struct Value {
    median: f64,
    spread: f64,
}

fn spread(group: &Group, metric: Metric) -> Result<Value, String> {
    let (median, range) = group.median(metric).zip(group.range(metric)).ok_or_else(|| not_measured(metric))?;
    Ok(Value { median, spread: (range.1 - range.0).max(EDGES * median.abs()) })
}

/// What the edges of an interval can make of a median: a write more or less.
const EDGES: f64 = 0.01;

fn not_measured(metric: Metric) -> String {
    format!("{} was not measured", metric.name())
}

/// The ratio to the group that differs in the coordinates of `against` alone.
fn ratio(group: &Group, against: &Selection, metric: Metric, groups: &[Group]) -> Result<Value, String> {
    let keys: Vec<&str> = against.0.iter().map(|(key, _)| key.as_str()).collect();
    let own = group.key_without(&keys);
    let base = groups.iter().find(|g| g.is_in(against) && g.key_without(&keys) == own);
    let base = base.ok_or_else(|| format!("nothing to compare with at {}", words(against)))?;
    let value = spread(group, metric)?;
    let base = spread(base, metric).map_err(|why| format!("{why} at {}", base.label()))?;
    if base.median == 0.0 {
        return Err(format!("{} is zero at {}", metric.name(), words(against)));
    }
    Ok(Value { median: value.median / base.median, spread: value.spread.max(base.spread) / base.median })
}

fn holds(expectation: &Expectation, value: f64, spread: f64) -> bool {
    let bound = expectation.bound;
    match expectation.relation {
        Relation::Less => value < bound,
        Relation::AtMost => value <= bound,
        Relation::Greater => value > bound,
        Relation::AtLeast => value >= bound,
        Relation::About => (value - bound).abs() <= spread,
        // Equal but for the rounding of the arithmetic.
        Relation::Equal => (value - bound).abs() <= 1e-9 * bound.abs().max(value.abs()),
    }
}

fn text(expectation: &Expectation) -> String {
    let mut text = format!("{} {}", expectation.that.name(), expectation.text);
    if let Some(against) = &expectation.against {
        text = format!("{text} against {}", words(against));
    }
    if !expectation.select.0.is_empty() {
        text = format!("{text} where {}", words(&expectation.select));
    }
    text
}

/// A selection in words: `path host, traffic gmdss or ais`.
pub(crate) fn words(selection: &Selection) -> String {
    let one = |(key, labels): &(String, Vec<String>)| format!("{key} {}", labels.join(" or "));
    selection.0.iter().map(one).collect::<Vec<_>>().join(", ")
}
