//! `narrows trace scale`: a capture with repetitions and instances of another.

#![expect(clippy::print_stdout, reason = "the command line speaks here")]

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use engine::{Random, Time};
use measure::format::{count, duration};
use serde_json::json;
use traffic::replay::{Direction, Instances, Item, Network, Replay, ReplayConfig};
use wire::frame::Ethernet;
use wire::pcapng::Writer;
use wire::{ETHERNET_LEN, ethertype};

use super::read::{Failure, read};
use crate::args::{Scale, Scaling};
use crate::exit;

/// The frames' addresses, locally administered: who stands behind UEs, and behind the data network.
const UES: [u8; 6] = [2, 0, 0, 0, 0, 1];
const DATA_NETWORK: [u8; 6] = [2, 0, 0, 0, 0, 2];

/// Bytes that are gathered before they are written.
const CHUNK: usize = 1 << 20;

/// `narrows trace scale`
pub(crate) fn scale(options: &Scale) -> u8 {
    scaled(options).map_or_else(Failure::told, |()| exit::DONE)
}

/// How a replay is set up by the options.
pub(super) fn config(scaling: &Scaling, network: Network) -> Result<ReplayConfig, Failure> {
    Ok(ReplayConfig {
        start: Time::ZERO,
        repetitions: scaling.repetitions.get(),
        instances: Instances { over: scaling.over.into(), count: scaling.instances.get() },
        spacing: scaling.spacing().map_err(Failure::input)?,
        stateful: None,
        network,
    })
}

fn scaled(options: &Scale) -> Result<(), Failure> {
    let (capture, table) = read(&options.file, &options.selection)?;
    let ues = u64::from(table.ues()) * u64::from(options.scaling.instances.get());
    let room = u32::MAX - options.ue_start.to_bits();
    let ues = u32::try_from(ues).ok().filter(|ues| *ues <= room).ok_or_else(|| {
        Failure::input(format!("{ues} UEs from {} on are more than there are addresses", options.ue_start))
    })?;
    let network = Network { ues: ues.max(1), pdn_v4: Some(options.pdn_start), pdn_v6: Some(options.pdn_start6) };
    let config = config(&options.scaling, network)?;
    let begins = capture.trace.start_unix_nanos();
    let random = Random::stream(options.scaling.seed, "replay");
    let replay = Replay::new(Arc::new(capture.trace), Arc::new(table), &config, random)?;
    let (packets, last) = write(options, replay, begins)
        .map_err(|error| Failure { status: exit::FAILED, what: format!("{}: {error}", options.out.display()) })?;
    let lasts = last.since(Time::ZERO).as_secs_f64();
    if options.json {
        println!("{}", json!({"file": options.out, "packets": packets, "span_s": lasts}));
    } else {
        println!("{}: {} packets in {}", options.out.display(), count(packets), duration(lasts));
    }
    Ok(())
}

/// Writes all packets; how many, and when the last one is.
fn write(options: &Scale, mut replay: Replay, begins: u64) -> io::Result<(u64, Time)> {
    let mut file = BufWriter::new(File::create(&options.out)?);
    let mut out = Vec::with_capacity(2 * CHUNK);
    let scaling = &options.scaling;
    let comment = format!(
        "{} instances, {} repetitions, {:?}, seed {}",
        scaling.instances, scaling.repetitions, scaling.spacing, scaling.seed
    );
    let mut writer = Writer::start(&mut out, concat!("narrows ", env!("CARGO_PKG_VERSION")), &comment);
    let snap = options.snap_length.unwrap_or(0);
    let interface = writer.interface(&mut out, "scaled", snap);
    let mut packet = vec![0; 1 << 17];
    let (mut frame, mut packets, mut last) = (Vec::new(), 0, Time::ZERO);
    while let Some(item) = replay.next(Time::MAX) {
        let (source, destination, ethernet) = ends(options, &item);
        let written = replay.trace().write(item.index as usize, source, destination, None, &mut packet);
        let length = written.map_err(io::Error::other)?;
        frame.clear();
        ethernet.write(&mut frame, if source.is_ipv4() { ethertype::IPV4 } else { ethertype::IPV6 });
        frame.extend_from_slice(&packet[..length]);
        let kept = if snap == 0 { frame.len() } else { frame.len().min(snap as usize) };
        let at = begins.saturating_add(item.due.as_nanos());
        writer.packet(&mut out, interface, at, (ETHERNET_LEN + length) as u32, &frame[..kept], "");
        (packets, last) = (packets + 1, item.due);
        if out.len() >= CHUNK {
            file.write_all(&out)?;
            out.clear();
        }
    }
    file.write_all(&out)?;
    file.flush()?;
    Ok((packets, last))
}

fn ends(options: &Scale, item: &Item) -> (IpAddr, IpAddr, Ethernet) {
    let ue = if item.pdn.is_ipv4() {
        IpAddr::V4(Ipv4Addr::from_bits(options.ue_start.to_bits() + item.ue))
    } else {
        IpAddr::V6(Ipv6Addr::from_bits(options.ue_start6.to_bits().wrapping_add(u128::from(item.ue))))
    };
    match item.direction {
        Direction::Uplink => (ue, item.pdn, Ethernet { destination: DATA_NETWORK, source: UES }),
        Direction::Downlink => (item.pdn, ue, Ethernet { destination: UES, source: DATA_NETWORK }),
    }
}
