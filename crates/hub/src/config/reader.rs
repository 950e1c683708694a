//! The values of a configuration, each read with its place.

use std::path::Path;

use jsonc_parser::ast::{Object, Value as Node};
use serde_json::{Map, Value};
use toolwire_contract::nearest_names;

use super::expand::{Unexpanded, expand};
use super::json::{kind_of, line_and_column, members, number, scalar, start};
use super::{Concern, ConfigError, Fault, Place, Warning};
use crate::Secret;

pub(super) struct Reader<'t> {
    pub(super) text: &'t str,
    pub(super) file: &'t Path,
    pub(super) variables: &'t dyn Fn(&str) -> Option<String>,
    /// While a disabled server is read, no variable is missed: it may be disabled because there is none.
    pub(super) disabled: bool,
    pub(super) warnings: Vec<Warning>,
}

/// A value's place, while it is read.
#[derive(Clone)]
pub(super) struct Spot<'s> {
    pub(super) server: Option<&'s str>,
    pub(super) key: String,
    pub(super) at: usize,
}

impl<'s> Spot<'s> {
    pub(super) fn member(&self, key: &str, at: usize) -> Spot<'s> {
        let key = if self.key.is_empty() { key.to_owned() } else { format!("{}.{key}", self.key) };
        Spot { server: self.server, key, at }
    }

    pub(super) fn item(&self, index: usize, at: usize) -> Spot<'s> {
        Spot { server: self.server, key: format!("{}[{index}]", self.key), at }
    }
}

impl<'t> Reader<'t> {
    /// Names with texts; a `null` is as if it were not there.
    pub(super) fn pairs(
        &mut self,
        spot: &Spot<'_>,
        node: &Node<'t>,
    ) -> Result<Vec<(String, Secret)>, ConfigError> {
        let mut pairs: Vec<(String, Secret)> = Vec::new();
        for (name, _, node) in members(self.object(spot, node)?) {
            let spot = spot.member(name, start(node));
            if matches!(node, Node::NullKeyword(_)) {
                continue;
            }
            if pairs.iter().any(|(earlier, _)| earlier == name) {
                self.warn(&spot, Concern::Twice);
                pairs.retain(|(earlier, _)| earlier != name);
            }
            pairs.push((name.to_owned(), Secret::new(self.text(&spot, node)?)));
        }
        Ok(pairs)
    }

    pub(super) fn texts(&mut self, spot: &Spot<'_>, node: &Node<'t>) -> Result<Vec<String>, ConfigError> {
        let Node::Array(list) = node else { return Err(self.wrong_type(spot, "a list of texts", node)) };
        let each = list.elements.iter().enumerate();
        each.map(|(index, node)| self.text(&spot.item(index, start(node)), node)).collect()
    }

    pub(super) fn filled(&mut self, spot: &Spot<'_>, node: &Node<'t>) -> Result<String, ConfigError> {
        let text = self.text(spot, node)?;
        if text.trim().is_empty() && !self.disabled {
            return Err(self.fault(spot, Fault::Empty));
        }
        Ok(text)
    }

    pub(super) fn text(&mut self, spot: &Spot<'_>, node: &Node<'t>) -> Result<String, ConfigError> {
        match (node, scalar(node)) {
            (Node::StringLit(_), Some(text)) => self.expand(spot, &text),
            (_, Some(text)) => Ok(text.into_owned()),
            (_, None) => Err(self.wrong_type(spot, "text", node)),
        }
    }

    pub(super) fn expand(&self, spot: &Spot<'_>, text: &str) -> Result<String, ConfigError> {
        let forgiving = |name: &str| Some((self.variables)(name).unwrap_or_default());
        let expanded = if self.disabled { expand(text, &forgiving) } else { expand(text, self.variables) };
        expanded.map_err(|unexpanded| {
            let fault = match unexpanded {
                Unexpanded::Missing { variable } => Fault::MissingVariable { variable },
                Unexpanded::NotClosed => Fault::VariableNotClosed,
                Unexpanded::TooDeep => Fault::VariablesTooDeep,
            };
            self.fault(spot, fault)
        })
    }

    pub(super) fn flag(&self, spot: &Spot<'_>, node: &Node<'t>) -> Result<bool, ConfigError> {
        match node {
            Node::BooleanLit(flag) => Ok(flag.value),
            _ => Err(self.wrong_type(spot, "true or false", node)),
        }
    }

    pub(super) fn object<'n>(
        &self,
        spot: &Spot<'_>,
        node: &'n Node<'t>,
    ) -> Result<&'n Object<'t>, ConfigError> {
        match node {
            Node::Object(object) => Ok(object),
            _ => Err(self.wrong_type(spot, "an object", node)),
        }
    }

    /// Any JSON, with the variables in its texts expanded.
    pub(super) fn value(&mut self, spot: &Spot<'_>, node: &Node<'t>) -> Result<Value, ConfigError> {
        Ok(match node {
            Node::NullKeyword(_) => Value::Null,
            Node::BooleanLit(flag) => Value::Bool(flag.value),
            Node::NumberLit(digits) => number(digits.value).ok_or_else(|| {
                self.fault(spot, Fault::Syntax { message: format!("`{}` is no number", digits.value) })
            })?,
            Node::StringLit(text) => Value::String(self.expand(spot, &text.value)?),
            Node::Array(list) => {
                let each = list.elements.iter().enumerate();
                let values: Result<Vec<Value>, ConfigError> =
                    each.map(|(index, node)| self.value(&spot.item(index, start(node)), node)).collect();
                Value::Array(values?)
            }
            Node::Object(object) => {
                let mut fields = Map::new();
                for (key, _, node) in members(object) {
                    let spot = spot.member(key, start(node));
                    let value = self.value(&spot, node)?;
                    if fields.insert(key.to_owned(), value).is_some() {
                        self.warn(&spot, Concern::Twice);
                    }
                }
                Value::Object(fields)
            }
        })
    }

    /// Warns of keys that have no meaning here, and of those that stand twice.
    pub(super) fn look_for_strangers(&mut self, spot: &Spot<'_>, object: &Object<'t>, known: &[&str]) {
        let mut seen: Vec<&str> = Vec::new();
        for (key, at, _) in members(object) {
            if !known.contains(&key) {
                let nearest = nearest_names(key, known.iter().copied()).first().map(ToString::to_string);
                let spot = Spot { at, ..spot.clone() };
                self.warn(&spot, Concern::UnknownKey { key: key.to_owned(), nearest });
            } else if seen.contains(&key) {
                self.warn(&spot.member(key, at), Concern::Twice);
            }
            seen.push(key);
        }
    }

    pub(super) fn warn(&mut self, spot: &Spot<'_>, concern: Concern) {
        let place = self.place(spot);
        self.warnings.push(Warning { place, concern });
    }

    pub(super) fn wrong_type(&self, spot: &Spot<'_>, expected: &'static str, node: &Node<'t>) -> ConfigError {
        self.fault(spot, Fault::WrongType { expected, found: kind_of(node) })
    }

    pub(super) fn fault(&self, spot: &Spot<'_>, fault: Fault) -> ConfigError {
        ConfigError { place: self.place(spot), fault }
    }

    pub(super) fn place(&self, spot: &Spot<'_>) -> Box<Place> {
        let (line, column) = line_and_column(self.text, spot.at);
        Box::new(Place {
            file: self.file.to_owned(),
            line,
            column,
            server: spot.server.map(str::to_owned),
            key: Some(spot.key.clone()).filter(|key| !key.is_empty()),
        })
    }
}

/// The value of a key with its place; the last one if it stands twice, and none if it is `null`.
pub(super) fn field<'s, 'n, 't>(
    spot: &Spot<'s>,
    object: &'n Object<'t>,
    key: &str,
) -> Option<(Spot<'s>, &'n Node<'t>)> {
    let (_, _, node) = members(object).filter(|(name, _, _)| *name == key).last()?;
    (!matches!(node, Node::NullKeyword(_))).then(|| (spot.member(key, start(node)), node))
}
