//! `narrows link`

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the command line speaks here")]

use std::io;

use netio::control::{self, Listener};
use scenario::{Live, LiveError};

use crate::args::{Link, LinkAction};
use crate::{exit, run, show};

/// What a shell answers when a program is not there, and when it cannot be run.
const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;

/// `narrows link`
pub(crate) fn link(options: &Link) -> u8 {
    if let Some(LinkAction::Set { name, changes }) = &options.action {
        return set(name, changes);
    }
    let around = options.between.is_empty();
    let failed = if around { exit::LINK_FAILED } else { exit::FAILED };
    let name = options.name.as_deref().unwrap_or("link");
    let link = match scenario::link(name, options.profile.as_deref().unwrap_or_default(), &options.set) {
        Ok(link) => link,
        Err(error) => {
            let code = show::bad_input(&error);
            return if around { exit::LINK_FAILED } else { code };
        }
    };
    // Bound here, in the network namespace in which `narrows link set` will look for it.
    let control = match options.name.as_deref().map(Listener::bind).transpose() {
        Ok(control) => control,
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            eprintln!("narrows: a link named `{name}` is running already; choose another --name");
            return failed;
        }
        Err(error) => {
            eprintln!("narrows: cannot take the name `{name}`: {error}; choose a shorter --name");
            return failed;
        }
    };
    let seed = options.seed.unwrap_or_else(run::draw_seed);
    let live = Live { link, seed, control };
    let work = || i32::from(work(live, seed, options, failed));
    let outcome = if around { netio::sandbox::run_program(work) } else { netio::sandbox::run(work) };
    match outcome {
        Ok(exit) => u8::try_from(exit.code()).unwrap_or(failed),
        Err(error) => {
            eprintln!("narrows: {error}");
            failed
        }
    }
}

fn work(live: Live, seed: u64, options: &Link, failed: u8) -> u8 {
    let outcome = match options.between.as_slice() {
        [first, second] => live.between([first, second]).map(|account| (exit::DONE, account)),
        _ => live.around(&options.command, options.peer.as_deref()),
    };
    match outcome {
        Ok((code, account)) => {
            for line in &account.lines {
                eprintln!("narrows: {line}");
            }
            eprintln!("narrows: seed {seed}");
            code
        }
        Err(error) => {
            eprintln!("narrows: {error}");
            match error {
                LiveError::Program { source, .. } if source.kind() == io::ErrorKind::NotFound => NOT_FOUND,
                LiveError::Program { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => NOT_EXECUTABLE,
                _ => failed,
            }
        }
    }
}

fn set(name: &str, changes: &[String]) -> u8 {
    // Checked here first, so that a mistake is told with colours and place.
    if let Err(error) = scenario::link_changes(changes) {
        return show::bad_input(&error);
    }
    match control::tell(name, changes) {
        Ok(Ok(done)) => {
            println!("{name}: {done}");
            exit::DONE
        }
        Ok(Err(refused)) => {
            eprintln!("narrows: {name}: {refused}");
            exit::BAD_INPUT
        }
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            eprintln!("narrows: no link named `{name}` is running; start one with `narrows link --name {name} …`");
            exit::BAD_INPUT
        }
        Err(error) => {
            eprintln!("narrows: link `{name}` does not answer: {error}");
            exit::FAILED
        }
    }
}
