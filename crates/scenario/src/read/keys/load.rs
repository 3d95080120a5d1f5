//! Keys of load files.

use super::{Key, Table, key};

pub(crate) static LOAD: Table = Table {
    what: "a load file",
    keys: &[
        key("name", "evening", "Name of the load and of its results; the file's if absent."),
        key("description", "free text", "What it is for."),
        key(
            "session_group",
            "{name: base} or [{name: base}, {name: video}]",
            "The groups of UEs, one or a list. Required.",
        ),
        key("duration", "60s", "How long packets are sent; 10 s if absent."),
        key("run_time", "60", "The same by the thesis's name; a number without a unit counts seconds."),
        key("samples_per_second", "10", "Rows of the table of samples each second, 1 to 1000; 10 if absent."),
        key("generation", "5g or 4g", "PDU session containers in GTP-U (5G) or none (4G); `5g` if absent."),
        key(
            "upf",
            "own or other",
            "The UPF that comes with Narrows, in namespaces of its own, or the one that `n3`, `n4` and `n6` lead to; as these are there if absent.",
        ),
        key("n3", "{interface: enp1s0, address: 10.3.0.1, upf: 10.3.0.2}", "Where the access network meets the UPF."),
        key("n4", "{upf: 10.4.0.2}", "Where the UPF is controlled."),
        key("n6", "{interface: enp2s0, address: 10.6.0.1, upf: 10.6.0.2}", "Where the UPF meets the data network."),
        key("pfcp", "{teid: fixed}", "How PFCP is spoken."),
        key("gtpu_sequence", "true", "Number GTP-U packets; not if absent."),
        key("capture", "true", "Write what is sent and received to `capture.pcapng`; not if absent."),
        key("seed", "7", "Seed of every random stream. Drawn and printed if absent."),
    ],
};

pub(crate) static EMBEDDED: Table = Table {
    what: "a load in a scenario",
    keys: &[
        key("file", "load.yaml", "The load file; captures it names are looked for beside the scenario. Required."),
        key("n3", "radio", "The link that stands on N3; its first end is the gNB's. None if absent."),
        key("n6", "core", "The link that stands on N6; its first end is the UPF's. None if absent."),
        key("groups", "{base: {rate: 25000}}", "Changes in single groups, by name; they go before those of all."),
        RATE,
        DIRECTION,
        FLOWS,
        INSTANCES_CHANGED,
        REPETITIONS_CHANGED,
        TRACE_CHANGED,
    ],
};

pub(crate) static CHANGE: Table = Table {
    what: "changes in a group of a load",
    keys: &[RATE, DIRECTION, FLOWS, INSTANCES_CHANGED, REPETITIONS_CHANGED, TRACE_CHANGED],
};

const RATE: Key = key("rate", "100000", "Packets a second in all directions together, of steady models; 0 for none.");
const DIRECTION: Key = key("direction", "both or up or down", "Which directions share the rate, of steady models.");
const FLOWS: Key = key("flows", "10", "Flows of the whole group, of models.");
const INSTANCES_CHANGED: Key = key("instances", "3", "Instances of a trace at once; 0 for none.");
const REPETITIONS_CHANGED: Key = key("repetitions", "28", "How often a trace is played, one after the other.");
const TRACE_CHANGED: Key = key("trace", "download.pcapng", "Another capture for a trace.");

pub(crate) static INTERFACE: Table = Table {
    what: "an interface",
    keys: &[
        key("interface", "enp1s0", "The interface; it must have no address of its own. Required."),
        key("address", "10.3.0.1", "Our address there. Required."),
        key("upf", "10.3.0.2", "The UPF's address there. Required, unless there is a `gateway`."),
        key("gateway", "10.3.0.254", "The router packets go to, if the UPF is not on the same link."),
    ],
};

pub(crate) static CONTROL: Table = Table {
    what: "`n4`",
    keys: &[
        key("upf", "10.4.0.2", "The UPF's address. Required."),
        key("address", "10.4.0.1", "Our address; as the machine routes if absent."),
    ],
};

pub(crate) static PFCP: Table = Table {
    what: "`pfcp`",
    keys: &[
        key(
            "node_id",
            "smf.example",
            "Our node ID as an FQDN; our address if absent. `node_id_fqdn` of a group says the same.",
        ),
        key(
            "teid",
            "choose or fixed",
            "Who chooses uplink TEIDs: the UPF, or we, from `start_teid` on; `choose` if absent.",
        ),
        key("apply_action", "2 or 1", "Octets of an Apply Action; 2 if absent (TS 29.244 8.2.26, release 16 on)."),
        key(
            "network_instance",
            "labels or text",
            "How network instances are written: as labels (TS 23.003) or plain; `labels` if absent.",
        ),
        key("interface_type", "true", "Send the 3GPP interface type; sent if absent."),
        key("window", "64", "Requests that may be unanswered at once; 64 if absent."),
        key("t1", "1s", "How long an answer is waited for; 1 s if absent (TS 29.244 6.4)."),
        key("n1", "4", "How often a request is sent in all; 4 times if absent."),
        key("heartbeat", "10s", "From one heartbeat request to the next; 10 s if absent."),
    ],
};

pub(crate) static SESSION_GROUP: Table = Table {
    what: "a session group",
    keys: &[
        key("name", "base", "Its name. Required."),
        key(
            "start_ue_address",
            "22.64.0.1",
            "Address of its first UE; the others count on, IPv6 in a /64 each. Required.",
        ),
        key("nr_sessions", "2", "How many UEs, each with one session; 1 if absent."),
        key(
            "start_teid",
            "839248",
            "TEID of the first UE's downlink tunnel; the others count on. After those of the groups before if absent.",
        ),
        key(
            "predefined_type",
            "simplest",
            "Activate the UPF's predefined rules of this name instead of sending rules.",
        ),
        key("core_network_instance", "sgi1", "Network instance of the data network; none is sent if absent."),
        key("access_network_instance", "access", "Network instance of the access network; none is sent if absent."),
        key("node_id_fqdn", "pgwc.com", "Our node ID as an FQDN; all groups that give one give the same."),
        key("flows_per_ue", "10", "Flows of each UE, each to an address of its own in the data network; 1 if absent."),
        key(
            "pdn_start_address",
            "198.18.0.1",
            "Address of the first flow's other end; the others count on. 198.18.0.1 (2001:2::1) if absent.",
        ),
        key("qfi", "9", "QoS flow identifier, 0 to 63; 9 if absent. Not in 4G."),
        key(
            "sdf_filter",
            "permit out ip from any to assigned",
            "Which packets its rules take (TS 29.212 5.4.2); all if absent.",
        ),
        key(
            "mbr",
            "{uplink: 10Mbit/s, downlink: 50Mbit/s}",
            "Maximum bit rates that the UPF is told to hold each session to.",
        ),
        key("report", "{volume: 1MiB, period: 10s}", "When the UPF is told to report usage."),
        key("load", "{type: steady, uplink: 1000}", "What is sent; nothing if absent: sessions alone."),
    ],
};

pub(crate) static MBR: Table = Table {
    what: "maximum bit rates",
    keys: &[key("uplink", "10Mbit/s", "Required."), key("downlink", "50Mbit/s", "Required.")],
};

pub(crate) static REPORT: Table = Table {
    what: "usage reports",
    keys: &[
        key("volume", "1MiB", "Each time so many bytes have passed."),
        key("period", "10s", "Each time so long has passed."),
    ],
};

const UPLINK: Key = key(
    "uplink",
    "25000 or 0.5/s or [1000, 2000, 4000]",
    "Packets that the whole group sends uplink each `interval`, in turn over its flows; none if absent. A list is of steps.",
);
const DOWNLINK: Key = key("downlink", "25000", "The same downlink.");

pub(crate) static GROUP_LOAD: Table = Table {
    what: "a load",
    keys: &[
        key("type", "steady or step or poisson or pareto or fgn or trace", "Which model, or a trace. Required."),
        UPLINK,
        DOWNLINK,
        key(
            "interval",
            "1s",
            "The time that rates count packets for; with `step` how long each step lasts. 1 s if absent.",
        ),
        key(
            "step",
            "500",
            "`step`: packets a second more with each step, less if negative. A list of rates goes without.",
        ),
        key(
            "packet_size",
            "1400 or {from: 60, to: 1400} or {1400: 68, 60: 32} or {trace: file.pcapng}",
            "Length of the users' IP packets in bytes: fixed, uniform, by weights, or as in a capture; 1400 if absent.",
        ),
        key("sources", "100", "`pareto`: sources that send and pause; 100 if absent."),
        key("shape", "1.4", "`pareto`: α of both times, over 1 and under 2; 1.4 if absent (H = 0.8)."),
        key("on", "100ms", "`pareto`: mean time of sending; 100 ms if absent."),
        key("off", "900ms", "`pareto`: mean pause; 900 ms if absent."),
        key("hurst", "0.8", "`fgn`: Hurst exponent, over 0 and under 1; 0.8 if absent."),
        key("deviation", "0.3", "`fgn`: standard deviation in a slot, over its mean; 0.3 if absent."),
        key("slot", "10ms", "`fgn`: length of a slot; 10 ms if absent."),
        key("trace", "tcp.pcapng", "`trace`: the capture (pcap or pcapng), looked for beside the load file."),
        key("filter", "tcp port 443", "`trace`: which of its packets, as pcap-filter(7) has it; all if absent."),
        key("repetitions", "28", "`trace`: how often it is played, one after the other; once if absent."),
        key(
            "instances",
            "4 or {over: ue, count: 4}",
            "`trace`: how often at once, each with PDN (or UE) addresses of its own; once if absent.",
        ),
        key(
            "spacing",
            "copy or jitter or shuffle",
            "`trace`: how instances lie in time; `copy`, as in the thesis, if absent.",
        ),
        key(
            "ue",
            "first-sight or [10.0.0.0/8]",
            "`trace`: who is UE: by first sight, as in the thesis, or by networks; by first sight if absent.",
        ),
        key("max_gap", "1s", "`trace`: gaps between packets are made no longer; as they are if absent."),
        key("stateful", "true", "`trace`: a TCP segment waits for the one it answers; not if absent."),
        key("timeout", "1s", "`trace`: how long it waits at most; 1 s if absent."),
    ],
};

pub(crate) static PACKET_SIZES: Table = Table {
    what: "packet sizes",
    keys: &[
        key("from", "60", "Smallest."),
        key("to", "1400", "Largest."),
        key("trace", "file.pcapng", "A capture whose sizes are drawn."),
    ],
};

pub(crate) static INSTANCES: Table = Table {
    what: "instances",
    keys: &[
        key("over", "pdn or ue", "What each has of its own; `pdn`, as in the thesis, if absent."),
        key("count", "4", "How many. Required."),
    ],
};
