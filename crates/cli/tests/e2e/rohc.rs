//! `narrows rohc`: records in, records out.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use crate::common::{Place, narrows};

/// An answer takes no longer, on a machine with much else to do.
const LIMIT: Duration = Duration::from_secs(60);

type Record = (u8, Vec<u8>);

/// A running end of a channel.
struct End {
    child: Child,
    input: Option<ChildStdin>,
    records: Receiver<Record>,
}

fn record(kind: u8, body: &[u8]) -> Vec<u8> {
    [&(body.len() as u16).to_be_bytes()[..], &[kind], body].concat()
}

impl End {
    fn new(place: &Place, arguments: &[&str]) -> Self {
        let mut command = narrows(place, [&["rohc"], arguments].concat());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut output = child.stdout.take().unwrap();
        let (sender, records) = mpsc::channel();
        thread::spawn(move || {
            let mut head = [0; 3];
            while output.read_exact(&mut head).is_ok() {
                let mut body = vec![0; usize::from(u16::from_be_bytes([head[0], head[1]]))];
                output.read_exact(&mut body).unwrap();
                if sender.send((head[2], body)).is_err() {
                    return;
                }
            }
        });
        Self { input: child.stdin.take(), child, records }
    }

    fn tell(&mut self, octets: &[u8]) {
        let input = self.input.as_mut().unwrap();
        input.write_all(octets).unwrap();
        input.flush().unwrap();
    }

    /// Sends a packet and reads the answer up to its end, which must come though the input stays open.
    fn ask(&mut self, packet: &[u8]) -> Vec<Record> {
        self.tell(&record(b'P', packet));
        let mut answer = Vec::new();
        loop {
            match self.records.recv_timeout(LIMIT).unwrap() {
                (b'.', body) => {
                    assert!(body.is_empty());
                    return answer;
                }
                record => answer.push(record),
            }
        }
    }

    /// Ends the input; gives the exit status and what was said.
    fn end(mut self) -> (Option<i32>, String) {
        drop(self.input.take());
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap().code(), said)
    }
}

/// An IPv6/TCP packet with a timestamp, number `at` of a transfer, and one without payload to nobody.
fn segment(at: u32) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0, 0, 37, 6, 64];
    packet.extend([[0x20; 16], [0x30; 16]].concat());
    packet.extend([0x9c, 0x40, 0, 80]);
    packet.extend((at * 5).to_be_bytes());
    packet.extend([0, 0, 0, 9, 0x80, 0x18, 1, 0, 0, 0, 0, 0, 1, 1, 8, 10]);
    packet.extend((at * 3).to_be_bytes());
    packet.extend([0, 0, 0, 1]);
    packet.extend(b"data\n");
    let sum = |bytes: &[u8]| {
        bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u32::from(*low))).sum::<u32>()
    };
    let total = sum(&packet[8..]) + 6 + 37;
    let folded = (total & 0xffff) + (total >> 16);
    let checksum = !((folded & 0xffff) + (folded >> 16)) as u16;
    packet[56..58].copy_from_slice(&checksum.to_be_bytes());
    packet
}

#[test]
fn packets_go_through_both_ends_and_feedback_comes_back() {
    let place = Place::new();
    for channel in [["-c", "15"], ["-c", "300"]] {
        let mut comp = End::new(&place, &[&["comp", "-p", "0x0006"], &channel[..]].concat());
        let mut decomp = End::new(&place, &[&["decomp", "-p", "0x0006", "-m", "o"], &channel[..]].concat());
        let mut carried = 0;
        let mut last = 0;
        for at in 0..50u32 {
            let time = record(b'T', &(u64::from(at) * 50_000_000).to_be_bytes());
            comp.tell(&time);
            decomp.tell(&time);
            let packet = segment(at);
            let answer = comp.ask(&packet);
            let [(b'P', rohc)] = answer.as_slice() else { panic!("{answer:?}") };
            last = rohc.len();
            // The other direction's feedback in front of every tenth packet.
            let found = [0xf1, at as u8];
            let line = if at % 10 == 5 { [&found, rohc.as_slice()].concat() } else { rohc.clone() };
            let answer = decomp.ask(&line);
            assert_eq!(answer[0], (b'P', packet));
            for (kind, body) in &answer[1..] {
                match kind {
                    b'F' => {
                        carried += 1;
                        comp.tell(&record(b'F', body));
                    }
                    b'R' => assert!(at % 10 == 5 && body == &found),
                    other => panic!("{other}"),
                }
            }
            assert_eq!(answer.iter().any(|(kind, _)| *kind == b'R'), at % 10 == 5);
        }
        assert!(carried > 0);
        assert!(last < 20, "{last}");
        decomp.tell(&record(b'F', &[0xf1, 0]));
        assert_eq!(comp.end(), (Some(0), String::new()));
        assert_eq!(decomp.end(), (Some(0), String::new()));
    }
}

#[test]
fn a_packet_that_is_none_is_an_error_and_not_the_end() {
    let place = Place::new();
    let mut comp = End::new(&place, &["comp"]);
    let answer = comp.ask(b"\x20no IP packet");
    assert!(matches!(answer.as_slice(), [(b'E', why)] if why.starts_with(b"the packet is neither")), "{answer:?}");
    assert!(matches!(comp.ask(&segment(1)).as_slice(), [(b'P', _)]));
    assert_eq!(comp.end().0, Some(0));

    let mut decomp = End::new(&place, &["decomp"]);
    let answer = decomp.ask(&[0x00, 1, 2, 3]);
    assert_eq!(answer[0].0, b'E');
    assert_eq!(answer.iter().filter(|(kind, _)| *kind == b'F').count(), 1, "a context that is not there: {answer:?}");
    let mut quiet = End::new(&place, &["decomp", "-m", "u"]);
    assert!(matches!(quiet.ask(&[0x00, 1, 2, 3]).as_slice(), [(b'E', _)]));
    assert_eq!((decomp.end().0, quiet.end().0), (Some(0), Some(0)));
}

#[test]
fn records_that_make_no_sense_are_bad_input() {
    let place = Place::new();
    let time = |nanos: u64| record(b'T', &nanos.to_be_bytes());
    for (octets, wanted) in [
        (vec![0, 5], "octet 0: the input ends 2 octets into a record that has 3"),
        ([time(1), vec![0, 5, b'P', 1]].concat(), "octet 11: the input ends 4 octets into a record that has 8"),
        (record(b'X', &[]), "octet 0: a record of unknown type 'X': give P, F or T"),
        (record(b'T', &[1]), "octet 0: a T record has 1 octets: give the time as eight"),
        ([time(5), time(4)].concat(), "octet 11: time goes back"),
    ] {
        let mut end = End::new(&place, &["comp"]);
        end.tell(&octets);
        let (code, said) = end.end();
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(wanted), "{said}");
    }
    for arguments in [&["comp", "-p", "0x0005"][..], &["comp", "-c", "16384"], &["decomp", "-m", "r"], &[]] {
        let (code, said) = End::new(&place, arguments).end();
        assert_eq!(code, Some(2), "{said}");
    }
}
