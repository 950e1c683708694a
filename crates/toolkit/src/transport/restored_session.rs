//! Sessions that another process has opened.
//!
//! A session here has little state: what the client sent with `initialize`. An application that knows it for
//! an unknown session can have the session opened again, so that any of several processes continues it.

use rmcp::transport::streamable_http_server::session::{SessionState, SessionStore, SessionStoreError};
use serde_json::Value;

tokio::task_local! {
    /// The parameters for the session of the HTTP request that the SDK is handling.
    static OF_REQUEST: Option<RestoredSession>;
}

/// The parameters of the `initialize` that has opened the session of an HTTP request. The application adds
/// them to the extensions of the request, after it has checked that the session exists and belongs to the
/// client. If the session is not known here, it is opened again under the same id.
#[derive(Clone)]
pub struct RestoredSession(pub Value);

impl RestoredSession {
    /// Handles an HTTP request with the session that it names.
    pub(super) async fn scope<T>(session: Option<RestoredSession>, handling: impl Future<Output = T>) -> T {
        OF_REQUEST.scope(session, handling).await
    }
}

/// Finds the parameters of a session in the request, so nothing is stored.
pub(super) struct OfRequest;

#[async_trait::async_trait]
impl SessionStore for OfRequest {
    async fn load(&self, _id: &str) -> Result<Option<SessionState>, SessionStoreError> {
        let session = OF_REQUEST.try_with(Clone::clone).ok().flatten();
        let params = session.and_then(|RestoredSession(params)| serde_json::from_value(params).ok());
        Ok(params.map(SessionState::new))
    }

    async fn store(&self, _id: &str, _state: &SessionState) -> Result<(), SessionStoreError> {
        Ok(())
    }

    async fn delete(&self, _id: &str) -> Result<(), SessionStoreError> {
        Ok(())
    }
}
