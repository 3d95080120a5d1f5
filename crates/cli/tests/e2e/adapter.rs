//! `narrows adapter` and `narrows line`: two adapters over a paced pseudo-terminal, with the kernels' own
//! stacks on both LANs.

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use netio::site::Namespace;
use serde_json::Value;
use socket2::{Domain, Protocol, Socket, Type};

use crate::common::{Place, Started, can_isolate, narrows, needs, needs_root, run, turn_beside, until};
use crate::programs::{echo, round_trip};

/// A LAN of one host, and the box on it that runs the adapter.
struct Side {
    host: Namespace,
    gateway: Namespace,
    address: Ipv6Addr,
}

impl Side {
    fn new(number: u16) -> Self {
        let (host, gateway) = (Namespace::new().unwrap(), Namespace::new().unwrap());
        let address = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, number);
        host.configure(|net| {
            net.up("lo")?;
            net.veth("eth0", &gateway, "lan0")?;
            net.ipv6("eth0", true)?;
            net.address("eth0", IpAddr::V6(address), 64)?;
            net.up("eth0")
        })
        .unwrap();
        gateway
            .configure(|net| {
                net.ipv6("lan0", false)?;
                net.up("lan0")
            })
            .unwrap();
        Self { host, gateway, address }
    }

    fn at(&self, port: u16) -> SocketAddr {
        SocketAddr::new(IpAddr::V6(self.address), port)
    }

    fn udp(&self, port: u16) -> UdpSocket {
        self.host.run(|| UdpSocket::bind(self.at(port)).unwrap()).unwrap()
    }

    fn adapter(&self, place: &Place, line: &Path, options: &[&str]) -> Started {
        let mut command = narrows(place, ["adapter", "--lan", "lan0", "--json", "--stats", "200ms", "--line"]);
        command.arg(line).args(options);
        self.gateway.run(|| Started::new(&mut command)).unwrap()
    }
}

/// Two LANs, two terminals with a line between them, and whatever adapters there are.
struct Trial {
    place: Place,
    sides: [Side; 2],
    line: Started,
    name: String,
}

impl Trial {
    fn new(what: &str, options: &[&str]) -> Option<Self> {
        if !can_isolate() || !needs_root() {
            return None;
        }
        let place = Place::new();
        let name = format!("e2e-{what}-{}", std::process::id());
        let mut command = narrows(&place, ["line", "--pty", "a", "--pty", "b", "--name", &name]);
        let mut line = Started::new(command.args(options));
        line.line(|line| line.contains("are joined"));
        Some(Self { place, sides: [Side::new(1), Side::new(2)], line, name })
    }

    fn terminal(&self, side: usize) -> PathBuf {
        self.place.join(["a", "b"][side])
    }

    fn adapter(&self, side: usize, options: &[&str]) -> Started {
        self.sides[side].adapter(&self.place, &self.terminal(side), options)
    }

    /// Both adapters, once they know each other.
    fn adapters(&self, options: &[&str]) -> [Started; 2] {
        let mut adapters = [0, 1].map(|side| self.adapter(side, options));
        adapters.iter_mut().for_each(is_up);
        adapters
    }

    fn set(&self, changes: &[&str]) {
        let said = run(narrows(&self.place, ["line", "set", &self.name]).args(changes));
        assert_eq!(said.code(), Some(0), "{said:?}");
    }

    /// Datagrams from the first host are answered by the second: so many, of which the first may be
    /// tried again and again.
    fn is_joined(&self, number: u64) {
        let there = self.sides[1].at(4_000);
        let answering = self.sides[1].udp(4_000);
        let asking = self.sides[0].udp(0);
        let stop = answering.try_clone().unwrap();
        let answers = thread::spawn(move || echo(&answering));
        until("a datagram comes back", || round_trip(&asking, there, 0).is_some());
        for number in 1..=number {
            assert!(round_trip(&asking, there, number).is_some(), "datagram {number} is lost");
        }
        stop.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        // A last one wakes it, and then it waits no longer.
        let _ = asking.send_to(&[0], there);
        assert!(answers.join().unwrap().is_err());
    }

    /// Takes the line down; its account.
    fn end(self) -> String {
        self.line.signal("INT", false);
        let said = self.line.end();
        assert_eq!(said.code(), Some(0), "{said:?}");
        said.err
    }
}

fn session(line: &str) -> Option<Value> {
    let account: Value = serde_json::from_str(line).ok()?;
    Some(account.get("session")?.clone())
}

fn is_up(adapter: &mut Started) {
    adapter.line(|line| session(line).is_some_and(|session| session["up"] == true));
}

/// Waits until an adapter tells that something happened; its words.
fn happens(adapter: &mut Started, what: &str) -> String {
    let told = |line: &str| serde_json::from_str::<Value>(line).unwrap();
    let line = adapter.line(|line| told(line)["event"] == "happened" && told(line)["what"] == what);
    told(&line)["text"].as_str().unwrap().to_owned()
}

/// Ends an adapter; its last account.
fn ended(adapter: Started, signal: &str) -> Value {
    adapter.signal(signal, false);
    let said = adapter.end();
    assert_eq!(said.code(), Some(0), "{said:?}");
    assert!(said.err.contains("narrows: seed ") && said.err.contains("session: begun"), "{said:?}");
    let account: Value = serde_json::from_str(said.out.lines().last().unwrap()).unwrap();
    // Every loss has its reason in the words, too.
    let received = said.err.lines().find(|line| line.starts_with("narrows: received: ")).unwrap();
    for (name, words) in [("check", "wrong check sequence"), ("crc", "CRC-32"), ("incomplete", "lost fragment")] {
        assert_eq!(account["receive"][name].as_u64().unwrap() > 0, received.contains(words), "{name}: {said:?}");
    }
    assert!(said.err.contains("narrows: voices: "), "{said:?}");
    account
}

/// An echo request from a host to another, with the kernel's answer; none within the time.
fn ping(from: &Side, to: &Side, length: usize) -> Option<Duration> {
    let socket = from.host.run(|| Socket::new(Domain::IPV6, Type::RAW, Some(Protocol::ICMPV6)).unwrap()).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    // RFC 4443 4.1: type 128, code 0, the checksum is the kernel's affair, identifier, number.
    let mut request = vec![128, 0, 0, 0, 0x4e, 0x61, 0, length as u8];
    request.extend((8..length).map(|at| at as u8));
    let sent = Instant::now();
    socket.send_to(&request, &SocketAddr::new(IpAddr::V6(to.address), 0).into()).ok()?;
    let (mut socket, mut buffer) = (socket, [0; 2048]);
    loop {
        let received = socket.read(&mut buffer).ok()?;
        let reply = &buffer[..received];
        if reply.first() == Some(&129) && reply[4..] == request[4..] {
            return Some(sent.elapsed());
        }
    }
}

#[test]
fn two_adapters_join_two_lans() {
    let Some(trial) = Trial::new("join", &["--baud", "9600"]) else { return };
    let _turn = turn_beside();
    let adapters = trial.adapters(&["--baud", "9600"]);
    let [near, far] = &trial.sides;
    // Neighbours find each other over the line, and echo requests are answered, in one piece or cut.
    until("an echo request is answered", || ping(near, far, 16).is_some());
    for length in [64, 600, 1_400] {
        assert!(ping(near, far, length).is_some(), "ping of {length}");
        assert!(ping(far, near, length).is_some(), "ping of {length} back");
    }
    trial.is_joined(5);
    // A connection both ways, through the kernels' own segmentation.
    let listener = far.host.run(|| TcpListener::bind(far.at(5_000)).unwrap()).unwrap();
    let mut there =
        near.host.run(|| TcpStream::connect_timeout(&far.at(5_000), Duration::from_secs(20)).unwrap()).unwrap();
    let (mut here, _) = listener.accept().unwrap();
    let data: Vec<u8> = (0..4_000u32).map(|at| ((at * 31) >> 3) as u8).collect();
    let sent = data.clone();
    let sender = thread::spawn(move || {
        there.write_all(&sent).unwrap();
        there.shutdown(std::net::Shutdown::Write).unwrap();
        let mut back = Vec::new();
        there.read_to_end(&mut back).unwrap();
        back
    });
    let mut received = Vec::new();
    here.read_to_end(&mut received).unwrap();
    assert!(received == data, "{} bytes arrived", received.len());
    here.write_all(&data[..1_000]).unwrap();
    drop(here);
    assert!(sender.join().unwrap() == data[..1_000]);

    let [first, second] = adapters.map(|adapter| ended(adapter, "INT"));
    for account in [&first, &second] {
        assert_eq!(account["session"]["begun"], 1, "{account}");
        // One may open its device in the middle of a hello.
        assert!(account["receive"]["bad_frames"].as_u64().unwrap() <= 1, "{account}");
        assert_eq!(account["device"]["refused"], 0, "{account}");
        assert_eq!(account["receive"]["crc"], 0, "{account}");
    }
    // What the line carried is what the adapters wrote.
    let written = first["device"]["written"].as_u64().unwrap();
    let account = trial.end();
    assert!(account.contains("none lost") && written > 5_000, "{account} {first}");
}

#[test]
fn an_adapter_that_is_restarted_is_found_again() {
    let Some(trial) = Trial::new("restart", &["--baud", "38400"]) else { return };
    let _turn = turn_beside();
    let [first, second] = trial.adapters(&["--baud", "38400"]);
    trial.is_joined(3);
    second.signal("KILL", false);
    second.end();
    let mut second = trial.adapter(1, &["--baud", "38400"]);
    is_up(&mut second);
    trial.is_joined(3);
    ended(second, "TERM");
    let account = ended(first, "TERM");
    let session = &account["session"];
    let again = session["restarted"].as_u64().unwrap() + session["lost"].as_u64().unwrap();
    assert!(again >= 1 && session["begun"].as_u64().unwrap() >= 2, "{account}");
}

#[test]
fn a_line_that_is_cut_comes_back() {
    let Some(trial) = Trial::new("cut", &["--baud", "38400"]) else { return };
    let _turn = turn_beside();
    let mut adapters = trial.adapters(&["--baud", "38400"]);
    trial.is_joined(3);
    trial.set(&["cut=true"]);
    for adapter in &mut adapters {
        assert!(happens(adapter, "line lost").contains("nothing good heard for 4"));
        adapter.line(|line| session(line).is_some_and(|session| session["up"] == false));
    }
    trial.set(&["cut=false"]);
    adapters.iter_mut().for_each(is_up);
    trial.is_joined(3);
    for mut adapter in adapters {
        // The first of it is on standard error, too, as is the second.
        adapter.signal("INT", false);
        adapter.line(|line| session(line).is_some());
        let said = adapter.end();
        assert!(said.err.matches("narrows: session with the other adapter (instance ").count() >= 2, "{said:?}");
        let account: Value = serde_json::from_str(said.out.lines().last().unwrap()).unwrap();
        assert!(account["session"]["lost"].as_u64().unwrap() >= 1, "{account}");
    }
    assert!(trial.end().contains("line cut"));
}

#[test]
fn an_adapter_waits_for_its_line_and_has_it_for_itself() {
    if !can_isolate() || !needs_root() {
        return;
    }
    let (place, side) = (Place::new(), Side::new(1));
    let mut adapter = side.adapter(&place, Path::new("./a"), &[]);
    assert!(happens(&mut adapter, "waiting for the device").contains("no device at ./a yet"));
    let mut line = Started::new(&mut narrows(&place, ["line", "--pty", "a", "--pty", "b"]));
    line.line(|line| line.contains("are joined"));
    happens(&mut adapter, "device opened");
    let said = side.adapter(&place, Path::new("./a"), &[]).end();
    assert_eq!(said.code(), Some(1), "{said:?}");
    assert!(said.err.contains("cannot open the line ./a: another program uses it"), "{said:?}");
    line.signal("INT", false);
    assert_eq!(line.end().code(), Some(0));
    assert!(happens(&mut adapter, "device lost").contains("./a is gone"));
    let account = ended(adapter, "INT");
    assert_eq!((&account["device"]["begun"], &account["device"]["lost"]), (&1.into(), &1.into()), "{account}");
}

#[test]
fn adapters_of_one_seed_say_why_they_do_not_meet() {
    let Some(trial) = Trial::new("seed", &["--baud", "38400"]) else { return };
    let _turn = turn_beside();
    let mut adapters = [0, 1].map(|side| trial.adapter(side, &["--baud", "38400", "--seed", "7"]));
    for adapter in &mut adapters {
        assert!(happens(adapter, "own hello heard: line looped back").contains("the same --seed"));
    }
    for adapter in adapters {
        let account = ended(adapter, "INT");
        assert!(account["session"]["looped"].as_u64().unwrap() > 0, "{account}");
    }
}

#[test]
fn garbage_on_the_line_at_the_start_and_bit_errors_do_no_harm() {
    let Some(trial) = Trial::new("garbage", &["--baud", "38400", "--errors", "1e-4"]) else { return };
    let _turn = turn_beside();
    // Half a second of it, under way in both directions as the adapters start.
    let garbage: Vec<u8> = (0..2_000u32).map(|at| ((at * at) >> 5) as u8).collect();
    for side in [0, 1] {
        OpenOptions::new().write(true).open(trial.terminal(side)).unwrap().write_all(&garbage).unwrap();
    }
    let adapters = trial.adapters(&["--baud", "38400"]);
    let (asking, answering) = (trial.sides[0].udp(0), trial.sides[1].udp(4_000));
    thread::spawn(move || echo(&answering));
    let there = trial.sides[1].at(4_000);
    // Some are lost; what comes back is what was sent, which `round_trip` looks at.
    let mut back = 0;
    until("twenty datagrams come back", || {
        back += u64::from(round_trip(&asking, there, back).is_some());
        back == 20
    });
    for adapter in adapters {
        ended(adapter, "INT");
    }
    trial.end();
}

#[test]
fn a_recording_replayed_gives_the_same_characters() {
    let Some(trial) = Trial::new("record", &["--baud", "38400"]) else { return };
    let _turn = turn_beside();
    let mut first = trial.adapter(0, &["--baud", "38400", "--record", "recording"]);
    let mut second = trial.adapter(1, &["--baud", "38400"]);
    is_up(&mut first);
    is_up(&mut second);
    let [near, far] = &trial.sides;
    until("an echo request is answered", || ping(near, far, 16).is_some());
    assert!(ping(near, far, 1_200).is_some());
    trial.is_joined(5);
    let account = ended(first, "INT");
    ended(second, "INT");

    // It holds what passed: nobody else reads it, and nothing writes over it.
    let recording = trial.place.join("recording");
    assert_eq!(fs::metadata(&recording).unwrap().permissions().mode() & 0o777, 0o600);
    let length = fs::metadata(&recording).unwrap().len();
    let said = trial.adapter(0, &["--record", "recording"]).end();
    assert_eq!(said.code(), Some(1), "{said:?}");
    assert!(said.err.contains("recording is there already"), "{said:?}");
    assert_eq!(fs::metadata(&recording).unwrap().len(), length);
    let said = trial.sides[0].adapter(&trial.place, Path::new("/dev/null"), &["--record", "none"]).end();
    assert_eq!(said.code(), Some(1), "{said:?}");
    assert!(!trial.place.join("none").exists(), "a recording of nothing");

    let replay = |name: &str| run(&mut narrows(&trial.place, ["adapter", "--replay", name, "--json"]));
    let said = replay("recording");
    assert_eq!(said.code(), Some(0), "{said:?}");
    let told: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(told["difference"], Value::Null);
    assert_eq!(told["characters"], account["device"]["written"], "{account}");

    // One bit of one character on the line; the last record but the end is cut.
    let whole = fs::read(trial.place.join("recording")).unwrap();
    let (mut at, mut spoiled) = (16 + u32::from_le_bytes(whole[12..16].try_into().unwrap()) as usize, whole.clone());
    while whole[at] != 2 {
        at += 20 + u32::from_le_bytes(whole[at + 8..at + 12].try_into().unwrap()) as usize;
    }
    spoiled[at + 20] ^= 1;
    fs::write(trial.place.join("spoiled"), spoiled).unwrap();
    let said = replay("spoiled");
    assert_eq!(said.code(), Some(3), "{said:?}");
    assert!(said.err.contains("the replay differs: character 0 is"), "{said:?}");
    fs::write(trial.place.join("cut"), &whole[..whole.len() - 21]).unwrap();
    let said = replay("cut");
    assert_eq!(said.code(), Some(0), "{said:?}");
    assert!(said.err.contains("not ended properly"), "{said:?}");
    let said = replay("/etc/passwd");
    assert_eq!(said.code(), Some(2), "{said:?}");
    assert!(said.err.contains("no recording of an adapter"), "{said:?}");
}

#[test]
fn adapters_meet_over_tcp_too() {
    let Some(trial) = Trial::new("tcp", &[]) else { return };
    let _turn = turn_beside();
    // The boxes are joined by a network of their own, as two terminal servers would be.
    let [near, far] = &trial.sides;
    near.gateway
        .configure(|net| {
            net.up("lo")?;
            net.veth("wan0", &far.gateway, "wan0")?;
            net.address("wan0", "10.9.0.1".parse().unwrap(), 24)?;
            net.up("wan0")
        })
        .unwrap();
    far.gateway
        .configure(|net| {
            net.address("wan0", "10.9.0.2".parse().unwrap(), 24)?;
            net.up("wan0")
        })
        .unwrap();
    let options = ["--rate", "19200bit/s"];
    let connecting = near.adapter(&trial.place, Path::new("tcp:10.9.0.2:4001"), &options);
    let mut listening = far.adapter(&trial.place, Path::new("tcp-listen:10.9.0.2:4001"), &options);
    let mut adapters = [connecting, {
        is_up(&mut listening);
        listening
    }];
    is_up(&mut adapters[0]);
    trial.is_joined(3);
    for adapter in adapters {
        let account = ended(adapter, "INT");
        assert_eq!(account["device"]["begun"], 1, "{account}");
    }
}

#[test]
fn a_wish_to_end_that_comes_twice_at_once_is_one() {
    // timeout(1) sends its signal to the process and then to its group.
    if !needs("timeout", Command::new("timeout").arg("--version")) {
        return;
    }
    let place = Place::new();
    let mut command = Command::new("timeout");
    command.args(["1", env!("CARGO_BIN_EXE_narrows"), "line", "--pty", "a", "--pty", "b"]).current_dir(place.path());
    let said = run(&mut command);
    assert_eq!(said.code(), Some(124), "{said:?}");
    assert!(said.err.contains("none lost") && said.err.contains("seed"), "{said:?}");
    assert!(!place.join("a").is_symlink());
}

#[test]
fn what_an_adapter_cannot_be_is_told() {
    let place = Place::new();
    let adapter = |options: &[&str]| run(narrows(&place, ["adapter"]).args(options));
    assert_eq!(adapter(&[]).code(), Some(2));
    assert_eq!(adapter(&["--lan", "eth0"]).code(), Some(2));
    let said = adapter(&["--lan", "eth0", "--line", "ttyUSB0"]);
    assert_eq!(said.code(), Some(2));
    assert!(said.err.contains("is no line"), "{said:?}");
    fs::write(place.join("adapter.yaml"), "rate: 9600bit/s\nshedule: gaps\n").unwrap();
    let said = adapter(&["--lan", "eth0", "--line", "/dev/null", "--config", "adapter.yaml"]);
    assert_eq!(said.code(), Some(2));
    assert!(said.err.contains("did you mean `schedule`?") && said.err.contains("adapter.yaml:2:1"), "{said:?}");
    let said = adapter(&["--lan", "eth0", "--line", "/dev/null", "--framing", "7E1"]);
    assert_eq!(said.code(), Some(2));
    assert!(said.err.contains("characters of 7 bits") && said.err.contains("8 data bits"), "{said:?}");
    let said = adapter(&["--lan", "lo", "--line", "/dev/null"]);
    assert_eq!(said.code(), Some(1));
    assert!(said.err.contains("cannot open the line /dev/null"), "{said:?}");
    let said = run(&mut narrows(&place, ["line", "--pty", "a", "--pty", "b", "--errors", "2"]));
    assert_eq!(said.code(), Some(2));
    assert!(said.err.contains("`errors` is 2; it must be 0 to 1"), "{said:?}");
    assert!(!place.join("a").is_symlink());
}
