//! Typed access to the values of a configuration; errors contain the position of the value.

use std::path::Path;

use jsonc_parser::ast::{Object, Value as Node};
use serde_json::{Map, Value};
use toolwire_contract::nearest_names;

use super::expand::{ExpandError, expand};
use super::json::{line_and_column, members, node_kind, number, offset, scalar};
use super::problem::{ConfigError, ConfigWarning, Location, Problem, WarningKind};
use crate::Secret;

pub(super) struct ConfigParser<'t> {
    pub(super) text: &'t str,
    pub(super) file: &'t Path,
    pub(super) variables: &'t dyn Fn(&str) -> Option<String>,
    /// Set while a disabled server is parsed. Its variables may be missing: that may be why it is disabled.
    pub(super) disabled: bool,
    pub(super) warnings: Vec<ConfigWarning>,
}

/// The position of a value while it is parsed.
#[derive(Clone)]
pub(super) struct Position<'s> {
    pub(super) server: Option<&'s str>,
    pub(super) key: String,
    /// In bytes.
    pub(super) offset: usize,
}

impl<'s> Position<'s> {
    pub(super) fn member(&self, key: &str, offset: usize) -> Position<'s> {
        let key = if self.key.is_empty() { key.to_owned() } else { format!("{}.{key}", self.key) };
        Position { server: self.server, key, offset }
    }

    pub(super) fn item(&self, index: usize, offset: usize) -> Position<'s> {
        Position { server: self.server, key: format!("{}[{index}]", self.key), offset }
    }
}

impl<'t> ConfigParser<'t> {
    /// Parses an object of strings; members that are `null` are skipped.
    pub(super) fn string_map(
        &mut self,
        position: &Position<'_>,
        node: &Node<'t>,
    ) -> Result<Vec<(String, Secret)>, ConfigError> {
        let mut pairs: Vec<(String, Secret)> = Vec::new();
        for (name, _, node) in members(self.object(position, node)?) {
            let position = position.member(name, offset(node));
            if matches!(node, Node::NullKeyword(_)) {
                continue;
            }
            if pairs.iter().any(|(earlier, _)| earlier == name) {
                self.warn(&position, WarningKind::DuplicateKey);
                pairs.retain(|(earlier, _)| earlier != name);
            }
            pairs.push((name.to_owned(), Secret::new(self.string(&position, node)?)));
        }
        Ok(pairs)
    }

    pub(super) fn strings(
        &mut self,
        position: &Position<'_>,
        node: &Node<'t>,
    ) -> Result<Vec<String>, ConfigError> {
        let Node::Array(array) = node else {
            return Err(self.wrong_type(position, "an array of strings", node));
        };
        let items = array.elements.iter().enumerate();
        items.map(|(index, node)| self.string(&position.item(index, offset(node)), node)).collect()
    }

    pub(super) fn non_empty_string(
        &mut self,
        position: &Position<'_>,
        node: &Node<'t>,
    ) -> Result<String, ConfigError> {
        let text = self.string(position, node)?;
        if text.trim().is_empty() && !self.disabled {
            return Err(self.error(position, Problem::Empty));
        }
        Ok(text)
    }

    /// Accepts numbers and booleans too.
    pub(super) fn string(&mut self, position: &Position<'_>, node: &Node<'t>) -> Result<String, ConfigError> {
        match (node, scalar(node)) {
            (Node::StringLit(_), Some(text)) => self.expand(position, &text),
            (_, Some(text)) => Ok(text.into_owned()),
            (_, None) => Err(self.wrong_type(position, "a string", node)),
        }
    }

    fn expand(&self, position: &Position<'_>, text: &str) -> Result<String, ConfigError> {
        let empty_if_missing = |name: &str| Some((self.variables)(name).unwrap_or_default());
        let expanded =
            if self.disabled { expand(text, &empty_if_missing) } else { expand(text, self.variables) };
        expanded.map_err(|error| {
            let problem = match error {
                ExpandError::Missing { variable } => Problem::MissingVariable { variable },
                ExpandError::NotClosed => Problem::VariableNotClosed,
                ExpandError::TooDeep => Problem::VariablesTooDeep,
            };
            self.error(position, problem)
        })
    }

    pub(super) fn boolean(&self, position: &Position<'_>, node: &Node<'t>) -> Result<bool, ConfigError> {
        match node {
            Node::BooleanLit(flag) => Ok(flag.value),
            _ => Err(self.wrong_type(position, "a boolean", node)),
        }
    }

    pub(super) fn object<'n>(
        &self,
        position: &Position<'_>,
        node: &'n Node<'t>,
    ) -> Result<&'n Object<'t>, ConfigError> {
        match node {
            Node::Object(object) => Ok(object),
            _ => Err(self.wrong_type(position, "an object", node)),
        }
    }

    /// Parses any JSON value and expands the variables in its strings.
    pub(super) fn value(&mut self, position: &Position<'_>, node: &Node<'t>) -> Result<Value, ConfigError> {
        Ok(match node {
            Node::NullKeyword(_) => Value::Null,
            Node::BooleanLit(flag) => Value::Bool(flag.value),
            Node::NumberLit(digits) => number(digits.value).ok_or_else(|| {
                let message = format!("`{}` is not a number", digits.value);
                self.error(position, Problem::Syntax { message })
            })?,
            Node::StringLit(text) => Value::String(self.expand(position, &text.value)?),
            Node::Array(array) => {
                let items = array.elements.iter().enumerate();
                let values: Result<Vec<Value>, ConfigError> = items
                    .map(|(index, node)| self.value(&position.item(index, offset(node)), node))
                    .collect();
                Value::Array(values?)
            }
            Node::Object(object) => {
                let mut fields = Map::new();
                for (key, _, node) in members(object) {
                    let position = position.member(key, offset(node));
                    let value = self.value(&position, node)?;
                    if fields.insert(key.to_owned(), value).is_some() {
                        self.warn(&position, WarningKind::DuplicateKey);
                    }
                }
                Value::Object(fields)
            }
        })
    }

    /// Warns about unknown and duplicate keys.
    pub(super) fn check_keys(
        &mut self,
        position: &Position<'_>,
        object: &Object<'t>,
        known: &[&'static str],
    ) {
        let mut seen: Vec<&str> = Vec::new();
        for (key, offset, _) in members(object) {
            if !known.contains(&key) {
                let similar_key = nearest_names(key, known.iter().copied()).first().copied();
                let position = Position { offset, ..position.clone() };
                self.warn(&position, WarningKind::UnknownKey { key: key.to_owned(), similar_key });
            } else if seen.contains(&key) {
                self.warn(&position.member(key, offset), WarningKind::DuplicateKey);
            }
            seen.push(key);
        }
    }

    pub(super) fn warn(&mut self, position: &Position<'_>, kind: WarningKind) {
        let location = self.location(position);
        self.warnings.push(ConfigWarning { location, kind });
    }

    pub(super) fn wrong_type(
        &self,
        position: &Position<'_>,
        expected: &'static str,
        node: &Node<'t>,
    ) -> ConfigError {
        self.error(position, Problem::WrongType { expected, found: node_kind(node) })
    }

    pub(super) fn error(&self, position: &Position<'_>, problem: Problem) -> ConfigError {
        ConfigError { location: self.location(position), problem }
    }

    fn location(&self, position: &Position<'_>) -> Box<Location> {
        let (line, column) = line_and_column(self.text, position.offset);
        Box::new(Location {
            file: self.file.to_owned(),
            line,
            column,
            server: position.server.map(str::to_owned),
            key: Some(position.key.clone()).filter(|key| !key.is_empty()),
        })
    }
}

/// Returns the value of a key with its position: the last value of a duplicate key, `None` if it is `null`.
pub(super) fn field<'s, 'n, 't>(
    position: &Position<'s>,
    object: &'n Object<'t>,
    key: &str,
) -> Option<(Position<'s>, &'n Node<'t>)> {
    let (_, _, node) = members(object).filter(|(name, _, _)| *name == key).last()?;
    (!matches!(node, Node::NullKeyword(_))).then(|| (position.member(key, offset(node)), node))
}
