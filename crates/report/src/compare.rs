//! Two recordings side by side.

mod html;
mod text;

use std::collections::{BTreeSet, HashMap};

use measure::analysis::{Analysis, Group};
use measure::statistics::{Estimate, PairedRatio, paired_ratio, ratio_of_medians};
use measure::{Difference, Metric, Recording, plan_differences};
use serde_json::Value;

/// Differences of plan that are listed; there may be more.
const MOST_DIFFERENCES: usize = 60;

/// Two recordings, A and B, side by side as one HTML file that works offline.
#[must_use]
pub fn comparison(a: &Recording, b: &Recording) -> String {
    Comparison::of((a, &Analysis::of(a)), (b, &Analysis::of(b))).html()
}

/// The same as text, in lines of at most `width` characters where that can be. Of long tables the
/// rows that differ most are shown; the page has all.
#[must_use]
pub fn comparison_text(a: &Recording, b: &Recording, width: usize) -> String {
    Comparison::of((a, &Analysis::of(a)), (b, &Analysis::of(b))).text(width)
}

/// Two recordings, A and B. Ratios are B over A.
struct Comparison<'a> {
    a: Side<'a>,
    b: Side<'a>,
    /// Where the plans differ.
    differences: Vec<Difference>,
    /// One for each metric that is drawn in a figure; goodput if there is none.
    metrics: Vec<Compared>,
    /// Cells that only one of the two has, in words.
    only_a: Vec<String>,
    only_b: Vec<String>,
}

struct Side<'a> {
    recording: &'a Recording,
    analysis: &'a Analysis<'a>,
}

/// One metric in both.
struct Compared {
    metric: Metric,
    /// B over A over all rows that have both.
    all: Option<PairedRatio>,
    rows: Vec<Row>,
}

/// One point of the sweep in both.
struct Row {
    /// Values of A's axes, then the flow.
    labels: Vec<String>,
    a: Option<f64>,
    b: Option<f64>,
    ratio: Option<f64>,
    /// From three repeats on.
    interval: Option<Estimate>,
}

impl<'a> Comparison<'a> {
    fn of(a: (&'a Recording, &'a Analysis<'a>), b: (&'a Recording, &'a Analysis<'a>)) -> Self {
        let (a, b) = (Side { recording: a.0, analysis: a.1 }, Side { recording: b.0, analysis: b.1 });
        let figures = [&a, &b].map(|side| &side.recording.outline.study.figures).into_iter().flatten();
        let drawn: BTreeSet<Metric> = figures.map(|figure| figure.y).collect();
        let metrics = if drawn.is_empty() { vec![Metric::Goodput] } else { drawn.into_iter().collect() };
        let theirs: HashMap<_, &Group> = b.analysis.groups.iter().map(|group| (key(group), group)).collect();
        let ours: HashMap<_, &Group> = a.analysis.groups.iter().map(|group| (key(group), group)).collect();
        let pairs: Vec<(&Group, &Group)> =
            a.analysis.groups.iter().filter_map(|group| Some((group, *theirs.get(&key(group))?))).collect();
        let seed = a.recording.outline.seed;
        let metrics = metrics.into_iter().map(|metric| compare(metric, &pairs, seed)).collect();
        let only = |side: &Side, other: &HashMap<_, &Group>| {
            side.analysis.groups.iter().filter(|g| !other.contains_key(&key(g))).map(Group::label).collect()
        };
        Self {
            differences: differences(&a.recording.plan, &b.recording.plan),
            only_a: only(&a, &theirs),
            only_b: only(&b, &ours),
            metrics,
            a,
            b,
        }
    }

    /// Names of the columns that tell rows apart: axes, and the flow unless an axis picks it.
    fn row_names(&self) -> Vec<String> {
        let rows = || self.metrics.iter().flat_map(|compared| &compared.rows);
        let picked = |row: &Row| row.labels.split_last().is_some_and(|(flow, axes)| axes.contains(flow));
        let flow = (!rows().all(picked)).then(|| "flow".to_string());
        self.a.recording.outline.study.axes.iter().map(|axis| axis.key.clone()).chain(flow).collect()
    }
}

/// What tells a group from others, whatever the order of the axes.
fn key<'a>(group: &Group<'a>) -> BTreeSet<(&'a str, &'a str)> {
    let axes = group.coordinates.iter().map(|(key, value)| (key.as_str(), value.label.as_str()));
    axes.chain([("flow", group.flow)]).collect()
}

fn compare(metric: Metric, pairs: &[(&Group, &Group)], seed: u64) -> Compared {
    let rows: Vec<Row> = pairs
        .iter()
        .map(|(left, right)| {
            let (a, b) = (left.median(metric), right.median(metric));
            let ratio = a.zip(b).filter(|(a, _)| *a > 0.0).map(|(a, b)| b / a);
            let axes = left.coordinates.iter().map(|(_, value)| value.label.clone());
            let labels = axes.chain([left.flow.to_string()]).collect();
            let interval = ratio_of_medians(&left.values(metric), &right.values(metric), seed);
            Row { labels, a, b, ratio, interval }
        })
        .filter(|row| row.a.is_some() || row.b.is_some())
        .collect();
    let values: Vec<(f64, f64)> = rows.iter().filter_map(|row| row.a.zip(row.b)).collect();
    Compared { metric, all: paired_ratio(&values, seed), rows }
}

/// Differences of the questions and options, and of the first cell for those of the links: a change
/// to a link stands in every cell, and is told once.
fn differences(a: &Value, b: &Value) -> Vec<Difference> {
    let without = |plan: &Value, keys: &[&str]| match plan {
        Value::Object(map) => {
            map.iter().filter(|(key, _)| !keys.contains(&key.as_str())).map(|(k, v)| (k.clone(), v.clone())).collect()
        }
        other => other.clone(),
    };
    let top = ["cells", "source"];
    let mut found = plan_differences(&without(a, &top), &without(b, &top), MOST_DIFFERENCES);
    found.extend(source_difference(a["source"].as_str(), b["source"].as_str()));
    let cell = ["seed", "coordinates", "id"];
    let first = |plan: &Value| without(&plan["cells"][0], &cell);
    let in_cells = plan_differences(&first(a), &first(b), MOST_DIFFERENCES);
    found.extend(in_cells.into_iter().map(|d| Difference { place: format!("first cell: {}", d.place), ..d }));
    found.truncate(MOST_DIFFERENCES);
    found
}

/// The lines that only one of two files has.
fn source_difference(a: Option<&str>, b: Option<&str>) -> Option<Difference> {
    let (a, b) = (a.unwrap_or_default(), b.unwrap_or_default());
    if a == b {
        return None;
    }
    let only = |one: &str, other: &str| {
        let known: BTreeSet<&str> = other.lines().collect();
        let lines: Vec<&str> = one.lines().filter(|line| !known.contains(line)).collect();
        (!lines.is_empty()).then(|| lines.join("\n"))
    };
    Some(Difference { place: "scenario file".to_string(), left: only(a, b), right: only(b, a) })
}
