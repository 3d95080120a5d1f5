//! `narrows trace info`: what is in a capture.

#![expect(clippy::print_stdout, reason = "the command line speaks here")]

use std::fmt::Write;
use std::time::{Duration, UNIX_EPOCH};

use measure::Unit;
use measure::format::{count, duration, quantity};
use scenario::capture::Capture;
use serde_json::{Value, json};
use traffic::replay::{AddressTable, Amount, PEAK_SLOT, Summary};
use wire::{ETHERNET_LEN, protocol};

use super::read::read;
use crate::args::Info;
use crate::exit;

/// Where one class of sizes ends and the next begins, in bytes of an Ethernet frame.
const SIZES: [u32; 8] = [64, 128, 256, 512, 1_024, 1_250, 1_500, 1_515];

/// Sizes that are listed by themselves at most.
const COMMON: usize = 5;

/// `narrows trace info`
pub(crate) fn info(options: &Info) -> u8 {
    match read(&options.file, &options.selection) {
        Ok((capture, table)) => {
            let summary = Summary::new(&capture.trace, &table);
            if options.json {
                println!("{}", record(options, &capture, &table, &summary));
            } else {
                print!("{}", text(options, &capture, &table, &summary));
            }
            exit::DONE
        }
        Err(failure) => failure.told(),
    }
}

fn record(options: &Info, capture: &Capture, table: &AddressTable, summary: &Summary) -> Value {
    let amount = |amount: Amount| json!({"packets": amount.packets, "bytes": amount.bytes});
    let left = capture.trace.left();
    let protocols: Vec<_> = summary
        .protocols
        .iter()
        .map(|(&(version, protocol), &of)| json!({"ip": version, "protocol": protocol, "packets": of.packets, "bytes": of.bytes}))
        .collect();
    let lengths: Vec<_> = summary.lengths.iter().map(|(length, packets)| json!([length, packets])).collect();
    let addresses: Vec<_> = table
        .addresses()
        .map(|(address, is_ue, number)| json!({"address": address, "is": if is_ue { "ue" } else { "pdn" }, "number": number}))
        .collect();
    json!({
        "file": options.file,
        "packets_in_file": capture.packets,
        "packets": summary.all.packets,
        "ip_bytes": summary.all.bytes,
        "start_unix_ns": capture.trace.start_unix_nanos(),
        "span_s": capture.trace.span().as_secs_f64(),
        "uplink": amount(summary.uplink),
        "downlink": amount(summary.downlink),
        "peak_100ms": {"at_s": summary.peak.0.as_secs_f64(), "packets": summary.peak.1.packets, "bytes": summary.peak.1.bytes},
        "longest_gap_s": capture.trace.longest_gap().0.as_secs_f64(),
        "protocols": protocols,
        "ip_lengths": lengths,
        "addresses": addresses,
        "filtered": capture.filtered,
        "left_out": {
            "not_ip": left.not_ip, "cut_in_headers": left.cut_in_headers, "bad_length": left.bad_length,
            "untimed": capture.untimed, "no_route": table.unrouted(),
        },
        "cut": capture.trace.cut(),
        "notes": capture.notes(),
    })
}

fn text(options: &Info, capture: &Capture, table: &AddressTable, summary: &Summary) -> String {
    let mut out = String::new();
    let mut line = |name: &str, value: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{name:<12} {value}");
    };
    let span = capture.trace.span().as_secs_f64();
    let of = |amount: Amount| format!("{} packets, {} B of IP", count(amount.packets), count(amount.bytes));
    line("capture", options.file.display().to_string());
    line("packets", format!("{} of {} in the file", count(summary.all.packets), count(capture.packets)));
    if capture.filtered > 0 {
        line("filtered", format!("{} do not match", count(capture.filtered)));
    }
    let begun = UNIX_EPOCH + Duration::from_nanos(capture.trace.start_unix_nanos());
    line("begun", humantime::format_rfc3339_nanos(begun).to_string());
    line("lasts", duration(span));
    if span > 0.0 {
        let rate = |bytes: u64| quantity(bytes as f64 * 8.0 / span, Unit::BitPerSecond);
        let packets = (summary.all.packets as f64 / span).round() as u64;
        line("rate", format!("{} packets/s, {} of IP in the mean", count(packets), rate(summary.all.bytes)));
    }
    let (at, peak) = summary.peak;
    let peak_rate = peak.bytes as f64 * 8.0 / PEAK_SLOT.as_secs_f64();
    line(
        "peak",
        format!(
            "{} packets in 100 ms, {}, {} after the start",
            count(peak.packets),
            quantity(peak_rate, Unit::BitPerSecond),
            duration(at.as_secs_f64())
        ),
    );
    line("uplink", of(summary.uplink));
    line("downlink", of(summary.downlink));
    if table.unrouted() > 0 {
        line(
            "neither",
            format!("{} packets, of which both ends are on one side: not replayed", count(table.unrouted())),
        );
    }
    for (&(version, protocol), &amount) in &summary.protocols {
        line(&name_of(version, protocol), of(amount));
    }
    sizes(&mut out, summary);
    addresses(&mut out, options, table);
    out
}

/// The distribution of sizes as figure 4.3 shows it: of whole Ethernet frames.
fn sizes(out: &mut String, summary: &Summary) {
    let frame = |length: u32| length + ETHERNET_LEN as u32;
    let share = |packets: u64| 100.0 * packets as f64 / summary.all.packets.max(1) as f64;
    let _ = writeln!(out, "\n{:>17}  {:>10}  {:>6}", "frame size", "packets", "share");
    let mut from = 0;
    for to in SIZES.into_iter().chain([u32::MAX]) {
        let packets: u64 =
            summary.lengths.iter().filter(|(length, _)| (from..to).contains(&frame(**length))).map(|(_, n)| n).sum();
        if packets > 0 {
            let name = if to == u32::MAX { format!("{from} B and more") } else { format!("{from} to {} B", to - 1) };
            let _ = writeln!(out, "{name:>17}  {:>10}  {:>5.1} %", count(packets), share(packets));
        }
        from = to;
    }
    let mut common: Vec<_> = summary.lengths.iter().collect();
    common.sort_by_key(|&(length, packets)| (std::cmp::Reverse(packets), length));
    let common: Vec<_> = common
        .into_iter()
        .take(COMMON)
        .map(|(length, packets)| format!("{} B {:.1} %", frame(*length), share(*packets)))
        .collect();
    let _ = writeln!(out, "most common: {}", common.join(", "));
}

fn addresses(out: &mut String, options: &Info, table: &AddressTable) {
    let total = table.addresses().count();
    let _ = writeln!(out, "\n{total} addresses, in the order of first sight:");
    for (address, is_ue, number) in table.addresses().take(options.addresses) {
        let _ = writeln!(out, "{:>8}  {address}", format!("{}{number}", if is_ue { "UE " } else { "PDN " }));
    }
    if total > options.addresses {
        let _ = writeln!(out, "          … and {} more (--addresses)", total - options.addresses);
    }
}

fn name_of(version: u8, number: u8) -> String {
    let name = match number {
        protocol::TCP => "TCP",
        protocol::UDP => "UDP",
        protocol::ICMP | protocol::ICMPV6 => "ICMP",
        protocol::SCTP => "SCTP",
        protocol::ESP => "ESP",
        other => return format!("IPv{version}, {other}"),
    };
    format!("{name}/IPv{version}")
}
