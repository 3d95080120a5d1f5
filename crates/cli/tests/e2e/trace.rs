//! `narrows trace`: traces are made, and what is found out about them.

use std::fs;

use serde_json::Value;

use crate::common::{Place, narrows};

/// Runs `narrows trace` in a place; gives its exit status, standard output and standard error.
fn trace(place: &Place, arguments: &[&str]) -> (i32, String, String) {
    let output = narrows(place, [&["trace"], arguments].concat()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

const SHORT: [&str; 8] = ["--duration", "20s", "--rate", "300/s", "--snap-length", "60", "--seed", "5"];

#[test]
fn a_made_trace_has_the_exponent_it_was_made_with() {
    let place = Place::new();
    let (status, out, error) = trace(&place, &[&["make", "--hurst", "0.8", "a.pcapng"], &SHORT[..]].concat());
    assert_eq!((status, error.as_str()), (0, ""), "{out}");
    assert!(out.starts_with("a.pcapng: ") && out.ends_with("seed 5\n"), "{out}");
    // The same seed, the same file.
    trace(&place, &[&["make", "--hurst", "0.8", "b.pcapng"], &SHORT[..]].concat());
    assert_eq!(fs::read(place.join("a.pcapng")).unwrap(), fs::read(place.join("b.pcapng")).unwrap());

    let few = ["--instances", "3", "--repetitions", "2"];
    let asked = ["lrd", "a.pcapng", "--slot", "10ms", "--json", "--out", "a.html"];
    let (status, out, error) = trace(&place, &[&asked[..], &few].concat());
    assert_eq!((status, error.as_str()), (0, ""));
    let lines = lines(&out);
    assert_eq!(lines.len(), 1 + 6);
    assert!((lines[0]["packets"].as_f64().unwrap() - 6_000.0).abs() < 600.0, "{out}");
    assert_eq!(lines[1]["case"], "original");
    for estimator in ["R/S", "aggregated variance", "wavelet", "local Whittle"] {
        let found = &lines[1]["hurst"][estimator];
        let end = |name: &str| found[name].as_f64().unwrap();
        // Twice as wide as the interval, for it fails now and then.
        let (low, high, middle) = (end("low"), end("high"), end("hurst"));
        assert!(2.0 * low - middle < 0.8 && 0.8 < 2.0 * high - middle, "{estimator}: {found}");
    }
    let page = fs::read_to_string(place.join("a.html")).unwrap();
    assert!(page.contains("<h1>a.pcapng</h1>") && page.contains("Sums of autocorrelations"));

    // A list of the same times gives the same answer, as text too.
    let times: String = {
        let (_, json, _) = trace(&place, &[&["make", "c.pcapng", "--model", "steady", "--json"], &SHORT[..]].concat());
        assert_eq!(lines_of(&json, "packets"), 6_000.0);
        (0..6_000).map(|i| format!("{}.{:06},60\n", i / 300, i % 300 * 1_000_000 / 300)).collect()
    };
    fs::write(place.join("c.csv"), format!("time,bytes\n{times}")).unwrap();
    let (status, text, error) = trace(&place, &[&["lrd", "c.csv"], &few[..]].concat());
    assert_eq!((status, error.as_str()), (0, ""));
    assert!(text.starts_with("c.csv: 6,000 packets in 20.0 s"), "{text}");
    assert!(text.contains("scaled: 3 instances; repeated: 2 times"), "{text}");
}

fn lines_of(json: &str, key: &str) -> f64 {
    lines(json)[0][key].as_f64().unwrap()
}

#[test]
fn other_models_make_traces_too() {
    let place = Place::new();
    for (model, source, destination) in
        [("pareto", "10.0.0.1", "10.0.0.2"), ("poisson", "2001:db8::1", "2001:db8::2"), ("fgn", "10.0.0.1", "10.0.0.2")]
    {
        let ends = ["--source", source, "--destination", destination, "--size", "48..1400"];
        let (status, out, error) =
            trace(&place, &[&["make", "x.pcapng", "--json", "--model", model], &ends[..], &SHORT[..]].concat());
        assert_eq!((status, error.as_str()), (0, ""), "{model}");
        let bytes = lines_of(&out, "ip_bytes") / lines_of(&out, "packets");
        assert!((bytes - 724.0).abs() < 50.0, "{model}: {out}");
    }
}

#[test]
fn what_cannot_be_made_or_examined_is_refused() {
    let place = Place::new();
    fs::write(place.join("text.csv"), "0.1\n0.2\nno time\n").unwrap();
    fs::write(place.join("few.csv"), "0.1\n0.2\n0.3\n").unwrap();
    fs::write(place.join("binary"), [0x7f, b'E', b'L', b'F', 0, 0, 0, 0, 0, 0, 0, 0]).unwrap();
    fs::write(place.join("empty"), "").unwrap();
    let refused: [(&[&str], i32, &str); 11] = [
        (&["lrd", "none.pcap"], 1, "No such file"),
        (&["lrd", "text.csv"], 2, "line 3: `no time` is not a time in seconds"),
        (&["lrd", "text.csv", "--filter", "udp"], 2, "leave --filter out"),
        (&["lrd", "few.csv"], 2, "3 packets are too few"),
        (&["lrd", "empty"], 2, "0 packets are too few"),
        (&["lrd", "binary"], 2, "binary: at byte 0"),
        (&["make", "x.pcapng", "--rate", "0/s"], 2, "gives no packets"),
        (&["make", "x.pcapng", "--rate", "9000000/s"], 2, "more than 100,000,000"),
        (&["make", "x.pcapng", "--hurst", "1.2"], 2, "over 0 and under 1"),
        (&["make", "x.pcapng", "--model", "pareto", "--hurst", "0.4"], 2, "a Pareto shape of 2.2"),
        (&["make", "x.pcapng", "--source", "::1"], 2, "not of one IP version"),
    ];
    for (arguments, status, says) in refused {
        let (exit, out, error) = trace(&place, arguments);
        assert_eq!(exit, status, "{arguments:?}: {error}");
        assert!(out.is_empty() && error.contains(says), "{arguments:?}: {error}");
    }
    assert!(!place.join("x.pcapng").exists());
}
