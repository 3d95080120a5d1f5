//! A generator of frames.

/// Sends frames by a packet socket on `eth0` of the calling thread's namespace.
pub(crate) struct Blaster {
    socket: i32,
}

impl Blaster {
    /// Most frames in one system call.
    pub(crate) const BATCH: usize = 32;

    pub(crate) fn new() -> Self {
        // SAFETY: plain data, valid when zeroed; pointers to it outlive the calls; the descriptor is
        // ours and lives as long as the process.
        unsafe {
            let socket = libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0);
            let mut address: libc::sockaddr_ll = std::mem::zeroed();
            address.sll_family = libc::AF_PACKET as u16;
            address.sll_ifindex = libc::if_nametoindex(c"eth0".as_ptr()).cast_signed();
            libc::bind(socket, (&raw const address).cast(), size_of_val(&address) as u32);
            let one = 1i32;
            libc::setsockopt(socket, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, (&raw const one).cast(), 4);
            Self { socket }
        }
    }

    /// Sends a frame `count` times, at most [`BATCH`](Self::BATCH).
    pub(crate) fn send(&self, frame: &[u8], count: usize) {
        // SAFETY: plain data, valid when zeroed; the kernel reads the frame, and all outlives the call.
        unsafe {
            let mut piece = libc::iovec { iov_base: frame.as_ptr().cast_mut().cast(), iov_len: frame.len() };
            let mut messages: [libc::mmsghdr; Self::BATCH] = std::mem::zeroed();
            for message in &mut messages {
                message.msg_hdr.msg_iov = &raw mut piece;
                message.msg_hdr.msg_iovlen = 1;
            }
            libc::sendmmsg(self.socket, messages.as_mut_ptr(), count.min(Self::BATCH) as u32, 0);
        }
    }
}
