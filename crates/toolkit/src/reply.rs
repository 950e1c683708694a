//! What a tool's function may return, and what becomes of it on the wire.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use toolwire_contract::ToolResult;

use crate::failure::{Cause, Failure, INTERNAL};
use crate::outcome::Outcome;
use crate::schema;

/// What a tool's function may return: an [`Outcome`], a [`ToolResult`] as it is, or a `Result` of either. The attribute
/// makes an `Outcome` of any other value.
#[diagnostic::on_unimplemented(
    message = "a tool cannot return `{Self}`",
    label = "this cannot be made into an answer",
    note = "what an `Outcome` holds must derive `serde::Serialize` and `schemars::JsonSchema`; an error must be an ordinary one"
)]
pub trait Reply {
    /// The schema of the structured content, if there is always some.
    fn schema() -> Option<Value>;

    fn answer(self) -> Answered;
}

/// The answer to a call, and what the log should know of it.
pub struct Answered {
    pub(crate) result: ToolResult,
    pub(crate) failed: Option<Failed>,
}

/// What the log should know of a failure.
pub(crate) struct Failed {
    pub(crate) error_type: String,
    pub(crate) error: String,
    pub(crate) cause: Cause,
}

impl<T: Serialize + JsonSchema> Reply for Outcome<T> {
    fn schema() -> Option<Value> {
        Some(schema::output::<Outcome<T>>())
    }

    fn answer(self) -> Answered {
        let value = match self.value.as_ref().map(serde_json::to_value).transpose() {
            Ok(value) => value,
            Err(error) => return Failure::internal().caused_by(error).into(),
        };
        Answered::new(self.with_value(value))
    }
}

impl Reply for ToolResult {
    fn schema() -> Option<Value> {
        None
    }

    fn answer(self) -> Answered {
        let text = || {
            self.blocks().iter().find_map(|block| match block {
                toolwire_contract::Content::Text { text, .. } => Some(text.clone()),
                _ => None,
            })
        };
        let failed = self.is_error().then(|| Failed {
            error_type: "error".to_owned(),
            error: text().unwrap_or_default(),
            cause: Cause::default(),
        });
        Answered { result: self, failed }
    }
}

impl<R: Reply, E: Into<Failure>> Reply for Result<R, E> {
    fn schema() -> Option<Value> {
        R::schema()
    }

    fn answer(self) -> Answered {
        match self {
            Ok(reply) => reply.answer(),
            Err(error) => error.into().into(),
        }
    }
}

impl Answered {
    fn new(outcome: Outcome<Value>) -> Answered {
        let failed = outcome.is_failure().then(|| Failed {
            error_type: outcome.error_type.clone().unwrap_or_else(|| INTERNAL.to_owned()),
            error: outcome.error.clone().unwrap_or_default(),
            cause: outcome.cause.clone(),
        });
        let structured = Value::Object(outcome.into_json());
        let text = ToolResult::text(structured.to_string());
        let result =
            ToolResult { is_error: Some(failed.is_some()), structured_content: Some(structured), ..text };
        Answered { result, failed }
    }
}

impl From<Failure> for Answered {
    fn from(failure: Failure) -> Answered {
        Answered::new(Outcome::from(failure))
    }
}
