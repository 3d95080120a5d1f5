//! What an adapter tells while it runs: events of its own, and of its device.

use adapter::{ADMITTED, AdapterConfig, FLOW_REFUSED, INCOMPATIBLE, LOOPED, LOST, OTHER_LINE, RESTARTED, SESSION};
use engine::{Event, Span};
use measure::format;
use netio::port::line::{Address, Counted};
use serde_json::{Value, json};

use super::AdapterAccount;

/// There is no device or connection yet. No value.
const WAITING: &str = "waiting for the device";
/// A device was opened or a connection made. The value is how often by now.
const OPENED: &str = "device opened";
/// The device or connection went away. The value is how often by now.
const GONE: &str = "device lost";
/// There was no room for events. The value is how many.
const UNHEARD: &str = "events not told";

/// News of one kind within one [`WINDOW`], at most; what comes beyond is counted and told at its end.
const MOST: u64 = 5;
/// See [`MOST`].
const WINDOW: Span = Span::from_secs(10);

/// What a running adapter has to say.
#[derive(Debug)]
pub enum AdapterNews<'a> {
    /// Something happened.
    Event(&'a AdapterEvent),
    /// It is time for an account.
    Account(&'a AdapterAccount),
}

/// Something that happened to a running adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdapterEvent {
    /// Since the start.
    pub elapsed: Span,
    /// What happened, in words that do not change.
    pub what: &'static str,
    /// The number that goes with it, if one does.
    pub value: Option<u64>,
    /// How often: more than once if there was too much of it to tell each.
    pub times: u64,
    /// For people: what it means and what to do.
    pub text: String,
}

impl AdapterEvent {
    /// As one JSON object.
    #[must_use]
    pub fn json(&self) -> Value {
        json!({
            "event": "happened", "elapsed_s": self.elapsed.as_secs_f64(), "what": self.what, "value": self.value,
            "times": self.times, "text": self.text,
        })
    }
}

/// Puts events into words, and holds back what would be too many of them.
pub(super) struct Teller {
    line: Address,
    rate: String,
    characters_per_second: f64,
    device: Counted,
    kinds: Vec<Kind>,
}

/// Events of one kind in the present window.
struct Kind {
    what: &'static str,
    begin: Span,
    told: u64,
    withheld: u64,
}

impl Teller {
    pub(super) fn new(config: &AdapterConfig, line: &Address) -> Self {
        let characters_per_second = config.rate.bits_per_second() as f64 / f64::from(config.bits_per_character);
        let rate = config.rate.to_string();
        Self { line: line.clone(), rate, characters_per_second, device: Counted::default(), kinds: Vec::new() }
    }

    /// At the start: whether there is a device.
    pub(super) fn start(&mut self, device: Counted) -> Option<AdapterEvent> {
        if device.up {
            self.device = device;
            return None;
        }
        self.told(Span::ZERO, WAITING, None)
    }

    /// What happened at the device since the last time.
    pub(super) fn device(&mut self, elapsed: Span, now: Counted) -> impl Iterator<Item = AdapterEvent> {
        let before = std::mem::replace(&mut self.device, now);
        let gone = if now.lost > before.lost { self.told(elapsed, GONE, Some(now.lost)) } else { None };
        let opened = if now.begun > before.begun { self.told(elapsed, OPENED, Some(now.begun)) } else { None };
        // In the order in which they came, if both did between two looks.
        let events = if before.up { [gone, opened] } else { [opened, gone] };
        events.into_iter().flatten()
    }

    /// What the adapter told.
    pub(super) fn adapter(&mut self, elapsed: Span, event: Event) -> Option<AdapterEvent> {
        self.told(elapsed, event.what, Some(event.value))
    }

    /// Events for which there was no room.
    pub(super) fn unheard(&mut self, elapsed: Span, count: u64) -> Option<AdapterEvent> {
        if count == 0 { None } else { self.told(elapsed, UNHEARD, Some(count)) }
    }

    /// What was held back in windows that have ended by now.
    pub(super) fn withheld(&mut self, elapsed: Span) -> Vec<AdapterEvent> {
        let ended = |kind: &Kind| elapsed.saturating_sub(kind.begin) >= WINDOW;
        let late = self.kinds.iter().filter(|kind| ended(kind) && kind.withheld > 0);
        let events = late.map(|kind| {
            let text = format!("{} times more within {WINDOW}: {}", format::count(kind.withheld), kind.what);
            AdapterEvent { elapsed, what: kind.what, value: None, times: kind.withheld, text }
        });
        let events = events.collect();
        self.kinds.retain(|kind| !ended(kind));
        events
    }

    fn told(&mut self, elapsed: Span, what: &'static str, value: Option<u64>) -> Option<AdapterEvent> {
        let at = self.kinds.iter().position(|kind| kind.what == what).unwrap_or_else(|| {
            self.kinds.push(Kind { what, begin: elapsed, told: 0, withheld: 0 });
            self.kinds.len() - 1
        });
        let kind = &mut self.kinds[at];
        if kind.told >= MOST {
            kind.withheld += 1;
            return None;
        }
        kind.told += 1;
        Some(AdapterEvent { elapsed, what, value, times: 1, text: self.words(what, value.unwrap_or(0)) })
    }

    fn words(&self, what: &str, value: u64) -> String {
        let line = &self.line;
        // Flows are measured in characters per 1,000 s.
        let characters = || format!("{:.1} characters/s", value as f64 / 1_000.0);
        match what {
            SESSION => format!("session with the other adapter (instance {value:08x})"),
            LOST => format!("line lost: nothing good heard for {}", Span::from_millis(value)),
            RESTARTED => {
                format!("the other adapter was restarted or is another one (instance {value:08x}): all begins anew")
            }
            INCOMPATIBLE => format!(
                "the other adapter speaks the line protocol up to version {value}, and none of our versions: there will \
                 be no session; install the same release on both sides"
            ),
            OTHER_LINE => format!(
                "the other adapter's line differs: its rate is {value}bit/s or its characters are others, ours is {}; \
                 give both the same --baud, --framing or --rate, unless the line is so",
                self.rate
            ),
            LOOPED => {
                "our own hello came back, so there is no session: the line is looped back, or the other adapter was \
                       started with the same --seed; take out the loop, or give each adapter a seed of its own"
                    .to_owned()
            }
            ADMITTED if value == 0 => "real-time flow let in; what it needs is not known yet".to_owned(),
            ADMITTED => format!("real-time flow let in: it needs {}", characters()),
            FLOW_REFUSED => format!(
                "real-time flow refused: it needs {}, and the flows let in before it leave no room for that on this line \
                 of {:.1} characters/s (see `admission` in the configuration)",
                characters(),
                self.characters_per_second
            ),
            WAITING => match line {
                Address::Device(path) => {
                    format!("no device at {} yet; it is tried twice a second until you end this", path.display())
                }
                Address::Connect(target) => format!("connecting to {target}; it is tried until you end this"),
                Address::Listen(target) => format!("waiting for a connection at {target}"),
            },
            OPENED => format!("{line} is there"),
            GONE => match line {
                Address::Listen(_) => format!("{line} lost its connection; waiting for another"),
                _ => format!("{line} is gone; it is tried twice a second"),
            },
            _ => format!("{what}: {value}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn teller(line: &str) -> Teller {
        Teller::new(&AdapterConfig::default(), &line.parse().unwrap())
    }

    fn event(what: &'static str, value: u64) -> Event {
        Event { what, value }
    }

    #[test]
    fn each_event_says_what_it_means_and_what_to_do() {
        let mut teller = teller("./b");
        for (event, words) in [
            (event(SESSION, 0x2a), "instance 0000002a"),
            (event(LOST, 4_000), "for 4s"),
            (event(RESTARTED, 7), "restarted"),
            (event(INCOMPATIBLE, 9), "up to version 9"),
            (event(OTHER_LINE, 2_400), "2400bit/s or its characters are others, ours is 9600bit/s"),
            (event(LOOPED, 1), "the same --seed"),
            (event(ADMITTED, 235_500), "needs 235.5 characters/s"),
            (event(FLOW_REFUSED, 400_000), "leave no room for that on this line of 960.0 characters/s"),
        ] {
            let told = teller.adapter(Span::ZERO, event).unwrap();
            assert!(told.text.contains(words), "{told:?}");
            assert_eq!((told.what, told.value, told.times), (event.what, Some(event.value), 1));
        }
    }

    #[test]
    fn too_many_are_counted_and_told_at_the_end_of_their_time() {
        let mut teller = teller("./b");
        let told = (0..100).filter_map(|at| teller.adapter(Span::from_millis(at), event(FLOW_REFUSED, 1))).count();
        assert_eq!(told as u64, MOST);
        // Others are not held back by that.
        assert!(teller.adapter(Span::from_secs(1), event(LOST, 1)).is_some());
        assert_eq!(teller.withheld(Span::from_secs(9)), []);
        let late = teller.withheld(Span::from_secs(10));
        assert_eq!(late.len(), 1);
        assert_eq!((late[0].what, late[0].times), (FLOW_REFUSED, 100 - MOST));
        assert_eq!(teller.withheld(Span::from_secs(10)), []);
        assert!(teller.adapter(Span::from_secs(10), event(FLOW_REFUSED, 1)).is_some());
    }

    #[test]
    fn the_device_is_told_as_it_comes_and_goes() {
        let mut teller = teller("./b");
        assert!(teller.start(Counted::default()).unwrap().text.contains("no device at ./b yet"));
        let mut look = |up, begun, lost| {
            let now = Counted { up, begun, lost, ..Counted::default() };
            teller.device(Span::ZERO, now).map(|event| event.what).collect::<Vec<_>>()
        };
        assert_eq!(look(false, 0, 0), [] as [&str; 0]);
        assert_eq!(look(true, 1, 0), [OPENED]);
        assert_eq!(look(true, 1, 0), [] as [&str; 0]);
        assert_eq!(look(true, 2, 1), [GONE, OPENED]);
        assert_eq!(look(false, 2, 2), [GONE]);
    }
}
