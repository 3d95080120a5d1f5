//! `narrows trace verify`: whether what was sent is the trace.

#![expect(clippy::print_stdout, reason = "the command line speaks here")]

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::sync::Arc;

use engine::{Random, Span};
use measure::format::count;
use scenario::capture::Packets;
use serde_json::{Value, json};
use traffic::replay::{Comparison, Network, Observed, Replay};
use wire::capture::Passage;

use super::read::{Failure, read};
use super::scale::config;
use crate::args::Verify;
use crate::exit;

/// `narrows trace verify`
pub(crate) fn verify(options: &Verify) -> u8 {
    match compared(options) {
        Ok(found) => {
            if options.json {
                println!("{}", record(options, &found));
            } else {
                print!("{}", text(options, &found));
            }
            if is_good(options, &found) { exit::DONE } else { exit::NOT_AS_EXPECTED }
        }
        Err(failure) => failure.told(),
    }
}

fn compared(options: &Verify) -> Result<Comparison, Failure> {
    let (capture, table) = read(&options.original, &options.selection)?;
    // Who stands for whom is found out: any addresses will do, and as many UEs as there may be.
    let network = Network { ues: u32::MAX, pdn_v4: Some(Ipv4Addr::UNSPECIFIED), pdn_v6: Some(Ipv6Addr::UNSPECIFIED) };
    let config = config(&options.scaling, network)?;
    let random = Random::stream(options.scaling.seed, "replay");
    let replay = Replay::new(Arc::new(capture.trace), Arc::new(table), &config, random)?;
    Comparison::new(replay, &observed(&options.sent)?).map_err(|error| Failure::input(error.to_string()))
}

/// The packets of a capture that were not received by the interface, as far as it says.
fn observed(path: &Path) -> Result<Vec<Observed>, Failure> {
    let mut packets = Packets::open(path)?;
    let mut observed = Vec::new();
    while let Some(packet) = packets.next()? {
        let (Some(unix_nanos), Some(network)) = (packet.unix_nanos, packet.network()) else { continue };
        if packet.direction != Some(Passage::In) {
            let length = packet.length.saturating_sub(network as u32);
            observed.extend(Observed::new(unix_nanos, &packet.bytes[network..], length));
        }
    }
    Ok(observed)
}

fn is_good(options: &Verify, found: &Comparison) -> bool {
    let is_timely = options.p99.is_none_or(|most| quantile(&found.lateness, 99).is_some_and(|p99| p99 <= most));
    found.is_same() && is_timely
}

/// The value below or at which so many hundredths of all are.
fn quantile(sorted: &[Span], hundredths: usize) -> Option<Span> {
    let rank = (sorted.len() * hundredths).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

fn record(options: &Verify, found: &Comparison) -> Value {
    let errors = |sorted: &[Span]| {
        let at = |hundredths| quantile(sorted, hundredths).map(Span::as_nanos);
        json!({"packets": sorted.len(), "p50_ns": at(50), "p90_ns": at(90), "p99_ns": at(99), "max_ns": at(100)})
    };
    json!({
        "original": options.original,
        "sent": options.sent,
        "same": found.is_same(),
        "packets_expected": found.expected,
        "packets_sent": found.sent,
        "missing": found.missing,
        "surplus": found.surplus,
        "returned": found.returned,
        "foreign": found.foreign,
        "out_of_order": found.out_of_order,
        "sizes_differ": found.sizes_differ,
        "addresses_differ": found.addresses_differ,
        "payloads_compared": found.payloads_compared,
        "timing_error": errors(&found.lateness),
        "timing_error_outside_stalls": errors(&found.lateness_outside),
        "stalls": found.stalls,
        "stalled_s": found.stalled.as_secs_f64(),
    })
}

fn text(options: &Verify, found: &Comparison) -> String {
    let mut lines = vec![format!(
        "{} against {}: {}",
        options.sent.display(),
        options.original.display(),
        if found.is_same() { "the same packets in the same order" } else { "NOT the same" }
    )];
    lines.push(format!("packets       {} of {} sent", count(found.sent), count(found.expected)));
    for (number, what) in [
        (found.missing, "missing"),
        (found.surplus, "sent once too often"),
        (found.out_of_order, "out of order"),
        (found.sizes_differ, "of another size"),
        (found.addresses_differ, "with an address that stood for another before"),
        (found.returned, "back from the user plane, not compared"),
        (found.foreign, "not of this trace, not compared"),
    ] {
        if number > 0 {
            lines.push(format!("              {} {what}", count(number)));
        }
    }
    let compared = if found.payloads_compared { "headers and payloads" } else { "headers (a capture is cut)" };
    lines.push(format!("compared      {compared}, but for addresses, checksums and stamps"));
    for (name, sorted) in [("timing error", &found.lateness), ("  no stalls", &found.lateness_outside)] {
        let at = |hundredths| quantile(sorted, hundredths).map_or("-".into(), microseconds);
        let packets = count(sorted.len() as u64);
        lines.push(format!(
            "{name:<13} p50 {}, p90 {}, p99 {}, max {} ({packets} packets)",
            at(50),
            at(90),
            at(99),
            at(100)
        ));
    }
    lines.push(format!("stalls        {} of over 1 ms, {} s in all", count(found.stalls), found.stalled.as_secs_f64()));
    lines.join("\n") + "\n"
}

fn microseconds(span: Span) -> String {
    format!("{:.3} µs", span.as_nanos() as f64 / 1e3)
}
