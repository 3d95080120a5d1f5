//! What the language means: each test is a feature of it.

use engine::{Rate, Size, Span};
use link::{Change, DelayModel, Direction, LossAt, LossModel, Markov4, RateModel};
use queue::{Codel, Discipline, FqCodel};
use scenario::plan::{Cell, Plan, TcpEngine, Traffic};
use scenario::{FileError, Options, link, link_changes, parse};

fn read(name: &str) -> Result<String, FileError> {
    match name {
        "cell.trace" => Ok("0\n5\n5\n10\n".to_owned()),
        "delays.txt" => Ok("# measured\n20ms\n10ms\n\n15.5ms\n".to_owned()),
        "voyage.csv" => Ok("time_s, delay_ms\n0, 10\n1.5, 300\n".to_owned()),
        "loss.txt" => Ok("0100 1\n1\n".to_owned()),
        _ => Err(std::io::Error::from(std::io::ErrorKind::NotFound).into()),
    }
}

fn plan_with(text: &str, quick: bool, set: &[&str]) -> Plan {
    let set = set.iter().map(|option| (*option).to_owned()).collect();
    parse("test.yaml", text, &read, &Options { quick, set, seed: 7, ..Options::default() })
        .unwrap_or_else(|error| panic!("{error}"))
}

fn plan(text: &str) -> Plan {
    plan_with(text, false, &[])
}

/// A plan of one cell whose link has these keys beside its ends.
fn linked(keys: &str) -> Cell {
    let text = format!(
        "name: t\nsites: [a, b]\nlinks: {{l: {{ends: [a, b]{keys}}}}}\ntraffic: {{x: {{from: a, to: b, service: ais}}}}\n"
    );
    plan(&text).cells.remove(0)
}

/// A plan of one cell with these traffic entries over a perfect link.
fn sending(entries: &str) -> Cell {
    let text =
        format!("name: t\nsites: [a, b]\nlinks: {{l: {{ends: [a, b], profile: perfect}}}}\ntraffic: {{{entries}}}\n");
    plan(&text).cells.remove(0)
}

fn ms(millis: u64) -> Span {
    Span::from_millis(millis)
}

fn mbit(rate: u64) -> Rate {
    Rate::from_bits_per_second(rate * 1_000_000).expect("a rate")
}

#[test]
fn a_direction_goes_before_the_link_and_the_link_before_its_profile() {
    let cell = linked(", profile: satellite-1, delay: 200ms, loss: 1%, down: {delay: 50ms, rate: unlimited}");
    let (up, down) = (&cell.links[0].packets().unwrap()[0].pipe, &cell.links[0].packets().unwrap()[1].pipe);
    assert_eq!(up.rate, Some(RateModel::Constant(mbit(5))));
    assert_eq!(down.rate, None);
    assert_eq!((&up.delay, &down.delay), (&DelayModel::Constant(ms(200)), &DelayModel::Constant(ms(50))));
    assert_eq!((&up.loss, &down.loss), (&LossModel::Bernoulli(0.01), &LossModel::Bernoulli(0.01)));
    // dummynet's 50 slots come with the paper's profiles.
    assert_eq!((up.queue.packets, up.queue.bytes), (Some(50), None));
    assert_eq!(cell.links[0].profile.as_deref(), Some("satellite-1"));
}

#[test]
fn a_queue_holds_50_packets_or_a_bandwidth_delay_product_whichever_is_more() {
    let packets = |keys: &str| linked(keys).links[0].packets().unwrap()[0].pipe.queue.packets;
    // 100 Mbit/s over 100 ms is 1,250,000 B: 834 packets of 1,500 bytes, 813 of 1,538.
    assert_eq!(packets(", rate: 100Mbit/s, delay: 50ms"), Some(834));
    assert_eq!(packets(", rate: 100Mbit/s, delay: 50ms, overhead: 38B"), Some(813));
    assert_eq!(packets(", rate: 100Mbit/s, up: {delay: 90ms}, down: {delay: 10ms}"), Some(834));
    assert_eq!(packets(", rate: 100Mbit/s, delay: {uniform: {min: 0, max: 100ms}}"), Some(834));
    assert_eq!(packets(", rate: 100Mbit/s, delay: {pareto: {scale: 25ms, shape: 2}}"), Some(834));
    assert_eq!(packets(", rate: 1Mbit/s, delay: 50ms"), Some(50));
    assert_eq!(packets(", delay: 50ms"), Some(50));
    assert_eq!(packets(", profile: 5g-1"), Some(50));
    assert_eq!(packets(", profile: 5g-1, queue: {packets: bdp, discipline: codel}"), Some(88));
}

#[test]
fn queues_are_limits_and_disciplines() {
    let queue = |keys: &str| {
        linked(&format!(", rate: 1Mbit/s, queue: {keys}")).links[0].packets().unwrap()[0].pipe.queue.clone()
    };
    assert_eq!(queue("20").packets, Some(20));
    let bytes = queue("64KiB");
    assert_eq!((bytes.packets, bytes.bytes), (None, Some(Size::from_bytes(65_536))));
    assert_eq!(queue("codel").discipline, Discipline::Codel(Codel::default()));
    assert_eq!(queue("codel").packets, Some(50));
    let both = queue("{packets: 9, bytes: 9kB, discipline: fq-codel, flows: 8, target: 7ms, ecn: false}");
    assert_eq!((both.packets, both.bytes), (Some(9), Some(Size::from_bytes(9_000))));
    let codel = Codel { target: ms(7), interval: ms(100), ecn: false };
    assert_eq!(both.discipline, Discipline::FqCodel(FqCodel { flows: 8, codel, ..FqCodel::default() }));
}

#[test]
fn models_of_rate_delay_and_loss() {
    let cell = linked(", rate: {token-bucket: {rate: 5Mbit/s, burst: 32KiB}}, loss-at: air, reorder: true");
    let pipe = &cell.links[0].packets().unwrap()[0].pipe;
    let bucket = RateModel::TokenBucket { rate: mbit(5), burst: Size::from_bytes(32_768) };
    assert_eq!((pipe.rate.as_ref(), pipe.loss_at, pipe.reorder), (Some(&bucket), LossAt::Air, true));

    let loss = |keys: &str| linked(&format!(", loss: {keys}")).links[0].packets().unwrap()[1].pipe.loss.clone();
    let LossModel::GilbertElliott(two) = loss("{gilbert-elliott: {p: 1%, r: 0.3}}") else { panic!("another model") };
    assert_eq!((two.p, two.r, two.loss_bad, two.loss_good), (0.01, 0.3, 1.0, 0.0));
    let four = Markov4 { p13: 0.25, p31: 0.75, p32: 0.0, p23: 1.0, p14: 0.0 };
    assert_eq!(loss("{markov4: {p13: 0.25}}"), LossModel::Markov4(four));
    let LossModel::Trace(trace) = loss("{trace: loss.txt}") else { panic!("another model") };
    assert_eq!(trace.lost, [false, true, false, false, true, true]);

    let delay = |keys: &str| linked(&format!(", delay: {keys}")).links[0].packets().unwrap()[0].pipe.delay.clone();
    let DelayModel::Empirical(table) = delay("{table: delays.txt}") else { panic!("another model") };
    assert_eq!(table.delays, [ms(10), Span::from_micros(15_500), ms(20)]);
    let DelayModel::Timeline(line) = delay("{timeline: voyage.csv, interpolate: true}") else {
        panic!("another model")
    };
    assert_eq!((line.steps, line.interpolate), (vec![(Span::ZERO, ms(10)), (ms(1_500), ms(300))], true));

    let Some(RateModel::Opportunities(trace)) =
        linked(", rate: {mahimahi: cell.trace}").links[0].packets().unwrap()[0].pipe.rate.clone()
    else {
        panic!("another model")
    };
    assert_eq!((trace.at_ms, trace.source.as_str()), (vec![0, 5, 5, 10], "cell.trace"));
}

#[test]
fn a_branch_is_as_its_direction_where_it_says_nothing() {
    let branches = "branches: {voice: {match: {dscp: 46, source: 10.0.0.0/8, protocol: udp}, loss: 0, queue: 5}}";
    let cell = linked(&format!(", rate: 1Mbit/s, loss: 0.1, up: {{{branches}}}"));
    let (up, down) = (&cell.links[0].packets().unwrap()[0], &cell.links[0].packets().unwrap()[1]);
    let branch = &up.branches[0];
    assert_eq!(
        (branch.name.as_str(), branch.selector.headers.dscp, branch.selector.headers.protocol),
        ("voice", Some(46), Some(17))
    );
    assert_eq!(branch.selector.headers.source.unwrap().prefix, 8);
    assert_eq!(branch.pipe.rate, Some(RateModel::Constant(mbit(1))));
    assert_eq!((&branch.pipe.loss, branch.pipe.queue.packets), (&LossModel::Bernoulli(0.0), Some(5)));
    assert_eq!(up.pipe.loss, LossModel::Bernoulli(0.1));
    assert!(down.branches.is_empty());
}

#[test]
fn traffic_is_voice_calls_or_packet_pairs() {
    let cell = sending(
        "m: {from: a, to: b, voice: melp-1200},
         r: {from: a, to: b, voice: {codec: melp-2400, every: 200ms, rtp: true, talk: p59, port: 5004}},
         x: {from: b, to: a, voice: {codec: {bits: 54, frame: 22500us}, frames: 4, talk: {pause: 1s}, ie: 20}},
         c: {from: a, to: b, call: {voice: melp-1200, both-ways: true, hold: 5s}},
         p: {from: a, to: b, pairs: {sizes: {from: 60B, to: 100B, step: 20B}, rounds: 1, every: 1s, zeros: true}}",
    );
    let [m, r, x, c, p] = &cell.flows[..] else { panic!("five flows") };
    let Traffic::Voice(melp) = &m.traffic else { panic!("voice") };
    assert_eq!((melp.payload.bytes(), melp.every, melp.rtp), (33, Span::from_micros(202_500), None));
    assert_eq!(melp.rate().unwrap().bits_per_second(), 1_303);
    let Traffic::Voice(rtp) = &r.traffic else { panic!("voice") };
    assert_eq!((rtp.payload.bytes(), rtp.every, rtp.rtp), (63, Span::from_millis(200), Some(96)));
    assert_eq!((rtp.port, rtp.talk.map(|talk| talk.spurt)), (5_004, Some(Span::from_millis(1_004))));
    let Traffic::Voice(custom) = &x.traffic else { panic!("voice") };
    assert_eq!((custom.codec.as_str(), custom.payload.bytes(), custom.packet), ("custom", 28, Span::from_millis(90)));
    assert_eq!((custom.ie, custom.talk.map(|talk| talk.pause)), (20.0, Some(Span::from_secs(1))));
    let Traffic::Call(call) = &c.traffic else { panic!("call") };
    assert_eq!((call.voice.rtp, call.t1, c.udp_ports(3)), (Some(96), Span::from_secs(2), vec![5_063, 16_390]));
    let Traffic::Pairs(pairs) = &p.traffic else { panic!("pairs") };
    assert_eq!((&pairs.sizes, pairs.header, pairs.zeros), (&vec![60, 80, 100], 28, true));
}

#[test]
fn traffic_is_tcp_udp_or_ping() {
    let cell = sending(
        "s: {from: a, to: b, service: ais, tcp: {engine: iperf3, congestion: bbr}, dscp: 46},
         t: {from: b, to: a, tcp: {write: 4KiB}, start: 2s, stop: 8s},
         u: {from: a, to: b, udp: {rate: 64kbit/s}},
         p: {from: a, to: b, ping: {}, stop: 10s}",
    );
    let [s, t, u, p] = &cell.flows[..] else { panic!("four flows") };
    let Traffic::Tcp(tcp) = &s.traffic else { panic!("TCP") };
    assert_eq!((tcp.rate.unwrap().bits_per_second(), tcp.write.bytes()), (100_000, 1_250));
    assert_eq!((tcp.congestion.as_str(), tcp.engine, s.dscp), ("bbr", TcpEngine::Iperf3, 46));
    let Traffic::Tcp(tcp) = &t.traffic else { panic!("TCP") };
    assert_eq!((tcp.rate, tcp.write.bytes(), (t.from, t.to)), (None, 4_096, (1, 0)));
    assert_eq!((t.start, t.stop), (Span::from_secs(2), Some(Span::from_secs(8))));
    let Traffic::Udp(udp) = &u.traffic else { panic!("UDP") };
    assert_eq!(udp.size.bytes(), 200);
    let Traffic::Ping(ping) = &p.traffic else { panic!("ping") };
    assert_eq!((ping.interval, ping.size.bytes()), (Span::from_secs(1), 56));
    // To stop at the end is not to stop.
    assert_eq!(p.stop, None);
}

#[test]
fn a_flow_may_cross_several_links() {
    let text = "
name: t
sites: [ship, relay, shore]
links:
  near: {ends: [ship, relay], profile: perfect}
  far: {ends: [relay, shore], profile: satellite-1}
traffic: {x: {from: shore, to: ship, service: gmdss}}
";
    let plan = plan(text);
    assert_eq!(plan.cells[0].links.len(), 2);
    assert_eq!((plan.cells[0].flows[0].from, plan.cells[0].flows[0].to), (2, 0));
}

#[test]
fn paths_have_an_mtu_inside() {
    let text = |path: &str| {
        format!(
            "name: t\nsites: [a, b]\nlinks: {{l: {{ends: [a, b]}}}}\npaths: {{host: {{}}, over: {{vxlan: {{}}}}, low: {{mtu: 1440}}}}\n\
             path: {path}\ntraffic: {{x: {{from: a, to: b, service: ais}}}}\n"
        )
    };
    let path = |name: &str| plan(&text(name)).cells[0].path.clone();
    assert_eq!((path("host").mtu, path("host").vxlan), (1_500, false));
    assert_eq!((path("over").mtu, path("over").vxlan), (1_450, true));
    assert_eq!(path("low").mtu, 1_440);
}

const SWEPT: &str = "
name: swept
sites: [a, b]
links: {l: {ends: [a, b], profile: satellite-1, delay: 1ms}}
traffic:
  slow: {from: a, to: b, service: gmdss}
  fast: {from: a, to: b, service: lidar}
  probe: {from: a, to: b, ping: {}}
sweep:
  traffic: [slow, [slow, fast, probe]]
  l.loss: {from: 0, to: 2%, step: 1%}
  traffic.*.tcp.engine: [own, iperf3]
measure: {duration: 20s, interval: 10s, repeat: 2}
expect:
  - {that: loss, where: {l.loss: 0%}, holds: '< 1%'}
  - {that: goodput, where: {links.l.loss: 2%, flow: [slow, fast]}, holds: '> 0'}
quick: {l.loss: [2%], measure.duration: 5s, measure.repeat: 1}
";

#[test]
fn cells_are_every_combination_last_key_fastest_and_repeats_outermost() {
    let plan = plan(SWEPT);
    assert_eq!(plan.cells.len(), 2 * 3 * 2 * 2);
    let labels = |cell: &Cell| cell.coordinates.iter().map(|(_, value)| value.label.clone()).collect::<Vec<_>>();
    assert_eq!(labels(&plan.cells[1]), ["slow", "0%", "iperf3"]);
    assert_eq!(labels(&plan.cells[6]), ["slow+fast+probe", "0%", "own"]);
    assert_eq!((plan.cells[12].repeat, plan.cells[12].id), (1, 12));
    assert_eq!(labels(&plan.cells[12]), labels(&plan.cells[0]));
    assert_ne!(plan.cells[12].seed, plan.cells[0].seed);
    assert_eq!((plan.cells[0].flows.len(), plan.cells[6].flows.len()), (1, 3));
    assert_eq!(plan.cells[2].links[0].packets().unwrap()[0].pipe.loss, LossModel::Bernoulli(0.01));
    assert_eq!(plan.study.axes[1].values[1].number, Some(0.01));
    // `*` means the entries that have TCP, by themselves or by their service.
    let engine = |i: usize| plan.cells[7].flows[i].traffic.clone();
    assert!(matches!(engine(1), Traffic::Tcp(tcp) if tcp.engine == TcpEngine::Iperf3));
    assert!(matches!(engine(2), Traffic::Ping(_)));
    // Keys in questions are the axes', however they were written.
    assert_eq!(plan.study.expectations[1].select.0[0].0, "l.loss");
}

#[test]
fn quick_replaces_what_is_swept_and_assigns_the_rest() {
    let plan = plan_with(SWEPT, true, &[]);
    assert_eq!(plan.cells.len(), 4);
    assert_eq!(plan.study.axes[1].values.len(), 1);
    // Who shortens the run means its intervals too.
    assert_eq!((plan.cells[0].duration, plan.cells[0].interval), (Span::from_secs(5), Span::from_secs(5)));
    // The expectation about a loss that quick leaves out is left out.
    assert_eq!(plan.study.expectations.len(), 1);
}

#[test]
fn set_goes_before_quick_and_the_file() {
    let plan =
        plan_with(SWEPT, true, &["l.loss=[0, 0.5]", "traffic=fast", "l.delay=7ms", "seed=9", "measure.warmup=1s"]);
    let losses: Vec<_> = plan.study.axes[1].values.iter().map(|value| value.label.as_str()).collect();
    assert_eq!(losses, ["0", "0.5"]);
    assert_eq!((plan.cells.len(), plan.seed), (4, 9));
    assert!(plan.cells.iter().all(|cell| cell.flows.len() == 1 && cell.flows[0].name == "fast"));
    assert_eq!(plan.cells[0].links[0].packets().unwrap()[1].pipe.delay, DelayModel::Constant(ms(7)));
    assert_eq!(plan.cells[0].warmup, Span::from_secs(1));
    assert_eq!(plan.set.len(), 5);
}

#[test]
fn a_cells_seed_follows_from_the_runs_and_its_coordinates() {
    let (one, same) = (plan(SWEPT), plan(SWEPT));
    assert_eq!(one, same);
    let other = plan_with(SWEPT, false, &["seed=8"]);
    assert_eq!((one.seed, other.seed), (7, 8));
    assert!(one.cells.iter().zip(&other.cells).all(|(a, b)| a.seed != b.seed));
    let fewer = plan_with(SWEPT, false, &["traffic=slow"]);
    assert!(fewer.cells.iter().all(|cell| {
        one.cells.iter().any(|other| other.seed == cell.seed && other.coordinates == cell.coordinates)
    }));
}

#[test]
fn aliases_repeat_values() {
    let text = "
name: t
sites: [a, b]
links:
  one: {ends: [a, b], up: &bad {loss: 0.2}, down: *bad}
traffic: {x: {from: a, to: b, service: ais}}
";
    let cell = plan(text).cells.remove(0);
    assert_eq!(cell.links[0].packets().unwrap()[0], cell.links[0].packets().unwrap()[1]);
}

#[test]
fn a_link_stands_alone_for_the_command_line() {
    let changes = ["up.rate=2Mbit/s", "loss=5%", "down.delay=1s"].map(str::to_owned);
    let made = link("sea", "5g-2", &changes).unwrap();
    assert_eq!((made.name.as_str(), made.ends, made.profile.as_deref()), ("sea", (0, 1), Some("5g-2")));
    assert_eq!(made.packets().unwrap()[0].pipe.rate, Some(RateModel::Constant(mbit(2))));
    assert_eq!(made.packets().unwrap()[1].pipe.rate, Some(RateModel::Constant(mbit(592))));
    assert_eq!(made.packets().unwrap()[0].pipe.delay, DelayModel::Constant(ms(13)));
    assert_eq!(made.packets().unwrap()[1].pipe.loss, LossModel::Bernoulli(0.05));
}

#[test]
fn a_running_link_is_changed_key_by_key() {
    let changes = ["loss=0.1", "up.rate=unlimited", "down.branches.voice.delay=5ms", "queue=64KiB"].map(str::to_owned);
    let changes = link_changes(&changes).unwrap();
    let told: Vec<_> = changes.iter().map(|c| (c.up, c.down, c.pipe.as_str(), c.change.clone())).collect();
    let bytes = Some(Size::from_bytes(65_536));
    assert_eq!(
        told,
        [
            (true, true, Direction::MAIN, Change::Loss(LossModel::Bernoulli(0.1))),
            (true, false, Direction::MAIN, Change::Rate(None)),
            (false, true, "voice", Change::Delay(DelayModel::Constant(ms(5)))),
            (true, true, Direction::MAIN, Change::QueueLimits { packets: None, bytes }),
        ]
    );
}

#[test]
fn branches_that_read_what_a_tunnel_hides_are_warned_of_on_tunnels_alone() {
    let warnings = |branch: &str, sweep: &str| {
        let text = format!(
            "name: t\nsites: [a, b]\nlinks: {{l: {{ends: [a, b], rate: 1Mbit/s, up: {{branches: {{voice: {{match: {branch}}}}}}}}}}}\n\
             paths: {{host: {{mtu: 1440}}, overlay: {{vxlan: {{mtu: 1440}}}}, secured: {{esp: true}}}}\nsweep: {{path: {sweep}, l.loss: [0, 0.01]}}\n\
             traffic: {{x: {{from: a, to: b, service: ais}}}}\n"
        );
        plan(&text).warnings()
    };
    for branch in ["{port: 5004}", "{source: 10.0.0.0/8}", "{protocol: udp}"] {
        for (path, seen) in [("overlay", "VXLAN"), ("secured", "ESP")] {
            let said = warnings(branch, &format!("[host, {path}]"));
            let right = said.len() == 1
                && [&format!("`{path}`"), "`voice` of `l`", seen].iter().all(|part| said[0].contains(*part));
            assert!(right, "{said:?}");
        }
        assert_eq!(warnings(branch, "[host]"), [""; 0]);
    }
    // Tunnels show the code point of what is inside.
    assert_eq!(warnings("{dscp: 46}", "[overlay, secured]"), [""; 0]);
    assert_eq!(warnings("{probability: 0.5}", "[overlay]"), [""; 0]);
}

#[test]
fn the_version_of_ip_sets_headers_and_least_mtu() {
    let text = |ip: &str, path: &str, size: u32| {
        format!(
            "name: t\nip: {ip}\nsites: [a, b]\nlinks: {{l: {{ends: [a, b]}}}}\npaths: {{p: {path}}}\n\
             traffic: {{x: {{from: a, to: b, udp: {{rate: 1Mbit/s, size: {size}B}}}}}}\n"
        )
    };
    let path = |ip: &str, path: &str, size: u32| {
        let plan = parse("t", &text(ip, path, size), &|_| unreachable!("it names no file"), &Options::default());
        plan.map(|plan| plan.cells[0].path.clone()).map_err(|error| error.to_string())
    };
    for (ip, default, inside, overhead, header) in [("4", 1_500, 1_450, 50, 20), ("6", 1_500, 1_430, 70, 40)] {
        assert_eq!(path(ip, "{}", 200).unwrap().mtu, default);
        let overlay = path(ip, "{vxlan: {}}", 200).unwrap();
        assert_eq!((overlay.mtu, overlay.largest_sent() - overlay.mtu), (inside, overhead));
        assert_eq!(overlay.largest_packet(), 1_500);
        // 8 ESP, 8 vector, 2 trailer, 16 check value, and the outer header; to 4 bytes.
        let protected = path(ip, "{esp: true}", 200).unwrap();
        assert_eq!((protected.mtu, protected.largest_packet()), (1_466 - header as u16, 1_500));
        let both = path(ip, "{esp: true, vxlan: {}}", 200).unwrap();
        assert_eq!((both.mtu, both.largest_packet()), (protected.mtu - overhead, 1_500));
        // A datagram fits exactly.
        path(ip, "{mtu: 1280}", 1_280 - header - 8).unwrap();
        path(ip, "{mtu: 1280}", 1_280 - header - 7).unwrap_err();
    }
    assert_eq!(path("4", "{mtu: 576}", 200).unwrap().mtu, 576);
    let refused = path("6", "{mtu: 1279}", 200).unwrap_err();
    assert!(refused.contains("choose from 1280 to 9000"), "{refused}");
    assert!(path("5", "{}", 200).unwrap_err().contains("unknown version of IP `5`"));
}
