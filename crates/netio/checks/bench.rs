//! How fast, how punctual and how quickly made the wires are.
//!
//! `cargo run --release -p narrows-netio --bin netio-checks -- bench WHAT [key=value ...]` with WHAT
//! one of `setup`; `small`, 64-byte packets as fast as they go; `tcp`, one flow; `late`, datagrams at
//! a rate, timed by the kernel. Keys: `kind` (tap, veth), `seconds`, `delay` (µs), `spin` (0, 1),
//! `cpu`, `mtu`, `rate` (packets a second), `congestion`.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use engine::Span;
use netio::cpu;
use netio::executor::{CellHandle, Dataplane, Options};
use netio::port::Kind;
use netio::site::{Counters, Namespace};

use crate::common::{Site, two_sites};
use crate::stamps;

struct Settings(HashMap<String, String>);

impl Settings {
    fn number(&self, key: &str, default: u64) -> u64 {
        self.0.get(key).map_or(default, |value| value.parse().unwrap())
    }
}

pub(crate) fn run() -> i32 {
    let mut arguments = std::env::args().skip(2);
    let what = arguments.next().unwrap_or_default();
    let settings = Settings(
        arguments
            .map(|argument| argument.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned())).unwrap())
            .collect(),
    );
    match what.as_str() {
        "setup" => setup(&settings),
        "small" => small(&settings),
        "tcp" => tcp(&settings),
        "late" => late(&settings),
        other => panic!("no bench {other}"),
    }
    0
}

fn kind(settings: &Settings) -> Kind {
    match settings.0.get("kind").map(String::as_str) {
        Some("veth") => Kind::Veth,
        _ => Kind::Tap,
    }
}

fn joined(settings: &Settings, delay: u64) -> ([Site; 2], Dataplane, CellHandle) {
    let delay = Span::from_micros(settings.number("delay", delay));
    let (sites, cell, choice) = two_sites(kind(settings), delay, settings.number("mtu", 1500) as u32).unwrap();
    println!("{choice}");
    let spin = settings.number("spin", 1) == 1;
    let cpu = settings.0.get("cpu").map(|cpu| cpu.parse().unwrap());
    let plane = Dataplane::start(Options { spin, cpu, ..Options::default() }).unwrap();
    let handle = plane.add(cell).unwrap();
    (sites, plane, handle)
}

fn conclude(handle: CellHandle) {
    let begin = Instant::now();
    let report = handle.remove().unwrap().report;
    let at = |quantile| report.lateness.value_at_quantile(quantile) as f64 / 1e3;
    println!(
        "in {} out {} | late µs p50 {:.1} p90 {:.1} p99 {:.1} p99.9 {:.1} max {:.1}, over limit {} | stalls {} (longest {}) | busy {:.3} s",
        report.packets_in,
        report.packets_out,
        at(0.5),
        at(0.9),
        at(0.99),
        at(0.999),
        at(1.0),
        report.late,
        report.stalls.count,
        report.stalls.longest,
        report.busy.as_secs_f64(),
    );
    println!(
        "drops {:?}, kernel {:?}, broken {:?}; removed in {:?}",
        report.drops,
        report.kernel_drops,
        report.broken,
        begin.elapsed()
    );
}

fn setup(settings: &Settings) {
    let count = settings.number("count", 100);
    let begin = Instant::now();
    for _ in 0..count {
        Namespace::new().unwrap();
    }
    println!("empty namespace: {:?}", begin.elapsed() / count as u32);
    let begin = Instant::now();
    for _ in 0..count {
        let made = two_sites(kind(settings), Span::from_millis(1), 1500).unwrap();
        drop(made);
    }
    println!("two sites, made and dropped: {:?}", begin.elapsed() / count as u32);
    let begin = Instant::now();
    let made: Vec<_> = (0..count).map(|_| two_sites(kind(settings), Span::from_millis(1), 1500).unwrap()).collect();
    println!("two sites, made: {:?}", begin.elapsed() / count as u32);
    let begin = Instant::now();
    drop(made);
    println!("two sites, dropped: {:?}", begin.elapsed() / count as u32);
}

/// Sends frames by a packet socket on `eth0` of the calling thread's namespace.
pub(crate) struct Blaster {
    socket: i32,
}

impl Blaster {
    pub(crate) fn new() -> Self {
        // SAFETY: a bench; the descriptor lives as long as the process.
        unsafe {
            let socket = libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0);
            let mut address: libc::sockaddr_ll = std::mem::zeroed();
            address.sll_family = libc::AF_PACKET as u16;
            address.sll_ifindex = libc::if_nametoindex(c"eth0".as_ptr()).cast_signed();
            libc::bind(socket, (&raw const address).cast(), size_of_val(&address) as u32);
            let one = 1i32;
            libc::setsockopt(socket, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, (&raw const one).cast(), 4);
            Self { socket }
        }
    }

    pub(crate) fn send(&self, frame: &[u8], count: usize) -> usize {
        // SAFETY: a bench; all pointers outlive the call.
        unsafe {
            let mut piece = libc::iovec { iov_base: frame.as_ptr().cast_mut().cast(), iov_len: frame.len() };
            let mut messages: [libc::mmsghdr; 64] = std::mem::zeroed();
            for message in &mut messages {
                message.msg_hdr.msg_iov = &raw mut piece;
                message.msg_hdr.msg_iovlen = 1;
            }
            libc::sendmmsg(self.socket, messages.as_mut_ptr(), count.min(64) as u32, 0).max(0) as usize
        }
    }
}

fn frame(sites: &[Site; 2], length: usize) -> Vec<u8> {
    let mut frame = vec![0; length];
    frame[..6].copy_from_slice(&sites[1].mac);
    frame[6..12].copy_from_slice(&sites[0].mac);
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    frame
}

fn counters(site: &Site) -> Counters {
    site.namespace.configure(|net| net.counters("eth0")).unwrap()
}

fn small(settings: &Settings) {
    let seconds = settings.number("seconds", 5);
    let (sites, _plane, handle) = joined(settings, 20_000);
    let frame = frame(&sites, 60);
    let stop = AtomicBool::new(false);
    let rate = settings.number("rate", 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            sites[0].namespace.enter().unwrap();
            let blaster = Blaster::new();
            let begin = Instant::now();
            let mut sent = 0u64;
            while !stop.load(Ordering::Relaxed) {
                if rate > 0 && sent as f64 > begin.elapsed().as_secs_f64() * rate as f64 {
                    std::hint::spin_loop();
                    continue;
                }
                sent += blaster.send(&frame, 32) as u64;
            }
            println!("offered {:.0} kpps", sent as f64 / begin.elapsed().as_secs_f64() / 1e3);
        });
        std::thread::sleep(Duration::from_millis(500));
        for _ in 0..seconds {
            let (before, begin) = (counters(&sites[1]), Instant::now());
            std::thread::sleep(Duration::from_secs(1));
            let after = counters(&sites[1]);
            println!(
                "delivered {:.0} kpps",
                (after.rx_packets - before.rx_packets) as f64 / begin.elapsed().as_secs_f64() / 1e3
            );
        }
        stop.store(true, Ordering::Relaxed);
    });
    conclude(handle);
}

fn late(settings: &Settings) {
    let delay = settings.number("delay", 20_000);
    let (sites, _plane, handle) = joined(settings, delay);
    let rate = settings.number("rate", 2000);
    let count = settings.number("seconds", 5) * rate;
    let gap = Span::from_nanos(1_000_000_000 / rate);
    let mut delays = stamps::one_way(&sites, count as u32, gap, settings.number("size", 200) as usize);
    delays.sort_unstable();
    let above = |quantile: f64| {
        let at = ((delays.len() - 1) as f64 * quantile) as usize;
        (delays[at] - i64::try_from(delay * 1000).unwrap()) as f64 / 1e3
    };
    println!(
        "{} of {count} arrived; by the kernel's stamps, µs beyond the delay: min {:.1} p50 {:.1} p90 {:.1} p99 {:.1} max {:.1}",
        delays.len(),
        above(0.0),
        above(0.5),
        above(0.9),
        above(0.99),
        above(1.0),
    );
    conclude(handle);
}

fn tcp(settings: &Settings) {
    let seconds = settings.number("seconds", 5);
    let (sites, _plane, handle) = joined(settings, 5_000);
    let congestion = settings.0.get("congestion").map_or("cubic", String::as_str);
    let listener = sites[1].namespace.run(|| TcpListener::bind((sites[1].address, 5001))).unwrap().unwrap();
    let (before, machine) = (cpu::process(), cpu::Machine::now().unwrap());
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut buffer = vec![0; 1 << 20];
            let (mut total, mut begin) = (0, Instant::now());
            while let Ok(length @ 1..) = stream.read(&mut buffer) {
                total += length;
                if begin.elapsed() > Duration::from_secs(1) {
                    println!("{:.2} Gbit/s", total as f64 * 8.0 / begin.elapsed().as_secs_f64() / 1e9);
                    (total, begin) = (0, Instant::now());
                }
            }
        });
        let mut stream = sites[0].namespace.run(|| TcpStream::connect((sites[1].address, 5001))).unwrap().unwrap();
        // SAFETY: a bench; the name outlives the call.
        unsafe {
            libc::setsockopt(
                stream.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_CONGESTION,
                congestion.as_ptr().cast(),
                congestion.len() as u32,
            );
        }
        let (block, begin) = (vec![0; 1 << 17], Instant::now());
        while begin.elapsed() < Duration::from_secs(seconds) {
            stream.write_all(&block).unwrap();
        }
    });
    let used = cpu::process().saturating_sub(before);
    println!("CPU {:.2} s, machine {:?}", used.as_secs_f64(), cpu::Machine::now().unwrap().since(&machine));
    conclude(handle);
}
