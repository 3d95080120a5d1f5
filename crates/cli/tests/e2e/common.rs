//! Running the command, within bounds.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use measure::{CellRecord, Recording};

/// No command here takes longer, on a machine with much else to do.
const LIMIT: Duration = Duration::from_secs(120);

/// A directory of a test's own, that anybody may write to.
pub(crate) struct Place(PathBuf);

impl Place {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("narrows-e2e-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a scenario there.
    pub(crate) fn scenario(&self, text: &str) -> PathBuf {
        let path = self.join("scenario.yaml");
        fs::write(&path, text).unwrap();
        path
    }

    /// What is in it, by name.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(&self.0).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !thread::panicking() {
            fs::remove_dir_all(&self.0).ok();
        }
    }
}

/// `narrows` with its arguments, in a directory.
pub(crate) fn narrows<S: AsRef<OsStr>>(dir: &Place, arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_narrows"));
    command.current_dir(dir.path()).args(arguments);
    command
}

/// What a command left on its way.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) status: ExitStatus,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    pub(crate) fn code(&self) -> Option<i32> {
        self.status.code()
    }
}

/// Runs a command to its end.
pub(crate) fn run(command: &mut Command) -> Said {
    Started::new(command).end()
}

/// Runs a command that must succeed.
pub(crate) fn succeed(command: &mut Command) -> Said {
    let said = run(command);
    assert_eq!(said.code(), Some(0), "{command:?}: {said:?}");
    said
}

/// A command that runs.
pub(crate) struct Started {
    child: Child,
    lines: Receiver<String>,
    out: String,
    err: Option<thread::JoinHandle<String>>,
    until: Instant,
}

impl Started {
    pub(crate) fn new(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (out, mut err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let err = thread::spawn(move || {
            let mut text = String::new();
            let _ = err.read_to_string(&mut text);
            text
        });
        Self { child, lines, out: String::new(), err: Some(err), until: Instant::now() + LIMIT }
    }

    /// What it reads from, if that was asked for.
    pub(crate) fn keys(&mut self) -> ChildStdin {
        self.child.stdin.take().unwrap()
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The next line of standard output that is asked for; panics if the command ends before, or
    /// takes too long.
    pub(crate) fn line(&mut self, wanted: impl Fn(&str) -> bool) -> String {
        loop {
            let left = self.until.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => {
                    self.out.push_str(&line);
                    self.out.push('\n');
                    if wanted(&line) {
                        return line;
                    }
                }
                Err(why) => {
                    let _ = self.child.kill();
                    let err = self.err.take().map(|err| err.join().unwrap());
                    panic!("no such line ({why}) in {}; {err:?}", self.out)
                }
            }
        }
    }

    /// Sends it a signal, by name, or to its process group.
    pub(crate) fn signal(&self, name: &str, group: bool) {
        let sign = if group { "-" } else { "" };
        let sent = Command::new("sh").args(["-c", &format!("kill -{name} {sign}{}", self.id())]).status().unwrap();
        assert!(sent.success(), "cannot send {name}");
    }

    /// Waits for the end of the command and of all that has its standard output.
    pub(crate) fn end(mut self) -> Said {
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if Instant::now() > self.until {
                let _ = self.child.kill();
                panic!("it does not end; it said {} {:?}", self.out, self.err.take().unwrap().join());
            }
            thread::sleep(Duration::from_millis(10));
        };
        loop {
            match self.lines.recv_timeout(self.until.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    self.out.push_str(&line);
                    self.out.push('\n');
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(mpsc::RecvTimeoutError::Timeout) => panic!("something it started holds its standard output"),
            }
        }
        Said { status, out: std::mem::take(&mut self.out), err: self.err.take().unwrap().join().unwrap() }
    }
}

impl Drop for Started {
    /// Leaves nothing behind, also where a test fails: one that has ended is not there to be killed.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until something is so, within bounds.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !holds() {
        assert!(Instant::now() < end, "never: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// A turn at the machine for a test that measures, as long as it is held: also among test processes.
pub(crate) fn turn() -> File {
    let file = turns();
    file.lock().unwrap();
    file
}

/// A turn for one that loads the machine and does not mind others that do.
pub(crate) fn turn_beside() -> File {
    let file = turns();
    file.lock_shared().unwrap();
    file
}

fn turns() -> File {
    File::create(Path::new(env!("CARGO_TARGET_TMPDIR")).join("turns")).unwrap()
}

pub(crate) fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0)
}

/// Whether namespaces can be made here, asked of somebody else than narrows.
pub(crate) fn can_isolate() -> bool {
    let how = if is_root() { vec!["-n", "-m", "-p", "-f"] } else { vec!["-U", "-r", "-n", "-m", "-p", "-f"] };
    needs("namespaces (unshare(1) cannot make them)", Command::new("unshare").args(how).arg("true"))
}

/// Whether a command succeeds; if not, says that the test is skipped for want of it.
pub(crate) fn needs(what: &str, command: &mut Command) -> bool {
    let there = command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success());
    if !there {
        println!("skipped: needs {what}");
    }
    there
}

/// Whether this is root; if not, says that the test is skipped.
pub(crate) fn needs_root() -> bool {
    if !is_root() {
        println!("skipped: needs root");
    }
    is_root()
}

/// A shipped scenario.
pub(crate) fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(name)
}

pub(crate) fn recording(dir: &Path) -> Recording {
    Recording::load(dir).unwrap_or_else(|error| panic!("{error}"))
}

/// The rows of a table as fields by column; none of the fields here holds a comma.
pub(crate) fn rows(dir: &Path, table: &str, columns: &[&str]) -> Vec<Vec<String>> {
    let text = fs::read_to_string(dir.join(table)).unwrap();
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    let places: Vec<usize> = columns.iter().map(|name| header.iter().position(|h| h == name).unwrap()).collect();
    lines
        .map(|line| {
            let fields: Vec<&str> = line.split(',').collect();
            assert_eq!(fields.len(), header.len(), "{table}: {line}");
            places.iter().map(|&place| fields[place].to_owned()).collect()
        })
        .collect()
}

/// Whether a cell's figures are to be judged; says if not.
pub(crate) fn judged(cell: &CellRecord) -> bool {
    if let Some(why) = &cell.health.spoiled {
        println!("not judged: cell {} is spoiled: {why}", cell.cell);
    }
    cell.health.spoiled.is_none()
}

/// What tshark says of a capture; `None`, and says so, where it is not installed.
pub(crate) fn tshark(capture: &Path, arguments: &[&str]) -> Option<String> {
    match Command::new("tshark").arg("-n").arg("-r").arg(capture).args(arguments).output() {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            Some(String::from_utf8(output.stdout).unwrap())
        }
        Err(error) => {
            println!("skipped: tshark: {error}");
            None
        }
    }
}
