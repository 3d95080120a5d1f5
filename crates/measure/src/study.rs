//! What a run is asked: its axes, the figures to draw, what must hold, what a paper found.
//!
//! A scenario file's `sweep`, `figures`, `findings` and `expect` become these types; verdicts and
//! reports are drawn from them and from the records alone.

use serde::{Deserialize, Serialize};

use crate::Metric;

/// The questions of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Study {
    /// What is swept, in the file's order.
    pub axes: Vec<Axis>,
    /// What must hold.
    pub expectations: Vec<Expectation>,
    /// What is drawn.
    pub figures: Vec<Figure>,
    /// What a paper found, to be laid beside what was measured.
    pub findings: Vec<Finding>,
}

/// One thing that is swept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// The key as the scenario names it, such as `radio.loss`; also the column in `cells.csv`.
    pub key: String,
    /// Its values.
    pub values: Vec<Scalar>,
}

/// A swept value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scalar {
    /// As written: `0.03`, `5g-1`, `3Mbit/s`.
    pub label: String,
    /// As a number in its base unit (1, bit/s, s, B), if it is one.
    pub number: Option<f64>,
}

/// Some of the rows: for each key, the labels that are taken. A key is an axis's or `flow`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selection(pub Vec<(String, Vec<String>)>);

/// Something that must hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Expectation {
    /// What is looked at.
    pub that: Metric,
    /// In which rows. Each group of repeats is judged by its median.
    pub select: Selection,
    /// If given, the ratio to the rows that differ only in these coordinates is judged.
    pub against: Option<Selection>,
    /// The comparison.
    pub relation: Relation,
    /// The bound, in the metric's base unit or as a ratio.
    pub bound: f64,
    /// The comparison and bound as written.
    pub text: String,
    /// In which runs it is judged; in all if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<Clock>,
}

/// How the time of a run passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Clock {
    /// By the clock on the wall.
    Real,
    /// As fast as it goes.
    Virtual,
}

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Relation {
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    Greater,
    /// `>=`
    AtLeast,
    /// `==`
    Equal,
    /// `~`: equal within the run-to-run spread. What the medians differ by is at most the larger of
    /// the two ranges over the repeats, or 1 %, which is what the edges of an interval can make.
    About,
}

/// A figure: panels of the same axes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Axis along x; it must be numeric, or [`TIME`](Self::TIME) or [`PACKET_SIZE`](Self::PACKET_SIZE).
    pub x: String,
    /// What is drawn along y.
    pub y: Metric,
    /// Axis (or `flow`) with one line per value.
    pub series: String,
    /// The panels, in reading order.
    pub panels: Vec<Panel>,
}

impl Figure {
    /// As `x`: the measured time, in seconds; y is then drawn for each interval.
    pub const TIME: &str = "time";
    /// As `x`: the size of single packets, in bytes; y is then drawn for each size.
    pub const PACKET_SIZE: &str = "packet-size";
}

/// A curve by a formula, to be drawn beside what was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Its name among the lines.
    pub label: String,
    /// The formula in words.
    pub formula: String,
    /// x and y in base units.
    pub points: Vec<(f64, f64)>,
}

/// One panel of a figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Panel {
    /// Title, such as `Figure 2 · Baseline Measurement for 5G #1`.
    pub title: String,
    /// Which rows.
    pub select: Selection,
    /// Labels of series that are left out at first and can be switched on.
    pub omit: Vec<String>,
    /// What a formula gives for the panel's cells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub curve: Option<Curve>,
}

/// A finding of a paper and the rule by which ours is found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Where it stands, such as `Section IV-B`.
    pub source: String,
    /// What the paper says.
    pub paper: String,
    /// How ours is found.
    pub rule: Rule,
    /// In which rows.
    pub select: Selection,
    /// What agrees with the paper: lowest and highest value of the rule's result. `None` on one
    /// side is unbounded.
    pub agrees: (Option<f64>, Option<f64>),
}

/// How a finding is found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// The first value of `over` from which on the metric stays below `share` of the offered rate,
    /// in the selected series that decays first.
    Decay {
        /// Metric that decays.
        metric: Metric,
        /// Numeric axis.
        over: String,
        /// Share of the offered rate, 0 to 1.
        share: f64,
    },
    /// The first value of `over` from which on the largest of the series is at most `within` times
    /// the smallest.
    Converge {
        /// Metric that converges.
        metric: Metric,
        /// Numeric axis.
        over: String,
        /// Axis (or `flow`) of the series.
        series: String,
        /// Largest ratio, over 1.
        within: f64,
    },
    /// The median ratio of `variant` to `base` over all pairs that differ in `key` alone, with its
    /// 95 % interval.
    Cost {
        /// Metric that is compared.
        metric: Metric,
        /// Axis that tells the two apart.
        key: String,
        /// Label of the baseline.
        base: String,
        /// Label of what is compared with it.
        variant: String,
    },
    /// The lowest ratio of the metric to the offered rate in the selected rows.
    LowestShare {
        /// Metric that is compared.
        metric: Metric,
    },
    /// The metric itself, the median over the selected rows.
    Value {
        /// The metric.
        metric: Metric,
    },
}
