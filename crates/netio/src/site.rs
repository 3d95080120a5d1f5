//! Sites: network namespaces, and what is set up in them, by netlink and `/proc/sys` alone.

use std::fs::{self, File};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::thread;

use netlink_packet_route::link::{InfoData, InfoVeth, LinkAttribute};
use netlink_packet_route::neighbour::{NeighbourFlags, NeighbourState};
use rtnetlink::{
    Handle, LinkBridge, LinkMessageBuilder, LinkUnspec, LinkVeth, LinkVxlan, RouteMessageBuilder,
    packet_route::link::LinkMessage,
};

use crate::error::SetupError;
use crate::sys::check;

/// A network namespace: interfaces, addresses, routes and sockets of its own.
///
/// It lives as long as a handle (they are counted), a socket, a TAP or a thread in it does; it has
/// no name and leaves no file. The kernel takes it down in the background.
#[derive(Clone, Debug)]
pub struct Namespace(Arc<File>);

impl PartialEq for Namespace {
    /// Whether both are handles of one [`Namespace::new`].
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Namespace {
    /// A new, empty namespace, whose `lo` is down.
    ///
    /// # Errors
    ///
    /// If the process may not make one (see [`crate::sandbox`]) or too many exist.
    pub fn new() -> Result<Self, SetupError> {
        // A thread for the purpose, since unshare(2) moves the thread that calls it.
        in_thread(|| {
            // SAFETY: no pointers; only this thread, which ends here, is moved.
            check(unsafe { libc::unshare(libc::CLONE_NEWNET) })
                .map_err(|source| SetupError::new("create a network namespace", source))?;
            Self::current()
        })
    }

    /// The namespace of the calling thread.
    ///
    /// # Errors
    ///
    /// If `/proc` is not mounted.
    pub fn current() -> Result<Self, SetupError> {
        let path = "/proc/thread-self/ns/net";
        let file = File::open(path).map_err(|source| SetupError::new(format!("open {path}"), source))?;
        Ok(Self(Arc::new(file)))
    }

    /// Moves the calling thread into the namespace, for good. Sockets it opens and processes it
    /// starts belong there.
    ///
    /// # Errors
    ///
    /// If the process lacks the privilege.
    pub fn enter(&self) -> Result<(), SetupError> {
        // SAFETY: no pointers; only the calling thread is moved, which asked for it.
        check(unsafe { libc::setns(self.0.as_raw_fd(), libc::CLONE_NEWNET) })
            .map_err(|source| SetupError::new("enter a network namespace", source))?;
        Ok(())
    }

    /// Does `work` on a thread inside the namespace and waits for it. Sockets made there stay in the
    /// namespace wherever they are used; a [`std::process::Command`] spawned there runs there.
    ///
    /// # Errors
    ///
    /// If the namespace cannot be entered.
    ///
    /// # Panics
    ///
    /// If `work` does.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, SetupError> {
        in_thread(|| {
            self.enter()?;
            Ok(work())
        })
    }

    /// Sets the namespace up: all that `work` asks of [`Net`] goes through one thread and one
    /// netlink socket.
    ///
    /// # Errors
    ///
    /// What `work` returns, or why there is no netlink.
    pub fn configure<T: Send>(&self, work: impl FnOnce(&Net) -> Result<T, SetupError> + Send) -> Result<T, SetupError> {
        self.run(|| work(&Net::open()?))?
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        use std::os::fd::AsFd;
        self.0.as_fd()
    }
}

/// Runs `work` on a thread of its own and hands a panic on.
fn in_thread<T: Send>(work: impl FnOnce() -> Result<T, SetupError> + Send) -> Result<T, SetupError> {
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .name("netns".into())
            .spawn_scoped(scope, work)
            .map_err(|source| SetupError::new("start a thread", source))?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// A hardware address.
pub type Mac = [u8; 6];

/// Our end of a VXLAN (RFC 7348).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vxlan {
    /// Network identifier, 24 bits.
    pub id: u32,
    /// Our end of the tunnels.
    pub local: IpAddr,
    /// Hop limit of the outer header; 0 takes the namespace's default.
    pub ttl: u8,
}

/// The UDP port of VXLAN (RFC 7348 5). The kernel's own default is another one.
pub const VXLAN_PORT: u16 = 4789;

/// What the kernel counted at an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Bytes that came in.
    pub rx_bytes: u64,
    /// Packets (super-frames count as one) that came in.
    pub rx_packets: u64,
    /// Packets that came in and were not for any protocol, or found no room.
    pub rx_dropped: u64,
    /// Bytes that went out.
    pub tx_bytes: u64,
    /// Packets that went out.
    pub tx_packets: u64,
    /// Packets that found no room on the way out.
    pub tx_dropped: u64,
}

/// Hands for one namespace; see [`Namespace::configure`].
pub struct Net {
    runtime: tokio::runtime::Runtime,
    handle: Handle,
}

impl Net {
    /// Must be called on a thread inside the namespace, and used there.
    fn open() -> Result<Self, SetupError> {
        let failed = |source| SetupError::new("open a netlink socket", source);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().map_err(failed)?;
        let handle = {
            let _inside = runtime.enter();
            let (connection, handle, _) = rtnetlink::new_connection().map_err(failed)?;
            runtime.spawn(connection);
            handle
        };
        Ok(Self { runtime, handle })
    }

    /// Creates a pair of Ethernet interfaces, one here and one in `peer`. Both are down.
    ///
    /// # Errors
    ///
    /// If the kernel refuses, for example since a name is taken.
    pub fn veth(&self, name: &str, peer: &Namespace, peer_name: &str) -> Result<(), SetupError> {
        let mut other = LinkMessage::default();
        other.attributes.push(LinkAttribute::IfName(peer_name.into()));
        other.attributes.push(LinkAttribute::NetNsFd(peer.fd().as_raw_fd()));
        let link = LinkVeth::new(name, peer_name).set_info_data(InfoData::Veth(InfoVeth::Peer(other)));
        self.add(&format!("create the veth pair {name}, {peer_name}"), link.build())
    }

    /// Creates a bridge, down.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn bridge(&self, name: &str) -> Result<(), SetupError> {
        self.add(&format!("create the bridge {name}"), LinkBridge::new(name).build())
    }

    /// Puts an interface under a bridge.
    ///
    /// # Errors
    ///
    /// If one of them does not exist.
    pub fn enslave(&self, name: &str, bridge: &str) -> Result<(), SetupError> {
        let index = self.index(bridge)?;
        self.change(&format!("put {name} under {bridge}"), LinkUnspec::new_with_name(name).controller(index))
    }

    /// Creates a VXLAN interface, down. It learns nothing and floods nothing: frames go where
    /// [`Net::tunnel`] says. The outer header has the inner one's DSCP, so that a link under it sees
    /// classes. Outer checksums stay as the kernel has them: none over IPv4, present over IPv6.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn vxlan(&self, name: &str, tunnel: &Vxlan) -> Result<(), SetupError> {
        let doing = format!("create the VXLAN interface {name}");
        // ip-link(8): a TOS of 1 is `inherit`.
        let link = LinkVxlan::new(name, tunnel.id).port(VXLAN_PORT).ttl(tunnel.ttl).tos(1).learning(false);
        let link = match tunnel.local {
            IpAddr::V4(local) => link.local(local),
            IpAddr::V6(local) => link.local6(local),
        };
        self.add(&doing, link.build())
    }

    /// Sends what a VXLAN interface has for the hardware address `mac` to the tunnel's end `remote`.
    ///
    /// # Errors
    ///
    /// If the interface does not exist or is no VXLAN.
    pub fn tunnel(&self, name: &str, mac: Mac, remote: IpAddr) -> Result<(), SetupError> {
        let index = self.index(name)?;
        let request = self.handle.neighbours().add_bridge(index, &mac);
        let request = request.destination(remote).flags(NeighbourFlags::Own).state(NeighbourState::Permanent);
        self.wait(&format!("lead {name} to {remote}"), request.execute())
    }

    /// Takes an interface up.
    ///
    /// # Errors
    ///
    /// If it does not exist.
    pub fn up(&self, name: &str) -> Result<(), SetupError> {
        self.change(&format!("take {name} up"), LinkUnspec::new_with_name(name).up())
    }

    /// Takes an interface down.
    ///
    /// # Errors
    ///
    /// If it does not exist.
    pub fn down(&self, name: &str) -> Result<(), SetupError> {
        self.change(&format!("take {name} down"), LinkUnspec::new_with_name(name).down())
    }

    /// Deletes an interface (and its peer, if it is one of a pair).
    ///
    /// # Errors
    ///
    /// If it does not exist.
    pub fn delete(&self, name: &str) -> Result<(), SetupError> {
        let index = self.index(name)?;
        self.wait(&format!("delete {name}"), self.handle.link().del(index).execute())
    }

    /// Sets the largest network-layer packet an interface carries, in bytes.
    ///
    /// # Errors
    ///
    /// If the interface does not take it.
    pub fn mtu(&self, name: &str, mtu: u32) -> Result<(), SetupError> {
        self.change(&format!("set the MTU of {name} to {mtu}"), LinkUnspec::new_with_name(name).mtu(mtu))
    }

    /// Sets an interface's hardware address.
    ///
    /// # Errors
    ///
    /// If it is not a valid one.
    pub fn mac(&self, name: &str, mac: Mac) -> Result<(), SetupError> {
        self.change(&format!("set the address of {name}"), LinkUnspec::new_with_name(name).address(mac.to_vec()))
    }

    /// Sets the length of an interface's transmit queue in packets (for a TAP: super-frames).
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn queue_length(&self, name: &str, packets: u32) -> Result<(), SetupError> {
        let link = LinkUnspec::new_with_name(name).txqueuelen(packets);
        self.change(&format!("set the transmit queue of {name} to {packets}"), link)
    }

    /// Gives an interface an address. IPv6 addresses are usable at once (no duplicate address
    /// detection, RFC 4862 5.4, which would cross the link).
    ///
    /// # Errors
    ///
    /// If it has the address already, or the address family is off.
    pub fn address(&self, name: &str, address: IpAddr, prefix: u8) -> Result<(), SetupError> {
        use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressHeaderFlags};
        let index = self.index(name)?;
        let mut request = self.handle.address().add(index, address, prefix);
        if address.is_ipv6() {
            let message = request.message_mut();
            message.header.flags |= AddressHeaderFlags::Nodad;
            message.attributes.push(AddressAttribute::Flags(AddressFlags::Nodad));
        }
        self.wait(&format!("give {name} the address {address}/{prefix}"), request.execute())
    }

    /// Routes a network through an interface, by a gateway or directly.
    ///
    /// # Errors
    ///
    /// If the gateway cannot be reached, or the interface is down.
    pub fn route(
        &self,
        destination: IpAddr,
        prefix: u8,
        gateway: Option<IpAddr>,
        name: &str,
    ) -> Result<(), SetupError> {
        let doing = format!("route {destination}/{prefix} by {name}");
        let index = self.index(name)?;
        let message = match (destination, gateway) {
            (IpAddr::V4(destination), None | Some(IpAddr::V4(_))) => {
                let route = RouteMessageBuilder::<Ipv4Addr>::new().destination_prefix(destination, prefix);
                match gateway {
                    Some(IpAddr::V4(gateway)) => route.gateway(gateway),
                    _ => route,
                }
                .output_interface(index)
                .build()
            }
            (IpAddr::V6(destination), None | Some(IpAddr::V6(_))) => {
                let route = RouteMessageBuilder::<Ipv6Addr>::new().destination_prefix(destination, prefix);
                match gateway {
                    Some(IpAddr::V6(gateway)) => route.gateway(gateway),
                    _ => route,
                }
                .output_interface(index)
                .build()
            }
            _ => return Err(SetupError::new(doing, io::Error::from_raw_os_error(libc::EAFNOSUPPORT))),
        };
        self.wait(&doing, self.handle.route().add(message).execute())
    }

    /// Enters a neighbour's hardware address for good, so that neither ARP nor neighbour discovery
    /// crosses an emulated link (and is lost on it).
    ///
    /// # Errors
    ///
    /// If the interface does not exist.
    pub fn neighbour(&self, name: &str, address: IpAddr, mac: Mac) -> Result<(), SetupError> {
        let index = self.index(name)?;
        let request = self.handle.neighbours().add(index, address).link_layer_address(&mac).replace();
        self.wait(&format!("enter {address} as a neighbour at {name}"), request.execute())
    }

    /// Turns IPv6 on or off for an interface. Off also stops what the kernel sends by itself: router
    /// solicitations, group memberships.
    ///
    /// # Errors
    ///
    /// If the interface does not exist. A kernel without IPv6 is off already.
    pub fn ipv6(&self, name: &str, on: bool) -> Result<(), SetupError> {
        if !on && fs::metadata("/proc/sys/net/ipv6").is_err() {
            return Ok(());
        }
        self.sysctl(&format!("ipv6/conf/{name}/disable_ipv6"), if on { "0" } else { "1" })
    }

    /// Turns IPv6 on for an interface that is down, so that the kernel sends nothing by itself:
    /// neither router solicitations nor group memberships, no duplicate address detection, and no
    /// link-local address to do it with (RFC 4861 6.3.7, RFC 3810, RFC 4862 5.3 and 5.4). Neighbours
    /// must be entered by [`Net::neighbour`]: none is ever asked for, and no question is answered.
    ///
    /// # Errors
    ///
    /// If the interface does not exist, or the kernel has no IPv6.
    pub fn quiet_ipv6(&self, name: &str) -> Result<(), SetupError> {
        self.ipv6(name, true)?;
        // addr_gen_mode: 1 is IN6_ADDR_GEN_MODE_NONE.
        for (key, value) in
            [("addr_gen_mode", "1"), ("accept_ra", "0"), ("router_solicitations", "0"), ("dad_transmits", "0")]
        {
            self.sysctl(&format!("ipv6/conf/{name}/{key}"), value)?;
        }
        // Without ARP it joins no solicited-node group, without multicast (and if it forwards) not that
        // of all routers: each would be reported.
        let link = LinkUnspec::new_with_name(name).multicast(false).arp(false);
        self.change(&format!("take multicast and ARP from {name}"), link)
    }

    /// Lets the namespace forward between its interfaces, IPv4 and IPv6.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn forwarding(&self) -> Result<(), SetupError> {
        self.sysctl("ipv4/ip_forward", "1")?;
        if fs::metadata("/proc/sys/net/ipv6").is_ok() {
            self.sysctl("ipv6/conf/all/forwarding", "1")?;
        }
        Ok(())
    }

    /// Writes a setting of the namespace; `key` is its path below `/proc/sys/net`, as
    /// `ipv4/tcp_rmem`.
    ///
    /// # Errors
    ///
    /// If there is no such setting, it is not one of the namespace's own, or the value is not
    /// accepted.
    pub fn sysctl(&self, key: &str, value: &str) -> Result<(), SetupError> {
        // `/proc/sys/net` shows the namespace of the thread that opens it.
        fs::write(format!("/proc/sys/net/{key}"), value)
            .map_err(|source| SetupError::new(format!("set net/{key} to `{value}`"), source))
    }

    /// What the kernel counted at an interface so far.
    ///
    /// # Errors
    ///
    /// If the interface does not exist.
    pub fn counters(&self, name: &str) -> Result<Counters, SetupError> {
        counters(name)
    }

    fn index(&self, name: &str) -> Result<u32, SetupError> {
        index_of(name)
    }

    fn add(&self, doing: &str, link: LinkMessage) -> Result<(), SetupError> {
        self.wait(doing, self.handle.link().add(link).execute())
    }

    fn change(&self, doing: &str, link: LinkMessageBuilder<LinkUnspec>) -> Result<(), SetupError> {
        self.wait(doing, self.handle.link().set(link.build()).execute())
    }

    fn wait(&self, doing: &str, request: impl Future<Output = Result<(), rtnetlink::Error>>) -> Result<(), SetupError> {
        self.runtime.block_on(request).map_err(|error| {
            let source = match error {
                rtnetlink::Error::NetlinkError(message) => message.to_io(),
                other => io::Error::other(other),
            };
            SetupError::new(doing, source)
        })
    }
}

/// The number of an interface of the calling thread's namespace.
pub(crate) fn index_of(name: &str) -> Result<u32, SetupError> {
    let failed = |source| SetupError::new(format!("find the interface {name}"), source);
    let text = std::ffi::CString::new(name).map_err(|_| failed(io::ErrorKind::InvalidInput.into()))?;
    // SAFETY: a terminated string that outlives the call.
    match unsafe { libc::if_nametoindex(text.as_ptr()) } {
        0 => Err(failed(io::Error::last_os_error())),
        index => Ok(index),
    }
}

/// Reads `/proc/net/dev` of the calling thread's namespace.
pub(crate) fn counters(name: &str) -> Result<Counters, SetupError> {
    let failed = |source| SetupError::new(format!("read the counters of {name}"), source);
    let table = fs::read_to_string("/proc/thread-self/net/dev").map_err(failed)?;
    parse_counters(&table, name).ok_or_else(|| failed(io::ErrorKind::NotFound.into()))
}

/// A line is `name: 8 counts received, 8 counts sent`: bytes, packets, errs, drop, and four more.
fn parse_counters(table: &str, name: &str) -> Option<Counters> {
    table.lines().find_map(|line| {
        let (found, counts) = line.split_once(':')?;
        if found.trim() != name {
            return None;
        }
        let counts: Vec<u64> = counts.split_ascii_whitespace().map_while(|count| count.parse().ok()).collect();
        let at = |n: usize| counts.get(n).copied();
        Some(Counters {
            rx_bytes: at(0)?,
            rx_packets: at(1)?,
            rx_dropped: at(3)?,
            tx_bytes: at(8)?,
            tx_packets: at(9)?,
            tx_dropped: at(11)?,
        })
    })
}
