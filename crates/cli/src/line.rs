//! `narrows line`

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the command line speaks here")]

use std::io;

use link::LineConfig;
use link::characters::{BitErrors, Bursts, FadeEffect, FadeTimes, Fades, Pace, Uart};
use netio::control::{self, Listener};
use scenario::PacedLine;

use crate::args::{self, LineAction};
use crate::{exit, run};

/// `narrows line`
pub(crate) fn line(options: &args::Line) -> u8 {
    if let Some(LineAction::Set { name, changes }) = &options.action {
        return set(name, changes);
    }
    let [first, second] = &options.pty[..] else {
        eprintln!("narrows: a line has two ends; give --pty twice, each with a path");
        return exit::BAD_INPUT;
    };
    if first == second {
        eprintln!("narrows: both terminals are to be at {}; give two paths", first.display());
        return exit::BAD_INPUT;
    }
    let config = config(options);
    if let Err(error) = config.validate() {
        eprintln!("narrows: {error}");
        return exit::BAD_INPUT;
    }
    if options.name.as_deref() == Some("") {
        eprintln!("narrows: a name has at least one character; leave --name away for none");
        return exit::BAD_INPUT;
    }
    let control = match options.name.as_deref().map(|name| Listener::bind(&control_name(name))).transpose() {
        Ok(control) => control,
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            eprintln!("narrows: a line of that name is running already; choose another --name");
            return exit::FAILED;
        }
        Err(error) => {
            eprintln!("narrows: cannot take the name: {error}; choose a shorter --name");
            return exit::FAILED;
        }
    };
    let seed = options.seed.unwrap_or_else(run::draw_seed);
    let pace = match &config.pace {
        Pace::Asynchronous(uart) => format!("{} baud {}", uart.baud, uart.framing),
        Pace::Synchronous(rate) => format!("{rate}, synchronous"),
    };
    let terminals = [first.clone(), second.clone()];
    netio::sandbox::heed_interrupts();
    let paced = PacedLine { directions: [config.clone(), config], terminals, seed, control };
    let account = paced.run(|| println!("{} and {} are joined: {pace}", first.display(), second.display()));
    match account {
        Ok(account) => {
            for line in &account.lines {
                eprintln!("narrows: {line}");
            }
            eprintln!("narrows: seed {seed}");
            exit::DONE
        }
        Err(error) => {
            eprintln!("narrows: {error}");
            exit::FAILED
        }
    }
}

fn config(options: &args::Line) -> LineConfig {
    let pace = match options.rate {
        Some(rate) => Pace::Synchronous(rate),
        None => Pace::Asynchronous(Uart { framing: options.framing, ..Uart::new(options.baud) }),
    };
    let errors = match &options.bursts[..] {
        [begin, end, inside] => {
            BitErrors::Bursts(Bursts { begin: *begin, end: *end, inside: *inside, outside: options.errors })
        }
        _ => BitErrors::Independent(options.errors),
    };
    let fades = match options.fades[..] {
        [interval, length] => Some(Fades { when: FadeTimes::Drawn { interval, length }, effect: FadeEffect::Lost }),
        _ => None,
    };
    LineConfig { pace, delay: options.delay, buffer: options.buffer, errors, fades, ..LineConfig::default() }
}

fn set(name: &str, changes: &[String]) -> u8 {
    for change in changes {
        if let Err(error) = scenario::check_line_change(change) {
            eprintln!("narrows: {error}");
            return exit::BAD_INPUT;
        }
    }
    match control::tell(&control_name(name), changes) {
        Ok(Ok(done)) => {
            println!("{name}: {done}");
            exit::DONE
        }
        Ok(Err(refused)) => {
            eprintln!("narrows: {name}: {refused}");
            exit::BAD_INPUT
        }
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            eprintln!("narrows: no line named `{name}` is running; start one with `narrows line --name {name} …`");
            exit::BAD_INPUT
        }
        Err(error) => {
            eprintln!("narrows: line `{name}` does not answer: {error}");
            exit::FAILED
        }
    }
}

/// Lines and links may have the same names.
fn control_name(name: &str) -> String {
    format!("line/{name}")
}
