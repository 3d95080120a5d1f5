//! The commands that only read or print.

use std::fs;

use crate::common::{Place, narrows, run, shipped, succeed};

fn simulated(place: &Place, out: &str, set: &str) {
    place.scenario(
        "name: sea\nsites: [ship, shore]\nlinks: {radio: {ends: [ship, shore], profile: 5g-1}}\n\
         traffic: {lidar: {from: ship, to: shore, service: lidar}}\nsweep: {radio.loss: [0]}\n\
         measure: {duration: 2s}\n",
    );
    succeed(&mut narrows(place, ["run", "scenario.yaml", "--virtual", "--out", out, "--set", set]));
}

#[test]
fn a_report_is_drawn_again_from_the_results_alone() {
    let place = Place::new();
    simulated(&place, "r", "radio.loss=[0]");
    let page = fs::read(place.join("r/report.html")).unwrap();
    fs::remove_file(place.join("r/report.html")).unwrap();
    let said = succeed(&mut narrows(&place, ["report", "r"]));
    assert!(said.out.contains("lidar") || said.out.contains("goodput"), "{}", said.out);
    assert!(fs::read(place.join("r/report.html")).unwrap() == page);
    succeed(&mut narrows(&place, ["report", "r", "--out", "elsewhere.html"]));
    assert!(fs::read(place.join("elsewhere.html")).unwrap() == page);
    let said = run(&mut narrows(&place, ["report", "nothing"]));
    assert_eq!(said.code(), Some(2));
    assert!(said.err.contains("nothing is not a results directory"), "{said:?}");
}

#[test]
fn two_runs_lie_side_by_side() {
    let place = Place::new();
    simulated(&place, "a", "radio.loss=[0]");
    simulated(&place, "b", "radio.loss=[0.05]");
    let said = succeed(&mut narrows(&place, ["compare", "a", "b", "--out", "both.html"]));
    assert!(said.out.contains("0.05"), "{}", said.out);
    let page = fs::read_to_string(place.join("both.html")).unwrap();
    assert!(page.starts_with("<!doctype html>") || page.starts_with("<!DOCTYPE html>"));
    let said = run(&mut narrows(&place, ["compare", "a", "nothing"]));
    assert_eq!(said.code(), Some(2), "{said:?}");
}

#[test]
fn check_tells_what_would_be_run() {
    let place = Place::new();
    let paper = shipped("ship-to-shore.yaml");
    let said = succeed(&mut narrows(&place, ["check", paper.to_str().unwrap()]));
    assert!(said.out.contains("528 cells") && said.out.contains("radio.loss (11)"), "{}", said.out);
    let said = succeed(&mut narrows(&place, ["check", paper.to_str().unwrap(), "--quick", "--json"]));
    let plan: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!((plan["cells"].as_array().unwrap().len(), plan["quick"].as_bool()), (48, Some(true)));
    assert_eq!(place.names(), [""; 0]);
}

#[test]
fn profiles_have_their_source() {
    let place = Place::new();
    let text = succeed(&mut narrows(&place, ["profiles"])).out;
    let said = succeed(&mut narrows(&place, ["profiles", "--json"]));
    let profiles: Vec<serde_json::Value> = said.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(profiles.len() >= 8);
    for profile in &profiles {
        assert!(text.contains(profile["name"].as_str().unwrap()), "{profile}");
        assert!(!profile["source"].as_str().unwrap().is_empty(), "{profile}");
    }
}

#[test]
fn completions_and_manual_pages_know_the_commands() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        let said = succeed(&mut narrows(&place, ["completions", shell]));
        assert!(said.out.contains("narrows") && said.out.contains("compare"), "{shell}");
    }
    fs::create_dir(place.join("man")).unwrap();
    succeed(&mut narrows(&place, ["man", "man"]));
    let pages: Vec<_> =
        fs::read_dir(place.join("man")).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    assert!(pages.contains(&"narrows.1".to_owned()) && pages.contains(&"narrows-run.1".to_owned()), "{pages:?}");
    let said = run(&mut narrows(&place, ["man", "nowhere"]));
    assert_eq!(said.code(), Some(1));
    assert!(said.err.contains("nowhere"), "{said:?}");
}
