//! Which links of a cell have narrowband adapters at their ends.

use ::adapter::AdapterConfig;
use engine::Rate;
use link::DirectionConfig;

use crate::plan::{Link, Medium};
use crate::read::adapter;
use crate::read::decode::Decoder;
use crate::read::fields;
use crate::read::pipe::mean_rate;
use crate::read::problem::{At, Noted, Notes, Problem};
use crate::read::yaml::{Node, Value};

/// The adapters of a path.
#[derive(Clone, Debug)]
pub(crate) struct Adapters {
    wish: Wish,
    /// Names of the links, if they are said.
    links: Option<Vec<(String, At)>>,
}

/// An adapter as it is said.
#[derive(Clone, Debug)]
struct Wish {
    config: AdapterConfig,
    /// Where its rate is said, or it follows from the link.
    rate_at: Option<At>,
    /// The same of its bits a character.
    bits_at: Option<At>,
}

impl Wish {
    /// The adapter in front of a line with this rate and so many bits a character.
    fn before(&self, rate: Rate, bits: u8) -> AdapterConfig {
        let mut config = self.config.clone();
        if self.rate_at.is_none() {
            config.rate = rate;
        }
        if self.bits_at.is_none() {
            config.bits_per_character = bits;
        }
        config
    }
}

/// The fastest line an adapter can have: where a link has no rate.
const FASTEST: u64 = 1_000_000_000;

impl Adapters {
    /// Reads what stands under `adapter`: `links`, and the keys of an adapter's configuration.
    pub(crate) fn read(notes: &Notes, node: &Node) -> Result<Self, Noted> {
        let mut own = node.clone();
        let mut links = None;
        if let Value::Map(entries) = &mut own.value
            && let Some(place) = entries.iter().position(|entry| entry.key == "links")
        {
            let said = entries.remove(place).node;
            let nodes = fields::one_or_more(notes, &said, "`links`")?.iter();
            let names = nodes.map(|node| Ok((fields::text(notes, node)?.to_owned(), node.at)));
            links = Some(names.collect::<Result<_, Noted>>()?);
        }
        let said =
            |key| own.entry(key).filter(|entry| !matches!(entry.node.value, Value::Null)).map(|entry| entry.key_at);
        let (rate_at, bits_at) = (said("rate"), said("bits-per-character"));
        Ok(Self { wish: Wish { config: adapter::decode(notes, &own)?, rate_at, bits_at }, links })
    }
}

impl Decoder<'_> {
    /// Places adapters: those of the path where it has some, and those that do nothing but framing at
    /// every other line, which carries nothing but frames.
    pub(crate) fn place(&self, adapters: Option<&Adapters>, links: &mut [Link]) -> Result<(), Noted> {
        let plain = Wish { config: AdapterConfig::plain(), rate_at: None, bits_at: None };
        let named = adapters.and_then(|adapters| adapters.links.as_ref());
        if let Some((name, at)) = named.into_iter().flatten().find(|(name, _)| !links.iter().any(|l| l.name == *name)) {
            let names: Vec<&str> = links.iter().map(|link| link.name.as_str()).collect();
            return Err(fields::unknown(self.notes, *at, "link", name, names, ""));
        }
        let has_lines = links.iter().any(|link| link.characters().is_some());
        for link in links {
            let chosen = match named {
                Some(named) => named.iter().any(|(name, _)| *name == link.name),
                None => !has_lines || link.characters().is_some(),
            };
            let wish = adapters.map(|adapters| &adapters.wish).filter(|_| chosen);
            let Some(wish) = wish.or(link.characters().map(|_| &plain)) else { continue };
            if let (Some(said), Some(_)) = (wish.bits_at, link.characters()) {
                let problem =
                    Problem::new(said, format!("the bits of a character on `{}` follow from its framing", link.name));
                return Err(self
                    .notes
                    .note(problem.remedy("leave `bits-per-character` away, or set the line's `framing`")));
            }
            let ends = match &link.medium {
                Medium::Characters { line } => [&line.up, &line.down].map(|way| {
                    let rate = Rate::from_bits_per_second(way.pace.bits_per_second());
                    (rate, way.pace.bits_per_character() as u8)
                }),
                Medium::Packets { up, down } => [up, down].map(|way| (own_rate(way), 8)),
            };
            let at_end = |(rate, bits): (Option<Rate>, u8)| {
                let rate = rate.map_or(FASTEST, Rate::bits_per_second).clamp(50, FASTEST);
                Rate::from_bits_per_second(rate).map_or_else(|| wish.config.clone(), |rate| wish.before(rate, bits))
            };
            let configs = ends.map(at_end);
            if let (Some(said), Some(line)) = (wish.rate_at, link.characters()) {
                let over =
                    configs.iter().zip(line).find(|(end, way)| end.rate.bits_per_second() > way.pace.bits_per_second());
                if let Some((end, way)) = over {
                    let what = format!(
                        "an adapter of {} before `{}`, which has {} bit/s",
                        end.rate,
                        link.name,
                        way.pace.bits_per_second()
                    );
                    let problem = Problem::new(said, what);
                    return Err(self
                        .notes
                        .note(problem.remedy("leave `rate` away: it follows from the line; or give a lower one")));
                }
            }
            link.adapters = Some(Box::new(configs));
        }
        Ok(())
    }
}

/// The rate of a direction's main pipe, which is the one that frames without headers of IP take.
fn own_rate(way: &DirectionConfig) -> Option<Rate> {
    way.pipe.rate.as_ref().map(mean_rate)
}
