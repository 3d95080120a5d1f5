//! The report of one recording.

use std::collections::HashSet;
use std::fmt::Write;

use measure::analysis::{Analysis, Found, HealthSummary};
use measure::format::{count, duration, quantity};
use measure::{Discarded, Metric, Recording, Unit, Verdict, summary};
use serde_json::{Value, json};

use crate::figures::{self, column_unit};
use crate::html::{Page, Text, class, details, facts, icon, tag, tiles};
use crate::{VERSION, adapters, cost};

/// Bytes of a resolved cell up to which it stands in the report.
const MOST_PLAN_BYTES: usize = 64 << 10;

/// The report as one HTML file. The same recording gives the same report.
#[must_use]
pub fn page(recording: &Recording, analysis: &Analysis) -> String {
    let study = &recording.outline.study;
    let mut page = Page {
        title: format!("{} · Narrows", recording.outline.name),
        body: header(recording, analysis),
        sections: Vec::new(),
        figures: Vec::new(),
        tables: Vec::new(),
        version: VERSION,
    };
    if !analysis.findings.is_empty() {
        page.section(
            "findings",
            "Findings",
            "What the paper found, and what was measured",
            &findings(&analysis.findings),
        );
    }
    if !study.figures.is_empty() {
        let mut body = String::new();
        for (number, figure) in study.figures.iter().enumerate() {
            let panels = figures::panels(figure, analysis);
            let (html, data) = figures::figure(number, figure, &panels, band_words(recording));
            body.push_str(&html);
            page.figures.push(data);
        }
        page.section("figures", "Figures", "Figures", &body);
    }
    for (number, cost) in analysis.findings.iter().filter_map(|f| f.cost.as_ref()).enumerate() {
        let title = format!("What {} costs against {}", cost.variant, cost.base);
        let body = cost::cost(cost);
        if number == 0 {
            page.section("cost", "Cost", &title, &body);
        } else {
            let _ = write!(page.body, "<section><h2>{}</h2>{body}</section>", Text(&title));
        }
    }
    if !analysis.expectations.is_empty() {
        page.section("expectations", "Expectations", "Expectations", &expectations(analysis));
    }
    page.section("machine", "Machine", "How the machine kept up", &machine(&analysis.health));
    if recording.cells.iter().any(|cell| !cell.adapters.is_empty()) {
        let body = cells_box("adapters-table", "Search, for example: radio.west");
        page.section("adapters", "Adapters", "What the narrowband adapters did", &format!("{}{body}", adapters::NOTE));
        page.tables.push(adapters::table(recording));
    }
    page.section("links", "Links", "What the links dropped", &links(&analysis.health));
    page.section("cells", "Cells", "All cells", &cells_box("cells-table", "Search, for example: lidar 5g-1 0.07"));
    page.tables.push(cells_table(recording));
    page.section("plan", "Plan", "The plan", &plan(recording));
    page.html()
}

impl Page {
    /// Adds a section; `body` is HTML.
    pub(crate) fn section(&mut self, id: &'static str, name: &'static str, title: &str, body: &str) {
        let _ = writeln!(self.body, "<section id=\"{id}\"><h2>{}</h2>{body}</section>", Text(title));
        self.sections.push((id, name));
    }
}

fn header(recording: &Recording, analysis: &Analysis) -> String {
    let outline = &recording.outline;
    let kind = if outline.quick { "Report of a quick run" } else { "Report" };
    let description = if outline.description.is_empty() {
        String::new()
    } else {
        format!("<p class=\"lead\">{}</p>", Text(&outline.description))
    };
    format!(
        "<header><p class=\"kind\">{kind}</p><h1>{}</h1>{description}{}{}{}</header>\n",
        Text(&outline.name),
        banner(analysis),
        tiles(&in_short(analysis)),
        run_facts(recording)
    )
}

fn banner(analysis: &Analysis) -> String {
    let health = &analysis.health;
    let with = |verdict| analysis.expectations.iter().filter(|h| h.verdict == verdict).count();
    let (all, fails, open) = (analysis.expectations.len(), with(Verdict::Fails), with(Verdict::NotJudged));
    let mut beneath = Vec::new();
    if health.finished < health.planned {
        beneath.push(format!("{} of {} cells have run.", health.finished, health.planned));
    }
    if !health.spoiled.is_empty() {
        beneath.push(format!("{} spoiled and not judged.", plural(health.spoiled.len(), "cell")));
    }
    let (verdict, say) = match analysis.verdict() {
        _ if all == 0 => (None, "Nothing was expected of this run.".to_string()),
        Verdict::Holds => (Some(Verdict::Holds), format!("{}.", all_of(all, "expectation"))),
        Verdict::Fails => {
            let does = if fails == 1 { "does" } else { "do" };
            (Some(Verdict::Fails), format!("{fails} of {} {does} not hold.", plural(all, "expectation")))
        }
        Verdict::NotJudged => {
            (Some(Verdict::NotJudged), format!("{open} of {} could not be judged.", plural(all, "expectation")))
        }
    };
    if fails > 0 && open > 0 {
        beneath.push(format!("{open} could not be judged."));
    }
    format!(
        "<div class=\"banner {}\" role=\"status\">{}<div><p class=\"say\">{}</p>{}</div></div>",
        verdict.map_or("", class),
        verdict.map_or(String::new(), icon),
        Text(&say),
        if beneath.is_empty() { String::new() } else { format!("<p class=\"small\">{}</p>", Text(&beneath.join(" "))) }
    )
}

fn in_short(analysis: &Analysis) -> Vec<(&'static str, String, String)> {
    let health = &analysis.health;
    let mut entries =
        vec![("Cells", count(health.finished as u64), format!("of {} planned", count(health.planned as u64)))];
    if !analysis.findings.is_empty() {
        let agree = analysis.findings.iter().filter(|f| f.verdict == Verdict::Holds).count();
        entries.push(("Findings that agree", agree.to_string(), format!("of {}", analysis.findings.len())));
    }
    if let Some(cost) = analysis.findings.iter().find_map(|f| f.cost.as_ref()) {
        let median = &cost.ratio.median;
        let beneath = format!("{:.3} to {:.3}, {} over {}", median.low, median.high, cost.variant, cost.base);
        entries.push(("Median ratio", format!("{:.3}", median.value), beneath));
    }
    if health.virtual_time {
        return entries;
    }
    let late = if health.packets == 0 { 0.0 } else { health.late_packets as f64 / health.packets as f64 };
    entries.push(("Late packets", quantity(late, Unit::Ratio), format!("of {}", count(health.packets))));
    entries.push(("Stalls", count(health.stalls), format!("{} in all", seconds(health.stalled_s))));
    entries
}

fn run_facts(recording: &Recording) -> String {
    let outline = &recording.outline;
    let first = recording.sessions().next();
    let sessions = recording.sessions().count();
    let machine = recording.sessions().last().and_then(|s| s.machine.as_ref());
    let one_cell = |key: &str| recording.plan["cells"][0][key].as_str().unwrap_or_default().to_string();
    let repeats = outline.cells.iter().map(|cell| cell.repeat).max().map_or(0, |last| last + 1);
    let mut executor = first.map_or(String::new(), |s| format!("{} time", s.executor));
    for (what, value) in
        [("wire", first.and_then(|s| s.wire.as_deref())), ("jobs", first.and_then(|s| s.jobs.as_deref()))]
    {
        if let Some(value) = value {
            let _ = write!(executor, ", {what} {value}");
        }
    }
    let elapsed = recording.elapsed_s().map(duration).unwrap_or_default();
    let started = first.and_then(|s| s.started.clone()).unwrap_or_default();
    let when = match (started.is_empty(), sessions) {
        (true, _) => String::new(),
        (false, 1) => started,
        (false, n) => format!("{started}, in {n} sessions"),
    };
    let text = |value: String| Text(&value).to_string();
    let remarks: Vec<&str> = recording.sessions().flat_map(|s| s.remarks.iter().map(String::as_str)).collect();
    let remarks: HashSet<&str> = remarks.into_iter().collect();
    let mut remarks: Vec<&str> = remarks.into_iter().collect();
    remarks.sort_unstable();
    facts(&[
        ("Begun", text(when)),
        ("Took", text(elapsed)),
        ("Seed", format!("<code>{}</code>", outline.seed)),
        ("Version", text(format!("narrows {}", outline.version))),
        ("Executor", text(executor)),
        ("Machine", text(machine.map_or(String::new(), machine_words))),
        ("Scale", if outline.quick { "quick: shortened by <code>--quick</code>".into() } else { "full".into() }),
        ("Changed", outline.set.iter().map(|set| format!("<code>{}</code> ", Text(set))).collect()),
        ("A cell", text(cell_words(&one_cell("duration"), &one_cell("warmup"), &one_cell("interval")))),
        ("Repeats", text(repeat_words(repeats))),
        ("Remarks", text(remarks.join(" "))),
    ])
}

fn machine_words(machine: &measure::event::Machine) -> String {
    let gib = machine.memory_bytes as f64 / f64::from(1 << 30);
    format!("{}, {} × {}, {gib:.1} GiB", machine.kernel, machine.cpus, machine.cpu)
}

fn cell_words(duration: &str, warmup: &str, interval: &str) -> String {
    if duration.is_empty() {
        return String::new();
    }
    let mut words = format!("measured for {duration}");
    if !interval.is_empty() {
        let _ = write!(words, " in intervals of {interval}");
    }
    if !warmup.is_empty() {
        let before = if warmup.starts_with('0') { "no warm-up" } else { warmup };
        let _ = write!(words, ", {before}{}", if before == warmup { " of warm-up before" } else { "" });
    }
    words
}

fn repeat_words(repeats: u32) -> String {
    match repeats {
        0 | 1 => "1: each value is of one run".to_string(),
        n => format!("{n}: values are medians, bands reach from the smallest to the largest"),
    }
}

fn band_words(recording: &Recording) -> &'static str {
    if recording.outline.cells.iter().any(|cell| cell.repeat > 0) {
        "Medians over the repeats; bands from the smallest to the largest. Point at a chart, or walk along it by arrow keys; lines are switched by their names."
    } else {
        "Point at a chart, or walk along it by arrow keys; lines are switched by their names."
    }
}

fn findings(findings: &[Found]) -> String {
    let mut rows = String::new();
    for found in findings {
        let word = match found.verdict {
            Verdict::Holds => "agrees",
            Verdict::Fails => "differs",
            Verdict::NotJudged => "not judged",
        };
        let mut how = vec![format!("Rule: {}.", found.rule), format!("Agrees if {}.", found.agrees_if)];
        how.extend(found.parts.iter().map(|part| {
            let value = part.value.map_or("never".to_string(), |value| format!("from {}", plain(value)));
            let before = part.before.map_or(String::new(), |before| format!(", not yet at {}", plain(before)));
            format!("{}: {value}{before}", part.label)
        }));
        how.extend(found.not_judged.iter().map(|n| format!("Left out: {} ({})", n.label, n.why)));
        let _ = write!(
            rows,
            "<tr><td data-name=\"Paper\"><blockquote><p>{}</p><cite>{}</cite></blockquote></td><td data-name=\"Measured\"><p>{}</p>{}</td><td data-name=\"Agrees\">{}</td></tr>",
            Text(&found.paper),
            Text(&found.source),
            Text(&found.measured),
            details("How", how),
            tag(found.verdict, word)
        );
    }
    format!(
        "<div class=\"scroll\"><table class=\"findings cards\"><thead><tr><th scope=\"col\">Paper</th><th scope=\"col\">Measured</th><th scope=\"col\">Agrees</th></tr></thead><tbody>{rows}</tbody></table></div>"
    )
}

fn expectations(analysis: &Analysis) -> String {
    let mut rows = String::new();
    for held in &analysis.expectations {
        let word = match held.verdict {
            Verdict::Holds => "holds",
            Verdict::Fails => "fails",
            Verdict::NotJudged => "not judged",
        };
        let reasons: String = summary::reasons(held).iter().map(|why| format!("<p>{}</p>", Text(why))).collect();
        let _ = write!(
            rows,
            "<tr><td data-name=\"Expected\">{}</td><td data-name=\"Seen\">{reasons}</td><td data-name=\"Judged\" class=\"num\">{}</td><td data-name=\"Verdict\">{}</td></tr>",
            Text(&held.text),
            held.judged,
            tag(held.verdict, word)
        );
    }
    let more = summary::elsewhere(analysis).map(|more| format!(" {}.", Text(&more))).unwrap_or_default();
    format!(
        "<p class=\"note\">Judged by the median over the repeats that were not spoiled; what could not be judged is named.{more}</p><div class=\"scroll\"><table class=\"cards\"><thead><tr><th scope=\"col\">Expected</th><th scope=\"col\">Seen</th><th scope=\"col\" class=\"num\">Judged</th><th scope=\"col\">Verdict</th></tr></thead><tbody>{rows}</tbody></table></div>"
    )
}

fn machine(health: &HealthSummary) -> String {
    if health.virtual_time {
        return "<p>Time was virtual: nobody waits, so nothing is late.</p>".to_string();
    }
    let lateness = match &health.lateness {
        Some(l) => vec![
            ("Lateness, median", seconds(l.p50), String::new()),
            ("99th percentile", seconds(l.p99), format!("worst cell {}", seconds(health.worst_p99_s))),
            ("Largest", seconds(l.max), String::new()),
        ],
        None => vec![
            ("99th percentile", seconds(health.worst_p99_s), "worst cell".to_string()),
            ("Largest", seconds(health.worst_s), String::new()),
        ],
    };
    let late = format!("over {}, of {}", seconds(health.late_limit_s), count(health.packets));
    let mut entries = lateness;
    entries.push(("Late packets", count(health.late_packets), late));
    entries.push(("Stalls", count(health.stalls), format!("{} in all", seconds(health.stalled_s))));
    entries.push(("Lost by the kernel", count(health.kernel_drops), "packets, between site and emulator".to_string()));
    if let Some((middle, most)) = health.machine_busy {
        let ratio = |value| quantity(value, Unit::Ratio);
        entries.push(("Machine busy", ratio(middle), format!("median cell; most {}", ratio(most))));
        entries.push(("Taken by hypervisor", ratio(health.machine_steal), "worst cell".to_string()));
    }
    entries.push(("Cells side by side", count(health.cells_beside.into()), "at most".to_string()));
    let mut html = format!(
        "<p class=\"note\">No packet leaves before its time; lateness is how long after its time it left.</p>{}",
        tiles(&entries)
    );
    let total: f64 = health.cpu_s.iter().map(|(_, s)| s).sum();
    if total > 0.0 {
        html.push_str("<h3>CPU time by part</h3><div class=\"scroll\"><table><thead><tr><th scope=\"col\">Part</th><th scope=\"col\">Share</th><th scope=\"col\" class=\"num\">CPU time</th></tr></thead><tbody>");
        for (part, used) in &health.cpu_s {
            let share = 100.0 * used / total;
            let _ = write!(
                html,
                "<tr><th scope=\"row\">{}</th><td class=\"word\"><span class=\"meter\"><i style=\"width:{share:.1}%\"></i></span> {share:.0} %</td><td class=\"num\">{}</td></tr>",
                Text(part),
                Text(&seconds(*used))
            );
        }
        html.push_str("</tbody></table></div>");
    }
    if !health.spoiled.is_empty() {
        let _ = write!(
            html,
            "<h3>{} spoiled</h3>{}",
            plural(health.spoiled.len(), "cell"),
            details("Which, and why", health.spoiled.iter().map(|n| format!("{}: {}", n.label, n.why)))
        );
    }
    html
}

fn links(health: &HealthSummary) -> String {
    if health.drops.is_empty() && health.discarded.is_empty() {
        return "<p>Nothing was dropped.</p>".to_string();
    }
    let mut rows = String::new();
    for dropped in &health.drops {
        let (link, direction, pipe) = &dropped.pipe;
        let share = if dropped.offered == 0 { 0.0 } else { dropped.packets as f64 / dropped.offered as f64 };
        let _ = write!(
            rows,
            "<tr><td data-name=\"Link\">{}</td><td data-name=\"Direction\">{}</td><td data-name=\"Pipe\">{}</td><td data-name=\"Reason\">{}</td><td data-name=\"Dropped\" class=\"num\">{}</td><td data-name=\"Of offered\" class=\"num\">{}</td><td data-name=\"Share\" class=\"num\">{}</td></tr>",
            Text(link),
            Text(direction),
            Text(pipe),
            Text(&dropped.reason),
            count(dropped.packets),
            count(dropped.offered),
            quantity(share, Unit::Ratio)
        );
    }
    // Places outside the links have no offered count of their own.
    for Discarded { place, reason, packets } in &health.discarded {
        let _ = write!(
            rows,
            "<tr><td data-name=\"Link\">{}</td><td></td><td></td><td data-name=\"Reason\">{}</td><td data-name=\"Dropped\" class=\"num\">{}</td><td></td><td></td></tr>",
            Text(place),
            Text(reason),
            count(*packets),
        );
    }
    format!(
        "<p class=\"note\">By reason, over all cells: packets; of a line (pipe <code>line</code>) characters; of an adapter's receiving side what the reason names. Nothing ends without a reason; those that took nothing are not shown.</p><div class=\"scroll\"><table class=\"cards\"><thead><tr><th scope=\"col\">Link</th><th scope=\"col\">Direction</th><th scope=\"col\">Pipe</th><th scope=\"col\">Reason</th><th scope=\"col\" class=\"num\">Dropped</th><th scope=\"col\" class=\"num\">Of offered</th><th scope=\"col\" class=\"num\">Share</th></tr></thead><tbody>{rows}</tbody></table></div>"
    )
}

/// The place a table is drawn into by the script, see `report.js`.
pub(crate) fn cells_box(id: &str, hint: &str) -> String {
    format!(
        r#"<div id="{id}"><div class="tools"><input class="search" type="search" placeholder="{}" aria-label="Search the table"><span class="count" role="status"></span></div><div class="scroll tall" tabindex="0"><table class="cells"></table></div></div>"#,
        Text(hint)
    )
}

/// A column of a table that the script draws.
pub(crate) fn column(name: &str, number: bool) -> Value {
    json!({"name": name, "kind": if number { "num" } else { "" }, "digits": number})
}

fn cells_table(recording: &Recording) -> Value {
    let flows = || recording.cells.iter().flat_map(|cell| cell.flows.iter().map(move |flow| (cell, flow)));
    let axes = &recording.outline.study.axes;
    let metrics: Vec<Metric> =
        Metric::ALL.into_iter().filter(|metric| flows().any(|(cell, flow)| metric.of(cell, flow).is_some())).collect();
    // The flow's name says nothing new where an axis picks it.
    let picked = |cell: &measure::CellRecord, flow: &str| cell.coordinates.iter().any(|(_, value)| value.label == flow);
    let with_flow = flows().any(|(cell, flow)| !picked(cell, &flow.flow));
    let repeats = recording.cells.iter().any(|cell| cell.repeat > 0);

    let mut columns = vec![column("cell", true)];
    columns[0]["digits"] = json!(false);
    columns.extend(axes.iter().map(|axis| column(&axis.key, false)));
    if with_flow {
        columns.push(column("flow", false));
    }
    if repeats {
        columns.push(column("repeat", true));
    }
    columns.extend(metrics.iter().map(|metric| {
        let (_, unit) = column_unit(*metric);
        column(&if unit.is_empty() { metric.name().to_string() } else { format!("{}, {unit}", metric.name()) }, true)
    }));
    columns.extend([column("dropped", true), column("late", true), column("stalls", true), column("busy, %", true)]);
    columns.push(json!({"name": "not judged because", "kind": "why", "digits": false}));

    let mut rows: Vec<Value> = Vec::new();
    let mut marked = Vec::new();
    for (cell, flow) in flows() {
        let mut row = vec![json!(cell.cell)];
        row.extend(cell.coordinates.iter().map(|(_, value)| match value.number {
            Some(number) if number.to_string() == value.label => json!(number),
            _ => json!(value.label),
        }));
        if with_flow {
            row.push(json!(flow.flow));
        }
        if repeats {
            row.push(json!(cell.repeat));
        }
        for metric in &metrics {
            let (factor, _) = column_unit(*metric);
            row.push(json!(metric.of(cell, flow).map(|value| four_digits(value / factor))));
        }
        let dropped: u64 = cell.pipes.iter().map(measure::PipeRecord::dropped_packets).sum();
        row.extend([json!(dropped), json!(cell.health.late_packets), json!(cell.health.stalls)]);
        row.push(json!(four_digits(cell.health.machine_busy * 100.0)));
        if cell.health.spoiled.is_some() {
            marked.push(rows.len());
        }
        row.push(json!(cell.health.spoiled.as_ref().or(flow.error.as_ref())));
        rows.push(json!(row));
    }
    json!({"id": "cells-table", "columns": columns, "rows": rows, "marked": marked})
}

/// To four significant digits: the tables of the page need no more, and the file stays small.
pub(crate) fn four_digits(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

fn plan(recording: &Recording) -> String {
    let outline = &recording.outline;
    let first = &recording.plan["cells"][0];
    let resolved = serde_json::to_string_pretty(first).unwrap_or_default();
    // A trace can be megabytes of numbers that nobody reads here.
    let resolved = if resolved.len() > MOST_PLAN_BYTES {
        String::new()
    } else {
        format!(
            "<details><summary>The first cell as resolved</summary><pre tabindex=\"0\">{}</pre></details>",
            Text(&resolved)
        )
    };
    let source = if outline.source.is_empty() {
        String::new()
    } else {
        format!(
            "<details><summary>The scenario file</summary><pre tabindex=\"0\">{}</pre></details>",
            Text(&outline.source)
        )
    };
    format!(
        "<p class=\"note\">Seed {}. Every cell as resolved is in <code>plan.json</code>.</p>{source}{resolved}",
        outline.seed
    )
}

fn seconds(value: f64) -> String {
    quantity(value, Unit::Second)
}

fn plain(value: f64) -> String {
    ((value * 1e9).round() / 1e9).to_string()
}

fn plural(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

fn all_of(n: usize, what: &str) -> String {
    if n == 1 { format!("The one {what} holds") } else { format!("All {n} {what}s hold") }
}
