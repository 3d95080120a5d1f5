//! The comparison as text.

use std::fmt::Write;

use measure::format::quantity;
use measure::statistics::{Estimate, LEAST_PAIRS};

use super::{Compared, Comparison, Row, Side};

/// Rows of a table that are printed: those furthest from 1.
const MOST_ROWS: usize = 40;
/// Entries of a list that are printed.
const MOST_NAMES: usize = 10;

impl Comparison<'_> {
    pub(super) fn text(&self, width: usize) -> String {
        let mut out = String::new();
        for (name, side) in [("A", &self.a), ("B", &self.b)] {
            let _ = writeln!(out, "{name}  {}", heading(side));
        }
        for compared in &self.metrics {
            self.table(&mut out, compared);
        }
        let verdicts = self.verdicts();
        if !verdicts.is_empty() {
            let _ = writeln!(out, "\nExpectations and findings");
            for (what, a, b) in &verdicts {
                let mark = if a == b { " " } else { "*" };
                let _ = writeln!(out, "{mark} {a:>10} {b:>10}  {what}");
            }
        }
        for (name, only) in [("A", &self.only_a), ("B", &self.only_b)] {
            if !only.is_empty() {
                let _ = writeln!(out, "\nOnly in {name}: {}", some(only));
            }
        }
        if self.differences.is_empty() {
            out.push_str("\nThe plans are the same.\n");
        } else {
            out.push_str("\nThe plans differ\n");
            for difference in &self.differences {
                let place = format!("  {}: ", difference.place);
                let room = width.saturating_sub(place.chars().count() + 3) / 2;
                let side = |value: &Option<String>| value.as_deref().map_or("-".to_string(), |v| short(v, room));
                let _ = writeln!(out, "{place}{} | {}", side(&difference.left), side(&difference.right));
            }
        }
        out
    }

    fn table(&self, out: &mut String, compared: &Compared) {
        let unit = compared.metric.unit();
        let _ = writeln!(out, "\n{}, B over A", compared.metric.name());
        match &compared.all {
            Some(all) => {
                let _ = writeln!(
                    out,
                    "  all {} cells: median ratio {}, mean {}",
                    all.median.n,
                    with_interval(&all.median),
                    with_interval(&all.mean)
                );
            }
            None => {
                let _ = writeln!(out, "  fewer than {LEAST_PAIRS} cells have it in both");
            }
        }
        let mut rows: Vec<&Row> = compared.rows.iter().collect();
        if rows.len() > MOST_ROWS {
            let _ = writeln!(out, "  the {MOST_ROWS} of {} that differ most:", rows.len());
            let far = |row: &&Row| row.ratio.map_or(f64::INFINITY, |ratio| ratio.ln().abs());
            rows.sort_by(|x, y| far(y).total_cmp(&far(x)));
            rows.truncate(MOST_ROWS);
        }
        let names = self.row_names();
        let width =
            |i: usize| rows.iter().map(|r| r.labels[i].chars().count()).chain([names[i].len()]).max().unwrap_or(0);
        let widths: Vec<usize> = (0..names.len()).map(width).collect();
        let labels = |labels: &[String]| -> String {
            labels.iter().zip(&widths).map(|(label, width)| format!("{label:width$}  ")).collect()
        };
        let _ = writeln!(out, "  {}{:>12}{:>12}  ratio", labels(&names), "A", "B");
        for row in rows {
            let value = |v: Option<f64>| v.map_or("-".to_string(), |v| quantity(v, unit));
            let ratio = match (&row.interval, row.ratio) {
                (Some(e), _) => with_interval(e),
                (None, Some(ratio)) => format!("{ratio:.3}"),
                (None, None) => "-".to_string(),
            };
            let _ = writeln!(out, "  {}{:>12}{:>12}  {ratio}", labels(&row.labels), value(row.a), value(row.b));
        }
    }

    /// Expectations and findings in words with A's and B's verdict; `-` where one has none.
    pub(super) fn verdicts(&self) -> Vec<(String, &'static str, &'static str)> {
        let of = |side: &Side| -> Vec<(String, &'static str)> {
            let word = |verdict, holds, fails| match verdict {
                measure::Verdict::Holds => holds,
                measure::Verdict::Fails => fails,
                measure::Verdict::NotJudged => "not judged",
            };
            let expected =
                side.analysis.expectations.iter().map(|e| (e.text.clone(), word(e.verdict, "holds", "fails")));
            let found = side
                .analysis
                .findings
                .iter()
                .map(|f| (format!("{}: “{}”", f.source, f.paper), word(f.verdict, "agrees", "differs")));
            expected.chain(found).collect()
        };
        let (a, b) = (of(&self.a), of(&self.b));
        let find = |list: &[(String, &'static str)], what: &str| {
            list.iter().find(|(text, _)| text == what).map_or("-", |(_, verdict)| *verdict)
        };
        let mut rows: Vec<_> = a.iter().map(|(what, verdict)| (what.clone(), *verdict, find(&b, what))).collect();
        let only_b = b.iter().filter(|(what, _)| find(&a, what) == "-");
        rows.extend(only_b.map(|(what, verdict)| (what.clone(), "-", *verdict)));
        rows
    }
}

fn heading(side: &Side) -> String {
    let (recording, outline) = (side.recording, &side.recording.outline);
    let began = recording.sessions().next().and_then(|s| s.started.clone());
    let executor = recording.sessions().next().map(|s| format!("{} time", s.executor));
    let mut parts = vec![recording.dir.display().to_string()];
    parts.push(format!("{}{}", outline.name, if outline.quick { " (quick)" } else { "" }));
    parts.push(format!("{} of {} cells", side.analysis.health.finished, side.analysis.health.planned));
    parts.extend(executor);
    parts.push(format!("seed {}", outline.seed));
    parts.push(format!("narrows {}", outline.version));
    parts.extend(began);
    parts.join(", ")
}

fn with_interval(e: &Estimate) -> String {
    format!("{:.3} ({:.3} to {:.3})", e.value, e.low, e.high)
}

fn some(names: &[String]) -> String {
    let more = names.len().saturating_sub(MOST_NAMES);
    let shown = names[..names.len() - more].join("; ");
    if more > 0 { format!("{shown}; and {more} more") } else { shown }
}

/// On one line, cut to `room` characters, but never to fewer than twelve.
fn short(value: &str, room: usize) -> String {
    let (line, room) = (value.replace('\n', " ⏎ "), room.max(12));
    if line.chars().count() <= room {
        return line;
    }
    line.chars().take(room - 1).chain(['…']).collect()
}
