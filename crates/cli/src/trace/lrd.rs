//! `narrows trace lrd`: how long-range dependent a trace is, and what multiplying it does to that.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the command line speaks here")]

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use engine::{Random, Span, Time};
use measure::Unit;
use measure::format::{count, digits, duration, quantity};
use scenario::capture::{Capture, CaptureOptions};
use serde_json::{Value, json};
use traffic::selfsimilar::{Case, Estimate, Estimator, Examination, Examine, Refusal, examine};
use traffic::times::{self, TimedPacket};

use super::read::Failure;
use crate::args::Lrd;
use crate::exit;

/// A list of times is no longer than this: some 40 bytes for each packet that is read.
const LONGEST_LIST: u64 = 1 << 30;

/// `narrows trace lrd`
pub(crate) fn lrd(options: &Lrd) -> u8 {
    let found = match found(options) {
        Ok(found) => found,
        Err(failure) => return failure.told(),
    };
    if options.json {
        print_json(options, &found);
    } else {
        print!("{}", text(&options.file, &found));
    }
    match &options.out {
        Some(out) => write_page(options, &found, out),
        None => exit::DONE,
    }
}

fn found(options: &Lrd) -> Result<Examination, Failure> {
    let what = Examine {
        slot: options.slot,
        bytes: options.bytes,
        instances: options.instances,
        repetitions: options.repetitions,
    };
    examine(&packets(options)?, &what, &Random::stream(options.seed, "lrd"))
        .map_err(|error| Failure::input(format!("{}: {error}", options.file.display())))
}

/// The packets of a capture, or of a list of times.
fn packets(options: &Lrd) -> Result<Vec<TimedPacket>, Failure> {
    let path = &options.file;
    let failed = |error: io::Error| Failure { status: exit::FAILED, what: format!("{}: {error}", path.display()) };
    let mut head = [0; 4];
    let mut file = File::open(path).map_err(failed)?;
    let read = file.read(&mut head).map_err(failed)?;
    if is_text(&head[..read]) {
        let wrong = |why: String| Failure::input(format!("{}: {why}", path.display()));
        check(options, file.metadata().map_err(failed)?.len()).map_err(wrong)?;
        let packets = times::read(&fs::read(path).map_err(failed)?).map_err(|error| wrong(error.to_string()))?;
        return Ok(match options.max_gap {
            Some(longest) => capped(packets, longest),
            None => packets,
        });
    }
    let wanted =
        CaptureOptions { filter: options.filter.clone(), max_gap: options.max_gap, ..CaptureOptions::default() };
    let capture = Capture::read(path, &wanted)?;
    if let Some(at) = capture.cut_off {
        eprintln!("narrows: {}: ends in the middle of a packet, at byte {at}; what is before is used", path.display());
    }
    let packets = capture.trace.packets();
    let left_out = capture.packets - capture.filtered - packets.len() as u64;
    if left_out > 0 {
        eprintln!("narrows: {}: {left_out} packets are left out; see `narrows trace info`", path.display());
    }
    Ok(packets.map(|packet| TimedPacket { time: Time::ZERO + packet.time, bytes: packet.length }).collect())
}

/// The magic numbers of pcap have bytes that no text has; pcapng's has line ends alone.
fn is_text(head: &[u8]) -> bool {
    head != b"\n\r\r\n" && head.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace())
}

/// What a list of times cannot be.
fn check(options: &Lrd, length: u64) -> Result<(), String> {
    if options.filter.is_some() {
        return Err("a list of times has nothing to filter; leave --filter out".to_owned());
    }
    if length > LONGEST_LIST {
        return Err(format!(
            "{} B are too much for a list of times (at most {} B)",
            count(length),
            count(LONGEST_LIST)
        ));
    }
    Ok(())
}

/// The packets with gaps no longer than `longest`.
fn capped(mut packets: Vec<TimedPacket>, longest: Span) -> Vec<TimedPacket> {
    let (mut before, mut now) = (Time::ZERO, Time::ZERO);
    for packet in &mut packets {
        now += packet.time.since(before).min(longest);
        before = packet.time;
        packet.time = now;
    }
    packets
}

/// The answer as text.
fn text(file: &Path, found: &Examination) -> String {
    let mut text = format!(
        "{}: {} packets in {}, {} per slot of {}\n",
        file.display(),
        count(found.packets),
        duration(found.span.as_secs_f64()),
        if found.of_bytes { "bytes" } else { "packets" },
        found.slot
    );
    let most = |of: fn(&Case) -> u32| found.cases.iter().map(of).max().unwrap_or(1);
    let (instances, repetitions) = (most(|case| case.instances), most(|case| case.repetitions));
    let _ = writeln!(text, "scaled: {instances} instances; repeated: {repetitions} times");
    exponents(&mut text, found);
    gaps(&mut text, found);
    text
}

fn exponents(text: &mut String, found: &Examination) {
    let _ = write!(text, "\n{:18}", "Hurst exponent");
    for estimator in Estimator::ALL {
        let _ = write!(text, " {:>15}", short(estimator));
    }
    text.push('\n');
    for case in &found.cases {
        let _ = write!(text, "{:18}", case.way.name());
        for (_, estimate) in &case.hurst {
            let _ = write!(text, " {:>15}", cell(estimate));
        }
        text.push('\n');
    }
    let mut estimates = found.cases.iter().flat_map(|case| &case.hurst).map(|(_, estimate)| estimate);
    if let Some(Err(refusal)) = estimates.clone().find(|estimate| estimate.is_err()) {
        let _ = writeln!(text, "- there is none: {refusal}");
    }
    if estimates.any(bends) {
        text.push_str("* the energies of octaves do not lie on one line: there is no single exponent\n");
    }
    text.push_str(
        "Intervals are of 95 %. Whittle's holds for fractional Gaussian noise alone. Repeated, the trace has a period,\n\
         which is no dependence: exponents then are those of neither.\n",
    );
}

fn gaps(text: &mut String, found: &Examination) {
    let within = format!("gaps < {}", quantity(found.bin.as_secs_f64(), Unit::Second));
    let columns = ["slots", "variance/mean", &within, "sum |rho(k)|", "by chance", "up to k"];
    let _ = write!(text, "\n{:18}", "Slots and gaps");
    for column in columns {
        let _ = write!(text, " {column:>14}");
    }
    text.push('\n');
    for case in &found.cases {
        let all: u64 = case.histogram.iter().sum();
        let first = case.histogram.first().copied().unwrap_or_default() as f64 / all.max(1) as f64;
        let last = |sum: &Option<Vec<(u64, f64)>>| sum.as_ref().and_then(|sum| sum.last().copied());
        let sum = |sum| last(sum).map_or("-".to_owned(), |(_, sum)| digits(sum));
        let columns = [
            count(case.slots as u64),
            digits(case.dispersion),
            quantity(first, Unit::Ratio),
            sum(&case.sum),
            sum(&case.chance),
            last(&case.sum).map_or("-".to_owned(), |(lag, _)| count(lag)),
        ];
        let _ = write!(text, "{:18}", case.way.name());
        for column in columns {
            let _ = write!(text, " {column:>14}");
        }
        text.push('\n');
    }
    text.push_str("By chance: the same sum for the same gaps in an order that was drawn.\n");
}

fn short(estimator: Estimator) -> &'static str {
    match estimator {
        Estimator::AggregatedVariance => "variance-time",
        other => other.name(),
    }
}

/// Whether an estimator found no single power law.
fn bends(estimate: &Result<Estimate, Refusal>) -> bool {
    matches!(estimate, Ok(Estimate { is_power_law: Some(false), .. }))
}

fn cell(estimate: &Result<Estimate, Refusal>) -> String {
    match estimate {
        Ok(found) => {
            let mark = if bends(estimate) { "*" } else { "" };
            format!("{:.2}{mark} {:.2}-{:.2}", found.hurst, found.low, found.high)
        }
        Err(_) => "-".to_owned(),
    }
}

fn print_json(options: &Lrd, found: &Examination) {
    let trace = json!({
        "file": options.file, "packets": found.packets, "bytes": found.bytes, "span_s": found.span.as_secs_f64(),
        "slot_s": found.slot.as_secs_f64(), "series": if found.of_bytes { "bytes" } else { "packets" },
        "bin_s": found.bin.as_secs_f64(), "seed": options.seed,
    });
    println!("{trace}");
    for case in &found.cases {
        println!("{}", case_json(case));
    }
}

fn case_json(case: &Case) -> Value {
    let estimate = |estimate: &Result<Estimate, Refusal>| match estimate {
        Ok(found) => json!({
            "hurst": found.hurst, "low": found.low, "high": found.high, "from_slots": found.from, "to_slots": found.to,
            "is_power_law": found.is_power_law,
        }),
        Err(refusal) => json!({"refused": refusal.to_string()}),
    };
    let hurst: serde_json::Map<String, Value> =
        case.hurst.iter().map(|(estimator, found)| (estimator.name().to_owned(), estimate(found))).collect();
    json!({
        "case": case.way.name(), "instances": case.instances, "repetitions": case.repetitions, "slots": case.slots,
        "dispersion": case.dispersion, "hurst": hurst, "gaps_per_bin": case.histogram,
        "autocorrelation_sum": case.sum, "autocorrelation_sum_by_chance": case.chance,
    })
}

fn write_page(options: &Lrd, found: &Examination, out: &Path) -> u8 {
    let name = options.file.file_name().unwrap_or(options.file.as_os_str()).to_string_lossy();
    match measure::write_whole(out, report::self_similarity(&name, found).as_bytes()) {
        Ok(()) => {
            if !options.json {
                println!("page: {}", out.display());
            }
            exit::DONE
        }
        Err(error) => crate::results::failed(&error),
    }
}
