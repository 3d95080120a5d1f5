//! The pages: their structure, that nothing in them can become markup, and that a browser draws them.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test says what it skips, and may unwrap in its helpers"
)]

#[path = "../../measure/tests/synthetic/mod.rs"]
mod synthetic;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use engine::{Random, Span, Time};
use measure::{Analysis, Recording};
use serde_json::{Value, json};
use synthetic::{Scratch, Wish, record};
use traffic::models::{Arrivals, Model, PacketRate};
use traffic::selfsimilar::{Examination, Examine, examine};
use traffic::times::TimedPacket;

fn recording(name: &str, wish: &Wish) -> Recording {
    let scratch = Scratch::new(name);
    record(&scratch.0, wish);
    Recording::load(&scratch.0).unwrap()
}

fn page(recording: &Recording) -> String {
    report::page(recording, &Analysis::of(recording))
}

/// What the scripts draw from.
fn data(html: &str) -> Value {
    let start = html.find("id=\"data\">").unwrap() + "id=\"data\">".len();
    serde_json::from_str(html[start..].split("</script>").next().unwrap()).unwrap()
}

/// Asserts that elements nest; gives the number of each.
fn elements(html: &str) -> BTreeMap<String, usize> {
    const VOID: [&str; 6] = ["meta", "link", "input", "line", "circle", "br"];
    let mut open: Vec<&str> = Vec::new();
    let mut counts = BTreeMap::new();
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        let end = rest.find('>').unwrap();
        let tag = &rest[..end];
        let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap();
        rest = &rest[end + 1..];
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "before {}", rest.chars().take(200).collect::<String>());
        } else if !tag.starts_with('!') {
            *counts.entry(name.to_string()).or_default() += 1;
            if name == "script" || name == "style" {
                let close = format!("</{name}>");
                rest = &rest[rest.find(&close).unwrap() + close.len()..];
            } else if !VOID.contains(&name) && !tag.ends_with('/') {
                open.push(name);
            }
        }
    }
    assert!(open.is_empty(), "{open:?}");
    counts
}

#[test]
fn the_report_has_its_parts_and_needs_nothing_else() {
    let recording = recording("parts", &Wish { spoiled: vec![100], ..Wish::default() });
    let html = page(&recording);
    let counts = elements(&html);
    assert_eq!((counts["h1"], counts["figure"], counts["main"]), (1, 8, 1));
    for id in ["findings", "figures", "cost", "expectations", "machine", "links", "cells", "plan"] {
        assert!(html.contains(&format!("<section id=\"{id}\">")) && html.contains(&format!("href=\"#{id}\"")), "{id}");
    }
    for text in [
        "All 3 expectations hold.",
        "1 cell spoiled and not judged.",
        "The throughput decay already begins at PLR 0.03",
        "Figure 9 · Throughput decay on NSM Satellite #2",
        "What overlay costs against host",
        "Left out at first: gmdss, ais, 500k.",
        "Linux 6.18.5, 2 × AMD EPYC, 8.0 GiB",
        "<code>2022</code>",
        "21 min 52 s",
        "queue-packets",
    ] {
        assert!(html.contains(text), "{text}");
    }
    for outside in ["src=", "@import", "url(", "href=\"http", "fetch(", "XMLHttpRequest"] {
        assert!(!html.contains(outside), "{outside}");
    }
    assert!(html.contains("default-src 'none'"));
    assert!(html.len() < 2_000_000, "{}", html.len());
    assert!(html == page(&recording), "the same recording gives the same report");
}

#[test]
fn the_data_of_the_charts_are_the_medians() {
    let wish = Wish { repeats: 3, losses: vec![0, 5], spoiled: vec![0], ..Wish::default() };
    let data = data(&page(&recording("medians", &wish)));
    let panels = data["figures"][0]["panels"].as_array().unwrap();
    assert_eq!(panels.len(), 8);
    let line = |panel: usize, label: &str| {
        let lines = panels[panel]["series"].as_array().unwrap();
        lines.iter().find(|line| line["label"] == label).unwrap().clone()
    };
    // Figure 2 is 5G #1 on the host, in Mbit/s.
    assert_eq!(panels[0]["x"], json!([0.0, 0.05]));
    let lidar = line(0, "lidar");
    assert!((lidar["y"][0].as_f64().unwrap() - 1.998).abs() < 0.001, "{lidar}");
    let (low, y, high) = (&lidar["low"][1], &lidar["y"][1], &lidar["high"][1]);
    assert!(low.as_f64() < y.as_f64() && y.as_f64() < high.as_f64(), "{lidar}");
    assert_eq!([line(0, "500k")["shown"].as_bool(), line(6, "500k")["shown"].as_bool()], [Some(false), Some(true)]);
    assert_eq!(line(0, "lidar")["colour"], line(7, "lidar")["colour"]);
    let cells = &data["tables"][0];
    assert_eq!((cells["rows"].as_array().unwrap().len(), &cells["marked"]), (288, &json!([0])));
    let columns = cells["columns"].as_array().unwrap().len();
    assert!(cells["rows"].as_array().unwrap().iter().all(|row| row.as_array().unwrap().len() == columns));
}

const NASTY: &str = "</script><img src=x onerror=\"boom('1')\"><!--&amp;";

/// A recording in which every text from outside is hostile.
fn hostile(name: &str) -> Recording {
    let wish =
        Wish { name: NASTY.into(), losses: vec![0, 5], spoiled: vec![3], version: NASTY.into(), ..Wish::default() };
    let mut recording = recording(name, &wish);
    recording.outline.description = NASTY.into();
    recording.outline.source = NASTY.into();
    recording.outline.set = vec![NASTY.into()];
    recording.plan["cells"][0]["flows"][0]["name"] = NASTY.into();
    let rename = |label: &mut String| {
        if label == "lidar" || label == "overlay" {
            *label = format!("{label}{NASTY}");
        }
    };
    let study = &mut recording.outline.study;
    for finding in &mut study.findings {
        (finding.paper, finding.source) = (NASTY.into(), NASTY.into());
    }
    for expectation in &mut study.expectations {
        expectation.text = NASTY.into();
    }
    study.axes.iter_mut().flat_map(|axis| &mut axis.values).for_each(|value| rename(&mut value.label));
    for panel in &mut study.figures[0].panels {
        panel.title = NASTY.into();
        panel.select.0.iter_mut().flat_map(|(_, labels)| labels).for_each(rename);
    }
    for cell in &mut recording.outline.cells {
        cell.coordinates.iter_mut().for_each(|(_, value)| rename(&mut value.label));
        cell.flows.iter_mut().for_each(|flow| rename(&mut flow.name));
    }
    for cell in &mut recording.cells {
        cell.coordinates.iter_mut().for_each(|(_, value)| rename(&mut value.label));
        for flow in &mut cell.flows {
            rename(&mut flow.flow);
            flow.error = Some(NASTY.into());
        }
        cell.health.spoiled = cell.health.spoiled.as_ref().map(|_| NASTY.into());
        cell.health.cpu_s[0].0 = NASTY.into();
        cell.pipes[0].link = NASTY.into();
        cell.pipes[0].drops[0].0 = NASTY.into();
    }
    recording
}

#[test]
fn text_from_outside_stays_text() {
    let recording = hostile("hostile");
    for html in [page(&recording), report::comparison(&recording, &recording)] {
        assert!(!html.contains("<img") && !html.contains("<!--"), "markup from outside");
        assert!(html.contains("&lt;/script&gt;&lt;img src=x onerror=&quot;boom(&#39;1&#39;)&quot;&gt;"));
        elements(&html);
        let lines = data(&html)["figures"][0]["panels"][0]["series"].to_string();
        assert!(lines.contains("lidar</script><img"), "{lines}");
    }
}

#[test]
fn a_run_under_way_and_one_not_begun_have_reports() {
    let some = recording("some", &Wish { finished: 100, ..Wish::default() });
    let html = page(&some);
    elements(&html);
    assert!(html.contains("100 of 528 cells have run.") && html.contains("could not be judged."));
    let none = recording("none", &Wish { finished: 0, ..Wish::default() });
    elements(&page(&none));
    let mut bare = recording("bare", &Wish { losses: vec![0], ..Wish::default() });
    bare.outline.study = measure::Study::default();
    let html = page(&bare);
    elements(&html);
    assert!(html.contains("Nothing was expected of this run.") && !html.contains("id=\"figures\""));
}

#[test]
fn two_recordings_are_laid_side_by_side() {
    let wish = Wish { losses: vec![0, 3, 7], repeats: 5, ..Wish::default() };
    let slower = Wish { losses: vec![0, 3, 5], seed: 9, version: "0.2.0".into(), overlay: 0.8, ..wish.clone() };
    let (a, b) = (recording("side-a", &wish), recording("side-b", &slower));
    let text = report::comparison_text(&a, &b, 100);
    for expected in [
        "seed 2022",
        "seed 9, narrows 0.2.0",
        "goodput, B over A",
        "all 96 cells: median ratio",
        "the 40 of 96 that differ most:",
        "*     agrees    differs  IV-C: “no significant difference",
        "Only in A: gmdss, satellite-1, radio.loss 0.07, host",
        "Only in B: gmdss, satellite-1, radio.loss 0.05, host",
        "and 38 more",
        "version: \"0.1.0\" | \"0.2.0\"",
        "study.axes.2.values.2.label: \"0.07\" | \"0.05\"",
    ] {
        assert!(text.contains(expected), "{expected}\n{text}");
    }
    let html = report::comparison(&a, &b);
    elements(&html);
    let data = data(&html);
    let lines = data["figures"][0]["panels"][0]["series"].as_array().unwrap();
    assert_eq!((lines.len(), &lines[0]["label"], &lines[1]["label"]), (12, &json!("1000k · A"), &json!("1000k · B")));
    // A has no point at 0.05, which is no gap in its line.
    assert_eq!((&lines[0]["y"][2], lines[0]["y"][1].is_number()), (&json!(false), true));
    // The overlay became slower at no loss, and the interval says so.
    let rows = data["tables"][0]["rows"].as_array().unwrap();
    let row = rows.iter().find(|r| r[0] == "lidar" && r[1] == "5g-1" && r[2] == "0" && r[3] == "overlay").unwrap();
    let at = |i: usize| row[i].as_f64().unwrap();
    assert!((at(6) - 0.81).abs() < 0.02 && at(7) <= at(6) && at(6) <= at(8) && at(8) < 0.85, "{row}");
    let same = report::comparison_text(&a, &a, 100);
    assert!(same.contains("The plans are the same.") && same.contains("median ratio 1.000 (1.000 to 1.000)"), "{same}");
}

/// Presses the keys and buttons of a page, and leaves what came of it in the document.
const VISITOR: &str = r#"<script>addEventListener("load", () => {
  const seen = document.documentElement.dataset, box = document.querySelector(".panel"), plot = box.querySelector(".plot");
  const press = (key) => plot.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  press("ArrowRight");
  press("ArrowRight");
  setTimeout(() => {
    seen.values = [...box.querySelectorAll("output")].map((o) => o.value).join(" ");
    const button = box.querySelector(".legend button");
    button.click();
    seen.pressed = button.getAttribute("aria-pressed");
    document.querySelector("[data-scale=log]").click();
    const search = document.querySelector(".search");
    search.value = "lidar 5g-1";
    search.dispatchEvent(new Event("input"));
    seen.found = document.querySelector(".count").textContent;
    document.querySelectorAll(".sort")[5].click();
    seen.sorted = document.querySelectorAll(".cells th")[5].getAttribute("aria-sort");
    document.getElementById("theme").click();
    seen.paint = getComputedStyle(document.body).backgroundColor;
    seen.wide = document.documentElement.scrollWidth <= innerWidth;
    setTimeout(() => {
      const painted = (c) => c.getContext("2d").getImageData(0, 0, c.width, c.height).data.some((v) => v);
      seen.blank = [...document.querySelectorAll("canvas")].filter((c) => !painted(c)).length;
    }, 50);
  }, 50);
});</script></body>"#;

/// The document as a browser leaves it, or `None` if there is no browser.
fn visit(page: &Path, size: &str) -> Option<String> {
    let profile = Scratch::new(&format!("profile-{size}"));
    let outcome = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"])
        .args(["--disable-component-update", "--disable-sync", "--virtual-time-budget=4000", "--dump-dom"])
        .arg(format!("--window-size={size}"))
        .arg(format!("--user-data-dir={}", profile.0.display()))
        .arg(format!("file://{}", page.display()))
        .output();
    match outcome {
        Ok(out) if out.status.success() => Some(String::from_utf8_lossy(&out.stdout).into_owned()),
        Ok(out) => panic!("chromium: {}", String::from_utf8_lossy(&out.stderr)),
        Err(e) => {
            eprintln!("skipped: cannot run chromium ({e}); install the package chromium to run this test");
            None
        }
    }
}

#[test]
fn a_browser_draws_the_charts_without_an_error() {
    let scratch = Scratch::new("browser");
    fs::create_dir_all(&scratch.0).unwrap();
    let full = recording("browser-full", &Wish { repeats: 3, losses: vec![0, 3, 7], ..Wish::default() });
    for (name, html) in [("full", page(&full)), ("hostile", page(&hostile("browser-hostile")))] {
        let path = scratch.0.join(format!("{name}.html"));
        fs::write(&path, html.replace("</body>", VISITOR)).unwrap();
        for size in ["1280,900", "390,800"] {
            let Some(dom) = visit(&path, size) else { return };
            let root = &dom[..dom.find("<head>").unwrap()];
            assert!(!root.contains("data-error"), "{name} at {size}: {root}");
            assert_eq!(dom.matches("<canvas").count(), 8, "{name} at {size}");
            for expected in [
                "data-charts=\"8\"",
                "data-blank=\"0\"",
                "data-wide=\"true\"",
                "data-pressed=\"false\"",
                "data-sorted=\"ascending\"",
                "data-paint=\"rgb(16, 22, 28)\"",
            ] {
                assert!(root.contains(expected), "{expected}, {name} at {size}: {root}");
            }
            if name == "full" {
                // Values of 1000k to lidar at the second loss, and the rows of one service on one link.
                assert!(root.contains("data-values=\"1 1.5 1."), "{size}: {root}");
                assert!(root.contains("data-found=\"18 of 432 rows\""), "{size}: {root}");
            }
        }
    }
}

/// What is found of independent packets.
fn examination() -> Examination {
    let model = Model::Poisson { rate: PacketRate::per_second(1_000) };
    let times = Arrivals::new(&model, Time::ZERO, Span::from_secs(4), Random::stream(1, "page"));
    let packets: Vec<_> = times.take(4_000).map(|time| TimedPacket { time, bytes: 0 }).collect();
    let what = Examine { slot: None, bytes: false, instances: 3, repetitions: 2 };
    examine(&packets, &what, &Random::stream(1, "page")).unwrap()
}

#[test]
fn the_page_of_a_trace_has_figure_5_7() {
    let html = report::self_similarity(NASTY, &examination());
    let counts = elements(&html);
    assert_eq!((counts["h1"], counts["figure"], counts["section"], counts.get("img")), (1, 12, 3, None));
    for text in ["scaled (copy), 3 times", "scaled, repeated, 3 and 2 times", "in a drawn order", "H by wavelets"] {
        assert!(html.contains(text), "{text}");
    }
    let data = data(&html);
    let panels = |figure: usize| data["figures"][figure]["panels"].as_array().unwrap().clone();
    assert_eq!((panels(0).len(), panels(1).len()), (6, 6));
    // Of three copies two thirds of the times between packets are zero, and more by chance.
    let zeros = panels(0)[1]["series"][0]["y"][0].as_f64().unwrap();
    assert!((66.0..75.0).contains(&zeros), "{zeros}");

    let scratch = Scratch::new("self-similarity");
    fs::create_dir_all(&scratch.0).unwrap();
    let path = scratch.0.join("page.html");
    fs::write(&path, &html).unwrap();
    let Some(dom) = visit(&path, "1280,900") else { return };
    let root = &dom[..dom.find("<head>").unwrap()];
    assert!(!root.contains("data-error") && root.contains("data-charts=\"12\""), "{root}");
}
