//! What must hold for any scenario file and any trace: it is refused with a message, or it is a plan
//! that needs no further checks.

use scenario::plan::Plan;
use scenario::{FileError, Options, parse};

/// `data` as a scenario file.
pub(crate) fn scenario(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        read(text, &|_| Err(FileError::NotText));
    }
}

/// `data` as a file that a scenario names; the first byte says what it is to be.
pub(crate) fn trace(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else { return };
    let keys = ["rate: {mahimahi: f}", "delay: {table: f}", "delay: {timeline: f}", "loss: {trace: f}"];
    let key = keys[usize::from(*first) % keys.len()];
    let text = format!(
        "name: t\nsites: [a, b]\nlinks: {{l: {{ends: [a, b], {key}}}}}\ntraffic: {{x: {{from: a, to: b, service: ais}}}}\n"
    );
    read(&text, &|_| String::from_utf8(rest.to_vec()).map_err(|_| FileError::NotText));
}

/// `data` as a load file: refused with a message, or a plan whose groups and ranges fit each other.
pub(crate) fn load(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match scenario::parse_load("fuzz.yaml", "fuzz", text, std::path::Path::new(""), 1) {
        Ok(plan) => {
            assert_eq!(plan.groups.len(), plan.population.groups().len());
            assert!(!plan.groups.is_empty() && plan.samples_per_second > 0);
            for (number, group) in plan.population.groups().iter().enumerate() {
                assert_eq!(plan.population.session_of(group.ues.last()), Some((number, group.sessions() - 1)));
                assert!(group.flows_per_ue > 0 && group.flows > 0);
            }
        }
        Err(error) => assert!(error.lines().next().is_some(), "refused without a reason"),
    }
}

fn read(text: &str, files: scenario::ReadFile<'_>) {
    for quick in [false, true] {
        match parse("fuzz.yaml", text, files, &Options { quick, seed: 1, ..Options::default() }) {
            Ok(plan) => sound(&plan),
            Err(error) => {
                assert!(error.lines().next().is_some(), "refused without a reason");
                assert!(!error.to_string().contains('\u{1b}'), "a terminal control in a message");
                let _ = error.coloured();
            }
        }
    }
}

fn sound(plan: &Plan) {
    assert!(!plan.cells.is_empty() && plan.cells.len() <= 100_000);
    for (i, cell) in plan.cells.iter().enumerate() {
        assert_eq!(cell.id as usize, i);
        assert!(!cell.flows.is_empty() && cell.interval <= cell.duration);
        assert_eq!(cell.coordinates.len(), plan.study.axes.len());
        for link in &cell.links {
            assert!(link.ends.0 < cell.sites.len() && link.ends.1 < cell.sites.len() && link.ends.0 != link.ends.1);
            for way in link.packets().into_iter().flatten() {
                way.validate().unwrap_or_else(|error| panic!("{error}"));
            }
            for way in link.characters().into_iter().flatten() {
                way.validate().unwrap_or_else(|error| panic!("{error}"));
            }
            assert!(link.characters().is_none() || link.adapters.is_some());
            for adapter in link.adapters.iter().flat_map(|ends| ends.iter()) {
                adapter.validate().unwrap_or_else(|error| panic!("{error}"));
            }
        }
        for flow in &cell.flows {
            assert!(flow.from < cell.sites.len() && flow.to < cell.sites.len() && flow.from != flow.to);
            assert!(flow.dscp <= 63 && flow.stop.is_none_or(|stop| stop > flow.start));
        }
    }
}
