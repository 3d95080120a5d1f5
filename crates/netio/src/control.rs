//! Telling a running process something by name: an abstract Unix socket, which leaves no file.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

use crate::sys::check;

/// The longest request or answer in bytes.
const LONGEST: u64 = 64 << 10;
/// How long one side waits for the other.
const PATIENCE: Duration = Duration::from_secs(5);

/// The end that is told.
#[derive(Debug)]
pub struct Listener(UnixListener);

impl Listener {
    /// Takes a name in the network namespace of the caller.
    ///
    /// # Errors
    ///
    /// `AddrInUse` if somebody has it, `InvalidInput` if it is longer than some hundred bytes.
    pub fn bind(name: &str) -> io::Result<Self> {
        UnixListener::bind_addr(&address(name)?).map(Self)
    }

    /// Answers requests until the process ends. Only this user is heard.
    pub fn serve(&self, answer: impl Fn(&[String]) -> Result<String, String>) {
        for stream in self.0.incoming().flatten() {
            // One that goes away in between has only itself to blame.
            let _ = serve_one(&stream, &answer);
        }
    }
}

fn serve_one(stream: &UnixStream, answer: impl Fn(&[String]) -> Result<String, String>) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    // Read in any case: what is left unread when the socket closes takes the answer with it.
    let lines: Vec<String> = BufReader::new(stream.take(LONGEST)).lines().collect::<Result<_, _>>()?;
    let reply = match is_trusted(stream)? {
        true => answer(&lines),
        false => Err("only the user who started it may change it".into()),
    };
    let (status, text) = match reply {
        Ok(text) => ("ok", text),
        Err(text) => ("error", text),
    };
    let mut stream = stream;
    write!(stream, "{status}\n{text}")
}

/// Tells the process called `name` some lines and waits for its answer: what it said, or why it
/// refuses.
///
/// # Errors
///
/// `ConnectionRefused` if there is no such process; `TimedOut` or `WouldBlock` if it does not answer.
pub fn tell(name: &str, lines: &[String]) -> io::Result<Result<String, String>> {
    let mut stream = UnixStream::connect_addr(&address(name)?)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    for line in lines {
        writeln!(stream, "{line}")?;
    }
    stream.shutdown(std::net::Shutdown::Write)?;
    let mut answer = String::new();
    stream.take(LONGEST).read_to_string(&mut answer)?;
    Ok(match answer.split_once('\n') {
        Some(("ok", text)) => Ok(text.into()),
        Some((_, text)) => Err(text.into()),
        None => Err("it ended without an answer".into()),
    })
}

fn address(name: &str) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("narrows/{name}"))
}

/// Whether the other end is of this process's user. Users are compared as this process's user
/// namespace sees them, in which all others, the machine's root too, are one (`nobody`).
fn is_trusted(stream: &UnixStream) -> io::Result<bool> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the structure has the stated length, and both outlive the call.
    check(unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut length,
        )
    })?;
    // SAFETY: reads the process's credentials and touches no memory.
    let own = unsafe { libc::geteuid() };
    Ok(peer.uid == own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_answered_and_a_name_is_taken_once() {
        let name = format!("test-{}", std::process::id());
        let listener = Listener::bind(&name).unwrap();
        assert_eq!(Listener::bind(&name).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        std::thread::spawn(move || {
            listener.serve(|lines| if lines == ["a=1", "b=2"] { Ok("done".into()) } else { Err(lines.join(",")) });
        });
        let tell = |lines: &[&str]| tell(&name, &lines.iter().map(|&line| line.to_owned()).collect::<Vec<_>>());
        assert_eq!(tell(&["a=1", "b=2"]).unwrap(), Ok("done".into()));
        assert_eq!(tell(&["c"]).unwrap(), Err("c".into()));
        assert!(super::tell("nobody-has-this-name", &[]).is_err());
    }
}
