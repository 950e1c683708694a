//! Typed access to the values of a configuration; errors contain the position of the value.

use std::path::Path;

use jsonc_parser::ast::Value as Node;
use jsonc_parser::common::Ranged;
use serde_json::{Map, Value};
use toolwire_contract::nearest_names;

use super::expand::{ExpandError, expand};
use super::json::{line_and_column, node_kind, number, scalar};
use super::problem::{ConfigError, ConfigWarning, Location, Problem, WarningKind};
use crate::Secret;

pub(super) struct ConfigParser<'a> {
    pub(super) text: &'a str,
    pub(super) file: &'a Path,
    pub(super) variables: &'a dyn Fn(&str) -> Option<String>,
    /// Set while a disabled server is parsed. Its variables may be missing: that may be why it is disabled.
    pub(super) disabled: bool,
    pub(super) warnings: Vec<ConfigWarning>,
}

/// A value of the file.
pub(super) struct ConfigValue<'a> {
    pub(super) node: &'a Node<'a>,
    pub(super) at: Position<'a>,
}

/// The position of a value.
#[derive(Clone, Default)]
pub(super) struct Position<'a> {
    pub(super) server: Option<&'a str>,
    pub(super) key: String,
    /// In bytes.
    pub(super) offset: usize,
}

impl<'a> ConfigValue<'a> {
    pub(super) fn root(node: &'a Node<'a>) -> ConfigValue<'a> {
        ConfigValue { node, at: Position { offset: node.range().start, ..Position::default() } }
    }

    /// Returns the members of an object: key, offset of the key, value.
    pub(super) fn members(&self) -> impl Iterator<Item = (&'a str, usize, ConfigValue<'a>)> {
        let properties = self.node.as_object().map_or(&[][..], |object| &object.properties);
        properties.iter().map(|member| {
            let (key, node) = (member.name.as_str(), &member.value);
            (key, member.range.start, ConfigValue { node, at: self.at.member(key, node.range().start) })
        })
    }

    fn items(&self) -> Option<impl Iterator<Item = ConfigValue<'a>>> {
        let items = self.node.as_array()?.elements.iter().enumerate();
        Some(items.map(|(index, node)| {
            let key = format!("{}[{index}]", self.at.key);
            ConfigValue { node, at: Position { key, offset: node.range().start, ..self.at } }
        }))
    }

    /// Returns the value of a key: the last value of a duplicate key, `None` if it is `null`.
    pub(super) fn get(&self, key: &str) -> Option<ConfigValue<'a>> {
        let (_, _, value) = self.members().filter(|(name, _, _)| *name == key).last()?;
        (!matches!(value.node, Node::NullKeyword(_))).then_some(value)
    }
}

impl<'a> Position<'a> {
    pub(super) fn member(&self, key: &str, offset: usize) -> Position<'a> {
        let key = if self.key.is_empty() { key.to_owned() } else { format!("{}.{key}", self.key) };
        Position { server: self.server, key, offset }
    }
}

impl ConfigParser<'_> {
    /// Parses the value of a key, if it is set.
    pub(super) fn optional<'a, T>(
        &mut self,
        object: &ConfigValue<'a>,
        key: &str,
        parse: impl FnOnce(&mut Self, &ConfigValue<'a>) -> Result<T, ConfigError>,
    ) -> Result<Option<T>, ConfigError> {
        object.get(key).map(|value| parse(self, &value)).transpose()
    }

    /// Parses an object of strings; members that are `null` are skipped.
    pub(super) fn string_map(
        &mut self,
        value: &ConfigValue<'_>,
    ) -> Result<Vec<(String, Secret)>, ConfigError> {
        self.check_object(value)?;
        let mut pairs: Vec<(String, Secret)> = Vec::new();
        for (name, _, value) in value.members() {
            if matches!(value.node, Node::NullKeyword(_)) {
                continue;
            }
            if pairs.iter().any(|(earlier, _)| earlier == name) {
                self.warn(&value.at, WarningKind::DuplicateKey);
                pairs.retain(|(earlier, _)| earlier != name);
            }
            pairs.push((name.to_owned(), Secret::new(self.string(&value)?)));
        }
        Ok(pairs)
    }

    pub(super) fn strings(&mut self, value: &ConfigValue<'_>) -> Result<Vec<String>, ConfigError> {
        let items = value.items().ok_or_else(|| self.wrong_type(value, "an array of strings"))?;
        items.map(|item| self.string(&item)).collect()
    }

    pub(super) fn secret(&mut self, value: &ConfigValue<'_>) -> Result<Secret, ConfigError> {
        self.non_empty_string(value).map(Secret::new)
    }

    pub(super) fn non_empty_string(&mut self, value: &ConfigValue<'_>) -> Result<String, ConfigError> {
        let text = self.string(value)?;
        if text.trim().is_empty() && !self.disabled {
            return Err(self.error(&value.at, Problem::Empty));
        }
        Ok(text)
    }

    /// Accepts numbers and booleans too.
    pub(super) fn string(&mut self, value: &ConfigValue<'_>) -> Result<String, ConfigError> {
        match (value.node, scalar(value.node)) {
            (Node::StringLit(_), Some(text)) => self.expand(value, &text),
            (_, Some(text)) => Ok(text.into_owned()),
            (_, None) => Err(self.wrong_type(value, "a string")),
        }
    }

    fn expand(&self, value: &ConfigValue<'_>, text: &str) -> Result<String, ConfigError> {
        let empty_if_missing = |name: &str| Some((self.variables)(name).unwrap_or_default());
        let expanded =
            if self.disabled { expand(text, &empty_if_missing) } else { expand(text, self.variables) };
        expanded.map_err(|error| {
            let problem = match error {
                ExpandError::Missing { variable } => Problem::MissingVariable { variable },
                ExpandError::NotClosed => Problem::VariableNotClosed,
                ExpandError::TooDeep => Problem::VariablesTooDeep,
            };
            self.error(&value.at, problem)
        })
    }

    pub(super) fn boolean(&mut self, value: &ConfigValue<'_>) -> Result<bool, ConfigError> {
        match value.node {
            Node::BooleanLit(flag) => Ok(flag.value),
            _ => Err(self.wrong_type(value, "a boolean")),
        }
    }

    /// Parses any JSON value and expands the variables in its strings.
    pub(super) fn json(&mut self, value: &ConfigValue<'_>) -> Result<Value, ConfigError> {
        Ok(match value.node {
            Node::NullKeyword(_) => Value::Null,
            Node::BooleanLit(flag) => Value::Bool(flag.value),
            Node::NumberLit(digits) => number(digits.value).ok_or_else(|| {
                let message = format!("`{}` is not a number", digits.value);
                self.error(&value.at, Problem::Syntax { message })
            })?,
            Node::StringLit(text) => Value::String(self.expand(value, &text.value)?),
            Node::Array(_) => {
                let items = value.items().into_iter().flatten();
                Value::Array(items.map(|item| self.json(&item)).collect::<Result<_, _>>()?)
            }
            Node::Object(_) => {
                let mut fields = Map::new();
                for (key, _, value) in value.members() {
                    if fields.insert(key.to_owned(), self.json(&value)?).is_some() {
                        self.warn(&value.at, WarningKind::DuplicateKey);
                    }
                }
                Value::Object(fields)
            }
        })
    }

    pub(super) fn check_object(&self, value: &ConfigValue<'_>) -> Result<(), ConfigError> {
        match value.node {
            Node::Object(_) => Ok(()),
            _ => Err(self.wrong_type(value, "an object")),
        }
    }

    /// Requires an object and warns about unknown and duplicate keys.
    pub(super) fn check_keys(
        &mut self,
        value: &ConfigValue<'_>,
        known: &[&'static str],
    ) -> Result<(), ConfigError> {
        self.check_object(value)?;
        let mut seen: Vec<&str> = Vec::new();
        for (key, offset, _) in value.members() {
            if !known.contains(&key) {
                let similar_key = nearest_names(key, known.iter().copied()).first().copied();
                let at = Position { offset, ..value.at.clone() };
                self.warn(&at, WarningKind::UnknownKey { key: key.to_owned(), similar_key });
            } else if seen.contains(&key) {
                self.warn(&value.at.member(key, offset), WarningKind::DuplicateKey);
            }
            seen.push(key);
        }
        Ok(())
    }

    pub(super) fn warn(&mut self, at: &Position<'_>, kind: WarningKind) {
        let location = self.location(at);
        self.warnings.push(ConfigWarning { location, kind });
    }

    pub(super) fn wrong_type(&self, value: &ConfigValue<'_>, expected: &'static str) -> ConfigError {
        self.error(&value.at, Problem::WrongType { expected, found: node_kind(value.node) })
    }

    pub(super) fn error(&self, at: &Position<'_>, problem: Problem) -> ConfigError {
        ConfigError { location: self.location(at), problem }
    }

    fn location(&self, at: &Position<'_>) -> Box<Location> {
        let (line, column) = line_and_column(self.text, at.offset);
        Box::new(Location {
            file: self.file.to_owned(),
            line,
            column,
            server: at.server.map(str::to_owned),
            key: Some(at.key.clone()).filter(|key| !key.is_empty()),
        })
    }
}
