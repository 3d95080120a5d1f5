//! Packet I/O beside a bare AF_XDP loop and Debian's packet generators, over a veth pair:
//!
//! `cargo bench -p narrows-netio --bench packets -- rate | replay | capture [key=value …]`
//!
//! - `rate`: packets a second that reach the peer, in turns (`length` 1400 and 146, `rounds` 5, `seconds` 2): the
//!   same frames handed over again and again untouched (`bare`), each frame written, stamped and counted
//!   (`generator`), the same by a packet socket (`sendmmsg`) and with UDP segmentation offload (`segmented`), the
//!   generator with a thread at the peer that reads and counts (`received`), `tcpreplay --topspeed` and `trafgen`.
//! - `replay`: packets at bursty times, from when they should be sent to the kernel's stamp at the peer
//!   (`packets` 60000, `seconds` 2, `rounds` 3, `realtime` false), beside `tcpreplay`.
//! - `capture`: what recording every frame costs the sender (`length` 1400, `rounds` 5, `seconds` 2).
//!
//! Without a name all run. Other load on the machine shows in the figures: they are printed with their spread.

#![allow(clippy::print_stdout, clippy::print_stderr, clippy::unwrap_used, missing_docs, reason = "a benchmark")]

#[path = "../../checks/pair.rs"]
mod pair;
mod peers;
mod rate;
mod replay;

use std::collections::BTreeMap;

fn main() {
    // cargo adds `--bench`.
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with("--"));
    let mut what = arguments.next().unwrap_or_default();
    let mut settings: Vec<_> = arguments.collect();
    if what.contains('=') {
        settings.push(std::mem::take(&mut what));
    }
    let settings = Settings(settings.iter().map(|argument| setting(argument)).collect());
    let work = || {
        match what.as_str() {
            "rate" => rate::rate(&settings),
            "capture" => rate::capture(&settings),
            "replay" => replay::replay(&settings),
            "" => {
                rate::rate(&settings);
                rate::capture(&settings);
                replay::replay(&settings);
            }
            other => panic!("no benchmark {other}; there are rate, replay and capture"),
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
}

fn spread(values: &[f64], unit: f64, name: &str) -> String {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let Some(&most) = sorted.last() else { return "none".into() };
    let [least, median] = [0, sorted.len() / 2].map(|at| sorted[at] / unit);
    format!("median {median:.3} {name} (least {least:.3}, most {:.3})", most / unit)
}

fn quantiles(sorted: &[i64]) -> String {
    let at = |quantile: f64| sorted.get((sorted.len().saturating_sub(1) as f64 * quantile) as usize).copied();
    let [least, p50, p99, most] = [0.0, 0.5, 0.99, 1.0].map(|quantile| at(quantile).unwrap_or(0) as f64 / 1e3);
    format!("least {least:.1} µs, p50 {p50:.1} µs, p99 {p99:.1} µs, most {most:.1} µs")
}
