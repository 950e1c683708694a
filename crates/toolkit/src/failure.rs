//! Why a tool failed: what the agent may know, and what only the log may.

use std::error::Error;
use std::fmt;
use std::io;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::instruction::Instruction;

/// Why a tool failed.
///
/// Every ordinary error becomes one by `?`, and then says only that something went wrong inside: the error itself goes to
/// the log. What the agent should know is said on purpose, by [`Failure::new`] or [`OrFailure::or_failure`].
///
/// It is no [`Error`] itself, as only so every error can become one.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure(Box<Parts>);

/// What an outcome says of a failure. In a box, so that a `Result` with a failure in it is no larger than one without.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Parts {
    pub(crate) error_type: String,
    pub(crate) error: String,
    pub(crate) message: Option<String>,
    pub(crate) instruction: Option<Instruction>,
    pub(crate) data: Option<Map<String, Value>>,
    pub(crate) cause: Cause,
}

/// The error behind a failure. It is for the log alone: it is not serialised, and does not count when outcomes are compared.
#[derive(Clone, Default)]
pub(crate) struct Cause(Option<Arc<dyn Error + Send + Sync>>);

/// Says on purpose what a failed step means, so that the agent may read it.
pub trait OrFailure<T> {
    /// The value, or a failure with this type and these words; an error that was there becomes its cause, for the log.
    fn or_failure(self, error_type: impl Into<String>, error: impl Into<String>) -> Result<T, Failure>;
}

impl Failure {
    /// A failure of a type, which is a word for programs (`not_found`), and in words for the agent.
    pub fn new(error_type: impl Into<String>, error: impl Into<String>) -> Failure {
        Failure(Box::new(Parts {
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

    pub(crate) fn into_parts(self) -> Parts {
        *self.0
    }

    /// Something broke that is none of the agent's business.
    pub(crate) fn internal() -> Failure {
        Failure::new(INTERNAL, "internal error in the tool; see its log")
    }

    /// Adds words for the user.
    pub fn with_message(mut self, message: impl Into<String>) -> Failure {
        self.0.message = Some(message.into());
        self
    }

    /// Adds what the agent should do next.
    pub fn with_instruction(mut self, instruction: impl Into<Instruction>) -> Failure {
        self.0.instruction = Some(instruction.into());
        self
    }

    /// Adds a fact for programs. What has no JSON is left out.
    pub fn with_data(mut self, key: impl Into<String>, value: impl Serialize) -> Failure {
        insert_data(&mut self.0.data, key.into(), value);
        self
    }

    /// The error behind it, for the log.
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

/// The type of failures nobody foresaw.
pub(crate) const INTERNAL: &str = "internal_error";

impl<E: Into<Box<dyn Error + Send + Sync>>> From<E> for Failure {
    fn from(error: E) -> Failure {
        let error = error.into();
        let mut next: Option<&(dyn Error + 'static)> = Some(&*error);
        let mut known = None;
        while let Some(here) = next {
            known = known.or_else(|| known_kind(here));
            next = here.source();
        }
        let failure = match known {
            Some((error_type, words)) => Failure::new(error_type, words),
            None => Failure::internal(),
        };
        failure.caused_by(error)
    }
}

/// The type and the words for errors whose kind says enough, and nothing of paths, hosts or queries.
fn known_kind(error: &(dyn Error + 'static)) -> Option<(&'static str, &'static str)> {
    if error.is::<tokio::time::error::Elapsed>() {
        return Some(("timeout", "an operation of the tool timed out"));
    }
    if let Some(error) = error.downcast_ref::<crate::ClientError>() {
        return Some(match error {
            crate::ClientError::Unsupported { .. } => {
                ("unsupported", "the client does not support the tool's request")
            }
            crate::ClientError::Refused { .. } => ("refused", "the client refused the tool's request"),
            crate::ClientError::TimedOut { .. } => {
                ("timeout", "the client did not respond to the tool in time")
            }
            crate::ClientError::Disconnected => ("cancelled", "the client disconnected"),
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

/// The error and each one behind it, from the outside in.
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
    pub(crate) fn is_known(&self) -> bool {
        self.0.is_some()
    }
}
