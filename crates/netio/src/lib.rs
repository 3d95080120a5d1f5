//! Linux: namespaces, netlink, TAP, AF_PACKET, clocks and the real executor.
