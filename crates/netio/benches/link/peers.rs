//! What the link is measured against.

use std::fs;
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use engine::Span;
use netio::site::Namespace;

pub(crate) fn set_congestion(stream: &TcpStream, name: &str) {
    // SAFETY: the name outlives the call, and its length is given.
    let set = unsafe {
        let (name, length) = (name.as_ptr().cast(), name.len() as u32);
        libc::setsockopt(stream.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_CONGESTION, name, length)
    };
    assert_eq!(set, 0, "this kernel has no congestion control {name}");
}

/// Two namespaces, each with a TAP `eth0` of a VDE switch, and a wirefilter between the switches.
pub(crate) struct Wirefilter {
    pub(crate) sites: [Namespace; 2],
    processes: Vec<Child>,
    directory: PathBuf,
}

impl Wirefilter {
    pub(crate) fn is_there() -> bool {
        let there =
            |program| Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        there("wirefilter").is_ok() && there("vde_switch").is_ok()
    }

    pub(crate) fn start(delay: Span) -> Self {
        let directory = std::env::temp_dir().join(format!("narrows-bench-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let switches = ["left", "right"].map(|name| directory.join(name));
        let sites = [(); 2].map(|()| Namespace::new().unwrap());
        let mut processes = Vec::new();
        for (site, switch) in sites.iter().zip(&switches) {
            let mut command = Command::new("vde_switch");
            // It ends at the end of its input, so the input is a pipe that stays open.
            command.arg("-s").arg(switch).args(["-tap", "eth0"]).stdin(Stdio::piped()).stdout(Stdio::null());
            processes.push(site.run(|| command.spawn()).unwrap().unwrap());
            wait_until(|| switch.join("ctl").exists());
            site.configure(|net| {
                net.up("lo")?;
                net.ipv6("eth0", false)?;
                net.up("eth0")
            })
            .unwrap();
        }
        let mut command = Command::new("wirefilter");
        command.arg("-v").arg(format!("{}:{}", switches[0].display(), switches[1].display()));
        command.args(["-d", &(delay.as_nanos() / 1_000_000).to_string()]);
        processes.push(command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap());
        std::thread::sleep(Duration::from_millis(300));
        Self { sites, processes, directory }
    }
}

impl Drop for Wirefilter {
    fn drop(&mut self) {
        for process in self.processes.iter_mut().rev() {
            let _ = process.kill();
            let _ = process.wait();
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn wait_until(there: impl Fn() -> bool) {
    let begin = Instant::now();
    while !there() {
        assert!(begin.elapsed() < Duration::from_secs(5), "vde_switch does not start");
        std::thread::sleep(Duration::from_millis(10));
    }
}
