//! Errors for clients, with the statuses and codes of each API.

use core::time::Duration;

use serde_json::Value;

use super::StreamEvent;

/// An error, for the client.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientError {
    pub kind: ErrorKind,
    pub message: String,
    /// The parameter that caused the error, if there is one.
    pub parameter: Option<String>,
    /// The provider's error code, which replaces the default code of the kind.
    pub code: Option<String>,
    /// The provider's status, which replaces the default status of the kind.
    pub status: Option<u16>,
    /// The time after which the request may succeed, if it is known.
    pub retry_after: Option<Duration>,
}

/// The kind of an error, which determines the status and the class that SDKs raise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    InvalidRequest,
    UnsupportedParameter,
    Unauthenticated,
    Forbidden,
    NotFound,
    ModelNotFound,
    TooLarge,
    ContextExceeded,
    /// The request conflicts with another one, and may succeed later.
    Conflict,
    RateLimited,
    /// The account at the provider has no credit or quota left.
    QuotaExceeded,
    Overloaded,
    Unreachable,
    TimedOut,
    /// The provider does not accept the gateway's own key.
    ProviderKey,
    /// The model has not responded in the required format, also when it was asked again.
    InvalidOutput,
    Internal,
}

/// The codes of failed responses in OpenAI's types that a provider may send.
const FAILED_RESPONSE_CODES: [&str; 21] = [
    "server_error",
    "rate_limit_exceeded",
    "invalid_prompt",
    "data_residency_mismatch",
    "bio_policy",
    "misalignment_policy_violation",
    "vector_store_timeout",
    "invalid_image",
    "invalid_image_format",
    "invalid_base64_image",
    "invalid_image_url",
    "image_too_large",
    "image_too_small",
    "image_parse_error",
    "image_content_policy_violation",
    "invalid_image_mode",
    "image_file_too_large",
    "unsupported_image_media_type",
    "empty_image_file",
    "failed_to_download_image",
    "image_file_not_found",
];

impl ErrorKind {
    /// Returns the HTTP status. Anthropic has a status of its own for an overloaded server.
    pub const fn status(self, family: crate::Family) -> u16 {
        match self {
            ErrorKind::InvalidRequest | ErrorKind::UnsupportedParameter | ErrorKind::ContextExceeded => 400,
            ErrorKind::Unauthenticated => 401,
            ErrorKind::Forbidden => 403,
            ErrorKind::NotFound | ErrorKind::ModelNotFound => 404,
            ErrorKind::Conflict => 409,
            ErrorKind::TooLarge => 413,
            ErrorKind::RateLimited => 429,
            ErrorKind::QuotaExceeded => match family {
                crate::Family::Anthropic => 402,
                _ => 429,
            },
            ErrorKind::Internal => 500,
            ErrorKind::Unreachable | ErrorKind::ProviderKey | ErrorKind::InvalidOutput => 502,
            ErrorKind::Overloaded => match family {
                crate::Family::Anthropic => 529,
                _ => 503,
            },
            ErrorKind::TimedOut => 504,
        }
    }

    /// Returns OpenAI's `type` and `code`.
    const fn openai(self) -> (&'static str, Option<&'static str>) {
        const INVALID: &str = "invalid_request_error";
        match self {
            ErrorKind::InvalidRequest => (INVALID, Some("invalid_value")),
            ErrorKind::UnsupportedParameter => (INVALID, Some("unsupported_parameter")),
            ErrorKind::Unauthenticated => (INVALID, Some("invalid_api_key")),
            ErrorKind::Forbidden => (INVALID, Some("permission_denied")),
            ErrorKind::NotFound => (INVALID, Some("not_found")),
            ErrorKind::ModelNotFound => (INVALID, Some("model_not_found")),
            ErrorKind::TooLarge => (INVALID, Some("request_too_large")),
            ErrorKind::ContextExceeded => (INVALID, Some("context_length_exceeded")),
            ErrorKind::Conflict => (INVALID, Some("conflict")),
            ErrorKind::RateLimited => ("rate_limit_error", Some("rate_limit_exceeded")),
            ErrorKind::QuotaExceeded => ("insufficient_quota", Some("insufficient_quota")),
            ErrorKind::Overloaded | ErrorKind::Internal => ("server_error", None),
            ErrorKind::Unreachable => ("server_error", Some("upstream_unreachable")),
            ErrorKind::TimedOut => ("server_error", Some("timeout")),
            ErrorKind::ProviderKey => ("server_error", Some("upstream_auth")),
            ErrorKind::InvalidOutput => ("server_error", Some("invalid_output")),
        }
    }

    /// Returns the `code` of a failed response of the Responses API, which has fewer codes than its error
    /// bodies.
    const fn failed_response(self) -> &'static str {
        match self {
            ErrorKind::RateLimited | ErrorKind::QuotaExceeded => "rate_limit_exceeded",
            ErrorKind::InvalidRequest
            | ErrorKind::UnsupportedParameter
            | ErrorKind::TooLarge
            | ErrorKind::ContextExceeded => "invalid_prompt",
            ErrorKind::Unauthenticated
            | ErrorKind::Forbidden
            | ErrorKind::NotFound
            | ErrorKind::ModelNotFound
            | ErrorKind::Conflict
            | ErrorKind::Overloaded
            | ErrorKind::Unreachable
            | ErrorKind::TimedOut
            | ErrorKind::ProviderKey
            | ErrorKind::InvalidOutput
            | ErrorKind::Internal => "server_error",
        }
    }

    /// Returns Anthropic's `type`.
    const fn anthropic(self) -> &'static str {
        match self {
            ErrorKind::InvalidRequest
            | ErrorKind::UnsupportedParameter
            | ErrorKind::ContextExceeded
            | ErrorKind::Conflict => "invalid_request_error",
            ErrorKind::Unauthenticated => "authentication_error",
            ErrorKind::Forbidden => "permission_error",
            ErrorKind::NotFound | ErrorKind::ModelNotFound => "not_found_error",
            ErrorKind::TooLarge => "request_too_large",
            ErrorKind::RateLimited => "rate_limit_error",
            ErrorKind::QuotaExceeded => "billing_error",
            ErrorKind::Overloaded => "overloaded_error",
            ErrorKind::TimedOut => "timeout_error",
            ErrorKind::Unreachable
            | ErrorKind::ProviderKey
            | ErrorKind::InvalidOutput
            | ErrorKind::Internal => "api_error",
        }
    }
}

impl ClientError {
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> ClientError {
        let message = message.into();
        ClientError { kind, message, parameter: None, code: None, status: None, retry_after: None }
    }

    /// Returns the body of an error response. `request_id` is also in a header.
    pub fn body(&self, family: crate::Family, request_id: &str) -> Value {
        match family {
            crate::Family::Anthropic => serde_json::json!({
                "type": "error",
                "error": {"type": self.kind.anthropic(), "message": self.message},
                "request_id": request_id,
            }),
            _ => serde_json::json!({"error": self.openai_error()}),
        }
    }

    /// Returns the event for an error in a stream that no [`ResponseWriter`](super::ResponseWriter) writes,
    /// such as a forwarded one. `sequence_number` is the number of the event, in APIs that number them.
    pub fn event(&self, family: crate::Family, request_id: &str, sequence_number: u64) -> StreamEvent {
        let mut body = self.body(family, request_id);
        match family {
            crate::Family::Anthropic => StreamEvent::json(Some("error"), body),
            crate::Family::OpenAiResponses => {
                // Some clients read the fields beside `type`, others those of `error`.
                let error = self.openai_error();
                body["type"] = "error".into();
                body["sequence_number"] = sequence_number.into();
                for key in ["code", "message", "param"] {
                    body[key] = error[key].clone();
                }
                StreamEvent::json(Some("error"), body)
            }
            _ => StreamEvent::json(None, body),
        }
    }

    /// Returns the `error` of a failed response of the Responses API. SDKs reject other codes than those of
    /// OpenAI.
    pub(crate) fn failed_response(&self) -> Value {
        let code = self.code.as_deref().filter(|code| FAILED_RESPONSE_CODES.contains(code));
        let code = code.unwrap_or(self.kind.failed_response());
        serde_json::json!({"code": code, "message": self.message})
    }

    pub(crate) fn openai_error(&self) -> Value {
        let (type_name, code) = self.kind.openai();
        let code = self.code.as_deref().or(code);
        serde_json::json!({"message": self.message, "type": type_name, "param": self.parameter, "code": code})
    }
}

impl From<&super::InvalidRequest> for ClientError {
    fn from(error: &super::InvalidRequest) -> ClientError {
        let kind = match error.problem {
            super::Problem::Unsupported(_) | super::Problem::ProviderTool { .. } => {
                ErrorKind::UnsupportedParameter
            }
            _ => ErrorKind::InvalidRequest,
        };
        let parameter = Some(error.parameter.clone());
        ClientError { parameter, ..ClientError::new(kind, error.to_string()) }
    }
}
