//! Bytes to types and back: Ethernet, IP, UDP, TCP, VXLAN, pcapng.
