//! Switching an interface's features off, as `ethtool -K` does.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::error::SetupError;
use crate::sys::{check, interface_request};

// linux/ethtool.h
const GSTRINGS: u32 = 0x1b;
const GSSET_INFO: u32 = 0x37;
const SFEATURES: u32 = 0x3b;
const SS_FEATURES: u32 = 4;
const NAME_LEN: usize = 32;

/// Switches features off at an interface of the calling thread's namespace. Names the kernel does
/// not know name features it does not have.
pub(crate) fn switch_off(interface: &str, features: &[&str]) -> Result<(), SetupError> {
    let failed = |source| SetupError::new(format!("switch features of {interface} off"), source);
    // SAFETY: the descriptor is new and ours alone.
    let socket = check(unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) })
        .map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
        .map_err(failed)?;
    // How many names there are: ethtool_sset_info { cmd, reserved, mask (64 bits), counts }.
    let mask = u64::from(1u32 << SS_FEATURES).to_ne_bytes();
    let word = |at| u32::from_ne_bytes([mask[at], mask[at + 1], mask[at + 2], mask[at + 3]]);
    let mut info = [GSSET_INFO, 0, word(0), word(4), 0];
    call(&socket, interface, &mut info).map_err(failed)?;
    let count = info[4] as usize;
    // The names: ethtool_gstrings { cmd, set, length, names }.
    let mut strings = vec![0u32; 3 + count * NAME_LEN / 4];
    strings[..3].copy_from_slice(&[GSTRINGS, SS_FEATURES, info[4]]);
    call(&socket, interface, &mut strings).map_err(failed)?;
    let names: Vec<u8> = strings[3..].iter().flat_map(|word| word.to_ne_bytes()).collect();
    // The bits: ethtool_sfeatures { cmd, size, { valid, requested } of 32 bits each }.
    let words = count.div_ceil(32);
    let mut request = vec![0u32; 2 + words * 2];
    request[..2].copy_from_slice(&[SFEATURES, words as u32]);
    for (bit, name) in names.chunks_exact(NAME_LEN).enumerate() {
        let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
        if features.iter().any(|feature| feature.as_bytes() == name) {
            request[2 + bit / 32 * 2] |= 1 << (bit % 32);
        }
    }
    call(&socket, interface, &mut request).map_err(failed)
}

/// `SIOCETHTOOL` with a command, its arguments and the room for its answer in `data`.
fn call(socket: &OwnedFd, interface: &str, data: &mut [u32]) -> io::Result<()> {
    let mut request = interface_request(interface)?;
    request.ifr_ifru.ifru_data = data.as_mut_ptr().cast();
    // SAFETY: the ioctl reads and writes one ifreq and the command's structure in `data`, whose size
    // the kernel takes from the counts in it, which are the ones `data` was made for.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) }).map(drop)
}
