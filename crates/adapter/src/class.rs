//! Classes of packets.

use core::fmt;

use serde::{Deserialize, Deserializer, Serialize, de};

/// What a packet is to the adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Sent whole, before all else.
    RealTime,
    /// Cut to fit.
    Data(Priority),
}

/// Priority of data: 0 to 3, 3 first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Priority(u8);

impl Class {
    /// All classes, in the order in which the line serves them.
    pub const ALL: [Self; 5] = [
        Self::RealTime,
        Self::Data(Priority(3)),
        Self::Data(Priority(2)),
        Self::Data(Priority(1)),
        Self::Data(Priority(0)),
    ];

    /// Its place in [`Self::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        match self {
            Self::RealTime => 0,
            Self::Data(priority) => 4 - priority.index(),
        }
    }
}

impl Priority {
    /// How many there are.
    pub const COUNT: usize = 4;
    /// The first to be served.
    pub const HIGHEST: Self = Self(3);

    /// A priority of 0 to 3, or none.
    #[must_use]
    pub const fn new(priority: u8) -> Option<Self> {
        if priority < 4 { Some(Self(priority)) } else { None }
    }

    /// 0 to 3.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The class of a data priority of 0 to 3.
pub(crate) const fn class_of(priority: usize) -> Class {
    Class::ALL[Class::ALL.len() - 1 - priority]
}

/// The number of a class's ROHC channel on the line: its priority, or 4 for real-time.
pub(crate) const fn channel_of(class: Class) -> u8 {
    match class {
        Class::RealTime => 4,
        Class::Data(Priority(priority)) => priority,
    }
}

/// The class whose channel has this number, if there is one.
pub(crate) const fn class_of_channel(channel: u8) -> Option<Class> {
    match channel {
        0..=3 => Some(Class::Data(Priority(channel))),
        4 => Some(Class::RealTime),
        _ => None,
    }
}

impl<'de> Deserialize<'de> for Priority {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let priority = u8::deserialize(deserializer)?;
        Self::new(priority).ok_or_else(|| de::Error::custom("a priority is 0 to 3"))
    }
}

impl fmt::Display for Class {
    /// `real-time`, `data-3` … `data-0`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RealTime => f.write_str("real-time"),
            Self::Data(Priority(priority)) => write!(f, "data-{priority}"),
        }
    }
}
