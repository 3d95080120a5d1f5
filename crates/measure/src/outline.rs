//! What this crate reads of `plan.json`: what was asked, not how it was built.

use engine::Span;
use serde::Deserialize;
use serde_json::Value;

use crate::{Scalar, Study};

/// Version of the results directory's layout, written to `plan.json` as `schema`.
///
/// It grows when a column or file is renamed, removed or changes its meaning; columns, files and
/// kinds of events may be added without.
pub const SCHEMA: u32 = 1;

/// The part of a plan that a recording is read with.
#[derive(Clone, Debug, Deserialize)]
pub struct Outline {
    /// Version of the layout, see [`SCHEMA`].
    pub schema: u32,
    /// Version of Narrows that made it.
    pub version: String,
    /// The scenario's name.
    pub name: String,
    /// What it is for.
    #[serde(default)]
    pub description: String,
    /// The scenario file as it was.
    #[serde(default)]
    pub source: String,
    /// Whether it was shortened by `--quick`.
    #[serde(default)]
    pub quick: bool,
    /// `--set` options, in order.
    #[serde(default)]
    pub set: Vec<String>,
    /// Seed of the run.
    pub seed: u64,
    /// The questions.
    pub study: Study,
    /// The cells to run.
    pub cells: Vec<OutlineCell>,
}

/// A cell of the plan.
#[derive(Clone, Debug, Deserialize)]
pub struct OutlineCell {
    /// Its number.
    pub id: u32,
    /// Which repeat, from 0.
    pub repeat: u32,
    /// Key and value of each axis.
    pub coordinates: Vec<(String, Scalar)>,
    /// Its flows' names.
    pub flows: Vec<OutlineFlow>,
    /// Measured time.
    #[serde(default)]
    pub duration: Span,
    /// Length of an interval.
    #[serde(default)]
    pub interval: Span,
}

/// A flow of a cell of the plan.
#[derive(Clone, Debug, Deserialize)]
pub struct OutlineFlow {
    /// Its name.
    pub name: String,
}

/// A place at which two plans differ, with both values as JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Where, such as `study.axes.1.values.3`.
    pub place: String,
    /// The first plan's value, if it has one there.
    pub left: Option<String>,
    /// The second plan's.
    pub right: Option<String>,
}

/// The places at which two plans differ, at most `limit` of them.
#[must_use]
pub fn plan_differences(a: &Value, b: &Value, limit: usize) -> Vec<Difference> {
    let mut found = Vec::new();
    differences(Some(a), Some(b), "", limit, &mut found);
    found
}

fn differences(a: Option<&Value>, b: Option<&Value>, place: &str, limit: usize, found: &mut Vec<Difference>) {
    if a == b || found.len() >= limit {
        return;
    }
    let inside = |key: &str| if place.is_empty() { key.to_string() } else { format!("{place}.{key}") };
    match (a, b) {
        (Some(Value::Object(left)), Some(Value::Object(right))) => {
            let only_right = right.keys().filter(|key| !left.contains_key(*key));
            for key in left.keys().chain(only_right) {
                differences(left.get(key), right.get(key), &inside(key), limit, found);
            }
        }
        (Some(Value::Array(left)), Some(Value::Array(right))) if left.len() == right.len() => {
            for (i, (value, other)) in left.iter().zip(right).enumerate() {
                differences(Some(value), Some(other), &inside(&i.to_string()), limit, found);
            }
        }
        _ => found.push(Difference {
            place: place.to_string(),
            left: a.map(Value::to_string),
            right: b.map(Value::to_string),
        }),
    }
}

impl Outline {
    /// The value of the axis `key` that stands in a table as `text`: its number, else its label.
    pub(crate) fn scalar(&self, key: &str, text: &str) -> Scalar {
        let known =
            self.study.axes.iter().find(|axis| axis.key == key).and_then(|axis| {
                axis.values.iter().find(|value| written(value) == text || value.label == text).cloned()
            });
        known.unwrap_or_else(|| Scalar { label: text.to_string(), number: text.parse().ok() })
    }
}

/// How a coordinate stands in a table: as a plain number in its base unit if it is one.
pub(crate) fn written(value: &Scalar) -> String {
    value.number.map_or_else(|| value.label.clone(), |number| number.to_string())
}
