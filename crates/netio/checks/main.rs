//! What the tests in `tests/kernel.rs` start: checks that have to run in a sandbox, which only a process
//! without threads can make. `netio-checks NAME` ends with 0 if the check holds and 77, with the
//! reason, if this machine lacks what it needs.

#![allow(clippy::print_stdout, clippy::print_stderr, clippy::unwrap_used, reason = "a part of the tests")]

mod blaster;
mod common;
mod hold;
mod packet_io;
mod pair;
mod stamps;
mod transfer;

use std::fs;
use std::io::Write;
use std::process::Command;
use std::time::{Duration, Instant};

use common::wait_for;
use engine::Span;
use hold::held_sites;
use netio::executor::{Dataplane, Options};
use netio::port::Kind;
use netio::sandbox::{self, SandboxError};
use netio::site::Namespace;

/// Exit status of a check that this machine cannot run.
const SKIPPED: i32 = 77;

fn main() {
    let name = std::env::args().nth(1).unwrap_or_default();
    if name == "threads" {
        let _thread = std::thread::spawn(std::thread::park);
        let refused = matches!(sandbox::run(|| 0), Err(SandboxError::Threads(2)));
        std::process::exit(i32::from(!refused));
    }
    let work = || match name.as_str() {
        "status" => 42,
        "panic" => panic!("on purpose"),
        "abort" => std::process::abort(),
        "linger" => linger(),
        "graceful" => graceful(),
        "stubborn" => stubborn(),
        "processes" => processes(),
        "refused" => refused(),
        "freed" => freed(),
        "leaks" => leaks(),
        "deleted" => deleted(),
        other => {
            transfer::check(other).or_else(|| packet_io::check(other)).unwrap_or_else(|| panic!("no check {other}"))
        }
    };
    match sandbox::run(work) {
        Ok(exit) => std::process::exit(exit.code()),
        Err(error @ SandboxError::Refused { .. }) => {
            println!("{error}");
            std::process::exit(SKIPPED);
        }
        Err(error) => panic!("{error}"),
    }
}

/// Fills the sandbox with processes and a site, says so, and stays.
fn linger() -> i32 {
    let sites = held_sites(Kind::Auto, Span::from_millis(1), 1500).unwrap();
    // One that has left its parent and its session.
    let mut orphaning = Command::new("sh").args(["-c", "setsid sleep 1000 & sleep 1000 &"]).spawn().unwrap();
    orphaning.wait().unwrap();
    say("ready");
    std::thread::sleep(Duration::from_secs(1000));
    drop(sites);
    0
}

/// Ends when asked to.
fn graceful() -> i32 {
    say("ready");
    let begin = Instant::now();
    while !sandbox::interrupted() && begin.elapsed() < Duration::from_secs(60) {
        std::thread::yield_now();
    }
    if sandbox::interrupted() { 43 } else { 1 }
}

/// Says that it was asked to end, and does not.
fn stubborn() -> i32 {
    say("ready");
    while !sandbox::interrupted() {
        std::thread::yield_now();
    }
    say("asked");
    std::thread::sleep(Duration::from_secs(1000));
    0
}

/// Nothing but the sandbox's own processes is to be seen: init and this one.
fn processes() -> i32 {
    let mut seen: Vec<u32> = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok()?.parse().ok())
        .collect();
    seen.sort_unstable();
    println!("{seen:?}, this is {}", std::process::id());
    if fs::read_to_string("/proc/1/comm").is_ok_and(|init| !init.starts_with("netio-checks")) {
        println!("this container does not let /proc be mounted");
        return SKIPPED;
    }
    i32::from(seen != [1, 2] || std::process::id() != 2)
}

/// A kernel that allows no more network namespaces is named, with its setting.
fn refused() -> i32 {
    if let Err(error) = fs::write("/proc/sys/user/max_net_namespaces", "0") {
        println!("cannot set a limit: {error}");
        return SKIPPED;
    }
    let message = sandbox::run(|| 0).unwrap_err().to_string();
    println!("{message}");
    i32::from(!message.contains("sudo sysctl user.max_net_namespaces="))
}

/// A removed cell's namespaces and devices go away, with the kernel's own limit as the witness.
fn freed() -> i32 {
    let limit = 12;
    if let Err(error) = fs::write("/proc/sys/user/max_net_namespaces", limit.to_string()) {
        println!("cannot set a limit: {error}");
        return SKIPPED;
    }
    let plane = Dataplane::start(Options::default()).unwrap();
    for _ in 0..8 {
        // The kernel takes namespaces down in the background: room comes back soon, not at once.
        let cell = wait_for("room for two more namespaces", || held_sites(Kind::Auto, Span::from_millis(1), 1500).ok());
        let (sites, cell, _) = cell;
        let handle = plane.add(cell).unwrap();
        handle.remove().unwrap();
        drop(sites);
    }
    let room = wait_for("room for all", || (0..limit - 1).map(|_| Namespace::new().ok()).collect::<Option<Vec<_>>>());
    println!("room for {}", room.len());
    0
}

/// Neither descriptors nor threads are left behind by cells that come and go.
fn leaks() -> i32 {
    let count = |what: &str| fs::read_dir(format!("/proc/self/{what}")).unwrap().count();
    let plane = Dataplane::start(Options::default()).unwrap();
    let round = |kind| {
        let (_sites, cell, _) = held_sites(kind, Span::from_millis(1), 1500).unwrap();
        plane.add(cell).unwrap().remove().unwrap();
    };
    round(Kind::Auto);
    let before = (count("fd"), count("task"));
    for _ in 0..5 {
        round(Kind::Auto);
        round(Kind::Veth);
    }
    let after = (count("fd"), count("task"));
    println!("descriptors and threads before {before:?}, after {after:?}");
    i32::from(before != after)
}

/// An interface that is deleted under the executor is reported, and nothing spins or hangs.
fn deleted() -> i32 {
    let plane = Dataplane::start(Options::default()).unwrap();
    let (sites, cell, _) = held_sites(Kind::Tap, Span::from_millis(1), 1500).unwrap();
    let handle = plane.add(cell).unwrap();
    sites[0].namespace.configure(|net| net.delete("eth0")).unwrap();
    let report = wait_for("the report", || Some(handle.report().unwrap()).filter(|report| !report.broken.is_empty()));
    println!("{:?}", report.broken);
    let removed = handle.remove().unwrap();
    i32::from(removed.report.broken.len() != 1 || removed.report.broken[0].0 != "left")
}

fn say(line: &str) {
    println!("{line}");
    std::io::stdout().flush().unwrap();
}
