//! A schema, compiled once to validate many values.

use std::fmt;
use std::sync::Arc;

use jsonschema::ValidationError;
use serde_json::Value;

use crate::cost::EvaluationCost;
use crate::explain::explain_all;
use crate::violation::Violation;

/// The maximum number of schema evaluations for one value.
const MAX_EVALUATIONS: u64 = 1_000_000;

/// A schema, compiled once to validate many values.
#[derive(Debug)]
pub struct Validator {
    schema: Arc<Value>,
    compiled: jsonschema::Validator,
    cost: EvaluationCost,
}

/// A JSON value that is not a valid schema, or that refers to another document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidSchema {
    reason: String,
}

/// Validating the value would take more than a million evaluations of schemas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooComplex;

impl Validator {
    /// Compiles a schema. `format` is only an annotation: implementations differ in what they accept as an
    /// e-mail address.
    pub fn new(schema: impl Into<Arc<Value>>) -> Result<Validator, InvalidSchema> {
        Validator::compile(schema.into(), false)
    }

    /// Compiles a schema whose `format`s are checked.
    pub fn with_formats(schema: impl Into<Arc<Value>>) -> Result<Validator, InvalidSchema> {
        Validator::compile(schema.into(), true)
    }

    fn compile(schema: Arc<Value>, checks_formats: bool) -> Result<Validator, InvalidSchema> {
        let compiled = jsonschema::options()
            .offline()
            .should_validate_formats(checks_formats)
            .build(&schema)
            .map_err(|error| InvalidSchema { reason: error.to_string() })?;
        let cost = EvaluationCost::of(&schema);
        Ok(Validator { schema, compiled, cost })
    }

    /// Returns the schema.
    pub fn schema(&self) -> &Value {
        &self.schema
    }

    /// Whether the value matches the schema.
    pub fn accepts(&self, value: &Value) -> Result<bool, TooComplex> {
        if matches!(self.cost, EvaluationCost::ByReferences(_)) && self.evaluations(value) > MAX_EVALUATIONS {
            return Err(TooComplex);
        }
        Ok(self.compiled.is_valid(value))
    }

    /// Returns every violation, in the order of the schema's properties; unknown properties come last.
    pub fn violations(&self, value: &Value) -> Result<Vec<Violation>, TooComplex> {
        if self.accepts(value)? {
            return Ok(Vec::new());
        }
        let errors: Vec<ValidationError<'_>> = self.compiled.iter_errors(value).collect();
        Ok(explain_all(&errors, &self.schema))
    }

    /// Returns the errors as `jsonschema` reports them. Call it only with values that [`Validator::accepts`]
    /// does not find too complex.
    pub fn errors<'v>(&'v self, value: &'v Value) -> impl Iterator<Item = ValidationError<'v>> {
        self.compiled.iter_errors(value)
    }

    /// Returns how often values of this size may be validated in a row without taking too long.
    pub fn max_validations(&self, value: &Value) -> u64 {
        8 * MAX_EVALUATIONS / self.evaluations(value).max(1)
    }

    fn evaluations(&self, value: &Value) -> u64 {
        self.cost.evaluations(&self.schema, value)
    }
}

impl fmt::Display for InvalidSchema {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.reason)
    }
}

impl std::error::Error for InvalidSchema {}

impl fmt::Display for TooComplex {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the schema is too complex to validate this value")
    }
}

impl std::error::Error for TooComplex {}
