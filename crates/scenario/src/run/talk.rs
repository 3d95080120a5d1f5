//! Flows of datagrams whose ends keep logs: how both executors make their ends, and what is worked
//! out from the logs afterwards.

use std::net::IpAddr;

use engine::{Random, Span, Time};
use measure::{CallsRecord, Observation, PacketCounts, PacketPoint, PairsRecord, SERIES_LIMIT, Snapshot, VoiceRecord};
use traffic::application::{jitter, passages, quantile, variations};
use traffic::pairs::{OPENING, PairsSink, PairsSource, Slope, separations};
use traffic::rating::Impairment;
use traffic::sip::{Callee, Caller};
use traffic::{Application, KeyError, Passage, VoiceSink, VoiceSource, listen};

use crate::plan::{Call, Cell, Flow, Pairs, Quic, Traffic, Voice};

/// The end at a flow's first site, then the other.
pub(crate) type Ends = [Box<dyn Application>; 2];

/// The ends of a voice flow.
pub(crate) fn voice(cell: &Cell, flow: &Flow, voice: &Voice) -> Ends {
    let config = voice.config(seed(cell, flow));
    [Box::new(VoiceSource::new(config.clone())), Box::new(VoiceSink::new(config))]
}

/// The ends of a flow of packet pairs.
pub(crate) fn pairs(cell: &Cell, flow: &Flow, pairs: &Pairs) -> Ends {
    let config = pairs.config(seed(cell, flow));
    [Box::new(PairsSource::new(config.clone())), Box::new(PairsSink::new(config))]
}

/// The ends of a flow of video over QUIC: the server, then the player.
///
/// # Errors
///
/// No keys can be drawn.
pub(crate) fn quic(cell: &Cell, flow: &Flow, quic: &Quic) -> Result<Ends, KeyError> {
    traffic::video(&quic.config(seed(cell, flow)))
}

/// The ends of a flow of calls, at the addresses of its first and its second site.
pub(crate) fn call(cell: &Cell, flow: &Flow, call: &Call, addresses: [IpAddr; 2]) -> Ends {
    let config = call.config(addresses, seed(cell, flow));
    [Box::new(Caller::new(config.clone())), Box::new(Callee::new(config))]
}

/// A flow keeps its seed whatever runs beside it.
fn seed(cell: &Cell, flow: &Flow) -> u64 {
    Random::stream(cell.seed, &format!("flow.{}", flow.name)).bits()
}

/// Fills in what the logs of a flow's ends say. The observation's snapshots have their times; the
/// measured time is from the first to the last.
pub(crate) fn observe(traffic: &Traffic, observation: &mut Observation, [from, to]: [&dyn Application; 2]) {
    let bounds = observation.snapshots.first().zip(observation.snapshots.last());
    let Some((start, end)) = bounds.map(|(first, last)| (first.at, last.at)) else { return };
    let ways = [Way::new(from, to, start, end), Way::new(to, from, start, end)];
    let mut since = Time::ZERO;
    for snapshot in &mut observation.snapshots {
        fill(snapshot, since, &ways);
        since = snapshot.at;
    }
    let all = || ways.iter().flat_map(|way| &way.measured);
    observation.packets = Some(counts(all(), Time::MAX));
    for delay in all().filter_map(Passage::delay) {
        observation.delays.saturating_record(delay.as_nanos());
    }
    observation.series = ways.iter().zip([false, true]).flat_map(|(way, back)| way.points(start, back)).collect();
    observation.series.truncate(SERIES_LIMIT);
    match traffic {
        Traffic::Voice(voice) => observation.voice = heard(&ways, voice),
        Traffic::Call(call) => {
            observation.voice = heard(&ways, &call.voice);
            observation.calls = Some(called(from.calls(), start, end));
            for snapshot in &mut observation.snapshots {
                let again = from.retransmissions().iter().chain(to.retransmissions());
                snapshot.retransmits = Some(again.filter(|at| **at < snapshot.at).count() as u64);
            }
        }
        Traffic::Pairs(pairs) => {
            observation.pairs = slope(&ways[0], pairs);
            separate(&mut observation.series, pairs.header);
        }
        Traffic::Tcp(_) | Traffic::Udp(_) | Traffic::Ping(_) | Traffic::Quic(_) | Traffic::Load(_) => {}
    }
}

/// What went one way.
struct Way {
    /// Everything, warm-up included, in order of number.
    all: Vec<Passage>,
    /// What was sent in the measured time.
    measured: Vec<Passage>,
    /// Differences of transit times in order of arrival, by the number of the later packet.
    variations: Vec<(u64, Span)>,
}

impl Way {
    fn new(from: &dyn Application, to: &dyn Application, start: Time, end: Time) -> Self {
        let all = passages(from.sent(), to.received());
        let measured: Vec<_> = all.iter().filter(|p| (start..end).contains(&p.sent.at)).copied().collect();
        let variations = variations(&measured);
        Self { all, measured, variations }
    }

    fn points(&self, start: Time, back: bool) -> impl Iterator<Item = PacketPoint> + '_ {
        let mut variations: Vec<(u64, Span)> = self.variations.clone();
        variations.sort_unstable_by_key(|(number, _)| *number);
        self.measured.iter().map(move |passage| PacketPoint {
            number: passage.number,
            back,
            bytes: passage.sent.bytes.into(),
            sent_s: passage.sent.at.since(start).as_secs_f64(),
            delay_s: passage.delay().map(Span::as_secs_f64),
            jitter_s: variations
                .binary_search_by_key(&passage.number, |(number, _)| *number)
                .ok()
                .map(|at| variations[at].1.as_secs_f64()),
            separation_s: None,
        })
    }
}

/// Counters as they stood at a snapshot's time; `since` is the one before.
fn fill(snapshot: &mut Snapshot, since: Time, ways: &[Way; 2]) {
    let at = snapshot.at;
    let bytes = |passages: &mut dyn Iterator<Item = &Passage>| passages.map(|p| u64::from(p.sent.bytes)).sum();
    let all = || ways.iter().flat_map(|way| &way.all);
    let measured = || ways.iter().flat_map(|way| &way.measured);
    snapshot.sent_bytes = bytes(&mut all().filter(|p| p.sent.at < at));
    snapshot.received_bytes = bytes(&mut all().filter(|p| p.intact && p.arrived.is_some_and(|t| t < at)));
    snapshot.packets = Some(counts(measured().filter(|p| p.sent.at < at), at));
    let arrived = |number: u64, way: &Way| {
        let index = number.checked_sub(way.measured.first()?.number)?;
        way.measured.get(usize::try_from(index).ok()?)?.arrived
    };
    let by_now = |way: &Way| {
        let known = way.variations.iter().filter(|(number, _)| arrived(*number, way).is_some_and(|t| t < at));
        jitter(known.map(|(_, variation)| *variation))
    };
    // Of two ways the worse counts.
    snapshot.jitter = ways.iter().filter(|way| !way.measured.is_empty()).map(by_now).max();
    let fresh = measured().filter(|p| p.arrived.is_some_and(|t| (since..at).contains(&t)));
    snapshot.delay = quantile(fresh.filter_map(Passage::delay), 0.5);
}

/// What became by `until` of packets.
fn counts<'a>(passages: impl Iterator<Item = &'a Passage>, until: Time) -> PacketCounts {
    let mut counts = PacketCounts::default();
    for passage in passages {
        let arrived = passage.arrived.is_some_and(|at| at < until);
        counts.sent += 1;
        // One whose bytes are wrong is lost to its listener.
        counts.received += u64::from(arrived && passage.intact);
        counts.reordered += u64::from(arrived && passage.reordered);
        counts.duplicated += if arrived { u64::from(passage.copies) } else { 0 };
    }
    counts
}

/// What the listeners make of voice: of two the worse.
fn heard(ways: &[Way; 2], voice: &Voice) -> Option<VoiceRecord> {
    let codec = Impairment { ie: voice.ie, bpl: voice.bpl };
    let records = ways.iter().filter(|way| !way.measured.is_empty()).map(|way| {
        let jitter = quantile(way.variations.iter().map(|(_, variation)| *variation), 0.99);
        let jitter_p99_s = jitter.map(Span::as_secs_f64);
        match listen(&way.measured, voice.buffer, voice.packet, codec) {
            Some(heard) => VoiceRecord {
                jitter_p99_s,
                late_packets: heard.late,
                missing_ratio: heard.missing,
                burst_ratio: heard.burst_ratio,
                playout_s: heard.playout.as_secs_f64(),
                rating: Some(heard.rating),
            },
            None => VoiceRecord { jitter_p99_s, missing_ratio: 1.0, burst_ratio: 1.0, ..VoiceRecord::default() },
        }
    });
    // Nothing that could be played is worse than any rating.
    records.min_by(|a, b| a.rating.unwrap_or(-1.0).total_cmp(&b.rating.unwrap_or(-1.0)))
}

/// What became of the calls that were begun in the measured time. Those whose fate was open when the
/// cell ended do not count.
fn called(calls: &[traffic::Call], start: Time, end: Time) -> CallsRecord {
    let begun = calls.iter().filter(|call| (start..end).contains(&call.invited));
    let settled: Vec<_> = begun.filter(|call| call.answered.is_some() || call.ended.is_some()).collect();
    let setups = || settled.iter().filter_map(|call| Some(call.answered?.since(call.invited)));
    CallsRecord {
        tried: settled.len() as u64,
        established: setups().count() as u64,
        released: settled.iter().filter(|call| call.released).count() as u64,
        setup_p50_s: quantile(setups(), 0.5).map(Span::as_secs_f64),
        setup_max_s: setups().max().map(Span::as_secs_f64),
    }
}

/// What packet pairs say of the line.
fn slope(way: &Way, pairs: &Pairs) -> Option<PairsRecord> {
    let slope = Slope::fit(&separations(&way.measured, pairs.header.into()))?;
    Some(PairsRecord {
        count: slope.pairs as u64,
        rate_bit_s: slope.rate(),
        rate_low_bit_s: slope.low(),
        rate_high_bit_s: slope.high(),
        disagreeing_sizes: slope.sizes.iter().filter(|size| size.disagrees).count() as u64,
    })
}

/// Makes points of packet pairs out of those of datagrams: IP datagrams' sizes, and with the second of
/// a pair its separation from the first, but for the opening pair.
fn separate(series: &mut [PacketPoint], header: u16) {
    let mut first: Option<PacketPoint> = None;
    for point in series {
        point.bytes += u64::from(header);
        point.jitter_s = None;
        let arrival = |point: &PacketPoint| point.delay_s.map(|delay| point.sent_s + delay);
        if point.number >= OPENING * 2
            && !point.number.is_multiple_of(2)
            && let Some(first) = first.filter(|first| first.number + 1 == point.number)
        {
            let apart = arrival(point).zip(arrival(&first)).map(|(second, first)| second - first);
            // Whole nanoseconds, as the times themselves are.
            point.separation_s = apart.filter(|apart| *apart > 0.0).map(|apart| (apart * 1e9).round() / 1e9);
        }
        first = Some(*point);
    }
}
