//! Errors of the SDK while it starts a session.

use std::io;
use std::time::Duration;

use rmcp::service::ClientInitializeError;
use tokio::time::timeout;
use toolwire_contract::text::truncate;

use crate::config::SentSecrets;
use crate::session::error::ConnectError;
use crate::transport::{Connection, ConnectionEnd, SpawnError};

/// The maximum wait for a process to exit after its pipe broke, because the exit status explains more.
const EXIT_WAIT: Duration = Duration::from_secs(1);

const MAX_REASON_CHARS: usize = 300;

/// Finds out why the SDK could not start a session.
pub(super) async fn explain(
    error: ClientInitializeError,
    connection: &Connection,
    secrets: &SentSecrets,
) -> ConnectError {
    match error {
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => {
            Box::pin(explain(*fallback, connection, secrets)).await
        }
        ClientInitializeError::JsonRpcError(error) => {
            ConnectError::Rejected { code: error.code.0.into(), message: error.message.into_owned() }
        }
        error => {
            if let Some(failure) = connection.last_failure() {
                return ConnectError::Failed(failure);
            }
            let is_disconnected = matches!(
                error,
                ClientInitializeError::ConnectionClosed(_) | ClientInitializeError::TransportError { .. }
            );
            if is_disconnected
                && let Ok(end) = timeout(EXIT_WAIT, connection.ended()).await
                && end != ConnectionEnd::Closed
            {
                return match end {
                    ConnectionEnd::NotStarted { path, code } => {
                        SpawnError::Failed { path, source: io::Error::from_raw_os_error(code) }.into()
                    }
                    end => ConnectError::Ended { end },
                };
            }
            let reason = secrets.redact(error.to_string());
            ConnectError::Protocol { reason: truncate(&reason, MAX_REASON_CHARS).into_owned() }
        }
    }
}
