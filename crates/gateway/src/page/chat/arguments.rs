//! Values that a person enters into a form.

use serde_json::Value;
use toolwire_page::form::Fields;
use toolwire_validation::Validator;

use super::super::failure::PageFailure;
use super::input::Input;

/// Returns the fields of a form with values.
pub(super) fn fields(input: &Input) -> Fields {
    Fields::new(input.fields().iter().cloned())
}

/// Returns the error of a field, given its pointer and the problem.
pub(super) fn at_place((pointer, message): (String, String)) -> PageFailure {
    let place = if pointer.is_empty() { String::new() } else { format!("`{pointer}`: ") };
    PageFailure::invalid(format!("{place}{message}")).with_field(pointer)
}

/// Returns the first violation of a schema: the pointer and the message.
pub(super) fn violation(schema: &Value, value: &Value) -> Option<(String, String)> {
    // A schema that cannot be evaluated accepts everything here; the receiver decides.
    let validator = Validator::new(schema.clone()).ok()?;
    let violations = validator.violations(value).ok()?;
    violations.first().map(|violation| (violation.pointer.clone(), violation.message()))
}
