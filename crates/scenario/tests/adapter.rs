//! Adapter configurations: what is read, and what is told about what cannot be.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic too")]

use adapter::{AdapterConfig, RuleClass, Schedule};
use engine::Span;
use scenario::parse_adapter_config;

fn read(text: &str) -> AdapterConfig {
    parse_adapter_config("adapter.yaml", text).unwrap_or_else(|error| panic!("{error}"))
}

fn refused(text: &str) -> Vec<String> {
    parse_adapter_config("adapter.yaml", text).unwrap_err().lines().collect()
}

#[test]
fn every_key_of_the_default_is_read_back() {
    let default = AdapterConfig::default();
    // JSON is YAML, but for what is switched off.
    let text = serde_json::to_string_pretty(&default).unwrap();
    assert_eq!(read(&text), default);
}

#[test]
fn what_is_written_counts_and_the_rest_is_default() {
    let config = read(
        "rate: 2400bit/s
schedule: priority
behaviour: none
rohc: {max-cid: 3, rtp-ports: [5004, 5006]}
session:
  keep-alive: 2s
  dead-after:
rules:
  - {match: {source: 10.0.0.0/8, protocol: udp, port: 5004}, class: real-time, bandwidth: 2kbit/s}
  - match: {destination: 'fd00::1'}
    class: data
    priority: 2
",
    );
    assert_eq!((config.rate.bits_per_second(), config.schedule), (2_400, Schedule::Priority));
    assert!(config.behaviour.is_none());
    assert_eq!(
        config.rohc.as_ref().map(|rohc| (rohc.max_cid, rohc.rtp_ports.as_slice())),
        Some((3, &[5004, 5006][..]))
    );
    assert_eq!(config.session.keep_alive, Span::from_secs(2));
    assert_eq!(config.session.dead_after, AdapterConfig::default().session.dead_after);
    let [voice, other] = &config.rules[..] else { panic!("{:?}", config.rules) };
    assert_eq!(
        (voice.class, voice.selector.protocol, voice.selector.port),
        (RuleClass::RealTime, Some(17), Some(5004))
    );
    assert_eq!(voice.selector.source.map(|network| network.prefix), Some(8));
    assert_eq!(other.selector.destination.map(|network| network.prefix), Some(128));
    assert_eq!(other.priority.index(), 2);
}

#[test]
fn mistakes_are_told_with_their_place_and_the_nearest_choice() {
    let error = parse_adapter_config("adapter.yaml", "rate: 9600bit/s\nshedule: fifo\n").unwrap_err();
    let shown = error.to_string();
    assert!(shown.contains("did you mean `schedule`?") && shown.contains("adapter.yaml:2:1"), "{shown}");

    let refused = |text: &str| refused(text).join(" | ");
    let told = refused("schedule: gap");
    assert!(told.starts_with("adapter.yaml:1:11: unknown value `gap`; choose one of `gaps`, `priority`"), "{told}");
    assert_eq!(refused("session:\n  hello: 3"), "adapter.yaml:2:10: `3` has no unit; write for example `315ms`");
    let told = refused("rules:\n  - {match: {port: 70000}, class: data}");
    assert!(told.starts_with("adapter.yaml:2:20: "), "{told}");
    let told = refused("rules:\n  - {match: {port: 5004}, class: data, priority: 4}");
    assert_eq!(told, "adapter.yaml:2:50: a priority is 0 to 3");
    let told = refused("rules: [{match: {port: 5004}}]");
    assert!(told.contains("1:9") && told.contains("`class` is missing"), "{told}");
    let told = refused("rohc: yes");
    assert!(told.contains("1:7") && told.contains("a mapping"), "{told}");
    let told = refused("session: {dead-after: 1s}");
    assert!(told.contains("session.dead-after` is 1s"), "{told}");
    // What is out of its range, too, at the value itself.
    let told = refused("schedule: gaps\nqueues:\n  data-packets: 64\n  data-bytes: 1KiB\n");
    assert!(told.starts_with("adapter.yaml:4:15: the adapter's `queues.data-bytes` is 1KiB"), "{told}");
    let told = refused("schedule: gaps\nrate: 1bit/s\n");
    assert!(told.starts_with("adapter.yaml:2:7: "), "{told}");
    // A default that does not go with what is written: where the mapping is.
    let told = refused("schedule: gaps\nsession:\n  keep-alive: 10s\n");
    assert!(told.starts_with("adapter.yaml:3:3: the adapter's `session.dead-after`"), "{told}");
}
