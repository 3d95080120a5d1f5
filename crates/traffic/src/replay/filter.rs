//! Which packets of a capture are wanted, in the language of tcpdump.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::IpAddr;
use core::ops::RangeInclusive;

use wire::{Headers, Ip, ethertype, protocol};

use super::Prefix;

/// Parentheses and negations within each other.
const DEEPEST: u32 = 32;

/// A filter in a part of pcap-filter(7)'s language, applied to packets from their IP header on:
///
/// - `host ADDRESS`, `net ADDRESS/BITS` (or the first octets of an IPv4 address), `port NUMBER`,
///   `portrange FIRST-LAST`, each perhaps after `src`, `dst`, `src or dst`, `src and dst`, and before that a protocol;
/// - the protocols `ip`, `ip6`, `tcp`, `udp`, `sctp`, `icmp`, `icmp6` by themselves, and `proto NUMBER`, perhaps
///   after `ip` or `ip6`;
/// - `less LENGTH`, `greater LENGTH`: the length on the wire with its link header, itself included;
/// - `and`, `or` (also without a keyword that is repeated: `port 80 or 443`), which bind alike and from left to right,
///   `not`, which binds tighter, and parentheses; `&&`, `||` and `!` mean the same.
///
/// Unlike libpcap's, `tcp` and the like look behind IPv6's extension headers, and addresses and ports are numbers:
/// nothing is looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// In the order of evaluation: operands, then what joins them.
    steps: Vec<Step>,
}

/// Why a filter could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("column {column} of the filter: {what}")]
pub struct FilterError {
    /// Where, in characters from 1.
    pub column: usize,
    /// What is wrong, and what would be right.
    pub what: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Test(Test),
    Not,
    And,
    Or,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    /// At most so long.
    Less(u32),
    /// At least so long.
    Greater(u32),
    Packet {
        kind: Kind,
        side: Side,
        what: What,
    },
}

/// A protocol keyword: the IP version and the protocol it asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Kind {
    v6: Option<bool>,
    protocol: Option<u8>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Side {
    Source,
    Destination,
    #[default]
    Either,
    Both,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    Anything,
    Net(Prefix),
    Ports(RangeInclusive<u16>),
}

/// What an operand is of, so that the next may leave it out.
#[derive(Clone, Copy, Debug)]
enum Noun {
    Host,
    Net,
    Port,
    PortRange,
    Protocol,
}

impl Filter {
    /// Reads a filter.
    ///
    /// # Errors
    ///
    /// Something that is not understood, and where.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        let mut parser =
            Parser { words: words(text), at: 0, end: text.chars().count() + 1, steps: Vec::new(), last: None };
        parser.expression(0)?;
        match parser.words.get(parser.at) {
            None => Ok(Self { steps: parser.steps }),
            Some(word) => {
                Err(word.wrong(format!("`{}` was not expected; join conditions by `and` or `or`", word.text)))
            }
        }
    }

    /// Whether a packet that begins with its IP header matches. `length` is its length on the wire, with the link
    /// header. What is not IP never matches.
    #[must_use]
    pub fn matches(&self, packet: &[u8], length: u32) -> bool {
        let ethertype = match packet.first().map(|first| first >> 4) {
            Some(4) => ethertype::IPV4,
            Some(6) => ethertype::IPV6,
            _ => return false,
        };
        let Some(ip) = Headers::of_network(ethertype, packet).ip else { return false };
        // One bit each: the stack is never deeper than parentheses are, and one for each operand.
        let mut stack = 0u64;
        for step in &self.steps {
            stack = match step {
                Step::Test(test) => (stack << 1) | u64::from(test.holds(&ip, length)),
                Step::Not => stack ^ 1,
                Step::And => (stack >> 1) & (stack | !1),
                Step::Or => (stack >> 1) | (stack & 1),
            };
        }
        stack & 1 == 1
    }
}

impl Test {
    fn holds(&self, ip: &Ip, length: u32) -> bool {
        match self {
            Self::Less(most) => length <= *most,
            Self::Greater(least) => length >= *least,
            Self::Packet { kind, side, what } => {
                kind.v6.is_none_or(|v6| v6 == ip.source.is_ipv6())
                    && kind.protocol.is_none_or(|protocol| protocol == ip.protocol)
                    && match what {
                        What::Anything => true,
                        What::Net(net) => side.holds(net.contains(ip.source), net.contains(ip.destination)),
                        What::Ports(ports) => {
                            matches!(ip.protocol, protocol::TCP | protocol::UDP | protocol::SCTP)
                                && ip.ports.is_some_and(|(source, destination)| {
                                    side.holds(ports.contains(&source), ports.contains(&destination))
                                })
                        }
                    }
            }
        }
    }
}

impl Side {
    const fn holds(self, source: bool, destination: bool) -> bool {
        match self {
            Self::Source => source,
            Self::Destination => destination,
            Self::Either => source || destination,
            Self::Both => source && destination,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Word<'a> {
    text: &'a str,
    column: usize,
}

impl Word<'_> {
    const fn wrong(&self, what: String) -> FilterError {
        FilterError { column: self.column, what }
    }
}

struct Parser<'a> {
    words: Vec<Word<'a>>,
    at: usize,
    /// The column after the last.
    end: usize,
    steps: Vec<Step>,
    /// The keywords of the operand before.
    last: Option<(Kind, Side, Noun)>,
}

impl<'a> Parser<'a> {
    /// Operands joined by `and` and `or`, from left to right.
    fn expression(&mut self, depth: u32) -> Result<(), FilterError> {
        self.operand(depth)?;
        loop {
            let join = match self.peek() {
                Some("and" | "&&") => Step::And,
                Some("or" | "||") => Step::Or,
                _ => return Ok(()),
            };
            self.at += 1;
            self.operand(depth)?;
            self.steps.push(join);
        }
    }

    fn operand(&mut self, depth: u32) -> Result<(), FilterError> {
        let word = self.word("a condition such as `host 10.0.0.1` or `tcp port 80`")?;
        if depth > DEEPEST {
            return Err(word.wrong(format!("more than {DEEPEST} parentheses and negations within each other")));
        }
        match word.text {
            "not" | "!" => {
                self.operand(depth + 1)?;
                self.steps.push(Step::Not);
            }
            "(" => {
                self.expression(depth + 1)?;
                let close = self.word("`)`")?;
                if close.text != ")" {
                    return Err(close.wrong(format!("`{}` where `)` was expected", close.text)));
                }
            }
            _ => {
                self.at -= 1;
                let test = self.test()?;
                self.steps.push(Step::Test(test));
            }
        }
        Ok(())
    }

    /// `[protocol] [src|dst] [host|net|port|portrange|proto] operand`
    fn test(&mut self) -> Result<Test, FilterError> {
        match self.peek() {
            Some("less") => return self.length().map(Test::Less),
            Some("greater") => return self.length().map(Test::Greater),
            _ => {}
        }
        let mut kind = Kind::default();
        let protocol = self.peek().and_then(protocol_named);
        if let Some(named) = protocol {
            kind = named;
            self.at += 1;
        }
        let side = self.side();
        let noun = match self.peek() {
            Some("host") => Some(Noun::Host),
            Some("net") => Some(Noun::Net),
            Some("port") => Some(Noun::Port),
            Some("portrange") => Some(Noun::PortRange),
            Some("proto") => Some(Noun::Protocol),
            _ => None,
        };
        self.at += usize::from(noun.is_some());
        let (kind, side, noun) = match (noun, side, protocol, self.last) {
            (Some(noun), side, ..) => (kind, side.unwrap_or_default(), noun),
            // `src 10.0.0.1` means a host.
            (None, Some(side), ..) => (kind, side, Noun::Host),
            (None, None, Some(_), _) => return Ok(Test::Packet { kind, side: Side::Either, what: What::Anything }),
            // An operand alone repeats the keywords before it.
            (None, None, None, Some(last)) => last,
            (None, None, None, None) => (kind, Side::Either, Noun::Host),
        };
        let word = self.word("what to compare with")?;
        self.last = Some((kind, side, noun));
        let what = match noun {
            Noun::Host => What::Net(host(&word)?),
            Noun::Net => What::Net(net(&word)?),
            Noun::Port => {
                let port = number(&word, "a port")?;
                What::Ports(port..=port)
            }
            Noun::PortRange => What::Ports(range(&word)?),
            Noun::Protocol => {
                let protocol = match protocol_named(word.text) {
                    Some(Kind { protocol: Some(protocol), .. }) => protocol,
                    _ => number(&word, "a protocol")?,
                };
                return Ok(Test::Packet {
                    kind: Kind { protocol: Some(protocol), ..kind },
                    side,
                    what: What::Anything,
                });
            }
        };
        Ok(Test::Packet { kind, side, what })
    }

    fn length(&mut self) -> Result<u32, FilterError> {
        self.at += 1;
        let word = self.word("a length in bytes")?;
        number(&word, "a length in bytes")
    }

    fn side(&mut self) -> Option<Side> {
        let (first, side) = match self.peek()? {
            "src" => ("src", Side::Source),
            "dst" => ("dst", Side::Destination),
            _ => return None,
        };
        self.at += 1;
        let other = if first == "src" { "dst" } else { "src" };
        let rest: Vec<_> = self.words[self.at..].iter().take(2).map(|word| word.text).collect();
        let joined = match rest[..] {
            ["or" | "||", word] if word == other => Side::Either,
            ["and" | "&&", word] if word == other => Side::Both,
            _ => return Some(side),
        };
        // `src A or dst B` is two conditions; `src or dst A` is one.
        self.at += 2;
        Some(joined)
    }

    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.at).map(|word| word.text)
    }

    fn word(&mut self, wanted: &str) -> Result<Word<'a>, FilterError> {
        let word = self.words.get(self.at).copied();
        self.at += 1;
        word.ok_or_else(|| FilterError { column: self.end, what: format!("it ends where {wanted} should follow") })
    }
}

/// The words and signs of a text with their columns.
fn words(text: &str) -> Vec<Word<'_>> {
    let mut words = Vec::new();
    let (mut rest, mut column) = (text, 1);
    while let Some(first) = rest.chars().next() {
        let len = match first {
            _ if first.is_whitespace() => first.len_utf8(),
            '(' | ')' | '!' => 1,
            '&' | '|' => rest.chars().take_while(|&c| c == first).count().min(2),
            _ => rest.find(|c: char| c.is_whitespace() || "()!&|".contains(c)).unwrap_or(rest.len()),
        };
        let (word, after) = rest.split_at(len);
        if !first.is_whitespace() {
            words.push(Word { text: word, column });
        }
        column += word.chars().count();
        rest = after;
    }
    words
}

fn protocol_named(word: &str) -> Option<Kind> {
    let (v6, protocol) = match word {
        "ip" => (Some(false), None),
        "ip6" => (Some(true), None),
        "tcp" => (None, Some(protocol::TCP)),
        "udp" => (None, Some(protocol::UDP)),
        "sctp" => (None, Some(protocol::SCTP)),
        "icmp" => (Some(false), Some(protocol::ICMP)),
        "icmp6" => (Some(true), Some(protocol::ICMPV6)),
        _ => return None,
    };
    Some(Kind { v6, protocol })
}

fn host(word: &Word<'_>) -> Result<Prefix, FilterError> {
    let address: Result<IpAddr, _> = word.text.parse();
    address.ok().and_then(|address| Prefix::new(address, if address.is_ipv4() { 32 } else { 128 })).ok_or_else(|| {
        word.wrong(format!(
            "`{}` is not an IP address or a keyword; known are host, net, port, portrange, proto, src, dst, ip, ip6, tcp, udp, sctp, icmp, icmp6, less, greater, and, or, not",
            word.text
        ))
    })
}

/// As pcap-filter(7) has it: `10.1` is the network of the 16 bits that are given.
fn net(word: &Word<'_>) -> Result<Prefix, FilterError> {
    let (text, octets) = (word.text, word.text.split('.').count());
    let full = if !text.contains(['/', ':']) && octets < 4 {
        format!("{text}{}/{}", ".0".repeat(4 - octets), octets * 8)
    } else {
        text.to_string()
    };
    full.parse().map_err(|_| {
        word.wrong(format!("`{text}` is not a network; write for example `10.0.0.0/8`, `10.1` or `2001:db8::/32`"))
    })
}

fn range(word: &Word<'_>) -> Result<RangeInclusive<u16>, FilterError> {
    let wrong = || word.wrong(format!("`{}` is not a range of ports; write for example `6000-6010`", word.text));
    let (first, last) = word.text.split_once('-').ok_or_else(wrong)?;
    let (first, last) = (first.parse().map_err(|_| wrong())?, last.parse().map_err(|_| wrong())?);
    // The order does not matter to libpcap either.
    Ok(if first <= last { first..=last } else { last..=first })
}

fn number<N: core::str::FromStr>(word: &Word<'_>, what: &str) -> Result<N, FilterError> {
    word.text.parse().map_err(|_| word.wrong(format!("`{}` is not {what}; write its number", word.text)))
}
