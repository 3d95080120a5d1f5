//! Load files: the thesis's spellings are taken, and what is wrong is told with its place and remedy.

use std::path::Path;

use engine::Span;
use scenario::load::{Load, LoadPlan, TeidChoice, Upf};
use scenario::parse_load;
use traffic::models::{Model, PacketRate};
use wire::pfcp::value::Name;

fn parse(text: &str) -> Result<LoadPlan, String> {
    parse_load("l.yaml", "l", text, Path::new("traces"), 1)
        .map_err(|error| error.lines().collect::<Vec<_>>().join("\n"))
}

fn refused(text: &str) -> String {
    match parse(text) {
        Ok(_) => "nothing".into(),
        Err(why) => why,
    }
}

/// Listing 1 of the thesis as it stands, and the fields that its text names.
const LISTING_1: &str = "
session_group:
  name:          base
  start_ue_address: 22.64.0.1
  nr_sessions:    2
  start_teid:     839248
  predefined_type: simplest
  core_network_instance: sgi1
  node_id_fqdn:   pgwc.com
";

#[test]
fn the_thesis_s_listing_loads() {
    let plan = parse(LISTING_1).unwrap();
    let group = &plan.population.groups()[0];
    assert_eq!((plan.name.as_str(), group.name.as_str()), ("l", "base"));
    assert_eq!(group.ues.to_string(), "22.64.0.1 to 22.64.0.2");
    assert_eq!((group.start_teid, group.flows_per_ue, group.flows), (839_248, 1, 2));
    assert_eq!(plan.pfcp.node_id.as_ref().map(Name::as_str), Some("pgwc.com"));
    assert_eq!(plan.groups[0].predefined.as_deref(), Some("simplest"));
    assert_eq!(plan.groups[0].core_instance.as_ref().map(Name::as_str), Some("sgi1"));
    assert!(plan.groups[0].load.is_nothing());
    assert_eq!((plan.upf, plan.duration), (Upf::Own, Span::from_secs(10)));
}

#[test]
fn models_and_traces_stand_side_by_side() {
    let plan = parse(
        "
run_time: 60
samples_per_second: 5
pfcp: {teid: fixed}
session_group:
  - name: steady
    start_ue_address: 10.0.0.1
    nr_sessions: 10
    flows_per_ue: 2
    load: {type: steady-rate, uplink: 100, downlink: 0.5/s, interval: 10s, packet_size: 146}
  - name: steps
    start_ue_address: 2001:db8::1
    load: {type: step, uplink: 100, step: 50, interval: 2, packet_size: {80: 1, 1400: 3}}
  - name: tcp
    start_ue_address: 10.1.0.1
    pdn_start_address: 194.0.0.0
    load: {type: trace, trace: a.pcap, repetitions: 28, instances: 4, spacing: jitter, ue: [10.0.0.0/8]}
",
    )
    .unwrap();
    assert_eq!((plan.duration, plan.samples_per_second), (Span::from_secs(60), 5));
    assert_eq!(plan.pfcp.teid, TeidChoice::Fixed);
    // Ten packets a second: a hundred each ten seconds.
    let Load::Model { models, .. } = &plan.groups[0].load else { panic!("no model") };
    let rate = PacketRate::new(100, Span::from_secs(10)).unwrap();
    assert_eq!(models[0], Some(Model::Steady { rate }));
    let Load::Model { models, .. } = &plan.groups[1].load else { panic!("no model") };
    assert_eq!(models[0].as_ref().unwrap().expected(Span::from_secs(5)), 200.0 + 300.0 + 200.0);
    assert_eq!(models[1], None);
    let Load::Trace(trace) = &plan.groups[2].load else { panic!("no trace") };
    assert_eq!((trace.repetitions, trace.path.as_path()), (28, Path::new("traces/a.pcap")));
    // TEIDs follow those of the groups before; flows are instances.
    let groups = plan.population.groups();
    assert_eq!(groups.iter().map(|group| group.start_teid).collect::<Vec<_>>(), [1, 11, 12]);
    assert_eq!(groups.iter().map(|group| group.flows).collect::<Vec<_>>(), [20, 1, 4]);
}

#[test]
fn another_upf_has_interfaces() {
    let plan = parse(
        "
n3: {interface: eth1, address: 10.3.0.1, upf: 10.3.0.2}
n4: {upf: 10.4.0.2}
n6: {interface: eth2, address: 10.6.0.1, gateway: 10.6.0.2}
session_group: {name: a, start_ue_address: 10.0.0.1}
",
    )
    .unwrap();
    let Upf::Other(interfaces) = plan.upf else { panic!("the own one") };
    assert_eq!((interfaces.n3.interface.as_str(), interfaces.n6.gateway.to_string().as_str()), ("eth1", "10.6.0.2"));
    assert_eq!(
        refused("n4: {upf: 10.4.0.2}\nsession_group: {name: a, start_ue_address: 10.0.0.1}\n"),
        "l.yaml:1:1: `n3` is missing in a load file; write `n3: {interface: enp1s0, address: 10.3.0.1, upf: 10.3.0.2}`"
    );
}

#[test]
fn what_overlaps_is_told_with_its_place() {
    let two = |second: &str| {
        let first = "{name: a, start_ue_address: 10.0.0.1, nr_sessions: 10, start_teid: 100}";
        refused(&format!("session_group:\n  - {first}\n  - {second}\n"))
    };
    assert_eq!(
        two("{name: b, start_ue_address: 10.0.0.10}"),
        "l.yaml:3:33: UE addresses 10.0.0.10 of `b` overlap with 10.0.0.1 to 10.0.0.10 of `a`; \
         begin one of them elsewhere"
    );
    assert_eq!(
        two("{name: b, start_ue_address: 10.1.0.1, start_teid: 109}"),
        "l.yaml:3:55: TEIDs 109 to 109 of `b` overlap with 100 to 109 of `a`; begin one of them elsewhere"
    );
    assert_eq!(
        two("{name: b, start_ue_address: 10.1.0.1, pdn_start_address: 10.0.0.3}"),
        "l.yaml:3:62: UE addresses 10.0.0.1 to 10.0.0.10 of `a` overlap with PDN addresses 10.0.0.3 of `b`; \
         begin one of them elsewhere"
    );
    assert_eq!(
        two("{name: a, start_ue_address: 10.1.0.1}"),
        "l.yaml:3:12: two groups are called `a`; rename one of them"
    );
}

#[test]
fn what_is_wrong_is_told() {
    let group =
        |load: &str| refused(&format!("session_group: {{name: a, start_ue_address: 10.0.0.1, load: {{{load}}}}}"));
    let told = [
        (group("type: stedy, uplink: 1"), "unknown load type `stedy`"),
        (group("type: steady"), "this load sends nothing"),
        (group("type: steady, uplink: x/s"), "is not a rate of packets"),
        (group("type: steady, uplink: 1, hurst: 0.8"), "`hurst` means nothing for a load of type `steady`"),
        (group("type: fgn, uplink: 1, hurst: 1"), "a Hurst exponent of 1 cannot be"),
        (group("type: trace, trace: a.pcap, uplink: 5"), "`uplink` means nothing for a load of type `trace`"),
        (group("type: trace, trace: a.pcap, filter: tcp porn 5"), "column 5 of the filter"),
        (group("type: trace"), "`trace` is missing in a load"),
        (group("type: steady, uplink: 1, packet_size: 20"), "choose from 52 to 1800"),
        (group("type: steady, uplink: 1, packet_size: {from: 900, to: 100}"), "the first must not be larger"),
        (refused("duration: 5s"), "`session_group` is missing"),
        (refused("duration: 48h\nsession_group: {name: a, start_ue_address: 10.0.0.1}"), "is longer than a run may be"),
        (refused("session_group: {name: a, start_ue_address: 300.0.0.1}"), "`300.0.0.1` is not an IP address"),
        (refused("session_group: {name: a, start_ue_address: 224.0.0.1}"), "is not the address of a host"),
        (refused("session_group: {name: a, start_ue_address: 10.0.0.1, node_id_fqdn: a..b}"), "`a..b` is not a name"),
        (refused("session_group: []"), "must not be empty"),
    ];
    for (said, what) in told {
        assert!(said.contains(what), "{said:?} does not say {what:?}");
    }
}
