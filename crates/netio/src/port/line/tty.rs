//! Serial devices and pseudo-terminals.

use std::ffi::CStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

use link::characters::Parity;

use super::{Settings, file};
use crate::error::SetupError;
use crate::sys::check;

/// A serial device, or the side of a pseudo-terminal that has a path.
#[derive(Debug)]
pub(super) struct Device {
    pub(super) path: PathBuf,
    pub(super) settings: Settings,
}

impl Device {
    /// Opens and sets it, for us alone: who else heeds locks (`flock`) is kept out until it is closed. What
    /// came in before is discarded: it belongs to nobody who listens now.
    ///
    /// Not by `TIOCEXCL`, which outlives a user of a pseudo-terminal that was killed.
    pub(super) fn open(&self) -> io::Result<File> {
        let file = self.reach()?;
        // SAFETY: takes no pointer.
        check(unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) }).map_err(|error| match error
            .kind()
        {
            io::ErrorKind::WouldBlock => io::Error::new(
                io::ErrorKind::ResourceBusy,
                "another program uses it (another `narrows adapter`?); end that first, or give another --line",
            ),
            _ => error,
        })?;
        self.prepare(&file)?;
        Ok(file)
    }

    /// Whether a device that could not be opened for this may come yet: it was not plugged in, or nobody made
    /// it by now.
    pub(super) fn may_come(error: &io::Error) -> bool {
        error.kind() == io::ErrorKind::NotFound
            || matches!(error.raw_os_error(), Some(libc::ENXIO | libc::ENODEV | libc::EIO))
    }

    fn reach(&self) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOCTTY | libc::O_NONBLOCK).open(&self.path)
    }

    fn prepare(&self, file: &File) -> io::Result<()> {
        set(file, self.settings)?;
        // SAFETY: takes no pointer.
        check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TCFLSH, libc::TCIOFLUSH) }).map(drop)
    }
}

/// A pseudo-terminal whose other side has a path of the user's choice: a symbolic link, which goes
/// away with this.
#[derive(Debug)]
pub struct Pty {
    ours: OwnedFd,
    /// Held open: else the terminal would hang up, and lose its settings, each time the last of its
    /// users closes it.
    _theirs: File,
    device: PathBuf,
    /// The link to it, if there is one.
    path: Option<PathBuf>,
}

impl Pty {
    /// Makes a pseudo-terminal that is found at `path`. A link that an earlier one left there is
    /// replaced.
    ///
    /// # Errors
    ///
    /// Something else is at the path, or the kernel gives no pseudo-terminal.
    pub fn create(path: &Path) -> Result<Self, SetupError> {
        let mut made = Self::unnamed()?;
        if fs::read_link(path).is_ok_and(|target| target.starts_with("/dev/pts")) {
            // If it cannot be removed, the link cannot be made either, which is told.
            let _ = fs::remove_file(path);
        }
        let doing = || format!("make the link {} to {}", path.display(), made.device.display());
        symlink(&made.device, path).map_err(|source| SetupError::new(doing(), source))?;
        made.path = Some(path.into());
        Ok(made)
    }

    /// Makes a pseudo-terminal that is found at [`device`](Self::device) alone.
    ///
    /// # Errors
    ///
    /// The kernel gives none.
    pub fn unnamed() -> Result<Self, SetupError> {
        let failed = |doing: &str| {
            let doing = doing.to_owned();
            move |source| SetupError::new(doing, source)
        };
        // SAFETY: no pointers; the descriptor is new and ours alone.
        let ours =
            check(unsafe { libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC | libc::O_NONBLOCK) })
                .map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
                .map_err(failed("make a pseudo-terminal"))?;
        // SAFETY: no pointers.
        check(unsafe { libc::grantpt(ours.as_raw_fd()) }).map_err(failed("make a pseudo-terminal"))?;
        // SAFETY: no pointers.
        check(unsafe { libc::unlockpt(ours.as_raw_fd()) }).map_err(failed("unlock a pseudo-terminal"))?;
        let device = name(&ours).map_err(failed("ask for a pseudo-terminal's name"))?;
        let settings = Settings { baud: 9_600, framing: link::characters::Framing::N81 };
        let theirs = Device { path: device.clone(), settings };
        // Without a lock, which is for whoever uses it.
        let opened = theirs.reach().and_then(|file| theirs.prepare(&file).map(|()| file));
        let theirs = opened.map_err(failed(&format!("open {}", device.display())))?;
        Ok(Self { ours, _theirs: theirs, device, path: None })
    }

    /// Where its other side is.
    #[must_use]
    pub fn device(&self) -> &Path {
        &self.device
    }

    /// Our side.
    pub(super) fn ours(&self) -> io::Result<File> {
        self.ours.try_clone().map(file)
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // Somebody may have removed it.
            let _ = fs::remove_file(path);
        }
    }
}

/// The path of a pseudo-terminal's other side.
fn name(ours: &OwnedFd) -> io::Result<PathBuf> {
    let mut name = [0u8; 64];
    // SAFETY: the kernel's library writes a terminated string of at most `len` bytes.
    let code = unsafe { libc::ptsname_r(ours.as_raw_fd(), name.as_mut_ptr().cast(), name.len()) };
    if code != 0 {
        return Err(io::Error::from_raw_os_error(code));
    }
    let name = CStr::from_bytes_until_nul(&name).map_err(|_| io::ErrorKind::InvalidData)?;
    Ok(std::ffi::OsStr::from_bytes(name.to_bytes()).into())
}

/// Makes a terminal raw, and sets its speed and framing.
fn set(file: &File, settings: Settings) -> io::Result<()> {
    // SAFETY: plain data, valid when zeroed.
    let mut terminal: libc::termios2 = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel fills in one termios2, ours.
    check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TCGETS2, &raw mut terminal) })?;
    let framing = settings.framing;
    let size = match framing.data_bits() {
        5 => libc::CS5,
        6 => libc::CS6,
        7 => libc::CS7,
        _ => libc::CS8,
    };
    let parity = match framing.parity() {
        Parity::None => 0,
        Parity::Even => libc::PARENB,
        Parity::Odd => libc::PARENB | libc::PARODD,
    };
    let stop = if framing.stop_bits() == 2 { libc::CSTOPB } else { 0 };
    terminal.c_iflag = libc::IGNBRK | libc::IGNPAR | if parity == 0 { 0 } else { libc::INPCK };
    terminal.c_oflag = 0;
    terminal.c_lflag = 0;
    terminal.c_cflag = libc::CREAD | libc::CLOCAL | libc::BOTHER | size | parity | stop;
    terminal.c_ispeed = settings.baud;
    terminal.c_ospeed = settings.baud;
    // A reading without characters says so, and 0 means that the terminal was hung up.
    terminal.c_cc[libc::VMIN] = 1;
    terminal.c_cc[libc::VTIME] = 0;
    // SAFETY: the kernel reads one termios2, ours.
    check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TCSETS2, &raw const terminal) })?;
    Ok(())
}

/// Linux's `struct serial_icounter_struct`.
#[repr(C)]
#[derive(Default)]
struct Interrupts {
    /// CTS, DSR, RNG, DCD, received, sent, framing errors.
    _others: [libc::c_int; 7],
    overrun: libc::c_int,
    /// Parity errors, breaks.
    _errors: [libc::c_int; 2],
    buffer_overrun: libc::c_int,
    _reserved: [libc::c_int; 9],
}

/// Characters that a serial device and its driver lost for want of room; 0 for what is none.
pub(super) fn overruns(file: &File) -> u64 {
    let mut counts = Interrupts::default();
    // SAFETY: the kernel fills in one serial_icounter_struct, which ours is.
    let known = check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TIOCGICOUNT, &raw mut counts) }).is_ok();
    let lost = i64::from(counts.overrun) + i64::from(counts.buffer_overrun);
    if known { u64::try_from(lost).unwrap_or(0) } else { 0 }
}
