//! The emulated link beside its peers, on kernel stacks:
//!
//! `cargo bench -p narrows-netio --bench link -- accuracy | rate | small | tcp [key=value …]`
//!
//! - `accuracy`: datagrams over a link with a delay, timed by the kernel at both ends (`count`
//!   101000, `rate` 5000 a second, `delay` 20ms, `wire` tap or veth).
//! - `rate`: frames at more than a link's rate, counted at the far end second by second (`rate` 100Mbit/s,
//!   `seconds` 20).
//! - `small`: 64-byte frames as fast as they go over a link with a delay, beside `wirefilter` (Debian's
//!   vde2) in turn, with the same generator and counter (`rounds` 5, `seconds` 4, `delay` 20ms).
//! - `tcp`: one connection over a link with a delay and a loss model (`loss` 0, `delay` 5ms, `congestion`
//!   cubic, `rounds` 5, `seconds` 5).
//!
//! Without a name all four run, `tcp` a second time with `loss=0.00001 congestion=bbr`. Works as root or an
//! ordinary user. Other load on the machine shows in the figures: they are printed with their
//! spread, and stalls of the machine are counted apart.

#![allow(clippy::print_stdout, clippy::print_stderr, clippy::unwrap_used, missing_docs, reason = "a benchmark")]

#[path = "../../checks/blaster.rs"]
mod blaster;
#[path = "../../checks/common.rs"]
mod common;
mod peers;
#[path = "../../checks/stamps.rs"]
mod stamps;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use blaster::Blaster;
use common::{Site, cell_between, two_sites};
use engine::{Rate, Span};
use link::{DelayModel, Direction, DirectionConfig, LossModel, PipeConfig, RateModel};
use netio::clock::Stalls;
use netio::executor::{CellHandle, Dataplane, Options};
use netio::port::Kind;
use netio::site::Namespace;

fn main() {
    let mut arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let all = arguments.is_empty();
    let what = if all { String::new() } else { arguments.remove(0) };
    let settings = Settings(arguments.iter().map(|argument| setting(argument)).collect());
    let work = || {
        match what.as_str() {
            "accuracy" => accuracy(&settings),
            "rate" => rate(&settings),
            "small" => small(&settings),
            "tcp" => tcp(&settings),
            "" => {
                accuracy(&settings);
                rate(&settings);
                small(&settings);
                tcp(&settings);
                let lossy = [("loss", "0.00001"), ("congestion", "bbr")];
                tcp(&Settings(lossy.map(|(key, value)| (key.to_owned(), value.to_owned())).into()));
            }
            other => panic!("no benchmark {other}; there are accuracy, rate, small and tcp"),
        }
        0
    };
    std::process::exit(netio::sandbox::run(work).unwrap().code());
}

/// What follows the benchmark's name.
struct Settings(BTreeMap<String, String>);

fn setting(argument: &str) -> (String, String) {
    let (key, value) = argument.split_once('=').unwrap_or_else(|| panic!("`{argument}` is not key=value"));
    (key.to_owned(), value.to_owned())
}

impl Settings {
    fn get<T: std::str::FromStr<Err: std::fmt::Debug>>(&self, key: &str, default: T) -> T {
        self.0.get(key).map_or(default, |value| value.parse().unwrap())
    }

    fn wire(&self) -> Kind {
        match self.0.get("wire").map(String::as_str) {
            Some("veth") => Kind::Veth,
            _ => Kind::Auto,
        }
    }
}

/// Two sites with one link of the product's own between them.
struct Linked {
    sites: [Site; 2],
    handle: CellHandle,
    _dataplane: Dataplane,
}

impl Linked {
    fn new(wire: Kind, pipe: &PipeConfig) -> Self {
        let direction = |label: &str| {
            let pipe = pipe.clone();
            Direction::new(&DirectionConfig { branches: Vec::new(), pipe }, 1, label).unwrap()
        };
        let (sites, wires, _) = two_sites(wire, 1500).unwrap();
        let dataplane = Dataplane::start(Options { spin: true, ..Options::default() }).unwrap();
        let handle = dataplane.add(cell_between(wires, [direction("up"), direction("down")])).unwrap();
        Self { sites, handle, _dataplane: dataplane }
    }
}

/// A link without a limit to its rate.
fn lossy(delay: Span, loss: f64) -> PipeConfig {
    PipeConfig { delay: DelayModel::Constant(delay), loss: LossModel::Bernoulli(loss), ..PipeConfig::default() }
}

fn accuracy(settings: &Settings) {
    let (count, rate) = (settings.get("count", 101_000u32), settings.get("rate", 5_000u64));
    let delay: Span = settings.get("delay", Span::from_millis(20));
    let linked = Linked::new(settings.wire(), &lossy(delay, 0.0));
    let gap = Span::from_nanos(1_000_000_000 / rate);
    let mut beyond: Vec<i64> = stamps::one_way(&linked.sites, count, gap, 200)
        .into_iter()
        .map(|taken| taken - delay.as_nanos().cast_signed())
        .collect();
    beyond.sort_unstable();
    let report = linked.handle.remove().unwrap().report;
    let early = beyond.iter().filter(|&&beyond| beyond < 0).count();
    let limit = Stalls::LIMIT.as_nanos().cast_signed();
    let (calm, stalled) = beyond.split_at(beyond.partition_point(|&beyond| beyond <= limit));
    println!("\naccuracy: {count} datagrams, {rate} a second, link with {delay}, the kernel's stamps at both ends");
    println!("  timed at both ends {}, early {early}, lost by the kernel {:?}", beyond.len(), report.kernel_drops);
    println!("  late, all:            {}", quantiles(&beyond));
    println!("  late, outside stalls: {} ({} in stalls of over {})", quantiles(calm), stalled.len(), Stalls::LIMIT);
    println!(
        "  by our own clock: p50 {:.1} µs, p99 {:.1} µs; {} stalls, {} ms in all, longest {} ms",
        report.lateness.value_at_quantile(0.5) as f64 / 1e3,
        report.lateness.value_at_quantile(0.99) as f64 / 1e3,
        report.stalls.count,
        report.stalls.total.as_nanos() / 1_000_000,
        report.stalls.longest.as_nanos() / 1_000_000,
    );
}

fn quantiles(sorted: &[i64]) -> String {
    let at = |quantile: f64| sorted.get((sorted.len().saturating_sub(1) as f64 * quantile) as usize).copied();
    let [least, p50, p99, most] = [0.0, 0.5, 0.99, 1.0].map(|quantile| at(quantile).unwrap_or(0) as f64 / 1e3);
    format!("least {least:.1} µs, p50 {p50:.1} µs, p99 {p99:.1} µs, most {most:.1} µs")
}

fn rate(settings: &Settings) {
    let (rate, seconds) =
        (settings.get("rate", Rate::from_bits_per_second(100_000_000).unwrap()), settings.get("seconds", 20u64));
    let mut pipe = PipeConfig { rate: Some(RateModel::Constant(rate)), ..lossy(Span::from_millis(5), 0.0) };
    // Enough that the link does not run dry when the machine holds up the generator for a while.
    pipe.queue.packets = Some(4_000);
    let linked = Linked::new(settings.wire(), &pipe);
    println!("\nrate: 1,400-byte packets at more than {rate}, counted at the far end for {seconds} s");
    let counted = || {
        let counters = linked.sites[1].namespace.configure(|net| net.counters("eth0")).unwrap();
        // The rate counts network-layer packets, the interface their Ethernet headers too.
        (Instant::now(), counters.rx_bytes - counters.rx_packets * 14, linked.handle.report().unwrap().stalls.count)
    };
    let (mut calm, mut stalled) = (Vec::new(), 0);
    let frame = frame(1414);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            linked.sites[0].namespace.enter().unwrap();
            let blaster = Blaster::new();
            // Half as much again as the link carries, a batch at a time.
            let batch = Blaster::BATCH as u64 * 1400;
            let gap = Duration::from_nanos(batch * 8 * 1_000_000_000 * 2 / 3 / rate.bits_per_second());
            let mut next = Instant::now();
            while !stop.load(Ordering::Relaxed) {
                blaster.send(&frame, Blaster::BATCH);
                next = (next + gap).max(Instant::now() - gap * 100);
                std::thread::sleep(next.saturating_duration_since(Instant::now()));
            }
        });
        std::thread::sleep(Duration::from_millis(500));
        let mut before = counted();
        for _ in 0..seconds {
            std::thread::sleep(Duration::from_secs(1));
            let after = counted();
            let bits = (after.1 - before.1) as f64 * 8.0 / (after.0 - before.0).as_secs_f64();
            if after.2 == before.2 {
                calm.push((bits / rate.bits_per_second() as f64 - 1.0) * 100.0);
            } else {
                stalled += 1;
            }
            before = after;
        }
        stop.store(true, Ordering::Relaxed);
    });
    println!("  from the rate, in seconds without a stall: {}; {stalled} seconds with one", spread(&calm, 1.0, "%"));
}

fn small(settings: &Settings) {
    let (rounds, seconds) = (settings.get("rounds", 5usize), settings.get("seconds", 4u64));
    let delay: Span = settings.get("delay", Span::from_millis(20));
    let wirefilter = peers::Wirefilter::is_there();
    println!(
        "\nsmall: 64-byte frames (60 B and check sequence) as fast as they go, link with {delay}, {rounds} rounds of {seconds} s"
    );
    if !wirefilter {
        println!("  skipped: wirefilter (Debian: apt-get install vde2)");
    }
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let linked = Linked::new(settings.wire(), &lossy(delay, 0.0));
        ours.push(forwarded(&linked.sites[0].namespace, &linked.sites[1].namespace, seconds));
        drop(linked);
        if wirefilter {
            let peer = peers::Wirefilter::start(delay);
            theirs.push(forwarded(&peer.sites[0], &peer.sites[1], seconds));
        }
    }
    println!("  narrows:    {}", spread(&ours, 1e3, "kpps"));
    if wirefilter {
        println!("  wirefilter: {}", spread(&theirs, 1e3, "kpps"));
        let ratios: Vec<f64> = ours.iter().zip(&theirs).map(|(ours, theirs)| ours / theirs).collect();
        println!("  ratio:      {}", spread(&ratios, 1.0, "times"));
    }
}

/// Frames a second that come out at `eth0` of `to` while `from` sends by its `eth0` what goes in.
fn forwarded(from: &Namespace, to: &Namespace, seconds: u64) -> f64 {
    let frame = frame(60);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            from.enter().unwrap();
            let blaster = Blaster::new();
            while !stop.load(Ordering::Relaxed) {
                blaster.send(&frame, Blaster::BATCH);
            }
        });
        // Until the delay is filled and buffers are warm.
        std::thread::sleep(Duration::from_millis(500));
        let received = || to.configure(|net| net.counters("eth0")).unwrap().rx_packets;
        let (before, begin) = (received(), Instant::now());
        std::thread::sleep(Duration::from_secs(seconds));
        let rate = (received() - before) as f64 / begin.elapsed().as_secs_f64();
        stop.store(true, Ordering::Relaxed);
        rate
    })
}

/// A broadcast frame of a local experimental EtherType (IEEE 802 9.2.2): no stack takes it for its own.
fn frame(length: usize) -> Vec<u8> {
    let mut frame = vec![0; length];
    frame[..6].copy_from_slice(&[0xff; 6]);
    frame[6..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
    frame
}

fn tcp(settings: &Settings) {
    let (rounds, seconds) = (settings.get("rounds", 5usize), settings.get("seconds", 5u64));
    let delay: Span = settings.get("delay", Span::from_millis(5));
    let (loss, congestion) = (settings.get("loss", 0.0), settings.get("congestion", "cubic".to_owned()));
    println!(
        "\ntcp: one {congestion} connection, link with {delay} each way and Bernoulli loss {loss}, {rounds} rounds of {seconds} s"
    );
    let rates: Vec<f64> = (0..rounds)
        .map(|_| {
            let linked = Linked::new(settings.wire(), &lossy(delay, loss));
            transferred(&linked.sites, &congestion, seconds)
        })
        .collect();
    println!("  narrows: {}", spread(&rates, 1e9, "Gbit/s"));
}

/// Bits a second that a connection's receiver gets, after a second for it to grow.
fn transferred(sites: &[Site; 2], congestion: &str, seconds: u64) -> f64 {
    let address = (sites[1].address, 5001);
    let listener = sites[1].namespace.run(|| TcpListener::bind(address)).unwrap().unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut stream = sites[0].namespace.run(|| TcpStream::connect(address)).unwrap().unwrap();
            peers::set_congestion(&stream, congestion);
            let block = vec![0; 1 << 18];
            while !stop.load(Ordering::Relaxed) {
                if stream.write_all(&block).is_err() {
                    break;
                }
            }
        });
        let (mut stream, _) = listener.accept().unwrap();
        let mut buffer = vec![0; 1 << 20];
        let mut receive_for = |length: Duration| {
            let (mut total, begin) = (0, Instant::now());
            while begin.elapsed() < length {
                total += stream.read(&mut buffer).unwrap();
            }
            total as f64 * 8.0 / begin.elapsed().as_secs_f64()
        };
        receive_for(Duration::from_secs(1));
        let rate = receive_for(Duration::from_secs(seconds));
        stop.store(true, Ordering::Relaxed);
        // What is on its way lets the sender see that it may stop.
        receive_for(Duration::from_millis(50));
        rate
    })
}

fn spread(values: &[f64], unit: f64, name: &str) -> String {
    if values.is_empty() {
        return "none".into();
    }
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let [least, median, most] = [0, sorted.len() / 2, sorted.len() - 1].map(|at| sorted[at] / unit);
    format!("median {median:.2} {name} (least {least:.2}, most {most:.2})")
}
