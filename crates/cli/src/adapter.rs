//! `narrows adapter`

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the command line speaks here")]

use std::path::Path;

use engine::Rate;
use netio::port::line::Settings;
use scenario::{AdapterAccount, AdapterNews, LiveAdapter};

use crate::args::{self, Schedule};
use crate::{exit, run, show};

/// `narrows adapter`
pub(crate) fn adapter(options: &args::Adapter) -> u8 {
    if let Some(path) = &options.replay {
        return replay(path, options.json);
    }
    let live = match live(options) {
        Ok(live) => live,
        Err(code) => return code,
    };
    let seed = live.seed;
    netio::sandbox::heed_interrupts();
    let mut before: Option<AdapterAccount> = None;
    let account = live.run(|news| {
        let json = match news {
            AdapterNews::Event(event) => {
                eprintln!("narrows: {}", event.text);
                event.json()
            }
            AdapterNews::Account(account) => {
                eprintln!("narrows: {}", account.line(before.as_ref()));
                before = Some(account.clone());
                account.json()
            }
        };
        if options.json {
            println!("{json}");
        }
    });
    match account {
        Ok(account) => {
            for line in account.lines() {
                eprintln!("narrows: {line}");
            }
            eprintln!("narrows: seed {seed}");
            if options.json {
                println!("{}", account.json());
            }
            exit::DONE
        }
        Err(error) => {
            eprintln!("narrows: {error}");
            exit::FAILED
        }
    }
}

/// What the options ask for.
fn live(options: &args::Adapter) -> Result<LiveAdapter, u8> {
    // Without these the command line is refused before.
    let (Some(lan), Some(line)) = (options.lan.clone(), options.line.clone()) else { return Err(exit::BAD_INPUT) };
    let mut config = match &options.config {
        Some(path) => scenario::adapter_config(path).map_err(|error| show::bad_input(&error))?,
        None => adapter::AdapterConfig::default(),
    };
    let framing = options.framing.unwrap_or_default();
    if framing.data_bits() < 8 {
        eprintln!(
            "narrows: `--framing {framing}` has characters of {} bits, and the adapters exchange octets; set the port \
             and what is behind it to 8 data bits, such as 8N1",
            framing.data_bits()
        );
        return Err(exit::BAD_INPUT);
    }
    if let Some(baud) = options.baud.and_then(|baud| Rate::from_bits_per_second(baud.into())) {
        config.rate = baud;
        config.bits_per_character = framing.bits() as u8;
    } else if options.framing.is_some() {
        config.bits_per_character = framing.bits() as u8;
    }
    // A device is set to its own speed, also where the line behind it is slower.
    let baud = u32::try_from(config.rate.bits_per_second()).unwrap_or(u32::MAX);
    if let Some(rate) = options.rate {
        config.rate = rate;
        config.bits_per_character = 8;
    }
    config.schedule = match options.schedule {
        Some(Schedule::Gaps) => adapter::Schedule::Gaps,
        Some(Schedule::Priority) => adapter::Schedule::Priority,
        Some(Schedule::Fifo) => adapter::Schedule::Fifo,
        None => config.schedule,
    };
    config.validate().map_err(|error| {
        eprintln!("narrows: {error}");
        exit::BAD_INPUT
    })?;
    Ok(LiveAdapter {
        config,
        seed: options.seed.unwrap_or_else(run::draw_seed),
        lan,
        line,
        settings: Settings { baud, framing },
        record: options.record.clone(),
        every: options.stats.map(Into::into),
    })
}

fn replay(path: &Path, json: bool) -> u8 {
    let replayed = match scenario::replay(path) {
        Ok(replayed) => replayed,
        Err(error) => {
            eprintln!("narrows: {error}");
            return exit::BAD_INPUT;
        }
    };
    let difference = replayed.difference.as_ref().map(ToString::to_string);
    if json {
        let line = serde_json::json!({
            "event": "replay", "inputs": replayed.inputs, "runs": replayed.runs, "characters": replayed.characters,
            "until": replayed.until.to_string(), "cut": replayed.cut, "difference": difference,
        });
        println!("{line}");
    } else {
        let count = measure::format::count;
        println!(
            "{} inputs, {} runs of characters on the line, {} characters, until {}",
            count(replayed.inputs),
            count(replayed.runs),
            count(replayed.characters),
            replayed.until
        );
    }
    if replayed.cut {
        eprintln!("narrows: the recording was not ended properly; it was replayed up to where it is cut");
    }
    match difference {
        None => {
            if !json {
                println!("identical");
            }
            exit::DONE
        }
        Some(difference) => {
            eprintln!("narrows: the replay differs: {difference}");
            exit::NOT_AS_EXPECTED
        }
    }
}
