//! PFCP messages: they come back as they were written, tshark reads them as they were meant, and what is wrong is
//! named.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "says what is skipped; helpers of tests may panic too")]

mod common;

use std::io::Write as _;
use std::process::{Command, Stdio};

use common::samples;
use wire::gtpu::{self, ErrorIndication, PduSession, Qfi, TunnelHeader};
use wire::pfcp::message::*;
use wire::pfcp::value::*;
use wire::pfcp::{ApplyActionForm, Cause, Encoding, Fault, Message, NetworkInstanceForm, PfcpError};

const FORMS: [Encoding; 2] = [
    Encoding { apply_action: ApplyActionForm::Two, network_instance: NetworkInstanceForm::Labels },
    Encoding { apply_action: ApplyActionForm::One, network_instance: NetworkInstanceForm::Text },
];

fn written(message: &Message, encoding: Encoding) -> Vec<u8> {
    let mut bytes = vec![];
    message.write(&mut bytes, encoding).unwrap();
    bytes
}

#[test]
fn messages_come_back_as_they_were_written() {
    for (message, _) in samples() {
        for encoding in FORMS {
            let mut bytes = written(&message, encoding);
            assert_eq!(Message::parse(&bytes), Ok(message.clone()));
            let whole = bytes.len();
            // What follows is not part of it, and what is cut off is missed.
            bytes.extend([0xff; 5]);
            assert_eq!(Message::parse(&bytes), Ok(message.clone()));
            for end in 0..whole {
                assert_eq!(Message::parse(&bytes[..end]), Err(PfcpError::Truncated));
            }
        }
    }
}

#[test]
fn what_is_not_known_is_read_over_wherever_it_stands() {
    // A vendor's element, one of a later release, and a second one where there can be one.
    let strangers = [&[0x80, 1, 0, 3, 0, 9, 1][..], &[0x01, 0x90, 0, 0], &[0, 96, 0, 4, 0, 0, 0, 1]].concat();
    let recovery = [&[0, 96, 0, 4][..], &common::RECOVERY.0.to_be_bytes()].concat();
    for elements in [[&strangers[..11], &recovery, &strangers].concat(), [&recovery[..], &strangers].concat()] {
        let mut bytes = vec![0x22, 1, 0, 4 + elements.len() as u8, 0, 0, 7, 0x50];
        bytes.extend(elements);
        let body = HeartbeatRequest { recovery: common::RECOVERY }.into();
        assert_eq!(Message::parse(&bytes), Ok(Message { seid: None, sequence: 7, body }));
    }
}

#[test]
fn an_element_that_grew_is_read_and_one_that_shrank_is_refused() {
    let heartbeat = |value: &[u8]| {
        let mut bytes = vec![0x20, 1, 0, 8 + value.len() as u8, 0, 0, 7, 0, 0, 96, 0, value.len() as u8];
        bytes.extend(value);
        Message::parse(&bytes)
    };
    assert!(heartbeat(&[1, 2, 3, 4, 5]).is_ok());
    let fault = Fault { cause: Cause::InvalidLength, offending: 96 };
    let error = PfcpError::Body { message_type: 1, seid: None, sequence: 7, fault };
    assert_eq!(heartbeat(&[1, 2, 3]), Err(error));
    assert_eq!(error.to_string(), "in Heartbeat Request: Invalid length (68): Recovery Time Stamp (element 96)");
}

#[test]
fn each_fault_has_its_cause_and_element() {
    let fault = |message_type: u8, elements: &[u8]| {
        let seid: &[u8] = if is_about_session(message_type) { &[0, 0, 0, 0, 0, 0, 0, 9] } else { &[] };
        let length = (seid.len() + 4 + elements.len()) as u8;
        let mut bytes = vec![0x20 | u8::from(!seid.is_empty()), message_type, 0, length];
        bytes.extend(seid);
        bytes.extend([0, 0, 7, 0]);
        bytes.extend(elements);
        match Message::parse(&bytes) {
            Err(PfcpError::Body { fault: Fault { cause, offending }, .. }) => (cause, offending),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(fault(1, &[]), (Cause::MandatoryMissing, 96));
    // A node of a kind that there is not, an optional element inside a group that lacks its mandatory one, a group cut off.
    assert_eq!(fault(9, &[0, 60, 0, 1, 7]), (Cause::MandatoryIncorrect, 60));
    assert_eq!(fault(52, &[0, 15, 0, 0]), (Cause::MandatoryMissing, 56));
    assert_eq!(fault(52, &[0, 15, 0, 6, 0, 56, 0, 9, 0, 1]), (Cause::InvalidLength, 56));
    assert_eq!(fault(52, &[0, 15, 0, 9, 0]), (Cause::InvalidLength, 15));
    assert_eq!(fault(52, &[0, 15]), (Cause::InvalidLength, 0));
    // An optional element whose content is wrong is not there.
    let mut bytes = vec![0x21, 52, 0, 12 + 13, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 7, 0];
    bytes.extend([0, 57, 0, 9, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
    let body = SessionModificationRequest::default().into();
    assert_eq!(Message::parse(&bytes), Ok(Message { seid: Some(9), sequence: 7, body }));
}

#[test]
fn headers_that_do_not_fit_are_told_apart() {
    let version = PfcpError::Version { version: 2, message_type: 1, sequence: 7 };
    assert_eq!(Message::parse(&[0x40, 1, 0, 4, 0, 0, 7, 0]), Err(version));
    assert_eq!(Message::parse(&[0x20, 99, 0, 4, 0, 0, 7, 0]), Err(PfcpError::SeidFlag(99)));
    assert_eq!(Message::parse(&[0x20, 40, 0, 4, 0, 0, 7, 0]), Err(PfcpError::MessageType(40)));
    assert_eq!(Message::parse(&[0x20, 54, 0, 4, 0, 0, 7, 0]), Err(PfcpError::SeidFlag(54)));
    assert_eq!(Message::parse(&[0x21, 1, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0]), Err(PfcpError::SeidFlag(1)));
    assert_eq!(Message::parse(&[0x20, 1, 0, 3, 0, 0, 7, 0]), Err(PfcpError::Truncated));
}

#[test]
fn a_message_that_is_too_long_is_not_written() {
    let body = SessionModificationRequest {
        query_urr: vec![wire::pfcp::rules::QueryUrr { id: UrrId(1) }; 6_000],
        ..Default::default()
    };
    let mut bytes = vec![1, 2, 3];
    let message = Message { seid: Some(1), sequence: 1, body: body.into() };
    let error = message.write(&mut bytes, Encoding::default()).unwrap_err();
    assert_eq!((bytes, error.length), (vec![1, 2, 3], 12 + 6_000 * 12));
}

#[test]
fn names_are_labels_or_text() {
    for wrong in ["", ".", "a..b", ".a", "a.", "a\nb", &"x".repeat(64), &["x"; 128].join(".")] {
        assert!(Name::new(wrong).is_err(), "{wrong:?}");
    }
    let read = |bytes: &[u8]| {
        let mut message = vec![0x20, 9, 0, 9 + bytes.len() as u8, 0, 0, 7, 0, 0, 60, 0, 1 + bytes.len() as u8, 2];
        message.extend(bytes);
        match Message::parse(&message) {
            Ok(Message { body: Body::AssociationReleaseRequest(request), .. }) => Some(request.node_id.to_string()),
            _ => None,
        }
    };
    assert_eq!(read(b"\x03upf\x03lab").as_deref(), Some("upf.lab"));
    assert_eq!(read(b"\x03upf\x03lab\x00").as_deref(), Some("upf.lab"));
    assert_eq!(read(b"upf.lab").as_deref(), Some("upf.lab"));
    assert_eq!(read(b"\x03upf\x04lab"), None);
}

#[test]
fn timers_are_rounded_up() {
    let seconds = [0, 2, 3, 62, 63, 1_861, 36_000, 1_116_000, 1_116_001].map(|s| Timer::from_seconds(s).seconds());
    let expected = [Some(0), Some(2), Some(4), Some(62), Some(120), Some(2_400), Some(36_000), Some(1_116_000), None];
    assert_eq!(seconds, expected);
}

/// Datagrams in a capture of the classic format, as raw IPv4 packets. UDP without checksum.
fn capture<'a>(datagrams: impl IntoIterator<Item = (u16, &'a [u8])>) -> Vec<u8> {
    let mut file: Vec<u8> = [0xa1b2_c3d4_u32, 0x0002_0004, 0, 0, 65_535, 101].map(u32::to_le_bytes).concat();
    // Version 2.4 is two numbers of 16 bits.
    file[4..8].copy_from_slice(&[2, 0, 4, 0]);
    for (port, datagram) in datagrams {
        let total = (28 + datagram.len()) as u16;
        let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        packet[2..4].copy_from_slice(&total.to_be_bytes());
        let sum = wire::checksum::checksum(&packet);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        packet.extend([port, port, total - 20, 0].map(u16::to_be_bytes).concat());
        packet.extend(datagram);
        file.extend([0, 0, packet.len() as u32, packet.len() as u32].map(u32::to_le_bytes).concat());
        file.extend(packet);
    }
    file
}

fn tshark(capture: &[u8], arguments: &[&str]) -> Option<String> {
    let mut command = Command::new("tshark");
    command.args(["-r", "-", "-n"]).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            println!("skipped: tshark: {error}");
            return None;
        }
    };
    child.stdin.take().unwrap().write_all(capture).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "tshark: {}", output.status);
    Some(String::from_utf8(output.stdout).unwrap())
}

/// Holds a capture to fields and values for each of its packets, and to being without malformed ones.
fn tshark_finds(capture: &[u8], expected: &[Vec<(&str, &str)>]) {
    let mut fields: Vec<_> = expected.iter().flatten().map(|(field, _)| *field).collect();
    fields.sort_unstable();
    fields.dedup();
    let mut arguments = vec!["-T", "fields", "-E", "occurrence=a", "-E", "aggregator=,"];
    arguments.extend(fields.iter().flat_map(|field| ["-e", field]));
    let Some(told) = tshark(capture, &arguments) else { return };
    assert_eq!(told.lines().count(), expected.len());
    let mut wrong = vec![];
    for (number, (line, expected)) in told.lines().zip(expected).enumerate() {
        let values: Vec<_> = line.split('\t').collect();
        for (field, value) in expected {
            let at = fields.iter().position(|known| known == field).unwrap();
            if values[at] != *value {
                wrong.push(format!("packet {}: {field} is {}, not {value}", number + 1, values[at]));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let wrong = tshark(capture, &["-Y", "_ws.malformed || _ws.expert.severity >= 0x00600000", "-V"]).unwrap();
    assert_eq!(wrong, "");
}

#[test]
fn tshark_reads_every_message_as_it_was_meant() {
    for encoding in FORMS {
        let datagrams: Vec<_> = samples().iter().map(|(message, _)| written(message, encoding)).collect();
        let expected: Vec<_> = samples()
            .into_iter()
            .map(|(message, mut fields)| {
                if encoding.network_instance == NetworkInstanceForm::Text {
                    // Names as text are read as such by whoever expects them, which tshark does not.
                    fields.retain(|(field, _)| !matches!(*field, "pfcp.network_instance" | "pfcp.apn_dnn"));
                }
                fields.extend([("pfcp.version", "1"), ("pfcp.s", if message.seid.is_some() { "1" } else { "0" })]);
                fields
            })
            .collect();
        tshark_finds(&capture(datagrams.iter().map(|datagram| (8805, &datagram[..]))), &expected);
    }
}

#[test]
fn tshark_reads_gtpu_as_it_was_meant() {
    let qfi = Qfi::new(9).unwrap();
    let mut expected = vec![];
    let mut datagrams = vec![];
    let sessions = [
        (None, vec![]),
        (
            Some(PduSession::Uplink { qfi }),
            vec![("gtp.ext_hdr.pdu_ses_con.pdu_type", "1"), ("gtp.ext_hdr.pdu_ses_con.qos_flow_id", "9")],
        ),
        (
            Some(PduSession::Downlink { qfi, reflective: true, paging: Some(5) }),
            vec![
                ("gtp.ext_hdr.pdu_ses_con.pdu_type", "0"),
                ("gtp.ext_hdr.pdu_ses_con.qos_flow_id", "9"),
                ("gtp.ext_hdr.pdu_ses_cont.rqi", "1"),
                ("gtp.ext_hdr.pdu_ses_cont.ppi", "5"),
            ],
        ),
    ];
    let inner = [0x45, 0, 0, 20, 0, 0, 0, 0, 64, 59, 0, 0, 10, 45, 0, 1, 10, 45, 0, 2];
    for (pdu_session, mut fields) in sessions {
        for sequence in [None, Some(0x1234)] {
            let header = TunnelHeader { teid: 0x0a0b_0c0d, sequence, pdu_session };
            let mut datagram = vec![];
            header.append(&mut datagram, inner.len()).unwrap();
            datagram.extend(inner);
            datagrams.push(datagram);
            let mut marker = vec![];
            header.append_end_marker(&mut marker);
            datagrams.push(marker);
            fields.push(("gtp.teid", "0x0a0b0c0d"));
            if sequence.is_some() {
                fields.push(("gtp.seq_number", "0x1234"));
            }
            expected.push([&fields[..], &[("gtp.message", "0xff"), ("ip.dst", "10.0.0.2,10.45.0.2")]].concat());
            expected.push([&fields[..], &[("gtp.message", "0xfe")]].concat());
        }
    }
    let mut other = |write: &dyn Fn(&mut Vec<u8>), fields: &[(&'static str, &'static str)]| {
        let mut datagram = vec![];
        write(&mut datagram);
        datagrams.push(datagram);
        expected.push(fields.to_vec());
    };
    other(&|out| gtpu::echo_request(out, 7), &[("gtp.message", "0x01"), ("gtp.seq_number", "0x0007")]);
    other(&|out| gtpu::echo_response(out, 7), &[("gtp.message", "0x02"), ("gtp.recovery", "0")]);
    other(&|out| gtpu::supported_extension_headers(out, 8), &[("gtp.message", "0x1f")]);
    let about = ErrorIndication { teid: 0x55, peer: [10, 0, 0, 2].into() };
    let fields = [("gtp.message", "0x1a"), ("gtp.teid_data", "0x00000055"), ("gtp.gsn_ipv4", "10.0.0.2")];
    other(&|out| gtpu::error_indication(out, about, 9), &fields);
    tshark_finds(&capture(datagrams.iter().map(|datagram| (2152, &datagram[..]))), &expected);
}
