//! Conversion of the return value of a tool's function to a tool result.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use toolwire_contract::ToolResult;

use crate::failure::{Cause, Failure, INTERNAL};
use crate::outcome::Outcome;
use crate::schema;

/// Types that a tool's function can return: an [`Outcome`], a [`ToolResult`], or a `Result` of either. The
/// attribute wraps any other value in an `Outcome`.
#[diagnostic::on_unimplemented(
    message = "a tool cannot return `{Self}`",
    label = "cannot be converted to a tool result",
    note = "the value of an `Outcome` must derive `serde::Serialize` and `schemars::JsonSchema`; an error must convert to `Failure`"
)]
pub trait Reply {
    /// Returns the schema of the structured content, if every result has structured content.
    fn schema() -> Option<Value>;

    fn complete(self) -> CompletedCall;
}

/// The result of a call, with its failure for the log.
pub struct CompletedCall {
    pub(crate) result: ToolResult,
    pub(crate) failure: Option<LoggedFailure>,
}

/// A failure as it is logged.
pub(crate) struct LoggedFailure {
    pub(crate) error_type: String,
    pub(crate) error: String,
    pub(crate) cause: Cause,
}

impl<T: Serialize + JsonSchema> Reply for Outcome<T> {
    fn schema() -> Option<Value> {
        Some(schema::output::<Outcome<T>>())
    }

    fn complete(self) -> CompletedCall {
        let value = match self.value.as_ref().map(serde_json::to_value).transpose() {
            Ok(value) => value,
            Err(error) => return Failure::internal().caused_by(error).into(),
        };
        CompletedCall::new(self.with_value(value))
    }
}

impl Reply for ToolResult {
    fn schema() -> Option<Value> {
        None
    }

    fn complete(self) -> CompletedCall {
        let text = || {
            self.blocks().iter().find_map(|block| match block {
                toolwire_contract::Content::Text { text, .. } => Some(text.clone()),
                _ => None,
            })
        };
        let failure = self.is_error().then(|| LoggedFailure {
            error_type: "error".to_owned(),
            error: text().unwrap_or_default(),
            cause: Cause::default(),
        });
        CompletedCall { result: self, failure }
    }
}

impl<R: Reply, E: Into<Failure>> Reply for Result<R, E> {
    fn schema() -> Option<Value> {
        R::schema()
    }

    fn complete(self) -> CompletedCall {
        match self {
            Ok(reply) => reply.complete(),
            Err(error) => error.into().into(),
        }
    }
}

impl CompletedCall {
    fn new(outcome: Outcome<Value>) -> CompletedCall {
        let failure = outcome.is_failure().then(|| LoggedFailure {
            error_type: outcome.error_type.clone().unwrap_or_else(|| INTERNAL.to_owned()),
            error: outcome.error.clone().unwrap_or_default(),
            cause: outcome.cause.clone(),
        });
        let structured = Value::Object(outcome.into_json());
        let text = ToolResult::text(structured.to_string());
        let result =
            ToolResult { is_error: Some(failure.is_some()), structured_content: Some(structured), ..text };
        CompletedCall { result, failure }
    }
}

impl From<Failure> for CompletedCall {
    fn from(failure: Failure) -> CompletedCall {
        CompletedCall::new(Outcome::from(failure))
    }
}
