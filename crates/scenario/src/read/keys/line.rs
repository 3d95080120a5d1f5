//! Keys of character lines. Those of adapters are the adapter's own.

use super::{Key, Table, key};

const BAUD: Key = key("baud", "9600", "Bits a second of an asynchronous line, start and stop bits included.");
const FRAMING: Key = key("framing", "8N1", "Data bits, parity and stop bits of an asynchronous line; 8N1 if absent.");
const FIFO: Key = key("fifo", "16", "Characters in the transmitter's FIFO; 16 if absent, as in a 16550A.");
const LINE_RATE: Key =
    key("rate", "9600bit/s", "Rate of a synchronous line, eight bits a character; instead of `baud`.");
const LINE_DELAY: Key = key("delay", "20ms", "How long a character travels once it is sent; 0 if absent.");
const BUFFER: Key = key("buffer", "4KiB", "Characters that may wait before the line; 4 KiB if absent.");
const RECEIVE_KEY: Key =
    key("receive", "{trigger: 14}", "The receiver's FIFO; characters are handed on as they come if absent.");
const ERRORS: Key = key("errors", "0.0001", "Chance of each bit to be received wrong.");
const BURSTS_KEY: Key = key("bursts", "{begin: 0.00001, end: 0.01}", "Bit errors in bursts; instead of `errors`.");
const FADES_KEY: Key = key("fades", "{interval: 30s, length: 2s}", "Times of bad reception.");
const CUT_KEY: Key = key(
    "cut",
    "{from: 20s, length: 5s} or [{from: 20s, length: 5s}]",
    "When the line is cut, from the start of the cell: what is sent meanwhile arrives nowhere.",
);

pub(crate) static LINE: Table = Table {
    what: "a line",
    keys: &[
        BAUD,
        FRAMING,
        FIFO,
        RECEIVE_KEY,
        LINE_RATE,
        LINE_DELAY,
        BUFFER,
        ERRORS,
        BURSTS_KEY,
        FADES_KEY,
        CUT_KEY,
        key(
            "pty",
            "true",
            "In a real run the characters cross a pseudo-terminal of the kernel, paced by the adapters.",
        ),
        key("up", "{errors: 0.0001}", "Keys for the first direction only; they go before those of the line."),
        key("down", "{delay: 5ms}", "Keys for the second direction only."),
    ],
};

pub(crate) static LINE_WAY: Table = Table {
    what: "one direction of a line",
    keys: &[BAUD, FRAMING, FIFO, RECEIVE_KEY, LINE_RATE, LINE_DELAY, BUFFER, ERRORS, BURSTS_KEY, FADES_KEY, CUT_KEY],
};

pub(crate) static RECEIVE: Table = Table {
    what: "a receiver's FIFO",
    keys: &[
        key("trigger", "14", "Characters are handed on once so many are there. Required."),
        key("timeout", "4", "Or after so many character times without a further one; 4 if absent."),
    ],
};

pub(crate) static BURSTS: Table = Table {
    what: "bursts",
    keys: &[
        key("begin", "0.00001", "Chance, for each bit, that a burst begins. Required."),
        key("end", "0.01", "Chance, for each bit of a burst, that it ends. Required."),
        key("inside", "0.5", "Chance that a bit of a burst is wrong; 0.5 if absent."),
        key("outside", "0", "Chance that a bit between bursts is wrong; 0 if absent."),
    ],
};

pub(crate) static FADES: Table = Table {
    what: "fades",
    keys: &[
        key("interval", "30s", "Mean time from a fade to the next; both lengths are exponential."),
        key("length", "2s", "Mean length of a fade; with `interval`."),
        key("at", "[{from: 20s, length: 5s}]", "When they come, instead of `interval` and `length`."),
        key("errors", "0.5", "Chance of each bit in a fade to be wrong; absent: nothing is received in it."),
    ],
};

pub(crate) static CUT: Table = Table {
    what: "a cut or fade",
    keys: &[
        key("from", "20s", "When it begins, from the start of the cell. Required."),
        key("length", "5s", "How long it lasts. Required."),
    ],
};
