//! What a paper found, beside what was measured.

use std::collections::HashMap;

use serde::Serialize;

use crate::analysis::{Group, NotJudged, Verdict};
use crate::format::{digits, quantity};
use crate::statistics::{LEAST_PAIRS, PairedRatio, median, paired_ratio};
use crate::{Finding, Metric, Rule, Study};

/// A finding of a paper, beside ours.
///
/// What was not judged is left out of the search and named; it is judged by the rest.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Found {
    /// Where the paper says it.
    pub source: String,
    /// What it says.
    pub paper: String,
    /// The rule by which ours is found, in words.
    pub rule: String,
    /// What was measured, in words.
    pub measured: String,
    /// The rule's result; `None` if the point never comes, or nothing could be judged.
    pub value: Option<f64>,
    /// The results that agree with the paper, in words.
    pub agrees_if: String,
    /// Whether ours agrees.
    pub verdict: Verdict,
    /// The result of each series (or set of series).
    pub parts: Vec<Part>,
    /// The comparison of all pairs, for a rule of cost.
    pub cost: Option<Cost>,
    /// What was not judged.
    pub not_judged: Vec<NotJudged>,
}

/// The result of one series.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Part {
    /// The series in words.
    pub label: String,
    /// Its result; `None` if the point never comes.
    pub value: Option<f64>,
    /// The last value before it: the truth lies between the two.
    pub before: Option<f64>,
}

/// What one variant costs against another, over all pairs of cells that differ in it alone.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cost {
    /// What is compared.
    #[serde(skip)]
    pub metric: Metric,
    /// The axis that tells the two apart.
    pub key: String,
    /// The baseline.
    pub base: String,
    /// What is compared with it.
    pub variant: String,
    /// Variant over baseline.
    pub ratio: PairedRatio,
    /// Pairs left out because one side was spoiled, missing, or zero at the baseline.
    pub left_out: usize,
    /// The same for each value of each other axis.
    pub by: Vec<Breakdown>,
}

/// A cost for each value of an axis.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Breakdown {
    /// The axis.
    pub key: String,
    /// Its values and the cost at each.
    pub rows: Vec<(String, PairedRatio)>,
}

pub(crate) fn find(finding: &Finding, groups: &[Group], study: &Study, seed: u64) -> Found {
    let selected: Vec<&Group> = groups.iter().filter(|g| g.is_in(&finding.select)).collect();
    let not_judged: Vec<NotJudged> = selected.iter().flat_map(|g| g.not_judged.iter().cloned()).collect();
    let (low, high) = finding.agrees;
    let outcome = if selected.is_empty() {
        Outcome::nothing("no such cell in this run")
    } else {
        match &finding.rule {
            Rule::Decay { metric, over, share } => decay(&selected, *metric, over, *share),
            Rule::Converge { metric, over, series, within } => converge(&selected, *metric, over, series, *within),
            Rule::Cost { metric, key, base, variant } => {
                cost(&selected, study, Sides { metric: *metric, key, base, variant }, seed)
            }
            Rule::LowestShare { metric } => lowest_share(&selected, *metric),
            Rule::Value { metric } => value(&selected, *metric),
        }
    };
    // A point that never comes lies beyond every value.
    let place = outcome.value.unwrap_or(f64::INFINITY);
    let low_or_less = low.unwrap_or(f64::NEG_INFINITY);
    let high_or_more = high.unwrap_or(f64::INFINITY);
    // Where a sweep found a point, the truth lies above the value before it.
    let may_agree = outcome.above.is_some_and(|above| above < high_or_more && place >= low_or_less);
    let (verdict, measured) = match () {
        () if !outcome.judged => (Verdict::NotJudged, outcome.measured),
        () if (low_or_less..=high_or_more).contains(&place) => (Verdict::Holds, outcome.measured),
        () if may_agree => {
            let why =
                if outcome.value.is_none() { "the sweep ends too soon" } else { "the sweep's steps are too coarse" };
            (Verdict::NotJudged, format!("{}: {why} to tell", outcome.measured))
        }
        () => (Verdict::Fails, outcome.measured),
    };
    Found {
        source: finding.source.clone(),
        paper: finding.paper.trim().to_string(),
        rule: rule_in_words(&finding.rule),
        measured,
        value: outcome.value,
        agrees_if: range_in_words(low, high, &finding.rule),
        verdict,
        parts: outcome.parts,
        cost: outcome.cost,
        not_judged,
    }
}

/// What a rule gives.
struct Outcome {
    judged: bool,
    value: Option<f64>,
    /// Of a point on a sweep: the value before it, at which it had not come yet.
    above: Option<f64>,
    measured: String,
    parts: Vec<Part>,
    cost: Option<Cost>,
}

impl Outcome {
    fn nothing(why: &str) -> Self {
        Self { judged: false, value: None, above: None, measured: why.to_string(), parts: Vec::new(), cost: None }
    }
}

/// The metric as a share of the offered rate, for metrics that have one.
fn share_of_offered(group: &Group, metric: Metric) -> Option<f64> {
    match metric {
        Metric::Goodput | Metric::Share => group.median(Metric::Share),
        _ => None,
    }
}

fn decay(selected: &[&Group], metric: Metric, over: &str, share: f64) -> Outcome {
    let parts: Vec<Part> = lines(selected, over, &[over], |g| share_of_offered(g, metric))
        .into_iter()
        .map(|Line { label, points }| {
            let (value, before) = from_which_on(&points, |y| y < share);
            Part { label, value, before }
        })
        .collect();
    if parts.is_empty() {
        return Outcome::nothing(&format!("no {} beside an offered rate over {over}", metric.name()));
    }
    let first = parts.iter().filter(|p| p.value.is_some()).min_by(|a, b| later(a).total_cmp(&later(b)));
    let measured = match first {
        None => "never decays".to_string(),
        Some(part) => format!("decays {}", at(over, part)),
    };
    let above = match first {
        Some(part) => part.before,
        None => parts.iter().filter_map(|part| part.before).min_by(f64::total_cmp),
    };
    Outcome { judged: true, value: first.and_then(|p| p.value), above, measured, parts, cost: None }
}

fn converge(selected: &[&Group], metric: Metric, over: &str, series: &str, within: f64) -> Outcome {
    let mut labels: Vec<&str> = selected.iter().filter_map(|g| g.label_of(series)).collect();
    labels.sort_unstable();
    labels.dedup();
    // One line for each set of series, with a point for each of its series at each x.
    let parts: Vec<Part> = lines(selected, over, &[over, series], |g| g.median(metric))
        .into_iter()
        .filter_map(|Line { label, points }| {
            let at_each_x = points.chunk_by(|a, b| a.0 == b.0);
            // Where a series is missing, whether all have met cannot be said.
            let whole = at_each_x.filter(|here| here.len() == labels.len());
            let spread: Vec<(f64, f64)> = whole.filter_map(|here| Some((here[0].0, spread_of(here)?))).collect();
            let (value, before) = from_which_on(&spread, |ratio| ratio <= within);
            (!spread.is_empty()).then_some(Part { label, value, before })
        })
        .collect();
    if parts.is_empty() || labels.len() < 2 {
        return Outcome::nothing(&format!("fewer than two values of {series} in this run"));
    }
    let last = parts.iter().max_by(|a, b| later(a).total_cmp(&later(b)));
    let (value, measured) = match last {
        Some(part @ Part { value: Some(_), .. }) => (part.value, format!("meet {}", at(over, part))),
        Some(part) => (None, format!("never meet{}", bracketed(&part.label))),
        None => (None, String::new()),
    };
    let above = last.and_then(|part| part.before);
    Outcome { judged: true, value, above, measured, parts, cost: None }
}

/// Largest over smallest y; infinite where something is zero and something is not.
fn spread_of(points: &[(f64, f64)]) -> Option<f64> {
    let ys: Vec<f64> = points.iter().map(|(_, y)| *y).collect();
    let (low, high) = crate::statistics::range(&ys)?;
    Some(if high == low { 1.0 } else { high / low })
}

/// Groups that differ in nothing but some keys, as points in order of x.
struct Line {
    label: String,
    points: Vec<(f64, f64)>,
}

fn lines(selected: &[&Group], over: &str, apart: &[&str], y: impl Fn(&Group) -> Option<f64>) -> Vec<Line> {
    let mut places: HashMap<Vec<&str>, usize> = HashMap::new();
    let mut lines: Vec<Line> = Vec::new();
    for group in selected {
        let Some(point) = group.number_of(over).zip(y(group)) else { continue };
        let place = *places.entry(group.key_without(apart)).or_insert_with(|| {
            lines.push(Line { label: group.label_without(apart), points: Vec::new() });
            lines.len() - 1
        });
        lines[place].points.push(point);
    }
    for line in &mut lines {
        line.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    lines
}

/// The first x of the run at the end in which every y is as wanted, and the x before it.
fn from_which_on(points: &[(f64, f64)], wanted: impl Fn(f64) -> bool) -> (Option<f64>, Option<f64>) {
    let start = points.iter().rposition(|(_, y)| !wanted(*y)).map_or(0, |last| last + 1);
    let before = start.checked_sub(1).map(|i| points[i].0);
    (points.get(start).map(|p| p.0), before)
}

fn later(part: &Part) -> f64 {
    part.value.unwrap_or(f64::INFINITY)
}

fn at(over: &str, part: &Part) -> String {
    let (value, label) = (plain(part.value.unwrap_or(f64::INFINITY)), bracketed(&part.label));
    match part.before {
        Some(before) => format!("from {over} {value} on{label}; not yet at {}", plain(before)),
        None => format!("from {over} {value} on{label}, the lowest that was run"),
    }
}

fn bracketed(label: &str) -> String {
    if label.is_empty() { String::new() } else { format!(" ({label})") }
}

fn lowest_share(selected: &[&Group], metric: Metric) -> Outcome {
    let shares = selected.iter().filter_map(|g| Some((g, share_of_offered(g, metric)?)));
    let Some((group, share)) = shares.min_by(|a, b| a.1.total_cmp(&b.1)) else {
        return Outcome::nothing(&format!("no {} beside an offered rate", metric.name()));
    };
    let measured = format!("at least {} of the offered rate ({})", quantity(share, crate::Unit::Ratio), group.label());
    Outcome { judged: true, value: Some(share), above: None, measured, parts: Vec::new(), cost: None }
}

/// The metric itself: of several groups the median, and where it ranges.
fn value(selected: &[&Group], metric: Metric) -> Outcome {
    let values: Vec<f64> = selected.iter().filter_map(|group| group.median(metric)).collect();
    let Some((median, (low, high))) = median(&values).zip(crate::statistics::range(&values)) else {
        return Outcome::nothing(&format!("no {}", metric.name()));
    };
    let words = |value| quantity(value, metric.unit());
    let measured = match values.len() {
        1 => format!("{} {}", metric.name(), words(median)),
        n => format!("{} {} (median of {n}, {} to {})", metric.name(), words(median), words(low), words(high)),
    };
    Outcome { judged: true, value: Some(median), above: None, measured, parts: Vec::new(), cost: None }
}

/// The two sides of a comparison.
#[derive(Clone, Copy)]
struct Sides<'a> {
    metric: Metric,
    key: &'a str,
    base: &'a str,
    variant: &'a str,
}

fn cost(selected: &[&Group], study: &Study, sides: Sides, seed: u64) -> Outcome {
    let is = |group: &Group, label: &str| group.label_of(sides.key) == Some(label);
    // Repeats are pairs of their own.
    let mut variants: HashMap<(Vec<&str>, u32), f64> = HashMap::new();
    for group in selected.iter().filter(|g| is(g, sides.variant)) {
        for (cell, flow) in &group.repeats {
            if let Some(value) = sides.metric.of(cell, flow) {
                variants.insert((group.key_without(&[sides.key]), cell.repeat), value);
            }
        }
    }
    let mut planned = 0;
    let mut pairs: Vec<(&Group, (f64, f64))> = Vec::new();
    for group in selected.iter().filter(|g| is(g, sides.base)) {
        planned += group.repeats.len() + group.not_judged.len();
        for (cell, flow) in &group.repeats {
            let variant = variants.get(&(group.key_without(&[sides.key]), cell.repeat));
            if let (Some(base), Some(variant)) = (sides.metric.of(cell, flow), variant) {
                pairs.push((group, (base, *variant)));
            }
        }
    }
    let values: Vec<(f64, f64)> = pairs.iter().map(|(_, pair)| *pair).collect();
    let Some(ratio) = paired_ratio(&values, seed) else {
        let (base, variant) = (sides.base, sides.variant);
        return Outcome::nothing(&format!("fewer than {LEAST_PAIRS} pairs of {base} and {variant}"));
    };
    let by = study
        .axes
        .iter()
        .filter(|axis| axis.key != sides.key && axis.values.len() > 1)
        .map(|axis| Breakdown {
            key: axis.key.clone(),
            rows: axis
                .values
                .iter()
                .filter_map(|value| {
                    let here = pairs.iter().filter(|(g, _)| g.label_of(&axis.key) == Some(&value.label));
                    let here: Vec<(f64, f64)> = here.map(|(_, pair)| *pair).collect();
                    Some((value.label.clone(), paired_ratio(&here, seed)?))
                })
                .collect(),
        })
        .filter(|breakdown| breakdown.rows.len() > 1)
        .collect();
    let one = |e: &crate::statistics::Estimate| format!("{:.3} ({:.3} to {:.3})", e.value, e.low, e.high);
    let measured = format!("median ratio {}, mean {}, {} pairs", one(&ratio.median), one(&ratio.mean), ratio.median.n);
    let cost = Cost {
        metric: sides.metric,
        key: sides.key.to_string(),
        base: sides.base.to_string(),
        variant: sides.variant.to_string(),
        left_out: planned - ratio.median.n,
        ratio,
        by,
    };
    Outcome {
        judged: true,
        value: Some(ratio.median.value),
        above: None,
        measured,
        parts: Vec::new(),
        cost: Some(cost),
    }
}

fn rule_in_words(rule: &Rule) -> String {
    match rule {
        Rule::Decay { metric, over, share } => format!(
            "first {over} from which on {} stays below {} of the offered rate, in the series that decays first",
            metric.name(),
            quantity(*share, crate::Unit::Ratio)
        ),
        Rule::Converge { metric, over, series, within } => format!(
            "first {over} from which on the largest {} of all {series} stays within {} times the smallest",
            metric.name(),
            digits(*within)
        ),
        Rule::Cost { metric, key, base, variant } => format!(
            "median ratio of {} at {key} {variant} to {base} over all pairs, with its 95 % interval",
            metric.name()
        ),
        Rule::LowestShare { metric } => format!("lowest ratio of {} to the offered rate", metric.name()),
        Rule::Value { metric } => format!("{} as measured", metric.name()),
    }
}

fn range_in_words(low: Option<f64>, high: Option<f64>, rule: &Rule) -> String {
    let never = if matches!(rule, Rule::Decay { .. } | Rule::Converge { .. }) { " or never" } else { "" };
    match (low, high) {
        (None, None) => "always".to_string(),
        (Some(low), None) => format!("at least {}{never}", plain(low)),
        (None, Some(high)) => format!("at most {}", plain(high)),
        (Some(low), Some(high)) => format!("{} to {}", plain(low), plain(high)),
    }
}

/// A number as it would be written: swept values have few digits.
fn plain(value: f64) -> String {
    let rounded = (value * 1e9).round() / 1e9;
    rounded.to_string()
}
