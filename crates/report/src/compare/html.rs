//! The comparison as one HTML file.

use std::fmt::Write;

use measure::Figure;
use measure::analysis::Series;
use serde_json::json;

use super::{Comparison, Side};
use crate::VERSION;
use crate::figures::{self, Drawn, Line, column_unit};
use crate::html::{Page, Text, details, tiles};
use crate::page::{cells_box, column, four_digits};

impl Comparison<'_> {
    pub(super) fn html(&self) -> String {
        let names = [&self.a, &self.b].map(|side| side.recording.outline.name.as_str());
        let title = if names[0] == names[1] { format!("{}: A and B", names[0]) } else { names.join(" and ") };
        let mut page = Page {
            title: format!("{title} · Narrows"),
            body: format!(
                "<header><p class=\"kind\">Comparison of two runs</p><h1>{}</h1>{}{}</header>\n",
                Text(&title),
                self.tiles(),
                self.sides()
            ),
            sections: Vec::new(),
            figures: Vec::new(),
            tables: Vec::new(),
            version: VERSION,
        };
        self.figures(&mut page);
        let verdicts = self.verdict_table();
        if !verdicts.is_empty() {
            page.section("verdicts", "Verdicts", "Expectations and findings", &verdicts);
        }
        self.tables(&mut page);
        page.section("plans", "Plans", "Where the plans differ", &self.plan_table());
        page.html()
    }

    fn tiles(&self) -> String {
        let mut entries = Vec::new();
        for compared in &self.metrics {
            if let Some(all) = &compared.all {
                let beneath =
                    format!("{:.3} to {:.3}, {}, B over A", all.median.low, all.median.high, compared.metric.name());
                entries.push(("Median ratio", format!("{:.3}", all.median.value), beneath));
            }
        }
        let both = self.metrics.first().map_or(0, |compared| compared.rows.len());
        entries.push(("In both", both.to_string(), "points of the sweep".to_string()));
        entries.push(("Only in A", self.only_a.len().to_string(), String::new()));
        entries.push(("Only in B", self.only_b.len().to_string(), String::new()));
        tiles(&entries)
    }

    fn sides(&self) -> String {
        let fact = |side: &Side| {
            let (recording, outline) = (side.recording, &side.recording.outline);
            let session = recording.sessions().next();
            [
                ("Directory", recording.dir.display().to_string()),
                ("Begun", session.and_then(|s| s.started.clone()).unwrap_or_default()),
                ("Seed", outline.seed.to_string()),
                ("Version", format!("narrows {}", outline.version)),
                ("Executor", session.map_or(String::new(), |s| format!("{} time", s.executor))),
                (
                    "Machine",
                    session
                        .and_then(|s| s.machine.as_ref())
                        .map_or(String::new(), |m| format!("{}, {} × {}", m.kernel, m.cpus, m.cpu)),
                ),
                ("Scale", if outline.quick { "quick" } else { "full" }.to_string()),
                ("Cells", format!("{} of {}", side.analysis.health.finished, side.analysis.health.planned)),
            ]
        };
        let rows: String = fact(&self.a)
            .iter()
            .zip(fact(&self.b))
            .map(|((name, a), (_, b))| {
                format!(
                    "<tr><th scope=\"row\">{name}</th><td data-name=\"A\">{}</td><td data-name=\"B\">{}</td></tr>",
                    Text(a),
                    Text(&b)
                )
            })
            .collect();
        format!(
            "<div class=\"scroll\" style=\"margin-top:1.25rem\"><table class=\"cards\"><thead><tr><th></th><th scope=\"col\">A</th><th scope=\"col\">B</th></tr></thead><tbody>{rows}</tbody></table></div>"
        )
    }

    /// Panels that both have, with A's lines whole and B's dashed.
    fn figures(&self, page: &mut Page) {
        let mut body = String::new();
        let (study, other) = (&self.a.recording.outline.study, &self.b.recording.outline.study);
        for figure in &study.figures {
            let same = |f: &&Figure| (&f.x, f.y, &f.series) == (&figure.x, figure.y, &figure.series);
            let Some(theirs) = other.figures.iter().find(same) else { continue };
            let mut panels = figures::panels(figure, self.a.analysis);
            let others = figures::panels(theirs, self.b.analysis);
            for panel in &mut panels {
                let Some(beside) = others.iter().find(|p| p.title == panel.title) else { continue };
                panel.lines = panel
                    .lines
                    .drain(..)
                    .flat_map(|line| {
                        let label = line.series.label.clone();
                        let b = beside.lines.iter().find(|l| l.series.label == label).map(|l| {
                            let series = Series { label: format!("{label} · B"), ..l.series.clone() };
                            Line { series, colour: line.colour, dash: 2 }
                        });
                        let series = Series { label: format!("{label} · A"), ..line.series };
                        [Some(Line { series, colour: line.colour, dash: 0 }), b].into_iter().flatten()
                    })
                    .collect();
                panel.not_judged.extend(beside.not_judged.iter().cloned());
            }
            panels.retain(|panel: &Drawn| others.iter().any(|p| p.title == panel.title));
            let words = "A is drawn whole, B dotted. Point at a chart, or walk along it by arrow keys; lines are switched by their names.";
            let (html, data) = figures::figure(page.figures.len(), figure, &panels, words);
            body.push_str(&html);
            page.figures.push(data);
        }
        if !body.is_empty() {
            page.section("figures", "Figures", "Figures", &body);
        }
    }

    fn verdict_table(&self) -> String {
        let rows: String = self
            .verdicts()
            .iter()
            .map(|(what, a, b)| {
                let mark = |word: &str| {
                    if a == b { Text(word).to_string() } else { format!("<strong>{}</strong>", Text(word)) }
                };
                format!(
                    "<tr><td>{}</td><td data-name=\"A\" class=\"word\">{}</td><td data-name=\"B\" class=\"word\">{}</td></tr>",
                    Text(what),
                    mark(a),
                    mark(b)
                )
            })
            .collect();
        if rows.is_empty() {
            return rows;
        }
        format!(
            "<div class=\"scroll\"><table class=\"cards\"><thead><tr><th scope=\"col\">What</th><th scope=\"col\">A</th><th scope=\"col\">B</th></tr></thead><tbody>{rows}</tbody></table></div>"
        )
    }

    fn tables(&self, page: &mut Page) {
        let mut body = String::from(
            "<p class=\"note\">Ratios of medians, B over A. From three repeats on each side with the percentile bootstrap's 95 % interval.</p>",
        );
        let names = self.row_names();
        for (number, compared) in self.metrics.iter().enumerate() {
            let id = format!("compared-{number}");
            let (factor, unit) = column_unit(compared.metric);
            let name = compared.metric.name();
            let with_unit = if unit.is_empty() { name.to_string() } else { format!("{name}, {unit}") };
            let mut columns: Vec<_> = names.iter().map(|name| column(name, false)).collect();
            columns.extend([column(&format!("A: {with_unit}"), true), column(&format!("B: {with_unit}"), true)]);
            columns.extend(["ratio", "from", "to"].map(|name| json!({"name": name, "kind": "num", "digits": 3})));
            let rows: Vec<_> = compared
                .rows
                .iter()
                .map(|row| {
                    let value = |v: Option<f64>| json!(v.map(|v| four_digits(v / factor)));
                    let ratio = |v: Option<f64>| json!(v.map(four_digits));
                    let interval = row.interval.as_ref();
                    let mut cells: Vec<_> = row.labels.iter().zip(&names).map(|(label, _)| json!(label)).collect();
                    cells.extend([value(row.a), value(row.b), ratio(row.ratio)]);
                    cells.extend([ratio(interval.map(|e| e.low)), ratio(interval.map(|e| e.high))]);
                    cells
                })
                .collect();
            page.tables.push(json!({"id": id, "columns": columns, "rows": rows, "marked": []}));
            let _ = write!(body, "<h3>{}</h3>{}", Text(&figures::name(compared.metric)), cells_box(&id, "Search"));
        }
        body.push_str(&details(&format!("{} only in A", self.only_a.len()), self.only_a.iter().cloned()));
        body.push_str(&details(&format!("{} only in B", self.only_b.len()), self.only_b.iter().cloned()));
        page.section("cells", "Cells", "Point by point", &body);
    }

    fn plan_table(&self) -> String {
        if self.differences.is_empty() {
            return "<p>They are the same.</p>".to_string();
        }
        let side =
            |value: &Option<String>| value.as_ref().map_or("–".to_string(), |v| format!("<code>{}</code>", Text(v)));
        let rows: String = self
            .differences
            .iter()
            .map(|d| {
                format!(
                    "<tr><td>{}</td><td data-name=\"A\">{}</td><td data-name=\"B\">{}</td></tr>",
                    Text(&d.place),
                    side(&d.left),
                    side(&d.right)
                )
            })
            .collect();
        format!(
            "<div class=\"scroll\"><table class=\"cards\"><thead><tr><th scope=\"col\">Where</th><th scope=\"col\">A</th><th scope=\"col\">B</th></tr></thead><tbody>{rows}</tbody></table></div>"
        )
    }
}
