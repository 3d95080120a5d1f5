//! The lines of figures.

use std::collections::BTreeMap;

use engine::Span;

use crate::analysis::{Analysis, Group};
use crate::statistics::{median, range};
use crate::{Figure, Metric, Panel};

/// A line of a figure: medians over x.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Value of the series' axis.
    pub label: String,
    /// Whether the study leaves it out of this panel at first.
    pub omitted: bool,
    /// x and median; `None` where nothing could be judged.
    pub points: Vec<(f64, Option<f64>)>,
    /// Smallest and largest of the repeats at each x; `None` where there is but one.
    pub bands: Vec<Option<(f64, f64)>>,
}

/// The lines of a panel, in the order of the axis.
#[must_use]
pub fn series(figure: &Figure, panel: &Panel, analysis: &Analysis) -> Vec<Series> {
    let mut lines: Vec<(Series, Vec<&Group>)> = Vec::new();
    let within = match figure.x.as_str() {
        Figure::TIME => Some(over_intervals as fn(&Group, Metric) -> Vec<Point>),
        Figure::PACKET_SIZE => Some(over_sizes as fn(&Group, Metric) -> Vec<Point>),
        _ => None,
    };
    for group in analysis.groups.iter().filter(|g| g.is_in(&panel.select)) {
        let on_axis = within.is_some() || group.number_of(&figure.x).is_some();
        let Some(label) = group.label_of(&figure.series).filter(|_| on_axis) else { continue };
        match lines.iter_mut().find(|(series, _)| series.label == label) {
            Some((_, groups)) => groups.push(group),
            None => {
                let omitted = panel.omit.iter().any(|o| o == label);
                let series = Series { label: label.to_string(), omitted, points: Vec::new(), bands: Vec::new() };
                lines.push((series, vec![group]));
            }
        }
    }
    for (series, groups) in &mut lines {
        if let Some(points) = within {
            (series.points, series.bands) = groups.iter().flat_map(|group| points(group, figure.y)).unzip();
            continue;
        }
        let x = |group: &&Group| group.number_of(&figure.x).unwrap_or_default();
        groups.sort_by(|a, b| x(a).total_cmp(&x(b)));
        series.points = groups.iter().map(|g| (x(g), g.median(figure.y))).collect();
        series.bands = groups.iter().map(|g| g.range(figure.y).filter(|_| g.repeats.len() > 1)).collect();
    }
    let curve = panel.curve.iter().map(|curve| Series {
        label: curve.label.clone(),
        omitted: false,
        points: curve.points.iter().map(|(x, y)| (*x, Some(*y))).collect(),
        bands: vec![None; curve.points.len()],
    });
    lines
        .into_iter()
        .map(|(series, _)| series)
        .filter(|series| within.is_none() || has_values(series))
        .chain(curve)
        .collect()
}

/// Whether there is anything to draw: the other flows of a cell have no such metric over time.
fn has_values(series: &Series) -> bool {
    series.points.iter().any(|(_, y)| y.is_some())
}

/// A point of a line, and its band.
type Point = ((f64, Option<f64>), Option<(f64, f64)>);

/// The metric of single packets by their sizes.
fn over_sizes(group: &Group, metric: Metric) -> Vec<Point> {
    let mut sizes: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for packet in group.repeats.iter().flat_map(|(_, flow)| &flow.series) {
        if let Some(value) = metric.of_packet(packet) {
            sizes.entry(packet.bytes).or_default().push(value);
        }
    }
    let points = sizes.into_iter();
    points.map(|(size, values)| ((size as f64, median(&values)), range(&values).filter(|_| values.len() > 1))).collect()
}

/// The metric in each interval, at the interval's end as it was meant: real ones end microseconds later, and
/// would make an x of its own for each cell.
fn over_intervals(group: &Group, metric: Metric) -> Vec<Point> {
    let longest = group.repeats.iter().map(|(_, flow)| flow.intervals.as_slice()).max_by_key(|all| all.len());
    let (duration, interval) = group.times;
    let ends = longest.unwrap_or_default().iter().zip(1..).map(|(measured, number)| {
        // Of an older plan its intervals may not be known.
        let meant = if interval == Span::ZERO { measured.end } else { interval.times(number).min(duration) };
        meant.as_secs_f64()
    });
    ends.enumerate()
        .map(|(number, end)| {
            let here = group.repeats.iter().filter_map(|(_, flow)| metric.of_interval(flow.intervals.get(number)?));
            let here: Vec<f64> = here.collect();
            ((end, median(&here)), range(&here).filter(|_| here.len() > 1))
        })
        .collect()
}
