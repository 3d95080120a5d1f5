//! The sandbox, sites, wires and the executor on the kernel this runs on.
//!
//! Only a process without threads can make a sandbox, so that each check runs in a process of its
//! own (`checks/main.rs`). Started by root, each runs as root and as an ordinary user.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "says what is skipped; helpers of tests may panic too"
)]

use std::io::{BufRead, BufReader};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};

/// An ordinary user that exists everywhere: nobody.
const NOBODY: u32 = 65_534;

fn command(name: &str, user: Option<u32>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_netio-checks"));
    command.arg(name).current_dir("/");
    if let Some(user) = user {
        command.uid(user).gid(user);
    }
    command
}

/// Who the checks are run as: ourselves, and an ordinary user if we are root.
fn users() -> Vec<Option<u32>> {
    // SAFETY: reads the process's credentials.
    if unsafe { libc::geteuid() } != 0 {
        return vec![None];
    }
    match command("threads", Some(NOBODY)).status() {
        Ok(_) => vec![None, Some(NOBODY)],
        Err(error) => {
            eprintln!("skipped for an ordinary user, who cannot read {}: {error}", env!("CARGO_BIN_EXE_netio-checks"));
            vec![None]
        }
    }
}

/// Runs a check as each user; what it prints is shown if it fails or cannot be run here.
fn holds(name: &str) {
    for user in users() {
        let output = command(name, user).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        match output.status.code() {
            Some(0) => println!("{name}: {text}"),
            Some(77) => eprintln!("{name} skipped: {text}"),
            _ => panic!("{name} as {user:?}: {}\n{text}", output.status),
        }
    }
}

macro_rules! checks {
    ($($test:ident: $name:literal;)*) => {$(
        #[test]
        fn $test() {
            holds($name);
        }
    )*};
}

checks! {
    a_process_with_threads_is_refused: "threads";
    the_sandbox_shows_its_own_processes: "processes";
    a_limit_in_the_way_is_named: "refused";
    removed_cells_free_their_namespaces: "freed";
    cells_leave_no_descriptors_and_threads: "leaks";
    a_deleted_interface_is_reported: "deleted";
    tcp_by_tap_delivers_every_byte: "tap";
    tcp_by_tap_with_large_packets_delivers_every_byte: "tap-jumbo";
    tcp_by_veth_delivers_every_byte: "veth";
    datagram_super_frames_by_tap_keep_their_boundaries: "datagrams-tap";
    datagram_super_frames_by_veth_keep_their_boundaries: "datagrams-veth";
    tcp_in_vxlan_by_tap_delivers_every_byte: "vxlan-tap";
    tcp_in_vxlan_by_veth_delivers_every_byte: "vxlan-veth";
    tcp_between_two_interfaces_delivers_every_byte: "interfaces";
    a_vlan_tag_stays_in_its_frame: "tagged";
    without_taps_a_veth_is_taken: "no-tun";
    no_packet_is_early_by_the_kernels_stamps: "never-early";
    a_graph_is_changed_while_packets_pass: "commands";
    frames_by_af_xdp_arrive_whole_and_in_order: "frames-af-xdp";
    frames_by_af_packet_arrive_whole_and_in_order: "frames-af-packet";
    frames_by_what_is_there_arrive_whole_and_in_order: "frames-auto";
    frames_that_cannot_be_joined_arrive_whole_and_in_order: "frames-segmented";
    datagrams_in_super_frames_arrive_as_they_were: "datagrams-segmented";
    frames_for_an_interface_that_is_down_are_told: "interface-down";
    an_interface_is_opened_again_at_once: "opened-again";
    without_locked_memory_packet_sockets_are_taken: "no-locked-memory";
    a_stacks_frames_are_cut_and_their_checksums_completed: "frames-of-a-stack";
}

#[test]
fn the_works_status_is_the_sandboxs() {
    for user in users() {
        for (name, expected) in [("status", 42), ("panic", 101), ("abort", 128 + libc::SIGABRT)] {
            let output = command(name, user).output().unwrap();
            if output.status.code() != Some(77) {
                assert_eq!(output.status.code(), Some(expected), "{name}: {output:?}");
            }
        }
    }
}

#[test]
fn the_first_signal_asks_and_the_second_kills() {
    for user in users() {
        for (name, signals, expected) in [
            ("graceful", &[(libc::SIGTERM, None)][..], 43),
            ("graceful", &[(libc::SIGINT, None)], 43),
            ("stubborn", &[(libc::SIGINT, Some("asked")), (libc::SIGINT, None)], 128 + libc::SIGKILL),
        ] {
            let Some((mut child, mut lines)) = started(name, user) else { continue };
            for &(signal, answer) in signals {
                send(&child, signal);
                if let Some(answer) = answer {
                    assert_eq!(lines.next().as_deref(), Some(answer));
                }
            }
            assert_eq!(child.wait().unwrap().code(), Some(expected), "{name} {signals:?}");
        }
    }
}

#[test]
fn nothing_survives_the_death_of_the_caller() {
    for user in users() {
        let Some((mut child, _lines)) = started("linger", user) else { continue };
        let inside = descendants(child.id());
        // Init, the worker, and the two it started, one of which had left for a session of its own.
        assert!(inside.len() >= 4, "{inside:?}");
        let watched: Vec<Watched> = inside.iter().filter_map(|&pid| Watched::new(pid)).collect();
        assert_eq!(watched.len(), inside.len());
        send(&child, libc::SIGKILL);
        let status: ExitStatus = child.wait().unwrap();
        assert_eq!(status.signal(), Some(libc::SIGKILL));
        for process in watched {
            assert!(process.ends(), "process {} still runs", process.pid);
        }
    }
}

/// Starts a check that says `ready`; `None` if this machine cannot run it.
fn started(name: &str, user: Option<u32>) -> Option<(Child, impl Iterator<Item = String> + use<>)> {
    let mut child = command(name, user).stdout(Stdio::piped()).spawn().unwrap();
    let output: ChildStdout = child.stdout.take().unwrap();
    let mut lines = BufReader::new(output).lines().map_while(Result::ok);
    match lines.next().as_deref() {
        Some("ready") => Some((child, lines)),
        other => {
            assert_eq!(child.wait().unwrap().code(), Some(77), "{other:?}");
            eprintln!("{name} skipped: {other:?}");
            None
        }
    }
}

fn send(child: &Child, signal: libc::c_int) {
    // SAFETY: no pointers; the child is ours and not reaped yet.
    assert_eq!(unsafe { libc::kill(child.id().cast_signed(), signal) }, 0);
}

/// All processes below `pid`, by the parents that `/proc` tells.
fn descendants(pid: u32) -> Vec<u32> {
    let mut parents = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(child) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        // proc(5): pid (comm) state ppid …; the name may contain anything.
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        let Some((_, rest)) = stat.rsplit_once(") ") else { continue };
        parents.push((child, rest.split(' ').nth(1).unwrap().parse::<u32>().unwrap()));
    }
    let (mut found, mut next) = (Vec::new(), vec![pid]);
    while let Some(parent) = next.pop() {
        let children = parents.iter().filter(|(_, its)| *its == parent).map(|(child, _)| *child);
        next.extend(children.clone());
        found.extend(children);
    }
    found
}

/// A process by descriptor, which no other process can take the number of.
struct Watched {
    pid: u32,
    fd: libc::c_long,
}

impl Watched {
    fn new(pid: u32) -> Option<Self> {
        // SAFETY: no pointers.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        (fd >= 0).then_some(Self { pid, fd })
    }

    /// Waits until it ended; false if it still runs after half a minute.
    fn ends(&self) -> bool {
        let mut poll = libc::pollfd { fd: libc::c_int::try_from(self.fd).unwrap(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one pollfd, ours.
        unsafe { libc::poll(&raw mut poll, 1, 30_000) == 1 }
    }
}
