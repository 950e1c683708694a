//! Validates and repairs arguments with one schema.

use std::sync::Arc;

use serde_json::Value;
use toolwire_validation::{InvalidSchema, TooComplex, Validator, Violation};

use super::by_schema;
use super::consent::{repair_except_consent, without_consent};
use super::error::ArgumentError;
use super::property_names::PropertyNames;
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

    /// Repairs arguments that the schema rejects, or that have keys in another spelling. Returns whether the
    /// schema accepted them before the repair; in this case it also accepts the repaired arguments.
    pub(super) fn repair(
        &self,
        tool: &str,
        value: &mut Value,
        repairs: &mut Vec<Repair>,
    ) -> Result<bool, ArgumentError> {
        let has_unusual_key = self.names.has_unusual_key(value);
        self.repair_keys_and_values(tool, value, has_unusual_key, repairs)
    }

    fn repair_keys_and_values(
        &self,
        tool: &str,
        value: &mut Value,
        has_unusual_key: bool,
        repairs: &mut Vec<Repair>,
    ) -> Result<bool, ArgumentError> {
        let is_accepted = self.validator.accepts(value).map_err(too_complex(tool))?;
        if !is_accepted || has_unusual_key {
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
        let unusual = self.names.unusual_parts(value);
        if unusual.number {
            by_schema::remove_fractions(value, self.schema(), repairs);
        }
        match self.repair_keys_and_values(tool, value, unusual.key, repairs)? {
            true => Ok(Vec::new()),
            false => self.violations(tool, value),
        }
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
