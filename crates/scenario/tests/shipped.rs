//! The scenarios we ship decode, in full and quick.

use std::path::{Path, PathBuf};

use engine::{Size, Span};
use scenario::plan::{Plan, TcpEngine, Traffic};
use scenario::{Options, load};

fn shipped(name: &str, quick: bool) -> Plan {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(name);
    load(&path, &Options { quick, seed: 1, ..Options::default() }).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn every_shipped_scenario_decodes_in_full_and_quick_and_is_judged() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    let is_load = |path: &Path| std::fs::read_to_string(path).unwrap().contains("\nsession_group:");
    let yaml = files.iter().filter(|path| path.extension().is_some_and(|e| e == "yaml"));
    let (loads, scenarios): (Vec<_>, Vec<_>) = yaml.partition(|path| is_load(path));
    for path in loads {
        let plan = scenario::load_file(path, 1).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(plan.name, path.file_stem().unwrap().to_str().unwrap());
    }
    assert!(scenarios.len() >= 4);
    for path in scenarios {
        for quick in [false, true] {
            let options = Options { quick, seed: 1, ..Options::default() };
            let plan = load(path, &options).unwrap_or_else(|error| panic!("{error}"));
            assert!(!plan.study.expectations.is_empty(), "{path:?} quick {quick} is judged by nothing");
            let stem = path.file_stem().unwrap().to_str().unwrap();
            assert_eq!(plan.name, stem);
        }
    }
}

#[test]
fn the_papers_sweep_is_528_cells_of_a_minute() {
    let plan = shipped("ship-to-shore.yaml", false);
    assert_eq!(plan.cells.len(), 528);
    assert!(plan.cells.iter().all(|cell| cell.duration == Span::from_secs(60)));
    assert!(plan.cells.iter().all(|cell| cell.interval == Span::from_secs(20)));
    assert!(plan.cells.iter().all(|cell| cell.flows.len() == 1 && cell.path.mtu == 1440));
    assert_eq!(plan.study.figures[0].panels.len(), 8);
    let labels: Vec<_> = plan.study.axes[2].values.iter().map(|value| value.label.as_str()).collect();
    assert_eq!(labels.join(" "), "0 0.01 0.02 0.03 0.04 0.05 0.06 0.07 0.08 0.09 0.1");

    // Last axis fastest, and every cell has a seed of its own.
    let coordinates = |i: usize| plan.cells[i].coordinates.iter().map(|(_, v)| v.label.as_str()).collect::<Vec<_>>();
    assert_eq!(coordinates(0), ["gmdss", "satellite-1", "0", "host"]);
    assert_eq!(coordinates(3), ["gmdss", "satellite-1", "0.01", "overlay"]);
    assert_eq!(coordinates(527), ["lidar", "5g-2", "0.1", "overlay"]);
    let seeds: std::collections::BTreeSet<_> = plan.cells.iter().map(|cell| cell.seed).collect();
    assert_eq!(seeds.len(), 528);
}

#[test]
fn a_service_is_cubic_at_its_rate_in_writes_of_a_tenth_second() {
    let plan = shipped("ship-to-shore.yaml", false);
    let Traffic::Tcp(lidar) = &plan.cells[527].flows[0].traffic else { panic!("not TCP") };
    assert_eq!(lidar.rate.unwrap().bits_per_second(), 2_000_000);
    assert_eq!((lidar.congestion.as_str(), lidar.engine), ("cubic", TcpEngine::Own));
    assert_eq!(lidar.write, Size::from_bytes(25_000));
}

#[test]
fn quick_keeps_the_cells_seeds_and_sheds_questions_it_cannot_answer() {
    let (full, quick) = (shipped("ship-to-shore.yaml", false), shipped("ship-to-shore.yaml", true));
    assert_eq!(quick.cells.len(), 48);
    for cell in &quick.cells {
        let same = full.cells.iter().find(|other| other.coordinates == cell.coordinates).unwrap();
        assert_eq!(same.seed, cell.seed);
    }
    // Questions about services that quick leaves out go with them, and so do series that would meet.
    assert_eq!((full.study.expectations.len(), quick.study.expectations.len()), (5, 4));
    assert_eq!((full.study.findings.len(), quick.study.findings.len()), (12, 7));
    assert!(quick.study.findings.iter().all(|finding| {
        finding
            .select
            .0
            .iter()
            .all(|(key, labels)| key != "traffic" || labels.iter().all(|l| l == "gmdss" || l == "lidar"))
    }));
    // A plan is what results are read back from.
    let json = serde_json::to_string(&full).unwrap();
    assert_eq!(serde_json::from_str::<Plan>(&json).unwrap(), full);
}

#[test]
fn full_rate_holds_a_bandwidth_delay_product() {
    let plan = shipped("full-rate.yaml", false);
    let down = &plan.cells[0].links[0].packets().unwrap()[1];
    // 535 Mbit/s over 12 ms in packets of 1,440 bytes.
    assert_eq!(down.pipe.queue.packets, Some(558));
    let up = &plan.cells[0].links[0].packets().unwrap()[0];
    assert_eq!(up.pipe.queue.packets, Some(92));
}
