//! What a UPF counted, in words and as JSON.

use engine::Span;
use measure::format;
use serde_json::{Value, json};
use userplane::upf::{Counters, Direction, News, Side};
use wire::pfcp::element_name;

use super::{PortIo, UpfNews};

/// What a UPF counted from its start to a moment.
#[derive(Clone, Debug)]
pub struct UpfAccount {
    /// Since the start.
    pub elapsed: Span,
    /// Sessions there are.
    pub sessions: usize,
    /// By the UPF itself.
    pub counters: Counters,
    /// At N3 and N6.
    pub ports: [UpfPort; 2],
}

/// What was counted at an interface, beside what the UPF counts.
#[derive(Clone, Debug)]
pub struct UpfPort {
    /// The interface's name.
    pub name: String,
    /// How frames are sent there.
    pub choice: String,
    /// Frames the kernel took.
    pub sent: u64,
    /// Bytes of these.
    pub sent_bytes: u64,
    /// Frames that came in too fast, dropped by the kernel; not known if the interface is gone.
    pub kernel_drops: Option<u64>,
    /// Frames that could not be read.
    pub malformed: u64,
    /// Frames for which there was no room on the way out.
    pub full: u64,
    /// Frames the kernel refused to send, by reason.
    pub refused: Vec<(String, u64)>,
    /// Why frames that are queued stay there, if they do.
    pub stuck: Option<String>,
}

impl UpfPort {
    pub(super) fn of(port: &mut PortIo) -> Self {
        let sent = port.transmit.sent();
        Self {
            name: port.name.clone(),
            choice: port.choice.clone(),
            sent: sent.frames,
            sent_bytes: sent.bytes,
            kernel_drops: port.receive.kernel_drops().ok(),
            malformed: port.malformed,
            full: port.full,
            refused: sent.refused.iter().map(|(reason, count)| (reason.to_string(), *count)).collect(),
            stuck: sent.stuck.map(|reason| reason.to_string()),
        }
    }

    /// Frames that were lost at this interface and not by a rule.
    #[must_use]
    pub fn lost(&self) -> u64 {
        let refused: u64 = self.refused.iter().map(|(_, count)| count).sum();
        self.kernel_drops.unwrap_or(0) + self.malformed + self.full + refused
    }
}

impl UpfAccount {
    /// One line of what happens; rates are since `before` (since the start if absent).
    #[must_use]
    pub fn line(&self, before: Option<&Self>) -> String {
        let elapsed = self.elapsed.saturating_sub(before.map_or(Span::ZERO, |before| before.elapsed)).as_secs_f64();
        let rate = |direction| {
            let count = |account: &Self| account.counters.forwarded(direction).packets;
            let packets = count(self) - before.map_or(0, count);
            if elapsed > 0.0 { packets as f64 / elapsed } else { 0.0 }
        };
        format!(
            "{}: {} sessions; {:.0} packets/s up, {:.0} down; {} dropped by rule or fault, {} lost at the interfaces",
            format::quantity(self.elapsed.as_secs_f64(), measure::Unit::Second),
            format::count(self.sessions as u64),
            rate(Direction::Uplink),
            rate(Direction::Downlink),
            format::count(self.dropped()),
            format::count(self.ports.iter().map(UpfPort::lost).sum()),
        )
    }

    /// Packets that ended in the UPF.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.counters.drops().iter().map(|(_, count)| count).sum()
    }

    /// The whole account, a line each.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let count = format::count;
        let counters = &self.counters;
        let mut lines = vec![self.line(None)];
        for (port, side) in self.ports.iter().zip([Side::N3, Side::N6]) {
            let drops = port.kernel_drops.map_or("an unknown number".into(), count);
            lines.push(format!(
                "{}: {} frames in, {} out; {drops} dropped by the kernel, {} unreadable, {} without room on the way out",
                port.name,
                count(counters.received(side).packets),
                count(port.sent),
                count(port.malformed),
                count(port.full),
            ));
            for (reason, frames) in &port.refused {
                lines.push(format!("{}: not sent: {} frames: {reason}", port.name, count(*frames)));
            }
            if let Some(reason) = &port.stuck {
                lines.push(format!("{}: nothing more is sent: {reason}", port.name));
            }
        }
        for (reason, packets) in counters.drops() {
            lines.push(format!("dropped: {} packets: {}", count(packets), reason.name()));
        }
        lines.push(format!(
            "PFCP: {} requests, {} refused, {} repeated, {} datagrams of no use; {} reports, {} of them unanswered",
            count(counters.requests),
            count(counters.refused),
            count(counters.repeated),
            count(counters.garbage),
            count(counters.reports),
            count(counters.reports_unanswered),
        ));
        lines.push(format!(
            "GTP-U: {} echoes answered; error indications {} sent, {} received; end markers {} sent, {} received",
            count(counters.echoes),
            count(counters.error_indications),
            count(counters.error_indications_received),
            count(counters.end_markers),
            count(counters.end_markers_received),
        ));
        lines
    }

    /// The account as one JSON value.
    #[must_use]
    pub fn json(&self) -> Value {
        let counters = &self.counters;
        let traffic = |traffic: userplane::upf::Traffic| json!({"packets": traffic.packets, "bytes": traffic.bytes});
        let port = |port: &UpfPort, side| {
            let refused: serde_json::Map<_, _> =
                port.refused.iter().map(|(reason, count)| (reason.clone(), (*count).into())).collect();
            json!({
                "interface": port.name, "io": port.choice, "received": traffic(counters.received(side)),
                "sent": {"packets": port.sent, "bytes": port.sent_bytes}, "kernel_drops": port.kernel_drops,
                "malformed": port.malformed, "no_room": port.full, "refused": refused, "stuck": port.stuck,
            })
        };
        let drops: serde_json::Map<_, _> =
            counters.drops().into_iter().map(|(reason, count)| (reason.name().into(), count.into())).collect();
        let [n3, n6] = &self.ports;
        json!({
            "event": "account", "elapsed_s": self.elapsed.as_secs_f64(), "sessions": self.sessions,
            "uplink": traffic(counters.forwarded(Direction::Uplink)),
            "downlink": traffic(counters.forwarded(Direction::Downlink)),
            "buffered": counters.buffered, "dropped": drops, "n3": port(n3, Side::N3), "n6": port(n6, Side::N6),
            "pfcp": {
                "requests": counters.requests, "refused": counters.refused, "repeated": counters.repeated,
                "garbage": counters.garbage, "reports": counters.reports,
                "reports_unanswered": counters.reports_unanswered,
            },
            "gtpu": {
                "echoes": counters.echoes, "error_indications": counters.error_indications,
                "error_indications_received": counters.error_indications_received,
                "end_markers": counters.end_markers, "end_markers_received": counters.end_markers_received,
            },
        })
    }
}

impl UpfNews<'_> {
    /// A line for the user; `before` is the account told before.
    #[must_use]
    pub fn line(&self, before: Option<&UpfAccount>) -> String {
        match self {
            Self::Account(account) => account.line(before),
            Self::Event(News::Associated { node, ended: 0 }) => format!("associated with {node}"),
            Self::Event(News::Associated { node, ended }) => {
                format!("associated with {node} again; {ended} sessions of before ended")
            }
            Self::Event(News::Released { node, ended }) => format!("released by {node}; {ended} sessions ended"),
            Self::Event(News::Silent { node }) => format!("{node} does not answer heartbeats; its sessions stay"),
            Self::Event(News::Restarted { node, ended }) => format!("{node} was restarted; {ended} sessions ended"),
            Self::Event(News::Refused { from, request, cause, offending }) => {
                let about = offending.map_or(String::new(), |element| format!(", about {}", element_name(element)));
                format!("refused {request} of {from}: {cause}{about}")
            }
        }
    }

    /// The same as JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        match self {
            Self::Account(account) => account.json(),
            Self::Event(News::Associated { node, ended }) => {
                json!({"event": "associated", "node": node.to_string(), "ended": ended})
            }
            Self::Event(News::Released { node, ended }) => {
                json!({"event": "released", "node": node.to_string(), "ended": ended})
            }
            Self::Event(News::Silent { node }) => json!({"event": "silent", "node": node.to_string()}),
            Self::Event(News::Restarted { node, ended }) => {
                json!({"event": "restarted", "node": node.to_string(), "ended": ended})
            }
            Self::Event(News::Refused { from, request, cause, offending }) => json!({
                "event": "refused", "from": from.to_string(), "request": request, "cause": cause.number(),
                "offending": offending,
            }),
        }
    }
}
