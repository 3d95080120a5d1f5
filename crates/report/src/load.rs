//! The page of one load on a user plane: the thesis's figures 5.5 to 6.5.

use std::fmt::Write;

use measure::analysis::Series;

use crate::VERSION;
use crate::figures::{Axes, Drawn, Line, grid};
use crate::html::{Page, Text};

/// A figure over time, one value of each line in each sample.
#[derive(Clone, Debug)]
pub struct LoadFigure {
    /// What it shows.
    pub title: &'static str,
    /// Title of y, with its unit.
    pub y: &'static str,
    /// Lines by name; a sample without a value is a gap.
    pub lines: Vec<(&'static str, Vec<Option<f64>>)>,
}

/// A load as one HTML file that works offline: what came of it in words, and its samples as figures.
/// `interval_s` is the length of a sample in seconds.
#[must_use]
pub fn load_page(name: &str, lines: &[String], interval_s: f64, figures: &[LoadFigure]) -> String {
    let mut words = String::new();
    for line in lines {
        let _ = write!(words, "<li>{}</li>", Text(line));
    }
    let mut page = Page {
        title: format!("{name} · load · Narrows"),
        body: format!("<header><p class=\"kind\">Load on a user plane</p><h1>{}</h1></header>\n", Text(name)),
        sections: Vec::new(),
        figures: Vec::new(),
        tables: Vec::new(),
        version: VERSION,
    };
    page.section("summary", "Summary", "What came of it", &format!("<ul>{words}</ul>"));
    let mut body = String::from(
        "<p class=\"note\">Here directions are those that packets travel: uplink packets are sent on N3 and received on N6.</p>",
    );
    for figure in figures {
        let axes =
            Axes { x: "time, s".to_owned(), x_values: "s".to_owned(), y: figure.y.to_owned(), what: "", factor: 1.0 };
        let drawn = figure.lines.iter().enumerate().map(|(number, (label, values))| {
            let at = |i: usize| ((i + 1) as f64 * interval_s * 1e3).round() / 1e3;
            let points: Vec<_> = values.iter().enumerate().map(|(i, value)| (at(i), *value)).collect();
            let bands = vec![None; points.len()];
            let series = Series { label: (*label).to_owned(), omitted: false, points, bands };
            Line { series, colour: number, dash: number }
        });
        let panel = Drawn {
            title: figure.title.to_owned(),
            beneath: String::new(),
            lines: drawn.collect(),
            not_judged: Vec::new(),
        };
        let (html, data) = grid(page.figures.len(), &axes, &[panel], "");
        body.push_str(&html);
        page.figures.push(data);
    }
    page.section("figures", "Figures", "Over time", &body);
    page.html()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_and_words_are_there_and_nothing_is_taken_for_html() {
        let lines = vec![("sent", vec![Some(1.0), None, Some(3.0)])];
        let figure = LoadFigure { title: "Packets in a sample", y: "packets", lines };
        let page = load_page("<b>", &["1 < 2".to_owned()], 0.1, &[figure]);
        assert!(page.contains("&lt;b&gt;") && page.contains("1 &lt; 2") && !page.contains("<b>"));
        assert!(page.contains("Packets in a sample") && page.contains("0.3"));
    }
}
