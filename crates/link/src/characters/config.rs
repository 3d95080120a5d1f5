//! What one direction of a character line is told to be.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::num::NonZeroU32;
use core::str::FromStr;

use engine::{Rate, Size, Span};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::config::DelayModel;
use crate::validate::{ConfigError, chance, check};

/// One direction of a line that carries characters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LineConfig {
    /// How characters are put on the line.
    pub pace: Pace,
    /// How long a character travels once its last bit is sent; at most one hour.
    pub delay: Span,
    /// Characters that may wait behind those in the transmitter's FIFO.
    pub buffer: Size,
    /// Which bits are received wrong.
    pub errors: BitErrors,
    /// When the signal fades, and what that does.
    pub fades: Option<Fades>,
    /// When the line is cut: what is sent meanwhile arrives nowhere. In order, without overlap.
    pub cuts: Vec<Interval>,
    /// Characters in the middle of a run are handed on in pieces of at most this length (at least
    /// one character), so that they are late by no more than it. The last character of a run is
    /// never late.
    pub granularity: Span,
}

/// How characters are put on a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pace {
    /// By a UART: each character with its own start and stop bits.
    Asynchronous(Uart),
    /// At a constant rate, eight bits a character (ISDN, a modem in synchronous mode).
    Synchronous(Rate),
}

/// A UART at each end of the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Uart {
    /// Bits a second, start and stop bits included.
    pub baud: NonZeroU32,
    /// What is around a character.
    #[serde(default)]
    pub framing: Framing,
    /// Depth of the transmitter's FIFO in characters: what is in it cannot be recalled
    /// ([`LineChange::Flush`](super::LineChange::Flush)). 16 in a 16550A.
    #[serde(default = "Uart::default_fifo")]
    pub fifo: u32,
    /// How the receiver hands characters over; if absent, as they come.
    #[serde(default)]
    pub receive: Option<ReceiveFifo>,
}

/// The receiver's FIFO, as the 16550A has it (National Semiconductor PC16550D, "FIFO interrupt mode
/// operation").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiveFifo {
    /// Characters are handed over once so many are there: 1, 4, 8 or 14 in a 16550A; at least 1.
    pub trigger: u32,
    /// Fewer are handed over when no further one came for so many character times; 4 in a 16550A,
    /// at least 1.
    pub timeout: u32,
}

/// What is around a character on an asynchronous line, written as in `8N1`: data bits (5 to 8),
/// parity (N, E, O), stop bits (1 or 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framing {
    data: u8,
    parity: Parity,
    stop: u8,
}

/// The parity bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parity {
    /// There is none.
    None,
    /// The number of ones is even.
    Even,
    /// The number of ones is odd.
    Odd,
}

/// Which bits on the line are received wrong.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BitErrors {
    /// Each with the same chance, whatever happened to the others; 0 to 1.
    Independent(f64),
    /// In bursts: two states, each with a bit error rate (Gilbert 1960, Elliott 1963).
    Bursts(Bursts),
}

/// Gilbert and Elliott's channel by the bit. It moves on while the line is idle.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bursts {
    /// Chance, for each bit, that a burst begins; 0 to 1.
    pub begin: f64,
    /// Chance, for each bit of a burst, that it ends; over 0 and at most 1, so that a burst has
    /// 1 / `end` bits in the mean.
    pub end: f64,
    /// Chance that a bit of a burst is wrong, 0 to 1.
    pub inside: f64,
    /// Chance that a bit between bursts is wrong, 0 to 1.
    pub outside: f64,
}

/// Times of bad reception.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fades {
    /// When they come.
    pub when: FadeTimes,
    /// What becomes of characters.
    pub effect: FadeEffect,
}

/// When fades come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FadeTimes {
    /// At random: both lengths are exponential.
    Drawn {
        /// Mean time from the end of a fade to the next; over 0.
        interval: Span,
        /// Mean length of a fade; over 0.
        length: Span,
    },
    /// At these times. In order, without overlap.
    Listed(Vec<Interval>),
}

/// What a fade does to a character that is sent in it, be it in part.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FadeEffect {
    /// It is not received at all: the modem has lost the carrier and keeps silent.
    Lost,
    /// Its bits are wrong with this chance: 0.5 is noise.
    Errors(f64),
}

/// A length of time that begins at a time of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interval {
    /// Since the epoch of the run.
    pub from: Span,
    /// How long.
    pub length: Span,
}

impl Default for LineConfig {
    /// 9600 baud 8N1 without errors, with a Linux tty's buffer of 4 KiB.
    fn default() -> Self {
        Self {
            pace: Pace::Asynchronous(Uart::new(NonZeroU32::MIN.saturating_add(9_599))),
            delay: Span::ZERO,
            buffer: Size::from_bytes(4_096),
            errors: BitErrors::Independent(0.0),
            fades: None,
            cuts: Vec::new(),
            granularity: Span::from_millis(1),
        }
    }
}

impl LineConfig {
    /// Whether such a line can be.
    ///
    /// # Errors
    ///
    /// Names the field and its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.pace.validate()?;
        check(self.delay <= DelayModel::LONGEST, "delay", self.delay, "at most 1h")?;
        let room = (1..=1 << 30).contains(&self.buffer.bytes());
        check(room, "buffer", self.buffer, "1B to 1GiB")?;
        self.errors.validate()?;
        if let Some(fades) = &self.fades {
            fades.validate()?;
        }
        in_order("cuts", &self.cuts)
    }

    /// Characters that are handed on together in the middle of a run.
    pub(crate) fn characters_in_piece(&self) -> usize {
        usize::try_from(self.pace.characters_in(self.granularity)).unwrap_or(usize::MAX)
    }

    /// Most characters it holds that have not been sent.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.buffer.bytes() + u64::from(self.pace.fifo())
    }
}

impl Pace {
    /// Bits a character takes on the line.
    #[must_use]
    pub fn bits_per_character(&self) -> u32 {
        match self {
            Self::Asynchronous(uart) => uart.framing.bits(),
            Self::Synchronous(_) => 8,
        }
    }

    /// Bits a second on the line.
    #[must_use]
    pub fn bits_per_second(&self) -> u64 {
        match self {
            Self::Asynchronous(uart) => u64::from(uart.baud.get()),
            Self::Synchronous(rate) => rate.bits_per_second(),
        }
    }

    /// How long `number` characters take back to back, rounded down to the nanosecond.
    #[must_use]
    pub fn time_for(&self, number: u64) -> Span {
        let bits = u128::from(number) * u128::from(self.bits_per_character());
        let nanos = bits * 1_000_000_000 / u128::from(self.bits_per_second());
        Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Whole bit times that pass in `span`.
    pub(crate) fn bits_in(&self, span: Span) -> u64 {
        let bits = u128::from(span.as_nanos()) * u128::from(self.bits_per_second()) / 1_000_000_000;
        u64::try_from(bits).unwrap_or(u64::MAX)
    }

    /// Characters that have wholly passed in `span`: the most for which
    /// [`time_for`](Self::time_for) is no longer.
    pub(crate) fn characters_in(&self, span: Span) -> u64 {
        let bits = (u128::from(span.as_nanos()) + 1) * u128::from(self.bits_per_second());
        let characters = bits.div_ceil(1_000_000_000 * u128::from(self.bits_per_character())) - 1;
        i64::try_from(characters).unwrap_or(i64::MAX).cast_unsigned()
    }

    pub(crate) fn fifo(&self) -> u32 {
        match self {
            Self::Asynchronous(uart) => uart.fifo,
            Self::Synchronous(_) => 0,
        }
    }

    pub(crate) fn receive(&self) -> Option<ReceiveFifo> {
        match self {
            Self::Asynchronous(uart) => uart.receive,
            Self::Synchronous(_) => None,
        }
    }

    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        let Self::Asynchronous(uart) = self else { return Ok(()) };
        check(uart.fifo <= 65_536, "pace.fifo", uart.fifo, "at most 65536 characters")?;
        let Some(receive) = uart.receive else { return Ok(()) };
        check((1..=65_536).contains(&receive.trigger), "pace.receive.trigger", receive.trigger, "1 to 65536")?;
        check((1..=65_536).contains(&receive.timeout), "pace.receive.timeout", receive.timeout, "1 to 65536")
    }
}

impl Uart {
    /// 8N1 at this speed, with a transmit FIFO of 16 characters and a receiver that hands
    /// characters over as they come.
    #[must_use]
    pub const fn new(baud: NonZeroU32) -> Self {
        Self { baud, framing: Framing::N81, fifo: Self::default_fifo(), receive: None }
    }

    const fn default_fifo() -> u32 {
        16
    }
}

impl Framing {
    /// `8N1`.
    pub const N81: Self = Self { data: 8, parity: Parity::None, stop: 1 };

    /// Data bits, 5 to 8. Bits of a byte beyond them are not sent and arrive as zeros.
    #[must_use]
    pub const fn data_bits(self) -> u8 {
        self.data
    }

    /// The parity bit.
    #[must_use]
    pub const fn parity(self) -> Parity {
        self.parity
    }

    /// Stop bits, 1 or 2.
    #[must_use]
    pub const fn stop_bits(self) -> u8 {
        self.stop
    }

    /// All bits of a character: start, data, parity, stop.
    #[must_use]
    pub fn bits(self) -> u32 {
        1 + u32::from(self.data) + u32::from(self.parity != Parity::None) + u32::from(self.stop)
    }
}

impl Default for Framing {
    fn default() -> Self {
        Self::N81
    }
}

/// Text that is no framing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no framing; write data bits (5 to 8), parity (N, E or O) and stop bits (1 or 2), as in `8N1`")]
pub struct FramingError(String);

impl FromStr for Framing {
    type Err = FramingError;

    fn from_str(text: &str) -> Result<Self, FramingError> {
        let refused = || FramingError(text.to_string());
        let [data, parity, stop] = *text.as_bytes() else { return Err(refused()) };
        let parity = match parity.to_ascii_uppercase() {
            b'N' => Parity::None,
            b'E' => Parity::Even,
            b'O' => Parity::Odd,
            _ => return Err(refused()),
        };
        if !(b'5'..=b'8').contains(&data) || !(b'1'..=b'2').contains(&stop) {
            return Err(refused());
        }
        Ok(Self { data: data - b'0', parity, stop: stop - b'0' })
    }
}

impl fmt::Display for Framing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parity = match self.parity {
            Parity::None => 'N',
            Parity::Even => 'E',
            Parity::Odd => 'O',
        };
        write!(f, "{}{parity}{}", self.data, self.stop)
    }
}

impl Serialize for Framing {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Framing {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl BitErrors {
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        match self {
            Self::Independent(rate) => chance("errors", *rate),
            Self::Bursts(bursts) => {
                chance("errors.begin", bursts.begin)?;
                chance("errors.end", bursts.end)?;
                check(bursts.end > 0.0, "errors.end", bursts.end, "over 0, or a burst would never end")?;
                chance("errors.inside", bursts.inside)?;
                chance("errors.outside", bursts.outside)
            }
        }
    }

    /// Share of bits that are wrong in the long run, without fades.
    #[must_use]
    pub fn mean(&self) -> f64 {
        match self {
            Self::Independent(rate) => *rate,
            Self::Bursts(bursts) => {
                let share = bursts.share();
                share * bursts.inside + (1.0 - share) * bursts.outside
            }
        }
    }
}

impl Bursts {
    /// Share of bits that are in bursts in the long run.
    #[must_use]
    pub fn share(&self) -> f64 {
        if self.begin + self.end > 0.0 { self.begin / (self.begin + self.end) } else { 0.0 }
    }
}

impl Fades {
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        match &self.when {
            FadeTimes::Drawn { interval, length } => {
                let valid = |span: &Span| (Span::from_micros(1)..=Span::from_secs(31_536_000)).contains(span);
                check(valid(interval), "fades.interval", interval, "1us to a year (8760h)")?;
                check(valid(length), "fades.length", length, "1us to a year (8760h)")?;
            }
            FadeTimes::Listed(list) => in_order("fades.times", list)?,
        }
        match self.effect {
            FadeEffect::Lost => Ok(()),
            FadeEffect::Errors(rate) => chance("fades.errors", rate),
        }
    }
}

/// Intervals come in order and do not overlap.
pub(crate) fn in_order(field: &'static str, list: &[Interval]) -> Result<(), ConfigError> {
    for pair in list.windows(2) {
        let [first, second] = pair else { continue };
        let value = format!("{} for {} before {}", first.from, first.length, second.from);
        check(first.from + first.length <= second.from, field, value, "in order, without overlap")?;
    }
    Ok(())
}
