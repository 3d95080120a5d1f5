//! Which packets a branch takes.

use engine::Random;
use wire::Headers;

use crate::config::Selector;

impl Selector {
    /// Whether the branch takes the packet. The die is cast only if all else holds.
    pub(crate) fn takes(&self, headers: &Headers, random: &mut Random) -> bool {
        self.headers.matches(headers) && self.probability.is_none_or(|probability| random.chance(probability))
    }

    /// Whether it looks at a packet's headers; otherwise at chance alone.
    #[must_use]
    pub fn reads_headers(&self) -> bool {
        self.headers != queue::Selector::default()
    }
}
