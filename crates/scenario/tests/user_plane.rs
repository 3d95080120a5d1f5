//! Loads on a UPF that scenarios embed: the shipped ones, what is changed, and what is refused.

use std::path::Path;

use engine::Span;
use scenario::load::{Load, LoadPlan};
use scenario::plan::{Cell, Plan, Traffic};
use scenario::{FileError, Options, load, parse, parse_load};
use traffic::models::Model;

const LOAD: &str = "session_group:
  - {name: base, start_ue_address: 22.64.0.1, nr_sessions: 2, flows_per_ue: 5, pdn_start_address: 194.0.0.0,
     load: {type: steady, uplink: 100, downlink: 300}}
  - {name: noise, start_ue_address: 22.65.0.1, pdn_start_address: 195.0.0.0, load: {type: poisson, uplink: 50}}
  - {name: tcp, start_ue_address: 22.66.0.1, pdn_start_address: 196.0.0.0, load: {type: trace, trace: t.pcap, repetitions: 4}}
";

fn shipped(name: &str, quick: bool) -> Plan {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(name);
    load(&path, &Options { quick, seed: 1, ..Options::default() }).unwrap_or_else(|error| panic!("{error}"))
}

fn read(rest: &str) -> Result<Plan, String> {
    let text = format!("name: t\nsites: [a, u, b]\n{rest}\n");
    let file = |name: &str| match name {
        "load.yaml" => Ok(LOAD.to_owned()),
        _ => Err(FileError::NotText),
    };
    parse("t.yaml", &text, &file, &Options::default()).map_err(|error| error.to_string())
}

/// The load of a cell as it is run.
fn applied(cell: &Cell) -> LoadPlan {
    let (_, load) = cell.load().expect("a load");
    let mut plan = parse_load(&load.file, "t", &load.text, &load.folder, 1).expect("it was read before");
    load.apply(&mut plan, cell.duration, 10).expect("it was changed before");
    plan
}

fn rates(plan: &LoadPlan, group: usize) -> [Option<f64>; 2] {
    let Load::Model { models, .. } = &plan.groups[group].load else { return [None; 2] };
    models.each_ref().map(|model| match model {
        Some(Model::Steady { rate } | Model::Poisson { rate }) => Some(rate.a_second()),
        _ => None,
    })
}

#[test]
fn the_thesiss_tables_are_swept() {
    let tables =
        [("user-plane.yaml", 99, 81), ("user-plane-traces.yaml", 66, 135), ("user-plane-mixed.yaml", 297, 216)];
    for (name, cells, findings) in tables {
        let plan = shipped(name, false);
        assert_eq!((plan.cells.len(), plan.study.findings.len()), (cells, findings), "{name}");
        assert!(plan.cells.iter().all(|cell| cell.duration == Span::from_secs(60) && cell.load().is_some()), "{name}");
        // Sessions, neighbours and the last packets take some seconds.
        let quick = shipped(name, true);
        let takes: f64 = quick.cells.iter().map(|cell| cell.duration.as_secs_f64() + 4.0).sum();
        assert!(takes < 120.0 && !quick.study.findings.is_empty(), "{name}: {takes} s");
    }
    // Last axis fastest: 200,000 packets a second downlink over 100 flows.
    let last = applied(shipped("user-plane.yaml", false).cells.last().unwrap());
    assert_eq!((rates(&last, 0), last.population.groups()[0].flows), ([None, Some(200_000.0)], 100));
    // Nothing but the steady traffic is left where both traces have no instance.
    let mixed = shipped("user-plane-mixed.yaml", false);
    let (alone, last) = (applied(&mixed.cells[0]), applied(mixed.cells.last().unwrap()));
    assert!(alone.groups[0].load.is_nothing() && alone.groups[1].load.is_nothing());
    assert_eq!(rates(&alone, 2), [Some(12_500.0), Some(12_500.0)]);
    assert_eq!(rates(&last, 2), [None, Some(100_000.0)]);
    let counts = last.groups.iter().map(|group| match &group.load {
        Load::Trace(trace) => trace.instances.count,
        _ => 0,
    });
    assert_eq!(counts.collect::<Vec<_>>(), [2, 10, 0]);
}

#[test]
fn changes_go_to_the_groups_they_mean_something_for() {
    let of = |change: &str| {
        let plan = read(&format!("traffic: {{p: {{from: a, to: b, load: {{file: load.yaml{change}}}}}}}"));
        applied(&plan.unwrap_or_else(|error| panic!("{error}")).cells[0])
    };
    assert_eq!(rates(&of(""), 0), [Some(100.0), Some(300.0)]);
    assert_eq!(rates(&of(", rate: 1001"), 0), [Some(501.0), Some(500.0)]);
    assert_eq!(rates(&of(", direction: up"), 0), [Some(400.0), None]);
    let plan = of(
        ", rate: 10, direction: down, flows: 20, groups: {noise: {flows: 3}, tcp: {instances: 2, trace: other.pcap}}",
    );
    assert_eq!((rates(&plan, 0), rates(&plan, 1)), ([None, Some(10.0)], [Some(50.0), None]));
    let flows: Vec<_> = plan.population.groups().iter().map(|group| (group.flows, group.pdns.count())).collect();
    assert_eq!(flows[..2], [(20, 10), (3, 3)]);
    let Load::Trace(trace) = &plan.groups[2].load else { panic!("no trace") };
    assert_eq!((trace.instances.count, trace.repetitions, trace.path.to_str()), (2, 4, Some("other.pcap")));
    assert!(of(", rate: 0, instances: 0").groups[2].load.is_nothing());
    assert!(of(", rate: 0").groups[0].load.is_nothing());
}

#[test]
fn the_groups_own_change_goes_before_that_of_all() {
    let plan = read("traffic: {p: {from: a, to: b, load: {file: load.yaml, rate: 10, groups: {base: {rate: 20}}}}}");
    assert_eq!(rates(&applied(&plan.unwrap().cells[0]), 0), [Some(10.0), Some(10.0)]);
}

#[test]
fn a_load_names_the_links_it_crosses() {
    let plan = read(
        "links: {l: {ends: [a, u], delay: 1ms}, m: {ends: [u, b]}}\n\
         traffic: {p: {from: a, to: b, load: {file: load.yaml, n6: m, n3: l}}}",
    );
    let Traffic::Load(load) = &plan.unwrap().cells[0].flows[0].traffic else { panic!("no load") };
    assert_eq!((load.n3, load.n6), (Some(0), Some(1)));
}

#[test]
fn what_a_load_cannot_be_is_told_with_what_to_do() {
    let plain = "traffic: {p: {from: a, to: b, load: {file: load.yaml}}}";
    let with = |change: &str| format!("traffic: {{p: {{from: a, to: b, load: {{file: load.yaml, {change}}}}}}}");
    for (rest, expected) in [
        ("traffic: {p: {from: a, to: b, load: {file: no.yaml}}}".to_owned(), "cannot read `no.yaml`"),
        ("traffic: {p: {from: a, to: b, load: {rate: 5}}}".to_owned(), "`file`"),
        (with("groups: {bass: {rate: 5}}"), "no group `bass`; its groups are `base`, `noise`, `tcp`"),
        (with("groups: {noise: {rate: 5}}"), "`rate` means nothing for the group `noise`, whose model is not steady"),
        (with("groups: {tcp: {flows: 5}}"), "`flows` means nothing for the group `tcp`, which replays a trace"),
        (with("groups: {base: {instances: 5}}"), "which replays no trace"),
        (with("flows: 5"), "5 flows are not shared equally by the 2 sessions"),
        (with("n3: radio"), "radio"),
        (format!("links: {{l: {{ends: [a, u]}}}}\n{plain}"), "stands neither on N3 nor on N6"),
        (format!("links: {{l: {{ends: [a, u]}}}}\n{}", with("n3: l, n6: l")), "one link cannot stand on both"),
        (format!("{plain}\nmeasure: {{warmup: 1s}}"), "a load has no warm-up"),
        (format!("{plain}\nmeasure: {{interval: 300ms}}"), "cannot be sampled every 300ms"),
        ("traffic: {p: {from: a, to: b, load: {file: load.yaml}, dscp: 46}}".to_owned(), "neither `start`"),
        (
            "links: {l: {ends: [a, b]}}\ntraffic: {p: {from: a, to: b, load: {file: load.yaml}}, q: {from: a, to: b, ping: {}}}".to_owned(),
            "which runs alone",
        ),
    ] {
        let error = read(&rest).expect_err(&rest);
        assert!(error.contains(expected) && error.contains("t.yaml"), "{rest}\n{error}");
    }
}
