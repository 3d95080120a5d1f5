//! From the tree to any type that says itself how it is read (serde): for configurations whose keys
//! belong to another crate. Errors keep their place.

use std::fmt::{self, Display};

use serde::de::Error as _;
use serde::de::value::StrDeserializer;
use serde::de::{
    self, DeserializeOwned, DeserializeSeed, EnumAccess, IntoDeserializer, MapAccess, SeqAccess, VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;

use crate::read::fields;
use crate::read::pipe::PROTOCOLS;
use crate::read::problem::{At, Noted, Notes, Problem};
use crate::read::yaml::{Entry, Node, Value};

/// Reads `node` as a `T`; `what` is what messages call it. As everywhere, a key with nothing after it
/// is as if it were not there; `none` stands for what is switched off.
pub(crate) fn read<T: DeserializeOwned>(notes: &Notes, node: &Node, what: &str) -> Result<T, Noted> {
    T::deserialize(Tree { node, kind: None }).map_err(|slip| slip.note(notes, node.at, what))
}

/// What is wrong, and where once that is known.
#[derive(Debug)]
struct Slip {
    at: Option<At>,
    wrong: Wrong,
}

#[derive(Debug)]
enum Wrong {
    Said(String),
    Key(String, &'static [&'static str]),
    Choice(String, &'static [&'static str]),
    Missing(&'static str),
}

impl Slip {
    fn at(mut self, at: At) -> Self {
        self.at.get_or_insert(at);
        self
    }

    fn note(self, notes: &Notes, whole: At, what: &str) -> Noted {
        let at = self.at.unwrap_or(whole);
        match self.wrong {
            Wrong::Key(key, valid) => {
                fields::unknown(notes, at, "key", &key, valid.iter().copied(), &format!(" in {what}"))
            }
            Wrong::Choice(text, valid) => fields::unknown(notes, at, "value", &text, valid.iter().copied(), ""),
            Wrong::Missing(key) => {
                let problem = Problem::new(at, format!("`{key}` is missing here"));
                notes.note(problem.remedy(format!("write `{key}: …`")))
            }
            Wrong::Said(text) => fields::refuse(notes, at, &text),
        }
    }
}

impl de::Error for Slip {
    fn custom<T: Display>(message: T) -> Self {
        Self { at: None, wrong: Wrong::Said(message.to_string()) }
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        Self { at: None, wrong: Wrong::Key(field.to_owned(), expected) }
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        Self { at: None, wrong: Wrong::Choice(variant.to_owned(), expected) }
    }

    fn missing_field(field: &'static str) -> Self {
        Self { at: None, wrong: Wrong::Missing(field) }
    }
}

impl Display for Slip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.wrong)
    }
}

impl std::error::Error for Slip {}

/// A value of the tree.
#[derive(Clone, Copy)]
struct Tree<'a> {
    node: &'a Node,
    /// The structure it belongs to and its key there.
    kind: Option<(&'static str, &'a str)>,
}

impl<'a> Tree<'a> {
    fn text(self) -> Result<&'a str, Slip> {
        match &self.node.value {
            Value::Scalar(text) => Ok(text),
            _ => Err(self.said(format!("a single value is wanted here, not {}", self.node.kind()))),
        }
    }

    fn said(self, message: impl Into<String>) -> Slip {
        Slip { at: Some(self.node.at), wrong: Wrong::Said(message.into()) }
    }

    fn integer(self) -> Result<u64, Slip> {
        let text = self.text()?;
        let named = PROTOCOLS.iter().find(|(name, _)| *name == text).filter(|_| self.kind == Some(PROTOCOL));
        match (text.parse(), named) {
            (Ok(number), _) => Ok(number),
            (Err(_), Some((_, number))) => Ok(u64::from(*number)),
            _ => Err(self.said(match self.kind {
                Some(PROTOCOL) => {
                    let names: Vec<_> = PROTOCOLS.iter().map(|(name, _)| format!("`{name}`")).collect();
                    format!("`{text}` is not a protocol; write its number or one of {}", names.join(", "))
                }
                _ => format!("`{text}` is not a whole number; write digits alone"),
            })),
        }
    }

    /// One that its type has room for.
    fn integer_to(self, most: u64) -> Result<u64, Slip> {
        match self.integer()? {
            number if number <= most => Ok(number),
            number => Err(self.said(format!("{number} is more than is possible here; write at most {most}"))),
        }
    }
}

/// Where a protocol may be named.
const PROTOCOL: (&str, &str) = ("Selector", "protocol");

macro_rules! integers {
    ($($method:ident: $type:ty),*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Slip> {
            visitor.visit_u64(self.integer_to(<$type>::MAX.into())?).map_err(|slip: Slip| slip.at(self.node.at))
        }
    )*};
}

impl<'de> de::Deserializer<'de> for Tree<'_> {
    type Error = Slip;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Slip> {
        let done = match &self.node.value {
            Value::Null => visitor.visit_unit(),
            Value::Scalar(text) => visitor.visit_str(text),
            Value::List(items) => visitor.visit_seq(Items(items.iter())),
            Value::Map(entries) => visitor.visit_map(Keys::new(entries, "")),
        };
        done.map_err(|slip| slip.at(self.node.at))
    }

    integers! { deserialize_u8: u8, deserialize_u16: u16, deserialize_u32: u32, deserialize_u64: u64 }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Slip> {
        match self.text()? {
            "true" => visitor.visit_bool(true),
            "false" => visitor.visit_bool(false),
            other => Err(Slip::unknown_variant(other, &["true", "false"]).at(self.node.at)),
        }
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Slip> {
        let text = self.text()?;
        let number = fields::decimal(text).ok_or_else(|| self.said(format!("`{text}` is not a number")))?;
        visitor.visit_f64(number).map_err(|slip: Slip| slip.at(self.node.at))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Slip> {
        match &self.node.value {
            Value::Scalar(text) if text == "none" => visitor.visit_none(),
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Slip> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Slip> {
        let done = match &self.node.value {
            Value::Map(entries) => visitor.visit_map(Keys::new(entries, name)),
            // An address prefix is written as one.
            Value::Scalar(text) if name == "Network" => visitor.visit_map(Network::new(text)),
            _ => Err(self.said(format!("a mapping of keys to values is wanted here, not {}", self.node.kind()))),
        };
        done.map_err(|slip| slip.at(self.node.at))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Slip> {
        let done = match &self.node.value {
            Value::Scalar(text) => visitor.visit_enum(Kind { name: text, at: self.node.at, value: None }),
            Value::Map(entries) if entries.len() == 1 => {
                let Entry { key, key_at, node } = &entries[0];
                visitor.visit_enum(Kind { name: key, at: *key_at, value: Some(node) })
            }
            _ => Err(self.said("one word, or a mapping with one key that says the kind, is wanted here")),
        };
        done.map_err(|slip| slip.at(self.node.at))
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u128 f32 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map
        identifier ignored_any
    }
}

struct Items<'a>(std::slice::Iter<'a, Node>);

impl<'de> SeqAccess<'de> for Items<'_> {
    type Error = Slip;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Slip> {
        self.0.next().map(|node| seed.deserialize(Tree { node, kind: None })).transpose()
    }
}

struct Keys<'a> {
    entries: std::slice::Iter<'a, Entry>,
    of: &'static str,
    value: Option<&'a Entry>,
}

impl<'a> Keys<'a> {
    fn new(entries: &'a [Entry], of: &'static str) -> Self {
        Self { entries: entries.iter(), of, value: None }
    }
}

impl<'de> MapAccess<'de> for Keys<'_> {
    type Error = Slip;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Slip> {
        let Some(entry) = self.entries.by_ref().find(|entry| !matches!(entry.node.value, Value::Null)) else {
            return Ok(None);
        };
        self.value = Some(entry);
        let key: StrDeserializer<'_, Slip> = entry.key.as_str().into_deserializer();
        seed.deserialize(key).map(Some).map_err(|slip| slip.at(entry.key_at))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Slip> {
        let Some(entry) = self.value.take() else { return Err(de::Error::custom("a value without a key")) };
        let tree = Tree { node: &entry.node, kind: Some((self.of, &entry.key)) };
        seed.deserialize(tree).map_err(|slip| slip.at(entry.node.at))
    }
}

/// `10.0.0.0/8`, or an address by itself, as the two fields of a network.
struct Network<'a> {
    fields: std::vec::IntoIter<(&'static str, &'a str)>,
    value: &'a str,
}

impl<'a> Network<'a> {
    fn new(text: &'a str) -> Self {
        let (address, prefix) = text.split_once('/').unwrap_or((text, if text.contains(':') { "128" } else { "32" }));
        Self { fields: vec![("address", address), ("prefix", prefix)].into_iter(), value: "" }
    }
}

impl<'de> MapAccess<'de> for Network<'_> {
    type Error = Slip;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Slip> {
        let Some((key, value)) = self.fields.next() else { return Ok(None) };
        self.value = value;
        let key: StrDeserializer<'_, Slip> = key.into_deserializer();
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Slip> {
        match self.value.parse::<u8>() {
            Ok(number) => seed.deserialize(number.into_deserializer()),
            Err(_) => {
                let text: StrDeserializer<'_, Slip> = self.value.into_deserializer();
                seed.deserialize(text)
            }
        }
    }
}

struct Kind<'a> {
    name: &'a str,
    at: At,
    value: Option<&'a Node>,
}

impl<'a, 'de> EnumAccess<'de> for Kind<'a> {
    type Error = Slip;
    type Variant = Content<'a>;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Content<'a>), Slip> {
        let name: StrDeserializer<'_, Slip> = self.name.into_deserializer();
        let kind = seed.deserialize(name).map_err(|slip| slip.at(self.at))?;
        Ok((kind, Content { name: self.name, value: self.value }))
    }
}

/// What is written after the key that says the kind.
struct Content<'a> {
    name: &'a str,
    value: Option<&'a Node>,
}

impl<'a> Content<'a> {
    fn tree(&self) -> Result<Tree<'a>, Slip> {
        let missing = || de::Error::custom(format!("`{0}` needs more; write `{{{0}: …}}`", self.name));
        self.value.map(|node| Tree { node, kind: None }).ok_or_else(missing)
    }
}

impl<'de> VariantAccess<'de> for Content<'_> {
    type Error = Slip;

    fn unit_variant(self) -> Result<(), Slip> {
        match self.value {
            None => Ok(()),
            Some(node) => Err(Slip { at: Some(node.at), wrong: Wrong::Said(format!("`{}` takes nothing", self.name)) }),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Slip> {
        seed.deserialize(self.tree()?)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Slip> {
        de::Deserializer::deserialize_any(self.tree()?, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(self, fields: &'static [&'static str], visitor: V) -> Result<V::Value, Slip> {
        de::Deserializer::deserialize_struct(self.tree()?, "", fields, visitor)
    }
}
