//! A schema, compiled once to validate many values.

use std::fmt;
use std::sync::Arc;

use jsonschema::ValidationError;
use serde_json::Value;

use crate::cost::EvaluationCost;
use crate::explain::explain_all;
use crate::locate::innermost_errors;
use crate::violation::{Requirement, Violation, ViolationKind};

/// The maximum number of schema evaluations for one value.
const MAX_EVALUATIONS: u64 = 1_000_000;

/// The maximum work for collecting errors with one budget, in steps.
const MAX_ERROR_STEPS: u64 = 8_000_000;

/// The steps for one evaluation of a schema whose references expand exponentially. The number is large,
/// because its errors may contain the errors of other evaluations.
const STEPS_PER_EVALUATION: u64 = 80;

/// The steps for each further schema that applies to the same value, whose errors are nested in those of
/// another.
const STEPS_PER_NESTED_ERROR: u64 = 8;

/// Limits the work of collecting errors, for all calls with the same budget.
#[derive(Clone, Debug)]
pub struct ErrorBudget {
    steps: u64,
}

impl Default for ErrorBudget {
    fn default() -> Self {
        ErrorBudget { steps: MAX_ERROR_STEPS }
    }
}

/// A schema, compiled once to validate many values.
#[derive(Debug)]
pub struct Validator {
    schema: Arc<Value>,
    /// `None` if too many schemas apply to one value: compiling it would take too long.
    compiled: Option<jsonschema::Validator>,
    cost: EvaluationCost,
    checks_formats: bool,
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
        let cost = EvaluationCost::of(&schema);
        if matches!(cost, EvaluationCost::TooComplex) {
            return Ok(Validator { schema, compiled: None, cost, checks_formats });
        }
        let compiled = jsonschema::options()
            .offline()
            .should_validate_formats(checks_formats)
            .build(&schema)
            .map_err(|error| InvalidSchema { reason: error.to_string() })?;
        Ok(Validator { schema, compiled: Some(compiled), cost, checks_formats })
    }

    /// Returns the schema.
    pub fn schema(&self) -> &Value {
        &self.schema
    }

    /// Whether the value matches the schema.
    pub fn accepts(&self, value: &Value) -> Result<bool, TooComplex> {
        if !self.cost.is_decided_within(MAX_EVALUATIONS, &self.schema, value) {
            return Err(TooComplex);
        }
        Ok(self.compiled.as_ref().ok_or(TooComplex)?.is_valid(value))
    }

    /// Returns the violations in the order of the schema's properties; unknown properties come last. After
    /// fifty, the last one is [`ViolationKind::More`]. If there are too many possible causes to list, only
    /// those of one invalid part of the value are listed, or only that the value does not match.
    pub fn violations(&self, value: &Value) -> Result<Vec<Violation>, TooComplex> {
        if self.accepts(value)? {
            return Ok(Vec::new());
        }
        match self.errors(value, &mut ErrorBudget::default()) {
            Some(errors) => Ok(explain_all(errors, &self.schema)),
            None => Ok(self.innermost_violations(value)),
        }
    }

    /// Returns the errors as `jsonschema` reports them, or `None` if the budget does not suffice.
    pub fn errors<'v>(
        &'v self,
        value: &'v Value,
        budget: &mut ErrorBudget,
    ) -> Option<impl Iterator<Item = ValidationError<'v>>> {
        let weight = match self.cost {
            EvaluationCost::Linear { width } => 1 + (width - 1).saturating_mul(STEPS_PER_NESTED_ERROR),
            EvaluationCost::ByReferences { .. } | EvaluationCost::TooComplex => STEPS_PER_EVALUATION,
        };
        let steps = self.cost.evaluations(&self.schema, value).saturating_mul(weight);
        budget.steps = budget.steps.checked_sub(steps)?;
        Some(self.compiled.as_ref()?.iter_errors(value))
    }

    /// Returns violations of the innermost invalid part that can be found.
    fn innermost_violations(&self, value: &Value) -> Vec<Violation> {
        let located = match self.cost {
            EvaluationCost::ByReferences { remembered: Some(_) } => {
                let max = MAX_ERROR_STEPS / STEPS_PER_EVALUATION;
                innermost_errors(&self.schema, value, self.checks_formats, max, |pointer, errors| {
                    let mut violations = explain_all(errors, &self.schema);
                    violations.iter_mut().for_each(|violation| violation.pointer.insert_str(0, pointer));
                    violations
                })
            }
            _ => None,
        };
        located.unwrap_or_else(|| {
            let requirement = Requirement::Be("a value that the schema accepts".to_owned());
            let kind = ViolationKind::InvalidValue { requirement, value: value.clone() };
            vec![Violation { pointer: String::new(), kind }]
        })
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
