//! Bad input: one message with file, line and remedy, exit status 2, and nothing is built.

use std::fs::{self, File};

use crate::common::{Place, Said, narrows, run};

const GOOD: &str = "\
name: sea
sites: [ship, shore]
links:
  radio: {ends: [ship, shore], profile: satellite-1, rate: 5Mbit/s}
traffic:
  lidar: {from: ship, to: shore, service: lidar}
sweep: {radio.loss: [0, 0.02]}
measure: {duration: 1s}
";

/// Runs a scenario, and asserts that it is refused and leaves nothing. Gives what is said.
fn refused(write: impl FnOnce(&std::path::Path), options: &[&str]) -> Said {
    let (input, place) = (Place::new(), Place::new());
    let file = input.join("sea.yaml");
    write(&file);
    let mut arguments = vec!["run", file.to_str().unwrap()];
    arguments.extend(options);
    let said = run(&mut narrows(&place, arguments));
    assert_eq!(said.code(), Some(2), "{said:?}");
    assert_eq!(said.out, "");
    assert_eq!(place.names(), [""; 0], "something was built");
    said
}

#[test]
fn each_fault_is_told_once_with_file_line_and_remedy() {
    let cases = [
        ("unknown key", "profile: satellite-1", "profil: satellite-1", 4, "profile"),
        ("wrong unit", "rate: 5Mbit/s", "rate: 5Mbit", 4, "Mbit/s"),
        ("a rate of zero", "rate: 5Mbit/s", "rate: 0Mbit/s", 4, ""),
        ("no such site", "to: shore", "to: shrore", 6, "shore"),
        ("sweep over nothing", "radio.loss: [0, 0.02]", "radio.loss: []", 7, ""),
        ("no such link", "radio.loss: [0, 0.02]", "raido.loss: [0, 0.02]", 7, "radio"),
        ("impossible", "[0, 0.02]", "[0, 1.02]", 7, ""),
    ];
    for (what, old, new, line, remedy) in cases {
        let text = GOOD.replacen(old, new, 1);
        assert_ne!(text, GOOD);
        let said = refused(|path| fs::write(path, &text).unwrap(), &[]);
        assert!(said.err.contains(&format!("sea.yaml:{line}:")), "{what}: {}", said.err);
        assert_eq!(said.err.matches("error:").count(), 1, "{what}: {}", said.err);
        let help = said.err.split_once("help:").unwrap_or_else(|| panic!("{what} without remedy: {}", said.err)).1;
        assert!(help.contains(remedy), "{what}: {}", said.err);
    }
}

#[test]
fn files_that_are_no_scenario_are_refused() {
    let told = |said: &Said, what: &str| assert!(said.err.contains("sea.yaml") && said.err.contains(what), "{said:?}");
    told(&refused(|_| {}, &[]), "No such file");
    told(&refused(|path| fs::create_dir(path).unwrap(), &[]), "directory");
    told(&refused(|path| fs::write(path, "").unwrap(), &[]), "nothing in this file");
    told(&refused(|path| fs::write(path, "name: [a").unwrap(), &[]), "not YAML");
    told(&refused(|path| fs::write(path, b"name: \xff\xfe").unwrap(), &[]), "UTF-8");
    // 100 MB, of which the disk holds nothing.
    told(&refused(|path| File::create(path).unwrap().set_len(100 << 20).unwrap(), &[]), "longer than 1 MiB");
    // The same of something that has no length and no end.
    told(&refused(|path| std::os::unix::fs::symlink("/dev/zero", path).unwrap(), &[]), "longer than 1 MiB");
}

#[test]
fn options_are_refused_like_the_file() {
    let good = |path: &std::path::Path| fs::write(path, GOOD).unwrap();
    let said = refused(good, &["--set", "radio.lost=0.1"]);
    assert!(said.err.contains("--set") && said.err.contains("loss"), "{said:?}");
    let said = refused(good, &["--jobs", "0"]);
    assert!(said.err.contains("--jobs"), "{said:?}");
    let said = refused(good, &["--resume"]);
    assert!(said.err.contains("--out"), "{said:?}");
    let said = refused(good, &["--resume", "--out", "nothing"]);
    assert!(said.err.contains("nothing is not a results directory"), "{said:?}");
    let iperf3 = ["--set", "traffic.lidar.tcp.engine=iperf3", "--virtual"];
    let said = refused(good, &iperf3);
    assert!(said.err.contains("iperf3 cannot run in virtual time"), "{said:?}");
    let said = refused(good, &["--set", "traffic.lidar.tcp.congestion=bbr", "--virtual"]);
    assert!(said.err.contains("use cubic or reno"), "{said:?}");
}

#[test]
fn check_refuses_what_run_refuses() {
    let place = Place::new();
    place.scenario(&GOOD.replace("lidar}", "lidaar}"));
    let said = run(&mut narrows(&place, ["check", "scenario.yaml"]));
    assert_eq!(said.code(), Some(2));
    assert!(said.err.contains("scenario.yaml:6:"), "{said:?}");
}
