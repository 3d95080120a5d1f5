//! The page of one trace's self-similarity.

use std::fmt::Write;

use measure::analysis::Series;
use measure::format::{count, digits, duration};
use traffic::selfsimilar::{Case, Estimate, Estimator, Examination, Refusal, Way};

use crate::VERSION;
use crate::figures::{Axes, Drawn, Line, grid};
use crate::html::{Page, Text, tiles};

/// What was found of the trace called `name` as one HTML file that works offline: exponents with their
/// intervals, and figure 5.7 of the thesis.
#[must_use]
pub fn self_similarity(name: &str, found: &Examination) -> String {
    let mut page = Page {
        title: format!("{name} · self-similarity · Narrows"),
        body: header(name, found),
        sections: Vec::new(),
        figures: Vec::new(),
        tables: Vec::new(),
        version: VERSION,
    };
    page.section("exponents", "Hurst exponents", "Hurst exponents", &exponents(found));
    let microseconds = found.bin.as_secs_f64() * 1e6;
    let histogram = |case: &Case| {
        // The last bin holds all that is longer.
        let (_, bins) = case.histogram.split_last()?;
        let all: u64 = case.histogram.iter().sum();
        let share = |bin: &u64| *bin as f64 / all.max(1) as f64;
        Some(vec![bins.iter().enumerate().map(|(i, bin)| (microseconds * i as f64, share(bin))).collect()])
    };
    let axes = Axes {
        x: "time between packets, µs (start of the bin)".to_owned(),
        x_values: "µs".to_owned(),
        y: "share of packets, %".to_owned(),
        what: "",
        factor: 0.01,
    };
    page.figure("gaps", "Times between packets", GAPS, &axes, &panels(found, &["share"], histogram));
    // Numbers of five digits would not fit beneath the axis.
    let furthest = found.cases.iter().filter_map(|case| case.sum.as_ref()?.last()).map(|(lag, _)| *lag).max();
    let (thousand, unit) = if furthest > Some(5_000) { (1e3, "1,000 packets") } else { (1.0, "packets") };
    let sums = |case: &Case| {
        let line = |sum: &[(u64, f64)]| sum.iter().map(|(lag, sum)| (*lag as f64 / thousand, *sum)).collect();
        Some(vec![line(case.sum.as_ref()?), line(case.chance.as_ref()?)])
    };
    let axes = Axes {
        x: format!("lag k, {unit}"),
        x_values: format!("k, {unit}"),
        y: "sum of |ρ(1)| to |ρ(k)|".to_owned(),
        what: "",
        factor: 1.0,
    };
    let lines = ["in their order", "in a drawn order"];
    page.figure("sums", "Sums of autocorrelations", SUMS, &axes, &panels(found, &lines, sums));
    page.html()
}

const EXPONENTS: &str = "<p class=\"note\">H of 0.5 is no long-range dependence, towards 1 is more of it; intervals are of 95 %. \
    Whittle's holds if the series is fractional Gaussian noise at all scales, which traffic seldom is: where it disagrees, \
    the others are right. Copies at the same instant multiply every slot, which no exponent shows; variance over mean does, \
    as do instances that know nothing of each other, for which it stays what it is. The exponents of repetitions are those of a \
    trace that has a period: beyond its length nothing is learnt.</p>";

const GAPS: &str = "<p class=\"note\">The left column of the thesis's figure 5.7. Copies add times of zero, repetitions change nothing. \
    The longest times are left out.</p>";

const SUMS: &str = "<p class=\"note\">The right column of the thesis's figure 5.7: equation 2.2 as far as a sample goes. The sum over a \
    finite list rises without end for any list, by chance alone; only what lies above the same times in a drawn order is dependence. \
    Copies put zeros at regular places, which correlate in any order.</p>";

impl Page {
    fn figure(&mut self, id: &'static str, title: &'static str, note: &str, axes: &Axes, panels: &[Drawn]) {
        let (html, data) = grid(self.figures.len(), axes, panels, "");
        self.section(id, title, title, &format!("{note}{html}"));
        self.figures.push(data);
    }
}

fn header(name: &str, found: &Examination) -> String {
    let series = if found.of_bytes { "bytes" } else { "packets" };
    let mut entries = vec![
        ("Packets", count(found.packets), format!("in {}", duration(found.span.as_secs_f64()))),
        ("Slot", found.slot.to_string(), format!("{series} are counted in it")),
    ];
    let wavelet = |case: &Case| case.hurst.iter().find(|(estimator, _)| *estimator == Estimator::Wavelet).cloned();
    if let Some((_, Ok(estimate))) = found.cases.first().and_then(wavelet) {
        entries.push(("H by wavelets", format!("{:.2}", estimate.hurst), interval(&estimate)));
    }
    format!(
        "<header><p class=\"kind\">Self-similarity of a trace</p><h1>{}</h1>{}</header>\n",
        Text(name),
        tiles(&entries)
    )
}

fn exponents(found: &Examination) -> String {
    let names: String = Estimator::ALL
        .iter()
        .map(|estimator| format!("<th scope=\"col\" class=\"num\">{}</th>", Text(estimator.name())))
        .collect();
    let mut rows = String::new();
    for case in &found.cases {
        let cells: String = case.hurst.iter().map(|(_, estimate)| cell(estimate)).collect();
        let _ = write!(
            rows,
            "<tr><th scope=\"row\">{}</th><td class=\"num\">{}</td><td class=\"num\">{}</td>{cells}</tr>",
            Text(&title(case)),
            count(case.slots as u64),
            digits(case.dispersion)
        );
    }
    format!(
        "{EXPONENTS}<div class=\"scroll\"><table><thead><tr><th scope=\"col\">The trace</th>\
         <th scope=\"col\" class=\"num\">slots</th><th scope=\"col\" class=\"num\">variance/mean</th>{names}</tr></thead>\
         <tbody>{rows}</tbody></table></div>"
    )
}

fn cell(estimate: &Result<Estimate, Refusal>) -> String {
    match estimate {
        Ok(found) => {
            let bends = match found.is_power_law {
                Some(false) => "<br><small>not one power law</small>",
                _ => "",
            };
            format!("<td class=\"num\">{:.2}<br><small>{}</small>{bends}</td>", found.hurst, interval(found))
        }
        Err(refusal) => format!("<td><small>{}</small></td>", Text(&refusal.to_string())),
    }
}

fn interval(estimate: &Estimate) -> String {
    format!("{:.2} to {:.2}", estimate.low, estimate.high)
}

fn title(case: &Case) -> String {
    match (case.instances, case.repetitions) {
        (1, 1) => case.way.name().to_owned(),
        (n, 1) | (1, n) => format!("{}, {n} times", case.way.name()),
        (n, m) => format!("{}, {n} and {m} times", case.way.name()),
    }
}

/// A curve.
type Points = Vec<(f64, f64)>;

/// A panel for each case that has curves.
fn panels(found: &Examination, labels: &[&str], curves: impl Fn(&Case) -> Option<Vec<Points>>) -> Vec<Drawn> {
    let drawn = |case: &Case| {
        let lines = curves(case)?.into_iter().zip(labels).enumerate().map(|(number, (points, label))| Line {
            series: Series {
                label: (*label).to_owned(),
                omitted: false,
                bands: vec![None; points.len()],
                points: points.into_iter().map(|(x, y)| (x, Some(y))).collect(),
            },
            colour: number,
            dash: number,
        });
        Some(Drawn {
            title: title(case),
            beneath: match case.way {
                Way::Original => "as it was captured".to_owned(),
                Way::Copied | Way::CopiedAndRepeated => "all copies at the same instant".to_owned(),
                Way::Repeated => "one after the other".to_owned(),
                Way::Jittered => "each copy at an offset of its own".to_owned(),
                Way::Shuffled => "gaps in another order, block by block".to_owned(),
            },
            lines: lines.collect(),
            not_judged: Vec::new(),
        })
    };
    found.cases.iter().filter_map(drawn).collect()
}
