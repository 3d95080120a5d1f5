//! Link profiles: the one home of their numbers and of where these come from.

use std::fmt;

use engine::{Rate, Span};
use serde::Serialize;

/// Two directions of a link with a name.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Profile {
    /// Name in scenario files.
    pub name: &'static str,
    /// What it is.
    pub title: &'static str,
    /// Where the numbers come from, and what was assumed.
    pub source: &'static str,
    /// From the first end (the ship) to the second.
    pub up: ProfileDirection,
    /// From the second end (the shore) to the first.
    pub down: ProfileDirection,
    /// Limit of the queues, unless the scenario says another.
    pub queue: DefaultQueue,
}

/// One direction of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ProfileDirection {
    /// Constant rate; unlimited if absent.
    pub rate: Option<Rate>,
    /// Constant delay, one way.
    pub delay: Span,
}

/// How long a queue is where nothing is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DefaultQueue {
    /// So many packets.
    Packets(u32),
    /// The larger of 50 packets and one bandwidth-delay product.
    BandwidthDelay,
}

/// The profile called `name`.
#[must_use]
pub fn profile(name: &str) -> Option<&'static Profile> {
    PROFILES.iter().find(|profile| profile.name == name)
}

impl Profile {
    /// The profile as one line of JSON, quantities with their units.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_else(|_| unreachable!("a profile has only texts and numbers"))
    }
}

impl fmt::Display for Profile {
    /// Name and numbers in one line, what it is and where it comes from in another.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<22}up {:<26}down {:<26}queue {}", self.name, self.up, self.down, self.queue)?;
        write!(f, "{:<22}{}: {}", "", self.title, self.source)
    }
}

impl fmt::Display for ProfileDirection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = self.rate.map_or("unlimited".to_owned(), |rate| rate.to_string());
        f.pad(&format!("{rate}, {}", self.delay))
    }
}

impl fmt::Display for DefaultQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Packets(packets) => write!(f, "{packets} packets"),
            Self::BandwidthDelay => f.write_str("50 packets or one bandwidth-delay product"),
        }
    }
}

/// Every profile, in the order they are listed.
pub const PROFILES: &[Profile] = &[
    Profile {
        name: "perfect",
        title: "No limit, no delay",
        source: "what the machine gives",
        up: ProfileDirection { rate: None, delay: Span::ZERO },
        down: ProfileDirection { rate: None, delay: Span::ZERO },
        queue: DefaultQueue::BandwidthDelay,
    },
    table4("satellite-1", "Satellite #1 (geostationary)", 5, 30, 125),
    table4("satellite-2", "Satellite #2 (geostationary)", 3, 18, 315),
    table4("5g-1", "5G #1", 88, 535, 6),
    table4("5g-2", "5G #2", 29, 592, 13),
    table1("5g-cardiff-vodafone", "5G, Vodafone in Cardiff", 17_740, 181_960, 20),
    table1("5g-cardiff-ee", "5G, EE in Cardiff", 18_270, 168_470, 32),
    table1("5g-edinburgh-ee", "5G, EE in Edinburgh", 11_470, 168_970, 42),
    table1("5g-london-o2", "5G, O2 in London", 8_000, 127_980, 26),
    table2("starlink", "Starlink, 2021", 13_890, 97_230, 45),
    table2("hughesnet", "HughesNet, 2021", 2_430, 19_730, 724),
    table2("viasat", "Viasat, 2021", 3_380, 18_130, 630),
    hf("hf-75", "HF, 75 bit/s", 75, HF_SHORT),
    hf("hf-150", "HF, 150 bit/s", 150, HF_SHORT),
    hf("hf-300", "HF, 300 bit/s", 300, HF_SHORT),
    hf("hf-600", "HF, 600 bit/s", 600, HF_SHORT),
    hf("hf-1200", "HF, 1200 bit/s", 1_200, HF_SHORT),
    hf("hf-2400", "HF, 2400 bit/s", 2_400, HF_SHORT),
    hf("hf-3200", "HF, 3200 bit/s", 3_200, HF_HIGH_RATE_SHORT),
    hf("hf-4800", "HF, 4800 bit/s", 4_800, HF_HIGH_RATE_SHORT),
    hf("hf-6400", "HF, 6400 bit/s", 6_400, HF_HIGH_RATE_SHORT),
    hf("hf-8000", "HF, 8000 bit/s", 8_000, HF_HIGH_RATE_SHORT),
    hf("hf-9600", "HF, 9600 bit/s", 9_600, HF_HIGH_RATE_SHORT),
    Profile {
        name: "serial-9600-8n1",
        title: "Asynchronous serial line, 9600 baud 8N1",
        source: "a start and a stop bit with each octet: 960 B/s, that is 7680 bit/s of data; no delay but the line's own",
        up: line(7_680),
        down: line(7_680),
        queue: DefaultQueue::BandwidthDelay,
    },
    Profile {
        name: "isdn-9600",
        title: "Synchronous ISDN line held at 9.6 kbit/s",
        source: "the narrowband testbed's line, octets without start and stop bits; no delay but the line's own",
        up: line(9_600),
        down: line(9_600),
        queue: DefaultQueue::BandwidthDelay,
    },
];

/// Table IV: Mbit/s and milliseconds one way, over dummynet with its default queue of 50 slots.
const fn table4(name: &'static str, title: &'static str, up: u64, down: u64, delay_ms: u64) -> Profile {
    let delay = Span::from_millis(delay_ms);
    Profile {
        name,
        title,
        source: "Kolehmainen et al., Table IV",
        up: ProfileDirection { rate: rate(up * 1_000_000), delay },
        down: ProfileDirection { rate: rate(down * 1_000_000), delay },
        queue: DefaultQueue::Packets(50),
    }
}

/// Table I: kbit/s, and a round trip in milliseconds of which each way takes half.
const fn table1(name: &'static str, title: &'static str, up: u64, down: u64, round_trip_ms: u64) -> Profile {
    measured(
        name,
        title,
        "Kolehmainen et al., Table I (Ookla 2019); latency read as round trip",
        up,
        down,
        round_trip_ms,
    )
}

/// Table II: as Table I.
const fn table2(name: &'static str, title: &'static str, up: u64, down: u64, round_trip_ms: u64) -> Profile {
    measured(
        name,
        title,
        "Kolehmainen et al., Table II (Ookla 2021); latency read as round trip",
        up,
        down,
        round_trip_ms,
    )
}

const fn measured(
    name: &'static str,
    title: &'static str,
    source: &'static str,
    up: u64,
    down: u64,
    round_trip_ms: u64,
) -> Profile {
    let delay = Span::from_micros(round_trip_ms * 500);
    Profile {
        name,
        title,
        source,
        up: ProfileDirection { rate: rate(up * 1_000), delay },
        down: ProfileDirection { rate: rate(down * 1_000), delay },
        queue: DefaultQueue::BandwidthDelay,
    }
}

/// STANAG 4539, 75 to 2400 bit/s: the short interleaver is 0.6 s long.
const HF_SHORT: Span = Span::from_millis(600);
/// STANAG 4539, 3200 to 9600 bit/s: the short interleaver is 9 frames of 287 symbols at 2400 baud.
const HF_HIGH_RATE_SHORT: Span = Span::from_micros(1_076_250);

const fn hf(name: &'static str, title: &'static str, bits_per_second: u64, interleaver: Span) -> Profile {
    // A block interleaver fills one block before it sends and empties one after it has received:
    // every bit takes two lengths.
    let direction = ProfileDirection { rate: rate(bits_per_second), delay: interleaver.times(2) };
    Profile {
        name,
        title,
        source: "STANAG 4539 with short interleaver, twice its length as delay; both ways at once, no turn-round, no error",
        up: direction,
        down: direction,
        queue: DefaultQueue::BandwidthDelay,
    }
}

const fn line(bits_per_second: u64) -> ProfileDirection {
    ProfileDirection { rate: rate(bits_per_second), delay: Span::ZERO }
}

const fn rate(bits_per_second: u64) -> Option<Rate> {
    Rate::from_bits_per_second(bits_per_second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_every_profile_has_a_source() {
        for (i, profile) in PROFILES.iter().enumerate() {
            assert!(PROFILES[..i].iter().all(|other| other.name != profile.name), "{}", profile.name);
            assert!(!profile.source.is_empty() && !profile.title.is_empty());
        }
    }

    #[test]
    fn table_iv_is_the_papers() {
        let row = |name: &str| {
            let p = profile(name).unwrap();
            let mbit = |d: ProfileDirection| d.rate.unwrap().bits_per_second() / 1_000_000;
            (mbit(p.up), mbit(p.down), p.up.delay.as_nanos() / 1_000_000, p.down.delay.as_nanos() / 1_000_000)
        };
        assert_eq!(row("satellite-1"), (5, 30, 125, 125));
        assert_eq!(row("satellite-2"), (3, 18, 315, 315));
        assert_eq!(row("5g-1"), (88, 535, 6, 6));
        assert_eq!(row("5g-2"), (29, 592, 13, 13));
    }

    #[test]
    fn a_profile_is_listed_with_its_numbers_and_its_source() {
        let listed = profile("satellite-2").unwrap();
        let text = listed.to_string();
        for part in ["satellite-2", "up 3Mbit/s, 315ms", "down 18Mbit/s, 315ms", "50 packets", "Table IV"] {
            assert!(text.contains(part), "{text}");
        }
        assert!(listed.to_json().contains(r#""up":{"rate":"3Mbit/s","delay":"315ms"}"#), "{}", listed.to_json());
    }

    #[test]
    fn published_latency_is_a_round_trip() {
        let starlink = profile("starlink").unwrap();
        assert_eq!(starlink.up.delay + starlink.down.delay, Span::from_millis(45));
        assert_eq!(starlink.up.rate.unwrap().to_string(), "13890kbit/s");
    }
}
