//! Sessions, for clients that use a revision before 2026-07-28. Raw responses are inserted before the SDK
//! stores messages for reconnecting clients.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::{Stream, StreamExt};
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::WorkerTransport;
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError, LocalSessionWorker,
};
use rmcp::transport::streamable_http_server::session::{
    RestoreOutcome, ServerSseMessage, SessionId, SessionManager,
};
use tokio::sync::watch;

use super::raw_responses::{Closing, RawResponseTransport};
use super::request_tools::RequestTools;

/// The time after which the restoring of a session counts as given up.
const RESTORE_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) struct Sessions {
    local: LocalSessionManager,
    max: usize,
    /// Sessions that are being opened again. The SDK lists them before their handshake, and another request
    /// would end them at that moment.
    restoring: watch::Sender<HashSet<SessionId>>,
    /// The clients of sessions, if their number of sessions is limited. Sessions that have ended are removed
    /// later.
    clients: Mutex<HashMap<SessionId, String>>,
    /// The sessions whose client has opened the stream of notifications.
    streams: Streams,
}

type Streams = Arc<Mutex<HashSet<SessionId>>>;

/// The stream of notifications of a session.
struct OpenStream {
    session: SessionId,
    streams: Streams,
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.session);
    }
}

impl Sessions {
    pub(super) fn new(idle: Duration, max: usize) -> Arc<Sessions> {
        let mut local = LocalSessionManager::default();
        local.session_config.keep_alive = Some(idle);
        Arc::new(Sessions {
            local,
            max,
            restoring: watch::Sender::default(),
            clients: Mutex::default(),
            streams: Streams::default(),
        })
    }

    fn finish_restoring(&self, id: &SessionId) {
        self.restoring.send_if_modified(|restoring| restoring.remove(id));
    }

    pub(super) async fn count(&self) -> usize {
        self.local.sessions.read().await.len()
    }

    /// Whether the client of a request may have one more session. Requests at the same time may exceed the
    /// limit a little.
    pub(super) async fn has_room_for(&self, tools: Option<&RequestTools>) -> bool {
        let Some(tools) = tools else { return true };
        let Some(max) = tools.max_sessions else { return true };
        let open = self.local.sessions.read().await;
        let clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let own = clients.iter().filter(|(id, client)| **client == tools.client && open.contains_key(*id));
        own.count() < max
    }

    /// Records the client of a new session.
    async fn count_for_client(&self, id: &SessionId) {
        let Some(tools) = RequestTools::current().filter(|tools| tools.max_sessions.is_some()) else {
            return;
        };
        let open = self.local.sessions.read().await;
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        clients.retain(|id, _| open.contains_key(id));
        clients.insert(id.clone(), tools.client);
    }

    /// Whether the client has opened the stream of notifications of its session.
    pub(super) fn has_stream(&self, id: &str) -> bool {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner).contains(id)
    }

    pub(super) async fn close_all(&self) {
        let ids: Vec<SessionId> = self.local.sessions.read().await.keys().cloned().collect();
        for id in ids {
            if let Err(error) = self.local.close_session(&id).await {
                tracing::debug!(%error, "a session was not closed");
            }
        }
    }
}

impl SessionManager for Sessions {
    type Error = LocalSessionManagerError;
    type Transport = RawResponseTransport<WorkerTransport<LocalSessionWorker>>;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Self::Error> {
        let (id, transport) = self.local.create_session().await?;
        self.count_for_client(&id).await;
        Ok((id, RawResponseTransport::new(transport, Closing::default())))
    }

    async fn restore_session(&self, id: SessionId) -> Result<RestoreOutcome<Self::Transport>, Self::Error> {
        let has_room = self.has_room_for(RequestTools::current().as_ref()).await;
        if !has_room || self.count().await >= self.max {
            return Ok(RestoreOutcome::NotSupported);
        }
        self.restoring.send_if_modified(|restoring| restoring.insert(id.clone()));
        let restored = self.local.restore_session(id.clone()).await;
        if !matches!(restored, Ok(RestoreOutcome::Restored(_))) {
            self.finish_restoring(&id);
        } else {
            self.count_for_client(&id).await;
        }
        Ok(match restored? {
            RestoreOutcome::Restored(transport) => {
                RestoreOutcome::Restored(RawResponseTransport::new(transport, Closing::default()))
            }
            RestoreOutcome::AlreadyPresent => RestoreOutcome::AlreadyPresent,
            _ => RestoreOutcome::NotSupported,
        })
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Self::Error> {
        self.local.initialize_session(id, message).await
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Self::Error> {
        let mut restoring = self.restoring.subscribe();
        let restored = restoring.wait_for(|restoring| !restoring.contains(id));
        if tokio::time::timeout(RESTORE_TIMEOUT, restored).await.is_err() {
            self.finish_restoring(id);
            let _ = self.local.close_session(id).await;
        }
        self.local.has_session(id).await
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Self::Error> {
        self.local.close_session(id).await
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.local.create_stream(id, message).await
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Result<(), Self::Error> {
        let accepted = self.local.accept_message(id, message).await;
        // The handshake of a restored session ends with this message.
        self.finish_restoring(id);
        accepted
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let stream = self.local.create_standalone_stream(id).await?;
        let is_first = self.streams.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone());
        let open = is_first.then(|| OpenStream { session: id.clone(), streams: self.streams.clone() });
        Ok(stream.map(move |message| {
            let _ = &open;
            message
        }))
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.local.resume(id, last_event_id).await
    }
}
