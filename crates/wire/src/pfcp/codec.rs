//! How information elements and groups of them are read and written.

use core::fmt;

use super::{Cause, Encoding, Vec, element_name};

/// What is wrong with which information element: what an answer names as cause and offending element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// [`Cause::MandatoryMissing`], [`Cause::MandatoryIncorrect`] or [`Cause::InvalidLength`].
    pub cause: Cause,
    /// Type of the element.
    pub offending: u16,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} (element {})", self.cause, element_name(self.offending), self.offending)
    }
}

/// Why a value could not be read.
pub(crate) enum Wrong {
    /// It ends too early.
    Length,
    /// It says what it may not.
    Content,
    /// It is a group, and one of its elements is wrong.
    Inside(Fault),
}

impl Wrong {
    fn of(self, element: u16) -> Fault {
        match self {
            Self::Length => Fault { cause: Cause::InvalidLength, offending: element },
            Self::Content => Fault { cause: Cause::MandatoryIncorrect, offending: element },
            Self::Inside(fault) => fault,
        }
    }
}

/// What stands in one information element. Octets that a later release added behind it are read over.
pub(crate) trait Value: Sized {
    fn read(bytes: &[u8]) -> Result<Self, Wrong>;
    fn write(&self, out: &mut Vec<u8>, encoding: Encoding);
}

/// A place for elements of one type in a group: one that has to be there (`T`), may be (`Option<T>`), or of which there are
/// several (`Vec<T>`).
pub(crate) trait Field: Sized {
    type Slot: Default;
    fn take(slot: &mut Self::Slot, element: u16, bytes: &[u8]) -> Result<(), Fault>;
    fn finish(slot: Self::Slot, element: u16) -> Result<Self, Fault>;
    fn put(&self, element: u16, out: &mut Vec<u8>, encoding: Encoding);
}

impl<T: Value> Field for T {
    type Slot = Option<T>;

    fn take(slot: &mut Option<T>, element: u16, bytes: &[u8]) -> Result<(), Fault> {
        if slot.is_none() {
            *slot = Some(T::read(bytes).map_err(|wrong| wrong.of(element))?);
        }
        Ok(())
    }

    fn finish(slot: Option<T>, element: u16) -> Result<Self, Fault> {
        slot.ok_or(Fault { cause: Cause::MandatoryMissing, offending: element })
    }

    fn put(&self, element: u16, out: &mut Vec<u8>, encoding: Encoding) {
        put(self, element, out, encoding);
    }
}

impl<T: Value> Field for Option<T> {
    type Slot = Self;

    /// An optional element with a wrong content counts as not there (TS 29.244 7.6).
    fn take(slot: &mut Self, element: u16, bytes: &[u8]) -> Result<(), Fault> {
        if slot.is_none() {
            *slot = match T::read(bytes) {
                Ok(value) => Some(value),
                Err(Wrong::Content) => None,
                Err(wrong) => return Err(wrong.of(element)),
            };
        }
        Ok(())
    }

    fn finish(slot: Self, _: u16) -> Result<Self, Fault> {
        Ok(slot)
    }

    fn put(&self, element: u16, out: &mut Vec<u8>, encoding: Encoding) {
        if let Some(value) = self {
            put(value, element, out, encoding);
        }
    }
}

impl<T: Value> Field for Vec<T> {
    type Slot = Self;

    fn take(slot: &mut Self, element: u16, bytes: &[u8]) -> Result<(), Fault> {
        match T::read(bytes) {
            Ok(value) => slot.push(value),
            Err(Wrong::Content) => {}
            Err(wrong) => return Err(wrong.of(element)),
        }
        Ok(())
    }

    fn finish(slot: Self, _: u16) -> Result<Self, Fault> {
        Ok(slot)
    }

    fn put(&self, element: u16, out: &mut Vec<u8>, encoding: Encoding) {
        for value in self {
            put(value, element, out, encoding);
        }
    }
}

/// Appends type, length and value (TS 29.244 8.1.1). A length that does not fit makes the whole message too long,
/// which is found at its end.
fn put<T: Value>(value: &T, element: u16, out: &mut Vec<u8>, encoding: Encoding) {
    out.extend_from_slice(&element.to_be_bytes());
    out.extend_from_slice(&[0, 0]);
    let start = out.len();
    value.write(out, encoding);
    let length = (out.len() - start) as u16;
    out[start - 2..start].copy_from_slice(&length.to_be_bytes());
}

/// Takes the next element off the front of `rest`: its type and value.
pub(crate) fn next_element<'a>(rest: &mut &'a [u8]) -> Option<Result<(u16, &'a [u8]), Wrong>> {
    if rest.is_empty() {
        return None;
    }
    let Some((&[kind_high, kind_low, high, low], after)) = rest.split_first_chunk() else {
        return Some(Err(Wrong::Length));
    };
    let element = u16::from_be_bytes([kind_high, kind_low]);
    let Some((value, after)) = after.split_at_checked(usize::from(u16::from_be_bytes([high, low]))) else {
        return Some(Err(Wrong::Inside(Wrong::Length.of(element))));
    };
    *rest = after;
    Some(Ok((element, value)))
}

/// A struct of information elements: a grouped element, or a message's body. Each field names the type of its elements,
/// and they are written in the order they stand in.
macro_rules! group {
    ($($(#[$meta:meta])* $name:ident { $($(#[$field_meta:meta])* $element:ident $field:ident: $kind:ty,)* })*) => {$(
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name {
            $($(#[$field_meta])* pub $field: $kind,)*
        }

        impl crate::pfcp::codec::Value for $name {
            fn read(bytes: &[u8]) -> Result<Self, crate::pfcp::codec::Wrong> {
                #[allow(unused_imports, reason = "a group may be empty")]
                use crate::pfcp::codec::{Field, Wrong};
                let mut rest = bytes;
                $(let mut $field = <$kind as Field>::Slot::default();)*
                while let Some(element) = crate::pfcp::codec::next_element(&mut rest) {
                    let (element, _value) = element?;
                    match element {
                        $(crate::pfcp::elements::$element => {
                            <$kind as Field>::take(&mut $field, element, _value).map_err(Wrong::Inside)?;
                        })*
                        _ => {}
                    }
                }
                Ok(Self {
                    $($field: <$kind as Field>::finish($field, crate::pfcp::elements::$element).map_err(Wrong::Inside)?,)*
                })
            }

            fn write(&self, _out: &mut alloc::vec::Vec<u8>, _encoding: crate::pfcp::Encoding) {
                $(crate::pfcp::codec::Field::put(&self.$field, crate::pfcp::elements::$element, _out, _encoding);)*
            }
        }
    )*};
}
pub(crate) use group;

/// Takes fixed parts off the front of a value.
pub(crate) struct Parts<'a>(pub(crate) &'a [u8]);

impl Parts<'_> {
    pub(crate) fn take<const N: usize>(&mut self) -> Result<[u8; N], Wrong> {
        let (part, rest) = self.0.split_first_chunk().ok_or(Wrong::Length)?;
        self.0 = rest;
        Ok(*part)
    }

    pub(crate) fn octet(&mut self) -> Result<u8, Wrong> {
        Ok(self.take::<1>()?[0])
    }

    /// What `read` takes, if it is there.
    pub(crate) fn when<T>(
        &mut self,
        there: bool,
        read: impl FnOnce(&mut Self) -> Result<T, Wrong>,
    ) -> Result<Option<T>, Wrong> {
        there.then(|| read(self)).transpose()
    }
}
