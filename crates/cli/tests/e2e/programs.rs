//! Programs that stand behind a link: this very test binary, asked for one of these by name.
//!
//! They are ignored unless `narrows link` runs them, which they need to reach anybody.

use std::net::{SocketAddr, UdpSocket};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::until;

const PORT: u16 = 4_000;

/// The command that runs `program`.
pub(crate) fn command(program: &str) -> Vec<String> {
    let own = std::env::current_exe().unwrap();
    let name = format!("programs::{program}");
    [own.to_str().unwrap(), "--exact", &name, "--ignored", "--nocapture"].map(str::to_owned).into()
}

/// The same for a shell.
pub(crate) fn shell(program: &str) -> String {
    command(program).iter().map(|part| format!("'{part}'")).collect::<Vec<_>>().join(" ")
}

/// Sends back what comes, until it is ended.
pub(crate) fn echo(socket: &UdpSocket) -> std::io::Result<()> {
    let mut buffer = [0; 64];
    loop {
        let (length, from) = socket.recv_from(&mut buffer)?;
        socket.send_to(&buffer[..length], from)?;
    }
}

/// One round trip of a datagram, or none within two seconds.
pub(crate) fn round_trip(socket: &UdpSocket, to: SocketAddr, number: u64) -> Option<Duration> {
    socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    let sent = Instant::now();
    socket.send_to(&number.to_be_bytes(), to).ok()?;
    let mut buffer = [0; 64];
    loop {
        // An answer to an earlier one is passed over, a refusal is none.
        let (length, _) = socket.recv_from(&mut buffer).ok()?;
        if buffer[..length] == number.to_be_bytes() {
            return Some(sent.elapsed());
        }
    }
}

fn peer() -> SocketAddr {
    let peer = std::env::var("NARROWS_PEER").expect("narrows link names the peer");
    SocketAddr::new(peer.parse().unwrap(), PORT)
}

#[test]
#[ignore = "runs behind a link"]
fn answers() {
    // That it knows its peer is part of what is tested.
    let _ = peer();
    echo(&UdpSocket::bind(("0.0.0.0", PORT)).unwrap()).unwrap();
}

/// Says `trip MICROSECONDS` for each round trip, until it is ended.
#[test]
#[ignore = "runs behind a link"]
fn asks() {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    let mut number = 0;
    until("somebody answers no more", || {
        number += 1;
        if let Some(trip) = round_trip(&socket, peer(), number) {
            println!("\ntrip {}", trip.as_micros());
        }
        false
    });
}

/// Says who it is.
#[test]
#[ignore = "runs behind a link"]
fn looks() {
    println!("\npeer {}", peer().ip());
    let text = std::fs::read_to_string("/proc/self/net/dev").unwrap();
    let names: Vec<&str> = text.lines().filter_map(|line| Some(line.split_once(':')?.0.trim())).collect();
    println!("devices {}", names.join(" "));
    // A program may start others.
    assert!(Command::new("true").status().unwrap().success());
}
