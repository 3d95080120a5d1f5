//! The guide's page on the scenario file says what the decoder does: its tables are made from the
//! code, its examples decode.
//!
//! `NARROWS_BLESS=1 cargo test -p narrows-scenario --test guide` writes the tables anew.

use scenario::{FileError, Options, PROFILES, SERVICES, VOCODERS, parse};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/src/scenario-file.md");

const NARROWBAND: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/src/narrowband.md");

fn profiles() -> String {
    let mut out = String::from("| name | | up | down | queue | source |\n|---|---|---|---|---|---|\n");
    for p in PROFILES {
        out.push_str(&format!("| `{}` | {} | {} | {} | {} | {} |\n", p.name, p.title, p.up, p.down, p.queue, p.source));
    }
    out
}

fn services() -> String {
    let mut out = String::from("| name | | rate | source |\n|---|---|---|---|\n");
    for s in SERVICES {
        out.push_str(&format!("| `{}` | {} | {} | {} |\n", s.name, s.title, s.rate, s.source));
    }
    out
}

fn vocoders() -> String {
    let mut out = String::from(
        "| name | bits of a frame | frame | frames in a packet | Ie | Bpl | source |\n|---|---|---|---|---|---|---|\n",
    );
    for v in VOCODERS {
        let (ie, bpl) = (v.impairment.ie, v.impairment.bpl);
        out.push_str(&format!(
            "| `{}` | {} | {} | {} | {ie} | {bpl} | {} |\n",
            v.name, v.frame_bits, v.frame, v.frames, v.source
        ));
    }
    out
}

/// The page with the text between two markers replaced.
fn with_table(page: &str, name: &str, table: &str) -> String {
    let begin = page.find(&format!("<!-- {name}: begin")).expect("the first marker");
    let begin = begin + page[begin..].find('\n').expect("the end of the marker's line") + 1;
    let end = page.find(&format!("<!-- {name}: end")).expect("the second marker");
    format!("{}\n{}\n\n{}", &page[..begin], table.trim(), &page[end..])
}

/// The page on load files says what their decoder does.
#[test]
fn the_load_page_s_table_and_example_are_the_decoder_s() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/src/load.md");
    let page = std::fs::read_to_string(path).unwrap();
    let made = with_table(&page, "keys", &scenario::load_reference());
    if std::env::var_os("NARROWS_BLESS").is_some() {
        std::fs::write(path, &made).unwrap();
    }
    let page = std::fs::read_to_string(path).unwrap();
    assert!(page == made, "the tables have changed: run this test with NARROWS_BLESS=1 and look at the difference");
    let examples: Vec<_> = page.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(examples.len() >= 2);
    for example in examples {
        let plan = scenario::parse_load("guide", "guide", example, std::path::Path::new(""), 1);
        plan.map(drop).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn the_guides_tables_are_the_decoders() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let tables =
        [("keys", scenario::reference()), ("profiles", profiles()), ("services", services()), ("vocoders", vocoders())];
    let made = tables.iter().fold(page.clone(), |page, (name, table)| with_table(&page, name, table));
    if std::env::var_os("NARROWS_BLESS").is_some() {
        std::fs::write(PAGE, &made).unwrap();
    }
    let page = std::fs::read_to_string(PAGE).unwrap();
    assert!(page == made, "the tables have changed: run this test with NARROWS_BLESS=1 and look at the difference");
}

#[test]
fn the_guides_examples_decode() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let narrow = std::fs::read_to_string(NARROWBAND).unwrap();
    let examples = [&page, &narrow].map(|page| page.split("```yaml\n").skip(1).map(|rest| rest.split("```").next()));
    let examples: Vec<&str> = examples.into_iter().flatten().flatten().collect();
    assert!(examples.len() >= 4);
    for example in examples {
        let plan = parse("guide", example, &|_| Err(FileError::NotText), &Options::default());
        plan.unwrap_or_else(|error| panic!("{error}"));
    }
    let first = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/first.yaml");
    assert!(page.contains(&std::fs::read_to_string(first).unwrap()), "the guide shows another first.yaml");
}

#[test]
fn the_examples_of_a_directions_keys_decode() {
    let reference = scenario::reference();
    let table = reference.split("Keys of one direction of a link:").nth(1).expect("the table");
    let rows: Vec<&str> = table.trim_start().lines().skip(2).take_while(|line| line.starts_with('|')).collect();
    assert!(rows.len() >= 9);
    let file = |name: &str| {
        Ok(match name {
            "file.trace" => "1\n2\n",
            "delays.txt" => "1ms\n2ms\n",
            "voyage.csv" => "time_s,delay_ms\n0,1\n",
            "loss.txt" => "01",
            _ => return Err(FileError::NotText),
        }
        .to_owned())
    };
    for row in rows {
        let cells: Vec<&str> = row.split(" | ").collect();
        let key = cells[0].trim_matches(|c| "| `".contains(c));
        for example in cells[1].split("<br>") {
            let text = format!(
                "name: t\nsites: [a, b]\nlinks: {{l: {{ends: [a, b], up: {{{key}: {}}}}}}}\ntraffic: {{x: {{from: a, to: b, ping: {{}}}}}}\n",
                example.trim_matches('`')
            );
            parse("example", &text, &file, &Options::default()).unwrap_or_else(|error| panic!("{error}"));
        }
    }
}

#[test]
fn the_guide_names_every_metric() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    for metric in measure::Metric::ALL {
        assert!(page.contains(&format!("`{}`", metric.name())), "{}", metric.name());
    }
}

#[test]
fn the_examples_of_a_lines_keys_decode() {
    let reference = scenario::reference();
    let table = reference.split("Keys of a line:").nth(1).expect("the table");
    let rows: Vec<&str> = table.trim_start().lines().skip(2).take_while(|line| line.starts_with('|')).collect();
    assert!(rows.len() >= 12);
    for row in rows {
        let cells: Vec<&str> = row.split(" | ").collect();
        let key = cells[0].trim_matches(|c| "| `".contains(c));
        let pace = if ["baud", "rate"].contains(&key) { "" } else { "baud: 9600, " };
        for example in cells[1].split("<br>") {
            let text = format!(
                "name: t\nsites: [a, b]\nlinks: {{l: {{ends: [a, b], line: {{{pace}{key}: {}}}}}}}\ntraffic: {{x: {{from: a, to: b, ping: {{}}}}}}\n",
                example.trim_matches('`')
            );
            let none = |_: &str| Err(FileError::NotText);
            parse("example", &text, &none, &Options::default()).unwrap_or_else(|error| panic!("{error}"));
        }
    }
}
