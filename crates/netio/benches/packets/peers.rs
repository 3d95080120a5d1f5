//! Debian's packet generators.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use netio::site::Namespace;

/// A directory for their files, gone in the end.
pub(crate) struct Directory(PathBuf);

impl Directory {
    pub(crate) fn new() -> Self {
        let path = std::env::temp_dir().join(format!("narrows-packets-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, content).unwrap();
        path
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn is_there(program: &str) -> bool {
    let silent = |command: &mut Command| command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    silent(Command::new(program).arg("--version"))
}

/// A running generator, ended when dropped.
pub(crate) struct Running(Child);

impl Running {
    fn start(namespace: &Namespace, command: &mut Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(namespace.run(|| command.spawn()).unwrap().unwrap())
    }

    /// Lets it run for a while longer than it is measured.
    pub(crate) fn until(self, seconds: u64) -> Self {
        std::thread::sleep(Duration::from_secs(seconds) + Duration::from_millis(500));
        self
    }

    pub(crate) fn wait(mut self) {
        self.0.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A capture as fast as it goes, for `seconds`.
pub(crate) fn tcpreplay_topspeed(namespace: &Namespace, capture: &Path, seconds: u64) -> Running {
    let mut command = Command::new("tcpreplay");
    command.args(["--intf1=a", "--topspeed", "--preload-pcap", "--loop=0"]);
    command.arg(format!("--duration={seconds}")).arg(capture);
    Running::start(namespace, &mut command)
}

/// A capture at its own times, once.
pub(crate) fn tcpreplay(namespace: &Namespace, capture: &Path) -> Running {
    let mut command = Command::new("tcpreplay");
    command.args(["--intf1=a", "--preload-pcap"]).arg(capture);
    Running::start(namespace, &mut command)
}

/// One frame as fast as it goes, on one processor.
pub(crate) fn trafgen(namespace: &Namespace, config: &Path) -> Running {
    let mut command = Command::new("trafgen");
    command.args(["--dev", "a", "--cpus", "1", "--no-sock-mem", "--conf"]).arg(config);
    Running::start(namespace, &mut command)
}

/// A capture file (pcap with nanoseconds) of frames at times in nanoseconds.
pub(crate) fn pcap<'a>(frames: impl Iterator<Item = (u64, &'a [u8])>) -> Vec<u8> {
    let mut out = Vec::new();
    // Magic of nanoseconds, version 2.4, zone, accuracy, longest frame, Ethernet.
    for word in [0xa1b2_3c4d_u32, 0x0004_0002, 0, 0, 65_535, 1] {
        out.extend_from_slice(&word.to_le_bytes());
    }
    for (at, frame) in frames {
        for word in [(at / 1_000_000_000) as u32, (at % 1_000_000_000) as u32, frame.len() as u32, frame.len() as u32] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(frame);
    }
    out
}
