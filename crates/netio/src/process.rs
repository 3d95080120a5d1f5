//! Programs that run in a site.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::Duration;

use crate::sandbox;
use crate::site::Namespace;

/// How often a program is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// Starts a program in a namespace.
///
/// # Errors
///
/// If the namespace cannot be entered, or what `exec` says.
pub fn spawn(namespace: &Namespace, mut command: Command) -> io::Result<Child> {
    namespace.run(move || command.spawn()).map_err(|error| io::Error::other(error.to_string()))?
}

/// Waits for a program to end. If the sandbox is told to end meanwhile, so is the program (SIGTERM);
/// in [`sandbox::run_program`] Ctrl-C is the program's own affair.
///
/// # Errors
///
/// If it is not a child of this process any more.
pub fn wait(child: &mut Child) -> io::Result<ExitStatus> {
    let mut told = false;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if sandbox::interrupted() && !told {
            told = true;
            // A process of this child's number is this child, as it was not waited for.
            // SAFETY: sends a signal and touches no memory.
            unsafe { libc::kill(child.id().cast_signed(), libc::SIGTERM) };
        }
        thread::sleep(LOOK);
    }
}

/// A shell's number for how a program ended: its status, or 128 + n after signal n.
#[must_use]
pub fn status(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    u8::try_from(code.unwrap_or(255)).unwrap_or(255)
}
