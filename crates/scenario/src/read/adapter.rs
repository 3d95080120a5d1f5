//! The configuration of a narrowband adapter: a file of its own for `narrows adapter`, a mapping in a
//! scenario.

use std::path::Path;

use adapter::{AdapterConfig, ConfigError};

use crate::read::fields;
use crate::read::file::{self, FileError};
use crate::read::problem::{At, Noted, Notes, Problem, ScenarioError};
use crate::read::typed;
use crate::read::yaml::{self, Node, Value};

/// Reads an adapter's configuration file.
///
/// # Errors
///
/// What is wrong, with its place and what to do.
pub fn adapter_config(path: &Path) -> Result<AdapterConfig, ScenarioError> {
    let shown = path.display().to_string();
    match file::read_text(path, file::LONGEST_SCENARIO) {
        Ok(text) => parse_adapter_config(&shown, &text),
        Err(error) => {
            let remedy = match &error {
                FileError::Read(_) => "give the path of an adapter's configuration",
                FileError::TooLong(_) | FileError::NotText => {
                    "an adapter's configuration is a short YAML text: is this the right file?"
                }
            };
            let notes = Notes::default();
            notes.note(Problem::new(None, format!("cannot read `{shown}`: {error}")).remedy(remedy));
            Err(notes.into_error())
        }
    }
}

/// As [`adapter_config`], of a text that is already read; `name` stands for it in messages.
///
/// # Errors
///
/// As [`adapter_config`].
pub fn parse_adapter_config(name: &str, text: &str) -> Result<AdapterConfig, ScenarioError> {
    let notes = Notes::default();
    let source = notes.source(name, text);
    match yaml::parse(&notes, source, text).and_then(|root| decode(&notes, &root)) {
        Ok(config) if notes.is_empty() => Ok(config),
        _ => Err(notes.into_error()),
    }
}

/// An adapter's configuration from the tree.
pub(crate) fn decode(notes: &Notes, node: &Node) -> Result<AdapterConfig, Noted> {
    let config: AdapterConfig = typed::read(notes, node, "an adapter's configuration")?;
    config.validate().map_err(|error| fields::refuse(notes, place(node, &error), &error))?;
    Ok(config)
}

/// Where the value stands that is refused, as far as it is written there.
fn place(node: &Node, error: &ConfigError) -> At {
    let (path, item) = match error {
        ConfigError::Invalid { field, .. } => (*field, None),
        ConfigError::Queue(_) => ("queues.discipline", None),
        ConfigError::Rule { number, .. } => ("rules", number.checked_sub(1)),
    };
    let mut found = node;
    for key in path.split('.') {
        let Some(entry) = found.entry(key) else { return found.at };
        found = &entry.node;
    }
    match (&found.value, item) {
        (Value::List(items), Some(item)) => items.get(item).map_or(found.at, |item| item.at),
        _ => found.at,
    }
}
