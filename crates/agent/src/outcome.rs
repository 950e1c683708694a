//! The outcome of a run.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwire_contract::ToolCall;
use toolwire_contract::conversations::StoreError;
use toolwire_contract::model::{ModelError, StopReason, Usage};

use crate::approval::PendingCall;

/// The end of a run, and its output since the last user message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RunOutcome {
    pub ending: Ending,
    /// The text of the last response; may be empty.
    pub text: String,
    /// The reason why the last response ended; `None` if there was no response.
    pub stop: Option<StopReason>,
    /// The usage of all responses to this user message.
    pub usage: Usage,
    /// The number of responses to this user message.
    pub steps: u32,
    /// The final response as JSON, if the settings require a JSON format
    /// ([`AgentSettings::output`](crate::AgentSettings::output)) and the run is finished.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
}

/// The reason why a run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Ending {
    /// The model gave its final response.
    Finished,
    /// A limit was reached. The calls of the last response were not run; their results say so.
    Stopped(RunLimit),
    /// The run was cancelled.
    Cancelled,
    /// These calls need approval; see [`Run::decide`](crate::run::Run::decide).
    NeedsApproval(Vec<PendingCall>),
    /// The caller must run these calls, given with their ids; see
    /// [`Run::tools_returned`](crate::run::Run::tools_returned).
    NeedsResults(Vec<(String, ToolCall)>),
    Failed(RunFailure),
}

/// A limit that ends a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum RunLimit {
    /// [`AgentSettings::max_steps`](crate::AgentSettings::max_steps).
    Steps,
    /// [`AgentSettings::token_budget`](crate::AgentSettings::token_budget).
    Tokens,
    /// The response was cut off at the output limit or at the end of the context window.
    Output,
    /// The model returned several empty responses in a row.
    #[serde(rename = "emptyAnswers")]
    EmptyResponses,
}

/// A [`RunError`] in a form that can be saved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct RunFailure {
    /// A machine-readable code: [`RunError::code`].
    pub code: String,
    pub message: String,
    /// The next thing to try, in one line.
    pub hint: Option<String>,
    /// The error itself; `None` in a run that was read from JSON.
    #[serde(skip)]
    #[source]
    pub cause: Option<Box<RunError>>,
}

/// An error that ends a run.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error("the conversation could not be saved: {0}")]
    Store(#[from] StoreError),
    /// The model did not respond in the required format, and did not correct its response.
    #[error("the response does not have the required format: {problem}")]
    InvalidOutput { problem: String },
}

impl RunOutcome {
    /// Whether the model gave its final response.
    pub fn is_finished(&self) -> bool {
        self.ending == Ending::Finished
    }
}

impl RunError {
    /// Returns a machine-readable code.
    pub fn code(&self) -> &'static str {
        match self {
            RunError::Model(error) => error.code(),
            RunError::Store(error) => error.code(),
            RunError::InvalidOutput { .. } => "invalid_output",
        }
    }

    /// Returns the next thing to try, in one line.
    pub fn hint(&self) -> Option<&str> {
        match self {
            RunError::Model(error) => error.hint(),
            RunError::Store(error) => error.hint(),
            RunError::InvalidOutput { .. } => Some("retry, simplify the schema, or use another model"),
        }
    }
}

impl From<RunError> for RunFailure {
    fn from(error: RunError) -> RunFailure {
        RunFailure {
            code: error.code().to_owned(),
            message: error.to_string(),
            hint: error.hint().map(str::to_owned),
            cause: Some(Box::new(error)),
        }
    }
}

impl std::fmt::Display for RunLimit {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            RunLimit::Steps => "the step limit was reached",
            RunLimit::Tokens => "the token budget is used up",
            RunLimit::Output => "the response was cut off at its token limit",
            RunLimit::EmptyResponses => "the model returned only empty responses",
        })
    }
}
