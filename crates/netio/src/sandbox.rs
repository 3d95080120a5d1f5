//! A user, network, mount and PID namespace around a whole run, that leaves nothing behind.
//!
//! ```text
//! caller ── waits, hands signals on; its death kills init
//!   └─ init (PID 1 of the namespace) ── reaps; its exit makes the kernel kill the rest
//!        └─ worker ── runs the work; all it starts lives in the namespace
//! ```
//!
//! Devices and network namespaces live as long as a process or descriptor holds them, so that the
//! end of init, however it comes, is the end of all of them.

use std::ffi::CStr;
use std::fs;
use std::io::{self, Write as _};
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

use crate::clock::Instant;
use crate::site::Namespace;
use crate::sys::check;

/// How the work ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit(i32);

impl Exit {
    /// The exit status: what the work returned (its low 8 bits), 101 after a panic, 128 + n after
    /// signal n.
    #[must_use]
    pub fn code(self) -> i32 {
        self.0
    }
}

/// Why no sandbox could be made. Nothing was started then.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The calling process has threads already.
    #[error("the sandbox must be made before any thread is started, but {0} threads run (a bug in narrows)")]
    Threads(usize),
    /// The kernel does not let this user make namespaces.
    #[error("cannot create a user namespace: {source}; {remedy}")]
    Refused {
        /// What the kernel said.
        source: io::Error,
        /// What to do.
        remedy: String,
    },
    /// The user's identity could not be mapped into the namespace.
    #[error("cannot write {path} for the user namespace: {source}; is /proc mounted and writable?")]
    Map {
        /// The file.
        path: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// Another system call failed.
    #[error("cannot {doing} for the sandbox: {source}")]
    System {
        /// What was being done.
        doing: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}

/// Runs `work` in a sandbox of its own and waits for it.
///
/// Real root gets network, mount and PID namespaces; anybody else (and a root without
/// `CAP_SYS_ADMIN`) a user namespace as well, in which the caller is root. `/proc` is mounted anew
/// where that is allowed.
///
/// The calling process itself is moved into the user, mount and network namespace: afterwards it
/// should report and exit. `work` runs, and is dropped, in a process of its own.
///
/// The first SIGINT, SIGTERM or SIGHUP to the caller is handed on to the work as SIGTERM, which
/// [`interrupted`] then tells; the second kills everything. A signal that the caller ignores (a
/// shell's background job, `nohup`) stays ignored. If the caller dies, even by SIGKILL, everything
/// in the sandbox dies with it.
///
/// # Errors
///
/// If the process has threads, or the kernel refuses; the message names the setting to change.
pub fn run(work: impl FnOnce() -> i32) -> Result<Exit, SandboxError> {
    enter(work)
}

/// As [`run`], for work that runs a program of the user's: a SIGINT that comes from the terminal
/// (Ctrl-C) is not taken for a wish that the work should end. The program is in the terminal's
/// foreground as we are, gets the signal itself, and decides.
///
/// # Errors
///
/// As [`run`].
pub fn run_program(work: impl FnOnce() -> i32) -> Result<Exit, SandboxError> {
    KEYS_ARE_THEIRS.store(true, Ordering::SeqCst);
    enter(work)
}

fn enter(work: impl FnOnce() -> i32) -> Result<Exit, SandboxError> {
    let work = ManuallyDrop::new(work);
    let threads = fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    if threads > 1 {
        return Err(SandboxError::Threads(threads));
    }
    isolate()?;
    let (alive, lifeline) = pipe()?;
    // What is still buffered would otherwise be written twice.
    let _ = io::stdout().flush();
    // A signal waits until there is somebody to take it; init inherits this.
    hold_signals();
    let init = match fork("start init").inspect_err(|_| allow_signals())? {
        0 => {
            drop(lifeline);
            init(&alive, ManuallyDrop::into_inner(work))
        }
        pid => pid,
    };
    drop(alive);
    INIT.store(init, Ordering::SeqCst);
    for signal in FORWARDED {
        install(signal, stop_init, 0);
    }
    allow_signals();
    let status = wait_for(init, init).map_err(|source| SandboxError::System { doing: "wait for init", source })?;
    INIT.store(0, Ordering::SeqCst);
    // Held until here: its closing is the news of our death.
    drop(lifeline);
    Ok(Exit(status))
}

/// Has the first SIGINT, SIGTERM and SIGHUP noted, for work that needs no sandbox: [`interrupted`]
/// then tells. A further one ends the process as ever, unless it comes at once: timeout(1) sends each
/// twice.
pub fn heed_interrupts() {
    for signal in FORWARDED {
        install(signal, note_first_interrupt, libc::SA_RESTART);
    }
}

/// Whether the work was asked to end (SIGINT or SIGTERM): finish what is begun and return.
#[must_use]
pub fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// The network namespace outside of the sandbox, with the machine's own interfaces. Only real
/// root can enter it, so that it is `None` for others and before [`run`].
#[must_use]
pub fn host_network() -> Option<&'static Namespace> {
    HOST.get()
}

static HOST: OnceLock<Namespace> = OnceLock::new();
static INTERRUPTED: AtomicBool = AtomicBool::new(false);
/// When it was asked first, in nanoseconds of the monotonic clock; 0 before.
static FIRST_INTERRUPT: AtomicU64 = AtomicU64::new(0);
static ASKED: AtomicBool = AtomicBool::new(false);
static INIT: AtomicI32 = AtomicI32::new(0);
static WORKER: AtomicI32 = AtomicI32::new(0);
static KEYS_ARE_THEIRS: AtomicBool = AtomicBool::new(false);

const FORWARDED: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];
const NAMESPACES: libc::c_int = libc::CLONE_NEWNS | libc::CLONE_NEWNET | libc::CLONE_NEWPID;

/// Moves the process into its new namespaces (its children, in the case of the PID namespace).
fn isolate() -> Result<(), SandboxError> {
    // SAFETY: these read the process's credentials and touch no memory.
    let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
    let host = Namespace::current().ok();
    if uid == 0 && unshare(NAMESPACES).is_ok() {
        if let Some(host) = host {
            let _ = HOST.set(host);
        }
        return Ok(());
    }
    unshare(NAMESPACES | libc::CLONE_NEWUSER).map_err(|source| {
        let remedy = remedy(&source);
        SandboxError::Refused { source, remedy }
    })?;
    for (path, text) in [
        ("/proc/self/setgroups", "deny".to_owned()),
        ("/proc/self/uid_map", format!("0 {uid} 1")),
        ("/proc/self/gid_map", format!("0 {gid} 1")),
    ] {
        fs::write(path, text).map_err(|source| SandboxError::Map { path, source })?;
    }
    Ok(())
}

fn unshare(flags: libc::c_int) -> io::Result<()> {
    // SAFETY: no pointers; the process has one thread, so that no other one is surprised.
    check(unsafe { libc::unshare(flags) }).map(drop)
}

/// What to do about a refused user namespace, from the settings that are known to forbid it.
fn remedy(error: &io::Error) -> String {
    let number = |path: &str| fs::read_to_string(path).ok().and_then(|text| text.trim().parse::<u64>().ok());
    if number("/proc/sys/kernel/unprivileged_userns_clone") == Some(0) {
        return "this kernel keeps them from ordinary users: run `sudo sysctl kernel.unprivileged_userns_clone=1`, or \
                run narrows as root"
            .into();
    }
    if number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == Some(1) {
        return "AppArmor keeps them from ordinary users here (Ubuntu): run `sudo sysctl \
                kernel.apparmor_restrict_unprivileged_userns=0`, or run narrows as root"
            .into();
    }
    for kind in ["user", "net", "pid", "mnt"] {
        let path = format!("/proc/sys/user/max_{kind}_namespaces");
        if number(&path) == Some(0) {
            return format!("`user.max_{kind}_namespaces` is 0: run `sudo sysctl user.max_{kind}_namespaces=10000`");
        }
    }
    match error.raw_os_error() {
        Some(libc::ENOSPC) => "too many namespaces exist: raise `user.max_user_namespaces` and \
                               `user.max_net_namespaces`, or end what holds them"
            .into(),
        Some(libc::EINVAL) => {
            "the kernel is built without user namespaces (CONFIG_USER_NS): run narrows as root".into()
        }
        _ => "inside a container, let it make namespaces (Docker: `--security-opt seccomp=unconfined \
              --security-opt apparmor=unconfined`), or run narrows as root outside of it"
            .into(),
    }
}

/// PID 1: starts the worker, reaps all that ends, ends with the worker.
fn init(parent: &OwnedFd, work: impl FnOnce() -> i32) -> ! {
    // SAFETY: no pointers.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    // Had the parent died before that, no signal would come; but then the pipe is closed already.
    let mut poll = libc::pollfd { fd: parent.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one pollfd, ours, is given.
    if unsafe { libc::poll(&raw mut poll, 1, 0) } != 0 {
        exit_now(128 + libc::SIGKILL);
    }
    mount_proc();
    for signal in FORWARDED {
        install(signal, stop_worker, 0);
    }
    match fork("start the worker") {
        Ok(0) => {
            for signal in FORWARDED {
                install(signal, note_interrupt, libc::SA_RESTART);
            }
            allow_signals();
            // A panic must not unwind into the caller's frames, which are the parent's business.
            let code = catch_unwind(AssertUnwindSafe(work)).unwrap_or(101);
            std::process::exit(code);
        }
        Ok(worker) => {
            WORKER.store(worker, Ordering::SeqCst);
            allow_signals();
            exit_now(wait_for(-1, worker).unwrap_or(128 + libc::SIGKILL));
        }
        Err(_) => exit_now(125),
    }
}

/// A `/proc` that shows the new PID namespace. A container may forbid it; then the old one stays,
/// which names processes by their outer numbers but serves.
fn mount_proc() {
    let mount = |source: &CStr, target: &CStr, kind: &CStr, flags| {
        // SAFETY: all pointers are to terminated strings that outlive the call.
        unsafe { libc::mount(source.as_ptr(), target.as_ptr(), kind.as_ptr(), flags, std::ptr::null()) };
    };
    mount(c"none", c"/", c"", libc::MS_REC | libc::MS_PRIVATE);
    mount(c"proc", c"/proc", c"proc", libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC);
}

/// What `sigaction` calls with `SA_SIGINFO`.
type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);

/// Whether a signal is a key at the terminal that a program of the user's has got too.
fn is_theirs(signal: libc::c_int, info: *const libc::siginfo_t) -> bool {
    /// The kernel itself, here its terminal, sent it.
    const SI_KERNEL: libc::c_int = 0x80;
    // SAFETY: the kernel hands every handler a valid structure.
    let code = unsafe { (*info).si_code };
    signal == libc::SIGINT && code == SI_KERNEL && KEYS_ARE_THEIRS.load(Ordering::SeqCst)
}

extern "C" fn stop_init(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    if is_theirs(signal, info) {
        return;
    }
    let signal = if ASKED.swap(true, Ordering::SeqCst) { libc::SIGKILL } else { libc::SIGTERM };
    kill(INIT.load(Ordering::SeqCst), signal);
}

extern "C" fn stop_worker(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    if !is_theirs(signal, info) {
        kill(WORKER.load(Ordering::SeqCst), libc::SIGTERM);
    }
}

extern "C" fn note_interrupt(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    if !is_theirs(signal, info) {
        INTERRUPTED.store(true, Ordering::Relaxed);
    }
}

extern "C" fn note_first_interrupt(signal: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    /// A signal that comes so soon after the first, in nanoseconds, is the same wish.
    const SAME: u64 = 200_000_000;
    // Reads a clock, which is safe in a signal handler.
    let now = Instant::now().as_nanos();
    let first = FIRST_INTERRUPT.compare_exchange(0, now, Ordering::SeqCst, Ordering::SeqCst);
    INTERRUPTED.store(true, Ordering::Relaxed);
    if first.is_err_and(|first| now.saturating_sub(first) > SAME) {
        // SAFETY: no pointers; both calls are async-signal-safe. The signal is delivered once this
        // handler returns, and ends the process.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
    }
}

/// Safe in a signal handler. 0 stands for a process that is not there (any more).
fn kill(pid: libc::pid_t, signal: libc::c_int) {
    if pid > 0 {
        // SAFETY: no pointers; kill(2) is async-signal-safe.
        unsafe { libc::kill(pid, signal) };
    }
}

/// Installs a handler, unless the signal is ignored, which then is somebody's wish.
fn install(signal: libc::c_int, handler: Handler, flags: libc::c_int) {
    // SAFETY: both structures are ours and valid when zeroed; the handlers only touch atomics, read
    // what they are given and call kill(2).
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0 && action.sa_sigaction == libc::SIG_IGN {
            return;
        }
        action = std::mem::zeroed();
        action.sa_sigaction = handler as libc::sighandler_t;
        action.sa_flags = flags | libc::SA_SIGINFO;
        libc::sigaction(signal, &raw const action, std::ptr::null_mut());
    }
}

fn hold_signals() {
    mask_signals(libc::SIG_BLOCK);
}

fn allow_signals() {
    mask_signals(libc::SIG_UNBLOCK);
}

fn mask_signals(how: libc::c_int) {
    // SAFETY: the set is ours, and initialised by sigemptyset.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in FORWARDED {
            libc::sigaddset(&raw mut set, signal);
        }
        libc::sigprocmask(how, &raw const set, std::ptr::null_mut());
    }
}

/// Reaps `children` (as waitpid(2) names them) until `pid` ended; its status as a shell gives it.
fn wait_for(children: libc::pid_t, pid: libc::pid_t) -> io::Result<i32> {
    loop {
        let mut status = 0;
        // SAFETY: `status` is ours.
        match check(unsafe { libc::waitpid(children, &raw mut status, 0) }) {
            Ok(ended) if ended == pid => {
                return Ok(match libc::WIFSIGNALED(status) {
                    true => 128 + libc::WTERMSIG(status),
                    false => libc::WEXITSTATUS(status),
                });
            }
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
    }
}

fn pipe() -> Result<(OwnedFd, OwnedFd), SandboxError> {
    let mut ends = [0; 2];
    // SAFETY: the kernel fills in two descriptors, which from then on are ours alone.
    check(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) })
        .map(|_| unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) })
        .map_err(|source| SandboxError::System { doing: "create a pipe", source })
}

fn fork(doing: &'static str) -> Result<libc::pid_t, SandboxError> {
    // SAFETY: the process has one thread (checked in `run`, and true of a fork's child), so that
    // the child may do all the parent may.
    check(unsafe { libc::fork() }).map_err(|source| SandboxError::System { doing, source })
}

/// Ends without the exit handlers that belong to the parent.
fn exit_now(code: i32) -> ! {
    // SAFETY: ends the process.
    unsafe { libc::_exit(code) }
}
