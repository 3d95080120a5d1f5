//! `narrows link`: around a program, between two interfaces, changed while it runs.

use std::fs;
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::thread;

use netio::site::{Namespace, Net};

use crate::common::{Place, Said, Started, can_isolate, is_root, narrows, needs, needs_root, run, turn, until};
use crate::programs;

fn link(place: &Place, options: &[&str], program: &[&str]) -> Command {
    let mut command = narrows(place, ["link"]);
    command.args(options).arg("--").args(program);
    command
}

fn around(program: &[&str]) -> Said {
    run(&mut link(&Place::new(), &["--profile", "perfect"], program))
}

/// A name that no other test process takes.
fn name(what: &str) -> String {
    format!("e2e-{what}-{}", std::process::id())
}

fn trip(line: &str) -> Option<u64> {
    line.strip_prefix("trip ")?.parse().ok()
}

#[test]
fn the_exit_status_is_the_programs() {
    if !can_isolate() {
        return;
    }
    assert_eq!(around(&["true"]).code(), Some(0));
    assert_eq!(around(&["sh", "-c", "exit 42"]).code(), Some(42));
    // As a shell tells a signal.
    assert_eq!(around(&["sh", "-c", "kill -9 $$"]).code(), Some(128 + 9));
    let said = around(&["no-such-program"]);
    assert_eq!(said.code(), Some(127));
    assert!(said.err.contains("cannot run `no-such-program`"), "{said:?}");
    let said = around(&["/etc/passwd"]);
    assert_eq!(said.code(), Some(126));
    assert!(said.err.contains("cannot run `/etc/passwd`"), "{said:?}");
}

#[test]
fn bad_input_is_the_links_own_failure() {
    let place = Place::new();
    let said = run(&mut link(&place, &["--profile", "satelite-1"], &["true"]));
    assert_eq!(said.code(), Some(125));
    assert!(said.err.contains("satellite-1"), "{said:?}");
    let said = run(&mut link(&place, &["--profile", "5g-1", "--set", "rate=0"], &["true"]));
    assert_eq!(said.code(), Some(125));
    assert!(said.err.contains("--set") || said.err.contains("rate"), "{said:?}");
    assert_eq!(run(&mut narrows(&place, ["link", "--profile", "5g-1"])).code(), Some(2), "no program is given");
}

#[test]
fn the_program_sees_one_interface_and_its_peer() {
    if !can_isolate() {
        return;
    }
    let program = programs::command("looks");
    let program: Vec<&str> = program.iter().map(String::as_str).collect();
    let said = around(&program);
    assert_eq!(said.code(), Some(0), "{said:?}");
    assert!(said.out.lines().any(|line| line == "peer 10.255.0.2"), "{said:?}");
    assert!(said.out.lines().any(|line| line == "devices lo link0"), "{said:?}");
    assert!(said.err.contains("narrows: seed "), "{said:?}");
}

/// Round trips between a program and its peer over a link of 20 ms, which is then changed by
/// whoever `narrows` is.
fn changed_while_it_runs(mut command: Command, narrows: impl Fn() -> Command, name: &str) {
    let mut started = Started::new(&mut command);
    for _ in 0..3 {
        let line = started.line(|line| trip(line).is_some());
        assert!(trip(&line).unwrap() >= 40_000, "{line} came early");
    }
    let set = |changes: &[&str]| run(narrows().args(["link", "set", name]).args(changes));
    let said = set(&["delay=80ms", "down.loss=0"]);
    assert_eq!((said.code(), said.out.as_str()), (Some(0), format!("{name}: 2 changes made\n").as_str()), "{said:?}");
    // Those under way when it changed may still come; then none comes early.
    started.line(|line| trip(line).is_some());
    for _ in 0..3 {
        let line = started.line(|line| trip(line).is_some());
        assert!(trip(&line).unwrap() >= 160_000, "{line} came early");
    }
    // One direction alone, and nothing at all if one change is wrong.
    assert_eq!(set(&["up.delay=0ms"]).code(), Some(0));
    let said = set(&["delay=500ms", "los=1"]);
    assert_eq!(said.code(), Some(2), "{said:?}");
    assert!(said.err.contains("los"), "{said:?}");
    started.line(|line| trip(line).is_some());
    let line = started.line(|line| trip(line).is_some());
    assert!((80_000..500_000).contains(&trip(&line).unwrap()), "{line}");

    started.signal("TERM", false);
    let said = started.end();
    assert_eq!(said.code(), Some(128 + 15), "{said:?}");
    assert!(said.err.contains("up: ") && said.err.contains("down: "), "{said:?}");
    // With the run its name goes.
    let said = set(&["delay=1ms"]);
    assert_eq!(said.code(), Some(2));
    assert!(said.err.contains(&format!("no link named `{name}` is running")), "{said:?}");
}

#[test]
fn a_link_is_changed_while_a_program_and_its_peer_run() {
    if !can_isolate() {
        return;
    }
    let (place, name) = (Place::new(), name("set"));
    let (program, peer) = (programs::command("asks"), programs::shell("answers"));
    let program: Vec<&str> = program.iter().map(String::as_str).collect();
    let options = ["--profile", "perfect", "--set", "delay=20ms", "--name", &name, "--peer", &peer];
    changed_while_it_runs(link(&place, &options, &program), || narrows(&place, [""; 0]), &name);
}

#[test]
fn a_name_is_taken_once() {
    if !can_isolate() {
        return;
    }
    let (place, name) = (Place::new(), name("taken"));
    let options = ["--profile", "perfect", "--name", &name];
    let mut first = Started::new(&mut link(&place, &options, &["sh", "-c", "echo here; exec sleep 1000"]));
    first.line(|line| line == "here");
    let said = run(&mut link(&place, &options, &["true"]));
    assert_eq!(said.code(), Some(125));
    assert!(said.err.contains("running already; choose another --name"), "{said:?}");
    first.signal("TERM", false);
    assert_eq!(first.end().code(), Some(128 + 15));
    assert_eq!(run(&mut link(&place, &options, &["true"])).code(), Some(0));
}

#[test]
fn a_signal_reaches_the_program_which_has_the_last_word() {
    if !can_isolate() {
        return;
    }
    let place = Place::new();
    let options = ["--profile", "perfect"];
    let script = "trap 'exit 7' TERM; echo here; while :; do sleep 0.1; done";
    let mut started = Started::new(&mut link(&place, &options, &["sh", "-c", script]));
    started.line(|line| line == "here");
    started.signal("TERM", false);
    assert_eq!(started.end().code(), Some(7));

    // One that does not listen is ended by the second signal, with all it started.
    let script = "trap '' TERM INT; echo here; sleep 1000 & while :; do echo on; sleep 0.1; done";
    let mut started = Started::new(&mut link(&place, &options, &["sh", "-c", script]));
    started.line(|line| line == "here");
    started.signal("INT", false);
    for _ in 0..5 {
        started.line(|line| line == "on");
    }
    started.signal("INT", false);
    assert_eq!(started.end().code(), Some(128 + 9));
}

#[test]
fn ctrl_c_at_a_terminal_is_the_programs_own_affair() {
    if !can_isolate() || !needs("script", Command::new("script").arg("--version")) {
        return;
    }
    let place = Place::new();
    // It takes three, and SIGTERM would end it.
    let program = "n=0; trap 'n=$((n+1)); echo got $n' INT; echo here; while [ $n -lt 3 ]; do sleep 0.05; done; exit 5";
    fs::write(place.join("program"), program).unwrap();
    let narrows = env!("CARGO_BIN_EXE_narrows");
    // A shell that stayed in between would be ended by the first key.
    let inner = format!("exec {narrows} link --profile perfect -- sh {}", place.join("program").display());
    let mut command = Command::new("script");
    command.args(["--quiet", "--return", "--flush", "--command", &inner, "/dev/null"]);
    command.env("SHELL", "/bin/sh").stdin(Stdio::piped());
    let mut started = Started::new(&mut command);
    let mut keys = started.keys();
    started.line(|line| line.contains("here"));
    for n in 1..=3 {
        keys.write_all(b"\x03").unwrap();
        started.line(|line| line.contains(&format!("got {n}")));
    }
    assert_eq!(started.end().code(), Some(5));
}

/// A site with one interface, `eth0`, whose other end is `name` in `middle`.
fn end(middle: &Net, name: &str, number: u8) -> Namespace {
    let namespace = Namespace::new().unwrap();
    middle.veth(name, &namespace, "eth0").unwrap();
    middle.ipv6(name, false).unwrap();
    middle.up(name).unwrap();
    let made = namespace.configure(|net| {
        net.ipv6("eth0", false)?;
        net.address("eth0", IpAddr::from([10, 9, 0, number]), 24)?;
        net.up("eth0")
    });
    made.unwrap();
    namespace
}

#[test]
fn between_two_interfaces_packets_take_the_links_time() {
    if !needs_root() || !can_isolate() {
        return;
    }
    // A machine of its own, so that this one is not touched.
    let machine = Namespace::new().unwrap();
    let (left, right) = machine.configure(|net| Ok((end(net, "one", 1), end(net, "two", 2)))).unwrap();
    let place = Place::new();
    let options = ["link", "--profile", "perfect", "--set", "delay=30ms", "--set", "down.delay=10ms"];
    let mut command = narrows(&place, options);
    command.args(["--between", "one", "two"]);
    let started = machine.run(|| Started::new(&mut command)).unwrap();

    let far = right.run(|| UdpSocket::bind("10.9.0.2:4000").unwrap()).unwrap();
    // It waits for more until the process ends.
    thread::spawn(move || programs::echo(&far));
    let near = left.run(|| UdpSocket::bind("10.9.0.1:0").unwrap()).unwrap();
    let to: SocketAddr = "10.9.0.2:4000".parse().unwrap();
    let mut trips = Vec::new();
    until("five round trips", || {
        trips.extend(programs::round_trip(&near, to, trips.len() as u64));
        trips.len() == 5
    });
    // The first asked for the neighbour's address too.
    assert!(trips.iter().all(|trip| trip.as_millis() >= 40), "{trips:?}");
    started.signal("INT", false);
    let said = started.end();
    assert_eq!(said.code(), Some(0), "{said:?}");
    assert!(said.err.contains("up: ") && said.err.contains("none dropped"), "{said:?}");

    // With the link the way is gone, and the interfaces are as they were.
    assert_eq!(programs::round_trip(&near, to, 99), None);
    machine.configure(|net| net.counters("one").map(drop)).unwrap();
}

#[test]
fn between_interfaces_that_are_not_there_or_not_ours_is_told() {
    if !can_isolate() {
        return;
    }
    let place = Place::new();
    let between = ["link", "--profile", "perfect", "--between", "no-such-if", "lo"];
    if is_root() {
        let said = run(&mut narrows(&place, between));
        assert_eq!(said.code(), Some(1), "{said:?}");
        assert!(said.err.contains("no-such-if"), "{said:?}");
    }
    if is_root() && !needs("setpriv(1)", Command::new("setpriv").arg("--version")) {
        return;
    }
    std::fs::copy(env!("CARGO_BIN_EXE_narrows"), place.join("narrows")).unwrap();
    let mut command = Command::new(if is_root() { "setpriv" } else { "env" });
    if is_root() {
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    }
    let said = run(command.arg("./narrows").args(between).current_dir(place.path()));
    assert_eq!(said.code(), Some(1), "{said:?}");
    assert!(said.err.contains("needs root"), "{said:?}");
}

#[test]
fn a_link_for_an_ordinary_user_is_changed_by_that_user() {
    if !needs_root() || !can_isolate() {
        return;
    }
    let _turn = turn();
    let (place, name) = (Place::new(), name("user"));
    let own = std::env::current_exe().unwrap();
    for (from, to) in [(env!("CARGO_BIN_EXE_narrows").into(), "narrows"), (own.clone(), "programs")] {
        std::fs::copy(from, place.join(to)).unwrap();
    }
    let here = |text: String| text.replace(own.to_str().unwrap(), place.join("programs").to_str().unwrap());
    let peer = here(programs::shell("answers"));
    let user = || {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "./narrows"]).current_dir(place.path());
        command
    };
    let mut command = user();
    command.args(["link", "--profile", "perfect", "--set", "delay=20ms", "--name", &name, "--peer", &peer, "--"]);
    command.args(programs::command("asks").into_iter().map(here));
    changed_while_it_runs(command, user, &name);

    // Nobody else is heard: inside a user namespace all others are one, the machine's root too.
    let mut command = user();
    command.args(["link", "--profile", "perfect", "--name", &name, "--", "sh", "-c", "echo here; exec sleep 1000"]);
    let mut started = Started::new(&mut command);
    started.line(|line| line == "here");
    let said = run(&mut narrows(&place, ["link", "set", &name, "delay=1ms"]));
    assert_eq!(said.code(), Some(2), "{said:?}");
    assert!(said.err.contains("only the user who started it may change it"), "{said:?}");
    started.signal("TERM", false);
    assert_eq!(started.end().code(), Some(128 + 15));
}
