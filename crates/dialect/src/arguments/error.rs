//! Arguments that cannot be turned into a call.

use serde_json::{Map, Value};
use toolwire_validation::Violation;

/// Arguments that cannot be turned into a call.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ArgumentError {
    #[error("unknown tool `{name}`{}", suggestion(nearest))]
    UnknownTool { name: String, nearest: Vec<String> },
    #[error("the arguments are not valid JSON: {message}")]
    NotJson { message: String },
    #[error("the arguments must be an object, not {found}")]
    NotAnObject { found: &'static str },
    #[error("invalid arguments for `{tool}`: {}", joined(violations))]
    Invalid {
        tool: String,
        violations: Vec<Violation>,
        /// The arguments, repaired and converted as far as possible.
        arguments: Map<String, Value>,
    },
    /// The references of the schema expand exponentially; see [`toolwire_validation::TooComplex`].
    #[error("invalid arguments for `{tool}`: {}", toolwire_validation::TooComplex)]
    TooComplex { tool: String },
}

impl ArgumentError {
    /// Returns the message without the tool's name, for messages that already contain it.
    pub fn problem(&self) -> String {
        match self {
            ArgumentError::NotJson { message } => format!("not valid JSON: {message}"),
            ArgumentError::NotAnObject { found } => format!("must be an object, not {found}"),
            ArgumentError::Invalid { violations, .. } => joined(violations),
            ArgumentError::TooComplex { .. } => toolwire_validation::TooComplex.to_string(),
            ArgumentError::UnknownTool { .. } => self.to_string(),
        }
    }

    /// Returns a machine-readable code.
    pub const fn code(&self) -> &'static str {
        match self {
            ArgumentError::UnknownTool { .. } => "unknown_tool",
            ArgumentError::NotJson { .. } => "not_json",
            ArgumentError::NotAnObject { .. } => "not_an_object",
            ArgumentError::Invalid { .. } => "invalid_arguments",
            ArgumentError::TooComplex { .. } => "too_complex",
        }
    }
}

fn suggestion(nearest: &[String]) -> String {
    if nearest.is_empty() {
        return String::new();
    }
    let names: Vec<String> = nearest.iter().map(|name| format!("`{name}`")).collect();
    format!("; did you mean {}?", names.join(" or "))
}

fn joined(violations: &[Violation]) -> String {
    violations.iter().map(Violation::to_string).collect::<Vec<_>>().join("; ")
}
