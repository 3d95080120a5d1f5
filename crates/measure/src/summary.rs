//! A recording in a screenful of text, as the command line prints it after a run.

use std::fmt::Write;

use crate::analysis::{Analysis, Found, Held, NotJudged, Series, Verdict, series};
use crate::format::{common_unit, count, digits, duration, quantity};
use crate::{Figure, Metric, Panel, Recording, Unit};

/// Rows of the plain table, which stands in where no figure is asked for.
const MOST_ROWS: usize = 40;
/// Names in a list before it says how many more there are.
const MOST_NAMES: usize = 3;

/// The summary, in lines of at most `width` characters where words allow it (at least 60).
#[must_use]
pub fn text(recording: &Recording, analysis: &Analysis, width: usize) -> String {
    let width = width.max(60);
    let mut out = String::new();
    line(&mut out, width, 0, &heading(recording, analysis));
    let figures = &recording.outline.study.figures;
    if figures.is_empty() {
        plain_table(&mut out, width, analysis);
    }
    for figure in figures {
        figure_table(&mut out, width, figure, analysis);
    }
    findings(&mut out, width, &analysis.findings);
    machine(&mut out, width, analysis);
    expectations(&mut out, width, analysis);
    out
}

fn heading(recording: &Recording, analysis: &Analysis) -> String {
    let outline = &recording.outline;
    let mut parts = vec![format!("{} of {} cells", analysis.health.finished, analysis.health.planned)];
    if let Some(session) = recording.sessions().last() {
        parts.push(format!("{} time", session.executor));
    }
    if let Some(seconds) = recording.elapsed_s() {
        parts.push(duration(seconds));
    }
    parts.push(format!("seed {}", outline.seed));
    parts.push(format!("narrows {}", outline.version));
    format!("{}{}: {}", outline.name, if outline.quick { " (quick)" } else { "" }, parts.join(", "))
}

/// Medians with one line a series and one column a value of x.
fn figure_table(out: &mut String, width: usize, figure: &Figure, analysis: &Analysis) {
    let drawn: Vec<(&Panel, Vec<Series>)> =
        figure.panels.iter().map(|panel| (panel, series(figure, panel, analysis))).collect();
    let all = || drawn.iter().flat_map(|(_, series)| series).filter(|s| !s.omitted);
    let most = all().flat_map(|s| &s.points).filter_map(|(_, y)| *y).fold(0.0, f64::max);
    let (factor, unit) = common_unit(most, figure.y.unit());
    let decimals = match most / factor {
        most if most >= 100.0 => 1,
        most if most >= 10.0 => 2,
        _ => 3,
    };
    let names = all().map(|s| s.label.chars().count()).max().unwrap_or(0);
    let mut xs: Vec<f64> = all().flat_map(|s| s.points.iter().map(|(x, _)| *x)).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    let shown = spread(&xs, (width.saturating_sub(names + 4) / 7).max(2));
    let unit = if unit.is_empty() { String::new() } else { format!(" in {unit}") };
    line(out, width, 0, "");
    line(out, width, 0, &format!("{}{unit} by {}, medians", capital(figure.y.name()), figure.x));
    let mut head = format!("  {:names$}  ", "");
    for x in &shown {
        let _ = write!(head, "{x:>7}");
    }
    row(out, head.trim_end());
    for (panel, series) in drawn {
        line(out, width, 1, &panel.title);
        for one in series.iter().filter(|s| !s.omitted) {
            let mut cells = format!("    {:names$}", one.label);
            for x in &shown {
                let value = one.points.iter().find(|(at, _)| at == x).and_then(|(_, y)| *y);
                let _ = write!(cells, "{:>7}", value.map_or("-".to_string(), |y| format!("{:.decimals$}", y / factor)));
            }
            row(out, &cells);
        }
    }
}

/// The metrics a run without figures is shown by.
fn plain_table(out: &mut String, width: usize, analysis: &Analysis) {
    const SHOWN: [Metric; 13] = [
        Metric::Goodput,
        Metric::Share,
        Metric::Loss,
        Metric::DelayP50,
        Metric::RttP50,
        Metric::Retransmits,
        Metric::JitterP99,
        Metric::Rating,
        Metric::PairRate,
        Metric::SetupTime,
        Metric::TransferTime,
        Metric::PacketRate,
        Metric::SampleDelay,
    ];
    let measured = |metric: &Metric| analysis.groups.iter().any(|g| g.median(*metric).is_some());
    let metrics: Vec<Metric> = SHOWN.into_iter().filter(measured).collect();
    let rows = &analysis.groups[..analysis.groups.len().min(MOST_ROWS)];
    let names = rows.iter().map(|g| g.label().chars().count()).max().unwrap_or(0);
    line(out, width, 0, "");
    let mut head = format!("  {:names$}", "");
    for metric in &metrics {
        let _ = write!(head, "{:>14}", metric.name());
    }
    row(out, &head);
    for group in rows {
        let mut cells = format!("  {:names$}", group.label());
        for metric in &metrics {
            let value = group.median(*metric).map_or("-".to_string(), |value| quantity(value, metric.unit()));
            let _ = write!(cells, "{value:>14}");
        }
        row(out, &cells);
    }
    if rows.len() < analysis.groups.len() {
        line(out, width, 1, &format!("and {} more in cells.csv", analysis.groups.len() - rows.len()));
    }
}

fn findings(out: &mut String, width: usize, findings: &[Found]) {
    if findings.is_empty() {
        return;
    }
    line(out, width, 0, "");
    line(out, width, 0, "What the paper found, and what was measured");
    for found in findings {
        let verdict = match found.verdict {
            Verdict::Holds => "agrees",
            Verdict::Fails => "DIFFERS",
            Verdict::NotJudged => "not judged",
        };
        line(out, width, 1, &format!("{verdict}: {}", found.measured));
        line(out, width, 2, &format!("paper, {}: “{}”", found.source, found.paper));
        if let Some(cost) = &found.cost {
            // By a numeric axis it is a curve, and stands in the report.
            for breakdown in cost.by.iter().filter(|b| b.rows.iter().any(|(label, _)| label.parse::<f64>().is_err())) {
                let one = |(label, ratio): &(String, crate::statistics::PairedRatio)| {
                    format!("{label} {:.3} ({:.3} to {:.3})", ratio.median.value, ratio.median.low, ratio.median.high)
                };
                let rows: Vec<String> = breakdown.rows.iter().map(one).collect();
                line(out, width, 2, &format!("by {}: {}", breakdown.key, rows.join(", ")));
            }
        }
        if !found.not_judged.is_empty() {
            line(out, width, 2, &format!("left out: {}", names(&found.not_judged)));
        }
    }
}

fn machine(out: &mut String, width: usize, analysis: &Analysis) {
    let health = &analysis.health;
    let s = |value: f64| quantity(value, Unit::Second);
    line(out, width, 0, "");
    line(out, width, 0, "Machine");
    if health.virtual_time {
        line(out, width, 1, "time was virtual: nobody waits, so nothing is late");
        return;
    }
    let lateness = match &health.lateness {
        Some(l) => format!("lateness p50 {}, p99 {}, most {}", s(l.p50), s(l.p99), s(l.max)),
        None => format!("lateness p99 at most {}, most {}", s(health.worst_p99_s), s(health.worst_s)),
    };
    let packets = format!(
        "{} of {} packets late by more than their cell's limit (at most {}); {lateness}; {} stalls, {} in all; {} lost by \
         the kernel",
        count(health.late_packets),
        count(health.packets),
        s(health.late_limit_s),
        count(health.stalls),
        s(health.stalled_s),
        count(health.kernel_drops)
    );
    line(out, width, 1, &packets);
    let cpu: Vec<String> = health.cpu_s.iter().map(|(part, used)| format!("{part} {}", s(*used))).collect();
    let share = |value: f64| quantity(value, Unit::Ratio);
    let busy = health.machine_busy.map_or(String::new(), |(middle, most)| {
        format!(
            "; busy {} (most {}), taken by the hypervisor {}",
            share(middle),
            share(most),
            share(health.machine_steal)
        )
    });
    let cpu = if cpu.is_empty() { "not measured".to_string() } else { cpu.join(", ") };
    line(out, width, 1, &format!("CPU time: {cpu}{busy}; up to {} cells side by side", health.cells_beside));
    if !health.spoiled.is_empty() {
        line(out, width, 1, &format!("{} spoiled: {}", cells(health.spoiled.len()), names(&health.spoiled)));
    }
}

fn expectations(out: &mut String, width: usize, analysis: &Analysis) {
    if analysis.expectations.is_empty() {
        return;
    }
    line(out, width, 0, "");
    line(out, width, 0, "Expectations");
    for held in &analysis.expectations {
        line(out, width, 1, &format!("{}: {}", verdict_word(held.verdict), held.text));
        for why in reasons(held) {
            line(out, width, 2, &why);
        }
    }
    let with = |verdict| analysis.expectations.iter().filter(|held| held.verdict == verdict).count();
    let all = analysis.expectations.len();
    let total = format!(
        "{} of {all} hold, {} fail, {} not judged",
        with(Verdict::Holds),
        with(Verdict::Fails),
        with(Verdict::NotJudged)
    );
    line(out, width, 1, &total);
    if let Some(more) = elsewhere(analysis) {
        line(out, width, 1, &more);
    }
}

/// What is said of expectations that are of the other kind of run.
#[must_use]
pub fn elsewhere(analysis: &Analysis) -> Option<String> {
    let (there, how) = if analysis.health.virtual_time { ("real", "without") } else { ("virtual", "with") };
    (analysis.elsewhere > 0)
        .then(|| format!("{} more are judged in {there} time alone ({how} --virtual)", analysis.elsewhere))
}

fn verdict_word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Holds => "holds",
        Verdict::Fails => "FAILS",
        Verdict::NotJudged => "not judged",
    }
}

/// What is behind the verdict on an expectation, a sentence each.
#[must_use]
pub fn reasons(held: &Held) -> Vec<String> {
    let value = |value| if held.relative { digits(value) } else { quantity(value, held.metric.unit()) };
    let mut lines = Vec::new();
    if held.failed.is_empty() {
        lines.extend(held.tightest.iter().map(|t| format!("nearest: {} ({})", value(t.value), t.label)));
    } else {
        let shown: Vec<String> =
            held.failed.iter().take(MOST_NAMES).map(|f| format!("{} ({})", value(f.value), f.label)).collect();
        let more = and_more(held.failed.len());
        lines.push(format!("fails in {} of {}: {}{more}", held.failed.len(), held.judged, shown.join("; ")));
    }
    if !held.not_judged.is_empty() {
        lines.push(format!("not judged: {}", names(&held.not_judged)));
    }
    lines
}

fn names(list: &[NotJudged]) -> String {
    let shown: Vec<String> = list.iter().take(MOST_NAMES).map(|n| format!("{} ({})", n.label, n.why)).collect();
    format!("{}{}", shown.join("; "), and_more(list.len()))
}

fn and_more(length: usize) -> String {
    if length > MOST_NAMES { format!("; and {} more", length - MOST_NAMES) } else { String::new() }
}

fn cells(n: usize) -> String {
    if n == 1 { "1 cell".to_string() } else { format!("{n} cells") }
}

/// At most `n` of the values, evenly spread, with the first and the last.
fn spread(values: &[f64], n: usize) -> Vec<f64> {
    if values.len() <= n {
        return values.to_vec();
    }
    (0..n).map(|i| values[i * (values.len() - 1) / (n - 1)]).collect()
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// Writes a row of a table, however long.
fn row(out: &mut String, text: &str) {
    out.push_str(text.trim_end());
    out.push('\n');
}

/// Writes text indented by `depth` steps, its following lines one step more.
fn line(out: &mut String, width: usize, depth: usize, text: &str) {
    let (first, rest) = ("  ".repeat(depth), "  ".repeat(depth + 1));
    let mut current = first;
    let mut used = current.chars().count();
    let mut empty = true;
    for word in text.split(' ') {
        let length = word.chars().count();
        if !empty && used + 1 + length > width {
            out.push_str(&current);
            out.push('\n');
            current = rest.clone();
            used = current.chars().count();
            empty = true;
        }
        if !empty {
            current.push(' ');
            used += 1;
        }
        current.push_str(word);
        used += length;
        empty = false;
    }
    out.push_str(current.trim_end());
    out.push('\n');
}
