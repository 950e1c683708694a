//! Failures of tools: what the agent sees, and what is only logged.

use std::error::Error;
use std::fmt;
use std::io;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::instruction::Instruction;

/// A failure of a tool.
///
/// `?` converts every ordinary error to a failure that reports only an internal error; the error itself is
/// logged. [`Failure::new`] and [`OrFailure::or_failure`] set the text that the agent sees.
///
/// It does not implement [`Error`], because that would conflict with the conversion from every error.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure(Box<FailureParts>);

/// The fields of a failure. They are boxed to keep a `Result` with a failure small.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FailureParts {
    pub(crate) error_type: String,
    pub(crate) error: String,
    pub(crate) message: Option<String>,
    pub(crate) instruction: Option<Instruction>,
    pub(crate) data: Option<Map<String, Value>>,
    pub(crate) cause: Cause,
}

/// The underlying error of a failure. It is only logged: it is not serialized and does not affect equality.
#[derive(Clone, Default)]
pub(crate) struct Cause(Option<Arc<dyn Error + Send + Sync>>);

/// Converts an error or a missing value to a failure that the agent can read.
pub trait OrFailure<T> {
    /// Returns the value, or a failure with this error type and text. An error becomes the cause, which is
    /// logged.
    fn or_failure(self, error_type: impl Into<String>, error: impl Into<String>) -> Result<T, Failure>;
}

impl Failure {
    /// Creates a failure with a machine-readable error type (`not_found`) and a text for the agent.
    pub fn new(error_type: impl Into<String>, error: impl Into<String>) -> Failure {
        Failure(Box::new(FailureParts {
            error_type: error_type.into(),
            error: error.into(),
            message: None,
            instruction: None,
            data: None,
            cause: Cause::default(),
        }))
    }

    pub fn error_type(&self) -> &str {
        &self.0.error_type
    }

    pub fn error(&self) -> &str {
        &self.0.error
    }

    pub(crate) fn into_parts(self) -> FailureParts {
        *self.0
    }

    /// Creates a failure whose details are not for the agent.
    pub(crate) fn internal() -> Failure {
        Failure::new(INTERNAL, "internal error in the tool; see its log")
    }

    /// Adds a message for the user.
    pub fn with_message(mut self, message: impl Into<String>) -> Failure {
        self.0.message = Some(message.into());
        self
    }

    /// Adds an instruction for the agent.
    pub fn with_instruction(mut self, instruction: impl Into<Instruction>) -> Failure {
        self.0.instruction = Some(instruction.into());
        self
    }

    /// Adds a machine-readable detail. A value that cannot be serialized is omitted.
    pub fn with_data(mut self, key: impl Into<String>, value: impl Serialize) -> Failure {
        insert_data(&mut self.0.data, key.into(), value);
        self
    }

    /// Sets the underlying error, for the log.
    pub fn caused_by(mut self, cause: impl Into<Box<dyn Error + Send + Sync>>) -> Failure {
        self.0.cause = Cause(Some(Arc::from(cause.into())));
        self
    }
}

pub(crate) fn insert_data(data: &mut Option<Map<String, Value>>, key: String, value: impl Serialize) {
    if let Ok(value) = serde_json::to_value(value) {
        data.get_or_insert_default().insert(key, value);
    }
}

/// The error type of unexpected failures.
pub(crate) const INTERNAL: &str = "internal_error";

impl<E: Into<Box<dyn Error + Send + Sync>>> From<E> for Failure {
    fn from(error: E) -> Failure {
        let error = error.into();
        let mut next: Option<&(dyn Error + 'static)> = Some(&*error);
        let mut known = None;
        while let Some(current) = next {
            known = known.or_else(|| known_kind(current));
            next = current.source();
        }
        let failure = match known {
            Some((error_type, text)) => Failure::new(error_type, text),
            None => Failure::internal(),
        };
        failure.caused_by(error)
    }
}

/// Returns the error type and text for a known kind of error. The text reveals no paths, hosts or queries.
fn known_kind(error: &(dyn Error + 'static)) -> Option<(&'static str, &'static str)> {
    if error.is::<tokio::time::error::Elapsed>() {
        return Some(("timeout", "an operation of the tool timed out"));
    }
    if let Some(error) = error.downcast_ref::<crate::client::ClientError>() {
        return Some(match error {
            crate::client::ClientError::Unsupported { .. } => {
                ("unsupported", "the client does not support the tool's request")
            }
            crate::client::ClientError::Refused { .. } => {
                ("refused", "the client refused the tool's request")
            }
            crate::client::ClientError::TimedOut { .. } => {
                ("timeout", "the client did not respond to the tool in time")
            }
            crate::client::ClientError::Disconnected => ("cancelled", "the client disconnected"),
        });
    }
    Some(match error.downcast_ref::<io::Error>()?.kind() {
        io::ErrorKind::NotFound => ("not_found", "a resource that the tool needs was not found"),
        io::ErrorKind::PermissionDenied => {
            ("permission_denied", "the tool has no permission for a resource it needs")
        }
        io::ErrorKind::AlreadyExists => {
            ("already_exists", "the item that the tool would create already exists")
        }
        io::ErrorKind::TimedOut => ("timeout", "an operation of the tool timed out"),
        io::ErrorKind::ConnectionRefused
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::NotConnected
        | io::ErrorKind::HostUnreachable
        | io::ErrorKind::NetworkUnreachable => {
            ("unavailable", "a service that the tool needs is unreachable")
        }
        _ => return None,
    })
}

impl<T, E: Into<Box<dyn Error + Send + Sync>>> OrFailure<T> for Result<T, E> {
    fn or_failure(self, error_type: impl Into<String>, error: impl Into<String>) -> Result<T, Failure> {
        self.map_err(|cause| Failure::new(error_type, error).caused_by(cause))
    }
}

impl<T> OrFailure<T> for Option<T> {
    fn or_failure(self, error_type: impl Into<String>, error: impl Into<String>) -> Result<T, Failure> {
        self.ok_or_else(|| Failure::new(error_type, error))
    }
}

impl PartialEq for Cause {
    fn eq(&self, _: &Cause) -> bool {
        true
    }
}

impl fmt::Debug for Cause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(error) => fmt::Debug::fmt(error, formatter),
            None => formatter.write_str("none"),
        }
    }
}

/// Formats the error and its sources, outermost first.
impl fmt::Display for Cause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut next = self.0.as_deref().map(|error| error as &dyn Error);
        let mut is_first = true;
        while let Some(error) = next {
            write!(formatter, "{}{error}", if is_first { "" } else { ": " })?;
            is_first = false;
            next = error.source();
        }
        Ok(())
    }
}

impl Cause {
    pub(crate) fn is_set(&self) -> bool {
        self.0.is_some()
    }
}
