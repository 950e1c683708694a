//! Validates and repairs arguments by one schema.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::Value;
use toolwire_validation::{InvalidSchema, TooComplex, Validator, Violation};

use super::by_schema::{self, fold, only_wrapper};
use super::consent::{repair_except_consent, without_consent};
use super::error::ArgumentError;
use super::repair::Repair;

/// A schema for arguments, compiled.
#[derive(Debug)]
pub(super) struct ArgumentValidator {
    validator: Validator,
    names: PropertyNames,
}

impl ArgumentValidator {
    pub(super) fn new(schema: impl Into<Arc<Value>>) -> Result<ArgumentValidator, InvalidSchema> {
        let validator = Validator::new(schema)?;
        let names = PropertyNames::of(validator.schema());
        Ok(ArgumentValidator { validator, names })
    }

    pub(super) fn schema(&self) -> &Value {
        self.validator.schema()
    }

    /// Repairs arguments that the schema rejects, or that have keys in another spelling. Returns whether it accepted
    /// them as they were; then it still does.
    pub(super) fn repair(
        &self,
        tool: &str,
        value: &mut Value,
        repairs: &mut Vec<Repair>,
    ) -> Result<bool, ArgumentError> {
        let is_accepted = self.validator.accepts(value).map_err(too_complex(tool))?;
        if !is_accepted || self.names.may_change(value) {
            repair_except_consent(value, &self.validator, repairs);
        }
        Ok(is_accepted)
    }

    /// Repairs arguments and returns the violations that remain.
    pub(super) fn repair_and_validate(
        &self,
        tool: &str,
        value: &mut Value,
        repairs: &mut Vec<Repair>,
    ) -> Result<Vec<Violation>, ArgumentError> {
        by_schema::remove_fractions(value, self.schema(), repairs);
        if self.repair(tool, value, repairs)? { Ok(Vec::new()) } else { self.violations(tool, value) }
    }

    /// Returns the violations, except for a missing consent of the user.
    pub(super) fn violations(&self, tool: &str, value: &Value) -> Result<Vec<Violation>, ArgumentError> {
        let violations = self.validator.violations(value).map_err(too_complex(tool))?;
        Ok(without_consent(violations, self.schema()))
    }

    /// Returns all violations.
    pub(super) fn all_violations(&self, tool: &str, value: &Value) -> Result<Vec<Violation>, ArgumentError> {
        self.validator.violations(value).map_err(too_complex(tool))
    }
}

fn too_complex(tool: &str) -> impl Fn(TooComplex) -> ArgumentError {
    |TooComplex| ArgumentError::TooComplex { tool: tool.to_owned() }
}

/// The length of the names that are listed together with all longer ones.
const LONG_NAME: usize = 64;

/// The names of the properties anywhere in a schema. Most valid arguments have no others, so that finding keys in
/// another spelling costs one lookup per key.
#[derive(Debug, Default)]
struct PropertyNames {
    /// By length, sorted, and whether each has only this spelling. Hashing the keys of every call would take longer than
    /// comparing them with the few names of their length.
    names: Vec<Vec<(String, bool)>>,
    folded: HashSet<String>,
}

impl PropertyNames {
    fn of(schema: &Value) -> PropertyNames {
        let mut spellings: HashMap<String, HashSet<&String>> = HashMap::new();
        let mut stack = vec![schema];
        while let Some(node) = stack.pop() {
            match node {
                Value::Object(map) => {
                    for name in map.get("properties").and_then(Value::as_object).into_iter().flatten() {
                        spellings.entry(fold(name.0)).or_default().insert(name.0);
                    }
                    stack.extend(map.values());
                }
                Value::Array(items) => stack.extend(items),
                _ => {}
            }
        }
        let mut found = PropertyNames::default();
        for (folded, names) in spellings {
            let is_only = names.len() == 1;
            for name in names {
                let length = name.len().min(LONG_NAME);
                found.names.resize(found.names.len().max(length + 1), Vec::new());
                found.names[length].push((name.clone(), is_only));
            }
            found.folded.insert(folded);
        }
        found.names.iter_mut().for_each(|names| names.sort_unstable());
        found
    }

    /// Whether a name has only this spelling; `None` if no property has it.
    fn is_only_spelling(&self, name: &str) -> Option<bool> {
        let names = self.names.get(name.len().min(LONG_NAME))?;
        let index = names.binary_search_by(|(other, _)| other.as_str().cmp(name)).ok()?;
        Some(names[index].1)
    }

    /// Whether arguments may be wrapped or have keys in another spelling.
    fn may_change(&self, arguments: &Value) -> bool {
        only_wrapper(arguments).is_some_and(|(key, _)| self.is_only_spelling(key).is_none())
            || self.has_other_spelling(arguments)
    }

    fn has_other_spelling(&self, value: &Value) -> bool {
        match value {
            Value::Object(map) => map.iter().any(|(key, value)| {
                let is_other = match self.is_only_spelling(key) {
                    Some(is_only_spelling) => !is_only_spelling,
                    None => self.folded.contains(&fold(key)),
                };
                is_other || self.has_other_spelling(value)
            }),
            Value::Array(items) => items.iter().any(|item| self.has_other_spelling(item)),
            _ => false,
        }
    }
}
