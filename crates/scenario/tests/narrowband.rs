//! Lines and adapters in a scenario: what is read, what is refused, and that it runs.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic too")]

use adapter::{AdapterConfig, Schedule};
use engine::Span;
use link::characters::{BitErrors, FadeEffect, Pace};
use scenario::plan::{Cell, Plan};
use scenario::{Options, parse};

fn scenario(links: &str, rest: &str) -> String {
    format!(
        "name: t\nsites: [west, east, far]\nlinks:\n{links}\ntraffic: {{p: {{from: west, to: east, ping: {{}}}}}}\n{rest}"
    )
}

fn plan(links: &str, rest: &str) -> Plan {
    let text = scenario(links, rest);
    parse("t", &text, &|_| unreachable!("it names no file"), &Options::default()).unwrap_or_else(|e| panic!("{e}"))
}

fn refused(links: &str, rest: &str) -> String {
    let text = scenario(links, rest);
    let error = parse("t", &text, &|_| unreachable!("it names no file"), &Options::default()).unwrap_err();
    error.lines().collect::<Vec<_>>().join(" | ")
}

fn cell(links: &str, rest: &str) -> Cell {
    plan(links, rest).cells.remove(0)
}

#[test]
fn a_line_has_its_keys_each_way() {
    let cell = cell(
        "  radio: {ends: [west, east], line: {baud: 9600, framing: 8E1, fifo: 4, delay: 20ms, errors: 0.0001,
            cut: {from: 10s, length: 5s}, up: {fades: {interval: 30s, length: 2s, errors: 0.5}}, down: {baud: 2400}}}",
        "",
    );
    let [up, down] = cell.links[0].characters().unwrap();
    let Pace::Asynchronous(uart) = up.pace else { panic!("{:?}", up.pace) };
    assert_eq!((uart.baud.get(), uart.framing.to_string().as_str(), uart.fifo), (9_600, "8E1", 4));
    assert_eq!((down.pace.bits_per_second(), down.pace.bits_per_character()), (2_400, 11));
    assert_eq!((up.delay, up.errors), (Span::from_millis(20), BitErrors::Independent(1e-4)));
    assert_eq!(up.cuts[0].length, Span::from_secs(5));
    assert_eq!(up.fades.as_ref().map(|fades| fades.effect), Some(FadeEffect::Errors(0.5)));
    assert_eq!(down.fades, None);
    // A line carries nothing but frames: without an adapter on the path there are plain ones.
    let ends = cell.links[0].adapters.as_ref().unwrap();
    let rates = ends.each_ref().map(|end| (end.rate.bits_per_second(), end.bits_per_character));
    assert_eq!(rates, [(9_600, 11), (2_400, 11)]);
    assert_eq!(ends[0].rohc, None);
    assert_eq!(ends[0].schedule, Schedule::Fifo);
}

#[test]
fn adapters_stand_at_lines_else_everywhere_and_where_they_are_told_to() {
    let three = "  radio: {ends: [west, east], line: {rate: 9600bit/s}}\n  wire: {ends: [east, far], rate: 1Mbit/s}";
    let with = |adapter: &str, links| {
        let cell = cell(links, &format!("paths: {{narrow: {{adapter: {adapter}}}}}\n"));
        cell.links.into_iter().map(|link| link.adapters.map(|ends| ends[0].clone())).collect::<Vec<_>>()
    };
    let ends = with("{}", three);
    let radio = ends[0].as_ref().unwrap();
    assert_eq!((radio.rate.bits_per_second(), radio.bits_per_character, radio.schedule), (9_600, 8, Schedule::Gaps));
    assert_eq!(ends[1], None);
    let ends = with("{links: [wire], schedule: priority}", three);
    assert_eq!(ends[0], Some(AdapterConfig { bits_per_character: 8, ..AdapterConfig::plain() }));
    let wire = ends[1].as_ref().unwrap();
    assert_eq!((wire.rate.bits_per_second(), wire.bits_per_character), (1_000_000, 8));
    assert_eq!(wire.schedule, Schedule::Priority);
    let two = "  sat: {ends: [west, east], profile: satellite-1}\n  wire: {ends: [east, far]}";
    let ends = with("{rate: 64kbit/s}", two);
    assert!(ends.iter().all(|end| end.as_ref().is_some_and(|end| end.rate.bits_per_second() == 64_000)));
}

#[test]
fn a_plan_with_lines_is_read_back() {
    let plan = plan("  radio: {ends: [west, east], line: {baud: 9600}}", "paths: {a: {adapter: {}}}\n");
    assert_eq!(serde_json::from_str::<Plan>(&plan.to_json()).unwrap(), plan);
}

#[test]
fn keys_of_lines_and_adapters_are_swept() {
    let plan = plan(
        "  radio: {ends: [west, east], line: {baud: 9600}}",
        "paths: {a: {adapter: {}}}\nsweep: {radio.line.errors: [0, 0.0001], paths.a.adapter.schedule: [gaps, fifo]}\n",
    );
    let seen: Vec<_> = plan.cells.iter().map(|cell| cell.links[0].adapters.as_ref().unwrap()[0].schedule).collect();
    assert_eq!(seen, [Schedule::Gaps, Schedule::Fifo, Schedule::Gaps, Schedule::Fifo]);
    assert_eq!(plan.cells[3].links[0].characters().unwrap()[0].errors, BitErrors::Independent(1e-4));
}

#[test]
fn a_star_at_the_end_of_a_key_is_no_key() {
    let links = "  radio: {ends: [west, east], line: {baud: 9600}}";
    for key in ["measure.*", "links.radio.*", "traffic.p.ping.*"] {
        let told = refused(links, &format!("quick: {{{key}: 5s}}\n"));
        assert!(told.contains("unknown key `*`"), "{told}");
    }
}

#[test]
fn mistakes_are_told_with_their_place() {
    let line = |keys: &str| refused(&format!("  radio: {{ends: [west, east], line: {{{keys}}}}}"), "");
    assert!(line("framing: 8N1").contains("does not say how fast it is"));
    assert!(line("baud: 9600, rate: 9600bit/s").contains("t:4:"));
    assert!(line("rate: 9600bit/s, fifo: 4").contains("a synchronous line has no `fifo`"));
    assert!(line("baud: 9600, framing: 9N1").contains("is no framing"));
    assert!(line("baud: 9600, framing: 7E1").contains("adapters exchange octets"));
    assert!(line("baud: 9600, errors: 0.1, bursts: {begin: 0.1, end: 0.1}").contains("leave one of them away"));
    assert!(line("baud: 9600, cut: [{from: 9s, length: 2s}, {from: 10s, length: 2s}]").contains("`cuts`"));
    assert!(line("baud: 9600, cuts: []").contains("unknown key `cuts` in a line"));
    let beside = refused("  radio: {ends: [west, east], delay: 3ms, line: {baud: 9600}}", "");
    assert!(beside.contains("`delay` stands beside `line`"), "{beside}");
    let links = "  radio: {ends: [west, east], line: {baud: 9600}}";
    let adapter = |keys: &str| refused(links, &format!("paths: {{a: {{adapter: {{{keys}}}}}}}\n"));
    assert!(adapter("links: [rado]").contains("unknown link `rado`"));
    assert!(adapter("shedule: fifo").contains("unknown key `shedule`"));
}

#[test]
fn the_theory_of_a_ping_alone_is_its_bytes_at_the_lines_rate() {
    let plan = plan(
        "  radio: {ends: [west, east], line: {rate: 9600bit/s, delay: 5ms}}",
        "sweep: {traffic.p.ping.size: [172B, 1472B]}\nfigures: [{x: traffic.p.ping.size, y: rtt-p50, series: flow, theory: ping-alone}]\n",
    );
    let curve = plan.study.figures[0].panels[0].curve.as_ref().unwrap();
    // 200 and 1,500 bytes of IP, eight bits each, both ways.
    let expected = [(172.0, 2.0 * (200.0 / 1_200.0 + 0.005)), (1_472.0, 2.0 * (1_500.0 / 1_200.0 + 0.005))];
    let near = |(is, meant): (&(f64, f64), &(f64, f64))| is.0 == meant.0 && (is.1 - meant.1).abs() < 1e-8;
    assert!(curve.points.len() == 2 && curve.points.iter().zip(&expected).all(near), "{:?}", curve.points);
    let told = refused(
        "  radio: {ends: [west, east], line: {baud: 9600}}",
        "sweep: {traffic.p.ping.size: [172B, 1472B]}\nfigures: [{x: time, y: share, series: flow}]\n",
    );
    assert!(told.contains("`share` cannot be drawn over `time`"), "{told}");
}
