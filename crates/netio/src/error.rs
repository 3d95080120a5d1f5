//! What goes wrong when networks are built.

use std::fmt;
use std::io;

/// Something the kernel did not do for us.
#[derive(Debug, thiserror::Error)]
#[error("cannot {doing}: {source}{}", Remedy(.source))]
pub struct SetupError {
    /// What was being done, as a verb phrase with names in it.
    pub doing: String,
    /// What the kernel said.
    pub source: io::Error,
}

impl SetupError {
    pub(crate) fn new(doing: impl Into<String>, source: io::Error) -> Self {
        Self { doing: doing.into(), source }
    }
}

struct Remedy<'a>(&'a io::Error);

impl fmt::Display for Remedy<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => "; this needs the sandbox's privileges, or root",
            Some(libc::EMFILE) => "; raise the limit of open files (`ulimit -n 65536`)",
            Some(libc::ENOSPC) => "; raise `user.max_net_namespaces`",
            Some(libc::EOPNOTSUPP) => "; the kernel lacks this kind of device or its module",
            _ => "",
        })
    }
}
