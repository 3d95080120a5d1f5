//! `narrows rohc`: records on standard input and output.

#![expect(clippy::print_stderr, reason = "the command line speaks here")]

use std::fmt;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::time::Duration;

use rohc::{Compressor, CompressorConfig, Decompressor, DecompressorConfig, Mode, Profile, ProfileSet};

use crate::args::{Rohc, RohcEnd, RohcMode, RohcOptions};
use crate::exit;

/// How far apart packets are taken to come before a record says what time it is: voice is sent like that.
const STEP: Duration = Duration::from_millis(20);

/// Why the command ends early.
#[derive(Debug)]
enum Failure {
    /// What came in is wrong: from which octet on, and how.
    Input { at: u64, what: String },
    /// Standard input or output failed.
    Io(io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input { at, what } => write!(f, "standard input, octet {at}: {what}"),
            Self::Io(error) => write!(f, "standard input or output: {error}"),
        }
    }
}

/// `narrows rohc`
pub(crate) fn rohc(options: &Rohc) -> u8 {
    let input = BufReader::new(io::stdin().lock());
    let output = BufWriter::new(io::stdout().lock());
    let outcome = match &options.end {
        RohcEnd::Comp(options) => converse(input, output, &mut Compressing::new(options)),
        RohcEnd::Decomp(options) => converse(input, output, &mut Decompressing::new(options)),
    };
    match outcome {
        Ok(()) => exit::DONE,
        Err(failure) => {
            eprintln!("narrows: {failure}");
            if matches!(failure, Failure::Input { .. }) { exit::BAD_INPUT } else { exit::FAILED }
        }
    }
}

/// One end of a channel, as the records speak to it.
trait End {
    /// A packet: `out` gets the result, or the answer is why there is none.
    fn packet(&mut self, now: Duration, packet: &[u8], out: &mut Vec<u8>) -> Result<(), String>;

    /// Feedback from the peer.
    fn feedback(&mut self, now: Duration, feedback: &[u8]);

    /// Feedback that the last packet left behind: found in front of it, and to carry back.
    fn left_behind(&mut self, found: &mut Vec<u8>, to_carry: &mut Vec<u8>);
}

/// What headers may grow by at most when they are sent whole (IR), with room to spare.
const GROWTH: usize = 64;

/// The longest packet whose result is sure to fit a record.
const LONGEST: usize = u16::MAX as usize - GROWTH;

struct Compressing(Compressor);

impl Compressing {
    fn new(options: &RohcOptions) -> Self {
        let config = CompressorConfig {
            max_cid: options.max_cid,
            profiles: profiles(options),
            rtp_ports: options.rtp.iter().copied().collect(),
            ..CompressorConfig::default()
        };
        Self(Compressor::new(config))
    }
}

impl End for Compressing {
    fn packet(&mut self, now: Duration, packet: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        // Compressed and then not handed out, it would be a lost packet that the context rests on.
        if packet.len() > LONGEST {
            let have = packet.len();
            return Err(format!("the packet has {have} octets: up to {LONGEST} have results that fit a record"));
        }
        self.0.compress(now, packet, out).map(drop).map_err(|error| error.to_string())
    }

    fn feedback(&mut self, now: Duration, feedback: &[u8]) {
        // Feedback of no use changes nothing, and records have no answer for it.
        let _ = self.0.feedback(now, feedback);
    }

    fn left_behind(&mut self, _: &mut Vec<u8>, _: &mut Vec<u8>) {}
}

struct Decompressing(Decompressor);

impl Decompressing {
    fn new(options: &RohcOptions) -> Self {
        let mode = match options.mode {
            RohcMode::U => Mode::Unidirectional,
            RohcMode::O => Mode::Optimistic,
        };
        let config = DecompressorConfig {
            max_cid: options.max_cid,
            profiles: profiles(options),
            mode,
            mrru: options.mrru,
            ..DecompressorConfig::default()
        };
        Self(Decompressor::new(config))
    }
}

impl End for Decompressing {
    fn packet(&mut self, now: Duration, packet: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        self.0.decompress(now, packet, out).map(drop).map_err(|error| error.to_string())
    }

    /// Feedback is between the peer and the local compressor.
    fn feedback(&mut self, _: Duration, _: &[u8]) {}

    fn left_behind(&mut self, found: &mut Vec<u8>, to_carry: &mut Vec<u8>) {
        found.extend_from_slice(self.0.piggybacked());
        self.0.take_feedback(to_carry);
    }
}

/// None given means all.
fn profiles(options: &RohcOptions) -> ProfileSet {
    let given: &[Profile] = if options.profiles.is_empty() { &Profile::ALL } else { &options.profiles };
    given.iter().copied().collect()
}

/// Reads records until the input ends between two of them, and answers each packet.
fn converse(mut input: impl Read, mut output: impl Write, end: &mut impl End) -> Result<(), Failure> {
    let (mut at, mut now, mut is_told) = (0u64, Duration::ZERO, false);
    let mut body = Vec::new();
    let [mut out, mut found, mut to_carry] = [const { Vec::new() }; 3];
    while let Some(kind) = read(&mut input, &mut body, at)? {
        match kind {
            b'P' => {
                for buffer in [&mut out, &mut found, &mut to_carry] {
                    buffer.clear();
                }
                let result = end.packet(now, &body, &mut out).and_then(|()| fit(out.len()));
                match result {
                    Ok(()) => write(&mut output, b'P', &out)?,
                    Err(why) => write(&mut output, b'E', why.as_bytes())?,
                }
                end.left_behind(&mut found, &mut to_carry);
                for (kind, feedback) in [(b'R', &found), (b'F', &to_carry)] {
                    if !feedback.is_empty() {
                        write(&mut output, kind, feedback)?;
                    }
                }
                write(&mut output, b'.', &[])?;
                output.flush()?;
                if !is_told {
                    now += STEP;
                }
            }
            b'F' => end.feedback(now, &body),
            b'T' => {
                let nanos = body.as_slice().try_into().map(u64::from_be_bytes).map_err(|_| Failure::Input {
                    at,
                    what: format!("a T record has {} octets: give the time as eight, big endian", body.len()),
                })?;
                let then = Duration::from_nanos(nanos);
                if is_told && then < now {
                    let what = format!("time goes back from {now:?} to {then:?}: give times that never decrease");
                    return Err(Failure::Input { at, what });
                }
                (now, is_told) = (then, true);
            }
            other => {
                let what = format!("a record of unknown type {:?}: give P, F or T", char::from(other));
                return Err(Failure::Input { at, what });
            }
        }
        at += 3 + body.len() as u64;
    }
    Ok(())
}

/// A record's length has two octets; an IPv6 packet can have 40 more than they say.
fn fit(length: usize) -> Result<(), String> {
    if length <= usize::from(u16::MAX) {
        Ok(())
    } else {
        Err(format!("the result has {length} octets, more than a record can have"))
    }
}

/// Reads a record into `body` and gives its type; none at the end of the input.
fn read(input: &mut impl Read, body: &mut Vec<u8>, at: u64) -> Result<Option<u8>, Failure> {
    let mut head = [0; 3];
    let cut = |have: usize, want: usize| Failure::Input {
        at,
        what: format!("the input ends {have} octets into a record that has {want}: end it behind a whole record"),
    };
    match fill(input, &mut head)? {
        0 => return Ok(None),
        3 => {}
        have => return Err(cut(have, 3)),
    }
    let length = usize::from(u16::from_be_bytes([head[0], head[1]]));
    body.resize(length, 0);
    match fill(input, body)? {
        have if have < length => Err(cut(3 + have, 3 + length)),
        _ => Ok(Some(head[2])),
    }
}

/// Fills `buffer` as far as the input goes.
fn fill(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut have = 0;
    while have < buffer.len() {
        match input.read(&mut buffer[have..]) {
            Ok(0) => break,
            Ok(more) => have += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(have)
}

fn write(output: &mut impl Write, kind: u8, body: &[u8]) -> io::Result<()> {
    let length = u16::try_from(body.len()).map_err(|_| io::Error::other("a record longer than records can be"))?;
    output.write_all(&length.to_be_bytes())?;
    output.write_all(&[kind])?;
    output.write_all(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> RohcOptions {
        RohcOptions { profiles: Vec::new(), max_cid: 15, mode: RohcMode::O, rtp: vec![5004], mrru: 0 }
    }

    fn record(kind: u8, body: &[u8]) -> Vec<u8> {
        [&(body.len() as u16).to_be_bytes()[..], &[kind], body].concat()
    }

    /// An IPv6 packet of a protocol that has no profile of its own, with this many octets in all.
    fn packet(length: usize) -> Vec<u8> {
        let mut packet = vec![0x60, 0, 0, 0, 0, 0, 132, 64];
        packet[4..6].copy_from_slice(&((length - 40) as u16).to_be_bytes());
        packet.resize(length, 7);
        packet
    }

    fn answers(packets: &[Vec<u8>]) -> Vec<u8> {
        let input: Vec<u8> = packets.iter().flat_map(|packet| record(b'P', packet)).collect();
        let mut output = Vec::new();
        converse(input.as_slice(), &mut output, &mut Compressing::new(&options())).unwrap();
        output
    }

    #[test]
    fn a_packet_too_long_for_a_record_leaves_the_compressor_alone() {
        let short = [packet(100), packet(100)];
        let alone = answers(&short);
        for length in [LONGEST + 1, usize::from(u16::MAX)] {
            let both = answers(&[&[packet(length)], &short[..]].concat());
            assert_eq!(both[2], b'E');
            assert!(both.ends_with(&alone));
        }
        let longest = answers(&[packet(LONGEST)]);
        assert_eq!(longest[2], b'P');
    }
}
