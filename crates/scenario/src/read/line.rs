//! Character lines: from keys to their configuration.

use std::num::NonZeroU32;

use engine::Span;
use link::ConfigError;
use link::characters::{
    BitErrors, Bursts, FadeEffect, FadeTimes, Fades, Framing, Interval, LineConfig, Pace, ReceiveFifo, Uart,
};

use crate::plan::Line;
use crate::read::fields::{self, Fields};
use crate::read::keys;
use crate::read::pipe::Layers;
use crate::read::problem::{Noted, Notes, Problem};
use crate::read::yaml::{Node, Value};

/// The line that `node` says, both directions of it.
pub(crate) fn line(notes: &Notes, node: &Node) -> Result<Line, Noted> {
    let fields = Fields::read(notes, node, &keys::LINE)?;
    let side = |key| {
        let own = fields.with(key, |notes, node| Fields::read(notes, node, &keys::LINE_WAY))?;
        let layers: Vec<Fields<'_>> = own.into_iter().chain([fields]).collect();
        way(notes, Layers(&layers))
    };
    let (up, down) = (side("up"), side("down"));
    let pty = fields.with("pty", fields::boolean)?.unwrap_or(false);
    Ok(Line { up: up?, down: down?, pty })
}

fn way(notes: &Notes, layers: Layers<'_, '_>) -> Result<LineConfig, Noted> {
    let default = LineConfig::default();
    let pace = pace(notes, layers);
    let delay = layers.with("delay", |node| fields::span(notes, node));
    let buffer = layers.with("buffer", |node| fields::size(notes, node, 1..=1 << 30));
    let errors = errors(notes, layers);
    let fades = layers.with("fades", |node| fades(notes, node));
    let cuts = layers.with("cut", |node| intervals(notes, node));
    let config = LineConfig {
        pace: pace?,
        delay: delay?.unwrap_or(default.delay),
        buffer: buffer?.unwrap_or(default.buffer),
        errors: errors?,
        fades: fades?,
        cuts: cuts?.unwrap_or_default(),
        granularity: default.granularity,
    };
    config.validate().map_err(|error| {
        let at = match &error {
            ConfigError::Invalid { field, .. } => layers.find(written(field)),
            _ => None,
        };
        fields::refuse(notes, at.unwrap_or(layers.0[0].at), &error)
    })?;
    Ok(config)
}

/// How a field of the configuration is called in a file.
fn written(field: &str) -> &str {
    match field {
        "cuts" => "cut",
        field => field.strip_prefix("pace.").unwrap_or(match field.strip_prefix("errors.") {
            Some("begin") => "bursts.begin",
            Some("end") => "bursts.end",
            Some("inside") => "bursts.inside",
            Some("outside") => "bursts.outside",
            _ => field,
        }),
    }
}

fn pace(notes: &Notes, layers: Layers<'_, '_>) -> Result<Pace, Noted> {
    let (baud, rate) = (layers.entry("baud"), layers.entry("rate"));
    let asynchronous = || ["framing", "fifo", "receive"].into_iter().find_map(|key| layers.entry(key));
    let baud = match (baud, rate) {
        (Some(_), Some(rate)) => {
            let problem = Problem::new(rate.key_at, "a line is asynchronous (`baud`) or synchronous (`rate`)");
            return Err(notes.note(problem.remedy("leave one of them away")));
        }
        (None, Some(rate)) => {
            if let Some(entry) = asynchronous() {
                let problem = Problem::new(entry.key_at, format!("a synchronous line has no `{}`", entry.key));
                return Err(notes.note(problem.remedy("leave it away, or give `baud` instead of `rate`")));
            }
            return fields::rate(notes, &rate.node).map(Pace::Synchronous);
        }
        (None, None) => {
            let problem = Problem::new(layers.0[0].at, "this line does not say how fast it is");
            return Err(notes.note(problem.remedy("write `baud: 9600`, or `rate: 9600bit/s` for a synchronous line")));
        }
        (Some(entry), None) => fields::integer(notes, &entry.node, 1..=u64::from(u32::MAX))?,
    };
    let framing = layers.with("framing", |node| {
        let framing = fields::text(notes, node)?.parse::<Framing>();
        let framing = framing.map_err(|error| fields::refuse(notes, node.at, &error))?;
        // Adapters stand at both ends of every line.
        if framing.data_bits() < 8 {
            let what =
                format!("`{framing}` has characters of {} bits, and adapters exchange octets", framing.data_bits());
            return Err(notes.note(Problem::new(node.at, what).remedy("take 8 data bits, such as `8N1`")));
        }
        Ok(framing)
    });
    let fifo = layers.with("fifo", |node| fields::integer(notes, node, 0..=65_536));
    let receive = layers.with("receive", |node| {
        let fields = Fields::read(notes, node, &keys::RECEIVE)?;
        let number = |node| fields::integer(notes, node, 1..=65_536).map(|number| number as u32);
        let trigger = fields.need("trigger").and_then(number);
        let timeout = fields.get("timeout").map_or(Ok(4), number);
        Ok(ReceiveFifo { trigger: trigger?, timeout: timeout? })
    });
    let uart = Uart::new(NonZeroU32::new(baud as u32).unwrap_or(NonZeroU32::MIN));
    Ok(Pace::Asynchronous(Uart {
        framing: framing?.unwrap_or(uart.framing),
        fifo: fifo?.map_or(uart.fifo, |fifo| fifo as u32),
        receive: receive?,
        ..uart
    }))
}

fn errors(notes: &Notes, layers: Layers<'_, '_>) -> Result<BitErrors, Noted> {
    if let (Some(_), Some(bursts)) = (layers.entry("errors"), layers.entry("bursts")) {
        let problem = Problem::new(bursts.key_at, "bit errors are independent (`errors`) or in `bursts`");
        return Err(notes.note(problem.remedy("leave one of them away; `outside` is the rate between bursts")));
    }
    let independent = layers.with("errors", |node| fields::probability(notes, node).map(BitErrors::Independent))?;
    let bursts = layers.with("bursts", |node| {
        let fields = Fields::read(notes, node, &keys::BURSTS)?;
        let begin = fields.need("begin").and_then(|node| fields::probability(notes, node));
        let end = fields.need("end").and_then(|node| fields::probability(notes, node));
        let inside = fields.with("inside", fields::probability)?.unwrap_or(0.5);
        let outside = fields.with("outside", fields::probability)?.unwrap_or(0.0);
        Ok(BitErrors::Bursts(Bursts { begin: begin?, end: end?, inside, outside }))
    })?;
    Ok(bursts.or(independent).unwrap_or(BitErrors::Independent(0.0)))
}

fn fades(notes: &Notes, node: &Node) -> Result<Fades, Noted> {
    let fields = Fields::read(notes, node, &keys::FADES)?;
    let when = match (fields.get("at"), fields.get("interval"), fields.get("length")) {
        (Some(node), None, None) => FadeTimes::Listed(intervals(notes, node)?),
        (None, Some(interval), Some(length)) => {
            let interval = fields::positive_span(notes, interval);
            FadeTimes::Drawn { interval: interval?, length: fields::positive_span(notes, length)? }
        }
        _ => {
            let problem = Problem::new(node.at, "fades come at random or at given times");
            return Err(notes.note(problem.remedy("give `interval` and `length`, or `at` alone")));
        }
    };
    let errors = fields.with("errors", fields::probability)?;
    Ok(Fades { when, effect: errors.map_or(FadeEffect::Lost, FadeEffect::Errors) })
}

/// One interval or a list of them.
fn intervals(notes: &Notes, node: &Node) -> Result<Vec<Interval>, Noted> {
    let nodes = match &node.value {
        Value::List(_) => fields::items(notes, node, "these times")?,
        _ => std::slice::from_ref(node),
    };
    let read = |node| {
        let fields = Fields::read(notes, node, &keys::CUT)?;
        let from = fields.need("from").and_then(|node| fields::span(notes, node));
        let length: Result<Span, Noted> = fields.need("length").and_then(|node| fields::positive_span(notes, node));
        Ok(Interval { from: from?, length: length? })
    };
    nodes.iter().map(read).collect()
}
