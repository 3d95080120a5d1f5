//! Lines that carry characters: pseudo-terminals, devices that go and come, connections.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic too")]

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::{ExitId, Graph, Size, Span};
use link::characters::{Framing, Pace, Uart};
use link::{CharacterLine, LineConfig};
use netio::clock::Epoch;
use netio::executor::{CellHandle, CellSpec, CellWire, Dataplane, Options};
use netio::port::line::{Address, Counted, Line, Pty, Settings, Status};
use netio::port::{WIRE_DOWN, WIRE_FULL, Wire};

const SETTINGS: Settings = Settings { baud: 250_000, framing: Framing::N81 };

/// Characters that come by a line go over another line and back to where they came from.
struct Echo {
    cell: CellHandle,
    status: Arc<Status>,
    _dataplane: Dataplane,
}

impl Echo {
    fn new(line: Line) -> Self {
        let fast = Uart::new(NonZeroU32::new(20_000_000).unwrap());
        let config =
            LineConfig { pace: Pace::Asynchronous(fast), buffer: Size::from_bytes(1 << 20), ..LineConfig::default() };
        let mut graph = Graph::new();
        let echo = graph.add("echo", CharacterLine::new(&config, 1, "echo").unwrap());
        graph.connect_exit((echo, 0), ExitId(0));
        let status = line.status();
        let wire = CellWire { name: "line".into(), wire: Wire::Line(line), entry: (echo, 0), exit: ExitId(0) };
        let dataplane = Dataplane::start(Options::default()).unwrap();
        let late = Span::from_millis(1);
        let cell = dataplane.add(CellSpec { epoch: Epoch::now(), graph, wires: vec![wire], late }).unwrap();
        Self { cell, status, _dataplane: dataplane }
    }

    fn counted(&self) -> Counted {
        self.status.counted()
    }
}

/// Waits until something is so, within half a minute.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < Duration::from_secs(30), "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn path(what: &str) -> PathBuf {
    std::env::temp_dir().join(format!("narrows-{what}-{}", std::process::id()))
}

fn terminal(path: &PathBuf) -> File {
    OpenOptions::new().read(true).write(true).open(path).unwrap()
}

/// Every byte there is, in runs that fit any buffer, comes back as it was.
fn comes_back(line: &mut (impl Read + Write)) {
    for turn in 0..4u8 {
        let sent: Vec<u8> = (0..=255u8).flat_map(|byte| [byte, byte ^ turn, byte.wrapping_mul(turn)]).collect();
        line.write_all(&sent).unwrap();
        let mut received = vec![0; sent.len()];
        line.read_exact(&mut received).unwrap();
        assert_eq!(received, sent);
    }
}

#[test]
fn a_pseudo_terminal_carries_every_byte_whoever_opens_it() {
    let path = path("bytes");
    let echo = Echo::new(Line::pty(Pty::create(&path).unwrap()).unwrap());
    // Its settings stay when the last user closes it.
    for _ in 0..2 {
        comes_back(&mut terminal(&path));
    }
    // What was written is counted after the kernel has handed it on.
    until("all is counted", || echo.counted().written == 2 * 4 * 768);
    let counted = echo.counted();
    assert_eq!((counted.read, counted.refused), (2 * 4 * 768, 0));
    drop(echo);
    assert!(!path.is_symlink(), "the link is still there");
}

#[test]
fn a_link_that_was_left_is_replaced_and_nothing_else() {
    let path = path("left");
    std::os::unix::fs::symlink("/dev/pts/987654", &path).unwrap();
    drop(Pty::create(&path).unwrap());
    fs::write(&path, "precious").unwrap();
    let error = Pty::create(&path).unwrap_err().to_string();
    assert!(error.contains("make the link") && error.contains("exists"), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    fs::remove_file(&path).unwrap();
}

#[test]
fn a_device_that_vanishes_is_opened_again_when_it_is_back() {
    let path = path("vanishing");
    let first = Echo::new(Line::pty(Pty::create(&path).unwrap()).unwrap());
    let device = Line::open(&Address::Device(path.clone()), SETTINGS).unwrap();
    let echo = Echo::new(device);
    assert_eq!(echo.counted(), Counted { up: true, begun: 1, ..Counted::default() });
    drop(first);
    until("the device is lost", || echo.counted().lost == 1);
    assert!(!echo.counted().up);
    // An echo to an echo would go on for ever, so that the other side is plain this time.
    let pty = Pty::create(&path).unwrap();
    until("the device is back", || echo.counted().up);
    assert_eq!((echo.counted().begun, echo.counted().lost), (2, 1));
    drop(pty);
    until("the device is lost again", || echo.counted().lost == 2);
}

#[test]
fn a_full_terminal_refuses_and_blocks_nobody() {
    let path = path("full");
    let echo = Echo::new(Line::pty(Pty::create(&path).unwrap()).unwrap());
    let mut terminal = terminal(&path);
    // Nobody reads what comes back.
    let mut sent = 0;
    until("characters are refused", || {
        terminal.write_all(&[0x55; 512]).unwrap();
        sent += 512;
        echo.counted().refused > 0
    });
    until("all is read", || echo.counted().read == sent);
    until("all is written or refused", || echo.counted().written + echo.counted().refused == sent);
    let report = echo.cell.report().unwrap();
    assert!(report.drops.iter().any(|drop| drop.reason == WIRE_FULL && drop.place == "line"), "{:?}", report.drops);
}

#[test]
fn a_connection_is_made_and_made_again() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("tcp:{}", listener.local_addr().unwrap());
    let echo = Echo::new(Line::open(&address.parse().unwrap(), SETTINGS).unwrap());
    for turn in 1..=2 {
        let (mut socket, _) = listener.accept().unwrap();
        comes_back(&mut socket);
        assert_eq!(echo.counted().begun, turn);
        drop(socket);
        until("the connection is lost", || echo.counted().lost == turn);
    }
}

#[test]
fn a_listener_takes_the_newest_connection() {
    // A port that was free a moment ago.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address: Address = format!("tcp-listen:127.0.0.1:{port}").parse().unwrap();
    let echo = Echo::new(Line::open(&address, SETTINGS).unwrap());
    let mut first = TcpStream::connect(("127.0.0.1", port)).unwrap();
    comes_back(&mut first);
    let mut second = TcpStream::connect(("127.0.0.1", port)).unwrap();
    comes_back(&mut second);
    assert_eq!(first.read(&mut [0]).unwrap(), 0, "the first is closed");
    assert_eq!((echo.counted().begun, echo.counted().lost), (2, 1));
}

#[test]
fn what_is_sent_while_there_is_no_line_is_refused() {
    let path = path("down");
    let pty = Pty::create(&path).unwrap();
    let mut wire = Wire::Line(Line::open(&Address::Device(path.clone()), SETTINGS).unwrap());
    drop(pty);
    let (mut scratch, mut pool) = (netio::port::Scratch::new(), engine::Pool::new(1));
    let packets = [engine::Packet::new(vec![1, 2, 3])];
    until("it is noticed", || {
        wire.receive(&mut scratch, &mut pool, &mut Vec::new(), 1).unwrap();
        wire.send(&mut scratch, &packets).refused == Some(WIRE_DOWN)
    });
}

#[test]
fn a_device_that_is_not_there_yet_is_waited_for() {
    let path = path("coming");
    // What a line that was killed leaves.
    std::os::unix::fs::symlink("/dev/pts/987654", &path).unwrap();
    let echo = Echo::new(Line::open(&Address::Device(path.clone()), SETTINGS).unwrap());
    assert_eq!(echo.counted(), Counted::default());
    let pty = Pty::create(&path).unwrap();
    until("the device is opened", || echo.counted().up);
    assert_eq!((echo.counted().begun, echo.counted().lost), (1, 0));
    drop(pty);
}

#[test]
fn a_device_is_for_one_user_at_a_time() {
    let path = path("locked");
    let pty = Pty::create(&path).unwrap();
    let address = Address::Device(path.clone());
    let first = Line::open(&address, SETTINGS).unwrap();
    let error = Line::open(&address, SETTINGS).unwrap_err().to_string();
    assert!(error.contains("another program uses it") && error.contains("end that first"), "{error}");
    drop(first);
    Line::open(&address, SETTINGS).unwrap();
    drop(pty);
}

#[test]
fn what_cannot_be_opened_is_told() {
    // Something that is no terminal.
    let error = Line::open(&Address::Device("/dev/null".into()), SETTINGS).unwrap_err().to_string();
    assert!(error.contains("/dev/null"), "{error}");
}
