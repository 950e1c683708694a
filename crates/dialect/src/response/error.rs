//! The errors of reading a response.

use serde_json::Value;
use toolwire_contract::model::ModelResponse;
use toolwire_contract::text::counted;

use super::ReceivedCall;

/// The outcome of reading a part of a response.
pub(crate) type ReadResult<T = ()> = Result<T, ResponseError>;

/// A response that cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ResponseError {
    /// The provider sent an error, instead of a response or in the middle of a stream.
    #[error("the provider returned an error: {message}")]
    Provider {
        message: String,
        /// The complete body or event that the provider sent.
        body: Value,
    },
    /// The provider rejected the model's output, such as a call that it could not parse.
    #[error("the provider rejected the model's output: {reason}")]
    Rejected { reason: String, message: Option<String> },
    /// The response does not have the format of this API.
    #[error("expected {expected} at `{pointer}`, found {found}")]
    Malformed { pointer: String, expected: &'static str, found: &'static str },
    /// The stream ended before the response was complete. Only a
    /// [`ResponseStream`](crate::response::ResponseStream) returns this.
    #[error("the stream ended before the response was complete")]
    Incomplete {
        /// The response up to that point; all its calls are unusable.
        response: Box<ModelResponse>,
    },
    /// The response was cut off. Its calls must not run, even if they look complete; each can be given an
    /// error as its result. Only [`read_calls`](crate::response::read_calls) and
    /// [`CallStream`](crate::response::CallStream) return this.
    #[error("the response was cut off ({reason}) with {} unfinished", counted(.calls.len(), "call"))]
    CutOff { reason: String, calls: Vec<ReceivedCall> },
}

impl ResponseError {
    /// Returns the next thing to try, in one line.
    pub fn hint(&self) -> &'static str {
        match self {
            ResponseError::Provider { .. } => "fix the problem that the provider reports, then retry",
            ResponseError::Rejected { .. } => "retry; if it fails again, offer fewer or simpler tools",
            ResponseError::Malformed { .. } => {
                "check that the endpoint implements the dialect it is configured with"
            }
            ResponseError::Incomplete { .. } => "retry",
            ResponseError::CutOff { .. } => {
                "raise the output limit, or return an error as the result of each call and continue"
            }
        }
    }
}
