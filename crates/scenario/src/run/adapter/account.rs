//! What an adapter counted, in words and as JSON.

use adapter::cache::CacheKind;
use adapter::{AdapterConfig, Class, Counters, Histogram};
use engine::{Span, Time};
use measure::{Quantiles, format};
use netio::executor::CellReport;
use netio::port::line::Counted;
use serde_json::{Value, json};

use super::since_start;

/// What an adapter counted from its start to a moment.
#[derive(Clone, Debug)]
pub struct AdapterAccount {
    /// Since the start.
    pub elapsed: Span,
    /// By the adapter itself.
    pub counters: Counters,
    /// At the device or connection.
    pub line: Counted,
    /// By what drives it.
    pub report: CellReport,
    /// Characters the line carries in a second.
    characters_per_second: f64,
}

/// What [`adapter::ReceiveCounters::lost`] tells is called so in JSON.
const LOSSES: [&str; 13] = [
    "too_long",
    "short",
    "check",
    "malformed",
    "no_session",
    "orphans",
    "incomplete",
    "expired",
    "oversized",
    "crc",
    "unknown_pair",
    "inflation",
    "decompression",
];

impl AdapterAccount {
    pub(super) fn new(
        now: Time,
        config: &AdapterConfig,
        counters: Counters,
        line: Counted,
        report: CellReport,
    ) -> Self {
        let bits = f64::from(config.bits_per_character);
        let characters_per_second = config.rate.bits_per_second() as f64 / bits;
        Self { elapsed: since_start(now), counters, line, report, characters_per_second }
    }

    /// Characters that were put on the line.
    #[must_use]
    pub fn characters(&self) -> u64 {
        let line = &self.counters.line;
        line.real_time + line.data + line.framing + line.encapsulation + line.control
    }

    /// Share of the line's time that characters took since `before` (since the start if absent).
    #[must_use]
    pub fn utilisation(&self, before: Option<&Self>) -> f64 {
        let elapsed = self.elapsed.saturating_sub(before.map_or(Span::ZERO, |before| before.elapsed));
        let characters = self.characters() - before.map_or(0, Self::characters);
        if elapsed == Span::ZERO {
            return 0.0;
        }
        (characters as f64 / self.characters_per_second / elapsed.as_secs_f64()).min(1.0)
    }

    /// One line of what happens; rates are since `before`.
    #[must_use]
    pub fn line(&self, before: Option<&Self>) -> String {
        let counters = &self.counters;
        let dropped: u64 = counters.dropped.iter().map(|(_, count)| count.packets).sum();
        let data: u64 = Class::ALL[1..].iter().map(|class| counters.class(*class).sent.packets).sum();
        format!(
            "{}: {}, line {} used; sent {} real-time (delay p99 {}) and {} data (waiting p99 {}), {} dropped; \
             received {}, {} bad frames",
            format::quantity(self.elapsed.as_secs_f64(), measure::Unit::Second),
            self.state(),
            format::quantity(self.utilisation(before), measure::Unit::Ratio),
            format::count(counters.class(Class::RealTime).sent.packets),
            tail(&counters.real_time_delay),
            format::count(data),
            tail(&counters.forwarding_delay),
            format::count(dropped),
            format::count(counters.receive.delivered.packets),
            format::count(counters.receive.bad_frames()),
        )
    }

    /// The whole account, a line each.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let counters = &self.counters;
        let mut lines = vec![self.line(None)];
        for class in Class::ALL {
            let of = counters.class(class);
            if of.taken.packets > 0 {
                let [taken, sent, dropped] = [of.taken, of.sent, of.dropped].map(|count| format::count(count.packets));
                lines.push(format!("{class}: {taken} packets in, {sent} sent, {dropped} dropped"));
            }
        }
        for (reason, count) in counters.dropped.iter().filter(|(_, count)| count.packets > 0) {
            lines.push(format!("dropped: {} packets: {reason}", format::count(count.packets)));
        }
        let line = &counters.line;
        lines.push(format!(
            "line: {} characters real-time, {} data, {} of its framing, {} control; held back for {}, idle for {}",
            format::count(line.real_time),
            format::count(line.data),
            format::count(line.framing + line.encapsulation),
            format::count(line.control),
            format::count(line.held),
            format::count(line.idle),
        ));
        lines.push(format!("received: {}", self.received()));
        let flows = &counters.flows;
        lines.push(format!(
            "voices: {} let in, {} refused, {} ended, {} on the line now, {} forgotten; {} packets beyond what they were let \
             in with; {} predictions held, {} missed; {} packets overdue",
            format::count(flows.admitted),
            format::count(flows.refused),
            format::count(flows.ended),
            flows.active,
            format::count(flows.forgotten),
            format::count(flows.excess),
            format::count(flows.held),
            format::count(flows.missed),
            format::count(flows.overdue),
        ));
        let (rohc, payload) = (&counters.rohc, &counters.payload);
        lines.push(format!(
            "compression: {} headers of {} B to {} B, {} packets of {} B to {} B",
            format::count(rohc.packets),
            format::count(rohc.header_before),
            format::count(rohc.header_after),
            format::count(payload.deflated),
            format::count(payload.bytes_before),
            format::count(payload.bytes_after),
        ));
        for (kind, of) in CacheKind::ALL.into_iter().zip(&counters.cache).filter(|(_, of)| of.answered > 0) {
            let (answered, passed) = (format::count(of.answered), format::count(of.passed));
            lines.push(format!("{}: {answered} questions answered on the near side, {passed} passed on", kind.name()));
        }
        if line.control_forced + rohc.feedback_lost > 0 {
            lines.push(format!(
                "control: {} frames waited for no gap any longer, {} pieces of header compression's feedback lost",
                format::count(line.control_forced),
                format::count(rohc.feedback_lost)
            ));
        }
        let session = &counters.session;
        lines.push(format!(
            "session: begun {}, lost {}, the other adapter restarted {} times, {} hellos of another version, {} of \
             another line, {} of its own (looped back)",
            session.begun, session.lost, session.restarted, session.incompatible, session.other_line, session.looped
        ));
        let device = &self.line;
        lines.push(format!(
            "device: opened {}, lost {} times; {} characters read, {} written, {} refused",
            device.begun,
            device.lost,
            format::count(device.read),
            format::count(device.written),
            format::count(device.refused)
        ));
        // What the adapter drops it has told itself, by the same reasons.
        for dropped in self.report.drops.iter().filter(|dropped| dropped.place != "adapter") {
            lines.push(format!(
                "{}: {} packets dropped: {}",
                dropped.place,
                format::count(dropped.packets),
                dropped.reason
            ));
        }
        if let Some(lost) = self.report.kernel_drops.filter(|lost| *lost > 0) {
            lines.push(format!("in the kernel: {} frames or characters lost for want of room", format::count(lost)));
        }
        let lateness = Quantiles::of_nanos(&self.report.lateness).unwrap_or_default();
        let quantity = |seconds| format::quantity(seconds, measure::Unit::Second);
        lines.push(format!(
            "lateness p50 {}, p99 {}, most {}; {} stalls",
            quantity(lateness.p50),
            quantity(lateness.p99),
            quantity(lateness.max),
            format::count(self.report.stalls.count),
        ));
        lines
    }

    /// As one JSON object, all counts since the start; times in seconds.
    #[must_use]
    pub fn json(&self) -> Value {
        let counters = &self.counters;
        let classes = Class::ALL.map(|class| {
            let of = counters.class(class);
            let reasons = counters.dropped.iter().zip(&counters.dropped_by_class[class.index()]);
            let dropped: serde_json::Map<_, _> = reasons
                .filter(|(_, count)| count.packets > 0)
                .map(|((reason, _), count)| (reason.0.to_owned(), count.packets.into()))
                .collect();
            json!({
                "class": class.to_string(),
                "in_packets": of.taken.packets, "in_bytes": of.taken.bytes,
                "sent_packets": of.sent.packets, "sent_bytes": of.sent.bytes,
                "dropped_packets": of.dropped.packets, "dropped": dropped,
            })
        });
        let dropped: serde_json::Map<_, _> =
            counters.dropped.iter().map(|(reason, count)| (reason.0.to_owned(), count.packets.into())).collect();
        let outside = self
            .report
            .drops
            .iter()
            .filter(|dropped| dropped.place != "adapter")
            .map(|dropped| json!({"place": dropped.place, "reason": dropped.reason.0, "packets": dropped.packets}));
        let (line, receive, flows) = (&counters.line, &counters.receive, &counters.flows);
        let mut received = json!({
            "characters": receive.characters, "frames": receive.frames, "bad_frames": counters.receive.bad_frames(),
            "delivered_packets": receive.delivered.packets, "delivered_bytes": receive.delivered.bytes,
            "kept_packets": receive.kept.packets,
        });
        for (name, (_, count)) in LOSSES.into_iter().zip(receive.lost()) {
            received[name] = count.into();
        }
        let (rohc, payload, session) = (&counters.rohc, &counters.payload, &counters.session);
        let cache = CacheKind::ALL.into_iter().zip(&counters.cache).map(|(kind, of)| {
            let counts = json!({
                "answered": of.answered, "passed": of.passed, "expired": of.expired, "displaced": of.displaced,
                "withdrawn": of.withdrawn,
            });
            (kind.name().to_owned(), counts)
        });
        let cache: serde_json::Map<_, _> = cache.collect();
        json!({
            "event": "adapter",
            "elapsed_s": self.elapsed.as_secs_f64(),
            "utilisation": self.utilisation(None),
            "efficiency": counters.efficiency(),
            "classes": classes,
            "dropped": dropped,
            "dropped_outside": outside.collect::<Vec<_>>(),
            "kernel_drops": self.report.kernel_drops,
            "local_packets": counters.local.packets,
            "real_time_delay": times(&counters.real_time_delay),
            "forwarding_delay": times(&counters.forwarding_delay),
            "predicted_gap": times(&counters.predicted_gap),
            "line": {
                "frames": line.frames, "real_time": line.real_time, "data": line.data, "framing": line.framing,
                "encapsulation": line.encapsulation, "control": line.control, "held": line.held, "idle": line.idle,
                "control_forced": line.control_forced,
            },
            "receive": received,
            "flows": {
                "admitted": flows.admitted, "refused": flows.refused, "ended": flows.ended, "active": flows.active,
                "held": flows.held, "missed": flows.missed, "overdue": flows.overdue, "forgotten": flows.forgotten,
                "excess": flows.excess, "characters_per_second": flows.characters_per_second, "told": flows.told,
            },
            "rohc": {
                "packets": rohc.packets, "header_before": rohc.header_before, "header_after": rohc.header_after,
                "feedback_sent": rohc.feedback_sent, "feedback_taken": rohc.feedback_taken,
                "feedback_lost": rohc.feedback_lost, "contexts": rohc.contexts,
            },
            "payload": {
                "deflated": payload.deflated, "bytes_before": payload.bytes_before,
                "bytes_after": payload.bytes_after, "vain": payload.vain, "encrypted": payload.encrypted,
            },
            "cache": cache,
            "session": {
                "up": session.up, "begun": session.begun, "lost": session.lost, "restarted": session.restarted,
                "incompatible": session.incompatible, "other_line": session.other_line,
                "looped": session.looped, "hellos_sent": session.hellos_sent, "hellos_taken": session.hellos_taken,
            },
            "device": {
                "up": self.line.up, "begun": self.line.begun, "lost": self.line.lost, "read": self.line.read,
                "written": self.line.written, "refused": self.line.refused,
            },
        })
    }

    fn received(&self) -> String {
        let of = &self.counters.receive;
        let lost: Vec<String> = self
            .counters
            .receive
            .lost()
            .iter()
            .filter(|(_, count)| *count > 0)
            .map(|(words, count)| format!("{} {words}", format::count(*count)))
            .collect();
        let lost = if lost.is_empty() { "nothing lost".into() } else { format!("lost: {}", lost.join(", ")) };
        format!(
            "{} good frames, {} packets delivered, {} that only renew what is answered here; {lost}",
            format::count(of.frames),
            format::count(of.delivered.packets),
            format::count(of.kept.packets)
        )
    }

    fn state(&self) -> &'static str {
        match (self.counters.session.up, self.line.up) {
            (true, true) => "up",
            (_, false) => "no device",
            (false, true) => "no adapter at the other end",
        }
    }
}

fn tail(histogram: &Histogram) -> String {
    let nothing = || "none".to_owned();
    histogram.quantile(0.99).map_or_else(nothing, |p99| format::quantity(p99.as_secs_f64(), measure::Unit::Second))
}

fn times(histogram: &Histogram) -> Value {
    let seconds = |span: Option<Span>| span.map(Span::as_secs_f64);
    json!({
        "count": histogram.count(),
        "mean_s": seconds(histogram.mean()),
        "p50_s": seconds(histogram.quantile(0.5)),
        "p99_s": seconds(histogram.quantile(0.99)),
        "max_s": seconds(histogram.most()),
    })
}
