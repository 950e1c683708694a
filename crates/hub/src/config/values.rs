//! Typed access to the values of a configuration; errors contain the position of the value.

use std::path::{MAIN_SEPARATOR, Path};

use jsonc_parser::ast::Value as Node;
use jsonc_parser::common::Ranged;
use serde_json::{Map, Value};
use toolwire_contract::text::nearest_names;

use super::expand::{ExpandError, expand};
use super::formats::Positions;
use super::hosts::{
    DisabledNames, input_variable, is_host_key, is_only_for_mcp, is_spelling_of, workspace_folder,
};
use super::json::{line_and_column, node_kind, number, scalar};
use super::problem::{ConfigProblem, ConfigWarning, Location, Problem, WarningKind};
use crate::Secret;

pub(super) struct ConfigParser<'a> {
    pub(super) text: &'a str,
    pub(super) file: &'a Path,
    pub(super) positions: Positions,
    pub(super) variables: &'a dyn Fn(&str) -> Option<String>,
    /// The defaults of VS Code's inputs, by their ids.
    pub(super) input_defaults: Vec<(String, String)>,
    /// The servers that are disabled outside their own entries.
    pub(super) disabled_names: DisabledNames,
    /// Set while a disabled server is parsed. Its variables may be missing: that may be why it is disabled.
    pub(super) disabled: bool,
    pub(super) warnings: Vec<ConfigWarning>,
    pub(super) problems: Vec<ConfigProblem>,
}

/// A value of the file.
#[derive(Clone)]
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

    pub(super) fn items(&self) -> Option<impl Iterator<Item = ConfigValue<'a>>> {
        let items = self.node.as_array()?.elements.iter().enumerate();
        Some(items.map(|(index, node)| {
            let key = format!("{}[{index}]", self.at.key);
            ConfigValue { node, at: Position { key, offset: node.range().start, ..self.at } }
        }))
    }

    /// Returns the value of a key, or of a key of another host with the same meaning: the last value of a
    /// duplicate key, `None` if it is `null`.
    pub(super) fn get(&self, key: &str) -> Option<ConfigValue<'a>> {
        let (_, _, value) = self.members().filter(|(name, _, _)| is_spelling_of(name, key)).last()?;
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
    /// Parses the value of a key, if it is set. A problem is recorded, so that all are reported together.
    pub(super) fn optional<'a, T>(
        &mut self,
        object: &ConfigValue<'a>,
        key: &str,
        parse: impl FnOnce(&mut Self, &ConfigValue<'a>) -> Result<T, ConfigProblem>,
    ) -> Option<T> {
        let parsed = parse(self, &object.get(key)?);
        self.record(parsed)
    }

    pub(super) fn record<T>(&mut self, parsed: Result<T, ConfigProblem>) -> Option<T> {
        parsed.map_err(|problem| self.problems.push(problem)).ok()
    }

    /// Parses an object of strings; members that are `null` are skipped.
    pub(super) fn string_map(
        &mut self,
        value: &ConfigValue<'_>,
    ) -> Result<Vec<(String, Secret)>, ConfigProblem> {
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
            let text = self.string(&value);
            pairs.extend(self.record(text).map(|text| (name.to_owned(), Secret::new(text))));
        }
        Ok(pairs)
    }

    pub(super) fn strings(&mut self, value: &ConfigValue<'_>) -> Result<Vec<String>, ConfigProblem> {
        let items = value.items().ok_or_else(|| self.wrong_type(value, "an array of strings"))?;
        Ok(self.all_strings(items))
    }

    pub(super) fn all_strings<'a>(&mut self, items: impl Iterator<Item = ConfigValue<'a>>) -> Vec<String> {
        let texts = items.filter_map(|item| {
            let text = self.string(&item);
            self.record(text)
        });
        texts.collect()
    }

    pub(super) fn secret(&mut self, value: &ConfigValue<'_>) -> Result<Secret, ConfigProblem> {
        self.non_empty_string(value).map(Secret::new)
    }

    pub(super) fn non_empty_string(&mut self, value: &ConfigValue<'_>) -> Result<String, ConfigProblem> {
        let text = self.string(value)?;
        if text.trim().is_empty() && !self.disabled {
            return Err(self.error(&value.at, Problem::Empty));
        }
        Ok(text)
    }

    /// Accepts numbers and booleans too.
    pub(super) fn string(&mut self, value: &ConfigValue<'_>) -> Result<String, ConfigProblem> {
        match (value.node, scalar(value.node)) {
            (Node::StringLit(_), Some(text)) => self.expand(value, &text),
            (_, Some(text)) => Ok(text.into_owned()),
            (_, None) => Err(self.wrong_type(value, "a string")),
        }
    }

    fn expand(&self, value: &ConfigValue<'_>, text: &str) -> Result<String, ConfigProblem> {
        let variable = |name: &str| self.variable(name).or_else(|| self.disabled.then(String::new));
        expand(text, &variable).map_err(|error| {
            let problem = match error {
                ExpandError::Missing { variable } => missing_variable(variable),
                ExpandError::NotClosed => Problem::VariableNotClosed,
                ExpandError::TooDeep => Problem::VariablesTooDeep,
            };
            self.error(&value.at, problem)
        })
    }

    /// Returns the value of a variable: of the environment, or one of those that VS Code defines.
    pub(super) fn variable(&self, name: &str) -> Option<String> {
        if let Some(id) = name.strip_prefix("input:") {
            let default = || self.input_defaults.iter().find(|(input, _)| input == id);
            return (self.variables)(&input_variable(id)).or_else(|| Some(default()?.1.clone()));
        }
        let folder = || workspace_folder(self.file);
        let defined = match name {
            "userHome" => (self.variables)(if cfg!(windows) { "USERPROFILE" } else { "HOME" }),
            "workspaceFolder" => folder().map(|folder| folder.to_string_lossy().into_owned()),
            "workspaceFolderBasename" => {
                folder().and_then(|folder| Some(folder.file_name()?.to_string_lossy().into_owned()))
            }
            "pathSeparator" | "/" => Some(MAIN_SEPARATOR.to_string()),
            _ => None,
        };
        defined.or_else(|| (self.variables)(name))
    }

    pub(super) fn boolean(&mut self, value: &ConfigValue<'_>) -> Result<bool, ConfigProblem> {
        match value.node {
            Node::BooleanLit(flag) => Ok(flag.value),
            _ => Err(self.wrong_type(value, "a boolean")),
        }
    }

    /// Parses any JSON value and expands the variables in its strings.
    pub(super) fn json(&mut self, value: &ConfigValue<'_>) -> Result<Value, ConfigProblem> {
        self.json_with(value, Self::expand)
    }

    /// Parses any JSON value. In its strings, only the inputs that have a default are replaced.
    pub(super) fn raw_json(&mut self, value: &ConfigValue<'_>) -> Result<Value, ConfigProblem> {
        self.json_with(value, |parser, _, text| {
            Ok(parser.input_defaults.iter().fold(text.to_owned(), |text, (id, default)| {
                text.replace(&format!("${{input:{id}}}"), &default.replace("${", "$${"))
            }))
        })
    }

    fn json_with(
        &mut self,
        value: &ConfigValue<'_>,
        expand: fn(&Self, &ConfigValue<'_>, &str) -> Result<String, ConfigProblem>,
    ) -> Result<Value, ConfigProblem> {
        Ok(match value.node {
            Node::NullKeyword(_) => Value::Null,
            Node::BooleanLit(flag) => Value::Bool(flag.value),
            Node::NumberLit(digits) => number(digits.value).ok_or_else(|| {
                let message = format!("`{}` is not a number", digits.value);
                self.error(&value.at, Problem::Syntax { message })
            })?,
            Node::StringLit(text) => {
                let text = expand(self, value, &text.value);
                Value::String(self.record(text).unwrap_or_default())
            }
            Node::Array(_) => {
                let items = value.items().into_iter().flatten();
                Value::Array(items.map(|item| self.json_with(&item, expand)).collect::<Result<_, _>>()?)
            }
            Node::Object(_) => {
                let mut fields = Map::new();
                for (key, _, value) in value.members() {
                    if fields.insert(key.to_owned(), self.json_with(&value, expand)?).is_some() {
                        self.warn(&value.at, WarningKind::DuplicateKey);
                    }
                }
                Value::Object(fields)
            }
        })
    }

    pub(super) fn check_object(&self, value: &ConfigValue<'_>) -> Result<(), ConfigProblem> {
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
    ) -> Result<(), ConfigProblem> {
        self.check_object(value)?;
        let mut seen: Vec<&str> = Vec::new();
        for (key, offset, _) in value.members() {
            if !known.contains(&key) {
                if value.at.server.is_some() && value.at.key.is_empty() && is_host_key(key) {
                    continue;
                }
                let similar_key = nearest_names(key, known.iter().copied()).first().copied();
                let is_top = value.at.server.is_none() && value.at.key.is_empty();
                if is_top && similar_key.is_none() && !is_only_for_mcp(self.file) {
                    continue;
                }
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

    pub(super) fn wrong_type(&self, value: &ConfigValue<'_>, expected: &'static str) -> ConfigProblem {
        self.error(&value.at, Problem::WrongType { expected, found: node_kind(value.node) })
    }

    pub(super) fn error(&self, at: &Position<'_>, problem: Problem) -> ConfigProblem {
        ConfigProblem { location: self.location(at), problem }
    }

    fn location(&self, at: &Position<'_>) -> Box<Location> {
        let line_and_column = match &self.positions {
            Positions::OfFile => Some(line_and_column(self.text, at.offset)),
            Positions::Mapped(map) => map.line_and_column(at.offset),
            Positions::Unknown => None,
        };
        Box::new(Location {
            file: self.file.to_owned(),
            line_and_column,
            server: at.server.map(str::to_owned),
            key: Some(at.key.clone()).filter(|key| !key.is_empty()),
        })
    }
}

fn missing_variable(variable: String) -> Problem {
    match variable.split_once(':') {
        Some(("input", id)) => Problem::MissingInput { id: id.to_owned() },
        Some(_) => Problem::EditorVariable { variable },
        None => Problem::MissingVariable { variable },
    }
}
