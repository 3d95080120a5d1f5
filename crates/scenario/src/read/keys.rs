//! Every key of the language: the decoder refuses what is not here, and the guide's tables are made
//! from here.

mod line;
mod load;

pub(crate) use line::{BURSTS, CUT, FADES, LINE, LINE_WAY, RECEIVE};
pub(crate) use load::{
    CHANGE, CONTROL, EMBEDDED, GROUP_LOAD, INSTANCES, INTERFACE, LOAD, MBR, PACKET_SIZES, PFCP, REPORT, SESSION_GROUP,
};

/// The keys of one kind of mapping.
pub(crate) struct Table {
    /// What the mapping is, as messages call it.
    pub(crate) what: &'static str,
    pub(crate) keys: &'static [Key],
}

/// A key, what may stand after it, and what it means.
pub(crate) struct Key {
    pub(crate) name: &'static str,
    /// An example of a value; several forms stand apart by ` or `.
    pub(crate) value: &'static str,
    pub(crate) about: &'static str,
}

impl Table {
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.keys.iter().map(|key| key.name)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.keys.iter().any(|key| key.name == name)
    }
}

/// The tables of keys as the guide prints them, in Markdown.
#[must_use]
pub fn reference() -> String {
    const CHAPTERS: &[(&str, &[&Table])] = &[
        ("The file", &[&SCENARIO]),
        ("Links", &[&LINK, &DIRECTION, &BRANCH, &MATCH]),
        ("Character lines", &[&LINE, &RECEIVE, &BURSTS, &FADES, &CUT]),
        ("Rates", &[&RATE_MODEL, &TOKEN_BUCKET]),
        ("Delays", &[&DELAY_MODEL, &UNIFORM, &NORMAL, &PARETO, &TIMELINE_DELAY]),
        ("Losses", &[&LOSS_MODEL, &GILBERT_ELLIOTT, &MARKOV4]),
        ("Queues", &[&QUEUE_FIELDS]),
        ("Paths", &[&PATH, &VXLAN]),
        (
            "Traffic",
            &[&FLOW, &TCP, &UDP, &PING, &VOICE, &CODEC, &TALK, &CALL, &PAIRS, &SIZES, &QUIC, &EMBEDDED, &CHANGE],
        ),
        ("Sweeps and measurement", &[&RANGE, &MEASURE]),
        ("Expectations", &[&EXPECT]),
        ("Figures", &[&FIGURE, &PANEL]),
        ("Findings", &[&FINDING, &DECAY, &CONVERGE, &COST, &LOWEST_SHARE, &VALUE, &AGREES]),
    ];
    in_markdown(CHAPTERS)
}

/// The tables of keys of load files, as [`reference()`].
#[must_use]
pub fn load_reference() -> String {
    in_markdown(&[
        ("The file", &[&LOAD]),
        ("Groups", &[&SESSION_GROUP, &MBR, &REPORT]),
        ("Traffic", &[&GROUP_LOAD, &PACKET_SIZES, &INSTANCES]),
        ("Another UPF", &[&INTERFACE, &CONTROL, &PFCP]),
    ])
}

fn in_markdown(chapters: &[(&str, &[&Table])]) -> String {
    let mut out = String::new();
    for (title, tables) in chapters {
        out.push_str(&format!("### {title}\n\n"));
        for table in *tables {
            // A link's and a branch's keys are some more than a direction's.
            let extends = table.has(LOSS_AT.name) && !std::ptr::eq(*table, &DIRECTION);
            let beside = if extends { ", beside those of one direction" } else { "" };
            out.push_str(&format!(
                "Keys of {}{beside}:\n\n| key | for example | meaning |\n|---|---|---|\n",
                table.what
            ));
            for key in table.keys.iter().filter(|key| !extends || !DIRECTION.has(key.name)) {
                let values: Vec<_> = key.value.split(" or ").map(|value| format!("`{value}`")).collect();
                out.push_str(&format!("| `{}` | {} | {} |\n", key.name, values.join("<br>"), key.about));
            }
            out.push('\n');
        }
    }
    out
}

const fn key(name: &'static str, value: &'static str, about: &'static str) -> Key {
    Key { name, value, about }
}

pub(crate) static SCENARIO: Table = Table {
    what: "a scenario",
    keys: &[
        key("name", "ship-to-shore", "Name of the scenario and of its results. Required."),
        key("description", "free text", "What it is for."),
        key("seed", "7", "Seed of every random stream. Drawn and printed if absent."),
        key("ip", "6 or 4", "Version of the Internet Protocol under everything; 4 if absent."),
        key("sites", "[ship, shore]", "Names of the sites. Required."),
        key("links", "{radio: {…}}", "Links by name. Required, unless the traffic is a `load`."),
        key("paths", "{host: {mtu: 1440}}", "Paths by name; one called `host` with an MTU of 1500 if absent."),
        key("path", "host", "Which path is taken; needed if there are several and none is swept."),
        key("traffic", "{lidar: {…}}", "Traffic by name; all entries run together unless a sweep picks. Required."),
        key("sweep", "{radio.loss: [0, 0.03]}", "What differs from cell to cell, as lists or ranges of values."),
        key("measure", "{duration: 60s}", "How long and how often is measured."),
        key("expect", "[{…}]", "What must hold."),
        key("figures", "[{…}]", "What is drawn."),
        key("findings", "[{…}]", "What a paper found, to lie beside what is measured."),
        key("quick", "{measure.duration: 5s}", "What `--quick` changes; a swept key gets other values."),
    ],
};

pub(crate) static LINK: Table = Table {
    what: "a link",
    keys: &[
        key("ends", "[ship, shore]", "Its two sites; *up* is from the first to the second. Required."),
        key("profile", "satellite-2", "Where all that is not said comes from (`narrows profiles`)."),
        key("up", "{loss: 0}", "Keys for the first direction only; they go before those of the link."),
        key("down", "{loss: 0.1}", "Keys for the second direction only."),
        key("capture", "true", "Whether what crosses its first end is captured as pcapng; no if absent."),
        key(
            "line",
            "{baud: 9600}",
            "A line that carries characters instead of packets, with an adapter at each end; its keys stand in it, not beside it.",
        ),
        RATE,
        OVERHEAD,
        DELAY,
        REORDER,
        LOSS,
        LOSS_AT,
        DUPLICATE,
        CORRUPT,
        QUEUE,
        BRANCHES,
    ],
};

pub(crate) static DIRECTION: Table = Table {
    what: "one direction of a link",
    keys: &[RATE, OVERHEAD, DELAY, REORDER, LOSS, LOSS_AT, DUPLICATE, CORRUPT, QUEUE, BRANCHES],
};

pub(crate) static BRANCH: Table = Table {
    what: "a branch",
    keys: &[
        key("match", "{dscp: 46}", "Which packets it takes; all that is given must hold. Required."),
        RATE,
        OVERHEAD,
        DELAY,
        REORDER,
        LOSS,
        LOSS_AT,
        DUPLICATE,
        CORRUPT,
        QUEUE,
    ],
};

const RATE: Key = key(
    "rate",
    "5Mbit/s or {token-bucket: {rate: 5Mbit/s, burst: 32KiB}} or {mahimahi: file.trace} or unlimited",
    "How fast bits are put on the link.",
);
const OVERHEAD: Key = key("overhead", "38B", "Bytes each packet costs beyond its network-layer length; 0 if absent.");
const DELAY: Key = key(
    "delay",
    "315ms or {uniform: {min: 10ms, max: 20ms}} or {normal: {mean: 20ms, deviation: 3ms}} or {pareto: {scale: 10ms, shape: 3}} or {table: delays.txt} or {timeline: voyage.csv}",
    "How long a packet travels.",
);
const REORDER: Key =
    key("reorder", "true", "Let packets overtake each other when delays differ; they do not if absent.");
const LOSS: Key = key(
    "loss",
    "0.03 or 3% or {gilbert-elliott: {p: 0.01, r: 0.3}} or {markov4: {p13: 0.01}} or {trace: loss.txt}",
    "Which packets are lost.",
);
const LOSS_AT: Key = key(
    "loss-at",
    "entry or air",
    "Lost before the queue (as in dummynet), or after they took their time on the link.",
);
const DUPLICATE: Key = key("duplicate", "0.001", "Chance that a packet arrives twice.");
const CORRUPT: Key = key("corrupt", "0.001", "Chance that one bit of a packet is flipped.");
const QUEUE: Key = key(
    "queue",
    "50 or 64KiB or bdp or codel or {packets: 50, discipline: codel}",
    "Where packets wait for the rate: a limit in packets or bytes, one bandwidth-delay product, or a mapping.",
);
const BRANCHES: Key = key(
    "branches",
    "{voice: {match: {dscp: 46}}}",
    "Further pipes for some of the packets, asked in order. What a branch does not say is as in its direction.",
);

pub(crate) static RATE_MODEL: Table = Table {
    what: "a rate",
    keys: &[
        key(
            "token-bucket",
            "{rate: 5Mbit/s, burst: 32KiB}",
            "A bucket filled at a rate; a packet leaves as soon as its bytes are there.",
        ),
        key(
            "mahimahi",
            "file.trace",
            "Delivery opportunities of 1504 bytes: a millisecond on each line, as mahimahi records them.",
        ),
    ],
};

pub(crate) static TOKEN_BUCKET: Table = Table {
    what: "a token bucket",
    keys: &[key("rate", "5Mbit/s", "Fill rate. Required."), key("burst", "32KiB", "Depth of the bucket. Required.")],
};

pub(crate) static DELAY_MODEL: Table = Table {
    what: "a delay",
    keys: &[
        key("uniform", "{min: 10ms, max: 20ms}", "Uniform between two bounds."),
        key("normal", "{mean: 20ms, deviation: 3ms}", "Normal, cut off at zero."),
        key("pareto", "{scale: 10ms, shape: 3}", "Pareto: shortest delay and tail index (over 1)."),
        key("table", "delays.txt", "Drawn from delays in a file, one with its unit on each line."),
        key(
            "timeline",
            "voyage.csv",
            "As a CSV file with columns `time_s` and `delay_ms` says (or other units: ns, us, ms, s).",
        ),
    ],
};

pub(crate) static TIMELINE_DELAY: Table = Table {
    what: "a timeline",
    keys: &[
        key("timeline", "voyage.csv", "The file. Required."),
        key("interpolate", "true", "Change linearly from step to step instead of at once; at once if absent."),
    ],
};

pub(crate) static UNIFORM: Table = Table {
    what: "a uniform delay",
    keys: &[key("min", "10ms", "Shortest. Required."), key("max", "20ms", "Longest. Required.")],
};

pub(crate) static NORMAL: Table = Table {
    what: "a normal delay",
    keys: &[key("mean", "20ms", "Mean. Required."), key("deviation", "3ms", "Standard deviation. Required.")],
};

pub(crate) static PARETO: Table = Table {
    what: "a Pareto delay",
    keys: &[key("scale", "10ms", "Shortest delay. Required."), key("shape", "3", "Tail index, over 1. Required.")],
};

pub(crate) static LOSS_MODEL: Table = Table {
    what: "a loss",
    keys: &[
        key("gilbert-elliott", "{p: 0.01, r: 0.3}", "Two states (Gilbert 1960, Elliott 1963)."),
        key("markov4", "{p13: 0.01}", "Four states (Salsano 2009), as netem's `loss state`."),
        key("trace", "loss.txt", "As recorded: a file of `1` (lost) and `0`, one a packet, repeated at its end."),
    ],
};

pub(crate) static GILBERT_ELLIOTT: Table = Table {
    what: "a Gilbert-Elliott loss",
    keys: &[
        key("p", "0.01", "Chance per packet to go from the good state to the bad. Required."),
        key("r", "0.3", "Chance to go back. Required."),
        key("loss-bad", "1", "Chance of loss in the bad state; 1 if absent."),
        key("loss-good", "0", "Chance of loss in the good state; 0 if absent."),
    ],
};

pub(crate) static MARKOV4: Table = Table {
    what: "a four-state loss",
    keys: &[
        key("p13", "0.01", "A burst of losses begins. Required."),
        key("p31", "0.99", "It ends; 1 - p13 if absent, as in netem."),
        key("p32", "0", "Reception within the burst; 0 if absent."),
        key("p23", "1", "The burst's losses go on; 1 if absent."),
        key("p14", "0", "An isolated loss; 0 if absent."),
    ],
};

pub(crate) static QUEUE_FIELDS: Table = Table {
    what: "a queue",
    keys: &[
        key("packets", "50 or bdp", "Most packets that wait. With neither this nor `bytes`: the default limit."),
        key("bytes", "64KiB", "Most bytes that wait."),
        key(
            "discipline",
            "drop-tail or codel or pie or fq-codel",
            "What decides which packet is dropped; drop-tail if absent.",
        ),
        key("target", "5ms", "Delay aimed at (codel, fq-codel: 5 ms; pie: 15 ms)."),
        key("interval", "100ms", "Window of codel and fq-codel; 100 ms if absent."),
        key("update", "15ms", "How often pie computes; 15 ms if absent."),
        key("burst", "150ms", "Burst that pie lets pass; 150 ms if absent."),
        key("ecn", "true", "Mark ECN-capable packets instead of dropping (codel, pie: false; fq-codel: true)."),
        key("flows", "1024", "Flow queues of fq-codel."),
        key("quantum", "1514", "Bytes a flow of fq-codel sends in its turn."),
    ],
};

pub(crate) static MATCH: Table = Table {
    what: "a match",
    keys: &[
        key("source", "10.0.0.0/8", "Source network."),
        key("destination", "10.0.1.2", "Destination network or address."),
        key("protocol", "udp", "`tcp`, `udp`, `icmp`, `icmpv6`, `sctp`, `esp`, `gre` or a number."),
        key("port", "5004", "Source or destination port."),
        key("dscp", "46", "Differentiated services code point, 0 to 63."),
        key("flow-label", "7", "IPv6's flow label."),
        key("spi", "256", "Security parameters index of ESP."),
        key("probability", "0.5", "Chance that a packet which meets the rest is taken."),
    ],
};

pub(crate) static PATH: Table = Table {
    what: "a path",
    keys: &[
        key(
            "mtu",
            "1440",
            "Applications stand on the site itself, with this MTU; 1500 if absent (with `esp` 1446, with `ip: 6` 1426).",
        ),
        key("vxlan", "{mtu: 1440}", "Applications stand in a namespace of their own, joined by a VXLAN tunnel."),
        key(
            "esp",
            "true",
            "IPsec gateways stand at both ends of every link, between the sites and the adapters: an ESP tunnel with AES-GCM.",
        ),
        key(
            "adapter",
            "{schedule: gaps}",
            "Narrowband adapters stand at both ends of links; `{}` takes every default.",
        ),
    ],
};

pub(crate) static VXLAN: Table = Table {
    what: "a VXLAN path",
    keys: &[key(
        "mtu",
        "1440",
        "MTU inside the tunnel; 1450 if absent (1430 with `ip: 6`). The link carries 50 (70) bytes more.",
    )],
};

pub(crate) static FLOW: Table = Table {
    what: "a traffic entry",
    keys: &[
        key("from", "ship", "Site it is sent from. Required."),
        key("to", "shore", "Site it is sent to. Required."),
        key("service", "ais", "A maritime service: TCP at the service's rate; `tcp` may say more."),
        key("tcp", "{rate: 2Mbit/s}", "A TCP connection."),
        key("udp", "{rate: 64kbit/s, size: 200B}", "Datagrams at a constant rate."),
        key("ping", "{interval: 200ms}", "ICMP echo requests (ICMPv6 with `ip: 6`)."),
        key("voice", "melp-1200 or {codec: codec2-1200, rtp: true}", "What a vocoder makes of speech, in datagrams."),
        key(
            "call",
            "{voice: melp-1200}",
            "Voice over RTP in calls that SIP sets up and releases, one after the other.",
        ),
        key("pairs", "{every: 6s}", "Packet pairs: two datagrams back to back, over several sizes."),
        key(
            "quic",
            "{rate: 12Mbit/s}",
            "Video over QUIC, whose server is at the first site and whose player at the second.",
        ),
        key("load", "{file: load.yaml, rate: 100000}", "A load on a UPF, as `narrows load` runs it; it runs alone."),
        key("start", "2s", "When it starts, from the start of the cell; at once if absent."),
        key("stop", "8s", "When it stops; at the end if absent."),
        key("dscp", "46", "Differentiated services code point of its packets; 0 if absent."),
    ],
};

pub(crate) static TCP: Table = Table {
    what: "TCP traffic",
    keys: &[
        key(
            "rate",
            "2Mbit/s or unlimited",
            "Rate of the application, limited as `iperf3 -b` does it; as fast as it goes if absent.",
        ),
        key(
            "write",
            "100ms or 128KiB",
            "Bytes in a write, or the time they last at the rate; 100 ms (128 KiB without a rate) if absent.",
        ),
        key("congestion", "cubic", "Congestion control, set on the socket; cubic if absent."),
        key("transfer", "100KiB", "Bytes in all: a file, whose time is `transfer-time`; without end if absent."),
        key("engine", "own or iperf3", "What sends and receives; own if absent."),
    ],
};

pub(crate) static UDP: Table = Table {
    what: "UDP traffic",
    keys: &[
        key("rate", "64kbit/s", "Rate of the payload. Required."),
        key("size", "200B", "Payload of a datagram, at least 24 B; 200 B if absent."),
    ],
};

pub(crate) static PING: Table = Table {
    what: "ping traffic",
    keys: &[
        key("interval", "200ms", "From one request to the next; 1 s if absent."),
        key("size", "56B", "ICMP payload; 56 B if absent."),
    ],
};

pub(crate) static VOICE: Table = Table {
    what: "voice traffic",
    keys: &[
        key("codec", "melp-1200 or {bits: 81, frame: 67500us}", "The vocoder, by name or by its figures. Required."),
        key("frames", "3", "Frames in a packet, each in whole octets; the vocoder's usual number if absent."),
        key(
            "every",
            "200ms",
            "From one packet to the next; the speech in a packet if absent (202.5 ms for melp-1200).",
        ),
        key("rtp", "true", "Over RTP (RFC 3550). If absent a packet is frames alone, the first two octets its number."),
        key(
            "talk",
            "p59 or always or {spurt: 1004ms, pause: 1587ms}",
            "Talk spurts and pauses of exponential length; always if absent.",
        ),
        key("payload", "speech.hex", "Real frames in hexadecimal, sent in turn; pseudo-random bits if absent."),
        key("buffer", "60ms", "Depth of the listener's playout buffer; 60 ms if absent."),
        key("ie", "0", "Equipment impairment factor (ITU-T G.113); the vocoder's, 0 where none is standardised."),
        key("bpl", "4.3", "Packet-loss robustness factor; the vocoder's, 4.3 where none is standardised."),
        key("port", "5004", "UDP port at both ends; one of its own if absent."),
    ],
};

pub(crate) static CODEC: Table = Table {
    what: "a vocoder",
    keys: &[key("bits", "81", "Bits of a frame. Required."), key("frame", "67500us", "Speech in a frame. Required.")],
};

pub(crate) static TALK: Table = Table {
    what: "a way to talk",
    keys: &[
        key("spurt", "1004ms", "Mean length of a talk spurt; ITU-T P.59's if absent."),
        key("pause", "1587ms", "Mean length of a pause; ITU-T P.59's if absent."),
    ],
};

pub(crate) static CALL: Table = Table {
    what: "calls",
    keys: &[
        key(
            "voice",
            "melp-1200 or {codec: melp-1200, talk: p59}",
            "What is said, as the traffic `voice` has it, always over RTP. Required.",
        ),
        key(
            "both-ways",
            "true",
            "The called site talks too; its packets count with the caller's, of two figures the worse; not if absent.",
        ),
        key("hold", "30s", "How long a call lasts once it stands; 30 s if absent."),
        key("pause", "5s", "From the end of a call to the next; 5 s if absent."),
        key("ring", "1s", "How long it rings before it is answered; at once if absent."),
        key(
            "t1",
            "2s",
            "SIP's base time T1, a round trip of an INVITE; 2 s if absent, for a narrow line (RFC 3261: 500 ms).",
        ),
        key("compact", "true", "Compact header names (RFC 3261 7.3.3); long ones if absent."),
        key("port", "5060", "UDP port of the signalling at both ends; the entry's number above 5060 if absent."),
    ],
};

pub(crate) static PAIRS: Table = Table {
    what: "packet pairs",
    keys: &[
        key(
            "sizes",
            "[60B, 400B, 1400B] or {from: 60B, to: 1400B, step: 20B}",
            "Sizes of the IP datagrams; 60, 80, 100, 150, 200, 400, 600, 800, 1000, 1200 and 1400 B if absent.",
        ),
        key(
            "rounds",
            "2",
            "How often all sizes are gone through, after one pair that opens the flow and is not measured; twice if absent.",
        ),
        key(
            "every",
            "6s",
            "From one pair to the next: long enough for the line to be idle again; each leaves up to a sixteenth of it later, so that none is in step with other traffic. 6 s if absent.",
        ),
        key("zeros", "true", "Zeros as payload; bytes that do not compress if absent."),
        key("port", "9009", "UDP port at both ends; one of its own if absent."),
    ],
};

pub(crate) static QUIC: Table = Table {
    what: "video over QUIC",
    keys: &[
        key("rate", "12Mbit/s", "Mean rate of the video; segments have half to one and a half times of it. Required."),
        key("segment", "2s", "Playing time of a segment; 2 s if absent."),
        key("ahead", "5", "Segments that are asked for at once at the start; 5 if absent."),
        key(
            "datagram",
            "1208B",
            "UDP payload of full datagrams, 1200 B (RFC 9000 14.1) to what the path takes; 1200 B if absent.",
        ),
        key("acknowledge", "10", "Packets that the player acknowledges together; 2 (RFC 9000 13.2.2) if absent."),
        key("port", "4433", "UDP port at both ends; one of its own if absent."),
    ],
};

pub(crate) static SIZES: Table = Table {
    what: "a range of sizes",
    keys: &[
        key("from", "60B", "Smallest. Required."),
        key("to", "1400B", "Largest, if the steps meet it. Required."),
        key("step", "20B", "From one size to the next. Required."),
    ],
};

pub(crate) static MEASURE: Table = Table {
    what: "`measure`",
    keys: &[
        key("duration", "60s", "Measured time of a cell; 10 s if absent."),
        key("interval", "20s", "Length of an interval; 1 s if absent, at most the duration."),
        key("repeat", "1", "How often every cell is run; once if absent."),
        key("warmup", "0s", "Time the traffic runs before measuring begins; none if absent."),
    ],
};

pub(crate) static RANGE: Table = Table {
    what: "a range",
    keys: &[
        key("from", "0", "First value. Required."),
        key("to", "0.10", "Last value, if the steps meet it. Required."),
        key("step", "0.01", "From one value to the next, exactly; the unit is that of the others. Required."),
    ],
};

pub(crate) static EXPECT: Table = Table {
    what: "an expectation",
    keys: &[
        key("that", "goodput", "The metric. Required."),
        key(
            "where",
            "{traffic: gmdss}",
            "In which cells: swept keys (or `flow`) and one or more of their values; in all if absent.",
        ),
        key(
            "only",
            "virtual or real",
            "In which runs: what no real machine can keep to is judged in virtual time alone. In all if absent.",
        ),
        key("against", "{path: host}", "Judge the ratio to the cells that differ in these keys alone."),
        key(
            "holds",
            "\">= 9kbit/s\"",
            "`<`, `<=`, `>`, `>=`, `==` or `~` (equal within the run-to-run spread) and a value with the metric's unit; with `against`, a ratio. Required.",
        ),
    ],
};

pub(crate) static FIGURE: Table = Table {
    what: "a figure",
    keys: &[
        key(
            "x",
            "radio.loss or time or packet-size",
            "Swept key along x, whose values must be numbers; or `time`, for what is measured in every interval; or `packet-size`, for what single packets have. Required.",
        ),
        key("y", "goodput", "The metric along y. Required."),
        key("series", "traffic", "Swept key (or `flow`) with one line for each value. Required."),
        key("page", "[radio.profile, path]", "One panel for each combination of these keys' values."),
        key("panels", "[{…}]", "The panels one by one, instead of `page`."),
        key(
            "theory",
            "ping-alone",
            "A curve to draw beside what is measured: the round-trip time of a ping whose datagram passes the links alone, its bytes at their rates and nothing added or saved.",
        ),
    ],
};

pub(crate) static PANEL: Table = Table {
    what: "a panel",
    keys: &[
        key("title", "Figure 2", "Its title. Required."),
        key("where", "{path: host}", "Which cells, as in `expect`."),
        key("omit", "[gmdss, ais]", "Values of the series that are left out at first."),
    ],
};

pub(crate) static FINDING: Table = Table {
    what: "a finding",
    keys: &[
        key("source", "Section IV-B", "Where the paper says so. Required."),
        key("paper", "free text", "What it says. Required."),
        key("where", "{radio.profile: 5g-1}", "Which cells, as in `expect`."),
        key(
            "decay",
            "{over: radio.loss, share: 0.9}",
            "First value of a key from which on the metric stays below a share of the offered rate, in the series that decays first.",
        ),
        key(
            "converge",
            "{over: radio.loss, series: traffic, within: 1.5}",
            "First value of a key from which on the largest of the series is at most so many times the smallest.",
        ),
        key(
            "cost",
            "{key: path, base: host, variant: overlay}",
            "Median ratio of two values of a key over all pairs that differ in it alone.",
        ),
        key("lowest-share", "{}", "Lowest ratio of the metric to the offered rate."),
        key("value", "{metric: goodput}", "The metric itself, in its base unit: the median over the cells."),
        key("agrees", "{from: 0.03, to: 0.05}", "Results that agree with the paper; one side may be absent. Required."),
    ],
};

pub(crate) static DECAY: Table = Table {
    what: "a decay",
    keys: &[
        METRIC,
        key("over", "radio.loss", "Swept key with numbers. Required."),
        key("share", "0.9", "Share of the offered rate. Required."),
    ],
};

pub(crate) static CONVERGE: Table = Table {
    what: "a convergence",
    keys: &[
        METRIC,
        key("over", "radio.loss", "Swept key with numbers. Required."),
        key("series", "traffic", "Swept key (or `flow`) of the series. Required."),
        key("within", "1.5", "Largest ratio, over 1. Required."),
    ],
};

pub(crate) static COST: Table = Table {
    what: "a cost",
    keys: &[
        METRIC,
        key("key", "path", "Swept key that tells the two apart. Required."),
        key("base", "host", "Value of the baseline. Required."),
        key("variant", "overlay", "Value that is compared with it. Required."),
    ],
};

pub(crate) static LOWEST_SHARE: Table = Table { what: "a lowest share", keys: &[METRIC] };

pub(crate) static VALUE: Table = Table { what: "a value", keys: &[METRIC] };

pub(crate) static AGREES: Table = Table {
    what: "`agrees`",
    keys: &[key("from", "0.03", "Lowest result that agrees."), key("to", "0.05", "Highest.")],
};

const METRIC: Key = key("metric", "goodput", "The metric; goodput if absent.");
