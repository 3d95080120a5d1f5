//! What is said of a recording.

#![expect(clippy::unwrap_used, reason = "a test's helper may unwrap")]

mod synthetic;

use measure::analysis::series;
use measure::{
    AdapterRecord, Analysis, Curve, Expectation, Figure, Finding, Metric, Panel, Recording, Relation, Rule, Selection,
    Verdict, summary,
};
use synthetic::{Scratch, Wish, record, select};

fn recording(name: &str, wish: &Wish) -> Recording {
    let scratch = Scratch::new(name);
    record(&scratch.0, wish);
    Recording::load(&scratch.0).unwrap()
}

fn goodput(relation: Relation, bound: f64, select: Selection) -> Expectation {
    Expectation { that: Metric::Goodput, select, against: None, relation, bound, text: String::new(), only: None }
}

#[test]
fn an_expectation_holds_only_if_it_does_everywhere() {
    let mut recording = recording("holds", &Wish { losses: vec![0, 5, 10], ..Wish::default() });
    let lidar = || select(&[("traffic", &["lidar"]), ("radio.profile", &["satellite-2"])]);
    let nowhere = select(&[("traffic", &["lidar"]), ("radio.loss", &["0.04"])]);
    recording.outline.study.expectations = vec![
        goodput(Relation::AtLeast, 1.0, lidar()),
        goodput(Relation::AtLeast, 1e6, lidar()),
        goodput(Relation::Less, 1.0, lidar()),
        goodput(Relation::AtLeast, 1.0, nowhere),
        Expectation { that: Metric::Jitter, ..goodput(Relation::Less, 1.0, lidar()) },
    ];
    let analysis = Analysis::of(&recording);
    let held = &analysis.expectations;
    assert_eq!((held[0].verdict, held[0].judged, held[0].failed.len()), (Verdict::Holds, 6, 0));
    // Two losses on two paths are below 1 Mbit/s; the worst comes first.
    assert_eq!((held[1].verdict, held[1].failed.len()), (Verdict::Fails, 4));
    assert!(held[1].failed[0].value <= held[1].failed[1].value);
    assert!(held[1].failed[0].label.contains("radio.loss 0.1"), "{}", held[1].failed[0].label);
    assert_eq!((held[2].verdict, held[2].failed.len()), (Verdict::Fails, 6));
    assert_eq!((held[3].verdict, held[3].not_judged[0].why.as_str()), (Verdict::NotJudged, "no such cell in this run"));
    assert_eq!((held[4].verdict, held[4].not_judged.len()), (Verdict::NotJudged, 6));
    assert_eq!(analysis.verdict(), Verdict::Fails);
}

#[test]
fn an_expectation_against_others_judges_the_ratio() {
    let mut recording = recording("against", &Wish { losses: vec![0, 5], overlay: 0.9, ..Wish::default() });
    let overlay = || select(&[("path", &["overlay"]), ("radio.loss", &["0"])]);
    let host = || Some(select(&[("path", &["host"])]));
    let against = |bound| Expectation { against: host(), ..goodput(Relation::AtLeast, bound, overlay()) };
    let gmdss = Some(select(&[("traffic", &["gmdss"])]));
    let ten_times = Expectation {
        against: gmdss,
        ..goodput(Relation::AtLeast, 9.0, select(&[("traffic", &["ais"]), ("radio.loss", &["0"])]))
    };
    recording.outline.study.expectations = vec![against(0.85), against(0.95), ten_times];
    let analysis = Analysis::of(&recording);
    let verdicts: Vec<_> = analysis.expectations.iter().map(|h| (h.verdict, h.judged)).collect();
    // The last: the flow changes with the axis that picks it.
    assert_eq!(verdicts, [(Verdict::Holds, 24), (Verdict::Fails, 24), (Verdict::Holds, 8)]);
}

#[test]
fn a_flow_of_which_nothing_was_measured_is_not_judged_and_has_no_goodput() {
    let mut recording = recording("unmeasured", &Wish { losses: vec![0], ..Wish::default() });
    recording.outline.study.expectations = vec![goodput(Relation::AtLeast, 0.0, select(&[]))];
    recording.outline.study.findings.clear();
    let flow = &mut recording.cells[3].flows[0];
    (flow.measured, flow.received_bytes, flow.error) = (engine::Span::ZERO, 0, Some("iperf3 gave no result".into()));
    let cell = &recording.cells[3];
    let of = |metric: Metric| metric.of(cell, &cell.flows[0]);
    assert_eq!((of(Metric::Goodput), of(Metric::Share)), (None, None));
    // What carried nothing in its time was measured.
    let flow = &mut recording.cells[4].flows[0];
    (flow.received_bytes, flow.error) = (0, Some("the connection was never established".into()));
    let analysis = Analysis::of(&recording);
    let held = &analysis.expectations[0];
    assert_eq!((held.verdict, held.judged), (Verdict::NotJudged, 47));
    let named: Vec<_> = held.not_judged.iter().map(|n| (n.cell, n.why.as_str())).collect();
    assert_eq!(named, [(Some(3), "iperf3 gave no result")]);
    // The machine is not to blame.
    assert!(analysis.health.spoiled.is_empty());
}

#[test]
fn spoiled_and_missing_cells_are_not_judged_and_named() {
    let wish = Wish { losses: vec![0], spoiled: vec![1], finished: 46, ..Wish::default() };
    let mut recording = recording("spoiled", &wish);
    recording.outline.study.expectations = vec![goodput(Relation::AtLeast, 1.0, select(&[]))];
    recording.outline.study.findings.clear();
    let analysis = Analysis::of(&recording);
    let held = &analysis.expectations[0];
    assert_eq!((held.verdict, held.judged), (Verdict::NotJudged, 45));
    let named: Vec<_> = held.not_judged.iter().map(|n| (n.cell, n.why.as_str())).collect();
    assert_eq!(named[0], (Some(1), "stalled for 180 ms of 60 s (limit 100 ms)"));
    assert_eq!(&named[1..], [(Some(46), "has not run"), (Some(47), "has not run")]);
    assert_eq!((analysis.health.planned, analysis.health.finished, analysis.health.spoiled.len()), (48, 46, 1));
    let text = summary::text(&recording, &analysis, 100);
    assert!(text.contains("1 cell spoiled: gmdss, satellite-1, radio.loss 0, overlay"), "{text}");
    assert!(text.contains("0 of 1 hold, 0 fail, 1 not judged"), "{text}");
}

#[test]
fn repeats_are_judged_by_the_median_of_the_good_ones() {
    let mut recording = recording("median", &Wish { losses: vec![0], repeats: 3, ..Wish::default() });
    let mut group: Vec<_> = recording.cells.iter_mut().filter(|c| c.cell % 48 == 0).collect();
    for (cell, bytes) in group.iter_mut().zip([60_000, 75_000, 7_500]) {
        cell.flows[0].received_bytes = bytes;
    }
    let value = |recording: &Recording| Analysis::of(recording).groups[0].median(Metric::Goodput).unwrap();
    assert_eq!(value(&recording), 8_000.0);
    recording.cells.iter_mut().find(|c| c.cell == 96).unwrap().health.spoiled = Some("busy".into());
    assert_eq!(value(&recording), 9_000.0);
    let analysis = Analysis::of(&recording);
    assert_eq!(analysis.groups[0].range(Metric::Goodput), Some((8_000.0, 10_000.0)));
    assert_eq!(analysis.groups[0].not_judged[0].label, "gmdss, satellite-1, radio.loss 0, host, repeat 2");
}

/// A recording whose goodput of one flow at each loss is given, in Mbit/s of the 2 offered.
fn shaped(name: &str, lidar: &[f64], infotainment: &[f64]) -> Recording {
    let mut recording = recording(name, &Wish { losses: (0..lidar.len() as u32).collect(), ..Wish::default() });
    for cell in &mut recording.cells {
        let place = (cell.coordinates[2].1.number.unwrap() * 100.0).round() as usize;
        let flow = &mut cell.flows[0];
        let shape = if flow.flow == "lidar" { lidar } else { infotainment };
        flow.received_bytes = (shape[place] * 7.5e6) as u64;
    }
    recording
}

fn found(recording: &mut Recording, rule: Rule, agrees: (Option<f64>, Option<f64>)) -> measure::analysis::Found {
    let select = select(&[("traffic", &["lidar", "infotainment"]), ("radio.profile", &["5g-1"]), ("path", &["host"])]);
    recording.outline.study.findings =
        vec![Finding { source: "IV".into(), paper: "it decays".into(), rule, select, agrees }];
    Analysis::of(recording).findings.remove(0)
}

fn decay() -> Rule {
    Rule::Decay { metric: Metric::Goodput, over: "radio.loss".into(), share: 0.9 }
}

#[test]
fn decay_is_where_it_stays_below() {
    // A dip that recovers is no decay.
    let mut recording = shaped("decay", &[2.0, 1.7, 2.0, 1.9, 1.7, 1.0], &[1.5, 1.5, 1.5, 1.5, 1.5, 1.0]);
    let at_4 = found(&mut recording, decay(), (Some(0.03), Some(0.04)));
    assert_eq!((at_4.verdict, at_4.value), (Verdict::Holds, Some(0.04)));
    assert_eq!(at_4.measured, "decays from radio.loss 0.04 on (lidar, 5g-1, host); not yet at 0.03");
    let parts: Vec<_> = at_4.parts.iter().map(|p| (p.label.as_str(), p.value, p.before)).collect();
    let expected =
        [("infotainment, 5g-1, host", Some(0.05), Some(0.04)), ("lidar, 5g-1, host", Some(0.04), Some(0.03))];
    assert_eq!(parts, expected);
    assert_eq!(found(&mut recording, decay(), (Some(0.05), None)).verdict, Verdict::Fails);
    assert_eq!(found(&mut recording, decay(), (None, Some(0.03))).verdict, Verdict::Fails);
    // Decay at 0.035 would have been found at 0.04 as well.
    let between = found(&mut recording, decay(), (None, Some(0.035)));
    assert_eq!(between.verdict, Verdict::NotJudged);
    assert!(between.measured.ends_with("the sweep's steps are too coarse to tell"), "{}", between.measured);
}

#[test]
fn what_never_decays_lies_beyond_every_value() {
    let mut recording = shaped("never", &[2.0, 1.95], &[1.5, 1.5]);
    let never = found(&mut recording, decay(), (Some(0.07), None));
    assert_eq!((never.verdict, never.value, never.measured.as_str()), (Verdict::Holds, None, "never decays"));
    assert_eq!(found(&mut recording, decay(), (None, Some(0.01))).verdict, Verdict::Fails);
    // It may decay at 0.06, which was not run.
    let beyond = found(&mut recording, decay(), (None, Some(0.07)));
    assert_eq!(beyond.verdict, Verdict::NotJudged);
    assert_eq!(beyond.measured, "never decays: the sweep ends too soon to tell");
    let metric = Rule::Decay { metric: Metric::Jitter, over: "radio.loss".into(), share: 0.9 };
    assert_eq!(found(&mut recording, metric, (None, None)).verdict, Verdict::NotJudged);
}

#[test]
fn convergence_is_where_all_series_stay_close() {
    let mut recording = shaped("converge", &[2.0, 1.2, 0.9, 0.5, 0.3], &[1.5, 1.1, 0.5, 0.4, 0.25]);
    let rule =
        || Rule::Converge { metric: Metric::Goodput, over: "radio.loss".into(), series: "traffic".into(), within: 1.3 };
    let met = found(&mut recording, rule(), (Some(0.02), Some(0.04)));
    // Close at 0.01 too, but not from there on.
    assert_eq!((met.verdict, met.value), (Verdict::Holds, Some(0.03)));
    assert_eq!(met.measured, "meet from radio.loss 0.03 on (5g-1, host); not yet at 0.02");
    // Where a series is missing, whether all have met cannot be said.
    recording.cells.retain(|c| c.coordinates[2].1.label != "0.04" || c.flows[0].flow != "lidar");
    let met = found(&mut recording, rule(), (Some(0.02), Some(0.04)));
    assert_eq!((met.value, met.not_judged.len()), (Some(0.03), 1));
    let mut apart = shaped("apart", &[2.0, 2.0], &[0.0, 0.0]);
    let never = found(&mut apart, rule(), (None, None));
    assert_eq!((never.value, never.measured.as_str()), (None, "never meet (5g-1, host)"));
}

#[test]
fn cost_is_found_over_pairs_with_its_interval() {
    let recording = recording("cost", &Wish { spoiled: vec![3], ..Wish::default() });
    let analysis = Analysis::of(&recording);
    let found = analysis.findings.last().unwrap();
    let cost = found.cost.as_ref().unwrap();
    assert_eq!((cost.ratio.median.n, cost.left_out), (263, 1));
    assert!(cost.ratio.median.low <= 0.985 && 0.985 <= cost.ratio.median.high, "{:?}", cost.ratio);
    assert_eq!(found.verdict, Verdict::Holds);
    let keys: Vec<_> = cost.by.iter().map(|b| (b.key.as_str(), b.rows.len())).collect();
    assert_eq!(keys, [("traffic", 6), ("radio.profile", 4), ("radio.loss", 11)]);
    assert!(cost.by[1].rows.iter().all(|(_, ratio)| (65..=66).contains(&ratio.median.n)));
}

#[test]
fn few_pairs_have_no_cost() {
    // Of six pairs at no loss on one link one is spoiled.
    let mut recording = recording("pairs", &Wish { losses: vec![0], spoiled: vec![0], ..Wish::default() });
    for finding in &mut recording.outline.study.findings {
        finding.select = select(&[("radio.profile", &["satellite-1"])]);
    }
    let analysis = Analysis::of(&recording);
    let found = analysis.findings.last().unwrap();
    assert_eq!(
        (found.verdict, found.measured.as_str()),
        (Verdict::NotJudged, "fewer than 6 pairs of host and overlay")
    );
    assert!(found.cost.is_none());
}

#[test]
fn virtual_time_has_no_lateness() {
    let mut recording = recording("virtual", &Wish { losses: vec![0], ..Wish::default() });
    if let measure::Event::Session(session) = &mut recording.events[0] {
        session.executor = "virtual".into();
    }
    let text = summary::text(&recording, &Analysis::of(&recording), 100);
    assert!(text.contains("virtual time, ") && text.contains("nobody waits, so nothing is late"), "{text}");
    assert!(!text.contains("CPU time"), "{text}");
}

#[test]
fn the_summary_says_it_all_in_a_screenful() {
    let recording = recording("summary", &Wish::default());
    let analysis = Analysis::of(&recording);
    let text = summary::text(&recording, &analysis, 100);
    for expected in [
        "ship-to-shore: 528 of 528 cells, real time, 21 min 52 s, seed 2022, narrows 0.1.0",
        "Goodput in Mbit/s by radio.loss, medians",
        "Figure 9 · Throughput decay on NSM Satellite #2",
        "paper, IV-B: “The throughput decay already begins at PLR 0.03”",
        "pairs",
        "CPU time: emulator",
        "Expectations",
    ] {
        assert!(text.contains(expected), "{expected}\n{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 110), "{text}");
    assert!(text.lines().count() < 110, "{}", text.lines().count());
    // A narrow terminal gets fewer columns, not broken rows.
    let narrow = summary::text(&recording, &analysis, 60);
    assert!(narrow.lines().all(|line| line.chars().count() <= 64), "{narrow}");
}

#[test]
fn the_summary_without_figures_lists_cells() {
    let mut recording = recording("list", &Wish { losses: vec![0], ..Wish::default() });
    recording.outline.study.figures.clear();
    let text = summary::text(&recording, &Analysis::of(&recording), 100);
    assert!(text.contains("goodput") && text.contains("rtt-p50") && text.contains("and 8 more in cells.csv"), "{text}");
}

#[test]
fn about_equal_is_within_the_spread_of_the_repeats() {
    // Three repeats a cell; overlay is 3 % below host, and repeats range over 1 % or 8 %.
    let judged = |range: f64| {
        let mut recording = recording("about", &Wish { losses: vec![0], repeats: 3, ..Wish::default() });
        for cell in &mut recording.cells {
            let overlay = cell.coordinates.iter().any(|(key, value)| key == "path" && value.label == "overlay");
            let repeat = f64::from(cell.repeat) - 1.0;
            let bits = 1e6 * if overlay { 0.97 } else { 1.0 } * (1.0 + repeat * range / 2.0);
            let flow = &mut cell.flows[0];
            flow.received_bytes = (bits * flow.measured.as_secs_f64() / 8.0) as u64;
        }
        let against = Some(select(&[("path", &["host"])]));
        let expectation = Expectation {
            against,
            text: "~ 1".into(),
            ..goodput(Relation::About, 1.0, select(&[("path", &["overlay"])]))
        };
        recording.outline.study.expectations = vec![expectation];
        Analysis::of(&recording).expectations[0].verdict
    };
    assert_eq!(judged(0.08), Verdict::Holds);
    assert_eq!(judged(0.01), Verdict::Fails);
}

#[test]
fn a_figure_over_time_draws_the_intervals_and_a_curve_stands_beside_them() {
    let recording = recording("time", &Wish { losses: vec![0], ..Wish::default() });
    let analysis = Analysis::of(&recording);
    let points = vec![(20.0, 1.0), (60.0, 2.0)];
    let panel = Panel {
        title: String::new(),
        select: select(&[("radio.profile", &["5g-1"]), ("path", &["host"]), ("traffic", &["ais"])]),
        omit: Vec::new(),
        curve: Some(Curve { label: "theory".into(), formula: "as told".into(), points: points.clone() }),
    };
    let figure = |y| Figure { x: Figure::TIME.into(), y, series: "flow".into(), panels: Vec::new() };
    let lines = series(&figure(Metric::Goodput), &panel, &analysis);
    assert_eq!(lines.iter().map(|line| line.label.as_str()).collect::<Vec<_>>(), ["ais", "theory"]);
    let xs: Vec<f64> = lines[0].points.iter().map(|(x, _)| *x).collect();
    assert_eq!(xs, [20.0, 40.0, 60.0]);
    assert!(lines[0].points.iter().all(|(_, y)| y.is_some_and(|y| (9e4..1.1e5).contains(&y))), "{:?}", lines[0]);
    assert_eq!(lines[1].points, [(20.0, Some(1.0)), (60.0, Some(2.0))]);
    // A flow without the metric has no line.
    assert_eq!(series(&figure(Metric::Jitter), &panel, &analysis).len(), 1);
}

#[test]
fn an_adapters_metrics_are_those_of_the_flows_it_sends() {
    let mut recording = recording("adapters", &Wish { losses: vec![0], ..Wish::default() });
    let cell = &mut recording.cells[0];
    // 120 of 960 characters a second are voice's; data takes 800 of them for 700 bytes of IP.
    cell.adapters = vec![AdapterRecord {
        adapter: "radio.ship".into(),
        measured: engine::Span::from_secs(10),
        line_bit_s: 7_680.0,
        line_bytes: 9_200,
        real_time_line_bytes: 1_200,
        data_line_bytes: 7_200,
        framing_line_bytes: 600,
        held_line_bytes: 200,
        data_ip_bytes: 7_000,
        overdue: 3,
        ..AdapterRecord::default()
    }];
    let of = |cell: &measure::CellRecord, metric: Metric| metric.of(cell, &cell.flows[0]);
    assert_eq!(of(cell, Metric::LineUse), None);
    cell.flows[0].adapter = Some("radio.ship".into());
    let close = |metric, is: f64| assert!((of(cell, metric).unwrap() - is).abs() < 1e-12, "{metric:?}");
    close(Metric::LineUse, 9_200.0 / 9_600.0);
    close(Metric::Efficiency, 0.9);
    close(Metric::DataShare, 7_000.0 / 8_400.0);
    close(Metric::Overdue, 3.0);

    recording.outline.study.findings = vec![Finding {
        source: "section 3".into(),
        paper: "some".into(),
        rule: Rule::Value { metric: Metric::LineUse },
        select: select(&[]),
        agrees: (Some(0.95), Some(1.0)),
    }];
    let found = &Analysis::of(&recording).findings[0];
    assert_eq!((found.verdict, found.measured.as_str()), (Verdict::Holds, "line-use 95.8 %"));
}
