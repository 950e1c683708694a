//! How a run ended.

use serde::{Deserialize, Serialize};
use toolwire_contract::{ModelError, StopReason, StoreError, Usage};

use crate::approval::PendingCall;

/// How a run ended, and what came of it. It is about the last message of the person.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    pub ending: Ending,
    /// What the model said last. Empty when it said nothing.
    pub text: String,
    /// Why the last answer ended; `None` when none came.
    pub stop: Option<StopReason>,
    /// What all answers to this message of the person cost.
    pub usage: Usage,
    /// How many answers there were.
    pub steps: u32,
}

/// Why nothing more happens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Ending {
    /// The model answered.
    Finished,
    /// A limit was reached. The calls of the last answer, if any, were not run, and say so.
    Stopped(Limit),
    /// Somebody stopped it.
    Cancelled,
    /// It waits for a person to decide about these calls; see [`Run::person_said`](crate::Run::person_said).
    NeedsApproval(Vec<PendingCall>),
    Failed(Failure),
}

/// A limit that ends a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Limit {
    /// [`Settings::max_steps`](crate::Settings::max_steps).
    Steps,
    /// [`Settings::token_budget`](crate::Settings::token_budget).
    Tokens,
    /// The answer was cut off where the model's output or its context ended.
    Output,
    /// The model answered with nothing, again and again.
    EmptyAnswers,
}

/// What went wrong, in words that can be kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// A word for programs: [`ModelError::code`] or [`StoreError::code`].
    pub code: String,
    pub message: String,
    /// What to try next, in one line.
    pub hint: Option<String>,
    /// The error itself; `None` in a run that was read from JSON.
    #[serde(skip)]
    #[source]
    pub cause: Option<Box<RunError>>,
}

/// What can end a run that nobody stopped.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error("the conversation cannot be kept: {0}")]
    Store(#[from] StoreError),
}

impl Outcome {
    /// Whether the model has answered.
    pub fn is_finished(&self) -> bool {
        self.ending == Ending::Finished
    }
}

impl RunError {
    /// A word for programs.
    pub fn code(&self) -> &'static str {
        match self {
            RunError::Model(error) => error.code(),
            RunError::Store(error) => error.code(),
        }
    }

    /// What to try next, in one line.
    pub fn hint(&self) -> Option<&str> {
        match self {
            RunError::Model(error) => error.hint(),
            RunError::Store(error) => error.hint(),
        }
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Failure {
        Failure {
            code: error.code().to_owned(),
            message: error.to_string(),
            hint: error.hint().map(str::to_owned),
            cause: Some(Box::new(error)),
        }
    }
}

impl std::fmt::Display for Limit {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Limit::Steps => "the limit of steps was reached",
            Limit::Tokens => "the token budget is used up",
            Limit::Output => "the answer was cut off at its limit of tokens",
            Limit::EmptyAnswers => "the model gave empty answers",
        })
    }
}
