//! A point of the sweep and a flow, with all its repeats.

use std::collections::HashMap;

use engine::Span;
use serde::Serialize;

use crate::statistics::{self, median};
use crate::{CellRecord, FlowRecord, Metric, Recording, Scalar, Selection};

/// A point of the sweep and one of its flows. Its value is the median over the repeats that were not
/// spoiled.
#[derive(Debug)]
pub struct Group<'a> {
    /// Key and value of each axis, in the order of the file.
    pub coordinates: &'a [(String, Scalar)],
    /// The flow's name.
    pub flow: &'a str,
    /// Measured time, and the length of an interval.
    pub(crate) times: (Span, Span),
    /// The repeats whose figures can be trusted.
    pub repeats: Vec<(&'a CellRecord, &'a FlowRecord)>,
    /// The other ones.
    pub not_judged: Vec<NotJudged>,
}

/// A cell that is not judged, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NotJudged {
    /// Its number in the plan; `None` for what is no cell of it.
    pub cell: Option<u32>,
    /// Its coordinates in words.
    pub label: String,
    /// Why.
    pub why: String,
}

impl Group<'_> {
    /// The metric's values, one a repeat, for the repeats that have it.
    #[must_use]
    pub fn values(&self, metric: Metric) -> Vec<f64> {
        self.repeats.iter().filter_map(|(cell, flow)| metric.of(cell, flow)).collect()
    }

    /// The median of [`values`](Self::values).
    #[must_use]
    pub fn median(&self, metric: Metric) -> Option<f64> {
        median(&self.values(metric))
    }

    /// Smallest and largest of [`values`](Self::values).
    #[must_use]
    pub fn range(&self, metric: Metric) -> Option<(f64, f64)> {
        statistics::range(&self.values(metric))
    }

    /// The value of an axis, or the flow's name for `flow`.
    #[must_use]
    pub fn label_of(&self, key: &str) -> Option<&str> {
        if key == "flow" {
            return Some(self.flow);
        }
        self.coordinates.iter().find(|(axis, _)| axis == key).map(|(_, value)| value.label.as_str())
    }

    /// The value of a numeric axis.
    #[must_use]
    pub fn number_of(&self, key: &str) -> Option<f64> {
        self.coordinates.iter().find(|(axis, _)| axis == key).and_then(|(_, value)| value.number)
    }

    /// Whether the selection takes it.
    #[must_use]
    pub fn is_in(&self, selection: &Selection) -> bool {
        selection.0.iter().all(|(key, labels)| self.label_of(key).is_some_and(|is| labels.iter().any(|l| l == is)))
    }

    /// Its coordinates in words: `5g-1, 0.03, host, lidar`.
    #[must_use]
    pub fn label(&self) -> String {
        self.label_without(&[])
    }

    /// The same but for some keys.
    #[must_use]
    pub fn label_without(&self, keys: &[&str]) -> String {
        let mut words = Vec::new();
        for (key, value) in self.coordinates.iter().filter(|(key, _)| !keys.contains(&key.as_str())) {
            // A bare number says nothing; a name does.
            words.push(if value.number.is_some() { format!("{key} {}", value.label) } else { value.label.clone() });
        }
        // An axis that picks the flow names it already.
        let picked = self.coordinates.iter().any(|(_, value)| value.label == self.flow);
        if !picked && !keys.contains(&"flow") {
            words.push(self.flow.to_string());
        }
        words.join(", ")
    }

    /// What tells it from others, but for some keys: equal for groups that differ in these alone.
    pub(crate) fn key_without(&self, keys: &[&str]) -> Vec<&str> {
        let axes = self.coordinates.iter().filter(|(key, _)| !keys.contains(&key.as_str()));
        // An axis that picks the flow and the flow's name change together.
        let picks =
            self.coordinates.iter().any(|(key, value)| keys.contains(&key.as_str()) && value.label == self.flow);
        let flow = (!picks && !keys.contains(&"flow")).then_some(self.flow);
        axes.map(|(_, value)| value.label.as_str()).chain(flow).collect()
    }
}

/// All groups of the plan, in its order, whether their cells have run or not.
pub(crate) fn groups(recording: &Recording) -> Vec<Group<'_>> {
    let records: HashMap<u32, &CellRecord> = recording.cells.iter().map(|cell| (cell.cell, cell)).collect();
    let mut groups: Vec<Group> = Vec::new();
    let mut places: HashMap<(Vec<&str>, &str), usize> = HashMap::new();
    for cell in &recording.outline.cells {
        let labels: Vec<&str> = cell.coordinates.iter().map(|(_, value)| value.label.as_str()).collect();
        for flow in &cell.flows {
            let place = *places.entry((labels.clone(), &flow.name)).or_insert_with(|| {
                groups.push(Group {
                    coordinates: &cell.coordinates,
                    flow: &flow.name,
                    times: (cell.duration, cell.interval),
                    repeats: Vec::new(),
                    not_judged: Vec::new(),
                });
                groups.len() - 1
            });
            let group = &mut groups[place];
            let record = records.get(&cell.id);
            let found = record.and_then(|r| r.flows.iter().find(|f| f.flow == flow.name).map(|f| (*r, f)));
            let why = match found {
                None => "has not run".to_string(),
                Some((record, found)) => match &record.health.spoiled {
                    Some(why) => why.clone(),
                    None if !found.is_measured() => {
                        found.error.clone().unwrap_or_else(|| "nothing was measured".to_string())
                    }
                    None => {
                        group.repeats.push((record, found));
                        continue;
                    }
                },
            };
            let mut label = group.label();
            if cell.repeat > 0 {
                label = format!("{label}, repeat {}", cell.repeat);
            }
            group.not_judged.push(NotJudged { cell: Some(cell.id), label, why });
        }
    }
    groups
}
