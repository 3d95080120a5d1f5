//! `narrows probe`

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the command line speaks here")]

use std::io::{self, IsTerminal};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use engine::Span;
use netio::probe::{Listener, MOST_PAIRS, Measured, Measurement, PORT, ProbeError, measure};
use serde_json::json;
use traffic::pairs::{DISAGREEMENT, Slope};

use crate::args::{PacketPair, Probe, ProbeAction};
use crate::{exit, run};

/// How long a pair's report is waited for: two packets of 1,400 bytes at 300 bit/s take 75 s.
const TIMEOUT: Span = Span::from_secs(90);

/// `narrows probe`
pub(crate) fn probe(options: &Probe) -> u8 {
    let ProbeAction::PacketPair(options) = &options.action;
    let outcome = if options.listen { listen(options) } else { packet_pair(options) };
    match outcome {
        Ok(code) => code,
        Err(Failure::Host(problem)) => {
            eprintln!("narrows: {problem}");
            exit::BAD_INPUT
        }
        Err(Failure::Probe(error)) => {
            eprintln!("narrows: {error}");
            if matches!(error, ProbeError::TooSmall { .. }) { exit::BAD_INPUT } else { exit::FAILED }
        }
    }
}

enum Failure {
    /// What the user gave leads nowhere.
    Host(String),
    Probe(ProbeError),
}

impl From<ProbeError> for Failure {
    fn from(error: ProbeError) -> Self {
        Self::Probe(error)
    }
}

fn listen(options: &PacketPair) -> Result<u8, Failure> {
    let (address, port) = match &options.host {
        Some(host) => resolve(host).map(|address| (Some(address.ip()), address.port()))?,
        None => (None, PORT),
    };
    let mut listener = Listener::bind(address, port)?;
    match listener.address() {
        Ok(address) => eprintln!("narrows: listening at {address} (UDP)"),
        Err(error) => eprintln!("narrows: listening at UDP port {port} ({error})"),
    }
    listener.serve(options.timeout, |from| {
        eprintln!("narrows: {} measures", SocketAddr::new(from.ip().to_canonical(), from.port()));
    })?;
    Ok(exit::DONE)
}

fn packet_pair(options: &PacketPair) -> Result<u8, Failure> {
    let host = options.host.as_deref().unwrap_or_default();
    let target = resolve(host)?;
    if options.sizes.0.len() * usize::from(options.pairs) > MOST_PAIRS {
        return Err(Failure::Host(format!("these are over {MOST_PAIRS} pairs; give fewer --sizes or --pairs")));
    }
    let measurement = Measurement {
        target,
        sizes: options.sizes.0.clone(),
        rounds: options.pairs,
        timeout: options.timeout.unwrap_or(TIMEOUT),
        zeros: options.zeros,
        seed: options.seed.unwrap_or_else(run::draw_seed),
    };
    let attended = io::stderr().is_terminal();
    let measured = measure(&measurement, |done, of| {
        if attended {
            eprint!("\r{done} of {of} pairs{}", if done == of { "\n" } else { "" });
        }
        true
    })?;
    let slope = Slope::fit(&measured.separations);
    if options.json {
        println!("{}", json(target, &measured, slope.as_ref()));
    } else {
        print!("{}", text(target, &measured, slope.as_ref()));
    }
    Ok(if slope.is_some() { exit::DONE } else { exit::FAILED })
}

/// Where `HOST`, `HOST:PORT` or `[IPV6]:PORT` is.
fn resolve(host: &str) -> Result<SocketAddr, Failure> {
    if let Ok(address) = host.parse::<SocketAddr>() {
        return Ok(address);
    }
    if let Ok(address) = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
        return Ok(SocketAddr::new(address, PORT));
    }
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) => {
            let port =
                port.parse::<u16>().map_err(|_| Failure::Host(format!("`{port}` is not a port; write HOST:PORT")))?;
            (name, port)
        }
        None => (host, PORT),
    };
    let unknown = |why: &str| Failure::Host(format!("`{name}` cannot be found{why}; give a name or an address"));
    let mut found = (name, port).to_socket_addrs().map_err(|error| unknown(&format!(": {error}")))?;
    found.next().ok_or_else(|| unknown(""))
}

/// What the reader has to know before the figures are believed.
fn warning(slope: &Slope) -> Option<String> {
    let liars: Vec<String> = slope.sizes.iter().filter(|s| s.disagrees).map(|s| s.size.to_string()).collect();
    (!liars.is_empty()).then(|| {
        let each = if slope.intercept < 0.0 {
            "each packet takes less time than its bytes do: its headers are compressed on the way"
        } else {
            "each packet takes more time than its bytes do: framing, or other traffic, adds to it"
        };
        format!(
            "single sizes ({} B) disagree with the slope by more than {:.0} %, and the slope is the one to believe: {each}",
            liars.join(", "),
            DISAGREEMENT * 100.0
        )
    })
}

fn text(target: SocketAddr, measured: &Measured, slope: Option<&Slope>) -> String {
    let Measured { separations, sent, lost, disordered } = measured;
    let mut out = format!("{target}: {} of {sent} pairs arrived in order", separations.len());
    if lost + disordered > 0 {
        out.push_str(&format!(" ({lost} not heard of, {disordered} out of order)"));
    }
    out.push('\n');
    let Some(slope) = slope else {
        out.push_str("no rate: it takes three pairs of two sizes at least, and the larger to be further apart\n");
        return out;
    };
    out.push_str("\n  size B   pairs   separation ms   alone bit/s\n");
    for size in &slope.sizes {
        let mark = if size.disagrees { "  disagrees" } else { "" };
        out.push_str(&format!("{:8}{:8}{:16.3}{:14.0}{mark}\n", size.size, size.pairs, size.apart * 1e3, size.rate));
    }
    let high = slope.high().map_or("no upper bound".into(), |high| format!("{high:.0}"));
    out.push_str(&format!(
        "\nrate {:.0} bit/s (95 %: {:.0} to {high}), {:.4} ± {:.4} ms a byte; {:+.3} ms a packet\n",
        slope.rate(),
        slope.low(),
        slope.seconds_per_byte * 1e3,
        slope.margin * 1e3,
        slope.intercept * 1e3,
    ));
    if let Some(warning) = warning(slope) {
        out.push_str(&format!("warning: {warning}\n"));
    }
    out
}

fn json(target: SocketAddr, measured: &Measured, slope: Option<&Slope>) -> serde_json::Value {
    let sizes = slope.map(|slope| {
        let size = |size: &traffic::pairs::SizeEstimate| {
            json!({
                "size_bytes": size.size,
                "pairs": size.pairs,
                "separation_s": size.apart,
                "rate_bit_s": size.rate,
                "disagrees": size.disagrees,
            })
        };
        slope.sizes.iter().map(size).collect::<Vec<_>>()
    });
    json!({
        "event": "packet-pair",
        "target": target.to_string(),
        "pairs_sent": measured.sent,
        "pairs": measured.separations.len(),
        "pairs_lost": measured.lost,
        "pairs_disordered": measured.disordered,
        "rate_bit_s": slope.map(Slope::rate),
        "rate_low_bit_s": slope.map(Slope::low),
        "rate_high_bit_s": slope.and_then(Slope::high),
        "slope_s_per_byte": slope.map(|slope| slope.seconds_per_byte),
        "slope_margin_s_per_byte": slope.map(|slope| slope.margin),
        "intercept_s": slope.map(|slope| slope.intercept),
        "sizes": sizes,
        "warning": slope.and_then(warning),
    })
}
