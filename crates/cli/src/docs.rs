//! The documentation's commands are parsed, its scenarios decode and its links lead somewhere, so
//! that it cannot drift from the program.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser;
use scenario::Options;

use crate::args::{Command, LineAction, Link, LinkAction, Narrows, Scenario};

/// A command line of the documentation, and where it stands.
struct Line {
    place: String,
    words: Vec<String>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn pages() -> Vec<PathBuf> {
    let markdown = |folder: &str| {
        let files = fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path());
        files.filter(|path| path.extension().is_some_and(|e| e == "md")).collect::<Vec<_>>()
    };
    ["", "docs", "docs/guide/src"].into_iter().flat_map(markdown).collect()
}

/// The blocks of a page in one language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(begun) = line.strip_prefix("```") {
            let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            if begun == language {
                blocks.push(block.join("\n"));
            }
        }
    }
    blocks
}

/// The words of a command as a shell would pass them, without what comes after it.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in line.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, ' ') => words.extend(word.take()),
            (None, '>' | '|' | '&' | ';' | '#') => break,
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    assert_eq!(quote, None, "a quote is left open: {line}");
    words.extend(word);
    words
}

fn command_lines() -> Vec<Line> {
    let mut found = Vec::new();
    for path in pages() {
        for block in blocks(&fs::read_to_string(&path).unwrap(), "sh") {
            let lines = block.lines().filter(|line| line.starts_with("narrows "));
            found.extend(lines.map(|line| Line { place: format!("{}: {line}", path.display()), words: words(line) }));
        }
    }
    found
}

#[test]
fn commands_mean_what_the_program_takes() {
    let lines = command_lines();
    assert!(lines.len() >= 30, "only {} commands were found", lines.len());
    for Line { place, words } in lines {
        let parsed = match Narrows::try_parse_from(&words) {
            Ok(parsed) => parsed,
            // Such as `--version`, which is an answer and not an error.
            Err(error) if !error.use_stderr() => continue,
            Err(error) => panic!("{place}\n{error}"),
        };
        match parsed.command {
            Command::Run(run) => decodes(&place, &run.scenario),
            Command::Check(check) => decodes(&place, &check.scenario),
            Command::Load(load) => {
                let plan = scenario::load_file(&root().join(&load.file), 1);
                plan.map(drop).unwrap_or_else(|error| panic!("{place}\n{error}"));
            }
            Command::Link(link) => link_is_known(&place, &link),
            Command::Line(line) => {
                if let Some(LineAction::Set { changes, .. }) = &line.action {
                    for change in changes {
                        scenario::check_line_change(change).unwrap_or_else(|error| panic!("{place}\n{error}"));
                    }
                }
            }
            Command::Adapter(_)
            | Command::Report(_)
            | Command::Compare(_)
            | Command::Profiles(_)
            | Command::Probe(_)
            | Command::Rohc(_)
            | Command::Trace(_)
            | Command::Upf(_)
            | Command::Completions { .. }
            | Command::Man { .. } => {}
        }
    }
}

/// A file that we ship can be named; `FILE` and the like stand for the reader's own.
fn decodes(place: &str, scenario: &Scenario) {
    let file = root().join(&scenario.file);
    let options = Options { quick: scenario.quick, set: scenario.set.clone(), seed: 1, ..Options::default() };
    if let Err(error) = scenario::load(&file, &options) {
        panic!("{place}\n{error}");
    }
}

fn link_is_known(place: &str, link: &Link) {
    let outcome = match &link.action {
        Some(LinkAction::Set { changes, .. }) => scenario::link_changes(changes).map(drop),
        None => scenario::link("link", link.profile.as_deref().unwrap_or_default(), &link.set).map(drop),
    };
    if let Err(error) = outcome {
        panic!("{place}\n{error}");
    }
}

#[test]
fn scenarios_in_pages_decode() {
    let mut decoded = 0;
    for path in pages() {
        for block in blocks(&fs::read_to_string(&path).unwrap(), "yaml") {
            let name = path.display().to_string();
            let plan = if block.contains("session_group:") {
                scenario::parse_load(&name, "load", &block, Path::new(""), 1).map(drop)
            } else {
                // Pages name load files that we ship.
                let beside = |file: &str| Ok(fs::read_to_string(root().join("scenarios").join(file))?);
                scenario::parse(&name, &block, &beside, &Options::default()).map(drop)
            };
            plan.unwrap_or_else(|error| panic!("{error}"));
            decoded += 1;
        }
    }
    assert!(decoded >= 3, "only {decoded} scenarios were found");
    let first = fs::read_to_string(root().join("scenarios/first.yaml")).unwrap();
    let shown = fs::read_to_string(root().join("docs/guide/src/first-steps.md")).unwrap();
    assert!(shown.contains(&first), "first-steps.md shows another first.yaml");
}

#[test]
fn the_adapters_configuration_is_shown_as_it_is() {
    let page = fs::read_to_string(root().join("docs/guide/src/adapter.md")).unwrap();
    let [shown] = &blocks(&page, "yaml,adapter")[..] else { panic!("one configuration is shown") };
    let shown = scenario::parse_adapter_config("adapter.md", shown).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(shown.rules.len(), 5);
    assert_eq!(adapter::AdapterConfig { rules: Vec::new(), ..shown }, adapter::AdapterConfig::default());
    // What the defaults write is all there is to write.
    let keys = serde_json::to_value(adapter::AdapterConfig::default()).unwrap();
    for key in keys.as_object().unwrap().keys() {
        assert!(page.contains(&format!("\n{key}:")), "adapter.md leaves `{key}` out");
    }
}

#[test]
fn links_lead_somewhere() {
    let mut followed = 0;
    for path in pages() {
        let text = fs::read_to_string(&path).unwrap();
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if target.contains("://") {
                continue;
            }
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let file = if file.is_empty() { path.clone() } else { path.with_file_name(file) };
            assert!(file.exists(), "{} links to {target}, which is not there", path.display());
            if !anchor.is_empty() {
                let text = fs::read_to_string(&file).unwrap();
                let mut anchors = text.lines().filter(|line| line.starts_with('#')).map(anchor_of);
                assert!(anchors.any(|other| other == anchor), "{}: no heading for {target}", path.display());
            }
            followed += 1;
        }
    }
    assert!(followed >= 20, "only {followed} links were found");
}

#[test]
fn files_that_are_named_are_there() {
    let mut named = 0;
    for path in pages() {
        let text = fs::read_to_string(&path).unwrap();
        // Every second part stands in backticks.
        for name in text.split('`').skip(1).step_by(2) {
            let folders = ["crates/", "docs/", "scenarios/", "scripts/", "fuzz/"];
            if folders.iter().any(|folder| name.starts_with(folder)) && !name.contains(char::is_whitespace) {
                assert!(root().join(name).exists(), "{} names {name}, which is not there", path.display());
                named += 1;
            }
        }
    }
    assert!(named >= 20, "only {named} files are named");
}

/// The anchor that a heading is given by mdBook and by forges alike.
fn anchor_of(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn the_guide_lists_every_page_once() {
    let folder = root().join("docs/guide/src");
    let summary = fs::read_to_string(folder.join("SUMMARY.md")).unwrap();
    for path in pages().iter().filter(|path| path.starts_with(&folder)) {
        let name = path.file_name().unwrap().to_str().unwrap();
        if name != "SUMMARY.md" {
            assert_eq!(summary.matches(&format!("]({name})")).count(), 1, "SUMMARY.md and {name}");
        }
    }
}

#[test]
fn commands_are_cut_into_words_as_a_shell_does() {
    assert_eq!(words(r#"a 'b c'"d"  --e='' > f"#), ["a", "b cd", "--e="]);
    assert_eq!(words("a b  # c"), ["a", "b"]);
}
