//! Which packets a branch takes.

use engine::Random;
use wire::Headers;

use crate::config::Selector;

impl Selector {
    /// Whether the branch takes the packet. The die is cast only if all else holds.
    pub(crate) fn takes(&self, headers: &Headers, random: &mut Random) -> bool {
        self.headers.matches(headers) && self.probability.is_none_or(|probability| random.chance(probability))
    }

    /// Whether it looks at what tunnels hide: at more than a packet's code point, ESP's SPI and chance.
    #[must_use]
    pub fn reads_what_tunnels_hide(&self) -> bool {
        queue::Selector { dscp: None, spi: None, ..self.headers.clone() } != queue::Selector::default()
    }
}
