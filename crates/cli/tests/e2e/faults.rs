//! What may happen to a run: killed, interrupted, out of disk. Nothing stays behind, finished cells
//! are kept, and `--resume` goes on.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::common::{
    Place, Started, can_isolate, narrows, needs, needs_root, recording, rows, run, succeed, turn_beside, until,
};

/// Six cells of half a second; none loses a datagram, whose time to come would be waited for.
const SIX: &str = "\
name: six
sites: [ship, shore]
links: {radio: {ends: [ship, shore], rate: 10Mbit/s, delay: 5ms}}
traffic: {data: {from: ship, to: shore, udp: {rate: 400kbit/s}}}
sweep: {radio.delay: [1ms, 2ms, 3ms, 4ms, 5ms, 6ms]}
measure: {duration: 500ms, interval: 500ms}
seed: 3
";

const RUN: [&str; 7] = ["run", "scenario.yaml", "--out", "r", "--jobs", "1", "--json"];

fn begun(place: &Place, cells: usize) -> Started {
    place.scenario(SIX);
    let mut command = narrows(place, RUN);
    let mut started = Started::new(command.process_group(0));
    for _ in 0..cells {
        started.line(|line| line.contains("\"finished\""));
    }
    started
}

/// The attempts that are finished for good, from the tables and the events, which must agree.
fn finished(dir: &Path) -> BTreeSet<(u32, u32)> {
    let mut told = BTreeSet::new();
    for event in recording(dir).events {
        if let measure::Event::Finished(done) = event {
            assert!(told.insert((done.cell, done.attempt)), "{done:?} finished twice");
        }
    }
    for table in ["cells.csv", "links.csv"] {
        let mut seen = Vec::new();
        for row in rows(dir, table, &["cell", "attempt"]) {
            let key = (row[0].parse().unwrap(), row[1].parse().unwrap());
            // One flow; two directions next to each other.
            if seen.last() != Some(&key) {
                seen.push(key);
            }
        }
        assert_eq!(seen.len(), told.len(), "{table}: rows of a cell are torn apart or written twice: {seen:?}");
        assert_eq!(seen.into_iter().collect::<BTreeSet<_>>(), told, "{table}");
    }
    assert_eq!(rows(dir, "links.csv", &["cell"]).len(), 2 * told.len());
    told
}

/// Resumes, and asserts that every cell is there once and that what was there before is as it was.
fn resumes(place: &Place, before: &BTreeSet<(u32, u32)>) {
    let kept = fs::read_to_string(place.join("r/cells.csv")).unwrap();
    let kept: Vec<String> = kept.lines().take(1 + before.len()).map(str::to_owned).collect();
    let said = run(&mut narrows(place, RUN.into_iter().chain(["--resume"])));
    assert_eq!(said.code(), Some(0), "{said:?}");
    let after = finished(&place.join("r"));
    assert!(after.is_superset(before), "{before:?} {after:?}");
    assert_eq!(after.iter().map(|(cell, _)| cell).collect::<BTreeSet<_>>().len(), 6);
    assert_eq!(recording(&place.join("r")).cells.len(), 6);
    let now = fs::read_to_string(place.join("r/cells.csv")).unwrap();
    assert_eq!(now.lines().take(kept.len()).collect::<Vec<_>>(), kept, "finished cells were written anew");
}

/// The parent of a process, by number, and when it began, which tells it from a later one.
fn stat(pid: u32) -> Option<(u32, String)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // proc(5): the name, in brackets, may hold anything.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    // A zombie has ended; only its parent has not looked.
    (fields[0] != "Z").then(|| (fields[1].parse().unwrap_or(0), fields[19].to_owned()))
}

/// Everything that descends from a process, itself included.
fn descendants(root: u32) -> Vec<(u32, String)> {
    let all: Vec<(u32, (u32, String))> = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Some((pid, stat(pid)?)))
        .collect();
    let mut found = vec![root];
    loop {
        let more = all.iter().find(|(pid, (parent, _))| found.contains(parent) && !found.contains(pid));
        match more {
            Some((pid, _)) => found.push(*pid),
            None => break,
        }
    }
    all.into_iter().filter(|(pid, _)| found.contains(pid)).map(|(pid, (_, began))| (pid, began)).collect()
}

/// Interfaces here that look like ours.
fn devices() -> Vec<String> {
    let text = fs::read_to_string("/proc/self/net/dev").unwrap();
    let names = text.lines().filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned()));
    names
        .filter(|name| ["link", "pod", "overlay", "vxlan", "probe"].iter().any(|ours| name.starts_with(ours)))
        .collect()
}

#[test]
fn after_a_kill_nothing_stays_behind_and_resume_gives_every_cell_once() {
    if !can_isolate() {
        return;
    }
    let (place, _turn) = (Place::new(), turn_beside());
    let devices_before = devices();
    let started = begun(&place, 2);
    let family = descendants(started.id());
    assert!(family.len() >= 3, "caller, init and worker: {family:?}");
    started.signal("KILL", false);
    // `end` also waits for whoever else holds the standard output.
    let said = started.end();
    assert_eq!(said.status.code(), None, "{said:?}");
    until("every process it started is gone", || {
        family.iter().all(|(pid, began)| stat(*pid).is_none_or(|(_, other)| other != *began))
    });
    assert_eq!(devices(), devices_before);

    let dir = place.join("r");
    let kept = finished(&dir);
    assert!(kept.len() >= 2, "{kept:?}");
    // Rows of a cell that was being written when the machine went down, and a torn line of each kind.
    let whole = fs::read_to_string(dir.join("links.csv")).unwrap();
    let row = whole.lines().last().unwrap();
    let torn = row.replacen(row.split(',').next().unwrap(), "5", 1);
    for (name, text) in [
        ("links.csv", format!("{torn}\n5,0,0,rad")),
        ("cells.csv", "5,0,0,9".to_owned()),
        ("samples.csv", "5".to_owned()),
        ("events.jsonl", "{\"event\":\"finished\",\"ce".to_owned()),
    ] {
        OpenOptions::new().append(true).open(dir.join(name)).unwrap().write_all(text.as_bytes()).unwrap();
    }
    // A report can be drawn before the run goes on.
    let said = succeed(&mut narrows(&place, ["report", "r"]));
    assert!(said.out.contains(&format!("{} of 6 cells", kept.iter().map(|k| k.0).collect::<BTreeSet<_>>().len())));
    resumes(&place, &kept);
}

#[test]
fn an_interrupt_ends_the_run_soon_and_tells_how_to_go_on() {
    if !can_isolate() {
        return;
    }
    let (place, _turn) = (Place::new(), turn_beside());
    let started = begun(&place, 1);
    // As a terminal does it: to the whole group.
    started.signal("INT", true);
    let said = started.end();
    assert_eq!(said.code(), Some(1), "{said:?}");
    assert!(said.err.contains("finished cells are kept: go on with --resume --out r"), "{said:?}");
    let kept = finished(&place.join("r"));
    assert!(!kept.is_empty() && kept.len() < 6, "{kept:?}");
    resumes(&place, &kept);
}

#[test]
fn an_interrupt_of_a_run_in_virtual_time_is_no_different() {
    let place = Place::new();
    // Long enough that it is not over before it is interrupted: some 10,000 cells.
    let sweep = "sweep: {radio.loss: {from: 0, to: 1, step: 0.0001}}";
    let text = SIX.replace("sweep: {radio.delay: [1ms, 2ms, 3ms, 4ms, 5ms, 6ms]}", sweep);
    place.scenario(&text);
    let mut command = narrows(&place, ["run", "scenario.yaml", "--out", "r", "--json", "--virtual"]);
    let mut started = Started::new(command.process_group(0));
    started.line(|line| line.contains("\"finished\""));
    started.signal("INT", true);
    let said = started.end();
    assert_eq!(said.code(), Some(1), "{}", said.err);
    assert!(said.err.contains("finished cells are kept: go on with --resume --out r"), "{}", said.err);
    let kept = recording(&place.join("r")).cells.len();
    assert!((1..10_000).contains(&kept), "{kept}");
}

/// A mount namespace with a small file system in it.
struct SmallDisk {
    holder: Child,
    place: Place,
}

impl SmallDisk {
    fn new(size: &str) -> Self {
        let place = Place::new();
        fs::create_dir(place.join("disk")).unwrap();
        let script = format!("mount -t tmpfs -o size={size} none disk && mkdir disk/up && exec sleep 1000");
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", &script]).current_dir(place.path());
        let disk = Self { holder: command.stdout(Stdio::null()).spawn().unwrap(), place };
        until("the small disk is there", || disk.inside("up").exists());
        disk
    }

    /// A path on it, as it is seen from outside.
    fn inside(&self, name: &str) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.holder.id()));
        root.join(self.place.join("disk").strip_prefix("/").unwrap()).join(name)
    }

    /// A `narrows` that writes to it.
    fn narrows(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--mount=/proc/{}/ns/mnt", self.holder.id()));
        // The directory is looked up inside: from outside the small disk is not on its path.
        command.args(["sh", "-c", "cd \"$0\" && exec \"$@\""]).arg(self.place.path());
        command.arg(env!("CARGO_BIN_EXE_narrows")).args(arguments);
        command
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

fn can_mount() -> bool {
    needs_root()
        && needs("unshare(1) to mount a small disk", Command::new("unshare").args(["--mount", "true"]))
        && needs("nsenter(1)", Command::new("nsenter").arg("--version"))
}

#[test]
fn on_a_full_disk_finished_cells_are_kept_and_resume_goes_on() {
    if !can_isolate() || !can_mount() {
        return;
    }
    let _turn = turn_beside();
    let disk = SmallDisk::new("4m");
    fs::write(disk.place.join("scenario.yaml"), SIX).unwrap();
    let arguments = ["run", "scenario.yaml", "--out", "disk/r", "--jobs", "1", "--json"];
    let mut started = Started::new(&mut disk.narrows(&arguments));
    started.line(|line| line.contains("\"finished\""));
    // Somebody else takes the rest.
    let mut filler = fs::File::create(disk.inside("filler")).unwrap();
    while filler.write_all(&[0; 4096]).is_ok() {}
    assert_eq!(disk.place.names(), ["disk", "scenario.yaml"]);
    let said = started.end();
    assert_eq!(said.code(), Some(1), "{said:?}");
    assert!(said.err.contains("No space left on device"), "{said:?}");
    assert!(said.err.contains("finished cells are kept: make room, then go on with --resume"), "{said:?}");
    let kept = finished(&disk.inside("r"));
    assert!(!kept.is_empty() && kept.len() < 6, "{kept:?}");

    fs::remove_file(disk.inside("filler")).unwrap();
    drop(filler);
    let said = run(&mut disk.narrows(&[&arguments[..], &["--resume"]].concat()));
    assert_eq!(said.code(), Some(0), "{said:?}");
    let after = finished(&disk.inside("r"));
    assert!(after.is_superset(&kept));
    assert_eq!(after.iter().map(|(cell, _)| cell).collect::<BTreeSet<_>>().len(), 6);
}

#[test]
fn a_run_that_cannot_fit_is_not_begun() {
    if !can_isolate() || !can_mount() {
        return;
    }
    let disk = SmallDisk::new("32k");
    fs::write(disk.place.join("scenario.yaml"), SIX).unwrap();
    let said = run(&mut disk.narrows(&["run", "scenario.yaml", "--out", "disk/r"]));
    assert_eq!(said.code(), Some(1), "{said:?}");
    assert!(said.err.contains("make room") && said.err.contains("--out"), "{said:?}");
    assert!(!disk.inside("r").exists());
}

#[test]
fn a_kernel_without_namespaces_is_named_with_what_to_do() {
    if !needs("user namespaces", Command::new("unshare").args(["-U", "-r", "true"])) {
        return;
    }
    let place = Place::new();
    place.scenario(SIX);
    // The limit holds in a user namespace of the test's own, and below.
    let script = "echo 0 > /proc/sys/user/max_net_namespaces && exec \"$0\" run scenario.yaml --out r";
    let mut command = Command::new("unshare");
    command.args(["-U", "-r", "sh", "-c", script, env!("CARGO_BIN_EXE_narrows")]).current_dir(place.path());
    let said = run(&mut command);
    assert_eq!(said.code(), Some(1), "{said:?}");
    assert!(said.err.contains("sudo sysctl user.max_net_namespaces="), "{said:?}");
    assert_eq!(place.names(), ["scenario.yaml"]);
}

#[test]
fn without_a_tun_device_another_wire_is_taken_and_told() {
    if !can_isolate() || !can_mount() || !Path::new("/dev/net/tun").exists() {
        return;
    }
    let (place, _turn) = (Place::new(), turn_beside());
    place.scenario(&SIX.replace("[1ms, 2ms, 3ms, 4ms, 5ms, 6ms]", "[5ms]"));
    let script = "mount --bind /dev/null /dev/net/tun && exec \"$0\" run scenario.yaml --out r";
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", script, env!("CARGO_BIN_EXE_narrows")]);
    let said = run(command.current_dir(place.path()));
    assert_eq!(said.code(), Some(0), "{said:?}");
    assert!(said.err.contains("wire: veth") && said.err.contains("a TAP is not to be had"), "{said:?}");
    let flow = &recording(&place.join("r")).cells[0].flows[0];
    let packets = flow.packets.unwrap();
    assert!(packets.sent > 0 && packets.received == packets.sent, "{packets:?}");
}
