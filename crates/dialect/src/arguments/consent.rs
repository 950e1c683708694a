//! The consent of the user in arguments.
//!
//! A tool of the toolkit with an explicit action requires the argument `explicit_action` with a constant
//! value. If a call does not have it, the server's response instructs the model to ask the user. After a
//! validation error, the model would only add the argument. So a call is not rejected because of this
//! argument, and it is not repaired.

use serde_json::Value;
use toolwire_validation::{Validator, Violation, ViolationKind};

use super::repair::Repair;
use super::repairing::repair;

const EXPLICIT_ACTION: &str = "explicit_action";
const POINTER: &str = "/explicit_action";

/// Repairs a value, except for the consent in it.
pub(super) fn repair_except_consent(value: &mut Value, validator: &Validator, repairs: &mut Vec<Repair>) {
    let protected = requires_consent(validator.schema()).then_some(POINTER);
    repair(value, validator, protected, repairs);
}

/// Returns the violations that do not concern consent.
pub(super) fn without_consent(mut violations: Vec<Violation>, schema: &Value) -> Vec<Violation> {
    if requires_consent(schema) {
        violations.retain(|violation| {
            let is_missing = violation.pointer.is_empty()
                && matches!(&violation.kind, ViolationKind::MissingProperty { name, .. } if name == EXPLICIT_ACTION);
            !is_missing && violation.pointer != POINTER
        });
    }
    violations
}

fn requires_consent(schema: &Value) -> bool {
    let required = schema.get("required").and_then(Value::as_array);
    let is_required = required.is_some_and(|names| names.iter().any(|name| name == EXPLICIT_ACTION));
    is_required && schema.pointer("/properties/explicit_action/const").is_some_and(Value::is_string)
}
