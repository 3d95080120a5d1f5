//! What runs over a link: services, rate-limited sources, numbered probes, and the modelled hosts
//! of virtual time.
//!
//! [`Throttle`] and [`ProbeReceiver`] decide and count for both executors: the real endpoints drive
//! kernel sockets by them, the modelled [`Host`] drives smoltcp's.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(any(test, feature = "quic"))]
extern crate std;

pub mod application;
mod echoes;
mod esp;
mod filler;
mod host;
pub mod models;
pub mod pairs;
mod playout;
mod probe;
#[cfg(feature = "quic")]
mod quic;
pub mod rating;
pub mod replay;
mod router;
mod rtp;
pub mod selfsimilar;
mod service;
pub mod sip;
pub mod stamp;
mod throttle;
pub mod times;
mod tunnel;
mod voice;

pub use application::{Application, Call, LOG_LIMIT, Passage};
pub use echoes::{EchoPassage, Echoes};
pub use esp::{ESP_LINK_DROPS, EspGateway, SecurityAssociation, esp_length, esp_room};
pub use filler::fill;
pub use host::{Congestion, Host, HostConfig, HostFlow, TcpSource};
pub use playout::{Heard, listen};
pub use probe::{Arrival, Counts, PROBE_LEN, Probe, ProbeReceiver};
#[cfg(feature = "quic")]
pub use quic::{KeyError, VideoConfig, video};
pub use router::{NextHop, Router};
pub use rtp::{RTP_LEN, Rtp};
pub use service::{SERVICES, Service};
pub use throttle::Throttle;
pub use tunnel::{Remote, Tunnel};
pub use voice::{Frames, P59, Talk, VOCODERS, Vocoder, VoiceConfig, VoiceSink, VoiceSource};
