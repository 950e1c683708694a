//! The messages of OpenAI's validation errors, shared by Chat Completions and Responses.

use serde_json::Value;

use super::json::type_name;

/// A message, and the `code` that OpenAI sends with it.
pub(super) type CodedMessage = (String, &'static str);

pub(super) fn unknown_parameter(path: &str) -> CodedMessage {
    (format!("Unknown parameter: '{path}'."), "unknown_parameter")
}

pub(super) fn missing_parameter(path: &str) -> CodedMessage {
    (format!("Missing required parameter: '{path}'."), "missing_required_parameter")
}

/// `expected` begins with its article.
pub(super) fn wrong_type(path: &str, expected: &str, got: &Value) -> CodedMessage {
    let got = type_name(got);
    let article = if got.starts_with(['a', 'i', 'o']) { "an" } else { "a" };
    let message = format!("Invalid type for '{path}': expected {expected}, but got {article} {got} instead.");
    (message, "invalid_type")
}

pub(super) fn unsupported_value(got: &str, supported: &[&str]) -> CodedMessage {
    let quoted: Vec<String> = supported.iter().map(|value| format!("'{value}'")).collect();
    let supported = match quoted.as_slice() {
        [first, second] => format!("{first} and {second}"),
        [rest @ .., last] if !rest.is_empty() => format!("{}, and {last}", rest.join(", ")),
        single => single.join(""),
    };
    (format!("Invalid value: '{got}'. Supported values are: {supported}."), "invalid_value")
}

pub(super) fn string_too_long(path: &str, max: usize, length: usize) -> CodedMessage {
    let message = format!(
        "Invalid '{path}': string too long. Expected a string with maximum length {max}, but got a string with length \
         {length} instead."
    );
    (message, "string_above_max_length")
}

pub(super) fn name_mismatch(path: &str) -> CodedMessage {
    let message = format!(
        "Invalid '{path}': string does not match pattern. Expected a string that matches the pattern \
         '^[a-zA-Z0-9_-]+$'."
    );
    (message, "invalid_value")
}

pub(super) fn invalid_format(name: &str, problem: &str) -> CodedMessage {
    (format!("Invalid schema for response_format '{name}': {problem}"), "invalid_json_schema")
}

pub(super) fn invalid_schema(function: &str, problem: &str) -> CodedMessage {
    (format!("Invalid schema for function '{function}': {problem}"), "invalid_function_parameters")
}
