//! Figures: a grid of small charts with one scale, drawn by uPlot in the page, each with its values
//! as a table.

use std::fmt::Write;

use measure::analysis::{Analysis, NotJudged, Series, series};
use measure::format::{common_unit, digits};
use measure::{Figure, Metric, Unit};
use serde_json::{Value, json};

use crate::html::{Text, details};

/// What is drawn in one panel.
pub(crate) struct Drawn {
    pub(crate) title: String,
    /// A line beneath the title.
    pub(crate) beneath: String,
    pub(crate) lines: Vec<Line>,
    pub(crate) not_judged: Vec<NotJudged>,
}

/// A line of a panel.
pub(crate) struct Line {
    pub(crate) series: Series,
    /// Numbers of its colour and of its dashes.
    pub(crate) colour: usize,
    pub(crate) dash: usize,
}

/// The panels of a figure of one recording. A line's looks follow its label, the same in every
/// panel; labels that no panel leaves out come first, for the first looks are the plainest.
pub(crate) fn panels(figure: &Figure, analysis: &Analysis) -> Vec<Drawn> {
    let drawn: Vec<Vec<Series>> = figure.panels.iter().map(|panel| series(figure, panel, analysis)).collect();
    let mut labels: Vec<(bool, String)> = Vec::new();
    for series in drawn.iter().flatten() {
        match labels.iter_mut().find(|(_, label)| *label == series.label) {
            Some((omitted, _)) => *omitted |= series.omitted,
            None => labels.push((series.omitted, series.label.clone())),
        }
    }
    labels.sort_by_key(|(omitted, _)| *omitted);
    let looks = |label: &str| labels.iter().position(|(_, known)| known == label).unwrap_or_default();
    let panel = |(panel, mut lines): (&measure::Panel, Vec<Series>)| {
        lines.sort_by_key(|line| line.omitted);
        let groups = analysis.groups.iter().filter(|g| g.is_in(&panel.select));
        let words = panel.select.0.iter().map(|(key, labels)| format!("{key} {}", labels.join(", ")));
        let words = words.chain(panel.curve.iter().map(|curve| format!("{}: {}", curve.label, curve.formula)));
        Drawn {
            title: panel.title.clone(),
            beneath: words.collect::<Vec<_>>().join(" · "),
            lines: lines
                .into_iter()
                .map(|series| Line { colour: looks(&series.label), dash: looks(&series.label), series })
                .collect(),
            not_judged: groups.flat_map(|g| g.not_judged.iter().cloned()).collect(),
        }
    };
    figure.panels.iter().zip(drawn).map(panel).collect()
}

/// The figure number `number` as HTML and as data for the script.
pub(crate) fn figure(number: usize, figure: &Figure, panels: &[Drawn], intervals: &str) -> (String, Value) {
    let most =
        panels.iter().flat_map(|p| &p.lines).flat_map(|l| &l.series.points).filter_map(|(_, y)| *y).fold(0.0, f64::max);
    let (factor, unit) = common_unit(most, figure.y.unit());
    let y_title = if unit.is_empty() { name(figure.y) } else { format!("{}, {unit}", name(figure.y)) };
    let axes = Axes { x: axis_title(&figure.x), x_values: figure.x.clone(), y: y_title, what: "medians", factor };
    grid(number, &axes, panels, intervals)
}

/// What the axes of a figure are.
pub(crate) struct Axes {
    /// Title of x, and what stands before its values in tables.
    pub(crate) x: String,
    pub(crate) x_values: String,
    /// Title of y.
    pub(crate) y: String,
    /// What of y the values are; may be empty.
    pub(crate) what: &'static str,
    /// The unit of y in that of the values.
    pub(crate) factor: f64,
}

/// A grid of panels with one scale as HTML and as data for the script. `beside` stands beside its tools.
pub(crate) fn grid(number: usize, axes: &Axes, panels: &[Drawn], beside: &str) -> (String, Value) {
    let mut html = format!(
        r#"<div data-figure="{number}"><div class="tools"><span class="choice" role="group" aria-label="Scale of y"><button type="button" data-scale="linear" aria-pressed="true">linear</button><button type="button" data-scale="log" aria-pressed="false">logarithmic</button></span><span>{}</span></div><div class="panels">"#,
        Text(beside)
    );
    for (i, panel) in panels.iter().enumerate() {
        let omitted: Vec<&str> =
            panel.lines.iter().filter(|l| l.series.omitted).map(|l| l.series.label.as_str()).collect();
        let omitted = if omitted.is_empty() {
            String::new()
        } else {
            format!("<p class=\"small\">Left out at first: {}.</p>", Text(&omitted.join(", ")))
        };
        let missing = details(
            &format!("{} not judged", panel.not_judged.len()),
            panel.not_judged.iter().map(|n| format!("{}: {}", n.label, n.why)),
        );
        let _ = write!(
            html,
            r#"<figure class="panel" data-panel="{i}"><figcaption>{}<span>{}</span></figcaption><div class="plot" tabindex="0" role="img" aria-label="{}: {} over {}. Arrow keys walk along x."></div><div class="legend" role="group" aria-label="Lines"></div>{omitted}{missing}<details class="values"><summary>Values</summary><div class="scroll">{}</div></details></figure>"#,
            Text(&panel.title),
            Text(&panel.beneath),
            Text(&panel.title),
            Text(&axes.y),
            Text(&axes.x),
            values(panel, axes)
        );
    }
    html.push_str("</div></div>");
    let data = json!({
        "xTitle": axes.x, "yTitle": axes.y, "scale": "linear",
        "panels": panels.iter().map(|panel| panel_data(panel, axes.factor)).collect::<Vec<_>>(),
    });
    (html, data)
}

/// All values of x in a panel, in order.
fn xs(panel: &Drawn) -> Vec<f64> {
    let mut xs: Vec<f64> = panel.lines.iter().flat_map(|l| l.series.points.iter().map(|(x, _)| *x)).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    xs
}

fn panel_data(panel: &Drawn, factor: f64) -> Value {
    let xs = xs(panel);
    // Six digits are more than a chart can show.
    let short = |y: f64| format!("{:.6e}", y / factor).parse::<f64>().unwrap_or(0.0);
    let lines: Vec<Value> = panel
        .lines
        .iter()
        .map(|line| {
            let at = |x: &f64| line.series.points.iter().position(|(here, _)| here == x);
            // `null` is a gap; `false` is a place where the line was never to have a point, and goes on.
            let y: Vec<Value> =
                xs.iter().map(|x| at(x).map_or(json!(false), |i| json!(line.series.points[i].1.map(short)))).collect();
            let band = |pick: fn((f64, f64)) -> f64| -> Vec<Option<f64>> {
                xs.iter().map(|x| line.series.bands[at(x)?].map(|band| short(pick(band)))).collect()
            };
            let (low, high) = (band(|(low, _)| low), band(|(_, high)| high));
            let mut value = json!({
                "label": line.series.label, "shown": !line.series.omitted,
                "colour": line.colour, "dash": line.dash, "y": y,
            });
            if low.iter().any(Option::is_some) {
                value["low"] = json!(low);
                value["high"] = json!(high);
            }
            value
        })
        .collect();
    json!({"x": xs, "series": lines})
}

/// Columns of a table of values: of curves with more points every so many are shown.
const MOST_COLUMNS: usize = 24;

fn values(panel: &Drawn, axes: &Axes) -> String {
    let factor = axes.factor;
    let xs = xs(panel);
    let step = xs.len().div_ceil(MOST_COLUMNS).max(1);
    let xs: Vec<f64> = xs.into_iter().step_by(step).collect();
    let head: String = xs.iter().map(|x| format!("<th scope=\"col\" class=\"num\">{x}</th>")).collect();
    let what = if axes.what.is_empty() { String::new() } else { format!(", {}", axes.what) };
    let part = if step > 1 { format!(", 1 of {step} points") } else { String::new() };
    let mut html = format!(
        "<table><caption>{}{what}{part}</caption><thead><tr><th scope=\"col\">{}</th>{head}</tr></thead><tbody>",
        Text(&axes.y),
        Text(&axes.x_values)
    );
    for line in &panel.lines {
        let cells: String = xs
            .iter()
            .map(|x| line.series.points.iter().find(|(at, _)| at == x).and_then(|(_, y)| *y))
            .map(|y| format!("<td class=\"num\">{}</td>", y.map_or("–".to_string(), |y| digits(y / factor))))
            .collect();
        let _ = write!(html, "<tr><th scope=\"row\">{}</th>{cells}</tr>", Text(&line.series.label));
    }
    html.push_str("</tbody></table>");
    html
}

/// A metric's name as a title.
pub(crate) fn name(metric: Metric) -> String {
    match metric {
        Metric::Goodput => "Goodput",
        Metric::Share => "Goodput over offered rate",
        Metric::Loss => "Loss",
        Metric::DelayP50 => "One-way delay, median",
        Metric::DelayP99 => "One-way delay, 99th percentile",
        Metric::Jitter => "Jitter",
        Metric::RttP50 => "Round-trip time, median",
        Metric::RttP99 => "Round-trip time, 99th percentile",
        Metric::Retransmits => "Retransmissions",
        Metric::LineUse => "Line use",
        Metric::Efficiency => "Efficiency e",
        Metric::DataShare => "Data's share of what voice leaves",
        Metric::Overdue => "Overdue real-time datagrams",
        Metric::Refused => "Refused real-time flows",
        Metric::RealTimeDelayP99 => "Real-time datagram delay, 99th percentile",
        Metric::QueueDelayP50 => "Forwarding queue delay, median",
        Metric::GapP50 => "Predicted gap length, median",
        Metric::Header => "Compressed header, mean bytes",
        Metric::Separation => "Separation of a pair",
        Metric::SizeRate => "Rate by pairs of one size",
        Metric::PairAgreement => "Rate by packet pairs over e x (line less voice)",
        Metric::JitterP99 => "Jitter, 99th percentile",
        Metric::Rating => "Rating R (E-model)",
        Metric::PairRate => "Rate by packet pairs",
        Metric::SetupTime => "Time to set up a call, median",
        Metric::CallSuccess => "Calls set up, of those tried",
        Metric::TransferTime => "Time of a transfer",
        Metric::PacketRate => "Packets received a second",
        Metric::SampleDelay => "Median of the samples' mean delays",
        Metric::PeakSent => "Most packets sent in a sample",
        Metric::PeakReceived => "Most packets received in a sample",
    }
    .to_string()
}

/// What stands beneath an axis of x: the key, and the unit that its last word tells.
fn axis_title(key: &str) -> String {
    match key.rsplit(['.', '-']).next() {
        Some("loss" | "up" | "down") if key.contains("loss") => format!("{key}, share of packets"),
        Some("rate") => format!("{key}, bit/s"),
        Some("size") => format!("{key}, B"),
        Some("delay" | "duration" | "warmup" | "interval" | "time") => format!("{key}, s"),
        _ => key.to_string(),
    }
}

/// A value of a metric without its unit, in the unit of a column: `(factor, unit)`.
pub(crate) fn column_unit(metric: Metric) -> (f64, &'static str) {
    match metric.unit() {
        Unit::BitPerSecond => (1e6, "Mbit/s"),
        Unit::Second => (1e-3, "ms"),
        Unit::Ratio => (0.01, "%"),
        Unit::Count => (1.0, ""),
    }
}
