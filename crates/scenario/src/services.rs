//! The maritime services a traffic entry may name.

use engine::Rate;

/// A service: rate-limited TCP.
#[derive(Clone, Copy, Debug)]
pub struct Service {
    /// Name in scenario files.
    pub name: &'static str,
    /// What it is, in the words of its source.
    pub title: &'static str,
    /// Rate the application offers.
    pub rate: Rate,
}

/// Table III of Kolehmainen et al., "Benchmarking of Emulated Wireless Edge Cloud Connectivity for
/// Maritime Environments" (kbit/s there).
pub const SERVICES: &[Service] = &[
    service("gmdss", "GMDSS", 10_000),
    service("ais", "Radar/AIS", 100_000),
    service("infotainment", "Infotainment", 1_500_000),
    service("lidar", "LIDAR", 2_000_000),
];

const fn service(name: &'static str, title: &'static str, bits_per_second: u64) -> Service {
    match Rate::from_bits_per_second(bits_per_second) {
        Some(rate) => Service { name, title, rate },
        None => panic!("a service has a rate"),
    }
}
