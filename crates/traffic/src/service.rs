//! Maritime services and the rates they are given.

use engine::Rate;

/// A service and the rate its application sends at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    /// Name in scenario files.
    pub name: &'static str,
    /// Name in the source.
    pub title: &'static str,
    /// Rate of the application.
    pub rate: Rate,
    /// Where the rate comes from.
    pub source: &'static str,
}

const TABLE_III: &str = "Kolehmainen et al., Benchmarking of Emulated Wireless Edge Cloud Connectivity, Table III";

/// Every service, slowest first.
pub const SERVICES: [Service; 4] = [
    Service { name: "gmdss", title: "GMDSS", rate: kbit(10), source: TABLE_III },
    Service { name: "ais", title: "Radar/AIS", rate: kbit(100), source: TABLE_III },
    Service { name: "infotainment", title: "Infotainment", rate: kbit(1500), source: TABLE_III },
    Service { name: "lidar", title: "LIDAR", rate: kbit(2000), source: TABLE_III },
];

impl Service {
    /// The service called `name`.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        SERVICES.iter().find(|service| service.name == name)
    }
}

const fn kbit(rate: u64) -> Rate {
    Rate::from_bits_per_second(rate * 1_000).expect("the table has no rate of zero")
}
