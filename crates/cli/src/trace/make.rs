//! `narrows trace make`: a capture of packets that follow a model.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the command line speaks here")]

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use engine::{Random, Time};
use measure::format::{count, duration};
use serde_json::json;
use traffic::models::{Arrivals, Model, ModelError, Noise, OnOff, PacketSizes};
use wire::Udp;
use wire::frame::{self, Ethernet, IpHeader};
use wire::pcapng::Writer;

use crate::args::{Make, MakeModel};
use crate::exit;
use crate::run::draw_seed;

/// When a made trace begins: 2000-01-01, so that the same seed gives the same file.
const BEGINS_UNIX_NANOS: u64 = 946_684_800_000_000_000;

/// Ports of the packets: one that is free, and discard.
const PORTS: (u16, u16) = (40_000, 9);

/// The frames' addresses, locally administered.
const ETHERNET: Ethernet = Ethernet { destination: [2, 0, 0, 0, 0, 2], source: [2, 0, 0, 0, 0, 1] };

/// Packets of a trace at most: more than that is a slip of the pen, and fills a disk.
const MOST_PACKETS: f64 = 1e8;

/// Bytes that are gathered before they are written.
const CHUNK: usize = 1 << 20;

/// `narrows trace make`
pub(crate) fn make(options: &Make) -> u8 {
    let (model, sizes, ip) = match checked(options) {
        Ok(checked) => checked,
        Err(why) => {
            eprintln!("narrows: {why}");
            return exit::BAD_INPUT;
        }
    };
    let seed = options.seed.unwrap_or_else(draw_seed);
    match write(options, &model, &sizes, &ip, seed) {
        Ok(made) => {
            tell(options, &made, seed);
            exit::DONE
        }
        Err(error) => {
            eprintln!("narrows: {}: {error}", options.out.display());
            exit::FAILED
        }
    }
}

/// What the options come to, or what is wrong with them.
fn checked(options: &Make) -> Result<(Model, PacketSizes, IpHeader), String> {
    let model = model(options).map_err(|error| error.to_string())?;
    let expected = model.expected(options.duration);
    if expected < 1.0 {
        return Err(format!(
            "{} for {} gives no packets; give a higher --rate or a longer --duration",
            options.rate, options.duration
        ));
    }
    if expected > MOST_PACKETS {
        return Err(format!(
            "{} for {} gives some {} packets, more than {}; give a lower --rate or a shorter --duration",
            options.rate,
            options.duration,
            count(expected as u64),
            count(MOST_PACKETS as u64)
        ));
    }
    let (from, to) = options.size;
    let sizes = PacketSizes::uniform(from, to).map_err(|error| error.to_string())?;
    let ip = IpHeader::between(options.source, options.destination, 0).ok_or_else(|| {
        format!("--source {} and --destination {} are not of one IP version", options.source, options.destination)
    })?;
    Ok((model, sizes, ip))
}

fn model(options: &Make) -> Result<Model, ModelError> {
    let rate = options.rate;
    Ok(match options.model {
        MakeModel::Steady => Model::Steady { rate },
        MakeModel::Poisson => Model::Poisson { rate },
        MakeModel::Fgn => {
            let deviation = options.variation * rate.expected(options.slot);
            Model::FractionalGaussianNoise(Noise::new(rate, deviation, options.hurst, options.slot)?)
        }
        MakeModel::Pareto => {
            // H = (3 - α)/2 (Willinger et al. 1997).
            let shape = 3.0 - 2.0 * options.hurst.value();
            Model::ParetoOnOff(OnOff::new(rate, options.sources, options.on, options.off, shape)?)
        }
    })
}

/// A trace that was written.
struct Made {
    packets: u64,
    packet_bytes: u64,
    file_bytes: u64,
}

fn write(options: &Make, model: &Model, sizes: &PacketSizes, ip: &IpHeader, seed: u64) -> io::Result<Made> {
    let mut file = BufWriter::new(File::create(&options.out)?);
    let snap = options.snap_length.unwrap_or(0);
    let mut out = Vec::with_capacity(2 * CHUNK);
    let comment = format!("made with --seed {seed}: {model:?}");
    let mut writer = Writer::start(&mut out, concat!("narrows ", env!("CARGO_PKG_VERSION")), &comment);
    let interface = writer.interface(&mut out, "made", snap);
    let payload = vec![0; usize::from(u16::MAX)];
    let headers = match ip {
        IpHeader::V4(_) => 28,
        IpHeader::V6(_) => 48,
    };
    let udp = Udp { source: PORTS.0, destination: PORTS.1 };
    let mut made = Made { packets: 0, packet_bytes: 0, file_bytes: 0 };
    let mut random = Random::stream(seed, "sizes");
    let mut bytes = Vec::new();
    let end = Time::ZERO + options.duration;
    let times = Arrivals::new(model, Time::ZERO, options.duration, Random::stream(seed, "arrivals"));
    for time in times.take_while(|time| *time < end) {
        let size = sizes.draw(&mut random);
        let payload = &payload[..size as usize - headers];
        frame::udp(&mut bytes, &ETHERNET, ip, udp, payload).map_err(io::Error::other)?;
        let kept = if snap == 0 { bytes.len() } else { bytes.len().min(snap as usize) };
        let at = BEGINS_UNIX_NANOS + time.as_nanos();
        writer.packet(&mut out, interface, at, bytes.len() as u32, &bytes[..kept], "");
        made.packets += 1;
        made.packet_bytes += u64::from(size);
        if out.len() >= CHUNK {
            made.file_bytes += flush(&mut file, &mut out)?;
        }
    }
    made.file_bytes += flush(&mut file, &mut out)?;
    file.flush()?;
    Ok(made)
}

fn flush(file: &mut impl Write, out: &mut Vec<u8>) -> io::Result<u64> {
    file.write_all(out)?;
    let length = out.len() as u64;
    out.clear();
    Ok(length)
}

fn tell(options: &Make, made: &Made, seed: u64) {
    let path: &Path = &options.out;
    if options.json {
        let record = json!({
            "file": path, "seed": seed, "packets": made.packets, "ip_bytes": made.packet_bytes,
            "file_bytes": made.file_bytes, "duration_s": options.duration.as_secs_f64(),
        });
        println!("{record}");
    } else {
        println!(
            "{}: {} packets in {}, {} B of IP, seed {seed}",
            path.display(),
            count(made.packets),
            duration(options.duration.as_secs_f64()),
            count(made.packet_bytes)
        );
    }
}
