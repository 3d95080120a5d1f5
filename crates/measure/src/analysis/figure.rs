//! The lines of figures.

use crate::analysis::{Analysis, Group};
use crate::{Figure, Panel};

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
    for group in analysis.groups.iter().filter(|g| g.is_in(&panel.select)) {
        let Some(label) = group.label_of(&figure.series).filter(|_| group.number_of(&figure.x).is_some()) else {
            continue;
        };
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
        let x = |group: &&Group| group.number_of(&figure.x).unwrap_or_default();
        groups.sort_by(|a, b| x(a).total_cmp(&x(b)));
        series.points = groups.iter().map(|g| (x(g), g.median(figure.y))).collect();
        series.bands = groups.iter().map(|g| g.range(figure.y).filter(|_| g.repeats.len() > 1)).collect();
    }
    lines.into_iter().map(|(series, _)| series).collect()
}
