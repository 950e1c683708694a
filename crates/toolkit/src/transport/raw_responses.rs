//! Raw JSON responses, inserted below the SDK's types.
//!
//! The handler returns a placeholder to the SDK and stores the real response under the id of the request. The
//! placeholder is replaced when the message is sent: on streams and in sessions by [`RawResponseTransport`],
//! in single HTTP responses by `response_body`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{
    ClientJsonRpcMessage, CustomResult, ErrorCode, GetExtensions, JsonRpcMessage, RequestId,
    ServerJsonRpcMessage, ServerResult,
};
use rmcp::service::RequestContext;
use rmcp::transport::Transport;
use rmcp::{ErrorData, RoleServer};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

/// The error code for requests during shutdown, in the range that JSON-RPC reserves for servers.
const SHUTTING_DOWN: ErrorCode = ErrorCode(-32000);

/// The unsent responses of one connection.
#[derive(Clone, Debug, Default)]
pub(super) struct RawResponses(Arc<Mutex<HashMap<RequestId, Value>>>);

impl RawResponses {
    /// Returns the store for the response to a request: that of the connection, or that of the HTTP request.
    pub(super) fn of(context: &RequestContext<RoleServer>) -> Option<&RawResponses> {
        let parts = context.extensions.get::<http::request::Parts>();
        let of_request = || parts.and_then(|parts| parts.extensions.get::<RawResponses>());
        context.extensions.get::<RawResponses>().or_else(of_request)
    }

    pub(super) fn put(&self, id: RequestId, result: Map<String, Value>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id, Value::Object(result));
    }

    pub(super) fn take(&self, id: &RequestId) -> Option<Value> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(id)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Replaces the placeholder in a serialized message; `None` if there is nothing to replace.
    pub(super) fn replace_in_text(&self, message: &[u8]) -> Option<Vec<u8>> {
        let mut message: Map<String, Value> = serde_json::from_slice(message).ok()?;
        let id: RequestId = serde_json::from_value(message.get("id")?.clone()).ok()?;
        let result = message.get_mut("result")?;
        *result = self.take(&id)?;
        serde_json::to_vec(&message).ok()
    }
}

/// The steps of closing a transport.
#[derive(Clone, Default)]
pub(super) struct Closing {
    /// Rejects new requests. Replies to our questions are still accepted, so that running calls can finish.
    pub(super) requests: CancellationToken,
    /// Stops reading; pending responses are still sent.
    pub(super) reading: CancellationToken,
}

/// A transport that replaces placeholders by raw responses and can be closed from outside.
pub(super) struct RawResponseTransport<T> {
    inner: T,
    responses: RawResponses,
    closing: Closing,
    is_opened: bool,
}

impl<T> RawResponseTransport<T> {
    pub(super) fn new(inner: T, closing: Closing) -> RawResponseTransport<T> {
        RawResponseTransport { inner, responses: RawResponses::default(), closing, is_opened: false }
    }
}

impl<T: Transport<RoleServer>> Transport<RoleServer> for RawResponseTransport<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        mut message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), T::Error>> + Send + 'static {
        if let JsonRpcMessage::Response(response) = &mut message
            && let Some(result) = self.responses.take(&response.id)
        {
            response.result = ServerResult::CustomResult(CustomResult::new(result));
        }
        self.inner.send(message)
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            let mut message = tokio::select! {
                message = self.inner.receive() => message?,
                () = self.closing.reading.cancelled() => return None,
            };
            match &mut message {
                JsonRpcMessage::Request(request) if self.closing.requests.is_cancelled() => {
                    let refusal = ErrorData::new(SHUTTING_DOWN, "the server is shutting down", None);
                    let refusal = JsonRpcMessage::error(refusal, Some(request.id.clone()));
                    if self.inner.send(refusal).await.is_err() {
                        return None;
                    }
                }
                JsonRpcMessage::Request(request) => {
                    self.is_opened = true;
                    request.request.extensions_mut().insert(self.responses.clone());
                    return Some(message);
                }
                // The SDK closes a connection that does not begin with a request.
                _ if !self.is_opened => (),
                _ => return Some(message),
            }
        }
    }

    async fn close(&mut self) -> Result<(), T::Error> {
        self.inner.close().await
    }
}
