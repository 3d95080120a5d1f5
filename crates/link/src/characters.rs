//! A line that carries characters: a UART at each end, or a modem that holds a rate.
//!
//! # The path of a character
//!
//! ```text
//! run ─► buffer ─► transmitter ─► bit errors, fades, cuts ─► receiver ─► delay ─► runs
//! ```
//!
//! A [`Packet`] on a line is a run of characters that were handed over at once. Its characters leave
//! one after the other at the line's pace, without a gap for as long as there are any: the n-th of a
//! busy period has wholly arrived `n * bits / baud` after its beginning, rounded down to the
//! nanosecond. What arrives is handed on as runs whose `launch` is when their last character has
//! arrived: at the end of each run that came in, and in its middle by
//! [`granularity`](LineConfig::granularity), so that a fast line costs no more events than a slow one.
//!
//! * **Buffer**: a run for which there is no room in buffer and FIFO is dropped whole ([`FULL`]). A
//!   real driver takes what fits; a torn frame is worth no more than none. [`LineChange::Flush`] drops
//!   what waits (`tcflush`), but for the characters in the FIFO, which cannot be recalled.
//! * **Asynchronous**: each character is sent with start bit, data, parity and stop bits. A bit that is
//!   hit does what it does to a UART: a data bit garbles the character; with parity the character is
//!   lost then ([`LineCounters::parity`]), as from a tty set to `INPCK | IGNPAR`; a stop bit is a framing
//!   error, which loses the character ([`LineCounters::framing`], `IGNPAR` too); and a start bit loses or
//!   shifts characters until the receiver is in step again. Bits are sampled once, in their middle (a
//!   16550A takes 16 samples), and an idle line is free of noise. A character that a shifted receiver
//!   makes of the idle line arrives with the last whole one, up to a character time early.
//! * **Synchronous**: eight bits a character and nothing around it. Hit bits garble; nothing is shifted.
//! * **Receive FIFO** ([`Uart::receive`]): characters are handed on when the trigger level is reached, or
//!   some character times after the last one. Without it they are handed on as they come.
//! * **Fades** and **cuts** take characters of which any part is sent in them. The sender does not notice:
//!   its characters take their time all the same.
//!
//! Of each effect the random stream is its own, and the same seed and inputs give the same bytes at the
//! same times. Nothing is drawn for a character that is not hit.

mod config;
mod counters;
mod errors;
mod fades;
mod receiver;

use alloc::collections::VecDeque;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use engine::{DropReason, Element, Output, Packet, Port, Size, Span, Time};

use crate::config::PipeConfig;
use crate::counters::DELAY_LINE_FULL;
use crate::line::Line;
use crate::validate::ConfigError;

pub use config::{
    BitErrors, Bursts, FadeEffect, FadeTimes, Fades, Framing, FramingError, Interval, LineConfig, Pace, Parity,
    ReceiveFifo, Uart,
};
pub use counters::{CUT, FADED, FLUSHED, FRAMING, FULL, LineCounters};
use errors::Hits;
use fades::Intervals;
use receiver::{Found, Receiver, data_mask};

/// One direction of a character line: runs go in at input 0 and come out at output 0.
#[derive(Debug)]
pub struct CharacterLine {
    config: LineConfig,
    label: String,
    seed: u64,
    is_cut: bool,
    transmitter: Transmitter,
    receiver: Receiver,
    hits: Hits,
    fades: Option<Intervals>,
    cuts: Intervals,
    arriving: Arriving,
    flight: Line,
    counters: LineCounters,
    outputs: VecDeque<Output>,
}

/// A change to a line while characters run over it.
#[derive(Clone, Debug, PartialEq)]
pub enum LineChange {
    /// Another pace. The character that is being sent ends as it began.
    Pace(Pace),
    /// Another delay, for characters that arrive from now on; none overtakes another.
    Delay(Span),
    /// Another room for waiting characters. Those that wait stay.
    Buffer(Size),
    /// Other bit errors; a burst may be under way at once.
    Errors(BitErrors),
    /// Other fades.
    Fades(Option<Fades>),
    /// The line is cut, beside the times it is cut anyway, or put together again.
    Cut(bool),
    /// What waits is dropped, but for what is in the transmitter's FIFO.
    Flush,
}

/// Runs that wait, and the one that is sent.
#[derive(Debug, Default)]
struct Transmitter {
    waiting: VecDeque<Packet>,
    /// Characters not yet sent, those of the current run included.
    characters: u64,
    current: Option<Sending>,
    /// Since when the line was busy at this pace without a gap.
    base: Time,
    /// Characters sent since; -1 for one that ends at `base`.
    sent: i64,
    /// When the last character ended.
    idle_since: Time,
}

/// A run in transmission.
#[derive(Debug)]
struct Sending {
    run: Packet,
    /// Its next character.
    next: usize,
    /// Where the piece ends that is being sent.
    end: usize,
    /// Characters that arrived of it.
    received: usize,
    /// Why its last lost character was lost.
    lost: DropReason,
}

/// Characters that arrived and are not handed on yet.
#[derive(Debug, Default)]
struct Arriving {
    characters: Vec<u8>,
    /// A packet whose characters are all in there: it will carry them.
    spare: Option<Packet>,
    /// When the receive FIFO hands over what it has.
    timeout: Option<Time>,
}

impl CharacterLine {
    /// A line without characters. `label` names its random streams: with another label the same
    /// seed gives other draws.
    ///
    /// # Errors
    ///
    /// The configuration cannot be: see [`LineConfig::validate`].
    pub fn new(config: &LineConfig, seed: u64, label: &str) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self {
            is_cut: false,
            transmitter: Transmitter::default(),
            receiver: Receiver::new(framing(config.pace)),
            hits: Hits::new(config.errors, seed, label),
            fades: config.fades.as_ref().map(|fades| Intervals::drawn(&fades.when, seed, label, Time::ZERO)),
            cuts: Intervals::listed(&config.cuts),
            arriving: Arriving::default(),
            flight: Line::new(IN_FLIGHT_LIMIT),
            counters: LineCounters::default(),
            outputs: VecDeque::new(),
            config: config.clone(),
            label: label.to_string(),
            seed,
        })
    }

    /// Changes the line from `now` on. What comes out by this is given by the next
    /// [`poll`](Element::poll).
    ///
    /// # Errors
    ///
    /// It could not be like that; nothing is changed then.
    pub fn set(&mut self, now: Time, change: &LineChange) -> Result<(), ConfigError> {
        let mut config = self.config.clone();
        match change {
            LineChange::Pace(pace) => config.pace = *pace,
            LineChange::Delay(delay) => config.delay = *delay,
            LineChange::Buffer(buffer) => config.buffer = *buffer,
            LineChange::Errors(errors) => config.errors = *errors,
            LineChange::Fades(fades) => config.fades.clone_from(fades),
            LineChange::Cut(_) | LineChange::Flush => {}
        }
        config.validate()?;
        self.run(now);
        self.send_until(now);
        if let (LineChange::Pace(_), Some(_)) = (change, &self.transmitter.current) {
            // From here on the new pace counts.
            self.transmitter.base = self.transmitter.ends(self.config.pace, 1);
            self.transmitter.sent = -1;
        }
        self.config = config;
        match change {
            LineChange::Pace(pace) => self.receiver = Receiver::new(framing(*pace)),
            LineChange::Errors(errors) => self.hits.set(*errors),
            LineChange::Fades(fades) => {
                self.fades = fades.as_ref().map(|f| Intervals::drawn(&f.when, self.seed, &self.label, now));
            }
            LineChange::Cut(cut) => self.is_cut = *cut,
            LineChange::Flush => self.flush(),
            LineChange::Delay(_) | LineChange::Buffer(_) => {}
        }
        self.run(now);
        Ok(())
    }

    /// What the line is at present.
    #[must_use]
    pub fn config(&self) -> &LineConfig {
        &self.config
    }

    /// What it counted since it was made.
    #[must_use]
    pub fn counters(&self) -> LineCounters {
        LineCounters { waiting: self.transmitter.characters, ..self.counters }
    }

    fn accept(&mut self, now: Time, run: Packet) {
        let characters = run.len() as u64;
        self.counters.offered += characters;
        self.counters.offered_runs += 1;
        if characters == 0 {
            return self.outputs.push_back(Output::Consume { packet: run });
        }
        if self.transmitter.characters + characters > self.config.capacity() {
            self.counters.full += characters;
            self.counters.full_runs += 1;
            return self.outputs.push_back(Output::Drop { reason: FULL, packet: run });
        }
        self.transmitter.characters += characters;
        self.counters.waiting_most = self.counters.waiting_most.max(self.transmitter.characters);
        if self.transmitter.current.is_none() {
            let idle = self.config.pace.bits_in(now.since(self.transmitter.idle_since));
            self.hits.idle(idle);
            (self.transmitter.base, self.transmitter.sent) = (now, 0);
        }
        self.transmitter.waiting.push_back(run);
        self.begin();
    }

    /// Goes on to the next run and piece, if there is none under way.
    fn begin(&mut self) {
        let transmitter = &mut self.transmitter;
        if transmitter.current.is_none() {
            let next = transmitter.waiting.pop_front();
            transmitter.current = next.map(|run| Sending { run, next: 0, end: 0, received: 0, lost: FRAMING });
        }
        let piece = match self.config.pace.receive() {
            Some(receive) => (receive.trigger as usize).saturating_sub(self.arriving.characters.len()),
            None => self.config.characters_in_piece(),
        };
        if let Some(sending) = transmitter.current.as_mut().filter(|sending| sending.next == sending.end) {
            sending.end = sending.run.len().min(sending.next.saturating_add(piece.max(1)));
        }
    }

    /// When the piece under way has wholly arrived at the receiver.
    fn piece_ends(&self) -> Option<Time> {
        let sending = self.transmitter.current.as_ref()?;
        Some(self.transmitter.ends(self.config.pace, (sending.end - sending.next) as u64))
    }

    /// Does all that is due by `now`.
    fn run(&mut self, now: Time) {
        loop {
            let piece = self.piece_ends();
            let timeout = self.arriving.timeout;
            // A character that ends as the time runs out is in time.
            let next = match (piece, timeout) {
                (Some(piece), Some(timeout)) => piece.min(timeout),
                (piece, timeout) => match piece.or(timeout) {
                    Some(next) => next,
                    None => break,
                },
            };
            if next > now {
                break;
            }
            if piece == Some(next) {
                self.end_piece(next);
            } else {
                self.hand_on(next);
            }
        }
        while let Some(run) = self.flight.pop(now) {
            self.counters.delivered += run.len() as u64;
            self.counters.delivered_runs += 1;
            self.outputs.push_back(Output::Transmit { port: 0, packet: run });
        }
    }

    /// Ends the piece under way with the last character that was sent by `now`.
    fn send_until(&mut self, now: Time) {
        let Some(sending) = &mut self.transmitter.current else { return };
        let pace = self.config.pace;
        let since = pace.characters_in(now.since(self.transmitter.base)).cast_signed() - self.transmitter.sent;
        let sent = usize::try_from(since).unwrap_or(0).min(sending.end - sending.next);
        sending.end = sending.next + sent;
        if sent > 0 {
            let at = self.transmitter.ends(pace, sent as u64);
            self.end_piece(at);
        } else {
            self.begin();
        }
    }

    /// The characters of the piece under way have been sent.
    fn end_piece(&mut self, at: Time) {
        let Some(mut sending) = self.transmitter.current.take() else { return };
        for index in sending.next..sending.end {
            let byte = sending.run.bytes.get(index).copied().unwrap_or_default();
            let before = self.arriving.characters.len();
            self.character(byte, &mut sending.lost);
            sending.received += self.arriving.characters.len() - before;
        }
        sending.next = sending.end;
        let ended = sending.next == sending.run.len();
        if ended && self.transmitter.waiting.is_empty() {
            self.transmitter.idle_since = at;
            let before = self.arriving.characters.len();
            self.receiver_idles();
            sending.received += self.arriving.characters.len() - before;
        }
        if ended {
            self.end_run(sending);
        } else {
            self.transmitter.current = Some(sending);
        }
        let arrived = self.arriving.characters.len();
        match self.config.pace.receive() {
            _ if arrived == 0 => {}
            Some(receive) if arrived < receive.trigger as usize => {
                self.arriving.timeout = Some(at + self.config.pace.time_for(u64::from(receive.timeout)));
            }
            _ => self.hand_on(at),
        }
        self.begin();
    }

    /// One character is sent and received, or not.
    fn character(&mut self, byte: u8, lost: &mut DropReason) {
        let pace = self.config.pace;
        let begins = self.transmitter.ends(pace, 0);
        let ends = self.transmitter.ends(pace, 1);
        self.transmitter.sent += 1;
        self.transmitter.characters -= 1;
        self.counters.sent += 1;
        self.counters.busy += ends.since(begins);

        let bits = pace.bits_per_character();
        let mut hits = self.hits.next(bits);
        if self.cuts.touch(begins, ends) || self.is_cut {
            self.counters.cut += 1;
            *lost = CUT;
            return;
        }
        if let (Some(intervals), Some(fades)) = (&mut self.fades, &self.config.fades)
            && intervals.touch(begins, ends)
        {
            self.counters.faded += 1;
            match fades.effect {
                FadeEffect::Lost => {
                    self.counters.lost_in_fades += 1;
                    *lost = FADED;
                    return;
                }
                FadeEffect::Errors(rate) => hits |= self.hits.draw(bits, rate),
            }
        }
        self.counters.errored += u64::from(hits != 0);
        self.counters.bits_hit += u64::from(hits.count_ones());
        match pace {
            Pace::Synchronous(_) => self.arriving.characters.push(byte ^ hits as u8),
            Pace::Asynchronous(uart) if hits == 0 && self.receiver.is_between() => {
                self.arriving.characters.push(byte & data_mask(uart.framing));
            }
            Pace::Asynchronous(_) => {
                let (arriving, counters) = (&mut self.arriving, &mut self.counters);
                self.receiver.character(byte, hits, |found| arriving.take(found, counters, lost));
            }
        }
    }

    /// Nothing more is sent for now: the receiver reads ones.
    fn receiver_idles(&mut self) {
        let (arriving, counters) = (&mut self.arriving, &mut self.counters);
        let mut lost = FRAMING;
        let bits = u64::from(self.config.pace.bits_per_character());
        self.receiver.idle(bits, |found| arriving.take(found, counters, &mut lost));
    }

    /// A run has been sent: its packet carries what arrived of it, or ends here.
    fn end_run(&mut self, Sending { run, received, lost, .. }: Sending) {
        self.outputs.push_back(match &mut self.arriving {
            _ if received == 0 => Output::Drop { reason: lost, packet: run },
            Arriving { characters, spare: spare @ None, .. } if !characters.is_empty() => {
                *spare = Some(run);
                return;
            }
            // Its characters were handed on, or another packet will carry them.
            _ => Output::Consume { packet: run },
        });
    }

    /// What has arrived sets out on the way to where it is wanted.
    fn hand_on(&mut self, at: Time) {
        self.arriving.timeout = None;
        let mut run = self.arriving.spare.take().unwrap_or_default();
        run.bytes.clear();
        run.bytes.append(&mut self.arriving.characters);
        let characters = run.len() as u64;
        if let Err(run) = self.flight.push(at + self.config.delay, run) {
            self.counters.flight_full += characters;
            self.outputs.push_back(Output::Drop { reason: DELAY_LINE_FULL, packet: run });
        }
    }

    /// Drops what waits behind the FIFO.
    fn flush(&mut self) {
        // The character that is being sent has left the FIFO.
        let mut keep = self.config.pace.fifo() as usize + 1;
        let mut dropped = 0;
        if let Some(sending) = &mut self.transmitter.current {
            let end = sending.run.len().min(sending.next + keep);
            keep -= end - sending.next;
            dropped += sending.run.len() - end;
            sending.run.bytes.truncate(end);
            sending.end = sending.end.min(end);
        }
        for mut run in core::mem::take(&mut self.transmitter.waiting) {
            let end = run.len().min(keep);
            dropped += run.len() - end;
            keep -= end;
            if end > 0 {
                run.bytes.truncate(end);
                self.transmitter.waiting.push_back(run);
            } else {
                self.outputs.push_back(Output::Drop { reason: FLUSHED, packet: run });
            }
        }
        self.transmitter.characters -= dropped as u64;
        self.counters.flushed += dropped as u64;
    }
}

impl Element for CharacterLine {
    fn handle(&mut self, now: Time, _: Port, run: Packet) {
        // What is sent by now has made room.
        self.run(now);
        if self.transmitter.characters + run.len() as u64 > self.config.capacity() {
            self.send_until(now);
        }
        self.accept(now, run);
        self.run(now);
    }

    fn tick(&mut self, now: Time) {
        self.run(now);
    }

    fn deadline(&self) -> Option<Time> {
        [self.piece_ends(), self.arriving.timeout, self.flight.next_arrival()].into_iter().flatten().min()
    }

    fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }
}

impl Transmitter {
    /// When the n-th character from the present one on has been sent; 0 is when the present one
    /// began.
    fn ends(&self, pace: Pace, number: u64) -> Time {
        match u64::try_from(self.sent.saturating_add_unsigned(number)) {
            Ok(characters) => self.base + pace.time_for(characters),
            Err(_) => self.base - pace.time_for(1),
        }
    }
}

impl Arriving {
    /// What the receiver of an asynchronous line made of the bits.
    fn take(&mut self, found: Found, counters: &mut LineCounters, lost: &mut DropReason) {
        match found {
            Found::Character(byte) => return self.characters.push(byte),
            Found::BadParity => counters.parity += 1,
            Found::NoStop => counters.framing += 1,
        }
        *lost = FRAMING;
    }
}

/// What is around a character; on a synchronous line nobody asks.
fn framing(pace: Pace) -> Framing {
    match pace {
        Pace::Asynchronous(uart) => uart.framing,
        Pace::Synchronous(_) => Framing::N81,
    }
}

/// Most characters in flight.
const IN_FLIGHT_LIMIT: u64 = PipeConfig::IN_FLIGHT_LIMIT;
