//! What a user is told about bad input: every message is a snapshot, so that a change of wording is
//! a change that someone looked at.

use scenario::{FileError, Options, link, link_changes, load, parse};

const GOOD: &str = "\
name: sea
sites: [ship, shore, buoy]
links:
  radio: {ends: [ship, shore], profile: satellite-1, loss: 0}
paths:
  host: {mtu: 1440}
  overlay: {vxlan: {mtu: 1440}}
traffic:
  lidar: {from: ship, to: shore, service: lidar}
  gmdss: {from: ship, to: shore, service: gmdss}
  probe: {from: ship, to: shore, ping: {interval: 1s}}
sweep:
  traffic: [lidar, gmdss]
  radio.loss: [0, 0.03]
  path: [host, overlay]
measure: {duration: 10s, interval: 5s}
expect:
  - {that: goodput, where: {traffic: gmdss}, holds: \">= 9kbit/s\"}
figures:
  - {x: radio.loss, y: goodput, series: traffic, page: path}
quick: {measure.duration: 1s}
";

fn no_files(_: &str) -> Result<String, FileError> {
    Err(std::io::Error::from(std::io::ErrorKind::NotFound).into())
}

fn files(name: &str) -> Result<String, FileError> {
    match name {
        "empty.txt" => Ok("# nothing\n".to_owned()),
        "back.trace" => Ok("1\n5\n4\n".to_owned()),
        "delays.txt" => Ok("10ms\n12\n".to_owned()),
        "voyage.csv" => Ok("time_s,delay_min\n0,1\n".to_owned()),
        "late.csv" => Ok("time_s,delay_ms\n5,1\n".to_owned()),
        "loss.txt" => Ok("0010\n01x\n".to_owned()),
        _ => no_files(name),
    }
}

macro_rules! snapshot {
    ($($argument:expr),*) => {
        insta::with_settings!({ omit_expression => true }, { insta::assert_snapshot!($($argument),*) })
    };
}

/// The error of each case, one under the other.
fn told(cases: &[(&str, &str)]) -> String {
    let mut out = String::new();
    for (old, new) in cases {
        assert!(GOOD.contains(old), "`{old}` is not in the good file");
        let text = GOOD.replacen(old, new, 1);
        let error = match parse("sea.yaml", &text, &files, &Options::default()) {
            Ok(_) => panic!("`{new}` is accepted"),
            Err(error) => error,
        };
        out.push_str(&format!("{error}\n\n"));
    }
    out
}

/// The error of each `--set` option.
fn told_set(options: &[&str]) -> String {
    let mut out = String::new();
    for option in options {
        let set = vec![(*option).to_owned()];
        match parse("sea.yaml", GOOD, &no_files, &Options { set, ..Options::default() }) {
            Ok(_) => panic!("`--set {option}` is accepted"),
            Err(error) => out.push_str(&format!("{error}\n\n")),
        }
    }
    out
}

#[test]
fn the_good_file_is_good() {
    let plan = parse("sea.yaml", GOOD, &no_files, &Options::default()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(plan.cells.len(), 8);
}

#[test]
fn files_that_are_no_scenario() {
    let folder = std::env::temp_dir().join(format!("narrows-errors-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("sea.yaml");
    let mut out = String::new();
    let mut told = |path: &std::path::Path| {
        let error = load(path, &Options::default()).unwrap_err().to_string();
        out.push_str(&format!("{}\n\n", error.replace(folder.to_str().unwrap(), "FOLDER")));
    };
    told(&folder.join("missing.yaml"));
    told(&folder);
    // 100 MB long, without writing them.
    std::fs::File::create(&path).unwrap().set_len(100 << 20).unwrap();
    told(&path);
    let texts: [&[u8]; 10] = [
        b"",
        b"# only a comment\n",
        b"name: \xff\xfe\n",
        b"\x7fELF\x02\x01\x01\0\0",
        b"just words\n",
        b"- a\n- list\n",
        b"name: sea\n  sites: [a\n",
        b"name: [a, b\n",
        b"name: sea\n---\nname: lake\n",
        b"name: sea\nname: lake\n",
    ];
    for text in texts {
        std::fs::write(&path, text).unwrap();
        told(&path);
    }
    std::fs::remove_dir_all(&folder).unwrap();
    snapshot!(out);
}

#[test]
fn yaml_that_means_harm() {
    let mut out = String::new();
    let mut told = |text: &str| {
        let error = parse("sea.yaml", text, &no_files, &Options::default()).unwrap_err();
        out.push_str(&format!("{error}\n\n"));
    };
    told(&format!("name: {}1{}\n", "[".repeat(40), "]".repeat(40)));
    let mut bomb = String::from("a: &a [x, x, x, x, x, x, x, x, x, x]\n");
    for (old, new) in ["ab", "bc", "cd", "de", "ef"].iter().map(|pair| pair.split_at(1)) {
        let aliases = vec![format!("*{old}"); 10].join(", ");
        bomb.push_str(&format!("{new}: &{new} [{aliases}]\n"));
    }
    told(&bomb);
    told("a: &a [*a]\n");
    told("name: !!int sea\n");
    told("? {a: b}\n: c\n");
    snapshot!(out);
}

#[test]
fn unknown_keys_and_names() {
    snapshot!(told(&[
        ("profile: satellite-1", "profil: satellite-1"),
        ("profile: satellite-1", "profile: satelite-1"),
        ("measure:", "mesure:"),
        ("to: shore, service: lidar", "to: shoer, service: lidar"),
        ("ends: [ship, shore]", "ends: [ship, habour]"),
        ("service: lidar", "service: LIDAR"),
        ("service: lidar", "tcp: {engine: iperf}"),
        ("loss: 0}", "queue: {discipline: cake}}"),
        ("loss: 0}", "queue: cake}"),
        ("loss: 0}", "loss-at: air, up: {los: 0.1}}"),
        ("loss: 0}", "delay: {gaussian: {mean: 1ms}}}"),
        ("traffic: [lidar, gmdss]", "traffic: [lidar, gmds]"),
        ("path: [host, overlay]", "path: [host, overlap]"),
        ("radio.loss: [0", "radoi.loss: [0"),
        ("radio.loss: [0", "radio.los: [0"),
        ("name: sea\n", "name: a sea\n"),
        ("name: sea\n", ""),
    ]));
}

#[test]
fn wrong_units_and_impossible_values() {
    snapshot!(told(&[
        ("loss: 0}", "rate: 0Mbit/s}"),
        ("loss: 0}", "rate: 3}"),
        ("loss: 0}", "rate: 3Mbps}"),
        ("loss: 0}", "rate: fast}"),
        ("loss: 0}", "delay: 315}"),
        ("loss: 0}", "delay: 0.3ns}"),
        ("loss: 0}", "delay: [1ms, 2ms]}"),
        ("loss: 0}", "delay: {uniform: {min: 2ms, max: 1ms}}}"),
        ("loss: 0}", "delay: {pareto: {scale: 1ms, shape: 0.9}}}"),
        ("loss: 0}", "loss: 1.5}"),
        ("loss: 0}", "loss: 150%}"),
        ("loss: 0}", "loss: -0.1}"),
        ("loss: 0}", "loss: nan}"),
        ("loss: 0}", "loss: {gilbert-elliott: {p: 0.1}}}"),
        ("loss: 0}", "loss: {markov4: {p13: 0.9, p14: 0.2}}}"),
        ("loss: 0}", "queue: 0}"),
        ("loss: 0}", "queue: 64KB}"),
        ("loss: 0}", "queue: {packets: 5, flows: 8}}"),
        ("loss: 0}", "queue: {discipline: codel, target: 0ms}}"),
        ("loss: 0}", "rate: 10Tbit/s, delay: 10s, queue: bdp}"),
        ("loss: 0}", "rate: {token-bucket: {rate: 1Mbit/s, burst: 100B}}}"),
        ("loss: 0}", "branches: {voice: {match: {}}}}"),
        ("loss: 0}", "branches: {voice: {match: {dscp: 64, source: 10.0.0.0/33}}}}"),
        ("mtu: 1440}", "mtu: 500}"),
        ("mtu: 1440}", "mtu: 9001}"),
        ("ping: {interval: 1s}", "ping: {interval: 0s}"),
        ("ping: {interval: 1s}", "udp: {rate: 64kbit/s, size: 2000B}"),
        ("ping: {interval: 1s}", "tcp: {write: 100ms}"),
        ("ping: {interval: 1s}", "tcp: {congestion: Cubic!}"),
        ("duration: 10s", "duration: 0s"),
        ("duration: 10s", "duration: 4s"),
        ("duration: 10s", "repeat: 0, duration: 10s"),
        ("interval: 5s", "interval: 1us"),
    ]));
}

#[test]
fn what_does_not_fit_together() {
    snapshot!(told(&[
        ("to: shore, service: lidar", "to: buoy, service: lidar"),
        ("to: shore, service: lidar", "to: ship, service: lidar"),
        ("ends: [ship, shore]", "ends: [ship]"),
        ("ends: [ship, shore]", "ends: [ship, ship]"),
        ("sites: [ship, shore, buoy]", "sites: [ship]"),
        ("sites: [ship, shore, buoy]", "sites: [ship, ship]"),
        ("  radio:", "  measure: {ends: [ship, buoy]}\n  radio:"),
        ("service: lidar", "service: lidar, ping: {}"),
        ("service: lidar", "start: 1s"),
        ("service: lidar", "service: lidar, start: 10s"),
        ("service: lidar", "service: lidar, start: 5s, stop: 4s"),
        ("  path: [host, overlay]\n", ""),
    ]));
}

#[test]
fn voice_calls_and_packet_pairs_that_cannot_be() {
    let voice = |keys: &str| format!("voice: {{{keys}}}");
    let cases = [
        voice("codec: melp-1220"),
        voice("frames: 3"),
        voice("codec: {bits: 81}"),
        voice("codec: melp-1200, frames: 1000"),
        voice("codec: g711, frames: 100"),
        voice("codec: melp-1200, every: 1us"),
        voice("codec: melp-1200, talk: p60"),
        voice("codec: melp-1200, ie: 96"),
        voice("codec: melp-1200, port: 80"),
        voice("codec: melp-1200, payload: no-such.hex"),
        "call: {}".into(),
        "call: {voice: melp-1200, t1: 0s}".into(),
        "pairs: {sizes: [20B]}".into(),
        "pairs: {sizes: {from: 400B, to: 60B, step: 20B}}".into(),
        "pairs: {}".into(),
        "pairs: {sizes: [60B, 60B]}".into(),
        "call: {voice: {codec: melp-1200, rtp: false}}".into(),
        "call: {voice: {codec: melp-1200, port: 5061}, port: 5061}".into(),
        "call: {voice: melp-1200, ring: 200s}".into(),
        "quic: {rate: 1Mbit/s, datagram: 1100B}".into(),
        "quic: {rate: 1Tbit/s}".into(),
        "voice: melp-1200, ping: {}".into(),
        "tcp: {transfer: 1MiB, engine: iperf3}".into(),
    ];
    let mut cases: Vec<_> = cases.iter().map(|case| ("service: lidar", case.as_str())).collect();
    let twice =
        "voice: {codec: melp-1200, port: 6000}}\n  other: {from: ship, to: shore, call: {voice: melp-1200, port: 6000}";
    cases.push(("service: lidar", twice));
    snapshot!(told(&cases));
}

#[test]
fn sweeps_over_nothing_or_too_much() {
    snapshot!(told(&[
        ("[0, 0.03]", "[]"),
        ("[0, 0.03]", "0.03"),
        ("[0, 0.03]", "[0, 0.0]"),
        ("[0, 0.03]", "{from: 0, to: 0.1, step: 0}"),
        ("[0, 0.03]", "{from: 0, to: 0.1, step: -0.01}"),
        ("[0, 0.03]", "{from: 0.1, to: 0, step: 0.01}"),
        ("[0, 0.03]", "{from: 0, to: 1, step: 0.0000001}"),
        ("[0, 0.03]", "{from: 0, to: 0.9, step: 0.00002}"),
        ("[0, 0.03]", "{from: 0, to: 0.1}"),
        ("[0, 0.03]", "{from: 0ms, to: 1s, step: 1s}"),
        ("[0, 0.03]", "[0, 1.03]"),
        ("[0, 0.03]", "{from: 0, to: 2, step: 0.1}"),
        ("  radio.loss:", "  links.radio.loss: [0.1]\n  radio.loss:"),
        ("  radio.loss:", "  measure.repeat:"),
        ("  radio.loss:", "  sites:"),
        ("  radio.loss:", "  radio:"),
        ("  radio.loss:", "  radio..loss:"),
        ("  radio.loss:", "  radio.loss.p:"),
    ]));
}

#[test]
fn questions_about_what_is_not_there() {
    snapshot!(told(&[
        ("that: goodput", "that: godput"),
        ("where: {traffic: gmdss}", "where: {traffic: gmds}"),
        ("where: {traffic: gmdss}", "where: {traffic: probe}"),
        ("where: {traffic: gmdss}", "where: {radio.loss: 0.05}"),
        ("where: {traffic: gmdss}", "where: {radio.rate: 5Mbit/s}"),
        ("where: {traffic: gmdss}", "where: {flow: gmdsss}"),
        ("where: {traffic: gmdss}", "against: {path: [host, overlay]}"),
        (">= 9kbit/s", "9kbit/s"),
        (">= 9kbit/s", ">= 9ms"),
        (">= 9kbit/s", ">= 9"),
        ("x: radio.loss", "x: path"),
        ("x: radio.loss", "x: flow"),
        (", page: path", ""),
        ("page: path", "page: path, panels: []"),
        ("quick: {", "findings: [{source: here, paper: so, agrees: {}, lowest-share: {}}]\nquick: {"),
        ("quick: {", "findings: [{source: here, paper: so, agrees: {to: 1}}]\nquick: {"),
    ]));
}

#[test]
fn quick_blocks() {
    let quick = "quick: {measure.duration: 1s}";
    snapshot!(told(&[
        (quick, "quick: {measure.durations: 1s}"),
        (quick, "quick: {lidars.start: 1s}"),
        (quick, "quick: {traffic.*.udp.rate: 1Mbit/s}"),
        (quick, "quick: {radio.loss: [0, 2]}"),
        (quick, "quick: {traffic: [lidars]}"),
        (quick, "quick: {measure.duration: 1s, measure.interval: 2s}"),
    ]));
    let text = GOOD.replace(quick, "");
    let options = Options { quick: true, ..Options::default() };
    snapshot!("no_quick_block", parse("sea.yaml", &text, &no_files, &options).unwrap_err());
}

#[test]
fn set_options() {
    snapshot!(told_set(&[
        "radio.loss",
        "radio.loss=",
        "radio.loss=2",
        "radio.rate=[1Mbit/s, 2Mbit/s]",
        "radio.delay=315",
        "radoi.loss=0.1",
        "traffic=lidars",
        "traffic.lidar=gmdss",
        "measure=10s",
        "sweep=nothing",
        "path=hosts",
        "seed=-1",
        "radio.loss={",
    ]));
}

#[test]
fn files_that_a_scenario_names() {
    snapshot!(told(&[
        ("loss: 0}", "rate: {mahimahi: missing.trace}}"),
        ("loss: 0}", "rate: {mahimahi: empty.txt}}"),
        ("loss: 0}", "rate: {mahimahi: back.trace}}"),
        ("loss: 0}", "delay: {table: delays.txt}}"),
        ("loss: 0}", "delay: {timeline: voyage.csv}}"),
        ("loss: 0}", "delay: {timeline: late.csv, interpolate: true}}"),
        ("loss: 0}", "loss: {trace: loss.txt}}"),
    ]));
}

#[test]
fn links_without_a_scenario() {
    let mut out = String::new();
    let changes = |changes: &[&str]| changes.iter().map(|change| (*change).to_owned()).collect::<Vec<_>>();
    for (profile, change) in [
        ("satelite-1", "loss=0"),
        ("satellite-1", "loss"),
        ("satellite-1", "loss=2"),
        ("satellite-1", "up.los=0.1"),
        ("satellite-1", "ends=[a, b]"),
        ("satellite-1", "up..rate=1Mbit/s"),
        ("satellite-1", "rate={mahimahi: /nonexistent/file.trace}"),
    ] {
        let error = link("sea", profile, &changes(&[change])).unwrap_err();
        out.push_str(&format!("{error}\n\n"));
    }
    for change in [
        "profile=satellite-1",
        "reorder=true",
        "queue=0",
        "up=3",
        "up.branches.voice.los=0.1",
        "branches.voice.match={dscp: 1}",
        "=1",
    ] {
        let error = link_changes(&changes(&[change])).unwrap_err();
        out.push_str(&format!("{error}\n\n"));
    }
    snapshot!(out);
}

#[test]
fn several_problems_are_told_at_once_and_each_once() {
    let text = GOOD
        .replace("service: lidar", "service: lidr")
        .replace("loss: 0}", "delay: 5}")
        .replace("that: goodput", "that: speed");
    let error = parse("sea.yaml", &text, &no_files, &Options::default()).unwrap_err();
    let lines: Vec<_> = error.lines().collect();
    snapshot!(lines.join("\n"));
}

#[test]
fn colours_are_only_drawn_where_asked_for() {
    let error = parse("sea.yaml", "name: [", &no_files, &Options::default()).unwrap_err();
    assert!(!error.to_string().contains('\u{1b}'));
    assert!(error.coloured().contains('\u{1b}'));
}

#[test]
fn terminal_controls_in_a_file_do_not_reach_the_terminal() {
    let text = "name: \"a\\e[31mb\"\n\"\\e[2J\": 1\nsites: [\u{202e}a, b]\n";
    let error = parse("sea.yaml", text, &no_files, &Options::default()).unwrap_err();
    assert!(!error.to_string().contains('\u{1b}') && !error.to_string().contains('\u{202e}'), "{error}");
}

#[test]
fn what_iperf3_cannot_do_is_refused_with_its_place() {
    let good = GOOD.replace("service: lidar}", "service: lidar, tcp: {engine: iperf3}}");
    let told = |text: &str| match parse("sea.yaml", text, &no_files, &Options::default()) {
        Ok(_) => String::new(),
        Err(error) => error.to_string(),
    };
    assert_eq!(told(&good), "");
    for (old, new, said) in [
        ("duration: 10s", "duration: 10500ms", "cannot measure for 10500ms"),
        ("duration: 10s", "duration: 500ms", "cannot measure"),
        ("measure: {", "measure: {warmup: 1500ms, ", "cannot leave out"),
        ("interval: 5s", "interval: 50ms", "no intervals of 50"),
        ("engine: iperf3", "engine: iperf3, write: 2MiB", "at most 1 MiB"),
        ("tcp: {engine: iperf3}", "tcp: {engine: iperf3}, start: 1s", "a start or a stop"),
    ] {
        let mut text = good.replacen(old, new, 1);
        assert_ne!(text, good);
        if new == "duration: 500ms" {
            text = text.replacen("interval: 5s", "interval: 500ms", 1).replacen("duration: 1s", "duration: 500ms", 1);
        }
        let error = told(&text);
        assert!(error.contains(said) && error.contains("sea.yaml:") && error.contains("engine: own"), "{new}: {error}");
    }
}

#[test]
fn more_links_and_flows_than_the_executors_carry_are_refused() {
    let text = |links: usize, flows: usize| {
        let link = |n| format!("  l{n}: {{ends: [a, b], profile: perfect}}\n");
        let flow = |n| format!("  f{n}: {{from: a, to: b, ping: {{}}}}\n");
        let (links, flows): (String, String) = ((0..links).map(link).collect(), (0..flows).map(flow).collect());
        format!("name: t\nsites: [a, b]\nlinks:\n{links}traffic:\n{flows}")
    };
    let read = |links, flows| parse("t.yaml", &text(links, flows), &no_files, &Options::default());
    assert_eq!(read(32, 1_000).unwrap().cells[0].flows.len(), 1_000);
    let error = read(33, 1).unwrap_err().to_string();
    assert!(error.contains("there are 33 links") && error.contains("at most 32"), "{error}");
    let error = read(1, 1_001).unwrap_err().to_string();
    assert!(error.contains("there are 1001 traffic entries") && error.contains("at most 1000"), "{error}");
}

#[test]
fn adapters_that_do_not_fit_their_line_and_rules_that_match_nothing_are_refused() {
    let read = |adapter: &str| {
        let text = format!(
            "name: t\nsites: [a, b]\nlinks: {{l: {{ends: [a, b], line: {{baud: 9600}}}}}}\n\
             paths: {{p: {{adapter: {adapter}}}}}\ntraffic: {{v: {{from: a, to: b, voice: melp-1200}}}}\n"
        );
        parse("t.yaml", &text, &no_files, &Options::default())
    };
    let rule = |keys: &str| format!("{{rules: [{{match: {{{keys}}}, class: real-time}}]}}");
    assert!(read("{rate: 4800bit/s}").is_ok());
    assert!(read(&rule("destination: 'fd00::/8', flow-label: 7")).is_ok());
    for (adapter, said) in [
        ("{rate: 100kbit/s}".to_owned(), "it follows from the line"),
        ("{bits-per-character: 12}".to_owned(), "set the line's `framing`"),
        (rule("source: 10.0.0.1, destination: 'fd00::/8'"), "different versions of IP"),
        (rule("source: 10.0.0.1, flow-label: 7"), "IPv4 has no flow label"),
        (rule("protocol: 17, spi: 300"), "only ESP (50) has an SPI"),
        (rule("port: 5004, spi: 300"), "ESP has no ports"),
        (rule("port: 0"), "1 to 65535"),
        (rule("port: 70000"), "write at most 65535"),
        (rule("protocol: foo"), "write its number or one of"),
        (rule("flow_label: 7"), "flow-label"),
    ] {
        let error = read(&adapter).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains(said) && error.contains("t.yaml:"), "{adapter}: {error}");
    }
}
