//! Generated flows: what comes out is what went in, or an error.

mod common;

use core::time::Duration;

use common::{Ip, Rtp};
use proptest::prelude::*;
use rohc::{Compressor, CompressorConfig, Decompressor, DecompressorConfig, Mode};

/// How an identification goes on.
#[derive(Clone, Copy, Debug)]
enum Id {
    Counts(u16),
    CountsSwapped(u16),
    Random(u16),
    Stays,
}

/// What changes with a packet, before it is sent.
#[derive(Clone, Debug)]
enum Change {
    Nothing,
    Tos(u8),
    Ttl(u8),
    Df,
    OuterTtl(u8),
    OuterTosAndDf(u8),
    Checksum,
    Marker,
    PayloadType(u8),
    Padding,
    Extension,
    /// Packets that were lost before the compressor.
    SnJump(u16),
    /// The packet before came late, or twice.
    SnBack(u16),
    TsSteps(u32),
    TsAnything(u32),
    Stride(u32),
}

/// What the line does to a packet.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Arrives,
    Lost,
    Twice,
    AfterTheNext,
    Damaged(usize, u8),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Transport {
    Rtp,
    Udp,
    Esp,
    Other,
}

#[derive(Clone, Debug)]
struct Flow {
    transport: Transport,
    ip: Ip,
    /// Outer headers, from the outermost.
    outer: Vec<Ip>,
    id: Id,
    outer_id: Id,
    rtp: Rtp,
    stride: u32,
    esp_sn: u32,
    checksum: bool,
}

fn id() -> impl Strategy<Value = Id> {
    prop_oneof![
        (1u16..4).prop_map(Id::Counts),
        (1u16..4).prop_map(Id::CountsSwapped),
        any::<u16>().prop_map(|odd| Id::Random(odd | 1)),
        Just(Id::Stays),
    ]
}

fn ip(host: u8) -> impl Strategy<Value = Ip> {
    (any::<bool>(), any::<u16>(), any::<bool>(), any::<u8>()).prop_map(move |(v6, id, df, ttl)| Ip {
        v6,
        host,
        tos: 0,
        ttl,
        id,
        df,
        flow_label: 0xabcde,
    })
}

fn flow(host: u8, transports: &'static [Transport]) -> impl Strategy<Value = Flow> {
    let transport = prop::sample::select(transports);
    let numbers = prop_oneof![Just(0u32), Just(u32::MAX - 3_000), any::<u32>()];
    (transport, ip(host), prop::collection::vec(ip(host), 0..3), id(), id(), numbers, 1u32..3_000, any::<bool>())
        .prop_map(move |(transport, ip, outer, id, outer_id, start, stride, checksum)| Flow {
            transport,
            ip,
            outer,
            id,
            outer_id,
            rtp: Rtp { sn: start as u16, timestamp: start, ssrc: u32::from(host), ..Rtp::new() },
            stride,
            esp_sn: start,
            checksum,
        })
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        30 => Just(Change::Nothing),
        1 => any::<u8>().prop_map(Change::Tos),
        1 => any::<u8>().prop_map(Change::Ttl),
        1 => Just(Change::Df),
        1 => any::<u8>().prop_map(Change::OuterTtl),
        1 => any::<u8>().prop_map(Change::OuterTosAndDf),
        1 => Just(Change::Checksum),
        2 => Just(Change::Marker),
        1 => (0u8..128).prop_map(Change::PayloadType),
        1 => Just(Change::Padding),
        1 => Just(Change::Extension),
        2 => prop_oneof![0u16..20, any::<u16>()].prop_map(Change::SnJump),
        1 => (1u16..4).prop_map(Change::SnBack),
        2 => prop_oneof![0u32..60, 0u32..100_000].prop_map(Change::TsSteps),
        1 => any::<u32>().prop_map(Change::TsAnything),
        1 => (0u32..3_000).prop_map(Change::Stride),
    ]
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        20 => Just(Fate::Arrives),
        3 => Just(Fate::Lost),
        1 => Just(Fate::Twice),
        1 => Just(Fate::AfterTheNext),
        1 => (any::<usize>(), 1u8..).prop_map(|(at, flip)| Fate::Damaged(at, flip)),
    ]
}

impl Flow {
    fn next(&mut self, change: &Change) -> Vec<u8> {
        for (ip, id) in self.outer.iter_mut().map(|ip| (ip, self.outer_id)).chain([(&mut self.ip, self.id)]) {
            ip.id = match id {
                Id::Counts(by) => ip.id.wrapping_add(by),
                Id::CountsSwapped(by) => ip.id.swap_bytes().wrapping_add(by).swap_bytes(),
                Id::Random(odd) => ip.id.wrapping_mul(0x6255).wrapping_add(odd),
                Id::Stays => ip.id,
            };
        }
        self.rtp.sn = self.rtp.sn.wrapping_add(1);
        self.rtp.timestamp = self.rtp.timestamp.wrapping_add(self.stride);
        self.esp_sn = self.esp_sn.wrapping_add(1);
        self.rtp.marker = false;
        match *change {
            Change::Nothing => {}
            Change::Tos(tos) => self.ip.tos = tos,
            Change::Ttl(ttl) => self.ip.ttl = ttl,
            Change::Df => self.ip.df = !self.ip.df,
            Change::OuterTtl(ttl) => self.outer.iter_mut().for_each(|ip| ip.ttl = ttl),
            Change::OuterTosAndDf(tos) => self.outer.iter_mut().for_each(|ip| (ip.tos, ip.df) = (tos, !ip.df)),
            Change::Checksum => self.checksum = !self.checksum,
            Change::Marker => self.rtp.marker = true,
            Change::PayloadType(payload_type) => self.rtp.payload_type = payload_type,
            Change::Padding => self.rtp.padding = !self.rtp.padding,
            Change::Extension => self.rtp.extension = !self.rtp.extension,
            Change::SnJump(by) => {
                self.rtp.sn = self.rtp.sn.wrapping_add(by);
                self.rtp.timestamp = self.rtp.timestamp.wrapping_add(self.stride.wrapping_mul(by.into()));
                self.esp_sn = self.esp_sn.wrapping_add(by.into());
            }
            Change::SnBack(by) => {
                self.rtp.sn = self.rtp.sn.wrapping_sub(by);
                self.rtp.timestamp = self.rtp.timestamp.wrapping_sub(self.stride.wrapping_mul(by.into()));
                self.esp_sn = self.esp_sn.wrapping_sub(by.into());
            }
            Change::TsSteps(by) => {
                self.rtp.timestamp = self.rtp.timestamp.wrapping_add(self.stride.wrapping_mul(by));
            }
            Change::TsAnything(timestamp) => self.rtp.timestamp = timestamp,
            Change::Stride(stride) => self.stride = stride,
        }
        let payload = self.esp_sn.to_be_bytes();
        let mut packet = match self.transport {
            Transport::Rtp => self.ip.udp((40_000, 5_004), self.checksum, &self.rtp.wrap(&payload)),
            Transport::Udp => self.ip.udp((1, 2), self.checksum, &payload),
            Transport::Esp => self.ip.esp(0x1234, self.esp_sn, &payload),
            Transport::Other => self.ip.wrap(132, &payload),
        };
        let mut is_v6 = self.ip.v6;
        for outer in self.outer.iter().rev() {
            packet = outer.wrap(if is_v6 { 41 } else { 4 }, &packet);
            is_v6 = outer.v6;
        }
        packet
    }
}

const ALL: &[Transport] = &[Transport::Rtp, Transport::Udp, Transport::Esp, Transport::Other];

fn config(max_cid: u16, repeats: u8, window: u8) -> CompressorConfig {
    CompressorConfig {
        max_cid,
        repeats,
        wlsb_window: window,
        fo_refresh_packets: 20,
        ir_refresh_packets: 50,
        ..CompressorConfig::default()
    }
}

fn decompressor(max_cid: u16, mode: Mode) -> Decompressor {
    Decompressor::new(DecompressorConfig { max_cid, mode, ..DecompressorConfig::default() })
}

/// Sends a flow over a line that does what `steps` say, and then nothing bad for a while.
fn cross_a_bad_line(
    mut flow: Flow,
    steps: &[(Change, Fate)],
    optimistic: bool,
    delay: usize,
) -> Result<(), TestCaseError> {
    let mode = if optimistic { Mode::Optimistic } else { Mode::Unidirectional };
    // Only the checksum can tell, so it stays on.
    flow.checksum = true;
    let mut compressor = Compressor::new(config(15, 3, 6));
    let mut decompressor = decompressor(15, mode);
    let mut now = Duration::ZERO;
    let mut late: Option<Vec<u8>> = None;
    let mut sent: Vec<Vec<u8>> = Vec::new();
    let mut back: Vec<Vec<u8>> = Vec::new();
    let clean = 120;
    let good = std::iter::repeat_n((Change::Nothing, Fate::Arrives), clean);
    let count = steps.len() + clean;
    for (n, (change, fate)) in steps.iter().cloned().chain(good).enumerate() {
        now += Duration::from_millis(20);
        let change = if matches!(change, Change::Checksum) { Change::Nothing } else { change };
        let packet = flow.next(&change);
        let mut line = Vec::new();
        compressor.compress(now, &packet, &mut line).expect("an IP packet");
        sent.push(packet);
        let mut arriving = Vec::new();
        let held = late.take();
        match fate {
            Fate::Arrives => arriving.push(line),
            Fate::Lost => {}
            Fate::Twice => arriving.extend([line.clone(), line]),
            Fate::AfterTheNext => late = Some(line),
            Fate::Damaged(at, flip) => {
                let at = at % line.len();
                line[at] ^= flip;
                arriving.push(line);
            }
        }
        arriving.extend(held);
        for line in arriving {
            let mut out = Vec::new();
            let result = decompressor.decompress(now, &line, &mut out);
            prop_assert_eq!(result.is_err(), out.is_empty());
            // Behind more than two IP headers UDP is payload, and a misread checksum of zero says nothing there.
            let covered = matches!(flow.transport, Transport::Rtp | Transport::Udp) && flow.outer.len() < 2;
            if result.is_ok() && covered {
                // What the checksum covers: of the innermost header the addresses, and all behind it.
                let part = |packet: &[u8]| {
                    let at = packet.len().saturating_sub(if flow.transport == Transport::Rtp { 24 } else { 12 });
                    packet[at..].to_vec()
                };
                prop_assert!(sent.iter().any(|sent| part(sent) == part(&out)), "{:?} {:02x?}", result, line);
            }
            if n + 10 > count {
                prop_assert!(result.is_ok(), "{result:?} {line:02x?} at {n} of {count}");
                // In mode O a change that was lost each time may leave every CRC as it was.
                if !optimistic {
                    prop_assert_eq!(&out, sent.last().expect("what was just sent"));
                }
            }
        }
        let mut feedback = Vec::new();
        decompressor.take_feedback(&mut feedback);
        back.push(feedback);
        if back.len() > delay {
            // A damaged packet may have looked like one with another CID.
            let _ = compressor.feedback(now, &back.remove(0));
        }
    }
    Ok(())
}

/// The damage changes the context's protocol number, of which IR-DYN packets say nothing.
#[test]
fn a_static_context_that_extension_3_damaged_is_asked_for() {
    let flow = Flow {
        transport: Transport::Other,
        ip: Ip { v6: true, host: 1, tos: 0, ttl: 0, id: 0, df: false, flow_label: 703_710 },
        outer: Vec::new(),
        id: Id::Counts(1),
        outer_id: Id::Counts(1),
        rtp: Rtp { padding: false, extension: false, marker: false, payload_type: 0, sn: 0, timestamp: 0, ssrc: 1 },
        stride: 1,
        esp_sn: 0,
        checksum: false,
    };
    let steps = [
        (Change::Nothing, Fate::Arrives),
        (Change::Ttl(100), Fate::Arrives),
        (Change::Nothing, Fate::Arrives),
        (Change::Tos(192), Fate::Damaged(700_684_435_472_843_703, 176)),
        (Change::Tos(0), Fate::Arrives),
        (Change::Nothing, Fate::Arrives),
        (Change::Nothing, Fate::Arrives),
    ];
    cross_a_bad_line(flow, &steps, true, 0).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// On a line that loses nothing, every packet of every flow arrives, with more flows than contexts too.
    #[test]
    fn without_loss_everything_arrives(
        flows in (flow(1, ALL), flow(2, ALL), flow(3, ALL), flow(4, ALL)),
        steps in prop::collection::vec((0usize..8, change()), 1..200),
        max_cid in prop::sample::select(vec![0u16, 1, 2, 15, 16, 300]),
        repeats in 1u8..5,
        window in 1u8..17,
        optimistic: bool,
    ) {
        let mode = if optimistic { Mode::Optimistic } else { Mode::Unidirectional };
        let mut flows = [flows.0, flows.1, flows.2, flows.3];
        let mut compressor = Compressor::new(config(max_cid, repeats, window));
        let mut decompressor = decompressor(max_cid, mode);
        let mut now = Duration::ZERO;
        for (which, change) in &steps {
            now += Duration::from_millis(20);
            // Half of the packets are the first flow's.
            let packet = flows[which.saturating_sub(4)].next(change);
            let (mut line, mut out) = (Vec::new(), Vec::new());
            let info = compressor.compress(now, &packet, &mut line).unwrap();
            let result = decompressor.decompress(now, &line, &mut out);
            prop_assert!(result.is_ok(), "{result:?} of {info:?} {line:02x?}");
            prop_assert_eq!(&out, &packet, "{:?} {:02x?}", info, line);
            let mut feedback = Vec::new();
            decompressor.take_feedback(&mut feedback);
            compressor.feedback(now, &feedback).unwrap();
        }
    }

    /// On a bad line nothing wrong arrives that the UDP checksum protects, and a while after the line is good
    /// again everything does; in mode U, where all is said again from time to time, as it was sent.
    #[test]
    fn a_bad_line_delivers_nothing_wrong_and_recovers(
        flow in flow(1, ALL),
        steps in prop::collection::vec((change(), fate()), 1..200),
        optimistic: bool,
        delay in 0usize..4,
    ) {
        cross_a_bad_line(flow, &steps, optimistic, delay)?;
    }

    /// Any octets give an error or a packet.
    #[test]
    fn any_octets_are_survived(
        flow in flow(1, ALL),
        garbage in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 1..40),
        large: bool,
    ) {
        let mut flow = flow;
        let max_cid = if large { 16_383 } else { 15 };
        let mut compressor = Compressor::new(config(max_cid, 3, 6));
        let mut decompressor = decompressor(max_cid, Mode::Optimistic);
        let mut now = Duration::ZERO;
        for octets in &garbage {
            now += Duration::from_millis(20);
            let (mut line, mut out) = (Vec::new(), Vec::new());
            compressor.compress(now, &flow.next(&Change::Nothing), &mut line).unwrap();
            let _ = decompressor.decompress(now, &line, &mut out);
            let _ = decompressor.decompress(now, octets, &mut out);
            // Behind the type octet of every kind of packet.
            let mut aimed = vec![[0x00, 0x80, 0xa0, 0xc0, 0xd0, 0xf8, 0xfc, 0xfd][octets.len() % 8]];
            aimed.extend_from_slice(octets);
            let _ = decompressor.decompress(now, &aimed, &mut out);
            let _ = compressor.feedback(now, octets);
            let mut element = vec![0xf0, octets.len() as u8];
            element.extend_from_slice(octets);
            let _ = compressor.feedback(now, &element);
            let _ = compressor.compress(now, octets, &mut line);
        }
    }
}
