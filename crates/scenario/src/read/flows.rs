//! Traffic entries: from keys to flows.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use engine::{Rate, Size, Span};

use crate::plan::{Flow, Path, Ping, Tcp, TcpEngine, Traffic, Udp};
use crate::read::decode::Decoder;
use crate::read::fields::{self, Fields};
use crate::read::keys;
use crate::read::problem::{At, Noted, Notes, Problem};
use crate::read::yaml::{Entry, Node, Value};
use traffic::{PROBE_LEN, SERVICES};

/// How long a write lasts at the rate where nothing is said.
const DEFAULT_WRITE: Span = Span::from_millis(100);
/// Largest write in bytes.
const MOST_WRITE: u64 = 16 << 20;
/// Largest transfer in bytes.
const MOST_TRANSFER: u64 = 1 << 40;
/// Most flows of a cell: each has ports of its own, in blocks of this many.
const MOST_FLOWS: usize = 1_000;

/// iperf3's `MAX_BLOCKSIZE`.
const IPERF3_MOST_WRITE: u64 = 1 << 20;
/// iperf3's `MIN_INTERVAL` and `MAX_INTERVAL`.
const IPERF3_INTERVALS: RangeInclusive<Span> = Span::from_millis(100)..=Span::from_secs(60);
/// iperf3's `MAX_TIME` and `MAX_OMIT_TIME`.
const IPERF3_MOST_TIME: Span = Span::from_secs(86_400);
const IPERF3_MOST_OMIT: Span = Span::from_secs(600);

impl Decoder<'_> {
    /// The traffic of a cell; `whole` is the cell's length with its warm-up.
    pub(crate) fn flows(&self, node: &Node, sites: &[String], path: &Path, whole: Span) -> Result<Vec<Flow>, Noted> {
        let entries = fields::map(self.notes, node, "`traffic`")?;
        if entries.is_empty() {
            let problem = Problem::new(node.at, "there is no traffic");
            return Err(self
                .notes
                .note(problem.remedy("write for example `{lidar: {from: ship, to: shore, service: lidar}}`")));
        }
        if entries.len() > MOST_FLOWS {
            let problem = Problem::new(node.at, format!("there are {} traffic entries", entries.len()));
            return Err(self.notes.note(problem.remedy(format!("a cell has at most {MOST_FLOWS}: leave some away"))));
        }
        let flows: Vec<_> = entries
            .iter()
            .enumerate()
            .map(|(number, entry)| {
                let name = fields::name(self.notes, entry.key_at, &entry.key, "a traffic entry")?;
                self.flow((name, number), &entry.node, sites, path, whole)
            })
            .collect();
        let flows: Vec<Flow> = flows.into_iter().collect::<Result<_, _>>()?;
        self.own_ports(entries, &flows)?;
        Ok(flows)
    }

    /// What iperf3 cannot do is refused: it would end with an error, round, or run for ever.
    /// `measure` is duration, interval and warm-up.
    pub(crate) fn iperf3_limits(
        &self,
        top: &Fields<'_>,
        flows: &[Flow],
        (duration, interval, warmup): (Span, Span, Span),
    ) -> Result<(), Noted> {
        let is_for = |flow: &&Flow| matches!(&flow.traffic, Traffic::Tcp(Tcp { engine: TcpEngine::Iperf3, .. }));
        let Some(flow) = flows.iter().find(is_for) else { return Ok(()) };
        let refuse = |at: Option<At>, what: String, remedy: &str| {
            Err(self.notes.note(Problem::new(at, what).remedy(format!("{remedy}, or use `engine: own`"))))
        };
        let entry = |flow: &Flow| top.get("traffic").and_then(|node| node.entry(&flow.name)).map(|entry| entry.key_at);
        let said = |key| top.get("measure").and_then(|node| node.entry(key)).map(|said| said.node.at);
        let at = |key| said(key).or_else(|| entry(flow));
        let whole = |time: Span| time.as_nanos().is_multiple_of(1_000_000_000);
        if !whole(duration) || duration > IPERF3_MOST_TIME {
            let what = format!("iperf3 cannot measure for {duration}");
            return refuse(at("duration"), what, "choose whole seconds, at most a day");
        }
        if !whole(warmup) || warmup > IPERF3_MOST_OMIT {
            let what = format!("iperf3 cannot leave out {warmup} at the start");
            return refuse(at("warmup"), what, "choose whole seconds, at most 600");
        }
        if !IPERF3_INTERVALS.contains(&interval) {
            return refuse(at("interval"), format!("iperf3 has no intervals of {interval}"), "choose 100 ms to 60 s");
        }
        for flow in flows.iter().filter(is_for) {
            if flow.start > Span::ZERO || flow.stop.is_some() {
                let what = format!("`{}` has a start or a stop, and iperf3 runs for the whole cell", flow.name);
                return refuse(entry(flow), what, "leave both away");
            }
            if let Traffic::Tcp(Tcp { write, .. }) = &flow.traffic
                && write.bytes() > IPERF3_MOST_WRITE
            {
                let what = format!("`{}` writes {} bytes at once, and iperf3 at most 1 MiB", flow.name, write.bytes());
                return refuse(entry(flow), what, "give a smaller `write`");
            }
        }
        Ok(())
    }

    /// A pair that is to be measured must not leave in the warm-up.
    pub(crate) fn pairs_after(&self, top: &Fields<'_>, flows: &[Flow], warmup: Span) -> Result<(), Noted> {
        for flow in flows {
            let Traffic::Pairs(pairs) = &flow.traffic else { continue };
            let first = flow.start + pairs.every;
            if first < warmup {
                let entry = top.get("traffic").and_then(|node| node.entry(&flow.name)).map(|entry| entry.key_at);
                let what =
                    format!("the first pair of `{}` that is measured leaves at {first}, in the warm-up", flow.name);
                return Err(self.notes.note(
                    Problem::new(entry, what)
                        .remedy(format!("start it later, lengthen its `every`, or warm up for at most {first}")),
                ));
            }
        }
        Ok(())
    }

    /// Two flows cannot have one UDP port at a site.
    fn own_ports(&self, entries: &[Entry], flows: &[Flow]) -> Result<(), Noted> {
        let mut taken: BTreeMap<(usize, u16), &str> = BTreeMap::new();
        for (number, (flow, entry)) in flows.iter().zip(entries).enumerate() {
            for port in flow.udp_ports(number) {
                for site in [flow.from, flow.to] {
                    let Some(other) = taken.insert((site, port), &flow.name) else { continue };
                    let what = if other == flow.name {
                        format!("signalling and voice of `{other}` both want UDP port {port}")
                    } else {
                        format!("`{}` and `{other}` both want UDP port {port}", flow.name)
                    };
                    return Err(self
                        .notes
                        .note(Problem::new(entry.key_at, what).remedy("give one of them another `port`")));
                }
            }
        }
        Ok(())
    }

    fn flow(
        &self,
        (name, number): (&str, usize),
        node: &Node,
        sites: &[String],
        path: &Path,
        whole: Span,
    ) -> Result<Flow, Noted> {
        let notes = self.notes;
        let fields = Fields::read(notes, node, &keys::FLOW)?;
        let from = fields.need("from").and_then(|node| self.site(node, sites));
        let to = fields.need("to").and_then(|node| self.site(node, sites));
        let traffic = self.traffic(&fields, path, number, whole);
        let dscp = fields.with("dscp", |notes, node| fields::integer(notes, node, 0..=63));
        let start = fields.with("start", fields::span)?.unwrap_or_default();
        let stop = fields.with("stop", fields::span)?;
        if let Some(node) = fields.get("start").filter(|_| start >= whole) {
            let problem = Problem::new(node.at, format!("`{name}` starts when the cell has ended, after {whole}"));
            return Err(notes.note(problem.remedy("start earlier, or set a longer `measure.duration`")));
        }
        if let Some((node, _)) = fields.get("stop").zip(stop).filter(|(_, stop)| *stop <= start) {
            let problem = Problem::new(node.at, format!("`{name}` stops before it starts"));
            return Err(notes.note(problem.remedy(format!("stop after {start}"))));
        }
        let (from, to) = (from?, to?);
        if let Some(node) = fields.get("to").filter(|_| from == to) {
            let problem = Problem::new(node.at, format!("`{name}` goes from a site to itself"));
            return Err(notes.note(problem.remedy("traffic goes from one site to another")));
        }
        let stop = stop.filter(|stop| *stop < whole);
        let dscp = dscp?.unwrap_or(0) as u8;
        Ok(Flow { name: name.to_owned(), from, to, start, stop, dscp, traffic: traffic? })
    }

    fn traffic(&self, fields: &Fields<'_>, path: &Path, number: usize, whole: Span) -> Result<Traffic, Noted> {
        let notes = self.notes;
        let service = fields.with("service", |notes, node| {
            let choices: Vec<_> = SERVICES.iter().map(|service| (service.name, service.rate)).collect();
            fields::choice(notes, node, "service", &choices)
        })?;
        let kinds = ["tcp", "udp", "ping", "voice", "call", "pairs", "quic", "load"];
        let mut said = kinds.iter().filter_map(|kind| fields.entry(kind));
        let (first, second) = (said.next(), said.next());
        match (service, first, second) {
            (Some(rate), None, _) => self.tcp(None, Some(rate)).map(Traffic::Tcp),
            (rate, Some(entry), None) if entry.key == "tcp" => self.tcp(Some(&entry.node), rate).map(Traffic::Tcp),
            (None, Some(entry), None) if entry.key == "udp" => self.udp(&entry.node, path).map(Traffic::Udp),
            (None, Some(entry), None) if entry.key == "voice" => {
                self.voice(&entry.node, path, number, whole).map(Traffic::Voice)
            }
            (None, Some(entry), None) if entry.key == "call" => {
                self.call(&entry.node, path, number, whole).map(Traffic::Call)
            }
            (None, Some(entry), None) if entry.key == "pairs" => {
                self.pairs(&entry.node, path, number, whole).map(Traffic::Pairs)
            }
            (None, Some(entry), None) if entry.key == "quic" => {
                self.quic(&entry.node, path, number, whole).map(Traffic::Quic)
            }
            (None, Some(entry), None) if entry.key == "load" => {
                self.load(&entry.node).map(|load| Traffic::Load(Box::new(load)))
            }
            (None, Some(entry), None) => self.ping(&entry.node, path).map(Traffic::Ping),
            (None, None, _) => {
                let problem = Problem::new(fields.at, "this traffic entry does not say what is sent");
                Err(notes.note(
                    problem.remedy(
                        "give one of `service`, `tcp`, `udp`, `ping`, `voice`, `call`, `pairs`, `quic`, `load`",
                    ),
                ))
            }
            (_, Some(entry), second) => {
                let at = second.unwrap_or(entry).key_at;
                let problem = Problem::new(at, "a traffic entry sends one thing");
                Err(notes
                    .note(problem.remedy("put the other into an entry of its own (`service` goes with `tcp` alone)")))
            }
        }
    }

    fn tcp(&self, node: Option<&Node>, service: Option<Rate>) -> Result<Tcp, Noted> {
        const ENGINES: [(&str, TcpEngine); 2] = [("own", TcpEngine::Own), ("iperf3", TcpEngine::Iperf3)];
        let notes = self.notes;
        let fields = node.map(|node| Fields::read(notes, node, &keys::TCP)).transpose()?;
        let get = |key| fields.as_ref().and_then(|fields| fields.get(key));
        let rate = match get("rate") {
            None => Ok(service),
            Some(Node { value: Value::Scalar(text), .. }) if text == "unlimited" => Ok(None),
            Some(node) => fields::rate(notes, node).map(Some),
        };
        let engine = get("engine").map_or(Ok(TcpEngine::Own), |node| fields::choice(notes, node, "engine", &ENGINES));
        let congestion = get("congestion").map_or(Ok("cubic"), |node| congestion(notes, node));
        let rate = rate?;
        let write = match (get("write"), rate) {
            (Some(node), rate) => self.write(node, rate),
            (None, Some(rate)) => {
                let most = if matches!(engine, Ok(TcpEngine::Iperf3)) { IPERF3_MOST_WRITE } else { MOST_WRITE };
                Ok(Size::from_bytes(rate.bytes_in(DEFAULT_WRITE).clamp(1, most)))
            }
            // iperf3's default.
            (None, None) => Ok(Size::from_bytes(128 << 10)),
        };
        let transfer = get("transfer").map(|node| fields::size(notes, node, 1..=MOST_TRANSFER)).transpose();
        let engine = engine?;
        if let (Some(node), TcpEngine::Iperf3) = (get("transfer"), engine) {
            let problem = Problem::new(node.at, "iperf3 sends for a time here, not a number of bytes");
            return Err(notes.note(problem.remedy("leave `transfer` away, or use `engine: own`")));
        }
        Ok(Tcp { rate, write: write?, congestion: congestion?.to_owned(), transfer: transfer?, engine })
    }

    /// The bytes of a write: a size, or what a time takes at the rate.
    fn write(&self, node: &Node, rate: Option<Rate>) -> Result<Size, Noted> {
        let notes = self.notes;
        let Ok(time) = fields::text(notes, node)?.parse::<Span>() else {
            return fields::size(notes, node, 1..=MOST_WRITE);
        };
        let Some(rate) = rate else {
            let problem = Problem::new(node.at, "a write that lasts a time needs a rate");
            return Err(notes.note(problem.remedy("give `rate` too, or write a size such as `128KiB`")));
        };
        let bytes = rate.bytes_in(time);
        if (1..=MOST_WRITE).contains(&bytes) {
            return Ok(Size::from_bytes(bytes));
        }
        let problem = Problem::new(node.at, format!("{time} at {rate} is {bytes} bytes, which is not a write"));
        Err(notes.note(problem.remedy(format!("choose a time that takes 1 to {MOST_WRITE} bytes"))))
    }

    fn udp(&self, node: &Node, path: &Path) -> Result<Udp, Noted> {
        let fields = Fields::read(self.notes, node, &keys::UDP)?;
        let rate = fields::rate(self.notes, fields.need("rate")?);
        let size = self.payload(fields.get("size"), path, PROBE_LEN as u64, 200);
        Ok(Udp { rate: rate?, size: size? })
    }

    fn ping(&self, node: &Node, path: &Path) -> Result<Ping, Noted> {
        let fields = Fields::read(self.notes, node, &keys::PING)?;
        let interval = fields.with("interval", fields::positive_span);
        let size = self.payload(fields.get("size"), path, 0, 56);
        Ok(Ping { interval: interval?.unwrap_or(Span::from_secs(1)), size: size? })
    }

    /// A payload that fits into one packet behind the headers of IP and of UDP or ICMP echo, which
    /// have 8 bytes.
    fn payload(&self, node: Option<&Node>, path: &Path, least: u64, default: u64) -> Result<Size, Noted> {
        let most = u64::from(path.mtu - path.ip.header()) - 8;
        node.map_or(Ok(Size::from_bytes(default)), |node| fields::size(self.notes, node, least..=most))
    }
}

fn congestion<'a>(notes: &Notes, node: &'a Node) -> Result<&'a str, Noted> {
    let name = fields::text(notes, node)?;
    // TCP_CA_NAME_MAX of Linux is 16 with the final zero.
    let ok =
        name.len() <= 15 && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-".contains(&b));
    if ok && !name.is_empty() {
        return Ok(name);
    }
    let problem = Problem::new(node.at, format!("`{name}` is not the name of a congestion control"));
    Err(notes.note(problem.remedy("write for example `cubic`, `bbr` or `reno`")))
}
